//! The child's side: forwards one ask to another session, waits, and gives the decision to act on.
//!
//! ```text
//! Requester::ask ─▶ write request (locked) ─▶ wait: response │ nobody serves │ deadline ─▶ consume ─▶ Answer
//! ```
//!
//! Whatever goes wrong on the way is a denial that says what happened; only a response that answers this very request, from
//! the session that was asked, can be an approval. Dropping the future takes the request back.
//!
//! One [`Requester`] serves any number of asks at once: they share one watcher, one look at the session's liveness, and one
//! listing of its responses for each poll.

mod abandonment;
mod facts;
mod record;
mod state;
mod submit;
mod target;
mod verify;
mod wait;

use std::sync::Arc;
use std::time::Duration;

pub(crate) use crate::audit::describe;

pub use abandonment::{Abandonment, Outcome};
pub use facts::{PlainAsk, Spellings, intent_of};
pub use state::{
    Around, Due, Glance, Heartbeats, LIVENESS_EVERY, LIVENESS_FIRST, Next, OTHER_KEY_GRACE,
    POLL_PROVEN, POLL_UNPROVEN, REFUSED_GRACE, SERVING_GRACE, Seals, TORN_GRACE, Waiting,
};
pub use target::{Candidate, CandidateKind, NoParent, Target, resolve};
pub use verify::{Expected, Mismatch, Seen, Verified, verify};

use crate::audit::{Ending, Entry, ReviewLog};
use crate::clock;
use crate::spool::{Spool, Watch};
use crate::wire::{
    ApprovalGrant, Decision, ForwardedAccessIntent, Generation, Hop, PromptPayload, RequestId,
    RequestSource, ServingKey, SessionId,
};

/// What is asked.
#[derive(Debug, Clone)]
pub struct Ask {
    /// Id of the ask where the caller has one; used if it is safe as a file name, else a fresh one is minted.
    pub id: Option<String>,
    /// The complete facts.
    pub payload: PromptPayload,
    /// What led to the ask.
    pub source: RequestSource,
    /// Display surface.
    pub surface: Option<String>,
    /// Display value.
    pub value: Option<String>,
    /// What could be granted for the session.
    pub grants: Vec<ApprovalGrant>,
    /// The facts that a policy judges; without them no rule allows anything.
    pub access_intent: Option<ForwardedAccessIntent>,
    /// How long to wait at most.
    pub timeout: Duration,
    /// Sessions that the ask came through before this one, outermost child first.
    pub path: Vec<Hop>,
    /// Only what was decided beforehand is wanted: see [`Decision::is_unruled`].
    pub rules_only: bool,
    /// It is about a call that is asked by another name as well: what holds where no rule is about it is not wanted either. Counts with
    /// `rules_only` alone.
    pub guard: bool,
    /// Nobody is to be asked, also where a rule says so: see [`Decision::is_unasked`]. Counts with `rules_only` alone.
    pub verdict_only: bool,
}

/// How an ask ended, and what is known about it.
#[derive(Debug, Clone)]
#[must_use]
pub struct Answer {
    /// Id of the ask.
    pub request_id: RequestId,
    /// How it ended.
    pub outcome: Outcome,
    /// Whether the answer carried a verified seal.
    pub sealed: bool,
    /// How long was waited.
    pub waited: Duration,
}

impl Answer {
    /// The decision to act on.
    pub fn decision(&self) -> Decision {
        self.outcome.decision()
    }
}

/// Who asks, whom, and how.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The session that is asked.
    pub target: SessionId,
    /// Own session id.
    pub session_id: String,
    /// Own agent name.
    pub agent_name: String,
    /// For which generation of the peer requests are written.
    pub generation: Generation,
    /// Whose answers are believed.
    pub trust: Trust,
    /// What is done where it is certain that nobody serves the session.
    pub where_nobody_serves: WhereNobodyServes,
}

/// What is done where it is certain that nobody serves the session that is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhereNobodyServes {
    /// It is waited for as long as for one whose server has ended: whoever starts a child may start its server at the same time.
    Wait,
    /// Nothing is asked.
    GiveUp,
}

/// Whose answers a requester believes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trust {
    /// Whatever lies at the place of the answer, names the session that was asked, and is to the bytes that were.
    Anybody,
    /// Only what the session with this key has sealed.
    Pinned(Box<ServingKey>),
    /// Nobody: answers must be sealed, and the key is not known. Nothing is asked then.
    NoKey,
}

/// Asks one session. Cheap to clone; all clones share what they watch.
#[derive(Debug, Clone)]
pub struct Requester {
    shared: Arc<wait::Shared>,
}

impl Requester {
    /// A requester on an open spool. Without a watch it polls.
    pub fn new(
        spool: &Spool,
        settings: Settings,
        watch: Option<Arc<Watch>>,
        log: Arc<ReviewLog>,
    ) -> Self {
        Self {
            shared: Arc::new(wait::Shared::new(spool, settings, watch, log)),
        }
    }

    /// Whose answers it believes.
    pub fn trust(&self) -> &Trust {
        &self.shared.settings.trust
    }

    /// Forwards one ask and waits for its end. Dropping the future withdraws the request.
    pub async fn ask(&self, ask: Ask) -> Answer {
        wait::ask(&self.shared, ask).await
    }
}

/// An ask that could not even be addressed: there is no session, or no spool. It is recorded like any other.
pub fn unaddressed(id: Option<&str>, abandonment: Abandonment, log: &ReviewLog) -> Answer {
    let request_id = submit::adopt_or_mint(id);
    let entry = Entry::ending(Ending::RequestFailed, &abandonment.decision().decided_by)
        .with("requestId", request_id.as_str())
        .with("reason", abandonment.reason());
    // The denial says the same; a log that cannot be written does not change it.
    let _logged = log.append_or_hold(clock::wall_ms(), &[entry]);
    Answer {
        request_id,
        outcome: Outcome::Abandoned(abandonment),
        sealed: false,
        waited: Duration::ZERO,
    }
}

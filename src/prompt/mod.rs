//! The person: how an ask is put before somebody, and how an answer comes back.
//!
//! A prompter shows one ask at a time and reports what was chosen, bound to the id and the digest of what it showed. It
//! decides nothing, keeps no queue, and never blocks: reading input happens on a thread of its own.

mod app;
mod cells;
mod countdown;
mod form;
mod inbox;
mod keys;
mod line_editor;
mod options;
mod paint;
mod panel;
mod reader;
mod said;
mod script;
mod select;
mod table;
mod terminal;
mod view;

pub use app::{DialogSettings, Presses};
pub use form::{
    Around, Credit, FormClient, FormPrompter, FormReplies, FormReply, FormSettings, LookAround,
    form_program,
};
pub use inbox::InboxSettings;
pub use keys::DEAD_TIME;
pub use paint::Colours;
pub use script::{Script, ScriptedPrompter};
pub use select::{Input, SelectPrompter};
pub use terminal::{TerminalError, TerminalPrompter};

use std::sync::Arc;

use tokio::sync::mpsc;

use crate::presentation::select::{Ask, Choice, Plain, Question};
use crate::presentation::table::Asker;
use crate::serve::{Alike, InLine, Listing, Shown};
use crate::wire::{
    AuthorizerVerdict, Decision, DecisionSource, Digest, PromptPayload, RequestId, UserSurface,
};

/// What comes from the person.
#[derive(Debug)]
pub enum PersonEvent {
    /// An answer to what was shown.
    Chosen {
        /// Id of the ask.
        id: RequestId,
        /// Digest of what was shown.
        digest: Digest,
        /// What was chosen.
        choice: Choice,
        /// Who chose.
        by: Answerer,
    },
    /// What was shown is put off: that is no answer.
    PutOff {
        /// Id of the ask.
        id: RequestId,
        /// Digest of what was shown.
        digest: Digest,
        /// Where this was said.
        via: UserSurface,
    },
    /// What was put off is to be shown again.
    Resume,
    /// Several asks that are alike were answered with one answer, after each of them was named.
    AnsweredTogether {
        /// Their ids and the digests of what was named, the one that was shown first.
        asks: Vec<(RequestId, Digest)>,
        /// What they have in common.
        likeness: Digest,
        /// The answer.
        verdict: Plain,
        /// Who gave it.
        by: Answerer,
    },
    /// The review of an ask that waits in the inbox is wanted.
    Review(RequestId),
    /// A review is left without a decision.
    Close(RequestId),
    /// An ask that waits in the inbox was denied unopened.
    Denied {
        /// Id of the ask.
        id: RequestId,
        /// Digest that the list gave for it.
        digest: Digest,
        /// Who denied it.
        by: Answerer,
    },
    /// An ask cannot be shown, by a fault of the program.
    Unshowable {
        /// Id of the ask.
        id: RequestId,
        /// Digest of what should have been shown.
        digest: Digest,
        /// What happened.
        cause: String,
    },
    /// What was shown was put away, or answered by what cannot have been an answer: nobody has decided it, and nobody will.
    Unanswered {
        /// Id of the ask.
        id: RequestId,
        /// Digest of what was shown.
        digest: Digest,
        /// What happened.
        cause: String,
    },
    /// The input has ended: nobody is there any more.
    Gone,
    /// The person wants the session to end.
    Leave,
}

/// Who gave an answer. Only a person is ever credited as one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answerer {
    /// A person, on this surface.
    Person(UserSurface),
    /// A program that stands in for one, by its name.
    Program(Arc<str>),
}

impl Answerer {
    /// The decision that a choice of this answerer is.
    pub fn decision(self, choice: Choice) -> Decision {
        match self {
            Self::Person(via) => choice.decision(via),
            Self::Program(name) => {
                // The surface is replaced at once: no person was there.
                let mut decision = choice.decision(UserSurface::Select);
                let verdict = if decision.is_approved() {
                    AuthorizerVerdict::Allow
                } else {
                    AuthorizerVerdict::Deny
                };
                let (name, reason) = (name.to_string(), decision.denial_reason.clone());
                decision.decided_by = DecisionSource::Authorizer {
                    name,
                    verdict,
                    reason,
                };
                decision
            }
        }
    }
}

/// The question that an ask is to a person, and its payload as it is shown.
fn question(shown: &Shown) -> (PromptPayload, Question) {
    let payload = shown.payload();
    let question = Question::decide(&ask(shown, &payload));
    let question = question.beside(&askers(shown, &shown.alike), shown.alike.more);
    (payload, question)
}

/// An ask and those that are like it, by who asks.
fn askers<'a>(shown: &'a Shown, alike: &'a Alike) -> Vec<Asker<'a>> {
    let request = &shown.request;
    let own = Asker {
        id: &request.id,
        agent: request.agent_name().unwrap_or_default(),
        session: &request.requester_session_id,
        path: request.relay.as_ref().map_or(&[][..], |relay| &relay.path),
        age: shown.age,
    };
    let twins = alike.twins.iter().map(|twin| Asker {
        id: &twin.id,
        agent: &twin.agent,
        session: &twin.session,
        path: &twin.path,
        age: twin.age,
    });
    [own].into_iter().chain(twins).collect()
}

/// An ask and those that are like it, by what an answer to all of them is for.
fn named(shown: &Shown, alike: &Alike) -> Vec<(RequestId, Digest)> {
    let own = (shown.request.id.clone(), shown.digest);
    let twins = alike.twins.iter();
    let twins = twins.map(|twin| (twin.id.clone(), twin.digest));
    [own].into_iter().chain(twins).collect()
}

/// What a question about an ask is made of.
fn ask<'a>(shown: &'a Shown, payload: &'a PromptPayload) -> Ask<'a> {
    let request = &shown.request;
    let path = request.relay.as_ref().map_or(&[][..], |relay| &relay.path);
    let directory = request
        .access_intent
        .as_ref()
        .map(|intent| intent.requester_cwd.as_str());
    Ask {
        payload,
        path,
        grants: &request.grants,
        directory,
        asked_because: shown
            .asked_because
            .as_deref()
            .filter(|because| payload.request.matched_pattern.as_deref() != Some(*because)),
        with_chain: shown.with_chain.as_deref(),
        waiting: shown.in_line.waiting,
    }
}

/// Where answers are sent.
pub type PersonEvents = mpsc::UnboundedSender<PersonEvent>;

/// Shows asks to a person.
pub trait Prompter: Send {
    /// Shows an ask; none is open.
    fn show(&mut self, shown: Shown);

    /// Tells which asks are like the one that is open, for they have changed.
    fn alike(&mut self, _id: &RequestId, _alike: Alike) {}

    /// Takes the ask that is open away.
    fn withdraw(&mut self, id: &RequestId, why: &str);

    /// Shows what waits in the inbox. Only the inbox mode has one.
    fn list(&mut self, _listing: Listing) {}

    /// Tells the person something that needs no answer.
    fn notice(&mut self, text: &str);

    /// So many asks wait behind the one that is shown.
    fn waiting(&mut self, _in_line: InLine) {}

    /// This link of the chain thinks about the ask that is shown now, or none does any more.
    fn thinking(&mut self, _id: &RequestId, _link: Option<&str>) {}
}

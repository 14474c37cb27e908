//! Everything that can happen to a serving session, and everything that it can do: the two alphabets of the pure step.

use std::sync::Arc;
use std::time::Duration;

use super::chain::Link;
use super::listing::Listing;
use super::renewal::Renewal;
use crate::audit::Entry;
use crate::clock::Moment;
use crate::policy::{GrantId, SessionGrant};
use crate::presentation::broadcast::Broadcast;
use crate::presentation::select::{Choice, Plain};
use crate::program::Outcome as ProgramOutcome;
use crate::prompt::Answerer;
use crate::spool::{Candidate, FileRead, FileStamp, RequesterLife};
use crate::wire::{
    Annotation, AskFacts, Decision, Digest, ForwardedPermissionRequest, Hop, LinkVerdict,
    PromptPayload, RequestId, UserSurface,
};

/// An input.
#[derive(Debug)]
pub enum Event {
    /// The inbox holds exactly these candidates.
    Listed(Vec<Candidate>),
    /// A candidate was read.
    Read(Candidate, FileRead, RequesterLife),
    /// A file of this name was closed by a process that could write it.
    Closed(RequestId),
    /// Somebody looked whether a requester still waits.
    Life(RequestId, RequesterLife),
    /// A person decided the ask that was shown with this digest.
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
    /// A person puts off the ask that was shown with this digest. That is no decision, and nothing makes it one.
    PutOff {
        /// Id of the ask.
        id: RequestId,
        /// Digest of what was shown.
        digest: Digest,
        /// Where they said so.
        via: UserSurface,
    },
    /// The person wants to see what they have put off.
    Resume,
    /// A person answered several asks that are alike with one answer: each of them, and no other, once it has been judged again.
    AnsweredTogether {
        /// Their ids, and the digests of what was named; the one that was on screen first.
        asks: Vec<(RequestId, Digest)>,
        /// What they have in common.
        likeness: Digest,
        /// The answer. Nothing can be granted with it.
        verdict: Plain,
        /// Who gave it.
        by: Answerer,
    },
    /// The person asks for the review of an ask of the inbox.
    Review(RequestId),
    /// The person leaves the review of an ask without a decision.
    CloseReview(RequestId),
    /// A person denied an ask of the inbox unopened.
    Denied {
        /// Id of the ask.
        id: RequestId,
        /// Digest that the list gave for it.
        digest: Digest,
        /// Who denied it.
        by: Answerer,
    },
    /// Showing an ask with this digest failed.
    Unshowable {
        /// Id of the ask.
        id: RequestId,
        /// Digest of what should have been shown.
        digest: Digest,
        /// What happened.
        cause: String,
    },
    /// Nobody decided the ask that was shown with this digest, and nobody here will.
    Unanswered {
        /// Id of the ask.
        id: RequestId,
        /// Digest of what was shown.
        digest: Digest,
        /// What happened.
        cause: String,
    },
    /// The person is gone: nobody can be asked here any more.
    PersonGone,
    /// The parent session answered an ask that was passed on to it with these bytes, or nobody did.
    Relayed(RequestId, Digest, RelayOutcome),
    /// What the annotators made of an ask of these bytes, in their order.
    Annotated(RequestId, Digest, Vec<AnnotatorOutcome>),
    /// A link of the chain has answered, or failed.
    Authorized(Authorized),
    /// The parent session is, or is not, demonstrably being served.
    Parent(ParentLife),
    /// What became of an answer.
    Answered(RequestId, Delivery),
    /// The configuration was read again.
    Renewed(Box<Renewal>),
    /// These grants have their files.
    GrantsKept(Vec<SessionGrant>),
    /// These grants have none any more, and why.
    GrantsLost(Vec<(GrantId, String)>),
    /// A candidate could not be moved aside.
    Stuck(Candidate),
    /// The machine has slept for so long, which the clock of this session did not see.
    Slept(Duration),
    /// Time has passed.
    Tick,
    /// The session ends.
    Shutdown,
}

/// How passing an ask on to the parent ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RelayOutcome {
    /// The parent answered.
    Answered(Decision),
    /// Nobody ruled there; a person here may still.
    Nobody(Decision),
}

/// What one annotator made of an ask: a text, and nothing that could decide.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnnotatorOutcome {
    /// Its name.
    pub name: String,
    /// Its text.
    pub outcome: ProgramOutcome<String>,
}

/// How asking a link of the chain ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Authorized {
    /// Id of the ask.
    pub id: RequestId,
    /// Digest of the bytes that it was asked about.
    pub digest: Digest,
    /// Name of the link.
    pub link: String,
    /// What it said.
    pub outcome: ProgramOutcome<LinkVerdict>,
    /// How long it took.
    pub latency: Duration,
}

/// Whether the parent can be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParentLife {
    /// It is served.
    Serving,
    /// It is not, or that cannot be told.
    NotServing,
}

/// How many asks wait for their turn before the person.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct InLine {
    /// All of them.
    pub waiting: usize,
    /// Those among them that the person has put off, and that rest.
    pub put_off: usize,
}

/// What became of an answer.
#[derive(Debug)]
pub enum Delivery {
    /// It was published.
    Delivered,
    /// It could not be recorded, as this session demands, so a denial was published in its place.
    Unrecorded,
    /// Nobody waits for it any more; it was neither recorded nor published.
    Withdrawn,
    /// It was recorded, and nobody can take it.
    Unclaimed,
    /// Something else has the request's name now; it was neither recorded nor published.
    Swapped,
    /// It was recorded, and another file has the request's name now.
    RequestChanged,
    /// The requester ended before a person's decision could reach it.
    RequesterGone,
    /// This session had answered it already, before a restart.
    AlreadyAnswered,
    /// It rests on a grant that is not in force any more: those whose files are lost are named. It was neither recorded nor published.
    GrantsGone(Vec<(GrantId, String)>),
    /// It rests on a grant, and it cannot be told whether that is in force. It was neither recorded nor published.
    GrantsUnsure,
    /// It could not be written; it is tried again.
    Failed(String),
}

/// What is told in the place of a decision that has to be recorded and cannot be.
pub(super) const UNRECORDED: &str =
    "the decision could not be recorded, and this session decides nothing unrecorded";

/// An output.
#[derive(Debug)]
pub enum Effect {
    /// Read this candidate.
    Read(Candidate),
    /// Record the entries, then publish the answer, then say what became of it.
    Answer(Box<Answer>),
    /// Write to the review log.
    Log(Entry),
    /// Tell whoever listens.
    Broadcast(Broadcast),
    /// Look whether the requester still waits.
    CheckLife(RequestId),
    /// Remove a request whose requester is gone.
    Remove(RequestId),
    /// Move a candidate aside, and answer it where its name is a safe id.
    SetAside {
        /// What.
        candidate: Candidate,
        /// Digest of its bytes, where they could be read.
        digest: Option<Digest>,
        /// Why.
        reason: String,
        /// What its requester is told; `None` where nobody waits.
        answer: Option<Decision>,
    },
    /// Show an ask to the person.
    Show(Box<Shown>),
    /// Tell which asks are like the one that is shown, for they have changed.
    Alike {
        /// The one that is shown.
        id: RequestId,
        /// Those that are like it now.
        alike: Alike,
    },
    /// Take the ask that is shown away.
    Withdraw {
        /// Which.
        id: RequestId,
        /// Why it went, for the person.
        why: String,
    },
    /// Tell the person something that needs no answer.
    Notice(String),
    /// Show what waits in the inbox.
    List(Box<Listing>),
    /// Pass an ask on to the parent.
    Relay(Box<Relay>),
    /// Stop waiting for the parent's answer to it.
    CancelRelay(RequestId),
    /// Ask the annotators about an ask that a person will be asked.
    Annotate(Box<Annotate>),
    /// Nobody will read what they write about it.
    CancelAnnotating(RequestId),
    /// Write the files of grants that are to come into force.
    KeepGrants(RequestId, Vec<SessionGrant>),
    /// An answer rested on this grant: write its file anew.
    CountGrant(Arc<SessionGrant>),
    /// This grant has ended: remove its file.
    DropGrant(GrantId),
    /// Ask a link of the chain about an ask.
    Authorize(Box<Authorize>),
    /// Nobody heeds what it says about it.
    CancelAuthorizing(RequestId),
    /// This link thinks about the ask that is on screen now, or none does any more.
    Thinking(RequestId, Option<String>),
    /// Everything is settled: the session can end.
    Finished,
}

/// An answer to publish.
#[derive(Debug)]
pub struct Answer {
    /// Id of the ask.
    pub id: RequestId,
    /// The file that was decided.
    pub stamp: FileStamp,
    /// Digest of its bytes.
    pub digest: Digest,
    /// The decision, scope translated.
    pub decision: Decision,
    /// What is written to the review log first.
    pub entries: Vec<Entry>,
    /// What is told to whoever listens once it is recorded; nothing where it was told, or a rule decided.
    pub told: Option<Broadcast>,
    /// Whether the requester must be seen to live before the answer counts.
    pub care: Care,
    /// The grants that must be in force when it is published.
    pub rests_on: Vec<GrantId>,
}

/// How carefully an answer is delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Care {
    /// As fast as possible: it can be made again.
    Fast,
    /// A person decided: the requester is looked at first, and nothing is recorded that reaches nobody.
    Person,
}

/// An ask as it is shown.
#[derive(Debug, Clone)]
pub struct Shown {
    /// The request, as read.
    pub request: ForwardedPermissionRequest,
    /// Digest of its bytes.
    pub digest: Digest,
    /// The pattern or sentinel of this session that made it an ask.
    pub asked_because: Option<String>,
    /// What the annotators of this session say about it.
    pub annotations: Vec<Annotation>,
    /// The link of the chain that has not answered yet, and may decide before the person does.
    pub with_chain: Option<String>,
    /// The others that wait.
    pub in_line: InLine,
    /// How long the requester will still wait, where it said so.
    pub time_left: Option<Duration>,
    /// How old it is.
    pub age: Duration,
    /// Those in line that are like it in everything but who asks.
    pub alike: Alike,
}

/// The asks in line that are like one that is shown.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Alike {
    /// What they have in common with it; `None` where it can have nothing in common with any.
    pub likeness: Option<Digest>,
    /// They, in order of arrival.
    pub twins: Vec<Twin>,
    /// Whether there are more of them than these.
    pub more: bool,
}

/// An ask in line that is like one that is shown: who asks, and no word of what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Twin {
    /// Id of the ask.
    pub id: RequestId,
    /// Digest of its bytes. An answer is for these.
    pub digest: Digest,
    /// Agent that asks, empty where it has no name.
    pub agent: String,
    /// Session that asks.
    pub session: String,
    /// The sessions that it came through.
    pub path: Vec<Hop>,
    /// How old it is.
    pub age: Duration,
}

impl Alike {
    /// Whether these are the same asks as those.
    pub fn names_the_same_as(&self, other: &Self) -> bool {
        let names = |alike: &Self| -> Vec<(RequestId, Digest)> {
            let twins = alike.twins.iter();
            twins.map(|twin| (twin.id.clone(), twin.digest)).collect()
        };
        (self.likeness, self.more) == (other.likeness, other.more) && names(self) == names(other)
    }
}

impl Shown {
    /// Everything that is shown of it. What a model wrote on the requester's side says so in its source, so that it cannot pass
    /// for the word of an annotator of this session.
    pub fn payload(&self) -> PromptPayload {
        let mut payload = self.request.projection();
        let foreign = std::mem::replace(&mut payload.annotations, self.annotations.clone());
        payload
            .annotations
            .extend(foreign.into_iter().map(|note| Annotation {
                source: format!("{}, sent by the requester", note.source),
                text: note.text,
            }));
        payload
    }
}

/// An ask to be annotated.
#[derive(Debug, Clone)]
pub struct Annotate {
    /// Digest of its bytes.
    pub digest: Digest,
    /// What the annotators get of it.
    pub facts: AskFacts,
}

/// An ask to put to a link of the chain.
#[derive(Debug, Clone)]
pub struct Authorize {
    /// Digest of its bytes.
    pub digest: Digest,
    /// Who is asked.
    pub link: Arc<Link>,
    /// What the link gets of it.
    pub facts: Arc<AskFacts>,
}

/// An ask to pass on.
#[derive(Debug, Clone)]
pub struct Relay {
    /// The request, as read.
    pub request: ForwardedPermissionRequest,
    /// Digest of its bytes.
    pub digest: Digest,
    /// How long the parent may take.
    pub budget: Duration,
}

/// "Now" by the clock of the file system, as of a moment of our own: a file's age is the difference of two of its times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FileClock {
    /// When it was read.
    pub at: Moment,
    /// What it said, in epoch nanoseconds.
    pub mtime_ns: i128,
}

impl FileClock {
    /// How old a file is.
    pub fn age(&self, now: Moment, file: FileStamp) -> Duration {
        let elapsed = i128::try_from(now.since(self.at).as_nanos()).unwrap_or(i128::MAX);
        let age = self
            .mtime_ns
            .saturating_add(elapsed)
            .saturating_sub(file.mtime_ns);
        Duration::from_nanos(u64::try_from(age).unwrap_or(0))
    }
}

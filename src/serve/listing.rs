//! What the inbox shows of the asks that wait, and of those that have ended: who, how and when, and no word of what is asked.

use std::time::Duration;

use crate::clock::Moment;
use crate::wire::{Digest, PayloadKind, RequestId};

/// What the list shows at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Listing {
    /// What waits, the oldest first.
    pub asks: Vec<ListedAsk>,
    /// What was settled lately, the last one first.
    pub resolutions: Vec<Resolution>,
    /// How many asks were refused because so many waited already.
    pub refused: u64,
}

/// An ask in the list: no word of what it asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedAsk {
    /// Id of the ask.
    pub id: RequestId,
    /// Digest of its bytes. A denial from the list is for these.
    pub digest: Digest,
    /// Agent that asks, empty where it has no name.
    pub agent: String,
    /// Session that asks.
    pub session: String,
    /// What kind of gate asks.
    pub kind: PayloadKind,
    /// When it came into the list.
    pub since: Moment,
    /// How old it was then.
    pub age_then: Duration,
    /// Where it stands.
    pub state: ListedState,
    /// The link of the chain that thinks about it, and may decide before the person does.
    pub with_chain: Option<String>,
    /// How many that wait are like it in everything but who asks, itself among them.
    pub alike: usize,
}

impl ListedAsk {
    /// How old the ask is.
    pub fn age(&self, now: Moment) -> Duration {
        self.age_then.saturating_add(now.since(self.since))
    }
}

/// Where an ask of the list stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListedState {
    /// Nobody has opened it.
    Waiting,
    /// Its review is open, or about to be.
    Open,
    /// It is decided; the answer is on its way.
    Answering,
}

/// How an ask ended: who asked, how, and when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolution {
    /// Id of the ask.
    pub id: RequestId,
    /// Agent that asked, empty where it has no name.
    pub agent: String,
    /// What kind of gate asked.
    pub kind: PayloadKind,
    /// How it ended.
    pub outcome: Outcome,
    /// When.
    pub at: Moment,
}

/// How an ask ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It was approved.
    Approved,
    /// It was denied by somebody, or by a rule.
    Denied,
    /// Its requester took it back, changed it, or is gone.
    Cancelled,
    /// It waited as long as an ask may.
    Expired,
    /// The session ended first, or the person left.
    Retired,
    /// It could not be used, or its answer could not be recorded or delivered.
    Error,
}

impl Outcome {
    /// Its name, on the screen and in the log.
    pub fn name(self) -> &'static str {
        match self {
            Self::Approved => "approved",
            Self::Denied => "denied",
            Self::Cancelled => "cancelled",
            Self::Expired => "expired",
            Self::Retired => "retired",
            Self::Error => "error",
        }
    }
}

//! The parent's side: serves one session, from its inbox to its answers.
//!
//! ```text
//!  wake │ poll │ person │ parent │ signal          every input is an event
//!        └───────────┬──────────────┘
//!              State::step                          pure
//!        ┌───────────┴──────────────┐
//!  read │ answer │ show │ relay │ log │ set aside   every output is an effect
//! ```
//!
//! Policy answers at once, whatever is on screen. Work comes in slices of a few milliseconds, so that ten thousand waiting
//! requests delay neither a heartbeat nor a key.

mod annotate;
mod chain;
mod core;
mod event;
mod grants;
mod listing;
mod queue;
mod renewal;
mod run;
mod state;
#[cfg(test)]
mod tests;
mod wake;

pub use annotate::{Annotator, AnnotatorChain, Annotators};
pub use chain::{Authorizer, AuthorizerChain, Authorizers, Link, NameTaken, Registration};
pub use core::Notices;
pub use event::{
    Alike, Annotate, AnnotatorOutcome, Answer, Authorize, Authorized, Care, Delivery, Effect,
    Event, FileClock, InLine, ParentLife, Relay, RelayOutcome, Shown, Twin,
};
pub use listing::{ListedAsk, ListedState, Listing, Outcome, Resolution};
pub use renewal::{Renewal, SourceFile, Trouble};
pub use run::{Mode, Parent, ServeError, Server, Settings};
pub use state::{CHAIN_GRACE, LinkTally, MOST_CHAINS, Person, Setup, State};

/// Where a session tells what it asks and how that ended. Whoever listens and is slow misses some; nobody is waited for.
pub type Broadcasts = tokio::sync::broadcast::Sender<crate::presentation::broadcast::Broadcast>;

//! How an ask ends on the requester's side: with an answer, or because nobody ruled, and what is said of that.
//!
//! Whatever is no answer is a denial that no person made; its reason and its decider are one text.

use std::time::Duration;

use crate::wire::{Decision, Liveness, SessionId};

/// Why nobody ruled on an ask.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Abandonment {
    /// No session to ask is known.
    NoParent {
        /// What was looked at.
        tried: String,
    },
    /// The session's directories cannot be made.
    NoDirectories {
        /// The session.
        target: SessionId,
        /// What the machine said.
        cause: String,
    },
    /// The request cannot be written.
    NotWritten {
        /// The session.
        target: SessionId,
        /// What the machine said.
        cause: String,
    },
    /// A response came that cannot be read.
    Unreadable {
        /// The session.
        target: SessionId,
        /// What is wrong with it.
        cause: String,
    },
    /// No answer could be believed: seals are demanded, and nobody said which key they must be of.
    NoKey {
        /// The session.
        target: SessionId,
    },
    /// Responses came that were refused, and the request is gone: nobody will answer it any more.
    Refused {
        /// The session.
        target: SessionId,
        /// Why the last of them was refused.
        cause: String,
    },
    /// Nobody serves the session.
    NotServing {
        /// The session.
        target: SessionId,
        /// What its heartbeat and lock looked like.
        liveness: Liveness,
    },
    /// Nobody answered in time.
    TimedOut {
        /// The session.
        target: SessionId,
        /// How long was waited.
        after: Duration,
        /// Why the last response that came was refused, where one came.
        refused: Option<String>,
    },
    /// The requester itself took the request back.
    Withdrawn,
    /// The ask came through too many sessions, or through this one before.
    TooManyHops {
        /// What is wrong with the path.
        cause: String,
    },
}

impl Abandonment {
    /// Stable name, for programs.
    pub fn name(&self) -> &'static str {
        match self {
            Self::NoParent { .. } => "no_parent",
            Self::NoDirectories { .. } => "no_directories",
            Self::NotWritten { .. } => "not_written",
            Self::Unreadable { .. } => "unreadable_response",
            Self::NoKey { .. } => "no_key",
            Self::Refused { .. } => "refused_response",
            Self::NotServing { .. } => "not_serving",
            Self::TimedOut { .. } => "timed_out",
            Self::Withdrawn => "withdrawn",
            Self::TooManyHops { .. } => "too_many_hops",
        }
    }

    /// What happened, as the denial says it.
    pub fn reason(&self) -> String {
        match self {
            Self::NoParent { tried } => format!("no parent session is known: {tried}"),
            Self::NoDirectories { target, cause } => {
                format!("the spool directories of session \"{target}\" cannot be made: {cause}")
            }
            Self::NotWritten { target, cause } => {
                format!("the request to session \"{target}\" cannot be written: {cause}")
            }
            Self::Unreadable { target, cause } => {
                format!("the response of session \"{target}\" cannot be used: {cause}")
            }
            Self::NoKey { target } => {
                format!(
                    "answers must be sealed, and it is not known by which key session \"{target}\" seals"
                )
            }
            Self::Refused { target, cause } => {
                format!(
                    "the request to session \"{target}\" is gone, and the response was refused: {cause}"
                )
            }
            Self::NotServing { target, liveness } => {
                let seen = match liveness {
                    Liveness::Absent => "it has no heartbeat",
                    Liveness::LockFree => "its server ended without taking leave",
                    Liveness::Stale => "its heartbeat has stopped",
                    Liveness::DeadPid => "the process that served it is gone",
                    Liveness::OtherKey => {
                        "another process serves it than the one whose key is known"
                    }
                    Liveness::Alive | Liveness::Unknown => "it cannot be told why",
                };
                format!("nobody serves session \"{target}\": {seen}")
            }
            Self::TimedOut {
                target,
                after,
                refused,
            } => {
                let refused = refused.as_ref().map_or_else(String::new, |cause| {
                    format!("; a response came and was refused: {cause}")
                });
                format!(
                    "session \"{target}\" did not answer within {}s{refused}",
                    after.as_secs_f64()
                )
            }
            Self::Withdrawn => "the request was withdrawn before anybody answered".to_owned(),
            Self::TooManyHops { cause } => format!("the ask cannot be passed on: {cause}"),
        }
    }

    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::NoParent { .. } => {
                "start the child with `askrelay launch`, or name the session with --session"
            }
            Self::NoDirectories { .. } | Self::NotWritten { .. } => {
                "check the spool directory: its owner, its mode, and the room on its file system"
            }
            Self::Unreadable { .. } => {
                "look at the serving session's version and at its review log"
            }
            Self::NoKey { .. } => {
                "start the child with `askrelay launch` while the session is served, or give the key with --serving-key"
            }
            Self::Refused { .. }
            | Self::TimedOut {
                refused: Some(_), ..
            } => {
                "if the session was served anew since this child was started, start the child anew; \
                 if not, somebody else writes answers into the spool"
            }
            Self::NotServing {
                liveness: Liveness::OtherKey,
                ..
            } => {
                "if the session was served anew since this child was started, start the child anew; \
                 if not, somebody poses as its server"
            }
            Self::NotServing { .. } => {
                "run `askrelay serve` in the parent session; `askrelay status` shows who serves"
            }
            Self::TimedOut { refused: None, .. } => {
                "ask again when somebody is there, or give more time with --timeout"
            }
            Self::Withdrawn => "ask again if it is still wanted",
            Self::TooManyHops { .. } => {
                "look at the parent sessions of the servers in between: they may form a circle"
            }
        }
    }

    /// The denial that it is.
    pub fn decision(&self) -> Decision {
        match self {
            Self::TooManyHops { .. } => Decision::gate_error(self.reason()),
            Self::NoParent { .. }
            | Self::NoDirectories { .. }
            | Self::NotWritten { .. }
            | Self::Unreadable { .. }
            | Self::NoKey { .. }
            | Self::Refused { .. }
            | Self::NotServing { .. }
            | Self::TimedOut { .. }
            | Self::Withdrawn => Decision::unavailable(self.reason()),
        }
    }
}

/// How an ask ended.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum Outcome {
    /// The serving session answered. It may have answered that nobody ruled.
    Decided(Decision),
    /// Nobody ruled.
    Abandoned(Abandonment),
}

impl Outcome {
    /// The decision to act on. Whatever is no answer is a denial.
    pub fn decision(&self) -> Decision {
        match self {
            Self::Decided(decision) => decision.clone(),
            Self::Abandoned(abandonment) => abandonment.decision(),
        }
    }
}

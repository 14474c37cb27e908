//! The requester's wait as a pure step: what was seen goes in, what to do next comes out.
//!
//! Time is handed in and is the requester's own monotonic clock. A response is looked at before anything else, so one that
//! lies there wins over a dead server and over the deadline.

use std::time::Duration;

use crate::clock::Moment;
use crate::wire::{
    Decision, DecisionSource, Digest, ForwardedPermissionResponse, Liveness, Malformed, SessionId,
    Unusable, trim,
};

/// How long a session may look unserved before the requester gives up.
pub const SERVING_GRACE: Duration = Duration::from_secs(2);
/// How long a response that looks half-written is looked at again.
pub const TORN_GRACE: Duration = Duration::from_secs(2);
/// How often the requester looks whether it is being served. With the grace it knows of a dead server within three seconds.
pub const LIVENESS_EVERY: Duration = Duration::from_millis(900);
/// When it looks whether it is being served for the first time. An ask that policy answers has ended by then.
pub const LIVENESS_FIRST: Duration = Duration::from_millis(100);
/// How often it looks for a response while nothing proves that changes raise events.
pub const POLL_UNPROVEN: Duration = Duration::from_millis(250);
/// How often it looks for a response behind a watch that works: with every second look at liveness.
pub const POLL_PROVEN: Duration = Duration::from_millis(1_800);

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
            Self::NotServing { target, liveness } => {
                let seen = match liveness {
                    Liveness::Absent => "it has no heartbeat",
                    Liveness::LockFree => "its server ended without taking leave",
                    Liveness::Stale => "its heartbeat has stopped",
                    Liveness::DeadPid => "the process that served it is gone",
                    Liveness::Alive | Liveness::Unknown => "it cannot be told why",
                };
                format!("nobody serves session \"{target}\": {seen}")
            }
            Self::TimedOut { target, after } => {
                format!(
                    "session \"{target}\" did not answer within {}s",
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
            Self::NotServing { .. } => {
                "run `askrelay serve` in the parent session; `askrelay status` shows who serves"
            }
            Self::TimedOut { .. } => {
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

/// What must be true of a response before it counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expected {
    /// The session that was asked.
    pub responder: SessionId,
    /// Digest of the request bytes.
    pub digest: Digest,
}

/// Why a readable response is not for this request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Mismatch {
    /// Another session claims to have answered.
    #[error("it names {found:?} as the responder, asked was {asked:?}")]
    Responder {
        /// Who it says answered.
        found: String,
        /// Who was asked.
        asked: String,
    },
    /// It answers other bytes.
    #[error("it answers other request bytes ({found}, asked was {asked})")]
    Digest {
        /// Digest in the response.
        found: Digest,
        /// Digest of the request.
        asked: Digest,
    },
}

/// Checks that a response answers this very request.
pub fn verify(response: &ForwardedPermissionResponse, expected: &Expected) -> Result<(), Mismatch> {
    if trim(&response.responder_session_id) != expected.responder.as_str() {
        return Err(Mismatch::Responder {
            found: response.responder_session_id.clone(),
            asked: expected.responder.as_str().to_owned(),
        });
    }
    match response
        .relay
        .as_ref()
        .and_then(|relay| relay.request_digest)
    {
        Some(found) if found != expected.digest => Err(Mismatch::Digest {
            found,
            asked: expected.digest,
        }),
        Some(_) | None => Ok(()),
    }
}

/// The decision that a requester adopts from a response: who answered, and what decided within it.
pub fn adopt(response: ForwardedPermissionResponse) -> Decision {
    Decision {
        state: response.state,
        denial_reason: response.denial_reason,
        decided_by: DecisionSource::forwarded_from(
            Some(response.responder_session_id),
            response.decided_by,
        ),
        width: response.width,
    }
}

/// What lies at the place of the response.
#[derive(Debug)]
pub enum Seen {
    /// It was not looked.
    NotLooked,
    /// Nothing.
    Nothing,
    /// A response for this request.
    Response(Box<ForwardedPermissionResponse>),
    /// A response for somebody else, or from somebody else.
    Foreign(Mismatch),
    /// Bytes that are no response.
    Unusable(Unusable),
    /// Something that could not be read at all.
    Unreadable(String),
}

impl Seen {
    /// Judges the bytes of a response file.
    pub fn from_bytes(bytes: &[u8], expected: &Expected) -> Self {
        match ForwardedPermissionResponse::from_json(bytes) {
            Err(unusable) => Self::Unusable(unusable),
            Ok(response) => match verify(&response, expected) {
                Ok(()) => Self::Response(Box::new(response)),
                Err(mismatch) => Self::Foreign(mismatch),
            },
        }
    }
}

/// What to do next.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub enum Next {
    /// Wait, for this long at most, then look again.
    Wait(Duration),
    /// Remove the response that lies there, and look again at once.
    Refuse(Mismatch),
    /// It is over: the response, if any, is consumed and the request removed.
    Finish(Outcome),
}

/// Whether the session that is asked is expected to have a heartbeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Heartbeats {
    /// Yes: without one nobody serves it.
    Expected,
    /// No: the oldest generation of the peer has none, so only the deadline ends the wait.
    None,
}

/// What is due now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Due {
    /// Look for the response.
    pub response: bool,
    /// Look whether the session is served.
    pub liveness: bool,
}

/// A requester that waits.
#[derive(Debug)]
pub struct Waiting {
    target: SessionId,
    started_at: Moment,
    deadline: Moment,
    heartbeats: Heartbeats,
    response_due: Moment,
    liveness_due: Moment,
    unserved_since: Option<Moment>,
    torn_since: Option<Moment>,
}

impl Waiting {
    /// A wait that begins now and ends at the latest after `budget`.
    pub fn new(target: SessionId, now: Moment, budget: Duration, heartbeats: Heartbeats) -> Self {
        Self {
            target,
            started_at: now,
            deadline: now.after(budget),
            heartbeats,
            response_due: now,
            liveness_due: now.after(LIVENESS_FIRST),
            unserved_since: None,
            torn_since: None,
        }
    }

    /// What is due now. Whatever ends the wait is preceded by a last look for the response.
    pub fn due(&self, now: Moment) -> Due {
        let gives_up = self
            .unserved_since
            .is_some_and(|since| now.since(since) >= SERVING_GRACE);
        let liveness = self.heartbeats == Heartbeats::Expected && now >= self.liveness_due;
        Due {
            response: now >= self.response_due || now >= self.deadline || gives_up,
            liveness,
        }
    }

    /// One look: what lies at the place of the response, and whether the session is served, where that was judged. `poll` is
    /// the time to the next look where nothing wakes.
    pub fn step(
        &mut self,
        now: Moment,
        seen: Seen,
        liveness: Option<Liveness>,
        poll: Duration,
    ) -> Next {
        let looked = !matches!(seen, Seen::NotLooked);
        if looked {
            self.response_due = if poll >= LIVENESS_EVERY {
                now.next_multiple(poll)
            } else {
                now.after(poll)
            };
        }
        match seen {
            Seen::NotLooked => {}
            Seen::Nothing => self.torn_since = None,
            Seen::Response(response) => return Next::Finish(Outcome::Decided(adopt(*response))),
            Seen::Foreign(mismatch) => return Next::Refuse(mismatch),
            // Bytes that are no document at all may still be growing; anything else is final.
            Seen::Unusable(
                unusable @ Unusable::Malformed(Malformed::Syntax(_) | Malformed::Empty),
            ) => {
                if self.is_torn_for_good(now) {
                    return self.unreadable(unusable.to_string());
                }
            }
            Seen::Unusable(unusable) => return self.unreadable(unusable.to_string()),
            // A passing fault of the machine, or a second link of a writer that publishes by one.
            Seen::Unreadable(cause) => {
                if self.is_torn_for_good(now) {
                    return self.unreadable(cause);
                }
            }
        }
        if let Some(liveness) = liveness {
            self.liveness_due = if liveness.is_unserved() {
                now.after(POLL_UNPROVEN)
            } else {
                now.next_multiple(LIVENESS_EVERY)
            };
            if liveness.is_unserved() {
                let since = *self.unserved_since.get_or_insert(now);
                if looked && now.since(since) >= SERVING_GRACE {
                    let target = self.target.clone();
                    return Next::Finish(Outcome::Abandoned(Abandonment::NotServing {
                        target,
                        liveness,
                    }));
                }
            } else {
                self.unserved_since = None;
            }
        }
        if looked && now >= self.deadline {
            let after = self.deadline.since(self.started_at);
            return Next::Finish(Outcome::Abandoned(Abandonment::TimedOut {
                target: self.target.clone(),
                after,
            }));
        }
        Next::Wait(self.next_look_at().since(now))
    }

    fn is_torn_for_good(&mut self, now: Moment) -> bool {
        let since = *self.torn_since.get_or_insert(now);
        self.response_due = self.response_due.min(now.after(POLL_UNPROVEN));
        now.since(since) >= TORN_GRACE || now >= self.deadline
    }

    fn unreadable(&self, cause: String) -> Next {
        Next::Finish(Outcome::Abandoned(Abandonment::Unreadable {
            target: self.target.clone(),
            cause,
        }))
    }

    fn next_look_at(&mut self) -> Moment {
        let mut at = self.response_due.min(self.deadline);
        if self.heartbeats == Heartbeats::Expected {
            if let Some(since) = self.unserved_since {
                // The look that ends the window is on time.
                self.liveness_due = self.liveness_due.min(since.after(SERVING_GRACE));
            }
            at = at.min(self.liveness_due);
        }
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{DecisionState, GrantWidth, ResponseRelay, UserSurface};

    fn at(ms: u64) -> Moment {
        Moment::from_start(Duration::from_millis(ms))
    }

    fn target() -> SessionId {
        SessionId::parse("P").unwrap()
    }

    fn waiting(budget_ms: u64) -> Waiting {
        Waiting::new(
            target(),
            at(0),
            Duration::from_millis(budget_ms),
            Heartbeats::Expected,
        )
    }

    fn response() -> ForwardedPermissionResponse {
        ForwardedPermissionResponse {
            state: DecisionState::Approved,
            denial_reason: None,
            responder_session_id: "P".into(),
            responded_at_ms: None,
            decided_by: Some(DecisionSource::User {
                via: UserSurface::Select,
            }),
            width: GrantWidth::Proven,
            relay: None,
        }
    }

    fn abandoned(next: Next) -> Abandonment {
        match next {
            Next::Finish(Outcome::Abandoned(abandonment)) => abandonment,
            other @ (Next::Wait(_) | Next::Refuse(_) | Next::Finish(_)) => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_absent_heartbeat_is_given_two_seconds() {
        let mut wait = waiting(600_000);
        for ms in [0, 900, 1_900, 1_999] {
            let next = wait.step(at(ms), Seen::Nothing, Some(Liveness::Absent), POLL_PROVEN);
            assert!(matches!(next, Next::Wait(_)), "{ms}: {next:?}");
        }
        let next = wait.step(
            at(2_000),
            Seen::Nothing,
            Some(Liveness::Absent),
            POLL_PROVEN,
        );
        assert!(matches!(
            abandoned(next),
            Abandonment::NotServing {
                liveness: Liveness::Absent,
                ..
            }
        ));
    }

    #[test]
    fn a_heartbeat_that_comes_back_starts_the_window_anew() {
        let mut wait = waiting(600_000);
        let mut look = |ms, liveness| wait.step(at(ms), Seen::Nothing, Some(liveness), POLL_PROVEN);
        assert!(matches!(look(0, Liveness::Absent), Next::Wait(_)));
        assert!(matches!(look(1_500, Liveness::Absent), Next::Wait(_)));
        assert!(matches!(look(1_600, Liveness::Alive), Next::Wait(_)));
        assert!(matches!(look(1_700, Liveness::Absent), Next::Wait(_)));
        assert!(matches!(look(3_200, Liveness::Absent), Next::Wait(_)));
        assert!(matches!(look(3_700, Liveness::Absent), Next::Finish(_)));
    }

    #[test]
    fn a_response_wins_over_a_dead_server_and_over_the_deadline() {
        let mut wait = waiting(1_000);
        let next = wait.step(at(0), Seen::Nothing, Some(Liveness::DeadPid), POLL_PROVEN);
        assert!(matches!(next, Next::Wait(_)));
        let next = wait.step(
            at(9_000),
            Seen::Response(Box::new(response())),
            Some(Liveness::DeadPid),
            POLL_PROVEN,
        );
        let Next::Finish(Outcome::Decided(decision)) = next else {
            panic!("{next:?}")
        };
        assert!(decision.is_approved());
        assert_eq!(
            decision.decided_by,
            DecisionSource::forwarded_from(
                Some("P".into()),
                Some(DecisionSource::User {
                    via: UserSurface::Select
                })
            )
        );
    }

    #[test]
    fn the_deadline_is_the_requesters_own() {
        let mut wait = waiting(1_500);
        let next = wait.step(at(1_400), Seen::Nothing, Some(Liveness::Alive), POLL_PROVEN);
        assert_eq!(
            wait.due(at(1_499)),
            Due {
                response: false,
                liveness: false
            }
        );
        assert_eq!(
            wait.due(at(1_500)),
            Due {
                response: true,
                liveness: false
            }
        );
        assert_eq!(next, Next::Wait(Duration::from_millis(100)));
        let abandonment =
            abandoned(wait.step(at(1_500), Seen::Nothing, Some(Liveness::Alive), POLL_PROVEN));
        assert_eq!(
            abandonment.reason(),
            "session \"P\" did not answer within 1.5s"
        );
    }

    #[test]
    fn without_heartbeats_only_the_deadline_ends_the_wait() {
        let mut wait = Waiting::new(target(), at(0), Duration::from_mins(1), Heartbeats::None);
        assert!(!wait.due(at(30_000)).liveness);
        assert!(matches!(
            wait.step(at(30_000), Seen::Nothing, None, POLL_PROVEN),
            Next::Wait(_)
        ));
    }

    #[test]
    fn a_torn_response_is_given_time_and_a_wrong_one_is_not() {
        let torn = || {
            Seen::Unusable(ForwardedPermissionResponse::from_json(b"{\"approved\":").unwrap_err())
        };
        let mut wait = waiting(600_000);
        assert!(matches!(
            wait.step(at(0), torn(), None, POLL_PROVEN),
            Next::Wait(_)
        ));
        assert!(matches!(
            wait.step(at(1_900), torn(), None, POLL_PROVEN),
            Next::Wait(_)
        ));
        assert!(matches!(
            abandoned(wait.step(at(2_000), torn(), None, POLL_PROVEN)),
            Abandonment::Unreadable { .. }
        ));

        let wrong = br#"{"approved":true,"state":"denied","responderSessionId":"P"}"#;
        let wrong = Seen::Unusable(ForwardedPermissionResponse::from_json(wrong).unwrap_err());
        let mut wait = waiting(600_000);
        let abandonment = abandoned(wait.step(at(0), wrong, None, POLL_PROVEN));
        assert!(!abandonment.decision().is_approved());
    }

    #[test]
    fn a_response_for_other_bytes_or_from_another_session_is_refused_and_the_wait_goes_on() {
        let expected = Expected {
            responder: target(),
            digest: Digest::of(b"mine"),
        };
        assert_eq!(verify(&response(), &expected), Ok(()));
        let mut other = response();
        other.responder_session_id = "Q".into();
        assert!(matches!(
            verify(&other, &expected),
            Err(Mismatch::Responder { .. })
        ));
        let mut other = response();
        other.relay = Some(ResponseRelay {
            request_digest: Some(Digest::of(b"theirs")),
            operator: None,
        });
        let mismatch = verify(&other, &expected).unwrap_err();
        let mut wait = waiting(600_000);
        assert!(matches!(
            wait.step(at(0), Seen::Foreign(mismatch), None, POLL_PROVEN),
            Next::Refuse(_)
        ));
        assert!(matches!(
            wait.step(at(1), Seen::Nothing, None, POLL_PROVEN),
            Next::Wait(_)
        ));
    }

    #[test]
    fn every_abandonment_is_a_denial_that_no_person_made() {
        let target = target();
        for abandonment in [
            Abandonment::NoParent {
                tried: String::new(),
            },
            Abandonment::NoDirectories {
                target: target.clone(),
                cause: String::new(),
            },
            Abandonment::NotWritten {
                target: target.clone(),
                cause: String::new(),
            },
            Abandonment::Unreadable {
                target: target.clone(),
                cause: String::new(),
            },
            Abandonment::NotServing {
                target: target.clone(),
                liveness: Liveness::Stale,
            },
            Abandonment::TimedOut {
                target,
                after: Duration::ZERO,
            },
            Abandonment::Withdrawn,
            Abandonment::TooManyHops {
                cause: String::new(),
            },
        ] {
            let decision = abandonment.decision();
            assert!(!decision.is_approved());
            assert!(decision.decided_by.is_nobody(), "{abandonment:?}");
            assert_eq!(decision.denial_reason, Some(abandonment.reason()));
            assert!(!abandonment.hint().is_empty());
        }
    }
}

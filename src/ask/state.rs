//! The requester's wait as a pure step: what was seen goes in, what to do next comes out.
//!
//! Time is handed in and is the requester's own monotonic clock. A response is looked at before anything else, so one that
//! lies there wins over a dead server and over the deadline.

use std::time::Duration;

use super::abandonment::{Abandonment, Outcome};
use super::verify::{Mismatch, Seen};
use crate::clock::Moment;
use crate::wire::{Liveness, Malformed, SessionId, Unusable};

/// How long a session may look unserved before the requester gives up.
pub const SERVING_GRACE: Duration = Duration::from_secs(2);
/// How long a response that looks half-written is looked at again.
pub const TORN_GRACE: Duration = Duration::from_secs(2);
/// How long a session may look as if another process than the known one served it. The true server writes its record over a false
/// one every two seconds.
pub const OTHER_KEY_GRACE: Duration = Duration::from_secs(5);
/// How long a requester that refused a response stays when its request has gone: whoever took the request away will not answer
/// again.
pub const REFUSED_GRACE: Duration = Duration::from_secs(2);
/// How often the requester looks whether it is being served. With the grace it knows of a dead server within three seconds.
pub const LIVENESS_EVERY: Duration = Duration::from_millis(900);
/// When it looks whether it is being served for the first time. An ask that policy answers has ended by then.
pub const LIVENESS_FIRST: Duration = Duration::from_millis(100);
/// How often it looks for a response while nothing proves that changes raise events.
pub const POLL_UNPROVEN: Duration = Duration::from_millis(250);
/// How often it looks for a response behind a watch that works: with every second look at liveness.
pub const POLL_PROVEN: Duration = Duration::from_millis(1_800);

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

/// Whether the response is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Glance {
    /// Not now.
    No,
    /// As it is always done.
    Usual,
    /// The wait may end with this look: nothing that was seen a moment ago will do.
    Last,
}

/// What is due now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Due {
    /// Look for the response.
    pub response: Glance,
    /// Look whether the session is served.
    pub liveness: bool,
    /// Look whether the own request still lies there.
    pub request: bool,
}

/// What was looked at besides the place of the response; `None` for what was not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Around {
    /// Whether the session is served.
    pub liveness: Option<Liveness>,
    /// Whether the own request lies there.
    pub request_is_there: Option<bool>,
}

/// How long a session may look so before the requester gives up.
fn grace(liveness: Liveness) -> Duration {
    if liveness == Liveness::OtherKey {
        OTHER_KEY_GRACE
    } else {
        SERVING_GRACE
    }
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
    /// How long it may look as it did last.
    grace: Duration,
    torn_since: Option<Moment>,
    /// Whether a garbled response may only be refused, for just a sealed one counts.
    seals: Seals,
    /// Why the last response was refused.
    refused: Option<String>,
    /// Since when the request is seen to be gone, after a response was refused.
    gone_since: Option<Moment>,
}

/// Whether only a sealed response counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seals {
    /// Yes, of a key that is known.
    Pinned,
    /// No.
    NotAsked,
}

impl Waiting {
    /// A wait that begins now and ends at the latest after `budget`.
    pub fn new(
        target: SessionId,
        now: Moment,
        budget: Duration,
        heartbeats: Heartbeats,
        seals: Seals,
    ) -> Self {
        Self {
            target,
            started_at: now,
            deadline: now.after(budget),
            heartbeats,
            response_due: now,
            liveness_due: now.after(LIVENESS_FIRST),
            unserved_since: None,
            grace: SERVING_GRACE,
            torn_since: None,
            seals,
            refused: None,
            gone_since: None,
        }
    }

    /// What is due now. Whatever ends the wait is preceded by a last look for the response.
    pub fn due(&self, now: Moment) -> Due {
        let gives_up = self
            .unserved_since
            .is_some_and(|since| now.since(since) >= self.grace);
        let liveness = self.heartbeats == Heartbeats::Expected && now >= self.liveness_due;
        let is_lost = self
            .gone_since
            .is_some_and(|since| now.since(since) >= REFUSED_GRACE);
        let last = now >= self.deadline || gives_up || is_lost;
        Due {
            response: if last {
                Glance::Last
            } else if now >= self.response_due {
                Glance::Usual
            } else {
                Glance::No
            },
            liveness,
            request: self.refused.is_some(),
        }
    }

    /// One look: what lies at the place of the response, and whether the session is served, where that was judged. `poll` is
    /// the time to the next look where nothing wakes.
    pub fn step(&mut self, now: Moment, seen: Seen, around: Around, poll: Duration) -> Next {
        let looked = !matches!(seen, Seen::NotLooked);
        // What took the request away, or writes answers of its own, raises events of nobody's.
        let poll = if self.refused.is_some() {
            poll.min(POLL_UNPROVEN)
        } else {
            poll
        };
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
            Seen::Response(response) => return Next::Finish(Outcome::Decided(response.adopt())),
            Seen::Foreign(mismatch) => return self.refuse(now, mismatch),
            // Bytes that are no document at all may still be growing; anything else is final.
            Seen::Unusable(
                unusable @ Unusable::Malformed(Malformed::Syntax(_) | Malformed::Empty),
            ) => {
                if self.is_torn_for_good(now) {
                    return self.unusable(now, unusable.to_string());
                }
            }
            Seen::Unusable(unusable) => return self.unusable(now, unusable.to_string()),
            // A passing fault of the machine, or a second link of a writer that publishes by one.
            Seen::Unreadable(cause) => {
                if self.is_torn_for_good(now) {
                    return self.unusable(now, cause);
                }
            }
        }
        if let (Some(is_there), Some(cause)) = (around.request_is_there, &self.refused) {
            if is_there {
                self.gone_since = None;
            } else if looked && now.since(*self.gone_since.get_or_insert(now)) >= REFUSED_GRACE {
                return Next::Finish(Outcome::Abandoned(Abandonment::Refused {
                    target: self.target.clone(),
                    cause: cause.clone(),
                }));
            }
        }
        if let Some(liveness) = around.liveness {
            self.liveness_due = if liveness.is_unserved() {
                now.after(POLL_UNPROVEN)
            } else {
                now.next_multiple(LIVENESS_EVERY)
            };
            if liveness.is_unserved() {
                let since = *self.unserved_since.get_or_insert(now);
                self.grace = grace(liveness);
                if looked && now.since(since) >= self.grace {
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
            return self.timed_out();
        }
        // While something half-written lies there, nothing else is looked at.
        let at = if self.torn_since.is_some() {
            self.response_due.min(self.deadline)
        } else {
            self.next_look_at()
        };
        Next::Wait(at.since(now))
    }

    fn is_torn_for_good(&mut self, now: Moment) -> bool {
        let since = *self.torn_since.get_or_insert(now);
        self.response_due = self.response_due.min(now.after(POLL_UNPROVEN));
        now.since(since) >= TORN_GRACE || now >= self.deadline
    }

    /// What lies there does not count; the true response may still come.
    fn refuse(&mut self, now: Moment, mismatch: Mismatch) -> Next {
        self.refused = Some(mismatch.to_string());
        self.torn_since = None;
        // Somebody who never tires of writing answers does not hold the requester beyond its time.
        if now >= self.deadline {
            return self.timed_out();
        }
        self.response_due = self.response_due.min(now.after(POLL_UNPROVEN));
        Next::Refuse(mismatch)
    }

    fn timed_out(&self) -> Next {
        Next::Finish(Outcome::Abandoned(Abandonment::TimedOut {
            target: self.target.clone(),
            after: self.deadline.since(self.started_at),
            refused: self.refused.clone(),
        }))
    }

    /// What lies there is no response. Where only a sealed one counts, anybody may have put it there.
    fn unusable(&mut self, now: Moment, cause: String) -> Next {
        if self.seals == Seals::Pinned {
            return self.refuse(now, Mismatch::Unusable(cause));
        }
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
                self.liveness_due = self.liveness_due.min(since.after(self.grace));
            }
            at = at.min(self.liveness_due);
        }
        if let Some(since) = self.gone_since {
            at = at.min(since.after(REFUSED_GRACE));
        }
        at
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use zeroize::Zeroizing;

    use super::super::verify::{Expected, Verified, verify};
    use super::*;
    use crate::wire::{
        DecisionSource, DecisionState, Digest, ForwardedPermissionResponse, GrantWidth,
        ResponseRelay, SEAL_SEED_BYTES, SealKey, UserSurface,
    };

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
            Seals::NotAsked,
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

    fn expected() -> Expected {
        Expected {
            responder: target(),
            digest: Digest::of(b"mine"),
            key: None,
        }
    }

    fn seen(liveness: Liveness) -> Around {
        Around {
            liveness: Some(liveness),
            request_is_there: None,
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
            let next = wait.step(at(ms), Seen::Nothing, seen(Liveness::Absent), POLL_PROVEN);
            assert!(matches!(next, Next::Wait(_)), "{ms}: {next:?}");
        }
        let next = wait.step(
            at(2_000),
            Seen::Nothing,
            seen(Liveness::Absent),
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
    fn another_key_is_given_five_seconds_for_it_may_be_a_false_record() {
        let mut wait = waiting(600_000);
        for ms in [0, 900, 2_000, 2_500, 4_900] {
            let next = wait.step(at(ms), Seen::Nothing, seen(Liveness::OtherKey), POLL_PROVEN);
            let Next::Wait(time) = next else {
                panic!("{ms}: {next:?}")
            };
            assert!(time > Duration::ZERO, "{ms}");
        }
        let next = wait.step(
            at(5_000),
            Seen::Nothing,
            seen(Liveness::OtherKey),
            POLL_PROVEN,
        );
        assert!(matches!(
            abandoned(next),
            Abandonment::NotServing {
                liveness: Liveness::OtherKey,
                ..
            }
        ));
    }

    #[test]
    fn a_heartbeat_that_comes_back_starts_the_window_anew() {
        let mut wait = waiting(600_000);
        let mut look = |ms, liveness| wait.step(at(ms), Seen::Nothing, seen(liveness), POLL_PROVEN);
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
        let next = wait.step(at(0), Seen::Nothing, seen(Liveness::DeadPid), POLL_PROVEN);
        assert!(matches!(next, Next::Wait(_)));
        let next = wait.step(
            at(9_000),
            Seen::Response(Box::new(Verified::new(response(), &expected()).unwrap())),
            seen(Liveness::DeadPid),
            POLL_PROVEN,
        );
        let Next::Finish(Outcome::Decided(decision)) = next else {
            panic!("{next:?}")
        };
        assert!(decision.is_approved());
        assert_eq!(
            decision.decided_by,
            DecisionSource::adopted_from(
                "P".into(),
                Some(DecisionSource::User {
                    via: UserSurface::Select
                }),
                false
            )
        );
    }

    #[test]
    fn the_deadline_is_the_requesters_own() {
        let mut wait = waiting(1_500);
        let next = wait.step(at(1_400), Seen::Nothing, seen(Liveness::Alive), POLL_PROVEN);
        assert_eq!(
            wait.due(at(1_499)),
            Due {
                response: Glance::No,
                liveness: false,
                request: false
            }
        );
        assert_eq!(
            wait.due(at(1_500)),
            Due {
                response: Glance::Last,
                liveness: false,
                request: false
            }
        );
        assert_eq!(next, Next::Wait(Duration::from_millis(100)));
        let abandonment =
            abandoned(wait.step(at(1_500), Seen::Nothing, seen(Liveness::Alive), POLL_PROVEN));
        assert_eq!(
            abandonment.reason(),
            "session \"P\" did not answer within 1.5s"
        );
    }

    #[test]
    fn without_heartbeats_only_the_deadline_ends_the_wait() {
        let mut wait = Waiting::new(
            target(),
            at(0),
            Duration::from_mins(1),
            Heartbeats::None,
            Seals::NotAsked,
        );
        assert!(!wait.due(at(30_000)).liveness);
        assert!(matches!(
            wait.step(at(30_000), Seen::Nothing, Around::default(), POLL_PROVEN),
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
            wait.step(at(0), torn(), Around::default(), POLL_PROVEN),
            Next::Wait(_)
        ));
        assert!(matches!(
            wait.step(at(1_900), torn(), Around::default(), POLL_PROVEN),
            Next::Wait(_)
        ));
        assert!(matches!(
            abandoned(wait.step(at(2_000), torn(), Around::default(), POLL_PROVEN)),
            Abandonment::Unreadable { .. }
        ));

        let wrong = br#"{"approved":true,"state":"denied","responderSessionId":"P"}"#;
        let wrong = Seen::Unusable(ForwardedPermissionResponse::from_json(wrong).unwrap_err());
        let mut wait = waiting(600_000);
        let abandonment = abandoned(wait.step(at(0), wrong, Around::default(), POLL_PROVEN));
        assert!(!abandonment.decision().is_approved());
    }

    #[test]
    fn a_response_for_other_bytes_or_from_another_session_is_refused_and_the_wait_goes_on() {
        let expected = expected();
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
            ..ResponseRelay::default()
        });
        let mismatch = verify(&other, &expected).unwrap_err();
        let mut wait = waiting(600_000);
        assert!(matches!(
            wait.step(
                at(0),
                Seen::Foreign(mismatch),
                Around::default(),
                POLL_PROVEN
            ),
            Next::Refuse(_)
        ));
        assert!(matches!(
            wait.step(at(1), Seen::Nothing, Around::default(), POLL_PROVEN),
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
                target: target.clone(),
                after: Duration::ZERO,
                refused: None,
            },
            Abandonment::TimedOut {
                target: target.clone(),
                after: Duration::ZERO,
                refused: Some(String::new()),
            },
            Abandonment::NoKey {
                target: target.clone(),
            },
            Abandonment::Refused {
                target,
                cause: String::new(),
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

    /// What may lie at the place of the answer: the true one, or what somebody else put there.
    fn lies_there() -> impl Strategy<Value = (Option<Vec<u8>>, bool)> {
        let sealed = |response: &ForwardedPermissionResponse, seed| {
            let bytes = response.to_sealed_json(&key(seed)).unwrap();
            (Some(bytes), seed == 1)
        };
        let mut answer = response();
        answer.relay = Some(ResponseRelay {
            request_digest: Some(Digest::of(b"mine")),
            ..ResponseRelay::default()
        });
        let mut other = answer.clone();
        other.relay.get_or_insert_default().request_digest = Some(Digest::of(b"theirs"));
        let mut elsewhere = answer.clone();
        elsewhere.responder_session_id = "Q".to_owned();
        prop::sample::select(vec![
            sealed(&answer, 1),
            (sealed(&other, 1).0, false),
            (sealed(&elsewhere, 1).0, false),
            sealed(&answer, 2),
            (Some(answer.to_json().unwrap()), false),
            (Some(b"{\"approved\":".to_vec()), false),
            (Some(Vec::new()), false),
            (Some(b"{}".to_vec()), false),
            (None, false),
        ])
    }

    fn key(seed: u8) -> SealKey {
        SealKey::from_seed(&Zeroizing::new([seed; SEAL_SEED_BYTES]))
    }

    proptest! {
        /// Whatever lies there, in whatever order: only the true answer ends in an approval, and every wait ends in time.
        #[test]
        fn only_the_true_answer_is_ever_an_approval(
            looks in prop::collection::vec(
                (lies_there(), prop::option::of(any::<bool>()), 0_u8..4, 0_u64..3_000),
                1..40,
            ),
        ) {
            let expected = Expected {
                key: Some(key(1).public()),
                ..expected()
            };
            let budget = Duration::from_secs(10);
            let mut wait = Waiting::new(target(), at(0), budget, Heartbeats::Expected, Seals::Pinned);
            let mut now = 0;
            for ((bytes, is_true), request_is_there, served, step) in looks {
                now += step;
                let due = wait.due(at(now));
                let look = due.response != Glance::No || bytes.is_some();
                let seen = match &bytes {
                    _ if !look => Seen::NotLooked,
                    None => Seen::Nothing,
                    Some(bytes) => Seen::from_bytes(bytes, &expected),
                };
                let around = Around {
                    liveness: due.liveness.then_some(match served {
                        0 => Liveness::LockFree,
                        1 => Liveness::OtherKey,
                        _ => Liveness::Alive,
                    }),
                    request_is_there,
                };
                match wait.step(at(now), seen, around, POLL_PROVEN) {
                    Next::Finish(Outcome::Decided(decision)) => {
                        prop_assert!(is_true && decision.is_approved() && decision.decided_by.is_sealed());
                        return Ok(());
                    }
                    Next::Finish(Outcome::Abandoned(abandonment)) => {
                        prop_assert!(!is_true, "the true answer was left: {abandonment:?}");
                        prop_assert!(!abandonment.decision().is_approved());
                        return Ok(());
                    }
                    Next::Refuse(_) => prop_assert!(!is_true && bytes.is_some()),
                    Next::Wait(time) => {
                        prop_assert!(!is_true);
                        prop_assert!(at(now) < at(10_000) || !look, "it waits beyond its time");
                        prop_assert!(at(now).after(time) <= at(10_000).max(at(now)));
                    }
                }
            }
        }
    }
}

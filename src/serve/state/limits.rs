//! How much of what policy leaves open is taken in: by one requester at a time and within a minute, and by all of them at a time.
//!
//! An ask beyond a limit is denied as unavailable, with the limit named, so that its requester can tell a crowd from a refusal. What a
//! rule or a grant answers at once is not counted: it takes nobody's time. Nor is what was denied for a limit, or whoever tries again
//! and again would never get in.
//!
//! A requester is who it says it is. One that gives itself many names is held by the limit of the session alone.
//!
//! Invariant: no more asks wait for somebody than the session may have waiting, and no more of one requester than it may.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet, VecDeque};
use std::time::Duration;

use super::{Pending, Stage, State};
use crate::clock::Moment;
use crate::policy::Limits;
use crate::presentation::text;
use crate::wire::{Digest, ForwardedPermissionRequest, RequestId};

/// The window of the rate.
const WINDOW: Duration = Duration::from_mins(1);
/// Most UTF-16 units that are kept of the name of a requester: as many as the log keeps.
const MAX_NAME_UNITS: usize = 1_000;
/// How many requesters are remembered, at least, before those are forgotten of whom there is nothing to remember.
const FORGET_FROM: usize = 1_024;

/// A limit that is reached. Shown, it is the name of its key and its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Beyond {
    /// So many asks of one requester wait.
    #[error("limits.perRequesterPending is {0}")]
    RequesterPending(usize),
    /// So many asks of all of them wait.
    #[error("limits.perSessionPending is {0}")]
    SessionPending(usize),
    /// So many asks of one requester came within a minute.
    #[error("limits.perRequesterPerMinute is {0}")]
    RequesterPerMinute(usize),
}

/// What was taken in.
#[derive(Debug, Default)]
pub(super) struct Load {
    requesters: HashMap<String, Tally>,
    /// How many ids the tallies hold together.
    counted: usize,
    /// With how many requesters it is looked again for those to forget. It grows with those that stay, so that looking costs little.
    forget_from: usize,
}

/// What was taken in of one requester.
#[derive(Debug, Default)]
struct Tally {
    /// Those that waited when last looked.
    pending: HashSet<RequestId>,
    /// When those of the last minute came.
    came: VecDeque<Moment>,
}

impl Load {
    /// Takes in an ask of `requester`, unless a limit is reached. What has been settled is only looked for where one seems to be.
    pub(super) fn admit(
        &mut self,
        now: Moment,
        limits: &Limits,
        requester: &str,
        id: &RequestId,
        waits: impl Fn(&str, &RequestId) -> bool,
    ) -> Result<(), Beyond> {
        if self.counted >= limits.per_session_pending {
            for (name, tally) in &mut self.requesters {
                self.counted -= tally.settle(|id| waits(name, id));
            }
            if self.counted >= limits.per_session_pending {
                return Err(Beyond::SessionPending(limits.per_session_pending));
            }
        }
        if self.requesters.len() >= self.forget_from.max(FORGET_FROM) {
            self.forget_idle(now, &waits);
        }
        let tally = self.requesters.entry(requester.to_owned()).or_default();
        if tally.pending.len() >= limits.per_requester_pending {
            self.counted -= tally.settle(|id| waits(requester, id));
            if tally.pending.len() >= limits.per_requester_pending {
                return Err(Beyond::RequesterPending(limits.per_requester_pending));
            }
        }
        tally.forget_old(now);
        if tally.came.len() >= limits.per_requester_per_minute {
            return Err(Beyond::RequesterPerMinute(limits.per_requester_per_minute));
        }
        tally.came.push_back(now);
        self.counted += usize::from(tally.pending.insert(id.clone()));
        Ok(())
    }

    fn forget_idle(&mut self, now: Moment, waits: impl Fn(&str, &RequestId) -> bool) {
        for (name, tally) in &mut self.requesters {
            self.counted -= tally.settle(|id| waits(name, id));
            tally.forget_old(now);
        }
        self.requesters
            .retain(|_, tally| !tally.pending.is_empty() || !tally.came.is_empty());
        self.forget_from = self.requesters.len() * 2;
    }
}

impl Tally {
    /// Leaves out those that do not wait any more. Gives how many they were.
    fn settle(&mut self, waits: impl Fn(&RequestId) -> bool) -> usize {
        let before = self.pending.len();
        self.pending.retain(waits);
        before - self.pending.len()
    }

    fn forget_old(&mut self, now: Moment) {
        while self
            .came
            .front()
            .is_some_and(|came| now.since(*came) >= WINDOW)
        {
            self.came.pop_front();
        }
    }
}

impl State {
    /// Takes an ask in that somebody has to decide. Gives the reason why it is not.
    pub(super) fn beyond_limits(
        &mut self,
        now: Moment,
        request: &ForwardedPermissionRequest,
    ) -> Option<String> {
        let (asks, id) = (&self.asks, &request.id);
        let waits = |requester: &str, other: &RequestId| {
            other != id
                && asks
                    .get(other)
                    .is_some_and(|ask| ask.requester == requester && ask.waits_for_somebody())
        };
        let requester = name_of_requester(request);
        let admitted = self
            .load
            .admit(now, &self.setup.limits, &requester, id, waits);
        let beyond = admitted.err()?;
        Some(format!(
            "session \"{}\" takes no further ask in for the moment: {beyond}",
            self.setup.session
        ))
    }
}

/// The name that a requester goes by in this session: its own where that is of any sensible length, for it is remembered for as long
/// as a minute after the ask, and may be as long as a request.
pub(super) fn name_of_requester(request: &ForwardedPermissionRequest) -> String {
    let name = request.requester_session_id.as_str();
    match text::clip_utf16(name, MAX_NAME_UNITS) {
        Cow::Borrowed(name) => name.to_owned(),
        Cow::Owned(cut) => format!("{cut} {}", Digest::of(name.as_bytes())),
    }
}

impl Pending {
    fn waits_for_somebody(&self) -> bool {
        match self.stage {
            Stage::WithChain
            | Stage::Queued
            | Stage::Rereading
            | Stage::AwaitingAnnotations
            | Stage::Shown(_)
            | Stage::Relayed(_) => true,
            Stage::Deciding(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LIMITS: Limits = Limits {
        per_requester_pending: 2,
        per_session_pending: 5,
        per_requester_per_minute: 4,
    };

    fn id(n: usize) -> RequestId {
        RequestId::parse(&format!("r{n}")).unwrap()
    }

    fn at(seconds: u64) -> Moment {
        Moment::default().after(Duration::from_secs(seconds))
    }

    #[test]
    fn the_limit_that_is_reached_is_named() {
        let mut load = Load::default();
        let all_wait = |_: &str, _: &RequestId| true;
        let mut admit =
            |requester: &str, n| load.admit(at(0), &LIMITS, requester, &id(n), all_wait);
        assert_eq!(admit("a", 0), Ok(()));
        assert_eq!(admit("a", 1), Ok(()));
        assert_eq!(admit("a", 2), Err(Beyond::RequesterPending(2)));
        assert_eq!(
            [admit("b", 3), admit("b", 4), admit("c", 5)],
            [Ok(()), Ok(()), Ok(())]
        );
        let beyond = admit("d", 6).unwrap_err();
        assert_eq!(beyond.to_string(), "limits.perSessionPending is 5");
    }

    #[test]
    fn what_is_settled_makes_room_and_a_minute_makes_room_in_the_rate() {
        let mut load = Load::default();
        let none_waits = |_: &str, _: &RequestId| false;
        let mut admit = |seconds, n| load.admit(at(seconds), &LIMITS, "a", &id(n), none_waits);
        assert!((0..4).all(|n| admit(n, usize::try_from(n).unwrap()).is_ok()));
        assert_eq!(admit(59, 4), Err(Beyond::RequesterPerMinute(4)));
        assert_eq!(
            [admit(60, 5), admit(60, 6)],
            [Ok(()), Err(Beyond::RequesterPerMinute(4))]
        );
        assert_eq!(admit(61, 7), Ok(()));
    }

    #[test]
    fn requesters_of_whom_there_is_nothing_to_remember_are_forgotten() {
        let mut load = Load::default();
        let wide = Limits {
            per_session_pending: 100_000,
            ..LIMITS
        };
        for n in 0..10_000 {
            let seconds = u64::try_from(n).unwrap();
            let admitted = load.admit(at(seconds), &wide, &format!("r{n}"), &id(n), |_, _| false);
            assert_eq!(admitted, Ok(()));
            assert!(load.requesters.len() <= FORGET_FROM);
        }
    }

    #[test]
    fn little_is_kept_of_a_name_however_long_and_no_two_are_taken_for_one() {
        let named = |name: &str| {
            let bytes = format!(
                r#"{{"id":"r1","createdAt":1,"requesterSessionId":"{name}","targetSessionId":"P","requesterAgentName":"scout"}}"#
            );
            name_of_requester(&ForwardedPermissionRequest::from_json(bytes.as_bytes()).unwrap())
        };
        assert_eq!(named("C"), "C");
        let long = "c".repeat(1_000_000);
        let both = [named(&format!("{long}1")), named(&format!("{long}2"))];
        assert!(both[0].len() < 1_100 && both[0] != both[1]);
    }

    proptest! {
        #[test]
        fn no_more_wait_than_may(steps in proptest::collection::vec((0_usize..4, 0_u64..40, any::<bool>()), 1..120)) {
            let mut load = Load::default();
            let mut waiting: Vec<(String, RequestId)> = Vec::new();
            let mut seconds = 0;
            for (n, (requester, pause, settles)) in steps.into_iter().enumerate() {
                seconds += pause;
                if settles && !waiting.is_empty() {
                    waiting.remove(n % waiting.len());
                }
                let requester = format!("r{requester}");
                let waits = |name: &str, id: &RequestId| waiting.contains(&(name.to_owned(), id.clone()));
                let admitted = load.admit(at(seconds), &LIMITS, &requester, &id(n), waits);
                let own = waiting.iter().filter(|(name, _)| *name == requester).count();
                match admitted {
                    Ok(()) => {
                        prop_assert!(own < 2 && waiting.len() < 5);
                        waiting.push((requester, id(n)));
                    }
                    Err(Beyond::RequesterPending(_)) => prop_assert_eq!(own, 2),
                    Err(Beyond::SessionPending(_)) => prop_assert_eq!(waiting.len(), 5),
                    Err(Beyond::RequesterPerMinute(_)) => {}
                }
            }
        }
    }
}

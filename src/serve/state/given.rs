//! What people and links of the chain decided and was given out: the same request bytes, put there again, get the same answer.
//!
//! A requester asks once. Who puts an answered request back, and takes the answer away before it is read, would have the person, or a
//! judge that does not always say the same, asked until they say what is wanted.
//!
//! It keeps the last decisions of this process; what was decided before it started is in the log.

use std::collections::{HashMap, VecDeque};

use crate::wire::{Decision, Digest, RequestId};

/// How many are kept.
const MOST: usize = 1_024;

/// The last decisions of people and links that reached their requesters.
#[derive(Debug, Default)]
pub(super) struct Given {
    decisions: HashMap<(RequestId, Digest), Decision>,
    order: VecDeque<(RequestId, Digest)>,
}

impl Given {
    /// Keeps one; the oldest goes where there is no more room.
    pub(super) fn keep(&mut self, id: &RequestId, digest: Digest, decision: Decision) {
        let key = (id.clone(), digest);
        if self.decisions.insert(key.clone(), decision).is_none() {
            self.order.push_back(key);
        }
        if self.order.len() > MOST
            && let Some(oldest) = self.order.pop_front()
        {
            self.decisions.remove(&oldest);
        }
    }

    /// The decision about these bytes under this id.
    pub(super) fn of(&self, id: &RequestId, digest: Digest) -> Option<&Decision> {
        self.decisions.get(&(id.clone(), digest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{DecisionSource, UserSurface};

    #[test]
    fn the_last_ones_are_kept_and_no_more() {
        let mut given = Given::default();
        let id = |n: usize| RequestId::parse(&format!("r{n}")).unwrap();
        let decision = Decision::approved(DecisionSource::User {
            via: UserSurface::Dialog,
        });
        for n in 0..MOST + 10 {
            given.keep(&id(n), Digest::of(b""), decision.clone());
            given.keep(&id(n), Digest::of(b""), decision.clone());
        }
        assert_eq!((given.decisions.len(), given.order.len()), (MOST, MOST));
        assert_eq!(given.of(&id(9), Digest::of(b"")), None);
        assert_eq!(given.of(&id(10), Digest::of(b"")), Some(&decision));
        assert_eq!(given.of(&id(10), Digest::of(b"x")), None);
    }
}

//! What the watch says: flags that coalesce, until somebody takes them.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use tokio::sync::Notify;

use crate::spool::Wake;
use crate::wire::RequestId;

/// More names of closed files than this are "all of them".
const MAX_CLOSED: usize = 1024;

/// What the watch has said and nobody has looked at yet.
#[derive(Debug, Default)]
pub(super) struct Woken {
    /// Wakes the loop.
    pub(super) notify: Notify,
    changed: AtomicBool,
    removed: AtomicBool,
    lost: AtomicBool,
    proven: AtomicBool,
    anything_open: AtomicBool,
    closed: Mutex<Closed>,
}

/// Whose files were closed: requesters that may have ended, or writers that may be done.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) enum Closed {
    #[default]
    None,
    These(HashSet<RequestId>),
    Any,
}

/// What was said since the last time.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct News {
    pub(super) changed: bool,
    pub(super) removed: bool,
    pub(super) closed: Closed,
}

/// Whether a wake is anything to act on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Worth {
    Nothing,
    Looking,
}

impl Woken {
    /// Takes note of a wake.
    pub(super) fn note(&self, wake: Wake<'_>) -> Worth {
        // This process closes and removes what it has answered; that is news only where something else is open.
        let quiet = !self.anything_open.load(Ordering::Acquire);
        match wake {
            Wake::Proof => {
                self.proven.store(true, Ordering::Release);
                return Worth::Nothing;
            }
            Wake::Closed(_) | Wake::Removed if quiet => return Worth::Nothing,
            Wake::Changed(_) => self.changed.store(true, Ordering::Release),
            Wake::Removed => self.removed.store(true, Ordering::Release),
            Wake::Lost => self.lost.store(true, Ordering::Release),
            Wake::Overflow => {
                self.changed.store(true, Ordering::Release);
                *self.closed() = Closed::Any;
            }
            Wake::Closed(name) => {
                let Some(id) = RequestId::from_file_name(name) else {
                    return Worth::Nothing;
                };
                let mut closed = self.closed();
                match &mut *closed {
                    Closed::None => *closed = Closed::These(HashSet::from([id])),
                    Closed::These(ids) if ids.len() < MAX_CLOSED => {
                        ids.insert(id);
                    }
                    Closed::These(_) | Closed::Any => *closed = Closed::Any,
                }
            }
        }
        Worth::Looking
    }

    /// Takes what was said.
    pub(super) fn take(&self) -> News {
        News {
            changed: self.changed.swap(false, Ordering::AcqRel),
            removed: self.removed.swap(false, Ordering::AcqRel),
            closed: std::mem::take(&mut *self.closed()),
        }
    }

    /// Says that the directory must be looked at, whatever the watch said.
    pub(super) fn say_changed(&self) {
        self.changed.store(true, Ordering::Release);
        self.notify.notify_one();
    }

    /// Whether the watch was lost; once.
    pub(super) fn take_lost(&self) -> bool {
        self.lost.swap(false, Ordering::AcqRel)
    }

    /// Whether the watch was lost.
    pub(super) fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Acquire)
    }

    /// Whether events are known to come.
    pub(super) fn is_proven(&self) -> bool {
        self.proven.load(Ordering::Acquire)
    }

    /// Forgets that events were seen: the directory is another one now.
    pub(super) fn forget_proof(&self) {
        self.proven.store(false, Ordering::Release);
    }

    /// Says whether anything is open, so that a file that is closed or removed can be news.
    pub(super) fn set_open(&self, open: bool) {
        self.anything_open.store(open, Ordering::Release);
    }

    fn closed(&self) -> std::sync::MutexGuard<'_, Closed> {
        self.closed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> RequestId {
        RequestId::parse(text).unwrap()
    }

    #[test]
    fn wakes_coalesce_until_they_are_taken() {
        let woken = Woken::default();
        for _ in 0..3 {
            assert_eq!(woken.note(Wake::Changed(None)), Worth::Looking);
        }
        assert!(woken.take().changed);
        assert!(!woken.take().changed);
    }

    #[test]
    fn own_removals_are_no_news() {
        let woken = Woken::default();
        assert_eq!(woken.note(Wake::Removed), Worth::Nothing);
        assert_eq!(woken.note(Wake::Closed("a.json")), Worth::Nothing);
        woken.set_open(true);
        assert_eq!(woken.note(Wake::Removed), Worth::Looking);
        assert_eq!(woken.note(Wake::Closed("a.json")), Worth::Looking);
        let news = woken.take();
        assert!(news.removed);
        assert_eq!(news.closed, Closed::These(HashSet::from([id("a")])));
    }

    #[test]
    fn too_many_names_are_all_of_them_and_so_is_an_overflow() {
        let woken = Woken::default();
        woken.set_open(true);
        for n in 0..=MAX_CLOSED {
            woken.note(Wake::Closed(&format!("r{n}.json")));
        }
        assert_eq!(woken.take().closed, Closed::Any);
        woken.note(Wake::Overflow);
        let news = woken.take();
        assert!(news.changed);
        assert_eq!(news.closed, Closed::Any);
    }

    #[test]
    fn a_proof_is_kept_until_the_directory_changes() {
        let woken = Woken::default();
        assert_eq!(woken.note(Wake::Proof), Worth::Nothing);
        assert!(woken.is_proven());
        woken.forget_proof();
        assert!(!woken.is_proven());
        woken.note(Wake::Lost);
        assert!(woken.is_lost() && woken.take_lost() && !woken.is_lost());
    }
}

//! The lock on the file of a log, so that writers of several processes take turns.
//!
//! It is advisory, and it is on the log itself: whoever opens the file can hold it. So nobody waits for it for long, and one who
//! waited in vain does not wait again until it was had once: a tool that keeps the lock costs one wait, not one for each record.

use std::fs::File;
use std::io;
use std::time::Duration;

use crate::clock;
use crate::spool::{Attempt, lock_exclusive};

/// How long is waited at most.
const PATIENCE: Duration = Duration::from_millis(250);

/// How often the processor is only passed on before the waiting begins: a writer holds the lock for microseconds.
const TURNS: u32 = 16;

/// First and longest step of the waiting.
const FIRST_STEP: Duration = Duration::from_micros(50);
const LONGEST_STEP: Duration = Duration::from_millis(2);

/// A lock that is held, or one that this file system does not have.
#[derive(Debug)]
pub(super) struct Held<'a> {
    file: &'a File,
    /// Whether others are kept out.
    pub(super) excludes: bool,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        if self.excludes {
            // Closing would not do: a program that was started meanwhile may share the descriptor for an instant.
            let _freed = fs2::FileExt::unlock(self.file);
        }
    }
}

/// What asking for the lock gave.
#[derive(Debug)]
pub(super) enum Taking<'a> {
    /// It may be written.
    Held(Held<'a>),
    /// Somebody else holds it, for longer than is waited.
    Busy,
}

/// Takes the lock, waiting for it a little if it is `patient`.
pub(super) fn take(file: &File, patient: bool) -> io::Result<Taking<'_>> {
    let mut turns = 0;
    let mut step = FIRST_STEP;
    let mut until = None;
    loop {
        let excludes = match lock_exclusive(file) {
            Attempt::Locked => true,
            Attempt::Unsupported => false,
            Attempt::Failed(error) => return Err(error),
            Attempt::Busy if !patient => return Ok(Taking::Busy),
            Attempt::Busy => {
                let until = *until.get_or_insert_with(|| clock::now().after(PATIENCE));
                if turns < TURNS {
                    turns += 1;
                    std::thread::yield_now();
                } else if clock::now() < until {
                    std::thread::sleep(step);
                    step = (step * 2).min(LONGEST_STEP);
                } else {
                    return Ok(Taking::Busy);
                }
                continue;
            }
        };
        return Ok(Taking::Held(Held { file, excludes }));
    }
}

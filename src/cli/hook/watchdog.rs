//! Ends the hook in time, whatever it is busy with.
//!
//! What a call is about is worked out on a thread of its own. Nothing that happens there, be it long computing or a file system that does
//! not answer, keeps the thread that waits here from seeing the deadline or a signal. It is also the only one that tells the host
//! anything, so the host is told once.

use std::convert::Infallible;
use std::thread;
use std::time::Duration;

use anyhow::Context as _;
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;

/// What the work has of stack: as much as the first thread of a process.
const STACK: usize = 8 << 20;

/// Comes to an end when the work is to.
pub(super) type IsCut = oneshot::Receiver<Infallible>;

/// How the wait for the work ended.
pub(super) enum Ended<T> {
    /// It was done.
    Done(T),
    /// It was not, and what it would say now counts no more.
    CutShort {
        /// Why.
        reason: &'static str,
        /// What is still being done.
        work: Work<T>,
    },
}

/// Work that goes on.
pub(super) struct Work<T> {
    runtime: Runtime,
    cut: oneshot::Sender<Infallible>,
    done: oneshot::Receiver<T>,
}

impl<T> Work<T> {
    /// Has the work take back what it has asked, and waits no longer than this for it.
    pub(super) fn withdraw(self, grace: Duration) {
        drop(self.cut);
        let done = self.done;
        let _in_time = self
            .runtime
            .block_on(async { tokio::time::timeout(grace, done).await });
    }
}

/// Does `work`, and waits for it until a signal comes or `gives_up` has gone by.
pub(super) fn in_time<T: Send + 'static>(
    gives_up: Duration,
    work: impl FnOnce(IsCut) -> T + Send + 'static,
) -> anyhow::Result<Ended<T>> {
    let runtime = crate::cli::runtime()?;
    let (cut, is_cut) = oneshot::channel();
    let (finish, mut done) = oneshot::channel();
    let came = runtime.block_on(async {
        let mut signals = Signals::new()?;
        let started = thread::Builder::new()
            .name("hook".to_owned())
            .stack_size(STACK)
            .spawn(move || {
                let _nobody_waits = finish.send(work(is_cut));
            });
        started.context("nothing can be worked out")?;
        anyhow::Ok(tokio::select! {
            biased;
            () = signals.come() => Err("the hook was told to end before anybody answered"),
            () = tokio::time::sleep(gives_up) => Err("nobody answered in time"),
            ended = &mut done => Ok(ended.context("the hook itself failed")?),
        })
    })?;
    Ok(match came {
        Ok(done) => Ended::Done(done),
        Err(reason) => Ended::CutShort {
            reason,
            work: Work { runtime, cut, done },
        },
    })
}

/// The signals that tell a process to end.
struct Signals([Signal; 3]);

impl Signals {
    fn new() -> anyhow::Result<Self> {
        Ok(Self([
            signal(SignalKind::terminate())?,
            signal(SignalKind::interrupt())?,
            signal(SignalKind::hangup())?,
        ]))
    }

    async fn come(&mut self) {
        let [terminate, interrupt, hangup] = &mut self.0;
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            _ = hangup.recv() => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_done_in_time_counts() {
        let ended = in_time(Duration::from_mins(10), |_| 7).unwrap();
        assert!(matches!(ended, Ended::Done(7)));
    }

    #[test]
    fn work_that_heeds_nothing_is_cut_short_and_what_heeds_it_is_waited_for() {
        let (leave, stays) = std::sync::mpsc::channel::<()>();
        let ended = in_time(Duration::ZERO, move |_| {
            let _until_the_test_ends = stays.recv();
        });
        let Ended::CutShort { reason, work } = ended.unwrap() else {
            panic!("it is done")
        };
        assert_eq!(reason, "nobody answered in time");
        work.withdraw(Duration::ZERO);
        drop(leave);
        let (withdrawn, is_withdrawn) = std::sync::mpsc::channel();
        let ended = in_time(Duration::ZERO, move |is_cut| {
            assert!(is_cut.blocking_recv().is_err());
            withdrawn.send(()).unwrap();
        });
        let Ended::CutShort { work, .. } = ended.unwrap() else {
            panic!("it is done")
        };
        work.withdraw(Duration::from_mins(10));
        assert_eq!(is_withdrawn.try_recv(), Ok(()));
    }

    #[test]
    fn work_that_says_nothing_is_an_error() {
        let ended = in_time(Duration::from_mins(10), |_| -> () {
            std::panic::resume_unwind(Box::new(()))
        });
        assert!(ended.is_err());
    }
}

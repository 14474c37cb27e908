//! What a program writes to stderr, where the operator keeps it: line by line in the debug log.
//!
//! It is for whoever looks why a program failed. Nothing is decided by it, and nothing waits for it: what is beyond its bounds is
//! read and thrown away, so that no program stands still for having said too much, and the log is written behind the caller's
//! back once the program has ended or was given up.
//!
//! Secrets in it are masked as far as they look like those in a command line; what else it says stands there as it was written.

use std::sync::Arc;

use tokio::io::AsyncReadExt as _;
use tokio::process::ChildStderr;

use crate::audit::{Entry, Event, ReviewLog};
use crate::clock;
use crate::presentation::secrets;

/// Most bytes that are kept of one run.
const MAX_BYTES: usize = 64 << 10;
/// Most lines that are kept of one run.
const MAX_LINES: usize = 200;

/// Where it goes.
#[derive(Debug, Clone)]
pub(super) struct Kept {
    log: Arc<ReviewLog>,
    program: String,
}

impl Kept {
    pub(super) fn new(log: Arc<ReviewLog>, program: String) -> Self {
        Self { log, program }
    }

    /// Whether it goes anywhere.
    pub(super) fn is_wanted(&self) -> bool {
        self.log.is_enabled()
    }
}

/// What one run has written so far. It goes to the log when this is dropped.
#[derive(Debug)]
pub(super) struct Heard {
    from: Option<ChildStderr>,
    bytes: Vec<u8>,
    /// How many bytes were thrown away.
    beyond: u64,
    to: Kept,
    /// The ask that it was about, where it is known.
    about: Option<String>,
}

impl Heard {
    pub(super) fn new(from: ChildStderr, to: Kept, about: Option<String>) -> Self {
        Self {
            from: Some(from),
            bytes: Vec::new(),
            beyond: 0,
            to,
            about,
        }
    }

    /// Whether more may come.
    pub(super) fn is_open(&self) -> bool {
        self.from.is_some()
    }

    /// Reads what has come, once something has. Gives how many bytes that were.
    pub(super) async fn listen(&mut self) -> usize {
        let Some(from) = &mut self.from else { return 0 };
        let mut buffer = [0; 4096];
        let count = from.read(&mut buffer).await.unwrap_or(0);
        if count == 0 {
            self.from = None;
        }
        let read = buffer.get(..count).unwrap_or_default();
        let room = MAX_BYTES.saturating_sub(self.bytes.len());
        let (kept, beyond) = read.split_at_checked(room).unwrap_or((read, &[]));
        self.bytes.extend_from_slice(kept);
        self.beyond += beyond.len() as u64;
        count
    }

    /// Reads what is there, and no more: others may hold the pipe still, and write into it without an end.
    pub(super) async fn catch_up(&mut self) {
        let mut left = match &self.from {
            Some(from) => rustix::io::ioctl_fionread(from).unwrap_or(0),
            None => 0,
        };
        while left > 0 && self.is_open() {
            let read = self.listen().await;
            left = left.saturating_sub(read as u64);
        }
    }

    /// What is written to the log.
    fn entries(&self) -> Vec<Entry> {
        let entry = || {
            Entry::new(Event::ProgramStderr)
                .with("program", self.to.program.as_str())
                .with_known("requestId", self.about.as_deref())
        };
        let mut lines = self.bytes.split_inclusive(|byte| *byte == b'\n');
        let mut entries: Vec<Entry> = lines
            .by_ref()
            .take(MAX_LINES)
            .map(|line| {
                let text = String::from_utf8_lossy(line);
                entry().with("line", secrets::masked(text.trim_end_matches(['\r', '\n'])))
            })
            .collect();
        let more: u64 = lines.map(|line| line.len() as u64).sum();
        if more + self.beyond > 0 {
            entries.push(entry().with("bytesLeftOut", more + self.beyond));
        }
        entries
    }
}

impl Drop for Heard {
    fn drop(&mut self) {
        if self.bytes.is_empty() {
            return;
        }
        let (log, entries, at_ms) = (Arc::clone(&self.to.log), self.entries(), clock::wall_ms());
        let write = move || {
            // It is a help and no record: what cannot be written is not missed.
            let _written = log.append_all(at_ms, &entries);
        };
        // Whoever keeps the log locked must not hold up a session.
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(write)),
            Err(_) => write(),
        }
    }
}

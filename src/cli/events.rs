//! What a session tells, as lines of a file: one JSON object each, with the channel and its data.
//!
//! A listener that is slow, full or gone delays nothing: lines are written on a thread of their own, and what it cannot keep up with it
//! misses, which a line says.

#![expect(
    clippy::disallowed_methods,
    reason = "the file is the operator's, named on the command line"
)]

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::json;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

use super::Hinted;
use crate::presentation::broadcast::Broadcast;
use crate::serve::Mode;

/// How long the end of a session waits for its last words to be written.
const LAST_WORDS: Duration = Duration::from_millis(300);

/// A thread that writes what it hears.
pub(super) struct Listener {
    ended: Receiver<()>,
}

impl Listener {
    /// Begins to listen.
    pub(super) fn start(
        target: &Path,
        mode: Mode,
        heard: broadcast::Receiver<Broadcast>,
    ) -> anyhow::Result<Self> {
        let output = Output::open(target, mode)?;
        let (end, ended) = channel();
        std::thread::Builder::new()
            .name("events".to_owned())
            .spawn(move || {
                // Whoever read it may have gone: there is nobody to tell.
                let _written = write_all(output, heard);
                let _told = end.send(());
            })?;
        Ok(Self { ended })
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let _ended = self.ended.recv_timeout(LAST_WORDS);
    }
}

enum Output {
    Stdout,
    File(File),
    /// A pipe that opens when somebody reads it.
    Pipe(PathBuf),
}

impl Output {
    fn open(target: &Path, mode: Mode) -> anyhow::Result<Self> {
        if target.as_os_str() == "-" {
            return match mode {
                Mode::Headless => Ok(Self::Stdout),
                Mode::Dialog | Mode::Inbox(_) | Mode::Select | Mode::Form => Err(Hinted::usage(
                    "stdout belongs to the person who is asked".to_owned(),
                    "write the events to a file or a named pipe: --events FILE",
                )),
            };
        }
        if target
            .metadata()
            .is_ok_and(|file| file.file_type().is_fifo())
        {
            return Ok(Self::Pipe(target.to_owned()));
        }
        let file = File::options()
            .append(true)
            .create(true)
            .mode(0o600)
            .open(target);
        file.map(Self::File).map_err(|error| {
            Hinted::usage(
                format!("cannot write the events to {}: {error}", target.display()),
                "name a file in a directory that exists and is yours",
            )
        })
    }
}

fn write_all(output: Output, mut heard: broadcast::Receiver<Broadcast>) -> io::Result<()> {
    let mut output: Box<dyn Write> = match output {
        Output::Stdout => Box::new(io::stdout()),
        Output::File(file) => Box::new(file),
        Output::Pipe(path) => Box::new(File::options().write(true).open(path)?),
    };
    loop {
        let line = match heard.blocking_recv() {
            Ok(told) => serde_json::to_string(&told)?,
            Err(RecvError::Lagged(missed)) => {
                json!({"channel": "askrelay:missed", "data": {"count": missed}}).to_string()
            }
            Err(RecvError::Closed) => return Ok(()),
        };
        output.write_all(format!("{line}\n").as_bytes())?;
        output.flush()?;
    }
}

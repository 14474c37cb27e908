//! The writer of one log: takes the lock, finds out how the file ends, and appends whole lines to it with one write.
//!
//! ```text
//! bodies ─▶ lock ─▶ does the path lead here? ─▶ how does it end? ─▶ rotate? ─▶ seal, one write ─▶ unlock
//!                    └ no: open again            └ changed? torn?
//! ```
//!
//! All processes that write a log go this way, so that what one of them does under the lock, the others find done. A step that a
//! crash prevents is made up for by whoever comes next: a piece of a line is ended and recorded, a file that was renamed away
//! gets a successor.
//!
//! It does not know what a record means, and reads nothing of the log but its end and the time of its first line.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::chain::{self, Lines, Tail};
use super::current::{Known, LogFile, Open};
use super::held::{Failure, Held, Unwritten};
use super::lock::{self, Taking};
use super::log::Options;
use super::rotation::{self, Previous};
use super::{AuditError, Entry, Event, line};

/// How often a log is opened again within one append: each time somebody else has rotated it meanwhile.
const OPENINGS: usize = 64;

/// After how long a rotation that failed is tried again, in milliseconds of the log's own times.
const ROTATE_AGAIN_MS: i64 = 60_000;

/// Room for what the chain adds to a line.
const LINK_BYTES: usize = 80;

/// Writes one log.
#[derive(Debug)]
pub(super) struct Writer {
    path: PathBuf,
    options: Options,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    open: Option<Open>,
    /// Whether the lock is worth waiting for.
    patient: bool,
    /// What became of a line that we know of, until that is recorded.
    changed: Option<Changed>,
    held: Held,
    failure: Option<Failure>,
    /// When a rotation failed last, and why; with what is not recorded yet.
    unrotated: Option<Unrotated>,
    /// Time of the last records.
    at_ms: i64,
}

/// A line that we knew is not where it was.
#[derive(Debug)]
struct Changed {
    known: Known,
    how: &'static str,
}

#[derive(Debug)]
struct Unrotated {
    at_ms: i64,
    text: String,
    is_recorded: bool,
}

/// Where lines were written.
struct Written {
    log: Arc<LogFile>,
    start: u64,
    end: u64,
    /// What the log told of itself there.
    told: Told,
    /// Hash of each line that was to be written.
    hashes: Vec<blake3::Hash>,
}

/// What had to be told beside the records, or was held, and now stands in the log.
struct Told {
    changed: Option<Changed>,
    held: Held,
    failure: Option<Failure>,
    not_rotated: bool,
}

impl Writer {
    /// A writer of the log at `path`, which is opened now.
    pub(super) fn open(path: &Path, options: Options) -> Result<Self, AuditError> {
        let open = Open::at(path)?;
        Ok(Self::with(path, options, Some(open), None))
    }

    /// A writer of a log that could not be opened at `at_ms`: each append tries again.
    pub(super) fn unopened(path: &Path, options: Options, at_ms: i64, why: &AuditError) -> Self {
        Self::with(path, options, None, Some(Failure::of(at_ms, why)))
    }

    fn with(path: &Path, options: Options, open: Option<Open>, failure: Option<Failure>) -> Self {
        Self {
            path: path.to_owned(),
            options,
            state: Mutex::new(State {
                open,
                patient: true,
                changed: None,
                held: Held::default(),
                at_ms: failure.as_ref().map_or(0, |failure| failure.since_ms),
                failure,
                unrotated: None,
            }),
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Why the last records could not be written.
    pub(super) fn failure(&self) -> Option<String> {
        let state = self.state();
        state.failure.as_ref().map(|failure| failure.text.clone())
    }

    /// Appends records next to each other.
    pub(super) fn append(
        &self,
        at_ms: i64,
        entries: &[Entry],
        unwritten: Unwritten,
    ) -> Result<(), AuditError> {
        self.put(at_ms, entries, unwritten).map(|_written| ())
    }

    /// Appends records, and returns when they are on the disk.
    pub(super) fn append_durably(
        &self,
        at_ms: i64,
        entries: &[Entry],
        unwritten: Unwritten,
    ) -> Result<Vec<blake3::Hash>, AuditError> {
        let written = self.put(at_ms, entries, unwritten)?;
        #[cfg(debug_assertions)]
        crate::spool::fault::at("log/written");
        let Err(source) = written.log.sync(&self.path) else {
            #[cfg(debug_assertions)]
            crate::spool::fault::at("log/synced");
            return Ok(written.hashes);
        };
        let error = AuditError::Sync {
            path: self.path.clone(),
            source,
        };
        let mut state = self.state();
        state.fail(at_ms, &error);
        if unwritten == Unwritten::Refused {
            state.take_back(&self.path, written);
        }
        Err(error)
    }

    /// Tries again what failed: writes what is held.
    pub(super) fn catch_up(&self, at_ms: i64) -> Result<(), AuditError> {
        let mut state = self.state();
        if state.failure.is_none() {
            return Ok(());
        }
        state.write(self, at_ms, &[]).map(|_written| ())
    }

    fn put(
        &self,
        at_ms: i64,
        entries: &[Entry],
        unwritten: Unwritten,
    ) -> Result<Written, AuditError> {
        let bodies = entries
            .iter()
            .map(|entry| self.body(at_ms, entry))
            .collect::<Result<Vec<_>, _>>()?;
        let mut state = self.state();
        state.at_ms = at_ms;
        let written = state.write(self, at_ms, &bodies);
        if let Err(error) = &written {
            state.fail(at_ms, error);
            match (unwritten, &mut state.failure) {
                (Unwritten::Held, _) => state.held.add(bodies),
                (Unwritten::Refused, Some(failure)) => failure.refused += bodies.len() as u64,
                (Unwritten::Refused, None) => {}
            }
        }
        written
    }

    fn body(&self, at_ms: i64, entry: &Entry) -> Result<Vec<u8>, AuditError> {
        let Options {
            stream,
            field_max_width,
            ..
        } = self.options;
        line::body(at_ms, stream, entry, field_max_width)
            .map_err(|error| self.unwritable(error.into()))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn unwritable(&self, source: io::Error) -> AuditError {
        AuditError::Write {
            path: self.path.clone(),
            source,
        }
    }

    fn unreadable(&self, source: io::Error) -> AuditError {
        AuditError::Read {
            path: self.path.clone(),
            source,
        }
    }

    /// Whether the file has grown or aged so much that these bytes go into a new one.
    fn is_due(&self, open: &mut Open, length: u64, more: usize, at_ms: i64) -> io::Result<bool> {
        let (max_bytes, max_age) = (self.options.max_bytes, self.options.max_age);
        if max_bytes.is_some_and(|most| length.saturating_add(more as u64) > most) {
            return Ok(true);
        }
        let Some(most) = max_age else {
            return Ok(false);
        };
        let first = match open.first_at_ms {
            Some(first) => first,
            None => *open
                .first_at_ms
                .insert(rotation::first_time(&open.log.file)?.unwrap_or(i64::MAX)),
        };
        let age = at_ms.saturating_sub(first);
        Ok(u128::try_from(age).is_ok_and(|age| age >= most.as_millis()))
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let at_ms = {
            let mut state = self.state();
            // Whoever held the lock a moment ago may be done with it.
            state.patient = true;
            state.at_ms
        };
        // The last chance for what is held; it cannot be said any more that it was missed.
        let _written = self.catch_up(at_ms);
    }
}

impl State {
    /// Writes what has to be told, what is held, and these lines. On an error none of it is written.
    fn write(
        &mut self,
        writer: &Writer,
        at_ms: i64,
        bodies: &[Vec<u8>],
    ) -> Result<Written, AuditError> {
        let path = writer.path.as_path();
        let bytes: usize = bodies.iter().map(|body| body.len() + LINK_BYTES).sum();
        let more = bytes + self.held.bytes;
        // At most once: a single line may be longer than a file should be.
        let mut rotated = false;
        for _ in 0..OPENINGS {
            let log = self.opened(path)?;
            #[cfg(debug_assertions)]
            if rotated {
                crate::spool::fault::at("log/created");
            }
            let lock = match lock::take(&log.file, self.patient) {
                Ok(Taking::Held(lock)) => lock,
                Ok(Taking::Busy) => {
                    self.patient = false;
                    return Err(AuditError::Busy {
                        path: path.to_owned(),
                    });
                }
                Err(source) => return Err(writer.unwritable(source)),
            };
            self.patient = true;
            let length = match log.length_at(path) {
                Ok(Some(length)) => length,
                Ok(None) => {
                    drop(lock);
                    self.leave(path);
                    continue;
                }
                Err(source) => return Err(writer.unreadable(source)),
            };
            let tail = self
                .tail(&log.file, length)
                .map_err(|source| writer.unreadable(source))?;
            if !rotated && matches!(tail, Tail::Line { .. }) {
                rotated = self
                    .rotates(writer, length, more, at_ms)
                    .map_err(|source| writer.unreadable(source))?;
                if rotated {
                    drop(lock);
                    self.leave(path);
                    continue;
                }
            }
            let Lines {
                out, last, hashes, ..
            } = self.compose(writer, at_ms, tail, bodies)?;
            let excludes = lock.excludes;
            log.write(&out, length, excludes)
                .map_err(|source| writer.unwritable(source))?;
            #[cfg(debug_assertions)]
            if tail == Tail::Nothing {
                crate::spool::fault::at("log/begun");
            }
            let end = length + out.len() as u64;
            if let Some(open) = &mut self.open {
                // Without a lock others may have written meanwhile.
                open.known = excludes.then_some(Known {
                    start: length + last.start,
                    end: end - 1,
                    hash: last.hash,
                });
            }
            let told = self.settle();
            drop(lock);
            return Ok(Written {
                log,
                start: length,
                end,
                told,
                hashes: hashes
                    .get(hashes.len().saturating_sub(bodies.len())..)
                    .unwrap_or_default()
                    .to_vec(),
            });
        }
        Err(AuditError::Restless {
            path: path.to_owned(),
        })
    }

    /// The file that is open; opens it if there is none.
    fn opened(&mut self, path: &Path) -> Result<Arc<LogFile>, AuditError> {
        let open = match &mut self.open {
            Some(open) => open,
            none => none.insert(Open::at(path)?),
        };
        Ok(Arc::clone(&open.log))
    }

    /// How the file ends. Notices whether the last line that we know of is still there.
    fn tail(&mut self, file: &File, length: u64) -> io::Result<Tail> {
        let Some(open) = &mut self.open else {
            return chain::tail(file, length);
        };
        if let Some(known) = open.known {
            if length == known.end + 1 {
                let Known { start, hash, .. } = known;
                return Ok(Tail::Line { start, hash });
            }
            let how = if length <= known.end {
                Some("cut")
            } else if known.is_in(file)? {
                None
            } else {
                Some("edited")
            };
            if let Some(how) = how {
                self.changed.get_or_insert(Changed { known, how });
            }
            open.known = None;
        }
        let tail = chain::tail(file, length)?;
        if let Tail::Line { start, hash } = tail {
            let end = length - 1;
            open.known = Some(Known { start, end, hash });
        }
        Ok(tail)
    }

    /// Renames the file away if it is due. What prevents that prevents no record.
    fn rotates(
        &mut self,
        writer: &Writer,
        length: u64,
        more: usize,
        at_ms: i64,
    ) -> io::Result<bool> {
        let Some(open) = &mut self.open else {
            return Ok(false);
        };
        if !writer.is_due(open, length, more, at_ms)? {
            return Ok(false);
        }
        if let Some(unrotated) = &self.unrotated
            && at_ms.abs_diff(unrotated.at_ms) < ROTATE_AGAIN_MS.unsigned_abs()
        {
            return Ok(false);
        }
        match rotation::rotate(&writer.path, &open.log.file) {
            Ok(()) => {
                self.unrotated = None;
                Ok(true)
            }
            Err(error) => {
                let text = error.to_string();
                let is_recorded = self
                    .unrotated
                    .as_ref()
                    .is_some_and(|before| before.is_recorded && before.text == text);
                self.unrotated = Some(Unrotated {
                    at_ms,
                    text,
                    is_recorded,
                });
                Ok(false)
            }
        }
    }

    /// Lets go of a file to which the path does not lead any more. Notices whether what we know of it is still to be found: in
    /// a file that was rotated away.
    fn leave(&mut self, path: &Path) {
        let Some(open) = self.open.take() else { return };
        let Some(known) = open.known else { return };
        let file = &open.log.file;
        let how = match (rotation::is_kept(path, &open.log), known.is_in(file)) {
            (Ok(false), _) => "gone",
            (Ok(true), Ok(false)) => "edited",
            // What cannot be looked at is no evidence.
            (Ok(true), Ok(true)) | (Err(_), _) | (_, Err(_)) => return,
        };
        self.changed.get_or_insert(Changed { known, how });
    }

    /// The lines of one write.
    fn compose(
        &self,
        writer: &Writer,
        at_ms: i64,
        tail: Tail,
        bodies: &[Vec<u8>],
    ) -> Result<Lines, AuditError> {
        let mut lines = Lines::default();
        match tail {
            Tail::Line { hash, .. } => lines.link = Some(hash),
            Tail::Nothing => {
                if let Some(previous) = Previous::of(&writer.path)? {
                    lines.link = previous.hash;
                    let entry = Entry::new(Event::Rotated)
                        .with("previous", previous.name)
                        .with_known("unreadable", previous.unreadable);
                    lines.add(&writer.body(at_ms, &entry)?);
                }
            }
            Tail::Torn {
                start,
                bytes,
                hash,
                after,
            } => {
                let after = match after {
                    Some(after) => Some(after),
                    None => Previous::of(&writer.path)?.and_then(|previous| previous.hash),
                };
                lines.out.push(b'\n');
                lines.link = Some(hash);
                let entry = Entry::new(Event::TornTail)
                    .with("atByte", start)
                    .with("bytes", bytes)
                    .with_opt("after", after.map(|hash| hash.to_hex().to_string()));
                lines.add(&writer.body(at_ms, &entry)?);
            }
        }
        if let Some(Changed { known, how }) = &self.changed {
            let entry = Entry::new(Event::Changed)
                .with("atByte", known.start)
                .with("expected", known.hash.to_hex().to_string())
                .with("how", *how);
            lines.add(&writer.body(at_ms, &entry)?);
        }
        lines.add_all(&self.held.bodies);
        if self.held.lost > 0 {
            let entry = Entry::new(Event::Lost).with("entries", self.held.lost);
            lines.add(&writer.body(at_ms, &entry)?);
        }
        if let Some(failure) = &self.failure {
            let entry = Entry::new(Event::Recovered)
                .with("since", line::timestamp(failure.since_ms))
                .with("reason", failure.text.as_str())
                .with_known("refused", (failure.refused > 0).then_some(failure.refused));
            lines.add(&writer.body(at_ms, &entry)?);
        }
        if let Some(unrotated) = &self.unrotated
            && !unrotated.is_recorded
        {
            let entry = Entry::new(Event::NotRotated).with("reason", unrotated.text.as_str());
            lines.add(&writer.body(at_ms, &entry)?);
        }
        lines.add_all(bodies);
        Ok(lines)
    }

    /// Everything that had to be told is written.
    fn settle(&mut self) -> Told {
        let not_rotated = self
            .unrotated
            .as_mut()
            .is_some_and(|unrotated| !std::mem::replace(&mut unrotated.is_recorded, true));
        Told {
            changed: self.changed.take(),
            held: std::mem::take(&mut self.held),
            failure: self.failure.take(),
            not_rotated,
        }
    }

    /// What was told does not stand in the log any more: it has to be told again.
    fn unsettle(&mut self, told: Told) {
        self.changed = told.changed.or(self.changed.take());
        self.held.add_before(told.held);
        if let Some(older) = told.failure {
            match &mut self.failure {
                Some(failure) => failure.go_on_from(&older),
                none => *none = Some(older),
            }
        }
        if let Some(unrotated) = &mut self.unrotated {
            unrotated.is_recorded &= !told.not_rotated;
        }
    }

    fn fail(&mut self, at_ms: i64, error: &AuditError) {
        let mut failure = Failure::of(at_ms, error);
        if let Some(before) = &self.failure {
            failure.since_ms = before.since_ms;
            failure.refused = before.refused;
        }
        self.failure = Some(failure);
    }

    /// Takes lines out again that nobody has written behind. What they told beside the records comes with the next ones.
    fn take_back(&mut self, path: &Path, written: Written) {
        let file = &written.log.file;
        if let Ok(Taking::Held(lock)) = lock::take(file, true)
            && lock.excludes
            && written
                .log
                .length_at(path)
                .is_ok_and(|length| length == Some(written.end))
            && file.set_len(written.start).is_ok()
        {
            if let Some(open) = &mut self.open {
                open.known = None;
            }
            self.unsettle(written.told);
        }
    }
}

#[cfg(test)]
#[expect(
    clippy::disallowed_methods,
    reason = "the tests look at what was written"
)]
mod tests {
    use std::fs;

    use super::*;

    /// What a disk that does not sync leaves written must not claim a decision that was refused for that.
    #[test]
    fn what_was_written_and_refused_is_taken_out_again_unless_somebody_wrote_behind_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("review.jsonl");
        let writer = Writer::open(&path, Options::default()).unwrap();
        let put = |name| {
            let entries = [Entry::test(name)];
            writer.put(0, &entries, Unwritten::Refused).unwrap()
        };
        put("first");
        let before = fs::read(&path).unwrap();
        let written = put("refused");
        writer.state().take_back(&path, written);
        assert_eq!(fs::read(&path).unwrap(), before);

        let written = put("kept");
        let other = Writer::open(&path, Options::default()).unwrap();
        let entries = [Entry::test("other")];
        other.append(0, &entries, Unwritten::Refused).unwrap();
        let before = fs::read(&path).unwrap();
        writer.state().take_back(&path, written);
        assert_eq!(fs::read(&path).unwrap(), before);
        put("last");
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(text.lines().count(), 4);
        assert!(!text.contains("review_log."), "{text}");
    }

    /// Nor is it forgotten what the log had to tell of itself with what was taken out.
    #[test]
    fn what_is_taken_out_with_refused_records_is_told_with_the_next() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("review.jsonl");
        let writer = Writer::open(&path, Options::default()).unwrap();
        let put = |at_ms, name| writer.put(at_ms, &[Entry::test(name)], Unwritten::Refused);
        let failure = || AuditError::Sync {
            path: path.clone(),
            source: io::ErrorKind::Other.into(),
        };
        put(0, "first").unwrap();
        put(0, "cut").unwrap();
        // A line goes, a record is held, one is lost and a failure is over.
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, text.lines().next().unwrap().to_owned() + "\n").unwrap();
        {
            let mut state = writer.state();
            state.held.add(vec![
                writer.body(1, &Entry::test("held")).unwrap(),
                vec![b'x'; 2 << 20],
            ]);
            state.fail(1, &failure());
        }
        let before = fs::read(&path).unwrap();
        let written = put(2, "refused").unwrap();
        writer.state().fail(3, &failure());
        writer.state().take_back(&path, written);
        assert_eq!(fs::read(&path).unwrap(), before);

        put(4, "next").unwrap();
        let text = fs::read_to_string(&path).unwrap();
        let entries: Vec<serde_json::Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let names: Vec<_> = entries
            .iter()
            .map(|entry| entry["event"].as_str().unwrap())
            .collect();
        assert_eq!(
            names,
            [
                "first",
                "review_log.changed",
                "held",
                "review_log.lost",
                "review_log.recovered",
                "next"
            ]
        );
        assert_eq!(entries[3]["entries"], 1);
        assert_eq!(entries[4]["since"], "1970-01-01T00:00:00.001Z");
    }
}

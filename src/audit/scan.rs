//! Reading a whole log, and going on as it grows: over all its files, past whatever is no entry.
//!
//! Each byte is read once. Where the lines that are wanted hold a text that is known, the others are passed over without a look at
//! them.

use std::fs::File;
use std::io::{self, Read};
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use memchr::memmem::{self, Finder};
use memchr::{memchr, memrchr_iter};

use super::AuditError;
use super::family::Rotated;
use super::files::{self, Access, Files, Identity, failed};
use super::lines::{Line, Lines};
use super::logged::{Logged, is_launch, is_of_link, is_terminal};
use super::query::Query;
use super::reader::glued;

/// How the name of the event begins, and within how many bytes of a line it stands.
const EVENT: &[u8] = br#","event":""#;
const HEADER: usize = 160;

/// How much is read at once where a file is read from its end.
const BACK: usize = 64 << 10;

/// Where the time stands in a line of ours and of the peer's.
const TIME: std::ops::Range<usize> = 14..38;

/// What is found in a log.
#[derive(Debug)]
pub enum Found<'a> {
    /// An entry that is wanted.
    Entry {
        /// Its file, and where in it the line starts, in bytes.
        at: (&'a Path, u64),
        /// The line as it stands there.
        raw: &'a [u8],
        /// What it says.
        entry: Logged,
    },
    /// An entry of which only its header was looked at, see [`Scan::decisions_only`].
    Header {
        /// Its event.
        event: &'a str,
        /// When it happened, in epoch milliseconds.
        at_ms: i64,
        /// Length of its line.
        bytes: usize,
    },
    /// Something that is no entry.
    Piece {
        /// Its file, and where in it the line starts, in bytes.
        at: (&'a Path, u64),
        /// Its length.
        bytes: u64,
    },
    /// The log was emptied, and is read from its start again.
    Cut,
}

/// What is called for each thing found; it may end the reading.
pub type See<'s> = dyn FnMut(Found<'_>) -> ControlFlow<()> + 's;

/// A log that is read.
#[derive(Debug)]
pub struct Scan {
    path: PathBuf,
    access: Access,
    wanted: Wanted,
    current: Option<Current>,
    /// The file that was read to its end last, where there is none that is written: what comes behind it is new.
    behind: Option<Behind>,
    /// How many lines are read of a whole log, the last ones; all of them where it is not set.
    last: Option<u64>,
    /// Whether anything before the first line that was read was left out.
    left_out: bool,
}

/// A file of which nothing more is expected.
#[derive(Debug, Clone, Copy)]
struct Behind {
    identity: Identity,
    /// Its number, where it was read under that.
    number: Option<u64>,
}

impl Behind {
    fn of(rotated: &Rotated) -> Result<Option<Self>, AuditError> {
        let facts = files::look(&rotated.path).map_err(failed(&rotated.path))?;
        Ok(facts.map(|(identity, _)| Self {
            identity,
            number: Some(rotated.number),
        }))
    }

    /// How many of these files are not behind it. One that is not among them any more has only its number to tell by.
    fn skips(self, rotated: &[Rotated]) -> usize {
        match (files::place_of(rotated, self.identity), self.number) {
            (Some(at), _) => at + 1,
            (None, Some(number)) => rotated.partition_point(|rotated| rotated.number <= number),
            (None, None) => rotated.len(),
        }
    }
}

#[derive(Debug)]
struct Current {
    lines: Lines<File>,
    identity: Identity,
}

/// A query, ready to be asked of lines.
#[derive(Debug)]
struct Wanted {
    query: Query,
    needle: Option<Finder<'static>>,
    /// Whether only decisions are read whole.
    decisions_only: bool,
}

/// Whether there was anything to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Scanned {
    /// There was.
    Read,
    /// There is no file of this log.
    NoLog,
    /// The reading was ended by whoever saw what was found.
    Ended,
}

impl Scan {
    /// A reading of the log at `path`; nothing is read yet.
    pub fn new(path: &Path, access: Access, query: Query) -> Self {
        let needle = query
            .needle()
            .map(|needle| Finder::new(needle).into_owned());
        Self {
            path: path.to_owned(),
            access,
            wanted: Wanted {
                query,
                needle,
                decisions_only: false,
            },
            current: None,
            behind: None,
            last: None,
            left_out: false,
        }
    }

    /// The same, but of what is there at first only the last lines are read: so many, or all.
    #[must_use]
    pub fn only_last(mut self, lines: u64) -> Self {
        self.last = Some(lines);
        self
    }

    /// The same, but only the last words of serving sessions, and of the links of their chains, are read whole; of the others it is enough to know that they are there.
    /// Where anything is asked for in particular, all are read.
    #[must_use]
    pub fn decisions_only(mut self) -> Self {
        self.wanted.decisions_only = self.wanted.query.is_empty();
        self
    }

    /// Whether anything was left out for being before the last lines.
    pub fn left_out(&self) -> bool {
        self.left_out
    }

    /// Reads the log as far as it goes, but for a last line without an end: see [`Scan::finish`].
    pub fn read(&mut self, see: &mut See<'_>) -> Result<Scanned, AuditError> {
        let files = Files::find(&self.path, self.access)?;
        if files.is_empty() {
            return Ok(Scanned::NoLog);
        }
        let Files {
            rotated, current, ..
        } = files;
        let (skipped, mut start) = match self.last {
            Some(lines) => self.start_of_last(&rotated, current.as_ref(), lines)?,
            None => (0, 0),
        };
        self.left_out = (skipped, start) != (0, 0);
        if let (Some(newest), None) = (rotated.last(), &current) {
            self.behind = Behind::of(newest)?;
        }
        for rotated in rotated.into_iter().skip(skipped) {
            let from = std::mem::take(&mut start);
            if self.read_rotated(&rotated.path, from, see)?.is_break() {
                return Ok(Scanned::Ended);
            }
        }
        if let Some(file) = current {
            self.take(file, start)?;
        }
        self.go_on(see)
    }

    /// Where the last lines of all files begin: how many files stand before, and how many bytes in the first that is read.
    fn start_of_last(
        &self,
        rotated: &[Rotated],
        current: Option<&File>,
        lines: u64,
    ) -> Result<(usize, u64), AuditError> {
        let mut left = lines;
        if let Some(file) = current {
            let (start, found) = last_lines(file, left).map_err(failed(&self.path))?;
            if found >= left {
                return Ok((rotated.len(), start));
            }
            left -= found;
        }
        for (index, rotated) in rotated.iter().enumerate().rev() {
            let file = files::open_rotated(&rotated.path, self.access)?;
            let (start, found) = last_lines(&file, left).map_err(failed(&rotated.path))?;
            if found >= left {
                return Ok((index, start));
            }
            left -= found;
        }
        Ok((0, 0))
    }

    /// Gives out what stands behind the last newline: nothing more is expected.
    pub fn finish(&mut self, see: &mut See<'_>) -> ControlFlow<()> {
        match &mut self.current {
            Some(current) => self.wanted.rest(&self.path, &mut current.lines, see),
            None => ControlFlow::Continue(()),
        }
    }

    /// Reads what has been added since, also where the log was rotated or cut meanwhile.
    pub fn poll(&mut self, see: &mut See<'_>) -> Result<Scanned, AuditError> {
        let Some(current) = &self.current else {
            return match self.behind {
                Some(behind) => self.read_behind(behind, see),
                None => self.read(see),
            };
        };
        let (identity, read) = (current.identity, current.lines.position());
        match files::look(&self.path).map_err(failed(&self.path))? {
            // It is being rotated: a moment later there is another one.
            None => return self.go_on(see),
            Some((now, length)) if now == identity => {
                if length < read && self.cut_to(length, see)?.is_break() {
                    return Ok(Scanned::Ended);
                }
                return self.go_on(see);
            }
            Some(_) => {}
        }
        // Nothing is added to a file that was rotated away: this is the end of it.
        let ended = self.go_on(see)?;
        if ended == Scanned::Ended || self.finish(see).is_break() {
            return Ok(Scanned::Ended);
        }
        self.current = None;
        let behind = Behind {
            identity,
            number: None,
        };
        self.read_behind(behind, see)
    }

    /// Reads what comes behind a file. There may be nothing yet: a log that was rotated has no current file until it is written again.
    fn read_behind(&mut self, behind: Behind, see: &mut See<'_>) -> Result<Scanned, AuditError> {
        let Files {
            rotated, current, ..
        } = Files::find(&self.path, self.access)?;
        let skipped = behind.skips(&rotated);
        self.behind = Some(behind);
        for rotated in rotated.into_iter().skip(skipped) {
            self.behind = Behind::of(&rotated)?.or(self.behind);
            if self.read_rotated(&rotated.path, 0, see)?.is_break() {
                return Ok(Scanned::Ended);
            }
        }
        if let Some(file) = current {
            self.take(file, 0)?;
        }
        self.go_on(see)
    }

    /// The log was cut. From an empty one everything is new; else somebody took back the last lines, and what comes goes on there.
    fn cut_to(&mut self, length: u64, see: &mut See<'_>) -> Result<ControlFlow<()>, AuditError> {
        let Some(current) = &mut self.current else {
            return Ok(ControlFlow::Continue(()));
        };
        current.lines.start_at(length).map_err(failed(&self.path))?;
        if length > 0 {
            return Ok(ControlFlow::Continue(()));
        }
        Ok(see(Found::Cut))
    }

    fn take(&mut self, file: File, start: u64) -> Result<(), AuditError> {
        let facts = file.metadata().map_err(failed(&self.path))?;
        let mut lines = Lines::new(file);
        if start > 0 {
            lines.start_at(start).map_err(failed(&self.path))?;
        }
        self.current = Some(Current {
            identity: Identity::of(&facts),
            lines,
        });
        Ok(())
    }

    fn go_on(&mut self, see: &mut See<'_>) -> Result<Scanned, AuditError> {
        let Some(current) = &mut self.current else {
            return Ok(Scanned::Read);
        };
        let went = self
            .wanted
            .ended_lines(&self.path, &mut current.lines, see)
            .map_err(failed(&self.path))?;
        Ok(match went {
            ControlFlow::Continue(()) => Scanned::Read,
            ControlFlow::Break(()) => Scanned::Ended,
        })
    }

    fn read_rotated(
        &self,
        path: &Path,
        start: u64,
        see: &mut See<'_>,
    ) -> Result<ControlFlow<()>, AuditError> {
        let file = files::open_rotated(path, self.access)?;
        let written = file
            .metadata()
            .and_then(|facts| facts.modified())
            .ok()
            .and_then(|at| jiff::Timestamp::try_from(at).ok())
            .map(jiff::Timestamp::as_millisecond);
        if self.wanted.query.rules_out(written, None) {
            return Ok(ControlFlow::Continue(()));
        }
        let mut lines = Lines::new(file);
        if start > 0 {
            lines.start_at(start).map_err(failed(path))?;
        }
        let went = self
            .wanted
            .file(path, &mut lines, see)
            .map_err(failed(path))?;
        Ok(went)
    }
}

impl Wanted {
    /// Looks at a whole file.
    fn file<R: Read>(
        &self,
        path: &Path,
        lines: &mut Lines<R>,
        see: &mut See<'_>,
    ) -> io::Result<ControlFlow<()>> {
        if self.query.until_ms.is_some() {
            // The first line tells whether the file is later than what is wanted.
            let Some(line) = lines.next_or_rest()? else {
                return Ok(ControlFlow::Continue(()));
            };
            let first = line.whole().and_then(time_of);
            if self.query.rules_out(None, first) {
                return Ok(ControlFlow::Continue(()));
            }
            if self.line(path, &line, see).is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        if self.ended_lines(path, lines, see)?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
        Ok(self.rest(path, lines, see))
    }

    fn ended_lines<R: Read>(
        &self,
        path: &Path,
        lines: &mut Lines<R>,
        see: &mut See<'_>,
    ) -> io::Result<ControlFlow<()>> {
        loop {
            let next = match &self.needle {
                Some(needle) => lines.next_with(needle)?,
                None => lines.next()?,
            };
            match next {
                None => return Ok(ControlFlow::Continue(())),
                Some(line) if self.line(path, &line, see).is_break() => {
                    return Ok(ControlFlow::Break(()));
                }
                Some(_) => {}
            }
        }
    }

    fn rest<R: Read>(
        &self,
        path: &Path,
        lines: &mut Lines<R>,
        see: &mut See<'_>,
    ) -> ControlFlow<()> {
        match lines.rest() {
            Some(line) => self.line(path, &line, see),
            None => ControlFlow::Continue(()),
        }
    }

    fn line(&self, path: &Path, line: &Line<'_>, see: &mut See<'_>) -> ControlFlow<()> {
        let at = (path, line.at);
        let Some(bytes) = line.whole() else {
            return self.piece(at, line.length, see);
        };
        if bytes.trim_ascii().is_empty() {
            return ControlFlow::Continue(());
        }
        if let Some(needle) = &self.needle
            && needle.find(bytes).is_none()
        {
            return ControlFlow::Continue(());
        }
        // An entry that tells its time where it is expected need not be read to be left out.
        if let Some(time) = time_of(bytes)
            && !self.query.wants_time(|| Some(time))
        {
            return ControlFlow::Continue(());
        }
        if self.decisions_only
            && let Some((event, at_ms)) = header_of(bytes)
            && !is_terminal(event)
            && !is_of_link(event)
            && !is_launch(event)
        {
            let bytes = bytes.len();
            return see(Found::Header {
                event,
                at_ms,
                bytes,
            });
        }
        if let Some(entry) = Logged::parse(bytes) {
            return self.entry(at, bytes, entry, see);
        }
        let Some(start) = glued(bytes) else {
            return self.piece(at, line.length, see);
        };
        self.piece(at, start as u64, see)?;
        let raw = bytes.get(start..).unwrap_or_default();
        match Logged::parse(raw) {
            Some(entry) => self.entry(at, raw, entry, see),
            None => ControlFlow::Continue(()),
        }
    }

    fn entry(
        &self,
        at: (&Path, u64),
        raw: &[u8],
        entry: Logged,
        see: &mut See<'_>,
    ) -> ControlFlow<()> {
        if !self.query.wants(&entry) {
            return ControlFlow::Continue(());
        }
        see(Found::Entry { at, raw, entry })
    }

    /// What is no entry is told of where everything is wanted, or where it holds what is looked for.
    fn piece(&self, at: (&Path, u64), bytes: u64, see: &mut See<'_>) -> ControlFlow<()> {
        if self.query.is_empty() || self.needle.is_some() {
            return see(Found::Piece { at, bytes });
        }
        ControlFlow::Continue(())
    }
}

/// Where the last lines of a file begin, and how many there are, at most so many. What has no line feed at its end counts as one.
fn last_lines(file: &File, lines: u64) -> io::Result<(u64, u64)> {
    let length = file.metadata()?.len();
    let mut buffer = vec![0; BACK];
    let mut end = length;
    let mut found = 0;
    while end > 0 && lines > 0 {
        let start = end.saturating_sub(BACK as u64);
        let count = usize::try_from(end - start).unwrap_or(BACK);
        let piece = buffer.get_mut(..count).unwrap_or_default();
        file.read_exact_at(piece, start)?;
        for at in memrchr_iter(b'\n', piece) {
            let behind = start + at as u64 + 1;
            // The line feed of the last line begins no other one.
            if behind == length {
                continue;
            }
            found += 1;
            if found == lines {
                return Ok((behind, found));
            }
        }
        end = start;
    }
    Ok((0, found + u64::from(length > 0)))
}

/// The event and the time of a line whose header is as we and the peer write it, and which ends as an entry does.
fn header_of(line: &[u8]) -> Option<(&str, i64)> {
    let at_ms = time_of(line)?;
    let header = line.get(..line.len().min(HEADER))?;
    let start = memmem::find(header, EVENT)? + EVENT.len();
    let name = header.get(start..)?;
    let name = name.get(..memchr(b'"', name)?)?;
    let is_plain = name
        .iter()
        .all(|byte| byte.is_ascii_graphic() && *byte != b'\\');
    let name = std::str::from_utf8(name).ok().filter(|_| is_plain)?;
    line.ends_with(b"}").then_some((name, at_ms))
}

/// The time of a line whose header is as we and the peer write it.
fn time_of(line: &[u8]) -> Option<i64> {
    if !line.starts_with(super::line::LINE_START) {
        return None;
    }
    let text = std::str::from_utf8(line.get(TIME)?).ok()?;
    let at: jiff::Timestamp = text.parse().ok()?;
    Some(at.as_millisecond())
}

#[cfg(test)]
#[expect(
    clippy::disallowed_methods,
    reason = "the tests lay out the files of a log"
)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn the_last_lines_of_a_file_are_found_from_its_end() {
        let wide = "x".repeat(BACK * 2 + 7);
        for text in [
            String::new(),
            "\n".to_owned(),
            "a\nbb\nccc\n".to_owned(),
            "a\nbb\nccc".to_owned(),
            format!("a\n{wide}\nb\n{wide}"),
            format!("{wide}\n\n\n"),
        ] {
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(text.as_bytes()).unwrap();
            let all: Vec<&str> = text.split_inclusive('\n').collect();
            for lines in 0..=all.len() + 1 {
                let (start, found) = last_lines(&file, lines as u64).unwrap();
                let expected = all.len().min(lines);
                if lines > 0 {
                    assert_eq!(found, expected as u64, "{lines} of {}", all.len());
                    let rest: usize = all[all.len() - expected..]
                        .iter()
                        .map(|line| line.len())
                        .sum();
                    assert_eq!(
                        start,
                        (text.len() - rest) as u64,
                        "{lines} of {}",
                        all.len()
                    );
                }
            }
        }
    }

    /// A log of which every file was rotated away, and which is written again later.
    #[test]
    fn without_a_current_file_nothing_is_read_twice() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        let write = |name: &str, event: &str| {
            let line = format!("{{\"event\":\"{event}\"}}\n");
            std::fs::write(at(name), line).unwrap();
        };
        let rotate = |to: &str| std::fs::rename(at("review.jsonl"), at(to)).unwrap();
        let mut scan = Scan::new(&at("review.jsonl"), Access::Own, Query::default());
        let mut poll = || {
            let mut seen = String::new();
            let scanned = scan.poll(&mut |found| {
                if let Found::Entry { entry, .. } = found {
                    seen.push_str(entry.event());
                }
                ControlFlow::Continue(())
            });
            assert_eq!(scanned.unwrap(), Scanned::Read);
            seen
        };
        write("review.000001.jsonl", "a");
        write("review.000002.jsonl", "b");
        assert_eq!(poll(), "ab");
        assert_eq!(poll(), "");
        assert_eq!(poll(), "");
        write("review.jsonl", "c");
        rotate("review.000003.jsonl");
        assert_eq!(poll(), "c");
        write("review.jsonl", "d");
        assert_eq!(poll(), "d");
        rotate("review.000004.jsonl");
        assert_eq!(poll(), "");
        write("review.jsonl", "e");
        rotate("review.000005.jsonl");
        assert_eq!(poll(), "");
        write("review.jsonl", "f");
        assert_eq!(poll(), "ef");
        // The one that was read last was put away.
        rotate("review.000006.jsonl");
        write("review.jsonl", "g");
        rotate("review.000007.jsonl");
        let mut late = Scan::new(&at("review.jsonl"), Access::Own, Query::default());
        let mut events = 0;
        let mut poll = || {
            let scanned = late.poll(&mut |found| {
                events += usize::from(matches!(found, Found::Entry { .. }));
                ControlFlow::Continue(())
            });
            assert_eq!(scanned.unwrap(), Scanned::Read);
            std::mem::take(&mut events)
        };
        assert_eq!(poll(), 7);
        std::fs::rename(at("review.000007.jsonl"), at("away")).unwrap();
        write("review.000008.jsonl", "h");
        assert_eq!(poll(), 1);
        assert_eq!(poll(), 0);
    }
}

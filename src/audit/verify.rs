//! Checking the chain of a log: each line names the BLAKE3 of the line before it, over all files.
//!
//! One pass, which hashes each line and compares the end of the next with it. Nothing is parsed but where a line does not fit, where
//! a piece was repaired, and where the log speaks of itself.
//!
//! The chain has no key. It shows what was changed by somebody who did not write all that follows anew; a head that was noted
//! elsewhere shows the rest.

use std::ops::Range;
use std::path::{Path, PathBuf};

use memchr::memmem::Finder;

use super::files::{Access, Files, failed};
use super::lines::{Line, Lines};
use super::logged::Logged;
use super::{AuditError, Event};

/// Most notes that are kept.
const MAX_NOTES: usize = 1_000;

/// Within how many bytes of a line the name of its event stands.
const HEADER: usize = 160;

/// How a chained line ends.
const CHAIN: &[u8] = br#","chain":""#;
const CHAIN_END: &[u8] = br#""}"#;
const NO_CHAIN_BEFORE: &[u8] = br#","chain":null}"#;
const HEX: usize = 64;

/// Events by which a log speaks of itself.
const OF_ITSELF: &[u8] = b"review_log.";
const OF_ITSELF_ANYWHERE: &[u8] = br#""event":"review_log."#;

/// Where the event stands in a line whose header is as we write it.
const EVENT_KEY: &[u8] = br#""event":""#;
const EVENT: Range<usize> = {
    const BEFORE: usize =
        br#"{"timestamp":"2026-01-01T00:00:00.000Z","extension":"askrelay","stream":"review","#
            .len();
    BEFORE..BEFORE + EVENT_KEY.len() + OF_ITSELF.len()
};
const TORN_TAIL: &str = Event::TornTail.name();
const ROTATED: &str = Event::Rotated.name();

/// Where a line stands in a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spot {
    /// The file.
    pub file: PathBuf,
    /// Number of the line, from 1.
    pub line: u64,
    /// Where it starts, in bytes.
    pub at: u64,
}

/// What a check found.
#[derive(Debug, Default)]
pub struct Checked {
    /// How many files the log has.
    pub files: usize,
    /// How many lines were looked at.
    pub lines: u64,
    /// How many bytes were looked at.
    pub bytes: u64,
    /// Lines of an older version, which stand before the chain.
    pub unchained: u64,
    /// What the log says of itself.
    pub notes: Vec<Note>,
    /// How many more of them there are.
    pub more_notes: u64,
    /// Length of a last line that has no end: it is being written, or was cut off.
    pub unfinished: Option<u64>,
    /// BLAKE3 of the last line. Whoever notes it can prove later that nothing before was changed.
    pub head: Option<blake3::Hash>,
    /// The heads that were asked for, and where each stands. Of one whose file is not here any more, where the line stands that
    /// follows it.
    pub heads: Vec<(blake3::Hash, Option<Spot>)>,
    /// Heads behind which the log goes on after files that are not here: they were vouched for.
    pub resumed: Vec<blake3::Hash>,
    /// Where the chain breaks first.
    pub broken: Option<Break>,
}

impl Checked {
    /// Whether the log is as it was written, as far as can be told.
    pub fn holds(&self) -> bool {
        self.broken.is_none() && self.heads.iter().all(|(_, spot)| spot.is_some())
    }
}

/// Something that a log says of itself.
#[derive(Debug)]
pub struct Note {
    /// The entry.
    pub spot: Spot,
    /// What it says.
    pub kind: NoteKind,
    /// The entry itself.
    pub entry: Logged,
}

/// What a log says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoteKind {
    /// A writer found a last line that was cut off, and has ended it.
    Repaired,
    /// Anything else, such as entries that were lost: to be looked at.
    Warning,
}

/// Where the chain breaks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Break {
    /// The line that does not fit.
    pub spot: Spot,
    /// The line before it.
    pub before: Option<Spot>,
    /// What is wrong.
    pub fault: Fault,
}

/// What is wrong with a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// It follows a line that is nowhere: the one before was changed, or some between were removed.
    Unlinked,
    /// The line that it follows stands further up: lines were put in between.
    Inserted(Spot),
    /// The line that it follows stands further down: lines were put into another order.
    Reordered(Spot),
    /// It follows a line, and there is none before it: the beginning of the log is gone.
    Headless,
    /// The file before it, of this name, is gone.
    FileMissing(String),
    /// It says that it is the first of a log, and is not.
    NewStart,
    /// It is no line of a writer that chains.
    NoChain,
    /// It is no entry at all, and no writer has recorded it as a piece that a crash left.
    NotAnEntry,
    /// It is a piece, and not the one that the record behind it speaks of.
    OtherPiece,
}

/// Checks the log at `path`, and looks for lines with these hashes. `None` where there is no such log.
pub fn verify(
    path: &Path,
    access: Access,
    heads: &[blake3::Hash],
) -> Result<Option<Checked>, AuditError> {
    let found = Files::find(path, access)?;
    if found.is_empty() {
        return Ok(None);
    }
    let mut checker = Checker::new(heads);
    let last = found.rotated.len() + usize::from(found.current.is_some());
    for (index, file) in found.each().enumerate() {
        let (path, file) = file?;
        let mut lines = Lines::new(file);
        if checker
            .file(&path, &mut lines, index + 1 == last)
            .map_err(failed(&path))?
            .is_break()
        {
            break;
        }
    }
    let mut found = checker.end();
    if let Some(Break {
        spot,
        fault: fault @ Fault::Unlinked,
        ..
    }) = &mut found.broken
        && let Some(link) = &checker.unlinked
        && let Some((other, is_before)) = locate(path, access, link, spot)?
    {
        *fault = if is_before {
            Fault::Inserted(other)
        } else {
            Fault::Reordered(other)
        };
    }
    Ok(Some(found))
}

/// Where the line with this hash stands, and whether that is before `spot`.
fn locate(
    path: &Path,
    access: Access,
    link: &[u8],
    spot: &Spot,
) -> Result<Option<(Spot, bool)>, AuditError> {
    let mut is_before = true;
    for file in Files::find(path, access)?.each() {
        let (path, file) = file?;
        let mut lines = Lines::new(file);
        while let Some(line) = lines.next_or_rest().map_err(failed(&path))? {
            is_before &= path != spot.file || line.at < spot.at;
            if line.hash().to_hex().as_bytes() == link {
                let found = Spot {
                    file: path,
                    line: line.number,
                    at: line.at,
                };
                return Ok(Some((found, is_before)));
            }
        }
    }
    Ok(None)
}

/// The link at the end of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Chain<'a> {
    /// The hash of the line before, in hex.
    Link(&'a [u8]),
    /// There is no line before.
    Start,
    /// None at all.
    None,
}

impl<'a> Chain<'a> {
    fn of(tail: &'a [u8]) -> Self {
        if tail.ends_with(NO_CHAIN_BEFORE) {
            return Self::Start;
        }
        let link = tail.strip_suffix(CHAIN_END).and_then(|rest| {
            let (before, hex) = rest.split_at_checked(rest.len().checked_sub(HEX)?)?;
            let is_hex = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
            (before.ends_with(CHAIN) && hex.iter().all(is_hex)).then_some(hex)
        });
        link.map_or(Self::None, Self::Link)
    }
}

/// Whether a line ends in this link. That is so for nearly every line, and said without looking at anything twice.
fn follows(tail: &[u8], hash: &blake3::Hash) -> bool {
    let Some(rest) = tail.strip_suffix(CHAIN_END) else {
        return false;
    };
    let Some((before, hex)) = rest
        .len()
        .checked_sub(HEX)
        .and_then(|at| rest.split_at_checked(at))
    else {
        return false;
    };
    before.ends_with(CHAIN) && hex == hex_of(hash)
}

/// A hash as it is written, without a detour over text.
fn hex_of(hash: &blake3::Hash) -> [u8; HEX] {
    let digit = |nibble: u8| nibble + if nibble < 10 { b'0' } else { b'a' - 10 };
    let mut hex = [0; HEX];
    for (pair, byte) in hex.as_chunks_mut::<2>().0.iter_mut().zip(hash.as_bytes()) {
        *pair = [digit(byte >> 4), digit(byte & 15)];
    }
    hex
}

/// A line that has been looked at.
#[derive(Debug, Clone, Copy)]
struct Past {
    hash: blake3::Hash,
    /// Which file it stands in.
    file: usize,
    line: u64,
    at: u64,
    length: u64,
}

/// A line without a chain behind one that has it: a piece that a crash left, if the next line says so.
#[derive(Debug)]
struct Piece {
    past: Past,
    before: Option<Past>,
    /// The first of several, one right behind the other, and the line before it.
    first: (Past, Option<Past>),
}

/// What is known while lines go by.
struct Checker {
    checked: Checked,
    files: Vec<PathBuf>,
    previous: Option<Past>,
    chained: bool,
    piece: Option<Piece>,
    of_itself: Finder<'static>,
    /// The hash that the line does follow which does not fit.
    unlinked: Option<Vec<u8>>,
}

type Flow = std::ops::ControlFlow<()>;

impl Checker {
    fn new(heads: &[blake3::Hash]) -> Self {
        let checked = Checked {
            heads: heads.iter().map(|head| (*head, None)).collect(),
            ..Checked::default()
        };
        Self {
            checked,
            files: Vec::new(),
            previous: None,
            chained: false,
            piece: None,
            of_itself: Finder::new(OF_ITSELF_ANYWHERE),
            unlinked: None,
        }
    }

    /// Looks at a file. Only in the last one a line without an end is not a line.
    fn file<R: std::io::Read>(
        &mut self,
        path: &Path,
        lines: &mut Lines<R>,
        is_last: bool,
    ) -> std::io::Result<Flow> {
        self.files.push(path.to_owned());
        self.checked.files += 1;
        let mut ended = true;
        while let Some(line) = lines.next()? {
            if self.line(&line).is_break() {
                ended = false;
                break;
            }
        }
        if ended && let Some(rest) = lines.rest() {
            if is_last {
                self.checked.unfinished = Some(rest.length);
                // The piece may be about to be recorded.
                self.piece = None;
            } else if self.line(&rest).is_break() {
                ended = false;
            }
        }
        self.checked.bytes += lines.position();
        Ok(if ended {
            Flow::Continue(())
        } else {
            Flow::Break(())
        })
    }

    /// What came of it.
    fn end(&mut self) -> Checked {
        if let Some(piece) = self.piece.take()
            && self.checked.broken.is_none()
        {
            let (at, before) = piece.first;
            let _broken = self.breaks(at, before, Fault::NotAnEntry);
        }
        if self.checked.broken.is_none() {
            self.checked.head = self.previous.map(|past| past.hash);
        }
        std::mem::take(&mut self.checked)
    }

    fn line(&mut self, line: &Line<'_>) -> Flow {
        self.checked.lines += 1;
        let past = Past {
            hash: line.hash(),
            file: self.files.len().saturating_sub(1),
            line: line.number,
            at: line.at,
            length: line.length,
        };
        let before = self.previous.replace(past);
        self.look_for_heads(past);
        if let Some(piece) = self.piece.take() {
            return self.behind_a_piece(&piece, past, line);
        }
        if let Some(before) = before
            && follows(line.tail(), &before.hash)
        {
            self.chained = true;
            self.note(past, line);
            return Flow::Continue(());
        }
        match Chain::of(line.tail()) {
            Chain::Link(hex) => {
                match before {
                    // Who noted the head of the files that were put away vouches for them. Where anything of the log is before
                    // this line, even an empty file, it has to be what was there.
                    None if (past.file, past.line) == (0, 1) && self.resumes(hex, past) => {}
                    Some(_) => {
                        if let Some(missing) = self.missing_file(past, line) {
                            return self.breaks(past, before, Fault::FileMissing(missing));
                        }
                        self.unlinked = Some(hex.to_vec());
                        return self.breaks(past, before, Fault::Unlinked);
                    }
                    None => {
                        let fault = self
                            .missing_file(past, line)
                            .map_or(Fault::Headless, Fault::FileMissing);
                        return self.breaks(past, None, fault);
                    }
                }
                self.chained = true;
                self.note(past, line);
            }
            Chain::Start if before.is_none() || starts_anew(line) => {
                self.chained = true;
                self.note(past, line);
            }
            Chain::Start => return self.breaks(past, before, Fault::NewStart),
            Chain::None if !self.chained => self.checked.unchained += 1,
            Chain::None if entry(line).is_some() => {
                return self.breaks(past, before, Fault::NoChain);
            }
            Chain::None => {
                let first = (past, before);
                self.piece = Some(Piece {
                    past,
                    before,
                    first,
                });
            }
        }
        Flow::Continue(())
    }

    /// A line behind a piece: it must be the record of it. Where that was cut off as well, the next one is.
    fn behind_a_piece(&mut self, piece: &Piece, past: Past, line: &Line<'_>) -> Flow {
        let (at, before) = piece.first;
        let fault = match (Chain::of(line.tail()), entry(line)) {
            (Chain::None, None) => {
                self.piece = Some(Piece {
                    past,
                    before: Some(piece.past),
                    first: piece.first,
                });
                return Flow::Continue(());
            }
            (Chain::Link(hex), Some(record)) if record.event() == TORN_TAIL => {
                let is_linked = piece.past.hash.to_hex().as_bytes() == hex;
                if is_linked && is_record_of(&record, piece) {
                    self.note(past, line);
                    return Flow::Continue(());
                }
                Fault::OtherPiece
            }
            _ => Fault::NotAnEntry,
        };
        self.breaks(at, before, fault)
    }

    fn breaks(&mut self, at: Past, before: Option<Past>, fault: Fault) -> Flow {
        self.checked.broken = Some(Break {
            spot: self.spot(at),
            before: before.map(|before| self.spot(before)),
            fault,
        });
        Flow::Break(())
    }

    fn spot(&self, past: Past) -> Spot {
        Spot {
            file: self.files.get(past.file).cloned().unwrap_or_default(),
            line: past.line,
            at: past.at,
        }
    }

    fn look_for_heads(&mut self, past: Past) {
        for index in 0..self.checked.heads.len() {
            let spot = self.spot_if_head(index, past);
            if let Some((_, found)) = self.checked.heads.get_mut(index)
                && spot.is_some()
            {
                *found = spot;
            }
        }
    }

    fn spot_if_head(&self, index: usize, past: Past) -> Option<Spot> {
        let (head, found) = self.checked.heads.get(index)?;
        (found.is_none() && *head == past.hash).then(|| self.spot(past))
    }

    /// Whether a line follows a head that was asked for, though the line of that head is not here.
    fn resumes(&mut self, hex: &[u8], past: Past) -> bool {
        let spot = self.spot(past);
        let asked = self
            .checked
            .heads
            .iter_mut()
            .find(|(head, _)| head.to_hex().as_bytes() == hex);
        match asked {
            Some((head, found)) => {
                self.checked.resumed.push(*head);
                found.get_or_insert(spot);
                true
            }
            None => false,
        }
    }

    /// Keeps what a log says of itself.
    fn note(&mut self, past: Past, line: &Line<'_>) {
        let start = line.whole().unwrap_or_default();
        let is_of_itself = match start.get(EVENT) {
            Some(event) if event.starts_with(EVENT_KEY) => event.ends_with(OF_ITSELF),
            // A header that is not as we write it.
            _ => {
                let start = start.get(..start.len().min(HEADER)).unwrap_or_default();
                self.of_itself.find(start).is_some()
            }
        };
        if !is_of_itself {
            return;
        }
        let Some(entry) = entry(line) else {
            return;
        };
        let kind = match entry.event() {
            ROTATED if entry.text("unreadable").is_none() => return,
            TORN_TAIL => NoteKind::Repaired,
            _ => NoteKind::Warning,
        };
        if self.checked.notes.len() >= MAX_NOTES {
            self.checked.more_notes += 1;
            return;
        }
        let spot = self.spot(past);
        self.checked.notes.push(Note { spot, kind, entry });
    }

    /// The file that the first line of a file names as the one before it, where that is not the one before it.
    fn missing_file(&self, past: Past, line: &Line<'_>) -> Option<String> {
        if past.line != 1 {
            return None;
        }
        let entry = entry(line).filter(|entry| entry.event() == ROTATED)?;
        let named = entry.text("previous")?;
        let before = past.file.checked_sub(1).and_then(|at| self.files.get(at));
        let is_before = before
            .and_then(|path| path.file_name())
            .is_some_and(|name| name == named);
        (!is_before).then(|| named.to_owned())
    }
}

fn entry(line: &Line<'_>) -> Option<Logged> {
    line.whole().and_then(Logged::parse)
}

/// Whether a line records that the file before it could not be read, so that no chain goes on from there.
fn starts_anew(line: &Line<'_>) -> bool {
    line.number == 1
        && entry(line)
            .is_some_and(|entry| entry.event() == ROTATED && entry.text("unreadable").is_some())
}

/// Whether a record of a repair speaks of this piece.
fn is_record_of(record: &Logged, piece: &Piece) -> bool {
    let number = |key: &str| {
        record
            .members()
            .get(key)
            .and_then(serde_json::Value::as_u64)
    };
    let after = record.text("after");
    let fits = match piece.before {
        Some(before) => after == Some(before.hash.to_hex().as_str()),
        None => after.is_none(),
    };
    fits && number("bytes") == Some(piece.past.length) && number("atByte") == Some(piece.past.at)
}

#[cfg(test)]
mod tests;

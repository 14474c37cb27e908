//! A log cut into its lines, in one pass and in bounded memory.
//!
//! Lines are lent out of one buffer. One that is longer than [`MAX_LINE`] is not kept: of it there is the hash, the length and the
//! tail. The end of the input is not final: a file that has grown since gives more.
//!
//! It knows nothing of JSON, and reads no byte twice.

use std::io::{self, Read, Seek, SeekFrom};

use memchr::memmem::Finder;
use memchr::{memchr, memrchr};

/// Longest line that is taken into memory, in bytes. What we write is far shorter.
pub(super) const MAX_LINE: usize = 16 << 20;

/// How much is read at once; fits into the nearer caches.
const CHUNK: usize = 256 << 10;

/// What is kept of the end of a line that is too long.
const TAIL: usize = 128;

/// The lines of an input.
#[derive(Debug)]
pub(super) struct Lines<R> {
    input: R,
    buffer: Vec<u8>,
    /// Where in the buffer the next line starts, up to where it holds no newline, and where what was read ends.
    start: usize,
    looked: usize,
    end: usize,
    /// Lines given out.
    number: u64,
    /// Where in the input the next line starts.
    at: u64,
    /// What was already let go of the next line. In a box: it is large, and lines are handed on by value.
    long: Option<Box<Long>>,
}

/// A line, or what there is of one at the end of the input.
#[derive(Debug)]
pub(super) struct Line<'a> {
    bytes: &'a [u8],
    long: Option<Box<Long>>,
    /// How many lines were given out, with this one: its number, where none was passed over.
    pub(super) number: u64,
    /// Where it starts in the input.
    pub(super) at: u64,
    /// Its length in bytes, without the newline.
    pub(super) length: u64,
}

#[derive(Debug, Default)]
struct Long {
    hasher: blake3::Hasher,
    length: u64,
    tail: Vec<u8>,
}

impl Long {
    fn add(&mut self, bytes: &[u8]) {
        self.hasher.update(bytes);
        self.length += bytes.len() as u64;
        let kept = bytes.len().saturating_sub(TAIL);
        self.tail
            .extend_from_slice(bytes.get(kept..).unwrap_or_default());
        let surplus = self.tail.len().saturating_sub(TAIL);
        self.tail.drain(..surplus);
    }
}

impl Line<'_> {
    /// The line, unless it is too long.
    pub(super) fn whole(&self) -> Option<&[u8]> {
        self.long.is_none().then_some(self.bytes)
    }

    /// Its end: at least 128 bytes, where it has as many.
    pub(super) fn tail(&self) -> &[u8] {
        self.long.as_ref().map_or(self.bytes, |long| &long.tail)
    }

    /// BLAKE3 of the line.
    pub(super) fn hash(&self) -> blake3::Hash {
        match &self.long {
            Some(long) => long.hasher.finalize(),
            None => blake3::hash(self.bytes),
        }
    }
}

impl<R: Read> Lines<R> {
    pub(super) fn new(input: R) -> Self {
        Self {
            input,
            buffer: Vec::new(),
            start: 0,
            looked: 0,
            end: 0,
            number: 0,
            at: 0,
            long: None,
        }
    }

    /// How much was read.
    pub(super) fn position(&self) -> u64 {
        let long = self.long.as_ref().map_or(0, |long| long.length);
        self.at + long + self.held().len() as u64
    }

    /// The next line that has its newline. `None` where there is none yet.
    pub(super) fn next(&mut self) -> io::Result<Option<Line<'_>>> {
        let newline = self.newline()?;
        Ok(newline.map(|newline| self.give(newline, 1)))
    }

    /// The next line, be it the last one, that has no newline.
    pub(super) fn next_or_rest(&mut self) -> io::Result<Option<Line<'_>>> {
        Ok(match self.newline()? {
            Some(newline) => Some(self.give(newline, 1)),
            None => self.rest(),
        })
    }

    /// Where the next newline is; `None` where there is none yet.
    fn newline(&mut self) -> io::Result<Option<usize>> {
        loop {
            let fresh = self.buffer.get(self.looked..self.end).unwrap_or_default();
            if let Some(found) = memchr(b'\n', fresh) {
                return Ok(Some(self.looked + found));
            }
            self.looked = self.end;
            if !self.fill()? {
                return Ok(None);
            }
        }
    }

    /// As [`Lines::next`], but passes over the lines in which `needle` does not stand. Lines that are too long count as such.
    pub(super) fn next_with(&mut self, needle: &Finder<'_>) -> io::Result<Option<Line<'_>>> {
        loop {
            let held = self.held();
            if self.long.is_none()
                && let Some(found) = needle.find(held)
            {
                let before = held.get(..found).unwrap_or_default();
                let passed = memrchr(b'\n', before).map_or(0, |newline| newline + 1);
                self.pass(passed);
                return self.next();
            }
            if let Some(newline) = memrchr(b'\n', held) {
                self.pass(newline + 1);
            }
            if !self.fill()? {
                return Ok(None);
            }
        }
    }

    /// What stands behind the last newline, taken as a line: nothing more is expected.
    pub(super) fn rest(&mut self) -> Option<Line<'_>> {
        if self.held().is_empty() && self.long.is_none() {
            return None;
        }
        Some(self.give(self.end, 0))
    }

    /// Goes on behind the first `length` bytes of the input, whatever was read before.
    pub(super) fn start_at(&mut self, length: u64) -> io::Result<()>
    where
        R: Seek,
    {
        self.input.seek(SeekFrom::Start(length))?;
        (self.start, self.looked, self.end) = (0, 0, 0);
        self.long = None;
        self.at = length;
        Ok(())
    }

    fn held(&self) -> &[u8] {
        self.buffer.get(self.start..self.end).unwrap_or_default()
    }

    fn give(&mut self, stop: usize, newline: usize) -> Line<'_> {
        let from = self.start;
        self.start = stop + newline;
        self.looked = self.start;
        let bytes = self.buffer.get(from..stop).unwrap_or_default();
        let mut long = self.long.take();
        if long.is_some() || bytes.len() > MAX_LINE {
            long.get_or_insert_default().add(bytes);
        }
        let length = long.as_ref().map_or(bytes.len() as u64, |long| long.length);
        self.number += 1;
        let at = self.at;
        self.at += length + newline as u64;
        Line {
            bytes,
            long,
            number: self.number,
            at,
            length,
        }
    }

    /// Passes over bytes that end with a newline.
    fn pass(&mut self, count: usize) {
        let long = self.long.take().map_or(0, |long| long.length);
        self.at += long + count as u64;
        self.start += count;
        self.looked = self.start;
    }

    /// Reads more. False where there is nothing more now.
    fn fill(&mut self) -> io::Result<bool> {
        let held = self.end - self.start;
        if self.long.is_some() || held > MAX_LINE {
            self.let_go();
        } else if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            self.looked -= self.start;
            self.end = held;
            self.start = 0;
        }
        if self.end == 0 && self.buffer.len() > CHUNK {
            self.buffer.truncate(CHUNK);
            self.buffer.shrink_to_fit();
        }
        if self.buffer.len() - self.end < CHUNK / 2 {
            let length = (self.buffer.len() * 2).max(CHUNK);
            self.buffer.resize(length, 0);
        }
        let room = self.buffer.get_mut(self.end..).unwrap_or_default();
        let count = loop {
            match self.input.read(room) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => break other?,
            }
        };
        self.end += count;
        Ok(count > 0)
    }

    /// Lets go of a line that is too long, so far as it is there.
    fn let_go(&mut self) {
        let bytes = self.buffer.get(self.start..self.end).unwrap_or_default();
        self.long.get_or_insert_default().add(bytes);
        (self.start, self.looked, self.end) = (0, 0, 0);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// An input that hands out a few bytes at a time and counts them.
    struct Dripping<'a> {
        bytes: &'a [u8],
        step: usize,
        given: u64,
    }

    impl Read for Dripping<'_> {
        fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
            let count = self.step.min(self.bytes.len()).min(room.len());
            let (now, later) = self.bytes.split_at(count);
            room[..count].copy_from_slice(now);
            self.bytes = later;
            self.given += count as u64;
            Ok(count)
        }
    }

    fn dripping(bytes: &[u8], step: usize) -> Lines<Dripping<'_>> {
        Lines::new(Dripping {
            bytes,
            step,
            given: 0,
        })
    }

    type Seen = (u64, Vec<u8>);

    fn all(mut lines: Lines<Dripping<'_>>, needle: Option<&[u8]>) -> (Vec<Seen>, u64) {
        let mut seen = Vec::new();
        let finder = needle.map(Finder::new);
        let take = |line: Line<'_>| (line.at, line.whole().unwrap().to_vec());
        loop {
            let next = match &finder {
                Some(finder) => lines.next_with(finder),
                None => lines.next(),
            };
            match next.unwrap() {
                Some(line) => seen.push(take(line)),
                None => break,
            }
        }
        let rest = lines.rest().map(take);
        seen.extend(rest.filter(|(_, bytes)| {
            needle.is_none_or(|needle| memchr::memmem::find(bytes, needle).is_some())
        }));
        (seen, lines.input.given)
    }

    /// The same, said plainly.
    fn plain(bytes: &[u8], needle: Option<&[u8]>) -> Vec<Seen> {
        let mut at = 0;
        let mut seen = Vec::new();
        let ends_whole = bytes.is_empty() || bytes.ends_with(b"\n");
        let mut lines: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
        if ends_whole {
            lines.pop();
        }
        for line in lines {
            if needle.is_none_or(|needle| line.windows(needle.len()).any(|part| part == needle)) {
                seen.push((at, line.to_vec()));
            }
            at += line.len() as u64 + 1;
        }
        seen
    }

    proptest! {
        #[test]
        fn lines_are_those_of_the_input_however_it_comes(
            text in "[ab\n]{0,60}",
            step in 1_usize..20,
        ) {
            let bytes = text.as_bytes();
            for needle in [None, Some(b"ab".as_slice()), Some(b"b")] {
                let (seen, given) = all(dripping(bytes, step), needle);
                prop_assert_eq!(seen, plain(bytes, needle));
                prop_assert_eq!(given, bytes.len() as u64, "each byte is read once");
            }
        }
    }

    #[test]
    fn lines_longer_than_the_buffer_come_whole() {
        let long = "x".repeat(3 * CHUNK);
        let text = format!("a\n{long}needle\nb\n{long}\nneedle");
        for needle in [None, Some(b"needle".as_slice())] {
            let (seen, given) = all(dripping(text.as_bytes(), 10_007), needle);
            assert_eq!(seen, plain(text.as_bytes(), needle));
            assert_eq!(given, text.len() as u64);
        }
    }

    #[test]
    fn of_a_line_that_is_too_long_there_is_the_hash_and_the_tail() {
        let long = format!("needle{}end", "x".repeat(MAX_LINE));
        let text = format!("a\n{long}\nb needle\n");
        let mut lines = dripping(text.as_bytes(), 1 << 20);
        assert_eq!(lines.next().unwrap().unwrap().whole(), Some(&b"a"[..]));
        let line = lines.next().unwrap().unwrap();
        assert!(line.whole().is_none());
        assert_eq!((line.number, line.at), (2, 2));
        assert_eq!(line.length, long.len() as u64);
        assert_eq!(line.hash(), blake3::hash(long.as_bytes()));
        assert!(line.tail() == &long.as_bytes()[long.len() - TAIL..]);
        let line = lines.next().unwrap().unwrap();
        assert_eq!((line.number, line.at), (3, long.len() as u64 + 3));
        assert_eq!(line.whole(), Some(&b"b needle"[..]));
        assert!(lines.next().unwrap().is_none());
        assert!(lines.buffer.len() <= MAX_LINE * 2 + CHUNK);

        let mut lines = dripping(text.as_bytes(), 1 << 20);
        let finder = Finder::new("b needle");
        let line = lines.next_with(&finder).unwrap().unwrap();
        assert_eq!(line.at, long.len() as u64 + 3);
    }

    #[test]
    fn an_input_that_was_cut_goes_on_at_its_end() {
        let mut lines = Lines::new(io::Cursor::new(b"a\nb\nc".to_vec()));
        assert!(lines.next().unwrap().is_some());
        assert!(lines.next().unwrap().is_some());
        assert!(lines.next().unwrap().is_none());
        lines.start_at(2).unwrap();
        *lines.input.get_mut() = b"a\nd\n".to_vec();
        let line = lines.next().unwrap().unwrap();
        assert_eq!((line.whole(), line.at), (Some(&b"d"[..]), 2));
        lines.start_at(0).unwrap();
        let line = lines.next().unwrap().unwrap();
        assert_eq!((line.whole(), line.at), (Some(&b"a"[..]), 0));
    }

    #[test]
    fn an_input_that_grows_gives_more() {
        let mut lines = Lines::new(Dripping {
            bytes: b"a\nb",
            step: 9,
            given: 0,
        });
        assert!(lines.next().unwrap().is_some());
        assert!(lines.next().unwrap().is_none());
        assert_eq!(lines.position(), 3);
        lines.input.bytes = b"c\n";
        let line = lines.next().unwrap().unwrap();
        assert_eq!((line.whole(), line.at), (Some(&b"bc"[..]), 2));
        assert!(lines.rest().is_none());
    }
}

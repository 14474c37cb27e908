//! Whole lines of a text, found without a table of them.
//!
//! Lines end at `\n` and nowhere else: a carriage return is part of its line. A line is known by the place where it starts. A text
//! that ends with `\n` has an empty line at its end, and an empty text is one empty line.
//!
//! Invariants: every search ends, and looks at each byte a bounded number of times, whatever the text is.

use memchr::memmem::Finder;
use memchr::{memchr, memrchr};

/// How much is looked at in one piece, from the end of a text upward: little at first, for what is sought stands near the end
/// mostly; then more, so that a long text is not taken in crumbs.
const FIRST_PIECE: usize = 4 << 10;
const LARGEST_PIECE: usize = 256 << 10;

/// A text by its lines.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lines<'t> {
    text: &'t [u8],
}

impl<'t> Lines<'t> {
    pub(super) const fn new(text: &'t [u8]) -> Self {
        Self { text }
    }

    /// From the start of a line to the end of the text; nothing behind the end.
    fn rest(self, at: usize) -> &'t [u8] {
        self.text.get(at..).unwrap_or_default()
    }

    /// Whether the line that starts here is this one. `wanted` may be several lines.
    pub(super) fn is(self, at: usize, wanted: &[u8]) -> bool {
        let rest = self.rest(at);
        at <= self.text.len()
            && rest.starts_with(wanted)
            && matches!(rest.get(wanted.len()), None | Some(b'\n'))
    }

    /// The line that starts here.
    pub(super) fn line(self, at: usize) -> &'t [u8] {
        let rest = self.rest(at);
        match memchr(b'\n', rest) {
            Some(end) => rest.get(..end).unwrap_or_default(),
            None => rest,
        }
    }

    /// Where the line below starts.
    pub(super) fn below(self, at: usize) -> Option<usize> {
        memchr(b'\n', self.rest(at)).map(|end| at + end + 1)
    }

    /// Where the line above starts.
    pub(super) fn above(self, at: usize) -> Option<usize> {
        let end = at.checked_sub(1)?;
        let above = self.text.get(..end)?;
        Some(memrchr(b'\n', above).map_or(0, |newline| newline + 1))
    }

    /// The nearest line above this one that is not empty.
    pub(super) fn above_the_gap(self, at: usize) -> Option<usize> {
        let above = self.text.get(..at)?;
        let last = last_other(above)?;
        Some(memrchr(b'\n', above.get(..last)?).map_or(0, |newline| newline + 1))
    }

    /// The first line that is `wanted` and starts at or behind `from`.
    pub(super) fn first(self, wanted: &[u8], from: usize) -> Option<usize> {
        let finder = Finder::new(wanted);
        let mut at = from;
        loop {
            at += finder.find(self.rest(at))?;
            if self.starts_at(at) && self.is(at, wanted) {
                return Some(at);
            }
            at += 1;
        }
    }

    /// The last line that is `wanted`, starts ahead of `until`, and passes.
    pub(super) fn last(
        self,
        wanted: &[u8],
        until: usize,
        passes: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        let finder = Finder::new(wanted);
        let mut end = until.min(self.text.len());
        let mut piece = FIRST_PIECE;
        while end > 0 {
            let start = end.saturating_sub(piece);
            // What starts in this piece may reach into the one below it.
            let reach = end.saturating_add(wanted.len()).min(self.text.len());
            let looked_at = self.text.get(start..reach)?;
            let mut found = None;
            let mut at = 0;
            while let Some(next) = looked_at.get(at..).and_then(|rest| finder.find(rest)) {
                let candidate = start + at + next;
                if candidate >= end {
                    break;
                }
                if self.starts_at(candidate) && self.is(candidate, wanted) && passes(candidate) {
                    found = Some(candidate);
                }
                at += next + 1;
            }
            if found.is_some() {
                return found;
            }
            end = start;
            piece = (piece * 2).min(LARGEST_PIECE);
        }
        None
    }

    /// Whether a line starts here.
    pub(super) fn starts_at(self, at: usize) -> bool {
        at.checked_sub(1)
            .is_none_or(|before| self.text.get(before) == Some(&b'\n'))
    }
}

/// The last byte that ends no line.
fn last_other(text: &[u8]) -> Option<usize> {
    // In pieces that the processor compares as a whole.
    let mut end = text.len();
    while let Some(piece) = end.checked_sub(64).and_then(|start| text.get(start..end)) {
        let others = piece.iter().filter(|byte| **byte != b'\n').count();
        if others > 0 {
            break;
        }
        end -= 64;
    }
    text.get(..end)?.iter().rposition(|byte| *byte != b'\n')
}

/// The number of the line that starts at `at`, counted from 1.
pub fn line_number(text: &[u8], at: usize) -> usize {
    let above = text.get(..at).unwrap_or(text);
    memchr::memchr_iter(b'\n', above).count() + 1
}

/// The text without white space at its end, as ECMAScript counts it (ECMA-262, 12.2 and 12.3): U+FEFF is white space, U+0085 is none.
/// Bytes that are no UTF-8 are none either.
pub(super) fn trim_end(mut text: &[u8]) -> &[u8] {
    while let Some(wide) = space_at_end(text) {
        text = text.get(..text.len() - wide).unwrap_or_default();
        if text.ends_with(b"\n") {
            let end = last_other(text).map_or(0, |last| last + 1);
            text = text.get(..end).unwrap_or_default();
        }
    }
    text
}

/// The same at both ends.
pub(super) fn trim(mut text: &[u8]) -> &[u8] {
    while let Some(wide) = space_at_start(text) {
        text = text.get(wide..).unwrap_or_default();
    }
    trim_end(text)
}

/// How many bytes the white space at the end of a text has, if there is one.
fn space_at_end(text: &[u8]) -> Option<usize> {
    match text {
        [.., last] if last.is_ascii() => is_space(&[*last]),
        [.., a, b, c] => is_space(&[*a, *b, *c]).or_else(|| is_space(&[*b, *c])),
        [a, b] => is_space(&[*a, *b]),
        _ => None,
    }
}

/// How many bytes the white space at the start of a text has, if there is one.
pub(super) fn space_at_start(text: &[u8]) -> Option<usize> {
    match text {
        [first, ..] if first.is_ascii() => is_space(&[*first]),
        [a, b, c, ..] => is_space(&[*a, *b, *c]).or_else(|| is_space(&[*a, *b])),
        [a, b] => is_space(&[*a, *b]),
        _ => None,
    }
}

/// The length of these bytes, where they are one character of white space.
fn is_space(bytes: &[u8]) -> Option<usize> {
    let is_space = match bytes {
        [one] => matches!(one, b'\t'..=b'\r' | b' '),
        // U+00A0; U+1680; U+2000 to U+200A, U+2028, U+2029, U+202F; U+205F; U+3000; U+FEFF.
        [0xc2, 0xa0]
        | [0xe1, 0x9a, 0x80]
        | [0xe2, 0x80, 0x80..=0x8a | 0xa8 | 0xa9 | 0xaf]
        | [0xe2, 0x81, 0x9f]
        | [0xe3, 0x80, 0x80]
        | [0xef, 0xbb, 0xbf] => true,
        _ => false,
    };
    is_space.then_some(bytes.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANY: fn(usize) -> bool = |_| true;

    #[test]
    fn a_line_is_found_only_whole() {
        let lines = Lines::new(b"aa\na\n a\na \na\r\na");
        assert_eq!(lines.first(b"a", 0), Some(3));
        assert_eq!(lines.first(b"a", 4), Some(14));
        assert_eq!(lines.last(b"a", usize::MAX, ANY), Some(14));
        assert_eq!(lines.last(b"a", 14, ANY), Some(3));
        assert_eq!(lines.last(b"a", 3, ANY), None);
    }

    #[test]
    fn lines_above_and_below() {
        let lines = Lines::new(b"a\n\n\nb\n");
        assert_eq!(lines.below(0), Some(2));
        assert_eq!(lines.below(4), Some(6));
        assert_eq!(lines.below(6), None);
        assert_eq!(lines.above(6), Some(4));
        assert_eq!(lines.above(4), Some(3));
        assert_eq!(lines.above(0), None);
        assert_eq!(lines.above_the_gap(4), Some(0));
        assert_eq!(lines.above_the_gap(0), None);
        assert_eq!(Lines::new(b"\n\nx").above_the_gap(2), None);
        assert_eq!(lines.line(4), b"b");
        assert_eq!(lines.line(6), b"");
        assert_eq!(line_number(b"a\n\n\nb\n", 4), 4);
    }

    #[test]
    fn what_lies_across_the_pieces_is_found() {
        for before in FIRST_PIECE - 12..FIRST_PIECE + 12 {
            let mut text = b"x\nwanted line\n".to_vec();
            text.extend(std::iter::repeat_n(b'y', before));
            assert_eq!(
                Lines::new(&text).last(b"wanted line", usize::MAX, ANY),
                Some(2),
                "{before}"
            );
        }
    }

    #[test]
    fn every_character_is_white_space_where_ecmascript_says_so() {
        let listed = "\t\n\u{b}\u{c}\r \u{a0}\u{1680}\u{2000}\u{2001}\u{2002}\u{2003}\u{2004}\u{2005}\u{2006}\u{2007}\u{2008}\u{2009}\
                      \u{200a}\u{2028}\u{2029}\u{202f}\u{205f}\u{3000}\u{feff}";
        for c in '\0'..=char::MAX {
            let text = format!("x{c}");
            assert_eq!(
                trim_end(text.as_bytes()) == b"x",
                listed.contains(c),
                "{c:?}"
            );
            let text = format!("{c}x");
            assert_eq!(trim(text.as_bytes()) == b"x", listed.contains(c), "{c:?}");
        }
    }

    #[test]
    fn white_space_is_that_of_ecmascript() {
        let text = "a\u{85} \u{feff}\u{3000}\u{2028}\u{a0}\r\n\t".as_bytes();
        assert_eq!(trim_end(text), "a\u{85}".as_bytes());
        assert_eq!(trim_end(b"a\xa0"), b"a\xa0");
        assert_eq!(trim_end(b"a\xf0\xe2\x80\x80"), b"a\xf0");
        assert_eq!(trim("\u{feff} a b\n".as_bytes()), b"a b");
        assert_eq!(trim(b" \n"), b"");
    }
}

//! Lines out of a stream of bytes, without losing one of them.
//!
//! A line is looked at when it is whole. One that is longer than is looked at goes on in pieces, as it comes.

use memchr::memchr;

/// A piece of a stream. All pieces, one behind the other, are the stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// A whole line with its end, or, at the end of the stream, without.
    Line(Vec<u8>),
    /// A part of a line that is too long to be looked at.
    Part {
        /// Its bytes.
        bytes: Vec<u8>,
        /// Whether the line ends with them.
        ends: bool,
    },
}

/// Takes a stream apart.
#[derive(Debug)]
pub struct Lines {
    longest: usize,
    held: Vec<u8>,
    within_long: bool,
}

impl Lines {
    /// Lines of at most this many bytes.
    pub fn of_at_most(longest: usize) -> Self {
        Self {
            longest,
            held: Vec::new(),
            within_long: false,
        }
    }

    /// Takes in what came, and gives what is whole with it.
    pub fn take(&mut self, mut bytes: &[u8]) -> Vec<Piece> {
        let mut pieces = Vec::new();
        while let Some(at) = memchr(b'\n', bytes) {
            let (line, rest) = bytes.split_at(at + 1);
            bytes = rest;
            if self.within_long {
                self.within_long = false;
                pieces.push(Piece::Part {
                    bytes: line.to_vec(),
                    ends: true,
                });
                continue;
            }
            let mut whole = std::mem::take(&mut self.held);
            whole.extend_from_slice(line);
            pieces.push(Piece::Line(whole));
        }
        if bytes.is_empty() {
            return pieces;
        }
        if self.within_long {
            pieces.push(Piece::Part {
                bytes: bytes.to_vec(),
                ends: false,
            });
            return pieces;
        }
        self.held.extend_from_slice(bytes);
        if self.held.len() > self.longest {
            self.within_long = true;
            pieces.push(Piece::Part {
                bytes: std::mem::take(&mut self.held),
                ends: false,
            });
        }
        pieces
    }

    /// What is left at the end of the stream: a last line that nothing ended.
    pub fn end(&mut self) -> Option<Piece> {
        let held = std::mem::take(&mut self.held);
        (!held.is_empty()).then_some(Piece::Line(held))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bytes_of(pieces: &[Piece]) -> Vec<u8> {
        let bytes = pieces.iter().flat_map(|piece| match piece {
            Piece::Line(bytes) | Piece::Part { bytes, .. } => bytes.iter().copied(),
        });
        bytes.collect()
    }

    proptest! {
        #[test]
        fn whatever_comes_in_whatever_pieces_goes_out_byte_for_byte(
            chunks in prop::collection::vec(
                prop::collection::vec(prop_oneof![Just(b'\n'), any::<u8>()], 0..40), 0..20),
            longest in 1..60_usize,
        ) {
            let mut lines = Lines::of_at_most(longest);
            let mut pieces: Vec<Piece> = chunks.iter().flat_map(|chunk| lines.take(chunk)).collect();
            pieces.extend(lines.end());
            prop_assert_eq!(bytes_of(&pieces), chunks.concat());
            let mut within = false;
            for (at, piece) in pieces.iter().enumerate() {
                match piece {
                    Piece::Line(line) => {
                        prop_assert!(!within);
                        prop_assert!(line.ends_with(b"\n") || at + 1 == pieces.len());
                        prop_assert!(!line[..line.len() - 1].contains(&b'\n'));
                    }
                    Piece::Part { bytes, ends } => {
                        prop_assert_eq!(*ends, bytes.ends_with(b"\n"));
                        within = !ends;
                    }
                }
            }
        }
    }

    #[test]
    fn a_line_is_whole_before_it_is_given() {
        let mut lines = Lines::of_at_most(100);
        assert_eq!(lines.take(b"{\"a\""), []);
        assert_eq!(
            lines.take(b":1}\r\n{"),
            [Piece::Line(b"{\"a\":1}\r\n".to_vec())]
        );
        assert_eq!(lines.end(), Some(Piece::Line(b"{".to_vec())));
        assert_eq!(lines.end(), None);
    }

    #[test]
    fn a_line_that_is_too_long_goes_on_as_it_comes() {
        let mut lines = Lines::of_at_most(4);
        let part = |bytes: &[u8], ends| Piece::Part {
            bytes: bytes.to_vec(),
            ends,
        };
        assert_eq!(lines.take(b"12345"), [part(b"12345", false)]);
        assert_eq!(lines.take(b"6"), [part(b"6", false)]);
        assert_eq!(
            lines.take(b"7\nab\n"),
            [part(b"7\n", true), Piece::Line(b"ab\n".to_vec())]
        );
        assert_eq!(lines.end(), None);
    }
}

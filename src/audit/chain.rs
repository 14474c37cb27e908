//! The chain: each line ends in the BLAKE3 of the bytes of the line before it, so that an edit, a removal or a change of order
//! shows.
//!
//! ```text
//! {"timestamp":…,"event":"a","chain":null}
//! {"timestamp":…,"event":"b","chain":"<BLAKE3 of the line above, without its newline>"}
//! ```
//!
//! A piece without a newline at the end of a file is what a crash left of a line; for the chain it is a line like any other.
//! The chain proves nothing about lines that are cut off at the end: whoever wrote them notices that, see the writer.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use blake3::Hash;

/// What a line is linked to: the line before it, or nothing.
pub(super) type Link = Option<Hash>;

/// Longest last line that is looked at, in bytes. What we write is far shorter; a file of another kind must not hold up a
/// decision.
const MAX_LINE: u64 = 64 << 20;

/// How much is read at once, first and then.
const FIRST_READ: u64 = 4 << 10;
const READ: u64 = 64 << 10;

/// Appends a line to `out`: its body, the link, and a newline. Gives the hash that the next line carries.
pub(super) fn seal(out: &mut Vec<u8>, body: &[u8], before: Link) -> Hash {
    let start = out.len();
    out.extend_from_slice(body);
    match before {
        Some(hash) => {
            out.extend_from_slice(b",\"chain\":\"");
            out.extend_from_slice(hash.to_hex().as_bytes());
            out.extend_from_slice(b"\"}");
        }
        None => out.extend_from_slice(b",\"chain\":null}"),
    }
    let hash = blake3::hash(out.get(start..).unwrap_or_default());
    out.push(b'\n');
    hash
}

/// Lines that are being chained.
#[derive(Debug, Default)]
pub(super) struct Lines {
    /// Their bytes.
    pub(super) out: Vec<u8>,
    /// What the next one is linked to.
    pub(super) link: Link,
    /// The last of them.
    pub(super) last: Last,
    /// Hash of each.
    pub(super) hashes: Vec<Hash>,
}

/// The last line of several.
#[derive(Debug)]
pub(super) struct Last {
    /// Where it begins within them.
    pub(super) start: u64,
    /// Hash of it.
    pub(super) hash: Hash,
}

impl Default for Last {
    fn default() -> Self {
        Self {
            start: 0,
            hash: blake3::hash(b""),
        }
    }
}

impl Lines {
    /// Appends one.
    pub(super) fn add(&mut self, body: &[u8]) {
        let start = self.out.len() as u64;
        let hash = seal(&mut self.out, body, self.link);
        self.link = Some(hash);
        self.last = Last { start, hash };
        self.hashes.push(hash);
    }

    /// Appends several.
    pub(super) fn add_all(&mut self, bodies: &[Vec<u8>]) {
        for body in bodies {
            self.add(body);
        }
    }
}

/// How a file ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tail {
    /// It is empty.
    Nothing,
    /// In a whole line.
    Line {
        /// Where it begins.
        start: u64,
        /// Hash of it.
        hash: Hash,
    },
    /// In a piece without a newline.
    Torn {
        /// Where it begins.
        start: u64,
        /// Its length.
        bytes: u64,
        /// Hash of it.
        hash: Hash,
        /// Hash of the line before it.
        after: Link,
    },
}

/// Looks how a file of this length ends.
pub(super) fn tail(file: &File, length: u64) -> io::Result<Tail> {
    let Some(last) = length.checked_sub(1) else {
        return Ok(Tail::Nothing);
    };
    let mut byte = [0];
    file.read_exact_at(&mut byte, last)?;
    if byte == *b"\n" {
        let start = line_start(file, last)?;
        let hash = hash_of(file, start, last)?;
        return Ok(Tail::Line { start, hash });
    }
    let start = line_start(file, length)?;
    let after = match start.checked_sub(1) {
        Some(end) => Some(hash_of(file, line_start(file, end)?, end)?),
        None => None,
    };
    Ok(Tail::Torn {
        start,
        bytes: length - start,
        hash: hash_of(file, start, length)?,
        after,
    })
}

/// Where the line begins that ends before `end`.
fn line_start(file: &File, end: u64) -> io::Result<u64> {
    let lowest = end.saturating_sub(MAX_LINE);
    let mut chunk = Vec::new();
    let mut upper = end;
    let mut size = FIRST_READ;
    while upper > lowest {
        let from = upper.saturating_sub(size).max(lowest);
        chunk.resize(usize::try_from(upper - from).unwrap_or(0), 0);
        file.read_exact_at(&mut chunk, from)?;
        if let Some(at) = memchr::memrchr(b'\n', &chunk) {
            return Ok(from + at as u64 + 1);
        }
        upper = from;
        size = READ;
    }
    if lowest == 0 {
        Ok(0)
    } else {
        Err(io::Error::other(format!(
            "its last line is longer than {MAX_LINE} bytes"
        )))
    }
}

/// Hash of the bytes from `start` to `end`.
pub(super) fn hash_of(file: &File, start: u64, end: u64) -> io::Result<Hash> {
    let mut hasher = blake3::Hasher::new();
    let mut chunk = Vec::new();
    let mut from = start;
    while from < end {
        chunk.resize(usize::try_from((end - from).min(READ)).unwrap_or(0), 0);
        file.read_exact_at(&mut chunk, from)?;
        hasher.update(&chunk);
        from += chunk.len() as u64;
    }
    Ok(hasher.finalize())
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use proptest::prelude::*;

    use super::*;

    fn file(bytes: &[u8]) -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        file
    }

    fn tail_of(bytes: &[u8]) -> Tail {
        tail(&file(bytes), bytes.len() as u64).unwrap()
    }

    #[test]
    fn a_line_ends_in_the_hash_of_the_one_before() {
        let mut out = Vec::new();
        let first = seal(&mut out, br#"{"a":1"#, None);
        let second = seal(&mut out, br#"{"b":2"#, Some(first));
        assert_eq!(first, blake3::hash(br#"{"a":1,"chain":null}"#));
        let line = format!("{{\"b\":2,\"chain\":\"{}\"}}", first.to_hex());
        assert_eq!(second, blake3::hash(line.as_bytes()));
        assert_eq!(
            String::from_utf8(out).unwrap(),
            format!("{{\"a\":1,\"chain\":null}}\n{line}\n")
        );
    }

    #[test]
    fn an_end_is_found_whatever_its_length() {
        assert_eq!(tail_of(b""), Tail::Nothing);
        let long = vec![b'x'; 300_000];
        for line in [&b"a"[..], b"", &long] {
            let hash = blake3::hash(line);
            let whole = [b"first\n", line, b"\n"].concat();
            assert_eq!(tail_of(&whole), Tail::Line { start: 6, hash });
            if !line.is_empty() {
                let torn = [b"first\n", line].concat();
                let after = Some(blake3::hash(b"first"));
                let bytes = line.len() as u64;
                let start = 6;
                assert_eq!(
                    tail_of(&torn),
                    Tail::Torn {
                        start,
                        bytes,
                        hash,
                        after
                    }
                );
            }
        }
        assert!(matches!(
            tail_of(b"only"),
            Tail::Torn {
                start: 0,
                bytes: 4,
                after: None,
                ..
            }
        ));
    }

    #[test]
    fn a_file_without_lines_is_not_read_for_ever() {
        let file = tempfile::tempfile().unwrap();
        let length = 1 << 40;
        file.set_len(length).unwrap();
        assert!(tail(&file, length).is_err());
    }

    proptest! {
        #[test]
        fn the_tail_is_that_of_a_plain_split(bytes in proptest::collection::vec(prop_oneof![Just(b'\n'), any::<u8>()], 1..200)) {
            let found = tail_of(&bytes);
            let lines: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
            let (last, before) = lines.split_last().unwrap();
            match found {
                Tail::Line { hash, .. } => {
                    prop_assert!(last.is_empty());
                    prop_assert_eq!(hash, blake3::hash(before.last().unwrap()));
                }
                Tail::Torn { bytes: torn, hash, after, .. } => {
                    prop_assert_eq!(torn, last.len() as u64);
                    prop_assert_eq!(hash, blake3::hash(last));
                    prop_assert_eq!(after, before.last().map(|line| blake3::hash(line)));
                }
                Tail::Nothing => prop_assert!(false),
            }
        }
    }
}

//! The files of one log: the current one, and beside it those that were rotated away.
//!
//! `review.jsonl` becomes `review.000001.jsonl`, then `review.000002.jsonl`; a log without an extension gets the number as one.
//! The numbers rise, and nothing here removes a file.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use super::place;

/// Fewest digits of a number, and most: what is longer is no number of ours.
const DIGITS: usize = 6;
const MOST_DIGITS: usize = 18;

/// A file that was rotated away.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rotated {
    /// Its place in the order of all.
    pub(super) number: u64,
    /// Where it lies.
    pub(super) path: PathBuf,
}

impl Rotated {
    /// Its name, as it is written into the log.
    pub(super) fn name(&self) -> String {
        let name = self.path.file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    }
}

/// Where the log at `path` goes when it is rotated as this number.
pub(super) fn rotated(path: &Path, number: u64) -> Rotated {
    let (stem, extension) = parts(path);
    let mut name = stem.to_vec();
    name.extend_from_slice(format!(".{number:0DIGITS$}").as_bytes());
    name.extend_from_slice(extension);
    Rotated {
        number,
        path: path.with_file_name(OsString::from_vec(name)),
    }
}

/// The files of the log at `path` that were rotated away, oldest first.
pub(super) fn list(path: &Path) -> io::Result<Vec<Rotated>> {
    let mut found = Vec::new();
    for entry in place::parent(path).read_dir()? {
        let name = entry?.file_name();
        if let Some(number) = number_of(path, &name) {
            found.push(Rotated {
                number,
                path: path.with_file_name(name),
            });
        }
    }
    found.sort_unstable();
    Ok(found)
}

/// The file that was rotated away last.
pub(super) fn newest(path: &Path) -> io::Result<Option<Rotated>> {
    Ok(list(path)?.pop())
}

/// Where the log goes when it is rotated next.
pub(super) fn next(path: &Path) -> io::Result<Rotated> {
    let number = newest(path)?.map_or(0, |newest| newest.number) + 1;
    let next = rotated(path, number);
    let name = next.path.file_name().unwrap_or_default();
    if number_of(path, name) == Some(number) {
        Ok(next)
    } else {
        Err(io::Error::other(
            "no number is left for the file to be renamed to",
        ))
    }
}

/// The number in a name of this family.
fn number_of(path: &Path, name: &OsStr) -> Option<u64> {
    let (stem, extension) = parts(path);
    let digits = name
        .as_bytes()
        .strip_prefix(stem)?
        .strip_prefix(b".")?
        .strip_suffix(extension)?;
    let plain = (DIGITS..=MOST_DIGITS).contains(&digits.len())
        && digits.iter().all(u8::is_ascii_digit)
        // One number has one name.
        && (digits.len() == DIGITS || digits.first() != Some(&b'0'));
    if !plain {
        return None;
    }
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// What stands before the number in a rotated name, and what behind it.
fn parts(path: &Path) -> (&[u8], &[u8]) {
    let name = path.file_name().unwrap_or_default().as_bytes();
    let extension = path.extension().map_or(0, |extension| extension.len() + 1);
    name.split_at_checked(name.len().saturating_sub(extension))
        .unwrap_or((name, b""))
}

#[cfg(test)]
#[expect(
    clippy::disallowed_methods,
    reason = "the tests lay out files beside a log"
)]
mod tests {
    use super::*;

    #[test]
    fn names_carry_a_number_before_the_extension() {
        let name = |path: &str, number| rotated(Path::new(path), number).path;
        assert_eq!(
            name("/a/review.jsonl", 1),
            Path::new("/a/review.000001.jsonl")
        );
        assert_eq!(name("review", 12), Path::new("review.000012"));
        assert_eq!(name(".log", 1), Path::new(".log.000001"));
        assert_eq!(name("a.b.jsonl", 1_234_567), Path::new("a.b.1234567.jsonl"));
    }

    #[test]
    fn only_names_of_the_family_count_and_their_order_is_that_of_numbers() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("review.jsonl");
        for name in [
            "review.jsonl",
            "review.1000000.jsonl",
            "review.000002.jsonl",
            "review.999999.jsonl",
            "review.0000001.jsonl",
            "review.00001.jsonl",
            "review.00000x.jsonl",
            "review.000003.jsonl.gz",
            "review.9999999999999999999999.jsonl",
            "other.000004.jsonl",
            "review000005.jsonl",
        ] {
            std::fs::write(directory.path().join(name), "").unwrap();
        }
        let numbers: Vec<u64> = list(&path)
            .unwrap()
            .iter()
            .map(|rotated| rotated.number)
            .collect();
        assert_eq!(numbers, [2, 999_999, 1_000_000]);
        let newest = newest(&path).unwrap().unwrap();
        assert_eq!(newest.name(), "review.1000000.jsonl");
        assert_eq!(rotated(&path, newest.number).path, newest.path);
    }
}

//! Unified diffs: how a change of a text is written down, and how what was written down can be coloured.
//!
//! Lines end at line feeds and nowhere else, as they do for whoever shows them; a carriage return is a part of its line. A
//! change that is too large, or that takes too long to compare, is written as the removal of everything and the addition of
//! everything: longer, and nothing lost.
//!
//! A line within a hunk is told by the counts in the hunk's head, never by its looks: a removed line that begins with `-- ` is
//! no head of a file.

use std::collections::HashMap;
use std::time::Duration;

use similar::algorithms::{Capture, Compact, Replace, myers};
use similar::udiff::UnifiedHunkHeader;
use similar::{DiffOp, group_diff_ops};

use crate::wire::Evidence;

/// Label of a unified diff.
pub const DIFF_LABEL: &str = "diff";

/// Lines of context around a change.
const CONTEXT: usize = 3;

/// Most bytes, of both sides together, that are compared line by line.
const MAX_COMPARED: usize = 8 << 20;

/// How long a comparison may take before it settles for less than the shortest diff.
const MAX_TIME: Duration = Duration::from_millis(200);

/// One side of a change.
#[derive(Debug, Clone, Copy)]
pub(super) enum Side<'a> {
    Old(&'a str),
    New(&'a str),
    /// There is no file on this side.
    Nothing,
}

impl Side<'_> {
    /// Its name in the head of a diff, one line whatever the path holds.
    fn name(self) -> String {
        let (mark, path) = match self {
            Self::Old(path) => ("a/", path),
            Self::New(path) => ("b/", path),
            Self::Nothing => return "/dev/null".to_owned(),
        };
        let name = format!("{mark}{}", path.trim_start_matches('/'));
        if name.contains(|c: char| c.is_control() || c == '"') {
            serde_json::Value::from(name).to_string()
        } else {
            name
        }
    }
}

/// The change from `old` to `new`, which differ, as an entry.
pub(super) fn entry(old_side: Side<'_>, old: &str, new_side: Side<'_>, new: &str) -> Evidence {
    let text = unified(&old_side.name(), old, &new_side.name(), new, MAX_COMPARED);
    super::entry(DIFF_LABEL, text)
}

/// The change from `old` to `new` as a unified diff, under these names. It does not end in a line feed; where nothing changes it has
/// no more than its head.
pub fn unified_diff(old_name: &str, old: &str, new_name: &str, new: &str) -> String {
    unified(old_name, old, new_name, new, MAX_COMPARED)
}

fn unified(old_name: &str, old: &str, new_name: &str, new: &str, limit: usize) -> String {
    let old_lines: Vec<&str> = old.split_inclusive('\n').collect();
    let new_lines: Vec<&str> = new.split_inclusive('\n').collect();
    let mut out = format!("--- {old_name}\n+++ {new_name}\n");
    let hunks = if old.len().saturating_add(new.len()) > limit {
        vec![vec![DiffOp::Replace {
            old_index: 0,
            old_len: old_lines.len(),
            new_index: 0,
            new_len: new_lines.len(),
        }]]
    } else {
        group_diff_ops(compared(&old_lines, &new_lines), CONTEXT)
    };
    for hunk in hunks {
        push_head(&mut out, &hunk);
        for op in &hunk {
            if let DiffOp::Equal { .. } = op {
                push_lines(&mut out, ' ', &old_lines, op.old_range());
            } else {
                push_lines(&mut out, '-', &old_lines, op.old_range());
                push_lines(&mut out, '+', &new_lines, op.new_range());
            }
        }
    }
    out.truncate(out.len() - 1);
    out
}

#[expect(
    clippy::disallowed_methods,
    reason = "the comparison takes its limit as a time of the clock; nothing else depends on it"
)]
/// How the lines of one side become those of the other. They are compared as numbers: the comparison is a large piece of code for
/// each type that it is made for.
fn compared<'a>(old: &[&'a str], new: &[&'a str]) -> Vec<DiffOp> {
    let mut known: HashMap<&'a str, usize> = HashMap::new();
    let mut number = |line: &&'a str| {
        let next = known.len();
        *known.entry(*line).or_insert(next)
    };
    let old: Vec<usize> = old.iter().map(&mut number).collect();
    let new: Vec<usize> = new.iter().map(number).collect();
    let mut found = Compact::new(Replace::new(Capture::new()), &*old, &*new);
    let deadline = std::time::Instant::now().checked_add(MAX_TIME);
    let (whole_old, whole_new) = (0..old.len(), 0..new.len());
    let Ok(()) = myers::diff_deadline(&mut found, &*old, whole_old, &*new, whole_new, deadline);
    found.into_inner().into_inner().into_ops()
}

fn push_lines(out: &mut String, sign: char, lines: &[&str], range: std::ops::Range<usize>) {
    for line in lines.get(range).unwrap_or_default() {
        push(out, sign, line);
    }
}

fn push_head(out: &mut String, hunk: &[DiffOp]) {
    if !hunk.is_empty() {
        out.push_str(&UnifiedHunkHeader::new(hunk).to_string());
        out.push('\n');
    }
}

fn push(out: &mut String, sign: char, line: &str) {
    out.push(sign);
    out.push_str(line);
    if !line.ends_with('\n') {
        out.push_str("\n\\ No newline at end of file\n");
    }
}

/// What a line of a diff is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineClass {
    /// `--- ` or `+++ ` before the first hunk of a file.
    FileHeader,
    /// `@@ … @@`.
    Hunk,
    /// A line that would be there afterwards.
    Added,
    /// A line that would be gone.
    Removed,
    /// A line that stays, or anything that is none of the others.
    Context,
    /// A remark of the format itself: no newline at the end of the file.
    Note,
}

/// What each line of a diff is, line feeds apart; `None` where the entry is none. Only the looks of a line may depend on it:
/// entries come from whoever asks.
pub fn line_classes(entry: &Evidence) -> Option<Vec<LineClass>> {
    let is_diff =
        entry.label == DIFF_LABEL && entry.detail.is_none() && entry.text.starts_with("--- ");
    if !is_diff {
        return None;
    }
    let (mut old_left, mut new_left) = (0_u64, 0_u64);
    let mut class = |line: &str| {
        if line.starts_with('\\') {
            return LineClass::Note;
        }
        if old_left > 0 || new_left > 0 {
            let (class, old, new) = match line.as_bytes().first() {
                Some(b'+') => (LineClass::Added, 0, 1),
                Some(b'-') => (LineClass::Removed, 1, 0),
                Some(b' ') | None => (LineClass::Context, 1, 1),
                Some(_) => (LineClass::Context, old_left, new_left),
            };
            // More lines of a kind than the head said: it is no diff from here on.
            if old > old_left || new > new_left {
                (old_left, new_left) = (0, 0);
                return LineClass::Context;
            }
            (old_left, new_left) = (old_left - old, new_left - new);
            return class;
        }
        if let Some((old, new)) = hunk_counts(line) {
            (old_left, new_left) = (old, new);
            LineClass::Hunk
        } else if line.starts_with("--- ") || line.starts_with("+++ ") {
            LineClass::FileHeader
        } else {
            LineClass::Context
        }
    };
    Some(entry.text.split('\n').map(&mut class).collect())
}

/// How many lines of either side follow the head `@@ -1,2 +3,4 @@`.
fn hunk_counts(line: &str) -> Option<(u64, u64)> {
    let (ranges, _) = line.strip_prefix("@@ -")?.split_once(" @@")?;
    let (old, new) = ranges.split_once(" +")?;
    Some((count(old)?, count(new)?))
}

fn count(range: &str) -> Option<u64> {
    match range.split_once(',') {
        Some((_, count)) => count.parse().ok(),
        None => range.parse::<u64>().ok().map(|_| 1),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn diff(old: &str, new: &str, limit: usize) -> Evidence {
        super::super::entry(DIFF_LABEL, unified("a/f", old, "b/f", new, limit))
    }

    /// What a reader of the format makes of a diff: all lines of either side that stand in it, with their ends.
    fn sides(entry: &Evidence) -> (String, String) {
        let (mut old, mut new) = (String::new(), String::new());
        let (mut in_old, mut in_new) = (false, false);
        for (line, class) in entry.text.split('\n').zip(line_classes(entry).unwrap()) {
            if class == LineClass::Note {
                for (side, last) in [(&mut old, in_old), (&mut new, in_new)] {
                    if last {
                        side.truncate(side.len() - 1);
                    }
                }
            }
            in_old = matches!(class, LineClass::Removed | LineClass::Context);
            in_new = matches!(class, LineClass::Added | LineClass::Context);
            for (side, is_in) in [(&mut old, in_old), (&mut new, in_new)] {
                if is_in {
                    side.push_str(&line[1..]);
                    side.push('\n');
                }
            }
        }
        (old, new)
    }

    /// Makes of `old` what a diff says, and fails where the diff is not one of `old`.
    fn apply(entry: &Evidence, old: &str) -> String {
        let lines: Vec<&str> = old.split_inclusive('\n').collect();
        let (mut at, mut new, mut last) = (0, String::new(), LineClass::Context);
        for (line, class) in entry.text.split('\n').zip(line_classes(entry).unwrap()) {
            match class {
                LineClass::FileHeader => {}
                LineClass::Hunk => {
                    let range = line["@@ -".len()..].split(' ').next().unwrap();
                    let start: usize = range.split(',').next().unwrap().parse().unwrap();
                    let from = start - usize::from(count(range) != Some(0));
                    new.extend(lines[at..from].iter().copied());
                    at = from;
                }
                LineClass::Context | LineClass::Removed => {
                    assert_eq!(lines[at].trim_end_matches('\n'), &line[1..]);
                    if class == LineClass::Context {
                        new.push_str(lines[at]);
                    }
                    at += 1;
                }
                LineClass::Added => {
                    new.push_str(&line[1..]);
                    new.push('\n');
                }
                LineClass::Note if last == LineClass::Added => new.truncate(new.len() - 1),
                LineClass::Note => assert!(!lines[at - 1].ends_with('\n')),
            }
            last = class;
        }
        new.extend(lines[at..].iter().copied());
        new
    }

    /// Few lines of few kinds, so that many of them are alike; kinds that look like parts of a diff.
    fn text() -> impl Strategy<Value = String> {
        let line = prop::sample::select(vec![
            "a",
            "b",
            "",
            "-- a/f",
            "++ b/f",
            "@@ -1 +1 @@",
            "\\ No",
            "c\r",
            "\rd",
            "+",
            " e",
        ]);
        (prop::collection::vec(line, 0..20), any::<bool>()).prop_map(|(lines, ended)| {
            let mut text = lines.join("\n");
            if ended && !text.is_empty() {
                text.push('\n');
            }
            text
        })
    }

    proptest! {
        #[test]
        fn a_change_written_whole_can_be_read_back_whole(old in text(), new in text()) {
            let entry = diff(&old, &new, 0);
            prop_assert_eq!(sides(&entry), (old, new));
        }

        #[test]
        fn a_diff_makes_the_one_side_of_the_other(old in text(), new in text()) {
            let entry = diff(&old, &new, MAX_COMPARED);
            prop_assert_eq!(apply(&entry, &old), new);
        }

        #[test]
        fn any_text_has_one_class_for_each_line(text in "(--- |@@ -[0-9],[0-9] \\+2 @@|[-+ \\\\a\n\r]){0,12}") {
            let entry = super::super::entry(DIFF_LABEL, format!("--- {text}"));
            let classes = line_classes(&entry).unwrap();
            prop_assert_eq!(classes.len(), crate::presentation::text::lines(&entry.text).len());
        }
    }

    #[test]
    fn a_line_within_a_hunk_is_told_by_the_hunk() {
        use LineClass::{Added, Context, FileHeader, Hunk, Note, Removed};
        let entry = diff("x\n-- a/f\ny\n", "x\n++ b/f\ny", MAX_COMPARED);
        insta::assert_snapshot!(entry.text, @r"
        --- a/f
        +++ b/f
        @@ -1,3 +1,3 @@
         x
        --- a/f
        -y
        +++ b/f
        +y
        \ No newline at end of file
        ");
        let classes = line_classes(&entry).unwrap();
        assert_eq!(
            classes,
            [
                FileHeader, FileHeader, Hunk, Context, Removed, Removed, Added, Added, Note
            ]
        );
    }

    #[test]
    fn what_is_labelled_otherwise_or_looks_otherwise_is_no_diff() {
        let mut entry = diff("a\n", "b\n", MAX_COMPARED);
        assert!(line_classes(&entry).is_some());
        entry.label = "Diff".to_owned();
        assert_eq!(line_classes(&entry), None);
        assert_eq!(
            line_classes(&super::super::entry(DIFF_LABEL, "rm -rf /")),
            None
        );
    }

    #[test]
    fn a_name_in_a_head_is_one_line() {
        assert_eq!(Side::Old("/tmp/a\n+++ b/c").name(), r#""a/tmp/a\n+++ b/c""#);
        assert_eq!(Side::New("x y").name(), "b/x y");
    }

    #[test]
    fn a_megabyte_on_each_side_is_shown_without_a_loss() {
        let lines = |word: &str| -> String {
            let lines: Vec<String> = (0..90_000).map(|n| format!("{word} {n} {n}\n")).collect();
            lines.concat()
        };
        let (old, new) = (lines("old"), lines("new"));
        assert!(old.len() > 1 << 20);
        let entry = diff(&old, &new, MAX_COMPARED);
        assert_eq!(sides(&entry), (old, new));
    }
}

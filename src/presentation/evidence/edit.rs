//! Evidence of edits: texts of a file that are replaced by others.
//!
//! Agents spell them differently: one pair of texts or a list of them, an old text that must be unique or every one of it, and
//! each edit found in what the one before it made, or all of them in the file as it is. What is not found, or not unique, is
//! said; the change is then shown as that of the two texts, for what it would do to the file is: nothing. An edit that would make too much of
//! a file, and edits that take too long to follow, are shown in the same way, and that is said.

use serde_json::Value;

use super::diff::{self, Side};
use super::fields::{Members, PATHS};
use super::file::{Present, path_entry, present};
use super::work::{MAX_RESULT, MAX_SHOWN, TooMuch, Work, length_with};
use super::{Call, about_file, entry, fields};
use crate::wire::Evidence;

/// Names of the text that goes, and of the text that comes.
const OLD: [&str; 4] = ["old_string", "oldString", "old_str", "oldText"];
const NEW: [&str; 4] = ["new_string", "newString", "new_str", "newText"];
/// Names of the flag that every occurrence is meant.
const EVERY: [&str; 3] = ["replace_all", "replaceAll", "allow_multiple"];
/// How many occurrences are meant.
const EXPECTED: &str = "expected_replacements";
/// What the asker says about its edit.
const WORDS: &str = "instruction";
/// The spelling of those who find each edit in the file as it is.
const FOUND_IN_ORIGINAL: &str = "oldText";

/// One text that is replaced by another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Edit<'a> {
    old: &'a str,
    new: &'a str,
    meant: Meant,
}

/// Which occurrences of an old text are meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Meant {
    /// The only one.
    One,
    /// This many, and there must be no others.
    Count(usize),
    /// Every one.
    Every,
}

impl Meant {
    fn fact(self) -> Option<String> {
        match self {
            Self::One => None,
            Self::Count(count) => Some(format!("{count} occurrences")),
            Self::Every => Some("every occurrence".to_owned()),
        }
    }

    fn met_by(self, count: usize) -> Result<(), Fault> {
        let is_met = match self {
            Self::One => count == 1,
            Self::Count(wanted) => count == wanted,
            Self::Every => true,
        };
        match count {
            0 => Err(Fault::NotFound),
            _ if is_met => Ok(()),
            count => Err(Fault::Found(count)),
        }
    }
}

/// Why an edit cannot be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    NotFound,
    /// It is not there as often as is meant.
    Found(usize),
    Overlaps,
    /// An old text without a character stands everywhere.
    NothingToFind,
    /// It would make more of the file than is shown.
    TooLarge,
    /// What it does was not worked out, nor what those behind it do.
    NotWorkedOut,
}

impl From<TooMuch> for Fault {
    fn from(TooMuch: TooMuch) -> Self {
        Self::NotWorkedOut
    }
}

impl Fault {
    fn fact(self) -> String {
        match self {
            Self::NotFound => "old text not found".to_owned(),
            Self::Found(1) => "old text found once".to_owned(),
            Self::Found(count) => format!("old text found {count} times"),
            Self::Overlaps => "old text overlaps another edit's".to_owned(),
            Self::NothingToFind => "old text empty, file not".to_owned(),
            Self::TooLarge => format!("makes more than {MAX_RESULT} bytes of the file"),
            Self::NotWorkedOut => "not worked out, nor those behind it".to_owned(),
        }
    }

    /// Whether nothing can be said of the edits behind it.
    fn ends(self) -> bool {
        matches!(self, Self::TooLarge | Self::NotWorkedOut)
    }
}

/// `None` where the input is no edit of a file.
pub(super) fn evidence(call: &Call<'_>) -> Option<Vec<Evidence>> {
    let mut input = Members::of(call.input)?;
    let path = input.text(&PATHS)?;
    let from_original = is_found_in_original(call.input);
    let mut edits: Vec<Edit<'_>> = edit(&mut input).into_iter().collect();
    edits.extend(
        input
            .first(&["edits"], |list| edits_of(list, path))
            .into_iter()
            .flatten(),
    );
    if edits.is_empty() {
        return None;
    }
    let mut entries: Vec<Evidence> = path_entry(call, path).into_iter().collect();
    entries.extend(
        input
            .text(&[WORDS])
            .map(|words| entry("asker's words", words)),
    );
    let about = |index: usize, fact: String| match edits.len() {
        1 => entry("edit", fact),
        _ => Evidence {
            detail: Some(fact),
            ..entry("edit", (index + 1).to_string())
        },
    };
    let meant = edits.iter().map(|edit| edit.meant.fact()).enumerate();
    entries.extend(meant.filter_map(|(index, fact)| Some(about(index, fact?))));
    let mut is_shown_whole = false;
    let mut by_themselves = |entries: &mut Vec<Evidence>| {
        if edits.len() <= MAX_SHOWN {
            entries.extend(snippets(path, &edits));
        } else {
            is_shown_whole = true;
        }
    };
    match present(call.files.current(path)) {
        Present::Text(text) => match apply(&text, &edits, from_original) {
            Ok(new) if new == text => entries.push(about_file(path, "unchanged")),
            Ok(new) => entries.push(diff::entry(Side::Old(path), &text, Side::New(path), &new)),
            Err(faults) => {
                let facts = faults.into_iter();
                entries.extend(facts.map(|(index, fault)| about(index, fault.fact())));
                by_themselves(&mut entries);
            }
        },
        Present::Missing => match edits.as_slice() {
            // Some agents make a file by an edit of nothing.
            [
                Edit {
                    old: "", new: "", ..
                },
            ] => {
                entries.push(about_file(path, "new, empty"));
            }
            [Edit { old: "", new, .. }] => {
                entries.push(diff::entry(Side::Nothing, "", Side::New(path), new));
            }
            _ => {
                entries.push(about_file(path, "missing"));
                by_themselves(&mut entries);
            }
        },
        Present::NoText(fact) => {
            entries.push(about_file(path, fact));
            by_themselves(&mut entries);
        }
        Present::Unknown => by_themselves(&mut entries),
    }
    entries.extend(if is_shown_whole {
        fields::whole(call.input)
    } else {
        input.rest()
    });
    Some(entries)
}

fn edit<'a>(input: &mut Members<'a>) -> Option<Edit<'a>> {
    let old = input.text(&OLD)?;
    let new = input.text(&NEW)?;
    let every = input.first(&EVERY, Value::as_bool).unwrap_or(false);
    let count = |count: &Value| usize::try_from(count.as_u64()?).ok();
    let meant = match input.first(&[EXPECTED], count) {
        _ if every => Meant::Every,
        None | Some(1) => Meant::One,
        Some(count) => Meant::Count(count),
    };
    Some(Edit { old, new, meant })
}

/// A list of edits of the file at `path`; `None` where anything else stands in it, which then is shown as it is.
fn edits_of<'a>(list: &'a Value, path: &str) -> Option<Vec<Edit<'a>>> {
    let edits = list.as_array()?.iter().map(|item| {
        let mut members = Members::of(item)?;
        let edit = edit(&mut members)?;
        members.first(&PATHS, |named| (named == path).then_some(()));
        members.rest().is_none().then_some(edit)
    });
    edits.collect()
}

fn is_found_in_original(input: &Value) -> bool {
    let spelled_so = |value: &Value| value.get(FOUND_IN_ORIGINAL).is_some();
    let list = input.get("edits").and_then(Value::as_array);
    spelled_so(input) || list.is_some_and(|list| list.iter().any(spelled_so))
}

/// The changes by themselves, where there is no file to show them in.
fn snippets<'a>(path: &'a str, edits: &'a [Edit<'a>]) -> impl Iterator<Item = Evidence> + 'a {
    let note = entry("line numbers", "of the texts, not of the file");
    let changes = edits.iter().map(move |edit| {
        if edit.old == edit.new {
            return entry("no change", edit.old);
        }
        // Where neither text ends its last line, that says nothing about the end of the file.
        let open = !edit.old.ends_with('\n') && !edit.new.ends_with('\n');
        let closed = |text: &str| match text {
            "" => String::new(),
            text if open => format!("{text}\n"),
            text => text.to_owned(),
        };
        diff::entry(
            Side::Old(path),
            &closed(edit.old),
            Side::New(path),
            &closed(edit.new),
        )
    });
    std::iter::once(note).chain(changes)
}

/// What the edits make of a text, or which of them cannot be made.
fn apply(
    text: &str,
    edits: &[Edit<'_>],
    from_original: bool,
) -> Result<String, Vec<(usize, Fault)>> {
    // Agents read lines without their carriage returns, and put them back where a file has them.
    let has_returns = text.contains("\r\n");
    let own = |edit: &str| {
        if has_returns && !edit.contains('\r') {
            edit.replace('\n', "\r\n")
        } else {
            edit.to_owned()
        }
    };
    let edits: Vec<(String, String, Meant)> = edits
        .iter()
        .map(|edit| (own(edit.old), own(edit.new), edit.meant))
        .collect();
    if from_original {
        return all_at_once(text, &edits);
    }
    let (mut text, mut faults) = (text.to_owned(), Vec::new());
    let work = Work::default();
    for (index, (old, new, meant)) in edits.iter().enumerate() {
        match replaced(&text, old, new, *meant, &work) {
            Ok(made) => text = made,
            Err(fault) => {
                faults.push((index, fault));
                if fault.ends() {
                    break;
                }
            }
        }
    }
    if faults.is_empty() {
        Ok(text)
    } else {
        Err(faults)
    }
}

/// What one edit makes of a text.
fn replaced(text: &str, old: &str, new: &str, meant: Meant, work: &Work) -> Result<String, Fault> {
    work.spend(text.len())?;
    if old.is_empty() {
        places(text, old, meant)?;
        return Ok(new.to_owned());
    }
    let count = text.matches(old).count();
    meant.met_by(count)?;
    let length = length_with(text.len(), count, old.len(), new.len()).ok_or(Fault::TooLarge)?;
    work.spend(length)?;
    work.spend_steps(count, 0)?;
    Ok(text.replace(old, new))
}

/// Where `old` stands in `text`, if that is as often as is meant.
fn places(text: &str, old: &str, meant: Meant) -> Result<Vec<usize>, Fault> {
    if old.is_empty() {
        return if text.is_empty() {
            Ok(vec![0])
        } else {
            Err(Fault::NothingToFind)
        };
    }
    let places: Vec<usize> = text.match_indices(old).map(|(at, _)| at).collect();
    meant.met_by(places.len())?;
    Ok(places)
}

fn all_at_once(
    text: &str,
    edits: &[(String, String, Meant)],
) -> Result<String, Vec<(usize, Fault)>> {
    let (mut found, mut faults) = (Vec::new(), Vec::new());
    let work = Work::default();
    let mut length = Some(text.len());
    for (index, (old, new, meant)) in edits.iter().enumerate() {
        let places = work
            .spend(text.len())
            .map_err(Fault::from)
            .and_then(|()| places(text, old, *meant));
        let places = places.and_then(|places| {
            work.spend_steps(places.len(), 0)?;
            length =
                length.and_then(|length| length_with(length, places.len(), old.len(), new.len()));
            if length.is_some() {
                Ok(places)
            } else {
                Err(Fault::TooLarge)
            }
        });
        match places {
            Ok(places) => {
                found.extend(
                    places
                        .into_iter()
                        .map(|at| (at, at + old.len(), new, index)),
                );
            }
            Err(fault) => {
                faults.push((index, fault));
                if fault.ends() {
                    return Err(faults);
                }
            }
        }
    }
    found.sort_unstable_by_key(|(at, ..)| *at);
    let (mut new_text, mut end) = (String::with_capacity(text.len()), 0);
    for (from, to, new, index) in found {
        match text.get(end..from) {
            Some(kept) if from >= end => {
                new_text.push_str(kept);
                new_text.push_str(new);
                end = to;
            }
            Some(_) | None => faults.push((index, Fault::Overlaps)),
        }
    }
    new_text.push_str(text.get(end..).unwrap_or_default());
    if faults.is_empty() {
        Ok(new_text)
    } else {
        Err(faults)
    }
}

//! Lines that cannot be taken apart: they are gone through token by token, and more of them is masked, never less.
//!
//! Where it is sure how the quotes go, a word is masked from a telling name on to its end. Where it is not (here-documents,
//! substitutions, comments, a quote that stays open), everything is masked from the first telling name on.

use std::borrow::Cow;
use std::ops::Range;

use super::names::{begins, is_of_a_name};
use super::rules::Spots;
use super::tools::{TOOLS, Tool};
use crate::shell::Piece;

/// Whether a line may hold a secret at all: whether anything stands in it by which one is found.
pub(super) fn may_hold_any(line: &str) -> bool {
    let bytes = line.as_bytes();
    let quoted = memchr::memchr3(b'\'', b'"', b'\\', bytes).is_some();
    if quoted && encoded(line).is_some() {
        return true;
    }
    let bare = if quoted {
        Cow::Owned(bare(line).0)
    } else {
        Cow::Borrowed(line)
    };
    next_telling(bare.as_bytes(), 0).is_some()
        || bare.contains('@') && bare.contains("://")
        || bare.contains('-') && named_tools(&bare).next().is_some()
}

/// The parts of `line` that are secrets, or may be parts of one.
pub(super) fn spots(line: &str) -> Vec<Range<usize>> {
    let bare_line = bare(line).0;
    let tools: Vec<&Tool> = named_tools(&bare_line).collect();
    let Some(words) = words(line) else {
        // Everything from the first thing on that announces one.
        let first = first_trigger(line, &tools);
        let first = first.into_iter().chain(encoded(line)).min();
        return first.map(|at| at..line.len()).into_iter().collect();
    };
    let mut spots = Spots::to_the_end();
    spots.words(&words, &tools);
    for word in &words {
        if let Some(at) = first_trigger(word.text(), &tools) {
            spots.hide(word, at..at);
        }
    }
    let mut ranges = spots.into_ranges();
    // A value may go on in the next words, where they become a command line together.
    let goes_on = |part: &&Range<usize>| {
        let hidden = line.get((*part).clone()).unwrap_or_default();
        hidden.contains(['\'', '"', '\\'])
    };
    if let Some(start) = ranges.iter().filter(goes_on).map(|part| part.start).min() {
        ranges.push(start..line.len());
    }
    ranges
}

/// Where a string begins in which letters may be written as numbers, by this shell or by one that is handed the line. What goes on
/// behind its end counts too.
fn encoded(line: &str) -> Option<usize> {
    let begins = |(at, _): &(usize, &str)| {
        let behind = line.get(at + 1..).unwrap_or_default();
        behind.trim_start_matches('\\').starts_with('\'')
    };
    let (at, _) = line.match_indices('$').find(begins)?;
    let rest = line.get(at..).unwrap_or_default();
    let numbered = |(slash, _): (usize, &str)| {
        let escape = rest.get(slash + 1..).and_then(|rest| rest.chars().next());
        escape.is_some_and(|escape| escape.is_digit(8) || matches!(escape, 'x' | 'u' | 'U'))
    };
    rest.match_indices('\\').any(numbered).then_some(at)
}

/// Text without quotes, backslashes, and the dollar signs before quotes, which may stand in the middle of a name, and where each byte of it stands.
fn bare(text: &str) -> (String, Vec<usize>) {
    let mut kept = String::with_capacity(text.len());
    let mut places = Vec::with_capacity(text.len());
    let mut escapes = false;
    for (at, character) in text.char_indices() {
        let joins = escapes && character == '\n';
        escapes = character == '\\';
        if joins || matches!(character, '\'' | '"' | '\\' | '$') {
            continue;
        }
        kept.push(character);
        places.extend(at..at + character.len_utf8());
    }
    (kept, places)
}

/// Where the next telling word begins. It finds more than there is in a name that is known to be whole.
fn next_telling(text: &[u8], from: usize) -> Option<usize> {
    (from..text.len()).find(|at| {
        let rest = text.get(*at..).unwrap_or_default();
        match rest.first().map(u8::to_ascii_lowercase) {
            Some(b'a') => begins(rest, "authorization") || begins(rest, "auth-"),
            Some(b'c') => begins(rest, "credential") || begins(rest, "cookie"),
            Some(b'p') => begins(rest, "pass") || begins(rest, "pwd"),
            Some(b's') => begins(rest, "secret"),
            Some(b't') => begins(rest, "token"),
            Some(b'k') => begins(rest, "key"),
            _ => false,
        }
    })
}

/// The programs that are named somewhere in a text.
fn named_tools(text: &str) -> impl Iterator<Item = &'static Tool> {
    let words: Vec<&str> = text
        .split(|c: char| !c.is_ascii_alphanumeric() && c != '-' && c != '_')
        .collect();
    TOOLS.iter().filter(move |tool| {
        words.iter().any(|word| tool.names.contains(word))
            && tool.only_with.is_none_or(|with| words.contains(&with))
    })
}

/// Where the first value begins that may be a secret.
fn first_trigger(text: &str, tools: &[&Tool]) -> Option<usize> {
    let (bare, places) = bare(text);
    let found = [
        announced(&bare),
        address(&bare),
        tools.iter().filter_map(|tool| option(&bare, tool)).min(),
    ];
    let last = found.into_iter().flatten().min()?.checked_sub(1)?;
    Some(places.get(last).map_or(text.len(), |last| last + 1))
}

/// The first value behind a telling name.
fn announced(text: &str) -> Option<usize> {
    let mut from = 0;
    loop {
        let at = next_telling(text.as_bytes(), from)?;
        let before = text.get(from..at).unwrap_or_default();
        let is_option = before
            .trim_end_matches(|character| is_of_a_name(character) && character != '-')
            .ends_with('-');
        let front = before.trim_end_matches(is_of_a_name);
        let is_set = front.trim_end_matches([' ', '\t', '\n']).ends_with("set");
        let rest = text.get(at..).unwrap_or_default();
        let name = rest.len() - rest.trim_start_matches(is_of_a_name).len();
        // A colon may be a part of a name.
        let colon = rest.get(..name).and_then(|name| name.find(':'));
        if let Some(colon) = colon {
            return Some(at + colon + 1);
        }
        let behind = rest.get(name..).unwrap_or_default();
        let value = behind.trim_start_matches([' ', '\t', '\n']);
        let blanks = behind.len() - value.len();
        if (is_option || is_set) && blanks > 0 && !value.is_empty() {
            // What is written between the blanks may be a value too, such as a dollar sign in quotes.
            return Some(at + name + 1);
        }
        if value.starts_with(':') || behind.starts_with('=') {
            return Some(at + name + blanks + 1);
        }
        from = at + name;
    }
}

/// The first address with a user in it.
fn address(text: &str) -> Option<usize> {
    let at = text.find("://")?;
    let rest = text.get(at..).unwrap_or_default();
    rest.contains('@').then_some(at + 3)
}

/// The first option of a program that has a secret.
fn option(text: &str, tool: &Tool) -> Option<usize> {
    let mut before = ' ';
    for (at, character) in text.char_indices() {
        let begins = character == '-' && !before.is_ascii_alphanumeric() && before != '-';
        before = character;
        if !begins {
            continue;
        }
        let behind = text.get(at..).unwrap_or_default();
        let dashes = behind.len() - behind.trim_start_matches('-').len();
        let name = behind.get(dashes..).unwrap_or_default();
        let name = name
            .split(|c: char| !c.is_ascii_alphanumeric() && c != '-')
            .next()
            .unwrap_or_default();
        let letter = name.find(|letter| tool.shape(letter).is_some());
        let end = match letter {
            _ if tool.long_shape(name).is_some() => name.len(),
            Some(letter) if dashes == 1 && (tool.clusters || letter == 0) => letter + 1,
            _ => continue,
        };
        let value = at + dashes + end;
        let rest = text.get(value..).unwrap_or_default();
        let blanks = rest.len() - rest.trim_start_matches([' ', '\t', '\n', '=']).len();
        return Some(value + blanks);
    }
    None
}

/// The words of a line, where its quotes leave no doubt.
fn words(line: &str) -> Option<Vec<Piece>> {
    let doubtful = ["<<", "#", "`", "(", "${", "$'", "$\""];
    if encoded(line).is_some() || doubtful.iter().any(|mark| line.contains(mark)) {
        return None;
    }
    let mut words = Vec::new();
    let mut word: Option<Piece> = None;
    let mut quote = None;
    let mut characters = line.char_indices();
    while let Some((at, character)) = characters.next() {
        let end = at + character.len_utf8();
        match (quote, character) {
            (None, '\'' | '"') => {
                quote = Some(character);
                word.get_or_insert_default();
            }
            (Some(open), _) if open == character => quote = None,
            (None | Some('"'), '\\') => {
                let (behind, escaped) = characters.next()?;
                let word = word.get_or_insert_default();
                if quote.is_some() && !matches!(escaped, '$' | '`' | '"' | '\\' | '\n') {
                    word.push("\\", &(at..end));
                }
                if escaped != '\n' {
                    let end = behind + escaped.len_utf8();
                    word.push(escaped.encode_utf8(&mut [0; 4]), &(at..end));
                }
            }
            (None, ' ' | '\t' | '\n' | ';' | '|' | '&' | '<' | '>') => words.extend(word.take()),
            _ => word
                .get_or_insert_default()
                .push(character.encode_utf8(&mut [0; 4]), &(at..end)),
        }
    }
    words.extend(word);
    quote.is_none().then_some(words)
}

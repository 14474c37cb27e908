//! What among the words of a command is a secret.

use std::ops::Range;

use super::names::{
    is_of_a_name, is_option_for_a_secret, is_variable_for_a_secret, names_a_secret,
};
use super::tools::{Shape, TOOLS, Tool};
use crate::shell::Piece;

/// Parts of a line that are not shown.
#[derive(Debug)]
pub(super) struct Spots {
    ranges: Vec<Range<usize>>,
    /// Whether a value is taken to go on to the end of its word.
    pub(super) to_the_end: bool,
}

/// What the word in front says about a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expected {
    Nothing,
    /// A header of a request.
    Header,
    /// What to authenticate with.
    Secret(Shape),
}

impl Spots {
    /// Masks values as far as they go.
    pub(super) fn exact() -> Self {
        Self {
            ranges: Vec::new(),
            to_the_end: false,
        }
    }

    /// Masks words from a value on to their end.
    pub(super) fn to_the_end() -> Self {
        Self {
            ranges: Vec::new(),
            to_the_end: true,
        }
    }

    /// The parts, in no order.
    pub(super) fn into_ranges(self) -> Vec<Range<usize>> {
        self.ranges
    }

    /// Masks a part of a piece, but for the expansions in it.
    pub(super) fn hide(&mut self, piece: &Piece, part: Range<usize>) {
        if self.to_the_end {
            let rest = piece.places(part.start..piece.text().len());
            if let (Some(first), Some(last)) = (rest.first(), rest.last()) {
                let (start, end) = (first.range.start, last.range.end);
                // However much is found in a word, it has one end.
                match self.ranges.last_mut().filter(|range| range.end == end) {
                    Some(range) => range.start = range.start.min(start),
                    None => self.ranges.push(start..end),
                }
            }
            return;
        }
        let mut last: Option<Range<usize>> = None;
        for place in piece.places(part) {
            if place.expands {
                self.ranges.extend(last.take());
                continue;
            }
            match &mut last {
                Some(last) if last.start <= place.range.start && place.range.start <= last.end => {
                    last.end = last.end.max(place.range.end);
                }
                _ => {
                    self.ranges.extend(last.take());
                    last = Some(place.range.clone());
                }
            }
        }
        self.ranges.extend(last);
    }

    pub(super) fn hide_from(&mut self, piece: &Piece, start: usize) {
        self.hide(piece, start..piece.text().len());
    }

    /// An assignment to a variable.
    pub(super) fn assignment(&mut self, name: &str, values: &[Piece]) {
        let telling = is_variable_for_a_secret(name);
        for value in values {
            if telling {
                self.hide_from(value, 0);
            }
            self.assigned(value);
            self.within(value);
        }
    }

    /// The words of a command.
    pub(super) fn command(&mut self, words: &[Piece]) {
        let name = words.first().map_or("", Piece::text);
        if name.rsplit('/').next() == Some("sort") {
            // Its keys are columns.
            return words.iter().for_each(|word| self.within(word));
        }
        let is_among = |name: &str| words.iter().any(|word| word.text() == name);
        let mut tools = Vec::new();
        let mut before = "";
        let mut expected = Expected::Nothing;
        for word in words {
            expected = self.word(word, expected, &tools);
            if is_set(before, word) {
                expected = Expected::Secret(Shape::Whole);
            }
            // Other programs may run it, such as those that enter a container; the value of an option it is not.
            if !before.starts_with('-') || before == "--" {
                let called = TOOLS.iter().filter(|tool| tool.is_called(word.text()));
                let called = called.filter(|tool| tool.only_with.is_none_or(is_among));
                let new = |tool: &&Tool| !tools.iter().any(|known| std::ptr::eq(*known, *tool));
                let new: Vec<&Tool> = called.filter(new).collect();
                tools.extend(new);
            }
            before = word.text();
        }
    }

    /// Words, among which these programs may be named.
    pub(super) fn words(&mut self, words: &[Piece], tools: &[&Tool]) {
        let mut expected = Expected::Nothing;
        let mut before = "";
        for word in words {
            expected = self.word(word, expected, tools);
            if is_set(before, word) {
                expected = Expected::Secret(Shape::Whole);
            }
            before = word.text();
        }
    }

    /// One word; says what the next one is.
    fn word(&mut self, word: &Piece, expected: Expected, tools: &[&Tool]) -> Expected {
        match expected {
            Expected::Nothing => {}
            Expected::Header => self.headers(word, 0, names_a_secret),
            Expected::Secret(shape) => self.shaped(word, 0, shape),
        }
        self.assigned(word);
        self.within(word);
        if word.text().starts_with('-') {
            return self.option(word, tools);
        }
        if tools.iter().any(|tool| tool.is_called("http")) {
            self.headers(word, 0, names_a_secret);
        }
        Expected::Nothing
    }

    /// An option: masks what is attached to it, and says what follows.
    fn option(&mut self, word: &Piece, tools: &[&Tool]) -> Expected {
        let text = word.text();
        let dashes = text.len() - text.trim_start_matches('-').len();
        let (name, value) = match text.find('=') {
            Some(at) => (text.get(dashes..at), Some(at + 1)),
            None => (text.get(dashes..), None),
        };
        let name = name.unwrap_or_default();
        let shape = tools.iter().find_map(|tool| tool.long_shape(name));
        if let Some(shape) = shape {
            let Some(at) = value else {
                return Expected::Secret(shape);
            };
            self.shaped(word, at, shape);
        }
        if matches!(name, "header" | "headers" | "proxy-header") {
            let Some(at) = value else {
                return Expected::Header;
            };
            self.headers(word, at, names_a_secret);
        }
        // Some take `--name:value`. With a blank it is a header.
        let attached = name.split_once(':').filter(|(name, value)| {
            names_a_secret(name) && !value.is_empty() && !value.starts_with(' ')
        });
        if let Some((name, _)) = attached {
            if is_option_for_a_secret(name) {
                self.hide_from(word, dashes + name.len() + 1);
            }
        } else if value.is_none() && is_option_for_a_secret(name) {
            return Expected::Secret(Shape::Whole);
        }
        if dashes == 1 {
            self.letters(word, tools)
        } else {
            Expected::Nothing
        }
    }

    /// A word of letters that are options.
    fn letters(&mut self, word: &Piece, tools: &[&Tool]) -> Expected {
        let mut next = Expected::Nothing;
        for (at, letter) in letters(word.text()) {
            if letter == 'H' {
                let behind = at + letter.len_utf8();
                if behind == word.text().len() {
                    next = Expected::Header;
                }
                self.headers(word, behind, names_a_secret);
            }
        }
        for tool in tools {
            if let Some(shape) = self.letters_of(word, tool) {
                next = Expected::Secret(shape);
            }
        }
        next
    }

    /// The same of one program, up to the first letter that takes a value; gives the shape of the next word.
    fn letters_of(&mut self, word: &Piece, tool: &Tool) -> Option<Shape> {
        let text = word.text();
        let count = if tool.clusters { text.len() } else { 1 };
        for (at, letter) in letters(text).take(count) {
            let behind = at + letter.len_utf8();
            if let Some(shape) = tool.shape(letter) {
                if behind == text.len() && !tool.attached {
                    return Some(shape);
                }
                let equals = usize::from(text.get(behind..).is_some_and(|v| v.starts_with('=')));
                self.shaped(word, behind + equals, shape);
                return None;
            }
            if tool.valued.contains(letter) {
                return None;
            }
        }
        None
    }

    /// The secret in the value of an option, which begins at `start`.
    fn shaped(&mut self, word: &Piece, start: usize, shape: Shape) {
        let value = word.text().get(start..).unwrap_or_default();
        let behind = |mark: char| value.find(mark).map(|at| start + at + mark.len_utf8());
        let from = match shape {
            Shape::Whole => Some(start),
            Shape::Behind(mark) => behind(mark),
            Shape::PairOrWhole => behind(':').or(Some(start)),
            Shape::Cookie => value.contains('=').then_some(start),
        };
        if let Some(from) = from {
            self.hide_from(word, from);
        }
    }

    /// `NAME=value`, also as `--name=value`, `NAME+=value`, `--set=name=value`, `[name]=value`.
    fn assigned(&mut self, word: &Piece) {
        let text = word.text();
        let mut start = 0;
        let mut separator = None;
        for part in text.split([' ', '\t', '\n', ';', ',']) {
            if let Some(value) = assigned_value(part) {
                if matches!(separator, None | Some(',')) {
                    // All of the word is the value, with its blanks.
                    return self.hide_from(word, start + value);
                }
                let at = start + value;
                let rest = text.get(at..).unwrap_or_default();
                let quote = rest.chars().next().filter(|quote| "\"'".contains(*quote));
                let quoted = quote.and_then(|quote| rest.get(1..)?.find(quote));
                self.hide(
                    word,
                    at..quoted.map_or(start + part.len(), |end| at + end + 2),
                );
            }
            start += part.len() + 1;
            separator = text.get(start - 1..).and_then(|rest| rest.chars().next());
        }
    }
}

/// Whether the next word is the value of a setting with a telling name: `aws configure set aws_secret_access_key …`.
fn is_set(before: &str, word: &Piece) -> bool {
    before == "set" && is_option_for_a_secret(word.text())
}

/// Where in a text that begins with an assignment to a telling name the value begins.
fn assigned_value(text: &str) -> Option<usize> {
    let mut start = 0;
    for (at, _) in text.match_indices('=') {
        let name = text.get(start..at)?;
        if !name.chars().all(is_of_a_name) {
            return None;
        }
        let bare = name.trim_start_matches('-');
        let is_telling = match name.len() - bare.len() {
            _ if start > 0 => names_a_secret(bare),
            0 => is_variable_for_a_secret(bare),
            // The letter of an option may stand right before a name.
            1 => is_option_for_a_secret(bare) || bare.get(1..).is_some_and(is_option_for_a_secret),
            _ => is_option_for_a_secret(bare),
        };
        start = at + 1;
        if is_telling {
            return Some(start);
        }
    }
    None
}

/// The letters behind the dash of an option, each with its place, and the first character that is none.
fn letters(text: &str) -> impl Iterator<Item = (usize, char)> {
    let mut ended = false;
    text.char_indices().skip(1).take_while(move |(_, letter)| {
        let goes_on = !ended;
        ended = !letter.is_ascii_alphanumeric();
        goes_on
    })
}

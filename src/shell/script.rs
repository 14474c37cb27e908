//! A piece of shell code and where each of its bytes stands in the line.
//!
//! The code inside `bash -c "…"` is not the text between the quotes: escapes are taken out first. So that a unit in it can still
//! be shown as a part of the line, every byte of the code remembers its place.

use std::borrow::Cow;
use std::ops::Range;

/// Text that was taken out of other text, with the place of each byte there.
#[derive(Debug, Clone, Default)]
pub(super) struct Decoded {
    pub(super) text: String,
    /// For each byte of `text`: the first byte it came from, and the one behind the last.
    places: Vec<(usize, usize)>,
}

impl Decoded {
    /// Adds `text`, all of which came from `from`.
    pub(super) fn push_made(&mut self, text: &str, from: Range<usize>) {
        self.text.push_str(text);
        let place = (from.start, from.end);
        self.places.extend(std::iter::repeat_n(place, text.len()));
    }

    /// Adds `text` that stands at `at` as it is.
    pub(super) fn push(&mut self, text: &str, at: usize) {
        self.text.push_str(text);
        for (offset, character) in text.char_indices() {
            let place = (at + offset, at + offset + character.len_utf8());
            self.places
                .extend(std::iter::repeat_n(place, character.len_utf8()));
        }
    }

    /// For each byte: the first byte it came from, and the one behind the last.
    pub(super) fn places(&self) -> &[(usize, usize)] {
        &self.places
    }

    pub(super) fn append(&mut self, other: Self) {
        self.text.push_str(&other.text);
        self.places.extend(other.places);
    }
}

/// One piece of shell code.
#[derive(Debug)]
pub(super) struct Script<'a> {
    pub(super) text: Cow<'a, str>,
    places: Places,
}

#[derive(Debug)]
enum Places {
    /// The code stands in the line as it is.
    Verbatim,
    /// Each byte has its place.
    Each(Vec<(usize, usize)>),
}

impl<'a> Script<'a> {
    /// The line itself.
    pub(super) fn line(line: &'a str) -> Self {
        Self {
            text: Cow::Borrowed(line),
            places: Places::Verbatim,
        }
    }

    /// Code that was taken out of this one.
    pub(super) fn inner(&self, decoded: Decoded) -> Script<'static> {
        let places = match &self.places {
            Places::Verbatim => decoded.places,
            Places::Each(_) => decoded
                .places
                .iter()
                .map(|(start, end)| {
                    let range = self.in_line(*start..*end);
                    (range.start, range.end)
                })
                .collect(),
        };
        Script {
            text: Cow::Owned(decoded.text),
            places: Places::Each(places),
        }
    }

    /// Where in the line a part of this code stands.
    pub(super) fn in_line(&self, part: Range<usize>) -> Range<usize> {
        let Places::Each(places) = &self.places else {
            return part;
        };
        let start = places.get(part.start).map_or(0, |place| place.0);
        let end = part
            .end
            .checked_sub(1)
            .and_then(|last| places.get(last))
            .map_or(start, |place| place.1);
        start..end.max(start)
    }

    /// A part of this code; empty where there is none.
    pub(super) fn part(&self, part: Range<usize>) -> &str {
        self.text.get(part).unwrap_or_default()
    }
}

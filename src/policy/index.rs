//! Finds, among many patterns, those that may cover a value, without trying each of them.
//!
//! Every pattern that has literal text is filed under one piece of it, its anchor: how each covered value begins, how each ends,
//! or what stands somewhere in it. Of several pieces the one is chosen that the fewest other patterns share, so that
//! `/home/*/a.txt` among ten thousand patterns that begin with `/home/` is found by its end. Beginnings and ends are searched in
//! sorted tables, in which each key knows the longest other key that it begins with: one binary search gives all that a value
//! begins with. Pieces from the middle are searched all at once by an Aho-Corasick automaton. What has no literal text (`*`,
//! `??`) may cover anything.
//!
//! The answer is a superset: whoever asks tries the patterns that are named, and only those. What a pattern stands for, and in
//! which order rules hold, is not known here.
//!
//! # Invariants
//!
//! * A pattern that covers a value is always among its candidates.
//! * Building takes time and memory in proportion to the text of the patterns, but for the sorting.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use aho_corasick::{AhoCorasick, AhoCorasickKind};

use super::pattern::{Anchor, AnchorKind, Pattern};

/// So few patterns are tried faster than looked up.
const FEW: usize = 8;

/// Patterns by what stands in the values that they cover. A pattern is named by its place.
#[derive(Debug, Default)]
pub(super) struct Index {
    /// May cover any value.
    any: Vec<usize>,
    starts: Affixes,
    /// The texts are turned around.
    ends: Affixes,
    inner: Option<Inner>,
}

impl Index {
    /// Files `patterns` under their places.
    pub(super) fn of<'p>(patterns: impl ExactSizeIterator<Item = &'p Pattern>) -> Self {
        if patterns.len() <= FEW {
            return Self {
                any: (0..patterns.len()).collect(),
                ..Self::default()
            };
        }
        Self::build(patterns)
    }

    fn build<'p>(patterns: impl Iterator<Item = &'p Pattern>) -> Self {
        let anchors: Vec<Vec<Anchor<'_>>> = patterns.map(Pattern::anchors).collect();
        let mut shared: HashMap<&Anchor<'_>, usize> = HashMap::new();
        for anchor in anchors.iter().flatten() {
            *shared.entry(anchor).or_default() += 1;
        }
        let mut any = Vec::new();
        let (mut starts, mut ends, mut inner) = (Vec::new(), Vec::new(), Vec::new());
        for (place, anchors) in anchors.iter().enumerate() {
            let rarest = anchors.iter().min_by_key(|anchor| {
                let others = shared.get(anchor).copied().unwrap_or_default();
                // A beginning or an end says more than the same text anywhere.
                (others, anchor.kind, usize::MAX - anchor.text.len())
            });
            match rarest {
                None => any.push(place),
                Some(Anchor { kind, text }) => match kind {
                    AnchorKind::Start => starts.push((text.bytes().collect(), place)),
                    AnchorKind::End => ends.push((text.bytes().rev().collect(), place)),
                    AnchorKind::Inner => inner.push((text.as_ref(), place)),
                },
            }
        }
        let inner = Inner::new(inner).unwrap_or_else(|unfiled| {
            any.extend(unfiled);
            any.sort_unstable();
            None
        });
        Self {
            any,
            starts: Affixes::new(starts),
            ends: Affixes::new(ends),
            inner,
        }
    }

    /// Adds to `found` the places of all patterns that may cover `value`; in no order, and some perhaps more than once.
    pub(super) fn candidates(&self, value: &str, found: &mut Vec<usize>) {
        found.extend(&self.any);
        let start = value.as_bytes();
        let start = start.get(..self.starts.longest).unwrap_or(start);
        self.starts.find(start, found);
        let end: Vec<u8> = value.bytes().rev().take(self.ends.longest).collect();
        self.ends.find(&end, found);
        if let Some(inner) = &self.inner {
            inner.find(value, found);
        }
    }
}

/// Beginnings, sorted.
#[derive(Debug, Default)]
struct Affixes {
    keys: Vec<Affix>,
    places: Vec<usize>,
    /// Length of the longest key: more of a value is not looked at.
    longest: usize,
}

#[derive(Debug)]
struct Affix {
    text: Box<[u8]>,
    /// The longest other key that this one begins with.
    shorter: Option<usize>,
    /// Which places stand under it.
    places: Range<usize>,
}

impl Affixes {
    fn new(mut filed: Vec<(Box<[u8]>, usize)>) -> Self {
        filed.sort_unstable();
        let mut table = Self::default();
        for (text, place) in filed {
            let at = table.places.len();
            table.places.push(place);
            if let Some(last) = table.keys.last_mut()
                && last.text == text
            {
                last.places.end = at + 1;
                continue;
            }
            // What the key before does not begin with, this one does not begin with either, unless it is longer.
            let mut shorter = table.keys.len().checked_sub(1);
            while let Some(key) = shorter.and_then(|at| table.keys.get(at)) {
                if text.starts_with(&key.text) {
                    break;
                }
                shorter = key.shorter;
            }
            table.longest = table.longest.max(text.len());
            table.keys.push(Affix {
                text,
                shorter,
                places: at..at + 1,
            });
        }
        table
    }

    /// The places of all keys that `value` begins with.
    fn find(&self, value: &[u8], found: &mut Vec<usize>) {
        let behind = self.keys.partition_point(|key| &*key.text <= value);
        let mut next = behind.checked_sub(1);
        // Every key that the value begins with stands at the one before it, or among those that this one begins with.
        let Some(nearest) = next.and_then(|at| self.keys.get(at)) else {
            return;
        };
        let pairs = nearest.text.iter().zip(value);
        let shared = pairs.take_while(|(a, b)| a == b).count();
        while let Some(key) = next.and_then(|at| self.keys.get(at)) {
            if key.text.len() <= shared {
                found.extend(self.places.get(key.places.clone()).into_iter().flatten());
            }
            next = key.shorter;
        }
    }
}

/// Pieces that may stand anywhere.
#[derive(Debug)]
struct Inner {
    pieces: AhoCorasick,
    /// For each piece the places that stand under it.
    places: Vec<Vec<usize>>,
}

impl Inner {
    /// `None` where there are no pieces. Gives all places back where they are too many for one automaton.
    fn new(filed: Vec<(&str, usize)>) -> Result<Option<Self>, Vec<usize>> {
        if filed.is_empty() {
            return Ok(None);
        }
        let mut numbers: HashMap<&str, usize> = HashMap::new();
        let mut texts = Vec::new();
        let mut places: Vec<Vec<usize>> = Vec::new();
        for (text, place) in filed {
            let number = *numbers.entry(text).or_insert_with(|| {
                texts.push(text);
                places.push(Vec::new());
                texts.len() - 1
            });
            if let Some(places) = places.get_mut(number) {
                places.push(place);
            }
        }
        let built = AhoCorasick::builder()
            .kind(Some(AhoCorasickKind::ContiguousNFA))
            .build(&texts);
        match built {
            Ok(pieces) => Ok(Some(Self { pieces, places })),
            Err(_) => Err(places.concat()),
        }
    }

    fn find(&self, value: &str, found: &mut Vec<usize>) {
        let mut seen = HashSet::new();
        for hit in self.pieces.find_overlapping_iter(value) {
            let number = hit.pattern().as_usize();
            if seen.insert(number) {
                found.extend(self.places.get(number).into_iter().flatten());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// The places of the patterns that cover the value, found by the index.
    fn found(patterns: &[Pattern], value: &str) -> Vec<usize> {
        let mut found = candidates(patterns, value);
        found.retain(|place| patterns[*place].matches(value));
        found
    }

    fn candidates(patterns: &[Pattern], value: &str) -> Vec<usize> {
        let mut found = Vec::new();
        Index::build(patterns.iter()).candidates(value, &mut found);
        found.sort_unstable();
        found.dedup();
        found
    }

    fn compiled(patterns: &[String]) -> Vec<Pattern> {
        patterns
            .iter()
            .map(|text| Pattern::compile(text, Some("/h*e/a")))
            .collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2048))]

        #[test]
        fn whatever_covers_a_value_is_found(
            patterns in vec("[ab *?\u{e4}\n]{0,7}|~/[ab*]{0,3}|(git|a) \\*", 0..40),
            value in "[ab \u{e4}\n]{0,10}|/h[*a]e/a/[ab]{0,3}|git( a)?",
        ) {
            let patterns = compiled(&patterns);
            let walked: Vec<usize> = (0..patterns.len()).filter(|at| patterns[*at].matches(&value)).collect();
            prop_assert_eq!(found(&patterns, &value), walked);
        }
    }

    #[test]
    fn only_few_of_many_are_tried() {
        let many = |make: fn(usize) -> String| compiled(&(0..5_000).map(make).collect::<Vec<_>>());
        for (make, value) in [
            (
                (|n| format!("git push r{n} *")) as fn(usize) -> String,
                "git push r4321 main",
            ),
            (|n| format!("git push r{n} *"), "git push r4321"),
            (|n| format!("* --id={n}"), "run --id=4321"),
            (|n| format!("git * x{n}"), "git push x4321"),
            (|n| format!("/home/*/f{n}"), "/home/me/f4321"),
            (|n| format!("/home/me/f{n}"), "/home/me/f4321"),
            (|n| format!("*/f{n}/*"), "/home/f4321/x"),
            (|n| format!("a*-f{n}-*z"), "a-f4321-z"),
            (|n| format!("/d{n}/?.txt"), "/d4321/x.txt"),
            (|n| format!("?{n}"), "x4321"),
        ] {
            let patterns = many(make);
            assert_eq!(found(&patterns, value), [4321], "{}", make(0));
            let tried = candidates(&patterns, value).len();
            assert!(tried <= 12, "{tried} of {} are tried", make(0));
        }
    }

    #[test]
    fn keys_that_begin_with_each_other_are_all_found() {
        let patterns = compiled(&(0..600).map(|n| "a".repeat(n) + "*").collect::<Vec<_>>());
        assert_eq!(found(&patterns, &"a".repeat(300)).len(), 301);
        assert_eq!(found(&patterns, "b"), [0]);
    }
}

//! Wildcard patterns, compiled once and matched in time that no input can blow up.
//!
//! `*` stands for any run of characters, line breaks and slashes included, `?` for exactly one character; everything else is
//! itself. A pattern covers the whole value, never a part of it. A pattern that ends in a space and `*` also covers the value
//! without them, so `git *` covers `git`. A leading `~` or `$HOME`, alone or before a slash, stands for the home directory.
//!
//! This module does not know surfaces, verdicts or shells: `*` crosses whatever stands in the value. That a command line with
//! more than one command is not allowed by `git *` is the business of the judge.
//!
//! # Invariants
//!
//! * A match takes at most (length of the pattern) × (length of the value) steps.
//! * A home directory is text: a `*` in its name is no wildcard.

use std::borrow::Cow;

/// A wildcard pattern, ready to match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    text: Box<str>,
    glob: Glob,
    /// The pattern without its optional tail ` *`.
    without_tail: Option<Glob>,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Literal,
    Wildcard,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token {
    Char(char),
    One,
    Run,
}

impl Pattern {
    /// Compiles `text`. Without a `home`, `~` and `$HOME` are plain text.
    pub fn compile(text: &str, home: Option<&str>) -> Self {
        let tokens = expand(text, home);
        let without_tail = tokens
            .strip_suffix(&[Token::Char(' '), Token::Run])
            .map(Glob::compile);
        Self {
            text: text.into(),
            glob: Glob::compile(&tokens),
            without_tail,
            kind: if tokens.iter().all(|token| matches!(token, Token::Char(_))) {
                Kind::Literal
            } else {
                Kind::Wildcard
            },
        }
    }

    /// A pattern that covers exactly `text`, whatever stands in it.
    pub fn literal(text: &str) -> Self {
        let tokens: Vec<Token> = text.chars().map(Token::Char).collect();
        Self {
            text: text.into(),
            glob: Glob::compile(&tokens),
            without_tail: None,
            kind: Kind::Literal,
        }
    }

    /// The pattern as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether the pattern covers one value only.
    pub fn is_literal(&self) -> bool {
        self.kind == Kind::Literal
    }

    /// Texts of which each stands in every value that the pattern covers. None where the pattern is wildcards only.
    pub(super) fn anchors(&self) -> Vec<Anchor<'_>> {
        // With or without its optional tail, a value holds what stands before the tail; only its end is open then.
        let (glob, end_is_open) = match &self.without_tail {
            Some(glob) => (glob, true),
            None => (&self.glob, false),
        };
        let (first, middle, last) = match glob {
            Glob::Whole(Piece::Text(text)) => {
                return Anchor::new(AnchorKind::Start, Cow::Borrowed(text))
                    .into_iter()
                    .collect();
            }
            Glob::Whole(piece) => (piece, &[][..], piece),
            Glob::Parts {
                first,
                middle,
                last,
            } => (first, &**middle, last),
        };
        let mut anchors = Vec::with_capacity(4);
        anchors.extend(Anchor::new(AnchorKind::Start, first.literal_start()));
        if !end_is_open {
            anchors.extend(Anchor::new(AnchorKind::End, last.literal_end()));
        }
        for piece in [first].into_iter().chain(middle).chain([last]) {
            match piece {
                Piece::Text(text) => {
                    anchors.extend(Anchor::new(AnchorKind::Inner, Cow::Borrowed(text)));
                }
                Piece::Mixed(chars) => {
                    let runs = chars.split(Option::is_none);
                    let runs = runs.map(|run| Cow::Owned(run.iter().flatten().collect()));
                    anchors.extend(runs.filter_map(|run| Anchor::new(AnchorKind::Inner, run)));
                }
            }
        }
        anchors
    }

    /// Whether the pattern covers `value` from its first to its last character.
    pub fn matches(&self, value: &str) -> bool {
        self.glob.matches(value)
            || self
                .without_tail
                .as_ref()
                .is_some_and(|glob| glob.matches(value))
    }
}

/// A text that stands in every value that a pattern covers.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Anchor<'p> {
    pub(super) kind: AnchorKind,
    /// Never empty.
    pub(super) text: Cow<'p, str>,
}

/// Where an anchor stands in a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum AnchorKind {
    Start,
    End,
    Inner,
}

impl<'p> Anchor<'p> {
    /// One, if there is text.
    fn new(kind: AnchorKind, text: Cow<'p, str>) -> Option<Self> {
        (!text.is_empty()).then_some(Self { kind, text })
    }
}

fn tokens_of(text: &str) -> impl Iterator<Item = Token> + '_ {
    text.chars().map(|c| match c {
        '*' => Token::Run,
        '?' => Token::One,
        other => Token::Char(other),
    })
}

/// Puts the home directory in the place of `~` or `$HOME`, and joins as a path is joined: `.`, `..` and doubled slashes go.
fn expand(text: &str, home: Option<&str>) -> Vec<Token> {
    let rest = text
        .strip_prefix('~')
        .or_else(|| text.strip_prefix("$HOME"));
    let (Some(home), Some(rest)) = (home.filter(|home| !home.is_empty()), rest) else {
        return tokens_of(text).collect();
    };
    if rest.is_empty() {
        return home.chars().map(Token::Char).collect();
    }
    let Some(below) = rest.strip_prefix(['/', '\\']) else {
        return tokens_of(text).collect();
    };
    let mut parts: Vec<Vec<Token>> = Vec::new();
    let steps = home
        .split('/')
        .map(|name| (name, name.chars().map(Token::Char).collect::<Vec<_>>()))
        .chain(
            below
                .split('/')
                .map(|name| (name, tokens_of(name).collect())),
        );
    for (name, tokens) in steps {
        match name {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            _ => parts.push(tokens),
        }
    }
    let mut all = Vec::new();
    for part in parts {
        if !all.is_empty() || home.starts_with('/') {
            all.push(Token::Char('/'));
        }
        all.extend(part);
    }
    if below.ends_with('/') || all.is_empty() {
        all.push(Token::Char('/'));
    }
    all
}

/// A pattern cut at its stars.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Glob {
    /// No star: the value is this piece.
    Whole(Piece),
    /// The value begins with `first`, ends with `last`, and has `middle` in this order between them.
    Parts {
        first: Piece,
        middle: Box<[Piece]>,
        last: Piece,
    },
}

impl Glob {
    fn compile(tokens: &[Token]) -> Self {
        let mut pieces = tokens
            .split(|token| *token == Token::Run)
            .map(Piece::compile);
        let first = pieces.next().unwrap_or_default();
        let Some(last) = pieces.next_back() else {
            return Self::Whole(first);
        };
        Self::Parts {
            first,
            // Two stars in a row say no more than one.
            middle: pieces.filter(|piece| !piece.is_empty()).collect(),
            last,
        }
    }

    fn matches(&self, value: &str) -> bool {
        match self {
            Self::Whole(piece) => piece.strip_from_start(value) == Some(""),
            Self::Parts {
                first,
                middle,
                last,
            } => {
                let Some(rest) = first.strip_from_start(value) else {
                    return false;
                };
                let Some(mut rest) = last.strip_from_end(rest) else {
                    return false;
                };
                for piece in middle {
                    // The leftmost place leaves the most room for what follows.
                    match piece.strip_leftmost(rest) {
                        Some(behind) => rest = behind,
                        None => return false,
                    }
                }
                true
            }
        }
    }
}

/// What stands between two stars.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Text(Box<str>),
    /// Characters, of which `None` stands for any one.
    Mixed(Box<[Option<char>]>),
}

impl Default for Piece {
    fn default() -> Self {
        Self::Text("".into())
    }
}

impl Piece {
    fn compile(tokens: &[Token]) -> Self {
        let chars: Box<[Option<char>]> = tokens
            .iter()
            .map(|token| match token {
                Token::Char(c) => Some(*c),
                Token::One | Token::Run => None,
            })
            .collect();
        chars
            .iter()
            .copied()
            .collect::<Option<String>>()
            .map_or(Self::Mixed(chars), |text| Self::Text(text.into()))
    }

    fn is_empty(&self) -> bool {
        match self {
            Self::Text(text) => text.is_empty(),
            Self::Mixed(chars) => chars.is_empty(),
        }
    }

    /// The text before the first wildcard.
    fn literal_start(&self) -> Cow<'_, str> {
        match self {
            Self::Text(text) => Cow::Borrowed(text),
            Self::Mixed(chars) => Cow::Owned(chars.iter().map_while(|c| *c).collect()),
        }
    }

    /// The text behind the last wildcard.
    fn literal_end(&self) -> Cow<'_, str> {
        match self {
            Self::Text(text) => Cow::Borrowed(text),
            Self::Mixed(chars) => {
                let end: Vec<char> = chars.iter().rev().map_while(|c| *c).collect();
                Cow::Owned(end.into_iter().rev().collect())
            }
        }
    }

    fn strip_from_start<'v>(&self, value: &'v str) -> Option<&'v str> {
        match self {
            Self::Text(text) => value.strip_prefix(&**text),
            Self::Mixed(chars) => {
                let mut rest = value.chars();
                chars
                    .iter()
                    .all(|wanted| fits(*wanted, rest.next()))
                    .then_some(rest.as_str())
            }
        }
    }

    fn strip_from_end<'v>(&self, value: &'v str) -> Option<&'v str> {
        match self {
            Self::Text(text) => value.strip_suffix(&**text),
            Self::Mixed(chars) => {
                let mut rest = value.chars();
                chars
                    .iter()
                    .rev()
                    .all(|wanted| fits(*wanted, rest.next_back()))
                    .then_some(rest.as_str())
            }
        }
    }

    /// What follows the leftmost place at which the piece stands.
    fn strip_leftmost<'v>(&self, value: &'v str) -> Option<&'v str> {
        match self {
            Self::Text(text) => value
                .find(&**text)
                .and_then(|at| value.get(at + text.len()..)),
            Self::Mixed(_) => {
                let mut rest = value;
                loop {
                    if let Some(behind) = self.strip_from_start(rest) {
                        return Some(behind);
                    }
                    let mut chars = rest.chars();
                    chars.next()?;
                    rest = chars.as_str();
                }
            }
        }
    }
}

fn fits(wanted: Option<char>, found: Option<char>) -> bool {
    match (wanted, found) {
        (_, None) => false,
        (None, Some(_)) => true,
        (Some(wanted), Some(found)) => wanted == found,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn matches(pattern: &str, value: &str) -> bool {
        Pattern::compile(pattern, Some("/home/me")).matches(value)
    }

    #[test]
    fn a_pattern_covers_the_whole_value() {
        for (pattern, value, wanted) in [
            ("", "", true),
            ("", "x", false),
            ("git", "git", true),
            ("git", "git ", false),
            ("git", "xgit", false),
            ("git", "git\n", false),
            ("*", "", true),
            ("*", "a\nb/c", true),
            ("**", "anything", true),
            ("a*c", "ac", true),
            ("a*c", "abbc", true),
            ("a*c", "abcd", false),
            ("a*a", "a", false),
            ("*.env", "/w/.env", true),
            ("*.env", "/w/.env.example", false),
            ("*a*b*", "xxbxxaxxbx", true),
            ("*a*b*", "xxbxxax", false),
            ("a?c", "abc", true),
            ("a?c", "a\nc", true),
            ("a?c", "a\u{1f600}c", true),
            ("a?c", "ac", false),
            ("*??", "x", false),
            ("*??", "xy", true),
            ("?*?", "x", false),
            ("*a?b*", "a-a-b", true),
            ("a.c", "abc", false),
            ("[a]+(b|c)^$\\", "[a]+(b|c)^$\\", true),
            ("GIT", "git", false),
        ] {
            assert_eq!(matches(pattern, value), wanted, "{pattern:?} {value:?}");
        }
    }

    #[test]
    fn arguments_are_optional_behind_a_space_and_a_star() {
        for (pattern, value, wanted) in [
            ("git *", "git", true),
            ("git *", "git ", true),
            ("git *", "git log", true),
            ("git *", "gitlog", false),
            ("git *", "git\tlog", false),
            ("git * *", "git log", true),
            ("git * *", "git ", true),
            ("git * *", "git", false),
            (" *", "", true),
            ("git  *", "git ", true),
            ("git  *", "git", false),
            ("git **", "git", false),
            ("g?t *", "got", true),
        ] {
            assert_eq!(matches(pattern, value), wanted, "{pattern:?} {value:?}");
        }
    }

    #[test]
    fn home_stands_at_the_front_and_alone_or_before_a_slash() {
        for (pattern, value) in [
            ("~", "/home/me"),
            ("$HOME", "/home/me"),
            ("~/x", "/home/me/x"),
            ("$HOME/x/*", "/home/me/x/y/z"),
            ("~\\x", "/home/me/x"),
            ("~/", "/home/me"),
            ("~//a/./b/../c", "/home/me/a/c"),
            ("~/../you", "/home/you"),
            ("~/../../../etc", "/etc"),
            ("~/../..", "/"),
            ("~/a/", "/home/me/a/"),
            // Not a home.
            ("~you/x", "~you/x"),
            ("$HOMES", "$HOMES"),
            ("a/~/b", "a/~/b"),
        ] {
            assert!(matches(pattern, value), "{pattern:?} {value:?}");
        }
        assert!(!matches("~/x", "~/x"));
        assert!(Pattern::compile("~/x", None).matches("~/x"));
        assert!(Pattern::compile("~/x", Some("")).matches("~/x"));
        // A star in the name of a home is a star.
        let odd = Pattern::compile("~/x", Some("/home/*"));
        assert!(odd.matches("/home/*/x") && !odd.matches("/home/me/x"));
        assert!(odd.is_literal());
    }

    #[test]
    fn literals_have_no_wildcards() {
        assert!(Pattern::compile("git log", None).is_literal());
        for wildcard in ["*", "a?b", "git *"] {
            assert!(!Pattern::compile(wildcard, None).is_literal());
            let literal = Pattern::literal(wildcard);
            assert!(literal.is_literal() && literal.matches(wildcard));
            assert!(!literal.matches("git log") && !literal.matches("a b"));
        }
        assert!(!Pattern::literal("~").matches("/home/me"));
        assert!(!Pattern::literal("git *").matches("git"));
    }

    /// What patterns mean, written down without a thought for time.
    fn naive(pattern: &[char], value: &[char]) -> bool {
        match pattern.split_first() {
            None => value.is_empty(),
            Some(('*', rest)) => (0..=value.len()).any(|skip| naive(rest, &value[skip..])),
            Some(('?', rest)) => !value.is_empty() && naive(rest, &value[1..]),
            Some((c, rest)) => value.first() == Some(c) && naive(rest, &value[1..]),
        }
    }

    proptest! {
        #[test]
        fn agrees_with_the_naive_reference(
            pattern in "[ab *?\u{e4}\n]{0,9}",
            value in "[ab \u{e4}\n]{0,12}",
        ) {
            let chars: Vec<char> = pattern.chars().collect();
            let text: Vec<char> = value.chars().collect();
            let bare = chars.strip_suffix(&[' ', '*']);
            let wanted = naive(&chars, &text) || bare.is_some_and(|bare| naive(bare, &text));
            prop_assert_eq!(Pattern::compile(&pattern, None).matches(&value), wanted);
        }

        #[test]
        fn a_literal_covers_itself_and_nothing_else(text in ".{0,20}", other in ".{0,20}") {
            let literal = Pattern::literal(&text);
            prop_assert!(literal.matches(&text));
            prop_assert_eq!(literal.matches(&other), text == other);
        }
    }

    #[test]
    fn no_pattern_blows_up() {
        let value = "a".repeat(20_000);
        for pattern in ["*a".repeat(2_000), "*a?".repeat(1_000)] {
            assert!(!Pattern::compile(&format!("{pattern}*b"), None).matches(&value));
            assert!(Pattern::compile(&format!("{pattern}*"), None).matches(&value));
        }
    }
}

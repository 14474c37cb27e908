//! JSON with places: values that know where in their file they stand, so that an error can say it.
//!
//! The dialect is the peer's for configurations: JSON with `//` and `/* */` comments between tokens, and nothing else that
//! JSON has not. The reader is strict where a lenient one would show a person something else than what holds: no key twice in
//! one object, no byte-order mark, nothing behind the value, no half surrogate pair, no bytes that are not UTF-8.
//!
//! What the values mean is not known here.
//!
//! # Invariants
//!
//! * Nesting is bounded before anything recurses deeper than [`MAX_DEPTH`].
//! * An empty file is an error, never a value.

use std::collections::HashMap;
use std::fmt;

/// Deepest nesting of a configuration.
pub(crate) const MAX_DEPTH: usize = 32;

/// Longest piece of a file that an error repeats, in characters.
const MAX_QUOTE: usize = 60;

/// A place in a file, both from 1; columns count characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// Line.
    pub line: usize,
    /// Column.
    pub column: usize,
}

impl Position {
    /// The place of the byte `offset` of `text`.
    pub(crate) fn of(text: &str, offset: usize) -> Self {
        let before = text.get(..offset).unwrap_or(text);
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        Self {
            line: 1 + before.matches('\n').count(),
            column: 1 + before.get(line_start..).unwrap_or_default().chars().count(),
        }
    }
}

/// Gives places in one text. Asked about one behind the other it reads the text once, however many there are.
pub(crate) struct Places<'t> {
    text: &'t str,
    offset: usize,
    position: Position,
}

impl<'t> Places<'t> {
    pub(crate) fn new(text: &'t str) -> Self {
        Self {
            text,
            offset: 0,
            position: Position { line: 1, column: 1 },
        }
    }

    /// The place of the byte `offset`.
    pub(crate) fn of(&mut self, offset: usize) -> Position {
        if offset < self.offset {
            *self = Self::new(self.text);
        }
        let between = self.text.get(self.offset..offset).unwrap_or_default();
        match between.rsplit_once('\n') {
            None => self.position.column += between.chars().count(),
            Some((above, line)) => {
                self.position.line += 1 + above.matches('\n').count();
                self.position.column = 1 + line.chars().count();
            }
        }
        self.offset = offset;
        self.position
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// Why bytes are no JSON of this dialect.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JsonProblem {
    /// More than is read.
    #[error("the file is larger than {limit} bytes")]
    TooLarge {
        /// How much is read.
        limit: usize,
    },
    /// Nothing but white space and comments.
    #[error("the file is empty (write {{}} for all defaults)")]
    Empty,
    /// It begins with EF BB BF.
    #[error("the file begins with a byte-order mark; save it as UTF-8 without one")]
    ByteOrderMark,
    /// Not text.
    #[error("the bytes here are not UTF-8")]
    NotUtf8,
    /// Too many brackets.
    #[error("nested deeper than {MAX_DEPTH} levels")]
    TooDeep,
    /// One key, two values.
    #[error("key {key:?} stands twice in one object (first at {first})")]
    DuplicateKey {
        /// The key.
        key: String,
        /// Where it stood first.
        first: Position,
    },
    /// Something else than what has to stand here.
    #[error("expected {expected}, found {found}")]
    Unexpected {
        /// What has to stand here.
        expected: &'static str,
        /// What does.
        found: String,
    },
    /// A second value, or anything else behind the first.
    #[error("nothing may follow the closing bracket, but {found} does")]
    TrailingData {
        /// What follows.
        found: String,
    },
    /// `/*` without `*/`.
    #[error("this comment is never closed")]
    OpenComment,
    /// A string that does not end.
    #[error("this text is never closed")]
    OpenText,
    /// A control character that must be escaped.
    #[error("a control character must be written as an escape")]
    ControlCharacter,
    /// A backslash with something that is no escape.
    #[error("not an escape that JSON knows")]
    BadEscape,
    /// Half a character.
    #[error("this escape is half of a surrogate pair")]
    HalfSurrogate,
    /// Digits that are no JSON number.
    #[error("not a JSON number")]
    BadNumber,
}

/// A problem and the byte at which it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct At<P> {
    pub(crate) offset: usize,
    pub(crate) problem: P,
}

/// A value, where it begins and where it ends.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Node {
    pub(crate) offset: usize,
    /// The byte behind it.
    pub(crate) end: usize,
    pub(crate) value: Value,
}

/// A value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    Null,
    True,
    False,
    /// A number as it is written, checked against the grammar.
    Number(String),
    Text(String),
    Array(Vec<Node>),
    Object(Vec<Member>),
}

/// One key of an object with its value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Member {
    pub(crate) key: String,
    pub(crate) offset: usize,
    pub(crate) node: Node,
}

impl Value {
    /// What a value is called in an error.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::True => "true",
            Self::False => "false",
            Self::Number(_) => "a number",
            Self::Text(_) => "a text",
            Self::Array(_) => "an array",
            Self::Object(_) => "an object",
        }
    }
}

/// Decodes `bytes`, of which at most `limit` are taken, and refuses a byte-order mark.
pub(crate) fn decode(bytes: &[u8], limit: usize) -> Result<&str, (Position, JsonProblem)> {
    let start = Position { line: 1, column: 1 };
    if bytes.len() > limit {
        return Err((start, JsonProblem::TooLarge { limit }));
    }
    if bytes.starts_with(b"\xef\xbb\xbf") {
        return Err((start, JsonProblem::ByteOrderMark));
    }
    std::str::from_utf8(bytes).map_err(|error| {
        let good = bytes.get(..error.valid_up_to()).unwrap_or_default();
        let good = String::from_utf8_lossy(good);
        (Position::of(&good, good.len()), JsonProblem::NotUtf8)
    })
}

/// Reads one value that is the whole of `text`.
pub(crate) fn parse(text: &str) -> Result<Node, At<JsonProblem>> {
    let mut parser = Parser { text, at: 0 };
    parser.skip_blank()?;
    if parser.peek().is_none() {
        return Err(At {
            offset: 0,
            problem: JsonProblem::Empty,
        });
    }
    let node = parser.value(0)?;
    parser.skip_blank()?;
    if parser.peek().is_some() {
        let found = parser.found();
        return Err(parser.trouble(JsonProblem::TrailingData { found }));
    }
    Ok(node)
}

/// A piece of a file that an error may repeat: short, with everything unprintable escaped by the `Debug` that shows it.
pub(crate) fn clip(text: &str) -> String {
    if text.chars().count() <= MAX_QUOTE {
        return text.to_owned();
    }
    text.chars().take(MAX_QUOTE).chain(['…']).collect()
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl Parser<'_> {
    fn rest(&self) -> &str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn take(&mut self, expected: char) -> bool {
        let there = self.peek() == Some(expected);
        if there {
            self.at += expected.len_utf8();
        }
        there
    }

    fn trouble(&self, problem: JsonProblem) -> At<JsonProblem> {
        At {
            offset: self.at,
            problem,
        }
    }

    fn unexpected(&self, expected: &'static str) -> At<JsonProblem> {
        self.trouble(JsonProblem::Unexpected {
            expected,
            found: self.found(),
        })
    }

    /// What stands here, for an error.
    fn found(&self) -> String {
        match self.peek() {
            None => "the end of the file".to_owned(),
            Some(c) => format!("{c:?}"),
        }
    }

    /// Skips white space and comments.
    fn skip_blank(&mut self) -> Result<(), At<JsonProblem>> {
        loop {
            let rest = self.rest();
            let blank = rest.len() - rest.trim_start_matches([' ', '\t', '\n', '\r']).len();
            self.at += blank;
            let rest = self.rest();
            if rest.starts_with("//") {
                self.at += rest.find('\n').unwrap_or(rest.len());
            } else if rest.starts_with("/*") {
                let inside = rest.get(2..).unwrap_or_default();
                let Some(end) = inside.find("*/") else {
                    return Err(self.trouble(JsonProblem::OpenComment));
                };
                self.at += 2 + end + 2;
            } else {
                return Ok(());
            }
        }
    }

    fn value(&mut self, depth: usize) -> Result<Node, At<JsonProblem>> {
        let offset = self.at;
        let value = match self.peek() {
            Some('{' | '[') if depth >= MAX_DEPTH => {
                return Err(self.trouble(JsonProblem::TooDeep));
            }
            Some('{') => self.object(depth)?,
            Some('[') => self.array(depth)?,
            Some('"') => Value::Text(self.string()?),
            Some('-' | '0'..='9') => Value::Number(self.number()?),
            _ => self.word()?,
        };
        Ok(Node {
            offset,
            end: self.at,
            value,
        })
    }

    fn word(&mut self) -> Result<Value, At<JsonProblem>> {
        let rest = self.rest();
        let length = rest
            .find(|c: char| !c.is_ascii_alphanumeric())
            .unwrap_or(rest.len());
        let value = match rest.get(..length) {
            Some("null") => Value::Null,
            Some("true") => Value::True,
            Some("false") => Value::False,
            _ => return Err(self.unexpected("a value")),
        };
        self.at += length;
        Ok(value)
    }

    fn array(&mut self, depth: usize) -> Result<Value, At<JsonProblem>> {
        self.take('[');
        self.skip_blank()?;
        let mut all = Vec::new();
        if self.take(']') {
            return Ok(Value::Array(all));
        }
        loop {
            all.push(self.value(depth + 1)?);
            self.skip_blank()?;
            if self.take(']') {
                return Ok(Value::Array(all));
            }
            if !self.take(',') {
                return Err(self.unexpected("',' or ']'"));
            }
            self.skip_blank()?;
        }
    }

    fn object(&mut self, depth: usize) -> Result<Value, At<JsonProblem>> {
        self.take('{');
        self.skip_blank()?;
        let mut all: Vec<Member> = Vec::new();
        if self.take('}') {
            return Ok(Value::Object(all));
        }
        let mut seen: HashMap<String, usize> = HashMap::new();
        loop {
            let offset = self.at;
            if self.peek() != Some('"') {
                return Err(self.unexpected("a key in double quotes"));
            }
            let key = self.string()?;
            if let Some(first) = seen.insert(key.clone(), offset) {
                return Err(At {
                    offset,
                    problem: JsonProblem::DuplicateKey {
                        key: clip(&key),
                        first: Position::of(self.text, first),
                    },
                });
            }
            self.skip_blank()?;
            if !self.take(':') {
                return Err(self.unexpected("':'"));
            }
            self.skip_blank()?;
            let node = self.value(depth + 1)?;
            all.push(Member { key, offset, node });
            self.skip_blank()?;
            if self.take('}') {
                return Ok(Value::Object(all));
            }
            if !self.take(',') {
                return Err(self.unexpected("',' or '}'"));
            }
            self.skip_blank()?;
        }
    }

    fn number(&mut self) -> Result<String, At<JsonProblem>> {
        let rest = self.rest();
        let length = rest
            .find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.')))
            .unwrap_or(rest.len());
        let text = rest.get(..length).unwrap_or_default();
        if !is_json_number(text) {
            return Err(self.trouble(JsonProblem::BadNumber));
        }
        let text = text.to_owned();
        self.at += length;
        Ok(text)
    }

    fn string(&mut self) -> Result<String, At<JsonProblem>> {
        let opening = self.at;
        self.take('"');
        let mut text = String::new();
        loop {
            let Some(c) = self.peek() else {
                return Err(At {
                    offset: opening,
                    problem: JsonProblem::OpenText,
                });
            };
            match c {
                '"' => {
                    self.at += 1;
                    return Ok(text);
                }
                '\\' => text.push(self.escape()?),
                '\0'..='\x1f' => return Err(self.trouble(JsonProblem::ControlCharacter)),
                _ => {
                    let rest = self.rest();
                    let is_plain = |byte: &u8| !matches!(byte, b'"' | b'\\' | 0..=0x1f);
                    let length = rest.bytes().take_while(|byte| is_plain(byte)).count();
                    text.push_str(rest.get(..length).unwrap_or_default());
                    self.at += length;
                }
            }
        }
    }

    fn escape(&mut self) -> Result<char, At<JsonProblem>> {
        let start = self.at;
        let bad = |problem| At {
            offset: start,
            problem,
        };
        self.take('\\');
        let plain = match self.peek() {
            Some('u') => None,
            Some(c @ ('"' | '\\' | '/')) => Some(c),
            Some('b') => Some('\u{8}'),
            Some('f') => Some('\u{c}'),
            Some('n') => Some('\n'),
            Some('r') => Some('\r'),
            Some('t') => Some('\t'),
            _ => return Err(bad(JsonProblem::BadEscape)),
        };
        self.at += 1;
        if let Some(c) = plain {
            return Ok(c);
        }
        let first = self.hex().ok_or_else(|| bad(JsonProblem::BadEscape))?;
        if let Some(c) = char::from_u32(first) {
            return Ok(c);
        }
        // A high half needs its low half right behind it.
        if !((0xd800..0xdc00).contains(&first) && self.take('\\') && self.take('u')) {
            return Err(bad(JsonProblem::HalfSurrogate));
        }
        let second = self.hex().filter(|low| (0xdc00..0xe000).contains(low));
        second
            .and_then(|low| char::from_u32(0x10000 + ((first - 0xd800) << 10) + (low - 0xdc00)))
            .ok_or_else(|| bad(JsonProblem::HalfSurrogate))
    }

    fn hex(&mut self) -> Option<u32> {
        let digits = self.rest().get(..4)?;
        if !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        let value = u32::from_str_radix(digits, 16).ok()?;
        self.at += 4;
        Some(value)
    }
}

/// The grammar of numbers: an optional minus, no leading zeros, a fraction and an exponent with at least one digit each.
fn is_json_number(text: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let text = text.strip_prefix('-').unwrap_or(text);
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (text, None),
    };
    let (whole, fraction) = match mantissa.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (mantissa, None),
    };
    digits(whole)
        && (whole == "0" || !whole.starts_with('0'))
        && fraction.is_none_or(digits)
        && exponent
            .is_none_or(|exponent| digits(exponent.strip_prefix(['+', '-']).unwrap_or(exponent)))
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample;

    use super::*;

    fn problem(text: &str) -> (Position, JsonProblem) {
        let at = parse(text).unwrap_err();
        (Position::of(text, at.offset), at.problem)
    }

    fn at(line: usize, column: usize) -> Position {
        Position { line, column }
    }

    #[test]
    fn values_know_where_they_stand() {
        let text = "{\n  // why\n  \"ä\": /* x */ [1, \"\\ud83d\\ude00\\n\"]\n}";
        let Value::Object(members) = parse(text).unwrap().value else {
            panic!("an object");
        };
        assert_eq!(members[0].key, "ä");
        assert_eq!(Position::of(text, members[0].offset), at(3, 3));
        let Value::Array(items) = &members[0].node.value else {
            panic!("an array");
        };
        assert_eq!(items[1].value, Value::Text("\u{1f600}\n".into()));
        assert_eq!(Position::of(text, items[1].offset), at(3, 20));
    }

    #[test]
    fn what_is_no_json_is_refused_with_its_place() {
        assert_eq!(problem("").1, JsonProblem::Empty);
        assert_eq!(problem(" // x\n/* y */").1, JsonProblem::Empty);
        assert_eq!(problem("{} /* x").1, JsonProblem::OpenComment);
        assert!(
            matches!(problem("{}\n{}"), (place, JsonProblem::TrailingData { .. }) if place == at(2, 1))
        );
        assert!(matches!(
            problem("{\"a\":1,}").1,
            JsonProblem::Unexpected { .. }
        ));
        assert!(matches!(problem("[1,]").1, JsonProblem::Unexpected { .. }));
        assert!(matches!(
            problem("{'a':1}").1,
            JsonProblem::Unexpected { .. }
        ));
        assert_eq!(problem("{\"a").1, JsonProblem::OpenText);
        assert_eq!(problem("\"a\nb\"").1, JsonProblem::ControlCharacter);
        assert_eq!(problem("\"\\x\"").1, JsonProblem::BadEscape);
        assert_eq!(problem("\"\\u+123\"").1, JsonProblem::BadEscape);
        for half in ["\"\\ud83d\"", "\"\\udc00\"", "\"\\ud83d\\u0041\""] {
            assert_eq!(problem(half).1, JsonProblem::HalfSurrogate, "{half}");
        }
        for number in ["01", "1.", "-", "1e", "1x", "+1", ".5", "0x1"] {
            assert!(parse(number).is_err(), "{number}");
        }
        for number in ["0", "-0", "10", "1.50", "1e3", "1E-3"] {
            assert!(parse(number).is_ok(), "{number}");
        }
    }

    #[test]
    fn a_doubled_key_is_found_through_escapes_and_at_any_depth() {
        let (place, found) = problem("{\"x\": [{\"a\":1,\n \"\\u0061\":2}]}");
        assert_eq!(place, at(2, 2));
        assert_eq!(
            found,
            JsonProblem::DuplicateKey {
                key: "a".into(),
                first: at(1, 9)
            }
        );
    }

    #[test]
    fn nesting_is_bounded() {
        let deep = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        assert!(parse(&deep(MAX_DEPTH)).is_ok());
        assert_eq!(problem(&deep(MAX_DEPTH + 1)).1, JsonProblem::TooDeep);
        assert_eq!(problem(&"[".repeat(200_000)).1, JsonProblem::TooDeep);
    }

    #[test]
    fn bytes_are_decoded_strictly() {
        assert_eq!(
            decode(b"\xef\xbb\xbf{}", 99).unwrap_err().1,
            JsonProblem::ByteOrderMark
        );
        assert_eq!(
            decode(b"{\n \"\xff\"}", 99).unwrap_err(),
            (at(2, 3), JsonProblem::NotUtf8)
        );
        assert!(matches!(
            decode(b"{}", 1),
            Err((_, JsonProblem::TooLarge { limit: 1 }))
        ));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1000))]

        /// Without comments, what we read is what the common reader of JSON reads.
        #[test]
        fn agrees_with_the_common_reader(tokens in vec(sample::select(TOKENS), 0..12)) {
            let text = tokens.concat();
            let common = serde_json::from_str::<serde_json::Value>(&text);
            match parse(&text) {
                Ok(_) => {
                    // A number that no machine number holds is well written all the same.
                    let only_too_large = |error: &serde_json::Error| {
                        error.to_string().starts_with("number out of range")
                    };
                    prop_assert!(common.as_ref().err().is_none_or(only_too_large), "{text}");
                }
                Err(At { problem: JsonProblem::DuplicateKey { .. }, .. }) => {}
                Err(_) => prop_assert!(common.is_err(), "{text}"),
            }
        }

        #[test]
        fn every_problem_has_a_place_in_the_text(text in "[\\PC\n\"\\\\{}\\[\\]:,/*]{0,40}") {
            if let Err(at) = parse(&text) {
                prop_assert!(text.is_char_boundary(at.offset));
                let place = Position::of(&text, at.offset);
                prop_assert!(place.line <= 1 + text.matches('\n').count());
            }
        }
    }

    const TOKENS: &[&str] = &[
        "{",
        "}",
        "[",
        "]",
        ":",
        ",",
        "\"a\"",
        "\"b\"",
        "1",
        "-0.5e1",
        "01",
        "true",
        "null",
        " ",
        "\n",
        "\"\\u00e4\"",
        "\"\\ud800\"",
        "\"\\",
        "{\"a\":",
        "\"c\":[]",
        "nul",
        "\t",
    ];
}

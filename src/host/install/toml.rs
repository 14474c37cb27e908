//! TOML, as far as Codex's configuration is looked into: which key has which value, and where that stands.
//!
//! Values are not read, only found: each is given as it is written. What is written is found by the grammar of the language, so
//! that no text in quotes and no comment passes for a table.

use std::fmt::Write as _;
use std::ops::Range;

use crate::policy::Position;

/// Deepest nesting of a value.
const MAX_DEPTH: usize = 32;

/// A text is no TOML.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{position}: expected {expected}")]
pub struct TomlError {
    /// Where.
    pub position: Position,
    /// What has to stand there.
    pub expected: &'static str,
}

/// One statement of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Statement {
    /// `[a.b]` or `[[a.b]]`.
    Table {
        path: Vec<String>,
        is_element: bool,
        span: Range<usize>,
    },
    /// `a.b = 1`, also within an inline table.
    Value {
        /// The whole path, that of the table included.
        path: Vec<String>,
        value: Range<usize>,
        /// The statement that it is in.
        span: Range<usize>,
    },
}

/// Every statement of a document, in its order. The members of inline tables are given behind the table itself.
pub(super) fn statements(text: &str) -> Result<Vec<Statement>, TomlError> {
    let mut scanner = Scanner {
        text,
        at: 0,
        found: Vec::new(),
    };
    match scanner.document() {
        Ok(()) => Ok(scanner.found),
        Err(expected) => Err(TomlError {
            position: Position::of(text, scanner.at),
            expected,
        }),
    }
}

/// The value at a path, as it is written; the last one where it stands twice.
pub(super) fn value_at<'t>(
    text: &'t str,
    statements: &[Statement],
    path: &[&str],
) -> Option<&'t str> {
    statements
        .iter()
        .rev()
        .find_map(|statement| match statement {
            Statement::Value {
                path: at, value, ..
            } if at == path => text.get(value.clone()),
            Statement::Value { .. } | Statement::Table { .. } => None,
        })
}

/// `text` as a basic string.
pub(super) fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => {
                out.push('\\');
                out.push(c);
            }
            c if c.is_control() => {
                let _written = write!(out, "\\u{:04X}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// The text of a string as it is written, where it has one line.
pub(super) fn text_of(written: &str) -> Option<String> {
    let mut scanner = Scanner {
        text: written,
        at: 0,
        found: Vec::new(),
    };
    let text = scanner.short_string().ok()?;
    (scanner.at == written.len()).then_some(text)
}

/// Whether a word can be a value without quotes: a number, a date, or one of the few names.
fn is_bare_value(word: &str) -> bool {
    let unsigned = word.strip_prefix(['+', '-']).unwrap_or(word);
    let inside =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '_' | '.' | ':' | ' ');
    matches!(word, "true" | "false")
        || matches!(unsigned, "inf" | "nan")
        || unsigned.starts_with(|c: char| c.is_ascii_digit()) && word.chars().all(inside)
}

type Scanned<T> = Result<T, &'static str>;

struct Scanner<'t> {
    text: &'t str,
    at: usize,
    found: Vec<Statement>,
}

impl Scanner<'_> {
    fn rest(&self) -> &str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn take(&mut self, expected: &str) -> bool {
        let there = self.rest().starts_with(expected);
        if there {
            self.at += expected.len();
        }
        there
    }

    fn skip_blanks(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start_matches([' ', '\t']).len();
    }

    fn skip_comment(&mut self) {
        if self.rest().starts_with('#') {
            self.at += self.rest().find('\n').unwrap_or(self.rest().len());
        }
    }

    /// Blanks, comments and ends of lines.
    fn skip_lines(&mut self) {
        loop {
            let before = self.at;
            let rest = self.rest();
            self.at += rest.len() - rest.trim_start_matches([' ', '\t', '\r', '\n']).len();
            self.skip_comment();
            if self.at == before {
                return;
            }
        }
    }

    fn end_of_line(&mut self) -> Scanned<()> {
        self.skip_blanks();
        self.skip_comment();
        if self.rest().is_empty() || self.take("\n") || self.take("\r\n") {
            Ok(())
        } else {
            Err("the end of the line")
        }
    }

    fn document(&mut self) -> Scanned<()> {
        let mut table: Vec<String> = Vec::new();
        self.take("\u{feff}");
        loop {
            self.skip_lines();
            let start = self.at;
            if self.rest().is_empty() {
                return Ok(());
            }
            if self.take("[") {
                let is_element = self.take("[");
                table = self.key()?;
                if !self.take(if is_element { "]]" } else { "]" }) {
                    return Err("the end of the table's name");
                }
                let span = start..self.at;
                self.end_of_line()?;
                self.found.push(Statement::Table {
                    path: table.clone(),
                    is_element,
                    span,
                });
            } else {
                self.pair(&table, start, 0)?;
                self.end_of_line()?;
            }
        }
    }

    /// `key = value`.
    fn pair(&mut self, table: &[String], statement: usize, depth: usize) -> Scanned<()> {
        let mut path = table.to_vec();
        path.extend(self.key()?);
        if !self.take("=") {
            return Err("'='");
        }
        self.skip_blanks();
        let number = self.found.len();
        let start = self.at;
        self.value(&path, statement, depth)?;
        let value = Statement::Value {
            path,
            value: start..self.at,
            span: statement..self.at,
        };
        self.found.insert(number, value);
        Ok(())
    }

    fn key(&mut self) -> Scanned<Vec<String>> {
        let mut path = Vec::new();
        loop {
            self.skip_blanks();
            path.push(if matches!(self.peek(), Some('"' | '\'')) {
                self.short_string()?
            } else {
                let bare = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
                let length = self.rest().find(|c| !bare(c)).unwrap_or(self.rest().len());
                let word = self.rest().get(..length).unwrap_or_default().to_owned();
                if word.is_empty() {
                    return Err("a key");
                }
                self.at += length;
                word
            });
            self.skip_blanks();
            if !self.take(".") {
                return Ok(path);
            }
        }
    }

    fn value(&mut self, path: &[String], statement: usize, depth: usize) -> Scanned<()> {
        if depth > MAX_DEPTH {
            return Err("a value that is nested less deep");
        }
        match self.peek() {
            Some('"' | '\'') if self.rest().starts_with("\"\"\"") => {
                self.long_string("\"\"\"", true)
            }
            Some('"' | '\'') if self.rest().starts_with("'''") => self.long_string("'''", false),
            Some('"' | '\'') => self.short_string().map(drop),
            Some('[') => self.array(statement, depth),
            Some('{') => self.inline_table(path, statement, depth),
            _ => {
                let ends = |c: char| matches!(c, ',' | ']' | '}' | '#' | '\n' | '\r');
                let length = self.rest().find(ends).unwrap_or(self.rest().len());
                let word = self.rest().get(..length).unwrap_or_default().trim_end();
                if !is_bare_value(word) {
                    return Err("a value");
                }
                self.at += word.len();
                Ok(())
            }
        }
    }

    fn array(&mut self, statement: usize, depth: usize) -> Scanned<()> {
        self.take("[");
        loop {
            self.skip_lines();
            if self.take("]") {
                return Ok(());
            }
            // What stands in an array has no path of its own.
            let number = self.found.len();
            self.value(&[], statement, depth + 1)?;
            self.found.truncate(number);
            self.skip_lines();
            if !self.take(",") && self.peek() != Some(']') {
                return Err("',' or ']'");
            }
        }
    }

    fn inline_table(&mut self, path: &[String], statement: usize, depth: usize) -> Scanned<()> {
        self.take("{");
        loop {
            self.skip_lines();
            if self.take("}") {
                return Ok(());
            }
            self.pair(path, statement, depth + 1)?;
            self.skip_lines();
            if !self.take(",") && self.peek() != Some('}') {
                return Err("',' or '}'");
            }
        }
    }

    fn long_string(&mut self, quotes: &str, escapes: bool) -> Scanned<()> {
        self.take(quotes);
        loop {
            if self.take(quotes) {
                // Up to two more belong to the text.
                let quote = quotes.get(..1).unwrap_or_default();
                let _first = self.take(quote) && self.take(quote);
                return Ok(());
            }
            match self.peek() {
                None => return Err("the end of the text"),
                Some('\\') if escapes => self.at += 1,
                Some(_) => {}
            }
            self.at += self.peek().map_or(0, char::len_utf8);
        }
    }

    fn short_string(&mut self) -> Scanned<String> {
        let basic = self.take("\"");
        if !basic && !self.take("'") {
            return Err("a text in quotes");
        }
        let mut text = String::new();
        loop {
            let c = self
                .peek()
                .filter(|c| *c != '\n')
                .ok_or("the end of the text")?;
            self.at += c.len_utf8();
            match c {
                '"' if basic => return Ok(text),
                '\'' if !basic => return Ok(text),
                '\\' if basic => text.push(self.escape()?),
                c => text.push(c),
            }
        }
    }

    fn escape(&mut self) -> Scanned<char> {
        let c = self.peek().ok_or("the end of the text")?;
        self.at += c.len_utf8();
        let length = match c {
            'b' => return Ok('\u{8}'),
            't' => return Ok('\t'),
            'n' => return Ok('\n'),
            'f' => return Ok('\u{c}'),
            'r' => return Ok('\r'),
            'e' => return Ok('\u{1b}'),
            '"' | '\\' => return Ok(c),
            'x' => 2,
            'u' => 4,
            'U' => 8,
            _ => return Err("an escape"),
        };
        let digits = self.rest().get(..length).ok_or("an escape")?;
        let code = u32::from_str_radix(digits, 16).map_err(|_| "an escape")?;
        self.at += length;
        char::from_u32(code).ok_or("an escape")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn value(text: &str, path: &[&str]) -> Option<String> {
        value_at(text, &statements(text).unwrap(), path).map(str::to_owned)
    }

    #[test]
    fn a_value_is_found_however_its_table_is_written() {
        for text in [
            "features.hooks = false",
            "[features]\nhooks = false # off\n",
            "features = { x = [1, { hooks = true }], hooks = false }",
            "a = '''\n[features]\nhooks = true\n'''\n['features']\n\"hooks\" = false",
            "b = \"\"\"\n\\\"\"\"\n[features] \"\"\"\"\r\n[ features ]\r\nhooks=false",
            "[[a]]\nhooks = true\n[features]\nx = [ # ]\n 1,\n]\nhooks = false",
        ] {
            assert_eq!(
                value(text, &["features", "hooks"]).as_deref(),
                Some("false"),
                "{text}"
            );
        }
        assert_eq!(
            value("# [features]\n# hooks = false", &["features", "hooks"]),
            None
        );
    }

    #[test]
    fn what_is_no_toml_is_refused_with_its_place() {
        for (text, line, column, expected) in [
            ("a = 1\nb", 2, 2, "'='"),
            ("[a\n", 1, 3, "the end of the table's name"),
            ("a = \"x\ny\"", 1, 7, "the end of the text"),
            ("a = 'x' b", 1, 9, "the end of the line"),
            ("a = [1", 1, 7, "',' or ']'"),
            ("= 1", 1, 1, "a key"),
            ("a = hello world", 1, 5, "a value"),
        ] {
            let error = statements(text).unwrap_err();
            assert_eq!(error.position, Position { line, column }, "{text}");
            assert_eq!(error.expected, expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_text_is_read_as_it_was_quoted(text in "\\PC{0,12}|[\\x00-\\x7f]{0,12}") {
            let document = format!("{} = {}\n", quoted(&text), quoted(&text));
            let found = statements(&document).unwrap();
            let [Statement::Value { path, value, .. }] = found.as_slice() else {
                panic!("{found:?}");
            };
            prop_assert_eq!(path, &vec![text.clone()]);
            prop_assert_eq!(text_of(&document[value.clone()]), Some(text));
        }

        #[test]
        fn no_text_makes_it_fail_but_with_a_place(text in "[\\[\\]{}=.,\"'#\\\\a\n ]{0,40}") {
            let _read = statements(&text);
        }
    }
}

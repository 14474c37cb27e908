//! One word of a command: what it comes to once its quotes are gone, and whether that is known at all.

use std::ops::Range;

use tree_sitter::Node;

use super::script::Decoded;
use super::trust::is_name;

/// One word.
#[derive(Debug)]
pub(super) struct Word {
    /// Where it stands in its script.
    pub(super) range: Range<usize>,
    /// Its value. Expansions stand in it as they are written.
    pub(super) value: Decoded,
    /// Where its expansions stand in the script, as far as they hold no text of their own.
    pub(super) expansions: Vec<Range<usize>>,
    /// Whether the value holds no expansion, no wildcard and no braces, so that it is what the command gets.
    pub(super) is_literal: bool,
    /// Whether it is exactly one argument, known or not.
    pub(super) is_one: bool,
    /// Whether no quote stands before its first equals sign: before a command it assigns a variable.
    pub(super) assigns: bool,
}

impl Word {
    /// The value, where it is known.
    pub(super) fn literal(&self) -> Option<&str> {
        self.is_literal.then_some(self.value.text.as_str())
    }

    /// Whether what stands at a place of the script belongs to one of the expansions, which stand in order.
    pub(super) fn expands_at(&self, place: usize) -> bool {
        let before = self
            .expansions
            .partition_point(|expansion| expansion.start <= place);
        let last = before.checked_sub(1).and_then(|at| self.expansions.get(at));
        last.is_some_and(|expansion| expansion.contains(&place))
    }
}

/// Reads the word at `node`.
pub(super) fn word(text: &str, node: Node<'_>) -> Word {
    let mut reader = Reader {
        text,
        value: Decoded::default(),
        expansions: Vec::new(),
        expands: false,
        splits: false,
        braces: Braces::None,
        wildcard: false,
    };
    reader.node(node);
    let name = reader
        .value
        .text
        .find('=')
        .and_then(|at| reader.value.text.get(..=at));
    let written = text.get(node.byte_range()).unwrap_or_default();
    let assigns = name.is_some_and(|name| written.starts_with(name));
    let globs = reader.wildcard && reader.value.text != "[";
    let several = globs || reader.braces == Braces::Expand;
    Word {
        range: node.byte_range(),
        value: reader.value,
        expansions: reader.expansions,
        is_literal: !reader.expands && !several,
        is_one: !reader.splits && !several,
        assigns,
    }
}

/// How far unquoted braces have come towards an expansion.
#[derive(PartialEq, Eq)]
enum Braces {
    None,
    Open,
    Listed,
    Expand,
}

struct Reader<'t> {
    text: &'t str,
    value: Decoded,
    expansions: Vec<Range<usize>>,
    expands: bool,
    splits: bool,
    braces: Braces,
    wildcard: bool,
}

impl Reader<'_> {
    fn node(&mut self, node: Node<'_>) {
        match node.kind() {
            "concatenation" => self.parts(node),
            "raw_string" => {
                let range = node.byte_range();
                let inner = range.start + 1..range.end.saturating_sub(1);
                let text = self.text.get(inner.clone()).unwrap_or_default();
                self.value.push(text, inner.start);
            }
            "string" => self.quoted(node),
            "translated_string" => {
                if let Some(string) = node.child(1) {
                    self.quoted(string);
                }
            }
            "ansi_c_string" => self.ansi(node),
            // Two of them are the number of the process.
            "$" if node.byte_range().len() > 1 => {
                self.expands = true;
                self.splits = true;
                self.verbatim(node.byte_range());
            }
            "word" | "number" | "test_operator" | "{" | "}" | "[" | "]" | "$" | "=~" | "=="
                if node.named_child_count() == 0 =>
            {
                self.bare(node.byte_range());
            }
            // Two backticks with nothing between them run nothing and are nothing.
            "``" => {}
            _ => {
                self.expands = true;
                self.splits = true;
                self.expansion(node);
                self.verbatim(node.byte_range());
            }
        }
    }

    /// Takes note of an expansion, unless it holds text that may become the value: `${x:-text}`.
    fn expansion(&mut self, node: Node<'_>) {
        let written = self.text.get(node.byte_range()).unwrap_or_default();
        let bare = match node.kind() {
            "simple_expansion" | "command_substitution" | "process_substitution" => true,
            "expansion" => written
                .strip_prefix("${")
                .and_then(|name| name.strip_suffix('}'))
                .is_some_and(is_name),
            _ => false,
        };
        if bare {
            self.expansions.push(node.byte_range());
        }
    }

    fn verbatim(&mut self, range: Range<usize>) {
        let text = self.text.get(range.clone()).unwrap_or_default();
        self.value.push(text, range.start);
    }

    fn parts(&mut self, node: Node<'_>) {
        let mut cursor = node.walk();
        let mut end = node.start_byte();
        for part in node.children(&mut cursor) {
            let gap = self.text.get(end..part.start_byte()).unwrap_or_default();
            if !gap.replace("\\\r\n", "").replace("\\\n", "").is_empty() {
                self.expands = true;
                self.splits = true;
            }
            self.node(part);
            end = part.end_byte();
        }
    }

    /// Text without quotes: a backslash takes the meaning from what follows it.
    fn bare(&mut self, range: Range<usize>) {
        let text = self.text.get(range.clone()).unwrap_or_default();
        let mut characters = text.char_indices();
        while let Some((offset, character)) = characters.next() {
            let at = range.start + offset;
            let mut buffer = [0; 4];
            if character != '\\' {
                self.special(character);
                self.value.push(character.encode_utf8(&mut buffer), at);
                continue;
            }
            match characters.next() {
                Some((_, '\n')) => {}
                Some((_, escaped)) => {
                    let escaped: &str = escaped.encode_utf8(&mut buffer);
                    self.value.push_made(escaped, at..at + 1 + escaped.len());
                }
                None => self.value.push("\\", at),
            }
        }
    }

    fn special(&mut self, character: char) {
        match (character, &self.braces) {
            ('*' | '?' | '[', _) => self.wildcard = true,
            ('{', Braces::None) => self.braces = Braces::Open,
            ('.', Braces::Open) if self.value.text.ends_with('.') => self.braces = Braces::Listed,
            (',', Braces::Open) => self.braces = Braces::Listed,
            ('}', Braces::Listed) => self.braces = Braces::Expand,
            _ => {}
        }
    }

    /// A string in double quotes. Its expansions are kept as written.
    fn quoted(&mut self, node: Node<'_>) {
        let mut cursor = node.walk();
        for part in node.named_children(&mut cursor) {
            if part.kind() != "string_content" {
                self.expands = true;
                self.expansion(part);
                let text = self.text.get(part.byte_range()).unwrap_or_default();
                // `"$@"` and `"${a[@]}"` are as many arguments as there are.
                self.splits |= text.contains('@');
            }
        }
        let range = node.byte_range();
        let inner = range.start + 1..range.end.saturating_sub(1);
        let text = self.text.get(inner.clone()).unwrap_or_default();
        let decoded = double_quoted(text, inner.start);
        self.value.append(decoded);
    }

    /// `$'…'` with the escapes of C. Bytes that are no text are left as written, and the value counts as unknown.
    fn ansi(&mut self, node: Node<'_>) {
        let range = node.byte_range();
        let inner = range.start + 2..range.end.saturating_sub(1);
        let text = self.text.get(inner.clone()).unwrap_or_default();
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            let at = inner.end - rest.len();
            let (character, taken) = match rest.strip_prefix('\\') {
                None => (Some(first), first.len_utf8()),
                Some(escape) => {
                    let (character, taken) = c_escape(escape);
                    (character, taken + 1)
                }
            };
            let (taken_text, after) = rest.split_at_checked(taken).unwrap_or((rest, ""));
            match character {
                Some('\0') | None => {
                    self.expands = true;
                    self.value.push(taken_text, at);
                }
                Some(character) => {
                    let mut buffer = [0; 4];
                    let made: &str = character.encode_utf8(&mut buffer);
                    self.value.push_made(made, at..at + taken);
                }
            }
            rest = after;
        }
    }
}

/// What stands between double quotes, without its escapes.
fn double_quoted(text: &str, start: usize) -> Decoded {
    unescaped(text, start, &['$', '`', '"', '\\', '\n'])
}

/// Text without the backslashes before these characters; a line break goes with its backslash.
pub(super) fn unescaped(text: &str, start: usize, escapes: &[char]) -> Decoded {
    let mut decoded = Decoded::default();
    let mut plain = 0;
    let mut characters = text.char_indices();
    while let Some((offset, character)) = characters.next() {
        if character != '\\' {
            continue;
        }
        let Some((behind, following)) = characters.next() else {
            break;
        };
        if !escapes.contains(&following) {
            continue;
        }
        let before = text.get(plain..offset).unwrap_or_default();
        decoded.push(before, start + plain);
        plain = behind + following.len_utf8();
        if following != '\n' {
            let mut buffer = [0; 4];
            decoded.push_made(
                following.encode_utf8(&mut buffer),
                start + offset..start + plain,
            );
        }
    }
    decoded.push(text.get(plain..).unwrap_or_default(), start + plain);
    decoded
}

/// The character that an escape of C stands for, and how many bytes behind the backslash it takes.
fn c_escape(escape: &str) -> (Option<char>, usize) {
    let mut characters = escape.chars();
    let Some(first) = characters.next() else {
        return (None, 0);
    };
    let digits = |from: &str, radix: u32, most: usize| {
        let count = from
            .chars()
            .take(most)
            .take_while(|digit| digit.is_digit(radix))
            .count();
        let value = from
            .get(..count)
            .and_then(|digits| u32::from_str_radix(digits, radix).ok());
        (value, count)
    };
    let simple = match first {
        'n' => '\n',
        't' => '\t',
        'r' => '\r',
        'a' => '\x07',
        'b' => '\x08',
        'v' => '\x0b',
        'f' => '\x0c',
        'e' | 'E' => '\x1b',
        '\\' | '\'' | '"' | '?' => first,
        '0'..='7' => {
            let (value, count) = digits(escape, 8, 3);
            return (
                value.filter(|value| *value < 128).and_then(char::from_u32),
                count,
            );
        }
        'x' => {
            let (value, count) = digits(characters.as_str(), 16, 2);
            return (
                value.filter(|value| *value < 128).and_then(char::from_u32),
                count + 1,
            );
        }
        'u' | 'U' => {
            let most = if first == 'u' { 4 } else { 8 };
            let (value, count) = digits(characters.as_str(), 16, most);
            return (value.and_then(char::from_u32), count + 1);
        }
        _ => return (None, first.len_utf8()),
    };
    (Some(simple), first.len_utf8())
}

//! Here-documents: whether they end where bash ends them, and the code in those that are fed to a shell.

use std::borrow::Cow;

use tree_sitter::Node;

use super::script::Decoded;
use super::trust::has_backtick;
use super::word::unescaped;

/// A here-document.
pub(super) struct Heredoc<'t, 's> {
    text: &'s str,
    node: Node<'t>,
    start: Node<'t>,
    body: Node<'t>,
    end: Node<'t>,
    /// `<<-`: tabs in front of a line are taken away.
    strips_tabs: bool,
}

impl<'t, 's> Heredoc<'t, 's> {
    /// The one at `node`; `None` where a part of it is missing.
    pub(super) fn at(text: &'s str, node: Node<'t>) -> Option<Self> {
        let mut cursor = node.walk();
        let (mut start, mut body, mut end, mut strips_tabs) = (None, None, None, false);
        for child in node.children(&mut cursor) {
            match child.kind() {
                "heredoc_start" => start = Some(child),
                "heredoc_body" => body = Some(child),
                "heredoc_end" => end = Some(child),
                "<<-" => strips_tabs = true,
                _ => {}
            }
        }
        Some(Self {
            text,
            node,
            start: start?,
            body: body?,
            end: end?,
            strips_tabs,
        })
    }

    fn of(&self, node: Node<'_>) -> &'s str {
        self.text.get(node.byte_range()).unwrap_or_default()
    }

    /// Whether its text is taken as it stands.
    pub(super) fn is_quoted(&self) -> bool {
        self.of(self.start).contains(['\'', '"', '\\'])
    }

    /// Where the first line behind the operator's line begins, and all text from there to the delimiter. The grammar lets a body
    /// begin at its first expansion, so the node of the body does not do.
    pub(super) fn lines(&self) -> Option<(usize, &'s str)> {
        let mut cursor = self.node.walk();
        // More may stand behind the delimiter on its line, quoted line breaks included.
        let behind = self
            .node
            .children(&mut cursor)
            .filter(|child| !matches!(child.kind(), "heredoc_body" | "heredoc_end"))
            .map(|child| child.end_byte())
            .max()?;
        let at = behind + self.text.get(behind..)?.find('\n')? + 1;
        Some((at, self.text.get(at..self.end.start_byte())?))
    }

    /// Whether bash would end it at the same line. Where it would not, lines that are taken for text are run, or the other way.
    pub(super) fn ends_where_bash_ends_it(&self) -> bool {
        let Some(delimiter) = delimiter(self.of(self.start)) else {
            return false;
        };
        let Some((_, lines)) = self.lines() else {
            return false;
        };
        let lines: Cow<'_, str> = if self.is_quoted() {
            Cow::Borrowed(lines)
        } else {
            Cow::Owned(lines.replace("\\\n", ""))
        };
        let strip = |line: &'_ str| -> String {
            if self.strips_tabs {
                line.trim_start_matches('\t').to_owned()
            } else {
                line.to_owned()
            }
        };
        // What stands between the last line break and the delimiter belongs to the delimiter's line.
        let (body, lead) = match lines.rfind('\n') {
            Some(at) => lines.split_at(at + 1),
            None => ("", lines.as_ref()),
        };
        let closing = format!("{lead}{}", self.of(self.end));
        let behind = self.text.get(self.end.end_byte()..).unwrap_or_default();
        strip(&closing) == delimiter
            && (behind.is_empty() || behind.starts_with('\n'))
            && body.lines().all(|line| strip(line) != delimiter)
    }

    /// The text that a command gets, and whether all of it is known.
    pub(super) fn code(&self) -> Option<(Decoded, bool)> {
        let (at, lines) = self.lines()?;
        if self.is_quoted() {
            let mut decoded = Decoded::default();
            decoded.push(lines, at);
            return Some((decoded, true));
        }
        let mut cursor = self.body.walk();
        let is_literal = self
            .body
            .named_children(&mut cursor)
            .all(|part| part.kind() == "heredoc_content");
        Some((
            unescaped(lines, at, &['$', '`', '\\', '\n']),
            is_literal && !has_backtick(lines),
        ))
    }
}

/// What a delimiter is without its quotes; `None` where it is not plain.
fn delimiter(written: &str) -> Option<String> {
    let mut bare = String::new();
    let mut characters = written.chars();
    let mut quote = None;
    while let Some(character) = characters.next() {
        match (character, quote) {
            ('\'' | '"', None) => quote = Some(character),
            (_, Some(open)) if character == open => quote = None,
            ('\\', None) => bare.push(characters.next()?),
            // To bash it ends before an operator; the grammar takes that in.
            ('\\' | '$' | '`', _)
            | (';' | '&' | '|' | '<' | '>' | '(' | ')' | ' ' | '\t' | '\n', None) => return None,
            _ => bare.push(character),
        }
    }
    quote.is_none().then_some(bare)
}

//! Where the grammar and bash are known to differ.
//!
//! The grammar accepts some text as something harmless that bash runs: a comment that is none, a string that ends later than in
//! bash, a substitution in what only looks like a quote. Each check here holds one leaf of the tree against bash's own rule.

use tree_sitter::Node;

/// Characters that the grammar takes for blanks, and bash for a part of a word. A carriage return before a line feed is one too:
/// bash makes it a part of the last word.
const FALSE_BLANKS: [char; 4] = ['\r', '\x0b', '\x0c', '\0'];

/// Whether the text holds nothing that makes all else uncertain.
pub(super) fn has_only_bash_blanks(text: &str) -> bool {
    !text.contains(FALSE_BLANKS)
}

/// Whether a line break that a backslash takes away stands within an operator: to bash, but not to the grammar, `$` before it and
/// `(` behind it are one.
pub(super) fn splits_an_operator(text: &str) -> bool {
    ["$\\\n", "<\\\n", ">\\\n"]
        .iter()
        .any(|split| text.contains(split))
}

/// Whether a backslash at the end of the text takes the meaning from what follows.
fn ends_with_an_escape(text: &str) -> bool {
    let backslashes = text.bytes().rev().take_while(|byte| *byte == b'\\');
    backslashes.count() % 2 == 1
}

/// Whether backticks stand within backticks, as it seems: which of them belong together the grammar does not know.
pub(super) fn nests_backticks(text: &str) -> bool {
    let mut plain = false;
    let mut escaped = false;
    for (at, _) in text.match_indices('`') {
        if text.get(..at).is_some_and(ends_with_an_escape) {
            escaped = true;
        } else {
            plain = true;
        }
    }
    plain && escaped
}

/// Whether a `#` begins a comment here: at the front of a word, which an escaped blank does not end. A backslash at the end of the
/// line does not prolong it.
pub(super) fn is_comment(text: &str, node: Node<'_>) -> bool {
    let written = text.get(node.byte_range()).unwrap_or_default();
    if written.contains('\n') || ends_with_an_escape(written) {
        return false;
    }
    let before = text.get(..node.start_byte()).unwrap_or_default();
    let Some(last) = before.chars().next_back() else {
        return true;
    };
    if matches!(last, ';' | '&' | '|' | '(') {
        return true;
    }
    if !matches!(last, ' ' | '\t' | '\n') {
        return false;
    }
    let escapes = before
        .get(..before.len() - 1)
        .unwrap_or_default()
        .bytes()
        .rev()
        .take_while(|byte| *byte == b'\\')
        .count();
    escapes % 2 == 0
}

/// Whether `$'…'` ends where bash ends it.
pub(super) fn is_whole_ansi_string(written: &str) -> bool {
    let Some(inner) = written.strip_prefix("$'") else {
        return false;
    };
    let mut characters = inner.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '\\' => drop(characters.next()),
            '\'' => return at + 1 == inner.len(),
            _ => {}
        }
    }
    false
}

/// Whether text that the grammar takes as it stands holds what bash would expand: no backslash takes the meaning from it.
pub(super) fn has_expansion(written: &str) -> bool {
    let mut escaped = false;
    let mut last = '\0';
    for character in written.chars() {
        if escaped {
            escaped = false;
            last = '\0';
            continue;
        }
        match character {
            '\\' => escaped = true,
            '`' => return true,
            '(' if last == '$' => return true,
            _ => {}
        }
        last = character;
    }
    false
}

/// What takes the meaning from single quotes, or evaluates what stands in them once more.
pub(super) const NO_QUOTES: [&str; 8] = [
    "string",
    "arithmetic_expansion",
    "heredoc_body",
    "expansion",
    "subscript",
    "[",
    "[[",
    "((",
];

/// Whether one of these is around a node, without a substitution in between, in which everything begins anew.
pub(super) fn stands_in(ancestors: &[Node<'_>], kinds: &[&str]) -> bool {
    ancestors
        .iter()
        .rev()
        .map(|ancestor| match ancestor.kind() {
            "compound_statement" | "test_command" => {
                ancestor.child(0).map_or("", |first| first.kind())
            }
            kind => kind,
        })
        .take_while(|kind| !matches!(*kind, "command_substitution" | "process_substitution"))
        .any(|kind| kinds.contains(&kind))
}

/// Whether text that begins like a substitution is arithmetic without anything nested in it.
pub(super) fn is_arithmetic(written: &str) -> bool {
    written
        .strip_prefix("$((")
        .and_then(|inner| inner.strip_suffix("))"))
        .is_some_and(|inner| !inner.contains(['(', ')', '`', ';', '\n']))
}

/// Whether a pattern or a regular expression of a test may stand there without quotes.
pub(super) fn is_bare_pattern(written: &str) -> bool {
    let mut escaped = false;
    !has_expansion(written)
        && written.chars().all(|character| {
            let plain = escaped || !matches!(character, ';' | '&' | '<' | '>' | '\n');
            escaped = character == '\\' && !escaped;
            plain
        })
}

/// Whether a token is what the grammar calls it, with blanks before it.
pub(super) fn is_token(written: &str, kind: &str) -> bool {
    let token = written
        .trim_start_matches(|character: char| character.is_whitespace() || character == '\\');
    token == kind.trim() || kind == "$" && token == "$$"
}

/// Whether text holds a backtick that no backslash takes the meaning from.
pub(super) fn has_backtick(text: &str) -> bool {
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            '`' => return true,
            '\\' => drop(characters.next()),
            _ => {}
        }
    }
    false
}

/// Whether code between backticks is the same before and after bash takes the backslashes away, and holds no further backtick.
/// `quoted`: it stands in double quotes, where one more backslash goes.
pub(super) fn is_plain_between_backticks(written: &str, quoted: bool) -> bool {
    let inner = written
        .get(1..written.len().saturating_sub(1))
        .unwrap_or_default();
    let mut characters = inner.chars();
    while let Some(character) = characters.next() {
        let plain = match character {
            '`' => false,
            '\\' => match characters.next() {
                Some('`' | '$' | '\\') => false,
                Some('"') => !quoted,
                _ => true,
            },
            _ => true,
        };
        if !plain {
            return false;
        }
    }
    true
}

/// The pieces of code in text with backticks, each with its place: every second piece between unescaped backticks.
pub(super) fn between_backticks(written: &str) -> Vec<(usize, &str)> {
    let mut pieces = Vec::new();
    let mut begin = None;
    let mut escaped = false;
    for (at, character) in written.char_indices() {
        if escaped {
            escaped = false;
        } else if character == '\\' {
            escaped = true;
        } else if character == '`' {
            match begin.take() {
                None => begin = Some(at + 1),
                Some(from) => pieces.push((from, written.get(from..at).unwrap_or_default())),
            }
        }
    }
    pieces
}

/// Text without the line breaks that a backslash takes away.
pub(super) fn without_continuations(text: &str) -> std::borrow::Cow<'_, str> {
    if text.contains("\\\n") {
        text.replace("\\\n", "").into()
    } else {
        text.into()
    }
}

/// Whether a word holds a blank that would end it: the grammar lets a word begin with the line break before it.
pub(super) fn has_bare_blank(word: &str) -> bool {
    let mut escaped = false;
    word.chars().any(|character| {
        let bare = !escaped && matches!(character, ' ' | '\t' | '\n');
        escaped = character == '\\' && !escaped;
        bare
    })
}

/// Whether the parts of a command or redirection are parts to bash too: words without a blank between them are one.
pub(super) fn are_apart(text: &str, node: Node<'_>) -> bool {
    let mut cursor = node.walk();
    let mut before: Option<Node<'_>> = None;
    for child in node.children(&mut cursor) {
        let joins = matches!(
            child.kind(),
            "file_redirect" | "herestring_redirect" | "heredoc_redirect" | "subshell"
        );
        if let Some(before) =
            before.filter(|before| !joins && !is_operator(*before) && !is_operator(child))
        {
            let gap = text.get(before.end_byte()..child.start_byte());
            let escaped = text
                .get(..before.end_byte())
                .is_some_and(ends_with_an_escape);
            if escaped || gap.is_none_or(|gap| without_continuations(gap).is_empty()) {
                return false;
            }
        }
        before = Some(child);
    }
    true
}

fn is_operator(node: Node<'_>) -> bool {
    node.kind() == "file_descriptor" || !node.is_named() && node.kind().contains(['<', '>', '&'])
}

/// Whether the parts of a word follow each other without a blank.
pub(super) fn is_in_one_piece(text: &str, node: Node<'_>) -> bool {
    let mut cursor = node.walk();
    let mut end = None;
    for child in node.children(&mut cursor) {
        let gap = end.and_then(|end| text.get(end..child.start_byte()));
        if gap.is_some_and(|gap| !without_continuations(gap).is_empty()) {
            return false;
        }
        end = Some(child.end_byte());
    }
    true
}

/// Whether a test is one to bash: its brackets are words of their own, and within a single bracket, which is a command, stands no
/// operator of the shell, and no line break.
pub(super) fn is_test(text: &str, node: Node<'_>) -> bool {
    let written = text.get(node.byte_range()).unwrap_or_default();
    let inner = written.trim_start_matches('[').trim_end_matches(']');
    let is_blank = |character: Option<char>| {
        character.is_some_and(|character| matches!(character, ' ' | '\t' | '\n' | '\\'))
    };
    if !is_blank(inner.chars().next()) || !is_blank(inner.chars().next_back()) {
        return false;
    }
    written.starts_with("[[") || has_words_only(text, node)
}

/// Whether the leaves below a node are words on one line; what is expanded in them does not count.
fn has_words_only(text: &str, node: Node<'_>) -> bool {
    const WORDS: [&str; 6] = [
        "arithmetic_expansion",
        "command_substitution",
        "expansion",
        "process_substitution",
        "raw_string",
        "string",
    ];
    let mut cursor = node.walk();
    let mut end = node.start_byte();
    loop {
        let node = cursor.node();
        if !WORDS.contains(&node.kind()) && cursor.goto_first_child() {
            continue;
        }
        let gap = text.get(end..node.start_byte()).unwrap_or_default();
        let operates = !node.is_named() && node.kind().contains(['&', '|', ';', '<', '>']);
        if operates || without_continuations(gap).contains('\n') {
            return false;
        }
        end = node.end_byte();
        while !cursor.goto_next_sibling() {
            if !cursor.goto_parent() {
                return true;
            }
        }
    }
}

/// Whether a variable may be called that.
pub(super) fn is_name(text: &str) -> bool {
    !text.starts_with(|first: char| first.is_ascii_digit())
        && !text.is_empty()
        && text
            .chars()
            .all(|character| character.is_ascii_alphanumeric() || character == '_')
}

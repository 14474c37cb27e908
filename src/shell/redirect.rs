//! Redirections: what they write, what they feed to a command, and the words of the command that stand behind their targets.

use tree_sitter::Node;

use super::Floor;
use super::heredoc::Heredoc;
use super::reader::Input;
use super::trust::are_apart;
use super::word::{Word, word};

/// Targets that keep nothing.
const HARMLESS: [&str; 6] = [
    "/dev/null",
    "/dev/stdout",
    "/dev/stderr",
    "/dev/fd/1",
    "/dev/fd/2",
    "/dev/tty",
];

/// What one redirection of a file comes to.
pub(super) struct FileRedirect {
    pub(super) floor: Option<Floor>,
    /// Words behind the target: to bash they are arguments of the command.
    pub(super) words: Vec<Word>,
}

/// Reads a `file_redirect`.
pub(super) fn file_redirect(text: &str, node: Node<'_>) -> FileRedirect {
    let mut cursor = node.walk();
    let mut operator = "";
    let mut targets = Vec::new();
    for child in node.children(&mut cursor) {
        if !child.is_named() && operator.is_empty() {
            operator = child.kind();
        } else if child.kind() != "file_descriptor" {
            targets.push(word(text, child));
        }
    }
    let mut targets = targets.into_iter();
    // A descriptor that is closed has no target.
    let closes = matches!(operator, "<&-" | ">&-");
    let target = if closes { None } else { targets.next() };
    FileRedirect {
        floor: target
            .and_then(|target| floor(operator, &target, text))
            .max((!are_apart(text, node)).then_some(Floor::UnparsedSubtree)),
        words: targets.collect(),
    }
}

fn floor(operator: &str, target: &Word, text: &str) -> Option<Floor> {
    let written = text.get(target.range.clone()).unwrap_or_default();
    // What runs in a process substitution is a unit of its own.
    if written.starts_with("<(") || written.starts_with(">(") {
        return None;
    }
    let Some(name) = target.literal() else {
        return Some(Floor::Redirection);
    };
    let harmless = match operator {
        "<" => !name.starts_with("/dev/tcp/") && !name.starts_with("/dev/udp/"),
        "<&" | ">&" => is_descriptor(name) || HARMLESS.contains(&name),
        _ => HARMLESS.contains(&name),
    };
    (!harmless).then_some(Floor::Redirection)
}

fn is_descriptor(name: &str) -> bool {
    let digits = name.strip_suffix('-').unwrap_or(name);
    digits.chars().all(|digit| digit.is_ascii_digit())
}

/// What redirections add to a command.
#[derive(Default)]
pub(super) struct Gathered {
    pub(super) floor: Option<Floor>,
    pub(super) words: Vec<Word>,
    pub(super) input: Option<Input>,
}

impl Gathered {
    /// What these redirections add.
    pub(super) fn from_nodes(text: &str, redirects: &[Node<'_>]) -> Self {
        let mut gathered = Self::default();
        for redirect in redirects {
            gathered.add(text, *redirect);
        }
        gathered
    }

    fn add(&mut self, text: &str, redirect: Node<'_>) {
        match redirect.kind() {
            "file_redirect" => {
                let file = file_redirect(text, redirect);
                self.floor = self.floor.max(file.floor);
                self.words.extend(file.words);
            }
            "herestring_redirect" => self.input = here_string(text, redirect).or(self.input.take()),
            _ => {
                if let Some((code, is_literal)) =
                    Heredoc::at(text, redirect).and_then(|heredoc| heredoc.code())
                {
                    self.input = Some(Input { code, is_literal });
                }
                let mut cursor = redirect.walk();
                for child in redirect.children_by_field_name("redirect", &mut cursor) {
                    self.add(text, child);
                }
                let mut cursor = redirect.walk();
                for child in redirect.children_by_field_name("argument", &mut cursor) {
                    self.words.push(word(text, child));
                }
            }
        }
    }
}

/// The text behind `<<<`.
pub(super) fn here_string(text: &str, node: Node<'_>) -> Option<Input> {
    let last = node.child(node.child_count().checked_sub(1)?)?;
    let word = word(text, last);
    Some(Input {
        is_literal: word.is_literal,
        code: word.value,
    })
}

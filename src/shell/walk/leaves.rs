//! The leaves of the tree, and the text between them, held against what bash would make of it.

use tree_sitter::Node;

use super::Walk;
use crate::shell::Floor;
use crate::shell::heredoc::Heredoc;
use crate::shell::trust::{
    NO_QUOTES, has_bare_blank, has_expansion, is_bare_pattern, is_comment, is_token,
    is_whole_ansi_string, stands_in, without_continuations,
};

/// Nodes that a line break in them would end.
const ONE_LINE: [&str; 10] = [
    "command",
    "command_name",
    "concatenation",
    "declaration_command",
    "file_redirect",
    "herestring_redirect",
    "redirected_statement",
    "unset_command",
    "variable_assignment",
    "variable_assignments",
];

impl<'t> Walk<'_, '_, '_, 't> {
    /// Text that stands in no leaf must be blank, but for the front of a here-document, whose node begins at its first expansion.
    pub(super) fn cover(&mut self, start: usize, end: usize) {
        let gap = self.script.part(self.covered..start);
        let mut parents = self.ancestors.iter().rev().take(3);
        let in_body = parents.any(|parent| parent.kind() == "heredoc_body");
        let (between, body) = match gap.find('\n').filter(|_| in_body) {
            Some(at) => gap.split_at(at),
            // Behind an expansion in the body.
            None if in_body => ("", gap),
            None => (gap, ""),
        };
        let between = without_continuations(between);
        let blank = between.chars().all(char::is_whitespace);
        if !blank || has_expansion(body) || between.contains('\n') && self.is_one_line(self.covered)
        {
            // A dash before a here-document is left out by the grammar. It says nothing by itself.
            if between.trim() == "-" {
                self.dash = true;
            } else {
                self.raise(Floor::UnparsedSubtree);
            }
        }
        self.covered = self.covered.max(end);
    }

    /// Whether what a gap at `at` stands in ends, to bash, with its line.
    fn is_one_line(&self, at: usize) -> bool {
        let around = self
            .ancestors
            .iter()
            .rev()
            .find(|ancestor| ancestor.start_byte() < at);
        around.is_some_and(|node| ONE_LINE.contains(&node.kind()))
    }

    /// Holds one leaf against what bash would make of it.
    pub(super) fn leaf(&mut self, node: Node<'t>) {
        self.cover(node.start_byte(), node.end_byte());
        let written = self.text(node);
        let known = match node.kind() {
            "comment" => is_comment(&self.script.text, node),
            "ansi_c_string" if !is_whole_ansi_string(written) => false,
            "ansi_c_string" | "raw_string" => {
                !has_expansion(written) || !stands_in(&self.ancestors, &NO_QUOTES)
            }
            "regex" if self.is_in_test() => {
                is_bare_pattern(written) && !self.starts_a_process(node)
            }
            "extglob_pattern" => is_bare_pattern(written),
            "heredoc_body" => self.is_quoted_heredoc() || !has_expansion(written),
            "word" | "regex" if self.starts_a_process(node) => false,
            "word" => !has_expansion(written) && !has_bare_blank(written),
            "number" | "regex" | "variable_name" | "test_operator" | "string_content"
            | "heredoc_content" => !has_expansion(written),
            // A process substitution that is taken for a comparison.
            "{" if self.is_open_brace() => {
                let next = self.script.part(node.end_byte()..node.end_byte() + 1);
                matches!(next, " " | "\t" | "\n" | "\\")
            }
            "<" | ">" if self.script.part(node.end_byte()..node.end_byte() + 1) == "(" => {
                stands_in(&self.ancestors, &["arithmetic_expansion", "(("])
            }
            // Any other token is no more than itself and blanks. Two backticks with a blank between them end one substitution and
            // begin another; the grammar takes them for nothing.
            kind if !node.is_named() => {
                is_token(written, kind) && !self.breaks_a_line(written, node)
            }
            _ => true,
        };
        if !known {
            self.raise(Floor::UnparsedSubtree);
        }
    }

    /// Whether a process substitution begins in the node, to which it is plain text.
    fn starts_a_process(&self, node: Node<'t>) -> bool {
        let end = self.script.text.len().min(node.end_byte() + 1);
        let written = self.script.part(node.start_byte()..end);
        written.contains("<(") || written.contains(">(")
    }

    /// Whether the node is the brace that opens a group.
    fn is_open_brace(&self) -> bool {
        self.ancestors
            .last()
            .is_some_and(|parent| parent.kind() == "compound_statement")
    }

    /// Whether a token takes in a line break that ends a command.
    fn breaks_a_line(&self, written: &str, node: Node<'_>) -> bool {
        let in_string = self.ancestors.last().is_some_and(|parent| {
            matches!(parent.kind(), "string" | "heredoc_body")
                && parent.start_byte() < node.start_byte()
                || matches!(
                    parent.kind(),
                    "simple_expansion" | "command_substitution" | "expansion"
                )
        });
        written.trim_end().contains('\n') && !in_string
    }

    fn is_in_test(&self) -> bool {
        self.ancestors
            .last()
            .is_some_and(|parent| matches!(parent.kind(), "binary_expression" | "test_command"))
    }

    fn is_quoted_heredoc(&self) -> bool {
        let Some(parent) = self.ancestors.last() else {
            return false;
        };
        Heredoc::at(&self.script.text, *parent).is_some_and(|heredoc| heredoc.is_quoted())
    }
}

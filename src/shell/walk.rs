//! One walk over the tree of a piece of code: every node is entered once, in order, without recursion.

mod leaves;

use std::collections::HashMap;

use tree_sitter::{Node, Tree};

use super::heredoc::Heredoc;
use super::phrases;
use super::reader::{Frame, Reader};
use super::redirect::{Gathered, file_redirect, here_string};
use super::script::Script;
use super::trust::{
    are_apart, between_backticks, has_backtick, has_expansion, is_arithmetic, is_in_one_piece,
    is_name, is_plain_between_backticks, is_test, stands_in,
};
use super::word::{Word, unescaped, word};
use super::{Floor, MAX_NESTING};
use crate::wire::CommandContext;

/// Whether the children of a node are entered.
#[derive(PartialEq, Eq)]
enum Enter {
    Children,
    Nothing,
}

pub(super) struct Walk<'w, 'r, 'a, 't> {
    reader: &'r mut Reader<'a>,
    script: &'w Script<'w>,
    frame: &'w Frame,
    tree: &'t Tree,
    ancestors: Vec<Node<'t>>,
    /// Constructs around the node that hold commands, each with the context that it makes, and how many ancestors it has.
    around: Vec<(usize, Option<CommandContext>)>,
    /// Redirections that stand outside of the command they belong to, by the command's node.
    outside: HashMap<usize, Vec<Node<'t>>>,
    /// End of the last leaf.
    covered: usize,
    floor: Option<Floor>,
    /// Whether a dash was left out.
    dash: bool,
}

impl<'w, 'r, 'a, 't> Walk<'w, 'r, 'a, 't> {
    pub(super) fn new(
        reader: &'r mut Reader<'a>,
        script: &'w Script<'w>,
        frame: &'w Frame,
        tree: &'t Tree,
    ) -> Self {
        Self {
            reader,
            script,
            frame,
            tree,
            ancestors: Vec::new(),
            around: Vec::new(),
            outside: HashMap::new(),
            covered: 0,
            floor: None,
            dash: false,
        }
    }

    /// Hands every command to the reader; says why the code as a whole may not be allowed.
    pub(super) fn run(mut self) -> Option<Floor> {
        self.all();
        self.reader.doubt(self.floor);
        let dash = self.dash.then_some(Floor::UnparsedSubtree);
        self.floor.max(dash)
    }

    fn all(&mut self) {
        let mut cursor = self.tree.walk();
        loop {
            if self.reader.is_full() {
                return;
            }
            let node = cursor.node();
            let enter = self.enter(node);
            if enter == Enter::Nothing || node.child_count() == 0 {
                self.leaf(node);
            }
            if enter == Enter::Children && cursor.goto_first_child() {
                self.ancestors.push(node);
                continue;
            }
            while !cursor.goto_next_sibling() {
                if !cursor.goto_parent() {
                    let end = self.script.text.len();
                    self.cover(end, end);
                    return;
                }
                self.leave();
            }
        }
    }

    fn leave(&mut self) {
        self.ancestors.pop();
        let depth = self.ancestors.len();
        self.around.retain(|(at, _)| *at < depth);
    }

    fn raise(&mut self, floor: Floor) {
        self.reader.doubt(Some(floor));
        self.floor = self.floor.max(Some(floor));
    }

    fn text(&self, node: Node<'_>) -> &'w str {
        self.script.part(node.byte_range())
    }

    /// The context of a command that stands here.
    fn frame(&self) -> Frame {
        let mut frame = self.frame.clone();
        let context = self.around.iter().rev().find_map(|(_, context)| *context);
        frame.context = context.or(frame.context);
        frame
    }

    fn enter(&mut self, node: Node<'t>) -> Enter {
        if !node.is_named() {
            if KEYWORDS.contains(&node.kind()) && !self.is_a_word(node) {
                self.raise(Floor::UnparsedSubtree);
            }
            return Enter::Children;
        }
        if node.kind() == "variable_assignment" {
            self.reader.hear(|| phrases::assignment(self.script, node));
        }
        let is_word = !ONE_WORD.contains(&node.kind()) || is_in_one_piece(&self.script.text, node);
        let assigns = node.kind() != "variable_assignment" || self.has_a_name(node);
        if !is_word || !assigns {
            self.raise(Floor::UnparsedSubtree);
        }
        match node.kind() {
            "command" | "variable_assignments" => self.command(node),
            "variable_assignment" if !self.is_part_of_a_command() => self.command(node),
            "declaration_command" | "unset_command" | "test_command" => self.builtin(node),
            "redirected_statement" => self.redirected(node),
            "compound_statement" if node.child(0).is_some_and(|first| first.kind() == "((") => {
                self.builtin(node);
            }
            "subshell" => return self.construct(node, Some(CommandContext::Subshell)),
            "compound_statement"
            | "for_statement"
            | "c_style_for_statement"
            | "while_statement"
            | "if_statement"
            | "case_statement"
            | "function_definition" => return self.construct(node, None),
            "negated_command" => {
                // To bash `!a` is a name.
                let behind = self.text(node).chars().nth(1);
                if !behind.is_some_and(|next| matches!(next, ' ' | '\t' | '\n' | '(')) {
                    self.raise(Floor::UnparsedSubtree);
                }
                self.reader.whole(self.script, node.byte_range());
            }
            "command_substitution" => return self.substitution(node),
            "process_substitution" => {
                return self.inside(Some(CommandContext::ProcessSubstitution));
            }
            "list" | "pipeline" if !self.is_part_of_a_chain() => {
                self.reader.whole(self.script, node.byte_range());
            }
            "heredoc_redirect" => self.heredoc(node),
            "file_redirect" => self.redirection(node),
            "expansion" => {
                // An escaped brace does not end it. In quotes bash goes over the word in it twice, and takes other quotes away with
                // each pass.
                let written = self.text(node);
                let quoted = stands_in(&self.ancestors, &["string", "heredoc_body"])
                    && written.contains(['\'', '"'])
                    && written.contains(['(', '`']);
                if quoted || written.contains('\\') {
                    self.raise(Floor::UnparsedSubtree);
                }
            }
            kind if KNOWN.contains(&kind) => {}
            _ => self.raise(Floor::UnparsedSubtree),
        }
        Enter::Children
    }

    /// Whether a word of the shell stands there as a word of its own. To bash `if'x'` and `[[[` are names of commands.
    fn is_a_word(&self, keyword: Node<'t>) -> bool {
        let text = &self.script.text;
        let before = text.get(..keyword.start_byte()).unwrap_or_default();
        let behind = text.get(keyword.end_byte()..).unwrap_or_default();
        let in_backticks = self.ancestors.iter().any(|outer| {
            outer.kind() == "command_substitution" && self.text(*outer).starts_with('`')
        });
        let ends = |character: char| {
            matches!(
                character,
                ' ' | '\t' | '\n' | ';' | '&' | '|' | '(' | ')' | '<' | '>'
            ) || character == '`' && in_backticks
        };
        before.chars().next_back().is_none_or(ends) && behind.chars().next().is_none_or(ends)
    }

    /// Whether what an assignment assigns to may be called that. To bash it is a command otherwise.
    fn has_a_name(&self, assignment: Node<'t>) -> bool {
        let name = assignment
            .child(0)
            .map(|target| target.child(0).unwrap_or(target));
        name.is_some_and(|name| is_name(self.text(name)))
    }

    /// A construct that holds commands and is tried whole as well.
    fn construct(&mut self, node: Node<'t>, context: Option<CommandContext>) -> Enter {
        self.reader.whole(self.script, node.byte_range());
        self.inside(context)
    }

    /// What holds commands makes their context, unless it stands too deep.
    fn inside(&mut self, context: Option<CommandContext>) -> Enter {
        if self.around.len() >= MAX_NESTING {
            self.raise(Floor::Unparseable);
            return Enter::Nothing;
        }
        self.around.push((self.ancestors.len(), context));
        Enter::Children
    }

    fn substitution(&mut self, node: Node<'t>) -> Enter {
        let context = Some(CommandContext::CommandSubstitution);
        let written = self.text(node);
        if is_arithmetic(written) && self.is_in_heredoc() {
            return Enter::Nothing;
        }
        let quoted = stands_in(&self.ancestors, &["string", "heredoc_body"]);
        if !written.starts_with('`') || is_plain_between_backticks(written, quoted) {
            return self.inside(context);
        }
        // The tree shows the code as it was before the backslashes were taken away, and where backticks follow each other it
        // takes the blanks between them for code.
        self.backticks(written, node.start_byte(), quoted);
        Enter::Nothing
    }

    /// Reads the code between backticks in `written`, which stands at `start`.
    fn backticks(&mut self, written: &str, start: usize, quoted: bool) {
        let pieces = between_backticks(written);
        if pieces.len() != 1 {
            self.raise(Floor::UnparsedSubtree);
        }
        let mut frame = self.frame();
        frame.context = Some(CommandContext::CommandSubstitution);
        for (at, code) in pieces {
            let escapes: &[char] = if quoted {
                &['`', '$', '\\', '"']
            } else {
                &['`', '$', '\\']
            };
            let code = unescaped(code, start + at, escapes);
            let floor = self.reader.handed_on(self.script, code, &frame);
            self.floor = self.floor.max(floor);
        }
    }

    /// The grammar knows neither arithmetic nor backticks in a here-document.
    fn is_in_heredoc(&self) -> bool {
        self.ancestors
            .last()
            .is_some_and(|parent| parent.kind() == "heredoc_body")
    }

    fn heredoc(&mut self, node: Node<'t>) {
        let Some(heredoc) = Heredoc::at(&self.script.text, node) else {
            self.raise(Floor::Unparseable);
            return;
        };
        if !heredoc.ends_where_bash_ends_it() {
            self.raise(Floor::Unparseable);
        }
        if let Some((at, body)) = heredoc.lines().filter(|_| !heredoc.is_quoted())
            && has_backtick(body)
        {
            self.raise(Floor::UnparsedSubtree);
            self.backticks(body, at, true);
        }
    }

    /// A redirection that belongs to no command: of a function, or all that a substitution holds.
    fn redirection(&mut self, node: Node<'t>) {
        let owned = self.ancestors.last().is_some_and(|parent| {
            matches!(
                parent.kind(),
                "command" | "redirected_statement" | "heredoc_redirect"
            )
        });
        if owned {
            return;
        }
        let redirect = file_redirect(&self.script.text, node);
        self.floor = self.floor.max(redirect.floor);
        if !redirect.words.is_empty() {
            self.raise(Floor::UnparsedSubtree);
        }
    }

    fn is_part_of_a_command(&self) -> bool {
        self.ancestors.last().is_some_and(|parent| {
            matches!(
                parent.kind(),
                "command"
                    | "variable_assignments"
                    | "declaration_command"
                    | "c_style_for_statement"
                    | "binary_expression"
            )
        })
    }

    fn is_part_of_a_chain(&self) -> bool {
        self.ancestors
            .last()
            .is_some_and(|parent| matches!(parent.kind(), "list" | "pipeline"))
    }

    /// A command of the shell that the grammar knows by itself.
    fn builtin(&mut self, node: Node<'t>) {
        let mut words = Vec::new();
        let mut cursor = node.walk();
        for child in node.children(&mut cursor) {
            words.push(word(&self.script.text, child));
        }
        let frame = self.frame();
        let outside = self.gather(node);
        let hides = words
            .iter()
            .any(|word| word.is_literal && has_expansion(&word.value.text));
        let is_list = matches!(node.kind(), "declaration_command" | "unset_command");
        let joined = is_list && !are_apart(&self.script.text, node)
            || node.kind() == "test_command" && !is_test(&self.script.text, node);
        self.reader.doubt(joined.then_some(Floor::UnparsedSubtree));
        let floor = outside
            .floor
            .max(hides.then_some(Floor::Opaque))
            .max(joined.then_some(Floor::UnparsedSubtree));
        self.reader
            .hear(|| Some(phrases::builtin(self.script, node)));
        // Its words are not spelled anew: in a test they are an expression.
        self.reader
            .unit(self.script, node.byte_range(), &[], floor, &frame);
    }

    /// Hands redirections to the command that they belong to: the last one of what they stand behind.
    fn redirected(&mut self, node: Node<'t>) {
        let mut redirects: Vec<Node<'t>> = Vec::new();
        let mut body = None;
        let mut cursor = node.walk();
        for child in node.named_children(&mut cursor) {
            if is_redirect(child) {
                redirects.push(child);
            } else if child.kind() != "comment" {
                body = Some(child);
            }
        }
        redirects.extend(self.outside.remove(&node.id()).unwrap_or_default());
        let writes = redirects
            .iter()
            .any(|redirect| redirect.kind() == "file_redirect");
        if writes {
            self.reader.whole(self.script, node.byte_range());
        }
        while let Some(list) =
            body.filter(|body| matches!(body.kind(), "list" | "pipeline" | "negated_command"))
        {
            body = last_statement(list);
            if let Some(last) = body.filter(|_| writes) {
                // To bash it is this command alone that writes there, as if it stood alone on the line.
                self.reader
                    .whole(self.script, last.start_byte()..node.end_byte());
            }
        }
        if let Some(name) = body.filter(|_| writes).and_then(name_behind_assignments) {
            self.reader
                .whole(self.script, name.start_byte()..node.end_byte());
        }
        match body {
            Some(command) if TAKES_REDIRECTS.contains(&command.kind()) => {
                self.outside
                    .entry(command.id())
                    .or_default()
                    .extend(redirects);
            }
            // It is nested in this one, and comes later.
            Some(inner) if inner.kind() == "redirected_statement" => {
                self.outside
                    .entry(inner.id())
                    .or_default()
                    .extend(redirects);
            }
            // A construct, or nothing at all: there is no unit to carry the floor.
            Some(_) => {
                let gathered = Gathered::from_nodes(&self.script.text, &redirects);
                self.floor = self.floor.max(gathered.floor);
                if !gathered.words.is_empty() {
                    self.raise(Floor::UnparsedSubtree);
                }
            }
            None => {
                let gathered = Gathered::from_nodes(&self.script.text, &redirects);
                let frame = self.frame();
                let part = node.byte_range();
                self.reader.command(
                    self.script,
                    part,
                    &gathered.words,
                    gathered.floor,
                    None,
                    &frame,
                );
            }
        }
    }

    fn command(&mut self, node: Node<'t>) {
        let text = &self.script.text;
        let mut words: Vec<Word> = Vec::new();
        let mut floor = None;
        let mut input = None;
        let mut assigns = node.kind() != "command";
        let mut from = None;
        let mut redirects = false;
        let mut cursor = node.walk();
        if node.kind() == "command" {
            for child in node.children(&mut cursor) {
                match child.kind() {
                    "variable_assignment" => assigns = true,
                    "file_redirect" => {
                        redirects = true;
                        let redirect = file_redirect(text, child);
                        floor = floor.max(redirect.floor);
                        if !redirect.words.is_empty() {
                            from = from.or(Some(child.start_byte()));
                        }
                        words.extend(redirect.words);
                    }
                    "herestring_redirect" => input = here_string(text, child).or(input),
                    "comment" | "subshell" => {}
                    "command_name" => {
                        from = from.or(Some(child.start_byte()));
                        words.push(word(text, child.child(0).unwrap_or(child)));
                    }
                    _ => words.push(word(text, child)),
                }
            }
        }
        if node.kind() != "variable_assignment" && !are_apart(text, node) {
            floor = floor.max(Some(Floor::UnparsedSubtree));
        }
        let outside = self.gather(node);
        floor = floor.max(outside.floor);
        let extends = outside.words.last().map(|word| word.range.end);
        words.extend(outside.words);
        let input = outside.input.or(input);
        let frame = self.frame();
        let end = extends.unwrap_or(0).max(node.end_byte());
        let all = node.start_byte()..end;
        let part = from.unwrap_or(all.start)..end;
        if redirects {
            self.reader.whole(self.script, all.clone());
        }
        if assigns && !words.is_empty() {
            // With other variables it is another command.
            self.reader.unit(self.script, all, &[], None, &frame);
        }
        self.reader
            .command(self.script, part, &words, floor, input.as_ref(), &frame);
    }

    /// The redirections that were handed to a command.
    fn gather(&mut self, node: Node<'t>) -> Gathered {
        let outside = self.outside.remove(&node.id()).unwrap_or_default();
        Gathered::from_nodes(&self.script.text, &outside)
    }
}

/// The name of a command in front of which variables are set.
fn name_behind_assignments(command: Node<'_>) -> Option<Node<'_>> {
    let mut cursor = command.walk();
    let name = command
        .named_children(&mut cursor)
        .find(|child| child.kind() == "command_name")?;
    (command.kind() == "command" && name.start_byte() > command.start_byte()).then_some(name)
}

fn is_redirect(node: Node<'_>) -> bool {
    matches!(
        node.kind(),
        "file_redirect" | "heredoc_redirect" | "herestring_redirect"
    )
}

fn last_statement(node: Node<'_>) -> Option<Node<'_>> {
    let mut cursor = node.walk();
    node.named_children(&mut cursor)
        .filter(|child| child.kind() != "comment")
        .last()
}

/// Nodes whose parts follow each other without a blank.
const ONE_WORD: [&str; 3] = ["concatenation", "simple_expansion", "variable_assignment"];

/// Nodes that carry the redirections behind them.
const TAKES_REDIRECTS: [&str; 6] = [
    "command",
    "variable_assignment",
    "variable_assignments",
    "declaration_command",
    "unset_command",
    "test_command",
];

/// Words that mean something only where they stand alone.
pub(super) const KEYWORDS: [&str; 17] = [
    "if", "then", "else", "elif", "fi", "for", "select", "while", "until", "do", "done", "case",
    "esac", "in", "function", "[[", "]]",
];

/// Nodes that run nothing themselves; what stands in them is entered.
const KNOWN: [&str; 41] = [
    "ansi_c_string",
    "arithmetic_expansion",
    "array",
    "binary_expression",
    "brace_expression",
    "case_item",
    "command_name",
    "comment",
    "concatenation",
    "do_group",
    "elif_clause",
    "else_clause",
    "expansion",
    "extglob_pattern",
    "file_descriptor",
    "heredoc_body",
    "heredoc_content",
    "heredoc_end",
    "heredoc_start",
    "herestring_redirect",
    "list",
    "number",
    "parenthesized_expression",
    "pipeline",
    "postfix_expression",
    "program",
    "raw_string",
    "regex",
    "simple_expansion",
    "special_variable_name",
    "string",
    "string_content",
    "subscript",
    "ternary_expression",
    "test_operator",
    "translated_string",
    "unary_expression",
    "variable_assignment",
    "variable_name",
    "word",
    "ERROR",
];

//! The plain layout of a payload: one fact a line, its label before it.
//!
//! It says everything that the payload holds; budgets, colours and frames are for those who draw it. They take the facts in
//! two parts, because no budget may drop one of the first: [`core_rows`], then [`evidence_rows`]. Evidence that names what else is
//! asked ([`ALSO_ASKED`]) is of the first.
//!
//! Invariants: every text went through [`super::text`]; facts that may span lines (commands, evidence) are indented below
//! their label, wrapped or not, so no content reaches the column where labels stand; a label that the asker made up is
//! quoted, so it cannot pass for one of ours; what a model wrote is marked as such.

use std::borrow::Cow;

use super::{runs, text};
use crate::wire::{CommandContext, Evidence, Hop, PayloadKind, PromptPayload, RequestFacts};

/// Between a label and its text.
const SEPARATOR: &str = " : ";

/// Widest label column. A longer label is shown whole, but does not push the other texts aside.
const MAX_LABEL_COLUMNS: usize = 20;

/// Label of what a model wrote.
pub(super) const MODEL_LABEL: &str = "model note";

/// Label of evidence that is a core fact: one more name by which the same call is asked about, `surface: value`.
pub const ALSO_ASKED: &str = "also asked";

/// Labels that gates give to evidence, beside those of the formatters. Any other label is the asker's own wording.
const GATE_LABELS: [&str; 7] = [
    "full command",
    "input",
    "resolves to",
    "working directory",
    "external path",
    "read path",
    "message",
];

/// One labelled fact, made visible: the first line stands beside the label, the others below it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fact {
    /// What it is, visible.
    pub label: String,
    /// The text, visible, at least one line.
    pub lines: Vec<String>,
}

impl Fact {
    /// A fact that is one line whatever stands in it: line breaks are escaped.
    pub fn line(label: &str, untrusted: &str) -> Self {
        Self::shown(label, text::visible(untrusted).into_owned())
    }

    /// A fact whose line breaks are kept.
    pub fn block(label: &str, untrusted: &str) -> Self {
        Self {
            label: label.to_owned(),
            lines: text::lines(untrusted),
        }
    }

    /// A fact made of text that is visible already.
    pub(super) fn shown(label: &str, line: String) -> Self {
        Self {
            label: label.to_owned(),
            lines: vec![line],
        }
    }
}

/// The core facts, in order, with the sessions that the ask came through. No budget drops one of these.
pub fn core_rows(payload: &PromptPayload, path: &[Hop]) -> Vec<Fact> {
    let request = &payload.request;
    let requester = &request.requester;
    let tool = request.tool_name.as_deref();
    let value_label = value_label(payload);
    let mut facts = Vec::with_capacity(10);

    if requester.forwarded {
        let mut line = agent(requester.agent_name.as_deref().unwrap_or_default()).into_owned();
        if let Some(id) = &requester.session_id {
            line.push_str(" · session ");
            line.push_str(&name(id));
        }
        facts.push(Fact::shown("subagent", line));
    } else if let Some(name) = &requester.agent_name {
        facts.push(Fact::line("agent", name));
    }
    if !path.is_empty() {
        facts.push(Fact::shown("asked by", hops(path)));
    }
    if let Some(tool) = tool {
        let mut line = name(tool).into_owned();
        if let Some(alias) = &request.invoked_tool_name {
            line.push_str(" (invoked as ");
            line.push_str(&name(alias));
            line.push(')');
        }
        facts.push(Fact::shown("tool", line));
    }
    if tool != Some(&request.surface)
        && request.surface != value_label
        && !request.surface.is_empty()
    {
        facts.push(Fact::line("surface", &request.surface));
    }
    if let Some(rule) = &request.matched_pattern {
        facts.push(Fact::line("rule", rule));
    }
    if let Some(spelling) = &request.matched_spelling {
        facts.push(Fact::line("matched as", spelling));
    }
    if !request.value.is_empty() && tool != Some(&request.value) {
        facts.push(if value_label == "command" {
            Fact::block(value_label, &request.value)
        } else {
            Fact::line(value_label, &request.value)
        });
    }
    facts.extend(runs::facts(payload));
    facts.extend(also_asked(payload));
    if let Some(context) = request.command_context {
        facts.push(Fact::shown("context", context_name(context).to_owned()));
    }
    let texts = untrusted_texts(payload, path);
    if texts.iter().any(|untrusted| text::has_hidden(untrusted)) {
        let line = "characters that cannot be seen; they stand as <U+…>".to_owned();
        facts.push(Fact::shown("caution", line));
    }
    if texts.iter().any(|untrusted| text::has_lookalike(untrusted)) {
        let line = "letters or signs that look like others".to_owned();
        facts.push(Fact::shown("caution", line));
    }
    facts
}

/// What a yes lets pass beside what the question is put by: a line for each name, whatever stands in it.
fn also_asked(payload: &PromptPayload) -> Option<Fact> {
    let names = payload.evidence.iter();
    let names = names.filter(|entry| entry.label == ALSO_ASKED);
    let lines: Vec<String> = names
        .map(|entry| {
            let detail = entry.detail.iter().flat_map(|detail| [" → ", detail]);
            let whole: String = std::iter::once(entry.text.as_str()).chain(detail).collect();
            text::visible(&whole).into_owned()
        })
        .collect();
    (!lines.is_empty()).then(|| Fact {
        label: ALSO_ASKED.to_owned(),
        lines,
    })
}

/// The evidence that is no core fact.
pub fn evidence_beside_core(payload: &PromptPayload) -> impl Iterator<Item = &Evidence> {
    let evidence = payload.evidence.iter();
    evidence.filter(|entry| entry.label != ALSO_ASKED)
}

/// The evidence, but for what is a core fact, in the payload's order, then what a model wrote, marked as such.
pub fn evidence_rows(payload: &PromptPayload) -> Vec<Fact> {
    let evidence = evidence_beside_core(payload).map(|entry| {
        let mut fact = Fact::block(&evidence_label(&entry.label), &entry.text);
        if let Some(detail) = &entry.detail {
            let mut detail = text::lines(detail).into_iter();
            if let (Some(last), Some(first)) = (fact.lines.last_mut(), detail.next()) {
                last.push_str(" → ");
                last.push_str(&first);
            }
            fact.lines.extend(detail);
        }
        fact
    });
    let notes = payload.annotations.iter().map(|note| {
        let mut fact = Fact::block(MODEL_LABEL, &note.text);
        if let Some(first) = fact.lines.first_mut() {
            first.insert_str(0, &format!("by {}: ", name(&note.source)));
        }
        fact
    });
    evidence.chain(notes).collect()
}

/// Columns of the label column of a layout of `facts`.
pub fn label_width<'a>(facts: impl IntoIterator<Item = &'a Fact>) -> usize {
    facts
        .into_iter()
        .map(|fact| text::width(&fact.label))
        .filter(|width| *width <= MAX_LABEL_COLUMNS)
        .max()
        .unwrap_or(0)
}

/// One row of a layout, with what of it is the fact's own text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaidRow {
    /// The row as it is shown.
    pub text: String,
    /// Where in `text` the fact's own text begins, in bytes; everything before is label and indentation.
    pub text_at: usize,
    /// Which line of the fact it shows; `None` on a row that holds a label alone.
    pub line: Option<usize>,
    /// Where in that line its text begins, in bytes; off where a character before it was wider than a whole row.
    pub from: usize,
}

/// Rows of one fact beside a label column of `label_width`, wrapped to `columns` where given. Every row but the first is
/// indented, so what is wrapped never reaches the label column.
pub fn layout(fact: &Fact, label_width: usize, columns: Option<usize>) -> Vec<LaidRow> {
    let label_columns = text::width(&fact.label);
    let padding = label_width.saturating_sub(label_columns);
    let head = format!("{}{:padding$}{SEPARATOR}", fact.label, "");
    let full_indent = label_width + SEPARATOR.len();
    let Some(columns) = columns else {
        let whole = fact.lines.iter().map(|line| vec![line.clone()]);
        return beside(Some(head), full_indent, whole);
    };
    // A label column that takes half of the screen gives way: labels then stand on rows of their own.
    let wide_enough = full_indent <= columns / 2;
    let indent = if wide_enough {
        full_indent
    } else {
        2.min(columns / 2)
    };
    let wrapped = fact
        .lines
        .iter()
        .map(|line| text::wrap(line, columns - indent));
    if wide_enough && label_columns <= label_width {
        return beside(Some(head), full_indent, wrapped);
    }
    let label = text::wrap(head.trim_end(), columns - indent);
    let label = (0_usize..).zip(label).map(|(at, row)| {
        let text = if at == 0 { row } else { indented(indent, &row) };
        LaidRow {
            text_at: text.len(),
            text,
            line: None,
            from: 0,
        }
    });
    let below = beside(None, indent, wrapped);
    label.chain(below).collect()
}

/// Rows of one fact whose label takes only the room that it needs. Every row but the first is indented.
pub fn layout_tight(fact: &Fact, columns: usize) -> Vec<LaidRow> {
    let head = format!("{}{SEPARATOR}", fact.label);
    let indent = 2.min(columns / 2);
    let mut rows = Vec::new();
    for (line, text) in (0_usize..).zip(&fact.lines) {
        let label = if line == 0 { head.len() } else { 0 };
        let whole = if line == 0 {
            format!("{head}{text}")
        } else {
            text.clone()
        };
        let mut from = 0;
        // What has room beside its label needs none for an indentation.
        let has_room = rows.is_empty() && text::width(&whole) <= columns;
        let room = if has_room { columns } else { columns - indent };
        for row in text::wrap(&whole, room) {
            let margin = if rows.is_empty() || row.is_empty() {
                0
            } else {
                indent
            };
            // In one column what is wider stands as another character, and places are a little off.
            let own = row.floor_char_boundary(label.saturating_sub(from));
            let end = from + row.len();
            rows.push(LaidRow {
                text_at: margin + own,
                line: (end > label || label == 0).then_some(line),
                from: from.saturating_sub(label),
                text: format!("{:margin$}{row}", ""),
            });
            from = end;
        }
    }
    rows
}

/// Rows of lines that come wrapped, the first one behind `head` where there is one, the others indented.
fn beside(
    mut head: Option<String>,
    indent: usize,
    lines: impl Iterator<Item = Vec<String>>,
) -> Vec<LaidRow> {
    let mut rows = Vec::new();
    for (line, wrapped) in (0_usize..).zip(lines) {
        let mut from = 0;
        for row in wrapped {
            let (text, text_at) = match head.take() {
                Some(head) => (format!("{head}{row}"), head.len()),
                None => (
                    indented(indent, &row),
                    if row.is_empty() { 0 } else { indent },
                ),
            };
            rows.push(LaidRow {
                text,
                text_at,
                line: Some(line),
                from,
            });
            from += row.len();
        }
    }
    rows
}

/// All facts of a payload, complete, one row a line.
pub fn lines(payload: &PromptPayload) -> Vec<String> {
    lines_with_path(payload, &[])
}

/// All facts of a payload that came through other sessions, complete, one row a line.
pub fn lines_with_path(payload: &PromptPayload, path: &[Hop]) -> Vec<String> {
    let mut facts = core_rows(payload, path);
    facts.extend(evidence_rows(payload));
    rows(&facts)
}

/// The same facts as one text, for the `message` of the oldest peers.
pub fn plain_message(payload: &PromptPayload) -> String {
    lines(payload).join("\n")
}

/// The rows of `facts`, not wrapped.
fn rows(facts: &[Fact]) -> Vec<String> {
    let width = label_width(facts);
    facts
        .iter()
        .flat_map(|fact| layout(fact, width, None))
        .map(|row| row.text)
        .collect()
}

/// What the value of an ask is.
pub fn value_label(payload: &PromptPayload) -> &'static str {
    match payload.kind {
        PayloadKind::Bash | PayloadKind::BashExternalDirectory => "command",
        PayloadKind::Mcp => "target",
        PayloadKind::Tool => "tool",
        PayloadKind::Path | PayloadKind::ExternalDirectory => "path",
        PayloadKind::Skill | PayloadKind::SkillRead => "skill",
        PayloadKind::Forwarded => match payload.request.surface.as_str() {
            "bash" => "command",
            "skill" => "skill",
            _ => "value",
        },
    }
}

/// A context in words.
pub fn context_name(context: CommandContext) -> &'static str {
    match context {
        CommandContext::CommandSubstitution => "command substitution",
        CommandContext::ProcessSubstitution => "process substitution",
        CommandContext::Subshell => "subshell",
    }
}

/// The sessions that an ask came through, in a line.
pub(super) fn hops(path: &[Hop]) -> String {
    let hops: Vec<String> = path
        .iter()
        .map(|hop| format!("{} ({})", agent(&hop.agent_name), name(&hop.session_id)))
        .collect();
    hops.join(" → ")
}

/// Label of the link of the chain that an ask still waits for.
pub const WAITS_FOR: &str = "waits for";

/// Whom an ask waits for beside the person: this link of the chain, or none any more.
pub(super) fn waits_for(link: Option<&str>) -> Fact {
    let words = match link {
        Some(link) => format!("authorizer {}; you can decide first", name(link)),
        None => "you alone: no authorizer has decided".to_owned(),
    };
    Fact::shown(WAITS_FOR, words)
}

/// Whether a core fact is about the one ask alone, and not about others that are like it: who asks, and how far the chain is.
pub(super) fn is_of_one_ask(fact: &Fact) -> bool {
    matches!(
        fact.label.as_str(),
        "subagent" | "agent" | "asked by" | WAITS_FOR
    )
}

/// The name of an agent.
pub(super) fn agent(name: &str) -> Cow<'_, str> {
    if name.is_empty() {
        Cow::Borrowed("unknown")
    } else {
        self::name(name)
    }
}

/// A name that shares its line with words of ours: quoted where it holds anything that could pass for them.
pub(super) fn name(untrusted: &str) -> Cow<'_, str> {
    let simple = |character: char| character.is_alphanumeric() || "._-/:@+%~".contains(character);
    if !untrusted.is_empty() && untrusted.chars().all(simple) {
        text::visible(untrusted)
    } else {
        Cow::Owned(text::quoted(untrusted))
    }
}

/// Whether evidence has this label from a gate, and not from the asker.
pub(super) fn is_gate_label(label: &str) -> bool {
    GATE_LABELS.contains(&label) || super::evidence::LABELS.contains(&label)
}

/// A label that is not one of the gates' is quoted: it is the asker's wording and must not pass for a fact of ours.
pub(super) fn evidence_label(label: &str) -> String {
    if is_gate_label(label) {
        label.to_owned()
    } else {
        text::quoted(label)
    }
}

fn indented(indent: usize, line: &str) -> String {
    if line.is_empty() {
        String::new()
    } else {
        format!("{:indent$}{line}", "")
    }
}

/// Every text of an ask that is not ours. Taken apart field by field, so that a new field cannot be forgotten.
fn untrusted_texts<'a>(payload: &'a PromptPayload, path: &'a [Hop]) -> Vec<&'a str> {
    let PromptPayload {
        kind: _,
        request:
            RequestFacts {
                requester,
                surface,
                tool_name,
                invoked_tool_name,
                value,
                matched_pattern,
                command_context: _,
                executed_unit,
                matched_spelling,
            },
        evidence,
        annotations,
    } = payload;
    let optional = [
        &requester.agent_name,
        &requester.session_id,
        tool_name,
        invoked_tool_name,
        matched_pattern,
        executed_unit,
        matched_spelling,
    ];
    let evidence = evidence.iter().flat_map(|entry| {
        [Some(&entry.label), Some(&entry.text), entry.detail.as_ref()]
            .into_iter()
            .flatten()
    });
    let notes = annotations
        .iter()
        .flat_map(|note| [&note.source, &note.text]);
    let hops = path
        .iter()
        .flat_map(|hop| [&hop.session_id, &hop.agent_name]);
    [surface, value]
        .into_iter()
        .chain(optional.into_iter().flatten())
        .chain(evidence)
        .chain(notes)
        .chain(hops)
        .map(String::as_str)
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::wire::{Annotation, Requester};

    fn payload(kind: PayloadKind, surface: &str, tool: Option<&str>, value: &str) -> PromptPayload {
        let requester = Requester {
            agent_name: Some("scout".to_owned()),
            forwarded: true,
            session_id: Some("c-1".to_owned()),
        };
        let mut payload = PromptPayload::degraded(
            requester,
            Some(surface.to_owned()),
            Some(value.to_owned()),
            None,
        );
        payload.kind = kind;
        payload.request.tool_name = tool.map(str::to_owned);
        payload
    }

    fn row_texts(fact: &Fact, label_width: usize, columns: Option<usize>) -> Vec<String> {
        let rows = layout(fact, label_width, columns);
        for row in &rows {
            // What a row says about itself holds, unless a character did not fit into any row.
            let wide = columns.is_none_or(|columns| columns / 2 > 2);
            if let Some(line) = row.line.filter(|_| wide) {
                assert!(fact.lines[line][row.from..].starts_with(&row.text[row.text_at..]));
            }
        }
        rows.into_iter().map(|row| row.text).collect()
    }

    fn evidence(label: &str, text: &str, detail: Option<&str>) -> Evidence {
        Evidence {
            label: label.to_owned(),
            text: text.to_owned(),
            detail: detail.map(str::to_owned),
        }
    }

    #[test]
    fn what_else_is_asked_is_a_core_fact_of_a_line_for_each_name() {
        let mut ask = payload(PayloadKind::Path, "write", Some("write"), "/w/a");
        ask.evidence = vec![
            evidence(ALSO_ASKED, "external_directory_write: /etc/*x", None),
            evidence("input", "text", None),
            evidence(ALSO_ASKED, "edit: a\nbash: ls\u{1b}[2J", Some("d\n")),
        ];
        let core = core_rows(&ask, &[]);
        let also: Vec<&Fact> = core
            .iter()
            .filter(|fact| fact.label == ALSO_ASKED)
            .collect();
        assert_eq!(also.len(), 1);
        assert_eq!(
            also[0].lines,
            [
                "external_directory_write: /etc/*x",
                "edit: a<LF>bash: ls<ESC>[2J → d<LF>"
            ]
        );
        let evidence = evidence_rows(&ask);
        let labels: Vec<&str> = evidence.iter().map(|fact| fact.label.as_str()).collect();
        assert_eq!(labels, ["input"]);
    }

    #[test]
    fn all_facts_stand_in_order() {
        let mut ask = payload(PayloadKind::Bash, "bash", Some("bash"), "rm -rf /t");
        ask.request.invoked_tool_name = Some("zsh".to_owned());
        ask.request.matched_pattern = Some("rm *".to_owned());
        ask.request.executed_unit = Some("rm -rf /t".to_owned());
        ask.request.command_context = Some(CommandContext::Subshell);
        ask.evidence = vec![
            evidence("full command", "cd /t &&\n(rm -rf /t)", None),
            evidence("working directory", "/w", Some("/real/w")),
        ];
        ask.annotations = vec![Annotation {
            source: "judge".to_owned(),
            text: "removes a tree\nfor good".to_owned(),
        }];
        let path = [Hop {
            session_id: "m".to_owned(),
            agent_name: String::new(),
        }];
        insta::assert_snapshot!(lines_with_path(&ask, &path).join("\n"), @r#"
        subagent          : scout · session c-1
        asked by          : unknown (m)
        tool              : bash (invoked as zsh)
        rule              : rm *
        command           : rm -rf /t
        runs              : rm -rf /t
        context           : subshell
        full command      : cd /t &&
                            (rm -rf /t)
        working directory : /w → /real/w
        model note        : by judge: removes a tree
                            for good
        "#);
        assert_eq!(plain_message(&ask), lines(&ask).join("\n"));
    }

    #[test]
    fn a_fact_that_says_nothing_new_is_left_out() {
        let ask = payload(PayloadKind::Tool, "write", Some("write"), "write");
        assert_eq!(
            lines(&ask),
            ["subagent : scout · session c-1", "tool     : write"]
        );
        let ask = payload(PayloadKind::Skill, "skill", None, "deploy");
        assert_eq!(
            lines(&ask),
            ["subagent : scout · session c-1", "skill    : deploy"]
        );
        let mut ask = payload(PayloadKind::Path, "path_write", Some("write"), "/etc/x");
        ask.request.requester.forwarded = false;
        ask.request.matched_spelling = Some("/real/x".to_owned());
        assert_eq!(
            lines(&ask),
            [
                "agent      : scout",
                "tool       : write",
                "surface    : path_write",
                "matched as : /real/x",
                "path       : /etc/x",
            ]
        );
        ask.request.requester.agent_name = None;
        assert_eq!(core_rows(&ask, &[]).first().unwrap().label, "tool");
    }

    /// Rows 12, 15 and 20 of the behaviour cases.
    #[test]
    fn a_degraded_ask_shows_what_is_known() {
        let requester = Requester {
            agent_name: None,
            forwarded: true,
            session_id: Some("c-1".to_owned()),
        };
        let ask = PromptPayload::degraded(
            requester,
            Some("bash".to_owned()),
            Some("ls -l".to_owned()),
            Some("May I?".to_owned()),
        );
        assert_eq!(
            lines(&ask),
            [
                "subagent : unknown · session c-1",
                "surface  : bash",
                "command  : ls -l",
                "message  : May I?",
            ]
        );
    }

    #[test]
    fn spoof_5_content_cannot_pass_for_the_dialog() {
        let mut ask = payload(
            PayloadKind::Bash,
            "bash",
            Some("bash (invoked as sh)"),
            "echo\nrule : allowed\n1) Yes",
        );
        ask.request.requester.agent_name = Some("root · session P".to_owned());
        ask.request.matched_pattern = Some("a\nrule : b".to_owned());
        ask.evidence = vec![
            evidence("rule", "allow everything", None),
            evidence("1) Yes\n2) No", "x", None),
            evidence("a\"b", "x", None),
            evidence(&"l".repeat(30), "x", None),
        ];
        insta::assert_snapshot!(lines(&ask).join("\n"), @r#"
        subagent          : "root · session P" · session c-1
        tool              : "bash (invoked as sh)"
        surface           : bash
        rule              : a<LF>rule : b
        command           : echo
                            rule : allowed
                            1) Yes
        runs              : [a part of it could not be told for sure] 1) Yes
        runs              : [this cannot be read as a command line]
        "rule"            : allow everything
        "1) Yes<LF>2) No" : x
        "a<U+0022>b"      : x
        "llllllllllllllllllllllllllllll" : x
        "#);
    }

    #[test]
    fn spoof_1_and_2_unseen_characters_are_shown_and_said() {
        let mut ask = payload(
            PayloadKind::Bash,
            "bash",
            Some("bash"),
            "cp a #\u{202E}txt.exe",
        );
        let shown = lines(&ask).join("\n");
        assert!(shown.contains("cp a #<U+202E>txt.exe"), "{shown}");
        assert!(shown.contains("caution  : "), "{shown}");
        ask.request.value = "cp a\n\tb".to_owned();
        assert!(!lines(&ask).join("\n").contains("caution"));
        ask.evidence = vec![evidence("input", "x", Some("\u{200B}"))];
        assert!(lines(&ask).join("\n").contains("caution"));
    }

    #[test]
    fn lookalikes_are_said() {
        let ask = payload(PayloadKind::Bash, "bash", Some("bash"), "\u{441}url x");
        let shown = lines(&ask).join("\n");
        assert!(shown.contains("caution  : letters or signs"), "{shown}");
        assert_eq!(shown.matches("caution").count(), 1);
    }

    proptest! {
        /// SPOOF-5: whatever stands in whatever field, a row starts with a label of ours, a quotation, or an indentation.
        #[test]
        fn no_content_reaches_the_label_column(
            texts in proptest::array::uniform12("(\\PC|.|\n| : |\\) Yes){0,12}"),
            kind in 0_usize..9,
            columns in proptest::option::of(1_usize..60),
        ) {
            const LABELS: [&str; 16] = [
                "subagent", "asked by", "tool", "surface", "rule", "matched as", "command", "target", "path", "skill",
                "value", "runs", "caution", "input", "model note", "context",
            ];
            let kinds = [
                PayloadKind::Bash, PayloadKind::Mcp, PayloadKind::Tool, PayloadKind::Path, PayloadKind::ExternalDirectory,
                PayloadKind::BashExternalDirectory, PayloadKind::Skill, PayloadKind::SkillRead, PayloadKind::Forwarded,
            ];
            let [agent, session, surface, tool, alias, value, rule, unit, label, text, detail, note] = texts;
            let mut ask = payload(kinds[kind], &surface, Some(&tool), &value);
            ask.request.requester.agent_name = Some(agent.clone());
            ask.request.requester.session_id = Some(session.clone());
            ask.request.invoked_tool_name = Some(alias.clone());
            ask.request.matched_pattern = Some(rule);
            ask.request.matched_spelling = Some(unit.clone());
            ask.request.executed_unit = Some(unit);
            ask.evidence = vec![evidence(&label, &text, Some(&detail)), evidence("input", &text, None)];
            ask.annotations = vec![Annotation { source: alias, text: note }];
            let path = [Hop { session_id: session, agent_name: agent }];
            let mut facts = core_rows(&ask, &path);
            facts.extend(evidence_rows(&ask));
            let width = label_width(&facts);
            for fact in &facts {
                let tight = columns.map(|columns| layout_tight(fact, columns)).unwrap_or_default();
                for (nth, row) in tight.into_iter().enumerate() {
                    prop_assert!(columns.is_none_or(|columns| text::width(&row.text) <= columns));
                    let indented = row.text.is_empty() || row.text.starts_with(' ');
                    prop_assert!(nth == 0 || columns == Some(1) || indented, "{:?}", row);
                    prop_assert!(row.text.is_char_boundary(row.text_at), "{:?}", row);
                }
                for (nth, row) in row_texts(fact, width, columns).into_iter().enumerate() {
                    prop_assert!(!row.chars().any(|c| c != '\u{FE0F}' && text::is_hidden(c)), "{:?}", row);
                    if let Some(columns) = columns {
                        prop_assert!(text::width(&row) <= columns, "{:?}", row);
                    }
                    if nth == 0 {
                        let labelled = LABELS.contains(&fact.label.as_str()) || fact.label.starts_with('"');
                        prop_assert!(labelled, "{:?}", fact.label);
                    } else if columns.is_none_or(|columns| columns > 1) {
                        prop_assert!(row.is_empty() || row.starts_with(' '), "{:?}", row);
                    }
                }
            }
        }
    }

    #[test]
    fn wrapped_text_stays_right_of_the_labels() {
        let fact = Fact::block("command", "echo one two three four\nls");
        assert_eq!(
            row_texts(&fact, 8, Some(24)),
            [
                "command  : echo one two ",
                "           three four",
                "           ls",
            ]
        );
        // Too narrow for a label column.
        assert_eq!(
            row_texts(&fact, 8, Some(12)),
            [
                "command  :",
                "  echo one ",
                "  two three ",
                "  four",
                "  ls"
            ]
        );
        let long = Fact::line("\"a label as long as that\"", "x");
        assert_eq!(
            row_texts(&long, 4, Some(18)),
            [
                "\"a label ",
                "       as long as ",
                "       that\" :",
                "       x"
            ]
        );
        for columns in 0..40 {
            for row in row_texts(&fact, 8, Some(columns)) {
                assert!(text::width(&row) <= columns);
            }
        }
    }
}

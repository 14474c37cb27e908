//! What an agent that speaks ACP says about a call that it asks for, as a call of a tool that is known here.
//!
//! The protocol has no names of tools. It has a kind, a title for people, the raw input where the agent sends it, and what would
//! change as diffs. A fact that rules are held against is taken from the raw input or a diff alone, never from the title: that is
//! written to be read, and may be cut or decorated.

use serde_json::{Map, Value, json};

use crate::presentation::evidence::pointed_at;
use crate::wire::Evidence;

/// Names under which agents give the command of an execution.
const COMMANDS: [&str; 2] = ["command", "cmd"];
/// Names under which agents give the directory that it runs in.
const DIRECTORIES: [&str; 5] = [
    "cwd",
    "workdir",
    "working_directory",
    "workingDirectory",
    "directory",
];
/// What an execution is called here whose command is not stated.
const UNSEEN: &str = "execute";
/// Members of an execution's input by which more is asked for than the command: a host on the network, more than its sandbox gives.
const BEYOND: [&str; 2] = ["url", "additionalPermissions"];
/// Programs that take a whole command line behind `-c`.
const SHELLS: [&str; 5] = ["bash", "sh", "zsh", "dash", "ksh"];
/// Members of the raw input by which an edit is told from one that names a file alone.
const EDITS: [&str; 13] = [
    "content",
    "contents",
    "edits",
    "old_string",
    "oldString",
    "old_str",
    "oldText",
    "new_string",
    "newString",
    "new_str",
    "newText",
    "patch",
    "diff",
];

/// One call of a tool, as far as an agent states it.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    /// Name of the tool: the agent's own where it says so, else what its kind is called here.
    pub tool: String,
    /// Its input.
    pub input: Value,
    /// What the agent says about it beside the input.
    pub evidence: Vec<Evidence>,
    /// The files that it works on, where they are several.
    pub files: Vec<String>,
    /// The directory that the input names.
    pub directory: Option<String>,
    /// Id of the call in the agent's session.
    pub id: Option<String>,
}

impl Call {
    /// The call that a `toolCall` object describes.
    pub(super) fn of(tool_call: &Value) -> Self {
        let text = |key: &str| tool_call.get(key).and_then(Value::as_str);
        let raw = tool_call.get("rawInput").filter(|raw| !raw.is_null());
        let title = text("title").filter(|title| !title.trim().is_empty());
        let diffs = diffs(tool_call);
        let paths = paths(tool_call, raw, &diffs);
        let mut evidence = Vec::new();
        let (tool, input) = match (named(tool_call), text("kind")) {
            (Some(tool), _) => (tool.to_owned(), raw.cloned().unwrap_or_else(|| json!({}))),
            (None, Some("execute")) => execution(raw, title),
            (None, Some("read")) => at_path("read", raw, &paths),
            (None, Some("edit")) => edit(raw, &diffs, &paths),
            (None, Some(kind @ ("delete" | "move"))) => at_path(kind, raw, &paths),
            (None, kind) => (
                kind.filter(|kind| *kind != "other")
                    .or_else(|| text("name").filter(|name| !name.is_empty()))
                    .or(kind)
                    .unwrap_or("tool")
                    .to_owned(),
                raw.cloned().unwrap_or_else(|| json!({})),
            ),
        };
        // The input of a tool that is named says itself what it works on.
        let is_several = paths.len() > 1
            && named(tool_call).is_none()
            && matches!(text("kind"), Some("read" | "edit" | "delete" | "move"));
        let stated = if tool == UNSEEN {
            input.get("title").and_then(Value::as_str)
        } else {
            stated(&input)
        };
        if let Some(title) = title.filter(|title| stated != Some(*title)) {
            evidence.push(entry("title", title));
        }
        if paths.len() > 1 {
            evidence.push(entry("files", &paths.join("\n")));
        }
        evidence.extend(shown_diffs(&diffs, &input));
        evidence.extend(words(tool_call));
        Self {
            directory: raw
                .and_then(|raw| first_text(raw, &DIRECTORIES))
                .map(str::to_owned),
            id: text("toolCallId").map(str::to_owned),
            tool,
            input,
            evidence,
            files: if is_several { paths } else { Vec::new() },
        }
    }
}

/// The name of the tool, where the agent says it beside the protocol.
fn named(tool_call: &Value) -> Option<&str> {
    let name = tool_call.pointer("/_meta/claudeCode/toolName")?.as_str()?;
    (!name.is_empty()).then_some(name)
}

/// What an input says that a title may repeat.
fn stated(input: &Value) -> Option<&str> {
    first_text(input, &COMMANDS).or_else(|| pointed_at(input))
}

/// The execution of a command. Where the command itself is not stated, or is not all that is asked for, it is a tool of its own, known
/// by its title: no rule for commands can know what would be allowed.
fn execution(raw: Option<&Value>, title: Option<&str>) -> (String, Value) {
    let members = raw.and_then(Value::as_object);
    let command = members.and_then(|members| {
        let mut names = COMMANDS.iter();
        names.find_map(|name| Some((*name, command_line(members.get(*name)?)?)))
    });
    let is_all = !members.is_some_and(|members| {
        let mut beyond = BEYOND.iter().filter_map(|name| members.get(*name));
        beyond.any(|value| !value.is_null())
    });
    let (tool, said, name) = match command {
        Some((name, command)) if is_all => ("bash", Some(("command", command)), name),
        Some(_) | None => (
            UNSEEN,
            title.map(|title| ("title", title.to_owned())),
            "title",
        ),
    };
    let mut input: Map<String, Value> = Map::new();
    input.extend(said.map(|(key, text)| (key.to_owned(), text.into())));
    // What was found has the last word under its key.
    let others = members.into_iter().flatten();
    let others = others.filter(|(key, _)| key.as_str() != name && !input.contains_key(*key));
    let others: Vec<_> = others
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    input.extend(others);
    (tool.to_owned(), Value::Object(input))
}

/// A command line: as it is, or of words that are given one by one.
fn command_line(value: &Value) -> Option<String> {
    let words = match value {
        Value::String(line) => return (!line.trim().is_empty()).then(|| line.clone()),
        Value::Array(words) => words,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => return None,
    };
    let words: Vec<&str> = words.iter().map(Value::as_str).collect::<Option<_>>()?;
    if let [shell, "-c" | "-lc", script] = words.as_slice() {
        let name = shell.rsplit('/').next().unwrap_or(shell);
        if SHELLS.contains(&name) {
            return Some((*script).to_owned());
        }
    }
    let quoted: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    (!quoted.is_empty()).then(|| quoted.join(" "))
}

/// A word as a shell takes it for that word.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-.,/:@%+=".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// Something that is done to what lies at one path. About several at once no rule for paths can say anything.
fn at_path(tool: &str, raw: Option<&Value>, paths: &[String]) -> (String, Value) {
    match paths {
        [path] => {
            let known = raw.filter(|raw| pointed_at(raw) == Some(path));
            let input = known.cloned().unwrap_or_else(|| json!({"path": path}));
            (tool.to_owned(), input)
        }
        [] | [_, _, ..] => (
            format!("{tool}_files"),
            raw.cloned().unwrap_or_else(|| json!({})),
        ),
    }
}

/// An edit of one file, from the input or, where that says nothing, from the diff that the agent shows.
fn edit(raw: Option<&Value>, diffs: &[Diff], paths: &[String]) -> (String, Value) {
    let says_edit = raw.is_some_and(|raw| EDITS.iter().any(|name| raw.get(name).is_some()));
    match (paths, diffs) {
        ([path], [diff]) if !says_edit || raw.and_then(pointed_at) != Some(path) => match &diff.old
        {
            Some(old) => (
                "edit".to_owned(),
                json!({"path": path, "oldText": old, "newText": diff.new}),
            ),
            None => (
                "write".to_owned(),
                json!({"path": path, "content": diff.new}),
            ),
        },
        ([_], _) if raw.is_some_and(writes_whole) => at_path("write", raw, paths),
        _ => at_path("edit", raw, paths),
    }
}

/// Whether an input is a file's whole content.
fn writes_whole(raw: &Value) -> bool {
    raw.get("content").is_some_and(Value::is_string)
}

/// One change of a file, as the agent shows it.
struct Diff {
    path: String,
    old: Option<String>,
    new: String,
}

fn diffs(tool_call: &Value) -> Vec<Diff> {
    contents(tool_call)
        .filter(|block| block.get("type").and_then(Value::as_str) == Some("diff"))
        .filter_map(|block| {
            let text = |key: &str| Some(block.get(key)?.as_str()?.to_owned());
            Some(Diff {
                path: text("path")?,
                old: text("oldText"),
                new: text("newText")?,
            })
        })
        .collect()
}

fn contents(tool_call: &Value) -> impl Iterator<Item = &Value> {
    tool_call
        .get("content")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
}

/// Every path that the call says it is about, each once.
fn paths(tool_call: &Value, raw: Option<&Value>, diffs: &[Diff]) -> Vec<String> {
    let located = tool_call
        .get("locations")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(|location| location.get("path")?.as_str());
    let named = raw.and_then(pointed_at);
    let mut paths: Vec<String> = Vec::new();
    let shown = diffs.iter().map(|diff| diff.path.as_str());
    for path in named.into_iter().chain(shown).chain(located) {
        if !path.is_empty() && !paths.iter().any(|known| known == path) {
            paths.push(path.to_owned());
        }
    }
    paths
}

/// The diffs that the agent shows, where they are not the input itself.
fn shown_diffs(diffs: &[Diff], input: &Value) -> Vec<Evidence> {
    let is_input = |diff: &Diff| {
        let text = |key: &str| input.get(key).and_then(Value::as_str);
        text("newText") == Some(&diff.new) || text("content") == Some(&diff.new)
    };
    let shown = diffs.iter().filter(|diff| !is_input(diff));
    shown
        .map(|diff| {
            let (tool, input) = match &diff.old {
                Some(old) => (
                    "edit",
                    json!({"path": diff.path, "oldText": old, "newText": diff.new}),
                ),
                None => ("write", json!({"path": diff.path, "content": diff.new})),
            };
            let made = crate::presentation::evidence::Formatters::default().evidence(
                &crate::presentation::evidence::Call {
                    tool,
                    input: &input,
                    value: &diff.path,
                    files: &crate::presentation::evidence::NoFiles,
                },
            );
            made.into_iter().map(|entry| Evidence {
                detail: entry
                    .detail
                    .or_else(|| Some("as the agent shows it".to_owned())),
                ..entry
            })
        })
        .fold(Vec::new(), |mut all, made| {
            all.extend(made);
            all
        })
}

/// The texts that the agent adds.
fn words(tool_call: &Value) -> Vec<Evidence> {
    contents(tool_call)
        .filter(|block| block.get("type").and_then(Value::as_str) == Some("content"))
        .filter_map(|block| block.pointer("/content/text")?.as_str())
        .filter(|text| !text.trim().is_empty())
        .map(|text| entry("asker's words", text))
        .collect()
}

fn first_text<'a>(value: &'a Value, names: &[&str]) -> Option<&'a str> {
    let found = names.iter().find_map(|name| value.get(*name)?.as_str());
    found.filter(|text| !text.is_empty())
}

fn entry(label: &str, text: &str) -> Evidence {
    Evidence {
        label: label.to_owned(),
        text: text.to_owned(),
        detail: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_of_words_is_the_line_that_a_shell_takes_for_them() {
        for (words, line) in [
            (json!("make"), Some("make")),
            (
                json!(["git", "commit", "-m", "it's done"]),
                Some(r"git commit -m 'it'\''s done'"),
            ),
            (json!(["bash", "-lc", "ls | wc"]), Some("ls | wc")),
            (json!(["/bin/sh", "-c", "ls"]), Some("ls")),
            // What stands behind the script is more than the script.
            (
                json!(["sh", "-c", "ls \"$1\"", "x", "y"]),
                Some("sh -c 'ls \"$1\"' x y"),
            ),
            (json!(["echo", ""]), Some("echo ''")),
            (json!(["rm", 7]), None),
            (json!([]), None),
            (json!("  "), None),
            (json!({"a": 1}), None),
        ] {
            assert_eq!(command_line(&words).as_deref(), line, "{words}");
        }
    }

    #[test]
    fn what_is_found_under_another_name_has_the_last_word() {
        let call = Call::of(
            &json!({"kind": "execute", "rawInput": {"command": 7, "cmd": ["ls", "-l"], "cwd": "/w"}}),
        );
        assert_eq!(
            (call.tool.as_str(), call.input),
            ("bash", json!({"command": "ls -l", "cwd": "/w"}))
        );
    }

    #[test]
    fn a_call_that_says_nothing_is_asked_about_all_the_same() {
        for (said, tool) in [
            (json!({}), "tool"),
            (json!(null), "tool"),
            (json!({"kind": "execute"}), "execute"),
            (
                json!({"kind": "edit", "content": [{"type": "diff"}, 7]}),
                "edit_files",
            ),
            (
                json!({"kind": "read", "locations": [{"path": ""}]}),
                "read_files",
            ),
        ] {
            let call = Call::of(&said);
            assert_eq!(
                (call.tool.as_str(), call.input),
                (tool, json!({})),
                "{said}"
            );
        }
    }
}

//! One call of a tool, as its host states it, and what of it is asked.
//!
//! Hosts call the same thing by different names. A rule is written for one: so a command line is asked on `bash`, a file on `read`,
//! `write`, `edit`, `find`, `grep` or `ls`, a tool of an MCP server on `mcp` as `server:tool`, a skill on `skill`. Every other tool
//! is a surface of its own, by the name that the host gives it.

use std::borrow::Cow;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;

use super::opened::Told;
use crate::ask::PlainAsk;
use crate::policy::{BASH_SURFACE, OUTSIDE_SANDBOX_SURFACE};
use crate::presentation::evidence::{Patched, patched, pointed_at, value_of};
use crate::wire::{
    ApprovalGrant, Evidence, Hop, PayloadKind, SENTINEL_INPUT_UNREAD, SENTINEL_OUTSIDE_SANDBOX,
    SENTINEL_TOO_MANY_FILES, is_unseen,
};

/// Most files of one patch that rules are held against one by one.
const MAX_PATCHED: usize = 64;

/// How the tools of MCP servers are named by those who put both names into one.
const MCP_PREFIX: &str = "mcp__";

/// Most readings of one name that rules are held against. One that can be read in more than one way is asked about anyway.
const MAX_READINGS: usize = 16;

/// Names under which tools are told a path. A host that takes members which its tool does not know may be told more than one.
pub(super) const PATH_MEMBERS: [&str; 7] = [
    "path",
    "file_path",
    "filePath",
    "absolute_path",
    "notebook_path",
    "dir_path",
    "directory",
];

/// Names under which tools are told a command line.
const COMMAND_MEMBERS: [&str; 3] = ["command", "cmd", "script"];

/// By which a call says that it is not to run in the sandbox.
const DISABLE_SANDBOX: &str = "dangerouslyDisableSandbox";

/// Lifts an allow to an ask: the input names more than one path, and it cannot be seen which one counts.
const FLOOR_PATHS: &str = "<paths-differ>";
/// Lifts an allow to an ask: the name of the tool can be read as one of several servers.
const FLOOR_SERVER: &str = "<server-unclear>";
/// Lifts an allow to an ask: it is not certain which file the host opens by this path.
const FLOOR_UNCLEAR: &str = "<path-unclear>";

/// One call of a tool, as its host states it.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolCall {
    /// The host's own name of the tool.
    pub tool: String,
    /// The tool's own input.
    pub input: Value,
    /// The directory that the agent works in: what its relative paths are relative to.
    pub cwd: PathBuf,
    /// The subagent that calls, where it is one of the host's own.
    pub agent: Option<Subagent>,
    /// The files that it works on, where they are more than its input says.
    pub files: Vec<String>,
    /// What could be granted for the session.
    pub grants: Vec<ApprovalGrant>,
    /// The MCP server that has the tool, where the host names it by itself.
    pub mcp_server: Option<String>,
    /// The servers that may have the tool and the name that it has there, where the host's own name is made of both in its own way. The
    /// likeliest is the first.
    pub(super) mcp_readings: Vec<(String, String)>,
    /// The members that the tool takes its path from, where its name alone does not say that.
    pub(super) path_members: &'static [&'static str],
    /// Paths that were told in another way than as the path that is opened.
    pub(super) told: Vec<Told>,
    /// Id of the ask where the host has one.
    pub id: Option<String>,
    /// Id of the call, where the host says it.
    pub use_id: Option<String>,
    /// How the host itself spells the tool, where it makes one name of a server and its tool and says both apart as well.
    pub spelled: Option<String>,
    /// How long to wait at most, where that is not what the configuration says.
    pub timeout: Option<Duration>,
    /// What helps to decide beyond the input, which is laid out by itself.
    pub evidence: Vec<Evidence>,
    /// Whether it would run outside of the sandbox that its host keeps such calls in.
    leaves_sandbox: bool,
}

/// A subagent that its host runs within one session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subagent {
    /// Its id, unique within the session.
    pub id: String,
    /// What it is called, which selects the rules for it.
    pub kind: String,
}

/// What of a call is asked: the words of the rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// The surface.
    pub surface: String,
    /// The kind of the gate.
    pub kind: PayloadKind,
    /// The command, path, target or name.
    pub value: String,
}

impl Asked {
    fn new(surface: &str, kind: PayloadKind, value: &str) -> Self {
        Self {
            surface: surface.to_owned(),
            kind,
            value: value.to_owned(),
        }
    }

    /// The ask in plain words, without evidence. The tool is known by the name that the rules have for it.
    pub fn plain(&self) -> PlainAsk {
        PlainAsk {
            tool: self.surface.clone(),
            surface: self.surface.clone(),
            kind: Some(self.kind),
            value: self.value.clone(),
            evidence: Vec::new(),
        }
    }
}

impl ToolCall {
    /// A call of this tool with this input, and nothing else known of it.
    pub fn new(tool: impl Into<String>, input: Value, cwd: impl Into<PathBuf>) -> Self {
        let asks_to_leave = input
            .get(DISABLE_SANDBOX)
            .is_some_and(|said| !matches!(said, Value::Null | Value::Bool(false)));
        let mut call = Self {
            tool: tool.into(),
            input,
            cwd: cwd.into(),
            agent: None,
            files: Vec::new(),
            grants: Vec::new(),
            mcp_server: None,
            mcp_readings: Vec::new(),
            path_members: &[],
            told: Vec::new(),
            id: None,
            use_id: None,
            spelled: None,
            timeout: None,
            evidence: Vec::new(),
            leaves_sandbox: false,
        };
        if asks_to_leave {
            call.leave_sandbox("the call asks for that");
        }
        call
    }

    /// The call would run outside of the sandbox: a fact of the host, which a person is to see.
    pub(super) fn leave_sandbox(&mut self, why: &str) {
        if !std::mem::replace(&mut self.leaves_sandbox, true) {
            self.evidence.push(Evidence {
                label: "sandbox".to_owned(),
                text: format!("a yes lets it run outside the sandbox: {why}"),
                detail: None,
            });
        }
    }

    /// What is asked. A tool whose input lacks what its surface is about is asked about by its name, as one that nobody knows.
    pub fn asked(&self) -> Asked {
        self.named(self.within())
    }

    /// What is asked of a call that is known to be this one: a command that leaves the sandbox is none like it that stays within.
    pub fn named(&self, asked: Asked) -> Asked {
        if self.leaves_sandbox && asked.kind == PayloadKind::Bash {
            return Asked::new(OUTSIDE_SANDBOX_SURFACE, asked.kind, &asked.value);
        }
        if self.leaves_unseen() {
            return Asked::new(OUTSIDE_SANDBOX_SURFACE, PayloadKind::Tool, &self.tool);
        }
        asked
    }

    /// Whether it leaves the sandbox, and what it does there is told by no command line. A tool of files does what its path says,
    /// wherever it is carried out, and so does a patch; a tool of a server was never in the sandbox.
    fn leaves_unseen(&self) -> bool {
        let is_told = file_surface(&self.tool).is_some() || is_patch(&self.tool);
        self.leaves_sandbox && !is_told && !self.is_of_server()
    }

    fn within(&self) -> Asked {
        if let Some(target) = self.mcp_targets().into_iter().next() {
            return Asked::new("mcp", PayloadKind::Mcp, &target);
        }
        if let Some(command) = self.command_line() {
            return Asked::new(BASH_SURFACE, PayloadKind::Bash, &command);
        }
        let paths = self.paths();
        if let (Some(surface), Some(path)) = (file_surface(&self.tool), paths.first()) {
            return Asked::new(surface, PayloadKind::Path, path);
        }
        if let Some(patched) = patched_files(self).filter(|patched| patched.is_clear)
            && let [path] = patched.paths.as_slice()
        {
            return Asked::new("edit", PayloadKind::Path, path);
        }
        if matches!(self.tool.as_str(), "Skill" | "skill")
            && let Some(skill) = value_of(PayloadKind::Skill, &self.input)
        {
            return Asked::new("skill", PayloadKind::Skill, skill);
        }
        // Of several files none stands for the others.
        if let ([path], []) = (paths.as_slice(), self.files.as_slice())
            && pointed_at(&self.input).is_some()
        {
            return Asked::new(&self.tool, PayloadKind::Path, path);
        }
        let value = self.telling().unwrap_or(&self.tool);
        Asked::new(&self.tool, PayloadKind::Tool, value)
    }

    /// What else rules are held against: the name that the host has for the tool, other readings of its server, and the files that
    /// the call works on, as paths and, where `is_outside` says so, as ones outside of the working directory. Where that directory is
    /// not known, everything is outside. What leaves the sandbox is held against what it is within, too, which is the first. These can hold a
    /// call back; none of them lets it run.
    pub fn guards(&self, asked: &Asked, is_outside: impl Fn(&str) -> bool) -> Vec<Asked> {
        let mut guards = Vec::new();
        // What leaves the sandbox is the first of them as what it is within.
        let within = (asked.surface == OUTSIDE_SANDBOX_SURFACE).then(|| {
            if asked.kind == PayloadKind::Bash {
                Asked::new(BASH_SURFACE, asked.kind, &asked.value)
            } else {
                self.within()
            }
        });
        guards.extend(within.clone());
        let inner = within.as_ref().unwrap_or(asked);
        for name in std::iter::once(&self.tool).chain(&self.spelled) {
            if inner.surface != *name {
                guards.push(Asked::new(name, inner.kind, &inner.value));
            }
        }
        // All but the one that is asked about: of a tool that is known to run command lines, that is none.
        for target in &self.mcp_targets() {
            let guard = Asked::new("mcp", PayloadKind::Mcp, target);
            if guard != *inner {
                guards.push(guard);
            }
        }
        let patched = match patched_files(self) {
            Some(patched) => patched.paths,
            None => self.files.iter().map(Into::into).collect(),
        };
        let is_patch = !patched.is_empty();
        let one = (inner.kind == PayloadKind::Path).then_some(inner.value.as_str());
        let direction = match inner.surface.as_str() {
            "read" | "find" | "grep" | "ls" | "read_files" | "read_many_files" => "_read",
            "write" | "edit" => "_write",
            _ if is_patch => "_write",
            _ => "",
        };
        let is_unclear = |path: &str| {
            let mut told = self.told.iter();
            told.any(|told| told.opened.is_none() && told.text == path)
        };
        let is_pattern = |path: &str| asked.surface == "find" && path.starts_with('~');
        let is_outside = |path: &str| {
            !self.cwd.is_absolute() || is_unclear(path) || is_pattern(path) || is_outside(path)
        };
        let mut hold = |surface: Option<&str>, path: &str, is_outside: bool| {
            if let Some(surface) = surface {
                guards.push(Asked::new(surface, PayloadKind::Path, path));
            }
            let of = |family: &str, kind| Asked::new(&format!("{family}{direction}"), kind, path);
            guards.push(of("path", PayloadKind::Path));
            if is_outside {
                guards.push(of("external_directory", PayloadKind::ExternalDirectory));
            }
        };
        if let Some(path) = one {
            hold(None, path, is_outside(path));
        } else {
            let surface = if direction == "_read" { "read" } else { "edit" };
            for path in patched.iter().take(MAX_PATCHED) {
                hold(Some(surface), path, is_outside(path));
            }
        }
        if inner.kind != PayloadKind::Mcp {
            let paths = self.paths();
            for path in &paths {
                if one != Some(path.as_str()) && !patched.iter().any(|file| file == path) {
                    let is_of_files = one.is_some() || inner.kind == PayloadKind::Tool;
                    let surface = is_of_files.then_some(inner.surface.as_str());
                    hold(surface, path, is_outside(path));
                }
            }
            for told in &self.told {
                match &told.opened {
                    Some(opened) if paths.contains(opened) => {
                        hold(one.map(|_| inner.surface.as_str()), &told.text, false);
                    }
                    Some(opened) => hold(None, opened, is_outside(opened)),
                    None => {}
                }
            }
        }
        guards
    }

    /// What lifts an allow of a rule to an ask: it is not certain that what it was held against is what would be done. A grant that a
    /// person gave for what is asked about answers it, unless there is something that no rule was held against: see [`is_unseen`].
    pub fn floor(&self) -> Option<&'static str> {
        if self.is_of_server() {
            if self.mcp_targets().len() >= MAX_READINGS {
                return Some(SENTINEL_INPUT_UNREAD);
            }
            return (!self.is_server_clear()).then_some(FLOOR_SERVER);
        }
        let is_command = self.command_line().is_some();
        if is_shell(&self.tool) && !is_command {
            return Some(SENTINEL_INPUT_UNREAD);
        }
        if !self.is_seen_whole() {
            let files = patched_files(self).map_or(self.files.len(), |patched| patched.paths.len());
            return Some(if files > MAX_PATCHED {
                SENTINEL_TOO_MANY_FILES
            } else {
                SENTINEL_INPUT_UNREAD
            });
        }
        if file_surface(&self.tool).is_none() {
            // A patch does what stands in it, wherever it is carried out.
            let leaves = self.leaves_sandbox && !is_patch(&self.tool);
            return leaves.then_some(SENTINEL_OUTSIDE_SANDBOX);
        }
        let is_no_text = |name: &&str| {
            let said = self.input.get(*name);
            said.is_some_and(|said| !said.is_null() && !said.is_string())
        };
        let paths = self.paths();
        if paths.is_empty() || PATH_MEMBERS.iter().any(is_no_text) {
            return Some(SENTINEL_INPUT_UNREAD);
        }
        if paths.len() > 1 {
            return Some(FLOOR_PATHS);
        }
        self.is_unclear().then_some(FLOOR_UNCLEAR)
    }

    /// Whether it works on something that no rule was held against. Then nothing but an answer to this very call lets it run.
    pub fn is_unseen(&self) -> bool {
        self.floor().is_some_and(is_unseen)
    }

    fn is_unclear(&self) -> bool {
        self.told.iter().any(|told| told.opened.is_none())
    }

    /// The tool and the input as they are laid out for a person: a command line is one, whatever the tool is called and however it is told.
    pub fn laid_out(&self, asked: &Asked) -> (&str, Cow<'_, Value>) {
        let as_it_is = (self.tool.as_str(), Cow::Borrowed(&self.input));
        let said = |name: &&&str| self.input.get(**name).is_some_and(|said| !said.is_null());
        let mut told = COMMAND_MEMBERS.iter().filter(said);
        let (Some(member), None) = (told.next(), told.next()) else {
            return as_it_is;
        };
        let is_line = self.command_line().is_some_and(|line| line == asked.value);
        let Some(mut members) = self.input.as_object().cloned().filter(|_| is_line) else {
            return as_it_is;
        };
        members.remove(*member);
        members.insert("command".to_owned(), asked.value.as_str().into());
        (BASH_SURFACE, Cow::Owned(Value::Object(members)))
    }

    /// The command line that the call runs. A tool that nobody knows and that is told one is taken to run it.
    fn command_line(&self) -> Option<Cow<'_, str>> {
        let is_known = file_surface(&self.tool).is_some()
            || is_patch(&self.tool)
            || matches!(self.tool.as_str(), "Skill" | "skill" | "execute");
        if is_known || self.is_of_server() {
            return None;
        }
        if let Some(command) = self.text(&COMMAND_MEMBERS) {
            return Some(Cow::Borrowed(command));
        }
        let words = COMMAND_MEMBERS
            .iter()
            .find_map(|name| self.input.get(*name)?.as_array())?;
        let words: Option<Vec<String>> =
            words.iter().map(|word| word.as_str().map(quoted)).collect();
        let line = words?.join(" ");
        (!line.is_empty()).then_some(Cow::Owned(line))
    }

    /// The paths that the input names, each once. That of the member which the tool uses is the first.
    fn paths(&self) -> Vec<String> {
        let mut paths: Vec<String> = Vec::new();
        let mut add = |path: &str| {
            if !path.trim().is_empty() && !paths.iter().any(|known| known == path) {
                paths.push(path.to_owned());
            }
        };
        let surface = file_surface(&self.tool);
        let own = match self.path_members {
            [] => own_path_members(&self.tool),
            told => told,
        };
        let said = self.text(own);
        let searched = self.pattern_start(said.unwrap_or("."));
        if let Some(start) = &searched {
            add(start);
        } else if let Some(said) = said {
            add(said);
        } else if matches!(surface, Some("find" | "grep" | "ls")) {
            // A search without a path searches where the agent works.
            add(".");
        }
        let is_joined = searched.is_some_and(|start| !start.starts_with(['/', '~']));
        let others = PATH_MEMBERS.iter();
        for other in others.filter(|name| !is_joined || !own.contains(name)) {
            if let Some(path) = self.text(&[other]) {
                add(path);
            }
        }
        paths
    }

    /// Where a pattern of names leads, as far as it has no wildcards, if that is elsewhere.
    fn pattern_start(&self, directory: &str) -> Option<String> {
        let pattern = self.text(&["pattern"])?;
        if file_surface(&self.tool) != Some("find") || !leads_elsewhere(pattern) {
            return None;
        }
        let parts = pattern.split('/');
        let fixed: Vec<&str> = parts
            .take_while(|part| !part.contains(['*', '?', '[', '{', '(', '!', '\\']))
            .collect();
        let start = fixed.join("/");
        Some(match (pattern.starts_with(['/', '~']), start.is_empty()) {
            (true, true) => "/".to_owned(),
            (true, false) => start,
            (false, true) => directory.to_owned(),
            (false, false) => format!("{directory}/{start}"),
        })
    }

    /// Whether rules can be held against everything that the call works on. What cannot be seen whole is asked about.
    pub fn is_seen_whole(&self) -> bool {
        let is_whole = |files: usize| files <= MAX_PATCHED;
        is_whole(self.files.len())
            && (!is_patch(&self.tool)
                || patched_files(self)
                    .is_some_and(|patched| patched.is_clear && is_whole(patched.paths.len())))
    }

    /// Whether the path that is asked about is all that the call looks at. A pattern may lead elsewhere, and so may a second path.
    /// Where the agent works in no directory that is known, nothing is within it.
    pub fn looks_at_its_path_only(&self) -> bool {
        self.cwd.is_absolute()
            && self.asked().kind == PayloadKind::Path
            && self.floor().is_none()
            && self.paths().len() <= 1
            && !(file_surface(&self.tool) == Some("find")
                && self.text(&["pattern"]).is_some_and(leads_elsewhere))
    }

    /// Whether an MCP server has the tool.
    pub(super) fn is_of_server(&self) -> bool {
        !self.mcp_targets().is_empty()
    }

    /// The tool of an MCP server as `server:tool`, in each way that it can be read, the likeliest first.
    pub(super) fn mcp_targets(&self) -> Vec<String> {
        let in_name = self.tool.strip_prefix(MCP_PREFIX);
        let mut targets: Vec<String> = Vec::new();
        for (server, tool) in self.mcp_readings.iter().take(MAX_READINGS) {
            for server in std::iter::once(server.clone()).chain(normalised(server)) {
                let target = format!("{server}:{tool}");
                if !targets.contains(&target) {
                    targets.push(target);
                }
            }
        }
        if !targets.is_empty() {
            return targets;
        }
        if let Some(server) = &self.mcp_server {
            // The name of a server may have the separator in it, so the one that is told counts.
            let tool = in_name.and_then(|name| of_server(name, server));
            let is_clear = in_name.is_none() || tool.is_some();
            let tool = tool.or(in_name).unwrap_or(&self.tool);
            targets.push(format!("{server}:{tool}"));
            for server in normalised(server) {
                targets.push(format!("{server}:{tool}"));
            }
            if is_clear {
                targets.dedup();
                return targets;
            }
        }
        let name = in_name.unwrap_or_default();
        for (at, _) in name.match_indices('_') {
            if targets.len() < MAX_READINGS
                && let Some((server, tool)) = name.split_at_checked(at)
                && let Some(tool) = tool.strip_prefix("__")
                && !server.is_empty()
                && !tool.is_empty()
            {
                targets.push(format!("{server}:{tool}"));
            }
        }
        targets.dedup();
        targets
    }

    /// Whether it is certain which server has the tool.
    fn is_server_clear(&self) -> bool {
        if !self.mcp_readings.is_empty() {
            // The host's own tool of patches has a name that looks like one of a server.
            return self.mcp_readings.len() == 1 && !self.spelled.as_deref().is_some_and(is_patch);
        }
        let in_name = self.tool.strip_prefix(MCP_PREFIX);
        match (&self.mcp_server, in_name) {
            (Some(server), Some(name)) => of_server(name, server).is_some(),
            (Some(_), None) => true,
            (None, _) => self.mcp_targets().len() <= 1,
        }
    }

    /// What tells more of a call than the name of its tool, where rules will want to tell such calls apart.
    fn telling(&self) -> Option<&str> {
        let names: &[&str] = match self.tool.as_str() {
            "WebFetch" | "webfetch" | "web_fetch" | "fetch" => &["url"],
            // What would run is not known, only what its agent calls it.
            "execute" => &["title"],
            "Agent" | "Task" | "task" => &["subagent_type"],
            "invoke_agent" => &["agent_name"],
            _ => return None,
        };
        self.text(names)
    }

    fn text(&self, names: &[&str]) -> Option<&str> {
        let texts = names
            .iter()
            .filter_map(|name| self.input.get(name)?.as_str());
        texts.into_iter().find(|text| !text.trim().is_empty())
    }

    /// The directory that the call itself names to run in.
    pub fn directory(&self) -> Option<&str> {
        let names: &[&str] = match self.tool.as_str() {
            // It takes other members as well, and does not look at them.
            "run_shell_command" => &["dir_path", "directory"],
            tool if is_shell(tool) => &[
                "cwd",
                "workdir",
                "working_directory",
                "dir_path",
                "directory",
            ],
            _ => return None,
        };
        self.text(names)
    }
}

/// The members that this tool of files takes its path from.
fn own_path_members(tool: &str) -> &'static [&'static str] {
    match tool {
        "NotebookRead" | "NotebookEdit" => &["notebook_path"],
        "Read" | "Write" | "Edit" | "MultiEdit" | "read_file" | "write_file" | "replace" => {
            &["file_path"]
        }
        "Glob" | "Grep" | "LS" => &["path"],
        "glob" | "grep_search" | "search_file_content" | "list_directory" => &["dir_path", "path"],
        "read" | "write" | "edit" | "multiedit" => &["filePath", "path"],
        _ => &PATH_MEMBERS,
    }
}

/// Whether a pattern of names may lead out of the directory that it is looked for in.
fn leads_elsewhere(pattern: &str) -> bool {
    pattern.starts_with(['/', '~']) || pattern.split('/').any(|part| part.contains(".."))
}

/// The tool in a name that a host made of both, where it is one of this server.
fn of_server<'a>(name: &'a str, server: &str) -> Option<&'a str> {
    let spellings = std::iter::once(server.to_owned()).chain(normalised(server));
    let mut tools = spellings.filter_map(|server| {
        let tool = name.strip_prefix(&server)?.strip_prefix("__")?;
        Some(tool).filter(|tool| !tool.is_empty())
    });
    tools.next()
}

/// How hosts spell the name of a server within that of a tool, where that is another way: other characters become underscores, and
/// some put one for several.
fn normalised(server: &str) -> Vec<String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let each: String = server
        .chars()
        .map(|c| if plain(c) { c } else { '_' })
        .collect();
    if each == server {
        return Vec::new();
    }
    let parts = each.split('_').filter(|part| !part.is_empty());
    let few = parts.collect::<Vec<_>>().join("_");
    let mut spellings = vec![each];
    if !few.is_empty() && !spellings.contains(&few) {
        spellings.push(few);
    }
    spellings
}

/// A word as it stands on a command line.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "_-+=.,/:@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// Names under which hosts run command lines.
fn is_shell(tool: &str) -> bool {
    matches!(
        tool,
        "Bash"
            | "bash"
            | "Monitor"
            | "shell"
            | "local_shell"
            | "exec_command"
            | "run_shell_command"
    )
}

fn is_patch(tool: &str) -> bool {
    matches!(tool, "apply_patch" | "patch")
}

/// The files that a patch names.
fn patched_files(call: &ToolCall) -> Option<Patched<'_>> {
    is_patch(&call.tool).then(|| patched(&call.input)).flatten()
}

/// The surface of a tool that works on files.
pub(super) fn file_surface(tool: &str) -> Option<&'static str> {
    Some(match tool {
        "Read" | "read" | "read_file" | "NotebookRead" => "read",
        "Write" | "write" | "write_file" => "write",
        "Edit" | "edit" | "MultiEdit" | "multiedit" | "NotebookEdit" | "replace" => "edit",
        "Glob" | "glob" | "find" => "find",
        "Grep" | "grep" | "grep_search" | "search_file_content" => "grep",
        "LS" | "ls" | "list" | "list_directory" => "ls",
        _ => return None,
    })
}

/// The sessions that an ask of a host comes by, outermost child first: the subagent, then the sessions that `within` names in the same
/// order. The last of all is the one that asks, so it is not among them.
pub fn agent_sessions(own: &Hop, within: &[Hop], agent: Option<&Subagent>) -> Vec<Hop> {
    let session = within.first().unwrap_or(own);
    let subagent = agent.map(|agent| Hop {
        session_id: format!("{}.{}", session.session_id, agent.id),
        agent_name: agent.kind.clone(),
    });
    subagent.into_iter().chain(within.iter().cloned()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn asked(tool: &str, input: Value) -> (String, PayloadKind, String) {
        let Asked {
            surface,
            kind,
            value,
        } = ToolCall::new(tool, input, "/w").asked();
        (surface, kind, value)
    }

    fn is(surface: &str, kind: PayloadKind, value: &str) -> (String, PayloadKind, String) {
        (surface.to_owned(), kind, value.to_owned())
    }

    #[test]
    fn the_names_of_hosts_become_the_surfaces_of_rules() {
        for tool in ["Bash", "shell", "run_shell_command", "exec_command"] {
            let found = asked(tool, json!({"command": "ls -l", "description": "look"}));
            assert_eq!(found, is("bash", PayloadKind::Bash, "ls -l"), "{tool}");
        }
        for (tool, surface) in [
            ("Read", "read"),
            ("Write", "write"),
            ("MultiEdit", "edit"),
            ("replace", "edit"),
        ] {
            let found = asked(tool, json!({"file_path": "a.rs"}));
            assert_eq!(found, is(surface, PayloadKind::Path, "a.rs"), "{tool}");
        }
        assert_eq!(
            asked("NotebookEdit", json!({"notebook_path": "/w/n.ipynb"})),
            is("edit", PayloadKind::Path, "/w/n.ipynb")
        );
        assert_eq!(
            asked("Glob", json!({"pattern": "**/*.rs"})),
            is("find", PayloadKind::Path, ".")
        );
        assert_eq!(
            asked("Skill", json!({"skill": "deploy"})),
            is("skill", PayloadKind::Skill, "deploy")
        );
        assert_eq!(
            asked(
                "WebFetch",
                json!({"url": "https://example.com", "prompt": "x"})
            ),
            is("WebFetch", PayloadKind::Tool, "https://example.com")
        );
    }

    #[test]
    fn what_lacks_what_its_surface_is_about_is_asked_by_its_name() {
        for (tool, input) in [
            ("Bash", json!({"cmdline": "ls"})),
            ("Bash", json!({"command": ["ls", 7]})),
            ("Bash", json!({"command": 7})),
            ("Bash", json!("ls")),
            ("Read", json!({})),
            ("Skill", json!({"nothing": 1})),
            ("Nobody knows", json!(null)),
        ] {
            assert_eq!(asked(tool, input), is(tool, PayloadKind::Tool, tool));
        }
        assert_eq!(
            asked("Upload", json!({"path": "/etc/passwd"})),
            is("Upload", PayloadKind::Path, "/etc/passwd")
        );
    }

    fn guards(tool: &str, input: Value) -> Vec<(String, String)> {
        let call = ToolCall::new(tool, input, "/w");
        let guards = call.guards(&call.asked(), |path| path.starts_with("/etc"));
        guards
            .into_iter()
            .map(|guard| (guard.surface, guard.value))
            .collect()
    }

    fn owned<const N: usize>(pairs: [(&str, &str); N]) -> Vec<(String, String)> {
        pairs.map(|(a, b)| (a.to_owned(), b.to_owned())).to_vec()
    }

    #[test]
    fn rules_are_held_against_each_of_several_files_and_none_of_them_is_asked_about() {
        let mut call = ToolCall::new("edit_files", json!({"path": "a"}), "/w");
        call.files = vec!["a".to_owned(), "/etc/passwd".to_owned()];
        let asked = call.asked();
        assert_eq!(
            (asked.kind, asked.value.as_str()),
            (PayloadKind::Tool, "edit_files")
        );
        let guards = call.guards(&asked, |path| path.starts_with("/etc"));
        let guards = guards.into_iter().map(|guard| (guard.surface, guard.value));
        assert_eq!(
            guards.collect::<Vec<_>>(),
            owned([
                ("edit", "a"),
                ("path_write", "a"),
                ("edit", "/etc/passwd"),
                ("path_write", "/etc/passwd"),
                ("external_directory_write", "/etc/passwd"),
            ])
        );
        assert!(call.is_seen_whole());
        call.files = vec![String::new(); MAX_PATCHED + 1];
        assert!(!call.is_seen_whole());
    }

    #[test]
    fn rules_for_paths_and_for_the_hosts_own_name_hold_as_well() {
        assert_eq!(
            guards("Bash", json!({"command": "ls"})),
            owned([("Bash", "ls")])
        );
        assert_eq!(guards("WebSearch", json!({"query": "x"})), []);
        assert_eq!(
            guards("Read", json!({"file_path": "/etc/passwd"})),
            owned([
                ("Read", "/etc/passwd"),
                ("path_read", "/etc/passwd"),
                ("external_directory_read", "/etc/passwd")
            ])
        );
        assert_eq!(
            guards("Edit", json!({"file_path": "a"})),
            owned([("Edit", "a"), ("path_write", "a")])
        );
        assert_eq!(
            guards("Upload", json!({"path": "/etc/passwd"})),
            owned([
                ("path", "/etc/passwd"),
                ("external_directory", "/etc/passwd")
            ])
        );
    }

    #[test]
    fn a_pattern_that_leads_elsewhere_and_a_list_of_paths_are_more_than_a_path() {
        let only =
            |tool: &str, input: Value| ToolCall::new(tool, input, "/w").looks_at_its_path_only();
        assert!(only("Glob", json!({"pattern": "**/*.rs"})));
        assert!(only("Read", json!({"file_path": "/etc/passwd"})));
        assert!(only("Grep", json!({"pattern": "/etc", "path": "src"})));
        for pattern in ["/etc/**", "~/x", "../**", "a/../../b", "{..,a}/x"] {
            assert!(!only("Glob", json!({"pattern": pattern})), "{pattern}");
        }
        assert!(!only("read_many_files", json!({"paths": ["/etc/passwd"]})));
        assert!(!only("Read", json!({})));
    }

    #[test]
    fn each_file_of_a_patch_is_looked_at() {
        let patch = |files: &[&str]| {
            let files = files
                .iter()
                .map(|file| format!("*** Delete File: {file}\n"));
            let text: String = files.collect();
            json!({"command": format!("*** Begin Patch\n{text}*** End Patch\n")})
        };
        let one = patch(&["a"]);
        assert_eq!(
            asked("apply_patch", one.clone()),
            is("edit", PayloadKind::Path, "a")
        );
        assert_eq!(
            guards("apply_patch", one),
            owned([("apply_patch", "a"), ("path_write", "a")])
        );
        let two = patch(&["a", "/etc/b"]);
        assert_eq!(
            asked("apply_patch", two.clone()),
            is("apply_patch", PayloadKind::Tool, "apply_patch")
        );
        assert_eq!(
            guards("apply_patch", two),
            owned([
                ("edit", "a"),
                ("path_write", "a"),
                ("edit", "/etc/b"),
                ("path_write", "/etc/b"),
                ("external_directory_write", "/etc/b")
            ])
        );
        let names: Vec<String> = (0..65).map(|n| n.to_string()).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        for (input, is_whole) in [
            (patch(&names), false),
            (patch(&["a"]), true),
            (json!({"command": "nonsense"}), false),
        ] {
            assert_eq!(
                ToolCall::new("apply_patch", input, "/w").is_seen_whole(),
                is_whole
            );
        }
    }

    #[test]
    fn the_tool_of_a_server_is_named_with_its_server() {
        let target = |tool: &str, server: Option<&str>| {
            let mut call = ToolCall::new(tool, json!({"path": "x"}), "/w");
            call.mcp_server = server.map(str::to_owned);
            let asked = call.asked();
            (asked.surface, asked.value)
        };
        let mcp = |value: &str| ("mcp".to_owned(), value.to_owned());
        assert_eq!(target("mcp__tickets__close", None), mcp("tickets:close"));
        assert_eq!(target("mcp__a__b__close", Some("a__b")), mcp("a__b:close"));
        assert_eq!(target("close", Some("tickets")), mcp("tickets:close"));
        assert_eq!(target("mcp__x__y", Some("other")), mcp("other:x__y"));
        let odd = target("mcp__my_srv_x__delete_x", Some("my.srv x"));
        assert_eq!(odd, mcp("my.srv x:delete_x"));
        let odd = target("mcp__claude_ai_Linear__close", Some("claude.ai  Linear"));
        assert_eq!(odd, mcp("claude.ai  Linear:close"));
        assert_eq!(target("mcp__alone", None).0, "mcp__alone");
    }

    #[test]
    fn every_reading_of_a_server_can_hold_a_call_back_and_an_unclear_one_is_asked() {
        let mut call = ToolCall::new("mcp__a__b__wipe", json!({"path": "x"}), "/w");
        let targets = |call: &ToolCall| {
            let guards = call.guards(&call.asked(), |_| false).into_iter();
            let guards = guards.filter(|guard| guard.surface == "mcp");
            guards.map(|guard| guard.value).collect::<Vec<_>>()
        };
        assert_eq!(call.asked().value, "a:b__wipe");
        assert_eq!(targets(&call), ["a__b:wipe"]);
        assert_eq!(call.floor(), Some(FLOOR_SERVER));
        call.mcp_server = Some("a__b".to_owned());
        assert_eq!(call.asked().value, "a__b:wipe");
        assert_eq!(targets(&call), [] as [&str; 0]);
        assert_eq!(call.floor(), None);
        call.mcp_server = Some("other".to_owned());
        assert_eq!(targets(&call), ["a:b__wipe", "a__b:wipe"]);
        assert_eq!(call.floor(), Some(FLOOR_SERVER));
        let mut call = ToolCall::new("mcp__my_srv_x__wipe", json!({}), "/w");
        call.mcp_server = Some("my.srv x".to_owned());
        assert_eq!(targets(&call), ["my_srv_x:wipe"]);
        assert_eq!(call.floor(), None);
    }

    #[test]
    fn the_member_that_a_tool_uses_is_asked_about_and_every_other_one_holds_it_back() {
        let input = json!({"path": "ok/x", "file_path": "/etc/evil", "content": "x"});
        let call = ToolCall::new("write_file", input.clone(), "/w");
        let is_asked = asked("write_file", input.clone());
        assert_eq!(is_asked, is("write", PayloadKind::Path, "/etc/evil"));
        assert_eq!(
            guards("write_file", input),
            owned([
                ("write_file", "/etc/evil"),
                ("path_write", "/etc/evil"),
                ("external_directory_write", "/etc/evil"),
                ("write", "ok/x"),
                ("path_write", "ok/x"),
            ])
        );
        assert_eq!(call.floor(), Some(FLOOR_PATHS));
        for (tool, input, path) in [
            ("read_file", json!({"path": "a", "file_path": "b"}), "b"),
            (
                "list_directory",
                json!({"path": ".", "dir_path": "/etc"}),
                "/etc",
            ),
            (
                "grep_search",
                json!({"path": ".", "dir_path": "/etc"}),
                "/etc",
            ),
            ("grep_search", json!({"file_path": "a"}), "."),
            ("Read", json!({"path": "a", "file_path": "b"}), "b"),
            ("read", json!({"path": "a", "filePath": "b"}), "b"),
        ] {
            let call = ToolCall::new(tool, input.clone(), "/w");
            assert_eq!(call.asked().value, path, "{tool} {input}");
            assert_eq!(call.floor(), Some(FLOOR_PATHS), "{tool} {input}");
            assert!(!call.looks_at_its_path_only(), "{tool} {input}");
        }
        // One that cannot be read was held against nothing.
        let unread = json!({"path": ["a"], "file_path": "b"});
        let unread = ToolCall::new("Read", unread, "/w");
        assert_eq!(unread.floor(), Some(SENTINEL_INPUT_UNREAD));
        assert!(unread.is_unseen() && !unread.looks_at_its_path_only());
        let same = json!({"path": "a", "file_path": "a"});
        let same = ToolCall::new("Read", same, "/w");
        assert_eq!((same.floor(), same.looks_at_its_path_only()), (None, true));
        // Of a tool that nobody knows, no path stands for another.
        let input = json!({"path": "ok/x", "file_path": "/etc/evil"});
        let is_asked = asked("Upload", input.clone());
        assert_eq!(is_asked, is("Upload", PayloadKind::Tool, "Upload"));
        assert!(guards("Upload", input).contains(&("Upload".to_owned(), "/etc/evil".to_owned())));
    }

    #[test]
    fn whatever_is_told_a_command_line_runs_it() {
        for (tool, input, line) in [
            (
                "Monitor",
                json!({"command": "rm -rf x", "timeout_ms": 1}),
                "rm -rf x",
            ),
            ("PowerShell", json!({"script": "ls"}), "ls"),
            ("Nobody knows", json!({"cmd": "ls"}), "ls"),
            (
                "Bash",
                json!({"command": ["rm", "-rf", "a b", "it's"]}),
                r"rm -rf 'a b' 'it'\''s'",
            ),
            (
                "shell",
                json!({"command": ["bash", "-lc", "rm x; ls"]}),
                "bash -lc 'rm x; ls'",
            ),
        ] {
            assert_eq!(
                asked(tool, input),
                is("bash", PayloadKind::Bash, line),
                "{tool}"
            );
        }
        for (tool, input) in [
            ("Bash", json!({"command": 7})),
            ("Bash", json!({"command": []})),
            ("Read", json!({})),
        ] {
            let call = ToolCall::new(tool, input, "/w");
            assert_eq!(call.floor(), Some(SENTINEL_INPUT_UNREAD), "{tool}");
        }
        let mut of_server = ToolCall::new("run", json!({"command": "ls"}), "/w");
        of_server.mcp_server = Some("tickets".to_owned());
        assert_eq!(of_server.asked().surface, "mcp");
    }

    #[test]
    fn what_is_to_leave_the_sandbox_is_asked_as_that_and_held_back_by_what_holds_back_the_command()
    {
        let call = |said: Value| {
            let input = json!({"command": "make", "dangerouslyDisableSandbox": said});
            ToolCall::new("Bash", input, "/w")
        };
        for said in [json!(true), json!("true"), json!(1)] {
            let call = call(said);
            let asked = call.asked();
            assert_eq!(
                asked,
                Asked::new("outside_sandbox", PayloadKind::Bash, "make")
            );
            let guards = call.guards(&asked, |_| false).into_iter();
            let guards = guards.map(|guard| (guard.surface, guard.value));
            assert_eq!(
                guards.collect::<Vec<_>>(),
                owned([("bash", "make"), ("Bash", "make")])
            );
            assert_eq!(call.floor(), Some(SENTINEL_OUTSIDE_SANDBOX));
            assert_eq!(call.evidence.len(), 1);
        }
        for said in [json!(false), json!(null)] {
            let call = call(said);
            assert_eq!(
                (call.asked().surface.as_str(), call.floor()),
                ("bash", None)
            );
        }
        // What is no command is let out by its name, and held back by what it is within. A patch needs no leave.
        let leaving = |tool: &str, input: Value| {
            let mut call = ToolCall::new(tool, input, "/w");
            call.leave_sandbox("x");
            let asked = call.asked();
            let guards = call.guards(&asked, |path| path.starts_with("/etc"));
            let guards = guards.into_iter().map(|guard| (guard.surface, guard.value));
            let guards: Vec<_> = guards.collect();
            ((asked.surface, asked.value), call.floor(), guards)
        };
        let outside = |tool: &str| ("outside_sandbox".to_owned(), tool.to_owned());
        for (tool, input, floor, guards) in [
            (
                "REPL",
                json!({"code": "x"}),
                SENTINEL_OUTSIDE_SANDBOX,
                owned([("REPL", "REPL")]),
            ),
            (
                "Bash",
                json!({"command": 7}),
                SENTINEL_INPUT_UNREAD,
                owned([("Bash", "Bash")]),
            ),
            (
                "Upload",
                json!({"path": "/etc/a"}),
                SENTINEL_OUTSIDE_SANDBOX,
                owned([
                    ("Upload", "/etc/a"),
                    ("path", "/etc/a"),
                    ("external_directory", "/etc/a"),
                ]),
            ),
        ] {
            assert_eq!(leaving(tool, input), (outside(tool), Some(floor), guards));
        }
        let patch = json!({"command": "*** Begin Patch\n*** Delete File: /etc/a\n*** End Patch\n"});
        let (asked, floor, _) = leaving("apply_patch", patch);
        assert_eq!((asked.0.as_str(), floor), ("edit", None));
        let (asked, ..) = leaving("mcp__tickets__close", json!({}));
        assert_eq!(asked, ("mcp".to_owned(), "tickets:close".to_owned()));
    }

    #[test]
    fn a_tool_of_a_server_that_is_asked_as_a_command_is_still_one_of_its_server() {
        let call = ToolCall::new("mcp__x__run", json!({"line": "ls"}), "/w");
        let command = call.named(Asked::new("bash", PayloadKind::Bash, "ls"));
        let guards = call.guards(&command, |_| false).into_iter();
        let guards = guards.map(|guard| (guard.surface, guard.value));
        assert_eq!(
            guards.collect::<Vec<_>>(),
            owned([("mcp__x__run", "ls"), ("mcp", "x:run")])
        );
    }

    #[test]
    fn a_command_is_laid_out_as_one_whatever_its_tool_and_however_it_is_told() {
        for (tool, input, laid_out) in [
            (
                "Monitor",
                json!({"command": "ls", "timeout_ms": 1}),
                json!({"command": "ls", "timeout_ms": 1}),
            ),
            (
                "Bash",
                json!({"command": ["ls", "a b"]}),
                json!({"command": "ls 'a b'"}),
            ),
            (
                "Nobody knows",
                json!({"cmd": "ls", "x": 1}),
                json!({"command": "ls", "x": 1}),
            ),
        ] {
            let call = ToolCall::new(tool, input, "/w");
            let (name, shown) = call.laid_out(&call.asked());
            assert_eq!((name, shown.into_owned()), ("bash", laid_out), "{tool}");
        }
        // Nothing is put in the place of anything else.
        for (tool, input) in [
            ("Nobody knows", json!({"cmd": "ls", "command": 7})),
            ("Read", json!({"command": "ls", "file_path": "a"})),
        ] {
            let call = ToolCall::new(tool, input.clone(), "/w");
            assert_eq!(call.laid_out(&call.asked()), (tool, Cow::Owned(input)));
        }
    }

    #[test]
    fn a_pattern_that_leads_elsewhere_is_asked_about_as_the_place_that_it_leads_to() {
        for (input, path) in [
            (json!({"pattern": "/etc/**"}), "/etc"),
            (json!({"pattern": "/*"}), "/"),
            (json!({"pattern": "../../x/*.env"}), "./../../x"),
            (json!({"pattern": "../*", "path": "src"}), "src/.."),
            (json!({"pattern": "{..,a}/x", "path": "src"}), "src"),
            (json!({"pattern": "**/*.rs", "path": "src"}), "src"),
        ] {
            let call = ToolCall::new("Glob", input.clone(), "/w");
            assert_eq!(call.asked().value, path, "{input}");
            assert_eq!(call.floor(), None, "{input}");
        }
    }

    #[test]
    fn nothing_lies_within_a_directory_that_is_not_known() {
        let call = ToolCall::new("Read", json!({"file_path": "/etc/passwd"}), "");
        assert!(!call.looks_at_its_path_only());
        let guards = call.guards(&call.asked(), |_| false);
        assert!(
            guards
                .iter()
                .any(|guard| guard.surface == "external_directory_read")
        );
    }

    #[test]
    fn a_subagent_is_its_session_and_its_own_id() {
        let own = Hop {
            session_id: "worker-1".into(),
            agent_name: "builder".into(),
        };
        let host = Hop {
            session_id: "S".into(),
            agent_name: "claude-code".into(),
        };
        let agent = Subagent {
            id: "a1".into(),
            kind: "Explore".into(),
        };
        let ids = |hops: Vec<Hop>| {
            hops.into_iter()
                .map(|hop| hop.session_id)
                .collect::<Vec<_>>()
        };
        assert_eq!(ids(agent_sessions(&own, &[], None)), Vec::<String>::new());
        assert_eq!(
            ids(agent_sessions(&own, &[], Some(&agent))),
            ["worker-1.a1"]
        );
        let within = [host];
        assert_eq!(ids(agent_sessions(&own, &within, None)), ["S"]);
        assert_eq!(
            ids(agent_sessions(&own, &within, Some(&agent))),
            ["S.a1", "S"]
        );
    }
}

//! One call of a tool, as its host states it, and what of it is asked.
//!
//! Hosts call the same thing by different names. A rule is written for one: so a command line is asked on `bash`, a file on `read`,
//! `write`, `edit`, `find`, `grep` or `ls`, a tool of an MCP server on `mcp` as `server:tool`, a skill on `skill`. Every other tool
//! is a surface of its own, by the name that the host gives it.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;

use crate::ask::PlainAsk;
use crate::policy::BASH_SURFACE;
use crate::presentation::evidence::{patched, pointed_at, value_of};
use crate::wire::{ApprovalGrant, Evidence, Hop, PayloadKind};

/// Most files of one patch that rules are held against one by one.
const MAX_PATCHED: usize = 64;

/// How the tools of MCP servers are named by those who put both names into one.
const MCP_PREFIX: &str = "mcp__";

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
    /// Id of the ask where the host has one.
    pub id: Option<String>,
    /// How long to wait at most, where that is not what the configuration says.
    pub timeout: Option<Duration>,
    /// What helps to decide beyond the input, which is laid out by itself.
    pub evidence: Vec<Evidence>,
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
        Self {
            tool: tool.into(),
            input,
            cwd: cwd.into(),
            agent: None,
            files: Vec::new(),
            grants: Vec::new(),
            mcp_server: None,
            id: None,
            timeout: None,
            evidence: Vec::new(),
        }
    }

    /// What is asked. A tool whose input lacks what its surface is about is asked about by its name, as one that nobody knows.
    pub fn asked(&self) -> Asked {
        if let Some(target) = self.mcp_target() {
            return Asked::new("mcp", PayloadKind::Mcp, &target);
        }
        let of = |kind| value_of(kind, &self.input);
        if is_shell(&self.tool)
            && let Some(command) = of(PayloadKind::Bash)
        {
            return Asked::new(BASH_SURFACE, PayloadKind::Bash, command);
        }
        if let Some(surface) = file_surface(&self.tool) {
            let path = pointed_at(&self.input).or_else(|| self.text(&["dir_path", "directory"]));
            // A search without a path searches where the agent works.
            let path = path.or_else(|| matches!(surface, "find" | "grep" | "ls").then_some("."));
            if let Some(path) = path {
                return Asked::new(surface, PayloadKind::Path, path);
            }
        }
        if let Some([path]) = patched_files(self).as_deref() {
            return Asked::new("edit", PayloadKind::Path, path);
        }
        if matches!(self.tool.as_str(), "Skill" | "skill")
            && let Some(skill) = of(PayloadKind::Skill)
        {
            return Asked::new("skill", PayloadKind::Skill, skill);
        }
        // Of several files none stands for the others.
        if let Some(path) = pointed_at(&self.input).filter(|_| self.files.is_empty()) {
            return Asked::new(&self.tool, PayloadKind::Path, path);
        }
        let value = self.telling().unwrap_or(&self.tool);
        Asked::new(&self.tool, PayloadKind::Tool, value)
    }

    /// What else rules are held against: the name that the host has for the tool, and the files that the call works on, as paths and,
    /// where `is_outside` says so, as ones outside of the working directory. These can hold a call back; none of them lets it run.
    pub fn guards(&self, asked: &Asked, is_outside: impl Fn(&str) -> bool) -> Vec<Asked> {
        let mut guards = Vec::new();
        if asked.surface != self.tool {
            guards.push(Asked::new(&self.tool, asked.kind, &asked.value));
        }
        let patched =
            patched_files(self).unwrap_or_else(|| self.files.iter().map(String::as_str).collect());
        let is_patch = !patched.is_empty();
        let one = (asked.kind == PayloadKind::Path).then_some(asked.value.as_str());
        let direction = match asked.surface.as_str() {
            "read" | "find" | "grep" | "ls" | "read_files" => "_read",
            "write" | "edit" => "_write",
            _ if is_patch => "_write",
            _ => "",
        };
        let many = if one.is_some() { &[][..] } else { &patched };
        for path in one.iter().chain(many.iter().take(MAX_PATCHED)) {
            if one.is_none() {
                let surface = if direction == "_read" { "read" } else { "edit" };
                guards.push(Asked::new(surface, PayloadKind::Path, path));
            }
            let of = |family: &str, kind| Asked::new(&format!("{family}{direction}"), kind, path);
            guards.push(of("path", PayloadKind::Path));
            if is_outside(path) {
                guards.push(of("external_directory", PayloadKind::ExternalDirectory));
            }
        }
        guards
    }

    /// Whether rules can be held against everything that the call works on. What cannot be seen whole is asked about.
    pub fn is_seen_whole(&self) -> bool {
        let is_whole = |files: usize| files <= MAX_PATCHED;
        is_whole(self.files.len())
            && (!is_patch(&self.tool)
                || patched_files(self).is_some_and(|files| is_whole(files.len())))
    }

    /// Whether the path that is asked about is all that the call looks at. A pattern may lead elsewhere.
    pub fn looks_at_its_path_only(&self) -> bool {
        let leads_elsewhere = |pattern: &str| {
            pattern.starts_with(['/', '~']) || pattern.split('/').any(|part| part.contains(".."))
        };
        self.asked().kind == PayloadKind::Path
            && !(file_surface(&self.tool) == Some("find")
                && self.text(&["pattern"]).is_some_and(leads_elsewhere))
    }

    /// The tool of an MCP server as `server:tool`.
    fn mcp_target(&self) -> Option<String> {
        let in_name = self.tool.strip_prefix(MCP_PREFIX);
        let (server, tool) = match (&self.mcp_server, in_name) {
            // The name of a server may have the separator in it, so the one that is told counts.
            (Some(server), Some(name)) => {
                let of_server = name.strip_prefix(server.as_str());
                let tool = of_server.and_then(|rest| rest.strip_prefix("__"));
                (server.as_str(), tool.unwrap_or(name))
            }
            (Some(server), None) => (server.as_str(), self.tool.as_str()),
            (None, Some(name)) => name.split_once("__")?,
            (None, None) => return None,
        };
        Some(format!("{server}:{tool}"))
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
        is_shell(&self.tool)
            .then(|| {
                self.text(&[
                    "cwd",
                    "workdir",
                    "working_directory",
                    "dir_path",
                    "directory",
                ])
            })
            .flatten()
    }
}

/// Names under which hosts run command lines.
fn is_shell(tool: &str) -> bool {
    matches!(
        tool,
        "Bash" | "bash" | "shell" | "local_shell" | "exec_command" | "run_shell_command"
    )
}

fn is_patch(tool: &str) -> bool {
    matches!(tool, "apply_patch" | "patch")
}

/// The files that a patch names.
fn patched_files(call: &ToolCall) -> Option<Vec<&str>> {
    is_patch(&call.tool).then(|| patched(&call.input)).flatten()
}

/// The surface of a tool that works on files.
fn file_surface(tool: &str) -> Option<&'static str> {
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
        assert_eq!(target("mcp__alone", None).0, "mcp__alone");
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

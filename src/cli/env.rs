//! Every environment variable that is read or set, in one place. Nothing else looks at the environment.

#![expect(
    clippy::disallowed_methods,
    reason = "this is the module that reads the environment"
)]

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::PathBuf;

/// Spool directory.
pub(super) const SPOOL: &str = "ASKRELAY_SPOOL";
/// The own session: what `serve` serves, and under which id `ask` asks.
pub(super) const SESSION: &str = "ASKRELAY_SESSION";
/// The session that `ask` asks.
pub(super) const PARENT_SESSION: &str = "ASKRELAY_PARENT_SESSION";
/// Own agent name.
pub(super) const AGENT: &str = "ASKRELAY_AGENT";
/// The sessions above this one, outermost first: a JSON array of `{sessionId, agentName}`.
pub(super) const LINEAGE: &str = "ASKRELAY_LINEAGE";
/// Configuration file.
pub(super) const CONFIG: &str = "ASKRELAY_CONFIG";
/// Review log.
pub(super) const LOG: &str = "ASKRELAY_LOG";

/// The session of Claude Code that started this process as an MCP server.
pub(super) const CLAUDE_SESSION: &str = "CLAUDE_CODE_SESSION_ID";

/// The process of Claude Code whose tool started this one, or the agent that started this one.
pub(super) const CLAUDE_PID: &str = "CLAUDE_PID";

/// Key that the parent session seals its answers with: no other answer counts.
pub(super) const SERVING_KEY: &str = "ASKRELAY_SERVING_KEY";

/// The prompt that `launch` made for this process.
pub(super) const PROMPT_FILE: &str = "ASKRELAY_PROMPT_FILE";

/// Kind of the terminal; one that is `dumb` cannot be drawn on.
pub(super) const TERM: &str = "TERM";
/// Set to anything: no colours.
pub(super) const NO_COLOR: &str = "NO_COLOR";

/// Step at which a debug build ends itself, for tests.
#[cfg(debug_assertions)]
const FAULT: &str = "ASKRELAY_TEST_FAULT";

/// Parent variables of the peer and its launchers, in the order in which they count.
pub(super) const PEER_PARENTS: [&str; 2] = [
    "PI_AGENT_ROUTER_PARENT_SESSION_ID",
    "PI_SUBAGENT_PARENT_SESSION",
];

/// Variables by which launchers mark a process as somebody's child.
pub(super) const CHILD_HINTS: [&str; 11] = [
    "PI_IS_SUBAGENT",
    "PI_SUBAGENT_SESSION_ID",
    "PI_AGENT_ROUTER_SUBAGENT",
    "PI_SUBAGENT_CHILD",
    "PI_SUBAGENT_RUN_ID",
    "PI_SUBAGENT_CHILD_AGENT",
    "PI_SUBAGENT_DEPTH",
    "PI_SUBAGENT_NAME",
    "PI_SUBAGENT_ID",
    "PI_SUBAGENT_SESSION",
    "PI_SUBAGENT_ACTIVITY_FILE",
];

/// Where Claude Code keeps its settings.
pub(super) const CLAUDE_CONFIG_DIR: &str = "CLAUDE_CONFIG_DIR";
/// Where Codex keeps its configuration.
pub(super) const CODEX_HOME: &str = "CODEX_HOME";
/// The home directory, for Gemini CLI.
pub(super) const GEMINI_HOME: &str = "GEMINI_CLI_HOME";
/// The administrator's settings of Gemini CLI.
pub(super) const GEMINI_SYSTEM_SETTINGS: &str = "GEMINI_CLI_SYSTEM_SETTINGS_PATH";
/// Where opencode keeps its configuration.
pub(super) const OPENCODE_CONFIG_DIR: &str = "OPENCODE_CONFIG_DIR";
/// Where programs keep their configurations.
pub(super) const XDG_CONFIG_HOME: &str = "XDG_CONFIG_HOME";

/// The peer's agent directory.
pub(super) const PEER_AGENT_DIR: &str = "PI_CODING_AGENT_DIR";

/// The environment as it was at the start.
#[derive(Debug, Clone)]
pub(super) struct Env {
    variables: HashMap<OsString, OsString>,
    cwd: Option<PathBuf>,
    executable: Option<PathBuf>,
}

impl Env {
    /// Reads the environment of this process.
    pub(super) fn of_process() -> Self {
        Self {
            variables: std::env::vars_os().collect(),
            cwd: std::env::current_dir().ok(),
            executable: std::env::current_exe().ok(),
        }
    }

    /// Has a debug build end itself where a test wants it to.
    #[cfg(debug_assertions)]
    pub(super) fn arm_fault(&self) {
        if let Some(step) = self.text(FAULT) {
            crate::spool::fault::arm(step);
        }
    }

    /// Value of a variable; an empty one is not set. What is no Unicode is decoded lossily.
    pub(super) fn text(&self, name: &str) -> Option<String> {
        let value = self.variables.get(OsString::from(name).as_os_str())?;
        Some(value.to_string_lossy().into_owned()).filter(|text| !text.is_empty())
    }

    /// Value of a variable as it is, for a program that inherits it.
    pub(super) fn variable(&self, name: &str) -> Option<OsString> {
        self.variables
            .get(OsString::from(name).as_os_str())
            .cloned()
    }

    /// The same without some variables.
    pub(super) fn without(&self, names: impl Iterator<Item = &'static str>) -> Self {
        let mut env = self.clone();
        for name in names {
            env.variables.remove(OsString::from(name).as_os_str());
        }
        env
    }

    fn path(&self, name: &str) -> Option<PathBuf> {
        self.variables
            .get(OsString::from(name).as_os_str())
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    }

    /// A path variable of our own.
    pub(super) fn own_path(&self, name: &str) -> Option<PathBuf> {
        self.path(name)
    }

    /// The directories in which programs are looked for.
    pub(super) fn search_path(&self) -> Vec<PathBuf> {
        let path = self.variables.get(OsString::from("PATH").as_os_str());
        path.map(|path| std::env::split_paths(path).collect())
            .unwrap_or_default()
    }

    /// Where this program lies.
    pub(super) fn executable(&self) -> Option<&PathBuf> {
        self.executable.as_ref()
    }

    /// Working directory.
    pub(super) fn cwd(&self) -> Option<&PathBuf> {
        self.cwd.as_ref()
    }

    /// Home directory.
    pub(super) fn home(&self) -> Option<PathBuf> {
        self.path("HOME").or_else(|| etcetera::home_dir().ok())
    }

    /// The home directory as an agent finds it: an empty `HOME` is no reason for it to look elsewhere, so then it has none.
    pub(super) fn host_home(&self) -> Option<String> {
        let home = match self.variable("HOME") {
            Some(home) => PathBuf::from(home),
            None => self.home()?,
        };
        home.into_os_string().into_string().ok()
    }

    /// `$XDG_STATE_HOME/askrelay`.
    pub(super) fn state_dir(&self) -> Option<PathBuf> {
        self.base("XDG_STATE_HOME", ".local/state")
    }

    /// `$XDG_CONFIG_HOME/askrelay`.
    pub(super) fn config_dir(&self) -> Option<PathBuf> {
        self.base("XDG_CONFIG_HOME", ".config")
    }

    fn base(&self, variable: &str, below_home: &str) -> Option<PathBuf> {
        // The specification says that a relative path is to be ignored.
        let set = self.path(variable).filter(|path| path.is_absolute());
        Some(
            set.or_else(|| Some(self.home()?.join(below_home)))?
                .join("askrelay"),
        )
    }

    /// The spool of the peer.
    pub(super) fn peer_spool(&self) -> Option<PathBuf> {
        let agent_dir = self
            .path(PEER_AGENT_DIR)
            .or_else(|| Some(self.home()?.join(".pi/agent")))?;
        Some(agent_dir.join("sessions/permission-forwarding"))
    }

    /// The first variable that marks this process as somebody's child.
    pub(super) fn child_hint(&self) -> Option<&'static str> {
        CHILD_HINTS.into_iter().find(|name| {
            self.text(name)
                .is_some_and(|value| !value.trim().is_empty())
        })
    }
}

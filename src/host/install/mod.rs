//! Putting askrelay in charge of an agent that people run already: what stands in the configuration of each, and the edits that
//! bring it in and take it out again.
//!
//! Text in, text out: where the files lie, who owns them and what is asked before they are written is no matter of this room, nor
//! is what a hook does when it runs.
//!
//! # Invariants
//!
//! * What is not ours stays as it is, byte for byte.
//! * A file that is not understood is not edited.

mod edit;
mod entries;
mod hooks;
mod model;
mod sample;
mod shape;
mod shim;
mod sound;
mod switches;
mod toml;
mod trial;
mod trust;
mod verdict;
mod words;

pub use entries::{
    HOST_TIMEOUT_SECONDS, Hook, Line, arguments, hooks as wanted, is_named_as_ours, line_of,
};
pub use hooks::{
    EditError, Found, MAX_HOST_CONFIG_BYTES, check_shape, doubts, find, install, strangers,
    uninstall,
};
pub use model::{Reply, reply};
pub use sample::{SHIM_EVENT, sample};
pub use shape::Doubt;
pub use shim::{is_shim, program_of, shim};
pub use sound::{faults, holds_variable, wait_of};
pub use switches::{
    Switched, is_folder_trusted, is_workspace_trusted, json_switches, toml_switches,
};
pub use toml::TomlError;
pub use trial::for_trial;
pub use trust::{
    Trust, TrustEntry, TrustError, entries_of, is_project_trusted, trust_of, with_trust,
    without_trust,
};
pub use verdict::{Said, said};
pub use words::command_line;

/// An agent that askrelay is put in charge of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Host {
    /// Claude Code.
    ClaudeCode,
    /// Codex CLI.
    Codex,
    /// Gemini CLI.
    Gemini,
    /// opencode.
    Opencode,
    /// pi.
    Pi,
}

impl Host {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::ClaudeCode,
        Self::Codex,
        Self::Gemini,
        Self::Opencode,
        Self::Pi,
    ];

    /// Its name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude-code",
            Self::Codex => "codex",
            Self::Gemini => "gemini",
            Self::Opencode => "opencode",
            Self::Pi => "pi",
        }
    }

    /// The host of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|host| host.name() == name)
    }

    /// What people call it.
    pub const fn title(self) -> &'static str {
        match self {
            Self::ClaudeCode => "Claude Code",
            Self::Codex => "Codex",
            Self::Gemini => "Gemini CLI",
            Self::Opencode => "opencode",
            Self::Pi => "pi",
        }
    }

    /// The program that people start.
    pub const fn program(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude",
            Self::Codex => "codex",
            Self::Gemini => "gemini",
            Self::Opencode => "opencode",
            Self::Pi => "pi",
        }
    }

    /// Whether it reads its configuration where that has comments. The others take no notice of the whole file then.
    const fn reads_comments(self) -> bool {
        match self {
            Self::Gemini => true,
            Self::ClaudeCode | Self::Codex | Self::Opencode | Self::Pi => false,
        }
    }

    /// Whether a byte-order mark is no error to it.
    const fn reads_byte_order_mark(self) -> bool {
        match self {
            Self::ClaudeCode => true,
            Self::Codex | Self::Gemini | Self::Opencode | Self::Pi => false,
        }
    }
}

//! The agents that speak ACP: two by themselves, two by an adapter of which the agent is a part.

use std::process::Command;

use serde_json::json;

use crate::agents::{Agent, version, words};
use crate::model::{Model, Move};
use crate::shims::{self, Host};
use crate::support::TempSpool;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Speaker {
    Opencode,
    Gemini,
    Claude,
    Codex,
}

impl Speaker {
    /// Its name in the documentation.
    pub(super) fn name(self) -> String {
        match self {
            Self::Opencode => format!("`opencode acp`, {}", version("opencode")),
            Self::Gemini => format!("`gemini --acp`, {}", version("gemini")),
            Self::Claude => format!(
                "Claude Code, `claude-agent-acp` {}",
                version("claude-agent-acp")
            ),
            Self::Codex => format!("Codex, `codex-acp` {}", version("codex-acp")),
        }
    }

    /// A call of its shell that it asks about.
    pub(super) fn shell(self, command: &str) -> Move {
        match self {
            Self::Opencode => shims::shell(command),
            Self::Gemini => Agent::Gemini.shell(command),
            Self::Claude => Agent::ClaudeCode.shell(command),
            Self::Codex => Move::Call(
                "exec_command",
                json!({ "cmd": command, "sandbox_permissions": "require_escalated", "justification": "it leaves a file" }),
            ),
        }
    }

    /// How many asks wait at once where its model makes two calls at once.
    pub(super) fn asks_at_once(self) -> usize {
        match self {
            Self::Codex => 2,
            Self::Opencode | Self::Gemini | Self::Claude => 1,
        }
    }

    /// How often it asks for a command, another one and the first again, where it is told to remember the first.
    pub(super) fn asks_with_always(self) -> usize {
        match self {
            // It offers to remember a command only where it knows a rule for it.
            Self::Claude => 3,
            Self::Opencode | Self::Gemini | Self::Codex => 2,
        }
    }

    /// Its settings, by which it asks, and nothing of ours in them.
    pub(super) fn configure(self, spool: &TempSpool, model: &Model) {
        match self {
            Self::Opencode => shims::opencode_settings(spool, model),
            Self::Gemini => Agent::Gemini.settings(spool, model),
            Self::Claude => {
                Agent::ClaudeCode.settings(spool, model);
                // Its own choice would be a mode in which a model decides.
                let ask = json!({ "permissions": { "defaultMode": "default" } });
                spool.write_json("claude/settings.json", &ask);
            }
            Self::Codex => Agent::Codex.settings(spool, model),
        }
    }

    /// What starts it, with nothing inherited.
    pub(super) fn command(self, spool: &TempSpool, model: &Model) -> Command {
        let mut run = match self {
            Self::Opencode => Host::Opencode.command(spool),
            Self::Gemini => Agent::Gemini.command(&words("gemini"), spool, model),
            Self::Claude => Agent::ClaudeCode.command(&words("claude-agent-acp"), spool, model),
            Self::Codex => Agent::Codex.command(&words("codex-acp"), spool, model),
        };
        match self {
            Self::Opencode => run.arg("acp"),
            Self::Gemini => run.arg("--acp"),
            Self::Claude => &mut run,
            // Its own choice would be a mode in which a model decides.
            Self::Codex => run.env("INITIAL_AGENT_MODE", "read-only"),
        };
        run
    }
}

//! The agents that people run, each as its vendor ships it, in the version that its lock file pins: with an empty home, a key that is
//! none, and our model on the loopback.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

use serde_json::{Value, json};

use crate::model::{Model, Move};
use crate::support::{TempSpool, hermetic};

/// No key of anybody's.
const DUMMY_KEY: &str = "a-key-that-opens-nothing";
/// What an agent is told to do. The model knows already.
const PROMPT: &str = "do what there is to do";

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Agent {
    ClaudeCode,
    Codex,
    Gemini,
}

/// What starts a client: its program, or node and its script. Fails with a hint where it is not installed.
pub(crate) fn words(client: &'static str) -> Vec<PathBuf> {
    static KNOWN: Mutex<Vec<(&str, Vec<PathBuf>)>> = Mutex::new(Vec::new());
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, words)) = known.iter().find(|(name, _)| *name == client) {
        return words.clone();
    }
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/peers/clients.sh");
    let found = Command::new(script)
        .args(["where", client])
        .stderr(Stdio::inherit())
        .output()
        .unwrap();
    assert!(found.status.success(), "{client} cannot be started");
    let text = String::from_utf8(found.stdout).unwrap();
    let words: Vec<PathBuf> = text.lines().map(PathBuf::from).collect();
    known.push((client, words.clone()));
    words
}

/// The version that is pinned.
pub(crate) fn version(client: &str) -> String {
    let manifest = format!(
        "{}/tests/peers/clients/{client}/package.json",
        env!("CARGO_MANIFEST_DIR")
    );
    let manifest: Value = serde_json::from_slice(&std::fs::read(manifest).unwrap()).unwrap();
    let packages = manifest["dependencies"].as_object().unwrap();
    packages
        .values()
        .next()
        .unwrap()
        .as_str()
        .unwrap()
        .to_owned()
}

impl Agent {
    /// What it is called by `askrelay hook`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude-code",
            Self::Codex => "codex",
            Self::Gemini => "gemini",
        }
    }

    /// A call of its shell, as its model asks for it.
    pub(crate) fn shell(self, command: &str) -> Move {
        match self {
            Self::ClaudeCode => Move::Call(
                "Bash",
                json!({ "command": command, "description": "scripted" }),
            ),
            Self::Codex => Move::Call("exec_command", json!({ "cmd": command })),
            Self::Gemini => Move::Call(
                "run_shell_command",
                json!({ "command": command, "description": "scripted" }),
            ),
        }
    }

    /// It, or an adapter that it is a part of, with nothing inherited, in the directory where its tools work, told of our model and of
    /// the spool.
    pub(crate) fn command(self, words: &[PathBuf], spool: &TempSpool, model: &Model) -> Command {
        let (program, rest) = words.split_first().unwrap();
        let mut run = hermetic(program, spool.home());
        run.args(rest)
            .current_dir(spool.work())
            .env("ASKRELAY_SPOOL", spool.root())
            .env("TERM", "xterm-256color");
        self.tell_where(&mut run, spool);
        match self {
            Self::ClaudeCode => run
                .env("ANTHROPIC_BASE_URL", model.url())
                .env("ANTHROPIC_API_KEY", DUMMY_KEY)
                .env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
            Self::Codex => run.env("MOCK_KEY", DUMMY_KEY),
            Self::Gemini => run
                .env("GEMINI_API_KEY", DUMMY_KEY)
                .env("GOOGLE_GEMINI_BASE_URL", model.url())
                .env("GEMINI_CLI_NO_RELAUNCH", "true"),
        };
        run
    }

    /// Its settings, with nothing of ours in them.
    pub(crate) fn settings(self, spool: &TempSpool, model: &Model) {
        match self {
            Self::ClaudeCode => {
                // A person who has seen all that is shown once.
                let known_key = &DUMMY_KEY[DUMMY_KEY.len() - 20..];
                let state = json!({
                    "hasCompletedOnboarding": true,
                    "customApiKeyResponses": { "approved": [known_key] },
                    "projects": { spool.work().display().to_string(): { "hasTrustDialogAccepted": true } }
                });
                spool.write_json("claude/.claude.json", &state);
            }
            Self::Codex => {
                let config = format!(
                    "model = \"mock-model\"\nmodel_provider = \"mock\"\n\n\
                     [model_providers.mock]\nname = \"mock\"\nbase_url = \"{}/v1\"\nwire_api = \"responses\"\nenv_key = \"MOCK_KEY\"\n",
                    model.url()
                );
                spool.write("codex/config.toml", &config);
            }
            Self::Gemini => {
                let settings = json!({
                    "security": { "auth": { "selectedType": "gemini-api-key" }, "folderTrust": { "enabled": false } }
                });
                spool.write_json(".gemini/settings.json", &settings);
            }
        }
    }

    /// Its settings, and our hook in them as `askrelay install` puts it there.
    pub(crate) fn configure(self, spool: &TempSpool, model: &Model, program: &Path) {
        self.settings(spool, model);
        let mut install = hermetic(env!("CARGO_BIN_EXE_askrelay"), spool.home());
        self.tell_where(&mut install, spool);
        install
            .args(["install", self.name(), "--yes", "--program"])
            .arg(program)
            .args((self == Self::Codex).then_some("--trust"));
        let installed = install.output().unwrap();
        assert!(installed.status.success(), "{installed:?}");
    }

    /// Where its configuration lies.
    fn tell_where(self, run: &mut Command, spool: &TempSpool) {
        match self {
            Self::ClaudeCode => run.env("CLAUDE_CONFIG_DIR", spool.home().join("claude")),
            Self::Codex => run.env("CODEX_HOME", spool.home().join("codex")),
            // In its home.
            Self::Gemini => run,
        };
    }

    /// Without a person in front of it.
    pub(crate) fn headless(self, spool: &TempSpool, model: &Model) -> Command {
        let mut run = self.command(&words(self.name()), spool, model);
        match self {
            Self::ClaudeCode => run
                .args(["--strict-mcp-config", "--output-format", "json"])
                .args(["-p", PROMPT]),
            Self::Codex => run
                .args(["exec", "--skip-git-repo-check", "--json"])
                .args(["-s", "danger-full-access"])
                .arg(PROMPT),
            Self::Gemini => run
                .args(["--yolo", "--output-format", "json"])
                .args(["-p", PROMPT]),
        };
        run
    }

    /// Claude Code with a person in front of it.
    pub(crate) fn on_a_terminal(self, spool: &TempSpool, model: &Model) -> Command {
        assert_eq!(self, Self::ClaudeCode);
        let mut run = self.command(&words(self.name()), spool, model);
        run.args(["--strict-mcp-config", "--permission-mode", "manual", PROMPT]);
        run
    }

    /// Codex for a program that stands for a person.
    pub(crate) fn app_server(self, spool: &TempSpool, model: &Model) -> Command {
        assert_eq!(self, Self::Codex);
        let mut run = self.command(&words(self.name()), spool, model);
        run.arg("app-server");
        run
    }
}

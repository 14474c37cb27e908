//! What tests of our shims share: a host at its work, with the shim as it is installed, and a session that is asked.

use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};

use crate::agents::words;
use crate::model::{Model, Move, Turn};
use crate::support::{Choice, Process, TempSpool, hermetic, until};

/// Where nobody listens, so that a host which looks for news in a registry finds out at once that there are none.
const NO_REGISTRY: &str = "http://127.0.0.1:9";

/// A host that runs a shim of ours.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Host {
    Opencode,
    Pi,
}

/// A host, a spool, and a model that has it run commands.
pub(crate) struct Scene {
    pub(crate) spool: TempSpool,
    pub(crate) model: Model,
    host: Host,
}

/// What came of a run.
#[derive(Debug)]
pub(crate) struct Seen {
    /// What the model read of each call.
    pub(crate) told: Vec<String>,
    pub(crate) ended_well: bool,
}

/// A call of the shell.
pub(crate) fn shell(command: &str) -> Move {
    Move::Call(
        "bash",
        json!({ "command": command, "description": "scripted" }),
    )
}

/// What the session is told that is asked: rules for commands.
pub(crate) fn rule(pattern: &str, said: impl Into<Value>) -> Value {
    json!({ "permission": { "bash": { pattern: said.into() } } })
}

/// Rules that leave every command to the person.
pub(crate) fn ask() -> Value {
    rule("*", "ask")
}

/// Settings of opencode, by which it asks before it runs a command.
pub(crate) fn opencode_settings(spool: &TempSpool, model: &Model) {
    let limits = json!({ "context": 100_000, "output": 1_000 });
    let provider = json!({
        "npm": "@ai-sdk/openai-compatible", "name": "mock",
        "options": { "baseURL": format!("{}/v1", model.url()), "apiKey": "none" },
        "models": { "mock-model": { "name": "mock", "limit": limits } }
    });
    let settings = json!({
        "model": "mock/mock-model", "small_model": "mock/mock-model", "share": "disabled", "autoupdate": false,
        "provider": { "mock": provider }, "permission": { "bash": "ask" }
    });
    spool.write_json("work/opencode.json", &settings);
}

impl Host {
    /// It with nothing inherited, in the directory where its tools work.
    pub(crate) fn command(self, spool: &TempSpool) -> Command {
        let words = words(match self {
            Self::Opencode => "opencode",
            Self::Pi => "pi",
        });
        let (program, rest) = words.split_first().unwrap();
        let mut run = hermetic(program, spool.home());
        run.args(rest)
            .current_dir(spool.work())
            .env("ASKRELAY_SPOOL", spool.root())
            .env("npm_config_registry", NO_REGISTRY)
            .env("npm_config_fetch_retries", "0")
            .env("OPENCODE_DISABLE_MODELS_FETCH", "1")
            .env("OPENCODE_DISABLE_DEFAULT_PLUGINS", "1")
            .env("PI_OFFLINE", "1")
            .env("PI_CODING_AGENT_DIR", spool.home().join("pi"));
        run
    }
}

impl Scene {
    /// The model makes these calls at once, and then is done.
    pub(crate) fn of(host: Host, calls: Vec<Move>) -> Self {
        Self::new(host, move |turn| turn.after([calls.clone()]))
    }

    pub(crate) fn new(
        host: Host,
        script: impl Fn(&Turn) -> Vec<Move> + Send + Sync + 'static,
    ) -> Self {
        let scene = Self {
            spool: TempSpool::new(),
            // A title is asked for without tools.
            model: Model::start(move |turn| {
                if turn.tools.is_empty() {
                    vec![Move::Say("a title".to_owned())]
                } else {
                    script(turn)
                }
            }),
            host,
        };
        scene.configure(
            &PathBuf::from(env!("CARGO_BIN_EXE_askrelay"))
                .display()
                .to_string(),
        );
        scene
    }

    /// The host's settings, and the shim that starts this program.
    pub(crate) fn configure(&self, program: &str) {
        match self.host {
            Host::Opencode => {
                opencode_settings(&self.spool, &self.model);
                let shim = askrelay::host::shims::opencode(program);
                self.spool
                    .write("config/opencode/plugins/askrelay.js", &shim);
            }
            Host::Pi => {
                let model = json!({ "id": "mock-model", "name": "mock", "contextWindow": 100_000, "maxTokens": 1_000 });
                let provider = json!({
                    "baseUrl": format!("{}/v1", self.model.url()), "api": "openai-completions", "apiKey": "none", "models": [model]
                });
                self.spool.write_json(
                    "pi/models.json",
                    &json!({ "providers": { "mock": provider } }),
                );
                let shim = askrelay::host::shims::pi(program);
                self.spool.write("pi/extensions/askrelay.ts", &shim);
            }
        }
    }

    /// Without a person in front of it.
    pub(crate) fn headless(&self) -> Command {
        let mut run = self.command();
        match self.host {
            Host::Opencode => run.args(["run", "go"]),
            Host::Pi => run.args(["-p", "--model", "mock/mock-model", "go"]),
        };
        run
    }

    /// The host with nothing inherited, in the directory where its tools work.
    pub(crate) fn command(&self) -> Command {
        self.host.command(&self.spool)
    }

    pub(crate) fn serve(&self, mode: &str, config: &Value) -> Process {
        self.spool.serve("main", mode, config, &[])
    }

    /// Runs it to its end, while `meanwhile` happens.
    pub(crate) fn run(&self, meanwhile: impl FnOnce()) -> Seen {
        self.finish(
            Process::start_unattended("the host", self.headless()),
            meanwhile,
        )
    }

    pub(crate) fn finish(&self, mut host: Process, meanwhile: impl FnOnce()) -> Seen {
        meanwhile();
        while host.next_line().is_some() {}
        let ended_well = host.wait().success();
        let seen = Seen {
            told: self.model.was_told(),
            ended_well,
        };
        assert_eq!(self.spool.waiting("main"), Vec::<String>::new(), "{seen:?}");
        seen
    }

    /// All that wait, once there are so many.
    pub(crate) fn requests(&self, count: usize) -> Vec<Value> {
        let mut found = Vec::new();
        until(&format!("{count} asks wait"), || {
            found = self.waiting();
            found.len() == count
        });
        found
    }

    fn waiting(&self) -> Vec<Value> {
        let dir = self.spool.session("main").join("requests");
        let ids = self.spool.waiting("main");
        let files = ids
            .iter()
            .filter_map(|id| std::fs::read(dir.join(format!("{id}.json"))).ok());
        files
            .filter_map(|bytes| serde_json::from_slice(&bytes).ok())
            .collect()
    }

    /// The one that asks for this, once it waits.
    pub(crate) fn request_for(&self, value: &str) -> Value {
        let mut found = None;
        until(&format!("{value:?} is asked for"), || {
            let mut waiting = self.waiting().into_iter();
            found = waiting.find(|request| request["value"] == value);
            found.is_some()
        });
        found.unwrap()
    }

    pub(crate) fn nothing_waits(&self) {
        until("the ask is taken back", || {
            self.spool.waiting("main").is_empty()
        });
    }

    /// Whether a tool has left this file behind.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.spool.work().join(name).exists()
    }
}

// What both hosts are held to.

pub(crate) fn a_rule_allows_it(host: Host) {
    let scene = Scene::of(host, vec![shell("touch ran")]);
    let _server = scene.serve("headless", &rule("touch *", "allow"));
    let seen = scene.run(|| {});
    assert!(scene.has("ran") && seen.ended_well, "{seen:?}");
}

pub(crate) fn a_rule_denies_it(host: Host) {
    let scene = Scene::of(host, vec![shell("touch ran")]);
    let _server = scene.serve(
        "headless",
        &rule(
            "touch *",
            json!({ "action": "deny", "reason": "touch nothing here" }),
        ),
    );
    let seen = scene.run(|| {});
    assert!(!scene.has("ran"));
    assert!(seen.told[0].contains("touch nothing here"), "{seen:?}");
}

pub(crate) fn a_person_approves_and_denies_with_a_reason(host: Host) {
    let scene = Scene::new(host, |turn| {
        turn.after([vec![shell("touch one")], vec![shell("touch two")]])
    });
    let mut server = scene.serve("select", &ask());
    let seen = scene.run(|| {
        server.choose(Choice::Approve);
        server.choose(Choice::DenyWithReason);
        server.say("two is too many");
    });
    assert!(scene.has("one") && !scene.has("two"), "{seen:?}");
    assert!(seen.told[1].contains("two is too many"), "{seen:?}");
}

pub(crate) fn nobody_serves(host: Host) {
    let scene = Scene::of(host, vec![shell("touch ran")]);
    let seen = scene.run(|| {});
    assert!(!scene.has("ran"));
    assert!(seen.told[0].contains("askrelay serve"), "{seen:?}");
}

/// What a shim starts that is no askrelay: each of these is a way to have no answer.
pub(crate) fn whatever_is_no_answer_keeps_the_call_from_running(host: Host) {
    for (what, script) in [
        ("gone", None),
        ("crashes", Some("kill -9 $$")),
        ("is silent", Some("cat > /dev/null")),
        (
            "is not understood",
            Some("cat > /dev/null; echo '{\"decision\": \"perhaps\"}'"),
        ),
        (
            "says yes and more",
            Some("cat > /dev/null; echo '{\"decision\": \"allow\"}{}'"),
        ),
        (
            "does not listen",
            Some("exec < /dev/null; echo no >&2; exit 2"),
        ),
    ] {
        let scene = Scene::of(host, vec![shell("touch ran")]);
        let program = match script {
            None => scene.spool.home().join("no-such-program"),
            Some(script) => {
                use std::os::unix::fs::PermissionsExt as _;
                let path = scene
                    .spool
                    .write("program", &format!("#!/bin/sh\n{script}\n"));
                std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
                path
            }
        };
        scene.configure(&program.display().to_string());
        let seen = scene.run(|| {});
        assert!(!scene.has("ran"), "{what}");
        assert!(seen.told[0].contains("askrelay doctor"), "{what}: {seen:?}");
    }
}

pub(crate) fn the_host_is_killed(host: Host) {
    let scene = Scene::of(host, vec![shell("touch ran")]);
    let _server = scene.serve("select", &ask());
    let mut run = Process::start_unattended("the host", scene.headless());
    scene.requests(1);
    run.kill();
    scene.nothing_waits();
    assert!(!scene.has("ran"));
}

/// The inner one is what pi would hand over: it stands for any agent that a command starts.
pub(crate) fn an_agent_that_a_command_starts(host: Host) {
    let inner = r#"{"sessionId":"inner","tool":"write","input":{"path":"x"},"cwd":"/"}"#;
    let line = format!(
        "echo '{inner}' | '{}' hook pi",
        env!("CARGO_BIN_EXE_askrelay")
    );
    let scene = Scene::of(host, vec![shell(&line)]);
    let mut server = scene.serve("select", &json!({}));
    let seen = scene.run(|| {
        let outer = scene.requests(1).remove(0)["requesterSessionId"].clone();
        server.choose(Choice::Approve);
        let request = scene.request_for("x");
        assert_eq!(request["requesterSessionId"], outer, "{request}");
        let principal = &request["accessIntent"]["principal"];
        assert_eq!(principal["sessionId"], "inner", "{request}");
        server.choose(Choice::Approve);
    });
    assert!(seen.told[0].contains("allow"), "{seen:?}");
}

//! What every agent with the hook is held to, written once. Each is the real agent at its work: its model wants a command, the hook asks,
//! and what counts is whether the command ran and what the model read.

use std::path::PathBuf;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::agents::{Agent, version};
use crate::app_server::AppServer;
use crate::model::{Model, Move, Turn};
use crate::screen::OnScreen;
use crate::seen::is_documented;
use crate::support::{Choice, Process, TempSpool, until};

/// A way in which people run an agent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Way {
    /// `claude -p`
    ClaudeHeadless,
    /// `claude`
    ClaudeOnTerminal,
    /// `codex exec`
    CodexExec,
    /// `codex`, by the app server that its terminal is a client of.
    CodexAttended,
    /// `gemini --yolo -p`
    Gemini,
}

impl Way {
    pub(crate) fn agent(self) -> Agent {
        match self {
            Self::ClaudeHeadless | Self::ClaudeOnTerminal => Agent::ClaudeCode,
            Self::CodexExec | Self::CodexAttended => Agent::Codex,
            Self::Gemini => Agent::Gemini,
        }
    }

    /// A command that the model wants. Where a person is in front of Codex, one that the sandbox would not let through.
    pub(crate) fn shell(self, command: &str) -> Move {
        if self != Self::CodexAttended {
            return self.agent().shell(command);
        }
        Move::Call(
            "exec_command",
            json!({ "cmd": command, "sandbox_permissions": "require_escalated", "justification": "it leaves a file" }),
        )
    }

    /// How often somebody is asked about a command that a rule has asked. Codex asks once more, for leaving its sandbox.
    fn questions(self) -> usize {
        match self {
            Self::CodexAttended => 2,
            Self::ClaudeHeadless | Self::ClaudeOnTerminal | Self::CodexExec | Self::Gemini => 1,
        }
    }

    /// Its name in the documentation.
    fn name(self) -> String {
        let agent = version(self.agent().name());
        match self {
            Self::ClaudeHeadless => format!("Claude Code {agent}, `claude -p`"),
            Self::ClaudeOnTerminal => format!("Claude Code {agent}, on a terminal"),
            Self::CodexExec => format!("Codex {agent}, `codex exec`"),
            Self::CodexAttended => format!("Codex {agent}, with a person in front"),
            Self::Gemini => format!("Gemini CLI {agent}, `gemini --yolo -p`"),
        }
    }
}

/// What came of one run of an agent.
#[derive(Debug)]
pub(crate) struct Seen {
    way: Way,
    /// Whether the command ran.
    pub(crate) ran: bool,
    /// What the model read of each call.
    pub(crate) told: Vec<String>,
    /// Whether the agent asked the person in front of it as well.
    pub(crate) asked_here: bool,
}

impl Seen {
    fn assert_ran(&self) {
        assert!(self.ran, "{self:?}");
    }

    /// It did not run, and the model read that.
    fn assert_denied(&self, told: &str) {
        assert!(
            !self.ran && self.told[0].contains(told),
            "{told:?}: {self:?}"
        );
    }

    /// Holds the documentation to it.
    #[track_caller]
    fn document(&self, case: &str) {
        let outcome = match (self.ran, self.asked_here) {
            (true, false) => "runs",
            (true, true) => "runs; the agent asked its own person too",
            (false, false) => "does not run",
            (false, true) => "does not run; the agent asked its own person too",
        };
        let name = self.way.name();
        is_documented("## What was seen", &[&name], case, outcome);
        if !self.ran {
            let text = format!("`` {} ``", stable(&self.told[0]));
            is_documented(
                "### What the model reads",
                &[&name, case],
                "what it reads",
                &text,
            );
        }
    }
}

/// A text as it is with each run: one line, without times, process ids and the place of our program.
pub(crate) fn stable(text: &str) -> String {
    let text = text
        .replace(env!("CARGO_BIN_EXE_askrelay"), "askrelay")
        .replace('|', "\\|");
    let is_time = |word: &str| {
        let number = word.trim_end_matches('.').strip_suffix('s');
        number.is_some_and(|number| number.parse::<f64>().is_ok())
    };
    let words: Vec<&str> = text.split_whitespace().collect();
    let word = |(at, word): (usize, &&str)| match words.get(at + 1) {
        Some(&"Killed") => "PID".to_owned(),
        _ if is_time(word) => "TIME".to_owned(),
        _ => (*word).to_owned(),
    };
    let stable: Vec<String> = words.iter().enumerate().map(word).collect();
    stable.join(" ")
}

/// The agent at its work, a spool, and a model that has it run commands.
pub(crate) struct Scene {
    pub(crate) spool: TempSpool,
    pub(crate) model: Model,
    pub(crate) way: Way,
    /// Our program, as the agent is told to start it.
    program: PathBuf,
}

impl Scene {
    pub(crate) fn new(
        way: Way,
        script: impl Fn(&Turn) -> Vec<Move> + Send + Sync + 'static,
    ) -> Self {
        Self {
            spool: TempSpool::new(),
            model: Model::start(script),
            way,
            program: env!("CARGO_BIN_EXE_askrelay").into(),
        }
    }

    /// The model makes one call: a command that leaves a file behind.
    pub(crate) fn of_one_call(way: Way) -> Self {
        Self::new(way, move |turn| turn.after([vec![way.shell("touch ran")]]))
    }

    pub(crate) fn serve(&self, mode: &str, config: &Value) -> Process {
        self.spool.serve("main", mode, config, &[])
    }

    /// All asks that wait, once there are so many.
    pub(crate) fn requests(&self, count: usize) -> Vec<Value> {
        let dir = self.spool.session("main").join("requests");
        let mut found = Vec::new();
        until(&format!("{count} asks wait"), || {
            let ids = self.spool.waiting("main");
            let read = |id: &String| std::fs::read(dir.join(format!("{id}.json"))).ok();
            let parse = |bytes: Vec<u8>| serde_json::from_slice(&bytes).ok();
            found = ids.iter().filter_map(read).filter_map(parse).collect();
            found.len() == count
        });
        found
    }

    /// The one that the session asks its person about, once it does. Hooks that only look for a rule ask nobody.
    pub(crate) fn question(&self, server: &mut Process) -> Value {
        server.line("a question comes", |line| line.contains("touch "));
        self.requests(1).remove(0)
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.spool.work().join(name).exists()
    }

    /// Gives the agent its settings.
    pub(crate) fn configure(&self) {
        let agent = self.way.agent();
        agent.configure(&self.spool, &self.model, &self.program);
    }

    /// Lets the agent, which has its settings, do its work on a terminal with somebody in front of it.
    pub(crate) fn run_on_screen(&self, person: impl FnOnce(&mut OnScreen)) -> Seen {
        let run = self.way.agent().on_a_terminal(&self.spool, &self.model);
        let mut screen = OnScreen::start(&run, 120, 40);
        person(&mut screen);
        screen.await_text("done: ");
        let asked_here = screen.written().contains("Esc to cancel");
        self.seen(asked_here)
    }

    /// Lets the agent do its work below `askrelay launch`, without a person in front of it.
    pub(crate) fn run_launched(&self, meanwhile: impl FnOnce()) -> Seen {
        self.configure();
        let agent = self.way.agent().headless(&self.spool, &self.model);
        let variables = agent
            .get_envs()
            .filter_map(|(name, value)| Some((name, value?)));
        let mut launch = self.spool.askrelay("launch");
        launch
            .args([
                "--session",
                "main",
                "--as",
                "outer",
                "--agent",
                "lead",
                "--",
            ])
            .arg(agent.get_program())
            .args(agent.get_args())
            .current_dir(self.spool.work())
            .envs(variables);
        let mut process = Process::start_unattended("a launched agent", launch);
        meanwhile();
        while process.next_line().is_some() {}
        assert!(process.wait().success());
        self.seen(false)
    }

    fn seen(&self, asked_here: bool) -> Seen {
        until("nothing waits any more", || {
            self.spool.waiting("main").is_empty()
        });
        let home = self.spool.home().display().to_string();
        let told = self.model.was_told();
        Seen {
            way: self.way,
            ran: self.has("ran"),
            told: told
                .iter()
                .map(|text| text.replace(&home, "HOME"))
                .collect(),
            asked_here,
        }
    }

    /// Lets the agent do its work while something else happens.
    pub(crate) fn run(&self, meanwhile: impl FnOnce()) -> Seen {
        self.configure();
        self.run_configured(meanwhile)
    }

    /// As [`Self::run`], where the agent has its settings.
    fn run_configured(&self, meanwhile: impl FnOnce()) -> Seen {
        let (agent, spool, model) = (self.way.agent(), &self.spool, &self.model);
        match self.way {
            Way::ClaudeHeadless | Way::CodexExec | Way::Gemini => {
                let run = agent.headless(spool, model);
                let mut process = Process::start_unattended(agent.name(), run);
                meanwhile();
                while process.next_line().is_some() {}
                process.wait();
                self.seen(false)
            }
            Way::ClaudeOnTerminal => self.run_on_screen(|_| meanwhile()),
            Way::CodexAttended => {
                let mut server = AppServer::start(spool, model);
                std::thread::scope(|threads| {
                    threads.spawn(|| server.turn(spool));
                    meanwhile();
                });
                self.seen(server.asked > 0)
            }
        }
    }
}

/// What the rules say about what is tried here. Anything else that an agent does on its way is allowed.
pub(crate) fn rules(action: &Value) -> Value {
    // Where the agent asks to leave its sandbox, it is the rule for the command that is tried here.
    json!({ "permission": {
        "*": "allow", "bash": { "*": "allow", "touch *": action }, "outside_sandbox": { "*": "allow" }
    } })
}

pub(crate) fn ask() -> Value {
    rules(&"ask".into())
}

pub(crate) fn what_a_rule_allows_runs(way: Way) {
    let scene = Scene::of_one_call(way);
    let _server = scene.serve("headless", &rules(&"allow".into()));
    let seen = scene.run(|| {});
    seen.assert_ran();
    seen.document("a rule allows");
}

pub(crate) fn what_a_rule_denies_does_not_run_and_the_model_reads_why(way: Way) {
    let scene = Scene::of_one_call(way);
    let rule = rules(&json!({ "action": "deny", "reason": "touch nothing here" }));
    let _server = scene.serve("headless", &rule);
    let seen = scene.run(|| {});
    seen.assert_denied("touch nothing here");
    seen.document("a rule denies, with a reason");
}

pub(crate) fn what_a_person_approves_runs(way: Way) {
    let scene = Scene::of_one_call(way);
    let mut server = scene.serve("select", &ask());
    let seen = scene.run(|| {
        for _ in 0..way.questions() {
            server.choose(Choice::Approve);
        }
    });
    seen.assert_ran();
    seen.document("a person is asked, and says yes");
}

pub(crate) fn what_a_person_denies_does_not_run_and_the_model_reads_why(way: Way) {
    let scene = Scene::of_one_call(way);
    let mut server = scene.serve("select", &ask());
    let seen = scene.run(|| {
        server.choose(Choice::DenyWithReason);
        server.say("make a list first");
    });
    seen.assert_denied("make a list first");
    seen.document("a person says no, with a reason");
}

pub(crate) fn what_nobody_answers_in_time_does_not_run(way: Way) {
    let scene = Scene::of_one_call(way);
    let limit = json!({ "forwardingTimeoutMs": 1500 });
    scene
        .spool
        .write_json("config/askrelay/config.json", &limit);
    let _server = scene.serve("select", &ask());
    let seen = scene.run(|| {});
    seen.assert_denied("[askrelay]");
    seen.document("nobody answers in time");
}

pub(crate) fn where_nobody_serves_nothing_runs(way: Way) {
    let scene = Scene::of_one_call(way);
    let seen = scene.run(|| {});
    seen.assert_denied("[askrelay]");
    seen.document("nobody serves");
}

pub(crate) fn a_server_that_is_killed_leaves_a_denial(way: Way) {
    let scene = Scene::of_one_call(way);
    let mut server = scene.serve("select", &ask());
    let seen = scene.run(|| {
        scene.question(&mut server);
        server.kill();
    });
    seen.assert_denied("[askrelay]");
    seen.document("the server is killed meanwhile");
}

/// Kills the hook that waits, as nothing can be done about.
fn kill_hook(scene: &Scene, server: &mut Process) {
    let request = scene.question(server);
    let pid = request["relay"]["pid"].as_i64().unwrap();
    let pid = Pid::from_raw(pid.try_into().unwrap()).unwrap();
    kill_process(pid, Signal::KILL).unwrap();
}

pub(crate) fn a_hook_that_is_killed_leaves_a_denial(way: Way) {
    let scene = Scene::of_one_call(way);
    let mut server = scene.serve("select", &ask());
    let seen = scene.run(|| kill_hook(&scene, &mut server));
    seen.assert_denied("");
    seen.document("the hook is killed");
}

pub(crate) fn a_hook_that_is_not_there_leaves_a_denial(way: Way) {
    let mut scene = Scene::of_one_call(way);
    let gone = scene.spool.home().join("gone/askrelay");
    std::fs::create_dir(gone.parent().unwrap()).unwrap();
    std::fs::copy(&scene.program, &gone).unwrap();
    scene.program.clone_from(&gone);
    scene.configure();
    std::fs::remove_file(gone).unwrap();
    let seen = scene.run_configured(|| {});
    seen.assert_denied("");
    seen.document("the hook is not there");
}

pub(crate) fn of_two_calls_at_once_each_gets_its_own_answer(way: Way) {
    let calls = ["touch ran", "touch other"].map(|line| way.shell(line));
    let scene = Scene::new(way, move |turn| turn.after([calls.to_vec()]));
    let mut server = scene.serve("select", &ask());
    let seen = scene.run(|| {
        for _ in 0..=way.questions() {
            let asked = server.line("a question comes", |line| line.contains("touch "));
            server.choose(if asked.contains("touch ran") {
                Choice::Approve
            } else {
                Choice::Deny
            });
        }
    });
    seen.assert_ran();
    assert!(!scene.has("other"), "{seen:?}");
    assert_eq!(seen.told.len(), 2, "{seen:?}");
}

pub(crate) fn what_no_rule_is_about_is_asked_once(way: Way) {
    let scene = Scene::of_one_call(way);
    let mut server = scene.serve("select", &json!({}));
    let seen = scene.run(|| {
        server.choose(Choice::Approve);
    });
    seen.assert_ran();
    seen.document("no rule is about it, and a person says yes");
}

pub(crate) fn a_hook_that_is_killed_where_no_rule_is_about_it_leaves_a_denial(way: Way) {
    let scene = Scene::of_one_call(way);
    let mut server = scene.serve("select", &json!({}));
    let seen = scene.run(|| kill_hook(&scene, &mut server));
    seen.assert_denied("");
    seen.document("no rule is about it, and the hook is killed");
}

pub(crate) fn what_is_granted_for_the_session_is_not_asked_again_by_the_next_hook(way: Way) {
    let lines = ["touch ran", "rm ran", "touch ran"].map(|line| vec![way.shell(line)]);
    let scene = Scene::new(way, move |turn| turn.after(lines.clone()));
    let mut server = scene.serve("select", &ask());
    let seen = scene.run(|| {
        server.choose(Choice::Session);
        server.choose(Choice::ThisSubagent);
    });
    seen.assert_ran();
    assert_eq!(seen.told.len(), 3, "{seen:?}");
}

pub(crate) fn an_allow_list_lets_through_what_it_names_and_nothing_else(way: Way) {
    let lines = ["touch ran", "touch other"].map(|line| vec![way.shell(line)]);
    let scene = Scene::new(way, move |turn| turn.after(lines.clone()));
    let list = json!({ "permission": {
        "*": "deny",
        "bash": { "*": "deny", "touch ran": "allow" },
        "outside_sandbox": { "touch ran": "allow" },
    } });
    let _server = scene.serve("headless", &list);
    let seen = scene.run(|| {});
    seen.assert_ran();
    assert!(!scene.has("other"), "{seen:?}");
}

/// Everything above, for one way.
macro_rules! held_to_all {
    ($way:expr $(, $attribute:meta)?) => {
        crate::matrix::held_to_all! { @ $way, ($($attribute)?)
            what_a_rule_allows_runs
            what_a_rule_denies_does_not_run_and_the_model_reads_why
            what_a_person_approves_runs
            what_a_person_denies_does_not_run_and_the_model_reads_why
            what_nobody_answers_in_time_does_not_run
            where_nobody_serves_nothing_runs
            a_server_that_is_killed_leaves_a_denial
            a_hook_that_is_killed_leaves_a_denial
            a_hook_that_is_not_there_leaves_a_denial
            of_two_calls_at_once_each_gets_its_own_answer
            what_is_granted_for_the_session_is_not_asked_again_by_the_next_hook
            an_allow_list_lets_through_what_it_names_and_nothing_else
            what_no_rule_is_about_is_asked_once
            a_hook_that_is_killed_where_no_rule_is_about_it_leaves_a_denial
        }
    };
    (@ $way:expr, $attributes:tt $($test:ident)*) => {
        $(crate::matrix::held_to_all! { @one $way, $attributes $test })*
    };
    (@one $way:expr, ($($attribute:meta)?) $test:ident) => {
        #[test]
        $(#[$attribute])?
        fn $test() {
            crate::matrix::$test($way);
        }
    };
}
pub(crate) use held_to_all;

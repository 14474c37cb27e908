//! `askrelay acp` between a client of ours and the agents that speak ACP: the real agent asks its client, our proxy answers, and what
//! counts is whether the command ran, what the model read, and what the client got to see. Run by `tests/peers/run --all`.

mod client;
mod speakers;

use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::{Value, json};

use self::client::Client;
use self::speakers::Speaker;
use crate::matrix::stable;
use crate::model::{Model, Move, Turn};
use crate::seen::is_documented_in;
use crate::support::{Choice, Process, TempSpool, until};

const PAGE: &str = "docs/acp.md";
const CANCELLED: &str = "the client cancels the turn";

/// An agent at its work, a spool, and a model that has it run commands.
struct Scene {
    spool: TempSpool,
    model: Model,
    speaker: Speaker,
}

impl Scene {
    fn new(speaker: Speaker, script: impl Fn(&Turn) -> Vec<Move> + Send + Sync + 'static) -> Self {
        let scene = Self {
            spool: TempSpool::new(),
            model: Model::start(script),
            speaker,
        };
        speaker.configure(&scene.spool, &scene.model);
        scene
    }

    /// The model has these commands run, one after the other.
    fn running<const N: usize>(speaker: Speaker, commands: [&'static str; N]) -> Self {
        Self::new(speaker, move |turn| {
            turn.after(commands.map(|command| vec![speaker.shell(command)]))
        })
    }

    fn serve(&self, mode: &str, config: &Value) -> Process {
        self.spool.serve("main", mode, config, &[])
    }

    /// A client whose agent has a session, and begins its turn.
    fn start(&self, args: &[&str]) -> Client {
        let mut client = Client::start(self, args, &self.agent());
        client.begin();
        client
    }

    /// What starts the agent.
    fn agent(&self) -> Vec<String> {
        let command = self.speaker.command(&self.spool, &self.model);
        let words = std::iter::once(command.get_program()).chain(command.get_args());
        words
            .map(|word| word.to_str().unwrap().to_owned())
            .collect()
    }

    fn has(&self, name: &str) -> bool {
        self.spool.work().join(name).exists()
    }

    fn waiting(&self, count: usize) {
        until(&format!("{count} asks wait"), || {
            self.spool.waiting("main").len() == count
        });
    }

    /// What the model read, with nothing in it that differs from run to run.
    fn told(&self) -> Vec<String> {
        let home = self.spool.home().display().to_string();
        let told = self.model.was_told().into_iter();
        told.map(|text| text.replace(&home, "HOME")).collect()
    }

    /// Holds the documentation to what came of the call that was made after so many others.
    #[track_caller]
    fn document(&self, case: &str, call: usize, ran: bool) {
        let told = self.told();
        // What the model still hears of a turn that is cancelled depends on which of them is faster.
        let read = told.get(call).filter(|_| case != CANCELLED);
        let outcome = match (ran, read) {
            (true, _) => "runs",
            (false, Some(_)) => "does not run, and the model reads so",
            (false, None) => "does not run, and the turn ends",
        };
        let name = self.speaker.name();
        is_documented_in(PAGE, "## What was seen", &[&name], case, outcome);
        if ran || case == CANCELLED {
            return;
        }
        let text = read.map(|text| format!("`` {} ``", stable(text)));
        let text = text.as_deref().unwrap_or("nothing: the turn ends");
        let heading = "### What the model reads";
        is_documented_in(PAGE, heading, &[&name], "after a no, whoever's", text);
    }
}

/// Rules for commands, and nothing else.
fn rules(bash: &Value) -> Value {
    json!({ "permission": { "bash": bash } })
}

fn ask() -> Value {
    rules(&json!({ "*": "ask" }))
}

fn what_a_rule_allows_runs_and_what_it_denies_does_not(speaker: Speaker) {
    let scene = Scene::running(speaker, ["touch one", "touch two"]);
    let no = json!({ "action": "deny", "reason": "touch nothing here" });
    let _server = scene.serve(
        "headless",
        &rules(&json!({ "touch one": "allow", "touch two": no })),
    );
    let mut client = scene.start(&[]);
    client.turn();
    assert!(scene.has("one") && !scene.has("two"), "{:?}", scene.told());
    client.has_heard("touch nothing here");
    scene.document("a rule allows", 0, true);
    scene.document("a rule denies", 1, false);
}

fn what_a_person_approves_runs_and_what_they_deny_does_not(speaker: Speaker) {
    let scene = Scene::running(speaker, ["touch one", "touch two"]);
    let mut server = scene.serve("select", &ask());
    let mut client = scene.start(&[]);
    server.choose(Choice::Approve);
    server.choose(Choice::DenyWithReason);
    server.say("make a list first");
    client.turn();
    assert!(scene.has("one") && !scene.has("two"), "{:?}", scene.told());
    client.has_heard("make a list first");
    scene.document("a person says yes", 0, true);
    scene.document("a person says no", 1, false);
}

/// A yes for the session is kept by the session that was asked, and the agent asks again, unless it was told to remember it.
fn what_is_granted_for_the_session_is_not_asked_again(speaker: Speaker) {
    for (args, asked) in [(&[][..], 3), (&["--always"], speaker.asks_with_always())] {
        let scene = Scene::running(speaker, ["touch one", "rm one", "touch one"]);
        let mut server = scene.serve("select", &rules(&json!({ "*": "ask", "rm *": "allow" })));
        let mut client = scene.start(args);
        server.choose(Choice::Session);
        server.choose(Choice::ThisSubagent);
        client.turn();
        assert!(scene.has("one"), "{:?}", scene.told());
        let created = scene
            .spool
            .our_log("acp", "forwarded_permission.request_created");
        assert_eq!(created.len(), asked, "{args:?}: {created:#?}");
    }
}

fn where_nobody_serves_nothing_runs(speaker: Speaker) {
    let scene = Scene::running(speaker, ["touch one"]);
    let mut client = scene.start(&[]);
    client.turn();
    assert!(!scene.has("one"));
    client.has_heard("nobody serves session");
    scene.document("nobody serves", 0, false);
}

fn what_nobody_answers_in_time_does_not_run(speaker: Speaker) {
    let scene = Scene::running(speaker, ["touch one"]);
    let limit = json!({ "forwardingTimeoutMs": 1500 });
    scene
        .spool
        .write_json("config/askrelay/config.json", &limit);
    let _server = scene.serve("select", &ask());
    let mut client = scene.start(&[]);
    client.turn();
    assert!(!scene.has("one"));
    client.has_heard("did not answer within");
    scene.document("nobody answers in time", 0, false);
}

fn a_server_that_is_killed_leaves_a_denial(speaker: Speaker) {
    let scene = Scene::running(speaker, ["touch one"]);
    let mut server = scene.serve("select", &ask());
    let mut client = scene.start(&[]);
    scene.waiting(1);
    server.kill();
    client.turn();
    assert!(!scene.has("one"));
    client.has_heard("nobody serves session");
    scene.document("the server is killed meanwhile", 0, false);
}

fn a_turn_that_the_client_cancels_takes_its_ask_away(speaker: Speaker) {
    let scene = Scene::running(speaker, ["touch one"]);
    let _server = scene.serve("select", &ask());
    let mut client = scene.start(&[]);
    scene.waiting(1);
    client.cancel();
    scene.waiting(0);
    let ended = client.turn();
    assert_eq!(ended["result"]["stopReason"], "cancelled", "{ended}");
    assert!(!scene.has("one"));
    scene.document(CANCELLED, 0, false);
}

fn of_two_calls_at_once_each_gets_its_own_answer(speaker: Speaker) {
    let scene = Scene::new(speaker, move |turn| {
        turn.after([vec![speaker.shell("touch one"), speaker.shell("touch two")]])
    });
    let mut server = scene.serve("select", &ask());
    let mut client = scene.start(&[]);
    let at_once = speaker.asks_at_once();
    scene.waiting(at_once);
    server.choose(Choice::Approve);
    server.choose(Choice::Approve);
    client.turn();
    assert!(scene.has("one") && scene.has("two"), "{:?}", scene.told());
    let events = ["request_created", "response_received"].map(|event| {
        scene
            .spool
            .our_log("acp", &format!("forwarded_permission.{event}"))
    });
    let at = |entry: &Value| entry["timestamp"].as_str().unwrap().to_owned();
    let [created, received] = events;
    assert_eq!(at_once == 2, at(&created[1]) <= at(&received[0]));
    let seen = if at_once == 2 {
        "two asks at once"
    } else {
        "one ask after the other"
    };
    is_documented_in(
        PAGE,
        "## What was seen",
        &[&speaker.name()],
        "two calls at once",
        seen,
    );
}

fn an_agent_that_dies_takes_its_ask_with_it(speaker: Speaker) {
    let scene = Scene::running(speaker, ["touch one"]);
    let _server = scene.serve("select", &ask());
    let mut client = scene.start(&[]);
    scene.waiting(1);
    kill_process(client.agent(), Signal::KILL).unwrap();
    assert_eq!(client.code(), Some(137));
    scene.waiting(0);
    assert!(!scene.has("one"));
}

fn a_proxy_that_is_killed_leaves_nothing_allowed(speaker: Speaker) {
    let scene = Scene::running(speaker, ["touch one"]);
    let _server = scene.serve("select", &ask());
    let mut client = scene.start(&[]);
    scene.waiting(1);
    let agent = client.agent();
    client.kill();
    scene.waiting(0);
    until("the agent has seen that nobody is there", || !runs(agent));
    assert!(!scene.has("one"));
}

/// Whether a process of this id runs.
fn runs(process: Pid) -> bool {
    test_kill_process(process).is_ok()
}

/// Writes down what goes into the agent and what comes out of it.
const BETWEEN: &str = r#"into=$1 out=$2; shift 2; tee "$into" | "$@" | tee "$out""#;

fn everything_but_the_request_passes_byte_for_byte(speaker: Speaker) {
    let scene = Scene::running(speaker, ["touch one"]);
    let _server = scene.serve("headless", &rules(&json!({ "touch one": "allow" })));
    let [into, out] = ["into", "out"].map(|name| scene.spool.home().join(name));
    let mut agent: Vec<String> = ["sh", "-c", BETWEEN, "sh"].map(str::to_owned).into();
    agent.extend([&into, &out].map(|path| path.display().to_string()));
    agent.extend(scene.agent());
    let mut client = Client::start(&scene, &[], &agent);
    client.begin();
    client.turn();
    client.hang_up();
    assert_eq!(client.code(), Some(0));
    assert!(scene.has("one"), "{:?}", scene.told());
    let written = std::fs::read_to_string(out).unwrap();
    let (asking, other): (Vec<&str>, Vec<&str>) = written
        .lines()
        .partition(|line| line.contains(r#""session/request_permission""#));
    assert_eq!(asking.len(), 1);
    assert_eq!(client.received, other);
    let read = std::fs::read_to_string(into).unwrap();
    let (answers, other): (Vec<&str>, Vec<&str>) = read
        .lines()
        .partition(|line| !client.sent.iter().any(|sent| sent == line));
    assert_eq!(client.sent, other);
    assert_eq!(answers.len(), 1);
    let [request, answer] = [asking[0], answers[0]].map(parsed);
    assert_eq!(answer["id"], request["id"]);
    assert_eq!(answer["result"]["outcome"]["outcome"], "selected");
}

fn parsed(line: &str) -> Value {
    serde_json::from_str(line).unwrap()
}

/// Everything above, for one agent.
macro_rules! held_to_all {
    ($($name:ident $speaker:ident)*) => {
        $(mod $name {
            crate::acp::held_to_all! { @ $speaker
                what_a_rule_allows_runs_and_what_it_denies_does_not
                what_a_person_approves_runs_and_what_they_deny_does_not
                what_is_granted_for_the_session_is_not_asked_again
                where_nobody_serves_nothing_runs
                what_nobody_answers_in_time_does_not_run
                a_server_that_is_killed_leaves_a_denial
                a_turn_that_the_client_cancels_takes_its_ask_away
                of_two_calls_at_once_each_gets_its_own_answer
                an_agent_that_dies_takes_its_ask_with_it
                a_proxy_that_is_killed_leaves_nothing_allowed
                everything_but_the_request_passes_byte_for_byte
            }
        })*
    };
    (@ $speaker:ident $($test:ident)*) => {
        $(#[test]
        #[ignore = "run by tests/peers/run --all"]
        fn $test() {
            super::$test(super::Speaker::$speaker);
        })*
    };
}
use held_to_all;

held_to_all! {
    opencode Opencode
    gemini Gemini
    claude Claude
    codex Codex
}

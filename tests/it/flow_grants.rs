//! Grants of a session by real processes: what one covers, who sees it, and how it ends.
#![expect(
    clippy::disallowed_methods,
    reason = "tests look at the files of grants, and remove some"
)]

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use askrelay::audit::{Options, ReviewLog};
use askrelay::policy::Lifetime;
use askrelay::presentation::select::{Choice, GrantScope};
use askrelay::prompt::{Answerer, PersonEvent, PersonEvents, Prompter};
use askrelay::serve::{Mode, Server as Serving, Settings, Shown};
use askrelay::wire::{GrantWidth, RequestId, SessionId, UserSurface};
use serde_json::{Value, json};

use crate::support::grants::{SESSION, SUBAGENT};
use crate::support::processes::{Server, run};
use crate::support::spool::{TestSpool, names, read_json, request, until};

fn granting(spool: &TestSpool) -> Server {
    let mut server = spool.serve_select("P", &json!({}));
    spool.grant(&mut server, ("C", "r1"), ("make one", "make *"), SESSION);
    server
}

#[test]
fn policy_3_a_grant_is_recorded_as_it_was_shown_and_can_be_seen() {
    let spool = TestSpool::new();
    let mut server = granting(&spool);
    let grants = spool.grants("P");
    assert_eq!(grants.len(), 1);
    let grant = &grants[0];
    for (key, value) in [
        ("session", json!("P")),
        ("inForce", json!(true)),
        ("id", json!(1)),
        ("surface", json!("bash")),
        ("pattern", json!("make *")),
        ("scope", json!({"kind": "session"})),
        ("lifetime", json!({"kind": "session"})),
        ("givenBy", json!("select")),
        ("requestId", json!("r1")),
    ] {
        assert_eq!(grant[key], value, "{key}");
    }
    let path = spool.grant_path("P", "1.json");
    let file = fs::metadata(&path).unwrap();
    assert_eq!(file.mode() & 0o7777, 0o600);
    assert_eq!(
        fs::metadata(path.parent().unwrap()).unwrap().mode() & 0o7777,
        0o700
    );
    // The log has the same, in the line that the file names.
    let recorded = spool.await_event("forwarded_permission.session_recorded", "r1");
    assert_eq!(
        recorded["grants"],
        json!([{"surface": "bash", "pattern": "make *"}])
    );
    assert_eq!(recorded["grantIds"], json!([1]));
    assert_eq!(recorded["scope"], grant["scope"]);
    assert_eq!(recorded["lifetime"], grant["lifetime"]);
    let log = fs::read(spool.below("state/askrelay/review.jsonl")).unwrap();
    let line = log
        .split(|byte| *byte == b'\n')
        .find(|line| line.windows(16).any(|part| part == b"session_recorded"))
        .unwrap();
    let hash = blake3::hash(line).to_hex().to_string();
    assert_eq!(read_json(&path).unwrap()["logLine"], json!(hash));
    // In words, and in the status.
    let (_, text, _) = run(spool.relay().args(["ls", "--grants"]));
    let row = text.lines().nth(1).unwrap();
    for part in [
        "in force",
        "bash",
        "make *",
        "the session",
        "session end",
        "r1",
    ] {
        assert!(row.contains(part), "{row}");
    }
    let (_, text, _) = run(spool.relay().arg("status"));
    assert!(
        text.contains("granted in P: 1, see `askrelay ls --grants`"),
        "{text}"
    );
    let (_, text, _) = run(spool.relay().args(["status", "--json"]));
    assert!(text.contains("\"grants\":1"), "{text}");
    // A clean end leaves nothing.
    server.stop();
    assert!(names(&spool.root().join("grants")).is_empty());
}

#[test]
fn a_grant_that_was_taken_back_allows_nothing_more() {
    let spool = TestSpool::new();
    let mut server = granting(&spool);
    let ask = |id: &str| spool.ask("P").from("D").id(id).value("make two").start();
    ask("r2").end().approved();
    assert_eq!(spool.rests_on("r2"), json!([1]));
    let (code, stdout, stderr) = spool.revoke(&["1"]);
    assert_eq!((code, stderr.as_str()), (0, ""));
    assert_eq!(
        stdout,
        "revoked 1  bash \"make *\" for the session in session P\n"
    );
    let child = ask("r3");
    server.answer("make two", "No");
    child.end().denied();
    assert!(spool.grants("P").is_empty());
    let revoked = spool.events("grant.revoked");
    let by: Vec<&str> = revoked
        .iter()
        .map(|entry| entry["by"].as_str().unwrap())
        .collect();
    assert_eq!(by, ["command", "server"]);
    for entry in &revoked {
        assert_eq!(entry["grantId"], 1);
        assert_eq!(entry["pattern"], "make *");
        assert_eq!(entry["givenWith"], "r1");
    }
    // Once more it is unknown.
    let (code, stdout, stderr) = spool.revoke(&["1", "--json"]);
    assert_eq!(
        (code, stdout.as_str()),
        (1, "{\"id\":1,\"revoked\":false}\n")
    );
    assert!(stderr.contains("ls --grants"), "{stderr}");
}

#[test]
fn a_number_that_several_sessions_have_needs_its_session() {
    let spool = TestSpool::new();
    let mut server = granting(&spool);
    let mut other = spool.serve_select("Q", &json!({}));
    let child = spool
        .ask("Q")
        .id("q1")
        .value("make q")
        .grant("bash=make *")
        .start();
    let question = other.question();
    other.choose(&question, "Yes, for this session");
    let question = other.question();
    other.choose(&question, SESSION);
    child.end().approved();
    spool.await_grants("Q", |grants| grants.len() == 1);
    let (code, _, stderr) = spool.revoke(&["1"]);
    assert_eq!(code, 2, "{stderr}");
    assert!(
        stderr.contains("several sessions have a grant 1: P, Q"),
        "{stderr}"
    );
    assert_eq!(spool.revoke(&["1", "--session", "Q"]).0, 0);
    assert_eq!(spool.grants("P").len(), 1);
    let (code, stdout, _) = spool.revoke(&["--all", "--json"]);
    assert_eq!(code, 0);
    let line: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(line["revoked"], true);
    assert_eq!(line["session"], "P");
    assert_eq!(line["wasInForce"], true);
    server.stop();
    other.stop();
}

#[test]
fn a_file_that_is_removed_by_hand_is_noticed_without_an_ask() {
    let spool = TestSpool::new();
    let _server = granting(&spool);
    fs::remove_file(spool.grant_path("P", "1.json")).unwrap();
    until("the end of a grant", || {
        !spool.events("grant.revoked").is_empty()
    });
    assert_eq!(
        spool.events("grant.revoked")[0]["reason"],
        "its file is gone"
    );
}

#[test]
fn a_grant_is_for_its_surface_and_beats_no_deny() {
    let spool = TestSpool::new();
    let mut server = spool.serve_select("P", &json!({"bash": {"make clean": "deny"}}));
    spool.grant(&mut server, ("C", "r1"), ("make one", "make *"), SESSION);
    let ask = |id: &str| spool.ask("P").from("C").id(id);
    ask("r2").value("make clean").run().denied();
    ask("r3").value("make x").run().approved();
    let child = ask("r4").args(["--tool", "write"]).value("make x").start();
    server.answer("make x", "No");
    child.end().denied();
}

#[test]
fn policy_4_a_grant_holds_for_the_children_of_the_one_it_was_given_to() {
    let spool = TestSpool::new();
    let mut root = spool.serve_select("P", &json!({}));
    let mut relay = spool
        .serve("S")
        .args(["--mode", "headless"])
        .env("ASKRELAY_PARENT_SESSION", "P")
        .start();
    let ask = |from: &str, to: &str, id: &str| {
        let ask = spool.ask(to).from(from).id(id).value("make x");
        ask.grant("bash=make *").start()
    };
    // The session in between is granted it, by an ask of its own.
    let child = ask("S", "P", "r1");
    let question = root.question();
    root.choose(&question, "Yes, for this session");
    let question = root.question();
    root.choose(&question, SUBAGENT);
    child.end().approved();
    spool.await_grants("P", |grants| grants.len() == 1);
    // Whoever asks through it inherits; nobody else does.
    let ended = ask("D", "S", "r2").end();
    ended.approved();
    assert_eq!(
        ended.json["decidedBy"],
        json!({"kind": "forwarded", "responderSessionId": "S", "decision":
            {"kind": "forwarded", "responderSessionId": "P", "decision":
                {"kind": "session_approval", "surface": "bash", "pattern": "make *"}}})
    );
    let other = ask("E", "P", "r3");
    root.answer("make x", "No");
    other.end().denied();
    // What is granted to the one further down is not the one in between's.
    let child = spool
        .ask("S")
        .from("D")
        .id("r4")
        .value("cook x")
        .grant("bash=cook *")
        .start();
    let question = root.question();
    root.choose(&question, "Yes, for this session");
    let question = root.question();
    root.choose(&question, SUBAGENT);
    let ended = child.end();
    ended.approved();
    assert_eq!(ended.json["state"], "approved_for_session");
    spool.await_grants("P", |grants| grants.len() == 2);
    assert_eq!(
        spool.grants("P")[1]["scope"],
        json!({"kind": "subagent", "chain": ["D", "S"]})
    );
    // The one in between has recorded nothing of it.
    assert!(spool.grants("S").is_empty());
    spool
        .ask("S")
        .from("D")
        .id("r5")
        .value("cook y")
        .run()
        .approved();
    let other = spool.ask("S").from("E").id("r6").value("cook y").start();
    root.answer("cook y", "No");
    other.end().denied();
    relay.stop();
}

#[test]
fn policy_3_a_star_in_a_grant_lets_no_other_command_through() {
    let spool = TestSpool::new();
    let mut server = spool.serve_select("P", &json!({}));
    let line = "grep -n \"onclick.*\" f";
    spool.grant(&mut server, ("C", "r1"), (line, line), SESSION);
    spool
        .ask("P")
        .from("C")
        .id("r2")
        .value(line)
        .run()
        .approved();
    for (id, value) in [
        ("r3", "grep -n \"onclick.x\" f; rm -rf y"),
        ("r4", "grep -n \"onclick.$(rm y)\" f"),
    ] {
        let child = spool.ask("P").from("C").id(id).value(value).start();
        server.answer("grep", "No");
        child.end().denied();
    }
}

#[test]
fn policy_4_a_grant_is_recorded_once_in_the_scope_that_was_chosen_or_not_at_all() {
    let spool = TestSpool::new();
    let mut server = spool.serve_select("P", &json!({}));
    let ask = |id: &str| {
        let ask = spool.ask("P").from("C").id(id).value("make x");
        ask.grant("bash=make *").start()
    };
    // An answer to the question of scope that comes too late grants nothing.
    let mut child = ask("r1");
    let question = server.question();
    server.choose(&question, "Yes, for this session");
    let scope = server.question();
    child.running.signal(rustix::process::Signal::TERM);
    child.running.exit_code();
    server.await_text("taken it back");
    server.choose(&scope, SUBAGENT);
    server.await_text("the line was not used");
    assert!(
        spool
            .events("forwarded_permission.session_recorded")
            .is_empty()
    );
    let child = ask("r2");
    server.answer("make x", "No");
    child.end().denied();
    spool.grant(&mut server, ("C", "r3"), ("make x", "make *"), SUBAGENT);
    assert_eq!(spool.grants("P").len(), 1);
    assert_eq!(
        spool.events("forwarded_permission.session_recorded").len(),
        1
    );
}

#[test]
fn policy_5_a_suggestion_that_cannot_be_used_removes_the_offer_and_not_the_ask() {
    let spool = TestSpool::new();
    let mut server = spool.serve_select("P", &json!({}));
    let good = json!({"surface": "bash", "pattern": "make *"});
    for (n, suggestion) in [
        json!({"grants": []}),
        json!(null),
        json!({"grants": [good, {"surface": "bash"}]}),
        json!({"grants": [good, {"surface": "", "pattern": "*"}]}),
        json!({"grants": good}),
        json!({"surface": "bash", "patterns": ["make *", 1]}),
        json!({"surface": "bash", "patterns": ["make *"], "grants": []}),
    ]
    .into_iter()
    .enumerate()
    {
        let id = format!("r{n}");
        let mut asked = request(&id, "P", "bash", "make x");
        asked["sessionApproval"] = suggestion;
        spool.put_request("P", &asked);
        let question = server.question();
        assert!(
            question.text.contains("(nothing is suggested"),
            "{}",
            question.text
        );
        server.choose(&question, "Yes");
        spool.await_response("P", &id);
    }
    assert!(
        spool
            .events("forwarded_permission.session_recorded")
            .is_empty()
    );
    // The older form is as good as the newer one.
    let mut asked = request("old", "P", "bash", "make x");
    asked["sessionApproval"] = json!({"surface": "bash", "patterns": ["make *", "cook *"]});
    spool.put_request("P", &asked);
    let question = server.question();
    server.choose(&question, "Yes, for this session");
    let question = server.question();
    server.choose(&question, SESSION);
    spool.await_grants("P", |grants| grants.len() == 2);
}

#[test]
fn conc_3_grants_that_race_their_revocation_allow_nothing_behind_it_and_each_ask_ends_once() {
    const GRANTS: usize = 4;
    const ASKS: usize = 30;
    let spool = TestSpool::new();
    let mut server = spool.serve_select("P", &json!({}));
    for n in 0..GRANTS {
        let (value, pattern) = (format!("make-{n} one"), format!("make-{n} *"));
        let id = format!("given{n}");
        spool.grant(&mut server, ("C", &id), (&value, &pattern), SESSION);
    }
    // Each with a child that asks on and on, while they are taken back one by one.
    std::thread::scope(|scope| {
        for n in 0..GRANTS {
            let spool = &spool;
            scope.spawn(move || {
                for ask in 0..ASKS {
                    let id = format!("r{n}-{ask}");
                    let mut request = request(&id, "P", "bash", &format!("make-{n} {ask}"));
                    request["requesterSessionId"] = json!(format!("child{n}"));
                    spool.put_request("P", &request);
                }
            });
        }
        for n in 1..=GRANTS {
            let (code, stdout, stderr) = spool.revoke(&[&n.to_string()]);
            assert_eq!(code, 0, "{stdout}{stderr}");
        }
    });
    // What was not allowed waits for the person; they leave.
    until("all asks in the log", || {
        let log = spool.log();
        let seen = |event: &str| log.iter().filter(|entry| entry["event"] == event).count();
        let ended = seen("forwarded_permission.auto_approved");
        ended + seen("forwarded_permission.prompted") >= GRANTS * (ASKS + 1)
    });
    server.stop();
    let log = spool.log();
    for n in 1..=GRANTS {
        let position = log.iter().position(|entry| {
            entry["event"] == "grant.revoked" && entry["by"] == "command" && entry["grantId"] == n
        });
        let behind = &log[position.unwrap()..];
        let rests = |entry: &&Value| {
            let ids = entry["grantIds"].as_array();
            entry["event"] == "forwarded_permission.auto_approved"
                && ids.is_some_and(|ids| ids.contains(&json!(n)))
        };
        assert_eq!(behind.iter().find(rests), None);
    }
    for n in 0..GRANTS {
        for ask in 0..ASKS {
            let id = format!("r{n}-{ask}");
            assert_eq!(spool.ends_of(&id).len(), 1, "{id}");
        }
    }
}

/// Grants the first ask for some time or some uses, and denies the others.
struct Deputy {
    first: Option<Lifetime>,
    events: PersonEvents,
}

impl Prompter for Deputy {
    fn show(&mut self, shown: Shown) {
        let choice = self
            .first
            .take()
            .map_or(Choice::Deny, |lifetime| Choice::Session {
                scope: GrantScope::ServingSession,
                width: GrantWidth::Proven,
                lifetime,
            });
        let chosen = PersonEvent::Chosen {
            id: shown.request.id.clone(),
            digest: shown.digest,
            choice,
            by: Answerer::Person(UserSurface::Dialog),
        };
        drop(self.events.send(chosen));
    }

    fn withdraw(&mut self, _id: &RequestId, _why: &str) {}

    fn notice(&mut self, _text: &str) {}
}

/// A session that is served in this process until it is stopped.
struct Served {
    stop: tokio::sync::oneshot::Sender<()>,
    serving: JoinHandle<()>,
}

impl Served {
    fn stop(self) {
        drop(self.stop);
        self.serving.join().unwrap();
    }
}

fn served(spool: &TestSpool, first: Option<Lifetime>) -> Served {
    let log = spool.below("state/askrelay/review.jsonl");
    let log = Arc::new(ReviewLog::open(&log, Options::default()).unwrap());
    let settings = Settings {
        mode: Mode::Dialog,
        persist_grants: true,
        ..Settings::new(SessionId::parse("P").unwrap())
    };
    let place = spool.open();
    let (events, person) = tokio::sync::mpsc::unbounded_channel();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let prompter: Option<Box<dyn Prompter>> = Some(Box::new(Deputy { first, events }));
    let serving = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        runtime.unwrap().block_on(async {
            let server = Serving::start(&place, settings, None, log, prompter, person).unwrap();
            server.run(async { drop(stopped.await) }).await.unwrap();
        });
    });
    Served { stop, serving }
}

#[test]
fn a_grant_for_some_uses_counts_them_over_a_restart_and_is_gone_after_the_last() {
    let spool = TestSpool::new();
    let ask = |id: &str| {
        let ask = spool.ask("P").from("C").id(id).value("make x");
        ask.grant("bash=make *").run()
    };
    let server = served(&spool, Some(Lifetime::Uses(3)));
    ask("r1").approved();
    let left = |of: u64| {
        spool.await_grants("P", |grants| {
            grants.first().is_some_and(|grant| grant["usesLeft"] == of)
        });
    };
    left(3);
    ask("r2").approved();
    left(2);
    server.stop();
    let server = served(&spool, None);
    left(2);
    ask("r3").approved();
    ask("r4").approved();
    until("the last use", || !spool.events("grant.used_up").is_empty());
    ask("r5").denied();
    assert!(spool.grants("P").is_empty());
    server.stop();
    // It does not come back either.
    let server = served(&spool, None);
    ask("r6").denied();
    server.stop();
}

#[test]
fn a_grant_for_a_time_ends_by_the_servers_own_clock() {
    let spool = TestSpool::new();
    let ask = |id: &str| {
        let ask = spool.ask("P").from("C").id(id).value("make x");
        ask.grant("bash=make *").run()
    };
    let server = served(&spool, Some(Lifetime::For(Duration::from_secs(2))));
    ask("r1").approved();
    let grant = read_json(&spool.grant_path("P", "1.json"));
    // A slow machine may have come too late to see it.
    if let Some(grant) = grant {
        let (given, ends) = (&grant["givenAt"], &grant["expiresAt"]);
        assert_eq!(ends.as_i64().unwrap() - given.as_i64().unwrap(), 2_000);
    }
    until("the end of its time", || {
        !spool.events("grant.expired").is_empty()
    });
    ask("r2").denied();
    assert!(spool.grants("P").is_empty());
    server.stop();
}

//! The chain of authorizers with real programs: who is asked in which order, what a verdict is worth, and who is credited.
#![expect(
    clippy::disallowed_methods,
    reason = "tests look at what their programs write"
)]

use std::fs;

use serde_json::{Value, json};

use crate::support::fixtures;
use crate::support::judges::{Chain, allows, defers, says};
use crate::support::processes::{has_ended, run};
use crate::support::spool::{TestSpool, is_there, names, request, until};

/// Pairs of a link and what came of asking it.
fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    let pair = |(name, outcome): &(&str, &str)| ((*name).to_owned(), (*outcome).to_owned());
    expected.iter().map(pair).collect()
}

#[test]
fn the_first_link_that_rules_decides_and_is_credited_by_name() {
    let spool = TestSpool::new();
    let chain = Chain::default()
        .link(&spool, "first", &defers())
        .link(
            &spool,
            "second",
            &says(r#"{"verdict":"allow","reason":"a build"}"#),
        )
        .link(&spool, "third", "echo asked >third; exit 1");
    let server = chain.serve(&spool, "P").select().start();
    let ended = spool.ask("P").value("make").id("r1").run();
    ended.approved();
    let decider =
        json!({"kind": "authorizer", "name": "second", "verdict": "allow", "reason": null});
    assert_eq!(ended.json["decidedBy"]["decision"], decider);
    assert_eq!(ended.json["state"], "approved");
    assert_eq!(ended.json["resolution"], "authorizer_allowed");
    assert!(!server.has_written_more(), "{}", server.running.stdout());
    assert_eq!(spool.written("third"), None);

    let resolved = spool.events_of("authorizer_chain_resolved", "r1");
    assert_eq!(resolved.len(), 1);
    assert_eq!(resolved[0]["links"], json!(["first", "second", "third"]));
    assert_eq!(
        spool.links("r1"),
        pairs(&[("first", "defer"), ("second", "allow")])
    );
    let said = spool.events_of("authorizer_link", "r1");
    assert_eq!(
        (&said[0]["reason"], &said[1]["reason"]),
        (&Value::Null, &json!("a build"))
    );
    let ends = spool.ends_of("r1");
    assert_eq!(ends.len(), 1);
    assert_eq!(ends[0]["decidedBy"], decider);
    // Nobody waited for a person.
    assert!(
        spool
            .events_of("permission_request.waiting", "r1")
            .is_empty()
    );
    let told = spool.events_of("permission_request.approved", "r1");
    assert_eq!(told[0]["resolution"], "approved");
}

#[test]
fn chain_1_a_deny_is_a_deny_whatever_its_reason() {
    let spool = TestSpool::new();
    let reason = r#"case $(cat) in *empty*) r='""';; *none*) r=null;; *) r='"not on\nfriday"';; esac
        printf '%s\n' "{\"verdict\":\"deny\",\"reason\":$r}""#;
    let chain = Chain::default().link(&spool, "judge", reason);
    let _server = chain.serve(&spool, "P").select().start();
    for (value, state) in [
        ("empty", "denied"),
        ("none", "denied"),
        ("why", "denied_with_reason"),
    ] {
        let ended = spool.ask("P").value(value).run();
        ended.denied();
        assert_eq!(ended.json["state"], state);
        assert_eq!(ended.json["resolution"], "authorizer_denied");
        let text = ended.json["message"].as_str().unwrap_or(&ended.stderr);
        assert!(
            text.contains("Denied by the authorizer judge in session P"),
            "{} {}",
            ended.json,
            ended.stderr
        );
        assert_eq!(text.contains("friday"), value == "why", "{text}");
    }
}

#[test]
fn what_the_chain_leaves_open_is_a_persons_or_nobodys() {
    let spool = TestSpool::new();
    let chain = Chain::default().link(&spool, "judge", &defers());
    let mut server = chain.serve(&spool, "P").select().start();
    let _other = chain.serve(&spool, "Q").start();
    let child = spool.ask("P").value("make").start();
    server.answer("make", "Yes");
    let ended = child.end();
    ended.approved();
    assert_eq!(ended.json["decidedBy"]["decision"]["kind"], "user");
    let ended = spool.ask("Q").value("make").run();
    ended.unruled();
    let reason = ended.json["denialReason"].as_str().unwrap();
    assert!(reason.contains("its authorizers leave it open"), "{reason}");
}

#[test]
fn policy_goes_before_the_chain() {
    let spool = TestSpool::new();
    let chain = Chain::default()
        .link(&spool, "judge", "echo asked >>asked; exit 1")
        .with("permission", json!({"bash": {"ls": "allow", "rm": "deny"}}));
    let _server = chain.serve(&spool, "P").start();
    spool.ask("P").value("ls").run().approved();
    spool.ask("P").value("rm").run().denied();
    assert_eq!(spool.written("asked"), None);
}

#[test]
fn chain_3_a_name_without_a_program_is_skipped_with_a_warning_and_shown() {
    let spool = TestSpool::new();
    let chain = Chain::default()
        .named("missing")
        .link(&spool, "judge", "exit 7");
    let mut server = chain.serve(&spool, "P").select().start();
    for id in ["r1", "r2"] {
        let child = spool.ask("P").value("make").id(id).start();
        server.answer("make", "No");
        child.end().denied();
        assert_eq!(spool.links(id), pairs(&[("judge", "failed")]));
    }
    let skipped = spool.events("authorizer_chain_unregistered_link");
    assert_eq!(skipped.len(), 1);
    assert_eq!(skipped[0]["name"], "missing");
    let warned = server.running.stderr();
    assert_eq!(warned.matches("\"missing\"").count(), 1, "{warned}");
    assert!(!warned.contains("not in force"), "{warned}");
    // The status says who is missing, and who fails.
    let status = |args: &[&str]| run(spool.relay().arg("status").args(args)).1;
    until("a heartbeat that tells of both", || {
        status(&["--json"]).contains(r#"{"name":"judge","asked":2,"failed":2,"missing":false}"#)
    });
    let text = status(&[]);
    assert!(
        text.contains("the authorizer missing of P is skipped"),
        "{text}"
    );
    assert!(
        text.contains("the authorizer judge of P has failed 2 of 2 times"),
        "{text}"
    );
    // And who would decide here: no name without a program.
    let alone = Chain::default().named("missing").file(&spool, "alone");
    for (file, decides) in [
        (alone, "decides  nobody"),
        (chain.file(&spool, "P"), "chain of authorizers (judge)"),
    ] {
        let text = status(&["--config", file.to_str().unwrap()]);
        assert!(text.contains(decides), "{text}");
    }
}

#[test]
fn chain_7_every_invocation_is_recorded_and_counted() {
    let spool = TestSpool::new();
    let body = r#"case $(cat) in *fail*) exit 3;; *allow*) v=allow;; *deny*) v=deny;; *) v=defer;; esac
        echo "{\"verdict\":\"$v\"}""#;
    let chain = Chain::default().link(&spool, "judge", body);
    let _server = chain.serve(&spool, "P").start();
    for value in ["fail 1", "fail 2", "allow", "deny", "other"] {
        drop(spool.ask("P").value(value).run());
    }
    let mut command = spool.relay();
    command.args(["log", "stats", "--json"]);
    let (_, stdout, stderr) = run(&mut command);
    let stats: Value = serde_json::from_str(&stdout).expect(&stderr);
    let mut link = stats["links"]["judge"].clone();
    assert!(link["medianMs"].is_u64(), "{link}");
    link.as_object_mut().unwrap().remove("medianMs");
    let counts = json!({"asked": 5, "allowed": 1, "denied": 1, "deferred": 1, "capped": 0, "failed": 2, "cancelled": 0});
    assert_eq!(link, counts);
    let (_, text, _) = run(spool.relay().args(["log", "stats"]));
    assert!(text.contains("LINK ") && text.contains(" ms"), "{text}");
}

#[test]
fn chain_5_an_allow_on_a_path_is_no_allow_unless_the_link_is_trusted_there() {
    let spool = TestSpool::new();
    let chain = Chain::default()
        .link(&spool, "judge", &allows())
        .link(&spool, "other", &allows());
    let mut server = chain.serve(&spool, "P").select().start();
    let ask = |session: &str, id: &str, surface: &str| {
        spool.put_request(session, &request(id, session, surface, "/etc/passwd"));
    };
    for (id, surface) in [("r1", "path_write"), ("r2", "external_directory")] {
        ask("P", id, surface);
        server.answer("/etc/passwd", "No");
        assert_eq!(spool.await_response("P", id)["approved"], false);
        assert_eq!(
            spool.links(id),
            pairs(&[("judge", "capped"), ("other", "capped")])
        );
    }
    let capped = spool.events_of("authorizer_link", "r1");
    assert_eq!(capped[0]["cap"], "it is not trusted on path");

    let trusted = chain.with("authorizerTrust", json!({"other": ["path"]}));
    let mut server = trusted.serve(&spool, "Q").select().start();
    ask("Q", "q1", "path_read");
    let answer = spool.await_response("Q", "q1");
    assert_eq!(answer["decidedBy"]["name"], "other");
    assert_eq!(answer["approved"], true);
    assert_eq!(
        spool.links("q1"),
        pairs(&[("judge", "capped"), ("other", "allow")])
    );
    let logged = spool.events_of("authorizer_trusted_allow", "q1");
    assert_eq!(logged.len(), 1);
    assert_eq!(
        (&logged[0]["link"], &logged[0]["surfaceFamily"]),
        (&json!("other"), &json!("path"))
    );
    ask("Q", "q2", "external_directory_read");
    server.answer("/etc/passwd", "No");
    assert_eq!(
        spool.links("q2"),
        pairs(&[("judge", "capped"), ("other", "capped")])
    );
}

#[test]
fn chain_5_and_8_an_ask_is_judged_alike_through_any_number_of_sessions() {
    let spool = TestSpool::new();
    let judge = r#"n=$(ls got 2>/dev/null | wc -l); mkdir -p got; cat >got/$n.json; echo '{"verdict":"deny","reason":"no"}'"#;
    let chain = Chain::default().link(&spool, "judge", judge);
    let server = chain.serve(&spool, "P").select().start();
    let own = Chain::default().link(&spool, "own", "echo asked >own");
    let _relay = own
        .serve(&spool, "S")
        .env("ASKRELAY_PARENT_SESSION", "P")
        .start();
    for (session, id) in [("P", "r1"), ("S", "r2")] {
        let ended = spool.ask(session).value("make install").id(id).run();
        ended.denied();
        let mut decided = &ended.json["decidedBy"];
        while decided["kind"] == "forwarded" {
            decided = &decided["decision"];
        }
        assert_eq!(decided["name"], "judge");
        assert_eq!(spool.links(id), pairs(&[("judge", "deny")]));
    }
    assert!(!server.has_written_more(), "{}", server.running.stdout());
    // The same facts, but for the session that asks.
    let facts = |name: &str| -> Value {
        let mut facts: Value = serde_json::from_str(&spool.written(name).unwrap()).unwrap();
        facts["requestId"].take();
        facts["forwarding"]["requesterSessionId"].take();
        facts["forwarding"]["requesterAgentName"].take();
        facts["request"]["requester"].take();
        facts
    };
    assert_eq!(facts("got/0.json"), facts("got/1.json"));
    // Neither where nor for whom, and no more than the annotators get.
    let text = spool.written("got/1.json").unwrap();
    assert!(
        !text.contains("principal") && !text.contains(spool.work().to_str().unwrap()),
        "{text}"
    );
    // The session in between asked nobody.
    assert_eq!(spool.written("own"), None);
    let delegated = spool.events("authorizer_chain_delegated");
    assert_eq!(delegated.len(), 1);
    assert_eq!(
        (&delegated[0]["requestId"], &delegated[0]["links"]),
        (&json!("r2"), &json!(["own"]))
    );
}

#[test]
fn what_the_parent_gives_back_goes_through_the_own_chain() {
    let spool = TestSpool::new();
    let mut parent = spool.serve_select("P", &json!({}));
    let chain = Chain::default().link(&spool, "own", &allows());
    let server = chain
        .serve(&spool, "S")
        .select()
        .env("ASKRELAY_PARENT_SESSION", "P")
        .start();
    until("a parent that is served", || {
        !spool
            .events("forwarded_permission.relay_started")
            .is_empty()
    });
    let child = spool.ask("S").value("make").id("r1").start();
    let _question = parent.question();
    assert_eq!(spool.links("r1"), []);
    parent.running.kill();
    let ended = child.end();
    ended.approved();
    assert_eq!(ended.json["decidedBy"]["decision"]["name"], "own");
    assert_eq!(spool.events_of("authorizer_chain_delegated", "r1").len(), 1);
    assert!(!server.has_written_more(), "{}", server.running.stdout());
}

#[test]
fn chain_4_a_person_may_always_decide_and_the_link_is_stopped() {
    let spool = TestSpool::new();
    let chain = Chain::default()
        .link(&spool, "judge", "echo $$ >pid; exec sleep 1000")
        .link(&spool, "next", "echo asked >next");
    let mut server = chain.serve(&spool, "P").select().start();
    let child = spool.ask("P").value("make").id("r1").start();
    let question = server.question();
    let line = "waits for : authorizer judge; you can decide first";
    assert!(question.text.contains(line), "{}", question.text);
    let pid = spool.await_pid("pid");
    server.choose(&question, "Yes");
    let ended = child.end();
    ended.approved();
    assert_eq!(ended.json["decidedBy"]["decision"]["kind"], "user");
    until("the end of the judge", || has_ended(pid));
    assert_eq!(spool.links("r1"), pairs(&[("judge", "cancelled")]));
    assert_eq!(spool.written("next"), None);
}

#[test]
fn chain_4_a_link_that_answers_first_takes_the_question_away() {
    let spool = TestSpool::new();
    let body = r#"while ! [ -e go ]; do sleep 0.05; done; echo '{"verdict":"allow"}'"#;
    let chain = Chain::default().link(&spool, "judge", body);
    let mut server = chain.serve(&spool, "P").select().start();
    let child = spool.ask("P").value("make").id("r1").start();
    let _question = server.question();
    fs::write(spool.work().join("go"), "").unwrap();
    let ended = child.end();
    ended.approved();
    assert_eq!(ended.json["decidedBy"]["decision"]["name"], "judge");
    server.await_text("authorizer judge allowed it");
    assert_eq!(spool.links("r1"), pairs(&[("judge", "allow")]));
    assert_eq!(spool.ends_of("r1").len(), 1);
}

#[test]
fn what_a_link_decides_in_time_is_not_annotated() {
    let spool = TestSpool::new();
    let note =
        json!({"command": ["/bin/sh", "-c", format!("echo run >{}/note", spool.work().display())]});
    let chain = Chain::default()
        .link(&spool, "judge", &allows())
        .with("annotatorChain", json!(["note"]))
        .with("annotators", json!({"note": note}));
    let _server = chain.serve(&spool, "P").select().start();
    spool.ask("P").value("make").run().approved();
    assert_eq!(spool.written("note"), None);
}

#[test]
fn the_same_bytes_put_there_again_ask_no_judge_again() {
    let spool = TestSpool::new();
    let chain = Chain::default().link(
        &spool,
        "judge",
        &format!("echo x >>asked; {}", says(r#"{"verdict":"deny"}"#)),
    );
    let _server = chain.serve(&spool, "P").start();
    for _ in 0..3 {
        spool.put_request("P", &request("r1", "P", "bash", "make"));
        assert_eq!(spool.await_response("P", "r1")["approved"], false);
        until("the end of the request", || {
            !is_there(&spool.request_path("P", "r1"))
        });
        fs::remove_file(spool.response_path("P", "r1")).unwrap();
    }
    assert_eq!(spool.written("asked").as_deref(), Some("x\n"));
    assert_eq!(spool.links("r1").len(), 1);
}

#[test]
fn an_ask_that_is_taken_back_takes_its_judge_along() {
    let spool = TestSpool::new();
    let chain = Chain::default().link(&spool, "judge", "echo $$ >pid; exec sleep 1000");
    let _server = chain.serve(&spool, "P").start();
    spool.put_request("P", &request("r1", "P", "bash", "make"));
    let pid = spool.await_pid("pid");
    fs::remove_file(spool.request_path("P", "r1")).unwrap();
    spool.await_event("forwarded_permission.request_withdrawn", "r1");
    until("the end of the judge", || has_ended(pid));
    assert_eq!(spool.links("r1"), pairs(&[("judge", "cancelled")]));
    assert!(!is_there(&spool.response_path("P", "r1")));
}

#[test]
fn other_bytes_under_the_same_id_are_judged_anew() {
    let spool = TestSpool::new();
    let body = r#"case $(cat) in *first*) : >begun; while ! [ -e go ]; do sleep 0.05; done; v=allow;; *) v=deny;; esac
        echo "{\"verdict\":\"$v\"}""#;
    let chain = Chain::default().link(&spool, "judge", body);
    let _server = chain.serve(&spool, "P").start();
    spool.put_request("P", &request("r1", "P", "bash", "first"));
    until("a judge that has begun", || {
        spool.written("begun").is_some()
    });
    spool.put_request("P", &request("r1", "P", "bash", "second"));
    fs::write(spool.work().join("go"), "").unwrap();
    let answer = spool.await_response("P", "r1");
    assert_eq!(answer["decidedBy"]["verdict"], "deny", "{answer}");
    assert_eq!(
        spool.links("r1"),
        pairs(&[("judge", "allow"), ("judge", "deny")])
    );
    assert_eq!(
        spool
            .events_of("forwarded_permission.request_changed", "r1")
            .len(),
        1
    );
}

#[test]
fn fifty_asks_at_once_are_judged_eight_at_a_time() {
    let spool = TestSpool::new();
    let body = r#"mkdir -p running counts; : >running/$$; ls running | wc -l >counts/$$
        while ! [ -e go ]; do sleep 0.05; done; rm running/$$; echo '{"verdict":"allow"}'"#;
    let chain = Chain::default().link(&spool, "judge", body);
    let _server = chain.serve(&spool, "P").start();
    let ids: Vec<String> = (0..50).map(|n| format!("r{n}")).collect();
    for id in &ids {
        spool.put_request("P", &request(id, "P", "bash", "make"));
    }
    for id in &ids {
        spool.await_event("forwarded_permission.prompted", id);
    }
    until("eight judges", || {
        names(&spool.work().join("running")).len() == 8
    });
    assert_eq!(spool.events("authorizer_chain_resolved").len(), 8);
    fs::write(spool.work().join("go"), "").unwrap();
    for id in &ids {
        assert_eq!(spool.await_response("P", id)["approved"], true);
    }
    let counts = names(&spool.work().join("counts"));
    assert_eq!(counts.len(), 50);
    for name in counts {
        let count = spool.written(&format!("counts/{name}")).unwrap();
        assert!(count.trim().parse::<u32>().unwrap() <= 8, "{count}");
    }
}

#[test]
fn an_end_of_the_session_leaves_no_judge_behind() {
    let spool = TestSpool::new();
    let body = "trap '' TERM; echo $$ >pid; sleep 1000 & echo $! >other; while :; do sleep 1; done";
    let chain = Chain::default().link(&spool, "judge", body);
    let mut server = chain.serve(&spool, "P").start();
    spool.put_request("P", &request("r1", "P", "bash", "make"));
    let (pid, other) = (spool.await_pid("pid"), spool.await_pid("other"));
    assert_eq!(server.stop(), 0);
    let answer = spool.await_response("P", "r1");
    assert_eq!(answer["approved"], false);
    assert_eq!(answer["decidedBy"]["kind"], "unavailable");
    until("the end of the judge", || {
        has_ended(pid) && has_ended(other)
    });
    assert_eq!(spool.links("r1"), pairs(&[("judge", "cancelled")]));
}

/// The link of docs/configuration.md, as a reader would copy it.
#[test]
fn the_link_of_the_documentation_works() {
    let spool = TestSpool::new();
    let text = fixtures::text("docs/configuration.md");
    let section = text
        .split("## The chain of authorizers")
        .nth(1)
        .and_then(|section| section.split("```python\n").nth(1));
    let body = section.unwrap().split("```").next().unwrap();
    let path = spool.work().join("house-rules");
    fs::write(&path, body).unwrap();
    let program = json!({"command": ["/usr/bin/env", "python3", path], "timeoutMs": 60_000});
    let chain = Chain::default().program("house-rules", program);
    let _server = chain.serve(&spool, "P").start();
    let ask = |value: &str| spool.ask("P").value(value).run();
    ask("make test").approved();
    let denied = ask("git push origin --force");
    denied.denied();
    assert_eq!(denied.json["denialReason"], "use --force-with-lease");
    for open in ["make test && rm -rf x", "make install", "git push"] {
        ask(open).unruled();
    }
    for entry in spool.events("authorizer_link") {
        assert_ne!(entry["outcome"], "failed", "{entry}");
    }
}

#[test]
fn a_chain_that_is_configured_while_the_session_runs_is_for_the_asks_from_then_on() {
    let spool = TestSpool::new();
    let old = r#"echo $$ >pid; while ! [ -e go ]; do sleep 0.05; done; echo '{"verdict":"allow"}'"#;
    let chain = Chain::default().link(&spool, "old", old);
    let path = chain.file(&spool, "P");
    let _server = spool.serve("P").select().config(&path).start();
    let first = spool.ask("P").value("make first").id("r1").start();
    spool.await_pid("pid");
    // The operator replaces the judge while it is thinking.
    let chain = Chain::default()
        .link(&spool, "new", &says(r#"{"verdict":"deny"}"#))
        .named("gone");
    let bytes = fs::read(chain.file(&spool, "next")).unwrap();
    spool.put(&path, bytes);
    until("the new configuration", || {
        !spool.events("config.reloaded").is_empty()
    });
    let second = spool.ask("P").value("make second").id("r2").run();
    second.denied();
    assert_eq!(second.json["decidedBy"]["decision"]["name"], "new");
    let skipped = spool.events("authorizer_chain_unregistered_link");
    assert_eq!(skipped.len(), 1);
    fs::write(spool.work().join("go"), "").unwrap();
    let first = first.end();
    first.approved();
    assert_eq!(first.json["decidedBy"]["decision"]["name"], "old");
}

#[test]
fn while_the_configuration_is_broken_no_link_allows_anything() {
    let spool = TestSpool::new();
    let body = r#"case $(cat) in *deny*) v=deny;; *) v=allow;; esac; echo "{\"verdict\":\"$v\"}""#;
    let chain = Chain::default().link(&spool, "judge", body);
    let path = chain.file(&spool, "P");
    let mut server = spool.serve("P").select().config(&path).start();
    spool.ask("P").value("make").run().approved();
    spool.put(&path, "{");
    until("a broken configuration", || {
        !spool.events("config.broken").is_empty()
    });
    let child = spool.ask("P").value("make install").id("r2").start();
    server.answer("make install", "No");
    child.end().denied();
    assert_eq!(spool.links("r2"), pairs(&[("judge", "capped")]));
    let entry = &spool.events_of("authorizer_link", "r2")[0];
    assert_eq!(entry["cap"], "the configuration is broken");
    let denied = spool.ask("P").value("deny this").run();
    denied.denied();
    assert_eq!(denied.json["decidedBy"]["decision"]["kind"], "authorizer");
}

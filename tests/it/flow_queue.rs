//! Several asks and one person: whose turn it is, what one answer settles, and that nobody is forgotten.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use askrelay::ask::{Ask, PlainAsk, Requester, Settings, Spellings, intent_of};
use askrelay::audit::ReviewLog;
use askrelay::spool::Watch;
use askrelay::wire::{Generation, Principal, RequestSource, SessionId};
use serde_json::json;

use crate::support::processes::run;
use crate::support::spool::{TestSpool, names, request, until};

#[test]
fn a_second_ask_waits_behind_the_one_on_screen_and_each_answer_goes_to_its_own() {
    let spool = TestSpool::new();
    let mut server = spool.serve_select("P", &json!({}));
    let first = spool.ask("P").value("make one").id("r1").start();
    let question = server.question();
    assert!(question.text.contains("make one"));
    let second = spool.ask("P").value("make two").id("r2").start();
    spool.await_event("forwarded_permission.prompted", "r2");
    assert!(!server.has_written_more());
    server.choose(&question, "No");
    first.end().denied();
    server.answer("make two", "Yes");
    second.end().approved();
    for id in ["r1", "r2"] {
        assert_eq!(spool.ends_of(id).len(), 1, "{id}");
        assert_eq!(spool.events_of("permission_request.waiting", id).len(), 1);
    }
}

#[test]
fn a_denial_settles_its_own_ask_and_no_other() {
    let spool = TestSpool::new();
    let mut server = spool.serve_select("P", &json!({}));
    let asks: Vec<_> = ["r1", "r2", "r3"]
        .into_iter()
        .map(|id| {
            let child = spool.ask("P").value("make").id(id).from(id).start();
            spool.await_event("forwarded_permission.prompted", id);
            child
        })
        .collect();
    let mut ends = Vec::new();
    for (child, label) in asks.into_iter().zip(["No", "Yes", "No"]) {
        server.answer("make", label);
        ends.push(child.end().code);
    }
    assert_eq!(ends, [1, 0, 1]);
}

#[test]
fn a_grant_for_the_whole_session_settles_the_same_ask_whether_it_came_before_or_after() {
    let spool = TestSpool::new();
    let mut server = spool.serve_select("P", &json!({}));
    let ask = |id: &str, value: &str| {
        let ask = spool.ask("P").value(value).id(id).from(id);
        ask.grant("bash=make *").start()
    };
    let chosen = ask("r1", "make one");
    let question = server.question();
    let before = ask("r2", "make two");
    spool.await_event("forwarded_permission.prompted", "r2");
    server.choose(&question, "Yes, for this session");
    let scope = server.question();
    server.choose(&scope, "The whole session, parent and all subagents");
    let chosen = chosen.end();
    chosen.approved();
    // The one who chose is told of a plain approval: the grant is recorded with the session, not with the child.
    assert_eq!(chosen.json["state"], "approved");
    assert_eq!(chosen.json["sessionGrantWidth"], json!(null));
    assert_eq!(chosen.json["decidedBy"]["decision"]["kind"], "user");

    let before = before.end();
    before.approved();
    let after = ask("r3", "make three").end();
    after.approved();
    assert_eq!(before.json["decidedBy"], after.json["decidedBy"]);
    assert_eq!(
        before.json["decidedBy"]["decision"],
        json!({"kind": "session_approval", "surface": "bash", "pattern": "make *"})
    );
    assert_eq!(before.json["resolution"], "session_approved");
    let recorded = spool.await_event("forwarded_permission.session_recorded", "r1");
    assert_eq!(
        recorded["grants"],
        json!([{"surface": "bash", "pattern": "make *"}])
    );
    for id in ["r2", "r3"] {
        let entry = spool.await_event("forwarded_permission.auto_approved", id);
        assert_eq!(entry["decidedBy"]["kind"], "session_approval", "{entry}");
        assert!(spool.events_of("permission_request.waiting", id).is_empty());
    }
}

#[test]
fn what_a_grant_settles_does_not_wait_behind_another_question() {
    let spool = TestSpool::new();
    let mut server = spool.serve_select("P", &json!({}));
    let start = |id: &str, value: &str| {
        let ask = spool.ask("P").value(value).id(id).from(id);
        let child = ask.grant("bash=make *").start();
        spool.await_event("forwarded_permission.prompted", id);
        child
    };
    let chosen = start("r1", "make one");
    let question = server.question();
    let other = start("r2", "rm everything");
    let same = start("r3", "make three");
    server.choose(&question, "Yes, for this session");
    let scope = server.question();
    server.choose(&scope, "The whole session, parent and all subagents");
    chosen.end().approved();
    let question = server.question();
    assert!(question.text.contains("rm everything"));
    // The person has this question in front of them, and may take as long as they like.
    same.end().approved();
    server.choose(&question, "No");
    other.end().denied();
}

#[test]
fn an_ask_that_is_put_off_is_not_denied_and_the_next_one_is_asked() {
    let spool = TestSpool::new();
    let mut server = spool.serve_select("P", &json!({}));
    let mut first = spool.ask("P").value("make one").id("r1").start();
    let question = server.question();
    assert!(question.text.contains("make one"));
    let second = spool
        .ask("P")
        .value("make two")
        .id("r2")
        .from("other")
        .start();
    spool.await_event("forwarded_permission.prompted", "r2");
    server.running.write_line("l");
    server.answer("make two", "No");
    second.end().denied();
    let deferred = spool.events_of("permission_request.deferred", "r1");
    assert_eq!(deferred.len(), 1);
    assert_eq!(deferred[0]["via"], "select");
    assert!(!first.running.has_ended());
    // A session that ends settles it as any other.
    server.stop();
    first.end().unruled();
}

#[test]
fn conc_3_asks_that_are_alike_are_answered_together_by_name_where_there_is_no_screen() {
    let spool = TestSpool::new();
    let mut server = spool.serve_select("P", &json!({}));
    let start = |id: &str, value: &str| {
        let child = spool.ask("P").value(value).id(id).from(id).start();
        spool.await_event("forwarded_permission.prompted", id);
        child
    };
    let other = start("r0", "make zero");
    let question = server.question();
    let alike = ["r1", "r2", "r3"].map(|id| start(id, "make"));
    server.choose(&question, "No");
    other.end().denied();
    let question = server.question();
    assert!(
        question.text.contains("a) Yes, for these 3 asks"),
        "{}",
        question.text
    );
    server.running.write_line("a");
    server.await_text("b) Back to the one question");
    let table = server.running.stdout();
    for id in ["r1", "r2", "r3"] {
        assert!(table.contains(&format!("  {id}\n")), "{table}");
    }
    server.running.write_line("yes");
    for (child, id) in alike.into_iter().zip(["r1", "r2", "r3"]) {
        let ended = child.end();
        ended.approved();
        assert_eq!(
            ended.json["decidedBy"]["decision"],
            json!({"kind": "user", "via": "select"})
        );
        let entries = spool.events_of("forwarded_permission.approved", id);
        assert_eq!(entries[0]["batch"], json!({"first": "r1", "count": 3}));
    }
}

#[test]
fn a_grant_for_one_child_holds_for_that_child_and_no_other() {
    let spool = TestSpool::new();
    let mut server = spool.serve_select("P", &json!({}));
    let ask = |id: &str, session: &str| {
        let ask = spool.ask("P").from(session).value("make x").id(id);
        ask.grant("bash=make *").start()
    };
    let child = ask("r1", "C");
    let question = server.question();
    server.choose(&question, "Yes, for this session");
    let scope = server.question();
    server.choose(&scope, "This subagent only");
    let ended = child.end();
    ended.approved();
    assert_eq!(ended.json["state"], "approved_for_session");
    assert_eq!(ended.json["sessionGrantWidth"], "proven");
    assert_eq!(ended.json["resolution"], "user_approved_for_session");
    // Our children remember nothing: the session does it for them, for this one alone.
    let recorded = spool.await_event("forwarded_permission.session_recorded", "r1");
    assert_eq!(recorded["grantIds"], json!([1]));
    assert_eq!(
        recorded["scope"],
        json!({"kind": "subagent", "chain": ["C"]})
    );
    assert_eq!(recorded["lifetime"], json!({"kind": "session"}));
    let same = ask("r2", "C").end();
    same.approved();
    assert_eq!(
        same.json["decidedBy"]["decision"]["kind"],
        "session_approval"
    );
    let rested = spool.await_event("forwarded_permission.auto_approved", "r2");
    assert_eq!(rested["grantIds"], json!([1]));
    let other = ask("r3", "D");
    server.answer("make x", "No");
    other.end().denied();
}

#[test]
fn policy_3_a_grant_for_a_while_or_a_few_times_says_so_and_holds_so_long() {
    let spool = TestSpool::new();
    let mut server = spool.serve_select("P", &json!({}));
    for (id, label, pattern, lifetime) in [
        (
            "r1",
            "The whole session, for 15 minutes",
            "make *",
            json!({"kind": "for", "ms": 900_000}),
        ),
        (
            "r2",
            "The whole session, 10 times",
            "cook *",
            json!({"kind": "uses", "uses": 10}),
        ),
    ] {
        let value = pattern.replace('*', "one");
        let ask = spool.ask("P").value(&value).id(id);
        let child = ask.grant(&format!("bash={pattern}")).start();
        let question = server.question();
        server.choose(&question, "Yes, for this session");
        let scope = server.question();
        assert!(
            scope.text.contains(&format!("{label}: bash \"{pattern}\"")),
            "{}",
            scope.text
        );
        server.choose(&scope, label);
        let ended = child.end();
        ended.approved();
        assert_eq!(ended.json["state"], "approved");
        let recorded = spool.await_event("forwarded_permission.session_recorded", id);
        assert_eq!(recorded["lifetime"], lifetime);
    }
    let cook = |id: &str| spool.ask("P").value("cook two").id(id).from(id);
    for n in 0..10 {
        cook(&format!("c{n}")).run().approved();
    }
    // The eleventh is asked again.
    let child = cook("c10").start();
    server.answer("cook two", "No");
    child.end().denied();
}

#[test]
fn a_grant_in_both_directions_travels_as_the_familys() {
    let spool = TestSpool::new();
    let mut server = spool.serve_select("P", &json!({}));
    let ask = spool
        .ask("P")
        .args(["--tool", "read", "--surface", "path_read"]);
    let child = ask.value("/d/x").grant("path_read=/d/*").start();
    let question = server.question();
    server.choose(
        &question,
        "Yes, for this session: reading and writing \"/d/*\"",
    );
    let scope = server.question();
    server.choose(&scope, "This subagent only");
    let ended = child.end();
    ended.approved();
    assert_eq!(ended.json["sessionGrantWidth"], "family");
}

#[test]
fn a_grant_for_the_session_without_a_suggestion_records_nothing() {
    let spool = TestSpool::new();
    let mut server = spool.serve_select("P", &json!({}));
    let child = spool.ask("P").value("make").id("r1").start();
    let question = server.question();
    assert!(
        question.text.contains("(nothing is suggested"),
        "{}",
        question.text
    );
    // Its number leads nowhere.
    server.running.write_line("2");
    server.answer("make", "Yes");
    child.end().approved();
    let child = spool.ask("P").value("make").id("r2").start();
    server.answer("make", "No");
    child.end().denied();
    assert!(
        spool
            .events("forwarded_permission.session_recorded")
            .is_empty()
    );
}

#[test]
fn policy_answers_while_a_question_is_open() {
    let spool = TestSpool::new();
    let rules = json!({"bash": {"ls *": "allow", "rm *": "deny"}});
    let mut server = spool.serve_select("P", &rules);
    let waiting = spool.ask("P").value("make").start();
    let question = server.question();
    spool.ask("P").value("ls x").run().approved();
    spool.ask("P").value("rm x").run().denied();
    assert!(!server.has_written_more());
    server.choose(&question, "Yes");
    waiting.end().approved();
}

#[test]
fn text_that_is_no_option_never_approves() {
    let spool = TestSpool::new();
    let mut server = spool.serve_select("P", &json!({}));
    let mut child = spool.ask("P").value("make").id("r1").start();
    for line in [
        "",
        "  ",
        "y",
        "Yes",
        "yes please continue",
        "0",
        "01",
        "+1",
        "-1",
        "1.0",
        "1 2",
        "99",
        "１",
        "approve",
        "\u{1b}[A",
    ] {
        let _question = server.question();
        server.running.write_line(line);
    }
    let question = server.question();
    assert!(!child.running.has_ended());
    assert!(spool.ends_of("r1").is_empty());
    server.choose(&question, "No");
    child.end().denied();
}

#[test]
fn the_question_tells_how_many_more_wait() {
    let spool = TestSpool::new();
    let mut server = spool.serve_select("P", &json!({}));
    for n in 0..4 {
        let id = format!("r{n}");
        spool.put_request("P", &request(&id, "P", "bash", &format!("make {n}")));
        spool.await_event("forwarded_permission.prompted", &id);
    }
    server.answer("make 0", "Yes");
    let question = server.question();
    assert!(
        question.text.contains("waiting: 2 more"),
        "{}",
        question.text
    );
}

#[test]
fn four_children_at_once_with_three_asks_each_have_twelve_ends() {
    let spool = TestSpool::new();
    let mut server = spool.serve_select("P", &json!({}));
    // Each line answers the next question, whichever it is.
    for _ in 0..12 {
        server.running.write_line("1");
    }
    std::thread::scope(|scope| {
        for child in 0..4 {
            let spool = &spool;
            scope.spawn(move || {
                for n in 0..3 {
                    let id = format!("c{child}-{n}");
                    let ask = spool.ask("P").value("make").from(&format!("c{child}"));
                    ask.id(&id).run().approved();
                }
            });
        }
    });
    for child in 0..4 {
        for n in 0..3 {
            assert_eq!(spool.ends_of(&format!("c{child}-{n}")).len(), 1);
        }
    }
    assert_eq!(spool.events("permission_request.waiting").len(), 12);
    assert_eq!(server.stop(), 0);
}

#[test]
fn two_parents_on_one_spool_do_not_wait_for_each_other() {
    let spool = TestSpool::new();
    let mut away = spool.serve_select("P1", &json!({}));
    let mut here = spool.serve_select("P2", &json!({}));
    let stuck = spool.ask("P1").value("make one").id("r1").start();
    let question = away.question();
    for _ in 0..3 {
        let child = spool.ask("P2").value("make two").start();
        here.answer("make two", "Yes");
        child.end().approved();
    }
    assert_eq!(spool.waiting("P1"), ["r1"]);
    let (code, stdout, _) = run(spool.relay().args(["status", "--json"]));
    assert_eq!(code, 0);
    let session = |id: &str| {
        stdout
            .lines()
            .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
            .find(|line| line["type"] == "session" && line["session"] == id)
            .unwrap()
    };
    assert_eq!(session("P1")["requests"], 1);
    assert_eq!(session("P2")["requests"], 0);
    away.choose(&question, "Yes");
    stuck.end().approved();
}

/// An ask for a command line, as `askrelay ask` would make it.
fn ask_for(value: &str, session: &str, id: String) -> Ask {
    let plain = PlainAsk {
        tool: "bash".into(),
        surface: "bash".into(),
        kind: None,
        value: value.into(),
        evidence: Vec::new(),
    };
    let payload = plain.payload();
    let spellings = Spellings {
        values: vec![value.into()],
        boundary: None,
    };
    let principal = Principal {
        session_id: session.into(),
        agent_name: "scout".into(),
    };
    Ask {
        id: Some(id),
        access_intent: Some(intent_of(&payload, spellings, "/work".into(), principal)),
        payload,
        source: RequestSource::ToolCall,
        surface: Some("bash".into()),
        value: Some(value.into()),
        grants: Vec::new(),
        timeout: Duration::from_mins(10),
        path: Vec::new(),
        rules_only: false,
        guard: false,
        verdict_only: false,
    }
}

#[test]
fn five_hundred_asks_of_eight_children_are_answered_once_each() {
    let spool = TestSpool::new();
    let rules = json!({"bash": {"ls *": "allow", "rm *": "deny"}});
    let mut server = spool.serve_headless("P", &rules);
    let open = spool.open();
    let watch = Arc::new(Watch::start().unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let ends: HashMap<String, &'static str> = runtime.block_on(async {
        let mut asks = tokio::task::JoinSet::new();
        for child in 0..8 {
            let session_id = format!("c{child}");
            let settings = Settings {
                trust: askrelay::ask::Trust::Anybody,
                target: SessionId::parse("P").unwrap(),
                session_id: session_id.clone(),
                agent_name: "scout".into(),
                generation: Generation::Current,
                where_nobody_serves: askrelay::ask::WhereNobodyServes::Wait,
            };
            let requester = Requester::new(
                &open,
                settings,
                Some(Arc::clone(&watch)),
                Arc::new(ReviewLog::disabled()),
            );
            for n in (child..500).step_by(8) {
                let value = format!("{} {n}", ["ls", "rm", "make"][n % 3]);
                let ask = ask_for(&value, &session_id, format!("r{n}"));
                let requester = requester.clone();
                asks.spawn(async move {
                    let answer = requester.ask(ask).await;
                    let resolution = answer.decision().resolution();
                    (answer.request_id.as_str().to_owned(), resolution)
                });
            }
        }
        let mut ends = HashMap::new();
        while let Some(ended) = asks.join_next().await {
            let (id, resolution) = ended.unwrap();
            assert!(ends.insert(id, resolution).is_none());
        }
        ends
    });
    assert_eq!(ends.len(), 500);
    for n in 0..500 {
        let expected = ["policy_allow", "policy_deny", "confirmation_unavailable"][n % 3];
        assert_eq!(ends[&format!("r{n}")], expected, "r{n}");
    }
    assert_eq!(server.stop(), 0);
    let mut counts: HashMap<String, usize> = HashMap::new();
    for event in ["approved", "denied"] {
        for entry in spool.events(&format!("forwarded_permission.{event}")) {
            *counts
                .entry(entry["requestId"].as_str().unwrap().to_owned())
                .or_default() += 1;
        }
    }
    assert_eq!(counts.len(), 500);
    assert!(counts.values().all(|count| *count == 1), "{counts:?}");
    assert!(
        spool
            .events("forwarded_permission.answer_unclaimed")
            .is_empty()
    );
    // What waits was asked about once, however often the directory was listed meanwhile.
    let prompted = spool.events("forwarded_permission.prompted");
    assert_eq!(prompted.len(), 166);
    assert_eq!(names(&spool.root().join("sessions")), [""; 0]);
}

#[test]
fn a_flood_of_one_child_does_not_starve_another() {
    let spool = TestSpool::new();
    let mut server = spool.serve_select("P", &json!({}));
    for n in 0..100 {
        let mut flood = request(&format!("a{n:03}"), "P", "bash", &format!("flood {n}"));
        flood["requesterSessionId"] = json!("flood");
        spool.put_request("P", &flood);
    }
    let first = server.question();
    until("the flood to be read", || {
        spool.events("forwarded_permission.prompted").len() == 100
    });
    let late = spool.ask("P").value("late").id("z1").start();
    spool.await_event("forwarded_permission.prompted", "z1");
    server.choose(&first, "No");
    // One more question of the flood at most stands between the late one and the person.
    let mut question = server.question();
    if question.text.contains("flood") {
        server.choose(&question, "No");
        question = server.question();
    }
    assert!(question.text.contains("late"), "{}", question.text);
    server.choose(&question, "Yes");
    late.end().approved();
}

//! Links of the chain that hang, flood, lie, crash or are not there: each is a "don't know" with its reason, and the ask goes on.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::support::judges::{Chain, allows, says};
use crate::support::processes::run;
use crate::support::spool::{TestSpool, request};

/// What became of asking each link about an ask: outcome, and the reason that is recorded.
fn reasons(spool: &TestSpool, id: &str) -> BTreeMap<String, (String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    spool
        .events_of("authorizer_link", id)
        .iter()
        .map(|entry| {
            let said = (text(&entry["outcome"]), text(&entry["reason"]));
            (text(&entry["name"]), said)
        })
        .collect()
}

/// A link that does something wrong.
struct Wrong {
    name: &'static str,
    body: String,
    /// How many milliseconds it has.
    within: u64,
    /// What is recorded of it begins so.
    reason: &'static str,
}

fn wrong_links() -> Vec<Wrong> {
    let yes = r#"echo '{"verdict":"allow"}'"#;
    [
        (
            "hangs",
            "echo $$ >pid-hangs; exec sleep 1000".into(),
            1_000,
            "it took longer than 1000 ms",
        ),
        (
            "stays",
            format!("trap '' TERM; echo $$ >pid-stays; {yes}; while :; do sleep 1; done"),
            1_000,
            "it took longer than 1000 ms",
        ),
        (
            "floods",
            format!("echo $$ >pid-floods; {yes}; exec head -c 1000000000 /dev/zero"),
            60_000,
            "it wrote more than 65536 bytes",
        ),
        (
            "other",
            says(r#"{"verdict":"allow","requestId":"r2"}"#),
            60_000,
            "its answer is unusable: it answers another ask",
        ),
        ("garbage", says("allow"), 60_000, "its answer is unusable: "),
        (
            "nothing",
            "cat >/dev/null".into(),
            60_000,
            "its answer is unusable: ",
        ),
        (
            "twice",
            format!("{}; {yes}", allows()),
            60_000,
            "its answer is unusable: ",
        ),
        (
            "both",
            says(r#"{"verdict":"deny","verdict":"allow"}"#),
            60_000,
            "its answer is unusable: ",
        ),
        (
            "odd",
            says(r#"{"verdict":"allow","reason":7}"#),
            60_000,
            "its answer is unusable: field \"reason\"",
        ),
        (
            "word",
            says(r#"{"verdict":"approve"}"#),
            60_000,
            "its answer is unusable: field \"verdict\"",
        ),
        (
            "fails",
            format!("{yes}; exit 1"),
            60_000,
            "it ended with exit status: 1",
        ),
        (
            "crashes",
            format!("{yes}; kill -SEGV $$"),
            60_000,
            "it ended with signal: 11",
        ),
    ]
    .map(|(name, body, within, reason)| Wrong {
        name,
        body,
        within,
        reason,
    })
    .into()
}

#[test]
fn whatever_a_link_does_it_is_no_allow_and_the_next_one_is_asked() {
    let spool = TestSpool::new();
    let mut chain = Chain::default();
    let cases = wrong_links();
    for wrong in &cases {
        chain = chain.link_within(&spool, wrong.name, &wrong.body, wrong.within);
    }
    let plain = spool.work().join("plain");
    spool.put(&plain, "#!/bin/sh\n");
    let chain = chain
        .program("plain", json!({"command": [plain]}))
        .program("absent", json!({"command": ["/no/such/program"]}))
        .link(&spool, "closes", r#"exec <&-; echo '{"verdict":"defer"}'"#)
        .link(
            &spool,
            "forks",
            r#"sleep 1000 & echo $! >pid-forks; echo '{"verdict":"defer"}'"#,
        )
        .link(
            &spool,
            "last",
            &says(r#"{"verdict":"deny","reason":"at last","requestId":"r1"}"#),
        );
    let _server = chain.serve(&spool, "P").start();
    let mut ask = request("r1", "P", "bash", "make");
    // More than a pipe holds, for those who do not read.
    ask["payload"]["evidence"] =
        json!([{"label": "input", "text": "x".repeat(300_000), "detail": null}]);
    spool.put_request("P", &ask);
    let answer = spool.await_response("P", "r1");
    assert_eq!(
        answer["decidedBy"],
        json!({"kind": "authorizer", "name": "last", "verdict": "deny", "reason": "at last"})
    );
    let reasons = reasons(&spool, "r1");
    for Wrong { name, reason, .. } in &cases {
        let (outcome, said) = &reasons[*name];
        assert_eq!(outcome, "failed", "{name}");
        assert!(said.starts_with(reason), "{name}: {said}");
    }
    for name in ["plain", "absent"] {
        let (outcome, said) = &reasons[name];
        assert_eq!(outcome, "failed", "{name}");
        assert!(said.starts_with("it cannot be started: "), "{name}: {said}");
    }
    for name in ["closes", "forks"] {
        assert_eq!(reasons[name].0, "defer", "{name}");
    }
    for name in ["hangs", "stays", "floods", "forks"] {
        spool.await_end(&format!("pid-{name}"));
    }
    assert_eq!(
        spool.events_of("forwarded_permission.denied", "r1").len(),
        1
    );
}

#[test]
fn a_link_knows_neither_the_spool_nor_any_key_of_its_server() {
    let spool = TestSpool::new();
    let chain = Chain::default().link(&spool, "judge", &format!("env >env; {}", allows()));
    let _server = chain
        .serve(&spool, "P")
        .env("ASKRELAY_TOKEN", "secret")
        .start();
    spool.ask("P").value("make").run().approved();
    let env = spool.written("env").unwrap();
    assert!(
        !env.contains("ASKRELAY") && !env.contains("secret"),
        "{env}"
    );
}

#[test]
fn what_a_link_says_reaches_nobody_unescaped_or_without_bounds() {
    let spool = TestSpool::new();
    let reason = format!(r"\u001b[2Jgone\u202e{}", "x".repeat(60_000));
    let chain = Chain::default().link(
        &spool,
        "judge",
        &says(&format!(r#"{{"verdict":"deny","reason":"{reason}"}}"#)),
    );
    let _server = chain.serve(&spool, "P").start();
    let ended = spool.ask("P").value("make").id("r1").run();
    ended.denied();
    assert!(
        !ended.stderr.contains('\u{1b}') && !ended.stderr.contains('\u{202e}'),
        "{}",
        ended.stderr
    );
    let reason = ended.json["denialReason"].as_str().unwrap();
    assert!(reason.len() < 30_000, "{}", reason.len());
    let (code, stdout, _) = run(spool.relay().args(["log", "--request", "r1"]));
    assert_eq!(code, 0);
    assert!(
        !stdout.contains('\u{1b}') && !stdout.contains('\u{202e}'),
        "{stdout}"
    );
}

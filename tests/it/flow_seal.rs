//! Sealed answers between processes that mean well: who makes a key, who is told it, and what an answer without a seal is worth.
#![expect(
    clippy::disallowed_methods,
    reason = "tests look at files, and at what the system shows of a process"
)]

use std::process::Command;

use serde_json::{Value, json};

use crate::support::processes::run;
use crate::support::spool::{TestSpool, eventually, is_there, request, until};

/// The key that a session is served with, as `status` shows it.
#[track_caller]
fn key_of(spool: &TestSpool, session: &str) -> String {
    let (code, stdout, stderr) = run(spool.relay().args(["status", "--json"]));
    assert_eq!(code, 0, "{stderr}");
    stdout
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .find(|line| line["session"] == session && line["type"] == "session")
        .and_then(|line| line["heartbeat"]["publicKey"].as_str().map(str::to_owned))
        .expect("a key")
}

/// What `launch` puts into the environment of a child.
#[track_caller]
fn launched(spool: &TestSpool, args: &[&str], environment: &[(&str, &str)]) -> (String, String) {
    let print = r#"printf '%s\n%s\n' "${ASKRELAY_SERVING_KEY-none}" "$ASKRELAY_LINEAGE""#;
    let mut command = spool.relay();
    command
        .arg("launch")
        .args(args)
        .args(["--", "sh", "-c", print]);
    command.envs(environment.iter().copied());
    let (code, stdout, stderr) = run(&mut command);
    assert_eq!(code, 0, "{stderr}");
    let (key, lineage) = stdout.trim_end().split_once('\n').unwrap();
    (key.to_owned(), lineage.to_owned())
}

#[test]
fn a_launched_child_is_told_the_key_and_its_answer_is_sealed() {
    let spool = TestSpool::new();
    let server = spool.serve_headless("P", &json!({"bash": {"ls *": "allow", "rm *": "deny"}}));
    let key = key_of(&spool, "P");
    assert!(
        server
            .running
            .stderr()
            .contains(&format!("it seals with {key}")),
        "{}",
        server.running.stderr()
    );
    for (value, code, resolution) in [("ls -l", 0, "policy_allow"), ("rm x", 1, "policy_deny")] {
        let mut command = spool.relay();
        let program = env!("CARGO_BIN_EXE_askrelay");
        command.args(["launch", "--session", "P", "--as", "C", "--", program]);
        command.args(["ask", "--json", "--value", value]);
        let (ended, stdout, stderr) = run(&mut command);
        assert_eq!(ended, code, "{stderr}");
        let answer: Value = serde_json::from_str(&stdout).unwrap();
        assert_eq!(answer["sealed"], true);
        assert_eq!(answer["resolution"], resolution);
        assert_eq!(answer["decidedBy"]["relay"], json!({"sealed": true}));
        let received = spool.await_event(
            "forwarded_permission.response_received",
            answer["requestId"].as_str().unwrap(),
        );
        assert_eq!(received["decidedBy"], answer["decidedBy"]);
    }
}

#[test]
fn without_a_key_an_answer_counts_and_says_that_nothing_vouches_for_it() {
    let spool = TestSpool::new();
    let _server = spool.serve_headless("P", &json!({"bash": {"*": "allow"}}));
    let ended = spool.ask("P").value("ls").run();
    ended.approved();
    assert_eq!(ended.json["sealed"], false);
    assert_eq!(ended.json["decidedBy"]["relay"], Value::Null);
}

#[test]
fn where_seals_are_demanded_and_no_key_is_known_nothing_is_asked() {
    let spool = TestSpool::new();
    let _server = spool.serve_headless("P", &json!({"bash": {"*": "allow"}}));
    let config = spool.config("demanding", &json!({"requireSeal": true}));
    let ask = || {
        let config = config.as_os_str();
        spool
            .ask("P")
            .value("ls")
            .args(["--config".as_ref(), config])
    };
    let ended = ask().run();
    ended.unruled();
    assert_eq!(ended.json["abandoned"], "no_key");
    assert!(ended.stderr.contains("hint: "), "{}", ended.stderr);
    assert_eq!(
        spool.events("forwarded_permission.request_created"),
        [json!(null); 0]
    );
    let ended = ask().args(["--serving-key", &key_of(&spool, "P")]).run();
    ended.approved();
    assert_eq!(ended.json["sealed"], true);
    // A launcher says so before anything is started.
    let mut command = spool.relay();
    command.args(["launch", "--session", "Q", "--config"]);
    command.arg(&config).args(["--", "true"]);
    let (code, _, stderr) = run(&mut command);
    assert_eq!(code, 2, "{stderr}");
    assert!(
        stderr.contains("hint: run `askrelay serve` first"),
        "{stderr}"
    );
}

#[test]
fn a_key_that_is_none_stops_everything_that_would_need_it() {
    let spool = TestSpool::new();
    let _server = spool.serve_headless("P", &json!({"bash": {"*": "allow"}}));
    for args in [
        vec!["ask", "--session", "P", "--value", "ls"],
        vec!["serve", "--session", "Q", "--mode", "headless"],
        vec!["launch", "--session", "P", "--", "true"],
        vec!["status"],
    ] {
        let mut command = spool.relay();
        command
            .args(&args)
            .env("ASKRELAY_SERVING_KEY", "ed25519:AAAA");
        let (code, stdout, stderr) = run(&mut command);
        assert_eq!((code, stdout.as_str()), (2, ""), "{args:?}: {stderr}");
        assert!(
            stderr.contains("ASKRELAY_SERVING_KEY") && stderr.contains("hint: "),
            "{args:?}: {stderr}"
        );
    }
    // Set to nothing is what a launcher's mistake leaves behind; and keys that cannot be read are not none.
    for (name, value) in [
        ("ASKRELAY_SERVING_KEY", ""),
        (
            "ASKRELAY_LINEAGE",
            r#"[{"sessionId":"P","agentName":"x","servingKey":"mldsa:AAAA"}]"#,
        ),
    ] {
        let ended = spool.ask("P").value("ls").env(name, value).run();
        assert_eq!(ended.code, 2, "{name}: {}", ended.stderr);
        assert!(ended.stderr.contains("hint: "), "{}", ended.stderr);
    }
    let ended = spool
        .ask("P")
        .value("ls")
        .args(["--serving-key", "nonsense"])
        .run();
    assert_eq!(ended.code, 2, "{}", ended.stderr);
}

#[test]
fn a_child_that_outlives_its_server_takes_no_answer_of_the_next_one() {
    let spool = TestSpool::new();
    let policy = json!({"bash": {"*": "allow"}});
    let mut first = spool.serve_headless("P", &policy);
    let key = key_of(&spool, "P");
    assert_eq!(first.stop(), 0);
    let _second = spool.serve_headless("P", &policy);
    assert_ne!(key_of(&spool, "P"), key);
    let ended = spool
        .ask("P")
        .value("ls")
        .env("ASKRELAY_SERVING_KEY", &key)
        .run();
    ended.unruled();
    assert_eq!(ended.json["abandoned"], "not_serving");
    assert!(
        ended.json["denialReason"]
            .as_str()
            .unwrap()
            .contains("another process serves it than the one whose key is known"),
        "{}",
        ended.json
    );
    // Nobody was asked in vain.
    assert_eq!(
        spool.events("forwarded_permission.request_created"),
        [json!(null); 0]
    );
    assert!(
        ended.stderr.contains("start the child anew"),
        "{}",
        ended.stderr
    );
}

#[test]
fn a_server_that_takes_over_in_an_instant_is_known_for_another_one() {
    let spool = TestSpool::new();
    let policy = json!({"bash": {"*": "ask"}});
    let mut first = spool.serve_select("P", &policy);
    let key = key_of(&spool, "P");
    let child = spool
        .ask("P")
        .value("make")
        .env("ASKRELAY_SERVING_KEY", &key)
        .start();
    let _question = first.question();
    first.running.kill();
    // The same lock file, locked again before anybody could see it free.
    let _second = spool.serve_select("P", &policy);
    let ended = child.end();
    ended.unruled();
    assert_eq!(ended.json["abandoned"], "not_serving");
    assert!(
        ended.stderr.contains("start the child anew"),
        "{}",
        ended.stderr
    );
}

#[test]
fn a_parent_whose_key_is_known_is_not_passed_over() {
    let spool = TestSpool::new();
    let _main = spool.serve_headless("main", &json!({"bash": {"*": "allow"}}));
    let relay = spool.serve_headless("R", &json!({"bash": {"*": "deny"}}));
    let lineage = json!([
        {"sessionId": "main", "agentName": "x", "servingKey": key_of(&spool, "main")},
        {"sessionId": "R", "agentName": "x", "servingKey": key_of(&spool, "R")},
    ]);
    let ask = || {
        spool
            .ask("")
            .value("ls")
            .env("ASKRELAY_PARENT_SESSION", "R")
            .env("ASKRELAY_SERVING_KEY", key_of(&spool, "R"))
            .env("ASKRELAY_LINEAGE", lineage.to_string())
    };
    ask().run().denied();
    // Whoever makes it look unserved does not get another one to decide.
    let asking = ask();
    drop(relay);
    let ended = asking.run();
    ended.unruled();
    assert_eq!(ended.json["abandoned"], "not_serving");
}

#[test]
fn launch_tells_each_session_above_by_its_own_key() {
    let spool = TestSpool::new();
    let policy = json!({"bash": {"*": "allow"}});
    let _main = spool.serve_headless("main", &policy);
    let main_key = key_of(&spool, "main");
    let (key, lineage) = launched(&spool, &["--session", "main", "--as", "A"], &[]);
    assert_eq!(key, main_key);
    assert_eq!(
        serde_json::from_str::<Value>(&lineage).unwrap(),
        json!([{"sessionId": "main", "agentName": "unknown", "servingKey": main_key}])
    );
    // `A` serves nobody: its child is told no key for it, and the one of the session above all the same.
    let inherited = [
        ("ASKRELAY_SESSION", "A"),
        ("ASKRELAY_PARENT_SESSION", "main"),
        ("ASKRELAY_SERVING_KEY", main_key.as_str()),
        ("ASKRELAY_LINEAGE", lineage.as_str()),
    ];
    let (key, lineage) = launched(&spool, &["--as", "B"], &inherited);
    assert_eq!(key, "none");
    let ask = || {
        spool
            .ask("")
            .value("ls")
            .env("ASKRELAY_SESSION", "B")
            .env("ASKRELAY_PARENT_SESSION", "A")
            .env("ASKRELAY_LINEAGE", &lineage)
    };
    let ended = ask().run();
    ended.approved();
    assert_eq!(ended.json["responderSessionId"], "main");
    assert_eq!(ended.json["sealed"], true);
    let mut status = spool.relay();
    status
        .arg("status")
        .env("ASKRELAY_SESSION", "B")
        .env("ASKRELAY_PARENT_SESSION", "A")
        .env("ASKRELAY_LINEAGE", &lineage);
    let (_, stdout, _) = run(&mut status);
    assert!(stdout.contains("in its place main"), "{stdout}");
    assert!(
        stdout.contains(&format!("only answers sealed by {main_key} count")),
        "{stdout}"
    );
    // Whoever serves `A` from now on was not there when `B` was started, and is not asked.
    let _late = spool.serve_headless("A", &policy);
    let ended = ask().run();
    assert_eq!(ended.json["responderSessionId"], "main");
    assert_eq!(ended.json["sealed"], true);
    // Its name alone does not make it one that is believed.
    let ended = ask().args(["--session", "A"]).run();
    ended.unruled();
    assert_eq!(ended.json["abandoned"], "no_key");
    // Nor does a launcher that knows keys believe a heartbeat: it has to be given the key.
    let (key, _) = launched(&spool, &["--as", "D"], &inherited);
    assert_eq!(key, "none");
    let key_of_a = key_of(&spool, "A");
    let (key, _) = launched(
        &spool,
        &["--as", "D", "--serving-key", &key_of_a],
        &inherited,
    );
    assert_eq!(key, key_of_a);
    // What it was told for a session it hands on, whatever the heartbeat says.
    let (key, lineage) = launched(&spool, &["--session", "main", "--as", "E"], &inherited);
    assert_eq!(key, main_key);
    assert!(!lineage.contains(&key_of_a), "{lineage}");
    let other = [("ASKRELAY_SERVING_KEY", key_of_a.as_str())];
    let (key, _) = launched(&spool, &["--session", "main", "--as", "E"], &other);
    assert_eq!(key, key_of_a);
}

#[test]
fn each_hop_of_a_relay_seals_its_own_answer_and_the_frames_say_so() {
    let spool = TestSpool::new();
    let policy = json!({"bash": {"*": "ask"}});
    let mut root = spool.serve_select("root", &policy);
    let root_key = key_of(&spool, "root");
    let serve = |session: &str, parent: &str, key: Option<&str>| {
        let serve = spool
            .serve(session)
            .policy(&spool, session, &policy)
            .env("ASKRELAY_PARENT_SESSION", parent);
        match key {
            Some(key) => serve.env("ASKRELAY_SERVING_KEY", key).start(),
            None => serve.start(),
        }
    };
    let _middle = serve("middle", "root", Some(&root_key));
    let middle_key = key_of(&spool, "middle");
    // This one was started by somebody who did not know the key of its parent.
    let _careless = serve("careless", "middle", None);
    let careless_key = key_of(&spool, "careless");

    let child = spool
        .ask("careless")
        .value("make")
        .env("ASKRELAY_SERVING_KEY", &careless_key)
        .start();
    root.answer("make", "Yes");
    let ended = child.end();
    ended.approved();
    assert_eq!(ended.json["sealed"], true);
    assert_eq!(
        ended.json["decidedBy"],
        json!({
            "kind": "forwarded", "responderSessionId": "careless", "decision": {
                "kind": "forwarded", "responderSessionId": "middle", "decision": {
                    "kind": "forwarded", "responderSessionId": "root",
                    "decision": {"kind": "user", "via": "select"},
                    "relay": {"sealed": true},
                },
            },
            "relay": {"sealed": true},
        })
    );
    let child = spool
        .ask("middle")
        .value("make")
        .env("ASKRELAY_SERVING_KEY", &middle_key)
        .start();
    root.answer("make", "No");
    let ended = child.end();
    ended.denied();
    assert_eq!(ended.json["decidedBy"]["relay"]["sealed"], true);
    assert_eq!(ended.json["decidedBy"]["decision"]["relay"]["sealed"], true);
}

#[test]
fn an_unusable_request_of_a_child_that_knows_the_key_is_not_waited_for() {
    let spool = TestSpool::new();
    let _server = spool.serve_headless("P", &json!({"bash": {"*": "allow"}}));
    let mut broken = request("broken", "P", "bash", "ls");
    broken["requesterAgentName"] = json!(7);
    spool.put_request("P", &broken);
    let response = spool.await_response("P", "broken");
    assert_eq!(response["approved"], false);
    // What was read is named, so that the denial counts where a seal is asked for.
    let digest = format!(
        "blake3:{}",
        blake3::hash(broken.to_string().as_bytes()).to_hex()
    );
    assert_eq!(response["relay"]["requestDigest"], digest);
    let key = key_of(&spool, "P").parse().unwrap();
    let read = askrelay::wire::ForwardedPermissionResponse::from_json(
        &std::fs::read(spool.response_path("P", "broken")).unwrap(),
    )
    .unwrap();
    assert!(read.open_seal(&key).is_ok());
}

#[test]
fn status_says_whose_answers_count() {
    let spool = TestSpool::new();
    let _server = spool.serve_headless("main", &json!({}));
    let key = key_of(&spool, "main");
    let (_, stdout, _) = run(spool.relay().arg("status").env("ASKRELAY_SESSION", "me"));
    assert!(stdout.contains("answers count without a seal"), "{stdout}");
    assert!(stdout.contains(&key), "{stdout}");
    let mut command = spool.relay();
    command
        .args(["status", "--json"])
        .env("ASKRELAY_SESSION", "me")
        .env("ASKRELAY_PARENT_SESSION", "main")
        .env("ASKRELAY_SERVING_KEY", &key);
    let (_, stdout, _) = run(&mut command);
    let role = stdout
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .find(|line| line["type"] == "role")
        .unwrap();
    assert_eq!(role["servingKey"], key);
}

/// The key is in memory only, and the memory is closed: another process of the same user can look neither into it nor into
/// the environment.
#[test]
fn the_memory_of_a_server_is_closed_to_other_processes_of_its_user() {
    use std::os::unix::process::CommandExt as _;
    // Root sees everything, so the server runs as somebody else where this test is root.
    let is_root = rustix::process::geteuid().is_root();
    let place = tempfile::Builder::new()
        .prefix("closed-")
        .tempdir()
        .unwrap();
    let program = place.path().join("askrelay");
    std::fs::copy(env!("CARGO_BIN_EXE_askrelay"), &program).unwrap();
    let nobody = 65_534;
    if is_root {
        std::os::unix::fs::chown(place.path(), Some(nobody), Some(nobody)).unwrap();
    }
    let as_user = |mut command: Command| {
        command.env_clear().env("PATH", "/usr/bin:/bin");
        command.env("HOME", place.path()).current_dir(place.path());
        if is_root {
            command.uid(nobody).gid(nobody);
        }
        command
    };
    let mut serve = as_user(Command::new(&program));
    serve.args(["serve", "--session", "P", "--mode", "headless"]);
    let heartbeat = place
        .path()
        .join(".local/state/askrelay/spool/serving/P.json");
    let mut server = serve.stderr(std::process::Stdio::null()).spawn().unwrap();
    until("a heartbeat", || is_there(&heartbeat));
    let look = |what: &str, pid: u32| {
        let mut cat = as_user(Command::new("cat"));
        cat.arg(format!("/proc/{pid}/{what}"));
        cat.output().unwrap()
    };
    for what in ["environ", "maps", "mem", "auxv"] {
        let looked = look(what, server.id());
        assert!(!looked.status.success(), "{what}");
        assert!(
            String::from_utf8_lossy(&looked.stderr).contains("Permission denied"),
            "{what}: {looked:?}"
        );
    }
    // Nothing is wrong with how this looks: of another process the same user sees all of that.
    let mut open = as_user(Command::new("sleep")).arg("100").spawn().unwrap();
    let looked = eventually("an environment", || {
        let looked = look("environ", open.id());
        looked.status.success().then_some(looked)
    });
    assert!(!looked.stdout.is_empty());
    // Closed or not, it serves.
    let mut ask = as_user(Command::new(&program));
    ask.args(["ask", "--session", "P", "--value", "ls", "--json"]);
    let answered = ask.output().unwrap();
    assert_eq!(answered.status.code(), Some(3), "{answered:?}");
    for process in [&mut server, &mut open] {
        process.kill().unwrap();
        process.wait().unwrap();
    }
}

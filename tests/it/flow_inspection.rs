//! Looking at a spool: `status`, `ls` and `show` print and end, and change nothing.

use serde_json::{Value, json};

use crate::support::processes::run;
use crate::support::spool::{TestSpool, is_there, names, request};

fn lines(spool: &TestSpool, args: &[&str]) -> Vec<Value> {
    let (code, stdout, stderr) = run(spool.relay().args(args));
    assert_eq!(code, 0, "{stderr}");
    stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn listing_prints_what_waits_and_answers_nothing() {
    let spool = TestSpool::new();
    assert_eq!(lines(&spool, &["ls", "--json"]), Vec::<Value>::new());
    let (code, stdout, _) = run(spool.relay().arg("ls"));
    assert_eq!((code, stdout.trim()), (0, "nothing is waiting"));
    assert!(!is_there(&spool.root()));

    for id in ["r1", "r2", "r3"] {
        spool.put_request("P", &request(id, "P", "bash", &format!("make {id}")));
    }
    let listed = lines(&spool, &["ls", "--json"]);
    assert_eq!(listed.len(), 3);
    for line in &listed {
        assert_eq!(line["session"], "P");
        assert_eq!(line["usable"], true);
        assert_eq!(line["requesterSessionId"], "child");
        assert_eq!(line["surface"], "bash");
    }
    assert_eq!(
        lines(&spool, &["ls", "--json", "--session", "Q"]),
        Vec::<Value>::new()
    );
    assert_eq!(spool.waiting("P"), ["r1", "r2", "r3"]);
    assert_eq!(names(&spool.session_dir("P").join("responses")), [""; 0]);
}

#[test]
fn listing_beside_a_server_takes_nothing_from_it() {
    let spool = TestSpool::new();
    let mut server = spool.serve_select("P", &json!({}));
    let child = spool.ask("P").value("make").id("r1").start();
    let question = server.question();
    for _ in 0..3 {
        let listed = lines(&spool, &["ls", "--json"]);
        assert_eq!(listed[0]["requester"], "waiting");
    }
    server.choose(&question, "Yes");
    child.end().approved();
}

#[test]
fn one_ask_is_shown_whole_and_an_ambiguous_beginning_is_refused() {
    let spool = TestSpool::new();
    for id in ["r1", "r10", "s"] {
        spool.put_request("P", &request(id, "P", "bash", &format!("make {id}")));
    }
    let shown = |id: &str| lines(&spool, &["show", "--json", id]).remove(0);
    assert_eq!(shown("r1")["request"]["value"], "make r1");
    assert_eq!(shown("r10")["requestId"], "r10");
    assert_eq!(shown("s")["session"], "P");
    let (code, _, stderr) = run(spool.relay().args(["show", "r"]));
    assert_eq!(code, 2);
    assert!(stderr.contains("more than one"), "{stderr}");
    let (code, ..) = run(spool.relay().args(["show", "zzz"]));
    assert_eq!(code, 1);
    let (code, stdout, _) = run(spool.relay().args(["show", "s"]));
    assert_eq!(code, 0);
    for text in ["make s", "scout", "digest", "/srv/tree"] {
        assert!(stdout.contains(text), "{text}: {stdout}");
    }
}

#[test]
fn the_state_of_each_session_is_told() {
    let spool = TestSpool::new();
    let server = spool.serve("P").select().start();
    let mut killed = spool.serve("K").start();
    killed.running.kill();
    spool.put_request("N", &request("r1", "N", "bash", "make"));
    let told = lines(&spool, &["status", "--json"]);
    let session = |id: &str| {
        told.iter()
            .find(|line| line["type"] == "session" && line["session"] == id)
            .unwrap()
    };
    assert_eq!(session("P")["served"], "yes");
    assert_eq!(session("P")["lock"], "held");
    assert_eq!(session("P")["lockPid"], server.running.pid());
    assert_eq!(session("P")["heartbeat"]["mode"], "select");
    assert_eq!(session("K")["served"], "no");
    assert_eq!(session("K")["lock"], "free");
    assert_eq!(session("N")["served"], "no");
    assert_eq!(session("N")["requests"], 1);
    let (code, stdout, _) = run(spool.relay().arg("status"));
    assert_eq!(code, 0);
    assert!(
        stdout.contains("SESSION") && stdout.contains('K'),
        "{stdout}"
    );
}

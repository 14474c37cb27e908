//! Reading the review log back with the program: filters, following, checking. What `askrelay log` prints and how it ends belongs
//! here.
#![expect(
    clippy::disallowed_methods,
    reason = "the tests lay out logs, and change them as somebody else would"
)]

use std::ffi::OsStr;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Map, Value, json};

use crate::support::processes::{Running, run};
use crate::support::screen::OnScreen;
use crate::support::spool::{TestSpool, age, is_there, until};

/// A log as the writers of one write it, over one file or several.
#[derive(Default)]
struct Log {
    /// The lines of each file, without their newlines.
    files: Vec<Vec<Vec<u8>>>,
    last: Option<Vec<u8>>,
}

fn hash(line: &[u8]) -> String {
    blake3::hash(line).to_hex().to_string()
}

impl Log {
    fn new() -> Self {
        Self {
            files: vec![Vec::new()],
            last: None,
        }
    }

    /// Lines `first` up to `end` of one event each.
    fn counted(end: usize) -> Self {
        let mut log = Self::new();
        for n in 0..end {
            log.push("x.y", &json!({"requestId": format!("r{n}")}));
        }
        log
    }

    fn push(&mut self, event: &str, details: &Value) {
        let second = self.files.iter().map(Vec::len).sum::<usize>();
        let mut line: Map<String, Value> = serde_json::from_value(json!({
            "timestamp": format!("2026-11-30T13:00:{second:02}.000Z"),
            "extension": "askrelay",
            "stream": "review",
            "event": event,
        }))
        .unwrap();
        line.extend(details.as_object().unwrap().clone());
        line.insert("chain".to_owned(), json!(self.last.as_deref().map(hash)));
        let line = Value::Object(line).to_string().into_bytes();
        self.last = Some(line.clone());
        self.files.last_mut().unwrap().push(line);
    }

    fn rotate(&mut self) {
        let previous = format!("review.{:06}.jsonl", self.files.len());
        self.files.push(Vec::new());
        self.push("review_log.rotated", &json!({"previous": previous}));
    }

    /// Writes the files where the program looks for them.
    fn write(&self, spool: &TestSpool) -> Vec<PathBuf> {
        let directory = spool.below("state/askrelay");
        fs::create_dir_all(&directory).unwrap();
        let mut paths = Vec::new();
        for (index, lines) in self.files.iter().enumerate() {
            let path = if index + 1 == self.files.len() {
                directory.join("review.jsonl")
            } else {
                directory.join(format!("review.{:06}.jsonl", index + 1))
            };
            fs::write(&path, joined(lines)).unwrap();
            paths.push(path);
        }
        paths
    }
}

fn joined(lines: &[Vec<u8>]) -> Vec<u8> {
    lines
        .iter()
        .flat_map(|line| [line, b"\n".as_slice()].concat())
        .collect()
}

fn log(spool: &TestSpool, args: &[&str]) -> (i32, String, String) {
    run(spool.relay().arg("log").args(args))
}

/// The values of one member in what `log --json` prints.
#[track_caller]
fn members(spool: &TestSpool, args: &[&str], member: &str) -> Vec<String> {
    let (code, stdout, stderr) = log(spool, &[args, &["--json"]].concat());
    assert_eq!(code, 0, "{stderr}");
    stdout
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()[member].clone())
        .map(|value| value.as_str().unwrap_or("-").to_owned())
        .collect()
}

/// A log of three asks: one that a person approved through a relay, one that a rule denied, one that nobody ruled on.
fn three_asks() -> Log {
    let user = json!({"kind": "user", "via": "dialog"});
    let through = |decision: &Value, session: &str| json!({"kind": "forwarded", "responderSessionId": session, "decision": decision});
    let rule = json!({"kind": "rule", "surface": "bash", "pattern": "rm *", "origin": "global"});
    let guard = json!({"kind": "authorizer", "name": "guard", "verdict": "allow", "reason": null});
    let mut log = Log::new();
    log.push(
        "forwarded_permission.serving_started",
        &json!({"sessionId": "main"}),
    );
    log.push(
        "forwarded_permission.approved",
        &json!({"requestId": "r1", "requesterAgentName": "mid", "requesterSessionId": "S1", "targetSessionId": "main", "decidedBy": user}),
    );
    log.push(
        "forwarded_permission.approved",
        &json!({"requestId": "r1", "requesterAgentName": "scout", "requesterSessionId": "child", "targetSessionId": "S1",
            "decidedBy": through(&user, "main")}),
    );
    log.rotate();
    log.push(
        "forwarded_permission.denied",
        &json!({"requestId": "r2", "requesterAgentName": "scout", "requesterSessionId": "child", "targetSessionId": "main",
            "denialReason": "no rm", "decidedBy": rule}),
    );
    log.push(
        "forwarded_permission.no_serving_session",
        &json!({"requestId": "r3", "requesterAgentName": "scout", "requesterSessionId": "child", "targetSessionId": "gone",
            "decidedBy": {"kind": "unavailable", "reason": "x"}}),
    );
    log.push(
        "forwarded_permission.approved",
        &json!({"requestId": "r4", "requesterAgentName": "other", "requesterSessionId": "c2", "targetSessionId": "main", "decidedBy": guard}),
    );
    log.push(
        "forwarded_permission.approved",
        &json!({"requestId": "r5", "requesterAgentName": "other", "requesterSessionId": "c2", "targetSessionId": "main"}),
    );
    log
}

#[test]
fn each_filter_finds_its_entries_over_all_files() {
    let spool = TestSpool::new();
    three_asks().write(&spool);
    let ids = |args: &[&str]| members(&spool, args, "requestId");
    assert_eq!(ids(&[]), ["-", "r1", "r1", "-", "r2", "r3", "r4", "r5"]);
    for (args, expected) in [
        (&["--request", "r1"][..], &["r1", "r1"][..]),
        (&["--request", "r"], &[]),
        (&["--session", "S1"], &["r1", "r1"]),
        (&["--session", "gone"], &["r3"]),
        (&["--session", "child"], &["r1", "r2", "r3"]),
        (&["--agent", "mid"], &["r1"]),
        (&["--event", "forwarded_permission.denied"], &["r2"]),
        (&["--event", "review_log."], &["-"]),
        (&["--outcome", "approved"], &["r1", "r1", "r4", "r5"]),
        (&["--outcome", "denied"], &["r2"]),
        (&["--outcome", "nobody"], &["r3"]),
        (&["--decider", "user"], &["r1", "r1"]),
        (&["--decider", "rule"], &["r2"]),
        (&["--decider", "authorizer"], &["r4"]),
        (&["--decider", "authorizer:guard"], &["r4"]),
        (&["--decider", "authorizer:other"], &[]),
        (&["--decider", "unavailable"], &["r3"]),
        (&["--decider", "unknown"], &["r5"]),
        (&["--since", "2026-11-30T13:00:05Z"], &["r3", "r4", "r5"]),
        (&["--until", "2026-11-30T13:00:01Z"], &["-"]),
        (&["--since", "2026-12-01"], &[]),
        (&["--until", "2026-11-30", "--request", "r5"], &["r5"]),
        (&["--agent", "scout", "--outcome", "denied"], &["r2"]),
        (&["--limit", "2"], &["-", "r1"]),
        (&["--limit", "0"], &[]),
        (&["--last", "2"], &["r4", "r5"]),
        (&["--last", "1", "--request", "r1"], &["r1"]),
        (&["--last", "0"], &[]),
    ] {
        assert_eq!(ids(args), expected, "{args:?}");
    }
}

#[test]
fn a_rotated_file_that_cannot_hold_the_time_is_not_read() {
    let spool = TestSpool::new();
    let mut all = Log::counted(2);
    all.rotate();
    all.push("x.y", &json!({"requestId": "r2"}));
    let paths = all.write(&spool);
    let ids = |args: &[&str]| members(&spool, args, "requestId");
    let since = ["--since", "2026-11-30T13:00:00Z"];
    assert_eq!(ids(&since), ["r0", "r1", "-", "r2"]);
    // By its own time it was written long before; nobody looks into it.
    age(&paths[0], Duration::from_hours(24 * 3650));
    assert_eq!(ids(&since), ["-", "r2"]);
    // The first entry of a file is later than what is wanted, by more than a day.
    assert_eq!(ids(&["--until", "2026-11-29T12:00:00Z"]), [""; 0]);
    assert_eq!(ids(&["--until", "2026-11-30"]), ["r0", "r1", "-", "r2"]);
}

#[test]
fn the_last_entries_are_found_past_files_and_pieces() {
    let spool = TestSpool::new();
    let mut all = Log::counted(5);
    all.rotate();
    all.push("x.y", &json!({"requestId": "r5"}));
    all.write(&spool);
    let ids = |last: &str| members(&spool, &["--last", last], "requestId");
    assert_eq!(ids("1"), ["r5"]);
    assert_eq!(ids("4"), ["r3", "r4", "-", "r5"]);
    assert_eq!(ids("100").len(), 7);
    // More of the end is no entry than was reckoned with.
    append(
        &spool.below("state/askrelay/review.jsonl"),
        &vec![b"piece".to_vec(); 200],
    );
    assert_eq!(ids("2"), ["-", "r5"]);
}

#[test]
fn a_line_for_a_program_is_the_line_of_the_log() {
    let spool = TestSpool::new();
    let written = three_asks();
    written.write(&spool);
    let (code, stdout, _) = log(&spool, &["--json"]);
    assert_eq!(code, 0);
    assert_eq!(stdout.into_bytes(), joined(&written.files.concat()));
}

#[test]
fn a_line_for_a_person_says_who_decided() {
    let spool = TestSpool::new();
    three_asks().write(&spool);
    let (_, stdout, _) = log(&spool, &["--request", "r1"]);
    assert_eq!(
        stdout,
        "2026-11-30T13:00:01.000Z  forwarded_permission.approved  r1  mid@S1 -> main  approved  by user:dialog\n\
         2026-11-30T13:00:02.000Z  forwarded_permission.approved  r1  scout@child -> S1  approved  by user:dialog\n"
    );
}

#[test]
fn reading_makes_no_log_and_needs_none() {
    let spool = TestSpool::new();
    let (code, stdout, stderr) = log(&spool, &[]);
    assert_eq!((code, stdout.as_str()), (0, ""));
    assert!(stderr.contains("there is no review log"), "{stderr}");
    assert!(!is_there(&spool.below("state")));
    // A configuration that cannot be used does not matter.
    let config = spool.below("broken.json");
    fs::write(&config, "{").unwrap();
    three_asks().write(&spool);
    let (code, ..) = run(spool.relay().arg("log").arg("--config").arg(config));
    assert_eq!(code, 0);
}

#[test]
fn wrong_usage_is_told_with_what_to_write_instead() {
    let spool = TestSpool::new();
    three_asks().write(&spool);
    for (args, code, says) in [
        (&["--since", "gestern"][..], 2, "2h, 30m, 7d"),
        (&["--decider", "human"], 2, "session_approval"),
        (&["--decider", "user:dialog"], 2, "authorizer:NAME"),
        (&["--log", "/nowhere/at/all.jsonl"], 2, "ASKRELAY_LOG"),
        (&["--json", "verify"], 2, "behind it"),
        (&["verify", "--head", "12"], 2, "64 hexadecimal digits"),
        (&["verify", "/nowhere/at/all.jsonl"], 3, "ASKRELAY_LOG"),
        (&["verify", "/"], 3, "ASKRELAY_LOG"),
    ] {
        let (ended, stdout, stderr) = log(&spool, args);
        assert_eq!(ended, code, "{args:?}: {stderr}");
        assert_eq!(stdout, "", "{args:?}");
        assert!(stderr.contains("hint: "), "{args:?}: {stderr}");
        assert!(stderr.contains(says), "{args:?}: {stderr}");
    }
    for args in [
        &["--outcome", "maybe"][..],
        &["--limit", "x"],
        &["--limit", "1", "--last", "1"],
    ] {
        let (ended, _, stderr) = log(&spool, args);
        assert_eq!(ended, 2, "{args:?}: {stderr}");
    }
}

#[test]
fn nothing_hostile_in_a_log_reaches_the_reader_unescaped() {
    let spool = TestSpool::new();
    let mut lines = Log::new();
    lines.push(
        "a\u{1b}[2Jb",
        &json!({"requestId": "r\u{202e}1", "agentName": "x\ny", "reason": "\u{9b}31m\u{0}", "command": "\u{e0041}"}),
    );
    let path = lines.write(&spool).remove(0);
    let mut bytes = fs::read(&path).unwrap();
    bytes.extend_from_slice(b"\x1b[2J\0\n\xff\xfe\n");
    bytes.extend(std::iter::repeat_n(b'x', 17 << 20));
    bytes.extend_from_slice(b"\n{\"event\":\"good\",\"requestId\":\"\xe2\x80\xae\"}\n{\"half");
    fs::write(&path, bytes).unwrap();
    let (code, stdout, stderr) = log(&spool, &[]);
    assert_eq!(code, 0, "{stderr}");
    assert_eq!(
        stdout,
        "2026-11-30T13:00:00.000Z  a<ESC>[2Jb  r<U+202E>1  x<LF>y  `<U+E0041>`  (<U+009B>31m<U+0000>)\n\
         -  good  <U+202E>\n"
    );
    let lengths: Vec<&str> = stderr
        .lines()
        .map(|line| line.rsplit_once(": ").unwrap().1)
        .collect();
    assert_eq!(
        lengths,
        ["5", "2", "17825792", "6"].map(|bytes| format!("{bytes} bytes that are no entry"))
    );
    let hidden = |text: &str| {
        text.chars()
            .any(|character| character != '\n' && character.is_control())
    };
    assert!(!hidden(&stdout) && !hidden(&stderr));
    let (code, stdout, _) = log(&spool, &["verify"]);
    assert_eq!(code, 1);
    assert!(stdout.contains("line 2 (byte "), "{stdout}");
}

// The story of one ask.

/// child asks S1, which asks P, where a person decides. P writes the log at this path, where one is given.
fn through_a_relay(spool: &TestSpool, log_of_p: Option<&PathBuf>) {
    let serve = spool.serve("P").select().policy(spool, "P", &json!({}));
    let mut root = match log_of_p {
        Some(path) => serve.args([OsStr::new("--log"), path.as_os_str()]),
        None => serve,
    }
    .start();
    let _relay = spool
        .serve("S1")
        .args(["--agent", "mid"])
        .env("ASKRELAY_PARENT_SESSION", "P")
        .start();
    let child = spool.ask("S1").value("make all").id("r1").start();
    root.answer("make all", "Yes");
    child.end().approved();
}

/// Who wrote which events, in the order of a story.
fn told(story: &Value) -> Vec<String> {
    let name = |value: &Value| value.as_str().unwrap_or("?").to_owned();
    story["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|part| {
            format!(
                "{} {}",
                name(&part["session"]),
                name(&part["entry"]["event"])
            )
        })
        .collect()
}

const STORY: [&str; 12] = [
    "child forwarded_permission.request_created",
    "S1 forwarded_permission.prompted",
    "S1 permission_request.waiting",
    "S1 forwarded_permission.request_created",
    "P forwarded_permission.prompted",
    "P permission_request.waiting",
    "P permission_request.approved",
    "P forwarded_permission.approved",
    "S1 forwarded_permission.response_received",
    "S1 permission_request.approved",
    "S1 forwarded_permission.approved",
    "child forwarded_permission.response_received",
];

const DECIDED: &str = "Approved by a person at the numbered questions of session P, through S1.";

#[test]
fn the_story_of_an_ask_goes_through_all_sessions_of_one_log() {
    let spool = TestSpool::new();
    through_a_relay(&spool, None);
    let (code, stdout, stderr) = log(&spool, &["story", "r1", "--json"]);
    assert_eq!(code, 0, "{stderr}");
    let story: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(told(&story), STORY);
    assert_eq!(story["outcome"], "approved");
    assert_eq!(story["decider"], "user");
    assert_eq!(story["says"], DECIDED);
    assert_eq!(story["missing"], json!([]));
    let roles: Vec<_> = story["sessions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|node| node["role"].as_str().unwrap())
        .collect();
    assert_eq!(roles, ["child", "relay", "root"]);

    // What three processes wrote is one chain.
    let (code, stdout, _) = log(&spool, &["verify", "--json"]);
    assert_eq!(code, 0, "{stdout}");
    let checked: Value = serde_json::from_str(&stdout).unwrap();
    let written = fs::read_to_string(spool.below("state/askrelay/review.jsonl")).unwrap();
    let last = written.lines().next_back().unwrap();
    assert_eq!(checked["head"], hash(last.as_bytes()));
    assert_eq!(checked["lines"], written.lines().count());
    assert_eq!(checked["unchained"], 0);

    // A beginning of the id is enough.
    let (code, stdout, _) = log(&spool, &["story", "r"]);
    assert_eq!(code, 0);
    assert!(stdout.starts_with("ask r1 of agent scout"), "{stdout}");
    for line in [
        "  child (child)\n",
        "    S1 (relay)\n",
        "      P (root)\n",
        DECIDED,
    ] {
        assert!(stdout.contains(line), "{line}: {stdout}");
    }
    let (code, _, stderr) = log(&spool, &["story", "r2"]);
    assert_eq!(code, 1);
    assert!(stderr.contains("nothing about r2"), "{stderr}");
}

#[test]
fn the_story_of_an_ask_is_put_together_from_the_logs_of_two_machines() {
    let spool = TestSpool::new();
    let log_of_p = spool.below("work/p.jsonl");
    through_a_relay(&spool, Some(&log_of_p));
    // The clock of the other machine is an hour behind.
    let text = fs::read_to_string(&log_of_p).unwrap();
    let mut behind = Vec::new();
    for line in text.lines() {
        let mut entry: Value = serde_json::from_str(line).unwrap();
        let at: jiff::Timestamp = entry["timestamp"].as_str().unwrap().parse().unwrap();
        let at = at - jiff::SignedDuration::from_hours(1);
        entry["timestamp"] = json!(format!("{at:.3}"));
        behind.push(entry.to_string().into_bytes());
    }
    let behind = joined(&behind);
    fs::write(&log_of_p, behind).unwrap();

    let story = |args: &[&str]| -> Value {
        let (code, stdout, stderr) = log(&spool, &[&["story", "r1", "--json"], args].concat());
        assert_eq!(code, 0, "{stderr}");
        serde_json::from_str(&stdout).unwrap()
    };
    let whole = story(&["p.jsonl"]);
    assert_eq!(told(&whole), STORY);
    assert_eq!(whole["says"], DECIDED);
    assert_eq!(whole["missing"], json!([]));
    // Named twice, it is told once.
    assert_eq!(told(&story(&["p.jsonl", "p.jsonl"])), STORY);

    // Without it the decider is known, and that something is missing.
    let part = story(&[]);
    assert_eq!(part["says"], DECIDED);
    assert_eq!(
        part["missing"],
        json!([
            "Missing: nothing that session P wrote is in these logs; name its log behind the id."
        ])
    );
    // And the other way round, from the log of P alone.
    let (code, stdout, _) = log(&spool, &["--log", "p.jsonl", "story", "r1"]);
    assert_eq!(code, 0);
    assert!(
        stdout.contains("Approved by a person at the numbered questions of session P.\n"),
        "{stdout}"
    );
}

/// Lines as the peer writes them: no chain, and its own name.
#[test]
fn the_story_of_an_ask_takes_in_the_log_of_the_peer() {
    let spool = TestSpool::new();
    let line = |second: u32, event: &str, details: Value| {
        let mut entry = json!({"timestamp": format!("2026-11-30T13:00:0{second}.000Z"), "extension": "pi-permission-system",
            "stream": "review", "event": event, "requestId": "perm-1"});
        entry
            .as_object_mut()
            .unwrap()
            .extend(details.as_object().unwrap().clone());
        entry.to_string().into_bytes()
    };
    let hop = json!({"requesterAgentName": "scout", "requesterSessionId": "child", "targetSessionId": "pi"});
    let mut ended = hop.clone();
    ended["decidedBy"] = json!({"kind": "user", "via": "dialog"});
    let peer = vec![
        line(1, "forwarded_permission.prompted", hop.clone()),
        line(2, "forwarded_permission.approved", ended),
    ];
    let path = spool.below("work/peer.jsonl");
    fs::write(&path, joined(&peer)).unwrap();
    let mut own = Log::new();
    own.push(
        "forwarded_permission.request_created",
        &json!({"requestId": "perm-1", "requesterAgentName": "scout", "requesterSessionId": "child", "targetSessionId": "pi"}),
    );
    own.write(&spool);
    let (code, stdout, _) = log(&spool, &["story", "perm-1", "peer.jsonl"]);
    assert_eq!(code, 0);
    for says in [
        "    pi (root), pi-permission-system\n",
        "Approved by a person at the dialog of session pi.\n",
        "Missing: session child did not record that it has the answer.",
    ] {
        assert!(stdout.contains(says), "{says}: {stdout}");
    }
    // Without the answer, it is open.
    let (_, stdout, _) = log(&spool, &["story", "perm-1"]);
    assert!(stdout.contains("No end is recorded"), "{stdout}");
    assert!(stdout.contains("nothing that session pi wrote"), "{stdout}");
}

#[test]
fn an_id_that_several_asks_begin_with_is_not_guessed() {
    let spool = TestSpool::new();
    Log::counted(3).write(&spool);
    let (code, stdout, stderr) = log(&spool, &["story", "r"]);
    assert_eq!((code, stdout.as_str()), (2, ""));
    assert!(stderr.contains("r0 and r1"), "{stderr}");
    let (code, _, stderr) = log(&spool, &["story", "r0", "/nowhere"]);
    assert_eq!(code, 2, "{stderr}");
    // Where there is no log at all, nothing is known of any ask.
    let empty = TestSpool::new();
    let (code, _, stderr) = log(&empty, &["story", "r0"]);
    assert_eq!(code, 1, "{stderr}");
    assert!(stderr.contains("hint: "), "{stderr}");
}

/// A relayed ask with times that do not change: one whose answers were sealed.
fn sealed_story() -> Log {
    let user = json!({"kind": "user", "via": "dialog"});
    let frame = |session: &str, decision: &Value| json!({"kind": "forwarded", "responderSessionId": session, "decision": decision, "relay": {"sealed": true}});
    let from_main = frame("main", &user);
    let whole = frame("relay-1", &from_main);
    let id = "perm-7f3a1c52";
    let hop = |agent: &str, from: &str, to: &str| json!({"requestId": id, "requesterAgentName": agent, "requesterSessionId": from, "targetSessionId": to});
    let with = |mut details: Value, key: &str, value: &Value| {
        details[key] = value.clone();
        details
    };
    let first = hop("scout", "worker-3", "relay-1");
    let second = hop("builder", "relay-1", "main");
    let asked = json!({"requestId": id, "agentName": "builder", "surface": "bash", "requesterSessionId": "relay-1", "command": "make all"});
    let got = |from: &str| json!({"requestId": id, "approved": true, "responderSessionId": from, "targetSessionId": from});
    let mut log = Log::new();
    log.push("forwarded_permission.request_created", &first);
    log.push("forwarded_permission.prompted", &first);
    log.push("forwarded_permission.request_created", &second);
    log.push("forwarded_permission.prompted", &second);
    log.push("permission_request.waiting", &asked);
    log.push(
        "permission_request.approved",
        &with(asked.clone(), "decidedBy", &user),
    );
    log.push(
        "forwarded_permission.approved",
        &with(second, "decidedBy", &user),
    );
    log.push(
        "forwarded_permission.response_received",
        &with(got("main"), "decidedBy", &from_main),
    );
    log.push(
        "forwarded_permission.approved",
        &with(first, "decidedBy", &from_main),
    );
    log.push(
        "forwarded_permission.response_received",
        &with(got("relay-1"), "decidedBy", &whole),
    );
    log
}

#[test]
fn the_story_of_a_sealed_ask_says_which_answers_were_sealed() {
    let spool = TestSpool::new();
    sealed_story().write(&spool);
    let screen = OnScreen::start(spool.relay().args(["log", "story", "perm"]), 110, 24);
    screen.await_text("Sealed answers: of relay-1 and main.");
    screen.assert_picture(
        "story",
        "ask perm",
        "The story of one ask: what each session wrote, and who decided",
    );
}

#[test]
fn a_terminal_gets_lines_of_its_width_and_nothing_that_it_would_act_on() {
    let spool = TestSpool::new();
    let mut lines = Log::new();
    let long = "x".repeat(300);
    lines.push(
        "x.y",
        &json!({"requestId": "r1", "reason": "\u{9b}31m\u{202e}", "command": long}),
    );
    lines.push("x.y", &json!({"requestId": "last"}));
    lines.write(&spool);
    let screen = OnScreen::start(spool.relay().arg("log"), 60, 10);
    let text = screen.await_text("last");
    let shown: Vec<&str> = text.lines().filter(|line| !line.is_empty()).collect();
    assert_eq!(shown.len(), 2, "{text}");
    assert!(
        shown[0].ends_with('…') && shown[0].chars().count() == 60,
        "{text}"
    );

    let screen = OnScreen::start(spool.relay().args(["log", "--json"]), 60, 30);
    screen.await_text("last");
    let written = screen.written();
    assert!(written.contains("\\u009b31m\\u202e"), "{written}");
    assert!(!written.contains(['\u{9b}', '\u{202e}']), "{written}");
}

// Counting.

#[test]
fn decisions_are_counted_by_who_made_them() {
    let spool = TestSpool::new();
    three_asks().write(&spool);
    let stats = |args: &[&str]| -> Value {
        let (code, stdout, stderr) = log(&spool, &[&["stats", "--json"], args].concat());
        assert_eq!(code, 0, "{stderr}");
        serde_json::from_str(&stdout).unwrap()
    };
    let all = stats(&[]);
    assert_eq!((&all["entries"], &all["asks"]), (&json!(8), &json!(4)));
    assert_eq!(all["deciders"]["user"]["approved"], 2);
    assert_eq!(all["deciders"]["user"]["passedOn"], 1);
    assert_eq!(all["deciders"]["rule"]["denied"], 1);
    assert_eq!(all["authorizers"]["guard"]["total"], 1);
    assert_eq!(all["approvedByUnknown"], 1);
    assert_eq!(all["humanShare"], 0.4);
    assert_eq!(all["sessions"]["main"]["total"], 4);
    assert_eq!(all["agents"]["other"]["approved"], 2);
    assert_eq!(all["first"], "2026-11-30T13:00:00.000Z");
    assert_eq!(stats(&["--agent", "other"])["entries"], 2);
    let (code, stdout, _) = log(&spool, &["stats"]);
    assert_eq!(code, 0);
    for says in [
        "8 entries, ",
        "5 decisions about 4 asks\n",
        "40.0 % by a person",
        "1 approved without a known decider",
        "user        2         0       0       2    1\n",
    ] {
        assert!(stdout.contains(says), "{says}: {stdout}");
    }
}

// Following.

fn following(spool: &TestSpool, args: &[&str]) -> Running {
    Running::start(spool.relay().args(["log", "--follow", "--json"]).args(args))
}

/// Adds lines to a file, as a writer does.
fn append(path: &PathBuf, lines: &[Vec<u8>]) {
    use std::io::Write as _;
    let mut file = fs::File::options()
        .append(true)
        .create(true)
        .open(path)
        .unwrap();
    file.write_all(&joined(lines)).unwrap();
}

#[test]
fn following_goes_on_across_rotations_and_ends_by_a_signal() {
    let spool = TestSpool::new();
    let mut all = Log::counted(2);
    let current = all.write(&spool).pop().unwrap();
    let mut follower = following(&spool, &[]);
    let printed = |follower: &Running, count: usize| {
        until("lines", || follower.stdout().lines().count() >= count);
    };
    printed(&follower, 2);
    all.push("x.y", &json!({"requestId": "r2"}));
    append(&current, &all.files[0][2..]);
    printed(&follower, 3);

    // Half a line is not printed, and is once it is whole.
    all.push("x.y", &json!({"requestId": "r3"}));
    let line = all.files[0][3].clone();
    let (half, rest) = line.split_at(20);
    let mut file = fs::File::options().append(true).open(&current).unwrap();
    std::io::Write::write_all(&mut file, half).unwrap();
    std::io::Write::write_all(&mut file, &[rest, b"\n"].concat()).unwrap();

    // Two rotations, one right after the other.
    for _ in 0..2 {
        let number = all.files.len();
        let away = current.with_file_name(format!("review.{number:06}.jsonl"));
        fs::rename(&current, away).unwrap();
        all.rotate();
        all.push("x.y", &json!({"requestId": format!("after{number}")}));
        append(&current, all.files.last().unwrap());
    }
    printed(&follower, 8);
    follower.signal(Signal::INT);
    assert_eq!(follower.exit_code(), 0);
    assert_eq!(
        follower.stdout().into_bytes(),
        joined(&all.files.concat()),
        "each line once, in order"
    );
    assert_eq!(follower.stderr(), "");
}

#[test]
fn following_waits_for_a_log_and_goes_on_when_it_was_emptied() {
    let spool = TestSpool::new();
    let mut follower = following(&spool, &["--event", "x."]);
    // It has to be there before the log is, for that to be a test of anything.
    until("a process that waits", || {
        fs::read_to_string(format!("/proc/{}/cmdline", follower.pid()))
            .is_ok_and(|line| line.contains("--follow"))
    });
    let first = Log::counted(3);
    let current = first.write(&spool).pop().unwrap();
    until("three lines", || follower.stdout().lines().count() == 3);
    fs::write(&current, "").unwrap();
    until("a word about the cut", || {
        follower.stderr().contains("was emptied")
    });
    let mut second = Log::new();
    second.push("x.y", &json!({"requestId": "anew"}));
    second.push("y.y", &json!({"requestId": "not wanted"}));
    append(&current, &second.files[0]);
    until("one line more", || follower.stdout().lines().count() == 4);
    follower.signal(Signal::TERM);
    assert_eq!(follower.exit_code(), 0);
    assert!(follower.stdout().ends_with(&format!(
        "{}\n",
        String::from_utf8_lossy(&second.files[0][0])
    )));
}

#[test]
fn following_ends_quietly_when_nobody_reads_any_more() {
    let spool = TestSpool::new();
    Log::counted(3).write(&spool);
    let program = env!("CARGO_BIN_EXE_askrelay");
    let mut command = Command::new("sh");
    let variables: Vec<_> = spool
        .relay()
        .get_envs()
        .map(|(name, value)| (name.to_owned(), value.unwrap().to_owned()))
        .collect();
    command
        .env_clear()
        .envs(variables)
        .env("PROGRAM", program)
        .current_dir(spool.work())
        .args([
            "-c",
            "{ \"$PROGRAM\" log --follow --json; echo \"ended $?\" >&2; } | head -n 1",
        ]);
    let (code, stdout, stderr) = run(&mut command);
    assert_eq!((code, stdout.lines().count()), (0, 1));
    assert_eq!(stderr, "ended 0\n");
}

// Checking.

type Change<'a> = &'a dyn Fn(&mut Log);

/// What `log verify` prints about the log after something was done to its files.
fn checked(change: impl FnOnce(&mut Log), args: &[&str]) -> (i32, String) {
    let spool = TestSpool::new();
    let mut log_of_all = Log::counted(4);
    log_of_all.rotate();
    log_of_all.push("x.y", &json!({"requestId": "last"}));
    change(&mut log_of_all);
    let paths = log_of_all.write(&spool);
    for (path, lines) in paths.iter().zip(&log_of_all.files) {
        if lines.is_empty() {
            fs::remove_file(path).unwrap();
        }
    }
    let (code, stdout, _) = log(&spool, &[&["verify"], args].concat());
    let place = format!("{}/", spool.below("state/askrelay").display());
    (code, stdout.replace(&place, ""))
}

#[test]
fn a_log_that_nobody_changed_holds_and_names_its_head() {
    let (code, stdout) = checked(|_| {}, &[]);
    assert_eq!(code, 0, "{stdout}");
    assert!(
        stdout.starts_with("the chain holds: 6 lines in 2 files\nhead "),
        "{stdout}"
    );
    let (code, stdout) = checked(|_| {}, &["--json"]);
    assert_eq!(code, 0);
    let told: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(told["holds"], true);
    assert_eq!(told["lines"], 6);
    assert_eq!(told["head"].as_str().unwrap().len(), 64);
}

#[test]
fn the_first_bad_line_is_named_with_what_is_wrong() {
    let edit = |log: &mut Log| {
        let line = String::from_utf8(log.files[0][1].clone()).unwrap();
        log.files[0][1] = line.replace("r1", "rX").into_bytes();
    };
    let at = |line: usize| -> usize {
        let whole = Log::counted(4);
        whole.files[0][..line - 1]
            .iter()
            .map(|line| line.len() + 1)
            .sum()
    };
    let cases: [(&str, Change<'_>, String, &str); 7] = [
        (
            "an edit",
            &edit,
            format!("broken at review.000001.jsonl line 3 (byte {})", at(3)),
            "it does not follow line 2: that one was changed",
        ),
        (
            "a removal",
            &|log| drop(log.files[0].remove(1)),
            format!("broken at review.000001.jsonl line 2 (byte {})", at(2)),
            "lines between the two were removed",
        ),
        (
            "a swap",
            &|log| log.files[0].swap(1, 2),
            format!("broken at review.000001.jsonl line 2 (byte {})", at(2)),
            "it follows line 3, which stands behind it",
        ),
        (
            "a head cut off",
            &|log| drop(log.files[0].drain(..2)),
            "broken at review.000001.jsonl line 1 (byte 0)".to_owned(),
            "the beginning of the log was removed",
        ),
        (
            "a file that is gone",
            &|log| log.files[0].clear(),
            "broken at review.jsonl line 1 (byte 0)".to_owned(),
            "it follows the file review.000001.jsonl, which is missing",
        ),
        (
            "a line of another program",
            &|log| log.files[1].push(b"{\"event\":\"x\"}".to_vec()),
            "broken at review.jsonl line 3".to_owned(),
            "it has no chain",
        ),
        (
            "a line that is none",
            &|log| log.files[1].insert(1, b"\x1b[2J".to_vec()),
            "broken at review.jsonl line 2".to_owned(),
            "it is no entry",
        ),
    ];
    for (what, change, place, says) in cases {
        let (code, stdout) = checked(change, &[]);
        assert_eq!(code, 1, "{what}: {stdout}");
        assert!(stdout.contains(&place), "{what}: {place}\n{stdout}");
        assert!(stdout.contains(says), "{what}: {says}\n{stdout}");
        assert!(!stdout.contains("\nhead "), "{what}: {stdout}");
    }
}

#[test]
fn a_head_that_was_noted_proves_that_nothing_before_it_was_changed() {
    let noted = hash(&Log::counted(4).files[0][2]);
    let (code, stdout) = checked(|_| {}, &["--head", &noted]);
    assert_eq!(code, 0, "{stdout}");
    assert!(stdout.contains("found"), "{stdout}");
    // The head of a file that was rotated away, of which the last line was changed, or the last two are gone.
    let end = hash(&Log::counted(4).files[0][3]);
    let edit = |log: &mut Log| {
        let line = String::from_utf8(log.files[0][3].clone()).unwrap();
        log.files[0][3] = line.replace("r3", "rX").into_bytes();
    };
    let cut = |log: &mut Log| log.files[0].truncate(2);
    let changes: [Change<'_>; 2] = [&edit, &cut];
    for change in changes {
        let (code, stdout) = checked(change, &["--head", &end]);
        assert_eq!(code, 1, "{stdout}");
        assert!(stdout.contains("broken at review.jsonl line 1"), "{stdout}");
    }
    // Somebody writes the whole log anew, with a chain that holds.
    let anew = |log: &mut Log| {
        *log = Log::new();
        log.push("x.y", &json!({"requestId": "other"}));
    };
    let (code, stdout) = checked(anew, &[]);
    assert_eq!(code, 0, "{stdout}");
    let (code, stdout) = checked(anew, &["--head", &noted]);
    assert_eq!(code, 1, "{stdout}");
    assert!(stdout.contains(&format!("not found: {noted}")), "{stdout}");
}

#[test]
fn what_a_log_says_of_itself_and_a_line_without_end_are_no_breaks() {
    let spool = TestSpool::new();
    let mut log_of_all = Log::new();
    log_of_all.files[0].push(b"{\"event\":\"of an older version\"}".to_vec());
    log_of_all.last = Some(log_of_all.files[0][0].clone());
    log_of_all.push("x.y", &json!({}));
    log_of_all.push("review_log.lost", &json!({"entries": 3}));
    let path = log_of_all.write(&spool).remove(0);
    let mut bytes = fs::read(&path).unwrap();
    bytes.extend_from_slice(b"{\"time");
    fs::write(&path, bytes).unwrap();
    let (code, stdout, _) = log(&spool, &["verify"]);
    assert_eq!(code, 0, "{stdout}");
    for says in [
        "the chain holds: 3 lines in 1 file\n",
        "1 line of an older version",
        "review_log.lost {\"entries\":3}",
        "the last line has no end yet (6 bytes)",
    ] {
        assert!(stdout.contains(says), "{says}: {stdout}");
    }
}

#[test]
fn a_copy_elsewhere_is_checked_by_its_name() {
    let spool = TestSpool::new();
    let paths = three_asks().write(&spool);
    let copy = spool.below("work/copy.jsonl");
    fs::copy(&paths[0], &copy).unwrap();
    let (code, stdout, _) = log(&spool, &["verify", "copy.jsonl"]);
    assert_eq!(code, 0, "{stdout}");
    assert!(stdout.contains("3 lines in 1 file\n"), "{stdout}");
}

#[test]
fn policy_8_a_child_that_was_launched_and_never_asked_is_named() {
    let spool = TestSpool::new();
    let _server = spool.serve_headless("P", &json!({"bash": {"ls": "allow"}}));
    let launch = |child: &str, command: &[&str]| {
        let mut launch = spool.relay();
        launch.args([
            "launch",
            "--session",
            "P",
            "--as",
            child,
            "--agent",
            "builder",
            "--",
        ]);
        let (code, _, stderr) = run(launch.args(command));
        assert_eq!(code, 0, "{stderr}");
    };
    launch("silent", &["true"]);
    launch(
        "asks",
        &[env!("CARGO_BIN_EXE_askrelay"), "ask", "--value", "ls"],
    );
    let (_, stdout, _) = run(spool.relay().args(["log", "stats", "--json"]));
    let stats: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(stats["launched"], 2);
    assert_eq!(
        stats["silent"],
        json!([{"session": "silent", "agent": "builder"}])
    );
    let (_, stdout, _) = run(spool.relay().args(["log", "stats"]));
    assert!(
        stdout.contains("1 of 2 children that were launched"),
        "{stdout}"
    );
}

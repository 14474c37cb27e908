//! A tool that runs as the same user and knows the spool tries to approve its own ask, by every way that files offer. The child was
//! told the key of its session; none of this may become an approval, and what is lost at worst is the answer.
#![expect(
    clippy::disallowed_methods,
    reason = "the tool writes, reads, moves and removes whatever it likes"
)]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use askrelay::wire::{
    DecisionSource, DecisionState, Digest, ForwardedPermissionResponse, GrantWidth, ResponseRelay,
    SEAL_SEED_BYTES, SealKey, UserSurface,
};
use serde_json::{Value, json};
use zeroize::Zeroizing;

use crate::support::processes::{Ask, Server, run};
use crate::support::spool::{TestSpool, eventually, is_there, read_json, until};

/// Ends what runs beside a test, also where the test fails.
struct SetWhenDropped<'a>(&'a AtomicBool);

impl Drop for SetWhenDropped<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// What the tool can do: everything that a file is.
struct Tool<'a> {
    spool: &'a TestSpool,
    key: SealKey,
}

impl<'a> Tool<'a> {
    fn new(spool: &'a TestSpool) -> Self {
        Self {
            spool,
            key: SealKey::from_seed(&Zeroizing::new([66; SEAL_SEED_BYTES])),
        }
    }

    fn response_path(&self, id: &str) -> PathBuf {
        self.spool.response_path("P", id)
    }

    /// The approval that it would like to see, for the request as it lies there.
    fn approval(&self, id: &str) -> ForwardedPermissionResponse {
        let request = fs::read(self.spool.request_path("P", id)).unwrap_or_default();
        ForwardedPermissionResponse {
            state: DecisionState::Approved,
            denial_reason: None,
            responder_session_id: "P".to_owned(),
            responded_at_ms: Some(1_790_000_000_000),
            decided_by: Some(DecisionSource::User {
                via: UserSurface::Dialog,
            }),
            width: GrantWidth::Proven,
            relay: Some(ResponseRelay {
                request_digest: Some(Digest::of(&request)),
                ..ResponseRelay::default()
            }),
        }
    }

    fn put(&self, id: &str, bytes: impl AsRef<[u8]>) {
        self.spool.put(&self.response_path(id), bytes);
    }

    /// Puts something in the place of the answer, and waits until the child has taken it away.
    #[track_caller]
    fn try_with(&self, what: &str, id: &str, bytes: impl AsRef<[u8]>) {
        self.put(id, bytes);
        until(what, || !is_there(&self.response_path(id)));
    }
}

#[track_caller]
fn key_of(spool: &TestSpool, session: &str) -> String {
    eventually("a key", || {
        let record = read_json(&spool.heartbeat_path(session))?;
        Some(record["relay"]["publicKey"].as_str()?.to_owned())
    })
}

fn serve(spool: &TestSpool) -> (Server, String) {
    let server = spool.serve_select("P", &json!({"bash": {"ls *": "allow", "rm *": "deny"}}));
    let key = key_of(spool, "P");
    (server, key)
}

fn ask(spool: &TestSpool, key: &str, id: &str, value: &str) -> Ask {
    spool
        .ask("P")
        .id(id)
        .value(value)
        .env("ASKRELAY_SERVING_KEY", key)
}

/// Bytes of a true approval by the person, caught before its child could take it.
fn true_approval(spool: &TestSpool, server: &mut Server, key: &str, id: &str) -> Vec<u8> {
    let child = ask(spool, key, id, "make").start();
    let question = server.question();
    child.running.freeze();
    server.choose(&question, "Yes");
    let path = spool.response_path("P", id);
    until("the true answer", || is_there(&path));
    let caught = fs::read(path).unwrap();
    child.running.thaw();
    let ended = child.end();
    ended.approved();
    assert_eq!(ended.json["sealed"], true);
    caught
}

#[test]
fn forged_edited_and_replayed_answers_are_taken_away_and_the_true_one_counts() {
    let spool = TestSpool::new();
    let (mut server, key) = serve(&spool);
    let tool = Tool::new(&spool);
    let replay = true_approval(&spool, &mut server, &key, "earlier");

    let child = ask(&spool, &key, "r1", "make deploy").start();
    let question = server.question();
    let approval = tool.approval("r1");
    let plain = approval.to_json().unwrap();
    tool.try_with("an answer without a seal", "r1", &plain);
    let sealed = approval.to_sealed_json(&tool.key).unwrap();
    tool.try_with("an answer with a seal of its own", "r1", &sealed);
    tool.try_with("an answer of before", "r1", &replay);
    // The seal of before around what it would like to see, and the other way round.
    let mut mixed: Value = serde_json::from_slice(&replay).unwrap();
    mixed["relay"]["requestDigest"] =
        serde_json::from_slice::<Value>(&plain).unwrap()["relay"]["requestDigest"].clone();
    tool.try_with("an answer of before, edited", "r1", mixed.to_string());
    let mut borrowed: Value = serde_json::from_slice(&sealed).unwrap();
    borrowed["relay"]["seal"]["signatures"] =
        serde_json::from_slice::<Value>(&replay).unwrap()["relay"]["seal"]["signatures"].clone();
    tool.try_with("a borrowed signature", "r1", borrowed.to_string());
    for (what, bytes) in [
        ("nothing at all", &b""[..]),
        ("half an answer", &plain[..20]),
        ("no JSON", b"yes"),
        ("no answer", b"{}"),
        (
            "a contradiction",
            br#"{"approved":true,"state":"denied","responderSessionId":"P"}"#,
        ),
    ] {
        tool.try_with(what, "r1", bytes);
    }
    tool.try_with("a large file", "r1", vec![b' '; 300 << 10]);
    let path = tool.response_path("r1");
    fs::write(spool.below("approval"), &plain).unwrap();
    symlink(spool.below("approval"), &path).unwrap();
    until("a link to go", || !is_there(&path));
    fs::create_dir(&path).unwrap();
    until("a directory to go", || !is_there(&path));
    fs::hard_link(spool.below("approval"), &path).unwrap();
    until("a hard link to go", || !is_there(&path));
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &path,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RWXU,
        0,
    )
    .unwrap();
    until("a pipe to go", || !is_there(&path));

    server.choose(&question, "No");
    let ended = child.end();
    ended.denied();
    assert_eq!(ended.json["sealed"], true);
    assert_eq!(ended.json["resolution"], "user_denied");
    let refused = spool.events_of("forwarded_permission.response_refused", "r1");
    let reasons: Vec<&str> = refused
        .iter()
        .map(|entry| entry["reason"].as_str().unwrap())
        .collect();
    let no_seal = "it carries no seal";
    let other_key = "its seal is not one of the pinned key";
    let around = "what stands around the seal is not what was sealed";
    assert_eq!(reasons[0], no_seal);
    assert_eq!(reasons[1], other_key);
    assert!(reasons[2].contains("other request bytes"), "{}", reasons[2]);
    assert_eq!(reasons[3..5], [around, other_key]);
    assert_eq!(
        reasons.len(),
        8,
        "what is written without end is not recorded without end"
    );
    // The same answer again, to an ask of the same id: other bytes, other digest.
    let child = ask(&spool, &key, "earlier", "make").start();
    let question = server.question();
    tool.try_with("an answer to the same id", "earlier", &replay);
    server.choose(&question, "No");
    child.end().denied();
}

#[test]
fn a_swapped_request_is_answered_for_other_bytes_and_so_for_nobody() {
    let spool = TestSpool::new();
    let (mut server, key) = serve(&spool);
    let mut child = ask(&spool, &key, "r1", "dropdb prod").start();
    let question = server.question();
    // What the person says to one is to count for the other: once this way round, once the other.
    let path = spool.request_path("P", "r1");
    let harmless = fs::read_to_string(&path)
        .unwrap()
        .replace("dropdb prod", "make check");
    // A requester that claims a lock must hold one, or it counts as dead.
    let beside = path.with_extension("swapped");
    fs::write(&beside, &harmless).unwrap();
    let held = fs::File::open(&beside).unwrap();
    rustix::fs::flock(&held, rustix::fs::FlockOperation::LockExclusive).unwrap();
    fs::rename(&beside, &path).unwrap();
    server.choose(&question, "Yes");
    // The answer was to bytes that are not asked any more, so the person is asked about those that are.
    let question = server.question();
    assert!(question.text.contains("make check"), "{}", question.text);
    server.choose(&question, "Yes");
    spool.await_event("forwarded_permission.approved", "r1");
    let ended = {
        until("the child's end", || child.running.has_ended());
        child.end()
    };
    ended.unruled();
    assert_eq!(ended.json["abandoned"], "refused_response");
    assert!(
        ended.json["denialReason"]
            .as_str()
            .unwrap()
            .contains("other request bytes"),
        "{}",
        ended.json
    );
}

#[test]
fn a_heartbeat_with_another_key_fools_nobody_who_was_told_the_true_one() {
    let spool = TestSpool::new();
    let (mut server, key) = serve(&spool);
    let tool = Tool::new(&spool);
    let child = ask(&spool, &key, "r1", "make").start();
    let question = server.question();
    // The tool poses as the server: its heartbeat, its key, its answers.
    let path = spool.heartbeat_path("P");
    let mut record = read_json(&path).unwrap();
    record["relay"]["publicKey"] = json!(tool.key.public().to_string());
    record["pid"] = json!(std::process::id());
    spool.put(&path, record.to_string());
    let sealed = tool.approval("r1").to_sealed_json(&tool.key).unwrap();
    tool.try_with("an answer under the false key", "r1", sealed);
    // The server sees that somebody wrote its heartbeat, says so, and writes its own again.
    until("the true key again", || {
        read_json(&path).is_some_and(|record| record["relay"]["publicKey"] == key)
    });
    server.choose(&question, "No");
    let ended = child.end();
    ended.denied();
    assert_eq!(ended.json["sealed"], true);
    assert!(
        spool
            .events("permission_forwarding.warning")
            .iter()
            .any(|entry| entry["message"]
                .as_str()
                .is_some_and(|text| text.contains("somebody else has written the heartbeat"))),
        "{:?}",
        spool.events("permission_forwarding.warning")
    );
    // Whoever is launched now is told the true key.
    let mut command = spool.relay();
    command.args(["launch", "--session", "P", "--", "sh", "-c"]);
    command.arg(r#"printf %s "$ASKRELAY_SERVING_KEY""#);
    let (_, told, _) = run(&mut command);
    assert_eq!(told, key);
}

/// It writes its approval again and again while the server answers. Whoever comes first, only the true answer counts; and that one
/// is not lost where the child takes a false one away in the same moment.
#[test]
fn racing_the_true_answer_wins_nothing() {
    const ROUNDS: usize = 24;
    let spool = TestSpool::new();
    let (_server, key) = serve(&spool);
    let tool = Tool::new(&spool);
    let (over, written) = (AtomicBool::new(false), AtomicUsize::new(0));
    let round = AtomicUsize::new(0);
    let mut answered = 0;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                let id = format!("r{}", round.load(Ordering::Relaxed));
                let approval = tool.approval(&id);
                let path = tool.response_path(&id);
                let beside = path.with_extension("forged");
                for bytes in [
                    approval.to_json().unwrap(),
                    approval.to_sealed_json(&tool.key).unwrap(),
                ] {
                    let done = fs::write(&beside, bytes).and_then(|()| fs::rename(&beside, &path));
                    written.fetch_add(usize::from(done.is_ok()), Ordering::Relaxed);
                }
            }
        });
        let _over = SetWhenDropped(&over);
        for number in 0..ROUNDS {
            round.store(number, Ordering::Relaxed);
            let value = if number % 2 == 0 { "rm x" } else { "ls x" };
            let ended = ask(&spool, &key, &format!("r{number}"), value)
                .args(["--timeout", "5s"])
                .run();
            match ended.json["decidedBy"]["decision"]["kind"].as_str() {
                Some("rule") => {
                    assert_eq!(ended.json["approved"], value == "ls x", "{}", ended.json);
                    assert_eq!(ended.json["sealed"], true, "{}", ended.json);
                    answered += 1;
                }
                _ => drop(ended.unruled()),
            }
        }
    });
    assert!(written.load(Ordering::Relaxed) > ROUNDS);
    assert!(answered > 0, "the true answer never came through");
}

/// Something comes and goes at the place of the answer, as fast as files can. The answer is published when it can be, and nobody is
/// asked twice.
#[test]
fn what_comes_and_goes_at_the_place_of_the_answer_costs_no_decision() {
    const ROUNDS: usize = 5;
    let spool = TestSpool::new();
    let (mut server, key) = serve(&spool);
    let tool = Tool::new(&spool);
    let (over, round) = (AtomicBool::new(false), AtomicUsize::new(usize::MAX));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                let id = format!("r{}", round.load(Ordering::Relaxed));
                let path = tool.response_path(&id);
                drop(fs::File::options().write(true).create_new(true).open(&path));
                // Never what the server has put there: the tool would only harm itself with that.
                if fs::metadata(&path).is_ok_and(|facts| facts.len() == 0) {
                    let _gone = fs::remove_file(&path);
                }
            }
        });
        let _over = SetWhenDropped(&over);
        for number in 0..ROUNDS {
            let child = ask(&spool, &key, &format!("r{number}"), "make").start();
            let question = server.question();
            // Not before: an id whose place is taken would be another one.
            round.store(number, Ordering::Relaxed);
            server.choose(&question, "No");
            let ended = child.end();
            let asked = spool.events_of("permission_request.waiting", &format!("r{number}"));
            assert_eq!(asked.len(), 1, "asked again: {asked:#?}");
            if ended.json["decidedBy"]["decision"]["kind"] == "user" {
                ended.denied();
            } else {
                ended.unruled();
            }
        }
    });
}

/// It holds the child still, takes the denial away, and puts the same request there again: the person is not asked until they say
/// what is wanted.
#[test]
fn the_same_bytes_get_the_same_answer_however_often_they_are_put_there() {
    let spool = TestSpool::new();
    let (mut server, key) = serve(&spool);
    let child = ask(&spool, &key, "r1", "make").start();
    let question = server.question();
    let path = spool.request_path("P", "r1");
    let bytes = fs::read(&path).unwrap();
    child.running.freeze();
    server.choose(&question, "No");
    let answer = spool.response_path("P", "r1");
    until("the denial", || is_there(&answer));
    fs::rename(&answer, spool.below("taken")).unwrap();
    let beside = path.with_extension("again");
    fs::write(&beside, &bytes).unwrap();
    let held = fs::File::open(&beside).unwrap();
    rustix::fs::flock(&held, rustix::fs::FlockOperation::LockExclusive).unwrap();
    fs::rename(&beside, &path).unwrap();
    until("the denial again", || is_there(&answer));
    child.running.thaw();
    let ended = child.end();
    ended.denied();
    assert_eq!(ended.json["sealed"], true);
    assert_eq!(spool.events_of("permission_request.waiting", "r1").len(), 1);
}

#[test]
fn taking_the_request_away_ends_in_a_denial() {
    let spool = TestSpool::new();
    let (mut server, key) = serve(&spool);
    let tool = Tool::new(&spool);
    let child = ask(&spool, &key, "r1", "make")
        .args(["--timeout", "60s"])
        .start();
    let _question = server.question();
    let approval = tool.approval("r1").to_json().unwrap();
    fs::remove_file(spool.request_path("P", "r1")).unwrap();
    spool.await_event("forwarded_permission.request_withdrawn", "r1");
    tool.try_with("an answer to a request that is gone", "r1", approval);
    // Nobody will answer any more, and the child does not wait for its whole time to learn that.
    let ended = child.end();
    ended.unruled();
    assert_eq!(ended.json["abandoned"], "refused_response");
    // Without an answer of its own to refuse, a child waits as long as it was told to.
    let child = ask(&spool, &key, "r2", "make")
        .args(["--timeout", "2s"])
        .start();
    let _question = server.question();
    fs::remove_file(spool.request_path("P", "r2")).unwrap();
    let ended = child.end();
    ended.unruled();
    assert_eq!(ended.json["abandoned"], "timed_out");
}

#[test]
fn whoever_holds_the_lock_serves_nobody_who_knows_the_key() {
    let spool = TestSpool::new();
    let (mut server, key) = serve(&spool);
    let tool = Tool::new(&spool);
    // A new lock file in the place of the old one, held by the tool, and a heartbeat that fits.
    let lock = spool.root().join("serving/P.lock");
    fs::remove_file(&lock).unwrap();
    let held = fs::File::options()
        .create_new(true)
        .read(true)
        .write(true)
        .open(&lock)
        .unwrap();
    rustix::fs::flock(&held, rustix::fs::FlockOperation::LockExclusive).unwrap();
    // The server sees with its next beat that the session is another's, and ends.
    assert_eq!(server.running.exit_code(), 0);
    let record = json!({
        "sessionId": "P", "pid": std::process::id(), "updatedAt": 1,
        "relay": {"v": 1, "held": true, "publicKey": tool.key.public().to_string()},
    });
    spool.put(&spool.heartbeat_path("P"), record.to_string());
    // Whoever knows the true key does not even ask.
    let ended = ask(&spool, &key, "r1", "ls x").run();
    ended.unruled();
    assert_eq!(ended.json["abandoned"], "not_serving");
    assert!(
        ended.json["denialReason"]
            .as_str()
            .unwrap()
            .contains("another process serves it"),
        "{}",
        ended.json
    );
    // Nor does it help to claim the true key.
    let mut record = record;
    record["relay"]["publicKey"] = json!(key);
    spool.put(&spool.heartbeat_path("P"), record.to_string());
    let child = ask(&spool, &key, "r1", "ls x").start();
    let _request = spool.await_request("P", "r1");
    let sealed = tool.approval("r1").to_sealed_json(&tool.key).unwrap();
    tool.put("r1", sealed);
    fs::remove_file(spool.request_path("P", "r1")).unwrap();
    let ended = child.end();
    ended.unruled();
    assert_eq!(ended.json["approved"], false);
    // No server can start beside it, and none pretends to.
    let mut command = spool.relay();
    command.args(["serve", "--session", "P", "--mode", "headless"]);
    let (code, _, stderr) = run(&mut command);
    assert_eq!(code, 3, "{stderr}");
    assert!(stderr.contains("is served already"), "{stderr}");
}

/// A million names, most of them where answers are looked for, some where requests are: it takes longer, and nobody is approved.
#[test]
fn a_million_names_beside_an_ask_approve_nothing_and_lose_nothing() {
    const THREADS: usize = 2;
    const NAMES: usize = 1_000_000;
    let spool = TestSpool::in_memory();
    let (_server, key) = serve(&spool);
    let tool = Tool::new(&spool);
    for directory in ["requests", "responses"] {
        fs::create_dir_all(spool.session_dir("P").join(directory)).unwrap();
    }
    // One file under many names: its bytes are an approval.
    let approval = spool.below("approval");
    fs::write(&approval, tool.approval("r1").to_json().unwrap()).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (spool, approval) = (&spool, &approval);
            scope.spawn(move || {
                for number in (thread..NAMES).step_by(THREADS) {
                    // No system lets a file have that many names; each has its share.
                    let name = match number % 10 {
                        0 => format!("requests/{number:07}.tmp"),
                        1..=4 => format!("responses/{number:07}.txt"),
                        _ => format!("responses/{number:07}.json"),
                    };
                    let path = spool.session_dir("P").join(name);
                    if number % 1000 == 0 {
                        fs::copy(approval, path).unwrap();
                    } else {
                        fs::File::create(path).unwrap();
                    }
                }
            });
        }
    });
    let ended = ask(&spool, &key, "r1", "rm x").run();
    ended.denied();
    assert_eq!(ended.json["sealed"], true);
    let ended = ask(&spool, &key, "r2", "ls x").run();
    ended.approved();
    assert_eq!(ended.json["sealed"], true);
}

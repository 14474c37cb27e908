//! The product under the same load as the floors: the release binary serves, and either the library or the binary asks.

use std::ffi::OsStr;
use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use askrelay::ask::{Ask, Requester as Asking, Settings, Trust};
use askrelay::audit::{Options, ReviewLog};
use askrelay::spool::{Missing, Spool, Watch};
use askrelay::wire::{
    Evidence, ForwardedAccessIntent, Generation, PayloadKind, Principal, PromptPayload,
    RequestFacts, RequestSource, Requester, SessionId,
};
use serde_json::json;

use crate::place::Place;
use crate::process::{Relay, Role, Spawned};

/// The session that is served.
const SESSION: &str = "main";

/// A spool with its configuration.
pub(crate) struct Product {
    dir: tempfile::TempDir,
}

/// Who answers.
#[derive(Clone, Copy)]
pub(crate) enum Serving {
    /// A rule allows everything.
    Policy,
    /// The last of a thousand rules allows `ls`.
    ThousandRules,
    /// A rule allows `ls`, and a person is asked about the rest.
    Person,
    /// No rule decides, and a chain of three programs does.
    Chain,
}

impl Product {
    pub(crate) fn new(place: &Place) -> Self {
        Self { dir: place.fresh() }
    }

    fn spool(&self) -> PathBuf {
        self.dir.path().join("spool")
    }

    pub(crate) fn requests(&self) -> PathBuf {
        self.spool().join("sessions").join(SESSION).join("requests")
    }

    pub(crate) fn command(&self, name: &str) -> Command {
        let mut run = Command::new(env!("CARGO_BIN_EXE_askrelay"));
        run.env_clear()
            .env("HOME", self.dir.path())
            .current_dir(self.dir.path());
        run.arg(name).arg("--spool").arg(self.spool());
        run
    }

    /// Starts a server; it may not serve yet.
    pub(crate) fn start_server(&self, serving: Serving) -> Spawned {
        let (mode, bash) = match serving {
            Serving::Policy => ("headless", json!({ "*": "allow" })),
            Serving::ThousandRules => ("headless", thousand_rules()),
            Serving::Person => (
                "select",
                json!({ "*": "ask", "ls": "allow", "ls *": "allow" }),
            ),
            Serving::Chain => ("headless", json!({ "*": "ask" })),
        };
        // A bench asks more often than any agent would.
        let limits = json!({ "perRequesterPending": 100_000, "perSessionPending": 100_000, "perRequesterPerMinute": 10_000_000 });
        // As a user has it, in a directory of its own: the server watches it, and the logs of the children lie elsewhere.
        let config = self.dir.path().join("config/config.json");
        fs::create_dir_all(self.dir.path().join("config")).unwrap();
        let mut content = json!({ "permission": { "*": "ask", "bash": bash }, "limits": limits });
        if let Serving::Chain = serving {
            (content["authorizerChain"], content["authorizers"]) = crate::chain::config();
        }
        fs::write(&config, content.to_string()).unwrap();
        let mut run = self.command("serve");
        run.args(["--session", SESSION, "--mode", mode])
            .arg("--config")
            .arg(config)
            .stderr(Stdio::null());
        Spawned::start(run)
    }

    pub(crate) fn serve(&self, serving: Serving) -> Spawned {
        let server = self.start_server(serving);
        let heartbeat = self.spool().join(format!("serving/{SESSION}.json"));
        until("the server serves", || heartbeat.exists());
        server
    }

    /// The review logs of both sides.
    pub(crate) fn logs(&self) -> Vec<PathBuf> {
        let beside = fs::read_dir(self.dir.path()).unwrap();
        let mut logs: Vec<PathBuf> = beside.map(|entry| entry.unwrap().path()).collect();
        logs.push(self.dir.path().join(".local/state/askrelay/review.jsonl"));
        logs.retain(|path| path.extension().is_some_and(|end| end == "jsonl"));
        logs
    }

    /// One `askrelay ask`, not waited for.
    pub(crate) fn ask(&self, value: &str) -> Spawned {
        let mut run = self.command("ask");
        run.args(["--session", SESSION, "--value", value, "--json"])
            .env("ASKRELAY_SERVING_KEY", serving_key(&self.spool()))
            .stderr(Stdio::null());
        Spawned::start(run)
    }

    /// Asks of `processes` children that use the library.
    pub(crate) fn relay(
        &self,
        processes: usize,
        in_flight: usize,
        count: usize,
        gap: Duration,
    ) -> Relay {
        crate::process::race(
            (0..processes)
                .map(|me| self.child(me, count / processes, in_flight / processes, gap))
                .collect(),
        )
    }

    /// A child that uses the library and asks about `ls -l` when it is told to go.
    pub(crate) fn child(
        &self,
        me: usize,
        count: usize,
        in_flight: usize,
        gap: Duration,
    ) -> Spawned {
        self.child_about("ls -l", me, count, in_flight, gap)
    }

    pub(crate) fn child_about(
        &self,
        value: &str,
        me: usize,
        count: usize,
        in_flight: usize,
        gap: Duration,
    ) -> Spawned {
        let numbers = [
            me.to_string(),
            count.to_string(),
            in_flight.to_string(),
            gap.as_micros().to_string(),
        ];
        let dir = self.dir.path().as_os_str();
        let mut args = vec![dir, OsStr::new(value)];
        args.extend(numbers.iter().map(OsStr::new));
        Spawned::role(Role::ProductChild, &args)
    }

    /// Writes so many requests about `value`, as if as many children had asked and nobody served.
    pub(crate) fn leave_waiting(&self, value: &str, count: usize) {
        let requests = self.requests();
        private_dirs(self.dir.path(), &requests);
        for n in 0..count {
            let id = format!("w-{n:05}");
            fs::write(requests.join(format!("{id}.json")), request(&id, value)).unwrap();
        }
    }

    /// How many responses lie there.
    pub(crate) fn answered(&self) -> usize {
        fs::read_dir(self.requests().with_file_name("responses")).map_or(0, Iterator::count)
    }

    /// What the server's heartbeat says about asks that wait for a person.
    pub(crate) fn queued(&self) -> Option<u64> {
        let record = fs::read(self.spool().join(format!("serving/{SESSION}.json"))).ok()?;
        serde_json::from_slice::<serde_json::Value>(&record).ok()?["relay"]["queued"].as_u64()
    }
}

/// The key that the session is served with.
fn serving_key(spool: &Path) -> String {
    let record = fs::read(spool.join(format!("serving/{SESSION}.json"))).unwrap();
    let record: serde_json::Value = serde_json::from_slice(&record).unwrap();
    record["relay"]["publicKey"].as_str().unwrap().to_owned()
}

/// Makes the directories between the two, for the owner only, as a spool has to be.
fn private_dirs(base: &Path, dir: &Path) {
    use std::os::unix::fs::DirBuilderExt;
    fs::DirBuilder::new()
        .mode(0o700)
        .recursive(true)
        .create(dir)
        .unwrap();
    assert!(dir.starts_with(base));
}

/// Looks once a millisecond.
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_mins(1);
    while !holds() {
        assert!(Instant::now() < deadline, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Bytes of a request of about the floor's size, with all that a policy needs.
pub(crate) fn request(id: &str, value: &str) -> Vec<u8> {
    let payload = serde_json::to_value(payload(value)).unwrap();
    let body = json!({ "id": id, "createdAt": 1_790_000_000_000_u64, "requesterSessionId": "w", "targetSessionId": SESSION,
        "requesterAgentName": "bench", "payload": payload, "source": "tool_call", "surface": "bash", "value": value,
        "accessIntent": intent("w", value) });
    body.to_string().into_bytes()
}

fn payload(value: &str) -> PromptPayload {
    PromptPayload {
        kind: PayloadKind::Bash,
        request: RequestFacts {
            requester: Requester {
                agent_name: Some("bench".to_owned()),
                forwarded: false,
                session_id: None,
            },
            surface: "bash".to_owned(),
            tool_name: Some("bash".to_owned()),
            invoked_tool_name: None,
            value: value.to_owned(),
            matched_pattern: None,
            command_context: None,
            executed_unit: None,
            matched_spelling: None,
        },
        evidence: vec![Evidence {
            label: "full command".to_owned(),
            text: format!("cd /srv && {value} # {}", "x".repeat(1_100)),
            detail: None,
        }],
        annotations: Vec::new(),
    }
}

fn intent(session: &str, value: &str) -> ForwardedAccessIntent {
    ForwardedAccessIntent {
        surface: "bash".to_owned(),
        match_values: vec![value.to_owned()],
        boundary_value: None,
        requester_cwd: "/srv".to_owned(),
        principal: Principal {
            session_id: session.to_owned(),
            agent_name: "bench".to_owned(),
        },
        floor: None,
        asking_units: None,
    }
}

/// Asks by the library, many times, as one process of a launcher with many agents would. Prints what the floor's child prints.
pub(crate) fn child_role(
    dir: &Path,
    value: &str,
    me: &str,
    count: usize,
    in_flight: usize,
    gap: Duration,
) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let spool = Spool::open(&dir.join("spool"), Missing::Create).unwrap();
    let session_id = format!("child-{me}");
    let settings = Settings {
        // As a launched child does, it takes sealed answers only.
        trust: Trust::Pinned(Box::new(serving_key(&dir.join("spool")).parse().unwrap())),
        target: SessionId::parse(SESSION).unwrap(),
        session_id: session_id.clone(),
        agent_name: "bench".to_owned(),
        generation: Generation::Current,
        where_nobody_serves: askrelay::ask::WhereNobodyServes::Wait,
    };
    let log =
        ReviewLog::open(&dir.join(format!("{session_id}.jsonl")), Options::default()).unwrap();
    let watch = Some(Arc::new(Watch::start().unwrap()));
    let ask = Ask {
        id: None,
        payload: payload(value),
        source: RequestSource::ToolCall,
        surface: Some("bash".to_owned()),
        value: Some(value.to_owned()),
        grants: Vec::new(),
        access_intent: Some(intent(&session_id, value)),
        timeout: Duration::from_mins(5),
        path: Vec::new(),
        rules_only: false,
        guard: false,
        verdict_only: false,
    };
    let local = tokio::task::LocalSet::new();
    let times = local.block_on(&runtime, async {
        let asking = Asking::new(&spool, settings, watch, Arc::new(log));
        println!("ready");
        let mut go = [0];
        std::io::stdin().read_exact(&mut go).unwrap();
        let workers: Vec<_> = (0..in_flight)
            .map(|_| {
                let (asking, ask) = (asking.clone(), ask.clone());
                tokio::task::spawn_local(async move {
                    let mut times = Vec::new();
                    for _ in 0..count / in_flight {
                        let asked_at = Instant::now();
                        let answer = asking.ask(ask.clone()).await;
                        times.push(asked_at.elapsed());
                        assert!(answer.decision().is_approved(), "{answer:?}");
                        if gap > Duration::ZERO {
                            tokio::time::sleep(gap).await;
                        }
                    }
                    times
                })
            })
            .collect();
        let mut all = Vec::new();
        for worker in workers {
            all.extend(worker.await.unwrap());
        }
        all
    });
    for time in times {
        println!("{}", time.as_nanos());
    }
}

/// From the person's answer to the exit of the child that asked.
pub(crate) fn key_press(place: &Place, repeats: usize) -> Vec<Duration> {
    let product = Product::new(place);
    let mut server = product.serve(Serving::Person);
    (0..repeats)
        .map(|_| {
            let mut child = product.ask("make deploy");
            server.line_that(|line| line.contains("1)") || line.contains("1."));
            // The list is out; the person reads.
            std::thread::sleep(Duration::from_millis(20));
            let pressed_at = Instant::now();
            server.stdin.write_all(b"1\n").unwrap();
            assert!(child.wait().success());
            pressed_at.elapsed()
        })
        .collect()
}

/// Start to exit of `askrelay ask`.
pub(crate) fn start(place: &Place, repeats: usize) -> Vec<Duration> {
    let product = Product::new(place);
    let _server = product.serve(Serving::Policy);
    (0..repeats)
        .map(|_| {
            let started = Instant::now();
            assert!(product.ask("ls -l").wait().success());
            started.elapsed()
        })
        .collect()
}

/// Start to verdict of a hook that rules allow, as its host starts it.
pub(crate) fn hook(place: &Place, repeats: usize) -> Vec<Duration> {
    let product = Product::new(place);
    let _server = product.serve(Serving::Policy);
    let stdin = json!({
        "session_id": "5f0c9d7e-31aa-4c07-9b5e-2d1f64c8a910", "cwd": product.dir.path(), "permission_mode": "default",
        "hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_use_id": "toolu_1",
        "tool_input": {"command": "ls -l", "description": "look around"},
    });
    let stdin = stdin.to_string();
    let key = serving_key(&product.spool());
    (0..repeats)
        .map(|_| {
            let mut run = product.command("hook");
            run.arg("claude-code")
                .env("ASKRELAY_SERVING_KEY", &key)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::null());
            let started = Instant::now();
            let mut child = run.spawn().unwrap();
            child
                .stdin
                .take()
                .unwrap()
                .write_all(stdin.as_bytes())
                .unwrap();
            let said = child.wait_with_output().unwrap();
            let took = started.elapsed();
            assert!(String::from_utf8_lossy(&said.stdout).contains("\"allow\""));
            took
        })
        .collect()
}

/// Asks that policy answers, with and without a question that is open beside them.
pub(crate) fn beside_a_question(place: &Place, question: bool, count: usize) -> Vec<Duration> {
    let product = Product::new(place);
    let mut server = product.serve(Serving::Person);
    let _open = question.then(|| {
        let child = product.ask("make deploy");
        server.line_that(|line| line.contains("1)") || line.contains("1."));
        child
    });
    product.relay(1, 1, count, Duration::ZERO).times
}

/// Rules for commands of which the last one decides.
fn thousand_rules() -> serde_json::Value {
    let others = (0..999).map(|n| (format!("tool-{n} --flag *"), json!("ask")));
    let last = ("ls *".to_owned(), json!("allow"));
    others
        .chain([last])
        .collect::<serde_json::Map<_, _>>()
        .into()
}

/// Start of the server to the answer of the last of so many requests.
pub(crate) fn drain(place: &Place, waiting: usize, serving: Serving) -> f64 {
    let product = Product::new(place);
    product.leave_waiting("ls -l", waiting);
    let last = product
        .requests()
        .join(format!("w-{:05}.json", waiting - 1));
    let started = Instant::now();
    let _server = product.start_server(serving);
    until("the last request is answered", || !last.exists());
    let took = started.elapsed().as_secs_f64();
    until("every request is answered", || {
        product.answered() == waiting
    });
    took
}

/// One `ls` over so many.
pub(crate) fn list(place: &Place, waiting: usize) -> f64 {
    let product = Product::new(place);
    product.leave_waiting("make deploy", waiting);
    let started = Instant::now();
    let output = product.command("ls").arg("--json").output().unwrap();
    let took = started.elapsed().as_secs_f64();
    let lines = String::from_utf8(output.stdout).unwrap().lines().count();
    assert_eq!(
        lines,
        waiting,
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    took
}

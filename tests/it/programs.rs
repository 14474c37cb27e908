//! The operator's programs, as real processes: whatever one does, it is an outcome, in time, and nothing of it is left behind.
#![expect(
    clippy::disallowed_methods,
    reason = "tests write the programs that they run"
)]

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::time::Duration;

use askrelay::policy::Program;
use askrelay::program::{Executable, Failure, Outcome};
use askrelay::wire::{Evidence, MAX_PROGRAM_BYTES};
use serde_json::json;

use crate::support::processes::has_ended;
use crate::support::spool::{DEADLINE, TestSpool, eventually, until};

/// So long that a test which waits for it fails.
const LONG: Duration = DEADLINE;
/// So short that a program which should be too slow need not be waited for.
const SHORT: Duration = Duration::from_millis(50);

struct Scripts {
    place: TestSpool,
}

impl Scripts {
    fn new() -> Self {
        Self {
            place: TestSpool::new(),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.place.work().join(name)
    }

    /// A shell script that runs in the test's own directory.
    fn script(&self, body: &str) -> Vec<String> {
        let path = self.path("script");
        let directory = self.place.work();
        let text = format!("cd '{}' || exit 9\n{body}\n", directory.display());
        std::fs::write(&path, text).unwrap();
        vec!["/bin/sh".into(), path.to_str().unwrap().into()]
    }

    fn executable(command: Vec<String>, timeout: Duration) -> Executable {
        let program = Program {
            command,
            timeout,
            env: vec!["OWN".into(), "UNSET".into()],
            directory: None,
        };
        Executable::new(&program, |name| {
            let value = match name {
                "PATH" => "/usr/bin:/bin",
                "OWN" => "mine",
                "UNSET" => return None,
                _ => "inherited",
            };
            Some(OsString::from(value))
        })
    }

    fn run_for(&self, timeout: Duration, body: &str, input: &[u8]) -> Outcome<Vec<u8>> {
        let executable = Self::executable(self.script(body), timeout);
        runtime().block_on(executable.run(input))
    }

    fn run(&self, body: &str) -> Outcome<Vec<u8>> {
        self.run_for(LONG, body, b"{}")
    }

    /// The process id that a script wrote into a file.
    fn pid(&self, name: &str) -> u32 {
        eventually("a process id", || {
            let text = std::fs::read_to_string(self.path(name)).ok()?;
            text.strip_suffix('\n')?.parse().ok()
        })
    }

    fn await_end_of(&self, name: &str) {
        let pid = self.pid(name);
        until("the end of a process", || has_ended(pid));
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
}

/// Lets the runtime go on until something holds.
async fn meanwhile(mut holds: impl FnMut() -> bool) {
    let started = askrelay::clock::now();
    while !holds() {
        assert!(askrelay::clock::now().since(started) < DEADLINE);
        tokio::task::yield_now().await;
    }
}

fn answer(text: &str) -> Outcome<Vec<u8>> {
    Outcome::Answered(text.as_bytes().to_vec())
}

#[test]
fn a_program_gets_its_input_whole_and_its_output_is_the_answer() {
    let scripts = Scripts::new();
    let input = vec![b'x'; 3 << 20];
    let outcome = scripts.run_for(LONG, "wc -c | tr -d ' \\n'", &input);
    assert_eq!(outcome, answer("3145728"));
}

#[test]
fn a_program_inherits_what_its_entry_lists_and_nothing_else() {
    let outcome =
        Scripts::new().run("env | grep -v -e '^PWD=' -e '^OLDPWD=' -e '^SHLVL=' -e '^_=' | sort");
    assert_eq!(
        outcome,
        answer("HOME=inherited\nLANG=inherited\nOWN=mine\nPATH=/usr/bin:/bin\n")
    );
}

#[test]
fn no_shell_sees_the_arguments_of_a_program() {
    let words = ["/bin/echo", "-n", "$HOME; `id` *"].map(str::to_owned);
    let executable = Scripts::executable(words.to_vec(), LONG);
    assert_eq!(
        runtime().block_on(executable.run(b"")),
        answer("$HOME; `id` *")
    );
}

#[test]
fn a_program_that_never_reads_may_answer_all_the_same() {
    let scripts = Scripts::new();
    let input = vec![b'x'; 3 << 20];
    assert_eq!(scripts.run_for(LONG, "printf yes", &input), answer("yes"));
    assert_eq!(
        scripts.run_for(LONG, "exec <&-; printf closed", &input),
        answer("closed")
    );
}

#[test]
fn what_a_program_says_on_stderr_is_not_its_answer() {
    let flood = "head -c 1000000 /dev/zero >&2; printf out";
    assert_eq!(Scripts::new().run(flood), answer("out"));
}

#[test]
fn another_exit_code_than_zero_is_a_failure_whatever_was_written() {
    let scripts = Scripts::new();
    let Outcome::Failed(Failure::Ended(how)) = scripts.run("printf yes; exit 3") else {
        panic!()
    };
    assert!(how.contains('3'), "{how}");
    let Outcome::Failed(Failure::Ended(how)) = scripts.run("printf yes; kill -SEGV $$") else {
        panic!()
    };
    assert!(how.contains("signal"), "{how}");
}

#[test]
fn a_program_that_is_not_there_or_cannot_be_run_is_a_failure() {
    let scripts = Scripts::new();
    let plain = scripts.path("plain");
    std::fs::write(&plain, "#!/bin/sh\n").unwrap();
    std::fs::set_permissions(&plain, std::fs::Permissions::from_mode(0o600)).unwrap();
    for name in ["/no/such/program", plain.to_str().unwrap(), "/"] {
        let executable = Scripts::executable(vec![name.into()], LONG);
        let outcome = runtime().block_on(executable.run(b""));
        assert!(
            matches!(outcome, Outcome::Failed(Failure::NotStarted(_))),
            "{name}: {outcome:?}"
        );
    }
}

#[test]
fn a_program_that_writes_too_much_is_a_failure_and_ends() {
    let scripts = Scripts::new();
    let within = format!("head -c {MAX_PROGRAM_BYTES} /dev/zero");
    assert!(
        matches!(scripts.run(&within), Outcome::Answered(bytes) if bytes.len() == MAX_PROGRAM_BYTES)
    );
    let outcome = scripts.run("echo $$ >pid; exec yes");
    assert_eq!(outcome, Outcome::Failed(Failure::TooMuch));
    scripts.await_end_of("pid");
}

#[test]
fn a_program_that_takes_too_long_is_a_failure_and_ends_with_its_group() {
    let scripts = Scripts::new();
    let outcome = scripts.run_for(
        SHORT,
        "sleep 1000 & echo $! >other; echo $$ >pid; wait",
        b"",
    );
    assert_eq!(outcome, Outcome::Failed(Failure::TooSlow(SHORT)));
    // It may have been told to end before it began.
    if scripts.path("other").exists() {
        scripts.await_end_of("other");
    }
}

#[test]
fn a_program_that_does_not_end_when_it_is_told_to_is_killed() {
    let scripts = Scripts::new();
    let body = "trap '' TERM; (trap '' TERM; while :; do sleep 1; done) & echo $! >other; echo $$ >pid; while :; do sleep 1; done";
    let executable = Scripts::executable(scripts.script(body), LONG);
    runtime().block_on(async {
        let run = tokio::spawn(async move { executable.run(b"").await });
        // It is dropped once both stand, and the runtime goes on until they are gone.
        meanwhile(|| scripts.path("pid").exists() && scripts.path("other").exists()).await;
        let (pid, other) = (scripts.pid("pid"), scripts.pid("other"));
        run.abort();
        meanwhile(|| has_ended(pid) && has_ended(other)).await;
    });
}

#[test]
fn a_runtime_that_ends_takes_its_programs_along() {
    let scripts = Scripts::new();
    let body = "trap '' TERM; echo $$ >pid; while :; do sleep 1; done";
    let executable = Scripts::executable(scripts.script(body), LONG);
    runtime().block_on(async {
        tokio::spawn(async move { executable.run(b"").await });
        meanwhile(|| scripts.path("pid").exists()).await;
    });
    scripts.await_end_of("pid");
}

#[test]
fn whoever_holds_the_pipe_when_a_program_has_ended_does_not_hold_up_its_answer() {
    let scripts = Scripts::new();
    let outcome = scripts.run("sleep 1000 & echo $! >other; printf done");
    assert_eq!(outcome, answer("done"));
    scripts.await_end_of("other");
    // One that has left the group is not waited for either.
    let outcome = scripts.run("setsid sleep 3 & printf done");
    assert_eq!(outcome, answer("done"));
}

#[test]
fn a_formatter_gets_the_call_and_gives_entries_or_nothing() {
    let scripts = Scripts::new();
    let body = r#"in=$(cat); [ "$in" = '{"v":1,"tool":"deploy","input":{"to":"prod"}}' ] || exit 1
        echo '{"evidence":[{"label":"runs","text":"v12","detail":null}]}'"#;
    let executable = Scripts::executable(scripts.script(body), LONG);
    let runtime = runtime();
    let input = json!({"to": "prod"});
    let entry = Evidence {
        label: "runs".into(),
        text: "v12".into(),
        detail: None,
    };
    assert_eq!(
        runtime.block_on(executable.evidence("deploy", &input)),
        Outcome::Answered(vec![entry])
    );
    assert!(matches!(
        runtime.block_on(executable.evidence("other", &input)),
        Outcome::Failed(Failure::Ended(_))
    ));
    let half = r#"cat >/dev/null; echo '{"evidence":[{"label":"runs"}]}'"#;
    let executable = Scripts::executable(scripts.script(half), LONG);
    let outcome = runtime.block_on(executable.evidence("deploy", &input));
    assert!(matches!(outcome, Outcome::Failed(Failure::Unusable(_))));
}

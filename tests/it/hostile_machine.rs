//! A machine that has no room, no rights or an odd temporary directory.
#![expect(
    clippy::disallowed_methods,
    reason = "tests lay out odd files and look at what became of them"
)]

use std::fs;
use std::process::Command;

use serde_json::Value;

use crate::support::chain;
use crate::support::hostile::{Field, Run, names, skipped};

/// Runs a shell script in a mount namespace of its own, with a small file system mounted at `$M` and the program as `$P`.
/// `None` where this machine does not let us.
fn in_small_file_system(field: &Field, script: &str) -> Option<String> {
    let mount = field.at("mount");
    fs::create_dir(&mount).unwrap();
    let prelude = "mount -t tmpfs -o size=64k,mode=700 none \"$M\" || { echo no-mount; exit 0; }; ";
    for flags in [&["-m"][..], &["-r", "-m"]] {
        let mut command = Command::new("unshare");
        field.surround(&mut command);
        command
            .args(flags)
            .args([
                "--propagation",
                "private",
                "timeout",
                "100",
                "sh",
                "-c",
                &format!("{prelude}{script}"),
            ])
            .env("M", &mount)
            .env("P", env!("CARGO_BIN_EXE_askrelay"))
            .env("ASKRELAY_SPOOL", mount.join("spool"));
        let Ok(output) = command.output() else { break };
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        if output.status.success() && !text.contains("no-mount") {
            return Some(text);
        }
    }
    skipped("no file system can be mounted here");
    None
}

fn last_json(text: &str) -> Value {
    let line = text.lines().rfind(|line| line.starts_with('{'));
    serde_json::from_str(line.unwrap_or_else(|| panic!("no JSON in {text}"))).unwrap()
}

const ASK: &str = "\"$P\" ask --json --session main --from child --value 'ls -la'";
/// Starts a server in the background and waits until it serves.
const SERVE: &str = "\"$P\" serve --session main --mode headless 2>\"$M/err\" & S=$!; \
    until grep -q 'serving session' \"$M/err\"; do kill -0 $S || exit 9; sleep 0.02; done; ";
const FILL: &str = "dd if=/dev/zero of=\"$M/fill\" bs=1k 2>/dev/null; ";

#[test]
fn on_a_full_disk_the_child_is_denied_as_unavailable_with_that_reason() {
    let field = Field::new();
    let script =
        format!("{SERVE}{FILL}{ASK}; echo code=$?; kill $S; wait $S; ls -A \"$M/spool/sessions\"");
    let Some(text) = in_small_file_system(&field, &script) else {
        return;
    };
    let answer = last_json(&text);
    assert!(text.contains("code=3"), "{text}");
    assert_eq!(answer["approved"], false);
    assert_eq!(answer["confirmationUnavailable"], true);
    assert_eq!(answer["abandoned"], "not_written", "{text}");
    let reason = answer["denialReason"].as_str().unwrap();
    assert!(reason.contains("No space left on device"), "{reason}");
}

#[test]
fn a_server_outlives_a_full_disk_and_answers_when_there_is_room_again() {
    let field = Field::new();
    // Full from before the first beat on, so that probe, heartbeat and answer all meet it.
    let script = format!(
        "{SERVE}{FILL}\
         i=0; while [ $i -lt 120 ] && kill -0 $S; do i=$((i+1)); sleep 0.05; done; \
         kill -0 $S && echo alive; rm \"$M/fill\"; \
         {ASK}; echo code=$?; kill $S; wait $S; echo ended=$?"
    );
    let Some(text) = in_small_file_system(&field, &script) else {
        return;
    };
    assert!(text.contains("alive"), "{text}");
    assert!(text.contains("code=0"), "{text}");
    assert!(text.contains("ended=0"), "{text}");
    // The trouble is said, and not with every try.
    let mut said = field.logged("permission_forwarding.warning");
    said.retain(|entry| {
        entry["message"]
            .as_str()
            .is_some_and(|message| message.contains("No space left"))
    });
    assert!((1..=4).contains(&said.len()), "{said:#?}");
}

#[test]
fn an_answer_that_finds_no_room_is_kept_and_delivered_later_without_a_second_question() {
    let field = Field::new();
    let script = format!(
        "mkfifo \"$M/in\"; \"$P\" serve --session main --mode select <\"$M/in\" >\"$M/out\" 2>\"$M/err\" & S=$!; \
         exec 5>\"$M/in\"; until grep -q 'serving session' \"$M/err\"; do kill -0 $S || exit 9; sleep 0.02; done; \
         \"$P\" ask --json --session main --from child --id r1 --value 'make all' >{answer} & A=$!; \
         until grep -q 'Permission Required' \"$M/out\"; do kill -0 $S || exit 9; sleep 0.02; done; \
         {FILL} echo 1 >&5; \
         until grep -q 'cannot be written, it is tried again' {log}; do kill -0 $S || exit 9; sleep 0.02; done; \
         rm \"$M/fill\"; wait $A; echo code=$?; kill $S; wait $S; echo ended=$?",
        answer = field.at("answer").display(),
        log = field.at("review.jsonl").display(),
    );
    let Some(text) = in_small_file_system(&field, &script) else {
        return;
    };
    assert!(text.contains("code=0"), "{text}");
    assert!(text.contains("ended=0"), "{text}");
    assert_eq!(field.logged_of("permission_request.waiting", "r1"), 1);
    assert_eq!(field.logged_of("permission_request.approved", "r1"), 1);
    assert_eq!(field.logged_of("forwarded_permission.approved", "r1"), 1);
}

/// What stands between two marks in the output of a script.
fn between<'a>(text: &'a str, from: &str, to: &str) -> &'a str {
    let (_, rest) = text
        .split_once(from)
        .unwrap_or_else(|| panic!("no {from} in {text}"));
    rest.split_once(to)
        .unwrap_or_else(|| panic!("no {to} in {text}"))
        .0
}

/// Writes what a script printed of a log into a file, so that its chain can be looked at.
fn printed_log(field: &Field, text: &str) -> Vec<Value> {
    let path = field.at("printed.jsonl");
    fs::write(&path, between(text, "LOG\n", "END")).unwrap();
    chain::records(&path)
}

/// The log lies in the small file system, the spool beside it.
const LOG_IN_MOUNT: &str =
    "SPOOL=${M%/mount}/spool; export ASKRELAY_SPOOL=$SPOOL ASKRELAY_LOG=\"$M/review.jsonl\"; ";
/// As [`SERVE`], with what the server says outside of the small file system.
const SERVE_OUTSIDE: &str = "E=${M%/mount}/err; \"$P\" serve --session main --mode headless 2>\"$E\" & S=$!; \
    until grep -q 'serving session' \"$E\"; do kill -0 $S || exit 9; sleep 0.02; done; ";
const PRINT: &str = "echo LOG; cat \"$M/review.jsonl\"; echo END; ";

#[test]
fn a_log_on_a_full_disk_stops_no_decision_and_follows_when_there_is_room() {
    let field = Field::new();
    let script = format!(
        "{LOG_IN_MOUNT}{SERVE_OUTSIDE}{ASK}; {FILL}\
         for n in 1 2 3 4 5 6; do {ASK} --id r$n >/dev/null 2>>\"$E.ask\"; echo code=$?; done; \
         until \"$P\" status | grep -q 'review log of main cannot be written'; do kill -0 $S || exit 9; sleep 0.1; done; \
         echo SAID; cat \"$E\"; echo ASKED; cat \"$E.ask\"; echo DONE; \
         rm \"$M/fill\"; until grep -q 'recovered' \"$M/review.jsonl\"; do kill -0 $S || exit 9; sleep 0.02; done; \
         until \"$P\" status --json | grep -q '\"logFailure\":null'; do kill -0 $S || exit 9; sleep 0.1; done; \
         kill $S; wait $S; echo ended=$?; {PRINT}"
    );
    let Some(text) = in_small_file_system(&field, &script) else {
        return;
    };
    assert_eq!(text.matches("code=0").count(), 6, "{text}");
    assert!(text.contains("ended=0"), "{text}");
    let said = between(&text, "SAID\n", "ASKED\n");
    assert_eq!(said.matches("cannot be written").count(), 1, "{said}");
    assert!(
        said.contains("No space left") && said.contains("make room"),
        "{said}"
    );
    assert!(
        between(&text, "ASKED\n", "DONE\n").contains("No space left"),
        "{text}"
    );
    // What the disk took of a line was taken back; the server's own records all came later.
    let records = printed_log(&field, &text);
    assert!(chain::of_event(&records, "review_log.torn_tail").is_empty());
    for n in 1..=6 {
        let mut ends = chain::of_event(&records, "forwarded_permission.approved");
        ends.retain(|end| end["requestId"] == format!("r{n}"));
        assert_eq!(ends.len(), 1, "r{n}");
    }
    assert!(!chain::of_event(&records, "review_log.recovered").is_empty());
}

#[test]
fn a_log_on_a_read_only_mount_stops_no_decision_and_is_written_when_it_can_be() {
    let field = Field::new();
    let script = format!(
        "{LOG_IN_MOUNT}mount -o remount,ro \"$M\"; {SERVE_OUTSIDE}\
         {ASK} --id r1 >/dev/null; echo code=$?; \
         until \"$P\" status | grep -q 'Read-only file system'; do kill -0 $S || exit 9; sleep 0.1; done; \
         mount -o remount,rw \"$M\"; until grep -q 'recovered' \"$M/review.jsonl\"; do kill -0 $S || exit 9; sleep 0.02; done; \
         kill $S; wait $S; echo ended=$?; echo SAID; cat \"$E\"; echo DONE; {PRINT}"
    );
    let Some(text) = in_small_file_system(&field, &script) else {
        return;
    };
    assert!(
        text.contains("code=0") && text.contains("ended=0"),
        "{text}"
    );
    let said = between(&text, "SAID\n", "DONE\n");
    assert_eq!(said.matches("Read-only file system").count(), 1, "{said}");
    assert_eq!(said.matches("is written again").count(), 1, "{said}");
    let records = printed_log(&field, &text);
    assert_eq!(
        chain::of_event(&records, "forwarded_permission.approved").len(),
        1
    );
}

/// The log is locked, and the disk has no room for the answer: what could not be recorded does not become an approval when the
/// answer is tried again.
#[test]
fn with_a_required_log_an_approval_that_found_no_room_stays_a_denial() {
    let field = Field::new();
    fs::write(
        field.at("config.json"),
        r#"{"permission": {"bash": "ask"}, "requireAudit": true}"#,
    )
    .unwrap();
    let script = format!(
        "export ASKRELAY_LOG=\"$M/review.jsonl\"; O=${{M%/mount}}/out; E=${{M%/mount}}/err; \
         mkfifo \"$M/in\"; \"$P\" serve --session main --mode select <\"$M/in\" >\"$O\" 2>\"$E\" & S=$!; \
         exec 5>\"$M/in\"; until grep -q 'serving session' \"$E\"; do kill -0 $S || exit 9; sleep 0.02; done; \
         \"$P\" ask --json --session main --from child --id r1 --value 'make all' >\"$E.answer\" & A=$!; \
         until grep -q 'Permission Required' \"$O\"; do kill -0 $S || exit 9; sleep 0.02; done; \
         {FILL} exec 6<\"$M/review.jsonl\"; flock 6; echo 1 >&5; \
         until grep -q 'review log cannot be written' \"$O\"; do kill -0 $S || exit 9; sleep 0.02; done; \
         flock -u 6; rm \"$M/fill\"; wait $A; echo code=$?; cat \"$E.answer\"; kill $S; wait $S; echo ended=$?; {PRINT}"
    );
    let Some(text) = in_small_file_system(&field, &script) else {
        return;
    };
    assert!(
        text.contains("code=3") && text.contains("ended=0"),
        "{text}"
    );
    assert!(text.contains("decides nothing unrecorded"), "{text}");
    let records = printed_log(&field, &text);
    for record in &records {
        let event = record["event"].as_str().unwrap();
        assert!(!event.ends_with("approved"), "{record}");
    }
}

#[test]
fn on_a_read_only_spool_nobody_is_allowed_anything() {
    let field = Field::new();
    let script = format!(
        "mkdir -m 700 \"$M/spool\"; mount -o remount,ro \"$M\"; {ASK}; echo code=$?; \
         \"$P\" status >/dev/null && \"$P\" ls >/dev/null && echo looked; \
         \"$P\" serve --session main --mode headless; echo served=$?"
    );
    let Some(text) = in_small_file_system(&field, &script) else {
        return;
    };
    let answer = last_json(&text);
    assert_eq!(answer["abandoned"], "no_directories", "{text}");
    let reason = answer["denialReason"].as_str().unwrap();
    assert!(reason.contains("Read-only file system"), "{reason}");
    assert!(
        text.contains("code=3") && text.contains("looked") && text.contains("served=3"),
        "{text}"
    );
}

#[test]
fn write_6_the_temporary_directory_of_the_system_does_not_matter() {
    for temporary in [
        None,
        Some("/nowhere/at/all"),
        Some("/proc"),
        Some("/dev/shm"),
        Some(""),
    ] {
        let field = Field::new();
        let set = |command: &mut Command| match temporary {
            None => drop(command.env_remove("TMPDIR")),
            Some(path) => drop(command.env("TMPDIR", path)),
        };
        let mut serve = field.relay();
        serve.args(["serve", "--session", "main", "--mode", "headless"]);
        set(&mut serve);
        let mut server = Run::start(&field, &mut serve);
        server.await_serving();
        let mut ask = field.ask_command("ls -la", &[]);
        set(&mut ask);
        let answer = Run::start(&field, &mut ask).answer();
        assert_eq!(answer.code, Some(0), "{temporary:?}: {answer:?}");
        server.stop();
        assert_eq!(names(&field.at("spool/sessions")), [""; 0], "{temporary:?}");
    }
}

#[test]
fn a_pipe_in_place_of_the_configuration_is_an_error_and_no_wait() {
    let field = Field::new();
    fs::remove_file(field.at("config.json")).unwrap();
    let made = Command::new("mkfifo")
        .arg(field.at("config.json"))
        .status()
        .unwrap();
    assert!(made.success());
    for args in [
        &["serve", "--session", "main", "--mode", "headless"][..],
        &["ask", "--value", "ls"],
    ] {
        let mut run = Run::start(&field, field.relay().args(args));
        assert_ne!(run.await_end().code(), Some(0), "{args:?}");
        let said = run.stderr();
        assert!(said.contains("not a regular file"), "{said}");
    }
    // Where somebody looks for the reason it stands, and is no error.
    let mut run = Run::start(&field, field.relay().arg("status"));
    assert_eq!(run.await_end().code(), Some(0));
    let said = run.stdout();
    assert!(said.contains("not a regular file"), "{said}");
}

#[test]
fn watch_4_without_a_watcher_it_is_said_by_name_and_polled() {
    let field = Field::new();
    // A user namespace has limits of its own; where none can be made there is nothing to try.
    let script = format!(
        "echo 0 >/proc/sys/user/max_inotify_instances 2>/dev/null || {{ echo no-limit; exit 0; }}; \
         {SERVE}{ASK}; echo code=$?; cat \"$M/err\"; kill $S; wait $S"
    );
    let mount = field.at("mount");
    fs::create_dir(&mount).unwrap();
    let mut command = Command::new("unshare");
    field.surround(&mut command);
    command
        .args(["-U", "-r", "sh", "-c", &script])
        .env("M", &mount)
        .env("P", env!("CARGO_BIN_EXE_askrelay"));
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() && !text.contains("code=") || text.contains("no-limit") {
        skipped(&format!("the limit cannot be set here: {text}"));
        return;
    }
    assert!(text.contains("code=0"), "{text}");
    assert!(text.contains("fs.inotify.max_user_instances"), "{text}");
    assert!(text.contains("polling instead"), "{text}");
}

#[test]
fn a_grant_that_cannot_be_kept_counts_for_its_own_ask_and_that_is_said() {
    let field = Field::new();
    let ask = |id: &str| {
        format!(
            "\"$P\" ask --json --session main --from child --id {id} --value 'make all' --grant 'bash=make *' >{} & A=$!; ",
            field.at(id).display()
        )
    };
    let await_questions = |count: u32| {
        format!(
            "until [ $(grep -c 'Permission Required' \"$M/out\") -ge {count} ]; do kill -0 $S || exit 9; sleep 0.02; done; "
        )
    };
    let script = format!(
        "mkdir -p -m 700 \"$M/spool/grants\"; mount -t tmpfs -o ro none \"$M/spool/grants\" || {{ echo no-mount; exit 0; }}; \
         mkfifo \"$M/in\"; \"$P\" serve --session main --mode select <\"$M/in\" >\"$M/out\" 2>\"$M/err\" & S=$!; \
         exec 5>\"$M/in\"; until grep -q 'serving session' \"$M/err\"; do kill -0 $S || exit 9; sleep 0.02; done; \
         {first}{one}echo 2 >&5; \
         until grep -q 'Grant for whom' \"$M/out\"; do kill -0 $S || exit 9; sleep 0.02; done; \
         echo 2 >&5; wait $A; echo first=$?; {second}{two}echo 3 >&5; wait $A; echo second=$?; \
         cat \"$M/out\"; kill $S; wait $S; echo ended=$?",
        first = ask("r1"),
        one = await_questions(1),
        second = ask("r2"),
        two = await_questions(2),
    );
    let Some(text) = in_small_file_system(&field, &script) else {
        return;
    };
    for part in ["first=0", "second=1", "ended=0"] {
        assert!(text.contains(part), "{text}");
    }
    assert!(text.contains("counted for this one ask only"), "{text}");
    let refused = &field.logged("grant.refused")[0];
    assert_eq!(refused["grantId"], 1);
    let reason = refused["reason"].as_str().unwrap();
    assert!(reason.contains("Read-only file system"), "{reason}");
}

#[test]
fn a_kept_grant_ends_where_its_uses_cannot_be_kept() {
    let field = Field::new();
    let ask = |id: &str| {
        format!(
            "\"$P\" ask --json --session main --from child --id {id} --value 'make all' --grant 'bash=make *' >{} & A=$!; ",
            field.at(id).display()
        )
    };
    let await_text = |text: &str, count: u32| {
        format!(
            "until [ $(grep -c '{text}' \"$M/out\") -ge {count} ]; do kill -0 $S || exit 9; sleep 0.02; done; "
        )
    };
    let script = format!(
        "mkdir -p -m 700 \"$M/spool/grants\"; mount -t tmpfs -o mode=700 none \"$M/spool/grants\" || {{ echo no-mount; exit 0; }}; \
         echo '{{\"persistGrants\": true}}' >\"$M/c.json\"; \
         mkfifo \"$M/in\"; \"$P\" serve --session main --mode select --config \"$M/c.json\" <\"$M/in\" >\"$M/out\" 2>\"$M/err\" & S=$!; \
         exec 5>\"$M/in\"; until grep -q 'serving session' \"$M/err\"; do kill -0 $S || exit 9; sleep 0.02; done; \
         {first}{one}echo 2 >&5; {scope}echo 4 >&5; wait $A; echo first=$?; \
         until [ -e \"$M/spool/grants/main/1.json\" ]; do kill -0 $S || exit 9; sleep 0.02; done; \
         mount -o remount,ro \"$M/spool/grants\" || {{ echo no-mount; exit 0; }}; \
         {second}wait $A; echo second=$?; {third}{two}echo 3 >&5; wait $A; echo third=$?; cat \"$M/out\"; kill $S; wait $S",
        first = ask("r1"),
        one = await_text("Permission Required", 1),
        scope = await_text("Grant for whom", 1),
        second = ask("r2"),
        third = ask("r3"),
        two = await_text("Permission Required", 2),
    );
    let Some(text) = in_small_file_system(&field, &script) else {
        return;
    };
    for part in [
        "first=0",
        "second=0",
        "third=1",
        "grant 1 has ended: its uses cannot be kept",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let revoked = &field.logged("grant.revoked")[0];
    assert_eq!(
        (&revoked["grantId"], &revoked["by"]),
        (&1.into(), &"server".into())
    );
}

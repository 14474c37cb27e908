//! What may lie in the place of a configuration, or happen to it, while a session runs: nothing of it is ever an allow, or costs a
//! deny.

#![expect(
    clippy::disallowed_methods,
    reason = "tests put odd things where a configuration should be"
)]

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Command;

use askrelay::policy::MAX_CONFIG_BYTES;

use crate::support::config::{Configured, overwrite, put, remove};
use crate::support::processes::{Server, run};

const RULES: &str = r#"{"permission": {"bash": {"ls": "allow", "rm *": "deny"}}}"#;
const MORE: &str = r#"{"permission": {"bash": {"*": "allow"}}}"#;

/// What is laid in the place of a configuration: its name, what is said of it, and how it comes there.
type Odd<'a> = (&'static str, &'static str, Box<dyn Fn() + 'a>);

/// The old rules hold as far as they deny, and nothing is allowed.
#[track_caller]
fn is_clamped(place: &Configured) {
    place.ask("scout", "ls").unruled();
    place.ask("scout", "make").unruled();
    place.ask("scout", "rm x").denied();
}

#[track_caller]
fn is_mended(place: &Configured) {
    remove_if_there(&place.path());
    place.write(RULES);
    place.await_no_failure();
    place.ask("scout", "ls").approved();
    place.ask("scout", "rm x").denied();
}

fn remove_if_there(path: &Path) {
    if path.symlink_metadata().is_ok() {
        remove(path);
    }
}

fn serve() -> (Configured, Server) {
    let place = Configured::new(RULES);
    let server = place.headless();
    place.ask("scout", "ls").approved();
    (place, server)
}

#[test]
fn policy_6_whatever_takes_the_place_of_the_configuration_allows_nothing_and_keeps_the_denies() {
    let (place, _server) = serve();
    let path = place.path();
    let elsewhere = place.spool.below("elsewhere.json");
    fs::write(&elsewhere, MORE).unwrap();
    let odds: Vec<Odd<'_>> = vec![
        (
            "a link",
            "symbolic link",
            Box::new(|| symlink(&elsewhere, &path).unwrap()),
        ),
        (
            "a link to nothing",
            "symbolic link",
            Box::new(|| symlink("/nowhere", &path).unwrap()),
        ),
        (
            "a pipe",
            "regular file",
            Box::new(|| {
                let made = Command::new("mkfifo").arg(&path).status().unwrap();
                assert!(made.success());
            }),
        ),
        (
            "a directory",
            "regular file",
            Box::new(|| fs::create_dir(&path).unwrap()),
        ),
        ("nothing", "is gone", Box::new(|| {})),
        (
            "an empty file",
            "is empty",
            Box::new(|| fs::write(&path, "").unwrap()),
        ),
        (
            "a torn file",
            "config.json:1:",
            Box::new(|| fs::write(&path, &MORE[..20]).unwrap()),
        ),
        (
            "too large a file",
            "larger than",
            Box::new(|| fs::write(&path, " ".repeat(MAX_CONFIG_BYTES + 1)).unwrap()),
        ),
        (
            "a file that others may write",
            "writable by others",
            Box::new(|| {
                fs::write(&path, MORE).unwrap();
                fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
            }),
        ),
        (
            "a key twice",
            "stands twice",
            Box::new(|| fs::write(&path, r#"{"yoloMode": false, "yoloMode": true}"#).unwrap()),
        ),
        (
            "a byte-order mark",
            "byte-order mark",
            Box::new(|| fs::write(&path, format!("\u{feff}{MORE}")).unwrap()),
        ),
    ];
    for (name, text, lay) in &odds {
        // It takes the place in one step, or two.
        remove_if_there(&path);
        lay();
        let failure = place.await_failure(text);
        assert!(failure.contains("config.json"), "{name}: {failure}");
        is_clamped(&place);
        is_mended(&place);
    }
    if rustix::process::getuid().is_root() {
        fs::write(&path, MORE).unwrap();
        std::os::unix::fs::chown(&path, Some(65_534), None).unwrap();
        place.await_failure("belongs to user 65534");
        is_clamped(&place);
        is_mended(&place);
    }
}

#[test]
fn a_directory_that_is_removed_takes_no_deny_along_and_one_that_comes_back_is_read() {
    let (place, _server) = serve();
    put(
        &place.agent("builder"),
        "---\npermission:\n  bash:\n    \"cook *\": deny\n---\n",
    );
    place.await_events("config.reloaded", 1);
    remove(place.path().parent().unwrap());
    place.await_failure("is gone");
    is_clamped(&place);
    place.ask("builder", "cook rice").denied();
    fs::create_dir_all(place.agent("builder").parent().unwrap()).unwrap();
    put(&place.agent("builder"), "---\nname: builder\n---\n");
    place.write(RULES);
    place.await_no_failure();
    place.ask("builder", "ls").approved();
    // What changes in the new directory is seen as well.
    place.write(r#"{"permission": {"bash": {"ls": "deny"}}}"#);
    place.await_events("config.reloaded", 3);
    place.ask("builder", "ls").denied();
}

#[test]
fn a_file_that_is_written_piece_by_piece_ends_as_it_is_whole() {
    use std::io::Write as _;
    let (place, _server) = serve();
    for round in 0..5 {
        let rules = format!(
            r#"{{"permission": {{"bash": {{"ls": "allow", "make {round}": "allow", "rm *": "deny"}}}}}}"#
        );
        let mut file = fs::File::create(place.path()).unwrap();
        for piece in rules.as_bytes().chunks(7) {
            file.write_all(piece).unwrap();
            file.flush().unwrap();
        }
        drop(file);
        let command = format!("make {round}");
        crate::support::spool::until("the new rules", || place.ask("scout", &command).code == 0);
        place.ask("scout", "rm x").denied();
    }
    assert_eq!(place.failure(), None);
}

#[test]
fn a_broken_file_that_is_broken_otherwise_is_said_anew_and_the_session_goes_on() {
    let (place, _server) = serve();
    place.write("{");
    place.await_failure("config.json:1:");
    place.write("{\"x\": 1}");
    place.await_failure("unknown key \"x\"");
    place.await_events("config.broken", 2);
    is_clamped(&place);
    is_mended(&place);
}

#[test]
fn nothing_in_a_broken_file_reaches_a_terminal_or_the_log_unescaped() {
    let (place, mut server) = serve();
    place.write("{\"a\\u001b[31mb\\u202e\": 1, \"\u{1b}]0;x\u{7}\": 2}");
    place.await_failure("config.json:1:");
    let (_, stdout, _) = run(place.spool.relay().arg("status"));
    let (_, checked, _) = run(place.relay().args(["config", "check"]));
    server.stop();
    for text in [stdout, checked, server.running.stderr()] {
        assert!(!text.contains(['\u{1b}', '\u{7}', '\u{202e}']), "{text:?}");
    }
}

#[test]
fn a_session_does_not_start_on_what_cannot_be_used() {
    let place = Configured::new(RULES);
    for text in ["", "{", "{\"permision\": {}}", "[]"] {
        place.write(text);
        let (code, _, stderr) = run(place.relay().args(["serve", "--session", "P"]));
        assert_eq!(code, 2, "{text:?}: {stderr}");
    }
    remove(&place.path());
    symlink("/nowhere", place.path()).unwrap();
    let (code, _, stderr) = run(place.relay().args(["serve", "--session", "P"]));
    assert_ne!(code, 0, "{stderr}");
}

#[test]
fn a_project_that_is_swapped_removed_or_linked_away_keeps_what_was_trusted() {
    let place = Configured::new(r#"{"permission": {"bash": {"ls": "allow"}}}"#);
    let config = place.of_project(".askrelay/config.json");
    let rules = r#"{"permission": {"bash": {"make *": "allow", "rm *": "deny"}}}"#;
    put(&config, rules);
    place.trust();
    let _server = place.headless();
    let elsewhere = place.spool.below("elsewhere.json");
    fs::write(&elsewhere, MORE).unwrap();
    let holds = || {
        place.await_failure("is not as it was trusted");
        place.ask("scout", "rm x").denied();
        place.ask("scout", "make all").approved();
        place.ask("scout", "brew tea").unruled();
    };
    let mend = || {
        fs::create_dir_all(config.parent().unwrap()).unwrap();
        remove_if_there(&config);
        put(&config, rules);
        place.await_no_failure();
    };
    overwrite(&config, MORE);
    holds();
    mend();
    remove(&config);
    holds();
    mend();
    remove(&config);
    symlink(&elsewhere, &config).unwrap();
    holds();
    mend();
    remove(&place.of_project(".askrelay"));
    holds();
    mend();
    // An agent that was not there when somebody looked counts for nothing.
    fs::create_dir_all(place.of_project(".askrelay/agents")).unwrap();
    put(
        &place.of_project(".askrelay/agents/scout.md"),
        "---\npermission:\n  bash:\n    \"brew *\": allow\n---\n",
    );
    holds();
    remove(&place.of_project(".askrelay/agents/scout.md"));
    place.await_no_failure();
    // A record of trust that nobody can read trusts nothing new, and takes nothing away.
    let trusted = place.spool.below("state/askrelay/trusted");
    let record = fs::read_dir(&trusted)
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    overwrite(&record, "{");
    holds();
}

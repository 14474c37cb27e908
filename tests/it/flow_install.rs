//! Putting askrelay in charge of an agent and taking it out again, as a person does it: what is written into which file, what is
//! refused, and what is said.
#![expect(
    clippy::disallowed_methods,
    reason = "tests play the agents, whose configurations are files"
)]

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::support::fixtures;
use crate::support::processes::run;
use crate::support::screen::OnScreen;
use crate::support::spool::TestSpool;

/// A home directory with agents in it, and a program to put into their configurations.
struct Home {
    spool: TestSpool,
    program: PathBuf,
}

impl Home {
    fn new() -> Self {
        let spool = TestSpool::new();
        let program = spool.below("bin/askrelay");
        write(&program, "#!/bin/sh\n");
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        Self { spool, program }
    }

    fn at(&self, relative: &str) -> PathBuf {
        self.spool.below("home").join(relative)
    }

    /// Where the agent reads its hooks.
    fn file(&self, host: &str) -> PathBuf {
        self.at(match host {
            "claude-code" => ".claude/settings.json",
            "codex" => ".codex/hooks.json",
            "gemini" => ".gemini/settings.json",
            _ => unreachable!("{host}"),
        })
    }

    fn install(&self, host: &str) -> Command {
        let mut command = self.spool.relay();
        command
            .args(["install", host, "--program"])
            .arg(&self.program);
        command
    }

    /// Installs, and gives what was said.
    #[track_caller]
    fn installed(&self, host: &str) -> String {
        done(self.install(host).arg("--yes"))
    }

    fn uninstall(&self, host: &str) -> Command {
        let mut command = self.spool.relay();
        command.args(["uninstall", host]);
        command
    }

    #[track_caller]
    fn uninstalled(&self, host: &str) -> String {
        done(self.uninstall(host).arg("--yes"))
    }

    #[track_caller]
    fn read(&self, host: &str) -> Value {
        serde_json::from_str(&text(&self.file(host))).unwrap()
    }
}

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

#[track_caller]
fn text(path: &Path) -> String {
    fs::read_to_string(path).unwrap()
}

/// Output and errors of a command that works.
#[track_caller]
fn done(command: &mut Command) -> String {
    let (code, stdout, stderr) = run(command);
    assert_eq!(code, 0, "{stdout}{stderr}");
    format!("{stdout}{stderr}")
}

/// What a command says that refuses, having changed nothing of `path`.
#[track_caller]
fn refused(command: &mut Command) -> String {
    let (code, stdout, stderr) = run(command);
    assert!(matches!(code, 2 | 3), "{code} {stdout}{stderr}");
    assert!(stderr.contains("hint: "), "{stderr}");
    stderr
}

#[test]
fn each_recorded_configuration_is_edited_as_recorded_and_restored_to_the_byte() {
    let mut count = 0;
    for path in fixtures::files_below("fixtures/hosts/config") {
        let Some(name) = path.strip_suffix(".before.json") else {
            continue;
        };
        let host = name.split('/').nth_back(1).unwrap();
        let home = Home::new();
        let file = home.file(host);
        let before = fixtures::text(&path);
        let program = home.program.to_str().unwrap();
        let after = fixtures::text(&format!("{name}.after.json")).replace("@PROGRAM@", program);
        write(&file, &before);
        let said = home.installed(host);
        assert_eq!(text(&file), after, "{name}");
        assert!(said.contains("next: "), "{said}");
        let again = home.installed(host);
        assert!(
            again.contains("is as it should be; nothing was changed"),
            "{again}"
        );
        assert_eq!(text(&file), after, "{name}");
        home.uninstalled(host);
        assert_eq!(text(&file), before, "{name}");
        let none = home.uninstalled(host);
        assert!(none.contains("there is nothing of askrelay in"), "{none}");
        count += 1;
    }
    assert!(count >= 6, "{count}");
}

#[test]
fn nothing_is_written_before_a_person_has_seen_it_and_said_yes() {
    let home = Home::new();
    let file = home.file("claude-code");
    write(&file, "{}\n");
    // Nobody is there.
    let refusal = refused(&mut home.install("claude-code"));
    assert!(
        refusal.contains("repeat the command with --yes"),
        "{refusal}"
    );
    for (answer, code) in [("n\r", 1), ("\r", 1), ("y\r", 0)] {
        assert_eq!(text(&file), "{}\n");
        let mut terminal = OnScreen::start(&home.install("claude-code"), 200, 120);
        let shown = terminal.await_text("write this? [y/N]");
        assert!(shown.contains("+    \"PreToolUse\": ["), "{shown}");
        terminal.send(answer);
        assert_eq!(terminal.exit_code(), code, "{answer:?}");
    }
    assert!(text(&file).contains("\"onFailure\": \"block\""));
}

#[test]
fn a_dry_run_shows_the_diff_and_writes_nothing() {
    let home = Home::new();
    let said = done(home.install("codex").arg("--dry-run"));
    assert!(said.starts_with("--- /dev/null\n+++ "), "{said}");
    assert!(said.contains("nothing was changed (--dry-run)"), "{said}");
    assert!(!home.at(".codex").exists());
    assert!(!home.spool.below("state").exists());
    let said = done(home.install("codex").args(["--dry-run", "--json"]));
    let json: Value = serde_json::from_str(said.lines().next().unwrap()).unwrap();
    assert_eq!(json["written"], false);
    assert_eq!(json["files"][0]["change"], "create");
    assert_eq!(
        json["files"][0]["path"],
        home.file("codex").to_str().unwrap()
    );
}

#[test]
fn an_install_from_another_place_is_brought_up_to_date_and_the_backup_stays_the_first_one() {
    let mut home = Home::new();
    let file = home.file("gemini");
    write(&file, "{ \"ui\": {} }\n");
    home.installed("gemini");
    let moved = home.spool.below("my bin/it's \"here\"/askrelay");
    fs::create_dir_all(moved.parent().unwrap()).unwrap();
    fs::copy(&home.program, &moved).unwrap();
    home.program = moved;
    home.installed("gemini");
    let hooks = &home.read("gemini")["hooks"]["BeforeTool"];
    assert_eq!(hooks.as_array().unwrap().len(), 1);
    let command = hooks[0]["hooks"][0]["command"].as_str().unwrap();
    assert!(
        command.contains("/my bin/it'\\''s \"here\"/askrelay' hook gemini "),
        "{command}"
    );
    home.uninstalled("gemini");
    assert_eq!(text(&file), "{ \"ui\": {} }\n");
}

#[test]
fn what_was_edited_since_stays_and_our_entries_alone_go() {
    let home = Home::new();
    let file = home.file("claude-code");
    write(&file, "{\n  \"model\": \"opus\"\n}\n");
    home.installed("claude-code");
    let edited = text(&file).replace("opus", "haiku");
    write(&file, &edited);
    home.uninstalled("claude-code");
    assert_eq!(text(&file), "{\n  \"model\": \"haiku\"\n}\n");
    // An update of what was edited keeps what it would leave as the backup.
    home.installed("claude-code");
    write(&file, &text(&file).replace("haiku", "sonnet"));
    fs::write(&home.program, "#!/bin/sh\nexit 1\n").unwrap();
    let moved = home.spool.below("bin-2/askrelay");
    fs::create_dir(moved.parent().unwrap()).unwrap();
    fs::copy(&home.program, &moved).unwrap();
    let moved = Home {
        program: moved,
        ..home
    };
    moved.installed("claude-code");
    moved.uninstalled("claude-code");
    assert_eq!(
        text(&moved.file("claude-code")),
        "{\n  \"model\": \"sonnet\"\n}\n"
    );
}

#[test]
fn a_file_that_was_not_there_is_gone_again_with_the_directories_made_for_it() {
    let home = Home::new();
    let said = home.installed("codex");
    assert!(said.contains("there is no codex on PATH"), "{said}");
    let file = home.file("codex");
    assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
    home.uninstalled("codex");
    assert!(!home.at(".codex").exists());
    // What somebody put beside it stays.
    home.installed("codex");
    write(&home.at(".codex/config.toml"), "model = \"m\"\n");
    home.uninstalled("codex");
    assert!(!file.exists() && home.at(".codex/config.toml").exists());
}

#[test]
fn a_configuration_that_is_not_understood_is_left_alone_and_the_place_is_said() {
    for (host, config, place) in [
        (
            "claude-code",
            "{\n  \"model\": \"opus\",\n}\n",
            "settings.json:3:1: expected a key",
        ),
        (
            "claude-code",
            "{\n  // mine\n}\n",
            "settings.json:2:3: a comment stands here",
        ),
        (
            "codex",
            "{\"hooks\": []}",
            "hooks.json:1:11: \"hooks\" is an array",
        ),
        ("gemini", "{\"hooks\"", "settings.json:1:9: expected ':'"),
    ] {
        let home = Home::new();
        let file = home.file(host);
        write(&file, config);
        for command in [&mut home.install(host), &mut home.uninstall(host)] {
            let refusal = refused(command.arg("--yes"));
            assert!(refusal.contains(place), "{refusal}");
        }
        assert_eq!(text(&file), config);
        assert!(!home.spool.below("state").exists());
    }
}

#[test]
fn what_is_no_file_or_not_to_be_written_is_refused() {
    let home = Home::new();
    let file = home.file("claude-code");
    let refusal = |wanted: &str| {
        let refusal = refused(home.install("claude-code").arg("--yes"));
        assert!(refusal.contains(wanted), "{refusal}");
    };
    fs::create_dir_all(&file).unwrap();
    refusal("is not a regular file");
    fs::remove_dir(&file).unwrap();
    write(&file, "{}");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o444)).unwrap();
    refusal("is read-only (mode 0444)");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    write(&file, &format!("{{}}{}", " ".repeat(4 << 20)));
    refusal("is larger than 4194304 bytes");
    fs::write(&file, b"{\"a\": \"\xff\"}").unwrap();
    refusal("is not UTF-8");
    fs::remove_file(&file).unwrap();
    symlink("nowhere", &file).unwrap();
    refusal("is a symbolic link that leads nowhere");
}

#[test]
fn a_link_is_followed_and_said_and_stays_a_link() {
    let home = Home::new();
    let file = home.file("claude-code");
    let real = home.at("dotfiles/claude.json");
    write(&real, "{}\n");
    fs::set_permissions(&real, fs::Permissions::from_mode(0o640)).unwrap();
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    symlink("../dotfiles/claude.json", &file).unwrap();
    let said = home.installed("claude-code");
    assert!(
        said.contains("is a symbolic link: the file that it leads to is written"),
        "{said}"
    );
    assert!(fs::symlink_metadata(&file).unwrap().is_symlink());
    assert!(text(&real).contains("PreToolUse"));
    assert_eq!(fs::metadata(&real).unwrap().mode() & 0o777, 0o640);
    home.uninstalled("claude-code");
    assert!(fs::symlink_metadata(&file).unwrap().is_symlink());
    assert_eq!(text(&real), "{}\n");
}

#[test]
fn a_file_of_somebody_else_keeps_its_owner_where_the_machine_lets_it() {
    let home = Home::new();
    let file = home.file("claude-code");
    write(&file, "{}\n");
    // Only root can give a file away.
    if std::os::unix::fs::chown(&file, Some(4711), Some(4712)).is_err() {
        return;
    }
    home.installed("claude-code");
    let facts = fs::metadata(&file).unwrap();
    assert_eq!((facts.uid(), facts.gid()), (4711, 4712));
}

#[test]
fn settings_that_switch_hooks_off_are_named_with_their_file() {
    for (host, file, config, wanted) in [
        (
            "claude-code",
            ".claude/settings.json",
            "{\"disableAllHooks\": true}",
            "\"disableAllHooks\": true",
        ),
        (
            "codex",
            ".codex/config.toml",
            "[features]\nhooks = false\n",
            "[features] hooks = false",
        ),
        (
            "gemini",
            ".gemini/settings.json",
            "{\"hooksConfig\": {\"enabled\": false}}",
            "\"enabled\": false",
        ),
    ] {
        let home = Home::new();
        write(&home.at(file), config);
        let said = home.installed(host);
        assert!(said.contains("warning: hooks do not run, for "), "{said}");
        assert!(said.contains(file) && said.contains(wanted), "{said}");
    }
}

#[test]
fn what_codex_does_not_trust_is_said_and_trust_is_recorded_only_when_asked_to() {
    let home = Home::new();
    let config = home.at(".codex/config.toml");
    let before = "# mine\nmodel = \"m\"\n\n[features]\nhooks = true # on";
    write(&config, before);
    let said = home.installed("codex");
    assert!(
        said.contains("type /hooks, and trust both entries of askrelay"),
        "{said}"
    );
    assert_eq!(text(&config), before);
    let said = done(home.install("codex").args(["--yes", "--trust"]));
    assert!(!said.contains("type /hooks"), "{said}");
    let trusted = text(&config);
    let added = trusted.strip_prefix(before).unwrap();
    let real = home.at(".codex").canonicalize().unwrap();
    for event in ["pre_tool_use", "permission_request"] {
        let key = format!(
            "[hooks.state.\"{}/hooks.json:{event}:0:0\"]\ntrusted_hash = \"sha256:",
            real.display()
        );
        assert!(added.contains(&key), "{added}");
    }
    let again = done(home.install("codex").args(["--yes", "--trust"]));
    assert!(again.contains("nothing was changed"), "{again}");
    // Codex writes this file as well.
    write(&config, &trusted.replace("model = \"m\"", "model = \"n\""));
    home.uninstalled("codex");
    assert_eq!(
        text(&config),
        format!("{}\n", before.replace("\"m\"", "\"n\""))
    );
    assert!(!home.file("codex").exists());
    // Where it did not, every byte comes back.
    write(&config, before);
    done(home.install("codex").args(["--yes", "--trust"]));
    home.uninstalled("codex");
    assert_eq!(text(&config), before);
}

#[test]
fn trust_that_cannot_be_recorded_keeps_everything_from_being_written() {
    let home = Home::new();
    for config in ["hooks = {}\n", "hooks = \n"] {
        write(&home.at(".codex/config.toml"), config);
        refused(home.install("codex").args(["--yes", "--trust"]));
        assert_eq!(text(&home.at(".codex/config.toml")), config);
        assert!(!home.file("codex").exists());
    }
    let refusal = refused(home.install("gemini").args(["--yes", "--trust"]));
    assert!(
        refusal.contains("Gemini CLI has no trust in single hooks"),
        "{refusal}"
    );
}

#[test]
fn a_project_that_is_named_is_the_only_one_that_is_written() {
    let home = Home::new();
    let project = home.spool.below("project");
    fs::create_dir(&project).unwrap();
    for (host, file) in [
        ("claude-code", ".claude/settings.local.json"),
        ("codex", ".codex/hooks.json"),
        ("gemini", ".gemini/settings.json"),
    ] {
        let said = done(
            home.install(host)
                .arg("--yes")
                .arg("--project")
                .arg(&project),
        );
        let written = text(&project.join(file));
        assert!(
            written.contains("askrelay") && written.contains(host),
            "{written}"
        );
        assert!(!home.file(host).exists());
        if host == "codex" {
            assert!(said.contains("and trust the directory"), "{said}");
        }
        done(
            home.uninstall(host)
                .arg("--yes")
                .arg("--project")
                .arg(&project),
        );
        assert!(!project.join(file).exists());
    }
    assert_eq!(fs::read_dir(&project).unwrap().count(), 0);
}

#[test]
fn the_directories_that_agents_are_told_by_their_variables_are_used() {
    for (host, variable, file) in [
        ("claude-code", "CLAUDE_CONFIG_DIR", "settings.json"),
        ("codex", "CODEX_HOME", "hooks.json"),
        ("gemini", "GEMINI_CLI_HOME", ".gemini/settings.json"),
    ] {
        let home = Home::new();
        let elsewhere = home.spool.below("else where");
        done(home.install(host).arg("--yes").env(variable, &elsewhere));
        assert!(elsewhere.join(file).exists());
        assert!(!home.file(host).exists());
    }
}

#[test]
fn more_than_one_program_of_the_agent_and_one_that_will_not_stay_are_said() {
    let home = Home::new();
    let path = ["a", "b"].map(|name| home.spool.below(name));
    for directory in &path {
        fs::create_dir(directory).unwrap();
        fs::copy(&home.program, directory.join("claude")).unwrap();
    }
    let path = std::env::join_paths(&path).unwrap();
    let said = done(
        home.install("claude-code")
            .arg("--dry-run")
            .env("PATH", path),
    );
    assert!(
        said.contains("there is more than one claude on PATH: "),
        "{said}"
    );
    assert!(said.contains("/a/claude is started, not "), "{said}");
    // The program of the tests lies where it was built.
    let said = done(
        home.spool
            .relay()
            .args(["install", "claude-code", "--dry-run"]),
    );
    assert!(said.contains("lies in a build directory"), "{said}");
    let refusal =
        refused(
            home.spool
                .relay()
                .args(["install", "claude-code", "--program", "/nothing/there"]),
        );
    assert!(refusal.contains("is no program"), "{refusal}");
}

#[test]
fn a_host_with_a_plugin_of_ours_gets_one_file_and_loses_it_again() {
    for (host, file) in [
        ("opencode", ".config/opencode/plugins/askrelay.js"),
        ("pi", ".pi/agent/extensions/askrelay.ts"),
    ] {
        let mut home = Home::new();
        let file = home.at(file);
        // What others put there is not written over.
        write(&file, "export default 1;\n");
        let install = |home: &Home| {
            let mut install = home.install(host);
            install.arg("--yes").env_remove("XDG_CONFIG_HOME");
            install
        };
        let refusal = refused(&mut install(&home));
        assert!(refusal.contains("is not of askrelay"), "{refusal}");
        assert_eq!(text(&file), "export default 1;\n");
        fs::remove_file(&file).unwrap();
        done(&mut install(&home));
        let line = format!("const INSTALLED = \"{}\";", home.program.display());
        assert!(
            text(&file).lines().any(|other| other == line),
            "{}",
            text(&file)
        );
        let again = done(&mut install(&home));
        assert!(
            again.contains("is as it should be; nothing was changed"),
            "{again}"
        );
        // An older one is brought up to date.
        let moved = home.spool.below("bin-2/askrelay");
        fs::create_dir(moved.parent().unwrap()).unwrap();
        fs::copy(&home.program, &moved).unwrap();
        home.program = moved;
        done(&mut install(&home));
        assert!(text(&file).contains("/bin-2/askrelay\";"));
        let removed = done(
            home.uninstall(host)
                .arg("--yes")
                .env_remove("XDG_CONFIG_HOME"),
        );
        assert!(removed.contains("removed "), "{removed}");
        assert!(!file.exists());
    }
}

#[test]
fn trust_in_the_hooks_of_one_scope_is_not_taken_back_with_the_other() {
    let home = Home::new();
    let config = home.at(".codex/config.toml");
    let before = "model = \"m\"\n";
    write(&config, before);
    let project = home.spool.below("project");
    fs::create_dir(&project).unwrap();
    done(home.install("codex").args(["--yes", "--trust"]));
    let of_user = text(&config);
    let in_project = |mut command: Command| {
        command.arg("--yes").arg("--project").arg(&project);
        command
    };
    done(in_project(home.install("codex")).arg("--trust"));
    assert_eq!(text(&config).matches("trusted_hash").count(), 4);
    done(&mut in_project(home.uninstall("codex")));
    assert_eq!(text(&config), of_user);
    home.uninstalled("codex");
    assert_eq!(text(&config), before);
}

#[test]
fn trust_of_two_scopes_is_taken_back_in_either_order() {
    let home = Home::new();
    let config = home.at(".codex/config.toml");
    let project = home.spool.below("project");
    fs::create_dir(&project).unwrap();
    let in_project = |mut command: Command| {
        command.arg("--yes").arg("--project").arg(&project);
        command
    };
    done(home.install("codex").args(["--yes", "--trust"]));
    done(in_project(home.install("codex")).arg("--trust"));
    home.uninstalled("codex");
    let left = text(&config);
    assert_eq!(left.matches("trusted_hash").count(), 2);
    assert_eq!(
        left.matches("/project/.codex/hooks.json:").count(),
        2,
        "{left}"
    );
    done(&mut in_project(home.uninstall("codex")));
    assert!(!config.exists());
}

/// The one backup that is kept.
#[track_caller]
fn backup(home: &Home) -> PathBuf {
    let kept = fs::read_dir(home.spool.below("state/askrelay/installed")).unwrap();
    let kept = kept.map(|entry| entry.unwrap().path());
    let mut kept: Vec<PathBuf> = kept
        .filter(|path| path.extension().is_some_and(|end| end == "before"))
        .collect();
    assert_eq!(kept.len(), 1);
    kept.remove(0)
}

#[test]
fn a_backup_that_is_not_what_was_kept_is_not_given_back() {
    for spoil in [
        |backup: &Path| fs::write(backup, "").unwrap(),
        |backup: &Path| fs::write(backup, "GARBAGE").unwrap(),
        |backup: &Path| fs::remove_file(backup).unwrap(),
        |backup: &Path| fs::set_permissions(backup, fs::Permissions::from_mode(0o666)).unwrap(),
    ] {
        let home = Home::new();
        let file = home.file("claude-code");
        write(&file, "{\n  \"model\": \"opus\"\n}\n");
        home.installed("claude-code");
        spoil(&backup(&home));
        let said = home.uninstalled("claude-code");
        assert!(said.contains("the backup is not what was kept"), "{said}");
        assert_eq!(text(&file), "{\n  \"model\": \"opus\"\n}\n");
    }
}

#[test]
fn what_somebody_made_of_our_entry_is_in_the_backup() {
    let home = Home::new();
    let file = home.file("claude-code");
    home.installed("claude-code");
    let edited = text(&file).replace("86400,", "300,");
    write(&file, &edited);
    home.installed("claude-code");
    assert_eq!(text(&backup(&home)), edited);
    home.uninstalled("claude-code");
    assert_eq!(text(&file).trim(), "{}");
    let home = Home::new();
    let shim = home.spool.below("config/opencode/plugins/askrelay.js");
    home.installed("opencode");
    let edited = format!("{}// mine\n", text(&shim));
    write(&shim, &edited);
    home.installed("opencode");
    assert_eq!(text(&backup(&home)), edited);
}

#[test]
fn installs_at_the_same_time_leave_one_record_that_takes_everything_back() {
    for _ in 0..4 {
        let home = Home::new();
        let children: Vec<_> = (0..3)
            .map(|_| {
                let mut install = home.install("claude-code");
                install.arg("--yes").stdout(std::process::Stdio::null());
                install.stderr(std::process::Stdio::null()).spawn().unwrap()
            })
            .collect();
        let codes = children
            .into_iter()
            .map(|mut child| child.wait().unwrap().code().unwrap());
        assert!(codes.collect::<Vec<_>>().contains(&0));
        home.uninstalled("claude-code");
        assert!(!home.at(".claude").exists());
    }
}

#[test]
fn a_program_that_would_not_be_known_again_is_refused() {
    let home = Home::new();
    let other = home.spool.below("bin/askrelay-2");
    fs::copy(&home.program, &other).unwrap();
    let mut install = home.spool.relay();
    install.args(["install", "codex", "--yes", "--program"]);
    let said = refused(install.arg(&other));
    assert!(said.contains("is not called askrelay"), "{said}");
}

#[test]
fn an_option_that_would_be_ignored_is_refused() {
    let home = Home::new();
    for option in [
        &["--spool", "/shared"][..],
        &["--config", "c.json"],
        &["--log", "l.jsonl"],
        &["--no-project"],
    ] {
        let said = refused(home.install("gemini").arg("--yes").args(option));
        assert!(said.contains(option[0]), "{said}");
        let said = refused(
            home.spool
                .relay()
                .args(option)
                .args(["uninstall", "gemini"]),
        );
        assert!(said.contains(option[0]), "{said}");
    }
    assert!(!home.at(".gemini").exists());
    let help = done(home.spool.relay().args(["install", "--help"]));
    assert!(!help.contains("--spool"), "{help}");
    assert!(
        help.contains("[default: for you, wherever you start the agent]"),
        "{help}"
    );
}

#[test]
fn what_is_written_as_json_is_shown_before_a_person_says_yes() {
    let home = Home::new();
    let mut install = home.install("gemini");
    let mut terminal = OnScreen::start(install.arg("--json"), 200, 120);
    let shown = terminal.await_text("write this? [y/N]");
    assert!(shown.contains("+    \"BeforeTool\": ["), "{shown}");
    terminal.send("n\r");
    assert_eq!(terminal.exit_code(), 1);
    assert!(!home.at(".gemini").exists());
}

/// The one file that is kept beside the records.
#[track_caller]
fn kept(home: &Home) -> String {
    let all = fs::read_dir(home.spool.below("state/askrelay/installed")).unwrap();
    let all: Vec<PathBuf> = all.map(|entry| entry.unwrap().path()).collect();
    assert_eq!(all.len(), 1, "{all:?}");
    assert!(all[0].extension().is_some_and(|end| end == "kept"));
    text(&all[0])
}

#[test]
fn what_somebody_made_of_a_file_of_ours_outlives_an_uninstall() {
    let home = Home::new();
    let shim = home.spool.below("config/opencode/plugins/askrelay.js");
    // Edited, and taken out.
    home.installed("opencode");
    let edited = format!("{}// mine\n", text(&shim));
    write(&shim, &edited);
    let said = home.uninstalled("opencode");
    assert!(said.contains("is kept in "), "{said}");
    assert!(!shim.exists());
    assert_eq!(kept(&home), edited);
    // Edited, written over, and taken out.
    let home = Home::new();
    let shim = home.spool.below("config/opencode/plugins/askrelay.js");
    home.installed("opencode");
    write(&shim, &edited);
    home.installed("opencode");
    home.uninstalled("opencode");
    assert_eq!(kept(&home), edited);
    // The same in a file of others.
    let home = Home::new();
    home.installed("claude-code");
    let edited = text(&home.file("claude-code")).replace("86400,", "300,");
    write(&home.file("claude-code"), &edited);
    home.installed("claude-code");
    home.uninstalled("claude-code");
    assert_eq!(kept(&home), edited);
    // As it was written, there is nothing to keep.
    let home = Home::new();
    let said = home.installed("opencode") + &home.uninstalled("opencode");
    assert!(!said.contains("is kept in "), "{said}");
}

#[test]
fn an_update_that_did_not_come_about_forgets_nothing_of_the_first() {
    let mut home = Home::new();
    home.installed("codex");
    let first = text(&home.file("codex"));
    let moved = home.spool.below("bin-2/askrelay");
    fs::create_dir(moved.parent().unwrap()).unwrap();
    fs::copy(&home.program, &moved).unwrap();
    home.program = moved;
    home.installed("codex");
    // As a crash between the record and the file leaves it.
    write(&home.file("codex"), &first);
    home.uninstalled("codex");
    assert!(!home.at(".codex").exists());
}

#[test]
fn a_program_whose_path_gemini_would_read_otherwise_is_refused() {
    let mut home = Home::new();
    let moved = home.spool.below("bin-$HOME/askrelay");
    fs::create_dir(moved.parent().unwrap()).unwrap();
    fs::copy(&home.program, &moved).unwrap();
    home.program = moved;
    let said = refused(home.install("gemini").arg("--yes"));
    assert!(said.contains("puts a variable in the place"), "{said}");
    home.installed("claude-code");
}

#[test]
fn what_is_different_in_a_project_is_said() {
    let home = Home::new();
    let project = home.spool.below("project");
    fs::create_dir(&project).unwrap();
    for (host, is_shared, trust) in [
        ("claude-code", false, "start claude in "),
        ("codex", true, "start codex in "),
        ("gemini", true, "start gemini in "),
        ("opencode", true, "doctor opencode --project "),
        ("pi", true, "start pi in "),
    ] {
        let mut install = home.install(host);
        let said = done(install.arg("--dry-run").arg("--project").arg(&project));
        assert_eq!(said.contains("keep it out of what you commit"), is_shared);
        assert!(
            said.contains(&format!("next: {trust}")) || said.contains(trust),
            "{said}"
        );
        assert!(said.contains("/project --live`"), "{said}");
    }
}

#[test]
fn a_word_that_an_agent_may_not_know_is_said_and_does_not_stop_it() {
    let home = Home::new();
    let config = "{\"permissions\": {\"defaultMode\": \"yolo\"}}";
    write(&home.file("claude-code"), config);
    let said = home.installed("claude-code");
    assert!(
        said.contains("settings.json:1:33: \"permissions.defaultMode\" is \"yolo\""),
        "{said}"
    );
    assert!(
        said.contains("may take no notice of the whole file"),
        "{said}"
    );
}

#[test]
fn a_read_only_file_is_shown_as_it_would_be() {
    let home = Home::new();
    let file = home.file("gemini");
    write(&file, "{}\n");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o444)).unwrap();
    let said = done(home.install("gemini").arg("--dry-run"));
    assert!(said.contains("+    \"BeforeTool\": ["), "{said}");
}

#[test]
fn a_file_of_root_or_one_that_cannot_be_read_is_refused_with_what_to_do() {
    use std::os::unix::process::CommandExt as _;
    const OTHER: u32 = 4711;
    let home = Home::new();
    let file = home.file("claude-code");
    write(&file, "{}\n");
    fs::create_dir_all(home.spool.work()).unwrap();
    // Only root can be somebody else.
    if std::os::unix::fs::chown(home.at(""), Some(OTHER), None).is_err() {
        return;
    }
    for (mode, wanted, hint) in [
        (
            0o644,
            "belongs to user 0, not to this one",
            "have its owner give it to you",
        ),
        (0o600, "cannot open ", "check who owns the file"),
    ] {
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
        let mut install = home.install("claude-code");
        let Ok(ended) = install.arg("--yes").uid(OTHER).output() else {
            // The program of the tests lies where nobody else may look.
            return;
        };
        let stderr = String::from_utf8_lossy(&ended.stderr);
        assert!(!ended.status.success());
        assert!(stderr.contains(wanted) && stderr.contains(hint), "{stderr}");
        assert_eq!(text(&file), "{}\n");
    }
}

//! Hooks as their hosts start them: a process for each call, a serving session beside it, and an answer in the host's own words on
//! every path.

#![expect(
    clippy::disallowed_methods,
    reason = "looks at processes, and writes what nobody should"
)]

use std::path::Path;
use std::process::Command;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::grants::SUBAGENT;
use crate::support::judges::Chain;
use crate::support::processes::{Running, has_ended, run};
use crate::support::spool::{TestSpool, eventually, names, read_json, until};

/// What Claude Code hands to its hook before a call.
fn before(tool: &str, input: &Value) -> Value {
    json!({
        "session_id": "S", "cwd": "/srv/shop", "permission_mode": "default", "hook_event_name": "PreToolUse",
        "tool_name": tool, "tool_input": input, "tool_use_id": "toolu_1",
    })
}

/// What it hands over where it would ask a person.
fn permission(command: &str) -> Value {
    json!({
        "session_id": "S", "cwd": "/srv/shop", "permission_mode": "default", "hook_event_name": "PermissionRequest",
        "tool_name": "Bash", "tool_input": {"command": command, "description": "d"},
    })
}

/// The same call at an event that tells its id.
fn of_use(event: &str) -> Value {
    with(
        with(permission("make"), "hook_event_name", json!(event)),
        "tool_use_id",
        json!("toolu_1"),
    )
}

fn with(mut stdin: Value, key: &str, value: Value) -> Value {
    stdin[key] = value;
    stdin
}

/// A hook on its way.
struct Hook {
    running: Running,
}

/// How a hook ended.
struct Ended {
    code: i32,
    stdout: String,
    stderr: String,
}

impl Hook {
    fn start(command: &mut Command, stdin: &str) -> Self {
        let mut running = Running::start(command);
        running.write_line(stdin);
        running.close_stdin();
        Self { running }
    }

    #[track_caller]
    fn end(mut self) -> Ended {
        Ended {
            code: self.running.exit_code(),
            stdout: self.running.stdout(),
            stderr: self.running.stderr(),
        }
    }
}

impl Ended {
    fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or(Value::Null)
    }

    /// What the host is told about a call: allowed, denied with a reason, or nothing.
    fn verdict(&self) -> (&'static str, String) {
        let said = self.json();
        let specific = &said["hookSpecificOutput"];
        let behaviour = specific["permissionDecision"]
            .as_str()
            .or_else(|| specific["decision"]["behavior"].as_str())
            .or_else(|| said["decision"].as_str());
        let reason = [
            &specific["permissionDecisionReason"],
            &specific["decision"]["message"],
            &said["reason"],
        ];
        let reason = reason.iter().find_map(|reason| reason.as_str());
        let verdict = match behaviour {
            Some("allow") => "allow",
            Some("deny") => "deny",
            _ => "nothing",
        };
        (verdict, reason.unwrap_or_default().to_owned())
    }

    #[track_caller]
    fn allowed(&self) -> &Self {
        assert_eq!(
            (self.code, self.verdict().0),
            (0, "allow"),
            "{} {}",
            self.stdout,
            self.stderr
        );
        self
    }

    #[track_caller]
    fn denied(&self, because: &str) -> &Self {
        assert_eq!(
            (self.code, self.verdict().0),
            (0, "deny"),
            "{} {}",
            self.stdout,
            self.stderr
        );
        let (_, reason) = self.verdict();
        assert!(reason.contains(because), "{reason}");
        self
    }

    /// The host goes on as if there were no hook.
    #[track_caller]
    fn left(&self) -> &Self {
        assert_eq!(
            (self.code, self.stdout.as_str()),
            (0, ""),
            "{}",
            self.stderr
        );
        self
    }

    /// The host is told by the exit code.
    #[track_caller]
    fn refused(&self, because: &str) -> &Self {
        assert_eq!(
            (self.code, self.stdout.as_str()),
            (2, ""),
            "{}",
            self.stderr
        );
        assert!(self.stderr.contains(because), "{}", self.stderr);
        self
    }
}

impl TestSpool {
    fn hook_command(&self, host: &str) -> Command {
        let mut command = self.relay();
        command.args(["hook", host]);
        command
    }

    fn start_hook(&self, host: &str, stdin: &Value) -> Hook {
        Hook::start(&mut self.hook_command(host), &stdin.to_string())
    }

    #[track_caller]
    fn hook(&self, host: &str, stdin: &Value) -> Ended {
        self.start_hook(host, stdin).end()
    }

    #[track_caller]
    fn claude(&self, stdin: &Value) -> Ended {
        self.hook("claude-code", stdin)
    }

    /// Writes a file that has nothing to do with the spool.
    fn put_file(&self, path: &Path, text: &str) {
        self.put(path, text);
    }

    /// How many requests wait that are questions to somebody. Others come and go for a moment, for rules only.
    fn questions(&self, session: &str) -> usize {
        let waiting = self.waiting(session);
        let requests = waiting
            .iter()
            .filter_map(|id| read_json(&self.request_path(session, id)));
        requests
            .filter(|request| request["relay"]["rulesOnly"] != true)
            .count()
    }

    /// The request of a hook, as soon as it waits.
    fn await_hook(&self, session: &str) -> Value {
        eventually("the request of a hook", || {
            let waiting = self.waiting(session);
            let mut requests = waiting
                .iter()
                .filter(|id| id.starts_with("hook-"))
                .filter_map(|id| read_json(&self.request_path(session, id)));
            // Others come and go for a moment.
            requests.find(|request| {
                let surface = request["accessIntent"]["surface"].as_str();
                surface.is_some_and(|surface| {
                    ["bash", "outside_sandbox", "edit", "mcp"].contains(&surface)
                })
            })
        })
    }
}

fn bash(command: &str) -> Value {
    before("Bash", &json!({"command": command}))
}

#[test]
fn before_a_call_rules_decide_and_what_none_is_about_is_left_to_the_host() {
    let spool = TestSpool::new();
    let rules = json!({"bash": {"ls *": "allow", "rm *": {"action": "deny", "reason": "use the trash"}},
                       "path": {"*.env": "deny"}, "Teleport": "deny"});
    let _server = spool.serve_headless("main", &rules);
    spool.claude(&bash("ls -l")).allowed();
    spool.claude(&bash("rm -rf x")).denied("use the trash");
    spool.claude(&bash("make")).left();
    let ended = spool.claude(&bash("ls; sudo rm x"));
    ended.denied("use the trash");
    // Rules for paths hold against every tool that names one, and rules may name a tool as its host does.
    let read = |path: &str| before("Read", &json!({"file_path": path}));
    spool.claude(&read("/srv/shop/.env")).denied("*.env");
    spool.claude(&read("/srv/shop/a")).left();
    spool
        .claude(&before("Teleport", &json!({"to": "moon"})))
        .denied("Teleport");
    spool.claude(&before("Nobody", &json!({}))).left();
    // Of what was left there is no word in the log, and of what was decided there is.
    let log = spool.log();
    assert!(
        log.iter().all(|entry| entry["command"] != "make"),
        "{log:?}"
    );
    assert_eq!(spool.events("forwarded_permission.auto_approved").len(), 1);
    assert!(spool.waiting("main").is_empty());
}

#[test]
fn a_list_of_what_is_allowed_lets_through_what_it_names_and_denies_the_rest() {
    let spool = TestSpool::new();
    let rules = json!({"*": "deny", "bash": {"*": "deny", "touch ok*": "allow"}, "read": "allow"});
    let _server = spool.serve_headless("main", &rules);
    // The names of a call that no rule is about say nothing: what holds for everything else is judged once.
    spool.claude(&bash("touch ok-file")).allowed();
    spool.claude(&permission("touch ok-file")).allowed();
    let read = before("Read", &json!({"file_path": "/etc/passwd"}));
    spool.claude(&read).allowed();
    spool
        .claude(&bash("touch other"))
        .denied("Denied by the serving session's rule \"*\"");
    let write = before(
        "Write",
        &json!({"file_path": "/srv/shop/a", "content": "x"}),
    );
    spool
        .claude(&write)
        .denied("Denied by the serving session's rule");
    spool
        .claude(&before("Nobody", &json!({})))
        .denied("Denied by the serving session's rule");
    let log = spool.log();
    let denials = log
        .iter()
        .filter(|entry| entry["event"] == "forwarded_permission.auto_denied");
    assert_eq!(denials.count(), 3, "each once");
}

#[test]
fn where_the_host_would_ask_a_person_ours_is_asked_and_the_reason_reaches_the_model() {
    let spool = TestSpool::new();
    let mut server = spool.serve_select("main", &json!({}));
    let hook = spool.start_hook("claude-code", &permission("make"));
    server.answer("make", "Yes");
    hook.end().allowed();
    let hook = spool.start_hook("claude-code", &permission("make"));
    server.answer("make", "No, provide reason");
    assert!(server.question().text.contains("Reason"));
    server.running.write_line("not on a Friday");
    hook.end().denied("Denied by the user in session main: \"bash\" for agent claude-code. Reason: not on a Friday");
}

#[test]
fn a_rule_that_asks_has_a_person_asked_before_the_call() {
    let spool = TestSpool::new();
    let mut server = spool.serve_select(
        "main",
        &json!({"bash": {"git push*": "ask"}, "path_write": {"/etc/*": "ask"}}),
    );
    let hook = spool.start_hook("claude-code", &bash("git push"));
    server.answer("git push", "Yes");
    hook.end().allowed();
    // Who was asked about the path is not asked about the tool as well.
    let write = before("Write", &json!({"file_path": "/etc/motd", "content": "x"}));
    let hook = spool.start_hook("claude-code", &write);
    server.answer("/etc/motd", "Yes");
    hook.end().allowed();
}

#[test]
fn a_yes_about_one_name_of_a_call_goes_past_no_rule_that_denies_it_by_another() {
    let spool = TestSpool::new();
    let rules = json!({
        "path_write": {"/etc/*": "ask"}, "write": {"/etc/motd": "deny"}, "edit": "deny",
        "Bash": {"*": "ask"}, "bash": {"rm *": "deny"},
    });
    let mut server = spool.serve_select("main", &rules);
    // Nobody is asked for a yes that would not count.
    let write = before("Write", &json!({"file_path": "/etc/motd", "content": "x"}));
    spool.claude(&write).denied("rule");
    spool.claude(&bash("rm -rf x")).denied("rule");
    // What was granted for the path is no leave to edit it.
    let write = before("Write", &json!({"file_path": "/etc/issue", "content": "x"}));
    let hook = spool.start_hook("claude-code", &write);
    let question = server.question();
    server.choose(&question, "Yes, for this session");
    let scope = server.question();
    server.choose(&scope, SUBAGENT);
    hook.end().allowed();
    spool.claude(&write).allowed();
    let edit = before(
        "Edit",
        &json!({"file_path": "/etc/issue", "old_string": "a", "new_string": "b"}),
    );
    spool.claude(&edit).denied("rule");
}

#[test]
fn rules_hold_for_the_path_the_command_and_the_server_that_a_call_really_has() {
    let spool = TestSpool::new();
    let rules = json!({
        "*": "allow",
        "write": {"*": "deny", "ok/*": "allow"},
        "bash": {"*": "allow", "rm *": "deny"},
        "find": {"*": "allow", "/etc*": "deny"},
        "mcp": {"*": "allow", "*:delete*": "deny", "a__b:*": "deny", "my_srv_x:close": "deny"},
    });
    let _server = spool.serve_select("main", &rules);
    let gemini = |input: Value| {
        let stdin = before("write_file", &input);
        let stdin = with(stdin, "hook_event_name", json!("BeforeTool"));
        spool.hook("gemini", &stdin)
    };
    gemini(json!({"path": "ok/x", "file_path": "evil.txt", "content": "x"})).denied("rule");
    gemini(json!({"file_path": "ok/x", "path": "evil.txt", "content": "x"})).denied("rule");
    gemini(json!({"file_path": "ok/x", "content": "x"})).allowed();
    for (tool, input) in [
        ("Monitor", json!({"command": "rm -rf x"})),
        ("Bash", json!({"command": ["rm", "-rf", "x"]})),
        ("Glob", json!({"pattern": "/etc/**"})),
        ("mcp__a__b__wipe", json!({})),
    ] {
        spool.claude(&before(tool, &input)).denied("rule");
    }
    let server = json!({"name": "my.srv x"});
    for tool in ["mcp__my_srv_x__delete_x", "mcp__my_srv_x__close"] {
        let call = with(before(tool, &json!({})), "mcp_server", server.clone());
        spool.claude(&call).denied("rule");
    }
}

#[test]
fn what_could_mean_more_than_one_thing_is_asked_whatever_rules_allow() {
    let spool = TestSpool::new();
    let mut server = spool.serve_select("main", &json!({"*": "allow", "write": "allow"}));
    for (tool, input) in [
        (
            "Write",
            json!({"file_path": "a", "path": "b", "content": "x"}),
        ),
        ("mcp__a__b__wipe", json!({})),
        ("Bash", json!({"command": 7})),
    ] {
        let hook = spool.start_hook("claude-code", &before(tool, &input));
        let question = server.question();
        server.choose(&question, "No");
        hook.end().denied("Denied by the user");
    }
    spool
        .claude(&before("Write", &json!({"file_path": "a", "content": "x"})))
        .allowed();
}

/// What Codex hands over before it changes these files.
fn patch(files: &[String]) -> Value {
    let files = files
        .iter()
        .map(|file| format!("*** Add File: {file}\n+x\n"));
    let text = format!(
        "*** Begin Patch\n{}*** End Patch\n",
        files.collect::<String>()
    );
    before("apply_patch", &json!({"command": text}))
}

#[test]
fn a_call_that_rules_have_asked_by_many_names_is_one_question_that_shows_them_all() {
    let spool = TestSpool::new();
    let rules = json!({"edit": {"*": "ask", "/etc/*": "deny"}, "path_write": {"*.rs": "ask"}});
    let mut server = spool.serve_select("main", &rules);
    let files: Vec<String> = (0..20).map(|n| format!("src/f{n}.rs")).collect();
    for (label, is_denied) in [("Yes", false), ("No", true)] {
        let hook = spool.start_hook("codex", &patch(&files));
        let question = server.question();
        let waiting = spool.waiting("main");
        assert_eq!(waiting.len(), 1, "{waiting:?}");
        let request = read_json(&spool.request_path("main", &waiting[0])).unwrap();
        let evidence = request["payload"]["evidence"].to_string();
        for file in &files {
            for surface in ["edit", "path_write"] {
                assert!(
                    evidence.contains(&format!("{surface}: {file}")),
                    "{evidence}"
                );
            }
        }
        server.choose(&question, label);
        if is_denied {
            hook.end().denied("Denied by the user");
        } else {
            hook.end().left();
        }
    }
    assert_eq!(spool.events("forwarded_permission.prompted").len(), 2);
    // One of them that is denied denies them all, and nobody is asked.
    let with_one = [files, vec!["/etc/motd".to_owned()]].concat();
    spool.hook("codex", &patch(&with_one)).denied("/etc/*");
}

#[test]
fn what_a_grant_allows_by_one_name_is_asked_by_the_others_that_a_rule_has_asked() {
    let spool = TestSpool::new();
    let rules = json!({"write": "allow", "path_write": {"/etc/*": "ask"}});
    let mut server = spool.serve_select("main", &rules);
    let write = before("Write", &json!({"file_path": "/etc/motd", "content": "x"}));
    let hook = spool.start_hook("claude-code", &write);
    server.answer("/etc/motd", "No");
    hook.end().denied("\"path_write\"");
    let hook = spool.start_hook("claude-code", &write);
    server.answer("/etc/motd", "Yes");
    hook.end().allowed();
}

#[test]
fn what_else_is_asked_is_shown_however_much_there_is_to_show() {
    let spool = TestSpool::new();
    let mut server = spool.serve_select(
        "main",
        &json!({"apply_patch": "ask", "external_directory": "ask"}),
    );
    let near = (0..20).map(|n| format!("src/f{n}"));
    let far: Vec<String> = (0..9).map(|n| format!("/etc/cron.d/x{n}*")).collect();
    let files: Vec<String> = near.chain(far.clone()).collect();
    let hook = spool.start_hook("codex", &patch(&files));
    let question = server.question();
    for path in &far {
        let name = format!("external_directory_write: {path}");
        assert!(question.text.contains(&name), "{}", question.text);
    }
    server.choose(&question, "No");
    hook.end().denied("Denied by the user");
    // Nothing that is written into a name is a line of its own.
    let write = before(
        "Write",
        &json!({"file_path": "/etc/a\nedit: b", "content": "x\n".repeat(300)}),
    );
    let hook = spool.start_hook("claude-code", &write);
    let question = server.question();
    assert!(
        (question.text).contains("external_directory_write: /etc/a<LF>edit: b"),
        "{}",
        question.text
    );
    server.choose(&question, "No");
    hook.end().denied("Denied by the user");
}

#[test]
fn a_rule_that_is_made_while_the_question_waits_denies_by_whatever_name_it_is_for() {
    let write = before("Write", &json!({"file_path": "/etc/motd", "content": "x"}));
    let ask = json!({"/etc/*": "ask"});
    for (rules, then) in [
        (
            json!({"write": "ask", "path_write": ask}),
            json!({"write": "ask", "path_write": {"/etc/*": "deny"}}),
        ),
        (
            json!({"write": "allow", "path_write": ask}),
            json!({"write": "deny", "path_write": ask}),
        ),
    ] {
        let spool = TestSpool::new();
        let mut server = spool.serve_select("main", &rules);
        let hook = spool.start_hook("claude-code", &write);
        let question = server.question();
        let _same = spool.config("main", &json!({"permission": then}));
        server.await_text("its rules hold from now on");
        server.choose(&question, "Yes");
        hook.end().denied("rule");
    }
}

#[test]
fn a_link_that_denies_a_call_by_one_of_its_names_is_heard_before_anybody_is_asked() {
    let spool = TestSpool::new();
    let body = r#"if grep -q '"surface":"external_directory_write"'; then echo '{"verdict":"deny","reason":"it is not ours"}'; else echo '{"verdict":"defer"}'; fi"#;
    let chain = Chain::default().link(&spool, "house", body).with(
        "permission",
        json!({"write": "ask", "external_directory_write": "ask"}),
    );
    let mut server = chain.serve(&spool, "main").select().start();
    let within = spool.work().join("x").display().to_string();
    let write = |path: &str| before("Write", &json!({"file_path": path, "content": "x"}));
    let ended = spool.hook("claude-code", &write("/etc/motd"));
    ended.denied("it is not ours");
    assert!(!server.has_written_more(), "{}", server.running.stdout());
    // What it leaves open is the person's.
    let inside = with(write(&within), "cwd", json!(spool.work()));
    let hook = spool.start_hook("claude-code", &inside);
    let question = server.question();
    server.choose(&question, "Yes");
    hook.end().allowed();
}

#[test]
fn a_call_on_more_files_than_are_looked_at_is_asked_whatever_rules_allow() {
    let spool = TestSpool::new();
    let mut server = spool.serve_select(
        "main",
        &json!({"*": "allow", "apply_patch": "allow", "edit": "allow"}),
    );
    let files: Vec<String> = (0..65).map(|n| format!("f{n}")).collect();
    spool.hook("codex", &patch(&files[1..])).left();
    let hook = spool.start_hook("codex", &patch(&files));
    let question = server.question();
    server.choose(&question, "No");
    hook.end().denied("Denied by the user");
}

#[test]
fn a_call_that_not_every_rule_was_held_against_is_asked_each_time_and_granted_for_no_longer() {
    let spool = TestSpool::new();
    let rules = json!({"edit": {"/etc/*": "deny"}, "read": {"*.env": "deny"}});
    let mut server = spool.serve_select("main", &rules);
    let bypassed = |stdin: Value| with(stdin, "permission_mode", json!("bypassPermissions"));
    let gemini = |files: &[String]| {
        json!({"session_id": "S", "cwd": "/srv/shop", "hook_event_name": "BeforeTool", "tool_name": "read_many_files",
               "tool_input": {"include": files}})
    };
    let many = |last: &str| -> Vec<String> {
        let first = (0..64).map(|n| format!("f{n}"));
        first.chain([last.to_owned()]).collect()
    };
    // What is granted for the tool is granted where all of its files were seen.
    let few = ["a".to_owned(), "b".to_owned()];
    for (host, stdin) in [("codex", bypassed(patch(&few))), ("gemini", gemini(&few))] {
        let hook = spool.start_hook(host, &stdin);
        let question = server.question();
        server.choose(&question, "Yes, for this session");
        let scope = server.question();
        server.choose(&scope, SUBAGENT);
        assert_eq!(hook.end().code, 0);
        let again = spool.hook(host, &stdin);
        assert_ne!(again.verdict().0, "deny", "{}", again.stdout);
    }
    let text = |text: &str| bypassed(before("apply_patch", &json!({"command": text})));
    let unread = [
        ("codex", bypassed(patch(&many("/etc/motd")))),
        ("codex", text("cat <<EOF\nnothing that anybody reads\nEOF")),
        ("gemini", gemini(&many("x.env"))),
    ];
    for (host, stdin) in unread {
        for label in ["Yes", "No"] {
            let hook = spool.start_hook(host, &stdin);
            let question = server.question();
            assert!(
                question.text.contains("nothing is suggested"),
                "{}",
                question.text
            );
            server.choose(&question, label);
            let ended = hook.end();
            assert_eq!(
                ended.verdict().0 == "deny",
                label == "No",
                "{}",
                ended.stdout
            );
        }
    }
}

#[test]
fn a_patch_is_judged_by_the_files_that_its_host_reads_in_it() {
    let spool = TestSpool::new();
    let rules = json!({"*": "allow", "edit": {"*": "allow", "*.env": "deny"}, "path_write": {"*.env": "deny"}});
    let mut server = spool.serve_select("main", &rules);
    let text = |text: &str| before("apply_patch", &json!({"command": text}));
    let add = |path: &str| format!("*** Begin Patch\n*** Add File: {path}\n+x\n*** End Patch");
    for denied in [
        add("prod.env"),
        add("prod.env \t"),
        add("prod.env\u{a0}"),
        add("prod.env").replace('\n', "\r\n"),
        add("prod.env").replace("*** Add", "  *** Add"),
        format!("<<EOF\n{}\nEOF", add("prod.env")),
        format!("cat <<EOF\n{}\nEOF", add("prod.env")),
        add("a").replace(
            "+x",
            "+x\n*** Update File: b\n  *** Move to: prod.env\n@@\n+y",
        ),
    ] {
        spool.hook("codex", &text(&denied)).denied("*.env");
    }
    for runs in [add("a"), add("a "), format!("<<'EOF'\n{}\nEOF", add("a"))] {
        spool.hook("codex", &text(&runs)).left();
    }
    // What only some would read as a patch is asked about.
    let hook = spool.start_hook("codex", &text(&format!("cat <<EOF\n{}\nEOF", add("a"))));
    let question = server.question();
    server.choose(&question, "No");
    hook.end().denied("Denied by the user");
}

#[test]
fn what_is_no_command_is_let_out_of_the_sandbox_by_no_grant_that_was_given_within() {
    let spool = TestSpool::new();
    let mut server = spool.serve_select("main", &json!({}));
    let bypassed = |stdin: Value| with(stdin, "permission_mode", json!("bypassPermissions"));
    let repl = |input: Value| bypassed(before("REPL", &input));
    let within = repl(json!({"code": "1"}));
    let stdin = |event: &str| {
        let stdin = before("write_stdin", &json!({"chars": "y", "session_id": 1}));
        with(bypassed(stdin), "hook_event_name", json!(event))
    };
    for (host, within, outside) in [
        (
            "claude-code",
            within.clone(),
            repl(json!({"code": "1", "dangerouslyDisableSandbox": true})),
        ),
        ("codex", stdin("PreToolUse"), stdin("PermissionRequest")),
    ] {
        let hook = spool.start_hook(host, &within);
        let question = server.question();
        server.choose(&question, "Yes, for this session");
        let scope = server.question();
        server.choose(&scope, SUBAGENT);
        assert_eq!(hook.end().code, 0);
        let again = spool.hook(host, &within);
        assert_ne!(again.verdict().0, "deny", "{}", again.stdout);
        let hook = spool.start_hook(host, &outside);
        let question = server.question();
        assert!(
            question.text.contains("outside_sandbox"),
            "{}",
            question.text
        );
        server.choose(&question, "No");
        hook.end().denied("\"outside_sandbox\"");
    }
    // A tool for commands that names none that can be read is asked each time.
    let unread = bypassed(before(
        "Bash",
        &json!({"command": 7, "dangerouslyDisableSandbox": true}),
    ));
    let hook = spool.start_hook("claude-code", &unread);
    let question = server.question();
    assert!(
        question.text.contains("nothing is suggested"),
        "{}",
        question.text
    );
    server.choose(&question, "No");
    hook.end().denied("\"outside_sandbox\"");
}

#[test]
fn what_is_denied_or_asked_as_a_command_is_so_outside_of_the_sandbox_whoever_asks() {
    let spool = TestSpool::new();
    let rules = json!({"bash": {"rm *": "deny", "git *": "ask"}, "outside_sandbox": "allow"});
    let _server = spool.serve_headless("main", &rules);
    for (line, is_allowed) in [("make", true), ("rm x", false), ("git push", false)] {
        let mut ask = spool.relay();
        ask.args(["ask", "--surface", "outside_sandbox", "--value", line]);
        let (code, stdout, _) = run(&mut ask);
        assert_eq!(code == 0, is_allowed, "{line} {stdout}");
    }
}

#[test]
fn a_tool_of_a_server_that_runs_command_lines_is_held_against_its_servers_rules_as_well() {
    let spool = TestSpool::new();
    let rules = json!({"*": "allow", "mcp": {"x:*": "deny"}});
    let _server = spool.serve_headless("main", &rules);
    let config = spool.below("own.json");
    spool.put_file(
        &config,
        r#"{"shellTools": {"mcp__x__run": {"commandArgument": "line"}, "mcp__y__run": {"commandArgument": "line"}}}"#,
    );
    for (tool, verdict) in [("mcp__x__run", "deny"), ("mcp__y__run", "allow")] {
        let mut command = spool.hook_command("claude-code");
        command.arg("--config").arg(&config);
        let stdin = before(tool, &json!({"line": "ls"}));
        let ended = Hook::start(&mut command, &stdin.to_string()).end();
        assert_eq!(ended.verdict().0, verdict, "{tool} {}", ended.stdout);
    }
}

/// A command that is not to run in the sandbox.
fn leaving(command: &str) -> Value {
    let input = json!({"command": command, "dangerouslyDisableSandbox": true});
    before("Bash", &input)
}

#[test]
fn what_leaves_the_sandbox_is_let_out_by_what_names_that_and_by_nothing_that_lets_it_run_within() {
    let spool = TestSpool::new();
    let rules = json!({
        "*": "allow",
        "bash": {"*": "allow", "rm *": "deny"},
        "outside_*": "allow",
        "outside_sandbox": {"npm *": "allow", "curl *": "deny"},
    });
    let mut server = spool.serve_select("main", &rules);
    spool.claude(&bash("make")).allowed();
    spool.claude(&leaving("npm test")).allowed();
    for denied in ["rm -rf x", "npm test; curl x", "npm run $(rm x)"] {
        spool.claude(&leaving(denied)).denied("rule");
    }
    let hook = spool.start_hook("claude-code", &leaving("make"));
    let question = server.question();
    assert!(
        question.text.contains("outside the sandbox"),
        "{}",
        question.text
    );
    server.choose(&question, "No");
    hook.end().denied("\"outside_sandbox\"");
    // One of several commands that is not named holds the others back.
    for (host, stdin) in [
        ("claude-code", leaving("npm test; make")),
        ("codex", permission("make all")),
    ] {
        let hook = spool.start_hook(host, &stdin);
        let question = server.question();
        server.choose(&question, "No");
        hook.end().denied("Denied by the user");
    }
    spool.hook("codex", &permission("npm test")).allowed();
    spool.hook("codex", &permission("rm x")).denied("rm *");
}

#[test]
fn what_is_granted_within_the_sandbox_lets_nothing_out_and_what_is_granted_outside_of_it_does() {
    let spool = TestSpool::new();
    let mut server = spool.serve_select("main", &json!({}));
    let for_the_session = |stdin: &Value, server: &mut crate::support::processes::Server| {
        let hook = spool.start_hook("claude-code", stdin);
        let question = server.question();
        server.choose(&question, "Yes, for this session");
        let scope = server.question();
        server.choose(&scope, SUBAGENT);
        hook.end().allowed();
    };
    for_the_session(&permission("make"), &mut server);
    spool.claude(&bash("make")).allowed();
    let rule = json!([{"type": "addRules", "behavior": "allow", "destination": "localSettings",
                       "rules": [{"toolName": "Bash", "ruleContent": "make:*"}]}]);
    let leaving_with = with(leaving("make out"), "permission_suggestions", rule);
    let leaving_with = with(leaving_with, "hook_event_name", json!("PermissionRequest"));
    // What may run within is a question as soon as it wants out, also where the host would not have asked.
    let hook = spool.start_hook("claude-code", &leaving("make"));
    server.answer("make", "No");
    hook.end().denied("Denied by the user");
    for_the_session(&leaving_with, &mut server);
    spool.claude(&leaving("make more")).allowed();
    // That is no leave to run anything else within: the host is left to ask by itself.
    spool.claude(&bash("make more")).left();
}

#[test]
fn where_nobody_is_there_what_leaves_the_sandbox_is_denied_and_told_what_would_decide_it() {
    let spool = TestSpool::new();
    let rules = json!({"*": "allow", "bash": {"*": "allow"}});
    let _server = spool.serve_headless("main", &rules);
    let hint = "a rule for \"outside_sandbox\" decides what may leave the sandbox";
    spool.claude(&leaving("make")).denied(hint);
    spool.hook("codex", &permission("make")).denied(hint);
}

#[test]
fn in_a_mode_that_asks_nobody_everything_is_asked_but_what_only_looks_at_home() {
    let spool = TestSpool::new();
    let mut server = spool.serve_select("main", &json!({}));
    let bypassed = |stdin: Value| with(stdin, "permission_mode", json!("bypassPermissions"));
    let hook = spool.start_hook("claude-code", &bypassed(bash("make")));
    server.answer("make", "No");
    hook.end().denied("Denied by the user");
    let read = |path: &str| bypassed(before("Read", &json!({"file_path": path})));
    spool.claude(&read("/srv/shop/a")).left();
    spool
        .claude(&bypassed(before("TodoWrite", &json!({"todos": []}))))
        .left();
    let glob = bypassed(before("Glob", &json!({"pattern": "/etc/**"})));
    let hook = spool.start_hook("claude-code", &glob);
    server.answer("/etc/**", "No");
    hook.end().denied("Denied by the user");
    for path in ["/etc/passwd", "../other/a"] {
        let hook = spool.start_hook("claude-code", &read(path));
        server.answer(path, "No");
        hook.end().denied("Denied by the user");
    }
}

#[test]
fn a_grant_holds_for_every_hook_of_its_session_and_for_no_other() {
    let spool = TestSpool::new();
    let mut server = spool.serve_select("main", &json!({}));
    let suggestions = json!([{"type": "addRules", "behavior": "allow", "destination": "localSettings",
                              "rules": [{"toolName": "Bash", "ruleContent": "npm run:*"}]}]);
    let asked = with(
        permission("npm run test"),
        "permission_suggestions",
        suggestions,
    );
    let hook = spool.start_hook("claude-code", &asked);
    let question = server.question();
    server.choose(&question, "Yes, for this session");
    let scope = server.question();
    server.choose(&scope, SUBAGENT);
    let ended = hook.end();
    ended.allowed();
    // The host is told nothing that it would remember by itself: what was granted can be taken back.
    assert_eq!(
        ended.json()["hookSpecificOutput"]["decision"],
        json!({"behavior": "allow"})
    );
    spool.claude(&permission("npm run lint")).allowed();
    spool.claude(&bash("npm run lint")).allowed();
    let subagent = with(permission("npm run lint"), "agent_id", json!("a1"));
    spool.claude(&subagent).allowed();
    let other = with(permission("npm run lint"), "session_id", json!("T"));
    let hook = spool.start_hook("claude-code", &other);
    server.answer("npm run lint", "No");
    hook.end().denied("Denied by the user");
    // Taken back, it is asked again.
    let mut revoke = spool.relay();
    revoke.args(["revoke", "1"]);
    assert_eq!(run(&mut revoke).0, 0);
    let hook = spool.start_hook("claude-code", &permission("npm run lint"));
    server.answer("npm run lint", "No");
    hook.end().denied("Denied by the user");
}

#[test]
fn a_subagent_is_known_by_its_own_id_and_what_is_granted_to_it_is_granted_to_no_other() {
    let spool = TestSpool::new();
    let mut server = spool.serve_select("main", &json!({}));
    let of = |agent: &str, command: &str| {
        let asked = with(permission(command), "agent_id", json!(agent));
        with(asked, "agent_type", json!("Explore"))
    };
    let hook = spool.start_hook("claude-code", &of("a1", "make"));
    let request = spool.await_hook("main");
    assert_eq!(request["requesterSessionId"], "S");
    assert_eq!(request["requesterAgentName"], "claude-code");
    assert_eq!(
        request["relay"]["path"],
        json!([{"sessionId": "S.a1", "agentName": "Explore"}])
    );
    assert_eq!(
        request["accessIntent"]["principal"],
        json!({"sessionId": "S.a1", "agentName": "Explore"})
    );
    let question = server.question();
    assert!(question.text.contains("Explore"), "{}", question.text);
    server.choose(&question, "Yes, for this session");
    let scope = server.question();
    server.choose(&scope, SUBAGENT);
    hook.end().allowed();
    spool.claude(&of("a1", "make")).allowed();
    let hook = spool.start_hook("claude-code", &of("a2", "make"));
    server.answer("make", "No");
    hook.end().denied("for agent Explore");
    let hook = spool.start_hook("claude-code", &permission("make"));
    server.answer("make", "No");
    hook.end().denied("for agent claude-code");
}

#[test]
fn a_launched_host_asks_its_parent_through_the_session_that_it_was_given() {
    let spool = TestSpool::new();
    let _server = spool
        .serve("lead")
        .select()
        .policy(&spool, "lead", &json!({}))
        .start();
    let mut command = spool.relay();
    command.args([
        "launch",
        "--session",
        "lead",
        "--as",
        "worker-1",
        "--agent",
        "builder",
        "--",
    ]);
    command
        .arg(env!("CARGO_BIN_EXE_askrelay"))
        .args(["hook", "claude-code"]);
    let hook = Hook::start(&mut command, &permission("make").to_string());
    let request = spool.await_hook("lead");
    assert_eq!(request["requesterSessionId"], "worker-1");
    assert_eq!(request["requesterAgentName"], "builder");
    assert_eq!(
        request["relay"]["path"],
        json!([{"sessionId": "S", "agentName": "builder"}])
    );
    // So the rules that were written for what was launched hold for what runs in it.
    assert_eq!(request["accessIntent"]["principal"]["agentName"], "builder");
    let lineage = request["payload"]["evidence"]
        .as_array()
        .unwrap()
        .last()
        .unwrap();
    assert_eq!(lineage["text"], "lead > worker-1 > S");
    drop(hook);
}

#[test]
fn rules_that_were_written_for_an_agent_of_the_host_hold_for_it_whoever_launches_the_host() {
    let spool = TestSpool::new();
    let _server = spool.serve_select("main", &json!({}));
    let named = with(permission("make"), "agent_type", json!("reviewer"));
    let subagent = with(
        with(named.clone(), "agent_id", json!("a1")),
        "session_id",
        json!("T"),
    );
    let opencode = json!({"sessionId": "U", "agent": "build", "tool": "bash", "cwd": "/srv/shop",
                          "input": {"command": "make"}, "gate": "calls"});
    // A launcher whose operator gave no name says that.
    let unnamed = with(named.clone(), "session_id", json!("V"));
    // Where the host has no name for its agent, the operator's counts.
    let plain = with(permission("make"), "session_id", json!("W"));
    let hooks: Vec<Hook> = [
        ("claude-code", "builder", named),
        ("claude-code", "builder", plain),
        ("claude-code", "builder", subagent),
        ("opencode", "builder", opencode),
        ("claude-code", "unknown", unnamed),
    ]
    .iter()
    .map(|(host, launched_as, stdin)| {
        let mut command = spool.hook_command(host);
        command.env("ASKRELAY_AGENT", launched_as);
        Hook::start(&mut command, &stdin.to_string())
    })
    .collect();
    let mut judged_as = Vec::new();
    until("five questions", || {
        let waiting = spool.waiting("main");
        let requests = waiting
            .iter()
            .filter_map(|id| read_json(&spool.request_path("main", id)))
            .filter(|request| request["relay"]["rulesOnly"] != true);
        judged_as = requests
            .map(|request| {
                let session = request["requesterSessionId"].as_str().unwrap().to_owned();
                let agent = &request["accessIntent"]["principal"]["agentName"];
                (session, agent.as_str().unwrap().to_owned())
            })
            .collect();
        judged_as.len() == 5
    });
    judged_as.sort();
    let owned = |(session, agent): (&str, &str)| (session.to_owned(), agent.to_owned());
    let expected = [
        ("S", "reviewer"),
        ("T", "reviewer"),
        ("U", "build"),
        ("V", "reviewer"),
        ("W", "builder"),
    ]
    .map(owned);
    assert_eq!(judged_as, expected);
    drop(hooks);
}

#[test]
fn a_host_that_another_one_started_is_known_as_within_it() {
    let spool = TestSpool::new();
    let _server = spool.serve_select("main", &json!({}));
    // A host carries the session around it in the environment that it was started with; a shell stands for it here.
    let mut host = spool
        .relay_shell("CLAUDE_PID=$$ CLAUDE_CODE_SESSION_ID=inner \"$HOOK\" hook claude-code; true");
    host.env("CLAUDE_CODE_SESSION_ID", "outer");
    let inner = with(permission("make"), "session_id", json!("inner"));
    let hook = Hook::start(&mut host, &inner.to_string());
    let request = spool.await_hook("main");
    assert_eq!(request["requesterSessionId"], "outer");
    assert_eq!(
        request["relay"]["path"],
        json!([{"sessionId": "inner", "agentName": "claude-code"}])
    );
    drop(hook);
    // So is one of another kind.
    let mut codex = spool.hook_command("codex");
    codex.env("CLAUDE_CODE_SESSION_ID", "around");
    let hook = Hook::start(&mut codex, &permission("make").to_string());
    until("a request from within", || {
        let waiting = spool.waiting("main");
        let mut requests = waiting
            .iter()
            .filter_map(|id| read_json(&spool.request_path("main", id)));
        requests.any(|request| {
            request["requesterSessionId"] == "around"
                && request["relay"]["path"] == json!([{"sessionId": "S", "agentName": "codex"}])
        })
    });
    drop(hook);
}

impl TestSpool {
    /// A shell that runs `script`, with the program in `HOOK`.
    fn relay_shell(&self, script: &str) -> Command {
        let relay = self.relay();
        let mut shell = Command::new("/bin/sh");
        shell.arg("-c").arg(script).env_clear();
        for (name, value) in relay.get_envs() {
            shell.env(name, value.unwrap_or_default());
        }
        shell
            .env("HOOK", env!("CARGO_BIN_EXE_askrelay"))
            .current_dir(self.work());
        shell
    }
}

#[test]
fn what_a_call_would_do_is_shown_as_it_would_be_done() {
    let spool = TestSpool::new();
    let mut server = spool.serve_select("main", &json!({"edit": "ask", "mcp": "ask"}));
    let file = spool.work().join("a.txt");
    spool.put_file(&file, "one\ntwo\n");
    let edit = before(
        "Edit",
        &json!({"file_path": file, "old_string": "two", "new_string": "three"}),
    );
    let hook = spool.start_hook("claude-code", &with(edit, "cwd", json!(spool.work())));
    server.question();
    let request = spool.await_hook("main");
    let evidence = request["payload"]["evidence"].to_string();
    assert!(
        evidence.contains("-two") && evidence.contains("+three"),
        "{evidence}"
    );
    assert_eq!(
        request["payload"]["request"]["invokedToolName"],
        Value::Null
    );
    assert_eq!(request["accessIntent"]["surface"], "edit");
    drop(hook);
    until("the request to go", || spool.waiting("main").is_empty());
    let mcp = before("mcp__tickets__close", &json!({"id": 7, "note": "done"}));
    let hook = spool.start_hook("claude-code", &mcp);
    server.question();
    let request = spool.await_hook("main");
    assert_eq!(request["value"], "tickets:close");
    let evidence = request["payload"]["evidence"].to_string();
    assert!(evidence.contains("note : done"), "{evidence}");
    drop(hook);
    until("the request to go", || spool.waiting("main").is_empty());
    let line = with(permission("cd x && curl y | sh"), "session_id", json!("L"));
    let hook = spool.start_hook("claude-code", &line);
    server.question();
    let intent = spool.await_hook("main")["accessIntent"].clone();
    let units: Vec<&str> = intent["askingUnits"]
        .as_array()
        .unwrap()
        .iter()
        .map(|unit| unit["command"].as_str().unwrap())
        .collect();
    assert_eq!(units, ["cd x", "curl y", "sh"]);
    drop(hook);
}

#[test]
fn the_hook_gives_up_before_its_host_does_and_denies() {
    let spool = TestSpool::new();
    let mut server = spool.serve_select("main", &json!({}));
    let mut command = spool.hook_command("claude-code");
    command.args(["--host-timeout", "2"]);
    let hook = Hook::start(&mut command, &permission("make").to_string());
    server.question();
    let ended = hook.end();
    ended.denied("did not answer within 0.");
    ended.denied("forwardingTimeoutMs");
    server.await_text("taken it back");
    assert!(spool.waiting("main").is_empty());
}

#[test]
fn a_hook_that_is_told_to_end_denies_and_takes_its_ask_back() {
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let spool = TestSpool::new();
        let mut server = spool.serve_select("main", &json!({}));
        let hook = spool.start_hook("claude-code", &permission("make"));
        server.question();
        hook.running.signal(signal);
        hook.end().denied("told to end");
        server.await_text("taken it back");
        assert_eq!(spool.events("permission_request.approved").len(), 0);
        let ends = spool.events("forwarded_permission.request_withdrawn");
        assert!(!ends.is_empty());
        assert!(
            ends.iter()
                .all(|end| end["decidedBy"]["kind"] == "unavailable"),
            "{ends:?}"
        );
    }
}

#[test]
fn a_hook_that_is_killed_leaves_no_question_behind() {
    let spool = TestSpool::new();
    let mut server = spool.serve_select("main", &json!({}));
    let mut hook = spool.start_hook("codex", &permission("make"));
    server.question();
    hook.running.kill();
    until("the request to go", || spool.waiting("main").is_empty());
    assert_eq!(spool.events("forwarded_permission.requester_gone").len(), 1);
}

#[test]
fn where_nobody_serves_the_hook_says_so_and_what_to_do() {
    let spool = TestSpool::new();
    for host in ["claude-code", "codex"] {
        for stdin in [bash("ls"), permission("ls")] {
            let ended = spool.hook(host, &stdin);
            ended.denied("nobody serves session \"main\"");
            ended.denied("run `askrelay serve`");
            ended.denied(&format!("`askrelay uninstall {host}` takes the hook out"));
        }
    }
    let gemini = json!({"session_id": "G", "cwd": "/", "hook_event_name": "BeforeTool",
                        "tool_name": "run_shell_command", "tool_input": {"command": "ls"}});
    spool
        .hook("gemini", &gemini)
        .denied("nobody serves session \"main\"");
}

#[test]
fn where_nobody_ever_served_a_hook_asks_nothing_and_waits_for_nobody() {
    let spool = TestSpool::new();
    let denied = || {
        spool
            .claude(&permission("ls"))
            .denied("nobody serves session \"main\"");
        let said = spool.events("forwarded_permission.no_serving_session");
        let created = spool.events("forwarded_permission.request_created");
        (said.len(), created.len())
    };
    let (said, created) = denied();
    assert!(said > 0 && created == 0, "{said} {created}");
    // Nor where a server has taken leave. One that died may be there again in a moment: that is waited for.
    let mut server = spool.serve_headless("main", &json!({}));
    server.stop();
    let (again, created) = denied();
    assert!(again > said && created == 0, "{again} {created}");
}

#[test]
fn a_server_that_ends_while_a_hook_waits_is_a_denial() {
    let spool = TestSpool::new();
    let mut server = spool.serve_select("main", &json!({}));
    let hook = spool.start_hook("claude-code", &permission("make"));
    server.question();
    server.running.kill();
    hook.end().denied("nobody serves session \"main\"");
}

#[test]
#[cfg_attr(not(debug_assertions), ignore = "a release build has no faults in it")]
fn a_fault_of_the_hook_itself_is_a_denial() {
    let spool = TestSpool::new();
    let _server = spool.serve_headless("main", &json!({"bash": "allow"}));
    for (host, stdin) in [
        ("claude-code", bash("ls")),
        ("claude-code", permission("ls")),
        ("codex", permission("ls")),
    ] {
        let mut command = spool.hook_command(host);
        command.env("ASKRELAY_TEST_FAULT", "hook:S");
        let ended = Hook::start(&mut command, &stdin.to_string()).end();
        ended.denied("the hook itself failed");
    }
    spool.claude(&bash("ls")).allowed();
}

#[test]
#[cfg_attr(not(debug_assertions), ignore = "a release build has no faults in it")]
fn a_hook_that_is_busy_is_in_time_all_the_same_and_hears_a_signal() {
    let spool = TestSpool::new();
    let gemini = json!({"session_id": "S", "cwd": "/", "hook_event_name": "BeforeTool",
                        "tool_name": "run_shell_command", "tool_input": {"command": "ls"}});
    for (host, stdin) in [
        ("claude-code", permission("ls")),
        ("codex", bash("ls")),
        ("gemini", gemini),
    ] {
        let mut command = spool.hook_command(host);
        command.env("ASKRELAY_TEST_FAULT", "stalled:S");
        let told = Hook::start(&mut command, &stdin.to_string());
        command.args(["--host-timeout", "1"]);
        let late = Hook::start(&mut command, &stdin.to_string());
        late.end().denied("nobody answered in time");
        until("a hook that does not get on", || {
            has_thread(told.running.pid(), "stalled")
        });
        told.running.signal(Signal::TERM);
        told.end().denied("told to end");
    }
}

fn has_thread(pid: u32, name: &str) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let mut threads = threads.filter_map(|thread| {
        let comm = thread.ok()?.path().join("comm");
        std::fs::read_to_string(comm).ok()
    });
    threads.any(|thread| thread.trim() == name)
}

#[test]
fn what_no_host_would_say_is_refused_by_the_exit_code() {
    let spool = TestSpool::new();
    let _server = spool.serve_headless("main", &json!({"bash": "allow"}));
    let long = format!(
        "{{\"hook_event_name\": \"PreToolUse\", \"x\": \"{}\"}}",
        "y".repeat(9 << 20)
    );
    for (stdin, why) in [
        ("", "cannot be used"),
        ("null", "hook_event_name"),
        ("[1, 2]", "hook_event_name"),
        ("{\"hook_event_name\": ", "cannot be used"),
        (
            "{\"hook_event_name\": \"PreToolUse\", \"hook_event_name\": \"Stop\"}",
            "cannot be used",
        ),
        (
            "{\"hook_event_name\": \"MidToolUse\", \"tool_name\": \"Bash\"}",
            "MidToolUse",
        ),
        ("\u{0}\u{1}", "cannot be used"),
        (long.as_str(), "cannot be used"),
    ] {
        for host in ["claude-code", "codex", "gemini"] {
            let mut command = spool.hook_command(host);
            Hook::start(&mut command, stdin).end().refused(why);
        }
    }
    // Wrong usage is the same to a host.
    for wrong in [
        &["hook"][..],
        &["hook", "nobody"],
        &["hook", "codex", "--novel"],
        &["hook", "codex", "--host-timeout", "x"],
    ] {
        let mut command = spool.relay();
        command.args(wrong);
        let (code, stdout, stderr) = run(&mut command);
        assert_eq!((code, stdout.as_str()), (2, ""), "{wrong:?}");
        assert!(!stderr.is_empty());
    }
}

#[test]
fn what_is_known_of_an_event_that_lacks_something_is_told_in_its_own_words() {
    let spool = TestSpool::new();
    let _server = spool.serve_headless("main", &json!({"bash": "allow"}));
    let mut lacks = permission("ls");
    lacks.as_object_mut().unwrap().remove("tool_name");
    spool.claude(&lacks).denied("tool_name");
    let mut lacks = bash("ls");
    lacks.as_object_mut().unwrap().remove("session_id");
    spool.hook("codex", &lacks).denied("session_id");
}

#[test]
fn a_machine_that_cannot_ask_is_a_denial_that_says_so() {
    let spool = TestSpool::new();
    let mut command = spool.hook_command("claude-code");
    command.env("ASKRELAY_SPOOL", "/proc/nothing/here");
    Hook::start(&mut command, &permission("ls").to_string())
        .end()
        .denied("cannot be made");
    let mut command = spool.hook_command("claude-code");
    command.env("ASKRELAY_CONFIG", spool.below("nowhere.json"));
    let ended = Hook::start(&mut command, &bash("ls").to_string()).end();
    ended.denied("there is no configuration at");
    ended.denied("What to do:");
    let mut command = spool.hook_command("claude-code");
    command.env("ASKRELAY_LINEAGE", "{");
    Hook::start(&mut command, &bash("ls").to_string())
        .end()
        .denied("ASKRELAY_LINEAGE cannot be read");
    let mut command = spool.hook_command("claude-code");
    command.env("ASKRELAY_SERVING_KEY", "nonsense");
    Hook::start(&mut command, &bash("ls").to_string())
        .end()
        .denied("is no key");
    // A configuration that cannot be read keeps nobody from asking.
    spool.put_file(&spool.below("broken.json"), "{");
    let _server = spool.serve_headless("main", &json!({"bash": "allow"}));
    let mut command = spool.hook_command("claude-code");
    command.env("ASKRELAY_CONFIG", spool.below("broken.json"));
    let ended = Hook::start(&mut command, &bash("ls").to_string()).end();
    ended.denied("askrelay config check");
}

#[test]
fn an_answer_that_nobody_can_read_is_no_leave() {
    let spool = TestSpool::new();
    let _server = spool.serve_headless("main", &json!({"bash": "allow"}));
    for closed in [">&-", "> /dev/null", "> /dev/full"] {
        let script = format!("\"$HOOK\" hook claude-code {closed}; echo \"ended with $?\"");
        let hook = Hook::start(&mut spool.relay_shell(&script), &bash("ls").to_string());
        assert_eq!(hook.end().stdout, "ended with 2\n", "{closed}");
    }
    // Nor does it matter whether anybody reads what is said beside it.
    let mut shell = spool.relay_shell("\"$HOOK\" hook claude-code 2>&-");
    Hook::start(&mut shell, &bash("ls").to_string())
        .end()
        .allowed();
}

#[test]
fn two_calls_at_once_each_get_their_own_answer() {
    let spool = TestSpool::new();
    let mut server = spool.serve_select("main", &json!({}));
    let first = spool.start_hook("claude-code", &permission("make one"));
    server.answer("make one", "Yes");
    first.end().allowed();
    let first = spool.start_hook("claude-code", &permission("make one"));
    let question = server.question();
    let second = spool.start_hook("claude-code", &permission("make two"));
    until("two asks that wait", || spool.questions("main") == 2);
    server.choose(&question, "No");
    server.answer("make two", "Yes");
    first.end().denied("Denied by the user");
    second.end().allowed();
}

#[test]
fn the_same_call_asked_twice_is_two_asks_and_neither_is_let_through_by_the_others_answer() {
    let spool = TestSpool::new();
    let mut server = spool.serve_select("main", &json!({}));
    let hooks = [permission("make"), permission("make")]
        .map(|stdin| spool.start_hook("claude-code", &stdin));
    until("two asks that wait", || spool.questions("main") == 2);
    server.answer("make", "Yes");
    server.answer("make", "No");
    let mut verdicts = hooks.map(|hook| hook.end().verdict().0);
    verdicts.sort_unstable();
    assert_eq!(verdicts, ["allow", "deny"]);
}

#[test]
fn what_was_answered_in_the_hosts_own_dialog_is_taken_back_and_nobody_is_credited() {
    let spool = TestSpool::new();
    let mut server = spool.serve_select("main", &json!({}));
    let hook = spool.start_hook("claude-code", &permission("make"));
    server.question();
    let id = spool.waiting("main").pop().unwrap();
    // Another call of the session has ended, and another agent's turn: that says nothing about this one.
    let over = |event: &str, stdin: Value| with(stdin, "hook_event_name", json!(event));
    spool
        .claude(&over("PostToolUse", permission("make other")))
        .left();
    spool
        .claude(&over(
            "SubagentStop",
            with(permission("make"), "agent_id", json!("a1")),
        ))
        .left();
    assert_eq!(spool.questions("main"), 1);
    spool
        .claude(&over("PostToolUse", permission("make")))
        .left();
    hook.end().denied("told to end");
    server.await_text("taken it back");
    let said = spool.await_event("forwarded_permission.answered_elsewhere", &id);
    assert_eq!(said["reason"], "the host went on: PostToolUse");
    assert_eq!(said.get("decidedBy"), None);
    let ended = spool.await_event("forwarded_permission.request_withdrawn", &id);
    assert_eq!(ended["decidedBy"]["kind"], "unavailable");
    // The end of a turn takes everything back that its agent has asked, and the end of the session all of it.
    let main = spool.start_hook("claude-code", &permission("make"));
    let sub = spool.start_hook(
        "claude-code",
        &with(permission("make"), "agent_id", json!("a1")),
    );
    until("two asks that wait", || spool.questions("main") == 2);
    spool.claude(&over("Stop", permission("anything"))).left();
    main.end().denied("told to end");
    assert_eq!(spool.questions("main"), 1);
    spool
        .claude(&over("SessionEnd", permission("anything")))
        .left();
    sub.end().denied("told to end");
}

#[test]
fn a_request_that_names_another_process_has_nobody_told_to_end() {
    let spool = TestSpool::new();
    let mut server = spool.serve_select("main", &json!({}));
    let hook = spool.start_hook("claude-code", &permission("make"));
    server.question();
    let request = spool.await_hook("main");
    let id = request["id"].as_str().unwrap();
    let mut beside = Running::start(Command::new("sleep").arg("600"));
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", beside.pid())).unwrap();
    let started = stat.rsplit_once(')').unwrap().1.split_whitespace().nth(19);
    // Whoever can write in the spool can name any process, and can keep a lock on what it has written.
    let mut locks = Vec::new();
    for (tail, started, held) in [("-a", None, false), ("-b", started, true)] {
        let mut forged = request.clone();
        let forged_id = format!("{id}{tail}");
        forged["id"] = json!(forged_id);
        forged["createdAt"] = json!(1);
        forged["relay"]["pid"] = json!(beside.pid());
        forged["relay"]["held"] = json!(held);
        match started {
            Some(started) => forged["relay"]["pidStart"] = json!(started),
            None => {
                forged["relay"].as_object_mut().unwrap().remove("pidStart");
            }
        }
        let path = spool.request_path("main", &forged_id);
        let written = spool.below(&forged_id);
        spool.put_file(&written, &forged.to_string());
        let file = std::fs::File::open(&written).unwrap();
        if held {
            rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive).unwrap();
        }
        std::fs::rename(&written, path).unwrap();
        locks.push(file);
    }
    let over = with(permission("make"), "hook_event_name", json!("PostToolUse"));
    spool.claude(&over).left();
    hook.end().denied("told to end");
    assert!(!beside.has_ended());
    spool
        .claude(&with(over, "hook_event_name", json!("SessionEnd")))
        .left();
    assert!(!beside.has_ended());
}

#[test]
fn of_calls_that_are_alike_the_end_of_one_takes_one_back() {
    let spool = TestSpool::new();
    let _server = spool.serve_select("main", &json!({}));
    let hooks = [permission("make"), permission("make")]
        .map(|stdin| spool.start_hook("claude-code", &stdin));
    until("two asks that wait", || spool.questions("main") == 2);
    let over = with(permission("make"), "hook_event_name", json!("PostToolUse"));
    spool.claude(&over).left();
    until("one ask that waits", || spool.questions("main") == 1);
    spool.claude(&over).left();
    for hook in hooks {
        hook.end().denied("told to end");
    }
}

#[test]
fn the_end_of_a_call_that_was_let_run_takes_no_other_one_back() {
    let spool = TestSpool::new();
    let mut server = spool.serve_select("main", &json!({}));
    let over = with(permission("make"), "hook_event_name", json!("PostToolUse"));
    let first = spool.start_hook("claude-code", &permission("make"));
    let question = server.question();
    let second = spool.start_hook("claude-code", &permission("make"));
    until("two asks that wait", || spool.questions("main") == 2);
    server.choose(&question, "Yes");
    first.end().allowed();
    // The first has run. The second is asked about still, and answered by who is asked.
    spool.claude(&over).left();
    server.answer("make", "Yes");
    second.end().allowed();
    spool.claude(&over).left();
    // Each counts once: the next that is over was answered at the host.
    let third = spool.start_hook("claude-code", &permission("make"));
    server.question();
    spool.claude(&over).left();
    third.end().denied("told to end");
    server.await_text("taken it back");
}

#[test]
fn what_is_asked_before_a_call_is_taken_back_by_the_end_of_no_other() {
    let spool = TestSpool::new();
    let mut server = spool.serve_select("main", &json!({}));
    let asked = with(
        bash("make all"),
        "permission_mode",
        json!("bypassPermissions"),
    );
    let waits = spool.start_hook("claude-code", &asked);
    let question = server.question();
    let other = with(bash("make all"), "tool_use_id", json!("toolu_2"));
    spool
        .claude(&with(other, "hook_event_name", json!("PostToolUse")))
        .left();
    server.choose(&question, "Yes");
    waits.end().allowed();
}

#[test]
fn the_end_of_a_call_takes_nothing_back_where_the_host_asks_nobody_beside_its_hook() {
    let spool = TestSpool::new();
    let mut server = spool.serve_select("main", &json!({}));
    // Two calls that are alike: the first one is let run by Codex itself, the second one asks.
    spool.hook("codex", &of_use("PreToolUse")).left();
    let waits = spool.start_hook("codex", &permission("make"));
    let question = server.question();
    let over = of_use("PostToolUse");
    spool.hook("codex", &over).left();
    server.choose(&question, "Yes");
    waits.end().allowed();
    // The end of the turn does.
    let waits = spool.start_hook("codex", &permission("make"));
    server.question();
    spool
        .hook("codex", &with(over, "hook_event_name", json!("Stop")))
        .left();
    waits.end().denied("told to end");
}

#[test]
fn what_was_let_run_before_a_call_keeps_no_answer_of_the_hosts_own_dialog_from_taking_the_ask_back()
{
    let spool = TestSpool::new();
    let mut server = spool.serve_select("main", &json!({"bash": "ask"}));
    let before = spool.start_hook("claude-code", &of_use("PreToolUse"));
    server.answer("make", "Yes");
    before.end().allowed();
    // The host's own rule has its person asked as well, who is the first to answer.
    let waits = spool.start_hook("claude-code", &permission("make"));
    server.question();
    let over = of_use("PostToolUse");
    spool.claude(&over).left();
    waits.end().denied("told to end");
    server.await_text("taken it back");
}

#[test]
fn a_hook_whose_host_is_gone_takes_its_ask_back() {
    let spool = TestSpool::new();
    let mut server = spool.serve_select("main", &json!({}));
    // The host starts its hook through a shell that outlives it.
    let mut host =
        spool.relay_shell("cat > input; sh -c '\"$HOOK\" hook codex < input; true' & wait");
    let mut host = Hook::start(&mut host, &permission("make").to_string());
    server.question();
    let request = spool.await_hook("main");
    let pid = u32::try_from(request["relay"]["pid"].as_u64().unwrap()).unwrap();
    host.running.kill();
    until("the end of the hook", || has_ended(pid));
    server.await_text("taken it back");
}

#[test]
fn a_denial_stops_the_agent_and_its_host_remembers_where_the_configuration_says_so() {
    let spool = TestSpool::new();
    let mut server = spool.serve_select("main", &json!({"bash": {"rm *": "deny"}}));
    let config = json!({"hooks": {"denyStops": true, "hostRemembers": true}});
    let config = spool.config("hook", &config);
    let start = |host: &str, stdin: &Value| {
        let mut command = spool.hook_command(host);
        command.env("ASKRELAY_CONFIG", &config);
        Hook::start(&mut command, &stdin.to_string())
    };
    let hook = start("claude-code", &permission("make"));
    server.answer("make", "No");
    let ended = hook.end();
    ended.denied("Denied by the user");
    assert_eq!(
        ended.json()["hookSpecificOutput"]["decision"]["interrupt"],
        true
    );
    // What a rule denies is no reason to stop, and Codex cannot.
    let ended = start("claude-code", &permission("rm x")).end();
    ended.denied("rm *");
    assert_eq!(
        ended.json()["hookSpecificOutput"]["decision"].get("interrupt"),
        None
    );
    let hook = start("codex", &permission("make"));
    server.answer("make", "No");
    assert!(!hook.end().stdout.contains("interrupt"));
    let rule = json!({"type": "addRules", "behavior": "allow", "destination": "userSettings",
                      "rules": [{"toolName": "Bash", "ruleContent": "npm run:*"}]});
    let asked = with(
        permission("npm run x"),
        "permission_suggestions",
        json!([rule]),
    );
    for (label, remembers) in [("Yes", false), ("Yes, for this session", true)] {
        let hook = start("claude-code", &asked);
        let question = server.question();
        server.choose(&question, label);
        if remembers {
            let scope = server.question();
            server.choose(&scope, SUBAGENT);
        }
        let ended = hook.end();
        ended.allowed();
        let told = &ended.json()["hookSpecificOutput"]["decision"]["updatedPermissions"];
        if remembers {
            assert_eq!(told[0]["destination"], "session");
        } else {
            assert_eq!(told, &Value::Null);
        }
    }
}

#[test]
fn codex_is_told_what_it_takes_and_no_more() {
    let spool = TestSpool::new();
    let rules =
        json!({"bash": {"ls *": "allow", "rm *": "deny"}, "outside_sandbox": {"ls *": "allow"}});
    let _server = spool.serve_headless("main", &rules);
    let exec = |command: &str| with(bash(command), "permission_mode", json!("bypassPermissions"));
    // An allow there would grant nothing, so nothing is said.
    spool.hook("codex", &exec("ls -l")).left();
    let denied = spool.hook("codex", &exec("rm x"));
    denied.denied("rm *");
    assert_eq!(
        denied.json()["hookSpecificOutput"]
            .as_object()
            .unwrap()
            .keys()
            .collect::<Vec<_>>(),
        [
            "hookEventName",
            "permissionDecision",
            "permissionDecisionReason"
        ]
    );
    spool
        .hook("codex", &exec("make"))
        .denied("nobody is there to ask");
    let allowed = spool.hook("codex", &permission("ls -l"));
    assert_eq!(
        allowed.json(),
        json!({"hookSpecificOutput": {"hookEventName": "PermissionRequest", "decision": {"behavior": "allow"}}})
    );
}

#[test]
fn gemini_has_one_gate_and_everything_that_does_more_than_look_comes_through_it() {
    let spool = TestSpool::new();
    let mut server = spool.serve_select("main", &json!({"bash": {"ls *": "allow"}}));
    let before = |tool: &str, input: Value| json!({"session_id": "G", "cwd": "/srv/shop", "hook_event_name": "BeforeTool", "tool_name": tool, "tool_input": input});
    let allowed = spool.hook(
        "gemini",
        &before("run_shell_command", json!({"command": "ls -l"})),
    );
    assert_eq!(allowed.json(), json!({"decision": "allow"}));
    spool
        .hook("gemini", &before("read_file", json!({"file_path": "a"})))
        .left();
    let hook = spool.start_hook(
        "gemini",
        &before("run_shell_command", json!({"command": "make"})),
    );
    server.answer("make", "No");
    let denied = hook.end();
    denied.denied("Denied by the user");
    assert_eq!(denied.json()["decision"], "deny");
}

#[test]
fn a_hook_writes_nothing_beside_the_spool_and_the_log() {
    let spool = TestSpool::new();
    let _server = spool.serve_headless("main", &json!({"bash": "allow"}));
    spool.claude(&bash("ls")).allowed();
    assert_eq!(names(&spool.work()), Vec::<String>::new());
    assert_eq!(names(&spool.below("home")), Vec::<String>::new());
}

//! pi with our extension, and pi with the peer's package in front of our session. Run by `tests/peers/run --all`.

use serde_json::{Value, json};

use crate::agents::words;
use crate::model::Move;
use crate::shims::{self, Host, Scene, ask, rule, shell};
use crate::support::{Choice, Process};

const HOST: Host = Host::Pi;

#[test]
#[ignore = "run by tests/peers/run --all"]
fn a_rule_allows_it() {
    shims::a_rule_allows_it(HOST);
}

#[test]
#[ignore = "run by tests/peers/run --all"]
fn a_rule_denies_it_and_the_model_reads_why() {
    shims::a_rule_denies_it(HOST);
}

#[test]
#[ignore = "run by tests/peers/run --all"]
fn a_person_approves_and_denies_with_a_reason() {
    shims::a_person_approves_and_denies_with_a_reason(HOST);
}

#[test]
#[ignore = "run by tests/peers/run --all"]
fn nobody_serves_and_the_call_does_not_run() {
    shims::nobody_serves(HOST);
}

#[test]
#[ignore = "run by tests/peers/run --all"]
fn whatever_is_no_answer_keeps_the_call_from_running() {
    shims::whatever_is_no_answer_keeps_the_call_from_running(HOST);
}

#[test]
#[ignore = "run by tests/peers/run --all"]
fn the_host_is_killed_and_the_ask_is_taken_back() {
    shims::the_host_is_killed(HOST);
}

#[test]
#[ignore = "run by tests/peers/run --all"]
fn a_file_outside_is_asked_about_and_one_inside_is_not() {
    let scene = Scene::new(HOST, |turn| {
        let read = |path: &str| vec![Move::Call("read", json!({ "path": path }))];
        turn.after([read("inside.txt"), read("/etc/hostname")])
    });
    scene.spool.write("work/inside.txt", "what is inside\n");
    let _server = scene.serve("headless", &json!({}));
    let seen = scene.run(|| {});
    assert!(seen.told[0].contains("what is inside"), "{seen:?}");
    assert!(seen.told[1].contains("[askrelay]"), "{seen:?}");
}

/// Another extension, loaded after ours, would have something else run than what was asked about.
#[test]
#[ignore = "run by tests/peers/run --all"]
fn what_was_asked_about_is_what_runs() {
    let scene = Scene::of(HOST, vec![shell("touch ran")]);
    scene.spool.write(
        "pi/extensions/z.ts",
        r#"export default (pi: any) => pi.on("tool_call", (event: any) => { event.input.command = "touch other"; });"#,
    );
    let _server = scene.serve("headless", &rule("touch ran", "allow"));
    let seen = scene.run(|| {});
    assert!(!scene.has("other"), "{seen:?}");
}

#[test]
#[ignore = "run by tests/peers/run --all"]
fn a_turn_that_is_aborted_takes_its_ask_back() {
    let scene = Scene::of(HOST, vec![shell("touch ran")]);
    let _server = scene.serve("select", &ask());
    let mut run = scene.command();
    run.args(["--mode", "rpc", "--model", "mock/mock-model"]);
    let mut host = Process::start_quietly("pi", run);
    host.say(r#"{"type":"prompt","message":"go"}"#);
    scene.requests(1);
    host.say(r#"{"type":"abort"}"#);
    scene.nothing_waits();
    assert!(!scene.has("ran"));
}

#[test]
#[ignore = "run by tests/peers/run --all"]
fn an_agent_that_a_command_starts_is_shown_below_the_session_that_runs_it() {
    shims::an_agent_that_a_command_starts(HOST);
}

/// A launcher of subagents names a session of pi as the parent, which serves nobody.
#[test]
#[ignore = "run by tests/peers/run --all"]
fn a_subagent_asks_the_session_that_serves_and_is_shown_below_its_parent() {
    let scene = Scene::of(HOST, vec![shell("touch ran")]);
    let mut server = scene.serve("select", &ask());
    let mut run = scene.headless();
    run.env("PI_SUBAGENT_CHILD", "1")
        .env("PI_SUBAGENT_PARENT_SESSION", "the-root")
        .env("PI_SUBAGENT_CHILD_AGENT", "scout");
    let host = Process::start_unattended("pi", run);
    let seen = scene.finish(host, || {
        let request = scene.requests(1).remove(0);
        assert_eq!(request["requesterSessionId"], "the-root", "{request}");
        assert_eq!(
            request["accessIntent"]["principal"]["agentName"], "scout",
            "{request}"
        );
        server.choose(Choice::Approve);
    });
    assert!(scene.has("ran"), "{seen:?}");
}

/// A pi whose only gate is the peer's package, as a child of our session, through the peer's own spool.
fn with_the_package(scene: &Scene, permission: &Value) -> Process {
    let config = json!({ "permission": permission });
    scene
        .spool
        .write_json("pi/extensions/pi-permission-system/config.json", &config);
    std::fs::remove_file(scene.spool.home().join("pi/extensions/askrelay.ts")).unwrap();
    let cli = words("pi").pop().unwrap();
    let modules = cli
        .ancestors()
        .find(|path| path.ends_with("node_modules"))
        .unwrap();
    let package = modules.join("@gotgenes/pi-permission-system/src/index.ts");
    let host = scene.headless();
    let mut launch = scene.spool.askrelay("launch");
    launch.args(["--session", "main", "--agent", "scout", "--"]);
    launch
        .arg(host.get_program())
        .args(host.get_args())
        .arg("-e")
        .arg(package)
        .current_dir(scene.spool.work())
        .envs(
            host.get_envs()
                .filter_map(|(name, value)| Some((name, value?))),
        );
    Process::start_unattended("pi", launch)
}

#[test]
#[ignore = "run by tests/peers/run --all"]
fn a_child_with_the_peers_package_is_answered_by_our_session() {
    let scene = Scene::new(HOST, |turn| {
        turn.after(["touch fine", "touch one", "touch two"].map(|line| vec![shell(line)]))
    });
    let spool = scene.spool.home().join("pi/sessions/permission-forwarding");
    std::fs::create_dir_all(spool.parent().unwrap()).unwrap();
    std::os::unix::fs::symlink(scene.spool.root(), &spool).unwrap();
    let mut server = scene.serve("select", &json!({}));
    let host = with_the_package(
        &scene,
        &json!({ "*": "allow", "bash": { "*": "ask", "touch fine": "allow" } }),
    );
    let seen = scene.finish(host, || {
        server.choose(Choice::Approve);
        server.choose(Choice::DenyWithReason);
        server.say("two is too many");
    });
    assert!(
        scene.has("fine") && scene.has("one") && !scene.has("two"),
        "{seen:?}"
    );
    assert!(seen.told[2].contains("two is too many"), "{seen:?}");
}

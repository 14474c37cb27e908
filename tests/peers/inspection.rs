//! A spool that only the peer has written: what our inspecting commands say of it, and that they leave it as it is.

use crate::support::{TempSpool, until};

#[test]
fn a_pending_ask_of_the_peer_can_be_looked_at() {
    let spool = TempSpool::new();
    let _child = spool.their_child("P", "C", &["--command", "make deploy", "--agent", "scout"]);
    until("the peer's child has asked", || {
        !spool.waiting("P").is_empty()
    });
    let id = spool.waiting("P").remove(0);
    let before = spool.contents();

    let output = |command: &str, args: &[&str]| {
        let done = spool.askrelay(command).args(args).output().unwrap();
        let stdout = String::from_utf8(done.stdout).unwrap();
        assert!(
            done.status.success(),
            "{command}: {stdout}{}",
            String::from_utf8_lossy(&done.stderr)
        );
        stdout
    };
    let listed = output("ls", &["--json"]);
    let line: serde_json::Value = serde_json::from_str(listed.lines().next().unwrap()).unwrap();
    assert_eq!(listed.lines().count(), 1, "{listed}");
    assert!(line.to_string().contains(&id), "{line}");
    assert!(output("ls", &[]).contains("make deploy"));
    let shown = output("show", &[&id]);
    for part in ["make deploy", "scout", &id] {
        assert!(shown.contains(part), "{part} is missing in {shown}");
    }
    assert!(output("status", &[]).contains('P'));

    assert_eq!(spool.contents(), before);
}

/// A heartbeat is all that our commands could tell a live server by, and the peer has none: they must not call it served.
#[test]
fn a_session_without_a_heartbeat_is_not_called_served() {
    let spool = TempSpool::new();
    let mut server = spool.their_server("P", &["--answer", "hold"]);
    let _child = spool.their_child("P", "C", &["--command", "make deploy"]);
    server.event("question");
    let done = spool.askrelay("status").arg("--json").output().unwrap();
    let stdout = String::from_utf8(done.stdout).unwrap();
    assert!(done.status.success(), "{stdout}");
    let lines = stdout
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let sessions: Vec<_> = lines.filter(|line| line["type"] == "session").collect();
    assert_eq!(sessions.len(), 1, "{stdout}");
    assert_eq!(
        (&sessions[0]["session"], &sessions[0]["served"]),
        (&"P".into(), &"no".into())
    );
}

//! What the tests of grants share: how one is given, seen and taken back.

use std::path::PathBuf;

use serde_json::Value;

use super::processes::{Ended, Server, run};
use super::spool::TestSpool;

/// Label of the scope of one subagent, and of all.
pub(crate) const SUBAGENT: &str = "This subagent only";
pub(crate) const SESSION: &str = "The whole session, parent and all subagents";

impl TestSpool {
    /// Has what this ask suggests granted for the session, at this scope.
    #[track_caller]
    pub(crate) fn grant(
        &self,
        server: &mut Server,
        (session, id): (&str, &str),
        (value, pattern): (&str, &str),
        scope: &str,
    ) -> Ended {
        let ask = self.ask("P").from(session).id(id).value(value);
        let child = ask.grant(&format!("bash={pattern}")).start();
        let question = server.question();
        assert!(question.text.contains(value), "{}", question.text);
        server.choose(&question, "Yes, for this session");
        let question = server.question();
        server.choose(&question, scope);
        let ended = child.end();
        ended.approved();
        // It is in force a moment after its answer is out.
        self.await_grants("P", |grants| {
            grants.iter().any(|grant| grant["requestId"] == id)
        });
        ended
    }

    /// The grants of a session, as `ls --grants` tells of them.
    pub(crate) fn grants(&self, session: &str) -> Vec<Value> {
        let mut command = self.relay();
        command.args(["ls", "--grants", "--json", "--session", session]);
        let (code, stdout, stderr) = run(&mut command);
        assert_eq!(code, 0, "{stderr}");
        stdout
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    #[track_caller]
    pub(crate) fn await_grants(&self, session: &str, hold: impl Fn(&[Value]) -> bool) {
        super::spool::until("these grants", || hold(&self.grants(session)));
    }

    /// `askrelay revoke`: exit code, what it prints, what it says.
    pub(crate) fn revoke(&self, args: &[&str]) -> (i32, String, String) {
        let mut command = self.relay();
        run(command.arg("revoke").args(args))
    }

    pub(crate) fn grant_path(&self, session: &str, name: &str) -> PathBuf {
        self.root().join("grants").join(session).join(name)
    }

    /// Numbers of the grants that the approval of an ask rests on, as the log says.
    pub(crate) fn rests_on(&self, id: &str) -> Value {
        self.await_event("forwarded_permission.auto_approved", id)["grantIds"].clone()
    }
}

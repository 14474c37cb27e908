//! Whether the host still lives. Nobody tells a hook that its host has ended: it would ask on for somebody who is gone.
//!
//! The host is whoever has started the hook, or has started the shell that did. What a variable of the environment says counts only where
//! it says the same: it may have been handed down by a host that has nothing to do with this hook, and may have ended long ago.

use std::time::Duration;

use crate::cli::env::{self, Env};
use crate::host::hook::Host;
use crate::process::{self, Life};
use crate::wire::ProcessMark;

/// How often it is looked.
const EVERY: Duration = Duration::from_secs(1);

/// Shells that a host may start its hook through. One that waits for the hook outlives the host.
const SHELLS: [&str; 6] = ["sh", "bash", "dash", "zsh", "ash", "ksh"];

/// How far up the host may be.
const MAX_ABOVE: usize = 16;

/// The processes without which nobody waits for the hook.
pub(super) struct Hosts {
    parent: Option<u32>,
    known: Vec<(u32, ProcessMark)>,
}

impl Hosts {
    /// Those that live now. Later one of them may have gone unseen, so this comes first.
    pub(super) fn of(env: &Env, host: Host) -> Self {
        let named = named(host, env.text(env::CLAUDE_PID).as_deref());
        Self::above(process::parent_pid(), named)
    }

    /// Those above a hook with this parent; `named`: the one that calls itself its host.
    fn above(parent: Option<u32>, named: Option<u32>) -> Self {
        let mut known = Vec::new();
        let (mut next, mut is_reached) = (parent, false);
        for _ in 0..MAX_ABOVE {
            let Some(pid) = next.filter(|pid| *pid > 1) else {
                break;
            };
            let above = process::name_and_parent(pid);
            if !is_reached || named == Some(pid) {
                known.extend(process::mark_of(pid).map(|mark| (pid, mark)));
            }
            is_reached |= !above
                .as_ref()
                .is_some_and(|(name, _)| SHELLS.contains(&name.as_str()));
            next = above.map(|(_, parent)| parent);
        }
        Self { parent, known }
    }

    /// Comes to an end when one of them has.
    pub(super) async fn are_gone(&self) {
        loop {
            tokio::time::sleep(EVERY).await;
            let is_dead =
                |(pid, mark): &(u32, ProcessMark)| process::life(*pid, mark) == Life::Dead;
            if process::parent_pid() != self.parent || self.known.iter().any(is_dead) {
                return;
            }
        }
    }
}

/// The process that this host calls itself; `claude_pid`: what Claude Code says to whatever it starts.
fn named(host: Host, claude_pid: Option<&str>) -> Option<u32> {
    match host {
        Host::ClaudeCode => claude_pid?.parse().ok(),
        Host::Codex | Host::Gemini | Host::Opencode | Host::Pi => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pids(hosts: &Hosts) -> Vec<u32> {
        hosts.known.iter().map(|(pid, _)| *pid).collect()
    }

    #[test]
    fn a_process_that_is_named_and_is_none_of_those_above_is_no_host() {
        let mut beside = std::process::Command::new("sleep")
            .arg("600")
            .spawn()
            .unwrap();
        let own = process::own_pid();
        let by_itself = pids(&Hosts::above(Some(own), None));
        assert_eq!(by_itself, [own]);
        // One that lives elsewhere, one that never was, and this one.
        for named in [beside.id(), u32::MAX - 1, own] {
            assert_eq!(pids(&Hosts::above(Some(own), Some(named))), by_itself);
        }
        beside.kill().unwrap();
        beside.wait().unwrap();
        assert_eq!(pids(&Hosts::above(Some(own), Some(beside.id()))), by_itself);
    }

    #[test]
    fn a_host_that_is_named_is_known_beyond_the_process_that_has_started_the_hook() {
        let own = process::own_pid();
        let above = process::parent_pid().unwrap();
        let hosts = Hosts::above(Some(own), Some(above));
        assert_eq!(pids(&hosts), [own, above]);
    }

    #[test]
    fn only_claude_code_names_itself_as_a_host() {
        for host in [Host::Codex, Host::Gemini, Host::Opencode, Host::Pi] {
            assert_eq!(named(host, Some("7")), None);
        }
        assert_eq!(named(Host::ClaudeCode, Some("7")), Some(7));
        assert_eq!(named(Host::ClaudeCode, Some("x")), None);
        assert_eq!(named(Host::ClaudeCode, None), None);
    }
}

//! Whether the host still lives. Nobody tells a hook that its host has ended: it would ask on for somebody who is gone.

use std::time::Duration;

use crate::cli::env::Env;
use crate::process::{self, Life};

/// How often it is looked.
const EVERY: Duration = Duration::from_secs(1);

/// Shells that a host may start its hook through. One that waits for the hook outlives the host.
const SHELLS: [&str; 6] = ["sh", "bash", "dash", "zsh", "ash", "ksh"];

/// The processes that a hook has no reason to outlive.
pub(super) struct Hosts {
    parent: Option<u32>,
    pids: Vec<u32>,
}

/// Looks who they are. Later one of them may have gone unseen, so this comes first.
pub(super) fn hosts(env: &Env) -> Hosts {
    let parent = process::parent_pid();
    let mut hosts: Vec<u32> = env
        .text("CLAUDE_PID")
        .and_then(|pid| pid.parse().ok())
        .into_iter()
        .collect();
    let mut next = parent;
    while let Some(pid) = next.filter(|pid| *pid > 1) {
        if !hosts.contains(&pid) {
            hosts.push(pid);
        }
        next = process::name_and_parent(pid)
            .filter(|(name, _)| SHELLS.contains(&name.as_str()))
            .map(|(_, parent)| parent);
    }
    Hosts {
        parent,
        pids: hosts,
    }
}

/// Comes to an end when one of them has.
pub(super) async fn one_is_gone(hosts: &Hosts) {
    loop {
        tokio::time::sleep(EVERY).await;
        let is_gone = |pid: &u32| process::exists(*pid) == Life::Dead;
        if process::parent_pid() != hosts.parent || hosts.pids.iter().any(is_gone) {
            return;
        }
    }
}

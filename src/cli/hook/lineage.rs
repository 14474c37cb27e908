//! Who asks, where a hook asks: the host's session, and the sessions that it was started in.
//!
//! A hook is a new process for each call, so it goes by the host's session and not by an id of its own: what is granted to a session
//! holds for all its hooks. A host that was started by the tool of another one has that one's session in the environment that it was
//! started with; its own hooks do not, for it puts its own in its place.

use std::borrow::Cow;

use crate::cli::env::{self, Env};
use crate::cli::forward::Who;
use crate::host::hook::{Asking, Host};
use crate::process;
use crate::wire::Hop;

/// Most sessions of hosts, one started in another, that are named.
const MAX_NESTED: usize = 4;

const GEMINI_SESSION: &str = "GEMINI_SESSION_ID";

/// The session of opencode that runs a command. Our plugin sets it.
const OPENCODE_SESSION: &str = "ASKRELAY_OPENCODE_SESSION";
/// The session of pi that runs a command.
const PI_SESSION: &str = "PI_SESSION_ID";
/// What launchers of pi call the agent that they start.
const PI_AGENTS: [&str; 2] = ["PI_SUBAGENT_CHILD_AGENT", "PI_SUBAGENT_NAME"];

/// The environment that says whom a hook asks. What launchers of pi say of a parent is a session of pi, and that serves nobody; it is
/// shown above the child, and whoever pi was started below is asked.
pub(super) fn env(env: &Env, host: Host) -> Cow<'_, Env> {
    if host != Host::Pi {
        return Cow::Borrowed(env);
    }
    let names = env::PEER_PARENTS.iter().chain(&env::CHILD_HINTS);
    Cow::Owned(env.without(names.copied()))
}

/// What a launcher calls what its operator has not named.
const UNNAMED: &str = "unknown";

/// Who asks.
pub(super) fn who(env: &Env, host: Host, asking: &Asking) -> Who {
    let named = env.text(env::AGENT);
    let launched = launched(env).filter(|own| *own != asking.session);
    let by_launcher = PI_AGENTS
        .iter()
        .filter(|_| host == Host::Pi)
        .find_map(|name| env.text(name));
    // A launcher of pi says what the subagent is that it starts. Else the name counts that the host has for its agent: rules that were
    // written for that one hold for it, whoever launched the host. Where it has none, the operator's does.
    let agent_name = by_launcher
        .or_else(|| asking.agent_name.clone())
        .or_else(|| named.clone().filter(|name| name != UNNAMED))
        .unwrap_or_else(|| host.name().to_owned());
    let mut sessions = vec![Hop {
        session_id: asking.session.clone(),
        agent_name,
    }];
    sessions.extend(outer_sessions(env, host, &asking.session));
    sessions.extend(launched.map(|session_id| Hop {
        session_id,
        agent_name: named.unwrap_or_else(|| host.name().to_owned()),
    }));
    let own = sessions.pop();
    Who {
        from: own.as_ref().map(|own| own.session_id.clone()),
        agent: own.map(|own| own.agent_name),
        within: sessions,
        is_hook: true,
        ..Who::default()
    }
}

/// The session that a launcher gave to the process that the host is. One that has no parent is a session that is served, and not the
/// host's.
fn launched(env: &Env) -> Option<String> {
    env.text(env::PARENT_SESSION)?;
    env.text(env::SESSION)
}

/// The sessions of hosts that this one was started in, innermost first.
fn outer_sessions(env: &Env, host: Host, own: &str) -> Vec<Hop> {
    let mut found: Vec<Hop> = Vec::new();
    let mut add = |session: Option<String>, host: Host| {
        let Some(session_id) = session else { return };
        let is_known = session_id == own || found.iter().any(|hop| hop.session_id == session_id);
        if !is_known && found.len() < MAX_NESTED {
            found.push(Hop {
                session_id,
                agent_name: host.name().to_owned(),
            });
        }
    };
    if host == Host::Pi {
        let launcher = env.text(env::PARENT_SESSION);
        for name in env::PEER_PARENTS {
            add(
                env.text(name)
                    .filter(|named| Some(named) != launcher.as_ref()),
                Host::Pi,
            );
        }
    }
    add(env.text(OPENCODE_SESSION), Host::Opencode);
    add(env.text(PI_SESSION), Host::Pi);
    // Of another host's hook this is the session around it; of its own it is the session itself.
    add(env.text(env::CLAUDE_SESSION), Host::ClaudeCode);
    if host != Host::Gemini {
        add(env.text(GEMINI_SESSION), Host::Gemini);
    }
    let mut pid = env.text(env::CLAUDE_PID).and_then(|pid| pid.parse().ok());
    for _ in 0..MAX_NESTED {
        let Some(claude) = pid else { break };
        let [session, outer] =
            process::started_with(claude, [env::CLAUDE_SESSION, env::CLAUDE_PID]);
        add(session, Host::ClaudeCode);
        pid = outer
            .and_then(|pid| pid.parse().ok())
            .filter(|outer| *outer != claude);
    }
    found
}

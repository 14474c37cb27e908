//! Who this process is, and whom it asks, each with its reason.

use super::env::{self, Env};
use crate::ask::{Candidate, CandidateKind, NoParent, Target, resolve};
use crate::wire::{Hop, RequestId};

/// An id, and where it comes from.
pub(super) struct Own {
    pub(super) id: String,
    pub(super) reason: String,
}

/// The own session of a requester: named, or minted for this one ask.
pub(super) fn requester(env: &Env, flag: Option<&str>) -> Own {
    if let Some(id) = flag {
        return Own {
            id: id.to_owned(),
            reason: "--from".to_owned(),
        };
    }
    match env.text(env::SESSION) {
        Some(id) => Own {
            id,
            reason: env::SESSION.to_owned(),
        },
        None => Own {
            id: minted(),
            reason: "minted".to_owned(),
        },
    }
}

/// A fresh session id.
pub(super) fn minted() -> String {
    let mut random = [0; 16];
    match getrandom::fill(&mut random) {
        Ok(()) => RequestId::mint(random)
            .as_str()
            .replacen("perm-", "ask-", 1),
        // Without randomness it is still unique among the living.
        Err(_) => format!("ask-{}", crate::process::own_pid()),
    }
}

/// The session that is served.
pub(super) fn served(env: &Env, flag: Option<&str>, default: &str) -> Own {
    if let Some(id) = flag {
        return Own {
            id: id.to_owned(),
            reason: "--session".to_owned(),
        };
    }
    match env.text(env::SESSION) {
        Some(id) => Own {
            id,
            reason: env::SESSION.to_owned(),
        },
        None => Own {
            id: default.to_owned(),
            reason: "the default".to_owned(),
        },
    }
}

/// The session that a requester asks. Only a process that is nobody's child falls back on the default.
pub(super) fn asked(
    env: &Env,
    flag: Option<&str>,
    default: &str,
    own_id: &str,
) -> Result<Target, NoParent> {
    let mut candidates = Vec::new();
    if let Some(id) = flag {
        candidates.push(Candidate {
            source: "--session".into(),
            value: Some(id.into()),
            kind: CandidateKind::Named,
        });
    } else {
        candidates.extend(parent_variables(env));
        let default = Candidate {
            source: "the default".into(),
            value: Some(default.into()),
            kind: CandidateKind::Default,
        };
        candidates.push(default);
    }
    resolve(&candidates, own_id, env.child_hint())
}

/// The parent of a session that is served: only where a variable names one.
pub(super) fn parent_of_served(env: &Env, own_id: &str) -> Result<Target, NoParent> {
    resolve(&parent_variables(env), own_id, None)
}

fn parent_variables(env: &Env) -> Vec<Candidate> {
    [env::PARENT_SESSION]
        .into_iter()
        .chain(env::PEER_PARENTS)
        .map(|name| Candidate {
            source: name.to_owned(),
            value: env.text(name),
            kind: CandidateKind::Named,
        })
        .collect()
}

/// The sessions above this process, outermost first. A value that nobody could have written by mistake in part is dropped
/// whole.
pub(super) fn lineage(env: &Env) -> Vec<Hop> {
    env.text(env::LINEAGE)
        .and_then(|text| parse_lineage(&text))
        .unwrap_or_default()
}

fn parse_lineage(text: &str) -> Option<Vec<Hop>> {
    let value: serde_json::Value = serde_json::from_str(text).ok()?;
    value
        .as_array()?
        .iter()
        .map(|hop| {
            Some(Hop {
                session_id: hop.get("sessionId")?.as_str()?.to_owned(),
                agent_name: hop.get("agentName")?.as_str()?.to_owned(),
            })
        })
        .collect()
}

/// The lineage as a variable's value.
pub(super) fn lineage_text(hops: &[Hop]) -> String {
    serde_json::to_string(hops).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lineage_reads_back_and_a_broken_one_is_none() {
        let hops: Vec<Hop> = (0..20)
            .map(|n| Hop {
                session_id: format!("s{n}"),
                agent_name: "a\"b".into(),
            })
            .collect();
        assert_eq!(parse_lineage(&lineage_text(&hops)), Some(hops));
        for broken in ["", "7", "[7]", "[{\"sessionId\":\"x\"}]"] {
            assert_eq!(parse_lineage(broken), None);
        }
    }
}

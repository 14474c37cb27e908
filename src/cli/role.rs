//! Who this process is, and whom it asks, each with its reason.

use super::Hinted;
use super::env::{self, Env};
use crate::ask::{Candidate, CandidateKind, NoParent, Target, resolve};
use crate::wire::{Hop, RequestId, ServingKey};
use serde_json::{Value, json};

/// The reason where nobody named a session.
pub(super) const DEFAULT: &str = "the default";

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
            reason: DEFAULT.to_owned(),
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
            source: DEFAULT.into(),
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

/// A session above this process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ancestor {
    pub(super) hop: Hop,
    /// The key that it seals with, where the launcher knew it.
    pub(super) key: Option<ServingKey>,
}

/// The sessions above this process, outermost first. A value that cannot be read is an error: it may name keys, and to go without
/// them is to believe anybody.
pub(super) fn lineage(env: &Env) -> anyhow::Result<Vec<Ancestor>> {
    let Some(text) = env.text(env::LINEAGE) else {
        return Ok(Vec::new());
    };
    parse_lineage(&text).ok_or_else(|| {
        Hinted::usage(
            format!("{} cannot be read", env::LINEAGE),
            "`askrelay launch` sets it; unset it where this process is nobody's child",
        )
    })
}

fn parse_lineage(text: &str) -> Option<Vec<Ancestor>> {
    let value: Value = serde_json::from_str(text).ok()?;
    let text = |hop: &Value, key: &str| Some(hop.get(key)?.as_str()?.to_owned());
    value
        .as_array()?
        .iter()
        .map(|hop| {
            Some(Ancestor {
                hop: Hop {
                    session_id: text(hop, "sessionId")?,
                    agent_name: text(hop, "agentName")?,
                },
                key: match hop.get("servingKey") {
                    None => None,
                    Some(key) => Some(key.as_str()?.parse().ok()?),
                },
            })
        })
        .collect()
}

/// The lineage as a variable's value.
pub(super) fn lineage_text(ancestors: &[Ancestor]) -> String {
    let hops = ancestors.iter().map(|ancestor| {
        let Hop {
            session_id,
            agent_name,
        } = &ancestor.hop;
        let mut hop = json!({"sessionId": session_id, "agentName": agent_name});
        if let (Some(key), Some(hop)) = (&ancestor.key, hop.as_object_mut()) {
            hop.insert("servingKey".to_owned(), key.to_string().into());
        }
        hop
    });
    hops.collect::<Value>().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lineage_reads_back_and_a_broken_one_is_none() {
        let key = super::super::pin::tests::key(1);
        let ancestors: Vec<Ancestor> = (0..20)
            .map(|n| Ancestor {
                hop: Hop {
                    session_id: format!("s{n}"),
                    agent_name: "a\"b".into(),
                },
                key: (n % 2 == 0).then(|| key.clone()),
            })
            .collect();
        assert_eq!(parse_lineage(&lineage_text(&ancestors)), Some(ancestors));
        for broken in [
            "",
            "7",
            "[7]",
            "[{\"sessionId\":\"x\"}]",
            r#"[{"sessionId":"x","agentName":"y","servingKey":"z"}]"#,
        ] {
            assert_eq!(parse_lineage(broken), None);
        }
    }
}

//! Which session is asked, and why that one.
//!
//! Pure: the candidates come in as values, in the order in which they count. A candidate that names the requester itself is
//! no parent, for a launcher may export the variable into the root's own process.

use crate::wire::SessionId;

/// A named place that may say which session is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// Where it stands: a flag, a variable, a key of the configuration.
    pub source: String,
    /// Its value; `None` where nothing is set there.
    pub value: Option<String>,
    /// What it is.
    pub kind: CandidateKind,
}

/// How much a candidate says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CandidateKind {
    /// Somebody named a session.
    Named,
    /// The default where nobody did. It does not count for a process that is marked as somebody's child.
    Default,
}

/// The session that is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Its id.
    pub session: SessionId,
    /// Where it was named, for a person.
    pub reason: String,
}

/// Nobody can be asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no parent session is known: {}", .tried.join("; "))]
pub struct NoParent {
    /// Every place that was looked at, with what was found there.
    pub tried: Vec<String>,
}

/// Resolves the session that `own_id` asks. `child_hint` names the variable, if any, that marks this process as a child.
pub fn resolve(
    candidates: &[Candidate],
    own_id: &str,
    child_hint: Option<&str>,
) -> Result<Target, NoParent> {
    let mut tried = Vec::new();
    let mut somebody_was_named = child_hint.is_some();
    for Candidate {
        source,
        value,
        kind,
    } in candidates
    {
        if *kind == CandidateKind::Default && somebody_was_named {
            tried.push(format!(
                "{source}: not used, for this process is somebody's child"
            ));
            continue;
        }
        let Some(value) = value else {
            tried.push(format!("{source} is not set"));
            continue;
        };
        match SessionId::parse(value) {
            Ok(session) if session.as_str() == crate::wire::trim(own_id) => {
                tried.push(format!("{source} names this session itself"));
                somebody_was_named = true;
            }
            Ok(session) => {
                return Ok(Target {
                    session,
                    reason: source.clone(),
                });
            }
            Err(error) => {
                tried.push(format!("{source} is {value:?}: {error}"));
                somebody_was_named = true;
            }
        }
    }
    if let Some(hint) = child_hint {
        tried.push(format!("{hint} marks this process as a child"));
    }
    Err(NoParent { tried })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidates(values: [Option<&str>; 3]) -> Vec<Candidate> {
        let named = ["FIRST", "SECOND", "THIRD"]
            .into_iter()
            .zip(values)
            .map(|(source, value)| Candidate {
                source: source.into(),
                value: value.map(str::to_owned),
                kind: CandidateKind::Named,
            });
        let default = Candidate {
            source: "default".into(),
            value: Some("main".into()),
            kind: CandidateKind::Default,
        };
        named.chain([default]).collect()
    }

    #[test]
    fn the_first_that_names_somebody_wins() {
        let target = resolve(&candidates([None, Some("P"), Some("Q")]), "C", None).unwrap();
        assert_eq!(
            (target.session.as_str(), target.reason.as_str()),
            ("P", "SECOND")
        );
        let target = resolve(&candidates([Some("UNKNOWN"), Some(" P "), None]), "C", None).unwrap();
        assert_eq!(target.session.as_str(), "P");
    }

    #[test]
    fn the_own_id_is_no_parent_and_nobody_else_is_taken_for_one() {
        let error = resolve(&candidates([Some("C"), None, None]), "C", None).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("FIRST names this session itself"),
            "{error}"
        );
        assert!(error.to_string().contains("SECOND is not set"), "{error}");
    }

    #[test]
    fn the_default_is_for_those_who_are_nobodys_child() {
        assert_eq!(
            resolve(&candidates([None, None, None]), "C", None)
                .unwrap()
                .session
                .as_str(),
            "main"
        );
        let error =
            resolve(&candidates([None, None, None]), "C", Some("PI_IS_SUBAGENT")).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("PI_IS_SUBAGENT marks this process"),
            "{error}"
        );
        assert!(resolve(&candidates([None, None, None]), "main", None).is_err());
    }
}

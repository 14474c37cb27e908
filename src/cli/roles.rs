//! What this process is among the sessions, each answer with its reason: whether it is somebody's child, whom it asks, how it would
//! serve, and who would decide what its rules leave open.
//!
//! A launcher may export its markers into the root's own process. So a variable that names the own session marks nobody, and whether
//! somebody can be asked here is told by the streams of this process alone, never by a variable.
//!
//! It looks and tells; what `ask` and `serve` do is decided where they do it, by the same functions.

use std::io::IsTerminal as _;

use serde_json::{Map, Value, json};

use super::env::Env;
use super::role::{self, Own};
use super::serve;
use crate::ask::{NoParent, Target, Trust};
use crate::wire::SessionId;

/// What this process is.
pub(super) struct Roles {
    child: Result<String, String>,
    above: Result<Target, NoParent>,
    served: Option<Served>,
    mode: (&'static str, &'static str),
    decides: (&'static str, String),
}

/// Whether the session above is served, as far as one look can tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Served {
    /// It is.
    Yes,
    /// It is not, or that cannot be told.
    No(&'static str),
}

impl Roles {
    /// Looks. `served` tells whether a session is served, `trust` whose answers count where it is asked, `chain` names the links that
    /// would be asked here.
    pub(super) fn of(
        env: &Env,
        own: &Own,
        served: impl Fn(&SessionId) -> Served,
        trust: impl Fn(&SessionId) -> Trust,
        chain: &[String],
    ) -> Self {
        let above = role::parent_of_served(env, &own.id);
        let served = above.as_ref().ok().map(|target| served(&target.session));
        let believed = above.as_ref().ok().map(|target| trust(&target.session));
        let mode = mode(env);
        Self {
            child: child(env, &above),
            decides: decides(&above, served, believed.as_ref(), mode.0, chain),
            above,
            served,
            mode,
        }
    }

    /// As rows of text.
    pub(super) fn rows(&self) -> Vec<String> {
        let child = match &self.child {
            Ok(why) => format!("child    yes: {why}"),
            Err(why) => format!("child    no: {why}"),
        };
        let above = match (&self.above, self.served) {
            (Ok(target), Some(Served::Yes)) => format!(
                "above    {}  (from {}), which is served",
                target.session, target.reason
            ),
            (Ok(target), Some(Served::No(why))) => format!(
                "above    {}  (from {}), which is not served: {why}",
                target.session, target.reason
            ),
            (Ok(target), None) => format!("above    {}  (from {})", target.session, target.reason),
            (Err(nobody), _) => format!("above    nobody: {}", nobody.tried.join("; ")),
        };
        let serves = format!("serves   {}: {}", self.mode.0, self.mode.1);
        let decides = format!("decides  {}", self.decides.1);
        [child, above, serves, decides].to_vec()
    }

    /// As members of a JSON object.
    pub(super) fn json(&self) -> Map<String, Value> {
        let value = json!({
            "child": self.child.is_ok(),
            "childFrom": match &self.child { Ok(why) | Err(why) => why },
            "above": self.above.as_ref().ok().map(|target| target.session.as_str()),
            "aboveFrom": self.above.as_ref().map_or_else(ToString::to_string, |target| target.reason.clone()),
            "aboveServed": self.served.map(|served| served == Served::Yes),
            "mode": self.mode.0,
            "modeFrom": self.mode.1,
            "decides": self.decides.0,
            "decidesFrom": self.decides.1,
        });
        match value {
            Value::Object(members) => members,
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::String(_)
            | Value::Array(_) => Map::new(),
        }
    }
}

/// Whether this process is somebody's child, and what says so.
fn child(env: &Env, above: &Result<Target, NoParent>) -> Result<String, String> {
    match (above, env.child_hint()) {
        (Ok(target), _) => Ok(format!(
            "{} names session \"{}\"",
            target.reason, target.session
        )),
        (Err(_), Some(hint)) => Ok(format!("{hint} is set")),
        (Err(_), None) => {
            Err("no variable names another session, and none marks a child".to_owned())
        }
    }
}

/// How this process would serve if nothing else were said.
fn mode(env: &Env) -> (&'static str, &'static str) {
    if serve::has_screen(env) {
        ("dialog", "stdin and stdout are a terminal")
    } else if std::io::stdin().is_terminal() {
        (
            "select",
            "stdin is a terminal, and stdout is none that can be drawn on",
        )
    } else {
        (
            "headless",
            "stdin is no terminal, so nobody can be asked here",
        )
    }
}

/// Who would decide what the rules of the served session leave open.
fn decides(
    above: &Result<Target, NoParent>,
    served: Option<Served>,
    trust: Option<&Trust>,
    mode: &str,
    chain: &[String],
) -> (&'static str, String) {
    let is_here = mode != "headless";
    let without = |why: String| {
        let links = chain.join(", ");
        match (is_here, chain.is_empty()) {
            (true, true) => ("person", format!("the person here: {why}")),
            (true, false) => (
                "person",
                format!("the chain of authorizers ({links}) and the person here: {why}"),
            ),
            (false, true) => (
                "nobody",
                format!(
                    "nobody, so it is denied as unavailable: {why}, and nobody can be asked here"
                ),
            ),
            (false, false) => (
                "chain",
                format!(
                    "the chain of authorizers ({links}); what it leaves open is denied as unavailable: \
                     {why}, and nobody can be asked here"
                ),
            ),
        }
    };
    let Ok(target) = above else {
        return without("there is no session above".to_owned());
    };
    let session = &target.session;
    if matches!(trust, Some(Trust::NoKey)) {
        return without(format!(
            "session \"{session}\" is not asked, for its key is not known and answers must be sealed"
        ));
    }
    match served {
        Some(Served::No(why)) if is_here => {
            without(format!("session \"{session}\" above is not served: {why}"))
        }
        Some(Served::Yes) if is_here => (
            "parent",
            format!("session \"{session}\" above, for it is served; else the person here"),
        ),
        Some(Served::Yes | Served::No(_)) | None => (
            "parent",
            format!("session \"{session}\" above, for nobody can be asked here"),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn above(name: Option<&str>) -> Result<Target, NoParent> {
        let session = name.map(|name| SessionId::parse(name).unwrap());
        session
            .map(|session| Target {
                session,
                reason: "VARIABLE".to_owned(),
            })
            .ok_or(NoParent { tried: Vec::new() })
    }

    #[test]
    fn who_decides_is_told_as_it_is_decided() {
        let who = |above, served, trust: Option<&Trust>, mode| {
            decides(&above, served, trust, mode, &[]).0
        };
        let any = Some(&Trust::Anybody);
        for (mode, alone, served, unserved) in [
            ("dialog", "person", "parent", "person"),
            ("select", "person", "parent", "person"),
            ("headless", "nobody", "parent", "parent"),
        ] {
            assert_eq!(who(above(None), None, None, mode), alone);
            assert_eq!(who(above(Some("P")), Some(Served::Yes), any, mode), served);
            let no = Some(Served::No("it has no heartbeat"));
            assert_eq!(who(above(Some("P")), no, any, mode), unserved);
            let no_key = Some(&Trust::NoKey);
            assert_eq!(
                who(above(Some("P")), Some(Served::Yes), no_key, mode),
                alone
            );
        }
        let judge = ["judge".to_owned()];
        let with_judge = |mode| decides(&above(None), None, None, mode, &judge);
        assert_eq!(with_judge("headless").0, "chain");
        assert_eq!(with_judge("dialog").0, "person");
        assert!(with_judge("dialog").1.contains("(judge)"));
    }
}

//! The answers that an agent offers with a request for permission, and what is made of a decision with them.

use std::collections::HashMap;

use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::message::Id;

/// The options of a request, in the agent's order.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Options(Vec<Offered>);

#[derive(Debug, Clone, PartialEq)]
struct Offered {
    id: String,
    kind: Kind,
}

/// What choosing an option means. One of a kind that is not known means nothing here and is never chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    AllowOnce,
    AllowAlways,
    RejectOnce,
    RejectAlways,
}

impl Options {
    /// The options of a request with these parameters.
    pub(super) fn of(params: &Value) -> Self {
        let options = params.get("options").and_then(Value::as_array);
        let offered = options.into_iter().flatten().filter_map(|option| {
            let id = option.get("optionId")?.as_str()?.to_owned();
            let kind = match option.get("kind")?.as_str()? {
                "allow_once" => Kind::AllowOnce,
                "allow_always" => Kind::AllowAlways,
                "reject_once" => Kind::RejectOnce,
                "reject_always" => Kind::RejectAlways,
                _ => return None,
            };
            Some(Offered { id, kind })
        });
        let offered: Vec<Offered> = offered.collect();
        // One id for two answers says neither.
        let is_clear = |one: &Offered| {
            let mut others = offered.iter();
            others.all(|other| other.id != one.id || other.kind == one.kind)
        };
        Self(
            offered
                .iter()
                .filter(|one| is_clear(one))
                .cloned()
                .collect(),
        )
    }

    /// The options of a request whose parameters cannot be read, as far as they can be told by themselves.
    pub(super) fn within(params: &str) -> Self {
        let members: HashMap<String, &RawValue> = serde_json::from_str(params).unwrap_or_default();
        let options = members.get("options");
        let options = options.and_then(|raw| serde_json::from_str(raw.get()).ok());
        Self::of(&json!({"options": options.unwrap_or(Value::Null)}))
    }

    fn first(&self, kind: Kind) -> Option<&str> {
        let found = self.0.iter().find(|offered| offered.kind == kind)?;
        Some(&found.id)
    }

    /// The option that allows, once or for longer. Where only "always" is offered, and once is meant, there is none.
    pub(super) fn approving(&self, always: bool) -> Option<&str> {
        let always = always.then(|| self.first(Kind::AllowAlways)).flatten();
        always.or_else(|| self.first(Kind::AllowOnce))
    }

    /// The answer that rejects: by the option for this once, else by the one for always, else as cancelled.
    pub(super) fn rejection(&self, id: &Id, why: &str) -> Vec<u8> {
        let once = self.first(Kind::RejectOnce);
        match once.or_else(|| self.first(Kind::RejectAlways)) {
            Some(option) => selected(id, option, Some(why)),
            None => cancelled(id, why),
        }
    }
}

/// The answer that an option was selected. The protocol has no place for a reason but the one for extensions.
pub(super) fn selected(id: &Id, option: &str, why: Option<&str>) -> Vec<u8> {
    answer(id, &json!({"outcome": "selected", "optionId": option}), why)
}

/// The answer that nothing was selected.
pub(super) fn cancelled(id: &Id, why: &str) -> Vec<u8> {
    answer(id, &json!({"outcome": "cancelled"}), Some(why))
}

fn answer(id: &Id, outcome: &Value, why: Option<&str>) -> Vec<u8> {
    let mut result = json!({"outcome": outcome});
    if let (Some(why), Some(result)) = (why, result.as_object_mut()) {
        result.insert("_meta".to_owned(), json!({"askrelay": {"reason": why}}));
    }
    line(&format!(
        r#"{{"jsonrpc":"2.0","id":{},"result":{result}}}"#,
        id.raw()
    ))
}

/// The answer that a request failed.
pub(super) fn error(id: &Id, code: i32, message: &str) -> Vec<u8> {
    let error = json!({"code": code, "message": message});
    line(&format!(
        r#"{{"jsonrpc":"2.0","id":{},"error":{error}}}"#,
        id.raw()
    ))
}

/// A message as one line, for every reader: some take these two for ends of lines, which stand only within texts.
pub(super) fn line(message: &str) -> Vec<u8> {
    let message = message
        .replace('\u{2028}', r"\u2028")
        .replace('\u{2029}', r"\u2029");
    format!("{message}\n").into_bytes()
}

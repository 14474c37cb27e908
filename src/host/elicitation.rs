//! MCP elicitation: forms as the protocol has them.
//!
//! A server may ask its client to put a form before whoever sits there, whenever it likes. The form is flat: one option to choose, and
//! perhaps a reason. What comes back is read strictly: only texts count, and what is none of the three actions is a failure.

use serde_json::{Map, Value, json};

use crate::presentation::form::{Form, Room};
use crate::prompt::FormReply;

/// What the ids of forms begin with; the SDK's own requests have numbers.
const ID: &str = "form-";

/// Longest reason that is asked for, in characters.
const MAX_REASON: u32 = 2000;

/// What Claude Code shows in a window of 80 columns and 24 rows: four rows, each cut at the width of the window.
const CLAUDE_CODE: Room = Room {
    rows: 4,
    columns: 74,
};

/// What it shows in one of 60 columns and 20 rows.
const CLAUDE_CODE_SMALL: Room = Room {
    rows: 2,
    columns: 50,
};

/// The hooks of Claude Code that answer its forms, or change what was answered.
const FORM_HOOKS: [&str; 2] = ["Elicitation", "ElicitationResult"];

/// What a file of settings of Claude Code says about who answers its forms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum FormHooks {
    /// Nothing.
    Absent,
    /// This hook does.
    Present(&'static str),
    /// It cannot be told.
    Unreadable,
}

/// Looks for hooks that answer forms.
pub fn form_hooks(settings: &[u8]) -> FormHooks {
    let text = settings.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(settings);
    if text.trim_ascii().is_empty() {
        return FormHooks::Absent;
    }
    let Ok(Value::Object(settings)) = serde_json::from_slice(text) else {
        return FormHooks::Unreadable;
    };
    match settings.get("hooks") {
        None => FormHooks::Absent,
        Some(Value::Object(hooks)) => {
            let hook = FORM_HOOKS.iter().find(|hook| hooks.contains_key(**hook));
            hook.map_or(FormHooks::Absent, |hook| FormHooks::Present(hook))
        }
        Some(_) => FormHooks::Unreadable,
    }
}

/// How much of a form Claude Code shows in a window of so many columns and rows; where that is not known, in a small one. `None` where
/// the window is too small for any.
pub fn room_in(window: Option<(u16, u16)>) -> Option<Room> {
    match window {
        Some((columns, rows)) if columns >= 80 && rows >= 24 => Some(CLAUDE_CODE),
        Some((columns, rows)) if columns < 60 || rows < 20 => None,
        Some(_) | None => Some(CLAUDE_CODE_SMALL),
    }
}

/// What a client says of itself when it comes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hello {
    /// Its name.
    pub name: String,
    /// Whether it shows forms.
    pub shows_forms: bool,
}

/// Reads the parameters of `initialize`.
pub fn hello(params: &Value) -> Hello {
    let name = params.pointer("/clientInfo/name").and_then(Value::as_str);
    let shown = params
        .pointer("/capabilities/elicitation")
        .and_then(Value::as_object);
    Hello {
        name: name.unwrap_or_default().trim().to_owned(),
        // Where no kind is named it is forms: there were no others at first.
        shows_forms: shown.is_some_and(|kinds| kinds.is_empty() || kinds.contains_key("form")),
    }
}

/// Whether a client of this name can be given forms: it is known that nobody answers one of them by accident.
///
/// In Codex a form takes the keyboard as soon as it comes, and takes single keys: a sentence that is typed for something else, and
/// ended with Enter, chooses an option and sends it.
pub fn is_known(client: &str) -> bool {
    client == "claude-code"
}

/// The request that shows a form.
pub fn request(number: u64, form: &Form) -> Value {
    let mut answer = Map::new();
    answer.insert("type".to_owned(), "string".into());
    answer.insert("title".to_owned(), "Answer".into());
    if !form.note.is_empty() {
        answer.insert("description".to_owned(), form.note.as_str().into());
    }
    answer.insert("enum".to_owned(), form.options.clone().into());
    let mut properties = Map::new();
    properties.insert("answer".to_owned(), answer.into());
    if form.takes_reason {
        let reason = json!({
            "type": "string",
            "title": "Why not",
            "description": "for the agent, with a No",
            "maxLength": MAX_REASON,
        });
        properties.insert("reason".to_owned(), reason);
    }
    json!({
        "jsonrpc": "2.0",
        "id": format!("{ID}{number}"),
        "method": "elicitation/create",
        "params": {
            "message": form.message,
            "requestedSchema": {"type": "object", "properties": properties, "required": ["answer"]},
        },
    })
}

/// The notification that takes a form back.
pub fn withdrawal(number: u64, why: &str) -> Value {
    json!({
        "jsonrpc": "2.0",
        "method": "notifications/cancelled",
        "params": {"requestId": format!("{ID}{number}"), "reason": why},
    })
}

/// The number of the form that an id is about.
pub fn number(id: &Value) -> Option<u64> {
    let id = id.as_str()?;
    let number = id.strip_prefix(ID)?.parse().ok()?;
    // As it was sent, and in no other spelling.
    (id == format!("{ID}{number}")).then_some(number)
}

/// What the result of a form comes to.
pub fn reply(result: &Value) -> FormReply {
    let text = |name: &str| {
        let value = result.get("content").and_then(|content| content.get(name));
        value.and_then(Value::as_str).map(str::to_owned)
    };
    match result.get("action").and_then(Value::as_str) {
        Some("accept") => FormReply::Accepted {
            answer: text("answer"),
            reason: text("reason"),
        },
        Some("decline") => FormReply::Declined,
        Some("cancel") => FormReply::Dismissed,
        Some(_) | None => FormReply::Failed("the reply has no action that is known".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_client_that_shows_forms_is_taken_for_one() {
        for (capabilities, shows) in [
            (json!({}), false),
            (json!({"elicitation": {}}), true),
            (json!({"elicitation": {"form": {}, "url": {}}}), true),
            (json!({"elicitation": {"url": {}}}), false),
            (json!({"elicitation": true}), false),
            (json!({"elicitation": null}), false),
            (json!(null), false),
        ] {
            let params = json!({"capabilities": capabilities, "clientInfo": {"name": " x "}});
            let hello = hello(&params);
            assert_eq!(
                (hello.name.as_str(), hello.shows_forms),
                ("x", shows),
                "{params}"
            );
        }
        assert_eq!(hello(&json!(7)).name, "");
    }

    #[test]
    fn hooks_that_answer_forms_are_found_and_what_cannot_be_read_is_said() {
        use FormHooks::{Absent, Present, Unreadable};
        for (settings, found) in [
            ("", Absent),
            ("{}", Absent),
            ("\u{feff}{\"hooks\": {}}", Absent),
            (r#"{"hooks": {"PreToolUse": [], "Stop": []}}"#, Absent),
            (r#"{"hooks": {"Elicitation": []}}"#, Present("Elicitation")),
            (
                r#"{"hooks": {"\u0045licitationResult": [7]}}"#,
                Present("ElicitationResult"),
            ),
            (r#"{"hooks": []}"#, Unreadable),
            ("[]", Unreadable),
            ("{", Unreadable),
            ("// a\n{}", Unreadable),
        ] {
            assert_eq!(form_hooks(settings.as_bytes()), found, "{settings}");
        }
        assert_eq!(form_hooks(b"{\"a\": \"\xff\"}"), Unreadable);
    }

    #[test]
    fn a_window_that_is_not_known_counts_as_a_small_one() {
        assert_eq!(room_in(None), Some(CLAUDE_CODE_SMALL));
        assert_eq!(room_in(Some((79, 50))), Some(CLAUDE_CODE_SMALL));
        assert_eq!(room_in(Some((80, 24))), Some(CLAUDE_CODE));
        assert_eq!(room_in(Some((200, 19))), None);
        assert_eq!(room_in(Some((59, 50))), None);
    }

    #[test]
    fn a_reply_is_one_of_three_or_a_failure() {
        let accepted = |answer: Option<&str>| FormReply::Accepted {
            answer: answer.map(str::to_owned),
            reason: None,
        };
        for (result, expected) in [
            (
                json!({"action": "accept", "content": {"answer": "No"}}),
                accepted(Some("No")),
            ),
            (
                json!({"action": "accept", "content": {"answer": ["Yes"]}}),
                accepted(None),
            ),
            (json!({"action": "accept", "content": {}}), accepted(None)),
            (json!({"action": "accept"}), accepted(None)),
            (json!({"action": "accept", "answer": "Yes"}), accepted(None)),
            (
                json!({"action": "decline", "content": {"answer": "Yes"}}),
                FormReply::Declined,
            ),
            (json!({"action": "cancel"}), FormReply::Dismissed),
        ] {
            assert_eq!(reply(&result), expected, "{result}");
        }
        for result in [
            json!({}),
            json!(null),
            json!({"action": "ACCEPT"}),
            json!({"action": 1}),
        ] {
            assert!(matches!(reply(&result), FormReply::Failed(_)), "{result}");
        }
    }

    #[test]
    fn forms_go_only_where_what_is_typed_for_something_else_answers_none() {
        assert!(is_known("claude-code"));
        for other in ["codex-mcp-client", "", "Claude-Code", "claude-code-2"] {
            assert!(!is_known(other));
        }
    }

    #[test]
    fn a_form_has_one_option_to_choose_and_no_default() {
        let form = Form {
            message: "command : ls".into(),
            note: String::new(),
            options: vec!["No".into(), "Yes".into()],
            takes_reason: true,
        };
        let request = request(7, &form);
        let schema = &request["params"]["requestedSchema"];
        assert_eq!(schema["required"], json!(["answer"]));
        assert_eq!(schema["properties"]["answer"]["enum"], json!(["No", "Yes"]));
        assert!(!request.to_string().contains("\"default\""));
        assert_eq!(number(&request["id"]), Some(7));
        assert_eq!(
            withdrawal(7, "it went")["params"]["requestId"],
            request["id"]
        );
        for other in [
            json!(7),
            json!("form-"),
            json!("form--1"),
            json!("form-07"),
            json!("form-+7"),
            json!("7"),
        ] {
            assert_eq!(number(&other), None, "{other}");
        }
    }
}

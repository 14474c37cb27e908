//! One line of JSON-RPC, as far as the proxy has to understand it: what it is, its id, and the raw text of its parts.
//!
//! Nothing is made of a line but a look: the bytes that go on are the bytes that came. What is no JSON-RPC message at all is none
//! here either, and no error.

use std::fmt;

use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

/// The method that is answered here.
const REQUEST_PERMISSION: &str = "session/request_permission";

/// The members of a line that matter to the proxy, as they stand in it. Of a member that is given twice the last one counts, as it
/// does for most readers.
#[derive(Debug, Default)]
pub(super) struct Message<'a> {
    pub(super) id: Option<Id>,
    pub(super) method: Option<String>,
    pub(super) params: Option<&'a RawValue>,
    pub(super) result: Option<&'a RawValue>,
    /// Whether it says that the request failed.
    pub(super) is_error: bool,
    /// Whether one of these stands there twice: two readers may see two different messages.
    pub(super) is_doubled: bool,
    /// Whether it asks for permission, in the eyes of any reader.
    pub(super) asks: bool,
    /// The member that was being read, where the line broke off.
    within: Option<String>,
}

impl<'a> Message<'a> {
    /// The message that a line is; `None` where it is no JSON object.
    pub(super) fn read(line: &'a str) -> Option<Self> {
        let mut message = Message::default();
        let mut reader = serde_json::Deserializer::from_str(line);
        reader.deserialize_map(Members(&mut message)).ok()?;
        reader.end().ok()?;
        Some(message)
    }

    /// What the beginning of a line tells of its message.
    pub(super) fn beginning(beginning: &'a str) -> Self {
        let mut message = Message::default();
        let mut reader = serde_json::Deserializer::from_str(beginning);
        // It breaks off: what was read until then is what there is to know.
        let _broken_off = reader.deserialize_map(Members(&mut message));
        message
    }

    /// The messages that stand on one line in an array; `None` where it is none.
    pub(super) fn batch(line: &'a str) -> Option<Vec<Self>> {
        if !line.trim_start().starts_with('[') {
            return None;
        }
        let entries: Vec<&RawValue> = serde_json::from_str(line).ok()?;
        let read = entries.iter().map(|entry| Self::read(entry.get()));
        Some(read.flatten().collect())
    }

    /// Whether the beginning of a line leaves open what the rest of it asks for.
    pub(super) fn may_ask(&self) -> bool {
        self.asks
            || self.method.is_none() && !matches!(self.within.as_deref(), Some("result" | "error"))
    }

    /// Whether it answers a request.
    pub(super) fn is_response(&self) -> bool {
        self.method.is_none() && self.id.is_some() && (self.result.is_some() || self.is_error)
    }
}

struct Members<'m, 'de>(&'m mut Message<'de>);

impl<'de> Visitor<'de> for Members<'_, 'de> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let message = self.0;
        while let Some(key) = map.next_key::<String>()? {
            message.within = Some(key.clone());
            match key.as_str() {
                "id" => {
                    let raw: &RawValue = map.next_value()?;
                    message.is_doubled |= message.id.replace(Id::of(raw.get())).is_some();
                }
                "method" => {
                    let raw: &RawValue = map.next_value()?;
                    message.is_doubled |= message.method.is_some();
                    message.method = serde_json::from_str(raw.get()).ok();
                    message.asks |= message.method.as_deref() == Some(REQUEST_PERMISSION);
                }
                "params" => {
                    let before = message.params.replace(map.next_value()?);
                    message.is_doubled |= before.is_some();
                }
                "result" => {
                    let before = message.result.replace(map.next_value()?);
                    message.is_doubled |= before.is_some();
                }
                "error" => {
                    let _error: IgnoredAny = map.next_value()?;
                    message.is_error = true;
                }
                _ => {
                    let _other: IgnoredAny = map.next_value()?;
                }
            }
            message.within = None;
        }
        Ok(())
    }
}

/// The id of a request, of whatever JSON kind: its own spelling, which an answer repeats, and what it is the same as.
#[derive(Debug, Clone)]
pub(super) struct Id {
    raw: String,
    same: String,
}

impl Id {
    /// The id that stands there so.
    pub(super) fn of(raw: &str) -> Self {
        let same = match serde_json::from_str::<Value>(raw) {
            // Whoever reads numbers as JavaScript does writes 7.0 back as 7.
            Ok(Value::Number(number)) => match number.as_f64() {
                Some(float) if number.is_f64() => format!("{float}"),
                Some(_) | None => number.to_string(),
            },
            Ok(value) => value.to_string(),
            Err(_) => raw.to_owned(),
        };
        Self {
            raw: raw.to_owned(),
            same,
        }
    }

    /// As it stood in the request.
    pub(super) fn raw(&self) -> &str {
        &self.raw
    }

    /// The same for every spelling of the same id.
    pub(super) fn key(&self) -> &str {
        &self.same
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Option<Message<'_>> {
        Message::read(line)
    }

    #[test]
    fn a_line_is_read_as_far_as_it_matters() {
        let message =
            read(r#" {"jsonrpc":"2.0","id":7,"method":"a\/b","params":{"x":[1]},"y":{}} "#)
                .unwrap();
        assert_eq!(message.method.as_deref(), Some("a/b"));
        assert_eq!(message.id.as_ref().map(Id::raw), Some("7"));
        assert_eq!(message.params.map(RawValue::get), Some(r#"{"x":[1]}"#));
        assert!(!message.is_response() && !message.is_doubled);
        assert!(read(r#"{"id":null,"result":null}"#).unwrap().is_response());
        assert!(read(r#"{"id":1,"error":{}}"#).unwrap().is_response());
        assert!(!read(r#"{"result":1}"#).unwrap().is_response());
    }

    #[test]
    fn what_is_no_message_is_none() {
        for line in [
            "",
            "[]",
            "7",
            "{",
            "{} {}",
            "{\"id\":}",
            "Loading…",
            "\u{feff}{}",
        ] {
            assert!(read(line).is_none(), "{line}");
        }
    }

    #[test]
    fn a_method_that_stands_there_twice_is_what_any_reader_takes_it_for() {
        let asking = r#""method":"session\/request_permission""#;
        for line in [
            format!(r#"{{{asking},"method":"x"}}"#),
            format!(r#"{{"method":"x",{asking}}}"#),
            format!(r#"{{{asking},"method":7}}"#),
        ] {
            assert!(read(&line).unwrap().asks, "{line}");
        }
    }

    #[test]
    fn the_beginning_of_a_line_tells_whether_it_may_ask() {
        for (beginning, may_ask) in [
            (
                r#"{"jsonrpc":"2.0","method":"session/update","params":{"a":"#,
                false,
            ),
            (r#"{"id":1,"result":{"content":"xx"#, false),
            (r#"{"id":1,"error":"xx"#, false),
            (
                r#"{"id":1,"method":"session/request_permission","params":"#,
                true,
            ),
            // What is not said yet may be said behind.
            (r#"{"params":{"a":"#, true),
            (r#"{"id":1,"x":"#, true),
            (r#"{"id":"xx"#, true),
            (r#"{"result":1,"params":"xx"#, true),
        ] {
            assert_eq!(
                Message::beginning(beginning).may_ask(),
                may_ask,
                "{beginning}"
            );
        }
    }

    #[test]
    fn an_array_of_messages_is_read_one_by_one() {
        let batch = Message::batch(r#" [{"method":"a"}, 7, {"method":"b","id":1}]"#).unwrap();
        let methods: Vec<_> = batch
            .iter()
            .map(|message| message.method.as_deref())
            .collect();
        assert_eq!(methods, [Some("a"), Some("b")]);
        assert!(Message::batch(r#"{"method":"a"}"#).is_none());
        assert!(Message::batch("[info] starting").is_none());
    }

    #[test]
    fn of_a_member_that_stands_there_twice_the_last_counts_and_it_is_known() {
        let message = read(r#"{"method":"a","id":1,"method":"b"}"#).unwrap();
        assert_eq!(message.method.as_deref(), Some("b"));
        assert!(message.is_doubled);
    }

    #[test]
    fn ids_of_any_kind_keep_their_spelling_and_are_known_again_in_another() {
        for (one, other) in [
            ("7", "7.0"),
            (r#""ä""#, r#""\u00e4""#),
            (r#"{"a": 1}"#, r#"{"a":1}"#),
            ("null", "null"),
            ("-0.5", "-5e-1"),
        ] {
            assert_eq!(Id::of(one).key(), Id::of(other).key(), "{one} {other}");
            assert_eq!(Id::of(one).raw(), one);
        }
        assert_ne!(Id::of("7").key(), Id::of("\"7\"").key());
        assert_ne!(Id::of("7").key(), Id::of("8").key());
    }
}

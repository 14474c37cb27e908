//! One line of JSON-RPC, as far as the proxy has to understand it: what it is, its id, and the raw text of its parts.
//!
//! Nothing is made of a line but a look: the bytes that go on are the bytes that came. What is no JSON-RPC message at all is none
//! here either, and no error.

use std::fmt;

use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

/// The members of a line that matter to the proxy, as they stand in it. Of a member that is given twice the last one counts, as it
/// does for the readers on either side.
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
}

impl<'a> Message<'a> {
    /// The message that a line is; `None` where it is no JSON object.
    pub(super) fn read(line: &'a [u8]) -> Option<Self> {
        let mut reader = serde_json::Deserializer::from_slice(line);
        let message = reader.deserialize_map(Members).ok()?;
        reader.end().ok()?;
        Some(message)
    }

    /// Whether it answers a request.
    pub(super) fn is_response(&self) -> bool {
        self.method.is_none() && self.id.is_some() && (self.result.is_some() || self.is_error)
    }
}

struct Members;

impl<'de> Visitor<'de> for Members {
    type Value = Message<'de>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut message = Message::default();
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "id" => {
                    let raw: &RawValue = map.next_value()?;
                    message.is_doubled |= message.id.replace(Id::of(raw.get())).is_some();
                }
                "method" => {
                    let raw: &RawValue = map.next_value()?;
                    message.is_doubled |= message.method.is_some();
                    message.method = serde_json::from_str(raw.get()).ok();
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
        }
        Ok(message)
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
        Message::read(line.as_bytes())
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
        assert!(Message::read(b"{\"method\":\"\xff\"}").is_none());
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

//! How a record becomes a line: header first, then the details; capped, redacted, escaped.
//!
//! Every text has at most a given number of UTF-16 units; what is looked for in a log or read back from it has room enough in any
//! case. Where a detail itself was cut, a sibling `<key>_cut` gives the
//! length, the digest and the tail of the whole, so that the record still proves what was allowed. A value under a key that
//! names a secret is replaced whole, and nothing about it is told. Characters that cannot be seen are written as JSON escapes:
//! the line reads the same to a program, and harms no terminal.
//!
//! Before all that, the secrets in command lines are masked, see [`secrets`]: a digest or a tail is of the masked text. A command
//! line is what stands under `command` and `executedUnit`; and what stands under a key for the value of an ask or for a pattern, where
//! the `surface` beside it, or else around it, is that of command lines or is not told.
//!
//! It does not look at other values to find secrets, and does not cut or redact the header.

use std::borrow::Cow;

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Map, Value};

use super::{Entry, Stream};
use crate::presentation::json::Escaping;
use crate::presentation::secrets::{self, REDACTED, is_telling};
use crate::presentation::text;
use crate::wire::MAX_REASON_UNITS;

/// Keys of the header, in order.
const HEADER: [&str; 4] = ["timestamp", "extension", "stream", "event"];

/// Key of the last member of a line, which the chain adds.
const CHAIN: &str = "chain";

/// How every line starts; no text within a line contains it, for its quotes would be escaped there.
pub(super) const LINE_START: &[u8] = br#"{"timestamp":""#;

/// Keys under which command lines stand.
const COMMANDS: [&str; 2] = ["command", "executedUnit"];

/// Keys under which command lines stand on the surface of command lines, and something else on others.
const OF_A_SURFACE: [&str; 7] = [
    "value",
    "target",
    "matchedPattern",
    "matchedSpelling",
    "pattern",
    "patterns",
    "sessionApprovalPattern",
];

/// The surface of command lines.
const COMMAND_SURFACE: &str = "bash";

/// Keys of what programs look for in a log, or read back from it: ids, digests, names of files of the log, and words of ours. What
/// is cut is not found again, so these are cut at [`MAX_ID_UNITS`] at the least, however narrow the log is.
const LOOKED_FOR: [&str; 16] = [
    "requestId",
    "requestDigest",
    "requesterSessionId",
    "targetSessionId",
    "responderSessionId",
    "sessionId",
    "resolution",
    "state",
    "sessionGrantWidth",
    "outcome",
    "kind",
    "via",
    "recordedAt",
    "after",
    "expected",
    "previous",
];

/// Most UTF-16 units of these in a narrow log: far more than an id has, and little enough that a hostile one fills no log.
const MAX_ID_UNITS: usize = 1_000;

/// Key of the reason that was given to the child. After a crash it is given again from here, so it is kept as long as an answer
/// carries it.
const DENIAL_REASON: &str = "denialReason";

/// Most UTF-16 units of a text under this key, in a log of this width.
fn width_of(key: &str, max_units: usize) -> usize {
    if LOOKED_FOR.contains(&key) {
        max_units.max(MAX_ID_UNITS)
    } else if key == DENIAL_REASON {
        max_units.max(MAX_REASON_UNITS)
    } else {
        max_units
    }
}

/// Deepest nesting of a detail that is written.
const MAX_DEPTH: usize = 64;

/// Most UTF-16 units of the tail of a cut text.
const TAIL_UNITS: usize = 64;

/// Whether a key is one that every line has.
pub(super) fn is_header_key(key: &str) -> bool {
    HEADER.contains(&key) || key == CHAIN
}

/// The line of `entry` up to where the chain's member goes: without it, its closing brace and its newline.
pub(super) fn body(
    at_ms: i64,
    stream: Stream,
    entry: &Entry,
    max_units: usize,
) -> serde_json::Result<Vec<u8>> {
    let mut out = Vec::with_capacity(1024);
    let line = Line {
        timestamp: timestamp(at_ms),
        stream,
        entry,
        max_units,
    };
    line.serialize(&mut serde_json::Serializer::with_formatter(
        &mut out, Escaping,
    ))?;
    // The closing brace of the object.
    out.pop();
    Ok(out)
}

/// The time of the record whose line begins with these bytes, in epoch milliseconds.
pub(super) fn time_of(start: &[u8]) -> Option<i64> {
    let rest = start.strip_prefix(LINE_START)?;
    let end = rest.iter().position(|byte| *byte == b'"')?;
    let text = std::str::from_utf8(rest.get(..end)?).ok()?;
    let at: jiff::Timestamp = text.parse().ok()?;
    Some(at.as_millisecond())
}

/// ISO 8601 in UTC with milliseconds. A time that no calendar has becomes the nearest that one has.
pub(super) fn timestamp(at_ms: i64) -> String {
    let at = jiff::Timestamp::from_millisecond(at_ms).unwrap_or(if at_ms < 0 {
        jiff::Timestamp::MIN
    } else {
        jiff::Timestamp::MAX
    });
    format!("{at:.3}")
}

struct Line<'a> {
    timestamp: String,
    stream: Stream,
    entry: &'a Entry,
    max_units: usize,
}

impl Serialize for Line<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let details = self.entry.details();
        let mut map = serializer.serialize_map(None)?;
        let header = [
            self.timestamp.as_str(),
            "askrelay",
            self.stream.name(),
            self.entry.event(),
        ];
        for (key, value) in HEADER.iter().zip(header) {
            map.serialize_entry(key, value)?;
        }
        let around = Around::default().within(details);
        for (key, value) in details {
            let Some(text) = value.as_str().filter(|_| !is_telling(key)) else {
                let member = Member {
                    key,
                    value,
                    around,
                    max_units: self.max_units,
                    depth: 0,
                };
                map.serialize_entry(key, &member)?;
                continue;
            };
            let whole = around.under(key).shown(text);
            let whole = whole.as_ref();
            let max_units = width_of(key, self.max_units);
            map.serialize_entry(key, &text::clip_utf16(whole, max_units))?;
            if text::clip_point(whole, max_units).is_some() {
                let key = format!("{key}_cut");
                if !details.contains_key(&key) {
                    let cut = Cut { whole, max_units };
                    map.serialize_entry(&key, &cut)?;
                }
            }
        }
        map.end()
    }
}

/// What the objects around a value, and the key that it stands under, tell of it.
#[derive(Debug, Clone, Copy, Default)]
struct Around<'a> {
    surface: Option<&'a str>,
    is_command: bool,
}

impl<'a> Around<'a> {
    /// What is told of the members of an object.
    fn within(self, members: &'a Map<String, Value>) -> Self {
        let surface = members.get("surface").and_then(Value::as_str);
        Self {
            surface: surface.or(self.surface),
            ..self
        }
    }

    /// What is told of what stands under a key.
    fn under(self, key: &str) -> Self {
        let is_of_commands = self
            .surface
            .is_none_or(|surface| surface == COMMAND_SURFACE);
        Self {
            is_command: COMMANDS.contains(&key) || is_of_commands && OF_A_SURFACE.contains(&key),
            ..self
        }
    }

    /// What may be shown of a text.
    fn shown(self, text: &str) -> Cow<'_, str> {
        if self.is_command {
            secrets::masked(text)
        } else {
            Cow::Borrowed(text)
        }
    }
}

/// A member of an object: redacted where its key tells to.
struct Member<'a> {
    key: &'a str,
    value: &'a Value,
    /// What is told of the object.
    around: Around<'a>,
    max_units: usize,
    depth: usize,
}

impl Serialize for Member<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if !self.value.is_null() && is_telling(self.key) {
            return serializer.serialize_str(REDACTED);
        }
        let max_units = if self.value.is_string() {
            width_of(self.key, self.max_units)
        } else {
            self.max_units
        };
        Capped {
            value: self.value,
            around: self.around.under(self.key),
            max_units,
            depth: self.depth,
        }
        .serialize(serializer)
    }
}

/// A value in which every text is capped.
struct Capped<'a> {
    value: &'a Value,
    around: Around<'a>,
    max_units: usize,
    depth: usize,
}

impl Serialize for Capped<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (max_units, depth, around) = (self.max_units, self.depth + 1, self.around);
        match self.value {
            Value::String(text) => {
                serializer.serialize_str(&text::clip_utf16(&around.shown(text), max_units))
            }
            Value::Array(_) | Value::Object(_) if depth > MAX_DEPTH => {
                serializer.serialize_str("…")
            }
            Value::Array(items) => serializer.collect_seq(items.iter().map(|value| Capped {
                value,
                around,
                max_units,
                depth,
            })),
            Value::Object(members) => serializer.collect_map(members.iter().map(|(key, value)| {
                let member = Member {
                    key,
                    value,
                    around: around.within(members),
                    max_units,
                    depth,
                };
                (key, member)
            })),
            plain @ (Value::Null | Value::Bool(_) | Value::Number(_)) => {
                plain.serialize(serializer)
            }
        }
    }
}

/// What a cut left out of a text.
struct Cut<'a> {
    whole: &'a str,
    max_units: usize,
}

impl Serialize for Cut<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let digest = blake3::hash(self.whole.as_bytes()).to_hex();
        let mut map = serializer.serialize_map(Some(3))?;
        map.serialize_entry("units", &text::utf16_len(self.whole))?;
        map.serialize_entry("blake3", digest.as_str())?;
        map.serialize_entry("tail", tail(self.whole, self.max_units.min(TAIL_UNITS)))?;
        map.end()
    }
}

/// The last characters of `text`, of at most `units` UTF-16 units.
fn tail(text: &str, units: usize) -> &str {
    let mut taken = 0;
    let mut start = text.len();
    for (at, character) in text.char_indices().rev() {
        taken += character.len_utf16();
        if taken > units {
            break;
        }
        start = at;
    }
    text.get(start..).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    const AT: i64 = 1_798_700_000_123;

    fn line_of(details: Value, max_units: usize) -> String {
        let Value::Object(details) = details else {
            panic!("details are an object")
        };
        let mut out = body(
            AT,
            Stream::Review,
            &Entry::test("x.y").with_facts(details),
            max_units,
        )
        .unwrap();
        out.extend_from_slice(b"}\n");
        String::from_utf8(out).unwrap()
    }

    fn details_of(details: Value, max_units: usize) -> Value {
        let mut line: serde_json::Map<String, Value> =
            serde_json::from_str(&line_of(details, max_units)).unwrap();
        for key in HEADER {
            assert!(line.shift_remove(key).is_some());
        }
        Value::Object(line)
    }

    #[test]
    fn the_header_comes_first() {
        assert_eq!(
            line_of(
                json!({"requestId": "r", "event": "z", "n": 1.5, "b": true}),
                1000
            ),
            "{\"timestamp\":\"2026-12-31T06:53:20.123Z\",\"extension\":\"askrelay\",\"stream\":\"review\",\
             \"event\":\"x.y\",\"requestId\":\"r\",\"detail_event\":\"z\",\"n\":1.5,\"b\":true}\n"
        );
        assert!(line_of(json!({}), 1).as_bytes().starts_with(LINE_START));
        // The last member is the chain's, and no detail poses as it.
        assert!(line_of(json!({"chain": "z"}), 1000).ends_with("\"detail_chain\":\"z\"}\n"));
    }

    #[test]
    fn the_time_of_a_line_can_be_told_from_its_start() {
        assert_eq!(time_of(line_of(json!({}), 1).as_bytes()), Some(AT));
        for other in ["", "{", "{\"timestamp\":\"", "{\"timestamp\":\"today\"}"] {
            assert_eq!(time_of(other.as_bytes()), None, "{other}");
        }
    }

    #[test]
    fn a_time_without_a_date_is_still_a_line() {
        for (at, year) in [
            (i64::MIN, "-009999-"),
            (i64::MAX, "9999-"),
            (0, "1970-01-01T00:00:00.000Z"),
        ] {
            assert!(timestamp(at).starts_with(year), "{}", timestamp(at));
        }
    }

    /// Row 64 of the behaviour cases, and AUDIT-4.
    #[test]
    fn values_of_telling_keys_are_redacted_at_any_depth() {
        assert_eq!(
            details_of(json!({"token": "x", "nested": {"api_key": 1}}), 1000),
            json!({"token": "[redacted]", "nested": {"api_key": "[redacted]"}})
        );
        assert_eq!(
            details_of(
                json!({"a": [{"Cookie": {"b": 1}, "c": 2}], "secret": null}),
                1000
            ),
            json!({"a": [{"Cookie": "[redacted]", "c": 2}], "secret": null})
        );
        // Nothing is told about a redacted text, not even how long it is.
        assert_eq!(
            details_of(json!({"password": "p".repeat(20)}), 10),
            json!({"password": "[redacted]"})
        );
    }

    /// AUDIT-4.
    #[test]
    fn secrets_in_command_lines_are_masked_and_nowhere_else() {
        let line = "curl -H \"Authorization: Bearer s3cr3t\" x";
        let masked = "curl -H \"Authorization: Bearer [redacted]\" x";
        for (details, wanted) in [
            (
                json!({"surface": "bash", "command": line, "executedUnit": line, "message": line}),
                json!({"surface": "bash", "command": masked, "executedUnit": masked, "message": line}),
            ),
            (
                json!({"surface": "bash", "target": line, "matchedPattern": line, "denialReason": line}),
                json!({"surface": "bash", "target": masked, "matchedPattern": masked, "denialReason": line}),
            ),
            // Where a surface is named that is none of command lines, only what is a command by its name is one.
            (
                json!({"surface": "mcp", "target": line, "command": line, "grants": [
                    {"surface": "bash", "pattern": line}, {"surface": "read", "pattern": line}, {"pattern": line},
                ]}),
                json!({"surface": "mcp", "target": line, "command": masked, "grants": [
                    {"surface": "bash", "pattern": masked}, {"surface": "read", "pattern": line}, {"pattern": line},
                ]}),
            ),
            (
                json!({"requestId": "r", "grants": {"patterns": [line]}, "by": {"decision": {"kind": "yolo", "pattern": line}}}),
                json!({"requestId": "r", "grants": {"patterns": [masked]}, "by": {"decision": {"kind": "yolo", "pattern": masked}}}),
            ),
        ] {
            assert_eq!(details_of(details, 1000), wanted);
        }
        let decider = crate::wire::DecisionSource::Rule {
            surface: "bash".to_owned(),
            pattern: Some(line.to_owned()),
            origin: None,
        };
        let entry = Entry::ending(crate::audit::Ending::AutoApproved, &decider);
        let out = body(AT, Stream::Review, &entry, 1000).unwrap();
        assert!(!String::from_utf8(out).unwrap().contains("s3cr3t"));
    }

    /// Nothing of a secret is told by what is told of a cut text.
    #[test]
    fn a_cut_is_of_the_masked_text() {
        let whole = format!("PASSWORD={} make {}", "s3cr3t".repeat(9), "x".repeat(90));
        let masked = format!("PASSWORD=[redacted] make {}", "x".repeat(90));
        let details = details_of(json!({"command": whole}), 60);
        assert_eq!(details, details_of(json!({"command": masked}), 60));
        assert_eq!(details["command_cut"]["units"], masked.len());
        let short = details_of(json!({"command": "PASSWORD=s3cr3ts3cr3ts3cr3t"}), 20);
        assert_eq!(short, json!({"command": "PASSWORD=[redacted]"}));
    }

    /// Row 65 of the behaviour cases, and AUDIT-7.
    #[test]
    fn a_cut_text_tells_length_digest_and_tail_of_the_whole() {
        let whole = format!("{}; rm -rf ~", "x".repeat(4000));
        let details = details_of(json!({"command": whole, "n": 1}), 1000);
        assert_eq!(details["command"], format!("{}…", "x".repeat(1000)));
        assert_eq!(details["command_cut"]["units"], 4010);
        assert_eq!(
            details["command_cut"]["blake3"],
            blake3::hash(whole.as_bytes()).to_hex().as_str()
        );
        assert!(
            details["command_cut"]["tail"]
                .as_str()
                .unwrap()
                .ends_with("x; rm -rf ~")
        );
        let keys: Vec<_> = details.as_object().unwrap().keys().collect();
        assert_eq!(keys, ["command", "command_cut", "n"]);

        let fits = json!({"command": "x".repeat(1000), "wide": "é".repeat(1000)});
        assert_eq!(details_of(fits.clone(), 1000), fits);
        assert_eq!(
            details_of(
                json!({"nested": {"reason": "abcdef"}, "list": ["abcdef"]}),
                3
            ),
            json!({"nested": {"reason": "abc…"}, "list": ["abc…"]})
        );
        assert_eq!(details_of(json!({"a": "😀😀😀"}), 3)["a_cut"]["tail"], "😀");
        // A detail that has the name already stays what it is.
        assert_eq!(
            details_of(json!({"a": "abcd", "a_cut": 1}), 3),
            json!({"a": "abc…", "a_cut": 1})
        );
    }

    /// What is cut is not found again, neither by a filter nor after a crash.
    #[test]
    fn what_is_looked_for_is_whole_in_the_narrowest_log() {
        let decided_by = json!({"kind": "forwarded", "responderSessionId": "s".repeat(200), "decision": {"kind": "user", "via": "dialog"}});
        let details = json!({
            "requestId": "perm-1".repeat(9), "requestDigest": format!("blake3:{}", "0".repeat(64)), "targetSessionId": "t".repeat(1000),
            "resolution": "user_denied", "denialReason": "n".repeat(8000), "by": decided_by,
        });
        assert_eq!(details_of(details.clone(), 1), details);
        // There is an end to that.
        let details = details_of(
            json!({"sessionId": "s".repeat(2000), "denialReason": "n".repeat(9000), "by": {"sessionId": "s".repeat(2000)}}),
            1,
        );
        let id = format!("{}…", "s".repeat(1000));
        assert_eq!(details["sessionId"], id);
        assert_eq!(details["by"]["sessionId"], id);
        assert_eq!(details["sessionId_cut"]["units"], 2000);
        assert_eq!(details["denialReason"], format!("{}…", "n".repeat(8000)));
    }

    #[test]
    fn nesting_ends_somewhere() {
        let mut value = json!("deep");
        for _ in 0..1000 {
            value = json!([value]);
        }
        let line = line_of(json!({"a": value}), 1000);
        assert!(line.contains("[\"…\"]"), "{line}");
    }

    /// FSOBJ-9: names with control characters stay on one line, and harmless.
    #[test]
    fn what_cannot_be_seen_is_escaped_and_reads_back() {
        let details = json!({"na\u{202E}me\n": "\u{1B}[2J\n\u{7F}\u{9B}\u{2028}\u{2029}\u{202E}\u{200B}\u{FEFF}\u{E0041}é你"});
        let line = line_of(details.clone(), 1000);
        assert!(
            line.ends_with(
                "\"na\\u202eme\\n\":\"\\u001b[2J\\n\\u007f\\u009b\\u2028\\u2029\\u202e\\u200b\\ufeff\\udb40\\udc41é你\"}\n"
            ),
            "{line}"
        );
        assert_eq!(details_of(details.clone(), 1000), details);
    }

    proptest! {
        #[test]
        fn any_text_reads_back_and_no_hidden_character_is_written(text in "(\\PC|.|\n){0,60}") {
            let details = json!({"a": text, "b": {"c": [text]}});
            let line = line_of(details.clone(), 1000);
            prop_assert!(!line.trim_end_matches('\n').chars().any(text::is_hidden));
            prop_assert_eq!(details_of(details.clone(), 1000), details);
        }
    }
}

//! The file of a grant that is in force: for whoever looks, and for whoever takes it back.
//!
//! It grants nothing. The serving session knows what it granted; the file shows it, and that it is there says that nobody has
//! taken it back. Only where grants are kept over a restart is it read again, and then it counts as far as the review log bears
//! it out.
//!
//! Invariant: a record that lacks a member, or has one that is not understood, is none.

use std::time::Duration;

use serde::Serialize;
use serde_json::{Value, json};

use super::grant::{GrantWidth, Lifetime};
use super::json::{Document, Fields};
use super::{MAX_REQUEST_BYTES, RELAY_VERSION, Unusable, WriteError};

/// Contents of `grants/<session>/<id>.json`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrantRecord {
    /// Number of the grant within its session, from 1.
    pub id: u64,
    /// The session that it holds in.
    pub session_id: String,
    /// The surface that it covers.
    pub surface: String,
    /// The values that it covers.
    pub pattern: String,
    /// Whether the pattern is this very text, without wildcards.
    pub exact: bool,
    /// How wide it was given; the surface says it already.
    pub width: GrantWidth,
    /// The chain of session ids that it was given to, outermost child first; `None` for the whole session.
    pub subagent: Option<Vec<String>>,
    /// For how long.
    pub lifetime: Lifetime,
    /// How many answers have rested on it.
    pub uses: u32,
    /// When it was given, by the wall clock, in epoch milliseconds.
    pub given_at_ms: i64,
    /// When it ends, by the wall clock, where its time is limited.
    pub expires_at_ms: Option<i64>,
    /// Who gave it, in a word.
    pub given_by: String,
    /// The ask that it was given with.
    pub request_id: String,
    /// BLAKE3 of the line of the review log that granted it, as hexadecimal digits, where there is one.
    pub log_line: Option<String>,
}

impl GrantRecord {
    /// Reads the file of a grant.
    pub fn from_json(bytes: &[u8]) -> Result<Self, Unusable> {
        let document = Document::decode(bytes, MAX_REQUEST_BYTES)?;
        let fields = document.object()?;
        let text = |key| fields.text(key).ok_or(Unusable::Field(key));
        let (lifetime, uses) = read_lifetime(&fields).ok_or(Unusable::Field("lifetime"))?;
        Ok(Self {
            id: fields
                .whole_number("id")
                .filter(|id| *id > 0)
                .ok_or(Unusable::Field("id"))?,
            session_id: text("sessionId")?,
            surface: text("surface")?,
            pattern: text("pattern")?,
            exact: fields.boolean("exact").ok_or(Unusable::Field("exact"))?,
            width: match fields.text("width").as_deref() {
                Some("proven") => GrantWidth::Proven,
                Some("family") => GrantWidth::Family,
                Some(_) | None => return Err(Unusable::Field("width")),
            },
            subagent: read_scope(&fields)?,
            lifetime,
            uses,
            given_at_ms: fields
                .finite_number("givenAt")
                .ok_or(Unusable::Field("givenAt"))?,
            expires_at_ms: nullable(&fields, "expiresAt", fields.finite_number("expiresAt"))?,
            given_by: text("givenBy")?,
            request_id: text("requestId")?,
            log_line: nullable(&fields, "logLine", fields.text("logLine"))?,
        })
    }

    /// Writes the file of a grant.
    pub fn to_json(&self) -> Result<Vec<u8>, WriteError> {
        Ok(serde_json::to_vec(&Out {
            v: RELAY_VERSION,
            id: self.id,
            session_id: &self.session_id,
            surface: &self.surface,
            pattern: &self.pattern,
            exact: self.exact,
            width: self.width,
            scope: scope_value(self.subagent.as_deref()),
            lifetime: lifetime_value(self.lifetime),
            uses_left: self.uses_left(),
            given_at: self.given_at_ms,
            expires_at: self.expires_at_ms,
            given_by: &self.given_by,
            request_id: &self.request_id,
            log_line: self.log_line.as_deref(),
        })?)
    }

    /// How many more answers may rest on it, where they are counted.
    pub fn uses_left(&self) -> Option<u32> {
        match self.lifetime {
            Lifetime::Uses(uses) => Some(uses.saturating_sub(self.uses)),
            Lifetime::SessionEnd | Lifetime::For(_) => None,
        }
    }
}

/// For whom a grant holds, as files and the log say it.
pub fn scope_value(subagent: Option<&[String]>) -> Value {
    match subagent {
        None => json!({"kind": "session"}),
        Some(chain) => json!({"kind": "subagent", "chain": chain}),
    }
}

/// For how long a grant holds, as files and the log say it.
pub fn lifetime_value(lifetime: Lifetime) -> Value {
    match lifetime {
        Lifetime::SessionEnd => json!({"kind": "session"}),
        Lifetime::For(time) => {
            json!({"kind": "for", "ms": u64::try_from(time.as_millis()).unwrap_or(u64::MAX)})
        }
        Lifetime::Uses(uses) => json!({"kind": "uses", "uses": uses}),
    }
}

/// The chain of the subagent that it is for; none of the whole session.
fn read_scope(fields: &Fields<'_>) -> Result<Option<Vec<String>>, Unusable> {
    let unusable = Unusable::Field("scope");
    let Some(scope) = fields.object("scope") else {
        return Err(unusable);
    };
    match scope.text("kind").as_deref() {
        Some("session") => Ok(None),
        Some("subagent") => match scope.texts("chain") {
            Some(chain) if !chain.is_empty() => Ok(Some(chain)),
            Some(_) | None => Err(unusable),
        },
        Some(_) | None => Err(unusable),
    }
}

/// The lifetime, and how much of it is used up.
fn read_lifetime(fields: &Fields<'_>) -> Option<(Lifetime, u32)> {
    let lifetime = fields.object("lifetime")?;
    match lifetime.text("kind")?.as_str() {
        "session" => Some((Lifetime::SessionEnd, 0)),
        "for" => {
            let time = Duration::from_millis(lifetime.whole_number("ms")?);
            Some((Lifetime::For(time), 0))
        }
        "uses" => {
            let of = |number: u64| u32::try_from(number).ok();
            let uses = of(lifetime.whole_number("uses")?)?;
            let left = of(fields.whole_number("usesLeft")?)?;
            Some((Lifetime::Uses(uses), uses.checked_sub(left)?))
        }
        _ => None,
    }
}

fn nullable<T>(
    fields: &Fields<'_>,
    key: &'static str,
    value: Option<T>,
) -> Result<Option<T>, Unusable> {
    if value.is_none() && !fields.is_null(key) {
        return Err(Unusable::Field(key));
    }
    Ok(value)
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Out<'a> {
    v: u32,
    id: u64,
    session_id: &'a str,
    surface: &'a str,
    pattern: &'a str,
    exact: bool,
    width: GrantWidth,
    scope: Value,
    lifetime: Value,
    uses_left: Option<u32>,
    given_at: i64,
    expires_at: Option<i64>,
    given_by: &'a str,
    request_id: &'a str,
    log_line: Option<&'a str>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> GrantRecord {
        GrantRecord {
            id: 3,
            session_id: "main".to_owned(),
            surface: "bash".to_owned(),
            pattern: "make *".to_owned(),
            exact: false,
            width: GrantWidth::Proven,
            subagent: Some(vec!["D".to_owned(), "C".to_owned()]),
            lifetime: Lifetime::Uses(10),
            uses: 4,
            given_at_ms: 1_700_000_000_000,
            expires_at_ms: None,
            given_by: "dialog".to_owned(),
            request_id: "perm-1".to_owned(),
            log_line: Some("ab".to_owned()),
        }
    }

    #[test]
    fn what_is_written_is_read_again() {
        let whole = GrantRecord {
            subagent: None,
            lifetime: Lifetime::For(Duration::from_mins(15)),
            uses: 0,
            expires_at_ms: Some(1_700_000_900_000),
            log_line: None,
            ..record()
        };
        let plain = GrantRecord {
            lifetime: Lifetime::SessionEnd,
            expires_at_ms: None,
            width: GrantWidth::Family,
            exact: true,
            ..whole.clone()
        };
        for record in [record(), whole, plain] {
            let bytes = record.to_json().unwrap();
            assert_eq!(GrantRecord::from_json(&bytes).unwrap(), record);
        }
        insta::assert_snapshot!(
            String::from_utf8(record().to_json().unwrap()).unwrap(),
            @r#"{"v":1,"id":3,"sessionId":"main","surface":"bash","pattern":"make *","exact":false,"width":"proven","scope":{"kind":"subagent","chain":["D","C"]},"lifetime":{"kind":"uses","uses":10},"usesLeft":6,"givenAt":1700000000000,"expiresAt":null,"givenBy":"dialog","requestId":"perm-1","logLine":"ab"}"#
        );
    }

    #[test]
    fn a_record_that_lacks_a_member_or_has_an_odd_one_is_none() {
        let whole: Value = serde_json::from_slice(&record().to_json().unwrap()).unwrap();
        let read = |value: &Value| GrantRecord::from_json(value.to_string().as_bytes());
        assert!(read(&whole).is_ok());
        for key in whole.as_object().unwrap().keys() {
            // These are null where there is nothing to say.
            if matches!(key.as_str(), "v") {
                continue;
            }
            let mut less = whole.clone();
            less.as_object_mut().unwrap().remove(key);
            assert!(read(&less).is_err(), "{key}");
        }
        for (key, odd) in [
            ("id", json!(0)),
            ("id", json!("3")),
            ("scope", json!({"kind": "all"})),
            ("scope", json!({"kind": "subagent", "chain": []})),
            ("lifetime", json!({"kind": "uses", "uses": 5})),
            ("lifetime", json!({"kind": "for"})),
            ("lifetime", json!({"kind": "ever"})),
            ("usesLeft", json!(-1)),
            ("width", json!("wide")),
            ("exact", json!(0)),
        ] {
            let mut other = whole.clone();
            other[key] = odd.clone();
            assert!(read(&other).is_err(), "{key}: {odd}");
        }
    }
}

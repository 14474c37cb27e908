//! Session ids: how they are normalised, and which directory name they get.
//!
//! A [`SessionId`] is an id that names a directory. Ids that stand in other fields of a document (who asks, who answered)
//! stay plain text, for a peer may write anything there.

use std::fmt;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// What stays as it is in an encoded id, besides letters and digits: the set of JavaScript's `encodeURIComponent`.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'!')
    .remove(b'~')
    .remove(b'*')
    .remove(b'\'')
    .remove(b'(')
    .remove(b')');

/// Longest encoded id, in bytes: what a file name may have, less the room that `.json` and a temporary name need.
const MAX_ENCODED: usize = 200;

/// Id that the peer writes where its host gave none. It never addresses a session.
pub const UNKNOWN: &str = "unknown";

/// Id of a session that can be served and asked: trimmed, not empty, not `unknown`, and safe as a directory name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionId(String);

/// Why a text is no [`SessionId`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SessionIdError {
    /// Empty, blank, or the word `unknown`: nobody is named.
    #[error("it names no session")]
    Nobody,
    /// `.` or `..`, which are not escaped by the encoding and would address another directory.
    #[error("\".\" and \"..\" address another directory")]
    Dots,
    /// The encoded form does not fit a file name.
    #[error("its encoded form is longer than {MAX_ENCODED} bytes")]
    TooLong,
}

impl SessionId {
    /// Normalises `text` as the peer does: trimmed, and refused where it names nobody.
    pub fn parse(text: &str) -> Result<Self, SessionIdError> {
        let trimmed = trim(text);
        if trimmed.is_empty() || trimmed.eq_ignore_ascii_case(UNKNOWN) {
            return Err(SessionIdError::Nobody);
        }
        if matches!(trimmed, "." | "..") {
            return Err(SessionIdError::Dots);
        }
        let id = Self(trimmed.to_owned());
        if id.encoded().len() > MAX_ENCODED {
            return Err(SessionIdError::TooLong);
        }
        Ok(id)
    }

    /// The id as it stands in documents.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The id as a file name: percent-encoded UTF-8, upper-case hex.
    pub fn encoded(&self) -> String {
        utf8_percent_encode(&self.0, ENCODED).to_string()
    }

    /// The session whose directory is called `name`, or `None` where no session has that directory.
    pub fn from_encoded(name: &str) -> Option<Self> {
        let decoded = percent_encoding::percent_decode_str(name)
            .decode_utf8()
            .ok()?;
        Self::parse(&decoded).ok().filter(|id| id.encoded() == name)
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Trims as ECMAScript does, which is what both generations of the peer do to ids: a byte-order mark counts as white space
/// there, U+0085 does not.
pub fn trim(text: &str) -> &str {
    text.trim_matches(|c: char| c == '\u{feff}' || (c.is_whitespace() && c != '\u{85}'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_encoded_as_the_peer_encodes_them() {
        for (id, name) in [
            ("abc-1", "abc-1"),
            ("a b/c", "a%20b%2Fc"),
            ("x:y", "x%3Ay"),
            ("50%", "50%25"),
            ("(a)'*!~", "(a)'*!~"),
            ("a%2Fb", "a%252Fb"),
            ("é", "%C3%A9"),
            ("\\", "%5C"),
        ] {
            let parsed = SessionId::parse(id).unwrap();
            assert_eq!(parsed.encoded(), name);
            assert_eq!(SessionId::from_encoded(name), Some(parsed));
        }
    }

    #[test]
    fn an_id_that_names_nobody_is_refused() {
        for id in ["", "  ", "unknown", " UNKNOWN\t", "\u{feff}"] {
            assert_eq!(SessionId::parse(id), Err(SessionIdError::Nobody), "{id:?}");
        }
        for id in [".", "..", " .. "] {
            assert_eq!(SessionId::parse(id), Err(SessionIdError::Dots), "{id:?}");
        }
        assert_eq!(
            SessionId::parse(&"é".repeat(40)),
            Err(SessionIdError::TooLong)
        );
        assert_eq!(SessionId::parse(" P ").unwrap().as_str(), "P");
        assert_eq!(SessionId::parse("\u{85}").unwrap().as_str(), "\u{85}");
    }

    #[test]
    fn a_directory_that_no_id_encodes_to_is_no_session() {
        for name in ["a b", "%zz", "%61", "unknown", "%2e%2e", ".."] {
            assert_eq!(SessionId::from_encoded(name), None, "{name:?}");
        }
    }
}

//! JSON for a log and a terminal: nothing that cannot be seen stands in it as itself, and it still reads back equal.

use std::io;

use serde::Serialize;
use serde_json::ser::Formatter;

use super::text;

/// One line of JSON, without a newline.
pub fn line(value: &impl Serialize) -> Result<String, serde_json::Error> {
    let mut bytes = Vec::new();
    value.serialize(&mut serde_json::Serializer::with_formatter(
        &mut bytes, Escaping,
    ))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Compact JSON in which nothing that cannot be seen stands as itself.
pub(crate) struct Escaping;

impl Formatter for Escaping {
    fn write_string_fragment<W>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()>
    where
        W: ?Sized + io::Write,
    {
        let mut rest = fragment;
        // The serialiser has dealt with C0, quotes and backslashes.
        while let Some(at) = rest.find(|character| character > '~' && text::is_hidden(character)) {
            let (plain, from) = rest.split_at_checked(at).unwrap_or((rest, ""));
            writer.write_all(plain.as_bytes())?;
            let mut characters = from.chars();
            if let Some(hidden) = characters.next() {
                for unit in hidden.encode_utf16(&mut [0; 2]) {
                    write!(writer, "\\u{unit:04x}")?;
                }
            }
            rest = characters.as_str();
        }
        writer.write_all(rest.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_seen_is_escaped_and_reads_back() {
        let value = serde_json::json!({"a": "x\u{9b}31m\u{202e}y\u{7f}\u{e0041}z"});
        let line = line(&value).unwrap();
        assert!(line.is_ascii(), "{line}");
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&line).unwrap(),
            value
        );
    }
}

//! How much of a text an answer carries. A reason may come from anywhere and goes through every hop, each of which may seal the
//! answer around it, so that an answer has to stay far below what readers take.
//!
//! What is cut ends in `…`. Cutting what was cut changes nothing, so that each hop says the same.

use std::borrow::Cow;

/// Most UTF-16 units of a reason.
pub const MAX_REASON_UNITS: usize = 8_000;

/// Most UTF-16 units of a name, a pattern or a session.
pub(super) const MAX_NAME_UNITS: usize = 1_000;

/// Most bytes of one unit in JSON, on average: what every script takes, and less than what an escaped control character does.
const BYTES_A_UNIT: usize = 3;

/// The mark behind what was cut.
const MARK: char = '…';

/// A reason, as an answer carries it.
pub(super) fn reason(text: &str) -> Cow<'_, str> {
    clip(text, MAX_REASON_UNITS)
}

/// A name, a pattern or a session, as an answer carries it.
pub(super) fn name(text: &str) -> Cow<'_, str> {
    clip(text, MAX_NAME_UNITS)
}

/// The text, with at most so many UTF-16 units and bytes in JSON of it.
pub(super) fn clip(text: &str, most: usize) -> Cow<'_, str> {
    let (mut units, mut bytes) = (0, 0);
    for (at, character) in text.char_indices() {
        units += character.len_utf16();
        bytes += json_len(character);
        if units > most || bytes > most * BYTES_A_UNIT {
            let mut cut = text.get(..at).unwrap_or_default().to_owned();
            cut.push(MARK);
            return Cow::Owned(cut);
        }
    }
    Cow::Borrowed(text)
}

/// How many bytes a character takes within a JSON text.
fn json_len(character: char) -> usize {
    match character {
        '"' | '\\' | '\u{8}' | '\u{c}' | '\n' | '\r' | '\t' => 2,
        '\0'..='\u{1f}' => 6,
        other => other.len_utf8(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_fits_stays_and_what_does_not_says_so() {
        let fits = "r".repeat(MAX_REASON_UNITS);
        assert_eq!(reason(&fits), fits);
        assert_eq!(reason(&format!("{fits}x")), format!("{fits}…"));
        // Two units each, and never half of one.
        let faces = "😀".repeat(MAX_REASON_UNITS / 2);
        assert_eq!(reason(&faces), faces);
        assert_eq!(
            reason(&format!("x{faces}")),
            format!("x{}…", "😀".repeat(MAX_REASON_UNITS / 2 - 1))
        );
        // Six bytes each on the wire.
        let bells = "\u{7}".repeat(MAX_REASON_UNITS);
        assert_eq!(
            reason(&bells),
            format!("{}…", "\u{7}".repeat(MAX_REASON_UNITS / 2))
        );
        assert_eq!(name(&fits).chars().count(), MAX_NAME_UNITS + 1);
    }

    proptest! {
        #[test]
        fn cutting_again_changes_nothing(text in "(\\PC|[\\x00-\\x1f]|\"|😀){0,60}", most in 0_usize..40) {
            let once = clip(&text, most).into_owned();
            prop_assert_eq!(clip(&once, most), once.as_str());
            prop_assert!(once.len() <= most * BYTES_A_UNIT + MARK.len_utf8());
            let json = serde_json::to_string(&text).unwrap();
            prop_assert_eq!(json.len() - 2, text.chars().map(json_len).sum::<usize>());
        }
    }
}

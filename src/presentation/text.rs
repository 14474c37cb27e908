//! Untrusted text made visible.

use std::borrow::Cow;

/// `text` on one line, with every character that cannot be seen shown as an escape.
pub fn visible(text: &str) -> Cow<'_, str> {
    Cow::Borrowed(text)
}

/// Whether [`visible`] shows any part of `text` as an escape.
pub fn has_hidden(text: &str) -> bool {
    matches!(visible(text), Cow::Owned(_))
}

/// Whether `character` cannot be seen, or moves or hides others, wherever it stands.
pub fn is_hidden(character: char) -> bool {
    character.is_control()
}

/// The lines of `text`, each visible, with tabs expanded.
pub fn lines(text: &str) -> Vec<String> {
    text.split('\n')
        .map(|line| visible(line).into_owned())
        .collect()
}

/// Columns that visible text takes on a terminal.
pub fn width(text: &str) -> usize {
    unicode_width::UnicodeWidthStr::width(text)
}

/// Length of `text` in UTF-16 units.
pub fn utf16_len(text: &str) -> usize {
    text.encode_utf16().count()
}

/// At most `units` UTF-16 units of `text`, followed by `…` where something was cut.
pub fn clip_utf16(text: &str, units: usize) -> Cow<'_, str> {
    let _ = units;
    Cow::Borrowed(text)
}

/// Rows of at most `columns` columns that together are `line`.
pub fn wrap(line: &str, columns: usize) -> Vec<String> {
    let _ = columns;
    vec![line.to_owned()]
}

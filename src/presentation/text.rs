//! Untrusted text made visible: what cannot be seen becomes an escape, what can be read stays as it is.
//!
//! An escape stands in angle brackets: `<U+202E>`, and `<LF>`, `<TAB>`, `<CR>`, `<ESC>` for the four that come up most. Text
//! that itself reads like an escape has its `<` escaped (`<U+003C>U+202E>`), so no two texts look the same and what is on the
//! screen can be read back. A backslash form would not do: commands are full of backslashes.
//!
//! Everything of these kinds is escaped: controls, format characters (with them all bidi controls, joiners, tags), line and
//! paragraph separators, every space but U+0020, private use and unassigned code points, variation selectors (but the one
//! that turns a text symbol into an emoji), letters and marks without a visible form, the Thai and Lao AM (terminals disagree
//! about its width), and combining marks that have nothing to combine with or come in heaps. Other text of any script stays
//! readable. Look-alikes are left as they are; [`has_lookalike`] tells where to look twice.
//!
//! Text is made visible exactly once, by the renderer that lays it out; doing it twice escapes the escapes. Widths are measured
//! on visible text only.

use std::borrow::Cow;
use std::fmt::Write as _;

use unicode_properties::emoji::EmojiStatus;
use unicode_properties::{GeneralCategory, UnicodeEmoji, UnicodeGeneralCategory};
use unicode_width::UnicodeWidthChar;

/// Mark of a cut.
pub const ELLIPSIS: char = '…';

/// Columns between two tab stops in [`lines`].
pub const TAB_STOP: usize = 4;

/// Combining marks that one character may carry. Living scripts need fewer; a heap of them covers the rows above and below.
const MAX_MARKS: u8 = 6;

/// Turns the symbol before it into an emoji.
const EMOJI_SELECTOR: char = '\u{FE0F}';
/// Puts what stands before it on a key.
const KEYCAP: char = '\u{20E3}';

/// `text` on one line, with every character that cannot be seen shown as an escape.
pub fn visible(text: &str) -> Cow<'_, str> {
    if is_plain(text) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    let changed = Walk::new(text).write(&mut out, Tabs::Escaped);
    match changed {
        Changed::Nothing => Cow::Borrowed(text),
        Changed::Layout | Changed::Hidden => Cow::Owned(out),
    }
}

/// `text` on one line in double quotes, visible; a quote within it is escaped, so it cannot end the quotation.
pub fn quoted(text: &str) -> String {
    format!("\"{}\"", visible(text).replace('"', "<U+0022>"))
}

/// Whether `text` holds anything that a reader could not have seen. Line breaks and tabs are layout and do not count, nor does
/// text that merely reads like an escape, nor the AM that any Thai text has.
pub fn has_hidden(text: &str) -> bool {
    let mut walk = Walk::new(text);
    let mut rest = text;
    while let Some((at, character)) = rest
        .char_indices()
        .find(|(_, character)| !(' '..='~').contains(character))
    {
        walk.skip(rest.get(..at).unwrap_or_default());
        let behind = rest.get(at + character.len_utf8()..).unwrap_or_default();
        if matches!(character, '\t' | '\n') {
            walk.base = None;
        } else if !walk.stays(character, behind) {
            if !is_am(character) {
                return true;
            }
            walk.base = None;
        }
        rest = behind;
    }
    false
}

/// The lines of `text`, split at line feeds only, each visible, with tabs expanded. There is always at least one.
pub fn lines(text: &str) -> Vec<String> {
    text.split('\n')
        .map(|line| {
            if is_plain(line) {
                return line.to_owned();
            }
            let mut out = String::with_capacity(line.len() + 16);
            Walk::new(line).write(&mut out, Tabs::Expanded);
            out
        })
        .collect()
}

/// Appends one line of a text, visible, with tabs expanded.
pub fn push_line(out: &mut String, line: &str) {
    if is_plain(line) {
        out.push_str(line);
    } else {
        Walk::new(line).write(out, Tabs::Expanded);
    }
}

/// Appends visible text in the form for rows so short that blanks and broken rows cannot be told apart: spaces and backslashes
/// are escaped as well, and so is what does not fit into a row of `columns` columns.
pub fn push_compact(out: &mut String, visible: &str, columns: usize) {
    for (cluster, wide) in clusters(visible) {
        for character in cluster.chars() {
            if wide > columns || matches!(character, ' ' | '\\') {
                push_escape(out, character);
            } else {
                out.push(character);
            }
        }
    }
}

fn push_escape(out: &mut String, character: char) {
    // Writing to a string cannot fail.
    let _ = write!(out, "<U+{:04X}>", u32::from(character));
}

/// Whether `character` cannot be seen, or moves or hides others, wherever it stands.
pub fn is_hidden(character: char) -> bool {
    if character.is_ascii() {
        return character.is_ascii_control();
    }
    if is_everyday(character) {
        return false;
    }
    matches!(
        character.general_category(),
        GeneralCategory::Control
            | GeneralCategory::Format
            | GeneralCategory::LineSeparator
            | GeneralCategory::ParagraphSeparator
            | GeneralCategory::SpaceSeparator
            | GeneralCategory::PrivateUse
            | GeneralCategory::Surrogate
            | GeneralCategory::Unassigned
    ) || has_no_form(character)
}

/// Letters of the scripts that come up most. Each is seen, and stands alone; the tables have the same, and take longer.
fn is_everyday(character: char) -> bool {
    matches!(character,
        '\u{C0}'..='\u{D6}' | '\u{D8}'..='\u{F6}' | '\u{F8}'..='\u{17F}' | '\u{3A3}'..='\u{3CE}' | '\u{410}'..='\u{44F}'
        | '\u{3041}'..='\u{3096}' | '\u{30A1}'..='\u{30FA}' | '\u{4E00}'..='\u{9FEF}' | '\u{AC00}'..='\u{D7A3}')
}

/// Letters, marks and symbols by their category, but drawn as nothing, or not drawn alike by any two terminals.
fn has_no_form(character: char) -> bool {
    matches!(
        character,
        // Combining grapheme joiner, Tifinagh joiner.
        '\u{034F}' | '\u{2D7F}'
        // Hangul fillers.
        | '\u{115F}' | '\u{1160}' | '\u{3164}' | '\u{FFA0}'
        // Khmer inherent vowels and the Khitan filler.
        | '\u{17B4}' | '\u{17B5}' | '\u{16FE4}'
        // Variation selectors: Mongolian, general, ideographic.
        | '\u{180B}'..='\u{180F}' | '\u{FE00}'..='\u{FE0F}' | '\u{E0100}'..='\u{E01EF}'
        // Blank braille cell, blank note head, Egyptian blanks.
        | '\u{2800}' | '\u{1D159}' | '\u{13441}' | '\u{13442}'
        // Stands for an object that is not there.
        | '\u{FFFC}'
    ) || is_am(character)
}

/// Thai and Lao AM: of one or two columns as the terminal likes.
fn is_am(character: char) -> bool {
    matches!(character, '\u{0E33}' | '\u{0EB3}')
}

/// Whether `text` holds something that is easily taken for something else: a word of ASCII letters with a letter of an alphabet
/// that has the same shapes, ASCII in another width or style, or a stand-in for a character that a path or a shell gives a
/// meaning to. A word that is all of one other alphabet is just a word.
pub fn has_lookalike(text: &str) -> bool {
    if text.is_ascii() {
        return false;
    }
    let styled = |character| {
        matches!(character,
        // Full-width letters and digits, mathematical letters and digits.
        '\u{FF10}'..='\u{FF19}' | '\u{FF21}'..='\u{FF3A}' | '\u{FF41}'..='\u{FF5A}' | '\u{1D400}'..='\u{1D7FF}'
        // Stand-ins for `;`, `/`, `\\`, `|`, `:`.
        | '\u{037E}' | '\u{2044}' | '\u{2215}' | '\u{29F8}' | '\u{FF0F}' | '\u{2216}' | '\u{29F5}' | '\u{FE68}' | '\u{FF3C}'
        | '\u{2223}' | '\u{01C0}' | '\u{2236}' | '\u{A789}')
    };
    let same_shapes = |character| {
        matches!(character,
        // Greek and Coptic, Cyrillic, Armenian, Cherokee, Lisu.
        '\u{0370}'..='\u{03FF}' | '\u{0400}'..='\u{052F}' | '\u{0531}'..='\u{0589}' | '\u{13A0}'..='\u{13FF}'
        | '\u{1C80}'..='\u{1C8F}' | '\u{2C80}'..='\u{2CFF}' | '\u{A640}'..='\u{A69F}' | '\u{A4D0}'..='\u{A4FF}'
        | '\u{AB70}'..='\u{ABBF}')
    };
    text.chars().any(styled)
        || text.contains(same_shapes)
            && text
                .split(|character: char| !character.is_alphabetic())
                .any(|word| {
                    word.contains(same_shapes)
                        && word.contains(|character: char| character.is_ascii())
                })
}

/// Columns that visible text takes on a terminal: never less than what is drawn, for ligatures are counted in full.
pub fn width(text: &str) -> usize {
    if text.is_ascii() {
        return text.len();
    }
    clusters(text).map(|(_, columns)| columns).sum()
}

/// Length of `text` in UTF-16 units, as the peer counts.
pub fn utf16_len(text: &str) -> usize {
    if text.is_ascii() {
        return text.len();
    }
    text.chars().map(char::len_utf16).sum()
}

/// At most `units` UTF-16 units of `text`, followed by `…` where something was cut. A character is never split.
pub fn clip_utf16(text: &str, units: usize) -> Cow<'_, str> {
    match clip_point(text, units) {
        None => Cow::Borrowed(text),
        Some(end) => {
            let mut cut = text.get(..end).unwrap_or_default().to_owned();
            cut.push(ELLIPSIS);
            Cow::Owned(cut)
        }
    }
}

/// Where `text` must be cut to have at most `units` UTF-16 units; `None` where it has no more.
pub fn clip_point(text: &str, units: usize) -> Option<usize> {
    // No text has more units than bytes.
    if text.len() <= units {
        return None;
    }
    let mut taken = 0;
    for (at, character) in text.char_indices() {
        taken += character.len_utf16();
        if taken > units {
            return Some(at);
        }
    }
    None
}

/// At most `columns` columns of visible text, the last of them `…` where something was cut.
pub fn clip_columns(text: &str, columns: usize) -> Cow<'_, str> {
    if width(text) <= columns {
        return Cow::Borrowed(text);
    }
    let mut shown = String::new();
    let mut taken = 0;
    for (cluster, wide) in clusters(text) {
        if taken + wide + 1 > columns {
            break;
        }
        shown.push_str(cluster);
        taken += wide;
    }
    if columns > 0 {
        shown.push(ELLIPSIS);
    }
    Cow::Owned(shown)
}

/// The place at or before `at` where visible `text` can be cut without cutting through one of our escapes.
pub fn before_split_escape(text: &str, at: usize) -> usize {
    let before = text.get(..at).unwrap_or(text);
    before
        .char_indices()
        .rev()
        // The longest is `<U+10FFFF>`.
        .take(10)
        .find(|(_, character)| matches!(character, '<' | '>'))
        .filter(|(start, character)| {
            let behind = text.get(start + 1..).unwrap_or_default();
            *character == '<' && reads_like_escape(behind)
        })
        .map_or(before.len(), |(start, _)| start)
}

/// Rows of at most `columns` columns that, one after the other, are exactly the visible `line`. They break behind a space
/// where one stands in the second half of a row, and otherwise not within one of our escapes that has room in a row. Without columns
/// there are no rows; a character that is wider than a whole row becomes `…`.
pub fn wrap(line: &str, columns: usize) -> Vec<String> {
    if columns == 0 {
        return Vec::new();
    }
    if width(line) <= columns {
        return vec![line.to_owned()];
    }
    let mut rows = Vec::new();
    let mut row = String::new();
    let mut taken = 0;
    // Bytes and columns of the row up to and with its last space.
    let mut space = (0, 0);
    let mut next = 0;
    for (cluster, wide) in clusters(line) {
        let at = next;
        next += cluster.len();
        let (cluster, wide) = if wide > columns {
            ("…", 1)
        } else {
            (cluster, wide)
        };
        if taken + wide > columns {
            let (bytes, columns_before) = space;
            // Of an escape each character takes a byte and a column.
            let split = at - before_split_escape(line, at);
            let rest = if columns_before * 2 > columns && columns_before < taken {
                taken -= columns_before;
                row.split_off(bytes)
            } else if split > 0 && split < row.len() {
                taken = split;
                row.split_off(row.len() - split)
            } else {
                taken = 0;
                String::new()
            };
            rows.push(std::mem::replace(&mut row, rest));
            space = (0, 0);
        }
        row.push_str(cluster);
        taken += wide;
        if cluster == " " {
            space = (row.len(), taken);
        }
    }
    rows.push(row);
    rows
}

/// Where a visible line must be broken into rows of at most `columns` columns, each as full as can be: the place of every row but
/// the first, in bytes. Nothing is left out or put in, and blanks count as everything else does. A character that is wider than a
/// row stands alone.
pub fn hard_breaks(line: &str, columns: usize) -> impl Iterator<Item = usize> {
    let (mut at, mut taken) = (0, 0);
    clusters(line).filter_map(move |(cluster, wide)| {
        let breaks = taken + wide > columns && taken > 0;
        taken = if breaks { wide } else { taken + wide };
        let start = at;
        at += cluster.len();
        breaks.then_some(start)
    })
}

/// `text` in pieces that must stay together: a character and what combines with it, with the columns it takes.
pub fn clusters(text: &str) -> impl Iterator<Item = (&str, usize)> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let mut characters = rest.char_indices();
        let (_, first) = characters.next()?;
        let mut columns = first.width().unwrap_or(0);
        let mut end = rest.len();
        for (at, character) in characters {
            if character == EMOJI_SELECTOR {
                columns = columns.max(2);
            } else if character.width().unwrap_or(0) > 0 {
                end = at;
                break;
            }
        }
        let (cluster, behind) = rest.split_at_checked(end)?;
        rest = behind;
        Some((cluster, columns))
    })
}

/// Whether nothing in `text` needs a closer look.
fn is_plain(text: &str) -> bool {
    text.bytes()
        .all(|byte| (b' '..=b'~').contains(&byte) && byte != b'<')
}

/// What becomes of a tab.
#[derive(Clone, Copy)]
enum Tabs {
    Escaped,
    Expanded,
}

/// What making a text visible changed, the least first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Changed {
    /// Nothing at all.
    Nothing,
    /// Line breaks, tabs, or a `<` that reads like an escape.
    Layout,
    /// Something that could not have been seen.
    Hidden,
}

/// One pass over a text.
struct Walk<'a> {
    text: &'a str,
    /// The character before, where it was shown as itself and can carry marks.
    base: Option<char>,
    /// Marks that it already carries.
    marks: u8,
}

impl<'a> Walk<'a> {
    fn new(text: &'a str) -> Self {
        Self {
            text,
            base: None,
            marks: 0,
        }
    }

    fn write(mut self, out: &mut String, tabs: Tabs) -> Changed {
        let mut changed = Changed::Nothing;
        let mut rest = self.text;
        let (mut column, mut measured) = (0, out.len());
        while let Some(next) = rest.chars().next() {
            let plain = rest
                .bytes()
                .position(|byte| !(b' '..=b'~').contains(&byte) || byte == b'<')
                .unwrap_or(rest.len());
            if let Some((run, behind)) = rest.split_at_checked(plain).filter(|_| plain > 0) {
                out.push_str(run);
                self.skip(run);
                rest = behind;
                continue;
            }
            let character = next;
            let behind = rest.get(character.len_utf8()..).unwrap_or_default();
            let change = match (character, tabs) {
                ('\t', Tabs::Expanded) => {
                    // Measured from the last tab only, or a line of tabs would cost its square.
                    column += width(out.get(measured..).unwrap_or_default());
                    let gap = TAB_STOP - column % TAB_STOP;
                    out.extend(std::iter::repeat_n(' ', gap));
                    column += gap;
                    measured = out.len();
                    self.base = None;
                    Changed::Layout
                }
                ('\t' | '\n', _) => {
                    self.escape(out, character);
                    Changed::Layout
                }
                ('<', _) if reads_like_escape(behind) => {
                    self.escape(out, character);
                    Changed::Layout
                }
                _ if self.stays(character, behind) => {
                    out.push(character);
                    Changed::Nothing
                }
                _ => {
                    self.escape(out, character);
                    if is_am(character) {
                        Changed::Layout
                    } else {
                        Changed::Hidden
                    }
                }
            };
            changed = changed.max(change);
            rest = behind;
        }
        changed
    }

    /// Passes over plain text.
    fn skip(&mut self, plain: &str) {
        if let Some(last) = plain.chars().next_back() {
            self.base = (last != ' ').then_some(last);
            self.marks = 0;
        }
    }

    fn escape(&mut self, out: &mut String, character: char) {
        match character {
            '\n' => out.push_str("<LF>"),
            '\t' => out.push_str("<TAB>"),
            '\r' => out.push_str("<CR>"),
            '\u{1B}' => out.push_str("<ESC>"),
            other => push_escape(out, other),
        }
        // A mark behind an escape would sit on its bracket.
        self.base = None;
        self.marks = 0;
    }

    /// Whether `character` is shown as itself here; takes note of it if so.
    fn stays(&mut self, character: char, behind: &str) -> bool {
        if character == EMOJI_SELECTOR {
            let changes =
                self.marks == 0 && self.base.is_some_and(|base| selector_changes(base, behind));
            self.marks += u8::from(changes);
            return changes;
        }
        if is_hidden(character) {
            return false;
        }
        if combines(character) {
            let carried = match self.base {
                None => false,
                Some(base) => !is_conjoining_jamo(character) || is_hangul(base),
            };
            if !carried || self.marks >= MAX_MARKS {
                return false;
            }
            self.marks += 1;
            return true;
        }
        self.base = (character != ' ').then_some(character);
        self.marks = 0;
        true
    }
}

/// Whether the text after a `<` makes the two together look like one of our escapes.
fn reads_like_escape(behind: &str) -> bool {
    let Some((inner, _)) = behind
        .char_indices()
        // The longest is `U+10FFFF`.
        .take(10)
        .find(|(_, character)| *character == '>')
        .and_then(|(at, _)| behind.split_at_checked(at))
    else {
        return false;
    };
    if ["LF", "TAB", "CR", "ESC"]
        .iter()
        .any(|name| inner.eq_ignore_ascii_case(name))
    {
        return true;
    }
    inner
        .strip_prefix(['U', 'u'])
        .and_then(|rest| rest.strip_prefix('+'))
        .is_some_and(|digits| {
            !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
        })
}

/// Whether `character` is drawn onto the one before it.
fn combines(character: char) -> bool {
    !character.is_ascii()
        && !is_everyday(character)
        && (matches!(
            character.general_category(),
            GeneralCategory::NonspacingMark
                | GeneralCategory::EnclosingMark
                | GeneralCategory::SpacingMark
        ) || character.width() == Some(0))
}

/// Whether the emoji selector behind `base` makes a difference that is seen. Behind a digit it does so only within a keycap.
fn selector_changes(base: char, behind: &str) -> bool {
    let status = base.emoji_status();
    matches!(
        status,
        EmojiStatus::EmojiOther | EmojiStatus::EmojiModifierBase
    ) || (matches!(status, EmojiStatus::EmojiOtherAndEmojiComponent) && behind.starts_with(KEYCAP))
}

/// Vowels and finals of Hangul in their conjoining form: without a syllable before them they take no column.
fn is_conjoining_jamo(character: char) -> bool {
    matches!(character, '\u{1160}'..='\u{11FF}' | '\u{D7B0}'..='\u{D7FF}')
}

fn is_hangul(character: char) -> bool {
    matches!(character, '\u{1100}'..='\u{11FF}' | '\u{A960}'..='\u{A97F}' | '\u{AC00}'..='\u{D7FF}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use unicode_width::UnicodeWidthStr;

    use super::*;

    /// Reads visible text back: what a person with enough patience would do.
    fn read_back(shown: &str) -> String {
        let mut out = String::new();
        let mut rest = shown;
        while let Some(character) = rest.chars().next() {
            if let Some((inner, behind)) = rest
                .strip_prefix('<')
                .filter(|behind| reads_like_escape(behind))
                .and_then(|behind| behind.split_once('>'))
            {
                out.push(match inner {
                    "LF" => '\n',
                    "TAB" => '\t',
                    "CR" => '\r',
                    "ESC" => '\u{1B}',
                    hex => char::from_u32(u32::from_str_radix(&hex[2..], 16).unwrap()).unwrap(),
                });
                rest = behind;
            } else {
                out.push(character);
                rest = &rest[character.len_utf8()..];
            }
        }
        out
    }

    fn must_not_be_shown(character: char) -> bool {
        matches!(
            character.general_category(),
            GeneralCategory::Control
                | GeneralCategory::Format
                | GeneralCategory::LineSeparator
                | GeneralCategory::ParagraphSeparator
                | GeneralCategory::PrivateUse
                | GeneralCategory::Unassigned
                | GeneralCategory::Surrogate
        ) || (character.general_category() == GeneralCategory::SpaceSeparator && character != ' ')
    }

    #[test]
    fn no_scalar_value_gets_through_unseen() {
        for character in '\0'..=char::MAX {
            if matches!(character, '\u{40000}'..='\u{DFFFF}' | '\u{F0000}'..) {
                // Nothing but unassigned and private use up here: the quick look is enough.
                assert!(is_hidden(character), "{character:?}");
                continue;
            }
            for text in [character.to_string(), format!("a{character}b")] {
                let shown = visible(&text);
                assert!(!shown.chars().any(must_not_be_shown), "{text:?}");
                assert_eq!(read_back(&shown), text);
                assert_eq!(
                    shown.as_ref() != text,
                    has_hidden(&text) || is_am(character) || "\n\t".contains(character)
                );
            }
            if !is_hidden(character) && !combines(character) {
                assert!(
                    character.width().unwrap() > 0,
                    "{character:?} takes no column"
                );
            }
        }
    }

    #[test]
    fn the_known_tricks_are_shown() {
        for (text, shown) in [
            (
                "cp a.txt b.txt #\u{202E}txt.exe",
                "cp a.txt b.txt #<U+202E>txt.exe",
            ),
            (
                "\u{2066}\u{2069}\u{200E}\u{200F}\u{061C}",
                "<U+2066><U+2069><U+200E><U+200F><U+061C>",
            ),
            ("rm\u{200B} -rf", "rm<U+200B> -rf"),
            ("\u{FEFF}a\u{2060}b\u{AD}c", "<U+FEFF>a<U+2060>b<U+00AD>c"),
            ("a\u{2028}b\u{2029}c\u{85}d", "a<U+2028>b<U+2029>c<U+0085>d"),
            ("build\n[y] allow", "build<LF>[y] allow"),
            (
                "\u{1B}[2J\r\u{7}\u{9B}31m",
                "<ESC>[2J<CR><U+0007><U+009B>31m",
            ),
            (
                "ls\u{A0}-l\u{3000}x\u{2003}y",
                "ls<U+00A0>-l<U+3000>x<U+2003>y",
            ),
            (
                "\u{3164}\u{FFA0}\u{115F}\u{1160}\u{2800}",
                "<U+3164><U+FFA0><U+115F><U+1160><U+2800>",
            ),
            (
                "\u{E0041}\u{E0100}\u{FE00}\u{F8FF}\u{10FFFF}",
                "<U+E0041><U+E0100><U+FE00><U+F8FF><U+10FFFF>",
            ),
            ("\u{301}x", "<U+0301>x"),
            (" \u{301}x", " <U+0301>x"),
            ("\u{200B}\u{301}", "<U+200B><U+0301>"),
            ("1\u{FE0F}", "1<U+FE0F>"),
            ("\u{1F600}\u{FE0F}", "\u{1F600}<U+FE0F>"),
            ("a\u{1161}", "a<U+1161>"),
        ] {
            assert_eq!(visible(text), shown);
            assert_eq!(has_hidden(text), !text.contains('\n'));
        }
        assert_eq!(
            visible(&format!("a{}", "\u{301}".repeat(7))),
            format!("a{}<U+0301>", "\u{301}".repeat(6))
        );
    }

    #[test]
    fn an_everyday_letter_is_what_the_tables_say() {
        for character in ('\0'..=char::MAX).filter(|character| is_everyday(*character)) {
            assert!(
                matches!(
                    character.general_category(),
                    GeneralCategory::UppercaseLetter
                        | GeneralCategory::LowercaseLetter
                        | GeneralCategory::OtherLetter
                ) && !has_no_form(character)
                    && character.width() > Some(0),
                "{character:?}"
            );
        }
    }

    #[test]
    fn the_am_of_thai_text_is_escaped_but_no_reason_for_alarm() {
        assert_eq!(visible("\u{0E17}\u{0E33}"), "\u{0E17}<U+0E33>");
        assert!(!has_hidden("\u{0E17}\u{0E33}"));
    }

    #[test]
    fn lookalikes_are_told() {
        for text in [
            "\u{441}url evil",
            "p\u{430}ypal.com",
            "ls \u{3B1}b",
            "\u{FF52}\u{FF4D} -rf",
            "\u{1D41A}",
            "a\u{2215}b",
            "ls\u{37E}",
        ] {
            assert!(has_lookalike(text), "{text}");
        }
        for text in [
            "",
            "rm -rf",
            "Привет rm",
            "αβγ-x",
            "你好，ls？",
            "naïve",
            "安装 npm包",
        ] {
            assert!(!has_lookalike(text), "{text}");
        }
    }

    #[test]
    fn text_that_reads_like_an_escape_is_told_apart() {
        for (text, shown) in [
            ("<U+202E>", "<U+003C>U+202E>"),
            ("<u+a>", "<U+003C>u+a>"),
            ("<LF> <esc>", "<U+003C>LF> <U+003C>esc>"),
            ("\\n", "\\n"),
            (
                "<lossy-text> a<b>c <U+> <U+1234567890>",
                "<lossy-text> a<b>c <U+> <U+1234567890>",
            ),
        ] {
            assert_eq!(visible(text), shown);
            assert!(!has_hidden(text));
        }
    }

    #[test]
    fn ordinary_text_of_any_script_stays_readable() {
        for text in [
            "plain ASCII with \\ and \" and $(x)",
            "Grüße, naïve café",
            "cafe\u{301}",
            "Привет, мир",
            "你好，世界",
            "こんにちは",
            "안녕하세요",
            "\u{1112}\u{1161}\u{11AB}",
            "שלום",
            "مرحبا",
            "नमस्ते दुनिया",
            "สวัสดี",
            "❤\u{FE0F} 1\u{FE0F}\u{20E3} 😀 👍🏽",
        ] {
            assert!(matches!(visible(text), Cow::Borrowed(_)), "{text}");
            assert_eq!(visible(text), text);
        }
    }

    #[test]
    fn lines_are_split_at_line_feeds_and_tabs_expanded() {
        assert_eq!(lines(""), [""]);
        assert_eq!(
            lines("a\tb\n\tc\r\nd\u{2028}e\n"),
            ["a   b", "    c<CR>", "d<U+2028>e", ""]
        );
        assert_eq!(lines("你\tx\ty"), ["你  x   y"]);
    }

    #[test]
    fn a_clip_counts_as_the_peer_and_splits_nothing() {
        assert_eq!(clip_utf16("abc", 3), "abc");
        assert_eq!(clip_utf16("abcd", 3), "abc…");
        assert_eq!(clip_utf16("äöü", 3), "äöü");
        assert_eq!(clip_utf16("a😀b", 2), "a…");
        assert_eq!(clip_utf16("a😀b", 3), "a😀…");
        assert_eq!(clip_utf16("a", 0), "…");
        assert_eq!(clip_utf16("", 0), "");
        assert_eq!(utf16_len("a😀b"), 4);
    }

    #[test]
    fn a_clip_by_columns_fits() {
        for (columns, shown) in [
            (9, "a你b好c"),
            (7, "a你b好c"),
            (6, "a你b…"),
            (5, "a你b…"),
            (2, "a…"),
            (1, "…"),
            (0, ""),
        ] {
            assert_eq!(clip_columns("a你b好c", columns), shown, "{columns}");
        }
    }

    #[test]
    fn rows_break_behind_spaces_where_that_wastes_little() {
        assert_eq!(wrap("one two three", 9), ["one two ", "three"]);
        assert_eq!(wrap("a bcdefghij", 6), ["a bcde", "fghij"]);
        assert_eq!(wrap("你好世界", 5), ["你好", "世界"]);
        assert_eq!(wrap("你a", 1), ["…", "a"]);
        assert_eq!(wrap("e\u{301}e\u{301}", 1), ["e\u{301}", "e\u{301}"]);
        assert_eq!(wrap("", 5), [""]);
        assert!(wrap("abc", 0).is_empty());
    }

    proptest! {
        #[test]
        fn different_texts_never_look_the_same(
            text in "([<>U+0-9aLFub\\n\u{301}\u{200B}\u{FE0F}❤]|\\PC|.){0,40}",
        ) {
            let shown = visible(&text);
            prop_assert_eq!(read_back(&shown), text.clone());
            prop_assert!(!has_hidden(&shown));
            prop_assert!(!shown.chars().any(must_not_be_shown));
            prop_assert!(width(&shown) >= shown.width());
        }

        #[test]
        fn rows_are_the_line_and_fit(text in "([a ]|\\PC|.){0,60}", columns in 2_usize..20) {
            let shown = visible(&text);
            let rows = wrap(&shown, columns);
            prop_assert_eq!(rows.concat(), shown.as_ref());
            for row in rows {
                prop_assert!(width(&row) <= columns, "{:?}", row);
            }
        }

        #[test]
        fn hard_rows_are_the_line_and_fit(text in "([a ]|\\PC|.){0,60}", columns in 1_usize..20) {
            let shown = visible(&text);
            let mut compact = String::new();
            push_compact(&mut compact, &shown, columns);
            prop_assert_eq!(read_back(&compact), text.as_str());
            prop_assert!(!compact.contains([' ', '\\']));
            for line in [compact.as_str(), if columns > 1 { &shown } else { "" }] {
                let ends = hard_breaks(line, columns).chain([line.len()]);
                let mut from = 0;
                for end in ends {
                    let row = &line[from..end];
                    prop_assert!(width(row) <= columns, "{:?}", row);
                    if let Some((_, next)) = clusters(&line[end..]).next() {
                        prop_assert!(width(row) + next > columns, "{:?} is not full", row);
                    }
                    from = end;
                }
            }
        }

        #[test]
        fn a_clip_is_a_prefix(text in ".{0,20}", units in 0_usize..25) {
            let clipped = clip_utf16(&text, units);
            if utf16_len(&text) <= units {
                prop_assert_eq!(clipped.as_ref(), text.as_str());
            } else {
                let kept = clipped.strip_suffix(ELLIPSIS).unwrap();
                prop_assert!(text.starts_with(kept));
                prop_assert!((units.saturating_sub(1)..=units).contains(&utf16_len(kept)));
            }
        }
    }
}

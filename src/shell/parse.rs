//! Parsing, with the work bounded by the length of the text and not by a clock.

use std::cell::Cell;
use std::ops::ControlFlow;

use tree_sitter::{ParseOptions, ParseState, Parser, Tree};

/// How many bytes there must be for each time that the parser reports in, and how often it may do so for any text. It does
/// so every hundred steps; ordinary text takes fewer than six steps for each byte, text made to be ambiguous takes many more.
const BYTES_PER_REPORT: usize = 8;
const REPORTS_AT_LEAST: usize = 500;

/// The text is handed over in pieces of this many bytes, and each piece counts: a scanner that looks far ahead again and again
/// does so without a step.
const PIECE_BYTES: usize = 512;
const READS_PER_BYTE: usize = 16;
const READS_AT_LEAST: usize = 1024 * 1024;

/// Longest text whose errors the parser tries to get over. What it finds behind an error allows nothing, and only helps to see
/// what is meant; and getting over it costs much more than parsing.
const MAX_RECOVERED_BYTES: usize = 4096;

/// Most pipe signs in a text. A pipeline that goes wrong at its end costs the parser its length squared, in one step.
const MAX_PIPES: usize = 1000;

/// The tree of a text; `None` where it takes too much work.
pub(super) fn parse(text: &str) -> Option<Tree> {
    let mut parser = Parser::new();
    parser
        .set_language(&tree_sitter_bash::LANGUAGE.into())
        .ok()?;
    let shadow: Vec<u8> = text.bytes().map(shadow).collect();
    let bytes = shadow.as_slice();
    if memchr::memchr_iter(b'|', bytes).count() > MAX_PIPES {
        return None;
    }
    let reports = Cell::new(Some(REPORTS_AT_LEAST + bytes.len() / BYTES_PER_REPORT));
    let reads = Cell::new(Some(
        READS_AT_LEAST + bytes.len().saturating_mul(READS_PER_BYTE),
    ));
    let spend = |from: &Cell<Option<usize>>, amount: usize| {
        from.set(from.get().and_then(|left| left.checked_sub(amount)));
        from.get().is_some()
    };
    let recovers = bytes.len() <= MAX_RECOVERED_BYTES;
    let mut progress = |state: &ParseState| {
        let goes_on = recovers || !state.has_error();
        if goes_on && reads.get().is_some() && spend(&reports, 1) {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        }
    };
    let mut read = |at: usize, _| -> &[u8] {
        let rest = bytes.get(at..).unwrap_or_default();
        let piece = rest.get(..PIECE_BYTES).unwrap_or(rest);
        if spend(&reads, piece.len()) {
            piece
        } else {
            &[]
        }
    };
    let options = ParseOptions::new().progress_callback(&mut progress);
    let tree = parser.parse_with_options(&mut read, None, Some(options));
    // What was read to an end that is none says nothing.
    tree.filter(|_| reads.get().is_some())
}

/// What the grammar gets to see of a byte. Its scanner looks characters up in a table of 256 without asking whether they are in it,
/// and reads elsewhere, or ends the process. To a shell a character beyond ASCII is a part of a word and nothing else: no letter of
/// a name, no operator. So is `^`. The tree is the same, and texts are taken from the line itself.
fn shadow(byte: u8) -> u8 {
    if byte.is_ascii() { byte } else { b'^' }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_character_reaches_beyond_the_tables_of_the_grammar() {
        for text in [
            "{\u{6cedc}",
            "\u{10ffff}=1",
            "$\u{e0041}",
            "cat <<\u{4f60}\nx\n\u{4f60}",
            "${\u{ff21}}",
        ] {
            assert!(parse(text).is_some(), "{text:?}");
        }
        for character in ('\u{80}'..=char::MAX).step_by(97) {
            for text in [
                format!("{{{character}"),
                format!("{character}=1"),
                format!("${character} ${{{character}}}"),
            ] {
                assert!(parse(&text).is_some(), "{text:?}");
            }
        }
    }
}

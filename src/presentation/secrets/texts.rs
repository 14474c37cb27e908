//! What in the text of a word, or of a line, is a secret wherever it stands: headers, addresses, parameters and members.

use super::REDACTED;
use super::names::{is_of_a_name, is_telling_header, names_a_secret, scheme};
use super::rules::Spots;
use crate::shell::Piece;

impl Spots {
    /// What may stand anywhere in a word.
    pub(super) fn within(&mut self, word: &Piece) {
        self.headers(word, 0, is_telling_header);
        self.addresses(word, "");
        self.parameters(word);
        self.members(word);
    }

    /// Headers `Name: value` from `start` on, of which the name satisfies `is_telling`.
    pub(super) fn headers(&mut self, word: &Piece, start: usize, is_telling: fn(&str) -> bool) {
        let text = word.text();
        let mut start = start;
        for (at, _) in text.match_indices(':') {
            let Some(before) = text.get(start..at) else {
                continue;
            };
            let name = last_word(before, |c| c.is_ascii_alphanumeric() || "-_".contains(c));
            let behind = at + 1;
            let value = text.get(behind..).unwrap_or_default();
            if value.starts_with("//") || !is_telling(name) {
                continue;
            }
            let end = ["\n", "\r", "\\n", "\\r"]
                .iter()
                .filter_map(|end| value.find(end))
                .min()
                .unwrap_or(value.len());
            let value = value.get(..end).unwrap_or_default();
            let skipped = if self.to_the_end { 0 } else { scheme(value) };
            start = behind + end;
            self.hide(word, behind + skipped..start);
        }
    }

    /// The user's part of addresses wherever they stand in a line, in what is no word of a command too.
    pub(super) fn addresses_in_line(&mut self, line: &Piece) {
        self.addresses(line, "&;|()");
    }

    /// The user's part of addresses, `scheme://user:password@host`. Where a page is fetched, the user may be a token.
    fn addresses(&mut self, word: &Piece, operators: &str) {
        const ENDS: &str = "/?#\\ \t\n\r\"'`<>";
        let text = word.text();
        for (at, mark) in text.match_indices("://") {
            let start = at + mark.len();
            let rest = text.get(start..).unwrap_or_default();
            let end = rest.find(|c| ENDS.contains(c) || operators.contains(c));
            let authority = rest.get(..end.unwrap_or(rest.len())).unwrap_or_default();
            let Some(length) = authority.rfind('@') else {
                continue;
            };
            let user = authority.get(..length).unwrap_or_default();
            let scheme = last_word(text.get(..at).unwrap_or_default(), |c| {
                c.is_ascii_alphanumeric()
            });
            let colon = user.find(':').map(|colon| start + colon);
            if scheme.starts_with("http") {
                self.hide(word, start..colon.unwrap_or(start + length));
            }
            if let Some(colon) = colon {
                self.hide(word, colon + 1..start + length);
            }
        }
    }

    /// `name=value` behind `?`, `&` or `;`, as in addresses and forms, in addresses behind `#` too. In a form a value may hold blanks and quotes.
    fn parameters(&mut self, word: &Piece) {
        let text = word.text();
        let scheme = text.split_once("://").map(|(scheme, _)| scheme);
        let is_address = scheme.is_some();
        // An address may be a value of a form.
        let is_form = scheme.is_none_or(|before| before.contains('='));
        let mut done = 0;
        for (at, _) in text.match_indices('=') {
            let Some(before) = text.get(done..at) else {
                continue;
            };
            let name = last_word(before, is_of_a_name);
            let lead = before.get(..before.len() - name.len()).unwrap_or_default();
            let leads = lead.ends_with(['?', '&', ';']) || is_address && lead.ends_with('#');
            if !leads || !names_a_secret(name) {
                continue;
            }
            let value = text.get(at + 1..).unwrap_or_default();
            let is_of_a_form = lead.ends_with('&') && is_form;
            let ends = |c: char| c == '&' || !is_of_a_form && "# \t\n\"'".contains(c);
            let end = value.find(ends).unwrap_or(value.len());
            done = at + 1 + end;
            self.hide(word, at + 1..done);
        }
    }

    /// `"name": "value"`, as in JSON, also with single quotes and with quotes that are escaped. A value without quotes is a number or
    /// the like; a list or an object is masked up to the end of the word.
    fn members(&mut self, word: &Piece) {
        let text = word.text();
        let mut done = 0;
        for (at, _) in text.match_indices(':') {
            if at < done {
                continue;
            }
            let before = text
                .get(..at)
                .unwrap_or_default()
                .trim_end_matches([' ', '\t']);
            let Some(before) = before.strip_suffix(['"', '\'']) else {
                continue;
            };
            let name = last_word(before.trim_end_matches('\\'), is_of_a_name);
            if !names_a_secret(name) {
                continue;
            }
            let behind = text.get(at + 1..).unwrap_or_default();
            let value = behind.trim_start_matches([' ', '\t', '\n', '\r']);
            let bare = value.trim_start_matches('\\');
            let start = text.len() - bare.len();
            match bare.chars().next() {
                Some(quote @ ('"' | '\'')) => {
                    let inner = bare.get(1..).unwrap_or_default();
                    let length = quoted_length(inner, quote, value.len() - bare.len());
                    done = start + 1 + length;
                    self.hide(word, start + 1..done);
                }
                Some('[' | '{') if !bare.starts_with(REDACTED) => {
                    return self.hide_from(word, start);
                }
                _ => {
                    // What is masked already looks like a list.
                    let masked = bare.strip_prefix(REDACTED).map_or(0, |_| REDACTED.len());
                    let rest = bare.get(masked..).unwrap_or_default();
                    let length = rest.find([',', '}', ']', ' ', '\t', '\n', '\r']);
                    let length = masked + length.unwrap_or(rest.len());
                    if !NOTHING.contains(&bare.get(..length).unwrap_or_default()) {
                        done = start + length;
                        self.hide(word, start..done);
                    }
                }
            }
        }
    }
}

/// What stands in the place of a value and tells nothing.
const NOTHING: [&str; 3] = ["null", "true", "false"];

/// The length of a string up to its closing quote, in front of which stand exactly so many backslashes.
fn quoted_length(text: &str, quote: char, escapes: usize) -> usize {
    let mut slashes = 0;
    for (at, character) in text.char_indices() {
        if character == quote && (slashes == escapes || escapes == 0 && slashes % 2 == 0) {
            return at - slashes.min(escapes);
        }
        slashes = if character == '\\' { slashes + 1 } else { 0 };
    }
    text.len()
}

/// The characters of one kind at the end of a text.
fn last_word(text: &str, is_of_it: impl Fn(char) -> bool) -> &str {
    let rest = text.trim_end_matches(is_of_it);
    text.get(rest.len()..).unwrap_or_default()
}

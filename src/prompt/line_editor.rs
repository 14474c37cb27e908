//! One line of text that a person writes: the reason for a denial, a word to search for.
//!
//! A paste is text and never submits: its line breaks become spaces. What cannot be seen is not taken, for a person who writes means
//! what is on the screen.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "of all keys that there are, most mean nothing here"
)]

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use crate::presentation::text;

/// Most characters that are taken.
const MAX_CHARS: usize = 1_000;

/// A line that is being written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct LineEditor {
    before: String,
    behind: String,
}

impl LineEditor {
    /// The line.
    pub(super) fn text(&self) -> String {
        format!("{}{}", self.before, self.behind)
    }

    /// Whether it says nothing.
    pub(super) fn is_blank(&self) -> bool {
        self.before.trim().is_empty() && self.behind.trim().is_empty()
    }

    /// Takes text in at the cursor.
    pub(super) fn insert(&mut self, pasted: &str) {
        let room = MAX_CHARS.saturating_sub(self.text().chars().count());
        let folded = pasted
            .split(['\r', '\n'])
            .map(str::trim)
            .filter(|line| !line.is_empty());
        let mut first = true;
        let mut taken = String::new();
        for line in folded {
            if !std::mem::take(&mut first) {
                taken.push(' ');
            }
            taken.extend(line.chars().map(|c| if c == '\t' { ' ' } else { c }));
        }
        let seen = taken
            .chars()
            .filter(|character| !text::is_hidden(*character));
        self.before.extend(seen.take(room));
    }

    /// Takes a key that edits; gives whether it was one.
    pub(super) fn key(&mut self, key: KeyEvent) -> bool {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('u') if control => self.before.clear(),
            KeyCode::Char('k') if control => self.behind.clear(),
            KeyCode::Char('a') if control => self.home(),
            KeyCode::Char('e') if control => self.end(),
            KeyCode::Char('w') if control => {
                let kept = self.before.trim_end();
                let at = kept.rfind(' ').map_or(0, |at| at + 1);
                self.before.truncate(at);
            }
            KeyCode::Char(character) if !control && !key.modifiers.contains(KeyModifiers::ALT) => {
                let mut bytes = [0; 4];
                self.type_in(character.encode_utf8(&mut bytes));
            }
            KeyCode::Backspace => drop(self.before.pop()),
            KeyCode::Delete => {
                let mut rest = self.behind.chars();
                rest.next();
                self.behind = rest.as_str().to_owned();
            }
            KeyCode::Left => {
                if let Some(character) = self.before.pop() {
                    self.behind.insert(0, character);
                }
            }
            KeyCode::Right => {
                let mut rest = self.behind.chars();
                if let Some(character) = rest.next() {
                    self.before.push(character);
                    self.behind = rest.as_str().to_owned();
                }
            }
            KeyCode::Home => self.home(),
            KeyCode::End => self.end(),
            _ => return false,
        }
        true
    }

    /// What of the line is shown in `columns` columns, and the column of the cursor in it.
    pub(super) fn view(&self, columns: usize) -> (String, usize) {
        let before = text::visible(&self.before);
        let behind = text::visible(&self.behind);
        let Some(most) = columns.checked_sub(1) else {
            return (String::new(), 0);
        };
        let mut shown = before.into_owned();
        while text::width(&shown) > most {
            shown.remove(0);
        }
        let cursor = text::width(&shown);
        for character in behind.chars() {
            shown.push(character);
            if text::width(&shown) > most {
                shown.pop();
                break;
            }
        }
        (shown, cursor)
    }

    fn type_in(&mut self, character: &str) {
        // A typed space stands where it was typed; a pasted one at an end of its line does not.
        if character == " " {
            if self.text().chars().count() < MAX_CHARS {
                self.before.push(' ');
            }
        } else {
            self.insert(character);
        }
    }

    fn home(&mut self) {
        self.behind.insert_str(0, &self.before);
        self.before.clear();
    }

    fn end(&mut self) {
        self.before.push_str(&self.behind);
        self.behind.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn press(editor: &mut LineEditor, codes: &[KeyCode]) {
        for code in codes {
            assert!(editor.key(KeyEvent::new(*code, KeyModifiers::NONE)));
        }
    }

    fn control(editor: &mut LineEditor, letter: char) {
        let key = KeyEvent::new(KeyCode::Char(letter), KeyModifiers::CONTROL);
        assert!(editor.key(key));
    }

    #[test]
    fn keys_edit_at_the_cursor() {
        let mut editor = LineEditor::default();
        for character in "use a b".chars() {
            press(&mut editor, &[KeyCode::Char(character)]);
        }
        press(
            &mut editor,
            &[
                KeyCode::Left,
                KeyCode::Backspace,
                KeyCode::Char('ä'),
                KeyCode::End,
            ],
        );
        assert_eq!(editor.text(), "use aäb");
        control(&mut editor, 'w');
        assert_eq!(editor.text(), "use ");
        press(
            &mut editor,
            &[KeyCode::Home, KeyCode::Delete, KeyCode::Right],
        );
        assert_eq!(editor.text(), "se ");
        control(&mut editor, 'k');
        assert_eq!(editor.text(), "s");
        control(&mut editor, 'u');
        assert!(editor.is_blank());
        assert!(!editor.key(KeyEvent::new(KeyCode::Enter, KeyModifiers::NONE)));
    }

    #[test]
    fn keys_5_a_paste_is_text_and_its_lines_become_one() {
        let mut editor = LineEditor::default();
        editor.insert("not today\r\n\n  use \u{1B}[2J\u{202E}make\ttest\n");
        assert_eq!(editor.text(), "not today use [2Jmake test");
        editor.insert(&"x".repeat(2_000));
        assert_eq!(editor.text().chars().count(), MAX_CHARS);
    }

    #[test]
    fn the_view_follows_the_cursor() {
        let mut editor = LineEditor::default();
        editor.insert("abcdefgh");
        assert_eq!(editor.view(20), ("abcdefgh".to_owned(), 8));
        assert_eq!(editor.view(5), ("efgh".to_owned(), 4));
        control(&mut editor, 'a');
        assert_eq!(editor.view(5), ("abcd".to_owned(), 0));
        assert_eq!(editor.view(1), (String::new(), 0));
        assert_eq!(editor.view(0), (String::new(), 0));
    }
}

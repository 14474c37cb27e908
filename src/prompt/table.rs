//! The table of several asks that are alike, on the whole screen: what they have in common, who asks each, and one answer to all.
//!
//! It is a part of the dialog and of the inbox. It names the asks that were there when it was opened, and none that comes later. A key
//! that answers has to be pressed twice; which keys do is for those who open it, and whether a key is meant is too.
//!
//! Invariants: nothing is answered with yes before all of the table has been on the screen, nor on a screen that shows none of it;
//! what is answered is what the table names, in the bytes that it was named with.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "of all keys that there are, most mean nothing here"
)]

use ratatui::buffer::Buffer;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::app::Presses;
use super::reader::{Reader, Search, Words};
use super::{Answerer, PersonEvent};
use crate::presentation::review::Review;
use crate::presentation::select::Plain;
use crate::serve::{Alike, Shown};
use crate::wire::{Digest, RequestId, UserSurface};

/// A key that answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct AnswerKey {
    /// The letter.
    pub(super) letter: char,
    /// Whether Control is held with it.
    pub(super) control: bool,
}

impl AnswerKey {
    fn is(self, key: KeyEvent) -> bool {
        key.code == KeyCode::Char(self.letter)
            && key.modifiers.contains(KeyModifiers::CONTROL) == self.control
    }

    fn word(self) -> String {
        if self.control {
            format!("^{}", self.letter.to_ascii_uppercase())
        } else {
            self.letter.to_string()
        }
    }
}

/// The keys of a table.
#[derive(Debug, Clone, Copy)]
pub(super) struct TableKeys {
    pub(super) yes: AnswerKey,
    pub(super) no: AnswerKey,
    pub(super) presses: Presses,
}

/// What a key has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(super) enum Done {
    /// The table stays.
    Stays,
    /// Back to the one ask.
    Back,
    /// All that it names are answered.
    Answered(Plain),
}

/// The table.
#[derive(Debug)]
pub(super) struct Table {
    reader: Reader,
    asks: Vec<(RequestId, Digest)>,
    likeness: Digest,
    keys: TableKeys,
    /// The answer whose key was pressed once.
    armed: Option<Plain>,
}

impl Table {
    /// The table of an ask and of those that are like it, where there are any.
    pub(super) fn new(shown: &Shown, alike: &Alike, keys: TableKeys) -> Option<Self> {
        let likeness = alike.likeness.filter(|_| !alike.twins.is_empty())?;
        let payload = shown.payload();
        let ask = super::ask(shown, &payload);
        let review = Review::of_table(&ask, &super::askers(shown, alike), alike.more);
        Some(Self {
            reader: Reader::new(review),
            asks: super::named(shown, alike),
            likeness,
            keys,
            armed: None,
        })
    }

    /// How many asks it names.
    pub(super) fn count(&self) -> usize {
        self.asks.len()
    }

    /// Whether the screen shows any of it.
    pub(super) fn is_visible(&self) -> bool {
        self.reader.is_visible()
    }

    /// Something came in between: what was pressed once is not meant any more.
    pub(super) fn disarm(&mut self) {
        self.armed = None;
    }

    /// Takes a key. One that is not meant only looks around.
    pub(super) fn key(&mut self, key: KeyEvent, meant: bool) -> Done {
        let armed = self.armed.take().filter(|_| meant);
        let answer = if self.keys.yes.is(key) {
            Some(Plain::Yes)
        } else if self.keys.no.is(key) {
            Some(Plain::No)
        } else {
            None
        };
        match answer {
            Some(answer) if !meant || !self.may(answer) => Done::Stays,
            Some(answer) if armed == Some(answer) || self.keys.presses == Presses::One => {
                Done::Answered(answer)
            }
            Some(answer) => {
                self.armed = Some(answer);
                Done::Stays
            }
            None if key.modifiers.contains(KeyModifiers::CONTROL) => Done::Stays,
            None => self.look_around(key, meant),
        }
    }

    fn look_around(&mut self, key: KeyEvent, meant: bool) -> Done {
        match key.code {
            KeyCode::Esc if meant => return Done::Back,
            KeyCode::Up
            | KeyCode::Down
            | KeyCode::PageUp
            | KeyCode::PageDown
            | KeyCode::Home
            | KeyCode::End
            | KeyCode::Char('j' | 'k' | ' ') => self.reader.look_around(key),
            _ => {}
        }
        Done::Stays
    }

    /// Whether this can be answered as yet.
    fn may(&self, answer: Plain) -> bool {
        answer == Plain::No || self.reader.has_shown_core() && self.reader.is_visible()
    }

    /// What is told to the session.
    pub(super) fn answered(self, verdict: Plain) -> PersonEvent {
        PersonEvent::AnsweredTogether {
            asks: self.asks,
            likeness: self.likeness,
            verdict,
            by: Answerer::Person(UserSurface::Dialog),
        }
    }

    /// How many of those that it names are not there any more, as of what is there now.
    fn gone(&self, now: &Alike) -> usize {
        let twins = self.asks.iter().skip(1);
        let is_gone = |(id, digest): &&(RequestId, Digest)| {
            let mut twins = now.twins.iter();
            !twins.any(|twin| (&twin.id, &twin.digest) == (id, digest))
        };
        // Where there are more than are named, one of these may be among those that are not.
        if now.more {
            0
        } else {
            twins.filter(is_gone).count()
        }
    }

    /// Draws it. `dead` tells that keys do not count at the moment.
    pub(super) fn draw(&mut self, cells: &mut Buffer, now: &Alike, dead: bool) {
        let count = self.count();
        let title = format!("{count} asks that are alike");
        let more = match self.gone(now) {
            0 => String::new(),
            gone => format!("{gone} of them gone meanwhile"),
        };
        let (keys, armed) = (self.keys, self.armed);
        let _no_cursor = self.reader.draw(cells, |reader| {
            let (yes, no) = (keys.yes.word(), keys.no.word());
            let twice = |key: &str| match keys.presses {
                Presses::Two => format!("{key} {key}"),
                Presses::One => key.to_owned(),
            };
            let mut hints = Vec::new();
            match armed {
                Some(Plain::Yes) => hints.push(format!("{yes} again: yes to all {count}")),
                Some(Plain::No) => hints.push(format!("{no} again: no to all {count}")),
                None if dead => hints.push("keys wake in a moment".to_owned()),
                None if reader.has_shown_core() => {
                    hints.push(format!("{}: yes to all {count}", twice(&yes)));
                    hints.push(format!("{}: no", twice(&no)));
                }
                None => {
                    hints.push("it goes on: ↓".to_owned());
                    hints.push("no yes before its end".to_owned());
                }
            }
            hints.push("Esc back".to_owned());
            Words {
                title,
                more,
                hints,
                last: String::new(),
                search: Search::None,
            }
        });
    }

    /// It is on the screen.
    pub(super) fn drawn(&mut self) {
        self.reader.drawn();
    }
}

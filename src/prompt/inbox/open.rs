//! The review that is open: which ask, which rows of it are shown, and which have been.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "of all keys that there are, most mean nothing here"
)]

use ratatui::crossterm::event::{KeyCode, KeyEvent};

use crate::presentation::review::Review;
use crate::prompt::app::summary;
use crate::prompt::line_editor::LineEditor;
use crate::serve::Shown;
use crate::wire::{Digest, RequestId};

/// The ask whose review is open.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) id: RequestId,
    pub(super) digest: Digest,
    /// What is asked, in short.
    pub(super) summary: String,
    /// Who asks, visible.
    pub(super) agent: String,
    pub(super) review: Review,
    /// The first row that is shown, and how many were shown last.
    pub(super) top: usize,
    pub(super) page: usize,
    /// How many rows of the core have been on the screen, from the first one.
    pub(super) seen: Seen,
    /// The word that is searched for, while it is written.
    pub(super) search: Option<LineEditor>,
    /// The row that the search has led to, until something else has moved the rows.
    pub(super) hit: Option<usize>,
}

/// What of the core facts has been on the screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Seen {
    /// The rows before this one, as the layout is now.
    Until(usize),
    /// Every one.
    All,
}

impl Open {
    pub(super) fn new(shown: Shown) -> Self {
        let payload = shown.payload();
        let review = Review::new(&super::super::ask(&shown, &payload));
        Self {
            summary: summary(&payload.request.surface, &payload.request.value),
            agent: super::list_view::name(shown.request.agent_name().unwrap_or_default()),
            id: shown.request.id,
            digest: shown.digest,
            review,
            top: 0,
            page: 0,
            seen: Seen::Until(0),
            search: None,
            hit: None,
        }
    }

    /// Moves the first row that is shown; what does not exist is not moved to.
    pub(super) fn scroll_to(&mut self, top: usize) {
        self.top = top.min(self.review.rows().saturating_sub(self.page));
    }

    /// Notes that these rows are on the screen.
    pub(super) fn note_seen(&mut self) {
        let core = self.review.core_rows();
        if let Seen::Until(until) = self.seen {
            let behind = self.top + self.page;
            let until = if self.top <= until {
                until.max(behind)
            } else {
                until
            };
            self.seen = if self.page > 0 && until >= core {
                Seen::All
            } else {
                Seen::Until(until)
            };
        }
    }

    /// A key that only looks around; gives whether it was one.
    pub(super) fn look_around(&mut self, key: KeyEvent) -> bool {
        let page = self.page.saturating_sub(1).max(1);
        match key.code {
            KeyCode::Up | KeyCode::Char('k') => self.scroll_to(self.top.saturating_sub(1)),
            KeyCode::Down | KeyCode::Char('j') => self.scroll_to(self.top + 1),
            KeyCode::PageUp => self.scroll_to(self.top.saturating_sub(page)),
            KeyCode::PageDown | KeyCode::Char(' ') => self.scroll_to(self.top + page),
            KeyCode::Home | KeyCode::Char('g') => self.scroll_to(0),
            KeyCode::End | KeyCode::Char('G') => self.scroll_to(usize::MAX),
            KeyCode::Char('/') => self.search = Some(LineEditor::default()),
            KeyCode::Char('n') => {
                let from = self.hit.map_or(self.top, |hit| hit + 1);
                return self.go_to(self.review.found_from(from));
            }
            KeyCode::Char('N') => {
                let before = self.hit.unwrap_or(self.top);
                return self.go_to(self.review.found_before(before));
            }
            _ => return false,
        }
        self.hit = None;
        true
    }

    /// Shows a row that was searched for.
    fn go_to(&mut self, row: Option<usize>) -> bool {
        if let Some(row) = row {
            self.scroll_to(row);
            self.hit = Some(row);
        }
        true
    }

    /// A key while the word to search for is written; gives whether it has ended that.
    pub(super) fn search_key(&mut self, key: KeyEvent) -> bool {
        let Some(line) = &mut self.search else {
            return false;
        };
        if line.key(key) {
            return false;
        }
        match key.code {
            KeyCode::Enter => {
                let word = line.text();
                self.search = None;
                self.review.search(&word);
                self.go_to(self.review.found_from(self.top))
            }
            KeyCode::Esc => {
                self.search = None;
                true
            }
            _ => false,
        }
    }
}

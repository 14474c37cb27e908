//! The whole of an ask on the whole screen: to scroll through, and to search in.
//!
//! It is a part of the inbox and of the dialog, and decides nothing; which keys decide is theirs to say. It keeps in mind how far
//! the core facts have been on the screen.
//!
//! Invariant: [`Reader::has_shown_core`] is true only once every row of the core has been on a screen, without a gap.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "of all keys that there are, most mean nothing here"
)]

use ratatui::buffer::Buffer;
use ratatui::crossterm::event::{KeyCode, KeyEvent};
use ratatui::style::{Color, Modifier, Style, Stylize as _};
use ratatui::text::{Line, Span};

use super::cells::put;
use super::line_editor::LineEditor;
use super::panel::{Rows, footer, header};
use crate::presentation::review::{Class, Form, Review, Row};

/// A document that is read.
#[derive(Debug)]
pub(super) struct Reader {
    review: Review,
    /// The first row that is shown, and how many were shown last.
    top: usize,
    page: usize,
    /// How many rows of the core have been on the screen, from the first one.
    seen: Seen,
    /// The word that is searched for, while it is written.
    search: Option<LineEditor>,
    /// The row that the search has led to, until something else has moved the rows.
    hit: Option<usize>,
}

/// What of the core facts has been on the screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seen {
    /// The rows before this one, as the layout is now.
    Until(usize),
    /// Every one.
    All,
}

/// The words around a document.
pub(super) struct Words {
    /// What it is, in the first row.
    pub(super) title: String,
    /// Something else that is to be known, in the first row; may be empty.
    pub(super) more: String,
    /// What can be done, the most needful first.
    pub(super) hints: Vec<String>,
    /// What can be done as well, where there is room; may be empty.
    pub(super) last: String,
    /// Whether it can be searched in.
    pub(super) search: Search,
}

/// Whether a document can be searched in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Search {
    /// It can.
    Offered,
    /// It cannot.
    None,
}

impl Reader {
    /// A document, from its beginning.
    pub(super) fn new(review: Review) -> Self {
        Self {
            review,
            top: 0,
            page: 0,
            seen: Seen::Until(0),
            search: None,
            hit: None,
        }
    }

    /// Another link of the chain thinks about the ask now, or none does any more.
    pub(super) fn waits_for(&mut self, link: Option<&str>) {
        self.review.waits_for(link);
    }

    /// Whether every core fact has been on the screen.
    pub(super) fn has_shown_core(&self) -> bool {
        self.seen == Seen::All
    }

    /// Whether the screen shows any of it.
    pub(super) fn is_visible(&self) -> bool {
        self.page > 0
    }

    /// Whether a word to search for is being written: keys are text then.
    pub(super) fn is_searching(&self) -> bool {
        self.search.is_some()
    }

    /// The first row that is shown.
    #[cfg(test)]
    pub(super) fn top(&self) -> usize {
        self.top
    }

    /// Pastes into the word that is being written.
    pub(super) fn paste(&mut self, pasted: &str) {
        if let Some(line) = &mut self.search {
            line.insert(pasted);
        }
    }

    /// Moves the first row that is shown; what does not exist is not moved to.
    fn scroll_to(&mut self, top: usize) {
        self.top = top.min(self.review.rows().saturating_sub(self.page));
    }

    /// Notes that these rows are on the screen.
    pub(super) fn drawn(&mut self) {
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

    /// A key that only looks around; any other does nothing.
    pub(super) fn look_around(&mut self, key: KeyEvent) {
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
            _ => return,
        }
        self.hit = None;
    }

    /// Shows a row that was searched for.
    fn go_to(&mut self, row: Option<usize>) {
        if let Some(row) = row {
            self.scroll_to(row);
            self.hit = Some(row);
        }
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
                self.go_to(self.review.found_from(self.top));
                true
            }
            KeyCode::Esc => {
                self.search = None;
                true
            }
            _ => false,
        }
    }

    /// Draws it between a first and a last row of words. Gives the column of the cursor in the last row, where something is
    /// written there.
    pub(super) fn draw(
        &mut self,
        cells: &mut Buffer,
        words: impl FnOnce(&Self) -> Words,
    ) -> Option<u16> {
        let size = cells.area;
        let rows = Rows::of(cells);
        let columns = usize::from(size.width);
        self.page = if columns == 0 {
            0
        } else {
            usize::from(rows.body)
        };
        let form = Form::of(columns, usize::from(size.height));
        let until = match self.seen {
            Seen::Until(until) => until,
            Seen::All => 0,
        };
        let [top, until] = self.review.lay_out(columns, form, [self.top, until]);
        if self.seen != Seen::All {
            self.seen = Seen::Until(until);
        }
        self.scroll_to(top);
        let words = words(self);
        if rows.header {
            let all = self.review.rows();
            let last = (self.top + self.page).min(all);
            let place = format!("rows {}–{last} of {all}", self.top + 1);
            header(cells, &[place, words.more, words.title]);
        }
        let first = u16::from(rows.header);
        for (y, number) in (first..first + rows.body).zip(self.top..) {
            if let Some(row) = self.review.row(number) {
                put(cells, 0, y, &row_line(&row));
            }
        }
        if !rows.footer {
            return None;
        }
        let y = size.height.saturating_sub(1);
        if let Some(line) = &self.search {
            let (shown, at) = line.view(columns.saturating_sub(1));
            let line = Line::from(vec!["/".bold().yellow(), Span::raw(shown)]);
            put(cells, 0, y, &line);
            return u16::try_from(at + 1).ok();
        }
        let mut hints = words.hints;
        if words.search == Search::Offered {
            hints.push(match self.review.found() {
                None => "/ searches".to_owned(),
                Some(0) => "not found".to_owned(),
                Some(count) => format!("n/N: {count} found"),
            });
        }
        hints.extend(Some(words.last).filter(|last| !last.is_empty()));
        footer(cells, y, hints);
        None
    }
}

fn row_line(row: &Row<'_>) -> Line<'static> {
    let own = match row.class {
        Class::Own => Style::default().fg(Color::Yellow),
        Class::Label => Style::default()
            .fg(Color::Cyan)
            .add_modifier(Modifier::BOLD),
        Class::Text => Style::default(),
        Class::Added => Style::default().fg(Color::Green),
        Class::Removed => Style::default().fg(Color::Red),
        Class::Place => Style::default().fg(Color::Blue),
    };
    let mut spans = vec![Span::from(row.gutter.clone()).cyan()];
    let mut at = 0;
    for found in &row.found {
        let before = row.text.get(at..found.start).unwrap_or_default();
        let hit = row.text.get(found.clone()).unwrap_or_default();
        spans.push(Span::styled(before.to_owned(), own));
        spans.push(Span::styled(hit.to_owned(), own).reversed());
        at = found.end;
    }
    let behind = row.text.get(at..).unwrap_or_default();
    spans.push(Span::styled(behind.to_owned(), own));
    Line::from(spans)
}

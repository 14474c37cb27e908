//! The rows at the edges of a whole screen: what it is, and what can be done.

use ratatui::buffer::Buffer;
use ratatui::style::Stylize as _;
use ratatui::text::Line;

use super::cells::put;
use crate::presentation::text;

/// A screen that is narrower has no room for words beside what is asked.
const LEAST_COLUMNS: u16 = 16;

/// Which rows of a screen are for what.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rows {
    pub(super) header: bool,
    pub(super) footer: bool,
    /// Rows between them.
    pub(super) body: u16,
}

impl Rows {
    pub(super) fn of(cells: &Buffer) -> Self {
        let (columns, rows) = (cells.area.width, cells.area.height);
        let has_words = columns >= LEAST_COLUMNS;
        let footer = has_words && rows >= 2;
        let header = has_words && rows >= 4;
        Self {
            header,
            footer,
            body: rows - u16::from(footer) - u16::from(header),
        }
    }
}

/// The first row: the last of these words at the left, the others at the right, as far as there is room.
pub(super) fn header(cells: &mut Buffer, words: &[String]) {
    let columns = usize::from(cells.area.width);
    let mut right = String::new();
    let Some((left, others)) = words.split_last() else {
        return;
    };
    for word in others.iter().filter(|word| !word.is_empty()) {
        let gap = if right.is_empty() { "" } else { " · " };
        if text::width(&right) + gap.len() + text::width(word) <= columns {
            right.insert_str(0, gap);
            right.insert_str(0, word);
        }
    }
    let room = columns.saturating_sub(text::width(&right) + 1);
    let left = if room >= 12 {
        text::clip_columns(left, room).into_owned()
    } else {
        String::new()
    };
    let gap = columns.saturating_sub(text::width(&left) + text::width(&right));
    let line = Line::from(format!("{left}{:gap$}{right}", ""));
    put(cells, 0, 0, &line.reversed());
}

/// The last row: as many of these words as there is room for; the first one is cut where it has to be.
pub(super) fn footer(cells: &mut Buffer, y: u16, words: Vec<String>) {
    let columns = usize::from(cells.area.width);
    let mut shown = String::new();
    for word in words {
        if shown.is_empty() {
            shown = text::clip_columns(&word, columns).into_owned();
        } else if text::width(&shown) + 3 + text::width(&word) <= columns {
            shown.push_str(" · ");
            shown.push_str(&word);
        }
    }
    put(cells, 0, y, &Line::from(shown).yellow());
}

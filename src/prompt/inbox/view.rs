//! How the inbox looks. It draws cells from a state, and keeps in it only what was drawn: which rows, and how many.
//!
//! Text of an ask stands in cells of its own in the list, and right of a bar in a review; where a screen is too small for that, see
//! [`crate::presentation::review`]. What has no room is left out whole: words of ours first, never rows of a review.

use ratatui::buffer::Buffer;
use ratatui::layout::Size;
use ratatui::style::{Color, Modifier, Style, Stylize as _};
use ratatui::text::{Line, Span};

use super::list_view::draw_list;
use super::open::{Open, Seen};
use super::{Inbox, Screen};
use crate::clock::Moment;
use crate::presentation::review::{Class, Form, Row};
use crate::presentation::text;
use crate::prompt::cells::{blank, put};
use crate::prompt::paint::{Frame, Place};

/// A screen that is narrower has no room for words beside what is asked.
const LEAST_COLUMNS: u16 = 16;

/// Draws what is to be seen on a screen of this size.
pub(super) fn draw(inbox: &mut Inbox, size: Size, now: Moment) -> Frame {
    let mut cells = blank(size.width, size.height);
    let dead = inbox.guard.is_up(now);
    let cursor = match (inbox.screen, &mut inbox.open) {
        (Screen::Review, Some(open)) => {
            let others = inbox.listing.asks.iter().filter(|ask| ask.id != open.id);
            let message = inbox.message.as_deref();
            draw_review(open, &mut cells, others.count(), message, dead)
        }
        (Screen::List, _) | (Screen::Review, None) => {
            draw_list(inbox, &mut cells, now, dead);
            None
        }
    };
    Frame {
        cells,
        place: Place::Full,
        cursor: cursor.map(|x| (x, size.height.saturating_sub(1)).into()),
    }
}

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

/// Draws a review. Gives the column of the cursor in the last row, where something is written there.
fn draw_review(
    open: &mut Open,
    cells: &mut Buffer,
    others: usize,
    message: Option<&str>,
    dead: bool,
) -> Option<u16> {
    let size = cells.area;
    let rows = Rows::of(cells);
    let columns = usize::from(size.width);
    open.page = if columns == 0 {
        0
    } else {
        usize::from(rows.body)
    };
    let form = Form::of(columns, usize::from(size.height));
    let until = match open.seen {
        Seen::Until(until) => until,
        Seen::All => 0,
    };
    let [top, until] = open.review.lay_out(columns, form, [open.top, until]);
    if open.seen != Seen::All {
        open.seen = Seen::Until(until);
    }
    open.scroll_to(top);
    if rows.header {
        let all = open.review.rows();
        let last = (open.top + open.page).min(all);
        let place = format!("rows {}–{last} of {all}", open.top + 1);
        let more = if others > 0 {
            format!("{others} more")
        } else {
            String::new()
        };
        let id = text::visible(open.id.as_str());
        let words = [place, more, format!("review of {} · {id}", open.agent)];
        header(cells, &words);
    }
    let first = u16::from(rows.header);
    for (y, number) in (first..first + rows.body).zip(open.top..) {
        if let Some(row) = open.review.row(number) {
            put(cells, 0, y, &review_line(&row));
        }
    }
    if !rows.footer {
        return None;
    }
    let y = size.height.saturating_sub(1);
    if let Some(line) = &open.search {
        let (shown, at) = line.view(columns.saturating_sub(1));
        let line = Line::from(vec!["/".bold().yellow(), Span::raw(shown)]);
        put(cells, 0, y, &line);
        return u16::try_from(at + 1).ok();
    }
    let mut words: Vec<String> = Vec::new();
    words.extend(message.map(str::to_owned));
    if dead {
        words.push("keys wake in a moment".to_owned());
    } else if open.seen != Seen::All {
        words.push("facts go on: ↓".to_owned());
    } else {
        words.push("^A approves once".to_owned());
    }
    words.push("Esc denies".to_owned());
    words.push("q leaves it".to_owned());
    words.push(match open.review.found() {
        None => "/ searches".to_owned(),
        Some(0) => "not found".to_owned(),
        Some(count) => format!("n/N: {count} found"),
    });
    words.push("Tab list".to_owned());
    footer(cells, y, words);
    None
}

fn review_line(row: &Row<'_>) -> Line<'static> {
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

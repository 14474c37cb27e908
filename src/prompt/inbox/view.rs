//! How the inbox looks. It draws cells from a state, and keeps in it only what was drawn: which rows, and how many.
//!
//! Text of an ask stands in cells of its own in the list, and right of a bar in a review; where a screen is too small for that, see
//! [`crate::presentation::review`]. What has no room is left out whole: words of ours first, never rows of a review.

use ratatui::buffer::Buffer;
use ratatui::layout::Size;

use super::list_view::draw_list;
use super::{Inbox, Open, Screen};
use crate::clock::Moment;
use crate::presentation::text;
use crate::prompt::cells::blank;
use crate::prompt::paint::{Frame, Place};
use crate::prompt::reader::{Reader, Search, Words};

/// Draws what is to be seen on a screen of this size.
pub(super) fn draw(inbox: &mut Inbox, size: Size, now: Moment) -> Frame {
    let mut cells = blank(size.width, size.height);
    let dead = inbox.guard.is_up(now);
    let cursor = match (inbox.screen, &mut inbox.open) {
        (Screen::Review, Some(open)) => {
            let others = inbox.listing.asks.iter().filter(|ask| ask.id != open.id);
            let message = inbox.message.as_deref();
            let others = others.count();
            if let Some(table) = &mut open.table {
                table.draw(&mut cells, &open.alike, dead);
                return full(cells, None, size);
            }
            let left = open.countdown.map(|countdown| countdown.words(now));
            let Open {
                id,
                agent,
                reader,
                alike,
                ..
            } = open;
            let count = alike.twins.len() + 1;
            reader.draw(&mut cells, |reader| {
                let title = format!("review of {agent} · {}", text::visible(id.as_str()));
                let mut words = review_words(title, reader, others, message, dead, left);
                if count > 1 {
                    words.hints.push(format!("t: {count} alike"));
                }
                words
            })
        }
        (Screen::List, _) | (Screen::Review, None) => {
            draw_list(inbox, &mut cells, now, dead);
            None
        }
    };
    full(cells, cursor, size)
}

/// A frame of the whole screen, with the cursor in this column of the last row.
fn full(cells: Buffer, cursor: Option<u16>, size: Size) -> Frame {
    Frame {
        cells,
        place: Place::Full,
        cursor: cursor.map(|x| (x, size.height.saturating_sub(1)).into()),
    }
}

/// The words around a review.
fn review_words(
    title: String,
    reader: &Reader,
    others: usize,
    message: Option<&str>,
    dead: bool,
    left: Option<String>,
) -> Words {
    let mut hints: Vec<String> = message.map(str::to_owned).into_iter().collect();
    hints.push(
        if dead {
            "keys wake in a moment"
        } else if !reader.has_shown_core() {
            "facts go on: ↓"
        } else {
            "^A approves once"
        }
        .to_owned(),
    );
    hints.extend(["Esc denies", "q not now"].map(str::to_owned));
    hints.extend(left);
    Words {
        title,
        more: if others > 0 {
            format!("{others} more")
        } else {
            String::new()
        },
        hints,
        last: "Tab list".to_owned(),
        search: Search::Offered,
    }
}

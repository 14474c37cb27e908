//! How the list of the inbox looks: a row for each ask, in columns as far as there is room, and what was settled lately below.

use std::time::Duration;

use ratatui::buffer::Buffer;
use ratatui::style::{Color, Style, Stylize as _};
use ratatui::text::{Line, Span};

use super::Inbox;
use crate::clock::Moment;
use crate::presentation::text;
use crate::prompt::cells::put;
use crate::prompt::panel::{Rows, footer, header};
use crate::serve::{ListedAsk, ListedState, Outcome, Resolution};
use crate::wire::PayloadKind;

/// Draws the list.
pub(super) fn draw_list(inbox: &mut Inbox, cells: &mut Buffer, now: Moment, dead: bool) {
    let size = cells.area;
    let rows = Rows::of(cells);
    let listing = &inbox.listing;
    if rows.header {
        let waiting = match listing.asks.len() {
            0 => "nothing waits".to_owned(),
            count => format!("{count} waiting"),
        };
        let refused = match listing.refused {
            0 => String::new(),
            count => format!("{count} refused: it was full"),
        };
        let session = format!("inbox of session {}", inbox.settings.session);
        header(cells, &[waiting, refused, session]);
    }
    let columns = Columns::of(usize::from(size.width));
    let mut y = u16::from(rows.header);
    let mut end = y + rows.body;
    let below = if rows.footer && rows.body >= 5 {
        words_below(inbox, columns, now)
    } else {
        None
    };
    let wrapped = below.map_or_else(Vec::new, |words| {
        text::wrap(&words, usize::from(size.width))
    });
    for row in wrapped.iter().take(3).rev() {
        end -= 1;
        put(cells, 0, end, &Line::from(row.as_str()).yellow());
    }
    if rows.footer && rows.body >= 5 && !listing.asks.is_empty() {
        let titles = Cell::ALL.map(|cell| cell.title().to_owned());
        put(cells, 0, y, &columns.line("  ", &titles).dim());
        y += 1;
    }
    let room = usize::from(end - y);
    let selected = inbox.place();
    inbox.first = inbox
        .first
        .min(listing.asks.len().saturating_sub(room))
        .max((selected + 1).saturating_sub(room))
        .min(selected);
    for (place, ask) in (0..).zip(&listing.asks).skip(inbox.first).take(room) {
        let line = if place == selected {
            columns.line("› ", &of_ask(ask, now)).reversed()
        } else {
            columns.line("  ", &of_ask(ask, now))
        };
        put(cells, 0, y, &line);
        y += 1;
    }
    let retained = usize::from(end - y).saturating_sub(2);
    if retained > 0 && !listing.resolutions.is_empty() {
        y += 1;
        put(cells, 0, y, &Line::from("settled lately").dim());
        for resolution in listing.resolutions.iter().take(retained) {
            y += 1;
            let line = resolved(inbox, resolution, usize::from(size.width));
            put(cells, 0, y, &line);
        }
    }
    if rows.footer {
        let message = inbox.message.clone().filter(|_| wrapped.is_empty());
        footer(
            cells,
            size.height.saturating_sub(1),
            hints(inbox, message, dead),
        );
    }
}

/// What is said below the list: what happened last, or what the row of the selected ask has no room for.
fn words_below(inbox: &Inbox, columns: Columns, now: Moment) -> Option<String> {
    let thinks = |ask: &ListedAsk| {
        let link = text::quoted(ask.with_chain.as_deref()?);
        Some(format!(
            "authorizer {link} is thinking about it; you can decide first"
        ))
    };
    inbox.message.clone().or_else(|| {
        let ask = inbox.selected()?;
        if let Some(thinks) = thinks(ask) {
            return Some(thinks);
        }
        let ask = Some(ask).filter(|_| columns.gave_up())?;
        let cells = of_ask(ask, now).into_iter().zip(columns.cells);
        let missing = cells.filter(|(_, columns)| *columns == 0);
        let missing: Vec<String> = missing.map(|(text, _)| text).collect();
        Some(missing.join(" · "))
    })
}

/// What can be done in the list, the most needful first.
fn hints(inbox: &Inbox, message: Option<String>, dead: bool) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    if let Some((id, _)) = &inbox.armed {
        words.push("d again denies".to_owned());
        words.push(text::visible(id.as_str()).into_owned());
    }
    if let Some(id) = &inbox.opening {
        words.push(format!("opening {}", text::visible(id.as_str())));
    }
    words.extend(message);
    if !inbox.listing.asks.is_empty() {
        if dead {
            words.push("keys wake in a moment".to_owned());
        } else {
            words.push("Enter reviews".to_owned());
            words.push("d denies".to_owned());
        }
        words.push("↑↓".to_owned());
    }
    if inbox.open.is_some() {
        words.push("Tab: the open review".to_owned());
    }
    words.push("^C ends".to_owned());
    words
}

/// What a cell of the list says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cell {
    Age,
    Agent,
    Session,
    Kind,
    State,
    Id,
}

impl Cell {
    const ALL: [Self; 6] = [
        Self::Age,
        Self::Agent,
        Self::Session,
        Self::Kind,
        Self::State,
        Self::Id,
    ];

    fn title(self) -> &'static str {
        match self {
            Self::Age => "age",
            Self::Agent => "agent",
            Self::Session => "session",
            Self::Kind => "kind",
            Self::State => "state",
            Self::Id => "id",
        }
    }
}

/// Columns of each cell of a row; 0 for those that have no room.
#[derive(Debug, Clone, Copy)]
struct Columns {
    cells: [usize; 6],
    /// Whether there is room for the mark of the selected row.
    has_mark: bool,
}

impl Columns {
    fn of(width: usize) -> Self {
        // As much as each likes to have; the last one also gets what is left.
        let mut cells = [4, 14, 16, 12, 9, 17];
        // What is given up, in this order, where there is no room.
        let given_up = [2, 5, 4, 3, 0];
        let has_mark = width >= 8;
        let taken = |cells: &[usize; 6]| -> usize {
            let shown = cells.iter().filter(|columns| **columns > 0);
            let mark = if has_mark { 2 } else { 0 };
            mark + shown.map(|columns| columns + 1).sum::<usize>() - 1
        };
        for cell in given_up {
            if taken(&cells) > width
                && let Some(columns) = cells.get_mut(cell)
            {
                *columns = 0;
            }
        }
        let (taken, [_, agent, .., id]) = (taken(&cells), &mut cells);
        if *id > 0 {
            *id += width.saturating_sub(taken);
        } else {
            *agent = (*agent + width).saturating_sub(taken).max(1);
        }
        Self { cells, has_mark }
    }

    /// Whether some cells have no room.
    fn gave_up(self) -> bool {
        self.cells.contains(&0)
    }

    /// A row of these texts, which are visible.
    fn line(self, mark: &'static str, texts: &[String; 6]) -> Line<'static> {
        let mark = if self.has_mark { mark } else { "" };
        let mut row = String::from(mark);
        for (shown, columns) in texts
            .iter()
            .zip(self.cells)
            .filter(|(_, columns)| *columns > 0)
        {
            if row.len() > mark.len() {
                row.push(' ');
            }
            let cut = text::clip_columns(shown, columns);
            row.push_str(&cut);
            row.extend(std::iter::repeat_n(' ', columns - text::width(&cut)));
        }
        Line::from(row)
    }
}

fn of_ask(ask: &ListedAsk, now: Moment) -> [String; 6] {
    let state = match ask.state {
        ListedState::Waiting if ask.with_chain.is_some() => "thinking",
        ListedState::Waiting => "waiting",
        ListedState::Open => "open",
        ListedState::Answering => "answering",
    };
    let kind = match ask.alike {
        ..=1 => kind_name(ask.kind).to_owned(),
        alike => format!("×{alike} {}", kind_name(ask.kind)),
    };
    [
        span(ask.age(now)),
        name(&ask.agent),
        text::visible(&ask.session).into_owned(),
        kind,
        state.to_owned(),
        text::visible(ask.id.as_str()).into_owned(),
    ]
}

fn resolved(inbox: &Inbox, resolution: &Resolution, columns: usize) -> Line<'static> {
    let style = match resolution.outcome {
        Outcome::Approved => Style::default().fg(Color::Green),
        Outcome::Denied => Style::default().fg(Color::Red),
        Outcome::Cancelled | Outcome::Expired | Outcome::Retired | Outcome::Error => {
            Style::default().fg(Color::Yellow)
        }
    };
    let time = format!("  {} ", inbox.time_of_day(resolution.at));
    let outcome = format!("{:<9}", resolution.outcome.name());
    let rest = format!(
        " {} {:<12} {}",
        padded(&name(&resolution.agent), 14),
        kind_name(resolution.kind),
        text::visible(resolution.id.as_str())
    );
    let room = columns.saturating_sub(time.len() + outcome.len());
    Line::from(vec![
        Span::from(time).dim(),
        Span::styled(outcome, style),
        Span::raw(if room > 1 {
            text::clip_columns(&rest, room).into_owned()
        } else {
            String::new()
        }),
    ])
}

fn padded(shown: &str, columns: usize) -> String {
    let mut cut = text::clip_columns(shown, columns).into_owned();
    cut.extend(std::iter::repeat_n(' ', columns - text::width(&cut)));
    cut
}

/// The name of an agent, visible.
pub(super) fn name(agent: &str) -> String {
    if agent.is_empty() {
        "unknown".to_owned()
    } else {
        text::visible(agent).into_owned()
    }
}

fn kind_name(kind: PayloadKind) -> &'static str {
    match kind {
        PayloadKind::Bash => "bash",
        PayloadKind::Mcp => "mcp",
        PayloadKind::Tool => "tool",
        PayloadKind::Path => "path",
        PayloadKind::ExternalDirectory => "outside",
        PayloadKind::BashExternalDirectory => "bash outside",
        PayloadKind::Skill => "skill",
        PayloadKind::SkillRead => "skill read",
        PayloadKind::Forwarded => "forwarded",
    }
}

/// A time span in one unit.
fn span(time: Duration) -> String {
    match time.as_secs() {
        seconds @ ..60 => format!("{seconds}s"),
        seconds @ 60..3_600 => format!("{}m", seconds / 60),
        seconds => format!("{}h", seconds / 3_600),
    }
}

impl Inbox {
    /// The time of day of a moment, in UTC.
    fn time_of_day(&self, at: Moment) -> String {
        let since = i64::try_from(at.since_start().as_millis()).unwrap_or(i64::MAX);
        let seconds = self.settings.clock_start_ms.saturating_add(since) / 1_000;
        let (minutes, second) = (seconds.div_euclid(60), seconds.rem_euclid(60));
        let (hours, minute) = (minutes.div_euclid(60), minutes.rem_euclid(60));
        format!("{:02}:{minute:02}:{second:02}Z", hours.rem_euclid(24))
    }
}

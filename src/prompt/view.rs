//! How the dialog looks: title, facts, options, hint, from top to bottom, as high as it needs to be.
//!
//! Content stands behind a bar that runs down the left edge; titles, options and hints stand left of it. Whatever content says, it
//! never reaches the column where options begin.
//!
//! When rows run out, evidence gives way first, then labels and options move together, and then only the first core facts are
//! shown: [`View::core`] tells so, and the dialog
//! allows nothing before all of them were seen. Options and hint are never given up for content.
//!
//! It knows no terminal and no time; it draws cells from a state.

use std::ops::Range;

use ratatui::layout::{Position, Size};
use ratatui::style::{Color, Modifier, Style, Stylize as _};
use ratatui::text::{Line, Span};

use super::app::{Dialog, Open, Presses, Step};
use super::cells::{blank, put};
use super::paint::{Frame, Place};
use super::reader::{Reader, Search, Words};
use super::table::Table;
use crate::presentation::dialog::{Fact, WAITS_FOR};
use crate::presentation::evidence::LineClass;
use crate::presentation::fit::{self, Budget, Fitted, Labels, Part, Row};
use crate::presentation::highlight;
use crate::presentation::select::{Brief, Question, label_within};
use crate::presentation::text;
use crate::serve::{Alike, InLine};

/// Runs down the left edge of content.
const BAR: &str = "│ ";
const BAR_COLUMNS: usize = 2;

/// A screen that has less of either shows no ask.
const LEAST_COLUMNS: u16 = 16;
const LEAST_ROWS: u16 = 4;

/// What is to be seen.
pub(super) struct View {
    pub(super) frame: Frame,
    /// What of the core facts is on it.
    pub(super) core: Core,
}

/// What of the core facts is to be seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Core {
    /// Every one of them.
    Whole,
    /// The first of them.
    Cut,
    /// None: there is no room for an ask.
    Nothing,
}

/// Draws the dialog on a screen of this size; `dead` tells that keys do not count at the moment.
pub(super) fn view(dialog: &Dialog, size: Size, dead: bool, left: Option<String>) -> View {
    let Some(open) = &dialog.open else {
        return idle(dialog, size);
    };
    if size.width < LEAST_COLUMNS || size.height < LEAST_ROWS {
        return too_small(open, size);
    }
    let columns = usize::from(size.width);
    let inner = columns - BAR_COLUMNS;
    let rows = usize::from(size.height);
    // The title and the hint have a row each.
    let most = rows - 2;
    let mut controls = Controls::new(dialog, open, columns, Room::Plenty);
    let (core, evidence) = (&open.question.core, &open.question.evidence);
    let nothing_but_core = Budget {
        rows: 0,
        ..dialog.settings.budget
    };
    let fixed = |controls: &Controls| 2 + controls.lines.len();
    let mut labels = Labels::Aligned;
    let mut whole = fit::fit(core, evidence, nothing_but_core, inner, labels);
    if whole.core_rows + fixed(&controls) > rows {
        labels = Labels::Tight;
        whole = fit::fit(core, evidence, nothing_but_core, inner, labels);
        controls = Controls::new(dialog, open, columns, Room::Little(most));
    }
    let room = rows.saturating_sub(fixed(&controls));
    let core_complete = whole.core_rows <= room;
    let mut fitted = if core_complete {
        let budget = Budget {
            rows: dialog.settings.budget.rows.min(room),
            ..dialog.settings.budget
        };
        fit::fit(core, evidence, budget, inner, labels)
    } else {
        cut(whole, room)
    };
    let allowed = core_complete || open.core_seen;
    let hint = hint(dialog, open, &fitted, allowed, dead, left, columns);
    let title = title(open, dialog.in_line, columns);
    let facts: Vec<Line<'static>> = fitted
        .rows
        .drain(..)
        .map(|row| fact_line(&row, open))
        .collect();
    let above = 1 + facts.len();
    let mut lines = vec![title];
    lines.extend(facts);
    lines.extend(controls.lines);
    lines.push(hint);
    let cursor = controls
        .cursor
        .map(|(x, y)| Position::new(x, y + above_rows(above)));
    View {
        frame: frame(&lines, size, cursor),
        core: if core_complete {
            Core::Whole
        } else {
            Core::Cut
        },
    }
}

/// Draws the whole of an ask on the whole screen.
pub(super) fn whole(
    reader: &mut Reader,
    question: &Question,
    in_line: InLine,
    size: Size,
) -> Frame {
    let mut cells = blank(size.width, size.height);
    let cursor = reader.draw(&mut cells, |_| Words {
        title: question.title.to_owned(),
        more: more_words(in_line).map_or_else(String::new, |[long, _]| long),
        hints: ["Esc back to the question", "↑↓ PgUp PgDn"]
            .map(str::to_owned)
            .into(),
        last: "nothing is decided here".to_owned(),
        search: Search::Offered,
    });
    Frame {
        cells,
        place: Place::Full,
        cursor: cursor.map(|x| Position::new(x, size.height.saturating_sub(1))),
    }
}

/// Draws the table of several asks on the whole screen.
pub(super) fn table(table: &mut Table, now: &Alike, dead: bool, size: Size) -> Frame {
    let mut cells = blank(size.width, size.height);
    table.draw(&mut cells, now, dead);
    Frame {
        cells,
        place: Place::Full,
        cursor: None,
    }
}

fn above_rows(rows: usize) -> u16 {
    u16::try_from(rows).unwrap_or(u16::MAX)
}

/// The first rows of a core that does not fit, and the mark of the cut where that costs little; the hint has it in any case.
fn cut(whole: Fitted, room: usize) -> Fitted {
    let mut rows = whole.rows;
    let marked = room > 3;
    rows.truncate(room - usize::from(marked));
    if marked {
        rows.push(fit::marker());
    }
    Fitted {
        core_rows: rows.len(),
        rows,
        elided: true,
    }
}

fn frame(lines: &[Line<'_>], size: Size, cursor: Option<Position>) -> Frame {
    let height = above_rows(lines.len()).min(size.height);
    let mut cells = blank(size.width, height);
    for (y, line) in (0..height).zip(lines) {
        put(&mut cells, 0, y, line);
    }
    Frame {
        cells,
        place: Place::Inline,
        cursor: cursor.filter(|cursor| cursor.x < size.width && cursor.y < height),
    }
}

fn idle(dialog: &Dialog, size: Size) -> View {
    let session = &dialog.settings.session;
    let line = match dialog.in_line.put_off {
        0 => format!("serving session {session} · nothing is asked · Ctrl+C ends"),
        // What has to be known comes first: the session's name may be long.
        count => {
            format!("{count} put off · Tab shows it now · serving session {session} · Ctrl+C ends")
        }
    };
    View {
        frame: frame(&[Line::from(line).dim()], size, None),
        core: Core::Nothing,
    }
}

/// Nothing can be judged here: nothing is shown that could be taken for all there is.
fn too_small(open: &Open, size: Size) -> View {
    let escape = match open.step {
        Step::Decide { .. } => "Esc denies.",
        Step::Scope { .. } | Step::Reason { .. } => "Esc goes back.",
    };
    let words = format!("An ask waits. This screen is too small to show it: enlarge it. {escape}");
    let lines: Vec<Line<'_>> = text::wrap(&words, usize::from(size.width))
        .into_iter()
        .map(|row| Line::from(row).yellow())
        .collect();
    View {
        frame: frame(&lines, size, None),
        core: Core::Nothing,
    }
}

fn title(open: &Open, in_line: InLine, columns: usize) -> Line<'static> {
    let title = open.question.title;
    let mut spans = vec![Span::from(title).bold().yellow()];
    let taken = text::width(title);
    for words in more_words(in_line).into_iter().flatten() {
        if let Some(gap @ 1..) = columns.checked_sub(taken + text::width(&words)) {
            spans.push(Span::raw(" ".repeat(gap)));
            spans.push(Span::from(words).yellow());
            break;
        }
    }
    Line::from(spans)
}

/// How many more wait, at length and in short.
fn more_words(in_line: InLine) -> Option<[String; 2]> {
    let InLine { waiting, put_off } = in_line;
    let long = match put_off {
        0 => format!("{waiting} more waiting"),
        _ => format!("{waiting} more waiting, {put_off} put off"),
    };
    (waiting > 0).then(|| [long, format!("+{waiting}")])
}

/// One row of content: its bar, its label, its text.
fn fact_line(row: &Row, open: &Open) -> Line<'static> {
    let Question { core, evidence, .. } = &open.question;
    let bar = Span::from(BAR).dim();
    let (label, shown) = row
        .laid
        .text
        .split_at_checked(row.laid.text_at)
        .unwrap_or_default();
    let fact = match row.part {
        Part::Marker => {
            return Line::from(vec![bar, Span::from(shown.to_owned()).bold().yellow()]);
        }
        Part::Core(index) => core.get(index),
        Part::Evidence(index) => evidence.get(index),
    };
    let mut spans = vec![bar, Span::from(label.to_owned()).cyan()];
    let line = row
        .laid
        .line
        .zip(fact)
        .and_then(|(line, fact)| fact.lines.get(line));
    let base = class_of(row, open).map_or_else(|| text_style(row.part, fact), class_style);
    let places = line.map_or_else(Vec::new, |line| highlight::places(line, &open.flagged));
    spans.extend(painted(shown, row.laid.from, &places, base));
    Line::from(spans)
}

/// What a row of a diff is.
fn class_of(row: &Row, open: &Open) -> Option<LineClass> {
    let Part::Evidence(index) = row.part else {
        return None;
    };
    let classes = open.classes.get(index)?.as_ref()?;
    classes.get(row.laid.line?).copied()
}

fn class_style(class: LineClass) -> Style {
    let style = Style::default();
    match class {
        LineClass::Added => style.fg(Color::Green),
        LineClass::Removed => style.fg(Color::Red),
        LineClass::FileHeader | LineClass::Hunk => style.fg(Color::Blue),
        LineClass::Context | LineClass::Note => style,
    }
}

fn text_style(part: Part, fact: Option<&Fact>) -> Style {
    let label = fact.map(|fact| fact.label.as_str());
    match (part, label) {
        (_, Some("caution")) => Style::default().fg(Color::Red).add_modifier(Modifier::BOLD),
        (_, Some("model note")) => Style::default()
            .fg(Color::Magenta)
            .add_modifier(Modifier::ITALIC),
        (Part::Core(_), Some(WAITS_FOR)) => Style::default().fg(Color::Yellow),
        (Part::Core(_), Some("runs")) => Style::default().add_modifier(Modifier::BOLD),
        _ => Style::default(),
    }
}

/// A part of a line, with the flagged places in it painted. `from` is where in the line the part begins, in bytes.
fn painted(part: &str, from: usize, places: &[Range<usize>], base: Style) -> Vec<Span<'static>> {
    let flagged = base.fg(Color::Yellow).add_modifier(Modifier::BOLD);
    let mut spans = Vec::new();
    let mut at = 0;
    for place in places {
        let start = place.start.saturating_sub(from).clamp(at, part.len());
        let end = place.end.saturating_sub(from).clamp(start, part.len());
        let (Some(before), Some(hit)) = (part.get(at..start), part.get(start..end)) else {
            continue;
        };
        spans.push(Span::styled(before.to_owned(), base));
        spans.push(Span::styled(hit.to_owned(), flagged));
        at = end;
    }
    spans.push(Span::styled(
        part.get(at..).unwrap_or_default().to_owned(),
        base,
    ));
    spans
}

/// How much room there is for controls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Room {
    Plenty,
    /// At most so many rows.
    Little(usize),
}

/// What the person decides with.
struct Controls {
    lines: Vec<Line<'static>>,
    /// Where the cursor stands, from the first of these lines.
    cursor: Option<(u16, u16)>,
}

impl Controls {
    fn new(dialog: &Dialog, open: &Open, columns: usize, room: Room) -> Self {
        let (lines, cursor) = match (&open.step, room) {
            (Step::Decide { cursor, armed }, Room::Plenty) => {
                let options = open.options.iter().map(|option| {
                    (
                        format!("{}  ", option.key),
                        option.label.as_str(),
                        option.brief.as_ref(),
                    )
                });
                (options_lines(options, *cursor, *armed, columns), None)
            }
            (Step::Decide { cursor, armed }, Room::Little(_)) => (
                vec![options_row(open, dialog, *cursor, *armed, columns)],
                None,
            ),
            (Step::Scope { question, cursor }, room) => {
                let options = question
                    .options
                    .iter()
                    .map(|option| (String::new(), option.label.as_str(), option.brief.as_ref()));
                let mut lines = options_lines(options, *cursor, None, columns);
                match room {
                    Room::Plenty => lines.insert(0, Line::from(question.title).bold().yellow()),
                    Room::Little(most) => {
                        // The one that Enter takes is always among those that are seen.
                        let hidden = lines.len().saturating_sub(most);
                        let from = (*cursor + 1).saturating_sub(most).min(hidden);
                        lines = lines.into_iter().skip(from).take(most).collect();
                    }
                }
                (lines, None)
            }
            (Step::Reason { line, .. }, room) => {
                let prompt = if room == Room::Plenty {
                    "why not: "
                } else {
                    "> "
                };
                let (shown, at) = line.view(columns.saturating_sub(prompt.len()));
                let x = u16::try_from(prompt.len() + at).unwrap_or(u16::MAX);
                let line = Line::from(vec![Span::from(prompt).bold().yellow(), Span::raw(shown)]);
                (vec![line], Some((x, 0)))
            }
        };
        Self { lines, cursor }
    }
}

/// Options below each other, a row each. What is granted stands whole among the facts; for whom and how long is never cut.
fn options_lines<'a>(
    options: impl Iterator<Item = (String, &'a str, Option<&'a Brief>)>,
    cursor: usize,
    armed: Option<usize>,
    columns: usize,
) -> Vec<Line<'static>> {
    (0..)
        .zip(options)
        .map(|(at, (key, label, brief))| {
            let room = columns.saturating_sub(BAR_COLUMNS + key.len());
            let label = label_within(label, brief, room);
            option_line(&key, &label, at == cursor, armed == Some(at))
        })
        .collect()
}

fn option_line(key: &str, label: &str, chosen: bool, armed: bool) -> Line<'static> {
    let pointer = if chosen { "› " } else { "  " };
    let line = Line::from(vec![
        Span::from(pointer).yellow(),
        Span::from(key.to_owned()).cyan().bold(),
        Span::raw(label.to_owned()),
    ]);
    match (chosen, armed) {
        (_, true) => line.reversed(),
        (true, false) => line.bold(),
        (false, false) => line,
    }
}

/// Options beside each other, by a word each.
fn options_row(
    open: &Open,
    dialog: &Dialog,
    cursor: usize,
    armed: Option<usize>,
    columns: usize,
) -> Line<'static> {
    let keys = &dialog.settings.keys;
    let word = |key: char| {
        if key == keys.approve {
            "yes"
        } else if key == keys.approve_session {
            "session"
        } else if key == keys.approve_session_both {
            "both"
        } else if key == keys.deny {
            "no"
        } else if key == keys.deny_with_reason {
            "why"
        } else {
            "all"
        }
    };
    let long: usize = open
        .options
        .iter()
        .map(|option| word(option.key).len() + 3)
        .sum();
    let mut spans = Vec::new();
    for (at, option) in (0..).zip(&open.options) {
        let mut style = Style::default();
        if at == cursor {
            style = style.add_modifier(Modifier::BOLD | Modifier::UNDERLINED);
        }
        if armed == Some(at) {
            style = style.add_modifier(Modifier::REVERSED);
        }
        // The letters alone where words have no room.
        let shown = if long <= columns {
            format!("{} {}", option.key, word(option.key))
        } else {
            option.key.to_string()
        };
        spans.push(Span::styled(shown, style));
        spans.push(Span::raw(" "));
    }
    Line::from(spans)
}

/// What can be done now, the most needful first; what has no room is left out whole.
fn hint(
    dialog: &Dialog,
    open: &Open,
    fitted: &Fitted,
    allowed: bool,
    dead: bool,
    left: Option<String>,
    columns: usize,
) -> Line<'static> {
    let mut words: Vec<String> = Vec::new();
    let mut add = |word: &str| words.push(word.to_owned());
    let armed = match &open.step {
        Step::Decide {
            armed: Some(armed), ..
        } => open.options.get(*armed),
        Step::Decide { .. } | Step::Scope { .. } | Step::Reason { .. } => None,
    };
    if fitted.elided && !matches!(open.step, Step::Reason { .. }) {
        add("… ^O shows all");
    }
    match &open.step {
        Step::Decide { .. } => {
            if !allowed {
                add("no yes before that");
            }
            match armed {
                Some(option) if option.allows && !allowed => {}
                Some(option) => add(&format!("press {} again", option.key)),
                None if dead => add("keys wake in a moment"),
                None if dialog.settings.presses == Presses::Two => add("press a letter twice"),
                None => {}
            }
            add("↑↓ Enter");
            add("Esc denies");
            add("Tab not now");
        }
        Step::Scope { .. } => {
            add("↑↓ Enter");
            add("Esc back");
        }
        Step::Reason { refused, .. } => {
            add(if dead {
                "keys wake in a moment"
            } else if *refused {
                "say why, or Esc back"
            } else {
                "Enter denies · Esc back"
            });
        }
    }
    words.extend(left);
    let mut shown = String::new();
    for word in words {
        let gap = if shown.is_empty() { "" } else { " · " };
        if text::width(&shown) + text::width(gap) + text::width(&word) <= columns {
            shown.push_str(gap);
            shown.push_str(&word);
        }
    }
    let line = Line::from(shown);
    if fitted.elided || armed.is_some() {
        line.yellow()
    } else {
        line.dim()
    }
}

#[cfg(test)]
mod adversarial;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod together;

//! The lines that stay in the scrollback: what became of an ask that was on the screen.
//!
//! Every text of an ask in them was made visible, and is cut to a length: a line is one line.

use std::fmt::Write as _;

use ratatui::style::Stylize as _;
use ratatui::text::{Line, Span};

use crate::presentation::select::{Choice, GrantScope, lifetime_words};
use crate::presentation::text;

/// Most UTF-16 units of a value in the line that stays.
const SUMMARY_UNITS: usize = 60;

pub(super) fn summary(surface: &str, value: &str) -> String {
    let value = text::clip_utf16(value, SUMMARY_UNITS);
    format!(
        "{} {}",
        text::visible(&text::clip_utf16(surface, SUMMARY_UNITS)),
        text::quoted(&value)
    )
}

/// An ask was decided here.
pub(super) fn decided(choice: &Choice, summary: &str) -> Line<'static> {
    let (word, rest) = match choice {
        Choice::Once => ("approved".green(), String::new()),
        Choice::Session {
            scope: GrantScope::Requester,
            ..
        } => (
            "approved".green(),
            " for the session of that subagent".to_owned(),
        ),
        Choice::Session {
            scope: GrantScope::ServingSession,
            lifetime,
            ..
        } => {
            let lifetime = lifetime_words(*lifetime);
            let rest = format!(" for the whole session, {lifetime}");
            ("approved".green(), rest)
        }
        Choice::Deny => ("denied".red(), String::new()),
        Choice::DenyWithReason(reason) => {
            let mut rest = String::from(": ");
            // Writing to a string cannot fail.
            let _written = write!(rest, "{}", text::visible(reason));
            ("denied".red(), rest)
        }
    };
    Line::from(vec![
        word,
        Span::raw(format!(" {summary}")),
        Span::raw(rest),
    ])
}

/// An ask was put off here.
pub(super) fn put_off(summary: &str) -> String {
    format!("not now: {summary}; it waits on")
}

/// An ask went from the screen undecided.
pub(super) fn closed(summary: &str, why: &str) -> String {
    let why = text::visible(why);
    format!("closed {summary}: {why}; you decided nothing")
}

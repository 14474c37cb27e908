//! The filters of the commands that read the review log.

use clap::builder::PossibleValue;
use jiff::civil::{Date, DateTime, Time};
use jiff::tz::TimeZone;
use jiff::{Span, SpanRelativeTo, Timestamp, Unit};

use crate::audit::{DeciderFilter, DeciderKind, Outcome, Query};
use crate::cli::Hinted;
use crate::clock;

#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Filters")]
pub(super) struct Filters {
    /// Only entries about this ask
    #[arg(long, value_name = "ID")]
    request: Option<String>,
    /// Only entries in which this session asks, is asked, or passed the decision on
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// Only asks of this agent
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// Only this event, or those whose names begin so
    #[arg(long, value_name = "NAME")]
    event: Option<String>,
    /// Only asks that ended so; `nobody` is a denial for which no authority was there
    #[arg(long, value_name = "OUTCOME")]
    outcome: Option<OutcomeArg>,
    /// Only what this kind of decider decided: user, authorizer, authorizer:NAME, rule, session_approval, yolo,
    /// infrastructure_read, unavailable, gate_error, unknown
    #[arg(long, value_name = "KIND")]
    decider: Option<String>,
    /// Not before this time: RFC 3339, a date, or a span before now (2h, 30m, 7d)
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Before this time, in the same forms; with a date, until the end of that day
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
}

#[derive(Debug, Clone, Copy)]
struct OutcomeArg(Outcome);

impl clap::ValueEnum for OutcomeArg {
    fn value_variants<'a>() -> &'a [Self] {
        &[
            Self(Outcome::Approved),
            Self(Outcome::Denied),
            Self(Outcome::Nobody),
        ]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.0.name()))
    }
}

impl Filters {
    /// Whether none is set.
    pub(super) fn is_empty(&self) -> bool {
        let texts = [
            &self.request,
            &self.session,
            &self.agent,
            &self.event,
            &self.decider,
            &self.since,
            &self.until,
        ];
        self.outcome.is_none() && texts.into_iter().all(Option::is_none)
    }

    /// What they ask for.
    pub(super) fn query(&self) -> anyhow::Result<Query> {
        let now = clock::wall_ms();
        Ok(Query {
            request: self.request.clone(),
            request_begins: None,
            session: self.session.clone(),
            agent: self.agent.clone(),
            event: self.event.clone(),
            outcome: self.outcome.map(|outcome| outcome.0),
            decider: self.decider.as_deref().map(decider).transpose()?,
            since_ms: self
                .since
                .as_deref()
                .map(|text| time("--since", text, now, Edge::Start))
                .transpose()?,
            until_ms: self
                .until
                .as_deref()
                .map(|text| time("--until", text, now, Edge::End))
                .transpose()?,
        })
    }
}

fn decider(text: &str) -> anyhow::Result<DeciderFilter> {
    let (kind, name) = match text.split_once(':') {
        Some((kind, name)) => (kind, Some(name.to_owned())),
        None => (text, None),
    };
    let wrong = |message: String| {
        let kinds = DeciderKind::ALL.map(DeciderKind::name).join(", ");
        Hinted::usage(
            message,
            format!("one of {kinds}; authorizer:NAME is one link of the chain"),
        )
    };
    let kind = DeciderKind::from_name(kind)
        .ok_or_else(|| wrong(format!("{text:?} is no kind of decider")))?;
    if name.is_some() && kind != DeciderKind::Authorizer {
        return Err(wrong(format!(
            "{:?} has no name, only an authorizer has one",
            kind.name()
        )));
    }
    Ok(DeciderFilter { kind, name })
}

/// Which end of a day a date means.
#[derive(Clone, Copy)]
enum Edge {
    Start,
    End,
}

/// The time that `--since` names.
pub(super) fn since_ms(text: &str) -> anyhow::Result<i64> {
    time("--since", text, clock::wall_ms(), Edge::Start)
}

/// A time in epoch milliseconds. What names no zone is UTC, as the log is.
fn time(flag: &str, text: &str, now: i64, edge: Edge) -> anyhow::Result<i64> {
    let utc = |at: DateTime| TimeZone::UTC.to_timestamp(at).ok();
    let at = text
        .parse::<Timestamp>()
        .ok()
        .map(Timestamp::as_millisecond)
        .or_else(|| day(text, edge).and_then(utc).map(Timestamp::as_millisecond))
        .or_else(|| {
            let at = text.parse::<DateTime>().ok()?;
            utc(at).map(Timestamp::as_millisecond)
        })
        .or_else(|| span_ms(text).map(|span| now.saturating_sub(span)));
    at.ok_or_else(|| {
        Hinted::usage(
            format!("{flag} {text:?} is no time"),
            "write it like 2026-11-30T13:00:00Z, 2026-11-30, or a span before now: 2h, 30m, 7d",
        )
    })
}

/// A date and nothing more.
fn day(text: &str, edge: Edge) -> Option<DateTime> {
    // A date and a time would be read as a date, too.
    let date = text
        .parse::<Date>()
        .ok()
        .filter(|_| !text.contains([':', 'T', 't', ' ']))?;
    let date = match edge {
        Edge::Start => date,
        Edge::End => date.tomorrow().ok()?,
    };
    Some(date.to_datetime(Time::midnight()))
}

fn span_ms(text: &str) -> Option<i64> {
    let span = text.parse::<Span>().ok()?;
    let total = span
        .total((Unit::Millisecond, SpanRelativeTo::days_are_24_hours()))
        .ok()?;
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a span of the calendar has far fewer milliseconds"
    )]
    let ms = total as i64;
    (ms >= 0).then_some(ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_796_043_600_000;

    #[test]
    fn times_are_points_days_or_spans() {
        let hour = 3_600_000;
        for (text, start, end) in [
            ("2026-11-30T13:00:00Z", NOW, NOW),
            ("2026-11-30T15:00:00.000+02:00", NOW, NOW),
            ("2026-11-30T13:00", NOW, NOW),
            ("2026-11-30 13:00:00", NOW, NOW),
            ("2026-11-30", NOW - 13 * hour, NOW + 11 * hour),
            ("2h", NOW - 2 * hour, NOW - 2 * hour),
            ("30m", NOW - hour / 2, NOW - hour / 2),
            ("7d", NOW - 7 * 24 * hour, NOW - 7 * 24 * hour),
            ("1w", NOW - 7 * 24 * hour, NOW - 7 * 24 * hour),
            ("1h30m", NOW - hour * 3 / 2, NOW - hour * 3 / 2),
        ] {
            assert_eq!(
                time("--since", text, NOW, Edge::Start).unwrap(),
                start,
                "{text}"
            );
            assert_eq!(
                time("--until", text, NOW, Edge::End).unwrap(),
                end,
                "{text}"
            );
        }
        for text in [
            "",
            "yesterday",
            "2026-13-01",
            "-2h",
            "1 month",
            "12",
            "2h ago?",
        ] {
            assert!(time("--since", text, NOW, Edge::Start).is_err(), "{text}");
        }
    }

    #[test]
    fn deciders_are_named_by_their_kind() {
        assert_eq!(
            decider("authorizer:guard").unwrap(),
            DeciderFilter {
                kind: DeciderKind::Authorizer,
                name: Some("guard".to_owned())
            }
        );
        for kind in DeciderKind::ALL {
            assert_eq!(decider(kind.name()).unwrap().kind, kind);
        }
        for text in ["", "human", "user:dialog", "forwarded"] {
            assert!(decider(text).is_err(), "{text}");
        }
    }
}

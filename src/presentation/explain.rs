//! What policy says about an ask, and how it came to that, for a person and for a program.
//!
//! It adds nothing to what the judge noted and leaves nothing out; it finds the words. Everything that an ask, a file or a rule has
//! in it is made visible.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::runs;
use super::text::visible;
use crate::policy::{
    Explained, Judgement, MatchedRule, Part, Rule, RulePlace, SaidFloor, Step, Verdict,
};
use crate::shell::Floor;
use crate::wire::{
    DecisionSource, ForwardedAccessIntent, SENTINEL_INPUT_UNREAD, SENTINEL_LOSSY_TEXT,
    SENTINEL_OUTSIDE_SANDBOX, SENTINEL_TOO_MANY_FILES,
};

/// What no judgement on paper can know.
pub const NOT_KNOWN: [&str; 2] = [
    "the grants of a session: one of them may allow what is asked here, and none what is denied",
    "the chain of authorizers and the person, who get what is asked here",
];

/// One command of a command line, and what it comes to.
#[derive(Debug, PartialEq, Eq)]
struct Unit<'e> {
    command: &'e str,
    through: &'e [&'static str],
    floor: Option<Floor>,
    verdict: Verdict,
}

/// A sentinel in a few words. `None` where it is none that is known.
fn sentinel_in_words(sentinel: &str) -> Option<&'static str> {
    let floors = [
        Floor::Redirection,
        Floor::UnparsedSubtree,
        Floor::Indirection,
        Floor::Opaque,
        Floor::Unparseable,
    ];
    if sentinel == SENTINEL_LOSSY_TEXT {
        return Some("some of its text could not be decoded");
    }
    if sentinel == SENTINEL_OUTSIDE_SANDBOX {
        return Some("it would run outside of the sandbox, and what allows it does not name that");
    }
    if sentinel == SENTINEL_INPUT_UNREAD {
        return Some("some of what it would do cannot be read");
    }
    if sentinel == SENTINEL_TOO_MANY_FILES {
        return Some("it works on more files than rules are held against");
    }
    let floor = floors
        .into_iter()
        .find(|floor| floor.sentinel() == sentinel);
    floor.map(runs::explained)
}

fn floor_in_words(floor: &SaidFloor) -> Option<&'static str> {
    match floor {
        SaidFloor::Requester(sentinel) => sentinel_in_words(sentinel),
        SaidFloor::Reading(floor) => Some(runs::explained(*floor)),
    }
}

/// The commands of the ask itself, without those that the requester left to be asked.
fn units(steps: &[Step]) -> Vec<Unit<'_>> {
    let mut open: Vec<&Part> = Vec::new();
    let mut units = Vec::new();
    for step in steps {
        if let Step::Begin(part) = step {
            open.push(part);
        }
        let Step::End(verdict) = step else { continue };
        let closed = open.pop();
        let is_stated = open
            .iter()
            .any(|part| matches!(part, Part::AskingUnit { .. }));
        if let Some(Part::Unit {
            command,
            through,
            floor,
        }) = closed
            && !is_stated
        {
            units.push(Unit {
                command,
                through,
                floor: *floor,
                verdict: *verdict,
            });
        }
    }
    units
}

/// Who decides, as a sentence without its full stop.
fn decider(explained: &Explained) -> String {
    let judgement = &explained.judgement;
    let because = judgement.asked_because.as_deref();
    // The reading knows more of its floors than their sentinels say.
    let read = explained.steps.iter().find_map(|step| {
        let Step::Floor { floor, lifts: true } = step else {
            return None;
        };
        floor_in_words(floor).filter(|_| Some(floor.sentinel()) == because)
    });
    let lifted = read.or_else(|| because.and_then(sentinel_in_words));
    let rule = explained.rule.as_deref().map(rule_in_words);
    match (&judgement.decided_by, rule) {
        (DecisionSource::Yolo { pattern }, rule) => {
            let asks = rule
                .or_else(|| pattern.as_deref().map(visible).map(Into::into))
                .unwrap_or_else(|| "no rule".to_owned());
            format!("\"yoloMode\" allows what would be asked ({asks})")
        }
        (DecisionSource::InfrastructureRead, _) => {
            "it only reads in a directory of \"piInfrastructureReadPaths\"".to_owned()
        }
        (DecisionSource::SessionApproval { pattern, .. }, _) => format!(
            "a grant of the session: {}",
            visible(pattern.as_deref().unwrap_or_default())
        ),
        (_, rule) if lifted.is_some() => format!(
            "no rule may allow it: {} ({}){}",
            lifted.unwrap_or_default(),
            because.unwrap_or_default(),
            rule.map(|rule| format!("; {rule} would"))
                .unwrap_or_default()
        ),
        (_, Some(rule)) => rule,
        (DecisionSource::Rule { surface, .. }, None) if surface.is_empty() => {
            "it has no facts that could be judged".to_owned()
        }
        (DecisionSource::Rule { origin, .. }, None) => match origin.as_deref() {
            Some("builtin") | None => {
                "no rule matches, and nothing is said about the rest".to_owned()
            }
            Some(origin) => format!("no rule matches, and the key \"*\" speaks ({origin})"),
        },
        (
            DecisionSource::User { .. }
            | DecisionSource::Authorizer { .. }
            | DecisionSource::Unavailable { .. }
            | DecisionSource::GateError { .. }
            | DecisionSource::Forwarded { .. },
            None,
        ) => "nobody".to_owned(),
    }
}

fn rule_in_words(rule: &Rule) -> String {
    let place = rule
        .place
        .as_ref()
        .map(|place| format!(" at {}", visible(&place.to_string())));
    format!(
        "the {} rule \"{}\" on {}{}",
        rule.origin.name(),
        visible(rule.pattern.as_str()),
        visible(&rule.surface),
        place.unwrap_or_default()
    )
}

/// The whole explanation in lines.
pub fn lines(explained: &Explained, intent: Option<&ForwardedAccessIntent>) -> Vec<String> {
    let judgement = &explained.judgement;
    let mut lines = vec![
        format!("verdict   {}", judgement.verdict.name()),
        format!("because   {}", decider(explained)),
    ];
    if let Some(reason) = &judgement.reason {
        lines.push(format!("reason    {}", visible(reason)));
    }
    if let Some(intent) = intent {
        lines.push(format!("asked     {}", visible(&intent.surface)));
        for value in &intent.match_values {
            lines.push(format!("          {}", visible(value)));
        }
        if let Some(path) = &intent.boundary_value
            && !intent.match_values.contains(path)
        {
            lines.push(format!("          {} (canonical)", visible(path)));
        }
    }
    let units = units(&explained.steps);
    if units.len() > 1 {
        lines.push("commands".to_owned());
        for unit in units {
            lines.push(format!(
                "  {:<5}   {}",
                unit.verdict.name(),
                unit_in_words(&unit)
            ));
        }
    }
    lines.push("matched".to_owned());
    if judgement.matched.is_empty() {
        lines.push("          nothing".to_owned());
    }
    // A rule that speaks of several parts is named where it matches first.
    let mut named = HashSet::new();
    let matched = judgement.matched.iter().map(matched_line);
    lines.extend(matched.filter(|line| named.insert(line.clone())));
    lines.push("steps".to_owned());
    lines.extend(step_lines(&explained.steps));
    lines.push("not known here".to_owned());
    lines.extend(NOT_KNOWN.iter().map(|what| format!("  {what}")));
    lines
}

fn unit_in_words(unit: &Unit<'_>) -> String {
    let through =
        (!unit.through.is_empty()).then(|| format!("   (through {})", unit.through.join(", ")));
    let floor = unit
        .floor
        .map(|floor| format!("   ({})", runs::explained(floor)));
    let notes = [through, floor].into_iter().flatten();
    visible(unit.command).into_owned() + &notes.collect::<String>()
}

fn matched_line(matched: &MatchedRule) -> String {
    let place = matched
        .rule()
        .and_then(|rule| rule.place.as_ref().map(place_of));
    format!(
        "  {:<5}   \"{}\" on {} ({}{})",
        matched.verdict().name(),
        visible(matched.pattern()),
        visible(matched.surface()),
        matched.origin().name(),
        place.map(|place| format!(", {place}")).unwrap_or_default(),
    )
}

fn place_of(place: &RulePlace) -> String {
    visible(&place.to_string()).into_owned()
}

/// Steps in lines. What the requester left to be asked is a part of the line that was told already: of that only the end is told.
fn step_lines(steps: &[Step]) -> Vec<String> {
    let mut open: Vec<&Part> = Vec::new();
    let mut lines: Vec<String> = Vec::new();
    let is_stated = |part: &&&Part| matches!(part, Part::AskingUnit { .. });
    for step in steps {
        let closed = matches!(step, Step::End(_)).then(|| open.pop()).flatten();
        let is_told = !open.iter().any(|part| is_stated(&part));
        match (step, closed) {
            (Step::End(verdict), Some(Part::AskingUnit { .. })) => {
                if let Some(line) = lines.last_mut() {
                    *line = format!("{line} = {}", verdict.name());
                }
            }
            (Step::End(verdict), Some(Part::Against { .. } | Part::Whole { .. })) if is_told => {
                let said = if *verdict == Verdict::Deny {
                    "deny"
                } else {
                    "no deny"
                };
                lines.push(format!("{}= {said}", "  ".repeat(open.len() + 1)));
            }
            _ if is_told => {
                let indent = "  ".repeat(open.len() + 1);
                let words = step_in_words(step).into_iter();
                lines.extend(words.map(|words| format!("{indent}{words}")));
            }
            _ => {}
        }
        if let Step::Begin(part) = step {
            open.push(part);
        }
    }
    lines
}

fn step_in_words(step: &Step) -> Vec<String> {
    let one = |words: String| vec![words];
    match step {
        Step::NoFacts => one("it comes without facts, so it is asked".to_owned()),
        Step::Agent {
            name,
            has_own,
            is_clamped,
        } => {
            let whose = if *has_own {
                format!("the rules of agent {} hold", visible(name))
            } else {
                "the rules for everybody hold".to_owned()
            };
            let clamped = if *is_clamped {
                "; a file that belongs to them could not be read, so each allow is an ask"
            } else {
                ""
            };
            one(whose + clamped)
        }
        Step::Begin(part) => one(part_in_words(part)),
        Step::End(verdict) => one(format!("= {}", verdict.name())),
        Step::NoValue => one("it has no value; what is said about \"*\" can only speak against it".to_owned()),
        Step::Rules {
            matched,
            says,
            origin,
            ..
        } => match matched.split_last() {
            None => one(format!(
                "no rule matches; about the rest is said: {} ({})",
                says.name(),
                origin.name()
            )),
            Some((last, before)) => {
                let mut lines: Vec<String> = before.iter().map(|rule| rule_says(rule)).collect();
                lines.push(format!("{}; the last one holds", rule_says(last)));
                lines
            }
        },
        Step::Spelling { text, rule, counts } => one(format!(
            "written as {}: {}, {}",
            visible(text),
            rule_says(rule),
            if *counts { "which is stricter" } else { "which is not stricter" }
        )),
        Step::Grant(grant) => one(format!(
            "grant {} covers it: {}",
            grant.id(),
            visible(grant.pattern().as_str())
        )),
        Step::Floor { floor, lifts } => {
            let who = match floor {
                SaidFloor::Requester(_) => "the requester says",
                SaidFloor::Reading(_) => "as it is read here",
            };
            let so = if *lifts {
                "the allow becomes an ask"
            } else {
                "that changes nothing here"
            };
            let what = floor_in_words(floor).unwrap_or("it hides something");
            one(format!("{} ({who}): {what}; {so}", visible(floor.sentinel())))
        }
        Step::Switch => one("\"yoloMode\" is on: the ask becomes an allow".to_owned()),
        Step::LossyText => one("some of its text could not be decoded: it is never allowed".to_owned()),
        Step::Infrastructure => one(
            "it only reads in a directory of \"piInfrastructureReadPaths\": the ask becomes an allow".to_owned(),
        ),
    }
}

fn rule_says(rule: &Rule) -> String {
    let surface = rule
        .surface
        .contains(['*', '?'])
        .then(|| format!("on {}, ", visible(&rule.surface)));
    let place = rule
        .place
        .as_ref()
        .map(|place| format!(", {}", place_of(place)));
    format!(
        "\"{}\" says {} ({}{}{})",
        visible(rule.pattern.as_str()),
        rule.verdict.name(),
        surface.unwrap_or_default(),
        rule.origin.name(),
        place.unwrap_or_default()
    )
}

fn part_in_words(part: &Part) -> String {
    match part {
        Part::Surface { surface, values } => {
            let values: Vec<_> = values.iter().map(|value| visible(value)).collect();
            format!("on {}: {}", visible(surface), values.join(" | "))
        }
        Part::Against { value } => format!("{}, which can only be denied", visible(value)),
        Part::AskingUnit { place, command } => format!(
            "unit {} that the requester left to be asked: {}",
            place + 1,
            visible(command)
        ),
        Part::Line { units, floor, .. } => {
            let floor =
                floor.map(|floor| format!("; {} ({})", runs::explained(floor), floor.sentinel()));
            format!(
                "taken apart, it would run {units} command{}{}",
                if *units == 1 { "" } else { "s" },
                floor.unwrap_or_default()
            )
        }
        Part::Whole { text } => format!("as a whole, which can only be denied: {}", visible(text)),
        Part::Unit {
            command, through, ..
        } => {
            let through =
                (!through.is_empty()).then(|| format!(" (through {})", through.join(", ")));
            format!("{}{}", visible(command), through.unwrap_or_default())
        }
    }
}

/// The whole explanation as one JSON object.
pub fn json(explained: &Explained, intent: Option<&ForwardedAccessIntent>) -> Value {
    let Judgement {
        verdict,
        decided_by,
        reason,
        asked_because,
        matched,
        ..
    } = &explained.judgement;
    let matched: Vec<Value> = matched
        .iter()
        .map(|matched| {
            json!({
                "unit": matched.unit,
                "surface": matched.surface(),
                "pattern": matched.pattern(),
                "verdict": matched.verdict().name(),
                "origin": matched.origin().name(),
                "place": matched.rule().and_then(|rule| rule.place.as_ref().map(place_json)),
            })
        })
        .collect();
    let units: Vec<Value> = units(&explained.steps)
        .into_iter()
        .map(|unit| {
            json!({
                "command": unit.command,
                "verdict": unit.verdict.name(),
                "through": unit.through,
                "floor": unit.floor.map(Floor::sentinel),
                "floorText": unit.floor.map(runs::explained),
            })
        })
        .collect();
    let mut depth = 0_usize;
    let mut steps = Vec::new();
    for step in &explained.steps {
        if matches!(step, Step::End(_)) {
            depth = depth.saturating_sub(1);
        }
        steps.push(step_json(step, depth));
        if matches!(step, Step::Begin(_)) {
            depth += 1;
        }
    }
    json!({
        "v": 1,
        "verdict": verdict.name(),
        "decidedBy": decided_by,
        "rule": explained.rule.as_deref().map(rule_json),
        "reason": reason,
        "askedBecause": asked_because,
        "askedBecauseText": asked_because.as_deref().and_then(sentinel_in_words),
        "asked": intent,
        "matched": matched,
        "units": units,
        "steps": steps,
        "notKnown": NOT_KNOWN,
    })
}

fn rule_json(rule: &Rule) -> Value {
    json!({
        "surface": &*rule.surface,
        "pattern": rule.pattern.as_str(),
        "verdict": rule.verdict.name(),
        "origin": rule.origin.name(),
        "reason": rule.reason,
        "place": rule.place.as_ref().map(place_json),
    })
}

fn place_json(place: &RulePlace) -> Value {
    json!({ "file": &*place.file, "line": place.position.line, "column": place.position.column })
}

fn step_json(step: &Step, depth: usize) -> Value {
    let (name, facts) = match step {
        Step::NoFacts => ("noFacts", json!({})),
        Step::Agent {
            name,
            has_own,
            is_clamped,
        } => (
            "agent",
            json!({ "agent": name, "hasOwnRules": has_own, "isClamped": is_clamped }),
        ),
        Step::Begin(part) => part_json(part),
        Step::End(verdict) => ("comesTo", json!({ "verdict": verdict.name() })),
        Step::NoValue => ("noValue", json!({})),
        Step::Rules {
            values,
            matched,
            says,
            origin,
        } => {
            let matched: Vec<Value> = matched.iter().map(|rule| rule_json(rule)).collect();
            (
                "rules",
                json!({ "values": values, "matched": matched, "says": says.name(), "origin": origin.name() }),
            )
        }
        Step::Spelling { text, rule, counts } => (
            "spelling",
            json!({ "text": text, "rule": rule_json(rule), "counts": counts }),
        ),
        Step::Grant(grant) => (
            "grant",
            json!({ "id": grant.id().get(), "pattern": grant.pattern().as_str() }),
        ),
        Step::Floor { floor, lifts } => {
            let by = match floor {
                SaidFloor::Requester(_) => "requester",
                SaidFloor::Reading(_) => "reading",
            };
            (
                "floor",
                json!({ "floor": floor.sentinel(), "floorText": floor_in_words(floor), "by": by, "lifts": lifts }),
            )
        }
        Step::Switch => ("yolo", json!({})),
        Step::LossyText => ("lossyText", json!({})),
        Step::Infrastructure => ("infrastructure", json!({})),
    };
    named(name, depth, facts)
}

fn part_json(part: &Part) -> (&'static str, Value) {
    match part {
        Part::Surface { surface, values } => {
            ("surface", json!({ "surface": surface, "values": values }))
        }
        Part::Against { value } => ("against", json!({ "value": value })),
        Part::AskingUnit { place, command } => {
            ("askingUnit", json!({ "unit": place, "command": command }))
        }
        Part::Line { line, units, floor } => (
            "line",
            json!({ "line": line, "units": units, "floor": floor.map(Floor::sentinel) }),
        ),
        Part::Whole { text } => ("whole", json!({ "text": text })),
        Part::Unit {
            command,
            through,
            floor,
        } => (
            "unit",
            json!({ "command": command, "through": through, "floor": floor.map(Floor::sentinel) }),
        ),
    }
}

/// The facts of a step behind its name and depth.
fn named(name: &str, depth: usize, facts: Value) -> Value {
    let mut step = serde_json::Map::new();
    step.insert("step".to_owned(), name.into());
    step.insert("depth".to_owned(), depth.into());
    if let Value::Object(facts) = facts {
        step.extend(facts);
    }
    Value::Object(step)
}

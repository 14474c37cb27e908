//! What the recorded authority says about a command line: the strictest of what it says about each command that would run.
//!
//! The text is taken apart by [`crate::shell`]. Each executed unit is judged by itself, in the spelling that stands there and in
//! those that a rule might have been written for. A construct around units, and the line as a whole, can only speak against it:
//! a deny that covers the whole still denies. A person who approved exactly this text has decided about all of it.
//!
//! A floor that hides commands is stronger than the switch that turns asks into allows: what cannot be seen was tried against no
//! deny.

use super::judge::{Bench, Finding};
use super::trace::{Part, SaidFloor, Step};
use super::{Pattern, Switch, Verdict};
use crate::shell::{self, Floor, Reading, Unit};

/// The surface that is asked about, and the one whose rules hold.
type On<'a> = (&'a str, &'a str);

impl<'a> Bench<'a> {
    /// Judges the values of an ask on the surface of commands: the first is the command, the others can only deny.
    pub(super) fn command_lines<S: AsRef<str>>(
        &mut self,
        asked: &'a str,
        judged: &'a str,
        values: &[S],
        floor: Option<&'a str>,
    ) -> Finding<'a> {
        let mut lines = values.iter().map(AsRef::as_ref);
        let Some(first) = lines.next() else {
            return Finding::unknown(asked);
        };
        let is_only = values.iter().all(|value| value.as_ref() == first);
        let mut found = self.line((asked, judged), first, floor, is_only);
        let rested = self.rested();
        for other in lines.filter(|other| *other != first) {
            let said = self.line((asked, judged), other, None, false);
            let _counts_for_nothing = self.rests_on_since(rested);
            if said.verdict == Verdict::Deny {
                found = found.or_stricter(said);
            }
            if let Some(floor) = shell::read(other).heaviest_floor() {
                found = self.lifted_for(found, floor);
            }
        }
        found
    }

    /// Judges one command line. `is_only`: the ask has no other value, so a grant for exactly this text settles it.
    fn line(
        &mut self,
        on: On<'a>,
        line: &str,
        floor: Option<&'a str>,
        is_only: bool,
    ) -> Finding<'a> {
        let reading = shell::read(line);
        if let [unit] = reading.units.as_slice()
            && reading.is_one_plain_command(line)
            && unit.text == line
        {
            return self.unit(on, unit, floor);
        }
        self.trace.note(|| {
            Step::Begin(Part::Line {
                line: line.to_owned(),
                units: reading.units.len(),
                floor: reading.floor,
            })
        });
        let found = self.taken_apart(on, line, &reading, floor, is_only);
        self.trace.note(|| Step::End(found.verdict));
        found
    }

    fn taken_apart(
        &mut self,
        on: On<'a>,
        line: &str,
        reading: &Reading<'_>,
        floor: Option<&'a str>,
        is_only: bool,
    ) -> Finding<'a> {
        let (asked, judged) = on;
        // What is said about the whole counts where it denies, and where there is nothing else to judge.
        self.trace.note(|| {
            Step::Begin(Part::Whole {
                text: line.to_owned(),
            })
        });
        let whole = self.recorded(asked, judged, &[line]);
        self.trace.note(|| Step::End(whole.verdict));
        let covers_all = |unit: &Unit<'_>| unit.text == line.trim();
        // What the requester says about the text holds for the one command that is all of it, or else for the line.
        let has_one = reading.units.iter().any(covers_all);
        let mut found: Option<Finding<'a>> = None;
        let rested = self.rested();
        for unit in &reading.units {
            let said = self.unit(on, unit, floor.filter(|_| covers_all(unit)));
            found = Some(match found {
                Some(before) => before.or_stricter(said),
                None => said,
            });
        }
        let mut found = match found {
            Some(found) if whole.verdict == Verdict::Deny => found.or_stricter(whole),
            Some(found) => found,
            None => self.switched(whole),
        };
        for whole in &reading.wholes {
            found = self.or_denied(asked, judged, whole, found);
        }
        if found.verdict == Verdict::Deny {
            return found;
        }
        if is_only {
            let by_units = self.rests_on_since(rested);
            if let Some(grant) = self.grant(judged, |pattern| is_exactly(pattern, line)) {
                return Finding::granted(asked, grant);
            }
            self.rests_on.extend(by_units);
        }
        if let Some(floor) = floor.filter(|_| !has_one) {
            if self.is_switched() {
                self.note_undone(SaidFloor::Requester(floor.to_owned()));
            } else {
                found = self.lifted_by(found, floor);
            }
        }
        self.floored(found, reading.floor)
    }

    /// Judges one executed unit. `floor` is what the requester says of it.
    fn unit(&mut self, on: On<'a>, unit: &Unit<'_>, floor: Option<&'a str>) -> Finding<'a> {
        self.trace.note(|| {
            Step::Begin(Part::Unit {
                command: unit.command.to_string(),
                through: unit.through.clone(),
                floor: unit.floor,
            })
        });
        let found = self.command(on, unit, floor);
        self.trace.note(|| Step::End(found.verdict));
        found
    }

    fn command(&mut self, on: On<'a>, unit: &Unit<'_>, floor: Option<&'a str>) -> Finding<'a> {
        let (asked, judged) = on;
        let command = unit.command.as_ref();
        let mut found = self.recorded(asked, judged, &[command]);
        let as_written = (unit.text != command).then_some(unit.text);
        for spelling in unit.spellings.iter().map(String::as_str).chain(as_written) {
            found = self.or_evaded(on, command, spelling, found);
        }
        if found.verdict == Verdict::Deny {
            return found;
        }
        // What a pattern covers is not known where something is hidden.
        let is_hidden = unit.floor.is_some_and(|floor| !floor.is_seen_through());
        if let Some(grant) = self.grant(judged, |pattern| {
            if is_hidden {
                is_exactly(pattern, command)
            } else {
                pattern.matches(command)
            }
        }) {
            return Finding::granted(asked, grant);
        }
        if let Some(floor) = floor {
            found = self.lifted_by(found, floor);
        }
        let found = match unit.floor {
            Some(floor) if !floor.hides_commands() => self.lifted_for(found, floor),
            Some(_) | None => found,
        };
        let found = self.switched(found);
        self.floored(found, unit.floor.filter(|floor| floor.hides_commands()))
    }

    /// Lifts an allow because of a floor of ours.
    fn floored(&mut self, found: Finding<'a>, floor: Option<Floor>) -> Finding<'a> {
        match floor {
            None => found,
            Some(floor) if floor.hides_commands() || !self.is_switched() => {
                self.lifted_for(found, floor)
            }
            Some(floor) => {
                self.note_undone(SaidFloor::Reading(floor));
                found
            }
        }
    }

    /// Whether the switch would undo what only asks.
    fn is_switched(&self) -> bool {
        self.rules.yolo() == Switch::On
    }

    fn note_undone(&mut self, floor: SaidFloor) {
        self.trace.note(|| Step::Floor {
            floor,
            lifts: false,
        });
    }
}

fn is_exactly(pattern: &Pattern, text: &str) -> bool {
    pattern.is_literal() && pattern.as_str() == text
}

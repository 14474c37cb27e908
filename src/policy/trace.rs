//! The way to a judgement, told by the judge itself while it judges.
//!
//! Each step is noted where it is made, so an explanation is never another opinion. Parts of an ask (a surface, a command line, a
//! unit of it) are opened and closed with what they come to; what stands between is about them. Nobody who only wants the
//! verdict pays for any of it.

use std::sync::Arc;

use super::judge::Judgement;
use super::rules::{Origin, Rule, Verdict};
use super::session_grant::SessionGrant;
use crate::shell::Floor;

/// A judgement with the way to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explained {
    /// What [`super::Policy::judge`] says.
    pub judgement: Judgement,
    /// The rule behind the verdict, if it is one that matched: also the one whose allow was lifted or whose ask was undone.
    pub rule: Option<Arc<Rule>>,
    /// How it came to that, in order.
    pub steps: Vec<Step>,
}

/// One step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// There are no facts, so nothing can be judged.
    NoFacts,
    /// Which rules hold.
    Agent {
        /// The agent in whose name it is asked.
        name: String,
        /// Whether it has rules of its own.
        has_own: bool,
        /// Whether a layer could not be read, so that no allow of a rule stands.
        is_clamped: bool,
    },
    /// A part is judged from here on, until it is closed.
    Begin(Part),
    /// The part that was opened last and is not closed comes to this.
    End(Verdict),
    /// There is no value: what is said about everything can only speak against it.
    NoValue,
    /// The rules were searched.
    Rules {
        /// For these values.
        values: Vec<String>,
        /// Every rule that matches, in order. The last one decides.
        matched: Vec<Arc<Rule>>,
        /// What they say; where none matches, what is said about everything else.
        says: Verdict,
        /// Who says so.
        origin: Origin,
    },
    /// A rule misses the command as it is written, and covers it in another spelling.
    Spelling {
        /// The spelling.
        text: String,
        /// The last rule that covers it.
        rule: Arc<Rule>,
        /// Whether it is stricter than what was found, and so counts.
        counts: bool,
    },
    /// A grant of the session covers it.
    Grant(Arc<SessionGrant>),
    /// Something is hidden, or more than a rule was written for.
    Floor {
        /// Who says so.
        floor: SaidFloor,
        /// Whether it lifts an allow to an ask. It does not where the verdict is an ask or a deny as it is, or the switch undoes it.
        lifts: bool,
    },
    /// The switch turns an ask into an allow.
    Switch,
    /// Some of the text could not be decoded, so it is not allowed.
    LossyText,
    /// An ask that only reads in a directory of the host is allowed.
    Infrastructure,
}

/// A floor, and who says it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SaidFloor {
    /// The one who asks, by the name of a sentinel.
    Requester(String),
    /// Our own reading of the command line.
    Reading(Floor),
}

impl SaidFloor {
    /// Its sentinel.
    pub fn sentinel(&self) -> &str {
        match self {
            Self::Requester(sentinel) => sentinel,
            Self::Reading(floor) => floor.sentinel(),
        }
    }
}

/// A part of an ask.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// Its values, by what holds for a surface.
    Surface {
        /// The surface whose rules are searched.
        surface: String,
        /// The values.
        values: Vec<String>,
    },
    /// The canonical path, or a further value: it can only deny.
    Against {
        /// What is tried.
        value: String,
    },
    /// A unit that the requester left to be asked.
    AskingUnit {
        /// Its place among them.
        place: usize,
        /// Its command.
        command: String,
    },
    /// A command line of more than one plain command.
    Line {
        /// The line.
        line: String,
        /// How many commands it would run.
        units: usize,
        /// Why no rule may allow the line, whatever its commands are.
        floor: Option<Floor>,
    },
    /// The line or a construct in it, as a whole: it can only be denied.
    Whole {
        /// Its text.
        text: String,
    },
    /// One command that would be run.
    Unit {
        /// The command.
        command: String,
        /// The wrappers that it stands in.
        through: Vec<&'static str>,
        /// Why no rule may allow it.
        floor: Option<Floor>,
    },
}

/// Where steps are noted; nowhere unless somebody asked for them.
#[derive(Debug, Default)]
pub(super) struct Trace(Option<Vec<Step>>);

impl Trace {
    /// One that notes.
    pub(super) fn noting() -> Self {
        Self(Some(Vec::new()))
    }

    pub(super) fn note(&mut self, step: impl FnOnce() -> Step) {
        if let Some(steps) = &mut self.0 {
            steps.push(step());
        }
    }

    pub(super) fn into_steps(self) -> Vec<Step> {
        self.0.unwrap_or_default()
    }
}

//! What of a parent's system prompt a child may inherit: who the agent is and what the operator told it, and nothing that was
//! resolved for the parent's session alone. Text in, text out.
//!
//! ```text
//! preamble │ <tools> <rules> │ <docs> <addendum> <project_context> │ <skills> <cwd> and what follows
//!   stays  │     excised     │  stays; the context goes where the  │             cut
//!          │                 │       child works elsewhere         │
//! ```
//!
//! [`inherit`] does the cutting, [`Prompt`] puts a whole prompt for a child together. Neither reads a file, knows an agent's
//! configuration, or judges what a text says: they go by whole lines that the host writes, in the places where it writes them.
//!
//! Invariants: nothing is ever added to what is inherited; what is kept are bytes of the prompt, in their order, whether they are text
//! or not; every input comes to an end, in time that grows with its length; where nothing shows that the host assembled a prompt, all of
//! it is the operator's and all of it stays.

mod assemble;
mod excise;
mod lines;
mod tail;
#[cfg(test)]
mod tests;

use std::ops::Range;

pub use assemble::{
    AgentName, AssembleError, BadName, Body, ContextFile, Environment, Git, Inherited, Mode, Parts,
    Prompt, Strategy,
};
pub use lines::line_number;

/// JSON Schemas of what the command prints about an identity, and about a whole prompt, by their names.
pub const SCHEMAS: [(&str, &str); 2] = [
    ("identity", include_str!("schema/identity.json")),
    ("child-prompt", include_str!("schema/child-prompt.json")),
];

/// Where the two sides work, as each is told it. They are compared as they are written.
#[derive(Debug, Clone, Copy)]
pub struct Directories<'a> {
    /// Working directory of the parent's session.
    pub parent: &'a [u8],
    /// Working directory of the child's.
    pub child: &'a [u8],
}

impl Directories<'_> {
    /// Whether the child works elsewhere.
    pub fn differ(&self) -> bool {
        self.parent != self.child
    }
}

/// By what the tail of a prompt was recognised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// A line `Current working directory: …`, as the host wrote up to 0.85.
    Footer,
    /// A `<cwd>` section, as the host writes since 0.86.
    Section,
    /// A catalogue of skills, with neither.
    Unanchored,
}

impl Shape {
    /// Its name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Footer => "footer",
            Self::Section => "section",
            Self::Unanchored => "unanchored",
        }
    }
}

/// What stands where a prompt was cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CutAt {
    /// What the tail was recognised by.
    Anchor,
    /// The heading of the catalogue of skills.
    Catalogue,
    /// The section of skills.
    Skills,
    /// The parent's project context.
    ProjectContext,
}

impl CutAt {
    /// Its name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Anchor => "anchor",
            Self::Catalogue => "catalogue",
            Self::Skills => "skills",
            Self::ProjectContext => "projectContext",
        }
    }
}

/// The part of a prompt that was resolved for one session. Places are bytes from the start, at which a line starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tail {
    /// By what it was recognised.
    pub shape: Shape,
    /// Where that stands.
    pub anchor: usize,
    /// Where the tail begins.
    pub cut: usize,
    /// What stands there.
    pub cut_at: CutAt,
}

/// What became of the sections `<tools>` and `<rules>`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Excision {
    /// They were taken out: these bytes of the prompt, whole lines.
    Done(Range<usize>),
    /// They stay, or there are none.
    Kept(Kept),
}

/// Why nothing was taken out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kept {
    /// Nothing shows that the host assembled the prompt.
    NoTail,
    /// Only a prompt of sections has them.
    OtherShape,
    /// There is no `<tools>`.
    NoTools,
    /// The first `<tools>` stands below a section that the host writes further down: somebody quotes it.
    BelowTheBound,
    /// `<tools>` is not closed above that place.
    ToolsOpen,
    /// What follows is not one empty line and `<rules>`.
    Apart,
    /// `<rules>` is not closed above that place.
    RulesOpen,
}

impl Kept {
    /// Its name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NoTail => "noTail",
            Self::OtherShape => "otherShape",
            Self::NoTools => "noTools",
            Self::BelowTheBound => "belowTheBound",
            Self::ToolsOpen => "toolsOpen",
            Self::Apart => "apart",
            Self::RulesOpen => "rulesOpen",
        }
    }
}

/// What a child may inherit, and what was done to get it.
#[derive(Debug, Clone)]
#[must_use]
pub struct Identity<'p> {
    before: &'p [u8],
    after: &'p [u8],
    /// What was cut off below; `None`: nothing, the prompt is as it was.
    pub tail: Option<Tail>,
    /// What became of the parent's tools and rules.
    pub excision: Excision,
    /// Bytes at the start that are the same as the parent's: what a cache of prefixes can use.
    pub shared: usize,
    /// Bytes of white space that were left off at the end.
    pub trimmed: usize,
}

impl Identity<'_> {
    /// The inherited text.
    pub fn to_vec(&self) -> Vec<u8> {
        [self.before, self.after].concat()
    }

    /// The inherited text in the pieces of the prompt that it consists of.
    pub const fn pieces(&self) -> [&[u8]; 2] {
        [self.before, self.after]
    }

    /// The same as places in the prompt.
    fn ranges(&self, prompt: &[u8]) -> [Range<usize>; 2] {
        let after = match &self.excision {
            Excision::Done(bytes) => bytes.end,
            Excision::Kept(_) => self.before.len(),
        };
        let end = |start: usize, length: usize| start.saturating_add(length).min(prompt.len());
        [
            0..self.before.len(),
            after.min(prompt.len())..end(after, self.after.len()),
        ]
    }

    /// Its length in bytes.
    pub const fn len(&self) -> usize {
        self.before.len() + self.after.len()
    }

    /// Whether nothing is left.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// What a child in `directories.child` may inherit of the prompt of a session in `directories.parent`.
pub fn inherit<'p>(prompt: &'p [u8], directories: &Directories<'_>) -> Identity<'p> {
    let Some(tail) = tail::find(prompt, directories) else {
        return Identity {
            before: prompt,
            after: &[],
            tail: None,
            excision: Excision::Kept(Kept::NoTail),
            shared: prompt.len(),
            trimmed: 0,
        };
    };
    // The lines above the cut, without the end of the last of them.
    let head = prompt.get(..tail.cut.saturating_sub(1)).unwrap_or_default();
    let excision = match tail.shape {
        Shape::Section => match excise::pair(head) {
            // The end of the last line above the cut goes with that line.
            Ok(bytes) if bytes.end == head.len() => Excision::Done(bytes.start..tail.cut),
            Ok(bytes) => Excision::Done(bytes),
            Err(kept) => Excision::Kept(kept),
        },
        Shape::Footer | Shape::Unanchored => Excision::Kept(Kept::OtherShape),
    };
    let (whole_before, whole_after) = match &excision {
        Excision::Done(bytes) => (
            head.get(..bytes.start).unwrap_or_default(),
            head.get(bytes.end..).unwrap_or_default(),
        ),
        Excision::Kept(_) => (head, &[][..]),
    };
    let after = lines::trim_end(whole_after);
    let before = if after.is_empty() {
        lines::trim_end(whole_before)
    } else {
        whole_before
    };
    let parents = prompt.get(before.len()..).unwrap_or_default();
    let more = after
        .iter()
        .zip(parents)
        .take_while(|(own, parents)| own == parents)
        .count();
    Identity {
        before,
        after,
        tail: Some(tail),
        excision,
        shared: before.len() + more,
        trimmed: whole_before.len() + whole_after.len() - before.len() - after.len(),
    }
}

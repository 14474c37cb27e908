//! What a bash command line would really run.
//!
//! A line is parsed with the tree-sitter grammar for bash and taken apart into its executed *units*: each command of a chain, a
//! pipeline, a substitution, a subshell, a group, a loop, a function body; and what stands inside wrappers that can be seen
//! through, such as `sudo`, `xargs` or `bash -c '…'`. A wrapper is a unit too. Where something is run that the line does not
//! show, the unit, or the whole line, carries a [`Floor`]: nobody's rule may allow it.
//!
//! This room runs nothing, expands nothing, looks at no file, and decides nothing: it explains. What a program does with its
//! arguments is not known here, and a command that was parsed may still not be what the words on the screen suggest.
//!
//! # Invariants
//!
//! * The text of every unit is a part of the line.
//! * What is not understood is a floor, never a unit less: an error of the parse, a node that is not known, text that stands in
//!   no node, a place where bash and the grammar are known to differ.
//! * Nothing panics, whatever the bytes; depth, length, and the work of the parser are bounded, and beyond a bound is a floor.

mod heredoc;
mod launchers;
mod parse;
mod phrases;
mod reader;
mod redirect;
mod script;
mod shells;
mod step;
mod trust;
mod walk;
mod word;
mod wrappers;

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::ops::Range;

pub use phrases::{Phrase, Phrases, Piece, Place, phrases};

use crate::wire::{
    CommandContext, SENTINEL_INDIRECTION, SENTINEL_OPAQUE, SENTINEL_REDIRECTION,
    SENTINEL_UNPARSEABLE_COMMAND, SENTINEL_UNPARSED_SUBTREE,
};

/// Longest line that is parsed, in bytes. Of a longer one only the floor is known. Text that is made to go wrong late costs the
/// parser the square of its length, in one step that cannot be ended: a quarter of a second for this one.
pub const MAX_LINE_BYTES: usize = 32 * 1024;

/// Most units of a line. Beyond it the line has a floor, and the others are not listed.
pub const MAX_UNITS: usize = 4096;

/// How deep substitutions, groups and other commands that hold commands may stand in each other.
pub const MAX_NESTING: usize = 64;

/// How many command lines may be handed on inside each other, as in `bash -c "bash -c …"`.
pub const MAX_SHELLS: usize = 4;

/// Why no rule may allow a unit or a line. The later ones weigh more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Floor {
    /// A program runs what stands behind it, which is a unit by itself. Nothing is hidden; but under another user, with another
    /// environment or again and again a command is not the one that a rule was written for.
    Wrapper,
    /// A shell is handed a command line that is on the line and is taken apart. Nothing is hidden here either.
    Shell,
    /// A file is written, or a connection opened, by a redirection, which stands in no unit's text.
    Redirection,
    /// A part of the line could not be told for sure.
    UnparsedSubtree,
    /// A command is run whose name or arguments are not on the line.
    Indirection,
    /// Shell code is run that is not on the line, or not whole.
    Opaque,
    /// The line is not bash, or not read.
    Unparseable,
}

impl Floor {
    /// The sentinel that stands for it on the wire and in prompts.
    pub fn sentinel(self) -> &'static str {
        match self {
            Self::Redirection => SENTINEL_REDIRECTION,
            Self::UnparsedSubtree => SENTINEL_UNPARSED_SUBTREE,
            Self::Wrapper | Self::Indirection => SENTINEL_INDIRECTION,
            Self::Shell | Self::Opaque => SENTINEL_OPAQUE,
            Self::Unparseable => SENTINEL_UNPARSEABLE_COMMAND,
        }
    }

    /// Whether something is run that could not be tried against a deny.
    pub fn hides_commands(self) -> bool {
        self > Self::Redirection
    }

    /// Whether all that it stands for is among the units.
    pub fn is_seen_through(self) -> bool {
        self <= Self::Shell
    }
}

/// One command that a line would run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unit<'a> {
    /// Its text, a part of the line.
    pub text: &'a str,
    /// Where in the line the text stands, in bytes.
    pub range: Range<usize>,
    /// The text as the shell that runs it reads it: without the quoting of the command lines around it.
    pub command: Cow<'a, str>,
    /// Other ways to write the same command, for rules that would miss this one: its words without quotes and with single
    /// blanks, and the program without its directory.
    pub spellings: Vec<String>,
    /// The innermost construct around it.
    pub context: Option<CommandContext>,
    /// Why no rule may allow it.
    pub floor: Option<Floor>,
    /// Whether it runs on another machine.
    pub remote: bool,
    /// The wrappers that it stands in, from the outside in.
    pub through: Vec<&'static str>,
}

/// What a line would run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading<'a> {
    /// Every command, in the order of the line; a wrapper before what it runs.
    pub units: Vec<Unit<'a>>,
    /// Commands made of commands (chains, pipelines, subshells, groups, loops, functions) and commands with their redirections,
    /// whole. Each of their parts is a unit, so these texts can only speak against the line.
    pub wholes: Vec<&'a str>,
    /// Why no rule may allow the line, whatever its units are.
    pub floor: Option<Floor>,
}

impl Reading<'_> {
    /// Whether the line is one command and nothing else: no floor, nothing around it, nothing in it.
    pub fn is_one_plain_command(&self, line: &str) -> bool {
        self.floor.is_none()
            && self.wholes.is_empty()
            && matches!(self.units.as_slice(), [unit] if unit.floor.is_none() && unit.text == line.trim_matches(BLANKS))
    }

    /// The weightiest floor of the line and of its units.
    pub fn heaviest_floor(&self) -> Option<Floor> {
        let units = self.units.iter().filter_map(|unit| unit.floor);
        units.chain(self.floor).max()
    }
}

/// What separates words, and nothing else.
const BLANKS: [char; 3] = [' ', '\t', '\n'];

/// Takes a command line apart. See the page of this module for what holds of the answer.
pub fn read(line: &str) -> Reading<'_> {
    reader::read(line)
}

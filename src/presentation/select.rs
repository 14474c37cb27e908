//! Numbered questions: the prompt where there is no screen.

use crate::wire::{ApprovalGrant, Decision, GrantWidth, Hop, PromptPayload, UserSurface};

/// What a person chose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Choice {
    /// Yes, this once.
    Once,
    /// Yes, and the suggested grants are recorded.
    Session {
        /// For whom they are recorded.
        scope: GrantScope,
        /// How wide.
        width: GrantWidth,
    },
    /// No.
    Deny,
    /// No, and why; never blank.
    DenyWithReason(String),
}

/// For whom a session grant is recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GrantScope {
    /// The session that asks; for a local ask that is the own session.
    Requester,
    /// The serving session: itself and all its subagents.
    ServingSession,
}

impl Choice {
    /// The decision that this choice is, credited to a person on the surface `via`.
    pub fn decision(self, via: UserSurface) -> Decision {
        let _ = via;
        Decision::unavailable("no choice")
    }
}

/// What stands in one option.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Meaning {
    /// Settles the ask.
    Choose(Choice),
    /// Leads to the question of the grant's scope.
    AskScope(GrantWidth),
    /// Leads to the question for a reason.
    AskReason,
}

/// One numbered option.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuestionOption {
    /// Its text, visible.
    pub label: String,
    /// What choosing it means.
    pub meaning: Meaning,
}

/// What is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Whether the call may run.
    Decide,
    /// For whom the grant holds.
    Scope,
    /// Why not: a free line.
    Reason,
}

/// One question to a person, ready to be written or drawn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// What is asked.
    pub step: Step,
    /// First line.
    pub title: String,
    /// The facts, visible and complete.
    pub lines: Vec<String>,
    /// How many further asks wait.
    pub waiting: usize,
    /// The options in order; empty for a free line.
    pub options: Vec<QuestionOption>,
}

/// Everything that a question is made of.
#[derive(Debug, Clone, Copy)]
pub struct Ask<'a> {
    /// The facts.
    pub payload: &'a PromptPayload,
    /// The sessions that the ask came through.
    pub path: &'a [Hop],
    /// What the requester suggests to grant.
    pub grants: &'a [ApprovalGrant],
    /// How many further asks wait.
    pub waiting: usize,
}

/// What a line of input is, as an answer to a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// It settles the ask.
    Chosen(Choice),
    /// It leads on: this question must be asked next.
    Next(Question),
    /// It is no answer: nothing is decided.
    NotAChoice(NotAChoice),
}

/// Why a line is no choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotAChoice {
    /// Nothing but blanks.
    Blank,
    /// Not one of the offered numbers.
    Unknown,
    /// The input has ended.
    EndOfInput,
}

impl Question {
    /// The first question about an ask.
    pub fn decide(ask: &Ask<'_>) -> Self {
        let _ = ask;
        Self {
            step: Step::Decide,
            title: String::new(),
            lines: Vec::new(),
            waiting: 0,
            options: Vec::new(),
        }
    }

    /// The question as text, one line after the other.
    pub fn text(&self) -> String {
        String::new()
    }
}

/// Reads `line`, or the end of the input, as an answer to `question`.
pub fn parse_choice(line: Option<&str>, question: &Question) -> Answer {
    let _ = (line, question);
    Answer::NotAChoice(NotAChoice::Unknown)
}

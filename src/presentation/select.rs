//! Numbered questions: the prompt where there is no screen, and the choices that any prompt offers.
//!
//! A question is a value; asking it and waiting is for others. An answer line counts only as the number of an offered option:
//! a blank line, an unknown word, a number out of range, the end of the input are not a decision. The reason for a "no" is
//! the one free line; "no" has been said by then, so an empty one still denies.
//!
//! Invariants: no line decides by default; a grant is listed whole before it can be chosen; whoever asks cannot write text
//! that stands where an option stands (see [`super::dialog`]).

use std::time::Duration;

use super::dialog::{self, Fact};
use super::fit::{self, Budget, Labels};
use super::table::{self, Asker};
use super::text;
use crate::wire::{
    ApprovalGrant, Decision, DecisionSource, DecisionState, Direction, GrantWidth, Hop, Lifetime,
    PromptPayload, UserSurface, proven_direction,
};

/// The answer that asks for everything.
const SHOW_EVERYTHING: &str = "?";

/// The answer that puts the ask off. A letter, so that it takes no number from an option.
pub(super) const NOT_NOW: &str = "l";

/// Most UTF-16 units of a pattern or a name in the label of an option. The facts above have it whole.
const MAX_LABEL_UNITS: usize = 60;

/// The answers about several asks that are alike, letters and words for the same reason.
pub(super) const TOGETHER: &str = "a";
pub(super) const TO_ALL: [(&str, Plain); 2] = [("yes", Plain::Yes), ("no", Plain::No)];
pub(super) const BACK: &str = "b";

/// The lifetimes that are offered beside that of the session.
const A_WHILE: Duration = Duration::from_mins(15);
const A_FEW_TIMES: u32 = 10;

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
        /// For how long.
        lifetime: Lifetime,
    },
    /// No.
    Deny,
    /// No, and why.
    DenyWithReason(String),
}

/// A plain yes or no: all that several asks can be answered with at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plain {
    /// Yes, this once.
    Yes,
    /// No.
    No,
}

impl Plain {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Yes => "Yes",
            Self::No => "No",
        }
    }
}

/// The label of the option that leads to all asks that are alike.
pub fn together_label(count: usize) -> String {
    format!("Yes, for these {count} asks: each is named first")
}

impl From<Plain> for Choice {
    fn from(plain: Plain) -> Self {
        match plain {
            Plain::Yes => Self::Once,
            Plain::No => Self::Deny,
        }
    }
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
        let decided_by = DecisionSource::User { via };
        match self {
            Self::Once => Decision::approved(decided_by),
            Self::Session { scope, width, .. } => Decision {
                state: match scope {
                    GrantScope::Requester => DecisionState::ApprovedForSession,
                    GrantScope::ServingSession => DecisionState::ApprovedForServingSession,
                },
                width,
                ..Decision::approved(decided_by)
            },
            Self::Deny => Decision::denied(None, decided_by),
            Self::DenyWithReason(reason) => Decision::denied(Some(reason), decided_by),
        }
    }
}

/// What an option means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Meaning {
    /// It settles the ask.
    Choose(Choice),
    /// It leads to the question of the grant's scope.
    AskScope(GrantWidth),
    /// It leads to the question for a reason.
    AskReason,
    /// Stands there so that the numbers of the others stay the same.
    NotOffered,
}

/// One numbered option.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuestionOption {
    /// Its text, visible.
    pub label: String,
    /// Its text where that has no room, if there is another option that begins as it does.
    pub brief: Option<Brief>,
    /// What choosing it means.
    pub meaning: Meaning,
}

/// The text of an option on a narrow screen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Brief {
    /// How many columns of the label tell the option from the others. With fewer, this text stands in its place.
    told_by: usize,
    /// Text whose first columns tell it from the others.
    text: String,
}

impl Brief {
    /// The brief form of a label that begins with `head`, which tells it from the others; `text` is what it says in few columns.
    fn of(head: &str, text: String) -> Self {
        Self {
            told_by: text::width(head),
            text,
        }
    }
}

/// The label of an option within this many columns: what tells it from the others is never cut where there is a brief form.
pub fn label_within(label: &str, brief: Option<&Brief>, columns: usize) -> String {
    let brief = brief.filter(|brief| text::width(label) > columns && brief.told_by >= columns);
    text::clip_columns(brief.map_or(label, |brief| &brief.text), columns).into_owned()
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
    /// Whether several calls that are alike may run, each of them named.
    Together,
}

/// One question to a person, ready to be written or drawn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// What is asked.
    pub step: Step,
    /// First line.
    pub title: &'static str,
    /// The core facts, with what a grant would cover; no budget drops one.
    pub core: Vec<Fact>,
    /// The evidence, whole.
    pub evidence: Vec<Fact>,
    /// How many further asks wait.
    pub waiting: usize,
    /// The options in order; empty for a free line.
    pub options: Vec<QuestionOption>,
    /// What the question of scope is made of; `None` where it is not asked.
    scopes: Option<Scopes>,
    /// The asks that are alike, this one first; empty where it is the only one.
    together: Vec<Fact>,
    /// The question that this one leads back to.
    back: Option<Box<Question>>,
}

/// For whom and how long something may be granted.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Scopes {
    agent: Option<String>,
    grants: Vec<ApprovalGrant>,
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
    /// Where the requester stands, where known.
    pub directory: Option<&'a str>,
    /// The pattern or sentinel of the serving session that made it an ask.
    pub asked_because: Option<&'a str>,
    /// The authorizer that has not answered yet, and may decide before the person does.
    pub with_chain: Option<&'a str>,
    /// How many further asks wait.
    pub waiting: usize,
}

/// How much of an ask is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// What a budget allows.
    Within(Budget),
    /// All of it.
    Everything,
}

/// What a line of input is, as an answer to a question.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum Answer {
    /// It settles the ask.
    Chosen(Choice),
    /// It leads on: this question must be asked next.
    Next(Question),
    /// It asks for everything that the budget left out.
    ShowEverything,
    /// It puts the ask off. This is no choice, and there is no decision that it could become.
    NotNow,
    /// It settles all asks that were named.
    ToAll(Plain),
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
    /// The input has ended: nobody is there.
    EndOfInput,
}

impl Ask<'_> {
    /// The name of the subagent that asks, whoever passed its ask on: a grant for it holds for none of those.
    fn asker(&self) -> Option<String> {
        let Some(first) = self.path.first() else {
            return self.payload.request.requester.agent_name.clone();
        };
        let names = [&first.agent_name, &first.session_id];
        names.into_iter().find(|name| !name.is_empty()).cloned()
    }

    /// The core facts, with what a grant would cover and why this session asks.
    pub(super) fn core(&self) -> Vec<Fact> {
        let mut core = dialog::core_rows(self.payload, self.path);
        if let Some(directory) = self.directory {
            core.push(Fact::line("directory", directory));
        }
        core.extend(self.grants.iter().map(|grant| {
            let line = format!(
                "{} {}",
                dialog::name(&grant.surface),
                text::quoted(&grant.pattern)
            );
            Fact::shown("session grant", line)
        }));
        if let Some(because) = self.asked_because {
            core.push(Fact::line("rule here", because));
        }
        if let Some(link) = self.with_chain {
            core.push(dialog::waits_for(Some(link)));
        }
        core
    }
}

impl Question {
    /// The first question about an ask.
    pub fn decide(ask: &Ask<'_>) -> Self {
        let requester = &ask.payload.request.requester;
        let core = ask.core();
        let scopes = (requester.forwarded && !ask.grants.is_empty()).then(|| Scopes {
            agent: ask.asker(),
            grants: ask.grants.to_vec(),
        });
        let session = |width| {
            let meaning = if ask.grants.is_empty() {
                Meaning::NotOffered
            } else if scopes.is_none() {
                Meaning::Choose(Choice::Session {
                    scope: GrantScope::Requester,
                    width,
                    lifetime: Lifetime::SessionEnd,
                })
            } else {
                Meaning::AskScope(width)
            };
            let brief = match (proven_direction(ask.grants), width) {
                (None, _) => None,
                (Some(_), GrantWidth::Family) => Some("both, this session"),
                (Some(_), GrantWidth::Proven) => Some("this session"),
            };
            // What is told apart stands at the end of the longer one.
            let head = "Yes, for this session: reading and writing";
            QuestionOption {
                brief: brief.map(|brief| Brief::of(head, brief.to_owned())),
                ..option(session_label(ask.grants, width), meaning)
            }
        };
        // The first four mean the same under every question: a number typed by habit never turns a no into a yes.
        let mut options = vec![
            option("Yes", Meaning::Choose(Choice::Once)),
            session(GrantWidth::Proven),
            option("No", Meaning::Choose(Choice::Deny)),
            option("No, provide reason", Meaning::AskReason),
        ];
        if proven_direction(ask.grants).is_some() {
            options.push(session(GrantWidth::Family));
        }
        Self {
            step: Step::Decide,
            title: if requester.forwarded {
                "Permission Required (Subagent)"
            } else {
                "Permission Required"
            },
            core,
            evidence: dialog::evidence_rows(ask.payload),
            waiting: ask.waiting,
            options,
            scopes,
            together: Vec::new(),
            back: None,
        }
    }

    /// Another link of the chain thinks about it now, or none does any more. Where that was said, it is said anew in its place: no
    /// other row moves.
    pub fn waits_for(&mut self, link: Option<&str>) {
        let fact = dialog::waits_for(link);
        for old in self.core.iter_mut().filter(|old| old.label == fact.label) {
            old.clone_from(&fact);
        }
    }

    /// Adds the asks that are like this one, which stands first among them. They can then be answered together, once they are named.
    #[must_use]
    pub fn beside(mut self, askers: &[Asker<'_>], more: bool) -> Self {
        if askers.len() > 1 {
            self.together = vec![table::head(askers.len())];
            self.together.extend(table::rows(askers));
            self.together.extend(more.then(table::beyond));
        }
        self
    }

    /// The question about all that are alike: each is named, and what they have in common said once more.
    fn table(&self) -> Self {
        let mut core = self.core.clone();
        core.retain(|fact| !dialog::is_of_one_ask(fact));
        core.extend(self.together.iter().cloned());
        Self {
            step: Step::Together,
            title: "These asks are alike. Answer each of them, once?",
            core,
            back: Some(Box::new(self.clone())),
            ..self.without_facts()
        }
    }

    /// The question for whom a grant of this width holds.
    fn scope(&self, width: GrantWidth) -> Self {
        Self {
            step: Step::Scope,
            title: "Grant for whom?",
            options: self
                .scopes
                .iter()
                .flat_map(|scopes| scopes.options(width))
                .collect(),
            ..self.without_facts()
        }
    }

    /// The question why not.
    fn reason(&self) -> Self {
        Self {
            step: Step::Reason,
            title: "Reason for the denial (empty for none):",
            ..self.without_facts()
        }
    }

    /// Facts are said once, with the first question.
    fn without_facts(&self) -> Self {
        Self {
            step: self.step,
            title: self.title,
            core: Vec::new(),
            evidence: Vec::new(),
            waiting: 0,
            options: Vec::new(),
            scopes: None,
            together: Vec::new(),
            back: None,
        }
    }

    /// The question as text, every line ended: its facts within `budget`, or all of them, in rows of at most `columns` columns. What
    /// a terminal wraps by itself would reach the column where labels and options stand.
    pub fn text(&self, extent: Extent, columns: usize) -> String {
        let budget = match extent {
            Extent::Within(budget) => budget,
            Extent::Everything => Budget::NONE,
        };
        let fitted = fit::fit(&self.core, &self.evidence, budget, columns, Labels::Aligned);
        let mut lines = vec![self.title.to_owned()];
        lines.extend(fitted.rows.into_iter().map(|row| row.laid.text));
        if self.waiting > 0 {
            lines.push(format!("waiting: {} more", self.waiting));
        }
        let options = (1_usize..).zip(&self.options);
        lines.extend(options.map(|(number, option)| format!("  {number}) {}", option.label)));
        if fitted.elided {
            lines.push(format!("  {SHOW_EVERYTHING}) Show everything"));
        }
        if !self.together.is_empty() {
            lines.push(format!("  {TOGETHER}) {}", together_label(self.count())));
        }
        if self.step == Step::Together {
            for (word, plain) in TO_ALL {
                lines.push(format!("  {word}) {}, to each of them", plain.word()));
            }
            lines.push(format!("  {BACK}) Back to the one question"));
        }
        if self.step == Step::Decide {
            lines.push(format!(
                "  {NOT_NOW}) Not now: it waits on, behind the others"
            ));
        }
        lines.iter().flat_map(|line| [line, "\n"]).collect()
    }

    /// How many asks are alike, where they can be answered together.
    pub(super) fn count(&self) -> usize {
        let numbers = self
            .together
            .iter()
            .filter(|fact| number(&fact.label).is_some());
        numbers.count()
    }

    /// What choosing the option at `index`, from 0, leads to.
    pub fn choose(&self, index: usize) -> Answer {
        match self.options.get(index).map(|option| &option.meaning) {
            Some(Meaning::Choose(choice)) => Answer::Chosen(choice.clone()),
            Some(Meaning::AskScope(width)) => Answer::Next(self.scope(*width)),
            Some(Meaning::AskReason) => Answer::Next(self.reason()),
            Some(Meaning::NotOffered) | None => Answer::NotAChoice(NotAChoice::Unknown),
        }
    }
}

/// Reads `line`, or the end of the input where there is none, as an answer to `question`.
pub fn parse_choice(line: Option<&str>, question: &Question) -> Answer {
    let line = line.map(str::trim);
    if question.step == Step::Reason {
        // The person has said no already; only why is missing.
        return Answer::Chosen(match line {
            None | Some("") => Choice::Deny,
            Some(reason) => Choice::DenyWithReason(reason.to_owned()),
        });
    }
    let Some(line) = line else {
        return Answer::NotAChoice(NotAChoice::EndOfInput);
    };
    if line.is_empty() {
        return Answer::NotAChoice(NotAChoice::Blank);
    }
    if line == SHOW_EVERYTHING {
        return Answer::ShowEverything;
    }
    let word = unbracketed(line);
    if question.step == Step::Decide && word == NOT_NOW {
        return Answer::NotNow;
    }
    if !question.together.is_empty() && word == TOGETHER {
        return Answer::Next(question.table());
    }
    if question.step == Step::Together {
        let to_all = TO_ALL.iter().find(|(to_all, _)| *to_all == word);
        return match (to_all, &question.back) {
            (Some((_, plain)), _) => Answer::ToAll(*plain),
            (None, Some(back)) if word == BACK => Answer::Next((**back).clone()),
            (None, _) => Answer::NotAChoice(NotAChoice::Unknown),
        };
    }
    match number(line).and_then(|number| number.checked_sub(1)) {
        Some(index) => question.choose(index),
        None => Answer::NotAChoice(NotAChoice::Unknown),
    }
}

/// A line without the bracket behind the name of its option.
fn unbracketed(line: &str) -> &str {
    line.strip_suffix(')').unwrap_or(line)
}

/// The number that a line is, as an option shows it: digits without a sign or a leading zero, perhaps with its bracket.
fn number(line: &str) -> Option<usize> {
    let digits = unbracketed(line);
    let plain = digits.bytes().all(|byte| byte.is_ascii_digit()) && !digits.starts_with('0');
    plain.then(|| digits.parse().ok())?
}

fn option(label: impl Into<String>, meaning: Meaning) -> QuestionOption {
    QuestionOption {
        label: label.into(),
        brief: None,
        meaning,
    }
}

/// The label of the session option: what exactly would be granted, where the requester suggests something.
fn session_label(grants: &[ApprovalGrant], width: GrantWidth) -> String {
    let what = match (proven_direction(grants), width) {
        _ if grants.is_empty() => {
            return "(nothing is suggested to be granted for the session)".to_owned();
        }
        (None, _) => surfaces_and_target(grants, GrantWidth::Family),
        (Some(_), GrantWidth::Family) => format!("reading and writing {}", target(grants)),
        (Some(Direction::Read), GrantWidth::Proven) => format!("reading {}", target(grants)),
        (Some(Direction::Write), GrantWidth::Proven) => format!("writing {}", target(grants)),
    };
    format!("Yes, for this session: {what}")
}

impl Scopes {
    /// The options of the question of scope: for whom, for how long, and what. New ones come last, so that no number changes.
    fn options(&self, width: GrantWidth) -> Vec<QuestionOption> {
        let what = surfaces_and_target(&self.grants, width);
        let subagent = match self.agent.as_deref().filter(|name| !name.is_empty()) {
            Some(name) => {
                let name = text::clip_utf16(name, MAX_LABEL_UNITS);
                format!(
                    "This subagent only ({}), until the session ends",
                    dialog::name(&name)
                )
            }
            None => "This subagent only, until the session ends".to_owned(),
        };
        let whole = GrantScope::ServingSession;
        let for_a_while = Lifetime::For(A_WHILE);
        let a_few_times = Lifetime::Uses(A_FEW_TIMES);
        let options = [
            (GrantScope::Requester, Lifetime::SessionEnd, subagent),
            (
                whole,
                Lifetime::SessionEnd,
                "The whole session, parent and all subagents (until it ends)".to_owned(),
            ),
            (
                whole,
                for_a_while,
                format!("The whole session, {}", lifetime_words(for_a_while)),
            ),
            (
                whole,
                a_few_times,
                format!("The whole session, {}", lifetime_words(a_few_times)),
            ),
        ];
        let options = options.into_iter().map(|(scope, lifetime, label)| {
            let choice = Choice::Session {
                scope,
                width,
                lifetime,
            };
            let (head, brief) = match (scope, lifetime) {
                (GrantScope::Requester, _) => ("This subagent only", "subagent only".to_owned()),
                (_, Lifetime::SessionEnd) => {
                    ("The whole session, parent", "whole session".to_owned())
                }
                (_, Lifetime::For(time)) => {
                    (label.as_str(), format!("all, {} min", time.as_secs() / 60))
                }
                (_, Lifetime::Uses(uses)) => (label.as_str(), format!("all, {uses} times")),
            };
            QuestionOption {
                brief: Some(Brief::of(head, format!("{brief}: {what}"))),
                ..option(format!("{label}: {what}"), Meaning::Choose(choice))
            }
        });
        options.collect()
    }
}

/// A lifetime in words.
pub fn lifetime_words(lifetime: Lifetime) -> String {
    match lifetime {
        Lifetime::SessionEnd => "until it ends".to_owned(),
        Lifetime::For(time) => match time.as_secs() {
            seconds if seconds.is_multiple_of(60) => format!("for {} minutes", seconds / 60),
            seconds => format!("for {seconds} seconds"),
        },
        Lifetime::Uses(uses) => format!("{uses} times"),
    }
}

/// The surfaces that grants of this width have, and what they cover.
fn surfaces_and_target(grants: &[ApprovalGrant], width: GrantWidth) -> String {
    let mut families: Vec<&str> = grants
        .iter()
        .map(|grant| width.surface(&grant.surface))
        .collect();
    families.sort_unstable();
    families.dedup();
    let families: Vec<_> = families
        .into_iter()
        .map(|family| dialog::name(&text::clip_utf16(family, MAX_LABEL_UNITS)).into_owned())
        .collect();
    match grants {
        [grant] => format!("{} {}", families.join(", "), pattern(grant)),
        _ => format!("{}, {} patterns", families.join(", "), grants.len()),
    }
}

fn target(grants: &[ApprovalGrant]) -> String {
    match grants {
        [grant] => pattern(grant),
        _ => format!("{} paths", grants.len()),
    }
}

fn pattern(grant: &ApprovalGrant) -> String {
    text::quoted(&text::clip_utf16(&grant.pattern, MAX_LABEL_UNITS))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Requester;

    fn payload(forwarded: bool) -> PromptPayload {
        let mut payload = PromptPayload::degraded(
            Requester {
                agent_name: Some("scout".to_owned()),
                forwarded,
                session_id: Some("c-1".to_owned()),
            },
            Some("path_read".to_owned()),
            Some("/d/x".to_owned()),
            None,
        );
        payload.kind = crate::wire::PayloadKind::Path;
        payload.request.tool_name = Some("read".to_owned());
        payload
    }

    fn grant(surface: &str, pattern: &str) -> ApprovalGrant {
        ApprovalGrant {
            surface: surface.to_owned(),
            pattern: pattern.to_owned(),
        }
    }

    fn decide(payload: &PromptPayload, grants: &[ApprovalGrant]) -> Question {
        Question::decide(&Ask {
            payload,
            path: &[],
            grants,
            directory: Some("/w"),
            asked_because: None,
            with_chain: None,
            waiting: 2,
        })
    }

    fn next(answer: Answer) -> Question {
        let Answer::Next(question) = answer else {
            panic!("{answer:?}")
        };
        question
    }

    #[test]
    fn a_question_shows_facts_grants_and_numbered_options() {
        let question = decide(&payload(true), &[grant("path_read", "/d/*")]);
        insta::assert_snapshot!(question.text(Extent::Everything, 80), @r#"
        Permission Required (Subagent)
        subagent      : scout · session c-1
        tool          : read
        surface       : path_read
        path          : /d/x
        directory     : /w
        session grant : path_read "/d/*"
        waiting: 2 more
          1) Yes
          2) Yes, for this session: reading "/d/*"
          3) No
          4) No, provide reason
          5) Yes, for this session: reading and writing "/d/*"
          l) Not now: it waits on, behind the others
        "#);
        let scope = next(parse_choice(Some(" 5) "), &question));
        insta::assert_snapshot!(scope.text(Extent::Everything, 80), @r#"
        Grant for whom?
          1) This subagent only (scout), until the session ends: path "/d/*"
          2) The whole session, parent and all subagents (until it ends): path "/d/*"
          3) The whole session, for 15 minutes: path "/d/*"
          4) The whole session, 10 times: path "/d/*"
        "#);
        assert_eq!(
            parse_choice(Some("2"), &scope),
            Answer::Chosen(Choice::Session {
                scope: GrantScope::ServingSession,
                width: GrantWidth::Family,
                lifetime: Lifetime::SessionEnd,
            })
        );
    }

    /// POLICY-3: for whom, for how long and what exactly is said before it is granted.
    #[test]
    fn policy_3_a_grant_says_its_scope_its_lifetime_and_its_pattern_before_it_is_given() {
        let question = decide(&payload(true), &[grant("path_read", "/d/*")]);
        let scope = next(parse_choice(Some("2"), &question));
        let whole = GrantScope::ServingSession;
        for (line, begins, scope_of_it, lifetime) in [
            (
                "1",
                "This subagent only (scout), until the session ends",
                GrantScope::Requester,
                Lifetime::SessionEnd,
            ),
            (
                "2",
                "The whole session, parent and all subagents (until it ends)",
                whole,
                Lifetime::SessionEnd,
            ),
            (
                "3",
                "The whole session, for 15 minutes",
                whole,
                Lifetime::For(Duration::from_mins(15)),
            ),
            (
                "4",
                "The whole session, 10 times",
                whole,
                Lifetime::Uses(10),
            ),
        ] {
            let label = &scope.options[line.parse::<usize>().unwrap() - 1].label;
            assert_eq!(*label, format!("{begins}: path_read \"/d/*\""));
            let choice = Choice::Session {
                scope: scope_of_it,
                width: GrantWidth::Proven,
                lifetime,
            };
            assert_eq!(parse_choice(Some(line), &scope), Answer::Chosen(choice));
        }
        let unknown = Answer::NotAChoice(NotAChoice::Unknown);
        assert_eq!(parse_choice(Some("5"), &scope), unknown);
    }

    #[test]
    fn the_subagent_that_a_grant_is_for_is_the_one_that_asks_and_not_one_that_passed_it_on() {
        let hop = |agent: &str, session: &str| Hop {
            session_id: session.to_owned(),
            agent_name: agent.to_owned(),
        };
        let grants = [grant("path_read", "/d/*")];
        for (path, named) in [
            (vec![], "(scout)"),
            (vec![hop("leaf", "c-3"), hop("middle", "c-2")], "(leaf)"),
            (vec![hop("", "c-3")], "(c-3)"),
        ] {
            let payload = payload(true);
            let question = Question::decide(&Ask {
                payload: &payload,
                path: &path,
                grants: &grants,
                directory: None,
                asked_because: None,
                with_chain: None,
                waiting: 0,
            });
            let scope = next(parse_choice(Some("2"), &question));
            let label = &scope.options[0].label;
            assert!(label.contains(named), "{label}");
        }
    }

    #[test]
    fn what_a_budget_leaves_out_is_one_answer_away() {
        let mut ask = payload(true);
        ask.evidence = vec![crate::wire::Evidence {
            label: "input".to_owned(),
            text: "line\n".repeat(50),
            detail: None,
        }];
        let question = decide(&ask, &[]);
        let within = question.text(Extent::Within(Budget::default()), 80);
        assert!(
            !within.contains("line") && within.contains("\n…\n"),
            "{within}"
        );
        assert!(within.contains("\n  ?) Show everything\n"), "{within}");
        assert_eq!(parse_choice(Some("?"), &question), Answer::ShowEverything);
        let all = question.text(Extent::Everything, 80);
        assert_eq!(all.matches("line\n").count(), 50);
        assert!(!all.contains("?)") && !all.contains('…'), "{all}");
    }

    #[test]
    fn without_grants_there_is_nothing_to_scope() {
        let mut ask = payload(true);
        ask.request.requester.agent_name = None;
        let question = decide(&ask, &[]);
        let labels: Vec<_> = question
            .options
            .iter()
            .map(|option| option.label.as_str())
            .collect();
        // What is not offered keeps its number, so that those behind it keep theirs.
        assert_eq!(
            [labels[0], labels[2], labels[3]],
            ["Yes", "No", "No, provide reason"]
        );
        assert_eq!(
            parse_choice(Some("2"), &question),
            Answer::NotAChoice(NotAChoice::Unknown)
        );
        assert_eq!(
            parse_choice(Some("3"), &question),
            Answer::Chosen(Choice::Deny)
        );
        // A local ask has one session only.
        let question = decide(&payload(false), &[grant("bash", "git *")]);
        assert_eq!(question.title, "Permission Required");
        let session = Choice::Session {
            scope: GrantScope::Requester,
            width: GrantWidth::Proven,
            lifetime: Lifetime::SessionEnd,
        };
        assert_eq!(parse_choice(Some("2"), &question), Answer::Chosen(session));
    }

    #[test]
    fn labels_say_what_is_granted() {
        for (grants, label) in [
            (
                vec![grant("bash", "git *")],
                "Yes, for this session: bash \"git *\"",
            ),
            (
                vec![grant("bash", "a"), grant("external_directory_read", "b")],
                "Yes, for this session: bash, external_directory, 2 patterns",
            ),
            (
                vec![grant("path_write", "a"), grant("write", "b")],
                "Yes, for this session: writing 2 paths",
            ),
            (
                vec![grant("bash", "a\"\n2) No")],
                "Yes, for this session: bash \"a<U+0022><LF>2) No\"",
            ),
        ] {
            let question = decide(&payload(true), &grants);
            assert_eq!(question.options[1].label, label);
            let listed = question
                .core
                .iter()
                .filter(|fact| fact.label == "session grant");
            assert_eq!(listed.count(), grants.len());
        }
    }

    #[test]
    fn what_is_no_number_of_an_option_decides_nothing() {
        let question = decide(&payload(true), &[grant("bash", "git *")]);
        let scope = next(parse_choice(Some("2"), &question));
        for question in [&question, &scope] {
            for (line, why) in [
                (None, NotAChoice::EndOfInput),
                (Some(""), NotAChoice::Blank),
                (Some(" \t\r\n"), NotAChoice::Blank),
            ] {
                assert_eq!(parse_choice(line, question), Answer::NotAChoice(why));
            }
            for line in [
                "y",
                "yes",
                "Yes",
                "0",
                "01",
                "+1",
                "-1",
                "1 2",
                "1.",
                "6",
                "1))",
                ")",
                "１",
                "99999999999999999999",
            ] {
                let answer = parse_choice(Some(line), question);
                assert_eq!(answer, Answer::NotAChoice(NotAChoice::Unknown), "{line}");
            }
        }
    }

    #[test]
    fn not_now_is_a_letter_and_an_answer_to_the_first_question_only() {
        let question = decide(&payload(true), &[grant("bash", "git *")]);
        for line in ["l", " l) "] {
            assert_eq!(parse_choice(Some(line), &question), Answer::NotNow);
        }
        let unknown = Answer::NotAChoice(NotAChoice::Unknown);
        for line in ["L", "ll", "later", "l))"] {
            assert_eq!(parse_choice(Some(line), &question), unknown, "{line}");
        }
        let scope = next(parse_choice(Some("2"), &question));
        assert_eq!(parse_choice(Some("l"), &scope), unknown);
        let reason = next(parse_choice(Some("4"), &question));
        let denied = Choice::DenyWithReason("l".to_owned());
        assert_eq!(parse_choice(Some("l"), &reason), Answer::Chosen(denied));
    }

    #[test]
    fn a_no_stands_with_or_without_its_reason() {
        let question = decide(&payload(true), &[]);
        assert_eq!(
            parse_choice(Some("3"), &question),
            Answer::Chosen(Choice::Deny)
        );
        let reason = next(parse_choice(Some("4"), &question));
        assert_eq!(
            reason.text(Extent::Everything, 80),
            "Reason for the denial (empty for none):\n"
        );
        assert_eq!(
            parse_choice(Some(" "), &reason),
            Answer::Chosen(Choice::Deny)
        );
        assert_eq!(parse_choice(None, &reason), Answer::Chosen(Choice::Deny));
        assert_eq!(
            parse_choice(Some("1\n"), &reason),
            Answer::Chosen(Choice::DenyWithReason("1".to_owned()))
        );
    }

    #[test]
    fn a_choice_is_credited_to_the_person() {
        let via = UserSurface::Select;
        let session = |scope| Choice::Session {
            scope,
            width: GrantWidth::Family,
            lifetime: Lifetime::SessionEnd,
        };
        for (choice, state, reason, width) in [
            (
                Choice::Once,
                DecisionState::Approved,
                None,
                GrantWidth::Proven,
            ),
            (
                session(GrantScope::Requester),
                DecisionState::ApprovedForSession,
                None,
                GrantWidth::Family,
            ),
            (
                session(GrantScope::ServingSession),
                DecisionState::ApprovedForServingSession,
                None,
                GrantWidth::Family,
            ),
            (
                Choice::Deny,
                DecisionState::Denied,
                None,
                GrantWidth::Proven,
            ),
            (
                Choice::DenyWithReason("no".to_owned()),
                DecisionState::DeniedWithReason,
                Some("no"),
                GrantWidth::Proven,
            ),
        ] {
            let decision = choice.decision(via);
            assert_eq!(decision.state, state);
            assert_eq!(decision.denial_reason.as_deref(), reason);
            assert_eq!(decision.width, width);
            assert_eq!(decision.decided_by, DecisionSource::User { via });
        }
    }
}

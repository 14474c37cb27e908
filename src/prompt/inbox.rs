//! The inbox on a screen: a list of what waits, and the review of one ask. What is on the screen, and what a key does to it.
//!
//! ```text
//! list ── Enter ─▶ review ── Ctrl+A, Esc ─▶ decided, back to the list
//!   ▲                 │ ▲
//!   └──── q, Tab ─────┘ └── t, Esc ──▶ table of asks that are alike ── Ctrl+A twice, d twice ─▶ all decided, back to the list
//! ```
//!
//! With q a review is left undecided, with Tab it stays open behind the list. Nothing opens by itself, and nothing follows a decision. From the list an ask is denied unopened, with `d` pressed twice. What
//! counts as a key that is meant is the [`Guard`]'s to say; keys that only look around always do what they say.
//!
//! Invariants:
//!
//! * What is decided is bound to the digest of the ask that is open, or of the one in the list.
//! * Enter, a paste and a burst of keys decide nothing.
//! * Nothing is approved before all of its core facts have been on the screen, nor on a screen that shows nothing.
//! * An ask that goes away leaves the screen, and a line says why.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "of all keys that there are, most mean nothing here"
)]

mod list_view;
mod view;

#[cfg(test)]
mod tests;

use std::time::Duration;

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::layout::Size;
use ratatui::text::Line;

use super::app::Presses;
use super::countdown::Countdown;
use super::keys::{Guard, Meant};
use super::paint::Frame;
use super::reader::Reader;
use super::said;
use super::table::{AnswerKey, Done, Table, TableKeys};
use super::terminal::{Act, App, Input, News};
use super::{Answerer, PersonEvent};
use crate::clock::Moment;
use crate::presentation::review::Review;
use crate::presentation::select::{Choice, Plain};
use crate::presentation::text;
use crate::serve::{Alike, ListedAsk, ListedState, Listing, Shown};
use crate::wire::{Digest, RequestId, UserSurface};

/// How often ages are shown anew while something waits.
const TICK: Duration = Duration::from_secs(1);

/// Longest message that another one is added to, in bytes: about what there is room for.
const MOST_UNREAD: usize = 240;

/// How the inbox is set up.
#[derive(Debug, Clone)]
pub struct InboxSettings {
    /// The session that is served, visible.
    pub session: String,
    /// What the wall clock said at the start of the monotonic one, in epoch milliseconds: times of day are shown.
    pub clock_start_ms: i64,
}

/// The inbox.
#[derive(Debug)]
pub(super) struct Inbox {
    settings: InboxSettings,
    listing: Listing,
    /// The ask that keys in the list are about.
    selected: Option<RequestId>,
    /// What `d` was pressed for once.
    armed: Option<(RequestId, Digest)>,
    /// The ask whose review was asked for.
    opening: Option<RequestId>,
    open: Option<Open>,
    screen: Screen,
    /// What happened last, until the next key.
    message: Option<String>,
    /// First ask of the list that is shown.
    first: usize,
    guard: Guard,
    /// When ages are shown anew.
    tick: Option<Moment>,
}

/// What the screen shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Screen {
    List,
    Review,
}

/// The ask whose review is open.
#[derive(Debug)]
struct Open {
    id: RequestId,
    digest: Digest,
    /// What is asked, in short.
    summary: String,
    /// Who asks, visible.
    agent: String,
    /// How long it still waits, where it said so.
    countdown: Option<Countdown>,
    reader: Reader,
    /// What a table is made of.
    shown: Box<Shown>,
    /// Those in line that are like it.
    alike: Alike,
    /// The table of them, while it is open.
    table: Option<Table>,
}

impl Open {
    fn new(shown: Shown, now: Moment) -> Self {
        let payload = shown.payload();
        let review = Review::new(&super::ask(&shown, &payload));
        Self {
            summary: said::summary(&payload.request.surface, &payload.request.value),
            agent: list_view::name(shown.request.agent_name().unwrap_or_default()),
            id: shown.request.id.clone(),
            digest: shown.digest,
            countdown: shown.time_left.map(|left| Countdown::new(now, left)),
            reader: Reader::new(review),
            alike: shown.alike.clone(),
            shown: Box::new(shown),
            table: None,
        }
    }
}

/// The keys of a table that is opened from a review: those that answer there and in the list, pressed twice.
const TABLE_KEYS: TableKeys = TableKeys {
    yes: AnswerKey {
        letter: 'a',
        control: true,
    },
    no: AnswerKey {
        letter: 'd',
        control: false,
    },
    presses: Presses::Two,
};

impl Inbox {
    /// An inbox that has been told of nothing yet.
    pub(super) fn new(settings: InboxSettings) -> Self {
        Self {
            settings,
            listing: Listing::default(),
            selected: None,
            armed: None,
            opening: None,
            open: None,
            screen: Screen::List,
            message: None,
            first: 0,
            guard: Guard::default(),
            tick: None,
        }
    }

    /// Shows another screen. Keys that were meant for the one before do not count on it.
    fn turn_to(&mut self, screen: Screen) {
        self.screen = screen;
        self.armed = None;
        self.guard.raise();
    }

    fn key(&mut self, key: KeyEvent, now: Moment) -> Vec<Act> {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        if control && key.code == KeyCode::Char('c') {
            return vec![Act::Tell(PersonEvent::Leave)];
        }
        if let (Screen::Review, Some(open)) = (self.screen, &mut self.open)
            && open.reader.is_searching()
        {
            if open.reader.search_key(key) {
                // The key that has ended the search is not to be followed by one that decides.
                self.guard.disturbed(now);
            } else {
                self.guard.typed(now);
            }
            return Vec::new();
        }
        let meant = self.guard.take(now) == Meant::Yes;
        let armed = self.armed.take().filter(|_| meant);
        // What was typed before the person can have read it takes no word away.
        if meant {
            self.message = None;
        }
        if key.modifiers.contains(KeyModifiers::ALT) {
            return Vec::new();
        }
        match self.screen {
            Screen::List if control => Vec::new(),
            Screen::List => self.key_in_list(key.code, meant, armed.as_ref()),
            Screen::Review if self.has_table() => self.key_at_table(key, meant),
            Screen::Review => self.key_in_review(key, meant),
        }
    }

    /// Whether the table of asks that are alike is open over the review.
    fn has_table(&self) -> bool {
        self.open.as_ref().is_some_and(|open| open.table.is_some())
    }

    fn key_at_table(&mut self, key: KeyEvent, meant: bool) -> Vec<Act> {
        let table = self.open.as_mut().and_then(|open| open.table.as_mut());
        match table.map_or(Done::Stays, |table| table.key(key, meant)) {
            Done::Stays => Vec::new(),
            Done::Back => {
                if let Some(open) = &mut self.open {
                    open.table = None;
                }
                self.turn_to(Screen::Review);
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
        self.turn_to(Screen::List);
        let word = decided_word(&verdict.into());
        self.message = Some(format!("{word} {} asks: {summary}", table.count()));
        vec![Act::Tell(table.answered(verdict))]
    }

    fn key_in_list(
        &mut self,
        code: KeyCode,
        meant: bool,
        armed: Option<&(RequestId, Digest)>,
    ) -> Vec<Act> {
        let last = self.listing.asks.len().saturating_sub(1);
        match code {
            KeyCode::Up | KeyCode::Char('k') => self.select(self.place().saturating_sub(1)),
            KeyCode::Down | KeyCode::Char('j') => self.select((self.place() + 1).min(last)),
            KeyCode::Home | KeyCode::Char('g') => self.select(0),
            KeyCode::End | KeyCode::Char('G') => self.select(last),
            KeyCode::Tab if self.open.is_some() => self.turn_to(Screen::Review),
            KeyCode::Enter if meant => return self.review(),
            KeyCode::Char('d') if meant => return self.deny(armed),
            _ => {}
        }
        Vec::new()
    }

    /// Where in the list the selected ask stands.
    fn place(&self) -> usize {
        let mut asks = self.listing.asks.iter();
        asks.position(|ask| Some(&ask.id) == self.selected.as_ref())
            .unwrap_or_default()
    }

    fn select(&mut self, place: usize) {
        self.selected = self.listing.asks.get(place).map(|ask| ask.id.clone());
    }

    fn selected(&self) -> Option<&ListedAsk> {
        self.listing.asks.get(self.place())
    }

    /// Asks for the review of the selected ask, or goes back to the one that is open.
    fn review(&mut self) -> Vec<Act> {
        let Some(ask) = self.selected() else {
            return Vec::new();
        };
        if let Some(open) = &self.open {
            if open.id == ask.id {
                self.turn_to(Screen::Review);
            } else {
                self.message = Some("another review is open: Tab goes back to it".to_owned());
            }
            return Vec::new();
        }
        if self.opening.is_some() || ask.state == ListedState::Answering {
            return Vec::new();
        }
        let id = ask.id.clone();
        self.opening = Some(id.clone());
        vec![Act::Tell(PersonEvent::Review(id))]
    }

    /// Denies the selected ask, where that was wanted of the same one before.
    fn deny(&mut self, armed: Option<&(RequestId, Digest)>) -> Vec<Act> {
        let Some(ask) = self
            .selected()
            .filter(|ask| ask.state != ListedState::Answering)
        else {
            return Vec::new();
        };
        let wanted = (ask.id.clone(), ask.digest);
        if armed != Some(&wanted) {
            self.armed = Some(wanted);
            return Vec::new();
        }
        let (id, digest) = wanted;
        // Its review, if it is open, has nothing more to decide.
        self.open.take_if(|open| open.id == id);
        self.message = Some(format!("denying {}", text::visible(id.as_str())));
        vec![Act::Tell(PersonEvent::Denied {
            id,
            digest,
            by: Answerer::Person(UserSurface::Dialog),
        })]
    }

    fn key_in_review(&mut self, key: KeyEvent, meant: bool) -> Vec<Act> {
        let Some(open) = &mut self.open else {
            return Vec::new();
        };
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            let reader = &open.reader;
            let approves = key.code == KeyCode::Char('a') && meant && reader.has_shown_core();
            return if approves && reader.is_visible() {
                self.decide(Choice::Once)
            } else {
                Vec::new()
            };
        }
        match key.code {
            KeyCode::Esc if meant => self.decide(Choice::Deny),
            KeyCode::Char('q') | KeyCode::Backspace => {
                let id = open.id.clone();
                self.message = Some(said::put_off(&open.summary));
                self.open = None;
                self.turn_to(Screen::List);
                vec![Act::Tell(PersonEvent::Close(id))]
            }
            KeyCode::Tab => {
                self.turn_to(Screen::List);
                Vec::new()
            }
            KeyCode::Char('t') => {
                open.table = Table::new(&open.shown, &open.alike, TABLE_KEYS);
                if open.table.is_some() {
                    self.turn_to(Screen::Review);
                }
                Vec::new()
            }
            _ => {
                open.reader.look_around(key);
                Vec::new()
            }
        }
    }

    /// Decides the ask that is open.
    fn decide(&mut self, choice: Choice) -> Vec<Act> {
        let Some(open) = self.open.take() else {
            return Vec::new();
        };
        let word = decided_word(&choice);
        self.turn_to(Screen::List);
        self.message = Some(format!("{word} {}", open.summary));
        vec![Act::Tell(PersonEvent::Chosen {
            id: open.id,
            digest: open.digest,
            choice,
            by: Answerer::Person(UserSurface::Dialog),
        })]
    }

    fn show(&mut self, shown: Shown, now: Moment) {
        self.opening = None;
        self.selected = Some(shown.request.id.clone());
        self.message = None;
        self.open = Some(Open::new(shown, now));
        self.turn_to(Screen::Review);
    }

    fn withdraw(&mut self, id: &RequestId, why: &str) {
        if let Some(open) = self.open.take_if(|open| open.id == *id) {
            self.turn_to(Screen::List);
            self.say(said::closed(&open.summary, why));
        } else if self.opening.take_if(|opening| opening == id).is_some() {
            let (id, why) = (text::visible(id.as_str()), text::visible(why));
            self.say(format!("{id} does not open: {why}"));
        }
    }

    /// Says something that came by itself, beside what stands there unread.
    fn say(&mut self, words: String) {
        self.message = Some(match self.message.take() {
            Some(unread) if unread.len() + words.len() < MOST_UNREAD => {
                format!("{unread} · {words}")
            }
            Some(_) | None => words,
        });
    }

    /// The list has changed. The selected ask stays so as long as it is there; where another one takes its place, keys that were
    /// meant for it do not count.
    fn list(&mut self, listing: Listing) {
        let place = self.place();
        self.listing = listing;
        // A review that the session has no mind to open is not waited for.
        let is_open = |ask: &ListedAsk| ask.state == ListedState::Open;
        self.opening = self.listing.asks.iter().find_map(|ask| {
            let opening = self.opening.take_if(|id| *id == ask.id);
            opening.filter(|_| is_open(ask))
        });
        let stays = |id: &RequestId| self.listing.asks.iter().any(|ask| ask.id == *id);
        if !self.selected.as_ref().is_some_and(stays) {
            self.select(place.min(self.listing.asks.len().saturating_sub(1)));
            self.armed = None;
            if self.screen == Screen::List {
                self.guard.raise();
            }
        }
    }
}

fn decided_word(choice: &Choice) -> &'static str {
    if *choice == Choice::Once {
        "approved"
    } else {
        "denied"
    }
}

impl App for Inbox {
    fn news(&mut self, news: News, now: Moment) -> Vec<Act> {
        match news {
            News::Show(shown) => self.show(*shown, now),
            News::Alike { id, alike } => {
                if let Some(open) = self.open.as_mut().filter(|open| open.id == id) {
                    open.alike = *alike;
                }
            }
            News::Thinking { id, link } => {
                if let Some(open) = self.open.as_mut().filter(|open| open.id == id) {
                    open.reader.waits_for(link.as_deref());
                    open.shown.with_chain = link;
                }
            }
            News::Withdraw { id, why } => self.withdraw(&id, &why),
            News::List(listing) => self.list(*listing),
            News::Notice(line) => {
                self.say(line.clone());
                return vec![Act::Print(Line::from(line))];
            }
            News::Waiting(_) => {}
        }
        Vec::new()
    }

    fn input(&mut self, input: Input, now: Moment) -> Vec<Act> {
        match input {
            Input::Key(key) => return self.key(key, now),
            Input::Paste(pasted) => {
                if let (Screen::Review, Some(open)) = (self.screen, &mut self.open) {
                    open.reader.paste(&pasted);
                }
            }
            Input::Focus => {}
        }
        self.armed = None;
        if let Some(table) = self.open.as_mut().and_then(|open| open.table.as_mut()) {
            table.disarm();
        }
        self.guard.disturbed(now);
        Vec::new()
    }

    fn due(&self) -> Option<Moment> {
        let guard = self.guard.falls_at();
        [guard, self.tick].into_iter().flatten().min()
    }

    fn draw(&mut self, size: Size, now: Moment) -> Frame {
        let shows = size.width > 0 && size.height > 0;
        let appears = |open: &Open| {
            let table = open.table.as_ref();
            let is_visible = table.map_or_else(|| open.reader.is_visible(), Table::is_visible);
            shows && !is_visible
        };
        if self.screen == Screen::Review && self.open.as_ref().is_some_and(appears) {
            // Keys that are on their way were pressed on a screen that showed nothing.
            self.guard.raise();
        }
        view::draw(self, size, now)
    }

    fn drawn(&mut self, now: Moment) {
        self.guard.drawn(now);
        let ages = self.screen == Screen::List && !self.listing.asks.is_empty();
        self.tick = match (self.screen, &self.open) {
            (Screen::Review, Some(open)) => open
                .countdown
                .and_then(|countdown| countdown.changes_at(now)),
            (Screen::List | Screen::Review, _) => ages.then(|| now.next_multiple(TICK)),
        };
        if let (Screen::Review, Some(open)) = (self.screen, &mut self.open) {
            match &mut open.table {
                Some(table) => table.drawn(),
                None => open.reader.drawn(),
            }
        }
    }
}

//! The terminal of a person: raw mode and its end, keys in, frames out, on a thread of its own.
//!
//! What is on the screen and what a key means is for an [`App`], which is pure; this module hands it keys, news and the time, and
//! paints what it draws. A terminal that is slow or gone holds up nothing but this thread.
//!
//! Invariants: the terminal gets its modes back at every end that a process can notice: an orderly end, a signal that ends the
//! session, a panic of any thread. A terminal that hangs up is the person gone, never an answer. Nothing is read before raw mode is
//! on, and what was typed before that is thrown away.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use ratatui::crossterm::Command;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::event::{
    self, DisableBracketedPaste, DisableFocusChange, EnableBracketedPaste, EnableFocusChange,
    KeyEvent, KeyEventKind,
};
use ratatui::crossterm::style::ResetColor;
use ratatui::crossterm::terminal::{
    EndSynchronizedUpdate, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::layout::Size;
use ratatui::text::Line;
use rustix::event::{PollFd, PollFlags};
use rustix::termios::{Action, OptionalActions, QueueSelector};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::app::{Dialog, DialogSettings};
use super::inbox::{Inbox, InboxSettings};
use super::paint::{Colours, Frame, Painter};
use super::{PersonEvent, PersonEvents, Prompter};
use crate::clock::{self, Moment};
use crate::process;
use crate::serve::{Alike, InLine, Listing, Shown};
use crate::wire::{Digest, RequestId};

/// How long the end waits for the thread to take its frame away.
const FAREWELL: Duration = Duration::from_millis(300);

/// What the serving session says to the screen.
#[derive(Debug)]
pub(super) enum News {
    /// Show this ask.
    Show(Box<Shown>),
    /// These are like the ask that is shown.
    Alike {
        /// The one that is shown.
        id: RequestId,
        /// Those in line that are like it.
        alike: Box<Alike>,
    },
    /// This link of the chain thinks about the ask that is shown, or none does any more.
    Thinking {
        /// The one that is shown.
        id: RequestId,
        /// The link.
        link: Option<String>,
    },
    /// Take that ask away.
    Withdraw {
        /// Which.
        id: RequestId,
        /// Why it went.
        why: String,
    },
    /// Something that needs no answer.
    Notice(String),
    /// So many asks wait behind the one that is shown.
    Waiting(InLine),
    /// This is in the inbox.
    List(Box<Listing>),
}

/// What the person does.
#[derive(Debug)]
pub(super) enum Input {
    /// A key was pressed.
    Key(KeyEvent),
    /// Text was pasted.
    Paste(String),
    /// The person has come to this window, or has left it.
    Focus,
}

/// What an app wants done.
#[derive(Debug)]
pub(super) enum Act {
    /// Tell the serving session.
    Tell(PersonEvent),
    /// Leave a line in the scrollback.
    Print(Line<'static>),
}

/// What is on the screen, as a pure step: no terminal, no clock.
pub(super) trait App: Send + 'static {
    /// Takes what the serving session says.
    fn news(&mut self, news: News, now: Moment) -> Vec<Act>;
    /// Takes what the person does.
    fn input(&mut self, input: Input, now: Moment) -> Vec<Act>;
    /// When something changes although nothing happens.
    fn due(&self) -> Option<Moment>;
    /// Draws what is to be seen now on a screen of this size.
    fn draw(&mut self, size: Size, now: Moment) -> Frame;
    /// What was drawn last is on the screen.
    fn drawn(&mut self, now: Moment);
}

/// The person cannot be reached through this terminal.
#[derive(Debug, thiserror::Error)]
pub enum TerminalError {
    /// Its modes cannot be set.
    #[error("cannot put the terminal into raw mode")]
    RawMode(#[source] io::Error),
    /// The thread cannot be started.
    #[error("cannot start the thread of the terminal")]
    Thread(#[source] io::Error),
}

/// A prompter on a terminal: stdin and stdout are one.
#[derive(Debug)]
pub struct TerminalPrompter {
    news: Option<UnboundedSender<News>>,
    ended: Receiver<()>,
}

impl TerminalPrompter {
    /// Takes the terminal for the dialog: one ask at a time, below the scrollback.
    pub fn dialog(
        settings: DialogSettings,
        colours: Colours,
        events: PersonEvents,
    ) -> Result<Self, TerminalError> {
        Self::start(Box::new(Dialog::new(settings)), colours, events)
    }

    /// Takes the terminal for the inbox: a list on the whole screen, and the review of one ask.
    pub fn inbox(
        settings: InboxSettings,
        colours: Colours,
        events: PersonEvents,
    ) -> Result<Self, TerminalError> {
        Self::start(Box::new(Inbox::new(settings)), colours, events)
    }

    /// Takes the terminal and shows `app` on it.
    fn start(
        app: Box<dyn App>,
        colours: Colours,
        events: PersonEvents,
    ) -> Result<Self, TerminalError> {
        restore_on_panic();
        enable_raw_mode().map_err(TerminalError::RawMode)?;
        TAKEN.store(true, Ordering::SeqCst);
        let (news, told) = unbounded_channel();
        let (end, ended) = channel();
        let started = std::thread::Builder::new()
            .name("terminal".to_owned())
            .spawn(move || run(app, colours, &events, told, &end));
        if let Err(error) = started {
            restore();
            return Err(TerminalError::Thread(error));
        }
        Ok(Self {
            news: Some(news),
            ended,
        })
    }

    fn tell(&self, news: News) {
        if let Some(sender) = &self.news {
            // The thread ends only with the terminal, and says so itself.
            let _sent = sender.send(news);
        }
    }
}

impl Prompter for TerminalPrompter {
    fn show(&mut self, shown: Shown) {
        self.tell(News::Show(Box::new(shown)));
    }

    fn alike(&mut self, id: &RequestId, alike: Alike) {
        self.tell(News::Alike {
            id: id.clone(),
            alike: Box::new(alike),
        });
    }

    fn thinking(&mut self, id: &RequestId, link: Option<&str>) {
        self.tell(News::Thinking {
            id: id.clone(),
            link: link.map(str::to_owned),
        });
    }

    fn withdraw(&mut self, id: &RequestId, why: &str) {
        self.tell(News::Withdraw {
            id: id.clone(),
            why: why.to_owned(),
        });
    }

    fn notice(&mut self, text: &str) {
        self.tell(News::Notice(text.to_owned()));
    }

    fn waiting(&mut self, in_line: InLine) {
        self.tell(News::Waiting(in_line));
    }

    fn list(&mut self, listing: Listing) {
        self.tell(News::List(Box::new(listing)));
    }
}

impl Drop for TerminalPrompter {
    fn drop(&mut self) {
        // The thread takes its frame away when nobody can tell it anything any more.
        self.news = None;
        let _ended = self.ended.recv_timeout(FAREWELL);
        restore();
    }
}

/// Whether this process has changed the modes of its terminal.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// Whether the whole screen is taken.
static FULL: AtomicBool = AtomicBool::new(false);

fn restore_on_panic() {
    static HOOKED: Once = Once::new();
    HOOKED.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            // What is caught ends nothing: the screen goes on, and the log says what happened.
            if process::is_catching() {
                return;
            }
            restore();
            before(panic);
        }));
    });
}

/// Gives the terminal its modes back, once.
fn restore() {
    if !TAKEN.swap(false, Ordering::SeqCst) {
        return;
    }
    let stdout = rustix::stdio::stdout();
    // Output that was stopped (Ctrl-S) would keep us here.
    let _resumed = rustix::termios::tcflow(stdout, Action::OOn);
    let mut text = String::new();
    // Whoever leaves it without having been there gets the cursor of some time ago.
    if FULL.swap(false, Ordering::SeqCst) {
        modes(&mut text, LeaveAlternateScreen);
    }
    modes(&mut text, EndSynchronizedUpdate);
    modes(&mut text, DisableBracketedPaste);
    modes(&mut text, DisableFocusChange);
    modes(&mut text, ResetColor);
    modes(&mut text, Show);
    let _written = write_all(text.as_bytes());
    let _restored = disable_raw_mode();
}

fn modes(text: &mut String, command: impl Command) {
    // Writing to a string cannot fail.
    let _written = command.write_ansi(text);
}

/// Writes to the terminal past the standard library's lock, which a thread may hold that never comes back.
fn write_all(mut bytes: &[u8]) -> io::Result<()> {
    let stdout = rustix::stdio::stdout();
    while !bytes.is_empty() {
        match rustix::io::write(stdout, bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => bytes = bytes.get(written..).unwrap_or_default(),
            Err(rustix::io::Errno::INTR) => {}
            Err(rustix::io::Errno::AGAIN) => {
                let mut out = [PollFd::new(&stdout, PollFlags::OUT)];
                let _ready = rustix::event::poll(&mut out, None);
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn run(
    app: Box<dyn App>,
    colours: Colours,
    events: &PersonEvents,
    news: UnboundedReceiver<News>,
    end: &Sender<()>,
) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let played = match runtime {
        Ok(runtime) => runtime.block_on(Player::new(app, colours, events.clone()).play(news)),
        Err(error) => Err(error),
    };
    if played.is_err() {
        // Whatever became of the terminal, nobody answers through it any more.
        let _sent = events.send(PersonEvent::Gone);
    }
    let _told = end.send(());
}

/// How the terminal was left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Left {
    /// The session ends.
    Told,
    /// The terminal is gone.
    HungUp,
}

/// Plays an app on the terminal.
struct Player {
    app: Box<dyn App>,
    painter: Painter,
    events: PersonEvents,
    stale: bool,
    /// The ask that the app was told to show last, for as long as it was not told otherwise.
    shown: Option<(RequestId, Digest)>,
}

impl Player {
    fn new(app: Box<dyn App>, colours: Colours, events: PersonEvents) -> Self {
        Self {
            app,
            painter: Painter::new(colours),
            events,
            stale: true,
            shown: None,
        }
    }

    /// Has the app do something. A fault of it that comes while an ask is shown is that ask's: it is taken off the screen and
    /// answered, and the others are still asked: `None`. Any other fault ends this thread.
    fn app<T>(&mut self, does: impl FnOnce(&mut dyn App) -> T) -> Option<T> {
        let Some((id, digest)) = self.shown.clone() else {
            return Some(does(self.app.as_mut()));
        };
        let app = &mut self.app;
        let done = process::caught(|| {
            #[cfg(debug_assertions)]
            crate::spool::fault::strike("drawn", id.as_str());
            does(app.as_mut())
        });
        let cause = match done {
            Ok(done) => return Some(done),
            Err(cause) => cause,
        };
        self.shown = None;
        self.stale = true;
        let taken = News::Withdraw {
            id: id.clone(),
            why: "it cannot be shown".to_owned(),
        };
        let _lines = self.app.news(taken, clock::now());
        // The session may have ended meanwhile; then nobody needs to know.
        let _sent = self
            .events
            .send(PersonEvent::Unshowable { id, digest, cause });
        None
    }

    async fn play(mut self, mut news: UnboundedReceiver<News>) -> io::Result<()> {
        let mut resized = signal(SignalKind::window_change())?;
        let mut continued = signal(SignalKind::from_raw(CONTINUED))?;
        let stdin = rustix::stdio::stdin();
        rustix::termios::tcflush(stdin, QueueSelector::IFlush)?;
        let mut text = String::new();
        modes(&mut text, EnableBracketedPaste);
        modes(&mut text, EnableFocusChange);
        write_all(text.as_bytes())?;
        #[expect(
            deprecated,
            reason = "its successor needs unsafe code, for descriptors that are closed; nobody closes stdin"
        )]
        let keys = AsyncFd::with_interest(stdin, Interest::READABLE)?;
        let left = self
            .until_left(&mut news, &keys, &mut resized, &mut continued)
            .await?;
        if left == Left::HungUp {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.painter.clear(size());
        FULL.store(false, Ordering::SeqCst);
        write_all(&self.painter.take())
    }

    async fn until_left(
        &mut self,
        news: &mut UnboundedReceiver<News>,
        keys: &AsyncFd<BorrowedFd<'static>>,
        resized: &mut Signal,
        continued: &mut Signal,
    ) -> io::Result<Left> {
        loop {
            if self.stale {
                self.show()?;
            }
            let due = self.app.due();
            let due_at = clock::instant(due.unwrap_or_default());
            tokio::select! {
                biased;
                told = news.recv() => {
                    let Some(told) = told else { return Ok(Left::Told) };
                    let acts = self.hear(told);
                    self.perform(acts)?;
                }
                ready = keys.readable() => {
                    if has_hung_up() {
                        return Ok(Left::HungUp);
                    }
                    ready?.clear_ready();
                    self.read_keys()?;
                }
                _ = resized.recv() => {
                    // The reader of keys takes note of it too. Left to the next key, that note would come instead of the key.
                    self.read_keys()?;
                    self.stale = true;
                }
                _ = continued.recv() => {
                    // The shell may have set its own modes meanwhile, and written over the frame.
                    enable_raw_mode()?;
                    self.painter.forget();
                    self.stale = true;
                }
                () = tokio::time::sleep_until(due_at.into()), if due.is_some() => self.stale = true,
            }
        }
    }

    fn hear(&mut self, told: News) -> Vec<Act> {
        match &told {
            News::Show(shown) => self.shown = Some((shown.request.id.clone(), shown.digest)),
            News::Withdraw { id, .. } => drop(self.shown.take_if(|(shown, _)| shown == id)),
            News::Alike { .. }
            | News::Thinking { .. }
            | News::Notice(_)
            | News::Waiting(_)
            | News::List(_) => {}
        }
        self.app(|app| app.news(told, clock::now()))
            .unwrap_or_default()
    }

    fn read_keys(&mut self) -> io::Result<()> {
        while event::poll(Duration::ZERO)? {
            let input = match event::read()? {
                event::Event::Key(key) if key.kind == KeyEventKind::Press => Input::Key(key),
                event::Event::Paste(text) => Input::Paste(text),
                event::Event::FocusGained | event::Event::FocusLost => Input::Focus,
                event::Event::Resize(..) => {
                    self.stale = true;
                    announce_input();
                    continue;
                }
                event::Event::Key(_) | event::Event::Mouse(_) => continue,
            };
            let acts = self.app(|app| app.input(input, clock::now()));
            self.perform(acts.unwrap_or_default())?;
        }
        Ok(())
    }

    fn perform(&mut self, acts: Vec<Act>) -> io::Result<()> {
        self.stale = true;
        let mut lines = Vec::new();
        for act in acts {
            match act {
                // The session may have ended meanwhile; then nobody needs to know.
                Act::Tell(event) => drop(self.events.send(event)),
                Act::Print(line) => lines.push(line),
            }
        }
        if !lines.is_empty() {
            self.painter.print(lines, size());
            write_all(&self.painter.take())?;
        }
        Ok(())
    }

    fn show(&mut self) -> io::Result<()> {
        let size = size();
        let Some(frame) = self.app(|app| app.draw(size, clock::now())) else {
            // It is drawn again, without what cannot be.
            return Ok(());
        };
        self.painter.paint(&frame, size);
        FULL.store(self.painter.is_full(), Ordering::SeqCst);
        write_all(&self.painter.take())?;
        self.stale = false;
        self.app.drawn(clock::now());
        Ok(())
    }
}

/// SIGCONT, which has no name in the runtime.
const CONTINUED: i32 = rustix::process::Signal::CONT.as_raw();

/// The size of the screen; zero where it cannot be told.
fn size() -> Size {
    rustix::termios::tcgetwinsize(rustix::stdio::stdout())
        .map_or(Size::ZERO, |size| Size::new(size.ws_col, size.ws_row))
}

/// Has the system say once more that there is input. A reader that is told only of what is new forgets keys that came together with
/// a change of size until another key comes, and the two of them would then look like a burst.
fn announce_input() {
    let stdin = rustix::stdio::stdin();
    // Setting the modes that it has wakes everybody who waits for input, and changes nothing.
    if let Ok(modes) = rustix::termios::tcgetattr(stdin) {
        let _set = rustix::termios::tcsetattr(stdin, OptionalActions::Now, &modes);
    }
}

/// Whether the terminal is gone. Reading from it would then find the end again and again.
fn has_hung_up() -> bool {
    let stdin = rustix::stdio::stdin();
    let mut input = [PollFd::new(&stdin, PollFlags::IN)];
    match rustix::event::poll(&mut input, Some(&rustix::event::Timespec::default())) {
        Ok(_) => input.iter().any(|input| {
            input
                .revents()
                .intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL)
        }),
        Err(_) => false,
    }
}

//! Numbered questions on one stream, answers from another: the prompt where there is no screen.
//!
//! A line of input is read only after a question was written, and counts for that question alone: if the question was taken
//! away while the line was typed, the line decides nothing. On a terminal, what was typed before a question appeared is
//! thrown away, and so is a line that ends within a moment of it: nobody can have read the question so fast.
//!
//! Writing has a thread of its own as well: a terminal that is paused (Ctrl-S) must hold up neither a heartbeat nor an answer
//! that policy can give.

use std::io::{BufRead, Write};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::countdown::span;
use super::{Answerer, PersonEvent, PersonEvents, Prompter, named, question};
use crate::clock::{self, Moment};
use crate::presentation::fit::Budget;
use crate::presentation::select::{Answer, Extent, NotAChoice, Question, Step, parse_choice};
use crate::presentation::text;
use crate::serve::Shown;
use crate::wire::{Digest, RequestId, UserSurface};

/// A line on a terminal that ends sooner than this after its question appeared is not an answer to it.
const TOO_SOON: Duration = Duration::from_millis(400);

/// How long the end waits for the last words to be written.
const LAST_WORDS: Duration = Duration::from_millis(300);

/// Columns of a question that goes to something else than a terminal.
const COLUMNS: usize = 80;

/// Longest line that is read, in bytes.
const MAX_LINE: u64 = 64 * 1024;

/// What lines come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Input {
    /// A terminal, with a person at it who types ahead.
    Terminal,
    /// A pipe or a file: each line answers the next question.
    Stream,
}

/// A prompter that writes questions and reads lines.
pub struct SelectPrompter {
    shared: Arc<Mutex<Shared>>,
    /// Tells the reading thread that a question was written.
    asked: Sender<u64>,
}

struct Shared {
    output: Sender<Output>,
    /// Width of the terminal that shows the questions; `None` where it is none.
    columns: Option<u16>,
    /// How much of an ask is written at first.
    budget: Budget,
    open: Option<Open>,
    /// Counts questions, so that a line is known to belong to one.
    count: u64,
}

/// What the writing thread is told.
enum Output {
    /// Write this.
    Text(String),
    /// Say when everything before this is written.
    Flushed(Sender<()>),
}

/// What the open question is about.
struct Asked {
    id: RequestId,
    digest: Digest,
    /// All asks that are alike, this one first, and what they have in common; `None` where there is no other.
    together: Option<(Vec<(RequestId, Digest)>, Digest)>,
}

/// The question that is open.
struct Open {
    asked: Asked,
    question: Question,
    number: u64,
    shown_at: Moment,
}

impl SelectPrompter {
    /// A prompter on these two streams. The input is read on a thread of its own, for as long as the process lives.
    pub fn start(
        mut screen: Box<dyn Write + Send>,
        input: Box<dyn BufRead + Send>,
        kind: Input,
        columns: Option<u16>,
        budget: Budget,
        events: PersonEvents,
    ) -> std::io::Result<Self> {
        let (output, texts) = channel();
        std::thread::Builder::new()
            .name("output".to_owned())
            .spawn(move || write_all(&mut screen, &texts))?;
        let shared = Arc::new(Mutex::new(Shared {
            output,
            columns,
            budget,
            open: None,
            count: 0,
        }));
        let (asked, questions) = channel();
        let reader = Reader {
            shared: Arc::clone(&shared),
            input,
            kind,
            events,
            asked: asked.clone(),
        };
        std::thread::Builder::new()
            .name("input".to_owned())
            .spawn(move || reader.run(&questions))?;
        Ok(Self { shared, asked })
    }
}

impl Prompter for SelectPrompter {
    fn show(&mut self, shown: Shown) {
        let (_, question) = question(&shown);
        let mut shared = lock(&self.shared);
        let likeness = shown.alike.likeness;
        let likeness = likeness.filter(|_| !shown.alike.twins.is_empty());
        let asked = Asked {
            together: likeness.map(|likeness| (named(&shown, &shown.alike), likeness)),
            id: shown.request.id,
            digest: shown.digest,
        };
        let extent = Extent::Within(shared.budget);
        let number = shared.ask(asked, question, extent, shown.time_left);
        drop(shared);
        // The thread ends only with the input, and says so itself.
        let _told = self.asked.send(number);
    }

    fn withdraw(&mut self, id: &RequestId, why: &str) {
        let mut shared = lock(&self.shared);
        if shared
            .open
            .as_ref()
            .is_some_and(|open| open.asked.id == *id)
        {
            shared.open = None;
            shared.say(&format!(
                "\nThis ask is closed: {}. You decided nothing.",
                text::visible(why)
            ));
        }
    }

    fn notice(&mut self, text: &str) {
        lock(&self.shared).say(text);
    }
}

fn lock(shared: &Mutex<Shared>) -> std::sync::MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    fn ask(
        &mut self,
        asked: Asked,
        question: Question,
        extent: Extent,
        left: Option<Duration>,
    ) -> u64 {
        self.count += 1;
        let prompt = if self.columns.is_some() {
            "Choose: "
        } else {
            ""
        };
        let columns = self.columns.map_or(COLUMNS, usize::from);
        let mut written = format!("\n{}{prompt}", question.text(extent, columns));
        if let Some(left) = left {
            // Lines that are written are not written anew: it is told once, where what is told first stands.
            let title = format!("{} · it waits {}", question.title, span(left));
            written = written.replacen(
                question.title,
                text::clip_columns(&title, columns).as_ref(),
                1,
            );
        }
        self.open = Some(Open {
            asked,
            question,
            number: self.count,
            shown_at: clock::now(),
        });
        self.write(&written);
        self.count
    }

    fn say(&mut self, line: &str) {
        self.write(&format!("{line}\n"));
    }

    fn write(&mut self, text: &str) {
        // The writing thread ends only with this prompter.
        let _sent = self.output.send(Output::Text(text.to_owned()));
    }
}

fn write_all(screen: &mut Box<dyn Write + Send>, texts: &Receiver<Output>) {
    while let Ok(output) = texts.recv() {
        match output {
            // A reader that went away shows in the input, which ends; there is nobody to tell.
            Output::Text(text) => {
                let _written = screen
                    .write_all(text.as_bytes())
                    .and_then(|()| screen.flush());
            }
            Output::Flushed(done) => {
                let _told = done.send(());
            }
        }
    }
}

impl Drop for SelectPrompter {
    fn drop(&mut self) {
        // The last words should be read, but a paused terminal must not keep the process.
        let (done, flushed) = channel();
        let _sent = lock(&self.shared).output.send(Output::Flushed(done));
        let _flushed = flushed.recv_timeout(LAST_WORDS);
    }
}

struct Reader {
    shared: Arc<Mutex<Shared>>,
    input: Box<dyn BufRead + Send>,
    kind: Input,
    events: PersonEvents,
    asked: Sender<u64>,
}

impl Reader {
    fn run(mut self, questions: &Receiver<u64>) {
        while let Ok(number) = questions.recv() {
            if self.kind == Input::Terminal {
                // What was typed before the question is no answer to it.
                let _flushed = rustix::termios::tcflush(
                    std::io::stdin(),
                    rustix::termios::QueueSelector::IFlush,
                );
            }
            let Some(line) = read_line(&mut self.input) else {
                let _sent = self.events.send(PersonEvent::Gone);
                return;
            };
            self.take(number, &line);
        }
    }

    fn take(&self, number: u64, line: &str) {
        let mut shared = lock(&self.shared);
        let Some(open) = shared.open.take_if(|open| open.number == number) else {
            shared.say("That question is closed; the line was not used.");
            // The question that is open now was announced, and is read for next.
            return;
        };
        if self.kind == Input::Terminal && clock::now().since(open.shown_at) < TOO_SOON {
            shared.say("That line came before the question could be read; it was not used.");
            return self.again(&mut shared, open.asked, open.question);
        }
        let by = Answerer::Person(UserSurface::Select);
        let Open {
            asked, question, ..
        } = open;
        let told = match parse_choice(Some(line), &question) {
            Answer::Chosen(choice) => {
                shared.say("");
                PersonEvent::Chosen {
                    id: asked.id,
                    digest: asked.digest,
                    choice,
                    by,
                }
            }
            Answer::NotNow => {
                shared.say("It waits on; nothing was decided.");
                PersonEvent::PutOff {
                    id: asked.id,
                    digest: asked.digest,
                    via: UserSurface::Select,
                }
            }
            Answer::ToAll(verdict) => {
                let Some((asks, likeness)) = asked.together else {
                    return;
                };
                shared.say("");
                PersonEvent::AnsweredTogether {
                    asks,
                    likeness,
                    verdict,
                    by,
                }
            }
            Answer::ShowEverything => {
                let number = shared.ask(asked, question, Extent::Everything, None);
                let _told = self.asked.send(number);
                return;
            }
            Answer::Next(question) => return self.again(&mut shared, asked, question),
            Answer::NotAChoice(why) => {
                let hint = match why {
                    NotAChoice::Blank | NotAChoice::EndOfInput => "Nothing was chosen.",
                    NotAChoice::Unknown => "That is none of the options.",
                };
                shared.say(hint);
                return self.again(&mut shared, asked, question);
            }
        };
        drop(shared);
        // The session may have ended meanwhile; then nobody needs to know.
        let _sent = self.events.send(told);
    }

    fn again(&self, shared: &mut Shared, asked: Asked, question: Question) {
        let extent = if question.step == Step::Together {
            // Each ask that is answered has to be named.
            Extent::Everything
        } else {
            Extent::Within(shared.budget)
        };
        let number = shared.ask(asked, question, extent, None);
        let _told = self.asked.send(number);
    }
}

/// One line without its end; `None` at the end of the input and on an error, which are no answers.
fn read_line(input: &mut Box<dyn BufRead + Send>) -> Option<String> {
    let mut bytes = Vec::new();
    let read = std::io::Read::take(&mut *input, MAX_LINE).read_until(b'\n', &mut bytes);
    match read {
        Ok(count) if count > 0 => Some(
            String::from_utf8_lossy(&bytes)
                .trim_end_matches(['\r', '\n'])
                .to_owned(),
        ),
        Ok(_) | Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::presentation::select::{Choice, Plain};
    use crate::wire::ForwardedPermissionRequest;
    use std::io::{BufReader, Cursor};

    #[derive(Clone, Default)]
    struct Screen(Arc<Mutex<Vec<u8>>>);

    impl Write for Screen {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    impl Screen {
        fn text(&self) -> String {
            String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
        }
    }

    fn shown(id: &str) -> Shown {
        let bytes = format!(
            r#"{{"id":"{id}","createdAt":1,"requesterSessionId":"C","targetSessionId":"P","requesterAgentName":"scout","surface":"bash","value":"rm -rf build"}}"#
        );
        let request = ForwardedPermissionRequest::from_json(bytes.as_bytes()).unwrap();
        Shown {
            request,
            digest: Digest::of(bytes.as_bytes()),
            asked_because: None,
            annotations: Vec::new(),
            with_chain: None,
            in_line: crate::serve::InLine::default(),
            time_left: None,
            age: Duration::from_secs(7),
            alike: crate::serve::Alike::default(),
        }
    }

    fn answers(input: &str, ids: &[&str]) -> (Vec<PersonEvent>, String) {
        let screen = Screen::default();
        let (sender, mut receiver) = tokio::sync::mpsc::unbounded_channel();
        let input = Box::new(BufReader::new(Cursor::new(input.as_bytes().to_vec())));
        let mut prompter = SelectPrompter::start(
            Box::new(screen.clone()),
            input,
            Input::Stream,
            None,
            Budget::default(),
            sender,
        )
        .unwrap();
        let mut events = Vec::new();
        for id in ids {
            prompter.show(shown(id));
            events.push(receiver.blocking_recv().unwrap());
        }
        drop(prompter);
        (events, screen.text())
    }

    #[test]
    fn a_line_answers_the_question_that_is_open() {
        let (events, screen) = answers("1\n", &["a"]);
        assert!(
            matches!(&events[0], PersonEvent::Chosen { choice: Choice::Once, id, .. } if id.as_str() == "a")
        );
        assert!(screen.contains("rm -rf build"), "{screen}");
    }

    #[test]
    fn what_is_no_option_decides_nothing_and_the_question_stays() {
        let (events, screen) = answers("yes please continue\n\n9\n1\n", &["a"]);
        assert!(matches!(
            &events[0],
            PersonEvent::Chosen {
                choice: Choice::Once,
                ..
            }
        ));
        assert!(screen.contains("That is none of the options."), "{screen}");
        assert!(screen.contains("Nothing was chosen."), "{screen}");
    }

    fn alike(names: &[&str]) -> crate::serve::Alike {
        let twin = |name: &&str| crate::serve::Twin {
            id: RequestId::parse(name).unwrap(),
            digest: Digest::of(name.as_bytes()),
            agent: "builder\nyes) Yes".to_owned(),
            session: format!("child of {name}"),
            path: Vec::new(),
            age: Duration::from_secs(3),
        };
        crate::serve::Alike {
            likeness: Some(Digest::of(b"common")),
            twins: names.iter().map(twin).collect(),
            more: true,
        }
    }

    fn answers_to(input: &str, shown: Shown) -> (PersonEvent, String) {
        let screen = Screen::default();
        let (sender, mut receiver) = tokio::sync::mpsc::unbounded_channel();
        let input = Box::new(BufReader::new(Cursor::new(input.as_bytes().to_vec())));
        let (screen_of_it, budget) = (Box::new(screen.clone()), Budget::default());
        let mut prompter =
            SelectPrompter::start(screen_of_it, input, Input::Stream, None, budget, sender)
                .unwrap();
        prompter.show(shown);
        let event = receiver.blocking_recv().unwrap();
        drop(prompter);
        (event, screen.text())
    }

    #[test]
    fn why_a_question_went_is_shown_as_text() {
        let screen = Screen::default();
        let (sender, _receiver) = tokio::sync::mpsc::unbounded_channel();
        let (input, held) = std::io::pipe().unwrap();
        let mut prompter = SelectPrompter::start(
            Box::new(screen.clone()),
            Box::new(BufReader::new(input)),
            Input::Stream,
            None,
            Budget::default(),
            sender,
        )
        .unwrap();
        prompter.show(shown("a"));
        let id = RequestId::parse("a").unwrap();
        prompter.withdraw(&id, "authorizer \u{1b}[2Jjudge denied it");
        drop(held);
        drop(prompter);
        let screen = screen.text();
        assert!(
            screen.contains("This ask is closed: authorizer <ESC>[2Jjudge denied it."),
            "{screen}"
        );
    }

    #[test]
    fn asks_that_are_alike_are_named_before_they_are_answered_together() {
        let mut asked = shown("a");
        asked.alike = alike(&["b", "c"]);
        // Neither its number, nor yes to the first question, nor anything else than a word of the second one.
        let input = "yes\n6\na\ny\n1\nb\na)\nyes\n";
        let (event, screen) = answers_to(input, asked.clone());
        let PersonEvent::AnsweredTogether {
            asks,
            likeness,
            verdict: Plain::Yes,
            by,
        } = event
        else {
            panic!("{event:?}");
        };
        let named: Vec<&str> = asks.iter().map(|(id, _)| id.as_str()).collect();
        assert_eq!(
            (named, likeness),
            (vec!["a", "b", "c"], Digest::of(b"common"))
        );
        assert_eq!(by, Answerer::Person(UserSurface::Select));
        let first = screen.find("These asks are alike").unwrap();
        assert!(screen[..first].contains("  a) Yes, for these 3 asks: each is named first\n"));
        let table = &screen[first..];
        let table = &table[..table.find("  b) Back").unwrap()];
        insta::assert_snapshot!(table, @r#"
        These asks are alike. Answer each of them, once?
        surface  : bash
        command  : rm -rf build
        who asks : 3 asks, alike but for this:
        1        : scout                  C             7s  a
        2        : "builder<LF>yes) Yes"  "child of b"  3s  b
        3        : "builder<LF>yes) Yes"  "child of c"  3s  c
        beyond   : more asks like these wait; they are not answered with these
          yes) Yes, to each of them
          no) No, to each of them
        "#);
        assert_eq!(screen.matches("That is none of the options.").count(), 4);
        let (event, _) = answers_to("a\nno\n", asked);
        assert!(matches!(
            event,
            PersonEvent::AnsweredTogether {
                verdict: Plain::No,
                ..
            }
        ));
        // Where nothing is like it there is no such answer.
        let (event, screen) = answers_to("a\n3\n", shown("a"));
        assert!(matches!(
            event,
            PersonEvent::Chosen {
                choice: Choice::Deny,
                ..
            }
        ));
        assert!(!screen.contains("  a)"), "{screen}");
    }

    #[test]
    fn an_ask_that_is_put_off_is_no_choice() {
        let (events, screen) = answers("l\n1\n", &["a", "b"]);
        assert!(
            matches!(&events[0], PersonEvent::PutOff { id, via: UserSurface::Select, .. } if id.as_str() == "a")
        );
        assert!(matches!(&events[1], PersonEvent::Chosen { id, .. } if id.as_str() == "b"));
        assert!(screen.contains("nothing was decided"), "{screen}");
    }

    #[test]
    fn the_end_of_the_input_is_no_answer() {
        let (events, _) = answers("", &["a"]);
        assert!(matches!(events[0], PersonEvent::Gone));
        let (events, _) = answers("1\n", &["a", "b"]);
        assert!(matches!(events[1], PersonEvent::Gone));
    }
}

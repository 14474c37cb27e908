//! Forms in an agent: each ask as a form that the agent's own client puts before whoever sits there.
//!
//! It shows one ask at a time, page by page, and takes an answer for the form that is open and no other: a client that leaves a form on
//! its screen answers it into the void. What a form looks like is the client's affair, and how it gets there is a [`FormClient`]'s.
//!
//! A client can fill forms in by itself: hooks, models and switches do. So an answer is credited to a program that is named after the
//! client, which can say yes and no and grant nothing, unless the operator has said that a person answers. Even then an answer that
//! comes sooner than anybody can have read the form is nobody's.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::countdown::span;
use super::{Answerer, PersonEvent, PersonEvents, Prompter, named, question};
use crate::clock::{self, Moment};
use crate::policy::{Bounds, Enveloped, Family, RulesInForce};
use crate::presentation::fit::Budget;
use crate::presentation::form::{Form, Layout, Offer, Room, Said, Sheet, denial};
use crate::presentation::text;
use crate::serve::Shown;
use crate::wire::{Digest, RequestId, Ruling, UserSurface};

/// An answer that comes sooner than this after its form is no person's.
const TOO_SOON: Duration = Duration::from_millis(400);

/// How often a form is put again whose answer was none, in a row.
const MOST_AGAIN: u32 = 2;

/// How long a client is left alone that has put a form away at once, times the number of the attempt: one that is still starting does so.
const BREATHER: Duration = Duration::from_secs(1);

/// Most UTF-16 units of what a client says that a reason repeats. It is made visible by whoever shows it.
const MAX_TOLD: usize = 300;

/// Most characters of a client's name that are kept.
const MAX_NAME: usize = 40;

/// What brings forms to a client. No call may wait.
pub trait FormClient: Send {
    /// Shows a form under this number, after a while.
    fn put(&mut self, number: u64, form: &Form, after: Duration);

    /// Takes a form back. The client may leave it on its screen.
    fn withdraw(&mut self, number: u64, why: &str);

    /// Tells whoever runs this something that needs no answer.
    fn notice(&mut self, text: &str);
}

/// What became of a form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FormReply {
    /// It was filled in, with these values where they were texts.
    Accepted {
        /// The option.
        answer: Option<String>,
        /// The reason for a no.
        reason: Option<String>,
    },
    /// It was turned down: that is a no.
    Declined,
    /// It was put away: that is no answer.
    Dismissed,
    /// It could not be shown, or the reply cannot be read.
    Failed(String),
}

/// What stands around the forms of a client, at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Around {
    /// How much of a form's text it shows for certain.
    pub room: Room,
    /// The state of whatever could have its forms answered by others: the same where nothing of it was changed. The error says why no
    /// answer of it counts.
    pub settings: Result<Digest, String>,
}

/// Looks at what stands around the forms of a client. What it reads is small.
pub type LookAround = Box<dyn Fn() -> Around + Send>;

/// Who is credited with what a form says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Credit {
    /// The client, as a program.
    Program,
    /// A person: the operator says that one answers.
    Person,
}

/// How asks are shown in a client.
#[derive(Debug, Clone)]
pub struct FormSettings {
    /// What the client calls itself.
    pub client: String,
    /// Who is credited.
    pub credit: Credit,
    /// Families of surfaces on which a yes of the client counts although it is a program's.
    pub trusted: Vec<Family>,
    /// How much of an ask is put on pages at first.
    pub budget: Budget,
}

/// The name under which a client is credited as a program.
pub fn form_program(client: &str) -> String {
    let plain = |character: char| {
        if character.is_ascii_alphanumeric() || matches!(character, '-' | '_' | '.') {
            character
        } else {
            '-'
        }
    };
    let name: String = client.trim().chars().take(MAX_NAME).map(plain).collect();
    if name.is_empty() {
        "form:unnamed".to_owned()
    } else {
        format!("form:{name}")
    }
}

/// A prompter whose questions are forms.
pub struct FormPrompter(Arc<Mutex<Desk>>);

/// Where the replies to forms are brought.
#[derive(Clone)]
pub struct FormReplies(Arc<Mutex<Desk>>);

impl FormPrompter {
    /// A prompter that shows its forms through `client`, and where the replies go.
    pub fn new(
        client: Box<dyn FormClient>,
        settings: FormSettings,
        look: LookAround,
        events: PersonEvents,
    ) -> (Self, FormReplies) {
        let desk = Arc::new(Mutex::new(Desk::new(client, settings, look, events)));
        (Self(Arc::clone(&desk)), FormReplies(desk))
    }
}

impl FormReplies {
    /// Takes the reply to the form of this number.
    pub fn take(&self, number: u64, reply: FormReply) {
        lock(&self.0).take(clock::now(), number, reply);
    }
}

impl Prompter for FormPrompter {
    fn show(&mut self, shown: Shown) {
        lock(&self.0).show(clock::now(), shown);
    }

    fn withdraw(&mut self, id: &RequestId, why: &str) {
        lock(&self.0).withdraw(id, why);
    }

    fn notice(&mut self, text: &str) {
        lock(&self.0).client.notice(text);
    }
}

fn lock(desk: &Mutex<Desk>) -> MutexGuard<'_, Desk> {
    desk.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What the open form is about.
struct Asked {
    id: RequestId,
    digest: Digest,
    /// All asks that are alike, this one first, and what they have in common; `None` where there is no other.
    together: Option<(Vec<(RequestId, Digest)>, Digest)>,
}

/// The form that is open.
struct Open {
    asked: Asked,
    sheet: Sheet,
    /// How long the requester waits, where it said so; told on the first form alone, for it runs out meanwhile.
    left: Option<Duration>,
    number: u64,
    put_at: Moment,
    /// What could have it answered by others, as it was when it was put.
    settings: Digest,
    /// How often it was put again in a row.
    again: u32,
}

/// A form that is put once more.
#[derive(Default)]
struct Again {
    times: u32,
    after: Duration,
}

struct Desk {
    client: Box<dyn FormClient>,
    settings: FormSettings,
    look: LookAround,
    /// The name of the client as a program.
    program: Arc<str>,
    events: PersonEvents,
    open: Option<Open>,
    /// Counts forms, so that a reply is known to belong to one.
    count: u64,
    /// When the client replied last. A client that shows one form at a time shows the next one from then on.
    replied_at: Option<Moment>,
}

impl Desk {
    fn new(
        client: Box<dyn FormClient>,
        settings: FormSettings,
        look: LookAround,
        events: PersonEvents,
    ) -> Self {
        Self {
            client,
            look,
            program: form_program(&settings.client).into(),
            settings,
            events,
            open: None,
            count: 0,
            replied_at: None,
        }
    }

    fn show(&mut self, now: Moment, shown: Shown) {
        let (_, question) = question(&shown);
        // A program's yes is bounded as a link's of the chain is.
        let bounds = Bounds::of(&shown.request);
        let held = bounds.hold(Ruling::Allow, &self.settings.trusted, RulesInForce::Whole);
        let around = (self.look)();
        let layout = Layout {
            room: around.room,
            budget: self.settings.budget,
            offer: match self.settings.credit {
                Credit::Program => Offer::Plain,
                Credit::Person => Offer::Everything,
            },
        };
        let likeness = shown.alike.likeness;
        let likeness = likeness.filter(|_| !shown.alike.twins.is_empty());
        let asked = Asked {
            together: likeness.map(|likeness| (named(&shown, &shown.alike), likeness)),
            id: shown.request.id,
            digest: shown.digest,
        };
        let mut sheet = Sheet::new(question, layout);
        if let (Enveloped::Capped(cap), Credit::Program) = (held, self.settings.credit) {
            let why = format!(
                "a yes of {} would not count, {cap}; a person at `askrelay serve` can say it",
                self.program
            );
            sheet = sheet.without_yes(&why);
        }
        self.put(now, asked, sheet, around, shown.time_left, None);
    }

    fn put(
        &mut self,
        now: Moment,
        asked: Asked,
        sheet: Sheet,
        around: Around,
        left: Option<Duration>,
        again: Option<Again>,
    ) {
        let settings = match around.settings {
            Ok(settings) => settings,
            Err(why) => return self.nobody(asked, why),
        };
        let sheet = sheet.in_room(around.room);
        let Again { times, after } = again.unwrap_or_default();
        self.count += 1;
        let mut form = sheet.form();
        let mut note = VecDeque::from([form.note]);
        note.extend(left.map(|left| format!("it waits {}", span(left))));
        if self.settings.credit == Credit::Program {
            note.push_front(format!("counts as {}, not as a person", self.program));
        }
        note.retain(|part| !part.is_empty());
        form.note = note.make_contiguous().join(" · ");
        self.client.put(self.count, &form, after);
        self.open = Some(Open {
            asked,
            sheet,
            left,
            number: self.count,
            put_at: now.after(after),
            settings,
            again: times,
        });
    }

    fn withdraw(&mut self, id: &RequestId, why: &str) {
        if let Some(open) = self.open.take_if(|open| open.asked.id == *id) {
            self.client.withdraw(open.number, why);
        }
    }

    fn take(&mut self, now: Moment, number: u64, reply: FormReply) {
        let before = self.replied_at.replace(now);
        // One that is still to be sent has been seen by nobody.
        let is_it = |open: &mut Open| open.number == number && open.put_at <= now;
        let Some(open) = self.open.take_if(is_it) else {
            // A form that was taken back, and that the client has left where it was: the answer is to nothing that is asked.
            return;
        };
        let seen_at = before.map_or(open.put_at, |before| before.max(open.put_at));
        let is_soon = now.since(seen_at) < TOO_SOON;
        let is_too_soon = is_soon && self.settings.credit == Credit::Person;
        let client = text::clip_utf16(&self.settings.client, MAX_TOLD).into_owned();
        // The next form is put with what is seen now: nothing lies between the two that nobody looks at.
        let around = (self.look)();
        let said = match reply {
            FormReply::Dismissed if is_soon => {
                let why = "the form was dismissed at once";
                let after = BREATHER * (open.again + 1);
                return self.again(now, open, around, why, after);
            }
            FormReply::Dismissed => {
                return self.nobody(open.asked, format!("the form was dismissed in {client}"));
            }
            FormReply::Failed(why) => {
                let why = text::clip_utf16(&why, MAX_TOLD);
                return self.nobody(open.asked, format!("{client} did not show the form: {why}"));
            }
            FormReply::Accepted { .. } | FormReply::Declined if is_too_soon => {
                let why = "the form was answered sooner than anybody can have read it";
                return self.again(now, open, around, why, Duration::ZERO);
            }
            FormReply::Accepted { .. } | FormReply::Declined
                if around.settings.as_ref() != Ok(&open.settings) =>
            {
                let why =
                    "settings that could have the form answered were changed while it was open";
                return self.again(now, open, around, why, Duration::ZERO);
            }
            FormReply::Accepted { .. } if !open.sheet.fits(around.room) => {
                let why = "the window was made too small for the form while it was open";
                return self.again(now, open, around, why, Duration::ZERO);
            }
            FormReply::Declined => Said::Chosen(denial(None)),
            FormReply::Accepted { answer, reason } => match answer {
                Some(answer) => open.sheet.say(&answer, reason.as_deref()),
                None => Said::NotOffered,
            },
        };
        let by = match self.settings.credit {
            Credit::Program => Answerer::Program(Arc::clone(&self.program)),
            Credit::Person => Answerer::Person(UserSurface::Select),
        };
        let asked = open.asked;
        let told = match said {
            Said::Chosen(choice) => PersonEvent::Chosen {
                id: asked.id,
                digest: asked.digest,
                choice,
                by,
            },
            Said::NotNow => PersonEvent::PutOff {
                id: asked.id,
                digest: asked.digest,
                via: UserSurface::Select,
            },
            Said::ToAll(verdict) => {
                let Some((asks, likeness)) = asked.together else {
                    return;
                };
                PersonEvent::AnsweredTogether {
                    asks,
                    likeness,
                    verdict,
                    by,
                }
            }
            Said::Next(sheet) => return self.put(now, asked, *sheet, around, None, None),
            Said::NotOffered => {
                let why = "the form was answered with none of its options";
                let open = Open { asked, ..open };
                return self.again(now, open, around, why, Duration::ZERO);
            }
        };
        // The session may have ended meanwhile; then nobody needs to know.
        let _sent = self.events.send(told);
    }

    /// Puts a form again that has got no answer, but not for ever: whatever answers so may never answer otherwise.
    fn again(&mut self, now: Moment, open: Open, around: Around, why: &str, after: Duration) {
        if open.again < MOST_AGAIN {
            let times = open.again + 1;
            let again = Some(Again { times, after });
            self.put(now, open.asked, open.sheet, around, open.left, again);
        } else {
            let client = text::clip_utf16(&self.settings.client, MAX_TOLD).into_owned();
            self.nobody(
                open.asked,
                format!("{why}, three times in a row, in {client}"),
            );
        }
    }

    /// Nobody has decided the ask, and nobody here will.
    fn nobody(&self, asked: Asked, cause: String) {
        let _sent = self.events.send(PersonEvent::Unanswered {
            id: asked.id,
            digest: asked.digest,
            cause,
        });
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc::UnboundedReceiver;

    use super::*;
    use crate::presentation::select::{Choice, Plain};
    use crate::wire::{AuthorizerVerdict, DecisionSource, ForwardedPermissionRequest};

    /// What a client was told.
    #[derive(Debug, Clone, PartialEq)]
    enum Told {
        Put(u64, Form, Duration),
        Withdrawn(u64, String),
    }

    #[derive(Clone, Default)]
    struct Fake(Arc<Mutex<Vec<Told>>>);

    impl FormClient for Fake {
        fn put(&mut self, number: u64, form: &Form, after: Duration) {
            let told = Told::Put(number, form.clone(), after);
            self.0.lock().unwrap().push(told);
        }

        fn withdraw(&mut self, number: u64, why: &str) {
            let told = Told::Withdrawn(number, why.to_owned());
            self.0.lock().unwrap().push(told);
        }

        fn notice(&mut self, _text: &str) {}
    }

    /// A desk, its client, and what the session hears, at a clock that is set by hand.
    struct Scene {
        desk: Desk,
        client: Fake,
        events: UnboundedReceiver<PersonEvent>,
        around: Arc<Mutex<Around>>,
        now: Moment,
    }

    impl Scene {
        fn new(credit: Credit) -> Self {
            let (sender, events) = tokio::sync::mpsc::unbounded_channel();
            let client = Fake::default();
            let settings = FormSettings {
                client: "claude-code".into(),
                credit,
                trusted: vec![Family::Path],
                budget: Budget::default(),
            };
            let room = Room {
                rows: 4,
                columns: 72,
            };
            let around = Arc::new(Mutex::new(Around {
                room,
                settings: Ok(Digest::of(b"before")),
            }));
            let seen = Arc::clone(&around);
            let look: LookAround = Box::new(move || seen.lock().unwrap().clone());
            Self {
                around,
                desk: Desk::new(Box::new(client.clone()), settings, look, sender),
                client,
                events,
                now: Moment::default().after(Duration::from_secs(100)),
            }
        }

        fn show(&mut self, shown: Shown) -> (u64, Form) {
            self.desk.show(self.now, shown);
            self.last()
        }

        /// The form that was put last.
        fn last(&self) -> (u64, Form) {
            let told = self.client.0.lock().unwrap();
            let put = told.iter().rev().find_map(|told| match told {
                Told::Put(number, form, _) => Some((*number, form.clone())),
                Told::Withdrawn(..) => None,
            });
            put.unwrap()
        }

        fn reply_after(&mut self, millis: u64, number: u64, reply: FormReply) {
            self.now = self.now.after(Duration::from_millis(millis));
            self.desk.take(self.now, number, reply);
        }

        fn event(&mut self) -> Option<PersonEvent> {
            self.events.try_recv().ok()
        }
    }

    fn accepted(answer: &str) -> FormReply {
        FormReply::Accepted {
            answer: Some(answer.to_owned()),
            reason: None,
        }
    }

    fn asking(id: &str, value: &str) -> Shown {
        let request = serde_json::json!({
            "id": id, "createdAt": 1, "requesterSessionId": "C", "targetSessionId": "P", "requesterAgentName": "scout",
            "surface": "bash", "value": value,
        });
        let bytes = request.to_string();
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

    #[track_caller]
    fn chosen(event: Option<PersonEvent>) -> (Choice, Answerer) {
        let Some(PersonEvent::Chosen { choice, by, .. }) = event else {
            panic!("{event:?}");
        };
        (choice, by)
    }

    #[track_caller]
    fn unanswered(event: Option<PersonEvent>) -> String {
        let Some(PersonEvent::Unanswered { cause, .. }) = event else {
            panic!("{event:?}");
        };
        cause
    }

    #[test]
    fn what_a_client_says_is_credited_to_it_as_a_program_that_grants_nothing() {
        let mut scene = Scene::new(Credit::Program);
        let (number, form) = scene.show(asking("a", "make"));
        assert_eq!(form.options, ["No", "Yes"]);
        assert!(
            form.note
                .contains("counts as form:claude-code, not as a person")
        );
        // However soon: programs are fast.
        scene.reply_after(1, number, accepted("Yes"));
        let (choice, by) = chosen(scene.event());
        assert_eq!(by, Answerer::Program("form:claude-code".into()));
        let decision = by.decision(choice);
        assert!(decision.is_approved());
        assert_eq!(
            decision.decided_by,
            DecisionSource::Authorizer {
                name: "form:claude-code".into(),
                verdict: AuthorizerVerdict::Allow,
                reason: None
            }
        );
    }

    #[test]
    fn where_a_person_answers_they_are_credited() {
        let mut scene = Scene::new(Credit::Person);
        let (number, form) = scene.show(asking("a", "make"));
        assert_eq!(form.options[0], "No");
        scene.reply_after(
            500,
            number,
            FormReply::Accepted {
                answer: Some("No".into()),
                reason: Some(" use make clean \n".into()),
            },
        );
        assert_eq!(
            chosen(scene.event()),
            (
                Choice::DenyWithReason("use make clean".into()),
                Answerer::Person(UserSurface::Select)
            )
        );
        let (number, _) = scene.show(asking("b", "make"));
        scene.reply_after(500, number, FormReply::Declined);
        assert_eq!(chosen(scene.event()).0, Choice::Deny);
        let (number, form) = scene.show(asking("c", "make"));
        scene.reply_after(500, number, accepted(form.options.last().unwrap()));
        assert!(matches!(scene.event(), Some(PersonEvent::PutOff { .. })));
    }

    #[test]
    fn an_answer_that_comes_sooner_than_anybody_can_read_is_nobodys() {
        for reply in [accepted("Yes"), FormReply::Declined] {
            let mut scene = Scene::new(Credit::Person);
            let (mut number, form) = scene.show(asking("a", "make"));
            for _ in 0..2 {
                scene.reply_after(399, number, reply.clone());
                assert!(scene.event().is_none());
                let again = scene.last();
                assert_eq!(again.1, form);
                assert_ne!(again.0, number);
                number = again.0;
            }
            scene.reply_after(399, number, reply);
            let cause = unanswered(scene.event());
            assert!(
                cause.contains("sooner than anybody can have read it"),
                "{cause}"
            );
        }
        // A client that shows one form at a time shows the next when the one before was answered, whatever that was worth.
        let mut scene = Scene::new(Credit::Person);
        let (stale, _) = scene.show(asking("a", "make"));
        scene
            .desk
            .withdraw(&RequestId::parse("a").unwrap(), "it has gone");
        let (number, _) = scene.show(asking("b", "make"));
        scene.reply_after(5_000, stale, accepted("Yes"));
        scene.reply_after(100, number, accepted("Yes"));
        assert!(scene.event().is_none());
        let (number, _) = scene.last();
        scene.reply_after(400, number, accepted("Yes"));
        assert_eq!(chosen(scene.event()).0, Choice::Once);
    }

    #[test]
    fn a_form_that_is_put_away_or_fails_is_nobodys_answer() {
        for credit in [Credit::Program, Credit::Person] {
            let mut scene = Scene::new(credit);
            let (number, _) = scene.show(asking("a", "make"));
            scene.reply_after(400, number, FormReply::Dismissed);
            assert_eq!(
                unanswered(scene.event()),
                "the form was dismissed in claude-code"
            );
            let (number, _) = scene.show(asking("b", "make"));
            scene.reply_after(1, number, FormReply::Failed("no \u{1b}[2J form".into()));
            assert_eq!(
                unanswered(scene.event()),
                "claude-code did not show the form: no \u{1b}[2J form"
            );
        }
    }

    #[test]
    fn a_client_that_is_still_starting_is_given_time() {
        let mut scene = Scene::new(Credit::Program);
        let (mut number, _) = scene.show(asking("a", "make"));
        for seconds in [1, 2] {
            scene.reply_after(10, number, FormReply::Dismissed);
            assert!(scene.event().is_none());
            let told = scene.client.0.lock().unwrap().last().cloned();
            let Some(Told::Put(again, _, after)) = told else {
                panic!("{told:?}");
            };
            assert_eq!(after, Duration::from_secs(seconds));
            number = again;
            // What has not been sent yet cannot be answered.
            scene.reply_after(999, number, accepted("Yes"));
            assert!(scene.event().is_none());
            scene.now = scene
                .now
                .after(after.saturating_sub(Duration::from_millis(999)));
        }
        scene.reply_after(10, number, FormReply::Dismissed);
        let cause = unanswered(scene.event());
        assert!(
            cause.contains("dismissed at once, three times in a row"),
            "{cause}"
        );
    }

    #[test]
    fn where_a_yes_of_a_program_would_not_count_there_is_none_and_that_is_said() {
        for (surface, is_offered) in [
            ("bash", true),
            ("path_write", true),
            ("external_directory", false),
            ("", false),
        ] {
            let mut shown = asking("a", "/etc/passwd");
            shown.request.surface = Some(surface.to_owned());
            let mut scene = Scene::new(Credit::Program);
            let (mut number, mut form) = scene.show(shown);
            let mut read = form.message.clone();
            while let Some(on) = form
                .options
                .iter()
                .find(|label| label.starts_with("Read on"))
            {
                scene.reply_after(1_000, number, accepted(on));
                (number, form) = scene.last();
                read.push_str(&form.message);
            }
            assert_eq!(
                form.options.contains(&"Yes".to_owned()),
                is_offered,
                "{form:?}"
            );
            assert_eq!(read.contains("no yes here"), !is_offered, "{read}");
            if !is_offered {
                scene.reply_after(1_000, number, accepted("Yes"));
                assert!(scene.event().is_none());
                scene.reply_after(1_000, scene.last().0, accepted("No"));
                assert_eq!(chosen(scene.event()).0, Choice::Deny);
            }
        }
    }

    #[test]
    fn where_settings_have_forms_answered_none_is_put_and_no_answer_counts() {
        let cause = "settings.json has a hook";
        let hooked = Err(cause.to_owned());
        let mut scene = Scene::new(Credit::Program);
        scene.around.lock().unwrap().settings = hooked.clone();
        scene.desk.show(scene.now, asking("a", "make"));
        assert!(scene.client.0.lock().unwrap().is_empty());
        assert_eq!(unanswered(scene.event()), cause);
        for reply in [accepted("Yes"), FormReply::Declined] {
            let mut scene = Scene::new(Credit::Program);
            let (number, _) = scene.show(asking("a", "make"));
            scene.around.lock().unwrap().settings = hooked.clone();
            scene.reply_after(1_000, number, reply);
            assert_eq!(unanswered(scene.event()), cause);
            assert_eq!(scene.last().0, number);
        }
    }

    #[test]
    fn a_form_beside_which_settings_were_changed_is_put_again_but_not_for_ever() {
        let mut scene = Scene::new(Credit::Program);
        let (mut number, _) = scene.show(asking("a", "make"));
        let changed = |scene: &Scene, to: &[u8]| {
            scene.around.lock().unwrap().settings = Ok(Digest::of(to));
        };
        for to in [b"one", b"two"] {
            changed(&scene, to);
            scene.reply_after(1_000, number, accepted("Yes"));
            assert!(scene.event().is_none());
            assert_ne!(scene.last().0, number);
            number = scene.last().0;
        }
        changed(&scene, b"six");
        scene.reply_after(1_000, number, accepted("Yes"));
        let cause = unanswered(scene.event());
        assert!(cause.contains("settings"), "{cause}");
        // What is put again counts where nothing has changed since.
        let (number, _) = scene.show(asking("b", "make"));
        changed(&scene, b"ten");
        scene.reply_after(1_000, number, accepted("Yes"));
        let (number, _) = scene.last();
        scene.reply_after(1_000, number, accepted("Yes"));
        assert_eq!(chosen(scene.event()).0, Choice::Once);
    }

    #[test]
    fn a_window_that_was_made_smaller_has_the_form_from_its_first_page_on() {
        let mut scene = Scene::new(Credit::Program);
        let (number, _) = scene.show(asking("a", "make"));
        scene.around.lock().unwrap().room = Room {
            rows: 1,
            columns: 50,
        };
        scene.reply_after(1_000, number, accepted("Yes"));
        assert!(scene.event().is_none());
        let (_, form) = scene.last();
        assert_eq!(form.message, "command : make");
        assert!(!form.options.contains(&"Yes".to_owned()), "{form:?}");
    }

    #[test]
    fn what_is_no_option_of_the_form_decides_nothing() {
        let none = FormReply::Accepted {
            answer: None,
            reason: Some("Yes".into()),
        };
        for reply in [
            none,
            accepted(""),
            accepted("yes"),
            accepted("1"),
            accepted("Yes "),
            accepted("Yes, for this session: bash \"make\""),
        ] {
            let mut scene = Scene::new(Credit::Program);
            let (mut number, _) = scene.show(asking("a", "make"));
            for _ in 0..2 {
                scene.reply_after(1_000, number, reply.clone());
                assert!(scene.event().is_none(), "{reply:?}");
                number = scene.last().0;
            }
            scene.reply_after(1_000, number, reply);
            let cause = unanswered(scene.event());
            assert!(cause.contains("none of its options"), "{cause}");
        }
    }

    #[test]
    fn a_yes_with_a_reason_for_a_no_is_no_answer() {
        let mut scene = Scene::new(Credit::Person);
        let (number, _) = scene.show(asking("a", "make"));
        let both = FormReply::Accepted {
            answer: Some("Yes".into()),
            reason: Some("of the tests are red".into()),
        };
        scene.reply_after(1_000, number, both);
        assert!(scene.event().is_none());
        let (again, _) = scene.last();
        assert_ne!(again, number);
        let blank = FormReply::Accepted {
            answer: Some("Yes".into()),
            reason: Some(" ".into()),
        };
        scene.reply_after(1_000, again, blank);
        assert_eq!(chosen(scene.event()).0, Choice::Once);
    }

    #[test]
    fn an_answer_to_a_form_that_was_taken_back_decides_nothing() {
        let mut scene = Scene::new(Credit::Program);
        let (first, _) = scene.show(asking("a", "make"));
        let id = RequestId::parse("a").unwrap();
        scene.desk.withdraw(&id, "its requester has taken it back");
        let told = scene.client.0.lock().unwrap().last().cloned();
        let why = "its requester has taken it back".to_owned();
        assert_eq!(told, Some(Told::Withdrawn(first, why)));
        // The next one is shown all the same.
        let (second, _) = scene.show(asking("b", "rm -rf /"));
        scene.reply_after(1_000, first, accepted("Yes"));
        scene.reply_after(1_000, second + 1, accepted("Yes"));
        assert!(scene.event().is_none());
        scene.reply_after(1_000, second, accepted("No"));
        assert_eq!(chosen(scene.event()).0, Choice::Deny);
        // And an answer counts once.
        scene.reply_after(1_000, second, accepted("Yes"));
        assert!(scene.event().is_none());
    }

    #[test]
    fn no_yes_is_taken_before_all_that_would_run_has_been_on_a_page() {
        // One command, of which nothing else tells what it does at its end.
        let command = format!("python3 -c '{}rm -rf /'", "a = 1; ".repeat(300));
        let mut scene = Scene::new(Credit::Program);
        let (mut number, mut form) = scene.show(asking("a", &command));
        assert!(form.note.contains("page 1 of"), "{}", form.note);
        let mut seen = form.message.clone();
        let mut turned = 0;
        while !form.options.contains(&"Yes".to_owned()) {
            scene.reply_after(1_000, number, accepted("Yes"));
            assert!(scene.event().is_none());
            number = scene.last().0;
            let on = form
                .options
                .iter()
                .find(|label| label.starts_with("Read on"));
            scene.reply_after(1_000, number, accepted(on.unwrap()));
            (number, form) = scene.last();
            seen.push_str(&form.message);
            turned += 1;
        }
        assert!(turned > 1 && seen.contains("rm -rf /"), "{seen}");
        scene.reply_after(1_000, number, accepted("Yes"));
        assert_eq!(chosen(scene.event()).0, Choice::Once);
    }

    #[test]
    fn asks_that_are_alike_are_named_before_they_are_answered_together() {
        let mut shown = asking("a", "make");
        let twin = crate::serve::Twin {
            id: RequestId::parse("b").unwrap(),
            digest: Digest::of(b"b"),
            agent: "builder".into(),
            session: "D".into(),
            path: Vec::new(),
            age: Duration::from_secs(3),
        };
        shown.alike = crate::serve::Alike {
            likeness: Some(Digest::of(b"common")),
            twins: vec![twin],
            more: false,
        };
        let mut scene = Scene::new(Credit::Person);
        let (number, _) = scene.show(shown.clone());
        scene.reply_after(
            1_000,
            number,
            accepted("Yes, for these 2 asks: each is named first"),
        );
        let mut named = String::new();
        loop {
            let (number, form) = scene.last();
            named.push_str(&form.message);
            let yes = "Yes, to each of them".to_owned();
            let on = form
                .options
                .iter()
                .find(|label| label.starts_with("Read on"));
            let answer = if form.options.contains(&yes) {
                &yes
            } else {
                on.unwrap()
            };
            scene.reply_after(1_000, number, accepted(answer));
            if *answer == yes {
                break;
            }
        }
        assert!(
            named.contains("scout") && named.contains("builder"),
            "{named}"
        );
        let Some(PersonEvent::AnsweredTogether { asks, verdict, .. }) = scene.event() else {
            panic!();
        };
        assert_eq!((asks.len(), verdict), (2, Plain::Yes));
        // A program is not offered this.
        let mut scene = Scene::new(Credit::Program);
        let (_, form) = scene.show(shown);
        assert_eq!(form.options, ["No", "Yes"]);
    }

    #[test]
    fn the_name_of_a_client_is_plain_and_bounded() {
        for (client, name) in [
            ("claude-code", "form:claude-code"),
            ("", "form:unnamed"),
            ("  ", "form:unnamed"),
            ("a\u{202e}b \"user\"", "form:a-b--user-"),
        ] {
            assert_eq!(form_program(client), name);
        }
        assert_eq!(
            form_program(&"x".repeat(500)).len(),
            "form:".len() + MAX_NAME
        );
    }
}

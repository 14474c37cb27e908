//! The pure step, driven by events alone: what must hold after any sequence of them, and a few sequences in particular.

mod again;
mod batch;
mod chain;
mod grants;
mod inbox;
mod recall;
mod rules_only;
mod unanswered;

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;

use super::{
    Alike, AnnotatorChain, AnnotatorOutcome, Answer, Authorized, AuthorizerChain, Authorizers,
    Care, Delivery, Effect, Event, FileClock, InLine, ListedState, Listing, MOST_CHAINS,
    ParentLife, Person, RelayOutcome, Renewal, Setup, Shown, State, Trouble,
};
use crate::audit::{self, Ending, Entry};
use crate::clock::Moment;
use crate::policy::{
    self, Config, GrantId, LayerRules, Layers, Policy, SessionGrant, SessionRules, Switch,
};
use crate::presentation::broadcast::Broadcast;
use crate::presentation::select::{Choice, GrantScope, Plain};
use crate::program::{Failure, Outcome};
use crate::prompt::Answerer;
use crate::spool::{Candidate, FileRead, FileStamp, RequesterLife};
use crate::wire::{
    Annotation, AuthorizerVerdict, Decision, DecisionSource, DecisionState, Digest, GrantWidth,
    Lifetime, LinkVerdict, RequestId, Ruling, SessionId, UserSurface,
};

/// The limits of the modelled inbox.
const INBOX: policy::Inbox = policy::Inbox {
    max_pending: 2,
    expire: Some(Duration::from_secs(30)),
    retain: 3,
};

/// Oldest age of a request that does not say how long it waits.
const MAX_AGE: Duration = Duration::from_mins(1);

/// The rules of the modelled session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rules {
    /// `ls` is allowed, `rm` denied, and everything else asked: what holds at first.
    First,
    /// `make` is allowed as well, and `cook` denied.
    Second,
    /// Nothing is allowed, and `rm` denied: the first ones, whose file is broken now.
    Clamped,
}

impl Rules {
    fn allows(self, command: &str) -> bool {
        match self {
            Self::First => command == "ls",
            Self::Second => matches!(command, "ls" | "make"),
            Self::Clamped => false,
        }
    }

    fn denies(self, command: &str) -> bool {
        command == "rm" || self == Self::Second && command == "cook"
    }

    fn policy(self) -> Policy {
        let rules: &[u8] = match self {
            Self::First | Self::Clamped => br#"{"permission": {"bash": {"ls": "allow", "rm": "deny"}}}"#,
            Self::Second => {
                br#"{"permission": {"bash": {"ls": "allow", "make": "allow", "cook": "deny", "rm": "deny"}}}"#
            }
        };
        let policy = policy_of(rules);
        if self == Self::Clamped {
            policy.clamped()
        } else {
            policy
        }
    }

    /// What brings these rules, with this chain.
    fn renewal(self, authorizers: AuthorizerChain) -> Box<Renewal> {
        Box::new(Renewal {
            policy: Arc::new(self.policy()),
            trouble: (self == Self::Clamped).then(|| Trouble::Broken("it is torn".to_owned())),
            files: Vec::new(),
            notices: Vec::new(),
            annotators: AnnotatorChain::default(),
            authorizers,
            forwarding_timeout: Duration::from_mins(10),
            request_max_age: MAX_AGE,
            limits: policy::Limits::default(),
        })
    }
}

/// The policy of a session with this configuration.
fn policy_of(config: &[u8]) -> Policy {
    let config = Config::read(config, "test").unwrap();
    Policy::from_layers(&Layers {
        global: LayerRules::Rules(&config.permission),
        project: LayerRules::Absent,
        agents: Vec::new(),
        yolo: Switch::Off,
        ..Layers::default()
    })
}

fn id(text: &str) -> RequestId {
    RequestId::parse(text).unwrap()
}

fn by_person() -> Answerer {
    Answerer::Person(UserSurface::Select)
}

fn approval_of_parent() -> RelayOutcome {
    RelayOutcome::Answered(Decision::approved(DecisionSource::forwarded_from(
        Some("G".into()),
        Some(DecisionSource::User {
            via: UserSurface::Dialog,
        }),
    )))
}

fn grant_for_session() -> Choice {
    session(GrantScope::ServingSession, Lifetime::SessionEnd)
}

fn session(scope: GrantScope, lifetime: Lifetime) -> Choice {
    Choice::Session {
        scope,
        width: GrantWidth::Proven,
        lifetime,
    }
}

/// The session that asks under an id.
fn requester_of(id: &str) -> String {
    format!("child-{}", &id[..1])
}

/// What a file in the modelled inbox holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Content {
    /// A usable request for this command line.
    Asks(&'static str),
    /// The same, of rules only.
    AsksRules(&'static str),
    /// As above, where nobody is to be asked even where a rule says so.
    AsksVerdict(&'static str),
    /// The same about one name of a call.
    AsksGuard(&'static str),
    /// As above, without the facts that policy judges.
    WithoutFacts,
    /// As above, with text that had to be replaced.
    Replaced,
    /// Bytes that are no document.
    Torn,
    /// A document that is no request.
    NoRequest,
    /// A request to another session.
    Misaddressed,
    /// A request of the serving session itself.
    OwnAsk,
    /// A request under another's name.
    Misnamed,
}

const CONTENTS: [Content; 11] = [
    Content::Asks("ls"),
    Content::Asks("rm"),
    Content::Asks("make"),
    Content::Asks("make"),
    Content::Asks("cook"),
    Content::WithoutFacts,
    Content::Replaced,
    Content::Torn,
    Content::NoRequest,
    Content::Misaddressed,
    Content::OwnAsk,
];

impl Content {
    /// What is granted with it.
    fn grants(self) -> Option<&'static str> {
        match self {
            Self::Asks(command)
            | Self::AsksRules(command)
            | Self::AsksVerdict(command)
            | Self::AsksGuard(command) => Some(command),
            Self::WithoutFacts | Self::Replaced => Some("ls"),
            Self::Torn | Self::NoRequest | Self::Misaddressed | Self::OwnAsk | Self::Misnamed => {
                None
            }
        }
    }

    fn bytes(self, id: &str, nonce: u64, held: bool) -> Vec<u8> {
        let (mut name, mut target, mut requester) = (id.to_owned(), "P", requester_of(id));
        let mut value = "ls";
        let mut facts = true;
        match self {
            Self::Asks(command)
            | Self::AsksRules(command)
            | Self::AsksVerdict(command)
            | Self::AsksGuard(command) => value = command,
            Self::WithoutFacts => facts = false,
            Self::Replaced => {}
            Self::Torn => return format!("{{\"nonce\":{nonce}").into_bytes(),
            Self::NoRequest => return format!("[{nonce}]").into_bytes(),
            Self::Misaddressed => target = "Q",
            Self::OwnAsk => requester = "P".to_owned(),
            Self::Misnamed => name = "other".to_owned(),
        }
        let intent = facts.then(|| {
            serde_json::json!({
                "surface": "bash", "matchValues": [value], "boundaryValue": null, "requesterCwd": "/w",
                "principal": {"sessionId": "c", "agentName": "scout"},
            })
        });
        // What is asked for and what could be granted for it are the same text.
        let mut bytes = serde_json::json!({
            "id": name, "createdAt": nonce, "requesterSessionId": requester, "targetSessionId": target,
            "requesterAgentName": "scout", "surface": "bash", "value": value, "accessIntent": intent,
            "sessionApproval": {"grants": [{"surface": "bash", "pattern": value}]},
            "relay": {
                "v": 1, "held": held, "nonce": nonce.to_string(),
                "rulesOnly": matches!(self, Self::AsksRules(_) | Self::AsksVerdict(_) | Self::AsksGuard(_)),
                "verdictOnly": matches!(self, Self::AsksVerdict(_) | Self::AsksGuard(_)),
                "guard": matches!(self, Self::AsksGuard(_)),
            },
        })
        .to_string()
        .into_bytes();
        if self == Self::Replaced {
            let at = bytes.windows(4).position(|four| four == b"\"ls\"").unwrap();
            bytes[at + 1] = 0xff;
        }
        bytes
    }
}

#[derive(Debug, Clone)]
struct File {
    bytes: Vec<u8>,
    stamp: FileStamp,
    content: Content,
    held: bool,
    life: RequesterLife,
}

/// One thing that happens.
#[derive(Debug, Clone)]
enum Op {
    /// A file appears, or replaces the one of this name.
    Put(&'static str, Content, bool),
    /// A file goes.
    Take(&'static str),
    /// A requester that holds its file ends.
    Die(&'static str),
    /// The inbox is listed.
    List,
    /// Some effects are performed. The flag says whether the machine fails at it.
    Work(usize, bool),
    /// The person answers what is shown.
    Choose(Choice),
    /// The person puts off what is shown, or something else than that, or wants to see all that was put off.
    PutOff,
    PutOffOther(&'static str),
    Resume,
    /// The person answers what is shown and all that is named beside it, as it was or in other bytes.
    Together(Plain, bool),
    /// The person opens an ask of the inbox, or leaves the review of one.
    Review(&'static str),
    Close(&'static str),
    /// The person denies an ask of the inbox unopened, as the list has it or in other bytes.
    Deny(&'static str, bool),
    /// An answer comes for something that is not shown.
    ChooseOther(&'static str, Choice),
    /// The parent answers an ask, or an ask that it was once asked.
    Relayed(&'static str, bool),
    /// The parent gives an ask back.
    GiveBack(&'static str),
    /// The annotators are done with an ask, or with an ask that they were once asked about.
    Annotated(&'static str, bool),
    /// A link says this about an ask, or about one that it was once asked about; none for a failure.
    Authorized(&'static str, Option<Ruling>, bool),
    Parent(ParentLife),
    PersonGone,
    /// The configuration was read again.
    Renew(Rules),
    Closed(&'static str),
    Pass(u64),
    /// Somebody takes a grant back. The flag says whether that is seen at once.
    Revoke(bool),
}

fn name() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["a", "b", "c", "d"])
}

fn choice() -> impl Strategy<Value = Choice> {
    prop::sample::select(vec![
        Choice::Once,
        Choice::Deny,
        Choice::DenyWithReason("no".into()),
        grant_for_session(),
        session(GrantScope::Requester, Lifetime::SessionEnd),
        session(GrantScope::Requester, Lifetime::Uses(2)),
        session(GrantScope::ServingSession, Lifetime::Uses(2)),
        session(
            GrantScope::ServingSession,
            Lifetime::For(Duration::from_secs(2)),
        ),
    ])
}

fn ruling() -> impl Strategy<Value = Option<Ruling>> {
    prop::sample::select(vec![
        None,
        Some(Ruling::Allow),
        Some(Ruling::Defer),
        Some(Ruling::Deny),
    ])
}

fn op() -> impl Strategy<Value = Op> {
    let content = prop::sample::select(CONTENTS.to_vec());
    prop_oneof![
        6 => (name(), content, any::<bool>()).prop_map(|(name, content, held)| Op::Put(name, content, held)),
        1 => name().prop_map(|name| Op::Put(name, Content::Misnamed, false)),
        1 => name().prop_map(Op::Take),
        1 => name().prop_map(Op::Die),
        5 => Just(Op::List),
        8 => (1_usize..6, prop::bool::weighted(0.2)).prop_map(|(count, fails)| Op::Work(count, fails)),
        4 => choice().prop_map(Op::Choose),
        2 => Just(Op::PutOff),
        1 => name().prop_map(Op::PutOffOther),
        1 => Just(Op::Resume),
        3 => (prop::sample::select(vec![Plain::Yes, Plain::No]), prop::bool::weighted(0.2))
            .prop_map(|(verdict, stale)| Op::Together(verdict, stale)),
        4 => name().prop_map(Op::Review),
        1 => name().prop_map(Op::Close),
        2 => (name(), prop::bool::weighted(0.2)).prop_map(|(name, stale)| Op::Deny(name, stale)),
        1 => (name(), choice()).prop_map(|(name, choice)| Op::ChooseOther(name, choice)),
        2 => (name(), any::<bool>()).prop_map(|(name, stale)| Op::Relayed(name, stale)),
        1 => name().prop_map(Op::GiveBack),
        4 => (name(), prop::bool::weighted(0.2)).prop_map(|(name, stale)| Op::Annotated(name, stale)),
        6 => (name(), ruling(), prop::bool::weighted(0.1))
            .prop_map(|(name, ruling, stale)| Op::Authorized(name, ruling, stale)),
        1 => prop::sample::select(vec![ParentLife::Serving, ParentLife::NotServing]).prop_map(Op::Parent),
        1 => Just(Op::PersonGone),
        2 => prop::sample::select(vec![Rules::First, Rules::Second, Rules::Clamped]).prop_map(Op::Renew),
        1 => name().prop_map(Op::Closed),
        2 => prop::sample::select(vec![1_u64, 20, 1_100, 2_500, 2_500, 20_000, 70_000]).prop_map(Op::Pass),
        2 => any::<bool>().prop_map(Op::Revoke),
    ]
}

/// The machine around the step: an inbox, a screen, a parent. It checks every effect against what it knows.
struct Model {
    state: State,
    now: u64,
    files: HashMap<&'static str, File>,
    next: u64,
    work: VecDeque<Effect>,
    reads: VecDeque<Candidate>,
    shown: Option<(RequestId, Digest)>,
    inbox: Option<policy::Inbox>,
    /// The list as the person sees it.
    listing: Listing,
    /// Whose review is open or about to be, as the step said last.
    open: Option<RequestId>,
    /// Whose review the person has asked for and not seen yet.
    wanted: HashSet<RequestId>,
    /// What was read last under each id.
    contents: HashMap<RequestId, Content>,
    /// What is named beside what is shown.
    alike: Alike,
    /// What the person has put off and not asked for since, and when.
    put_off: HashMap<(RequestId, Digest), u64>,
    /// What the person has denied.
    denied: HashSet<(RequestId, Digest)>,
    /// What the annotators said about the ask that was shown last.
    annotations: Vec<Annotation>,
    /// What annotators are asked about, and were ever.
    annotating: HashMap<RequestId, Digest>,
    once_annotated: HashMap<RequestId, Digest>,
    /// Which link is asked about which bytes, and all that were.
    authorizing: HashMap<RequestId, (Digest, String)>,
    once_authorized: Vec<(RequestId, Digest, String)>,
    /// The links that have left an ask open.
    heard: HashSet<(RequestId, Digest, String)>,
    /// What a link has refused.
    refused: HashSet<(RequestId, Digest)>,
    /// Which link the person was told to be waiting for, with the ask that was shown last.
    with_chain: Option<String>,
    log: Vec<Entry>,
    told: Vec<Broadcast>,
    /// What was taken off the screen, and why.
    withdrawn: Vec<(RequestId, String)>,
    notices: Vec<String>,
    /// What the parent was asked, and is still asked.
    relayed: HashMap<RequestId, Digest>,
    /// What it was ever asked.
    once_relayed: HashMap<RequestId, Digest>,
    /// Everything that was read.
    read: HashSet<(RequestId, Digest)>,
    /// What may be approved, because a rule, a grant, the person or the parent says so.
    licensed: HashSet<(RequestId, Digest)>,
    rules: Rules,
    /// What is in force: the command, and the requester that it was given to where it is not for the session.
    granted: HashMap<GrantId, (&'static str, Option<String>)>,
    /// Grants that have a file.
    grant_files: HashSet<GrantId>,
    /// Grants whose file was taken away.
    revoked: HashSet<GrantId>,
    /// When a grant ends, and how many answers have rested on it.
    grant_ends: HashMap<GrantId, u64>,
    used: HashMap<GrantId, u32>,
    /// For what grants are given that are to be kept.
    to_grant: HashMap<RequestId, &'static str>,
    decided: HashMap<(RequestId, Digest), Decision>,
    delivered: HashSet<(RequestId, Digest)>,
    /// Files that stay, for the machine failed on them for good.
    left: HashSet<&'static str>,
    shutting_down: bool,
    finished: bool,
}

impl Model {
    fn new(person: Person, parent: Option<&str>) -> Self {
        Self::with(person, parent, false, None)
    }

    fn with_inbox(person: Person, parent: Option<&str>, inbox: Option<policy::Inbox>) -> Self {
        Self::with(person, parent, false, inbox)
    }

    fn with(
        person: Person,
        parent: Option<&str>,
        annotates: bool,
        inbox: Option<policy::Inbox>,
    ) -> Self {
        Self::with_chain(person, parent, annotates, inbox, AuthorizerChain::default())
    }

    fn with_chain(
        person: Person,
        parent: Option<&str>,
        annotates: bool,
        inbox: Option<policy::Inbox>,
        chain: AuthorizerChain,
    ) -> Self {
        let setup = Setup {
            session: SessionId::parse("P").unwrap(),
            requests_path: "/spool/requests".into(),
            responses_path: "/spool/responses".into(),
            person,
            parent: parent.map(|parent| SessionId::parse(parent).unwrap()),
            forwarding_timeout: Duration::from_mins(10),
            request_max_age: MAX_AGE,
            limits: policy::Limits::default(),
            inbox,
            annotates,
            persist_grants: false,
            chain,
            most_chains: MOST_CHAINS,
        };
        let mut state = State::new(
            setup,
            Arc::new(Rules::First.policy()),
            SessionRules::new(None),
        );
        state.set_file_clock(FileClock::default());
        Self {
            state,
            now: 0,
            files: HashMap::new(),
            next: 0,
            work: VecDeque::new(),
            reads: VecDeque::new(),
            shown: None,
            inbox,
            listing: Listing::default(),
            open: None,
            wanted: HashSet::new(),
            contents: HashMap::new(),
            alike: Alike::default(),
            put_off: HashMap::new(),
            denied: HashSet::new(),
            annotations: Vec::new(),
            annotating: HashMap::new(),
            once_annotated: HashMap::new(),
            authorizing: HashMap::new(),
            once_authorized: Vec::new(),
            heard: HashSet::new(),
            refused: HashSet::new(),
            with_chain: None,
            log: Vec::new(),
            told: Vec::new(),
            withdrawn: Vec::new(),
            notices: Vec::new(),
            relayed: HashMap::new(),
            once_relayed: HashMap::new(),
            read: HashSet::new(),
            licensed: HashSet::new(),
            rules: Rules::First,
            granted: HashMap::new(),
            grant_files: HashSet::new(),
            revoked: HashSet::new(),
            grant_ends: HashMap::new(),
            used: HashMap::new(),
            to_grant: HashMap::new(),
            decided: HashMap::new(),
            delivered: HashSet::new(),
            left: HashSet::new(),
            shutting_down: false,
            finished: false,
        }
    }

    fn moment(&self) -> Moment {
        Moment::from_start(Duration::from_millis(self.now))
    }

    fn step(&mut self, event: Event) {
        for effect in self.effects_of(event) {
            if let Effect::Read(candidate) = effect {
                self.reads.push_back(candidate);
            } else {
                self.work.push_back(effect);
            }
        }
    }

    /// As the loop does: everything that was decided is done, in order, before the next file is read.
    fn next_effect(&mut self) -> Option<Effect> {
        let read = || self.reads.pop_front().map(Effect::Read);
        self.work.pop_front().or_else(read)
    }

    fn is_at_rest(&self) -> bool {
        self.work.is_empty() && self.reads.is_empty()
    }

    fn effects_of(&mut self, event: Event) -> Vec<Effect> {
        let effects = self.state.step(self.moment(), event);
        self.state.check_chains();
        for effect in &effects {
            if let Effect::List(listing) = effect {
                self.open = of_open(listing).cloned();
            }
        }
        let opens = |effect: &Effect| {
            matches!(
                effect,
                Effect::Show(_) | Effect::Relay(_) | Effect::Annotate(_) | Effect::Authorize(_)
            )
        };
        assert!(
            !(self.shutting_down && effects.iter().any(opens)),
            "something is begun in a session that ends: {effects:?}"
        );
        effects
    }

    fn put(&mut self, name: &'static str, content: Content, held: bool) {
        self.next += 1;
        let bytes = content.bytes(name, self.next, held);
        let stamp = FileStamp {
            dev: 1,
            ino: self.next,
            size: bytes.len() as u64,
            mtime_ns: i128::from(self.now) * 1_000_000,
        };
        let life = if held {
            RequesterLife::Waiting
        } else {
            RequesterLife::Unknown
        };
        let file = File {
            bytes,
            stamp,
            content,
            held,
            life,
        };
        self.files.insert(name, file);
    }

    fn candidates(&self) -> Vec<Candidate> {
        let mut names: Vec<_> = self.files.keys().collect();
        names.sort_unstable();
        names
            .into_iter()
            .map(|name| Candidate::of(&id(name)))
            .collect()
    }

    fn list(&mut self) {
        // What could not even be moved aside is looked at again once it was seen to be gone.
        self.left.retain(|name| self.files.contains_key(name));
        let candidates = self.candidates();
        self.step(Event::Listed(candidates));
    }

    fn op(&mut self, op: Op) {
        match op {
            Op::Put(name, content, held) => self.put(name, content, held),
            Op::Take(name) => {
                self.files.remove(name);
                // The same bytes, put there again, are asked anew.
                self.heard.retain(|(ask, ..)| ask.as_str() != name);
            }
            Op::Die(name) => {
                if let Some(file) = self.files.get_mut(name).filter(|file| file.held) {
                    file.life = RequesterLife::Gone;
                }
            }
            Op::List => self.list(),
            Op::Work(count, fails) => self.work(count, fails),
            Op::Choose(choice) => {
                if let Some((id, digest)) = self.shown.take() {
                    self.choose(id, digest, choice);
                }
            }
            Op::PutOff => self.put_off(),
            Op::Together(verdict, stale) => self.answer_together(verdict, stale),
            Op::PutOffOther(name) => self.step(Event::PutOff {
                id: id(name),
                digest: Digest::of(b"something else"),
                via: UserSurface::Dialog,
            }),
            Op::Resume => {
                self.put_off.clear();
                self.step(Event::Resume);
            }
            Op::Review(name) => {
                let before = self.open.clone();
                self.step(Event::Review(id(name)));
                if let Some(before) = before {
                    assert_eq!(Some(before), self.open, "a review in place of another");
                } else {
                    self.wanted.extend(self.open.clone());
                }
            }
            Op::Close(name) => {
                self.step(Event::CloseReview(id(name)));
            }
            Op::Deny(name, stale) => self.deny(name, stale),
            Op::ChooseOther(name, choice) => self.step(Event::Chosen {
                id: id(name),
                digest: Digest::of(b"something else"),
                choice,
                by: by_person(),
            }),
            Op::Relayed(name, stale) => {
                let of = if stale {
                    &self.once_relayed
                } else {
                    &self.relayed
                };
                if let Some(digest) = of.get(&id(name)).copied() {
                    if self.relayed.get(&id(name)) == Some(&digest) {
                        self.licensed.insert((id(name), digest));
                        self.relayed.remove(&id(name));
                    }
                    self.step(Event::Relayed(id(name), digest, approval_of_parent()));
                }
            }
            Op::GiveBack(name) => {
                if let Some(digest) = self.relayed.remove(&id(name)) {
                    let nobody = RelayOutcome::Nobody(Decision::unavailable("nobody there"));
                    self.step(Event::Relayed(id(name), digest, nobody));
                }
            }
            Op::Annotated(name, stale) => {
                let of = if stale {
                    &self.once_annotated
                } else {
                    &self.annotating
                };
                if let Some(digest) = of.get(&id(name)).copied() {
                    if self.annotating.get(&id(name)) == Some(&digest) {
                        self.annotating.remove(&id(name));
                    }
                    self.annotated(name, digest);
                }
            }
            Op::Authorized(name, ruling, stale) => self.authorized(name, ruling, stale),
            Op::Parent(life) => self.step(Event::Parent(life)),
            Op::PersonGone => self.step(Event::PersonGone),
            Op::Renew(rules) => {
                self.rules = rules;
                let chain = self.state.chain().clone();
                self.step(Event::Renewed(rules.renewal(chain)));
            }
            Op::Closed(name) => self.step(Event::Closed(id(name))),
            Op::Revoke(is_seen) => self.revoke(is_seen),
            Op::Pass(ms) => {
                self.now += ms;
                self.step(Event::Tick);
            }
        }
    }

    /// The person answers what is in front of them, and all that is named beside it.
    fn answer_together(&mut self, verdict: Plain, stale: bool) {
        let Some(likeness) = self.alike.likeness else {
            return;
        };
        let Some(first) = self.shown.take() else {
            return;
        };
        let twins = self.alike.twins.iter();
        let mut asks = vec![first];
        asks.extend(twins.map(|twin| (twin.id.clone(), twin.digest)));
        for pair in &asks {
            match verdict {
                Plain::Yes => self.licensed.insert(pair.clone()),
                Plain::No => self.denied.insert(pair.clone()),
            };
        }
        if stale && let Some((_, digest)) = asks.last_mut() {
            *digest = Digest::of(b"something else");
        }
        self.step(Event::AnsweredTogether {
            asks,
            likeness,
            verdict,
            by: by_person(),
        });
    }

    /// Whether what is named beside an ask on screen is what it may be: others, of the same content as read.
    fn see_alike(&mut self, id: &RequestId, alike: Alike) {
        let mut names: HashSet<&RequestId> = alike.twins.iter().map(|twin| &twin.id).collect();
        assert!(
            names.len() == alike.twins.len() && names.insert(id),
            "{alike:?}"
        );
        for twin in &alike.twins {
            assert!(
                self.read.contains(&(twin.id.clone(), twin.digest)),
                "named unread"
            );
            assert!(twin.session.starts_with("child-") && twin.agent == "scout");
            let contents = [id, &twin.id].map(|id| self.contents.get(id).copied());
            assert_eq!(contents[0], contents[1], "they are not alike");
        }
        self.alike = alike;
    }

    /// Somebody takes the oldest grant back.
    fn revoke(&mut self, is_seen: bool) {
        let Some(id) = self.grant_files.iter().min().copied() else {
            return;
        };
        self.grant_files.remove(&id);
        self.revoked.insert(id);
        if is_seen {
            self.step(Event::GrantsLost(vec![(id, "its file is gone".into())]));
        }
    }

    /// The person puts off what is in front of them.
    fn put_off(&mut self) {
        let Some((id, digest)) = self.shown.clone() else {
            return;
        };
        if self.inbox.is_none() {
            self.shown = None;
            self.put_off.insert((id.clone(), digest), self.now);
        }
        let via = UserSurface::Dialog;
        self.step(Event::PutOff { id, digest, via });
    }

    /// The person denies an ask of the list, as the list has it or in other bytes.
    fn deny(&mut self, name: &str, stale: bool) {
        let listed = self.listing.asks.iter().find(|ask| ask.id.as_str() == name);
        let Some(digest) = listed.map(|ask| ask.digest) else {
            return;
        };
        let digest = if stale {
            Digest::of(b"something else")
        } else {
            self.denied.insert((id(name), digest));
            digest
        };
        self.step(Event::Denied {
            id: id(name),
            digest,
            by: by_person(),
        });
    }

    /// Two annotators are done with an ask: one with a text, one without.
    fn annotated(&mut self, name: &str, digest: Digest) {
        let outcomes = vec![
            AnnotatorOutcome {
                name: "first".into(),
                outcome: Outcome::Answered(format!("about {name}")),
            },
            AnnotatorOutcome {
                name: "second".into(),
                outcome: Outcome::Failed(Failure::TooMuch),
            },
        ];
        self.step(Event::Annotated(id(name), digest, outcomes));
    }

    /// The link that is asked about an ask answers; or one that was asked once does, whoever is asked now.
    fn authorized(&mut self, name: &str, ruling: Option<Ruling>, stale: bool) {
        let ask = id(name);
        let (digest, link) = if stale {
            let of_it = |(other, ..): &&(RequestId, Digest, String)| *other == ask;
            let Some((_, digest, link)) = self.once_authorized.iter().find(of_it).cloned() else {
                return;
            };
            if self.authorizing.get(&ask) == Some(&(digest, link.clone())) {
                return;
            }
            (digest, link)
        } else {
            let Some(asked) = self.authorizing.remove(&ask) else {
                return;
            };
            let pair = (ask.clone(), asked.0);
            match ruling {
                Some(Ruling::Allow) if self.may_be_allowed(&pair) => {
                    self.licensed.insert(pair);
                }
                Some(Ruling::Deny) => drop(self.refused.insert(pair)),
                Some(Ruling::Allow | Ruling::Defer) | None => {}
            }
            asked
        };
        let outcome = match ruling {
            None => Outcome::Failed(Failure::TooMuch),
            Some(ruling) => Outcome::Answered(LinkVerdict {
                ruling,
                reason: Some("so it says".into()),
            }),
        };
        let before = self.work.len();
        self.step(Event::Authorized(Authorized {
            id: ask.clone(),
            digest,
            link: link.clone(),
            outcome,
            latency: Duration::from_millis(7),
        }));
        let mut new = self.work.iter().skip(before);
        if new.any(|effect| matches!(effect, Effect::Log(entry) if entry.event() == audit::Event::AuthorizerLink.name())) {
            self.heard.insert((ask, digest, link));
        }
    }

    /// Whether a link may allow what these bytes ask: their surface is known, and their text is what was sent.
    fn may_be_allowed(&self, (ask, digest): &(RequestId, Digest)) -> bool {
        let file = self.files.get(ask.as_str());
        let file = file.filter(|file| Digest::of(&file.bytes) == *digest);
        // What has gone meanwhile is approved by nobody in any case.
        self.rules != Rules::Clamped && file.is_none_or(|file| file.content != Content::Replaced)
    }

    /// The person answers what is in front of them.
    fn choose(&mut self, id: RequestId, digest: Digest, choice: Choice) {
        let file = self.files.get(id.as_str());
        let asked = file.filter(|file| Digest::of(&file.bytes) == digest);
        if let Some(command) = asked.and_then(|file| file.content.grants())
            && matches!(choice, Choice::Session { .. })
        {
            self.to_grant.insert(id.clone(), command);
        }
        if matches!(choice, Choice::Deny | Choice::DenyWithReason(_)) {
            self.denied.insert((id.clone(), digest));
        } else {
            self.licensed.insert((id.clone(), digest));
        }
        self.step(Event::Chosen {
            id,
            digest,
            choice,
            by: by_person(),
        });
    }

    fn work(&mut self, count: usize, fails: bool) {
        for _ in 0..count {
            if self.finished {
                return;
            }
            let Some(effect) = self.next_effect() else {
                return;
            };
            self.perform(effect, fails);
        }
    }

    fn perform(&mut self, effect: Effect, fails: bool) {
        match effect {
            Effect::Read(candidate) => self.perform_read(candidate, fails),
            Effect::Answer(answer) => self.perform_answer(&answer, fails),
            Effect::Log(entry) => self.log.push(entry),
            Effect::Broadcast(told) => self.told.push(told),
            Effect::Notice(text) => self.notices.push(text),
            Effect::CheckLife(id) => {
                let file = self.files.get(id.as_str());
                let life = file.map_or(RequesterLife::RequestGone, |file| file.life);
                self.step(Event::Life(id, life));
            }
            Effect::Remove(id) => drop(self.files.remove(id.as_str())),
            Effect::SetAside {
                candidate, answer, ..
            } => {
                let id = candidate.id.clone().unwrap();
                assert!(answer.is_none_or(|answer| !answer.is_approved()));
                if fails && let Some(name) = self.name_of(&id) {
                    self.left.insert(name);
                    self.step(Event::Stuck(candidate));
                } else {
                    self.files.remove(id.as_str());
                }
            }
            Effect::Show(shown) => self.show(*shown),
            Effect::Alike { id, alike } => {
                if self.shown.as_ref().is_some_and(|(shown, _)| *shown == id) {
                    self.see_alike(&id, alike);
                }
            }
            Effect::Withdraw { id, why } => {
                self.withdrawn.push((id.clone(), why));
                // It may have been asked for again meanwhile.
                if self.open.as_ref() != Some(&id) {
                    self.wanted.remove(&id);
                }
                if self.shown.as_ref().is_some_and(|(shown, _)| *shown == id) {
                    self.shown = None;
                }
            }
            Effect::List(listing) => self.see(*listing),
            Effect::Relay(relay) => {
                let id = relay.request.id.clone();
                assert!(self.read.contains(&(id.clone(), relay.digest)));
                // Somebody else is asked: what comes back from there has not rested for nothing.
                self.put_off.remove(&(id.clone(), relay.digest));
                let before = self.relayed.insert(id.clone(), relay.digest);
                assert_eq!(before, None, "{id} is with the parent already");
                self.once_relayed.insert(id, relay.digest);
            }
            Effect::CancelRelay(id) => drop(self.relayed.remove(&id)),
            Effect::Annotate(annotate) => {
                let (id, digest) = (annotate.facts.request_id, annotate.digest);
                assert!(self.read.contains(&(id.clone(), digest)));
                let before = self.annotating.insert(id.clone(), digest);
                assert_eq!(before, None, "{id} is being annotated already");
                self.once_annotated.insert(id, digest);
            }
            Effect::CancelAnnotating(id) => drop(self.annotating.remove(&id)),
            Effect::KeepGrants(id, grants) => self.perform_keep(&id, grants, fails),
            Effect::CountGrant(grant) => assert_eq!(grant.uses_left(), Some(1)),
            Effect::DropGrant(id) => {
                self.grant_files.remove(&id);
                self.granted.remove(&id);
            }
            Effect::Authorize(authorize) => {
                let (id, digest) = (authorize.facts.request_id.clone(), authorize.digest);
                let link = authorize.link.name().to_owned();
                assert!(self.read.contains(&(id.clone(), digest)));
                let again = (id.clone(), digest, link.clone());
                assert!(!self.heard.contains(&again), "asked again: {again:?}");
                let asked = (digest, link.clone());
                let before = self.authorizing.insert(id.clone(), asked);
                assert_eq!(before, None, "{id} is with a link already");
                self.once_authorized.push((id, digest, link));
            }
            // It may have answered before it could be stopped.
            Effect::CancelAuthorizing(id) => drop(self.authorizing.remove(&id)),
            Effect::Thinking(id, link) => {
                if self.shown.as_ref().is_some_and(|(shown, _)| *shown == id) {
                    self.with_chain = link;
                }
            }
            Effect::Finished => self.finished = true,
        }
    }

    fn perform_keep(&mut self, id: &RequestId, grants: Vec<SessionGrant>, fails: bool) {
        let command = self.to_grant.remove(id).expect("nobody granted this");
        if fails {
            return self.step(Event::GrantsKept(Vec::new()));
        }
        for grant in &grants {
            assert_eq!(grant.pattern().as_str(), command);
            let to = match &grant.terms.scope {
                policy::GrantScope::ServingSession => None,
                policy::GrantScope::Subagent(chain) => Some(chain[0].clone()),
            };
            self.granted.insert(grant.id(), (command, to));
            assert!(self.grant_files.insert(grant.id()), "a number given twice");
            if let Lifetime::For(time) = grant.terms.lifetime {
                let ends = self.now + u64::try_from(time.as_millis()).unwrap();
                self.grant_ends.insert(grant.id(), ends);
            }
        }
        self.step(Event::GrantsKept(grants));
    }

    /// An ask is put before the person.
    fn show(&mut self, shown: Shown) {
        assert_eq!(self.shown, None, "a question over an open question");
        let pair = (shown.request.id.clone(), shown.digest);
        assert!(self.read.contains(&pair), "shown unread");
        let since = self.put_off.remove(&pair);
        assert!(
            since.is_none_or(|since| self.now >= since + 30_000),
            "shown although it was put off"
        );
        if self.inbox.is_some() {
            assert!(self.wanted.remove(&pair.0), "it opens by itself");
        }
        assert!(
            !self.annotating.contains_key(&pair.0),
            "shown before its annotations"
        );
        self.see_alike(&pair.0, shown.alike);
        self.annotations = shown.annotations;
        self.with_chain = shown.with_chain;
        self.shown = Some(pair);
    }

    /// The list is put before the person.
    fn see(&mut self, listing: Listing) {
        let limits = self.inbox.expect("there is no list");
        let of = |state| {
            listing
                .asks
                .iter()
                .filter(move |ask| ask.state == state)
                .count()
        };
        assert!(of(ListedState::Waiting) + of(ListedState::Open) <= limits.max_pending);
        assert!(of(ListedState::Open) <= 1, "two reviews are open");
        assert!(listing.resolutions.len() <= limits.retain);
        self.listing = listing;
    }

    fn name_of(&self, id: &RequestId) -> Option<&'static str> {
        self.files.keys().copied().find(|name| *name == id.as_str())
    }

    fn perform_read(&mut self, candidate: Candidate, fails: bool) {
        let id = candidate.id.clone().unwrap();
        let Some(file) = self.files.get(id.as_str()).cloned() else {
            return self.step(Event::Read(
                candidate,
                FileRead::Missing,
                RequesterLife::Unknown,
            ));
        };
        if fails {
            let failed = FileRead::Failed(std::io::ErrorKind::Interrupted.into());
            return self.step(Event::Read(candidate, failed, RequesterLife::Unknown));
        }
        let pair = (id, Digest::of(&file.bytes));
        let requester = requester_of(pair.0.as_str());
        let is_granted = |command| {
            let mut granted = self.granted.values();
            granted.any(|(granted, to)| {
                *granted == command && to.as_ref().is_none_or(|to| *to == requester)
            })
        };
        if let Content::Asks(command) | Content::AsksRules(command) | Content::AsksGuard(command) =
            file.content
            && (self.rules.allows(command) || is_granted(command) && !self.rules.denies(command))
        {
            self.licensed.insert(pair.clone());
        }
        self.contents.insert(pair.0.clone(), file.content);
        self.read.insert(pair);
        let content = FileRead::Content {
            bytes: file.bytes,
            stamp: file.stamp,
        };
        self.step(Event::Read(candidate, content, file.life));
    }

    /// Looks, as the loop does before anything is recorded, whether what an answer rests on is there. Where it is not, it is told so.
    fn is_without_its_grants(&mut self, answer: &Answer) -> bool {
        if answer.rests_on.is_empty() {
            return false;
        }
        let is_lost = |id: &&GrantId| !self.grant_files.contains(id);
        let lost: Vec<_> = (answer.rests_on.iter().filter(is_lost))
            .map(|id| (*id, "its file is gone".to_owned()))
            .collect();
        if !lost.is_empty() || !self.state.are_in_force(self.moment(), &answer.rests_on) {
            // What was decided, and perhaps recorded, reaches nobody: it is decided again.
            self.decided.remove(&(answer.id.clone(), answer.digest));
            let gone = Delivery::GrantsGone(lost);
            self.step(Event::Answered(answer.id.clone(), gone));
            return true;
        }
        for id in &answer.rests_on {
            assert!(
                !self.revoked.contains(id),
                "it rests on what was taken back"
            );
            let ends = self.grant_ends.get(id).copied().unwrap_or(u64::MAX);
            assert!(ends > self.now, "it rests on what is over");
            assert!(
                self.used.get(id).copied().unwrap_or(0) < 2,
                "used too often"
            );
        }
        false
    }

    /// A person or a link is credited with a denial only where it denied.
    fn check_denial(&self, answer: &Answer, pair: &(RequestId, Digest)) {
        if let DecisionSource::Authorizer {
            verdict: AuthorizerVerdict::Deny,
            ..
        } = answer.decision.decided_by
        {
            assert!(self.refused.contains(pair), "no link refused: {answer:?}");
        }
        if matches!(answer.decision.decided_by, DecisionSource::User { .. })
            && !answer.decision.is_approved()
        {
            assert!(self.denied.contains(pair), "nobody denied this: {answer:?}");
        }
    }

    fn perform_answer(&mut self, answer: &Answer, fails: bool) {
        let pair = (answer.id.clone(), answer.digest);
        if self.is_without_its_grants(answer) {
            return;
        }
        assert!(
            self.read.contains(&pair),
            "{answer:?} answers what was not read"
        );
        if answer.decision.is_approved() {
            assert!(
                self.licensed.contains(&pair),
                "nobody allowed this: {answer:?}"
            );
            assert!(!answer.decision.decided_by.is_nobody(), "{answer:?}");
            assert_ne!(
                answer.decision.state,
                DecisionState::ApprovedForServingSession,
                "this state is not for the wire"
            );
        }
        self.check_denial(answer, &pair);
        assert!(
            !self.delivered.contains(&pair),
            "answered twice: {answer:?}"
        );
        if !self.shutting_down {
            let before = self.decided.insert(pair.clone(), answer.decision.clone());
            assert!(
                before.is_none_or(|before| before == answer.decision),
                "decided otherwise before: {answer:?}"
            );
        }
        let file = self.files.get(answer.id.as_str());
        let is_same = file.map(|file| file.stamp == answer.stamp);
        let is_gone = file.is_some_and(|file| file.held && file.life == RequesterLife::Gone);
        // For a person's decision it is looked first, and nothing is recorded that reaches nobody.
        let early = match is_same {
            _ if answer.care == Care::Fast => None,
            None => Some(Delivery::Withdrawn),
            Some(false) => Some(Delivery::Swapped),
            Some(true) => is_gone.then_some(Delivery::RequesterGone),
        };
        if let Some(early) = early {
            return self.step(Event::Answered(answer.id.clone(), early));
        }
        self.log.extend(answer.entries.iter().cloned());
        self.told.extend(answer.told.iter().cloned());
        let delivery = match is_same {
            None => Delivery::Unclaimed,
            Some(false) => Delivery::RequestChanged,
            Some(true) if fails => {
                if self.shutting_down
                    && let Some(name) = self.name_of(&answer.id)
                {
                    self.left.insert(name);
                }
                Delivery::Failed("no room".into())
            }
            Some(true) => {
                self.files.remove(answer.id.as_str());
                for id in &answer.rests_on {
                    *self.used.entry(*id).or_default() += 1;
                }
                self.delivered.insert(pair);
                Delivery::Delivered
            }
        };
        self.step(Event::Answered(answer.id.clone(), delivery));
    }

    fn shut_down(&mut self) {
        self.list();
        self.shutting_down = true;
        self.step(Event::Shutdown);
    }

    /// Performs everything that is due, until nothing is.
    fn settle(&mut self) {
        self.work(100_000, false);
        assert!(self.is_at_rest() || self.finished, "it never rests");
    }

    /// Lets the session end.
    fn end(&mut self) {
        for _ in 0..64 {
            self.settle();
            if self.finished {
                break;
            }
            self.now += 1_000;
            self.step(Event::Tick);
        }
        assert!(self.finished, "it never ends: {:?}", self.state);
        let unsettled: Vec<_> = self
            .files
            .keys()
            .filter(|name| !self.left.contains(*name))
            .collect();
        assert!(unsettled.is_empty(), "{unsettled:?} were left unanswered");
        self.check_ends();
        assert!(
            self.annotating.is_empty(),
            "annotations that nobody reads are written"
        );
        assert!(
            self.authorizing.is_empty(),
            "a link is asked that decides nothing"
        );
    }
}

impl Model {
    /// By the log alone: every ask that began has ended, and no ask ended twice.
    fn check_ends(&self) {
        for name in ["a", "b", "c", "d"] {
            let mut is_open = false;
            let mut story = Vec::new();
            let of_it = |entry: &&Entry| entry.details().get("requestId") == Some(&name.into());
            for entry in self.log.iter().filter(of_it) {
                story.push(entry.event());
                let Some(ending) = Ending::from_name(entry.event()) else {
                    is_open |= entry.event() == audit::Event::Prompted.name();
                    continue;
                };
                let decider = &entry.details()["decidedBy"]["kind"];
                assert!(decider.is_string(), "{entry:?}");
                if !ending.closes() {
                    is_open = true;
                    continue;
                }
                // What was never taken in may end as well: too old, without a requester, unusable.
                let alone = matches!(ending, Ending::RequesterGone | Ending::RequestExpired)
                    || ending == Ending::Denied && decider == "gate_error";
                assert!(is_open || alone, "{name} ended twice: {story:?}");
                is_open = false;
            }
            let stays = self.left.contains(name);
            assert!(!is_open || stays, "{name} never ended: {story:?}");
        }
    }
}

fn of_open(listing: &Listing) -> Option<&RequestId> {
    let mut asks = listing.asks.iter();
    asks.find(|ask| ask.state == ListedState::Open)
        .map(|ask| &ask.id)
}

fn setups() -> impl Strategy<Value = (Person, Option<&'static str>)> {
    prop::sample::select(vec![
        (Person::Here, None),
        (Person::Here, Some("G")),
        (Person::Nobody, None),
        (Person::Nobody, Some("G")),
    ])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_500, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever happens in whatever order: nothing is approved that nobody allowed, one question is open at a time, every
    /// answer is to what was read, and an end settles everything once.
    #[test]
    fn any_sequence_of_events_keeps_the_promises(
        (person, parent) in setups(),
        annotates in any::<bool>(),
        inbox in prop::option::of(Just(INBOX)),
        links in 0_usize..3,
        at_once in 1_usize..4,
        before in prop::collection::vec(op(), 0..60),
        after in prop::collection::vec(op(), 0..8),
    ) {
        let chain = chain::of(&["first", "second"][..links]);
        let mut model = Model::with_chain(person, parent, annotates, inbox, chain);
        model.state.set_most_chains(at_once);
        for op in before {
            model.op(op);
        }
        model.shut_down();
        for op in after {
            // The session ends; whoever comes now finds nobody.
            if !matches!(op, Op::Put(..)) && !model.finished {
                model.op(op);
            }
        }
        model.end();
        let Some(limits) = inbox else { return Ok(()) };
        prop_assert!(model.listing.asks.is_empty(), "{:?}", model.listing);
        prop_assert!(model.listing.resolutions.len() <= limits.retain);
    }
}

// Sequences in particular.

fn with_person() -> Model {
    Model::new(Person::Here, None)
}

fn shown(model: &Model) -> Option<&str> {
    model.shown.as_ref().map(|(id, _)| id.as_str())
}

#[test]
fn a_file_that_is_listed_again_before_it_was_read_is_read_once() {
    let mut model = with_person();
    model.put("a", Content::Asks("make"), false);
    model.put("b", Content::Asks("make"), false);
    model.list();
    model.list();
    assert_eq!(model.reads.len(), 2);
    model.settle();
    model.list();
    assert_eq!(model.reads.len(), 0);
}

#[test]
fn a_second_reading_of_what_is_on_screen_changes_nothing() {
    let mut model = with_person();
    model.put("a", Content::Asks("make"), false);
    model.list();
    model.settle();
    assert_eq!(shown(&model), Some("a"));
    model.perform(Effect::Read(Candidate::of(&id("a"))), false);
    assert!(model.is_at_rest(), "{:?}", model.work);
    model.op(Op::Choose(Choice::Once));
    model.settle();
    assert!(model.files.is_empty());
}

#[test]
fn an_ask_that_expires_on_screen_makes_room_for_the_next() {
    let mut model = with_person();
    model.put("a", Content::Asks("make"), false);
    model.list();
    model.settle();
    let expired = model.shown.clone().unwrap();
    model.now += 1_000;
    model.put("b", Content::Asks("cook"), false);
    model.list();
    model.settle();
    assert_eq!(shown(&model), Some("a"));
    model.now = u64::try_from(MAX_AGE.as_millis()).unwrap();
    model.step(Event::Tick);
    model.settle();
    assert_eq!(shown(&model), Some("b"));
    assert_eq!(model.name_of(&id("a")), None);
    // The answer to what has gone decides nothing.
    let (id, digest) = expired;
    model.step(Event::Chosen {
        id,
        digest,
        choice: Choice::Once,
        by: by_person(),
    });
    assert!(model.is_at_rest());
}

#[test]
fn an_answer_to_other_bytes_than_those_on_screen_decides_nothing() {
    let mut model = with_person();
    model.put("a", Content::Asks("make"), false);
    model.list();
    model.settle();
    model.op(Op::ChooseOther("a", Choice::Once));
    assert!(model.is_at_rest());
    assert_eq!(shown(&model), Some("a"));
}

#[test]
fn a_decision_that_cannot_be_delivered_is_kept_and_tried_again_ever_more_slowly() {
    let mut model = with_person();
    model.put("a", Content::Asks("make"), false);
    model.list();
    model.settle();
    model.op(Op::Choose(Choice::Deny));
    let mut waits = Vec::new();
    for _ in 0..10 {
        model.work(100, true);
        let due = model.state.next_due(model.moment()).unwrap();
        waits.push(due.as_millis());
        model.now += u64::try_from(due.as_millis()).unwrap();
        model.step(Event::Tick);
    }
    assert!(waits.is_sorted() && waits[0] == 10, "{waits:?}");
    assert_eq!(waits.last(), Some(&1_000));
    model.settle();
    assert_eq!(model.delivered.len(), 1);
    assert_eq!(shown(&model), None);
}

#[test]
fn a_grant_settles_what_it_covers_wherever_it_stands_in_line() {
    let mut model = with_person();
    model.put("a", Content::Asks("make"), false);
    model.put("b", Content::Asks("cook"), false);
    model.put("c", Content::Asks("make"), false);
    model.list();
    model.settle();
    assert_eq!(shown(&model), Some("a"));
    model.op(Op::Choose(grant_for_session()));
    model.settle();
    assert_eq!(shown(&model), Some("b"));
    assert_eq!(model.candidates().len(), 1, "only b still waits");
    let decision = &model
        .decided
        .iter()
        .find(|((id, _), _)| id.as_str() == "c")
        .unwrap()
        .1;
    assert!(matches!(
        decision.decided_by,
        DecisionSource::SessionApproval { .. }
    ));
}

#[test]
fn a_grant_that_reached_nobody_or_was_not_recorded_is_not_in_force() {
    for ends in [Delivery::Unclaimed, Delivery::Unrecorded] {
        let mut model = with_person();
        model.put("a", Content::Asks("make"), false);
        model.list();
        model.settle();
        let (id, digest) = model.shown.take().unwrap();
        model.step(Event::Chosen {
            id: id.clone(),
            digest,
            choice: grant_for_session(),
            by: by_person(),
        });
        model.work.clear();
        model.files.clear();
        model.step(Event::Answered(id, ends));
        model.settle();
        model.put("b", Content::Asks("make"), false);
        model.list();
        model.settle();
        assert_eq!(shown(&model), Some("b"));
    }
}

#[test]
fn a_grant_for_a_time_ends_although_the_clock_stood_still_while_the_machine_slept() {
    let mut model = with_person();
    model.put("a", Content::Asks("make"), false);
    model.list();
    model.settle();
    let for_two_seconds = Lifetime::For(Duration::from_secs(2));
    model.op(Op::Choose(session(
        GrantScope::ServingSession,
        for_two_seconds,
    )));
    model.settle();
    model.step(Event::Slept(Duration::from_millis(1_500)));
    model.settle();
    assert_eq!(model.state.grants().list().len(), 1);
    model.now += 500;
    model.step(Event::Tick);
    model.settle();
    assert!(model.state.grants().is_empty());
    let last = model.log.last().unwrap();
    assert_eq!(last.event(), "grant.expired");
}

fn put_off(model: &mut Model) {
    model.op(Op::PutOff);
    model.settle();
}

#[test]
fn what_is_put_off_comes_behind_the_others_and_back_when_it_has_rested() {
    let mut model = with_person();
    for name in ["a", "b"] {
        model.put(name, Content::Asks("make"), false);
    }
    model.list();
    model.settle();
    assert_eq!(shown(&model), Some("a"));
    put_off(&mut model);
    assert_eq!(shown(&model), Some("b"));
    put_off(&mut model);
    // Both wait on, and neither is shown before its time; nothing was decided, and each time is in the log.
    assert_eq!(shown(&model), None);
    let in_line = model.state.in_line();
    assert_eq!((in_line.waiting, in_line.put_off), (2, 2));
    assert!(model.decided.is_empty() && model.told.len() == 2);
    let deferred: Vec<_> = model
        .log
        .iter()
        .filter(|entry| entry.event() == audit::Event::Deferred.name())
        .map(|entry| (&entry.details()["requestId"], &entry.details()["via"]))
        .collect();
    assert_eq!(
        deferred,
        [
            (&"a".into(), &"dialog".into()),
            (&"b".into(), &"dialog".into())
        ]
    );
    assert_eq!(
        model.state.next_due(model.moment()),
        Some(Duration::from_secs(1))
    );
    // A new one is shown at once.
    model.op(Op::Pass(29_000));
    model.put("c", Content::Asks("cook"), false);
    model.list();
    model.settle();
    assert_eq!(shown(&model), Some("c"));
    model.op(Op::Choose(Choice::Deny));
    model.settle();
    assert_eq!(shown(&model), None);
    let due = model.state.next_due(model.moment()).unwrap();
    assert!(due <= Duration::from_secs(1), "{due:?}");
    model.op(Op::Pass(1_000));
    model.settle();
    assert_eq!(shown(&model), Some("a"));
    // An answer that was meant for it before it was put off, or for other bytes, does nothing.
    put_off(&mut model);
    model.op(Op::ChooseOther("a", Choice::Once));
    model.settle();
    assert!(model.decided.len() == 1);
    assert_eq!(shown(&model), Some("b"));
    put_off(&mut model);
    model.op(Op::Resume);
    model.settle();
    assert_eq!(shown(&model), Some("a"));
}

#[test]
fn what_is_put_off_is_settled_without_the_person_as_everything_that_waits() {
    let put_off_one = || {
        let mut model = with_person();
        model.put("a", Content::Asks("make"), true);
        model.list();
        model.settle();
        put_off(&mut model);
        model
    };
    // Its requester takes it back, or dies.
    for op in [Op::Take("a"), Op::Die("a")] {
        let mut model = put_off_one();
        model.op(op);
        model.op(Op::Closed("a"));
        model.list();
        model.settle();
        assert_eq!(model.state.in_line(), InLine::default());
    }
    // It expires.
    let mut model = put_off_one();
    for _ in 0..3 {
        model.op(Op::Pass(20_001));
    }
    model.settle();
    assert_eq!(
        (shown(&model), model.state.in_line()),
        (None, InLine::default())
    );
    // A grant covers it: policy allows it.
    let mut model = put_off_one();
    model.put("b", Content::Asks("make"), false);
    model.list();
    model.settle();
    assert_eq!(shown(&model), Some("b"));
    model.op(Op::Choose(grant_for_session()));
    model.settle();
    assert_eq!(model.decided.len(), 2);
    assert!(model.decided.values().all(Decision::is_approved));
    // The session ends.
    let mut model = put_off_one();
    model.shut_down();
    model.end();
    assert!(model.decided.is_empty() && model.files.is_empty());
}

#[test]
fn what_is_put_off_when_the_parent_has_come_goes_to_it_unless_it_gave_it_back() {
    let mut model = Model::new(Person::Here, Some("G"));
    model.put("a", Content::Asks("make"), false);
    model.list();
    model.settle();
    model.op(Op::Parent(ParentLife::Serving));
    model.settle();
    assert_eq!(shown(&model), Some("a"));
    put_off(&mut model);
    assert_eq!((shown(&model), model.relayed.len()), (None, 1));
    model.op(Op::GiveBack("a"));
    model.settle();
    assert_eq!(shown(&model), Some("a"));
    put_off(&mut model);
    assert_eq!((model.relayed.len(), model.state.in_line().put_off), (0, 1));
}

#[test]
fn a_denial_leaves_everything_else_in_line() {
    let mut model = with_person();
    for name in ["a", "b", "c"] {
        model.put(name, Content::Asks("make"), false);
    }
    model.list();
    model.settle();
    model.op(Op::Choose(Choice::Deny));
    model.settle();
    assert_eq!(shown(&model), Some("b"));
    assert_eq!(model.candidates().len(), 2);
}

#[test]
fn policy_answers_while_a_question_is_open() {
    let mut model = with_person();
    model.put("a", Content::Asks("make"), false);
    model.list();
    model.settle();
    model.put("b", Content::Asks("ls"), false);
    model.put("c", Content::Asks("rm"), false);
    model.list();
    model.settle();
    assert_eq!(shown(&model), Some("a"));
    assert_eq!(model.candidates().len(), 1);
}

#[test]
fn what_the_parent_gives_back_is_shown_here_although_the_parent_is_served() {
    let mut model = Model::new(Person::Here, Some("G"));
    model.step(Event::Parent(ParentLife::Serving));
    model.put("a", Content::Asks("make"), false);
    model.list();
    model.settle();
    assert_eq!(shown(&model), None);
    model.op(Op::GiveBack("a"));
    model.settle();
    assert_eq!(shown(&model), Some("a"));
    // What comes next goes to the parent all the same.
    model.put("b", Content::Asks("make"), false);
    model.list();
    model.settle();
    assert!(model.relayed.contains_key(&id("b")));
}

#[test]
fn the_parents_answer_to_other_bytes_of_the_same_name_is_not_taken() {
    let mut model = Model::new(Person::Nobody, Some("G"));
    model.put("a", Content::Asks("cook"), false);
    model.list();
    model.settle();
    let first = model.relayed[&id("a")];
    model.op(Op::Take("a"));
    model.list();
    model.put("a", Content::Asks("make"), false);
    model.list();
    model.settle();
    assert_ne!(model.relayed[&id("a")], first);
    model.step(Event::Relayed(id("a"), first, approval_of_parent()));
    assert!(model.is_at_rest(), "{:?}", model.work);
}

#[test]
fn a_parent_that_comes_takes_what_waits_but_not_what_is_on_screen() {
    let mut model = Model::new(Person::Here, Some("G"));
    for name in ["a", "b", "c"] {
        model.put(name, Content::Asks("make"), false);
    }
    model.list();
    model.settle();
    model.step(Event::Parent(ParentLife::Serving));
    model.settle();
    assert_eq!(shown(&model), Some("a"));
    assert_eq!(model.relayed.len(), 2);
}

#[test]
fn a_person_who_leaves_leaves_nothing_open() {
    let mut model = with_person();
    for name in ["a", "b", "c"] {
        model.put(name, Content::Asks("make"), false);
    }
    model.list();
    model.settle();
    model.step(Event::PersonGone);
    model.settle();
    assert_eq!(shown(&model), None);
    assert!(model.files.is_empty());
    assert!(
        model
            .decided
            .values()
            .all(|decision| matches!(decision.decided_by, DecisionSource::Unavailable { .. }))
    );
}

#[test]
fn a_dead_requester_is_found_while_its_ask_waits_in_line() {
    let mut model = with_person();
    model.put("a", Content::Asks("make"), true);
    model.put("b", Content::Asks("make"), true);
    model.list();
    model.settle();
    model.op(Op::Die("b"));
    model.op(Op::Closed("b"));
    model.settle();
    assert_eq!(model.candidates().len(), 1);
    // A key that was pressed for a requester that has died meanwhile reaches nobody.
    model.op(Op::Die("a"));
    model.op(Op::Choose(Choice::Once));
    model.settle();
    assert!(model.files.is_empty());
    assert!(model.delivered.is_empty());
}

#[test]
fn a_torn_file_is_given_two_seconds_and_holds_up_nobody() {
    let mut model = with_person();
    model.put("a", Content::Torn, false);
    model.put("b", Content::Asks("ls"), false);
    model.list();
    model.settle();
    assert_eq!(model.candidates().len(), 1, "b is answered");
    model.op(Op::Pass(1_900));
    model.settle();
    assert_eq!(model.candidates().len(), 1);
    model.op(Op::Pass(200));
    model.settle();
    assert!(model.files.is_empty());
}

#[test]
fn an_end_settles_each_ask_once_and_is_the_last_thing() {
    let mut model = with_person();
    for name in ["a", "b", "c", "d"] {
        model.put(name, Content::Asks("make"), false);
    }
    model.list();
    model.work(5, false);
    model.shut_down();
    model.end();
    assert_eq!(model.delivered.len(), 4);
    let mut empty = with_person();
    empty.shut_down();
    assert!(matches!(empty.work.pop_front(), Some(Effect::Finished)));
}

// Annotations.

fn with_annotators(names: &[&'static str]) -> Model {
    let mut model = Model::with(Person::Here, None, true, None);
    for name in names {
        model.put(name, Content::Asks("make"), false);
    }
    model.list();
    model.settle();
    model
}

fn annotated_names(model: &Model) -> Vec<&str> {
    let mut names: Vec<_> = model.annotating.keys().map(RequestId::as_str).collect();
    names.sort_unstable();
    names
}

#[test]
fn an_ask_is_shown_when_its_annotators_are_done_with_what_there_is_of_them() {
    let mut model = with_annotators(&["a", "b"]);
    assert_eq!(shown(&model), None);
    assert_eq!(annotated_names(&model), ["a", "b"]);
    // What is said about the next in line changes nothing now.
    model.op(Op::Annotated("b", false));
    model.settle();
    assert_eq!(shown(&model), None);
    model.op(Op::Annotated("a", false));
    model.settle();
    assert_eq!(shown(&model), Some("a"));
    let note = Annotation {
        source: "first".into(),
        text: "about a".into(),
    };
    assert_eq!(model.annotations, [note]);
    let failed: Vec<_> = model
        .log
        .iter()
        .filter(|entry| entry.event() == "annotator_failed")
        .map(|entry| entry.details()["name"].as_str().unwrap())
        .collect();
    assert_eq!(failed, ["second", "second"]);
    // What was written ahead is not waited for.
    model.op(Op::Choose(Choice::Deny));
    model.settle();
    assert_eq!(shown(&model), Some("b"));
    assert_eq!(model.annotations[0].text, "about b");
}

#[test]
fn a_blank_text_is_no_annotation() {
    let mut model = with_annotators(&["a"]);
    let digest = model.annotating.remove(&id("a")).unwrap();
    let note = AnnotatorOutcome {
        name: "first".into(),
        outcome: Outcome::Answered(" \n".into()),
    };
    model.step(Event::Annotated(id("a"), digest, vec![note]));
    model.settle();
    assert_eq!(shown(&model), Some("a"));
    assert_eq!(model.annotations, []);
}

#[test]
fn policy_and_withdrawal_do_not_wait_for_annotators() {
    let mut model = with_annotators(&["a", "b"]);
    model.put("c", Content::Asks("ls"), false);
    model.op(Op::Take("a"));
    model.list();
    model.settle();
    assert_eq!(model.candidates().len(), 1, "c is answered");
    assert_eq!(annotated_names(&model), ["b"]);
    // It is the turn of the next one.
    model.op(Op::Annotated("b", false));
    model.settle();
    assert_eq!(shown(&model), Some("b"));
}

#[test]
fn a_grant_settles_an_ask_whose_annotators_are_awaited() {
    let mut model = with_annotators(&["a", "b"]);
    model.op(Op::Annotated("a", false));
    model.settle();
    model.op(Op::Choose(grant_for_session()));
    model.settle();
    assert_eq!(shown(&model), None);
    assert!(model.files.is_empty());
    assert!(model.annotating.is_empty());
}

#[test]
fn annotations_of_other_bytes_of_the_same_name_are_not_taken() {
    let mut model = with_annotators(&["a"]);
    let first = model.annotating[&id("a")];
    model.op(Op::Take("a"));
    model.list();
    model.put("a", Content::Asks("cook"), false);
    model.list();
    model.settle();
    assert_ne!(model.annotating[&id("a")], first);
    model.annotated("a", first);
    model.settle();
    assert_eq!(shown(&model), None);
}

#[test]
fn a_flood_is_annotated_a_few_at_a_time() {
    let mut model = with_annotators(&["a", "b", "c", "d"]);
    for name in ["e", "f"] {
        model.put(name, Content::Asks("make"), false);
    }
    model.list();
    model.settle();
    assert_eq!(annotated_names(&model), ["a", "b", "c", "d"]);
    model.op(Op::Annotated("b", false));
    model.settle();
    assert_eq!(annotated_names(&model), ["a", "c", "d", "e"]);
    for name in ["a", "b", "c", "d", "e"] {
        model.op(Op::Take(name));
        model.list();
        model.settle();
    }
    assert_eq!(annotated_names(&model), ["f"]);
}

#[test]
fn whose_turn_has_come_is_annotated_before_a_flood_is() {
    // All of one requester, then one of another.
    let mut model = with_annotators(&["x0", "x1", "x2", "x3", "x4", "x5", "x6"]);
    model.op(Op::Annotated("x0", false));
    model.settle();
    model.op(Op::Choose(Choice::Deny));
    model.settle();
    model.op(Op::Annotated("x1", false));
    model.settle();
    model.put("y", Content::Asks("make"), false);
    model.list();
    model.settle();
    assert_eq!(shown(&model), Some("x1"));
    assert_eq!(annotated_names(&model), ["x2", "x3", "x4", "x5"]);
    model.op(Op::Choose(Choice::Deny));
    model.settle();
    assert_eq!(annotated_names(&model), ["x2", "x3", "x4", "x5", "y"]);
    model.op(Op::Annotated("y", false));
    model.settle();
    assert_eq!(shown(&model), Some("y"));
}

#[test]
fn what_goes_to_the_parent_is_annotated_there() {
    let mut model = Model::with(Person::Here, Some("G"), true, None);
    for name in ["a", "b"] {
        model.put(name, Content::Asks("make"), false);
    }
    model.list();
    model.settle();
    model.step(Event::Parent(ParentLife::Serving));
    model.settle();
    // The turn of the first has come before; it stays.
    assert_eq!(annotated_names(&model), ["a"]);
    assert!(model.relayed.contains_key(&id("b")));
    model.op(Op::GiveBack("b"));
    model.settle();
    assert_eq!(annotated_names(&model), ["a", "b"]);
}

#[test]
fn nothing_is_annotated_where_nobody_sits() {
    let mut model = Model::with(Person::Nobody, None, true, None);
    model.put("a", Content::Asks("make"), false);
    model.list();
    model.settle();
    assert!(model.once_annotated.is_empty());
    let mut left = with_annotators(&["a"]);
    left.step(Event::PersonGone);
    left.settle();
    assert!(left.annotating.is_empty());
    assert!(left.files.is_empty());
}

// Broadcasts.

fn told(model: &Model) -> Vec<(&str, &str)> {
    let told = model.told.iter();
    told.map(|told| (told.channel, told.data["resolution"].as_str().unwrap_or("")))
        .collect()
}

#[test]
fn a_question_and_its_end_are_told_and_what_a_rule_decides_is_not() {
    let mut model = Model::with(Person::Here, None, false, None);
    model.put("a", Content::Asks("ls"), false);
    model.put("b", Content::Asks("make"), false);
    model.list();
    model.settle();
    let prompt = ("permissions:ui_prompt", "");
    assert_eq!(told(&model), [prompt]);
    model.op(Op::Choose(Choice::Session {
        scope: GrantScope::ServingSession,
        width: GrantWidth::Proven,
        lifetime: Lifetime::SessionEnd,
    }));
    model.settle();
    // The scope is the one that was chosen.
    let decision = ("permissions:decision", "user_approved_for_session");
    assert_eq!(told(&model), [prompt, decision]);

    let mut nobody = Model::with(Person::Nobody, None, false, None);
    nobody.put("a", Content::Asks("make"), false);
    nobody.list();
    nobody.settle();
    let unavailable = ("permissions:decision", "confirmation_unavailable");
    assert_eq!(told(&nobody), [unavailable]);
}

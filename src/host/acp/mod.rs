//! ACP: what stands between a client and an agent, and has the agent's permission requests answered by the serving session.
//!
//! ```text
//!  client ◀──────────── every other line, byte for byte ────────────▶ agent
//!                  session/request_permission ─▶ ask ─▶ answer ─────▶
//! ```
//!
//! [`Proxy`] is a pure step: a line and where it comes from go in, whether it passes and what is to be done come out. Pipes,
//! processes and the ask itself are for whoever drives it.
//!
//! # Invariants
//!
//! * A line that passes, passes as it is. Nothing is written anew that was not written here.
//! * A request for permission is answered once: by a decision, or as cancelled. Whatever cannot be read or decided is rejected.
//! * What any reader could take for a request for permission does not pass, unless the client is to be asked as well.
//! * An option is taken by its kind, and never one that says more than the decision: "always" only for a yes that holds longer, and
//!   where the operator wants the agent to remember it.
//! * Where no option says what was decided, the request is rejected; where none rejects either, it is cancelled.

mod call;
mod message;
mod options;
mod seen;
#[cfg(test)]
mod tests;
mod turns;

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use serde_json::Value;

pub use self::call::Call;
use self::message::{Id, Message};
use self::options::{Options, error};
use self::seen::Seen;
use self::turns::Turns;
use crate::wire::tool_input_from_json;

/// Longest line that is looked at. Of a longer one only the beginning is.
pub const LONGEST_LOOKED_AT: usize = 64 << 20;

/// How many requests may wait at once.
const MOST_WAITING: usize = 256;

/// The notification that takes a request back.
const CANCEL_REQUEST: &str = "$/cancel_request";
/// What the client ends a turn with, or a session and the turn with it.
const ENDS: [&str; 3] = ["session/cancel", "session/close", "session/delete"];

/// Whom a line comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The editor, or whatever drives the agent.
    Client,
    /// The agent.
    Agent,
}

/// How the proxy deals with what it can choose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Manners {
    /// The client is asked as well, and whoever answers first decides.
    pub client_too: bool,
    /// A yes that holds longer is handed on as the agent's own "always".
    pub always: bool,
}

/// What is to be done, in this order, after the line has passed or not.
#[derive(Debug, PartialEq)]
pub enum Effect {
    /// Ask the serving session.
    Ask(Box<Ask>),
    /// Take this ask back.
    Withdraw(u64),
    /// Say so when the client may be asked about this one as well: a rule answers sooner than a dialog opens.
    AskClientSoon(u64),
    /// Write this line to the agent.
    ToAgent(Vec<u8>),
    /// Write this line to the client.
    ToClient(Vec<u8>),
    /// Tell the operator.
    Say(String),
}

/// What becomes of a line.
#[derive(Debug, Default, PartialEq)]
pub struct Step {
    /// Whether it goes on to the other side.
    pub passes: bool,
    /// What is to be done.
    pub effects: Vec<Effect>,
}

impl Step {
    /// A line that goes on, and nothing else.
    pub fn passing() -> Self {
        Self {
            passes: true,
            effects: Vec::new(),
        }
    }
}

/// An ask for the serving session.
#[derive(Debug, Clone, PartialEq)]
pub struct Ask {
    /// Which one it is, among those of this proxy.
    pub number: u64,
    /// The agent's session.
    pub session: String,
    /// The directory of that session, where it is known.
    pub directory: Option<String>,
    /// What is asked for.
    pub call: Call,
}

/// What came of an ask.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ruling {
    /// It may be done.
    Approved {
        /// The yes holds longer than for this one.
        for_longer: bool,
    },
    /// It may not.
    Denied,
    /// Nobody ruled.
    Nobody,
}

/// A request that waits for an answer.
#[derive(Debug)]
struct Waiting {
    number: u64,
    id: Id,
    session: String,
    options: Options,
    relay: Relay,
    client: Client,
}

/// Whether the serving session still has it.
#[derive(Debug, PartialEq, Eq)]
enum Relay {
    Asked,
    /// Nobody ruled there, and why.
    Nobody(String),
}

/// Whether the client has it too.
#[derive(Debug, PartialEq, Eq)]
enum Client {
    /// It is not to be asked.
    Left,
    /// It is asked with this line, a little later.
    Soon(Vec<u8>),
    Asked,
    /// It cannot tell.
    Unable,
}

/// The state of a proxy.
#[derive(Debug, Default)]
pub struct Proxy {
    manners: Manners,
    seen: Seen,
    turns: Turns,
    last_number: u64,
    waiting: HashMap<String, Waiting>,
    /// Requests that were answered here, and whose answer from the client is nobody's any more.
    settled: HashSet<String>,
}

impl Proxy {
    /// A proxy before its first line.
    pub fn new(manners: Manners) -> Self {
        Self {
            manners,
            ..Self::default()
        }
    }

    /// How many requests wait.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// What becomes of a line.
    pub fn line(&mut self, from: Side, line: &[u8]) -> Step {
        // Many readers put a sign of their own where bytes are no text, and read on.
        let text = String::from_utf8_lossy(line);
        let is_text = matches!(text, Cow::Borrowed(_));
        let Some(message) = Message::read(&text) else {
            return batch(from, &text);
        };
        match (from, message.method.as_deref(), &message.id) {
            (Side::Agent, _, Some(id)) if message.asks => {
                let id = id.clone();
                self.requested(&message, id, line, is_text)
            }
            (Side::Agent, Some(CANCEL_REQUEST), _) => self.taken_back(&message),
            (Side::Client, Some(CANCEL_REQUEST), _) => {
                let turn = requested_id(&message);
                let session = turn.and_then(|id| self.turns.session_of(id.key()));
                let session = session.map(str::to_owned);
                self.turn_cancelled(session.as_deref())
            }
            (Side::Client, Some(method), _) if ENDS.contains(&method) => {
                let params = seen::parsed(message.params).unwrap_or(Value::Null);
                self.turn_cancelled(params.get("sessionId").and_then(Value::as_str))
            }
            (Side::Client, None, Some(id)) if message.is_response() => {
                let key = id.key().to_owned();
                self.client_answered(&key, message.is_error)
            }
            (_, _, _) => {
                self.seen.look(from, &message);
                self.turns.look(from, &message);
                Step::passing()
            }
        }
    }

    /// What becomes of a line that is too long to be looked at, all of it, by its beginning.
    pub fn long_line(&mut self, from: Side, beginning: &[u8]) -> Step {
        let text = String::from_utf8_lossy(beginning);
        let is_message = text.trim_start().starts_with(['{', '[']);
        let message = Message::beginning(&text);
        if from == Side::Client || !is_message || !message.may_ask() {
            return Step::passing();
        }
        let why = "rejected: a line of the agent is too long to see whether it asks for permission";
        let answer = message.id.filter(|_| message.asks);
        let answer = answer.map(|id| Effect::ToAgent(options::cancelled(&id, why)));
        Step {
            passes: false,
            effects: answer
                .into_iter()
                .chain([Effect::Say(why.to_owned())])
                .collect(),
        }
    }

    /// The serving session has answered, or nobody there has.
    pub fn answered(&mut self, number: u64, ruling: &Ruling, why: &str) -> Vec<Effect> {
        let Some(key) = self.key_of(number) else {
            return Vec::new();
        };
        if *ruling == Ruling::Nobody
            && let Some(waiting) = self.waiting.get_mut(&key)
            && matches!(waiting.client, Client::Soon(_) | Client::Asked)
        {
            waiting.relay = Relay::Nobody(why.to_owned());
            return vec![Effect::Say(format!("{why}; the client is asked alone"))];
        }
        let Some(waiting) = self.waiting.remove(&key) else {
            return Vec::new();
        };
        self.settle(&waiting, ruling, why)
    }

    /// So much time has passed that the client may be asked as well.
    pub fn client_may_be_asked(&mut self, number: u64) -> Vec<Effect> {
        let found = self.key_of(number);
        let Some(waiting) = found.and_then(|key| self.waiting.get_mut(&key)) else {
            return Vec::new();
        };
        match std::mem::replace(&mut waiting.client, Client::Asked) {
            Client::Soon(line) => vec![Effect::ToClient(line)],
            before @ (Client::Left | Client::Asked | Client::Unable) => {
                waiting.client = before;
                Vec::new()
            }
        }
    }

    /// The client is gone: nobody wants an answer any more, and the agent is told so while it can be.
    pub fn client_gone(&mut self) -> Vec<Effect> {
        self.cancel(|_| true, "the client has gone")
    }

    fn key_of(&self, number: u64) -> Option<String> {
        let mut waiting = self.waiting.iter();
        let found = waiting.find(|(_, waiting)| waiting.number == number)?;
        Some(found.0.clone())
    }

    /// The agent asks for permission.
    fn requested(&mut self, message: &Message<'_>, id: Id, line: &[u8], is_text: bool) -> Step {
        let reject = |options: &Options, why: String| Step {
            passes: false,
            effects: vec![
                Effect::ToAgent(options.rejection(&id, &why)),
                Effect::Say(why),
            ],
        };
        let raw = message.params.map_or("null", |params| params.get());
        let params = match tool_input_from_json(raw.as_bytes()) {
            _ if message.is_doubled => Err("a member stands there twice".to_owned()),
            _ if !is_text => Err("it is no UTF-8".to_owned()),
            Ok(params) => Ok(params),
            Err(unusable) => Err(unusable.to_string()),
        };
        let params = match params {
            Ok(params) => params,
            Err(why) => {
                // What can be read of it still says how to reject it.
                let why =
                    format!("rejected: the agent's request for permission is unusable: {why}");
                return reject(&Options::within(raw), why);
            }
        };
        let options = Options::of(&params);
        let session = params.get("sessionId").and_then(Value::as_str);
        let (Some(session), Some(tool_call)) = (session, params.get("toolCall")) else {
            let why = "rejected: the agent's request for permission lacks its session or its call";
            return reject(&options, why.to_owned());
        };
        if self.turns.is_cancelled(session) {
            let why = "the turn was cancelled";
            return Step {
                passes: false,
                effects: vec![Effect::ToAgent(options::cancelled(&id, why))],
            };
        }
        let mut effects = Vec::new();
        if let Some(first) = self.waiting.remove(id.key()) {
            // Two requests by one id: an answer would be to either.
            effects.push(Effect::Withdraw(first.number));
            effects.push(Effect::ToAgent(error(
                &first.id,
                -32600,
                "this id was used again",
            )));
            effects.push(Effect::ToAgent(error(
                &id,
                -32600,
                "this id waits for an answer",
            )));
            effects.push(Effect::Say(
                "rejected: the agent used the id of a request twice".to_owned(),
            ));
            return Step {
                passes: false,
                effects,
            };
        }
        if self.waiting.len() >= MOST_WAITING {
            let why = format!("rejected: {MOST_WAITING} requests of the agent wait already");
            return reject(&options, why);
        }
        self.last_number += 1;
        let number = self.last_number;
        effects.push(Effect::Ask(Box::new(Ask {
            number,
            session: session.to_owned(),
            directory: self.seen.directory(session).map(str::to_owned),
            call: self.seen.call(session, tool_call),
        })));
        // Where the client still owes an answer to an earlier request by this id, that one could be taken for an answer to this.
        let client = if self.manners.client_too && !self.settled.contains(id.key()) {
            effects.push(Effect::AskClientSoon(number));
            Client::Soon(line.to_vec())
        } else {
            Client::Left
        };
        self.waiting.insert(
            id.key().to_owned(),
            Waiting {
                number,
                session: session.to_owned(),
                options,
                relay: Relay::Asked,
                client,
                id,
            },
        );
        Step {
            passes: false,
            effects,
        }
    }

    /// The agent takes a request back. Of one that is answered here the client knows nothing, unless it was asked as well.
    fn taken_back(&mut self, message: &Message<'_>) -> Step {
        let waiting = requested_id(message).and_then(|id| self.waiting.remove(id.key()));
        let Some(waiting) = waiting else {
            return Step::passing();
        };
        let mut effects = Vec::new();
        if waiting.relay == Relay::Asked {
            effects.push(Effect::Withdraw(waiting.number));
        }
        effects.push(Effect::ToAgent(error(
            &waiting.id,
            -32800,
            "the request was cancelled",
        )));
        let passes = waiting.client == Client::Asked;
        if passes {
            self.settled.insert(waiting.id.key().to_owned());
        }
        Step { passes, effects }
    }

    /// The client cancels a turn: it would answer each request of that session as cancelled, if it knew of any.
    fn turn_cancelled(&mut self, session: Option<&str>) -> Step {
        if let Some(session) = session {
            self.turns.cancel(session);
        }
        let effects = match session {
            // One that the client was asked about is cancelled by the client, as the protocol wants it.
            Some(session) => self.cancel(
                |waiting| waiting.session == session && waiting.client != Client::Asked,
                "the turn was cancelled",
            ),
            None => Vec::new(),
        };
        Step {
            passes: true,
            effects,
        }
    }

    fn cancel(&mut self, is_meant: impl Fn(&Waiting) -> bool, why: &str) -> Vec<Effect> {
        let keys = self.waiting.iter().filter(|(_, waiting)| is_meant(waiting));
        let keys: Vec<String> = keys.map(|(key, _)| key.clone()).collect();
        let mut cancelled: Vec<Waiting> = keys
            .iter()
            .filter_map(|key| self.waiting.remove(key))
            .collect();
        cancelled.sort_by_key(|waiting| waiting.number);
        let effects = cancelled.into_iter().flat_map(|waiting| {
            let withdraw =
                (waiting.relay == Relay::Asked).then_some(Effect::Withdraw(waiting.number));
            let answer = Effect::ToAgent(options::cancelled(&waiting.id, why));
            withdraw.into_iter().chain([answer])
        });
        effects.collect()
    }

    /// The client answers a request of the agent.
    fn client_answered(&mut self, key: &str, is_error: bool) -> Step {
        if self.settled.remove(key) {
            return Step::default();
        }
        let Some(waiting) = self.waiting.get_mut(key) else {
            return Step::passing();
        };
        if waiting.client != Client::Asked {
            let why =
                "the client answered a request that it was not asked; the answer does not count";
            return Step {
                passes: false,
                effects: vec![Effect::Say(why.to_owned())],
            };
        }
        if is_error {
            // A client that cannot ask decides nothing.
            waiting.client = Client::Unable;
            let Relay::Nobody(why) = &waiting.relay else {
                return Step::default();
            };
            let why = format!("{why}; the client cannot ask either");
            let effects = match self.waiting.remove(key) {
                Some(waiting) => self.settle(&waiting, &Ruling::Nobody, &why),
                None => Vec::new(),
            };
            return Step {
                passes: false,
                effects,
            };
        }
        let asked = waiting.relay == Relay::Asked;
        let withdraw = asked.then_some(Effect::Withdraw(waiting.number));
        self.waiting.remove(key);
        Step {
            passes: true,
            effects: withdraw.into_iter().collect(),
        }
    }

    /// Answers a request that waits no longer.
    fn settle(&mut self, waiting: &Waiting, ruling: &Ruling, why: &str) -> Vec<Effect> {
        let picked = match ruling {
            Ruling::Approved { for_longer } => {
                let always = *for_longer && self.manners.always;
                waiting.options.approving(always)
            }
            Ruling::Denied | Ruling::Nobody => None,
        };
        let mut effects = Vec::new();
        if let Some(option) = picked {
            let answer = options::selected(&waiting.id, option, None);
            effects.push(Effect::ToAgent(answer));
        } else {
            let why = match ruling {
                Ruling::Approved { .. } => {
                    "approved, but the agent offers no option that allows this once, so it is rejected"
                }
                Ruling::Denied | Ruling::Nobody => why,
            };
            effects.push(Effect::ToAgent(waiting.options.rejection(&waiting.id, why)));
            effects.push(Effect::Say(why.to_owned()));
        }
        if waiting.client == Client::Asked {
            let taken = format!(
                r#"{{"jsonrpc":"2.0","method":"{CANCEL_REQUEST}","params":{{"requestId":{}}}}}"#,
                waiting.id.raw()
            );
            effects.push(Effect::ToClient(options::line(&taken)));
            self.settled.insert(waiting.id.key().to_owned());
        }
        effects
    }
}

/// Several messages on one line. The protocol has no such thing, but a reader may: one that asks for permission does not pass.
fn batch(from: Side, text: &str) -> Step {
    let batch = match from {
        Side::Agent => Message::batch(text).unwrap_or_default(),
        Side::Client => Vec::new(),
    };
    if !batch.iter().any(|message| message.asks) {
        return Step::passing();
    }
    let why = "rejected: the agent asks for permission among several messages on one line";
    let requests = batch.iter().filter(|message| message.method.is_some());
    let answers = requests.filter_map(|message| {
        let id = message.id.as_ref()?;
        Some(Effect::ToAgent(if message.asks {
            let params = message.params.map_or("null", |params| params.get());
            Options::within(params).rejection(id, why)
        } else {
            error(id, -32600, "this came with a request for permission")
        }))
    });
    let mut effects: Vec<Effect> = answers.collect();
    effects.push(Effect::Say(why.to_owned()));
    Step {
        passes: false,
        effects,
    }
}

/// The id of the request that a message takes back.
fn requested_id(message: &Message<'_>) -> Option<Id> {
    let params: HashMap<String, &serde_json::value::RawValue> =
        serde_json::from_str(message.params?.get()).ok()?;
    Some(Id::of(params.get("requestId")?.get()))
}

//! A model on the loopback, which says what a test tells it to, in the words of whoever asks.
//!
//! It speaks the four wires that agents know: messages, responses, chat completions and generated content. A test gives a script: from
//! what has been said so far to what is said next. Everything that it is asked is kept, so that a test can see what reached it.

mod wires;

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;

/// An agent that is silent in the middle of a request has gone.
const SILENCE: Duration = Duration::from_mins(1);

/// What an agent has asked the model: one step of one conversation.
#[derive(Debug, Clone)]
pub(crate) struct Turn {
    /// All that was said by the user's side, what the agent adds to it included.
    pub(crate) prompt: String,
    /// What came of the calls so far, in their order.
    pub(crate) results: Vec<Told>,
    /// Names of the tools that may be called.
    pub(crate) tools: Vec<String>,
}

/// What the model was told of one call.
#[derive(Debug, Clone)]
pub(crate) struct Told {
    /// Unique over all conversations where the wire has ids.
    call: String,
    pub(crate) text: String,
}

impl Turn {
    /// The last result of a call, or nothing.
    pub(crate) fn last(&self) -> &str {
        self.results.last().map_or("", |told| &told.text)
    }

    /// One call after the other, then the word that all is done, with what came of the last one.
    pub(crate) fn after<const N: usize>(&self, steps: [Vec<Move>; N]) -> Vec<Move> {
        let mut made = 0;
        for step in steps {
            if made == self.results.len() {
                return step;
            }
            made += step.len();
        }
        vec![Move::Say(format!("done: {}", self.last()))]
    }
}

/// What the model does next. Several in one answer happen at once.
#[derive(Debug, Clone)]
pub(crate) enum Move {
    Say(String),
    Call(&'static str, Value),
}

type Script = dyn Fn(&Turn) -> Vec<Move> + Send + Sync;

struct Shared {
    script: Box<Script>,
    turns: Mutex<Vec<Turn>>,
    is_over: AtomicBool,
}

/// The model. It goes when it is dropped.
pub(crate) struct Model {
    address: SocketAddr,
    shared: Arc<Shared>,
}

impl Model {
    pub(crate) fn start(script: impl Fn(&Turn) -> Vec<Move> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            script: Box::new(script),
            turns: Mutex::default(),
            is_over: AtomicBool::new(false),
        });
        let held = Arc::clone(&shared);
        std::thread::spawn(move || {
            for connection in listener.incoming() {
                if held.is_over.load(Ordering::SeqCst) {
                    break;
                }
                let shared = Arc::clone(&held);
                // An agent that hangs up, or sends what is no request, gets no answer.
                std::thread::spawn(move || connection.ok().and_then(|open| shared.answer(open)));
            }
        });
        Self { address, shared }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Everything that it was asked.
    pub(crate) fn turns(&self) -> Vec<Turn> {
        self.shared.turns.lock().unwrap().clone()
    }

    /// What it was told of each call, in the order in which it heard of it.
    pub(crate) fn was_told(&self) -> Vec<String> {
        let mut known = BTreeSet::new();
        let all = self.turns().into_iter().flat_map(|turn| turn.results);
        all.filter(|told| known.insert(told.call.clone()))
            .map(|told| told.text)
            .collect()
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::SeqCst);
        // So that the thread looks.
        drop(TcpStream::connect(self.address));
    }
}

impl Shared {
    fn answer(&self, open: TcpStream) -> Option<()> {
        open.set_read_timeout(Some(SILENCE)).ok()?;
        open.set_write_timeout(Some(SILENCE)).ok()?;
        let mut input = BufReader::new(open);
        let (path, body) = request(&mut input)?;
        let (kind, text) = self.respond(&path, &body);
        let answer = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{text}",
            text.len()
        );
        input.into_inner().write_all(answer.as_bytes()).ok()
    }

    fn respond(&self, path: &str, body: &Value) -> (&'static str, String) {
        let Some(wire) = wires::Wire::of(path) else {
            return ("application/json", wires::aside(path).to_string());
        };
        let turn = wire.turn(body);
        // What has no tools is none of the conversation: a title, a summary, whom to send it to.
        let moves = if turn.tools.is_empty() {
            vec![Move::Say(wires::SMALL_TALK.to_owned())]
        } else {
            self.turns.lock().unwrap().push(turn.clone());
            (self.script)(&turn)
        };
        wire.answer(path, body, &moves)
    }
}

/// The path and the JSON of a request, `null` where there is none.
fn request(input: &mut BufReader<TcpStream>) -> Option<(String, Value)> {
    let mut first = String::new();
    input.read_line(&mut first).ok()?;
    let path = first.split(' ').nth(1)?.to_owned();
    let (mut length, mut is_chunked) = (0, false);
    loop {
        let mut line = String::new();
        input.read_line(&mut line).ok()?;
        let Some((name, value)) = line.split_once(':') else {
            break;
        };
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.trim().parse().ok()?,
            "transfer-encoding" => is_chunked = value.trim() == "chunked",
            _ => {}
        }
    }
    let mut body = Vec::new();
    if is_chunked {
        loop {
            let mut size = String::new();
            input.read_line(&mut size).ok()?;
            let size = u64::from_str_radix(size.trim(), 16).ok()?;
            input.by_ref().take(size).read_to_end(&mut body).ok()?;
            input.read_line(&mut String::new()).ok()?;
            if size == 0 {
                break;
            }
        }
    } else {
        input.by_ref().take(length).read_to_end(&mut body).ok()?;
    }
    Some((path, serde_json::from_slice(&body).unwrap_or_default()))
}

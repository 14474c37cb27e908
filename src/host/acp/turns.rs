//! Which turns are under way, and which of them the client has cancelled: a request that the agent has sent before it knew of that
//! comes too late to be asked about.

use std::collections::{HashSet, VecDeque};

use super::Side;
use super::message::Message;
use super::seen::{parsed, remember};

/// How many turns are kept in mind.
const TURNS: usize = 256;

#[derive(Debug, Default)]
pub(super) struct Turns {
    /// Ids of the requests that the agent answers when the turn ends, with their sessions, the latest last.
    running: VecDeque<(String, String)>,
    /// Sessions whose turn was cancelled and has not ended.
    cancelled: HashSet<String>,
}

impl Turns {
    /// Looks at a message that passes.
    pub(super) fn look(&mut self, from: Side, message: &Message<'_>) {
        let Some(id) = &message.id else { return };
        match (from, message.method.as_deref()) {
            (Side::Client, Some("session/prompt")) => {
                let session = parsed(message.params)
                    .and_then(|params| Some(params.get("sessionId")?.as_str()?.to_owned()));
                if let Some(session) = session {
                    self.cancelled.remove(&session);
                    remember(&mut self.running, TURNS, (id.key().to_owned(), session));
                }
            }
            (Side::Agent, None) => {
                let at = self.running.iter().position(|(turn, _)| turn == id.key());
                if let Some((_, session)) = at.and_then(|at| self.running.remove(at)) {
                    self.cancelled.remove(&session);
                }
            }
            (_, _) => {}
        }
    }

    /// The session of the turn that this request of the client began.
    pub(super) fn session_of(&self, request: &str) -> Option<&str> {
        let mut running = self.running.iter();
        let found = running.find(|(turn, _)| turn == request)?;
        Some(&found.1)
    }

    /// The client cancels what goes on in this session.
    pub(super) fn cancel(&mut self, session: &str) {
        if self.running.iter().any(|(_, of)| of == session) {
            self.cancelled.insert(session.to_owned());
        }
    }

    /// Whether what goes on in this session was cancelled.
    pub(super) fn is_cancelled(&self, session: &str) -> bool {
        self.cancelled.contains(session)
    }
}

//! Forms between the protocol and the session that is served: what comes in goes to the prompter, what it shows goes out.
//!
//! The ids of forms are told from those of the SDK's own requests, so its answers never get here, and an answer to a form that was taken
//! back long ago still says that the client's screen is free.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::{Notify, mpsc, oneshot};

use crate::cli::output;
use crate::host::elicitation::{self, Hello};
use crate::host::mcp::Incoming;
use crate::presentation::form::Form;
use crate::prompt::{FormClient, FormReplies, FormReply};

/// What the client has said so far.
pub(super) struct Forms {
    known: Mutex<Known>,
    /// The input has ended: nobody is there any more.
    over: Notify,
}

struct Known {
    hello: Option<Hello>,
    /// Where it is told that forms may be shown from now on.
    begins: Option<oneshot::Sender<Hello>>,
    /// Where replies go, once a session is served.
    replies: Option<FormReplies>,
}

impl Forms {
    /// Nothing has been said; what is given tells when forms may be shown, and to whom.
    pub(super) fn new() -> (Self, oneshot::Receiver<Hello>) {
        let (begins, begun) = oneshot::channel();
        let known = Known {
            hello: None,
            begins: Some(begins),
            replies: None,
        };
        let forms = Self {
            known: Mutex::new(known),
            over: Notify::new(),
        };
        (forms, begun)
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The client has said who it is.
    pub(super) fn hello(&self, params: &Value) {
        self.known()
            .hello
            .get_or_insert_with(|| elicitation::hello(params));
    }

    /// The client is ready to be asked.
    pub(super) fn begin(&self) {
        let mut known = self.known();
        if let Some(hello) = known.hello.clone()
            && let Some(begins) = known.begins.take()
        {
            // The server may be ending.
            let _told = begins.send(hello);
        }
    }

    /// The client is gone. Calls of its own may still be on their way out.
    pub(super) fn end(&self) {
        self.over.notify_one();
    }

    /// Resolves once the client is gone.
    pub(super) async fn is_over(&self) {
        self.over.notified().await;
    }

    /// From now on replies go here.
    pub(super) fn listen(&self, replies: FormReplies) {
        self.known().replies = Some(replies);
    }

    /// Takes a message that is the reply to a form; tells whether it was one.
    pub(super) fn take(&self, incoming: &Incoming) -> bool {
        let (number, reply) = match incoming {
            Incoming::Response { id, result } => {
                (elicitation::number(id), elicitation::reply(result))
            }
            Incoming::Failure { id, message } => {
                let reply = FormReply::Failed(message.clone());
                (elicitation::number(id), reply)
            }
            Incoming::Nothing(_)
            | Incoming::Refused { .. }
            | Incoming::Request { .. }
            | Incoming::Notification { .. } => return false,
        };
        let Some(number) = number else { return false };
        let replies = self.known().replies.clone();
        if let Some(replies) = replies {
            replies.take(number, reply);
        }
        true
    }
}

/// Sends forms to the client.
pub(super) struct Client(pub(super) mpsc::UnboundedSender<(Duration, Value)>);

impl FormClient for Client {
    fn put(&mut self, number: u64, form: &Form, after: Duration) {
        // A client that is gone shows in the input, which ends.
        let _sent = self.0.send((after, elicitation::request(number, form)));
    }

    fn withdraw(&mut self, number: u64, why: &str) {
        let withdrawal = elicitation::withdrawal(number, why);
        let _sent = self.0.send((Duration::ZERO, withdrawal));
    }

    fn notice(&mut self, text: &str) {
        output::warn(text);
    }
}

//! MCP messages on two streams of lines, between the bytes and the SDK.
//!
//! The SDK's own transport reads and writes every message of the protocol. This one knows those that are used here: the others come in
//! as requests that nobody has, and go out not at all. That keeps most of the protocol's model out of the program. It also reads
//! more strictly: an object that two readers could see differently is no call of a tool.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use rmcp::RoleServer;
use rmcp::model::{
    CancelledNotification, CancelledNotificationParam, ClientJsonRpcMessage, ClientNotification,
    ClientRequest, ClientResult, CustomNotification, CustomRequest, CustomResult, ErrorCode,
    ErrorData, InitializeRequest, JsonRpcMessage, RequestId, ServerNotification, ServerRequest,
    ServerResult,
};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::{Mutex, mpsc, watch};

use super::forms::Forms;
use crate::cli::output;
use crate::host::lines::{Lines, Piece};
use crate::host::mcp::{Incoming, read};
use crate::wire::MAX_REQUEST_BYTES;

/// How much is read at a time.
const CHUNK: usize = 64 << 10;

/// Code of a request that is none.
const INVALID_REQUEST: i32 = -32_600;
/// Code of a failure here.
const INTERNAL_ERROR: i32 = -32_603;

/// Lines in, lines out.
pub(super) struct LineTransport<R, W> {
    input: R,
    chunk: Vec<u8>,
    lines: Lines,
    /// Pieces that were read and not looked at.
    pieces: std::collections::VecDeque<Piece>,
    output: Arc<Mutex<W>>,
    /// Whether the client has said who it is. Nothing else counts before that.
    is_greeted: bool,
    /// Where it is told what becomes of forms, where any are shown.
    forms: Option<Arc<Forms>>,
    /// Where the end of the input is told. The SDK waits for the calls that it has begun; nobody is there who waits for them.
    over: watch::Sender<bool>,
}

impl<R, W> LineTransport<R, W> {
    pub(super) fn new(
        input: R,
        output: Arc<Mutex<W>>,
        forms: Option<Arc<Forms>>,
        over: watch::Sender<bool>,
    ) -> Self {
        Self {
            input,
            chunk: vec![0; CHUNK],
            lines: Lines::of_at_most(MAX_REQUEST_BYTES),
            pieces: std::collections::VecDeque::new(),
            output,
            is_greeted: false,
            forms,
            over,
        }
    }
}

impl<R, W> Transport<RoleServer> for LineTransport<R, W>
where
    R: AsyncRead + Send + Unpin,
    W: AsyncWrite + Send + Unpin + 'static,
{
    type Error = io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let output = Arc::clone(&self.output);
        async move {
            let Some(message) = outgoing(item) else {
                return Ok(());
            };
            write(&output, &message).await
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        loop {
            while let Some(piece) = self.pieces.pop_front() {
                let incoming = match piece {
                    Piece::Line(line) => read(&line),
                    Piece::Part { ends: false, .. } => continue,
                    Piece::Part { ends: true, .. } => Incoming::Refused {
                        id: Value::Null,
                        why: format!("a message of more than {MAX_REQUEST_BYTES} bytes"),
                    },
                };
                match self.message(incoming) {
                    Ok(Some(message)) => return Some(message),
                    Ok(None) => {}
                    Err(refusal) => write(&self.output, &refusal).await.ok()?,
                }
            }
            let read = self.input.read(&mut self.chunk).await.unwrap_or_default();
            if read == 0 {
                self.over.send_replace(true);
                if let Some(forms) = &self.forms {
                    forms.end();
                }
                // What nothing has ended is no message.
                return None;
            }
            self.pieces.extend(self.lines.take(self.chunk.get(..read)?));
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        self.output.lock().await.flush().await
    }
}

/// Writes messages as they come, each after its while, and then waits for ever.
pub(super) async fn write_all(
    output: &Mutex<impl AsyncWrite + Unpin>,
    mut messages: mpsc::UnboundedReceiver<(Duration, Value)>,
) -> Infallible {
    while let Some((after, message)) = messages.recv().await {
        tokio::time::sleep(after).await;
        // A client that is gone shows in the input, which ends.
        let _written = write(output, &message).await;
    }
    std::future::pending().await
}

async fn write(output: &Mutex<impl AsyncWrite + Unpin>, message: &Value) -> io::Result<()> {
    let mut output = output.lock().await;
    output.write_all(format!("{message}\n").as_bytes()).await?;
    output.flush().await
}

impl<R, W> LineTransport<R, W> {
    /// What the SDK gets of a message; the answer where it gets nothing.
    fn message(
        &mut self,
        incoming: Incoming,
    ) -> Result<Option<RxJsonRpcMessage<RoleServer>>, Value> {
        Ok(Some(match incoming {
            Incoming::Nothing(why) => {
                output::warn(&format!(
                    "a line on the standard input is no message: {why}"
                ));
                return Ok(None);
            }
            Incoming::Refused { id, why } => return Err(error(&id, INVALID_REQUEST, &why)),
            Incoming::Request { id, method, params } => {
                let Some(known) = id_of(&id) else {
                    let why = "the id must be a text or a whole number";
                    return Err(error(&Value::Null, INVALID_REQUEST, why));
                };
                let request = match method.as_str() {
                    "initialize" => {
                        if let (Some(forms), Some(params)) = (&self.forms, &params) {
                            forms.hello(params);
                        }
                        let params = serde_json::from_value(params.unwrap_or_default());
                        let params = params
                            .map_err(|fault| error(&id, INVALID_REQUEST, &fault.to_string()))?;
                        self.is_greeted = true;
                        ClientRequest::InitializeRequest(InitializeRequest::new(params))
                    }
                    "ping" => ClientRequest::PingRequest(rmcp::model::PingRequest::default()),
                    _ => ClientRequest::CustomRequest(CustomRequest::new(method, params)),
                };
                ClientJsonRpcMessage::request(request, known)
            }
            Incoming::Notification { .. }
            | Incoming::Response { .. }
            | Incoming::Failure { .. }
                if !self.is_greeted =>
            {
                return Ok(None);
            }
            Incoming::Response { .. } | Incoming::Failure { .. }
                if self
                    .forms
                    .as_ref()
                    .is_some_and(|forms| forms.take(&incoming)) =>
            {
                return Ok(None);
            }
            Incoming::Notification { method, params } => {
                if let (Some(forms), "notifications/initialized") = (&self.forms, &*method) {
                    forms.begin();
                }
                let cancelled = params
                    .as_ref()
                    .filter(|_| method == "notifications/cancelled");
                let id = cancelled.and_then(|params| id_of(params.get("requestId")?));
                ClientJsonRpcMessage::notification(if id.is_some() {
                    let params = CancelledNotificationParam::new(id, None);
                    ClientNotification::CancelledNotification(CancelledNotification::new(params))
                } else {
                    ClientNotification::CustomNotification(CustomNotification::new(method, params))
                })
            }
            Incoming::Response { id, result } => match id_of(&id) {
                Some(id) => {
                    let result = ClientResult::CustomResult(CustomResult::new(result));
                    ClientJsonRpcMessage::response(result, id)
                }
                None => return Ok(None),
            },
            Incoming::Failure { id, message } => {
                let fault = ErrorData::new(ErrorCode(INTERNAL_ERROR), message, None);
                ClientJsonRpcMessage::error(fault, id_of(&id))
            }
        }))
    }
}

fn id_of(id: &Value) -> Option<RequestId> {
    match id {
        Value::String(text) => Some(RequestId::String(text.as_str().into())),
        Value::Number(number) => number.as_i64().map(RequestId::Number),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

fn error(id: &Value, code: i32, message: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})
}

/// What is written of a message of the SDK.
fn outgoing(message: TxJsonRpcMessage<RoleServer>) -> Option<Value> {
    match message {
        JsonRpcMessage::Response(response) => {
            let id = response.id.into_json_value();
            let Some(result) = result(response.result) else {
                // Nothing here makes such a result.
                let why = "a result of a kind that is not written";
                return Some(error(&id, INTERNAL_ERROR, why));
            };
            Some(json!({"jsonrpc": "2.0", "id": id, "result": result}))
        }
        JsonRpcMessage::Error(failed) => {
            let id = failed.id.map_or(Value::Null, RequestId::into_json_value);
            let mut answer = error(&id, failed.error.code.0, &failed.error.message);
            if let (Some(data), Some(error)) = (failed.error.data, answer.pointer_mut("/error")) {
                error["data"] = data;
            }
            Some(answer)
        }
        JsonRpcMessage::Notification(notification) => {
            let (method, params) = notified(notification.notification)?;
            Some(json!({"jsonrpc": "2.0", "method": method, "params": params}))
        }
        JsonRpcMessage::Request(request) => {
            let id = request.id.into_json_value();
            let (method, params) = requested(request.request)?;
            Some(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
        }
    }
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "everything else of the protocol is not used here"
)]
fn result(result: ServerResult) -> Option<Value> {
    match result {
        ServerResult::InitializeResult(result) => serde_json::to_value(result).ok(),
        ServerResult::EmptyResult(_) => Some(json!({})),
        ServerResult::CustomResult(result) => Some(result.0),
        _ => None,
    }
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "everything else of the protocol is not used here"
)]
fn notified(notification: ServerNotification) -> Option<(String, Value)> {
    match notification {
        ServerNotification::CancelledNotification(cancelled) => {
            let id = cancelled.params.request_id?.into_json_value();
            let params = json!({"requestId": id, "reason": cancelled.params.reason});
            Some(("notifications/cancelled".to_owned(), params))
        }
        ServerNotification::CustomNotification(custom) => {
            Some((custom.method, custom.params.unwrap_or_default()))
        }
        _ => None,
    }
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "everything else of the protocol is not used here"
)]
fn requested(request: ServerRequest) -> Option<(String, Value)> {
    match request {
        ServerRequest::CustomRequest(custom) => {
            Some((custom.method, custom.params.unwrap_or_default()))
        }
        _ => None,
    }
}

//! The tools at work: a call comes in, an ask goes out, and its end is the result of the call.
//!
//! Every way out of a call is a result that says what was decided, or that nothing was. Dropping the call withdraws the ask.

use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use rmcp::model::{
    ClientNotification, ClientRequest, CustomNotification, CustomRequest, CustomResult,
    EmptyResult, ErrorCode, ErrorData, Implementation, InitializeRequestParams, InitializeResult,
    ProtocolVersion, ServerCapabilities, ServerConfig, ServerNotification, ServerResult,
};
use rmcp::service::{NotificationContext, Peer, RequestContext};
use rmcp::{RoleServer, Service};
use serde_json::{Map, Value};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use crate::cli::ask::answer_json;
use crate::cli::env::Env;
use crate::cli::forward::{Forwarder, Ruling};
use crate::cli::output;
use crate::host::ToolCall;
use crate::host::mcp::{self, APPROVE, ASK, Asked, Unusable};
use crate::presentation::text::visible;

/// How often a client that wants to know hears that its call still waits. Clients give up on a silent server after minutes.
const NEWS_EVERY: Duration = Duration::from_secs(10);

/// The newest handshake that is spoken. Later revisions have none, and clients of theirs fall back to this.
const NEWEST: ProtocolVersion = ProtocolVersion::V_2025_11_25;

/// Codes of JSON-RPC.
const METHOD_NOT_FOUND: ErrorCode = ErrorCode(-32_601);
const INTERNAL_ERROR: ErrorCode = ErrorCode(-32_603);

const INSTRUCTIONS: &str = "Permission requests go to the session in charge of this agent, which answers by its rules or asks a person. \
                            Use the tool \"ask\" before something that you may not simply do.";

/// The service behind the protocol.
pub(super) struct Tools(Arc<Desk>);

/// Where calls are dealt with.
struct Desk {
    directory: PathBuf,
    /// What asks, until the client has said what it is called.
    unnamed: Mutex<Option<Forwarder>>,
    forwarder: OnceLock<Arc<Forwarder>>,
    /// Whether the operator has named the agent.
    is_named: bool,
    /// Whether the client has gone.
    is_over: watch::Receiver<bool>,
}

impl Tools {
    pub(super) fn new(
        env: &Env,
        forwarder: Forwarder,
        is_named: bool,
        is_over: watch::Receiver<bool>,
    ) -> Self {
        Self(Arc::new(Desk {
            directory: env.cwd().cloned().unwrap_or_default(),
            unnamed: Mutex::new(Some(forwarder)),
            forwarder: OnceLock::new(),
            is_named,
            is_over,
        }))
    }

    /// The result of a call. It is dealt with by a task of its own: if that breaks, there is a result all the same.
    async fn call(&self, params: Value, peer: Peer<RoleServer>) -> Value {
        let mut task = JoinSet::new();
        let desk = Arc::clone(&self.0);
        let is_approval = mcp::call_of(&params).0 == APPROVE;
        task.spawn(async move { desk.call(&params, &peer).await });
        let why = "[askrelay] Not decided, so not allowed: asking broke";
        match task.join_next().await {
            Some(Ok(result)) => result,
            Some(Err(_)) | None if is_approval => mcp::text_result(&mcp::deny_text(why)),
            Some(Err(_)) | None => mcp::text_result(why),
        }
    }
}

impl Desk {
    /// The client has said who it is, and asks by that name where it has no other.
    fn greet(&self, client: &InitializeRequestParams) {
        let mut unnamed = self.unnamed.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(mut forwarder) = unnamed.take() {
            let name = client.client_info.name.trim();
            if !self.is_named && !name.is_empty() {
                name.clone_into(&mut forwarder.agent);
            }
            let _first = self.forwarder.set(Arc::new(forwarder));
        }
    }

    async fn call(&self, params: &Value, peer: &Peer<RoleServer>) -> Value {
        let (name, arguments) = mcp::call_of(params);
        let waits = Box::pin(async {
            match name {
                APPROVE => self.approve(&arguments).await,
                ASK => self.ask(&arguments).await,
                other => mcp::unusable_result(&Unusable::NoSuchTool(other.to_owned())),
            }
        });
        match mcp::progress_token(params) {
            Some(token) => with_news(waits, peer, token).await,
            None => waits.await,
        }
    }

    async fn approve(&self, arguments: &Map<String, Value>) -> Value {
        let asked = match mcp::approval_of(arguments) {
            Ok(asked) => asked,
            // The client wants a decision, and gets one.
            Err(unusable) => {
                let why = format!("[askrelay] Not asked, so not allowed: {unusable}");
                return mcp::text_result(&mcp::deny_text(&why));
            }
        };
        let input = asked.input.clone();
        let text = match self.forward(asked).await {
            Ok(ruling) if ruling.decision().is_approved() => mcp::allow_text(&input),
            Ok(ruling) => mcp::deny_text(&ruling.text()),
            Err(why) => mcp::deny_text(&why),
        };
        mcp::text_result(&text)
    }

    async fn ask(&self, arguments: &Map<String, Value>) -> Value {
        let asked = match mcp::ask_of(arguments) {
            Ok(asked) => asked,
            Err(unusable) => return mcp::unusable_result(&unusable),
        };
        match self.forward(asked).await {
            Ok(ruling) => {
                let text = if ruling.decision().is_approved() {
                    "Approved: make exactly this call, once.".to_owned()
                } else {
                    ruling.text()
                };
                mcp::decision_result(&text, &answer_json(&ruling.answer))
            }
            Err(why) => mcp::text_result(&why),
        }
    }

    async fn forward(&self, asked: Asked) -> Result<Ruling, String> {
        let Some(forwarder) = self.forwarder.get() else {
            return Err(
                "[askrelay] Not asked, so not allowed: the client has not said who it is"
                    .to_owned(),
            );
        };
        let directory = match asked.directory {
            Some(named) => self.directory.join(named),
            None => self.directory.clone(),
        };
        let mut call = ToolCall::new(asked.tool, Value::Object(asked.input), directory);
        call.evidence.extend(asked.evidence);
        let ruling = forwarder.ask(call).await;
        forwarder.warn_of_log();
        if !ruling.decision().is_approved() {
            let hint = ruling
                .hint()
                .map_or_else(String::new, |hint| format!(" (hint: {hint})"));
            output::say(&format!("askrelay mcp: {}{hint}", visible(&ruling.text())));
        }
        Ok(ruling)
    }
}

/// Waits, and tells the client again and again that it does.
async fn with_news<T>(
    mut waits: impl Future<Output = T> + Unpin,
    peer: &Peer<RoleServer>,
    token: &Value,
) -> T {
    let started = Instant::now();
    let mut news = interval_at(started + NEWS_EVERY, NEWS_EVERY);
    news.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            biased;
            done = &mut waits => return done,
            _ = news.tick() => {
                let params = mcp::progress(token, started.elapsed().as_secs(), "waiting for a decision");
                let told = CustomNotification::new("notifications/progress", Some(params));
                // A client that is gone shows in the input, which ends.
                let _told = peer.send_notification(ServerNotification::CustomNotification(told)).await;
            }
        }
    }
}

impl Service<RoleServer> for Tools {
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "the transport hands on no other request"
    )]
    async fn handle_request(
        &self,
        request: ClientRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<ServerResult, ErrorData> {
        match request {
            ClientRequest::InitializeRequest(request) => {
                self.0.greet(&request.params);
                context.peer.set_peer_info(request.params);
                Ok(ServerResult::InitializeResult(self.get_info()))
            }
            ClientRequest::PingRequest(_) => Ok(ServerResult::EmptyResult(EmptyResult {})),
            ClientRequest::CustomRequest(CustomRequest { method, params, .. }) => {
                let result = match method.as_str() {
                    "tools/list" => mcp::tools(),
                    "tools/call" => {
                        let params = params.unwrap_or_default();
                        let mut is_over = self.0.is_over.clone();
                        tokio::select! {
                            biased;
                            // Whoever has taken a call back waits for no result; dropping the call withdraws the ask.
                            () = context.ct.cancelled() => return Err(taken_back()),
                            _ = is_over.wait_for(|is_over| *is_over) => return Err(taken_back()),
                            result = self.call(params, context.peer.clone()) => result,
                        }
                    }
                    _ => return Err(not_there(&method)),
                };
                Ok(ServerResult::CustomResult(CustomResult::new(result)))
            }
            _ => Err(not_there("this method")),
        }
    }

    async fn handle_notification(
        &self,
        _notification: ClientNotification,
        _context: NotificationContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        Ok(())
    }

    fn get_info(&self) -> ServerConfig {
        let mut server = Implementation::new("askrelay", env!("CARGO_PKG_VERSION"));
        server.title = Some("askrelay".to_owned());
        let mut info = InitializeResult::new(ServerCapabilities::builder().enable_tools().build());
        info.protocol_version = NEWEST;
        info.server_info = server;
        info.instructions = Some(INSTRUCTIONS.to_owned());
        info
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        Cow::Borrowed(ProtocolVersion::known_up_to(&NEWEST))
    }
}

fn taken_back() -> ErrorData {
    ErrorData::new(INTERNAL_ERROR, "the call was cancelled", None)
}

fn not_there(method: &str) -> ErrorData {
    ErrorData::new(METHOD_NOT_FOUND, format!("{method} is not there"), None)
}

//! The session that an MCP server serves beside its tools: when it begins, and why it does not.
//!
//! It begins once the client is ready, and only in a client that shows forms: a session that takes asks and shows them to nobody would
//! be worse than none. Whatever keeps it from beginning is said on stderr, and the tools go on.

use std::time::Duration;

use serde_json::Value;
use tokio::sync::{mpsc, oneshot};

use super::forms::{Client, Forms};
use super::{Args, around};
use crate::cli::env::{self, Env};
use crate::cli::place::{Loaded, Place};
use crate::cli::serve::{self, Prepared, Wanted};
use crate::cli::{Hinted, hint_of, output};
use crate::host::elicitation::{self, Hello};
use crate::presentation::text::visible;
use crate::process;
use crate::prompt::{Credit, FormPrompter, FormSettings, form_program};
use crate::serve::Mode;
use crate::wire::SessionId;

/// A session that is to be served.
pub(super) struct Serving<'a> {
    env: &'a Env,
    place: &'a Place<'a>,
    loaded: Loaded,
    wanted: Wanted,
    /// Its id.
    pub(super) session: SessionId,
    /// Whether the command line names it.
    is_named: bool,
}

impl<'a> Serving<'a> {
    /// Reads which session it is, and the configuration. An error is one of usage.
    pub(super) fn new(env: &'a Env, place: &'a Place<'a>, args: &Args) -> anyhow::Result<Self> {
        let loaded = place.config()?;
        let session = serve::session(env, args.session.as_deref(), &loaded.config)?;
        let wanted = Wanted {
            session: args.session.clone(),
            agent: args.agent.clone(),
            mode: Mode::Form,
            max_rows: args.max_rows,
            serving_key: args.serving_key.clone(),
            writes_oldest: false,
        };
        Ok(Self {
            env,
            place,
            loaded,
            wanted,
            session,
            is_named: args.session.is_some(),
        })
    }

    /// Waits for the client, then serves until `stopped` resolves. The tools do not depend on how that ends.
    pub(super) async fn run(
        self,
        forms: &Forms,
        hello: oneshot::Receiver<Hello>,
        shown: mpsc::UnboundedSender<(Duration, Value)>,
        mut stopped: oneshot::Receiver<()>,
    ) {
        let session = visible(self.session.as_str()).into_owned();
        let hello = tokio::select! {
            biased;
            _ = &mut stopped => return,
            hello = hello => hello,
        };
        let Ok(hello) = hello else { return };
        let served = self.serve(forms, &hello, shown, stopped).await;
        if let Err(error) = served {
            let (hint, _) = hint_of(&error);
            let hint = hint.map_or_else(String::new, |hint| format!(" (hint: {hint})"));
            output::warn(&format!(
                "session {session} is not served here: {error:#}{hint}"
            ));
        }
    }

    async fn serve(
        self,
        forms: &Forms,
        hello: &Hello,
        shown: mpsc::UnboundedSender<(Duration, Value)>,
        stopped: oneshot::Receiver<()>,
    ) -> anyhow::Result<()> {
        if !hello.shows_forms {
            return Err(Hinted::usage(
                format!("{} shows no forms (MCP elicitation)", name(hello)),
                "serve it with `askrelay serve` in a terminal of its own",
            ));
        }
        if !elicitation::is_known(&hello.name) {
            return Err(Hinted::usage(
                format!(
                    "it is not known that what is typed in {} for something else is no answer to a form; only of Claude Code it is",
                    name(hello)
                ),
                "serve it with `askrelay serve` in a terminal of its own",
            ));
        }
        if let Some(pid) = self.agent_above() {
            return Err(Hinted::usage(
                format!(
                    "this agent was started within another one ({} {pid})",
                    env::CLAUDE_PID
                ),
                "name the session with --session to have it served all the same",
            ));
        }
        let mut wanted = self.wanted;
        if self.env.text(env::AGENT).is_none() && !hello.name.is_empty() {
            wanted.agent = wanted.agent.or_else(|| Some(hello.name.clone()));
        }
        let trust = &self.loaded.config.authorizer_trust;
        let trusted = trust.get(&form_program(&hello.name)).cloned();
        let prepared = Prepared::new(self.env, self.place, self.loaded, wanted)?;
        let (events, person) = mpsc::unbounded_channel();
        let settings = FormSettings {
            client: hello.name.clone(),
            credit: Credit::Program,
            trusted: trusted.unwrap_or_default(),
            budget: prepared.dialog.budget,
        };
        let (prompter, replies) = FormPrompter::new(
            Box::new(Client(shown)),
            settings,
            around::looking(self.env.clone()),
            events,
        );
        forms.listen(replies);
        let server = prepared.start(Some(Box::new(prompter)), person)?;
        output::say(&format!(
            "its asks are forms in {}; who answers them is credited as {}, and as no person",
            name(hello),
            form_program(&hello.name)
        ));
        server
            .run(async move {
                tokio::select! {
                    _ = stopped => {}
                    () = forms.is_over() => {}
                }
            })
            .await?;
        Ok(())
    }

    /// The agent whose tool has started the one that started this, where it says so and nobody has named the session. That one may serve
    /// the session itself, and has a person before it, which the inner one has not.
    fn agent_above(&self) -> Option<String> {
        let pid = self.env.text(env::CLAUDE_PID).filter(|_| !self.is_named)?;
        let started_this = process::parent_pid().is_some_and(|parent| parent.to_string() == pid);
        (!started_this).then(|| visible(&pid).into_owned())
    }
}

fn name(hello: &Hello) -> String {
    if hello.name.is_empty() {
        "the client".to_owned()
    } else {
        visible(&hello.name).into_owned()
    }
}

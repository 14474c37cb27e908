//! Forwarding asks from the command line: whom a process asks, whose answers it believes, and the ask that a tool call is.
//!
//! `askrelay ask` forwards one and ends; what runs beside an agent forwards as many as it makes, at once if need be. Whom it asks is
//! looked at with each ask: a session that was not served may be by now.
//!
//! It decides nothing. Whatever goes wrong is an answer that says so, and never an approval.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;

mod gated;

use super::env::{self, Env};
use super::pin::Pins;
use super::place::Place;
use super::role::{Ancestor, Own};
use super::{input, output, role};
use crate::ask::{
    Abandonment, Answer, Ask, Outcome, PlainAsk, Requester, Settings, Spellings, WhereNobodyServes,
    intent_of, unaddressed,
};
use crate::audit::ReviewLog;
use crate::clock;
use crate::host::hook::Reach;
use crate::host::{Asked, ToolCall};
use crate::policy::{BASH_SURFACE, Config, is_path_surface};
use crate::presentation::denial::{DenialContext, agent_text};
use crate::spool::{LivenessProbe, Missing, Spool, Watch, path_spellings};
use crate::wire::{
    Decision, Evidence, Generation, Hop, Liveness, PayloadKind, Principal, PromptPayload,
    RequestSource, SessionId,
};

/// Who asks, and whom, as far as the command line says.
#[derive(Debug, Clone, Default)]
pub(super) struct Who {
    /// The session that is asked.
    pub(super) session: Option<String>,
    /// The own session.
    pub(super) from: Option<String>,
    /// The own agent name.
    pub(super) agent: Option<String>,
    /// Sessions within the own one that every ask comes by, outermost child first.
    pub(super) within: Vec<Hop>,
    /// The key that the session that is asked seals with.
    pub(super) serving_key: Option<String>,
    /// For which generation of the peer requests are written, where the configuration is not to say.
    pub(super) generation: Option<Generation>,
    /// Whether it is a hook: its host has been running for a while, and so would be who serves.
    pub(super) is_hook: bool,
}

/// Forwards the asks of one process.
pub(super) struct Forwarder {
    env: Env,
    /// The settings of the process.
    pub(super) config: Config,
    /// The review log.
    pub(super) log: Arc<ReviewLog>,
    debug_log: Option<Arc<ReviewLog>>,
    failed_before: bool,
    /// The own agent name.
    pub(super) agent: String,
    own: Own,
    who: Who,
    generation: Generation,
    ancestors: Vec<Ancestor>,
    pins: Pins<'static>,
    /// The session that is asked, or what was looked at in vain.
    target: Result<SessionId, String>,
    /// Where the spool is, or why that is not known.
    spool_path: Result<PathBuf, String>,
    channel: Mutex<Option<Channel>>,
}

/// What asks go through, opened with the first of them.
struct Channel {
    spool: Spool,
    watch: Option<Arc<Watch>>,
    /// The session that was asked last.
    last: Option<(SessionId, Requester)>,
}

/// What came of holding rules against a call.
#[derive(Debug, Clone)]
#[must_use]
pub(super) enum Gated {
    /// It was decided, or could not be.
    Ruled(Box<Ruling>),
    /// No rule is about it, and nobody was to be asked.
    Left(Box<Ruling>),
}

/// How an ask ended, with what was asked.
#[derive(Debug, Clone)]
#[must_use]
pub(super) struct Ruling {
    /// How it ended.
    pub(super) answer: Answer,
    /// The complete facts of the ask.
    pub(super) payload: PromptPayload,
    /// The agent that asked.
    agent: String,
}

impl Ruling {
    /// The decision to act on.
    pub(super) fn decision(&self) -> Decision {
        self.answer.decision()
    }

    /// What the agent reads of a denial.
    pub(super) fn text(&self) -> String {
        let context = DenialContext {
            agent_name: Some(&self.agent),
            ..DenialContext::default()
        };
        agent_text(&self.payload, &self.decision(), &context)
    }

    /// What is to be done where nobody ruled.
    pub(super) fn hint(&self) -> Option<&'static str> {
        match &self.answer.outcome {
            Outcome::Abandoned(abandonment) => Some(abandonment.hint()),
            Outcome::Decided(_) => None,
        }
    }
}

impl Forwarder {
    /// Resolves who asks whom. An error is one of usage: nothing can be asked like this.
    pub(super) fn open(env: &Env, place: &Place<'_>, who: Who) -> anyhow::Result<Self> {
        let asking = place.settings()?;
        asking.warn();
        let ancestors = role::lineage(env)?;
        let required = asking.config.require_seal.is_on();
        let pins = Pins::new(env, who.serving_key.as_deref(), ancestors.clone(), required)?;
        let log = place.log(&asking.config);
        let failed_before = log.failure().is_some();
        let own = role::requester(env, who.from.as_deref());
        let default = Place::default_session(&asking.config);
        let target = role::asked(env, who.session.as_deref(), &default, &own.id);
        if let Ok(target) = &target {
            asking.check_default_is_meant(&target.reason)?;
        }
        let config = asking.config;
        Ok(Self {
            agent: who
                .agent
                .clone()
                .or_else(|| env.text(env::AGENT))
                .unwrap_or_else(|| "unknown".to_owned()),
            generation: who.generation.unwrap_or(config.peer_generation),
            debug_log: (!config.evidence_formatters.is_empty()).then(|| place.debug_log(&config)),
            env: env.clone(),
            target: target
                .map(|target| target.session)
                .map_err(|nobody| nobody.tried.join("; ")),
            config,
            log,
            failed_before,
            own,
            who,
            ancestors,
            pins,
            spool_path: place.spool_path().map_err(|error| format!("{error:#}")),
            channel: Mutex::new(None),
        })
    }

    /// Asks about one call of a tool, and waits for the end of it. Dropping the future withdraws the ask.
    pub(super) async fn ask(&self, call: ToolCall) -> Ruling {
        match self.gated(call, Reach::All).await {
            Gated::Ruled(ruling) | Gated::Left(ruling) => *ruling,
        }
    }

    /// What is asked of a call. A tool that the configuration knows to run command lines is one.
    fn asked(&self, call: &ToolCall) -> Asked {
        let shell = self.config.shell_tools.get(&call.tool);
        let command = shell.and_then(|shell| call.input.get(&shell.command_argument)?.as_str());
        match command {
            Some(command) => call.named(Asked {
                surface: BASH_SURFACE.to_owned(),
                kind: PayloadKind::Bash,
                value: command.to_owned(),
            }),
            None => call.asked(),
        }
    }

    /// The evidence of a call in plain words: what is made of its input here, and what the operator's program adds.
    pub(super) async fn evidence(
        &self,
        plain: &PlainAsk,
        tool: &str,
        input: &Value,
    ) -> Vec<Evidence> {
        let cwd = self.env.cwd().cloned().unwrap_or_default();
        let mut evidence = input::evidence(&cwd, &plain.tool, &plain.value, input);
        evidence.extend(self.added(tool, input).await);
        evidence
    }

    async fn added(&self, tool: &str, input: &Value) -> Vec<Evidence> {
        match &self.debug_log {
            Some(debug_log) => {
                input::added(&self.env, debug_log, &self.config, &self.log, tool, input).await
            }
            None => Vec::new(),
        }
    }

    /// The ask with everything that belongs to it. `path`: the sessions that it comes by, outermost child first, without the own one.
    pub(super) fn complete(&self, mut payload: PromptPayload, cwd: &Path, path: Vec<Hop>) -> Ask {
        let above = self.ancestors.iter().map(|ancestor| &ancestor.hop);
        let above = above.map(|hop| hop.session_id.as_str());
        let own = std::iter::once(self.own.id.as_str());
        let below = path.iter().rev().map(|hop| hop.session_id.as_str());
        let lineage: Vec<&str> = above.chain(own).chain(below).collect();
        if lineage.len() > 1 {
            payload.evidence.push(Evidence {
                label: "lineage".to_owned(),
                text: lineage.join(" > "),
                detail: None,
            });
        }
        let facts = &payload.request;
        let spellings = if is_path_surface(&facts.surface) {
            let (values, canonical) = path_spellings(&facts.value, cwd);
            Spellings {
                values,
                boundary: Some(canonical),
            }
        } else if payload.kind == PayloadKind::Path {
            // A tool of its own: its rules are held against the path as it is spelled, and only denies against the others.
            let (others, _) = path_spellings(&facts.value, cwd);
            let others = others.into_iter().filter(|other| *other != facts.value);
            Spellings {
                values: std::iter::once(facts.value.clone()).chain(others).collect(),
                boundary: None,
            }
        } else {
            Spellings {
                values: vec![facts.value.clone()],
                boundary: None,
            }
        };
        let principal = match path.first() {
            Some(child) => Principal {
                session_id: child.session_id.clone(),
                agent_name: child.agent_name.clone(),
            },
            None => Principal {
                session_id: self.own.id.clone(),
                agent_name: self.agent.clone(),
            },
        };
        let intent = intent_of(
            &payload,
            spellings,
            cwd.to_string_lossy().into_owned(),
            principal,
        );
        Ask {
            id: None,
            source: match payload.kind {
                PayloadKind::Skill => RequestSource::SkillInput,
                PayloadKind::SkillRead => RequestSource::SkillRead,
                PayloadKind::Bash
                | PayloadKind::Mcp
                | PayloadKind::Tool
                | PayloadKind::Path
                | PayloadKind::ExternalDirectory
                | PayloadKind::BashExternalDirectory
                | PayloadKind::Forwarded => RequestSource::ToolCall,
            },
            surface: Some(
                facts
                    .tool_name
                    .clone()
                    .unwrap_or_else(|| facts.surface.clone()),
            ),
            value: Some(facts.value.clone()),
            grants: Vec::new(),
            access_intent: Some(intent),
            timeout: self.config.forwarding_timeout,
            path,
            rules_only: false,
            guard: false,
            verdict_only: false,
            payload,
        }
    }

    /// Forwards an ask and waits for its end. Dropping the future withdraws it.
    pub(super) async fn send(&self, ask: Ask) -> Ruling {
        let payload = ask.payload.clone();
        let agent = match &ask.access_intent {
            Some(intent) => intent.principal.agent_name.clone(),
            None => self.agent.clone(),
        };
        let answer = match self.requester() {
            Ok(requester) => requester.ask(ask).await,
            Err(abandonment) => unaddressed(ask.id.as_deref(), abandonment, &self.log),
        };
        Ruling {
            answer,
            payload,
            agent,
        }
    }

    /// Asks whoever is to be asked now.
    fn requester(&self) -> Result<Requester, Abandonment> {
        let parent = self.target.clone();
        let parent = parent.map_err(|tried| Abandonment::NoParent { tried })?;
        let mut guard = self.channel.lock().unwrap_or_else(PoisonError::into_inner);
        let channel = match &mut *guard {
            Some(channel) => channel,
            None => match self.open_channel() {
                Ok(channel) => guard.insert(channel),
                Err(cause) => {
                    return Err(Abandonment::NoDirectories {
                        target: parent,
                        cause,
                    });
                }
            },
        };
        let target = if self.who.session.is_none() && self.generation == Generation::Current {
            self.nearest_served(&channel.spool, parent)
        } else {
            parent
        };
        if let Some((asked, requester)) = &channel.last
            && *asked == target
        {
            return Ok(requester.clone());
        }
        let settings = Settings {
            trust: self.pins.trust(&target),
            target: target.clone(),
            session_id: self.own.id.clone(),
            agent_name: self.agent.clone(),
            generation: self.generation,
            where_nobody_serves: if self.who.is_hook {
                WhereNobodyServes::GiveUp
            } else {
                WhereNobodyServes::Wait
            },
        };
        let (watch, log) = (channel.watch.clone(), Arc::clone(&self.log));
        let requester = Requester::new(&channel.spool, settings, watch, log);
        channel.last = Some((target, requester.clone()));
        Ok(requester)
    }

    fn open_channel(&self) -> Result<Channel, String> {
        let path = self.spool_path.as_ref().map_err(String::clone)?;
        let spool = Spool::open(path, Missing::Create);
        let spool = spool.map_err(|error| format!("{:#}", anyhow::Error::from(error)))?;
        let watch = match Watch::start() {
            Ok(watch) => Some(Arc::new(watch)),
            Err(error) => {
                output::warn(&error.to_string());
                None
            }
        };
        Ok(Channel {
            spool,
            watch,
            last: None,
        })
    }

    /// A parent that serves nobody cannot answer, but a session above it may: the nearest one that is being served. Where any is
    /// known by its key, it is the nearest one that is known, served or not.
    fn nearest_served(&self, spool: &Spool, parent: SessionId) -> SessionId {
        if self.pins.any() {
            return self.pins.nearest_known(&parent, &self.own.id);
        }
        let serves = |session: &SessionId| {
            LivenessProbe::new(spool.clone(), session.clone())
                .look(clock::now())
                .liveness
                == Liveness::Alive
        };
        if self.ancestors.is_empty() || serves(&parent) {
            return parent;
        }
        let above = self.ancestors.iter().rev();
        let mut above =
            above.filter_map(|ancestor| SessionId::parse(&ancestor.hop.session_id).ok());
        above
            .find(|session| session.as_str() != self.own.id && serves(session))
            .unwrap_or(parent)
    }

    /// Says that the log could not be written, where that was not said at the start.
    pub(super) fn warn_of_log(&self) {
        if let (false, Some(failure)) = (self.failed_before, self.log.failure()) {
            output::warn(&format!("the review log cannot be written: {failure}"));
        }
    }
}

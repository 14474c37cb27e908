//! Holding rules against one call, by each of its names, and asking somebody about it once.
//!
//! A call has several names: what it is asked as, what its host calls its tool, each path that it works on. First it is asked what rules
//! say about the names that only hold it back, and nobody is disturbed by that. Then the call itself is asked about, and where rules
//! have somebody asked, by however many names, that is one question which shows all of them.

use std::future::poll_fn;
use std::path::{Path, PathBuf};
use std::task::Poll;
use std::time::Duration;

use super::{Forwarder, Gated, Ruling, input};
use crate::ask::Ask;
use crate::clock::{self, Moment};
use crate::host::hook::Reach;
use crate::host::{Asked, ToolCall, agent_sessions};
use crate::policy::OUTSIDE_SANDBOX_SURFACE;
use crate::spool::path_spellings;
use crate::wire::{
    ApprovalGrant, Decision, DecisionSource, Evidence, ForwardedAccessIntent, Hop, PayloadKind,
};

/// Most bytes of evidence that all asks about the paths of one call have together.
const MAX_GUARDS_BYTES: usize = 16 << 20;

/// Most names of one call that a grant for the session covers along with the one that is asked about.
const MAX_GRANTED_ALONG: usize = 8;

/// One call, and what belongs to every ask about it.
struct Questions<'a> {
    forwarder: &'a Forwarder,
    call: &'a ToolCall,
    /// What it is asked as.
    asked: Asked,
    evidence: Vec<Evidence>,
    path: Vec<Hop>,
    /// Where its command runs.
    cwd: PathBuf,
    /// Where its agent works.
    home: String,
    started: Moment,
    budget: Duration,
}

/// What rules say about names of a call that can only hold it back.
#[derive(Debug, Default)]
struct Guarded {
    /// What denies the call.
    denied: Option<Ruling>,
    /// What a rule has somebody asked about, by its place.
    asks: Vec<usize>,
    /// Whether a rule or a grant allows the first: what leaves the sandbox, as what it is within.
    allows_within: bool,
}

impl Forwarder {
    /// Holds rules against a call, and has somebody asked about it as far as `reach` goes.
    ///
    /// What denies it comes first, whichever rule that is, and no yes goes past it. A person is asked once, by however many of its names
    /// rules have it asked, and is shown all of them. What a program or a grant allows is about one name only.
    pub(in crate::cli) async fn gated(&self, call: ToolCall, reach: Reach) -> Gated {
        let started = clock::now();
        let asked = self.asked(&call);
        let shown = call.laid_out(&asked);
        let mut evidence = input::evidence(&call.cwd, shown.0, &asked.value, &shown.1);
        evidence.extend(self.added(&call.tool, &call.input).await);
        evidence.extend(call.evidence.iter().cloned());
        let own = Hop {
            session_id: self.own.id.clone(),
            agent_name: self.agent.clone(),
        };
        let (_, home) = path_spellings(".", &call.cwd);
        let questions = Questions {
            forwarder: self,
            evidence,
            path: agent_sessions(&own, &self.who.within, call.agent.as_ref()),
            cwd: match call.directory() {
                Some(directory) => call.cwd.join(directory),
                None => call.cwd.clone(),
            },
            home,
            started,
            budget: call.timeout.unwrap_or(self.config.forwarding_timeout),
            asked,
            call: &call,
        };
        questions.put(reach).await
    }
}

impl Questions<'_> {
    async fn put(&self, reach: Reach) -> Gated {
        let is_outside = |path: &str| {
            let (_, canonical) = path_spellings(path, &self.call.cwd);
            !Path::new(&canonical).starts_with(&self.home)
        };
        let guards = self.call.guards(&self.asked, is_outside);
        let guarded = self.verdicts(&guards).await;
        if let Some(denied) = guarded.denied {
            return Gated::Ruled(Box::new(denied));
        }
        let asking: Vec<&Asked> = (guarded.asks.iter())
            .filter_map(|place| guards.get(*place))
            .collect();
        if !asking.is_empty() {
            return Gated::Ruled(Box::new(self.ask_once(&asking, guards.len()).await));
        }
        let leaves = self.asked.surface == OUTSIDE_SANDBOX_SURFACE;
        let rules_only = match reach {
            Reach::All => false,
            // It may run in the sandbox, and wants to run outside: that is a question, and not the host's.
            Reach::Rules | Reach::RulesWithin if leaves && guarded.allows_within => false,
            Reach::Rules => self.call.is_seen_whole(),
            Reach::RulesWithin => {
                self.call.looks_at_its_path_only() && !is_outside(&self.asked.value)
            }
        };
        let ruling = Box::new(self.forwarder.send(self.of_call(rules_only)).await);
        if rules_only && ruling.decision().is_unruled() {
            Gated::Left(ruling)
        } else {
            Gated::Ruled(ruling)
        }
    }

    /// What rules say about the names that can only hold the call back. Nobody is asked.
    async fn verdicts(&self, guards: &[Asked]) -> Guarded {
        // A call of many paths is not written down whole for each of them.
        let length: usize = self.evidence.iter().map(|entry| entry.text.len()).sum();
        let is_shown = length.saturating_mul(guards.len()) <= MAX_GUARDS_BYTES;
        let verdicts = guards.iter().enumerate().map(|(place, guard)| {
            let mut ask = self.ask_of(guard, true);
            if !is_shown {
                ask.payload.evidence.clear();
            }
            (ask.guard, ask.verdict_only) = (true, true);
            ask.id = self.id_of(place);
            self.forwarder.send(ask)
        });
        until_settled(verdicts.collect()).await
    }

    /// Asks about the call, of which rules have somebody asked about these names: about the call itself, where nothing allows that yet.
    /// `used`: how many ids were given out.
    async fn ask_once(&self, asking: &[&Asked], used: usize) -> Ruling {
        let mut verdict = self.of_call(true);
        verdict.verdict_only = true;
        verdict.id = self.id_of(used);
        let verdict = self.forwarder.send(verdict).await;
        let ruling = if verdict.decision().is_left() {
            let mut ask = self.of_call(false);
            self.also_about(&mut ask, asking);
            self.forwarder.send(ask).await
        } else {
            verdict
        };
        let decision = ruling.decision();
        if !decision.is_approved() || is_from_a_person(&decision) {
            return ruling;
        }
        // No person has seen it yet.
        let mut rest = asking;
        while let Some((guard, others)) = rest.split_first() {
            let mut ask = self.ask_of(guard, true);
            ask.guard = true;
            ask.id = self.id_of(used + rest.len());
            self.also_about(&mut ask, others);
            let said = self.forwarder.send(ask).await;
            let decision = said.decision();
            let is_allowed = decision.is_unruled() || decision.is_approved();
            if !is_allowed || is_from_a_person(&decision) {
                return said;
            }
            rest = others;
        }
        ruling
    }

    /// An ask by one name of the call.
    fn ask_of(&self, asked: &Asked, rules_only: bool) -> Ask {
        let mut payload = asked.plain().payload();
        if !self.call.tool.eq_ignore_ascii_case(&asked.surface) {
            payload.request.invoked_tool_name = Some(self.call.tool.clone());
        }
        payload.evidence.clone_from(&self.evidence);
        if asked.kind == PayloadKind::ExternalDirectory {
            payload.evidence.push(Evidence {
                label: "working directory".to_owned(),
                text: self.home.clone(),
                detail: None,
            });
        }
        let path = self.path.clone();
        let mut ask = self.forwarder.complete(payload, &self.cwd, path);
        ask.grants = exactly(asked, ask.access_intent.as_ref());
        let left = self.budget.saturating_sub(clock::now().since(self.started));
        ask.timeout = in_tenths(left);
        ask.rules_only = rules_only;
        ask
    }

    /// The ask about the call itself, which alone can let it run.
    fn of_call(&self, rules_only: bool) -> Ask {
        let mut ask = self.ask_of(&self.asked, rules_only);
        // Of what it is asked as, not of its guards: a universal allow is no rule about those, and would be made a question by it.
        if let (Some(floor), Some(intent)) = (self.call.floor(), &mut ask.access_intent) {
            intent.floor.get_or_insert_with(|| floor.to_owned());
        }
        ask.id.clone_from(&self.call.id);
        if self.call.is_unseen() {
            // A grant would be about what nobody has seen.
            ask.grants.clear();
        } else if !self.call.grants.is_empty() {
            ask.grants.clone_from(&self.call.grants);
        }
        ask
    }

    /// Has a question be about these names of the call as well: they are shown, and what is granted is granted for them too, where they
    /// are few enough to be read.
    fn also_about(&self, ask: &mut Ask, others: &[&Asked]) {
        let facts = &ask.payload.request;
        let is_it = |other: &Asked| other.surface == facts.surface && other.value == facts.value;
        let others: Vec<&&Asked> = others.iter().filter(|other| !is_it(other)).collect();
        if others.is_empty() {
            return;
        }
        let lines = others
            .iter()
            .map(|other| format!("{}: {}", other.surface, other.value));
        ask.payload.evidence.push(Evidence {
            label: "also asked".to_owned(),
            text: lines.collect::<Vec<_>>().join("\n"),
            detail: None,
        });
        if others.len() <= MAX_GRANTED_ALONG && !ask.grants.is_empty() {
            for grant in others
                .iter()
                .flat_map(|other| self.ask_of(other, true).grants)
            {
                if !ask.grants.contains(&grant) {
                    ask.grants.push(grant);
                }
            }
        }
    }

    fn id_of(&self, place: usize) -> Option<String> {
        let id = self.call.id.as_ref()?;
        Some(format!("{id}.{place}"))
    }
}

/// Waits for asks of rules only that all are about one call: until one of them is denied, or until all are answered.
async fn until_settled<F: Future<Output = Ruling>>(asks: Vec<F>) -> Guarded {
    let mut asks: Vec<_> = asks.into_iter().map(|ask| Some(Box::pin(ask))).collect();
    let mut guarded = Guarded::default();
    poll_fn(|context| {
        let mut waits = false;
        for (place, slot) in asks.iter_mut().enumerate() {
            let Some(ask) = slot else { continue };
            let Poll::Ready(ruling) = ask.as_mut().poll(context) else {
                waits = true;
                continue;
            };
            *slot = None;
            let decision = ruling.decision();
            if decision.is_unasked() {
                guarded.asks.push(place);
            } else if decision.is_approved() {
                guarded.allows_within |= place == 0;
            } else if !decision.is_unruled() {
                guarded.denied = Some(ruling);
                return Poll::Ready(std::mem::take(&mut guarded));
            }
        }
        if waits {
            return Poll::Pending;
        }
        guarded.asks.sort_unstable();
        Poll::Ready(std::mem::take(&mut guarded))
    })
    .await
}

/// What is granted where nothing wider is suggested: exactly what is asked. A text that would be a pattern suggests nothing.
fn exactly(asked: &Asked, intent: Option<&ForwardedAccessIntent>) -> Vec<ApprovalGrant> {
    let canonical = intent.and_then(|intent| intent.boundary_value.as_ref());
    let exact = canonical.unwrap_or(&asked.value);
    let is_pattern = exact.contains(['*', '?']) || exact.starts_with(['~', '$']);
    let grant = ApprovalGrant {
        surface: asked.surface.clone(),
        pattern: exact.clone(),
    };
    Some(grant).filter(|_| !is_pattern).into_iter().collect()
}

/// A time to wait as it can be told: in tenths of a second.
fn in_tenths(time: Duration) -> Duration {
    let tenths = time.as_millis() / 100;
    match u64::try_from(tenths) {
        Ok(tenths @ 1..) => Duration::from_millis(tenths.saturating_mul(100)),
        Ok(0) | Err(_) => time,
    }
}

/// Whether a person was asked about this very call. What was granted for longer, and what a program allowed, is about the one name that it
/// was about: it lets nothing run under another.
fn is_from_a_person(decision: &Decision) -> bool {
    matches!(decision.decided_by.effective(), DecisionSource::User { .. })
}

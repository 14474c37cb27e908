//! Holding rules against one call, by each of its names, and asking somebody about it once.
//!
//! A call has several names: what it is asked as, what its host calls its tool, each path that it works on. First it is asked what rules
//! say about the names that only hold it back, and nobody is disturbed by that. Then the call itself is asked about, and where rules
//! have somebody asked, by however many names, that is one question which shows all of them.

use std::future::poll_fn;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use super::{Forwarder, Gated, Ruling, input};
use crate::ask::Ask;
use crate::clock::{self, Moment};
use crate::host::hook::Reach;
use crate::host::{Asked, ToolCall, agent_sessions};
use crate::policy::{BASH_SURFACE, OUTSIDE_SANDBOX_SURFACE};
use crate::presentation::dialog::ALSO_ASKED;
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
    /// How many asks were sent.
    sent: AtomicUsize,
}

/// What was said about names of a call, by their places.
#[derive(Debug, Default)]
struct Held {
    /// What denies the call.
    denied: Option<Ruling>,
    /// What a rule has somebody asked about.
    asks: Vec<usize>,
    /// What no rule is about.
    unruled: Vec<usize>,
    /// What a person let pass: an older serving session asks its own, though only rules were asked.
    persons: Vec<usize>,
    /// What a link of a chain let pass.
    programs: Vec<usize>,
    /// Whether a rule or a grant allows the first: what leaves the sandbox, as what it is within.
    allows_within: bool,
}

/// What somebody was asked about so far, by place.
#[derive(Debug)]
struct Told {
    /// What they were shown, or said something about.
    known: Vec<usize>,
    /// What a person was asked about where only rules were to be. They are not asked that again.
    persons: Vec<usize>,
}

/// A call was let run, or not, by an ask about one of its names.
struct Put {
    ruling: Ruling,
    /// The name that a person has answered about: its rules were held against it until then.
    place: Option<usize>,
}

impl Forwarder {
    /// Holds rules against a call, and has somebody asked about it as far as `reach` goes.
    ///
    /// What denies it comes first, whichever rule that is, and no yes goes past it: rules that were made while somebody was waited for
    /// are held against it as well. A person is asked once, by however many of its names rules have it asked, and is shown all of
    /// them. What a program or a grant allows is about one name only.
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
            sent: AtomicUsize::new(0),
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
        let own = guards.len();
        let held = self.verdicts(&guards).await;
        if let Some(denied) = held.denied {
            return Gated::Ruled(Box::new(denied));
        }
        let mut told = Told {
            known: [&held.asks[..], &held.persons, &held.programs].concat(),
            persons: held.persons,
        };
        let mut put = if held.asks.is_empty() {
            let leaves = self.asked.surface == OUTSIDE_SANDBOX_SURFACE;
            let rules_only = match reach {
                Reach::All => false,
                // It may run in the sandbox, and wants to run outside: that is a question, and not the host's.
                Reach::Rules | Reach::RulesWithin if leaves && held.allows_within => false,
                Reach::Rules => self.call.is_seen_whole(),
                Reach::RulesWithin => {
                    self.call.looks_at_its_path_only() && !is_outside(&self.asked.value)
                }
            };
            let ruling = self.send(self.of_call(rules_only)).await;
            if rules_only && ruling.decision().is_unruled() {
                return Gated::Left(Box::new(ruling));
            }
            if !is_waited_for(&ruling.decision()) {
                return Gated::Ruled(Box::new(ruling));
            }
            told.known.push(own);
            Put {
                ruling,
                place: Some(own),
            }
        } else {
            self.ask_once(&guards, &held.asks, &mut told).await
        };
        // Rules may have become others while somebody was waited for.
        while put.ruling.decision().is_approved() {
            let again = self.verdicts_again(&guards, &told, put.place).await;
            if let Some(denied) = again.denied {
                return Gated::Ruled(Box::new(denied));
            }
            let was_allowed = again.unruled.iter().filter(|place| **place == own);
            let open = again.asks.iter().chain(was_allowed).copied();
            let new: Vec<usize> = open.filter(|place| !told.known.contains(place)).collect();
            if new.is_empty() {
                break;
            }
            told.known.extend(&new);
            put = self.ask_rest(&guards, &new, put.ruling).await;
        }
        Gated::Ruled(Box::new(put.ruling))
    }

    /// What rules say about the names that can only hold the call back. No person is asked; a link of a chain is, where a rule has
    /// the name asked.
    async fn verdicts(&self, guards: &[Asked]) -> Held {
        // A call of many paths is not written down whole for each of them.
        let length: usize = self.evidence.iter().map(|entry| entry.text.len()).sum();
        let is_shown = length.saturating_mul(guards.len()) <= MAX_GUARDS_BYTES;
        let verdicts = guards.iter().enumerate().map(|(place, guard)| {
            let mut ask = self.ask_of(guard, true);
            if !is_shown {
                ask.payload.evidence.clear();
            }
            (ask.guard, ask.verdict_only) = (true, true);
            (place, self.send(ask))
        });
        until_settled(verdicts.collect()).await
    }

    /// What rules say about all names by now, after somebody has let the call run. The name that they were asked by was held against
    /// rules as long as it waited. What a chain was asked about already is held against rules alone.
    async fn verdicts_again(&self, guards: &[Asked], told: &Told, put: Option<usize>) -> Held {
        let verdicts = (0..=guards.len())
            .filter(|place| Some(*place) != put && !told.persons.contains(place))
            .map(|place| {
                let mut ask = self.question(guards, place, true);
                ask.payload.evidence.clear();
                ask.guard &= !told.known.contains(&place);
                ask.verdict_only = true;
                (place, self.send(ask))
            });
        until_settled(verdicts.collect()).await
    }

    /// Asks about the call, of which rules have somebody asked about these names: about the call itself, where nothing allows that yet.
    async fn ask_once(&self, guards: &[Asked], asking: &[usize], told: &mut Told) -> Put {
        let own = guards.len();
        let mut verdict = self.of_call(true);
        verdict.verdict_only = true;
        let verdict = self.send(verdict).await;
        let decision = verdict.decision();
        if is_from_a_person(&decision) {
            // An older serving session has asked them about this name alone.
            told.persons.push(own);
        }
        let ruling = if decision.is_left() {
            told.known.push(own);
            let mut ask = self.of_call(false);
            self.also_about(&mut ask, guards, asking);
            let ruling = self.send(ask).await;
            if is_from_a_person(&ruling.decision()) {
                let place = Some(own);
                return Put { ruling, place };
            }
            ruling
        } else {
            if is_waited_for(&decision) {
                told.known.push(own);
            }
            verdict
        };
        if ruling.decision().is_approved() {
            // No person has seen the others yet.
            return self.ask_rest(guards, asking, ruling).await;
        }
        let place = None;
        Put { ruling, place }
    }

    /// Asks about these names of a call, of which `ruling` lets pass what else there is: until a person has answered, for they are
    /// shown the rest.
    async fn ask_rest(&self, guards: &[Asked], places: &[usize], ruling: Ruling) -> Put {
        let mut rest = places;
        while let Some((place, others)) = rest.split_first() {
            let mut ask = self.question(guards, *place, *place < guards.len());
            self.also_about(&mut ask, guards, others);
            let said = self.send(ask).await;
            let decision = said.decision();
            let is_allowed = decision.is_unruled() || decision.is_approved();
            if !is_allowed || is_from_a_person(&decision) {
                return Put {
                    ruling: said,
                    place: Some(*place),
                };
            }
            rest = others;
        }
        Put {
            ruling,
            place: None,
        }
    }

    /// The ask by the name at this place: that of one of its guards, or of the call itself.
    fn question(&self, guards: &[Asked], place: usize, rules_only: bool) -> Ask {
        match guards.get(place) {
            Some(guard) => {
                let mut ask = self.ask_of(guard, rules_only);
                ask.guard = true;
                ask
            }
            None => self.of_call(rules_only),
        }
    }

    /// Sends an ask under a name of its own.
    fn send(&self, mut ask: Ask) -> impl Future<Output = Ruling> {
        let number = self.sent.fetch_add(1, Ordering::Relaxed);
        ask.id = self.call.id.as_ref().map(|id| format!("{id}.{number}"));
        self.forwarder.send(ask)
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
    fn also_about(&self, ask: &mut Ask, guards: &[Asked], places: &[usize]) {
        let facts = &ask.payload.request;
        let is_it = |other: &Asked| other.surface == facts.surface && other.value == facts.value;
        let others = places.iter().map(|place| guards.get(*place));
        let mut others: Vec<&Asked> = others.map(|guard| guard.unwrap_or(&self.asked)).collect();
        others.retain(|other| !is_it(other));
        // What is outside of the working directory is read first.
        others.sort_by_key(|other| other.kind != PayloadKind::ExternalDirectory);
        let shown = others.iter().map(|other| Evidence {
            label: ALSO_ASKED.to_owned(),
            text: format!("{}: {}", other.surface, other.value),
            detail: None,
        });
        // Who serves and is older shows them as it does all evidence, from the first on.
        let evidence = std::mem::take(&mut ask.payload.evidence);
        ask.payload.evidence = shown.chain(evidence).collect();
        if others.len() <= MAX_GRANTED_ALONG && !ask.grants.is_empty() {
            for grant in others.iter().flat_map(|other| self.grants_of(other)) {
                if !ask.grants.contains(&grant) {
                    ask.grants.push(grant);
                }
            }
        }
    }

    /// What can be granted for one name of the call. A command that leaves the sandbox is within what it was suggested to be outside.
    fn grants_of(&self, name: &Asked) -> Vec<ApprovalGrant> {
        let is_command = name.surface == BASH_SURFACE && name.value == self.asked.value;
        let leaves = self.asked.surface == OUTSIDE_SANDBOX_SURFACE;
        if !is_command || !leaves || self.call.grants.is_empty() {
            return self.ask_of(name, true).grants;
        }
        let suggested = self.call.grants.iter();
        let suggested = suggested.filter(|grant| grant.surface == OUTSIDE_SANDBOX_SURFACE);
        let within = suggested.map(|grant| ApprovalGrant {
            surface: BASH_SURFACE.to_owned(),
            pattern: grant.pattern.clone(),
        });
        within.collect()
    }
}

/// Waits for asks of rules only that all are about one call: until one of them is denied, or until all are answered.
async fn until_settled<F: Future<Output = Ruling>>(asks: Vec<(usize, F)>) -> Held {
    let mut asks: Vec<_> = (asks.into_iter())
        .map(|(place, ask)| (place, Some(Box::pin(ask))))
        .collect();
    let mut held = Held::default();
    poll_fn(|context| {
        let mut waits = false;
        for (place, slot) in &mut asks {
            let Some(ask) = slot else { continue };
            let Poll::Ready(ruling) = ask.as_mut().poll(context) else {
                waits = true;
                continue;
            };
            *slot = None;
            if !held.take(*place, ruling) {
                return Poll::Ready(std::mem::take(&mut held));
            }
        }
        if waits {
            return Poll::Pending;
        }
        held.asks.sort_unstable();
        Poll::Ready(std::mem::take(&mut held))
    })
    .await
}

impl Held {
    /// Takes in what was said about one name. Tells whether the others still matter.
    fn take(&mut self, place: usize, ruling: Ruling) -> bool {
        let decision = ruling.decision();
        if decision.is_unasked() {
            self.asks.push(place);
        } else if decision.is_unruled() {
            self.unruled.push(place);
        } else if decision.is_approved() {
            self.allows_within |= place == 0;
            if is_from_a_person(&decision) {
                self.persons.push(place);
            } else if is_waited_for(&decision) {
                self.programs.push(place);
            }
        } else {
            self.denied = Some(ruling);
        }
        self.denied.is_none()
    }
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

/// Whether somebody took their time to decide it. Rules and grants take none.
fn is_waited_for(decision: &Decision) -> bool {
    matches!(
        decision.decided_by.effective(),
        DecisionSource::User { .. } | DecisionSource::Authorizer { .. }
    )
}

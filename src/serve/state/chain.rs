//! The chain of authorizers: its links are asked one after another, before the person is, and the first that rules decides.
//!
//! ```text
//! ask ─▶ a place ─▶ link ─▶ envelope ─┬─ allow, deny ──▶ read and judged again ─▶ answered
//!        8 at once  ▲                 │
//!                   └── next link ◀───┴─ defer, failure ── no further link ─▶ the person, or nobody
//! ```
//!
//! For a short while the chain has an ask alone. Then the ask goes before the person like any other, whatever the chain does:
//! nobody at a terminal waits for a program. Who answers first decides, and the other is stopped.
//!
//! It keeps no request: a ruling is applied to what is read then, after policy has had its say about it. How a link is asked,
//! and for how long, is not known here.
//!
//! # Invariants
//!
//! * A link rules on the bytes that it was asked about, while somebody waits for them, and never later.
//! * A failure of any kind is a "don't know". An allow holds within [`Bounds`], once, and is credited to the link by name.
//! * A link that has answered about an ask, or failed, is not asked about it again, and no two are asked at the same time.
//! * A session that passes an ask on asks no link about it.

use std::sync::Arc;
use std::time::Duration;

use super::{Authority, Pending, Person, Reach, Stage, State};
use crate::audit::{Entry, Event};
use crate::clock::Moment;
use crate::policy::{Bounds, Enveloped, Policy, RulesInForce};
use crate::program::Outcome;
use crate::serve::chain::{AuthorizerChain, Link};
use crate::serve::event::{Authorize, Authorized, Care, Effect};
use crate::spool::Candidate;
use crate::wire::{
    AskFacts, AuthorizerVerdict, Decision, DecisionSource, ForwardedPermissionRequest, LinkHealth,
    RequestId, Ruling,
};

/// How many asks have a chain running at once; the others wait for a place.
pub const MOST_CHAINS: usize = 8;

/// How long the chain has an ask alone before it goes before the person as well.
pub const CHAIN_GRACE: Duration = Duration::from_secs(2);

/// How far the chain is with an ask.
#[derive(Debug, Default)]
pub(super) enum Chain {
    /// Nobody was asked.
    #[default]
    Unasked,
    /// It waits for a place.
    InLine,
    /// It has a place, and is read for it.
    Due,
    /// A link is asked.
    Running(Box<Running>),
    /// A link has ruled; the ask is read to be answered.
    Ruled(Box<Ruled>),
    /// No link ruled.
    Over,
}

/// A chain that runs, as it was when it began.
#[derive(Debug)]
pub(super) struct Running {
    links: Vec<Arc<Link>>,
    at: usize,
    facts: Arc<AskFacts>,
    bounds: Bounds,
    /// The agent whose rules hold for it.
    agent: String,
    /// Since when the link that is asked now is.
    since: Moment,
}

impl Running {
    fn link(&self) -> Option<&Arc<Link>> {
        self.links.get(self.at)
    }
}

/// What a link has ruled.
#[derive(Debug)]
pub(super) struct Ruled {
    name: String,
    verdict: AuthorizerVerdict,
    reason: Option<String>,
}

/// How often a link was asked, and how often it failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkTally {
    /// Its name.
    pub name: String,
    /// How often it was asked.
    pub asked: u64,
    /// How often it gave no verdict.
    pub failed: u64,
}

impl LinkTally {
    /// Nobody was asked yet.
    pub(super) fn none_of(chain: &AuthorizerChain) -> Vec<Self> {
        let links = chain.links().iter();
        let tallies = links.map(|link| Self {
            name: link.name().to_owned(),
            asked: 0,
            failed: 0,
        });
        tallies.collect()
    }
}

/// Who is asked next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(super) enum Next {
    /// Nobody for now: the chain has it alone.
    Chain,
    /// Whoever comes behind the chain.
    Others,
}

impl State {
    /// Gives an ask that this session has to settle to the chain, unless it was there.
    pub(super) fn ask_chain(
        &mut self,
        now: Moment,
        request: &ForwardedPermissionRequest,
        authority: Authority,
        effects: &mut Vec<Effect>,
    ) -> Next {
        let id = &request.id;
        let has_place = self.chains < self.setup.most_chains;
        let nobody_is_left = self.links_left(id).is_empty();
        let Some(ask) = self.asks.get_mut(id) else {
            return Next::Others;
        };
        match ask.chain {
            Chain::Unasked if nobody_is_left || self.shutting_down => {
                return Next::Others;
            }
            Chain::Unasked => {
                // What no person is to be asked about has no end of its time alone.
                let is_for_a_person = ask.reach == Reach::Anybody;
                ask.alone_until = is_for_a_person.then(|| now.after(CHAIN_GRACE));
                if has_place {
                    ask.chain = Chain::Due;
                    self.chains += 1;
                    self.begin_chain(request, effects);
                } else {
                    ask.chain = Chain::InLine;
                    self.chain_line.push(&ask.requester, id.clone());
                }
            }
            Chain::InLine | Chain::Due | Chain::Running(_) => {}
            Chain::Ruled(_) | Chain::Over => return Next::Others,
        }
        // Where no further ask may wait for the person, it is no worse off with the chain.
        let alone = self.asks.get(id).and_then(|ask| ask.alone_until);
        let stays = match authority {
            Authority::Person => alone.is_some_and(|until| now < until) || self.inbox_is_full(id),
            Authority::Parent | Authority::Nobody => true,
        };
        if !stays {
            return Next::Others;
        }
        self.set_stage(id, Stage::WithChain);
        Next::Chain
    }

    /// The links that have not answered about an ask yet.
    fn links_left(&self, id: &RequestId) -> Vec<Arc<Link>> {
        let heard = self.asks.get(id).map_or(&[][..], |ask| &ask.heard);
        let links = self.setup.chain.links().iter();
        links
            .filter(|link| !heard.iter().any(|heard| heard == link.name()))
            .map(Arc::clone)
            .collect()
    }

    /// Asks the first link about an ask that has a place, where it has come to that.
    pub(super) fn begin_chain(
        &mut self,
        request: &ForwardedPermissionRequest,
        effects: &mut Vec<Effect>,
    ) {
        let ask = self.asks.get(&request.id);
        if !ask.is_some_and(|ask| matches!(ask.chain, Chain::Due)) {
            return;
        }
        let links = self.links_left(&request.id);
        let Some(ask) = self.asks.get_mut(&request.id) else {
            return;
        };
        let names: Vec<&str> = links.iter().map(|link| link.name()).collect();
        effects.push(Effect::Log(
            Entry::new(Event::ChainResolved)
                .with("requestId", request.id.as_str())
                .with("links", names),
        ));
        ask.chain = Chain::Running(Box::new(Running {
            links,
            at: 0,
            facts: Arc::new(AskFacts::of(request)),
            bounds: Bounds::of(request),
            agent: agent_of(request).to_owned(),
            since: self.now,
        }));
        self.ask_link(&request.id, effects);
    }

    /// Asks the link whose turn it is, or is done where there is none.
    fn ask_link(&mut self, id: &RequestId, effects: &mut Vec<Effect>) {
        let Some(ask) = self.asks.get_mut(id) else {
            return;
        };
        let Chain::Running(running) = &mut ask.chain else {
            return;
        };
        running.since = self.now;
        let link = running.link().cloned();
        // The list says who is asked.
        if let Some(inbox) = &mut self.inbox {
            inbox.touch();
        }
        let name = link.as_ref().map(|link| link.name().to_owned());
        if matches!(ask.stage, Stage::Shown(_)) {
            effects.push(Effect::Thinking(id.clone(), name.clone()));
        }
        let (Some(link), Some(name)) = (link, name) else {
            ask.chain = Chain::Over;
            if matches!(ask.stage, Stage::WithChain) {
                ask.stage = Stage::Rereading;
                self.look_at(Candidate::of(id), effects);
            }
            return self.free_place(effects);
        };
        effects.push(Effect::Authorize(Box::new(Authorize {
            digest: ask.digest,
            link,
            facts: Arc::clone(&running.facts),
        })));
        self.count_link(&name, |tally| tally.asked += 1);
    }

    /// A link has answered, or failed.
    pub(super) fn authorized(&mut self, done: Authorized, effects: &mut Vec<Effect>) {
        let Some(ask) = self.asks.get_mut(&done.id) else {
            return;
        };
        let Chain::Running(running) = &mut ask.chain else {
            return;
        };
        let rules = rules_in_force(&self.policy, &running.agent);
        let Some(link) = running.link().map(Arc::clone) else {
            return;
        };
        // What comes late may be of another link, or about other bytes of the same name.
        if ask.digest != done.digest || link.name() != done.link {
            return;
        }
        let mut entry = Entry::new(Event::AuthorizerLink)
            .with("requestId", done.id.as_str())
            .with("name", link.name());
        let said = match done.outcome {
            Outcome::Failed(failure) => {
                self.count_link(link.name(), |tally| tally.failed += 1);
                Said {
                    outcome: "failed",
                    reason: Some(failure.to_string()),
                    ruling: Ruling::Defer,
                }
            }
            Outcome::Answered(verdict) => {
                let held = running.bounds.hold(verdict.ruling, link.trusted(), rules);
                let outcome = match held {
                    Enveloped::Holds(ruling) => ruling.name(),
                    Enveloped::Trusted(family) => {
                        effects.push(Effect::Log(
                            Entry::new(Event::TrustedAllow)
                                .with("requestId", done.id.as_str())
                                .with("link", link.name())
                                .with("surfaceFamily", family.name()),
                        ));
                        Ruling::Allow.name()
                    }
                    Enveloped::Capped(cap) => {
                        entry = entry.with("cap", cap.to_string());
                        "capped"
                    }
                };
                Said {
                    outcome,
                    reason: verdict.reason,
                    ruling: held.ruling(),
                }
            }
        };
        effects.push(Effect::Log(
            entry
                .with("outcome", said.outcome)
                .with("latencyMs", millis(done.latency))
                .with_opt("reason", said.reason.clone()),
        ));
        match said.ruling {
            Ruling::Allow => self.rule(&done.id, AuthorizerVerdict::Allow, None, effects),
            Ruling::Deny => self.rule(&done.id, AuthorizerVerdict::Deny, said.reason, effects),
            Ruling::Defer => {
                if let Some(ask) = self.asks.get_mut(&done.id)
                    && let Chain::Running(running) = &mut ask.chain
                {
                    running.at += 1;
                    ask.heard.push(done.link);
                }
                self.ask_link(&done.id, effects);
            }
        }
    }

    /// Takes the ruling of the link that was asked. The ask is read once more, and answered so unless policy decides it by then.
    fn rule(
        &mut self,
        id: &RequestId,
        verdict: AuthorizerVerdict,
        reason: Option<String>,
        effects: &mut Vec<Effect>,
    ) {
        let Some(ask) = self.asks.get_mut(id) else {
            return;
        };
        let Chain::Running(running) = &ask.chain else {
            return;
        };
        let name = running.link().map_or("", |link| link.name()).to_owned();
        let what = match verdict {
            AuthorizerVerdict::Allow => "allowed",
            AuthorizerVerdict::Deny => "denied",
        };
        let why = format!("authorizer {name} {what} it");
        ask.chain = Chain::Ruled(Box::new(Ruled {
            name,
            verdict,
            reason,
        }));
        match ask.stage {
            Stage::Shown(_) => {
                ask.stage = Stage::Rereading;
                effects.push(Effect::Withdraw {
                    id: id.clone(),
                    why,
                });
                self.leave_screen(id);
                self.touch_list();
            }
            Stage::Queued => {
                ask.stage = Stage::Rereading;
                self.queue.remove(&ask.requester, id);
            }
            Stage::AwaitingAnnotations | Stage::Rereading => {
                ask.stage = Stage::Rereading;
                self.end_opening(id, &why, effects);
            }
            Stage::WithChain => ask.stage = Stage::Rereading,
            // Whoever has it now has stopped the chain before.
            Stage::Relayed(_) | Stage::Deciding(_) => {}
        }
        self.look_at(Candidate::of(id), effects);
        self.free_place(effects);
    }

    /// Answers an ask as a link has ruled, where one has. Tells whether that is so.
    pub(super) fn settle_as_ruled(
        &mut self,
        request: &ForwardedPermissionRequest,
        effects: &mut Vec<Effect>,
    ) -> bool {
        let rules = rules_in_force(&self.policy, agent_of(request));
        let Some(ask) = self.asks.get_mut(&request.id) else {
            return false;
        };
        if !matches!(ask.chain, Chain::Ruled(_)) {
            return false;
        }
        let Chain::Ruled(said) = std::mem::replace(&mut ask.chain, Chain::Over) else {
            return false;
        };
        // The configuration may have broken since.
        if said.verdict == AuthorizerVerdict::Allow && rules == RulesInForce::Clamped {
            return false;
        }
        let Ruled {
            name,
            verdict,
            reason,
        } = *said;
        let by = |reason| DecisionSource::Authorizer {
            name,
            verdict,
            reason,
        };
        let decision = match verdict {
            AuthorizerVerdict::Allow => Decision::approved(by(None)),
            AuthorizerVerdict::Deny => Decision::denied(reason.clone(), by(reason)),
        };
        self.decide(request, decision, Care::Fast, effects);
        true
    }

    /// Takes over another chain, for asks from now on. Who is missing in it is recorded, once for each name.
    pub(super) fn renew_chain(&mut self, chain: AuthorizerChain, effects: &mut Vec<Effect>) {
        let before = std::mem::replace(&mut self.setup.chain, chain);
        let missing = self.setup.chain.unregistered().iter();
        let new = missing.filter(|name| !before.unregistered().contains(name));
        effects.extend(new.map(|name| {
            Effect::Log(Entry::new(Event::AuthorizerUnregistered).with("name", name.as_str()))
        }));
    }

    /// The chain has nothing more to do with this ask: somebody else has it, or nobody waits.
    pub(super) fn cancel_chain(&mut self, id: &RequestId, effects: &mut Vec<Effect>) {
        let Some(ask) = self.asks.get_mut(id) else {
            return;
        };
        match std::mem::take(&mut ask.chain) {
            Chain::Unasked => {}
            Chain::InLine => self.chain_line.remove(&ask.requester, id),
            Chain::Due => self.free_place(effects),
            Chain::Running(running) => {
                let name = running.link().map_or("", |link| link.name());
                effects.push(Effect::Log(
                    Entry::new(Event::AuthorizerLink)
                        .with("requestId", id.as_str())
                        .with("name", name)
                        .with("outcome", "cancelled")
                        .with("latencyMs", millis(self.now.since(running.since)))
                        .with_opt("reason", None::<String>),
                ));
                effects.push(Effect::CancelAuthorizing(id.clone()));
                self.free_place(effects);
            }
            // Who was asked once is not asked again.
            Chain::Ruled(_) | Chain::Over => ask.chain = Chain::Over,
        }
    }

    /// A place is free: the next ask in line gets it.
    fn free_place(&mut self, effects: &mut Vec<Effect>) {
        self.chains = self.chains.saturating_sub(1);
        if self.shutting_down {
            return;
        }
        while self.chains < self.setup.most_chains
            && let Some(id) = self.chain_line.pop(self.now)
        {
            let Some(ask) = self.asks.get_mut(&id) else {
                continue;
            };
            if !matches!(ask.chain, Chain::InLine) {
                continue;
            }
            ask.chain = Chain::Due;
            self.chains += 1;
            if let Stage::Shown(request) = &ask.stage {
                let request = request.clone();
                self.begin_chain(&request, effects);
            } else {
                self.look_at(Candidate::of(&id), effects);
            }
        }
    }

    /// Puts what the chain had alone for long enough before the person as well, as far as there is room in the list.
    pub(super) fn end_graces(&mut self, now: Moment, effects: &mut Vec<Effect>) {
        if self.person != Person::Here {
            return;
        }
        let with_chain = |ask: &Pending| matches!(ask.stage, Stage::WithChain);
        let alone = self.asks.iter().filter(|(_, ask)| with_chain(ask));
        let mut over: Vec<(Moment, RequestId)> = alone
            .filter_map(|(id, ask)| Some((ask.alone_until?, id.clone())))
            .filter(|(until, _)| *until <= now)
            .collect();
        // In the order in which they came.
        over.sort_unstable();
        for (_, id) in over.into_iter().take(self.room_in_list()) {
            if let Some(ask) = self.asks.get_mut(&id) {
                ask.stage = Stage::Rereading;
                self.look_at(Candidate::of(&id), effects);
            }
        }
    }

    /// When the next one is due to go before the person. One for which there was no room waits for that.
    pub(super) fn next_grace(&self) -> Option<Moment> {
        let has_room = self.room_in_list() > 0;
        let with_chain = self
            .asks
            .values()
            .filter(|ask| self.person == Person::Here && matches!(ask.stage, Stage::WithChain));
        with_chain
            .filter_map(|ask| ask.alone_until)
            .filter(|until| has_room || *until > self.now)
            .min()
    }

    /// Somebody else has to be asked from now on: what the chain has alone is read and judged again.
    pub(super) fn take_from_chain(&mut self, effects: &mut Vec<Effect>) {
        let mut taken = Vec::new();
        for (id, ask) in &mut self.asks {
            if matches!(ask.stage, Stage::WithChain) {
                ask.stage = Stage::Rereading;
                taken.push(id.clone());
            }
        }
        for id in taken {
            self.look_at(Candidate::of(&id), effects);
        }
    }

    /// The link that has not answered yet about an ask; for one that waits for a place, the first that it will be put to.
    pub(super) fn link_awaited(&self, id: &RequestId) -> Option<String> {
        let link = match &self.asks.get(id)?.chain {
            Chain::InLine | Chain::Due => self.setup.chain.links().first(),
            Chain::Running(running) => running.link(),
            Chain::Unasked | Chain::Ruled(_) | Chain::Over => None,
        };
        link.map(|link| link.name().to_owned())
    }

    /// Whether a link has ruled on an ask, which is about to be answered so.
    pub(super) fn is_ruled(&self, id: &RequestId) -> bool {
        let chain = self.asks.get(id).map(|ask| &ask.chain);
        matches!(chain, Some(Chain::Ruled(_)))
    }

    /// Whether a link has denied an ask, which is about to be answered so.
    pub(super) fn is_denied_by_link(&self, id: &RequestId) -> bool {
        let chain = self.asks.get(id).map(|ask| &ask.chain);
        matches!(chain, Some(Chain::Ruled(ruled)) if ruled.verdict == AuthorizerVerdict::Deny)
    }

    /// Whether the chain was asked about an ask and no link ruled.
    pub(super) fn chain_is_over(&self, id: &RequestId) -> bool {
        let ask = self.asks.get(id);
        ask.is_some_and(|ask| matches!(ask.chain, Chain::Over))
    }

    /// Records that an ask is passed on, and no link of this session is asked about it.
    pub(super) fn note_delegated(&self, id: &RequestId, effects: &mut Vec<Effect>) {
        let links = self.setup.chain.configured();
        if !links.is_empty() {
            effects.push(Effect::Log(
                Entry::new(Event::ChainDelegated)
                    .with("requestId", id.as_str())
                    .with("links", links),
            ));
        }
    }

    /// How often each link was asked, and failed, in the order of the chain.
    pub fn link_tallies(&self) -> &[LinkTally] {
        &self.tallies
    }

    /// How each link that the configuration names fares, in its order.
    pub fn link_health(&self) -> Vec<LinkHealth> {
        let missing = self.setup.chain.unregistered();
        let names = self.setup.chain.configured().iter();
        let health = names.map(|name| {
            let tally = self.tallies.iter().find(|tally| tally.name == *name);
            LinkHealth {
                name: name.clone(),
                asked: tally.map_or(0, |tally| tally.asked),
                failed: tally.map_or(0, |tally| tally.failed),
                missing: missing.contains(name),
            }
        });
        health.collect()
    }

    /// How many asks wait for a place before the chain.
    pub fn waiting_for_chain(&self) -> usize {
        self.chain_line.len()
    }

    /// Has so many asks have a chain running at once.
    #[cfg(test)]
    pub(in crate::serve) fn set_most_chains(&mut self, most: usize) {
        self.setup.most_chains = most;
    }

    /// Fails where places are lost, or given away while others wait for one.
    #[cfg(test)]
    pub(in crate::serve) fn check_chains(&self) {
        let count =
            |is: fn(&Chain) -> bool| self.asks.values().filter(|ask| is(&ask.chain)).count();
        let with_place = count(|chain| matches!(chain, Chain::Due | Chain::Running(_)));
        assert_eq!(self.chains, with_place);
        let in_line = count(|chain| matches!(chain, Chain::InLine));
        assert_eq!(self.chain_line.len(), in_line);
        assert!(self.chains <= self.setup.most_chains);
        assert!(self.shutting_down || in_line == 0 || self.chains == self.setup.most_chains);
        for ask in self.asks.values() {
            let is_alone = matches!(ask.stage, Stage::WithChain);
            let has_it = matches!(ask.chain, Chain::InLine | Chain::Due | Chain::Running(_));
            assert!(has_it || !is_alone, "nobody has it: {ask:?}");
        }
    }

    fn count_link(&mut self, name: &str, count: impl Fn(&mut LinkTally)) {
        if let Some(tally) = self.tallies.iter_mut().find(|tally| tally.name == name) {
            return count(tally);
        }
        let mut tally = LinkTally {
            name: name.to_owned(),
            asked: 0,
            failed: 0,
        };
        count(&mut tally);
        self.tallies.push(tally);
    }
}

/// The agent whose rules hold for an ask, as far as it says.
fn agent_of(request: &ForwardedPermissionRequest) -> &str {
    let intent = request.access_intent.as_ref();
    intent.map_or(request.requester_agent_name.as_str(), |intent| {
        intent.principal.agent_name.as_str()
    })
}

/// Whether the rules of an agent are all that the operator wrote.
fn rules_in_force(policy: &Policy, agent: &str) -> RulesInForce {
    if policy.is_clamped() || policy.rules_for(agent).is_clamped() {
        RulesInForce::Clamped
    } else {
        RulesInForce::Whole
    }
}

/// What a link said, as it is recorded, and what comes of it.
struct Said {
    outcome: &'static str,
    reason: Option<String>,
    ruling: Ruling,
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

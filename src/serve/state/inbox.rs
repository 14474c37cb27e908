//! The inbox mode: asks wait in a list until the person opens one of them. Nothing opens by itself.
//!
//! ```text
//! ask ─▶ waiting ─┬─ opened ─▶ read and judged again ─▶ on screen ─┬─ decided
//!                 │     ▲                                          └─ closed: waiting again
//!                 ├─ denied unopened: read again, then answered
//!                 └─ withdrawn, expired, taken by the parent, the session ends
//! ```
//!
//! It keeps what the list shows and nothing of what is asked: a request stays in its file until it is opened. What is settled
//! is remembered for a while as who asked, how it ended and when.
//!
//! Invariants: at most so many wait as the configuration says, and one more is refused with that reason; one review is open at
//! a time, and only because somebody asked for it; a denial from the list is for the bytes that the list knows.

use std::collections::VecDeque;

use super::annotations::Urgency;
use super::batch::Answered;
use super::people::deferred;
use super::{Person, Stage, State, Whose};
use crate::audit::{Entry, Event};
use crate::clock::Moment;
use crate::policy;
use crate::presentation::select::{Choice, Plain};
use crate::presentation::text;
use crate::prompt::Answerer;
use crate::serve::event::Effect;
use crate::serve::listing::{ListedAsk, ListedState, Listing, Outcome, Resolution};
use crate::spool::Candidate;
use crate::wire::{
    Decision, DecisionSource, Digest, ForwardedPermissionRequest, RequestId, UserSurface,
};

/// Most UTF-16 units of a name that the list keeps: who asks may call itself anything, at any length.
const MAX_NAME_UNITS: usize = 200;

/// The list.
#[derive(Debug)]
pub(super) struct Inbox {
    limits: policy::Inbox,
    items: Vec<Item>,
    resolutions: VecDeque<Resolution>,
    refused: u64,
    /// Whether the person has not seen it as it is.
    changed: bool,
    /// When the event came that is being looked at.
    pub(super) now: Moment,
}

#[derive(Debug)]
struct Item {
    ask: ListedAsk,
    /// How it ends once the answer is delivered.
    ending: Option<Outcome>,
}

/// What becomes of an ask when it has been read again.
#[derive(Debug)]
pub(super) enum Fate {
    /// It is answered as somebody said.
    Answered(Answered),
    /// It is denied, unless policy can decide it by now.
    Expired,
}

impl Inbox {
    pub(super) fn new(limits: policy::Inbox) -> Self {
        Self {
            limits,
            items: Vec::new(),
            resolutions: VecDeque::new(),
            refused: 0,
            changed: true,
            now: Moment::default(),
        }
    }

    /// Notes that the list is not what the person has seen.
    pub(super) fn touch(&mut self) {
        self.changed = true;
    }

    fn item(&mut self, id: &RequestId) -> Option<&mut Item> {
        self.items.iter_mut().find(|item| item.ask.id == *id)
    }

    fn take(&mut self, id: &RequestId) -> Option<Item> {
        let at = self.items.iter().position(|item| item.ask.id == *id)?;
        self.changed = true;
        Some(self.items.remove(at))
    }

    fn deadline(&self, item: &Item) -> Option<Moment> {
        self.limits.expire.map(|wait| item.ask.since.after(wait))
    }
}

impl State {
    /// Puts an ask in line for the person here.
    pub(super) fn wait_for_person(
        &mut self,
        now: Moment,
        request: &ForwardedPermissionRequest,
        effects: &mut Vec<Effect>,
    ) {
        let id = &request.id;
        if let Some(reason) = self.list(now, request, effects) {
            return self.unavailable(request, &reason, effects);
        }
        if let Some(ask) = self.asks.get(id) {
            self.queue.push(&ask.requester, id.clone());
        }
        self.set_stage(id, Stage::Queued);
        self.join_alike(request);
        self.annotate(request, Urgency::Ahead, effects);
    }

    /// Takes an ask into the list, where there is one. Gives the reason why it must not wait as well.
    fn list(
        &mut self,
        now: Moment,
        request: &ForwardedPermissionRequest,
        effects: &mut Vec<Effect>,
    ) -> Option<String> {
        let ask = self.asks.get(&request.id)?;
        let inbox = self.inbox.as_mut()?;
        inbox.changed = true;
        if inbox.item(&request.id).is_some() {
            return None;
        }
        let waiting = inbox.items.iter().filter(|item| item.ending.is_none());
        let most = inbox.limits.max_pending;
        if waiting.count() >= most {
            inbox.refused += 1;
            return Some(format!(
                "the inbox of session \"{}\" is full: inbox.maxPending is {most}",
                self.setup.session
            ));
        }
        let payload = request.core();
        let name = |name: &str| text::clip_utf16(name, MAX_NAME_UNITS).into_owned();
        let listed = ListedAsk {
            id: request.id.clone(),
            digest: ask.digest,
            agent: name(request.agent_name().unwrap_or_default()),
            session: name(&request.requester_session_id),
            kind: payload.kind,
            since: now,
            age_then: self.files.age(now, ask.stamp),
            state: ListedState::Waiting,
            with_chain: None,
            alike: 1,
        };
        let younger = |item: &Item| item.ask.age(now) < listed.age(now);
        let place = inbox.items.iter().position(younger);
        let place = place.unwrap_or(inbox.items.len());
        inbox.items.insert(
            place,
            Item {
                ask: listed,
                ending: None,
            },
        );
        self.note_waiting(request, &payload, effects);
        None
    }

    /// Whether the list has no room for this ask.
    pub(super) fn inbox_is_full(&self, id: &RequestId) -> bool {
        self.inbox.as_ref().is_some_and(|inbox| {
            let waiting = inbox.items.iter().filter(|item| item.ending.is_none());
            waiting.clone().all(|item| item.ask.id != *id)
                && waiting.count() >= inbox.limits.max_pending
        })
    }

    /// How many further asks may wait in the list; any number where there is none.
    pub(super) fn room_in_list(&self) -> usize {
        self.inbox.as_ref().map_or(usize::MAX, |inbox| {
            let waiting = inbox.items.iter().filter(|item| item.ending.is_none());
            inbox.limits.max_pending.saturating_sub(waiting.count())
        })
    }

    /// Notes that the parent had no answer: the ask stays with the person here.
    pub(super) fn note_given_back(&mut self, id: &RequestId) {
        if let Some(ask) = self.asks.get_mut(id) {
            ask.whose = Whose::GivenBack;
        }
    }

    /// The parent can be asked again: what it had no answer to then, it may have one to now.
    pub(super) fn forget_given_back(&mut self) {
        for ask in self.asks.values_mut() {
            ask.whose = Whose::Anybodys;
        }
    }

    /// Whether an ask waits for the person here although the parent is served.
    pub(super) fn stays_here(&self, id: &RequestId) -> bool {
        let whose = self.asks.get(id).map(|ask| ask.whose);
        self.person == Person::Here && whose == Some(Whose::GivenBack)
    }

    /// Opens the review of an ask that waits, where none is open.
    pub(super) fn review(&mut self, id: &RequestId, effects: &mut Vec<Effect>) {
        if self.on_screen.is_some() || self.shutting_down || self.person != Person::Here {
            return;
        }
        let Some(ask) = self.asks.get_mut(id) else {
            return;
        };
        if self.inbox.is_none() || !matches!(ask.stage, Stage::Queued) {
            return;
        }
        ask.stage = Stage::Rereading;
        self.queue.remove(&ask.requester, id);
        self.on_screen = Some(id.clone());
        self.touch_list();
        self.look_at(Candidate::of(id), effects);
    }

    /// Closes the review of an ask, which nobody has decided.
    pub(super) fn close_review(&mut self, id: &RequestId, effects: &mut Vec<Effect>) {
        if self.inbox.is_none() || self.on_screen.as_ref() != Some(id) {
            return;
        }
        // Where it is not on screen yet although it was about to be, it must not stay there.
        effects.push(Effect::Withdraw {
            id: id.clone(),
            why: "it was left undecided".to_owned(),
        });
        self.on_screen = None;
        self.touch_list();
        let Some(ask) = self.asks.get(id) else { return };
        let was_shown = matches!(ask.stage, Stage::Shown(_));
        // One that is being read is put in line when it has been.
        if !was_shown && !matches!(ask.stage, Stage::AwaitingAnnotations) {
            return;
        }
        if was_shown {
            effects.push(deferred(id, UserSurface::Dialog));
        }
        self.wait_on(id, effects);
        if let Some(ask) = self.asks.get(id).filter(|ask| ask.stage.is_queued()) {
            self.queue.push(&ask.requester, id.clone());
        }
    }

    /// Denies an ask of the list unopened. Whatever else is open stays so.
    pub(super) fn deny_listed(
        &mut self,
        id: &RequestId,
        digest: Digest,
        by: Answerer,
        effects: &mut Vec<Effect>,
    ) {
        let Some(ask) = self.asks.get(id).filter(|ask| ask.digest == digest) else {
            return;
        };
        if self.inbox.is_none() {
            return;
        }
        if matches!(ask.stage, Stage::Shown(_)) {
            effects.push(Effect::Withdraw {
                id: id.clone(),
                why: "it was denied from the list".to_owned(),
            });
            return self.chosen(id, digest, Choice::Deny, by, effects);
        }
        let denied = Answered {
            verdict: Plain::No,
            by,
            batch: None,
        };
        let _is_read = self.read_for(id, Fate::Answered(denied), effects);
    }

    /// Has an ask that waits read again, to be answered without being shown. Tells whether it is.
    pub(super) fn read_for(
        &mut self,
        id: &RequestId,
        fate: Fate,
        effects: &mut Vec<Effect>,
    ) -> bool {
        let Some(ask) = self.asks.get_mut(id) else {
            return false;
        };
        match ask.stage {
            Stage::Queued => {
                ask.stage = Stage::Rereading;
                self.queue.remove(&ask.requester, id);
            }
            Stage::WithChain | Stage::AwaitingAnnotations => ask.stage = Stage::Rereading,
            Stage::Rereading if ask.fate.is_none() => {}
            Stage::Rereading | Stage::Shown(_) | Stage::Relayed(_) | Stage::Deciding(_) => {
                return false;
            }
        }
        ask.fate = Some(fate);
        self.touch_list();
        self.look_at(Candidate::of(id), effects);
        true
    }

    /// What an ask was read again for, where that was not to show it.
    pub(super) fn fate(&mut self, id: &RequestId) -> Option<Fate> {
        self.asks.get_mut(id)?.fate.take()
    }

    /// Answers an ask that has waited as long as one may.
    pub(super) fn expire(
        &mut self,
        request: &ForwardedPermissionRequest,
        effects: &mut Vec<Effect>,
    ) {
        let Some(inbox) = &mut self.inbox else { return };
        let waited = inbox.limits.expire.unwrap_or_default();
        if let Some(item) = inbox.item(&request.id) {
            item.ending = Some(Outcome::Expired);
        }
        self.end_opening(&request.id, EXPIRED, effects);
        let reason = format!(
            "it expired: nobody in session \"{}\" decided it within {} s",
            self.setup.session,
            waited.as_secs_f64()
        );
        self.unavailable(request, &reason, effects);
    }

    /// Looks which asks have waited as long as one may.
    pub(super) fn expire_waiting(&mut self, now: Moment, effects: &mut Vec<Effect>) {
        let Some(inbox) = &self.inbox else { return };
        let due: Vec<RequestId> = inbox
            .items
            .iter()
            .filter(|item| inbox.deadline(item).is_some_and(|at| at <= now))
            .map(|item| item.ask.id.clone())
            .collect();
        for id in due {
            let Some(ask) = self.asks.get_mut(&id) else {
                continue;
            };
            if !matches!(ask.stage, Stage::Shown(_)) {
                let _is_read = self.read_for(&id, Fate::Expired, effects);
                continue;
            }
            if let Stage::Shown(request) = std::mem::replace(&mut ask.stage, Stage::Rereading) {
                self.expire(&request, effects);
            }
        }
    }

    /// When the next ask has waited as long as one may.
    pub(super) fn next_expiry(&self) -> Option<Moment> {
        let inbox = self.inbox.as_ref()?;
        let has_fate = |id: &RequestId| self.asks.get(id).is_some_and(|ask| ask.fate.is_some());
        let waiting = inbox
            .items
            .iter()
            .filter(|item| item.ending.is_none() && !has_fate(&item.ask.id));
        waiting.filter_map(|item| inbox.deadline(item)).min()
    }

    /// Tells the person why a review that they asked for does not open, or closes.
    pub(super) fn end_opening(&self, id: &RequestId, why: &str, effects: &mut Vec<Effect>) {
        if self.inbox.is_some() && self.on_screen.as_ref() == Some(id) {
            effects.push(Effect::Withdraw {
                id: id.clone(),
                why: why.to_owned(),
            });
        }
    }

    /// Notes how an ask of the list ends, unless it is known already.
    pub(super) fn note_ending(&mut self, id: &RequestId, decision: &Decision) {
        let unavailable = matches!(decision.decided_by, DecisionSource::Unavailable { .. });
        let outcome = if decision.is_approved() {
            Outcome::Approved
        } else if unavailable && (self.shutting_down || self.person == Person::Nobody) {
            Outcome::Retired
        } else if decision.decided_by.is_nobody() {
            Outcome::Error
        } else {
            Outcome::Denied
        };
        self.touch_list();
        if let Some(item) = self.inbox.as_mut().and_then(|inbox| inbox.item(id)) {
            item.ending.get_or_insert(outcome);
        }
    }

    /// An ask that was settled is open again.
    pub(super) fn open_again(&mut self, id: &RequestId) {
        if let Some(item) = self.inbox.as_mut().and_then(|inbox| inbox.item(id)) {
            item.ending = None;
            self.touch_list();
        }
    }

    /// The answer has reached its requester: the ask has ended as it was decided.
    pub(super) fn resolve_as_decided(&mut self, id: &RequestId, effects: &mut Vec<Effect>) {
        let item = self.inbox.as_mut().and_then(|inbox| inbox.item(id));
        if let Some(outcome) = item.and_then(|item| item.ending) {
            self.resolve(id, outcome, effects);
        }
    }

    /// Takes an ask out of the list, for it has ended.
    pub(super) fn resolve(&mut self, id: &RequestId, outcome: Outcome, effects: &mut Vec<Effect>) {
        let Some(inbox) = &mut self.inbox else { return };
        let Some(Item { ask, .. }) = inbox.take(id) else {
            return;
        };
        effects.push(Effect::Log(
            Entry::new(Event::Resolved)
                .with("requestId", id.as_str())
                .with("agentName", ask.agent.as_str())
                .with("outcome", outcome.name()),
        ));
        let at = inbox.now;
        inbox.resolutions.push_front(Resolution {
            id: ask.id,
            agent: ask.agent,
            kind: ask.kind,
            outcome,
            at,
        });
        inbox.resolutions.truncate(inbox.limits.retain);
    }

    /// Takes an ask out of the list, for it is somebody else's now.
    pub(super) fn unlist(&mut self, id: &RequestId) {
        if let Some(inbox) = &mut self.inbox {
            let _gone = inbox.take(id);
        }
    }

    /// Notes that the list is not what the person has seen.
    pub(super) fn touch_list(&mut self) {
        if let Some(inbox) = &mut self.inbox {
            inbox.changed = true;
        }
    }

    /// Shows the list, where it has changed.
    pub(super) fn show_list(&mut self, effects: &mut Vec<Effect>) {
        let Some(inbox) = &mut self.inbox else { return };
        if !std::mem::take(&mut inbox.changed) {
            return;
        }
        let Some(inbox) = &self.inbox else { return };
        let asks = inbox.items.iter().map(|item| {
            let state = if item.ending.is_some() {
                ListedState::Answering
            } else if self.on_screen.as_ref() == Some(&item.ask.id) {
                ListedState::Open
            } else {
                ListedState::Waiting
            };
            ListedAsk {
                state,
                with_chain: self.link_awaited(&item.ask.id),
                alike: self.count_alike(&item.ask.id),
                ..item.ask.clone()
            }
        });
        effects.push(Effect::List(Box::new(Listing {
            asks: asks.collect(),
            resolutions: inbox.resolutions.iter().cloned().collect(),
            refused: inbox.refused,
        })));
    }
}

/// What is told where the review of an ask closes because it waited too long.
const EXPIRED: &str = "it has waited as long as asks may wait here";

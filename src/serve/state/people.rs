//! Who is asked where policy does not decide: the person here, or the parent.

use std::time::Duration;

use super::chain::Next;
use super::grants::Granting;
use super::{Authority, Person, Reach, Stage, State};
use crate::audit::{Entry, Event};
use crate::clock::Moment;
use crate::policy::Judgement;
use crate::presentation::broadcast::Broadcast;
use crate::presentation::select::Choice;
use crate::prompt::Answerer;
use crate::serve::event::{Care, Effect, ParentLife, Relay, RelayOutcome, Shown};
use crate::spool::Candidate;
use crate::wire::{
    Decision, Digest, ForwardedPermissionRequest, MAX_HOPS, RequestId, SessionId, UserSurface, trim,
};

/// How much sooner than its child a relaying session gives up, so that its answer still counts.
const RELAY_MARGIN: Duration = Duration::from_secs(1);

/// What is recorded each time that a person puts an ask off.
pub(super) fn deferred(id: &RequestId, via: UserSurface) -> Effect {
    Effect::Log(
        Entry::new(Event::Deferred)
            .with("requestId", id.as_str())
            .with("via", via.name()),
    )
}

impl State {
    /// Puts an ask that policy leaves open to whoever can be asked.
    pub(super) fn escalate(
        &mut self,
        now: Moment,
        id: &RequestId,
        request: ForwardedPermissionRequest,
        effects: &mut Vec<Effect>,
    ) {
        let authority = if self.stays_here(id) {
            Authority::Person
        } else {
            self.authority()
        };
        match authority {
            Authority::Nobody | Authority::Person => {
                self.settle_here(now, &request, authority, effects);
            }
            Authority::Parent => {
                if let Some(reason) = self.circle(&request) {
                    return self.decide_unpassable(&request, &reason, effects);
                }
                // Whoever asks a person is who has it annotated, and judged before.
                self.cancel_annotating(id, effects);
                self.cancel_chain(id, effects);
                self.note_delegated(id, effects);
                if !self.is_left(id) {
                    self.note_waiting(&request, &request.core(), effects);
                }
                let Some(ask) = self.asks.get(id) else { return };
                let left = ask.gives_up_at.map_or(self.setup.forwarding_timeout, |at| {
                    at.since(now).saturating_sub(RELAY_MARGIN)
                });
                let budget = left.min(self.setup.forwarding_timeout);
                effects.push(Effect::Relay(Box::new(Relay {
                    request: request.clone(),
                    digest: ask.digest,
                    budget,
                })));
                self.set_stage(id, Stage::Relayed(Box::new(request)));
                self.leave_alike(id);
                self.unlist(id);
            }
        }
    }

    /// Has an ask settled within this session: by the chain, then by the person.
    fn settle_here(
        &mut self,
        now: Moment,
        request: &ForwardedPermissionRequest,
        authority: Authority,
        effects: &mut Vec<Effect>,
    ) {
        if self.is_left(&request.id) {
            let is_heard = self.hears_links_alone(request)
                && self.ask_chain(now, request, Authority::Nobody, effects) == Next::Chain;
            if !is_heard {
                self.leave(request, effects);
            }
            return;
        }
        if self.ask_chain(now, request, authority, effects) == Next::Chain {
            return;
        }
        if authority == Authority::Person {
            return self.wait_for_person(now, request, effects);
        }
        let chain = if self.chain_is_over(&request.id) {
            ", its authorizers leave it open"
        } else {
            ""
        };
        let reason = format!(
            "no rule of session \"{}\" decides it{chain}, and nobody is there to ask",
            self.setup.session
        );
        self.unavailable(request, &reason, effects);
    }

    /// Whether an ask is left to its requester: only rules were asked, and none here decides it.
    pub(super) fn is_left(&self, id: &RequestId) -> bool {
        let ask = self.asks.get(id);
        ask.is_some_and(|ask| ask.reach != Reach::Anybody)
    }

    /// Whether an ask is for the chain, and for no person: a rule has it asked, it is about one name of a call, and a link may deny the call
    /// by that name as by any other.
    pub(super) fn hears_links_alone(&self, request: &ForwardedPermissionRequest) -> bool {
        let ask = self.asks.get(&request.id);
        request.is_guard() && ask.is_some_and(|ask| ask.reach == Reach::VerdictOnly)
    }

    /// Why an ask cannot be passed on: it has come through here, or through the parent, or through too many.
    pub(super) fn circle(&self, request: &ForwardedPermissionRequest) -> Option<String> {
        let path = request.relay.as_ref().map_or(&[][..], |relay| &relay.path);
        let parent = self.setup.parent.as_ref()?;
        let been = |session: &SessionId| {
            path.iter()
                .any(|hop| trim(&hop.session_id) == session.as_str())
        };
        if been(&self.setup.session) {
            Some(format!(
                "it came through session \"{}\" before",
                self.setup.session
            ))
        } else if been(parent) || trim(&request.requester_session_id) == parent.as_str() {
            Some(format!(
                "it came through session \"{parent}\", the parent, before"
            ))
        } else if path.len() + 1 >= MAX_HOPS {
            Some(format!(
                "it came through {} sessions already",
                path.len() + 1
            ))
        } else {
            None
        }
    }

    pub(super) fn show(
        &mut self,
        now: Moment,
        request: ForwardedPermissionRequest,
        judgement: &Judgement,
        effects: &mut Vec<Effect>,
    ) {
        let id = request.id.clone();
        let annotations = self.annotations_of(&request, effects);
        let with_chain = self.link_awaited(&id);
        let in_line = self.in_line();
        let alike = self.alike_of_shown(now, &id);
        let Some(ask) = self.asks.get_mut(&id) else {
            return;
        };
        let Some(annotations) = annotations else {
            // Its turn it keeps: the screen must not change under the hands of who reads it.
            ask.stage = Stage::AwaitingAnnotations;
            return;
        };
        let shown = Shown {
            digest: ask.digest,
            asked_because: judgement.asked_because.clone(),
            annotations,
            with_chain,
            in_line,
            time_left: ask.gives_up_at.map(|at| at.since(now)),
            age: self.files.age(now, ask.stamp),
            alike,
            request: request.clone(),
        };
        ask.stage = Stage::Shown(Box::new(request));
        let payload = shown.payload();
        self.note_waiting(&shown.request, &payload, effects);
        // An inbox may open the same ask more than once; each time it is before a person.
        let told = Broadcast::ui_prompt(&shown.request, &payload);
        effects.push(Effect::Show(Box::new(shown)));
        effects.push(Effect::Broadcast(told));
        self.on_screen = Some(id);
    }

    /// Asks the next question, where a person sits here and none is open.
    pub(super) fn next_question(&mut self, now: Moment, effects: &mut Vec<Effect>) {
        // While the parent is asked, only what it gave back is in line.
        let is_free = self.on_screen.is_none() && self.inbox.is_none();
        if !is_free || self.shutting_down || self.person != Person::Here {
            return;
        }
        while let Some(id) = self.queue.pop(now) {
            if let Some(ask) = self.asks.get_mut(&id)
                && matches!(ask.stage, Stage::Queued)
            {
                ask.stage = Stage::Rereading;
                self.look_at(Candidate::of(&id), effects);
                self.on_screen = Some(id);
                return;
            }
        }
    }

    pub(super) fn chosen(
        &mut self,
        id: &RequestId,
        digest: Digest,
        choice: Choice,
        by: Answerer,
        effects: &mut Vec<Effect>,
    ) {
        // An answer to something that is not on screen, or not in these bytes, decides nothing.
        let Some(request) = self.take_shown(id, digest) else {
            return;
        };
        let granting = Granting::of(&choice, &by);
        let decision = by.decision(choice);
        self.decide_granting(&request, decision, granting, Care::Person, effects);
    }

    /// Puts the ask on the screen off: it waits on, behind the others. Nothing is decided.
    pub(super) fn put_off(
        &mut self,
        now: Moment,
        id: &RequestId,
        digest: Digest,
        via: UserSurface,
        effects: &mut Vec<Effect>,
    ) {
        // In the inbox nothing is shown that nobody asked for: there a review is closed.
        if self.inbox.is_some() || self.take_shown(id, digest).is_none() {
            return;
        }
        effects.push(deferred(id, via));
        self.on_screen = None;
        self.wait_on(id, effects);
        if let Some(ask) = self.asks.get(id).filter(|ask| ask.stage.is_queued()) {
            self.queue.put_off(now, &ask.requester, id.clone());
        }
    }

    /// An ask leaves the screen undecided: it waits on here, or goes to the parent, where that has come meanwhile. Whoever calls
    /// this puts it in line where its stage says so afterwards.
    pub(super) fn wait_on(&mut self, id: &RequestId, effects: &mut Vec<Effect>) {
        let stays = self.stays_here(id) || self.authority() == Authority::Person;
        let Some(ask) = self.asks.get_mut(id) else {
            return;
        };
        if stays {
            ask.stage = Stage::Queued;
        } else {
            ask.stage = Stage::Rereading;
            self.look_at(Candidate::of(id), effects);
        }
    }

    /// The request that is on the screen, if it is this one in these bytes; something is done with it next.
    fn take_shown(
        &mut self,
        id: &RequestId,
        digest: Digest,
    ) -> Option<Box<ForwardedPermissionRequest>> {
        let ask = self.asks.get_mut(id).filter(|ask| ask.digest == digest)?;
        if !matches!(ask.stage, Stage::Shown(_)) {
            return None;
        }
        let Stage::Shown(request) = std::mem::replace(&mut ask.stage, Stage::Queued) else {
            return None;
        };
        Some(request)
    }

    /// An ask that cannot be shown is answered: another attempt would fail as well.
    pub(super) fn unshowable(
        &mut self,
        id: &RequestId,
        digest: Digest,
        cause: &str,
        effects: &mut Vec<Effect>,
    ) {
        let Some(request) = self.take_shown(id, digest) else {
            return;
        };
        effects.push(Effect::Withdraw {
            id: id.clone(),
            why: "it cannot be shown".to_owned(),
        });
        let decision = Decision::gate_error(format!("showing it failed: {cause}"));
        self.decide(&request, decision, Care::Fast, effects);
    }

    /// An ask whose prompt was put away is answered by nobody: another prompt would be put away as well.
    pub(super) fn unanswered_by_anybody(
        &mut self,
        id: &RequestId,
        digest: Digest,
        cause: &str,
        effects: &mut Vec<Effect>,
    ) {
        if let Some(request) = self.take_shown(id, digest) {
            self.unavailable(&request, cause, effects);
        }
    }

    pub(super) fn relayed(
        &mut self,
        now: Moment,
        id: &RequestId,
        digest: Digest,
        outcome: RelayOutcome,
        effects: &mut Vec<Effect>,
    ) {
        let Some(ask) = self.asks.get_mut(id) else {
            return;
        };
        // An answer that comes late may be to other bytes of the same name.
        if ask.digest != digest || !matches!(ask.stage, Stage::Relayed(_)) {
            return;
        }
        let Stage::Relayed(request) = std::mem::replace(&mut ask.stage, Stage::Queued) else {
            return;
        };
        match outcome {
            RelayOutcome::Nobody(_) if self.person == Person::Here && !self.shutting_down => {
                self.note_given_back(id);
                self.settle_here(now, &request, Authority::Person, effects);
            }
            RelayOutcome::Nobody(decision) | RelayOutcome::Answered(decision) => {
                self.decide(&request, decision, Care::Fast, effects);
            }
        }
    }

    pub(super) fn parent(&mut self, life: ParentLife, effects: &mut Vec<Effect>) {
        if self.parent_life == life {
            return;
        }
        let before = self.authority();
        self.parent_life = life;
        let after = self.authority();
        let Some(parent) = self.setup.parent.as_ref().filter(|_| before != after) else {
            return;
        };
        let started = after == Authority::Parent;
        let event = if started {
            Event::RelayStarted
        } else {
            Event::RelayStopped
        };
        effects.push(Effect::Log(
            Entry::new(event)
                .with("targetSessionId", parent.as_str())
                .with("channel", "env"),
        ));
        if started {
            self.forget_given_back();
            self.take_from_chain(effects);
            // What waits for the person here goes to the parent; what is on screen stays until it is answered.
            for id in self.queue.take_all() {
                if let Some(ask) = self.asks.get_mut(&id) {
                    ask.stage = Stage::Rereading;
                    self.look_at(Candidate::of(&id), effects);
                }
            }
        }
    }

    pub(super) fn person_gone(&mut self, effects: &mut Vec<Effect>) {
        if self.person == Person::Nobody {
            return;
        }
        self.person = Person::Nobody;
        effects.push(Effect::Log(Entry::new(Event::Warning).with(
            "message",
            "nobody can be asked here any more: the input has ended",
        )));
        if let Some(id) = self.on_screen.take()
            && let Some(ask) = self.asks.get_mut(&id)
            && matches!(ask.stage, Stage::Shown(_) | Stage::AwaitingAnnotations)
        {
            if matches!(ask.stage, Stage::Shown(_)) {
                effects.push(Effect::Withdraw {
                    id: id.clone(),
                    why: "the input has ended".to_owned(),
                });
            }
            ask.stage = Stage::Rereading;
            self.look_at(Candidate::of(&id), effects);
        }
        if self.authority() == Authority::Parent {
            self.take_from_chain(effects);
        }
        for id in self.queue.take_all() {
            if let Some(ask) = self.asks.get_mut(&id) {
                ask.stage = Stage::Rereading;
                self.look_at(Candidate::of(&id), effects);
            }
        }
    }
}

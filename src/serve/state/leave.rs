//! How an ask goes without being settled, what time does to it, and how the session ends.

use super::intake::EXPIRED;
use super::{ENDED, GONE, Pending, Stage, State, TAKEN_BACK, TOO_OLD};
use crate::audit::Ending;
use crate::clock::Moment;
use crate::serve::event::{Answer, Effect};
use crate::serve::listing::Outcome;
use crate::spool::{Candidate, RequesterLife};
use crate::wire::RequestId;

/// How many waiting asks are checked for the same each time.
const LIFE_BATCH: usize = 1;

impl State {
    pub(super) fn life(&mut self, id: &RequestId, life: RequesterLife, effects: &mut Vec<Effect>) {
        match life {
            RequesterLife::Waiting | RequesterLife::Unknown => {}
            RequesterLife::RequestGone => self.withdrawn(id, effects),
            RequesterLife::Gone if self.is_being_answered(id) => {}
            RequesterLife::Gone => self.requester_gone(id, effects),
        }
    }

    /// Nobody is there any more who could take an answer.
    pub(super) fn requester_gone(&mut self, id: &RequestId, effects: &mut Vec<Effect>) {
        if self.is_held(id) {
            let entry = self.unanswered(Ending::RequesterGone, id, GONE);
            effects.push(Effect::Log(entry));
            effects.push(Effect::Remove(id.clone()));
            self.take_off(id, GONE, Outcome::Cancelled, effects);
        }
    }

    /// The request is not there any more: its requester took it back.
    pub(super) fn withdrawn(&mut self, id: &RequestId, effects: &mut Vec<Effect>) {
        if self.asks.contains_key(id) && !self.is_being_answered(id) {
            let entry = self.unanswered(Ending::RequestWithdrawn, id, TAKEN_BACK);
            effects.push(Effect::Log(entry));
            self.take_off(id, TAKEN_BACK, Outcome::Cancelled, effects);
        }
    }

    /// Whether an answer is on its way: what becomes of the ask is told when that is known.
    fn is_being_answered(&self, id: &RequestId) -> bool {
        self.asks.get(id).is_some_and(|ask| match &ask.stage {
            Stage::Deciding(undelivered) => undelivered.retry_at.is_none(),
            Stage::WithChain
            | Stage::Queued
            | Stage::Rereading
            | Stage::AwaitingAnnotations
            | Stage::Shown(_)
            | Stage::Relayed(_) => false,
        })
    }

    /// Forgets an ask in whatever stage it is, and takes it off the screen.
    pub(super) fn take_off(
        &mut self,
        id: &RequestId,
        why: &str,
        outcome: Outcome,
        effects: &mut Vec<Effect>,
    ) {
        self.cancel_chain(id, effects);
        self.cancel_annotating(id, effects);
        self.leave_alike(id);
        let Some(ask) = self.asks.remove(id) else {
            return;
        };
        Self::say_missed(id, ask.batch_of(), why, effects);
        match ask.stage {
            Stage::Queued => self.queue.remove(&ask.requester, id),
            Stage::Shown(_) => effects.push(Effect::Withdraw {
                id: id.clone(),
                why: why.to_owned(),
            }),
            Stage::Relayed(_) => effects.push(Effect::CancelRelay(id.clone())),
            Stage::Rereading | Stage::AwaitingAnnotations => self.end_opening(id, why, effects),
            Stage::WithChain | Stage::Deciding(_) => {}
        }
        self.resolve(id, outcome, effects);
        self.leave_screen(id);
    }

    pub(super) fn leave_screen(&mut self, id: &RequestId) {
        if self.on_screen.as_ref() == Some(id) {
            self.on_screen = None;
        }
    }

    pub(super) fn set_stage(&mut self, id: &RequestId, stage: Stage) {
        if let Some(ask) = self.asks.get_mut(id) {
            ask.stage = stage;
        }
        self.leave_screen(id);
    }

    pub(super) fn tick(&mut self, now: Moment, effects: &mut Vec<Effect>) {
        if self.reading.is_empty() {
            // What lay there at the start has been read: whatever comes now was not decided by anybody before.
            self.recalled.clear();
        }
        self.look_at_growing(effects);
        self.expire_waiting(now, effects);
        self.expire_grants(now, effects);
        self.end_graces(now, effects);
        let mut expired = Vec::new();
        for (id, ask) in &mut self.asks {
            effects.extend(Self::due_again(id, ask, now));
            match &mut ask.stage {
                Stage::WithChain
                | Stage::Queued
                | Stage::Rereading
                | Stage::AwaitingAnnotations
                | Stage::Shown(_)
                | Stage::Relayed(_)
                    if ask.expires_at <= now =>
                {
                    expired.push(id.clone());
                }
                Stage::WithChain
                | Stage::Queued
                | Stage::Rereading
                | Stage::AwaitingAnnotations
                | Stage::Shown(_)
                | Stage::Relayed(_)
                | Stage::Deciding(_) => {}
            }
        }
        for id in expired {
            let entry = self.unanswered(Ending::RequestExpired, &id, EXPIRED);
            effects.push(Effect::Log(entry));
            self.take_off(&id, TOO_OLD, Outcome::Expired, effects);
            effects.push(Effect::SetAside {
                candidate: Candidate::of(&id),
                digest: None,
                reason: "it expired".to_owned(),
                answer: None,
            });
        }
        if now.since(self.life_checked_at) >= self.life_every {
            self.life_checked_at = now;
            self.check_lives(effects);
        }
    }

    /// The answer to an ask whose delivery has failed, where it is time to try again.
    pub(super) fn due_again(id: &RequestId, ask: &mut Pending, now: Moment) -> Option<Effect> {
        let Stage::Deciding(undelivered) = &mut ask.stage else {
            return None;
        };
        undelivered.retry_at.take_if(|at| *at <= now)?;
        Some(Effect::Answer(Box::new(Answer {
            id: id.clone(),
            stamp: ask.stamp,
            digest: ask.digest,
            decision: undelivered.decision.clone(),
            entries: Vec::new(),
            told: None,
            care: undelivered.care,
            rests_on: undelivered.rests_on.clone(),
        })))
    }

    /// Looks after the ask on screen, and after a few of the others in turn: events tell sooner, but may be lost.
    pub(super) fn check_lives(&mut self, effects: &mut Vec<Effect>) {
        effects.extend(self.on_screen.iter().cloned().map(Effect::CheckLife));
        if self.asks.is_empty() {
            return;
        }
        let from = self.life_cursor % self.asks.len();
        let some = self
            .asks
            .iter()
            .cycle()
            .skip(from)
            .take(LIFE_BATCH.min(self.asks.len()));
        effects.extend(
            some.filter(|(_, ask)| ask.held)
                .map(|(id, _)| Effect::CheckLife(id.clone())),
        );
        self.life_cursor = from + LIFE_BATCH;
    }

    pub(super) fn shutdown(&mut self, effects: &mut Vec<Effect>) {
        self.shutting_down = true;
        self.look_at_growing(effects);
        let ids: Vec<RequestId> = self.asks.keys().cloned().collect();
        for id in ids {
            // What a link has ruled is still given out.
            if !self.is_ruled(&id) {
                self.cancel_chain(&id, effects);
            }
            let Some(ask) = self.asks.get_mut(&id) else {
                continue;
            };
            match std::mem::replace(&mut ask.stage, Stage::Rereading) {
                Stage::Shown(request) => {
                    effects.push(Effect::Withdraw {
                        id,
                        why: "the session ends".to_owned(),
                    });
                    self.unavailable(&request, ENDED, effects);
                }
                Stage::Relayed(request) => {
                    effects.push(Effect::CancelRelay(id));
                    self.unavailable(&request, ENDED, effects);
                }
                Stage::WithChain
                | Stage::Queued
                | Stage::Rereading
                | Stage::AwaitingAnnotations => {
                    self.look_at(Candidate::of(&id), effects);
                }
                deciding @ Stage::Deciding(_) => ask.stage = deciding,
            }
        }
    }
}

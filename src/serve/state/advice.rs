//! Advice for the person: asked for while an ask waits for its turn, waited for when the turn has come.
//!
//! The programs that write it cost something, so that only a few asks are advised about at a time ahead of their turn; an ask
//! whose turn has come need not wait for that. Advice decides nothing: an ask without it is shown as well.

use super::{Stage, State};
use crate::audit::Entry;
use crate::program::Outcome;
use crate::serve::event::{Advise, Effect, Note};
use crate::spool::Candidate;
use crate::wire::{Annotation, AskFacts, Digest, ForwardedPermissionRequest, RequestId, trim};

/// How many asks are advised about at once, ahead of their turn.
const MOST_AHEAD: usize = 4;

/// How far the advice about one ask is.
#[derive(Debug, Default)]
pub(super) enum Advice {
    /// Nobody was asked for it yet.
    #[default]
    Unasked,
    /// It is being written.
    Awaited,
    /// What there is of it.
    There(Vec<Annotation>),
}

/// When an ask is to be advised about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Urgency {
    /// It waits for its turn.
    Ahead,
    /// Its turn has come.
    Now,
}

impl State {
    /// Has advice written about an ask, unless that was done.
    pub(super) fn advise(
        &mut self,
        request: &ForwardedPermissionRequest,
        urgency: Urgency,
        effects: &mut Vec<Effect>,
    ) {
        let Some(ask) = self.asks.get_mut(&request.id) else {
            return;
        };
        if !self.setup.annotates || self.shutting_down || !matches!(ask.advice, Advice::Unasked) {
            return;
        }
        if urgency == Urgency::Ahead && self.advising >= MOST_AHEAD {
            if !ask.unadvised {
                ask.unadvised = true;
                self.unadvised.push_back(request.id.clone());
            }
            return;
        }
        ask.advice = Advice::Awaited;
        self.advising += 1;
        effects.push(Effect::Advise(Box::new(Advise {
            digest: ask.digest,
            facts: AskFacts::of(request),
        })));
    }

    /// The advice about an ask whose turn has come; `None` while it is still being written.
    pub(super) fn advice(
        &mut self,
        request: &ForwardedPermissionRequest,
        effects: &mut Vec<Effect>,
    ) -> Option<Vec<Annotation>> {
        self.advise(request, Urgency::Now, effects);
        match &self.asks.get(&request.id)?.advice {
            Advice::Unasked => Some(Vec::new()),
            Advice::Awaited => None,
            Advice::There(annotations) => Some(annotations.clone()),
        }
    }

    /// Nobody will read the advice about this ask.
    pub(super) fn drop_advice(&mut self, id: &RequestId, effects: &mut Vec<Effect>) {
        let advice = match self.asks.get_mut(id) {
            Some(ask) => std::mem::take(&mut ask.advice),
            None => return,
        };
        if matches!(advice, Advice::Awaited) {
            effects.push(Effect::CancelAdvice(id.clone()));
            self.advising -= 1;
            self.advise_next(effects);
        }
    }

    /// The advice about an ask has been written, as far as it was.
    pub(super) fn advised(
        &mut self,
        id: &RequestId,
        digest: Digest,
        notes: Vec<Note>,
        effects: &mut Vec<Effect>,
    ) {
        let Some(ask) = self.asks.get_mut(id) else {
            return;
        };
        // What comes late may be about other bytes of the same name.
        if ask.digest != digest || !matches!(ask.advice, Advice::Awaited) {
            return;
        }
        let mut annotations = Vec::new();
        for Note { name, outcome } in notes {
            match outcome {
                Outcome::Answered(text) if trim(&text).is_empty() => {}
                Outcome::Answered(text) => annotations.push(Annotation { source: name, text }),
                Outcome::Failed(failure) => effects.push(Effect::Log(
                    Entry::new("annotator_failed")
                        .with("requestId", id.as_str())
                        .with("name", name)
                        .with("reason", failure.to_string()),
                )),
            }
        }
        ask.advice = Advice::There(annotations);
        let awaited = matches!(ask.stage, Stage::AwaitingAdvice);
        if awaited {
            ask.stage = Stage::Rereading;
        }
        self.advising -= 1;
        if awaited {
            // Policy may be able to decide it by now.
            self.look_at(Candidate::of(id), effects);
        }
        self.advise_next(effects);
    }

    /// Has the next ask in line read for advice about it.
    fn advise_next(&mut self, effects: &mut Vec<Effect>) {
        if self.advising >= MOST_AHEAD || self.shutting_down {
            return;
        }
        while let Some(id) = self.unadvised.pop_front() {
            let Some(ask) = self.asks.get_mut(&id) else {
                continue;
            };
            ask.unadvised = false;
            if matches!((&ask.stage, &ask.advice), (Stage::Queued, Advice::Unasked)) {
                return self.look_at(Candidate::of(&id), effects);
            }
        }
    }
}

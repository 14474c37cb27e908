//! Annotations for the person: written while an ask waits for its turn, waited for when the turn has come.
//!
//! The programs that write them cost something, so that only a few asks are annotated at a time ahead of their turn; an ask
//! whose turn has come need not wait for that. An annotation decides nothing: an ask without one is shown as well.

use super::{Stage, State};
use crate::audit::{Entry, Event};
use crate::program::Outcome;
use crate::serve::event::{Annotate, AnnotatorOutcome, Effect};
use crate::spool::Candidate;
use crate::wire::{Annotation, AskFacts, Digest, ForwardedPermissionRequest, RequestId, trim};

/// How many asks are annotated at once, ahead of their turn.
const MOST_AHEAD: usize = 4;

/// How far the annotations of one ask are.
#[derive(Debug, Default)]
pub(super) enum Annotations {
    /// Nobody was asked for any yet.
    #[default]
    Unasked,
    /// They are being written.
    Awaited,
    /// What there is of them.
    There(Vec<Annotation>),
}

/// When an ask is to be annotated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Urgency {
    /// It waits for its turn.
    Ahead,
    /// Its turn has come.
    Now,
}

impl State {
    /// Has an ask annotated, unless that was done.
    pub(super) fn annotate(
        &mut self,
        request: &ForwardedPermissionRequest,
        urgency: Urgency,
        effects: &mut Vec<Effect>,
    ) {
        let Some(ask) = self.asks.get_mut(&request.id) else {
            return;
        };
        if !self.setup.annotates
            || self.shutting_down
            || !matches!(ask.annotations, Annotations::Unasked)
        {
            return;
        }
        if urgency == Urgency::Ahead && self.annotating >= MOST_AHEAD {
            if !ask.unannotated {
                ask.unannotated = true;
                self.unannotated.push_back(request.id.clone());
            }
            return;
        }
        ask.annotations = Annotations::Awaited;
        self.annotating += 1;
        effects.push(Effect::Annotate(Box::new(Annotate {
            digest: ask.digest,
            facts: AskFacts::of(request),
        })));
    }

    /// Has an ask annotated that stands in line; one that the chain has alone does not.
    pub(super) fn annotate_in_line(
        &mut self,
        request: &ForwardedPermissionRequest,
        effects: &mut Vec<Effect>,
    ) {
        let ask = self.asks.get(&request.id);
        if ask.is_some_and(|ask| matches!(ask.stage, Stage::Queued)) {
            self.annotate(request, Urgency::Ahead, effects);
        }
    }

    /// The annotations of an ask whose turn has come; `None` while they are still being written.
    pub(super) fn annotations_of(
        &mut self,
        request: &ForwardedPermissionRequest,
        effects: &mut Vec<Effect>,
    ) -> Option<Vec<Annotation>> {
        self.annotate(request, Urgency::Now, effects);
        match &self.asks.get(&request.id)?.annotations {
            Annotations::Unasked => Some(Vec::new()),
            Annotations::Awaited => None,
            Annotations::There(annotations) => Some(annotations.clone()),
        }
    }

    /// Nobody will read the annotations of this ask.
    pub(super) fn cancel_annotating(&mut self, id: &RequestId, effects: &mut Vec<Effect>) {
        let annotations = match self.asks.get_mut(id) {
            Some(ask) => std::mem::take(&mut ask.annotations),
            None => return,
        };
        if matches!(annotations, Annotations::Awaited) {
            effects.push(Effect::CancelAnnotating(id.clone()));
            self.annotating -= 1;
            self.annotate_next(effects);
        }
    }

    /// The annotators are done with an ask.
    pub(super) fn annotated(
        &mut self,
        id: &RequestId,
        digest: Digest,
        outcomes: Vec<AnnotatorOutcome>,
        effects: &mut Vec<Effect>,
    ) {
        let Some(ask) = self.asks.get_mut(id) else {
            return;
        };
        // What comes late may be about other bytes of the same name.
        if ask.digest != digest || !matches!(ask.annotations, Annotations::Awaited) {
            return;
        }
        let mut annotations = Vec::new();
        for AnnotatorOutcome { name, outcome } in outcomes {
            match outcome {
                Outcome::Answered(text) if trim(&text).is_empty() => {}
                Outcome::Answered(text) => annotations.push(Annotation { source: name, text }),
                Outcome::Failed(failure) => effects.push(Effect::Log(
                    Entry::new(Event::AnnotatorFailed)
                        .with("requestId", id.as_str())
                        .with("name", name)
                        .with("reason", failure.to_string()),
                )),
            }
        }
        ask.annotations = Annotations::There(annotations);
        let awaited = matches!(ask.stage, Stage::AwaitingAnnotations);
        if awaited {
            ask.stage = Stage::Rereading;
        }
        self.annotating -= 1;
        if awaited {
            // Policy may be able to decide it by now.
            self.look_at(Candidate::of(id), effects);
        }
        self.annotate_next(effects);
    }

    /// Has the next ask in line read to be annotated.
    fn annotate_next(&mut self, effects: &mut Vec<Effect>) {
        if self.annotating >= MOST_AHEAD || self.shutting_down {
            return;
        }
        while let Some(id) = self.unannotated.pop_front() {
            let Some(ask) = self.asks.get_mut(&id) else {
                continue;
            };
            ask.unannotated = false;
            if matches!(
                (&ask.stage, &ask.annotations),
                (Stage::Queued, Annotations::Unasked)
            ) {
                return self.look_at(Candidate::of(&id), effects);
            }
        }
    }
}

//! Judging again what waits, when what decides it has changed: a grant was given, or the rules were read again.
//!
//! Every ask that is not decided yet is read and judged once more: with the chain, in line, with its annotators, on screen, with the
//! parent.
//! What policy decides by now is settled without a person, who is told why it went. What is still to be asked stays where and
//! as it is: nothing on the screen changes under the hands of who reads it, and nobody loses their turn.
//!
//! Invariant: a person's answer to what is on screen counts until the ask is settled; looking again takes nothing from them.

use super::settle::Record;
use super::{Stage, State};
use crate::audit::{Ending, Entry, Event};
use crate::policy::{Judgement, Verdict};
use crate::presentation::broadcast::Broadcast;
use crate::serve::event::{Care, Effect};
use crate::serve::renewal::{Renewal, Trouble};
use crate::spool::Candidate;
use crate::wire::{Decision, ForwardedPermissionRequest, RequestId};

/// What has changed, so that policy may decide by now what it left open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Again {
    /// A grant was given.
    Granted,
    /// The rules were read again.
    Renewed,
}

impl Again {
    /// Why an ask went, for the person.
    fn because(self, verdict: Verdict) -> Option<&'static str> {
        match (self, verdict) {
            (Self::Granted, Verdict::Allow) => Some("a grant given just now allows it"),
            (Self::Renewed, Verdict::Allow) => Some("the rules were read again, and allow it"),
            (Self::Renewed, Verdict::Deny) => Some("the rules were read again, and deny it"),
            (Self::Granted, Verdict::Deny) | (_, Verdict::Ask) => None,
        }
    }
}

impl State {
    /// Has everything that waits read and judged again. What is decided already, or is read anyway, is left alone.
    pub(super) fn judge_again(&mut self, why: Again, effects: &mut Vec<Effect>) {
        let waiting: Vec<RequestId> = self
            .asks
            .iter_mut()
            .filter(|(_, ask)| !matches!(ask.stage, Stage::Deciding(_)))
            .map(|(id, ask)| {
                ask.again = Some(why);
                id.clone()
            })
            .collect();
        for id in waiting {
            self.look_at(Candidate::of(&id), effects);
        }
    }

    /// Settles an ask as policy decides it, wherever it has waited until now.
    pub(super) fn settle_by_policy(
        &mut self,
        request: &ForwardedPermissionRequest,
        judgement: Judgement,
        effects: &mut Vec<Effect>,
    ) {
        let Judgement {
            verdict,
            decided_by,
            reason,
            rests_on,
            ..
        } = judgement;
        let Some(ask) = self.asks.get_mut(&request.id) else {
            return;
        };
        let again = ask.again.take();
        let was_shown = matches!(ask.stage, Stage::Shown(_));
        let allows = verdict == Verdict::Allow;
        let why = again.and_then(|again| again.because(verdict));
        let why = why.unwrap_or(if allows {
            "policy allows it by now"
        } else {
            "policy denies it by now"
        });
        self.end_waiting(&request.id, why, effects);
        let (ending, decision) = if allows {
            (Ending::AutoApproved, Decision::approved(decided_by))
        } else {
            (Ending::AutoDenied, Decision::denied(reason, decided_by))
        };
        let ids = rests_on.iter().map(|id| id.get()).collect::<Vec<_>>();
        let entry = self
            .details(Entry::ending(ending, &decision.decided_by), request)
            .with_known("grantIds", (!ids.is_empty()).then_some(ids));
        // Whoever was told of a question is told of its end; what a rule decides unasked is told to nobody.
        let told = was_shown.then(|| Broadcast::decision(request, &decision));
        let record = Record {
            entries: vec![entry],
            told,
            rests_on,
            granting: None,
        };
        self.settle(request, decision, record, Care::Fast, effects);
    }

    /// Takes an ask that is about to be settled from whoever it waits for: the line, the person, the parent.
    pub(super) fn end_waiting(&mut self, id: &RequestId, why: &str, effects: &mut Vec<Effect>) {
        let Some(ask) = self.asks.get(id) else {
            return;
        };
        match ask.stage {
            Stage::Queued => self.queue.remove(&ask.requester, id),
            Stage::Rereading | Stage::AwaitingAnnotations => self.end_opening(id, why, effects),
            Stage::Shown(_) => effects.push(Effect::Withdraw {
                id: id.clone(),
                why: why.to_owned(),
            }),
            Stage::Relayed(_) => effects.push(Effect::CancelRelay(id.clone())),
            Stage::WithChain | Stage::Deciding(_) => {}
        }
    }

    /// Takes over a configuration that was read again: what is judged from now on is judged by its rules, and what waits is
    /// judged again.
    pub(super) fn renewed(&mut self, renewal: Renewal, effects: &mut Vec<Effect>) {
        let event = match &renewal.trouble {
            None => Event::ConfigReloaded,
            Some(Trouble::Broken(_)) => Event::ConfigBroken,
            Some(Trouble::Untrusted(_)) => Event::ConfigUntrusted,
        };
        effects.push(Effect::Log(
            Entry::new(event)
                .with_known("reason", renewal.trouble.as_ref().map(Trouble::text))
                .with("files", renewal.files_json()),
        ));
        effects.extend(renewal.notices.into_iter().map(Effect::Notice));
        self.policy = renewal.policy;
        self.config_trouble = renewal.trouble;
        self.setup.forwarding_timeout = renewal.forwarding_timeout;
        self.setup.request_max_age = renewal.request_max_age;
        self.setup.limits = renewal.limits;
        self.setup.annotates = !renewal.annotators.is_empty();
        self.renew_chain(renewal.authorizers, effects);
        self.judge_again(Again::Renewed, effects);
    }
}

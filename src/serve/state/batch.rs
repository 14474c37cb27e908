//! Asks that are alike, and one answer of a person to several of them.
//!
//! ```text
//! in line ─▶ likeness ─▶ group ─▶ shown beside the one on screen ─▶ AnsweredTogether
//!                                                                       │ each: read again, judged again
//!                                                                       └─▶ its own decision, its own log lines
//! ```
//!
//! Two asks are alike where nothing that a person judges an ask by tells them apart: facts, evidence, notes that came along, what
//! could be granted, what policy judges, the directory, and why this session asks. Only who asks may differ: agent, session, the
//! sessions on the way. What had to be replaced to be read is like nothing else.
//!
//! Invariants: an answer holds for the asks that it names, in the bytes that were named with it, and only while they are still alike;
//! each of them is judged again first, so that a rule which denies one wins; one that has gone or changed is not decided, and that is
//! said. Nothing is granted to more than one ask at a time.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use serde::Serialize;
use serde_json::{Value, json};

use super::chain::Chain;
use super::{Stage, State};
use crate::clock::Moment;
use crate::presentation::select::Plain;
use crate::presentation::text;
use crate::prompt::Answerer;
use crate::serve::event::{Alike, Care, Effect, Twin};
use crate::wire::{
    Annotation, ApprovalGrant, Digest, Evidence, ForwardedAccessIntent, ForwardedPermissionRequest,
    Hop, PayloadKind, Principal, RequestFacts, RequestId, RequestSource, Requester,
};

/// Most asks that are named beside the one on screen.
pub(super) const MOST_TWINS: usize = 99;

/// Most UTF-16 units of a name that are kept of an ask in line: who asks may call itself anything, at any length.
const MAX_NAME_UNITS: usize = 200;

/// Everything that a person judges an ask by, without who asks.
#[derive(Serialize)]
struct Judged<'a> {
    kind: Option<PayloadKind>,
    facts: Option<RequestFacts>,
    evidence: &'a [Evidence],
    annotations: &'a [Annotation],
    message: Option<&'a str>,
    source: RequestSource,
    surface: Option<&'a str>,
    value: Option<&'a str>,
    grants: &'a [ApprovalGrant],
    intent: Option<ForwardedAccessIntent>,
    asked_because: Option<&'a str>,
}

/// What two asks have in common exactly where they are alike; `None` for one that is like no other.
fn likeness(request: &ForwardedPermissionRequest, asked_because: Option<&str>) -> Option<Digest> {
    if request.was_replaced {
        return None;
    }
    let payload = request.payload.as_ref();
    let nobody = Requester {
        agent_name: None,
        forwarded: true,
        session_id: None,
    };
    Digest::of_json(&Judged {
        kind: payload.map(|payload| payload.kind),
        facts: payload.map(|payload| RequestFacts {
            requester: nobody,
            ..payload.request.clone()
        }),
        evidence: payload.map_or(&[], |payload| &payload.evidence),
        annotations: payload.map_or(&[], |payload| &payload.annotations),
        message: request.message.as_deref(),
        source: request.source.unwrap_or_default(),
        surface: request.surface.as_deref(),
        value: request.value.as_deref(),
        grants: &request.grants,
        intent: request
            .access_intent
            .as_ref()
            .map(|intent| ForwardedAccessIntent {
                principal: Principal {
                    session_id: String::new(),
                    agent_name: String::new(),
                },
                ..intent.clone()
            }),
        asked_because,
    })
}

/// What is kept of an ask in line, to name it beside one that is like it.
#[derive(Debug)]
pub(super) struct Member {
    likeness: Digest,
    /// Its place among those that are like it.
    place: u64,
    agent: String,
    session: String,
    path: Vec<Hop>,
}

/// The asks that wait for the person here, by what they have in common, in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct Groups {
    members: HashMap<Digest, BTreeMap<u64, RequestId>>,
    /// Counts arrivals.
    clock: u64,
    /// The group whose changes count: that of the ask on screen.
    watched: Option<Digest>,
    changed: bool,
    /// What the person was told last of those that are like the one on screen.
    told: Alike,
}

impl Groups {
    fn join(&mut self, likeness: Digest, id: &RequestId) -> u64 {
        self.clock += 1;
        let group = self.members.entry(likeness).or_default();
        group.insert(self.clock, id.clone());
        // Where there are more than are named already, one that comes last changes nothing that is seen.
        if !self.told.more {
            self.note_change(likeness);
        }
        self.clock
    }

    fn leave(&mut self, member: &Member) {
        if let Some(group) = self.members.get_mut(&member.likeness) {
            group.remove(&member.place);
            if group.is_empty() {
                self.members.remove(&member.likeness);
            }
        }
        self.note_change(member.likeness);
    }

    fn note_change(&mut self, likeness: Digest) {
        self.changed |= self.watched == Some(likeness);
    }

    fn of(&self, likeness: Digest) -> impl Iterator<Item = &RequestId> {
        self.members
            .get(&likeness)
            .into_iter()
            .flat_map(BTreeMap::values)
    }

    /// How many asks are alike in this.
    fn count(&self, likeness: Digest) -> usize {
        self.members.get(&likeness).map_or(0, BTreeMap::len)
    }
}

/// Several asks that a person answered with one answer.
#[derive(Debug)]
pub(super) struct Batch {
    /// The one that stood first.
    first: RequestId,
    /// How many they were.
    count: usize,
    /// What they have in common.
    likeness: Digest,
}

impl Batch {
    /// As it stands in the log.
    pub(super) fn json(&self) -> Value {
        json!({"first": self.first.as_str(), "count": self.count})
    }
}

/// An answer to an ask that is read again before it is given.
#[derive(Debug, Clone)]
pub(super) struct Answered {
    pub(super) verdict: Plain,
    pub(super) by: Answerer,
    /// The others that it was given to, if any.
    pub(super) batch: Option<Arc<Batch>>,
}

impl State {
    /// Notes why an ask is asked. One in line that is asked for another reason now is like others than before.
    pub(super) fn note_why(
        &mut self,
        request: &ForwardedPermissionRequest,
        asked_because: Option<&String>,
    ) {
        let Some(ask) = self.asks.get_mut(&request.id) else {
            return;
        };
        if ask.asked_because.as_ref() == asked_because {
            return;
        }
        ask.asked_because = asked_because.cloned();
        if ask.member.is_some() {
            self.join_alike(request);
        }
    }

    /// An ask waits for the person here: it stands among those that are like it.
    pub(super) fn join_alike(&mut self, request: &ForwardedPermissionRequest) {
        self.leave_alike(&request.id);
        let Some(ask) = self.asks.get_mut(&request.id) else {
            return;
        };
        let name = |name: &str| text::clip_utf16(name, MAX_NAME_UNITS).into_owned();
        let Some(likeness) = likeness(request, ask.asked_because.as_deref()) else {
            return;
        };
        let path = request.relay.as_ref().map_or(&[][..], |relay| &relay.path);
        ask.member = Some(Box::new(Member {
            likeness,
            place: self.groups.join(likeness, &request.id),
            agent: name(request.agent_name().unwrap_or_default()),
            session: name(&request.requester_session_id),
            path: path
                .iter()
                .map(|hop| Hop {
                    session_id: name(&hop.session_id),
                    agent_name: name(&hop.agent_name),
                })
                .collect(),
        }));
        self.touch_list();
    }

    /// An ask does not wait for the person here any more.
    pub(super) fn leave_alike(&mut self, id: &RequestId) {
        let member = self.asks.get_mut(id).and_then(|ask| ask.member.take());
        if let Some(member) = member {
            self.groups.leave(&member);
            self.touch_list();
        }
    }

    /// How many asks are like this one, itself among them.
    pub(super) fn count_alike(&self, id: &RequestId) -> usize {
        let ask = self.asks.get(id);
        let member = ask.and_then(|ask| ask.member.as_ref());
        member.map_or(1, |member| self.groups.count(member.likeness))
    }

    /// Those in line that are like this one, which is about to be shown: from now on the person is told of changes.
    pub(super) fn alike_of_shown(&mut self, now: Moment, id: &RequestId) -> Alike {
        let ask = self.asks.get(id);
        self.groups.watched = ask
            .and_then(|ask| ask.member.as_ref())
            .map(|member| member.likeness);
        self.groups.changed = false;
        self.groups.told = self.alike(now, id);
        self.groups.told.clone()
    }

    /// Those in line that are like this one, the first of them first.
    fn alike(&self, now: Moment, id: &RequestId) -> Alike {
        let Some(likeness) = self.groups.watched else {
            return Alike::default();
        };
        let others = self.groups.of(likeness).filter(|other| *other != id);
        let mut twins: Vec<Twin> = others
            .filter_map(|other| self.twin(now, other))
            .take(MOST_TWINS + 1)
            .collect();
        let more = twins.len() > MOST_TWINS;
        twins.truncate(MOST_TWINS);
        Alike {
            likeness: Some(likeness),
            twins,
            more,
        }
    }

    fn twin(&self, now: Moment, id: &RequestId) -> Option<Twin> {
        let ask = self.asks.get(id).filter(|ask| ask.stage.is_queued())?;
        let member = ask.member.as_ref()?;
        Some(Twin {
            id: id.clone(),
            digest: ask.digest,
            agent: member.agent.clone(),
            session: member.session.clone(),
            path: member.path.clone(),
            age: self.files.age(now, ask.stamp),
        })
    }

    /// Tells the person which asks are like the one on screen, where that has changed.
    pub(super) fn show_alike(&mut self, now: Moment, effects: &mut Vec<Effect>) {
        if !self.groups.changed {
            return;
        }
        let Some(id) = self.on_screen.clone() else {
            return;
        };
        let ask = self.asks.get(&id);
        if !ask.is_some_and(|ask| matches!(ask.stage, Stage::Shown(_))) {
            return;
        }
        self.groups.changed = false;
        let alike = self.alike(now, &id);
        if !alike.names_the_same_as(&self.groups.told) {
            self.groups.told = alike.clone();
            effects.push(Effect::Alike { id, alike });
        }
    }

    /// A person has answered several asks that are alike. Those that are still there, in these bytes, are read again and answered.
    pub(super) fn answered_together(
        &mut self,
        asks: Vec<(RequestId, Digest)>,
        likeness: Digest,
        verdict: Plain,
        by: Answerer,
        effects: &mut Vec<Effect>,
    ) {
        let Some((first, _)) = asks.first() else {
            return;
        };
        let answered = Answered {
            verdict,
            by,
            batch: Some(Arc::new(Batch {
                first: first.clone(),
                count: asks.len(),
                likeness,
            })),
        };
        for (id, digest) in asks {
            if !self.answer_alike(&id, digest, likeness, &answered, effects) {
                effects.push(missed(&id, "it has gone or changed meanwhile"));
            }
        }
    }

    /// Has one of several asks read again, to be answered. Tells whether it is still there.
    fn answer_alike(
        &mut self,
        id: &RequestId,
        digest: Digest,
        likeness: Digest,
        answered: &Answered,
        effects: &mut Vec<Effect>,
    ) -> bool {
        let Some(ask) = self.asks.get_mut(id).filter(|ask| ask.digest == digest) else {
            return false;
        };
        let alike = ask.member.as_ref().map(|member| member.likeness);
        // What a link has ruled came first.
        let is_ruled = matches!(ask.chain, Chain::Ruled(_));
        if alike != Some(likeness) || is_ruled || !ask.stage.waits_for_person() {
            return false;
        }
        if matches!(ask.stage, Stage::Shown(_)) {
            ask.stage = Stage::Rereading;
            self.leave_screen(id);
        }
        self.read_for(id, super::inbox::Fate::Answered(answered.clone()), effects)
    }

    /// Answers an ask that somebody has answered without having it shown, now that it has been read and judged again.
    pub(super) fn answer_unshown(
        &mut self,
        now: Moment,
        request: ForwardedPermissionRequest,
        answered: Answered,
        effects: &mut Vec<Effect>,
    ) {
        let Answered { verdict, by, batch } = answered;
        let id = &request.id;
        if let Some(batch) = &batch {
            let because = self
                .asks
                .get(id)
                .and_then(|ask| ask.asked_because.as_deref());
            if likeness(&request, because) != Some(batch.likeness) {
                effects.push(missed(id, "it is asked for another reason by now"));
                return self.wait_again(now, request, effects);
            }
        } else {
            self.end_opening(id, "it was denied from the list", effects);
        }
        self.note_waiting(&request, &request.core(), effects);
        if let Some(ask) = self.asks.get_mut(id) {
            ask.batch = batch;
        }
        let decision = by.decision(verdict.into());
        self.decide(&request, decision, Care::Person, effects);
    }

    /// Puts an ask that was to be answered, and is not, back to where it is asked.
    fn wait_again(
        &mut self,
        now: Moment,
        request: ForwardedPermissionRequest,
        effects: &mut Vec<Effect>,
    ) {
        if self.shutting_down {
            return self.unavailable(&request, super::ENDED, effects);
        }
        self.leave_screen(&request.id);
        self.leave_alike(&request.id);
        self.escalate(now, &request.id.clone(), request, effects);
    }

    /// Says that one of several asks was not answered with the others, if it was one.
    pub(super) fn say_missed(
        id: &RequestId,
        batch: Option<&Arc<Batch>>,
        why: &str,
        effects: &mut Vec<Effect>,
    ) {
        if batch.is_some() {
            effects.push(missed(id, why));
        }
    }
}

/// What the person is told of an ask that was not answered with the others.
fn missed(id: &RequestId, why: &str) -> Effect {
    Effect::Notice(format!("not answered with the others: {id}: {why}"))
}

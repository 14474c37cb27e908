//! Decisions that a person made before a crash, sequence by sequence.

use std::collections::HashMap;

use super::super::{Delivery, Event, Person};
use super::{Content, INBOX, Model, Op, id, shown, told};
use crate::audit::{self, Entry, Recalled};
use crate::presentation::select::Choice;
use crate::spool::RequesterLife;
use crate::wire::{Decision, DecisionSource, Digest, UserSurface};

/// Has the new session know that the person approved what lies there as `name` now.
fn recall(model: &mut Model, name: &'static str, decision: Decision) -> Digest {
    let digest = Digest::of(&model.files[name].bytes);
    model.licensed.insert((id(name), digest));
    model.denied.insert((id(name), digest));
    let recalled = Recalled {
        digest,
        decision,
        recorded_at: "2026-12-31T06:53:20.123Z".into(),
    };
    model.state.recall(HashMap::from([(id(name), recalled)]));
    digest
}

fn user() -> DecisionSource {
    DecisionSource::User {
        via: UserSurface::Dialog,
    }
}

fn events(model: &Model) -> Vec<&str> {
    model.log.iter().map(Entry::event).collect()
}

#[test]
fn what_a_person_decided_before_a_crash_is_answered_unasked_and_ends_once() {
    for decision in [
        Decision::approved(user()),
        Decision::denied(Some("use make".into()), user()),
    ] {
        for (person, parent, inbox) in [
            (Person::Here, None, None),
            (Person::Here, None, Some(INBOX)),
            (Person::Here, Some("G"), None),
            (Person::Nobody, None, None),
        ] {
            let mut model = Model::with(person, parent, true, inbox);
            model.put("a", Content::Asks("cook"), false);
            let digest = recall(&mut model, "a", decision.clone());
            model.list();
            model.settle();
            assert_eq!(shown(&model), None);
            assert_eq!(model.decided[&(id("a"), digest)], decision);
            // The log has its end from before: this is only how it came to be delivered.
            assert_eq!(events(&model), [audit::Event::DecisionRecalled.name()]);
            let entry = model.log[0].details();
            assert_eq!(entry["requestDigest"], digest.to_string());
            assert_eq!(entry["recordedAt"], "2026-12-31T06:53:20.123Z");
            assert_eq!(told(&model).len(), 1);
            // A second ask of the same name is another one.
            model.put("a", Content::Asks("make"), false);
            model.list();
            model.settle();
            assert_eq!(
                model.delivered.len() + usize::from(model.state.knows(&id("a"))),
                2
            );
            model.shut_down();
            model.end();
        }
    }
}

#[test]
fn what_was_decided_for_other_bytes_of_the_same_name_is_asked() {
    let mut model = Model::new(Person::Here, None);
    model.put("a", Content::Asks("make"), false);
    recall(&mut model, "a", Decision::approved(user()));
    model.put("a", Content::Asks("cook"), false);
    model.list();
    model.settle();
    assert_eq!(shown(&model), Some("a"));
    // Nor is it used when the decided bytes come back: they were put there since.
    model.op(Op::Choose(Choice::Deny));
    model.settle();
    assert_eq!(model.decided.len(), 1);
    model.put("a", Content::Asks("make"), false);
    model.list();
    model.settle();
    assert_eq!(shown(&model), Some("a"));
}

#[test]
fn a_recalled_decision_reaches_nobody_who_does_not_wait() {
    let mut model = Model::new(Person::Here, None);
    model.put("a", Content::Asks("make"), true);
    recall(&mut model, "a", Decision::approved(user()));
    model.op(Op::Die("a"));
    model.list();
    model.settle();
    assert!(model.delivered.is_empty());
    // Its end is in the log from before.
    assert_eq!(events(&model), [audit::Event::AnswerUnclaimed.name()]);
    // Too old to be answered.
    let mut model = Model::new(Person::Here, None);
    model.put("a", Content::Asks("make"), false);
    recall(&mut model, "a", Decision::approved(user()));
    model.now += 70_000;
    model.list();
    model.settle();
    assert!(model.delivered.is_empty());
    assert_eq!(events(&model), [audit::Event::AnswerUnclaimed.name()]);
}

#[test]
fn a_recalled_decision_that_cannot_be_written_is_tried_again_and_nobody_is_asked() {
    let mut model = Model::new(Person::Here, None);
    model.put("a", Content::Asks("make"), false);
    recall(&mut model, "a", Decision::approved(user()));
    model.list();
    model.work(1, false);
    model.work(100, true);
    assert!(model.delivered.is_empty());
    model.now += 1_000;
    model.step(Event::Tick);
    model.settle();
    assert_eq!(model.delivered.len(), 1);
    assert_eq!(shown(&model), None);
    let ends = |event: &&str| audit::Ending::from_name(event).is_some();
    assert_eq!(events(&model).iter().filter(|event| ends(event)).count(), 0);
}

#[test]
fn a_recalled_decision_that_nobody_takes_says_so_without_a_second_end() {
    for (delivery, life) in [
        (Delivery::Withdrawn, RequesterLife::RequestGone),
        (Delivery::RequesterGone, RequesterLife::Gone),
    ] {
        let mut model = Model::new(Person::Here, None);
        model.put("a", Content::Asks("make"), true);
        recall(&mut model, "a", Decision::approved(user()));
        model.list();
        model.work(1, false);
        model.work.clear();
        model.step(Event::Answered(id("a"), delivery));
        model.settle();
        assert_eq!(
            events(&model),
            [audit::Event::AnswerUnclaimed.name()],
            "{life:?}"
        );
        assert!(!model.state.knows(&id("a")));
    }
}

//! Asks for which only rules are wanted: what no rule is about is nobody's question, and leaves no trace.

use super::super::{Event, ParentLife, Person, RelayOutcome};
use super::{Content, Model, Op, Rules, id, shown, told, with_person};
use crate::wire::{Decision, DecisionSource};

fn decided<'a>(model: &'a Model, name: &str) -> Option<&'a Decision> {
    let mut decided = model.decided.iter();
    let found = decided.find(|((id, _), _)| id.as_str() == name);
    found.map(|(_, decision)| decision)
}

fn put(model: &mut Model, name: &'static str, command: &'static str) {
    model.put(name, Content::AsksRules(command), false);
    model.list();
    model.settle();
}

#[test]
fn what_no_rule_is_about_is_left_at_once_and_leaves_no_trace() {
    for mut model in [with_person(), Model::new(Person::Nobody, None)] {
        let (log, told_before) = (model.log.len(), told(&model).len());
        put(&mut model, "a", "brew");
        let decision = decided(&model, "a").unwrap();
        assert!(decision.is_unruled() && !decision.is_approved());
        assert!(decision.decided_by.is_nobody());
        assert_eq!(shown(&model), None);
        assert_eq!((model.log.len(), told(&model).len()), (log, told_before));
        assert_eq!(model.candidates().len(), 0, "the request is answered");
    }
}

#[test]
fn what_a_rule_is_about_is_decided_by_it() {
    let mut model = with_person();
    put(&mut model, "a", "ls");
    put(&mut model, "b", "rm");
    assert!(decided(&model, "a").unwrap().is_approved());
    let denied = decided(&model, "b").unwrap();
    assert!(!denied.is_approved() && !denied.is_unruled());
    assert!(matches!(denied.decided_by, DecisionSource::Rule { .. }));
}

#[test]
fn what_a_rule_has_asked_is_a_question_like_any_other() {
    let mut model = with_person();
    // A broken file allows nothing: what it allowed is asked.
    model.op(Op::Renew(Rules::Clamped));
    model.settle();
    put(&mut model, "a", "ls");
    assert_eq!(shown(&model), Some("a"));
}

#[test]
fn what_a_rule_has_asked_is_told_where_nobody_is_to_be_asked() {
    let mut model = with_person();
    model.op(Op::Renew(Rules::Clamped));
    model.settle();
    let told_before = told(&model).len();
    for (name, command) in [("a", "ls"), ("b", "rm"), ("c", "brew")] {
        model.put(name, Content::AsksVerdict(command), false);
        model.list();
        model.settle();
    }
    let decisions = ["a", "b", "c"].map(|name| decided(&model, name).unwrap().clone());
    assert!(decisions.iter().all(|decision| !decision.is_approved()));
    let kinds = decisions.map(|decision| (decision.is_unasked(), decision.is_unruled()));
    assert_eq!(kinds, [(true, false), (false, false), (false, true)]);
    assert_eq!((shown(&model), told(&model).len()), (None, told_before));
}

#[test]
fn the_rules_of_a_parent_count_where_one_here_has_it_asked_and_nobody_is_to_be() {
    for (said, is_unasked) in [
        (Decision::unruled(), true),
        (Decision::unasked(), true),
        (Decision::gate_error("no".to_owned()), false),
    ] {
        for command in ["ls", "brew"] {
            let mut model = Model::new(Person::Nobody, Some("G"));
            model.op(Op::Renew(Rules::Clamped));
            model.step(Event::Parent(ParentLife::Serving));
            model.settle();
            model.put("a", Content::AsksVerdict(command), false);
            model.list();
            model.settle();
            let digest = model.relayed[&id("a")];
            let outcome = RelayOutcome::Answered(said.clone());
            model.step(Event::Relayed(id("a"), digest, outcome));
            model.settle();
            let decision = decided(&model, "a").unwrap();
            let is_wanted = is_unasked && (command == "ls" || said.is_unasked());
            assert_eq!(decision.is_unasked(), is_wanted, "{said:?} {command}");
            assert!(!decision.is_approved());
        }
    }
}

#[test]
fn the_rules_of_a_parent_are_asked_as_well_and_what_they_leave_is_left() {
    let mut model = Model::new(Person::Nobody, Some("G"));
    model.step(Event::Parent(ParentLife::Serving));
    model.settle();
    let log = model.log.len();
    put(&mut model, "a", "brew");
    let digest = model.relayed[&id("a")];
    let outcome = RelayOutcome::Answered(Decision::unruled());
    model.step(Event::Relayed(id("a"), digest, outcome));
    model.settle();
    assert!(decided(&model, "a").unwrap().is_unruled());
    assert_eq!(model.log.len(), log);
}

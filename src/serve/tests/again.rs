//! What waits is judged again when something has changed, sequence by sequence.

use super::super::{Effect, Event, ParentLife, Person};
use super::{
    Content, INBOX, Model, Op, Rules, approval_of_parent, by_person, grant_for_session, id, shown,
    told, with_person,
};
use crate::audit::Entry;
use crate::presentation::select::Choice;
use crate::spool::Candidate;
use crate::wire::{Decision, DecisionSource};

fn put(model: &mut Model, asks: &[(&'static str, &'static str)]) {
    for (name, command) in asks {
        model.put(name, Content::Asks(command), false);
    }
    model.list();
    model.settle();
}

fn decision_of<'a>(model: &'a Model, name: &str) -> Option<&'a Decision> {
    let mut decided = model.decided.iter();
    let found = decided.find(|((id, _), _)| id.as_str() == name);
    found.map(|(_, decision)| decision)
}

fn is_by_a_rule(model: &Model, name: &str) -> bool {
    decision_of(model, name)
        .is_some_and(|decision| matches!(decision.decided_by, DecisionSource::Rule { .. }))
}

fn withdrawn(model: &Model) -> Vec<(&str, &str)> {
    let withdrawn = model.withdrawn.iter();
    withdrawn
        .map(|(id, why)| (id.as_str(), why.as_str()))
        .collect()
}

#[test]
fn rules_that_are_read_again_settle_what_they_decide_wherever_it_waits() {
    let mut model = with_person();
    put(
        &mut model,
        &[("a", "make"), ("b", "cook"), ("c", "brew"), ("d", "make")],
    );
    assert_eq!(shown(&model), Some("a"));
    model.op(Op::Renew(Rules::Second));
    model.settle();
    assert_eq!(
        withdrawn(&model),
        [("a", "the rules were read again, and allow it")]
    );
    assert!(decision_of(&model, "a").unwrap().is_approved());
    assert!(!decision_of(&model, "b").unwrap().is_approved());
    for name in ["a", "b", "d"] {
        assert!(is_by_a_rule(&model, name), "{name}");
    }
    // What is still to be asked is asked now.
    assert_eq!(shown(&model), Some("c"));
    assert_eq!(model.candidates().len(), 1);
}

#[test]
fn what_is_denied_by_now_goes_from_the_screen_with_that_reason() {
    let mut model = with_person();
    put(&mut model, &[("a", "cook")]);
    model.op(Op::Renew(Rules::Second));
    model.settle();
    assert_eq!(
        withdrawn(&model),
        [("a", "the rules were read again, and deny it")]
    );
    assert_eq!(shown(&model), None);
    // Who was told of the question is told of its end.
    assert_eq!(
        told(&model).last().map(|(_, state)| *state),
        Some("policy_deny")
    );
}

#[test]
fn what_is_still_an_ask_stays_on_screen_untouched() {
    for rules in [Rules::First, Rules::Second, Rules::Clamped] {
        let mut model = with_person();
        put(&mut model, &[("a", "brew"), ("b", "brew")]);
        let before = model.shown.clone();
        model.op(Op::Renew(rules));
        model.settle();
        assert_eq!(model.shown, before);
        assert_eq!(withdrawn(&model), []);
        assert_eq!(model.candidates().len(), 2);
        // The person's answer is to what they saw.
        model.op(Op::Choose(Choice::Once));
        model.settle();
        let decision = decision_of(&model, "a").unwrap();
        assert!(matches!(decision.decided_by, DecisionSource::User { .. }));
    }
}

#[test]
fn a_key_that_comes_while_the_ask_is_looked_at_again_counts() {
    let mut model = with_person();
    put(&mut model, &[("a", "make")]);
    let (asked, digest) = model.shown.clone().unwrap();
    // The reading is under way, the answer of the person comes first.
    model.op(Op::Renew(Rules::Second));
    model.shown = None;
    model.choose(asked, digest, Choice::Deny);
    model.settle();
    let decision = decision_of(&model, "a").unwrap();
    assert!(!decision.is_approved());
    assert!(matches!(decision.decided_by, DecisionSource::User { .. }));
    assert_eq!(withdrawn(&model), []);
}

#[test]
fn a_key_that_comes_after_policy_has_decided_decides_nothing() {
    let mut model = with_person();
    put(&mut model, &[("a", "make"), ("b", "brew")]);
    let (asked, digest) = model.shown.clone().unwrap();
    model.op(Op::Renew(Rules::Second));
    model.settle();
    assert_eq!(shown(&model), Some("b"));
    model.step(Event::Chosen {
        id: asked,
        digest,
        choice: Choice::Deny,
        by: by_person(),
    });
    model.settle();
    assert!(decision_of(&model, "a").unwrap().is_approved());
    assert_eq!(shown(&model), Some("b"));
}

#[test]
fn an_ask_that_the_parent_has_is_taken_back_where_the_rules_decide_it_by_now() {
    let mut model = Model::new(Person::Nobody, Some("G"));
    model.step(Event::Parent(ParentLife::Serving));
    put(&mut model, &[("a", "make"), ("b", "brew")]);
    assert_eq!(model.relayed.len(), 2);
    let relayed = model.relayed[&id("a")];
    model.op(Op::Renew(Rules::Second));
    model.settle();
    assert_eq!(
        model.relayed.keys().collect::<Vec<_>>(),
        [&id("b")],
        "the other one is still with the parent"
    );
    assert!(is_by_a_rule(&model, "a"));
    // What the parent says too late changes nothing.
    model.step(Event::Relayed(id("a"), relayed, approval_of_parent()));
    assert!(model.is_at_rest());
}

#[test]
fn a_grant_settles_what_is_with_the_parent() {
    let mut model = Model::new(Person::Here, Some("G"));
    put(&mut model, &[("a", "make")]);
    assert_eq!(shown(&model), Some("a"));
    model.step(Event::Parent(ParentLife::Serving));
    put(&mut model, &[("b", "make")]);
    assert!(model.relayed.contains_key(&id("b")));
    model.op(Op::Choose(grant_for_session()));
    model.settle();
    assert!(model.relayed.is_empty());
    let decision = decision_of(&model, "b").unwrap();
    assert!(matches!(
        decision.decided_by,
        DecisionSource::SessionApproval { .. }
    ));
}

#[test]
fn rules_that_cannot_be_read_any_more_allow_nothing_and_keep_their_denies() {
    let mut model = with_person();
    model.op(Op::Renew(Rules::Clamped));
    model.settle();
    assert!(model.state.config_trouble().is_some());
    put(&mut model, &[("a", "ls"), ("b", "rm")]);
    assert_eq!(shown(&model), Some("a"));
    assert!(!decision_of(&model, "b").unwrap().is_approved());
    // They are mended: what waits is allowed as it was.
    model.op(Op::Renew(Rules::First));
    model.settle();
    assert!(decision_of(&model, "a").unwrap().is_approved());
    assert!(model.state.config_trouble().is_none());
    let events: Vec<&str> = model.log.iter().map(Entry::event).collect();
    assert!(events.contains(&"config.broken") && events.contains(&"config.reloaded"));
}

#[test]
fn an_open_review_goes_with_its_reason_and_the_list_knows_how_it_ended() {
    let mut model = Model::with_inbox(Person::Here, None, Some(INBOX));
    put(&mut model, &[("a", "make"), ("b", "brew")]);
    model.op(Op::Review("a"));
    model.settle();
    assert_eq!(shown(&model), Some("a"));
    model.op(Op::Renew(Rules::Second));
    model.settle();
    assert_eq!(shown(&model), None);
    assert_eq!(
        withdrawn(&model),
        [("a", "the rules were read again, and allow it")]
    );
    assert_eq!(model.listing.asks.len(), 1);
    assert_eq!(model.listing.resolutions.len(), 1);
}

#[test]
fn what_is_looked_at_again_and_has_changed_is_another_ask() {
    let mut model = with_person();
    put(&mut model, &[("a", "brew")]);
    let before = model.shown.clone();
    model.put("a", Content::Asks("cook"), false);
    model.op(Op::Renew(Rules::First));
    model.settle();
    assert_ne!(model.shown, before);
    assert_eq!(shown(&model), Some("a"));
    assert_eq!(
        withdrawn(&model),
        [("a", "something else is asked under its id")]
    );
}

#[test]
fn what_is_being_read_anyway_is_read_once() {
    let mut model = with_person();
    put(&mut model, &[("a", "brew")]);
    let effects = model.effects_of(Event::Renewed(
        Rules::First.renewal(super::AuthorizerChain::default()),
    ));
    let reads = |effects: &[Effect]| {
        let of_a = |effect: &&Effect| matches!(effect, Effect::Read(one) if *one == Candidate::of(&id("a")));
        effects.iter().filter(of_a).count()
    };
    assert_eq!(reads(&effects), 1);
    let again = model.effects_of(Event::Renewed(
        Rules::Second.renewal(super::AuthorizerChain::default()),
    ));
    assert_eq!(reads(&again), 0);
}

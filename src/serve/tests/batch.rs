//! One answer to several asks that are alike, sequence by sequence.

use super::super::{AuthorizerChain, Effect, Event, Person};
use super::{Content, INBOX, Model, Op, Rules, by_person, id, shown, with_person};
use crate::audit;
use crate::presentation::select::{Choice, Plain};
use crate::wire::{Decision, DecisionSource, DecisionState, Digest, RequestId};

fn put(model: &mut Model, asks: &[(&'static str, &'static str)]) {
    for (name, command) in asks {
        model.put(name, Content::Asks(command), true);
        model.list();
        model.settle();
    }
}

fn all(model: &mut Model, ops: Vec<Op>) {
    for op in ops {
        model.op(op);
        model.settle();
    }
}

fn twins(model: &Model) -> Vec<&str> {
    let twins = model.alike.twins.iter();
    twins.map(|twin| twin.id.as_str()).collect()
}

fn decision_of<'a>(model: &'a Model, name: &str) -> Option<&'a Decision> {
    let mut decided = model.decided.iter();
    let found = decided.find(|((id, _), _)| id.as_str() == name);
    found.map(|(_, decision)| decision)
}

fn is_by_the_person(model: &Model, name: &str) -> bool {
    decision_of(model, name)
        .is_some_and(|decision| matches!(decision.decided_by, DecisionSource::User { .. }))
}

/// The names and the batch of the entries about an ask that say that it was approved.
fn batches(model: &Model, name: &str) -> Vec<serde_json::Value> {
    let of_it = model.log.iter().filter(|entry| {
        entry.event().ends_with(".approved") && entry.details()["requestId"] == name
    });
    of_it
        .map(|entry| entry.details().get("batch").cloned().unwrap_or_default())
        .collect()
}

#[test]
fn one_answer_settles_each_of_those_that_are_named_and_no_other() {
    let mut model = with_person();
    put(
        &mut model,
        &[("a", "make"), ("b", "make"), ("c", "cook"), ("d", "make")],
    );
    assert_eq!((shown(&model), twins(&model)), (Some("a"), vec!["b", "d"]));
    all(&mut model, vec![Op::Together(Plain::Yes, false)]);
    for name in ["a", "b", "d"] {
        let decision = decision_of(&model, name).unwrap();
        assert_eq!(decision.state, DecisionState::Approved);
        assert!(is_by_the_person(&model, name));
        let batch = serde_json::json!({"first": "a", "count": 3});
        assert_eq!(batches(&model, name), [batch.clone(), batch], "{name}");
        let waited = model.log.iter().filter(|entry| {
            entry.event() == audit::Event::Waiting.name() && entry.details()["requestId"] == name
        });
        assert_eq!(waited.count(), 1, "{name}");
    }
    assert_eq!(shown(&model), Some("c"));
    assert_eq!((twins(&model), decision_of(&model, "c")), (vec![], None));
    assert!(model.notices.is_empty());
    // Another one like those has nothing to do with that answer.
    put(&mut model, &[("a", "make")]);
    all(&mut model, vec![Op::Choose(Choice::Deny)]);
    assert_eq!(shown(&model), Some("a"));
    assert_eq!(batches(&model, "c"), Vec::<serde_json::Value>::new());
}

#[test]
fn several_are_denied_in_the_same_way() {
    let mut model = with_person();
    put(&mut model, &[("a", "make"), ("b", "make")]);
    all(&mut model, vec![Op::Together(Plain::No, false)]);
    for name in ["a", "b"] {
        assert!(is_by_the_person(&model, name));
        assert!(!decision_of(&model, name).unwrap().is_approved());
    }
}

#[test]
fn who_comes_and_goes_while_one_is_shown_is_told() {
    let mut model = with_person();
    put(&mut model, &[("a", "make")]);
    assert_eq!(twins(&model), Vec::<&str>::new());
    put(&mut model, &[("b", "make"), ("c", "make"), ("d", "cook")]);
    assert_eq!(twins(&model), ["b", "c"]);
    all(&mut model, vec![Op::Take("b"), Op::List]);
    assert_eq!(twins(&model), ["c"]);
    // What is not about these is not told.
    model.put("b", Content::Asks("cook"), true);
    let candidates = model.candidates();
    let effects = model.effects_of(Event::Listed(candidates));
    assert!(
        !effects
            .iter()
            .any(|effect| matches!(effect, Effect::Alike { .. }))
    );
}

#[test]
fn one_that_has_gone_or_changed_is_not_decided_with_the_others_and_that_is_said() {
    let mut model = with_person();
    put(
        &mut model,
        &[("a", "make"), ("b", "make"), ("c", "make"), ("d", "make")],
    );
    // One is taken back and one is asked anew, which nobody has seen; one more dies before its answer.
    model.files.remove("b");
    model.put("c", Content::Asks("make"), true);
    model.op(Op::Die("d"));
    all(&mut model, vec![Op::Together(Plain::Yes, false)]);
    assert!(is_by_the_person(&model, "a"));
    for name in ["b", "c"] {
        assert_eq!(decision_of(&model, name), None, "{name}");
    }
    let mut said = model.notices.clone();
    said.sort();
    assert_eq!(
        said,
        [
            "not answered with the others: b: its requester has taken it back",
            "not answered with the others: c: something else is asked under its id",
            "not answered with the others: d: the process that asked has ended",
        ]
    );
    assert_eq!(shown(&model), Some("c"));
}

#[test]
fn one_that_went_before_the_answer_came_is_named() {
    let mut model = with_person();
    put(&mut model, &[("a", "make"), ("b", "make")]);
    all(&mut model, vec![Op::Together(Plain::Yes, true)]);
    assert!(is_by_the_person(&model, "a"));
    assert_eq!((shown(&model), decision_of(&model, "b")), (Some("b"), None));
    assert_eq!(
        model.notices,
        ["not answered with the others: b: it has gone or changed meanwhile"]
    );
}

#[test]
fn a_rule_that_denies_one_by_now_wins() {
    let mut model = with_person();
    put(&mut model, &[("a", "cook"), ("b", "cook")]);
    let (asks, likeness) = named(&model);
    // The answer was given before the screen heard of the new rules.
    model.step(Event::Renewed(
        Rules::Second.renewal(AuthorizerChain::default()),
    ));
    model.rules = Rules::Second;
    model.step(Event::AnsweredTogether {
        asks,
        likeness,
        verdict: Plain::Yes,
        by: by_person(),
    });
    model.settle();
    for name in ["a", "b"] {
        let decision = decision_of(&model, name).unwrap();
        assert!(matches!(decision.decided_by, DecisionSource::Rule { .. }));
        assert!(!decision.is_approved());
    }
    assert_eq!(model.notices.len(), 2, "{:?}", model.notices);
    assert!(model.notices[0].ends_with("policy denies it"));
}

fn named(model: &Model) -> (Vec<(RequestId, Digest)>, Digest) {
    let mut asks = vec![model.shown.clone().unwrap()];
    let twins = model.alike.twins.iter();
    asks.extend(twins.map(|twin| (twin.id.clone(), twin.digest)));
    (asks, model.alike.likeness.unwrap())
}

#[test]
fn an_answer_does_not_reach_what_is_not_alike_or_named_twice() {
    let mut model = with_person();
    put(&mut model, &[("a", "make"), ("b", "cook")]);
    let (mut asks, likeness) = named(&model);
    let (_, other) = model
        .read
        .iter()
        .find(|(id, _)| id.as_str() == "b")
        .cloned()
        .unwrap();
    asks.push((id("b"), other));
    asks.push(asks[0].clone());
    let (first, digest) = asks[0].clone();
    model.licensed.insert((first, digest));
    model.shown = None;
    model.step(Event::AnsweredTogether {
        asks,
        likeness,
        verdict: Plain::Yes,
        by: by_person(),
    });
    model.settle();
    assert!(is_by_the_person(&model, "a"));
    assert_eq!((shown(&model), decision_of(&model, "b")), (Some("b"), None));
}

#[test]
fn what_is_asked_for_another_reason_by_now_is_asked_again() {
    let mut model = with_person();
    put(&mut model, &[("a", "ls -l"), ("b", "ls -l")]);
    let (asks, likeness) = named(&model);
    // Under these rules it is still asked, and because of something else.
    let mut renewal = Rules::First.renewal(AuthorizerChain::default());
    let config = br#"{"permission": {"bash": {"ls *": "ask"}}}"#;
    renewal.policy = std::sync::Arc::new(super::policy_of(config));
    model.step(Event::Renewed(renewal));
    model.settle();
    model.shown = None;
    model.step(Event::AnsweredTogether {
        asks,
        likeness,
        verdict: Plain::Yes,
        by: by_person(),
    });
    model.settle();
    assert!(model.decided.is_empty());
    assert_eq!(model.notices.len(), 2, "{:?}", model.notices);
    assert_eq!((shown(&model), twins(&model)), (None, vec![]));
}

#[test]
fn what_rests_is_named_and_answered_too() {
    let mut model = with_person();
    put(&mut model, &[("a", "make"), ("b", "make")]);
    all(&mut model, vec![Op::PutOff]);
    assert_eq!((shown(&model), twins(&model)), (Some("b"), vec!["a"]));
    all(&mut model, vec![Op::Together(Plain::Yes, false)]);
    assert!(is_by_the_person(&model, "a") && is_by_the_person(&model, "b"));
    assert_eq!(model.state.in_line(), crate::serve::InLine::default());
}

#[test]
fn the_list_of_the_inbox_counts_them_and_a_review_answers_them() {
    let mut model = Model::with_inbox(
        Person::Here,
        None,
        Some(super::policy::Inbox {
            max_pending: 8,
            ..INBOX
        }),
    );
    put(&mut model, &[("a", "make"), ("b", "cook"), ("c", "make")]);
    let counts: Vec<usize> = model.listing.asks.iter().map(|ask| ask.alike).collect();
    assert_eq!(counts, [2, 1, 2]);
    all(&mut model, vec![Op::Review("a")]);
    assert_eq!(twins(&model), ["c"]);
    all(&mut model, vec![Op::Together(Plain::Yes, false)]);
    assert!(is_by_the_person(&model, "a") && is_by_the_person(&model, "c"));
    let counts: Vec<usize> = model.listing.asks.iter().map(|ask| ask.alike).collect();
    assert_eq!((counts, shown(&model)), (vec![1], None));
}

#[test]
fn what_had_to_be_replaced_to_be_read_is_like_nothing_else() {
    let mut model = with_person();
    for name in ["a", "b"] {
        model.put(name, Content::Replaced, false);
    }
    model.list();
    model.settle();
    assert_eq!(shown(&model), Some("a"));
    assert_eq!(model.alike.likeness, None);
}

#[test]
fn no_more_are_named_at_a_time_than_a_table_may_hold() {
    let mut model = with_person();
    let many: Vec<&'static str> = (0..150)
        .map(|n| &*Box::leak(format!("{}{n:03}", ["a", "b", "c", "d"][n % 4]).into_boxed_str()))
        .collect();
    for name in &many {
        model.put(name, Content::Asks("make"), false);
    }
    model.list();
    model.settle();
    assert_eq!(model.alike.twins.len(), 99);
    assert!(model.alike.more);
    all(&mut model, vec![Op::Together(Plain::Yes, false)]);
    assert_eq!(model.decided.len(), 100);
    assert_eq!(model.alike.twins.len(), 49);
    assert!(!model.alike.more);
}

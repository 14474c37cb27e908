//! The inbox mode, sequence by sequence.

use std::time::Duration;

use super::super::{Effect, Event, Outcome, ParentLife, Person};
use super::{Content, INBOX, Model, Op, grant_for_session, id, of_open, shown};
use crate::audit::{self, Entry};
use crate::policy;
use crate::presentation::select::Choice;
use crate::spool::FileRead;
use crate::wire::{Decision, DecisionSource};

fn with_inbox() -> Model {
    Model::with_inbox(Person::Here, None, Some(INBOX))
}

fn listed(model: &Model) -> Vec<&str> {
    let asks = model.listing.asks.iter();
    asks.map(|ask| ask.id.as_str()).collect()
}

fn outcomes(model: &Model) -> Vec<(&str, Outcome)> {
    let resolutions = model.listing.resolutions.iter();
    resolutions
        .map(|resolution| (resolution.id.as_str(), resolution.outcome))
        .collect()
}

fn put(model: &mut Model, asks: &[(&'static str, &'static str)]) {
    for (name, command) in asks {
        model.put(name, Content::Asks(command), false);
    }
    model.list();
    model.settle();
}

/// Does all of these, each until nothing more follows from it.
fn all(model: &mut Model, ops: Vec<Op>) {
    for op in ops {
        model.op(op);
        model.settle();
    }
}

fn decision_of<'a>(model: &'a Model, name: &str) -> &'a Decision {
    let mut decided = model.decided.iter();
    let found = decided.find(|((id, _), _)| id.as_str() == name);
    found.map(|(_, decision)| decision).unwrap()
}

#[test]
fn in_the_inbox_nothing_opens_by_itself_and_nothing_follows_a_decision() {
    let mut model = with_inbox();
    put(&mut model, &[("a", "make"), ("b", "cook")]);
    assert_eq!((shown(&model), listed(&model)), (None, vec!["a", "b"]));
    all(&mut model, vec![Op::Review("b")]);
    assert_eq!(shown(&model), Some("b"));
    all(&mut model, vec![Op::Choose(Choice::Once)]);
    assert_eq!((shown(&model), listed(&model)), (None, vec!["a"]));
    assert_eq!(outcomes(&model), [("b", Outcome::Approved)]);
    assert_eq!(model.candidates().len(), 1);
}

#[test]
fn one_review_is_open_at_a_time_and_can_be_left_undecided() {
    let mut model = with_inbox();
    put(&mut model, &[("a", "make"), ("b", "cook")]);
    all(&mut model, vec![Op::Review("a"), Op::Review("b")]);
    assert_eq!(shown(&model), Some("a"));
    all(&mut model, vec![Op::Close("b")]);
    assert_eq!(of_open(&model.listing), Some(&id("a")));
    all(&mut model, vec![Op::Close("a")]);
    assert_eq!((shown(&model), of_open(&model.listing)), (None, None));
    assert_eq!(listed(&model), ["a", "b"]);
    // One that is left before it was even read does not open.
    model.op(Op::Review("b"));
    model.op(Op::Close("b"));
    model.settle();
    assert_eq!((shown(&model), listed(&model)), (None, vec!["a", "b"]));
    all(&mut model, vec![Op::Review("b")]);
    assert_eq!(shown(&model), Some("b"));
}

#[test]
fn a_full_inbox_refuses_one_more_at_once_and_policy_answers_all_the_same() {
    let mut model = with_inbox();
    put(&mut model, &[("a", "make"), ("b", "cook")]);
    put(&mut model, &[("c", "make"), ("d", "ls")]);
    assert_eq!(listed(&model), ["a", "b"]);
    assert_eq!(model.listing.refused, 1);
    let refused = decision_of(&model, "c");
    assert!(matches!(
        &refused.decided_by,
        DecisionSource::Unavailable { reason }
            if reason == "the inbox of session \"P\" is full: inbox.maxPending is 2"
    ));
    assert!(decision_of(&model, "d").is_approved());
    // Where there is room again, the next one waits.
    all(&mut model, vec![Op::Review("a"), Op::Choose(Choice::Deny)]);
    put(&mut model, &[("c", "make")]);
    assert_eq!(listed(&model), ["b", "c"]);
}

#[test]
fn an_ask_of_the_inbox_is_denied_unopened_while_another_stays_open() {
    let mut model = with_inbox();
    put(&mut model, &[("a", "make"), ("b", "cook")]);
    all(&mut model, vec![Op::Review("a"), Op::Deny("b", true)]);
    assert_eq!(listed(&model), ["a", "b"], "it was for other bytes");
    all(&mut model, vec![Op::Deny("b", false)]);
    assert_eq!((shown(&model), listed(&model)), (Some("a"), vec!["a"]));
    assert_eq!(outcomes(&model), [("b", Outcome::Denied)]);
    assert!(matches!(
        decision_of(&model, "b").decided_by,
        DecisionSource::User { .. }
    ));
    // The open one can be denied from the list as well, and leaves the screen with it.
    all(&mut model, vec![Op::Deny("a", false)]);
    assert_eq!((shown(&model), listed(&model)), (None, vec![]));
}

#[test]
fn a_denial_from_the_list_does_not_hold_for_what_was_put_there_since() {
    let mut model = with_inbox();
    put(&mut model, &[("a", "make")]);
    model.put("a", Content::Asks("cook"), false);
    all(&mut model, vec![Op::Deny("a", false)]);
    assert_eq!(listed(&model), ["a"]);
    assert_eq!(outcomes(&model), [("a", Outcome::Cancelled)]);
    assert!(model.decided.is_empty());
}

#[test]
fn an_ask_of_the_inbox_expires_in_the_list_and_on_screen() {
    let mut model = with_inbox();
    put(&mut model, &[("a", "make"), ("b", "cook")]);
    all(&mut model, vec![Op::Review("a")]);
    model.now += 29_999;
    assert_eq!(
        model.state.next_due(model.moment()),
        Some(Duration::from_millis(1))
    );
    all(&mut model, vec![Op::Pass(1)]);
    assert_eq!((shown(&model), listed(&model)), (None, vec![]));
    let mut ended = outcomes(&model);
    ended.sort_unstable_by_key(|(name, _)| *name);
    assert_eq!(ended, [("a", Outcome::Expired), ("b", Outcome::Expired)]);
    for name in ["a", "b"] {
        assert!(matches!(
            &decision_of(&model, name).decided_by,
            DecisionSource::Unavailable { reason }
                if reason == "it expired: nobody in session \"P\" decided it within 30 s"
        ));
    }
}

#[test]
fn an_inbox_without_an_end_keeps_its_asks() {
    let limits = policy::Inbox {
        expire: None,
        ..INBOX
    };
    let mut model = Model::with_inbox(Person::Here, None, Some(limits));
    put(&mut model, &[("a", "make")]);
    all(&mut model, vec![Op::Pass(50_000)]);
    assert_eq!(listed(&model), ["a"]);
}

#[test]
fn each_end_of_an_ask_of_the_inbox_has_its_name_and_few_are_kept() {
    let mut model = with_inbox();
    model.put("a", Content::Asks("make"), true);
    model.put("b", Content::Asks("cook"), true);
    model.list();
    model.settle();
    all(
        &mut model,
        vec![Op::Take("a"), Op::List, Op::Die("b"), Op::Closed("b")],
    );
    assert_eq!(
        outcomes(&model),
        [("b", Outcome::Cancelled), ("a", Outcome::Cancelled)]
    );
    put(&mut model, &[("c", "make"), ("d", "make")]);
    model.put("c", Content::NoRequest, false);
    all(&mut model, vec![Op::Review("c")]);
    assert_eq!(
        outcomes(&model),
        [
            ("c", Outcome::Error),
            ("b", Outcome::Cancelled),
            ("a", Outcome::Cancelled)
        ]
    );
    model.shut_down();
    model.end();
    assert_eq!(
        outcomes(&model),
        [
            ("d", Outcome::Retired),
            ("c", Outcome::Error),
            ("b", Outcome::Cancelled)
        ]
    );
}

#[test]
fn an_end_of_an_ask_of_the_inbox_is_in_the_log() {
    let mut model = with_inbox();
    put(&mut model, &[("a", "make")]);
    model.files.clear();
    let effects = model.effects_of(Event::Listed(Vec::new()));
    let resolved = Entry::new(audit::Event::Resolved)
        .with("requestId", "a")
        .with("agentName", "scout")
        .with("outcome", "cancelled");
    let is_it = |effect: &Effect| matches!(effect, Effect::Log(entry) if *entry == resolved);
    assert!(effects.iter().any(is_it), "{effects:?}");
}

#[test]
fn a_review_of_what_policy_can_decide_by_now_does_not_open() {
    let mut model = with_inbox();
    put(&mut model, &[("a", "make"), ("b", "make")]);
    all(&mut model, vec![Op::Review("a")]);
    // The grant is in force; the look at what it settles is still to come when the next review is asked for.
    model.op(Op::Choose(grant_for_session()));
    while model.to_grant.len() == 1 {
        model.work(1, false);
    }
    let effects = model.effects_of(Event::Review(id("b")));
    assert!(
        !effects
            .iter()
            .any(|effect| matches!(effect, Effect::Show(_)))
    );
    let read = model.reads.pop_front().unwrap();
    let file = model.files["b"].clone();
    let content = FileRead::Content {
        bytes: file.bytes,
        stamp: file.stamp,
    };
    let effects = model.effects_of(Event::Read(read, content, file.life));
    assert!(effects.iter().any(|effect| matches!(
        effect,
        Effect::Withdraw { id, why } if id.as_str() == "b" && why == "a grant given just now allows it"
    )));
}

#[test]
fn a_parent_that_comes_takes_the_list_but_not_the_open_review() {
    let mut model = Model::with_inbox(Person::Here, Some("G"), Some(INBOX));
    put(&mut model, &[("a", "make"), ("b", "cook")]);
    all(
        &mut model,
        vec![Op::Review("a"), Op::Parent(ParentLife::Serving)],
    );
    assert_eq!((shown(&model), listed(&model)), (Some("a"), vec!["a"]));
    assert!(model.relayed.contains_key(&id("b")));
    // What the person leaves undecided is the parent's from then on.
    all(&mut model, vec![Op::Close("a")]);
    assert_eq!((shown(&model), listed(&model)), (None, vec![]));
    assert!(model.relayed.contains_key(&id("a")));
    assert_eq!(outcomes(&model), []);
    // What it gives back stays here, however often it is looked at.
    all(
        &mut model,
        vec![Op::GiveBack("a"), Op::Review("a"), Op::Close("a")],
    );
    assert_eq!((shown(&model), listed(&model)), (None, vec!["a"]));
    all(&mut model, vec![Op::Review("a")]);
    assert_eq!(shown(&model), Some("a"));
}

#[test]
fn a_person_who_leaves_the_inbox_leaves_nothing_waiting() {
    let mut model = with_inbox();
    put(&mut model, &[("a", "make"), ("b", "cook")]);
    all(&mut model, vec![Op::Review("a"), Op::PersonGone]);
    assert_eq!((shown(&model), listed(&model)), (None, vec![]));
    assert!(
        outcomes(&model)
            .iter()
            .all(|(_, outcome)| *outcome == Outcome::Retired)
    );
    assert!(model.files.is_empty());
}

/// A review that waits for its annotations can be left, denied and expire as any other.
#[test]
fn a_review_that_waits_for_its_annotators_is_open_already() {
    let open_unannotated = || {
        let mut model = Model::with(Person::Here, None, true, Some(INBOX));
        put(&mut model, &[("a", "make")]);
        all(&mut model, vec![Op::Review("a")]);
        assert_eq!(shown(&model), None);
        assert_eq!(of_open(&model.listing), Some(&id("a")));
        model
    };
    let mut model = open_unannotated();
    all(&mut model, vec![Op::Annotated("a", false)]);
    assert_eq!(shown(&model), Some("a"));

    let mut model = open_unannotated();
    all(&mut model, vec![Op::Close("a"), Op::Annotated("a", false)]);
    assert_eq!((shown(&model), listed(&model)), (None, vec!["a"]));
    assert_eq!(of_open(&model.listing), None);

    let mut model = open_unannotated();
    all(&mut model, vec![Op::Deny("a", false)]);
    assert_eq!(outcomes(&model), [("a", Outcome::Denied)]);

    let mut model = open_unannotated();
    all(&mut model, vec![Op::Pass(30_000)]);
    assert_eq!(outcomes(&model), [("a", Outcome::Expired)]);
}

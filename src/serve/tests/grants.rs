//! Grants, sequence by sequence: when one holds, what it covers, and when it ends.

use std::time::Duration;

use super::super::{Delivery, Effect, Event, Person};
use super::{
    Content, INBOX, Model, Op, approval_of_parent, grant_for_session, id, session, shown,
    with_person,
};
use crate::audit::{self, Entry};
use crate::policy::Lifetime;
use crate::presentation::select::{Choice, GrantScope};
use crate::wire::{Decision, DecisionState, RequestId};

/// Puts asks there, one after the other, each until nothing more follows from it.
fn ask(model: &mut Model, asks: &[(&'static str, &'static str)]) {
    for (name, command) in asks {
        model.put(name, Content::Asks(command), true);
        model.list();
        model.settle();
    }
}

/// Has `make` granted along with an ask.
fn granting(scope: GrantScope, lifetime: Lifetime) -> Model {
    let mut model = with_person();
    ask(&mut model, &[("a", "make")]);
    model.op(Op::Choose(session(scope, lifetime)));
    model.settle();
    model
}

fn decided<'a>(model: &'a Model, name: &str) -> &'a Decision {
    let mut decided = model.decided.iter();
    decided.find(|((id, _), _)| id.as_str() == name).unwrap().1
}

fn events(model: &Model, event: audit::Event) -> Vec<&Entry> {
    let mut log: Vec<&Entry> = model.log.iter().collect();
    log.retain(|entry| entry.event() == event.name());
    log
}

#[test]
fn a_grant_for_a_subagent_holds_for_it_and_nobody_else() {
    let mut model = granting(GrantScope::Requester, Lifetime::SessionEnd);
    assert_eq!(
        decided(&model, "a").state,
        DecisionState::ApprovedForSession
    );
    let recorded = &events(&model, audit::Event::SessionRecorded)[0].details();
    assert_eq!(recorded["grantIds"], serde_json::json!([1]));
    assert_eq!(
        recorded["scope"],
        serde_json::json!({"kind": "subagent", "chain": ["child-a"]})
    );
    ask(&mut model, &[("a", "make"), ("b", "make")]);
    assert_eq!(shown(&model), Some("b"));
    assert!(!model.files.contains_key("a"));
}

#[test]
fn a_requester_that_remembers_by_itself_is_remembered_for_nowhere_else() {
    let mut model = with_person();
    // As the peer writes it: without our own facts.
    model.put("a", Content::Asks("make"), false);
    let file = model.files.get_mut("a").unwrap();
    let mut request: serde_json::Value = serde_json::from_slice(&file.bytes).unwrap();
    request.as_object_mut().unwrap().remove("relay");
    file.bytes = request.to_string().into_bytes();
    model.list();
    model.settle();
    model.op(Op::Choose(session(
        GrantScope::Requester,
        Lifetime::SessionEnd,
    )));
    model.settle();
    assert_eq!(
        decided(&model, "a").state,
        DecisionState::ApprovedForSession
    );
    assert!(model.state.grants().is_empty());
    assert!(events(&model, audit::Event::SessionRecorded).is_empty());
}

#[test]
fn what_ends_before_the_session_is_remembered_by_nobody_but_this_session() {
    let model = granting(GrantScope::Requester, Lifetime::Uses(2));
    assert_eq!(decided(&model, "a").state, DecisionState::Approved);
    assert_eq!(model.state.grants().list().len(), 1);
}

#[test]
fn a_grant_for_some_answers_counts_those_that_are_published_and_no_more() {
    let mut model = granting(GrantScope::ServingSession, Lifetime::Uses(2));
    model.put("b", Content::Asks("make"), false);
    model.list();
    model.work(1, false);
    // The first try fails: it is not counted.
    model.work(1, true);
    let counted = |model: &Model| model.state.grants().list()[0].uses;
    assert_eq!(counted(&model), 0);
    ask(&mut model, &[("c", "make")]);
    assert_eq!(counted(&model), 1);
    model.op(Op::Pass(1_000));
    model.settle();
    assert!(model.state.grants().is_empty());
    assert_eq!(events(&model, audit::Event::GrantUsedUp).len(), 1);
    ask(&mut model, &[("d", "make")]);
    assert_eq!(shown(&model), Some("d"));
}

#[test]
fn of_two_that_rest_on_the_last_use_one_is_asked() {
    let mut model = granting(GrantScope::ServingSession, Lifetime::Uses(1));
    model.put("b", Content::Asks("make"), false);
    model.list();
    model.work(1, false);
    // It is judged, recorded, and cannot be delivered yet.
    model.work(1, true);
    ask(&mut model, &[("c", "make")]);
    model.op(Op::Pass(1_000));
    model.settle();
    assert_eq!(shown(&model), Some("b"));
    assert_eq!(events(&model, audit::Event::AnswerUnclaimed).len(), 1);
    model.op(Op::Choose(Choice::Deny));
    model.settle();
    model.check_ends();
}

#[test]
fn a_grant_for_a_time_ends_with_it_although_nothing_happens() {
    let time = Duration::from_secs(2);
    let mut model = granting(GrantScope::ServingSession, Lifetime::For(time));
    assert_eq!(model.state.next_due(model.moment()), Some(time));
    ask(&mut model, &[("b", "make")]);
    assert_eq!(shown(&model), None);
    model.op(Op::Pass(2_000));
    model.settle();
    assert_eq!(events(&model, audit::Event::GrantExpired).len(), 1);
    ask(&mut model, &[("c", "make")]);
    assert_eq!(shown(&model), Some("c"));
    assert_eq!(
        model.state.next_due(model.moment()),
        Some(Duration::from_secs(1))
    );
}

#[test]
fn a_grant_that_is_over_allows_nothing_that_is_judged_before_it_is_noticed() {
    let time = Duration::from_secs(2);
    let mut model = granting(GrantScope::ServingSession, Lifetime::For(time));
    model.now += 2_000;
    ask(&mut model, &[("b", "make")]);
    assert_eq!(shown(&model), Some("b"));
}

#[test]
fn a_grant_that_goes_between_judging_and_publishing_leaves_the_ask_to_be_asked() {
    for inbox in [None, Some(INBOX)] {
        let mut model = Model::with_inbox(Person::Here, None, inbox);
        ask(&mut model, &[("a", "make")]);
        if inbox.is_some() {
            model.op(Op::Review("a"));
            model.settle();
        }
        model.op(Op::Choose(grant_for_session()));
        model.settle();
        model.put("b", Content::Asks("make"), false);
        model.list();
        model.work(1, false);
        assert!(matches!(model.work.front(), Some(Effect::Answer(_))));
        model.op(Op::Revoke(false));
        model.settle();
        assert!(model.files.contains_key("b"));
        assert_eq!(model.listing.asks.len(), usize::from(inbox.is_some()));
        let revoked = events(&model, audit::Event::GrantRevoked);
        assert_eq!(revoked[0].details()["reason"], "its file is gone");
        if inbox.is_some() {
            model.op(Op::Review("b"));
            model.settle();
        }
        assert_eq!(shown(&model), Some("b"));
        model.op(Op::Choose(Choice::Deny));
        model.settle();
        model.check_ends();
        let prompted = audit::Event::Prompted.name();
        let of_b = |entry: &&Entry| {
            entry.details().get("requestId") == Some(&"b".into()) && entry.event() == prompted
        };
        assert_eq!(model.log.iter().filter(of_b).count(), 1);
    }
}

#[test]
fn where_it_cannot_be_told_whether_a_grant_holds_the_person_is_asked() {
    let mut model = granting(GrantScope::ServingSession, Lifetime::SessionEnd);
    model.put("b", Content::Asks("make"), false);
    model.list();
    model.work(1, false);
    let Some(Effect::Answer(answer)) = model.work.pop_front() else {
        panic!("it is not allowed");
    };
    assert_eq!(answer.rests_on.len(), 1);
    model.step(Event::Answered(id("b"), Delivery::GrantsUnsure));
    model.settle();
    assert_eq!(shown(&model), Some("b"));
    // The grant is as it was for the others.
    ask(&mut model, &[("c", "make")]);
    assert!(!model.files.contains_key("c"));
}

#[test]
fn a_grant_that_cannot_be_kept_counts_for_its_own_ask_only() {
    let mut model = with_person();
    ask(&mut model, &[("a", "make"), ("b", "make")]);
    model.op(Op::Choose(grant_for_session()));
    while !matches!(model.work.front(), Some(Effect::KeepGrants(..))) {
        model.work(1, false);
    }
    model.work(1, true);
    model.settle();
    assert_eq!(decided(&model, "a").state, DecisionState::Approved);
    assert!(model.state.grants().is_empty());
    assert_eq!(shown(&model), Some("b"));
}

#[test]
fn what_the_parent_answers_grants_nothing_here() {
    for state in [
        DecisionState::ApprovedForSession,
        DecisionState::ApprovedForServingSession,
    ] {
        let mut model = Model::new(Person::Nobody, Some("G"));
        ask(&mut model, &[("a", "make")]);
        let digest = model.relayed[&id("a")];
        model.licensed.insert((id("a"), digest));
        let super::RelayOutcome::Answered(decision) = approval_of_parent() else {
            panic!("it approves");
        };
        let decision = Decision { state, ..decision };
        let outcome = super::RelayOutcome::Answered(decision);
        model.relayed.remove(&id("a"));
        model.step(Event::Relayed(
            RequestId::parse("a").unwrap(),
            digest,
            outcome,
        ));
        model.settle();
        assert!(decided(&model, "a").is_approved());
        assert!(model.state.grants().is_empty());
    }
}

//! Sequences in which the chain of authorizers takes part.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::*;
use crate::serve::chain::tests::Silent;

/// A chain of these links, of which none is trusted anywhere.
pub(super) fn of(names: &[&str]) -> AuthorizerChain {
    let mut authorizers = Authorizers::default();
    for name in names {
        let _registered = authorizers
            .register(*name, Duration::from_secs(30), Silent)
            .unwrap();
    }
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    authorizers.chain(&names, &BTreeMap::new())
}

fn model(person: Person, parent: Option<&str>, links: &[&str]) -> Model {
    Model::with_chain(person, parent, false, None, of(links))
}

/// A model with a person and this chain, and these asks in it.
fn asked(links: &[&str], names: &[&'static str]) -> Model {
    let mut model = model(Person::Here, None, links);
    for name in names {
        model.put(name, Content::Asks("make"), false);
    }
    model.list();
    model.settle();
    model
}

impl Model {
    /// The link that is asked about this ask answers.
    fn says(&mut self, name: &str, ruling: Ruling) {
        assert!(self.authorizing.contains_key(&id(name)), "nobody is asked");
        self.authorized(name, Some(ruling), false);
        self.settle();
    }

    /// The configuration is read again, with this chain in it.
    fn renew(&mut self, rules: Rules, links: &[&str]) {
        self.rules = rules;
        self.step(Event::Renewed(rules.renewal(of(links))));
        self.settle();
    }

    fn fails(&mut self, name: &str) {
        assert!(self.authorizing.contains_key(&id(name)), "nobody is asked");
        self.authorized(name, None, false);
        self.settle();
    }

    fn pass(&mut self, ms: u64) {
        self.op(Op::Pass(ms));
        self.settle();
    }

    /// Whether and by whom an ask was decided.
    fn decision(&self, name: &str) -> Option<&Decision> {
        let found = self
            .decided
            .iter()
            .find(|((ask, _), _)| ask.as_str() == name);
        found.map(|(_, decision)| decision)
    }

    /// What is recorded under this event, without the ids.
    fn logged(&self, event: audit::Event) -> Vec<Value> {
        let entries = self
            .log
            .iter()
            .filter(|entry| entry.event() == event.name());
        let mut found: Vec<Value> = entries
            .map(|entry| Value::Object(entry.details().clone()))
            .collect();
        for details in &mut found {
            details.as_object_mut().unwrap().remove("requestId");
        }
        found
    }

    fn links_asked(&self) -> Vec<(&str, &str)> {
        let mut asked: Vec<_> = self
            .authorizing
            .iter()
            .map(|(ask, (_, link))| (ask.as_str(), link.as_str()))
            .collect();
        asked.sort_unstable();
        asked
    }
}

fn link(name: &str, verdict: AuthorizerVerdict, reason: Option<&str>) -> DecisionSource {
    DecisionSource::Authorizer {
        name: name.to_owned(),
        verdict,
        reason: reason.map(str::to_owned),
    }
}

#[test]
fn links_are_asked_one_after_another_and_the_first_that_rules_decides() {
    let mut model = asked(&["a1", "a2", "a3"], &["a"]);
    assert_eq!(model.links_asked(), [("a", "a1")]);
    model.fails("a");
    assert_eq!(model.links_asked(), [("a", "a2")]);
    model.says("a", Ruling::Allow);
    assert_eq!(
        model.decision("a"),
        Some(&Decision::approved(link(
            "a2",
            AuthorizerVerdict::Allow,
            None
        )))
    );
    assert!(model.links_asked().is_empty());
    assert_eq!(shown(&model), None);
    assert_eq!(
        model.logged(audit::Event::ChainResolved),
        [json!({"links": ["a1", "a2", "a3"]})]
    );
    let reason = Failure::TooMuch.to_string();
    assert_eq!(
        model.logged(audit::Event::AuthorizerLink),
        [
            json!({"name": "a1", "outcome": "failed", "latencyMs": 7, "reason": reason}),
            json!({"name": "a2", "outcome": "allow", "latencyMs": 7, "reason": "so it says"}),
        ]
    );
    // No person was asked, so it waited for none.
    assert!(model.logged(audit::Event::Waiting).is_empty());
    let tallies = model.state.link_tallies().iter();
    let tallies: Vec<_> = tallies
        .map(|tally| (tally.name.as_str(), tally.asked, tally.failed))
        .collect();
    assert_eq!(tallies, [("a1", 1, 1), ("a2", 1, 0), ("a3", 0, 0)]);
}

#[test]
fn what_no_link_rules_on_is_a_persons_or_nobodys() {
    let mut here = asked(&["a1", "a2"], &["a"]);
    here.says("a", Ruling::Defer);
    here.says("a", Ruling::Defer);
    assert_eq!(shown(&here), Some("a"));
    assert_eq!(here.with_chain, None);
    let mut nobody = model(Person::Nobody, None, &["a1"]);
    nobody.put("a", Content::Asks("make"), false);
    nobody.list();
    nobody.settle();
    assert!(nobody.decided.is_empty());
    nobody.fails("a");
    let decided = nobody.decision("a").unwrap();
    assert!(matches!(
        &decided.decided_by,
        DecisionSource::Unavailable { reason } if reason.contains("its authorizers leave it open")
    ));
}

#[test]
fn chain_1_a_deny_without_a_reason_is_a_deny() {
    for (reason, state) in [
        (None, DecisionState::Denied),
        (Some(" \n"), DecisionState::Denied),
        (Some("too wide"), DecisionState::DeniedWithReason),
    ] {
        let mut model = asked(&["judge"], &["a"]);
        let (digest, name) = model.authorizing.remove(&id("a")).unwrap();
        model.refused.insert((id("a"), digest));
        model.step(Event::Authorized(Authorized {
            id: id("a"),
            digest,
            link: name,
            outcome: Outcome::Answered(LinkVerdict {
                ruling: Ruling::Deny,
                reason: reason.map(str::to_owned),
            }),
            latency: Duration::ZERO,
        }));
        model.settle();
        assert_eq!(shown(&model), None);
        let decision = model.decision("a").unwrap();
        assert_eq!(decision.state, state);
        assert_eq!(
            decision.decided_by,
            link("judge", AuthorizerVerdict::Deny, reason)
        );
    }
}

#[test]
fn chain_4_after_the_grace_an_ask_is_before_the_person_and_who_is_first_decides() {
    for person_is_first in [true, false] {
        let mut model = asked(&["a1", "a2"], &["a"]);
        model.pass(1_999);
        assert_eq!(shown(&model), None);
        model.pass(1);
        assert_eq!(shown(&model), Some("a"));
        assert_eq!(model.with_chain.as_deref(), Some("a1"));
        model.says("a", Ruling::Defer);
        assert_eq!(model.with_chain.as_deref(), Some("a2"));
        assert_eq!(model.links_asked(), [("a", "a2")]);
        if person_is_first {
            model.op(Op::Choose(Choice::Once));
            model.settle();
            assert!(model.links_asked().is_empty());
            let last = model.logged(audit::Event::AuthorizerLink).pop().unwrap();
            assert_eq!(
                last,
                json!({"name": "a2", "outcome": "cancelled", "latencyMs": 0, "reason": null})
            );
            let decision = model.decision("a").unwrap();
            assert!(matches!(decision.decided_by, DecisionSource::User { .. }));
        } else {
            let step = model.authorizing.remove(&id("a")).unwrap();
            model.refused.insert((id("a"), step.0));
            let effects = model.effects_of(Event::Authorized(Authorized {
                id: id("a"),
                digest: step.0,
                link: step.1,
                outcome: Outcome::Answered(LinkVerdict {
                    ruling: Ruling::Deny,
                    reason: None,
                }),
                latency: Duration::ZERO,
            }));
            let said = |effect: &Effect| matches!(effect, Effect::Withdraw { why, .. } if why == "authorizer a2 denied it");
            assert!(effects.iter().any(said), "{effects:?}");
            for effect in effects {
                model.perform(effect, false);
            }
            model.settle();
            assert_eq!(shown(&model), None);
            assert!(!model.decision("a").unwrap().is_approved());
        }
        assert!(model.files.is_empty());
    }
}

#[test]
fn policy_settles_an_ask_that_a_link_thinks_about() {
    let mut model = asked(&["judge"], &["a", "b"]);
    model.pass(2_000);
    assert_eq!(shown(&model), Some("a"));
    model.op(Op::Choose(grant_for_session()));
    model.settle();
    assert!(matches!(
        model.decision("b").unwrap().decided_by,
        DecisionSource::SessionApproval { .. }
    ));
    assert!(model.links_asked().is_empty());
}

#[test]
fn eight_chains_run_at_once_and_the_others_wait_fairly_for_a_place() {
    let flood = ["x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9"];
    let mut model = asked(&["judge"], &flood);
    assert_eq!(model.links_asked().len(), 8);
    assert_eq!(model.state.waiting_for_chain(), 2);
    model.put("y", Content::Asks("make"), false);
    model.list();
    model.settle();
    assert_eq!(model.state.waiting_for_chain(), 3);
    // A place is free for one of each requester in turn.
    model.says("x3", Ruling::Deny);
    model.says("x4", Ruling::Deny);
    let asked = model.links_asked();
    assert!(asked.contains(&("x8", "judge")) && asked.contains(&("y", "judge")));
    assert_eq!(model.state.waiting_for_chain(), 1);
    // Who waits for a place goes before the person as well, in time.
    model.pass(2_000);
    assert_eq!(model.state.in_line().waiting + 1, 9);
    // What is taken back makes room.
    model.op(Op::Take("x5"));
    model.list();
    model.settle();
    assert!(model.links_asked().contains(&("x9", "judge")));
}

#[test]
fn an_ask_on_screen_gets_its_place_without_being_read_again() {
    let flood = ["x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7"];
    let mut model = asked(&["judge"], &flood);
    model.put("y", Content::Asks("cook"), false);
    model.list();
    model.settle();
    model.pass(2_000);
    assert_eq!(shown(&model), Some("x0"));
    model.op(Op::Choose(Choice::Once));
    model.settle();
    // The place of the one that the person decided went to it, and its turn has come.
    assert_eq!(shown(&model), Some("y"));
    assert_eq!(model.with_chain.as_deref(), Some("judge"));
    model.says("y", Ruling::Allow);
    assert!(model.decision("y").unwrap().is_approved());
}

#[test]
fn nothing_late_decides() {
    let mut model = asked(&["a1", "a2"], &["a"]);
    let first = model.authorizing[&id("a")].clone();
    // Other bytes under the same id.
    model.put("a", Content::Asks("cook"), false);
    model.step(Event::Closed(id("a")));
    model.perform(Effect::Read(Candidate::of(&id("a"))), false);
    model.settle();
    assert_ne!(model.authorizing[&id("a")].0, first.0);
    model.authorized("a", Some(Ruling::Allow), true);
    model.settle();
    assert!(model.decided.is_empty());
    // Another link.
    model.says("a", Ruling::Defer);
    model
        .once_authorized
        .retain(|(_, digest, _)| *digest != first.0);
    model.authorized("a", Some(Ruling::Allow), true);
    model.settle();
    assert!(model.decided.is_empty());
    assert_eq!(model.links_asked(), [("a", "a2")]);
    // Taken back, and put there again: the link is asked anew.
    let file = model.files["a"].clone();
    model.op(Op::Take("a"));
    model.list();
    model.settle();
    assert!(model.links_asked().is_empty());
    model.files.insert("a", file);
    model.list();
    model.settle();
    assert_eq!(model.links_asked(), [("a", "a1")]);
}

#[test]
fn the_same_bytes_put_there_again_get_the_same_answer_and_no_link_is_asked() {
    let mut model = asked(&["judge"], &["a"]);
    let file = model.files["a"].clone();
    model.says("a", Ruling::Deny);
    assert_eq!(model.delivered.len(), 1);
    model.delivered.clear();
    model.files.insert("a", file);
    model.list();
    model.settle();
    assert!(model.links_asked().is_empty());
    assert_eq!(model.once_authorized.len(), 1);
    assert_eq!(model.delivered.len(), 1);
}

#[test]
fn an_allow_beyond_the_envelope_is_no_allow() {
    let mut replaced = model(Person::Here, None, &["judge"]);
    replaced.put("a", Content::Replaced, false);
    replaced.list();
    replaced.settle();
    replaced.says("a", Ruling::Allow);
    assert_eq!(shown(&replaced), Some("a"));
    let logged = replaced.logged(audit::Event::AuthorizerLink);
    assert_eq!(logged[0]["outcome"], "capped");
    assert_eq!(logged[0]["cap"], "text of the ask was replaced");
    // Without facts for policy, the surface that is displayed counts.
    let mut bare = model(Person::Here, None, &["judge"]);
    bare.put("a", Content::WithoutFacts, false);
    bare.list();
    bare.settle();
    bare.says("a", Ruling::Allow);
    assert!(bare.decision("a").unwrap().is_approved());
}

#[test]
fn a_session_that_passes_an_ask_on_asks_no_link_unless_it_comes_back() {
    let mut model = model(Person::Here, Some("G"), &["a1", "a2"]);
    model.step(Event::Parent(ParentLife::Serving));
    model.put("a", Content::Asks("make"), false);
    model.list();
    model.settle();
    assert!(model.relayed.contains_key(&id("a")));
    assert!(model.links_asked().is_empty());
    assert_eq!(
        model.logged(audit::Event::ChainDelegated),
        [json!({"links": ["a1", "a2"]})]
    );
    model.op(Op::GiveBack("a"));
    model.settle();
    assert_eq!(model.links_asked(), [("a", "a1")]);
    model.pass(2_000);
    // The parent has had its turn.
    assert_eq!(shown(&model), Some("a"));
    model.says("a", Ruling::Defer);
    model.says("a", Ruling::Defer);
    assert_eq!(shown(&model), Some("a"));
}

#[test]
fn a_link_that_has_answered_is_not_asked_again_by_a_parent_that_comes_and_goes() {
    let mut model = model(Person::Here, Some("G"), &["a1", "a2"]);
    model.put("a", Content::Asks("make"), false);
    model.list();
    model.settle();
    model.says("a", Ruling::Defer);
    let mut flap = |links: &[&str]| {
        model.renew(Rules::First, links);
        model.step(Event::Parent(ParentLife::Serving));
        model.settle();
        assert!(model.links_asked().is_empty());
        model.op(Op::GiveBack("a"));
        model.settle();
        model.step(Event::Parent(ParentLife::NotServing));
        model.settle();
        let asked = model.links_asked();
        asked.first().map(|(_, link)| (*link).to_owned())
    };
    // Nobody has heard what the second one would have said.
    assert_eq!(flap(&["a1", "a2"]), Some("a2".to_owned()));
    assert_eq!(flap(&["a1"]), None);
    assert_eq!(shown(&model), Some("a"));
}

#[test]
fn a_parent_that_comes_takes_what_the_chain_has_alone() {
    let mut model = model(Person::Here, Some("G"), &["judge"]);
    model.put("a", Content::Asks("make"), false);
    model.list();
    model.settle();
    assert_eq!(model.links_asked(), [("a", "judge")]);
    model.step(Event::Parent(ParentLife::Serving));
    model.settle();
    assert!(model.links_asked().is_empty());
    assert!(model.relayed.contains_key(&id("a")));
    let ended = model.logged(audit::Event::AuthorizerLink);
    assert_eq!(ended[0]["outcome"], "cancelled");
}

#[test]
fn a_person_who_leaves_leaves_the_ask_to_the_chain() {
    let mut model = asked(&["judge"], &["a"]);
    model.pass(2_000);
    assert_eq!(shown(&model), Some("a"));
    model.step(Event::PersonGone);
    model.settle();
    assert_eq!(shown(&model), None);
    assert_eq!(model.links_asked(), [("a", "judge")]);
    model.says("a", Ruling::Allow);
    assert!(model.decision("a").unwrap().is_approved());
}

#[test]
fn an_end_stops_every_link_and_settles_every_ask() {
    let flood = ["a", "b", "c", "d", "x0", "x1", "x2", "x3", "x4", "x5"];
    let mut model = asked(&["judge"], &flood);
    model.pass(2_000);
    model.shut_down();
    model.end();
    assert_eq!(model.delivered.len(), 10);
    assert_eq!(model.once_authorized.len(), 8);
}

#[test]
fn what_a_link_has_ruled_is_given_out_although_the_session_ends() {
    let mut model = asked(&["judge"], &["a", "b", "c"]);
    model.authorized("a", Some(Ruling::Allow), false);
    model.authorized("b", Some(Ruling::Deny), false);
    model.shut_down();
    model.end();
    let by_link = |entry: &&Entry| entry.details()["decidedBy"]["kind"] == "authorizer";
    let ends = model
        .log
        .iter()
        .filter(|entry| entry.details().contains_key("requestDigest"));
    let ends: Vec<_> = ends
        .filter(by_link)
        .map(|entry| (&entry.details()["requestId"], entry.event()))
        .collect();
    assert_eq!(
        ends,
        [
            (&json!("a"), Ending::Approved.name()),
            (&json!("b"), Ending::Denied.name()),
        ]
    );
}

#[test]
fn what_the_chain_settles_in_time_is_not_annotated() {
    let mut model = Model::with_chain(Person::Here, None, true, None, of(&["judge"]));
    for name in ["a", "b"] {
        model.put(name, Content::Asks("make"), false);
    }
    model.list();
    model.settle();
    model.says("a", Ruling::Allow);
    assert!(model.once_annotated.is_empty());
    model.pass(2_000);
    assert!(model.once_annotated.contains_key(&id("b")));
}

#[test]
fn an_ask_for_which_the_inbox_has_no_room_stays_with_the_chain() {
    let chain = of(&["judge"]);
    let mut model = Model::with_chain(Person::Here, None, false, Some(INBOX), chain);
    for name in ["a", "b", "c"] {
        model.put(name, Content::Asks("make"), false);
    }
    model.list();
    model.settle();
    assert!(model.listing.asks.is_empty());
    model.pass(2_000);
    let listed = |model: &Model| -> Vec<String> {
        let asks = model.listing.asks.iter();
        asks.map(|ask| ask.id.to_string()).collect()
    };
    assert_eq!(listed(&model), ["a", "b"]);
    assert!(model.decided.is_empty());
    // Once there is room it goes before the person, whatever the chain does.
    model.says("a", Ruling::Allow);
    model.pass(1);
    assert_eq!(listed(&model), ["b", "c"]);
    for name in ["b", "c"] {
        model.says(name, Ruling::Allow);
    }
    assert!(model.decided.values().all(Decision::is_approved));
    assert!(model.listing.asks.is_empty());
}

#[test]
fn a_chain_that_comes_with_a_renewal_is_for_asks_from_then_on() {
    let mut model = asked(&["a1", "a2"], &["a"]);
    model.renew(Rules::First, &["b1"]);
    model.put("b", Content::Asks("make"), false);
    model.list();
    model.settle();
    assert_eq!(model.links_asked(), [("a", "a1"), ("b", "b1")]);
    // The one that runs ends as it began.
    model.says("a", Ruling::Defer);
    assert_eq!(model.links_asked(), [("a", "a2"), ("b", "b1")]);
    let health = model.state.link_health();
    let names: Vec<&str> = health.iter().map(|link| link.name.as_str()).collect();
    assert_eq!(names, ["b1"]);
}

#[test]
fn rules_that_are_read_again_settle_what_the_chain_has_alone() {
    let mut model = asked(&["judge"], &["a"]);
    model.put("b", Content::Asks("cook"), false);
    model.list();
    model.settle();
    model.renew(Rules::Second, &["judge"]);
    assert!(model.decision("a").unwrap().is_approved());
    assert!(!model.decision("b").unwrap().is_approved());
    assert!(model.links_asked().is_empty());
}

#[test]
fn a_ruling_counts_only_where_the_rules_leave_the_ask_open_when_it_is_applied() {
    let mut model = asked(&["judge"], &["a"]);
    model.put("b", Content::Asks("cook"), false);
    model.list();
    model.settle();
    // Both are allowed, and before that is applied the rules are read again.
    model.authorized("a", Some(Ruling::Allow), false);
    model.authorized("b", Some(Ruling::Allow), false);
    model.renew(Rules::Second, &["judge"]);
    let by_rule = |name: &str| {
        matches!(
            model.decision(name).unwrap().decided_by,
            DecisionSource::Rule { .. }
        )
    };
    assert!(by_rule("a") && by_rule("b"));
}

#[test]
fn no_link_allows_anything_while_the_configuration_is_broken() {
    let mut early = asked(&["judge"], &["a"]);
    early.renew(Rules::Clamped, &["judge"]);
    early.says("a", Ruling::Allow);
    assert_eq!(shown(&early), Some("a"));
    let logged = early.logged(audit::Event::AuthorizerLink);
    assert_eq!(logged[0]["cap"], "the configuration is broken");
    // It breaks between the ruling and the answer.
    let mut late = asked(&["judge"], &["a"]);
    late.authorized("a", Some(Ruling::Allow), false);
    late.renew(Rules::Clamped, &["judge"]);
    assert_eq!(shown(&late), Some("a"));
    // A deny is one all the same.
    let mut denied = asked(&["judge"], &["a"]);
    denied.renew(Rules::Clamped, &["judge"]);
    denied.says("a", Ruling::Deny);
    assert!(!denied.decision("a").unwrap().is_approved());
}

/// A model in which a rule has `ls` asked, as one name of a call, and no person is to be.
fn guarding(person: Person) -> Model {
    let mut model = model(person, None, &["a1", "a2"]);
    model.renew(Rules::Clamped, &["a1", "a2"]);
    model.put("a", Content::AsksGuard("ls"), false);
    model.list();
    model.settle();
    model
}

#[test]
fn a_link_hears_of_each_name_of_a_call_and_its_deny_counts() {
    for person in [Person::Here, Person::Nobody] {
        let mut model = guarding(person);
        assert_eq!(model.links_asked(), [("a", "a1")]);
        // However long it takes, no person is asked instead.
        model.pass(10_000);
        assert_eq!((shown(&model), model.decision("a")), (None, None));
        model.says("a", Ruling::Defer);
        model.says("a", Ruling::Deny);
        let reason = Some("so it says".to_owned());
        let by = link("a2", AuthorizerVerdict::Deny, reason.as_deref());
        assert_eq!(model.decision("a"), Some(&Decision::denied(reason, by)));
        assert_eq!(shown(&model), None);
    }
}

#[test]
fn what_no_link_rules_on_is_told_as_asked_where_no_person_is_to_be() {
    for rulings in [
        [Ruling::Defer, Ruling::Defer],
        // The configuration is broken: no allow counts.
        [Ruling::Defer, Ruling::Allow],
    ] {
        let mut model = guarding(Person::Here);
        for ruling in rulings {
            model.says("a", ruling);
        }
        assert!(model.decision("a").is_some_and(Decision::is_unasked));
        assert_eq!(shown(&model), None);
        assert!(model.logged(audit::Event::Waiting).is_empty());
    }
    // Rules that come meanwhile decide it, and an end settles it.
    let mut model = guarding(Person::Here);
    model.renew(Rules::First, &["a1", "a2"]);
    assert!(model.decision("a").is_some_and(Decision::is_approved));
    let mut model = guarding(Person::Here);
    model.step(Event::Shutdown);
    model.settle();
    assert!(!model.decision("a").is_none_or(Decision::is_approved));
}

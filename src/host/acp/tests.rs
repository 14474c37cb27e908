mod hostile;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::host::lines::{Lines, Piece};

fn proxy() -> Proxy {
    Proxy::new(Manners::default())
}

fn racing() -> Proxy {
    Proxy::new(Manners {
        client_too: true,
        ..Manners::default()
    })
}

const OPTIONS: [(&str, &str); 4] = [
    ("once", "allow_once"),
    ("always", "allow_always"),
    ("no", "reject_once"),
    ("never", "reject_always"),
];

fn options(kinds: &[&str]) -> Value {
    let offered = OPTIONS.iter().filter(|(_, kind)| kinds.contains(kind));
    offered
        .map(|(id, kind)| json!({"optionId": id, "name": id, "kind": kind}))
        .collect()
}

fn request_with(id: &str, session: &str, kinds: &[&str]) -> Vec<u8> {
    let params = json!({
        "sessionId": session,
        "toolCall": {"toolCallId": "c1", "kind": "execute", "title": "Run it", "rawInput": {"command": "make"}},
        "options": options(kinds),
    });
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"session/request_permission","params":{params}}}"#
    )
    .into_bytes()
}

fn request(id: &str) -> Vec<u8> {
    request_with(
        id,
        "S",
        &["allow_once", "allow_always", "reject_once", "reject_always"],
    )
}

fn asks(step: &Step) -> Vec<&Ask> {
    let asks = step.effects.iter().filter_map(|effect| match effect {
        Effect::Ask(ask) => Some(&**ask),
        Effect::Withdraw(_)
        | Effect::AskClientSoon(_)
        | Effect::ToAgent(_)
        | Effect::ToClient(_)
        | Effect::Say(_) => None,
    });
    asks.collect()
}

/// The lines for the agent among these effects.
fn to_agent(effects: &[Effect]) -> Vec<String> {
    let lines = effects.iter().filter_map(|effect| match effect {
        Effect::ToAgent(line) => Some(String::from_utf8(line.clone()).unwrap()),
        Effect::Ask(_)
        | Effect::Withdraw(_)
        | Effect::AskClientSoon(_)
        | Effect::ToClient(_)
        | Effect::Say(_) => None,
    });
    lines.collect()
}

/// The one answer to the agent, as JSON.
#[track_caller]
fn answer(effects: &[Effect]) -> Value {
    let lines = to_agent(effects);
    assert_eq!(lines.len(), 1, "{effects:?}");
    assert!(lines[0].ends_with('\n'));
    serde_json::from_str(&lines[0]).unwrap()
}

fn outcome(effects: &[Effect]) -> String {
    let answer = answer(effects);
    let outcome = &answer["result"]["outcome"];
    outcome["optionId"]
        .as_str()
        .or_else(|| outcome["outcome"].as_str())
        .unwrap()
        .to_owned()
}

const ONCE: Ruling = Ruling::Approved { for_longer: false };
const LONGER: Ruling = Ruling::Approved { for_longer: true };

#[test]
fn a_request_for_permission_becomes_an_ask_and_never_reaches_the_client() {
    let mut proxy = proxy();
    let step = proxy.line(Side::Agent, &request("7"));
    assert!(!step.passes);
    let asks = asks(&step);
    assert_eq!(asks.len(), 1);
    assert_eq!((asks[0].number, asks[0].session.as_str()), (1, "S"));
    assert_eq!(asks[0].call.tool, "bash");
    assert_eq!(asks[0].call.input, json!({"command": "make"}));
    assert_eq!(proxy.waiting(), 1);
    let effects = proxy.answered(1, &ONCE, "");
    assert_eq!(
        to_agent(&effects),
        [
            "{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{\"outcome\":{\"outcome\":\"selected\",\"optionId\":\"once\"}}}\n"
        ]
    );
    assert_eq!(proxy.waiting(), 0);
    assert_eq!(proxy.answered(1, &ONCE, ""), []);
}

#[test]
fn an_option_is_taken_by_its_kind_and_none_that_says_more_than_was_decided() {
    let all = ["allow_once", "allow_always", "reject_once", "reject_always"];
    for (kinds, ruling, always, expected) in [
        (&all[..], &ONCE, false, "once"),
        (&all, &LONGER, false, "once"),
        (&all, &LONGER, true, "always"),
        (&all, &ONCE, true, "once"),
        (&all, &Ruling::Denied, false, "no"),
        (&all, &Ruling::Nobody, false, "no"),
        (
            &["allow_once", "reject_always"],
            &Ruling::Denied,
            false,
            "never",
        ),
        (&["allow_always", "reject_once"], &ONCE, true, "no"),
        (&["allow_always", "reject_once"], &LONGER, false, "no"),
        (&["allow_always", "reject_once"], &LONGER, true, "always"),
        (&["allow_once"], &LONGER, true, "once"),
        (&["allow_once"], &Ruling::Denied, false, "cancelled"),
        (&["allow_always"], &ONCE, false, "cancelled"),
        (&[], &ONCE, false, "cancelled"),
    ] {
        let mut proxy = Proxy::new(Manners {
            always,
            ..Manners::default()
        });
        let _asked = proxy.line(Side::Agent, &request_with("1", "S", kinds));
        let effects = proxy.answered(1, ruling, "so it is");
        assert_eq!(outcome(&effects), expected, "{kinds:?} {ruling:?} {always}");
    }
}

#[test]
fn a_kind_that_nobody_knows_is_never_chosen() {
    let line = json!({"id": 1, "method": "session/request_permission", "params": {
        "sessionId": "S", "toolCall": {"toolCallId": "c"},
        "options": [{"optionId": "a", "kind": "allow_everything"}, {"optionId": "b"}, {"kind": "allow_once"}, 7],
    }});
    let mut proxy = proxy();
    let _asked = proxy.line(Side::Agent, line.to_string().as_bytes());
    assert_eq!(outcome(&proxy.answered(1, &ONCE, "")), "cancelled");
}

#[test]
fn a_denial_gives_its_reason_where_the_protocol_has_a_place_for_it_and_says_it() {
    let mut proxy = proxy();
    let _asked = proxy.line(Side::Agent, &request("\"a\""));
    let effects = proxy.answered(1, &Ruling::Denied, "use make clean");
    let answer = answer(&effects);
    assert_eq!(
        answer["result"]["_meta"]["askrelay"]["reason"],
        "use make clean"
    );
    assert!(effects.contains(&Effect::Say("use make clean".to_owned())));
}

#[test]
fn the_id_comes_back_as_it_was_written() {
    for id in [
        "0",
        "-7",
        "1.0",
        "1e3",
        "\"x\\u0041\"",
        "null",
        "{\"a\": [1]}",
        "12345678901234567890123",
    ] {
        let mut proxy = proxy();
        let _asked = proxy.line(Side::Agent, &request(id));
        let lines = to_agent(&proxy.answered(1, &ONCE, ""));
        assert!(lines[0].contains(&format!("\"id\":{id},")), "{}", lines[0]);
    }
}

#[test]
fn asks_wait_beside_each_other_and_each_gets_its_own_answer() {
    let mut proxy = proxy();
    for id in ["1", "\"1\"", "null"] {
        assert_eq!(
            asks(&proxy.line(Side::Agent, &request(id))).len(),
            1,
            "{id}"
        );
    }
    assert_eq!(answer(&proxy.answered(3, &ONCE, ""))["id"], json!(null));
    assert_eq!(
        answer(&proxy.answered(1, &Ruling::Denied, "no"))["id"],
        json!(1)
    );
    assert_eq!(answer(&proxy.answered(2, &ONCE, ""))["id"], json!("1"));
}

#[test]
fn what_cannot_be_read_is_rejected() {
    let doubled = br#"{"id":1,"method":"x","method":"session/request_permission","params":{"sessionId":"S","toolCall":{},"options":[{"optionId":"no","kind":"reject_once"}]}}"#;
    let within = br#"{"id":1,"method":"session/request_permission","params":{"sessionId":"S","toolCall":{"a":1,"a":2},"options":[{"optionId":"no","kind":"reject_once"}]}}"#;
    let lacking = br#"{"id":1,"method":"session/request_permission","params":{"sessionId":"S","options":[{"optionId":"no","kind":"reject_once"}]}}"#;
    for line in [&doubled[..], within, lacking] {
        let mut proxy = proxy();
        let step = proxy.line(Side::Agent, line);
        assert!(!step.passes && asks(&step).is_empty());
        assert_eq!(outcome(&step.effects), "no", "{}", line.escape_ascii());
        assert_eq!(proxy.waiting(), 0);
    }
    for line in [
        r#"{"id":1,"method":"session/request_permission"}"#,
        r#"{"id":1,"method":"session/request_permission","params":[]}"#,
        r#"{"id":1,"method":"session/request_permission","params":"x"}"#,
    ] {
        assert_eq!(
            outcome(&proxy().line(Side::Agent, line.as_bytes()).effects),
            "cancelled"
        );
    }
}

#[test]
fn an_id_that_is_used_twice_is_answered_twice_and_allows_nothing() {
    let mut proxy = proxy();
    let _asked = proxy.line(Side::Agent, &request("1"));
    let step = proxy.line(Side::Agent, &request("1.0"));
    assert!(step.effects.contains(&Effect::Withdraw(1)));
    let lines = to_agent(&step.effects);
    assert_eq!(lines.len(), 2);
    assert!(
        lines.iter().all(|line| line.contains("\"error\"")),
        "{lines:?}"
    );
    assert_eq!(proxy.answered(1, &ONCE, ""), []);
    assert_eq!(proxy.waiting(), 0);
}

#[test]
fn a_cancelled_turn_cancels_the_asks_of_its_session_behind_the_cancellation() {
    let mut proxy = proxy();
    for (id, session) in [("1", "S"), ("2", "T"), ("3", "S")] {
        let _asked = proxy.line(Side::Agent, &request_with(id, session, &["allow_once"]));
    }
    let cancel = br#"{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"S"}}"#;
    let step = proxy.line(Side::Client, cancel);
    assert!(step.passes);
    assert_eq!(
        step.effects
            .iter()
            .filter(|effect| matches!(effect, Effect::Withdraw(1 | 3)))
            .count(),
        2
    );
    let lines = to_agent(&step.effects);
    assert_eq!(lines.len(), 2);
    for (line, id) in lines.iter().zip([1, 3]) {
        let answer: Value = serde_json::from_str(line).unwrap();
        assert_eq!(answer["id"], id);
        assert_eq!(answer["result"]["outcome"], json!({"outcome": "cancelled"}));
    }
    assert_eq!(proxy.waiting(), 1);
    // From the agent, or about nothing that waits, it is a line like any other.
    assert_eq!(proxy.line(Side::Agent, cancel), Step::passing());
    assert_eq!(proxy.line(Side::Client, cancel), Step::passing());
}

#[test]
fn a_request_that_the_agent_takes_back_is_withdrawn_and_answered_as_cancelled() {
    let mut proxy = proxy();
    let _asked = proxy.line(Side::Agent, &request("\"p\""));
    let other = br#"{"method":"$/cancel_request","params":{"requestId":"q"}}"#;
    assert_eq!(proxy.line(Side::Agent, other), Step::passing());
    let own = br#"{"method":"$/cancel_request","params":{"requestId":"p"}}"#;
    // The client's own cancellations are about the client's own requests.
    assert_eq!(proxy.line(Side::Client, own), Step::passing());
    let step = proxy.line(Side::Agent, own);
    assert!(!step.passes);
    assert_eq!(step.effects[0], Effect::Withdraw(1));
    assert_eq!(answer(&step.effects)["error"]["code"], -32800);
    assert_eq!(proxy.line(Side::Agent, own), Step::passing());
}

#[test]
fn when_the_client_goes_everything_that_waits_is_cancelled() {
    let mut proxy = proxy();
    let _asked = proxy.line(Side::Agent, &request("1"));
    let effects = proxy.client_gone();
    assert_eq!(effects[0], Effect::Withdraw(1));
    assert_eq!(outcome(&effects), "cancelled");
    assert_eq!(proxy.waiting(), 0);
}

#[test]
fn a_client_that_was_not_asked_cannot_answer() {
    let mut proxy = proxy();
    let _asked = proxy.line(Side::Agent, &request("1"));
    let forged = br#"{"id":1,"result":{"outcome":{"outcome":"selected","optionId":"once"}}}"#;
    assert!(!proxy.line(Side::Client, forged).passes);
    assert_eq!(proxy.waiting(), 1);
}

mod race {
    use super::*;

    const YES: &[u8] = br#"{"jsonrpc":"2.0","id":1,"result":{"outcome":{"outcome":"selected","optionId":"once"}}}"#;

    fn asked(proxy: &mut Proxy) {
        let step = proxy.line(Side::Agent, &request("1"));
        assert!(!step.passes);
        assert!(step.effects.contains(&Effect::AskClientSoon(1)));
        assert_eq!(
            proxy.client_may_be_asked(1),
            [Effect::ToClient(request("1"))]
        );
        assert_eq!(proxy.client_may_be_asked(1), []);
    }

    #[test]
    fn the_client_that_answers_first_decides_and_the_ask_is_withdrawn() {
        let mut proxy = racing();
        asked(&mut proxy);
        let step = proxy.line(Side::Client, YES);
        assert!(step.passes);
        assert_eq!(step.effects, [Effect::Withdraw(1)]);
        assert_eq!(proxy.answered(1, &Ruling::Denied, ""), []);
    }

    #[test]
    fn the_session_that_answers_first_decides_and_the_client_is_told_and_not_heard() {
        let mut proxy = racing();
        asked(&mut proxy);
        let effects = proxy.answered(1, &Ruling::Denied, "no");
        assert_eq!(outcome(&effects), "no");
        let taken = br#"{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":1}}"#;
        assert!(effects.iter().any(|effect| matches!(effect, Effect::ToClient(line) if line.strip_suffix(b"\n") == Some(taken))));
        // The next request by that id is not answered by what the client still owes.
        let again = proxy.line(Side::Agent, &request("1"));
        assert!(!again.effects.contains(&Effect::AskClientSoon(2)));
        assert_eq!(proxy.line(Side::Client, YES), Step::default());
        assert_eq!(proxy.waiting(), 1);
        assert_eq!(outcome(&proxy.answered(2, &ONCE, "")), "once");
    }

    #[test]
    fn a_rule_answers_before_the_client_is_asked() {
        let mut proxy = racing();
        let _asked = proxy.line(Side::Agent, &request("1"));
        let effects = proxy.answered(1, &ONCE, "");
        assert_eq!(effects.len(), 1);
        assert_eq!(proxy.client_may_be_asked(1), []);
    }

    #[test]
    fn where_nobody_serves_the_client_decides_alone_and_where_it_cannot_it_is_no() {
        let mut proxy = racing();
        asked(&mut proxy);
        assert!(to_agent(&proxy.answered(1, &Ruling::Nobody, "nobody serves")).is_empty());
        assert!(proxy.line(Side::Client, YES).passes);
        assert_eq!(proxy.waiting(), 0);

        let mut proxy = racing();
        asked(&mut proxy);
        let _said = proxy.answered(1, &Ruling::Nobody, "nobody serves");
        let unable = br#"{"id":1,"error":{"code":-32601,"message":"no such method"}}"#;
        let step = proxy.line(Side::Client, unable);
        assert!(!step.passes);
        assert_eq!(outcome(&step.effects), "no");
    }

    #[test]
    fn a_client_that_cannot_ask_decides_nothing() {
        let mut proxy = racing();
        asked(&mut proxy);
        let unable = br#"{"id":1,"error":{"code":-32601,"message":"no such method"}}"#;
        assert_eq!(proxy.line(Side::Client, unable), Step::default());
        assert_eq!(outcome(&proxy.answered(1, &ONCE, "")), "once");
    }

    #[test]
    fn a_request_that_the_agent_takes_back_is_taken_back_from_both() {
        let mut proxy = racing();
        asked(&mut proxy);
        let back = br#"{"method":"$/cancel_request","params":{"requestId":1}}"#;
        let step = proxy.line(Side::Agent, back);
        assert!(step.passes);
        assert_eq!(answer(&step.effects)["error"]["code"], -32800);
        assert_eq!(proxy.line(Side::Client, YES), Step::default());
    }

    #[test]
    fn a_turn_that_the_client_cancels_is_answered_by_the_client() {
        let mut proxy = racing();
        asked(&mut proxy);
        let cancel = br#"{"method":"session/cancel","params":{"sessionId":"S"}}"#;
        assert_eq!(proxy.line(Side::Client, cancel), Step::passing());
        let cancelled = br#"{"id":1,"result":{"outcome":{"outcome":"cancelled"}}}"#;
        let step = proxy.line(Side::Client, cancelled);
        assert!(step.passes);
        assert_eq!(step.effects, [Effect::Withdraw(1)]);
    }
}

/// Lines of all kinds, none of which is a request for permission.
fn any_line() -> impl Strategy<Value = Vec<u8>> {
    let method = prop_oneof![
        Just("session/update"),
        Just("session/new"),
        Just("session/cancel"),
        Just("$/cancel_request"),
        Just("fs/read_text_file"),
        Just("x/unknown"),
    ];
    let json = (method, any::<u8>(), ".{0,20}", any::<bool>()).prop_map(|(method, id, text, request)| {
        let mut message = json!({"jsonrpc": "2.0", "method": method, "params": {"sessionId": text, "cwd": text, "requestId": id}});
        if request {
            message["id"] = json!(id);
        }
        message.to_string().into_bytes()
    });
    let answer = any::<u8>().prop_map(|id| {
        json!({"id": id, "result": {"sessionId": "x"}})
            .to_string()
            .into_bytes()
    });
    prop_oneof![
        json,
        answer,
        prop::collection::vec(
            any::<u8>().prop_filter("no end", |byte| *byte != b'\n'),
            0..60
        ),
    ]
}

proptest! {
    #[test]
    fn every_line_but_a_request_for_permission_comes_out_byte_for_byte(
        all in prop::collection::vec((any::<bool>(), any_line(), any::<bool>()), 0..30),
        chunk in 1..50_usize,
        client_too: bool,
    ) {
        let mut proxy = Proxy::new(Manners { client_too, always: false });
        for side in [Side::Agent, Side::Client] {
            let of_side = all.iter().filter(|(agent, ..)| *agent == (side == Side::Agent));
            let mut sent: Vec<u8> = Vec::new();
            for (_, line, returns) in of_side {
                sent.extend(line);
                sent.extend(if *returns { &b"\r\n"[..] } else { b"\n" });
            }
            let mut lines = Lines::of_at_most(LONGEST_LOOKED_AT);
            let mut pieces: Vec<Piece> = sent.chunks(chunk).flat_map(|chunk| lines.take(chunk)).collect();
            pieces.extend(lines.end());
            let mut passed = Vec::new();
            for piece in pieces {
                match piece {
                    Piece::Line(line) => {
                        let step = proxy.line(side, &line);
                        prop_assert!(step.passes && step.effects.is_empty());
                        passed.extend(line);
                    }
                    Piece::Part { bytes, .. } => passed.extend(bytes),
                }
            }
            prop_assert_eq!(passed, sent);
        }
    }

    #[test]
    fn every_request_is_answered_once_whatever_comes(steps in prop::collection::vec((0..6_u8, 0..4_u64), 0..40), client_too: bool) {
        let mut proxy = Proxy::new(Manners { client_too, always: false });
        let mut asked = 0_usize;
        let mut answered = 0_usize;
        let mut fresh = 0_u64;
        for (what, which) in steps {
            let effects = match what {
                0 => {
                    fresh += 1;
                    asked += 1;
                    proxy.line(Side::Agent, &request(&fresh.to_string())).effects
                }
                1 => proxy.answered(fresh.saturating_sub(which), &ONCE, "x"),
                2 => proxy.answered(fresh.saturating_sub(which), &Ruling::Nobody, "x"),
                3 => proxy.client_may_be_asked(fresh.saturating_sub(which)),
                4 => {
                    let line = format!(r#"{{"id":{},"result":{{}}}}"#, fresh.saturating_sub(which));
                    let before = proxy.waiting();
                    let step = proxy.line(Side::Client, line.as_bytes());
                    answered += before - proxy.waiting();
                    prop_assert!(to_agent(&step.effects).is_empty());
                    step.effects
                }
                _ => {
                    let line = format!(r#"{{"method":"$/cancel_request","params":{{"requestId":{}}}}}"#, fresh.saturating_sub(which));
                    proxy.line(Side::Agent, line.as_bytes()).effects
                }
            };
            answered += to_agent(&effects).len();
            prop_assert_eq!(asked, answered + proxy.waiting());
        }
        answered += to_agent(&proxy.client_gone()).len();
        prop_assert_eq!(asked, answered);
    }
}

use proptest::prelude::*;
use serde_json::json;

use super::*;

const HOSTS: [Host; 3] = [Host::ClaudeCode, Host::Codex, Host::Gemini];
const PROGRAM: &str = "/usr/local/bin/askrelay";

#[track_caller]
fn installed(host: Host, text: &str) -> String {
    install(host, text, PROGRAM).unwrap()
}

#[test]
fn nothing_becomes_a_configuration_with_our_hooks_alone() {
    let text = installed(Host::Codex, "");
    assert_eq!(
        text,
        r#"{
  "hooks": {
    "PreToolUse": [
      {
        "matcher": "*",
        "hooks": [
          {
            "type": "command",
            "command": "/usr/local/bin/askrelay hook codex --host-timeout 86400 || sh -c 'echo \"askrelay did not answer, so nothing is allowed\" >&2; exit 2'",
            "timeout": 86400,
            "statusMessage": "askrelay: waiting for a decision"
          }
        ]
      }
    ],
    "PermissionRequest": [
      {
        "matcher": "*",
        "hooks": [
          {
            "type": "command",
            "command": "/usr/local/bin/askrelay hook codex --host-timeout 86400 || sh -c 'echo \"askrelay did not answer, so nothing is allowed\" >&2; exit 2'",
            "timeout": 86400,
            "statusMessage": "askrelay: waiting for a decision"
          }
        ]
      }
    ]
  }
}
"#
    );
    assert_eq!(uninstall(Host::Codex, &text).unwrap(), "{}\n");
}

#[test]
fn hooks_of_others_stay_where_they_are_and_ours_go_behind_them() {
    let text = "{\n    \"model\": \"m\", // mine\n    \"hooks\": {\n        \"BeforeTool\": [\n            {\n                \"matcher\": \"write_file\",\n                \"hooks\": [{\"type\": \"command\", \"command\": \"lint\"}]\n            } // the linter\n        ]\n    }\n}\n";
    let with = installed(Host::Gemini, text);
    assert!(
        with.starts_with(text.split(" // the linter").next().unwrap()),
        "{with}"
    );
    assert!(with.contains("            }, // the linter\n            {\n                \"matcher\": \"*\",\n                \"hooks\": [\n"), "{with}");
    assert_eq!(uninstall(Host::Gemini, &with).unwrap(), text);
}

#[test]
fn an_older_entry_is_brought_up_to_date_in_its_place_and_doubles_go() {
    let old = json!({
        "hooks": {
            "PreToolUse": [
                {"matcher": "*", "hooks": [
                    {"type": "command", "command": "/old/askrelay", "args": ["hook", "claude-code"], "timeout": 300},
                    {"type": "command", "command": "mine"},
                ]},
                {"matcher": "*", "hooks": [{"type": "command", "command": "'/old dir/askrelay' hook claude-code"}]},
            ],
            "SubagentStop": [{"hooks": [{"type": "command", "command": "/old/askrelay hook claude-code"}]}],
        },
        "z": 1,
    });
    let text = serde_json::to_string_pretty(&old).unwrap();
    let now = installed(Host::ClaudeCode, &text);
    let read: serde_json::Value = serde_json::from_str(&now).unwrap();
    let pre = &read["hooks"]["PreToolUse"];
    assert_eq!(pre.as_array().unwrap().len(), 1, "{now}");
    assert_eq!(pre[0]["hooks"][0]["command"], PROGRAM);
    assert_eq!(pre[0]["hooks"][0]["onFailure"], "block");
    assert_eq!(pre[0]["hooks"][1]["command"], "mine");
    assert_eq!(read["hooks"].get("SubagentStop"), None);
    let keys: Vec<&String> = read.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["hooks", "z"]);
}

#[test]
fn a_matcher_that_lets_tools_by_is_put_right() {
    let narrow =
        installed(Host::Codex, "").replacen("\"matcher\": \"*\"", "\"matcher\": \"Read\"", 1);
    let found = find(Host::Codex, &installed(Host::Codex, &narrow)).unwrap();
    assert_eq!(found.len(), 2);
    assert!(
        found
            .iter()
            .all(|entry| entry.matcher.as_deref() == Some("*"))
    );
}

#[test]
fn a_file_that_its_host_would_ignore_is_refused_with_the_place() {
    for (host, text, wanted) in [
        (
            Host::ClaudeCode,
            "{\n  // mine\n}",
            "2:3: a comment stands here, and Claude Code reads no file with comments: it ignores all of it",
        ),
        (
            Host::Codex,
            "{} /* x */",
            "1:4: a comment stands here, and Codex reads no file with comments: it ignores all of it",
        ),
        (
            Host::ClaudeCode,
            "{\"a\": 1,}",
            "1:9: expected a key in double quotes, found '}'",
        ),
        (
            Host::ClaudeCode,
            "{\n\"a\": 1\n\"b\": 2}",
            "3:1: expected ',' or '}', found '\"'",
        ),
        (
            Host::Codex,
            "\u{feff}{}",
            "1:1: the file begins with a byte-order mark; save it as UTF-8 without one",
        ),
        (
            Host::Gemini,
            "[]",
            "1:1: the file is an array, and must be an object",
        ),
        (
            Host::Gemini,
            "{\"hooks\": []}",
            "1:11: \"hooks\" is an array, and must be an object",
        ),
        (
            Host::Gemini,
            "{\"hooks\": {\"BeforeTool\": {}}}",
            "1:26: \"hooks\".\"BeforeTool\" is an object, and must be an array",
        ),
        (
            Host::Gemini,
            "{\"a\": 1, \"a\": 2}",
            "1:10: key \"a\" stands twice in one object (first at 1:2)",
        ),
    ] {
        assert_eq!(
            install(host, text, PROGRAM).unwrap_err().to_string(),
            wanted
        );
    }
}

#[test]
fn a_byte_order_mark_that_its_host_reads_over_stays() {
    let text = "\u{feff}{\"model\": \"//\"}\n";
    let with = installed(Host::ClaudeCode, text);
    assert!(
        with.starts_with("\u{feff}{\"model\": \"//\",\"hooks\":"),
        "{with}"
    );
    assert_eq!(uninstall(Host::ClaudeCode, &with).unwrap(), text);
}

#[test]
fn a_number_of_any_size_is_no_obstacle() {
    let text = "{\"a\": 1e999, \"b\": 12345678901234567890123}";
    assert_eq!(
        uninstall(Host::Codex, &installed(Host::Codex, text)).unwrap(),
        text
    );
}

#[test]
fn a_comment_keeps_what_it_stands_in() {
    for (text, comments) in [
        ("{\"hooks\": { // mine\n}}", &["// mine\n"][..]),
        ("{\"hooks\" /*c*/: {}}", &["/*c*/"]),
        (
            "{\"a\": 1, \"hooks\": /*c*/ {\"BeforeTool\": [ /* d */ ]}}",
            &["/*c*/", "/* d */"],
        ),
    ] {
        let without = uninstall(Host::Gemini, &installed(Host::Gemini, text)).unwrap();
        for comment in comments {
            assert!(without.contains(comment), "{without}");
        }
        assert_eq!(find(Host::Gemini, &without).unwrap(), []);
    }
}

fn blank(comments: bool) -> BoxedStrategy<String> {
    let mut choices = vec![
        Just(String::new()).boxed(),
        Just(" ".to_owned()).boxed(),
        Just("\n    ".to_owned()).boxed(),
        Just("\r\n\t".to_owned()).boxed(),
    ];
    if comments {
        choices.push(Just(" // , } \"c\"\n  ".to_owned()).boxed());
        choices.push(Just(" /* , ] */ ".to_owned()).boxed());
    }
    proptest::strategy::Union::new(choices).boxed()
}

/// The members of an object as text: each key once, blanks wherever they may stand.
fn members(
    value: BoxedStrategy<String>,
    comments: bool,
    prefix: &'static str,
    least: usize,
) -> BoxedStrategy<String> {
    let member = (
        blank(comments),
        blank(comments),
        blank(comments),
        value,
        blank(comments),
    );
    proptest::collection::vec(member, least..4)
        .prop_map(move |members| {
            let members = members.into_iter().enumerate();
            let members = members
                .map(|(at, (a, b, c, value, d))| format!("{a}\"{prefix}{at}\"{b}:{c}{value}{d}"));
            members.collect::<Vec<_>>().join(",")
        })
        .boxed()
}

fn value(comments: bool) -> BoxedStrategy<String> {
    let leaf = prop_oneof![
        Just("1".to_owned()),
        Just("-2.50e3".to_owned()),
        Just("null".to_owned()),
        Just("\"// no \\\" comment, [\"".to_owned()),
    ];
    leaf.prop_recursive(2, 8, 3, move |inner| {
        let inner = inner.boxed();
        prop_oneof![
            members(inner.clone(), comments, "v", 0).prop_map(|members| format!("{{{members}}}")),
            proptest::collection::vec((blank(comments), inner, blank(comments)), 0..3).prop_map(
                |all| {
                    let all = all
                        .into_iter()
                        .map(|(a, value, b)| format!("{a}{value}{b}"));
                    format!("[{}]", all.collect::<Vec<_>>().join(","))
                }
            ),
        ]
    })
    .boxed()
}

fn group() -> BoxedStrategy<String> {
    prop_oneof![
        Just("{\"hooks\": [{\"type\": \"command\", \"command\": \"lint\"}]}".to_owned()),
        Just("{\n \"matcher\": \"Bash\",\n \"hooks\": [{\"type\": \"command\",\n\"command\": \"a; b\"}\n ]\n }".to_owned()),
    ]
    .boxed()
}

/// A configuration of this host: with hooks of others or without, with comments where it reads them.
fn configuration(host: Host) -> BoxedStrategy<String> {
    let comments = host.reads_comments();
    let groups = proptest::collection::vec((blank(comments), group(), blank(comments)), 1..3)
        .prop_map(|groups| {
            let groups = groups
                .into_iter()
                .map(|(a, group, b)| format!("{a}{group}{b}"));
            groups.collect::<Vec<_>>().join(",")
        });
    let events =
        proptest::sample::subsequence(vec!["PreToolUse", "BeforeTool", "Stop", "Other"], 1..4);
    let hooks = (
        events,
        proptest::collection::vec((blank(comments), groups, blank(comments)), 4),
    )
        .prop_map(|(events, groups)| {
            let events = events.into_iter().zip(groups);
            let events =
                events.map(|(event, (a, groups, b))| format!("{a}\"{event}\": [{groups}]{b}"));
            format!("\"hooks\": {{{}}}", events.collect::<Vec<_>>().join(","))
        });
    let parts = (
        blank(comments),
        members(value(comments), comments, "k", 1),
        proptest::option::of(hooks),
        proptest::bool::ANY,
        blank(comments),
        blank(comments),
    );
    parts
        .prop_map(|(a, members, hooks, first, b, c)| {
            let inner = match (hooks, first) {
                (None, _) => members,
                (Some(hooks), true) => format!("{b}{hooks},{members}"),
                (Some(hooks), false) => format!("{members},{b}{hooks}{c}"),
            };
            format!("{a}{{{inner}}}{c}")
        })
        .boxed()
}

fn host_and_configuration() -> impl Strategy<Value = (Host, String)> {
    proptest::sample::select(&HOSTS[..])
        .prop_flat_map(|host| configuration(host).prop_map(move |text| (host, text)))
}

proptest! {
    #[test]
    fn what_was_put_in_comes_out_to_the_byte((host, text) in host_and_configuration()) {
        let with = install(host, &text, PROGRAM).unwrap();
        prop_assert_eq!(uninstall(host, &with).unwrap(), text);
    }

    #[test]
    fn putting_in_twice_changes_nothing_and_another_program_takes_the_place((host, text) in host_and_configuration()) {
        let with = install(host, &text, "/old place/askrelay").unwrap();
        prop_assert_eq!(&install(host, &with, "/old place/askrelay").unwrap(), &with);
        let now = install(host, &with, PROGRAM).unwrap();
        prop_assert_eq!(now, install(host, &text, PROGRAM).unwrap());
    }

    #[test]
    fn the_rest_of_the_file_stays_in_its_order((host, text) in host_and_configuration()) {
        let with = install(host, &text, PROGRAM).unwrap();
        // Every byte of the old text is there, in its order.
        let mut rest = with.chars();
        for c in text.chars() {
            prop_assert!(rest.any(|other| other == c), "{with}");
        }
    }

    #[test]
    fn no_text_is_made_worse(text in "[\\[\\]{}:,\"/*a1 \n]{0,60}") {
        for host in HOSTS {
            if let Ok(with) = install(host, &text, PROGRAM) {
                prop_assert!(!find(host, &with).unwrap().is_empty());
            }
        }
    }
}

use serde_json::json;

use super::*;

fn call<'a>(tool: &'a str, input: &'a Value, files: &'a dyn Files) -> Call<'a> {
    Call {
        tool,
        input,
        value: "",
        files,
    }
}

fn many_lines() -> String {
    let lines: Vec<String> = (0..90_000).map(|n| format!("line {n} of it\n")).collect();
    lines.concat()
}

struct Holds(&'static [u8]);

impl Files for Holds {
    fn current(&self, _path: &str) -> Current {
        Current::Content(self.0.to_vec())
    }
}

#[test]
fn a_registered_formatter_takes_the_place_of_the_built_in_one() {
    let mut formatters = Formatters::default();
    let input = json!({"command": "ls"});
    let of_bash = call("bash", &input, &NoFiles);
    assert_eq!(formatters.evidence(&of_bash), [entry("full command", "ls")]);
    formatters.register("bash", |call: &Call<'_>| {
        vec![entry("seen", call.input["command"].as_str().unwrap())]
    });
    assert_eq!(formatters.evidence(&of_bash), [entry("seen", "ls")]);
    assert_eq!(
        formatters.evidence(&call("Bash", &input, &NoFiles)),
        [entry("full command", "ls")]
    );
}

#[test]
fn nothing_of_a_large_input_is_left_out() {
    let text = many_lines();
    assert!(text.len() > 1 << 20);
    let cases = [
        ("bash", json!({"command": text})),
        ("write", json!({"path": "f", "content": text})),
        (
            "edit",
            json!({"path": "f", "oldText": "a", "newText": text}),
        ),
        ("other", json!({"body": text})),
    ];
    for (tool, input) in cases {
        let evidence = Formatters::default().evidence(&call(tool, &input, &NoFiles));
        let shown: String = evidence.into_iter().map(|entry| entry.text).collect();
        for n in [0, 29_999, 59_999] {
            assert!(shown.contains(&format!("line {n} of it")), "{tool}: {n}");
        }
        assert!(shown.len() >= text.trim_end().len(), "{tool}");
    }
}

#[test]
fn a_large_file_that_changes_in_one_place_shows_that_place() {
    let text = many_lines();
    let leaked: &'static [u8] = Box::leak(text.clone().into_bytes().into_boxed_slice());
    let new = text.replace("line 30000 of it", "another");
    let input = json!({"path": "f", "content": new});
    let evidence = Formatters::default().evidence(&call("write", &input, &Holds(leaked)));
    let [_, diff] = evidence.as_slice() else {
        panic!("{evidence:?}")
    };
    insta::assert_snapshot!(diff.text, @r"
    --- a/f
    +++ b/f
    @@ -29998,7 +29998,7 @@
     line 29997 of it
     line 29998 of it
     line 29999 of it
    -line 30000 of it
    +another
     line 30001 of it
     line 30002 of it
     line 30003 of it
    ");
}

#[test]
fn a_value_is_taken_from_where_its_kind_says() {
    use crate::wire::PayloadKind;
    let input =
        json!({"command": "ls", "file_path": "/f", "target": "hub:list", "skill": "deploy"});
    for (kind, value) in [
        (PayloadKind::Bash, Some("ls")),
        (PayloadKind::Path, Some("/f")),
        (PayloadKind::Mcp, Some("hub:list")),
        (PayloadKind::Skill, Some("deploy")),
        (PayloadKind::Tool, None),
    ] {
        assert_eq!(value_of(kind, &input), value, "{kind:?}");
    }
    assert_eq!(
        value_of(PayloadKind::Bash, &json!({"command": ["ls"]})),
        None
    );
    assert_eq!(pointed_at(&json!(["/f"])), None);
}

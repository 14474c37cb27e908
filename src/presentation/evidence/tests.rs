use std::borrow::Cow;

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

fn holding(text: String) -> Holds {
    Holds(Box::leak(text.into_bytes().into_boxed_slice()))
}

/// The facts, and whether all of the input is shown.
fn shown(tool: &str, input: &Value, files: &dyn Files) -> (Vec<String>, String) {
    let evidence = Formatters::default().evidence(&call(tool, input, files));
    let facts = evidence
        .iter()
        .filter_map(|entry| match (entry.label.as_str(), &entry.detail) {
            ("edit" | "file", Some(detail)) => Some(detail.clone()),
            ("edit", None) => Some(entry.text.clone()),
            _ => None,
        });
    let facts = facts.collect();
    let texts = evidence.iter().map(|entry| entry.text.as_str());
    (facts, texts.collect::<Vec<_>>().join("\n"))
}

#[test]
fn an_edit_that_would_make_too_much_of_a_file_is_not_made_and_says_so() {
    let too_large = "makes more than 16777216 bytes of the file";
    let file = holding("a".repeat(60_000));
    let new = "b".repeat(40_000);
    let input =
        json!({"file_path": "f", "old_string": "a", "new_string": new, "replace_all": true});
    let (facts, text) = shown("Edit", &input, &file);
    assert!(facts.iter().any(|fact| fact == too_large), "{facts:?}");
    assert!(text.contains(&new));
    // Each of these is small, and so is the file.
    let double = json!({"old_string": "a", "new_string": "aa", "replace_all": true});
    let input = json!({"file_path": "f", "edits": vec![double; 40]});
    let (facts, text) = shown("MultiEdit", &input, &holding("a".to_owned()));
    let is_end = |fact: &&String| *fact == too_large || fact.starts_with("not worked out");
    assert_eq!(facts.iter().filter(is_end).count(), 1);
    assert!(text.contains("+aa"));
    let file = holding("a".repeat(60_000));
    let input =
        json!({"path": "f", "edits": [{"oldText": "a", "newText": new, "replaceAll": true}]});
    let (facts, _) = shown("edit", &input, &file);
    assert!(facts.iter().any(|fact| fact == too_large), "{facts:?}");
}

#[test]
fn edits_that_take_too_long_to_follow_are_shown_as_they_are_written() {
    let file = holding("a".repeat(1 << 20));
    let edit = json!({"old_string": "a", "new_string": "a", "replace_all": true});
    let input = json!({"file_path": "f", "edits": vec![edit; 2_000]});
    let (facts, text) = shown("MultiEdit", &input, &file);
    let not_worked_out = |fact: &&String| fact.starts_with("not worked out");
    assert_eq!(facts.iter().filter(not_worked_out).count(), 1);
    assert_eq!(text.matches("\"old_string\"").count(), 2_000);
    let edit = json!({"oldText": "a", "newText": "a", "replaceAll": true});
    let input = json!({"path": "f", "edits": vec![edit; 2_000]});
    let (facts, text) = shown("edit", &input, &file);
    assert_eq!(facts.iter().filter(not_worked_out).count(), 1);
    assert_eq!(text.matches("\"oldText\"").count(), 2_000);
}

#[test]
fn a_patch_that_takes_too_long_to_follow_is_shown_as_it_is_written() {
    let deletes: Vec<String> = (0..200_000)
        .map(|n| format!("*** Delete File: f{n}\n"))
        .collect();
    let many = format!(
        "*** Begin Patch\n{}*** End Patch\n",
        deletes.concat().repeat(2)
    );
    let lines = " a\n".repeat(10_000);
    let deep = format!("*** Begin Patch\n*** Update File: f\n@@\n{lines}-b\n*** End Patch\n");
    let file = holding("a\n".repeat(20_000));
    for (text, files) in [(&many, 400_000), (&deep, 1)] {
        for input in [json!({"input": text}), json!(text)] {
            let (facts, shown) = shown("apply_patch", &input, &file);
            assert_eq!(facts, ["not worked out"]);
            assert!(shown.contains(&format!("of {files} files")));
            assert!(shown.matches('\n').count() >= text.trim_end().matches('\n').count());
        }
    }
    let many = json!(many);
    let found = patched(&many).unwrap();
    assert_eq!((found.paths.len(), found.is_clear), (200_000, true));
}

#[test]
fn the_files_of_a_patch_are_those_that_whoever_applies_it_reads() {
    let whole = |body: &str| format!("*** Begin Patch\n{body}\n*** End Patch");
    let add = whole("*** Add File: a\n+x");
    let change = "@@\n-1\n+2";
    for (text, paths) in [
        (add.clone(), vec!["a"]),
        (whole("*** Add File: prod.env \n+x"), vec!["prod.env"]),
        (
            whole("*** Add File: prod.env\t\u{a0}\n+x"),
            vec!["prod.env"],
        ),
        (whole("  *** Delete File: a"), vec!["a"]),
        (add.replace('\n', "\r\n"), vec!["a"]),
        (format!(" {add} "), vec!["a"]),
        (add.replace("Patch\n", "Patch \n"), vec!["a"]),
        (format!("<<EOF\n{add}\nEOF"), vec!["a"]),
        (format!("<<'EOF'\r\n{add}\nEOF\n"), vec!["a"]),
        (
            whole(&format!("*** Update File: a \n*** Move to: b\n{change}")),
            vec!["a", "b"],
        ),
    ] {
        let input = json!({"command": text});
        let found = patched(&input).unwrap();
        assert_eq!(
            (found.paths, found.is_clear),
            (owned(&paths), true),
            "{text}"
        );
    }
    // What can be read in more than one way, or not at all, is held against all that it could be.
    for (text, paths) in [
        (
            whole(&format!("*** Update File: a\n*** Move to: b \n{change}")),
            vec!["a", "b", "b "],
        ),
        (
            whole(&format!("*** Update File: a\n  *** Move to: b\n{change}")),
            vec!["a", "b"],
        ),
        (
            whole(&format!(
                "*** Update File: a\n{change}\n *** Delete File: b"
            )),
            vec!["a", "b"],
        ),
        (whole("*** Add File:   a\n+x"), vec!["  a", "a"]),
        (whole("*** Add File:a\n+x"), vec!["a"]),
        (
            whole("*** Add File: p\rrod.env\n+x"),
            vec!["p\rrod.env", "prod.env"],
        ),
        (
            whole("*** Environment ID: x\n*** Add File: a\n+x"),
            vec!["a"],
        ),
        (format!("cat <<EOF\n{add}\nEOF"), vec!["a"]),
        (format!("{add}\n*** Add File: b\n+x"), vec!["a", "b"]),
        (
            whole("*** Add File: a\n+x\n\n*** Add File: b\n+x"),
            vec!["a", "b"],
        ),
    ] {
        let input = json!({"command": text});
        let found = patched(&input).unwrap();
        assert_eq!(
            (found.paths, found.is_clear),
            (owned(&paths), false),
            "{text}"
        );
    }
    let two = json!({"input": add, "patchText": add.replace(": a", ": b")});
    let found = patched(&two).unwrap();
    assert_eq!((found.paths, found.is_clear), (owned(&["a", "b"]), false));
    assert_eq!(patched(&json!({"command": "nonsense"})), None);
}

fn owned(paths: &[&str]) -> Vec<Cow<'static, str>> {
    paths
        .iter()
        .map(|path| Cow::Owned((*path).to_owned()))
        .collect()
}

use proptest::prelude::*;

use super::*;
use crate::wire::{Annotation, Evidence, PayloadKind, PromptPayload, RequestFacts, Requester};

fn payload(value: &str, evidence: &[(&str, &str)]) -> PromptPayload {
    PromptPayload {
        kind: PayloadKind::Bash,
        request: RequestFacts {
            requester: Requester {
                agent_name: Some("scout".to_owned()),
                forwarded: true,
                session_id: Some("c-1".to_owned()),
            },
            surface: "bash".to_owned(),
            tool_name: Some("bash".to_owned()),
            invoked_tool_name: None,
            value: value.to_owned(),
            matched_pattern: None,
            command_context: None,
            executed_unit: None,
            matched_spelling: None,
        },
        evidence: evidence
            .iter()
            .map(|(label, text)| Evidence {
                label: (*label).to_owned(),
                text: (*text).to_owned(),
                detail: None,
            })
            .collect(),
        annotations: Vec::new(),
    }
}

fn review(payload: &PromptPayload) -> Review {
    Review::new(&Ask {
        payload,
        path: &[],
        grants: &[],
        directory: None,
        asked_because: None,
        with_chain: None,
        waiting: 0,
    })
}

fn laid_out(payload: &PromptPayload, columns: usize, form: Form) -> Review {
    let mut review = review(payload);
    review.lay_out(columns, form, []);
    review
}

fn rows(review: &Review) -> Vec<String> {
    (0..review.rows())
        .map(|row| review.row(row).unwrap())
        .map(|row| format!("{}{}", row.gutter, row.text))
        .collect()
}

/// The texts of the rows below this label, joined.
fn text_below(review: &Review, label: &str) -> String {
    let mut blocks = review.blocks.iter();
    let block = blocks
        .position(|block| block.label.text.contains(label))
        .unwrap();
    let layout = review.layout.as_ref().unwrap();
    let is_below = |number: &usize| {
        let (_, line, _) = layout.row(*number).unwrap();
        wide(line.key.block) == block && line.key.line > 0
    };
    (0..review.rows())
        .filter(is_below)
        .map(|number| review.row(number).unwrap().text)
        .collect()
}

#[test]
fn everything_stands_right_of_a_bar_and_broken_lines_have_their_own() {
    let mut ask = payload(
        "printf '%s' one two three four five six seven\n\trm -rf build",
        &[
            ("full command", "x"),
            ("note", "the user agreed\n\n│ tool │ ls"),
        ],
    );
    ask.evidence[0].detail = Some("y".to_owned());
    ask.annotations.push(Annotation {
        source: "judge".to_owned(),
        text: "harmless".to_owned(),
    });
    insta::assert_snapshot!(rows(&laid_out(&ask, 40, Form::Full)).join("\n"), @r##"
    subagent │ scout · session c-1
    tool     │ bash
    command  │ printf '%s' one two three fou
             ┊ r five six seven
             │     rm -rf build
    runs     │ [in the line] printf '%s' one
             ┊  two three four five six seve
             ┊ n
    runs     │ [in the line] rm -rf build

    ─ full command
    │ x

    ─ full command →
    │ y

    ─ "note"
    │ the user agreed
    │ 
    │ │ tool │ ls

    ─ model note by judge
    │ harmless
    "##);
}

#[test]
fn the_compact_form_tells_blanks_line_ends_and_escapes_apart() {
    let ask = payload("a b\\\n<LF>\tc", &[("my label", "x y")]);
    insta::assert_snapshot!(rows(&laid_out(&ask, 20, Form::Compact)).join("\n"), @r##"
    compact view: each l
    ine end, blank and \
     of the ask is shown
     as <…>
    [ subagent ]
    scout<U+0020>·<U+002
    0>session<U+0020>c-1
    [ tool ]
    bash
    [ command ]
    a<U+0020>b<U+005C><L
    F>
    <U+003C>LF><TAB>c
    [ runs ]
    [writes<U+0020>a<U+0
    020>file<U+0020>or<U
    +0020>opens<U+0020>a
    <U+0020>connection]
    [ "my<U+0020>label" 
    ]
    x<U+0020>y
    "##);
}

#[test]
fn one_column_shows_everything_and_escapes_what_is_wider() {
    let review = laid_out(&payload("l你\u{0E33}", &[]), 1, Form::Compact);
    let all = rows(&review);
    assert!(all.iter().all(|row| text::width(row) <= 1));
    assert!(
        all.concat().ends_with("[ command ]l<U+4F60><U+0E33>"),
        "{all:?}"
    );
}

#[test]
fn the_form_follows_the_screen() {
    for (columns, rows, form) in [
        (40, 6, Form::Full),
        (39, 6, Form::Compact),
        (40, 5, Form::Compact),
        (1, 1, Form::Compact),
    ] {
        assert_eq!(Form::of(columns, rows), form);
    }
    let mut review = review(&payload("ls", &[]));
    review.lay_out(0, Form::Compact, []);
    assert_eq!((review.rows(), review.row(0)), (0, None));
    let ask = payload("ls", &[("content", "x")]);
    assert_eq!(laid_out(&ask, 40, Form::Full).core_rows(), 3);
    assert_eq!(laid_out(&payload("ls", &[]), 40, Form::Full).core_rows(), 3);
}

#[test]
fn lines_of_a_diff_have_their_class() {
    let ask = payload(
        "src/a.rs",
        &[(
            "diff",
            "--- a/a.rs\n+++ b/a.rs\n@@ -1,2 +1,2 @@\n-old\n+new\n same",
        )],
    );
    for form in [Form::Full, Form::Compact] {
        let review = laid_out(&ask, 40, form);
        let last = review.rows() - 4..review.rows();
        let classes: Vec<Class> = last.map(|row| review.row(row).unwrap().class).collect();
        assert_eq!(
            classes,
            [Class::Place, Class::Removed, Class::Added, Class::Text]
        );
    }
}

#[test]
fn what_is_searched_for_is_found_in_either_form_and_marked_where_it_stands() {
    let ask = payload(
        "ls",
        &[(
            "content",
            &format!("{}Rm -rf x\nnone\nrm -rf y", "a".repeat(74)),
        )],
    );
    for form in [Form::Full, Form::Compact] {
        let mut review = laid_out(&ask, 40, form);
        assert_eq!(review.search("rm -RF"), 2);
        assert_eq!(review.found(), Some(2));
        let first = review.found_from(0).unwrap();
        let second = review.found_from(first + 1).unwrap();
        assert!(first < second);
        assert_eq!(review.found_from(second + 1), Some(first));
        assert_eq!(review.found_before(second), Some(first));
        assert_eq!(review.found_before(first), Some(second));
        let marked = |number: usize| -> String {
            let row = review.row(number).unwrap();
            row.found
                .iter()
                .map(|found| &row.text[found.clone()])
                .collect()
        };
        let whole = marked(first) + &marked(first + 1);
        let expected = match form {
            Form::Full => "Rm -rf",
            Form::Compact => "Rm<U+0020>-rf",
        };
        assert_eq!(whole, expected);
        assert_eq!(review.search("x\nnone"), 0, "no text stands across lines");
        assert_eq!(review.search(""), 0);
        assert_eq!(review.found(), None);
    }
}

#[test]
fn another_width_shows_the_same_place() {
    let text: Vec<String> = (0..2_000)
        .map(|line| format!("line {line} {}", "x".repeat(line % 90)))
        .collect();
    let ask = payload("ls", &[("content", &text.join("\n"))]);
    let mut review = laid_out(&ask, 80, Form::Full);
    review.search("line 1500");
    let mut top = review.found_from(0).unwrap();
    for (columns, form) in [
        (41, Form::Full),
        (30, Form::Compact),
        (1, Form::Compact),
        (80, Form::Full),
    ] {
        let end = review.rows();
        let moved = review.lay_out(columns, form, [top, end]);
        assert_eq!(moved[1], review.rows());
        top = moved[0];
        assert_eq!(review.found_from(0), Some(top), "{columns} {form:?}");
    }
}

/// The rows that a person sees of a large document are found without the others.
#[test]
fn one_line_of_a_megabyte_is_laid_out_and_shown() {
    for character in ["a", "你"] {
        let text = character.repeat((1 << 20) / character.len());
        let ask = payload("ls", &[("content", &text)]);
        let review = laid_out(&ask, 80, Form::Full);
        let wide = text::width(&text).div_ceil(78);
        assert!(
            review.rows() > wide && review.rows() < wide + 10,
            "{}",
            review.rows()
        );
        assert_eq!(text_below(&review, "content"), text);
    }
}

fn text_of_an_ask() -> impl Strategy<Value = String> {
    "([a \\n\\t\\\\<>│LF]|\\PC|.){0,80}"
}

proptest! {
    #[test]
    fn the_rows_of_a_text_are_exactly_the_text(
        text in text_of_an_ask(),
        columns in 1_usize..60,
        rows in 1_usize..12,
    ) {
        let form = Form::of(columns, rows);
        let ask = payload("ls", &[("content", &text)]);
        let review = laid_out(&ask, columns, form);
        let shown = text_below(&review, "content");
        match form {
            Form::Full => prop_assert_eq!(shown, text::lines(&text).concat()),
            Form::Compact => prop_assert!(!shown.contains([' ', '\\'])),
        }
        for number in 0..review.rows() {
            let row = review.row(number).unwrap();
            prop_assert!(text::width(&row.gutter) + text::width(row.text) <= columns);
        }
        prop_assert_eq!(review.row(review.rows()), None);
    }

    /// Whatever an ask holds: the words that are ours are told from it.
    #[test]
    fn no_text_of_an_ask_passes_for_ours(
        value in text_of_an_ask(),
        label in text_of_an_ask(),
        text in text_of_an_ask(),
        columns in 1_usize..60,
    ) {
        let mut ask = payload(&value, &[(&label, &text)]);
        ask.annotations.push(Annotation { source: label.clone(), text });
        let form = Form::of(columns, 24);
        let review = laid_out(&ask, columns, form);
        for number in 0..review.rows() {
            let row = review.row(number).unwrap();
            match (form, row.class) {
                (Form::Full, Class::Text | Class::Added | Class::Removed | Class::Place) => {
                    prop_assert!(row.gutter.contains(['│', '┊']));
                }
                (Form::Full, Class::Label) => prop_assert!(!row.gutter.is_empty()),
                (Form::Full, Class::Own) => prop_assert_eq!(row.text, ""),
                (Form::Compact, Class::Label | Class::Own) => {}
                (Form::Compact, _) => prop_assert!(!row.text.contains(' ')),
            }
        }
    }
}

//! Identities are held against a second reading of the same rules, by a table of lines and as slow as it likes.

use proptest::prelude::*;
use proptest::strategy::Strategy;

use super::*;

const HEADING: &str = "The following skills provide specialized instructions for specific tasks.";
const LEAD_IN: &str = "Project-specific instructions and guidelines:";

/// The rules by the letter, over a list of lines.
fn by_the_letter(prompt: &str, parent: &str, child: &str) -> String {
    let lines: Vec<&str> = prompt.split('\n').collect();
    let path = parent.replace('\\', "/");
    let last =
        |wanted: &str, top: usize| (0..=top).rev().find(|at| lines.get(*at) == Some(&wanted));
    let above_gap = |at: usize| (0..at).rev().find(|at| !lines[*at].is_empty());
    let end = lines.len() - 1;
    let mut is_section = false;
    let footer = last(&format!("Current working directory: {path}"), end);
    let tail = if let Some(footer) = footer {
        let catalogue = footer
            .checked_sub(1)
            .filter(|at| lines[*at] == "</available_skills>");
        Some(catalogue.and_then(|at| last(HEADING, at)).unwrap_or(footer))
    } else {
        let section = (0..=end).rev().find(|at| {
            lines[*at] == "<cwd>"
                && lines.get(at + 1) == Some(&path.as_str())
                && lines.get(at + 2) == Some(&"</cwd>")
        });
        is_section = section.is_some();
        match section {
            Some(section) => Some(
                above_gap(section)
                    .filter(|at| lines[*at] == "</skills>")
                    .and_then(|at| last("<skills>", at))
                    .filter(|at| lines[at + 1] == HEADING)
                    .unwrap_or(section),
            ),
            None => last("</available_skills>", end).and_then(|at| last(HEADING, at)),
        }
    };
    let Some(mut cut) = tail else {
        return prompt.to_owned();
    };
    if parent != child
        && let Some(close) = above_gap(cut).filter(|at| lines[*at] == "</project_context>")
        && let Some(open) = (0..=close).rev().find(|at| {
            lines[*at] == "<project_context>"
                && (lines.get(at + 1) == Some(&LEAD_IN) || lines.get(at + 2) == Some(&LEAD_IN))
        })
    {
        cut = open;
    }
    let mut head: Vec<&str> = lines[..cut].to_vec();
    if is_section {
        excise_by_the_letter(&mut head);
    }
    head.join("\n")
        .trim_end_matches(|c: char| (c.is_whitespace() && c != '\u{85}') || c == '\u{feff}')
        .to_owned()
}

fn excise_by_the_letter(head: &mut Vec<&str>) {
    const BELOW: [&str; 5] = [
        "<docs>",
        "<addendum>",
        "<project_context>",
        "<skills>",
        "<cwd>",
    ];
    let first = |wanted: &str, from: usize| (from..head.len()).find(|at| head[*at] == wanted);
    let bound = (0..head.len())
        .find(|at| BELOW.contains(&head[*at]))
        .unwrap_or(head.len());
    let Some(tools) = first("<tools>", 0).filter(|at| *at < bound) else {
        return;
    };
    let Some(tools_end) = first("</tools>", tools).filter(|at| *at < bound) else {
        return;
    };
    if head.get(tools_end + 1) != Some(&"") || head.get(tools_end + 2) != Some(&"<rules>") {
        return;
    }
    let Some(rules_end) = first("</rules>", tools_end + 2).filter(|at| *at < bound) else {
        return;
    };
    let with_gap = head.get(rules_end + 1) == Some(&"");
    head.drain(tools..=rules_end + usize::from(with_gap));
}

fn identity_of(prompt: &str, parent: &str, child: &str) -> String {
    let directories = Directories {
        parent: parent.as_bytes(),
        child: child.as_bytes(),
    };
    let identity = inherit(prompt.as_bytes(), &directories);
    assert_eq!(identity.to_vec().len(), identity.len());
    String::from_utf8(identity.to_vec()).unwrap()
}

/// Lines that the rules look for, and some that only nearly are.
fn line() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => Just(String::new()),
        1 => Just("You are Pip.".to_owned()),
        1 => "[ab<> \u{a0}\u{feff}]{0,3}",
        8 => prop::sample::select(vec![
            "<tools>", "</tools>", "<rules>", "</rules>", "<docs>", "</docs>", "<addendum>", "</addendum>",
            "<project_context>", "</project_context>", LEAD_IN, "<skills>", "</skills>", HEADING,
            "<available_skills>", "</available_skills>", "<cwd>", "/p/a", "</cwd>", " <cwd>", "<tools>\r", "</cwd> ",
            "Current working directory: /p/a", "Current working directory: /p/ab",
        ]).prop_map(str::to_owned),
    ]
}

/// Sections in the order of the host, each there or not: most prompts that are made of single lines are none.
fn assembled() -> impl Strategy<Value = String> {
    let maybe = |text: &'static str| prop::option::weighted(0.6, Just(text));
    let context = "<project_context>\nProject-specific instructions and guidelines:\n\n/p/a/N says\n</project_context>";
    let skills = "<skills>\nThe following skills provide specialized instructions for specific tasks.\nx\n</skills>";
    (
        prop::collection::vec(line(), 0..3),
        maybe("<tools>\n- a\n</tools>\n\n<rules>\n- r\n</rules>"),
        maybe("<docs>\nD\n</docs>"),
        prop::option::weighted(0.4, prop::collection::vec(line(), 0..6)),
        maybe(context),
        maybe(skills),
        maybe("<cwd>\n/p/a\n</cwd>"),
        prop::option::weighted(0.2, prop::collection::vec(line(), 0..4)),
    )
        .prop_map(|(head, pair, docs, addendum, context, skills, cwd, rest)| {
            let head = head.join("\n");
            let addendum =
                addendum.map(|lines| format!("<addendum>\n{}\n</addendum>", lines.join("\n")));
            let rest = rest.map(|lines| lines.join("\n"));
            [
                Some(head.as_str()),
                pair,
                docs,
                addendum.as_deref(),
                context,
                skills,
                cwd,
                rest.as_deref(),
            ]
            .into_iter()
            .flatten()
            .collect::<Vec<_>>()
            .join("\n\n")
        })
}

fn prompt() -> impl Strategy<Value = String> {
    prop_oneof![
        prop::collection::vec(line(), 0..24).prop_map(|lines| lines.join("\n")),
        assembled(),
    ]
}

/// Whether each of `kept` is one of `all`, in the same order.
fn is_subsequence(kept: &[&[u8]], all: &[&[u8]]) -> bool {
    let mut all = all.iter();
    kept.iter().all(|line| all.any(|other| other == line))
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 20_000, ..ProptestConfig::default() })]

    #[test]
    fn both_readings_agree(prompt in prompt(), elsewhere: bool) {
        let child = if elsewhere { "/p/b" } else { "/p/a" };
        prop_assert_eq!(identity_of(&prompt, "/p/a", child), by_the_letter(&prompt, "/p/a", child));
    }

    #[test]
    fn what_is_kept_are_lines_of_the_prompt_in_their_order(prompt in prompt(), elsewhere: bool) {
        let child = if elsewhere { "/p/b" } else { "/p/a" };
        let identity = identity_of(&prompt, "/p/a", child);
        prop_assert!(identity.len() <= prompt.len());
        let all: Vec<&[u8]> = prompt.as_bytes().split(|byte| *byte == b'\n').collect();
        let mut kept: Vec<&[u8]> = identity.as_bytes().split(|byte| *byte == b'\n').collect();
        // The last line may have lost white space.
        let last = kept.pop().unwrap_or_default();
        prop_assert!(is_subsequence(&kept, &all));
        prop_assert!(all.iter().any(|line| line.starts_with(last)));
    }

    #[test]
    fn any_bytes_come_to_an_end(bytes in prop::collection::vec(any::<u8>(), 0..300), parent in prop::collection::vec(any::<u8>(), 0..4)) {
        let directories = Directories { parent: &parent, child: b"" };
        let identity = inherit(&bytes, &directories);
        prop_assert!(identity.len() <= bytes.len());
        prop_assert!(identity.shared <= identity.len());
        let text = identity.to_vec();
        prop_assert_eq!(bytes.get(..identity.shared), text.get(..identity.shared));
    }

    #[test]
    fn a_parent_with_the_pair_and_one_without_give_the_same(
        preamble in "[a-zA-Z .]{1,20}",
        tools in prop::collection::vec("[- a-z]{0,8}", 0..4),
        rest in prop::collection::vec(prop::sample::select(vec![
            "<docs>\nD\n</docs>", "<addendum>\n<tools>\nx\n</tools>\n\n<rules>\n</rules>\n</addendum>",
            "<project_context>\nProject-specific instructions and guidelines:\n\n/p/a/N\n</project_context>",
        ]), 0..3),
        elsewhere: bool,
    ) {
        let child = if elsewhere { "/p/b" } else { "/p/a" };
        let pair = format!("<tools>\n{}\n</tools>\n\n<rules>\n- r\n</rules>", tools.join("\n"));
        let cwd = "<cwd>\n/p/a\n</cwd>";
        let with = [&[preamble.as_str(), &pair], rest.as_slice(), &[cwd]].concat().join("\n\n");
        // A lone `<tools>` in the addendum of the one without would be a pair that somebody quotes below the bound.
        let without = [&[preamble.as_str()], rest.as_slice(), &[cwd]].concat().join("\n\n");
        prop_assert_eq!(identity_of(&with, "/p/a", child), identity_of(&without, "/p/a", child));
    }

    #[test]
    fn a_second_time_changes_nothing_where_no_anchor_is_left(prompt in prompt(), elsewhere: bool) {
        let child = if elsewhere { "/p/b" } else { "/p/a" };
        let once = identity_of(&prompt, "/p/a", child);
        let directories = Directories { parent: b"/p/a", child: child.as_bytes() };
        let twice = inherit(once.as_bytes(), &directories);
        if twice.tail.is_none() {
            prop_assert_eq!(twice.to_vec(), once.into_bytes());
        }
    }
}

#[test]
fn a_directory_that_no_line_can_state_matches_none() {
    let prompt = "P\n<cwd>\n/a\n/b\n</cwd>\nCurrent working directory: /a\n/b";
    assert_eq!(identity_of(prompt, "/a\n/b", "/c"), prompt);
}

#[test]
fn bytes_that_are_no_text_are_kept() {
    let prompt = b"P \xff\0\n\n<tools>\n\xfe\n</tools>\n\n<rules>\n</rules>\n\n\xc3 tail\xa0\n\n<cwd>\n/p/\xe9\n</cwd>\n";
    let directories = Directories {
        parent: b"/p/\xe9",
        child: b"/p/\xe9",
    };
    let identity = inherit(prompt, &directories);
    assert_eq!(identity.to_vec(), b"P \xff\0\n\n\xc3 tail\xa0");
    assert!(matches!(identity.excision, Excision::Done(_)));
    assert_eq!(identity.shared, b"P \xff\0\n\n".len());
}

#[test]
fn the_report_tells_what_was_done() {
    let prompt = format!(
        "P\n\n<tools>\n</tools>\n\n<rules>\n</rules>\n\n<docs>\nD\n</docs>\n\n<project_context>\n{LEAD_IN}\n</project_context>\n\n\
         <skills>\n{HEADING}\n</skills>\n\n<cwd>\n/p/a\n</cwd>"
    );
    let directories = Directories {
        parent: b"/p/a",
        child: b"/p/b",
    };
    let identity = inherit(prompt.as_bytes(), &directories);
    let tail = identity.tail.unwrap();
    assert_eq!(
        (tail.shape, tail.cut_at),
        (Shape::Section, CutAt::ProjectContext)
    );
    assert_eq!(line_number(prompt.as_bytes(), tail.anchor), 21);
    assert_eq!(line_number(prompt.as_bytes(), tail.cut), 13);
    assert_eq!(identity.excision, Excision::Done(3..39));
    assert_eq!(identity.to_vec(), b"P\n\n<docs>\nD\n</docs>");
    // The preamble, the gap, and the bracket that both sections begin with.
    assert_eq!(identity.shared, 4);
}

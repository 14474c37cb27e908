//! Writes rules into the text of a configuration, and leaves everything else of it as it is: comments, blanks, order.
//!
//! New patterns go behind the last one of their surface, where they have the last word. A surface that has one verdict becomes a
//! map whose pattern `*` has that verdict; a surface, or the whole map of rules, that is missing is added behind the others. What
//! the new rules allow together with the old ones is not looked at here.
//!
//! # Invariants
//!
//! * What comes out is read as what went in, with exactly these patterns more.

use std::ops::Range;

use super::config::ConfigError;
use super::json::{At, Member, Node, Position, Value, decode, parse};
use super::{Config, MAX_CONFIG_BYTES};
use crate::presentation::text::has_hidden;

/// Patterns that are to be allowed on one surface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewRules {
    /// The surface key.
    pub surface: String,
    /// The patterns.
    pub patterns: Vec<NewRule>,
}

/// One pattern that is to be allowed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewRule {
    /// The pattern.
    pub pattern: String,
    /// Lines of a comment that stand before it. They hold no line break.
    pub comments: Vec<String>,
}

/// How deep a step of the layout is where there is nothing to copy it from.
const STEP: &str = "  ";

impl Config {
    /// The text of a configuration with these rules more. `text` must be one that is read; an empty one stands for no file.
    pub fn with_rules(text: &str, label: &str, rules: &[NewRules]) -> Result<String, ConfigError> {
        let text = if text.is_empty() { "{}\n" } else { text };
        let failed = |position, problem: super::JsonProblem| ConfigError {
            label: label.to_owned(),
            position,
            problem: problem.into(),
        };
        decode(text.as_bytes(), MAX_CONFIG_BYTES)
            .map_err(|(position, problem)| failed(position, problem))?;
        let root = parse(text)
            .map_err(|At { offset, problem }| failed(Position::of(text, offset), problem))?;
        let mut editor = Editor {
            text,
            newline: if text.contains("\r\n") { "\r\n" } else { "\n" },
            edits: Vec::new(),
        };
        editor.root(&root, rules);
        Ok(editor.applied())
    }
}

/// One member that is to be added: lines without their indentation.
type Lines = Vec<String>;

struct Editor<'t> {
    text: &'t str,
    newline: &'static str,
    /// What takes the place of which bytes. They do not overlap.
    edits: Vec<(Range<usize>, String)>,
}

impl Editor<'_> {
    fn root(&mut self, root: &Node, rules: &[NewRules]) {
        let rules: Vec<&NewRules> = rules
            .iter()
            .filter(|rules| !rules.patterns.is_empty())
            .collect();
        let Some(permission) = member(root, "permission") else {
            if !rules.is_empty() {
                let surfaces = rules.iter().map(|rules| surface(rules)).collect();
                self.add(root, vec![object("permission", surfaces)]);
            }
            return;
        };
        let mut added = Vec::new();
        for rules in rules {
            match member(permission, &rules.surface) {
                None => added.push(surface(rules)),
                Some(node) => match &node.value {
                    Value::Object(_) => self.add(node, rules.patterns.iter().map(lines).collect()),
                    Value::Text(_)
                    | Value::Null
                    | Value::True
                    | Value::False
                    | Value::Number(_)
                    | Value::Array(_) => self.widen(node, rules),
                },
            }
        }
        if !added.is_empty() {
            self.add(permission, added);
        }
    }

    /// Makes a map of one verdict.
    fn widen(&mut self, verdict: &Node, rules: &NewRules) {
        let range = verdict.offset..verdict.end;
        let said = self.text.get(range.clone()).unwrap_or_default();
        let mut members: Vec<Lines> = vec![vec![format!("\"*\": {said}")]];
        members.extend(rules.patterns.iter().map(lines));
        let indent = self.indent_at(verdict.offset);
        let inner = format!("{indent}{STEP}");
        let map = format!(
            "{{{}{}{}{indent}}}",
            self.newline,
            self.block(members, &inner),
            self.newline
        );
        self.edits.push((range, map));
    }

    /// Adds members behind the last one of an object.
    fn add(&mut self, to: &Node, members: Vec<Lines>) {
        let Value::Object(there) = &to.value else {
            return;
        };
        let closing = to.end.saturating_sub(1);
        let behind = there.last().map_or(to.offset + 1, |last| last.node.end);
        let between = self.text.get(behind..closing).unwrap_or_default();
        // What stands there, up to the blanks before the bracket, stays: it may be comments.
        let kept = behind + between.trim_end().len();
        let outer = self.indent_at(closing);
        let own_line = there.last().and_then(|last| self.own_indent(last));
        let inner = own_line.unwrap_or_else(|| format!("{outer}{STEP}"));
        let block = self.block(members, &inner);
        if !there.is_empty() {
            self.edits.push((behind..behind, ",".to_owned()));
        }
        self.edits.push((
            kept..closing,
            format!("{}{block}{}{outer}", self.newline, self.newline),
        ));
    }

    /// Members with their commas, each line indented.
    fn block(&self, members: Vec<Lines>, indent: &str) -> String {
        let count = members.len();
        let mut all = Vec::new();
        for (at, mut lines) in members.into_iter().enumerate() {
            if at + 1 < count
                && let Some(last) = lines.last_mut()
            {
                last.push(',');
            }
            all.extend(lines.into_iter().map(|line| format!("{indent}{line}")));
        }
        all.join(self.newline)
    }

    /// What the line of this byte is indented with.
    fn indent_at(&self, offset: usize) -> String {
        let before = self.text.get(..offset).unwrap_or_default();
        let start = before.rfind('\n').map_or(0, |at| at + 1);
        let line = self.text.get(start..).unwrap_or_default();
        let length = line.len() - line.trim_start_matches([' ', '\t']).len();
        line.get(..length).unwrap_or_default().to_owned()
    }

    /// The indentation of a member that is the first of its line.
    fn own_indent(&self, member: &Member) -> Option<String> {
        let before = self.text.get(..member.offset).unwrap_or_default();
        let start = before.rfind('\n')? + 1;
        let indent = before.get(start..)?;
        indent
            .chars()
            .all(|c| matches!(c, ' ' | '\t'))
            .then(|| indent.to_owned())
    }

    fn applied(mut self) -> String {
        self.edits
            .sort_by_key(|(range, _)| (range.start, range.end));
        let mut out = String::with_capacity(self.text.len() + 1024);
        let mut at = 0;
        for (range, new) in self.edits {
            out.push_str(self.text.get(at..range.start).unwrap_or_default());
            out.push_str(&new);
            at = range.end;
        }
        out.push_str(self.text.get(at..).unwrap_or_default());
        out
    }
}

fn member<'n>(node: &'n Node, key: &str) -> Option<&'n Node> {
    let Value::Object(members) = &node.value else {
        return None;
    };
    let found = members.iter().find(|member| member.key == key);
    found.map(|member| &member.node)
}

/// `text` as JSON. What a reader could not see is written as its code: a rule is read before it is taken.
fn quoted(text: &str) -> String {
    let json = serde_json::Value::from(text).to_string();
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        if c == '\u{7f}' || (!c.is_ascii() && has_hidden(c.encode_utf8(&mut [0; 4]))) {
            let mut units = [0; 2];
            let units = c.encode_utf16(&mut units).iter();
            out.extend(units.map(|unit| format!("\\u{unit:04x}")));
        } else {
            out.push(c);
        }
    }
    out
}

fn lines(rule: &NewRule) -> Lines {
    let comments = rule.comments.iter().map(|comment| {
        // A line break would end the comment.
        let comment: String = comment.chars().filter(|c| !c.is_control()).collect();
        format!("// {comment}")
    });
    comments
        .chain([format!("{}: \"allow\"", quoted(&rule.pattern))])
        .collect()
}

fn surface(rules: &NewRules) -> Lines {
    object(&rules.surface, rules.patterns.iter().map(lines).collect())
}

/// A member whose value is an object, on lines of its own.
fn object(key: &str, members: Vec<Lines>) -> Lines {
    let count = members.len();
    let mut all = vec![format!("{}: {{", quoted(key))];
    for (at, mut lines) in members.into_iter().enumerate() {
        if at + 1 < count
            && let Some(last) = lines.last_mut()
        {
            last.push(',');
        }
        all.extend(lines.into_iter().map(|line| format!("{STEP}{line}")));
    }
    all.push("}".to_owned());
    all
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::policy::{PermissionMap, SurfaceRules, Verdict};

    fn rules(surface: &str, patterns: &[&str]) -> NewRules {
        NewRules {
            surface: surface.to_owned(),
            patterns: patterns
                .iter()
                .map(|pattern| NewRule {
                    pattern: (*pattern).to_owned(),
                    comments: Vec::new(),
                })
                .collect(),
        }
    }

    fn with(text: &str, new: &[NewRules]) -> String {
        Config::with_rules(text, "c.json", new).unwrap()
    }

    #[test]
    fn patterns_go_behind_the_last_one_with_its_layout() {
        let text = "{\n  // mine\n  \"permission\": {\n    \"bash\": {\n        \"*\": \"ask\", // all\n        \"ls *\": \"allow\" // harmless\n        /* no more */\n    }, // end\n    \"read\": \"allow\"\n  }\n}\n";
        let mut new = rules("bash", &["make", "git \"a\""]);
        new.patterns[0].comments = vec!["approved 3 times".to_owned()];
        assert_eq!(
            with(text, &[new]),
            "{\n  // mine\n  \"permission\": {\n    \"bash\": {\n        \"*\": \"ask\", // all\n        \"ls *\": \"allow\", // harmless\n        /* no more */\n        // approved 3 times\n        \"make\": \"allow\",\n        \"git \\\"a\\\"\": \"allow\"\n    }, // end\n    \"read\": \"allow\"\n  }\n}\n"
        );
    }

    #[test]
    fn what_is_missing_is_added_and_a_verdict_becomes_a_map() {
        for (text, wanted) in [
            (
                "",
                "{\n  \"permission\": {\n    \"bash\": {\n      \"make\": \"allow\"\n    }\n  }\n}\n",
            ),
            (
                "{}",
                "{\n  \"permission\": {\n    \"bash\": {\n      \"make\": \"allow\"\n    }\n  }\n}",
            ),
            (
                "{ \"yoloMode\": false }\n",
                "{ \"yoloMode\": false,\n  \"permission\": {\n    \"bash\": {\n      \"make\": \"allow\"\n    }\n  }\n}\n",
            ),
            (
                "{\"permission\": {\"bash\": \"ask\"}}",
                "{\"permission\": {\"bash\": {\n  \"*\": \"ask\",\n  \"make\": \"allow\"\n}}}",
            ),
            (
                "{\"permission\": {\"bash\": {\"*\": \"ask\" /* x */ }}}",
                "{\"permission\": {\"bash\": {\"*\": \"ask\", /* x */\n  \"make\": \"allow\"\n}}}",
            ),
            (
                "{\r\n\t\"permission\": {\r\n\t\t\"read\": \"ask\"\r\n\t}\r\n}\r\n",
                "{\r\n\t\"permission\": {\r\n\t\t\"read\": \"ask\",\r\n\t\t\"bash\": {\r\n\t\t  \"make\": \"allow\"\r\n\t\t}\r\n\t}\r\n}\r\n",
            ),
        ] {
            assert_eq!(with(text, &[rules("bash", &["make"])]), wanted);
        }
        assert_eq!(with("{}", &[rules("bash", &[])]), "{}");
    }

    #[test]
    fn what_cannot_be_seen_is_written_as_its_code() {
        let hidden = "a\u{202e}b\u{9b}c\u{200b}d\u{7f}e\u{e0041}";
        let after = with("{}", &[rules(hidden, &[hidden, "\u{e4} \u{1f600}"])]);
        let code = "\"a\\u202eb\\u009bc\\u200bd\\u007fe\\udb40\\udc41\": ";
        assert_eq!(after.matches(code).count(), 2, "{after}");
        assert!(after.contains("\"\u{e4} \u{1f600}\": \"allow\""), "{after}");
        let read = Config::read(after.as_bytes(), "c").unwrap();
        let all = flat(&read.permission);
        assert_eq!(
            all[0],
            (hidden.to_owned(), hidden.to_owned(), Verdict::Allow)
        );
    }

    #[test]
    fn what_is_no_configuration_is_not_touched() {
        let error = Config::with_rules("{\"a\": }", "c.json", &[]).unwrap_err();
        assert_eq!(error.to_string(), "c.json:1:7: expected a value, found '}'");
    }

    /// A configuration as somebody might have written it.
    fn layout() -> impl Strategy<Value = String> {
        let blank = proptest::sample::select(
            &["", " ", "\n", "\n  ", " // c }\n", "/* \" */", "\r\n\t"][..],
        );
        let value = proptest::sample::select(
            &[
                "\"ask\"",
                "\"deny\"",
                "{@}",
                "{@\"*\"@:@\"ask\"@}",
                "{@\"a\":\"ask\"@,@\"b c\"@:@{\"action\":\"deny\"}@}",
            ][..],
        );
        let surfaces = vec(
            (
                proptest::sample::select(&["bash", "read", "x\\u0041"][..]),
                value,
            ),
            0..4,
        );
        (surfaces, vec(blank, 60)).prop_map(|(surfaces, blanks)| {
            let mut seen = Vec::new();
            let mut members = Vec::new();
            for (surface, value) in surfaces {
                if !seen.contains(&surface) {
                    seen.push(surface);
                    members.push(format!("@\"{surface}\"@:@{value}@"));
                }
            }
            let mut text = String::new();
            let mut next = blanks.iter().cycle();
            for c in format!("@{{@\"permission\":{{{}}}@}}@", members.join(",")).chars() {
                match c {
                    '@' => text.push_str(next.next().unwrap()),
                    other => text.push(other),
                }
            }
            text
        })
    }

    fn flat(map: &PermissionMap) -> Vec<(String, String, Verdict)> {
        let all = map
            .surfaces
            .iter()
            .flat_map(|(surface, rules)| match rules {
                SurfaceRules::Whole(verdict) => vec![(surface.clone(), "*".to_owned(), *verdict)],
                SurfaceRules::Patterns(rules) => rules
                    .iter()
                    .map(|rule| (surface.clone(), rule.pattern.clone(), rule.verdict))
                    .collect(),
            });
        all.collect()
    }

    proptest! {
        #[test]
        fn what_comes_out_is_read_with_exactly_these_rules_more(
            text in layout(), patterns in vec("[x-z \"\\\\]{3}", 1..4), surface in proptest::sample::select(&["bash", "xA", "new"][..]),
        ) {
            let before = flat(&Config::read(text.as_bytes(), "c").unwrap().permission);
            let mut patterns: Vec<&str> = patterns.iter().map(String::as_str).collect();
            patterns.sort_unstable();
            patterns.dedup();
            let after = with(&text, &[rules(surface, &patterns)]);
            let read = Config::read(after.as_bytes(), "c");
            prop_assert!(read.is_ok(), "{:?} in\n{after}", read);
            let mut after = flat(&read.unwrap().permission);
            let added: Vec<_> = patterns
                .iter()
                .map(|pattern| (surface.to_owned(), (*pattern).to_owned(), Verdict::Allow))
                .collect();
            // They are the last of their surface, and nothing else has moved.
            let last: Vec<_> = after.iter().filter(|(of, _, _)| of == surface).cloned().collect();
            prop_assert!(last.ends_with(&added));
            after.retain(|rule| !added.contains(rule));
            prop_assert_eq!(after, before);
        }
    }
}

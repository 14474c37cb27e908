//! The path that a host opens, of the text that it is told.
//!
//! A rule is held against a path, and a text is not always the path that it looks like: one host expands `~`, another decodes URLs, a
//! third takes the `@` off that models put before a file. What is judged and shown is what would be opened. The text as it came is held
//! against the rules as well, where it can only hold the call back.
//!
//! A text of which it is not certain what would be opened is [`Opened::Unclear`]: that is outside of every directory, and no rule allows it.
//!
//! What each host does was read from the versions that docs/hosts.md names. opencode and Codex join the text to the directory that they
//! work in, as it is.

use serde_json::Value;

use super::ToolCall;
use super::call::{PATH_MEMBERS, file_surface};
use super::hook::Host;
use crate::wire::Evidence;

/// What a host makes of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Opened {
    /// The path that it opens, which may be relative.
    At(String),
    /// It cannot be said.
    Unclear,
}

/// A path that a call was told in another way than as the path that is opened.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Told {
    /// As it was told.
    pub(super) text: String,
    /// What is opened; `None` where that is not certain.
    pub(super) opened: Option<String>,
}

impl ToolCall {
    /// Puts what this host opens in the place of what the call was told. `home`: the host's home directory, where it is known.
    /// `is_there`: whether anything can be opened by this path, which some hosts look at first.
    ///
    /// Of a tool that nobody knows it is not known either what it opens; there the path that it would be is one more that rules are
    /// held against.
    pub fn open_as(&mut self, host: Host, home: Option<&str>, is_there: impl Fn(&str) -> bool) {
        let is_of_files = file_surface(&self.tool).is_some() && !self.is_of_server();
        let tool = self.tool.clone();
        let Some(members) = self.input.as_object_mut() else {
            return;
        };
        for name in PATH_MEMBERS {
            let Some(Value::String(text)) = members.get_mut(name) else {
                continue;
            };
            if text.trim().is_empty() || self.told.iter().any(|told| told.text == *text) {
                continue;
            }
            let opened = match opened(host, &tool, text, home, &is_there) {
                Opened::At(path) if path == *text => continue,
                Opened::At(path) => Some(path),
                Opened::Unclear => None,
            };
            let is = match &opened {
                Some(path) => format!("{text}, which is {path}"),
                None => format!(
                    "{text}, and it is not certain which file {} opens then",
                    host.name()
                ),
            };
            self.evidence.push(Evidence {
                label: "path as told".to_owned(),
                text: is,
                detail: None,
            });
            self.told.push(Told {
                text: text.clone(),
                opened: opened.clone(),
            });
            if let (Some(path), true) = (opened, is_of_files) {
                *text = path;
            }
        }
    }
}

fn opened(
    host: Host,
    tool: &str,
    text: &str,
    home: Option<&str>,
    is_there: &impl Fn(&str) -> bool,
) -> Opened {
    if text.contains('\0') {
        return Opened::Unclear;
    }
    match host {
        Host::Pi => {
            let opened = by_pi(text, home);
            // Reading, it tries other spellings of what is not there.
            let is_varied = |path: &str| tool == "read" && has_variants(path) && !is_there(path);
            if matches!(&opened, Opened::At(path) if is_varied(path)) {
                return Opened::Unclear;
            }
            opened
        }
        Host::ClaudeCode => by_claude_code(text, home),
        Host::Gemini => by_gemini(tool, text, is_there),
        Host::Opencode | Host::Codex => Opened::At(text.to_owned()),
    }
}

/// Blanks of other kinds are blanks, one `@` goes, then `~` is the home directory, then a URL of a file is that file.
fn by_pi(text: &str, home: Option<&str>) -> Opened {
    let is_blank = |c: char| {
        matches!(
            c,
            '\u{a0}' | '\u{2000}'..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{3000}'
        )
    };
    let text = text.replace(is_blank, " ");
    let text = text.strip_prefix('@').unwrap_or(&text);
    if let Some(opened) = below_home(text, home) {
        return opened;
    }
    match text.strip_prefix("file://") {
        Some(rest) => of_url(rest),
        // What is left of an `@` alone.
        None if text.is_empty() => Opened::At(".".to_owned()),
        None => Opened::At(text.to_owned()),
    }
}

/// Blanks around it go, then `~` is the home directory; letters with marks become one character each.
fn by_claude_code(text: &str, home: Option<&str>) -> Opened {
    let text = text.trim_matches(|c: char| c.is_whitespace() || c == '\u{feff}');
    if text.chars().any(may_compose) {
        return Opened::Unclear;
    }
    below_home(text, home).unwrap_or_else(|| Opened::At(text.to_owned()))
}

/// It takes an `@` off what is not there, decodes what is left as if it were part of a URL, and where it is to edit a file that is not
/// there it looks for one of that name.
fn by_gemini(tool: &str, text: &str, is_there: &impl Fn(&str) -> bool) -> Opened {
    let is_searched = tool == "replace" && !text.starts_with('/') && !is_there(text);
    if text.contains('%') || text.starts_with('@') || is_searched {
        return Opened::Unclear;
    }
    Opened::At(text.to_owned())
}

fn below_home(text: &str, home: Option<&str>) -> Option<Opened> {
    let rest = match text.strip_prefix('~')? {
        "" => "",
        rest => rest.strip_prefix('/')?,
    };
    Some(match home.filter(|home| home.starts_with('/')) {
        Some(home) if rest.is_empty() => Opened::At(home.to_owned()),
        Some(home) => Opened::At(format!("{}/{rest}", home.trim_end_matches('/'))),
        None => Opened::Unclear,
    })
}

/// The file of a URL, of which this is all behind `file://`. One that parsers do more with than decode it is not taken apart here.
fn of_url(rest: &str) -> Opened {
    let path = rest.strip_prefix("localhost").unwrap_or(rest);
    let is_odd = |c: char| c.is_control() || matches!(c, '\\' | '?' | '#' | '|');
    if !path.starts_with('/') || path.contains(is_odd) || path.ends_with(char::is_whitespace) {
        return Opened::Unclear;
    }
    let mut bytes = Vec::new();
    let mut parts = path.split('%');
    bytes.extend_from_slice(parts.next().unwrap_or_default().as_bytes());
    for part in parts {
        let code = part
            .get(..2)
            .filter(|code| code.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let byte = code.and_then(|code| u8::from_str_radix(code, 16).ok());
        match (byte, part.get(2..)) {
            (Some(byte), Some(rest)) if byte != b'/' && byte != 0 => {
                bytes.push(byte);
                bytes.extend_from_slice(rest.as_bytes());
            }
            _ => return Opened::Unclear,
        }
    }
    String::from_utf8(bytes).map_or(Opened::Unclear, Opened::At)
}

/// Whether another spelling of this name is tried where nothing has it: with other apostrophes, other blanks, or with marks apart
/// from their letters.
fn has_variants(path: &str) -> bool {
    let lower = path.to_ascii_lowercase();
    !path.is_ascii() || path.contains('\'') || lower.contains(" am.") || lower.contains(" pm.")
}

/// Whether a character may become part of another one, or another one, where a text is composed.
fn may_compose(c: char) -> bool {
    matches!(
        c,
        '\u{300}'..='\u{374}'
            | '\u{37e}'
            | '\u{387}'
            | '\u{483}'..='\u{487}'
            | '\u{591}'..='\u{5c7}'
            | '\u{610}'..='\u{61a}'
            | '\u{64b}'..='\u{670}'
            | '\u{6d6}'..='\u{6ed}'
            | '\u{700}'..='\u{11ff}'
            | '\u{135d}'..='\u{135f}'
            | '\u{1700}'..='\u{1dff}'
            | '\u{1f00}'..='\u{1fff}'
            | '\u{2000}'..='\u{2001}'
            | '\u{20d0}'..='\u{20ff}'
            | '\u{2126}'
            | '\u{212a}'..='\u{212b}'
            | '\u{2329}'..='\u{232a}'
            | '\u{2adc}'
            | '\u{2cef}'..='\u{2dff}'
            | '\u{302a}'..='\u{302f}'
            | '\u{3099}'..='\u{309a}'
            | '\u{a66f}'..='\u{a69f}'
            | '\u{a6f0}'..='\u{a6f1}'
            | '\u{a800}'..='\u{abff}'
            | '\u{d7b0}'..='\u{d7ff}'
            | '\u{f900}'..='\u{faff}'
            | '\u{fb1d}'..='\u{fb4f}'
            | '\u{fe20}'..='\u{fe2f}'
            | '\u{10000}'..='\u{1efff}'
            | '\u{2f800}'..='\u{2fa1f}'
    )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    const HOME: Option<&str> = Some("/home/u");

    fn is(host: Host, tool: &str, text: &str) -> Opened {
        opened(host, tool, text, HOME, &|path| path == "there's")
    }

    fn at(path: &str) -> Opened {
        Opened::At(path.to_owned())
    }

    #[test]
    fn a_path_is_the_one_that_its_host_opens() {
        for (text, path) in [
            ("src/a.rs", "src/a.rs"),
            ("@/etc/hostname", "/etc/hostname"),
            ("@@/etc/hostname", "@/etc/hostname"),
            ("@", "."),
            ("~", "/home/u"),
            ("~/.ssh/id", "/home/u/.ssh/id"),
            ("@~/.ssh/id", "/home/u/.ssh/id"),
            ("~//x", "/home/u//x"),
            ("~other/x", "~other/x"),
            ("a/~/x", "a/~/x"),
            ("file:///etc/hostname", "/etc/hostname"),
            ("@file://localhost/etc/hostname", "/etc/hostname"),
            ("file:///home/u/.%73sh/a%20b", "/home/u/.ssh/a b"),
            ("file:///w/%2e%2e/etc/%C3%A9", "/w/../etc/é"),
            ("FILE:///etc/hostname", "FILE:///etc/hostname"),
            ("a\u{a0}b\u{202f}c\u{3000}d", "a b c d"),
            ("\u{a0}@x", " @x"),
        ] {
            assert_eq!(is(Host::Pi, "write", text), at(path), "{text}");
        }
        for (text, path) in [
            (" ~/.ssh/id\n", "/home/u/.ssh/id"),
            ("\u{feff}/etc/hostname", "/etc/hostname"),
            ("@/etc/hostname", "@/etc/hostname"),
            ("file:///etc/hostname", "file:///etc/hostname"),
            ("caf\u{e9}/\u{65e5}\u{672c}", "caf\u{e9}/\u{65e5}\u{672c}"),
        ] {
            assert_eq!(is(Host::ClaudeCode, "Read", text), at(path), "{text}");
        }
        for host in [Host::Opencode, Host::Codex, Host::Gemini] {
            for text in ["~/x", "file:///etc/hostname", "$HOME/x", " x"] {
                assert_eq!(is(host, "read", text), at(text), "{host:?}");
            }
        }
    }

    #[test]
    fn what_cannot_be_said_is_unclear() {
        for (host, tool, text) in [
            (Host::Pi, "read", "file://other/etc/hostname"),
            (Host::Pi, "read", "file:///etc/%2fhostname"),
            (Host::Pi, "read", "file:///etc/%zz"),
            (Host::Pi, "read", "file:///etc/%"),
            (Host::Pi, "read", "file:///etc/%00"),
            (Host::Pi, "read", "file:///etc/%ff"),
            (Host::Pi, "read", "file:///etc/ho\tst"),
            (Host::Pi, "read", "file:///etc\\host"),
            (Host::Pi, "read", "file:///etc/host?x"),
            (Host::Pi, "read", "file:///etc/host "),
            (Host::Pi, "read", "file://"),
            (Host::Pi, "read", "it's"),
            (Host::Pi, "read", "at 3 PM.png"),
            (Host::Pi, "read", "caf\u{e9}"),
            (Host::Pi, "write", "a\0b"),
            (Host::ClaudeCode, "Read", "cafe\u{301}"),
            (Host::Gemini, "read_file", "%2e%65nv"),
            (Host::Gemini, "read_file", "@/x"),
            (Host::Gemini, "replace", "x"),
        ] {
            assert_eq!(is(host, tool, text), Opened::Unclear, "{host:?} {text:?}");
        }
        for (tool, text) in [
            ("read", "there's"),
            ("write", "it's"),
            ("edit", "caf\u{e9}"),
        ] {
            assert_eq!(is(Host::Pi, tool, text), at(text));
        }
        for home in [None, Some(""), Some("u")] {
            let found = opened(Host::Pi, "read", "~/x", home, &|_| true);
            assert_eq!(found, Opened::Unclear);
        }
        assert_eq!(is(Host::Gemini, "replace", "there's"), at("there's"));
    }

    fn call(host: Host, tool: &str, input: Value) -> ToolCall {
        let mut call = ToolCall::new(tool, input, "/w");
        call.open_as(host, HOME, |_| true);
        call
    }

    fn guards(call: &ToolCall) -> Vec<(String, String)> {
        let is_outside = |path: &str| path.starts_with('/');
        let guards = call.guards(&call.asked(), is_outside).into_iter();
        guards.map(|guard| (guard.surface, guard.value)).collect()
    }

    fn pairs<const N: usize>(pairs: [(&str, &str); N]) -> Vec<(String, String)> {
        pairs.map(|(a, b)| (a.to_owned(), b.to_owned())).to_vec()
    }

    #[test]
    fn what_is_opened_is_asked_about_and_the_text_as_it_came_can_hold_it_back() {
        let call = call(Host::Pi, "read", json!({"path": "@/etc/hostname"}));
        assert_eq!(call.asked().value, "/etc/hostname");
        assert_eq!(
            guards(&call),
            pairs([
                ("path_read", "/etc/hostname"),
                ("external_directory_read", "/etc/hostname"),
                ("read", "@/etc/hostname"),
                ("path_read", "@/etc/hostname"),
            ])
        );
        assert_eq!(call.floor(), None);
        let shown = call.evidence.first().map(|entry| entry.text.as_str());
        assert_eq!(shown, Some("@/etc/hostname, which is /etc/hostname"));
    }

    #[test]
    fn what_is_unclear_is_outside_and_no_rule_allows_it() {
        let call = call(
            Host::Pi,
            "write",
            json!({"path": "file://x/y", "content": ""}),
        );
        assert_eq!(call.asked().value, "file://x/y");
        assert_eq!(
            guards(&call),
            pairs([
                ("path_write", "file://x/y"),
                ("external_directory_write", "file://x/y"),
            ])
        );
        assert!(call.floor().is_some());
        assert!(!call.looks_at_its_path_only());
    }

    #[test]
    fn of_a_tool_that_nobody_knows_both_are_held_against_rules() {
        let call = call(Host::Pi, "upload", json!({"path": "~/x"}));
        assert_eq!(call.asked().value, "~/x");
        assert_eq!(
            guards(&call),
            pairs([
                ("path", "~/x"),
                ("path", "/home/u/x"),
                ("external_directory", "/home/u/x"),
            ])
        );
    }

    proptest! {
        #[test]
        fn whatever_is_told_nothing_that_begins_otherwise_is_taken_for_a_plain_path(text in "[@~f%./ a-z\u{a0}\u{301}-]{0,12}") {
            for host in [Host::Pi, Host::ClaudeCode] {
                if let Opened::At(path) = is(host, "write", &text) {
                    prop_assert!(!path.starts_with("~/") && path != "~");
                }
            }
        }
    }
}

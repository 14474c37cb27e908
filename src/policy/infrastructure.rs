//! Directories that belong to the host itself, which its agents may read without asking (`piInfrastructureReadPaths`).
//!
//! The operator names them; a requester names none. What lies in one is told component by component: `/opt/pi` holds
//! `/opt/pi/a`, and neither `/opt/pi-private` nor `/opt/pi/../x`. An entry with a wildcard covers whole paths, as a pattern does.
//!
//! This module looks at no file: the path that is asked for was made canonical by whoever asks.

use std::borrow::Cow;

use super::pattern::Pattern;
use crate::wire::{ForwardedAccessIntent, PayloadKind, PromptPayload};

/// Tools that read files and never write any, whoever made them.
const READING_TOOLS: [&str; 10] = [
    "read",
    "find",
    "grep",
    "ls",
    "glob",
    "Read",
    "Grep",
    "Glob",
    "LS",
    "read_file",
];

/// What the operator named.
#[derive(Debug, Clone, Default)]
pub(super) struct Infrastructure {
    entries: Vec<Entry>,
}

#[derive(Debug, Clone)]
enum Entry {
    /// Everything below these components, and the directory itself.
    Directory(Vec<String>),
    /// Every path that this covers.
    Wildcard(Pattern),
}

impl Infrastructure {
    pub(super) fn new(named: &[String], home: Option<&str>) -> Self {
        let entries = named.iter().filter_map(|text| Entry::new(text, home));
        Self {
            entries: entries.collect(),
        }
    }

    /// Whether an ask only reads what lies in one of the directories. Command lines are none: they may touch more than they say.
    pub(super) fn covers(
        &self,
        intent: &ForwardedAccessIntent,
        payload: Option<&PromptPayload>,
    ) -> bool {
        let Some(payload) = payload else { return false };
        let reads = match intent.surface.as_str() {
            "external_directory_read" => true,
            "external_directory" => payload
                .request
                .tool_name
                .as_deref()
                .is_some_and(|tool| READING_TOOLS.contains(&tool)),
            _ => false,
        };
        reads
            && payload.kind == PayloadKind::ExternalDirectory
            && intent.floor.is_none()
            && intent.asking_units.is_none()
            && intent
                .boundary_value
                .as_deref()
                .is_some_and(|path| self.holds(path))
    }

    fn holds(&self, path: &str) -> bool {
        let Some(components) = components(path) else {
            return false;
        };
        self.entries.iter().any(|entry| match entry {
            Entry::Directory(directory) => components.starts_with(directory),
            Entry::Wildcard(pattern) => pattern.matches(path),
        })
    }
}

impl Entry {
    fn new(text: &str, home: Option<&str>) -> Option<Self> {
        if is_wildcard(text) {
            // A home directory stands for itself, whatever characters are in it: the pattern knows.
            return is_rooted(text).then(|| Self::Wildcard(Pattern::compile(text, home)));
        }
        let path = expand_home(text, home)?;
        Some(Self::Directory(components(&path)?))
    }
}

/// The entry with the home directory in the place of `~` or `$HOME`; `None` where nobody knows one.
fn expand_home<'e>(entry: &'e str, home: Option<&str>) -> Option<Cow<'e, str>> {
    match after_home(entry) {
        None => Some(Cow::Borrowed(entry)),
        Some(below) => {
            let home = home.filter(|home| !home.is_empty())?;
            Some(Cow::Owned(format!("{home}/{below}")))
        }
    }
}

/// What follows a leading `~` or `$HOME`.
fn after_home(entry: &str) -> Option<&str> {
    let rest = entry
        .strip_prefix('~')
        .or_else(|| entry.strip_prefix("$HOME"))?;
    (rest.is_empty() || rest.starts_with('/')).then_some(rest)
}

/// Whether an entry can hold anything: it names an absolute directory, and no way up from there.
pub(super) fn is_usable(entry: &str) -> bool {
    is_rooted(entry) && entry.split('/').all(|name| name != "..")
}

fn is_rooted(entry: &str) -> bool {
    entry.starts_with('/') || after_home(entry).is_some()
}

fn is_wildcard(entry: &str) -> bool {
    entry.contains(['*', '?'])
}

/// The components of an absolute path; `None` where it is none, or leads up.
fn components(path: &str) -> Option<Vec<String>> {
    let below = path.strip_prefix('/')?;
    let mut components = Vec::new();
    for name in below.split('/') {
        match name {
            "" | "." => {}
            ".." => return None,
            name => components.push(name.to_owned()),
        }
    }
    Some(components)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(entry: &str, path: &str) -> bool {
        Infrastructure::new(&[entry.to_owned()], Some("/home/m*")).holds(path)
    }

    #[test]
    fn a_directory_holds_what_lies_below_it_and_nothing_beside_it() {
        for (entry, path, held) in [
            ("/opt/pi", "/opt/pi", true),
            ("/opt/pi/", "/opt/pi/lib/a.js", true),
            ("/opt//./pi", "/opt/pi/a", true),
            ("/opt/pi", "/opt/pi-private/a", false),
            ("/opt/pi", "/opt/p", false),
            ("/opt/pi", "/opt/pi/../secret", false),
            ("/opt/pi", "opt/pi/a", false),
            ("/opt/pi", "", false),
            ("/opt/pi/../other", "/opt/other/a", false),
            ("opt/pi", "opt/pi", false),
            ("~/.pi", "/home/m*/.pi/a", true),
            ("$HOME/.pi", "/home/m*/.pi/a", true),
            ("~/.pi", "/home/me/.pi/a", false),
            ("~", "/home/m*/a", true),
            ("~other/x", "/home/m*/x", false),
            ("/", "/anything", true),
            ("/opt/*/node_modules/*", "/opt/a/b/node_modules/c/d", true),
            ("/opt/*/node_modules/*", "/opt/a/../node_modules/c", false),
            ("/opt/?", "/opt/a", true),
            ("/opt/?", "/opt/a/b", false),
            ("*", "/opt/a", false),
            ("~/x*", "/home/m*/xy", true),
        ] {
            assert_eq!(holds(entry, path), held, "{entry} {path}");
        }
        assert!(!Infrastructure::new(&["~/.pi".to_owned()], None).holds("/home/m*/.pi/a"));
        assert!(!Infrastructure::default().holds("/"));
    }

    #[test]
    fn what_can_hold_nothing_is_told_apart() {
        for (entry, usable) in [
            ("/opt/pi", true),
            ("~/.pi", true),
            ("~", true),
            ("$HOME/x*", true),
            ("opt/pi", false),
            ("~other", false),
            ("/opt/../etc", false),
            ("*", false),
        ] {
            assert_eq!(is_usable(entry), usable, "{entry}");
        }
    }
}

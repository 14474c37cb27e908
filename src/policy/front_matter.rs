//! The rules in the front matter of an agent's Markdown file.
//!
//! Only the `permission` map is read, in the small part of YAML that the peer reads: keys and verdicts on lines of their own,
//! nested by indentation, quoted or not, with whole-line comments.
//!
//! ```text
//! ---
//! name: scout
//! permission:
//!   read: allow
//!   bash:
//!     "*": ask
//!     "rm *":
//!       action: deny
//!       reason: "Leave files alone"
//! ---
//! ```
//!
//! A rule may have examples, as in the configuration: lists under `match` and `notMatch`, one value on each line behind a dash.
//!
//! Other keys of the front matter belong to others and are not looked at. What stands in the map, though, is read strictly:
//! where the peer drops a line that it cannot read, and with it perhaps a deny, this reader gives an error, so that the caller
//! can take the whole layer for unreadable.
//!
//! # Invariants
//!
//! * A file without front matter says nothing; a broken, cut off or empty one is an error.
//! * The order of surfaces and patterns is that of the file.

use std::collections::HashSet;
use std::fmt;

use super::config::{ConfigProblem, MAX_CONFIG_BYTES};
use super::examples::Expected;
use super::json::{At, JsonProblem, Places, Position, clip, decode};
use super::nearest::nearest;
use super::permission::{PatternRule, PermissionMap, SurfaceRules};
use super::read;
use super::rules::Verdict;

const FENCE: &str = "---";
const PERMISSION: &str = "permission";

/// The front matter of an agent file, as far as it speaks of permissions.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FrontMatter {
    /// What it says; `None` where it says nothing.
    pub permission: Option<PermissionMap>,
}

/// Front matter that cannot be read. What it would have allowed or denied is not known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FrontMatterError {
    /// Name of the file, as the caller calls it.
    pub label: String,
    /// Where.
    pub position: Position,
    /// What.
    pub problem: FrontMatterProblem,
}

impl fmt::Display for FrontMatterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.label, self.position, self.problem)
    }
}

impl std::error::Error for FrontMatterError {}

/// What is wrong with front matter.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FrontMatterProblem {
    /// The bytes are no text that can be read.
    #[error(transparent)]
    Bytes(#[from] JsonProblem),
    /// What would be wrong in a configuration, too.
    #[error(transparent)]
    Config(#[from] ConfigProblem),
    /// No bytes at all.
    #[error("the file is empty")]
    Empty,
    /// No second `---`.
    #[error("the front matter is never closed with a line of \"---\"")]
    Open,
    /// A tab or another control character.
    #[error("a control character (a tab?) has no place here; indent with spaces")]
    ControlCharacter,
    /// Not `key: value`.
    #[error("expected \"key: value\" or \"key:\" with an indented block below")]
    NotAnEntry,
    /// A quote that does not end.
    #[error("this quote is never closed")]
    OpenQuote,
    /// A line that belongs to no block.
    #[error("this line is indented like none of those above it")]
    Indentation,
    /// A key that stands twice.
    #[error("key {0:?} stands twice")]
    DuplicateKey(String),
    /// A key without a value.
    #[error("{0:?} says nothing; write a verdict behind it, or patterns below it")]
    Nothing(String),
    /// A key with a value and a block.
    #[error("{0:?} has a value and a block; it can have one of them")]
    ValueAndBlock(String),
    /// A value where a block has to be.
    #[error("{0:?} must be a block of indented lines")]
    NotABlock(String),
    /// Something else where a list has to be.
    #[error("{0:?} must be a block of lines that begin with \"- \", one value each")]
    NotAList(String),
    /// A block where a value has to be.
    #[error("{0:?} must have a value on its line")]
    NotAValue(String),
    /// YAML beyond what is read.
    #[error("put this value in quotes; lists on one line, anchors and blocks of text are not read")]
    Yaml,
}

type Found<T> = Result<T, At<FrontMatterProblem>>;

fn wrong<T>(offset: usize, problem: impl Into<FrontMatterProblem>) -> Found<T> {
    Err(At {
        offset,
        problem: problem.into(),
    })
}

fn carried(At { offset, problem }: At<ConfigProblem>) -> At<FrontMatterProblem> {
    At {
        offset,
        problem: problem.into(),
    }
}

impl FrontMatter {
    /// Reads the front matter of the Markdown file that the caller calls `label`.
    pub fn read(bytes: &[u8], label: &str) -> Result<Self, FrontMatterError> {
        let failed = |position, problem| FrontMatterError {
            label: label.to_owned(),
            position,
            problem,
        };
        let text = decode(bytes, MAX_CONFIG_BYTES)
            .map_err(|(position, problem)| failed(position, problem.into()))?;
        front_matter(text, label)
            .map_err(|At { offset, problem }| failed(Position::of(text, offset), problem))
    }
}

fn front_matter(text: &str, label: &str) -> Found<FrontMatter> {
    if text.trim().is_empty() {
        return wrong(0, FrontMatterProblem::Empty);
    }
    let mut lines = lines_of(text);
    if lines
        .next()
        .is_none_or(|(_, first)| first.trim_end() != FENCE)
    {
        return Ok(FrontMatter::default());
    }
    let mut front = Vec::new();
    let mut closed = false;
    for (offset, line) in lines {
        if line.starts_with(FENCE) {
            closed = true;
            break;
        }
        front.push((offset, line));
    }
    if !closed {
        return wrong(text.len(), FrontMatterProblem::Open);
    }
    let Some((offset, block)) = permission_block(&front)? else {
        return Ok(FrontMatter::default());
    };
    if block.is_empty() {
        return wrong(offset, FrontMatterProblem::Nothing(PERMISSION.to_owned()));
    }
    let mut permission = permission_map(&block, &mut Places::new(text))?;
    permission.places.file = Some(label.into());
    Ok(FrontMatter {
        permission: Some(permission),
    })
}

/// Lines with the offset at which they begin, without their ends.
fn lines_of(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.split_inclusive('\n').scan(0, |next, line| {
        let offset = *next;
        *next += line.len();
        let line = line.strip_suffix('\n').unwrap_or(line);
        Some((offset, line.strip_suffix('\r').unwrap_or(line)))
    })
}

fn is_blank(line: &str) -> bool {
    let line = line.trim_start();
    line.is_empty() || line.starts_with('#')
}

/// The lines below the key `permission`, if it is there, and where the key stands.
fn permission_block<'t>(front: &[(usize, &'t str)]) -> Found<Option<(usize, Vec<Entry<'t>>)>> {
    let mut found: Option<(usize, Vec<Entry<'t>>)> = None;
    let mut inside = false;
    for (offset, line) in front.iter().copied().filter(|(_, line)| !is_blank(line)) {
        if line.starts_with([' ', '\t']) {
            if inside && let Some((_, entries)) = &mut found {
                entries.push(Entry::read(offset, line)?);
            }
            continue;
        }
        inside = false;
        // Whatever other keys look like is none of our business, but for those that were meant to be ours.
        let name = line
            .split_once(':')
            .map_or(line, |(name, _)| name)
            .trim()
            .trim_matches(['"', '\'']);
        if name == PERMISSION {
            let entry = Entry::read(offset, line)?;
            if found.is_some() {
                return wrong(offset, FrontMatterProblem::DuplicateKey(clip(name)));
            }
            if entry.value.is_some() {
                return wrong(offset, FrontMatterProblem::NotABlock(clip(name)));
            }
            inside = true;
            found = Some((offset, Vec::new()));
        } else if let Some(near) = nearest(name, &[PERMISSION]) {
            return wrong(
                offset,
                ConfigProblem::UnknownKey {
                    key: clip(name),
                    within: None,
                    nearest: Some(near),
                },
            );
        }
    }
    Ok(found)
}

/// One line `key: value`, or `- value`.
struct Entry<'t> {
    indent: usize,
    /// Nothing of an item of a list.
    key: &'t str,
    is_item: bool,
    offset: usize,
    value: Option<(&'t str, usize)>,
}

impl<'t> Entry<'t> {
    fn read(line_offset: usize, line: &'t str) -> Found<Self> {
        if let Some(at) = line.find(|c: char| c.is_control()) {
            return wrong(line_offset + at, FrontMatterProblem::ControlCharacter);
        }
        let content = line.trim_start_matches(' ');
        let indent = line.len() - content.len();
        let offset = line_offset + indent;
        if let Some(value) = content.strip_prefix("- ") {
            let at = line_offset + line.len() - value.trim_start().len();
            let value = value.trim();
            return Ok(Self {
                indent,
                key: "",
                is_item: true,
                offset,
                value: (!value.is_empty()).then_some((value, at)),
            });
        }
        let quote = content.chars().next().filter(|c| matches!(c, '"' | '\''));
        let (key, rest) = if let Some(quote) = quote {
            let inside = content.get(1..).unwrap_or_default();
            let Some((key, rest)) = inside.split_once(quote) else {
                return wrong(offset, FrontMatterProblem::OpenQuote);
            };
            (key, rest.trim_start())
        } else {
            let (key, rest) = content.split_at(content.find(':').unwrap_or(content.len()));
            (key.trim_end(), rest)
        };
        let Some(value) = rest.strip_prefix(':') else {
            return wrong(offset, FrontMatterProblem::NotAnEntry);
        };
        if !value.is_empty() && !value.starts_with(' ') {
            return wrong(offset, FrontMatterProblem::NotAnEntry);
        }
        let at = line_offset + line.len() - value.trim_start().len();
        let value = value.trim();
        Ok(Self {
            indent,
            key,
            is_item: false,
            offset,
            value: (!value.is_empty()).then_some((value, at)),
        })
    }
}

/// One entry of a block with the lines below it.
type Branch<'b, 't> = (&'b Entry<'t>, &'b [Entry<'t>]);

/// Cuts a block into its entries: all of them indented like the first, everything deeper below one of them.
fn branches<'b, 't>(block: &'b [Entry<'t>]) -> Found<Vec<Branch<'b, 't>>> {
    let mut all = Vec::new();
    let mut seen = HashSet::new();
    let mut rest = block;
    let indent = block.first().map_or(0, |entry| entry.indent);
    while let Some((entry, below)) = rest.split_first() {
        if entry.indent != indent {
            return wrong(entry.offset, FrontMatterProblem::Indentation);
        }
        if entry.is_item {
            return wrong(entry.offset, FrontMatterProblem::NotAnEntry);
        }
        if !seen.insert(entry.key) {
            return wrong(
                entry.offset,
                FrontMatterProblem::DuplicateKey(clip(entry.key)),
            );
        }
        let end = below
            .iter()
            .position(|next| next.indent <= indent)
            .unwrap_or(below.len());
        let (children, behind) = below.split_at(end);
        if entry.value.is_some() && !children.is_empty() {
            return wrong(
                entry.offset,
                FrontMatterProblem::ValueAndBlock(clip(entry.key)),
            );
        }
        if entry.value.is_none() && children.is_empty() {
            return wrong(entry.offset, FrontMatterProblem::Nothing(clip(entry.key)));
        }
        all.push((entry, children));
        rest = behind;
    }
    Ok(all)
}

fn permission_map(block: &[Entry<'_>], places: &mut Places<'_>) -> Found<PermissionMap> {
    let mut map = PermissionMap::default();
    for (surface, below) in branches(block)? {
        read::surface_key(surface.key, surface.offset).map_err(carried)?;
        map.places.surfaces.push(places.of(surface.offset));
        let rules = match surface.value {
            Some((value, offset)) => SurfaceRules::Whole(verdict(value, surface.key, offset)?),
            None => SurfaceRules::Patterns(
                branches(below)?
                    .into_iter()
                    .map(|(pattern, below)| {
                        Ok(PatternRule {
                            position: Some(places.of(pattern.offset)),
                            ..pattern_rule(surface.key, pattern, below)?
                        })
                    })
                    .collect::<Found<_>>()?,
            ),
        };
        map.surfaces.push((surface.key.to_owned(), rules));
    }
    Ok(map)
}

fn pattern_rule(surface: &str, pattern: &Entry<'_>, below: &[Entry<'_>]) -> Found<PatternRule> {
    if pattern.key.is_empty() {
        return wrong(pattern.offset, ConfigProblem::EmptyKey { what: "pattern" });
    }
    let rule = |verdict, reason| PatternRule {
        pattern: pattern.key.to_owned(),
        verdict,
        reason,
        position: None,
    };
    if let Some((value, offset)) = pattern.value {
        return Ok(rule(verdict(value, pattern.key, offset)?, None));
    }
    let (mut action, mut because) = (None, None);
    let mut examples = Vec::new();
    for (member, below) in branches(below)? {
        if let Some((_, expected)) = Expected::KEYS.iter().find(|(key, _)| *key == member.key) {
            for (example, offset) in items(member, below)? {
                examples.push((example, offset, *expected));
            }
            continue;
        }
        let Some((value, offset)) = member.value else {
            return wrong(
                member.offset,
                FrontMatterProblem::NotAValue(clip(member.key)),
            );
        };
        match member.key {
            "action" => action = Some(verdict(value, member.key, offset)?),
            "reason" => {
                let text = scalar(value, offset)?;
                let text = read::reason(text, offset).map_err(carried)?;
                because = Some((text, member.offset));
            }
            other => {
                return wrong(
                    member.offset,
                    ConfigProblem::UnknownKey {
                        key: clip(other),
                        within: Some(clip(pattern.key)),
                        nearest: nearest(other, &read::PATTERN_KEYS),
                    },
                );
            }
        }
    }
    let Some(action) = action else {
        return wrong(
            pattern.offset,
            ConfigProblem::MissingKey {
                key: "action",
                within: clip(pattern.key),
            },
        );
    };
    let rule = rule(action, read::deny_reason(action, because).map_err(carried)?);
    read::check_examples(surface, &rule, &examples).map_err(carried)?;
    Ok(rule)
}

/// The items of a list, each with its place.
fn items<'t>(list: &Entry<'t>, below: &[Entry<'t>]) -> Found<Vec<(&'t str, usize)>> {
    if list.value.is_some() {
        return wrong(list.offset, FrontMatterProblem::NotAList(clip(list.key)));
    }
    let indent = below.first().map_or(0, |item| item.indent);
    below
        .iter()
        .map(|item| {
            if !item.is_item {
                return wrong(item.offset, FrontMatterProblem::NotAList(clip(list.key)));
            }
            if item.indent != indent {
                return wrong(item.offset, FrontMatterProblem::Indentation);
            }
            let Some((value, offset)) = item.value else {
                return wrong(item.offset, FrontMatterProblem::Nothing("-".to_owned()));
            };
            match scalar(value, offset)? {
                "" => wrong(
                    offset,
                    ConfigProblem::EmptyValue {
                        what: list.key.to_owned(),
                    },
                ),
                text => Ok((text, offset)),
            }
        })
        .collect()
}

fn verdict(value: &str, what: &str, offset: usize) -> Found<Verdict> {
    read::verdict(scalar(value, offset)?, what, offset).map_err(carried)
}

/// A value on its line, without its quotes. No escape is known within them.
fn scalar(value: &str, offset: usize) -> Found<&str> {
    let first = value.chars().next().unwrap_or_default();
    if !matches!(first, '"' | '\'') {
        return if matches!(
            first,
            '|' | '>' | '&' | '*' | '!' | '[' | '{' | '-' | '%' | '@' | '`'
        ) {
            wrong(offset, FrontMatterProblem::Yaml)
        } else {
            Ok(value)
        };
    }
    match value.get(1..).and_then(|rest| rest.strip_suffix(first)) {
        Some(inside) => Ok(inside),
        None => wrong(offset, FrontMatterProblem::OpenQuote),
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample;

    use super::*;

    fn error(text: &str) -> String {
        FrontMatter::read(text.as_bytes(), "a.md")
            .unwrap_err()
            .to_string()
    }

    fn surfaces(text: &str) -> Vec<String> {
        let map = FrontMatter::read(text.as_bytes(), "a.md")
            .unwrap()
            .permission
            .unwrap();
        let mut all = Vec::new();
        for (surface, rules) in map.surfaces {
            match rules {
                SurfaceRules::Whole(verdict) => all.push(format!("{surface}={}", verdict.name())),
                SurfaceRules::Patterns(rules) => all.extend(rules.into_iter().map(|rule| {
                    let reason = rule.reason.map(|r| format!(" ({r})")).unwrap_or_default();
                    format!("{surface}/{}={}{reason}", rule.pattern, rule.verdict.name())
                })),
            }
        }
        all
    }

    #[test]
    fn the_map_is_read_in_its_order() {
        let text = "---\r\nname: scout\r\ntools:\r\n  - read\r\n  - permission: allow\r\npermission:\r\n  # quiet\r\n  '*': ask\r\n\r\n  bash:\r\n    \"git *\": 'allow'\r\n    rm *:\r\n      action: deny\r\n      reason: \"no: never\"\r\n    \"exa:*\": ask\r\n  read: allow\r\nmodel: x\r\n---\r\npermission:\r\n  bash: allow\r\n";
        assert_eq!(
            surfaces(text),
            [
                "*=ask",
                "bash/git *=allow",
                "bash/rm *=deny (no: never)",
                "bash/exa:*=ask",
                "read=allow"
            ]
        );
    }

    #[test]
    fn a_file_without_rules_says_nothing() {
        for text in [
            "# Title\n",
            "---\nname: x\n---\n",
            "---\n---\n",
            "text\n---\npermission:\n",
        ] {
            let front = FrontMatter::read(text.as_bytes(), "a.md").unwrap();
            assert_eq!(front.permission, None, "{text:?}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_an_error_with_its_place() {
        for (found, wanted) in [
            (error(""), "a.md:1:1: the file is empty"),
            (
                error("\u{feff}---\n---\n"),
                "a.md:1:1: the file begins with a byte-order mark",
            ),
            (
                error("---\npermission:\n  bash: deny\n"),
                "a.md:4:1: the front matter is never closed",
            ),
            (
                error("---\npermissions:\n  bash: deny\n---\n"),
                "a.md:2:1: unknown key \"permissions\" (did you mean \"permission\"?)",
            ),
            (
                error("---\npermission: {}\n---\n"),
                "a.md:2:1: \"permission\" must be a block",
            ),
            (
                error("---\npermission:\n---\n"),
                "a.md:2:1: \"permission\" says nothing",
            ),
            (
                error("---\npermission:\n  a: ask\npermission:\n  b: ask\n---\n"),
                "a.md:4:1: key \"permission\" stands twice",
            ),
            (within("\tbash: deny"), "a.md:3:1: a control character"),
            (
                within("  bash: deyn"),
                "a.md:3:9: \"bash\" must be \"allow\", \"ask\" or \"deny\", not \"deyn\" (did you mean \"deny\"?)",
            ),
            (within("  bash: deny # no"), "a.md:3:9: \"bash\" must be"),
            (
                within("  bash: [deny]"),
                "a.md:3:9: put this value in quotes",
            ),
            (within("  bash:deny"), "a.md:3:3: expected \"key: value\""),
            (within("  - bash"), "a.md:3:3: expected \"key: value\""),
            (
                within("  \"bash: deny"),
                "a.md:3:3: this quote is never closed",
            ),
            (
                within("  bash: \"deny"),
                "a.md:3:9: this quote is never closed",
            ),
            (
                within("  bash:\n    rm *: deny\n   ls: allow"),
                "a.md:5:4: this line is indented",
            ),
            (within("  bash:"), "a.md:3:3: \"bash\" says nothing"),
            (
                within("  bash: deny\n    rm *: deny"),
                "a.md:3:3: \"bash\" has a value and a block",
            ),
            (
                within("  bash: ask\n  'bash': deny"),
                "a.md:4:3: key \"bash\" stands twice",
            ),
            (
                within("  path_wrote: deny"),
                "a.md:3:3: unknown surface \"path_wrote\" (did you mean \"path_write\"?)",
            ),
            (within("  : deny"), "a.md:3:3: an empty key is no surface"),
            (
                within("  bash:\n    x:\n      reason: no"),
                "a.md:4:5: \"action\" is missing in \"x\"",
            ),
            (
                within("  bash:\n    x:\n      action: allow\n      reason: no"),
                "a.md:6:7: only a deny has a reason, and this is allow",
            ),
            (
                within("  bash:\n    x:\n      action: deny\n      resaon: no"),
                "a.md:6:7: unknown key \"resaon\" in \"x\" (did you mean \"reason\"?)",
            ),
            (
                within("  bash:\n    x:\n      action:\n        deny: x"),
                "a.md:5:7: \"action\" must have a value",
            ),
        ] {
            assert!(found.starts_with(wanted), "{found}\nwanted: {wanted}");
        }
    }

    fn within(block: &str) -> String {
        error(&format!("---\npermission:\n{block}\n---\n"))
    }

    #[test]
    fn examples_are_lists_of_values_that_are_tried() {
        assert_eq!(
            surfaces(
                "---\npermission:\n  bash:\n    git *:\n      match:\n        - git log -3\n        # more\n        - \"git a: b\"\n      action: allow\n      notMatch:\n        - gitk\n---\n"
            ),
            ["bash/git *=allow"]
        );
        for (found, wanted) in [
            (
                within(
                    "  bash:\n    git *:\n      action: allow\n      match:\n        - git log\n        - gitk",
                ),
                "a.md:8:11: \"gitk\" stands under \"match\", and \"git *\" does not cover it",
            ),
            (
                within(
                    "  bash:\n    git *:\n      action: deny\n      notMatch:\n        - \"cd a && git log\"",
                ),
                "a.md:7:11: \"cd a && git log\" stands under \"notMatch\", and \"git *\" covers it",
            ),
            (
                within("  bash:\n    git *:\n      action: deny\n      match: git"),
                "a.md:6:7: \"match\" must be a block of lines",
            ),
            (
                within("  bash:\n    git *:\n      action: deny\n      match:\n        git: log"),
                "a.md:7:9: \"match\" must be a block of lines",
            ),
            (
                within(
                    "  bash:\n    git *:\n      action: deny\n      match:\n        - git\n          - git",
                ),
                "a.md:8:11: this line is indented",
            ),
        ] {
            assert!(found.starts_with(wanted), "{found}\nwanted: {wanted}");
        }
    }

    proptest! {
        /// Whatever stands in the file, a layer is read, absent or broken, and nothing else happens.
        #[test]
        fn nothing_makes_the_reader_fall_over(lines in vec(sample::select(LINES), 0..10), noise in "\\PC{0,8}") {
            let text = format!("---\n{}\n{noise}\n---\n", lines.join("\n"));
            if let Ok(FrontMatter { permission: Some(map) }) = FrontMatter::read(text.as_bytes(), "a.md") {
                prop_assert!(!map.surfaces.is_empty());
            }
        }
    }

    const LINES: &[&str] = &[
        "permission:",
        "  bash:",
        "    rm *: deny",
        "  read: allow",
        "      action: deny",
        "    \"x:y\":",
        "      reason: 'a'",
        "name: x",
        "# no",
        "",
        " \"",
        "   - a",
        "\u{e4}:",
        "    ?: ask",
        "      match:",
        "        - a",
    ];
}

//! Takes a configuration apart, key by key.
//!
//! Nothing is guessed: a key or value that is not known stops the reading at its place. What is valid and probably not meant
//! (a deprecated key, a chain that names no program, a rule that can never allow) is told in a notice.
//!
//! # Invariants
//!
//! * Every key of [`CONFIG_KEYS`] is read here, and no other.
//! * No default is written down here: what the file does not say stays as [`Config::default`] has it.

use std::collections::BTreeMap;
use std::time::Duration;

use super::config::{
    CONFIG_KEYS, Config, ConfigError, ConfigProblem, DAY, Family, Hooks, Inbox, Limits,
    LogRotation, MAX_CONFIG_BYTES, Notice, Program, ShellTool, Switch,
};
use super::dialog_keys::{self, DialogKeys};
use super::examples::{Expected, Trial};
use super::infrastructure;
use super::json::{At, JsonProblem, Member, Node, Places, Position, Value, clip, decode, parse};
use super::nearest::nearest;
use super::permission::{
    DIRECTIONAL_KEYS, MAX_REASON_CHARS, PatternRule, PermissionMap, SurfaceKeyProblem,
    SurfaceRules, check_surface_key,
};
use super::rules::Verdict;
use super::{BASH_SURFACE, is_command_surface};
use crate::shell;
use crate::wire::{Generation, SessionId};

/// Greatest number that every reader of JSON keeps exactly.
const MAX_WHOLE: u64 = (1 << 53) - 1;

/// Least size from which on a log may be rotated: a file for each line is of no use to anybody.
const LEAST_LOG_BYTES: u64 = 4096;

impl Config {
    /// Reads the configuration `bytes` of the file that the caller calls `label`.
    pub fn read(bytes: &[u8], label: &str) -> Result<Self, ConfigError> {
        let (config, errors) = Self::take_apart(bytes, label)?;
        errors.into_iter().next().map_or(Ok(config), Err)
    }

    /// Everything that is wrong with a configuration, in the order of the file. After a fault in the JSON itself nothing more can
    /// be told; after one in a value, what stands beside it is looked at all the same.
    pub fn check(bytes: &[u8], label: &str) -> Vec<ConfigError> {
        match Self::take_apart(bytes, label) {
            Ok((_, errors)) => errors,
            Err(error) => vec![error],
        }
    }

    /// What a process that asks can go by while its configuration is broken: the settings that can be read, and the defaults for
    /// the others. Where it cannot be told whether answers must be sealed, they must.
    pub fn salvage(bytes: &[u8], label: &str) -> Salvaged {
        let Ok((config, errors)) = Self::take_apart(bytes, label) else {
            return Salvaged {
                config: Self {
                    require_seal: Switch::On,
                    ..Self::default()
                },
                session: SessionKey::Unknown,
            };
        };
        let is_hit = |key: &str| {
            errors.iter().any(|error| {
                let problem = &error.problem;
                problem.key() == Some(key) || problem.nearest() == Some(key)
            })
        };
        let require_seal = if is_hit("requireSeal") {
            Switch::On
        } else {
            config.require_seal
        };
        Salvaged {
            session: if is_hit("session") {
                SessionKey::Unknown
            } else {
                SessionKey::Known
            },
            config: Self {
                require_seal,
                ..config
            },
        }
    }

    fn take_apart(bytes: &[u8], label: &str) -> Result<(Self, Vec<ConfigError>), ConfigError> {
        let failed = |position, problem| ConfigError {
            label: label.to_owned(),
            position,
            problem,
        };
        let text = decode(bytes, MAX_CONFIG_BYTES)
            .map_err(|(position, problem)| failed(position, problem.into()))?;
        let at = |At { offset, problem }| failed(Position::of(text, offset), problem);
        let node = parse(text).map_err(|At { offset, problem }| {
            at(At {
                offset,
                problem: problem.into(),
            })
        })?;
        let mut reader = Reader {
            places: Places::new(text),
            label,
            notices: Vec::new(),
            faults: Vec::new(),
            parsed: 0,
            idle: 0,
        };
        let mut config = reader.config(&node).map_err(at)?;
        config.notices = reader.notices;
        reader.faults.sort_by_key(|fault| fault.offset);
        Ok((config, reader.faults.into_iter().map(at).collect()))
    }
}

/// What is left of a configuration that is broken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Salvaged {
    /// The settings that can be read. Its rules are not all of those that were written.
    pub config: Config,
    /// Whether it says which session is asked where nothing else does.
    pub session: SessionKey,
}

/// Whether a configuration can be trusted to name its session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionKey {
    /// What it says of it, or that it says nothing, could be read.
    Known,
    /// It may have named one.
    Unknown,
}

pub(super) type Read<T> = Result<T, At<ConfigProblem>>;

fn wrong<T>(offset: usize, problem: ConfigProblem) -> Read<T> {
    Err(At { offset, problem })
}

fn wrong_type<T>(node: &Node, what: &str, wanted: &'static str) -> Read<T> {
    wrong(
        node.offset,
        ConfigProblem::WrongType {
            what: clip(what),
            wanted,
            found: node.value.kind(),
        },
    )
}

fn unknown_key<T>(member: &Member, within: Option<&str>, known: &[&'static str]) -> Read<T> {
    wrong(
        member.offset,
        ConfigProblem::UnknownKey {
            key: clip(&member.key),
            within: within.map(clip),
            nearest: nearest(&member.key, known),
        },
    )
}

fn object<'n>(node: &'n Node, what: &str) -> Read<&'n [Member]> {
    let Value::Object(members) = &node.value else {
        return wrong_type(node, what, "an object");
    };
    Ok(members)
}

fn array<'n>(node: &'n Node, what: &str) -> Read<&'n [Node]> {
    let Value::Array(items) = &node.value else {
        return wrong_type(node, what, "an array");
    };
    Ok(items)
}

fn text<'n>(node: &'n Node, what: &str) -> Read<&'n str> {
    let Value::Text(text) = &node.value else {
        return wrong_type(node, what, "a text");
    };
    Ok(text)
}

fn non_empty_text(node: &Node, what: &str) -> Read<String> {
    match text(node, what)? {
        "" => wrong(node.offset, ConfigProblem::EmptyValue { what: clip(what) }),
        text => Ok(text.to_owned()),
    }
}

fn texts(node: &Node, what: &str) -> Read<Vec<String>> {
    array(node, what)?
        .iter()
        .map(|item| non_empty_text(item, what))
        .collect()
}

fn switch(node: &Node, what: &str) -> Read<Switch> {
    match node.value {
        Value::True => Ok(Switch::On),
        Value::False => Ok(Switch::Off),
        Value::Null | Value::Number(_) | Value::Text(_) | Value::Array(_) | Value::Object(_) => {
            wrong_type(node, what, "true or false")
        }
    }
}

/// A whole number of at least `min`. `1e3` is one too.
fn whole(node: &Node, what: &str, min: u64) -> Read<u64> {
    let Value::Number(number) = &node.value else {
        return wrong_type(node, what, "a number");
    };
    let whole = number.parse::<u64>().ok().or_else(|| {
        let float = number.parse::<f64>().ok()?;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "the range and the fraction are checked"
        )]
        (float.fract() == 0.0 && (0.0..=MAX_WHOLE as f64).contains(&float)).then_some(float as u64)
    });
    match whole.filter(|whole| (min..=MAX_WHOLE).contains(whole)) {
        Some(whole) => Ok(whole),
        None => wrong(
            node.offset,
            ConfigProblem::OutOfRange {
                what: clip(what),
                min,
                max: MAX_WHOLE,
            },
        ),
    }
}

fn count(node: &Node, what: &str, min: u64) -> Read<usize> {
    whole(node, what, min).map(|whole| usize::try_from(whole).unwrap_or(usize::MAX))
}

fn milliseconds(node: &Node, what: &str) -> Read<Duration> {
    whole(node, what, 1).map(Duration::from_millis)
}

fn one_of<T>(node: &Node, what: &str, wanted: &'static str, known: &[(&'static str, T)]) -> Read<T>
where
    T: Copy,
{
    let found = text(node, what)?;
    if let Some((_, value)) = known.iter().find(|(name, _)| *name == found) {
        return Ok(*value);
    }
    let names: Vec<&'static str> = known.iter().map(|(name, _)| *name).collect();
    wrong(
        node.offset,
        ConfigProblem::UnknownValue {
            what: clip(what),
            wanted,
            found: clip(found),
            nearest: nearest(found, &names),
        },
    )
}

/// How many patterns for commands are parsed to see whether they can cover one. Those of which it can be told at a glance are
/// not counted; where there are more, the others are taken as they are.
const MAX_PARSED_PATTERNS: usize = 1000;

/// How many patterns that can allow nothing are named one by one.
const MAX_NAMED_PATTERNS: usize = 20;

struct Reader<'a> {
    places: Places<'a>,
    label: &'a str,
    notices: Vec<Notice>,
    faults: Vec<At<ConfigProblem>>,
    /// How many patterns were parsed.
    parsed: usize,
    /// How many of them can allow nothing.
    idle: usize,
}

impl Reader<'_> {
    /// What was read, or nothing and one fault more. The file is not used then, but its other faults are found as well.
    fn noting<T>(&mut self, read: Read<T>) -> Option<T> {
        read.map_err(|fault| self.faults.push(fault)).ok()
    }

    fn notice(&mut self, offset: usize, text: String) {
        self.notices.push(Notice {
            label: self.label.to_owned(),
            position: self.places.of(offset),
            text,
            without_program: None,
        });
    }

    fn config(&mut self, node: &Node) -> Read<Config> {
        let Value::Object(members) = &node.value else {
            return wrong(
                node.offset,
                JsonProblem::Unexpected {
                    expected: "an object",
                    found: node.value.kind().to_owned(),
                }
                .into(),
            );
        };
        let mut config = Config::default();
        for member in members {
            let place = self.places.of(member.offset);
            let read = self.member(&mut config, member);
            if self.noting(read).is_some()
                && let Some(key) = CONFIG_KEYS.iter().find(|key| **key == member.key)
            {
                config.stated.insert(key, place);
            }
        }
        self.check_chain(members, "authorizerChain", &config.authorizers);
        self.check_chain(members, "annotatorChain", &config.annotators);
        Ok(config)
    }

    fn member(&mut self, config: &mut Config, member: &Member) -> Read<()> {
        let (key, node) = (member.key.as_str(), &member.node);
        match key {
            "$schema" => {
                text(node, key)?;
            }
            "debugLog" => config.debug_log = switch(node, key)?,
            "permissionReviewLog" => config.permission_review_log = switch(node, key)?,
            "yoloMode" => config.yolo_mode = switch(node, key)?,
            "doublePressToConfirm" => config.double_press_to_confirm = switch(node, key)?,
            "permissionDialogKeys" => {
                config.permission_dialog_keys = self.dialog_keys(node, key)?;
            }
            "forwardingTimeoutMs" => config.forwarding_timeout = milliseconds(node, key)?,
            "promptMaxRows" => config.prompt_max_rows = count(node, key, 1)?,
            "promptFieldMaxWidth" => config.prompt_field_max_width = count(node, key, 1)?,
            "reviewLogFieldMaxWidth" => config.review_log_field_max_width = count(node, key, 1)?,
            "authorizerChain" => config.authorizer_chain = texts(node, key)?,
            "authorizerTrust" => config.authorizer_trust = authorizer_trust(node, key)?,
            "piInfrastructureReadPaths" => {
                config.pi_infrastructure_read_paths = self.read_paths(node, key)?;
            }
            "shellTools" => config.shell_tools = shell_tools(node, key)?,
            "permission" => config.permission = self.permission(node, key)?,
            "toolInputPreviewMaxLength" | "toolTextSummaryMaxLength" => {
                whole(node, key, 1)?;
                self.notice(
                    member.offset,
                    format!(
                        "{key:?} is deprecated and has no effect; \
                         \"promptMaxRows\" and \"promptFieldMaxWidth\" bound a prompt"
                    ),
                );
            }
            "session" => config.session = Some(session(node, key)?),
            "peerGeneration" => {
                config.peer_generation = one_of(
                    node,
                    key,
                    r#""g1" or "current""#,
                    &[("g1", Generation::G1), ("current", Generation::Current)],
                )?;
            }
            "requireSeal" => config.require_seal = switch(node, key)?,
            "requireAudit" => config.require_audit = switch(node, key)?,
            "reviewLogRotation" => config.review_log_rotation = log_rotation(node, key)?,
            "requestMaxAgeMs" => config.request_max_age = milliseconds(node, key)?,
            "inbox" => config.inbox = inbox(node, key)?,
            "authorizers" => config.authorizers = programs(node, key, "authorizer", 30_000)?,
            "annotatorChain" => config.annotator_chain = texts(node, key)?,
            "annotators" => config.annotators = programs(node, key, "annotator", 3_000)?,
            "evidenceFormatters" => {
                config.evidence_formatters = programs(node, key, "tool", 1_000)?;
            }
            "limits" => config.limits = limits(node, key)?,
            "hooks" => config.hooks = hooks(node, key)?,
            "persistGrants" => config.persist_grants = switch(node, key)?,
            _ => return unknown_key(member, None, &CONFIG_KEYS),
        }
        Ok(())
    }

    /// An entry that can hold nothing is skipped, which means more asking: worth a word, not an error.
    fn read_paths(&mut self, node: &Node, what: &str) -> Read<Vec<String>> {
        let paths = texts(node, what)?;
        for (path, item) in paths.iter().zip(array(node, what)?) {
            if !infrastructure::is_usable(path) {
                self.notice(
                    item.offset,
                    format!(
                        "{what:?} names {:?}, which is no absolute directory; it is skipped",
                        clip(path)
                    ),
                );
            }
        }
        Ok(paths)
    }

    /// A link without a program is skipped, which means more asking: worth a word, not an error.
    fn check_chain(
        &mut self,
        members: &[Member],
        key: &'static str,
        programs: &BTreeMap<String, Program>,
    ) {
        let Some(member) = members.iter().find(|member| member.key == key) else {
            return;
        };
        let Value::Array(links) = &member.node.value else {
            return;
        };
        for link in links {
            if let Value::Text(name) = &link.value
                && !programs.contains_key(name)
            {
                self.notice(
                    link.offset,
                    format!(
                        "{key:?} names {:?}, for which there is no program; it is skipped",
                        clip(name)
                    ),
                );
                if let Some(notice) = self.notices.last_mut() {
                    notice.without_program = Some((key, name.clone()));
                }
            }
        }
    }

    fn dialog_keys(&mut self, node: &Node, what: &str) -> Read<DialogKeys> {
        let mut wanted = [None; dialog_keys::NAMES.len()];
        let mut offsets = [0; dialog_keys::NAMES.len()];
        for member in object(node, what)? {
            let place = dialog_keys::NAMES
                .iter()
                .position(|name| *name == member.key);
            let slot = place.and_then(|place| wanted.get_mut(place).zip(offsets.get_mut(place)));
            let Some((slot, offset)) = slot else {
                return unknown_key(member, Some(what), &dialog_keys::NAMES);
            };
            *slot = Some(text(&member.node, &member.key)?);
            *offset = member.node.offset;
        }
        let (keys, refused) = DialogKeys::choose(wanted);
        for refusal in refused {
            let offset = offsets.get(refusal.place).copied().unwrap_or(node.offset);
            self.notice(offset, refusal.to_string());
        }
        Ok(keys)
    }

    fn permission(&mut self, node: &Node, what: &str) -> Read<PermissionMap> {
        let mut map = PermissionMap::default();
        map.places.file = Some(self.label.into());
        for member in object(node, what)? {
            let key = surface_key(&member.key, member.offset);
            let place = self.places.of(member.offset);
            let rules = key.and_then(|()| self.surface_rules(member));
            let Some(rules) = self.noting(rules) else {
                continue;
            };
            map.places.surfaces.push(place);
            map.surfaces.push((member.key.clone(), rules));
        }
        if self.idle > MAX_NAMED_PATTERNS {
            let more = self.idle - MAX_NAMED_PATTERNS;
            self.notice(
                node.offset,
                format!("of patterns that are more than one command: and {more} more"),
            );
        }
        let allows_all = map.get("*") == Some(&SurfaceRules::Whole(Verdict::Allow));
        let bash_has_own = map.get(BASH_SURFACE).is_some_and(|rules| match rules {
            SurfaceRules::Whole(_) => true,
            SurfaceRules::Patterns(patterns) => patterns.iter().any(|rule| rule.pattern == "*"),
        });
        if allows_all && !bash_has_own {
            self.notice(
                node.offset,
                "\"*\" is \"allow\" and \"bash\" has no \"*\" of its own, \
                 so any command that no rule names is allowed"
                    .to_owned(),
            );
        }
        Ok(map)
    }

    fn surface_rules(&mut self, member: &Member) -> Read<SurfaceRules> {
        let (surface, node) = (member.key.as_str(), &member.node);
        let members = match &node.value {
            Value::Text(name) => {
                return verdict(name, surface, node.offset).map(SurfaceRules::Whole);
            }
            Value::Object(members) => members,
            Value::Null | Value::True | Value::False | Value::Number(_) | Value::Array(_) => {
                return wrong_type(node, surface, "a verdict or an object of patterns");
            }
        };
        if surface == "*" {
            self.notice(
                member.offset,
                "\"*\" takes one verdict; patterns under it have no effect, and what no rule matches is asked"
                    .to_owned(),
            );
        }
        let mut patterns = Vec::with_capacity(members.len());
        for member in members {
            if member.key.is_empty() {
                return wrong(member.offset, ConfigProblem::EmptyKey { what: "pattern" });
            }
            let rule = pattern_rule(surface, &member.key, &member.node);
            let Some(rule) = self.noting(rule) else {
                continue;
            };
            let rule = PatternRule {
                position: Some(self.places.of(member.offset)),
                ..rule
            };
            if is_command_surface(surface)
                && rule.verdict == Verdict::Allow
                && !self.may_cover_a_unit(&rule.pattern)
            {
                self.idle_pattern(&rule.pattern, member.offset);
            }
            patterns.push(rule);
        }
        Ok(SurfaceRules::Patterns(patterns))
    }

    fn idle_pattern(&mut self, pattern: &str, offset: usize) {
        self.idle += 1;
        if self.idle <= MAX_NAMED_PATTERNS {
            self.notice(
                offset,
                format!(
                    "{:?} is more than one command; each is judged by itself, and this rule allows none of them",
                    clip(pattern)
                ),
            );
        }
    }

    /// Whether a pattern can cover what a command line is judged by, or was not looked at because there are so many.
    fn may_cover_a_unit(&mut self, pattern: &str) -> bool {
        if is_one_command_at_a_glance(pattern) || self.parsed == MAX_PARSED_PATTERNS {
            return true;
        }
        self.parsed += 1;
        covers_a_unit(pattern)
    }
}

/// Whether a pattern has nothing in it of which more than one command, or something around a command, could be made.
fn is_one_command_at_a_glance(pattern: &str) -> bool {
    let is_plain = |c: char| {
        c.is_ascii_alphanumeric()
            || matches!(c, ' ' | '*' | '-' | '/' | '.' | ':' | '_' | ',' | '@')
    };
    let first = pattern.split(' ').next().unwrap_or_default();
    let is_keyword = matches!(
        first,
        "time" | "coproc" | "function" | "if" | "while" | "until" | "for" | "select" | "case"
    );
    pattern.chars().all(is_plain) && !is_keyword
}

/// Whether a pattern can cover what a command line is judged by. A pattern is no command line, so what is no bash may be one.
fn covers_a_unit(pattern: &str) -> bool {
    let reading = shell::read(pattern);
    let unread = reading.floor.is_some_and(shell::Floor::hides_commands);
    let covers = |unit: &shell::Unit<'_>| unit.text == pattern.trim();
    unread || reading.units.is_empty() || reading.units.iter().any(covers)
}

/// Checks one surface key and says where it is wrong.
pub(super) fn surface_key(key: &str, offset: usize) -> Read<()> {
    check_surface_key(key).map_err(|problem| At {
        offset,
        problem: match problem {
            SurfaceKeyProblem::Empty => ConfigProblem::EmptyKey { what: "surface" },
            SurfaceKeyProblem::UnknownDirection => ConfigProblem::UnknownDirection {
                key: clip(key),
                nearest: nearest(key, &DIRECTIONAL_KEYS),
            },
        },
    })
}

/// The verdict with this name, which is said about `what`.
pub(super) fn verdict(found: &str, what: &str, offset: usize) -> Read<Verdict> {
    Verdict::from_name(found).ok_or_else(|| At {
        offset,
        problem: ConfigProblem::UnknownValue {
            what: clip(what),
            wanted: r#""allow", "ask" or "deny""#,
            found: clip(found),
            nearest: nearest(found, &["allow", "ask", "deny"]),
        },
    })
}

/// A reason that is short enough.
pub(super) fn reason(text: &str, offset: usize) -> Read<String> {
    let length = text.chars().count();
    if length > MAX_REASON_CHARS {
        return wrong(offset, ConfigProblem::LongReason { length });
    }
    Ok(text.to_owned())
}

/// The keys of a pattern's object.
pub(super) const PATTERN_KEYS: [&str; 4] = ["action", "reason", "match", "notMatch"];

fn pattern_rule(surface: &str, pattern: &str, node: &Node) -> Read<PatternRule> {
    let rule = |verdict, reason| PatternRule {
        pattern: pattern.to_owned(),
        verdict,
        reason,
        position: None,
    };
    let members = match &node.value {
        Value::Text(name) => {
            return verdict(name, pattern, node.offset).map(|verdict| rule(verdict, None));
        }
        Value::Object(members) => members,
        Value::Null | Value::True | Value::False | Value::Number(_) | Value::Array(_) => {
            return wrong_type(node, pattern, "a verdict, or an object with an \"action\"");
        }
    };
    let (mut action, mut because) = (None, None);
    let mut examples: Vec<(&str, usize, Expected)> = Vec::new();
    for member in members {
        let (key, node) = (member.key.as_str(), &member.node);
        if let Some((key, expected)) = Expected::KEYS.iter().find(|(name, _)| *name == key) {
            for item in array(node, key)? {
                let example = text(item, key)?;
                if example.is_empty() {
                    let what = (*key).to_owned();
                    return wrong(item.offset, ConfigProblem::EmptyValue { what });
                }
                examples.push((example, item.offset, *expected));
            }
            continue;
        }
        match key {
            "action" => action = Some(verdict(text(node, key)?, key, node.offset)?),
            "reason" => because = Some((reason(text(node, key)?, node.offset)?, member.offset)),
            _ => return unknown_key(member, Some(pattern), &PATTERN_KEYS),
        }
    }
    let Some(action) = action else {
        return wrong(
            node.offset,
            ConfigProblem::MissingKey {
                key: "action",
                within: clip(pattern),
            },
        );
    };
    let rule = rule(action, deny_reason(action, because)?);
    check_examples(surface, &rule, &examples)?;
    Ok(rule)
}

/// The reason, which only a deny may have. It comes with the place of its key.
pub(super) fn deny_reason(
    action: Verdict,
    because: Option<(String, usize)>,
) -> Read<Option<String>> {
    match because {
        Some((_, offset)) if action != Verdict::Deny => {
            wrong(offset, ConfigProblem::ReasonWithoutDeny { verdict: action })
        }
        because => Ok(because.map(|(reason, _)| reason)),
    }
}

/// Tries the examples of a rule.
pub(super) fn check_examples(
    surface: &str,
    rule: &PatternRule,
    examples: &[(&str, usize, Expected)],
) -> Read<()> {
    if examples.is_empty() {
        return Ok(());
    }
    let trial = Trial::new(surface, rule);
    for (example, offset, expected) in examples {
        trial.check(example, *expected).map_err(|problem| At {
            offset: *offset,
            problem,
        })?;
    }
    Ok(())
}

fn named<'n>(node: &'n Node, what: &str, name_of: &'static str) -> Read<&'n [Member]> {
    let members = object(node, what)?;
    match members.iter().find(|member| member.key.is_empty()) {
        Some(member) => wrong(member.offset, ConfigProblem::EmptyKey { what: name_of }),
        None => Ok(members),
    }
}

fn authorizer_trust(node: &Node, what: &str) -> Read<BTreeMap<String, Vec<Family>>> {
    named(node, what, "link")?
        .iter()
        .map(|member| {
            let families = array(&member.node, &member.key)?
                .iter()
                .map(|item| {
                    one_of(
                        item,
                        &member.key,
                        r#""path" or "external_directory""#,
                        &[
                            ("path", Family::Path),
                            ("external_directory", Family::ExternalDirectory),
                        ],
                    )
                })
                .collect::<Read<_>>()?;
            Ok((member.key.clone(), families))
        })
        .collect()
}

fn shell_tools(node: &Node, what: &str) -> Read<BTreeMap<String, ShellTool>> {
    named(node, what, "tool")?
        .iter()
        .map(|tool| {
            let (mut command, mut workdir) = (None, None);
            for member in object(&tool.node, &tool.key)? {
                match member.key.as_str() {
                    "commandArgument" => {
                        command = Some(non_empty_text(&member.node, &member.key)?);
                    }
                    "workdirArgument" => {
                        workdir = Some(non_empty_text(&member.node, &member.key)?);
                    }
                    _ => {
                        return unknown_key(
                            member,
                            Some(&tool.key),
                            &["commandArgument", "workdirArgument"],
                        );
                    }
                }
            }
            match command {
                Some(command_argument) => Ok((
                    tool.key.clone(),
                    ShellTool {
                        command_argument,
                        workdir_argument: workdir,
                    },
                )),
                None => wrong(
                    tool.node.offset,
                    ConfigProblem::MissingKey {
                        key: "commandArgument",
                        within: clip(&tool.key),
                    },
                ),
            }
        })
        .collect()
}

fn programs(
    node: &Node,
    what: &str,
    name_of: &'static str,
    timeout_ms: u64,
) -> Read<BTreeMap<String, Program>> {
    named(node, what, name_of)?
        .iter()
        .map(|entry| {
            let mut command = None;
            let mut timeout = Duration::from_millis(timeout_ms);
            let mut env = Vec::new();
            for member in object(&entry.node, &entry.key)? {
                match member.key.as_str() {
                    "command" => command = Some(command_line(&member.node)?),
                    "timeoutMs" => timeout = milliseconds(&member.node, &member.key)?,
                    "env" => env = texts(&member.node, &member.key)?,
                    _ => {
                        return unknown_key(
                            member,
                            Some(&entry.key),
                            &["command", "timeoutMs", "env"],
                        );
                    }
                }
            }
            match command {
                Some(command) => Ok((
                    entry.key.clone(),
                    Program {
                        command,
                        timeout,
                        env,
                        directory: None,
                    },
                )),
                None => wrong(
                    entry.node.offset,
                    ConfigProblem::MissingKey {
                        key: "command",
                        within: clip(&entry.key),
                    },
                ),
            }
        })
        .collect()
}

/// A program and its arguments. An argument may be empty, the program not.
fn command_line(node: &Node) -> Read<Vec<String>> {
    let words = array(node, "command")?
        .iter()
        .map(|item| text(item, "command").map(str::to_owned))
        .collect::<Read<Vec<_>>>()?;
    if words.first().is_none_or(String::is_empty) {
        return wrong(
            node.offset,
            ConfigProblem::EmptyValue {
                what: "command".to_owned(),
            },
        );
    }
    Ok(words)
}

fn session(node: &Node, what: &str) -> Read<SessionId> {
    let name = text(node, what)?;
    SessionId::parse(name).map_err(|why| At {
        offset: node.offset,
        problem: ConfigProblem::BadSession {
            found: clip(name),
            why,
        },
    })
}

fn inbox(node: &Node, what: &str) -> Read<Inbox> {
    let mut inbox = Inbox::default();
    for member in object(node, what)? {
        match member.key.as_str() {
            "maxPending" => inbox.max_pending = count(&member.node, &member.key, 1)?,
            "expireMs" => {
                inbox.expire = if member.node.value == Value::Null {
                    None
                } else {
                    Some(milliseconds(&member.node, &member.key)?)
                };
            }
            "retain" => inbox.retain = count(&member.node, &member.key, 0)?,
            _ => return unknown_key(member, Some(what), &["maxPending", "expireMs", "retain"]),
        }
    }
    Ok(inbox)
}

fn log_rotation(node: &Node, what: &str) -> Read<LogRotation> {
    let mut rotation = LogRotation::default();
    for member in object(node, what)? {
        let (key, node) = (member.key.as_str(), &member.node);
        let never = node.value == Value::Null;
        match key {
            "maxBytes" if never => rotation.max_bytes = None,
            "maxBytes" => rotation.max_bytes = Some(whole(node, key, LEAST_LOG_BYTES)?),
            "maxAgeDays" if never => rotation.max_age = None,
            "maxAgeDays" => {
                let days = u32::try_from(whole(node, key, 1)?).unwrap_or(u32::MAX);
                rotation.max_age = Some(DAY * days);
            }
            _ => return unknown_key(member, Some(what), &["maxBytes", "maxAgeDays"]),
        }
    }
    Ok(rotation)
}

fn hooks(node: &Node, what: &str) -> Read<Hooks> {
    let mut hooks = Hooks::default();
    for member in object(node, what)? {
        let slot = match member.key.as_str() {
            "denyStops" => &mut hooks.deny_stops,
            "hostRemembers" => &mut hooks.host_remembers,
            _ => return unknown_key(member, Some(what), &["denyStops", "hostRemembers"]),
        };
        *slot = switch(&member.node, &member.key)?;
    }
    Ok(hooks)
}

fn limits(node: &Node, what: &str) -> Read<Limits> {
    let mut limits = Limits::default();
    for member in object(node, what)? {
        let slot = match member.key.as_str() {
            "perRequesterPending" => &mut limits.per_requester_pending,
            "perSessionPending" => &mut limits.per_session_pending,
            "perRequesterPerMinute" => &mut limits.per_requester_per_minute,
            _ => {
                return unknown_key(
                    member,
                    Some(what),
                    &[
                        "perRequesterPending",
                        "perSessionPending",
                        "perRequesterPerMinute",
                    ],
                );
            }
        };
        *slot = count(&member.node, &member.key, 1)?;
    }
    Ok(limits)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_left_of_a_broken_configuration_is_no_milder_than_it_was() {
        for (text, seals, session) in [
            (
                r#"{"requireSeal": false, "nope": 1}"#,
                Switch::Off,
                SessionKey::Known,
            ),
            (r#"{"requireSeal": 1}"#, Switch::On, SessionKey::Known),
            (r#"{"requireSeals": true}"#, Switch::On, SessionKey::Known),
            (r#"{"session": 7}"#, Switch::Off, SessionKey::Unknown),
            (r#"{"sesion": "x"}"#, Switch::Off, SessionKey::Unknown),
            (r#"{"session": "x""#, Switch::On, SessionKey::Unknown),
            ("", Switch::On, SessionKey::Unknown),
        ] {
            let left = Config::salvage(text.as_bytes(), "test");
            assert_eq!(
                (left.config.require_seal, left.session),
                (seals, session),
                "{text}"
            );
        }
    }

    proptest! {
        #[test]
        fn a_glance_agrees_with_the_parser(
            pattern in "(time |if |sudo |git |[a-z]{1,4} ?)?[a-z0-9 */.:_,@-]{0,12}",
        ) {
            if is_one_command_at_a_glance(&pattern) {
                prop_assert!(covers_a_unit(&pattern), "{pattern:?}");
            }
        }
    }
}

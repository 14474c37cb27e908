//! Rules in their order, the layers they come from, and the policy that is made of them.
//!
//! Layers are merged as the peer merges them, surface by surface: a map of patterns is laid over a map of patterns, where a
//! pattern that stands in both keeps its first place and takes the later verdict; anything else replaces the surface. A bare
//! `path` or `external_directory` stands for its two directions, its entries before those of an explicit direction. The key
//! `*` is no rule: it is the verdict where no rule matches, and an ask where nobody says.
//!
//! Judging is done in `judge`; this module only says which rules there are and finds those of a surface.
//!
//! # Invariants
//!
//! * No compiled rule lives on a bare family: a question about one is judged in both directions.
//! * A layer that could not be read never leaves an allow standing for those whom it speaks of.

use std::collections::HashMap;
use std::sync::Arc;

use super::config::Switch;
use super::family_members;
use super::infrastructure::Infrastructure;
use super::pattern::Pattern;
use super::permission::{PatternRule, PermissionMap, SurfaceRules};

/// What is said about an ask. The strictest is the greatest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verdict {
    /// Go ahead.
    Allow,
    /// Somebody has to be asked.
    Ask,
    /// No.
    Deny,
}

impl Verdict {
    /// The name in a configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Deny => "deny",
        }
    }

    /// The verdict with this name in a configuration.
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "allow" => Some(Self::Allow),
            "ask" => Some(Self::Ask),
            "deny" => Some(Self::Deny),
            _ => None,
        }
    }
}

/// Where a rule comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Origin {
    /// The configuration of the user.
    Global,
    /// The configuration of the project.
    Project,
    /// The front matter of an agent of the user.
    Agent,
    /// The front matter of an agent of the project.
    ProjectAgent,
    /// Nobody said anything.
    Builtin,
    /// Looking around in MCP servers, which any MCP allow brings along.
    Baseline,
    /// A grant of this session.
    Session,
    /// The switch that turns every ask into an allow.
    Yolo,
    /// An allow that a broken layer turned into an ask.
    FailClosed,
}

impl Origin {
    /// The name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Self::Global => "global",
            Self::Project => "project",
            Self::Agent => "agent",
            Self::ProjectAgent => "project-agent",
            Self::Builtin => "builtin",
            Self::Baseline => "baseline",
            Self::Session => "session",
            Self::Yolo => "yolo",
            Self::FailClosed => "fail-closed",
        }
    }
}

/// One compiled rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// The surface key; may hold wildcards.
    pub surface: String,
    /// What the values of the ask are matched with.
    pub pattern: Pattern,
    /// What is said.
    pub verdict: Verdict,
    /// Why a deny denies.
    pub reason: Option<String>,
    /// Where the rule comes from.
    pub origin: Origin,
}

/// What the layers of a policy say, before they are merged.
#[derive(Debug, Clone, Default)]
pub struct Layers<'a> {
    /// The configuration of the user.
    pub global: LayerRules<'a>,
    /// The configuration of the project.
    pub project: LayerRules<'a>,
    /// Front matter of agents, at most one for each agent and owner.
    pub agents: Vec<AgentLayer<'a>>,
    /// Whether every ask is an allow.
    pub yolo: Switch,
    /// Directories of the host, which agents may read.
    pub infrastructure: &'a [String],
    /// What `~` stands for.
    pub home: Option<&'a str>,
}

/// What one layer says.
#[derive(Debug, Clone, Copy, Default)]
pub enum LayerRules<'a> {
    /// There is no such layer, or it says nothing.
    #[default]
    Absent,
    /// It says this.
    Rules(&'a PermissionMap),
    /// It is there, and could not be read: no allow stands where it applies.
    Unreadable,
}

/// What the front matter of one agent says.
#[derive(Debug, Clone, Copy)]
pub struct AgentLayer<'a> {
    /// The agent, as asks name it.
    pub agent: &'a str,
    /// Whose agent it is.
    pub owner: AgentOwner,
    /// What it says.
    pub rules: LayerRules<'a>,
}

/// Whose front matter it is. That of the project is laid over that of the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgentOwner {
    /// An agent of the user.
    User,
    /// An agent of the project.
    Project,
}

impl AgentOwner {
    fn origin(self) -> Origin {
        match self {
            Self::User => Origin::Agent,
            Self::Project => Origin::ProjectAgent,
        }
    }
}

/// The recorded authority of one session: its rules, compiled for every agent that has rules of its own.
#[derive(Debug, Clone)]
pub struct Policy {
    base: RuleSet,
    agents: HashMap<String, RuleSet>,
}

impl Default for Policy {
    /// Asks about everything.
    fn default() -> Self {
        Self::from_layers(&Layers::default())
    }
}

impl Policy {
    /// Merges and compiles the layers.
    pub fn from_layers(layers: &Layers<'_>) -> Self {
        let shared = [
            (Origin::Global, layers.global),
            (Origin::Project, layers.project),
        ];
        let build = |agent: Option<&str>| {
            let of = |owner: AgentOwner| {
                layers
                    .agents
                    .iter()
                    .filter(move |layer| layer.owner == owner && agent == Some(layer.agent))
                    .map(move |layer| (owner.origin(), layer.rules))
            };
            let scopes: Vec<_> = shared
                .into_iter()
                .chain(of(AgentOwner::User))
                .chain(of(AgentOwner::Project))
                .collect();
            let infrastructure = Infrastructure::new(layers.infrastructure, layers.home);
            RuleSet::compile(&scopes, layers.yolo, infrastructure, layers.home)
        };
        Self {
            base: build(None),
            agents: layers
                .agents
                .iter()
                .map(|layer| (layer.agent.to_owned(), build(Some(layer.agent))))
                .collect(),
        }
    }

    /// The same policy with every allow turned into an ask, and without what undoes it (the switch, the directories of the host): for a session that found
    /// its configuration broken.
    #[must_use]
    pub fn clamped(self) -> Self {
        Self {
            base: self.base.clamped(),
            agents: self
                .agents
                .into_iter()
                .map(|(agent, rules)| (agent, rules.clamped()))
                .collect(),
        }
    }

    /// Whether every allow is an ask here, for every agent. One agent alone is told by its [`RuleSet::is_clamped`].
    pub fn is_clamped(&self) -> bool {
        self.base.is_clamped()
    }

    /// The rules that hold for an agent.
    pub fn rules_for(&self, agent: &str) -> &RuleSet {
        self.agents.get(agent).unwrap_or(&self.base)
    }
}

/// Merged and compiled rules, in the order in which the last match wins.
#[derive(Debug, Clone)]
pub struct RuleSet {
    rules: Vec<Arc<Rule>>,
    /// For each surface key without a wildcard: the rules whose surface covers it, in order.
    by_surface: HashMap<String, Box<[Arc<Rule>]>>,
    /// Rules whose surface key has a wildcard, for surfaces that no key names.
    by_wildcard: Vec<(Pattern, Arc<Rule>)>,
    default: (Verdict, Origin),
    yolo: Switch,
    infrastructure: Infrastructure,
    clamped: bool,
}

impl RuleSet {
    fn compile(
        scopes: &[(Origin, LayerRules<'_>)],
        yolo: Switch,
        infrastructure: Infrastructure,
        home: Option<&str>,
    ) -> Self {
        let mut merged = Merged::default();
        let mut broken = false;
        for (origin, layer) in scopes {
            match layer {
                LayerRules::Absent => {}
                LayerRules::Rules(map) => merged.lay(*origin, map),
                LayerRules::Unreadable => broken = true,
            }
        }
        let set = Self {
            infrastructure,
            ..merged.compile(yolo, home)
        };
        if broken { set.clamped() } else { set }
    }

    fn from_rules(rules: Vec<Arc<Rule>>, default: (Verdict, Origin), yolo: Switch) -> Self {
        let by_wildcard: Vec<_> = rules
            .iter()
            .map(|rule| (Pattern::compile(&rule.surface, None), rule))
            .filter(|(surface, _)| !surface.is_literal())
            .map(|(surface, rule)| (surface, Arc::clone(rule)))
            .collect();
        let mut by_surface: HashMap<String, Box<[Arc<Rule>]>> = HashMap::new();
        for rule in &rules {
            if by_surface.contains_key(&rule.surface)
                || !Pattern::compile(&rule.surface, None).is_literal()
            {
                continue;
            }
            let covering = rules
                .iter()
                .filter(|other| {
                    other.surface == rule.surface
                        || by_wildcard.iter().any(|(surface, of)| {
                            Arc::ptr_eq(of, other) && surface.matches(&rule.surface)
                        })
                })
                .cloned()
                .collect();
            by_surface.insert(rule.surface.clone(), covering);
        }
        Self {
            rules,
            by_surface,
            by_wildcard,
            default,
            yolo,
            infrastructure: Infrastructure::default(),
            clamped: false,
        }
    }

    fn clamped(self) -> Self {
        let rules = self
            .rules
            .into_iter()
            .map(|rule| {
                if rule.verdict == Verdict::Allow {
                    Arc::new(Rule {
                        verdict: Verdict::Ask,
                        origin: Origin::FailClosed,
                        ..(*rule).clone()
                    })
                } else {
                    rule
                }
            })
            .collect();
        let default = match self.default {
            (Verdict::Allow, _) => (Verdict::Ask, Origin::FailClosed),
            other => other,
        };
        Self {
            clamped: true,
            ..Self::from_rules(rules, default, Switch::Off)
        }
    }

    /// Whether something that was to be read here could not be, so that every allow is an ask.
    pub fn is_clamped(&self) -> bool {
        self.clamped
    }

    /// Every rule, in order.
    pub fn rules(&self) -> &[Arc<Rule>] {
        &self.rules
    }

    /// What is said where no rule matches, and who says it.
    pub fn default_verdict(&self) -> (Verdict, Origin) {
        self.default
    }

    /// Whether an ask is an allow here.
    pub fn yolo(&self) -> Switch {
        self.yolo
    }

    /// The directories of the host.
    pub(super) fn infrastructure(&self) -> &Infrastructure {
        &self.infrastructure
    }

    /// Calls `visit` with each rule whose surface covers `surface`, in order.
    pub(crate) fn for_surface<'a>(&'a self, surface: &str, mut visit: impl FnMut(&'a Arc<Rule>)) {
        if let Some(rules) = self.by_surface.get(surface) {
            rules.iter().for_each(visit);
            return;
        }
        for (covers, rule) in &self.by_wildcard {
            if covers.matches(surface) {
                visit(rule);
            }
        }
    }
}

/// Layers laid over each other.
#[derive(Default)]
struct Merged {
    surfaces: Vec<(String, MergedSurface)>,
}

enum MergedSurface {
    Whole(Verdict, Origin),
    Patterns(Vec<(PatternRule, Origin)>),
}

impl Merged {
    fn lay(&mut self, origin: Origin, map: &PermissionMap) {
        for (surface, rules) in expand_families(map) {
            self.lay_surface(origin, surface, rules);
        }
    }

    fn lay_surface(&mut self, origin: Origin, surface: String, rules: SurfaceRules) {
        let place = self.surfaces.iter_mut().find(|(key, _)| *key == surface);
        let laid = match rules {
            SurfaceRules::Whole(verdict) => MergedSurface::Whole(verdict, origin),
            SurfaceRules::Patterns(patterns) => {
                if let Some((_, MergedSurface::Patterns(below))) = place {
                    for rule in patterns {
                        match below
                            .iter_mut()
                            .find(|(old, _)| old.pattern == rule.pattern)
                        {
                            Some(old) => *old = (rule, origin),
                            None => below.push((rule, origin)),
                        }
                    }
                    return;
                }
                MergedSurface::Patterns(patterns.into_iter().map(|rule| (rule, origin)).collect())
            }
        };
        match place {
            Some((_, old)) => *old = laid,
            None => self.surfaces.push((surface, laid)),
        }
    }

    fn compile(self, yolo: Switch, home: Option<&str>) -> RuleSet {
        let mut default = (Verdict::Ask, Origin::Builtin);
        let mut rules = Vec::new();
        for (surface, merged) in self.surfaces {
            if surface == "*" {
                if let MergedSurface::Whole(verdict, origin) = merged {
                    default = (verdict, origin);
                }
                continue;
            }
            let rule = |pattern: &str, verdict, reason, origin| {
                Arc::new(Rule {
                    surface: surface.clone(),
                    pattern: Pattern::compile(pattern, home),
                    verdict,
                    reason,
                    origin,
                })
            };
            match merged {
                MergedSurface::Whole(verdict, origin) => {
                    rules.push(rule("*", verdict, None, origin));
                }
                MergedSurface::Patterns(patterns) => {
                    rules.extend(patterns.into_iter().map(|(entry, origin)| {
                        rule(&entry.pattern, entry.verdict, entry.reason, origin)
                    }));
                }
            }
        }
        let mut all = mcp_baseline(&rules);
        all.append(&mut rules);
        RuleSet::from_rules(all, default, yolo)
    }
}

/// What may be looked at in MCP servers as soon as any MCP rule allows something, as the peer has it. It stands before the
/// configured rules, so each of them still wins.
fn mcp_baseline(rules: &[Arc<Rule>]) -> Vec<Arc<Rule>> {
    let any_allow = rules
        .iter()
        .any(|rule| rule.surface == "mcp" && rule.verdict == Verdict::Allow);
    if !any_allow {
        return Vec::new();
    }
    [
        "mcp_status",
        "mcp_list",
        "mcp_search",
        "mcp_describe",
        "mcp_connect",
    ]
    .into_iter()
    .map(|target| {
        Arc::new(Rule {
            surface: "mcp".to_owned(),
            pattern: Pattern::literal(target),
            verdict: Verdict::Allow,
            reason: None,
            origin: Origin::Baseline,
        })
    })
    .collect()
}

/// Writes a bare family as its two directions: first what the bare key says, then what an explicit direction says, which so
/// has the last word whichever key stands first in the file.
fn expand_families(map: &PermissionMap) -> Vec<(String, SurfaceRules)> {
    let mut expanded: Vec<(String, SurfaceRules)> = Vec::with_capacity(map.surfaces.len());
    for (surface, rules) in &map.surfaces {
        let Some(members) = family_members(surface) else {
            if !expanded.iter().any(|(key, _)| key == surface) {
                expanded.push((surface.clone(), rules.clone()));
            }
            continue;
        };
        for member in members {
            let both = match map.get(member) {
                None => rules.clone(),
                Some(explicit) => bare_then_explicit(rules, explicit),
            };
            match expanded.iter_mut().find(|(key, _)| key == member) {
                Some((_, old)) => *old = both,
                None => expanded.push((member.to_owned(), both)),
            }
        }
    }
    expanded
}

fn bare_then_explicit(bare: &SurfaceRules, explicit: &SurfaceRules) -> SurfaceRules {
    let explicit = patterns_of(explicit);
    let mut all: Vec<PatternRule> = patterns_of(bare)
        .into_iter()
        .filter(|rule| !explicit.iter().any(|other| other.pattern == rule.pattern))
        .collect();
    all.extend(explicit);
    SurfaceRules::Patterns(all)
}

fn patterns_of(rules: &SurfaceRules) -> Vec<PatternRule> {
    match rules {
        SurfaceRules::Whole(verdict) => vec![PatternRule {
            pattern: "*".to_owned(),
            verdict: *verdict,
            reason: None,
        }],
        SurfaceRules::Patterns(patterns) => patterns.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Config;

    fn map(permission: &str) -> PermissionMap {
        Config::read(
            format!("{{\"permission\": {permission}}}").as_bytes(),
            "test",
        )
        .unwrap()
        .permission
    }

    fn shown(rules: &RuleSet) -> Vec<String> {
        rules
            .rules()
            .iter()
            .map(|rule| {
                format!(
                    "{} {} {} {}",
                    rule.surface,
                    rule.pattern.as_str(),
                    rule.verdict.name(),
                    rule.origin.name()
                )
            })
            .collect()
    }

    fn layered(global: &str, project: &str, scout: &str) -> Policy {
        Policy::from_layers(&Layers {
            global: LayerRules::Rules(&map(global)),
            project: LayerRules::Rules(&map(project)),
            agents: vec![AgentLayer {
                agent: "scout",
                owner: AgentOwner::User,
                rules: LayerRules::Rules(&map(scout)),
            }],
            ..Layers::default()
        })
    }

    #[test]
    fn the_strictest_verdict_is_the_greatest() {
        assert!(Verdict::Allow < Verdict::Ask && Verdict::Ask < Verdict::Deny);
        for verdict in [Verdict::Allow, Verdict::Ask, Verdict::Deny] {
            assert_eq!(Verdict::from_name(verdict.name()), Some(verdict));
        }
    }

    #[test]
    fn a_pattern_that_stands_in_two_layers_keeps_its_first_place() {
        let policy = layered(
            r#"{"bash": {"*": "ask", "git *": "allow", "rm *": "deny"}, "read": "allow", "edit": {"a": "ask"}}"#,
            r#"{"bash": {"make": "allow", "*": "deny"}, "read": {"x": "deny"}}"#,
            r#"{"bash": {"git *": "ask"}, "edit": "allow"}"#,
        );
        assert_eq!(
            shown(policy.rules_for("scout")),
            [
                "bash * deny project",
                "bash git * ask agent",
                "bash rm * deny global",
                "bash make allow project",
                "read x deny project",
                "edit * allow agent",
            ]
        );
        assert_eq!(
            shown(policy.rules_for("anyone else")),
            [
                "bash * deny project",
                "bash git * allow global",
                "bash rm * deny global",
                "bash make allow project",
                "read x deny project",
                "edit a ask global",
            ]
        );
    }

    #[test]
    fn a_bare_family_is_both_directions_and_an_explicit_one_has_the_last_word() {
        for permission in [
            r#"{"path": {"*": "ask", "*.env": "deny"}, "path_read": {"*": "allow"}}"#,
            r#"{"path_read": {"*": "allow"}, "path": {"*": "ask", "*.env": "deny"}}"#,
        ] {
            let policy = layered(permission, "{}", "{}");
            let mut rules = shown(policy.rules_for(""));
            // The place of the surfaces among each other says nothing.
            rules.sort_by_key(|rule| rule.starts_with("path_write"));
            assert_eq!(
                rules,
                [
                    "path_read *.env deny global",
                    "path_read * allow global",
                    "path_write * ask global",
                    "path_write *.env deny global",
                ]
            );
        }
    }

    #[test]
    fn what_no_rule_matches_is_the_word_of_the_star_key() {
        let policy = layered("{}", "{}", "{}");
        assert_eq!(
            policy.rules_for("").default_verdict(),
            (Verdict::Ask, Origin::Builtin)
        );
        let policy = layered(r#"{"*": "allow"}"#, "{}", r#"{"*": "deny"}"#);
        assert_eq!(
            policy.rules_for("").default_verdict(),
            (Verdict::Allow, Origin::Global)
        );
        assert_eq!(
            policy.rules_for("scout").default_verdict(),
            (Verdict::Deny, Origin::Agent)
        );
        // Patterns under it replace the word and say nothing themselves.
        let policy = layered(r#"{"*": "allow"}"#, r#"{"*": {"x": "allow"}}"#, "{}");
        assert_eq!(
            policy.rules_for("").default_verdict(),
            (Verdict::Ask, Origin::Builtin)
        );
        assert!(policy.rules_for("").rules().is_empty());
    }

    #[test]
    fn an_mcp_allow_brings_the_looking_around_along() {
        let policy = layered(r#"{"mcp": {"exa:*": "allow"}}"#, "{}", "{}");
        let rules = shown(policy.rules_for(""));
        assert_eq!(rules.len(), 6);
        assert_eq!(rules[0], "mcp mcp_status allow baseline");
        assert_eq!(rules[5], "mcp exa:* allow global");
        let policy = layered(r#"{"mcp": {"exa:*": "ask"}}"#, "{}", "{}");
        assert_eq!(shown(policy.rules_for("")).len(), 1);
    }

    #[test]
    fn a_broken_layer_leaves_no_allow_to_those_it_speaks_of() {
        let global = map(r#"{"*": "allow", "bash": {"ls": "allow", "rm": "deny"}}"#);
        let policy = Policy::from_layers(&Layers {
            global: LayerRules::Rules(&global),
            agents: vec![AgentLayer {
                agent: "scout",
                owner: AgentOwner::Project,
                rules: LayerRules::Unreadable,
            }],
            yolo: Switch::On,
            ..Layers::default()
        });
        let scout = policy.rules_for("scout");
        assert_eq!(
            shown(scout),
            ["bash ls ask fail-closed", "bash rm deny global"]
        );
        assert_eq!(scout.default_verdict(), (Verdict::Ask, Origin::FailClosed));
        assert_eq!(scout.yolo(), Switch::Off);
        let base = policy.rules_for("");
        assert_eq!(shown(base), ["bash ls allow global", "bash rm deny global"]);
        assert_eq!(base.yolo(), Switch::On);
        assert!(scout.is_clamped() && !policy.is_clamped());
        let clamped = policy.clamped();
        assert!(clamped.is_clamped());
        assert_eq!(
            shown(clamped.rules_for("")),
            ["bash ls ask fail-closed", "bash rm deny global"]
        );
    }
}

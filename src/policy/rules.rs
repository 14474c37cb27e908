//! Rules in their order, the layers they come from, and the policy that is made of them.
//!
//! How layers are laid over each other is the business of `merge`. The rules of one surface key stay together, as a section, in
//! the order in which the last match wins; a question about a surface is put to each section whose key covers it. Sections are
//! shared: an agent without rules of its own on a surface has the very section that everybody has. Within a section, and among
//! the sections, what may match is looked up in an `Index`, so that a question costs about the same among a hundred thousand
//! rules as among ten.
//!
//! Judging is done in `judge`; this module only says which rules there are and finds those that match.
//!
//! # Invariants
//!
//! * No compiled rule lives on a bare family: a question about one is judged in both directions.
//! * A layer that could not be read never leaves an allow standing for those whom it speaks of.
//! * What the index finds is what a walk over all rules finds, in the same order.

use std::collections::HashMap;
use std::sync::Arc;

use super::config::Switch;
use super::index::Index;
use super::infrastructure::Infrastructure;
use super::merge::Merged;
use super::pattern::Pattern;
use super::permission::{PermissionMap, RulePlace};

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
    pub surface: Arc<str>,
    /// What the values of the ask are matched with.
    pub pattern: Pattern,
    /// What is said.
    pub verdict: Verdict,
    /// Why a deny denies.
    pub reason: Option<String>,
    /// Where the rule comes from.
    pub origin: Origin,
    /// Where it is written, if it was read from a file.
    pub place: Option<RulePlace>,
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
        let infrastructure = Infrastructure::new(layers.infrastructure, layers.home);
        let mut clamp = Clamp::default();
        let mut finish = |merged: &Merged<'_>| {
            let set = RuleSet {
                infrastructure: infrastructure.clone(),
                ..RuleSet::new(merged.sections(), merged.default_verdict(), layers.yolo)
            };
            if merged.is_broken() {
                set.clamped(&mut clamp)
            } else {
                set
            }
        };
        let mut shared = Merged::default();
        shared.lay(Origin::Global, layers.global);
        shared.lay(Origin::Project, layers.project);
        shared.compile(None, layers.home);
        let mut agents = HashMap::new();
        for layer in &layers.agents {
            if agents.contains_key(layer.agent) {
                continue;
            }
            let mut merged = shared.clone();
            for owner in [AgentOwner::User, AgentOwner::Project] {
                let own = layers.agents.iter();
                for of in own.filter(|of| of.owner == owner && of.agent == layer.agent) {
                    merged.lay(owner.origin(), of.rules);
                }
            }
            merged.compile(Some(&shared), layers.home);
            agents.insert(layer.agent.to_owned(), finish(&merged));
        }
        Self {
            base: finish(&shared),
            agents,
        }
    }

    /// The same policy with every allow turned into an ask, and without what undoes it (the switch, the directories of the
    /// host): for a session that found its configuration broken.
    #[must_use]
    pub fn clamped(self) -> Self {
        let mut clamp = Clamp::default();
        Self {
            base: self.base.clamped(&mut clamp),
            agents: self
                .agents
                .into_iter()
                .map(|(agent, rules)| (agent, rules.clamped(&mut clamp)))
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

    /// Whether an agent has rules of its own.
    pub fn knows_agent(&self, agent: &str) -> bool {
        self.agents.contains_key(agent)
    }
}

/// The rules of one surface key, in order.
#[derive(Debug)]
pub(super) struct Section {
    /// The key, matched with the surface of a question.
    covers: Pattern,
    rules: Vec<Arc<Rule>>,
    /// Each files the rules from a place on, up to where the next one begins.
    indexes: Vec<(usize, Arc<Index>)>,
}

impl Section {
    /// `rules` all have this surface.
    pub(super) fn new(surface: &str, rules: Vec<Arc<Rule>>) -> Self {
        let index = Index::of(rules.iter().map(|rule| &rule.pattern));
        Self {
            covers: Pattern::compile(surface, None),
            rules,
            indexes: vec![(0, Arc::new(index))],
        }
    }

    /// `rules` have the patterns of this section, whatever they say, and perhaps others behind them.
    pub(super) fn extended(&self, rules: Vec<Arc<Rule>>) -> Self {
        let mut indexes = self.indexes.clone();
        let added = rules.get(self.rules.len()..).unwrap_or_default();
        if !added.is_empty() {
            let index = Index::of(added.iter().map(|rule| &rule.pattern));
            indexes.push((self.rules.len(), Arc::new(index)));
        }
        Self {
            covers: self.covers.clone(),
            rules,
            indexes,
        }
    }

    /// Its rules, in order.
    pub(super) fn rules(&self) -> &[Arc<Rule>] {
        &self.rules
    }

    /// Calls `visit` with each rule that covers any of `values`, once and in order.
    fn matching<'a, S: AsRef<str>>(&'a self, values: &[S], visit: &mut impl FnMut(&'a Arc<Rule>)) {
        let mut found = Vec::new();
        for (from, index) in &self.indexes {
            found.clear();
            for value in values {
                index.candidates(value.as_ref(), &mut found);
            }
            found.sort_unstable();
            found.dedup();
            for rule in found.iter().filter_map(|at| self.rules.get(from + at)) {
                let covers = |value: &S| rule.pattern.matches(value.as_ref());
                if values.iter().any(covers) {
                    visit(rule);
                }
            }
        }
    }
}

/// Turns sections into such that allow nothing, each of them once however many agents share it.
#[derive(Default)]
struct Clamp {
    /// By the address of a section, which is kept so that no other one gets it.
    done: HashMap<*const Section, (Arc<Section>, Arc<Section>)>,
}

impl Clamp {
    fn section(&mut self, section: &Arc<Section>) -> Arc<Section> {
        if section
            .rules
            .iter()
            .all(|rule| rule.verdict != Verdict::Allow)
        {
            return Arc::clone(section);
        }
        let (_, clamped) = self.done.entry(Arc::as_ptr(section)).or_insert_with(|| {
            let rules = section.rules.iter().map(|rule| {
                if rule.verdict == Verdict::Allow {
                    Arc::new(Rule {
                        verdict: Verdict::Ask,
                        origin: Origin::FailClosed,
                        ..(**rule).clone()
                    })
                } else {
                    Arc::clone(rule)
                }
            });
            let clamped = section.extended(rules.collect());
            (Arc::clone(section), Arc::new(clamped))
        });
        Arc::clone(clamped)
    }
}

/// Merged and compiled rules, in the order in which the last match wins.
#[derive(Debug, Clone)]
pub struct RuleSet {
    sections: Vec<Arc<Section>>,
    /// The sections by their surface keys.
    surfaces: Arc<Index>,
    default: (Verdict, Origin),
    yolo: Switch,
    infrastructure: Infrastructure,
    clamped: bool,
}

impl RuleSet {
    fn new(sections: Vec<Arc<Section>>, default: (Verdict, Origin), yolo: Switch) -> Self {
        let surfaces = Index::of(sections.iter().map(|section| &section.covers));
        Self {
            sections,
            surfaces: Arc::new(surfaces),
            default,
            yolo,
            infrastructure: Infrastructure::default(),
            clamped: false,
        }
    }

    fn clamped(self, clamp: &mut Clamp) -> Self {
        let sections = self.sections.iter();
        Self {
            sections: sections.map(|section| clamp.section(section)).collect(),
            surfaces: self.surfaces,
            default: match self.default {
                (Verdict::Allow, _) => (Verdict::Ask, Origin::FailClosed),
                other => other,
            },
            yolo: Switch::Off,
            infrastructure: Infrastructure::default(),
            clamped: true,
        }
    }

    /// Whether something that was to be read here could not be, so that every allow is an ask.
    pub fn is_clamped(&self) -> bool {
        self.clamped
    }

    /// Every rule, in order.
    pub fn rules(&self) -> impl Iterator<Item = &Arc<Rule>> {
        self.sections.iter().flat_map(|section| &section.rules)
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

    /// Calls `visit` with each rule whose surface covers `surface` and whose pattern covers any of `values`, once and in order.
    pub(crate) fn matching<'a, S: AsRef<str>>(
        &'a self,
        surface: &str,
        values: &[S],
        mut visit: impl FnMut(&'a Arc<Rule>),
    ) {
        let mut found = Vec::new();
        self.surfaces.candidates(surface, &mut found);
        found.sort_unstable();
        found.dedup();
        for section in found.into_iter().filter_map(|at| self.sections.get(at)) {
            if section.covers.matches(surface) {
                section.matching(values, &mut visit);
            }
        }
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
        assert!(policy.rules_for("").rules().next().is_none());
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

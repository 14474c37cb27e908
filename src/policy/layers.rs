//! The layers of a configuration laid over each other: that of the user, that of the project, and the front matter of the agents
//! of both.
//!
//! Key by key the project comes over the user, where it may ([`super::keys`]); the rules are laid surface by surface, each with
//! its origin. Which files there are, and whether a project is trusted at all, is the caller's to know: what is not trusted is
//! not handed in.
//!
//! # Invariants
//!
//! * A layer that cannot be read leaves what it said before in force as far as it denies, and allows nothing.
//! * Nothing of a project loosens what belongs to the machine or the person.

use std::collections::{BTreeMap, HashSet};

use super::config::{Config, Notice};
use super::front_matter::FrontMatter;
use super::json::Position;
use super::keys::{Counts, KEYS, ProjectMay};
use super::rules::{AgentLayer, AgentOwner, LayerRules, Layers, Policy};

/// One configuration file that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// Its name, for people.
    pub label: String,
    /// What it says.
    pub config: Config,
}

/// The front matter of one agent's file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentSource {
    /// The agent, as asks name it.
    pub agent: String,
    /// Whose agent it is.
    pub owner: AgentOwner,
    /// Name of the file, for people.
    pub label: String,
    /// What it says, or said when it could be read last.
    pub front: Option<FrontMatter>,
    /// Why it cannot be read now: then it allows nothing.
    pub trouble: Option<String>,
}

/// Everything that was read, before it is laid over each other.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Sources {
    /// The configuration of the user.
    pub global: Option<Source>,
    /// The configuration of the project, where it is trusted.
    pub project: Option<Source>,
    /// Agents of both.
    pub agents: Vec<AgentSource>,
    /// Whether programs that the project names may run. They may not where its files have changed since somebody looked.
    pub without_programs_of_project: bool,
    /// Whether a configuration cannot be read now: then nothing is allowed at all.
    pub is_broken: bool,
}

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stated {
    /// Name of the file.
    pub label: String,
    /// Where in it.
    pub position: Position,
}

/// A key of a project's configuration that does not count, or not all of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Withheld {
    /// The key.
    pub key: &'static str,
    /// What a project may do with it.
    pub may: ProjectMay,
}

impl Withheld {
    /// Why it does not count, as half a sentence.
    pub fn why(self) -> &'static str {
        match self.may {
            ProjectMay::SwitchOn => "a project may switch it on, never off",
            ProjectMay::SwitchOff => "a project may switch it off, never on",
            ProjectMay::Lower => "a project may lower it, never raise it",
            ProjectMay::Nothing => "it is not for a project to say",
            ProjectMay::Set | ProjectMay::Add => {
                "the files of the project have changed since they were trusted, so none of its programs is run"
            }
        }
    }
}

/// What holds, and where it comes from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Layered {
    /// The effective configuration. Its `permission` is the user's alone: rules are laid by [`Sources::policy`].
    pub config: Config,
    /// Where each key is stated that is: the user's file, the project's, or both.
    pub origins: BTreeMap<&'static str, Vec<Stated>>,
    /// What of the project does not count.
    pub withheld: Vec<Withheld>,
}

impl Sources {
    /// Lays the configurations over each other.
    pub fn layered(&self) -> Layered {
        let mut layered = Layered::default();
        if let Some(Source { label, config }) = &self.global {
            layered.config = config.clone();
            for (key, position) in &config.stated {
                layered.note(key, label, *position);
            }
        }
        let Some(Source { label, config }) = &self.project else {
            return layered;
        };
        for key in &KEYS {
            let Some(position) = config.stated.get(key.name) else {
                continue;
            };
            let is_program = matches!(key.name, "annotators" | "evidenceFormatters");
            let withheld = is_program && self.without_programs_of_project;
            if withheld || !layered.config.lay(key, config) {
                layered.withheld.push(Withheld {
                    key: key.name,
                    may: key.project,
                });
                // What counts in part has its place here all the same.
                if key.project != ProjectMay::Lower {
                    continue;
                }
            }
            // What is not added to is replaced.
            if key.project == ProjectMay::Set {
                layered.origins.remove(key.name);
            }
            layered.note(key.name, label, *position);
        }
        layered
            .config
            .notices
            .extend(config.notices.iter().cloned());
        layered.drop_notices_of_known_programs();
        layered
    }

    /// Merges and compiles the rules of all layers.
    pub fn policy(&self, config: &Config, home: Option<&str>) -> Policy {
        fn rules(source: Option<&Source>) -> LayerRules<'_> {
            source.map_or(LayerRules::Absent, |source| {
                LayerRules::Rules(&source.config.permission)
            })
        }
        let policy = Policy::from_layers(&Layers {
            global: rules(self.global.as_ref()),
            project: rules(self.project.as_ref()),
            agents: self.agents.iter().flat_map(AgentSource::layers).collect(),
            yolo: config.yolo_mode,
            infrastructure: &config.pi_infrastructure_read_paths,
            home,
        });
        if self.is_broken {
            policy.clamped()
        } else {
            policy
        }
    }
}

impl AgentSource {
    /// What it says; where it cannot be read now, that too, so that its denies stay and its allows do not.
    fn layers(&self) -> impl Iterator<Item = AgentLayer<'_>> {
        let layer = |rules| AgentLayer {
            agent: &self.agent,
            owner: self.owner,
            rules,
        };
        let said = self
            .front
            .as_ref()
            .and_then(|front| front.permission.as_ref());
        let said = said.map(|rules| layer(LayerRules::Rules(rules)));
        let broken = self.trouble.as_ref().map(|_| layer(LayerRules::Unreadable));
        said.into_iter().chain(broken)
    }
}

impl Layered {
    fn note(&mut self, key: &'static str, label: &str, position: Position) {
        self.origins.entry(key).or_default().push(Stated {
            label: label.to_owned(),
            position,
        });
    }

    /// The keys whose values differ in a way that a session heeds only when it starts.
    pub fn counts_from_next_start(&self, before: &Self) -> Vec<&'static str> {
        KEYS.iter()
            .filter(|key| key.counts == Counts::FromStart)
            .map(|key| key.name)
            .filter(|key| self.config.value_of(key) != before.config.value_of(key))
            .collect()
    }

    /// A chain may name a program that another layer has.
    fn drop_notices_of_known_programs(&mut self) {
        let known: HashSet<(&str, &String)> = (self.config.authorizers.keys())
            .map(|name| ("authorizerChain", name))
            .chain(
                self.config
                    .annotators
                    .keys()
                    .map(|name| ("annotatorChain", name)),
            )
            .collect();
        let stays = |notice: &Notice| {
            let missing = notice.without_program.as_ref();
            missing.is_none_or(|(chain, name)| !known.contains(&(*chain, name)))
        };
        let notices = std::mem::take(&mut self.config.notices);
        self.config.notices = notices.into_iter().filter(stays).collect();
    }
}

#[cfg(test)]
mod tests;

//! Where things are: the spool, the configuration, the review log, each from its flag, its variable or its default.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;

use super::env::{self, Env};
use super::{Hinted, PlaceArgs, output};
use crate::audit::{Options, ReviewLog};
use crate::clock;
use crate::policy::{
    AgentLayer, AgentOwner, Config, FrontMatter, LayerRules, Layers, MAX_CONFIG_BYTES, Policy,
};
use crate::spool::{Missing, OperatorFile, Spool, list_operator_files, read_operator_file};
use crate::wire::SessionId;

/// Where things are, resolved.
pub(super) struct Place<'a> {
    env: &'a Env,
    args: &'a PlaceArgs,
}

/// A configuration, and the directory that its agents lie in.
pub(super) struct Loaded {
    /// The configuration; defaults where there is no file.
    pub(super) config: Config,
    agents: Option<PathBuf>,
}

impl<'a> Place<'a> {
    pub(super) fn new(env: &'a Env, args: &'a PlaceArgs) -> Self {
        Self { env, args }
    }

    /// Path of the spool.
    pub(super) fn spool_path(&self) -> anyhow::Result<PathBuf> {
        let named = self
            .args
            .spool
            .clone()
            .or_else(|| self.env.own_path(env::SPOOL));
        let path = match named {
            Some(path) if path.as_os_str() == "pi" => self.env.peer_spool(),
            Some(path) => Some(self.absolute(&path)),
            None => self.env.state_dir().map(|dir| dir.join("spool")),
        };
        path.ok_or_else(|| {
            Hinted::usage(
                "no home directory is known to put the spool in",
                "name one with --spool DIR",
            )
        })
    }

    /// Opens the spool.
    pub(super) fn spool(&self, missing: Missing) -> anyhow::Result<Spool> {
        Ok(Spool::open(&self.spool_path()?, missing)?)
    }

    /// Path of the configuration; there may be no file. `None` where no home is known.
    pub(super) fn config_path(&self) -> Option<PathBuf> {
        let named = self
            .args
            .config
            .clone()
            .or_else(|| self.env.own_path(env::CONFIG));
        match &named {
            Some(path) => Some(self.absolute(path)),
            None => self.env.config_dir().map(|dir| dir.join("config.json")),
        }
    }

    /// Reads the configuration. A file that was named must be there; the default one need not.
    pub(super) fn config(&self) -> anyhow::Result<Loaded> {
        let named = self
            .args
            .config
            .clone()
            .or_else(|| self.env.own_path(env::CONFIG));
        let path = match &named {
            Some(path) => Some(self.absolute(path)),
            None => self.env.config_dir().map(|dir| dir.join("config.json")),
        };
        let Some(path) = path else {
            return Ok(Loaded {
                config: Config::default(),
                agents: None,
            });
        };
        let agents = path.parent().map(|dir| dir.join("agents"));
        match read_operator_file(&path, MAX_CONFIG_BYTES)
            .context("cannot read the configuration")?
        {
            OperatorFile::Missing if named.is_some() => Err(Hinted::usage(
                format!("there is no configuration at {}", path.display()),
                "check --config and ASKRELAY_CONFIG; without them the defaults hold",
            )),
            OperatorFile::Missing => Ok(Loaded {
                config: Config::default(),
                agents,
            }),
            OperatorFile::Content(bytes) => match Config::read(&bytes, &path.to_string_lossy()) {
                Ok(config) => {
                    for notice in &config.notices {
                        output::warn(&notice.to_string());
                    }
                    Ok(Loaded { config, agents })
                }
                Err(error) => Err(Hinted::usage(
                    error.to_string(),
                    "docs/configuration.md lists the keys; a file with an error is not used in part",
                )),
            },
        }
    }

    /// Says which keys of the configuration are set and not heeded in this version.
    pub(super) fn warn_of_keys_not_in_force(config: &Config) {
        let keys = config.not_in_force();
        if !keys.is_empty() {
            output::warn(&format!(
                "set in the configuration, and not in force in this version: {}",
                keys.join(", ")
            ));
        }
    }

    /// Path of the review log, unless it is switched off.
    fn log_path(&self, config: &Config) -> anyhow::Result<Option<PathBuf>> {
        if !config.permission_review_log.is_on() {
            return Ok(None);
        }
        self.log_file().map(Some)
    }

    /// Where the review log is to lie, whether it is written or not.
    pub(super) fn log_file(&self) -> anyhow::Result<PathBuf> {
        self.named_log()
            .map(|path| self.absolute(&path))
            .or_else(|| self.env.state_dir().map(|dir| dir.join("review.jsonl")))
            .context("no home directory is known to put the review log in")
    }

    /// Whether the review log was named by its flag or variable.
    pub(super) fn names_log(&self) -> bool {
        self.named_log().is_some()
    }

    fn named_log(&self) -> Option<PathBuf> {
        self.args
            .log
            .clone()
            .or_else(|| self.env.own_path(env::LOG))
    }

    fn log_options(config: &Config) -> Options {
        Options {
            field_max_width: config.review_log_field_max_width,
            max_bytes: config.review_log_rotation.max_bytes,
            max_age: config.review_log_rotation.max_age,
        }
    }

    /// The review log of a session that decides nothing unrecorded: it is switched on, and can be opened now.
    pub(super) fn required_log(&self, config: &Config) -> anyhow::Result<Arc<ReviewLog>> {
        let Some(path) = self.log_path(config)? else {
            return Err(Hinted::usage(
                "\"requireAudit\" is on, and \"permissionReviewLog\" is off".to_owned(),
                "switch the log on: without it every decision would be unrecorded",
            ));
        };
        Ok(Arc::new(ReviewLog::open(&path, Self::log_options(config))?))
    }

    /// The review log, unless it is switched off. Where it cannot be opened, that is said, and tried again with each record.
    pub(super) fn log(&self, config: &Config) -> Arc<ReviewLog> {
        let path = match self.log_path(config) {
            Ok(Some(path)) => path,
            Ok(None) => return Arc::new(ReviewLog::disabled()),
            Err(error) => {
                output::warn(&format!("the review log is not written: {error:#}"));
                return Arc::new(ReviewLog::disabled());
            }
        };
        let options = Self::log_options(config);
        Arc::new(match ReviewLog::open(&path, options.clone()) {
            Ok(log) => log,
            Err(error) => {
                output::warn(&format!(
                    "the review log is not written: {} ({})",
                    crate::ask::describe(&error),
                    error.hint()
                ));
                ReviewLog::unopened(&path, options, clock::wall_ms(), &error)
            }
        })
    }

    /// The session that is meant where nothing else says.
    pub(super) fn default_session(config: &Config) -> String {
        config
            .session
            .as_ref()
            .map_or(crate::policy::DEFAULT_SESSION, SessionId::as_str)
            .to_owned()
    }

    /// Home directory, for patterns.
    pub(super) fn home(&self) -> Option<String> {
        self.env
            .home()
            .map(|home| home.to_string_lossy().into_owned())
    }

    /// A path as seen from the working directory.
    pub(super) fn absolute(&self, path: &Path) -> PathBuf {
        match self.env.cwd() {
            Some(cwd) => cwd.join(path),
            None => path.to_owned(),
        }
    }
}

impl Loaded {
    /// Compiles the recorded policy: the configuration's rules, and those of the agents beside it. An agent whose file cannot
    /// be read is allowed nothing by a rule.
    pub(super) fn policy(&self, home: Option<&str>) -> anyhow::Result<Policy> {
        self.policy_under(&self.config, home)
    }

    /// The same with another configuration of the user.
    pub(super) fn policy_under(
        &self,
        config: &Config,
        home: Option<&str>,
    ) -> anyhow::Result<Policy> {
        let mut agents = Vec::new();
        for path in self
            .agents
            .iter()
            .map(|dir| list_operator_files(dir, ".md"))
            .collect::<Result<Vec<_>, _>>()?
            .concat()
        {
            let Some(name) = path.file_stem().and_then(|stem| stem.to_str()) else {
                continue;
            };
            let label = path.to_string_lossy();
            let read = match read_operator_file(&path, MAX_CONFIG_BYTES) {
                Ok(OperatorFile::Content(bytes)) => {
                    FrontMatter::read(&bytes, &label).map_err(|error| error.to_string())
                }
                Ok(OperatorFile::Missing) => continue,
                Err(error) => Err(crate::ask::describe(&error)),
            };
            if let Err(cause) = &read {
                output::warn(&format!(
                    "agent {name} is allowed nothing by a rule: {cause}"
                ));
            }
            agents.push((name.to_owned(), read.ok()));
        }
        let layers = Layers {
            global: LayerRules::Rules(&config.permission),
            project: LayerRules::Absent,
            agents: agents
                .iter()
                .filter_map(|(name, read)| layer(name, read.as_ref()))
                .collect(),
            yolo: config.yolo_mode,
            infrastructure: &config.pi_infrastructure_read_paths,
            home,
        };
        Ok(Policy::from_layers(&layers))
    }
}

fn layer<'a>(agent: &'a str, read: Option<&'a FrontMatter>) -> Option<AgentLayer<'a>> {
    let rules = match read {
        None => LayerRules::Unreadable,
        Some(front) => LayerRules::Rules(front.permission.as_ref()?),
    };
    Some(AgentLayer {
        agent,
        owner: AgentOwner::User,
        rules,
    })
}

//! Where things are: the spool, the configuration, the review log, each from its flag, its variable or its default.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;

use super::env::{self, Env};
use super::layers::{FileSeen, InForce, Layout, Seen, Wanted};
use super::{Hinted, PlaceArgs, output, role};
use crate::audit::{Options, ReviewLog, Stream};
use crate::clock;
use crate::policy::{
    Config, Layered, MAX_CONFIG_BYTES, Policy, Salvaged, SessionKey, Source, Switch,
};
use crate::serve::{SourceFile, Trouble};
use crate::spool::{
    Missing, OperatorFile, Spool, TrustStore, canonical_directory, read_operator_file,
};
use crate::wire::SessionId;

/// Where things are, resolved.
pub(super) struct Place<'a> {
    env: &'a Env,
    args: &'a PlaceArgs,
}

/// All layers of a configuration, as they are in force.
pub(super) struct Loaded {
    /// The effective settings; defaults where there is no file.
    pub(super) config: Config,
    /// Where the layers lie.
    pub(super) layout: Layout,
    /// Which paths were looked at.
    pub(super) places: Vec<PathBuf>,
    /// Which files were read.
    pub(super) files: Vec<SourceFile>,
    /// What of them counts.
    pub(super) force: InForce,
    /// The same, laid over each other.
    pub(super) layered: Layered,
}

/// The settings of a process that decides nothing.
pub(super) struct Asking {
    /// The settings.
    pub(super) config: Config,
    /// What is wrong with the user's configuration, where it is broken.
    pub(super) broken: Option<String>,
    session: SessionKey,
}

impl Asking {
    /// Says on stderr that the configuration is broken, where it is.
    pub(super) fn warn(&self) {
        if let Some(text) = &self.broken {
            output::warn(&format!(
                "the configuration is broken, and what can be read of it holds: {text}"
            ));
        }
    }

    /// Says that nobody knows which session is meant, where that would have to be the configuration's and it cannot be read: another
    /// session is decided for by somebody else.
    pub(super) fn check_default_is_meant(&self, reason: &str) -> anyhow::Result<()> {
        match (self.session, &self.broken) {
            (SessionKey::Unknown, Some(text)) if reason == role::DEFAULT => Err(unusable(text)),
            (SessionKey::Unknown | SessionKey::Known, _) => Ok(()),
        }
    }
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

    /// Where the layers of the configuration lie.
    pub(super) fn layout(&self) -> anyhow::Result<Layout> {
        let global = match self.named_config() {
            Some(path) => Some(self.absolute(&path)),
            None => self.env.config_dir().map(|dir| dir.join("config.json")),
        };
        Ok(Layout {
            global,
            project: self.project()?,
            store: self.trust_store(),
        })
    }

    fn named_config(&self) -> Option<PathBuf> {
        self.args
            .config
            .clone()
            .or_else(|| self.env.own_path(env::CONFIG))
    }

    /// The directory of the project, canonical: the one that was named, which must be there, or the working directory.
    pub(super) fn project(&self) -> anyhow::Result<Option<PathBuf>> {
        match &self.args.project {
            _ if self.args.no_project => Ok(None),
            Some(path) => canonical_directory(&self.absolute(path))
                .map(Some)
                .map_err(|error| {
                    Hinted::usage(
                        format!(
                            "{} cannot be the project: {}",
                            path.display(),
                            crate::ask::describe(&error)
                        ),
                        "name a directory with --project, or go without one by --no-project",
                    )
                }),
            // A working directory that is gone holds no configuration.
            None => Ok(self.env.cwd().and_then(|cwd| canonical_directory(cwd).ok())),
        }
    }

    /// Where it stands which projects are trusted.
    pub(super) fn trust_store(&self) -> Option<TrustStore> {
        let state = self.env.state_dir()?;
        Some(TrustStore::new(state.join("trusted")))
    }

    /// Reads all layers of the configuration, and says what somebody should know of them. A file that was named must be there; the
    /// default one need not.
    pub(super) fn config(&self) -> anyhow::Result<Loaded> {
        let layout = self.layout()?;
        let seen = layout.read(Wanted::Everything);
        self.check_global(&layout, &seen)?;
        let places = layout.places(&seen);
        let files = seen.files();
        let mut force = seen.in_force(None);
        if let (true, Some(trouble)) = (force.sources.is_broken, &force.trouble) {
            return Err(unusable(trouble.text()));
        }
        let layered = force.layered();
        let trouble = force.trouble.as_ref().map(Trouble::text);
        for text in trouble
            .into_iter()
            .chain(force.remarks.iter().map(String::as_str))
        {
            output::warn(text);
        }
        Self::tell_notices(&layered.config);
        Ok(Loaded {
            config: layered.config.clone(),
            layout,
            places,
            files,
            force,
            layered,
        })
    }

    /// Reads the settings alone, for a process that asks: the user's, and those of a project that is trusted.
    pub(super) fn settings(&self) -> anyhow::Result<Asking> {
        self.asking(&self.layout()?)
    }

    /// Reads the user's own settings, for a process that decides nothing.
    pub(super) fn user_config(&self) -> anyhow::Result<Asking> {
        self.asking(&Layout {
            project: None,
            ..self.layout()?
        })
    }

    /// What a process goes by that decides nothing. A configuration that is broken stops no ask: whoever serves keeps its denies and
    /// has the rest asked. What the operator should know of one that is not is told by `serve` and `config check`, not to every child.
    fn asking(&self, layout: &Layout) -> anyhow::Result<Asking> {
        let seen = layout.read(Wanted::Settings);
        let broken = match &seen.global {
            FileSeen::Broken { text, .. } => Some(text.clone()),
            FileSeen::Missing | FileSeen::Good { .. } => None,
        };
        let Some(text) = broken else {
            self.check_global(layout, &seen)?;
            return Ok(Asking {
                config: seen.in_force(None).layered().config,
                broken: None,
                session: SessionKey::Known,
            });
        };
        let path = layout.global.as_deref().unwrap_or(Path::new(""));
        let bytes = match read_operator_file(path, MAX_CONFIG_BYTES) {
            Ok(OperatorFile::Content(bytes)) => bytes,
            // What is no file of the operator's says nothing at all.
            Ok(OperatorFile::Missing) | Err(_) => Vec::new(),
        };
        let Salvaged {
            mut config,
            session,
        } = Config::salvage(&bytes, &text);
        // A project may demand seals as well.
        if seen.in_force(None).layered().config.require_seal.is_on() {
            config.require_seal = Switch::On;
        }
        Ok(Asking {
            config,
            broken: Some(text),
            session,
        })
    }

    fn check_global(&self, layout: &Layout, seen: &Seen) -> anyhow::Result<()> {
        let Some(path) = &layout.global else {
            return Ok(());
        };
        match &seen.global {
            FileSeen::Missing if self.named_config().is_some() => Err(Hinted::usage(
                format!("there is no configuration at {}", path.display()),
                "check --config and ASKRELAY_CONFIG; without them the defaults hold",
            )),
            FileSeen::Missing | FileSeen::Good { .. } => Ok(()),
            FileSeen::Broken { text, .. } => {
                // What the machine says against it has a hint of its own.
                let _read = read_operator_file(path, MAX_CONFIG_BYTES)
                    .context("cannot read the configuration")?;
                Err(unusable(text))
            }
        }
    }

    fn tell_notices(config: &Config) {
        for notice in &config.notices {
            output::warn(&notice.to_string());
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

    /// Whether the configuration was named by its flag or variable.
    pub(super) fn names_config(&self) -> bool {
        self.named_config().is_some()
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
            stream: Stream::Review,
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

    /// The debug log, where it is switched on: beside the review log, and no decision waits for it.
    pub(super) fn debug_log(&self, config: &Config) -> Arc<ReviewLog> {
        let off = || Arc::new(ReviewLog::disabled());
        if !config.debug_log.is_on() {
            return off();
        }
        let opened = self.log_file().and_then(|review| {
            let path = review.with_file_name("debug.jsonl");
            anyhow::ensure!(path != review, "{} is the review log", path.display());
            let options = Options {
                stream: Stream::Debug,
                ..Self::log_options(config)
            };
            Ok(ReviewLog::open(&path, options)?)
        });
        match opened {
            Ok(log) => Arc::new(log),
            Err(error) => {
                output::warn(&format!("the debug log is not written: {error:#}"));
                off()
            }
        }
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
        Self::from_cwd(self.env, path)
    }

    /// The same, where no places are known.
    pub(super) fn from_cwd(env: &Env, path: &Path) -> PathBuf {
        match env.cwd() {
            Some(cwd) => cwd.join(path),
            None => path.to_owned(),
        }
    }
}

impl Loaded {
    /// Compiles the recorded policy. An agent whose file cannot be read is allowed nothing by a rule.
    pub(super) fn policy(&self, home: Option<&str>) -> Policy {
        self.force.policy(&self.layered, home)
    }

    /// The same, if the user's configuration were this one.
    pub(super) fn policy_under(&self, config: Config, label: &str, home: Option<&str>) -> Policy {
        let mut sources = self.force.sources.clone();
        sources.global = Some(Source {
            label: label.to_owned(),
            config,
        });
        sources.policy(&sources.layered().config, home)
    }
}

fn unusable(text: &str) -> anyhow::Error {
    Hinted::usage(
        text.to_owned(),
        "`askrelay config check` says everything that is wrong, and docs/configuration.md lists the keys; a file with an error \
         is not used in part",
    )
}

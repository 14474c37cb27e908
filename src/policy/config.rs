//! The configuration of a session: what a file may say, what holds where it says nothing, and how it can be wrong.
//!
//! The keys of the peer keep their names, defaults and meaning; ours stand beside them. Every key is checked, used yet or not:
//! an unknown key, a doubled one, a value of another type or out of range is an error that says where it stands.
//!
//! Finding the file is the caller's, taking it apart is done in `read`; what a setting does is told where it is used.
//!
//! # Invariants
//!
//! * A file that cannot be read is never taken for an empty one.
//! * The order of surfaces and patterns is that of the file.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use super::dialog_keys::DialogKeys;
use super::json::{JsonProblem, Position};
use super::permission::{DIRECTIONAL_KEYS, MAX_REASON_CHARS, PermissionMap};
use super::rules::Verdict;
use crate::wire::{Generation, SessionId, SessionIdError};

/// Largest configuration that is read, in bytes: a hundred thousand rules have room in it several times over.
pub const MAX_CONFIG_BYTES: usize = 32 << 20;

/// Every key of a configuration.
pub const CONFIG_KEYS: [&str; 31] = [
    "$schema",
    "debugLog",
    "permissionReviewLog",
    "yoloMode",
    "doublePressToConfirm",
    "permissionDialogKeys",
    "forwardingTimeoutMs",
    "promptMaxRows",
    "promptFieldMaxWidth",
    "reviewLogFieldMaxWidth",
    "authorizerChain",
    "authorizerTrust",
    "piInfrastructureReadPaths",
    "shellTools",
    "permission",
    "toolInputPreviewMaxLength",
    "toolTextSummaryMaxLength",
    "session",
    "peerGeneration",
    "requireSeal",
    "requireAudit",
    "reviewLogRotation",
    "requestMaxAgeMs",
    "inbox",
    "authorizers",
    "annotatorChain",
    "annotators",
    "evidenceFormatters",
    "limits",
    "persistGrants",
    "hooks",
];

/// The session that is addressed and served when nobody names one.
pub const DEFAULT_SESSION: &str = "main";

/// A setting that is on or off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Switch {
    /// `false`.
    #[default]
    Off,
    /// `true`.
    On,
}

impl Switch {
    /// Whether it is on.
    pub fn is_on(self) -> bool {
        self == Self::On
    }
}

/// A whole configuration, defaults filled in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// `debugLog`: write a debug log. Off.
    pub debug_log: Switch,
    /// `permissionReviewLog`: write the review log. On.
    pub permission_review_log: Switch,
    /// `yoloMode`: every ask is an allow. Off.
    pub yolo_mode: Switch,
    /// `doublePressToConfirm`: a decision key arms first and decides when pressed again. On.
    pub double_press_to_confirm: Switch,
    /// `permissionDialogKeys`: keys of the dialog.
    pub permission_dialog_keys: DialogKeys,
    /// `forwardingTimeoutMs`: how long a requester waits. Ten minutes.
    pub forwarding_timeout: Duration,
    /// `promptMaxRows`: rows of a prompt before evidence gives way. 24.
    pub prompt_max_rows: usize,
    /// `promptFieldMaxWidth`: characters of one field in a prompt. 400.
    pub prompt_field_max_width: usize,
    /// `reviewLogFieldMaxWidth`: characters of one value in the review log. 1000.
    pub review_log_field_max_width: usize,
    /// `authorizerChain`: programs that are asked before the person, in order. None.
    pub authorizer_chain: Vec<String>,
    /// `authorizerTrust`: families on which an allow of a link counts. None.
    pub authorizer_trust: BTreeMap<String, Vec<Family>>,
    /// `piInfrastructureReadPaths`: directories that agents may read without asking, for the host itself lives there. None.
    pub pi_infrastructure_read_paths: Vec<String>,
    /// `shellTools`: tools that run command lines under another name. None.
    pub shell_tools: BTreeMap<String, ShellTool>,
    /// `permission`: the rules. None, so everything is asked.
    pub permission: PermissionMap,
    /// `session`: the session that is addressed and served when nothing else says. `None` stands for [`DEFAULT_SESSION`].
    pub session: Option<SessionId>,
    /// `peerGeneration`: what a request is written for. The newest.
    pub peer_generation: Generation,
    /// `requireSeal`: refuse an answer without a seal. Off.
    pub require_seal: Switch,
    /// `requireAudit`: no decision without its line in the log. Off.
    pub require_audit: Switch,
    /// `reviewLogRotation`: when the review log goes on in a new file.
    pub review_log_rotation: LogRotation,
    /// `requestMaxAgeMs`: expiry of a request where nothing better is known. Fifteen minutes.
    pub request_max_age: Duration,
    /// `inbox`: how asks wait when nobody sits in front of them.
    pub inbox: Inbox,
    /// `authorizers`: the programs that `authorizer_chain` names; 30 s each.
    pub authorizers: BTreeMap<String, Program>,
    /// `annotatorChain`: programs that annotate what a person is asked, in order. None.
    pub annotator_chain: Vec<String>,
    /// `annotators`: the programs that `annotator_chain` names; 3 s each.
    pub annotators: BTreeMap<String, Program>,
    /// `evidenceFormatters`: for each tool, a program that adds evidence; 1 s each.
    pub evidence_formatters: BTreeMap<String, Program>,
    /// `limits`: how much is taken in.
    pub limits: Limits,
    /// `persistGrants`: grants survive a restart of the server. Off.
    pub persist_grants: Switch,
    /// `hooks`: what the hook of a host does beyond answering it.
    pub hooks: Hooks,
    /// What the operator should know about the file.
    pub notices: Vec<Notice>,
    /// The keys that stand in the file, and where.
    pub stated: BTreeMap<&'static str, Position>,
}

impl Default for Config {
    /// What holds without a file.
    fn default() -> Self {
        Self {
            debug_log: Switch::Off,
            permission_review_log: Switch::On,
            yolo_mode: Switch::Off,
            double_press_to_confirm: Switch::On,
            permission_dialog_keys: DialogKeys::default(),
            forwarding_timeout: Duration::from_mins(10),
            prompt_max_rows: 24,
            prompt_field_max_width: 400,
            review_log_field_max_width: 1000,
            authorizer_chain: Vec::new(),
            authorizer_trust: BTreeMap::new(),
            pi_infrastructure_read_paths: Vec::new(),
            shell_tools: BTreeMap::new(),
            permission: PermissionMap::default(),
            session: None,
            peer_generation: Generation::default(),
            require_seal: Switch::Off,
            require_audit: Switch::Off,
            review_log_rotation: LogRotation::default(),
            request_max_age: Duration::from_mins(15),
            inbox: Inbox::default(),
            authorizers: BTreeMap::new(),
            annotator_chain: Vec::new(),
            annotators: BTreeMap::new(),
            evidence_formatters: BTreeMap::new(),
            limits: Limits::default(),
            persist_grants: Switch::Off,
            hooks: Hooks::default(),
            notices: Vec::new(),
            stated: BTreeMap::new(),
        }
    }
}

/// A family of surfaces on which a link of the chain may be trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Family {
    /// `path` and its directions.
    Path,
    /// `external_directory` and its directions.
    ExternalDirectory,
}

impl Family {
    /// Its bare name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Path => "path",
            Self::ExternalDirectory => "external_directory",
        }
    }
}

/// How the input of a tool names its command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShellTool {
    /// Argument that holds the command line.
    pub command_argument: String,
    /// Argument that holds the working directory.
    pub workdir_argument: Option<String>,
}

/// How asks wait when nobody sits in front of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Inbox {
    /// `maxPending`: how many may wait. 32.
    pub max_pending: usize,
    /// `expireMs`: how long one waits. Five minutes; `None` for as long as its requester does.
    pub expire: Option<Duration>,
    /// `retain`: how many settled ones are kept to look at. 128.
    pub retain: usize,
}

impl Default for Inbox {
    fn default() -> Self {
        Self {
            max_pending: 32,
            expire: Some(Duration::from_mins(5)),
            retain: 128,
        }
    }
}

/// When the review log goes on in a new file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogRotation {
    /// `maxBytes`: before its file would be larger than this. 64 MiB; `None` for never.
    pub max_bytes: Option<u64>,
    /// `maxAgeDays`: when its first line is older than this. 30 days; `None` for never.
    pub max_age: Option<Duration>,
}

impl Default for LogRotation {
    fn default() -> Self {
        Self {
            max_bytes: Some(64 << 20),
            max_age: Some(DAY * 30),
        }
    }
}

/// A day of 24 hours.
pub(super) const DAY: Duration = Duration::from_hours(24);

/// A program that takes part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// Program and arguments, never empty; no shell sees it.
    pub command: Vec<String>,
    /// How long it may take.
    pub timeout: Duration,
    /// `env`: variables that it inherits besides PATH, HOME and LANG.
    pub env: Vec<String>,
    /// Where it runs, and from where a relative path of it leads; `None` for wherever askrelay runs. No file says this: whoever
    /// reads the configuration of a project sets it, so that the files that run are those that were trusted.
    pub directory: Option<PathBuf>,
}

/// What the hook of a host does beyond answering it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Hooks {
    /// `denyStops`: what a person denies stops the agent as well, where its host can do that. Off.
    pub deny_stops: Switch,
    /// `hostRemembers`: what a person grants to a session is told to its host, which then asks no more. Off.
    pub host_remembers: Switch,
}

/// How much a session takes in before it denies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// `perRequesterPending`: waiting asks of one requester. 64.
    pub per_requester_pending: usize,
    /// `perSessionPending`: waiting asks of all. 1000.
    pub per_session_pending: usize,
    /// `perRequesterPerMinute`: asks of one requester within a minute. 600.
    pub per_requester_per_minute: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            per_requester_pending: 64,
            per_session_pending: 1000,
            per_requester_per_minute: 600,
        }
    }
}

/// Something in a valid configuration that the operator should know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// Name of the file, as the caller calls it.
    pub label: String,
    /// Where.
    pub position: Position,
    /// What, as a sentence without its full stop.
    pub text: String,
    /// The link of a chain that the notice says has no program: another layer may have one.
    pub without_program: Option<(&'static str, String)>,
}

impl std::fmt::Display for Notice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}: {}", self.label, self.position, self.text)
    }
}

/// A configuration that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    /// Name of the file, as the caller calls it.
    pub label: String,
    /// Where.
    pub position: Position,
    /// What.
    pub problem: ConfigProblem,
}

impl std::fmt::Display for ConfigError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}: {}", self.label, self.position, self.problem)
    }
}

impl std::error::Error for ConfigError {}

/// What is wrong with a configuration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigProblem {
    /// Not JSON.
    #[error(transparent)]
    Json(#[from] JsonProblem),
    /// A key that nobody knows.
    #[error("unknown key {key:?}{}{}", within_of(.within.as_deref()), hint_of(*.nearest))]
    UnknownKey {
        /// The key.
        key: String,
        /// The object in which it stands, unless it is the file.
        within: Option<String>,
        /// What was probably meant.
        nearest: Option<&'static str>,
    },
    /// A key that has to be there.
    #[error("{key:?} is missing in {within:?}")]
    MissingKey {
        /// The key.
        key: &'static str,
        /// The object in which it is missing.
        within: String,
    },
    /// A value of another type.
    #[error("{what:?} must be {wanted}, not {found}")]
    WrongType {
        /// Whose value.
        what: String,
        /// What it must be.
        wanted: &'static str,
        /// What it is.
        found: &'static str,
    },
    /// A number that is none of those that may stand here.
    #[error("{what:?} must be a whole number from {min} to {max}")]
    OutOfRange {
        /// Whose value.
        what: String,
        /// The least that may stand here.
        min: u64,
        /// The greatest.
        max: u64,
    },
    /// A text that is none of those that may stand here.
    #[error("{what:?} must be {wanted}, not {found:?}{}", hint_of(*.nearest))]
    UnknownValue {
        /// Whose value.
        what: String,
        /// What may stand here.
        wanted: &'static str,
        /// What does.
        found: String,
        /// What was probably meant.
        nearest: Option<&'static str>,
    },
    /// A text or list that may not be empty.
    #[error("{what:?} must not be empty")]
    EmptyValue {
        /// Whose value.
        what: String,
    },
    /// An empty key, where keys are names or patterns.
    #[error("an empty key is no {what}")]
    EmptyKey {
        /// What a key is here.
        what: &'static str,
    },
    /// A surface that looks like a direction of a family, and is none.
    #[error("unknown surface {key:?}{}; a direction is one of {}", hint_of(*.nearest), DIRECTIONAL_KEYS.join(", "))]
    UnknownDirection {
        /// The surface.
        key: String,
        /// What was probably meant.
        nearest: Option<&'static str>,
    },
    /// A reason that nobody would read to its end.
    #[error("a reason has at most {MAX_REASON_CHARS} characters, this one has {length}")]
    LongReason {
        /// How many it has.
        length: usize,
    },
    /// A reason of something that is no deny.
    #[error("only a deny has a reason, and this is {}", .verdict.name())]
    ReasonWithoutDeny {
        /// What it is.
        verdict: Verdict,
    },
    /// A value under `match` that the rule does not cover.
    #[error("{example:?} stands under \"match\", and {pattern:?} does not cover it{}", because_of(.because.as_deref()))]
    ExampleMissed {
        /// The pattern.
        pattern: String,
        /// The value.
        example: String,
        /// What else is in it, where that is the reason.
        because: Option<String>,
    },
    /// A value under `notMatch` that the rule covers.
    #[error("{example:?} stands under \"notMatch\", and {pattern:?} covers it")]
    ExampleCovered {
        /// The pattern.
        pattern: String,
        /// The value.
        example: String,
    },
    /// A name that no session can have.
    #[error("{found:?} cannot be a session: {why}")]
    BadSession {
        /// The name.
        found: String,
        /// Why not.
        why: SessionIdError,
    },
}

fn because_of(because: Option<&str>) -> String {
    because
        .map(|because| format!(": {because}"))
        .unwrap_or_default()
}

impl ConfigProblem {
    /// The key that it is about, where it is about one.
    pub fn key(&self) -> Option<&str> {
        match self {
            Self::UnknownKey { key, .. }
            | Self::UnknownDirection { key, .. }
            | Self::Json(JsonProblem::DuplicateKey { key, .. }) => Some(key),
            Self::MissingKey { key, .. } => Some(key),
            Self::WrongType { what, .. }
            | Self::OutOfRange { what, .. }
            | Self::UnknownValue { what, .. }
            | Self::EmptyValue { what } => Some(what),
            Self::BadSession { .. } => Some("session"),
            Self::LongReason { .. } | Self::ReasonWithoutDeny { .. } => Some("reason"),
            Self::ExampleMissed { pattern, .. } | Self::ExampleCovered { pattern, .. } => {
                Some(pattern)
            }
            Self::Json(_) | Self::EmptyKey { .. } => None,
        }
    }

    /// What was probably meant.
    pub fn nearest(&self) -> Option<&'static str> {
        match self {
            Self::UnknownKey { nearest, .. }
            | Self::UnknownDirection { nearest, .. }
            | Self::UnknownValue { nearest, .. } => *nearest,
            Self::Json(_)
            | Self::MissingKey { .. }
            | Self::WrongType { .. }
            | Self::OutOfRange { .. }
            | Self::EmptyValue { .. }
            | Self::EmptyKey { .. }
            | Self::LongReason { .. }
            | Self::ReasonWithoutDeny { .. }
            | Self::ExampleMissed { .. }
            | Self::ExampleCovered { .. }
            | Self::BadSession { .. } => None,
        }
    }
}

fn within_of(within: Option<&str>) -> String {
    within
        .map(|within| format!(" in {within:?}"))
        .unwrap_or_default()
}

fn hint_of(nearest: Option<&str>) -> String {
    nearest
        .map(|nearest| format!(" (did you mean {nearest:?}?)"))
        .unwrap_or_default()
}

//! Recorded authority: what the rules of a session, and the grants of the person in front of it, say about an ask.
//!
//! A configuration is read ([`Config`], [`FrontMatter`]), its layers are compiled once ([`Policy`]), and each ask is judged
//! against them ([`Policy::judge`]), which gives a [`Judgement`] with its decider, its reason and every rule that matched.
//!
//! This room reads no file, asks no clock and knows no home directory: bytes, and the home that `~` stands for, are handed in.
//! A command line is taken apart by [`crate::shell`]; what that cannot see through, no rule allows.
//!
//! # Invariants
//!
//! * Nothing that is missing, malformed or not understood is ever an allow.
//! * A deny is tried on everything and beats whatever else matched, a grant included.
//! * Another deny rule, another asking unit, a floor: none of them ever makes a verdict milder. No grant beats a deny.
//! * How many rules there are changes how long they are searched, a little, and never what is found: the index gives what a walk
//!   over all rules gives, every match in its order.
//! * Every command that a command line would run is judged; the strictest verdict holds.

mod command;
mod config;
mod dialog_keys;
mod envelope;
mod examples;
mod front_matter;
mod index;
mod infrastructure;
mod insert;
pub(crate) mod json;
mod judge;
mod keys;
mod layers;
mod merge;
mod nearest;
mod pattern;
mod permission;
mod read;
mod rules;
mod session_grant;
mod session_rules;
mod trace;

pub use crate::wire::Lifetime;
pub use config::{
    CONFIG_KEYS, Config, ConfigError, ConfigProblem, DEFAULT_SESSION, Family, Hooks, Inbox, Limits,
    LogRotation, MAX_CONFIG_BYTES, Notice, Program, ShellTool, Switch,
};
pub use dialog_keys::DialogKeys;
pub use envelope::{Bounds, Cap, Enveloped, RulesInForce};
pub use front_matter::{FrontMatter, FrontMatterError, FrontMatterProblem};
pub use insert::{NewRule, NewRules};
pub use json::{JsonProblem, Position};
pub use judge::{Judgement, Matched, MatchedRule, Question, TextFidelity};
pub use keys::{CONFIG_SCHEMA, Counts, KEYS, Key, ProjectMay};
pub use layers::{AgentSource, Layered, Source, Sources, Stated, Withheld};
pub use pattern::Pattern;
pub use permission::{
    MAX_REASON_CHARS, MapPlaces, PatternRule, PermissionMap, RulePlace, SurfaceRules,
};
pub use read::{Salvaged, SessionKey};
pub use rules::{
    AgentLayer, AgentOwner, LayerRules, Layers, Origin, Policy, Rule, RuleSet, Verdict,
};
pub use session_grant::{GrantForm, GrantId, GrantScope, GrantTerms, SessionGrant, chain_of};
pub use session_rules::{GrantPlan, Grants, SessionRules, Used};
pub use trace::{Explained, Part, SaidFloor, Step};

/// Surface of command lines.
pub const BASH_SURFACE: &str = "bash";

/// Surface of command lines that would run outside of the sandbox that an agent runs its commands in. Only a rule or a grant that names it
/// lets one run: what is said of everything else was not said of this.
pub const OUTSIDE_SANDBOX_SURFACE: &str = "outside_sandbox";

/// Whether the values of a surface are command lines, so that every command in them is judged.
pub fn is_command_surface(surface: &str) -> bool {
    matches!(surface, BASH_SURFACE | OUTSIDE_SANDBOX_SURFACE)
}

/// Whether the values of a surface are spellings of one path, so that a rule matches with any of them.
pub fn is_path_surface(surface: &str) -> bool {
    matches!(
        surface,
        "read"
            | "write"
            | "edit"
            | "find"
            | "grep"
            | "ls"
            | "path"
            | "path_read"
            | "path_write"
            | "external_directory"
            | "external_directory_read"
            | "external_directory_write"
    )
}

/// The two directions of a family, where `surface` is the bare name of one.
pub fn family_members(surface: &str) -> Option<[&'static str; 2]> {
    match surface {
        "path" => Some(["path_read", "path_write"]),
        "external_directory" => Some(["external_directory_read", "external_directory_write"]),
        _ => None,
    }
}

//! What a running session takes over when its configuration was read again.
//!
//! Whoever watches the files makes it; the session takes it over between two asks, whole, and judges again what waits. What needs
//! a restart is not in it.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::annotate::AnnotatorChain;
use super::chain::AuthorizerChain;
use crate::policy::{Limits, Policy};
use crate::wire::Digest;

/// A configuration that was read again.
#[derive(Debug, Clone)]
pub struct Renewal {
    /// The rules that hold from now on. Where a file is broken: the rules from before, with every allow an ask.
    pub policy: Arc<Policy>,
    /// What is wrong with the files, as long as it is.
    pub trouble: Option<Trouble>,
    /// The files that were read, for the log.
    pub files: Vec<SourceFile>,
    /// What the person is told.
    pub notices: Vec<String>,
    /// Who adds a text to what a person is asked.
    pub annotators: AnnotatorChain,
    /// Who is asked before the person, from the next ask on; a chain that runs ends as it began.
    pub authorizers: AuthorizerChain,
    /// How long an ask is passed on for at most.
    pub forwarding_timeout: Duration,
    /// When a request expires that does not say how long it waits.
    pub request_max_age: Duration,
    /// How much of what policy leaves open is taken in.
    pub limits: Limits,
}

/// Why the files of a configuration are not in force as they are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trouble {
    /// One of them cannot be used: what was allowed before is asked.
    Broken(String),
    /// Those of the project are not as somebody trusted them: the rules from before hold as they were.
    Untrusted(String),
}

impl Trouble {
    /// What is wrong, as a sentence without its full stop.
    pub fn text(&self) -> &str {
        match self {
            Self::Broken(text) | Self::Untrusted(text) => text,
        }
    }
}

/// One file of a configuration, as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceFile {
    /// Its path, for people.
    pub path: String,
    /// Digest of its bytes; `None` where they could not be read.
    pub digest: Option<Digest>,
}

impl Renewal {
    /// The files as they stand in the log.
    pub(super) fn files_json(&self) -> Value {
        self.files
            .iter()
            .map(|file| {
                let digest = file.digest.map(|digest| digest.to_string());
                json!({"path": file.path, "digest": digest})
            })
            .collect()
    }
}

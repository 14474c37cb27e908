//! The operator's programs of a configuration, as a session runs them: with the variables that they inherit, and the log that keeps
//! what they write to stderr.

use std::sync::Arc;

use super::env::Env;
use crate::audit::ReviewLog;
use crate::policy::{Config, Program};
use crate::program::Executable;
use crate::serve::{AnnotatorChain, Annotators, AuthorizerChain, Authorizers};

/// What is needed to run them.
pub(super) struct Programs {
    env: Env,
    debug: Arc<ReviewLog>,
}

impl Programs {
    /// What they write to stderr goes to the log `debug`, where that is kept.
    pub(super) fn new(env: Env, debug: Arc<ReviewLog>) -> Self {
        Self { env, debug }
    }

    /// Who adds a text to what a person is asked.
    pub(super) fn annotators(&self, config: &Config) -> AnnotatorChain {
        let mut annotators = Annotators::default();
        for (name, program) in &config.annotators {
            let executable = self.executable("annotator", name, program);
            annotators.register(name, executable.timeout(), executable);
        }
        annotators.chain(&config.annotator_chain)
    }

    /// Who is asked before the person.
    pub(super) fn authorizers(&self, config: &Config) -> AuthorizerChain {
        let mut authorizers = Authorizers::default();
        for (name, program) in &config.authorizers {
            let executable = self.executable("authorizer", name, program);
            // Each name stands there once, so none is taken.
            let _registered = authorizers.register(name, executable.timeout(), executable);
        }
        authorizers.chain(&config.authorizer_chain, &config.authorizer_trust)
    }

    fn executable(&self, kind: &str, name: &str, program: &Program) -> Executable {
        Executable::new(program, |name| self.env.variable(name))
            .keeping_stderr(Arc::clone(&self.debug), format!("{kind} {name}"))
    }
}

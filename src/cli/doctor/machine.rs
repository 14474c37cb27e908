//! What is common to all agents: the spool, who serves it, the configuration, the log, and this program.

use super::Checks;
use crate::cli::env::Env;
use crate::cli::install::program;
use crate::cli::place::Place;
use crate::cli::status::{relay, served};
use crate::policy::Config;
use crate::spool::{Events, Missing, SessionView, Spool, SpoolError};

pub(super) fn look(env: &Env, place: &Place<'_>, checks: &mut Checks) -> anyhow::Result<()> {
    match program::of(env, None) {
        Ok(program) if program.notes.is_empty() => {
            checks.ok("program", format!("program {}", program.path))?;
        }
        Ok(program) => {
            let notes = program.notes.join("; ");
            checks.warn("program", format!("program {}", program.path), notes)?;
        }
        Err(error) => checks.fail(
            "program",
            error.to_string(),
            "name it with --program where it is installed",
        )?,
    }
    let config = configuration(place, checks)?;
    log(place, config.as_ref(), checks)?;
    chain(config.as_ref(), checks)?;
    spool(place, config.as_ref(), checks)
}

fn configuration(place: &Place<'_>, checks: &mut Checks) -> anyhow::Result<Option<Config>> {
    match place.user_config() {
        Ok(asking) => {
            match &asking.broken {
                Some(broken) => checks.fail(
                    "config",
                    format!("the configuration is broken: {broken}"),
                    "`askrelay config check` says everything that is wrong; until then nothing is allowed by a rule",
                )?,
                None => checks.ok("config", "the configuration can be read")?,
            }
            Ok(Some(asking.config))
        }
        Err(error) => {
            let (hint, _exit) = crate::cli::hint_of(&error);
            checks.fail("config", format!("{error:#}"), hint.unwrap_or_default())?;
            Ok(None)
        }
    }
}

fn log(place: &Place<'_>, config: Option<&Config>, checks: &mut Checks) -> anyhow::Result<()> {
    let Some(config) = config else {
        return Ok(());
    };
    if !config.permission_review_log.is_on() {
        return checks.warn(
            "log",
            "the review log is switched off",
            "set \"permissionReviewLog\" to true to have decisions recorded",
        );
    }
    match place.required_log(config) {
        Ok(_log) => checks.ok("log", format!("review log {}", place.log_file()?.display())),
        Err(error) => {
            let (hint, _exit) = crate::cli::hint_of(&error);
            checks.fail(
                "log",
                format!("the review log cannot be written: {error:#}"),
                hint.unwrap_or_default(),
            )
        }
    }
}

/// The links of the chain: those without a program are skipped, towards more asking.
fn chain(config: Option<&Config>, checks: &mut Checks) -> anyhow::Result<()> {
    let Some(config) = config else {
        return Ok(());
    };
    for name in &config.authorizer_chain {
        if config.authorizers.contains_key(name) {
            checks.ok("chain", format!("the authorizer {name} has a program"))?;
        } else {
            checks.warn(
                "chain",
                format!("the authorizer {name} is skipped: there is no program for it"),
                "name its program in \"authorizers\", or take it out of \"authorizerChain\"",
            )?;
        }
    }
    Ok(())
}

fn spool(place: &Place<'_>, config: Option<&Config>, checks: &mut Checks) -> anyhow::Result<()> {
    let path = place.spool_path()?;
    let unserved =
        "run `askrelay serve` in the terminal that is to be asked; until then everything is denied";
    let spool = match Spool::open(&path, Missing::Fail) {
        Ok(spool) => spool,
        Err(SpoolError::NoSpool { .. }) => {
            return checks.warn(
                "spool",
                format!("there is no spool at {} yet", path.display()),
                unserved,
            );
        }
        Err(error) => {
            return checks.fail("spool", crate::ask::describe(&error), error.hint());
        }
    };
    let shown = path.display();
    if spool.events() == Events::Local {
        checks.ok("spool", format!("spool {shown}: yours alone, and watched"))?;
    } else {
        checks.warn(
            "spool",
            format!("spool {shown} lies on a network or user-space file system"),
            "it is polled, so answers take up to a second; a local directory is faster",
        )?;
    }
    let default = config.map_or_else(
        || crate::policy::DEFAULT_SESSION.to_owned(),
        Place::default_session,
    );
    let sessions = match spool.sessions() {
        Ok(sessions) => sessions,
        Err(error) => return checks.fail("served", crate::ask::describe(&error), error.hint()),
    };
    let view = sessions.iter().find(|view| view.name == default);
    let Some(view) = view.filter(|view| served(view) == "yes") else {
        return checks.warn(
            "served",
            format!("nobody serves session {default}"),
            unserved,
        );
    };
    checks.ok("served", told(&default, view))?;
    let relay = relay(view);
    for link in relay.map_or(&[][..], |relay| relay.authorizers.as_slice()) {
        if link.failed > 0 {
            checks.warn(
                "chain",
                format!(
                    "the authorizer {} has failed {} of {} times",
                    link.name, link.failed, link.asked
                ),
                "`askrelay log --event authorizer_link` says why",
            )?;
        }
    }
    let failures = relay.map(|relay| [&relay.log_failure, &relay.config_failure]);
    for failure in failures.into_iter().flatten().flatten() {
        checks.fail(
            "served",
            format!("the session says: {failure}"),
            "`askrelay status` shows it, with what holds meanwhile",
        )?;
    }
    Ok(())
}

fn told(session: &str, view: &SessionView) -> String {
    let mode = relay(view).and_then(|relay| relay.mode.as_deref());
    let key = relay(view).and_then(|relay| relay.public_key.as_deref());
    let pid = view
        .owner
        .pid
        .map_or_else(String::new, |pid| format!(" by pid {pid}"));
    format!(
        "session {session} is served{pid} ({}), {}",
        mode.unwrap_or("the peer"),
        key.map_or_else(
            || "without a seal".to_owned(),
            |key| format!("and seals with {key}")
        )
    )
}

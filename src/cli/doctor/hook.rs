//! Runs the hooks as their host would: the command line that stands in its configuration, a call in the shape that it writes, and
//! nothing of the user's environment. Under a rule that allows, under one that denies, and with nobody serving.

use std::path::Path;
use std::time::Duration;

use super::host::Gate;
use super::scratch::{Ended, REASON, Rules, Scratch, run};
use super::{Checks, brief};
use crate::cli::env::Env;
use crate::clock;
use crate::host::install::{Host, Said, said, sample};
use crate::spool::is_program;

/// How long a hook may take that has nobody to wait for.
const HOOK_TIME: Duration = Duration::from_secs(30);
/// What the call is about.
const COMMAND: &str = "echo askrelay";

pub(super) async fn prove(
    env: &Env,
    host: Host,
    gates: &[Gate],
    checks: &mut Checks,
) -> anyhow::Result<()> {
    let scratch = Scratch::new()?;
    for gate in gates {
        for rules in [Rules::Allow, Rules::Deny, Rules::Nobody] {
            let started = clock::now();
            let Some(ended) = scratch.under(rules, one(env, host, gate, &scratch)).await? else {
                checks.fail(
                    "hook.time",
                    format!(
                        "{} gave no answer within {} s",
                        gate.event,
                        HOOK_TIME.as_secs()
                    ),
                    "its host would wait, and then let the tool run; `askrelay log` may say why",
                )?;
                // It would hang under the other rules as well.
                break;
            };
            let took = clock::now().since(started);
            judge(host, gate, rules, &ended, took, checks)?;
        }
    }
    Ok(())
}

async fn one(
    env: &Env,
    host: Host,
    gate: &Gate,
    scratch: &Scratch,
) -> anyhow::Result<Option<Ended>> {
    let cwd = scratch.at("work");
    let input = sample(host, &gate.event, COMMAND, &cwd.to_string_lossy()).unwrap_or_default();
    let line = gate
        .handler
        .get("command")
        .and_then(serde_json::Value::as_str);
    let command = if let Some(args) = gate
        .handler
        .get("args")
        .and_then(serde_json::Value::as_array)
    {
        let mut command = scratch.command(env, &gate.program);
        command.args(args.iter().filter_map(serde_json::Value::as_str));
        command
    } else {
        // The shell that takes it apart is the one that its host starts.
        let bash = Path::new("/bin/bash");
        let shell = if is_program(bash) {
            bash
        } else {
            Path::new("/bin/sh")
        };
        let mut command = scratch.command(env, shell);
        command.arg("-c").arg(line.unwrap_or_default());
        command
    };
    run(command, &input, HOOK_TIME).await
}

fn judge(
    host: Host,
    gate: &Gate,
    rules: Rules,
    ended: &Ended,
    took: Duration,
    checks: &mut Checks,
) -> anyhow::Result<()> {
    let event = &gate.event;
    let said = said(host, event, ended.code, &ended.stdout, &ended.stderr);
    let took = took.as_millis();
    let shown = match &said {
        Said::Allows => "allowed".to_owned(),
        Said::Denies(reason) => format!("denied: {}", brief(reason)),
        Said::Asks => "left to the person at the host".to_owned(),
        Said::Nothing => "nothing said, which lets it go on".to_owned(),
        Said::Failed(why) => format!("failed, for {why}"),
    };
    let stderr = ended.stderr.trim();
    let hint = if stderr.is_empty() {
        format!(
            "run `askrelay install {}` again, and look at `askrelay log`",
            host.name()
        )
    } else {
        stderr.to_owned()
    };
    match (rules, &said) {
        (Rules::Allow, said) if said.lets_run(host, event) => checks.ok(
            "hook.allow",
            format!("{event} under a rule that allows: {shown} ({took} ms)"),
        ),
        (Rules::Allow, _) => checks.fail(
            "hook.allow",
            format!("{event} under a rule that allows: {shown}"),
            hint,
        ),
        (Rules::Deny, Said::Denies(reason)) if reason.contains(REASON) => checks.ok(
            "hook.deny",
            format!("{event} under a rule that denies: {shown} ({took} ms)"),
        ),
        (Rules::Deny, Said::Denies(_)) => checks.fail(
            "hook.deny",
            format!(
                "{event} under a rule that denies: {shown}, which is not the reason of the rule"
            ),
            hint,
        ),
        (Rules::Deny, _) => checks.fail(
            "hook.deny",
            format!("{event} under a rule that denies: {shown}"),
            hint,
        ),
        (Rules::Nobody, Said::Denies(_)) => checks.ok(
            "hook.unserved",
            format!("{event} with nobody serving: {shown} ({took} ms)"),
        ),
        (Rules::Nobody, _) => checks.fail(
            "hook.unserved",
            format!("{event} with nobody serving: {shown}"),
            hint,
        ),
    }
}

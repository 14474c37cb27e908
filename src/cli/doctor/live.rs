//! Starts the agent itself, in a home of its own, with the configuration that the user has, and with a model on this machine that asks
//! for one harmless command: then the command ran, or it did not, and there is nothing left to believe.
//!
//! Of the configuration it is tried with what does not reach out: no hook of somebody else, no key, nothing that starts a program.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::process::Command;

use super::host::{Gate, Gates, Trial};
use super::model::{Heard, Model};
use super::scratch::{Ended, REASON, Rules, Scratch, run};
use super::{Checks, Level, Line, brief};
use crate::cli::env::{self, Env};
use crate::cli::install::hosts::{codex_key_path, on_path};
use crate::host::install::{Host, TrustEntry, shim, with_trust};
use crate::spool::look_at_operator_file;

/// How long an agent may take for one command.
const HOST_TIME: Duration = Duration::from_mins(2);
/// The file that the command makes.
const MARK: &str = "askrelay-doctor-ran";
/// How every denial of the hook begins, however its agent wraps it.
const HOOK_SAYS: &str = "[askrelay]";

pub(super) async fn prove(
    env: &Env,
    host: Host,
    gates: &Gates,
    checks: &mut Checks,
) -> anyhow::Result<()> {
    let name = host.program();
    let Some(program) = on_path(env, name).into_iter().next() else {
        return checks.fail(
            "live",
            format!("there is no {name} on PATH to start"),
            format!(
                "install {}, or start this with the PATH that you start it with",
                host.title()
            ),
        );
    };
    for rules in [Rules::Allow, Rules::Deny, Rules::Nobody] {
        let scratch = Scratch::new()?;
        let model = Model::start(format!("touch {MARK}")).await?;
        let mut command = scratch.command(env, &program);
        prepare(host, gates, &scratch, &model, &mut command)?;
        let work = scratch.under(rules, run(command, "", HOST_TIME));
        let ended = model.serving(work).await?;
        let ran = look_at_operator_file(&scratch.at(&format!("work/{MARK}"))).is_there();
        checks.tell(&judged(host, rules, ran, &model.heard(), ended.as_ref()))?;
    }
    Ok(())
}

/// Puts the user's files where the agent finds them, each with `more` in it, and gives what of them Codex is to trust.
fn put(
    trials: &[Trial],
    directory: &str,
    more: &Value,
    scratch: &Scratch,
) -> anyhow::Result<Vec<TrustEntry>> {
    let mut trusted = Vec::new();
    for trial in trials {
        let above = match trial.whose {
            "user" => "home",
            "project" => "work",
            // The agent reads it where it lies.
            _ => continue,
        };
        let Some(name) = trial.path.file_name().and_then(|name| name.to_str()) else {
            continue;
        };
        let mut settings = trial.settings.clone();
        if let (Some(settings), Some(more)) = (settings.as_object_mut(), more.as_object()) {
            settings.extend(more.clone());
        }
        let file = format!("{above}/{directory}/{name}");
        scratch.write(&file, &settings.to_string())?;
        let (was, is) = (
            codex_key_path(&trial.path),
            codex_key_path(&scratch.at(&file)),
        );
        trusted.extend(trial.trusted.iter().map(|entry| TrustEntry {
            key: entry.key.replacen(&was, &is, 1),
            hash: entry.hash.clone(),
        }));
    }
    Ok(trusted)
}

fn prepare(
    host: Host,
    gates: &Gates,
    scratch: &Scratch,
    model: &Model,
    command: &mut Command,
) -> anyhow::Result<()> {
    let url = format!("http://{}", model.address()?);
    let prompt = "Run the one command that you were told to run.";
    match host {
        Host::ClaudeCode => {
            scratch.write("home/.claude/settings.json", "{}")?;
            put(&gates.trials, ".claude", &json!({}), scratch)?;
            command
                .env(env::CLAUDE_CONFIG_DIR, scratch.at("home/.claude"))
                .env("ANTHROPIC_BASE_URL", url)
                .env("ANTHROPIC_API_KEY", "dummy")
                .env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1")
                .args([
                    "--strict-mcp-config",
                    "--permission-mode",
                    "default",
                    "-p",
                    prompt,
                    "--output-format",
                    "json",
                ]);
        }
        Host::Codex => {
            let trusted = put(&gates.trials, ".codex", &json!({}), scratch)?;
            let config = format!(
                "model = \"doctor\"\nmodel_provider = \"doctor\"\n\n[model_providers.doctor]\nname = \"doctor\"\n\
                 base_url = \"{url}/v1\"\nwire_api = \"responses\"\nenv_key = \"ASKRELAY_DOCTOR_KEY\"\n"
            );
            let mut config = with_trust(&config, &trusted)?;
            if gates.trials.iter().any(|trial| trial.whose == "project") {
                let work = scratch.at("work");
                let work = work.to_string_lossy();
                let work = Value::from(&*work);
                config = format!("{config}\n[projects.{work}]\ntrust_level = \"trusted\"\n");
            }
            scratch.write("home/.codex/config.toml", &config)?;
            command
                .env(env::CODEX_HOME, scratch.at("home/.codex"))
                .env("ASKRELAY_DOCTOR_KEY", "dummy")
                // The sandbox is Codex's own matter, and not what is tried.
                .args([
                    "exec",
                    "--skip-git-repo-check",
                    "--json",
                    "-s",
                    "danger-full-access",
                    prompt,
                ]);
        }
        Host::Gemini => {
            let security = json!({"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": false}});
            let settings = json!({"security": security});
            scratch.write("home/.gemini/settings.json", &settings.to_string())?;
            put(&gates.trials, ".gemini", &settings, scratch)?;
            command
                .env("GEMINI_API_KEY", "dummy")
                .env("GOOGLE_GEMINI_BASE_URL", url)
                .env("GEMINI_CLI_NO_RELAUNCH", "true")
                .args(["-p", prompt, "--yolo", "--output-format", "json"]);
        }
        Host::Opencode => {
            opencode(&url, &gates.tried, scratch)?;
            command
                .env("OPENCODE_DISABLE_MODELS_FETCH", "1")
                .env("OPENCODE_DISABLE_DEFAULT_PLUGINS", "1")
                .args(["run", prompt]);
        }
        Host::Pi => {
            let model = json!({"id": "doctor", "name": "doctor", "contextWindow": 100_000, "maxTokens": 1_000});
            let provider = json!({
                "baseUrl": format!("{url}/v1"),
                "api": "openai-completions",
                "apiKey": "dummy",
                "models": [model],
            });
            let models = json!({"providers": {"doctor": provider}});
            scratch.write("home/.pi/agent/models.json", &models.to_string())?;
            put_shims(
                host,
                &gates.tried,
                scratch,
                "home/.pi/agent/extensions/askrelay.ts",
            )?;
            command
                .env("PI_OFFLINE", "1")
                .args(["-p", "--model", "doctor/doctor", prompt]);
        }
    }
    Ok(())
}

/// The configuration of opencode, with ours in it.
fn opencode(url: &str, gates: &[Gate], scratch: &Scratch) -> anyhow::Result<()> {
    let settings = json!({
        "model": "doctor/doctor",
        "provider": {"doctor": {
            "npm": "@ai-sdk/openai-compatible",
            "options": {"baseURL": format!("{url}/v1"), "apiKey": "dummy"},
            "models": {"doctor": {}},
        }},
    });
    scratch.write("work/opencode.json", &settings.to_string())?;
    put_shims(
        Host::Opencode,
        gates,
        scratch,
        "home/.config/opencode/plugins/askrelay.js",
    )?;
    Ok(())
}

/// The file of ours, with the program that the user's starts.
fn put_shims(host: Host, gates: &[Gate], scratch: &Scratch, file: &str) -> anyhow::Result<()> {
    let program = gates.first().and_then(|gate| gate.program.to_str());
    let text = shim(host, program.unwrap_or_default()).unwrap_or_default();
    scratch.write(file, &text)
}

/// What it means that the command ran, or did not, and what the model was told of it.
fn judged(host: Host, rules: Rules, ran: bool, heard: &Heard, ended: Option<&Ended>) -> Line {
    let title = host.title();
    let (check, under) = match rules {
        Rules::Allow => ("live.allow", "under a rule that allows"),
        Rules::Deny => ("live.deny", "under a rule that denies"),
        Rules::Nobody => ("live.unserved", "with nobody serving"),
    };
    let line = |level, check, what: String, hint: Option<String>| Line {
        level,
        check,
        what: format!("{title} {under}: {what}"),
        hint,
    };
    let fail = |what: &str, hint: String| line(Level::Fail, check, what.to_owned(), Some(hint));
    let said = match ended {
        None => format!("it was stopped after {} s", HOST_TIME.as_secs()),
        Some(ended) => {
            let stderr = ended.stderr.trim();
            let words = if stderr.is_empty() {
                ended.stdout.trim()
            } else {
                stderr
            };
            let last = words.lines().next_back();
            last.unwrap_or("it said nothing").to_owned()
        }
    };
    if heard.asked == 0 {
        let hint = format!("start it by hand once; it said: {said}");
        let what = "it asked no model".to_owned();
        return line(Level::Fail, "live", what, Some(hint));
    }
    let reason = heard.told.last().map(String::as_str).unwrap_or_default();
    match (rules, ran) {
        (Rules::Allow, true) => {
            return line(Level::Ok, check, "the command ran".to_owned(), None);
        }
        (Rules::Allow, false) => {
            let hint = if reason.is_empty() { &said } else { reason };
            return fail("the command did not run", hint.to_owned());
        }
        (Rules::Deny | Rules::Nobody, true) => {
            let hint = format!(
                "the hook does not gate; run `askrelay install {}` again, and look at the lines above",
                host.name()
            );
            return fail("the command RAN", hint);
        }
        (Rules::Deny | Rules::Nobody, false) => {}
    }
    if reason.is_empty() {
        return fail(
            "the command did not run, and the model was not told why, so it is not shown that the hook held it",
            said,
        );
    }
    // Many an agent asks its own person where nothing holds it, and takes it for a no that nobody is there.
    let expected = if rules == Rules::Deny {
        REASON
    } else {
        HOOK_SAYS
    };
    if !reason.contains(expected) {
        return fail(
            "the command did not run, but it was not the hook that held it",
            reason.to_owned(),
        );
    }
    let what = format!(
        "the command did not run, and the model was told: {}",
        brief(reason)
    );
    line(Level::Ok, check, what, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn level(rules: Rules, ran: bool, asked: usize, told: &str) -> Level {
        let told = Some(told.to_owned()).filter(|told| !told.is_empty());
        let heard = Heard {
            told: told.into_iter().collect(),
            asked,
        };
        let line = judged(Host::ClaudeCode, rules, ran, &heard, None);
        assert_eq!(line.hint.is_some(), line.level != Level::Ok);
        line.level
    }

    #[test]
    fn nothing_is_well_that_the_hook_was_not_seen_to_do() {
        let denied = format!("[askrelay] Denied by a rule. Reason: {REASON}");
        let unserved = "[askrelay] Not decided, so not allowed";
        assert_eq!(level(Rules::Allow, true, 2, "done"), Level::Ok);
        assert_eq!(level(Rules::Deny, false, 2, &denied), Level::Ok);
        assert_eq!(level(Rules::Nobody, false, 2, unserved), Level::Ok);
        for (rules, ran, asked, told) in [
            (Rules::Allow, false, 2, ""),
            (Rules::Allow, true, 0, ""),
            (Rules::Deny, true, 2, &*denied),
            (Rules::Deny, false, 2, unserved),
            (Rules::Deny, false, 2, ""),
            (Rules::Nobody, true, 2, unserved),
            // Nobody is there whom the agent itself could ask.
            (
                Rules::Nobody,
                false,
                2,
                "permission to run touch askrelay-doctor-ran was not granted",
            ),
            (Rules::Nobody, false, 1, ""),
        ] {
            let level = level(rules, ran, asked, told);
            assert_eq!(level, Level::Fail, "{rules:?} {ran} {told}");
        }
    }
}

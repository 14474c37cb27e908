//! Starts the agent itself, in a home of its own, with the hooks that the user has, and with a model on this machine that asks for one
//! harmless command: then the command ran, or it did not, and there is nothing left to believe.

use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::process::Command;

use super::Checks;
use super::host::Gate;
use super::model::Model;
use super::scratch::{Ended, REASON, Rules, Scratch, run};
use crate::cli::env::{self, Env};
use crate::cli::install::hosts::{codex_key_path, on_path};
use crate::host::install::{Host, entries_of, find, shim, with_trust};
use crate::spool::look_at_operator_file;

/// How long an agent may take for one command.
const HOST_TIME: Duration = Duration::from_mins(2);
/// The file that the command makes.
const MARK: &str = "askrelay-doctor-ran";

pub(super) async fn prove(
    env: &Env,
    host: Host,
    gates: &[Gate],
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
        judge(host, rules, ran, &model, ended.as_ref(), checks)?;
    }
    Ok(())
}

/// The user's hooks alone, as the agent reads them.
fn hooks_of(gates: &[Gate]) -> Value {
    let mut events = Map::new();
    for gate in gates {
        let mut group = Map::new();
        if let Some(matcher) = &gate.matcher {
            let _none = group.insert("matcher".to_owned(), matcher.as_str().into());
        }
        let _none = group.insert("hooks".to_owned(), json!([gate.handler]));
        let groups = events
            .entry(gate.event.clone())
            .or_insert_with(|| json!([]));
        if let Some(groups) = groups.as_array_mut() {
            groups.push(group.into());
        }
    }
    events.into()
}

fn prepare(
    host: Host,
    gates: &[Gate],
    scratch: &Scratch,
    model: &Model,
    command: &mut Command,
) -> anyhow::Result<()> {
    let url = format!("http://{}", model.address()?);
    let prompt = "Run the one command that you were told to run.";
    let hooks = hooks_of(gates);
    match host {
        Host::ClaudeCode => {
            scratch.write(
                "home/.claude/settings.json",
                &json!({"hooks": hooks}).to_string(),
            )?;
            command
                .env(env::CLAUDE_CONFIG_DIR, scratch.at("home/.claude"))
                .env("ANTHROPIC_BASE_URL", url)
                .env("ANTHROPIC_API_KEY", "dummy")
                .env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1")
                .args([
                    "--strict-mcp-config",
                    "-p",
                    prompt,
                    "--output-format",
                    "json",
                ]);
        }
        Host::Codex => {
            let text = json!({"hooks": hooks}).to_string();
            scratch.write("home/.codex/hooks.json", &text)?;
            let found = find(host, &text).unwrap_or_default();
            let key = codex_key_path(&scratch.at("home/.codex/hooks.json"));
            let config = format!(
                "model = \"doctor\"\nmodel_provider = \"doctor\"\n\n[model_providers.doctor]\nname = \"doctor\"\n\
                 base_url = \"{url}/v1\"\nwire_api = \"responses\"\nenv_key = \"ASKRELAY_DOCTOR_KEY\"\n"
            );
            let config = with_trust(&config, &entries_of(&key, &found))?;
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
            let settings = json!({
                "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": false}},
                "hooks": hooks,
            });
            scratch.write("home/.gemini/settings.json", &settings.to_string())?;
            command
                .env("GEMINI_API_KEY", "dummy")
                .env("GOOGLE_GEMINI_BASE_URL", url)
                .env("GEMINI_CLI_NO_RELAUNCH", "true")
                .args(["-p", prompt, "--yolo", "--output-format", "json"]);
        }
        Host::Opencode => {
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
                host,
                gates,
                scratch,
                "home/.config/opencode/plugins/askrelay.js",
            )?;
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
                gates,
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

/// The file of ours, with the program that the user's starts.
fn put_shims(host: Host, gates: &[Gate], scratch: &Scratch, file: &str) -> anyhow::Result<()> {
    let program = gates.first().and_then(|gate| gate.program.to_str());
    let text = shim(host, program.unwrap_or_default()).unwrap_or_default();
    scratch.write(file, &text)
}

fn judge(
    host: Host,
    rules: Rules,
    ran: bool,
    model: &Model,
    ended: Option<&Ended>,
    checks: &mut Checks,
) -> anyhow::Result<()> {
    let title = host.title();
    let heard = model.heard();
    let told = heard.told;
    let under = match rules {
        Rules::Allow => "under a rule that allows",
        Rules::Deny => "under a rule that denies",
        Rules::Nobody => "with nobody serving",
    };
    let said = match ended {
        None => format!("it was stopped after {} s", HOST_TIME.as_secs()),
        Some(ended) => {
            let words = if ended.stderr.trim().is_empty() {
                &ended.stdout
            } else {
                &ended.stderr
            };
            let words = words.trim();
            words
                .lines()
                .next_back()
                .unwrap_or("it said nothing")
                .to_owned()
        }
    };
    if heard.asked == 0 {
        return checks.fail(
            "live",
            format!("{title} {under}: it asked no model"),
            format!("start it by hand once; it said: {said}"),
        );
    }
    if rules == Rules::Allow {
        return if ran {
            checks.ok("live.allow", format!("{title} {under}: the command ran"))
        } else {
            let told = told.last().map_or(said, String::clone);
            checks.fail(
                "live.allow",
                format!("{title} {under}: the command did not run"),
                told,
            )
        };
    }
    let check = if rules == Rules::Deny {
        "live.deny"
    } else {
        "live.unserved"
    };
    if ran {
        return checks.fail(
            check,
            format!("{title} {under}: the command RAN"),
            format!("the hook does not gate; run `askrelay install {}` again, and look at the lines above", host.name()),
        );
    }
    let reason = told.last().map(String::as_str).unwrap_or_default();
    if reason.is_empty() {
        return checks.warn(
            check,
            format!("{title} {under}: the command did not run, and the model was not told why"),
            said,
        );
    }
    if rules == Rules::Deny && !reason.contains(REASON) {
        return checks.fail(
            check,
            format!("{title} {under}: the command did not run, but for another reason"),
            reason.to_owned(),
        );
    }
    let first = reason.lines().next().unwrap_or_default();
    checks.ok(
        check,
        format!("{title} {under}: the command did not run, and the model was told: {first}"),
    )
}

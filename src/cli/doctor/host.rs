//! The configuration of an agent, as the agent would read it: which of our hooks stand in it, whether they are the ones that would be
//! put in now, and what keeps them from running.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::process::Command;

use super::Checks;
use crate::cli::env::Env;
use crate::cli::install::hosts::{self, Layer, codex_key_path};
use crate::cli::install::program;
use crate::host::install::{
    self, Found, HOST_TIMEOUT_SECONDS, Host, MAX_HOST_CONFIG_BYTES, SHIM_EVENT, Trust, entries_of,
    find, is_project_trusted, is_shim, program_of, shim, trust_of, words_of,
};
use crate::spool::{ForeignFile, is_program};

/// How long a host may take to say its version.
const VERSION_TIME: Duration = Duration::from_secs(20);
/// The first Claude Code that can be told to block where a hook fails.
const CLAUDE_BLOCKS_SINCE: [u64; 3] = [2, 1, 295];

/// One hook of ours that gates.
#[derive(Debug, Clone)]
pub(super) struct Gate {
    pub(super) event: String,
    pub(super) matcher: Option<String>,
    pub(super) handler: Value,
}

/// What was read of one layer.
struct Read {
    layer: Layer,
    found: Vec<Found>,
}

/// One line for each agent: whether it is here, and whether askrelay is in charge of it.
pub(super) fn summary(
    env: &Env,
    host: Host,
    project: Option<&Path>,
    checks: &mut Checks,
) -> anyhow::Result<()> {
    let on_path = !hosts::on_path(env, host.program()).is_empty();
    let title = host.title();
    if matches!(host, Host::Opencode | Host::Pi) {
        let texts = hosts::layers(env, host, project);
        let mut texts = texts.iter().filter_map(|layer| hosts::text_of(&layer.path));
        return tell_summary(
            host,
            texts.any(|text| is_shim(&text)),
            true,
            on_path,
            checks,
        );
    }
    let hook_files = hosts::layers(env, host, project);
    let hook_files = hook_files.iter().filter(|layer| holds_hooks(layer));
    let mut found = Vec::new();
    for layer in hook_files {
        let Some(text) = hosts::text_of(&layer.path) else {
            continue;
        };
        match find(host, &text) {
            Ok(entries) => found.extend(entries),
            Err(error) => {
                checks.warn(
                    "host",
                    format!("{title} ignores {}:{error}", layer.path.display()),
                    "mend the file",
                )?;
            }
        }
    }
    let gates = install::wanted(host, "")
        .into_iter()
        .filter(|hook| hook.gates);
    let all = gates
        .into_iter()
        .all(|hook| found.iter().any(|entry| entry.event == hook.event));
    tell_summary(host, !found.is_empty(), all, on_path, checks)
}

fn tell_summary(
    host: Host,
    any: bool,
    all: bool,
    on_path: bool,
    checks: &mut Checks,
) -> anyhow::Result<()> {
    let (title, name) = (host.title(), host.name());
    match (any, all, on_path) {
        (true, true, _) => checks.ok(
            "host",
            format!("{title}: the hook is there; `askrelay doctor {name}` tries it"),
        ),
        (true, false, _) => checks.fail(
            "host",
            format!("{title}: only a part of the hooks is there"),
            format!("run `askrelay install {name}`"),
        ),
        (false, _, true) => checks.warn(
            "host",
            format!("{title} is here, and askrelay is not in charge of it"),
            format!("run `askrelay install {name}`"),
        ),
        (false, _, false) => checks.ok("host", format!("{title} is not here")),
    }
}

fn holds_hooks(layer: &Layer) -> bool {
    layer.path.extension().is_some_and(|end| end == "json")
}

/// Looks at one agent, and gives the hooks that gate.
pub(super) async fn look(
    env: &Env,
    host: Host,
    project: Option<&Path>,
    checks: &mut Checks,
) -> anyhow::Result<Vec<Gate>> {
    programs(env, host, checks).await?;
    if matches!(host, Host::Opencode | Host::Pi) {
        return shims(env, host, project, checks);
    }
    let read = files(env, host, project, checks)?;
    for (path, switched) in hosts::switched_off(env, host, project) {
        checks.fail(
            "hook.switch",
            format!(
                "hooks do not run: {} says {}",
                path.display(),
                switched.setting()
            ),
            "take that out",
        )?;
    }
    entries(env, host, &read, checks)?;
    if host == Host::Codex {
        trust(env, project, &read, checks)?;
    }
    let gating: Vec<&str> = install::wanted(host, "")
        .into_iter()
        .filter(|hook| hook.gates)
        .map(|hook| hook.event)
        .collect();
    let gates = read.iter().flat_map(|read| {
        let gates = read
            .found
            .iter()
            .filter(|found| gating.contains(&&*found.event));
        gates.map(|found| Gate {
            event: found.event.clone(),
            matcher: found.matcher.clone(),
            handler: found.handler.clone(),
        })
    });
    Ok(gates.collect())
}

async fn programs(env: &Env, host: Host, checks: &mut Checks) -> anyhow::Result<()> {
    let name = host.program();
    let found = hosts::on_path(env, name);
    if found.is_empty() {
        return checks.warn(
            "host.program",
            format!("there is no {name} on PATH"),
            format!(
                "install {}, or start this with the PATH that you start it with",
                host.title()
            ),
        );
    }
    for (number, path) in found.iter().enumerate() {
        let version = version(path).await;
        let shown = version.as_deref().unwrap_or("it does not say its version");
        let what = format!("{} ({shown})", path.display());
        let numbers = version.as_deref().and_then(numbers);
        let is_old = numbers.is_some_and(|numbers| numbers < CLAUDE_BLOCKS_SINCE);
        if host == Host::ClaudeCode && is_old {
            checks.fail(
                "host.version",
                format!("{what} lets a tool run where its hook fails"),
                "use Claude Code 2.1.295 or newer",
            )?;
        } else if number > 0 {
            checks.warn(
                "host.program",
                format!("{what} is on PATH as well"),
                "the first one is started; all of them read the same configuration",
            )?;
        } else {
            checks.ok("host.program", what)?;
        }
    }
    Ok(())
}

/// What a program says of its version, in its first line.
async fn version(program: &Path) -> Option<String> {
    let mut command = Command::new(program);
    command
        .arg("--version")
        .kill_on_drop(true)
        .stdin(std::process::Stdio::null());
    let ended = tokio::time::timeout(VERSION_TIME, command.output()).await;
    let output = ended.ok()?.ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().next()?.trim();
    (!line.is_empty()).then(|| line.to_owned())
}

/// The first three numbers of a version.
fn numbers(version: &str) -> Option<[u64; 3]> {
    let start = version.find(|c: char| c.is_ascii_digit())?;
    let rest = version.get(start..)?;
    let mut parts = rest
        .split(|c: char| !c.is_ascii_digit())
        .map(|part| part.parse().ok());
    Some([parts.next()??, parts.next()??, parts.next()??])
}

/// Every file that is there, with our hooks in it.
fn files(
    env: &Env,
    host: Host,
    project: Option<&Path>,
    checks: &mut Checks,
) -> anyhow::Result<Vec<Read>> {
    let mut all = Vec::new();
    for layer in hosts::layers(env, host, project) {
        let shown = format!("{} ({})", layer.path.display(), layer.whose);
        let file = match ForeignFile::read(&layer.path, MAX_HOST_CONFIG_BYTES) {
            Ok(file) => file,
            Err(error) => {
                checks.fail("host.file", error.to_string(), error.hint())?;
                continue;
            }
        };
        let Some(bytes) = file.bytes() else {
            continue;
        };
        if file.mode().is_some_and(|mode| mode & 0o022 != 0) {
            checks.warn(
                "host.file",
                format!("{shown} is writable by others"),
                format!(
                    "run `chmod go-w {}`: who writes it can take the gate away",
                    layer.path.display()
                ),
            )?;
        }
        if !holds_hooks(&layer) {
            continue;
        }
        match find(host, &String::from_utf8_lossy(bytes)) {
            Ok(found) => {
                checks.ok(
                    "host.file",
                    format!("{shown} can be read, {} of our hooks in it", found.len()),
                )?;
                all.push(Read { layer, found });
            }
            Err(error) => checks.fail(
                "host.file",
                format!(
                    "{} takes no notice of {}:{error}",
                    host.title(),
                    layer.path.display()
                ),
                "mend the file: no hook in it runs",
            )?,
        }
    }
    Ok(all)
}

fn entries(env: &Env, host: Host, read: &[Read], checks: &mut Checks) -> anyhow::Result<()> {
    let name = host.name();
    let again = format!("run `askrelay install {name}` again");
    let mut own = program::of(env, None).ok().map(|program| program.path);
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    for (file, entry) in read
        .iter()
        .flat_map(|read| read.found.iter().map(|found| (&read.layer.path, found)))
    {
        let place = format!("{} at {}:{}", entry.event, file.display(), entry.position);
        let words = words_of(&entry.handler).unwrap_or_default();
        let program = words.first().map_or("", String::as_str);
        if !is_program(Path::new(program)) {
            checks.fail(
                "hook.program",
                format!("{place} starts {program}, which is not there"),
                again.clone(),
            )?;
        } else if own.as_deref().is_some_and(|own| own != program) {
            checks.warn(
                "hook.program",
                format!("{place} starts {program}, not this program"),
                again.clone(),
            )?;
            // Once is enough.
            own = None;
        }
        let wanted = install::wanted(host, program);
        let wanted = wanted.iter().find(|hook| hook.event == entry.event);
        let gates = wanted.is_some_and(|hook| hook.gates);
        if wanted.is_none_or(|hook| !entry.is(hook)) {
            checks.warn(
                "hook.present",
                format!("{place} is not as it would be put in now"),
                again.clone(),
            )?;
        }
        if !seen.insert(&*entry.event) {
            checks.warn(
                "hook.present",
                format!("{place} stands there a second time: a tool may be asked about twice"),
                format!("run `askrelay uninstall {name}` for one of the scopes"),
            )?;
        }
        if gates {
            timeouts(host, &place, entry, &words, checks)?;
        }
    }
    for hook in install::wanted(host, "") {
        if !read.is_empty() && !seen.is_empty() && !seen.contains(hook.event) {
            let what = format!("there is no hook for {}", hook.event);
            if hook.gates {
                checks.fail("hook.present", what, again.clone())?;
            } else {
                checks.warn("hook.present", what, again.clone())?;
            }
        }
    }
    Ok(())
}

/// The files of ours in a host that is gated by one.
fn shims(
    env: &Env,
    host: Host,
    project: Option<&Path>,
    checks: &mut Checks,
) -> anyhow::Result<Vec<Gate>> {
    let again = format!("run `askrelay install {}` again", host.name());
    let mut gates = Vec::new();
    for layer in hosts::layers(env, host, project) {
        let shown = layer.path.display();
        let Some(text) = hosts::text_of(&layer.path) else {
            continue;
        };
        let Some(program) = program_of(&text).filter(|_| is_shim(&text)) else {
            checks.warn(
                "host.file",
                format!("{shown} is not of askrelay"),
                "look at what it is",
            )?;
            continue;
        };
        if shim(host, &program).as_deref() == Some(&*text) {
            checks.ok(
                "hook.present",
                format!("{shown} ({}) is as it would be put there now", layer.whose),
            )?;
        } else {
            checks.warn(
                "hook.present",
                format!("{shown} is not as it would be put there now"),
                again.clone(),
            )?;
        }
        if !is_program(Path::new(&program)) {
            checks.fail(
                "hook.program",
                format!("{shown} starts {program}, which is not there"),
                again.clone(),
            )?;
        }
        gates.push(Gate {
            event: SHIM_EVENT.to_owned(),
            matcher: None,
            handler: json!({"command": program, "args": ["hook", host.name()]}),
        });
    }
    Ok(gates)
}

/// The hook must give up before its host does, which would let the tool run.
fn timeouts(
    host: Host,
    place: &str,
    entry: &Found,
    words: &[String],
    checks: &mut Checks,
) -> anyhow::Result<()> {
    let waits = entry.handler.get("timeout").and_then(Value::as_u64);
    let waits = match (host, waits) {
        (Host::Gemini, Some(waits)) => waits / 1_000,
        (Host::Gemini, None) => 60,
        (_, Some(waits)) => waits,
        (_, None) => 600,
    };
    let told = words
        .iter()
        .skip_while(|word| *word != "--host-timeout")
        .nth(1);
    let told = told.and_then(|told| told.parse::<u64>().ok());
    match told {
        Some(told) if told > waits => checks.fail(
            "hook.timeout",
            format!("{place}: the host waits {waits} s, and the hook thinks it waits {told} s: what comes later lets the tool run"),
            format!("run `askrelay install {}` again", host.name()),
        ),
        _ if waits < HOST_TIMEOUT_SECONDS => checks.warn(
            "hook.timeout",
            format!("{place}: the host waits {waits} s for a person"),
            format!("run `askrelay install {}` again for a day", host.name()),
        ),
        _ => checks.ok("hook.timeout", format!("{place}: the host waits {waits} s, the hook gives up before")),
    }
}

fn trust(
    env: &Env,
    project: Option<&Path>,
    read: &[Read],
    checks: &mut Checks,
) -> anyhow::Result<()> {
    let Some(config) = hosts::codex_config(env) else {
        return Ok(());
    };
    let text = hosts::text_of(&config).unwrap_or_default();
    let press = "start codex, type /hooks, and trust the entries of askrelay; or run `askrelay install codex --trust`";
    for read in read.iter().filter(|read| !read.found.is_empty()) {
        if let (Some(project), "project") = (project, read.layer.whose) {
            match is_project_trusted(&text, &project.to_string_lossy()) {
                Ok(true) => {}
                Ok(false) | Err(_) => checks.fail(
                    "hook.trust",
                    format!(
                        "Codex does not trust {}, and reads no hook there",
                        project.display()
                    ),
                    "start codex there, and trust the directory",
                )?,
            }
        }
        for entry in entries_of(&codex_key_path(&read.layer.path), &read.found) {
            let at = entry.key.clone();
            match trust_of(&text, &entry) {
                Ok(Trust::Trusted) => checks.ok("hook.trust", format!("Codex trusts {at}"))?,
                Ok(Trust::Modified) => checks.fail(
                    "hook.trust",
                    format!("Codex trusts another hook at {at}, and does not run this one"),
                    press,
                )?,
                Ok(Trust::Untrusted) => checks.fail(
                    "hook.trust",
                    format!("Codex does not trust {at}, and does not run it"),
                    press,
                )?,
                Ok(Trust::Disabled) => checks.fail(
                    "hook.trust",
                    format!("{at} is switched off in {}", config.display()),
                    "take `enabled = false` out, or type /hooks in codex",
                )?,
                Err(error) => {
                    return checks.fail(
                        "hook.trust",
                        format!("{}:{error}", config.display()),
                        "mend the file",
                    );
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_compared_by_its_numbers() {
        assert_eq!(numbers("2.1.332 (Claude Code)"), Some([2, 1, 332]));
        assert_eq!(numbers("codex-cli 0.171.0"), Some([0, 171, 0]));
        assert!(numbers("2.1.99").unwrap() < CLAUDE_BLOCKS_SINCE);
        assert_eq!(numbers("none"), None);
    }
}

//! The configuration of an agent, as the agent would read it: which of our hooks stand in it, whether they are the ones that would be
//! put in now, and what keeps them from running.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

use super::Checks;
use super::permit::{self, permit};
use super::scratch::{Scratch, run};
use crate::cli::env::Env;
use crate::cli::install::hosts::{self, Layer, codex_key_path};
use crate::host::install::{
    self, EditError, Found, HOST_TIMEOUT_SECONDS, Host, Line, MAX_HOST_CONFIG_BYTES, SHIM_EVENT,
    Trust, TrustEntry, check_shape, command_line, doubts, entries_of, faults, find, for_trial,
    is_shim, line_of, program_of, shim, strangers, trust_of, wait_of,
};
use crate::policy::JsonProblem;
use crate::presentation::text::visible;
use crate::spool::{ForeignFile, canonical_path, is_program, replaceable_by_others};

/// How long a host may take to say its version.
const VERSION_TIME: Duration = Duration::from_secs(20);
/// The first Claude Code that can be told to block where a hook fails.
const CLAUDE_BLOCKS_SINCE: [u64; 3] = [2, 1, 295];

/// One hook of ours that gates.
#[derive(Debug, Clone)]
pub(super) struct Gate {
    pub(super) event: String,
    pub(super) handler: Value,
    /// The program that it starts.
    pub(super) program: PathBuf,
}

/// A configuration with hooks of ours, as the agent itself is tried with it.
#[derive(Debug)]
pub(super) struct Trial {
    /// Whose it is.
    pub(super) whose: &'static str,
    /// Where it stands.
    pub(super) path: PathBuf,
    /// What it says, without what would reach out of the trial.
    pub(super) settings: Value,
    /// What Codex trusts of it.
    pub(super) trusted: Vec<TrustEntry>,
}

/// The hooks of ours that gate.
#[derive(Debug, Default)]
pub(super) struct Gates {
    /// Those that may be tried.
    pub(super) tried: Vec<Gate>,
    /// How many stand there.
    pub(super) count: usize,
    /// The files that they stand in.
    pub(super) trials: Vec<Trial>,
}

/// Whom the doctor may believe.
#[derive(Debug, Clone, Copy)]
pub(super) struct Around<'a> {
    /// The project that is looked at.
    pub(super) project: Option<&'a Path>,
    /// Whether somebody named it, and so takes what stands in it for theirs.
    pub(super) is_named: bool,
}

/// What was read of one layer.
struct Read {
    layer: Layer,
    text: String,
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
        match check_shape(host, &text).and_then(|()| find(host, &text)) {
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
    if !found.is_empty()
        && let Some((path, switched)) = hosts::switched_off(env, host, project).first()
    {
        return checks.fail(
            "host",
            format!(
                "{title}: the hook is there and does not run: {} says {}",
                path.display(),
                switched.setting()
            ),
            "take that out",
        );
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
    around: Around<'_>,
    checks: &mut Checks,
) -> anyhow::Result<Gates> {
    programs(env, host, checks).await?;
    if matches!(host, Host::Opencode | Host::Pi) {
        return shims(env, host, around, checks);
    }
    let read = files(env, host, around.project, checks)?;
    for (path, switched) in hosts::switched_off(env, host, around.project) {
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
    let mut gates = entries(env, host, around, &read, checks)?;
    match host {
        Host::Codex => trust(env, around.project, &read, checks)?,
        Host::Gemini | Host::ClaudeCode => {
            project_trust(env, host, around.project, &read, checks)?;
        }
        Host::Opencode | Host::Pi => {}
    }
    for read in read.iter().filter(|read| !read.found.is_empty()) {
        if is_believed(env, host, around, &read.layer) {
            gates.trials.extend(trial(env, host, around, read));
        }
    }
    Ok(gates)
}

/// The file, as the agent is tried with it: of the hooks in it those run that may be run.
fn trial(env: &Env, host: Host, around: Around<'_>, read: &Read) -> Option<Trial> {
    let runs = |handler: &Value| {
        let line = line_of(host, handler);
        line.is_some_and(|line| permit(env, around.project, &line).is_ok())
    };
    let settings = for_trial(host, &read.text, runs).ok()?;
    let mut trusted = entries_of(&codex_key_path(&read.layer.path), &read.found);
    let config = hosts::codex_config(env).and_then(|config| hosts::text_of(&config));
    let config = config.unwrap_or_default();
    trusted.retain(|entry| trust_of(&config, entry) == Ok(Trust::Trusted));
    Some(Trial {
        whose: read.layer.whose,
        path: read.layer.path.clone(),
        settings,
        trusted,
    })
}

/// Whether the agent reads what stands in a project at all.
fn project_trust(
    env: &Env,
    host: Host,
    project: Option<&Path>,
    read: &[Read],
    checks: &mut Checks,
) -> anyhow::Result<()> {
    let is_there = read
        .iter()
        .any(|read| read.layer.whose == "project" && !read.found.is_empty());
    let Some(project) = project.filter(|_| is_there) else {
        return Ok(());
    };
    let shown = project.display();
    if host == Host::Gemini && !hosts::gemini_trusts(env, project) {
        return checks.fail(
            "hook.trust",
            format!("Gemini CLI does not trust {shown}, and reads no hook there"),
            "start gemini there, and trust the folder",
        );
    }
    if host == Host::ClaudeCode && !hosts::claude_trusts(env, project) {
        return checks.warn(
            "hook.trust",
            format!("nobody has told Claude Code that {shown} is trusted: until then a session with a terminal runs no hook of it"),
            "start claude there once, and trust the directory; `claude -p` asks for no trust",
        );
    }
    Ok(())
}

/// Whether what stands in a layer was put there by somebody who is believed: this user, the administrator, or a project that this
/// user named or has the agent trust.
fn is_believed(env: &Env, host: Host, around: Around<'_>, layer: &Layer) -> bool {
    layer.whose != "project"
        || around.is_named
        || host == Host::Codex
            && around
                .project
                .is_some_and(|project| hosts::codex_trusts(env, project))
}

/// The hook as it may be tried; where it may not, that is said.
fn tried(
    env: &Env,
    around: Around<'_>,
    is_believed: bool,
    line: &Line,
    place: &str,
    handler: &Value,
    checks: &mut Checks,
) -> anyhow::Result<Option<PathBuf>> {
    match permit(env, around.project, line) {
        Err(why) => {
            let written = handler.get("command").and_then(Value::as_str);
            checks.fail(
                "hook.program",
                format!(
                    "{place} is not tried, for {why}: {}",
                    visible(written.unwrap_or_default())
                ),
                "look at who wrote it; `askrelay install` writes one that can be tried",
            )?;
            Ok(None)
        }
        Ok(_) if !is_believed => {
            checks.warn(
                "hook.program",
                format!("{place} is not tried, for it stands in a file of the project"),
                "where the project is yours, repeat this with `--project DIR`",
            )?;
            Ok(None)
        }
        Ok(program) => Ok(Some(program)),
    }
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
        let version = version(env, path).await?;
        let shown = version.as_deref().unwrap_or("it does not say its version");
        let what = format!("{} ({shown})", path.display());
        let numbers = version.as_deref().and_then(numbers);
        let is_old = numbers.is_some_and(|numbers| numbers < CLAUDE_BLOCKS_SINCE);
        if host == Host::ClaudeCode && numbers.is_none() {
            checks.warn(
                "host.version",
                format!("{what}: before 2.1.295 a tool runs where its hook fails"),
                "run `claude --version`, and look at what it says",
            )?;
        } else if host == Host::ClaudeCode && is_old {
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
async fn version(env: &Env, program: &Path) -> anyhow::Result<Option<String>> {
    // Some of them write into their home for that alone.
    let scratch = Scratch::new()?;
    let mut command = scratch.command(env, program);
    command.arg("--version");
    let Ok(Some(ended)) = run(command, "", VERSION_TIME).await else {
        return Ok(None);
    };
    let line = ended.stdout.lines().next().unwrap_or_default().trim();
    Ok((!line.is_empty()).then(|| line.to_owned()))
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
        if file.bytes().is_some() || layer.whose != "project" {
            guard(&layer, checks)?;
        }
        let Some(bytes) = file.bytes() else {
            continue;
        };
        if !holds_hooks(&layer) {
            continue;
        }
        let text = String::from_utf8_lossy(bytes);
        let found = check_shape(host, &text).and_then(|()| find(host, &text));
        for (position, line) in strangers(host, &text).unwrap_or_default() {
            let what = format!(
                "{}:{position} is no hook of ours, though it names askrelay, and is not tried: {}",
                layer.path.display(),
                visible(&line)
            );
            checks.warn("hook.present", what, "look at what it is")?;
        }
        for doubt in doubts(host, &text) {
            let what = format!(
                "{}:{doubt}: {} may take no notice of the whole file",
                layer.path.display(),
                host.title()
            );
            checks.warn(
                "host.file",
                what,
                format!(
                    "`askrelay doctor {} --live` shows whether it does",
                    host.name()
                ),
            )?;
        }
        match found {
            Ok(found) => {
                checks.ok(
                    "host.file",
                    format!("{shown} can be read, {} of our hooks in it", found.len()),
                )?;
                let text = text.into_owned();
                all.push(Read { layer, text, found });
            }
            Err(EditError::Json {
                position,
                problem: problem @ JsonProblem::DuplicateKey { .. },
            }) => checks.fail(
                "host.file",
                format!(
                    "{}:{position}: {problem}, so it is not known what {} takes of it",
                    layer.path.display(),
                    host.title()
                ),
                "take one of the two out",
            )?,
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

/// Whether somebody else can put another file in the place of one, or write it. What gates a user everywhere is a failure then; of a
/// project its people may write.
fn guard(layer: &Layer, checks: &mut Checks) -> anyhow::Result<()> {
    let Some(part) = replaceable_by_others(&layer.path) else {
        return Ok(());
    };
    let shown = format!("{} ({})", layer.path.display(), layer.whose);
    let what = if part == layer.path {
        format!("{shown} is writable by others, or theirs")
    } else {
        format!(
            "{shown} can be replaced by others, for {} is writable by them, or theirs",
            part.display()
        )
    };
    let hint = format!(
        "run `{}`, as its owner: who writes it can take the gate away",
        command_line(&["chmod", "go-w", &part.to_string_lossy()])
    );
    if layer.whose == "project" {
        checks.warn("host.file", what, hint)
    } else {
        checks.fail("host.file", what, hint)
    }
}

fn entries(
    env: &Env,
    host: Host,
    around: Around<'_>,
    read: &[Read],
    checks: &mut Checks,
) -> anyhow::Result<Gates> {
    let name = host.name();
    let again = format!("run `askrelay install {name}` again");
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    let mut gates = Gates::default();
    let all = read
        .iter()
        .flat_map(|read| read.found.iter().map(|found| (&read.layer, found)));
    for (layer, entry) in all {
        let place = format!(
            "{} at {}:{}",
            entry.event,
            layer.path.display(),
            entry.position
        );
        let Some(line) = line_of(host, &entry.handler) else {
            continue;
        };
        starts(env, &place, &line, &again, checks)?;
        if !seen.insert(&*entry.event) {
            checks.warn(
                "hook.present",
                format!("{place} stands there a second time: a tool may be asked about twice"),
                format!("run `askrelay uninstall {name}` for one of the scopes"),
            )?;
        }
        let wanted = install::wanted(host, &line.program);
        let wanted = wanted.iter().find(|hook| hook.event == entry.event);
        let is_as_wanted = wanted.is_some_and(|hook| entry.is(hook));
        if !wanted.is_some_and(|hook| hook.gates) {
            if !is_as_wanted {
                checks.warn(
                    "hook.present",
                    format!("{place} is not as it would be put in now"),
                    again.clone(),
                )?;
            }
            continue;
        }
        gates.count += 1;
        holds(host, &place, entry, is_as_wanted, &again, checks)?;
        let believed = is_believed(env, host, around, layer);
        let program = tried(env, around, believed, &line, &place, &entry.handler, checks)?;
        gates.tried.extend(program.map(|program| Gate {
            event: entry.event.clone(),
            handler: entry.handler.clone(),
            program,
        }));
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
    Ok(gates)
}

/// The program that an entry starts.
fn starts(
    env: &Env,
    place: &str,
    line: &Line,
    again: &str,
    checks: &mut Checks,
) -> anyhow::Result<()> {
    let program = &line.program;
    let found = permit::program_of(env, program).filter(|found| is_program(found));
    let Some(found) = found else {
        return checks.fail(
            "hook.program",
            format!("{place} starts {program}, which is not there"),
            again,
        );
    };
    let own = env.executable().and_then(|own| canonical_path(own));
    if own.is_some() && own != canonical_path(&found) {
        checks.warn(
            "hook.program",
            format!("{place} starts {program}, not this program"),
            again,
        )?;
    }
    Ok(())
}

/// Whether the host is held by an entry, as it stands there.
fn holds(
    host: Host,
    place: &str,
    entry: &Found,
    is_as_wanted: bool,
    again: &str,
    checks: &mut Checks,
) -> anyhow::Result<()> {
    let faults = faults(host, entry);
    for fault in &faults {
        checks.fail("hook.holds", format!("{place}: {fault}"), again)?;
    }
    if !faults.is_empty() {
        return Ok(());
    }
    if !is_as_wanted {
        checks.warn(
            "hook.present",
            format!("{place} is not as it would be put in now"),
            again,
        )?;
    }
    let waits = wait_of(host, &entry.handler).unwrap_or_default();
    if waits < HOST_TIMEOUT_SECONDS {
        checks.warn(
            "hook.timeout",
            format!("{place}: the host waits {waits} s for a person"),
            format!("{again} for a day"),
        )?;
    } else {
        checks.ok(
            "hook.timeout",
            format!("{place}: the host waits {waits} s, the hook gives up before"),
        )?;
    }
    Ok(())
}

/// The files of ours in a host that is gated by one.
fn shims(env: &Env, host: Host, around: Around<'_>, checks: &mut Checks) -> anyhow::Result<Gates> {
    let again = format!("run `askrelay install {}` again", host.name());
    let mut gates = Gates::default();
    for layer in hosts::layers(env, host, around.project) {
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
        guard(&layer, checks)?;
        gates.count += 1;
        if gates.count > 1 {
            checks.warn(
                "hook.present",
                format!("{shown} is there a second time: each call is asked about twice"),
                format!(
                    "run `askrelay uninstall {}` for one of the scopes",
                    host.name()
                ),
            )?;
        }
        if shim(host, &program).as_deref() == Some(&*text) {
            checks.ok(
                "hook.present",
                format!("{shown} ({}) is as it would be put there now", layer.whose),
            )?;
        } else {
            checks.fail(
                "hook.present",
                format!("{shown} is not as it would be put there now: what it does is not known"),
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
        let handler = json!({"command": program, "args": ["hook", host.name()]});
        let Some(line) = line_of(host, &handler) else {
            checks.fail(
                "hook.program",
                format!("{shown} starts {program}, which is not called askrelay, and is not tried"),
                again.clone(),
            )?;
            continue;
        };
        let believed = is_believed(env, host, around, &layer);
        let place = layer.path.to_string_lossy();
        let program = tried(env, around, believed, &line, &place, &handler, checks)?;
        gates.tried.extend(program.map(|program| Gate {
            event: SHIM_EVENT.to_owned(),
            handler,
            program,
        }));
    }
    Ok(gates)
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
        let of = read.layer.path.parent().and_then(Path::parent);
        if let (Some(_), Some(project), "project") = (project, of, read.layer.whose)
            && !hosts::codex_trusts(env, project)
        {
            checks.fail(
                "hook.trust",
                format!(
                    "Codex does not trust {}, and reads no hook there",
                    project.display()
                ),
                "start codex there, and trust the directory",
            )?;
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

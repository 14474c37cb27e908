//! `askrelay install` and `askrelay uninstall`: put askrelay in charge of an agent, and take it out again. What would be written is
//! shown before, and nothing is written that was not.

pub(in crate::cli) mod change;
pub(in crate::cli) mod hosts;
pub(in crate::cli) mod program;

use std::io::{BufRead as _, IsTerminal as _};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use self::change::{Change, Seen, no_toml, unedited, untrusted};
use self::hosts::Scope;
use self::program::Program;
use super::env::Env;
use super::exit::Exit;
use super::output::{self, Out};
use super::place::Place;
use super::{Hinted, PlaceArgs};
use crate::host::install::{
    self, Host, Trust, TrustEntry, command_line, entries_of, find, holds_variable, is_shim, shim,
    trust_of, with_trust, without_trust,
};
use crate::presentation::text::visible;
use crate::spool::InstallStore;

/// How both commands go about it.
#[derive(Debug, clap::Args)]
struct How {
    /// Do not ask
    #[arg(long, short)]
    yes: bool,
    /// Show what would be written, and write nothing
    #[arg(long, conflicts_with = "yes")]
    dry_run: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The options for all commands, as they are for these: what a hook goes by is read when it runs, so it is not said here.
#[derive(Debug, clap::Args)]
struct Where {
    /// For this project alone [default: for you, wherever you start the agent]
    #[arg(long, value_name = "DIR")]
    project: Option<PathBuf>,
    #[arg(long, value_name = "DIR", hide = true)]
    spool: Option<PathBuf>,
    #[arg(long, value_name = "FILE", hide = true)]
    config: Option<PathBuf>,
    #[arg(long, value_name = "FILE", hide = true)]
    log: Option<PathBuf>,
    #[arg(long, hide = true)]
    no_project: bool,
}

/// Refuses what would be ignored.
fn check_options(place_args: &PlaceArgs) -> anyhow::Result<()> {
    let given = [
        ("--spool", place_args.spool.is_some()),
        ("--config", place_args.config.is_some()),
        ("--log", place_args.log.is_some()),
        ("--no-project", place_args.no_project),
    ];
    match given.into_iter().find(|(_, is_given)| *is_given) {
        None => Ok(()),
        Some(("--no-project", _)) => Err(Hinted::usage(
            "--no-project says nothing here: without --project the agent is put under askrelay wherever you start it",
            "leave it out",
        )),
        Some((option, _)) => Err(Hinted::usage(
            format!("{option} is not written into the configuration of an agent"),
            "leave it out, and set ASKRELAY_SPOOL, ASKRELAY_CONFIG or ASKRELAY_LOG where the agent is started: its hook goes by those",
        )),
    }
}

#[derive(Debug, clap::Args)]
pub(super) struct InstallArgs {
    /// Agent that askrelay is put in charge of
    #[arg(value_name = "HOST", value_parser = parse_host)]
    host: Host,
    #[command(flatten)]
    how: How,
    /// Have Codex trust the hooks, which it runs only then
    #[arg(long)]
    trust: bool,
    /// Program that the agent starts [default: this one]
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    #[command(flatten)]
    _place: Where,
}

#[derive(Debug, clap::Args)]
pub(super) struct UninstallArgs {
    /// Agent that askrelay is taken out of
    #[arg(value_name = "HOST", value_parser = parse_host)]
    host: Host,
    #[command(flatten)]
    how: How,
    #[command(flatten)]
    _place: Where,
}

/// The agent of this name.
pub(in crate::cli) fn parse_host(name: &str) -> Result<Host, String> {
    Host::from_name(name).ok_or_else(|| {
        let names: Vec<&str> = Host::ALL.iter().map(|host| host.name()).collect();
        format!(
            "there is no agent {name:?} here; there are {}",
            names.join(", ")
        )
    })
}

/// Where everything of one agent lies.
struct Task<'a> {
    env: &'a Env,
    host: Host,
    scope: Scope,
    store: InstallStore,
}

/// What would be done, and what is to be known of it.
struct Plan {
    changes: Vec<Change>,
    notes: Vec<String>,
    next: Vec<String>,
}

pub(super) fn install(
    env: &Env,
    place_args: &PlaceArgs,
    args: &InstallArgs,
) -> anyhow::Result<Exit> {
    let task = Task::new(env, place_args, args.host)?;
    if args.trust && args.host != Host::Codex {
        return Err(Hinted::usage(
            format!("{} has no trust in single hooks", args.host.title()),
            "leave --trust out",
        ));
    }
    let program = program::of(env, args.program.as_deref())?;
    let plan = task.install(program, args.trust)?;
    task.carry_out(&plan, &args.how, "install")
}

pub(super) fn uninstall(
    env: &Env,
    place_args: &PlaceArgs,
    args: &UninstallArgs,
) -> anyhow::Result<Exit> {
    let task = Task::new(env, place_args, args.host)?;
    let plan = task.uninstall()?;
    task.carry_out(&plan, &args.how, "uninstall")
}

/// Where it is recorded what was written into files of others.
pub(in crate::cli) fn store(env: &Env) -> anyhow::Result<InstallStore> {
    match env.state_dir() {
        Some(state) => Ok(InstallStore::new(state.join("installed"))),
        None => Err(no_home()),
    }
}

fn no_home() -> anyhow::Error {
    Hinted::usage(
        "no home directory is known to look for the agent in",
        "set HOME",
    )
}

impl<'a> Task<'a> {
    fn new(env: &'a Env, place_args: &PlaceArgs, host: Host) -> anyhow::Result<Self> {
        check_options(place_args)?;
        let scope = match &place_args.project {
            None => Scope::User,
            Some(_) => match Place::new(env, place_args).project()? {
                Some(directory) => Scope::Project(directory),
                None => Scope::User,
            },
        };
        Ok(Self {
            env,
            host,
            scope,
            store: store(env)?,
        })
    }

    fn project(&self) -> Option<&Path> {
        match &self.scope {
            Scope::User => None,
            Scope::Project(directory) => Some(directory),
        }
    }

    fn seen(&self) -> anyhow::Result<Seen> {
        let path = hosts::file_of(self.env, self.host, &self.scope).ok_or_else(no_home)?;
        let path = Place::from_cwd(self.env, &path);
        Seen::of(&path, &self.store)
    }

    fn install(&self, program: Program, trust: bool) -> anyhow::Result<Plan> {
        if self.host == Host::Gemini && holds_variable(&program.path) {
            return Err(Hinted::usage(
                format!(
                    "{} cannot be written into a configuration of Gemini CLI, which puts a variable in the place of what stands behind \"$\"",
                    visible(&program.path)
                ),
                "name a link to it whose path has no \"$\", with --program",
            ));
        }
        let seen = self.seen()?;
        let path = seen.path().to_owned();
        if let Some(text) = shim(self.host, &program.path) {
            return self.put_shim(seen, text, program.notes);
        }
        let edited = |edit: Result<String, _>| edit.map_err(|error| unedited(&path, &error));
        let text = edited(install::install(self.host, seen.text(), &program.path))?;
        let without = edited(install::uninstall(self.host, seen.text()))?;
        let mut plan = Plan {
            changes: Vec::new(),
            notes: program.notes,
            next: Vec::new(),
        };
        if self.host == Host::Codex {
            self.trust(&mut plan, &path, &text, trust)?;
        }
        plan.notes.extend(install::doubts(self.host, seen.text()).into_iter().map(|doubt| {
            format!(
                "{}:{doubt}: {} may take no notice of the whole file; `askrelay doctor {} --live` shows whether it does",
                visible(&path.to_string_lossy()),
                self.host.title(),
                self.host.name()
            )
        }));
        let change = seen.becomes(self.host, &self.store, text, &without, Vec::new());
        plan.changes.insert(0, change);
        self.remark(&mut plan);
        Ok(plan)
    }

    /// Puts a file of ours into a host that is gated by one.
    fn put_shim(&self, seen: Seen, text: String, notes: Vec<String>) -> anyhow::Result<Plan> {
        let there = seen.text();
        if !there.is_empty() && !is_shim(there) {
            return Err(Hinted::usage(
                format!(
                    "{} is not of askrelay",
                    visible(&seen.path().to_string_lossy())
                ),
                "nothing was changed; move the file away, and repeat the command",
            ));
        }
        let change = seen.becomes(self.host, &self.store, text, "", Vec::new());
        let mut plan = Plan {
            changes: vec![change],
            notes,
            next: Vec::new(),
        };
        self.remark(&mut plan);
        Ok(plan)
    }

    /// Codex runs no hook that it does not trust: has it do so, or says what to press.
    fn trust(&self, plan: &mut Plan, path: &Path, text: &str, record: bool) -> anyhow::Result<()> {
        let config = hosts::codex_config(self.env).ok_or_else(no_home)?;
        let config = Seen::of(&Place::from_cwd(self.env, &config), &self.store)?;
        let at = config.path().to_owned();
        let found = find(Host::Codex, text).map_err(|error| unedited(path, &error))?;
        let entries = entries_of(&hosts::codex_key_path(path), &found);
        let mut stands = Vec::new();
        for entry in &entries {
            stands.push(trust_of(config.text(), entry).map_err(|error| no_toml(&at, &error))?);
        }
        if stands.contains(&Trust::Disabled) {
            plan.notes.push(format!(
                "the hooks are switched off by hand in {}: take `enabled = false` out, or type /hooks in codex",
                visible(&at.to_string_lossy())
            ));
        }
        if stands.iter().all(|stands| *stands == Trust::Trusted) {
            return Ok(());
        }
        if record {
            let now =
                with_trust(config.text(), &entries).map_err(|error| untrusted(&at, &error))?;
            let without = without_trust(config.text(), &recorded(&config))
                .map_err(|error| no_toml(&at, &error))?;
            // What was recorded for another scope is still ours to take back.
            let mut all = recorded(&config);
            all.retain(|known| entries.iter().all(|entry| entry.key != known.key));
            all.extend(entries);
            let change = config.becomes(Host::Codex, &self.store, now, &without, pairs(all));
            plan.changes.push(change);
        } else {
            plan.next.push(
                "start codex, type /hooks, and trust both entries of askrelay: until then Codex runs neither, and asks nobody \
                 (or repeat this with --trust)"
                    .to_owned(),
            );
        }
        Ok(())
    }

    /// What somebody should know who relies on it.
    fn remark(&self, plan: &mut Plan) {
        for (path, switched) in hosts::switched_off(self.env, self.host, self.project()) {
            plan.notes.push(format!(
                "hooks do not run, for {} says {}: nothing is asked until that is taken out",
                visible(&path.to_string_lossy()),
                switched.setting()
            ));
        }
        if let Scope::Project(directory) = &self.scope {
            self.remark_on_project(plan, directory);
        }
        let name = self.host.program();
        match hosts::on_path(self.env, name).as_slice() {
            [] => plan.notes.push(format!(
                "there is no {name} on PATH: the hook counts as soon as {} is installed",
                self.host.title()
            )),
            [_] => {}
            [first, others @ ..] => {
                let show = |path: &PathBuf| visible(&path.to_string_lossy()).into_owned();
                let others: Vec<String> = others.iter().map(show).collect();
                plan.notes.push(format!(
                    "there is more than one {name} on PATH: {} is started, not {}; all of them read this file",
                    show(first),
                    others.join(", ")
                ));
            }
        }
        match self.host {
            Host::ClaudeCode => plan.next.push(
                "start sessions of Claude Code anew that run already; `claude --bare` and `--safe-mode` run no hook".to_owned(),
            ),
            Host::Gemini => {
                plan.next.push(
                    "start gemini with --yolo, or allow its tools in a policy: a yes of askrelay does not spare its own question, a no \
                     holds in any case"
                        .to_owned(),
                );
                plan.next.push(
                    "`gemini --acp` runs no hook: put `askrelay acp --` in front of it".to_owned(),
                );
            }
            Host::Codex => {}
            Host::Opencode | Host::Pi => plan.next.push(format!(
                "start sessions of {} anew that run already",
                self.host.title()
            )),
        }
        let doctor = match &self.scope {
            Scope::User => String::new(),
            Scope::Project(directory) => {
                let directory = directory.to_string_lossy();
                format!(" {}", command_line(&["--project", &directory]))
            }
        };
        plan.next.push(format!(
            "run `askrelay doctor {}{doctor} --live`: it starts {} and shows that the hook holds it",
            self.host.name(),
            self.host.title()
        ));
        plan.next.push(format!(
            "run `askrelay serve` in the terminal that is to be asked: while nobody serves, {} is denied every tool, and told why",
            self.host.title()
        ));
    }

    /// What is different where the hook stands in a file of a project: it may be shared, and the agent may have to trust the project.
    fn remark_on_project(&self, plan: &mut Plan, directory: &Path) {
        let shown = directory.to_string_lossy();
        let shown = visible(&shown);
        let file = hosts::file_of(self.env, self.host, &self.scope).unwrap_or_default();
        if self.host != Host::ClaudeCode {
            plan.notes.push(format!(
                "{} holds the path of a program on this machine: keep it out of what you commit, or the agents of others deny everything",
                visible(&file.to_string_lossy())
            ));
        }
        let trusts = match self.host {
            Host::Codex if hosts::codex_trusts(self.env, directory) => return,
            Host::Codex => {
                "start codex in {}, and trust the directory: it reads no hook of a project that it does not trust"
            }
            Host::ClaudeCode => {
                "start claude in {} once, and trust the directory: until then a session with a terminal runs no hook of it"
            }
            Host::Gemini => {
                "start gemini in {} once, and trust the folder, where folders are trusted one by one: it runs no hook of one that is not"
            }
            Host::Pi => {
                "start pi in {} once, and trust the project: it loads no extension of one that it does not trust"
            }
            Host::Opencode => return,
        };
        plan.next.push(trusts.replacen("{}", &shown, 1));
    }

    fn uninstall(&self) -> anyhow::Result<Plan> {
        let seen = self.seen()?;
        let path = seen.path().to_owned();
        if matches!(self.host, Host::Opencode | Host::Pi) {
            return Ok(Plan {
                changes: vec![seen.without_shim(self.host, &self.store)],
                notes: Vec::new(),
                next: vec![self.afterwards()],
            });
        }
        let without = install::uninstall(self.host, seen.text());
        // A file that is as it was left needs not be understood.
        let without = without.map_err(|error| unedited(&path, &error))?;
        let mut changes = vec![seen.restored(&self.store, without)];
        if self.host == Host::Codex {
            let config = hosts::codex_config(self.env).ok_or_else(no_home)?;
            let config = Seen::of(&Place::from_cwd(self.env, &config), &self.store)?;
            let of_this = format!("{}:", hosts::codex_key_path(&path));
            let (of_this, of_others): (Vec<_>, Vec<_>) = recorded(&config)
                .into_iter()
                .partition(|entry| entry.key.starts_with(&of_this));
            let at = config.path().to_owned();
            let text = config.text();
            let without = |entries: &[TrustEntry]| {
                without_trust(text, entries).map_err(|error| no_toml(&at, &error))
            };
            let now = without(&of_this)?;
            if of_others.is_empty() {
                changes.push(config.restored(&self.store, now));
            } else if !of_this.is_empty() {
                // Trust in the hooks of another scope stays.
                let of_nobody = without(&[of_this, of_others.clone()].concat())?;
                let kept = pairs(of_others);
                changes.push(config.becomes(Host::Codex, &self.store, now, &of_nobody, kept));
            }
        }
        Ok(Plan {
            changes,
            notes: Vec::new(),
            next: vec![self.afterwards()],
        })
    }

    fn afterwards(&self) -> String {
        format!(
            "start sessions of {} anew that run already; from then on it asks as it did without askrelay",
            self.host.title()
        )
    }

    fn carry_out(&self, plan: &Plan, how: &How, verb: &str) -> anyhow::Result<Exit> {
        let any = plan.changes.iter().any(Change::is_one);
        let mut out = Out::stdout();
        let mut notes = plan.notes.clone();
        notes.extend(plan.changes.iter().filter_map(Change::note));
        if !how.dry_run {
            let mut changes = plan.changes.iter().filter(|change| change.is_one());
            changes.try_for_each(Change::check_writable)?;
        }
        let diff = plan.changes.iter().filter(|change| change.is_one());
        let diff = diff.flat_map(Change::diff);
        if how.json {
            // Nobody says yes to what they have not seen.
            if !how.yes && !how.dry_run {
                diff.for_each(|line| output::say(&line));
            }
        } else {
            for line in diff {
                out.line(&line)?;
            }
            out.flush()?;
            for note in &notes {
                output::warn(note);
            }
        }
        let written = if !any || how.dry_run {
            false
        } else if how.yes || is_meant()? {
            true
        } else {
            output::say("nothing was changed");
            return Ok(Exit::Denied);
        };
        if written || !any && !how.dry_run {
            for change in &plan.changes {
                change.write(&self.store)?;
            }
        }
        if how.json {
            out.json(&self.json(plan, &notes, verb, written))?;
        } else {
            self.tell(&mut out, plan, any, written, verb)?;
        }
        out.flush()?;
        Ok(Exit::Ok)
    }

    fn tell(
        &self,
        out: &mut Out,
        plan: &Plan,
        any: bool,
        written: bool,
        verb: &str,
    ) -> anyhow::Result<()> {
        if !any {
            let path = plan.changes.first().map_or(Path::new(""), Change::path);
            let path = path.to_string_lossy();
            out.line(&if verb == "install" {
                format!("{} is as it should be; nothing was changed", visible(&path))
            } else {
                format!(
                    "there is nothing of askrelay in {}; nothing was changed",
                    visible(&path)
                )
            })?;
        } else if written {
            for change in &plan.changes {
                if let Some(done) = change.done(&self.store) {
                    out.line(&done)?;
                }
            }
        } else {
            out.line("nothing was changed (--dry-run)")?;
        }
        if any || verb == "install" {
            for next in &plan.next {
                out.line(&format!("next: {next}"))?;
            }
        }
        Ok(())
    }

    fn json(&self, plan: &Plan, notes: &[String], verb: &str, written: bool) -> Value {
        let files = plan.changes.iter().map(|change| change.json(&self.store));
        json!({
            "action": verb,
            "host": self.host.name(),
            "scope": self.scope.name(),
            "files": files.collect::<Vec<_>>(),
            "written": written,
            "notes": notes,
            "next": plan.next,
        })
    }
}

/// The trust that was recorded by us, as far as it is known.
fn recorded(config: &Seen) -> Vec<TrustEntry> {
    let entries = config.record().map_or(&[][..], |record| &record.entries);
    let entries = entries.iter().map(|(key, hash)| TrustEntry {
        key: key.clone(),
        hash: hash.clone(),
    });
    entries.collect()
}

/// Trust, as it is recorded.
fn pairs(entries: Vec<TrustEntry>) -> Vec<(String, String)> {
    let pair = |entry: TrustEntry| (entry.key, entry.hash);
    entries.into_iter().map(pair).collect()
}

/// Whether the person at the terminal means it.
fn is_meant() -> anyhow::Result<bool> {
    if !std::io::stdin().is_terminal() {
        return Err(Hinted::usage(
            "nobody is here to say that this is meant",
            "look at what it shows, and repeat the command with --yes",
        ));
    }
    output::say("write this? [y/N]");
    let mut line = String::new();
    let _length = std::io::stdin().lock().read_line(&mut line)?;
    Ok(matches!(line.trim(), "y" | "yes"))
}

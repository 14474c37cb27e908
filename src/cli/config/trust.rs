//! `askrelay config trust`: shows what the configuration of a project would bring into force, and has it count as it is now.
//!
//! What is recorded is what was shown: the bytes are read once.

use std::collections::{BTreeSet, HashSet};
use std::io::{BufRead as _, IsTerminal as _};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::cli::Hinted;
use crate::cli::exit::Exit;
use crate::cli::layers::{Layout, Wanted};
use crate::cli::output::{self, Out};
use crate::cli::place::Place;
use crate::cli::project::{ProjectFiles, ProjectSeen};
use crate::clock;
use crate::policy::{
    AgentOwner, AgentSource, Config, KEYS, PermissionMap, ProjectMay, RuleSet, Source, Sources,
    SurfaceRules, Verdict,
};
use crate::presentation::json::line as json_line;
use crate::presentation::text::visible;
use crate::spool::{
    Removal, TrustError, TrustRecord, TrustStore, TrustedFile, canonical_directory,
};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Directory of the project [default: the working directory]
    #[arg(value_name = "DIR", conflicts_with = "list")]
    directory: Option<PathBuf>,
    #[command(flatten)]
    instead: Instead,
    /// Do not ask
    #[arg(long, short)]
    yes: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What is done instead of trusting a project.
#[derive(Debug, clap::Args)]
struct Instead {
    /// Take the trust back
    #[arg(long, conflicts_with_all = ["list", "yes"])]
    remove: bool,
    /// List the projects that are trusted
    #[arg(long)]
    list: bool,
}

pub(super) fn run(place: &Place<'_>, args: &Args) -> anyhow::Result<Exit> {
    let Some(store) = place.trust_store() else {
        return Err(Hinted::usage(
            "no home directory is known to record trust in",
            "set HOME or XDG_STATE_HOME",
        ));
    };
    if args.instead.list {
        return list(&store, args.json);
    }
    let wanted = args.directory.clone().unwrap_or_else(|| PathBuf::from("."));
    let directory = canonical_directory(&place.absolute(&wanted))?;
    if args.instead.remove {
        remove(&store, &directory, args.json)
    } else {
        trust(place, &store, &directory, args)
    }
}

fn list(store: &TrustStore, as_json: bool) -> anyhow::Result<Exit> {
    let mut out = Out::stdout();
    let mut rows = Vec::new();
    for record in store.list()? {
        let record = match record {
            Ok(record) => record,
            Err(error) => {
                output::warn(&text_of(&error));
                continue;
            }
        };
        let seen = ProjectSeen::look(Path::new(&record.directory), Some(store));
        let state = match &seen {
            ProjectSeen::Trusted(_) => "as it was trusted".to_owned(),
            ProjectSeen::Changed(_, what) => format!("changed: {what}"),
            ProjectSeen::Absent | ProjectSeen::Untrusted(_) => "not there".to_owned(),
        };
        if as_json {
            out.json(&json!({
                "directory": record.directory,
                "trustedAt": record.trusted_at_ms,
                "counts": matches!(seen, ProjectSeen::Trusted(_)),
                "state": state,
                "files": files_json(&record.files),
            }))?;
        } else {
            rows.push(vec![
                visible(&record.directory).into_owned(),
                visible(&state).into_owned(),
            ]);
        }
    }
    if !as_json {
        if rows.is_empty() {
            out.line("no project is trusted")?;
        }
        for line in output::table(&rows) {
            out.line(&line)?;
        }
    }
    out.flush()?;
    Ok(Exit::Ok)
}

fn remove(store: &TrustStore, directory: &Path, as_json: bool) -> anyhow::Result<Exit> {
    let removed = store.remove(directory).map_err(failed)? == Removal::Removed;
    let mut out = Out::stdout();
    let shown = directory.to_string_lossy();
    if as_json {
        out.json(&json!({"directory": shown, "trusted": false, "removed": removed}))?;
    } else if removed {
        out.line(&format!("{} is not trusted any more", visible(&shown)))?;
    } else {
        out.line(&format!("{} was not trusted", visible(&shown)))?;
    }
    out.flush()?;
    Ok(Exit::Ok)
}

fn trust(
    place: &Place<'_>,
    store: &TrustStore,
    directory: &Path,
    args: &Args,
) -> anyhow::Result<Exit> {
    let seen = ProjectSeen::look(directory, None);
    let Some(project) = seen.files() else {
        return Err(Hinted::usage(
            format!("there is no configuration in {}", directory.display()),
            "a project has its rules in .askrelay/config.json, and agents in .askrelay/agents",
        ));
    };
    let files = usable(project)?;
    let mut out = Out::stdout();
    if !args.json {
        let lost = denies_lost(place, project)?;
        for line in summary(project, &files, &lost)? {
            out.line(&line)?;
        }
        out.flush()?;
    }
    if !args.yes && !is_meant()? {
        output::say("nothing was changed");
        return Ok(Exit::Denied);
    }
    let record = TrustRecord {
        directory: directory.to_string_lossy().into_owned(),
        trusted_at_ms: clock::wall_ms(),
        files,
    };
    store.publish(directory, &record).map_err(failed)?;
    if args.json {
        out.json(&json!({
            "directory": record.directory,
            "trusted": true,
            "files": files_json(&record.files),
        }))?;
    } else {
        let directory = visible(&record.directory);
        out.line(&format!(
            "{directory} is trusted as it is now; a change of these files ends that"
        ))?;
    }
    out.flush()?;
    Ok(Exit::Ok)
}

/// Whether the person at the terminal means it.
fn is_meant() -> anyhow::Result<bool> {
    if !std::io::stdin().is_terminal() {
        return Err(Hinted::usage(
            "nobody is here to say that this is meant",
            "look at what it says, and repeat the command with --yes",
        ));
    }
    output::say("trust these files as they are? [y/N]");
    let mut line = String::new();
    let _length = std::io::stdin().lock().read_line(&mut line)?;
    Ok(matches!(line.trim(), "y" | "yes"))
}

/// The files to be trusted; an error that names everything which cannot be used.
fn usable(project: &ProjectFiles) -> anyhow::Result<Vec<TrustedFile>> {
    let config = project.config.iter().filter_map(|file| file.seen.trouble());
    let agents = project.agents.iter();
    let agents = agents.filter_map(|(_, file)| file.seen.trouble());
    let broken: Vec<&str> = config.chain(agents).collect();
    if !broken.is_empty() {
        return Err(Hinted::usage(
            format!(
                "what cannot be used cannot be trusted: {}",
                broken.join("; ")
            ),
            "`askrelay config check` says everything that is wrong",
        ));
    }
    project.trusted_files().map_err(|trouble| {
        Hinted::usage(
            format!("what cannot be read cannot be trusted: {trouble}"),
            "see to it that these files can be read, and are writable by nobody else",
        )
    })
}

/// The denies of the user that do not hold any more once the project counts: their surface is replaced, or their pattern says
/// something else. That a rule behind them allows more is seen among what the project allows.
fn denies_lost(place: &Place<'_>, project: &ProjectFiles) -> anyhow::Result<Vec<String>> {
    let layout = Layout {
        project: None,
        ..place.layout()?
    };
    let before = layout.read(Wanted::Everything).in_force(None).sources;
    let mut after = before.clone();
    let config = project.config.as_ref().and_then(|file| file.seen.value());
    after.project = config.map(|config| Source {
        label: String::new(),
        config: config.clone(),
    });
    let of_project = project.agents.iter().map(|(agent, file)| AgentSource {
        agent: agent.clone(),
        owner: AgentOwner::Project,
        label: String::new(),
        front: file.seen.value().cloned(),
        trouble: None,
    });
    after.agents.extend(of_project);
    let agents: BTreeSet<&str> = after.agents.iter().map(|of| of.agent.as_str()).collect();
    let policy = |sources: &Sources| sources.policy(&sources.layered().config, None);
    let (before, now) = (policy(&before), policy(&after));
    let of = |agent: &str| lost(before.rules_for(agent), now.rules_for(agent));
    let mut all = of("");
    let of_everybody: HashSet<String> = all.iter().cloned().collect();
    for agent in agents {
        // What is lost for everybody is said once.
        let more = of(agent).into_iter();
        let more = more.filter(|line| !of_everybody.contains(line));
        all.extend(more.map(|line| format!("{line}  (agent {})", visible(agent))));
    }
    Ok(all)
}

/// The denies of some rules that others do not have, each in one line.
fn lost(before: &RuleSet, now: &RuleSet) -> Vec<String> {
    let held: HashSet<(&str, &str)> = denies(now).collect();
    let gone = denies(before).filter(|deny| !held.contains(deny));
    let mut lines: Vec<String> = gone
        .map(|(surface, pattern)| format!("  {}: {}", visible(surface), visible(pattern)))
        .collect();
    if before.default_verdict().0 == Verdict::Deny && now.default_verdict().0 != Verdict::Deny {
        lines.push("  whatever no rule names".to_owned());
    }
    lines
}

fn denies(rules: &RuleSet) -> impl Iterator<Item = (&str, &str)> {
    rules
        .rules()
        .filter(|rule| rule.verdict == Verdict::Deny)
        .map(|rule| (&*rule.surface, rule.pattern.as_str()))
}

fn summary(
    project: &ProjectFiles,
    files: &[TrustedFile],
    lost: &[String],
) -> anyhow::Result<Vec<String>> {
    let directory = project.directory.to_string_lossy();
    let mut lines = vec![
        format!("project {}", visible(&directory)),
        "its files:".to_owned(),
    ];
    let file = |file: &TrustedFile| format!("  {}  {}", visible(&file.path), file.digest);
    lines.extend(files.iter().map(file));
    let mut said = Vec::new();
    let config = project.config.as_ref().and_then(|file| file.seen.value());
    if let Some(config) = config {
        said.push((String::new(), &config.permission));
    }
    for (agent, file) in &project.agents {
        if let Some(rules) = file
            .seen
            .value()
            .and_then(|front| front.permission.as_ref())
        {
            said.push((format!("  (agent {})", visible(agent)), rules));
        }
    }
    for verdict in [Verdict::Allow, Verdict::Ask, Verdict::Deny] {
        let rules = said.iter().flat_map(|(whose, map)| {
            let rules = rules_of(map, verdict).into_iter();
            rules.map(move |rule| format!("  {rule}{whose}"))
        });
        let rules: Vec<String> = rules.collect();
        if verdict == Verdict::Allow {
            lines.push(match rules.len() {
                0 => "it allows nothing".to_owned(),
                _ => "it allows:".to_owned(),
            });
            lines.extend(rules);
        } else if !rules.is_empty() {
            lines.push(format!(
                "rules of it that say {}: {}",
                verdict.name(),
                rules.len()
            ));
        }
    }
    if !lost.is_empty() {
        lines.push("denies of yours that it takes out of force:".to_owned());
        lines.extend_from_slice(lost);
    }
    if let Some(config) = config {
        lines.extend(settings(config)?);
    }
    Ok(lines)
}

/// The rules of a map that say this, each in one line.
fn rules_of(map: &PermissionMap, verdict: Verdict) -> Vec<String> {
    let mut rules = Vec::new();
    for (surface, said) in &map.surfaces {
        match said {
            SurfaceRules::Whole(whole) if *whole == verdict => {
                let what = if surface == "*" {
                    "whatever no rule names".to_owned()
                } else {
                    format!("{}: everything", visible(surface))
                };
                rules.push(what);
            }
            SurfaceRules::Whole(_) => {}
            SurfaceRules::Patterns(patterns) => rules.extend(
                patterns
                    .iter()
                    .filter(|rule| rule.verdict == verdict)
                    .map(|rule| format!("{}: {}", visible(surface), visible(&rule.pattern))),
            ),
        }
    }
    rules
}

/// What else the configuration says, programs with their whole command line.
fn settings(config: &Config) -> anyhow::Result<Vec<String>> {
    let mut lines = Vec::new();
    for (what, programs) in [
        ("annotator", &config.annotators),
        ("evidence formatter", &config.evidence_formatters),
    ] {
        for (name, program) in programs {
            let name = visible(name);
            let command = json_line(&program.command)?;
            lines.push(format!("it runs, as {what} {name}: {command}"));
        }
    }
    let alone = Sources {
        project: Some(Source {
            label: String::new(),
            config: config.clone(),
        }),
        ..Sources::default()
    };
    let withheld = alone.layered().withheld;
    let told_above = |key: &str| {
        matches!(
            key,
            "permission" | "annotators" | "evidenceFormatters" | "$schema"
        )
    };
    for key in KEYS.iter().filter(|key| !told_above(key.name)) {
        if !config.stated.contains_key(key.name) {
            continue;
        }
        let value = json_line(&config.value_of(key.name))?;
        let name = key.name;
        lines.push(
            match withheld.iter().find(|withheld| withheld.key == name) {
                Some(withheld) => format!("does not count: {name} = {value} ({})", withheld.why()),
                None if key.project == ProjectMay::Lower => format!("it lowers: {name} = {value}"),
                None => format!("it sets: {name} = {value}"),
            },
        );
    }
    Ok(lines)
}

fn files_json(files: &[TrustedFile]) -> Vec<Value> {
    let json = |file: &TrustedFile| json!({"path": file.path, "digest": file.digest});
    files.iter().map(json).collect()
}

fn text_of(error: &TrustError) -> String {
    match error {
        TrustError::Spool(error) => crate::ask::describe(error),
        TrustError::Garbled { .. } | TrustError::TooMany { .. } => error.to_string(),
    }
}

fn failed(error: TrustError) -> anyhow::Error {
    match error {
        TrustError::Spool(error) => error.into(),
        TrustError::Garbled { .. } => Hinted::usage(
            error.to_string(),
            "remove the file, and trust the project again",
        ),
        TrustError::TooMany { .. } => Hinted::usage(
            error.to_string(),
            "put the rules of these agents into fewer files",
        ),
    }
}

//! `askrelay policy suggest`: rules for what persons have approved again and again, as a diff of the configuration.
//!
//! It proposes exact values only, each of them judged under the configuration as it would be. It never changes a file.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::path::Path;

use serde_json::{Value, json};

use crate::audit::{Access, Approvals, Approved, Found, Scan, Scanned};
use crate::cli::env::Env;
use crate::cli::exit::Exit;
use crate::cli::log;
use crate::cli::output::{self, Out};
use crate::cli::place::{Loaded, Place};
use crate::cli::{Hinted, PlaceArgs};
use crate::policy::{
    BASH_SURFACE, Config, MAX_CONFIG_BYTES, NewRule, NewRules, Pattern, Policy, Question,
    SessionRules, TextFidelity, Verdict, is_command_surface, is_path_surface,
};
use crate::presentation::evidence::unified_diff;
use crate::presentation::text::visible;
use crate::shell;
use crate::spool::{OperatorFile, read_operator_file};
use crate::wire::{ForwardedAccessIntent, Principal};

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    /// How often a person must have approved a value
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
    min: u64,
    /// Only what was decided since then: a time, a day, or a span before now
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// A value that a rule could allow.
struct Candidate<'a> {
    surface: &'a str,
    value: &'a str,
    of: &'a Approved,
}

/// How many values were passed over, by the reason.
type Skipped = BTreeMap<&'static str, u64>;

pub(super) fn run(env: &Env, place_args: &PlaceArgs, args: &Args) -> anyhow::Result<Exit> {
    let place = Place::new(env, place_args);
    let since_ms = args.since.as_deref().map(log::since_ms).transpose()?;
    let loaded = place.config()?;
    let home = place.home();
    let policy = loaded.policy(home.as_deref());
    let log_path = place.log_file()?;
    let Some(approvals) = approvals(&log_path, since_ms)? else {
        return log::no_log(&place, &log_path);
    };
    let mut skipped = Skipped::new();
    let mut chosen = choose(&approvals, args.min, &policy, home.as_deref(), &mut skipped);
    let file = loaded.layout.global.clone().ok_or_else(|| {
        Hinted::usage(
            "no home directory is known to find the configuration in",
            "name one with --config FILE",
        )
    })?;
    let (text, label) = (text_of(&file)?, file.to_string_lossy());
    let mut after = with_rules(&text, &label, &chosen, &approvals, &policy)?;
    let trial = trial(&loaded, &after, &label, home.as_deref())?;
    let before = chosen.len();
    chosen.retain(|candidate| verdicts(&trial, candidate).all(|said| said == Verdict::Allow));
    if chosen.len() < before {
        // Another layer has the last word on these.
        let others = u64::try_from(before - chosen.len()).unwrap_or(u64::MAX);
        *skipped.entry(OTHER_LAYER).or_default() += others;
        after = with_rules(&text, &label, &chosen, &approvals, &policy)?;
    }
    let diff = diff(&text, &after, &label);
    print(&chosen, &skipped, &diff, &label, args)?;
    Ok(Exit::Ok)
}

const OTHER_LAYER: &str = "asked all the same by the rules of a project or an agent";

/// What the log tells. `None` where there is no log.
fn approvals(path: &Path, since_ms: Option<i64>) -> anyhow::Result<Option<Approvals>> {
    let query = crate::audit::Query {
        since_ms,
        event: Some("permission_request.".to_owned()),
        ..crate::audit::Query::default()
    };
    let mut scan = Scan::new(path, Access::Own, query);
    let mut approvals = Approvals::default();
    let mut see = |found: Found<'_>| {
        if let Found::Entry { entry, .. } = found {
            approvals.count(&entry);
        }
        ControlFlow::Continue(())
    };
    let scanned = log::readable(scan.read(&mut see))?;
    log::stop(scan.finish(&mut see));
    Ok((scanned != Scanned::NoLog).then_some(approvals))
}

/// The text of the configuration; nothing where there is no file.
fn text_of(path: &Path) -> anyhow::Result<String> {
    match read_operator_file(path, MAX_CONFIG_BYTES)? {
        OperatorFile::Content(bytes) => Ok(String::from_utf8(bytes)?),
        OperatorFile::Missing => Ok(String::new()),
    }
}

/// The values that a rule of this configuration could allow, and does not decide yet.
fn choose<'a>(
    approvals: &'a Approvals,
    min: u64,
    policy: &Policy,
    home: Option<&str>,
    skipped: &mut Skipped,
) -> Vec<Candidate<'a>> {
    let unknown = approvals.unknown;
    for (why, count) in [
        ("approvals of values that the log has cut", unknown.cut),
        (
            "approvals of values with a secret that the log masks",
            unknown.masked,
        ),
        (
            "approvals of values that the log does not tell",
            unknown.not_told,
        ),
        ("approvals beyond what is counted", unknown.too_many),
    ] {
        if count > 0 {
            skipped.insert(why, count);
        }
    }
    let mut chosen = Vec::new();
    for (surface, value, of) in approvals.values() {
        let candidate = Candidate { surface, value, of };
        if of.times < min {
            if of.times > 0 {
                *skipped.entry("approved less often").or_default() += 1;
            }
            continue;
        }
        match unfit(&candidate, policy, home) {
            Some(why) => *skipped.entry(why).or_default() += 1,
            None => chosen.push(candidate),
        }
    }
    chosen
}

/// Why a value is not proposed.
fn unfit(candidate: &Candidate<'_>, policy: &Policy, home: Option<&str>) -> Option<&'static str> {
    let Candidate { surface, value, of } = candidate;
    if of.denied > 0 {
        return Some("denied at another time");
    }
    let pattern = Pattern::compile(value, home);
    if !pattern.is_literal() || !pattern.matches(value) {
        return Some("with a * or ? or ~, for which a rule would cover more or something else");
    }
    if surface.contains(['*', '?']) || *surface == "*" {
        return Some("on a surface whose name is a pattern");
    }
    if is_path_surface(surface) && !value.starts_with('/') {
        return Some("paths that mean another file in another directory");
    }
    if is_command_surface(surface) {
        let reading = shell::read(value);
        if reading.heaviest_floor().is_some() {
            return Some("commands that no rule may allow for what they hide or write");
        }
        let is_whole = reading.units.iter().all(|unit| unit.text == *value);
        if !(reading.is_one_plain_command(value) && is_whole) {
            return Some("lines of several commands, which are judged one by one");
        }
    }
    let mut said = verdicts(policy, candidate);
    if said.all(|said| said == Verdict::Allow) {
        return Some("allowed already");
    }
    let mut said = verdicts(policy, candidate);
    said.any(|said| said == Verdict::Deny)
        .then_some("denied by a rule")
}

/// What a policy says about a value, in the name of each agent that asked for it.
fn verdicts<'c>(
    policy: &'c Policy,
    candidate: &'c Candidate<'_>,
) -> impl Iterator<Item = Verdict> + 'c {
    let agents = &candidate.of.agents;
    let nobody = agents.is_empty().then_some("");
    let names = agents.iter().map(String::as_str).chain(nobody);
    names.map(|agent| {
        let intent = ForwardedAccessIntent {
            surface: candidate.surface.to_owned(),
            match_values: vec![candidate.value.to_owned()],
            boundary_value: None,
            requester_cwd: String::new(),
            principal: Principal {
                session_id: String::new(),
                agent_name: agent.to_owned(),
            },
            floor: None,
            asking_units: None,
        };
        let question = Question {
            intent: Some(&intent),
            text: TextFidelity::Exact,
            payload: None,
        };
        policy.judge(&question, &SessionRules::default()).verdict
    })
}

fn with_rules(
    text: &str,
    label: &str,
    chosen: &[Candidate<'_>],
    approvals: &Approvals,
    policy: &Policy,
) -> anyhow::Result<String> {
    let rules = rules(chosen, approvals, policy);
    Ok(Config::with_rules(text, label, &rules)?)
}

/// The candidates as rules, each with a comment that says where it comes from.
fn rules(chosen: &[Candidate<'_>], approvals: &Approvals, policy: &Policy) -> Vec<NewRules> {
    let mut by_surface: BTreeMap<&str, Vec<NewRule>> = BTreeMap::new();
    for (at, candidate) in chosen.iter().enumerate() {
        let mut comments = vec![origin(candidate.of)];
        if candidate.surface == "mcp" && !by_surface.contains_key("mcp") && !allows_mcp(policy) {
            comments.push(
                "with the first allow on mcp come mcp_status, mcp_list, mcp_search, mcp_describe and mcp_connect"
                    .to_owned(),
            );
        }
        let rest = chosen.get(at + 1..).unwrap_or_default();
        if let Some(wider) = wider(candidate, chosen, rest, approvals) {
            comments.push(format!(
                "wider, for these and more like them: {}: \"allow\"",
                Value::from(wider)
            ));
        }
        by_surface
            .entry(candidate.surface)
            .or_default()
            .push(NewRule {
                pattern: candidate.value.to_owned(),
                comments,
            });
    }
    by_surface
        .into_iter()
        .map(|(surface, patterns)| NewRules {
            surface: surface.to_owned(),
            patterns,
        })
        .collect()
}

fn allows_mcp(policy: &Policy) -> bool {
    let mut rules = policy.rules_for("").rules();
    rules.any(|rule| &*rule.surface == "mcp" && rule.verdict == Verdict::Allow)
}

fn origin(of: &Approved) -> String {
    let agents: Vec<_> = of
        .agents
        .iter()
        .take(3)
        .map(|agent| visible(agent))
        .collect();
    let more = of.agents.len().saturating_sub(agents.len());
    let names = match (agents.is_empty(), more) {
        (true, _) => String::new(),
        (false, 0) => format!(", for {}", agents.join(", ")),
        (false, more) => format!(", for {} and {more} more", agents.join(", ")),
    };
    let last = of
        .last_ms
        .and_then(|at| jiff::Timestamp::from_millisecond(at).ok())
        .map(|at| format!(", last on {}", at.strftime("%Y-%m-%d")));
    format!(
        "approved {} by a person{}{names}",
        match of.times {
            1 => "once".to_owned(),
            times => format!("{times} times"),
        },
        last.unwrap_or_default()
    )
}

/// The program and its first argument.
fn stem(value: &str) -> Option<String> {
    let mut words = value.split(' ');
    let (program, argument) = (words.next()?, words.next()?);
    let is_word = |word: &str| {
        !word.is_empty()
            && word
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/'))
    };
    (is_word(program) && is_word(argument)).then(|| format!("{program} {argument}"))
}

/// A wider pattern, at the last of several values that begin with the same program and argument. Never one that covers what was
/// denied.
fn wider(
    candidate: &Candidate<'_>,
    chosen: &[Candidate<'_>],
    rest: &[Candidate<'_>],
    approvals: &Approvals,
) -> Option<String> {
    if candidate.surface != BASH_SURFACE {
        return None;
    }
    let stem_of = |other: &Candidate<'_>| {
        (other.surface == BASH_SURFACE)
            .then(|| stem(other.value))
            .flatten()
    };
    let shared = stem_of(candidate)?;
    let is_alike = |other: &&Candidate<'_>| stem_of(other).as_ref() == Some(&shared);
    if chosen.iter().filter(is_alike).count() < 2 || rest.iter().any(|other| is_alike(&other)) {
        return None;
    }
    let text = format!("{shared} *");
    let pattern = Pattern::compile(&text, None);
    let mut denied = approvals.values().filter(|(_, _, of)| of.denied > 0);
    let covers_denied =
        denied.any(|(surface, value, _)| surface == BASH_SURFACE && pattern.matches(value));
    (!covers_denied).then_some(text)
}

fn trial(loaded: &Loaded, text: &str, label: &str, home: Option<&str>) -> anyhow::Result<Policy> {
    let config = Config::read(text.as_bytes(), label)?;
    Ok(loaded.policy_under(config, label, home))
}

fn diff(before: &str, after: &str, label: &str) -> String {
    if before == after {
        return String::new();
    }
    let old = if before.is_empty() {
        "/dev/null"
    } else {
        label
    };
    format!("{}\n", unified_diff(old, before, label, after))
}

fn print(
    chosen: &[Candidate<'_>],
    skipped: &Skipped,
    diff: &str,
    label: &str,
    args: &Args,
) -> anyhow::Result<()> {
    let mut out = Out::stdout();
    if args.json {
        let rules: Vec<Value> = chosen
            .iter()
            .map(|candidate| {
                json!({
                    "surface": candidate.surface,
                    "pattern": candidate.value,
                    "verdict": "allow",
                    "approved": candidate.of.times,
                    "agents": candidate.of.agents,
                    "lastMs": candidate.of.last_ms,
                })
            })
            .collect();
        out.json(&json!({ "v": 1, "file": label, "min": args.min, "rules": rules, "skipped": skipped, "diff": diff }))?;
        return out.flush();
    }
    if !diff.is_empty() {
        out.raw(diff.trim_end_matches('\n').as_bytes())?;
    }
    out.flush()?;
    let surfaces: BTreeSet<&str> = chosen.iter().map(|candidate| candidate.surface).collect();
    output::say(&match chosen.len() {
        0 => "nothing is suggested".to_owned(),
        count => format!(
            "{count} rule{} suggested, on {}; nothing was changed",
            if count == 1 { " is" } else { "s are" },
            visible(&surfaces.into_iter().collect::<Vec<_>>().join(", "))
        ),
    });
    for (why, count) in skipped {
        output::say(&format!("  passed over: {count} {why}"));
    }
    if !chosen.is_empty() {
        output::say(&format!(
            "\nhint: read the diff; to take it, patch {} with it",
            visible(label)
        ));
    }
    Ok(())
}

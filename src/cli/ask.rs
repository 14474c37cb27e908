//! `askrelay ask`: one ask from the command line, and the decision as an exit code.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};

use super::env::Env;
use super::exit::Exit;
use super::output::{self, Out};
use super::pin::Pins;
use super::place::Place;
use super::role::Ancestor;
use super::{Hinted, PlaceArgs, input, role};
use crate::ask::{
    Abandonment, Answer, Ask, Outcome, PlainAsk, Requester, Settings, Spellings, intent_of,
    unaddressed,
};
use crate::audit::ReviewLog;
use crate::clock;
use crate::policy::{BASH_SURFACE, Config, is_path_surface};
use crate::presentation::denial::{DenialContext, agent_text};
use crate::spool::{
    LivenessProbe, Missing, OperatorFile, Spool, Watch, path_spellings, read_operator_file,
};
use crate::wire::{
    ApprovalGrant, DecisionState, Evidence, Generation, GrantWidth, Liveness, MAX_REQUEST_BYTES,
    PayloadKind, Principal, PromptPayload, RequestSource, SessionId,
};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Tool that would be called
    #[arg(long, default_value = "bash", value_name = "NAME")]
    tool: String,
    /// Gate surface: what rules are written for [default: the tool]
    #[arg(long, value_name = "NAME")]
    surface: Option<String>,
    /// Kind of the gate [default: what the surface says]
    #[arg(long, value_name = "KIND")]
    kind: Option<String>,
    /// The command, path, target or name that is asked for [default: what the input states]
    #[arg(long, value_name = "TEXT", required_unless_present_any = ["payload", "input"])]
    value: Option<String>,
    /// The tool's own input, of which evidence is made: JSON, @FILE, or - for stdin
    #[arg(long, value_name = "JSON")]
    input: Option<String>,
    /// What helps to decide: LABEL=TEXT, or LABEL=@FILE
    #[arg(long, value_name = "LABEL=TEXT")]
    evidence: Vec<String>,
    /// What could be granted for the session: SURFACE=PATTERN
    #[arg(long, value_name = "SURFACE=PATTERN")]
    grant: Vec<String>,
    /// Id of the ask [default: a fresh one]
    #[arg(long, value_name = "ID")]
    id: Option<String>,
    /// How long to wait at most: 90s, 10m, 1h [default: forwardingTimeoutMs of the configuration]
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    timeout: Option<Duration>,
    /// A complete payload as JSON, instead of --value and --evidence; `-` reads stdin
    #[arg(long, value_name = "FILE", conflicts_with_all = ["value", "input", "evidence", "kind"])]
    payload: Option<PathBuf>,
    /// The session that is asked [env: ASKRELAY_PARENT_SESSION]
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// Own session [env: ASKRELAY_SESSION]
    #[arg(long, value_name = "ID")]
    from: Option<String>,
    /// Own agent name [env: ASKRELAY_AGENT]
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// Key that the session that is asked seals its answers with [env: ASKRELAY_SERVING_KEY]
    #[arg(long, value_name = "KEY")]
    serving_key: Option<String>,
    /// Write for the oldest generation of the peer
    #[arg(long, value_name = "GENERATION", value_parser = ["g1"])]
    peer: Option<String>,
    /// Print the decision as JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(env: &Env, place_args: &PlaceArgs, args: Args) -> anyhow::Result<Exit> {
    let place = Place::new(env, place_args);
    let asking = place.settings()?;
    asking.warn();
    let config = &asking.config;
    let ancestors = role::lineage(env)?;
    let pins = Pins::new(
        env,
        args.serving_key.as_deref(),
        &ancestors,
        config.require_seal.is_on(),
    )?;
    let log = place.log(config);
    let failed_before = log.failure().is_some();
    let own = role::requester(env, args.from.as_deref());
    let agent = args
        .agent
        .clone()
        .or_else(|| env.text(super::env::AGENT))
        .unwrap_or_else(|| "unknown".to_owned());
    let json = args.json;
    let Some(prepared) = prepare(env, &place, config, args, &own.id, &agent, &log)? else {
        return Ok(interrupted("nothing was asked"));
    };
    let payload = prepared.ask.payload.clone();
    let target = role::asked(
        env,
        prepared.session.as_deref(),
        &Place::default_session(config),
        &own.id,
    );
    if let Ok(target) = &target {
        asking.check_default_is_meant(&target.reason)?;
    }
    let answer = match target {
        Err(nobody) => Some(unaddressed(
            prepared.ask.id.as_deref(),
            Abandonment::NoParent {
                tried: nobody.tried.join("; "),
            },
            &log,
        )),
        Ok(target) => match place.spool(Missing::Create) {
            Err(error) => {
                let abandonment = Abandonment::NoDirectories {
                    target: target.session,
                    cause: format!("{error:#}"),
                };
                Some(unaddressed(prepared.ask.id.as_deref(), abandonment, &log))
            }
            Ok(spool) => {
                let mut target = target.session;
                if prepared.session.is_none() && prepared.generation == Generation::Current {
                    target = nearest_served(&spool, target, &ancestors, &pins, &own.id);
                }
                let settings = Settings {
                    trust: pins.trust(&target),
                    target,
                    session_id: own.id,
                    agent_name: agent.clone(),
                    generation: prepared.generation,
                };
                wait(&spool, settings, prepared.ask, &log)?
            }
        },
    };
    // Where it could not be opened, that was said.
    if let (false, Some(failure)) = (failed_before, log.failure()) {
        output::warn(&format!("the review log cannot be written: {failure}"));
    }
    let Some(answer) = answer else {
        return Ok(interrupted("the request was withdrawn"));
    };
    report(&answer, &payload, &agent, json)
}

fn interrupted(what_follows: &str) -> Exit {
    output::say(&format!("interrupted; {what_follows}"));
    Exit::Interrupted
}

/// A parent that serves nobody cannot answer, but a session above it may: the nearest one that is being served. Where any is
/// known by its key, it is the nearest one that is known, served or not.
fn nearest_served(
    spool: &Spool,
    parent: SessionId,
    ancestors: &[Ancestor],
    pins: &Pins<'_>,
    own_id: &str,
) -> SessionId {
    if pins.any() {
        return pins.nearest_known(&parent, own_id);
    }
    let serves = |session: &SessionId| {
        LivenessProbe::new(spool.clone(), session.clone())
            .look(clock::now())
            .liveness
            == Liveness::Alive
    };
    if ancestors.is_empty() || serves(&parent) {
        return parent;
    }
    let above = ancestors
        .iter()
        .rev()
        .filter_map(|ancestor| SessionId::parse(&ancestor.hop.session_id).ok());
    above
        .filter(|session| session.as_str() != own_id)
        .find(serves)
        .unwrap_or(parent)
}

struct Prepared {
    ask: Ask,
    session: Option<String>,
    generation: Generation,
}

/// The ask with everything that belongs to it; `None` where a signal came first.
fn prepare(
    env: &Env,
    place: &Place<'_>,
    config: &Config,
    args: Args,
    own_id: &str,
    agent: &str,
    log: &ReviewLog,
) -> anyhow::Result<Option<Prepared>> {
    let mut cwd = env.cwd().cloned().unwrap_or_default();
    let mut payload = match &args.payload {
        Some(path) => read_payload(path)?,
        None => match plain(env, place, config, &args, log)? {
            Some((plain, alias)) => {
                let mut payload = plain.payload();
                if let Some(Alias { tool, directory }) = alias {
                    payload.request.invoked_tool_name = Some(tool);
                    cwd.extend(directory);
                }
                payload
            }
            None => return Ok(None),
        },
    };
    let lineage = role::lineage(env)?;
    if !lineage.is_empty() {
        let names: Vec<&str> = lineage
            .iter()
            .map(|ancestor| ancestor.hop.session_id.as_str())
            .chain([own_id])
            .collect();
        payload.evidence.push(Evidence {
            label: "lineage".to_owned(),
            text: names.join(" > "),
            detail: None,
        });
    }
    let facts = &payload.request;
    let spellings = if is_path_surface(&facts.surface) {
        let (values, canonical) = path_spellings(&facts.value, &cwd);
        Spellings {
            values,
            boundary: Some(canonical),
        }
    } else {
        Spellings {
            values: vec![facts.value.clone()],
            boundary: None,
        }
    };
    let principal = Principal {
        session_id: own_id.to_owned(),
        agent_name: agent.to_owned(),
    };
    let intent = intent_of(
        &payload,
        spellings,
        cwd.to_string_lossy().into_owned(),
        principal,
    );
    let ask = Ask {
        id: args.id,
        source: match payload.kind {
            PayloadKind::Skill => RequestSource::SkillInput,
            PayloadKind::SkillRead => RequestSource::SkillRead,
            PayloadKind::Bash
            | PayloadKind::Mcp
            | PayloadKind::Tool
            | PayloadKind::Path
            | PayloadKind::ExternalDirectory
            | PayloadKind::BashExternalDirectory
            | PayloadKind::Forwarded => RequestSource::ToolCall,
        },
        surface: Some(
            facts
                .tool_name
                .clone()
                .unwrap_or_else(|| facts.surface.clone()),
        ),
        value: Some(facts.value.clone()),
        grants: args
            .grant
            .iter()
            .map(|grant| parse_grant(grant))
            .collect::<anyhow::Result<_>>()?,
        access_intent: Some(intent),
        timeout: args.timeout.unwrap_or(config.forwarding_timeout),
        path: Vec::new(),
        payload,
    };
    let generation = if args.peer.is_some() {
        Generation::G1
    } else {
        config.peer_generation
    };
    Ok(Some(Prepared {
        ask,
        session: args.session,
        generation,
    }))
}

/// A tool that runs a command line under another name than `bash`.
struct Alias {
    tool: String,
    /// The directory that its input names.
    directory: Option<String>,
}

/// The ask in plain words; `None` where a signal came first.
fn plain(
    env: &Env,
    place: &Place<'_>,
    config: &Config,
    args: &Args,
    log: &ReviewLog,
) -> anyhow::Result<Option<(PlainAsk, Option<Alias>)>> {
    let kind = match &args.kind {
        None => None,
        Some(name) => Some(PayloadKind::from_name(name).ok_or_else(|| {
            Hinted::usage(
                format!("there is no kind {name:?}"),
                "bash, mcp, tool, path, external_directory, bash_external_directory, skill or skill_read",
            )
        })?),
    };
    let mut plain = PlainAsk {
        tool: args.tool.clone(),
        surface: args.surface.clone().unwrap_or_else(|| args.tool.clone()),
        kind,
        value: args.value.clone().unwrap_or_default(),
        evidence: Vec::new(),
    };
    let mut alias = None;
    // Whoever says what it is to be judged as has the last word.
    let shell_tool = config.shell_tools.get(&args.tool);
    let shell_tool = shell_tool.filter(|_| args.surface.is_none() && args.kind.is_none());
    if shell_tool.is_some() {
        BASH_SURFACE.clone_into(&mut plain.tool);
        BASH_SURFACE.clone_into(&mut plain.surface);
        alias = Some(Alias {
            tool: args.tool.clone(),
            directory: None,
        });
    }
    let given = args
        .evidence
        .iter()
        .map(|text| parse_evidence(text))
        .collect::<anyhow::Result<Vec<_>>>()?;
    if let Some(argument) = &args.input {
        let input = input::read(argument)?;
        match (shell_tool, &mut alias) {
            (Some(shell), Some(alias)) => {
                if args.value.is_none() {
                    plain.value = input::command_of(shell, &alias.tool, &input)?;
                }
                alias.directory = input::directory_of(shell, &input);
            }
            _ if args.value.is_none() => input::take_value(&mut plain, &input)?,
            _ => {}
        }
        plain.evidence = input::evidence(env, &plain, &input);
        let added = input::added(env, place, config, log, &args.tool, &input);
        match unless_interrupted(added)? {
            Some(added) => plain.evidence.extend(added),
            None => return Ok(None),
        }
    }
    plain.evidence.extend(given);
    Ok(Some((plain, alias)))
}

fn read_payload(path: &Path) -> anyhow::Result<PromptPayload> {
    let bytes = if path.as_os_str() == "-" {
        let mut bytes = Vec::new();
        let limit = MAX_REQUEST_BYTES as u64 + 1;
        std::io::stdin()
            .take(limit)
            .read_to_end(&mut bytes)
            .context("cannot read the payload from stdin")?;
        bytes
    } else {
        read_text_file(path)?
    };
    PromptPayload::from_json(&bytes).map_err(|unusable| {
        Hinted::usage(
            format!("the payload is unusable: {unusable}"),
            "`askrelay schema payload` prints what it must be",
        )
    })
}

pub(super) fn read_text_file(path: &Path) -> anyhow::Result<Vec<u8>> {
    match read_operator_file(path, MAX_REQUEST_BYTES)? {
        OperatorFile::Content(bytes) => Ok(bytes),
        OperatorFile::Missing => Err(Hinted::usage(
            format!("there is no file {}", path.display()),
            "check the path",
        )),
    }
}

fn parse_evidence(argument: &str) -> anyhow::Result<Evidence> {
    let (label, text) = argument
        .split_once('=')
        .filter(|(label, _)| !label.is_empty())
        .ok_or_else(|| {
            Hinted::usage(
                format!("{argument:?} is no evidence"),
                "write LABEL=TEXT, or LABEL=@FILE",
            )
        })?;
    let text = match text.strip_prefix('@') {
        Some(path) => String::from_utf8_lossy(&read_text_file(Path::new(path))?).into_owned(),
        None => text.to_owned(),
    };
    Ok(Evidence {
        label: label.to_owned(),
        text,
        detail: None,
    })
}

fn parse_grant(argument: &str) -> anyhow::Result<ApprovalGrant> {
    let (surface, pattern) = argument
        .split_once('=')
        .filter(|(surface, _)| !surface.is_empty())
        .ok_or_else(|| {
            Hinted::usage(
                format!("{argument:?} is no grant"),
                "write SURFACE=PATTERN, such as bash=\"make *\"",
            )
        })?;
    Ok(ApprovalGrant {
        surface: surface.to_owned(),
        pattern: pattern.to_owned(),
    })
}

/// A time such as `500ms`, `90s`, `10m` or `1h`.
fn parse_time(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is no time: write a number and ms, s, m or h, such as 10m");
    let at = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .ok_or_else(wrong)?;
    let (number, unit) = text.split_at(at);
    let number: f64 = number.parse().map_err(|_| wrong())?;
    let seconds = match unit {
        "ms" => number / 1_000.0,
        "s" => number,
        "m" => number * 60.0,
        "h" => number * 3_600.0,
        _ => return Err(wrong()),
    };
    Duration::try_from_secs_f64(seconds)
        .ok()
        .filter(|time| !time.is_zero())
        .ok_or_else(wrong)
}

/// Asks and waits; `None` where a signal came first. Dropping the ask withdraws it.
fn wait(
    spool: &Spool,
    settings: Settings,
    ask: Ask,
    log: &std::sync::Arc<ReviewLog>,
) -> anyhow::Result<Option<Answer>> {
    let watch = match Watch::start() {
        Ok(watch) => Some(std::sync::Arc::new(watch)),
        Err(error) => {
            output::warn(&error.to_string());
            None
        }
    };
    let requester = Requester::new(spool, settings, watch, std::sync::Arc::clone(log));
    unless_interrupted(requester.ask(ask))
}

/// Waits for the end of something; `None` where a signal came first.
fn unless_interrupted<T>(future: impl Future<Output = T>) -> anyhow::Result<Option<T>> {
    super::runtime()?.block_on(async {
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let mut hangup = signal(SignalKind::hangup())?;
        Ok(tokio::select! {
            ended = future => Some(ended),
            _ = interrupt.recv() => None,
            _ = terminate.recv() => None,
            _ = hangup.recv() => None,
        })
    })
}

fn report(
    answer: &Answer,
    payload: &PromptPayload,
    agent: &str,
    as_json: bool,
) -> anyhow::Result<Exit> {
    let decision = answer.decision();
    let mut out = Out::stdout();
    if as_json {
        out.json(&answer_json(answer))?;
    } else {
        let id = answer.request_id.as_str();
        let waited = answer.waited.as_secs_f64();
        out.line(&format!(
            "{}  {id}  ({}, {waited:.1}s)",
            decision.state.name(),
            decision.resolution()
        ))?;
    }
    out.flush()?;
    if decision.is_approved() {
        return Ok(Exit::Ok);
    }
    let context = DenialContext {
        agent_name: Some(agent),
        ..DenialContext::default()
    };
    output::say(&agent_text(payload, &decision, &context));
    if let Outcome::Abandoned(abandonment) = &answer.outcome {
        output::say(&format!("\nhint: {}", abandonment.hint()));
    }
    Ok(if decision.decided_by.is_nobody() {
        Exit::NobodyRuled
    } else {
        Exit::Denied
    })
}

fn answer_json(answer: &Answer) -> Value {
    let decision = answer.decision();
    let abandoned = match &answer.outcome {
        Outcome::Decided(_) => None,
        Outcome::Abandoned(abandonment) => Some(abandonment.name()),
    };
    let width =
        (decision.state == DecisionState::ApprovedForSession).then_some(match decision.width {
            GrantWidth::Proven => "proven",
            GrantWidth::Family => "family",
        });
    json!({
        "requestId": answer.request_id.as_str(),
        "approved": decision.is_approved(),
        "state": decision.state.name(),
        "denialReason": decision.denial_reason,
        "confirmationUnavailable": decision.decided_by.is_nobody(),
        "sessionGrantWidth": width,
        "resolution": decision.resolution(),
        "decidedBy": serde_json::to_value(&decision.decided_by).unwrap_or(Value::Null),
        "responderSessionId": decision.decided_by.responder(),
        "sealed": answer.sealed,
        "waitedMs": u64::try_from(answer.waited.as_millis()).unwrap_or(u64::MAX),
        "abandoned": abandoned,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_a_unit() {
        assert_eq!(parse_time("90s"), Ok(Duration::from_secs(90)));
        assert_eq!(parse_time("1.5m"), Ok(Duration::from_secs(90)));
        assert_eq!(parse_time("250ms"), Ok(Duration::from_millis(250)));
        for wrong in ["", "10", "0s", "s", "1e400s", "-1s", "10d", "nan"] {
            assert!(parse_time(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn grants_and_evidence_are_split_at_the_first_equals_sign() {
        let grant = parse_grant("bash=FOO=1 make").unwrap();
        assert_eq!(
            (grant.surface.as_str(), grant.pattern.as_str()),
            ("bash", "FOO=1 make")
        );
        assert!(parse_grant("=x").is_err());
        assert_eq!(parse_evidence("why=a=b").unwrap().text, "a=b");
        assert!(parse_evidence("nothing").is_err());
    }
}

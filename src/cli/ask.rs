//! `askrelay ask`: one ask from the command line, and the decision as an exit code.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};

use super::env::Env;
use super::exit::Exit;
use super::forward::{Forwarder, Ruling, Who};
use super::output::{self, Out};
use super::place::Place;
use super::{Hinted, PlaceArgs, input};
use crate::ask::{Answer, Ask, Outcome, PlainAsk};
use crate::policy::BASH_SURFACE;
use crate::spool::{OperatorFile, read_operator_file};
use crate::wire::{
    ApprovalGrant, DecisionState, Evidence, Generation, GrantWidth, MAX_REQUEST_BYTES, PayloadKind,
    PromptPayload,
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
    let who = Who {
        session: args.session.clone(),
        from: args.from.clone(),
        agent: args.agent.clone(),
        serving_key: args.serving_key.clone(),
        generation: args.peer.as_ref().map(|_| Generation::G1),
        within: Vec::new(),
        is_hook: false,
    };
    let forwarder = Forwarder::open(env, &place, who)?;
    let json = args.json;
    let Some(ask) = prepare(env, &forwarder, args)? else {
        return Ok(interrupted("nothing was asked"));
    };
    // Dropping the ask withdraws it.
    let ruling = unless_interrupted(forwarder.send(ask))?;
    forwarder.warn_of_log();
    match ruling {
        Some(ruling) => report(&ruling, json),
        None => Ok(interrupted("the request was withdrawn")),
    }
}

fn interrupted(what_follows: &str) -> Exit {
    output::say(&format!("interrupted; {what_follows}"));
    Exit::Interrupted
}

/// The ask with everything that belongs to it; `None` where a signal came first.
fn prepare(env: &Env, forwarder: &Forwarder, args: Args) -> anyhow::Result<Option<Ask>> {
    let mut cwd = env.cwd().cloned().unwrap_or_default();
    let payload = match &args.payload {
        Some(path) => read_payload(path)?,
        None => match plain(forwarder, &args)? {
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
    let mut ask = forwarder.complete(payload, &cwd, Vec::new());
    let grants = args.grant.iter().map(|grant| parse_grant(grant));
    ask.grants = grants.collect::<anyhow::Result<_>>()?;
    ask.timeout = args.timeout.unwrap_or(ask.timeout);
    ask.id = args.id;
    Ok(Some(ask))
}

/// A tool that runs a command line under another name than `bash`.
struct Alias {
    tool: String,
    /// The directory that its input names.
    directory: Option<String>,
}

/// The ask in plain words; `None` where a signal came first.
fn plain(forwarder: &Forwarder, args: &Args) -> anyhow::Result<Option<(PlainAsk, Option<Alias>)>> {
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
    let shell_tool = forwarder.config.shell_tools.get(&args.tool);
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
        let evidence = forwarder.evidence(&plain, &args.tool, &input);
        match unless_interrupted(evidence)? {
            Some(evidence) => plain.evidence = evidence,
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

/// Waits for the end of something; `None` where a signal came first.
pub(super) fn unless_interrupted<T>(future: impl Future<Output = T>) -> anyhow::Result<Option<T>> {
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

fn report(ruling: &Ruling, as_json: bool) -> anyhow::Result<Exit> {
    let answer = &ruling.answer;
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
    output::say(&ruling.text());
    if let Some(hint) = ruling.hint() {
        output::say(&format!("\nhint: {hint}"));
    }
    Ok(if decision.decided_by.is_nobody() {
        Exit::NobodyRuled
    } else {
        Exit::Denied
    })
}

pub(super) fn answer_json(answer: &Answer) -> Value {
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

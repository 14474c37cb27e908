//! `askrelay hook HOST`: answers a host that is about to call a tool.
//!
//! The host runs what nobody denies in its own words: silence, a crash, a signal or an answer too late lets the call go on. So whatever
//! happens here ends in a denial that the host understands, in time. Where it is not even known what the host waits for, the end is exit
//! code 2 with the reason on stderr, which each of them takes for a denial before a call; where the host asks a person itself, it
//! then does.

mod lineage;
mod orphan;
mod watchdog;
mod withdraw;

use std::io::{Read as _, Write as _};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::Context as _;
use serde_json::Value;
use tokio::sync::oneshot;

use self::orphan::Hosts;
use self::watchdog::{Ended, IsCut, in_time};
use super::env::Env;
use super::exit::Exit;
use super::forward::{Forwarder, Gated, Ruling};
use super::output::{self, Out};
use super::place::Place;
use super::{PlaceArgs, hint_of, role};
use crate::ask::{Abandonment, Outcome};
use crate::clock::{self, Moment};
use crate::host::hook::{self, Asking, Gate, Host, Input, Unusable, Verdict};
use crate::policy::{Hooks, OUTSIDE_SANDBOX_SURFACE};
use crate::presentation::text::visible;
use crate::process;
use crate::spool::{Missing, leads_somewhere};
use crate::wire::{
    DecisionSource, DecisionState, MAX_REQUEST_BYTES, RequestId, tool_input_from_json,
};

/// What is left of the host's own time when the hook gives up.
const MARGIN: Duration = Duration::from_secs(10);
/// How long the hook waits, once it has said its last word, for what it has asked to be taken back.
const GRACE: Duration = Duration::from_secs(2);
/// How long the host is given to say what it wants. It has written that before it waits.
const STDIN_TIME: Duration = Duration::from_secs(10);

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The host that starts it
    #[arg(value_name = "HOST")]
    host: HostName,
    /// How long the host waits for its hook [default: 600, of gemini 60, of opencode and pi as long as it takes]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    host_timeout: Option<u64>,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum HostName {
    /// Claude Code: PreToolUse, PermissionRequest, and what tells of their end
    ClaudeCode,
    /// Codex CLI: PreToolUse, PermissionRequest
    Codex,
    /// Gemini CLI: BeforeTool
    Gemini,
    /// opencode: what our plugin hands over
    Opencode,
    /// pi: what our extension hands over
    Pi,
}

impl From<HostName> for Host {
    fn from(name: HostName) -> Self {
        match name {
            HostName::ClaudeCode => Self::ClaudeCode,
            HostName::Codex => Self::Codex,
            HostName::Gemini => Self::Gemini,
            HostName::Opencode => Self::Opencode,
            HostName::Pi => Self::Pi,
        }
    }
}

/// Runs the hook. There is no error: each is a denial.
pub(super) fn run(env: &Env, place_args: &PlaceArgs, args: &Args) -> Exit {
    let started = clock::now();
    let host = Host::from(args.host);
    let host_timeout = args.host_timeout.unwrap_or(host.usual_timeout());
    let gives_up = gives_up_after(host_timeout);
    let gate = Arc::new(OnceLock::new());
    let hook = Hook {
        env: env.clone(),
        place_args: place_args.clone(),
        host,
        gives_up,
        started,
        gate: Arc::clone(&gate),
    };
    let ended = in_time(gives_up, move |is_cut| {
        match process::caught(|| hook.verdict(is_cut)) {
            Ok(Ok(verdict)) => verdict,
            Ok(Err(error)) => denied(explained(&error)),
            Err(panic) => denied(format!("the hook itself failed: {panic}")),
        }
    });
    let tell = |verdict: &Verdict| say(host, gate.get().copied(), verdict);
    match ended {
        Ok(Ended::Done(verdict)) => tell(&verdict),
        Ok(Ended::CutShort { reason, work }) => {
            let exit = tell(&denied(reason));
            let left = Duration::from_secs(host_timeout).saturating_sub(gives_up);
            work.withdraw(GRACE.min(left / 4));
            exit
        }
        Err(error) => tell(&denied(explained(&error))),
    }
}

/// When the hook gives up, so that its denial is in time.
fn gives_up_after(host_timeout: u64) -> Duration {
    let whole = Duration::from_secs(host_timeout);
    whole.saturating_sub(MARGIN.min(whole / 2))
}

fn denied(reason: impl AsRef<str>) -> Verdict {
    Verdict::Deny {
        reason: format!(
            "[askrelay] Not decided, so not allowed: {}",
            reason.as_ref()
        ),
        stops: false,
    }
}

/// An error in one line, with what to do about it.
fn explained(error: &anyhow::Error) -> String {
    let causes: Vec<String> = error.chain().map(ToString::to_string).collect();
    let mut text = causes.join(": ");
    if let (Some(hint), _) = hint_of(error) {
        text.push_str(". What to do: ");
        text.push_str(&hint);
    }
    text
}

/// Tells the host. Where it cannot be told in its own words, it is told by the exit code and on stderr.
fn say(host: Host, gate: Option<Gate>, verdict: &Verdict) -> Exit {
    if let Some(gate) = gate {
        let Some(answer) = hook::answer(host, gate, verdict) else {
            return Exit::Ok;
        };
        let mut out = Out::stdout();
        let written = out.json(&answer).and_then(|()| out.flush());
        if written.is_ok() && !out.is_closed() && process::is_output_read() {
            return Exit::Ok;
        }
    }
    let reason = match verdict {
        // Nothing waits for an answer.
        Verdict::Leave if gate.is_none() => return Exit::Ok,
        Verdict::Leave | Verdict::Allow { .. } => "the answer cannot be written",
        Verdict::Deny { reason, .. } => reason,
    };
    let _told = writeln!(std::io::stderr(), "{}", visible(reason));
    Exit::Usage
}

/// One run of the hook.
struct Hook {
    env: Env,
    place_args: PlaceArgs,
    host: Host,
    gives_up: Duration,
    started: Moment,
    /// What the host waits for, as soon as that is known.
    gate: Arc<OnceLock<Gate>>,
}

impl Hook {
    fn verdict(&self, is_cut: IsCut) -> anyhow::Result<Verdict> {
        super::runtime()?.block_on(async {
            tokio::select! {
                biased;
                _ = is_cut => Ok(denied("the hook was told to end before anybody answered")),
                verdict = self.answered() => verdict,
            }
        })
    }

    async fn answered(&self) -> anyhow::Result<Verdict> {
        let hosts = Hosts::of(&self.env, self.host);
        let bytes = tokio::time::timeout(STDIN_TIME, stdin()).await;
        let bytes = bytes.context("the host did not say what it wants")??;
        let input = tool_input_from_json(&bytes).context("what the host said cannot be used")?;
        let input = hook::read(self.host, &input).map_err(|Unusable { reason, gate }| {
            self.waits(gate);
            anyhow::Error::msg(reason).context("what the host said cannot be used")
        })?;
        match input {
            Input::Nothing => Ok(Verdict::Leave),
            Input::Ended(ended) => {
                let place = Place::new(&self.env, &self.place_args);
                withdraw::withdraw(&place, self.host, &ended);
                Ok(Verdict::Leave)
            }
            Input::Ask(asking) => {
                self.waits(Some(asking.gate));
                self.ask(*asking, hosts).await
            }
        }
    }

    /// The host waits for this, if for anything.
    fn waits(&self, gate: Option<Gate>) {
        if let Some(gate) = gate {
            // What was said is read once.
            let _first = self.gate.set(gate);
        }
    }

    async fn ask(&self, asking: Asking, hosts: Hosts) -> anyhow::Result<Verdict> {
        #[cfg(debug_assertions)]
        {
            crate::spool::fault::strike("hook", &asking.session);
            crate::spool::fault::stall("stalled", &asking.session);
        }
        let place = Place::new(&self.env, &self.place_args);
        let who = lineage::who(&self.env, self.host, &asking);
        let env = lineage::env(&self.env, self.host);
        let forwarder = Forwarder::open(&env, &place, who)?;
        let settings = forwarder.config.hooks;
        let mut call = asking.call;
        // Who asks again for what the host has given no id cannot know which call it is.
        let of_use = hook::use_mark(&asking.session, &call);
        let of_use = of_use.filter(|_| asking.gate == Gate::BeforeTool);
        let mark = of_use.unwrap_or_else(|| hook::ask_mark(&asking.session, &call));
        let id = format!("{mark}{}", role::minted());
        call.id = Some(id.clone());
        if call.cwd.as_os_str().is_empty() {
            call.cwd = self.env.cwd().cloned().unwrap_or_default();
        }
        let directory = call.cwd.clone();
        call.open_as(self.host, self.env.host_home().as_deref(), |path| {
            leads_somewhere(&directory.join(path))
        });
        let left = self
            .gives_up
            .saturating_sub(clock::now().since(self.started));
        // Who waits says itself that nobody answered; the hook's own end is behind it.
        let left = left.saturating_sub(left.min(Duration::from_secs(1)) / 2);
        call.timeout = Some(forwarder.config.forwarding_timeout.min(left));
        let gated = tokio::select! {
            biased;
            gated = forwarder.gated(call, asking.reach) => gated,
            () = hosts.are_gone() => {
                return Ok(denied("the host has ended"));
            }
        };
        forwarder.warn_of_log();
        if let Gated::Ruled(ruling) = &gated {
            self.note(&place, asking.gate, &id, ruling);
        }
        Ok(match gated {
            Gated::Left(_) => Verdict::Leave,
            Gated::Ruled(ruling) => verdict_of(self.host, &ruling, settings, &asking.suggestions),
        })
    }
}

impl Hook {
    /// Notes that a call was let run where its host asks a person, if it asks its own beside ours: the end of that call has nothing to
    /// do with others that are like it. What was said before the call says nothing about who answers where the host asks.
    fn note(&self, place: &Place<'_>, gate: Gate, id: &str, ruling: &Ruling) {
        let is_permission = gate != Gate::BeforeTool;
        if !ruling.decision().is_approved() || !is_permission || !withdraw::asks_beside(self.host) {
            return;
        }
        let spool = place.spool(Missing::Fail).ok();
        if let (Some(spool), Some(id)) = (spool, RequestId::parse(id))
            && let Err(error) = spool.note_answered(&id)
        {
            output::warn(&error.to_string());
        }
    }
}

/// What the host is told of an answer.
fn verdict_of(host: Host, ruling: &Ruling, settings: Hooks, suggestions: &[Value]) -> Verdict {
    let decision = ruling.decision();
    if decision.is_approved() {
        let remembers =
            settings.host_remembers.is_on() && decision.state == DecisionState::ApprovedForSession;
        return Verdict::Allow {
            because: format!("[askrelay] {}", decision.resolution().replace('_', " ")),
            remember: if remembers {
                hook::for_the_session(suggestions)
            } else {
                Vec::new()
            },
        };
    }
    let by_person = matches!(decision.decided_by.effective(), DecisionSource::User { .. });
    let mut reason = ruling.text();
    if let Some(hint) = hint_for(host, ruling) {
        reason.push_str(". What to do: ");
        reason.push_str(&hint);
    }
    Verdict::Deny {
        reason,
        stops: by_person && settings.deny_stops.is_on(),
    }
}

/// What is to be done where nobody ruled, in the words of somebody who runs a hook.
fn hint_for(host: Host, ruling: &Ruling) -> Option<String> {
    let Outcome::Abandoned(abandonment) = &ruling.answer.outcome else {
        let is_outside = ruling.payload.request.surface == OUTSIDE_SANDBOX_SURFACE;
        return (is_outside && ruling.decision().decided_by.is_nobody()).then(|| {
            format!(
                "a rule for \"{OUTSIDE_SANDBOX_SURFACE}\" decides what may leave the sandbox where nobody is there"
            )
        });
    };
    let hint = ruling.hint()?;
    Some(match abandonment {
        Abandonment::NotServing { .. } => {
            format!("{hint}; `askrelay uninstall {}` takes the hook out", host.name())
        }
        Abandonment::TimedOut { refused: None, .. } => {
            "ask again when somebody is there, or give more time with \"forwardingTimeoutMs\" of the configuration".to_owned()
        }
        Abandonment::NoParent { .. }
        | Abandonment::NoDirectories { .. }
        | Abandonment::NotWritten { .. }
        | Abandonment::Unreadable { .. }
        | Abandonment::NoKey { .. }
        | Abandonment::Refused { .. }
        | Abandonment::TimedOut { .. }
        | Abandonment::Withdrawn
        | Abandonment::TooManyHops { .. } => hint.to_owned(),
    })
}

/// All that the host has to say. A thread reads it: whoever never closes the other end must not keep the hook from ending.
async fn stdin() -> anyhow::Result<Vec<u8>> {
    let (done, read) = oneshot::channel();
    std::thread::Builder::new()
        .name("stdin".to_owned())
        .spawn(move || {
            let mut bytes = Vec::new();
            let limit = MAX_REQUEST_BYTES as u64 + 1;
            let read = std::io::stdin().take(limit).read_to_end(&mut bytes);
            // A host that is not heard out may take that for a fault of its own.
            let _heard_out = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
            let _nobody_waits = done.send(read.map(|_| bytes));
        })
        .context("cannot read what the host says")?;
    let read = read.await.context("cannot read what the host says")?;
    read.context("cannot read what the host says")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hook_gives_up_before_its_host_does() {
        for (host, own) in [
            (600, 590),
            (60, 50),
            (86_400, 86_390),
            (20, 10),
            (5, 2),
            (1, 0),
        ] {
            assert_eq!(gives_up_after(host).as_secs(), own, "{host}");
        }
        assert!(gives_up_after(1) > Duration::ZERO);
    }
}

//! Taking back what was answered in the host's own dialog.
//!
//! A host that asks its person while the hook asks ours takes the first answer, and leaves the hook waiting. What comes next tells that
//! the question is over: the call has run, its turn has ended. The hook that waits is told to end, and withdraws its ask itself.
//!
//! Whoever can write in the spool can write a request that names any process. So what is told to end was shown to be a hook of this very
//! program that waits for that very request; anything else is left alone, and what it asks stays a question until it is answered or over.

use crate::audit::{Entry, Event};
use crate::cli::output;
use crate::cli::place::Place;
use crate::clock;
use crate::host::hook::{Ended, Host, Over, permission_mark, session_mark, turn_mark, use_mark};
use crate::process::{self, Proof};
use crate::spool::{Missing, RequesterLife, Spool};
use crate::wire::{ForwardedPermissionRequest, ProcessMark};

/// What a hook is started as.
const COMMAND: &str = "hook";

/// A request of a hook that waits.
struct Waiting {
    pid: u32,
    mark: ProcessMark,
    /// Device and inode of the request, which who waits has open.
    file: (u64, u64),
    since: i64,
    request_id: String,
    requester: String,
    target: String,
}

/// Whether a host asks its own person while its hook asks ours.
pub(super) fn asks_beside(host: Host) -> bool {
    match host {
        Host::ClaudeCode => true,
        Host::Codex | Host::Gemini | Host::Opencode | Host::Pi => false,
    }
}

/// Has the hooks end that wait for an answer to what is over.
pub(super) fn withdraw(place: &Place<'_>, host: Host, ended: &Ended) {
    // Who never asked has no spool, and nothing to take back.
    let Ok(spool) = place.spool(Missing::Fail) else {
        return;
    };
    let session = ended.session.as_str();
    match &ended.what {
        Over::Call(call) => {
            let of_use = use_mark(session, call);
            let is_known = of_use.is_some_and(|mark| tell(place, &spool, ended, &mark) > 0);
            let alike = permission_mark(session, call);
            // A host that waits for its hook has asked nobody, so its own person has answered nothing. And of what was let run here the
            // end says nothing about others that are alike.
            if !is_known && asks_beside(host) && !spool.take_answered(&alike) {
                tell(place, &spool, ended, &alike);
            }
        }
        Over::Turn(agent) => {
            let start = turn_mark(session, agent.as_deref());
            spool.forget_answered(&start);
            tell(place, &spool, ended, &start);
        }
        Over::Session => {
            let start = session_mark(session);
            spool.forget_answered(&start);
            tell(place, &spool, ended, &start);
        }
    }
}

/// Has those end whose requests begin so; of such that are about one call, the first. Tells how many.
fn tell(place: &Place<'_>, spool: &Spool, ended: &Ended, start: &str) -> usize {
    let mut waiting = waiting(spool, start);
    waiting.retain(|request| process::is_proven(request.pid, request.proof()));
    waiting.sort_by_key(|request| request.since);
    let mut told: Vec<(u32, bool)> = Vec::new();
    for request in waiting {
        let was_told = match told.iter().find(|(pid, _)| *pid == request.pid) {
            Some((_, was_told)) => *was_told,
            // Of calls that are alike, one has come to its end.
            None if matches!(ended.what, Over::Call(_)) && told.iter().any(|(_, told)| *told) => {
                continue;
            }
            None => {
                let was_told = process::ask_to_end(request.pid, request.proof());
                told.push((request.pid, was_told));
                was_told
            }
        };
        if was_told {
            record(place, &request, &ended.event);
        }
    }
    told.iter().filter(|(_, was_told)| *was_told).count()
}

impl Waiting {
    /// What who waits must be shown to be.
    fn proof(&self) -> Proof<'_> {
        Proof {
            mark: &self.mark,
            command: COMMAND,
            file: self.file,
        }
    }
}

/// The requests of hooks whose names begin so.
fn waiting(spool: &Spool, start: &str) -> Vec<Waiting> {
    let mut found = Vec::new();
    for inbox in spool.inboxes().unwrap_or_default() {
        let seen = spool.each_request_from(&inbox, start.as_bytes(), |view| {
            // Who waits holds a lock on its request.
            let (Ok((request, _)), RequesterLife::Waiting, Some(stamp)) =
                (view.content, view.life, view.stamp)
            else {
                return;
            };
            found.extend(of(*request, (stamp.dev, stamp.ino)));
        });
        if let Err(error) = seen {
            output::warn(&error.to_string());
        }
    }
    found
}

fn of(request: ForwardedPermissionRequest, file: (u64, u64)) -> Option<Waiting> {
    let relay = request.relay?;
    Some(Waiting {
        pid: relay.pid?,
        mark: relay.process,
        file,
        since: request.created_at_ms,
        request_id: request.id.as_str().to_owned(),
        requester: request.requester_session_id,
        target: request.target_session_id,
    })
}

fn record(place: &Place<'_>, request: &Waiting, event: &str) {
    let Ok(asking) = place.settings() else { return };
    let entry = Entry::new(Event::AnsweredElsewhere)
        .with("requestId", request.request_id.as_str())
        .with("requesterSessionId", request.requester.as_str())
        .with("targetSessionId", request.target.as_str())
        .with("reason", format!("the host went on: {event}"));
    let log = place.log(&asking.config);
    let _logged = log.append_or_hold(clock::wall_ms(), &[entry]);
}

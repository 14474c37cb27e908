//! The files of the grants of a served session: written when one comes into force, looked at before anything rests on it, removed when
//! it ends.
//!
//! It performs; what is granted is the state's business. What cannot be kept is not in force, and is said.

use std::collections::HashMap;
use std::time::Duration;

use super::core::{Core, warning};
use super::event::{Answer, Delivery, Event};
use crate::ask::describe;
use crate::audit::{self, Entry};
use crate::clock::{self, Moment};
use crate::policy::{GrantForm, GrantId, GrantScope, Lifetime, SessionGrant};
use crate::spool::{GrantFiles, GrantHold, Lost, Spool, SpoolError};
use crate::wire::{GrantRecord, RequestId, SessionId};

/// What is kept of the grants of a session on disk.
pub(super) struct GrantKeeper {
    files: GrantFiles,
    /// What stands in the files.
    records: HashMap<GrantId, GrantRecord>,
    /// The lines of the log that grant something whose answer is on its way.
    lines: HashMap<RequestId, String>,
    /// Whether they outlive this process.
    persists: bool,
}

impl GrantKeeper {
    pub(super) fn new(spool: &Spool, session: &SessionId, persists: bool) -> Self {
        Self {
            files: GrantFiles::new(spool, session),
            records: HashMap::new(),
            lines: HashMap::new(),
            persists,
        }
    }

    /// Notes which line of the log grants what an answer grants.
    pub(super) fn note_lines(&mut self, answer: &Answer, lines: &[String]) {
        let granting = audit::Event::SessionRecorded.name();
        let of_it = answer.entries.iter().zip(lines);
        if let Some((_, line)) = of_it
            .into_iter()
            .find(|(entry, _)| entry.event() == granting)
        {
            self.lines.insert(answer.id.clone(), line.clone());
        }
    }

    /// Removes the file of a grant that has ended.
    pub(super) fn remove(&mut self, id: GrantId) -> Result<(), SpoolError> {
        self.records.remove(&id);
        self.files.remove(id.get())
    }
}

impl Core {
    /// Writes the files of grants that are to come into force, and tells which have them.
    pub(super) fn keep_grants(&mut self, ask: &RequestId, grants: Vec<SessionGrant>) {
        let given_at_ms = clock::wall_ms();
        let line = self.grants.lines.remove(ask);
        let mut kept = Vec::new();
        for mut grant in grants {
            grant.given_at_ms = given_at_ms;
            let record = record_of(&self.session, &grant, line.clone());
            match self.grants.files.write(&record) {
                Ok(()) => {
                    self.grants.records.insert(grant.id(), record);
                    kept.push(grant);
                }
                Err(error) => self.refuse_grant(&grant, &describe(&error)),
            }
        }
        self.dispatch(clock::now(), Event::GrantsKept(kept));
    }

    /// A grant that cannot be kept would be one that nobody can see or take back.
    fn refuse_grant(&mut self, grant: &SessionGrant, cause: &str) {
        let reason = format!("its file cannot be written: {cause}");
        let entry = Entry::new(audit::Event::GrantRefused)
            .with("sessionId", self.session.as_str())
            .with("grantId", grant.id().get())
            .with("surface", grant.surface())
            .with("pattern", grant.pattern().as_str())
            .with("givenWith", grant.terms.request_id.as_str())
            .with("reason", reason.as_str());
        self.record(&[entry]);
        self.notice(&format!(
            "what was granted for the session counted for this one ask only: {reason}"
        ));
    }

    /// Writes the file of a grant anew, for its uses have changed.
    pub(super) fn count_grant(&mut self, grant: &SessionGrant) {
        let id = grant.id();
        let Some(record) = self.grants.records.get_mut(&id) else {
            return;
        };
        record.uses = grant.uses;
        let written = self.grants.files.rewrite(record);
        match written {
            Ok(None) => self.trouble("grant file", Ok(())),
            Ok(Some(lost)) => self.lose(clock::now(), vec![(id.get(), lost)]),
            Err(error) => self.trouble("grant file", Err(error)),
        }
    }

    /// Keeps what an answer rests on from being taken back until it is published, or says why it must not be.
    pub(super) fn rely_on(&mut self, grants: &[GrantId]) -> Result<Option<GrantHold>, Delivery> {
        if grants.is_empty() {
            return Ok(None);
        }
        let hold = self.grants.files.hold();
        if matches!(hold, GrantHold::Busy) {
            let text =
                "another process keeps the lock of the grants: what they cover is asked meanwhile";
            self.record(&[warning(text)]);
            return Err(Delivery::GrantsUnsure);
        }
        let lost = (self.grants.files).lost_of(grants.iter().map(|id| id.get()));
        if !lost.is_empty() || !self.state.are_in_force(clock::now(), grants) {
            return Err(Delivery::GrantsGone(named(lost)));
        }
        Ok(Some(hold))
    }

    /// Looks whether grants were taken back, and what else lies among their files.
    pub(super) fn look_at_grants(&mut self, now: Moment) {
        let look = self.grants.files.look();
        for name in look.foreign {
            self.refuse_file(&name, "the server of this session did not write it");
        }
        self.lose(now, look.lost);
    }

    fn lose(&mut self, now: Moment, lost: Vec<(u64, Lost)>) {
        if !lost.is_empty() {
            self.dispatch(now, Event::GrantsLost(named(lost)));
        }
    }

    fn refuse_file(&mut self, name: &str, reason: &str) {
        let entry = Entry::new(audit::Event::GrantRefused)
            .with("sessionId", self.session.as_str())
            .with("file", name)
            .with("reason", reason);
        self.record(&[entry]);
    }

    /// What a server before this one left: nothing of it is in force.
    pub(super) fn look_for_grants(&mut self, _now: Moment) {
        let found = match self.grants.files.found() {
            Ok(found) => found,
            Err(error) => return self.trouble("grant files", Err(error)),
        };
        for found in found {
            let swept = self.grants.files.sweep(&found.name);
            self.trouble("grant files", swept);
        }
    }

    /// The session ends, and what was granted in it.
    pub(super) fn leave_grants(&mut self) {
        if self.successor.is_some() || self.grants.persists {
            return;
        }
        let left = self.grants.files.leave();
        self.trouble("grant files", left);
    }
}

fn named(lost: Vec<(u64, Lost)>) -> Vec<(GrantId, String)> {
    lost.into_iter()
        .map(|(id, lost)| (GrantId::new(id), lost.to_string()))
        .collect()
}

fn record_of(session: &SessionId, grant: &SessionGrant, line: Option<String>) -> GrantRecord {
    let terms = &grant.terms;
    let millis = |time: Duration| i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
    GrantRecord {
        id: grant.id().get(),
        session_id: session.as_str().to_owned(),
        surface: grant.surface().to_owned(),
        pattern: grant.pattern().as_str().to_owned(),
        exact: grant.form() == GrantForm::Exact,
        width: grant.width,
        subagent: match &terms.scope {
            GrantScope::ServingSession => None,
            GrantScope::Subagent(chain) => Some(chain.clone()),
        },
        lifetime: terms.lifetime,
        uses: grant.uses,
        given_at_ms: grant.given_at_ms,
        expires_at_ms: match terms.lifetime {
            Lifetime::For(time) => Some(grant.given_at_ms.saturating_add(millis(time))),
            Lifetime::SessionEnd | Lifetime::Uses(_) => None,
        },
        given_by: terms.given_by.clone(),
        request_id: terms.request_id.clone(),
        log_line: line,
    }
}

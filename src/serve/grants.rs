//! The files of the grants of a served session: written when one comes into force, looked at before anything rests on it, removed when
//! it ends.
//!
//! It performs; what is granted is the state's business. What cannot be kept is not in force, and is said.

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use super::core::{Core, warning};
use super::event::{Answer, Delivery, Event};
use crate::ask::describe;
use crate::audit::{self, Borne, Claim, Entry, GrantedLog};
use crate::clock::{self, Moment};
use crate::policy::{
    GrantForm, GrantId, GrantScope, GrantTerms, Lifetime, SessionGrant, SessionRules,
};
use crate::spool::{GrantFiles, GrantHold, GrantStamp, Lost, Spool, SpoolError};
use crate::wire::{GrantRecord, GrantWidth, RequestId, SessionId, lifetime_value, scope_value};

/// Less than this is no sleep, but how exactly two clocks can be read.
const SLEEP: Duration = Duration::from_millis(100);

/// What is kept of the grants of a session on disk.
pub(super) struct GrantKeeper {
    files: GrantFiles,
    /// What stands in the files.
    records: HashMap<GrantId, GrantRecord>,
    /// The lines of the log that grant something whose answer is on its way.
    lines: HashMap<RequestId, String>,
    /// Whether they outlive this process.
    persists: bool,
    /// How long the machine had slept when that was looked at last.
    slept: Duration,
}

impl GrantKeeper {
    pub(super) fn new(spool: &Spool, session: &SessionId, persists: bool) -> Self {
        Self {
            files: GrantFiles::new(spool, session),
            records: HashMap::new(),
            lines: HashMap::new(),
            persists,
            slept: clock::slept(),
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

    /// Nothing is granted with the answer to this ask, as far as it was recorded until now.
    pub(super) fn forget_line(&mut self, ask: &RequestId) {
        self.lines.remove(ask);
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
        self.look_for_sleep();
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
            Err(error) if self.grants.persists => {
                // A server after this one might give the use back, where the log could not be written either.
                let reason = format!("its uses cannot be kept: {}", describe(&error));
                let text = format!("grant {id} has ended: {reason}");
                self.trouble("grant file", Err(error));
                self.notice(&text);
                self.dispatch(clock::now(), Event::GrantsLost(vec![(id, reason)]));
            }
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
        self.look_for_sleep();
        let lost = (self.grants.files).lost_of(grants.iter().map(|id| id.get()));
        if !lost.is_empty() || !self.state.are_in_force(clock::now(), grants) {
            return Err(Delivery::GrantsGone(named(lost)));
        }
        Ok(Some(hold))
    }

    /// Tells the state where the machine has slept since the last look.
    pub(super) fn look_for_sleep(&mut self) {
        let slept = clock::slept();
        let since = slept.saturating_sub(self.grants.slept);
        if since >= SLEEP {
            self.grants.slept = slept;
            self.dispatch(clock::now(), Event::Slept(since));
        }
    }

    /// Looks whether grants were taken back, and what else lies among their files.
    pub(super) fn look_at_grants(&mut self, now: Moment) {
        // What lies there then is another server's.
        if self.successor.is_some() {
            return;
        }
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

    /// What a server before this one left. Nothing of it is in force, unless grants are to be kept and the log bears them out.
    pub(super) fn look_for_grants(&mut self, now: Moment) {
        let found = match self.grants.files.found() {
            Ok(found) => found,
            Err(error) => return self.trouble("grant files", Err(error)),
        };
        let log = self.log.path().map(Path::to_owned);
        let (Some(log), true) = (log, self.grants.persists) else {
            for found in found {
                let swept = self.grants.files.sweep(&found.name);
                self.trouble("grant files", swept);
            }
            return;
        };
        let records = found.iter().filter_map(|found| found.read.as_ref().ok());
        let claims: Vec<Claim> = records
            .filter_map(|(record, _)| {
                let line = record.log_line.clone()?;
                Some(Claim {
                    id: record.id,
                    line,
                })
            })
            .collect();
        let requests = self.inbox.watched_path().to_string_lossy();
        let said = audit::granted(&log, &self.session, &requests, &claims);
        let (mut said, trouble) = match said {
            Ok(said) => (said, None),
            Err(error) => (GrantedLog::default(), Some(describe(&error))),
        };
        self.state.skip_grants_to(said.last);
        // A clock that was set back prolongs nothing that the log has seen the end of.
        let wall_ms = clock::wall_ms().max(said.newest_ms.unwrap_or(i64::MIN));
        for found in found {
            let name = found.name;
            if name.starts_with('.') {
                // What a server was writing when it ended. It is nothing, whoever wrote it.
                let swept = self.grants.files.sweep(&name);
                self.trouble("grant files", swept);
                continue;
            }
            let borne = found.read.and_then(|(record, stamp)| {
                if let Some(trouble) = &trouble {
                    return Err(format!("the review log cannot be read: {trouble}"));
                }
                let borne = said.claims.remove(&record.id);
                let borne = borne.ok_or("it names no line of the review log")?;
                let borne = borne.map_err(|why| why.to_string())?;
                let (grant, left) =
                    borne_out(&self.session, self.state.grants(), &record, &borne, wall_ms)?;
                Ok((grant, left, record, stamp))
            });
            match borne {
                Ok((grant, left, record, stamp)) => {
                    self.take_grant_over(now, grant, left, record, stamp);
                }
                Err(reason) => {
                    self.refuse_file(&name, &reason);
                    let aside = self.grants.files.set_aside(&name, &reason);
                    self.trouble("grant files", aside);
                }
            }
        }
    }

    fn take_grant_over(
        &mut self,
        now: Moment,
        grant: SessionGrant,
        left: Option<Duration>,
        record: GrantRecord,
        stamp: GrantStamp,
    ) {
        let entry = Entry::new(audit::Event::GrantTakenOver)
            .with("sessionId", self.session.as_str())
            .with("grantId", grant.id().get())
            .with("surface", grant.surface())
            .with("pattern", grant.pattern().as_str())
            .with("givenWith", grant.terms.request_id.as_str());
        self.record(&[entry]);
        self.grants.files.adopt(record.id, stamp);
        let counted_in_file = record.uses;
        self.grants.records.insert(grant.id(), record);
        if grant.uses != counted_in_file {
            self.count_grant(&grant);
        }
        self.state.take_over(now, grant, left);
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

/// The grant that a file and the log agree on, and how much of its time is left.
fn borne_out(
    session: &SessionId,
    rules: &SessionRules,
    record: &GrantRecord,
    borne: &Borne,
    wall_ms: i64,
) -> Result<(SessionGrant, Option<Duration>), String> {
    let width = if borne.is_family {
        GrantWidth::Family
    } else {
        GrantWidth::Proven
    };
    let says_the_same = record.session_id == session.as_str()
        && record.request_id == borne.request_id
        && record.given_by == borne.via
        && record.surface == width.surface(&borne.surface)
        && record.pattern == borne.pattern
        && record.width == width
        && !record.exact
        && scope_value(record.subagent.as_deref()) == borne.scope
        && lifetime_value(record.lifetime) == borne.lifetime;
    if !says_the_same {
        return Err(
            "it is not what the review log says: it was changed, or is masked or shortened there"
                .to_owned(),
        );
    }
    let uses = record.uses.max(borne.uses);
    let left = match record.lifetime {
        Lifetime::Uses(of) if uses >= of => return Err("it is used up".to_owned()),
        Lifetime::SessionEnd | Lifetime::Uses(_) => None,
        Lifetime::For(time) => {
            let passed = u64::try_from(wall_ms.saturating_sub(borne.at_ms)).unwrap_or(0);
            let left = time.saturating_sub(Duration::from_millis(passed));
            if left.is_zero() {
                return Err("its time is over".to_owned());
            }
            Some(left)
        }
    };
    let grant = SessionGrant {
        id: GrantId::new(record.id),
        surface: record.surface.clone(),
        pattern: rules.pattern(&record.pattern, GrantForm::Pattern),
        form: GrantForm::Pattern,
        width,
        terms: GrantTerms {
            scope: match &record.subagent {
                None => GrantScope::ServingSession,
                Some(chain) => GrantScope::Subagent(chain.clone()),
            },
            lifetime: record.lifetime,
            given_by: record.given_by.clone(),
            request_id: record.request_id.clone(),
        },
        uses,
        given_at_ms: borne.at_ms,
    };
    Ok((grant, left))
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const AT: i64 = 1_798_700_000_000;

    fn session() -> SessionId {
        SessionId::parse("main").unwrap()
    }

    /// What a file and the log say of a grant with this lifetime.
    fn claim(lifetime: Lifetime, uses: u32) -> (GrantRecord, Borne) {
        let record = GrantRecord {
            id: 3,
            session_id: "main".into(),
            surface: "path".into(),
            pattern: "~/d/*".into(),
            exact: false,
            width: GrantWidth::Family,
            subagent: Some(vec!["C".into()]),
            lifetime,
            uses,
            given_at_ms: AT + 5,
            expires_at_ms: None,
            given_by: "dialog".into(),
            request_id: "r1".into(),
            log_line: Some("0".repeat(64)),
        };
        let borne = Borne {
            at_ms: AT,
            request_id: "r1".into(),
            via: "dialog".into(),
            surface: "path_read".into(),
            pattern: "~/d/*".into(),
            is_family: true,
            scope: json!({"kind": "subagent", "chain": ["C"]}),
            lifetime: lifetime_value(lifetime),
            uses: 0,
        };
        (record, borne)
    }

    fn taken(
        (record, borne): &(GrantRecord, Borne),
        wall_ms: i64,
    ) -> Result<(SessionGrant, Option<Duration>), String> {
        let rules = SessionRules::new(Some("/home/me"));
        borne_out(&session(), &rules, record, borne, wall_ms)
    }

    #[test]
    fn what_is_taken_over_is_what_both_say() {
        let (grant, left) = taken(&claim(Lifetime::SessionEnd, 0), AT).unwrap();
        assert_eq!((grant.id().get(), grant.surface(), left), (3, "path", None));
        assert!(grant.pattern().matches("/home/me/d/x"));
        assert_eq!(grant.terms.scope, GrantScope::Subagent(vec!["C".into()]));
        let whole = claim(Lifetime::SessionEnd, 0);
        let changes: [fn(&mut GrantRecord); 8] = [
            |record| record.pattern = "*".into(),
            |record| record.surface = "path_write".into(),
            |record| record.width = GrantWidth::Proven,
            |record| record.exact = true,
            |record| record.subagent = None,
            |record| record.lifetime = Lifetime::Uses(1),
            |record| record.session_id = "other".into(),
            |record| record.given_by = "select".into(),
        ];
        for change in changes {
            let mut other = whole.clone();
            change(&mut other.0);
            assert!(
                taken(&other, AT)
                    .unwrap_err()
                    .contains("not what the review log says")
            );
        }
    }

    #[test]
    fn only_what_is_left_of_it_is_taken_over() {
        let time = Lifetime::For(Duration::from_mins(1));
        let left = |at| taken(&claim(time, 0), at).map(|(_, left)| left.unwrap());
        assert_eq!(left(AT + 20_000), Ok(Duration::from_secs(40)));
        // A clock before its time prolongs nothing.
        assert_eq!(left(AT - 20_000), Ok(Duration::from_mins(1)));
        assert_eq!(left(AT + 60_000), Err("its time is over".to_owned()));
        let counted = |in_file, in_log| {
            let mut claim = claim(Lifetime::Uses(5), in_file);
            claim.1.uses = in_log;
            taken(&claim, AT).map(|(grant, _)| grant.uses_left().unwrap())
        };
        assert_eq!(counted(1, 0), Ok(4));
        // The file may be older than the log, or have been put back.
        assert_eq!(counted(1, 3), Ok(2));
        assert_eq!(counted(1, 5), Err("it is used up".to_owned()));
        assert_eq!(counted(5, 0), Err("it is used up".to_owned()));
    }
}

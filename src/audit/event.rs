//! The names of what can happen, in two kinds: what happens to an ask on its way, and how it ends.
//!
//! An ending cannot be recorded without its decider: the type of the entry asks for one. Nothing else carries a decider, so that
//! whoever looks for decisions finds each of them once, and no decision that nobody made.
//!
//! Whether an entry is the last one about its ask is another question, see [`Ending::closes`].

/// Makes an enumeration of events with their names, so that none can be left out of the list.
macro_rules! events {
    (
        $(#[$of_kind:meta])*
        $kind:ident {
            $($(#[$of_event:meta])* $event:ident = $name:literal,)+
        }
    ) => {
        $(#[$of_kind])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $kind {
            $($(#[$of_event])* $event,)+
        }

        impl $kind {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$event,)+];

            /// The name in the log.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$event => $name,)+
                }
            }

            /// The one with this name.
            pub fn from_name(name: &str) -> Option<Self> {
                match name {
                    $($name => Some(Self::$event),)+
                    _ => None,
                }
            }
        }
    };
}

events! {
    /// What happens without anything being decided by it.
    Event {
        /// A requester is about to write its request.
        RequestCreated = "forwarded_permission.request_created",
        /// A response was not used: it is for other bytes, or somebody else wrote it.
        ResponseRefused = "forwarded_permission.response_refused",
        /// No rule of the serving session decides an ask.
        Prompted = "forwarded_permission.prompted",
        /// An ask is before a person, in the inbox, or with the parent.
        Waiting = "permission_request.waiting",
        /// A person has put an ask off: it waits on.
        Deferred = "permission_request.deferred",
        /// What a person granted along with an answer is recorded by the serving session.
        SessionRecorded = "forwarded_permission.session_recorded",
        /// The time of a grant is over.
        GrantExpired = "grant.expired",
        /// The last answer that a grant was given for has been given.
        GrantUsedUp = "grant.used_up",
        /// Somebody took a grant back.
        GrantRevoked = "grant.revoked",
        /// A grant that a server before this one gave is in force again.
        GrantTakenOver = "grant.taken_over",
        /// A grant is not in force although somebody gave it, or a file says so.
        GrantRefused = "grant.refused",
        /// An ask has left the inbox.
        Resolved = "permission_request.resolved",
        /// A process before this one had decided and answered the request.
        AnsweredBefore = "forwarded_permission.answered_before",
        /// What a person decided, as a process before this one recorded it, is answered now.
        DecisionRecalled = "forwarded_permission.decision_recalled",
        /// An answer was decided and recorded, and nobody was there to take it.
        AnswerUnclaimed = "forwarded_permission.answer_unclaimed",
        /// An ask of a hook was answered in its host's own dialog, and is taken back.
        AnsweredElsewhere = "forwarded_permission.answered_elsewhere",
        /// A session is served from now on.
        ServingStarted = "forwarded_permission.serving_started",
        /// A session is served no more.
        ServingStopped = "forwarded_permission.serving_stopped",
        /// Asks go to the parent from now on.
        RelayStarted = "forwarded_permission.relay_started",
        /// Asks go to the parent no more.
        RelayStopped = "forwarded_permission.relay_stopped",
        /// An annotator said nothing about an ask.
        AnnotatorFailed = "annotator_failed",
        /// The configuration names an annotator that there is no program for.
        AnnotatorUnregistered = "annotator_chain_unregistered_link",
        /// The chain of authorizers begins with an ask.
        ChainResolved = "authorizer_chain_resolved",
        /// An ask is passed on, so that the chain of the session that gets it judges it, and none here.
        ChainDelegated = "authorizer_chain_delegated",
        /// A link of the chain was asked about an ask, and this came of it.
        AuthorizerLink = "authorizer_link",
        /// A child was started in an environment in which its asks find a session.
        ChildLaunched = "child.launched",
        /// An allow of a link holds on an excluded surface, for the link is trusted there.
        TrustedAllow = "authorizer_trusted_allow",
        /// The configuration names an authorizer that there is no program for.
        AuthorizerUnregistered = "authorizer_chain_unregistered_link",
        /// The configuration was read again and is in force.
        ConfigReloaded = "config.reloaded",
        /// The configuration was read again and cannot be used: what was allowed is asked.
        ConfigBroken = "config.broken",
        /// The project's configuration is not as it was trusted: the rules from before hold.
        ConfigUntrusted = "config.untrusted",
        /// What a program has written to stderr, in the debug log.
        ProgramStderr = "program.stderr",
        /// Something could not be used or done, and the session goes on.
        Warning = "permission_forwarding.warning",
        /// Something failed for an ask, and is tried again.
        Error = "permission_forwarding.error",
        /// The log ended within a line.
        TornTail = "review_log.torn_tail",
        /// The first line of a new file, after the one before was put away.
        Rotated = "review_log.rotated",
        /// A file is due and could not be put away.
        NotRotated = "review_log.not_rotated",
        /// A line that this process knew is not where it was.
        Changed = "review_log.changed",
        /// Records were lost while the log could not be written.
        Lost = "review_log.lost",
        /// The log can be written again.
        Recovered = "review_log.recovered",
    }
}

events! {
    /// How an ask ends on a node, or what somebody decided about it: each has a decider.
    Ending {
        /// A rule or a grant of the serving session allows an ask.
        AutoApproved = "forwarded_permission.auto_approved",
        /// A rule of the serving session denies an ask.
        AutoDenied = "forwarded_permission.auto_denied",
        /// An ask that no rule decides was approved.
        RequestApproved = "permission_request.approved",
        /// An ask that no rule decides was denied, or nobody could decide it.
        RequestDenied = "permission_request.denied",
        /// The serving session answers with an approval.
        Approved = "forwarded_permission.approved",
        /// The serving session answers with a denial.
        Denied = "forwarded_permission.denied",
        /// A requester has its answer.
        ResponseReceived = "forwarded_permission.response_received",
        /// A requester has waited as long as it may.
        ResponseTimedOut = "forwarded_permission.response_timed_out",
        /// A requester found nobody who serves the session.
        NoServingSession = "forwarded_permission.no_serving_session",
        /// A requester could not even ask: there is no session, no spool, or no way on.
        RequestFailed = "forwarded_permission.request_failed",
        /// A requester took its request back; both sides record it.
        RequestWithdrawn = "forwarded_permission.request_withdrawn",
        /// The process that asked is gone.
        RequesterGone = "forwarded_permission.requester_gone",
        /// A request was too old to be answered.
        RequestExpired = "forwarded_permission.request_expired",
        /// Something else is asked under the same id.
        RequestChanged = "forwarded_permission.request_changed",
    }
}

impl Ending {
    /// Whether the ask is over on the side that records this. The others say who decided, and the end is still to come: the
    /// answer, or the news that nobody waits for it. Each side of an ask closes it once.
    pub const fn closes(self) -> bool {
        !matches!(
            self,
            Self::AutoApproved | Self::AutoDenied | Self::RequestApproved | Self::RequestDenied
        )
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_event_and_every_ending_has_a_name_of_its_own_and_is_found_by_it() {
        let names: Vec<&str> = Event::ALL
            .iter()
            .map(|event| event.name())
            .chain(Ending::ALL.iter().map(|ending| ending.name()))
            .collect();
        assert_eq!(names.iter().collect::<HashSet<_>>().len(), names.len());
        for event in Event::ALL {
            assert_eq!(Event::from_name(event.name()), Some(*event));
            assert_eq!(Ending::from_name(event.name()), None);
        }
        for ending in Ending::ALL {
            assert_eq!(Ending::from_name(ending.name()), Some(*ending));
            assert_eq!(Event::from_name(ending.name()), None);
        }
    }

    #[test]
    fn every_event_and_every_ending_is_documented() {
        let page = include_str!("../../docs/log.md");
        for name in (Event::ALL.iter().map(|event| event.name()))
            .chain(Ending::ALL.iter().map(|ending| ending.name()))
        {
            // A row may name several of one family: the family once, then the last words.
            let last = name.rfind('.').map_or(name, |at| &name[at..]);
            assert!(
                page.contains(&format!("`{name}`")) || page.contains(&format!("`{last}`")),
                "{name}"
            );
        }
    }
}

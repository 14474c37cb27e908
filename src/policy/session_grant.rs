//! One grant of a session: what it covers, for whom, and for how long.
//!
//! A value, which decides nothing by itself. When its time is over is for whoever has a clock; how often it was used is counted by
//! the store ([`super::SessionRules`]).
//!
//! # Invariants
//!
//! * A grant for a subagent covers asks whose way ends with the chain that it was given to, and no others.
//! * What was granted exactly is a literal: no character in it is a wildcard.

use super::Lifetime;
use super::family_members;
use super::pattern::Pattern;
use crate::wire::{ForwardedPermissionRequest, GrantWidth, trim};

/// Number of a grant within its session, from 1, never given twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GrantId(u64);

impl GrantId {
    /// The grant with this number.
    pub fn new(number: u64) -> Self {
        Self(number)
    }

    /// The number.
    pub fn get(self) -> u64 {
        self.0
    }
}

impl std::fmt::Display for GrantId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// How a grant was recorded, which tells how to record it again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GrantForm {
    /// As a pattern, through [`super::SessionRules::record`].
    Pattern,
    /// As this very text, through [`super::SessionRules::record_exact`].
    Exact,
}

/// For whom a grant holds.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum GrantScope {
    /// The serving session: itself and all its subagents, at any depth.
    ServingSession,
    /// The subagent that an ask came from by this chain of session ids, outermost child first, and whoever asks through it.
    Subagent(Vec<String>),
}

impl GrantScope {
    /// Whether it holds for asks that come by this chain.
    pub fn covers(&self, chain: &[String]) -> bool {
        match self {
            Self::ServingSession => true,
            Self::Subagent(given_to) => !given_to.is_empty() && chain.ends_with(given_to),
        }
    }
}

/// The session ids that an ask came by, outermost child first, the one that asks last. They are what those sessions say of
/// themselves.
pub fn chain_of(request: &ForwardedPermissionRequest) -> Vec<String> {
    let path = request.relay.as_ref().map_or(&[][..], |relay| &relay.path);
    path.iter()
        .map(|hop| hop.session_id.as_str())
        .chain([request.requester_session_id.as_str()])
        .map(|id| trim(id).to_owned())
        .collect()
}

/// Under which terms something is granted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrantTerms {
    /// For whom.
    pub scope: GrantScope,
    /// For how long.
    pub lifetime: Lifetime,
    /// Who gave it, in a word: where a person was asked, or the name of a program in their place.
    pub given_by: String,
    /// Id of the ask that it was given with.
    pub request_id: String,
}

impl Default for GrantTerms {
    /// For the whole session, until it ends.
    fn default() -> Self {
        Self {
            scope: GrantScope::ServingSession,
            lifetime: Lifetime::SessionEnd,
            given_by: String::new(),
            request_id: String::new(),
        }
    }
}

/// One grant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionGrant {
    /// Its number.
    pub id: GrantId,
    /// The surface that it covers; the bare name of a family covers both directions.
    pub surface: String,
    /// The values that it covers.
    pub pattern: Pattern,
    /// How it was recorded. Whether it covers one value only is told by [`Pattern::is_literal`].
    pub form: GrantForm,
    /// How wide it was given; the surface says it already.
    pub width: GrantWidth,
    /// For whom, for how long, by whom, and with which ask.
    pub terms: GrantTerms,
    /// How many answers have rested on it.
    pub uses: u32,
    /// When it was given, by the wall clock, in epoch milliseconds: shown, and never compared with anything.
    pub given_at_ms: i64,
}

impl SessionGrant {
    /// Its number.
    pub fn id(&self) -> GrantId {
        self.id
    }

    /// The surface that it covers; the bare name of a family covers both directions.
    pub fn surface(&self) -> &str {
        &self.surface
    }

    /// The values that it covers.
    pub fn pattern(&self) -> &Pattern {
        &self.pattern
    }

    /// How it was recorded.
    pub fn form(&self) -> GrantForm {
        self.form
    }

    /// How many more answers may rest on it; `None` where they are not counted.
    pub fn uses_left(&self) -> Option<u32> {
        match self.terms.lifetime {
            Lifetime::Uses(uses) => Some(uses.saturating_sub(self.uses)),
            Lifetime::SessionEnd | Lifetime::For(_) => None,
        }
    }

    pub(super) fn covers_surface(&self, surface: &str) -> bool {
        self.surface == surface
            || family_members(&self.surface).is_some_and(|members| members.contains(&surface))
    }

    /// Whether it says the same as the other, and neither ends before the session.
    pub(super) fn is_same_for_good(&self, other: &Self) -> bool {
        let is_for_good = |grant: &Self| grant.terms.lifetime == Lifetime::SessionEnd;
        self.covers_the_same(other)
            && self.terms.scope == other.terms.scope
            && is_for_good(self)
            && is_for_good(other)
    }

    /// Whether it covers the same values of the same surface.
    pub(super) fn covers_the_same(&self, other: &Self) -> bool {
        self.surface == other.surface && self.pattern == other.pattern && self.form == other.form
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chain(ids: &str) -> Vec<String> {
        ids.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn a_grant_for_a_subagent_holds_for_it_and_whoever_asks_through_it() {
        let scope = GrantScope::Subagent(chain("D C"));
        for (asked_by, covered) in [
            ("D C", true),
            ("E D C", true),
            ("C", false),
            ("D", false),
            ("D C B", false),
            ("C D", false),
            ("XD C", false),
            ("", false),
        ] {
            assert_eq!(scope.covers(&chain(asked_by)), covered, "{asked_by}");
            assert!(GrantScope::ServingSession.covers(&chain(asked_by)));
        }
        assert!(!GrantScope::Subagent(Vec::new()).covers(&chain("C")));
    }
}

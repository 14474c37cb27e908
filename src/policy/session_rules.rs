//! Grants of one session: what a person allowed beyond the ask that was in front of them.
//!
//! A grant only ever allows. It covers the surface it names, and nothing else: a wildcard in the name of a surface, which the
//! requester wrote, is no wildcard here. The store keeps what it is told, in order; it does not decide whether a grant may be
//! given, writes nothing to disk, and forgets all of it when it is dropped.
//!
//! # Invariants
//!
//! * No grant is recorded but through [`SessionRules::record`] or [`SessionRules::record_exact`], which say what they added.
//! * A grant never outlives [`SessionRules::revoke`] and [`SessionRules::clear`], and its id is never given again.

use std::sync::Arc;

use super::family_members;
use super::pattern::Pattern;
use crate::wire::{ApprovalGrant, GrantWidth};

/// Number of a grant within its session, from 1, never given twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GrantId(u64);

impl GrantId {
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

/// One grant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionGrant {
    id: GrantId,
    surface: String,
    pattern: Pattern,
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

    fn covers_surface(&self, surface: &str) -> bool {
        self.surface == surface
            || family_members(&self.surface).is_some_and(|members| members.contains(&surface))
    }
}

/// The grants of one session, in the order in which they were given.
#[derive(Debug, Clone, Default)]
pub struct SessionRules {
    grants: Vec<Arc<SessionGrant>>,
    last: u64,
    home: Option<String>,
}

impl SessionRules {
    /// An empty store. `home` is what `~` stands for in patterns.
    pub fn new(home: Option<&str>) -> Self {
        Self {
            home: home.map(str::to_owned),
            ..Self::default()
        }
    }

    /// Records what a requester suggested, at the width that the person chose. A grant that is already there is not recorded
    /// again; its id is given back.
    pub fn record(&mut self, grants: &[ApprovalGrant], width: GrantWidth) -> Vec<GrantId> {
        grants
            .iter()
            .map(|grant| {
                let pattern = Pattern::compile(&grant.pattern, self.home.as_deref());
                self.add(width.surface(&grant.surface), pattern)
            })
            .collect()
    }

    /// Records that exactly `value` is allowed on `surface`, whatever characters stand in it.
    pub fn record_exact(&mut self, surface: &str, value: &str) -> GrantId {
        self.add(surface, Pattern::literal(value))
    }

    fn add(&mut self, surface: &str, pattern: Pattern) -> GrantId {
        let there = self
            .grants
            .iter()
            .find(|grant| grant.surface == surface && grant.pattern == pattern);
        if let Some(grant) = there {
            return grant.id;
        }
        self.last += 1;
        let id = GrantId(self.last);
        self.grants.push(Arc::new(SessionGrant {
            id,
            surface: surface.to_owned(),
            pattern,
        }));
        id
    }

    /// Takes one grant back. Gives it, if it was there.
    pub fn revoke(&mut self, id: GrantId) -> Option<Arc<SessionGrant>> {
        let at = self.grants.iter().position(|grant| grant.id == id)?;
        Some(self.grants.remove(at))
    }

    /// Takes all grants back.
    pub fn clear(&mut self) {
        self.grants.clear();
    }

    /// The grants in order.
    pub fn list(&self) -> &[Arc<SessionGrant>] {
        &self.grants
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.grants.is_empty()
    }

    /// The grants that cover `surface`, in order.
    pub(crate) fn for_surface<'a>(
        &'a self,
        surface: &'a str,
    ) -> impl DoubleEndedIterator<Item = &'a Arc<SessionGrant>> {
        self.grants
            .iter()
            .filter(move |grant| grant.covers_surface(surface))
    }
}

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

/// How a grant was recorded, which tells how to record it again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GrantForm {
    /// As a pattern, through [`SessionRules::record`].
    Pattern,
    /// As this very text, through [`SessionRules::record_exact`].
    Exact,
}

/// One grant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionGrant {
    id: GrantId,
    surface: String,
    pattern: Pattern,
    form: GrantForm,
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

    /// How it was recorded. Whether it covers one value only is told by [`Pattern::is_literal`].
    pub fn form(&self) -> GrantForm {
        self.form
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
                self.add(width.surface(&grant.surface), pattern, GrantForm::Pattern)
            })
            .collect()
    }

    /// Records that exactly `value` is allowed on `surface`, whatever characters stand in it.
    pub fn record_exact(&mut self, surface: &str, value: &str) -> GrantId {
        self.add(surface, Pattern::literal(value), GrantForm::Exact)
    }

    fn add(&mut self, surface: &str, pattern: Pattern, form: GrantForm) -> GrantId {
        let there = self.grants.iter().find(|grant| {
            grant.surface == surface && grant.pattern == pattern && grant.form == form
        });
        if let Some(grant) = there {
            return grant.id;
        }
        self.last += 1;
        let id = GrantId(self.last);
        self.grants.push(Arc::new(SessionGrant {
            id,
            surface: surface.to_owned(),
            pattern,
            form,
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

#[cfg(test)]
mod tests {
    use super::*;

    fn grant(surface: &str, pattern: &str) -> ApprovalGrant {
        ApprovalGrant {
            surface: surface.to_owned(),
            pattern: pattern.to_owned(),
        }
    }

    fn covering(rules: &SessionRules, surface: &str) -> Vec<u64> {
        rules
            .for_surface(surface)
            .map(|grant| grant.id().get())
            .collect()
    }

    #[test]
    fn a_grant_covers_the_surface_it_names() {
        let mut rules = SessionRules::new(Some("/home/me"));
        rules.record(
            &[grant("path_read", "~/d/*"), grant("bash", "make *")],
            GrantWidth::Proven,
        );
        rules.record(&[grant("path_write", "/w/*")], GrantWidth::Family);
        rules.record(&[grant("*", "*")], GrantWidth::Proven);
        assert_eq!(covering(&rules, "path_read"), [1, 3]);
        assert_eq!(covering(&rules, "path_write"), [3]);
        assert_eq!(covering(&rules, "path"), [3]);
        assert_eq!(covering(&rules, "bash"), [2]);
        assert_eq!(covering(&rules, "external_directory_read"), [0; 0]);
        assert!(rules.list()[0].pattern().matches("/home/me/d/x"));
    }

    #[test]
    fn ids_are_never_given_again() {
        let mut rules = SessionRules::new(None);
        let first = rules.record(
            &[grant("bash", "a"), grant("bash", "a")],
            GrantWidth::Proven,
        );
        assert_eq!(first[0], first[1]);
        assert_eq!(rules.list().len(), 1);
        assert_eq!(rules.revoke(first[0]).unwrap().surface(), "bash");
        assert!(rules.revoke(first[0]).is_none() && rules.is_empty());
        let again = rules.record(&[grant("bash", "a")], GrantWidth::Proven);
        assert_eq!(again[0].to_string(), "2");
        rules.clear();
        assert_eq!(rules.record_exact("bash", "a").get(), 3);
    }

    #[test]
    fn an_exact_grant_is_not_the_pattern_with_the_same_text() {
        let mut rules = SessionRules::new(None);
        rules.record_exact("bash", "grep \"o.*\" f");
        rules.record(&[grant("bash", "grep \"o.*\" f")], GrantWidth::Proven);
        let list = rules.list();
        assert_eq!(list.len(), 2);
        assert_eq!(
            (list[0].form(), list[1].form()),
            (GrantForm::Exact, GrantForm::Pattern)
        );
        assert!(list[0].pattern().is_literal() && !list[1].pattern().is_literal());
        assert!(!list[0].pattern().matches("grep \"o.x\" f; rm y\" f"));
    }

    #[test]
    fn nothing_suggested_is_nothing_recorded() {
        let mut rules = SessionRules::new(None);
        assert!(rules.record(&[], GrantWidth::Family).is_empty());
        assert!(rules.is_empty());
    }
}

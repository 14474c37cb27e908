//! Grants of one session: what a person allowed beyond the ask that was in front of them.
//!
//! A grant only ever allows. It covers the surface it names, and nothing else: a wildcard in the name of a surface, which the
//! requester wrote, is no wildcard here. The store keeps what it is told, in order; it does not decide whether a grant may be
//! given, knows no time, writes nothing to disk, and forgets all of it when it is dropped.
//!
//! # Invariants
//!
//! * No grant is recorded but through [`SessionRules::put`], and what calls it ([`SessionRules::record`],
//!   [`SessionRules::record_exact`]), which say what they added.
//! * A grant never outlives [`SessionRules::revoke`] and [`SessionRules::clear`], nor the last of its uses, and its id is never
//!   given again.

use std::sync::Arc;

use super::pattern::Pattern;
use super::session_grant::{GrantForm, GrantId, GrantTerms, SessionGrant};
use crate::wire::{ApprovalGrant, GrantWidth};

/// The grants of one session, in the order in which they were given.
#[derive(Debug, Clone, Default)]
pub struct SessionRules {
    grants: Vec<Arc<SessionGrant>>,
    last: u64,
    home: Option<String>,
}

/// What would be recorded, with the numbers that are kept for it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GrantPlan {
    /// The number of each suggestion, in their order: a new one, or that of a grant that says the same already.
    pub ids: Vec<GrantId>,
    /// Those that are new.
    pub new: Vec<SessionGrant>,
}

/// What a further use did to a grant.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum Used {
    /// Nothing: it is not counted, or there is none.
    Uncounted,
    /// It has this many fewer left.
    Left(Arc<SessionGrant>),
    /// It was the last one: the grant is gone.
    Up(Arc<SessionGrant>),
}

impl SessionRules {
    /// An empty store. `home` is what `~` stands for in patterns.
    pub fn new(home: Option<&str>) -> Self {
        Self {
            home: home.map(str::to_owned),
            ..Self::default()
        }
    }

    /// Gives no number up to this one: they were given before.
    pub fn skip_to(&mut self, last: u64) {
        self.last = self.last.max(last);
    }

    /// Records what a requester suggested, at the width that the person chose, for the whole session. A grant that is already
    /// there is not recorded again; its id is given back.
    pub fn record(&mut self, grants: &[ApprovalGrant], width: GrantWidth) -> Vec<GrantId> {
        let plan = self.plan(grants, width, &GrantTerms::default());
        plan.new.into_iter().for_each(|grant| self.put(grant));
        plan.ids
    }

    /// Records that exactly `value` is allowed on `surface`, whatever characters stand in it, for the whole session.
    pub fn record_exact(&mut self, surface: &str, value: &str) -> GrantId {
        let mut plan = GrantPlan::default();
        self.plan_one(
            &mut plan,
            (surface, Pattern::literal(value), GrantForm::Exact),
            GrantWidth::Proven,
            &GrantTerms::default(),
        );
        plan.new.into_iter().for_each(|grant| self.put(grant));
        plan.ids.first().copied().unwrap_or(GrantId::new(self.last))
    }

    /// What recording this would record. Its numbers are kept; nothing is recorded yet.
    pub fn plan(
        &mut self,
        suggested: &[ApprovalGrant],
        width: GrantWidth,
        terms: &GrantTerms,
    ) -> GrantPlan {
        let mut plan = GrantPlan::default();
        for grant in suggested {
            let pattern = self.pattern(&grant.pattern, GrantForm::Pattern);
            let what = (width.surface(&grant.surface), pattern, GrantForm::Pattern);
            self.plan_one(&mut plan, what, width, terms);
        }
        plan
    }

    fn plan_one(
        &mut self,
        plan: &mut GrantPlan,
        (surface, pattern, form): (&str, Pattern, GrantForm),
        width: GrantWidth,
        terms: &GrantTerms,
    ) {
        let new = SessionGrant {
            id: GrantId::new(self.last.saturating_add(1)),
            surface: surface.to_owned(),
            pattern,
            form,
            width,
            terms: terms.clone(),
            uses: 0,
            given_at_ms: 0,
        };
        let there = (self.grants.iter()).find(|grant| grant.is_same_for_good(&new));
        let same = there.map(AsRef::as_ref).or_else(|| {
            // The same twice in one suggestion is one grant, whatever its lifetime.
            (plan.new.iter()).find(|planned| planned.covers_the_same(&new))
        });
        if let Some(same) = same {
            plan.ids.push(same.id);
            return;
        }
        self.last = new.id.get();
        plan.ids.push(new.id);
        plan.new.push(new);
    }

    /// The pattern that a text is in a grant of this form.
    pub fn pattern(&self, text: &str, form: GrantForm) -> Pattern {
        match form {
            GrantForm::Pattern => Pattern::compile(text, self.home.as_deref()),
            GrantForm::Exact => Pattern::literal(text),
        }
    }

    /// Records one grant, unless there is one of its number.
    pub fn put(&mut self, grant: SessionGrant) {
        self.skip_to(grant.id.get());
        if self.get(grant.id).is_none() {
            self.grants.push(Arc::new(grant));
        }
    }

    /// The grant of this number.
    pub fn get(&self, id: GrantId) -> Option<&Arc<SessionGrant>> {
        self.grants.iter().find(|grant| grant.id == id)
    }

    /// Counts an answer that rests on a grant. With the last one that it was given for it goes.
    pub fn count(&mut self, id: GrantId) -> Used {
        let Some(grant) = self.grants.iter_mut().find(|grant| grant.id == id) else {
            return Used::Uncounted;
        };
        if grant.uses_left().is_none() {
            return Used::Uncounted;
        }
        let counted = Arc::make_mut(grant);
        counted.uses = counted.uses.saturating_add(1);
        let counted = Arc::clone(grant);
        if counted.uses_left() == Some(0) {
            let _gone = self.revoke(id);
            Used::Up(counted)
        } else {
            Used::Left(counted)
        }
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

    /// The grants that hold for asks which come by this chain.
    pub fn seen_by<'a>(&'a self, chain: &'a [String]) -> Grants<'a> {
        Grants {
            all: &self.grants,
            chain,
        }
    }
}

/// Grants as one ask sees them.
#[derive(Debug, Clone, Copy)]
pub struct Grants<'a> {
    all: &'a [Arc<SessionGrant>],
    chain: &'a [String],
}

impl Grants<'_> {
    /// None at all.
    pub const NONE: Grants<'static> = Grants {
        all: &[],
        chain: &[],
    };
}

impl<'a> From<&'a SessionRules> for Grants<'a> {
    /// Of an ask of which nobody knows whose it is: what holds for the whole session.
    fn from(rules: &'a SessionRules) -> Self {
        rules.seen_by(&[])
    }
}

impl<'a> Grants<'a> {
    /// Those that cover `surface`, in order.
    pub(super) fn for_surface<'s>(
        self,
        surface: &'s str,
    ) -> impl DoubleEndedIterator<Item = &'a Arc<SessionGrant>> + use<'a, 's> {
        self.all.iter().filter(move |grant| {
            grant.covers_surface(surface) && grant.terms.scope.covers(self.chain)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{GrantScope, Lifetime};

    fn grant(surface: &str, pattern: &str) -> ApprovalGrant {
        ApprovalGrant {
            surface: surface.to_owned(),
            pattern: pattern.to_owned(),
        }
    }

    fn covering(rules: &SessionRules, surface: &str) -> Vec<u64> {
        Grants::from(rules)
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

    fn for_uses(uses: u32) -> GrantTerms {
        GrantTerms {
            lifetime: Lifetime::Uses(uses),
            ..GrantTerms::default()
        }
    }

    fn put(rules: &mut SessionRules, grants: &[ApprovalGrant], terms: &GrantTerms) -> Vec<GrantId> {
        let plan = rules.plan(grants, GrantWidth::Proven, terms);
        plan.new.into_iter().for_each(|grant| rules.put(grant));
        plan.ids
    }

    #[test]
    fn a_planned_grant_is_none_before_it_is_recorded_and_its_number_is_nobody_elses() {
        let mut rules = SessionRules::new(None);
        let make = [grant("bash", "make")];
        let plan = rules.plan(&make, GrantWidth::Proven, &GrantTerms::default());
        assert!(rules.is_empty());
        assert_eq!(rules.record_exact("bash", "x").get(), 2);
        for grant in plan.new {
            rules.put(grant);
        }
        assert_eq!(covering(&rules, "bash"), [2, 1]);
        // What is granted already, and does not end before, is not granted again; for a while it is another grant.
        let again = rules.plan(&make, GrantWidth::Proven, &GrantTerms::default());
        assert_eq!((again.ids[0].get(), again.new.len()), (1, 0));
        let twice = [grant("bash", "make"), grant("bash", "make")];
        let counted = rules.plan(&twice, GrantWidth::Proven, &for_uses(1));
        assert_eq!(counted.new.len(), 1);
        assert_eq!(counted.ids[0], counted.ids[1]);
    }

    #[test]
    fn the_last_use_ends_a_grant() {
        let mut rules = SessionRules::new(None);
        let counted = put(&mut rules, &[grant("bash", "a")], &for_uses(2))[0];
        let uncounted = rules.record_exact("bash", "b");
        assert!(matches!(rules.count(counted), Used::Left(grant) if grant.uses_left() == Some(1)));
        assert!(matches!(rules.count(counted), Used::Up(grant) if grant.id() == counted));
        assert_eq!(rules.count(counted), Used::Uncounted);
        assert_eq!(rules.count(uncounted), Used::Uncounted);
        assert_eq!(covering(&rules, "bash"), [uncounted.get()]);
    }

    #[test]
    fn a_grant_for_a_subagent_is_seen_by_it_and_its_children_only() {
        let mut rules = SessionRules::new(None);
        let scope = GrantScope::Subagent(vec!["C".to_owned()]);
        let terms = GrantTerms {
            scope,
            ..GrantTerms::default()
        };
        put(&mut rules, &[grant("bash", "a")], &terms);
        let sees = |chain: &[&str]| {
            let chain: Vec<String> = chain.iter().map(|id| (*id).to_owned()).collect();
            rules.seen_by(&chain).for_surface("bash").count()
        };
        assert_eq!([sees(&["C"]), sees(&["D", "C"])], [1, 1]);
        assert_eq!([sees(&["D"]), sees(&["C", "D"]), sees(&[])], [0, 0, 0]);
        assert_eq!(Grants::NONE.for_surface("bash").count(), 0);
    }
}

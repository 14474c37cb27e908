//! Lays the layers of a policy over each other and makes sections of what comes of it.
//!
//! Layers are merged as the peer merges them, surface by surface: a map of patterns is laid over a map of patterns, where a
//! pattern that stands in both keeps its first place and takes the later verdict; anything else replaces the surface. A bare
//! `path` or `external_directory` stands for its two directions, its entries before those of an explicit direction. The key
//! `*` is no rule: it is the verdict where no rule matches, and an ask where nobody says.
//!
//! What is merged once is shared. A copy for an agent costs one pointer for each surface until a layer is laid over it; a
//! surface that no layer of the agent names keeps the compiled section of the shared layers, and one that does keeps the
//! compiled rules that it does not change.
//!
//! # Invariants
//!
//! * Time and memory are in proportion to the layers that are laid, and to the surfaces that they name.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::sync::Arc;

use super::family_members;
use super::pattern::Pattern;
use super::permission::{PermissionMap, RulePlace, SurfaceRules};
use super::rules::{LayerRules, Origin, Rule, Section, Verdict};

/// Layers laid over each other.
#[derive(Clone, Default)]
pub(super) struct Merged<'m> {
    surfaces: Vec<(&'m str, Rc<Surface<'m>>)>,
    places: HashMap<&'m str, usize>,
    broken: bool,
    /// For each surface its section, once it is compiled.
    sections: Vec<Arc<Section>>,
}

/// What is said about one surface.
#[derive(Clone)]
enum Surface<'m> {
    Whole(Entry<'m>),
    Patterns {
        entries: Vec<Entry<'m>>,
        places: HashMap<&'m str, usize>,
    },
}

/// One rule before it is compiled.
#[derive(Clone, PartialEq)]
struct Entry<'m> {
    pattern: &'m str,
    verdict: Verdict,
    reason: Option<&'m str>,
    origin: Origin,
    place: Option<RulePlace>,
}

impl<'m> Surface<'m> {
    fn patterns(entries: impl Iterator<Item = Entry<'m>>) -> Self {
        let mut surface = Self::Patterns {
            entries: Vec::new(),
            places: HashMap::new(),
        };
        surface.add(entries);
        surface
    }

    /// Lays patterns over patterns. Not to be called for anything else.
    fn add(&mut self, more: impl Iterator<Item = Entry<'m>>) {
        let Self::Patterns { entries, places } = self else {
            return;
        };
        for entry in more {
            let next = entries.len();
            let at = *places.entry(entry.pattern).or_insert(next);
            match entries.get_mut(at) {
                Some(old) => *old = entry,
                None => entries.push(entry),
            }
        }
    }

    fn entries(&self) -> &[Entry<'m>] {
        match self {
            Self::Whole(entry) => std::slice::from_ref(entry),
            Self::Patterns { entries, .. } => entries,
        }
    }
}

impl<'m> Merged<'m> {
    /// Lays one more layer over the others.
    pub(super) fn lay(&mut self, origin: Origin, layer: LayerRules<'m>) {
        match layer {
            LayerRules::Absent => {}
            LayerRules::Unreadable => self.broken = true,
            LayerRules::Rules(map) => {
                for (name, surface) in surfaces_of(map, origin) {
                    self.lay_surface(name, surface);
                }
            }
        }
    }

    fn lay_surface(&mut self, name: &'m str, laid: Surface<'m>) {
        let next = self.surfaces.len();
        let at = *self.places.entry(name).or_insert(next);
        let Some((_, below)) = self.surfaces.get_mut(at) else {
            self.surfaces.push((name, Rc::new(laid)));
            return;
        };
        match laid {
            Surface::Patterns { entries, .. } if matches!(**below, Surface::Patterns { .. }) => {
                Rc::make_mut(below).add(entries.into_iter());
            }
            laid @ (Surface::Whole(_) | Surface::Patterns { .. }) => *below = Rc::new(laid),
        }
    }

    /// Whether a layer could not be read.
    pub(super) fn is_broken(&self) -> bool {
        self.broken
    }

    /// Makes sections. `shared` is what this was copied from, compiled; whatever is still the same is taken from there.
    pub(super) fn compile(&mut self, shared: Option<&Self>, home: Option<&str>) {
        let sections = self
            .surfaces
            .iter()
            .enumerate()
            .map(|(at, (name, surface))| {
                let below = shared.and_then(|shared| {
                    let (_, surface) = shared.surfaces.get(at)?;
                    Some((surface, shared.sections.get(at)?))
                });
                match below {
                    Some((same, section)) if Rc::ptr_eq(same, surface) => Arc::clone(section),
                    Some((other, section)) => {
                        Arc::new(section_over(name, surface, other, section, home))
                    }
                    None => {
                        let name: Arc<str> = Arc::from(*name);
                        let rules = surface.entries().iter();
                        let rules = rules.map(|entry| rule(&name, entry, home)).collect();
                        Arc::new(Section::new(&name, rules))
                    }
                }
            });
        self.sections = sections.collect();
    }

    /// The sections in their order, with what an allow on MCP brings along in front.
    pub(super) fn sections(&self) -> Vec<Arc<Section>> {
        let named = self.surfaces.iter().zip(&self.sections);
        let rules = named.filter(|((name, _), _)| *name != "*");
        let mcp = self.places.get("mcp").and_then(|at| self.sections.get(*at));
        let allows_mcp = mcp.is_some_and(|section| {
            let mut rules = section.rules().iter();
            rules.any(|rule| rule.verdict == Verdict::Allow)
        });
        let baseline = allows_mcp.then(mcp_baseline).map(Arc::new);
        baseline
            .into_iter()
            .chain(rules.map(|(_, section)| Arc::clone(section)))
            .collect()
    }

    /// What is said where no rule matches, and who says it.
    pub(super) fn default_verdict(&self) -> (Verdict, Origin) {
        let star = self.places.get("*").and_then(|at| self.surfaces.get(*at));
        match star.map(|(_, surface)| &**surface) {
            Some(Surface::Whole(entry)) => (entry.verdict, entry.origin),
            Some(Surface::Patterns { .. }) | None => (Verdict::Ask, Origin::Builtin),
        }
    }
}

fn rule(surface: &Arc<str>, entry: &Entry<'_>, home: Option<&str>) -> Arc<Rule> {
    said(surface, entry, Pattern::compile(entry.pattern, home))
}

fn said(surface: &Arc<str>, entry: &Entry<'_>, pattern: Pattern) -> Arc<Rule> {
    Arc::new(Rule {
        surface: Arc::clone(surface),
        pattern,
        verdict: entry.verdict,
        reason: entry.reason.map(str::to_owned),
        origin: entry.origin,
        place: entry.place.clone(),
    })
}

/// The section of a surface over which an agent has laid something. Its first patterns are mostly those of the shared layers.
fn section_over(
    name: &str,
    surface: &Surface<'_>,
    below: &Surface<'_>,
    shared: &Section,
    home: Option<&str>,
) -> Section {
    let name: Arc<str> = shared
        .rules()
        .first()
        .map_or_else(|| Arc::from(name), |rule| Arc::clone(&rule.surface));
    let (entries, below) = (surface.entries(), below.entries());
    let rules = entries.iter().enumerate().map(|(at, entry)| {
        match below.get(at).zip(shared.rules().get(at)) {
            Some((old, rule)) if old == entry => Arc::clone(rule),
            Some((old, rule)) if old.pattern == entry.pattern => {
                said(&name, entry, rule.pattern.clone())
            }
            Some(_) | None => rule(&name, entry, home),
        }
    });
    let rules: Vec<_> = rules.collect();
    let mut pairs = below.iter().zip(entries);
    if below.len() <= entries.len() && pairs.all(|(old, new)| old.pattern == new.pattern) {
        shared.extended(rules)
    } else {
        Section::new(&name, rules)
    }
}

/// What may be looked at in MCP servers as soon as any MCP rule allows something, as the peer has it. It stands before the
/// configured rules, so each of them still wins.
fn mcp_baseline() -> Section {
    let surface: Arc<str> = Arc::from("mcp");
    let targets = [
        "mcp_status",
        "mcp_list",
        "mcp_search",
        "mcp_describe",
        "mcp_connect",
    ];
    let rules = targets.into_iter().map(|target| {
        Arc::new(Rule {
            surface: Arc::clone(&surface),
            pattern: Pattern::literal(target),
            verdict: Verdict::Allow,
            reason: None,
            origin: Origin::Baseline,
            place: None,
        })
    });
    Section::new(&surface, rules.collect())
}

/// The surfaces of one layer. A bare family is its two directions: first what the bare key says, then what an explicit direction
/// says, which so has the last word whichever key stands first in the file.
fn surfaces_of(map: &PermissionMap, origin: Origin) -> Vec<(&str, Surface<'_>)> {
    let keys: HashMap<&str, usize> = map
        .surfaces
        .iter()
        .enumerate()
        .map(|(at, (key, _))| (key.as_str(), at))
        .collect();
    let is_said = |key: &str| keys.contains_key(key);
    let mut all = Vec::with_capacity(map.surfaces.len());
    for (at, (key, rules)) in map.surfaces.iter().enumerate() {
        if let Some(members) = family_members(key) {
            for member in members {
                // Where both keys are there, the direction takes the place of the first of them.
                match keys.get(member) {
                    Some(explicit) if *explicit < at => {}
                    Some(explicit) => all.push((member, both(map, at, *explicit, origin))),
                    None => all.push((member, surface(map, at, rules, origin))),
                }
            }
            continue;
        }
        let bare = key
            .strip_suffix("_read")
            .or_else(|| key.strip_suffix("_write"));
        let bare = bare.filter(|bare| family_members(bare).is_some() && is_said(bare));
        match bare.and_then(|bare| keys.get(bare)) {
            Some(bare) if *bare < at => {}
            Some(bare) => all.push((key.as_str(), both(map, *bare, at, origin))),
            None => all.push((key.as_str(), surface(map, at, rules, origin))),
        }
    }
    all
}

/// What the bare key at one place says, and then what the explicit direction at another does.
fn both(map: &PermissionMap, bare: usize, explicit: usize, origin: Origin) -> Surface<'_> {
    let entries = |at: usize| {
        let rules = map.surfaces.get(at).map(|(_, rules)| rules);
        rules.map_or_else(Vec::new, |rules| entries_of(map, at, rules, origin))
    };
    let explicit = entries(explicit);
    let again: HashSet<&str> = explicit.iter().map(|entry| entry.pattern).collect();
    let mut all = entries(bare);
    all.retain(|entry| !again.contains(entry.pattern));
    Surface::patterns(all.into_iter().chain(explicit))
}

fn surface<'m>(
    map: &'m PermissionMap,
    at: usize,
    rules: &'m SurfaceRules,
    origin: Origin,
) -> Surface<'m> {
    let mut entries = entries_of(map, at, rules, origin).into_iter();
    match rules {
        SurfaceRules::Whole(_) => match entries.next() {
            Some(entry) => Surface::Whole(entry),
            None => Surface::patterns(entries),
        },
        SurfaceRules::Patterns(_) => Surface::patterns(entries),
    }
}

fn entries_of<'m>(
    map: &'m PermissionMap,
    at: usize,
    rules: &'m SurfaceRules,
    origin: Origin,
) -> Vec<Entry<'m>> {
    let place = |position| {
        let file = map.places.file.as_ref().map(Arc::clone);
        file.zip(position)
            .map(|(file, position)| RulePlace { file, position })
    };
    match rules {
        SurfaceRules::Whole(verdict) => vec![Entry {
            pattern: "*",
            verdict: *verdict,
            reason: None,
            origin,
            place: place(map.places.surfaces.get(at).copied()),
        }],
        SurfaceRules::Patterns(patterns) => patterns
            .iter()
            .map(|rule| Entry {
                pattern: &rule.pattern,
                verdict: rule.verdict,
                reason: rule.reason.as_deref(),
                origin,
                place: place(rule.position),
            })
            .collect(),
    }
}

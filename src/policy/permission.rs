//! The `permission` map of one file, as it was written: surfaces, patterns and verdicts in the order of the file.
//!
//! It is the common shape of a JSON configuration and of an agent's front matter. Nothing is matched or merged here; that a
//! key may stand here at all is checked by the readers.

use std::fmt;
use std::sync::Arc;

use super::json::Position;
use super::rules::Verdict;

/// Longest reason of a deny rule, in characters.
pub const MAX_REASON_CHARS: usize = 500;

/// Surfaces and what is said about them, in the order of the file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PermissionMap {
    /// One entry for each surface key. No key stands twice.
    pub surfaces: Vec<(String, SurfaceRules)>,
    /// Where the keys stand, if the map was read from a file.
    pub places: MapPlaces,
}

/// Where the surface keys of a map stand.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MapPlaces {
    /// The file, as its reader called it.
    pub file: Option<Arc<str>>,
    /// The place of each surface key, in their order.
    pub surfaces: Vec<Position>,
}

/// Where a rule stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RulePlace {
    /// The file, as its reader called it.
    pub file: Arc<str>,
    /// Where in it the pattern begins; the surface, where that has one verdict.
    pub position: Position,
}

impl fmt::Display for RulePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.position)
    }
}

/// What one surface key says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SurfaceRules {
    /// One verdict for every value.
    Whole(Verdict),
    /// A verdict for each pattern, in the order of the file. No pattern stands twice.
    Patterns(Vec<PatternRule>),
}

/// One pattern and what it says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PatternRule {
    /// The pattern as written.
    pub pattern: String,
    /// What it says.
    pub verdict: Verdict,
    /// Why it denies, for the one who asked. Only a deny has one.
    pub reason: Option<String>,
    /// Where the pattern stands in its file.
    pub position: Option<Position>,
}

impl PermissionMap {
    /// What is said about `surface`, by exactly this key.
    pub fn get(&self, surface: &str) -> Option<&SurfaceRules> {
        self.surfaces
            .iter()
            .find(|(key, _)| key == surface)
            .map(|(_, rules)| rules)
    }
}

/// Why a surface key cannot stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SurfaceKeyProblem {
    /// It is empty.
    Empty,
    /// It looks like a direction of a family, and is none.
    UnknownDirection,
}

/// The surface keys with a direction.
pub(crate) const DIRECTIONAL_KEYS: [&str; 4] = [
    "path_read",
    "path_write",
    "external_directory_read",
    "external_directory_write",
];

/// Checks one surface key. A misspelt direction of a restriction would restrict nothing at all, so it may not stand.
pub(crate) fn check_surface_key(key: &str) -> Result<(), SurfaceKeyProblem> {
    if key.is_empty() {
        return Err(SurfaceKeyProblem::Empty);
    }
    let directional = key.starts_with("path_") || key.starts_with("external_directory_");
    if directional && !DIRECTIONAL_KEYS.contains(&key) {
        return Err(SurfaceKeyProblem::UnknownDirection);
    }
    Ok(())
}

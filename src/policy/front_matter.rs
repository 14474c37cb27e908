//! skeleton
use super::PermissionMap;
use super::json::Position;

/// The front matter of an agent file, as far as it speaks of permissions.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FrontMatter {
    /// What it says; `None` where it says nothing.
    pub permission: Option<PermissionMap>,
}

impl FrontMatter {
    /// Reads the front matter of the Markdown file `label`.
    pub fn read(bytes: &[u8], label: &str) -> Result<Self, FrontMatterError> {
        let _ = bytes;
        Err(FrontMatterError {
            label: label.to_owned(),
            position: Position { line: 1, column: 1 },
            problem: FrontMatterProblem::NotUtf8,
        })
    }
}

/// Front matter that cannot be read. What it would have allowed or denied is not known.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{label}:{position}: {problem}")]
pub struct FrontMatterError {
    /// Name of the file, as the caller calls it.
    pub label: String,
    /// Where.
    pub position: Position,
    /// What.
    pub problem: FrontMatterProblem,
}

/// What is wrong with front matter.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FrontMatterProblem {
    /// Not text.
    #[error("not UTF-8")]
    NotUtf8,
}

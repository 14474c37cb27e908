//! Where the part of a prompt begins that was resolved for the parent's session alone.
//!
//! Three shapes, tried in this order: the footer that the host wrote up to 0.85, the sections that it writes since 0.86, and a
//! catalogue of skills with neither. All constants are whole lines that the host writes.

use super::lines::Lines;
use super::{CutAt, Directories, Shape, Tail};

const FOOTER: &[u8] = b"Current working directory: ";
const HEADING: &[u8] = b"The following skills provide specialized instructions for specific tasks.";
const CATALOGUE_END: &[u8] = b"</available_skills>";
const SKILLS: &[u8] = b"<skills>";
const SKILLS_END: &[u8] = b"</skills>";
const PROJECT: &[u8] = b"<project_context>";
const PROJECT_END: &[u8] = b"</project_context>";
const LEAD_IN: &[u8] = b"Project-specific instructions and guidelines:";

/// Where the tail begins; `None` where nothing shows that the host assembled the prompt.
pub(super) fn find(prompt: &[u8], directories: &Directories<'_>) -> Option<Tail> {
    let lines = Lines::new(prompt);
    let path = Path::of(directories.parent);
    let mut tail = path
        .as_ref()
        .and_then(|path| footer(lines, path).or_else(|| section(lines, path)))
        .or_else(|| unanchored(lines))?;
    if directories.differ()
        && let Some(above) = project_context(lines, tail.cut)
    {
        tail.cut = above;
        tail.cut_at = CutAt::ProjectContext;
    }
    Some(tail)
}

/// The parent's directory as the host writes it into a prompt.
struct Path(Vec<u8>);

impl Path {
    /// `None` where no line of a prompt can be this path.
    fn of(directory: &[u8]) -> Option<Self> {
        if directory.contains(&b'\n') {
            return None;
        }
        let mut path = directory.to_vec();
        for byte in &mut path {
            if *byte == b'\\' {
                *byte = b'/';
            }
        }
        Some(Self(path))
    }

    fn between(&self, before: &[u8], after: &[u8]) -> Vec<u8> {
        [before, &self.0, after].concat()
    }
}

/// The last footer, wherever it stands; a catalogue right above it goes with it.
fn footer(lines: Lines<'_>, path: &Path) -> Option<Tail> {
    let anchor = lines.last(&path.between(FOOTER, b""), usize::MAX, |_| true)?;
    let catalogue = lines
        .above(anchor)
        .filter(|above| lines.is(*above, CATALOGUE_END))
        .and_then(|end| lines.last(HEADING, end, |_| true));
    Some(Tail {
        shape: Shape::Footer,
        anchor,
        cut: catalogue.unwrap_or(anchor),
        cut_at: match catalogue {
            Some(_) => CutAt::Catalogue,
            None => CutAt::Anchor,
        },
    })
}

/// The last section that states the parent's own directory; the section of skills above it goes with it.
fn section(lines: Lines<'_>, path: &Path) -> Option<Tail> {
    let wanted = path.between(b"<cwd>\n", b"\n</cwd>");
    let anchor = lines.last(&wanted, usize::MAX, |_| true)?;
    let skills = lines
        .above_the_gap(anchor)
        .filter(|above| lines.is(*above, SKILLS_END))
        .and_then(|end| lines.last(SKILLS, end, |_| true))
        .filter(|start| {
            lines
                .below(*start)
                .is_some_and(|first| lines.is(first, HEADING))
        });
    Some(Tail {
        shape: Shape::Section,
        anchor,
        cut: skills.unwrap_or(anchor),
        cut_at: match skills {
            Some(_) => CutAt::Skills,
            None => CutAt::Anchor,
        },
    })
}

/// Somebody wrote the prompt anew below its head: the last catalogue is what is left to go by.
fn unanchored(lines: Lines<'_>) -> Option<Tail> {
    let anchor = lines.last(CATALOGUE_END, usize::MAX, |_| true)?;
    let cut = lines.last(HEADING, anchor, |_| true)?;
    Some(Tail {
        shape: Shape::Unanchored,
        anchor,
        cut,
        cut_at: CutAt::Catalogue,
    })
}

/// Where the project's files begin, if they stand right above the cut.
pub(super) fn project_context(lines: Lines<'_>, cut: usize) -> Option<usize> {
    let end = lines
        .above_the_gap(cut)
        .filter(|above| lines.is(*above, PROJECT_END))?;
    // Sought by the lead-in, for that is one line of text where a file may quote many a tag. The host writes it right below the tag
    // since 0.86, and below an empty line before.
    let opening = |lead_in: usize| {
        let first = lines.above(lead_in)?;
        if lines.is(first, PROJECT) {
            return Some(first);
        }
        let second = lines.above(first)?;
        lines.is(second, PROJECT).then_some(second)
    };
    lines
        .last(LEAD_IN, end, |lead_in| opening(lead_in).is_some())
        .and_then(opening)
}

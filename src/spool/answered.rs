//! Calls of tools that were let run here: one empty file for each, until their host tells that they are over.
//!
//! A host that asks about a call gives it no id, and tells of its end by what it was. Of two calls that are alike, the end of the one that
//! was let run says nothing about the one that still waits, so it is noted which were. Such a note lets nothing run: one too many has a
//! question stay that could go, one too few has it go though nobody answered it, which is a denial.

use super::dir::{Dir, Removal, Replace, text_of};
use super::{ANSWERED, IoContext as _, Spool, SpoolError};
use crate::wire::RequestId;

/// How old a note may be before it goes with the next one: its host has ended without a word.
const KEPT_NS: i128 = 86_400 * 1_000_000_000;

impl Spool {
    /// Notes that what this request asked about was let run.
    pub fn note_answered(&self, id: &RequestId) -> Result<(), SpoolError> {
        let path = || self.path().join(ANSWERED);
        let notes = self.root.ensure_dir(ANSWERED).context("create", path())?;
        let name = id.as_str();
        let _published = notes
            .publish(name, b"", Replace::Always)
            .context("write", path().join(name))?;
        let Ok(Some(now)) = notes.stat(name) else {
            return Ok(());
        };
        for old in named(&notes, "") {
            let is_old = |stamp: super::FileStamp| now.mtime_ns - stamp.mtime_ns > KEPT_NS;
            if notes.stat(&old).ok().flatten().is_some_and(is_old) {
                let _gone = notes.remove(&old);
            }
        }
        Ok(())
    }

    /// Takes away one note whose name begins so. Tells whether there was one.
    pub fn take_answered(&self, start: &str) -> bool {
        let Ok(Some(notes)) = self.root.open_dir(ANSWERED) else {
            return false;
        };
        named(&notes, start)
            .iter()
            .any(|name| matches!(notes.remove(name), Ok(Removal::Removed)))
    }

    /// Takes away all notes whose names begin so.
    pub fn forget_answered(&self, start: &str) {
        if let Ok(Some(notes)) = self.root.open_dir(ANSWERED) {
            for name in named(&notes, start) {
                let _gone = notes.remove(&name);
            }
        }
    }
}

fn named(notes: &Dir, start: &str) -> Vec<String> {
    let mut names = Vec::new();
    // What cannot be listed was not noted.
    let _listed = notes.each_name(|name| {
        let name = text_of(name).filter(|name| name.starts_with(start));
        names.extend(name.map(str::to_owned));
    });
    names
}

#[cfg(test)]
mod tests {
    use super::super::testing::Place;
    use super::*;

    fn id(text: &str) -> RequestId {
        RequestId::parse(text).unwrap()
    }

    #[test]
    fn a_note_is_taken_once_and_by_how_it_begins() {
        let place = Place::new();
        let spool = &place.spool;
        assert!(!spool.take_answered("a-"));
        for name in ["a-1", "a-2", "b-1"] {
            spool.note_answered(&id(name)).unwrap();
        }
        assert!(!spool.take_answered("c-"));
        assert!(spool.take_answered("a-") && spool.take_answered("a-"));
        assert!(!spool.take_answered("a-"));
        spool.note_answered(&id("b-2")).unwrap();
        spool.forget_answered("b-");
        assert!(!spool.take_answered("b-"));
    }
}

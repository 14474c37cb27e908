//! What would become of one file: worked out first, shown, and written only then.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::cli::Hinted;
use crate::clock;
use crate::host::install::{
    EditError, Host, MAX_HOST_CONFIG_BYTES, TomlError, TrustError, is_shim, program_of, shim,
};
use crate::presentation::evidence::unified_diff;
use crate::presentation::text::visible;
use crate::spool::{ForeignError, ForeignFile, InstallStore, Installed, SpoolError};

/// One file as it is, and as it would be.
pub(super) struct Change {
    file: ForeignFile,
    after: After,
    /// What somebody should know of it.
    remark: Option<&'static str>,
}

/// What is said where a backup is not given back.
const UNUSED: &str =
    "the backup is not what was kept, so it is not used: only what askrelay wrote is taken out";

enum After {
    /// As it is.
    Same,
    /// With these bytes, and this is recorded of it.
    Written {
        bytes: Vec<u8>,
        record: Installed,
        before: Vec<u8>,
    },
    /// With these bytes, and nothing is recorded of it any more. What somebody made of ours is kept.
    Restored {
        bytes: Vec<u8>,
        kept: Option<Vec<u8>>,
    },
    /// Not there, and neither are these directories, where they are empty. What somebody made of ours is kept.
    Gone {
        directories: Vec<PathBuf>,
        kept: Option<Vec<u8>>,
    },
    /// As it is, and nothing is recorded of it any more.
    Forgotten,
}

/// What was read of a file: its text, and what is recorded of it.
pub(super) struct Seen {
    file: ForeignFile,
    text: String,
    record: Option<Installed>,
}

impl Seen {
    pub(super) fn of(path: &Path, store: &InstallStore) -> anyhow::Result<Self> {
        let file = ForeignFile::read(path, MAX_HOST_CONFIG_BYTES).map_err(foreign)?;
        let text = String::from_utf8(file.bytes().unwrap_or_default().to_vec());
        let text = text.map_err(|_| {
            Hinted::usage(
                format!("{} is not UTF-8", visible(&path.to_string_lossy())),
                "nothing was changed; look at what the file is",
            )
        })?;
        Ok(Self {
            record: store.record(path).or_else(unless_unusable)?,
            file,
            text,
        })
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn path(&self) -> &Path {
        self.file.path()
    }

    /// What is recorded of it.
    pub(super) fn record(&self) -> Option<&Installed> {
        self.record.as_ref()
    }

    /// The record, where the file is as it was left.
    fn left(&self) -> Option<&Installed> {
        let bytes = self.file.bytes()?;
        self.record.as_ref().filter(|record| record.is_left(bytes))
    }

    /// It is to say this. `without` is its text without anything of ours.
    pub(super) fn becomes(
        self,
        host: Host,
        store: &InstallStore,
        text: String,
        without: &str,
        entries: Vec<(String, String)>,
    ) -> Change {
        if self.file.bytes() == Some(text.as_bytes()) {
            return Change {
                file: self.file,
                after: After::Same,
                remark: None,
            };
        }
        let path = self.path().to_owned();
        let mut record = Installed::new(host.name(), &path, clock::wall_ms(), text.as_bytes());
        // What really stands there, with entries of ours or without; only the latter is ever given back.
        let mut before = self.file.bytes().unwrap_or_default().to_vec();
        record.is_pristine = before == without.as_bytes();
        if let Some(left) = self.left() {
            record.follows(left);
            record.existed = left.existed;
            record.made.clone_from(&left.made);
            match kept(store, &path, left) {
                Some(kept) => {
                    before = kept;
                    record.is_pristine = left.is_pristine;
                }
                None => record.is_pristine = false,
            }
        } else if self.file.bytes().is_none() {
            record.existed = false;
            let made = self.file.missing_directories();
            let made = made.iter().map(|made| made.to_string_lossy().into_owned());
            record.made = made.collect();
        }
        record.entries = entries;
        record.keeps(&before);
        Change {
            file: self.file,
            after: After::Written {
                bytes: text.into_bytes(),
                record,
                before,
            },
            remark: None,
        }
    }

    /// It is to be as it was. Where it was edited since, it is to be `without`.
    pub(super) fn restored(self, store: &InstallStore, without: String) -> Change {
        let now = self.file.bytes().map(<[u8]>::to_vec);
        let mut remark = None;
        let mut keeps = None;
        let restored = |bytes, kept| After::Restored { bytes, kept };
        let after = match (self.left(), &now) {
            (Some(left), Some(_)) if !left.existed => After::Gone {
                directories: left.made.iter().map(PathBuf::from).collect(),
                kept: None,
            },
            (Some(left), Some(_)) => {
                let bytes = match kept(store, self.path(), left) {
                    Some(before) if left.is_pristine => before,
                    Some(before) => {
                        keeps = Some(before);
                        without.into_bytes()
                    }
                    None => {
                        remark = Some(UNUSED);
                        without.into_bytes()
                    }
                };
                restored(bytes, keeps)
            }
            (_, Some(now)) if without.as_bytes() != now => restored(without.into_bytes(), None),
            _ if self.record.is_some() => After::Forgotten,
            _ => After::Same,
        };
        Change {
            file: self.file,
            after,
            remark,
        }
    }

    /// It goes, where it is a file of ours. What somebody made of it is kept.
    pub(super) fn without_shim(self, host: Host, store: &InstallStore) -> Change {
        let after = if is_shim(&self.text) {
            let as_written = program_of(&self.text).and_then(|program| shim(host, &program));
            let kept = if self.left().is_some() || as_written.as_ref() == Some(&self.text) {
                let before = self
                    .record
                    .as_ref()
                    .and_then(|record| kept(store, self.path(), record));
                before.filter(|before| !before.is_empty())
            } else {
                Some(self.text.clone().into_bytes())
            };
            let made = self.record.iter().flat_map(|record| &record.made);
            After::Gone {
                directories: made.map(PathBuf::from).collect(),
                kept,
            }
        } else if self.record.is_some() {
            After::Forgotten
        } else {
            After::Same
        };
        Change {
            file: self.file,
            after,
            remark: None,
        }
    }
}

/// The bytes that stood in a file before, where they are still those that were kept.
fn kept(store: &InstallStore, path: &Path, record: &Installed) -> Option<Vec<u8>> {
    let bytes = store.before(path).ok().flatten()?;
    record.kept(&bytes).then_some(bytes)
}

/// A record that cannot be used says nothing; whoever cannot read at all is told.
fn unless_unusable(error: SpoolError) -> Result<Option<Installed>, SpoolError> {
    let is_no_record = matches!(
        error,
        SpoolError::NotAFile { .. }
            | SpoolError::ForeignOwner { .. }
            | SpoolError::WritableByOthers { .. }
    );
    if is_no_record { Ok(None) } else { Err(error) }
}

impl Change {
    /// Whether the file would be another one.
    pub(super) fn is_one(&self) -> bool {
        !matches!(self.after, After::Same | After::Forgotten)
    }

    pub(super) fn path(&self) -> &Path {
        self.file.path()
    }

    /// Whether it may be written, as far as that can be told before.
    pub(super) fn check_writable(&self) -> anyhow::Result<()> {
        self.file.check_writable().map_err(foreign)
    }

    /// What is said of a file that is a link, or whose backup is of no use.
    pub(super) fn note(&self) -> Option<String> {
        if let Some(remark) = self.remark {
            return Some(format!(
                "{}: {remark}",
                visible(&self.path().to_string_lossy())
            ));
        }
        let target = self.file.link_target().filter(|_| self.is_one())?;
        Some(format!(
            "{} is a symbolic link: the file that it leads to is written, {}",
            visible(&self.path().to_string_lossy()),
            visible(&target.to_string_lossy())
        ))
    }

    /// What happens to it, in one word.
    pub(super) fn word(&self) -> &'static str {
        match (&self.after, self.file.bytes()) {
            (After::Same | After::Forgotten, _) => "none",
            (After::Written { .. }, None) => "create",
            (After::Written { .. }, Some(_)) => "update",
            (After::Restored { .. }, _) => "restore",
            (After::Gone { .. }, _) => "remove",
        }
    }

    fn after(&self) -> &[u8] {
        match &self.after {
            After::Same | After::Forgotten => self.file.bytes().unwrap_or_default(),
            After::Written { bytes, .. } | After::Restored { bytes, .. } => bytes,
            After::Gone { .. } => &[],
        }
    }

    /// The lines of a unified diff, ready for a terminal.
    pub(super) fn diff(&self) -> Vec<String> {
        if !self.is_one() {
            return Vec::new();
        }
        let before = String::from_utf8_lossy(self.file.bytes().unwrap_or_default());
        let after = String::from_utf8_lossy(self.after());
        let path = self.path().to_string_lossy();
        let name = |there: bool| if there { &*path } else { "/dev/null" };
        let is_there = !matches!(self.after, After::Gone { .. });
        let (old, new) = (name(self.file.bytes().is_some()), name(is_there));
        let text = unified_diff(old, &before, new, &after);
        let lines = text.lines();
        lines.map(|line| visible(line).into_owned()).collect()
    }

    /// Where the bytes are kept that stood there before, or that somebody made of ours, once it is written.
    fn backup(&self, store: &InstallStore) -> Option<PathBuf> {
        match &self.after {
            After::Written { record, .. } => record.existed.then(|| store.backup_of(self.path())),
            After::Restored { kept, .. } | After::Gone { kept, .. } => {
                kept.as_ref().map(|_| store.kept_of(self.path()))
            }
            After::Same | After::Forgotten => None,
        }
    }

    /// Writes it. What is kept is kept before.
    pub(super) fn write(&self, store: &InstallStore) -> anyhow::Result<()> {
        if matches!(self.after, After::Same) {
            return Ok(());
        }
        // Whoever writes at the same time comes after, with what is recorded by then.
        let _lock = store.lock()?;
        match &self.after {
            After::Same => Ok(()),
            After::Written {
                bytes,
                record,
                before,
            } => {
                let known = store.record(self.path()).or_else(unless_unusable)?;
                let kept = store.before(self.path()).ok().flatten();
                self.file.check_unchanged().map_err(foreign)?;
                store.publish(self.path(), record, before)?;
                self.file.put(bytes).map_err(|error| {
                    // Nothing was written: what was known before holds.
                    let _undone = match (known, kept) {
                        (Some(known), Some(kept)) => store.publish(self.path(), &known, &kept),
                        _ => store.remove(self.path()),
                    };
                    foreign(error)
                })
            }
            After::Restored { bytes, kept } => {
                self.keep(store, kept.as_deref())?;
                self.file.put(bytes).map_err(foreign)?;
                Ok(store.remove(self.path())?)
            }
            After::Gone { directories, kept } => {
                self.keep(store, kept.as_deref())?;
                self.file.remove(directories).map_err(foreign)?;
                Ok(store.remove(self.path())?)
            }
            After::Forgotten => Ok(store.remove(self.path())?),
        }
    }

    fn keep(&self, store: &InstallStore, kept: Option<&[u8]>) -> anyhow::Result<()> {
        let Some(kept) = kept else {
            return Ok(());
        };
        self.file.check_unchanged().map_err(foreign)?;
        Ok(store.keep(self.path(), kept)?)
    }

    /// What was done, in one line.
    pub(super) fn done(&self, store: &InstallStore) -> Option<String> {
        let path = self.path().to_string_lossy();
        let path = visible(&path);
        Some(match &self.after {
            After::Same | After::Forgotten => return None,
            After::Written { .. } => match self.backup(store) {
                Some(backup) => format!(
                    "wrote {path}; what stood there before is in {}",
                    visible(&backup.to_string_lossy())
                ),
                None => format!("wrote {path}, which was not there before"),
            },
            After::Restored { .. } => format!("restored {path}{}", self.said_of_kept(store)),
            After::Gone { .. } => format!(
                "removed {path}, which was not there before askrelay{}",
                self.said_of_kept(store)
            ),
        })
    }

    fn said_of_kept(&self, store: &InstallStore) -> String {
        self.backup(store).map_or_else(String::new, |kept| {
            format!(
                "; what somebody had made of the entries of askrelay is kept in {}",
                visible(&kept.to_string_lossy())
            )
        })
    }

    pub(super) fn json(&self, store: &InstallStore) -> Value {
        let text = |path: &Path| path.to_string_lossy().into_owned();
        json!({
            "path": text(self.path()),
            "linkTarget": self.file.link_target().map(text),
            "change": self.word(),
            "diff": self.diff().join("\n"),
            "backup": self.backup(store).as_deref().map(text),
        })
    }
}

/// A file of another program, with what to do about it.
pub(in crate::cli) fn foreign(error: ForeignError) -> anyhow::Error {
    let hint = error.hint();
    if let ForeignError::Io {
        doing,
        path,
        source,
    } = error
    {
        let path = path.to_string_lossy();
        let message = format!("cannot {doing} {}", visible(&path));
        return Hinted::nobody(message, hint, Some(source.into()));
    }
    Hinted::usage(error.to_string(), hint)
}

/// A configuration that is not edited, with the place in it.
pub(super) fn unedited(path: &Path, error: &EditError) -> anyhow::Error {
    let hint = match error {
        EditError::Json { .. } | EditError::Shape { .. } => {
            "nothing was changed; mend the file, and repeat the command"
        }
        EditError::Comment { .. } => {
            "nothing was changed; remove the comments, or no hook in this file runs at all"
        }
        EditError::NotSafe => {
            "nothing was changed; take entries of askrelay out by hand, and repeat the command"
        }
    };
    Hinted::usage(format!("{}:{error}", path.display()), hint)
}

/// A configuration in TOML that is not read.
pub(super) fn no_toml(path: &Path, error: &TomlError) -> anyhow::Error {
    Hinted::usage(
        format!("{}:{error}", path.display()),
        "nothing was changed; mend the file, and repeat the command",
    )
}

/// Trust that is not recorded.
pub(super) fn untrusted(path: &Path, error: &TrustError) -> anyhow::Error {
    match error {
        TrustError::Toml(error) => no_toml(path, error),
        TrustError::Inline { .. } | TrustError::Dotted { .. } => Hinted::usage(
            format!("{}: {error}", path.display()),
            "leave --trust out, and have Codex record it: start codex, and type /hooks",
        ),
    }
}

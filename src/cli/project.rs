//! The files of a project that may hold configuration, and whether somebody has trusted them as they are.
//!
//! A project counts for the bytes that somebody looked at, and for no others: whatever runs in it can write these files. A
//! program that it names and that lies in it belongs to them, for its bytes decide what it does.

use std::path::{Path, PathBuf};

use super::layers::FileSeen;
use crate::policy::{Config, FrontMatter, MAX_CONFIG_BYTES, Program};
use crate::spool::{
    OperatorFile, TrustError, TrustRecord, TrustStore, TrustedFile, list_operator_files,
    look_at_operator_file, path_spellings, read_operator_file,
};
use crate::wire::Digest;

/// The configuration of a project, and that of the peer, which stands in for a missing one.
const OWN_CONFIG: &str = ".askrelay/config.json";
const PEER_CONFIG: &str = ".pi/extensions/pi-permission-system/config.json";
/// Agents of a project.
const AGENTS: &str = ".askrelay/agents";
/// Largest file that a program of a project may be.
const MAX_PROGRAM_BYTES: usize = 64 << 20;

/// The files of a project, as they are now.
#[derive(Debug)]
pub(super) struct ProjectFiles {
    /// Its directory, canonical.
    pub(super) directory: PathBuf,
    /// Its configuration, where it has one.
    pub(super) config: Option<InProject<Config>>,
    /// Its agents.
    pub(super) agents: Vec<(String, InProject<FrontMatter>)>,
    /// Files in it that are part of a program that it names.
    pub(super) programs: Vec<InProject<()>>,
    /// Why they are not all known.
    pub(super) trouble: Option<String>,
}

/// One file of a project.
#[derive(Debug)]
pub(super) struct InProject<T> {
    /// Its path below the directory.
    pub(super) relative: String,
    /// What it holds.
    pub(super) seen: FileSeen<T>,
}

/// A project, and what its trust says.
#[derive(Debug)]
pub(super) enum ProjectSeen {
    /// There is none, or nothing in it that could count.
    Absent,
    /// Nobody has said that it is trusted.
    Untrusted(ProjectFiles),
    /// Its files are not those that were trusted. With what is different.
    Changed(ProjectFiles, String),
    /// Its files are those that were trusted.
    Trusted(ProjectFiles),
}

impl ProjectSeen {
    /// Its files.
    pub(super) fn files(&self) -> Option<&ProjectFiles> {
        match self {
            Self::Absent => None,
            Self::Untrusted(files) | Self::Changed(files, _) | Self::Trusted(files) => Some(files),
        }
    }

    /// Looks at a project. Without a place for records nothing is trusted.
    pub(super) fn look(directory: &Path, store: Option<&TrustStore>) -> Self {
        let files = ProjectFiles::read(directory);
        let record = store.map_or(Ok(None), |store| store.record(directory));
        match record {
            Ok(None) if files.is_empty() => Self::Absent,
            Ok(None) => Self::Untrusted(files),
            Ok(Some(record)) => match files.differs_from(&record) {
                None if files.is_empty() => Self::Absent,
                None => Self::Trusted(files),
                Some(what) => Self::Changed(files, what),
            },
            Err(error) => {
                let what = match error {
                    TrustError::Spool(error) => crate::ask::describe(&error),
                    TrustError::Garbled { .. } | TrustError::TooMany { .. } => error.to_string(),
                };
                Self::Changed(files, what)
            }
        }
    }
}

impl ProjectFiles {
    fn read(directory: &Path) -> Self {
        let config = [OWN_CONFIG, PEER_CONFIG].into_iter().find_map(|relative| {
            let path = directory.join(relative);
            // Whatever stands there counts, so that a link to nowhere does not bring the other one into force.
            look_at_operator_file(&path).is_there().then(|| InProject {
                relative: relative.to_owned(),
                seen: FileSeen::config(&path).running_in(directory),
            })
        });
        let (agents, trouble) = match list_operator_files(&directory.join(AGENTS), ".md") {
            Ok(paths) => (paths, None),
            Err(error) => (Vec::new(), Some(crate::ask::describe(&error))),
        };
        let agents = agents.iter().filter_map(|path| {
            let agent = path.file_stem()?.to_str()?.to_owned();
            let relative = format!("{AGENTS}/{agent}.md");
            let seen = FileSeen::front_matter(path);
            Some((agent, InProject { relative, seen }))
        });
        let agents = agents.collect();
        let programs = config
            .as_ref()
            .and_then(|config| config.seen.value())
            .map_or_else(Vec::new, |config| programs(directory, config));
        Self {
            directory: directory.to_owned(),
            config,
            agents,
            programs,
            trouble,
        }
    }

    fn is_empty(&self) -> bool {
        self.config.is_none() && self.agents.is_empty() && self.trouble.is_none()
    }

    /// Every file with the digest of its bytes, in order; a text that says why where one has none.
    pub(super) fn trusted_files(&self) -> Result<Vec<TrustedFile>, String> {
        if let Some(trouble) = &self.trouble {
            return Err(trouble.clone());
        }
        let config = self.config.iter().map(InProject::trusted);
        let agents = self.agents.iter().map(|(_, file)| file.trusted());
        let programs = self.programs.iter().map(InProject::trusted);
        let mut files: Vec<TrustedFile> = config
            .chain(agents)
            .chain(programs)
            .collect::<Result<_, _>>()?;
        files.sort();
        files.dedup();
        Ok(files)
    }

    /// What is different from what was trusted.
    fn differs_from(&self, record: &TrustRecord) -> Option<String> {
        let files = match self.trusted_files() {
            Ok(files) => files,
            Err(trouble) => return Some(trouble),
        };
        let find = |files: &[TrustedFile], path: &str| {
            let mut files = files.iter();
            files.find(|file| file.path == path).cloned()
        };
        let mut said = Vec::new();
        for file in &files {
            match find(&record.files, &file.path) {
                None => said.push(format!("{} is new", file.path)),
                Some(trusted) if trusted != *file => {
                    said.push(format!("{} has changed", file.path));
                }
                Some(_) => {}
            }
        }
        let gone = record.files.iter();
        let gone = gone.filter(|file| find(&files, &file.path).is_none());
        said.extend(gone.map(|file| format!("{} is gone", file.path)));
        let more = said.len().saturating_sub(3);
        said.truncate(3);
        if more > 0 {
            said.push(format!("and {more} more"));
        }
        (!said.is_empty()).then(|| said.join(", "))
    }

    /// Every file that was looked at.
    pub(super) fn paths(&self) -> impl Iterator<Item = PathBuf> {
        let config = self.config.iter().map(|file| &file.relative);
        let agents = self.agents.iter().map(|(_, file)| &file.relative);
        let programs = self.programs.iter().map(|file| &file.relative);
        config
            .chain(agents)
            .chain(programs)
            .map(|relative| self.directory.join(relative))
    }
}

/// Everything in a project that is looked at for changes, be it there or not.
pub(super) fn places(directory: &Path) -> [PathBuf; 5] {
    [
        OWN_CONFIG,
        PEER_CONFIG,
        AGENTS,
        ".askrelay",
        ".pi/extensions/pi-permission-system",
    ]
    .map(|relative| directory.join(relative))
}

impl<T> InProject<T> {
    fn trusted(&self) -> Result<TrustedFile, String> {
        match self.seen.digest() {
            Some(digest) => Ok(TrustedFile {
                path: self.relative.clone(),
                digest: digest.to_string(),
            }),
            None => Err(match self.seen.trouble() {
                Some(trouble) => trouble.to_owned(),
                None => format!("{} is gone", self.relative),
            }),
        }
    }
}

/// The files in a project that stand in the command line of a program which its configuration names: as the program, as one of its
/// arguments, or behind the `=` of one.
fn programs(directory: &Path, config: &Config) -> Vec<InProject<()>> {
    let programs = config.annotators.values();
    let programs = programs.chain(config.evidence_formatters.values());
    let words = programs.flat_map(|Program { command, .. }| command);
    let words = words.flat_map(|word| {
        let behind = word.split_once('=').map(|(_, behind)| behind);
        [word.as_str()].into_iter().chain(behind)
    });
    let mut found: Vec<InProject<()>> = Vec::new();
    for relative in words.flat_map(|word| below(directory, word)) {
        if found.iter().any(|file| file.relative == relative) {
            continue;
        }
        let path = directory.join(&relative);
        let seen = match read_operator_file(&path, MAX_PROGRAM_BYTES) {
            // A plain word, or a directory: nothing of the project runs by it.
            Ok(OperatorFile::Missing) | Err(crate::spool::SpoolError::NotAFile { .. }) => continue,
            Ok(OperatorFile::Content(bytes)) if bytes.len() > MAX_PROGRAM_BYTES => {
                FileSeen::broken(&path, "it is too large for a program of a project", None)
            }
            Ok(OperatorFile::Content(bytes)) => FileSeen::Good {
                label: path.to_string_lossy().into_owned(),
                value: (),
                digest: Digest::of(&bytes),
            },
            Err(error) => FileSeen::broken(&path, &crate::ask::describe(&error), None),
        };
        found.push(InProject { relative, seen });
    }
    found
}

/// Which paths below the directory a word could name: as it is written, where the directory leads in which it lies, and where it
/// leads itself. A project that is reached through a link is the same project.
fn below(directory: &Path, word: &str) -> Vec<String> {
    let path = directory.join(word);
    let resolved =
        |path: &Path| PathBuf::from(path_spellings(&path.to_string_lossy(), directory).1);
    let in_place = path.parent().zip(path.file_name());
    let in_place = in_place.map(|(parent, name)| resolved(parent).join(name));
    let whole = resolved(&path);
    let mut names = Vec::new();
    for path in [Some(path), in_place, Some(whole)].into_iter().flatten() {
        let relative = path.strip_prefix(directory).ok().and_then(Path::to_str);
        let relative = relative.filter(|relative| !relative.is_empty());
        if let Some(relative) = relative.map(str::to_owned)
            && !names.contains(&relative)
        {
            names.push(relative);
        }
    }
    names
}

impl FileSeen<Config> {
    /// Reads a configuration.
    pub(super) fn config(path: &Path) -> Self {
        Self::read(path, MAX_CONFIG_BYTES, |bytes, label| {
            Config::read(bytes, label).map_err(|error| error.to_string())
        })
    }

    /// The same, and the programs that it names run in this directory, whose files were looked at.
    fn running_in(mut self, directory: &Path) -> Self {
        if let Self::Good { value, .. } = &mut self {
            let programs = value.annotators.values_mut();
            for program in programs.chain(value.evidence_formatters.values_mut()) {
                program.directory = Some(directory.to_owned());
            }
        }
        self
    }
}

impl FileSeen<FrontMatter> {
    /// Reads the file of an agent.
    pub(super) fn front_matter(path: &Path) -> Self {
        Self::read(path, MAX_CONFIG_BYTES, |bytes, label| {
            FrontMatter::read(bytes, label).map_err(|error| error.to_string())
        })
    }
}

//! Finds and reads the layers of the configuration, and says what of them is in force.
//!
//! ```text
//! the user's file and agents ─┐
//! the project's, if trusted  ─┴─ read ─▶ in force ─▶ laid over each other (policy::Sources)
//!                                 ▲
//!            what was in force before: a file that breaks or goes keeps its denies, and allows nothing
//! ```
//!
//! At the start there is no "before": a file that cannot be read is then an error of whoever reads it.

use std::path::{Path, PathBuf};

use super::project::{self, ProjectFiles, ProjectSeen};
use crate::policy::{
    AgentOwner, AgentSource, Config, FrontMatter, Layered, Policy, Source, Sources, Withheld,
};
use crate::serve::{SourceFile, Trouble};
use crate::spool::{
    LookedAt, OperatorFile, TrustStore, list_operator_files, look_at_operator_file,
    read_operator_file,
};
use crate::wire::Digest;

/// How many files that cannot be used are named; of the others their number.
const MAX_NAMED: usize = 3;

/// Where the layers lie.
#[derive(Debug, Clone)]
pub(super) struct Layout {
    /// The user's configuration.
    pub(super) global: Option<PathBuf>,
    /// The directory of the project, canonical; `None` where no project counts.
    pub(super) project: Option<PathBuf>,
    /// Where it stands which projects are trusted.
    pub(super) store: Option<TrustStore>,
}

/// One file, as it was read.
#[derive(Debug)]
pub(super) enum FileSeen<T> {
    /// It is not there.
    Missing,
    /// It says this.
    Good {
        /// Its name, for people.
        label: String,
        /// What it says.
        value: T,
        /// Digest of its bytes.
        digest: Digest,
    },
    /// It cannot be used.
    Broken {
        /// Its name, for people.
        label: String,
        /// Why, with its name.
        text: String,
        /// Digest of its bytes, where there were any.
        digest: Option<Digest>,
    },
}

/// What is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    /// All of it.
    Everything,
    /// What a process that asks needs: no agents of the user.
    Settings,
}

/// Everything that was read, at one time.
#[derive(Debug)]
pub(super) struct Seen {
    pub(super) global: FileSeen<Config>,
    /// The user's agents, or why they cannot be listed.
    pub(super) agents: Result<Vec<(String, FileSeen<FrontMatter>)>, String>,
    pub(super) project: ProjectSeen,
}

/// What of it is in force.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct InForce {
    /// The layers that count.
    pub(super) sources: Sources,
    /// Why the files are not in force as they are.
    pub(super) trouble: Option<Trouble>,
    /// What somebody should know besides.
    pub(super) remarks: Vec<String>,
}

impl<T> FileSeen<T> {
    /// Reads one file.
    pub(super) fn read(
        path: &Path,
        limit: usize,
        parse: impl FnOnce(&[u8], &str) -> Result<T, String>,
    ) -> Self {
        let label = path.to_string_lossy().into_owned();
        match read_operator_file(path, limit) {
            Ok(OperatorFile::Missing) if look_at_operator_file(path).is_there() => {
                Self::broken(path, "a symbolic link to nothing stands there", None)
            }
            Ok(OperatorFile::Missing) => Self::Missing,
            Ok(OperatorFile::Content(bytes)) => {
                let digest = Digest::of(&bytes);
                match parse(&bytes, &label) {
                    Ok(value) => Self::Good {
                        label,
                        value,
                        digest,
                    },
                    Err(text) => Self::Broken {
                        label,
                        text,
                        digest: Some(digest),
                    },
                }
            }
            Err(error) => Self::Broken {
                text: crate::ask::describe(&error),
                label,
                digest: None,
            },
        }
    }

    pub(super) fn broken(path: &Path, why: &str, digest: Option<Digest>) -> Self {
        let label = path.to_string_lossy().into_owned();
        Self::Broken {
            text: format!("{label}: {why}"),
            label,
            digest,
        }
    }

    pub(super) fn value(&self) -> Option<&T> {
        match self {
            Self::Good { value, .. } => Some(value),
            Self::Missing | Self::Broken { .. } => None,
        }
    }

    pub(super) fn digest(&self) -> Option<Digest> {
        match self {
            Self::Good { digest, .. } => Some(*digest),
            Self::Broken { digest, .. } => *digest,
            Self::Missing => None,
        }
    }

    pub(super) fn trouble(&self) -> Option<&str> {
        match self {
            Self::Broken { text, .. } => Some(text),
            Self::Missing | Self::Good { .. } => None,
        }
    }

    fn file(&self) -> Option<SourceFile> {
        match self {
            Self::Good { label, .. } | Self::Broken { label, .. } => Some(SourceFile {
                path: label.clone(),
                digest: self.digest(),
            }),
            Self::Missing => None,
        }
    }
}

impl Layout {
    /// The directory of the user's agents.
    fn agents(&self) -> Option<PathBuf> {
        Some(self.global.as_ref()?.parent()?.join("agents"))
    }

    /// Reads what is wanted.
    pub(super) fn read(&self, wanted: Wanted) -> Seen {
        let global = match &self.global {
            Some(path) => FileSeen::config(path),
            None => FileSeen::Missing,
        };
        let agents = self.agents().filter(|_| wanted == Wanted::Everything);
        let listed = agents.map_or(Ok(Vec::new()), |dir| list_operator_files(&dir, ".md"));
        let agents = listed.map_err(|error| crate::ask::describe(&error));
        let agents = agents.map(|paths| {
            let named = paths.into_iter().filter_map(|path| {
                let agent = path.file_stem()?.to_str()?.to_owned();
                Some((agent, FileSeen::front_matter(&path)))
            });
            named.collect()
        });
        let is_wanted = |directory: &&PathBuf| {
            let record = self.store.as_ref().map(|store| store.path_of(directory));
            // Who only asks has nothing to say about a project that nobody has trusted.
            wanted == Wanted::Everything
                || record.is_some_and(|path| look_at_operator_file(&path).is_there())
        };
        let project = match self.project.as_ref().filter(is_wanted) {
            Some(directory) => ProjectSeen::look(directory, self.store.as_ref()),
            None => ProjectSeen::Absent,
        };
        Seen {
            global,
            agents,
            project,
        }
    }

    /// The paths whose change means that everything is to be read again. `seen` says which files there are.
    pub(super) fn places(&self, seen: &Seen) -> Vec<PathBuf> {
        let mut places: Vec<PathBuf> = self.global.iter().cloned().collect();
        if let Some(agents) = self.agents() {
            let names = seen.agents.iter().flatten().map(|(agent, _)| agent);
            places.extend(names.map(|agent| agents.join(format!("{agent}.md"))));
            places.push(agents);
        }
        if let Some(directory) = &self.project {
            places.extend(project::places(directory));
            places.extend(
                seen.project
                    .files()
                    .into_iter()
                    .flat_map(ProjectFiles::paths),
            );
            places.extend(self.store.as_ref().map(|store| store.path_of(directory)));
        }
        places.sort();
        places.dedup();
        places
    }

    /// The directories in which such changes happen.
    pub(super) fn directories(&self) -> Vec<PathBuf> {
        let mut directories = Vec::new();
        if let Some(global) = &self.global {
            directories.extend(global.parent().map(Path::to_owned));
            directories.extend(self.agents());
        }
        if let Some(directory) = &self.project {
            let [_, _, agents, own, peers] = project::places(directory);
            directories.extend([agents, own, peers]);
            directories.extend(
                self.store
                    .as_ref()
                    .map(|store| store.directory().to_owned()),
            );
        }
        directories.sort();
        directories.dedup();
        directories
    }

    /// How the user's configuration looks from outside.
    pub(super) fn look_at_global(&self) -> Option<LookedAt> {
        self.global.as_deref().map(look_at_operator_file)
    }
}

impl Seen {
    /// Every file that was read.
    pub(super) fn files(&self) -> Vec<SourceFile> {
        let mut files: Vec<SourceFile> = self.global.file().into_iter().collect();
        files.extend(
            self.agents
                .iter()
                .flatten()
                .filter_map(|(_, seen)| seen.file()),
        );
        if let Some(project) = self.project.files() {
            files.extend(project.config.iter().filter_map(|file| file.seen.file()));
            files.extend(
                project
                    .agents
                    .iter()
                    .filter_map(|(_, file)| file.seen.file()),
            );
        }
        files
    }

    /// Says what is in force. `before` is what was, in a session that runs.
    pub(super) fn in_force(self, before: Option<&Sources>) -> InForce {
        let mut force = Forming {
            before,
            ..Forming::default()
        };
        force.take_global(self.global);
        match self.agents {
            Ok(agents) => force.take_agents(agents, AgentOwner::User),
            Err(text) => {
                force.breaks(text);
                force.keep_agents(AgentOwner::User);
            }
        }
        force.take_project(self.project);
        force.form()
    }
}

/// What is in force, as far as it is known.
#[derive(Default)]
struct Forming<'a> {
    before: Option<&'a Sources>,
    sources: Sources,
    broken: Vec<String>,
    untrusted: Option<String>,
    remarks: Vec<String>,
}

impl Forming<'_> {
    fn breaks(&mut self, text: String) {
        self.broken.push(text);
        self.sources.is_broken = true;
    }

    fn take_global(&mut self, seen: FileSeen<Config>) {
        let before = self.before.and_then(|before| before.global.clone());
        self.sources.global = match seen {
            FileSeen::Good { label, value, .. } => Some(Source {
                label,
                config: value,
            }),
            FileSeen::Missing => {
                if let Some(before) = &before {
                    self.breaks(format!("{} is gone", before.label));
                }
                before
            }
            FileSeen::Broken { text, .. } => {
                self.breaks(text);
                before
            }
        };
    }

    fn take_agents(&mut self, agents: Vec<(String, FileSeen<FrontMatter>)>, owner: AgentOwner) {
        let before: Vec<AgentSource> = self.agents_before(owner).cloned().collect();
        for (agent, seen) in agents {
            let known = before.iter().find(|known| known.agent == agent);
            let (label, front, trouble) = match seen {
                // It has gone since the directory was listed: the next look finds that.
                FileSeen::Missing => continue,
                FileSeen::Good { label, value, .. } => (label, Some(value), None),
                FileSeen::Broken { label, text, .. } => (
                    label,
                    known.and_then(|known| known.front.clone()),
                    Some(text),
                ),
            };
            self.put_agent(AgentSource {
                agent,
                owner,
                label,
                front,
                trouble,
            });
        }
        for known in before {
            let is_there = self
                .sources
                .agents
                .iter()
                .any(|now| now.owner == owner && now.agent == known.agent);
            let says_something = known
                .front
                .as_ref()
                .is_none_or(|front| front.permission.is_some());
            if !is_there && says_something {
                let text = format!("{} is gone", known.label);
                self.put_agent(AgentSource {
                    trouble: Some(text),
                    ..known
                });
            }
        }
    }

    fn put_agent(&mut self, source: AgentSource) {
        if let Some(trouble) = &source.trouble {
            let text = format!(
                "agent {} is allowed nothing by a rule: {trouble}",
                source.agent
            );
            self.broken.push(text);
        }
        self.sources.agents.push(source);
    }

    fn agents_before(&self, owner: AgentOwner) -> impl Iterator<Item = &AgentSource> {
        let before = self.before.into_iter().flat_map(|before| &before.agents);
        before.filter(move |agent| agent.owner == owner)
    }

    fn keep_agents(&mut self, owner: AgentOwner) {
        let before: Vec<AgentSource> = self.agents_before(owner).cloned().collect();
        self.sources.agents.extend(before);
    }

    fn take_project(&mut self, project: ProjectSeen) {
        match project {
            ProjectSeen::Absent => {}
            ProjectSeen::Untrusted(files) => {
                let directory = files.directory.display();
                self.remarks.push(format!(
                    "the project {directory} has a configuration that nobody has trusted, so nothing of it counts; \
                     `askrelay config trust {directory}` shows what it says"
                ));
            }
            ProjectSeen::Changed(files, what) => self.keep_project(&files, &what),
            ProjectSeen::Trusted(files) => {
                self.sources.project = match files.config.map(|config| config.seen) {
                    Some(FileSeen::Good { label, value, .. }) => Some(Source {
                        label,
                        config: value,
                    }),
                    Some(FileSeen::Broken { text, .. }) => {
                        self.breaks(text);
                        self.before.and_then(|before| before.project.clone())
                    }
                    Some(FileSeen::Missing) | None => None,
                };
                let agents = files.agents.into_iter();
                for (agent, file) in agents {
                    let (label, front, trouble) = match file.seen {
                        FileSeen::Missing => continue,
                        FileSeen::Good { label, value, .. } => (label, Some(value), None),
                        FileSeen::Broken { label, text, .. } => (label, None, Some(text)),
                    };
                    self.put_agent(AgentSource {
                        agent,
                        owner: AgentOwner::Project,
                        label,
                        front,
                        trouble,
                    });
                }
            }
        }
    }

    /// Whoever changed the files gains nothing by it, and nobody loses a deny: what was trusted holds as it was. Where nothing was in
    /// force before, nothing is now.
    fn keep_project(&mut self, files: &ProjectFiles, what: &str) {
        let directory = files.directory.display();
        self.sources.project = self.before.and_then(|before| before.project.clone());
        self.keep_agents(AgentOwner::Project);
        self.sources.without_programs_of_project = true;
        let has_held = self.sources.project.is_some()
            || self.agents_before(AgentOwner::Project).next().is_some();
        let holds = if has_held {
            "what was trusted holds as it was, without its programs"
        } else {
            "nothing of it counts"
        };
        self.untrusted = Some(format!(
            "the configuration of the project {directory} is not as it was trusted ({what}): {holds}; \
             `askrelay config trust {directory}` shows what it says now, and accepts it"
        ));
    }

    fn form(self) -> InForce {
        let Self {
            sources,
            mut broken,
            untrusted,
            remarks,
            ..
        } = self;
        let trouble = if broken.is_empty() {
            untrusted.map(Trouble::Untrusted)
        } else {
            broken.extend(untrusted);
            let more = broken.len().saturating_sub(MAX_NAMED);
            broken.truncate(MAX_NAMED);
            if more > 0 {
                broken.push(format!("and {more} more"));
            }
            Some(Trouble::Broken(broken.join("; ")))
        };
        InForce {
            sources,
            trouble,
            remarks,
        }
    }
}

impl InForce {
    /// Lays the layers over each other, with a remark about what does not count.
    pub(super) fn layered(&mut self) -> Layered {
        let layered = self.sources.layered();
        let label = self
            .sources
            .project
            .as_ref()
            .map(|project| project.label.as_str());
        for withheld in &layered.withheld {
            self.remarks
                .push(withheld_text(label.unwrap_or_default(), *withheld));
        }
        layered
    }

    /// The rules that hold.
    pub(super) fn policy(&self, layered: &Layered, home: Option<&str>) -> Policy {
        self.sources.policy(&layered.config, home)
    }
}

/// What is said of a key of a project that does not count.
pub(super) fn withheld_text(label: &str, withheld: Withheld) -> String {
    format!(
        "{label}: {:?} does not count: {}",
        withheld.key,
        withheld.why()
    )
}

//! The whole prompt of a child: its options, and what is looked up for it.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use super::super::env::Env;
use super::super::{Hinted, output};
use crate::identity::{
    AgentName, AssembleError, Body, ContextFile, Directories, Environment, Git, Inherited, Mode,
    Parts, Prompt, Strategy, inherit,
};
use crate::spool::{SubjectFile, canonical_directory, read_subject_file};

/// Most bytes of a file that goes into a prompt.
const MAX_PART_BYTES: usize = 4 << 20;
/// Most bytes of a file of version control that is looked at.
const MAX_GIT_BYTES: usize = 4 << 10;
/// Names of files with instructions for a project; the first that a directory has counts.
const CONTEXT_NAMES: [&str; 2] = ["AGENTS.md", "CLAUDE.md"];

#[derive(Debug, Default, clap::Args)]
pub(in super::super) struct Making {
    /// The agent's own prompt
    #[arg(long, value_name = "FILE")]
    body: Option<PathBuf>,
    /// How the agent's own prompt is put in: as it is, or in a section of instructions [default: replace]
    #[arg(long, value_name = "MODE", value_parser = ["replace", "append"], requires = "body")]
    mode: Option<String>,
    /// What is given is the parent's whole prompt, or the operator's own part of it [default: inherit]
    #[arg(long, value_name = "STRATEGY", value_parser = ["inherit", "portable"])]
    strategy: Option<String>,
    /// File with instructions for the project that the child works in, put in where it works elsewhere than its parent; may be given
    /// again [default: AGENTS.md or CLAUDE.md of each directory on the way to the child's]
    #[arg(long, value_name = "FILE")]
    context: Vec<PathBuf>,
    /// Put in no instructions for the project
    #[arg(long, conflicts_with = "context")]
    no_context: bool,
}

/// A prompt that was made, and how.
#[derive(Debug)]
pub(in super::super) struct Made {
    /// The prompt.
    pub(in super::super) prompt: Prompt,
    /// Name of the agent.
    pub(super) agent: String,
    /// Whether what was given was the parent's whole prompt.
    pub(super) is_inherited: bool,
    /// Whether anything in it showed that the host had assembled it for that directory.
    is_recognised: bool,
    /// Files that were put in.
    pub(super) context: Vec<PathBuf>,
}

impl Making {
    /// The first option that was given.
    pub(in super::super) fn first_given(&self) -> Option<&'static str> {
        [
            (self.body.is_some(), "--body"),
            (self.mode.is_some(), "--mode"),
            (self.strategy.is_some(), "--strategy"),
            (!self.context.is_empty(), "--context"),
            (self.no_context, "--no-context"),
        ]
        .into_iter()
        .find_map(|(given, name)| given.then_some(name))
    }

    /// Makes the prompt of the agent of this name.
    pub(in super::super) fn make(
        &self,
        env: &Env,
        agent: &str,
        parent_prompt: &[u8],
        directories: &Directories<'_>,
    ) -> anyhow::Result<Made> {
        let agent = AgentName::parse(agent).map_err(|wrong| {
            Hinted::usage(
                format!("{agent:?} cannot be the name of the agent: {wrong}"),
                "name it without quotation marks, angle brackets and line ends",
            )
        })?;
        let strategy = match self.strategy.as_deref() {
            Some("portable") => Strategy::Portable,
            Some(_) | None => Strategy::Inherit,
        };
        let read_part = |path: &Path| read(path, MAX_PART_BYTES);
        let body = self.body.as_deref().map(read_part).transpose()?;
        let mode = match self.mode.as_deref() {
            Some("append") => Mode::Append,
            Some(_) | None => Mode::Replace,
        };
        let child = absolute(env, directories.child)?;
        let inherited = Inherited {
            text: parent_prompt,
            strategy,
            directory: directories.parent,
        };
        let wants_context = inherited.wants_context(directories.child);
        if !wants_context && !self.context.is_empty() {
            output::warn(
                "the child works in its parent's directory, and has the project's instructions from it: --context is not used",
            );
        }
        let cwd = env.cwd().cloned().unwrap_or_default();
        let context = if self.no_context || !wants_context {
            Vec::new()
        } else if self.context.is_empty() {
            instructions_for(&child)
        } else {
            self.context
                .iter()
                .map(|path| {
                    Ok(ContextFile {
                        path: cwd.join(path).into_os_string().as_bytes().to_vec(),
                        content: read_part(path)?,
                    })
                })
                .collect::<anyhow::Result<_>>()?
        };
        let prompt = Prompt::assemble(&Parts {
            agent: &agent,
            inherited: Some(inherited),
            environment: Environment {
                directory: directories.child,
                git: git_of(&child),
                platform: platform(),
            },
            context: &context,
            body: body.as_deref().map(|text| Body { text, mode }),
        })
        .map_err(|error| {
            let hint = match &error {
                AssembleError::OtherAgent { .. } => {
                    "take the tag out of that text, or write it so that it is none"
                }
                AssembleError::Path(_) => "give the directory, or the file, another name",
            };
            Hinted::usage(format!("the prompt cannot be made: {error}"), hint)
        })?;
        let put_in = context.iter().take(prompt.context_files);
        let is_recognised = strategy == Strategy::Portable
            || parent_prompt.is_empty()
            || inherit(parent_prompt, directories).tail.is_some();
        Ok(Made {
            agent: agent.as_str().to_owned(),
            is_inherited: strategy == Strategy::Inherit,
            is_recognised,
            context: put_in
                .map(|file| PathBuf::from(OsStr::from_bytes(&file.path)))
                .collect(),
            prompt,
        })
    }
}

impl Made {
    /// Says what somebody should know who did not ask.
    pub(in super::super) fn warn(&self) {
        if let [first, more @ ..] = self.prompt.tags.as_slice() {
            let more = match more.len() {
                0 => String::new(),
                more => format!(" (and {more} more)"),
            };
            output::warn(&format!(
                "line {first} of the parent's prompt was a tag that names another agent, and was left out{more}"
            ));
        }
        if !self.is_recognised {
            output::warn(
                "nothing in the parent's prompt shows that its host assembled it for the directory of the parent, so all of it is \
                 inherited; --explain of `askrelay identity` says what was looked for",
            );
        }
        if self.prompt.is_generic {
            output::warn(
                "nothing was given to inherit, so the prompt begins with a few general words",
            );
        }
    }
}

/// Reads a file that the caller has named.
pub(in super::super) fn read(path: &Path, limit: usize) -> anyhow::Result<Vec<u8>> {
    let failed = |why: String| {
        Hinted::usage(
            format!("cannot read {}: {why}", path.display()),
            "check the path",
        )
    };
    match read_subject_file(path, limit) {
        SubjectFile::Content(bytes) => Ok(bytes),
        SubjectFile::Missing => Err(failed("there is no such file".to_owned())),
        SubjectFile::TooLarge => Err(failed(format!("it has more than {limit} bytes"))),
        SubjectFile::NotRegular => Err(failed("it is no regular file".to_owned())),
        SubjectFile::Failed(error) => Err(failed(error.to_string())),
    }
}

/// The directory that is meant, as the machine names it where it is there: what lies on the way to it is that of its own path, and not of
/// the detour by which it was named.
fn absolute(env: &Env, directory: &[u8]) -> anyhow::Result<PathBuf> {
    if directory.is_empty() {
        return Err(Hinted::usage(
            "the child's working directory is an empty text",
            "name it with --child-cwd",
        ));
    }
    let path = env
        .cwd()
        .cloned()
        .unwrap_or_default()
        .join(OsStr::from_bytes(directory));
    Ok(canonical_directory(&path).unwrap_or(path))
}

/// The instructions that apply in a directory: those of each directory on the way to it, outermost first.
fn instructions_for(directory: &Path) -> Vec<ContextFile> {
    let mut on_the_way: Vec<&Path> = directory.ancestors().collect();
    on_the_way.reverse();
    on_the_way
        .into_iter()
        .filter_map(|directory| {
            CONTEXT_NAMES.iter().find_map(|name| {
                let path = directory.join(name);
                match read_subject_file(&path, MAX_PART_BYTES) {
                    SubjectFile::Content(content) => Some(ContextFile {
                        path: path.into_os_string().as_bytes().to_vec(),
                        content,
                    }),
                    SubjectFile::Missing => None,
                    SubjectFile::TooLarge | SubjectFile::NotRegular | SubjectFile::Failed(_) => {
                        output::warn(&format!(
                            "{} cannot be read, and is left out of the prompt",
                            path.display()
                        ));
                        None
                    }
                }
            })
        })
        .collect()
}

/// What is checked out in a directory, as the files of the repository around it say.
fn git_of(directory: &Path) -> Git {
    let text = |path: &Path| match read_subject_file(path, MAX_GIT_BYTES) {
        SubjectFile::Content(bytes) => Some(String::from_utf8_lossy(&bytes).trim().to_owned()),
        SubjectFile::Missing
        | SubjectFile::TooLarge
        | SubjectFile::NotRegular
        | SubjectFile::Failed(_) => None,
    };
    let head = directory.ancestors().find_map(|above| {
        let git = above.join(".git");
        text(&git.join("HEAD")).or_else(|| {
            // A further work tree has a file that says where its own part of the repository is.
            let place = text(&git)?;
            text(&above.join(place.strip_prefix("gitdir: ")?).join("HEAD"))
        })
    });
    let Some(head) = head else {
        return Git::None;
    };
    let line = head.lines().next().unwrap_or_default();
    let is_hash = !line.is_empty() && line.bytes().all(|byte| byte.is_ascii_hexdigit());
    Git::Branch(match line.strip_prefix("ref: ") {
        // What a repository has here that keeps its references elsewhere.
        Some("refs/heads/.invalid") => "unknown".to_owned(),
        Some(reference) => {
            let name = reference.strip_prefix("refs/heads/");
            name.unwrap_or(reference).to_owned()
        }
        None if is_hash => format!(
            "none, detached at {}",
            line.chars().take(12).collect::<String>()
        ),
        None => "unknown".to_owned(),
    })
}

/// Name of the platform, as agents know it.
fn platform() -> &'static str {
    match std::env::consts::OS {
        "macos" => "darwin",
        other => other,
    }
}

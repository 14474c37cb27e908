//! Which lines of a configuration the doctor may run. What stands in a file of a project was written by whoever wrote the project,
//! and asking how things stand is no reason to start what they name.
//!
//! # Invariants
//!
//! * Only a line that is exactly ours runs: our program by its name, our arguments, and our end.
//! * The program is this very one, or one that nobody else can have put there.

use std::path::{Path, PathBuf};

use crate::cli::env::Env;
use crate::cli::install::hosts::on_path;
use crate::host::install::{Line, is_named_as_ours};
use crate::spool::{canonical_path, replaceable_by_others};

/// The program that a line starts, as its host would find it; `None` where it would find none.
pub(super) fn program_of(env: &Env, program: &str) -> Option<PathBuf> {
    if program.contains('/') {
        Some(PathBuf::from(program))
    } else {
        on_path(env, program).into_iter().next()
    }
}

/// The program, where the line may be run; else why it is not.
pub(super) fn permit(env: &Env, project: Option<&Path>, line: &Line) -> Result<PathBuf, String> {
    if !line.is_exact {
        return Err("it is not written as askrelay writes it".to_owned());
    }
    if !is_named_as_ours(&line.program) {
        return Err("its program is not called askrelay".to_owned());
    }
    let Some(program) = program_of(env, &line.program) else {
        return Err(format!("there is no {} on PATH", line.program));
    };
    if !program.is_absolute() {
        return Err("its program is no absolute path".to_owned());
    }
    let real = canonical_path(&program);
    let own = env.executable().and_then(|own| canonical_path(own));
    if real.is_some() && real == own {
        return Ok(program);
    }
    // Where somebody works in their home, what lies in it is theirs.
    let home = env.home();
    let project =
        project.filter(|project| home.as_ref().is_none_or(|home| !home.starts_with(project)));
    let is_within = |path: &Path| {
        project.is_some_and(|project| {
            path.starts_with(project)
                || canonical_path(project).is_some_and(|project| path.starts_with(project))
        })
    };
    if is_within(&program) || real.as_deref().is_some_and(is_within) {
        return Err("its program lies in the project".to_owned());
    }
    match replaceable_by_others(&program) {
        Some(part) => Err(format!("others may write {}", part.display())),
        None => Ok(program),
    }
}

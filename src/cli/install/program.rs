//! Under which path this program is written into the configuration of others.

use std::path::{Path, PathBuf};

use super::hosts::on_path;
use crate::cli::Hinted;
use crate::cli::env::Env;
use crate::host::install::is_named_as_ours;
use crate::presentation::text::visible;
use crate::spool::{canonical_path, is_program};

/// Directories that are emptied by themselves.
const PASSING: [&str; 4] = ["/tmp", "/var/tmp", "/dev/shm", "/run"];

/// The path of this program, and what somebody should know of it.
pub(in crate::cli) struct Program {
    pub(in crate::cli) path: String,
    pub(in crate::cli) notes: Vec<String>,
}

/// The program that was named, or this one: under the name by which it is found on the search path, which outlives an update, or
/// where it lies.
pub(in crate::cli) fn of(env: &Env, named: Option<&Path>) -> anyhow::Result<Program> {
    let path = match named {
        Some(path) => {
            let path = env
                .cwd()
                .map_or_else(|| path.to_owned(), |cwd| cwd.join(path));
            if !is_program(&path) {
                return Err(Hinted::usage(
                    format!("{} is no program", path.display()),
                    "name the file that is to be started, with --program",
                ));
            }
            path
        }
        None => own(env)?,
    };
    let Some(text) = path
        .to_str()
        .filter(|text| !text.chars().any(char::is_control))
    else {
        return Err(Hinted::usage(
            format!(
                "the path {} cannot be written into a configuration",
                path.display()
            ),
            "install askrelay under a path that is plain text",
        ));
    };
    if !is_named_as_ours(text) {
        return Err(Hinted::usage(
            format!("{} is not called askrelay", path.display()),
            "a hook is known again by the name of its program: name a link to it that is called askrelay, with --program",
        ));
    }
    Ok(Program {
        path: text.to_owned(),
        notes: notes(&path, env),
    })
}

fn own(env: &Env) -> anyhow::Result<PathBuf> {
    let gone = || {
        Hinted::usage(
            "this program does not know where it lies",
            "name it with --program",
        )
    };
    let own = env.executable().ok_or_else(gone)?;
    if !is_program(own) {
        return Err(gone());
    }
    let real = canonical_path(own);
    let found = on_path(env, "askrelay");
    let same = found.into_iter().find(|path| canonical_path(path) == real);
    Ok(same.unwrap_or_else(|| own.clone()))
}

fn notes(path: &Path, env: &Env) -> Vec<String> {
    let shown = path.to_string_lossy();
    let shown = visible(&shown);
    let is_build = path.components().any(|part| part.as_os_str() == "target");
    let passing = PASSING
        .iter()
        .map(PathBuf::from)
        .chain(env.own_path("TMPDIR"));
    let is_passing = passing
        .into_iter()
        .any(|directory| path.starts_with(directory));
    let mut notes = Vec::new();
    if is_build {
        notes.push(format!(
            "{shown} lies in a build directory: `cargo clean` takes the gate away. Install it with `cargo install`, and repeat this"
        ));
    } else if is_passing {
        notes.push(format!(
            "{shown} lies in a directory that is emptied by itself: put it somewhere that stays, and repeat this"
        ));
    }
    notes
}

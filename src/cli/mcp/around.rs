//! What stands around Claude Code's forms: whether its settings have others answer them, and how large its window is.
//!
//! A hook counts from the moment on in which it stands in a file. So the files are looked at when a form is put, and when it is
//! answered. That is a hurdle and no boundary: plugins have hooks, too, and are not looked at, and a file can be written and put back
//! between the answer and the look at it.

use std::path::Path;

use rustix::fs::{Mode, OFlags};

use crate::cli::env::Env;
use crate::cli::install::hosts::layers;
use crate::host::elicitation::{self, FormHooks};
use crate::host::install::{Host, MAX_HOST_CONFIG_BYTES};
use crate::presentation::form::Room;
use crate::presentation::text::visible;
use crate::prompt::{Around, LookAround};
use crate::spool::ForeignFile;
use crate::wire::Digest;

/// What is looked at before each form and after each reply.
pub(super) fn looking(env: Env) -> LookAround {
    Box::new(move || look(&env))
}

fn look(env: &Env) -> Around {
    // The windows of an agent and of its servers are the same, where a server has one.
    let small = Room {
        rows: 1,
        columns: 1,
    };
    match elicitation::room_in(window()) {
        Some(room) => Around {
            room,
            settings: settings(env),
        },
        None => Around {
            room: small,
            settings: Err("the window of Claude Code is too small for a form: it takes 60 columns and 20 rows".to_owned()),
        },
    }
}

/// Columns and rows of the controlling terminal.
fn window() -> Option<(u16, u16)> {
    let flags = OFlags::RDONLY | OFlags::NOCTTY | OFlags::CLOEXEC;
    let terminal = rustix::fs::open("/dev/tty", flags, Mode::empty()).ok()?;
    let size = rustix::termios::tcgetwinsize(terminal).ok()?;
    (size.ws_col > 0 && size.ws_row > 0).then_some((size.ws_col, size.ws_row))
}

/// The state of all files of settings, or why no form can be answered.
fn settings(env: &Env) -> Result<Digest, String> {
    let project = env
        .cwd()
        .ok_or("the project whose settings Claude Code reads is not known")?;
    let mut state = String::new();
    for layer in layers(env, Host::ClaudeCode, Some(project)) {
        state.push_str(&stamp(&layer.path)?);
    }
    Ok(Digest::of(state.as_bytes()))
}

/// Which file it is, and how it was when it was changed last.
fn stamp(path: &Path) -> Result<String, String> {
    let name = path.to_string_lossy();
    let name = visible(&name);
    let file = ForeignFile::read(path, MAX_HOST_CONFIG_BYTES)
        .map_err(|error| format!("settings of Claude Code cannot be read: {error}"))?;
    match file
        .bytes()
        .map_or(FormHooks::Absent, elicitation::form_hooks)
    {
        FormHooks::Absent => Ok(format!("{name:?} {:?}\n", file.stamp())),
        FormHooks::Present(hook) => Err(format!(
            "{name} has a hook for {hook}, which answers forms of Claude Code"
        )),
        FormHooks::Unreadable => Err(format!(
            "{name}, settings of Claude Code, cannot be read: a hook in it could answer forms"
        )),
    }
}

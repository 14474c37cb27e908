//! Ending this process on purpose at a named step, so that tests can look at what a crash leaves behind; or failing at one, so
//! that they can look at what a fault of the program costs.
//!
//! A debug build does so where it was told to; a release build has no such thing in it. Steps are named after the directory
//! and what has just happened to a document there, such as `responses/renamed`; only names that readers look at count.

#[cfg(debug_assertions)]
use std::path::Path;
#[cfg(debug_assertions)]
use std::sync::OnceLock;

#[cfg(debug_assertions)]
static STEP: OnceLock<String> = OnceLock::new();

/// Has this process end at `step`.
#[cfg(debug_assertions)]
pub fn arm(step: String) {
    // A second call changes nothing: a process crashes once.
    let _armed = STEP.set(step);
}

/// Ends this process if `step` is the one.
#[cfg(debug_assertions)]
pub(crate) fn at(step: &str) {
    if STEP.get().is_some_and(|armed| armed == step) {
        std::process::abort();
    }
}

/// Fails if `step` of the ask with this id is the one.
#[cfg(debug_assertions)]
pub(crate) fn strike(step: &str, id: &str) {
    let armed = STEP.get().and_then(|armed| armed.strip_prefix(step));
    let struck = armed.is_some_and(|armed| armed.strip_prefix(':') == Some(id));
    assert!(!struck, "struck while it is {step}");
}

/// Never comes back if `step` of the ask with this id is the one. What it waits for is a thread of that name.
#[cfg(debug_assertions)]
pub(crate) fn stall(step: &str, id: &str) {
    let armed = STEP.get().and_then(|armed| armed.strip_prefix(step));
    if armed.is_some_and(|armed| armed.strip_prefix(':') == Some(id)) {
        let stalled = std::thread::Builder::new().name(step.to_owned());
        let stalled = stalled.spawn(|| {
            loop {
                std::thread::park();
            }
        });
        let _never = stalled.map(std::thread::JoinHandle::join);
    }
}

/// Ends this process if what has happened to `name` in `directory` is the step.
#[cfg(debug_assertions)]
pub(super) fn at_file(directory: &Path, name: &[u8], done: &str) {
    if STEP.get().is_some() && name.ends_with(b".json") {
        let directory = directory.file_name().unwrap_or_default();
        at(&format!("{}/{done}", directory.to_string_lossy()));
    }
}

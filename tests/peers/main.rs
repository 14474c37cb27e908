//! The other side is the real thing: the real peer, and the agents that people run.
//!
//! The peer's subagent asks our server, our child asks its server, and both at once. How command lines are read is held against the
//! peer's own reading, and against bash; how rules are judged against its judge. The agents, each in the version that is pinned, run
//! the hook as it is installed, on a model of ours.
//!
//! Runs by name: `tests/peers/run` installs all of it and runs `cargo test --test peers`; without that, tests fail and say so.
//!
//! The peer speaks the oldest generation, so two things hold all through here. It publishes no heartbeat, which is why our
//! side is told `--peer g1`. And its requests state no `accessIntent`: what a rule could be held against is then only the
//! text made for display, which the child chose freely, so no rule of ours answers such a request. It is asked.
#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test reads files and clocks itself, and fails by panicking"
)]

mod acp;
mod agents;
mod app_server;
mod bash;
mod claude_code;
mod cleanup;
mod codex;
mod doctor;
mod drivers;
mod forms;
mod gemini;
mod inspection;
mod judge;
mod matrix;
mod model;
mod opencode;
mod our_children;
mod pi;
mod prompt_tool;
mod relay;
mod seen;
mod shell;
mod shims;
mod support;
mod their_children;

// Shared with the tests of the program itself.
#[path = "../it/support/picture.rs"]
mod picture;
#[path = "../it/support/screen.rs"]
#[expect(dead_code, reason = "shared")]
mod screen;
#[path = "../it/support/spool.rs"]
#[expect(dead_code, reason = "only its waiting is used")]
mod spool;

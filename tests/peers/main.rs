//! The other side is the real peer: its subagent asks our server, our child asks its server, and both at once.
//!
//! How command lines are read is held against the peer's own reading, and against bash; how rules are judged against its judge.
//!
//! Runs by name, `cargo test --test peers`, after `tests/peers/setup.sh`; without the drivers every test fails and says so.
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

mod bash;
mod cleanup;
mod drivers;
mod inspection;
mod judge;
mod our_children;
mod relay;
mod shell;
mod support;
mod their_children;

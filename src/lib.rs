//! askrelay forwards permission asks through the file system.
//!
//! A subagent in another process that wants to run a command, edit a file or call a tool has no terminal to ask on. It writes
//! a request file into a spool that its parent session watches; the parent decides by recorded policy, by a chain of
//! authorizers, or by asking the person in front of it; a response file carries the answer back, together with who decided.
//!
//! ```text
//! child ── ask ──▶ spool/sessions/<parent>/requests/<id>.json ──▶ serve ──▶ policy ─▶ person
//!   ▲                                                               │
//!   └──── verified ◀── spool/sessions/<parent>/responses/<id>.json ◀┘      review log
//! ```
//!
//! # Rings
//!
//! Imports point inward only; a test reads the `use` lines.
//!
//! | ring | modules | job |
//! |---|---|---|
//! | 0 | [`wire`], [`policy`], [`presentation`], [`shell`], [`identity`] | values and rules: no I/O, no clock, no runtime |
//! | 1 | [`spool`], [`audit`], [`process`], [`clock`] | the machine: files, locks, watches, processes, time |
//! | 2 | [`ask`], [`serve`], [`prompt`], [`program`], [`host`] | the two sides, the person, the operator's programs, and the agents' own languages |
//! | 3 | `cli` | arguments, environment, output |
//!
//! # Invariants
//!
//! 1. Silence, a crash, a late answer, an unreadable file, a mismatch: none of them is ever an approval.
//! 2. A decision names its decider at the site that decides; it is a required field.
//! 3. What a person saw is what the child asked: a decision is bound to the digest of the exact request bytes.
//! 4. The payload is complete; only a renderer leaves anything out.
//! 5. One bad file never stops the drain; one slow person never delays an answer that policy can give.
//! 6. A person is not asked twice for the same request.
//! 7. Only the serving session writes responses; only the requester consumes them; each deletion has one owner.
//! 8. Times from another process are shown, never trusted.
//! 9. Nothing of an ask reaches a log, a terminal or a model unescaped.

pub mod ask;
pub mod audit;
pub mod cli;
pub mod clock;
pub mod host;
pub mod identity;
pub mod policy;
pub mod presentation;
pub mod process;
pub mod program;
pub mod prompt;
pub mod serve;
pub mod shell;
pub mod spool;
pub mod wire;

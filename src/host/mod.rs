//! The agents that people run, as far as askrelay speaks their language: text in, values out; values in, text out.
//!
//! One file for each agent. Here stands what is common to them: a call of a tool as its host states it ([`ToolCall`]), and what of
//! it is asked ([`Asked`]). Nothing here opens a file, reads the environment or waits.
//!
//! # Invariants
//!
//! * What a host says that is not understood is never taken for something harmless: a tool that nobody knows is asked about by its
//!   name, with its whole input as evidence.
//! * A name of the host is mapped to a surface of the rules only where its input has what that surface is about.

pub mod acp;
mod call;
mod claude_code;
mod codex;
pub mod elicitation;
mod gemini;
pub mod hook;
pub mod install;
pub mod lines;
pub mod mcp;
mod opencode;
mod opened;
mod pi;
pub mod shims;
mod suggestion;

pub use call::{Asked, Subagent, ToolCall, agent_sessions};

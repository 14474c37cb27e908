//! The agents that people run, one room for each: what they send as values, and decisions as what they take.
//!
//! Text goes in and values come out, or the other way round. Nothing here opens a file, starts a process, waits or decides.

pub mod acp;
pub mod lines;
pub mod mcp;

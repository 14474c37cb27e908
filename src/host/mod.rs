//! The agents that people run: what each of them says to a hook, and what stands in their configurations.

pub mod install;

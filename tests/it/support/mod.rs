//! What several tests need, and no test of its own but for the tools themselves.

pub(crate) mod chain;
pub(crate) mod config;
pub(crate) mod fixtures;
pub(crate) mod grants;
pub(crate) mod hostile;
pub(crate) mod judges;
pub(crate) mod picture;
pub(crate) mod processes;
pub(crate) mod rust;
pub(crate) mod schema;
pub(crate) mod screen;
pub(crate) mod spool;

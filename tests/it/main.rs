//! One integration binary: one link, one list.
//!
//! Each module begins with a sentence that says what belongs there; a test in `rings` fails on a file that is missing here.

mod rings;
mod support;
mod wire_docs;
mod wire_fixtures;

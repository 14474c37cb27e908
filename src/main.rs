//! The `askrelay` program.

fn main() {}

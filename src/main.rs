//! The `askrelay` program: everything is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    askrelay::cli::run()
}

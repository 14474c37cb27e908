//! `askrelay policy`: what the rules would say, and which rules the log suggests. It asks nobody and changes nothing.

mod suggest;
mod test;

use super::PlaceArgs;
use super::env::Env;
use super::exit::Exit;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    command: Sub,
}

#[derive(Debug, clap::Subcommand)]
enum Sub {
    /// Judge a command, a path, any value or a recorded request, and tell every step
    Test(test::Args),
    /// Propose rules for what a person has approved again and again, as a diff that nobody applies
    Suggest(suggest::Args),
}

pub(super) fn run(env: &Env, place_args: &PlaceArgs, args: &Args) -> anyhow::Result<Exit> {
    match &args.command {
        Sub::Test(args) => test::run(env, place_args, args),
        Sub::Suggest(args) => suggest::run(env, place_args, args),
    }
}

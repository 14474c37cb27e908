//! `askrelay config`: whether the configuration can be used, what of it holds and where it comes from, and which projects count.

mod check;
mod show;
mod trust;

use super::PlaceArgs;
use super::env::Env;
use super::exit::Exit;
use super::place::Place;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    command: Sub,
}

#[derive(Debug, clap::Subcommand)]
enum Sub {
    /// Say everything that is wrong with the configuration
    Check(check::Args),
    /// Show what holds, and where each value comes from
    Show(show::Args),
    /// Show what the configuration of a project says, and have it count as it is now
    Trust(trust::Args),
}

pub(super) fn run(env: &Env, place_args: &PlaceArgs, args: &Args) -> anyhow::Result<Exit> {
    let place = Place::new(env, place_args);
    match &args.command {
        Sub::Check(args) => check::run(&place, args),
        Sub::Show(args) => show::run(env, &place, args),
        Sub::Trust(args) => trust::run(&place, args),
    }
}

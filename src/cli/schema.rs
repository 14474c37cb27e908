//! `askrelay schema NAME`.

use super::exit::Exit;
use super::output::Out;
use crate::wire::SchemaName;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Which document
    #[arg(value_parser = clap::builder::PossibleValuesParser::new(SchemaName::names()))]
    name: String,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    let Some(schema) = SchemaName::from_name(&args.name) else {
        return Ok(Exit::Usage);
    };
    let mut out = Out::stdout();
    out.line(schema.text().trim_end())?;
    out.flush()?;
    Ok(Exit::Ok)
}

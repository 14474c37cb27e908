//! `askrelay schema NAME`.

use super::exit::Exit;
use super::output::Out;
use crate::policy::CONFIG_SCHEMA;
use crate::wire::SchemaName;

/// The configuration, which is no document of the wire.
const CONFIG: &str = "config";

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Which document
    #[arg(value_parser = clap::builder::PossibleValuesParser::new(
        SchemaName::names().into_iter().chain([CONFIG])
    ))]
    name: String,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    let text = if args.name == CONFIG {
        CONFIG_SCHEMA
    } else {
        let Some(schema) = SchemaName::from_name(&args.name) else {
            return Ok(Exit::Usage);
        };
        schema.text()
    };
    let mut out = Out::stdout();
    out.line(text.trim_end())?;
    out.flush()?;
    Ok(Exit::Ok)
}

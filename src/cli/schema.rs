//! `askrelay schema NAME`.

use super::exit::Exit;
use super::output::Out;
use crate::identity::SCHEMAS;
use crate::policy::CONFIG_SCHEMA;
use crate::wire::SchemaName;

/// What is no document of the wire.
const OTHERS: [(&str, &str); 3] = {
    let [identity, child_prompt] = SCHEMAS;
    [("config", CONFIG_SCHEMA), identity, child_prompt]
};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Which document
    #[arg(value_parser = clap::builder::PossibleValuesParser::new(
        SchemaName::names().into_iter().chain(OTHERS.map(|(name, _)| name))
    ))]
    name: String,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    let other = OTHERS
        .into_iter()
        .find_map(|(name, text)| (name == args.name).then_some(text));
    let of_wire = || Some(SchemaName::from_name(&args.name)?.text());
    let Some(text) = other.or_else(of_wire) else {
        return Ok(Exit::Usage);
    };
    let mut out = Out::stdout();
    out.line(text.trim_end())?;
    out.flush()?;
    Ok(Exit::Ok)
}

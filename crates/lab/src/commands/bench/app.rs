//! `wattline bench app`: the cost of an application on top of plain IPv4 forwarding.

use super::pipeline::failed;
use crate::commands::page_file::PageFile;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use std::path::PathBuf;
use wattline::exit::ExitError;
use wattline_bench::app::{self, Direction};
use wattline_dataplane::frame::BATCH_MAX;
use wattline_ipsec::esp::algorithm::Algorithm;

/// Flow records by their name in the PowerSave paper.
const FLOW_RECORDS: &str = "netflow";
const FLOW_RECORDS_ALIASES: [&str; 2] = ["flow_records", "flow-records"];

/// Application, and the load for it.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Application.
    #[arg(value_parser = applications())]
    application: String,
    /// File with one prefix per line; the rest of a line and IPv6 are ignored. By default, sixteen
    /// prefixes cover all addresses.
    #[arg(long, value_name = "FILE")]
    routes: Option<PathBuf>,
    /// Also measure with the packets of these captures, separated by commas.
    #[arg(long, value_name = "FILE", value_delimiter = ',')]
    capture: Vec<PathBuf>,
    /// Number of active flows.
    #[arg(long, value_name = "NUMBER", default_value_t = 1_000_000,
          value_parser = clap::value_parser!(u32).range(1..=1 << 24))]
    flows: u32,
    /// Frames per batch.
    #[arg(long, default_value_t = BATCH_MAX as u16,
          value_parser = clap::value_parser!(u16).range(1..=BATCH_MAX as i64))]
    batch: u16,
    /// Pairs of measurements, with and without the application; the median counts.
    #[arg(long, default_value_t = 31, value_parser = clap::value_parser!(u16).range(1..=1000))]
    repeats: u16,
    /// Algorithm of `ipsec`.
    #[arg(long, default_value = Algorithm::Aes128Gcm.name(),
          value_parser = clap::builder::PossibleValuesParser::new(Algorithm::ALL.map(Algorithm::name)))]
    algorithm: String,
    /// Direction of `ipsec`; both by default.
    #[arg(long, value_parser = clap::builder::PossibleValuesParser::new(Direction::ALL.map(Direction::name)))]
    direction: Option<String>,
    /// Also measure the cryptography of Intel's ipsec-mb, by this harness (see bench/peers).
    #[arg(long, value_name = "PROGRAM", num_args = 0..=1,
          default_missing_value = "target/peers/ipsec-mb")]
    peer: Option<PathBuf>,
    #[command(flatten)]
    page: PageFile,
}

/// Returns a parser of application names. `[flow_records]` has two aliases, its names in
/// configuration and documentation.
fn applications() -> impl TypedValueParser<Value = String> {
    let values = app::names().map(|name| match name {
        FLOW_RECORDS => PossibleValue::new(name).aliases(FLOW_RECORDS_ALIASES),
        _ => PossibleValue::new(name),
    });
    // clap returns the typed text, which may be an alias.
    PossibleValuesParser::new(values).map(|typed| {
        if FLOW_RECORDS_ALIASES.contains(&typed.as_str()) { FLOW_RECORDS.to_owned() } else { typed }
    })
}

/// Runs the command.
pub fn run(args: &Args, json: bool) -> Result<(), ExitError> {
    args.page.check()?;
    let report = app::run(&app::Args {
        application: args.application.clone(),
        routes: args.routes.clone(),
        captures: args.capture.clone(),
        flows: args.flows as usize,
        batch: args.batch.into(),
        repeats: args.repeats.into(),
        algorithm: args.algorithm.clone(),
        peer: args.peer.clone(),
        directions: match args.direction.as_deref().and_then(Direction::named) {
            Some(direction) => vec![direction],
            None => Direction::ALL.to_vec(),
        },
    })
    .map_err(failed)?;
    args.page.show(app::page(&report), &report, json)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    #[test]
    fn flow_records_are_netflow() {
        for name in ["netflow", "flow_records", "flow-records"] {
            let line = Line::try_parse_from(["app", name]).map_err(|error| error.to_string());
            assert_eq!(line.map(|it| it.args.application), Ok("netflow".to_owned()), "{name}");
        }
        assert!(Line::try_parse_from(["app", "flow"]).is_err());
    }
}

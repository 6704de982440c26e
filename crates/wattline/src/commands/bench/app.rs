//! `wattline bench app`: what an application costs on top of plain IPv4 forwarding.

use super::pipeline::failed;
use crate::exit::ExitError;
use crate::output;
use std::io::Write;
use std::path::PathBuf;
use wattline_dataplane::apps::esp::algorithm::Algorithm;
use wattline_dataplane::frame::BATCH_MAX;
use wattline_lab::bench::app::{self, Report};

/// Which application, and on what.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Which application.
    #[arg(value_parser = clap::builder::PossibleValuesParser::new(app::names()))]
    application: String,
    /// A prefix per line; what follows on a line is ignored, IPv6 too. Without it, sixteen
    /// prefixes hold all addresses.
    #[arg(long, value_name = "FILE")]
    routes: Option<PathBuf>,
    /// Measure on the packets of this capture too.
    #[arg(long, value_name = "FILE")]
    capture: Option<PathBuf>,
    /// Flows that are alive.
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
    /// What `ipsec` protects packets with.
    #[arg(long, default_value = Algorithm::Aes128Gcm.name(),
          value_parser = clap::builder::PossibleValuesParser::new(Algorithm::ALL.map(Algorithm::name)))]
    algorithm: String,
}

/// Runs the command.
pub fn run(args: &Args, json: bool) -> Result<(), ExitError> {
    let report = app::run(&app::Args {
        application: args.application.clone(),
        routes: args.routes.clone(),
        capture: args.capture.clone(),
        flows: args.flows as usize,
        batch: args.batch.into(),
        repeats: args.repeats.into(),
        algorithm: args.algorithm.clone(),
    })
    .map_err(failed)?;
    output::print(&report, json, table)
}

fn table(out: &mut impl Write, report: &Report) -> std::io::Result<()> {
    writeln!(
        out,
        "{}, {} flows, {} routes, batches of {}, median of {}",
        report.application, report.flows, report.routes, report.batch, report.repeats
    )?;
    let head = ["ipv4 cycles", "with it", "added", "quartiles", "added ns", "cycles/B"];
    write!(out, "{:20}{:>8}", "packets", "bytes")?;
    head.iter().try_for_each(|name| write!(out, "{name:>16}"))?;
    writeln!(out)?;
    for row in &report.workloads {
        let plain = &row.ipv4;
        let cycles = plain.cycles_per_packet.median;
        write!(out, "{:20}{:8.0}{cycles:16.1}", row.name, row.packet_size_bytes)?;
        let per_byte = match &row.with_application {
            None => {
                write!(out, "{0:>16}{0:>16}{0:>16}{0:>16}", "-")?;
                plain.cycles_per_byte
            }
            Some(with) => {
                let added = with.added_cycles_per_packet;
                let quartiles =
                    format!("{:.1} to {:.1}", added.lower_quartile, added.upper_quartile);
                write!(
                    out,
                    "{:16.1}{:16.1}{quartiles:>16}{:16.1}",
                    with.cost.cycles_per_packet.median,
                    added.median,
                    with.added_nanoseconds_per_packet
                )?;
                with.cost.cycles_per_byte
            }
        };
        writeln!(out, "{per_byte:16.3}")?;
    }
    for row in &report.workloads {
        if let Some(with) = &row.with_application {
            writeln!(out, "{}: {}", row.name, with.counted)?;
        }
    }
    writeln!(out, "{}", report.timed)?;
    if report.calibration.disturbed {
        writeln!(out, "disturbed: the machine changed speed meanwhile; repeat for firm figures")?;
    }
    Ok(())
}

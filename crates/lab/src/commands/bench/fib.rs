//! `wattline bench fib`: longest-prefix match over a table of the user's.

use super::page::PageArgs;
use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use wattline::exit::ExitError;
use wattline::output::note;
use wattline_bench::fib::{self, Error, Lookups, Options, Report};
use wattline_fib::SimdLevel;
use wattline_fib::routes_file::RoutesFileError;

/// Table, and its competitors.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// File with one prefix per line, optionally followed by a next hop; # begins a comment.
    #[arg(long, value_name = "FILE")]
    routes: PathBuf,
    /// Measure DPDK's rte_fib in the same run, by this harness (see bench/peers).
    #[arg(
        long,
        value_name = "PROGRAM",
        num_args = 0..=1,
        default_missing_value = "target/peers/dpdk-fib"
    )]
    peer: Option<PathBuf>,
    /// Passes over each set of addresses.
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u16).range(1..=1000))]
    repeats: u16,
    /// Look up with this kernel instead of the best one for this processor.
    #[arg(long, value_parser = kernel)]
    kernel: Option<SimdLevel>,
    #[command(flatten)]
    page: PageArgs,
}

fn kernel(name: &str) -> Result<SimdLevel, String> {
    let names = SimdLevel::ALL.map(SimdLevel::name).join(" or ");
    let found = SimdLevel::ALL.into_iter().find(|kernel| kernel.name() == name);
    found.ok_or_else(|| format!("{names} is allowed"))
}

/// Runs the command.
pub fn run(args: &Args, json: bool) -> Result<(), ExitError> {
    args.page.check()?;
    let options = Options {
        routes: args.routes.clone(),
        repeats: args.repeats.into(),
        peer: args.peer.clone(),
        level: args.kernel,
    };
    let show_progress = std::io::stderr().is_terminal();
    let report = fib::run(&options, |step| {
        if show_progress {
            note!("{step} ...");
        }
    })
    .map_err(|error| {
        let code = match &error {
            Error::Routes(RoutesFileError::Unreadable { .. }) => ExitError::NO_INPUT,
            Error::Routes(_) | Error::Empty(_) | Error::Table(_) => ExitError::DATA,
            Error::Peer { .. } | Error::SimdLevel(_) => ExitError::UNAVAILABLE,
            Error::Zipf(_) | Error::Write { .. } => ExitError::IO,
        };
        ExitError::new(code, error)
    })?;
    args.page.write_and_print(fib::html, &report, json, table)
}

fn table(out: &mut impl Write, report: &Report) -> std::io::Result<()> {
    writeln!(
        out,
        "{:8}{:10}{:>12}{:>16}{:>16}{:>16}{:>9}",
        "family",
        "addresses",
        "Mlookups/s",
        "quartiles",
        "cycles/lookup",
        "DPDK Mlookups/s",
        "ratio"
    )?;
    for result in &report.results {
        row(out, result)?;
    }
    if let Some(result) = report.results.first() {
        writeln!(out, "kernel: {}", result.kernel)?;
    }
    for table in &report.tables {
        writeln!(
            out,
            "{}: {} prefixes, built in {:.3} s, {:.1} MiB, {:.0} updates/s while looking up \
             ({} measured)",
            table.family.name(),
            table.prefixes,
            table.build_seconds,
            table.memory_bytes as f64 / f64::from(1 << 20),
            table.updates.updates_per_second,
            table.updates.updates,
        )?;
        if let (Some(resident), Some(huge)) = (table.resident_bytes, table.huge_page_bytes) {
            let mib = |bytes: usize| bytes as f64 / f64::from(1 << 20);
            let (resident, huge) = (mib(resident), mib(huge));
            writeln!(out, "  lookups read {resident:.1} MiB, {huge:.1} of them in huge pages")?;
        }
    }
    if report.disturbed {
        writeln!(out, "disturbed: the machine changed speed meanwhile; repeat for firm figures")?;
    }
    Ok(())
}

fn row(out: &mut impl Write, result: &Lookups) -> std::io::Result<()> {
    let spread = result.lookups_per_second_spread;
    let quartiles =
        format!("{:.1}-{:.1}", spread.lower_quartile / 1e6, spread.upper_quartile / 1e6);
    write!(
        out,
        "{:8}{:10}{:12.1}{quartiles:>16}{:16.1}",
        result.family.name(),
        result.addresses.name(),
        result.lookups_per_second / 1e6,
        result.cycles_per_lookup,
    )?;
    for peer in &result.peers {
        let rate = format!("{} {:.1}", peer.variant.words(), peer.lookups_per_second / 1e6);
        write!(out, "{rate:>16}{:8.2}x", peer.ratio)?;
        if !peer.agrees {
            write!(out, " (disagrees)")?;
        }
    }
    writeln!(out)
}

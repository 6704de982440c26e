//! `wattline receive`: the receive path of a host, after Liao and Bhuyan (2012).

mod outcome;
mod page;

use super::server_errors;
use crate::commands::page_file::PageFile;
use outcome::{Misses, Received, Simulated};
use wattline::exit::ExitError;
use wattline_server::ComponentFile;
use wattline_study::receive::proposals::Proposal;
use wattline_study::receive::{Calibration, Data, Outcome, Phase, ReceivePath};
use wattline_units::{BitsPerSecond, Provenance};

/// The measured host with the watts.
const HOST: &str = "liao-2011-host";

/// Sizes of the path; the defaults are those of the paper's server with one core.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Busy receive queues, 1 to 64.
    #[arg(long, default_value_t = ReceivePath::default().queues)]
    queues: usize,
    /// Descriptors of each queue, 1 to 4096.
    #[arg(long, default_value_t = ReceivePath::default().ring)]
    ring: usize,
    /// Cores that share the last-level cache and the queues, 1 to 8.
    #[arg(long, default_value_t = ReceivePath::default().cores)]
    cores: usize,
    /// TCP connections, 1 to 4096.
    #[arg(long, default_value_t = ReceivePath::default().connections)]
    connections: usize,
    /// Packets per interrupt, at most a ring.
    #[arg(long, default_value_t = ReceivePath::default().batch)]
    batch: usize,
    /// Most packets of a chain (large receive offload), 1 to 64.
    #[arg(long, default_value_t = ReceivePath::default().chain)]
    chain: usize,
    /// Bytes of each read of the application, 1 to 1048576.
    #[arg(long, default_value_t = ReceivePath::default().io_bytes)]
    io_bytes: u32,
    /// Bytes that stand in each socket, 0 to 4194304.
    #[arg(long, default_value_t = ReceivePath::default().window_bytes)]
    window_bytes: u32,
    /// Size of the shared last-level cache.
    #[arg(long, default_value_t = ReceivePath::default().llc_bytes)]
    llc_bytes: u64,
    /// Ways of the last-level cache.
    #[arg(long, default_value_t = ReceivePath::default().llc_ways)]
    llc_ways: usize,
    /// Proposals of the paper, separated by commas, or `all`.
    #[arg(long, default_value = "none", value_delimiter = ',', value_parser = proposals)]
    proposal: Vec<Vec<Proposal>>,
    /// Goodput, for cores and watts.
    #[arg(long, default_value = "9.49Gbit/s")]
    rate: BitsPerSecond,
    /// Simulated packets, after those that warm the caches.
    #[arg(long, default_value_t = 60_000, value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    packets: u64,
    /// Seed of the sequence of queues.
    #[arg(long, default_value_t = ReceivePath::default().seed)]
    seed: u64,
    #[command(flatten)]
    page: PageFile,
}

fn proposals(word: &str) -> Result<Vec<Proposal>, String> {
    if word == "all" {
        return Ok(Proposal::ALL.to_vec());
    }
    let found = Proposal::ALL.into_iter().find(|proposal| proposal.word() == word);
    found.map(|proposal| vec![proposal]).ok_or_else(|| {
        let words: Vec<&str> = Proposal::ALL.into_iter().map(Proposal::word).collect();
        format!("allowed: {}, all", words.join(", "))
    })
}

/// Runs the command.
pub fn run(args: &Args, json: bool) -> Result<(), ExitError> {
    args.page.check()?;
    let host = ComponentFile::load(HOST).map_err(server_errors::config_error)?;
    let refused = |error| ExitError::new(ExitError::USAGE, error);
    let lacking =
        || ExitError::new(ExitError::CONFIG, format!("{HOST}: no power of a receiving host"));
    let calibration =
        Calibration::new(&host, args.packets).map_err(refused)?.ok_or_else(lacking)?;
    let path = ReceivePath {
        queues: args.queues,
        ring: args.ring,
        cores: args.cores,
        connections: args.connections,
        batch: args.batch,
        chain: args.chain,
        io_bytes: args.io_bytes,
        window_bytes: args.window_bytes,
        llc_bytes: args.llc_bytes,
        llc_ways: args.llc_ways,
        seed: args.seed,
        ..ReceivePath::default()
    };
    let simulated = |proposal: &Proposal| -> Result<Simulated, ExitError> {
        let path = proposal.apply(path);
        let estimate = calibration.estimate(&path, args.packets, args.rate).map_err(refused)?;
        let outcome = &estimate.outcome;
        Ok(Simulated {
            proposal: *proposal,
            path,
            cycles_per_packet: estimate.cycles.total(),
            stall_cycles_per_packet: Phase::ALL.iter().map(|it| outcome.stall_cycles(*it)).sum(),
            llc_misses_per_packet: Phase::ALL.iter().map(|it| outcome.phase_misses(*it)).sum(),
            memory_lines_per_packet: outcome.memory_lines(),
            pcie_bytes_per_packet: outcome.per_packet(outcome.pcie_bytes),
            misses: misses(outcome),
            estimate,
        })
    };
    let received = Received {
        rate_bits_per_second: args.rate.0,
        packets: args.packets,
        source: Provenance::MODELLED.source,
        accuracy: Provenance::MODELLED.accuracy,
        calibrated_by: HOST,
        paths: args.proposal.iter().flatten().map(simulated).collect::<Result<_, _>>()?,
    };
    args.page.show(page::page(&received), &received, json)
}

/// Returns the misses of all kinds of data, by phase.
fn misses(outcome: &Outcome) -> Vec<Misses> {
    let pairs = Phase::ALL.into_iter().flat_map(|phase| Data::ALL.map(|data| (phase, data)));
    let touched = pairs.filter(|(phase, data)| outcome.counts(*phase, *data).touches > 0);
    let line = |(phase, data)| {
        let counts = outcome.counts(phase, data);
        Misses {
            phase,
            data,
            touches_per_packet: outcome.per_packet(counts.touches),
            l1_misses_per_packet: outcome.per_packet(counts.l1_misses),
            llc_misses_per_packet: outcome.per_packet(counts.llc_misses),
            hidden_misses_per_packet: outcome.per_packet(counts.hidden_misses),
        }
    };
    touched.map(line).collect()
}

//! Results of `wattline receive`, and their rows in tables.

use serde::Serialize;
use wattline_study::receive::proposals::Proposal;
use wattline_study::receive::{Data, Estimate, Phase, ReceivePath};
use wattline_units::{Accuracy, Source};

/// Accesses to a kind of data in a phase, per packet.
#[derive(Serialize)]
pub(super) struct Misses {
    pub(super) phase: Phase,
    pub(super) data: Data,
    pub(super) touches_per_packet: f64,
    pub(super) l1_misses_per_packet: f64,
    pub(super) llc_misses_per_packet: f64,
    pub(super) hidden_misses_per_packet: f64,
}

/// A path with a proposal.
#[derive(Serialize)]
pub(super) struct Simulated {
    pub(super) proposal: Proposal,
    pub(super) path: ReceivePath,
    #[serde(flatten)]
    pub(super) estimate: Estimate,
    pub(super) cycles_per_packet: f64,
    pub(super) stall_cycles_per_packet: f64,
    pub(super) llc_misses_per_packet: f64,
    pub(super) memory_lines_per_packet: f64,
    pub(super) pcie_bytes_per_packet: f64,
    pub(super) misses: Vec<Misses>,
}

#[derive(Serialize)]
pub(super) struct Received {
    pub(super) rate_bits_per_second: f64,
    pub(super) packets: u64,
    pub(super) source: Source,
    pub(super) accuracy: Accuracy,
    pub(super) calibrated_by: &'static str,
    pub(super) paths: Vec<Simulated>,
}

/// Heads of the table of paths.
pub(super) const SUMMARY: [&str; 13] = [
    "proposal",
    "misses",
    "stall cycles",
    "driver",
    "copy",
    "release",
    "rest",
    "cycles",
    "memory lines",
    "PCIe bytes",
    "busy cores",
    "CPU W",
    "memory W",
];

/// Returns a row of the table of paths.
pub(super) fn summary(path: &Simulated) -> [String; 13] {
    let cycles = &path.estimate.cycles;
    [
        path.proposal.word().to_owned(),
        format!("{:.2}", path.llc_misses_per_packet),
        format!("{:.0}", path.stall_cycles_per_packet),
        format!("{:.0}", cycles.driver),
        format!("{:.0}", cycles.copy),
        format!("{:.0}", cycles.release),
        format!("{:.0}", cycles.rest),
        format!("{:.0}", path.cycles_per_packet),
        format!("{:.1}", path.memory_lines_per_packet),
        format!("{:.0}", path.pcie_bytes_per_packet),
        format!("{:.2}", path.estimate.busy_cores),
        format!("{:.2}", path.estimate.cpu.0),
        format!("{:.2}", path.estimate.memory.0),
    ]
}

/// Formats a phase or a kind of data for people.
pub(super) fn word(of: impl std::fmt::Debug) -> String {
    format!("{of:?}").to_lowercase()
}

impl Misses {
    /// Returns the row of a table: phase, data, and four counts.
    pub(super) fn cells(&self) -> [String; 6] {
        [
            word(self.phase),
            word(self.data),
            format!("{:.3}", self.touches_per_packet),
            format!("{:.3}", self.l1_misses_per_packet),
            format!("{:.3}", self.llc_misses_per_packet),
            format!("{:.3}", self.hidden_misses_per_packet),
        ]
    }
}

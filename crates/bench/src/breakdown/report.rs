//! Options and results of the breakdown.

use super::forwarding::Forwarding;
use super::misses::Event;
use super::perf::Perf;
use super::side::Side;
use super::watts::ComponentPower;
use crate::machine::Machine;
use serde::Serialize;
use std::time::Duration;
use wattline_report::Check;

/// Options of the breakdown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Bytes of each write and read of the program.
    pub io_bytes: Vec<u32>,
    /// Connections (the paper: 8).
    pub connections: u32,
    /// Sampling time of each measurement.
    pub duration: Duration,
    /// True to measure forwarding by the kernel, workers and XDP programs, too.
    pub forwarding: bool,
    /// Settings of segmentation offload, checksum offload and GRO, measured in turn.
    pub offloads: Vec<bool>,
    /// The sampling program, `perf` or a substitute.
    pub perf: Perf,
}

/// One size with or without offloads.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Breakdown {
    /// Bytes of each write and read.
    pub io_bytes: u32,
    /// True if segmentation offload, checksum offload and GRO are on.
    pub offloads: bool,
    /// Bits per second of payload with headers, on the link.
    pub rate_bps: f64,
    /// Ethernet packets of data per second; with offloads, each may hold up to 64 kB.
    pub rate_pps: f64,
    /// Mean length of these packets in bytes.
    pub packet_mean_bytes: f64,
    /// The sender.
    pub transmit: Side,
    /// The receiver.
    pub receive: Side,
    /// Counters of all processors, each with its figure or the reason why it has none; empty if
    /// nothing was counted.
    pub events: Vec<Event>,
    /// Power of components; empty on a machine without meters.
    pub components: Vec<ComponentPower>,
}

/// The result.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// The machine.
    pub machine: Machine,
    /// Sampled event.
    pub event: &'static str,
    /// Samples per second of each processor.
    pub frequency_hertz: u32,
    /// Connections.
    pub connections: u32,
    /// True if the table of groups was made for this kernel.
    pub groups_fit_kernel: bool,
    /// One entry for each size and setting.
    pub results: Vec<Breakdown>,
    /// Claims of the paper, judged by these results.
    pub claims: Vec<Check>,
    /// Missing meters with the reason; empty if the machine has some.
    pub meters_missing: String,
    /// Forwarding by kernel, workers and XDP programs; empty if not measured.
    pub forwarding: Vec<Forwarding>,
    /// Reason why forwarding is missing although it was requested.
    pub forwarding_missing: Option<String>,
    /// Advice on reading the report.
    pub note: &'static str,
}

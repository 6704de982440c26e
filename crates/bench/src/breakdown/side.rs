//! Processor time of one side, divided by samples.

use super::groups::Group;
use super::samples::Counts;
use serde::Serialize;
use std::time::Duration;

/// Samples per second of each processor: not a multiple of the kernel's tick.
pub(super) const FREQUENCY_HERTZ: u32 = 1_999;
/// Number of listed functions that belong to no group.
const UNCLAIMED_LISTED: usize = 10;
/// Time that `perf` may take beyond its sampling time.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// Processor time of one group.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Share {
    /// The group.
    pub group: Group,
    /// Share of all samples of this side.
    pub share: f64,
    /// Processor time per Ethernet packet of data.
    pub cpu_seconds_per_packet: f64,
    /// Processor time per byte of data.
    pub cpu_seconds_per_byte: f64,
}

/// Processor time of one side.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Side {
    /// Number of samples.
    pub samples: u64,
    /// Every group, including groups without samples.
    pub groups: Vec<Share>,
    /// Most frequent functions of no group, with their share of this side's samples.
    pub unclaimed: Vec<(String, f64)>,
}

impl Side {
    /// Returns the processor time per packet of all groups.
    pub(super) fn nanos_per_packet(&self) -> f64 {
        self.groups.iter().map(|share| share.cpu_seconds_per_packet * 1e9).sum()
    }
}

/// Divides the processor time of these packets by samples.
pub(super) fn side(counts: &Counts, seconds: f64, packets: f64, bytes: f64) -> Side {
    let total = counts.total().max(1) as f64;
    let groups = Group::ALL.map(|group| {
        let share = counts.groups.get(&group).copied().unwrap_or(0) as f64 / total;
        Share {
            group,
            share,
            cpu_seconds_per_packet: seconds * share / packets,
            cpu_seconds_per_byte: seconds * share / bytes,
        }
    });
    let mut unclaimed: Vec<_> = counts
        .unclaimed
        .iter()
        .map(|(function, samples)| (function.clone(), *samples as f64 / total))
        .collect();
    unclaimed.sort_by(|a, b| b.1.total_cmp(&a.1));
    unclaimed.truncate(UNCLAIMED_LISTED);
    Side { samples: counts.total(), groups: groups.into(), unclaimed }
}

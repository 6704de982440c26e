//! What the platform has to tell beside its observations.

use super::kernel_time::KernelShare;
use serde::Serialize;
use std::collections::BTreeMap;

/// A setting that has not answered yet.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Stuck {
    /// The setting.
    pub setting: String,
    /// Time since it was asked.
    pub stuck_seconds: f64,
}

/// The state of this machine's knobs, for statistics and metrics.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Status {
    /// Knobs that a policy does not have here, and why.
    pub missing: Vec<String>,
    /// What went wrong, each once while it lasts: foreign changes, CPUs and queues that went;
    /// the latest hundred.
    pub troubles: Vec<String>,
    /// Packets that waited in the rings of queues when these lost entries of an indirection table:
    /// so many can have been overtaken by later ones of their flow. What a card itself holds at that
    /// moment is not seen.
    pub waited_at_moves_packets: u64,
    /// Settings whose driver hangs: they are left out until it answers.
    pub stuck: Vec<Stuck>,
    /// Meters that are read, and whether each gave a figure when it was read last.
    pub sensors: BTreeMap<String, bool>,
    /// Writes by knob, and there by outcome: `done`, `altered`, `foreign`, `failed`.
    pub writes: BTreeMap<&'static str, BTreeMap<&'static str, u64>>,
    /// Time that the kernel spent on the workers' CPUs in the last second, by softirq.
    pub kernel: Vec<KernelShare>,
}

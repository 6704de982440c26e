//! What the platform has to tell beside its observations.

use super::kernel_time::KernelShare;
use serde::Serialize;
use std::collections::BTreeMap;

/// The state of this machine's knobs, for statistics and metrics.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Status {
    /// Knobs that a policy does not have here, and why.
    pub missing: Vec<String>,
    /// What went wrong, each once while it lasts: foreign changes, CPUs and queues that went;
    /// the latest hundred.
    pub troubles: Vec<String>,
    /// Writes by knob, and there by outcome: `done`, `altered`, `foreign`, `failed`.
    pub writes: BTreeMap<&'static str, BTreeMap<&'static str, u64>>,
    /// Time that the kernel spent on the workers' CPUs in the last second, by softirq.
    pub kernel: Vec<KernelShare>,
}

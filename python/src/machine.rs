//! The machine that a policy governs.

use pyo3::prelude::*;
use wattline_policy::{FrequencyDomain, Platform};

/// The machine that a policy governs; the same during a run.
#[pyclass(frozen, get_all, module = "wattline")]
pub struct Machine {
    /// Number of cores that can forward packets.
    pub cores: usize,
    /// Frequencies in gigahertz, the slowest first.
    pub frequencies_ghz: Vec<f64>,
    /// Cores that share a frequency: "core", "chip" or "cluster".
    pub frequency_domain: &'static str,
    /// Names of the idle states, the lightest first.
    pub idle_states: Vec<String>,
    /// Their exit latencies in seconds.
    pub exit_latency_seconds: Vec<f64>,
    /// Number of receive queues.
    pub queues: usize,
    /// Packets that one receive ring holds; None when it has no bound.
    pub ring_packets: Option<usize>,
    /// Shortest and longest span between two interrupts of a queue, in microseconds.
    pub moderation_us: (f64, f64),
}

impl Machine {
    /// As a platform is shown to a policy.
    pub fn of(platform: &Platform) -> Self {
        let states = &platform.idle_states;
        let micros = |span: wattline_units::Span| span.as_seconds() * 1e6;
        Self {
            cores: platform.cores,
            frequencies_ghz: platform.frequencies.iter().map(|hertz| hertz.0 / 1e9).collect(),
            frequency_domain: match platform.domain {
                FrequencyDomain::Core => "core",
                FrequencyDomain::Chip => "chip",
                FrequencyDomain::Cluster(_) => "cluster",
            },
            idle_states: states.iter().map(|state| state.name.clone()).collect(),
            exit_latency_seconds: states.iter().map(|it| it.exit_latency.as_seconds()).collect(),
            queues: platform.queues.len(),
            ring_packets: platform.ring_size,
            moderation_us: (micros(platform.moderation.0), micros(platform.moderation.1)),
        }
    }
}

#[pymethods]
impl Machine {
    fn __repr__(&self) -> String {
        let (low, high) = (self.frequencies_ghz.first(), self.frequencies_ghz.last());
        format!(
            "Machine(cores={}, frequencies_ghz={:.3}..{:.3}, idle_states={:?})",
            self.cores,
            low.copied().unwrap_or(0.0),
            high.copied().unwrap_or(0.0),
            self.idle_states
        )
    }
}

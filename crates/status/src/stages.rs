//! Statistics of a demonstration, whose stages have their own counters.

use crate::contract::Contract;
use crate::power::Power;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wattline_units::Build;

/// Statistics of a demonstration; counters start with the stage.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DemonstrationStats {
    /// Number of the contract that this document follows.
    pub contract: Contract,
    /// Build of the daemon.
    pub build: Build,
    /// Time from the start of the demonstration to the newest figures.
    pub uptime_seconds: f64,
    /// Links; absent between stages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ports: Option<Vec<LinkStats>>,
    /// Cores of the model.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub workers: Vec<ModelCore>,
    /// Power and operating point.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub power: Option<Power>,
    /// Stages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stages: Option<Stages>,
}

/// A link of a demonstration.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LinkStats {
    /// Its name.
    pub name: String,
    /// Its state.
    pub state: String,
    /// Packets that came in.
    pub received_packets: u64,
    /// Packets that found their ring full.
    pub receive_ring_full: u64,
    /// Packets that went out.
    pub transmitted_packets: u64,
}

/// A core of the model.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ModelCore {
    /// True if traffic is meant for it.
    pub active: bool,
    /// Packets that it took.
    pub received: u64,
    /// Time with work.
    pub busy_seconds: f64,
    /// Time without work.
    pub idle_seconds: f64,
    /// Times that it slept.
    pub sleeps: u64,
}

/// Stages of a demonstration.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Stages {
    /// Number of the running stage, from 1.
    pub number: usize,
    /// Number of stages.
    pub of: usize,
    /// Name of the running stage.
    pub name: String,
    /// Work other than forwarding packets, if any.
    pub meanwhile: Option<String>,
    /// Share of the stage that is over, 0 to 1.
    pub progress_ratio: Option<f64>,
    /// Results so far.
    pub done: Vec<StageResult>,
}

/// Result of a stage, in units of its own clock: model time on emulated cores.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StageResult {
    /// Name of the stage.
    pub stage: String,
    /// Packets that arrived.
    pub offered_packets: u64,
    /// Packets that were not forwarded.
    pub lost_packets: u64,
    /// Mean power, where known.
    pub power_watts: Option<f64>,
    /// Source of the power.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// 99th percentile of latency.
    pub latency_p99_seconds: Option<f64>,
    /// Processor time of the whole machine per forwarded packet, where it was measured.
    pub cpu_seconds_per_packet: Option<f64>,
}

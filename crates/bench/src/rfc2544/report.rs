//! The result, as written in JSON.

use super::back_to_back::BackToBack;
use super::search::Found;
use crate::device::Conditions;
use crate::machine::Machine;
use serde::Serialize;
use wattline_testbed::packets::limits::Limits;
use wattline_testbed::packets::{Latency, Soundness};

/// Latency at one load.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LatencyAt {
    /// Load as a share of the throughput.
    pub share: f64,
    /// Packets per second that were sent.
    pub load_pps: f64,
    /// Packets lost of those sent.
    pub loss_ratio: f64,
    /// Latency from sending to reading.
    pub latency: Latency,
    /// Shares of packets, each with the latency in seconds that they do not exceed.
    pub curve: Vec<(f64, f64)>,
    /// Soundness of the last attempt: did the generator hold the load and its receiver keep up.
    #[serde(flatten)]
    pub soundness: Soundness,
}

/// Loss at one load (section 26.3).
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct LossAt {
    /// Load as a share of the highest load that the generator can offer.
    pub share: f64,
    /// Packets per second that were sent.
    pub load_pps: f64,
    /// Packets lost of those sent.
    pub loss_ratio: f64,
    /// Forwarded packets per second.
    pub forwarding_rate_pps: f64,
    /// Reordered packets (RFC 4737).
    pub reordered_packets: u64,
    /// Duplicated packets.
    pub duplicated_packets: u64,
    /// Soundness of the last attempt: did the generator hold the load and its receiver keep up.
    #[serde(flatten)]
    pub soundness: Soundness,
}

impl LossAt {
    /// Returns true if it is known that nothing was lost.
    pub(super) fn is_lossless(&self) -> bool {
        self.loss_ratio == 0.0 && self.soundness.is_sound()
    }
}

/// All figures of one frame length or mix.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LengthResults {
    /// The length in bytes, frame check sequence included, or the name of a mix.
    pub frames: String,
    /// Mean length in bytes.
    pub frame_mean_bytes: f64,
    /// Limits of the generator with such frames.
    pub limits: Limits,
    /// Section 26.1.
    pub throughput: Found,
    /// Throughput in bits per second of frames with preamble and gap.
    pub throughput_wire_bps: Option<f64>,
    /// Section 26.2, at the throughput, half and a tenth of it.
    pub latency: Vec<LatencyAt>,
    /// Section 26.3: from the highest load downwards until two loads in a row lose nothing. Ordered
    /// by the sent load, the highest first.
    pub frame_loss: Vec<LossAt>,
    /// Section 26.4; `None` if the generator cannot send bursts faster than the device forwards.
    pub back_to_back: Option<BackToBack>,
}

/// The whole result.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// The device and its setup.
    pub conditions: Conditions,
    /// The machine.
    pub machine: Machine,
    /// Number of flows.
    pub flows: u32,
    /// True if the throughputs comply with RFC 2544.
    pub is_compliant: bool,
    /// Deviations from RFC 2544.
    pub deviations: Vec<String>,
    /// Length of the final trials.
    pub final_trial_seconds: f64,
    /// Largest distance between the bounds of a throughput, as a share.
    pub width: f64,
    /// Loss permitted at the throughput.
    pub loss_ratio_goal: f64,
    /// Duration of the whole run.
    pub run_seconds: f64,
    /// One entry for each frame length.
    pub lengths: Vec<LengthResults>,
}

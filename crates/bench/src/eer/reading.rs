//! Readings of a subject under a load.

use serde::Serialize;

/// Reading of a subject under a load. Rates and power are those of the measurement interval.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Reading {
    /// Offered packets per second.
    pub offered_rate_pps: f64,
    /// Forwarded packets per second.
    pub forwarded_rate_pps: f64,
    /// Forwarded bits per second, by the frames' lengths.
    pub forwarded_rate_bps: f64,
    /// Lost packets.
    pub lost_packets: u64,
    /// Packets by which queues grew, if they grow as long as the load lasts, so that a longer load
    /// would lose packets.
    pub queued_packets: u64,
    /// True if the load was offered; otherwise the reading says nothing about the subject at this
    /// load.
    pub is_sound: bool,
    /// Mean power over the measurement interval.
    pub power_watts: f64,
    /// Source of the power: measured, modelled, emulated.
    pub source: String,
    /// Accuracy class of the power.
    pub accuracy: String,
    /// Processor time, if measured.
    pub processor: Option<Processor>,
    /// State of the cores, if known.
    #[serde(flatten)]
    pub state: Option<State>,
    /// Reason why the reading may show an influence other than the subject.
    pub disturbed_because: Option<String>,
}

impl Reading {
    /// Returns true if the subject bears the load.
    pub fn is_borne(&self) -> bool {
        self.is_sound && self.lost_packets == 0 && self.queued_packets == 0
    }
}

/// Processor time of the subject in a measurement interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Processor {
    /// Busy share of the interval; at most 1.
    pub busy_ratio: f64,
    /// Time per forwarded packet; `None` without packets.
    pub seconds_per_packet: Option<f64>,
}

/// State of the cores in a measurement interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct State {
    /// Mean number of active cores.
    pub cores_active_mean: f64,
    /// Mean frequency of the active cores.
    pub frequency_mean_hertz: f64,
    /// Share of the time that cores were awake, over all cores.
    pub awake_ratio: f64,
    /// Sleeps of cores per packet; `None` without packets.
    pub sleeps_per_packet: Option<f64>,
    /// Changes of the operating point; zero if the policy has settled.
    pub transitions: u64,
}

impl State {
    /// Describes the state.
    pub(super) fn words(&self) -> String {
        let naps = self.sleeps_per_packet.map(|naps| format!(", {naps:.3} naps a packet"));
        format!(
            "{:.1} cores at {:.2} GHz, all cores awake for {:.0} % of the time{}",
            self.cores_active_mean,
            self.frequency_mean_hertz / 1e9,
            self.awake_ratio * 100.0,
            naps.unwrap_or_default()
        )
    }
}

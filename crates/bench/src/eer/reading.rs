//! Readings of a subject under a load.

use serde::Serialize;

/// Reading of a subject under a load. Rates and power are those of the measurement interval.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Reading {
    /// Packets per second that were offered.
    pub offered_rate_pps: f64,
    /// Packets per second that came through.
    pub forwarded_rate_pps: f64,
    /// The same in bits per second of the frames' lengths.
    pub forwarded_rate_bps: f64,
    /// Packets that did not.
    pub lost_packets: u64,
    /// Packets by which queues grew, where they grow as long as the load lasts: more of it would be
    /// lost.
    pub queued_packets: u64,
    /// Whether the load was offered: what came of less says nothing of the subject at this load.
    pub is_sound: bool,
    /// Mean power over the measurement interval.
    pub power_watts: f64,
    /// Source of the power: measured, modelled, emulated.
    pub source: String,
    /// The accuracy class of that.
    pub accuracy: String,
    /// The processor time that was measured, where it was.
    pub processor: Option<Processor>,
    /// State of the cores, if known.
    #[serde(flatten)]
    pub state: Option<State>,
    /// Reason why the reading may show another influence than the subject.
    pub disturbed_because: Option<String>,
}

impl Reading {
    /// Whether the subject bears the load.
    pub fn is_borne(&self) -> bool {
        self.is_sound && self.lost_packets == 0 && self.queued_packets == 0
    }
}

/// The processor time that the subject took in a measurement interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Processor {
    /// Busy share of the interval; at most 1.
    pub busy_ratio: f64,
    /// For each packet that came through; none without packets.
    pub seconds_per_packet: Option<f64>,
}

/// State of the cores in a measurement interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct State {
    /// Mean number of active cores.
    pub cores_active_mean: f64,
    /// Their mean frequency.
    pub frequency_mean_hertz: f64,
    /// Share of the time of all cores in which they were awake.
    pub awake_ratio: f64,
    /// Sleeps of a core for each packet; none without packets.
    pub sleeps_per_packet: Option<f64>,
    /// Changes of the operating point: none where the policy has settled.
    pub transitions: u64,
}

impl State {
    /// In words.
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

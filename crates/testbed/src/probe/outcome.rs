//! Outcome of an offered load.

use super::receiver::Reception;
use super::sender::Sent;
use serde::Serialize;

const SECONDS: f64 = 1e-9;

/// Account of one load: offered is received plus lost.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Outcome {
    /// Packets sent.
    pub offered_packets: u64,
    /// Packets received.
    pub received_packets: u64,
    /// Packets lost.
    pub lost_packets: u64,
    /// Lost packets that the sender's own kernel refused.
    pub refused_packets: u64,
    /// Lost packets that found the sink's buffer full; not a fault of the router.
    pub receiver_overflow_packets: u64,
    /// Packets that arrived after a later one of their flow (RFC 4737).
    pub reordered_packets: u64,
    /// Duration of sending.
    pub duration_seconds: f64,
    /// Packets per second actually offered.
    pub offered_rate_pps: f64,
    /// Offered bits per second, frame check sequences included.
    pub offered_rate_bps: f64,
    /// Median time from sending to reading.
    pub latency_p50_seconds: f64,
    /// 99th percentile of this time.
    pub latency_p99_seconds: f64,
    /// Longest such time.
    pub latency_max_seconds: f64,
    /// Longest time without any packet arriving.
    pub longest_gap_seconds: f64,
}

impl Outcome {
    pub(super) fn new(sent: &Sent, heard: &Reception) -> Self {
        let duration_seconds = sent.nanos as f64 * SECONDS;
        let per_second =
            |amount: f64| if duration_seconds > 0.0 { amount / duration_seconds } else { 0.0 };
        let percentile = |percent| heard.latency.value_at_percentile(percent) as f64 * SECONDS;
        Self {
            offered_packets: sent.packets,
            received_packets: heard.packets,
            lost_packets: sent.packets.saturating_sub(heard.packets),
            refused_packets: sent.refused,
            receiver_overflow_packets: heard.overflow,
            reordered_packets: heard.reordered,
            duration_seconds,
            offered_rate_pps: per_second(sent.packets as f64),
            offered_rate_bps: per_second(sent.bytes as f64 * 8.0),
            latency_p50_seconds: percentile(50.0),
            latency_p99_seconds: percentile(99.0),
            latency_max_seconds: percentile(100.0),
            longest_gap_seconds: heard.longest_gap_nanos as f64 * SECONDS,
        }
    }
}

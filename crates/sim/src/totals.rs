//! All counts and sums at one moment; a report is the difference of two.

use wattline_cores::{Counts, OrderCounts, Spent};

/// Cumulative counts and sums since the start.
///
/// `arrival_sum` and `departure_sum` are sums of times modulo 2^64. They give the mean number of
/// packets in the system without the latencies: the integral of the number up to T is (sum of T -
/// arrival) - (sum of T - departure). The difference fits in 64 bits, though the two sums do not.
#[derive(Debug, Clone, Default)]
pub(crate) struct Totals {
    pub at: u64,
    pub arrivals: u64,
    /// Packets dropped at receive rings.
    pub drops: u64,
    /// Packets dropped at transmit rings.
    pub output_drops: u64,
    pub forwarded: u64,
    pub forwarded_bytes: u64,
    /// Sum of the times at which packets left, modulo 2^64.
    pub departure_sum: u64,
    pub waiting: u64,
    pub arrival_sum: u64,
    pub beyond_link: u64,
    pub order: OrderCounts,
    pub cores: Vec<Counts>,
    pub spent: Vec<Spent>,
    pub open_overload: u64,
    /// Energy of the chips' shared part, in joules.
    pub uncore_joules: f64,
    pub any_awake: u64,
    pub core_changes: u64,
    pub frequency_changes: u64,
    pub entries_moved: u64,
    pub decisions: u64,
    /// Integral of the number of active cores, in core picoseconds.
    pub active_picos: u64,
    /// Integral of the frequency of active cores, in hertz seconds.
    pub cycles: f64,
}

impl Totals {
    /// Returns the integral of the number of packets in the system up to this moment, modulo 2^64,
    /// in packet picoseconds.
    fn packet_picos(&self) -> u64 {
        let accepted = self.arrivals - self.drops;
        let departed = self.forwarded + self.output_drops;
        let inside = (accepted - departed).wrapping_mul(self.at);
        inside.wrapping_sub(self.arrival_sum).wrapping_add(self.departure_sum)
    }

    /// Returns the mean number of packets in the system since an earlier moment.
    pub fn packets_inside_since(&self, earlier: &Self) -> f64 {
        let picos = self.packet_picos().wrapping_sub(earlier.packet_picos());
        picos as f64 / (self.at - earlier.at) as f64
    }
}

//! Counters of packets and records, for one worker and IP version.
//!
//! Every packet is accounted for. The packets counted in flows ([`FlowCounts::packets`]) are in
//! records that were handed over, in records that were lost, or in flows that are still in the
//! table.

use super::record::EndReason;
use std::ops::Deref;
use wattline_dataplane::counters::Counter;
use wattline_status::applications::FlowCounts;

/// Counters that the worker writes and any thread may read.
#[derive(Debug, Default)]
pub(super) struct Counters(FlowCounts<Counter>);

impl Deref for Counters {
    type Target = FlowCounts<Counter>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl Counters {
    /// Counts a record that was handed over.
    pub fn given(&self, end: EndReason, packets: u64, bytes: u64) {
        let of = match end {
            EndReason::Idle => &self.records_idle,
            EndReason::Active => &self.records_active,
            EndReason::Evicted => &self.records_evicted,
            EndReason::Forced => &self.records_forced,
        };
        of.add(1);
        self.record_packets.add(packets);
        self.record_bytes.add(bytes);
    }

    /// Counts a record that found no room.
    pub fn lost(&self, packets: u64, bytes: u64) {
        self.lost_records.add(1);
        self.lost_packets.add(packets);
        self.lost_bytes.add(bytes);
    }

    /// Reverts the count of a forced record that was never received, and counts it as lost.
    pub fn taken_back(&self, packets: u64, bytes: u64) {
        self.records_forced.set(self.records_forced.get().wrapping_sub(1));
        self.record_packets.set(self.record_packets.get().wrapping_sub(packets));
        self.record_bytes.set(self.record_bytes.get().wrapping_sub(bytes));
        self.lost(packets, bytes);
    }
}

//! Counts of sent and lost records of one collector.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use wattline_packet::ipfix::{FlowRecord, Status};
use wattline_status::applications::CollectorCounts;

/// Counts of sent and lost records of one collector; read by the control thread.
#[derive(Debug, Default)]
pub(super) struct Account {
    pub counts: CollectorCounts<AtomicU64>,
    pub up: AtomicBool,
    /// Records, packets and bytes lost before the collector's queue; the same for every collector.
    pub before: [AtomicU64; 3],
}

impl Account {
    /// Counts records that will not be sent.
    pub fn lose(&self, records: &[FlowRecord]) {
        self.counts.lost_records.fetch_add(records.len() as u64, Relaxed);
        self.counts
            .lost_packets
            .fetch_add(records.iter().map(|record| record.packets).sum(), Relaxed);
        self.counts.lost_bytes.fetch_add(records.iter().map(|record| record.bytes).sum(), Relaxed);
    }

    /// Returns the status that is sent to the collector.
    pub fn status(&self) -> Status {
        let [records, packets, bytes] = self.before.each_ref().map(|count| count.load(Relaxed));
        Status {
            messages: self.counts.messages.load(Relaxed),
            records: self.counts.records.load(Relaxed),
            bytes: self.counts.message_bytes.load(Relaxed),
            lost_records: records + self.counts.lost_records.load(Relaxed),
            lost_packets: packets + self.counts.lost_packets.load(Relaxed),
            lost_bytes: bytes + self.counts.lost_bytes.load(Relaxed),
        }
    }
}

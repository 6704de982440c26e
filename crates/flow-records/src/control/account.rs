//! Counts of what one collector received and missed.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use wattline_packet::ipfix::{FlowRecord, Status};

/// Counts of what one collector received and missed; read by the control thread.
#[derive(Debug, Default)]
pub(super) struct Account {
    pub messages: AtomicU64,
    pub records: AtomicU64,
    pub bytes: AtomicU64,
    /// Packets and bytes of the flows in the sent records.
    pub flow_packets: AtomicU64,
    pub flow_bytes: AtomicU64,
    pub lost_records: AtomicU64,
    pub lost_packets: AtomicU64,
    pub lost_bytes: AtomicU64,
    /// Number of failures to send or to connect.
    pub errors: AtomicU64,
    pub up: AtomicBool,
    /// Records, packets and bytes lost before they came here; the same for every collector.
    pub before: [AtomicU64; 3],
}

impl Account {
    /// Counts records that will not be sent.
    pub fn lose(&self, records: &[FlowRecord]) {
        self.lost_records.fetch_add(records.len() as u64, Relaxed);
        self.lost_packets.fetch_add(records.iter().map(|record| record.packets).sum(), Relaxed);
        self.lost_bytes.fetch_add(records.iter().map(|record| record.bytes).sum(), Relaxed);
    }

    /// Status that is sent to the collector itself.
    pub fn status(&self) -> Status {
        let [records, packets, bytes] = self.before.each_ref().map(|count| count.load(Relaxed));
        Status {
            messages: self.messages.load(Relaxed),
            records: self.records.load(Relaxed),
            bytes: self.bytes.load(Relaxed),
            lost_records: records + self.lost_records.load(Relaxed),
            lost_packets: packets + self.lost_packets.load(Relaxed),
            lost_bytes: bytes + self.lost_bytes.load(Relaxed),
        }
    }
}

//! Counters of packets and records, for one worker and IP version.
//!
//! Every packet is accounted for. The packets counted in flows ([`Totals::packets`]) are in records
//! that were handed over, in records that were lost, or in flows that are still in the table.

use super::record::EndReason;
use wattline_dataplane::counters::Counter;

/// Counters that the worker writes and any thread may read.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub packets: Counter,
    pub bytes: Counter,
    pub passed_by: Counter,
    pub unreadable: Counter,
    pub refused: Counter,
    pub created: Counter,
    pub live: Counter,
    idle: Counter,
    active: Counter,
    evicted: Counter,
    forced: Counter,
    given_packets: Counter,
    given_bytes: Counter,
    lost: Counter,
    lost_packets: Counter,
    lost_bytes: Counter,
}

impl Counters {
    /// Counts a record that was handed over.
    pub fn given(&self, end: EndReason, packets: u64, bytes: u64) {
        let of = match end {
            EndReason::Idle => &self.idle,
            EndReason::Active => &self.active,
            EndReason::Evicted => &self.evicted,
            EndReason::Forced => &self.forced,
        };
        of.add(1);
        self.given_packets.add(packets);
        self.given_bytes.add(bytes);
    }

    /// Counts a record that found no room.
    pub fn lost(&self, packets: u64, bytes: u64) {
        self.lost.add(1);
        self.lost_packets.add(packets);
        self.lost_bytes.add(bytes);
    }

    /// Reverts the count of a forced record that nobody received, and counts it as lost.
    pub fn taken_back(&self, packets: u64, bytes: u64) {
        self.forced.set(self.forced.get().wrapping_sub(1));
        self.given_packets.set(self.given_packets.get().wrapping_sub(packets));
        self.given_bytes.set(self.given_bytes.get().wrapping_sub(bytes));
        self.lost(packets, bytes);
    }

    /// Values of all counters.
    pub fn totals(&self) -> Totals {
        Totals {
            packets: self.packets.get(),
            bytes: self.bytes.get(),
            passed_by: self.passed_by.get(),
            unreadable: self.unreadable.get(),
            refused: self.refused.get(),
            flows_created: self.created.get(),
            flows_live: self.live.get(),
            records_idle: self.idle.get(),
            records_active: self.active.get(),
            records_evicted: self.evicted.get(),
            records_forced: self.forced.get(),
            record_packets: self.given_packets.get(),
            record_bytes: self.given_bytes.get(),
            lost_records: self.lost.get(),
            lost_packets: self.lost_packets.get(),
            lost_bytes: self.lost_bytes.get(),
        }
    }
}

/// Values of the counters, since the worker started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct Totals {
    /// Packets counted in flows.
    pub packets: u64,
    /// Bytes of the IP packets counted in flows.
    pub bytes: u64,
    /// Packets skipped by sampling or by the choice of ports.
    pub passed_by: u64,
    /// Packets with malformed headers.
    pub unreadable: u64,
    /// Packets that are answered by an ICMP error instead of being sent, because of their TTL or
    /// length. They belong to no flow. Counted only where the node sees packets whose egress port
    /// is known.
    pub refused: u64,
    /// Flows created.
    pub flows_created: u64,
    /// Flows in the table now; a level, not a count.
    pub flows_live: u64,
    /// Records of flows without a packet for the idle timeout.
    pub records_idle: u64,
    /// Records of flows that have lasted for the active timeout.
    pub records_active: u64,
    /// Records of flows whose place was needed for another flow.
    pub records_evicted: u64,
    /// Records of flows that existed when the worker ended.
    pub records_forced: u64,
    /// Packets in all records handed over.
    pub record_packets: u64,
    /// Bytes in all records handed over.
    pub record_bytes: u64,
    /// Evicted flows whose record found the ring to the control thread full.
    pub lost_records: u64,
    /// Packets in the lost records.
    pub lost_packets: u64,
    /// Bytes in the lost records.
    pub lost_bytes: u64,
}

impl Totals {
    /// Adds the counts of another worker or IP version.
    pub fn merge(&mut self, other: &Self) {
        self.packets += other.packets;
        self.bytes += other.bytes;
        self.passed_by += other.passed_by;
        self.unreadable += other.unreadable;
        self.refused += other.refused;
        self.flows_created += other.flows_created;
        self.flows_live += other.flows_live;
        self.records_idle += other.records_idle;
        self.records_active += other.records_active;
        self.records_evicted += other.records_evicted;
        self.records_forced += other.records_forced;
        self.record_packets += other.record_packets;
        self.record_bytes += other.record_bytes;
        self.lost_records += other.lost_records;
        self.lost_packets += other.lost_packets;
        self.lost_bytes += other.lost_bytes;
    }

    /// Number of records handed over, for any reason.
    pub fn records(&self) -> u64 {
        self.records_idle + self.records_active + self.records_evicted + self.records_forced
    }
}

//! Counters of flow records.

use super::counts::counts;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Counters of flow records.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FlowRecordsStats {
    /// Flow tables of all workers together. `packets` is the sum of `record_packets`,
    /// `lost_packets` and the packets of flows still in the tables.
    pub tables: FlowCounts,
    /// Collectors. Each got or lost every record that was handed over.
    pub collectors: Vec<CollectorStats>,
    /// Numbers of the ports for collectors.
    pub interfaces: Vec<ExportInterface>,
}

/// Number of a port in flow records.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ExportInterface {
    /// The kernel's number of the interface; for a port without one, its place in the
    /// configuration, from 1.
    pub number: u32,
    /// The port.
    pub port: String,
}

counts! {
    /// Counters of flow tables.
    #[schemars(rename = "FlowCounts")]
    FlowCounts {
        /// Packets counted in flows.
        packets,
        /// Bytes of the IP packets counted in flows.
        bytes,
        /// Packets skipped by sampling or the choice of ports.
        passed_by,
        /// Packets with malformed headers.
        unreadable,
        /// Packets answered by an ICMP error instead of being sent, because of their TTL or length:
        /// they belong to no flow. Counted only where packets are recorded on egress.
        refused,
        /// Flows created.
        flows_created,
        /// Flows in the tables now.
        flows_live,
        /// Records of flows without a packet for the idle timeout.
        records_idle,
        /// Records of flows that have lasted for the active timeout.
        records_active,
        /// Records of flows whose place was needed for another flow.
        records_evicted,
        /// Records of flows that existed when the router stopped.
        records_forced,
        /// Packets in all records handed over.
        record_packets,
        /// Bytes in all records handed over.
        record_bytes,
        /// Records of evicted flows that found no room on their way to the collectors.
        lost_records,
        /// Packets in the lost records.
        lost_packets,
        /// Bytes in the lost records.
        lost_bytes,
    }
}

impl FlowCounts {
    /// Returns the number of records handed over, for any reason.
    pub fn records(&self) -> u64 {
        self.records_idle + self.records_active + self.records_evicted + self.records_forced
    }
}

/// Counters of a collector.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CollectorStats {
    /// Its protocol, address and port, as in the configuration.
    pub collector: String,
    /// Its state.
    pub state: CollectorState,
    /// Its counters.
    #[serde(flatten)]
    pub counts: CollectorCounts,
}

/// State of a collector.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CollectorState {
    /// The collector takes messages.
    Up,
    /// The collector is not connected, or refused the last message.
    #[default]
    Down,
}

counts! {
    /// Counters of a collector.
    CollectorCounts {
        /// Messages sent.
        messages,
        /// Records sent.
        records,
        /// Bytes of the messages.
        message_bytes,
        /// Packets of the flows in the sent records.
        flow_packets,
        /// Bytes of the flows in the sent records.
        flow_bytes,
        /// Records that the collector did not take.
        lost_records,
        /// Packets in the lost records.
        lost_packets,
        /// Bytes in the lost records.
        lost_bytes,
        /// Failures to connect or to send.
        errors,
    }
}

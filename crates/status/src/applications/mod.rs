//! Counters of a router's applications.
//!
//! Each application has its own type here, and a field in [`ApplicationStats`]. A program that does
//! not know an application ignores its key.

mod counts;
mod filter;
mod flow_records;
mod ipsec;
mod redundancy;

pub use filter::{AclRule, AclStats, AclTable, SourceCheck, Unmatched, UrpfPort, UrpfStats};
pub use flow_records::{
    CollectorCounts, CollectorState, CollectorStats, ExportInterface, FlowCounts, FlowRecordsStats,
};
pub use ipsec::{
    AssociationState, AssociationStats, Block, BlockPlan, BlockStats, BlockedTraffic, InboundStats,
    IpsecStats, KernelBlock, KernelTunnels, OutboundStats, SaTable, TunnelStats,
};
pub use redundancy::{
    DecodeCounts, DecoderStats, EncodeCounts, EncoderStats, OfferCounts, ReportCounts,
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Counters of the running applications, each under the name of its section.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ApplicationStats {
    /// Access lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acl: Option<AclStats>,
    /// Reverse-path check of source addresses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub urpf: Option<UrpfStats>,
    /// Flow records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow_records: Option<FlowRecordsStats>,
    /// IPsec.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ipsec: Option<IpsecStats>,
    /// Encoders of redundancy elimination, in the order of the configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redundancy_encode: Option<Vec<EncoderStats>>,
    /// Decoders of redundancy elimination, in the order of the configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redundancy_decode: Option<Vec<DecoderStats>>,
}

impl ApplicationStats {
    /// Returns true if no application runs.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CONTRACT, Stats, read};
    use serde_json::json;

    /// Returns the statistics that a reader gets from a router whose only application is in
    /// `applications`.
    fn received(applications: &serde_json::Value) -> ApplicationStats {
        let stats = Stats::Router(Box::default());
        let mut answer = serde_json::to_value(stats).unwrap();
        answer["applications"] = applications.clone();
        match read(answer).unwrap() {
            Stats::Router(stats) => stats.applications,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn unknown_application_is_ignored_and_others_are_read() {
        let port = json!({"port": "a", "check": "loose", "dropped_packets": 3, "later": 1});
        let known = json!({"ports": [port], "added_later": true});
        let stats = received(&json!({"urpf": known, "later": {"packets": [1, {"a": 2}]}}));
        let port = UrpfPort { port: "a".to_owned(), check: SourceCheck::Loose, dropped_packets: 3 };
        let urpf = Some(UrpfStats { ports: vec![port] });
        assert_eq!(stats, ApplicationStats { urpf, ..ApplicationStats::default() });
        assert!(received(&json!({})).is_empty());
    }

    #[test]
    fn counters_survive_the_way_to_a_reader() {
        let counts = EncodeCounts { packets: u64::MAX, in_bytes: 9, ..EncodeCounts::default() };
        let mut sum = EncodeCounts { out_bytes: 5, in_bytes: 1, ..EncodeCounts::default() };
        sum.merge(&EncodeCounts { in_bytes: 8, packets: u64::MAX, out_bytes: 0, ..sum });
        assert_eq!((sum.in_bytes, sum.packets), (counts.in_bytes, counts.packets));
        let encoder = EncoderStats { counts, stream: 3, ..EncoderStats::default() };
        let association = AssociationStats {
            dropped: [("esp-forged".to_owned(), 1)].into(),
            ..AssociationStats::default()
        };
        let outbound = OutboundStats { association, sequence: u64::MAX };
        let tunnel = TunnelStats { outbound, ..TunnelStats::default() };
        let stats = ApplicationStats {
            acl: Some(AclStats::default()),
            flow_records: Some(FlowRecordsStats {
                tables: FlowCounts { packets: 7, ..FlowCounts::default() },
                ..FlowRecordsStats::default()
            }),
            ipsec: Some(IpsecStats { tunnels: vec![tunnel], ..IpsecStats::default() }),
            redundancy_encode: Some(vec![encoder]),
            redundancy_decode: Some(vec![DecoderStats::default()]),
            ..ApplicationStats::default()
        };
        let json = serde_json::to_value(&stats).unwrap();
        assert_eq!(json["redundancy_encode"][0]["packets"], u64::MAX, "{json}");
        assert_eq!(json["ipsec"]["tunnels"][0]["outbound"]["state"], "active", "{json}");
        assert_eq!(received(&json), stats);
    }

    #[test]
    fn table_of_an_application_has_its_counters_and_the_contract() {
        let sas = SaTable { ipsec: IpsecStats::default(), ..SaTable::default() };
        let expected = json!({"contract": CONTRACT, "tunnels": [], "blocked_in_kernel": 0, "restored_in_kernel": 0});
        assert_eq!(serde_json::to_value(&sas).unwrap(), expected);
        assert_eq!(read::<SaTable>(expected), Ok(sas));
        let acl = AclTable::default();
        let expected = json!({"contract": CONTRACT, "rules": [], "total": 0, "unmatched": []});
        assert_eq!(serde_json::to_value(&acl).unwrap(), expected);
        assert_eq!(read::<AclTable>(expected), Ok(acl));
    }
}

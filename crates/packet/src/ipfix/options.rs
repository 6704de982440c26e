//! Options: information for a collector in addition to flows.

use super::{TEMPLATE_SAMPLER, TEMPLATE_STATUS, Version};

/// Counts of exported and lost records since the exporter started (RFC 7011 section 4.3, "Exporting
/// Process Reliability Statistics", and 4.1).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Status {
    /// Messages sent to this collector.
    pub messages: u64,
    /// Flow records sent to this collector.
    pub records: u64,
    /// Bytes of the messages sent.
    pub bytes: u64,
    /// Flow records that were not sent.
    pub lost_records: u64,
    /// Packets in the records that were not sent.
    pub lost_packets: u64,
    /// Bytes in the records that were not sent.
    pub lost_bytes: u64,
}

/// Sampling of packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sampler {
    /// Sampling interval: one packet in this many.
    pub interval: u32,
    /// True if the sampled packet of an interval is random instead of the last.
    pub random: bool,
}

/// Fields of an options template: numbers and lengths of scope and data.
pub(super) struct Layout {
    pub id: u16,
    pub scope: (u16, u16),
    pub fields: &'static [(u16, u16)],
}

/// Scope `observationDomainId`.
const STATUS_IPFIX: Layout = Layout {
    id: TEMPLATE_STATUS,
    scope: (149, 4),
    fields: &[(41, 8), (42, 8), (40, 8), (166, 8), (167, 8), (168, 8)],
};
/// Scope "System" (RFC 3954 section 6.1); `TOTAL_PKTS_EXP`, `TOTAL_FLOWS_EXP`, `TOTAL_BYTES_EXP`.
const STATUS_NETFLOW9: Layout =
    Layout { id: TEMPLATE_STATUS, scope: (1, 4), fields: &[(41, 8), (42, 8), (40, 8)] };
/// Scope `selectorId`; `selectorAlgorithm` 1 (systematic count-based) with
/// `samplingPacketInterval` and `samplingPacketSpace` (RFC 5477 section 8.2).
const COUNT_BASED: Layout =
    Layout { id: TEMPLATE_SAMPLER, scope: (302, 4), fields: &[(304, 2), (305, 4), (306, 4)] };
/// The same with `selectorAlgorithm` 3 (random n-out-of-N), `samplingSize`, `samplingPopulation`.
const RANDOM: Layout =
    Layout { id: TEMPLATE_SAMPLER, scope: (302, 4), fields: &[(304, 2), (309, 4), (310, 4)] };
/// Scope "System"; `SAMPLING_INTERVAL`, `SAMPLING_ALGORITHM` (1 deterministic, 2 random).
const SAMPLER_NETFLOW9: Layout =
    Layout { id: TEMPLATE_SAMPLER, scope: (1, 4), fields: &[(34, 4), (35, 1)] };

/// Id of the only selector.
const SELECTOR: u32 = 1;

impl Status {
    pub(super) fn layout(version: Version) -> &'static Layout {
        match version {
            Version::Ipfix => &STATUS_IPFIX,
            Version::Netflow9 => &STATUS_NETFLOW9,
        }
    }

    pub(super) fn write(&self, version: Version, domain: u32, out: &mut Vec<u8>) {
        out.extend(domain.to_be_bytes());
        for count in [self.messages, self.records, self.bytes] {
            out.extend(count.to_be_bytes());
        }
        if version == Version::Ipfix {
            for count in [self.lost_records, self.lost_packets, self.lost_bytes] {
                out.extend(count.to_be_bytes());
            }
        }
    }
}

impl Sampler {
    pub(super) fn layout(self, version: Version) -> &'static Layout {
        match (version, self.random) {
            (Version::Netflow9, _) => &SAMPLER_NETFLOW9,
            (Version::Ipfix, false) => &COUNT_BASED,
            (Version::Ipfix, true) => &RANDOM,
        }
    }

    pub(super) fn write(self, version: Version, domain: u32, out: &mut Vec<u8>) {
        let Self { interval, random } = self;
        match version {
            Version::Netflow9 => {
                out.extend(domain.to_be_bytes());
                out.extend(interval.to_be_bytes());
                out.push(if random { 2 } else { 1 });
            }
            Version::Ipfix => {
                out.extend(SELECTOR.to_be_bytes());
                out.extend(if random { 3_u16 } else { 1 }.to_be_bytes());
                out.extend(1_u32.to_be_bytes());
                let second = if random { interval } else { interval.saturating_sub(1) };
                out.extend(second.to_be_bytes());
            }
        }
    }
}

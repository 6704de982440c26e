//! Counters of redundancy elimination.

use super::counts::counts;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// Counters of an encoder of redundancy elimination.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EncoderStats {
    /// Address of the decoder.
    pub peer: Option<IpAddr>,
    /// Number shared by encoder and decoder.
    pub stream: u8,
    /// True if packets are encoded: the decoder sends reports, or none are expected.
    pub decoder_alive: bool,
    /// True if there is a secret.
    pub authenticated: bool,
    /// Memory of the cache.
    pub memory_bytes: u64,
    /// Bytes saved on the link: `in_bytes` less `out_bytes`.
    pub saved_bytes: u64,
    /// Counters of packets.
    #[serde(flatten)]
    pub counts: EncodeCounts,
    /// Counters of messages from and to the decoder.
    #[serde(flatten)]
    pub reports: ReportCounts,
}

counts! {
    /// Packets of an encoder.
    EncodeCounts {
        /// Packets on their way to the decoder, encoded or not.
        packets,
        /// Bytes of these packets on arrival, IP headers included.
        in_bytes,
        /// Bytes of these packets on departure.
        out_bytes,
        /// Packets that were encoded.
        encoded_packets,
        /// Regions that were replaced by references.
        regions,
        /// Packets without a repeated region, or with too few repeated bytes.
        without_gain_packets,
        /// Packets not tried: fragments, longer than the MTU, without TTL, with options.
        bypassed_unfit_packets,
        /// Packets not tried: too short or too long.
        bypassed_length_packets,
        /// Packets not tried: encrypted according to their protocol or port.
        bypassed_encrypted_packets,
        /// Packets not tried: from flows that look encrypted and gained nothing.
        bypassed_entropy_packets,
        /// Packets that do not pass the decoder: to its own addresses, or to stations on the link.
        bypassed_local_packets,
        /// Retransmitted TCP segments, which were not encoded as references to their first copy.
        retransmissions,
    }
}

/// Messages between an encoder and its decoder, counted by the encoder.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReportCounts {
    /// Accepted reports.
    pub reports: u64,
    /// Messages that are malformed, or whose sender has another secret or version.
    pub refused_reports: u64,
    /// Reports accepted before, or older than an accepted one.
    pub replayed_reports: u64,
    /// Reports whose sender has not shown that it receives answers.
    pub unproven_reports: u64,
    /// Packets that the decoder reported as missing.
    pub reported_missing_packets: u64,
    /// Starts of the decoder.
    pub resets: u64,
    /// Packets offered to the decoder.
    pub offered_packets: u64,
    /// Offered packets that the decoder has: only these can be referenced.
    pub confirmed_packets: u64,
}

/// Counters of a decoder of redundancy elimination.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DecoderStats {
    /// Address of the encoder.
    pub peer: Option<IpAddr>,
    /// Number shared by encoder and decoder.
    pub stream: u8,
    /// True if there is a secret.
    pub authenticated: bool,
    /// Memory of the cache.
    pub memory_bytes: u64,
    /// Reports that could not be sent.
    pub lost_reports: u64,
    /// Counters of packets.
    #[serde(flatten)]
    pub counts: DecodeCounts,
    /// Counters of messages from and to the encoder.
    #[serde(flatten)]
    pub offers: OfferCounts,
}

counts! {
    /// Packets of a decoder.
    DecodeCounts {
        /// Encoded packets received.
        packets,
        /// Bytes of the encoded packets, IP headers included.
        in_bytes,
        /// Bytes of the restored packets.
        out_bytes,
        /// Encoded packets that were restored.
        decoded_packets,
        /// Packets that arrived unencoded and were added to the cache.
        remembered_packets,
        /// Packets that arrived unencoded and were not added to the cache.
        bypassed_packets,
        /// Encoded packets that had to wait for a missing packet.
        waited_packets,
        /// Waiting packets that could be restored later.
        late_packets,
        /// Encoded packets dropped because a packet was missing.
        missed_packets,
        /// Encoded packets dropped because their sender lacks the secret.
        forged_packets,
        /// Encoded packets dropped because the encoder has another version of the protocol.
        other_version_packets,
        /// Encoded packets dropped because the digest was wrong.
        integrity_failures,
        /// Encoded packets dropped because they were malformed or fragments.
        malformed_packets,
        /// Encoded packets of another stream, which passed unchanged.
        foreign_packets,
        /// Encoded packets dropped because the restored packet did not fit into a frame.
        too_long_packets,
    }
}

/// Messages between a decoder and its encoder, counted by the decoder.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OfferCounts {
    /// Reports made.
    pub reports: u64,
    /// Messages that are malformed, or whose sender has another secret or version.
    pub refused_offers: u64,
    /// Outdated messages: from another start or challenge, or received before.
    pub replayed_offers: u64,
    /// Packets that the encoder offered.
    pub offered_packets: u64,
    /// Offered packets that were in the cache.
    pub accepted_packets: u64,
}

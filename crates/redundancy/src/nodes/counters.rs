//! Counters of encoders and decoders. Each node of each worker has its own; readers add them up.

use wattline_dataplane::counters::Counter;

macro_rules! counters {
    ($(#[doc = $about:literal])+ $name:ident { $($(#[doc = $doc:literal])+ $field:ident,)+ }) => {
        $(#[doc = $about])+
        #[derive(Debug, Default)]
        pub struct $name {
            $($(#[doc = $doc])+ pub $field: Counter,)+
        }

        impl $name {
            /// Names and values of the counters, in the order of the reference.
            pub fn list(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($field), self.$field.get()),)+]
            }
        }
    };
}

counters! {
    /// Counters of an encoder.
    EncodeCounters {
        /// Packets on their way to the decoder, encoded or not.
        packets,
        /// Bytes of these packets on arrival, IP headers included.
        in_bytes,
        /// Bytes of these packets when they left.
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
        /// Packets not tried: of flows that look encrypted and gained nothing.
        bypassed_entropy_packets,
        /// Packets that do not pass the decoder: to its own addresses, or to stations on the link.
        bypassed_local_packets,
        /// Retransmitted TCP segments, which were not encoded as references to their first copy.
        retransmissions,
    }
}

counters! {
    /// Counters of a decoder.
    DecodeCounters {
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

//! What encoders and decoders count: each node of each worker has its own, and whoever wants
//! to know adds them up.

use wattline_dataplane::counters::Counter;

macro_rules! counters {
    ($(#[doc = $about:literal])+ $name:ident { $($(#[doc = $doc:literal])+ $field:ident,)+ }) => {
        $(#[doc = $about])+
        #[derive(Debug, Default)]
        pub struct $name {
            $($(#[doc = $doc])+ pub $field: Counter,)+
        }

        impl $name {
            /// Names and values, in the order of the reference.
            pub fn list(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($field), self.$field.get()),)+]
            }
        }
    };
}

counters! {
    /// Of an encoder.
    EncodeCounters {
        /// Packets on their way to the decoder, whatever became of them.
        packets,
        /// Bytes of those, IP headers included.
        in_bytes,
        /// Bytes that they had when they left here.
        out_bytes,
        /// Packets that were encoded.
        encoded_packets,
        /// Regions that were left out of them.
        regions,
        /// Packets in which nothing was found, or not enough.
        without_gain_packets,
        /// Packets that were not tried: fragments, longer than the MTU, without TTL, with options.
        bypassed_unfit_packets,
        /// Packets that were not tried: shorter or longer than is worth it.
        bypassed_length_packets,
        /// Packets that were not tried: encrypted by their protocol or port.
        bypassed_encrypted_packets,
        /// Packets that were not tried: of flows that look encrypted and gained nothing.
        bypassed_entropy_packets,
        /// Packets that do not pass the decoder: to its own addresses, or to stations on the link.
        bypassed_local_packets,
        /// TCP segments sent again, which were not referred to their own first copy.
        retransmissions,
    }
}

counters! {
    /// Of a decoder.
    DecodeCounters {
        /// Encoded packets that came.
        packets,
        /// Bytes of those, IP headers included.
        in_bytes,
        /// Bytes of the packets that they became.
        out_bytes,
        /// Encoded packets that were restored.
        decoded_packets,
        /// Packets that came as they are and were remembered.
        remembered_packets,
        /// Packets that came as they are and were not.
        bypassed_packets,
        /// Encoded packets that had to wait because something was missing.
        waited_packets,
        /// Of those, packets that could be restored after all.
        late_packets,
        /// Encoded packets that were dropped because something was missing.
        missed_packets,
        /// Encoded packets that were dropped because the digest did not hold.
        integrity_failures,
        /// Encoded packets that were dropped because they were malformed or fragments.
        malformed_packets,
        /// Packets of another stream, left as they were.
        foreign_packets,
        /// Encoded packets that were dropped because the whole did not fit into a frame.
        too_long_packets,
    }
}

//! Why a frame was dropped: every drop has one of these reasons, and each is a counter.

macro_rules! drop_reasons {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal,)+) => {
        /// Why a frame was dropped.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum DropReason {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl DropReason {
            /// All of them, in the order of their numbers.
            pub const ALL: &[Self] = &[$(Self::$variant,)+];

            /// The name of its counter.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }

            /// What it means, in a sentence.
            pub const fn description(self) -> &'static str {
                match self { $(Self::$variant => concat!($($doc),+),)+ }
            }
        }
    };
}

drop_reasons! {
    /// The frame is shorter than the headers it announces.
    Truncated = "truncated",
    /// The frame is addressed to another station's MAC address and the port is not promiscuous.
    OtherStation = "other-station",
    /// The IP version does not match the EtherType.
    BadVersion = "bad-version",
    /// The IPv4 header length is below 20 bytes.
    BadHeaderLength = "bad-header-length",
    /// The IPv4 header checksum does not hold.
    BadChecksum = "bad-checksum",
    /// The IP length field does not fit the header or the frame, or no datagram is as long.
    BadLength = "bad-length",
    /// The source address can be no other host's (RFC 1812 5.3.7, RFC 4291 2.5).
    MartianSource = "martian-source",
    /// The destination address can be no host's.
    MartianDestination = "martian-destination",
    /// TTL or hop limit has run out.
    TtlExpired = "ttl-expired",
    /// No route leads to the destination.
    NoRoute = "no-route",
    /// A blackhole route: discarded silently, as configured.
    Blackhole = "blackhole",
    /// An unreachable route.
    Unreachable = "unreachable",
    /// A prohibit route.
    Prohibited = "prohibited",
    /// Longer than the MTU of the way out, and may not be fragmented.
    TooBig = "too-big",
    /// A link-local source address that must not leave its link (RFC 4443 3.1 code 2).
    BeyondScope = "beyond-scope",
    /// Too many packets wait for this neighbour, or for too many neighbours.
    NeighbourQueueFull = "neighbour-queue-full",
    /// The neighbour did not answer in time.
    NeighbourTimeout = "neighbour-timeout",
    /// No free chunk for a packet that the router had to make.
    NoBuffer = "no-buffer",
    /// No room in front of the packet for an 802.1Q tag.
    NoHeadroom = "no-headroom",
    /// The way out names a port that this worker does not serve.
    NoPort = "no-port",
    /// The transmit ring of the way out is full.
    TransmitRingFull = "transmit-ring-full",
    /// The interface of the way out is gone, or is about to be taken over again.
    PortGone = "port-gone",
    /// The way to the kernel is full.
    PuntQueueFull = "punt-queue-full",
    /// The kernel did not take it: the interface by which it gets packets is down, or this is none.
    PuntRefused = "punt-refused",
    /// More packets at once than a worker leaves to the kernel, which costs it a system call each.
    PuntLimited = "punt-limited",
    /// An encoded packet refers to one that this decoder does not have.
    RedundancyMissing = "redundancy-missing",
    /// An encoded packet is malformed, damaged or too long.
    RedundancyDamaged = "redundancy-damaged",
    /// No security association has this SPI.
    EspUnknown = "esp-unknown-association",
    /// The ESP packet is not authentic: forged, damaged, or sealed with another key.
    EspForged = "esp-forged",
    /// The sequence number was received before or lies below the anti-replay window.
    EspReplayed = "esp-replayed",
    /// What was decrypted is no tunnelled IP packet, or the ESP packet lacks parts.
    EspMalformed = "esp-malformed",
    /// A fragment of an ESP packet: it would have to be put together first.
    EspFragment = "esp-fragment",
    /// An ESP packet that only hides how much is sent (RFC 4303 2.6).
    EspDummy = "esp-dummy",
    /// The security association is at its end: time, bytes or packets.
    EspExpired = "esp-expired",
    /// No sequence number is left, or none is reserved yet.
    EspExhausted = "esp-sequence-exhausted",
    /// A policy says protect, and there is no security association.
    NoAssociation = "ipsec-no-association",
    /// A policy discards it, or it came in clear or by another tunnel than its policy says.
    Policy = "ipsec-policy",
    /// It met congestion in a tunnel, and its ends know nothing of ECN (RFC 6040 4.2).
    Congestion = "tunnel-congestion",
    /// The worker ended while it held the packet.
    Shutdown = "shutdown",
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_dense_and_names_unique() {
        let mut names = Vec::new();
        for (number, reason) in DropReason::ALL.iter().enumerate() {
            assert_eq!(*reason as usize, number);
            assert!(!reason.description().is_empty());
            names.push(reason.name());
        }
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), DropReason::ALL.len());
    }
}

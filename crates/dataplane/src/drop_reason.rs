//! Reasons why frames are dropped. Every drop has one reason, and each reason has a counter.

macro_rules! drop_reasons {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal,)+) => {
        /// Reason why a frame was dropped.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum DropReason {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl DropReason {
            /// All reasons, in the order of their numbers.
            pub const ALL: &[Self] = &[$(Self::$variant,)+];

            /// Returns the name of the reason's counter.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }

            /// Returns the meaning of the reason, in one sentence.
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
    /// The IP length field does not fit the header or the frame, or exceeds the longest datagram.
    BadLength = "bad-length",
    /// The source address cannot be that of another host (RFC 1812 5.3.7, RFC 4291 2.5).
    MartianSource = "martian-source",
    /// The destination address cannot be that of a host.
    MartianDestination = "martian-destination",
    /// The TTL or hop limit is used up.
    TtlExpired = "ttl-expired",
    /// No route leads to the destination.
    NoRoute = "no-route",
    /// A blackhole route: discarded silently, as configured.
    Blackhole = "blackhole",
    /// An unreachable route: discarded, and the source is notified.
    Unreachable = "unreachable",
    /// A prohibit route: discarded, and the source is notified.
    Prohibited = "prohibited",
    /// The packet exceeds the MTU of the egress interface and must not be fragmented.
    TooBig = "too-big",
    /// Too many packets wait for this neighbour, or packets wait for too many neighbours.
    NeighbourQueueFull = "neighbour-queue-full",
    /// The neighbour did not answer in time.
    NeighbourTimeout = "neighbour-timeout",
    /// There is no free chunk for a packet that the router has to generate.
    NoBuffer = "no-buffer",
    /// There is no room before the packet for an 802.1Q tag.
    NoHeadroom = "no-headroom",
    /// The egress port is not served by this worker.
    NoPort = "no-port",
    /// The transmit ring of the egress port is full.
    TransmitRingFull = "transmit-ring-full",
    /// The egress interface is gone, or is about to be taken over again.
    PortGone = "port-gone",
    /// The queue to the kernel is full.
    PuntQueueFull = "punt-queue-full",
    /// The kernel refused it: its interface for punted packets is down or missing.
    PuntRefused = "punt-refused",
    /// The router has no TUN device through which packets reach the kernel.
    PuntUnavailable = "punt-unavailable",
    /// An encoded packet refers to a packet that this decoder does not have.
    RedundancyMissing = "redundancy-missing",
    /// The encoded packet is not authentic: forged, or the two routers have different secrets.
    RedundancyForged = "redundancy-forged",
    /// An encoded packet is malformed, damaged or too long.
    RedundancyDamaged = "redundancy-damaged",
    /// No security association has this SPI.
    EspUnknown = "esp-unknown-association",
    /// The ESP packet is not authentic: forged, damaged, or sealed with another key.
    EspForged = "esp-forged",
    /// The sequence number was received before or lies below the anti-replay window.
    EspReplayed = "esp-replayed",
    /// The decrypted data is no tunnelled IP packet, or the ESP packet is incomplete.
    EspMalformed = "esp-malformed",
    /// A fragment of an ESP packet, which would have to be reassembled first.
    EspFragment = "esp-fragment",
    /// A dummy ESP packet, which only hides the amount of traffic (RFC 4303 2.6).
    EspDummy = "esp-dummy",
    /// The lifetime of the security association has ended: time, bytes or packets.
    EspExpired = "esp-expired",
    /// The security association has no sequence number left, or none is reserved yet.
    EspExhausted = "esp-sequence-exhausted",
    /// A policy requires protection, and there is no security association.
    NoAssociation = "ipsec-no-association",
    /// A policy discards it, or it did not come through the tunnel that the policy requires.
    Policy = "ipsec-policy",
    /// The packet met congestion in a tunnel, and its ends do not support ECN (RFC 6040 4.2).
    Congestion = "tunnel-congestion",
    /// No rule of the port's access list permits it.
    AclDenied = "acl-denied",
    /// The port's access list tests its protocol or ports, and its headers do not show them.
    AclUnreadable = "acl-unreadable",
    /// Rules of its port apply to forwarded packets, the kernel might forward it, and no rule can
    /// be applied to it.
    Unjudged = "unjudged",
    /// Its source address has no route, or none through the port on which it arrived (RFC 3704).
    ReversePath = "reverse-path",
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

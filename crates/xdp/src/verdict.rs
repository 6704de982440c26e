//! Verdicts of the XDP program, and its counters.

use std::collections::BTreeMap;
use wattline_units::named;

/// Ending of the names of verdicts by which a frame is dropped and nobody else counts it.
const DROPPED: &str = "_dropped";

named! {
    /// Verdict on a frame: why the kernel got it or it was dropped, or that a socket got it.
    ///
    /// The number is the index of its counter.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    #[repr(u32)]
    pub enum Verdict {
        /// Transit unicast: handed to the socket of its queue.
        Redirected = "redirected",
        /// Transit unicast: forwarded by the program itself, without a socket.
        Forwarded = "forwarded",
        /// The same, but the interface that it was to leave by had just gone: dropped.
        NoEgressPort = "no_egress_port",
        /// Transit unicast, but no socket serves its queue.
        NoSocket = "no_socket",
        /// Too short for its headers.
        Short = "short",
        /// Sent to a multicast or broadcast address of the link.
        LinkMulticast = "link_multicast",
        /// Sent to another station of the link.
        OtherStation = "other_station",
        /// Tagged with a VLAN that is not routed here.
        Vlan = "vlan",
        /// Neither IPv4 nor IPv6: ARP and the like.
        NotIp = "not_ip",
        /// The IP version contradicts the EtherType.
        Malformed = "malformed",
        /// IPv4 options or IPv6 hop-by-hop options.
        Options = "options",
        /// TTL or hop limit of 0 or 1.
        TimeToLive = "time_to_live",
        /// To a multicast or reserved IP address.
        Multicast = "multicast",
        /// From or to an address that no router forwards: unspecified, loopback, from multicast.
        Martian = "martian",
        /// From or to a link-local address.
        LinkLocal = "link_local",
        /// Longer than what the sockets take.
        TooLong = "too_long",
        /// To an address of this machine.
        Local = "local",
        /// Transit unicast, but no socket serves its queue, on an interface that is guarded: dropped.
        NoWorker = "no_worker_dropped",
        /// Longer than what the sockets take, on an interface that is guarded: dropped.
        TooLongForWorkers = "too_long_dropped",
        /// Tags of a VLAN that is not routed here, or a tag of number 0 before another, on an interface that
        /// is guarded and before a packet that is not for this machine: dropped.
        Tags = "tags_dropped",
        /// From or to a prefix whose packets are left to the kernel; where flows of a flowtable are forwarded, of
        /// none of these.
        Left = "left",
        /// Sent to another station, of which this machine may have an interface (macvlan), or to a group of
        /// the link, on an interface that is guarded, and by its IP address neither for this machine nor for
        /// a group: dropped.
        Station = "station_dropped",
        /// Protocol that the kernel may unpack (MPLS, PPPoE, MACsec) or that is not known, on a guarded
        /// interface: dropped.
        Protocol = "protocol_dropped",
        /// From or to a prefix that the kernel would do more with than route, or of a family that it does not
        /// forward, on an interface that is guarded: dropped.
        ForwardingOff = "forwarding_off_dropped",
        /// Reply to a DHCP client, which reads frames itself: its address is not one of this machine yet.
        Client = "dhcp_client",
        /// Neighbour discovery for another machine, for which this one may answer.
        NeighbourDiscovery = "neighbour_discovery",
        /// By a route that leaves by no port, or that the kernel alone understands.
        KernelRoute = "kernel_route",
        /// Leaves by the interface that it came in by, so that the kernel may send its sender a redirect.
        SameInterface = "same_interface",
        /// Its checksum is left to hardware that a virtual interface does not have.
        Unfinished = "unfinished_checksum",
    }
}

impl Verdict {
    /// Those of frames that the kernel's stack never sees.
    const KEPT: [Self; 9] = [
        Self::Redirected,
        Self::Forwarded,
        Self::NoEgressPort,
        Self::NoWorker,
        Self::TooLongForWorkers,
        Self::Tags,
        Self::Station,
        Self::Protocol,
        Self::ForwardingOff,
    ];
}

/// Frames by verdict, over all processors, since the program was loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct XdpCounters([u64; Verdict::ALL.len()]);

impl XdpCounters {
    /// Frames with this verdict.
    pub fn get(&self, verdict: Verdict) -> u64 {
        self.0[verdict as usize]
    }

    /// Frames handed to sockets.
    pub fn redirected(&self) -> u64 {
        self.get(Verdict::Redirected)
    }

    /// Frames given to the kernel's stack.
    pub fn passed(&self) -> u64 {
        let kept: u64 = Verdict::KEPT.into_iter().map(|verdict| self.get(verdict)).sum();
        self.0.iter().sum::<u64>() - kept
    }

    /// Frames that were dropped before anybody received them, by reason.
    pub fn dropped(&self) -> BTreeMap<String, u64> {
        let of = |(verdict, count): (Verdict, u64)| {
            let reason = verdict.name().strip_suffix(DROPPED).filter(|_| count > 0)?;
            Some((format!("xdp-{}", reason.replace('_', "-")), count))
        };
        self.iter().filter_map(of).collect()
    }

    /// Adds the counts of another program.
    pub fn merge(&mut self, other: &Self) {
        self.0.iter_mut().zip(other.0).for_each(|(sum, count)| *sum += count);
    }

    /// Verdicts and their counts.
    pub fn iter(&self) -> impl Iterator<Item = (Verdict, u64)> + '_ {
        Verdict::ALL.into_iter().map(|verdict| (verdict, self.get(verdict)))
    }

    pub(super) fn set(&mut self, verdict: Verdict, count: u64) {
        self.0[verdict as usize] = count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_dense_and_names_unique() {
        for (index, verdict) in Verdict::ALL.into_iter().enumerate() {
            assert_eq!(verdict as usize, index);
        }
        let names: std::collections::HashSet<_> = Verdict::ALL.map(Verdict::name).into();
        assert_eq!(names.len(), Verdict::ALL.len());
    }

    #[test]
    fn frames_of_a_program_are_kept_passed_or_dropped() {
        let mut one = XdpCounters::default();
        for verdict in Verdict::ALL {
            one.set(verdict, 1);
        }
        let mut sum = one;
        sum.merge(&one);
        let dropped: u64 = sum.dropped().values().sum();
        assert_eq!((sum.passed(), dropped), (2 * 20, 2 * 6), "{:?}", sum.dropped());
        assert_eq!(sum.dropped()["xdp-no-worker"], 2);
        assert!(XdpCounters::default().dropped().is_empty());
    }
}

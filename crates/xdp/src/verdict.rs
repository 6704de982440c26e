//! Verdicts of the XDP program, and its counters.

use std::collections::BTreeMap;
use wattline_units::named;

/// Ending of the names of verdicts by which a frame is dropped and not counted elsewhere.
const DROPPED: &str = "_dropped";

named! {
    /// Verdict on a frame: handed to a socket or forwarded, or the reason why it was left to the
    /// kernel or dropped.
    ///
    /// The number is the index of its counter.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    #[repr(u32)]
    pub enum Verdict {
        /// Transit unicast: handed to the socket of its queue.
        Redirected = "redirected",
        /// Transit unicast: forwarded by the program itself, without a socket.
        Forwarded = "forwarded",
        /// The same, but its egress interface had just been removed: dropped.
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
        /// Too long for the sockets.
        TooLong = "too_long",
        /// To an address of this machine.
        Local = "local",
        /// Transit unicast, but no socket serves its queue, on a guarded interface: dropped.
        NoWorker = "no_worker_dropped",
        /// Too long for the sockets, on a guarded interface: dropped.
        TooLongForWorkers = "too_long_dropped",
        /// On a guarded interface, a packet that is not for this machine, with a VLAN tag that is
        /// not routed here or a tag of number 0 before another: dropped.
        Tags = "tags_dropped",
        /// From or to a prefix whose packets are left to the kernel; in the program for flows of a
        /// flowtable, of no such flow.
        Left = "left",
        /// On a guarded interface, sent to another station, which may be an interface of this
        /// machine (macvlan), or to a group of the link, and by its IP address neither for this
        /// machine nor for a group: dropped.
        Station = "station_dropped",
        /// Protocol that is unknown or that the kernel may unpack (MPLS, PPPoE, MACsec), on a
        /// guarded interface: dropped.
        Protocol = "protocol_dropped",
        /// On a guarded interface, from or to a prefix that the kernel would do more with than
        /// route, or of a family that it does not forward: dropped.
        ForwardingOff = "forwarding_off_dropped",
        /// Reply to a DHCP client, which reads frames itself: its address is not one of this machine yet.
        Client = "dhcp_client",
        /// Neighbour discovery for another machine, for which this one may answer.
        NeighbourDiscovery = "neighbour_discovery",
        /// By a route that leaves by no port, or that only the kernel understands.
        KernelRoute = "kernel_route",
        /// Leaves by its ingress interface, so that the kernel may send a redirect to its sender.
        SameInterface = "same_interface",
        /// Its checksum is left to hardware that a virtual interface does not have.
        Unfinished = "unfinished_checksum",
    }
}

impl Verdict {
    /// Verdicts of frames that the kernel's stack never sees.
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
    /// Returns the number of frames with this verdict.
    pub fn get(&self, verdict: Verdict) -> u64 {
        self.0[verdict as usize]
    }

    /// Returns the number of frames handed to sockets.
    pub fn redirected(&self) -> u64 {
        self.get(Verdict::Redirected)
    }

    /// Returns the number of frames left to the kernel's stack.
    pub fn passed(&self) -> u64 {
        let kept: u64 = Verdict::KEPT.into_iter().map(|verdict| self.get(verdict)).sum();
        self.0.iter().sum::<u64>() - kept
    }

    /// Returns the frames dropped by the program, by reason.
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

    /// Iterates over the verdicts and their counts.
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

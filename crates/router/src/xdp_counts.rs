//! Counts of forwarding by XDP programs, across additions and removals of ports.
//!
//! Each program counts sent frames by the slot of the egress port, and a slot continues to count
//! for the next port in its place. This module keeps the counts of removed ports, so that the
//! router's sums never fall, and subtracts them from the later ports' counts, which begin at 0.

use crate::stats::{Departed, XdpTraffic};
use std::cell::RefCell;
use std::collections::BTreeMap;
use wattline_dataplane::port::PortId;
use wattline_xdp::Sent;

/// Sent and refused frames of all programs, as counted by the kernel.
#[derive(Debug, Clone, Default)]
pub(super) struct Counted {
    /// By ingress and egress port.
    pub sent: BTreeMap<(PortId, PortId), Sent>,
    /// By egress port.
    pub refused: BTreeMap<PortId, u64>,
    /// Frames without an egress port, by ingress port.
    pub no_egress_port: BTreeMap<PortId, u64>,
}

/// The accounts of removed ports.
#[derive(Debug, Default)]
pub(super) struct XdpCounts {
    departed: Departed,
    /// Part of the kernel's counts that belongs to earlier ports of the same place.
    sent_before: BTreeMap<(PortId, PortId), Sent>,
    refused_before: BTreeMap<PortId, u64>,
    /// Frames that removed programs sent to present ports.
    sent_by_gone: BTreeMap<PortId, Sent>,
    /// Bytes of refused frames, by egress port, as of the last reading.
    refusals: RefCell<BTreeMap<PortId, Refusals>>,
}

/// Estimate of the bytes of frames that an interface refused: the kernel reports only their number.
/// All frames between two readings count with their mean length.
#[derive(Debug, Clone, Copy, Default)]
struct Refusals {
    handed: Sent,
    refused: u64,
    refused_bytes: f64,
    taken_bytes: u64,
}

impl Refusals {
    /// Takes a reading of the frames handed to an interface and of the refused ones. Returns the
    /// bytes of accepted frames, which never fall.
    fn read(&mut self, handed: Sent, refused: u64) -> u64 {
        let packets = handed.packets.saturating_sub(self.handed.packets);
        let bytes = handed.bytes.saturating_sub(self.handed.bytes);
        let more = refused.saturating_sub(self.refused);
        // A frame that was handed over before the last reading may be refused after it.
        let (packets, bytes) =
            if packets == 0 { (handed.packets, handed.bytes) } else { (packets, bytes) };
        let length = bytes as f64 / packets.max(1) as f64;
        self.refused_bytes += more as f64 * length;
        (self.handed, self.refused) = (handed, refused);
        let taken = handed.bytes.saturating_sub(self.refused_bytes.round() as u64);
        self.taken_bytes = self.taken_bytes.max(taken);
        self.taken_bytes
    }
}

impl XdpCounts {
    /// Returns the traffic of the first `ports`.
    pub fn traffic(&self, counted: &Counted, ports: usize) -> Vec<XdpTraffic> {
        let mut traffic = vec![XdpTraffic::default(); ports];
        for ((from, to), sent) in &counted.sent {
            if let Some(from) = traffic.get_mut(usize::from(from.0)) {
                from.received_packets += sent.packets;
                from.received_bytes += sent.bytes;
            }
            if let Some(out) = traffic.get_mut(usize::from(to.0)) {
                let before = self.sent_before.get(&(*from, *to)).copied().unwrap_or_default();
                out.transmitted_packets += sent.packets.saturating_sub(before.packets);
                out.transmitted_bytes += sent.bytes.saturating_sub(before.bytes);
            }
        }
        for (port, traffic) in (0..).map(PortId).zip(&mut traffic) {
            let gone = self.sent_by_gone.get(&port).copied().unwrap_or_default();
            traffic.transmitted_packets += gone.packets;
            traffic.transmitted_bytes += gone.bytes;
            let refused = counted.refused.get(&port).copied().unwrap_or(0);
            let before = self.refused_before.get(&port).copied().unwrap_or(0);
            traffic.refused_packets = refused.saturating_sub(before);
            let handed =
                Sent { packets: traffic.transmitted_packets, bytes: traffic.transmitted_bytes };
            let mut refusals = self.refusals.borrow_mut();
            let refusals = refusals.entry(port).or_default();
            traffic.transmitted_bytes = refusals.read(handed, traffic.refused_packets);
            traffic.transmitted_packets =
                traffic.transmitted_packets.saturating_sub(traffic.refused_packets);
        }
        traffic
    }

    /// Returns the counts of removed ports.
    pub fn departed(&self) -> Departed {
        self.departed
    }

    /// Removes a port, whose program is about to be removed: these are the last counts.
    pub fn remove(&mut self, port: PortId, counted: &Counted) {
        let place = usize::from(port.0);
        let last = self.traffic(counted, place + 1)[place];
        let Departed { transmitted, refused, no_egress_port } = &mut self.departed;
        *transmitted += last.transmitted_packets;
        *refused += last.refused_packets;
        *no_egress_port += counted.no_egress_port.get(&port).copied().unwrap_or(0);
        for ((from, to), sent) in &counted.sent {
            if *from == port && *to != port {
                let before = self.sent_before.get(&(*from, *to)).copied().unwrap_or_default();
                let gone = self.sent_by_gone.entry(*to).or_default();
                gone.packets += sent.packets.saturating_sub(before.packets);
                gone.bytes += sent.bytes.saturating_sub(before.bytes);
            }
            if *to == port {
                self.sent_before.insert((*from, *to), *sent);
            }
        }
        self.sent_by_gone.remove(&port);
        self.refusals.get_mut().remove(&port);
        // The next program in this place counts from 0.
        self.sent_before.retain(|(from, _), _| *from != port);
        let refused = counted.refused.get(&port).copied().unwrap_or(0);
        self.refused_before.insert(port, refused);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(packets: u64) -> Sent {
        Sent { packets, bytes: 100 * packets }
    }

    fn counted(sums: &[(u16, u16, u64)], refused: &[(u16, u64)]) -> Counted {
        let sums =
            sums.iter().map(|(from, to, count)| ((PortId(*from), PortId(*to)), sent(*count)));
        let refused = refused.iter().map(|(port, count)| (PortId(*port), *count)).collect();
        Counted { sent: sums.collect(), refused, no_egress_port: BTreeMap::new() }
    }

    /// Returns the sum of sent frames, of present and removed ports.
    fn sum(counts: &XdpCounts, counted: &Counted) -> u64 {
        let ports = counts.traffic(counted, 4);
        let out = |port: &XdpTraffic| port.transmitted_packets + port.refused_packets;
        let Departed { transmitted, refused, .. } = counts.departed();
        ports.iter().map(out).sum::<u64>() + transmitted + refused
    }

    #[test]
    fn sums_never_fall_and_the_next_port_in_a_place_begins_at_0() {
        let mut counts = XdpCounts::default();
        let before = counted(&[(0, 1, 10), (1, 0, 20), (2, 1, 5), (1, 2, 3)], &[(1, 4)]);
        assert_eq!(sum(&counts, &before), 38);
        assert_eq!(counts.traffic(&before, 3)[1].transmitted_packets, 11);
        counts.remove(PortId(1), &before);
        // Its program is gone, and slots of others continue to count.
        let after = counted(&[(0, 1, 10), (2, 1, 5)], &[(1, 4)]);
        assert_eq!(sum(&counts, &after), 38);
        let ports = counts.traffic(&after, 3);
        assert_eq!(ports[1], XdpTraffic::default());
        assert_eq!((ports[0].transmitted_packets, ports[0].transmitted_bytes), (20, 2000));
        assert_eq!((ports[0].received_packets, ports[2].transmitted_packets), (10, 3));
        // The next port in its place, and its removal.
        let next = counted(&[(0, 1, 17), (2, 1, 5), (1, 0, 2), (1, 2, 1)], &[(1, 5)]);
        assert_eq!(sum(&counts, &next), 38 + 7 + 3);
        let ports = counts.traffic(&next, 3);
        assert_eq!((ports[1].transmitted_packets, ports[1].refused_packets), (6, 1));
        assert_eq!((ports[1].received_packets, ports[0].transmitted_packets), (3, 22));
        counts.remove(PortId(1), &next);
        let last = counted(&[(0, 1, 17), (2, 1, 5)], &[(1, 5)]);
        assert_eq!(sum(&counts, &last), 48);
        assert_eq!(counts.traffic(&last, 3)[1], XdpTraffic::default());
        // The other one is removed too: frames sent to earlier ports in its place count once.
        counts.remove(PortId(0), &last);
        assert_eq!(sum(&counts, &counted(&[(2, 1, 5)], &[(1, 5)])), 48);
    }

    #[test]
    fn refused_frames_do_not_count_as_transmitted_bytes() {
        let counts = XdpCounts::default();
        let out = |sent: (u64, u64), refused: u64| {
            let sent = Sent { packets: sent.0, bytes: sent.1 };
            let sent = BTreeMap::from([((PortId(0), PortId(1)), sent)]);
            let refused = BTreeMap::from([(PortId(1), refused)]);
            let counted = Counted { sent, refused, no_egress_port: BTreeMap::new() };
            let port = counts.traffic(&counted, 2)[1];
            (port.transmitted_packets, port.transmitted_bytes, port.refused_packets)
        };
        assert_eq!(out((4, 400), 4), (0, 0, 4), "all are refused");
        assert_eq!(out((14, 15_400), 4), (10, 15_000, 4), "frames of another length");
        assert_eq!(out((14, 15_400), 4), (10, 15_000, 4), "a reading changes nothing");
        // Half of ten frames of 200 bytes.
        assert_eq!(out((24, 17_400), 9), (15, 16_000, 9));
        // Reported late: the published counts do not fall.
        assert_eq!(out((24, 17_400), 10), (14, 16_000, 10));
        assert!(out((34, 18_400), 10).1 > 16_000);
    }
}

//! Output links: packets leave the cores through transmit rings and links.
//!
//! Cores run ahead of each other, and each finishes packets in its own order. The packets are
//! collected here. Once all cores have reached a time, the packets finished by then are sorted and
//! sent, first come first served on each link.

use crate::link::Link;
use std::collections::VecDeque;
use wattline_server::Nic as NicModel;

/// A packet that its core has finished.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Departure {
    /// Arrival time in picoseconds.
    pub arrival: u64,
    /// Time in picoseconds at which the core finished it, or at which it was released.
    pub done: u64,
    /// Hash of its flow.
    pub flow: u32,
    /// Length in bytes.
    pub length: u16,
    /// Port on which it arrived.
    pub port: u8,
    /// Core that served it.
    pub core: u8,
}

/// Transmit rings, one for each core and port, and output links, one for each port.
#[derive(Debug)]
pub struct Egress {
    /// One of the equal links; it gives the time that a packet occupies a link.
    pace: Link,
    outputs: Vec<Output>,
    /// Departures that are not sorted yet.
    pending: Vec<Departure>,
    /// Capacity of a transmit ring in packets.
    capacity: usize,
    /// Number of packets in the ring of each core and port, core by core.
    fills: Vec<usize>,
    /// Counts of sent and dropped packets.
    pub counts: EgressCounts,
}

/// An output link and the packets of all its rings, in the order of transmission.
#[derive(Debug, Default)]
struct Output {
    /// Time at which the link becomes free, in picoseconds.
    free: u64,
    queue: VecDeque<Sent>,
}

#[derive(Debug)]
struct Sent {
    arrival: u64,
    /// Time at which the last bit is on the link, in picoseconds.
    exit: u64,
    length: u16,
    ring: usize,
}

/// Counts since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EgressCounts {
    /// Packets whose last bit has been sent.
    pub packets: u64,
    /// Bytes of the sent packets.
    pub bytes: u64,
    /// Packets dropped because their transmit ring was full.
    pub drops: u64,
    /// Sum of the times at which packets left or were dropped, modulo 2^64.
    pub departure_sum: u64,
}

impl Egress {
    /// Output links, all free, for this many cores.
    pub fn new(model: &NicModel, cores: usize) -> Self {
        Self {
            pace: Link::new(model),
            outputs: (0..model.ports).map(|_| Output::default()).collect(),
            pending: Vec::new(),
            capacity: model.tx_ring.unwrap_or(usize::MAX),
            fills: vec![0; cores * model.ports],
            counts: EgressCounts::default(),
        }
    }

    /// Time in picoseconds for which a packet of this length occupies its link.
    pub fn picos(&self, bytes: u16) -> u64 {
        self.pace.busy(bytes)
    }

    /// Accepts a packet from a core.
    #[inline]
    pub fn push(&mut self, departure: Departure) {
        self.pending.push(departure);
    }

    /// Returns the number of accepted packets that are not sent yet.
    pub fn inside(&self) -> u64 {
        let queued: usize = self.outputs.iter().map(|output| output.queue.len()).sum();
        (self.pending.len() + queued) as u64
    }

    /// Sends the packets that cores finished before `now`; the cores must have reached `now`. Calls
    /// `left` with arrival and exit of each packet whose last bit is sent by `now`.
    pub fn carry(&mut self, now: u64, mut left: impl FnMut(u64, u64)) {
        // Each core finishes packets in order, so a sort that merges runs is nearly linear. Packets
        // of a flow that were held back until the same moment stay in order of arrival.
        self.pending.sort_by_key(|departure| (departure.done, departure.arrival));
        let due = self.pending.partition_point(|departure| departure.done <= now);
        let ports = self.outputs.len();
        for departure in self.pending.drain(..due) {
            let port = output_of(departure.flow, ports);
            let ring = usize::from(departure.core) * ports + port;
            let output = &mut self.outputs[port];
            output.finish(departure.done, &mut self.fills, &mut self.counts, &mut left);
            if self.fills[ring] >= self.capacity {
                self.counts.drops += 1;
                self.counts.departure_sum = self.counts.departure_sum.wrapping_add(departure.done);
                continue;
            }
            self.fills[ring] += 1;
            let exit = departure.done.max(output.free) + self.pace.busy(departure.length);
            output.free = exit;
            let Departure { arrival, length, .. } = departure;
            output.queue.push_back(Sent { arrival, exit, length, ring });
        }
        for output in &mut self.outputs {
            output.finish(now, &mut self.fills, &mut self.counts, &mut left);
        }
    }
}

impl Output {
    /// Frees the descriptors of all packets that are sent by `now`.
    fn finish(
        &mut self,
        now: u64,
        fills: &mut [usize],
        counts: &mut EgressCounts,
        left: &mut impl FnMut(u64, u64),
    ) {
        while self.queue.front().is_some_and(|sent| sent.exit <= now)
            && let Some(sent) = self.queue.pop_front()
        {
            fills[sent.ring] -= 1;
            counts.packets += 1;
            counts.bytes += u64::from(sent.length);
            counts.departure_sum = counts.departure_sum.wrapping_add(sent.exit);
            left(sent.arrival, sent.exit);
        }
    }
}

/// Returns the egress port of a flow. It depends only on the flow, not on ingress port or core, and
/// all ports are equally likely.
fn output_of(flow: u32, ports: usize) -> usize {
    // Uses all bits of the hash; the indirection table uses only the low ones as its index.
    let mixed = flow.wrapping_mul(0x9e37_79b1);
    let mixed = (mixed ^ (mixed >> 15)).wrapping_mul(0x85eb_ca77);
    ((u64::from(mixed) * ports as u64) >> 32) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rand::SeedableRng as _;
    use rand::rngs::Xoshiro256PlusPlus;
    use wattline_server::ServerFile;

    const CORES: usize = 3;

    fn model(ports: usize, tx_ring: Option<usize>) -> NicModel {
        let file = ServerFile::load("westmere-2010").unwrap();
        NicModel { ports, tx_ring, ..file.model().unwrap().nic.clone() }
    }

    /// Reference that handles one packet at a time. It finds the earliest remaining departure, and
    /// searches all earlier ones for packets still in its ring or before it on its link.
    fn by_brute_force(model: &NicModel, all: &[Departure]) -> (Vec<(u64, u64)>, u64) {
        let mut order = all.to_vec();
        order.sort_by_key(|departure| (departure.done, departure.arrival));
        let link = Link::new(model);
        let mut sent: Vec<(usize, u8, u64, u64)> = Vec::new();
        let mut drops = 0;
        for departure in order {
            let port = output_of(departure.flow, model.ports);
            let mine = sent.iter().filter(|(to, core, exit, _)| {
                (*to, *core) == (port, departure.core) && *exit > departure.done
            });
            if mine.count() >= model.tx_ring.unwrap_or(usize::MAX) {
                drops += 1;
                continue;
            }
            let before = sent.iter().filter(|(to, ..)| *to == port).map(|(.., exit, _)| *exit);
            let begin = before.max().unwrap_or(0).max(departure.done);
            let exit = begin + link.busy(departure.length);
            sent.push((port, departure.core, exit, departure.arrival));
        }
        let mut left: Vec<(u64, u64)> =
            sent.into_iter().map(|(.., exit, arrival)| (arrival, exit)).collect();
        left.sort();
        (left, drops)
    }

    proptest! {
        /// The result depends neither on the calls in between nor on how far cores run ahead.
        #[test]
        fn links_carry_in_the_order_of_time(
            packets in prop::collection::vec(
                (0..CORES as u8, 1u64..400_000, 0u32..40, 64u16..1500),
                0..150,
            ),
            marks in prop::collection::vec(0u64..12_000_000, 0..12),
            ports in 1usize..4,
            ring in prop::option::of(1usize..6),
        ) {
            let model = model(ports, ring);
            let mut at = [0; CORES];
            let mut by_core: [Vec<Departure>; CORES] = Default::default();
            for (number, (core, gap, flow, length)) in packets.into_iter().enumerate() {
                let done = &mut at[usize::from(core)];
                *done += gap;
                let arrival = number as u64;
                let departure = Departure { arrival, done: *done, flow, length, port: 0, core };
                by_core[usize::from(core)].push(departure);
            }
            let all: Vec<Departure> = by_core.concat();
            let (expected, drops) = by_brute_force(&model, &all);
            let mut egress = Egress::new(&model, CORES);
            let mut left = Vec::new();
            let mut marks = marks;
            marks.sort_unstable();
            marks.push(u64::MAX / 2);
            let mut ahead = by_core.map(|departures| departures.into_iter().peekable());
            for mark in marks {
                for departures in &mut ahead {
                    while departures.peek().is_some_and(|next| next.done <= mark) {
                        departures.next().into_iter().for_each(|next| egress.push(next));
                    }
                    // One more packet begins before the mark and ends after it.
                    departures.next().into_iter().for_each(|next| egress.push(next));
                }
                egress.carry(mark, |arrival, exit| {
                    assert!(exit <= mark);
                    left.push((arrival, exit));
                });
                let known = left.len() as u64 + egress.counts.drops + egress.inside();
                let rest: usize = ahead.iter().map(ExactSizeIterator::len).sum();
                prop_assert_eq!(known as usize + rest, all.len());
            }
            left.sort_unstable();
            prop_assert_eq!(egress.counts.drops, drops);
            prop_assert_eq!(egress.counts.packets, left.len() as u64);
            prop_assert_eq!(left, expected);
        }
    }

    #[test]
    fn random_packets_wait_as_m_d_1() {
        let model = model(1, None);
        let service = Link::new(&model).busy(600);
        for load in [0.3, 0.6, 0.9] {
            let mut random = Xoshiro256PlusPlus::seed_from_u64(4);
            let mut egress = Egress::new(&model, 1);
            let (mut time, mut waited, packets) = (0.0, 0.0, 3_000_000);
            for _ in 0..packets {
                let unit = ((random.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64;
                time -= unit.ln() * service as f64 / load;
                let now = time as u64;
                let departure =
                    Departure { arrival: now, done: now, flow: 1, length: 600, port: 0, core: 0 };
                egress.push(departure);
                egress.carry(now, |done, exit| waited += (exit - done - service) as f64);
            }
            egress.carry(u64::MAX / 2, |done, exit| waited += (exit - done - service) as f64);
            // Pollaczek-Khinchine formula, in units of the service time.
            let theory = load / (2.0 * (1.0 - load));
            let simulated = waited / f64::from(packets) / service as f64;
            assert!((simulated / theory - 1.0).abs() < 0.02, "{load}: {simulated} for {theory}");
        }
    }

    #[test]
    fn flows_leave_by_all_ports_alike() {
        for ports in [1, 3, 4, 64] {
            let mut counts = vec![0.0; ports];
            let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
            for _ in 0..100_000 {
                counts[output_of(random.next_u64() as u32, ports)] += ports as f64 / 1e5;
            }
            assert!(counts.iter().all(|share| (share - 1.0).abs() < 0.1), "{counts:?}");
            // This holds for every entry of the indirection table.
            let entry = |number: u32| (0..4000).map(move |i| output_of((i << 7) | number, ports));
            let first = entry(5).filter(|&port| port == 0).count() as f64;
            assert!((first * ports as f64 / 4000.0 - 1.0).abs() < 0.3, "{first} of {ports}");
        }
    }
}

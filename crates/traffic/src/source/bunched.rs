//! Packets of another source, gathered into bursts.

use super::{Links, Source};
use crate::capture::CaptureError;
use crate::packet::{Block, Packet};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Holds the packets of each port until a burst is complete, and then sends it back to back at the
/// link's rate. The mean rate does not change; a burst of 1 changes nothing.
pub struct Bunched {
    inner: Box<dyn Source>,
    block: Block,
    next: usize,
    burst: usize,
    links: Links,
    ports: Vec<Port>,
    /// Complete bursts.
    leaving: BinaryHeap<Reverse<Leaving>>,
    order: u64,
    /// Arrival time of the last packet of `inner`; no earlier packet will leave any more.
    now: u64,
    ended: bool,
}

/// A packet: picoseconds, order among packets of the same time, port, flow, length.
type Leaving = (u64, u64, u8, u32, u16);

#[derive(Default)]
struct Port {
    held: Vec<Packet>,
    /// Time at which the link becomes free, in picoseconds.
    free: f64,
}

impl Bunched {
    /// Gathers the packets of a source into bursts of `burst` packets, at least 1. The packets left
    /// at the end of the source form a shorter burst.
    pub fn new(inner: Box<dyn Source>, burst: u32, links: Links) -> Self {
        Self {
            inner,
            block: Block::new(),
            next: 0,
            burst: burst as usize,
            links,
            ports: Vec::new(),
            leaving: BinaryHeap::new(),
            order: 0,
            now: 0,
            ended: false,
        }
    }

    fn take(&mut self, packet: Packet) {
        self.now = packet.picos;
        let port = usize::from(packet.port);
        if self.ports.len() <= port {
            self.ports.resize_with(port + 1, Port::default);
        }
        self.ports[port].held.push(packet);
        if self.ports[port].held.len() >= self.burst {
            self.release(port);
        }
    }

    fn release(&mut self, port: usize) {
        let Self { ports, leaving, order, links, now, .. } = self;
        let port = &mut ports[port];
        // The first packet comes with the one that completes the burst; the others queue behind.
        let mut at = port.free.max(*now as f64);
        for packet in port.held.drain(..) {
            leaving.push(Reverse((at as u64, *order, packet.port, packet.flow, packet.length)));
            *order += 1;
            at += links.picos(packet.length);
        }
        port.free = at;
    }
}

impl Source for Bunched {
    fn next_block(&mut self, out: &mut Block) -> Result<(), CaptureError> {
        out.clear();
        while !out.is_full() {
            if let Some(Reverse((picos, _, port, flow, length))) = self.leaving.peek().copied()
                && (self.ended || picos <= self.now)
            {
                self.leaving.pop();
                out.push(Packet { picos, flow, length, port });
            } else if self.ended {
                break;
            } else if let Some(packet) = self.block.get(self.next).copied() {
                self.next += 1;
                self.take(packet);
            } else {
                self.inner.next_block(&mut self.block)?;
                self.next = 0;
                if self.block.is_empty() {
                    (0..self.ports.len()).for_each(|port| self.release(port));
                    self.ended = true;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Few(Vec<Packet>);

    impl Source for Few {
        fn next_block(&mut self, out: &mut Block) -> Result<(), CaptureError> {
            out.clear();
            out.extend(std::mem::take(&mut self.0).into_iter());
            Ok(())
        }
    }

    fn times(burst: u32) -> Vec<(u64, u8)> {
        let packet = |n: u64| Packet {
            picos: n * 1_000_000,
            flow: n as u32,
            length: 125,
            port: (n % 2) as u8,
        };
        let links = Links { overhead: 0, bits_per_second: 10e9, ..Links::POWERSAVE };
        let few = Few((0..7).map(packet).collect());
        let mut source = Bunched::new(Box::new(few), burst, links);
        let mut out = Block::new();
        source.next_block(&mut out).unwrap();
        let sent: Vec<_> = out.iter().map(|packet| (packet.picos, packet.port)).collect();
        source.next_block(&mut out).unwrap();
        assert!(out.is_empty());
        sent
    }

    #[test]
    fn complete_burst_of_a_port_arrives_back_to_back() {
        let own: Vec<_> = (0..7).map(|n| (n * 1_000_000, (n % 2) as u8)).collect();
        assert_eq!(times(1), own);
        // 125 bytes take 100 ns. Port 0 has four packets and port 1 three; the last one is alone.
        let expected = [
            (2_000_000, 0),
            (2_100_000, 0),
            (3_000_000, 1),
            (3_100_000, 1),
            (6_000_000, 0),
            (6_000_000, 1),
            (6_100_000, 0),
        ];
        assert_eq!(times(2), expected);
    }
}

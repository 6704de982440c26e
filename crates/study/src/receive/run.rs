//! The receive path of one host, batch by batch: the card and the driver.

use super::cache::LINE_BYTES;
use super::data::Phase;
use super::layout::{
    BUFFERS_PER_PAGE, DESCRIPTOR_BYTES, FRAME_BYTES, FRAME_LINES, PER_LINE, SKB_LINES,
    SKBS_PER_PAGE, descriptor, payload, record, shared_info, skb_line,
};
use super::machine::Machine;
use super::outcome::{Outcome, Step};
use super::path::{Buffers, Delivery, InvalidPath, ReceivePath};
use super::pool::{Packet, Pool};
use std::collections::VecDeque;

/// Packets after which the driver refills the ring (`IXGBE_RX_BUFFER_WRITE`).
const REFILL: usize = 16;

/// A chain that the driver is building.
#[derive(Clone, Copy)]
struct Chain {
    head: Packet,
    tail: Packet,
    length: usize,
}

/// A connection and its socket.
#[derive(Default)]
pub(super) struct Connection {
    chain: Option<Chain>,
    /// Packets in the socket, and whether each is the last of its chain.
    pub waiting: VecDeque<(Packet, bool)>,
    /// Bytes of the first waiting packet that have been read.
    pub begun: u32,
    /// Packets of the first chain that have been copied already.
    pub copied: Vec<Packet>,
}

/// A simulation.
pub(super) struct Run<'p> {
    pub path: &'p ReceivePath,
    pub machine: Machine,
    pub pool: Pool,
    pub connections: Vec<Connection>,
    rings: Vec<Vec<Packet>>,
    heads: Vec<usize>,
    random: u64,
    turn: usize,
    pcie_bytes: u64,
    steps: Vec<Step>,
}

impl ReceivePath {
    /// Receives `packets` packets, after aging the allocator's order and warming the caches.
    ///
    /// # Errors
    /// Fails when a size is out of range.
    pub fn run(&self, packets: u64) -> Result<Outcome, InvalidPath> {
        self.check()?;
        let mut run = Run::new(self, Machine::new(&self.caches())?);
        let posted = (self.queues * self.posted()) as u64;
        // Ages the allocator's order by some hundred rounds through the rings, which are cheap
        // without caches.
        run.receive(200 * posted);
        run.machine.awake = true;
        run.receive(2 * posted);
        run.machine.forget_counts();
        run.pcie_bytes = 0;
        let received = run.receive(packets.max(1));
        Ok(Outcome {
            packets: received,
            counts: run.machine.counts,
            memory: run.machine.memory,
            pcie_bytes: run.pcie_bytes,
            skb_distance: run.machine.reuse.distance[0],
            page_distance: run.machine.reuse.distance[1],
            steps: run.steps,
        })
    }
}

impl<'p> Run<'p> {
    fn new(path: &'p ReceivePath, machine: Machine) -> Self {
        let pool = match path.buffers {
            Buffers::Slab => {
                Pool::slab([SKBS_PER_PAGE, BUFFERS_PER_PAGE], path.shared_array, path.cores)
            }
            Buffers::Contiguous => Pool::contiguous(path.cores),
        };
        let mut run = Self {
            path,
            machine,
            pool,
            connections: (0..path.connections).map(|_| Connection::default()).collect(),
            rings: Vec::new(),
            heads: vec![0; path.queues],
            random: path.seed.max(1),
            turn: 0,
            pcie_bytes: 0,
            steps: Vec::new(),
        };
        run.rings = (0..path.queues)
            .map(|queue| (0..path.posted()).map(|_| run.take(queue % path.cores)).collect())
            .collect();
        run
    }

    /// Receives whole batches until there are `packets` packets; returns their number.
    fn receive(&mut self, packets: u64) -> u64 {
        let mut received = 0;
        while received < packets {
            // Flows are independent, so the next interrupt may be for any flow (xorshift64).
            self.random ^= self.random << 13;
            self.random ^= self.random >> 7;
            self.random ^= self.random << 17;
            let flow = (self.random % self.path.connections as u64) as usize;
            let queue = flow % self.path.queues;
            self.card(queue);
            self.driver(queue);
            received += self.path.batch as u64;
            for connection in (queue..self.path.connections).step_by(self.path.queues) {
                self.application(connection, queue % self.path.cores);
            }
        }
        received
    }

    fn slots(&self, queue: usize) -> impl Iterator<Item = usize> + use<> {
        let (head, ring) = (self.heads[queue], self.rings[queue].len());
        (0..self.path.batch).map(move |i| (head + i) % ring)
    }

    fn step(&mut self, step: Step) {
        if self.machine.awake && self.steps.len() < Step::ALL.len() && !self.steps.contains(&step) {
            self.steps.push(step);
        }
    }

    /// Performs steps 1 to 5, those of the card.
    fn card(&mut self, queue: usize) {
        // The card does not affect the order of buffers.
        if !self.machine.awake {
            return;
        }
        let (into_cache, ring) = (self.path.delivery != Delivery::Memory, self.rings[queue].len());
        self.step(Step::FetchDescriptors);
        for slot in self.slots(queue) {
            if slot % PER_LINE as usize == 0 {
                self.machine.dma_read(descriptor(queue, slot, ring), false);
            }
        }
        for slot in self.slots(queue) {
            self.step(Step::Frame);
            let packet = self.rings[queue][slot];
            self.step(Step::Transfer);
            for line in 0..FRAME_LINES {
                self.machine.dma_write(payload(packet.buffer, line), into_cache);
            }
            self.step(Step::WriteBackDescriptor);
            self.machine.dma_write(descriptor(queue, slot, ring), into_cache);
            let mut bytes = u64::from(FRAME_BYTES + 2 * DESCRIPTOR_BYTES);
            if self.path.delivery == Delivery::CacheWithMetadata {
                let pages = self.pool.pages_of(packet, self.path.page_struct);
                let lines = (0..SKB_LINES).map(|line| skb_line(packet.skb, line));
                for line in lines.chain(pages) {
                    self.machine.push(line);
                    bytes += u64::from(LINE_BYTES);
                }
            }
            self.pcie_bytes += if self.path.on_die { 0 } else { bytes };
        }
        self.step(Step::Interrupt);
    }

    /// Performs steps 6 to 9, those of the driver, and TCP/IP.
    fn driver(&mut self, queue: usize) {
        let (core, ring) = (queue % self.path.cores, self.rings[queue].len());
        self.step(Step::ReadCause);
        let flows = self.path.connections.saturating_sub(queue).div_ceil(self.path.queues).max(1);
        let head = self.heads[queue];
        for begin in (0..self.path.batch).step_by(REFILL) {
            let slots = begin..(begin + REFILL).min(self.path.batch);
            self.step(Step::Convert);
            for slot in slots.clone().map(|slot| (head + slot) % ring) {
                let packet = self.rings[queue][slot];
                self.machine.touch(core, Phase::Conversion, descriptor(queue, slot, ring), false);
                self.machine.touch(core, Phase::Conversion, record(queue, slot, ring), false);
                self.convert(core, packet);
                // The connections of a queue take turns.
                let flow = queue + self.turn % flows * self.path.queues;
                self.turn += 1;
                self.chain(core, flow, packet);
            }
            self.step(Step::Refill);
            for slot in slots.map(|slot| (head + slot) % ring) {
                let packet = self.take(core);
                for line in 0..SKB_LINES {
                    self.machine.touch(core, Phase::Refill, skb_line(packet.skb, line), true);
                }
                self.machine.touch(core, Phase::Refill, shared_info(packet.buffer), true);
                self.machine.touch(core, Phase::Refill, record(queue, slot, ring), true);
                self.machine.touch(core, Phase::Refill, descriptor(queue, slot, ring), true);
                self.rings[queue][slot] = packet;
            }
        }
        for flow in (queue..self.path.connections).step_by(self.path.queues) {
            self.end_chain(core, flow);
        }
        self.heads[queue] = (head + self.path.batch) % ring;
        self.step(Step::EnableInterrupt);
    }

    /// Reads the SKB's pointers, checks for fragments, sets its length, device-independent fields
    /// and header, and reads the packet's headers, which end in the second line.
    fn convert(&mut self, core: usize, packet: Packet) {
        let phase = Phase::Conversion;
        self.machine.touch(core, phase, skb_line(packet.skb, 3), true);
        if self.path.header_prefetch {
            self.machine.prefetch(core, phase, payload(packet.buffer, 0));
        }
        self.machine.touch(core, phase, shared_info(packet.buffer), false);
        for line in [2, 1] {
            self.machine.touch(core, phase, skb_line(packet.skb, line), true);
        }
        self.machine.read_through(core, phase, payload(packet.buffer, 0));
        self.machine.touch(core, phase, payload(packet.buffer, 1), false);
        self.machine.touch(core, phase, skb_line(packet.skb, 0), true);
    }

    /// Appends a packet to the chain of its flow.
    fn chain(&mut self, core: usize, flow: usize, packet: Packet) {
        let connection = &mut self.connections[flow];
        connection.waiting.push_back((packet, false));
        let chain = match connection.chain {
            None => Chain { head: packet, tail: packet, length: 1 },
            Some(chain) => {
                // The head gets longer, and the tail gets a successor.
                self.machine.touch(core, Phase::Conversion, skb_line(chain.head.skb, 2), true);
                let link = if chain.length == 1 {
                    shared_info(chain.head.buffer)
                } else {
                    skb_line(chain.tail.skb, 0)
                };
                self.machine.touch(core, Phase::Conversion, link, true);
                Chain { tail: packet, length: chain.length + 1, ..chain }
            }
        };
        connection.chain = Some(chain);
        if chain.length == self.path.chain {
            self.end_chain(core, flow);
        }
    }

    /// Passes the chain of a flow to TCP/IP, which reads only its first packet.
    fn end_chain(&mut self, core: usize, flow: usize) {
        let connection = &mut self.connections[flow];
        let Some(chain) = connection.chain.take() else { return };
        if let Some((_, last)) = connection.waiting.back_mut() {
            *last = true;
        }
        for line in 0..SKB_LINES {
            self.machine.touch(core, Phase::Protocol, skb_line(chain.head.skb, line), true);
        }
        for line in 0..2 {
            self.machine.touch(core, Phase::Protocol, payload(chain.head.buffer, line), true);
        }
    }
}

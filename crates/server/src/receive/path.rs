//! The receive path of one host, batch by batch, over the caches of [`super::machine`].

use super::cache::{InvalidCache, LINE_BYTES};
use super::machine::{Caches, Counts, Data, Distance, Machine, Memory, Phase};
use super::prefetch::{PAGE_LINES, Streams};
use super::slab::Slab;
use serde::Serialize;
use std::collections::VecDeque;

/// Destination of received data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Delivery {
    /// Memory; the caches lose their copies.
    Memory,
    /// Packets and descriptors go into the last-level cache (direct cache access).
    Cache,
    /// The packet's SKB and page structures go there as well.
    CacheWithMetadata,
}

/// Source of the packets' buffers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Buffers {
    /// An SKB and a buffer per packet, from the slab allocator.
    Slab,
    /// One contiguous range for SKBs and one for buffers, each reused as soon as it is free. Rings
    /// hold two batches, and the release reads no page structure.
    Contiguous,
}

/// The receive path: sizes and switches. `Default` is the paper's server with one core.
///
/// The paper prints the sizes of structures, packets per interrupt, connections, I/O size, and the
/// size of the last-level cache. Intel's documentation gives ways, level 1 and prefetcher.
/// **Assumed**, since neither gives them: [`Self::queues`], [`Self::ring`], that conversion writes
/// all four lines of an SKB, and that a lookup reads both lines of a page structure.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ReceivePath {
    /// Number of receive queues; assumed: one per core of the host.
    pub queues: usize,
    /// Descriptors per queue; assumed: the default of later versions of the driver.
    pub ring: usize,
    /// Cores that share the last-level cache and the queues.
    pub cores: usize,
    /// TCP connections, spread evenly over the queues.
    pub connections: usize,
    /// Packets per interrupt.
    pub batch: usize,
    /// Bytes per read call of the application.
    pub io_bytes: u32,
    /// Size of the shared last-level cache in bytes.
    pub llc_bytes: u64,
    /// Ways of the last-level cache.
    pub llc_ways: usize,
    /// The hardware prefetcher.
    #[serde(skip)]
    pub streams: Streams,
    /// Whether the driver prefetches headers.
    pub header_prefetch: bool,
    /// Destination of received data.
    pub delivery: Delivery,
    /// Whether the card is on the processor's die, without PCI Express in between.
    pub on_die: bool,
    /// Source of the buffers.
    pub buffers: Buffers,
    /// Whether an engine beside the cores copies payload within the cache.
    pub copy_engine: bool,
    /// Whether the stack drops packets from the caches after the copy.
    pub invalidate: bool,
    /// Seed of the sequence of queues.
    pub seed: u64,
}

impl Default for ReceivePath {
    fn default() -> Self {
        Self {
            queues: 8,
            ring: 512,
            cores: 1,
            connections: 8,
            batch: 60,
            io_bytes: 16_384,
            llc_bytes: 4 << 20,
            llc_ways: 16,
            streams: Streams::default(),
            header_prefetch: true,
            delivery: Delivery::Memory,
            on_die: false,
            buffers: Buffers::Slab,
            copy_engine: false,
            invalidate: false,
            seed: 1,
        }
    }
}

/// The nine steps between card and processor (Figure 2 of the paper).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Step {
    /// 1: the card reads ready descriptors.
    FetchDescriptors,
    /// 2: a frame arrives.
    Frame,
    /// 3: the frame is transferred into its buffer.
    Transfer,
    /// 4: the descriptor is marked used.
    WriteBackDescriptor,
    /// 5: the card interrupts.
    Interrupt,
    /// 6: the driver reads the cause of the interrupt.
    ReadCause,
    /// 7: the driver maps descriptors to SKBs.
    Convert,
    /// 8: the driver refills the ring.
    Refill,
    /// 9: the driver enables the interrupt again.
    EnableInterrupt,
}

impl Step {
    /// All steps in the paper's order.
    pub const ALL: [Self; 9] = [
        Self::FetchDescriptors,
        Self::Frame,
        Self::Transfer,
        Self::WriteBackDescriptor,
        Self::Interrupt,
        Self::ReadCause,
        Self::Convert,
        Self::Refill,
        Self::EnableInterrupt,
    ];
}

/// Counts of a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Outcome {
    /// Packets received and copied.
    pub packets: u64,
    counts: [[Counts; 5]; 5],
    memory: [Memory; 5],
    /// Bytes of data over PCI Express, without its own headers.
    pub pcie_bytes: u64,
    /// Distance between two uses of an SKB's line, at conversion.
    pub skb_distance: Distance,
    /// Distance between two uses of a page structure's line, at release.
    pub page_distance: Distance,
    /// Steps of the first batch in their order, each once.
    pub steps: Vec<Step>,
}

impl Outcome {
    /// Counts of a kind of data in a phase.
    pub fn counts(&self, phase: Phase, data: Data) -> Counts {
        self.counts[phase as usize][data as usize]
    }

    /// Demand misses of the last-level cache per packet.
    pub fn misses(&self, phase: Phase, data: Data) -> f64 {
        self.per_packet(self.counts(phase, data).llc_misses)
    }

    /// Demand misses of the last-level cache per packet in a whole phase.
    pub fn phase_misses(&self, phase: Phase) -> f64 {
        Data::ALL.iter().map(|data| self.misses(phase, *data)).sum()
    }

    /// Misses per packet due to buffer management: on SKBs and page structures, in all phases.
    pub fn management_misses(&self) -> f64 {
        let both = [Data::Skb, Data::Page];
        Phase::ALL.iter().flat_map(|phase| both.map(|data| self.misses(*phase, data))).sum()
    }

    /// Transfers of a kind of data to and from memory.
    pub fn memory(&self, data: Data) -> Memory {
        self.memory[data as usize]
    }

    /// Lines of all data to and from memory per packet.
    pub fn memory_lines(&self) -> f64 {
        self.per_packet(self.memory.iter().map(Memory::total).sum())
    }

    /// A count divided by the number of packets.
    pub fn per_packet(&self, count: u64) -> f64 {
        count as f64 / self.packets.max(1) as f64
    }
}

/// Reasons why a path cannot be simulated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidPath {
    /// The cache is invalid.
    #[error(transparent)]
    Cache(#[from] InvalidCache),
    /// A number is out of range.
    #[error("{name} is {value}; allowed: {allowed}")]
    Range {
        /// Name of the field.
        name: &'static str,
        /// Value of the field.
        value: u64,
        /// Allowed range.
        allowed: &'static str,
    },
}

/// Offset of the payload: Ethernet, IPv4 and TCP headers after two bytes that align them.
const PAYLOAD_AT: u32 = 2 + 14 + 20 + 20;
/// Payload of a full frame (MTU of 1500 B).
pub const PAYLOAD_BYTES: u32 = 1460;
/// Lines of a buffer that a full frame fills.
pub const FRAME_LINES: u32 = (PAYLOAD_AT + PAYLOAD_BYTES).div_ceil(LINE_BYTES);
const FRAME_BYTES: u64 = (PAYLOAD_AT + PAYLOAD_BYTES - 2) as u64;
const DESCRIPTOR_BYTES: u32 = 16;
const PER_LINE: u32 = LINE_BYTES / DESCRIPTOR_BYTES;
/// Lines of an SKB: 240 B at a distance of 256.
const SKB_LINES: u32 = 4;
/// Lines of a buffer: 2 kB.
const BUFFER_LINES: u32 = 32;
/// Lines of a page structure: 128 B.
const PAGE_STRUCT_LINES: u32 = 2;
/// Number of objects per core, so that those of different cores do not overlap.
const CORE_OBJECTS: u32 = 1 << 16;
/// Page structures of buffers follow those of SKBs from this number on.
const BUFFER_PAGES_AT: u32 = 1 << 20;

type Packet = (u32, u32);

/// SKBs and buffers of one core.
enum Pool {
    Slab { skbs: Box<Slab>, buffers: Box<Slab> },
    Contiguous { free: Vec<u32>, made: u32 },
}

struct Run<'p> {
    path: &'p ReceivePath,
    machine: Machine,
    pools: Vec<Pool>,
    rings: Vec<Vec<Packet>>,
    heads: Vec<usize>,
    waiting: Vec<VecDeque<Packet>>,
    /// Bytes of the first waiting packet that have been read.
    begun: Vec<u32>,
    random: u64,
    turn: u64,
    pcie_bytes: u64,
    steps: Vec<Step>,
}

impl ReceivePath {
    /// Receives `packets` packets, after the allocator's order has aged and the caches are warm.
    ///
    /// # Errors
    /// Fails when a size is out of range.
    pub fn run(&self, packets: u64) -> Result<Outcome, InvalidPath> {
        self.check()?;
        let shape = Caches {
            l1: (32 << 10, 8),
            llc: (self.llc_bytes, self.llc_ways),
            cores: self.cores,
            streams: self.streams,
        };
        let mut run = Run::new(self, Machine::new(&shape)?);
        let posted = (self.queues * self.posted()) as u64;
        // Ages the allocator's order with some hundred rounds through the rings, which cost little
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
            skb_distance: run.machine.distance[0],
            page_distance: run.machine.distance[1],
            steps: run.steps,
        })
    }

    fn posted(&self) -> usize {
        match self.buffers {
            Buffers::Slab => self.ring,
            Buffers::Contiguous => self.ring.min(2 * self.batch),
        }
    }

    fn check(&self) -> Result<(), InvalidPath> {
        let range = |name, value: u64, ok: bool, allowed| match ok {
            true => Ok(()),
            false => Err(InvalidPath::Range { name, value, allowed }),
        };
        let size = |value: usize, most: usize| (1..=most).contains(&value);
        range("queues", self.queues as u64, size(self.queues, 64), "1 to 64")?;
        range("ring", self.ring as u64, size(self.ring, 4096), "1 to 4096")?;
        range("cores", self.cores as u64, size(self.cores, 8), "1 to 8")?;
        range("connections", self.connections as u64, size(self.connections, 4096), "1 to 4096")?;
        range("batch", self.batch as u64, size(self.batch, self.ring), "1 to ring")?;
        let io = self.io_bytes;
        range("io_bytes", u64::from(io), (1..=1 << 20).contains(&io), "1 to 1048576")?;
        // All objects of a core have numbers below CORE_OBJECTS.
        let held = self.queues.div_ceil(self.cores) * self.ring
            + self.connections * (self.batch + self.io_bytes as usize / PAYLOAD_BYTES as usize);
        range(
            "queues x ring",
            held as u64,
            held < CORE_OBJECTS as usize / 2,
            "32767 buffers a core",
        )
    }
}

impl<'p> Run<'p> {
    fn new(path: &'p ReceivePath, machine: Machine) -> Self {
        let pool = || match path.buffers {
            // A page holds 16 SKBs of 256 B or two buffers of 2 kB.
            Buffers::Slab => Pool::Slab {
                skbs: Box::new(Slab::new(16, 120)),
                buffers: Box::new(Slab::new(2, 24)),
            },
            Buffers::Contiguous => Pool::Contiguous { free: Vec::new(), made: 0 },
        };
        let mut run = Self {
            path,
            machine,
            pools: (0..path.cores).map(|_| pool()).collect(),
            rings: Vec::new(),
            heads: vec![0; path.queues],
            waiting: vec![VecDeque::new(); path.connections],
            begun: vec![0; path.connections],
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
            // Flows are independent, so the next interrupt may be of any queue (xorshift64).
            self.random ^= self.random << 13;
            self.random ^= self.random >> 7;
            self.random ^= self.random << 17;
            let queue = (self.random % self.path.queues as u64) as usize;
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

    fn descriptor(&self, queue: usize, slot: usize) -> u32 {
        // Each ring begins on a new page.
        let ring_lines = (self.rings[queue].len() as u32).div_ceil(PER_LINE);
        let at = queue as u32 * ring_lines.next_multiple_of(PAGE_LINES);
        Data::Descriptor.line(at + slot as u32 / PER_LINE)
    }

    /// Steps 1 to 5, done by the card.
    fn card(&mut self, queue: usize) {
        // The card does not affect the order of buffers.
        if !self.machine.awake {
            return;
        }
        let into_cache = self.path.delivery != Delivery::Memory;
        let core = queue % self.path.cores;
        self.step(Step::FetchDescriptors);
        for slot in self.slots(queue) {
            let line = self.descriptor(queue, slot);
            if slot % PER_LINE as usize == 0 {
                self.machine.dma_read(line, false);
            }
        }
        for slot in self.slots(queue) {
            self.step(Step::Frame);
            let (skb, buffer) = self.rings[queue][slot];
            self.step(Step::Transfer);
            for line in 0..FRAME_LINES {
                self.machine.dma_write(payload(buffer, line), into_cache);
            }
            self.step(Step::WriteBackDescriptor);
            let line = self.descriptor(queue, slot);
            self.machine.dma_write(line, into_cache);
            let mut bytes = FRAME_BYTES + 2 * u64::from(DESCRIPTOR_BYTES);
            if self.path.delivery == Delivery::CacheWithMetadata {
                let pages = self.pages_of(core, skb, buffer);
                let lines = (0..SKB_LINES).map(|line| skb_line(skb, line));
                for line in lines.chain(pages.into_iter().flatten().flat_map(page_lines)) {
                    self.machine.push(line);
                    bytes += u64::from(LINE_BYTES);
                }
            }
            self.pcie_bytes += if self.path.on_die { 0 } else { bytes };
        }
        self.step(Step::Interrupt);
    }

    /// Steps 6 to 9, and TCP/IP, done by the driver.
    fn driver(&mut self, queue: usize) {
        let core = queue % self.path.cores;
        self.step(Step::ReadCause);
        let flows = self.path.connections.saturating_sub(queue).div_ceil(self.path.queues).max(1);
        for slot in self.slots(queue) {
            self.step(Step::Convert);
            let (skb, buffer) = self.rings[queue][slot];
            let line = self.descriptor(queue, slot);
            self.machine.touch(core, Phase::Conversion, line, false);
            for line in 0..SKB_LINES {
                self.machine.touch(core, Phase::Conversion, skb_line(skb, line), true);
            }
            if self.path.header_prefetch {
                self.machine.prefetch(core, Phase::Conversion, payload(buffer, 0));
            }
            self.machine.touch(core, Phase::Protocol, payload(buffer, 0), false);
            self.machine.touch(core, Phase::Protocol, skb_line(skb, 0), false);
            // The connections of a queue take turns.
            let flow =
                (queue + (self.turn as usize % flows) * self.path.queues) % self.path.connections;
            self.turn += 1;
            self.waiting[flow].push_back((skb, buffer));
        }
        self.step(Step::Refill);
        for slot in self.slots(queue) {
            let (skb, buffer) = self.take(core);
            for line in 0..SKB_LINES {
                self.machine.touch(core, Phase::Refill, skb_line(skb, line), true);
            }
            let line = self.descriptor(queue, slot);
            self.machine.touch(core, Phase::Refill, line, true);
            self.rings[queue][slot] = (skb, buffer);
        }
        self.heads[queue] = (self.heads[queue] + self.path.batch) % self.rings[queue].len();
        self.step(Step::EnableInterrupt);
    }

    /// Reads whole I/Os as long as there is enough data.
    fn application(&mut self, connection: usize, core: usize) {
        loop {
            let there = self.waiting[connection].len() as u32 * PAYLOAD_BYTES;
            if there < self.path.io_bytes + self.begun[connection] {
                return;
            }
            let mut read = 0;
            while read < self.path.io_bytes {
                let Some(&(skb, buffer)) = self.waiting[connection].front() else { return };
                let begun = self.begun[connection];
                let part = (PAYLOAD_BYTES - begun).min(self.path.io_bytes - read);
                self.copy(core, connection, buffer, begun, read, part);
                read += part;
                self.begun[connection] = begun + part;
                if begun + part == PAYLOAD_BYTES {
                    self.waiting[connection].pop_front();
                    self.begun[connection] = 0;
                    if self.path.invalidate {
                        for line in 0..FRAME_LINES {
                            self.machine.discard(payload(buffer, line));
                        }
                    }
                    self.release(core, skb, buffer);
                }
            }
        }
    }

    /// Copies `part` bytes from offset `from` of the payload to offset `to` of the application's
    /// buffer.
    fn copy(&mut self, core: usize, connection: usize, buffer: u32, from: u32, to: u32, part: u32) {
        if !self.machine.awake {
            return;
        }
        let user_lines = self.path.io_bytes.div_ceil(LINE_BYTES).next_multiple_of(PAGE_LINES);
        let user = connection as u32 * user_lines;
        let (first, last) = (PAYLOAD_AT + from, PAYLOAD_AT + from + part - 1);
        let (user_first, user_last) = (to, to + part - 1);
        let sources = (first / LINE_BYTES..=last / LINE_BYTES).map(|l| (payload(buffer, l), false));
        let targets = (user_first / LINE_BYTES..=user_last / LINE_BYTES)
            .map(|line| (Data::User.line(user + line), true));
        // Loads and stores alternate.
        let (mut sources, mut targets) = (sources, targets);
        loop {
            let pair = [sources.next(), targets.next()];
            if pair == [None, None] {
                return;
            }
            for (line, write) in pair.into_iter().flatten() {
                if self.path.copy_engine {
                    self.machine.engine(line, write);
                } else {
                    self.machine.touch(core, Phase::Copy, line, write);
                }
            }
        }
    }

    /// Finds the allocators of buffer and SKB by their pages, and returns both.
    fn release(&mut self, core: usize, skb: u32, buffer: u32) {
        self.machine.touch(core, Phase::Release, skb_line(skb, 0), false);
        for page in self.pages_of(core, skb, buffer).into_iter().flatten() {
            for line in page_lines(page) {
                self.machine.touch(core, Phase::Release, line, false);
            }
        }
        let offset = core as u32 * CORE_OBJECTS;
        let machine = &mut self.machine;
        match &mut self.pools[core] {
            Pool::Contiguous { free, .. } => free.push(skb - offset),
            Pool::Slab { skbs, buffers } => {
                let mut flushed = |page: u32| {
                    for line in page_lines(page) {
                        machine.touch(core, Phase::Release, line, false);
                    }
                };
                buffers.give(buffer - offset, |object| flushed(buffer_page(object + offset)));
                skbs.give(skb - offset, |object| flushed(skb_page(object + offset)));
            }
        }
    }

    /// Page structures that the release reads.
    fn pages_of(&self, core: usize, skb: u32, buffer: u32) -> [Option<u32>; 2] {
        match self.pools[core] {
            Pool::Contiguous { .. } => [None, None],
            Pool::Slab { .. } => [Some(buffer_page(buffer)), Some(skb_page(skb))],
        }
    }

    fn take(&mut self, core: usize) -> Packet {
        let offset = core as u32 * CORE_OBJECTS;
        match &mut self.pools[core] {
            Pool::Slab { skbs, buffers } => (skbs.take() + offset, buffers.take() + offset),
            Pool::Contiguous { free, made } => {
                let object = free.pop().unwrap_or_else(|| {
                    *made += 1;
                    *made - 1
                });
                (object + offset, object + offset)
            }
        }
    }
}

fn payload(buffer: u32, line: u32) -> u32 {
    Data::Payload.line(buffer * BUFFER_LINES + line)
}

fn skb_line(skb: u32, line: u32) -> u32 {
    Data::Skb.line(skb * SKB_LINES + line)
}

fn skb_page(skb: u32) -> u32 {
    skb * SKB_LINES / PAGE_LINES
}

fn buffer_page(buffer: u32) -> u32 {
    BUFFER_PAGES_AT + buffer * BUFFER_LINES / PAGE_LINES
}

fn page_lines(page: u32) -> impl Iterator<Item = u32> {
    (0..PAGE_STRUCT_LINES).map(move |line| Data::Page.line(page * PAGE_STRUCT_LINES + line))
}

/// Memory accesses per line of payload when it is *sent*: the stack writes it into a kernel buffer,
/// and the card reads it from there. With `drop`, the card's read removes the line from the caches,
/// and it is never written to memory.
///
/// # Errors
/// Fails when the cache is invalid.
/// When the cache cannot be.
pub fn transmitted_accesses(
    path: &ReceivePath,
    packets: u64,
    drop: bool,
) -> Result<f64, InvalidPath> {
    path.check()?;
    let shape = Caches {
        l1: (32 << 10, 8),
        llc: (path.llc_bytes, path.llc_ways),
        cores: 1,
        streams: path.streams,
    };
    let mut machine = Machine::new(&shape)?;
    machine.awake = true;
    let mut buffers = Slab::new(2, 24);
    let mut sent = 0;
    for round in 0..2 {
        sent = 0;
        while sent < packets {
            let batch: Vec<u32> = (0..path.batch).map(|_| buffers.take()).collect();
            for (index, buffer) in batch.iter().enumerate() {
                let user = (index as u32 * FRAME_LINES) % (path.io_bytes / LINE_BYTES).max(1);
                for line in 0..FRAME_LINES {
                    machine.touch(0, Phase::Copy, Data::User.line(user + line), false);
                    machine.touch(0, Phase::Copy, payload(*buffer, line), true);
                }
            }
            for buffer in batch {
                for line in 0..FRAME_LINES {
                    machine.dma_read(payload(buffer, line), drop);
                }
                buffers.give(buffer, |_| ());
            }
            sent += path.batch as u64;
        }
        if round == 0 {
            machine.forget_counts();
        }
    }
    let total = machine.memory[Data::Payload as usize].total();
    Ok(total as f64 / (sent * u64::from(FRAME_LINES)) as f64)
}

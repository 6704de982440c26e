//! Caches, prefetcher and memory of the modelled host, with their counters.

use super::cache::{Cache, Found, InvalidCache, Line};
use super::prefetch::{PAGE_LINES, Prefetcher, Streams};
use serde::Serialize;

/// Bits of a line's number below its kind of data.
const KIND_SHIFT: u32 = 24;

/// Kind of data in a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Data {
    /// Descriptors of the receive rings.
    Descriptor,
    /// Packet metadata.
    Skb,
    /// Page structures, which lead from a buffer to its allocator.
    Page,
    /// Packets as delivered by the card.
    Payload,
    /// Buffers of the application.
    User,
}

impl Data {
    /// All kinds.
    pub const ALL: [Self; 5] = [Self::Descriptor, Self::Skb, Self::Page, Self::Payload, Self::User];

    /// The `offset`th line of this kind; the kinds do not overlap.
    pub(super) fn line(self, offset: u32) -> Line {
        debug_assert!(offset < 1 << KIND_SHIFT);
        (self as u32 + 1) << KIND_SHIFT | offset
    }

    #[inline]
    fn of(line: Line) -> Self {
        Self::ALL[((line >> KIND_SHIFT) as usize).saturating_sub(1).min(4)]
    }

    #[inline]
    fn offset(line: Line) -> usize {
        (line & ((1 << KIND_SHIFT) - 1)) as usize
    }
}

/// Phase in which a line is accessed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// The driver maps descriptors to SKBs (step 7).
    Conversion,
    /// The driver refills the ring (step 8).
    Refill,
    /// TCP/IP reads headers.
    Protocol,
    /// Payload goes to the application.
    Copy,
    /// Buffers go back to the allocator.
    Release,
}

impl Phase {
    /// All phases, in the order in which a packet passes them.
    pub const ALL: [Self; 5] =
        [Self::Conversion, Self::Refill, Self::Protocol, Self::Copy, Self::Release];
}

/// Counts of one kind of data in one phase.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Accesses of lines by the processor (loads and stores).
    pub touches: u64,
    /// Accesses that missed level 1, and so went to the last-level cache.
    pub l1_misses: u64,
    /// Accesses that missed the last-level cache as well.
    pub llc_misses: u64,
    /// Last-level misses of software prefetches, whose latency is hidden.
    pub hidden_misses: u64,
}

/// Lines transferred to and from memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Memory {
    /// Lines written by the card, bypassing the caches.
    pub dma_writes: u64,
    /// Lines read, on demand or prefetched.
    pub reads: u64,
    /// Modified lines that were written back.
    pub write_backs: u64,
}

impl Memory {
    /// Sum of all transfers.
    pub fn total(&self) -> u64 {
        self.dma_writes + self.reads + self.write_backs
    }
}

/// Accesses to the last-level cache between two uses of a line.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Distance {
    /// Number of long distances: above [`Distance::LONG`].
    pub count: u64,
    sum: u64,
}

impl Distance {
    /// Bound of long distances; shorter ones are within the same batch and no reuse.
    pub const LONG: u64 = 4096;

    /// Mean of the long distances; `None` if there are none.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64)
    }
}

/// Placement of pages in memory: consecutive, in the order of first use. Otherwise all kinds of
/// data, and the buffers of all cores, would begin in the same sets of a cache.
#[derive(Debug)]
struct Places {
    /// Place of each page of all kinds of data; 0 for a page that is not placed yet. Only the parts
    /// that are used take memory.
    pages: Vec<u32>,
    /// Kind of data in each placed page; page 0 is unused.
    kinds: Vec<Data>,
}

impl Places {
    fn new() -> Self {
        let lines = (Data::ALL.len() + 1) << KIND_SHIFT;
        Self { pages: vec![0; lines / PAGE_LINES as usize], kinds: vec![Data::Descriptor] }
    }

    #[inline]
    fn of(&mut self, line: Line) -> Line {
        let page = (line / PAGE_LINES) as usize;
        let mut place = self.pages[page];
        if place == 0 {
            place = self.kinds.len() as u32;
            self.pages[page] = place;
            self.kinds.push(Data::of(line));
        }
        place * PAGE_LINES + line % PAGE_LINES
    }

    #[inline]
    fn kind(&self, placed: Line) -> Data {
        let page = (placed / PAGE_LINES) as usize;
        self.kinds.get(page).copied().unwrap_or(Data::User)
    }
}

/// Sizes of the caches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Caches {
    /// Level 1 of each core: bytes and ways.
    pub l1: (u64, usize),
    /// Shared last level: bytes and ways.
    pub llc: (u64, usize),
    /// Number of cores that share it.
    pub cores: usize,
    /// Prefetcher of the last level.
    pub streams: Streams,
}

pub(super) struct Machine {
    l1: Vec<Cache>,
    llc: Cache,
    prefetcher: Prefetcher,
    places: Places,
    /// While false, accesses are ignored: only the order of buffers matters then.
    pub(super) awake: bool,
    /// Number of demand accesses to the last-level cache.
    accesses: u64,
    pub(super) counts: [[Counts; 5]; 5],
    pub(super) memory: [Memory; 5],
    last_use: [Vec<u64>; 2],
    pub(super) distance: [Distance; 2],
}

impl Machine {
    pub(super) fn new(shape: &Caches) -> Result<Self, InvalidCache> {
        let l1 = Cache::new(shape.l1.0, shape.l1.1)?;
        Ok(Self {
            l1: vec![l1; shape.cores],
            llc: Cache::new(shape.llc.0, shape.llc.1)?,
            prefetcher: Prefetcher::new(shape.streams),
            places: Places::new(),
            awake: false,
            accesses: 0,
            counts: Default::default(),
            memory: Default::default(),
            last_use: Default::default(),
            distance: Default::default(),
        })
    }

    pub(super) fn forget_counts(&mut self) {
        self.counts = Default::default();
        self.memory = Default::default();
        self.distance = Default::default();
    }

    /// A load or store by a core.
    #[inline]
    pub(super) fn touch(&mut self, core: usize, phase: Phase, line: Line, write: bool) {
        self.demand(core, phase, line, write, false);
    }

    /// A software prefetch by a core.
    pub(super) fn prefetch(&mut self, core: usize, phase: Phase, line: Line) {
        self.demand(core, phase, line, false, true);
    }

    #[inline]
    fn demand(&mut self, core: usize, phase: Phase, line: Line, write: bool, hidden: bool) {
        if !self.awake {
            return;
        }
        let (data, at) = (Data::of(line), self.places.of(line));
        let found = self.l1[core].access(at, write);
        let counts = &mut self.counts[phase as usize][data as usize];
        counts.touches += 1;
        if let Found::Miss(victim) = found {
            counts.l1_misses += 1;
            self.accesses += 1;
            if let Some(victim) = victim {
                self.fill_llc(victim, true);
            }
            self.measure_reuse(phase, data, line);
            let missed = self.fill(at, false);
            if missed {
                let counts = &mut self.counts[phase as usize][data as usize];
                if hidden { counts.hidden_misses += 1 } else { counts.llc_misses += 1 }
            }
            self.run_ahead(at, missed);
        }
        self.note_use(data, line);
    }

    /// An access by an engine beside the cores, directly to the last-level cache.
    pub(super) fn engine(&mut self, line: Line, write: bool) {
        if !self.awake {
            return;
        }
        let line = self.places.of(line);
        for l1 in &mut self.l1 {
            if l1.invalidate(line) == Some(true) {
                self.llc.access(line, true);
            }
        }
        let missed = self.fill(line, write);
        self.run_ahead(line, missed);
    }

    /// Accesses a line of the last-level cache; true if it came from memory.
    #[inline]
    fn fill(&mut self, line: Line, write: bool) -> bool {
        match self.llc.access(line, write) {
            Found::Hit => false,
            Found::Miss(victim) => {
                self.read(line, victim);
                true
            }
        }
    }

    /// Counts a line that came from memory, and the one that it evicted.
    #[inline]
    fn read(&mut self, line: Line, victim: Option<Line>) {
        self.memory[self.places.kind(line) as usize].reads += 1;
        self.write_back(victim);
    }

    #[inline]
    fn run_ahead(&mut self, line: Line, missed: bool) {
        let Some((first, last)) = self.prefetcher.observe(line, missed) else { return };
        for line in first.min(last)..=first.max(last) {
            if let Found::Miss(victim) = self.llc.bring(line) {
                self.read(line, victim);
            }
        }
    }

    /// Puts a line into the last-level cache without a read from memory, since its content is
    /// given.
    fn fill_llc(&mut self, line: Line, modified: bool) {
        if let Found::Miss(victim) = self.llc.access(line, modified) {
            self.write_back(victim);
        }
    }

    fn write_back(&mut self, victim: Option<Line>) {
        if let Some(victim) = victim {
            self.memory[self.places.kind(victim) as usize].write_backs += 1;
        }
    }

    /// The card writes a line: into memory, which invalidates it in the caches, or into the
    /// last-level
    /// cache.
    pub(super) fn dma_write(&mut self, line: Line, into_cache: bool) {
        if !self.awake {
            return;
        }
        let line = self.places.of(line);
        for l1 in &mut self.l1 {
            l1.invalidate(line);
        }
        if into_cache {
            self.fill_llc(line, true);
        } else {
            self.llc.invalidate(line);
            self.memory[self.places.kind(line) as usize].dma_writes += 1;
        }
    }

    /// The card reads a line: a modified one is written to memory and stays. With `drop` it is
    /// removed instead and never written to memory.
    pub(super) fn dma_read(&mut self, line: Line, drop: bool) {
        if !self.awake {
            return;
        }
        if drop {
            return self.discard(line);
        }
        let line = self.places.of(line);
        let mut modified = false;
        for l1 in &mut self.l1 {
            modified |= l1.clean(line);
        }
        modified |= self.llc.clean(line);
        if modified {
            self.memory[self.places.kind(line) as usize].write_backs += 1;
        } else if !self.llc.holds(line) && !self.l1.iter().any(|l1| l1.holds(line)) {
            self.memory[self.places.kind(line) as usize].reads += 1;
        }
    }

    /// Removes a line without writing it back, since its content is no longer needed.
    pub(super) fn discard(&mut self, line: Line) {
        if !self.awake {
            return;
        }
        let line = self.places.of(line);
        for l1 in &mut self.l1 {
            l1.invalidate(line);
        }
        self.llc.invalidate(line);
    }

    /// The card puts an unmodified copy of a line into the last-level cache.
    pub(super) fn push(&mut self, line: Line) {
        if !self.awake {
            return;
        }
        let line = self.places.of(line);
        if let Found::Miss(victim) = self.llc.bring(line) {
            self.write_back(victim);
        }
    }

    /// Measures the reuse distances of the paper: SKBs at conversion, page structures at release.
    fn measure_reuse(&mut self, phase: Phase, data: Data, line: Line) {
        let which = match (phase, data) {
            (Phase::Conversion, Data::Skb) => 0,
            (Phase::Release, Data::Page) => 1,
            _ => return,
        };
        let last = self.last_use[which].get(Data::offset(line)).copied().unwrap_or(0);
        let distance = self.accesses - last;
        if last > 0 && distance > Distance::LONG {
            self.distance[which].count += 1;
            self.distance[which].sum += distance;
        }
    }

    fn note_use(&mut self, data: Data, line: Line) {
        let which = match data {
            Data::Skb => 0,
            Data::Page => 1,
            _ => return,
        };
        let (at, uses) = (Data::offset(line), &mut self.last_use[which]);
        if uses.len() <= at {
            uses.resize(at + 1, 0);
        }
        uses[at] = self.accesses;
    }
}

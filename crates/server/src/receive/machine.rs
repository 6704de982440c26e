//! Caches, prefetcher and memory of the modelled host, with what is counted of them.

use super::cache::{Cache, Found, InvalidCache, Line};
use super::prefetch::{PAGE_LINES, Prefetcher, Streams};
use serde::Serialize;

/// What a line holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Data {
    /// Descriptors of the receive rings.
    Descriptor,
    /// Packet metadata.
    Skb,
    /// Structures of memory pages, which lead from a buffer to its allocator.
    Page,
    /// Packets as the card delivers them.
    Payload,
    /// Buffers of the application.
    User,
}

impl Data {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Descriptor, Self::Skb, Self::Page, Self::Payload, Self::User];

    /// The `offset`th line of this kind; kinds lie apart.
    pub(super) fn line(self, offset: u32) -> Line {
        debug_assert!(offset < 1 << 24);
        (self as u32 + 1) << 24 | offset
    }

    fn of(line: Line) -> Self {
        Self::ALL[((line >> 24) as usize).saturating_sub(1).min(4)]
    }

    fn offset(line: Line) -> usize {
        (line & 0xff_ffff) as usize
    }
}

/// Who touches a line.
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
    /// All of them, in the order of a packet.
    pub const ALL: [Self; 5] =
        [Self::Conversion, Self::Refill, Self::Protocol, Self::Copy, Self::Release];
}

/// Counted of one kind of data in one phase.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Loads and stores of lines by the processor.
    pub touches: u64,
    /// Of those, the ones that level 1 did not hold: accesses to the last-level cache.
    pub l1_misses: u64,
    /// Of those, the ones that the last-level cache did not hold either.
    pub llc_misses: u64,
    /// The like of `llc_misses` for software prefetches, whose wait is hidden.
    pub hidden_misses: u64,
}

/// Lines that went to or came from memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Memory {
    /// Written by the card, past the caches.
    pub dma_writes: u64,
    /// Read, on demand or ahead of it.
    pub reads: u64,
    /// Modified lines written back.
    pub write_backs: u64,
}

impl Memory {
    /// All of them.
    pub fn total(&self) -> u64 {
        self.dma_writes + self.reads + self.write_backs
    }
}

/// Accesses to the last-level cache between two uses of a line.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Distance {
    /// How many were long: above [`Distance::LONG`].
    pub count: u64,
    sum: u64,
}

impl Distance {
    /// Shorter ones are of the same batch and no reuse.
    pub const LONG: u64 = 4096;

    /// The mean of the long ones.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64)
    }
}

/// Where pages lie in memory: one after the other, in the order of their first use. Without it
/// all kinds of data, and the buffers of all cores, would begin in the same sets of a cache.
#[derive(Debug, Default)]
struct Places {
    /// For each kind of data and page of it; 0 is no page yet.
    pages: [Vec<u32>; 5],
    /// What each page holds; page 0 is not used.
    kinds: Vec<Data>,
}

impl Places {
    #[inline]
    fn of(&mut self, line: Line) -> Line {
        let (data, page) = (Data::of(line), Data::offset(line) / PAGE_LINES as usize);
        let pages = &mut self.pages[data as usize];
        if pages.len() <= page {
            pages.resize(page + 1, 0);
        }
        if pages[page] == 0 {
            if self.kinds.is_empty() {
                self.kinds.push(data);
            }
            pages[page] = self.kinds.len() as u32;
            self.kinds.push(data);
        }
        pages[page] * PAGE_LINES + line % PAGE_LINES
    }

    fn kind(&self, placed: Line) -> Data {
        let page = (placed / PAGE_LINES) as usize;
        self.kinds.get(page).copied().unwrap_or(Data::User)
    }
}

/// Sizes of the caches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Caches {
    /// Level 1 of each core, bytes and ways.
    pub l1: (u64, usize),
    /// The shared last level, bytes and ways.
    pub llc: (u64, usize),
    /// Cores that share it.
    pub cores: usize,
    /// Its prefetcher.
    pub streams: Streams,
}

pub(super) struct Machine {
    l1: Vec<Cache>,
    llc: Cache,
    prefetcher: Prefetcher,
    places: Places,
    /// Nothing is done while false: only the order of buffers is of interest then.
    pub(super) awake: bool,
    /// Demand accesses to the last-level cache so far.
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
            places: Places::default(),
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
        let counts = &mut self.counts[phase as usize][data as usize];
        counts.touches += 1;
        let found = self.l1[core].access(at, write);
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

    /// An access by an engine beside the cores: past level 1, to the last-level cache.
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

    /// Whether the line had to come from memory.
    fn fill(&mut self, line: Line, write: bool) -> bool {
        match self.llc.access(line, write) {
            Found::Hit => false,
            Found::Miss(victim) => {
                self.memory[self.places.kind(line) as usize].reads += 1;
                self.write_back(victim);
                true
            }
        }
    }

    fn run_ahead(&mut self, line: Line, missed: bool) {
        let Some((first, last)) = self.prefetcher.observe(line, missed) else { return };
        for line in first.min(last)..=first.max(last) {
            if !self.llc.holds(line) {
                self.fill(line, false);
            }
        }
    }

    /// Puts a line into the last-level cache without reading memory: its content is given.
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

    /// The card writes a line: into memory, and the caches lose theirs; or into the last-level
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

    /// The card reads a line: a modified one is written to memory on the way, and stays. With
    /// `drop` it is gone afterwards and memory never sees it.
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

    /// The line's content is not needed any more: it is dropped and not written back.
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
        if !self.llc.holds(line) {
            self.fill_llc(line, false);
        }
    }

    /// The reuse that the paper measured: SKBs at conversion, page structures at release.
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

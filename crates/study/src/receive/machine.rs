//! Caches, prefetchers and memory of the modelled host, with their counters.

use super::arrivals::{ACCESS_CYCLES, Arrivals, MEMORY_CYCLES};
use super::cache::{Cache, Found, InvalidCache, Line};
use super::data::{AllCounts, Data, Memory, Phase};
use super::places::Places;
use super::prefetch::{PAGE_LINES, Prefetcher, Streams};
use super::reuse::Reuse;

/// Sizes of the caches, and the prefetchers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Caches {
    /// Level 1 of each core: bytes and ways.
    pub l1: (u64, usize),
    /// Shared last level: bytes and ways.
    pub llc: (u64, usize),
    /// Number of cores that share the last level.
    pub cores: usize,
    /// Each core's prefetcher into the last level.
    pub streams: Streams,
    /// True if level 1 fetches the line after one that is read through.
    pub next_line: bool,
    /// True if the last level fetches lines in pairs.
    pub pairs: bool,
}

pub(super) struct Machine {
    shape: Caches,
    l1: Vec<Cache>,
    llc: Cache,
    prefetchers: Vec<Prefetcher>,
    places: Places,
    arrivals: Arrivals,
    /// False while accesses are ignored because only the order of buffers matters.
    pub(super) awake: bool,
    pub(super) reuse: Reuse,
    pub(super) counts: AllCounts,
    pub(super) memory: [Memory; Data::COUNT],
}

impl Machine {
    pub(super) fn new(shape: &Caches) -> Result<Self, InvalidCache> {
        let l1 = Cache::new(shape.l1.0, shape.l1.1)?;
        Ok(Self {
            shape: *shape,
            l1: vec![l1; shape.cores],
            llc: Cache::new(shape.llc.0, shape.llc.1)?,
            prefetchers: vec![Prefetcher::new(shape.streams); shape.cores],
            places: Places::new(),
            arrivals: Arrivals::new(),
            awake: false,
            reuse: Reuse::default(),
            counts: Default::default(),
            memory: Default::default(),
        })
    }

    pub(super) fn forget_counts(&mut self) {
        self.counts = Default::default();
        self.memory = Default::default();
        self.reuse.distance = Default::default();
    }

    /// Performs a load or store by a core.
    #[inline]
    pub(super) fn touch(&mut self, core: usize, phase: Phase, line: Line, write: bool) {
        if self.awake {
            let at = self.places.locate(line);
            self.demand(core, phase, (line, at), write);
        }
    }

    /// Performs loads through a line from its start to its end.
    #[inline]
    pub(super) fn read_through(&mut self, core: usize, phase: Phase, line: Line) {
        if !self.awake {
            return;
        }
        let (at, issued) = (self.places.locate(line), self.arrivals.clock);
        self.demand(core, phase, (line, at), false);
        if self.shape.next_line && (at + 1) % PAGE_LINES != 0 {
            self.fetch(core, phase, at + 1, issued);
        }
    }

    /// Performs a software prefetch by a core.
    pub(super) fn prefetch(&mut self, core: usize, phase: Phase, line: Line) {
        if self.awake {
            let at = self.places.locate(line);
            self.arrivals.clock += ACCESS_CYCLES;
            self.fetch(core, phase, at, self.arrivals.clock);
        }
    }

    #[inline]
    fn demand(&mut self, core: usize, phase: Phase, (line, at): (Line, Line), write: bool) {
        let data = Data::from_page(line).within(line);
        self.arrivals.clock += ACCESS_CYCLES;
        let left = self.arrivals.left(at);
        let found = self.l1[core].access(at, write);
        let counts = &mut self.counts[phase as usize][data as usize];
        counts.touches += 1;
        if let Found::Miss(victim) = found {
            counts.l1_misses += 1;
            self.reuse.accesses += 1;
            self.put_back(victim);
            self.reuse.measure(phase, data, line);
            if self.fill(at, false) {
                let counts = &mut self.counts[phase as usize][data as usize];
                counts.llc_misses += 1;
                self.arrivals.clock += MEMORY_CYCLES;
                self.fetch_pair(at);
                self.run_ahead(core, at);
                self.reuse.note(data, line);
                return;
            }
            self.run_ahead(core, at);
        }
        if left > 0 {
            let counts = &mut self.counts[phase as usize][data as usize];
            counts.late += 1;
            counts.waited_cycles += left;
            self.arrivals.clock += left;
        }
        self.reuse.note(data, line);
    }

    /// Fetches a line into level 1 without waiting for it.
    #[inline]
    fn fetch(&mut self, core: usize, phase: Phase, at: Line, issued: u64) {
        let Found::Miss(victim) = self.l1[core].bring(at) else { return };
        self.reuse.accesses += 1;
        self.put_back(victim);
        if self.fill(at, false) {
            let data = self.places.kind(at);
            self.counts[phase as usize][data as usize].hidden_misses += 1;
            self.arrivals.request(at, issued);
            self.fetch_pair(at);
        }
        self.run_ahead(core, at);
    }

    /// Moves a modified line from level 1 to the last level.
    #[inline]
    fn put_back(&mut self, victim: Option<Line>) {
        if let Some(victim) = victim {
            self.fill_llc(victim, true);
        }
    }

    /// Performs an access by a copy engine, directly to the last-level cache.
    pub(super) fn engine(&mut self, line: Line, write: bool) {
        if !self.awake {
            return;
        }
        let line = self.places.locate(line);
        for l1 in &mut self.l1 {
            if l1.invalidate(line) == Some(true) {
                self.llc.access(line, true);
            }
        }
        self.fill(line, write);
    }

    /// Accesses a line of the last-level cache; returns true if it came from memory.
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

    /// Counts a line from memory, and the line that it evicted.
    #[inline]
    fn read(&mut self, line: Line, victim: Option<Line>) {
        self.memory[self.places.kind(line) as usize].reads += 1;
        self.write_back(victim);
    }

    #[inline]
    fn run_ahead(&mut self, core: usize, line: Line) {
        let Some((first, last)) = self.prefetchers[core].observe(line) else { return };
        for line in first.min(last)..=first.max(last) {
            self.request(line);
        }
    }

    fn fetch_pair(&mut self, line: Line) {
        if self.shape.pairs {
            self.request(line ^ 1);
        }
    }

    /// Requests a line for the last-level cache by a prefetcher.
    #[inline]
    fn request(&mut self, line: Line) {
        if let Found::Miss(victim) = self.llc.bring(line) {
            self.arrivals.request(line, self.arrivals.clock);
            self.read(line, victim);
        }
    }

    /// Puts a line into the last-level cache without a read from memory, since its content is
    /// known.
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

    /// Writes a line by the card: into memory, which invalidates it in the caches, or into the
    /// last-level cache.
    pub(super) fn dma_write(&mut self, line: Line, into_cache: bool) {
        if !self.awake {
            return;
        }
        let line = self.places.locate(line);
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

    /// Reads a line by the card. A modified line is written to memory and stays; with `drop` it is
    /// removed instead and never written to memory.
    pub(super) fn dma_read(&mut self, line: Line, drop: bool) {
        if !self.awake {
            return;
        }
        if drop {
            return self.discard(line);
        }
        let line = self.places.locate(line);
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
        let line = self.places.locate(line);
        for l1 in &mut self.l1 {
            l1.invalidate(line);
        }
        self.llc.invalidate(line);
    }

    /// Puts an unmodified copy of a line into the last-level cache, by the card.
    pub(super) fn push(&mut self, line: Line) {
        if !self.awake {
            return;
        }
        let line = self.places.locate(line);
        if let Found::Miss(victim) = self.llc.bring(line) {
            self.write_back(victim);
        }
    }
}

//! Reads the rings of all workers, iteration by iteration.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use wattline_dataplane::tap::record::{Kind, Record, Records};
use wattline_dataplane::tap::tap::TapCounters;

/// Most records that are read from one worker before the others have their turn.
const AT_ONCE: usize = 10_000;

/// Events of a worker in one iteration.
#[derive(Debug)]
pub(super) struct Seen {
    /// Its number.
    pub worker: usize,
    /// Its events in order.
    pub records: Vec<Record>,
}

struct Source {
    records: Records,
    counters: Arc<TapCounters>,
    /// Events of an incomplete iteration.
    begun: Vec<Record>,
}

/// The rings of one capture or trace.
#[derive(Default)]
pub(super) struct Rounds {
    sources: Vec<Source>,
}

impl Rounds {
    /// Adds the ring of the next worker.
    pub fn add(&mut self, records: Records, counters: Arc<TapCounters>) {
        self.sources.push(Source { records, counters, begun: Vec::new() });
    }

    /// Returns the complete iterations, by time.
    pub fn read(&mut self) -> Vec<Seen> {
        let mut seen = Vec::new();
        for (worker, source) in self.sources.iter_mut().enumerate() {
            for _ in 0..AT_ONCE {
                let Some(record) = source.records.read() else { break };
                if record.kind == Kind::Round {
                    seen.push(Seen { worker, records: std::mem::take(&mut source.begun) });
                } else {
                    source.begun.push(record);
                }
            }
        }
        seen.sort_by_key(|seen| seen.records.first().map(|record| record.time_nanos));
        seen
    }

    /// Returns the number of packets that matched the filter, and how many of them were missed.
    pub fn counted(&self) -> (u64, u64) {
        let sum = |count: &dyn Fn(&TapCounters) -> u64| {
            self.sources.iter().map(|source| count(&source.counters)).sum()
        };
        let missed = sum(&|it| it.missed.load(Ordering::Relaxed));
        (sum(&|it| it.matched.load(Ordering::Relaxed)), missed)
    }
}

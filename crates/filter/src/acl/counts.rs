//! Packets by rule: each worker counts in its own cache lines.

use crossbeam_utils::CachePadded;
use std::sync::Arc;
use wattline_dataplane::counters::Counter;

/// Counts of packets that one rule matched, or that no rule of a port matched.
#[derive(Debug, Clone)]
pub(super) struct Counts(Arc<[CachePadded<Pair>]>);

#[derive(Debug, Default)]
struct Pair {
    packets: Counter,
    bytes: Counter,
}

impl Counts {
    /// Makes counts of zero, for this number of workers.
    pub fn new(workers: u16) -> Self {
        Self((0..workers).map(|_| CachePadded::default()).collect())
    }

    /// Counts a packet of `bytes` bytes; only for the thread of this worker.
    #[inline]
    pub fn add(&self, worker: u16, bytes: u64) {
        if let Some(pair) = self.0.get(usize::from(worker)) {
            pair.packets.add(1);
            pair.bytes.add(bytes);
        }
    }

    /// Returns the packets and bytes of all workers.
    pub fn total(&self) -> (u64, u64) {
        let pairs = self.0.iter().map(|pair| (pair.packets.get(), pair.bytes.get()));
        pairs.fold((0, 0), |(packets, bytes), (more, longer)| (packets + more, bytes + longer))
    }
}

//! Flow table of one worker and IP version, of fixed size.
//!
//! Sixteen flows share a bucket. The tags (16 bits of the hash) and the times of last use of a
//! bucket fill one cache line; the flows themselves are stored elsewhere. A packet therefore
//! touches two lines. Both are prefetched while other packets of the batch are processed. A sweep
//! for idle flows reads an eighth of the memory.
//!
//! **Eviction**: if the bucket of a new flow is full, the new flow replaces the least recently used
//! flow in it. With half as many flows as places, this happens to one in a thousand.

use super::observe::Observation;
use super::record::{EndReason, Flow};
use std::hash::{BuildHasher, RandomState};
use wattline_memory::prefetch;

/// Number of flows per bucket.
const WAYS: usize = 16;
/// Unit of the times in buckets, in milliseconds; 16 bits last 109 minutes.
const UNIT: u64 = 100;

#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Bucket {
    /// Tags of the flows; 0 for an empty place.
    tags: [u16; WAYS],
    /// Times of last use in units of [`UNIT`], modulo 2^16.
    used: [u16; WAYS],
}

/// Timeouts after which flows become records, in milliseconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Timeouts {
    pub active: u64,
    pub idle: u64,
}

/// Destination of the records.
pub(super) trait Outlet<const N: usize> {
    /// Accepts a record; false if there is no room for it now.
    fn give(&mut self, flow: &Flow<N>, end: EndReason) -> bool;
    /// Counts a record that is lost.
    fn lose(&mut self, flow: &Flow<N>);
}

/// Effect of a packet on the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    /// The packet belongs to a known flow.
    Updated,
    /// The packet created a flow in an empty place.
    Created,
    /// The packet created a flow that replaced another.
    Replaced,
}

/// The flow table.
pub(super) struct Table<const N: usize> {
    buckets: Box<[Bucket]>,
    flows: Box<[Flow<N>]>,
    /// Seed of the hash; senders do not know it, so they cannot aim at one bucket.
    seed: u64,
    live: usize,
    /// Next bucket of the sweep.
    next: usize,
}

impl<const N: usize> Table<N> {
    /// Makes a table for this many flows, rounded up to a power of two and at least 16.
    pub fn new(flows: usize) -> Self {
        let buckets = flows.div_ceil(WAYS).max(1).next_power_of_two();
        let empty = Bucket { tags: [0; WAYS], used: [0; WAYS] };
        Self {
            // Written now, so that no packet waits for a page fault.
            buckets: vec![empty; buckets].into_boxed_slice(),
            flows: vec![Flow::EMPTY; buckets * WAYS].into_boxed_slice(),
            seed: RandomState::new().hash_one(0),
            live: 0,
            next: 0,
        }
    }

    /// Returns the number of flows in the table.
    pub fn live(&self) -> usize {
        self.live
    }

    /// Returns the hash of a key: multiplications whose upper half is folded onto the lower.
    #[inline]
    pub fn hash(&self, key: &[u64; N]) -> u64 {
        key.iter().fold(self.seed, |state, word| {
            let product = u128::from(state ^ word) * u128::from(0x9e37_79b9_7f4a_7c15_u64);
            (product as u64) ^ (product >> 64) as u64
        })
    }

    #[inline]
    fn place(&self, hash: u64) -> (usize, u16) {
        (hash as usize & (self.buckets.len() - 1), ((hash >> 48) as u16).max(1))
    }

    /// Prefetches the bucket of a hash.
    #[inline]
    pub fn prefetch_bucket(&self, hash: u64) {
        prefetch(&self.buckets[self.place(hash).0]);
    }

    /// Prefetches the flow of a hash; its bucket should have been prefetched before.
    #[inline]
    pub fn prefetch_flow(&self, hash: u64) {
        let (bucket, tag) = self.place(hash);
        let found = matching(&self.buckets[bucket].tags, tag);
        let free = matching(&self.buckets[bucket].tags, 0);
        let ways = if found != 0 { found } else { free };
        // A bucket without a match or an empty place is rare, and its flow is then not prefetched.
        let flow = &self.flows[bucket * WAYS + ways.trailing_zeros() as usize % WAYS];
        prefetch(&flow.key[0]);
        if size_of::<Flow<N>>() > 64 {
            prefetch(&flow.tcp_flags);
        }
    }

    /// Counts a packet at time `now` in milliseconds.
    #[inline]
    pub fn count(
        &mut self,
        seen: &Observation<N>,
        now: u64,
        timeouts: Timeouts,
        port_out: impl FnOnce() -> u16,
        outlet: &mut impl Outlet<N>,
    ) -> Change {
        let (number, tag) = self.place(seen.hash);
        let bucket = &mut self.buckets[number];
        let mut ways = matching(&bucket.tags, tag);
        while ways != 0 {
            let way = ways.trailing_zeros() as usize;
            let flow = &mut self.flows[number * WAYS + way];
            if flow.key == seen.key {
                bucket.used[way] = (now / UNIT) as u16;
                // If the record is not accepted now, the flow continues.
                let long = now.saturating_sub(flow.first) >= timeouts.active;
                if long && outlet.give(flow, EndReason::Active) {
                    *flow = Flow { port_out: flow.port_out, ..seen.flow(now) };
                } else {
                    flow.packets += 1;
                    flow.bytes += u64::from(seen.bytes);
                    flow.last = now;
                    flow.tcp_flags |= seen.tcp_flags;
                }
                return Change::Updated;
            }
            ways &= ways - 1;
        }
        let free = matching(&bucket.tags, 0);
        let (way, change) = match free {
            0 => (oldest(bucket, (now / UNIT) as u16), Change::Replaced),
            _ => (free.trailing_zeros() as usize, Change::Created),
        };
        let flow = &mut self.flows[number * WAYS + way];
        if change == Change::Replaced {
            if !outlet.give(flow, EndReason::Evicted) {
                outlet.lose(flow);
            }
        } else {
            self.live += 1;
        }
        bucket.tags[way] = tag;
        bucket.used[way] = (now / UNIT) as u16;
        *flow = Flow { port_out: port_out(), ..seen.flow(now) };
        change
    }

    /// Searches the next `buckets` buckets for idle flows. A flow whose record is not accepted
    /// stays until the next sweep.
    pub fn sweep(
        &mut self,
        buckets: usize,
        now: u64,
        timeouts: Timeouts,
        outlet: &mut impl Outlet<N>,
    ) {
        let idle = timeouts.idle.div_ceil(UNIT).min(u64::from(u16::MAX)) as u16;
        for _ in 0..buckets.min(self.buckets.len()) {
            let number = self.next;
            self.next = (self.next + 1) & (self.buckets.len() - 1);
            let bucket = &mut self.buckets[number];
            for way in 0..WAYS {
                let age = ((now / UNIT) as u16).wrapping_sub(bucket.used[way]);
                if bucket.tags[way] != 0
                    && age >= idle
                    && outlet.give(&self.flows[number * WAYS + way], EndReason::Idle)
                {
                    bucket.tags[way] = 0;
                    self.live -= 1;
                }
            }
        }
    }

    /// Returns the number of buckets in a whole sweep.
    pub fn buckets(&self) -> usize {
        self.buckets.len()
    }

    /// Removes all flows and passes them to `take`.
    pub fn drain(&mut self, mut take: impl FnMut(&Flow<N>)) {
        for (bucket, flows) in self.buckets.iter_mut().zip(self.flows.chunks(WAYS)) {
            for (tag, flow) in bucket.tags.iter_mut().zip(flows) {
                if std::mem::take(tag) != 0 {
                    take(flow);
                }
            }
        }
        self.live = 0;
    }
}

/// Returns the bit set of the ways with this tag.
#[inline]
fn matching(tags: &[u16; WAYS], tag: u16) -> u32 {
    // No early exit: the compiler turns this into a few vector comparisons.
    tags.iter().enumerate().fold(0, |ways, (way, it)| ways | u32::from(*it == tag) << way)
}

/// Returns the least recently used way.
#[cold]
fn oldest(bucket: &Bucket, now: u16) -> usize {
    let ages = bucket.used.iter().map(|used| now.wrapping_sub(*used)).enumerate();
    ages.max_by_key(|(_, age)| *age).map_or(0, |(way, _)| way)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUTS: Timeouts = Timeouts { active: 60_000, idle: 15_000 };

    #[derive(Default)]
    struct Taken {
        given: Vec<(u64, u64, EndReason)>,
        packets: u64,
        lost: u64,
        full: bool,
    }

    impl Outlet<2> for Taken {
        fn give(&mut self, flow: &Flow<2>, end: EndReason) -> bool {
            if !self.full {
                self.packets += flow.packets;
                if self.given.len() < 100 {
                    self.given.push((flow.key[0], flow.packets, end));
                }
            }
            !self.full
        }
        fn lose(&mut self, flow: &Flow<2>) {
            self.lost += flow.packets;
        }
    }

    fn count(table: &mut Table<2>, key: u64, now: u64, taken: &mut Taken) -> Change {
        let mut seen = Observation { key: [key, 7], bytes: 100, ..Observation::EMPTY };
        seen.hash = table.hash(&seen.key);
        table.count(&seen, now, TIMEOUTS, || 4, taken)
    }

    fn in_table(table: &mut Table<2>) -> u64 {
        let mut packets = 0;
        table.drain(|flow| packets += flow.packets);
        packets
    }

    #[test]
    fn a_flow_fills_whole_cache_lines() {
        assert_eq!((size_of::<Flow<2>>(), size_of::<Flow<5>>()), (64, 128));
        assert_eq!(size_of::<Bucket>(), 64);
    }

    #[test]
    fn idle_flows_end_and_active_ones_are_recorded() {
        let (mut table, mut taken) = (Table::<2>::new(1024), Taken::default());
        assert_eq!(count(&mut table, 1, 0, &mut taken), Change::Created);
        assert_eq!(count(&mut table, 1, 14_000, &mut taken), Change::Updated);
        table.sweep(usize::MAX, 28_900, TIMEOUTS, &mut taken);
        assert_eq!(table.live(), 1, "14.9 s since the last packet");
        for second in [28, 42, 56, 61] {
            count(&mut table, 1, second * 1000, &mut taken);
        }
        assert_eq!(taken.given, [(1, 5, EndReason::Active)]);
        table.sweep(usize::MAX, 76_000, TIMEOUTS, &mut taken);
        assert_eq!(taken.given[1..], [(1, 1, EndReason::Idle)]);
        assert_eq!(table.live(), 0);
    }

    #[test]
    fn flows_without_a_reader_stay_except_evicted_ones() {
        let (mut table, mut taken) =
            (Table::<2>::new(16), Taken { full: true, ..Taken::default() });
        for key in 0..16 {
            count(&mut table, key, key * 100, &mut taken);
        }
        table.sweep(usize::MAX, 20_000, TIMEOUTS, &mut taken);
        assert_eq!((table.live(), taken.lost), (16, 0));
        count(&mut table, 1, 100_000, &mut taken);
        assert_eq!(count(&mut table, 99, 100_000, &mut taken), Change::Replaced);
        assert_eq!(taken.lost, 1);
        taken.full = false;
        // The oldest is gone; the next oldest is number 2, since 1 was used meanwhile.
        count(&mut table, 98, 100_000, &mut taken);
        assert_eq!(taken.given, [(2, 1, EndReason::Evicted)]);
        assert_eq!(in_table(&mut table) + taken.packets + taken.lost, 19);
    }

    #[test]
    fn ten_million_random_flows_stay_within_bounds_and_none_is_forgotten() {
        let (mut table, mut taken) = (Table::<2>::new(1 << 16), Taken::default());
        let capacity = table.flows.len();
        let mut key = 1_u64;
        for number in 0..10_000_000_u64 {
            // Marsaglia's xorshift with period 2^64 - 1.
            key ^= key << 13;
            key ^= key >> 7;
            key ^= key << 17;
            count(&mut table, key, number / 10_000, &mut taken);
            if number % 100_000 == 0 {
                table.sweep(64, number / 10_000, TIMEOUTS, &mut taken);
                taken.full = !taken.full;
            }
        }
        assert!(table.live() <= capacity);
        assert!(table.live() > capacity * 9 / 10, "{} of {capacity}", table.live());
        assert!(taken.packets > 0 && taken.lost > 0);
        assert_eq!(in_table(&mut table) + taken.packets + taken.lost, 10_000_000);
    }

    #[test]
    fn half_full_nearly_nothing_is_evicted() {
        let (mut table, mut taken) = (Table::<2>::new(1 << 16), Taken::default());
        let flows = 1 << 15;
        let replaced = (0..flows)
            .filter(|key| count(&mut table, *key, 0, &mut taken) == Change::Replaced)
            .count();
        // Poisson with mean 8 in 16 places: 0.04 % find their bucket full; the bound is four times
        // that.
        assert!(replaced < flows as usize / 600, "{replaced}");
    }
}

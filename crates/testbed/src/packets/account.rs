//! Account of every packet: received once, twice, late, damaged, or lost.
//!
//! A bit for each sent packet makes loss and duplication exact, in any order of arrival. Reordering
//! is defined by RFC 4737, section 3.3, within a flow: a packet is reordered if a later one of its
//! flow arrived before it. A copy of a received packet only counts as a duplicate.

use super::stamp::Stamp;
use hdrhistogram::Histogram;
use wattline_xdp::measured::{FlowTotal, QueueTotal, class_nanos};

/// Longest recorded latency, one hour; longer ones are recorded as this.
const LONGEST_NANOS: u64 = 3_600_000_000_000;
const WORD: u64 = u64::BITS as u64;

/// Counts of one flow at one receiving queue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct FlowCount {
    /// Number of the next expected packet of this flow.
    next: u64,
    pub received: u64,
    pub duplicated: u64,
    pub reordered: u64,
}

/// Account of one stream.
#[derive(Debug, Clone)]
pub(super) struct StreamAccount {
    seen: Vec<u64>,
    pub flows: Vec<FlowCount>,
}

/// Account of one receiving queue. After its creation, nothing is allocated.
#[derive(Debug, Clone)]
pub(super) struct Account {
    run: u8,
    pub streams: Vec<StreamAccount>,
    /// Received packets without duplicates.
    pub received: u64,
    /// Copies of received packets.
    pub duplicated: u64,
    /// Reordered packets; see above.
    pub reordered: u64,
    /// Largest distance of a reordered packet from the expected number.
    pub reordering_distance_max: u64,
    /// Damaged packets, whose stamp does not match its checksum.
    pub corrupt: u64,
    /// Packets of an earlier trial, or with a number that was never sent.
    pub stale: u64,
    /// All other frames.
    pub foreign: u64,
    /// Received bytes, without frame check sequences.
    pub bytes: u64,
    /// Nanoseconds from sending to reading, without duplicates.
    pub latency: Histogram<u64>,
    pub longest_gap_nanos: u64,
    last_nanos: Option<u64>,
    /// Time of the last poll, if it found frames.
    busy_at: Option<u64>,
    /// Longest time between two polls while frames were in the queue.
    pub stall_nanos: u64,
}

/// Counts of the driver's program at one queue.
#[derive(Debug, Clone, Copy)]
pub(super) struct Counted<'a> {
    pub total: QueueTotal,
    /// Flows by number.
    pub flows: &'a [FlowTotal],
    /// Packets by class of latency.
    pub latencies: &'a [u64],
}

/// Error of an account that would need too much memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TooMany;

impl Account {
    /// Creates an account for the trial `run`; each stream has its number of flows and its largest
    /// number of packets.
    pub fn new(run: u8, streams: &[(usize, u64)]) -> Result<Self, TooMany> {
        let stream = |(flows, packets): &(usize, u64)| {
            let words = usize::try_from(packets.div_ceil(WORD)).map_err(|_| TooMany)?;
            // The kernel provides zeroed memory at the first write, so packets that are never sent
            // cost nothing.
            Ok(StreamAccount { seen: vec![0; words], flows: vec![FlowCount::default(); *flows] })
        };
        let latency = Histogram::new_with_bounds(1, LONGEST_NANOS, 3).map_err(|_| TooMany)?;
        Ok(Self {
            run,
            streams: streams.iter().map(stream).collect::<Result<_, _>>()?,
            received: 0,
            duplicated: 0,
            reordered: 0,
            reordering_distance_max: 0,
            corrupt: 0,
            stale: 0,
            foreign: 0,
            bytes: 0,
            latency,
            longest_gap_nanos: 0,
            last_nanos: None,
            busy_at: None,
            stall_nanos: 0,
        })
    }

    /// Creates the account of one queue from the counts of a program in the driver, which has
    /// already recognised copies. `streams` has the number of flows of each stream.
    pub fn counted(run: u8, streams: &[usize], counted: &Counted<'_>) -> Result<Self, TooMany> {
        let Counted { total, flows, latencies } = *counted;
        let empty: Vec<_> = streams.iter().map(|flows| (*flows, 0)).collect();
        let mut account = Self::new(run, &empty)?;
        for (index, flow) in flows.iter().enumerate() {
            // Flows alternate between the streams.
            let stream = account.streams.get_mut(index % streams.len().max(1));
            let place = stream.and_then(|it| it.flows.get_mut(index / streams.len().max(1)));
            if let Some(place) = place {
                let FlowTotal { received, duplicated, reordered } = *flow;
                *place = FlowCount { next: 0, received, duplicated, reordered };
            }
        }
        for (class, count) in latencies.iter().enumerate().filter(|(_, count)| **count > 0) {
            account.latency.saturating_record_n(class_nanos(class).max(1), *count);
        }
        account.received = total.received;
        account.duplicated = total.duplicated;
        account.reordered = total.reordered;
        account.reordering_distance_max = total.distance_max;
        account.corrupt = total.corrupt;
        account.stale = total.stale;
        account.foreign = total.foreign;
        account.bytes = total.bytes;
        account.longest_gap_nanos = total.longest_gap_nanos;
        Ok(account)
    }

    /// Records a poll of the queue, with its time if it found frames.
    #[inline]
    pub fn polled(&mut self, busy: Option<u64>) {
        if let (Some(before), Some(now)) = (self.busy_at, busy) {
            self.stall_nanos = self.stall_nanos.max(now.saturating_sub(before));
        }
        self.busy_at = busy;
    }

    /// Counts a packet that arrived at `now`, in a frame of `bytes`.
    #[inline]
    pub fn take(&mut self, stamp: Stamp, bytes: usize, now: u64) {
        let stream = self.streams.get_mut(usize::from(stamp.stream));
        let (true, Some(stream)) = (stamp.run == self.run, stream) else {
            self.stale += 1;
            return;
        };
        let (word, bit) = (stamp.sequence / WORD, 1 << (stamp.sequence % WORD));
        // Sequence numbers have 40 bits.
        let Some(word) = stream.seen.get_mut(word as usize) else {
            self.stale += 1;
            return;
        };
        let flows = stream.flows.len() as u64;
        let (number, flow) = (stamp.sequence / flows, stamp.sequence % flows);
        let flow = &mut stream.flows[flow as usize];
        if *word & bit != 0 {
            self.duplicated += 1;
            flow.duplicated += 1;
            return;
        }
        *word |= bit;
        self.received += 1;
        flow.received += 1;
        self.bytes += bytes as u64;
        if number < flow.next {
            self.reordered += 1;
            flow.reordered += 1;
            self.reordering_distance_max = self.reordering_distance_max.max(flow.next - number);
        } else {
            flow.next = number + 1;
        }
        self.latency.saturating_record(stamp.age(now).max(1));
        if let Some(last) = self.last_nanos {
            self.longest_gap_nanos = self.longest_gap_nanos.max(now.saturating_sub(last));
        }
        self.last_nanos = Some(now);
    }

    /// Adds the account of another queue. A packet that arrived at both is a duplicate. The order
    /// of a flow's packets across queues is unknown.
    pub fn merge(&mut self, other: &Self) {
        for (ours, theirs) in self.streams.iter_mut().zip(&other.streams) {
            let flows = ours.flows.len() as u64;
            let words = ours.seen.iter_mut().zip(&theirs.seen);
            for (index, (ours_seen, theirs_seen)) in words.enumerate() {
                let mut twice = *ours_seen & theirs_seen;
                *ours_seen |= theirs_seen;
                while twice != 0 {
                    let sequence = index as u64 * WORD + u64::from(twice.trailing_zeros());
                    let flow = &mut ours.flows[(sequence % flows) as usize];
                    flow.received -= 1;
                    flow.duplicated += 1;
                    self.received -= 1;
                    self.duplicated += 1;
                    twice &= twice - 1;
                }
            }
            for (ours, theirs) in ours.flows.iter_mut().zip(&theirs.flows) {
                ours.received += theirs.received;
                ours.duplicated += theirs.duplicated;
                ours.reordered += theirs.reordered;
            }
        }
        self.received += other.received;
        self.duplicated += other.duplicated;
        self.reordered += other.reordered;
        self.reordering_distance_max =
            self.reordering_distance_max.max(other.reordering_distance_max);
        self.corrupt += other.corrupt;
        self.stale += other.stale;
        self.foreign += other.foreign;
        self.bytes += other.bytes;
        // All histograms have the same bounds.
        let _ = self.latency.add(&other.latency);
        self.longest_gap_nanos = self.longest_gap_nanos.max(other.longest_gap_nanos);
        self.stall_nanos = self.stall_nanos.max(other.stall_nanos);
    }

    /// Returns the number of flows that arrived at both queues.
    pub fn shared_flows(&self, other: &Self) -> u64 {
        let both = |(ours, theirs): (&StreamAccount, &StreamAccount)| {
            let flows = ours.flows.iter().zip(&theirs.flows);
            flows.filter(|(ours, theirs)| ours.received > 0 && theirs.received > 0).count() as u64
        };
        self.streams.iter().zip(&other.streams).map(both).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamp(sequence: u64) -> Stamp {
        Stamp { run: 1, stream: 0, sequence, nanos: 100 }
    }

    fn account(flows: usize, packets: u64) -> Account {
        Account::new(1, &[(flows, packets)]).unwrap()
    }

    fn after(flows: usize, sequences: &[u64]) -> Account {
        let mut account = account(flows, 100);
        sequences.iter().for_each(|sequence| account.take(stamp(*sequence), 60, 1_100));
        account
    }

    #[test]
    fn packets_below_the_expected_number_are_reordered() {
        // 8 is expected when 4 arrives.
        let late = after(1, &[1, 2, 3, 5, 6, 7, 4, 8]);
        assert_eq!((late.received, late.reordered, late.reordering_distance_max), (8, 1, 4));
        // Two packets that arrive after 9 are two reordered packets.
        assert_eq!(after(1, &[1, 2, 9, 3, 4, 10]).reordered, 2);
        // Loss alone reorders nothing.
        assert_eq!(after(1, &[1, 5, 9]).reordered, 0);
    }

    #[test]
    fn order_counts_only_within_a_flow() {
        // Three flows: 0 3 6 | 1 4 7 | 2 5 8.
        assert_eq!(after(3, &[2, 1, 0, 5, 4, 3]).reordered, 0);
        let swapped = after(3, &[0, 1, 2, 6, 4, 5, 3]);
        assert_eq!(swapped.reordered, 1);
        assert_eq!(swapped.streams[0].flows[0].reordered, 1);
    }

    #[test]
    fn copies_only_count_as_duplicates() {
        let account = after(1, &[0, 1, 2, 0, 2, 2]);
        assert_eq!((account.received, account.duplicated, account.reordered), (3, 3, 0));
        assert_eq!(account.latency.len(), 3);
    }

    #[test]
    fn stall_is_the_time_between_two_polls_with_frames() {
        let mut account = account(1, 64);
        for busy in [Some(100), Some(350), None, Some(9_000), Some(9_100)] {
            account.polled(busy);
        }
        // No stall between 350 and 9,000: the queue was found empty.
        assert_eq!(account.stall_nanos, 250);
    }

    #[test]
    fn clock_that_goes_back_yields_neither_age_nor_gap() {
        let mut account = account(1, 64);
        account.take(stamp(0), 60, 1_100);
        account.polled(Some(1_100));
        // Before the packet was sent, and before the last arrival.
        account.take(stamp(1), 60, 50);
        account.polled(Some(50));
        assert_eq!((account.received, account.latency.min(), account.latency.max()), (2, 1, 1_000));
        assert_eq!((account.longest_gap_nanos, account.stall_nanos), (0, 0));
    }

    #[test]
    fn other_runs_streams_and_numbers_are_stale() {
        let mut account = account(1, 64);
        account.take(Stamp { run: 2, ..stamp(0) }, 60, 0);
        account.take(Stamp { stream: 1, ..stamp(0) }, 60, 0);
        account.take(stamp(64), 60, 0);
        account.take(stamp(u64::MAX), 60, 0);
        assert_eq!((account.stale, account.received), (4, 0));
    }

    #[test]
    fn counts_of_a_driver_become_flows_by_stream() {
        let flow = |received| FlowTotal { received, duplicated: 1, reordered: 2 };
        let flows = [flow(10), flow(11), flow(12)];
        let mut latencies = vec![0; 4096];
        (latencies[700], latencies[2100]) = (30, 3);
        let total = QueueTotal { received: 33, corrupt: 4, bytes: 99, ..QueueTotal::default() };
        let counted = Counted { total, flows: &flows, latencies: &latencies };
        let account = Account::counted(1, &[2, 1], &counted).unwrap();
        let received = |stream: usize| -> Vec<u64> {
            account.streams[stream].flows.iter().map(|flow| flow.received).collect()
        };
        assert_eq!((received(0), received(1)), (vec![10, 12], vec![11]));
        assert_eq!((account.received, account.corrupt, account.bytes), (33, 4, 99));
        let at = |quantile| account.latency.value_at_quantile(quantile);
        // Class 2100 covers 2152 and 2153 ns: 1024 classes of 2 ns begin at 2048.
        assert_eq!((at(0.5), at(1.0), account.latency.len()), (700, 2153, 33));
    }

    #[test]
    fn queues_add_up_and_copies_across_them_are_found() {
        let mut sum = after(2, &[0, 1, 2, 4]);
        let other = after(2, &[3, 4, 4, 5]);
        assert_eq!(sum.shared_flows(&other), 2);
        sum.merge(&other);
        assert_eq!((sum.received, sum.duplicated), (6, 2));
        let received: Vec<_> = sum.streams[0].flows.iter().map(|flow| flow.received).collect();
        assert_eq!(received, [3, 3]);
    }
}

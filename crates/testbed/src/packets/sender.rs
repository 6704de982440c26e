//! Sender of one queue.

use super::flows::Flow;
use super::schedule::Schedule;
use super::sizes::{FCS, Sizes};
use super::stamp::{SEQUENCE_MAX, Stamp};
use crate::clock::monotonic_nanos;
use std::sync::Arc;
use wattline_dataplane::frame::{BATCH_MAX, Frame, FramePool};
use wattline_dataplane::port::{PortId, PortQueue};

/// Age above which late packets are skipped, except the last few: sent late, they would form an
/// unscheduled burst and be lost.
pub(super) const CATCH_UP_NANOS: u64 = 100_000;
/// Number of late packets that are always sent: they fit into the ring of any device.
pub(super) const CATCH_UP_PACKETS: u64 = 64;
/// Time after the end of the schedule in which late packets may still be sent.
pub(super) const LAST_CHANCE_NANOS: u64 = 10_000_000;

/// Sender of one queue in one trial.
pub(super) struct Sender {
    run: u8,
    stream: u8,
    flows: Arc<[Flow]>,
    sizes: Sizes,
    schedule: Schedule,
    start: u64,
    /// Completed packets of the schedule: sent, or skipped because they were late.
    position: u64,
    /// Packets sent; also the number of the next packet.
    sequence: u64,
    /// Time of the last packet.
    last: u64,
    bytes: u64,
    batch_max: u64,
    /// Time of the last turn, if it had packets to send.
    busy_at: Option<u64>,
    stall_nanos: u64,
    ended: bool,
    stopped: bool,
}

/// Packets that a queue actually sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Sent {
    /// Packets that the kernel accepted.
    pub packets: u64,
    /// Bytes sent, without frame check sequences.
    pub bytes: u64,
    /// Packets that were due but never sent: the generator's shortfall.
    pub unsent: u64,
    /// Start time on [`crate::clock`].
    pub start_nanos: u64,
    /// Time from the start to the last packet.
    pub nanos: u64,
    /// Largest number of packets sent at once.
    pub batch_max: u64,
    /// Longest time between two turns while packets were due.
    pub stall_nanos: u64,
}

/// Result of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    /// There may be more to send at once.
    Busy,
    /// Nothing to send before this time.
    IdleUntil(u64),
    /// The load is complete.
    Over,
}

impl Sender {
    /// Creates a sender; call [`begin`](Self::begin) before the first turn.
    pub fn new(
        (run, stream): (u8, u8),
        flows: Arc<[Flow]>,
        sizes: &Sizes,
        schedule: Schedule,
    ) -> Self {
        Self {
            run,
            stream,
            flows,
            sizes: sizes.clone(),
            schedule,
            start: 0,
            position: 0,
            sequence: 0,
            last: 0,
            bytes: 0,
            batch_max: 0,
            busy_at: None,
            stall_nanos: 0,
            ended: false,
            stopped: false,
        }
    }

    /// Sets the start time on [`crate::clock`].
    pub fn begin(&mut self, start: u64) {
        (self.start, self.last) = (start, start);
    }

    /// Ends early; packets that were not due yet are not a shortfall.
    pub fn stop(&mut self) {
        self.ended = true;
        self.stopped = true;
    }

    /// Returns the number of packets sent so far.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Sends due packets, at most a batch.
    #[inline]
    pub fn turn(&mut self, pool: &mut FramePool, queue: &mut dyn PortQueue) -> Turn {
        self.turn_at(monotonic_nanos(), pool, queue)
    }

    /// Runs a turn at `now`, which may be before the previous turn.
    #[inline]
    fn turn_at(&mut self, now: u64, pool: &mut FramePool, queue: &mut dyn PortQueue) -> Turn {
        let Some(elapsed) = now.checked_sub(self.start) else {
            return Turn::IdleUntil(self.start);
        };
        if self.ended || self.is_over(elapsed) {
            self.ended = true;
            return Turn::Over;
        }
        let due = self.schedule.due(elapsed);
        if !self.schedule.is_flat_out() {
            let late = self.schedule.due(elapsed.saturating_sub(CATCH_UP_NANOS));
            // The first packet is due at once, so the start is no delay.
            let late = if elapsed < CATCH_UP_NANOS { 0 } else { late };
            let late = late.min(due.saturating_sub(CATCH_UP_PACKETS));
            if late > self.position {
                self.position = late;
            }
        }
        let wanted = due.saturating_sub(self.position).min(BATCH_MAX as u64) as usize;
        if let Some(before) = self.busy_at.replace(now) {
            self.stall_nanos = self.stall_nanos.max(now.saturating_sub(before));
        }
        if wanted == 0 {
            self.busy_at = None;
            return Turn::IdleUntil(self.start.saturating_add(self.schedule.due_at(self.position)));
        }
        let taken = self.send(pool, queue, wanted, now);
        if taken > 0 {
            self.last = self.last.max(now);
        }
        self.position += taken;
        self.batch_max = self.batch_max.max(taken);
        queue.recycle(pool);
        Turn::Busy
    }

    /// Writes frames and queues them; returns the number of accepted frames.
    fn send(
        &mut self,
        pool: &mut FramePool,
        queue: &mut dyn PortQueue,
        wanted: usize,
        now: u64,
    ) -> u64 {
        let mut frames = [Frame::default(); BATCH_MAX];
        let mut made = 0;
        // One division per batch: per packet, divisions would cost more than the headers.
        let flows = self.flows.len() as u64;
        let (mut round, mut number) = (self.sequence / flows, self.sequence % flows);
        while made < wanted {
            let Some(chunk) = pool.take_chunk() else { break };
            let sequence = self.sequence + made as u64;
            // Depends on the round as well, so that every flow has every length.
            let length = self.sizes.at(round.wrapping_add(number)) - FCS;
            let frame =
                Frame { offset: chunk + pool.headroom(), length, port_in: PortId::default() };
            let stamp = Stamp { run: self.run, stream: self.stream, sequence, nanos: now };
            self.flows[number as usize].write(pool.frame_bytes(&frame), stamp);
            frames[made] = frame;
            made += 1;
            number += 1;
            if number == flows {
                (round, number) = (round + 1, 0);
            }
        }
        let taken = queue.transmit(pool, &frames[..made]);
        for frame in &frames[taken..made] {
            pool.free(frame.offset);
        }
        queue.flush(pool);
        self.bytes += frames[..taken].iter().map(|frame| u64::from(frame.length)).sum::<u64>();
        self.sequence += taken as u64;
        taken as u64
    }

    fn is_over(&self, elapsed: u64) -> bool {
        let end = self.schedule.duration_nanos();
        if self.position >= self.schedule.packets() || self.sequence >= SEQUENCE_MAX {
            return true;
        }
        let grace = if self.schedule.is_flat_out() { 0 } else { LAST_CHANCE_NANOS };
        elapsed >= end.saturating_add(grace)
    }

    /// Returns the account of a finished queue; `stuck` packets were never sent.
    pub fn finish(self, stuck: u64) -> Sent {
        let planned = match self.schedule.packets() {
            _ if self.stopped => self.position,
            // Without a limit, the planned number is the actual one.
            u64::MAX => self.sequence,
            planned => planned,
        };
        let packets = self.sequence.saturating_sub(stuck);
        Sent {
            packets,
            bytes: self.bytes,
            unsent: planned.saturating_sub(packets),
            start_nanos: self.start,
            nanos: self.last - self.start,
            batch_max: self.batch_max,
            stall_nanos: self.stall_nanos,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{InterfaceFacts, plain_link};
    use super::*;
    use std::time::Duration;
    use wattline_dataplane::port::PortCounters;

    const MILLISECOND: u64 = 1_000_000;
    const SECOND: u64 = 1_000 * MILLISECOND;
    const START: u64 = 50 * SECOND;

    /// A link that accepts this many further frames.
    struct Room(usize);

    impl PortQueue for Room {
        fn receive(&mut self, _pool: &mut FramePool, _frames: &mut [Frame]) -> usize {
            0
        }

        fn transmit(&mut self, pool: &mut FramePool, frames: &[Frame]) -> usize {
            let taken = frames.len().min(self.0);
            self.0 -= taken;
            frames[..taken].iter().for_each(|frame| pool.free(frame.offset));
            taken
        }

        fn flush(&mut self, _pool: &mut FramePool) {}

        fn recycle(&mut self, _pool: &mut FramePool) {}

        fn pending(&mut self) -> usize {
            0
        }

        fn counters(&self) -> PortCounters {
            PortCounters::default()
        }
    }

    /// Creates a sender of twenty thousand packets per second for ten seconds.
    fn sender() -> (Sender, FramePool) {
        let facts = InterfaceFacts { mac: [2; 6], ..InterfaceFacts::default() };
        let addresses = plain_link(&facts, &facts);
        let flows: Vec<Flow> = (0..4).map(|number| Flow::new(&addresses, number)).collect();
        let load = super::super::Load {
            rate_pps: 20e3,
            duration: Duration::from_secs(10),
            ..super::super::Load::default()
        };
        let pool = FramePool::zeroed(256, 2048, 256);
        let sizes = Sizes::fixed(64);
        let mut sender = Sender::new((1, 0), flows.into(), &sizes, load.schedule());
        sender.begin(START);
        (sender, pool)
    }

    /// Runs turns every 50 µs in an interval; returns the number of packets sent.
    fn run(
        (sender, pool): &mut (Sender, FramePool),
        queue: &mut Room,
        times: std::ops::Range<u64>,
    ) -> u64 {
        let before = sender.sequence();
        for now in times.step_by(50_000) {
            sender.turn_at(START + now, pool, queue);
        }
        sender.sequence() - before
    }

    #[test]
    fn clock_that_jumps_ahead_causes_a_shortfall_and_no_burst() {
        let (mut it, mut queue) = (sender(), Room(usize::MAX));
        let sent = run(&mut it, &mut queue, 0..SECOND);
        assert!((19_990..=20_001).contains(&sent), "{sent}");
        // No turn for five seconds: the machine slept.
        assert!(run(&mut it, &mut queue, 6 * SECOND..6 * SECOND + 50_000) <= BATCH_MAX as u64);
        let sent = run(&mut it, &mut queue, 6 * SECOND + 50_000..12 * SECOND);
        assert!((79_900..=80_001).contains(&sent), "{sent}");
        let (sender, mut pool) = it;
        let mut sender = sender;
        assert_eq!(sender.turn_at(START + 12 * SECOND, &mut pool, &mut queue), Turn::Over);
        let account = sender.finish(0);
        assert_eq!(account.packets + account.unsent, 200_000);
        assert!((99_900..=100_100).contains(&account.unsent), "{account:?}");
        assert!(account.stall_nanos < 6 * SECOND && account.nanos <= 10 * SECOND, "{account:?}");
    }

    #[test]
    fn clock_that_goes_back_sends_nothing_twice() {
        let (mut it, mut queue) = (sender(), Room(usize::MAX));
        run(&mut it, &mut queue, 0..2 * SECOND);
        assert_eq!(run(&mut it, &mut queue, SECOND..2 * SECOND - 200_000), 0);
        let (sender, pool) = &mut it;
        // Also to before the start.
        assert_eq!(sender.turn_at(START - SECOND, pool, &mut queue), Turn::IdleUntil(START));
        let sent = run(&mut it, &mut queue, 2 * SECOND..3 * SECOND);
        assert!((19_990..=20_001).contains(&sent), "{sent}");
        let account = it.0.finish(0);
        assert!(account.nanos <= 3 * SECOND, "{account:?}");
    }

    #[test]
    fn frames_refused_by_a_link_count_as_shortfall() {
        let (mut it, mut queue) = (sender(), Room(2_000));
        run(&mut it, &mut queue, 0..11 * SECOND);
        let account = it.0.finish(0);
        assert_eq!((account.packets, account.unsent), (2_000, 198_000));
    }
}

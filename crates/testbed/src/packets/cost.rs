//! Cost of the generator's own code per packet, without the kernel: one thread writes frames to a
//! queue in memory, then reads them and accounts for them.

use super::account::Account;
use super::flows::{Addresses, Flow};
use super::load::Load;
use super::receiver;
use super::schedule::Schedule;
use super::sender::{Sender, Turn};
use crate::clock::monotonic_nanos;
use crate::cpu::thread_cpu_seconds;
use serde::Serialize;
use std::collections::VecDeque;
use std::time::Duration;
use wattline_dataplane::frame::{Frame, FramePool};
use wattline_dataplane::port::{PortCounters, PortQueue};

/// Frames in flight: as many as a sending ring holds, so that they leave the processor's nearest
/// caches as in real use.
const FRAMES: usize = 4096;
/// Number of rounds; the median excludes interruptions.
const ROUNDS: usize = 41;
const CHUNK: u32 = 2048;
const HEADROOM: u32 = 256;

/// Processor time of the generator's own code per packet.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct OwnCost {
    /// Time to write a packet with number and stamp, and to queue it.
    pub sender_seconds_per_packet: f64,
    /// Time to read it and to account for it.
    pub receiver_seconds_per_packet: f64,
}

/// A queue that returns transmitted frames in order.
#[derive(Default)]
struct Loop {
    frames: VecDeque<Frame>,
    counters: PortCounters,
}

impl PortQueue for Loop {
    fn receive(&mut self, _pool: &mut FramePool, frames: &mut [Frame]) -> usize {
        let count = frames.len().min(self.frames.len());
        for (place, frame) in frames.iter_mut().zip(self.frames.drain(..count)) {
            *place = frame;
        }
        count
    }

    fn transmit(&mut self, _pool: &mut FramePool, frames: &[Frame]) -> usize {
        let room = FRAMES - self.frames.len();
        let count = frames.len().min(room);
        self.frames.extend(&frames[..count]);
        count
    }

    fn flush(&mut self, _pool: &mut FramePool) {}

    fn recycle(&mut self, _pool: &mut FramePool) {}

    fn pending(&mut self) -> usize {
        self.frames.len()
    }

    fn counters(&self) -> PortCounters {
        self.counters
    }
}

/// Measures with the lengths and flows of `load`. Takes some tens of milliseconds.
pub fn measure(addresses: &Addresses, load: &Load) -> OwnCost {
    let packets = (FRAMES * ROUNDS) as u64;
    let flows: Vec<Flow> =
        (0..load.flows.max(1)).map(|number| Flow::new(addresses, number)).collect();
    let Ok(mut account) = Account::new(1, &[(flows.len(), packets)]) else {
        // An account always has room for so few packets.
        return OwnCost::default();
    };
    let mut pool = FramePool::zeroed(FRAMES as u32 + 64, CHUNK, HEADROOM);
    let schedule = Schedule::burst(packets, Duration::from_secs(3600));
    let mut sender = Sender::new((1, 0), flows.into(), &load.sizes, schedule);
    sender.begin(monotonic_nanos());
    let mut queue = Loop { frames: VecDeque::with_capacity(FRAMES), ..Loop::default() };
    let (mut making, mut reading) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let began = thread_cpu_seconds();
        while queue.frames.len() < FRAMES && sender.turn(&mut pool, &mut queue) == Turn::Busy {}
        let made = queue.frames.len();
        let between = thread_cpu_seconds();
        while receiver::turn(&mut account, &mut pool, &mut queue) > 0 {}
        let ended = thread_cpu_seconds();
        if made > 0 {
            making.push((between - began) / made as f64);
            reading.push((ended - between) / made as f64);
        }
    }
    OwnCost {
        sender_seconds_per_packet: median(&mut making),
        receiver_seconds_per_packet: median(&mut reading),
    }
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::super::{InterfaceFacts, Sizes, plain_link};
    use super::*;

    fn cost(sizes: Sizes) -> OwnCost {
        let facts = InterfaceFacts { mac: [2; 6], ..InterfaceFacts::default() };
        measure(&plain_link(&facts, &facts), &Load { sizes, ..Load::default() })
    }

    #[test]
    fn both_ends_have_a_cost_and_long_frames_cost_their_sender_more() {
        // In turns: the machine changes its speed between rounds, but hardly within one.
        let rounds: Vec<_> =
            (0..9).map(|_| (cost(Sizes::fixed(64)), cost(Sizes::fixed(1518)))).collect();
        let median_of = |figure: fn(&(OwnCost, OwnCost)) -> f64| {
            median(&mut rounds.iter().map(figure).collect::<Vec<_>>())
        };
        assert!(median_of(|(short, _)| short.sender_seconds_per_packet) > 0.0, "{rounds:?}");
        assert!(median_of(|(short, _)| short.receiver_seconds_per_packet) > 0.0, "{rounds:?}");
        let ratio = median_of(|(short, long)| {
            long.sender_seconds_per_packet / short.sender_seconds_per_packet
        });
        assert!(ratio > 1.0, "{rounds:?}");
        // Fifty times the usual cost: only a wrong unit fails this.
        assert!(median_of(|(_, long)| long.sender_seconds_per_packet) < 20e-6, "{rounds:?}");
    }
}

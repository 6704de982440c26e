//! `punt`: leaves packets to the kernel, unchanged.
//!
//! Each punted packet costs a system call. A worker therefore punts at most 50,000 packets per
//! second, so that a flood of packets for the kernel does not delay all others.
//!
//! - next: `drop` (`punt-queue-full`: the way to the kernel takes no more; `punt-refused`: it
//!   takes none or not this; `punt-unavailable`: there is none; `punt-limited`)

use crate::drop_reason::DropReason;
use crate::graph::{CONSUMED, Context, Edge, Node};
use crate::packet::Packet;
use crate::punt::PuntSink;
use crate::token_bucket::TokenBucket;

const DROP: Edge = 0;

/// Largest number of punted packets per second, and in a burst.
const RATE: u32 = 50_000;
const BURST: u32 = 5_000;

/// Node `punt`; see the module.
pub struct Punt {
    sink: Box<dyn PuntSink>,
    bucket: TokenBucket,
}

impl Punt {
    /// Makes the node; it hands packets to `sink`.
    pub fn new(sink: Box<dyn PuntSink>) -> Self {
        Self { sink, bucket: TokenBucket::new(RATE, BURST) }
    }
}

impl Node for Punt {
    fn name(&self) -> &'static str {
        "punt"
    }

    fn next(&self) -> &'static [&'static str] {
        &["drop"]
    }

    fn process(&mut self, context: &mut Context, packets: &mut [Packet], edges: &mut [Edge]) {
        let mut taken = 0;
        for (packet, edge) in packets.iter_mut().zip(edges) {
            let result = match self.bucket.take(context.now) {
                true => self.sink.punt(&mut context.pool, &packet.received()),
                false => Err(DropReason::PuntLimited),
            };
            *edge = match result {
                Ok(()) => {
                    taken += 1;
                    CONSUMED
                }
                Err(reason) => {
                    packet.reason = reason;
                    DROP
                }
            };
        }
        context.counters.totals.punted.add(taken);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{Frame, FramePool};
    use crate::testing::{Bench, MAC_A, frame4};
    use wattline_units::{Span, Time};

    /// A sink that accepts every other packet.
    struct Choosy(bool);

    impl PuntSink for Choosy {
        fn punt(&mut self, pool: &mut FramePool, frame: &Frame) -> Result<(), DropReason> {
            self.0 = !self.0;
            if !self.0 {
                return Err(DropReason::PuntRefused);
            }
            pool.free(frame.offset);
            Ok(())
        }
    }

    #[test]
    fn refused_packets_are_dropped_and_the_rest_goes_on() {
        let mut bench = Bench::new();
        let mut node = Punt::new(Box::new(Choosy(false)));
        let bytes = frame4(MAC_A, 64, b"payload");
        let mut packets: Vec<Packet> = (0..5).map(|_| bench.packet(&bytes)).collect();
        let mut edges = [DROP; 5];
        node.process(&mut bench.context, &mut packets, &mut edges);
        assert_eq!(edges, [CONSUMED, DROP, CONSUMED, DROP, CONSUMED]);
        assert_eq!(packets[3].reason, DropReason::PuntRefused);
        assert_eq!(bench.context.counters.snapshot().punted, 3);
    }

    #[test]
    fn a_flood_is_limited() {
        let mut bench = Bench::new();
        let mut node = Punt::new(Box::new(crate::punt::Discard));
        let bytes = frame4(MAC_A, 64, b"payload");
        let mut punted = |bench: &mut Bench, count: u32| {
            let taken = (0..count).filter(|_| {
                let packet = bench.packet(&bytes);
                let (edge, packet) = bench.process(&mut node, packet);
                if edge == DROP {
                    assert_eq!(packet.reason, DropReason::PuntLimited);
                    bench.context.pool.free(packet.frame.offset);
                }
                edge == CONSUMED
            });
            taken.count()
        };
        bench.context.now = Time::ZERO + Span::from_millis(1);
        assert_eq!(punted(&mut bench, 2 * BURST), BURST as usize);
        bench.context.now += Span::from_millis(1);
        assert_eq!(punted(&mut bench, 1000), 50);
    }
}

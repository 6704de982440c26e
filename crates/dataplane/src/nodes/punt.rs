//! `punt`: leaves packets to the kernel, unchanged.
//!
//! Each punted packet costs a system call, in which the kernel forwards it. XDP programs leave
//! packets to the kernel at their own interface wherever they can; only packets that a worker has
//! already taken come here.
//!
//! - next: `drop` (`punt-queue-full`: the kernel's queue is full; `punt-refused`: the kernel
//!   refuses this packet or all; `punt-unavailable`: there is no way to the kernel)

use crate::graph::{CONSUMED, Context, Edge, Node};
use crate::packet::Packet;
use crate::punt::PuntSink;

const DROP: Edge = 0;

/// Node `punt`; see the module.
pub struct Punt {
    sink: Box<dyn PuntSink>,
}

impl Punt {
    /// Makes the node; it hands packets to `sink`.
    pub fn new(sink: Box<dyn PuntSink>) -> Self {
        Self { sink }
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
            *edge = match self.sink.punt(&mut context.pool, &packet.received()) {
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
    use crate::drop_reason::DropReason;
    use crate::frame::{Frame, FramePool};
    use crate::testing::{Bench, MAC_A, frame4};

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
    fn refused_packets_are_dropped_and_the_rest_is_punted() {
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
}

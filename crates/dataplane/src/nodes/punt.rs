//! `punt`: leaves packets to the kernel, unchanged.
//!
//! - next: `drop` (`punt-queue-full`: the way to the kernel takes no more)

use crate::drop_reason::DropReason;
use crate::frame::{BATCH_MAX, Frame};
use crate::graph::{CONSUMED, Context, Edge, Node};
use crate::packet::Packet;
use crate::punt::PuntSink;

const DROP: Edge = 0;

/// The node.
pub struct Punt {
    sink: Box<dyn PuntSink>,
}

impl Punt {
    /// Punts to `sink`.
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
        let mut frames = [Frame::default(); BATCH_MAX];
        for (frame, packet) in frames.iter_mut().zip(&*packets) {
            *frame = packet.received();
        }
        let taken = self.sink.punt(&mut context.pool, &frames[..packets.len()]).min(packets.len());
        context.counters.totals.punted.add(taken as u64);
        edges[..taken].fill(CONSUMED);
        edges[taken..].fill(DROP);
        for packet in &mut packets[taken..] {
            packet.reason = DropReason::PuntQueueFull;
        }
    }
}

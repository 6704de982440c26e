//! `drop`: counts packets by the reason that they carry and frees their chunks.
//!
//! - next: none

use crate::graph::{CONSUMED, Context, Edge, Node};
use crate::packet::Packet;

/// Node `drop`; see the module.
pub struct Drop;

impl Node for Drop {
    fn name(&self) -> &'static str {
        "drop"
    }

    fn next(&self) -> &'static [&'static str] {
        &[]
    }

    fn process(&mut self, context: &mut Context, packets: &mut [Packet], edges: &mut [Edge]) {
        for packet in packets {
            context.counters.dropped(packet.reason, 1);
            context.pool.free(packet.frame.offset);
        }
        edges.fill(CONSUMED);
    }
}

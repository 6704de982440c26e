//! `output`: queues packets for transmission, by port.
//!
//! The worker passes the queues to the ports at the end of its iteration. Packets that a transmit
//! ring does not accept are then dropped as `transmit-ring-full`.
//!
//! - next: `drop` (`no-port`: this worker does not serve the egress port)

use crate::drop_reason::DropReason;
use crate::graph::{CONSUMED, Context, Edge, Node};
use crate::packet::Packet;

const DROP: Edge = 0;

/// Node `output`; see the module.
pub struct Output;

impl Node for Output {
    fn name(&self) -> &'static str {
        "output"
    }

    fn next(&self) -> &'static [&'static str] {
        &["drop"]
    }

    fn process(&mut self, context: &mut Context, packets: &mut [Packet], edges: &mut [Edge]) {
        let Some(first) = packets.first().map(|packet| packet.port_out) else { return };
        // In the common case the whole batch is for one port and is copied at once.
        let same = packets.iter().fold(true, |same, packet| same & (packet.port_out == first));
        if let (true, Some(queue)) = (same, context.transmit.get_mut(usize::from(first.0))) {
            queue.extend(packets.iter().map(|packet| packet.frame));
            edges.fill(CONSUMED);
            return;
        }
        for (packet, edge) in packets.iter_mut().zip(edges) {
            // Queues have room for as many frames as there are chunks, so they never grow here.
            *edge = match context.transmit.get_mut(usize::from(packet.port_out.0)) {
                Some(queue) => {
                    queue.push(packet.frame);
                    CONSUMED
                }
                None => {
                    packet.reason = DropReason::NoPort;
                    DROP
                }
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::port::PortId;
    use crate::testing::{Bench, MAC_A, frame4};

    fn queued(ports: &[u16]) -> (Vec<Edge>, [usize; 2]) {
        let mut bench = Bench::new();
        let mut packets: Vec<Packet> = ports
            .iter()
            .map(|port| Packet { port_out: PortId(*port), ..bench.packet(&frame4(MAC_A, 64, &[])) })
            .collect();
        let mut edges = vec![7; packets.len()];
        Output.process(&mut bench.context, &mut packets, &mut edges);
        (edges, [0, 1].map(|port: usize| bench.context.transmit[port].len()))
    }

    #[test]
    fn each_port_gets_its_own() {
        const C: Edge = CONSUMED;
        assert_eq!(queued(&[1, 1, 1]), (vec![C, C, C], [0, 3]));
        assert_eq!(queued(&[1, 0, 1]), (vec![C, C, C], [1, 2]));
        assert_eq!(queued(&[1, 9, 0]), (vec![C, DROP, C], [1, 1]));
        assert_eq!(queued(&[9, 9]), (vec![DROP, DROP], [0, 0]));
    }
}

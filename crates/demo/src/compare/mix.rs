//! The mix of flows and sizes as frames, for ports without sockets.

use etherparse::PacketBuilder;
use wattline_testbed::probe::{Load, Payload, payload_bytes};
use wattline_testbed::topology::{LEFT, SINK, SOURCE};

/// Largest number of frames made in advance: about 200 MB of the mix.
pub const FRAMES_MAX: usize = 500_000;

/// Frames that the probe's sockets would send, in order.
pub fn frames(load: &Load) -> Vec<Vec<u8>> {
    let count = usize::try_from(load.packets()).unwrap_or(usize::MAX).min(FRAMES_MAX);
    let flows = u64::from(load.flows.max(1));
    (0..count as u64).map(|index| frame(load, index % flows, index / flows)).collect()
}

fn frame(load: &Load, flow: u64, sequence: u64) -> Vec<u8> {
    let ipv6 = flow % 2 == 1;
    let size = load.sizes.frame_bytes(sequence + flow);
    let mut payload = vec![0; payload_bytes(size, ipv6)];
    Payload { flow: flow as u16, sequence, nanos: 0 }.emit(&mut payload);
    let link = PacketBuilder::ethernet2(SOURCE.mac, LEFT.mac);
    let ip = if ipv6 {
        link.ipv6(SOURCE.v6.octets(), SINK.v6.octets(), 64)
    } else {
        link.ipv4(SOURCE.v4.octets(), SINK.v4.octets(), 64)
    };
    let udp = ip.udp(40_000 + flow as u16, wattline_testbed::probe::PORT);
    let mut frame = Vec::with_capacity(udp.size(payload.len()));
    // Writing to a vector fails only for payloads longer than an IP packet; these are at most 1500.
    let _ = udp.write(&mut frame, &payload);
    frame
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use wattline_testbed::probe::SizeMix;

    #[test]
    fn frames_have_their_sizes_and_both_families() {
        let load = Load {
            rate_pps: 100.0,
            duration: Duration::from_secs(1),
            flows: 4,
            sizes: SizeMix::fixed(594),
        };
        let frames = frames(&load);
        assert_eq!(frames.len(), 100);
        // Without the frame check sequence.
        assert!(frames.iter().all(|frame| frame.len() == 590));
        let ipv6 = frames.iter().filter(|frame| frame[12..14] == [0x86, 0xdd]).count();
        assert_eq!(ipv6, 50);
    }
}

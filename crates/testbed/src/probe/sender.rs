//! Sender of a load: one socket for each flow, paced by the clock.

use super::live::{Live, PORT};
use super::load::Load;
use super::payload::{self, Payload};
use crate::Error;
use crate::clock::monotonic_nanos;
use crate::packets::{FCS, Sizes};
use crate::topology::SINK;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Shortest wait for which the sender sleeps. Packets due earlier are sent at once, so a sleeping
/// sender sends bursts of this length.
const SHORTEST_SLEEP_NANOS: u64 = 50_000;

/// A flow's socket, its family, and the number of its next packet.
#[derive(Debug)]
struct Flow {
    socket: UdpSocket,
    ipv6: bool,
    sequence: u64,
}

/// Sender of one load.
#[derive(Debug)]
pub(super) struct Sender {
    flows: Vec<Flow>,
    load: Load,
}

/// Counts of a sent load.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Sent {
    /// Packets offered, including refused ones.
    pub packets: u64,
    /// Bytes of the frames that the kernel accepted, with frame check sequence.
    pub bytes: u64,
    /// Packets that the sender's own kernel refused (no route, link down, queue full): offered and
    /// lost.
    pub refused: u64,
    /// Time from the first packet to the last.
    pub nanos: u64,
}

impl Sender {
    /// Opens the sockets, in the namespace of the calling thread.
    pub fn open(load: &Load) -> Result<Self, Error> {
        load.check()?;
        let flows = (0..load.flows).map(|number| open_flow(number % 2 == 1));
        Ok(Self { flows: flows.collect::<Result<_, _>>()?, load: *load })
    }

    /// Sends the load until it is complete or the sender is stopped.
    pub fn run(mut self, live: &Live) -> Result<Sent, Error> {
        let mut buffer = [0_u8; 1_518];
        let mut sent = Sent::default();
        let start = monotonic_nanos();
        let flows = self.flows.len() as u64;
        let sizes = Sizes::imix();
        for index in 0..self.load.packets() {
            wait_until(start + (index as f64 / self.load.rate_pps * 1e9) as u64);
            if live.stop_sending.load(Ordering::Acquire) {
                break;
            }
            let number = (index % flows) as usize;
            let flow = &mut self.flows[number];
            // The size also depends on the round, so that every flow has every size.
            let frame = usize::from(sizes.at(index / flows + index % flows));
            let payload = &mut buffer[..payload_bytes(frame, flow.ipv6)];
            let (flow_number, sequence) = (number as u16, flow.sequence);
            Payload { flow: flow_number, sequence, nanos: monotonic_nanos() }.emit(payload);
            flow.sequence += 1;
            match flow.socket.send(payload) {
                Ok(_) => sent.bytes += frame as u64,
                // A router that is down answers with ICMP errors, a link that is down not at all.
                // Both are loss, which the receiver counts.
                Err(_) => sent.refused += 1,
            }
            sent.packets += 1;
            live.sent.store(sent.packets, Ordering::Relaxed);
        }
        sent.nanos = monotonic_nanos() - start;
        Ok(sent)
    }
}

/// Returns the length of the UDP payload in a frame of `frame_bytes`; at least the length of a
/// probe's content, so the smallest IPv6 frame has 84 bytes rather than 64.
fn payload_bytes(frame_bytes: usize, ipv6: bool) -> usize {
    let headers = 14 + if ipv6 { 40 } else { 20 } + 8 + usize::from(FCS);
    frame_bytes.saturating_sub(headers).max(payload::LENGTH)
}

fn open_flow(ipv6: bool) -> Result<Flow, Error> {
    let (any, sink): (IpAddr, IpAddr) = if ipv6 {
        (Ipv6Addr::UNSPECIFIED.into(), SINK.v6.into())
    } else {
        (Ipv4Addr::UNSPECIFIED.into(), SINK.v4.into())
    };
    let failed = |action: &str, source| Error::io(format!("{action} a UDP socket"), source);
    let socket = UdpSocket::bind((any, 0)).map_err(|source| failed("opening", source))?;
    socket
        .connect(SocketAddr::from((sink, PORT)))
        .map_err(|source| failed("connecting", source))?;
    Ok(Flow { socket, ipv6, sequence: 0 })
}

fn wait_until(due: u64) {
    let ahead = due.saturating_sub(monotonic_nanos());
    if ahead > SHORTEST_SLEEP_NANOS {
        std::thread::sleep(Duration::from_nanos(ahead));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_have_the_requested_size() {
        assert_eq!(payload_bytes(64, false), 18);
        assert_eq!(payload_bytes(64, true), 18);
        assert_eq!(payload_bytes(1518, false), 1472);
        assert_eq!(payload_bytes(1518, true), 1452);
    }
}

//! Packets for a receiving gateway: inner packets in ESP, as the far end of the tunnel sends them.

use crate::memory_router::{LONGEST, Traffic};
use wattline_ipsec::esp::algorithm::Algorithm;
use wattline_ipsec::esp::transform::Transform;
use wattline_packet::esp::{HEADER, TRAILER, padding, write_trailer};
use wattline_packet::ipv4::{self, Ipv4Header};
use wattline_packet::{IntoBytes, ethernet, protocol};

/// SPI of the security association (SA); each direction has its own SA.
pub(super) const SPI: u32 = 0x1001;
/// Tunnel address of this gateway.
pub(super) const HERE: [u8; 4] = [192, 0, 2, 1];
/// Tunnel address of the far gateway.
pub(super) const THERE: [u8; 4] = [198, 51, 100, 1];

/// Returns the length of an ESP packet with `bytes` bytes inside, counted from the ESP header.
pub(super) fn length_of(algorithm: Algorithm, bytes: usize) -> usize {
    HEADER + algorithm.iv() + body_of(algorithm, bytes) + algorithm.icv()
}

/// Returns the length of the encrypted part of an ESP packet with `bytes` bytes inside.
pub(super) fn body_of(algorithm: Algorithm, bytes: usize) -> usize {
    bytes + padding(bytes, algorithm.alignment()) + TRAILER
}

/// Packets of another source, each wrapped in an ESP packet over IPv4.
pub(super) struct Sealed {
    inner: Box<dyn Traffic>,
    transform: Transform,
    sequence: u64,
    frame: Vec<u8>,
}

impl Sealed {
    pub fn new(inner: Box<dyn Traffic>, transform: Transform) -> Self {
        Self { inner, transform, sequence: 0, frame: vec![0; LONGEST] }
    }
}

impl Traffic for Sealed {
    fn write(&mut self, chunk: &mut [u8]) -> usize {
        let length = self.inner.write(&mut self.frame);
        let (link, inner) = self.frame[..length].split_at(ethernet::HEADER);
        let next_header = match inner.first().map(|byte| byte >> 4) {
            Some(4) => protocol::IPV4,
            _ => protocol::IPV6,
        };
        let algorithm = self.transform.algorithm();
        let packet = length_of(algorithm, inner.len());
        let (outer, rest) = chunk.split_at_mut(ethernet::HEADER + ipv4::HEADER);
        let esp = &mut rest[..packet];
        let addresses = [THERE, HERE].map(u32::from_be_bytes);
        let mut header =
            Ipv4Header::udp((ipv4::HEADER + packet) as u16, addresses[0], addresses[1]);
        header.protocol = protocol::ESP;
        header.fill_checksum();
        outer[..12].copy_from_slice(&link[..12]);
        outer[12..ethernet::HEADER].copy_from_slice(&ethernet::IPV4.to_be_bytes());
        outer[ethernet::HEADER..].copy_from_slice(header.as_bytes());

        self.sequence += 1;
        esp[..4].copy_from_slice(&SPI.to_be_bytes());
        esp[4..HEADER].copy_from_slice(&(self.sequence as u32).to_be_bytes());
        let start = HEADER + algorithm.iv();
        esp[start..start + inner.len()].copy_from_slice(inner);
        let end = packet - algorithm.icv();
        write_trailer(&mut esp[start + inner.len()..end], next_header);
        // If sealing fails, the router drops the packet, and the packet counts of the benchmark
        // differ.
        let _ = self.transform.seal(esp, self.sequence, true, self.sequence);
        ethernet::HEADER + ipv4::HEADER + packet
    }
}

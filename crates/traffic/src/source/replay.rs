//! Replay of a capture.

use super::{Links, Rate, Source};
use crate::capture::{CaptureError, Problem, Reader};
use crate::flow_hash::flow_hash;
use crate::packet::{Block, Packet};
use crate::random::Random;
use std::io::Read;
use std::sync::Arc;
use wattline_packet::toeplitz::Toeplitz;

/// What a replay keeps of a captured packet: 16 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TracePacket {
    /// Picoseconds since the first packet; never decreasing.
    pub picos: u64,
    /// RSS hash of its flow.
    pub flow: u32,
    /// Original length in bytes as an Ethernet frame, at most 65,535.
    pub length: u16,
}

/// A capture in memory, shared by all its replays.
#[derive(Debug, Clone)]
pub struct Trace {
    packets: Arc<[TracePacket]>,
    bytes: u64,
    /// From the first packet to where the next round begins, in picoseconds.
    period: f64,
}

impl Trace {
    /// Reads a capture to its end. Headers are enough: packets count with their original
    /// length. Captures without Ethernet headers count as if they had them.
    ///
    /// # Errors
    /// When the capture is broken or holds no packet.
    pub fn read<R: Read>(reader: &mut Reader<R>) -> Result<Self, CaptureError> {
        let mut packets: Vec<TracePacket> = Vec::new();
        let mut bytes = 0;
        let rss = Toeplitz::default();
        while let Some(record) = reader.next_record()? {
            let picos = record.time.as_picos();
            let picos = packets.last().map_or(picos, |last| last.picos.max(picos));
            let header = record.link_type.header_length().unwrap_or(14) as u32;
            let length = (record.original_length.saturating_sub(header) + 14).min(65_535) as u16;
            bytes += u64::from(length);
            packets.push(TracePacket {
                picos,
                flow: flow_hash(&rss, record.link_type, record.data),
                length,
            });
        }
        let Some(last) = packets.last() else {
            return Err(reader.reject(Problem::NoPackets));
        };
        let span = last.picos as f64;
        // The next round comes a mean gap after the last packet; a capture of one moment
        // is taken for a millisecond.
        let period = if span > 0.0 && packets.len() > 1 {
            span * packets.len() as f64 / (packets.len() - 1) as f64
        } else {
            1e9
        };
        Ok(Self { packets: packets.into(), bytes, period })
    }

    /// The packets in order of time.
    pub fn packets(&self) -> &[TracePacket] {
        &self.packets
    }
    /// Mean rate in packets per second.
    pub fn packets_per_second(&self) -> f64 {
        self.packets.len() as f64 / (self.period / 1e12)
    }
    /// Mean length in bytes.
    pub fn mean_bytes(&self) -> f64 {
        self.bytes as f64 / self.packets.len() as f64
    }
}

/// Replays a trace, once or over and over.
#[derive(Debug, Clone)]
pub struct Replay {
    trace: Trace,
    repeat: bool,
    /// Model picoseconds per captured one.
    stretch: f64,
    next: usize,
    /// What is added to the captured times in this round, in captured picoseconds.
    shift: f64,
    /// Told apart from the flows of other copies.
    salt: u32,
    port: Option<u8>,
    ports: u8,
}

impl Replay {
    /// Replays at the given mean rate, or as captured.
    pub fn new(trace: &Trace, rate: Option<Rate>, repeat: bool, links: Links) -> Self {
        let natural = trace.packets_per_second();
        let stretch =
            rate.map_or(1.0, |rate| natural / rate.packets_per_second(trace.mean_bytes()));
        let trace = trace.clone();
        let ports = links.ports;
        Self { trace, repeat, stretch, next: 0, shift: 0.0, salt: 0, port: None, ports }
    }

    /// One of several copies of a trace: begins at a random place, has flows of its own,
    /// and arrives on the port of its number.
    #[must_use]
    pub fn copy(mut self, number: u32, seed: u64) -> Self {
        let mut random = Random::new(seed, 0xc0 + u64::from(number));
        let begin = random.unit() * self.trace.period;
        self.next = self.trace.packets.partition_point(|p| (p.picos as f64) < begin);
        self.shift = -begin;
        self.salt = random.bits() as u32;
        self.port = Some((number % u32::from(self.ports)) as u8);
        self
    }
}

impl Source for Replay {
    fn next_block(&mut self, out: &mut Block) -> Result<(), CaptureError> {
        out.clear();
        while !out.is_full() {
            if self.next == self.trace.packets.len() {
                if !self.repeat {
                    break;
                }
                self.next = 0;
                self.shift += self.trace.period;
            }
            let packet = self.trace.packets[self.next];
            self.next += 1;
            let picos = (packet.picos as f64 + self.shift) * self.stretch;
            let flow = packet.flow ^ self.salt;
            // The bits above those that index the redirect table, so that the ports do not
            // share out its entries among them.
            let port = self.port.unwrap_or(((flow >> 7) % u32::from(self.ports)) as u8);
            out.push(Packet { picos: picos as u64, flow, length: packet.length, port });
        }
        Ok(())
    }
}

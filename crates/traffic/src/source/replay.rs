//! Replay of a capture.

use super::{Links, Rate, Source};
use crate::capture::{CaptureError, Problem, Reader};
use crate::flow_hash::flow_hash;
use crate::packet::{Block, Packet};
use crate::random::Random;
use std::io::Read;
use std::sync::Arc;
use wattline_packet::toeplitz::Toeplitz;

/// The parts of a captured packet that a replay needs, in 16 bytes.
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
    /// Time from the first packet to the start of the next round, in picoseconds.
    period: f64,
}

impl Trace {
    /// Reads a whole capture. Headers are enough, since packets count with their original length.
    /// Captures without Ethernet headers count as if they had them.
    ///
    /// # Errors
    /// Fails when the capture is invalid or holds no packet.
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
        // The next round starts a mean gap after the last packet. If all packets have the same
        // time, the capture counts as one millisecond long.
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
    /// Time from the first packet to a mean gap after the last, in seconds.
    pub fn seconds(&self) -> f64 {
        self.period / 1e12
    }
    /// Mean length in bytes.
    pub fn mean_bytes(&self) -> f64 {
        self.bytes as f64 / self.packets.len() as f64
    }
}

/// Replays a trace once or in a loop.
#[derive(Debug, Clone)]
pub struct Replay {
    trace: Trace,
    repeat: bool,
    /// Ratio of replay time to captured time.
    stretch: f64,
    next: usize,
    /// Offset of this round in captured picoseconds.
    shift: f64,
    /// Value that distinguishes the flows from those of other copies.
    salt: u32,
    port: Option<u8>,
    ports: u8,
}

impl Replay {
    /// Replays at this mean rate, or as captured.
    pub fn new(trace: &Trace, rate: Option<Rate>, repeat: bool, links: Links) -> Self {
        let natural = trace.packets_per_second();
        let stretch =
            rate.map_or(1.0, |rate| natural / rate.packets_per_second(trace.mean_bytes()));
        let trace = trace.clone();
        let ports = links.ports;
        Self { trace, repeat, stretch, next: 0, shift: 0.0, salt: 0, port: None, ports }
    }

    /// Makes one of several copies of a trace. It starts at a random position, has its own flows,
    /// and arrives on the port with its number.
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
            // Uses the bits above the index of the largest indirection table, so that every port
            // has flows on all entries.
            let port = self.port.unwrap_or(((flow >> 16) % u32::from(self.ports)) as u8);
            out.push(Packet { picos: picos as u64, flow, length: packet.length, port });
        }
        Ok(())
    }
}

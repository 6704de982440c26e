//! The cryptography of ESP alone, by Wattline and by Intel's ipsec-mb.
//!
//! Both process packets of the mean length of the gateway's packets. They work on one batch of
//! buffers and run between the repeats of the gateway.

use super::args::Direction;
use super::sealed::{body_of, length_of};
use crate::harness::Harness;
use crate::memory_router::Error;
use quanta::Clock;
use serde::Deserialize;
use std::path::Path;
use wattline_dataplane::frame::BATCH_MAX;
use wattline_ipsec::esp::algorithm::Algorithm;
use wattline_ipsec::esp::transform::Transform;

/// Bytes per buffer. Not a power of two: the headers would otherwise share few cache sets.
const CHUNK: usize = 2048 + 64;
/// Batches per timed run of the cryptography.
const BATCHES: usize = 32;

/// Wattline's cryptography in one direction. It is always AWS-LC, packet by packet, even if the
/// machine has Intel's multi-buffer library.
pub(super) struct Raw {
    transform: Transform,
    direction: Direction,
    buffers: Vec<u8>,
    sequence: u64,
    clock: Clock,
    pub nanoseconds: Vec<f64>,
}

impl Raw {
    pub fn new(transform: Transform, direction: Direction) -> Self {
        let buffers = vec![0x5a; CHUNK * BATCH_MAX];
        let (clock, nanoseconds) = (Clock::new(), Vec::new());
        Self { transform, direction, buffers, sequence: 0, clock, nanoseconds }
    }

    /// Times sealing or opening packets with `bytes` bytes inside.
    pub fn time(&mut self, bytes: usize) {
        let length = length_of(self.transform.algorithm(), bytes).min(CHUNK);
        let (mut done, mut elapsed) = (0usize, 0u128);
        for _ in 0..BATCHES {
            let first = self.sequence + 1;
            let sealing = self.clock.now();
            for packet in self.buffers.chunks_mut(CHUNK).map(|buffer| &mut buffer[..length]) {
                self.sequence += 1;
                packet[..8].copy_from_slice(&(self.sequence & 0xffff_ffff).to_be_bytes());
                let sealed = self.transform.seal(packet, self.sequence, true, self.sequence);
                done += usize::from(sealed.is_ok());
            }
            let mut started = sealing;
            if self.direction == Direction::Receive {
                started = self.clock.now();
                for (packet, sequence) in self.buffers.chunks_mut(CHUNK).zip(first..) {
                    let opened = self.transform.open(&mut packet[..length], sequence, true);
                    done -= usize::from(opened.is_err());
                }
            }
            elapsed += self.clock.now().duration_since(started).as_nanos();
        }
        // A length that cannot be sealed would otherwise look infinitely fast.
        if done == BATCHES * BATCH_MAX {
            self.nanoseconds.push(elapsed as f64 / done as f64);
        }
    }
}

/// The cryptography of ipsec-mb, run by the harness in `bench/peers`.
pub(super) struct Peer {
    harness: Harness,
    algorithm: Algorithm,
    direction: Direction,
    pub version: String,
    /// Nanoseconds per packet of each run; empty if the harness lacks the algorithm.
    pub nanoseconds: Vec<f64>,
}

#[derive(Deserialize)]
struct Hello {
    version: String,
}

#[derive(Deserialize)]
struct Pass {
    #[serde(default)]
    nanoseconds_per_packet: Option<f64>,
}

impl Peer {
    pub fn start(
        program: &Path,
        algorithm: Algorithm,
        direction: Direction,
    ) -> Result<Self, Error> {
        let failed = |error| Error::Peer { program: program.to_owned(), error };
        let mut harness = Harness::start(program, &[]).map_err(failed)?;
        let Hello { version } = harness.answer().map_err(failed)?;
        let version = format!("ipsec-mb {version}");
        Ok(Self { harness, algorithm, direction, version, nanoseconds: Vec::new() })
    }

    /// Lets the harness time sealing or opening packets with `bytes` bytes inside.
    pub fn time(&mut self, bytes: usize) -> Result<(), Error> {
        let (algorithm, direction) = (self.algorithm.name(), self.direction.name());
        let body = body_of(self.algorithm, bytes);
        let answer = self.harness.ask(&format!("{algorithm} {direction} {body} {BATCHES}"));
        let program = || self.harness.program.clone();
        let pass: Pass = answer.map_err(|error| Error::Peer { program: program(), error })?;
        self.nanoseconds.extend(pass.nanoseconds_per_packet);
        Ok(())
    }
}

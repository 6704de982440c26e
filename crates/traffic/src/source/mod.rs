//! The kinds of sources, one file each.

mod bunched;
mod constant;
mod day;
mod mix;
mod mmpp;
mod modulated;
mod on_off;
mod poisson;
mod replay;
mod self_similar;
mod steps;
mod trains;
mod wave;

pub use bunched::Bunched;
pub use constant::Constant;
pub use day::DayProfile;
pub use mix::Mix;
pub use mmpp::Mmpp;
pub use modulated::{Modulated, Modulator};
pub use on_off::OnOff;
pub use poisson::Poisson;
pub use replay::{Replay, Trace, TracePacket};
pub use self_similar::SelfSimilar;
pub use steps::{Silent, Steps};
pub use trains::{TrainFlows, TrainLengths, TrainShape, Trains};
pub use wave::{Wave, WaveShape};

use crate::capture::CaptureError;
use crate::flows::{Flow, Flows, Popularity, Spread};
use crate::packet::{Block, Packet};
use crate::random::Random;
use crate::sizes::Sizes;

/// A source of packets over time.
///
/// Synthetic sources never end. They depend only on their parameters and the seed.
pub trait Source: Send {
    /// Replaces the contents of `out` by the next packets in order of time, not earlier than the
    /// last ones. `out` is empty when the source has ended.
    ///
    /// # Errors
    /// Fails only if packets come from a file, with the fault of the file.
    fn next_block(&mut self, out: &mut Block) -> Result<(), CaptureError>;
}

/// Unit of a rate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Rate {
    /// Packets per second.
    Packets(f64),
    /// Bits per second of the packets' lengths, without preamble and gap.
    Bits(f64),
    /// A share of the links' capacity.
    Link {
        /// Bits per second on the links.
        bits: f64,
        /// Bytes that a packet occupies on the link in addition to its length.
        overhead: u16,
    },
}

impl Rate {
    /// The rate in packets per second, for packets of this mean length in bytes.
    pub fn packets_per_second(self, mean_bytes: f64) -> f64 {
        match self {
            Self::Packets(rate) => rate,
            Self::Bits(rate) => rate / (8.0 * mean_bytes),
            Self::Link { bits, overhead } => bits / (8.0 * (mean_bytes + f64::from(overhead))),
        }
    }
    /// The rate times a factor, in the same unit.
    pub fn times(self, factor: f64) -> Self {
        match self {
            Self::Packets(rate) => Self::Packets(rate * factor),
            Self::Bits(rate) => Self::Bits(rate * factor),
            Self::Link { bits, overhead } => Self::Link { bits: bits * factor, overhead },
        }
    }
    /// The rate in bits per second, for packets of this mean length in bytes.
    pub fn bits_per_second(self, mean_bytes: f64) -> f64 {
        match self {
            Self::Bits(rate) => rate,
            _ => self.packets_per_second(mean_bytes) * 8.0 * mean_bytes,
        }
    }
}

/// The links on which packets arrive, all of one kind.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Links {
    /// Number of links, at least 1.
    pub ports: u8,
    /// Rate of each link in bits per second.
    pub bits_per_second: f64,
    /// Bytes that a packet occupies on the link in addition to its length. Ethernet's preamble and
    /// gap are 20; PowerSave's "40 Gbps" count none.
    pub overhead: u16,
}

impl Links {
    /// Four links of 10 Gbit/s, the ports of PowerSave's router.
    pub const POWERSAVE: Self = Self { ports: 4, bits_per_second: 10e9, overhead: 0 };

    /// Returns the packets of this mean length that all links together carry per second.
    pub fn packets_per_second(&self, mean_bytes: f64) -> f64 {
        let bits = 8.0 * (mean_bytes + f64::from(self.overhead));
        f64::from(self.ports) * self.bits_per_second / bits
    }

    /// Returns a share of the rate of all links together, preamble and gap of packets included.
    pub fn share(&self, share: f64) -> Rate {
        let bits = share * f64::from(self.ports) * self.bits_per_second;
        Rate::Link { bits, overhead: self.overhead }
    }

    /// Returns the time in picoseconds for which a packet occupies its link.
    fn picos(&self, bytes: u16) -> f64 {
        8e12 * (f64::from(bytes) + f64::from(self.overhead)) / self.bits_per_second
    }
}

#[inline]
fn packet(flow: Flow, length: u16, picos: f64) -> Packet {
    Packet { picos: picos as u64, flow: flow.hash, length, port: flow.port }
}

/// Properties of synthetic packets other than their times.
#[derive(Debug, Clone)]
pub struct Content {
    flows: Flows,
    sizes: Sizes,
    random: Random,
}

impl Content {
    /// Packets of `flows` flows (at least 1) on `ports` ports (at least 1).
    pub fn new(
        sizes: Sizes,
        flows: u32,
        ports: u8,
        popularity: Popularity,
        spread: Spread,
        seed: u64,
    ) -> Self {
        let mut random = Random::new(seed, 0);
        let flows = Flows::new(flows, ports, popularity, spread, &mut random);
        Self { flows, sizes, random }
    }

    /// Mean length in bytes.
    pub fn mean_bytes(&self) -> f64 {
        self.sizes.mean()
    }

    /// A packet that arrives at `picos` picoseconds.
    #[inline]
    fn packet(&mut self, picos: f64) -> Packet {
        let flow = self.flows.next(&mut self.random);
        packet(flow, self.sizes.next(&mut self.random), picos)
    }

    /// Fills a block with packets. `arrive` gets the length of a packet and returns its arrival
    /// time in picoseconds.
    #[inline]
    fn fill(&mut self, out: &mut Block, mut arrive: impl FnMut(u16) -> f64) {
        let Self { flows, sizes, random } = self;
        let Some(length) = sizes.same() else {
            return out.fill(|| {
                let (flow, length) = (flows.next(random), sizes.next(random));
                packet(flow, length, arrive(length))
            });
        };
        out.clear();
        // Flows that take turns can be copied in slices.
        while !out.is_full()
            && let Some(run) = flows.in_turn(out.room())
        {
            out.extend(run.iter().map(|flow| packet(*flow, length, arrive(length))));
        }
        if !out.is_full() {
            out.fill(|| packet(flows.next(random), length, arrive(length)));
        }
    }

    /// The same kind of packets on one port only.
    fn on_port(&self, port: u8) -> Self {
        let mut random = self.random.clone();
        let random = Random::new(random.bits(), 1 + u64::from(port));
        Self { flows: self.flows.on_port(port), sizes: self.sizes.clone(), random }
    }
}

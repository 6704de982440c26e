//! Service time of a packet.

use rand::rngs::Xoshiro256PlusPlus;
use rand::{Rng as _, SeedableRng as _};
use wattline_server::{PacketCost, ServerModel, ServiceDistribution};
use wattline_units::Hertz;

/// Fraction bits of the fixed-point time per byte, in picoseconds.
const POINT: u32 = 16;

/// Service time at one frequency and number of active cores, in whole picoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServiceTime {
    per_packet: u64,
    per_byte: u64,
}

impl ServiceTime {
    /// Length in bytes of the longer of the two packets whose costs determine the service time.
    pub(crate) const LONG_BYTES: u32 = 1_000;

    /// Service time from the costs of a packet of zero length and one of [`Self::LONG_BYTES`].
    pub(crate) fn from_costs(
        server: &ServerModel,
        costs: [PacketCost; 2],
        frequency: Hertz,
        active: usize,
    ) -> Self {
        let [empty, long] = costs.map(|cost| server.service_seconds(cost, frequency, active));
        let per_byte = (long - empty) * 1e12 / f64::from(Self::LONG_BYTES);
        Self {
            per_packet: (empty * 1e12).round() as u64,
            per_byte: (per_byte * f64::from(1u32 << POINT)).round() as u64,
        }
    }

    /// Mean service time of a packet of this length, in picoseconds.
    #[inline]
    pub fn picos(&self, bytes: u16) -> u64 {
        self.per_packet + ((u64::from(bytes) * self.per_byte) >> POINT)
    }
}

/// Distribution of service times around their mean.
#[derive(Debug, Clone)]
pub(crate) enum Variation {
    /// Every service time equals the mean.
    None,
    /// Exponentially distributed.
    Exponential(Box<Xoshiro256PlusPlus>),
}

impl Variation {
    pub fn new(distribution: ServiceDistribution, seed: u64, core: usize) -> Self {
        match distribution {
            ServiceDistribution::Fixed => Self::None,
            ServiceDistribution::Exponential => {
                let seed = seed ^ (core as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                Self::Exponential(Box::new(Xoshiro256PlusPlus::seed_from_u64(seed)))
            }
        }
    }

    #[inline]
    pub fn apply(&mut self, picos: u64) -> u64 {
        match self {
            Self::None => picos,
            Self::Exponential(random) => {
                // The value is in (0, 1], so that the logarithm is finite.
                let unit = ((random.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64;
                (picos as f64 * -unit.ln()).round() as u64
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattline_server::{Application, ServerFile};

    #[test]
    fn agrees_with_the_model_to_a_picosecond() {
        let file = ServerFile::load("westmere-2010").unwrap();
        let server = file.model().unwrap();
        for application in Application::ALL {
            for bytes in [64u16, 600, 1518] {
                let frequency = Hertz(2.4e9);
                let costs = [0, ServiceTime::LONG_BYTES]
                    .map(|bytes| server.packet_cost(application, bytes).unwrap());
                let time = ServiceTime::from_costs(server, costs, frequency, 7);
                let cost = server.packet_cost(application, bytes.into()).unwrap();
                let exact = server.service_seconds(cost, frequency, 7) * 1e12;
                assert!((time.picos(bytes) as f64 - exact).abs() < 2.0, "{application} {bytes}");
            }
        }
    }

    #[test]
    fn exponential_times_have_the_mean_and_deviation() {
        let mut variation = Variation::new(ServiceDistribution::Exponential, 1, 0);
        let draws: Vec<f64> = (0..200_000).map(|_| variation.apply(1_000_000) as f64).collect();
        let mean = draws.iter().sum::<f64>() / draws.len() as f64;
        let square = draws.iter().map(|x| x * x).sum::<f64>() / draws.len() as f64;
        assert!((mean / 1e6 - 1.0).abs() < 0.01, "{mean}");
        assert!((square / 2e12 - 1.0).abs() < 0.03, "{square}");
    }
}

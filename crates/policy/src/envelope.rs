//! The lower envelope: the cheapest operating point for every rate, by a server model.

use wattline_server::{PacketCost, ServerModel};
use wattline_units::{Hertz, PacketsPerSecond, Watts};

/// The operating point that is cheapest up to a rate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EnvelopeStep {
    /// The highest rate that this step serves.
    pub up_to: PacketsPerSecond,
    /// Number of active cores.
    pub cores: usize,
    /// Index of their frequency, 0 is the slowest.
    pub frequency: usize,
    /// The frequency itself.
    pub hertz: Hertz,
    /// Power at `up_to`.
    pub power: Watts,
}

/// Cheapest number of cores and frequency for each rate, as in PowerSave's optimal strategy
/// (section 6, figure 12): the lower envelope over all pairs that carry the rate.
#[derive(Debug, Clone, PartialEq)]
pub struct Envelope {
    steps: Vec<EnvelopeStep>,
}

impl Envelope {
    /// Number of rates at which the envelope is computed, evenly spaced up to the capacity, in
    /// addition to the capacities of all pairs.
    pub const RATES: usize = 400;

    /// Computes the envelope of a server for packets of this cost and length. `cores` limits the
    /// number of cores; `most_load` is the highest utilisation at which a core counts as carrying
    /// the rate, 1 for the limit of stability.
    pub fn of(
        server: &ServerModel,
        cores: usize,
        cost: PacketCost,
        frame_bytes: u32,
        most_load: f64,
    ) -> Self {
        let frequencies = &server.processor.frequencies;
        let fastest = frequencies.len() - 1;
        let capacity = |cores, frequency: usize| {
            server.core_capacity(cost, cores, frequencies[frequency]).0 * most_load
        };
        // Between two capacities the same pairs carry the rate, so a step that ends at each of them
        // omits no pair; the even grid follows the crossings in between.
        let pairs = (1..=cores).flat_map(|cores| (0..=fastest).map(move |f| (cores, f)));
        let mut ends: Vec<f64> = pairs.map(|(cores, f)| capacity(cores, f)).collect();
        let most = ends.iter().copied().fold(0.0, f64::max);
        ends.extend((1..Self::RATES).map(|step| most * step as f64 / Self::RATES as f64));
        ends.sort_by(f64::total_cmp);
        ends.dedup();
        let steps = ends.into_iter().map(|end| {
            let rate = PacketsPerSecond(end);
            let mut best = EnvelopeStep {
                up_to: rate,
                cores,
                frequency: fastest,
                hertz: frequencies[fastest],
                power: Watts(f64::INFINITY),
            };
            for cores in 1..=cores {
                for (frequency, &hertz) in frequencies.iter().enumerate() {
                    if capacity(cores, frequency) < rate.0 {
                        continue;
                    }
                    let point = server.napi_point(cores, hertz);
                    let power = server.power_at(cost, frame_bytes, &point, rate).total();
                    if power < best.power {
                        best = EnvelopeStep { up_to: rate, cores, frequency, hertz, power };
                    }
                }
            }
            best
        });
        Self { steps: steps.collect() }
    }

    /// Returns the step that serves a rate; the last one beyond the capacity.
    pub fn at(&self, rate: PacketsPerSecond) -> EnvelopeStep {
        let index = self.steps.partition_point(|step| step.up_to < rate);
        self.steps[index.min(self.steps.len() - 1)]
    }

    /// Returns all steps by rising rate; never empty.
    pub fn steps(&self) -> &[EnvelopeStep] {
        &self.steps
    }
}

//! Predicts service times and power of the machine at any operating point.

use crate::{CoreView, Platform, Wait};
use wattline_server::{PacketCost, ServerModel};

/// Assumed cycles per packet before any is measured: three times those of a router (PowerSave,
/// section 4: about 600), so that the first choice has too many cores rather than too few.
const PRIOR_CYCLES: f64 = 1_800.0;
/// Assumed share by which each further core makes a packet take longer.
const PRIOR_CONTENTION: f64 = 0.03;
/// Assumed watts of an awake core without a model: a constant, and watts per GHz. They order the
/// points as PowerSave's ladder does. No saving is claimed from them.
const PRIOR_WATTS: (f64, f64) = (1.0, 3.0);
/// Assumed watts of a core in its lightest idle state without a model.
const PRIOR_NAP: f64 = 1.5;
/// Assumed cycles of waking up without a model: those of PowerSave's machine.
const PRIOR_WAKE_CYCLES: f64 = 8_000.0;
/// Points whose measurements are remembered.
const MEASURED: usize = 8;
/// A measurement in which cores wake for a larger share of their time says nothing of packets.
const WAKING: f64 = 0.2;
/// A service time is measured over at least so many packets.
const PACKETS: u64 = 200;
/// The model's service times hold until the measured ones differ by this share. Changes of points
/// within an interval, and naps that outlast it, make a smaller difference.
const TRUSTED: f64 = 0.05;
/// A new correction is used if it differs from the one before by this share.
const NEWS: f64 = 0.02;
/// Packets over which the model is compared with measurements: some milliseconds of them.
const COMPARED_PACKETS: f64 = 20_000.0;

/// Service times in seconds and power in watts.
#[derive(Debug, Clone)]
pub(super) struct Machine {
    pub cores: usize,
    pub frequencies: Vec<f64>,
    /// Seconds per packet, by number of cores less one, then by frequency: of the model, or the
    /// tightest of the bounds that measurements give.
    service: Vec<Vec<f64>>,
    /// Without a model: cores, frequency and seconds per packet of the last points that were measured,
    /// the oldest first.
    measured: Vec<(usize, usize, f64)>,
    /// Whether there is a model.
    known: bool,
    /// Measured over modelled service time; 1 while they agree.
    factor: f64,
    /// Measured and modelled seconds of work on packets; decaying.
    worked: (f64, f64),
    pub awake: Vec<f64>,
    pub uncore: Vec<f64>,
    pub base: f64,
    /// Watts of each idle state, and seconds of its exit beyond the work of waking up.
    pub idle: Vec<(f64, f64)>,
    /// Seconds of the work of waking up, by frequency.
    pub wake: Vec<f64>,
    /// Seconds from an interrupt's cause to its core.
    pub delivery: f64,
    /// Seconds of a packet outside queue and core.
    pub pass_through: f64,
    /// Lowest and highest frequency, as indices, that the machine takes at present.
    pub usable: (usize, usize),
    /// Whether cores may poll.
    pub polls: bool,
}

impl Machine {
    /// Uses the server model where there is one.
    pub fn new(platform: &Platform, model: Option<(&ServerModel, PacketCost)>) -> Self {
        let frequencies: Vec<f64> = platform.frequencies.iter().map(|f| f.0.max(1.0)).collect();
        let exits: Vec<f64> =
            platform.idle_states.iter().map(|state| state.wakes_within().as_seconds()).collect();
        let first = exits.first().copied().unwrap_or(0.0);
        let cores = platform.cores;
        if let Some((server, cost)) = model {
            let of = |cores: usize| {
                platform.frequencies.iter().map(move |f| server.service_seconds(cost, *f, cores))
            };
            return Self {
                cores,
                service: (1..=cores).map(|cores| of(cores).collect()).collect(),
                measured: Vec::new(),
                known: true,
                factor: 1.0,
                worked: (0.0, 0.0),
                awake: platform.frequencies.iter().map(|f| server.awake_core_power(*f).0).collect(),
                uncore: platform.frequencies.iter().map(|f| server.power.uncore(*f).0).collect(),
                base: server.power.base.total().0,
                idle: (0..exits.len())
                    .map(|k| (server.idle_core_power(k).0, exits[k] - first))
                    .collect(),
                wake: platform.frequencies.iter().map(|f| server.wake_up_seconds(*f)).collect(),
                delivery: server.wake_up.delivery_seconds,
                pass_through: server.nic.pass_through.as_seconds(),
                usable: (0, frequencies.len() - 1),
                polls: platform.can.waits.allows(Wait::Poll),
                frequencies,
            };
        }
        let states = exits.len().max(1);
        let mut machine = Self {
            cores,
            service: Vec::new(),
            measured: Vec::with_capacity(MEASURED + 1),
            known: false,
            factor: 1.0,
            worked: (0.0, 0.0),
            awake: frequencies.iter().map(|f| PRIOR_WATTS.0 + PRIOR_WATTS.1 * f * 1e-9).collect(),
            uncore: vec![0.0; frequencies.len()],
            base: 0.0,
            idle: (0..states)
                .map(|k| {
                    let left = (states - 1 - k) as f64 / (states.max(2) - 1) as f64;
                    (PRIOR_NAP * left, exits.get(k).map_or(0.0, |exit| exit - first))
                })
                .collect(),
            wake: frequencies.iter().map(|f| PRIOR_WAKE_CYCLES / f + first).collect(),
            delivery: 2e-6,
            pass_through: 10e-6,
            usable: (0, frequencies.len() - 1),
            polls: platform.can.waits.allows(Wait::Poll),
            frequencies,
        };
        machine.bound_all();
        machine
    }

    /// Seconds per packet.
    pub fn service(&self, cores: usize, frequency: usize) -> f64 {
        self.modelled(cores, frequency) * self.factor
    }

    /// An upper bound on the seconds per packet from one measurement, which holds for any processor: at
    /// a lower frequency, time grows at most in proportion; at a higher one, it may stay the same.
    fn bound(&self, measured: (usize, usize, f64), cores: usize, frequency: usize) -> f64 {
        let (at_cores, at_frequency, seconds) = measured;
        let slower = self.frequencies[at_frequency] / self.frequencies[frequency];
        let more = cores.saturating_sub(at_cores) as f64;
        seconds * slower.max(1.0) * (1.0 + PRIOR_CONTENTION * more)
    }

    /// Takes for each point the tightest bound of all measurements.
    fn bound_all(&mut self) {
        let of = |cores: usize, frequency: usize| {
            let prior = PRIOR_CYCLES / self.frequencies[frequency]
                * (1.0 + PRIOR_CONTENTION * cores as f64);
            let bounds = self.measured.iter().map(|at| self.bound(*at, cores, frequency));
            bounds.reduce(f64::min).unwrap_or(prior)
        };
        let frequencies = 0..self.frequencies.len();
        let service: Vec<Vec<f64>> = (1..=self.cores)
            .map(|cores| frequencies.clone().map(|f| of(cores, f)).collect())
            .collect();
        self.service = service;
    }

    /// Seconds per packet by the model.
    fn modelled(&self, cores: usize, frequency: usize) -> f64 {
        self.service[cores.clamp(1, self.cores) - 1][frequency]
    }

    /// Packets per second that these cores serve.
    pub fn capacity(&self, cores: usize, frequency: usize) -> f64 {
        cores as f64 / self.service(cores, frequency)
    }

    /// Compares the model with the measured work on packets in seconds, without that of waking up.
    /// Returns whether the correction changed, so that plans are outdated.
    fn compare(&mut self, (cores, frequency): (usize, usize), packets: u64, worked: f64) -> bool {
        if packets == 0 || worked <= 0.0 {
            return false;
        }
        let forgets = (-(packets as f64) / COMPARED_PACKETS).exp();
        let modelled = packets as f64 * self.modelled(cores, frequency);
        self.worked = (self.worked.0 * forgets + worked, self.worked.1 * forgets + modelled);
        if self.worked.1 < 0.1 * COMPARED_PACKETS * self.modelled(cores, frequency) {
            return false;
        }
        let seen = (self.worked.0 / self.worked.1).clamp(0.25, 4.0);
        let factor = if (seen - 1.0).abs() <= TRUSTED { 1.0 } else { seen };
        if (factor - self.factor).abs() <= NEWS * self.factor {
            return false;
        }
        self.factor = factor;
        true
    }

    /// Learns from what the cores did since the last look at an unchanged operating point: useful time
    /// per packet. Without a model, this time includes the work of waking up, so it is rather too long.
    /// A model is corrected if it is clearly wrong. Returns whether plans are outdated.
    pub fn learn(&mut self, point: (usize, usize), before: &[CoreView], now: &[CoreView]) -> bool {
        let (mut packets, mut wakes, mut useful) = (0u64, 0u64, 0.0);
        for (before, now) in before.iter().zip(now) {
            packets += now.packets.saturating_sub(before.packets);
            wakes += now.sleeps.saturating_sub(before.sleeps);
            useful += (now.useful - before.useful).as_seconds();
        }
        if self.known {
            return self.compare(point, packets, useful - wakes as f64 * self.wake[point.1]);
        }
        if packets < PACKETS || useful <= 0.0 {
            return false;
        }
        // Of the assumed work of waking up, half is taken off: at least so much it is.
        let waking = wakes as f64 * self.wake[point.1];
        let seen = (useful - (0.5 * waking).min(0.5 * useful)) / packets as f64;
        // Where much of the time is waking up, a packet takes less, and nothing is disproved.
        let tighter = self.measured.is_empty() || seen < self.service(point.0, point.1);
        if waking > WAKING * useful && !tighter {
            return false;
        }
        self.measure(point, seen);
        true
    }

    /// Remembers a measurement, and forgets what it disproves.
    fn measure(&mut self, (cores, frequency): (usize, usize), seen: f64) {
        let before = self.measured.iter().position(|at| (at.0, at.1) == (cores, frequency));
        let seconds = match before {
            // It rises fast and falls slowly.
            Some(index) => {
                let seconds = self.measured.remove(index).2;
                let weight = if seen > seconds { 0.5 } else { 0.2 };
                seconds + weight * (seen - seconds)
            }
            None => seen,
        };
        let mut measured = std::mem::take(&mut self.measured);
        measured.retain(|at| self.bound(*at, cores, frequency) >= seconds * (1.0 - TRUSTED));
        if measured.len() >= MEASURED {
            measured.remove(0);
        }
        measured.push((cores, frequency, seconds));
        self.measured = measured;
        self.bound_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::tests::westmere;
    use wattline_units::Span;

    /// Makes the view of a core: packets, wake-ups, work.
    fn did(packets: u64, sleeps: u64, seconds: f64) -> [CoreView; 1] {
        let useful = Span::from_seconds(seconds);
        [CoreView { packets, sleeps, useful, ..CoreView::default() }]
    }

    fn learn(machine: &mut Machine, point: (usize, usize), now: [CoreView; 1]) {
        machine.learn(point, &[CoreView::default()], &now);
    }

    #[test]
    fn without_a_model_each_measurement_bounds_all_points() {
        let mut machine = Machine::new(&westmere(), None);
        // 0.42 us on twelve fast cores bound one slow core by twice as much.
        learn(&mut machine, (12, 13), did(10_000, 0, 4.2e-3));
        assert!((machine.service(12, 13) / 0.42e-6 - 1.0).abs() < 1e-6);
        assert!((machine.service(1, 0) / 0.875e-6 - 1.0).abs() < 1e-2, "{}", machine.service(1, 0));
        // One slow core takes 0.48 us. Back at twelve fast ones, that is not forgotten.
        learn(&mut machine, (1, 0), did(10_000, 0, 4.8e-3));
        learn(&mut machine, (12, 13), did(10_000, 0, 4.2e-3));
        assert!((machine.service(1, 0) / 0.48e-6 - 1.0).abs() < 1e-6);
        assert!(machine.service(12, 0) < 0.48e-6 * 1.34, "{}", machine.service(12, 0));
        // Another application: packets take three times as long, and what was known is disproved.
        (0..20).for_each(|_| learn(&mut machine, (12, 13), did(10_000, 0, 12.6e-3)));
        assert!((machine.service(12, 13) / 1.26e-6 - 1.0).abs() < 0.01);
        assert!(machine.service(1, 0) > 2.5e-6, "{}", machine.service(1, 0));
    }

    /// A core that wakes for each packet takes several times as long. That says little of packets.
    #[test]
    fn without_a_model_waking_up_disproves_nothing() {
        let mut machine = Machine::new(&westmere(), None);
        learn(&mut machine, (1, 0), did(10_000, 0, 4.8e-3));
        learn(&mut machine, (1, 0), did(1_000, 1_000, 5.3e-3));
        assert!((machine.service(1, 0) / 0.48e-6 - 1.0).abs() < 1e-6, "{}", machine.service(1, 0));
    }
}

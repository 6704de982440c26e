//! What the policy believes about the machine: seconds and watts at any operating point.

use crate::{CoreView, Platform};
use wattline_server::{PacketCost, ServerModel};

/// Cycles of a packet while nobody has measured one: three times what a router's take
/// (PowerSave, section 4: about 600), so that the first guess has too many cores.
const PRIOR_CYCLES: f64 = 1_800.0;
/// How much longer a packet takes for each further core, while nobody knows.
const PRIOR_CONTENTION: f64 = 0.03;
/// Watts of an awake core without a model: what is static, and what grows with GHz. They order
/// the points as PowerSave's ladder does, and no saving is claimed from them.
const PRIOR_WATTS: (f64, f64) = (1.0, 3.0);
/// Watts of a core in its lightest idle state without a model.
const PRIOR_NAP: f64 = 1.5;
/// Work of waking without a model, in cycles: what PowerSave's machine takes.
const PRIOR_WAKE_CYCLES: f64 = 8_000.0;
/// A measured service time counts from so many packets on.
const PACKETS: u64 = 200;
/// A model is taken at its word until packets take longer or shorter by this share: intervals in
/// which points changed and naps that are under way when they end move the measured time by less.
const TRUSTED: f64 = 0.05;
/// A new factor is planned with where it differs by this share from the one before.
const NEWS: f64 = 0.02;
/// Packets over which a model is held against what is measured: some milliseconds of them.
const WITNESSES: f64 = 20_000.0;

/// Seconds and watts of the machine.
#[derive(Debug, Clone)]
pub(super) struct Machine {
    pub cores: usize,
    pub frequencies: Vec<f64>,
    /// Of a model: seconds for a packet by cores less one, then by frequency.
    service: Vec<Vec<f64>>,
    /// Measured: cores, frequency and seconds, where there is no model.
    measured: Option<(usize, usize, f64)>,
    known: bool,
    /// How much longer a packet takes than the model says; 1 while the model is trusted.
    factor: f64,
    /// Seconds of work on packets, and what the model says of them; decaying.
    worked: (f64, f64),
    pub awake: Vec<f64>,
    pub uncore: Vec<f64>,
    pub base: f64,
    /// Watts, and seconds of leaving it beyond the work of waking, of each idle state.
    pub idle: Vec<(f64, f64)>,
    /// Seconds of the work of waking, by frequency.
    pub wake: Vec<f64>,
    /// Seconds of an interrupt on its way, and of a packet outside queue and core.
    pub delivery: f64,
    pub pass_through: f64,
}

impl Machine {
    /// By a model where there is one.
    pub fn new(platform: &Platform, model: Option<(&ServerModel, PacketCost)>) -> Self {
        let frequencies: Vec<f64> = platform.frequencies.iter().map(|f| f.0.max(1.0)).collect();
        let exits: Vec<f64> =
            platform.idle_states.iter().map(|state| state.exit_latency.as_seconds()).collect();
        let first = exits.first().copied().unwrap_or(0.0);
        let cores = platform.cores;
        if let Some((server, cost)) = model {
            let of = |cores: usize| {
                platform.frequencies.iter().map(move |f| server.service_seconds(cost, *f, cores))
            };
            return Self {
                cores,
                service: (1..=cores).map(|cores| of(cores).collect()).collect(),
                measured: None,
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
                frequencies,
            };
        }
        let states = exits.len().max(1);
        Self {
            cores,
            service: Vec::new(),
            measured: None,
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
            frequencies,
        }
    }

    /// Seconds for a packet. Without a model: from what was measured, by bounds that hold for
    /// any processor: a slower clock takes at most as much longer as it is slower, a faster one
    /// is not trusted to be faster.
    pub fn service(&self, cores: usize, frequency: usize) -> f64 {
        if self.known {
            return self.told(cores, frequency) * self.factor;
        }
        let Some((at_cores, at_frequency, seconds)) = self.measured else {
            return PRIOR_CYCLES / self.frequencies[frequency]
                * (1.0 + PRIOR_CONTENTION * cores as f64);
        };
        let slower = self.frequencies[at_frequency] / self.frequencies[frequency];
        let more = cores.saturating_sub(at_cores) as f64;
        seconds * slower.max(1.0) * (1.0 + PRIOR_CONTENTION * more)
    }

    /// Seconds for a packet as the model has it.
    fn told(&self, cores: usize, frequency: usize) -> f64 {
        self.service[cores.clamp(1, self.cores) - 1][frequency]
    }

    /// Packets per second of so many cores.
    pub fn capacity(&self, cores: usize, frequency: usize) -> f64 {
        cores as f64 / self.service(cores, frequency)
    }

    /// Holds the model against the seconds that packets really took, without the work of waking.
    /// Says whether plans have to be made anew.
    fn doubt(&mut self, (cores, frequency): (usize, usize), packets: u64, worked: f64) -> bool {
        if packets == 0 || worked <= 0.0 {
            return false;
        }
        let forgets = (-(packets as f64) / WITNESSES).exp();
        let told = packets as f64 * self.told(cores, frequency);
        self.worked = (self.worked.0 * forgets + worked, self.worked.1 * forgets + told);
        if self.worked.1 < 0.1 * WITNESSES * self.told(cores, frequency) {
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

    /// Learns from what cores did since the last look at an unchanged operating point: useful
    /// time over packets. Without a model it has the work of waking in it, so it errs to the safe
    /// side. A model is corrected where it is plainly wrong. Says whether anything was learnt.
    pub fn learn(&mut self, point: (usize, usize), before: &[CoreView], now: &[CoreView]) -> bool {
        let (mut packets, mut wakes, mut useful) = (0u64, 0u64, 0.0);
        for (before, now) in before.iter().zip(now) {
            packets += now.packets.saturating_sub(before.packets);
            wakes += now.sleeps.saturating_sub(before.sleeps);
            useful += (now.useful - before.useful).as_seconds();
        }
        if self.known {
            return self.doubt(point, packets, useful - wakes as f64 * self.wake[point.1]);
        }
        if packets < PACKETS || useful <= 0.0 {
            return false;
        }
        let seen = useful / packets as f64;
        let (cores, frequency) = point;
        self.measured = Some(match self.measured {
            // Up fast, down slowly.
            Some((at, of, seconds)) if (at, of) == point => {
                let weight = if seen > seconds { 0.5 } else { 0.05 };
                (cores, frequency, seconds + weight * (seen - seconds))
            }
            _ => (cores, frequency, seen),
        });
        true
    }
}

//! Predicts service times and power of the machine at any operating point.

use super::constants::*;
use wattline_policy::{CoreView, Platform};
use wattline_server::{PacketCost, ServerModel};

/// Number of cores, and index of their frequency.
pub(super) type At = (usize, usize);

/// Service times in seconds and power in watts.
#[derive(Debug, Clone, Default)]
pub(super) struct Machine {
    pub cores: usize,
    pub frequencies: Vec<f64>,
    /// Seconds per packet of the model, by number of cores less one, then by frequency.
    service: Vec<Vec<f64>>,
    /// True if the times come from a server file, and not from the bound that holds for any
    /// processor.
    known: bool,
    /// True once the factor was measured.
    measured: bool,
    /// Measured over modelled service time; 1 while they agree.
    factor: f64,
    /// Measured and modelled seconds of work on packets; decaying.
    worked: (f64, f64),
    pub awake: Vec<f64>,
    pub uncore: Vec<f64>,
    pub base: f64,
    /// Watts of each idle state, and seconds of its exit in addition to the work of waking up.
    pub idle: Vec<(f64, f64)>,
    /// Seconds of the work of waking up, by frequency.
    pub wake: Vec<f64>,
    /// Seconds from an interrupt's cause to its core.
    pub delivery: f64,
    /// Seconds of a packet outside queue and core.
    pub outside: f64,
    /// Lowest and highest frequency, as indices, that the machine accepts at present.
    pub usable: (usize, usize),
}

impl Machine {
    /// Uses the server model if there is one. Without one, watts only order the points, fewer cores
    /// and slower clocks first, and a packet takes the same cycles at any frequency. That is an
    /// upper bound for the gain of a slower one.
    pub fn new(platform: &Platform, model: Option<(&ServerModel, PacketCost)>) -> Self {
        let frequencies: Vec<f64> = platform.frequencies.iter().map(|f| f.0.max(1.0)).collect();
        let exits = platform.idle_states.iter().map(|state| state.wakes_within().as_seconds());
        let exits: Vec<f64> = exits.chain(platform.idle_states.is_empty().then_some(0.0)).collect();
        let deeper = (exits.len() - 1).max(1) as f64;
        let idle = exits.iter().enumerate();
        let contended = |cores: usize| PRIOR_CYCLES * (1.0 + cores as f64 * TRUSTED);
        let cycles = (1..=platform.cores).map(contended);
        let mut machine = Self {
            cores: platform.cores,
            service: cycles.map(|all| frequencies.iter().map(|f| all / f).collect()).collect(),
            known: model.is_some(),
            measured: false,
            factor: 1.0,
            worked: (0.0, 0.0),
            awake: frequencies.iter().map(|f| 1.0 + 2.0 * f / frequencies[0]).collect(),
            uncore: vec![0.0; frequencies.len()],
            base: 0.0,
            idle: idle.map(|(k, exit)| (1.0 - k as f64 / deeper, exit - exits[0])).collect(),
            wake: frequencies.iter().map(|f| PRIOR_WAKE_CYCLES / f + exits[0]).collect(),
            delivery: 0.0,
            outside: PRIOR_OUTSIDE,
            usable: (0, frequencies.len() - 1),
            frequencies,
        };
        let Some((server, cost)) = model else { return machine };
        let clocks = &platform.frequencies;
        let service = |cores| clocks.iter().map(move |f| server.service_seconds(cost, *f, cores));
        machine.service = (1..=platform.cores).map(|cores| service(cores).collect()).collect();
        machine.awake = clocks.iter().map(|f| server.awake_core_power(*f).0).collect();
        machine.uncore = clocks.iter().map(|f| server.power.uncore(*f).0).collect();
        machine.wake = clocks.iter().map(|f| server.wake_up_seconds(*f)).collect();
        machine.base = server.power.base.total().0;
        machine.delivery = server.wake_up.delivery_seconds;
        machine.outside = server.nic.pass_through.as_seconds();
        for (k, (watts, _)) in machine.idle.iter_mut().enumerate() {
            *watts = server.idle_core_power(k).0;
        }
        machine
    }

    /// Returns seconds per packet.
    pub fn service(&self, cores: usize, frequency: usize) -> f64 {
        self.service[cores.clamp(1, self.cores) - 1][frequency] * self.factor
    }

    /// Returns packets per second that these cores serve.
    pub fn capacity(&self, cores: usize, frequency: usize) -> f64 {
        cores as f64 / self.service(cores, frequency)
    }

    /// Returns packets per second that the whole machine serves.
    pub fn most(&self) -> f64 {
        self.capacity(self.cores, self.usable.1)
    }

    /// Returns the seconds in which a core leaves its deepest state.
    pub fn exit(&self) -> f64 {
        self.idle.last().map_or(0.0, |state| state.1)
    }

    /// Compares the service times with the cores' counters since the last decision, `seconds` ago,
    /// at an unchanged point. Returns true if plans are outdated. Without a server file, a lower
    /// time is adopted only slowly: it may hold only at this point.
    pub fn learn(&mut self, at: At, seconds: f64, [before, now]: [&[CoreView]; 2]) -> bool {
        let (mut packets, mut wakes, mut useful) = (0, 0, 0.0);
        for (before, now) in before.iter().zip(now) {
            packets += now.packets.saturating_sub(before.packets);
            wakes += now.sleeps.saturating_sub(before.sleeps);
            useful += (now.useful - before.useful).as_seconds();
        }
        let (packets, waking) = (packets as f64, wakes as f64 * self.wake[at.1]);
        // Without a file, the cost of waking is unknown: at least half of it counts.
        let worked = if self.known { useful - waking } else { useful - waking / 2.0 };
        if packets == 0.0 || worked <= 0.0 || (!self.known && waking > worked) {
            return false;
        }
        let forgets = (-packets / COMPARED).exp();
        let should = self.service(at.0, at.1) / self.factor * packets;
        self.worked = (self.worked.0 * forgets + worked, self.worked.1 * forgets + should);
        let mut seen = self.worked.0 / self.worked.1;
        let is_known = self.worked.1 >= TRUSTED * COMPARED * should / packets;
        if self.known && (seen - 1.0).abs() <= TRUSTED {
            seen = 1.0;
        } else if !self.known && self.measured {
            seen = seen.max(self.factor * (-seconds / MEMORY).exp2());
        }
        let is_news = is_known && (seen - self.factor).abs() > SAME * self.factor;
        if is_news {
            (self.factor, self.measured) = (seen, true);
        }
        is_news
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattline_policy::testing::westmere;
    use wattline_units::Span;

    /// Learns from an interval of 200 us: packets, wake-ups, and seconds of work.
    fn learn(machine: &mut Machine, point: (usize, usize), did: (u64, u64, f64)) {
        let (packets, sleeps, useful) = (did.0, did.1, Span::from_seconds(did.2));
        let now = [CoreView { packets, sleeps, useful, ..CoreView::default() }];
        machine.learn(point, 2e-4, [&[CoreView::default()], &now]);
    }

    fn about(seconds: f64, expected: f64) {
        assert!((seconds / expected - 1.0).abs() < 0.03, "{seconds} instead of {expected}");
    }

    /// The cycles measured at the highest frequency are an upper bound for all others.
    #[test]
    fn measurement_without_a_model_bounds_all_points() {
        let mut machine = Machine::new(&westmere(), None);
        let prior = machine.service(1, 0);
        (0..50).for_each(|_| learn(&mut machine, (12, 13), (2_000, 0, 0.84e-3)));
        about(machine.service(12, 13), 0.42e-6);
        let slow = 0.42e-6 / 1.6 * 1.05 * machine.frequencies[13] / machine.frequencies[0];
        about(machine.service(1, 0), slow);
        assert!(machine.service(1, 0) < prior, "the prior is high");
        // One slow core is a little faster than that, which is adopted only slowly.
        (0..50).for_each(|_| learn(&mut machine, (1, 0), (2_000, 0, 0.9 * slow * 2e3)));
        about(machine.service(12, 13), 0.42e-6);
        // Another application: packets take three times as long.
        (0..50).for_each(|_| learn(&mut machine, (12, 13), (2_000, 0, 2.52e-3)));
        about(machine.service(12, 13), 1.26e-6);
        about(machine.service(1, 0), 3.0 * slow);
    }

    /// A core that wakes for each packet takes several times as long, which does not disprove the
    /// model.
    #[test]
    fn waking_up_without_a_model_disproves_nothing() {
        let mut machine = Machine::new(&westmere(), None);
        let before = machine.service(1, 0);
        (0..50).for_each(|_| learn(&mut machine, (1, 0), (1_000, 1_000, 5.3e-3)));
        assert_eq!(machine.service(1, 0), before);
    }
}

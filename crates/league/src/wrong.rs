//! A machine that differs from its policy's description: a wrong server file, a bad meter,
//! unreliable knobs.

use crate::draws::Draws;
use wattline_policy::moderation::RuleKind;
use wattline_policy::{AskAgain, Looks, Observation, OperatingPoint, Policy, PowerView, Reason};
use wattline_server::ServerModel;
use wattline_sim::KnobBehaviour;
use wattline_units::{Span, Time, Watts};

/// Injected faults; none by default.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Wrong {
    /// Watts of cores and chips in the policy's server file, as a multiple of the true watts.
    pub power: f64,
    /// The same for idle cores. Equal errors of both would not change the order of points.
    pub idle_power: f64,
    /// Packets per second in the policy's server file, as a multiple of the true rate.
    pub capacity: f64,
    /// The meter.
    pub meter: Meter,
    /// The knobs.
    pub knobs: KnobBehaviour,
    /// True if the policy has no server file.
    pub no_file: bool,
}

/// A meter.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Meter {
    /// Shows the simulator's reading.
    Good,
    /// Adds a random error of at most this share of each reading.
    Noisy(f64),
    /// Shows readings after this delay.
    Late(Span),
    /// Shows nothing from this time.
    DeadFrom(Time),
}

impl Default for Wrong {
    fn default() -> Self {
        let knobs = KnobBehaviour::default();
        Self {
            power: 1.0,
            idle_power: 1.0,
            capacity: 1.0,
            meter: Meter::Good,
            knobs,
            no_file: false,
        }
    }
}

impl Wrong {
    /// Returns the server that the policy assumes.
    pub(crate) fn server(&self, truth: &ServerModel) -> ServerModel {
        let mut assumed = truth.clone();
        let power = &mut assumed.power;
        for watts in [
            &mut power.core_awake,
            &mut power.core_awake_per_gigahertz,
            &mut power.uncore_per_gigahertz,
        ] {
            *watts = Watts(watts.0 * self.power);
        }
        for state in &mut assumed.idle_states {
            state.power = Watts(state.power.0 * self.idle_power);
        }
        // Scales all parts of the service time of a packet.
        let slower = 1.0 / self.capacity;
        assumed.capacity.stall_seconds *= slower;
        assumed.capacity.contention_seconds *= slower;
        for cost in assumed.applications.values_mut() {
            cost.cycles_per_packet *= slower;
            cost.cycles_per_byte *= slower;
            cost.stall_seconds *= slower;
        }
        assumed
    }
}

/// A policy behind a meter.
pub(crate) struct Metered {
    inner: Box<dyn Policy>,
    meter: Meter,
    noise: Draws,
    /// Pending readings of a late meter, with their times.
    readings: Vec<(Time, PowerView)>,
}

impl Metered {
    pub(crate) fn new(inner: Box<dyn Policy>, meter: Meter, seed: u64) -> Self {
        Self { inner, meter, noise: Draws(seed), readings: Vec::new() }
    }

    /// Returns the reading that the meter shows.
    fn shown(&mut self, now: Time, power: Option<PowerView>) -> Option<PowerView> {
        let power = power?;
        match self.meter {
            Meter::Good => Some(power),
            Meter::Noisy(share) => {
                let error = share * (2.0 * self.noise.fraction() - 1.0);
                let watts = Watts(power.watts.0 * (1.0 + error));
                Some(PowerView { watts, ..power })
            }
            Meter::Late(by) => {
                self.readings.push((now, power));
                let due = self.readings.iter().take_while(|(at, _)| *at + by <= now).count();
                // Keeps the newest due reading, to be shown again.
                self.readings.drain(..due.saturating_sub(1));
                (due > 0).then(|| self.readings[0].1)
            }
            Meter::DeadFrom(from) => (now < from).then_some(power),
        }
    }
}

impl Policy for Metered {
    fn looks_at(&self) -> Looks {
        self.inner.looks_at()
    }

    fn decide(&mut self, seen: &Observation<'_>, point: &mut OperatingPoint) -> AskAgain {
        let power = self.shown(seen.now, seen.power);
        self.inner.decide(&Observation { power, ..*seen }, point)
    }

    fn driver_rule(&self, queue: usize) -> Option<RuleKind> {
        self.inner.driver_rule(queue)
    }

    fn reason(&self) -> Option<Reason> {
        self.inner.reason()
    }

    fn remark(&self) -> Option<String> {
        self.inner.remark()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattline_policies::POLICIES;
    use wattline_policy::{BuildContext, build};
    use wattline_server::{Application, ServerFile};
    use wattline_units::Provenance;

    fn truth() -> ServerModel {
        ServerFile::load("westmere-2010").unwrap().model().unwrap().clone()
    }

    #[test]
    fn assumed_server_scales_watts_and_capacity() {
        let truth = truth();
        let wrong = Wrong { power: 1.3, idle_power: 0.7, capacity: 1.2, ..Wrong::default() };
        let assumed = wrong.server(&truth);
        let fastest = truth.processor.highest_frequency();
        let capacity = |server: &ServerModel| {
            let cost = server.packet_cost(Application::Ipv4, 64).unwrap();
            server.core_capacity(cost, 12, fastest).0
        };
        assert!((capacity(&assumed) / capacity(&truth) - 1.2).abs() < 1e-9);
        let watts = |server: &ServerModel| server.awake_core_power(fastest).0;
        assert!((watts(&assumed) / watts(&truth) - 1.3).abs() < 1e-9);
        assert!((assumed.idle_core_power(0).0 / truth.idle_core_power(0).0 - 0.7).abs() < 1e-9);
        assert_eq!(Wrong::default().server(&truth), truth);
    }

    #[test]
    fn driver_rules_pass_through_a_meter() {
        let mut platform = wattline_cores::platform_of(&truth());
        platform.can.driver_rules = true;
        let context = BuildContext { platform: &platform, server: None, packet: None, seed: 0 };
        let inner = build(&POLICIES.parse("ondemand+dim").unwrap(), &context).unwrap();
        let rule = inner.driver_rule(0);
        assert!(rule.is_some());
        assert_eq!(Metered::new(inner, Meter::Good, 1).driver_rule(0), rule);
    }

    #[test]
    fn meters_are_noisy_late_and_dead() {
        let platform = wattline_cores::platform_of(&truth());
        let context = BuildContext { platform: &platform, server: None, packet: None, seed: 0 };
        let of = |meter| {
            let inner = build(&POLICIES.parse("poll").unwrap(), &context).unwrap();
            Metered::new(inner, meter, 1)
        };
        let at = |millis| Time::ZERO + Span::from_millis(millis);
        let view = |watts| {
            let (over, provenance) = (Span::from_millis(1), Provenance::MODELLED);
            Some(PowerView { watts: Watts(watts), over, provenance })
        };
        let shown = |meter: &mut Metered, millis, watts| {
            meter.shown(at(millis), view(watts)).map(|view| view.watts.0)
        };
        let mut noisy = of(Meter::Noisy(0.1));
        let readings: Vec<f64> = (0..100).filter_map(|it| shown(&mut noisy, it, 100.0)).collect();
        assert!(readings.iter().all(|watts| (90.0..=110.0).contains(watts)), "{readings:?}");
        assert!(
            readings.iter().any(|watts| *watts < 95.0)
                && readings.iter().any(|watts| *watts > 105.0)
        );
        let mut late = of(Meter::Late(Span::from_millis(2)));
        let readings: Vec<_> = (1..6).map(|it| shown(&mut late, it, it as f64)).collect();
        assert_eq!(readings, [None, None, Some(1.0), Some(2.0), Some(3.0)]);
        let mut dead = of(Meter::DeadFrom(at(2)));
        assert_eq!(shown(&mut dead, 1, 5.0), Some(5.0));
        assert_eq!(shown(&mut dead, 2, 5.0), None);
    }
}

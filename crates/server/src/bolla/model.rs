//! Equations 5 to 10: power and throughput of one core and of several.

use super::Chi;
use serde::Serialize;
use wattline_units::{Hertz, PacketsPerSecond, Span, Watts};

/// Measurements of a platform at one frequency, with a single forwarding core.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct FrequencyPoint {
    /// The frequency.
    pub frequency: Hertz,
    /// Φ_idle: power of a core without work.
    pub idle: Watts,
    /// Φ_active: power of a core that is never idle.
    pub active: Watts,
    /// r_max: highest rate that one core alone forwards.
    pub max_rate: PacketsPerSecond,
}

/// A router according to Bolla's model.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BollaModel {
    /// Name of the model.
    pub name: String,
    /// Power of the platform without its cores, counted once; zero if Φ includes it.
    pub base: Watts,
    /// One entry per frequency, ascending; never empty.
    pub frequencies: Vec<FrequencyPoint>,
    /// gamma(n) for n = 1, 2, …: rate of n cores divided by the rate of one core.
    pub gamma: Vec<f64>,
    /// The normalised form function.
    pub chi: Chi,
}

/// One core of the set C: its frequency and its offered load.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CoreLoad {
    /// Index of the frequency in [`BollaModel::frequencies`].
    pub frequency: usize,
    /// Packets per second offered to the core.
    pub offered: PacketsPerSecond,
}

impl BollaModel {
    /// Equation 5: power of one core at a frequency that forwards `rate`, platform included.
    pub fn core_power(&self, point: &FrequencyPoint, rate: PacketsPerSecond) -> Watts {
        self.base + self.core_part(point, rate, point.max_rate)
    }

    /// Equation 6: rate that one core forwards under an offered load.
    pub fn core_throughput(
        &self,
        point: &FrequencyPoint,
        offered: PacketsPerSecond,
    ) -> PacketsPerSecond {
        PacketsPerSecond(offered.0.min(point.max_rate.0))
    }

    /// Equation 7: mean power of one core over a trace of (duration, throughput); `None` if the
    /// trace is empty.
    pub fn mean_power(
        &self,
        point: &FrequencyPoint,
        trace: &[(Span, PacketsPerSecond)],
    ) -> Option<Watts> {
        mean_over(trace, |rate| self.core_power(point, rate).0).map(Watts)
    }

    /// Equation 8: share of a trace in which the core is idle; `None` if the trace is empty.
    pub fn idle_probability(
        &self,
        point: &FrequencyPoint,
        trace: &[(Span, PacketsPerSecond)],
    ) -> Option<f64> {
        mean_over(trace, |rate| self.chi.value(rate / point.max_rate)).map(|active| 1.0 - active)
    }

    /// gamma(n); 0 for no cores, the last value for more cores than were measured.
    pub fn gamma(&self, cores: usize) -> f64 {
        match cores.checked_sub(1) {
            None => 0.0,
            Some(index) => self.gamma.get(index).or(self.gamma.last()).copied().unwrap_or(1.0),
        }
    }

    /// Equation 9: power of a set of cores, each at its own frequency and load.
    pub fn power(&self, cores: &[CoreLoad]) -> Watts {
        let parts = cores.iter().map(|core| {
            let point = &self.frequencies[core.frequency];
            let limit = self.rate_limit(point, cores.len());
            let rate = PacketsPerSecond(core.offered.0.min(limit.0));
            self.core_part(point, rate, limit)
        });
        self.base + parts.sum()
    }

    /// Equation 10: rate that a set of cores forwards. One of n cores saturates at gamma(n)/n of
    /// what it forwards alone.
    pub fn throughput(&self, cores: &[CoreLoad]) -> PacketsPerSecond {
        let parts = cores.iter().map(|core| {
            let limit = self.rate_limit(&self.frequencies[core.frequency], cores.len());
            PacketsPerSecond(core.offered.0.min(limit.0))
        });
        parts.sum()
    }

    /// Equation 9 for equal cores: `cores` cores at one frequency share `rate` evenly.
    pub fn even_power(&self, cores: usize, frequency: usize, rate: PacketsPerSecond) -> Watts {
        let share = CoreLoad { frequency, offered: rate / cores.max(1) as f64 };
        self.power(&vec![share; cores])
    }

    /// Highest rate of `cores` cores at one frequency: gamma(n) r_max(f).
    pub fn even_capacity(&self, cores: usize, frequency: usize) -> PacketsPerSecond {
        self.frequencies[frequency].max_rate * self.gamma(cores)
    }

    /// Rate at which one of `cores` cores saturates: (gamma / |C|) r_max(f).
    fn rate_limit(&self, point: &FrequencyPoint, cores: usize) -> PacketsPerSecond {
        point.max_rate * (self.gamma(cores) / cores.max(1) as f64)
    }

    /// Power of one core without the platform.
    fn core_part(
        &self,
        point: &FrequencyPoint,
        rate: PacketsPerSecond,
        limit: PacketsPerSecond,
    ) -> Watts {
        point.idle + (point.active - point.idle) * self.chi.value(rate / limit)
    }
}

/// Time-weighted mean of a function of the rate over a trace.
fn mean_over(
    trace: &[(Span, PacketsPerSecond)],
    value: impl Fn(PacketsPerSecond) -> f64,
) -> Option<f64> {
    let length: f64 = trace.iter().map(|(span, _)| span.as_seconds()).sum();
    let integral: f64 = trace.iter().map(|(span, rate)| span.as_seconds() * value(*rate)).sum();
    (length > 0.0).then_some(integral / length)
}

#[cfg(test)]
mod tests {
    use super::super::equations;
    use super::*;

    fn xeon(gamma: &[f64]) -> BollaModel {
        let point = |gigahertz, idle, active, kpps| FrequencyPoint {
            frequency: Hertz::from_gigahertz(gigahertz),
            idle: Watts(idle),
            active: Watts(active),
            max_rate: PacketsPerSecond(kpps * 1e3),
        };
        BollaModel {
            name: "made up for tests".into(),
            base: Watts(100.0),
            frequencies: vec![point(2.0, 10.0, 30.0, 750.0), point(3.0, 12.0, 45.0, 1040.0)],
            gamma: gamma.to_vec(),
            chi: Chi::printed().corrected(),
        }
    }

    #[test]
    fn equation_5_spans_idle_to_active() {
        let model = xeon(&[1.0]);
        let point = model.frequencies[1];
        assert_eq!(model.core_power(&point, PacketsPerSecond::ZERO), Watts(112.0));
        assert_eq!(model.core_power(&point, point.max_rate), Watts(145.0));
        let printed = BollaModel { chi: Chi::printed(), ..model };
        let active = printed.core_power(&point, point.max_rate).0 - 112.0;
        assert!((active - 33.0 * 1.002_088).abs() < 1e-4);
    }

    #[test]
    fn equation_6_is_the_lesser_of_load_and_limit() {
        let model = xeon(&[1.0]);
        let point = model.frequencies[0];
        let throughput = |kpps: f64| model.core_throughput(&point, PacketsPerSecond(kpps * 1e3));
        assert_eq!(throughput(100.0), PacketsPerSecond(100e3));
        assert_eq!(throughput(900.0), PacketsPerSecond(750e3));
    }

    #[test]
    fn equations_7_and_2_with_8_agree() {
        let model = xeon(&[1.0]);
        let point = model.frequencies[1];
        let trace: Vec<(Span, PacketsPerSecond)> = (1..50)
            .map(|step| (Span::from_millis(step), PacketsPerSecond(step as f64 * 21e3)))
            .collect();
        let by_7 = model.mean_power(&point, &trace).unwrap();
        let idle = model.idle_probability(&point, &trace).unwrap();
        let by_2 = model.base + equations::mean_power(idle, point.idle, point.active);
        assert!((by_7.0 - by_2.0).abs() < 1e-9);
        assert_eq!(model.mean_power(&point, &[]), None);
    }

    #[test]
    fn one_core_reduces_equations_9_and_10_to_5_and_6() {
        let model = xeon(&[1.0, 1.5]);
        for kpps in [0.0, 300.0, 750.0, 2000.0] {
            let offered = PacketsPerSecond(kpps * 1e3);
            let alone = [CoreLoad { frequency: 0, offered }];
            let point = &model.frequencies[0];
            let rate = model.core_throughput(point, offered);
            assert_eq!(model.power(&alone), model.core_power(point, rate));
            assert_eq!(model.throughput(&alone), rate);
        }
    }

    /// Section V.B: two cores of the Opteron forward 1.5 times what one does, of the Xeon twice.
    #[test]
    fn gamma_limits_each_core_and_the_sum() {
        for (gamma, each) in [(1.5, 0.75), (2.0, 1.0)] {
            let model = xeon(&[1.0, gamma]);
            let offered = PacketsPerSecond(5e6);
            let both = [CoreLoad { frequency: 1, offered }; 2];
            assert_eq!(model.throughput(&both), PacketsPerSecond(1040e3 * gamma));
            assert_eq!(model.power(&both), Watts(100.0 + 2.0 * 45.0));
            let one_busy = [both[0], CoreLoad { frequency: 1, offered: PacketsPerSecond::ZERO }];
            assert_eq!(model.throughput(&one_busy), PacketsPerSecond(1040e3 * each));
        }
    }

    #[test]
    fn cores_may_differ_in_frequency() {
        let model = xeon(&[1.0, 2.0]);
        let offered = PacketsPerSecond(750e3);
        let mixed = [CoreLoad { frequency: 0, offered }, CoreLoad { frequency: 1, offered }];
        let chi = model.chi.value(750.0 / 1040.0);
        assert_eq!(model.power(&mixed), Watts(100.0 + 30.0 + (12.0 + 33.0 * chi)));
        assert_eq!(model.throughput(&mixed), PacketsPerSecond(1500e3));
    }
}

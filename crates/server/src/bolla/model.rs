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
    /// its rate alone.
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
    use super::*;

    fn xeon() -> BollaModel {
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
            gamma: vec![1.0, 2.0],
            chi: Chi::printed().corrected(),
        }
    }

    #[test]
    fn cores_may_differ_in_frequency() {
        let model = xeon();
        let offered = PacketsPerSecond(750e3);
        let mixed = [CoreLoad { frequency: 0, offered }, CoreLoad { frequency: 1, offered }];
        let chi = model.chi.value(750.0 / 1040.0);
        assert_eq!(model.power(&mixed), Watts(100.0 + 30.0 + (12.0 + 33.0 * chi)));
        assert_eq!(model.throughput(&mixed), PacketsPerSecond(1500e3));
    }
}

//! "Hare or tortoise" and "strength in speed or in numbers": PowerSave's equations 1 to 3.
//!
//! Sections 5.1 and 5.2 of the paper compare ways to do the same work in the same time on ideal
//! cores. The result depends on the growth of active power with frequency. For a real machine, use
//! the fitted [`wattline_server::ServerModel`].

use wattline_units::{Hertz, Joules, Span, Watts};

/// An ideal core. Active power is `fixed` + `scaling` (f / `fastest`)^`exponent`, and work takes
/// cycles / f.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct IdealCore {
    /// Part of the active power that does not depend on frequency.
    pub fixed: Watts,
    /// Part of the active power that depends on frequency, at the highest frequency.
    pub scaling: Watts,
    /// Exponent of its growth; 1 to 3 in the literature.
    pub exponent: f64,
    /// Power without work.
    pub idle: Watts,
    /// The highest frequency.
    pub fastest: Hertz,
}

impl IdealCore {
    /// Returns the active power Pa(f).
    pub fn active_power(&self, frequency: Hertz) -> Watts {
        self.fixed + self.scaling * (frequency / self.fastest).powf(self.exponent)
    }

    /// Equation 1: energy of one core that does `cycles` at `frequency` within `period`. It spends
    /// `transitions` at active power in going to sleep and waking, and idles for the rest. `None`
    /// if this does not fit into the period.
    pub fn energy(
        &self,
        cycles: f64,
        frequency: Hertz,
        transitions: Span,
        period: Span,
    ) -> Option<Joules> {
        let active = cycles / frequency.0;
        let idle = period.as_seconds() - active - transitions.as_seconds();
        // An excess of a picosecond is rounding.
        if idle < -1e-12 {
            return None;
        }
        let active_power = self.active_power(frequency);
        let busy = active_power.0 * (active + transitions.as_seconds());
        Some(Joules(busy + self.idle.0 * idle.max(0.0)))
    }

    /// Equation 2: the work takes the whole period, at the lowest sufficient frequency.
    pub fn tortoise(&self, cycles: f64, period: Span) -> Option<Joules> {
        let frequency = Hertz(cycles / period.as_seconds());
        self.energy(cycles, frequency, Span::ZERO, period).filter(|_| frequency <= self.fastest)
    }

    /// Equation 3: the work is done at the highest frequency, then the core sleeps.
    pub fn hare(&self, cycles: f64, transitions: Span, period: Span) -> Option<Joules> {
        self.energy(cycles, self.fastest, transitions, period)
    }

    /// Section 5.2: energy of `cores` cores that share the work and are never idle.
    pub fn shared(&self, cycles: f64, cores: usize, frequency: Hertz) -> Joules {
        self.active_power(frequency)
            * cores as f64
            * Span::from_seconds(cycles / cores as f64 / frequency.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn core(exponent: f64, fixed: f64, idle: f64) -> IdealCore {
        IdealCore {
            fixed: Watts(fixed),
            scaling: Watts(10.0),
            exponent,
            idle: Watts(idle),
            fastest: Hertz::from_gigahertz(3.2),
        }
    }

    const SECOND: Span = Span::from_millis(1000);
    const CYCLES: f64 = 1.6e9;

    #[test]
    fn energy_adds_up_over_the_period() {
        let core = core(1.0, 2.0, 1.0);
        let wake = Span::from_millis(100);
        // 0.5 s of work and 0.1 s of transitions at 12 W, 0.4 s idle at 1 W.
        let energy = core.hare(CYCLES, wake, SECOND).unwrap();
        assert!((energy.0 - (0.6 * 12.0 + 0.4)).abs() < 1e-9);
        assert!((core.tortoise(CYCLES, SECOND).unwrap().0 - 7.0).abs() < 1e-9);
        assert_eq!(core.hare(4e9, wake, SECOND), None, "more work than time");
        assert_eq!(core.tortoise(4e9, SECOND), None, "faster than the core");
    }

    #[test]
    fn tortoise_and_numbers_win_when_power_grows_faster_than_frequency() {
        for exponent in [0.8, 1.0, 1.5, 2.0, 3.0] {
            let core = core(exponent, 0.0, 0.0);
            let tortoise = core.tortoise(CYCLES, SECOND).unwrap();
            let hare = core.hare(CYCLES, Span::ZERO, SECOND).unwrap();
            let speed = core.shared(CYCLES, 2, core.fastest);
            let numbers = core.shared(CYCLES, 4, core.fastest / 2.0);
            assert_eq!(tortoise.0 < hare.0 - 1e-9, exponent > 1.0, "{exponent}");
            assert_eq!(numbers.0 < speed.0 - 1e-9, exponent > 1.0, "{exponent}");
        }
    }
}

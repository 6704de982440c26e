//! Equations 1 to 3 of the paper: two states, and the time spent in each.

use wattline_units::Watts;

/// Equation 1 (and 2, with the powers of one frequency): mean power of a core that is idle
/// for a fraction `idle_probability` of the time.
pub fn mean_power(idle_probability: f64, idle: Watts, active: Watts) -> Watts {
    idle * idle_probability + active * (1.0 - idle_probability)
}

/// Equation 3: share of time that a core with `load` and `capacity` (in the same unit) is idle, 1 -
/// load/capacity; 0 if it is overloaded or has no capacity.
pub fn idle_probability(load: f64, capacity: f64) -> f64 {
    if capacity > 0.0 { (1.0 - load / capacity).clamp(0.0, 1.0) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_probability_is_clamped() {
        assert_eq!(idle_probability(0.0, 10.0), 1.0);
        assert_eq!(idle_probability(10.0, 10.0), 0.0);
        assert_eq!(idle_probability(20.0, 10.0), 0.0);
        assert_eq!(idle_probability(1.0, 0.0), 0.0);
        assert_eq!(idle_probability(2.5, 10.0), 0.75);
    }
}

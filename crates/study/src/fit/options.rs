//! Options of a fit.

/// Options of a fit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FitOptions {
    /// Highest order of χ to consider, at least 1; the paper's is 7.
    pub order_max: usize,
    /// Largest departure of the chosen χ from the richest one at any measured load, as a fraction
    /// of the difference between idle and active power. Larger departures are accepted if they are
    /// indistinguishable from noise.
    pub error_bound: f64,
    /// Power of the platform without its cores in watts, if known. Otherwise it is fitted if the
    /// number of cores varies, and is part of Φ if not.
    pub base_watts: Option<f64>,
}

impl Default for FitOptions {
    fn default() -> Self {
        Self { order_max: 7, error_bound: 0.02, base_watts: None }
    }
}

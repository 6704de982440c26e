//! A day of traffic, compressed into seconds or minutes.

use super::Modulator;
use crate::random::Random;

/// The load over a day: low at night, two humps by day, and some spikes.
///
/// PowerSave's Figure 14 is not available. The profile has the properties that the text gives: a
/// mean of
/// about 35 % of the router's capacity, sudden spikes, and never more than the links carry (section
/// 7). Between two steps the rate is interpolated linearly. The mean is exact over a whole day, and
/// the day repeats.
#[derive(Debug, Clone)]
pub struct DayProfile {
    /// Packets per second at the beginning of each step.
    rates: Vec<f64>,
    step_seconds: f64,
    /// Number of the next piece, counted from the start of the day.
    next: usize,
}

/// Number of pieces per step; the rate is constant within each.
const PIECES: usize = 16;

impl DayProfile {
    /// Number of steps in a day: one every five minutes.
    pub const STEPS: usize = 288;
    /// Changes of the rate in a day.
    pub(crate) const CHANGES: usize = PIECES * Self::STEPS;

    /// Makes the profile from mean and highest rate in packets per second (the mean below the
    /// highest), the length of the day in seconds, and the number of spikes.
    pub fn new(mean: f64, highest: f64, seconds: f64, spikes: u32, seed: u64) -> Self {
        let mut random = Random::new(seed, 0xda7);
        let mut rates: Vec<f64> = (0..Self::STEPS)
            .map(|step| {
                let hour = 24.0 * step as f64 / Self::STEPS as f64;
                base(hour) * (0.95 + 0.1 * random.unit())
            })
            .collect();
        for _ in 0..spikes {
            let at = random.below(Self::STEPS as u32) as usize;
            let height = 0.4 + 0.6 * random.unit();
            // A spike rises within five minutes, lasts five minutes, and falls within five more.
            for rate in rates.iter_mut().skip(at).take(2) {
                *rate += height;
            }
        }
        fit(&mut rates, mean, highest);
        Self { rates, step_seconds: seconds / Self::STEPS as f64, next: 0 }
    }

    /// Packets per second at the beginning of each step of the day.
    pub fn rates(&self) -> &[f64] {
        &self.rates
    }
}

/// Load by hour in arbitrary units: a minimum at 4 h, a hump at 11 h and a higher one at 20 h.
fn base(hour: f64) -> f64 {
    let hump = |centre: f64, width: f64| {
        let distance = (hour - centre).abs();
        let distance = distance.min(24.0 - distance);
        (-0.5 * (distance / width).powi(2)).exp()
    };
    0.25 + 0.45 * hump(11.0, 3.0) + 0.6 * hump(20.0, 3.0)
}

/// Scales to the mean; rates above the highest are cut, and the others scaled up to compensate.
fn fit(rates: &mut [f64], mean: f64, highest: f64) {
    let wanted = mean * rates.len() as f64;
    let scale = wanted / rates.iter().sum::<f64>();
    rates.iter_mut().for_each(|rate| *rate *= scale);
    // Each round cuts less than the one before; forty leave a negligible error.
    for _ in 0..40 {
        let cut: f64 = rates.iter().filter(|rate| **rate >= highest).map(|_| highest).sum();
        let free: f64 = rates.iter().filter(|rate| **rate < highest).sum();
        if free <= 0.0 {
            break;
        }
        let factor = (wanted - cut) / free;
        for rate in rates.iter_mut() {
            *rate = if *rate >= highest { highest } else { (*rate * factor).min(highest) };
        }
    }
}

impl Modulator for DayProfile {
    fn next_step(&mut self) -> (f64, f64) {
        let (step, piece) = (self.next / PIECES, self.next % PIECES);
        let (from, to) = (self.rates[step], self.rates[(step + 1) % self.rates.len()]);
        // The middle of the piece, so that the mean over a day equals that of the steps.
        let rate = from + (to - from) * (piece as f64 + 0.5) / PIECES as f64;
        self.next = (self.next + 1) % Self::CHANGES;
        (rate, self.step_seconds / PIECES as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_is_exact_and_the_cap_holds() {
        for seed in 0..20 {
            for mean in [0.05, 0.35, 0.65, 0.9] {
                let day = DayProfile::new(mean, 1.0, 60.0, 12, seed);
                let seen = day.rates.iter().sum::<f64>() / day.rates.len() as f64;
                let mut steps = day.clone();
                let played: f64 = (0..PIECES * DayProfile::STEPS)
                    .map(|_| steps.next_step())
                    .map(|(rate, seconds)| rate * seconds / 60.0)
                    .sum();
                assert!((played / mean - 1.0).abs() < 1e-6, "{played} for {mean}");
                assert!((seen / mean - 1.0).abs() < 1e-6, "{seen} for {mean}");
                assert!(day.rates.iter().all(|rate| (0.0..=1.0).contains(rate)));
            }
        }
    }

    #[test]
    fn a_day_has_a_trough_and_spikes() {
        let day = DayProfile::new(0.35, 1.0, 60.0, 12, 1);
        let lowest = day.rates.iter().copied().fold(f64::MAX, f64::min);
        let highest = day.rates.iter().copied().fold(0.0, f64::max);
        assert!(lowest < 0.2 && highest > 0.7, "{lowest} to {highest}");
    }
}

//! Loads that rise and fall periodically, to test how a governor follows them.

use super::Modulator;

/// Shape of the rate within a period.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum WaveShape {
    /// High for a share of the period and low for the rest, with linear rise and fall.
    Square,
    /// Linear rise from low to high, then low at once.
    Sawtooth,
}

/// A periodic rate; the mean is exact over a whole period.
#[derive(Debug, Clone)]
pub struct Wave {
    /// Pieces of constant rate: packets per second, and duration in seconds.
    pieces: Vec<(f64, f64)>,
    next: usize,
}

/// Number of constant pieces that approximate a straight line.
const PIECES: usize = 32;

impl Wave {
    /// Changes of the rate in a period, at most.
    pub(crate) const CHANGES: usize = 2 * PIECES + 2;

    /// Makes the wave from the mean rate in packets per second, the ratio of the high to the low
    /// rate, the period in seconds, the share of it that is high, and the duration of a rise or
    /// fall of a square.
    pub fn new(
        shape: WaveShape,
        mean: f64,
        ratio: f64,
        period: f64,
        share: f64,
        rise: f64,
    ) -> Self {
        let line = |from: f64, to: f64, seconds: f64| {
            (0..PIECES).map(move |piece| {
                let at = (piece as f64 + 0.5) / PIECES as f64;
                (from + (to - from) * at, seconds / PIECES as f64)
            })
        };
        let mut pieces: Vec<(f64, f64)> = match shape {
            WaveShape::Sawtooth => line(1.0, ratio, period).collect(),
            WaveShape::Square => {
                let rise = rise.min(share * period).min((1.0 - share) * period);
                let (high, low) = (share * period - rise, (1.0 - share) * period - rise);
                let mut pieces = vec![(1.0, low)];
                pieces.extend(line(1.0, ratio, rise));
                pieces.push((ratio, high));
                pieces.extend(line(ratio, 1.0, rise));
                pieces
            }
        };
        pieces.retain(|(_, seconds)| *seconds > 0.0);
        let sum: f64 = pieces.iter().map(|(rate, seconds)| rate * seconds).sum();
        let scale = mean * period / sum;
        pieces.iter_mut().for_each(|(rate, _)| *rate *= scale);
        Self { pieces, next: 0 }
    }

    /// Ratio of the highest rate to the mean.
    pub fn peak(shape: WaveShape, ratio: f64, share: f64) -> f64 {
        match shape {
            WaveShape::Sawtooth => 2.0 * ratio / (1.0 + ratio),
            WaveShape::Square => ratio / (1.0 - share + share * ratio),
        }
    }
}

impl Modulator for Wave {
    fn next_step(&mut self) -> (f64, f64) {
        let step = self.pieces[self.next];
        self.next = (self.next + 1) % self.pieces.len();
        step
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mean_and_peak_are_exact() {
        for shape in [WaveShape::Square, WaveShape::Sawtooth] {
            for (ratio, share, rise) in [(10.0, 0.5, 0.0), (4.0, 0.1, 1e-3), (1.0, 0.9, 5e-2)] {
                let mut wave = Wave::new(shape, 1e6, ratio, 0.1, share, rise);
                let steps = wave.pieces.len();
                let pieces: Vec<(f64, f64)> = (0..steps).map(|_| wave.next_step()).collect();
                let packets: f64 = pieces.iter().map(|(rate, seconds)| rate * seconds).sum();
                let seconds: f64 = pieces.iter().map(|(_, seconds)| seconds).sum();
                assert!((seconds - 0.1).abs() < 1e-9 && (packets / 1e5 - 1.0).abs() < 1e-9);
                let most = pieces.iter().map(|piece| piece.0).fold(0.0, f64::max);
                let peak = 1e6 * Wave::peak(shape, ratio, share);
                assert!(most <= peak * 1.0001 && most > peak * 0.95, "{most} {peak}");
            }
        }
    }
}

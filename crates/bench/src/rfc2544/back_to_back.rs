//! Back-to-back frames: the longest burst that a device forwards without loss (section 26.4), and
//! the implied size of its buffers (RFC 9004).

use serde::Serialize;

/// Longest bursts without loss.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BackToBack {
    /// Mean over the trials, in frames.
    pub frames: f64,
    /// Longest burst of each trial.
    pub each_frames: Vec<u64>,
    /// Rate at which the generator sent bursts, in packets per second.
    pub burst_rate_pps: f64,
    /// Length of the mean burst: the implied buffer time (RFC 9004, section 6.4).
    pub implied_buffer_seconds: f64,
    /// The same, corrected for the frames forwarded during the burst; `None` if the throughput is
    /// unknown.
    pub corrected_buffer_seconds: Option<f64>,
    /// True if even the generator's longest burst passed.
    pub limited_by_generator: bool,
}

impl BackToBack {
    /// Summarises the longest burst of each trial, sent at `at` packets per second.
    pub fn new(
        each_frames: Vec<u64>,
        burst_rate_pps: f64,
        throughput_pps: Option<f64>,
        limited_by_generator: bool,
    ) -> Self {
        let frames = each_frames.iter().sum::<u64>() as f64 / (each_frames.len().max(1)) as f64;
        let implied = if burst_rate_pps > 0.0 { frames / burst_rate_pps } else { 0.0 };
        Self {
            frames,
            each_frames,
            burst_rate_pps,
            implied_buffer_seconds: implied,
            corrected_buffer_seconds: throughput_pps
                .map(|throughput| implied * (1.0 - (throughput / burst_rate_pps).min(1.0))),
            limited_by_generator,
        }
    }
}

/// Finds the longest burst that passes, by doubling and bisection, to a twentieth; `None` if even
/// the shortest is too long. `passes` sends a burst of the given number of frames.
pub fn longest<E>(
    shortest: u64,
    longest: u64,
    mut passes: impl FnMut(u64) -> Result<bool, E>,
) -> Result<Option<u64>, E> {
    if !passes(shortest)? {
        return Ok(None);
    }
    let (mut good, mut bad) = (shortest, None);
    while bad.is_none_or(|bad| bad - good > (good / 20).max(1)) {
        let next = match bad {
            Some(bad) => good + (bad - good) / 2,
            None if good >= longest => return Ok(Some(good)),
            None => (good * 2).min(longest),
        };
        if passes(next)? { good = next } else { bad = Some(next) }
    }
    Ok(Some(good))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    fn find(buffer: u64) -> Option<u64> {
        longest(16, 100_000, |frames| Ok::<_, Infallible>(frames <= buffer)).unwrap()
    }

    #[test]
    fn longest_burst_is_found() {
        assert_eq!(find(10), None);
        for buffer in [16, 17, 255, 4_096, 77_777] {
            let found = find(buffer).unwrap();
            assert!(found <= buffer && found + found / 20 + 2 > buffer, "{buffer}: {found}");
        }
        assert_eq!(find(u64::MAX), Some(100_000));
    }

    #[test]
    fn buffers_are_corrected_for_forwarded_frames() {
        let found = BackToBack::new(vec![900, 1_100], 1e6, Some(7.5e5), false);
        assert_eq!((found.frames, found.implied_buffer_seconds), (1_000.0, 1e-3));
        assert!((found.corrected_buffer_seconds.unwrap() - 2.5e-4).abs() < 1e-12);
    }
}

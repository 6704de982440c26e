//! Measurement of a card's power: shunts in the rails of a riser, several runs.

use wattline_units::Watts;

/// Returns the power of a rail: the current that causes `drop_volts` at a shunt of `ohms`, times
/// `rail_volts` (Sohan et al., section II.C: P = (V1 / R) V2; Liao and Bhuyan, section 4.1, the
/// same for each supply rail and DIMM).
pub fn shunt_power(drop_volts: f64, rail_volts: f64, ohms: f64) -> Watts {
    Watts(drop_volts / ohms * rail_volts)
}

/// Reasons for refusing to average measurements.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Unaccepted {
    /// There are too few runs to determine their spread.
    #[error("{0} runs; at least {least} are needed", least = LEAST_RUNS)]
    TooFew(usize),
    /// The runs do not agree.
    #[error("the runs differ by {percent:.1} %; at most {most:.0} % is allowed: find what disturbs them and measure again", most = MOST_SPREAD * 100.0)]
    Spread {
        /// Difference of largest and smallest, in percent of the smallest.
        percent: f64,
    },
    /// A run is not a positive number.
    #[error("a run gave {0}, which is not a positive number")]
    NoPower(f64),
}

const LEAST_RUNS: usize = 3;
const MOST_SPREAD: f64 = 0.03;

/// Returns the mean of at least three runs within 3 % of one another (Sohan et al., section II.C).
///
/// # Errors
/// Fails when there are too few runs, or when they do not agree.
pub fn accepted_mean(runs: &[f64]) -> Result<f64, Unaccepted> {
    if let Some(bad) = runs.iter().find(|run| !(run.is_finite() && **run > 0.0)) {
        return Err(Unaccepted::NoPower(*bad));
    }
    if runs.len() < LEAST_RUNS {
        return Err(Unaccepted::TooFew(runs.len()));
    }
    let (least, most) =
        runs.iter().fold((f64::MAX, 0.0_f64), |(low, high), run| (low.min(*run), high.max(*run)));
    let spread = most / least - 1.0;
    // The tolerance allows for the rounding of binary fractions: 10.0 and 10.3 are within 3 %.
    if spread > MOST_SPREAD + 1e-9 {
        return Err(Unaccepted::Spread { percent: spread * 100.0 });
    }
    Ok(runs.iter().sum::<f64>() / runs.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shunt_gives_current_times_rail() {
        assert!((shunt_power(0.010, 12.0, 0.01).0 - 12.0).abs() < 1e-12);
        assert!((shunt_power(0.005, 3.3, 0.01).0 - 1.65).abs() < 1e-12);
    }

    #[test]
    fn runs_are_averaged_only_if_they_agree() {
        assert_eq!(accepted_mean(&[10.0, 10.1, 10.2]), Ok(10.1));
        assert!(accepted_mean(&[10.0, 10.1, 10.3]).is_ok());
        assert_eq!(accepted_mean(&[10.0, 10.1]), Err(Unaccepted::TooFew(2)));
        assert!(matches!(accepted_mean(&[10.0, 10.2, 10.4]), Err(Unaccepted::Spread { .. })));
        assert_eq!(accepted_mean(&[10.0, 0.0, 10.0]), Err(Unaccepted::NoPower(0.0)));
        assert!(accepted_mean(&[10.0, f64::NAN, 10.0]).is_err());
    }
}

//! Lengths of keys and values.

use rand::Rng;
use std::fmt;
use std::str::FromStr;

/// A distribution of lengths in bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum SizeDistribution {
    /// Always this long.
    Fixed(u32),
    /// Any length of this range, both ends included, equally often.
    Uniform(u32, u32),
    /// Generalized extreme value distribution.
    ExtremeValue {
        /// Location mu, bytes.
        location: f64,
        /// Scale sigma, bytes, above zero.
        scale: f64,
        /// Shape k.
        shape: f64,
    },
    /// Generalized Pareto distribution.
    Pareto {
        /// Location theta, bytes.
        location: f64,
        /// Scale sigma, bytes, above zero.
        scale: f64,
        /// Shape k.
        shape: f64,
    },
    /// Values of the pool ETC: [`ETC_SMALL_VALUES`] below 15 bytes, [`ETC_VALUES`] from 15 on.
    EtcValues,
}

/// Lengths of keys in the pool ETC: Atikoglu, Xu, Frachtenberg, Jiang, Paleczny, "Workload
/// Analysis of a Large-Scale Key-Value Store", SIGMETRICS 2012, section 5: mu 30.7984,
/// sigma 8.20449, k 0.078688.
pub const ETC_KEYS: SizeDistribution =
    SizeDistribution::ExtremeValue { location: 30.7984, scale: 8.20449, shape: 0.078688 };

/// Lengths of values of 15 bytes and more in ETC, same source: theta 0 (counted from the 15th
/// byte on), sigma 214.476, k 0.348238.
pub const ETC_VALUES: SizeDistribution =
    SizeDistribution::Pareto { location: 15.0, scale: 214.476, shape: 0.348238 };

/// Shares of the values of 0 to 14 bytes in ETC, same source, table of the discrete part.
pub const ETC_SMALL_VALUES: [f64; 15] = [
    0.00536, 0.00047, 0.17820, 0.09239, 0.00018, 0.02740, 0.00065, 0.00606, 0.00023, 0.00837,
    0.00837, 0.08989, 0.00092, 0.00326, 0.01980,
];

/// Gets per set in ETC, same source, section 3: "30:1".
pub const ETC_GETS_PER_SET: f64 = 30.0;

impl SizeDistribution {
    /// Draws a length, rounded down and clamped to `min..=max`.
    pub(crate) fn sample(&self, random: &mut impl Rng, min: u32, max: u32) -> u32 {
        // In the middle of one of 2^53 steps: neither 0 nor 1.
        let unit = ((random.next_u64() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
        // `as` saturates.
        (self.inverse(unit) as u32).clamp(min, max)
    }

    /// Returns the length that a fraction `unit` (above 0, below 1) of all lengths does not exceed.
    fn inverse(&self, unit: f64) -> f64 {
        match *self {
            Self::Fixed(length) => f64::from(length),
            Self::Uniform(low, high) => f64::from(low) + unit * (f64::from(high - low) + 1.0),
            Self::ExtremeValue { location, scale, shape } => {
                let exponential = -unit.ln();
                location
                    + scale
                        * if shape == 0.0 {
                            -exponential.ln()
                        } else {
                            (exponential.powf(-shape) - 1.0) / shape
                        }
            }
            Self::Pareto { location, scale, shape } => {
                let rest = 1.0 - unit;
                location
                    + scale
                        * if shape == 0.0 { -rest.ln() } else { (rest.powf(-shape) - 1.0) / shape }
            }
            Self::EtcValues => {
                let mut below = 0.0;
                for (length, share) in ETC_SMALL_VALUES.into_iter().enumerate() {
                    if unit < below + share {
                        return length as f64;
                    }
                    below += share;
                }
                ETC_VALUES.inverse((unit - below) / (1.0 - below))
            }
        }
    }

    /// Returns the longest length of the specification, if it is bounded.
    pub(crate) fn longest(&self) -> Option<u32> {
        match *self {
            Self::Fixed(length) | Self::Uniform(_, length) => Some(length),
            _ => None,
        }
    }
}

impl FromStr for SizeDistribution {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const FORMS: &str = "expected a length in bytes (32), a range (10-1000), \
            gev:LOCATION,SCALE,SHAPE, gpareto:LOCATION,SCALE,SHAPE, etc-keys or etc-values";
        let wrong = || FORMS.to_owned();
        match text {
            "etc-keys" => return Ok(ETC_KEYS),
            "etc-values" => return Ok(Self::EtcValues),
            _ => {}
        }
        if let Some((name, parameters)) = text.split_once(':') {
            let numbers: Vec<f64> =
                parameters.split(',').map_while(|number| number.trim().parse().ok()).collect();
            let &[location, scale, shape] = numbers.as_slice() else {
                return Err(wrong());
            };
            if parameters.split(',').count() != 3 || !numbers.iter().all(|n| n.is_finite()) {
                return Err(wrong());
            }
            if scale <= 0.0 {
                return Err(format!("the scale is {scale}; it must be above 0"));
            }
            return match name {
                "gev" => Ok(Self::ExtremeValue { location, scale, shape }),
                "gpareto" => Ok(Self::Pareto { location, scale, shape }),
                _ => Err(wrong()),
            };
        }
        if let Some((low, high)) = text.split_once('-') {
            let (low, high) =
                (low.parse().map_err(|_| wrong())?, high.parse().map_err(|_| wrong())?);
            if low > high {
                return Err(format!("the range {low}-{high} is empty"));
            }
            return Ok(Self::Uniform(low, high));
        }
        text.parse().map(Self::Fixed).map_err(|_| wrong())
    }
}

impl fmt::Display for SizeDistribution {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::EtcValues => write!(out, "etc-values"),
            _ if *self == ETC_KEYS => write!(out, "etc-keys"),
            Self::Fixed(length) => write!(out, "{length}"),
            Self::Uniform(low, high) => write!(out, "{low}-{high}"),
            Self::ExtremeValue { location, scale, shape } => {
                write!(out, "gev:{location},{scale},{shape}")
            }
            Self::Pareto { location, scale, shape } => {
                write!(out, "gpareto:{location},{scale},{shape}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{Stream, random};

    fn samples(distribution: SizeDistribution) -> Vec<u32> {
        let mut random = random(3, Stream::Sizes);
        let mut all: Vec<u32> =
            (0..200_000).map(|_| distribution.sample(&mut random, 0, 1_000_000)).collect();
        all.sort_unstable();
        all
    }

    /// Quantiles of the closed forms, computed by hand from the published parameters.
    #[test]
    fn etc_lengths_follow_the_published_distributions() {
        let keys = samples(ETC_KEYS);
        // Median: 30.7984 + 8.20449 (ln(2)^-0.078688 - 1) / 0.078688 = 33.8.
        assert_eq!(keys[keys.len() / 2], 33);
        // 99 %: 30.7984 + 8.20449 ((-ln 0.99)^-0.078688 - 1) / 0.078688 = 76.3.
        assert!(keys[keys.len() * 99 / 100].abs_diff(76) <= 2, "{}", keys[keys.len() * 99 / 100]);

        let values = samples(SizeDistribution::EtcValues);
        let share = |length: u32| {
            let count = values.iter().filter(|value| **value == length).count();
            count as f64 / values.len() as f64
        };
        assert!((share(2) - 0.17820).abs() < 0.005, "{}", share(2));
        assert!((share(11) - 0.08989).abs() < 0.005, "{}", share(11));
        let small: f64 = ETC_SMALL_VALUES.iter().sum();
        let large = values.iter().filter(|value| **value >= 15).count() as f64;
        assert!((large / values.len() as f64 - (1.0 - small)).abs() < 0.005);
        // Median of the large ones: 15 + 214.476 (2^0.348238 - 1) / 0.348238 = 183.1.
        let first_large = values.partition_point(|value| *value < 15);
        let median = values[first_large + (values.len() - first_large) / 2];
        assert!(median.abs_diff(183) <= 4, "{median}");
    }

    #[test]
    fn range_includes_both_ends() {
        let all = samples(SizeDistribution::Uniform(3, 6));
        assert_eq!((all[0], all[all.len() - 1]), (3, 6));
        assert!(all.iter().filter(|length| **length == 6).count().abs_diff(50_000) < 1_500);
        assert_eq!(samples(SizeDistribution::Uniform(0, u32::MAX)).len(), 200_000);
    }

    #[test]
    fn specifications_round_trip() {
        for text in
            ["32", "10-1000", "gev:1,2,0", "gpareto:15,214.476,0.348238", "etc-keys", "etc-values"]
        {
            assert_eq!(text.parse::<SizeDistribution>().unwrap().to_string(), text);
        }
        for wrong in ["", "x", "9-3", "-3", "gev:1,2", "gev:1,2,3,4", "gev:1,0,1", "gev:1,nan,1"] {
            assert!(wrong.parse::<SizeDistribution>().is_err(), "{wrong}");
        }
    }
}

//! Offset between the clock of an external meter and this machine's, found by a known load: the
//! meter shows the machine's load a little later and by its own clock.

/// A value at a time, in seconds; times ascend.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sample {
    /// Seconds by the clock that took the sample.
    pub time: f64,
    /// Sampled value.
    pub value: f64,
}

/// Offset between a meter's clock and this machine's.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Alignment {
    /// Seconds to add to the meter's times to get this machine's.
    pub offset_seconds: f64,
    /// Half the width of the range of offsets that fit nearly as well.
    pub uncertainty_seconds: f64,
    /// Pearson's correlation of load and power at that offset, 0 to 1.
    pub correlation: f64,
}

/// Reason why clocks could not be aligned.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum AlignError {
    /// Too few samples, non-numeric values, or times that do not ascend.
    #[error("{0}: at least 8 finite samples in ascending order of time are needed")]
    Samples(&'static str),
    /// The step or the range is invalid.
    #[error(
        "the range of offsets must be finite, and the step above 0 and at most a 100 000th of it"
    )]
    Range,
    /// Load and power do not correlate at any offset.
    #[error(
        "power does not follow the load at any offset (best correlation {best:.2}); vary the load more, or for longer"
    )]
    Unrelated {
        /// The best correlation.
        best: f64,
    },
    /// Several offsets fit equally well: the load repeats itself.
    #[error(
        "{first:.3} s and {second:.3} s fit equally well; use a load that does not repeat itself"
    )]
    Ambiguous {
        /// One offset.
        first: f64,
        /// Another one.
        second: f64,
    },
}

/// Durations of a non-repeating load, in turn on and off, as shares of its time.
const STEPS: [u8; 19] = [4, 6, 3, 9, 5, 2, 8, 3, 10, 4, 2, 7, 5, 11, 3, 6, 2, 4, 6];
/// Step between the offsets that [`lag`] tries, in seconds.
const STEP: f64 = 0.05;

/// Returns true if the load for finding a lag is on, at a share of its time from 0 to 1.
pub fn is_loaded(share: f64) -> bool {
    let mut left = share * f64::from(STEPS.iter().copied().map(u16::from).sum::<u16>());
    let step = STEPS.iter().position(|length| {
        left -= f64::from(*length);
        left < 0.0
    });
    step.is_some_and(|step| step % 2 == 1)
}

/// Finds the delay with which a meter shows the load of its own machine, up to `longest` seconds.
/// The machine was idle before the load began.
///
/// # Errors
/// [`AlignError`].
pub fn lag(load: &[Sample], power: &[Sample], longest: f64) -> Result<Alignment, AlignError> {
    let idle = load.first().map(|first| Sample { time: first.time - longest, value: 0.0 });
    let load: Vec<Sample> = idle.into_iter().chain(load.iter().copied()).collect();
    let found = align(&load, power, (-longest, STEP), STEP)?;
    Ok(Alignment { offset_seconds: found.offset_seconds.min(0.0), ..found })
}

/// Correlation below which power does not follow the load.
const LEAST_CORRELATION: f64 = 0.5;
/// Offsets with a correlation this close to the best fit as well.
const NEARLY: f64 = 0.02;
/// Fall of the correlation that separates two hills of offsets.
const HILL: f64 = 0.1;
/// Largest number of offsets tried.
const MOST_STEPS: f64 = 100_000.0;
const LEAST_SAMPLES: usize = 8;

/// Finds the offset between `earliest` and `latest`, in steps of `step`, at which `power`
/// correlates best with `load`. Only times with both values are compared; they must cover at least
/// half of the power's samples.
///
/// # Errors
/// [`AlignError`].
pub fn align(
    load: &[Sample],
    power: &[Sample],
    (earliest, latest): (f64, f64),
    step: f64,
) -> Result<Alignment, AlignError> {
    check("load", load)?;
    check("power", power)?;
    let steps = ((latest - earliest) / step).floor();
    if !((0.0..=MOST_STEPS).contains(&steps) && step > 0.0) {
        return Err(AlignError::Range);
    }
    let tried: Vec<(f64, f64)> = (0..=steps as usize)
        .map(|number| earliest + number as f64 * step)
        .filter_map(|offset| Some((offset, correlation(load, power, offset)?)))
        .collect();
    let best = tried.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1));
    let (offset, best) = best.ok_or(AlignError::Unrelated { best: 0.0 })?;
    if best < LEAST_CORRELATION {
        return Err(AlignError::Unrelated { best });
    }
    // The hill around the best, over ripples of noise; and the part of it that fits nearly as well.
    let near = |at: &&(f64, f64)| at.1 >= best - NEARLY;
    let hill = |at: &&(f64, f64)| at.1 >= best - HILL;
    let place = tried.iter().position(|at| at.0 == offset).unwrap_or(0);
    let up = tried[place..].iter().take_while(hill).filter(near).last();
    let down = tried[..=place].iter().rev().take_while(hill).filter(near).last();
    let (low, high) = (down.map_or(offset, |at| at.0), up.map_or(offset, |at| at.0));
    if let Some((other, _)) = tried.iter().find(|at| near(at) && (at.0 < low || at.0 > high)) {
        return Err(AlignError::Ambiguous { first: offset, second: *other });
    }
    Ok(Alignment {
        offset_seconds: (low + high) / 2.0,
        uncertainty_seconds: ((high - low) / 2.0).max(step),
        correlation: best,
    })
}

fn check(name: &'static str, samples: &[Sample]) -> Result<(), AlignError> {
    let finite = samples.iter().all(|sample| sample.time.is_finite() && sample.value.is_finite());
    let ascend = samples.windows(2).all(|pair| pair[0].time < pair[1].time);
    let enough = samples.len() >= LEAST_SAMPLES && finite && ascend;
    if enough { Ok(()) } else { Err(AlignError::Samples(name)) }
}

/// Returns Pearson's correlation of the power with the simultaneous load.
fn correlation(load: &[Sample], power: &[Sample], offset: f64) -> Option<f64> {
    let pairs: Vec<(f64, f64)> = power
        .iter()
        .filter_map(|sample| Some((at(load, sample.time + offset)?, sample.value)))
        .collect();
    if pairs.len() < LEAST_SAMPLES || pairs.len() * 2 < power.len() {
        return None;
    }
    let count = pairs.len() as f64;
    let mean_x = pairs.iter().map(|pair| pair.0).sum::<f64>() / count;
    let mean_y = pairs.iter().map(|pair| pair.1).sum::<f64>() / count;
    let (mut xx, mut yy, mut xy) = (0.0, 0.0, 0.0);
    for (x, y) in pairs {
        let (x, y) = (x - mean_x, y - mean_y);
        xx += x * x;
        yy += y * y;
        xy += x * y;
    }
    let scale = (xx * yy).sqrt();
    // If one of them is constant, there is no correlation.
    (scale > 0.0 && scale.is_finite()).then(|| xy / scale)
}

/// Returns the value at a time, interpolated; `None` before the first sample and after the last.
fn at(samples: &[Sample], time: f64) -> Option<f64> {
    let after = samples.partition_point(|sample| sample.time < time);
    let right = samples.get(after)?;
    if right.time == time {
        return Some(right.value);
    }
    let left = samples.get(after.checked_sub(1)?)?;
    let share = (time - left.time) / (right.time - left.time);
    Some(left.value + share * (right.value - left.value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns steps of different length that never repeat: 0 and 1 by the bits of the seed.
    fn steps(seed: u64, count: usize) -> Vec<Sample> {
        let bit = |second: usize| (seed ^ seed.rotate_left(17)) >> (second / 3 % 64) & 1;
        let value = |time: f64| bit(time as usize) as f64;
        (0..count)
            .map(|n| n as f64 * 0.25)
            .map(|time| Sample { time, value: value(time) })
            .collect()
    }

    #[test]
    fn repeating_load_is_ambiguous_and_constant_one_unrelated() {
        let wave = |shift: f64| -> Vec<Sample> {
            let value = |time: f64| ((time + shift) * std::f64::consts::TAU / 4.0).sin();
            (0..400)
                .map(|n| f64::from(n) * 0.1)
                .map(|t| Sample { time: t, value: value(t) })
                .collect()
        };
        let error = align(&wave(0.0), &wave(0.0), (-10.0, 10.0), 0.1).unwrap_err();
        assert!(matches!(error, AlignError::Ambiguous { .. }), "{error}");
        let flat: Vec<Sample> = wave(0.0).iter().map(|s| Sample { value: 7.0, ..*s }).collect();
        let error = align(&wave(0.0), &flat, (-1.0, 1.0), 0.1).unwrap_err();
        assert_eq!(error, AlignError::Unrelated { best: 0.0 });
    }

    #[test]
    fn nonsense_is_refused() {
        let good = steps(0x9e37_79b9_7f4a_7c15, 200);
        let mut bad = good.clone();
        bad[5].time = bad[4].time;
        assert_eq!(align(&bad, &good, (-1.0, 1.0), 0.1), Err(AlignError::Samples("load")));
        bad[5] = Sample { time: good[5].time, value: f64::NAN };
        assert_eq!(align(&good, &bad, (-1.0, 1.0), 0.1), Err(AlignError::Samples("power")));
        for (range, step) in
            [((1.0, -1.0), 0.1), ((-1.0, 1.0), 0.0), ((f64::NAN, 1.0), 0.1), ((0.0, 1e9), 0.1)]
        {
            assert_eq!(align(&good, &good, range, step), Err(AlignError::Range));
        }
    }

    /// A remote meter of whole watts with noise and inertia, read every two seconds.
    #[test]
    fn lag_of_up_to_15_seconds_is_found() {
        let mut noise = 17_u32;
        for late in 0..=15 {
            let moments = (0..1_800).map(|tenth| f64::from(tenth) / 10.0);
            let load: Vec<Sample> = moments
                .map(|time| Sample { time, value: f64::from(u8::from(is_loaded(time / 180.0))) })
                .collect();
            let mut shown = 0.0;
            let mut power = Vec::new();
            for (tenth, sample) in load.iter().enumerate() {
                let then = sample.time - f64::from(late);
                shown += 0.2 * (f64::from(u8::from(is_loaded(then.max(0.0) / 180.0))) - shown);
                noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let random = f64::from(noise >> 8) / f64::from(1 << 24) - 0.5;
                if tenth % 20 == 0 {
                    let value = (100.0 + 20.0 * shown + 8.0 * random).round();
                    power.push(Sample { time: sample.time, value });
                }
            }
            let found = lag(&load, &power, 60.0).unwrap();
            // Inertia adds half a second.
            let error = (-found.offset_seconds - f64::from(late) - 0.5).abs();
            assert!(error <= found.uncertainty_seconds + 0.3, "{late} s: {found:?}");
            assert!(found.uncertainty_seconds < 1.0, "{late} s: {found:?}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]
        /// A meter with another clock, another scale and noise: the offset is found again.
        #[test]
        fn the_offset_is_found(
            shift in -8.0f64..8.0,
            watts in 5.0f64..80.0,
            noise in prop::collection::vec(-1.0f64..1.0, 180),
        ) {
            let load = steps(0x9e37_79b9_7f4a_7c15, 400);
            let power: Vec<Sample> = noise.iter().enumerate().filter_map(|(n, noise)| {
                let local = 20.0 + n as f64 * 0.3;
                let value = 100.0 + watts * at(&load, local)? + noise * watts * 0.1;
                Some(Sample { time: local - shift, value })
            }).collect();
            let found = align(&load, &power, (-10.0, 10.0), 0.05).unwrap();
            let error = (found.offset_seconds - shift).abs();
            prop_assert!(error <= found.uncertainty_seconds + 0.1, "{found:?} for {shift}");
            prop_assert!(found.correlation > 0.9);
        }
    }
}

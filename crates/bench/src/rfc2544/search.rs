//! The search for the throughput: Multiple Loss Ratio search (MLRsearch, RFC 9971), one goal at a
//! time.
//!
//! It has the RFC's attributes of a goal, classification of loads by all their trials (appendix A),
//! relevant bounds, and conditional throughput (appendix B). The RFC leaves the order of trials
//! open. Here trials begin short, and each phase quadruples their length up to the final one.

use serde::Serialize;
use std::time::Duration;
use wattline_testbed::packets::Soundness;

/// Goal of a search.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Goal {
    /// Highest loss ratio of a trial with low loss.
    pub loss_ratio: f64,
    /// Share of the time in which trials may exceed it; below 1.
    pub exceed_ratio: f64,
    /// Length of trials that count in full.
    pub final_trial: Duration,
    /// Total length of trials after which a load is classified.
    pub duration_sum: Duration,
    /// Length of the first trials.
    pub initial_trial: Duration,
    /// Distance of the bounds, as a share of the upper one, at which the search ends.
    pub width: f64,
}

impl Goal {
    /// Returns the goal compliant with RFC 2544, section 26.1: trials of 60 seconds, no loss.
    pub fn compliant() -> Self {
        Self {
            loss_ratio: 0.0,
            exceed_ratio: 0.0,
            final_trial: Duration::from_secs(60),
            duration_sum: Duration::from_secs(60),
            initial_trial: Duration::from_secs(1),
            width: 0.005,
        }
    }

    /// Returns a goal with one trial of this length, for a quick overview.
    pub fn short(final_trial: Duration) -> Self {
        Self {
            final_trial,
            duration_sum: final_trial,
            initial_trial: final_trial / 4,
            width: 0.03,
            ..Self::compliant()
        }
    }

    /// Returns true if the goal is unconditionally compliant with RFC 2544: final trials and
    /// duration sum of at least 60 s, no loss, no exceeding.
    pub fn is_compliant(&self) -> bool {
        let minute = Duration::from_secs(60);
        self.final_trial >= minute
            && self.duration_sum >= minute
            && self.loss_ratio == 0.0
            && self.exceed_ratio == 0.0
    }

    /// Returns the goal of a phase with shorter final trials.
    fn phase(&self, trial: Duration) -> Self {
        Self { final_trial: trial, duration_sum: self.duration_sum.min(trial), ..*self }
    }
}

/// Result of one trial.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Trial {
    /// Requested packets per second: the intended load.
    pub load_pps: f64,
    /// Requested length of the trial.
    pub duration_seconds: f64,
    /// Packets lost of those sent.
    pub loss_ratio: f64,
    /// Forwarded packets per second.
    pub forwarding_rate_pps: f64,
    /// Soundness of the trial: did the generator hold the load and its receiver keep up. The other
    /// figures of an unsound trial are meaningless.
    #[serde(flatten)]
    pub soundness: Soundness,
}

impl Trial {
    fn is_sound(&self) -> bool {
        self.soundness.is_sound()
    }
}

/// Class of a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    Lower,
    Upper,
    Undecided,
}

/// Result of a search.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Found {
    /// Relevant lower bound in packets per second: the highest load that meets the goal below all
    /// loads that do not. `None` if no load did.
    pub lower_bound_pps: Option<f64>,
    /// Relevant upper bound; `None` if the highest load that can be offered met the goal.
    pub upper_bound_pps: Option<f64>,
    /// Conditional throughput: the lower bound minus the loss that the goal permits.
    pub conditional_throughput_pps: Option<f64>,
    /// True if the throughput is the generator's limit; the device may be faster.
    pub limited_by_generator: bool,
    /// Every trial, in order.
    pub trials: Vec<Trial>,
}

/// Limit of the number of trials, above the need of any search that converges.
const TRIALS_MAX: usize = 400;
/// Repetitions of a trial in which the generator failed.
pub(super) const REPEATS: u32 = 2;
/// Ratio of the trial lengths of successive phases.
const GROWTH: u32 = 4;

/// Searches for the highest load between `least` and `most` packets per second that meets the goal.
/// `measure` runs a trial of a load and length.
///
/// # Errors
/// Returns the error of `measure`.
pub fn search<E>(
    goal: &Goal,
    (least, most): (f64, f64),
    mut measure: impl FnMut(f64, Duration) -> Result<Trial, E>,
) -> Result<Found, E> {
    let mut trials: Vec<Trial> = Vec::new();
    let first = measure(most, goal.initial_trial)?;
    // The rate forwarded at the highest load is the best guess of the capacity.
    let mut hints = vec![most];
    if first.forwarding_rate_pps > least && first.forwarding_rate_pps < most {
        let guess = first.forwarding_rate_pps;
        hints.extend([guess, guess * (1.0 - goal.width)]);
    }
    trials.push(first);
    let mut trial = goal.initial_trial.min(goal.final_trial);
    loop {
        let phase = goal.phase(trial);
        while let Some(load) = next_load(&phase, &trials, (least, most), &mut hints) {
            while classify(&phase, &trials, load) == Class::Undecided && trials.len() < TRIALS_MAX {
                let mut made = measure(load, trial)?;
                for _ in 0..REPEATS {
                    if made.is_sound() {
                        break;
                    }
                    trials.push(made);
                    made = measure(load, trial)?;
                }
                trials.push(made);
                if !made.is_sound() {
                    break;
                }
            }
            if trials.len() >= TRIALS_MAX {
                break;
            }
        }
        let (lower, upper) = bounds(&phase, &trials);
        hints = [lower, upper].into_iter().flatten().collect();
        if trial >= goal.final_trial || trials.len() >= TRIALS_MAX {
            break;
        }
        trial = (trial * GROWTH).min(goal.final_trial);
    }
    let (lower, upper) = bounds(goal, &trials);
    let unsound = |load: f64| trials_at(&trials, load).all(|trial| !trial.is_sound());
    Ok(Found {
        lower_bound_pps: lower,
        upper_bound_pps: upper,
        conditional_throughput_pps: lower.map(|load| conditional(goal, &trials, load)),
        limited_by_generator: lower.is_some() && upper.is_none_or(unsound),
        trials,
    })
}

/// Returns the load of the next trial; `None` if the bounds are close enough.
fn next_load(
    goal: &Goal,
    trials: &[Trial],
    (least, most): (f64, f64),
    hints: &mut Vec<f64>,
) -> Option<f64> {
    loop {
        let (lower, upper) = bounds(goal, trials);
        if let Some(hint) = hints.pop() {
            let inside =
                lower.is_none_or(|lower| hint > lower) && upper.is_none_or(|upper| hint < upper);
            if inside && classify(goal, trials, hint) == Class::Undecided {
                return Some(hint);
            }
            continue;
        }
        // Steps grow as the square root of the distance from the known bound.
        return match (lower, upper) {
            (Some(lower), Some(upper)) if (upper - lower) / upper <= goal.width => None,
            (Some(lower), Some(upper)) => Some((lower * upper).sqrt()),
            (Some(lower), None) if lower >= most => None,
            (Some(lower), None) => {
                let step = 1.0 + goal.width.max(0.01) * 4.0;
                let next = lower * step;
                Some(if next * step > most { most } else { next })
            }
            (None, Some(upper)) if upper <= least => None,
            (None, Some(upper)) => Some((upper / 1.5).max(least)),
            (None, None) => Some(most),
        };
    }
}

fn trials_at(trials: &[Trial], load: f64) -> impl Iterator<Item = &Trial> {
    trials.iter().filter(move |trial| trial.load_pps == load)
}

/// Classifies a load (MLRsearch, appendix A). A load that the generator never held counts as an
/// upper bound: nothing above it can be measured.
fn classify(goal: &Goal, trials: &[Trial], load: f64) -> Class {
    let (mut good_long, mut bad_long, mut good_short, mut bad_short) = (0.0, 0.0, 0.0, 0.0);
    let (mut sound, mut unsound) = (0, 0);
    for trial in trials_at(trials, load) {
        if !trial.is_sound() {
            unsound += 1;
            continue;
        }
        sound += 1;
        let is_long = trial.duration_seconds >= goal.final_trial.as_secs_f64();
        let is_good = trial.loss_ratio <= goal.loss_ratio;
        let sum = match (is_good, is_long) {
            (true, true) => &mut good_long,
            (false, true) => &mut bad_long,
            (true, false) => &mut good_short,
            (false, false) => &mut bad_short,
        };
        *sum += trial.duration_seconds;
    }
    if sound == 0 && unsound > REPEATS as usize {
        return Class::Upper;
    }
    let balancing = good_short * goal.exceed_ratio / (1.0 - goal.exceed_ratio);
    let bad = bad_long + f64::max(0.0, bad_short - balancing);
    let whole = f64::max(good_long + bad, goal.duration_sum.as_secs_f64());
    let quantile = whole * goal.exceed_ratio;
    let (optimistic, pessimistic) = (bad <= quantile, whole - good_long <= quantile);
    match (optimistic, pessimistic) {
        (true, true) => Class::Lower,
        (false, false) => Class::Upper,
        _ => Class::Undecided,
    }
}

/// Returns the relevant bounds: the lowest load that is an upper bound, and the highest lower bound
/// below it.
fn bounds(goal: &Goal, trials: &[Trial]) -> (Option<f64>, Option<f64>) {
    let of = |class| {
        let loads = trials.iter().map(|trial| trial.load_pps);
        loads.filter(move |load| classify(goal, trials, *load) == class)
    };
    let upper = of(Class::Upper).min_by(f64::total_cmp);
    let below = |load: &f64| upper.is_none_or(|upper| *load < upper);
    (of(Class::Lower).filter(below).max_by(f64::total_cmp), upper)
}

/// Returns the conditional throughput (MLRsearch, appendix B).
fn conditional(goal: &Goal, trials: &[Trial], load: f64) -> f64 {
    let final_seconds = goal.final_trial.as_secs_f64();
    let mut long: Vec<_> = trials_at(trials, load)
        .filter(|trial| trial.is_sound() && trial.duration_seconds >= final_seconds)
        .collect();
    long.sort_by(|a, b| a.loss_ratio.total_cmp(&b.loss_ratio));
    let sum: f64 = long.iter().map(|trial| trial.duration_seconds).sum();
    let mut remaining = sum.max(goal.duration_sum.as_secs_f64()) * (1.0 - goal.exceed_ratio);
    let mut quantile = None;
    for trial in long {
        if quantile.is_some() && remaining <= 0.0 {
            break;
        }
        quantile = Some(trial.loss_ratio);
        remaining -= trial.duration_seconds;
    }
    // Rounding may leave a slightly negative remainder.
    let quantile = if remaining > 1e-9 { 1.0 } else { quantile.unwrap_or(1.0) };
    load * (1.0 - quantile)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    fn goal() -> Goal {
        Goal { width: 0.01, ..Goal::short(Duration::from_secs(1)) }
    }

    /// Returns the soundness of a trial; sending less than was due counts as failure.
    fn soundness(sent: f64, due: f64) -> Soundness {
        let due_packets = due.ceil() as u64;
        let unsent_packets = if sent < due { due_packets } else { 0 };
        Soundness { due_packets, unsent_packets, overflow_packets: 0 }
    }

    /// Returns a device that forwards at most `capacity`, behind a generator of at most `most`.
    fn device(capacity: f64, most: f64) -> impl FnMut(f64, Duration) -> Result<Trial, Infallible> {
        move |load, duration| {
            let sent = load.min(most);
            let forwarded = sent.min(capacity);
            Ok(Trial {
                load_pps: load,
                duration_seconds: duration.as_secs_f64(),
                loss_ratio: 1.0 - forwarded / sent,
                forwarding_rate_pps: forwarded,
                soundness: soundness(sent, load),
            })
        }
    }

    #[test]
    fn capacity_of_a_device_is_found_to_the_width() {
        for capacity in [1_000.0, 12_345.0, 799_000.0, 2_999_999.0] {
            let found = search(&goal(), (10.0, 3e6), device(capacity, 1e9)).unwrap();
            let throughput = found.conditional_throughput_pps.unwrap();
            assert!(throughput <= capacity && throughput >= capacity * 0.989, "{found:?}");
            assert!(found.upper_bound_pps.unwrap() > capacity);
            assert!(!found.limited_by_generator && found.trials.len() < 40, "{found:?}");
        }
    }

    #[test]
    fn device_faster_than_the_generator_has_a_lower_bound() {
        let found = search(&goal(), (10.0, 1e6), device(1e9, 1e9)).unwrap();
        assert_eq!((found.lower_bound_pps, found.upper_bound_pps), (Some(1e6), None));
        assert!(found.limited_by_generator);
        // The generator fails below its measured limit.
        let found = search(&goal(), (10.0, 1e6), device(1e9, 7e5)).unwrap();
        let lower = found.lower_bound_pps.unwrap();
        assert!((6.9e5..=7e5).contains(&lower) && found.limited_by_generator, "{found:?}");
    }

    #[test]
    fn device_that_forwards_nothing_has_no_throughput() {
        let found = search(&goal(), (10.0, 1e6), device(0.0, 1e9)).unwrap();
        assert_eq!((found.lower_bound_pps, found.conditional_throughput_pps), (None, None));
        assert_eq!(found.upper_bound_pps, Some(10.0));
    }

    /// The device stops forwarding after `after` trials.
    #[test]
    fn throughput_of_a_failing_device_needs_a_passed_trial() {
        for after in [1, 4, 9, 16] {
            let (mut alive, mut trials) = (device(7e5, 1e9), 0);
            let found = search(&goal(), (10.0, 1e6), |load, duration| {
                trials += 1;
                let trial = alive(load, duration)?;
                Ok::<_, Infallible>(match trials > after {
                    true => Trial { loss_ratio: 1.0, forwarding_rate_pps: 0.0, ..trial },
                    false => trial,
                })
            });
            let found = found.unwrap();
            // Only a load that passed a trial of the final length may remain.
            let whole = |load: f64| {
                let mut kept = trials_at(&found.trials, load);
                kept.any(|trial| trial.loss_ratio == 0.0 && trial.duration_seconds >= 1.0)
            };
            assert!(found.conditional_throughput_pps.is_none_or(whole), "{after}: {found:?}");
            assert!(found.trials.len() < TRIALS_MAX, "{after}: the search ends");
            if after < 9 {
                assert_eq!(found.conditional_throughput_pps, None, "{after}: {found:?}");
            }
        }
    }

    #[test]
    fn lower_bound_needs_long_trials_without_loss() {
        let trial = |duration_seconds, loss_ratio| Trial {
            load_pps: 5.0,
            duration_seconds,
            loss_ratio,
            forwarding_rate_pps: 5.0,
            soundness: soundness(1.0, 1.0),
        };
        let class = |trials: &[Trial]| classify(&goal(), trials, 5.0);
        assert_eq!(class(&[]), Class::Undecided);
        assert_eq!(class(&[trial(0.25, 0.0)]), Class::Undecided);
        assert_eq!(class(&[trial(1.0, 0.0)]), Class::Lower);
        assert_eq!(class(&[trial(0.25, 0.1)]), Class::Upper);
        assert_eq!(class(&[trial(1.0, 0.0), trial(1.0, 1e-7)]), Class::Upper);
    }

    #[test]
    fn goal_with_half_of_the_trials_failing_waits_for_the_majority() {
        let goal = Goal {
            exceed_ratio: 0.5,
            duration_sum: Duration::from_secs(3),
            loss_ratio: 0.005,
            ..goal()
        };
        let trial = |loss_ratio| Trial {
            load_pps: 8.0,
            duration_seconds: 1.0,
            loss_ratio,
            forwarding_rate_pps: 8.0,
            soundness: soundness(1.0, 1.0),
        };
        let (good, bad) = (trial(0.004), trial(0.2));
        assert_eq!(classify(&goal, &[good], 8.0), Class::Undecided);
        assert_eq!(classify(&goal, &[good, bad, good], 8.0), Class::Lower);
        assert_eq!(classify(&goal, &[bad, bad], 8.0), Class::Upper);
        let throughput = conditional(&goal, &[good, bad, good], 8.0);
        assert!((throughput - 8.0 * 0.996).abs() < 1e-9, "{throughput}");
    }

    #[test]
    fn compliance_needs_a_minute_without_loss() {
        assert!(Goal::compliant().is_compliant());
        assert!(!Goal::short(Duration::from_secs(59)).is_compliant());
        assert!(!Goal { loss_ratio: 0.005, ..Goal::compliant() }.is_compliant());
    }
}

//! The search for the throughput: Multiple Loss Ratio search (MLRsearch, RFC 9971), one goal at a time.
//!
//! Kept from it: the attributes of a goal, the classification of loads by all their trials
//! (appendix A), the relevant bounds, and the conditional throughput (appendix B). The order in
//! which loads are tried is free there; here trials begin short, and each phase quadruples their
//! length until the final one.

use serde::Serialize;
use std::time::Duration;
use wattline_testbed::packets::Soundness;

/// Goal of a search.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Goal {
    /// A trial has low loss when it lost no greater share than this.
    pub loss_ratio: f64,
    /// The share of the time in which trials may have more: below 1.
    pub exceed_ratio: f64,
    /// Length of the trials that count in full.
    pub final_trial: Duration,
    /// A load is known when its trials took so long together.
    pub duration_sum: Duration,
    /// Length of the first trials.
    pub initial_trial: Duration,
    /// The search ends when the bounds lie no further apart than this share of the upper one.
    pub width: f64,
}

impl Goal {
    /// The goal that is compliant with RFC 2544, section 26.1: trials of 60 seconds, no loss.
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

    /// The same with one trial of this length, to look rather than to publish.
    pub fn short(final_trial: Duration) -> Self {
        Self {
            final_trial,
            duration_sum: final_trial,
            initial_trial: final_trial / 4,
            width: 0.03,
            ..Self::compliant()
        }
    }

    /// Whether it makes a search unconditionally compliant with RFC 2544: final trials and
    /// duration sum of at least 60 s, no loss, no exceeding.
    pub fn is_compliant(&self) -> bool {
        let minute = Duration::from_secs(60);
        self.final_trial >= minute
            && self.duration_sum >= minute
            && self.loss_ratio == 0.0
            && self.exceed_ratio == 0.0
    }

    /// The goal of a phase with shorter final trials.
    fn phase(&self, trial: Duration) -> Self {
        Self { final_trial: trial, duration_sum: self.duration_sum.min(trial), ..*self }
    }
}

/// Result of one trial.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Trial {
    /// Packets per second that were asked for: the intended load.
    pub load_pps: f64,
    /// Length of the trial as asked for.
    pub duration_seconds: f64,
    /// Packets lost of those sent.
    pub loss_ratio: f64,
    /// Packets that came through per second.
    pub forwarding_rate_pps: f64,
    /// Whether the generator held the load and its receiver kept up; of any other trial only
    /// that is known.
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
    /// The relevant lower bound in packets per second: the highest load that meets the goal below
    /// any that does not. None where no load did.
    pub lower_bound_pps: Option<f64>,
    /// The relevant upper bound; none where the highest load that can be offered met the goal.
    pub upper_bound_pps: Option<f64>,
    /// The conditional throughput: the lower bound less the loss that the goal lets pass.
    pub conditional_throughput_pps: Option<f64>,
    /// True if the throughput is the generator's limit; the device may be faster.
    pub limited_by_generator: bool,
    /// Every trial, in order.
    pub trials: Vec<Trial>,
}

/// More trials than any search needs that comes to an end.
const TRIALS_MAX: usize = 400;
/// A trial in which the generator failed is repeated so often.
pub(super) const REPEATS: u32 = 2;
/// Each phase has trials so many times as long as the one before.
const GROWTH: u32 = 4;

/// Looks for the highest load between `least` and `most` packets per second that meets the goal.
/// `measure` makes a trial of this load and length.
///
/// # Errors
/// What `measure` says.
pub fn search<E>(
    goal: &Goal,
    (least, most): (f64, f64),
    mut measure: impl FnMut(f64, Duration) -> Result<Trial, E>,
) -> Result<Found, E> {
    let mut trials: Vec<Trial> = Vec::new();
    let first = measure(most, goal.initial_trial)?;
    // What came through at the most that can be offered is the best guess of what can.
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

/// The next load that is worth a trial; none when the bounds are close enough.
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
        // Steps grow as the square root of the load's distance from what is known.
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

/// MLRsearch, appendix A. A load that the generator never held counts as an upper bound: nothing
/// above it can be measured.
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

/// The relevant bounds: the lowest load that is an upper bound, and the highest below it that is
/// a lower bound.
fn bounds(goal: &Goal, trials: &[Trial]) -> (Option<f64>, Option<f64>) {
    let of = |class| {
        let loads = trials.iter().map(|trial| trial.load_pps);
        loads.filter(move |load| classify(goal, trials, *load) == class)
    };
    let upper = of(Class::Upper).min_by(f64::total_cmp);
    let below = |load: &f64| upper.is_none_or(|upper| *load < upper);
    (of(Class::Lower).filter(below).max_by(f64::total_cmp), upper)
}

/// MLRsearch, appendix B.
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
    // A little less than nothing remains where sums are not exact.
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

    /// Returns the soundness of a trial; the generator failed altogether if it sent less than was
    /// due.
    fn soundness(sent: f64, due: f64) -> Soundness {
        let due_packets = due.ceil() as u64;
        let unsent_packets = if sent < due { due_packets } else { 0 };
        Soundness { due_packets, unsent_packets, overflow_packets: 0 }
    }

    /// A device that forwards so much and no more, behind a generator that makes `most`.
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
    fn the_capacity_of_a_device_is_found_to_the_width() {
        for capacity in [1_000.0, 12_345.0, 799_000.0, 2_999_999.0] {
            let found = search(&goal(), (10.0, 3e6), device(capacity, 1e9)).unwrap();
            let throughput = found.conditional_throughput_pps.unwrap();
            assert!(throughput <= capacity && throughput >= capacity * 0.989, "{found:?}");
            assert!(found.upper_bound_pps.unwrap() > capacity);
            assert!(!found.limited_by_generator && found.trials.len() < 40, "{found:?}");
        }
    }

    #[test]
    fn a_device_faster_than_the_generator_is_at_least_as_fast() {
        let found = search(&goal(), (10.0, 1e6), device(1e9, 1e9)).unwrap();
        assert_eq!((found.lower_bound_pps, found.upper_bound_pps), (Some(1e6), None));
        assert!(found.limited_by_generator);
        // The generator fails below what it thought that it could.
        let found = search(&goal(), (10.0, 1e6), device(1e9, 7e5)).unwrap();
        let lower = found.lower_bound_pps.unwrap();
        assert!((6.9e5..=7e5).contains(&lower) && found.limited_by_generator, "{found:?}");
    }

    #[test]
    fn a_device_that_forwards_nothing_has_no_throughput() {
        let found = search(&goal(), (10.0, 1e6), device(0.0, 1e9)).unwrap();
        assert_eq!((found.lower_bound_pps, found.conditional_throughput_pps), (None, None));
        assert_eq!(found.upper_bound_pps, Some(10.0));
    }

    /// After so many trials nothing comes through any more.
    #[test]
    fn a_device_that_goes_away_in_the_middle_has_no_throughput_that_it_does_not_keep() {
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
            // Only a load that passed a trial of the final length before may stand.
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
    fn only_long_trials_without_loss_make_a_lower_bound() {
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
    fn a_goal_that_lets_half_of_the_trials_fail_waits_for_the_majority() {
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
    fn compliance_takes_a_minute_and_no_loss() {
        assert!(Goal::compliant().is_compliant());
        assert!(!Goal::short(Duration::from_secs(59)).is_compliant());
        assert!(!Goal { loss_ratio: 0.005, ..Goal::compliant() }.is_compliant());
    }
}

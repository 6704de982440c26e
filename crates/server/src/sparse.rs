//! Search of a sparse profile: chooses the V/F states and moderation periods to measure at a load.
//!
//! The search relies on two regularities: tail latency falls with rising frequency, and power falls
//! with lower frequency and longer period. At one load it finds the lowest V/F state that some
//! period brings within the target, and then the longest such period of that state. Simulated and
//! real servers are searched in the same way.

/// Coarse periods tried at a state: the minimum of latency over the period is in the middle if it
/// is U-shaped, and at the shortest period if it only rises.
const COARSE: usize = 4;
/// Periods between the coarse periods, tried at the next lower state.
const BETWEEN: usize = 2;

/// Measures a few of `states` × `periods` points of one load. `is_feasible` measures the point of a
/// state and a period, both as indices that ascend with frequency and length, and returns true if
/// it is within the target. It is called at most once per point.
///
/// # Errors
/// The first error of `is_feasible`, which ends the search.
pub fn search<E>(
    states: usize,
    periods: usize,
    is_feasible: impl FnMut(usize, usize) -> Result<bool, E>,
) -> Result<(), E> {
    let Some(last) = periods.checked_sub(1) else { return Ok(()) };
    let mut search = Search { is_feasible, known: Vec::new() };
    let coarse: [usize; COARSE] = [last / 2, last * 2 / 3, last / 3, 0];
    let (mut low, mut high) = (0, states);
    let mut at = None;
    while low < high {
        let middle = (low + high) / 2;
        match search.any_of(middle, &coarse)? {
            Some(period) => (high, at) = (middle, Some((middle, period))),
            None => low = middle + 1,
        }
    }
    // The next lower state may just meet the target between the coarse periods.
    if let Some((state, _)) = at
        && let Some(below) = state.checked_sub(1)
    {
        let between: [usize; BETWEEN] = [(last / 3 + last / 2) / 2, (last / 2 + last * 2 / 3) / 2];
        if let Some(period) = search.any_of(below, &between)? {
            at = Some((below, period));
        }
    }
    // If no point is fast enough, the points of least latency are still useful.
    let Some((state, period)) = at else { return Ok(()) };
    let (mut least, mut most) = (period, last);
    while least < most {
        let middle = (least + most).div_ceil(2);
        if search.meets_target(state, middle)? {
            least = middle;
        } else {
            most = middle - 1;
        }
    }
    Ok(())
}

/// Returns the most points that [`search`] can measure.
pub fn most_points(states: usize, periods: usize) -> usize {
    // A bisection of n candidates.
    let steps = |n: usize| (usize::BITS - n.leading_zeros()) as usize;
    let of_periods = steps(periods.saturating_sub(1));
    (COARSE * steps(states) + BETWEEN + of_periods).min(states * periods)
}

struct Search<F> {
    is_feasible: F,
    known: Vec<(usize, usize, bool)>,
}

impl<F> Search<F> {
    fn meets_target<E>(&mut self, state: usize, period: usize) -> Result<bool, E>
    where
        F: FnMut(usize, usize) -> Result<bool, E>,
    {
        let same = |known: &&(usize, usize, bool)| (known.0, known.1) == (state, period);
        if let Some((.., feasible)) = self.known.iter().find(same) {
            return Ok(*feasible);
        }
        let feasible = (self.is_feasible)(state, period)?;
        self.known.push((state, period, feasible));
        Ok(feasible)
    }

    /// Returns the first of these periods that meets the target; `None` if there is none.
    fn any_of<E>(&mut self, state: usize, periods: &[usize]) -> Result<Option<usize>, E>
    where
        F: FnMut(usize, usize) -> Result<bool, E>,
    {
        for period in periods {
            if self.meets_target(state, *period)? {
                return Ok(Some(*period));
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::convert::Infallible;

    fn measured(
        (states, periods): (usize, usize),
        feasible: impl Fn(usize, usize) -> bool,
    ) -> Vec<(usize, usize)> {
        let mut measured = Vec::new();
        let ended = search(states, periods, |state, period| {
            measured.push((state, period));
            Ok::<_, Infallible>(feasible(state, period))
        });
        assert_eq!(ended, Ok(()));
        measured
    }

    /// A lower state needs a shorter period; the cheapest point is among the measured points.
    #[test]
    fn lowest_state_and_its_longest_period_are_found() {
        for lowest in 0..11 {
            for longest in 12..24 {
                let feasible = |state, period| state >= lowest && period <= longest;
                let measured = measured((11, 24), feasible);
                assert!(measured.contains(&(lowest, longest)), "{lowest}, {longest}: {measured:?}");
                assert!(measured.len() * 10 <= 11 * 24, "{lowest}, {longest}: {}", measured.len());
            }
        }
    }

    /// If latency only rises with the period, only the shortest is within the target.
    #[test]
    fn state_feasible_only_at_the_shortest_period_is_found() {
        let measured = measured((11, 24), |state, period| state > 6 || state > 2 && period == 0);
        assert!(measured.contains(&(3, 0)), "{measured:?}");
        assert!(measured.len() * 10 <= 11 * 24, "{}", measured.len());
    }

    #[test]
    fn search_ends_without_a_feasible_point_and_at_once_on_an_error() {
        assert!(!measured((11, 24), |_, _| false).is_empty());
        assert!(
            measured((0, 24), |_, _| true).is_empty() && measured((4, 0), |_, _| true).is_empty()
        );
        let mut calls = 0;
        let ended = search(4, 6, |_, _| {
            calls += 1;
            Err("the server is gone")
        });
        assert_eq!((ended, calls), (Err("the server is gone"), 1));
    }

    proptest! {
        /// For any results: no point twice, none outside, and no more than [`most_points`].
        #[test]
        fn search_measures_at_most_the_announced_points(
            states in 0usize..40, periods in 0usize..80, seed in any::<u64>()
        ) {
            let answer = |state: usize, period: usize| {
                let mixed = (seed ^ (state * 131 + period) as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
                mixed >> 63 == 1
            };
            let mut measured = measured((states, periods), answer);
            prop_assert!(measured.len() <= most_points(states, periods), "{} points", measured.len());
            prop_assert!(measured.iter().all(|(state, period)| *state < states && *period < periods));
            let count = measured.len();
            measured.sort_unstable();
            measured.dedup();
            prop_assert_eq!(measured.len(), count);
        }
    }
}

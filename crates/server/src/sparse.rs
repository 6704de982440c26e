//! The search of a sparse profile: which V/F states and moderation periods of a load are measured.
//!
//! It rests on two regularities: tail latency falls with rising frequency, and power falls with lower
//! frequency and longer period. At one load it searches for the lowest V/F state that some period
//! brings within the target, and then for the longest such period of that state. A simulated and a
//! real server are searched in the same way.

/// Periods that are tried at a state, coarsely: where latency is U-shaped over the period, its minimum
/// is in the middle, and where it only rises, at the shortest.
const COARSE: usize = 4;
/// Periods between the coarse ones, tried at the next lower state.
const BETWEEN: usize = 2;

/// Measures a few of `states` × `periods` points of one load. `is_feasible` measures the point of a
/// state and a period, both as indices that ascend with frequency and length, and says whether it is
/// within the target; it is asked once per point.
///
/// # Errors
/// That of `is_feasible`, at once.
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
    // Between the coarse periods, the next lower state may just meet the target.
    if let Some((state, _)) = at
        && let Some(below) = state.checked_sub(1)
    {
        let between: [usize; BETWEEN] = [(last / 3 + last / 2) / 2, (last / 2 + last * 2 / 3) / 2];
        if let Some(period) = search.any_of(below, &between)? {
            at = Some((below, period));
        }
    }
    // Where no point is fast enough, those of least latency are still useful.
    let Some((state, period)) = at else { return Ok(()) };
    let (mut least, mut most) = (period, last);
    while least < most {
        let middle = (least + most).div_ceil(2);
        if search.asks(state, middle)? {
            least = middle;
        } else {
            most = middle - 1;
        }
    }
    Ok(())
}

/// The most points that [`search`] can measure.
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
    fn asks<E>(&mut self, state: usize, period: usize) -> Result<bool, E>
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

    /// The first of these periods that meets the target; `None` if there is none.
    fn any_of<E>(&mut self, state: usize, periods: &[usize]) -> Result<Option<usize>, E>
    where
        F: FnMut(usize, usize) -> Result<bool, E>,
    {
        for period in periods {
            if self.asks(state, *period)? {
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

    fn asked(
        (states, periods): (usize, usize),
        feasible: impl Fn(usize, usize) -> bool,
    ) -> Vec<(usize, usize)> {
        let mut asked = Vec::new();
        let ended = search(states, periods, |state, period| {
            asked.push((state, period));
            Ok::<_, Infallible>(feasible(state, period))
        });
        assert_eq!(ended, Ok(()));
        asked
    }

    /// A lower state needs a shorter period; the cheapest point is among those that were asked for.
    #[test]
    fn the_lowest_state_and_its_longest_period_are_found() {
        for lowest in 0..11 {
            for longest in 12..24 {
                let feasible = |state, period| state >= lowest && period <= longest;
                let asked = asked((11, 24), feasible);
                assert!(asked.contains(&(lowest, longest)), "{lowest}, {longest}: {asked:?}");
                assert!(asked.len() * 10 <= 11 * 24, "{lowest}, {longest}: {}", asked.len());
            }
        }
    }

    /// Latency that only rises with the period: then the shortest alone is within the target.
    #[test]
    fn a_state_that_only_the_shortest_period_saves_is_found() {
        let asked = asked((11, 24), |state, period| state > 6 || state > 2 && period == 0);
        assert!(asked.contains(&(3, 0)), "{asked:?}");
        assert!(asked.len() * 10 <= 11 * 24, "{}", asked.len());
    }

    #[test]
    fn nothing_feasible_ends_and_an_error_ends_at_once() {
        assert!(!asked((11, 24), |_, _| false).is_empty());
        assert!(asked((0, 24), |_, _| true).is_empty() && asked((4, 0), |_, _| true).is_empty());
        let mut calls = 0;
        let ended = search(4, 6, |_, _| {
            calls += 1;
            Err("the server is gone")
        });
        assert_eq!((ended, calls), (Err("the server is gone"), 1));
    }

    proptest! {
        /// Whatever the answers are: no point twice, none outside, and no more than was said before.
        #[test]
        fn it_asks_for_no_more_than_it_says(
            states in 0usize..40, periods in 0usize..80, seed in any::<u64>()
        ) {
            let answer = |state: usize, period: usize| {
                let mixed = (seed ^ (state * 131 + period) as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
                mixed >> 63 == 1
            };
            let mut asked = asked((states, periods), answer);
            prop_assert!(asked.len() <= most_points(states, periods), "{} points", asked.len());
            prop_assert!(asked.iter().all(|(state, period)| *state < states && *period < periods));
            let count = asked.len();
            asked.sort_unstable();
            asked.dedup();
            prop_assert_eq!(asked.len(), count);
        }
    }
}

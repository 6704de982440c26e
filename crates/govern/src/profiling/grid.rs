//! Choice and order of the measured points.

use wattline_units::{Hertz, Span};

/// The points of a profile.
#[derive(Debug, Clone, PartialEq)]
pub struct Grid {
    /// Loads in requests per second of all cores, ascending.
    pub loads_rps: Vec<f64>,
    /// The machine's frequencies, ascending.
    pub frequencies: Vec<Hertz>,
    /// Indices of the measured states, ascending.
    pub states: Vec<usize>,
    /// Moderation periods, ascending.
    pub periods: Vec<Span>,
}

/// One point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum At {
    /// The fastest state with the driver's own moderation. Its latency is the default target.
    Default {
        /// Index of the load.
        load: usize,
    },
    /// A frequency and a moderation period.
    Point {
        /// Index of the load.
        load: usize,
        /// Index of the frequency.
        state: usize,
        /// Index of the period.
        period: usize,
    },
}

impl At {
    /// Returns the index of its load.
    pub fn load(self) -> usize {
        match self {
            Self::Default { load } | Self::Point { load, .. } => load,
        }
    }
}

impl Grid {
    /// Returns all points in the order of measurement. Defaults come first, because each change
    /// between the driver's moderation and a fixed period gives the machine back. The others follow
    /// by load and then by state, fastest first: these are most likely within the target.
    pub fn order(&self) -> impl Iterator<Item = At> {
        let loads = 0..self.loads_rps.len();
        let points = loads.clone().flat_map(move |load| {
            self.states.iter().rev().flat_map(move |state| {
                let at = move |period| At::Point { load, state: *state, period };
                (0..self.periods.len()).map(at)
            })
        });
        loads.map(|load| At::Default { load }).chain(points)
    }

    /// Describes a point for users.
    pub fn name(&self, at: At) -> String {
        let load = self.loads_rps[at.load()];
        match at {
            At::Default { .. } => format!("{load} rps by the driver's own moderation"),
            At::Point { state, period, .. } => format!(
                "{load} rps at {:.2} GHz and {} us",
                self.frequencies[state].gigahertz(),
                self.periods[period].as_picos() as f64 / 1e6
            ),
        }
    }

    /// Returns `count` of `of` states, spread evenly; the fastest is always among them.
    pub fn coarse_states(of: usize, count: usize) -> Vec<usize> {
        let last = of.saturating_sub(1);
        let count = count.clamp(1, of.max(1));
        if count == 1 {
            return vec![last];
        }
        let mut states: Vec<usize> = (0..count).map(|n| (n * last).div_ceil(count - 1)).collect();
        states.dedup();
        states
    }

    /// Returns up to `count` periods over a card's range, each longer than the one before by the
    /// same factor, because latency changes most where periods are short. If the range begins at
    /// zero, zero is the first period, and the factor counts from 2 us.
    pub fn uneven_periods(range: (Span, Span), count: usize) -> Vec<Span> {
        let (shortest, longest) = (range.0, range.1.max(range.0));
        let least = shortest.max(Span::from_micros(2)).min(longest.max(Span::from_micros(2)));
        let mut periods = vec![shortest];
        let steps = count.saturating_sub(1).max(1);
        let ratio = longest.as_seconds() / least.as_seconds();
        for step in 1..count.max(1) {
            let factor = ratio.powf(step as f64 / steps as f64);
            let micros = (least.as_seconds() * factor * 1e6).round();
            periods.push(Span::from_micros(micros as u64).min(longest).max(shortest));
        }
        periods.sort();
        periods.dedup();
        periods
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_has_every_point_once_and_defaults_first() {
        let grid = Grid {
            loads_rps: vec![100.0, 200.0],
            frequencies: [1e9, 2e9, 3e9].map(Hertz).to_vec(),
            states: vec![0, 2],
            periods: [0, 10, 100].map(Span::from_micros).to_vec(),
        };
        let order: Vec<At> = grid.order().collect();
        assert_eq!(order.len(), 2 + 2 * 2 * 3);
        assert_eq!(order[1], At::Default { load: 1 });
        assert_eq!(order[2], At::Point { load: 0, state: 2, period: 0 });
        let mut sorted = order.clone();
        sorted.sort();
        sorted.dedup();
        assert_eq!(sorted.len(), order.len());
        assert_eq!(grid.name(order[3]), "100 rps at 3.00 GHz and 10 us");
    }

    #[test]
    fn coarse_axes_keep_both_ends() {
        assert_eq!(Grid::coarse_states(11, 4), [0, 4, 7, 10]);
        assert_eq!(Grid::coarse_states(3, 9), [0, 1, 2]);
        assert_eq!(Grid::coarse_states(5, 1), [4]);
        let micros = |low, high, count| -> Vec<f64> {
            let range = (Span::from_micros(low), Span::from_micros(high));
            let periods = Grid::uneven_periods(range, count);
            periods.iter().map(|period| (period.as_seconds() * 1e6).round()).collect()
        };
        assert_eq!(micros(0, 1000, 4), [0.0, 16.0, 126.0, 1000.0]);
        assert_eq!(micros(6, 1022, 3), [6.0, 78.0, 1022.0]);
        assert_eq!(micros(0, 0, 5), [0.0], "a card without moderation");
    }
}

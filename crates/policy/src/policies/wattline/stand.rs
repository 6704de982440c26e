//! Whether a fall of the load is worth following, and when.
//!
//! A load that rises again soon pays for two changes and for the answer to a leap. What a fall saved and
//! what following it cost is known when it is over. If none of the last falls was worth following, the point
//! that carries the recent peak stays, until it has drawn as much more as following would have cost. Otherwise
//! a fall is followed when waiting has cost as much as the change.

/// Seconds over which the remembered peak reaches back, once or twice.
const REACH: f64 = 10e-3;
/// The load is low if the recent peak is at least so many times what it needs now.
const LOW: f64 = 1.5;

/// So many falls in a row have to lose: where they last for random times, one in five may be short.
const LOSSES: u32 = 3;

/// Division of the slack where the recent peak is carried.
#[derive(Debug, Clone, Copy)]
pub(super) struct Split {
    /// Share that packets may wait which come faster than what is carried.
    pub backlog: f64,
    /// The most that naps may use. A nap adds to the wait only where a peak begins.
    pub naps: f64,
}

/// Long naps where capacity costs little, less capacity where naps save little.
pub(super) const SPLITS: [Split; 2] =
    [Split { backlog: 0.4, naps: 0.7 }, Split { backlog: 0.75, naps: 0.3 }];
/// Share of the slack that chance adds to the backlog before it counts as too much.
const CHANCE: f64 = 0.1;

impl Split {
    /// Share that may wait before it counts as too much.
    pub fn with_chance(self) -> f64 {
        self.backlog + CHANCE
    }
}

/// Worth of falls of the load, in joules.
#[derive(Debug, Clone, Default)]
pub(super) struct Stand {
    /// Highest need of the present stretch and of the one before, and the end of the present one.
    peaks: ([f64; SPLITS.len()], [f64; SPLITS.len()]),
    until: f64,
    /// The same of the rate itself.
    heights: (f64, f64),
    fall: Option<Fall>,
    /// Falls in a row that were not worth following.
    losses: u32,
}

/// The present fall, in joules.
#[derive(Debug, Clone, Copy)]
struct Fall {
    /// Savings so far, had it been followed.
    saved: f64,
    /// Cost of following it, with the way back.
    costs: f64,
    /// Cost of the change down, and so of waiting until the break-even.
    change: f64,
}

impl Stand {
    /// Takes the rates that would have been needed at this time, by how the slack is divided, and the rate
    /// that came.
    pub fn look(&mut self, seconds: f64, needed: [f64; SPLITS.len()], rate: f64) {
        if seconds >= self.until {
            self.peaks = (Default::default(), self.peaks.0);
            self.heights = (0.0, self.heights.0);
            self.until = seconds + REACH;
        }
        for (peak, needed) in self.peaks.0.iter_mut().zip(needed) {
            *peak = peak.max(needed);
        }
        self.heights.0 = self.heights.0.max(rate);
    }

    /// The recent peak, by how the slack is divided.
    pub fn peak(&self, split: usize) -> f64 {
        self.peaks.0[split].max(self.peaks.1[split])
    }

    /// The highest rate of late.
    pub fn height(&self) -> f64 {
        self.heights.0.max(self.heights.1)
    }

    /// Whether a need is so low that following it may pay.
    pub fn is_low(&self, need: f64) -> bool {
        self.peak(0) >= LOW * need
    }

    /// Books what following the fall would have saved since the last look, what it costs in all, and what
    /// the change down costs alone.
    pub fn falls(&mut self, joules: f64, costs: f64, change: f64) {
        let saved = self.fall.map_or(0.0, |fall| fall.saved) + joules;
        self.fall = Some(Fall { saved, costs, change });
    }

    /// The fall is over.
    pub fn rises(&mut self) {
        let Some(Fall { saved, costs, change }) = self.fall.take() else { return };
        self.losses = if saved < change + costs { self.losses.saturating_add(1) } else { 0 };
    }

    /// Whether to stay at the point of the peak.
    pub fn stays(&self) -> bool {
        self.losses >= LOSSES && self.fall.is_none_or(|fall| fall.saved < fall.change + fall.costs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A fall that saves so much before the load is back, when following costs 8 mJ, 2 of them on the way
    /// down.
    fn fall(stand: &mut Stand, joules: f64) {
        for _ in 0..10 {
            stand.falls(0.1 * joules, 8e-3, 2e-3);
        }
        stand.rises();
    }

    #[test]
    fn falls_are_followed_until_three_in_a_row_lose_and_others_until_they_last() {
        let mut stand = Stand::default();
        assert!(!stand.stays(), "nothing is known");
        (0..2).for_each(|_| fall(&mut stand, 5e-3));
        assert!(!stand.stays(), "two falls may be short by chance");
        fall(&mut stand, 5e-3);
        assert!(stand.stays());
        // The load is low for long: staying has cost as much as following.
        stand.falls(9e-3, 8e-3, 2e-3);
        assert!(stand.stays());
        stand.falls(2e-3, 8e-3, 2e-3);
        assert!(!stand.stays());
        stand.rises();
        assert!(!stand.stays(), "that fall was worth following");
        (0..2).for_each(|_| fall(&mut stand, 5e-3));
        assert!(!stand.stays());
    }

    #[test]
    fn the_peak_is_that_of_ten_to_twenty_milliseconds() {
        let mut stand = Stand::default();
        stand.look(1e-3, [9e6, 8e6], 11e6);
        stand.look(2e-3, [1e6; 2], 1e6);
        assert!(
            (stand.peak(0), stand.peak(1)) == (9e6, 8e6) && stand.is_low(1e6) && !stand.is_low(7e6)
        );
        stand.look(12e-3, [1e6; 2], 1e6);
        assert_eq!((stand.peak(0), stand.height()), (9e6, 11e6));
        stand.look(23e-3, [1e6; 2], 1e6);
        assert_eq!((stand.peak(0), stand.height()), (1e6, 1e6));
    }
}

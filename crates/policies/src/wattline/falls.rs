//! Decides if a fall of the load is worth following, from the savings and costs of the last falls.
//!
//! If the load rises again soon, following it costs two changes and the answer to a rise. If none
//! of the last falls was worth it, the point of the recent peak stays until it has cost as much
//! more as following would have: never more than twice the best in hindsight.

/// Joules of the last falls.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Falls {
    /// The present fall: savings so far if it had been followed, and the cost of following it and
    /// returning.
    present: Option<(f64, f64)>,
    /// Number of falls in a row that were not worth following.
    losses: u32,
}

impl Falls {
    /// Adds the savings of following the present fall since the last decision, and updates the
    /// cost.
    pub fn falls(&mut self, saved: f64, costs: f64) {
        self.present = Some((saved + self.present.map_or(0.0, |present| present.0), costs));
    }

    /// Ends the present fall: the load rose, or the fall outlasted the memory of the peak.
    pub fn ends(&mut self, lasted: bool) {
        let Some((saved, costs)) = self.present.take() else { return };
        self.losses = if saved < costs && !lasted { self.losses.saturating_add(1) } else { 0 };
    }

    /// Returns true if the point of the peak should stay.
    pub fn stays(&self) -> bool {
        self.losses > 2 && self.present.is_none_or(|(saved, costs)| saved < costs)
    }
}

/// Joules that a cheaper point would have saved since it was found: the rent of the present one.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Rent(f64);

impl Rent {
    /// Adds the savings of the cheaper point since the last decision. Returns true, and starts
    /// again at zero, once they reach the cost of the change: never more than twice the best in
    /// hindsight.
    pub fn pays(&mut self, saves: f64, costs: f64) -> bool {
        self.0 = if saves > 0.0 { self.0 + saves } else { 0.0 };
        let pays = saves > 0.0 && self.0 >= costs;
        if pays {
            self.0 = 0.0;
        }
        pays
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Passes a fall that saves so many joules before the load is back; following it costs 10 mJ.
    fn fall(falls: &mut Falls, joules: f64) {
        for _ in 0..10 {
            falls.falls(joules / 10.0, 10e-3);
        }
        falls.ends(false);
    }

    #[test]
    fn change_waits_until_the_rent_is_as_high_as_its_price() {
        let mut rent = Rent::default();
        assert!(!rent.pays(4e-3, 10e-3) && !rent.pays(4e-3, 10e-3) && rent.pays(4e-3, 10e-3));
        assert!(!rent.pays(4e-3, 10e-3), "it starts again");
        assert!(!rent.pays(-1e-3, 10e-3) && !rent.pays(8e-3, 10e-3), "the present one was cheaper");
        assert!(!rent.pays(0.0, 0.0), "nothing is saved");
    }

    #[test]
    fn peak_is_carried_after_three_lost_falls_until_staying_costs_as_much() {
        let mut falls = Falls::default();
        assert!(!falls.stays(), "nothing is known");
        (0..2).for_each(|_| fall(&mut falls, 5e-3));
        assert!(!falls.stays(), "two falls may be short by chance");
        fall(&mut falls, 5e-3);
        assert!(falls.stays());
        falls.falls(9e-3, 10e-3);
        assert!(falls.stays());
        falls.falls(2e-3, 10e-3);
        assert!(!falls.stays(), "staying has cost as much as following");
        falls.ends(false);
        (0..2).for_each(|_| fall(&mut falls, 5e-3));
        assert!(!falls.stays(), "one was worth following");
        (0..3).for_each(|_| fall(&mut falls, 5e-3));
        falls.falls(1e-3, 10e-3);
        falls.ends(true);
        assert!(!falls.stays(), "it lasted");
    }
}

//! The uncore (caches, mesh, memory controllers): its upper limit goes with the fastest core, where
//! the configuration asks for that.
//!
//! Its own control loop looks at the whole package's load, and under little of it mostly stays
//! where it was. Where the cores are at their lowest its upper limit is the firmware's lowest; at
//! their fastest it is what it was at the start, which may be an operator's wish.

use super::writes::Writes;
use wattline_governor::machine::Taken;
use wattline_knobs::{Knobs, uncore};
use wattline_linux::sysfs::Tree;
use wattline_units::Hertz;

/// What its hardware tells apart (a ratio of the bus clock).
const STEP: f64 = 1e8;

/// The uncores of this machine that are governed.
#[derive(Default)]
pub(super) struct Uncores {
    all: Vec<One>,
}

struct One {
    uncore: uncore::Uncore,
    /// Its upper limit now.
    limit: Hertz,
}

impl Uncores {
    /// Looks for them, if they are to be governed; `notes` gets what is missing.
    pub fn find(tree: &Tree, wanted: bool, notes: &mut Vec<String>) -> Self {
        if !wanted {
            return Self::default();
        }
        let (found, broken) = uncore::find(tree);
        notes.extend(broken.iter().map(|why| format!("uncore: {why}")));
        if found.is_empty() {
            notes
                .push("uncore: its frequency cannot be set (module intel_uncore_frequency)".into());
        }
        let one = |uncore: uncore::Uncore| One { limit: uncore.maximum_hertz, uncore };
        Self { all: found.into_iter().map(one).collect() }
    }

    /// Raises those that are too slow for cores at this place between their lowest frequency (0)
    /// and their highest (1): before the cores get faster.
    pub fn raise<K: Knobs>(&mut self, place: f64, writes: &mut Writes<K>) {
        self.all.iter_mut().for_each(|one| one.go(place, |wish, limit| wish > limit, writes));
    }

    /// Lowers those that may be slower: after the cores.
    pub fn lower<K: Knobs>(&mut self, place: f64, writes: &mut Writes<K>) {
        self.all.iter_mut().for_each(|one| one.go(place, |wish, limit| wish < limit, writes));
    }
}

impl One {
    /// What fails is counted, and tried again at the next change: cores do not depend on it.
    fn go<K: Knobs>(
        &mut self,
        place: f64,
        should: impl Fn(f64, f64) -> bool,
        writes: &mut Writes<K>,
    ) {
        let (low, high) = (self.uncore.lowest_hertz.get(), self.uncore.maximum_hertz.get());
        let wish = low + place.clamp(0.0, 1.0) * (high - low).max(0.0);
        let wish = ((wish / STEP).ceil() * STEP).min(high.max(low));
        if !should(wish, self.limit.get()) {
            return;
        }
        let lower = Hertz(self.uncore.minimum_hertz.get().min(wish));
        let taken = writes.make(&self.uncore.limit(lower, Hertz(wish)));
        if matches!(taken, Taken::Done | Taken::Altered { .. }) {
            self.limit = Hertz(wish);
        }
    }
}

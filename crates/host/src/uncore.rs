//! The uncore (caches, mesh, memory controllers): its upper limit is part of the operating point if
//! the configuration asks for it. Under policies that do not control the uncore, it follows the
//! fastest active core.
//!
//! The uncore's own control loop follows the whole package's load, and mostly keeps its frequency
//! under light load. Its upper limit moves between the two limits that it had at the start, which
//! an operator may have set; with overridden limits, between the firmware's.

use super::writes::{Writes, worse};
use wattline_governor::machine::Taken;
use wattline_knobs::{Knobs, uncore};
use wattline_linux::sysfs::Tree;
use wattline_units::Hertz;

/// Resolution of its hardware (a ratio of the bus clock).
const STEP: f64 = 1e8;

/// The uncores of this machine that are governed.
#[derive(Default)]
pub(super) struct Uncores {
    all: Vec<Governed>,
}

struct Governed {
    uncore: uncore::Uncore,
    /// Lowest upper limit to set.
    lowest: Hertz,
    /// Highest upper limit to set.
    highest: Hertz,
}

impl Uncores {
    /// Finds the uncores, if they are to be governed; adds what is missing to `notes`.
    pub fn find(tree: &Tree, wanted: bool, beyond: bool, notes: &mut Vec<String>) -> Self {
        if !wanted {
            return Self::default();
        }
        let (found, broken) = uncore::find(tree);
        notes.extend(broken.iter().map(|why| format!("uncore: {why}")));
        if found.is_empty() {
            notes
                .push("uncore: its frequency cannot be set (module intel_uncore_frequency)".into());
        }
        let one = |uncore: uncore::Uncore| {
            let limits = if beyond {
                (uncore.lowest_hertz, uncore.highest_hertz)
            } else {
                (uncore.minimum_hertz, uncore.maximum_hertz)
            };
            let highest = limits.1;
            Governed { lowest: Hertz(limits.0.get().min(highest.get())), highest, uncore }
        };
        Self { all: found.into_iter().map(one).collect() }
    }

    /// Returns the selectable upper limits, ascending; none if nothing is governed.
    pub fn limits(&self) -> Vec<Hertz> {
        let low = self.all.iter().map(|one| one.lowest.get()).fold(f64::MAX, f64::min);
        let high = self.all.iter().map(|one| one.highest.get()).fold(low, f64::max);
        if self.all.is_empty() {
            return Vec::new();
        }
        let first = (low / STEP).floor() as u64 + 1;
        let between = (first..).map(|step| step as f64 * STEP).take_while(|limit| *limit < high);
        let mut limits: Vec<Hertz> = [low].into_iter().chain(between).map(Hertz).collect();
        if high > low {
            limits.push(Hertz(high));
        }
        limits
    }

    /// Gives all of them an upper limit, each as near as its own range allows.
    pub fn set<K: Knobs>(&mut self, limit: Hertz, writes: &mut Writes<K>) -> Taken {
        let set = |outcome, one: &mut Governed| worse(outcome, one.set(limit, writes));
        self.all.iter_mut().fold(Taken::Done, set)
    }

    /// Returns the limit nearest to the highest current one.
    pub fn held(&self, knobs: &impl Knobs) -> Option<usize> {
        let held = self.all.iter().map(|one| one.held(knobs)).collect::<Option<Vec<Hertz>>>()?;
        let held = held.into_iter().map(Hertz::get).reduce(f64::max)?;
        let limits = self.limits();
        let far = |limit: &Hertz| (limit.get() - held).abs();
        let limits = limits.iter().enumerate();
        limits.min_by(|(_, a), (_, b)| far(a).total_cmp(&far(b))).map(|(index, _)| index)
    }
}

impl Governed {
    /// Returns its current upper limit.
    fn held(&self, knobs: &impl Knobs) -> Option<Hertz> {
        let kilohertz: f64 = knobs.read(&self.uncore.upper()).ok()?.parse().ok()?;
        Some(Hertz(kilohertz * 1e3))
    }

    fn set<K: Knobs>(&mut self, limit: Hertz, writes: &mut Writes<K>) -> Taken {
        let upper = Hertz(limit.get().min(self.highest.get()).max(self.lowest.get()));
        let lower = Hertz(self.uncore.minimum_hertz.get().min(upper.get()));
        writes.make(&self.uncore.limit(lower, upper))
    }
}

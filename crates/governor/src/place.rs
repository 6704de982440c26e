//! Places where knobs are turned: a core, cores that share a frequency, a queue, the machine.

use super::knob::{KNOBS, Knob, Step};
use wattline_policy::{OperatingPoint, Platform};

/// Returns the number of the core or queue that a step turns, for a frequency the lowest core that
/// shares it; 0 for a knob of the whole machine.
pub fn place_of(step: &Step, platform: &Platform) -> usize {
    match *step {
        Step::Frequency { core, .. } => {
            platform.domain.sharers(core, platform.cores).lowest().unwrap_or(core)
        }
        _ => step.place(),
    }
}

/// Keeps the present setting of a knob at a place ([`place_of`]); returns true if another one was
/// requested.
pub(super) fn keep(
    (knob, place): (Knob, usize),
    platform: &Platform,
    wanted: &mut OperatingPoint,
    point: &OperatingPoint,
) -> bool {
    let step = KNOBS[knob as usize].step;
    let mut back = |place| {
        let (new, old) = (step(wanted, place), step(point, place));
        let differs = old.is_some() && new != old;
        old.into_iter().for_each(|old| old.set(wanted));
        differs
    };
    match knob {
        Knob::Frequency => {
            let sharers = platform.domain.sharers(place, platform.cores);
            sharers.iter().fold(false, |kept, core| back(core) | kept)
        }
        Knob::Cores => {
            let same = (&wanted.active, &wanted.weights) == (&point.active, &point.weights);
            wanted.active = point.active;
            wanted.weights.clone_from(&point.weights);
            !same
        }
        // A point may leave it to the cores.
        Knob::Uncore => std::mem::replace(&mut wanted.uncore, point.uncore) != point.uncore,
        _ => back(place),
    }
}

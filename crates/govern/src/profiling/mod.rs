//! Profiles of a real server: tail latency and power by load, V/F state and moderation period.
//!
//! The machine is brought to each point of a [`Grid`] in turn, a load is driven until what it
//! measures is steady, and then until the 95th percentile is known well enough (Co-PI, section
//! IV.B; its own figures are of 8 x 11 x 510 points, hours of load). After every point the results
//! are written, so that a profile that was interrupted goes on where it was. What comes out is the
//! file of `docs/reference/profile-tables.md`, which policy `copi` reads. A sparse profile measures
//! only the points that a search asks for.
//!
//! [`Rig`] is what is driven; [`Machine`] is the one of this machine's knobs and meters.

mod grid;
mod live;
mod machine;
mod measure;
mod modelled;
mod page;
mod points;
mod profiled;
mod run;

pub use grid::{At, Grid};
pub use live::{Live, Loader, loader, within};
pub use machine::{Machine, MachineError};
pub use measure::{LoadFailure, NotSet, Outcome, Precision, Rig, Stopped};
pub use page::{page, remark};
pub use points::{Head, Points, PointsError};
pub use profiled::Profiled;
pub use run::Run;
pub use wattline_report::Spread;

use measure::measure;
use std::time::{Duration, Instant};
use wattline_server::sparse::{most_points, search};

/// Reason for leaving out a point without watts where others have them.
const UNMETERED: &str = "the meter gave no reading during its loads; it is measured again when the \
                         same command continues the profile";

/// Progress of a profile.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress {
    /// The point that it was at just now.
    pub at: At,
    /// Outcome of the point.
    pub outcome: Outcome,
    /// Points known, those of earlier runs included.
    pub known: usize,
    /// Number of points; of a sparse profile the most there can be.
    pub of: usize,
    /// Time that the rest will take, by the mean of those measured in this run; of a sparse profile
    /// at most.
    pub remaining: Duration,
}

/// Measures what of a grid is not known yet, and writes `points` after each. `tell` hears of each.
/// A point of which the machine makes another is left out.
///
/// # Errors
/// [`Stopped`]; all that was measured until then is written.
pub fn profile(
    rig: &mut dyn Rig,
    grid: &Grid,
    precision: Precision,
    points: &mut Points,
    tell: impl FnMut(&Progress),
) -> Result<(), Stopped> {
    let missing: Vec<At> = grid.order().filter(|at| !points.knows(*at)).collect();
    let of = grid.order().count();
    let mut walk = Walk::new(rig, grid, precision, points, tell);
    for (done, at) in missing.iter().enumerate() {
        walk.visit(*at, missing.len() - done - 1, of)?;
    }
    Ok(())
}

/// Measures a few points of a grid: those that [`search`] asks for, load by load. `target` is the
/// 95th percentile in seconds that counts as fast enough; none for that of the driver's default at
/// the load. Points that are known already, of a full profile too, are not measured again.
///
/// # Errors
/// Like [`profile`].
pub fn profile_sparse(
    rig: &mut dyn Rig,
    grid: &Grid,
    precision: Precision,
    target: Option<f64>,
    points: &mut Points,
    tell: impl FnMut(&Progress),
) -> Result<(), Stopped> {
    let loads = grid.loads_rps.len();
    let (states, periods) = (grid.states.len(), grid.periods.len());
    let most = most_points(states, periods);
    let mut walk = Walk::new(rig, grid, precision, points, tell);
    for load in 0..loads {
        let left = loads - load - 1;
        let at = At::Default { load };
        if !walk.points.knows(at) {
            let beyond = left + loads * most;
            walk.visit(at, beyond, walk.points.len() + 1 + beyond)?;
        }
    }
    for load in 0..loads {
        let default = walk.points.get(At::Default { load }).and_then(|point| point.p95_us);
        // Where the default saturates, any point that does not is better.
        let target = target.or(default.map(|micros| micros * 1e-6)).unwrap_or(f64::INFINITY);
        let mut asked = 0;
        search(states, periods, |state, period| {
            asked += 1;
            let at = At::Point { load, state: grid.states[state], period };
            if !walk.points.knows(at) {
                let beyond = most - asked + (loads - load - 1) * most;
                walk.visit(at, beyond, walk.points.len() + 1 + beyond)?;
            }
            // What was left out is no choice of a policy either.
            let p95_us = walk.points.get(at).and_then(|point| point.p95_us);
            Ok::<_, Stopped>(p95_us.is_some_and(|micros| micros * 1e-6 <= target))
        })?;
    }
    Ok(())
}

struct Walk<'a, T> {
    rig: &'a mut dyn Rig,
    grid: &'a Grid,
    precision: Precision,
    points: &'a mut Points,
    tell: T,
    /// Number of the last load.
    number: u64,
    began: Instant,
    done: u32,
}

impl<'a, T: FnMut(&Progress)> Walk<'a, T> {
    fn new(
        rig: &'a mut dyn Rig,
        grid: &'a Grid,
        precision: Precision,
        points: &'a mut Points,
        tell: T,
    ) -> Self {
        let number = points.len() as u64 * 1_000;
        Self { rig, grid, precision, points, tell, number, began: Instant::now(), done: 0 }
    }

    /// Measures a point, after which `left` others follow; `of` is how many there are in all.
    fn visit(&mut self, at: At, left: usize, of: usize) -> Result<(), Stopped> {
        let mut outcome = measure(self.rig, self.grid, at, self.precision, &mut self.number)?;
        if let Outcome::Measured(point) = outcome {
            // Its latency is known, which is all that a search asks for.
            self.points.add(point)?;
            if !self.points.is_whole(&point) {
                outcome = Outcome::LeftOut(UNMETERED.to_owned());
            }
        }
        self.done += 1;
        let remaining = self.began.elapsed() / self.done * left as u32;
        (self.tell)(&Progress { at, outcome, known: self.points.len(), of, remaining });
        Ok(())
    }
}

#[cfg(test)]
mod tests;

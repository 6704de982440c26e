//! Profiles of a real server: tail latency and power by load, V/F state and moderation period.
//!
//! At each point of a [`Grid`] the machine is set, and the load is repeated until its results are
//! steady and the 95th percentile is known with the required precision (Co-PI, section IV.B, which
//! measures 8 x 11 x 510 points in hours of load). The results are written after every point, so an
//! interrupted profile can continue. The profile yields the tables that policy `copi` reads
//! (`docs/reference/profile-tables.md`). A sparse profile measures only the points that a search
//! picks.
//!
//! [`Rig`] is the system under test. [`Live`] is a real one: a server on this [`Machine`].

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

/// Reason for leaving out a point without watts in a profile with a power source.
const UNMETERED: &str = "the meter gave no reading during its loads; it is measured again when the \
                         same command continues the profile";

/// Progress of a profile after a point.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress {
    /// The point.
    pub at: At,
    /// Its outcome.
    pub outcome: Outcome,
    /// Number of known points, including those of earlier runs.
    pub known: usize,
    /// Number of points of the profile; an upper bound if it is sparse.
    pub of: usize,
    /// Estimated time for the other points, by the mean of this run; an upper bound if the profile
    /// is sparse.
    pub remaining: Duration,
}

/// Measures the points of a grid that are not known yet. Writes `points` and calls `report` after
/// each. Skips points that the machine alters.
///
/// # Errors
/// [`Stopped`]; all points measured until then are written.
pub fn profile(
    rig: &mut dyn Rig,
    grid: &Grid,
    precision: Precision,
    points: &mut Points,
    report: impl FnMut(&Progress),
) -> Result<(), Stopped> {
    let missing: Vec<At> = grid.order().filter(|at| !points.knows(*at)).collect();
    let of = grid.order().count();
    let mut walk = Walk::new(rig, grid, precision, points, report);
    for (done, at) in missing.iter().enumerate() {
        walk.visit(*at, missing.len() - done - 1, of)?;
    }
    Ok(())
}

/// Measures the points of a grid that [`search`] picks, load by load. `target` is the 95th
/// percentile in seconds to stay within; by default that of the driver's own moderation at the
/// load. Known points are not measured again, even if they come from a full profile.
///
/// # Errors
/// Like [`profile`].
pub fn profile_sparse(
    rig: &mut dyn Rig,
    grid: &Grid,
    precision: Precision,
    target: Option<f64>,
    points: &mut Points,
    report: impl FnMut(&Progress),
) -> Result<(), Stopped> {
    let loads = grid.loads_rps.len();
    let (states, periods) = (grid.states.len(), grid.periods.len());
    let most = most_points(states, periods);
    let mut walk = Walk::new(rig, grid, precision, points, report);
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
        // If the default saturates, any point that does not is better.
        let target = target.or(default.map(|micros| micros * 1e-6)).unwrap_or(f64::INFINITY);
        let mut asked = 0;
        search(states, periods, |state, period| {
            asked += 1;
            let at = At::Point { load, state: grid.states[state], period };
            if !walk.points.knows(at) {
                let beyond = most - asked + (loads - load - 1) * most;
                walk.visit(at, beyond, walk.points.len() + 1 + beyond)?;
            }
            // A policy cannot choose a point that was left out.
            let p95_us = walk.points.get(at).and_then(|point| point.p95_us);
            Ok::<_, Stopped>(p95_us.is_some_and(|micros| micros * 1e-6 <= target))
        })?;
    }
    Ok(())
}

/// State of a profile between two points.
struct Walk<'a, T> {
    rig: &'a mut dyn Rig,
    grid: &'a Grid,
    precision: Precision,
    points: &'a mut Points,
    report: T,
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
        report: T,
    ) -> Self {
        let number = points.len() as u64 * 1_000;
        Self { rig, grid, precision, points, report, number, began: Instant::now(), done: 0 }
    }

    /// Measures a point of `of`, after which at most `left` others follow.
    fn visit(&mut self, at: At, left: usize, of: usize) -> Result<(), Stopped> {
        let mut outcome = measure(self.rig, self.grid, at, self.precision, &mut self.number)?;
        if let Outcome::Measured(point) = outcome {
            // Kept even without watts: a search needs only its latency.
            self.points.add(point)?;
            if !self.points.is_whole(&point) {
                outcome = Outcome::LeftOut(UNMETERED.to_owned());
            }
        }
        self.done += 1;
        let remaining = self.began.elapsed() / self.done * left as u32;
        (self.report)(&Progress { at, outcome, known: self.points.len(), of, remaining });
        Ok(())
    }
}

#[cfg(test)]
mod tests;

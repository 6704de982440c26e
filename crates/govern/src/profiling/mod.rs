//! Profiles of a real server: tail latency and power by load, V/F state and moderation period.
//!
//! The machine is brought to each point of a [`Grid`] in turn, a load is driven until what it
//! measures is steady, and then until the 95th percentile is known well enough (Co-PI, section
//! IV.B; its own figures are of 8 x 11 x 510 points, hours of load). After every point the results
//! are written, so that a profile that was interrupted goes on where it was. What comes out is the
//! file of `docs/reference/profile-tables.md`, which policy `copi` reads.
//!
//! [`Rig`] is what is driven; [`Machine`] is the one of this machine's knobs and meters.

mod grid;
mod live;
mod machine;
mod modelled;
mod page;
mod points;
mod run;

pub use grid::{At, Grid};
pub use live::{Live, Loader, loader, within};
pub use machine::{Machine, MachineError};
pub use page::page;
pub use points::{Head, Points, PointsError, Profiled};
pub use run::Run;
pub use wattline_report::Spread;

use std::time::{Duration, Instant};

/// Repetitions before it is asked whether they agree: two say nothing of a spread.
const FEWEST: usize = 3;
/// Load runs that may go by until two in a row agree.
const MOST_UNSTEADY: usize = 5;
/// Runs in a row in which the generator was too slow before it counts as such: a machine that does
/// something else for a moment does not end a profile of hours.
const MOST_TOO_SLOW: usize = 5;
/// Two runs agree when their 95th percentiles differ by less than this share.
const STEADY: f64 = 0.2;

/// Why a profile did not go on.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Stopped {
    /// Somebody wanted it to end.
    #[error("interrupted; run the same command again to continue")]
    Interrupted,
    /// The machine cannot be brought to a point.
    #[error("{at}: {why}; run the same command again to continue")]
    Machine {
        /// The point.
        at: String,
        /// What the machine says.
        why: String,
    },
    /// The server cannot be loaded any more.
    #[error("{at}: {why}; once the server answers, run the same command again to continue")]
    Server {
        /// The point.
        at: String,
        /// What happened.
        why: String,
    },
    /// The generator is too slow for this load: what it measured would be its own latency.
    #[error(
        "{at}: the generator does not hold this rate; give it more --threads, or another machine, \
         or profile lower loads"
    )]
    Generator {
        /// The point.
        at: String,
    },
    /// Results could not be written.
    #[error(transparent)]
    Points(#[from] PointsError),
}

/// Why a run of the load failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LoadFailure {
    /// Somebody wanted it to end.
    Interrupted,
    /// The server does not answer, say.
    Server(String),
}

/// A server under load, whose machine can be set.
pub trait Rig {
    /// Brings the machine to a point. Gives the moderation period in microseconds that it really
    /// holds there; none for the driver's own choice.
    ///
    /// # Errors
    /// In words, when it cannot be brought there.
    fn set(&mut self, at: At) -> Result<Option<f64>, String>;

    /// Loads the server with so many requests a second in all. `number` counts the runs.
    ///
    /// # Errors
    /// When it cannot be loaded.
    fn load(&mut self, rate_rps: f64, number: u64) -> Result<Run, LoadFailure>;
}

/// How well each point is to be known.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Care {
    /// Half the 95 % confidence interval of the 95th percentile, as a share of it, that is enough.
    pub within: f64,
    /// Repetitions at most.
    pub repetitions: usize,
}

/// How far a profile is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Progress {
    /// The point that was just measured.
    pub last: Profiled,
    /// Points known, those of earlier runs included.
    pub known: usize,
    /// Of so many.
    pub of: usize,
    /// How long the rest will take, by the mean of those measured in this run.
    pub remaining: Duration,
}

/// Measures what of a grid is not known yet, and writes `points` after each. `tell` hears of each.
///
/// # Errors
/// [`Stopped`]; all that was measured until then is written.
pub fn profile(
    rig: &mut dyn Rig,
    grid: &Grid,
    care: Care,
    points: &mut Points,
    mut tell: impl FnMut(&Progress),
) -> Result<(), Stopped> {
    let missing: Vec<At> = grid.order().filter(|at| !points.knows(*at)).collect();
    let of = grid.order().count();
    let began = Instant::now();
    let mut number = points.len() as u64 * 1_000;
    for (done, at) in missing.iter().enumerate() {
        let last = measure(rig, grid, *at, care, &mut number)?;
        points.add(last)?;
        let each = began.elapsed() / (done as u32 + 1);
        let remaining = each * (missing.len() - done - 1) as u32;
        tell(&Progress { last, known: points.len(), of, remaining });
    }
    Ok(())
}

fn measure(
    rig: &mut dyn Rig,
    grid: &Grid,
    at: At,
    care: Care,
    number: &mut u64,
) -> Result<Profiled, Stopped> {
    let named = || grid.name(at);
    let held_us = rig.set(at).map_err(|why| Stopped::Machine { at: named(), why })?;
    let mut run = || {
        for _ in 0..MOST_TOO_SLOW {
            *number += 1;
            let run =
                rig.load(grid.loads_rps[at.load()], *number).map_err(|failure| match failure {
                    LoadFailure::Interrupted => Stopped::Interrupted,
                    LoadFailure::Server(why) => Stopped::Server { at: named(), why },
                })?;
            if !run.generator_too_slow {
                return Ok(run);
            }
        }
        Err(Stopped::Generator { at: named() })
    };
    // Until two runs in a row agree, the first of them still shows the point before.
    let mut runs = vec![run()?];
    for _ in 0..MOST_UNSTEADY {
        let next = run()?;
        let (a, b) = (runs[runs.len() - 1].percentiles[1], next.percentiles[1]);
        // Both infinite: both saturated.
        let agree = a == b || (a - b).abs() < STEADY * a.max(b);
        if agree {
            runs.push(next);
            break;
        }
        runs = vec![next];
    }
    let repetitions = care.repetitions.max(FEWEST);
    loop {
        let spread = Spread::of(runs.iter().map(|run| run.percentiles[1]));
        let known = runs.len() >= FEWEST && spread.is_within(care.within);
        let saturated = runs.len() >= FEWEST && runs.iter().all(|run| !run.sustained);
        if known || saturated || runs.len() >= repetitions {
            break;
        }
        runs.push(run()?);
    }
    Ok(Profiled::of(at, held_us, &runs))
}

#[cfg(test)]
mod tests;

//! Measurement of one point: sets the machine, loads the server until it is steady, and repeats the
//! load until the result is precise enough.

use super::grid::{At, Grid};
use super::points::{PointsError, too_many_arrivals};
use super::profiled::Profiled;
use super::run::Run;
use wattline_report::Spread;

/// Fewest repetitions of a point: two are too few for a spread.
const FEWEST: usize = 3;
/// Most runs after the first until two in a row agree.
const MOST_UNSTEADY: usize = 5;
/// Runs in a row with a generator that is too slow, after which a profile ends. A short disturbance
/// of the generator must not end a profile that takes hours.
const MOST_TOO_SLOW: usize = 5;
/// Two runs agree when their 95th percentiles differ by less than this share.
const STEADY: f64 = 0.2;

/// Reason why a profile did not continue.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Stopped {
    /// A signal ended the profile.
    #[error("interrupted; run the same command again to continue")]
    Interrupted,
    /// The machine cannot be set to a point, altered the driver's default, which gives the target,
    /// or receives too much other traffic.
    #[error("{at}: {why}; run the same command again to continue")]
    Machine {
        /// The point.
        at: String,
        /// Reason.
        why: String,
    },
    /// The server can no longer be loaded.
    #[error("{at}: {why}; once the server answers, run the same command again to continue")]
    Server {
        /// The point.
        at: String,
        /// Description of the failure.
        why: String,
    },
    /// The generator is too slow for this load, so it would measure its own latency.
    #[error(
        "{at}: the generator does not hold this rate; give it more --threads, or another machine, \
         or profile lower loads"
    )]
    Generator {
        /// The point.
        at: String,
    },
    /// The requests arrive at an interface whose moderation is not varied.
    #[error("{at}: {why}")]
    Elsewhere {
        /// The point.
        at: String,
        /// Counts and advice.
        why: String,
    },
    /// Results could not be written.
    #[error(transparent)]
    Points(#[from] PointsError),
}

/// Reason why a run of the load failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LoadFailure {
    /// A signal ended the run.
    Interrupted,
    /// The server failed, for example because it does not answer.
    Server(String),
    /// The packets of the requests did not arrive at the governed interfaces.
    Elsewhere(String),
}

/// Reason why a machine is not at a point.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotSet {
    /// A write failed, or another program has changed the setting. Other points are affected, too.
    #[error("{0}")]
    Refused(String),
    /// The machine chose another value, so a measurement would not belong to this point.
    #[error("{0}")]
    Altered(String),
}

impl From<String> for NotSet {
    fn from(why: String) -> Self {
        Self::Refused(why)
    }
}

/// A server under load on a machine that can be set.
pub trait Rig {
    /// Sets the machine to a point. Returns the moderation period in microseconds that it holds;
    /// `None` for the driver's own moderation.
    ///
    /// # Errors
    /// Fails if the machine does not accept or keep these values.
    fn set(&mut self, at: At) -> Result<Option<f64>, NotSet>;

    /// Checks that the machine still holds the point after its loads: a hot processor or its
    /// firmware may have lowered the frequency.
    ///
    /// # Errors
    /// Fails if the machine has left the point.
    fn holds(&mut self, _at: At) -> Result<(), NotSet> {
        Ok(())
    }

    /// Loads the server with this total rate of requests. `number` counts the runs.
    ///
    /// # Errors
    /// Fails if the server cannot be loaded.
    fn load(&mut self, rate_rps: f64, number: u64) -> Result<Run, LoadFailure>;
}

/// Required precision of a point.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Precision {
    /// Wanted half width of the 95 % confidence interval of the 95th percentile, relative to that
    /// percentile.
    pub within: f64,
    /// Most repetitions.
    pub repetitions: usize,
}

/// Outcome of a point.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// Measured.
    Measured(Profiled),
    /// Left out, with the reason: the machine altered it, or the meter gave no reading. A continued
    /// profile tries it again.
    LeftOut(String),
}

/// Measures one point. `number` counts the runs.
pub(super) fn measure(
    rig: &mut dyn Rig,
    grid: &Grid,
    at: At,
    precision: Precision,
    number: &mut u64,
) -> Result<Outcome, Stopped> {
    let named = || grid.name(at);
    // The driver's default gives the target, so a machine that alters it ends the profile.
    let not_set = |why: NotSet| match why {
        NotSet::Altered(why) if matches!(at, At::Point { .. }) => Ok(Outcome::LeftOut(why)),
        NotSet::Altered(why) | NotSet::Refused(why) => Err(Stopped::Machine { at: named(), why }),
    };
    let held_us = match rig.set(at) {
        Ok(held_us) => held_us,
        Err(why) => return not_set(why),
    };
    let mut run = || {
        for _ in 0..MOST_TOO_SLOW {
            *number += 1;
            let run =
                rig.load(grid.loads_rps[at.load()], *number).map_err(|failure| match failure {
                    LoadFailure::Interrupted => Stopped::Interrupted,
                    LoadFailure::Server(why) => Stopped::Server { at: named(), why },
                    LoadFailure::Elsewhere(why) => Stopped::Elsewhere { at: named(), why },
                })?;
            if !run.generator_too_slow {
                return Ok(run);
            }
        }
        Err(Stopped::Generator { at: named() })
    };
    // Until two runs in a row agree, the server may still be settling from the point before.
    let mut runs = vec![run()?];
    let mut steady = false;
    for _ in 0..MOST_UNSTEADY {
        let next = run()?;
        let (a, b) = (runs[runs.len() - 1].percentiles[1], next.percentiles[1]);
        // Equal if both are infinite, which means saturated.
        let agree = a == b || (a - b).abs() < STEADY * a.max(b);
        if agree {
            runs.push(next);
            steady = true;
            break;
        }
        runs = vec![next];
    }
    let repetitions = precision.repetitions.max(FEWEST);
    loop {
        let spread = Spread::of(runs.iter().map(|run| run.percentiles[1]));
        let known = runs.len() >= FEWEST && spread.is_within(precision.within);
        let saturated = runs.len() >= FEWEST && runs.iter().all(|run| !run.sustained);
        if known || saturated || runs.len() >= repetitions {
            break;
        }
        runs.push(run()?);
    }
    if let Err(why) = rig.holds(at) {
        return not_set(why);
    }
    let point = Profiled { steady, ..Profiled::of(at, held_us, &runs) };
    // Reported now; the tables would report it only after hours of load.
    if let Some(why) = point.arrivals_per_request.and_then(too_many_arrivals) {
        return Err(Stopped::Machine { at: named(), why });
    }
    Ok(Outcome::Measured(point))
}

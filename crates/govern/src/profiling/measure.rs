//! One point: the machine is set, the server loaded until it is steady, then until it is known.

use super::grid::{At, Grid};
use super::points::{PointsError, too_many_arrivals};
use super::profiled::Profiled;
use super::run::Run;
use wattline_report::Spread;

/// Repetitions before it is asked whether they agree: two say nothing of a spread.
const FEWEST: usize = 3;
/// Load runs that may go by until two in a row agree.
const MOST_UNSTEADY: usize = 5;
/// Runs in a row in which the generator was too slow before it counts as such: a machine that does
/// something else for a moment does not end a profile of hours.
const MOST_TOO_SLOW: usize = 5;
/// Two runs agree when their 95th percentiles differ by less than this share.
const STEADY: f64 = 0.2;

/// Reason why a profile did not continue.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Stopped {
    /// Somebody wanted it to end.
    #[error("interrupted; run the same command again to continue")]
    Interrupted,
    /// The machine cannot be brought to a point, or made something else of the one that gives the
    /// target.
    #[error("{at}: {why}; run the same command again to continue")]
    Machine {
        /// The point.
        at: String,
        /// Message of the machine.
        why: String,
    },
    /// The server cannot be loaded any more.
    #[error("{at}: {why}; once the server answers, run the same command again to continue")]
    Server {
        /// The point.
        at: String,
        /// Description of the failure.
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
    /// The requests come by an interface whose moderation is not the one that is varied.
    #[error("{at}: {why}")]
    Elsewhere {
        /// The point.
        at: String,
        /// Counts that were found, and advice.
        why: String,
    },
    /// Results could not be written.
    #[error(transparent)]
    Points(#[from] PointsError),
}

/// Reason why a run of the load failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LoadFailure {
    /// Somebody wanted it to end.
    Interrupted,
    /// The server does not answer, say.
    Server(String),
    /// The packets of the requests were not counted at the interfaces that are governed.
    Elsewhere(String),
}

/// Reason why a machine is not at a point.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotSet {
    /// It refuses, or somebody else sets it: that holds for other points, too.
    #[error("{0}")]
    Refused(String),
    /// It made something else of this point. What is measured then is not of the point.
    #[error("{0}")]
    Altered(String),
}

impl From<String> for NotSet {
    fn from(why: String) -> Self {
        Self::Refused(why)
    }
}

/// A server under load, whose machine can be set.
pub trait Rig {
    /// Brings the machine to a point. Gives the moderation period in microseconds that it really
    /// holds there; none for the driver's own choice.
    ///
    /// # Errors
    /// When it cannot be brought there.
    fn set(&mut self, at: At) -> Result<Option<f64>, NotSet>;

    /// Whether the machine still holds the point after its loads: a processor that grew hot, or its
    /// firmware, may have lowered the frequency meanwhile.
    ///
    /// # Errors
    /// When it does not.
    fn holds(&mut self, _at: At) -> Result<(), NotSet> {
        Ok(())
    }

    /// Loads the server with so many requests a second in all. `number` counts the runs.
    ///
    /// # Errors
    /// When it cannot be loaded.
    fn load(&mut self, rate_rps: f64, number: u64) -> Result<Run, LoadFailure>;
}

/// When a point counts as measured.
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
    /// Left out, with the reason: the machine made something else of it, or its meter did not see it.
    /// It is tried again when the profile is continued.
    LeftOut(String),
}

/// Measures one point. `number` counts the loads.
pub(super) fn measure(
    rig: &mut dyn Rig,
    grid: &Grid,
    at: At,
    precision: Precision,
    number: &mut u64,
) -> Result<Outcome, Stopped> {
    let named = || grid.name(at);
    // Without the driver's default there is no target: a machine that alters it ends the profile.
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
    // Until two runs in a row agree, the first of them still shows the point before.
    let mut runs = vec![run()?];
    let mut steady = false;
    for _ in 0..MOST_UNSTEADY {
        let next = run()?;
        let (a, b) = (runs[runs.len() - 1].percentiles[1], next.percentiles[1]);
        // Both infinite: both saturated.
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
    // Said now, not by the tables after hours of load.
    if let Some(why) = point.arrivals_per_request.and_then(too_many_arrivals) {
        return Err(Stopped::Machine { at: named(), why });
    }
    Ok(Outcome::Measured(point))
}

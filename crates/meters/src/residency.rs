//! Time of each CPU in its idle states and at its frequencies
//! (Documentation/admin-guide/pm/cpuidle.rst, Documentation/cpu-freq/cpufreq-stats.rst).

use serde::Serialize;
use std::path::{Path, PathBuf};
use wattline_linux::sysfs::{ReadError, Tree};
use wattline_units::{Hertz, Span, Time};

const CPUS: &str = "/sys/devices/system/cpu";
/// Excess of the times over the interval, from the time between the clock and the last file.
const SLACK: Span = Span::from_millis(50);

/// Time in one state during an interval.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Residency {
    /// Name of the state, such as `C6`, or the frequency in hertz.
    pub state: String,
    /// Share of the interval, 0 to 1.
    pub share: f64,
    /// Number of times that it was entered; zero for frequencies, which the kernel does not count.
    pub entries: u64,
}

/// Reason for a missing residency of a CPU.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ResidencyError {
    /// The first reading.
    #[error("first look, no interval yet")]
    First,
    /// A file cannot be read; the CPU may have gone off line.
    #[error(transparent)]
    Unreadable(#[from] ReadError),
    /// The counters went back, or the states have changed.
    #[error("the counters were reset or the states have changed (CPU hot-plug, other driver)")]
    Reset,
    /// The time in the states exceeds the elapsed time.
    #[error("{:.3} s in its states within {:.3} s", sum.as_seconds(), elapsed.as_seconds())]
    Implausible {
        /// Time in all states.
        sum: Span,
        /// Elapsed time.
        elapsed: Span,
    },
}

/// Idle-state residencies of one CPU.
#[derive(Debug)]
pub struct IdleResidency(Counters);

/// Frequency residencies of one cpufreq policy, over all its CPUs.
#[derive(Debug)]
pub struct FrequencyResidency(Counters);

impl IdleResidency {
    /// Creates a reader of the CPU with this number.
    pub fn new(tree: &Tree, cpu: u32) -> Self {
        Self(Counters::new(tree, format!("{CPUS}/cpu{cpu}/cpuidle"), read_idle))
    }

    /// Returns the shares since the last successful call; the difference to 1 is time awake.
    ///
    /// # Errors
    /// [`ResidencyError`].
    pub fn read(&mut self, now: Time) -> Result<Vec<Residency>, ResidencyError> {
        self.0.read(now)
    }
}

impl FrequencyResidency {
    /// Creates a reader of the policy with this number.
    pub fn new(tree: &Tree, policy: u32) -> Self {
        Self(Counters::new(tree, format!("{CPUS}/cpufreq/policy{policy}/stats"), read_frequencies))
    }

    /// Returns the shares since the last successful call, idle time included (the kernel counts the
    /// set frequency, not the actual one).
    ///
    /// # Errors
    /// [`ResidencyError`].
    pub fn read(&mut self, now: Time) -> Result<Vec<Residency>, ResidencyError> {
        self.0.read(now)
    }
}

/// A state, the time spent in it and the number of entries, since boot.
type Count = (String, Span, u64);

#[derive(Debug)]
struct Counters {
    tree: Tree,
    directory: PathBuf,
    look: fn(&Tree, &Path) -> Result<Vec<Count>, ReadError>,
    last: Option<(Time, Vec<Count>)>,
}

impl Counters {
    fn new(
        tree: &Tree,
        directory: String,
        look: fn(&Tree, &Path) -> Result<Vec<Count>, ReadError>,
    ) -> Self {
        Self { tree: tree.clone(), directory: directory.into(), look, last: None }
    }

    fn read(&mut self, now: Time) -> Result<Vec<Residency>, ResidencyError> {
        let counts = (self.look)(&self.tree, &self.directory)?;
        let Some((then, before)) = self.last.replace((now, counts.clone())) else {
            return Err(ResidencyError::First);
        };
        let elapsed = now.since(then);
        let same_states = counts.len() == before.len()
            && counts
                .iter()
                .zip(&before)
                .all(|(new, old)| new.0 == old.0 && new.1 >= old.1 && new.2 >= old.2);
        if !same_states || elapsed == Span::ZERO {
            return Err(ResidencyError::Reset);
        }
        let spent = |(new, old): (&Count, &Count)| new.1 - old.1;
        let sum = counts.iter().zip(&before).map(spent).fold(Span::ZERO, |sum, part| sum + part);
        if sum > elapsed + SLACK {
            return Err(ResidencyError::Implausible { sum, elapsed });
        }
        // Within the slack the interval is as long as the states' times, so shares stay below 1.
        let whole = elapsed.max(sum).as_seconds();
        Ok(counts
            .iter()
            .zip(&before)
            .map(|(new, old)| Residency {
                state: new.0.clone(),
                share: (new.1 - old.1).as_seconds() / whole,
                entries: new.2 - old.2,
            })
            .collect())
    }
}

fn read_idle(tree: &Tree, directory: &Path) -> Result<Vec<Count>, ReadError> {
    let states = tree.numbered(directory, "state");
    if states.is_empty() {
        return Err(ReadError::Missing(tree.path(directory)));
    }
    states
        .into_iter()
        .map(|(_, state)| {
            let state = directory.join(state);
            let name = tree.text(state.join("name"))?;
            let micros = tree.number(state.join("time"))?;
            Ok((name, Span::from_micros(micros), tree.number(state.join("usage"))?))
        })
        .collect()
}

/// Parses lines of a frequency in kilohertz and a time in units of 10 ms.
fn read_frequencies(tree: &Tree, directory: &Path) -> Result<Vec<Count>, ReadError> {
    let file = directory.join("time_in_state");
    let text = tree.text(&file)?;
    let parse = |line: &str| {
        let (kilohertz, ticks) = line.split_once(' ')?;
        let frequency = Hertz(kilohertz.parse::<u32>().ok()? as f64 * 1e3);
        let time = Span::from_millis(ticks.trim().parse::<u64>().ok()?.checked_mul(10)?);
        Some((format!("{frequency}"), time, 0))
    };
    let parsed: Option<Vec<Count>> = text.lines().map(parse).collect();
    parsed.ok_or_else(|| ReadError::Garbage {
        path: tree.path(&file),
        value: text.chars().take(40).collect(),
        expected: "lines of a frequency in kHz and a time",
    })
}

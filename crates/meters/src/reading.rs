//! The trait of a meter, its description, and its readings.

use serde::{Deserialize, Serialize};
use std::fmt;
use wattline_linux::sysfs::ReadError;
use wattline_units::{Joules, Provenance, Span, Time, Watts};

/// Part of the machine that a meter sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scope {
    /// The whole machine or board, from its supply.
    Platform,
    /// A processor package, or a die of one: cores, caches, uncore.
    Package,
    /// The cores of a package; part of it.
    Cores,
    /// Other parts of a package, such as graphics; part of it.
    Uncore,
    /// Memory; not part of the package, although sysfs lists it below the package.
    Memory,
    /// One device, such as a card.
    Device,
}

/// The fixed properties of a meter.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Description {
    /// Unique on this machine, such as `rapl:package-0/dram`.
    pub id: String,
    /// Kind of meter: `rapl`, `hwmon`, `redfish`.
    pub source: &'static str,
    /// Part of the machine that it sees.
    pub scope: Scope,
    /// The meter that already includes this one's part, or shows the same. The two are never
    /// summed.
    pub part_of: Option<String>,
    /// Provenance of its valid figures.
    pub provenance: Provenance,
    /// Description of the quantity and its accuracy.
    pub note: String,
}

/// A valid answer of a meter.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reading {
    /// Energy since the last valid reading; `None` if the meter shows power only.
    pub energy: Option<Joules>,
    /// Measured time that the reading covers: since the last valid one.
    pub elapsed: Span,
    /// Mean power over that time, or the power that the sensor shows.
    pub power: Watts,
    /// Provenance of the figures.
    pub provenance: Provenance,
}

/// Reason why a meter has no figure now. It is then unavailable, never 0 W.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Rejection {
    /// The counter was read for the first time; the next reading has a figure.
    #[error("first look at the counter, no interval yet")]
    First,
    /// The counter may have wrapped more than once.
    #[error(
        "{:.3} s since the last reading: the counter is certain for {:.3} s only; read it more often",
        elapsed.as_seconds(), longest.as_seconds()
    )]
    TooLong {
        /// Time since the last reading.
        elapsed: Span,
        /// The longest interval whose difference is certain.
        longest: Span,
    },
    /// The counter went back or jumped.
    #[error("the counter was reset or jumped by more than {limit} allows")]
    Reset {
        /// The plausible power.
        limit: Watts,
    },
    /// The counter shows more than its range.
    #[error("the counter shows {value}, above its range {highest}")]
    OutOfRange {
        /// Value read.
        value: u64,
        /// Its highest value.
        highest: u64,
    },
    /// A value that means "no value" for this sensor.
    #[error("{value} is what a sensor reports when it has no value")]
    Sentinel {
        /// Value read.
        value: i64,
    },
    /// A power outside the range of this kind of meter.
    #[error("{power} is not plausible; plausible is {lowest} to {highest}")]
    Implausible {
        /// Power computed or read.
        power: Watts,
        /// The lowest plausible power.
        lowest: Watts,
        /// The highest plausible power.
        highest: Watts,
    },
    /// A counter that stands still while the machine runs.
    #[error("the counter has not moved for {:.3} s", .0.as_seconds())]
    Stuck(Span),
    /// An external meter has stopped sending.
    #[error("no new sample for {:.3} s", .0.as_seconds())]
    Silent(Span),
    /// No time has passed, or no sample has come, since the last reading.
    #[error("nothing new since the last reading")]
    NothingNew,
    /// The sensor's file cannot be read.
    #[error(transparent)]
    Unreadable(#[from] ReadError),
    /// All malformed lines of an external meter since the last reading.
    #[error("{}", .0.join("\n"))]
    BadLines(Vec<String>),
}

impl Rejection {
    /// Returns a short name for metrics and tables.
    pub fn name(&self) -> &'static str {
        match self {
            Self::First => "first",
            Self::TooLong { .. } => "interval too long",
            Self::Reset { .. } => "reset",
            Self::OutOfRange { .. } => "out of range",
            Self::Sentinel { .. } => "sentinel",
            Self::Implausible { .. } => "implausible",
            Self::Stuck(_) => "stuck",
            Self::Silent(_) => "silent",
            Self::NothingNew => "nothing new",
            Self::Unreadable(ReadError::Missing(_)) => "gone",
            Self::Unreadable(ReadError::NoPermission(_)) => "no permission",
            Self::Unreadable(_) => "unreadable",
            Self::BadLines(_) => "bad lines",
        }
    }
}

/// Delay of a change of power in a meter's figures.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Timing {
    /// Time between two figures.
    pub period: Span,
    /// Age of a figure when it comes.
    pub lag: Span,
}

/// A meter of power or energy.
pub trait Meter: Send {
    /// Returns the fixed properties.
    fn description(&self) -> &Description;

    /// Reads it. `now` is the monotonic time of the reading; the nominal period between readings is
    /// never assumed.
    ///
    /// # Errors
    /// [`Rejection`] if there is no trustworthy figure.
    fn read(&mut self, now: Time) -> Result<Reading, Rejection>;

    /// Returns the time between its figures, and their age: zero for meters of this machine.
    fn timing(&self) -> Timing {
        Timing::default()
    }

    /// Returns values that a valid last reading had to leave out, in words; each is returned once.
    fn mistakes(&mut self) -> Vec<String> {
        Vec::new()
    }
}

/// Bounds of the plausible figures of a kind of meter.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Plausible {
    /// Lower figures are a fault.
    pub lowest: Watts,
    /// Higher figures are a fault.
    pub highest: Watts,
}

impl Plausible {
    /// Returns the power, if it is within the bounds.
    ///
    /// # Errors
    /// [`Rejection::Implausible`]; also for not-a-number.
    pub fn check(self, power: Watts) -> Result<Watts, Rejection> {
        if (self.lowest.get()..=self.highest.get()).contains(&power.get()) {
            Ok(power)
        } else {
            let Self { lowest, highest } = self;
            Err(Rejection::Implausible { power, lowest, highest })
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Platform => "platform",
            Self::Package => "package",
            Self::Cores => "cores",
            Self::Uncore => "uncore",
            Self::Memory => "memory",
            Self::Device => "device",
        })
    }
}

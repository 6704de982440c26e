//! Subjects of a measurement.

use super::reading::Reading;
use serde::Serialize;

/// Load offered to a subject.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Load {
    /// No packet.
    None,
    /// An occasional packet on each port, so that nothing can sleep for good (idle+).
    Keepalive,
    /// Packets per second on all ports together, with the lengths of the measurement.
    Rate(f64),
}

/// A device under test with a source of power figures.
pub trait Subject {
    /// Bears a load for the stabilisation interval, then the measurement interval.
    ///
    /// # Errors
    /// Returns the failure in words.
    fn bear(&mut self, load: Load) -> Result<Reading, String>;

    /// Measures power without ports and cards; `None` if unknown.
    ///
    /// # Errors
    /// Returns the failure in words.
    fn base(&mut self) -> Result<Option<Reading>, String>;

    /// Returns the highest load that can be offered, in packets per second.
    fn most_pps(&self) -> f64;

    /// Returns the number of times the throughput may be lowered by a fifth after a later reading
    /// disproves it; zero for a subject without disturbances.
    fn second_chances(&self) -> u32 {
        0
    }

    /// Describes the subject and its measurement.
    fn description(&self) -> Description;
}

/// Description of a subject and its measurement.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Description {
    /// The device.
    pub device: String,
    /// Origin of the power figures.
    pub power_from: String,
    /// Lengths of frames.
    pub frames: String,
    /// Ports with traffic.
    pub ports: u32,
    /// Time before each reading, in seconds.
    pub stabilisation_seconds: f64,
    /// Duration of each reading, in seconds.
    pub measurement_seconds: f64,
    /// Kind of time of both durations: `real` or `model`.
    pub time: String,
    /// Method of averaging readings.
    pub averaging: String,
    /// Notes for the reader.
    pub notes: Vec<String>,
}

//! Every reading of PowerSave's text, judged by all claims of the paper about its controller.
//!
//! Three constants of the paper are lost, and it leaves open when the queue is read. The search
//! space, the checks with their tolerances, and the rule that chooses a default are in
//! `crates/reproduce/published/checks/powersave-readings.toml`, which was written before the
//! search. The example `powersave_search` runs it.

mod judge;
mod measure;
mod references;
mod runs;
mod steady;

pub use judge::{Judged, judge, maximal};
pub use measure::Figures;
pub use references::References;
pub use runs::RunLength;

use crate::error::ReproduceError;
use crate::planned;
use serde::Deserialize;

/// One reading of the text: the lost constants and the choices that its words leave open.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reading {
    /// Time at which the queue is read.
    pub read: String,
    /// Counters that a change resets.
    pub reset: String,
    /// Packets per batch.
    pub batch: u32,
    /// Capacity is added after more consecutive samples above q_h than this.
    pub c_up: u64,
    /// Capacity is removed after more consecutive samples below q_l than this.
    pub c_down: u64,
}

impl Reading {
    /// Returns the policy with this reading.
    pub fn policy(&self) -> String {
        let Self { read, reset, batch, c_up, c_down } = self;
        format!("queue-length:batch={batch},c_down={c_down},c_up={c_up},read={read},reset={reset}")
    }

    /// Returns the shipped reading.
    ///
    /// # Errors
    /// When a default is not a valid value of its parameter.
    pub fn shipped() -> Result<Self, ReproduceError> {
        let default = |name: &str| {
            let parameters = wattline_policies::POLICIES
                .find("queue-length")
                .map_or(&[][..], |it| it.parameters);
            let found = parameters.iter().find(|known| known.name == name);
            found.map(|it| it.default.to_owned()).ok_or_else(|| broken("queue-length", name))
        };
        let count = |name| default(name)?.parse().map_err(|_| broken("queue-length", name));
        Ok(Self {
            read: default("read")?,
            reset: default("reset")?,
            batch: u32::try_from(count("batch")?).map_err(|_| broken("queue-length", "batch"))?,
            c_up: count("c_up")?,
            c_down: count("c_down")?,
        })
    }
}

fn broken(of: &str, what: &str) -> ReproduceError {
    ReproduceError::Model(format!(
        "{of} has no {what} of the kind that the search of readings needs"
    ))
}

/// Values of each part; all combinations are searched.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Space {
    read: Vec<String>,
    reset: Vec<String>,
    batch: Vec<u32>,
    c_up: Vec<u64>,
    c_down: Vec<u64>,
}

/// Returns all readings of the plan, and the shipped one if it is not among them.
///
/// # Errors
/// When the plan cannot be read.
pub fn readings() -> Result<Vec<Reading>, ReproduceError> {
    let plan = planned::powersave_readings()?;
    let space = plan.space.clone().ok_or_else(|| broken("the plan", "space"))?;
    let space: Space = space.try_into().map_err(|error: toml::de::Error| {
        ReproduceError::Model(format!(
            "crates/reproduce/published/checks/powersave-readings.toml: {error}"
        ))
    })?;
    let mut all = Vec::new();
    for read in &space.read {
        for reset in &space.reset {
            for &batch in &space.batch {
                for &c_up in &space.c_up {
                    for &c_down in &space.c_down {
                        let (read, reset) = (read.clone(), reset.clone());
                        all.push(Reading { read, reset, batch, c_up, c_down });
                    }
                }
            }
        }
    }
    let shipped = Reading::shipped()?;
    if !all.contains(&shipped) {
        all.push(shipped);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattline_policies::POLICIES;

    #[test]
    fn whole_space_is_made_of_existing_policies() {
        let all = readings().unwrap();
        assert_eq!(all.len(), 3 * 2 * 5 * 3 * 7);
        assert!(all.contains(&Reading::shipped().unwrap()));
        for reading in &all {
            POLICIES.parse(&reading.policy()).unwrap();
        }
    }
}

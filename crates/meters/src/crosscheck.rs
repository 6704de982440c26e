//! Comparison of two ways to read the same register: RAPL by powercap and by perf.

use crate::perf::agree;
use crate::reading::{Description, Reading, Rejection};
use serde::Serialize;
use std::fmt;
use wattline_units::Watts;

/// Largest relative difference. Beyond it, one of the two ways reads or scales the register
/// wrongly: the registers are the same, and their units come from the same other register.
const SHARE: f64 = 0.02;
/// A register moves about every millisecond, and may have done so between the two reads.
const UPDATES: u32 = 2;

/// Result of one comparison.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// The meter that is summed with others.
    pub meter: String,
    /// The meter that shows the same register again.
    pub again: String,
    /// Power by the first.
    pub power_watts: Watts,
    /// Power by the second.
    pub again_power_watts: Watts,
    /// True if they agree within 2 % and two updates of the register.
    pub agree: bool,
}

/// Returns the pairs of meters of the same register: a perf counter and its powercap zone, by their
/// places among `meters`, powercap first.
pub fn pairs(meters: &[&Description]) -> Vec<(usize, usize)> {
    let again = meters.iter().enumerate().filter(|(_, meter)| meter.source == "perf");
    again
        .filter_map(|(place, meter)| {
            let twin = |other: &&Description| {
                Some(&other.id) == meter.part_of.as_ref() && other.scope == meter.scope
            };
            Some((meters.iter().position(twin)?, place))
        })
        .collect()
}

/// Compares the readings over one interval, if both have figures.
pub fn compare(meters: &[&Description], results: &[Result<Reading, Rejection>]) -> Vec<Comparison> {
    let both = pairs(meters).into_iter().filter_map(|(first, second)| {
        let of = |place: usize| results.get(place)?.as_ref().ok();
        Some((meters[first], of(first)?, meters[second], of(second)?))
    });
    both.map(|(meter, reading, again, once_more)| Comparison {
        meter: meter.id.clone(),
        again: again.id.clone(),
        power_watts: reading.power,
        again_power_watts: once_more.power,
        agree: agree(reading, once_more, SHARE, UPDATES),
    })
    .collect()
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { meter, again, power_watts, again_power_watts, agree } = self;
        let (one, other) = (power_watts.get(), again_power_watts.get());
        if *agree {
            return write!(f, "{again} agrees with {meter}: {other:.3} W and {one:.3} W");
        }
        write!(
            f,
            "{again} DISAGREES with {meter}: {other:.3} W and {one:.3} W; trust neither without an \
             external meter"
        )
    }
}

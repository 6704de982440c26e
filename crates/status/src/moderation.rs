//! The interrupt moderation in force.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Interrupt moderation by queue; absent or empty if it is not governed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Moderation {
    /// Time between interrupts, by queue.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub moderation_seconds: Vec<f64>,
    /// True if the queue is left to the driver, with its original moderation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub moderation_as_found: Vec<bool>,
}

impl Moderation {
    /// Returns the period or the range of periods, and the number of queues left as found; `None`
    /// if moderation is not governed.
    pub fn in_words(&self) -> Option<String> {
        let queues = self.moderation_seconds.len();
        let as_found = |queue: usize| self.moderation_as_found.get(queue) == Some(&true);
        let set = self.moderation_seconds.iter().enumerate();
        let set = set.filter(|(queue, _)| !as_found(*queue)).map(|(_, seconds)| *seconds);
        let (low, high) = set.clone().fold((f64::INFINITY, 0.0), |(low, high), seconds| {
            (f64::min(low, seconds), f64::max(high, seconds))
        });
        // Without the digits that a binary fraction adds.
        let micros = |seconds: f64| (seconds * 1e9).round() / 1e3;
        let (low, high) = (micros(low), micros(high));
        let period = if low == high { format!("{high} us") } else { format!("{low} to {high} us") };
        match (queues, queues - set.count()) {
            (0, _) => None,
            (_, 0) => Some(period),
            (all, found) if all == found => Some("as found".to_owned()),
            (_, found) => Some(format!("{period}, {found} of {queues} queues as found")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(seconds: &[f64], as_found: &[bool]) -> Option<String> {
        let moderation =
            Moderation { moderation_seconds: seconds.into(), moderation_as_found: as_found.into() };
        moderation.in_words()
    }

    #[test]
    fn moderation_is_one_period_a_range_or_as_found() {
        assert_eq!(words(&[1e-3], &[false]).unwrap(), "1000 us");
        assert_eq!(words(&[3e-6, 3e-6], &[false, false]).unwrap(), "3 us");
        assert_eq!(words(&[1e-3, 2e-5, 5e-5], &[]).unwrap(), "20 to 1000 us");
        assert_eq!(words(&[0.0, 0.0], &[]).unwrap(), "0 us");
        assert_eq!(words(&[3e-6, 3e-6], &[true, true]).unwrap(), "as found");
        let mixed = words(&[3e-6, 1e-4], &[true, false]).unwrap();
        assert_eq!(mixed, "100 us, 1 of 2 queues as found");
        assert_eq!((words(&[], &[]), words(&[], &[true])), (None, None));
    }
}

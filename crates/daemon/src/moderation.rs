//! The interrupt moderation in force, as the answer to `stats` has it.

use serde::Serialize;
use serde_json::Value;

/// By queue; empty where it is not governed.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Moderation {
    /// The time between interrupts.
    pub moderation_seconds: Vec<f64>,
    /// Whether it is left to the driver, as the governor found it.
    pub moderation_as_found: Vec<bool>,
}

impl Moderation {
    /// Of `power` in the answer.
    pub fn of(power: &Value) -> Self {
        let list = |key: &str| power[key].as_array().into_iter().flatten();
        Self {
            moderation_seconds: list("moderation_seconds").filter_map(Value::as_f64).collect(),
            moderation_as_found: list("moderation_as_found").filter_map(Value::as_bool).collect(),
        }
    }

    /// One period or their range, and how many queues are as found; `None` where nothing is
    /// governed.
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
    use serde_json::json;

    fn told(seconds: Value, as_found: Value) -> Option<String> {
        let power = json!({"moderation_seconds": seconds, "moderation_as_found": as_found});
        Moderation::of(&power).in_words()
    }

    #[test]
    fn it_is_one_period_a_range_or_the_drivers() {
        assert_eq!(told(json!([1e-3]), json!([false])).unwrap(), "1000 us");
        assert_eq!(told(json!([3e-6, 3e-6]), json!([false, false])).unwrap(), "3 us");
        assert_eq!(told(json!([1e-3, 2e-5, 5e-5]), json!([])).unwrap(), "20 to 1000 us");
        assert_eq!(told(json!([0.0, 0.0]), json!([])).unwrap(), "0 us");
        assert_eq!(told(json!([3e-6, 3e-6]), json!([true, true])).unwrap(), "as found");
        assert_eq!(
            told(json!([3e-6, 1e-4]), json!([true, false])).unwrap(),
            "100 us, 1 of 2 queues as found"
        );
        // Neither a router's answer nor a strange one has any.
        for (seconds, as_found) in [(json!([]), json!([])), (json!(null), json!([true]))] {
            assert_eq!(told(seconds, as_found), None);
        }
        assert_eq!(Moderation::of(&json!("x")).in_words(), None);
    }
}

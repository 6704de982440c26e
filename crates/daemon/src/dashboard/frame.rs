//! What the page is told every second, from two answers to `stats`.

use crate::rates::{Rates, Sample};
use serde_json::{Map, Value, json};
use std::time::{SystemTime, UNIX_EPOCH};

/// Makes frames from answers, one after the other.
pub struct Frames {
    name: String,
    before: Option<Sample>,
}

/// A frame.
pub struct Frame {
    /// What the charts keep, JSON; nothing where no rate can be told.
    pub point: Option<String>,
    /// What is shown now, JSON.
    pub whole: String,
}

/// What of `power` is shown, beside what [`Rates`] has.
const POWER: [&str; 11] = [
    "platform",
    "power_by_component_watts",
    "power_rest_watts",
    "energy_joules",
    "energy_unmetered_seconds",
    "scale",
    "decisions",
    "transitions",
    "steps_failed",
    "knobs",
    "last_changes",
];
/// What of `govern` is shown.
const GOVERN: [&str; 7] =
    ["profile", "rule", "latency_target_seconds", "latency", "rivals", "restarts", "left_out"];

impl Frames {
    /// Of a daemon of this name.
    pub fn new(name: &str) -> Self {
        Self { name: name.to_owned(), before: None }
    }

    /// The next one; nothing was answered where there are no `stats`.
    pub fn next(&mut self, stats: Option<&Value>) -> Frame {
        let time =
            SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64());
        let Some(stats) = stats else {
            let whole = json!({ "time": time, "name": self.name, "silent": true });
            return Frame { point: None, whole: whole.to_string() };
        };
        let now = Sample::of(stats);
        let rates = self.before.as_ref().map(|before| Rates::between(before, &now));
        let point = rates.as_ref().map(|rates| point(rates, stats, time));
        let whole = json!({
            "time": time,
            "name": self.name,
            "uptime_seconds": stats["uptime_seconds"],
            "rates": rates,
            "point": point,
            "power": part(&stats["power"], &POWER),
            "govern": part(&stats["govern"], &GOVERN),
        });
        self.before = Some(now);
        Frame { point: point.map(|point| point.to_string()), whole: whole.to_string() }
    }
}

fn part(of: &Value, keys: &[&str]) -> Option<Map<String, Value>> {
    let of = of.as_object()?;
    let kept = keys.iter().filter_map(|key| Some(((*key).to_owned(), of.get(*key)?.clone())));
    Some(kept.collect())
}

/// What the charts draw: rates in packets per second, powers in watts, latencies in seconds,
/// frequencies in hertz.
fn point(rates: &Rates, stats: &Value, time: f64) -> Value {
    let power = rates.power.as_ref();
    let hertz = power.map(|power| power.frequency_hertz.as_slice()).unwrap_or_default();
    let frequency = (!hertz.is_empty()).then(|| {
        let of = |pick: fn(f64, f64) -> f64| hertz.iter().copied().reduce(pick);
        let mean = hertz.iter().sum::<f64>() / hertz.len() as f64;
        json!([of(f64::min), mean, of(f64::max)])
    });
    let latency = |name: &str| {
        let key = format!("latency_{name}_seconds");
        stats["power"][key].as_f64()
    };
    let drops: Map<String, Value> =
        rates.drops.iter().map(|drop| (drop.reason.clone(), json!(drop.rate_pps))).collect();
    let active = rates.workers.iter().filter(|worker| worker.active).count();
    let busy: f64 = rates.workers.iter().map(|worker| worker.busy_ratio).sum();
    let cores = (!rates.workers.is_empty()).then_some(active as u64);
    json!({
        "t": time,
        "in": rates.offered(),
        "out": rates.forwarded(),
        "drop": rates.dropped(),
        "drops": drops,
        "watts": power.and_then(|power| power.power_watts),
        "parts": stats["power"]["power_by_component_watts"],
        "rest": stats["power"]["power_rest_watts"],
        "p50": latency("p50"),
        "p95": latency("p95"),
        "p99": latency("p99"),
        "hertz": frequency,
        "active": power.and_then(|power| power.cores_active).or(cores),
        "busy": cores.map(|_| busy),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rates::tests::stats;

    fn read(frame: &Frame) -> Value {
        serde_json::from_str(&frame.whole).unwrap()
    }

    #[test]
    fn two_answers_make_rates_and_none_is_said() {
        let mut frames = Frames::new("edge");
        let first = frames.next(Some(&stats(10.0, 1_000)));
        assert!(first.point.is_none(), "one look has no rate");
        let second = frames.next(Some(&stats(12.0, 5_000)));
        let point: Value = serde_json::from_str(second.point.as_ref().unwrap()).unwrap();
        assert_eq!(
            (&point["in"], &point["out"], &point["drop"]),
            (&json!(2e3), &json!(1e3), &json!(200.0))
        );
        assert_eq!(point["hertz"], json!([1.6e9, 2.45e9, 3.3e9]));
        assert_eq!((&point["watts"], &point["p99"]), (&json!(131.5), &json!(5e-5)));
        assert_eq!(point["p95"], Value::Null, "what nobody tells is not 0");
        assert_eq!((&point["active"], &point["drops"]["no-route"]), (&json!(1), &json!(200.0)));
        let whole = read(&second);
        assert_eq!((&whole["name"], &whole["point"]), (&json!("edge"), &point));
        assert_eq!(read(&frames.next(None))["silent"], json!(true));
    }

    #[test]
    fn without_a_governor_and_from_strange_answers_there_is_no_power() {
        for strange in [json!(null), json!([]), json!({"power": 3, "govern": "x", "workers": {}})] {
            let mut frames = Frames::new("x");
            frames.next(Some(&strange));
            let frame = frames.next(Some(&strange));
            let whole = read(&frame);
            assert_eq!((&whole["power"], &whole["govern"]), (&Value::Null, &Value::Null));
            assert_eq!(
                (&whole["point"]["watts"], &whole["point"]["active"]),
                (&Value::Null, &Value::Null)
            );
        }
    }
}

//! The data that the dashboard receives every second, computed from two answers to `stats`.

use crate::rates::{Rates, Sample};
use serde_json::{Map, Value, json};
use std::time::{SystemTime, UNIX_EPOCH};

/// Computes a frame from each answer.
pub struct Frames {
    name: String,
    before: Option<Before>,
}

/// The last answer that held counters.
struct Before {
    sample: Sample,
    uptime: Value,
    stage: Value,
    rates: Option<Rates>,
}

/// A frame.
pub struct Frame {
    /// The point that is added to the charts, as JSON; `None` if no rate can be computed.
    pub point: Option<String>,
    /// The present values, as JSON.
    pub whole: String,
}

/// Keys of `power` that are shown, beside those of [`Rates`].
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
/// Keys of `govern` that are shown.
const GOVERN: [&str; 7] =
    ["profile", "rule", "latency_target_seconds", "latency", "rivals", "restarts", "left_out"];

/// Keys of `stages` that are shown; only a demonstration has stages.
const STAGES: [&str; 6] = ["number", "of", "name", "meanwhile", "progress_ratio", "done"];

impl Frames {
    /// Frames for the daemon with this name.
    pub fn new(name: &str) -> Self {
        Self { name: name.to_owned(), before: None }
    }

    /// The next frame; `stats` is `None` if the daemon did not answer.
    ///
    /// A demonstration has `stages`, each with its own counters, and may update its figures less
    /// often than it is asked. An answer with the same uptime repeats the last one and adds no
    /// point.
    pub fn next(&mut self, stats: Option<&Value>) -> Frame {
        let time =
            SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64());
        let Some(stats) = stats else {
            let whole = json!({ "time": time, "name": self.name, "silent": true });
            return Frame { point: None, whole: whole.to_string() };
        };
        let sample = Sample::of(stats);
        let (uptime, stage) = (&stats["uptime_seconds"], &stats["stages"]["number"]);
        let told = stats["stages"].is_null() || stats["ports"].is_array();
        let before = self.before.take().filter(|before| told && before.stage == *stage);
        let old = before.as_ref().is_some_and(|it| !stage.is_null() && it.uptime == *uptime);
        let rates = match &before {
            Some(before) if old => before.rates.clone(),
            before => before.as_ref().map(|it| Rates::between(&it.sample, &sample)),
        };
        let point = rates.as_ref().map(|rates| point(rates, stats, time));
        let whole = json!({
            "time": time,
            "name": self.name,
            "uptime_seconds": stats["uptime_seconds"],
            "rates": rates,
            "point": point,
            "power": part(&stats["power"], &POWER),
            "govern": part(&stats["govern"], &GOVERN),
            "stages": part(&stats["stages"], &STAGES),
        });
        let (uptime, stage) = (uptime.clone(), stage.clone());
        self.before = told.then_some(Before { sample, uptime, stage, rates });
        let point = point.filter(|_| !old);
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
        "stage": stats["stages"]["number"],
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

    /// As a demonstration says it, whose stages count for themselves.
    #[test]
    fn stages_do_not_mix_and_old_figures_make_no_point() {
        let at = |stage: u64, seconds: f64, packets: u64| {
            let mut told = stats(seconds, packets);
            told["stages"] = json!({ "number": stage, "of": 2, "name": "poll", "other": 1 });
            told
        };
        let mut frames = Frames::new("demo");
        frames.next(Some(&at(1, 10.0, 1_000)));
        let first = frames.next(Some(&at(1, 12.0, 5_000)));
        assert!(first.point.as_ref().is_some_and(|point| point.contains("\"stage\":1")));
        let again = frames.next(Some(&at(1, 12.0, 5_000)));
        assert!(again.point.is_none(), "nothing new was told");
        assert_eq!(read(&again)["rates"], read(&first)["rates"]);
        assert_eq!(read(&again)["stages"], json!({ "number": 1, "of": 2, "name": "poll" }));

        let between = json!({ "uptime_seconds": 14.0, "stages": { "number": 1 } });
        for _ in 0..2 {
            let frame = frames.next(Some(&between));
            assert_eq!((read(&frame)["rates"].clone(), frame.point), (Value::Null, None));
        }
        assert!(frames.next(Some(&at(2, 15.0, 9_000))).point.is_none(), "one look has no rate");
        let next = read(&frames.next(Some(&at(2, 16.0, 9_100))));
        assert_eq!(next["point"]["in"], json!(100.0));
        let other = read(&frames.next(Some(&at(3, 17.0, 9_900))));
        assert_eq!(other["rates"], Value::Null, "another stage counts from zero");
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

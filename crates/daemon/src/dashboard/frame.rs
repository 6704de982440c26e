//! The data that the dashboard receives every second, computed from two answers to `stats`.

use serde::Serialize;
use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};
use wattline_status::{GovernStatus, Power, Rates, Sample, Stages, Stats};

/// Computes a frame from each answer.
pub struct Frames {
    name: String,
    before: Option<Before>,
}

/// The last answer that held counters.
struct Before {
    sample: Sample,
    uptime_seconds: f64,
    stage: Option<usize>,
    rates: Option<Rates>,
}

/// A frame.
pub struct Frame {
    /// Point to add to the charts, as JSON; `None` if no rate can be computed.
    pub point: Option<String>,
    /// The present values, as JSON.
    pub whole: String,
}

/// The present values. The page reads them by these names.
#[derive(Default, Serialize)]
struct Whole<'a> {
    time: f64,
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    silent: Option<bool>,
    /// Build of the daemon, in words.
    build: Option<String>,
    uptime_seconds: Option<f64>,
    rates: Option<&'a Rates>,
    point: Option<&'a Point<'a>>,
    power: Option<&'a Power>,
    govern: Option<&'a GovernStatus>,
    stages: Option<&'a Stages>,
}

/// A point of the charts: rates in packets per second, powers in watts, latencies in seconds,
/// frequencies in hertz.
#[derive(Serialize)]
struct Point<'a> {
    t: f64,
    stage: Option<usize>,
    r#in: f64,
    out: f64,
    drop: f64,
    drops: BTreeMap<&'a str, f64>,
    watts: Option<f64>,
    parts: Option<&'a BTreeMap<String, f64>>,
    rest: Option<f64>,
    p50: Option<f64>,
    p95: Option<f64>,
    p99: Option<f64>,
    /// Lowest, mean and highest frequency.
    hertz: Option<[f64; 3]>,
    active: Option<usize>,
    busy: Option<f64>,
}

impl Frames {
    /// Creates frames for the daemon with this name.
    pub fn new(name: &str) -> Self {
        Self { name: name.to_owned(), before: None }
    }

    /// Returns the next frame; `stats` is `None` if the daemon did not answer.
    ///
    /// A demonstration has `stages`, each with its own counters, and may update its figures less
    /// often than it is queried. An answer with the same uptime repeats the last one and adds no
    /// point.
    pub fn next(&mut self, stats: Option<&Stats>) -> Frame {
        let time =
            SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64());
        let whole = Whole { time, name: &self.name, ..Whole::default() };
        let Some(stats) = stats else {
            return Frame { point: None, whole: json(&Whole { silent: Some(true), ..whole }) };
        };
        let sample = Sample::of(stats);
        let (stages, govern, has_figures) = match stats {
            Stats::Router(_) => (None, None, true),
            Stats::Governor(stats) => (None, Some(&stats.govern), true),
            Stats::Demonstration(stats) => (stats.stages.as_ref(), None, stats.ports.is_some()),
        };
        let uptime_seconds = stats.uptime_seconds();
        let stage = stages.map(|stages| stages.number);
        let before = self.before.take().filter(|before| has_figures && before.stage == stage);
        let repeats = |it: &Before| stage.is_some() && it.uptime_seconds == uptime_seconds;
        let old = before.as_ref().is_some_and(repeats);
        let rates = match &before {
            Some(before) if old => before.rates.clone(),
            before => before.as_ref().map(|it| Rates::between(&it.sample, &sample)),
        };
        let point = rates.as_ref().map(|rates| point(rates, stats.power(), stage, time));
        let frame = Frame {
            point: point.as_ref().filter(|_| !old).map(json),
            whole: json(&Whole {
                build: Some(stats.build().to_string()),
                uptime_seconds: Some(uptime_seconds),
                rates: rates.as_ref(),
                point: point.as_ref(),
                power: stats.power(),
                govern,
                stages,
                ..whole
            }),
        };
        self.before = has_figures.then_some(Before { sample, uptime_seconds, stage, rates });
        frame
    }
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

fn point<'a>(
    rates: &'a Rates,
    power: Option<&'a Power>,
    stage: Option<usize>,
    t: f64,
) -> Point<'a> {
    let hertz = power.map(|power| power.frequency_hertz.as_slice()).unwrap_or_default();
    let extreme = |pick: fn(f64, f64) -> f64| hertz.iter().copied().reduce(pick);
    let mean = hertz.iter().sum::<f64>() / hertz.len().max(1) as f64;
    let frequency = extreme(f64::min).zip(extreme(f64::max)).map(|(low, high)| [low, mean, high]);
    let latency = power.map(|power| power.latency).unwrap_or_default();
    let active = rates.workers.iter().filter(|worker| worker.active).count();
    let busy: f64 = rates.workers.iter().map(|worker| worker.busy_ratio).sum();
    let has_workers = !rates.workers.is_empty();
    Point {
        t,
        stage,
        r#in: rates.offered(),
        out: rates.forwarded(),
        drop: rates.dropped(),
        drops: rates.drops.iter().map(|drop| (&*drop.reason, drop.rate_pps)).collect(),
        watts: power.and_then(|power| power.power_watts),
        parts: power.map(|power| &power.power_by_component_watts),
        rest: power.and_then(|power| power.power_rest_watts),
        p50: latency.latency_p50_seconds,
        p95: latency.latency_p95_seconds,
        p99: latency.latency_p99_seconds,
        hertz: frequency,
        active: power.map(|power| power.cores_active).or(has_workers.then_some(active)),
        busy: has_workers.then_some(busy),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};
    use wattline_status::{DemonstrationStats, LinkStats, example};

    fn read(frame: &Frame) -> Value {
        serde_json::from_str(&frame.whole).unwrap()
    }

    #[test]
    fn two_answers_make_rates_and_a_missing_one_is_reported() {
        let mut frames = Frames::new("edge");
        let first = frames.next(Some(&example(10.0, 1_000)));
        assert!(first.point.is_none(), "one sample has no rate");
        let second = frames.next(Some(&example(12.0, 5_000)));
        let point: Value = serde_json::from_str(second.point.as_ref().unwrap()).unwrap();
        assert_eq!(
            (&point["in"], &point["out"], &point["drop"]),
            (&json!(2e3), &json!(1e3), &json!(200.0))
        );
        assert_eq!(point["hertz"], json!([1.6e9, 2.45e9, 3.3e9]));
        assert_eq!((&point["watts"], &point["p99"]), (&json!(131.5), &json!(5e-5)));
        assert_eq!(point["p95"], Value::Null, "an unknown latency is not 0");
        assert_eq!((&point["active"], &point["drops"]["no-route"]), (&json!(1), &json!(200.0)));
        let whole = read(&second);
        assert_eq!((&whole["name"], &whole["point"]), (&json!("edge"), &point));
        assert_eq!(read(&frames.next(None))["silent"], json!(true));
    }

    fn at(number: usize, uptime_seconds: f64, packets: Option<u64>) -> Stats {
        let link = |received_packets| LinkStats { received_packets, ..LinkStats::default() };
        Stats::Demonstration(Box::new(DemonstrationStats {
            uptime_seconds,
            ports: packets.map(|packets| vec![link(packets)]),
            stages: Some(Stages { number, of: 2, name: "poll".to_owned(), ..Stages::default() }),
            ..DemonstrationStats::default()
        }))
    }

    /// As in a demonstration, whose stages have separate counters.
    #[test]
    fn stages_do_not_mix_and_old_figures_make_no_point() {
        let mut frames = Frames::new("demo");
        frames.next(Some(&at(1, 10.0, Some(1_000))));
        let first = frames.next(Some(&at(1, 12.0, Some(5_000))));
        assert!(first.point.as_ref().is_some_and(|point| point.contains("\"stage\":1")));
        let again = frames.next(Some(&at(1, 12.0, Some(5_000))));
        assert!(again.point.is_none(), "nothing new was reported");
        assert_eq!(read(&again)["rates"], read(&first)["rates"]);
        let stages = &read(&again)["stages"];
        assert_eq!((&stages["number"], &stages["name"]), (&json!(1), &json!("poll")));

        for _ in 0..2 {
            let frame = frames.next(Some(&at(1, 14.0, None)));
            assert_eq!((read(&frame)["rates"].clone(), frame.point), (Value::Null, None));
        }
        assert!(frames.next(Some(&at(2, 15.0, Some(9_000)))).point.is_none(), "no rate yet");
        let next = read(&frames.next(Some(&at(2, 16.0, Some(9_100)))));
        assert_eq!(next["point"]["in"], json!(100.0));
        let other = read(&frames.next(Some(&at(3, 17.0, Some(9_900)))));
        assert_eq!(other["rates"], Value::Null, "another stage counts from zero");
    }

    #[test]
    fn waiting_governor_has_no_power_and_no_cores() {
        let waits = Stats::Governor(Box::default());
        let mut frames = Frames::new("x");
        frames.next(Some(&waits));
        let whole = read(&frames.next(Some(&waits)));
        assert_eq!(whole["power"], Value::Null);
        let point = &whole["point"];
        assert_eq!((&point["watts"], &point["active"]), (&Value::Null, &Value::Null));
    }
}

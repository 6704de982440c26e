//! Status of a running demonstration for a dashboard: the words of a router's answer to `stats`,
//! and the running stage.

use serde::Serialize;
use serde_json::{Value, json};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Destination of a demonstration's figures. By default nothing is kept.
#[derive(Debug, Clone, Default)]
pub struct Watch(Option<Arc<Mutex<State>>>);

/// The outcome of a stage, in units of its own clock: model time on emulated cores.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Done {
    /// As it was begun.
    pub stage: String,
    /// Packets that arrived.
    pub offered_packets: u64,
    /// Packets that were not forwarded.
    pub lost_packets: u64,
    /// Mean power, where something can tell.
    pub power_watts: Option<f64>,
    /// Source of the power.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// 99th percentile of latency.
    pub latency_p99_seconds: Option<f64>,
    /// Processor time of the whole machine per forwarded packet, where it was measured.
    pub cpu_seconds_per_packet: Option<f64>,
}

#[derive(Debug)]
struct State {
    began: Instant,
    stages: usize,
    number: usize,
    name: String,
    /// Work other than forwarding packets, if any.
    meanwhile: Option<&'static str>,
    progress_ratio: Option<f64>,
    /// The newest figures; null between stages.
    figures: Value,
    done: Vec<Done>,
}

impl Watch {
    /// A watched demonstration of so many stages.
    pub fn new(stages: usize) -> Self {
        Self(Some(Arc::new(Mutex::new(State {
            began: Instant::now(),
            stages,
            number: 0,
            name: String::new(),
            meanwhile: None,
            progress_ratio: None,
            figures: Value::Null,
            done: Vec::new(),
        }))))
    }

    /// Whether somebody may watch: gathering figures for nobody is left.
    pub fn is_watched(&self) -> bool {
        self.0.is_some()
    }

    /// The next stage begins.
    pub fn begin(&self, name: &str) {
        let Some(mut state) = self.state() else { return };
        state.number += 1;
        name.clone_into(&mut state.name);
        state.meanwhile = None;
        state.progress_ratio = None;
        state.figures = Value::Null;
    }

    /// In the same stage something else is done than to forward packets that are shown.
    pub fn meanwhile(&self, what: &'static str) {
        let Some(mut state) = self.state() else { return };
        state.meanwhile = Some(what);
        state.progress_ratio = None;
        state.figures = Value::Null;
    }

    /// The newest figures, all since the stage began, and the share of it that is over; `figures` is
    /// called only when somebody watches.
    pub fn tell(&self, progress_ratio: f64, figures: impl FnOnce() -> Value) {
        if !self.is_watched() {
            return;
        }
        let mut figures = figures();
        let Some(mut state) = self.state() else { return };
        figures["uptime_seconds"] = json!(state.began.elapsed().as_secs_f64());
        state.figures = figures;
        state.meanwhile = None;
        state.progress_ratio = Some(progress_ratio.clamp(0.0, 1.0));
    }

    /// A result of the stage.
    pub fn done(&self, done: Done) {
        if let Some(mut state) = self.state() {
            state.done.push(done);
        }
    }

    /// Returns the current figures, as an answer to `stats` with `stages` beside; nothing if nobody
    /// watches. Figures have the time at which they were published.
    pub fn stats(&self) -> Option<Value> {
        let state = self.state()?;
        let mut stats = match &state.figures {
            Value::Null => json!({ "uptime_seconds": state.began.elapsed().as_secs_f64() }),
            figures => figures.clone(),
        };
        stats["stages"] = json!({
            "number": state.number,
            "of": state.stages,
            "name": state.name,
            "meanwhile": state.meanwhile,
            "progress_ratio": state.progress_ratio,
            "done": state.done,
        });
        Some(stats)
    }

    fn state(&self) -> Option<MutexGuard<'_, State>> {
        let state = self.0.as_ref()?;
        Some(state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watcher_is_told_the_stage_its_figures_and_what_came_of_those_before() {
        let watch = Watch::new(2);
        watch.begin("a day under poll");
        assert_eq!(watch.stats().unwrap()["ports"], Value::Null, "nothing is told yet");
        watch.tell(0.25, || json!({ "ports": [{ "received_packets": 7 }] }));
        let first = watch.stats().unwrap();
        assert_eq!(first["ports"][0]["received_packets"], 7);
        assert_eq!(first["uptime_seconds"], watch.stats().unwrap()["uptime_seconds"]);
        let stages = &first["stages"];
        assert_eq!((&stages["number"], &stages["of"]), (&json!(1), &json!(2)));
        assert_eq!(
            (&stages["name"], &stages["progress_ratio"]),
            (&json!("a day under poll"), &json!(0.25))
        );

        watch.meanwhile("the simulator");
        let between = watch.stats().unwrap();
        assert_eq!(
            (&between["ports"], &between["stages"]["meanwhile"]),
            (&Value::Null, &json!("the simulator"))
        );
        assert!(between["uptime_seconds"].as_f64() >= first["uptime_seconds"].as_f64());
        watch.done(Done {
            stage: "a day under poll".to_owned(),
            lost_packets: 3,
            ..Done::default()
        });
        watch.begin("kernel");
        let second = watch.stats().unwrap();
        let stages = &second["stages"];
        assert_eq!((&stages["number"], &stages["meanwhile"]), (&json!(2), &Value::Null));
        assert_eq!(stages["done"][0]["lost_packets"], 3);
        assert_eq!(stages["done"][0]["power_watts"], Value::Null, "which is not 0 W");
    }

    #[test]
    fn for_nobody_nothing_is_gathered() {
        let watch = Watch::default();
        watch.begin("x");
        watch.tell(0.5, || unreachable!("nobody watches"));
        assert!(watch.stats().is_none() && !watch.is_watched());
    }
}

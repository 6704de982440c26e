//! Status of a running demonstration for a dashboard, in the form of a router's answer to `stats`,
//! with the running stage.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use wattline_status::{DemonstrationStats, Stages, Stats};

pub use wattline_status::StageResult as Done;

/// Destination of a demonstration's figures. By default they are discarded.
#[derive(Debug, Clone, Default)]
pub struct Watch(Option<Arc<Mutex<State>>>);

#[derive(Debug)]
struct State {
    began: Instant,
    stages: usize,
    number: usize,
    name: String,
    /// Work other than forwarding packets, if any.
    meanwhile: Option<&'static str>,
    progress_ratio: Option<f64>,
    /// Latest figures; `None` between stages.
    figures: Option<DemonstrationStats>,
    done: Vec<Done>,
}

impl Watch {
    /// Creates the status of a watched demonstration with this many stages.
    pub fn new(stages: usize) -> Self {
        Self(Some(Arc::new(Mutex::new(State {
            began: Instant::now(),
            stages,
            number: 0,
            name: String::new(),
            meanwhile: None,
            progress_ratio: None,
            figures: None,
            done: Vec::new(),
        }))))
    }

    /// Returns true if figures may be read; otherwise they need not be gathered.
    pub fn is_watched(&self) -> bool {
        self.0.is_some()
    }

    /// Begins the next stage.
    pub fn begin(&self, name: &str) {
        let Some(mut state) = self.state() else { return };
        state.number += 1;
        name.clone_into(&mut state.name);
        state.meanwhile = None;
        state.progress_ratio = None;
        state.figures = None;
    }

    /// Reports work in the same stage other than forwarding packets.
    pub fn meanwhile(&self, work: &'static str) {
        let Some(mut state) = self.state() else { return };
        state.meanwhile = Some(work);
        state.progress_ratio = None;
        state.figures = None;
    }

    /// Publishes the latest figures, counted from the start of the stage, and the completed share
    /// of the stage. `figures` is called only if figures may be read.
    pub fn publish(&self, progress_ratio: f64, figures: impl FnOnce() -> DemonstrationStats) {
        if !self.is_watched() {
            return;
        }
        let mut figures = figures();
        let Some(mut state) = self.state() else { return };
        figures.uptime_seconds = state.began.elapsed().as_secs_f64();
        state.figures = Some(figures);
        state.meanwhile = None;
        state.progress_ratio = Some(progress_ratio.clamp(0.0, 1.0));
    }

    /// Adds a result of the stage.
    pub fn done(&self, done: Done) {
        if let Some(mut state) = self.state() {
            state.done.push(done);
        }
    }

    /// Returns the current figures as an answer to `stats`, with `stages`; `None` if not watched.
    /// Figures have the time at which they were published.
    pub fn stats(&self) -> Option<Stats> {
        let state = self.state()?;
        let uptime_seconds = state.began.elapsed().as_secs_f64();
        let between = || DemonstrationStats { uptime_seconds, ..DemonstrationStats::default() };
        let mut stats = state.figures.clone().unwrap_or_else(between);
        stats.stages = Some(Stages {
            number: state.number,
            of: state.stages,
            name: state.name.clone(),
            meanwhile: state.meanwhile.map(str::to_owned),
            progress_ratio: state.progress_ratio,
            done: state.done.clone(),
        });
        Some(Stats::Demonstration(Box::new(stats)))
    }

    fn state(&self) -> Option<MutexGuard<'_, State>> {
        let state = self.0.as_ref()?;
        Some(state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattline_status::LinkStats;

    #[test]
    fn watcher_sees_the_stage_its_figures_and_earlier_results() {
        let watch = Watch::new(2);
        let read = || match watch.stats().unwrap() {
            Stats::Demonstration(stats) => *stats,
            other => panic!("{other:?}"),
        };
        watch.begin("a day under poll");
        assert_eq!(read().ports, None, "nothing is reported yet");
        watch.publish(0.25, || {
            let link = LinkStats { received_packets: 7, ..LinkStats::default() };
            DemonstrationStats { ports: Some(vec![link]), ..DemonstrationStats::default() }
        });
        let first = read();
        assert_eq!(first.ports.as_ref().unwrap()[0].received_packets, 7);
        assert_eq!(first.uptime_seconds, read().uptime_seconds);
        let stages = first.stages.unwrap();
        assert_eq!((stages.number, stages.of), (1, 2));
        assert_eq!((&*stages.name, stages.progress_ratio), ("a day under poll", Some(0.25)));

        watch.meanwhile("the simulator");
        let between = read();
        assert_eq!(between.ports, None);
        assert_eq!(between.stages.unwrap().meanwhile.as_deref(), Some("the simulator"));
        assert!(between.uptime_seconds >= first.uptime_seconds);
        watch.done(Done {
            stage: "a day under poll".to_owned(),
            lost_packets: 3,
            ..Done::default()
        });
        watch.begin("kernel");
        let stages = read().stages.unwrap();
        assert_eq!((stages.number, &stages.meanwhile), (2, &None));
        assert_eq!((stages.done[0].lost_packets, stages.done[0].power_watts), (3, None));
    }

    #[test]
    fn nothing_is_gathered_without_a_watcher() {
        let watch = Watch::default();
        watch.begin("x");
        watch.publish(0.5, || unreachable!("nothing watches"));
        assert!(watch.stats().is_none() && !watch.is_watched());
    }
}

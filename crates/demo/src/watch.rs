//! Status of a running demonstration for a dashboard: the words of a router's answer to `stats`,
//! and the running stage.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use wattline_status::{DemonstrationStats, Stages, Stats};

pub use wattline_status::StageResult as Done;

/// Destination of a demonstration's figures. By default nothing is kept.
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
    /// The newest figures; none between stages.
    figures: Option<DemonstrationStats>,
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
            figures: None,
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
        state.figures = None;
    }

    /// In the same stage something else is done than to forward packets that are shown.
    pub fn meanwhile(&self, what: &'static str) {
        let Some(mut state) = self.state() else { return };
        state.meanwhile = Some(what);
        state.progress_ratio = None;
        state.figures = None;
    }

    /// The newest figures, all since the stage began, and the share of it that is over; `figures` is
    /// called only when somebody watches.
    pub fn tell(&self, progress_ratio: f64, figures: impl FnOnce() -> DemonstrationStats) {
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

    /// A result of the stage.
    pub fn done(&self, done: Done) {
        if let Some(mut state) = self.state() {
            state.done.push(done);
        }
    }

    /// Returns the current figures, as an answer to `stats` with `stages` beside; nothing if nobody
    /// watches. Figures have the time at which they were published.
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
        let look = || match watch.stats().unwrap() {
            Stats::Demonstration(stats) => *stats,
            other => panic!("{other:?}"),
        };
        watch.begin("a day under poll");
        assert_eq!(look().ports, None, "nothing is reported yet");
        watch.tell(0.25, || {
            let link = LinkStats { received_packets: 7, ..LinkStats::default() };
            DemonstrationStats { ports: Some(vec![link]), ..DemonstrationStats::default() }
        });
        let first = look();
        assert_eq!(first.ports.as_ref().unwrap()[0].received_packets, 7);
        assert_eq!(first.uptime_seconds, look().uptime_seconds);
        let stages = first.stages.unwrap();
        assert_eq!((stages.number, stages.of), (1, 2));
        assert_eq!((&*stages.name, stages.progress_ratio), ("a day under poll", Some(0.25)));

        watch.meanwhile("the simulator");
        let between = look();
        assert_eq!(between.ports, None);
        assert_eq!(between.stages.unwrap().meanwhile.as_deref(), Some("the simulator"));
        assert!(between.uptime_seconds >= first.uptime_seconds);
        watch.done(Done {
            stage: "a day under poll".to_owned(),
            lost_packets: 3,
            ..Done::default()
        });
        watch.begin("kernel");
        let stages = look().stages.unwrap();
        assert_eq!((stages.number, &stages.meanwhile), (2, &None));
        assert_eq!((stages.done[0].lost_packets, stages.done[0].power_watts), (3, None));
    }

    #[test]
    fn for_nobody_nothing_is_gathered() {
        let watch = Watch::default();
        watch.begin("x");
        watch.tell(0.5, || unreachable!("nobody watches"));
        assert!(watch.stats().is_none() && !watch.is_watched());
    }
}

//! Figures of a governed machine: sums over all its governors, means of the last seconds, and the
//! present operating point.

use super::Governor;
use super::account::{Interval, Totals};
use super::decisions::{Decision, log};
use super::ledger::Entry;
use super::machine::Machine;
use super::recent::Recent;
use super::sessions::GovernorSessions;
use std::collections::BTreeMap;
use std::time::Instant;
use wattline_policy::{OperatingPoint, Platform};
use wattline_status::{Details, Latency, Power};

/// State of a platform, and outcomes of the steps that led there.
#[derive(Debug, Clone)]
pub struct Seen {
    /// Present operating point.
    pub point: OperatingPoint,
    /// Description that the policy gets.
    pub platform: Platform,
    /// The last changes that the policy requested, with their reasons, the oldest first.
    pub decisions: Vec<Decision>,
    /// Outcomes of the steps, by knob.
    pub knobs: Vec<Entry>,
}

impl Seen {
    /// Reads the state of a governor's machine.
    pub fn read<M: Machine>(governor: &mut Governor<M>) -> Self {
        Self {
            point: governor.point().clone(),
            platform: governor.platform().clone(),
            decisions: governor.decisions(0),
            knobs: governor.ledger().entries().cloned().collect(),
        }
    }
}

/// Everything counted so far, and the latencies since the last answer, if measured.
pub type Answer = (Totals, Option<wattline_policy::Latency>);

/// Averaging time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Window {
    /// The last five seconds.
    LastSeconds,
    /// The time since the first governor began.
    WholeRun,
}

/// Figures of a governed machine since its first governor began.
#[derive(Debug, Default)]
pub struct Figures {
    recent: Recent,
    sessions: GovernorSessions,
    /// Number of the last change that was logged.
    logged: u64,
    power: Power,
}

impl Figures {
    /// Starts from the figures that never change.
    pub fn new(power: Power) -> Self {
        Self { power, ..Self::default() }
    }

    /// Returns the time of the next tick; `None` before the first governor begins.
    pub fn due(&self) -> Option<Instant> {
        self.recent.due()
    }

    /// Records the counts of a tick; the first tick of a governor is its start.
    pub fn tick(&mut self, now: Instant, answer: Option<Answer>) {
        let totals = answer.map(|answer| self.add(answer, now));
        self.recent.tick(now, totals);
    }

    /// Logs the new changes.
    pub fn log(&mut self, decisions: &[Decision]) {
        self.logged = log(decisions, self.logged);
    }

    /// Records the platform-specific figures.
    pub fn take_details(&mut self, details: Details) {
        self.power.details = self.sessions.sum_details(details);
    }

    /// Records the counts and the state of the machine, as far as its governor has answered;
    /// returns true if both are there.
    pub fn take(&mut self, answer: Option<Answer>, seen: Option<Seen>, over: Window) -> bool {
        let Some(answer) = answer else { return false };
        let totals = self.add(answer, Instant::now());
        let Some(seen) = seen else { return false };
        self.count(&totals, over);
        let Seen { point, platform, decisions, knobs } = seen;
        let hertz = |index: usize| platform.frequencies.get(index).map_or(0.0, |hertz| hertz.0);
        let to = &mut self.power;
        to.cores = platform.cores;
        to.cores_active = point.active.len();
        // A core without frequency control runs at an unknown frequency.
        to.frequency_hertz = if platform.can.set_frequency {
            point.frequencies(&platform).map(hertz).collect()
        } else {
            Vec::new()
        };
        to.reason = decisions.last().map(|last| last.reason.clone());
        to.last_changes = decisions;
        to.knobs = self.sessions.sum_knobs(&knobs);
        to.latency_histogram = self.recent.histogram();
        true
    }

    /// Uses the last counts as those of the whole run, if no governor answers.
    pub fn close(&mut self) {
        if let Some(totals) = self.sessions.last(Instant::now()) {
            self.count(&totals, Window::WholeRun);
        }
    }

    /// Ends the present governor: its counts stay, and its present figures are cleared.
    pub fn end_of_governor(&mut self) {
        self.sessions.end(Instant::now());
        self.recent.restart();
        // The next governor numbers its changes from one.
        self.logged = 0;
        let to = &mut self.power;
        to.power_watts = None;
        to.power_by_component_watts.clear();
        to.power_rest_watts = None;
        to.latency = Latency::default();
        to.frequency_hertz.clear();
        // Packets are sent to all of them.
        to.cores_active = to.cores;
        to.reason = None;
        to.details = self.sessions.details_without_governor();
    }

    /// Accounts unmetered time while there is no governor.
    pub fn wait(&mut self) {
        if let Some(totals) = self.sessions.last(Instant::now()) {
            self.power.energy_unmetered_seconds = totals.machine.energy.unmetered.as_seconds();
        }
    }

    /// Returns the last figures.
    pub fn power(&self) -> &Power {
        &self.power
    }

    fn add(&mut self, (totals, latency): Answer, now: Instant) -> Totals {
        self.recent.add(latency.as_ref());
        self.sessions.sum(totals, now)
    }

    fn count(&mut self, totals: &Totals, over: Window) {
        let Interval { power_watts, power_rest_watts, power_by_component_watts, latency, .. } =
            match over {
                Window::LastSeconds => self.recent.interval(totals),
                Window::WholeRun => self.recent.whole(totals),
            };
        let Totals { at, own, machine } = totals;
        let energy = &machine.energy;
        let to = &mut self.power;
        (to.source, to.accuracy) = (energy.source, energy.accuracy);
        (to.power_watts, to.power_rest_watts) = (power_watts, power_rest_watts);
        to.power_by_component_watts = named(power_by_component_watts);
        to.latency = latency.map(Latency::from).unwrap_or_default();
        to.energy_joules = energy.whole.map(|whole| whole.0);
        to.energy_by_component_joules =
            named(energy.parts.iter().map(|(name, part)| (*name, part.0)));
        to.energy_unmetered_seconds = energy.unmetered.as_seconds();
        to.model_seconds = to.scale.map(|_| at.as_seconds());
        to.offered_packets = machine.offered;
        to.forwarded_packets = machine.forwarded;
        to.dropped_packets = machine.dropped;
        to.entries_moved = machine.entries_moved;
        to.transitions = own.core_changes + own.frequency_changes;
        to.core_changes = own.core_changes;
        to.frequency_changes = own.frequency_changes;
        to.decisions = own.decisions;
        to.steps = own.steps;
        to.steps_altered = own.altered;
        to.steps_failed = own.failed;
    }
}

fn named(parts: impl IntoIterator<Item = (&'static str, f64)>) -> BTreeMap<String, f64> {
    parts.into_iter().map(|(name, figure)| (name.to_owned(), figure)).collect()
}

//! Input of a probe and its findings.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use wattline_units::Span;

/// A test's knowledge of the platform besides its description.
#[derive(Debug, Clone, Copy)]
pub struct Circumstances {
    /// Time between two looks: longer than any change takes on the platform.
    pub period: Span,
    /// True if packets arrive at all cores in the tables.
    pub traffic: bool,
    /// Figures that follow the machine's state.
    pub follows: Follows,
}

/// Figures that follow the machine's state. Others are recorded, or have another source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Follows {
    /// The shown frequency, if it follows the set one.
    pub frequency: bool,
    /// The time of cores with packets, without and asleep.
    pub work: bool,
    /// The time in idle states.
    pub residency: bool,
    /// Latency.
    pub latency: bool,
    /// Watts.
    pub power: bool,
    /// The time in soft interrupts.
    pub softirq: bool,
}

impl Follows {
    /// All figures, as on a model.
    pub const ALL: Self = Self {
        frequency: true,
        work: true,
        residency: true,
        latency: true,
        power: true,
        softirq: true,
    };
    /// No figure, as on a recorded machine.
    pub const NOTHING: Self = Self {
        frequency: false,
        work: false,
        residency: false,
        latency: false,
        power: false,
        softirq: false,
    };
}

/// A knob under trial, for a test with its own observation of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Turn {
    /// The knob.
    pub promise: &'static str,
    /// True if the platform promises to turn it.
    pub promised: bool,
    /// True once it has been turned; before that, the machine is at the first point of the trial.
    pub turned: bool,
}

/// Judgement of a promise, or of a denial.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Judgement {
    /// By its effect, described here.
    ByEffect(String),
    /// By an effect that the platform's own test observed.
    ByWitness,
    /// Not by an effect, for this reason.
    NotByEffect(String),
    /// The platform broke its promise; the complaint has the details.
    Broken,
}

/// Verdict on one promise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// The promise.
    pub promise: &'static str,
    /// True if the platform promises it.
    pub promised: bool,
    /// Judgement of the promise.
    pub judgement: Judgement,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = if self.promised { "promised" } else { "denied" };
        write!(f, "{}: {word}, ", self.promise)?;
        match &self.judgement {
            Judgement::ByEffect(seen) => write!(f, "{seen}"),
            Judgement::ByWitness => write!(f, "judged by the test's own witness"),
            Judgement::NotByEffect(why) => write!(f, "effect not judged: {why}"),
            Judgement::Broken => write!(f, "broken"),
        }
    }
}

/// Findings of a probe, shared with the test.
#[derive(Debug, Clone, Default)]
pub struct Findings(Arc<Mutex<Found>>);

#[derive(Debug, Default)]
struct Found {
    complaints: Vec<String>,
    verdicts: Vec<Verdict>,
    witnessed: BTreeMap<&'static str, bool>,
    complete: bool,
    turn: Option<Turn>,
}

impl Findings {
    /// Returns true once the probe is complete.
    pub fn are_complete(&self) -> bool {
        self.found().complete
    }

    /// Returns the deviations of the platform from its promises, a sentence each.
    pub fn complaints(&self) -> Vec<String> {
        let found = self.found();
        let mut complaints = found.complaints.clone();
        if !found.complete {
            complaints.push("the probe was not asked often enough to come to its end".into());
        }
        complaints
    }

    /// Returns the verdict on each promise.
    pub fn verdicts(&self) -> Vec<Verdict> {
        self.found().verdicts.clone()
    }

    /// Returns promises and denials whose effect was not judged, with the reasons.
    pub fn unjudged(&self) -> Vec<Verdict> {
        let mut verdicts = self.verdicts();
        verdicts.retain(|verdict| matches!(verdict.judgement, Judgement::NotByEffect(_)));
        verdicts
    }

    /// Returns the knob under trial, for a test with its own observation of the machine. None
    /// during other trials.
    pub fn turn(&self) -> Option<Turn> {
        self.found().turn
    }

    /// Records a test's own observation of the effect of the knob under trial. It counts if the
    /// probe itself cannot observe the effect.
    pub fn bear_witness(&self, promise: &'static str, happened: bool) {
        self.found().witnessed.insert(promise, happened);
    }

    pub(super) fn witnessed(&self, promise: &str) -> Option<bool> {
        self.found().witnessed.get(promise).copied()
    }

    pub(super) fn complain(&self, complaint: String) {
        let mut found = self.found();
        // A complaint repeated with every packet is recorded once.
        if !found.complaints.contains(&complaint) {
            found.complaints.push(complaint);
        }
    }

    pub(super) fn judge(&self, verdict: Verdict) {
        self.found().verdicts.push(verdict);
    }

    pub(super) fn is_judged(&self, promise: &str) -> bool {
        self.found().verdicts.iter().any(|verdict| verdict.promise == promise)
    }

    pub(super) fn show_turn(&self, turn: Option<Turn>) {
        self.found().turn = turn;
    }

    pub(super) fn finish(&self) {
        self.found().complete = true;
    }

    fn found(&self) -> MutexGuard<'_, Found> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

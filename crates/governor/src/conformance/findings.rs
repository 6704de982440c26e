//! Input of a probe and its findings.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use wattline_units::Span;

/// Knowledge of a test about the platform beside its description.
#[derive(Debug, Clone, Copy)]
pub struct Circumstances {
    /// The time between two looks: longer than any change takes on the platform.
    pub period: Span,
    /// Whether packets arrive, at all cores that tables lead to.
    pub traffic: bool,
    /// Figures that follow the machine.
    pub follows: Follows,
}

/// Figures that follow what the machine does. Others are recorded, or come from elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Follows {
    /// The frequency that is shown, and it follows what is set.
    pub frequency: bool,
    /// The time that cores spend with packets, without and asleep.
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
    /// All of them, as on a model.
    pub const ALL: Self = Self {
        frequency: true,
        work: true,
        residency: true,
        latency: true,
        power: true,
        softirq: true,
    };
    /// None of them, as on a recorded machine.
    pub const NOTHING: Self = Self {
        frequency: false,
        work: false,
        residency: false,
        latency: false,
        power: false,
        softirq: false,
    };
}

/// A knob under trial, for a test that looks at the machine in another way, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Turn {
    /// The knob.
    pub promise: &'static str,
    /// Whether the platform says that it can turn it.
    pub promised: bool,
    /// Whether it has been turned; before, the machine is at the point that it is turned at.
    pub turned: bool,
}

/// Judgement of a promise, or of a denial.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Judgement {
    /// By its effect, which says this.
    ByEffect(String),
    /// By an effect that the platform's test saw in its own way.
    ByWitness,
    /// Not by an effect, for this reason.
    NotByEffect(String),
    /// The platform broke its word; the complaint says how.
    Broken,
}

/// Verdict on one promise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// The promise.
    pub promise: &'static str,
    /// Whether the platform makes it.
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
    /// Whether the probe is through.
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

    /// Promises and denials whose effect was not judged, with the reasons.
    pub fn unjudged(&self) -> Vec<Verdict> {
        let mut verdicts = self.verdicts();
        verdicts.retain(|verdict| matches!(verdict.judgement, Judgement::NotByEffect(_)));
        verdicts
    }

    /// The knob under trial, for a test that looks at the machine in another way, too. None while
    /// something else is tried.
    pub fn turn(&self) -> Option<Turn> {
        self.found().turn
    }

    /// Records whether a test saw by its own means that the knob under trial did its work. It
    /// counts where the probe itself cannot see that.
    pub fn bear_witness(&self, promise: &'static str, happened: bool) {
        self.found().witnessed.insert(promise, happened);
    }

    pub(super) fn witnessed(&self, promise: &str) -> Option<bool> {
        self.found().witnessed.get(promise).copied()
    }

    pub(super) fn complain(&self, complaint: String) {
        let mut found = self.found();
        // One that comes with every packet is said once.
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

//! One test of what a platform promises to policies ([`wattline_policy::Can`]), for all platforms:
//! what is promised happens, what is denied is left alone.
//!
//! A [`probe`] is a policy. A platform's test puts it in charge, lets time pass until
//! [`Findings::are_complete`], and finds nothing in [`Findings::complaints`]. The probe turns each
//! knob once, then asks for each kind of question by itself, and looks at everything all the
//! while. Whether a turned knob does something is seen in what the policy is shown next, and where
//! a platform measures it, in the frequency of a core and in the queues that packets arrive at.

use super::knob::KNOBS;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use wattline_policy::{
    AskAgain, CoreSet, Looks, Observation, OperatingPoint, Platform, Policy, Sees, Timing, Trigger,
    Wait,
};
use wattline_units::{Span, Time};

/// What a test knows of the platform beside its description.
#[derive(Debug, Clone, Copy)]
pub struct Circumstances {
    /// The time between two turns: longer than any change takes on the platform.
    pub period: Span,
    /// Whether packets arrive, at all cores that tables lead to.
    pub traffic: bool,
    /// Whether the frequency that is shown follows what is set.
    pub frequency_follows: bool,
}

/// What was found.
#[derive(Debug, Clone, Default)]
pub struct Findings(Arc<Mutex<Found>>);

#[derive(Debug, Default)]
struct Found {
    complaints: Vec<String>,
    complete: bool,
    turn: Option<(&'static str, bool)>,
}

impl Findings {
    /// Whether the probe is through.
    pub fn are_complete(&self) -> bool {
        self.found().complete
    }

    /// Where the platform did otherwise than it promised; one sentence each.
    pub fn complaints(&self) -> Vec<String> {
        let found = self.found();
        let mut complaints = found.complaints.clone();
        if !found.complete {
            complaints.push("the probe was not asked often enough to come to its end".into());
        }
        complaints
    }

    /// The knob that is turned now, and whether the platform promises that it can: for a test that
    /// looks at the machine in another way, too. None before the first and after the last.
    pub fn turn(&self) -> Option<(&'static str, bool)> {
        self.found().turn
    }

    fn found(&self) -> MutexGuard<'_, Found> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A change of the operating point.
struct Turn {
    name: &'static str,
    /// Whether the platform says that it can.
    promised: bool,
    change: Box<dyn Fn(&mut OperatingPoint) + Send>,
}

/// A kind of question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Batch,
    Fill,
    EmptyPolls,
}

const KINDS: [Kind; 3] = [Kind::Batch, Kind::Fill, Kind::EmptyPolls];

/// Figures that may be seen, with how they are found in what a platform says and shows.
type Figure = (&'static str, fn(&Sees) -> bool, fn(&Observation<'_>) -> bool);

const FIGURES: [Figure; 10] = [
    ("latency", |sees| sees.latency, |seen| seen.latency.is_some()),
    ("late packets", |sees| sees.late, |seen| seen.latency.is_some_and(|seen| seen.late > 0)),
    ("watts", |sees| sees.power, |seen| seen.power.is_some()),
    ("entries", |sees| sees.entries, |seen| !seen.entries.is_empty()),
    ("the offered rate", |sees| sees.offered, |seen| seen.offered.is_some()),
    ("frequency", |sees| sees.frequency, |seen| seen.cores.iter().all(|c| c.frequency.is_some())),
    ("residency", |sees| sees.residency, |seen| seen.cores.iter().all(|c| c.residency.is_some())),
    ("softirq", |sees| sees.softirq, |seen| seen.cores.iter().all(|c| c.softirq.is_some())),
    ("bytes", |sees| sees.bytes, |seen| seen.queues.iter().all(|queue| queue.bytes.is_some())),
    ("oldest", |sees| sees.oldest, |seen| seen.queues.iter().any(|queue| queue.oldest.is_some())),
];

/// A policy that tries what a platform promises, and what it found.
pub fn probe(platform: &Platform, circumstances: Circumstances) -> (Box<dyn Policy>, Findings) {
    let findings = Findings::default();
    let probe = Probe {
        turns: turns(platform),
        circumstances,
        at: 0,
        due: Time::ZERO,
        before: OperatingPoint::full(platform),
        shown: [false; FIGURES.len()],
        asked: [false; KINDS.len()],
        arrivals: Vec::new(),
        findings: findings.clone(),
    };
    (Box::new(probe), findings)
}

fn turns(platform: &Platform) -> Vec<Turn> {
    let can = platform.can;
    let mut turns = Vec::new();
    let mut turn = |name, promised, change: Box<dyn Fn(&mut OperatingPoint) + Send>| {
        turns.push(Turn { name, promised, change });
    };
    let full = OperatingPoint::full(platform);
    for facts in &KNOBS {
        let Some(other) = facts.other else { continue };
        let mut point = full.clone();
        other(platform, &mut point);
        let promised = (facts.step)(&point, 0).is_some_and(|step| (facts.can)(&can, &step));
        let platform = platform.clone();
        turn(facts.name, promised, Box::new(move |point| other(&platform, point)));
    }
    turn("weights", can.set_weights, Box::new(|point| point.weights[0] = 3));
    for (name, wait) in [
        ("wait: pause", Wait::Pause),
        ("wait: sleep", Wait::Sleep(Span::from_micros(20))),
        ("wait: poll", Wait::Poll),
        ("wait: interrupt", Wait::Interrupt),
    ] {
        turn(name, can.waits.allows(wait), Box::new(move |point| point.set_wait(wait)));
    }
    turn("cores", can.set_cores, Box::new(|point| point.active = CoreSet::only(0)));
    turns
}

struct Probe {
    turns: Vec<Turn>,
    circumstances: Circumstances,
    /// The turn under way; after the last knob come the questions.
    at: usize,
    due: Time,
    /// The point before the turn.
    before: OperatingPoint,
    shown: [bool; FIGURES.len()],
    asked: [bool; KINDS.len()],
    /// By queue, when the tables had led away from its core for a period.
    arrivals: Vec<u64>,
    findings: Findings,
}

impl Probe {
    fn complain(&self, complaint: String) {
        self.findings.found().complaints.push(complaint);
    }

    fn show_turn(&self) {
        self.findings.found().turn = self.turns.get(self.at).map(|turn| (turn.name, turn.promised));
    }

    fn look(&mut self, seen: &Observation<'_>) {
        for (shown, (.., is_shown)) in self.shown.iter_mut().zip(FIGURES) {
            *shown |= is_shown(seen);
        }
    }

    /// Whether the turn under way did what was promised.
    fn judge_turn(&self, seen: &Observation<'_>, point: &OperatingPoint) {
        let Some(turn) = self.turns.get(self.at) else { return };
        let mut wanted = self.before.clone();
        (turn.change)(&mut wanted);
        let name = turn.name;
        if !turn.promised && *point != self.before {
            self.complain(format!("{name}: denied, and the point changed to {point:?}"));
        }
        if turn.promised && *point != wanted {
            self.complain(format!("{name}: promised, and the point is {point:?}, not {wanted:?}"));
        }
        if name == "frequency" && turn.promised && self.circumstances.frequency_follows {
            let lowest = seen.platform.frequencies.first();
            let held = seen.cores.first().and_then(|core| core.frequency);
            if seen.platform.can.sees.frequency && held.as_ref() != lowest {
                self.complain(format!("frequency: {lowest:?} was set, {held:?} holds"));
            }
        }
    }

    /// Packets go only where tables lead.
    fn judge_arrivals(&mut self, seen: &Observation<'_>) {
        if !self.circumstances.traffic || !seen.platform.can.set_cores {
            return;
        }
        let now: Vec<u64> = seen.queues.iter().map(|queue| queue.arrivals).collect();
        let queues = seen.platform.queues.iter();
        for ((queue, now), before) in queues.zip(&now).zip(&self.arrivals) {
            if queue.core != 0 && now > before {
                let (core, more) = (queue.core, now - before);
                self.complain(format!("cores: {more} packets came to core {core}, taken out"));
            }
        }
        if !self.arrivals.is_empty() && now.iter().sum::<u64>() == self.arrivals.iter().sum() {
            self.complain("cores: no packet came to the core that was left".into());
        }
        self.arrivals = now;
    }

    /// The question to ask for in this turn.
    fn kind(&self) -> Option<Kind> {
        KINDS.get(self.at.checked_sub(self.turns.len())?).copied()
    }

    fn timing(kind: Kind, platform: &Platform) -> Timing {
        let asks = platform.can.asks;
        match kind {
            Kind::Batch => asks.batch,
            Kind::Fill => asks.fill,
            Kind::EmptyPolls => asks.empty_polls,
        }
    }

    fn finish(&self, seen: &Observation<'_>) {
        for ((name, promises, _), shown) in FIGURES.iter().zip(self.shown) {
            let promised = promises(&seen.platform.can.sees);
            // The offered rate is for clairvoyant policies, which the probe is not; an old packet
            // needs a full queue, a late one a slow server.
            let conditional = matches!(*name, "the offered rate" | "oldest" | "late packets");
            if promised && !shown && !conditional {
                self.complain(format!("{name}: promised, and never shown"));
            }
            if !promised && shown {
                self.complain(format!("{name}: denied, and shown"));
            }
            if *name == "the offered rate" && promised && shown {
                self.complain(format!("{name}: shown to a policy that is not clairvoyant"));
            }
        }
        for (kind, asked) in KINDS.iter().zip(self.asked) {
            let promised = Self::timing(*kind, seen.platform).is_noticed();
            if promised && !asked && self.circumstances.traffic {
                self.complain(format!("{kind:?}: promised, and never asked"));
            }
            if !promised && asked {
                self.complain(format!("{kind:?}: denied, and asked"));
            }
        }
        self.findings.found().complete = true;
    }

    fn ask(&self) -> AskAgain {
        let all = CoreSet::first(self.before.cores.len());
        let ask = match self.kind() {
            Some(Kind::Batch) => AskAgain::on_batch(all),
            Some(Kind::Fill) => AskAgain::NEVER.and_on_fill(all, 1),
            Some(Kind::EmptyPolls) => {
                AskAgain { after_empty_polls: NonZeroU32::new(3), ..AskAgain::on_batch(all) }
            }
            None => AskAgain::NEVER,
        };
        AskAgain { at: self.due, ..ask }
    }
}

impl Policy for Probe {
    fn name(&self) -> &'static str {
        "probe"
    }

    fn looks_at(&self) -> Looks {
        Looks::WHOLE.and_counters().and_late(Span::from_micros(20)).and_power().and_entries()
    }

    fn decide(
        &mut self,
        now: Time,
        seen: &Observation<'_>,
        point: &mut OperatingPoint,
    ) -> AskAgain {
        self.look(seen);
        let kind = match seen.trigger {
            Trigger::Start => {
                self.before = point.clone();
                self.due = now + self.circumstances.period;
                self.turns[0].change.as_ref()(point);
                self.show_turn();
                return self.ask();
            }
            Trigger::Batch { .. } => Kind::Batch,
            Trigger::Fill { .. } => Kind::Fill,
            Trigger::EmptyPolls { .. } => Kind::EmptyPolls,
            Trigger::Timer if self.findings.are_complete() => return AskAgain::NEVER,
            Trigger::Timer => {
                self.judge_turn(seen, point);
                if self.at + 1 >= self.turns.len() {
                    self.judge_arrivals(seen);
                }
                self.at += 1;
                self.due = now + self.circumstances.period;
                self.before = point.clone();
                self.show_turn();
                if let Some(turn) = self.turns.get(self.at) {
                    (turn.change)(point);
                } else if self.kind() == Some(Kind::EmptyPolls) {
                    point.set_wait(Wait::Poll);
                } else if self.kind().is_none() {
                    self.finish(seen);
                    return AskAgain::NEVER;
                }
                return self.ask();
            }
        };
        self.asked[kind as usize] = true;
        let wanted = self.kind();
        // Whoever asks for empty polls is asked at batches, too.
        if wanted != Some(kind) && !(wanted == Some(Kind::EmptyPolls) && kind == Kind::Batch) {
            self.complain(format!("{kind:?}: asked while {wanted:?} was wanted"));
        }
        self.ask()
    }
}

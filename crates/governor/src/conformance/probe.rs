//! The policy that tries a platform's promises.

use super::effects::{self, Case, Effect};
use super::figures::FIGURES;
use super::findings::{Circumstances, Findings, Judgement, Turn, Verdict};
use super::period::{Period, Snapshot, Sums};
use super::questions::{Kind, QUESTIONS, Question};
use super::trials::{Trial, trials};
use wattline_policy::{
    AskAgain, CoreSetting, Looks, Observation, OperatingPoint, Platform, Policy, Queue, Trigger,
};
use wattline_units::Time;

pub use super::effects::LATE_AFTER;

/// Returns a policy that tries a platform's promises, and its findings.
pub fn probe(platform: &Platform, circumstances: Circumstances) -> (Box<dyn Policy>, Findings) {
    let findings = Findings::default();
    let probe = Probe {
        full: OperatingPoint::full(platform),
        platform: platform.clone(),
        trials: trials(platform),
        known: circumstances,
        phase: Phase::Base(0),
        due: Time::ZERO,
        at_turn: OperatingPoint::full(platform),
        expected: OperatingPoint::full(platform),
        snapshot: Snapshot::default(),
        sums: Sums::default(),
        before: Period::default(),
        first: Snapshot::default(),
        last: Snapshot::default(),
        all: Sums::default(),
        shown: [false; FIGURES.len()],
        findings: findings.clone(),
    };
    (Box::new(probe), findings)
}

/// Phases of a probe; each lasts a period.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The machine goes to the first point of a trial.
    Base(usize),
    /// The machine is observed at the first point.
    Before(usize),
    /// A knob was turned.
    Turned(usize),
    /// The machine is observed after the turn.
    After(usize),
    /// A question is requested.
    Asks(usize),
    /// The machine is observed while the question may come.
    Asked(usize),
    Over,
}

struct Probe {
    platform: Platform,
    full: OperatingPoint,
    trials: Vec<Trial>,
    known: Circumstances,
    phase: Phase,
    due: Time,
    /// The point before the turn, and the expected point after it.
    at_turn: OperatingPoint,
    expected: OperatingPoint,
    /// Start of the phase, and the sums since.
    snapshot: Snapshot,
    sums: Sums,
    /// Period before the turn.
    before: Period,
    /// Start of the whole run.
    first: Snapshot,
    last: Snapshot,
    all: Sums,
    shown: [bool; FIGURES.len()],
    findings: Findings,
}

impl Probe {
    fn complain(&self, complaint: String) {
        self.findings.complain(complaint);
    }

    /// Checks an observation, independently of the phase.
    fn look(&mut self, now: Time, seen: &Observation<'_>) {
        for (shown, figure) in self.shown.iter_mut().zip(FIGURES) {
            *shown |= (figure.shown)(seen);
        }
        let snapshot = Snapshot::new(now, seen);
        let queues = snapshot.queues.iter().zip(&self.last.queues);
        let queues = queues.filter(|(now, before)| now.arrivals < before.arrivals).count();
        let cores = snapshot.cores.iter().zip(&self.last.cores);
        let cores = cores.filter(|(now, before)| now.packets < before.packets).count();
        if queues + cores > 0 {
            self.complain("counters: those of queues or cores went back".to_owned());
        }
        self.last = snapshot;
        self.sums.add(seen);
        self.all.add(seen);
    }

    /// Returns the period since the phase began.
    fn period(&self) -> Period {
        self.between(&self.snapshot, self.sums.clone())
    }

    fn between(&self, from: &Snapshot, sums: Sums) -> Period {
        let core = |queue: usize| self.platform.queues.get(queue).map_or(0, |q: &Queue| q.core);
        Period::between(from, &self.last, sums, core)
    }

    fn case<'a>(&'a self, before: &'a Period, after: &'a Period) -> Case<'a> {
        Case { platform: &self.platform, known: self.known, before, after }
    }

    /// Checks the promises that hold in every period.
    fn judge_period(&self, period: &Period) {
        if self.known.traffic && period.arrivals == 0 {
            self.complain(format!("arrivals: none in {:.6} s while packets come", period.seconds));
        }
        if !self.known.follows.work {
            return;
        }
        for (number, core) in period.cores.iter().enumerate() {
            let sum = core.useful + core.empty + core.asleep;
            // Threads of an emulated core read their clock only from time to time.
            if (sum / period.seconds - 1.0).abs() > 0.25 {
                self.complain(format!(
                    "core times: those of core {number} make {sum:.6} s in {:.6} s",
                    period.seconds
                ));
            }
        }
    }

    /// Checks that the machine reached the first point of a trial, which undoes the previous turn.
    fn judge_base(&self, point: &OperatingPoint) {
        let wanted = &self.expected;
        let core = |same: fn(&CoreSetting, &CoreSetting) -> bool| {
            point.cores.iter().zip(&wanted.cores).all(|(one, other)| same(one, other))
        };
        for (name, holds) in [
            ("cores", point.active == wanted.active),
            ("weights", point.weights == wanted.weights),
            ("frequency", core(|one, other| one.frequency == other.frequency)),
            ("idle-limit", core(|one, other| one.idle_limit == other.idle_limit)),
            ("wait", core(|one, other| one.wait == other.wait)),
            ("moderation", point.moderation == wanted.moderation),
            ("batch", point.batch == wanted.batch),
            ("uncore", point.uncore == wanted.uncore),
        ] {
            if !holds {
                self.complain(format!("{name}: promised, and the machine was not set back"));
            }
        }
    }

    /// Returns true if the point is the promised one.
    fn judge_point(&self, trial: &Trial, point: &OperatingPoint) -> bool {
        let name = trial.promise;
        if !trial.knob {
            return true;
        }
        let expected = if trial.promised { &self.expected } else { &self.at_turn };
        if point == expected {
            return true;
        }
        self.complain(if trial.promised {
            format!("{name}: promised, and the point is {point:?}, not {expected:?}")
        } else {
            format!("{name}: denied, and the point changed to {point:?}")
        });
        let judgement = Judgement::Broken;
        self.findings.judge(Verdict { promise: name, promised: trial.promised, judgement });
        false
    }

    fn judge_trial(&self, trial: &Trial) {
        if self.findings.is_judged(trial.promise) {
            return;
        }
        let after = self.period();
        self.judge_period(&after);
        let evidence = (trial.judge)(&self.case(&self.before, &after));
        effects::judge(&self.findings, (trial.promise, trial.promised), &evidence);
    }

    fn judge_question(&self, question: Question) {
        let after = self.period();
        self.judge_period(&after);
        let name = question.kind.name();
        let promised = question.kind.timing(self.platform.can.asks).is_noticed();
        let effect = question.judge(&self.case(&after, &after));
        match (question.comes, effect) {
            (true, effect) => effects::judge(&self.findings, (name, promised), &[effect]),
            (false, Effect::Absent(said)) => self.complain(format!("{name}: {said}")),
            (false, _) => {}
        }
    }

    /// Judges the figures of the whole run.
    fn finish(&self) {
        let whole = self.between(&self.first, self.all.clone());
        for (figure, shown) in FIGURES.iter().zip(self.shown) {
            let (name, promised) = (figure.name, (figure.promised)(&self.platform.can.sees));
            if promised && !shown && !figure.conditional {
                self.complain(format!("{name}: promised, and never shown"));
            }
            if !promised && shown {
                self.complain(format!("{name}: denied, and shown"));
            }
            if name == "offered rate" && promised && shown {
                self.complain(format!("{name}: shown to a policy that is not clairvoyant"));
            }
            if self.findings.is_judged(name) {
                continue;
            }
            let evidence = if promised {
                (figure.judge)(&self.case(&whole, &whole))
            } else {
                let said = "never shown".to_owned();
                vec![if shown { Effect::Seen("shown".to_owned()) } else { Effect::Absent(said) }]
            };
            effects::judge(&self.findings, (name, promised), &evidence);
        }
        self.findings.finish();
    }

    /// Returns the question requested now.
    fn question(&self) -> Option<Question> {
        match self.phase {
            Phase::Asks(number) | Phase::Asked(number) => Some(QUESTIONS[number]),
            Phase::Base(trial)
            | Phase::Before(trial)
            | Phase::Turned(trial)
            | Phase::After(trial) => {
                let batches = self.trials[trial].asks_at_batches();
                batches.then_some(Question { kind: Kind::Batch, comes: true })
            }
            Phase::Over => None,
        }
    }

    fn ask(&self) -> AskAgain {
        let cores = self.platform.all_cores();
        let ask = self.question().map_or(AskAgain::NEVER, |question| question.ask(cores));
        AskAgain { at: self.due, ..ask }
    }

    /// Ends a phase, with its judgement.
    fn end(&mut self, point: &OperatingPoint) {
        match self.phase {
            Phase::Before(_) => {
                self.before = self.period();
                self.judge_period(&self.before);
            }
            Phase::Turned(trial) => {
                self.judge_point(&self.trials[trial], point);
            }
            Phase::After(trial) => self.judge_trial(&self.trials[trial]),
            Phase::Asked(question) => self.judge_question(QUESTIONS[question]),
            Phase::Base(_) => self.judge_base(point),
            Phase::Asks(_) | Phase::Over => {}
        }
    }

    fn next(&self) -> Phase {
        match self.phase {
            Phase::Base(trial) => Phase::Before(trial),
            Phase::Before(trial) => Phase::Turned(trial),
            Phase::Turned(trial) => Phase::After(trial),
            Phase::After(trial) if trial + 1 < self.trials.len() => Phase::Base(trial + 1),
            Phase::After(_) => Phase::Asks(0),
            Phase::Asks(question) => Phase::Asked(question),
            Phase::Asked(question) if question + 1 < QUESTIONS.len() => Phase::Asks(question + 1),
            Phase::Asked(_) | Phase::Over => Phase::Over,
        }
    }

    /// Begins a phase; changes `point` accordingly.
    fn begin(&mut self, now: Time, point: &mut OperatingPoint) {
        self.due = now + self.known.period;
        self.snapshot = self.last.clone();
        self.sums = Sums::default();
        match self.phase {
            Phase::Base(trial) => {
                let present = point.clone();
                point.copy_from(&self.full);
                (self.trials[trial].base)(point);
                // A denied change leaves the point as it is.
                self.expected.copy_from(point);
                self.expected.bound(&self.platform, &present);
            }
            Phase::Turned(trial) => {
                self.at_turn.copy_from(point);
                (self.trials[trial].change)(point);
                self.expected.copy_from(point);
            }
            Phase::Asks(question) => {
                point.copy_from(&self.full);
                QUESTIONS[question].prepare(point);
            }
            Phase::Before(_) | Phase::After(_) | Phase::Asked(_) | Phase::Over => {}
        }
        let (trial, turned) = match self.phase {
            Phase::Base(trial) | Phase::Before(trial) => (self.trials.get(trial), false),
            Phase::Turned(trial) | Phase::After(trial) => (self.trials.get(trial), true),
            _ => (None, false),
        };
        self.findings.show_turn(trial.filter(|trial| trial.knob).map(|trial| {
            let Trial { promise, promised, .. } = *trial;
            Turn { promise, promised, turned }
        }));
    }
}

impl Policy for Probe {
    fn looks_at(&self) -> Looks {
        Looks::WHOLE.and_counters().and_late(LATE_AFTER).and_power().and_entries()
    }

    fn decide(&mut self, seen: &Observation<'_>, point: &mut OperatingPoint) -> AskAgain {
        let now = seen.now;
        self.look(now, seen);
        if self.phase == Phase::Over {
            return AskAgain::NEVER;
        }
        if seen.trigger == Trigger::Start {
            self.first = self.last.clone();
            self.begin(now, point);
        } else if let Some(kind) = Kind::from_trigger(seen.trigger) {
            let wanted = self.question().map(|question| question.kind);
            // A request for empty polls also brings questions at batches.
            if wanted != Some(kind) && !(wanted == Some(Kind::EmptyPolls) && kind == Kind::Batch) {
                self.complain(format!("{kind:?}: asked while {wanted:?} was wanted"));
            }
        } else {
            self.end(point);
            self.phase = self.next();
            if self.phase == Phase::Over {
                self.findings.show_turn(None);
                self.finish();
                return AskAgain::NEVER;
            }
            self.begin(now, point);
        }
        self.ask()
    }
}

//! Behaviour of the knobs of a simulated server.

use thiserror::Error;
use wattline_governor::ledger::Knob;
use wattline_governor::pace::{Budget, Pace};
use wattline_governor::step::Step;
use wattline_policy::Platform;
use wattline_units::Span;

/// Faults of one knob.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Fault {
    /// Duration of a write; later steps wait for it.
    pub delay: Span,
    /// Probability that a write fails, 0 to 1.
    pub fails: f64,
    /// True if every write is refused.
    pub refuses: bool,
    /// Granularity of values, which are rounded up to multiples of it: indices of frequencies
    /// (counted from the fastest), microseconds of moderation, packets of a batch. 0 and 1 round
    /// nothing. Knobs without numbers are never rounded.
    pub rounds_to: u32,
}

/// Knobs of a simulated server. The default is ideal: every write takes effect at once, as
/// requested. The time that hardware needs for a change of frequency is in the server model and is
/// added.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct KnobBehaviour {
    faults: [Fault; Knob::ALL.len()],
    /// Limits on how often knobs are written.
    pub pace: Pace,
}

impl Default for KnobBehaviour {
    fn default() -> Self {
        Self { faults: [Fault::default(); Knob::ALL.len()], pace: Pace::FREE }
    }
}

/// Errors in a description of knobs.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum BehaviourError {
    /// A clause names no existing knob.
    #[error(
        "knob {found:?}: unknown; allowed: all, budget, {}",
        Knob::ALL.map(Knob::name).join(", ")
    )]
    Knob {
        /// Name in the clause.
        found: String,
    },
    /// A clause has an unknown key.
    #[error("{clause}: {found:?} is unknown; allowed: {allowed}")]
    Key {
        /// Name of the clause.
        clause: String,
        /// Key in the clause.
        found: String,
        /// Keys that the clause may have.
        allowed: &'static str,
    },
    /// A value is out of range.
    #[error("{clause}: {key}={found}: allowed is {allowed}")]
    Value {
        /// Name of the clause.
        clause: String,
        /// Key in the clause.
        key: &'static str,
        /// Value of the key.
        found: String,
        /// Allowed range.
        allowed: &'static str,
    },
}

const KEYS: &str = "delay=DURATION, fail=0..1, refuse, round=NUMBER, dwell=DURATION";
const BUDGET_KEYS: &str = "rate=WRITES_PER_SECOND, burst=WRITES";
/// Longest delay and dwell time: ten days, the limit of a whole simulation.
const LONGEST: Span = Span::from_millis(10 * 24 * 3_600 * 1_000);

impl KnobBehaviour {
    /// Returns the faults of a knob.
    pub fn fault(&self, knob: Knob) -> &Fault {
        &self.faults[knob as usize]
    }

    /// Returns true if every write takes effect at once, as requested.
    pub fn is_ideal(&self) -> bool {
        *self == Self::default()
    }

    /// Parses clauses separated by `;`. A clause is a knob (`frequency`, `idle-limit`, `wait`,
    /// `cores`, `moderation`, `batch`; `all` for each of them) and its faults, as in
    /// `frequency:delay=50us,fail=0.1;cores:refuse;moderation:round=10,dwell=1ms`. The clause
    /// `budget:rate=100,burst=20` limits the writes of all knobs together.
    ///
    /// # Errors
    /// Returns the error of the first invalid clause, with the allowed values.
    pub fn parse(text: &str) -> Result<Self, BehaviourError> {
        let mut behaviour = Self::default();
        for clause in text.split(';').map(str::trim).filter(|clause| !clause.is_empty()) {
            let (name, settings) = clause.split_once(':').unwrap_or((clause, ""));
            let settings = settings.split(',').map(str::trim).filter(|text| !text.is_empty());
            let settings: Vec<(&str, Option<&str>)> = settings
                .map(|text| text.split_once('=').map_or((text, None), |(k, v)| (k, Some(v))))
                .collect();
            match name.trim() {
                "budget" => behaviour.pace.budget = Some(budget(clause, &settings)?),
                "all" => {
                    for knob in Knob::ALL {
                        behaviour.set(knob, clause, &settings)?;
                    }
                }
                name => {
                    let knob = Knob::find(name);
                    let knob = knob.ok_or_else(|| BehaviourError::Knob { found: name.into() })?;
                    behaviour.set(knob, clause, &settings)?;
                }
            }
        }
        Ok(behaviour)
    }

    /// Returns the knobs that clauses of [`Self::parse`] name individually, without `all`.
    pub fn named(text: &str) -> impl Iterator<Item = Knob> {
        text.split(';').filter_map(|clause| Knob::find(clause.split(':').next()?.trim()))
    }

    fn set(
        &mut self,
        knob: Knob,
        clause: &str,
        settings: &[(&str, Option<&str>)],
    ) -> Result<(), BehaviourError> {
        let value = |key, found: &str, allowed| BehaviourError::Value {
            clause: clause.into(),
            key,
            found: found.into(),
            allowed,
        };
        let span = |key, text: &str| {
            let span = text.parse().ok().filter(|span: &Span| *span <= LONGEST);
            span.ok_or_else(|| value(key, text, "a duration of at most 10 days, such as 50us"))
        };
        for (key, text) in settings {
            let fault = &mut self.faults[knob as usize];
            match (*key, *text) {
                ("delay", Some(text)) => fault.delay = span("delay", text)?,
                ("dwell", Some(text)) => self.pace.dwell[knob as usize] = span("dwell", text)?,
                ("fail", Some(text)) => {
                    let fails = text.parse().ok().filter(|fails| (0.0..=1.0).contains(fails));
                    fault.fails = fails.ok_or_else(|| value("fail", text, "0 to 1"))?;
                }
                ("round", Some(text)) => {
                    let rounds = text.parse().ok().filter(|rounds| *rounds > 0);
                    let allowed = "a whole number above zero";
                    fault.rounds_to = rounds.ok_or_else(|| value("round", text, allowed))?;
                }
                ("refuse", None) => fault.refuses = true,
                (found, _) => {
                    let (clause, found) = (clause.into(), found.into());
                    return Err(BehaviourError::Key { clause, found, allowed: KEYS });
                }
            }
        }
        Ok(())
    }
}

fn budget(clause: &str, settings: &[(&str, Option<&str>)]) -> Result<Budget, BehaviourError> {
    let mut budget = Budget { writes_per_second: 1_000.0, burst_writes: 100.0 };
    for (key, text) in settings {
        let (place, least, key, allowed) = match *key {
            "rate" => (&mut budget.writes_per_second, 1e-3, "rate", "0.001 to 1000000000"),
            "burst" => (&mut budget.burst_writes, 1.0, "burst", "1 to 1000000000"),
            found => {
                let (clause, found) = (clause.into(), found.into());
                return Err(BehaviourError::Key { clause, found, allowed: BUDGET_KEYS });
            }
        };
        let text = text.unwrap_or_default();
        let found = text.parse().ok().filter(|value: &f64| (least..=1e9).contains(value));
        *place = found.ok_or_else(|| {
            let (clause, found) = (clause.into(), text.into());
            BehaviourError::Value { clause, key, found, allowed }
        })?;
    }
    Ok(budget)
}

impl Fault {
    /// Returns the value that the knob takes for a step.
    pub(super) fn round(&self, step: &Step, platform: &Platform) -> Step {
        let to = self.rounds_to.max(1);
        match *step {
            // Counted down from the fastest, so that the value above always exists.
            Step::Frequency { core, index } => {
                let below = platform.fastest().saturating_sub(index);
                let index = platform.fastest() - below / to as usize * to as usize;
                Step::Frequency { core, index }
            }
            Step::Moderation { queue, period } if to > 1 => {
                let micros = period.as_picos().div_ceil(1_000_000).div_ceil(to.into());
                let period = Span::from_micros(micros * u64::from(to));
                Step::Moderation { queue, period }
            }
            Step::Batch { packets } => {
                Step::Batch { packets: packets.div_ceil(to).saturating_mul(to) }
            }
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clauses_are_parsed_and_mistakes_list_the_allowed_values() {
        let text = "frequency:delay=50us,fail=0.1; cores:refuse;moderation:round=10,dwell=1ms;\
                    budget:rate=100,burst=20";
        let knobs = KnobBehaviour::parse(text).unwrap();
        let frequency = knobs.fault(Knob::Frequency);
        assert_eq!((frequency.delay, frequency.fails), (Span::from_micros(50), 0.1));
        assert!(knobs.fault(Knob::Cores).refuses && !knobs.fault(Knob::Wait).refuses);
        assert_eq!(knobs.fault(Knob::Moderation).rounds_to, 10);
        assert_eq!(knobs.pace.dwell(Knob::Moderation), Span::from_micros(1_000));
        assert_eq!(knobs.pace.budget.unwrap().burst_writes, 20.0);
        let named: Vec<Knob> = KnobBehaviour::named(&format!("{text};all:fail=0")).collect();
        assert_eq!(named, [Knob::Frequency, Knob::Cores, Knob::Moderation]);
        assert!(KnobBehaviour::parse("").unwrap().is_ideal());
        assert!(!KnobBehaviour::parse("all:fail=1").unwrap().is_ideal());
        for (text, expected) in [
            ("speed:refuse", "idle-limit"),
            ("cores:slow=1ms", "delay=DURATION"),
            ("cores:fail=2", "0 to 1"),
            ("cores:fail=NaN", "0 to 1"),
            ("cores:refuse=1", "refuse"),
            ("batch:round=0", "above zero"),
            ("wait:delay=20days", "10 days"),
            ("budget:rate=0", "0.001"),
            ("budget:burst=0.5", "1 to"),
            ("budget:often", "rate="),
        ] {
            let error = KnobBehaviour::parse(text).unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}

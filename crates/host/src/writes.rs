//! Making changes, and saying what became of them.

use std::collections::BTreeMap;
use wattline_governor::machine::Taken;
use wattline_knobs::{AccessError, Change, Knobs, Outcome, SetError, Setting};

/// Counts of writes: by kind of knob and by outcome.
pub type Counts = BTreeMap<(&'static str, &'static str), u64>;

/// The knobs, with an account of what was written.
pub(super) struct Writes<K> {
    pub knobs: K,
    pub counts: Counts,
    /// Setting among the last changes that can be read but not set.
    pub unsupported: Option<Setting>,
}

impl<K: Knobs> Writes<K> {
    pub fn new(knobs: K) -> Self {
        Self { knobs, counts: Counts::new(), unsupported: None }
    }

    /// Makes the changes in their order. One that fails, or that somebody else has set, ends
    /// it: what comes after builds on it.
    pub fn make(&mut self, changes: &[Change]) -> Taken {
        let mut altered = None;
        self.unsupported = None;
        for change in changes {
            let taken = match self.knobs.take(change) {
                Ok(Outcome::Unchanged | Outcome::Written) => Taken::Done,
                Ok(Outcome::Altered { found }) => Taken::Altered { found },
                Ok(Outcome::Foreign { found }) => Taken::Foreign { found },
                Err(error) => {
                    if let SetError::Access(AccessError::Unsupported(setting)) = &error {
                        self.unsupported = Some(setting.clone());
                    }
                    Taken::Failed { why: error.to_string() }
                }
            };
            *self
                .counts
                .entry((wattline_knobs::label(&change.setting), name(&taken)))
                .or_default() += 1;
            match taken {
                Taken::Done | Taken::Slow { .. } => {}
                Taken::Altered { .. } => altered = Some(taken),
                Taken::Foreign { .. } | Taken::Failed { .. } => return taken,
            }
        }
        altered.unwrap_or(Taken::Done)
    }
}

/// The label of an outcome in counters.
fn name(taken: &Taken) -> &'static str {
    match taken {
        // A write returns when it is done.
        Taken::Done | Taken::Slow { .. } => "done",
        Taken::Altered { .. } => "altered",
        Taken::Foreign { .. } => "foreign",
        Taken::Failed { .. } => "failed",
    }
}

/// Returns the outcome that needs more care.
pub(super) fn worse(one: Taken, other: Taken) -> Taken {
    let rank = |taken: &Taken| match taken {
        Taken::Done | Taken::Slow { .. } => 0,
        Taken::Altered { .. } => 1,
        Taken::Foreign { .. } => 2,
        Taken::Failed { .. } => 3,
    };
    if rank(&other) > rank(&one) { other } else { one }
}

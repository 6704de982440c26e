//! States that a core passes through.

use serde::Serialize;

/// What a core does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum CoreState {
    /// Awake, with packets or on its way to them; at the frequency of this index.
    Useful(usize),
    /// Awake, polling empty queues; at the frequency of this index.
    Empty(usize),
    /// In the idle state of this index.
    Idle(usize),
}

/// A core was in one state for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct StateSpan {
    /// Number of the core.
    pub core: usize,
    /// What it did.
    pub state: CoreState,
    /// From then, in picoseconds since the start.
    pub from_picos: u64,
    /// Until then.
    pub until_picos: u64,
}

/// Time spent in each state by one core, in picoseconds since the start.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Spent {
    /// Awake with work, by frequency.
    pub useful: Vec<u64>,
    /// Awake without work, by frequency.
    pub empty: Vec<u64>,
    /// Asleep, by idle state.
    pub idle: Vec<u64>,
    /// The sum of each of the three: policies ask for it at every batch.
    pub totals: Totals,
}

/// Time spent awake with work, awake without, and asleep, in picoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// Awake with work.
    pub useful: u64,
    /// Awake without work.
    pub empty: u64,
    /// Asleep.
    pub idle: u64,
}

impl Spent {
    /// No time yet.
    pub fn new(frequencies: usize, idle_states: usize) -> Self {
        Self {
            useful: vec![0; frequencies],
            empty: vec![0; frequencies],
            idle: vec![0; idle_states],
            totals: Totals::default(),
        }
    }

    #[inline]
    pub(crate) fn add(&mut self, state: CoreState, picos: u64) {
        match state {
            CoreState::Useful(frequency) => {
                self.useful[frequency] += picos;
                self.totals.useful += picos;
            }
            CoreState::Empty(frequency) => {
                self.empty[frequency] += picos;
                self.totals.empty += picos;
            }
            CoreState::Idle(index) => {
                self.idle[index] += picos;
                self.totals.idle += picos;
            }
        }
    }

    /// What was spent since an earlier moment.
    pub fn since(&self, earlier: &Self) -> Self {
        let minus = |a: &[u64], b: &[u64]| a.iter().zip(b).map(|(a, b)| a - b).collect();
        Self {
            useful: minus(&self.useful, &earlier.useful),
            empty: minus(&self.empty, &earlier.empty),
            idle: minus(&self.idle, &earlier.idle),
            totals: Totals {
                useful: self.totals.useful - earlier.totals.useful,
                empty: self.totals.empty - earlier.totals.empty,
                idle: self.totals.idle - earlier.totals.idle,
            },
        }
    }
}

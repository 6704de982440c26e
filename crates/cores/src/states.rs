//! States of a core.

use serde::Serialize;

/// State of a core.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum CoreState {
    /// Awake with packets or on the way to them, at the frequency of this index.
    Useful(usize),
    /// Awake and polling empty queues, at the frequency of this index.
    Empty(usize),
    /// Asleep in the idle state of this index.
    Idle(usize),
}

/// A span of time that a core spent in one state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct StateSpan {
    /// Number of the core.
    pub core: usize,
    /// State of the core.
    pub state: CoreState,
    /// Start in picoseconds since the start of the run.
    pub from_picos: u64,
    /// End in picoseconds since the start of the run.
    pub until_picos: u64,
}

/// Time spent in each state by one core, in picoseconds since the start.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Spent {
    /// Time awake with work, by frequency.
    pub useful: Vec<u64>,
    /// Time awake without work, by frequency.
    pub empty: Vec<u64>,
    /// Time asleep, by idle state.
    pub idle: Vec<u64>,
    /// Sum of each of the three lists, since policies ask for them at every batch.
    pub totals: Totals,
}

/// Time awake with work, awake without work, and asleep, in picoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// Time awake with work.
    pub useful: u64,
    /// Time awake without work.
    pub empty: u64,
    /// Time asleep.
    pub idle: u64,
}

impl Spent {
    /// All times zero.
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

    /// Time spent since an earlier moment.
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

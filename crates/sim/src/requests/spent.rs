//! Where a core's time went.

/// Sums since the start, in picoseconds; lists run by V/F state, idle ones by V/F state and idle
/// state within it. All sums together are the time passed.
#[derive(Debug, Clone, Default)]
pub(super) struct Spent {
    /// In the application.
    pub application: u64,
    /// In interrupts, with leaving idle states.
    pub kernel: u64,
    /// Executing, by V/F state.
    pub awake: Vec<u64>,
    /// Idle, at `state × idle states + idle state`.
    pub idle: Vec<u64>,
    /// How often it fell asleep.
    pub sleeps: u64,
    /// Interrupts handled.
    pub interrupts: u64,
    /// Segments received.
    pub segments: u64,
    /// Requests that reached the card, dropped ones included.
    pub arrivals: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Requests dropped because the ring was full.
    pub drops: u64,
    /// Responses.
    pub responses: u64,
}

impl Spent {
    pub fn new(states: usize, idle_states: usize) -> Self {
        Self { awake: vec![0; states], idle: vec![0; states * idle_states], ..Self::default() }
    }

    pub fn since(&self, earlier: &Self) -> Self {
        let minus = |now: &[u64], then: &[u64]| now.iter().zip(then).map(|(a, b)| a - b).collect();
        Self {
            application: self.application - earlier.application,
            kernel: self.kernel - earlier.kernel,
            awake: minus(&self.awake, &earlier.awake),
            idle: minus(&self.idle, &earlier.idle),
            sleeps: self.sleeps - earlier.sleeps,
            interrupts: self.interrupts - earlier.interrupts,
            segments: self.segments - earlier.segments,
            arrivals: self.arrivals - earlier.arrivals,
            bytes: self.bytes - earlier.bytes,
            drops: self.drops - earlier.drops,
            responses: self.responses - earlier.responses,
        }
    }

    pub fn asleep(&self) -> u64 {
        self.idle.iter().sum()
    }
}

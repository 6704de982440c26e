//! Time of a core by activity.

/// Sums since the start in picoseconds. Lists are indexed by V/F state; idle times by V/F state and
/// idle state within it. All times together equal the time passed.
#[derive(Debug, Clone, Default)]
pub(super) struct Spent {
    /// Time in the application.
    pub application: u64,
    /// Time in interrupts, including the exits from idle states.
    pub kernel: u64,
    /// Executing time by V/F state.
    pub awake: Vec<u64>,
    /// Idle time, at index `state × idle states + idle state`.
    pub idle: Vec<u64>,
    /// Number of times that the core fell asleep.
    pub sleeps: u64,
    /// Number of interrupts handled.
    pub interrupts: u64,
    /// Number of segments received.
    pub segments: u64,
    /// Number of requests that reached the card, dropped ones included.
    pub arrivals: u64,
    /// Bytes of the requests.
    pub bytes: u64,
    /// Number of requests dropped because the ring was full.
    pub drops: u64,
    /// Number of responses.
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

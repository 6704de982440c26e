//! Constant parameters of a core.

/// Parameters of a core that do not change during a run; times in picoseconds.
#[derive(Debug, Clone)]
pub(crate) struct CoreFixed {
    pub ports: usize,
    pub ring: Option<usize>,
    pub frequencies: usize,
    /// Residency after which a nap continues in the idle state of this index.
    pub target_residency: Vec<u64>,
    /// Time to leave an idle state, beyond the wake-up work.
    pub extra_exit: Vec<u64>,
    /// Time from raising an interrupt to its arrival at the core.
    pub delivery: u64,
    /// Most packets of a NAPI poll; `None` where workers poll.
    pub poll_budget: Option<u32>,
}

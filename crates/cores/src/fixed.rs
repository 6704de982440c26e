//! What stays as it is of a core.

/// What stays as it is of a core.
#[derive(Debug, Clone)]
pub(crate) struct CoreFixed {
    pub ports: usize,
    pub ring: Option<usize>,
    pub frequencies: usize,
    /// Residency after which a nap goes on in the idle state of this index.
    pub target_residency: Vec<u64>,
    /// What leaving an idle state takes beyond the wake-up work.
    pub extra_exit: Vec<u64>,
    /// How long an interrupt is under way to the core.
    pub delivery: u64,
}

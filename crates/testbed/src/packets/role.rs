//! Roles, placement and counters of the generator's threads.

use crate::Error;
use std::sync::atomic::AtomicU64;

/// Role of a thread of the generator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Sends from the queue with this number. If one interface both sends and receives, the thread
    /// also receives.
    Sends(u32),
    /// Receives from the queue with this number.
    Receives(u32),
}

/// Sets the processor and the scheduling priority of a thread of the generator. Called on each
/// thread before a trial begins.
pub type Placement<'a> = &'a (dyn Fn(Role) -> Result<(), Error> + Sync);

/// One thread's counters of one direction, in separate cache lines.
#[derive(Default)]
#[repr(align(128))]
pub(super) struct Counter {
    pub sent: AtomicU64,
    pub received: AtomicU64,
}

/// Sums of all threads so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    /// Packets sent.
    pub sent: u64,
    /// Packets received, without duplicates.
    pub received: u64,
}

/// A [`Placement`] that changes nothing.
pub fn anywhere(_role: Role) -> Result<(), Error> {
    Ok(())
}

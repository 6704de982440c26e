//! What the threads of the generator do, where they run, and what they have counted.

use crate::Error;
use std::sync::atomic::AtomicU64;

/// What a thread of the generator does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Sends, from the queue of this number; receives too where one interface does both.
    Sends(u32),
    /// Receives, at the queue of this number.
    Receives(u32),
}

/// Called on each thread of the generator before a trial begins: where it runs, and before whom.
pub type Placement<'a> = &'a (dyn Fn(Role) -> Result<(), Error> + Sync);

/// One thread's counters of one direction; nothing else is in their cache lines.
#[derive(Default)]
#[repr(align(128))]
pub(super) struct Counter {
    pub sent: AtomicU64,
    pub received: AtomicU64,
}

/// What all threads have counted so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    /// Packets sent.
    pub sent: u64,
    /// Different packets received.
    pub received: u64,
}

/// Leaves all threads where they are.
pub fn anywhere(_role: Role) -> Result<(), Error> {
    Ok(())
}

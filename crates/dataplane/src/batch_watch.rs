//! Observer of the batches that a worker takes.

use crate::port::PortQueue;
use wattline_units::Time;

/// Observes each batch as a worker takes it, in the worker's thread. It must neither allocate, lock
/// nor make a system call per batch.
pub trait BatchWatch: Send {
    /// Called when the worker has taken `taken` frames from its queue of a port. The queue's
    /// counters have the backlog.
    fn batch(&mut self, now: Time, port: usize, queue: &dyn PortQueue, taken: usize);

    /// Called when an iteration has found no frame at any port.
    fn empty_pass(&mut self, now: Time);
}

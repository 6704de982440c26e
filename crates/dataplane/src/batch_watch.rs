//! Sight of the batches that a worker takes.

use crate::port::PortQueue;
use wattline_units::Time;

/// Sees each batch of a worker where it is taken, in the worker's thread. It must neither allocate,
/// lock nor make a system call per batch.
pub trait BatchWatch: Send {
    /// The worker has taken so many frames from its queue of a port, whose counters say how many
    /// waited in it.
    fn batch(&mut self, now: Time, port: usize, queue: &dyn PortQueue, taken: usize);

    /// An iteration has found no frame at any port.
    fn empty_pass(&mut self, now: Time);
}

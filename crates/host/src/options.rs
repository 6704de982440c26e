//! Options of the platform.

use super::layout::Layout;
use super::scope::Scope;
use wattline_linux::privileges::Rights;
use wattline_linux::sysfs::Tree;
use wattline_units::Span;

/// Options of the platform, besides knobs and workers.
#[derive(Debug, Clone)]
pub struct HostOptions {
    /// The machine's files.
    pub tree: Tree,
    /// Workers, CPUs and queues.
    pub layout: Layout,
    /// Capacity of a worker's receive ring, in packets.
    pub ring_size: Option<usize>,
    /// True if the router asks for preferred busy polling: interrupts then stay off while a worker
    /// polls.
    pub busy_poll: bool,
    /// Time between two looks at queues for a policy that is asked at batches.
    pub sample: Span,
    /// True if the uncore's upper limit follows the fastest core.
    pub uncore: bool,
    /// True if the machine's meters are read, by a separate thread.
    pub meters: bool,
    /// Rights to set the machine once the router runs.
    pub rights: Rights,
    /// True if CPUs may be governed beyond the limits that they had at the start: minimum and
    /// maximum frequency, forbidden idle states, wake-up latency, range of the uncore.
    pub override_limits: bool,
    /// True if settings may let the machine draw more power than it was found with.
    pub may_raise: bool,
    /// True if hardware or the kernel controls the frequency. The frequencies of an operating point
    /// are then preferences between power and performance ([`super::Preference`]).
    pub preferences: bool,
    /// Server of the queues, and the governed knobs.
    pub scope: Scope,
}

//! Options of the platform.

use super::layout::Layout;
use super::scope::Scope;
use wattline_linux::privileges::Rights;
use wattline_linux::sysfs::Tree;
use wattline_units::Span;

/// Options of the platform, beside knobs and workers.
#[derive(Debug, Clone)]
pub struct HostOptions {
    /// The machine's files.
    pub tree: Tree,
    /// Workers, CPUs and queues.
    pub layout: Layout,
    /// Packets that a receive ring of ours holds.
    pub ring_size: Option<usize>,
    /// Whether the router asks for preferred busy polling: then interrupts stay off while a
    /// worker polls.
    pub busy_poll: bool,
    /// Time between two looks at queues for a policy that is asked at batches.
    pub sample: Span,
    /// Whether the uncore's upper limit goes with the fastest core.
    pub uncore: bool,
    /// Whether the machine's meters are read, by a thread of their own.
    pub meters: bool,
    /// Rights to set the machine once the router runs.
    pub rights: Rights,
    /// Whether CPUs may be governed beyond the limits that they had at the start: minimum and
    /// maximum frequency, forbidden idle states, wake-up latency, range of the uncore.
    pub override_limits: bool,
    /// Whether settings may let the machine draw more power than it was found with.
    pub may_raise: bool,
    /// Whether hardware or the kernel controls the frequency. The frequencies of an operating point
    /// are then preferences between power and performance ([`super::Preference`]).
    pub preferences: bool,
    /// Who serves the queues, and which knobs are governed.
    pub scope: Scope,
}

//! The reverse-path check: packets from sources without a suitable route back are dropped (RFC
//! 3704, RFC 8704).
//!
//! - loose (RFC 3704 section 2.4): there must be a route to the source. A default route counts.
//! - strict (sections 2.2 and 2.3): a route to the source must lead to the port, and the VLAN, on
//!   which the packet arrived; with several next hops, one of them.
//!
//! Discarding routes (blackhole, unreachable, prohibit) do not count: a blackhole route for a
//! source drops packets from it (RFC 5635 section 4). Packets from a tunnel pass, as in the kernel:
//! the tunnel has authenticated them.

pub(crate) mod control;
mod node;
mod section;

pub use section::{URPF_SECTION, UrpfSettings};
pub use wattline_router::application::SourceCheck;

use wattline_dataplane::counters::Counter;
use wattline_dataplane::feature::Feature;

/// Returns the nodes of one worker with these checks: for benchmarks and tests.
pub fn worker(checks: &[Option<SourceCheck>]) -> Vec<Feature> {
    let dropped = checks.iter().map(|_| Counter::default()).collect();
    node::features(&node::Checks::of(checks), &dropped)
}

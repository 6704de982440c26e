//! The reverse-path check: packets whose source address the routes do not lead back to are dropped
//! (RFC 3704, RFC 8704).
//!
//! - loose (RFC 3704 section 2.4): there must be a route to the source. A default route counts.
//! - strict (sections 2.2 and 2.3): a route to the source must lead to the port, and the VLAN, by which
//!   the packet came; of several next hops, one of them.
//!
//! Routes that discard (blackhole, unreachable, prohibit) are none: a blackhole route for a source
//! drops what comes from it (RFC 5635 section 4). Packets that came out of a tunnel pass, as in the
//! kernel: the tunnel has vouched for them.

pub(crate) mod control;
mod node;
mod section;

pub use section::{URPF_SECTION, UrpfSettings};
pub use wattline_router::application::SourceCheck;

use wattline_dataplane::counters::Counter;
use wattline_dataplane::feature::Feature;

/// The nodes of one worker whose ports check so: for benchmarks and tests.
pub fn worker(checks: &[Option<SourceCheck>]) -> Vec<Feature> {
    let dropped = checks.iter().map(|_| Counter::default()).collect();
    node::features(&node::Checks::of(checks), &dropped)
}

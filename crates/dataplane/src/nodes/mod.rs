//! The nodes, one file each; the doc comment of a file is the node's manual.

mod clamp_mss;
mod drop;
mod ethernet_input;
mod fair_limit;
mod generated;
mod icmp4_error;
mod icmp6_error;
mod icmp_error;
mod ip4_fragment;
mod ip4_input;
mod ip4_lookup;
mod ip4_rewrite;
mod ip6_input;
mod ip6_lookup;
mod ip6_rewrite;
mod lookup;
mod neighbour_hold;
mod output;
mod punt;
mod rewrite;

pub use clamp_mss::ClampMss;
pub use drop::Drop;
pub use ethernet_input::EthernetInput;
pub use icmp4_error::Icmp4Error;
pub use icmp6_error::Icmp6Error;
pub use ip4_fragment::{Ip4Fragment, fragment};
pub use ip4_input::Ip4Input;
pub use ip4_lookup::Ip4Lookup;
pub use ip4_rewrite::Ip4Rewrite;
pub use ip6_input::Ip6Input;
pub use ip6_lookup::Ip6Lookup;
pub use ip6_rewrite::Ip6Rewrite;
pub use neighbour_hold::{NeighbourHold, NeighbourRequest};
pub use output::Output;
pub use punt::Punt;

use crate::graph::Node;
use crate::punt::PuntSink;
use crate::token_bucket::TokenBucket;
use std::sync::mpsc::SyncSender;

/// Resources that the router's nodes need.
pub struct RouterParts {
    /// Destination of punted packets.
    pub punt: Box<dyn PuntSink>,
    /// Queue of neighbour requests to the control plane. A request that does not fit is repeated
    /// later.
    pub neighbours: SyncSender<NeighbourRequest>,
    /// ICMP errors per second and worker, for each IP version and each kind: packet too big, time
    /// exceeded, destination unreachable. Half of them are shared by all senders; the other half is
    /// divided among groups of senders, so that no group uses up the messages of the others.
    pub icmp_rate: u32,
    /// Largest burst of ICMP errors of one kind; half of it shared, and an eighth for each group.
    pub icmp_burst: u32,
}

/// Nodes of an IPv4 and IPv6 router, upstream first: this is the order in which they run when
/// several have packets waiting.
pub fn router(parts: RouterParts) -> Vec<Box<dyn Node>> {
    let bucket = TokenBucket::new(parts.icmp_rate, parts.icmp_burst);
    vec![
        Box::new(EthernetInput),
        Box::new(Ip4Input),
        Box::new(Ip6Input),
        Box::new(Ip4Lookup),
        Box::new(Ip6Lookup),
        Box::new(NeighbourHold::new(parts.neighbours)),
        Box::new(Ip4Fragment),
        Box::new(Ip4Rewrite),
        Box::new(Ip6Rewrite),
        Box::new(Icmp4Error::new(bucket.clone())),
        Box::new(Icmp6Error::new(bucket)),
        Box::new(Punt::new(parts.punt)),
        Box::new(Drop),
        Box::new(Output),
    ]
}

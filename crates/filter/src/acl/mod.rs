//! Access lists: rules that permit or deny packets by prefix, protocol and port, without state.
//!
//! The rules of a port are compared in the order of the configuration, and the first match decides.
//! Packets without a match are dropped. [`compiled`] finds the first match without comparing all
//! rules.
//!
//! A later fragment carries no ports. A rule that permits certain ports matches it by its other
//! fields, and a rule that denies certain ports does not: the datagram cannot be reassembled if its
//! first fragment is denied. If a packet does not show its protocol or ports, and the first rule
//! that may match tests them, the packet is dropped: its headers extend beyond the packet, or a
//! fragment cuts the header with the ports (RFC 1858 section 3, RFC 7112).

pub mod compiled;
pub(crate) mod control;
mod counts;
mod intervals;
mod lists;
mod node;
pub mod rule;
mod section;
pub mod subject;

pub use section::{ACL_SECTIONS, AclSettings, protocol_name};

use arc_swap::ArcSwap;
use lists::Lists;
use std::sync::Arc;
use wattline_dataplane::feature::Feature;

/// Counts of the rules of one worker without a control thread.
pub struct Tally(Arc<Lists>);

/// Returns the nodes of one worker with these rules, for this number of ports: for benchmarks and
/// tests.
pub fn worker(rules: &[rule::Rule], ports: usize) -> (Vec<Feature>, Tally) {
    let lists = Arc::new(Lists::new(rules, ports, 1, None));
    let features = node::features(&Arc::new(ArcSwap::new(lists.clone())), 0);
    (features, Tally(lists))
}

impl Tally {
    /// Returns the number of packets by rule.
    pub fn packets(&self) -> Vec<u64> {
        self.0.rules.iter().map(|it| it.counts.total().0).collect()
    }

    /// Returns the number of rules.
    pub fn rules(&self) -> usize {
        self.0.rules.len()
    }
}

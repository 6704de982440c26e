//! The data plane: frames, batches, nodes, the graph and the worker loop.
//!
//! It knows nothing of where frames come from: that is a [`port::PortQueue`]. One worker
//! owns one queue of every port, one pool of frames and one graph; no packet ever passes
//! from one worker to another, so nothing here locks.
//!
//! - [`worker`]: the loop: receive, graph, transmit; how it idles and how it ends
//! - [`graph`]: how batches travel between nodes; [`nodes`]: the nodes, one file each;
//!   [`feature`]: applications on the packets' way, which have crates of their own
//! - [`forwarding`]: what the nodes read; [`routes`]: how the control plane writes it
//! - [`counters`] and [`drop_reason`]: where every frame went
#![forbid(unsafe_code)]

pub mod counters;
pub mod drop_reason;
pub mod feature;
pub mod forwarding;
pub mod frame;
pub mod graph;
pub mod next_hop;
mod node;
pub mod nodes;
pub mod own_addresses;
pub mod packet;
pub mod port;
mod port_id;
pub mod punt;
pub mod routes;
mod spin;
pub mod token_bucket;
pub mod worker;

#[cfg(test)]
mod router_tests;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod worker_tests;

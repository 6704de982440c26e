//! The data plane: frames, batches, nodes, the graph and the worker loop.
//!
//! The crate does not know where frames come from: it receives and sends through
//! [`port::PortQueue`]. One worker owns one queue of every port, one pool of frames and one graph.
//! No packet passes from one worker to another, so nothing here takes a lock.
//!
//! - [`worker`]: the loop of receive, graph and transmit; its idle modes and its end
//! - [`graph`]: movement of batches between nodes; [`nodes`]: the nodes, one file each;
//!   [`feature`]: applications inside the graph, which have crates of their own
//! - [`forwarding`]: the tables that the nodes read; [`routes`]: their control-plane writer
//! - [`tap`]: recording of passing packets, for captures and traces
//! - [`batch_watch`]: observer of each batch that a worker takes
//! - [`counters`] and [`drop_reason`]: the fate of every frame
#![forbid(unsafe_code)]

pub mod batch_watch;
pub mod counters;
pub mod drop_reason;
mod edge;
pub mod feature;
pub mod flow_hash;
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
pub mod punted;
pub mod routes;
pub mod source_addresses;
pub mod spin;
pub mod tap;
pub mod token_bucket;
pub mod worker;

#[cfg(test)]
mod router_tests;
pub mod testing;
#[cfg(test)]
mod worker_tests;

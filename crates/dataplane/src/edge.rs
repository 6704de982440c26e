//! Outputs of nodes.

/// Output of a node: an index into its [`Node::next`](crate::graph::Node::next).
pub type Edge = u8;

/// Edge of a packet that the node kept, sent or freed.
pub const CONSUMED: Edge = Edge::MAX;

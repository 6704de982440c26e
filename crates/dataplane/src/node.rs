//! One step of packet processing, and what it works with.

use crate::counters::WorkerCounters;
use crate::forwarding::RouteReader;
use crate::frame::{Frame, FramePool};
use crate::packet::Packet;
use std::sync::Arc;
use wattline_units::Time;

/// Which way out of a node: an index into its [`Node::next`].
pub type Edge = u8;

/// The edge of a packet that the node kept, sent off or freed.
pub const CONSUMED: Edge = Edge::MAX;

/// One step of packet processing.
pub trait Node: Send {
    /// Unique in its graph.
    fn name(&self) -> &'static str;

    /// The names of the nodes that its edges lead to.
    fn next(&self) -> &'static [&'static str];

    /// Processes a batch of at most [`BATCH_MAX`](crate::frame::BATCH_MAX) packets: for each, sets the edge that
    /// it takes, or [`CONSUMED`] where it goes no further. `edges` is as long as
    /// `packets`, and its content is undefined before.
    fn process(&mut self, context: &mut Context, packets: &mut [Packet], edges: &mut [Edge]);

    /// Called about every millisecond and whenever routes changed: for nodes that wait.
    fn tick(&mut self, context: &mut Context) {
        let _ = context;
    }

    /// Called when the worker ends: frees what the node holds.
    fn shut_down(&mut self, context: &mut Context) {
        let _ = context;
    }
}

/// What nodes work with: all of it belongs to one worker.
pub struct Context {
    /// The time of this iteration.
    pub now: Time,
    /// Memory of the frames.
    pub pool: FramePool,
    /// What the control plane published.
    pub routes: RouteReader,
    /// Where every frame went.
    pub counters: Arc<WorkerCounters>,
    /// What is to be transmitted, by port number; filled by `output`.
    pub transmit: Vec<Vec<Frame>>,
    /// Packets that are not of the batch, each with its edge.
    pub(crate) spawned: Vec<(Edge, Packet)>,
}

impl Context {
    /// A context for a worker with so many ports.
    pub fn new(
        pool: FramePool,
        routes: RouteReader,
        counters: Arc<WorkerCounters>,
        ports: usize,
    ) -> Self {
        // All packets together are never more than chunks, so nothing here grows later.
        let most = pool.chunks() as usize;
        Self {
            now: Time::ZERO,
            pool,
            routes,
            counters,
            transmit: (0..ports).map(|_| Vec::with_capacity(most)).collect(),
            spawned: Vec::with_capacity(most),
        }
    }

    /// Sends a packet that is not of the batch (made, or released) along an edge of the
    /// node that runs.
    pub fn spawn(&mut self, edge: Edge, packet: Packet) {
        self.spawned.push((edge, packet));
    }

    /// What a node under test spawned.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn take_spawned(&mut self) -> Vec<(Edge, Packet)> {
        std::mem::take(&mut self.spawned)
    }
}

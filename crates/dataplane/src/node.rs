//! One step of packet processing, and the context in which it runs.

use crate::counters::WorkerCounters;
use crate::forwarding::RouteReader;
use crate::frame::{Frame, FramePool};
use crate::packet::Packet;
use crate::tap::taps::Taps;
use std::sync::Arc;
use wattline_units::Time;

pub use crate::edge::{CONSUMED, Edge};

/// One step of packet processing.
pub trait Node: Send {
    /// Returns the name of the node, unique in its graph.
    fn name(&self) -> &'static str;

    /// Returns the names of the nodes to which the edges lead.
    fn next(&self) -> &'static [&'static str];

    /// Processes a batch of at most [`BATCH_MAX`](crate::frame::BATCH_MAX) packets. Sets the edge
    /// of each packet, or [`CONSUMED`] if the packet goes no further. `edges` is as long as
    /// `packets` and initially names the first edge for all.
    fn process(&mut self, context: &mut Context, packets: &mut [Packet], edges: &mut [Edge]);

    /// Runs about every millisecond and after every change of routes, for nodes that hold packets.
    fn tick(&mut self, context: &mut Context) {
        let _ = context;
    }

    /// Frees the packets that the node holds; called when the worker ends.
    fn shut_down(&mut self, context: &mut Context) {
        let _ = context;
    }
}

/// State that the nodes work with; all of it belongs to one worker.
pub struct Context {
    /// Time of this iteration.
    pub now: Time,
    /// Memory of the frames.
    pub pool: FramePool,
    /// Tables published by the control plane.
    pub routes: RouteReader,
    /// Counters that account for every frame.
    pub counters: Arc<WorkerCounters>,
    /// Frames to be transmitted, by port number; filled by `output`.
    pub transmit: Vec<Vec<Frame>>,
    /// Packets outside the batch, each with its edge.
    pub(crate) spawned: Vec<(Edge, Packet)>,
    /// Captures and traces.
    pub(crate) taps: Taps,
}

impl Context {
    /// Makes a context for a worker with this many ports.
    pub fn new(
        pool: FramePool,
        routes: RouteReader,
        counters: Arc<WorkerCounters>,
        ports: usize,
    ) -> Self {
        // There are never more packets than chunks, so nothing here grows later.
        let most = pool.chunks() as usize;
        let taps = Taps::new(pool.chunks(), pool.chunk_size());
        Self {
            now: Time::ZERO,
            pool,
            routes,
            counters,
            transmit: (0..ports).map(|_| Vec::with_capacity(most)).collect(),
            spawned: Vec::with_capacity(most),
            taps,
        }
    }

    /// Sends a packet from outside the batch (generated or released) along an edge of the running
    /// node.
    pub fn spawn(&mut self, edge: Edge, packet: Packet) {
        self.spawned.push((edge, packet));
    }

    /// Returns the packets spawned by a node under test.
    pub(crate) fn take_spawned(&mut self) -> Vec<(Edge, Packet)> {
        std::mem::take(&mut self.spawned)
    }
}

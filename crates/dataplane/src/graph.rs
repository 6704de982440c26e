//! The graph: nodes, and the movement of batches between them.
//!
//! Each node processes a whole batch before the next node runs, so that its code and data stay in
//! the first-level cache. A node chooses an edge for every packet. If all packets take the same
//! edge, as they nearly always do, the batch moves on without a copy; otherwise it is scattered.
//! Nodes with waiting packets run in the order of their numbers, so a batch that was split is
//! joined again downstream.

use crate::feature::Plan;
use crate::frame::{BATCH_MAX, Frame};
pub use crate::node::{CONSUMED, Context, Edge, Node};
use crate::packet::Packet;
use crate::tap::tap::Role;
use quanta::Clock;

/// Reasons why nodes do not form a graph.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GraphError {
    /// An edge names a node that does not exist.
    #[error("node `{node}` names `{next}` as a next node, but there is none of that name")]
    UnknownNext {
        /// Node with the edge.
        node: &'static str,
        /// Name that the edge refers to.
        next: &'static str,
    },
    /// Two nodes have the same name.
    #[error("two nodes are named `{0}`")]
    Duplicate(&'static str),
    /// There are more nodes than the bit set of ready nodes can hold.
    #[error("{0} nodes are too many: at most 64 are allowed")]
    TooMany(usize),
    /// There is no node, so frames cannot enter.
    #[error("a graph needs at least one node")]
    Empty,
}

struct Slot {
    node: Box<dyn Node>,
    /// Node numbers, indexed by edge.
    next: Vec<usize>,
    /// Fate of the packets that do not leave the node, for traces.
    role: Role,
    waiting: Vec<Packet>,
}

/// Connected nodes; frames enter at the first one.
pub struct Graph {
    slots: Vec<Slot>,
    /// Bit set of the nodes with waiting packets.
    ready: u64,
    batch: Vec<Packet>,
    clock: Clock,
    /// Remaining runs before the nodes are timed again.
    untimed: u32,
}

/// One run in this many is timed: reading the clock after every node would take a tenth of the
/// forwarding time. The number is prime, so that it does not synchronise with the traffic.
const TIMED_EVERY: u32 = 17;

impl Graph {
    /// Connects nodes by the names of their edges, for a pool of `chunks` chunks.
    ///
    /// # Errors
    /// Returns every fault in the names and in the number of nodes.
    pub fn new(plan: Plan, chunks: u32) -> Result<Self, Vec<GraphError>> {
        let names: Vec<_> = plan.nodes.iter().map(|node| node.name()).collect();
        let mut errors = Vec::new();
        if names.is_empty() {
            errors.push(GraphError::Empty);
        }
        if names.len() > 64 {
            errors.push(GraphError::TooMany(names.len()));
        }
        for (number, name) in names.iter().enumerate() {
            if names[..number].contains(name) {
                errors.push(GraphError::Duplicate(name));
            }
        }
        let mut targets = Vec::new();
        for node in &plan.nodes {
            let mut next = Vec::new();
            for edge in node.next() {
                let wanted = plan.target(node.name(), edge);
                match names.iter().position(|name| *name == wanted) {
                    Some(number) => next.push(number),
                    None => {
                        errors.push(GraphError::UnknownNext { node: node.name(), next: wanted })
                    }
                }
            }
            targets.push(next);
        }
        let mut slots = Vec::new();
        for (node, next) in plan.nodes.into_iter().zip(targets) {
            // Each packet in the graph owns a chunk, so a queue never grows beyond this capacity.
            let role = Role::from_name(node.name());
            slots.push(Slot { node, next, role, waiting: Vec::with_capacity(chunks as usize) });
        }
        if !errors.is_empty() {
            return Err(errors);
        }
        Ok(Self {
            slots,
            ready: 0,
            batch: Vec::with_capacity(chunks as usize),
            clock: Clock::new(),
            untimed: 0,
        })
    }

    /// Returns the names of all nodes, in the order in which they run.
    pub fn names(&self) -> Vec<&'static str> {
        self.slots.iter().map(|slot| slot.node.name()).collect()
    }

    /// Every edge as a pair of node names: from, to.
    pub fn edges(&self) -> Vec<(&'static str, &'static str)> {
        let names = self.names();
        let of = |slot: &Slot| {
            let from = slot.node.name();
            slot.next.iter().map(|to| (from, names[*to])).collect::<Vec<_>>()
        };
        self.slots.iter().flat_map(of).collect()
    }

    /// Queues received frames at the first node.
    #[inline]
    pub fn enter(&mut self, frames: &[Frame]) {
        self.slots[0].waiting.extend(frames.iter().map(|frame| Packet::new(*frame)));
        self.ready |= 1;
    }

    /// Runs nodes until none has packets waiting.
    pub fn run(&mut self, context: &mut Context) {
        if self.ready == 0 {
            return;
        }
        if context.taps.are_on() {
            return self.run_watched(context);
        }
        if self.untimed > 0 {
            self.untimed -= 1;
            while self.ready != 0 {
                self.run_next(context);
            }
            return;
        }
        self.untimed = TIMED_EVERY - 1;
        let mut before = self.clock.raw();
        while self.ready != 0 {
            let (number, frames) = self.run_next(context);
            let after = self.clock.raw();
            let counters = context.counters.node(number);
            counters.timed_frames.add(frames);
            counters.cycles.add(after.wrapping_sub(before));
            before = after;
        }
    }

    /// Runs nodes while captures or traces record their packets.
    #[cold]
    fn run_watched(&mut self, context: &mut Context) {
        while self.ready != 0 {
            let number = self.ready.trailing_zeros() as usize;
            context.taps.visits(number, &self.slots[number].waiting);
            self.run_next(context);
            let waiting = self.slots.iter().flat_map(|slot| &slot.waiting);
            context.taps.settle(number, self.slots[number].role, waiting);
        }
    }

    /// Runs the first node with waiting packets; returns its number and the number of packets.
    #[inline]
    fn run_next(&mut self, context: &mut Context) -> (usize, u64) {
        let number = self.ready.trailing_zeros() as usize;
        self.ready &= !(1 << number);
        let frames = self.slots[number].waiting.len() as u64;
        let counters = context.counters.node(number);
        counters.frames.add(frames);
        counters.batches.add(1);
        self.run_node(number, context);
        (number, frames)
    }

    fn run_node(&mut self, number: usize, context: &mut Context) {
        std::mem::swap(&mut self.batch, &mut self.slots[number].waiting);
        let mut edges = [0; BATCH_MAX];
        if self.batch.len() <= BATCH_MAX {
            let edges = &mut edges[..self.batch.len()];
            self.slots[number].node.process(context, &mut self.batch, edges);
            let first = edges.first().copied().unwrap_or(CONSUMED);
            // No early exit: the compiler turns this into a few vector comparisons for the whole
            // batch.
            let uniform = edges.iter().fold(0, |difference, edge| difference | (edge ^ first)) == 0;
            if uniform {
                self.pass_on(number, first);
            } else {
                self.scatter(number, 0, edges);
            }
        } else {
            for start in (0..self.batch.len()).step_by(BATCH_MAX) {
                let end = self.batch.len().min(start + BATCH_MAX);
                let edges = &mut edges[..end - start];
                edges.fill(0);
                self.slots[number].node.process(context, &mut self.batch[start..end], edges);
                self.scatter(number, start, edges);
            }
        }
        self.batch.clear();
        if !context.spawned.is_empty() {
            self.collect_spawned(number, context);
        }
    }

    /// Moves the whole batch along one edge.
    fn pass_on(&mut self, number: usize, edge: Edge) {
        if edge == CONSUMED {
            return;
        }
        let target = self.slots[number].next[usize::from(edge)];
        let waiting = &mut self.slots[target].waiting;
        if waiting.is_empty() {
            std::mem::swap(waiting, &mut self.batch);
        } else {
            waiting.extend_from_slice(&self.batch);
        }
        self.ready |= 1 << target;
    }

    fn scatter(&mut self, number: usize, start: usize, edges: &[Edge]) {
        for (offset, edge) in edges.iter().enumerate() {
            if *edge != CONSUMED {
                let target = self.slots[number].next[usize::from(*edge)];
                self.slots[target].waiting.push(self.batch[start + offset]);
                self.ready |= 1 << target;
            }
        }
    }

    fn collect_spawned(&mut self, number: usize, context: &mut Context) {
        if context.taps.are_on() {
            let Context { taps, spawned, pool, .. } = context;
            taps.spawned(number, spawned, pool.memory());
        }
        for (edge, packet) in context.spawned.drain(..) {
            let target = self.slots[number].next[usize::from(edge)];
            self.slots[target].waiting.push(packet);
            self.ready |= 1 << target;
        }
    }

    /// Lets waiting nodes check the time and changed routes.
    pub fn tick(&mut self, context: &mut Context) {
        for number in 0..self.slots.len() {
            self.slots[number].node.tick(context);
            self.collect_spawned(number, context);
        }
    }

    /// Lets the nodes free the packets that they hold.
    pub fn shut_down(&mut self, context: &mut Context) {
        for slot in &mut self.slots {
            slot.node.shut_down(context);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters::WorkerCounters;
    use crate::testing::{pool, routes};
    use std::sync::{Arc, Mutex};

    /// Name of a node, and the lengths of the packets in a batch that it received.
    type Seen = (&'static str, Vec<u16>);

    /// Sends each packet along the edge whose number is the packet's length; keeps longer packets.
    struct ByLength {
        name: &'static str,
        next: &'static [&'static str],
        seen: Arc<Mutex<Vec<Seen>>>,
    }

    impl Node for ByLength {
        fn name(&self) -> &'static str {
            self.name
        }
        fn next(&self) -> &'static [&'static str] {
            self.next
        }
        fn process(&mut self, _: &mut Context, packets: &mut [Packet], edges: &mut [Edge]) {
            assert_eq!(packets.len(), edges.len());
            assert!(edges.iter().all(|edge| *edge == 0));
            let lengths: Vec<_> = packets.iter().map(|packet| packet.frame.length).collect();
            for (edge, length) in edges.iter_mut().zip(&lengths) {
                *edge =
                    if usize::from(*length) < self.next.len() { *length as Edge } else { CONSUMED };
            }
            self.seen.lock().unwrap().push((self.name, lengths));
        }
    }

    /// `first` splits into `left` and `right`, both of which lead to `last`.
    fn run(lengths: &[u16]) -> Vec<Seen> {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let node =
            |name, next| -> Box<dyn Node> { Box::new(ByLength { name, next, seen: seen.clone() }) };
        let nodes = vec![
            node("first", &["left", "right"]),
            node("left", &["last", "last"]),
            node("right", &["last", "last"]),
            node("last", &[]),
        ];
        let mut graph = Graph::new(Plan::new(nodes), 256).unwrap();
        assert_eq!(graph.edges().len(), 6);
        let counters = Arc::new(WorkerCounters::new(graph.names(), 0));
        let mut context = Context::new(pool(), routes().reader(), counters, 0);
        let frame = |length: &u16| Frame { length: *length, ..Frame::default() };
        graph.enter(&lengths.iter().map(frame).collect::<Vec<_>>());
        graph.run(&mut context);
        seen.lock().unwrap().clone()
    }

    #[test]
    fn a_uniform_batch_stays_together() {
        let all = vec![1, 1, 1];
        assert_eq!(run(&all), [("first", all.clone()), ("right", all.clone()), ("last", all)]);
    }

    #[test]
    fn a_split_batch_comes_together_again() {
        let expected = [
            ("first", vec![1, 0, 9, 1]),
            ("left", vec![0]),
            ("right", vec![1, 1]),
            ("last", vec![0, 1, 1]),
        ];
        assert_eq!(run(&[1, 0, 9, 1]), expected);
    }

    #[test]
    fn nodes_never_see_more_than_a_batch() {
        let sizes: Vec<_> =
            run(&[0; 100]).iter().map(|(name, lengths)| (*name, lengths.len())).collect();
        let expected = ["first", "left", "last"].map(|name| [(name, 64), (name, 36)]);
        assert_eq!(sizes, expected.concat());
        // The edges of the first part must not remain for the second.
        assert_eq!(run(&[9; 100]).len(), 2);
    }

    #[test]
    fn all_wrong_names_are_reported() {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let node =
            |name, next| -> Box<dyn Node> { Box::new(ByLength { name, next, seen: seen.clone() }) };
        let nodes = vec![node("a", &["b", "c"]), node("a", &[])];
        let errors = Graph::new(Plan::new(nodes), 1).err().unwrap();
        assert_eq!(
            errors,
            [
                GraphError::Duplicate("a"),
                GraphError::UnknownNext { node: "a", next: "b" },
                GraphError::UnknownNext { node: "a", next: "c" },
            ]
        );
        assert_eq!(Graph::new(Plan::new(vec![]), 1).err().unwrap(), [GraphError::Empty]);
    }
}

//! Counters that account for every frame: one worker writes them, any thread reads them.
//!
//! Each counter has one writer, so an addition is a relaxed load and a relaxed store, without a
//! locked bus. A reader may see the counters of one batch half updated. Sums are exact once a
//! worker is idle ([`Snapshot::is_conserved`]).

use crate::drop_reason::DropReason;
use crossbeam_utils::CachePadded;
use serde::Serialize;
use std::collections::BTreeMap;
use std::ops::Add;
use std::sync::atomic::{AtomicU64, Ordering};

/// A counter that one thread writes and any thread may read.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds to the value; only for the owning worker.
    #[inline]
    pub fn add(&self, count: u64) {
        self.set(self.get().wrapping_add(count));
    }
    /// Replaces the value; only for the owning worker.
    #[inline]
    pub fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }
    /// Returns the value.
    #[inline]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Declares counters once: the cells that their worker writes, their values, reading and adding.
macro_rules! counters {
    (
        $(#[$of_cells:meta])* $cells:ident, $(#[$of_values:meta])* $values:ident
        { $($(#[$doc:meta])* $name:ident,)* } and { $($(#[$of_more:meta])* $more:ident: $type:ty,)* }
    ) => {
        $(#[$of_cells])*
        #[derive(Debug, Default)]
        pub struct $cells {
            $($(#[$doc])* pub $name: Counter,)*
        }

        $(#[$of_values])*
        pub struct $values {
            $($(#[$doc])* pub $name: u64,)*
            $($(#[$of_more])* pub $more: $type,)*
        }

        impl $cells {
            /// Returns the values.
            fn get(&self) -> $values {
                $values { $($name: self.$name.get(),)* $($more: Default::default(),)* }
            }
        }

        impl $values {
            fn add_counts(&mut self, other: &Self) {
                $(self.$name += other.$name;)*
            }
        }
    };
}

counters! {
    /// Counters of one node.
    NodeCounters,
    /// Counters of a node, since the worker started.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
    NodeSnapshot {
        /// Frames processed.
        frames,
        /// Batches processed.
        batches,
        /// Frames of the timed runs of the node.
        timed_frames,
        /// Time-stamp counter cycles of the timed runs.
        cycles,
    } and {
        /// Name of the node.
        name: &'static str,
    }
}

counters! {
    /// Counters of frames as a whole, and of the worker's time.
    Totals,
    /// Values of the counters of one worker, or sums over several, at one moment.
    #[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
    Snapshot {
        /// Frames taken from receive rings.
        received,
        /// Frames made by the router: ICMP errors, and fragments beyond the first.
        generated,
        /// Frames accepted by transmit rings.
        forwarded,
        /// Frames handed to the kernel.
        punted,
        /// Frames that wait for a neighbour now; a level, not a count.
        held,
        /// ICMP errors not sent because of the rate limit (RFC 1812 4.3.2.8, RFC 4443 2.4 f).
        icmp_rate_limited,
        /// ICMP errors not sent because the RFCs forbid them (RFC 1812 4.3.2.7, RFC 4443 2.4 e).
        icmp_not_allowed,
        /// ICMP errors not sent because there was no free chunk or no source address.
        icmp_impossible,
        /// Neighbour requests that did not fit into the queue to the control plane.
        neighbour_requests_lost,
        /// Refused frees of chunks: free already or not of the worker's memory, a defect
        /// ([`FramePool::free`](crate::frame::FramePool::free)).
        frees_refused,
        /// Iterations of the worker loop that found frames.
        useful_iterations,
        /// Iterations of the worker loop that found no frame.
        empty_iterations,
        /// Time-stamp counter cycles of iterations that found frames.
        useful_cycles,
        /// Time-stamp counter cycles of iterations that found no frame.
        empty_cycles,
        /// Time-stamp counter cycles while the worker was blocked.
        sleeping_cycles,
        /// Number of times that the worker blocked.
        sleeps,
    } and {
        /// Dropped frames by name of the reason; reasons with a count of zero are absent.
        dropped: BTreeMap<&'static str, u64>,
        /// Counters by node, in the order of the graph.
        nodes: Vec<NodeSnapshot>,
        /// Counters by port number.
        ports: Vec<PortCounters>,
    }
}

/// Declares the counters of a port queue once: as numbers, and as the cells that its worker writes.
macro_rules! port_counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counters of a port queue since it was opened, or sums over several.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
        pub struct PortCounters {
            $($(#[$doc])* pub $name: u64,)*
            /// Frames in the receive ring at the last poll, including those taken then. This is a
            /// level, not a count.
            #[serde(skip)]
            pub waiting: u64,
        }

        impl PortCounters {
            /// Returns the counts since an earlier reading; the level is the present one.
            #[must_use]
            pub fn since(&self, before: &Self) -> Self {
                Self { $($name: self.$name.saturating_sub(before.$name),)* waiting: self.waiting }
            }
        }

        impl Add for PortCounters {
            type Output = Self;
            fn add(self, other: Self) -> Self {
                Self { $($name: self.$name + other.$name,)* waiting: self.waiting + other.waiting }
            }
        }

        /// Counters of one port queue, as the worker last read them.
        #[derive(Debug, Default)]
        pub struct PortTotals {
            $($name: Counter,)*
            waiting: Counter,
        }

        impl PortTotals {
            /// Publishes the port's counters except the backlog; only for the owning worker.
            pub fn set(&self, counters: &PortCounters) {
                $(self.$name.set(counters.$name);)*
            }

            /// Returns the values.
            fn get(&self) -> PortCounters {
                PortCounters { $($name: self.$name.get(),)* waiting: self.waiting.get() }
            }
        }
    };
}

port_counters! {
    /// Frames handed to the worker.
    received_packets,
    /// Bytes of the frames handed to the worker.
    received_bytes,
    /// Frames accepted for transmission.
    transmitted_packets,
    /// Bytes of the frames accepted for transmission.
    transmitted_bytes,
    /// Frames lost before the worker because the receive ring was full.
    receive_ring_full,
    /// Frames lost before the worker because the fill ring had no free chunk.
    fill_ring_empty,
    /// Frames rejected by the port because they were malformed or too long for a chunk.
    receive_invalid,
}

/// State of a receive queue as its worker last saw it, without a call to the driver.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Queueing {
    /// Frames that the worker received.
    pub taken: u64,
    /// Frames lost before the worker: receive ring full, or no free chunk.
    pub lost: u64,
    /// Bytes of these frames, with their link headers.
    pub bytes: u64,
    /// Frames in the ring when the worker took its last batch.
    pub waiting: u64,
}

impl PortTotals {
    /// Publishes the backlog found when a batch was taken; only for the owning worker.
    pub fn set_waiting(&self, frames: u64) {
        self.waiting.set(frames);
    }
}

/// All counters of one worker.
#[derive(Debug)]
pub struct WorkerCounters {
    /// Counters of the worker as a whole.
    pub totals: CachePadded<Totals>,
    node_names: Vec<&'static str>,
    nodes: CachePadded<Box<[NodeCounters]>>,
    drops: CachePadded<Box<[Counter]>>,
    ports: CachePadded<Box<[PortTotals]>>,
}

impl WorkerCounters {
    /// Makes counters that are all zero.
    pub fn new(node_names: Vec<&'static str>, ports: usize) -> Self {
        let nodes = node_names.iter().map(|_| NodeCounters::default()).collect::<Box<[_]>>();
        let drops = DropReason::ALL.iter().map(|_| Counter::default()).collect::<Box<[_]>>();
        let ports = (0..ports).map(|_| PortTotals::default()).collect::<Box<[_]>>();
        Self {
            totals: CachePadded::default(),
            node_names,
            nodes: nodes.into(),
            drops: drops.into(),
            ports: ports.into(),
        }
    }

    /// Counts frames dropped for one reason; only for the owning worker.
    #[inline]
    pub fn dropped(&self, reason: DropReason, count: u64) {
        self.drops[reason as usize].add(count);
    }

    /// Returns the counters of the node with this number in the graph.
    #[inline]
    pub(crate) fn node(&self, number: usize) -> &NodeCounters {
        &self.nodes[number]
    }

    /// Returns the counters of the port with this number.
    #[inline]
    pub(crate) fn port(&self, number: usize) -> &PortTotals {
        &self.ports[number]
    }

    /// Returns the state of a port's receive queue; all zero if there is no such port.
    pub fn queueing(&self, port: usize) -> Queueing {
        self.ports.get(port).map_or_else(Queueing::default, |port| Queueing {
            taken: port.received_packets.get(),
            bytes: port.received_bytes.get(),
            lost: port.receive_ring_full.get() + port.fill_ring_empty.get(),
            waiting: port.waiting.get(),
        })
    }

    /// Returns the values of all counters.
    pub fn snapshot(&self) -> Snapshot {
        let dropped = DropReason::ALL.iter().zip(&**self.drops);
        let dropped = dropped.map(|(reason, count)| (reason.name(), count.get()));
        let nodes = self.node_names.iter().zip(&**self.nodes);
        Snapshot {
            dropped: dropped.filter(|(_, count)| *count > 0).collect(),
            nodes: nodes.map(|(name, node)| NodeSnapshot { name, ..node.get() }).collect(),
            ports: self.ports.iter().map(PortTotals::get).collect(),
            ..self.totals.get()
        }
    }
}

impl Snapshot {
    /// Frames dropped for any reason.
    pub fn dropped_total(&self) -> u64 {
        self.dropped.values().sum()
    }

    /// Returns true if every frame is accounted for: received + generated = forwarded + punted +
    /// dropped + held.
    pub fn is_conserved(&self) -> bool {
        self.received + self.generated
            == self.forwarded + self.punted + self.dropped_total() + self.held
    }

    /// Adds the counters of another worker, whose graph must have the same nodes.
    pub fn merge(&mut self, other: &Self) {
        self.add_counts(other);
        for (name, count) in &other.dropped {
            *self.dropped.entry(name).or_default() += count;
        }
        self.nodes.resize(self.nodes.len().max(other.nodes.len()), NodeSnapshot::default());
        for (node, more) in self.nodes.iter_mut().zip(&other.nodes) {
            node.name = more.name;
            node.add_counts(more);
        }
        self.ports.resize(self.ports.len().max(other.ports.len()), PortCounters::default());
        for (port, more) in self.ports.iter_mut().zip(&other.ports) {
            *port = *port + *more;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn snapshots_add_up() {
        let counters = WorkerCounters::new(vec!["a", "b"], 1);
        counters.totals.received.add(3);
        counters.dropped(DropReason::NoRoute, 2);
        counters.node(1).frames.add(3);
        counters.port(0).set(&PortCounters { received_packets: 3, ..Default::default() });
        let one = counters.snapshot();
        assert!(!one.is_conserved());
        counters.totals.forwarded.add(1);
        let mut sum = counters.snapshot();
        assert!(sum.is_conserved());
        sum.merge(&one);
        assert_eq!((sum.received, sum.dropped["no-route"]), (6, 4));
        assert_eq!((sum.nodes[1].frames, sum.ports[0].received_packets), (6, 6));
    }
}

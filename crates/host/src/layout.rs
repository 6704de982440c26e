//! Layout of workers: their CPUs, and the queues of each card that they serve.

use wattline_policy::Queue;

/// A port of the router.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Port {
    /// Its Linux interface. None for capture files, which have one queue and no knobs, and for
    /// removed ports, which have no queue.
    pub interface: Option<String>,
    /// Its receive queues.
    pub queues: u32,
    /// Core of each queue's interrupts, by number of the queue. Empty for a router: its workers
    /// share the queues as described at [`Layout`].
    pub cores: Vec<usize>,
}

impl Port {
    /// Returns true if this is the place of a removed port: no packets arrive there.
    pub fn is_vacant(&self) -> bool {
        self.interface.is_none() && self.queues == 0
    }
}

/// The workers of a router and their queues, or the cores of a machine whose kernel serves them.
///
/// Worker q serves the queues q, q + workers, q + 2 workers … of each port. A policy sees all
/// queues of a port that one worker serves as one queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// Number of workers.
    pub workers: usize,
    /// The CPU of each worker; empty when they are not pinned.
    pub cpus: Vec<u32>,
    /// The ports, by their number.
    pub ports: Vec<Port>,
}

impl Layout {
    /// Returns the worker that serves a queue of a port, or the core of its interrupts.
    pub fn worker(&self, port: usize, queue: u32) -> usize {
        let fixed = self.ports.get(port).and_then(|port| port.cores.get(queue as usize));
        fixed.copied().unwrap_or(queue as usize % self.workers.max(1))
    }

    /// Returns the queues of a port that a worker serves.
    pub fn queues(&self, port: usize, worker: usize) -> impl Iterator<Item = u32> {
        let count = self.ports.get(port).map_or(0, |port| port.queues);
        (0..count).filter(move |queue| self.worker(port, *queue) == worker)
    }

    /// Returns the queues as a policy sees them: by port, then by worker.
    pub fn platform_queues(&self) -> Vec<Queue> {
        let pairs = (0..self.ports.len())
            .flat_map(|port| (0..self.workers).map(move |core| Queue { port, core }));
        pairs.filter(|queue| self.queues(queue.port, queue.core).next().is_some()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_queue_has_one_worker() {
        let port = |queues| Port { interface: Some("eth0".into()), queues, cores: Vec::new() };
        let layout = Layout { workers: 3, cpus: vec![], ports: vec![port(8), port(1)] };
        assert_eq!(layout.queues(0, 1).collect::<Vec<_>>(), [1, 4, 7]);
        assert_eq!(layout.worker(0, 7), 1);
        let mut all: Vec<u32> = (0..3).flat_map(|worker| layout.queues(0, worker)).collect();
        all.sort_unstable();
        assert_eq!(all, (0..8).collect::<Vec<u32>>());
        let seen: Vec<_> = layout.platform_queues().iter().map(|q| (q.port, q.core)).collect();
        assert_eq!(seen, [(0, 0), (0, 1), (0, 2), (1, 0)]);
        assert_eq!(layout.queues(9, 0).count(), 0);
    }

    #[test]
    fn unserved_queues_belong_to_the_cores_of_their_interrupts() {
        let port = Port { interface: Some("eth0".into()), queues: 3, cores: vec![2, 0, 2] };
        let layout = Layout { workers: 3, cpus: vec![0, 1, 2], ports: vec![port] };
        assert_eq!(layout.queues(0, 2).collect::<Vec<_>>(), [0, 2]);
        let seen: Vec<_> = layout.platform_queues().iter().map(|q| q.core).collect();
        assert_eq!(seen, [0, 2]);
    }
}

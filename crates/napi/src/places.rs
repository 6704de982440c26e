//! Queue, interrupts and CPUs of NAPI instances.

use crate::drivers::{Work, meaning};
use wattline_knobs::affinity;
use wattline_linux::sysfs::Tree;
use wattline_linux::{ethtool, napi};
use wattline_xdp::polls::PolledInstance;

/// Receive queue that an instance serves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Number of the instance.
    pub napi: u32,
    /// The interface.
    pub interface: String,
    /// The queue, the lowest one if the instance serves several.
    pub queue: u32,
    /// Its interrupts, including its transmit queue's; empty for virtual devices.
    pub interrupts: Vec<u32>,
    /// CPUs to which its interrupts are sent now.
    pub cpus: Vec<u32>,
    /// The kernel thread that polls it, if it has one.
    pub thread: Option<u32>,
    /// Meaning of its driver's `work`; `None` if the driver was not examined.
    pub work: Option<&'static Work>,
}

/// The receive queues of some interfaces. They change, with the numbers of their instances, when an
/// interface goes down and up or gets another number of queues.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Places {
    places: Vec<Place>,
    /// True if the backlogs of the CPUs count, too.
    backlogs: bool,
}

impl Places {
    /// Finds the queues of these interfaces of this thread's network namespace. Linux lists
    /// instances since version 6.8. On older kernels they are taken from `polled`: an interface's
    /// instances are numbered in the order of its queues. If their number differs from that of the
    /// queues, they cannot be assigned.
    pub fn find(tree: &Tree, interfaces: &[&str], polled: &[PolledInstance]) -> Self {
        let mut places = Vec::new();
        for interface in interfaces {
            let work = ethtool::driver(interface).ok().and_then(|driver| meaning(&driver));
            let listed = napi::instances(interface);
            for instance in listed.unwrap_or_else(|_| by_order(tree, interface, polled)) {
                let Some(queue) = instance.queues.iter().min().copied() else { continue };
                let mut interrupts = affinity::interrupts(tree, interface, queue);
                if interrupts.is_empty() {
                    interrupts.extend(instance.interrupt);
                }
                places.push(Place {
                    napi: instance.id,
                    interface: (*interface).to_owned(),
                    queue,
                    cpus: cpus(tree, &interrupts),
                    interrupts,
                    thread: instance.thread,
                    work,
                });
            }
        }
        places.sort_by(|a, b| (&a.interface, a.queue).cmp(&(&b.interface, b.queue)));
        Self { places, backlogs: false }
    }

    /// Adds the backlogs of the CPUs, the queues of packets that RPS spreads.
    #[must_use]
    pub fn and_backlogs(self) -> Self {
        Self { backlogs: true, ..self }
    }

    /// Returns the numbers of the instances; 0 for backlogs, which have none.
    pub fn instances(&self) -> impl Iterator<Item = u32> {
        let places = self.places.iter().map(|place| place.napi);
        places.chain(self.backlogs.then_some(0))
    }

    /// Returns the queues, by interface and number.
    pub fn all(&self) -> &[Place] {
        &self.places
    }

    /// Returns the queue that an instance serves.
    pub fn place(&self, napi: u32) -> Option<&Place> {
        self.places.iter().find(|place| place.napi == napi)
    }
}

/// Returns the CPUs to which these interrupts are sent.
fn cpus(tree: &Tree, interrupts: &[u32]) -> Vec<u32> {
    let effective = |interrupt: &u32| {
        tree.cpus(format!("/proc/irq/{interrupt}/effective_affinity_list")).unwrap_or_default()
    };
    let mut cpus: Vec<u32> = interrupts.iter().flat_map(effective).collect();
    cpus.sort_unstable();
    cpus.dedup();
    cpus
}

/// Returns the polled instances of an interface, in the order of its queues.
fn by_order(tree: &Tree, interface: &str, polled: &[PolledInstance]) -> Vec<napi::Instance> {
    let folder = format!("/sys/class/net/{interface}");
    let Ok(ifindex) = tree.number::<u32>(format!("{folder}/ifindex")) else { return Vec::new() };
    let own = namespace();
    let here = |it: &&PolledInstance| it.ifindex == ifindex && own == Some(it.namespace);
    let mut ids: Vec<u32> = polled.iter().filter(here).map(|it| it.id.napi).collect();
    ids.retain(|id| *id != 0);
    ids.sort_unstable();
    if ids.len() != tree.numbered(format!("{folder}/queues"), "rx-").len() {
        return Vec::new();
    }
    let instance =
        |(id, queue)| napi::Instance { id, queues: vec![queue], interrupt: None, thread: None };
    ids.into_iter().zip(0..).map(instance).collect()
}

/// Returns the number of this thread's network namespace.
fn namespace() -> Option<u32> {
    wattline_linux::namespace::own_number().ok()?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattline_xdp::polls::InstanceId;

    #[test]
    fn polled_instances_are_queues_in_order_if_there_are_as_many() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("sys/class/net/eth0");
        for queue in 0..2 {
            std::fs::create_dir_all(folder.join(format!("queues/rx-{queue}"))).unwrap();
        }
        std::fs::write(folder.join("ifindex"), "7\n").unwrap();
        let tree = Tree::at(root.path());
        let polled = |napi, ifindex, namespace| PolledInstance {
            id: InstanceId { napi, ifindex: 0 },
            ifindex,
            namespace,
            cpus: Vec::new(),
        };
        let own = namespace().unwrap();
        // Instances of another interface, of another namespace, and without a number.
        let mut all = vec![polled(9, 8, own), polled(10, 7, own + 1), polled(0, 7, own)];
        all.extend([polled(12, 7, own), polled(11, 7, own)]);
        let found = by_order(&tree, "eth0", &all);
        let found: Vec<_> = found.into_iter().map(|it| (it.id, it.queues)).collect();
        assert_eq!(found, [(11, vec![0]), (12, vec![1])]);
        all.pop();
        assert!(by_order(&tree, "eth0", &all).is_empty());
    }
}

//! Affinity of the queues' interrupts: each on the CPU of the worker that serves the queue.
//! Otherwise the packets of a core that a policy keeps busy or asleep would wake another CPU.

use super::layout::Layout;
use super::writes::Writes;
use wattline_governor::machine::Taken;
use wattline_knobs::{Change, Knobs, affinity};
use wattline_linux::sysfs::Tree;

/// Target CPUs of interrupts; set once, when the governor begins.
#[derive(Default)]
pub(super) struct Affinity {
    changes: Vec<Change>,
}

impl Affinity {
    /// Finds the interrupts; adds what is missing to `notes`.
    pub fn find(tree: &Tree, knobs: &impl Knobs, layout: &Layout, notes: &mut Vec<String>) -> Self {
        let mut changes = Vec::new();
        for (number, port) in layout.ports.iter().enumerate() {
            let Some(interface) = &port.interface else { continue };
            let mut unknown = 0;
            for queue in 0..port.queues {
                let worker = layout.worker(number, queue);
                let Some(&cpu) = layout.cpus.get(worker) else { continue };
                let own = affinity::interrupts(tree, interface, queue);
                unknown += usize::from(own.is_empty());
                for interrupt in own {
                    if affinity::is_managed(tree, interrupt) {
                        notes.push(format!(
                            "interrupts: the kernel manages {interrupt} of {interface}, which stays"
                        ));
                        continue;
                    }
                    match knobs.read(&affinity::setting(interrupt)) {
                        Ok(_) => {
                            let why = format!(
                                "queue {queue} of {interface} is core {worker}'s, on CPU {cpu}"
                            );
                            changes.push(affinity::give(interrupt, cpu, why));
                        }
                        Err(why) => notes.push(format!("interrupts: {why}")),
                    }
                }
            }
            if unknown > 0 {
                notes.push(format!(
                    "interrupts: those of {unknown} of {} queues of {interface} are not known; \
                     they stay on their CPUs",
                    port.queues
                ));
            }
        }
        Self { changes }
    }

    /// Moves each interrupt to its CPU and reports failures. An interrupt that cannot be moved
    /// (managed by the kernel, CPU off-line) does not keep the others from moving.
    pub fn set<K: Knobs>(&self, writes: &mut Writes<K>) {
        for change in &self.changes {
            match writes.make(std::slice::from_ref(change)) {
                Taken::Done => {}
                other => tracing::warn!("governor: {}: {other:?}", change.setting),
            }
        }
    }
}

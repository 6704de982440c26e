//! Interrupts of queues with a polling worker: the kernel leaves them off as long as the worker
//! keeps polling (Documentation/networking/napi.rst, "IRQ mitigation").

use super::layout::Layout;
use super::writes::{Writes, worse};
use wattline_governor::machine::Taken;
use wattline_knobs::{Change, Knobs, Setting};
use wattline_linux::napi::Napi;
use wattline_policy::Wait;

/// Settings of a queue while its worker polls: two polls may find nothing, and a timer polls the
/// queue if the worker has not for 200 us. The values are from the kernel documentation; the
/// interrupt stays off for 20 ms at most.
const POLLING: [(Napi, &str); 3] = [
    (Napi::DeferHardIrqs, "2"),
    (Napi::GroFlushTimeout, "200000"),
    (Napi::IrqSuspendTimeout, "20000000"),
];

/// The NAPI instances of the workers' queues.
pub(super) struct Polling {
    /// Worker of the queue, setting, and its values while the worker waits for interrupts and while
    /// it polls.
    settings: Vec<(usize, Setting, String, &'static str)>,
}

impl Polling {
    /// Finds the settable queues; none if the router does not ask for busy polling.
    pub fn find(
        knobs: &impl Knobs,
        layout: &Layout,
        busy_poll: bool,
        notes: &mut Vec<String>,
    ) -> Self {
        let mut settings = Vec::new();
        let pairs = (0..layout.workers)
            .flat_map(|worker| (0..layout.ports.len()).map(move |port| (worker, port)));
        for (worker, port) in pairs.filter(|_| busy_poll) {
            let Some(interface) = &layout.ports[port].interface else { continue };
            for queue in layout.queues(port, worker) {
                for (setting, polling) in POLLING {
                    let setting = wattline_knobs::polling::setting(interface, queue, setting);
                    match knobs.read(&setting) {
                        Ok(found) => settings.push((worker, setting, found, polling)),
                        Err(why) => notes.push(format!("polling: {why}")),
                    }
                }
            }
        }
        Self { settings }
    }

    /// Applies a worker's new wait mode.
    pub fn set<K: Knobs>(&self, worker: usize, wait: Wait, writes: &mut Writes<K>) -> Taken {
        let interrupt = wait == Wait::Interrupt;
        let own = self.settings.iter().filter(|(of, ..)| *of == worker);
        let changes = own.map(|(_, setting, found, polling)| Change {
            setting: setting.clone(),
            value: if interrupt { found.clone() } else { (*polling).to_string() },
            why: if interrupt {
                format!("worker {worker} waits for interrupts")
            } else {
                format!("worker {worker} polls, so interrupts stay off while it keeps polling")
            },
        });
        // One by one: kernels differ in the ones that they have.
        changes.fold(Taken::Done, |worst, change| worse(worst, writes.make(&[change])))
    }
}

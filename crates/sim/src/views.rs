//! Queues and cores as policies are shown them.

use wattline_cores::{Core, Ring, Sink};
use wattline_policy::{CoreView, Platform, QueueView};
use wattline_units::Span;

/// The last state shown of each queue and core.
pub(crate) struct Views {
    pub queues: Vec<QueueView>,
    pub cores: Vec<CoreView>,
}

impl Views {
    pub fn new(platform: &Platform) -> Self {
        Self {
            queues: vec![QueueView::default(); platform.queues.len()],
            cores: vec![CoreView::default(); platform.cores],
        }
    }

    /// Brings everything up to date.
    pub fn show_all(&mut self, now: u64, cores: &mut [Core], sink: &mut Sink) {
        let count = cores.len();
        for (core, view) in cores.iter_mut().zip(&mut self.cores) {
            core.book(now, sink);
            core.admit(now);
            *view = CoreView {
                useful: Span::from_picos(core.spent.totals.useful),
                empty: Span::from_picos(core.spent.totals.empty),
                asleep: Span::from_picos(core.spent.totals.idle),
                sleeps: core.counts.sleeps,
                packets: core.counts.packets,
                idle_state: core.idle_state(now),
            };
            for (port, ring) in core.rings.iter().enumerate() {
                self.queues[port * count + core.number] = queue_view(ring);
            }
        }
    }

    /// Brings one queue up to date; its core has just looked at it.
    pub fn show_queue(&mut self, queue: usize, cores: &[Core]) {
        let (port, core) = (queue / cores.len(), queue % cores.len());
        self.queues[queue] = queue_view(&cores[core].rings[port]);
    }
}

fn queue_view(ring: &Ring) -> QueueView {
    QueueView {
        fill: u32::try_from(ring.fill()).unwrap_or(u32::MAX),
        arrivals: ring.arrivals,
        drops: ring.drops,
    }
}

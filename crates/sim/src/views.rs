//! Views of queues and cores for policies.

use wattline_cores::{Core, Sink};
use wattline_policy::{CoreView, Platform, QueueView};
use wattline_units::Hertz;

/// The latest view of each queue and core.
pub(crate) struct Views {
    pub queues: Vec<QueueView>,
    pub cores: Vec<CoreView>,
    frequencies: Vec<Hertz>,
    /// True if the waiting packets are visible, which they are not if the kernel polls.
    waiting: bool,
}

impl Views {
    pub fn new(platform: &Platform) -> Self {
        Self {
            queues: vec![QueueView::default(); platform.queues.len()],
            cores: vec![CoreView::default(); platform.cores],
            frequencies: platform.frequencies.clone(),
            waiting: platform.can.sees.oldest,
        }
    }

    /// Updates all views.
    pub fn show_all(&mut self, now: u64, cores: &mut [Core], sink: &mut Sink) {
        let count = cores.len();
        for (core, view) in cores.iter_mut().zip(&mut self.cores) {
            core.book(now, sink);
            core.admit(now);
            *view = core.view(now, &self.frequencies);
            for (port, ring) in core.rings.iter().enumerate() {
                let view = &mut self.queues[port * count + core.number];
                *view = ring.view(now);
                if !self.waiting {
                    (view.fill, view.oldest) = (0, None);
                }
            }
        }
    }

    /// Updates the view of one queue, whose core has just polled it.
    pub fn show_queue(&mut self, now: u64, queue: usize, cores: &[Core]) {
        let (port, core) = (queue / cores.len(), queue % cores.len());
        if !self.waiting {
            return;
        }
        self.queues[queue] = cores[core].rings[port].view(now);
    }
}

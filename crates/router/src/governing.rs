//! A governor while ports come and go. What it governs is fixed as long as it runs: its cores, queues
//! and cards. So it ends before they change, which gives every setting back, and another begins over
//! what is there then. Workers and programs forward meanwhile.

use super::Router;
use super::kernel::KernelSide;
use super::power::Power;
use super::xdp_forward;
use crate::config::Config;
use std::time::Instant;
use wattline_xdp::ForwardedByCpu;

/// What counts the frames that XDP programs forward beside workers, for a governor. Where a port's
/// interface makes copies needless, workers forward all.
pub(super) fn forwarded(
    config: &Config,
    kernel: Option<&KernelSide>,
    zero_copy: bool,
) -> Vec<Option<ForwardedByCpu>> {
    let by_xdp = xdp_forward::obstacles(config, zero_copy).is_empty();
    let programs = kernel.filter(|_| by_xdp);
    programs.map(|kernel| kernel.forwarded(config.ports.len())).unwrap_or_default()
}

impl Router {
    /// Has workers wait as the configuration says, unless a governor says how.
    pub(super) fn leave_workers_to_governor(&self) {
        if !self.power.as_ref().is_some_and(Power::governs) {
            self.workers.configure(&self.config.router);
        }
    }

    /// Ends the governor before ports change. [`Self::resume_governor`] has to follow.
    pub(super) fn pause_governor(&mut self) {
        let Some(power) = &mut self.power else { return };
        power.pause();
        // Those that were parked serve again: the interfaces send to all of them now.
        self.workers.set_active(self.workers.count());
        self.leave_workers_to_governor();
    }

    /// Has a governor begin over the ports as they are now.
    pub(super) fn resume_governor(&mut self) {
        let Self { power: Some(power), config, kernel, workers, attachments, .. } = self else {
            return;
        };
        let forwarded = forwarded(config, kernel.as_ref(), self.zero_copy);
        power.resume(config, attachments.queues(config), workers, forwarded);
    }

    /// Has it begin anew where an interface has other queues now, or where it waits.
    pub(super) fn look_at_governor(&mut self) {
        let Some(power) = &self.power else { return };
        let queues = self.attachments.queues(&self.config);
        if power.is_out_of_date(&queues, Instant::now()) {
            self.pause_governor();
            self.resume_governor();
        }
    }

    /// What a reload has to say of it.
    pub(super) fn governor_waits(&self) -> Option<String> {
        let why = self.power.as_ref()?.waits_because()?;
        Some(format!("[power]: the governor waits: {why}"))
    }
}

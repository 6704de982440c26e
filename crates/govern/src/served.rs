//! This machine with its sources of latency, as what a governor drives.

use crate::latency::Feed;
use std::sync::{Arc, Mutex, PoisonError};
use wattline_governor::energy::Energy;
use wattline_governor::machine::{Machine, Taken, View};
use wattline_governor::pace::Pace;
use wattline_governor::step::Step;
use wattline_host::ThisMachine;
use wattline_policy::{OperatingPoint, Platform};
use wattline_units::Time;

/// A machine whose services somebody measures.
pub(crate) struct Served {
    host: ThisMachine,
    feed: Arc<Mutex<Feed>>,
}

impl Served {
    pub fn new(host: ThisMachine, feed: Arc<Mutex<Feed>>) -> Self {
        Self { host, feed }
    }

    pub fn into_host(self) -> ThisMachine {
        self.host
    }
}

impl Machine for Served {
    fn platform(&self) -> &Platform {
        self.host.platform()
    }
    fn now(&self) -> Time {
        self.host.now()
    }
    fn present(&mut self) -> OperatingPoint {
        self.host.present()
    }
    fn observe(&mut self, now: Time, view: &mut View) {
        self.host.observe(now, view);
        view.latency = self.feed.lock().unwrap_or_else(PoisonError::into_inner).look(now);
    }
    fn take(&mut self, step: &Step) -> Taken {
        self.host.take(step)
    }
    fn held(&mut self, step: &Step) -> Option<Step> {
        self.host.held(step)
    }
    fn writes(&self, step: &Step) -> u32 {
        self.host.writes(step)
    }
    fn pace(&self) -> Pace {
        self.host.pace()
    }
    fn settle(&mut self) {
        Machine::settle(&mut self.host);
    }
    fn energy(&mut self, now: Time) -> Energy {
        self.host.energy(now)
    }
    fn entries_moved(&self) -> u64 {
        self.host.entries_moved()
    }
}

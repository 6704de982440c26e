//! A policy that plays a schedule decided beforehand.

use crate::foresight::{Moment, moments};
use crate::point::FixedPoint;
use wattline_policy::{AskAgain, Looks, Observation, OperatingPoint, Platform, Policy, Wait};
use wattline_server::ServerModel;
use wattline_units::Time;

/// Packets per batch, so few that the ports of a core take short turns and the longest-waiting
/// packet is soon served. The model of a core has no cost per batch.
const BATCH: u32 = 8;
/// A full share of the table, and one that mostly rounds to no entry.
const FULL: u8 = u8::MAX;
const LEAST: u8 = 1;

/// Operating points with their start times. Slow changes begin early: cores are awake and the
/// frequency has risen when packets arrive.
pub struct Script {
    moments: Vec<Moment>,
    next: usize,
}

impl Script {
    /// Prepares points in order of time; the first holds from the start.
    pub fn new(points: &[(Time, FixedPoint)], server: &ServerModel, cores: usize) -> Self {
        Self { moments: moments(points, server, cores), next: 0 }
    }
}

impl Policy for Script {
    fn looks_at(&self) -> Looks {
        Looks::TRIGGER
    }

    fn decide(&mut self, seen: &Observation<'_>, point: &mut OperatingPoint) -> AskAgain {
        let due =
            self.moments[self.next..].iter().take_while(|moment| moment.at <= seen.now).count();
        self.next += due;
        if due > 0 {
            self.moments[self.next - 1].show(seen.platform, point);
        }
        AskAgain::at(self.moments.get(self.next).map_or(Time::NEVER, |moment| moment.at))
    }
}

impl Moment {
    fn show(&self, platform: &Platform, point: &mut OperatingPoint) {
        let wanted = &self.point;
        point.set_active(wanted.cores, wanted.nap, platform.deepest());
        point.set_frequency(wanted.frequency);
        point.set_wait(wanted.wait);
        point.set_moderation(platform, wanted.moderation);
        point.batch = BATCH;
        point.weights.fill(FULL);
        for (core, state) in self.parked.iter().enumerate().skip(wanted.cores) {
            point.cores[core].idle_limit = *state;
        }
        // A core that sleeps by a timer would wake only when it expires; a polling core wakes at
        // once.
        for core in self.waking.iter() {
            point.cores[core].wait = Wait::Poll;
            point.weights[core] = LEAST;
        }
        point.active = point.active.union(self.waking);
    }
}

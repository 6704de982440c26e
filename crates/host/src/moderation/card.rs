//! A card whose interrupts can be moderated.

use super::deferral::deferral;
use super::found::{self, Found};
use super::means::Means;
use crate::layout::Layout;
use std::collections::BTreeSet;
use wattline_knobs::{AccessError, Knobs, Setting, moderation};
use wattline_linux::ethtool::Coalesce;
use wattline_linux::napi::Napi;
use wattline_linux::sysfs::Tree;
use wattline_units::Span;

/// Range of periods that drivers accept besides 0, in microseconds; ethtool does not report it
/// (drivers/net/ethernet: igb's and igc's `IGB_MIN_ITR_USECS`, `IGB_MAX_ITR_USECS`, where 1 to 3
/// choose an adaptive mode; i40e's and ice's `*_MAX_ITR`; ixgbe's 12 bits of 2 us each, as Co-PI
/// uses them).
const RANGES: [(&str, u64, u64); 6] = [
    ("igb", 10, 8191),
    ("igc", 10, 8191),
    ("ixgbe", 2, 1022),
    ("i40e", 2, 8160),
    ("ice", 2, 8160),
    ("e1000e", 10, 10_000),
];
/// For any other driver: the range that all known ones accept.
const COMMON: (u64, u64) = (1, 1000);

/// A card.
pub(super) struct Card {
    pub interface: String,
    pub means: Means,
    pub shortest: u64,
    pub longest: u64,
    /// Moderation by the driver before the first write.
    pub found: Vec<Found>,
    /// Queues that hold a requested time, or the card as a whole. Tracked singly: a queue may be
    /// left to its driver while others are not.
    pub set: BTreeSet<Option<u32>>,
}

impl Card {
    /// Finds the settings of an interface, or the reason for their absence.
    pub fn find(
        tree: &Tree,
        knobs: &impl Knobs,
        interface: &str,
        layout: &Layout,
        port: usize,
    ) -> Result<Self, AccessError> {
        let means = Means::find(knobs, interface)?;
        let (shortest, longest) = match means {
            Means::Deferral => COMMON,
            Means::Queues | Means::Card => range_of(tree, interface),
        };
        let found = found::read(knobs, interface, means, layout, port);
        let interface = interface.to_owned();
        Ok(Self { interface, means, shortest, longest, found, set: BTreeSet::new() })
    }

    /// Switches its queues to NAPI's deferral.
    pub fn defer(&mut self, knobs: &impl Knobs, layout: &Layout, port: usize) {
        self.means = Means::Deferral;
        self.found = found::read(knobs, &self.interface, self.means, layout, port);
        self.set = BTreeSet::new();
    }

    /// Returns the present time between interrupts of one of its queues.
    pub fn held(&self, queue: Option<u32>, knobs: &impl Knobs) -> Option<Span> {
        let setting = match self.means {
            Means::Queues => moderation::queue_setting(&self.interface, queue?, Coalesce::RxUsecs),
            Means::Card => moderation::setting(&self.interface, Coalesce::RxUsecs),
            Means::Deferral => {
                let read = |setting| knobs.read(&deferral(&self.interface, queue?, setting)).ok();
                let nanos = read(Napi::GroFlushTimeout)?.parse().ok()?;
                let defers = read(Napi::DeferHardIrqs)? != "0";
                return Some(if defers { Span::from_nanos(nanos) } else { Span::ZERO });
            }
        };
        knobs.read(&setting).ok()?.parse().ok().map(Span::from_micros)
    }

    /// Returns true if these queues hold all values that the driver had.
    pub fn is_as_found(&self, own: &[u32], knobs: &impl Knobs) -> bool {
        let concerns = |found: &&Found| found.queue.is_none_or(|queue| own.contains(&queue));
        let values = self.found.iter().filter(concerns).flat_map(|found| &found.values);
        let holds =
            |(setting, value): &(Setting, String)| knobs.read(setting).is_ok_and(|v| v == *value);
        let mut values = values.peekable();
        values.peek().is_some() && values.all(holds)
    }

    /// Rounds to whole microseconds that the driver accepts.
    pub fn round(&self, period: Span) -> u64 {
        match period.as_picos().div_ceil(1_000_000) {
            0 => 0,
            micros => micros.clamp(self.shortest, self.longest),
        }
    }
}

fn range_of(tree: &Tree, interface: &str) -> (u64, u64) {
    let driver = crate::access::driver(tree, interface).unwrap_or_default();
    let known = RANGES.iter().find(|(name, ..)| *name == driver);
    known.map_or(COMMON, |(_, shortest, longest)| (*shortest, *longest))
}

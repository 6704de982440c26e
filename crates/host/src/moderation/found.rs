//! Moderation of a queue, or of a card as a whole, before the first write.

use super::deferral::deferral;
use super::means::Means;
use crate::layout::Layout;
use wattline_knobs::{Change, Knobs, Setting, moderation};
use wattline_linux::ethtool::Coalesce;
use wattline_linux::napi::Napi;
use wattline_units::Span;

/// Moderation of a queue, or of a card as a whole, before the first write.
pub(super) struct Found {
    pub queue: Option<u32>,
    /// The driver's time; none with NAPI's deferral.
    pub period: Option<Span>,
    /// In the order of writing.
    pub values: Vec<(Setting, String)>,
}

impl Found {
    /// Returns the writes that restore it.
    pub fn changes(&self, interface: &str) -> Vec<Change> {
        let why = format!("{interface} is moderated as it was before");
        let change = |(setting, value): &(Setting, String)| Change {
            setting: setting.clone(),
            value: value.clone(),
            why: why.clone(),
        };
        self.values.iter().map(change).collect()
    }
}

/// Reads the moderation of each settable queue, or of the card.
pub(super) fn read(
    knobs: &impl Knobs,
    interface: &str,
    means: Means,
    layout: &Layout,
    port: usize,
) -> Vec<Found> {
    let value = |setting: Setting| {
        let value = knobs.read(&setting).ok()?;
        Some((setting, value))
    };
    let read = |queue: Option<u32>| {
        let of = |parameter| match queue {
            Some(queue) => value(moderation::queue_setting(interface, queue, parameter)),
            None => value(moderation::setting(interface, parameter)),
        };
        let micros = of(Coalesce::RxUsecs)?;
        let period = micros.1.parse().ok().map(Span::from_micros);
        // The time first: some drivers reject it while adaptive moderation is on.
        Some(Found { queue, period, values: vec![micros, of(Coalesce::AdaptiveRx)?] })
    };
    let deferred = |queue| {
        let of = |setting| value(deferral(interface, queue, setting));
        let (time, polls) = (of(Napi::GroFlushTimeout)?, of(Napi::DeferHardIrqs)?);
        // In the order of `defer`.
        let values = if polls.1 == "0" { vec![polls, time] } else { vec![time, polls] };
        Some(Found { queue: Some(queue), period: None, values })
    };
    let queues = (0..layout.workers).flat_map(|core| layout.queues(port, core));
    match means {
        Means::Queues => queues.filter_map(|queue| read(Some(queue))).collect(),
        Means::Card => read(None).into_iter().collect(),
        Means::Deferral => queues.filter_map(deferred).collect(),
    }
}

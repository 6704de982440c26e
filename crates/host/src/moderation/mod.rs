//! Interrupt moderation: by queue if the driver can, otherwise by card, otherwise by deferral.
//!
//! A driver without moderation (veth, virtio_net) leaves it to NAPI: with `defer-hard-irqs`, a
//! timer polls a queue again `gro-flush-timeout` after a poll that found packets, and its interrupt
//! stays off until a poll finds none (Documentation/networking/napi.rst, "Software IRQ
//! coalescing"). Interrupts thus keep that distance under load, and the first packet after a
//! silence does not wait.

mod card;
mod deferral;
mod found;
mod means;
mod want;

pub(super) use want::Want;

use super::layout::Layout;
use super::writes::{Writes, worse};
use card::Card;
use deferral::{defer, defers};
use means::Means;
use std::collections::BTreeMap;
use wattline_governor::machine::Taken;
use wattline_knobs::{AccessError, Change, Knobs, Setting, moderation};
use wattline_linux::ethtool::Coalesce;
use wattline_linux::privileges::Rights;
use wattline_linux::sysfs::Tree;
use wattline_policy::Queue;
use wattline_units::Span;

/// The moderation of all cards.
pub(super) struct Moderation {
    pub can_set: bool,
    /// Shortest and longest time that all cards accept.
    pub range: (Span, Span),
    /// Shortest time of any queue before the first write.
    pub found: Option<Span>,
    cards: BTreeMap<usize, Card>,
    /// By number of the queue as a policy sees it.
    queues: Vec<Queue>,
    wants: Vec<Want>,
    /// True if cards without the knob are skipped; otherwise all must have it.
    partial: bool,
    /// Cards that turned out not to be settable since this was last emptied, and the fallback used
    /// there.
    pub refused: Vec<String>,
}

impl Moderation {
    /// Finds the settable cards; adds what is missing to `notes`.
    pub fn find(
        tree: &Tree,
        knobs: &impl Knobs,
        layout: &Layout,
        rights: Rights,
        partial: bool,
        notes: &mut Vec<String>,
    ) -> Self {
        let mut cards = BTreeMap::new();
        let mut missing = layout.ports.is_empty();
        for (port, at) in layout.ports.iter().enumerate() {
            let Some(interface) = &at.interface else {
                missing |= !at.is_vacant();
                continue;
            };
            match Card::find(tree, knobs, interface, layout, port) {
                Ok(card) => drop(cards.insert(port, card)),
                Err(why) => {
                    missing = true;
                    notes.push(format!("interrupt moderation: {why}"));
                }
            }
        }
        let longest = cards.values().map(|card| card.longest).min().unwrap_or(0);
        let queues = layout.platform_queues();
        let all = cards.values().flat_map(|card: &Card| &card.found);
        let found = all.filter_map(|found| found.period).min();
        Self {
            found,
            can_set: (!missing || partial && !cards.is_empty()) && rights.set_cards,
            partial,
            refused: Vec::new(),
            range: (Span::ZERO, Span::from_micros(longest)),
            cards,
            wants: vec![Want::Every(Span::ZERO); queues.len()],
            queues,
        }
    }

    /// Describes the moderation of a card.
    pub fn means(&self, port: usize) -> &'static str {
        match self.cards.get(&port).map(|card| card.means) {
            Some(Means::Queues) => "each moderated",
            Some(Means::Card) => "moderated together",
            Some(Means::Deferral) => "deferred by NAPI",
            None => "not moderated",
        }
    }

    /// Returns the present time between a queue's interrupts.
    pub fn held(&self, queue: usize, layout: &Layout, knobs: &impl Knobs) -> Option<Span> {
        let at = self.queues.get(queue)?;
        let own = layout.queues(at.port, at.core).next();
        self.cards.get(&at.port)?.held(own, knobs)
    }

    /// Returns true if a queue holds all values that its driver had.
    pub fn is_as_found(&self, queue: usize, layout: &Layout, knobs: &impl Knobs) -> bool {
        let Some(at) = self.queues.get(queue) else { return false };
        let Some(card) = self.cards.get(&at.port) else { return false };
        let own: Vec<u32> = layout.queues(at.port, at.core).collect();
        card.is_as_found(&own, knobs)
    }

    /// Sets the time between a queue's interrupts, or restores the moderation as found. A card with
    /// one time for all its queues gets the shortest requested; at equal times, a fixed time takes
    /// precedence over the driver's own logic, which would move it.
    pub fn set<K: Knobs>(
        &mut self,
        number: usize,
        wanted: Want,
        layout: &Layout,
        writes: &mut Writes<K>,
    ) -> Taken {
        let (Some(want), Some(at)) = (self.wants.get_mut(number), self.queues.get(number).copied())
        else {
            return Taken::Failed { why: format!("there is no queue {number}") };
        };
        *want = wanted;
        let Some(card) = self.cards.get_mut(&at.port) else {
            if self.partial {
                return Taken::Done;
            }
            return Taken::Failed { why: format!("port {} has no moderation", at.port) };
        };
        let (own, want) = if card.means != Means::Card {
            (layout.queues(at.port, at.core).map(Some).collect(), wanted)
        } else {
            let wants = self.queues.iter().zip(&self.wants);
            let wants = wants.filter(|(q, _)| q.port == at.port).map(|(_, want)| *want);
            let had = card.found.first().and_then(|found| found.period);
            let period = |want: &Want| match want {
                Want::Every(period) => *period,
                Want::AsFound(period) => had.unwrap_or(*period),
            };
            let shortest = wants.min_by_key(|want| (period(want), want.is_as_found()));
            (vec![None], shortest.unwrap_or(wanted))
        };
        let period = want.period();
        let wait = Span::from_micros(card.round(period));
        let mut outcome = Taken::Done;
        for queue in own {
            let found = card.found.iter().find(|found| found.queue == queue);
            let changes = match (card.means, found.filter(|_| want.is_as_found()), queue) {
                (_, Some(found), _) => {
                    card.set.remove(&queue);
                    Ok(found.changes(&card.interface))
                }
                (Means::Deferral, None, Some(queue)) => {
                    Ok(defer(&card.interface, queue, card.round(period)))
                }
                (_, None, _) => {
                    card.set.insert(queue);
                    let read = |one: &Setting| writes.knobs.read(one);
                    moderation::receive(read, &card.interface, queue, wait)
                }
            };
            let taken = match changes {
                Ok(changes) => writes.make(&changes),
                Err(why) => Taken::Failed { why: why.to_string() },
            };
            let moderated = card.means != Means::Deferral;
            if let Some(setting) = writes.unsupported.take().filter(|_| moderated) {
                return match self.leave(at.port, &setting, layout, writes) {
                    true => self.set(number, wanted, layout, writes),
                    false => taken,
                };
            }
            outcome = worse(outcome, taken);
        }
        outcome
    }

    /// Handles a driver that shows its moderation but rejects writes, which only a write reveals.
    /// Restores the values written so far. Returns true if NAPI's deferral takes its place.
    fn leave<K: Knobs>(
        &mut self,
        port: usize,
        setting: &Setting,
        layout: &Layout,
        writes: &mut Writes<K>,
    ) -> bool {
        let Some(mut card) = self.cards.remove(&port) else { return false };
        for found in &card.found {
            writes.make(&found.changes(&card.interface));
        }
        let why = AccessError::Unsupported(setting.clone());
        let deferred = defers(&writes.knobs, &card.interface);
        let instead =
            if deferred { "its queues are deferred by NAPI" } else { "it is left as it is" };
        self.refused.push(format!("interrupt moderation: {why}; {instead}"));
        if deferred {
            card.defer(&writes.knobs, layout, port);
            self.cards.insert(port, card);
        } else {
            self.can_set &= self.partial && !self.cards.is_empty();
        }
        deferred
    }

    /// Switches adaptive moderation off again if it was switched on since: it would move the times
    /// that were set. Returns the places.
    pub fn fix_again<K: Knobs>(&self, writes: &mut Writes<K>) -> Vec<String> {
        let mut outcomes = Vec::new();
        for card in self.cards.values() {
            let off = |queue: &Option<u32>| adaptive_off(&card.interface, *queue, &writes.knobs);
            let changes: Vec<Change> = card.set.iter().filter_map(off).collect();
            if changes.is_empty() {
                continue;
            }
            let outcome = match writes.make(&changes) {
                Taken::Done | Taken::Slow { .. } => "switched off again".to_owned(),
                Taken::Altered { found } | Taken::Foreign { found } => {
                    format!("it stays at {found:?}")
                }
                Taken::Failed { why } => format!("it cannot be switched off: {why}"),
            };
            let interface = &card.interface;
            outcomes.push(format!(
                "adaptive moderation of {interface} was switched on by another program; {outcome}"
            ));
        }
        outcomes
    }
}

/// Returns the write that switches the adaptive moderation of a queue or card off, if it is on.
fn adaptive_off(interface: &str, queue: Option<u32>, knobs: &impl Knobs) -> Option<Change> {
    let setting = match queue {
        Some(queue) => moderation::queue_setting(interface, queue, Coalesce::AdaptiveRx),
        None => moderation::setting(interface, Coalesce::AdaptiveRx),
    };
    let is_on = knobs.read(&setting).is_ok_and(|value| value != "0");
    is_on.then(|| Change {
        setting,
        value: "0".to_owned(),
        why: "adaptive moderation would override the time".to_owned(),
    })
}

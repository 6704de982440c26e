//! Interrupt moderation: of single queues where the driver can, else of whole cards, else by
//! deferral.
//!
//! A driver without moderation (veth, virtio_net) leaves it to NAPI: with `defer-hard-irqs` a queue
//! whose poll found packets is polled again by a timer, `gro-flush-timeout` later, and its
//! interrupt stays off until a poll finds none (Documentation/networking/napi.rst, "Software IRQ
//! coalescing"). So interrupts keep that distance under load, and the first packet after a silence
//! does not wait.

use super::layout::Layout;
use super::writes::{Writes, worse};
use std::collections::{BTreeMap, BTreeSet};
use wattline_governor::machine::Taken;
use wattline_knobs::{AccessError, Change, Knobs, Setting, moderation};
use wattline_linux::ethtool::Coalesce;
use wattline_linux::napi::Napi;
use wattline_linux::privileges::Rights;
use wattline_linux::sysfs::Tree;
use wattline_policy::Queue;
use wattline_units::Span;

/// What drivers take beside 0, in microseconds: ethtool does not say (drivers/net/ethernet:
/// igb's and igc's `IGB_MIN_ITR_USECS`, `IGB_MAX_ITR_USECS`, of which 1 to 3 choose an adaptive
/// mode; i40e's and ice's `*_MAX_ITR`; ixgbe's 12 bits of 2 us each, as Co-PI uses them).
const RANGES: [(&str, u64, u64); 6] = [
    ("igb", 10, 8191),
    ("igc", 10, 8191),
    ("ixgbe", 2, 1022),
    ("i40e", 2, 8160),
    ("ice", 2, 8160),
    ("e1000e", 10, 10_000),
];
/// For any other driver: what all that moderate are known to take.
const COMMON: (u64, u64) = (1, 1000);

/// The moderation of all cards.
pub(super) struct Moderation {
    pub can_set: bool,
    /// Shortest and longest time that all cards take.
    pub range: (Span, Span),
    /// The shortest time that a queue had before anyone set it here.
    pub found: Option<Span>,
    cards: BTreeMap<usize, Card>,
    /// By number of the queue as a policy sees it.
    queues: Vec<Queue>,
    wants: Vec<Want>,
    /// Whether cards without the knob are passed over: else all have to have it.
    some_will_do: bool,
    /// Cards that turned out not to be settable since this was last emptied, and what is done there.
    pub refused: Vec<String>,
}

/// What is wanted of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Want {
    /// That its interrupts keep a distance.
    Every(Span),
    /// All that its driver had, adaptive moderation included; with the distance that it had then.
    AsFound(Span),
}

impl Want {
    fn period(self) -> Span {
        match self {
            Self::Every(period) | Self::AsFound(period) => period,
        }
    }

    fn is_as_found(self) -> bool {
        matches!(self, Self::AsFound(_))
    }
}

/// How a card is moderated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Means {
    Queues,
    Card,
    /// By NAPI, each queue.
    Deferral,
}

struct Card {
    interface: String,
    means: Means,
    shortest: u64,
    longest: u64,
    /// What the driver had.
    found: Vec<Found>,
    /// What holds a time that was asked for: queues, or the card as a whole. Each for itself: one
    /// may be left to its driver beside others that are not.
    set: BTreeSet<Option<u32>>,
}

/// What a queue, or a card as a whole, had before anyone set it here.
struct Found {
    queue: Option<u32>,
    /// The driver's time; none where NAPI defers.
    period: Option<Span>,
    /// In the order in which they are to be written.
    values: Vec<(Setting, String)>,
}

impl Moderation {
    /// Looks for what can be set; `notes` gets what is missing.
    pub fn find(
        tree: &Tree,
        knobs: &impl Knobs,
        layout: &Layout,
        rights: Rights,
        some_will_do: bool,
        notes: &mut Vec<String>,
    ) -> Self {
        let mut cards = BTreeMap::new();
        let mut missing = layout.ports.is_empty();
        for (port, at) in layout.ports.iter().enumerate() {
            let Some(interface) = &at.interface else {
                missing |= !at.is_vacant();
                continue;
            };
            let means = match means_of(knobs, interface) {
                Ok(means) => means,
                Err(why) => {
                    missing = true;
                    notes.push(format!("interrupt moderation: {why}"));
                    continue;
                }
            };
            let (shortest, longest) = match means {
                Means::Deferral => COMMON,
                Means::Queues | Means::Card => range_of(tree, interface),
            };
            let found = found(knobs, interface, means, layout, port);
            let interface = interface.clone();
            let set = BTreeSet::new();
            let card = Card { interface, means, shortest, longest, found, set };
            cards.insert(port, card);
        }
        let longest = cards.values().map(|card| card.longest).min().unwrap_or(0);
        let queues = layout.platform_queues();
        let all = cards.values().flat_map(|card: &Card| &card.found);
        let found = all.filter_map(|found| found.period).min();
        Self {
            found,
            can_set: (!missing || some_will_do && !cards.is_empty()) && rights.set_cards,
            some_will_do,
            refused: Vec::new(),
            range: (Span::ZERO, Span::from_micros(longest)),
            cards,
            wants: vec![Want::Every(Span::ZERO); queues.len()],
            queues,
        }
    }

    /// How a card is moderated, in words.
    pub fn means(&self, port: usize) -> &'static str {
        match self.cards.get(&port).map(|card| card.means) {
            Some(Means::Queues) => "each moderated",
            Some(Means::Card) => "moderated together",
            Some(Means::Deferral) => "deferred by NAPI",
            None => "not moderated",
        }
    }

    /// The distance that a queue's interrupts keep now.
    pub fn held(&self, queue: usize, layout: &Layout, knobs: &impl Knobs) -> Option<Span> {
        let at = self.queues.get(queue)?;
        let card = self.cards.get(&at.port)?;
        let own = layout.queues(at.port, at.core).next();
        let setting = match card.means {
            Means::Queues => moderation::queue_setting(&card.interface, own?, Coalesce::RxUsecs),
            Means::Card => moderation::setting(&card.interface, Coalesce::RxUsecs),
            Means::Deferral => {
                let read = |setting| knobs.read(&deferral(&card.interface, own?, setting)).ok();
                let nanos = read(Napi::GroFlushTimeout)?.parse().ok()?;
                let defers = read(Napi::DeferHardIrqs)? != "0";
                return Some(if defers { Span::from_nanos(nanos) } else { Span::ZERO });
            }
        };
        knobs.read(&setting).ok()?.parse().ok().map(Span::from_micros)
    }

    /// Whether a queue holds all that its driver had.
    pub fn is_as_found(&self, queue: usize, layout: &Layout, knobs: &impl Knobs) -> bool {
        let Some(at) = self.queues.get(queue) else { return false };
        let Some(card) = self.cards.get(&at.port) else { return false };
        let own: Vec<u32> = layout.queues(at.port, at.core).collect();
        let concerns = |found: &&Found| found.queue.is_none_or(|queue| own.contains(&queue));
        let values = card.found.iter().filter(concerns).flat_map(|found| &found.values);
        let holds =
            |(setting, value): &(Setting, String)| knobs.read(setting).is_ok_and(|v| v == *value);
        let mut values = values.peekable();
        values.peek().is_some() && values.all(holds)
    }

    /// A queue's interrupts keep another distance, or are moderated as they were found. Where a card
    /// has one time for all its queues, it gets the shortest that one of them wants; a time before
    /// the same with the driver's own logic, which would move it.
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
            if self.some_will_do {
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

    /// A driver that shows its moderation and does not let it be set: which it is, only a write
    /// tells. What else of it was written is brought back. Whether NAPI's deferral takes its place.
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
            let (interface, means) = (&card.interface, Means::Deferral);
            card.found = found(&writes.knobs, interface, means, layout, port);
            (card.means, card.set) = (means, BTreeSet::new());
            self.cards.insert(port, card);
        } else {
            self.can_set &= self.some_will_do && !self.cards.is_empty();
        }
        deferred
    }

    /// Switches adaptive moderation off again where somebody has switched it on since: it would move
    /// the times that were set. Says where.
    pub fn fix_again<K: Knobs>(&self, writes: &mut Writes<K>) -> Vec<String> {
        let mut told = Vec::new();
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
            told.push(format!(
                "adaptive moderation of {interface} was switched on by another program; {outcome}"
            ));
        }
        told
    }
}

/// The write that switches the adaptive moderation of a queue or card off, if it is on.
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

/// What the driver has of each queue that may be set, or of the card.
fn found(
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
        // The time first: adaptive moderation does not let it be set everywhere.
        Some(Found { queue, period, values: vec![micros, of(Coalesce::AdaptiveRx)?] })
    };
    let deferred = |queue| {
        let of = |setting| value(deferral(interface, queue, setting));
        let (time, polls) = (of(Napi::GroFlushTimeout)?, of(Napi::DeferHardIrqs)?);
        // As `defer` orders them.
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

impl Found {
    /// The writes that bring it back.
    fn changes(&self, interface: &str) -> Vec<Change> {
        let why = format!("{interface} is moderated as it was before");
        let change = |(setting, value): &(Setting, String)| Change {
            setting: setting.clone(),
            value: value.clone(),
            why: why.clone(),
        };
        self.values.iter().map(change).collect()
    }
}

impl Card {
    /// Whole microseconds that the driver takes.
    fn round(&self, period: Span) -> u64 {
        match period.as_picos().div_ceil(1_000_000) {
            0 => 0,
            micros => micros.clamp(self.shortest, self.longest),
        }
    }
}

/// How an interface can be moderated, or why it cannot.
fn means_of(knobs: &impl Knobs, interface: &str) -> Result<Means, AccessError> {
    if knobs.read(&moderation::queue_setting(interface, 0, Coalesce::RxUsecs)).is_ok() {
        return Ok(Means::Queues);
    }
    let of_card = knobs.read(&moderation::setting(interface, Coalesce::RxUsecs));
    match of_card {
        Ok(_) => Ok(Means::Card),
        Err(_) if defers(knobs, interface) => Ok(Means::Deferral),
        Err(why) => Err(why),
    }
}

/// Whether NAPI can defer an interface's queues.
fn defers(knobs: &impl Knobs, interface: &str) -> bool {
    let reads = |setting| knobs.read(&deferral(interface, 0, setting)).is_ok();
    reads(Napi::DeferHardIrqs) && reads(Napi::GroFlushTimeout)
}

fn deferral(interface: &str, queue: u32, setting: Napi) -> Setting {
    Setting::Napi { interface: interface.to_owned(), queue, setting }
}

/// The writes that give a queue this distance. A single empty poll ends the deferral: more would
/// only keep a timer running without load.
fn defer(interface: &str, queue: u32, micros: u64) -> Vec<Change> {
    let why =
        format!("queue {queue} of {interface} is polled by a timer of {micros} us under load");
    let change = |setting, value: u64| Change {
        setting: deferral(interface, queue, setting),
        value: value.to_string(),
        why: why.clone(),
    };
    let time = change(Napi::GroFlushTimeout, micros * 1000);
    let polls = change(Napi::DeferHardIrqs, u64::from(micros > 0));
    // Never deferred without a time: then nothing would poll.
    if micros > 0 { vec![time, polls] } else { vec![polls, time] }
}

fn range_of(tree: &Tree, interface: &str) -> (u64, u64) {
    let driver = super::access::driver(tree, interface).unwrap_or_default();
    let known = RANGES.iter().find(|(name, ..)| *name == driver);
    known.map_or(COMMON, |(_, shortest, longest)| (*shortest, *longest))
}

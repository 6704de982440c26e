//! Cores that the cards send packets to: by indirection table, otherwise as [`super::steered`]
//! describes.

use super::layout::{Layout, Port};
use super::steered::{Means, Steered, Transmit, unused_masks};
use super::writes::{Writes, worse};
use std::time::Duration;
use wattline_governor::machine::Taken;
use wattline_knobs::{Knobs, redirect};
use wattline_linux::privileges::Rights;
use wattline_linux::sysfs::Tree;
use wattline_policy::{CoreSet, IndirectionTable, MAX_CORES};

/// It is unknown which packets a card has steered by the old table, so none can be waited for.
pub(super) const NO_ORDER: &str = "order of packets: a new indirection table or RPS mask takes effect at once, and no packet is held back: \
     packets queued at a core that loses entries can be overtaken by later ones of their flow";

/// Longest accepted write of a table: a card that is busy for longer may lose packets.
const LONGEST_WRITE: Duration = Duration::from_millis(10);

/// The tables of all cards.
#[derive(Default)]
pub(super) struct Tables {
    pub can_set: bool,
    /// Entries moved so far, over all tables.
    pub moved: u64,
    /// Ports and workers whose queues lost entries at the last change: their backlog may be
    /// overtaken by later packets.
    pub lost_entries: Vec<(usize, usize)>,
    tables: Vec<Table>,
    /// Interfaces whose packets go to cores by interrupts or RPS.
    steered: Vec<Steered>,
    /// Transmit queues that follow the cores.
    transmits: Vec<Transmit>,
}

struct Table {
    port: usize,
    interface: String,
    /// Queue of the card per entry, as the card has it now.
    queues: Vec<u32>,
    /// Table that the card may have instead: written with an error, and not read back.
    possible: Option<Vec<u32>>,
    /// True if the last change failed.
    failed: bool,
    /// Judgement of the first write, until made.
    trial: Option<Trial>,
}

/// The first write of a table whose queues the kernel serves. A card that resets or takes too long
/// keeps the table that it was found with.
struct Trial {
    tree: Tree,
    found: Vec<u32>,
    /// Changes of the carrier before the first write, once that was made.
    carrier: Option<u64>,
    /// The other means of leading packets to cores.
    fallback: Option<Steered>,
}

impl Tables {
    /// Reads the tables; adds what is missing to `notes`.
    pub fn find(
        knobs: &impl Knobs,
        layout: &Layout,
        rights: Rights,
        notes: &mut Vec<String>,
    ) -> Self {
        let mut tables = Vec::new();
        let mut missing = false;
        for (port, at) in layout.ports.iter().enumerate() {
            let Some(interface) = &at.interface else {
                missing |= !at.is_vacant();
                continue;
            };
            let answer = knobs.read(&redirect::setting(interface));
            match answer.as_deref().map(redirect::from_text) {
                Ok(Some(queues)) if !queues.is_empty() => {
                    tables.push(Table::new(port, interface, queues));
                }
                Ok(_) => {
                    missing = true;
                    notes.push(format!("cores: the indirection table of {interface} is invalid"));
                }
                Err(why) => {
                    missing = true;
                    notes.push(format!("cores: {interface} has no indirection table: {why}"));
                }
            }
        }
        if layout.workers < 2 {
            notes.push("cores: there is one worker, which always serves".into());
        }
        let can_set = !missing && layout.workers > 1 && rights.set_cards;
        if can_set {
            notes.push(NO_ORDER.into());
        }
        Self { can_set, tables, ..Self::default() }
    }

    /// Finds the tables of cards whose queues the kernel serves, the interrupts of cards without
    /// tables, and RPS of other interfaces; adds what is left alone to `notes`.
    pub fn find_for_kernel(
        tree: &Tree,
        knobs: &impl Knobs,
        layout: &Layout,
        rights: Rights,
        notes: &mut Vec<String>,
    ) -> Self {
        let mut all = Self::default();
        let before = notes.len();
        for (number, port) in layout.ports.iter().enumerate() {
            let Some(interface) = &port.interface else { continue };
            let place = (number, interface.as_str());
            let found = unused_masks(tree, knobs, interface).and_then(|masks| {
                let means = Means::interrupts(tree, interface, port);
                let steered = Steered::new(place, means.unwrap_or(Means::Masks(masks)));
                match table(knobs, place, port) {
                    Some(table) => all.tables.push(table?.with_trial(tree, steered.ok())),
                    None => all.steered.push(steered?),
                }
                Transmit::find(tree, knobs, place, port)
            });
            match found {
                Ok(transmit) => all.transmits.extend(transmit),
                Err(why) => notes.push(format!("cores: {why}")),
            }
        }
        if layout.workers < 2 {
            notes.push("cores: there is one CPU, which always serves".into());
        }
        let none = all.tables.is_empty() && all.steered.is_empty();
        if none && notes.len() == before {
            notes.push("cores: there is no interface whose packets could go elsewhere".into());
        }
        // Skipped interfaces stay as found; the others follow.
        all.can_set = !none && layout.workers > 1 && rights.set_cards;
        if all.can_set && (!all.tables.is_empty() || !all.steered().is_empty()) {
            notes.push(NO_ORDER.into());
        }
        all
    }

    /// Returns true if any table of a card can be set.
    pub fn has_cards(&self) -> bool {
        self.can_set && !self.tables.is_empty()
    }

    /// Returns true if all packets go by tables, whose entries have weights.
    pub fn have_weights(&self) -> bool {
        self.can_set && self.steered.is_empty()
    }

    /// Returns the interfaces whose packets RPS spreads.
    pub fn steered(&self) -> Vec<String> {
        let by_masks = self.steered.iter().filter(|it| matches!(it.means, Means::Masks(_)));
        by_masks.map(|steered| steered.interface.clone()).collect()
    }

    /// Returns the number of tables and of interfaces without one, transmit queues included.
    pub fn count(&self) -> u32 {
        (self.tables.len() + self.steered.len() + self.transmits.len()) as u32
    }

    /// Sends packets to exactly these cores, with shares by weight (equal shares differ by at most
    /// one entry, nearly so over all cards together), and moves as few entries as possible.
    pub fn send_to<K: Knobs>(
        &mut self,
        (active, weights): (CoreSet, &[u8]),
        layout: &Layout,
        writes: &mut Writes<K>,
    ) -> Taken {
        let active = active.intersection(CoreSet::first(layout.workers));
        if active.is_empty() {
            return Taken::Failed { why: "an indirection table must have an active core".into() };
        }
        let mut held = [0; MAX_CORES];
        let mut outcome = Taken::Done;
        self.lost_entries.clear();
        let mut refused = Vec::new();
        for (number, table) in self.tables.iter_mut().enumerate() {
            let queues = table.spread((active, weights), layout, &mut held);
            let moved = queues.iter().zip(&table.queues).filter(|(new, old)| new != old).count();
            let why = format!(
                "{} sends to {} of {} cores, {moved} of {} entries move",
                table.interface,
                active.len(),
                layout.workers,
                queues.len()
            );
            let change = redirect::set(&table.interface, &queues, why);
            if let Some(why) = table.flaps(moved) {
                refused.push((number, why));
                continue;
            }
            let taken = writes.make(&[change]);
            if taken == Taken::Done
                && let Some(why) = table.is_slow(writes.knobs.write_time())
            {
                refused.push((number, why));
                continue;
            }
            table.failed = matches!(taken, Taken::Foreign { .. } | Taken::Failed { .. });
            table.possible = None;
            if taken == Taken::Done {
                let pairs = queues.iter().zip(&table.queues);
                let left = pairs.filter(|(new, old)| new != old);
                self.lost_entries
                    .extend(left.map(|(_, old)| (table.port, layout.worker(table.port, *old))));
                table.queues = queues;
                self.moved += moved as u64;
            } else if let Ok(text) = writes.knobs.read(&redirect::setting(&table.interface))
                && let Some(found) = redirect::from_text(&text)
            {
                // The next spread starts from the card's actual table.
                table.queues = found;
            } else {
                table.possible = Some(queues);
            }
            outcome = worse(outcome, taken);
        }
        for (number, why) in refused.into_iter().rev() {
            outcome = worse(outcome, self.replace(number, &why, writes));
        }
        self.lost_entries.sort_unstable();
        self.lost_entries.dedup();
        let mut foreign = None;
        self.steered.retain_mut(|steered| {
            let (taken, moved) = steered.send_to(active, layout, writes);
            self.moved += moved;
            if let Taken::Foreign { .. } = taken {
                let interface = &steered.interface;
                let why = format!(
                    "{interface}: another program has set its RPS or interrupts, which are left alone from now on"
                );
                tracing::warn!("{why}");
                // Its other queues would stay with the cores of this moment.
                writes.give_back(steered.settings(), &why);
                foreign = Some(taken);
                return false;
            }
            outcome = worse(std::mem::replace(&mut outcome, Taken::Done), taken);
            true
        });
        self.transmits.retain(|transmit| {
            let taken = transmit.follow(active, layout, writes);
            let follows = matches!(taken, Taken::Done | Taken::Altered { .. });
            if !follows {
                let interface = &transmit.interface;
                let why = format!("{interface}: its transmit queues no longer follow: {taken:?}");
                tracing::warn!("{why}");
                writes.give_back(transmit.settings(), &why);
            }
            follows
        });
        match foreign {
            Some(foreign) if self.tables.is_empty() && self.steered.is_empty() => foreign,
            _ => outcome,
        }
    }

    /// Restores the table that a card was found with, and uses the other means instead.
    fn replace<K: Knobs>(&mut self, number: usize, why: &str, writes: &mut Writes<K>) -> Taken {
        let Table { interface, trial, .. } = self.tables.remove(number);
        let Some(Trial { found, fallback, .. }) = trial else { return Taken::Done };
        let next = if fallback.is_some() {
            "its interrupts or RPS are set instead"
        } else {
            "it is left alone"
        };
        tracing::warn!("{interface}: {why}; its table is as it was found, and {next}");
        self.steered.extend(fallback);
        writes.make(&[redirect::set(&interface, &found, why)])
    }

    /// Returns the cores that any card may send packets to; `None` without a card.
    pub fn reach(&self, layout: &Layout) -> Option<CoreSet> {
        let entries = self.tables.iter().flat_map(|table| {
            table
                .queues
                .iter()
                .chain(table.possible.iter().flatten())
                .map(|queue| layout.worker(table.port, *queue))
        });
        let steered = self.steered.iter().filter_map(|it| it.active);
        let cores = steered.fold(entries.collect(), CoreSet::union);
        (!cores.is_empty()).then_some(cores)
    }

    /// Returns true if the last change succeeded for some tables and not for others.
    pub fn differ(&self) -> bool {
        let failed = self.tables.iter().map(|table| table.failed);
        let failed: Vec<bool> = failed.chain(self.steered.iter().map(|it| it.failed)).collect();
        failed.contains(&true) && failed.contains(&false)
    }
}

/// Returns the table of a card with several queues; `None` if it has none, an error if an
/// administrator has set it.
fn table(
    knobs: &impl Knobs,
    (number, interface): (usize, &str),
    port: &Port,
) -> Option<Result<Table, String>> {
    if port.queues < 2 {
        return None;
    }
    let text = knobs.read(&redirect::setting(interface)).ok()?;
    let queues = redirect::from_text(&text).filter(|queues| !queues.is_empty())?;
    if !is_default(&queues, port.queues) {
        return Some(Err(format!(
            "the indirection table of {interface} is not the default, so an administrator has set it; \
             it is left alone (to have it governed: ethtool -X {interface} default)"
        )));
    }
    Some(Ok(Table::new(number, interface, queues)))
}

/// Returns true if a table is as the kernel makes it (`ethtool_rxfh_indir_default`), or in blocks,
/// as igb and igc do (`igb_setup_mrqc`).
fn is_default(table: &[u32], queues: u32) -> bool {
    let entries = table.len() as u64;
    let block = |entry: u64| entry * u64::from(queues) / entries;
    let all = |default: &dyn Fn(u64) -> u64| {
        table.iter().zip(0..).all(|(queue, entry)| u64::from(*queue) == default(entry))
    };
    all(&|entry| entry % u64::from(queues)) || all(&block)
}

/// Returns the active cores that have a queue of a port; the first core with one if no active core
/// has.
fn served(active: CoreSet, layout: &Layout, port: usize) -> CoreSet {
    let all = (0..layout.workers).filter(|core| layout.queues(port, *core).next().is_some());
    let all: CoreSet = all.collect();
    let served = active.intersection(all);
    if served.is_empty() { all.lowest().map_or(active, CoreSet::only) } else { served }
}

impl Table {
    fn new(port: usize, interface: &str, queues: Vec<u32>) -> Self {
        let interface = interface.to_owned();
        Self { port, interface, queues, possible: None, failed: false, trial: None }
    }

    /// Enables judgement of the first write, with the other means as the fallback.
    fn with_trial(mut self, tree: &Tree, fallback: Option<Steered>) -> Self {
        let (tree, found) = (tree.clone(), self.queues.clone());
        self.trial = Some(Trial { tree, found, carrier: None, fallback });
        self
    }

    /// Returns the reason if the first write, before this one of so many entries, has reset the
    /// card: a link takes seconds to come back.
    fn flaps(&mut self, moved: usize) -> Option<String> {
        let trial = self.trial.as_mut()?;
        let path = format!("/sys/class/net/{}/carrier_changes", self.interface);
        let present = trial.tree.number(path).unwrap_or(0);
        match trial.carrier {
            None if moved > 0 => trial.carrier = Some(present),
            None => {}
            Some(before) if before == present => self.trial = None,
            Some(_) => {
                return Some("the first write of its indirection table reset its link".to_owned());
            }
        }
        None
    }

    /// Returns the reason if the first write took too long.
    fn is_slow(&self, took: Duration) -> Option<String> {
        let first = self.trial.as_ref().is_some_and(|trial| trial.carrier.is_some());
        let millis = took.as_millis();
        (first && took > LONGEST_WRITE)
            .then(|| format!("the first write of its indirection table took {millis} ms"))
    }

    /// Returns the table for these cores. An entry that stays with its core keeps its queue, too.
    fn spread(
        &self,
        (active, weights): (CoreSet, &[u8]),
        layout: &Layout,
        held: &mut [usize; MAX_CORES],
    ) -> Vec<u32> {
        let core = |queue: &u32| layout.worker(self.port, *queue) as u16;
        let active = served(active, layout, self.port);
        let mut table = IndirectionTable::from_cores(self.queues.iter().map(core).collect());
        table.spread_weighted(active, weights, held);
        let mut own: Vec<Vec<(usize, u32)>> = (0..layout.workers)
            .map(|worker| layout.queues(self.port, worker).map(|queue| (0, queue)).collect())
            .collect();
        let kept = |old: &u32, new: u16| core(old) == new;
        for (old, new) in self.queues.iter().zip(table.entries()).filter(|(o, n)| kept(o, **n)) {
            let at = own
                .get_mut(usize::from(*new))
                .and_then(|queues| queues.iter_mut().find(|(_, queue)| queue == old));
            if let Some((entries, _)) = at {
                *entries += 1;
            }
        }
        let mut queues = self.queues.clone();
        for (queue, new) in queues.iter_mut().zip(table.entries()) {
            if kept(queue, *new) {
                continue;
            }
            // The queue of that core with the fewest entries.
            let of_core = own.get_mut(usize::from(*new));
            if let Some(least) = of_core.and_then(|queues| queues.iter_mut().min()) {
                *queue = least.1;
                least.0 += 1;
            }
        }
        queues
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Port;
    use crate::writes::Ceiling;
    use proptest::prelude::*;
    use std::cell::RefCell;
    use std::collections::BTreeMap;
    use std::time::Duration;
    use wattline_knobs::{AccessError, Change, Outcome, SetError, Setting, affinity};

    #[test]
    fn tables_of_all_drivers_are_known_as_defaults() {
        assert!(is_default(&[0, 1, 2, 0, 1, 2, 0, 1], 3));
        assert!(is_default(&[0, 0, 0, 1, 1, 1, 2, 2], 3), "igb");
        assert!(!is_default(&[0, 0, 1, 1, 1, 1, 2, 2], 3));
        assert!(!is_default(&[0; 8], 3));
    }

    fn layout(workers: usize, queues: u32) -> Layout {
        let port = Port { interface: Some("eth0".into()), queues, cores: Vec::new() };
        Layout { workers, cpus: Vec::new(), ports: vec![port] }
    }

    fn table(queues: Vec<u32>) -> Table {
        Table::new(0, "eth0", queues)
    }

    #[test]
    fn a_default_table_is_narrowed_and_widened_with_few_moves() {
        let layout = layout(4, 8);
        let mut table = table((0..128).map(|entry| entry % 8).collect());
        // The fourth core's 32 entries go to the others, which keep their own.
        let three = table.spread((CoreSet::first(3), &[]), &layout, &mut [0; MAX_CORES]);
        let moved = three.iter().zip(&table.queues).filter(|(a, b)| a != b).count();
        assert_eq!(moved, 32);
        assert!(three.iter().all(|queue| queue % 4 != 3));
        // Each core's two queues share the new entries.
        let held = |queue| three.iter().filter(|entry| **entry == queue).count();
        assert!((20..=23).contains(&held(0)) && (20..=23).contains(&held(4)));
        table.queues = three;
        let four = table.spread((CoreSet::first(4), &[]), &layout, &mut [0; MAX_CORES]);
        let moved = four.iter().zip(&table.queues).filter(|(a, b)| a != b).count();
        assert_eq!(moved, 32);
    }

    /// Tables of cards by setting; the named ones reject writes, or do not answer either.
    #[derive(Default)]
    struct Cards {
        tables: BTreeMap<Setting, String>,
        refuses: Option<(&'static str, bool)>,
        write_time: Duration,
    }

    impl Knobs for Cards {
        fn read(&self, setting: &Setting) -> Result<String, AccessError> {
            match self.refuses {
                Some((card, true)) if *setting == redirect::setting(card) => {
                    Err(AccessError::Missing(setting.clone()))
                }
                _ => Ok(self.tables[setting].clone()),
            }
        }
        fn take(&mut self, change: &Change) -> Result<Outcome, SetError> {
            match self.refuses {
                Some((card, _)) if change.setting == redirect::setting(card) => {
                    Err(AccessError::Missing(change.setting.clone()).into())
                }
                _ => {
                    self.tables.insert(change.setting.clone(), change.value.clone());
                    Ok(Outcome::Written)
                }
            }
        }
        fn foreign(&self) -> Vec<(Setting, String)> {
            Vec::new()
        }
        fn put_back(&self) -> Vec<Change> {
            Vec::new()
        }
        fn stuck(&self) -> Vec<(Setting, Duration)> {
            Vec::new()
        }
        fn write_time(&self) -> Duration {
            self.write_time
        }
    }

    /// Cores count as reached as long as one card may send to them.
    #[test]
    fn reach_covers_the_cores_of_every_card() {
        let port = |name: &str| Port { interface: Some(name.into()), queues: 2, cores: Vec::new() };
        let layout = Layout { workers: 2, cpus: vec![], ports: vec![port("eth0"), port("eth1")] };
        let [one, both] = [1, 2].map(CoreSet::first);
        let mut cards = Cards::default();
        for name in ["eth0", "eth1"] {
            cards.tables.insert(redirect::setting(name), "0,1,0,1".into());
        }
        let mut tables = Tables::find(&cards, &layout, Rights::ALL, &mut Vec::new());
        let mut writes = Writes::new(cards, Ceiling::None);
        let mut send_to = |active, refuses, tables: &mut Tables| {
            writes.knobs.refuses = refuses;
            let taken = tables.send_to((active, &[1, 1]), &layout, &mut writes);
            (taken == Taken::Done, tables.reach(&layout), tables.differ())
        };
        assert_eq!(send_to(one, None, &mut tables), (true, Some(one), false));
        // Widened at the first card only, then narrowed again.
        let second = Some(("eth1", false));
        assert_eq!(send_to(both, second, &mut tables), (false, Some(both), true));
        assert_eq!(send_to(one, second, &mut tables), (false, Some(one), true));
        assert_eq!(send_to(both, None, &mut tables), (true, Some(both), false));
        // The second card may have taken the rejected table: it does not answer.
        assert_eq!(send_to(one, None, &mut tables), (true, Some(one), false));
        let silent = Some(("eth1", true));
        assert_eq!(send_to(both, silent, &mut tables), (false, Some(both), true));
        assert_eq!(send_to(one, silent, &mut tables), (false, Some(one), true));
    }

    /// A card whose queues the kernel serves: its default table is narrowed and widened; a table
    /// that an administrator has set is skipped and named.
    #[test]
    fn tables_of_the_kernels_queues_follow_cores_unless_an_administrator_has_set_them() {
        let port = Port { interface: Some("eth0".into()), queues: 4, cores: Vec::new() };
        let layout = Layout { workers: 2, cpus: vec![0, 1], ports: vec![port] };
        let machine = tempfile::tempdir().unwrap();
        let (rps, mask) =
            ("/sys/class/net/eth0/queues/rx-0/rps_cpus", RefCell::new("0".to_owned()));
        let flows = machine.path().join(rps[1..].replace("rps_cpus", "rps_flow_cnt"));
        std::fs::create_dir_all(flows.parent().unwrap()).unwrap();
        let found = |text: &str| {
            let mut cards = Cards::default();
            cards.tables.insert(redirect::setting("eth0"), text.into());
            cards.tables.insert(rps.parse().unwrap(), mask.borrow().clone());
            let (tree, mut notes) = (Tree::at(machine.path()), Vec::new());
            let tables = Tables::find_for_kernel(&tree, &cards, &layout, Rights::ALL, &mut notes);
            (cards, tables, notes)
        };
        let (cards, mut tables, notes) = found("0,1,2,3,0,1,2,3");
        assert!(tables.has_cards() && tables.steered().is_empty(), "{notes:?}");
        let mut writes = Writes::new(cards, Ceiling::None);
        for (cores, entries) in [(1, 8), (2, 4), (1, 8)] {
            let active = CoreSet::first(cores);
            let taken = tables.send_to((active, &[1, 1]), &layout, &mut writes);
            assert_eq!((taken, tables.reach(&layout)), (Taken::Done, Some(active)));
            let text = &writes.knobs.tables[&redirect::setting("eth0")];
            let queues = redirect::from_text(text).unwrap();
            let first = queues.iter().filter(|queue| layout.worker(0, **queue) == 0);
            assert_eq!(first.count(), entries, "{text}");
        }
        assert_eq!(tables.moved, 12);
        for set in ["0,0,0,0,0,0,0,0", "0,1,2,3,0,1,2,2"] {
            let (_, tables, notes) = found(set);
            assert!(!tables.can_set && notes[0].contains("ethtool -X eth0 default"), "{notes:?}");
        }
        // The packets of its queues go to other CPUs.
        for (present, count, says) in [("2", "0", "an administrator has set"), ("0", "64", "RFS")] {
            mask.replace(present.to_owned());
            std::fs::write(&flows, count).unwrap();
            let (_, tables, notes) = found("0,1,2,3,0,1,2,3");
            assert!(!tables.can_set && notes[0].contains(says), "{notes:?}");
        }
    }

    /// A card with two receive queues and four transmit queues, whose interrupts go to CPUs 0 and 1
    /// of four.
    struct Card {
        machine: tempfile::TempDir,
        layout: Layout,
    }

    impl Card {
        fn new() -> Self {
            let port = Port { interface: Some("eth0".into()), queues: 2, cores: vec![0, 1] };
            let layout = Layout { workers: 2, cpus: vec![0, 1], ports: vec![port] };
            let card = Self { machine: tempfile::tempdir().unwrap(), layout };
            card.write("sys/devices/system/cpu/online", "0-3");
            card.write("sys/class/net/eth0/carrier_changes", "1");
            for queue in 0..4 {
                card.write(&format!("sys/class/net/eth0/queues/tx-{queue}/xps_cpus"), "0");
            }
            for queue in 0..2 {
                let (number, rps) = (24 + queue, format!("queues/rx-{queue}/rps_cpus"));
                card.write(&format!("sys/class/net/eth0/{rps}"), "0");
                card.write(&format!("sys/class/net/eth0/device/msi_irqs/{number}"), "msix");
                card.write(&format!("proc/irq/{number}/eth0-TxRx-{queue}/x"), "");
                card.write(&format!("proc/irq/{number}/smp_affinity_list"), "0-3");
            }
            card
        }
        fn write(&self, path: &str, text: &str) {
            let path = self.machine.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        fn find(&self, table: Option<&str>) -> (Tables, Writes<Cards>, Vec<String>) {
            let (tree, mut notes) = (Tree::at(self.machine.path()), Vec::new());
            let mut cards = Cards::default();
            for file in ["rx-0/rps", "rx-1/rps", "tx-0/xps", "tx-1/xps", "tx-2/xps", "tx-3/xps"] {
                let path = format!("/sys/class/net/eth0/queues/{file}_cpus");
                let text = tree.text(&path).unwrap();
                cards.tables.insert(path.parse().unwrap(), text);
            }
            for number in [24, 25] {
                cards.tables.insert(affinity::setting(number), "0-3".into());
            }
            match table {
                Some(table) => _ = cards.tables.insert(redirect::setting("eth0"), table.into()),
                None => cards.refuses = Some(("eth0", true)),
            }
            let tables =
                Tables::find_for_kernel(&tree, &cards, &self.layout, Rights::ALL, &mut notes);
            (tables, Writes::new(cards, Ceiling::None), notes)
        }
        fn send_to(&self, cores: usize, tables: &mut Tables, writes: &mut Writes<Cards>) {
            let active = CoreSet::first(cores);
            let taken = tables.send_to((active, &[1, 1]), &self.layout, writes);
            assert_eq!((taken, tables.reach(&self.layout)), (Taken::Done, Some(active)));
        }
    }

    /// Affinities of both interrupts.
    fn affinities(writes: &Writes<Cards>) -> [&str; 2] {
        [24, 25].map(|number| writes.knobs.tables[&affinity::setting(number)].as_str())
    }

    #[test]
    fn interrupts_follow_cores_without_a_table_and_transmit_queues_follow_too() {
        let card = Card::new();
        let (mut tables, mut writes, notes) = card.find(None);
        assert!(tables.can_set && !tables.has_cards() && !tables.have_weights(), "{notes:?}");
        // RPS stays off, and no packet can be overtaken.
        assert!(tables.steered().is_empty() && notes.is_empty(), "{notes:?}");
        for (cores, cpus, masks) in
            [(2, ["0", "1"], ["d", "e", "0", "0"]), (1, ["0", "0"], ["f", "0", "0", "0"])]
        {
            card.send_to(cores, &mut tables, &mut writes);
            assert_eq!(affinities(&writes), cpus);
            let mask = |queue| {
                let path = format!("/sys/class/net/eth0/queues/tx-{queue}/xps_cpus");
                writes.knobs.tables[&path.parse().unwrap()].as_str()
            };
            assert_eq!([0, 1, 2, 3].map(mask), masks);
        }
        assert_eq!(tables.moved, 0);
    }

    #[test]
    fn rules_managed_interrupts_and_foreign_masks_are_left_alone_and_named() {
        let card = Card::new();
        card.write("sys/class/net/eth0/queues/tx-1/xps_cpus", "2");
        let (tables, _, notes) = card.find(None);
        assert!(tables.can_set && notes[0].contains("tx-1/xps_cpus is \"2\""), "{notes:?}");
        // RPS instead of interrupts.
        let file = card.machine.path().join("proc/irq/25/smp_affinity_list");
        let read_only = std::os::unix::fs::PermissionsExt::from_mode(0o444);
        std::fs::set_permissions(file, read_only).unwrap();
        assert_eq!(card.find(None).0.steered(), ["eth0"]);
        card.write("ethtool/eth0/flow-rules", "3");
        let (tables, _, notes) = card.find(Some("0,1,0,1"));
        assert!(!tables.can_set && notes[0].contains("ethtool -n eth0"), "{notes:?}");
    }

    #[test]
    fn card_reset_or_stalled_by_the_first_write_is_governed_by_interrupts() {
        let card = Card::new();
        for slow in [true, false] {
            let (mut tables, mut writes, _) = card.find(Some("0,1,0,1"));
            assert!(tables.has_cards());
            writes.knobs.write_time = Duration::from_millis(if slow { 12 } else { 2 });
            card.send_to(1, &mut tables, &mut writes);
            if !slow {
                assert!(tables.has_cards());
                card.write("sys/class/net/eth0/carrier_changes", "3");
                card.send_to(1, &mut tables, &mut writes);
            }
            assert!(!tables.has_cards());
            assert_eq!(affinities(&writes), ["0", "0"]);
            assert_eq!(writes.knobs.tables[&redirect::setting("eth0")], "0,1,0,1");
            card.send_to(2, &mut tables, &mut writes);
            assert_eq!(affinities(&writes), ["0", "1"]);
        }
    }

    proptest! {
        #[test]
        fn no_entry_leads_to_an_inactive_core(
            size in 1usize..300,
            workers in 1usize..9,
            more in 0u32..9,
            entries in prop::collection::vec(any::<u32>(), 300),
            mask in 1u128..256,
        ) {
            let layout = layout(workers, workers as u32 + more);
            let queues = entries[..size].iter().map(|entry| entry % layout.ports[0].queues).collect();
            let table = table(queues);
            let active: CoreSet = (0..workers).filter(|core| mask >> core & 1 == 1).collect();
            prop_assume!(!active.is_empty());
            let new = table.spread((active, &[]), &layout, &mut [0; MAX_CORES]);
            prop_assert_eq!(new.len(), size);
            prop_assert!(new.iter().all(|queue| active.contains(layout.worker(0, *queue))));
            prop_assert!(new.iter().all(|queue| *queue < layout.ports[0].queues));
        }
    }
}

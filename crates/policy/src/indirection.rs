//! The indirection table of receive-side scaling, which maps hashes to queues.

use crate::{CoreSet, MAX_CORES};
use serde::{Deserialize, Serialize};

/// An indirection table whose entries name cores; indexed with the lowest bits of the RSS hash
/// (PowerSave, section 6.2: 128 entries, 7 bits).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IndirectionTable {
    entries: Vec<u16>,
}

impl IndirectionTable {
    /// Creates a table of `size` entries (a power of two) spread evenly over the active cores.
    pub fn new(size: usize, active: CoreSet) -> Self {
        let mut table = Self { entries: vec![active.lowest().unwrap_or(0) as u16; size] };
        table.spread(active);
        table
    }

    /// Creates tables for several ports. Different cores get the larger shares on each, so that the
    /// shares of all ports together are nearly even.
    pub fn for_ports(ports: usize, size: usize, active: CoreSet) -> Vec<Self> {
        let mut cores: Vec<usize> = active.iter().collect();
        // Nearly all entries are the same on every port, so that alternating flows arrive evenly
        // spaced.
        let mut tables = vec![Self::new(size, active); ports];
        if active.is_empty() {
            return tables;
        }
        let (share, larger) = (size / cores.len(), size % cores.len());
        let mut held_elsewhere = [0usize; MAX_CORES];
        for table in &mut tables {
            let mut held = [0usize; MAX_CORES];
            table.entries.iter().for_each(|&core| held[usize::from(core)] += 1);
            cores.sort_by_key(|&core| (held_elsewhere[core], core));
            let mut room = [0usize; MAX_CORES];
            for (rank, &core) in cores.iter().enumerate() {
                room[core] = share + usize::from(rank < larger);
                held_elsewhere[core] += room[core];
            }
            table.fill(&cores, &held, room);
        }
        tables
    }

    /// Creates a table from a card's present entries, by core.
    pub fn from_cores(entries: Vec<u16>) -> Self {
        Self { entries }
    }

    /// Returns the core of each entry.
    pub fn entries(&self) -> &[u16] {
        &self.entries
    }

    /// Returns the core for a hash.
    #[inline]
    pub fn core(&self, hash: u32) -> usize {
        usize::from(self.entries[hash as usize & (self.entries.len() - 1)])
    }

    /// Spreads the entries evenly over the active cores (their shares differ by one at most). Moves
    /// as few entries as possible, since a moved flow may be reordered. Returns the number of moved
    /// entries. An empty set of cores leaves the table unchanged.
    pub fn spread(&mut self, active: CoreSet) -> usize {
        self.spread_among(active, &mut [0; MAX_CORES])
    }

    /// Like [`Self::spread`] for one of several ports: if that moves no more entries, the larger
    /// shares go to the cores that have the fewest entries in the other tables (`held_elsewhere`,
    /// to which the entries of this table are added). So the shares of all ports together are
    /// nearly even, too.
    pub fn spread_among(
        &mut self,
        active: CoreSet,
        held_elsewhere: &mut [usize; MAX_CORES],
    ) -> usize {
        if active.is_empty() {
            return 0;
        }
        let mut held = [0usize; MAX_CORES];
        self.entries.iter().for_each(|&core| held[usize::from(core)] += 1);
        let mut cores: Vec<usize> = active.iter().collect();
        let (share, larger) = (self.entries.len() / cores.len(), self.entries.len() % cores.len());
        // Larger shares go first to cores where they save a move: no entry ever moves between cores
        // that stay. Then they go to the cores with the fewest entries in the other tables.
        cores.sort_by_key(|&core| {
            (held[core] <= share, held_elsewhere[core], std::cmp::Reverse(held[core]))
        });
        let mut room = [0usize; MAX_CORES];
        for (rank, &core) in cores.iter().enumerate() {
            room[core] = share + usize::from(rank < larger);
            held_elsewhere[core] += room[core];
        }
        self.fill(&cores, &held, room)
    }

    /// Like [`Self::spread_among`] with shares in proportion to the weights of the cores (by
    /// number; a missing or zero weight counts as 1), to the nearest entry.
    pub fn spread_weighted(
        &mut self,
        active: CoreSet,
        weights: &[u8],
        held_elsewhere: &mut [usize; MAX_CORES],
    ) -> usize {
        let weight = |core: usize| usize::from(weights.get(core).copied().unwrap_or(1).max(1));
        let mut cores: Vec<usize> = active.iter().collect();
        if cores.iter().all(|&core| weight(core) == weight(cores[0])) {
            return self.spread_among(active, held_elsewhere);
        }
        let mut held = [0usize; MAX_CORES];
        self.entries.iter().for_each(|&core| held[usize::from(core)] += 1);
        let sum: usize = cores.iter().map(|&core| weight(core)).sum();
        let mut room = [0usize; MAX_CORES];
        for &core in &cores {
            room[core] = self.entries.len() * weight(core) / sum;
        }
        // The remaining entries go to the cores that lost most by rounding down; then to those that
        // hold more already, so that fewer entries move.
        let left = self.entries.len() - room.iter().sum::<usize>();
        cores.sort_by_key(|&core| {
            let lost = self.entries.len() * weight(core) % sum;
            (std::cmp::Reverse(lost), std::cmp::Reverse(held[core]), core)
        });
        cores.iter().take(left).for_each(|&core| room[core] += 1);
        cores.iter().for_each(|&core| held_elsewhere[core] += room[core]);
        self.fill(&cores, &held, room)
    }

    /// Moves as few entries as possible so that each core has as many as its room; `held` is the
    /// number it has now. The rooms add up to the size of the table.
    fn fill(
        &mut self,
        cores: &[usize],
        held: &[usize; MAX_CORES],
        mut room: [usize; MAX_CORES],
    ) -> usize {
        // The entries that a core gives up or receives are spread over the table: neighbouring
        // entries stay with different cores, so that alternating flows do not arrive in bursts.
        let mut met = [0usize; MAX_CORES];
        let mut homeless = Vec::new();
        let keeps = room;
        for (index, &core) in self.entries.iter().enumerate() {
            let core = usize::from(core);
            let (nth, kept) = (met[core], keeps[core].min(held[core]));
            met[core] += 1;
            if (nth + 1) * kept / held[core] > nth * kept / held[core] {
                room[core] -= 1;
            } else {
                homeless.push(index);
            }
        }
        // The total room equals the number of entries without a core.
        let mut turn = 0;
        for &index in &homeless {
            while room[cores[turn % cores.len()]] == 0 {
                turn += 1;
            }
            let core = cores[turn % cores.len()];
            room[core] -= 1;
            self.entries[index] = core as u16;
            turn += 1;
        }
        homeless.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shares(table: &IndirectionTable, active: CoreSet) -> Vec<usize> {
        active
            .iter()
            .map(|core| table.entries().iter().filter(|&&entry| usize::from(entry) == core).count())
            .collect()
    }

    #[test]
    fn adding_a_twelfth_core_moves_ten_entries() {
        let mut table = IndirectionTable::new(128, CoreSet::first(11));
        assert_eq!(table.spread(CoreSet::first(12)), 10);
        assert_eq!(table.spread(CoreSet::first(12)), 0);
    }

    #[test]
    fn four_ports_together_are_nearly_even() {
        let mut tables = vec![IndirectionTable::new(128, CoreSet::first(1)); 4];
        let mut held = [0; MAX_CORES];
        for cores in 2..=12 {
            held = [0; MAX_CORES];
            for table in &mut tables {
                table.spread_among(CoreSet::first(cores), &mut held);
            }
        }
        // 4 x 128 entries are 42.7 for each of 12 cores; the last added core has 4 x 10.
        assert!(held[..11].iter().all(|&entries| entries == 42 || entries == 43), "{held:?}");
        assert_eq!(held[11], 40);
    }

    #[test]
    fn new_tables_of_four_ports_are_nearly_even() {
        for cores in 1..=12 {
            let active = CoreSet::first(cores);
            let tables = IndirectionTable::for_ports(4, 128, active);
            let mut held = vec![0; cores];
            for table in &tables {
                let own = shares(table, active);
                assert!(own.iter().max().unwrap() - own.iter().min().unwrap() <= 1, "{own:?}");
                held.iter_mut().zip(own).for_each(|(all, own)| *all += own);
            }
            assert_eq!(tables[0], IndirectionTable::new(128, active));
            assert!(held.iter().max().unwrap() - held.iter().min().unwrap() <= 1, "{held:?}");
        }
    }

    proptest! {
        /// Shares follow the weights to the nearest entry, and entries move only to cores that have
        /// too few.
        #[test]
        fn weights_are_shares(
            weights in prop::collection::vec(1u8..=20, 12),
            before in prop::collection::vec(1u8..=20, 12),
            cores in 1usize..=12,
        ) {
            let active = CoreSet::first(cores);
            let mut table = IndirectionTable::new(128, active);
            table.spread_weighted(active, &before, &mut [0; MAX_CORES]);
            let old = shares(&table, active);
            let moved = table.spread_weighted(active, &weights, &mut [0; MAX_CORES]);
            let new = shares(&table, active);
            let sum: f64 = weights[..cores].iter().map(|&weight| f64::from(weight)).sum();
            for (share, weight) in new.iter().zip(&weights) {
                let exact = 128.0 * f64::from(*weight) / sum;
                prop_assert!((*share as f64 - exact).abs() < 1.0 || cores == 1, "{share} {exact}");
            }
            let grown: usize = new.iter().zip(&old).map(|(n, o)| n.saturating_sub(*o)).sum();
            prop_assert_eq!(moved, grown);
        }

        /// Moving entries between cores that stay would reorder flows needlessly.
        #[test]
        fn entries_move_only_for_added_or_removed_cores(
            steps in prop::collection::vec((any::<bool>(), 0usize..12), 1..40),
        ) {
            let mut tables = vec![IndirectionTable::new(128, CoreSet::first(6)); 4];
            let mut active = CoreSet::first(6);
            for (add, core) in steps {
                let one = CoreSet::only(core);
                let next: CoreSet = (0..12)
                    .filter(|&c| (active.contains(c) && c != core) || (add && one.contains(c)))
                    .collect();
                if next.is_empty() {
                    continue;
                }
                let mut held = [0; MAX_CORES];
                for table in &mut tables {
                    let before = table.clone();
                    table.spread_among(next, &mut held);
                    for (&from, &to) in before.entries.iter().zip(&table.entries) {
                        let (from, to) = (usize::from(from), usize::from(to));
                        prop_assert!(from == to || !next.contains(from) || !active.contains(to));
                    }
                }
                active = next;
            }
        }

        #[test]
        fn always_even_and_only_active(steps in prop::collection::vec(1u128..4096, 1..20)) {
            let mut table = IndirectionTable::new(128, CoreSet::first(1));
            for mask in steps {
                let active: CoreSet = (0..12).filter(|bit| mask >> bit & 1 == 1).collect();
                let before = table.clone();
                let moved = table.spread(active);
                let shares = shares(&table, active);
                prop_assert_eq!(shares.iter().sum::<usize>(), 128);
                prop_assert!(shares.iter().max().unwrap() - shares.iter().min().unwrap() <= 1);
                let differ = before.entries.iter().zip(&table.entries).filter(|(a, b)| a != b).count();
                prop_assert_eq!(moved, differ);
            }
        }
    }
}

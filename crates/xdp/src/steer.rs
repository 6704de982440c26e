//! A network card with receive queues and an indirection table, on a veth pair.
//!
//! Packets sent on transmit queue q of a veth interface arrive on receive queue q of its peer. A
//! program on the sender's egress that chooses the transmit queue by a flow's hash and a table of
//! 128 entries thus turns the pair into a card with receive-side scaling: rewriting the table moves
//! flows between queues, as on hardware (PowerSave, section 4).
//!
//! One exception: a *connected UDP socket of the sending machine itself* keeps the transmit queue
//! that it used first (`sk_tx_queue_get` in `netdev_pick_tx`). TCP moves as soon as nothing is in
//! flight; unconnected sockets, forwarded traffic and ping move at once.

use crate::bpf::{BpfError, Link, Map, Program, object};
use rustix::io::Errno;

/// Entries of the indirection table, as in the cards that PowerSave used.
pub const TABLE_ENTRIES: usize = 128;

/// An indirection table: the queue of each hash value modulo 128.
pub type Table = [u16; TABLE_ENTRIES];

/// The table on one interface, until this is dropped or the process ends.
#[derive(Debug)]
pub struct Steering {
    table: Map,
    _link: Link,
    _program: Program,
}

impl Steering {
    /// Attaches a table to the egress of an interface in this thread's network namespace: the
    /// *sender's* end of the veth pair, created with `numtxqueues`.
    ///
    /// # Errors
    /// Without CAP_BPF and CAP_NET_ADMIN; on a kernel without TCX (Linux 6.6).
    pub fn attach(ifindex: u32, table: &Table) -> Result<Self, BpfError> {
        let object = object!("steer")?;
        let map = object.create("wl_table")?;
        let program = object.load(&[&map])?;
        let link = program.attach(ifindex, 0).map_err(|error| match error {
            BpfError::System { action, source: source @ (Errno::INVAL | Errno::OPNOTSUPP) } => {
                BpfError::MissingFeature { action, feature: "TCX (Linux 6.6)", source }
            }
            other => other,
        })?;
        let steering = Self { table: map, _link: link, _program: program };
        steering.write(table)?;
        Ok(steering)
    }

    /// Rewrites the table, entry by entry; later packets follow it.
    ///
    /// # Errors
    /// Only from the kernel.
    pub fn write(&self, table: &Table) -> Result<(), BpfError> {
        for (index, queue) in table.iter().enumerate() {
            let (key, value) = (index as u32, u32::from(*queue));
            self.table.set(&key.to_ne_bytes(), &value.to_ne_bytes())?;
        }
        Ok(())
    }

    /// Reads the table back.
    ///
    /// # Errors
    /// Only from the kernel.
    pub fn read(&self) -> Result<Table, BpfError> {
        let mut table = [0; TABLE_ENTRIES];
        for (index, queue) in table.iter_mut().enumerate() {
            let value = self.table.get(&(index as u32).to_ne_bytes())?.unwrap_or_default();
            // Written values have 16 bits.
            *queue = value.first_chunk().map_or(0, |value| u32::from_ne_bytes(*value) as u16);
        }
        Ok(table)
    }
}

/// Spreads a table evenly over `queues`, moving as few entries as possible. Every queue gets its
/// share, rounded up for the queues that have most already, and keeps its entries up to that share.
/// Other entries go to the queues that lack some.
///
/// Without queues the table is unchanged.
pub fn balance(table: &Table, queues: &[u16]) -> Table {
    let mut queues: Vec<u16> = queues.to_vec();
    queues.sort_unstable();
    queues.dedup();
    let mut result = *table;
    if queues.is_empty() {
        return result;
    }
    let held = |queue: u16| table.iter().filter(|entry| **entry == queue).count();
    // The queues with most entries get the rounded-up shares, so that they lose least.
    queues.sort_by_key(|queue| std::cmp::Reverse(held(*queue)));
    let (share, larger) = (TABLE_ENTRIES / queues.len(), TABLE_ENTRIES % queues.len());
    let mut room: Vec<(u16, usize)> = queues
        .iter()
        .enumerate()
        .map(|(rank, queue)| (*queue, share + usize::from(rank < larger)))
        .collect();

    let mut homeless = Vec::new();
    for (index, entry) in table.iter().enumerate() {
        match room.iter_mut().find(|(queue, left)| queue == entry && *left > 0) {
            Some((_, left)) => *left -= 1,
            None => homeless.push(index),
        }
    }
    let vacancies = room.iter().flat_map(|(queue, left)| std::iter::repeat_n(*queue, *left));
    for (index, queue) in homeless.into_iter().zip(vacancies) {
        result[index] = queue;
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn moved(before: &Table, after: &Table) -> usize {
        before.iter().zip(after).filter(|(before, after)| before != after).count()
    }

    #[test]
    fn fresh_table_is_spread_and_one_more_queue_moves_only_its_share() {
        let one = balance(&[0; TABLE_ENTRIES], &[0]);
        assert_eq!(one, [0; TABLE_ENTRIES]);
        let two = balance(&one, &[0, 1]);
        assert_eq!(moved(&one, &two), 64);
        let three = balance(&two, &[0, 1, 2]);
        assert_eq!(moved(&two, &three), 42);
        let back = balance(&three, &[0, 1]);
        assert_eq!(moved(&three, &back), 42);
    }

    #[test]
    fn without_queues_nothing_moves() {
        assert_eq!(balance(&[3; TABLE_ENTRIES], &[]), [3; TABLE_ENTRIES]);
    }

    proptest! {
        #[test]
        fn shares_differ_by_one_and_no_entry_moves_without_need(
            entries in proptest::collection::vec(0_u16..20, TABLE_ENTRIES),
            queues in proptest::collection::btree_set(0_u16..20, 1..16),
        ) {
            let table: Table = entries.try_into().unwrap();
            let queues: Vec<u16> = queues.into_iter().collect();
            let after = balance(&table, &queues);
            let count = |table: &Table, queue: u16| table.iter().filter(|e| **e == queue).count();

            prop_assert!(after.iter().all(|entry| queues.contains(entry)));
            let shares: Vec<usize> = queues.iter().map(|queue| count(&after, *queue)).collect();
            let (least, most) = (shares.iter().min().unwrap(), shares.iter().max().unwrap());
            prop_assert!(most - least <= 1);

            // Fewest moves: the entries of each queue beyond its share, with the larger shares for
            // the queues that hold most.
            let mut held: Vec<usize> = queues.iter().map(|queue| count(&table, *queue)).collect();
            held.sort_unstable_by(|a, b| b.cmp(a));
            let (share, larger) = (TABLE_ENTRIES / queues.len(), TABLE_ENTRIES % queues.len());
            let kept: usize = held
                .iter()
                .enumerate()
                .map(|(rank, held)| (*held).min(share + usize::from(rank < larger)))
                .sum();
            prop_assert_eq!(moved(&table, &after), TABLE_ENTRIES - kept);
            prop_assert_eq!(balance(&after, &queues), after);
        }
    }
}

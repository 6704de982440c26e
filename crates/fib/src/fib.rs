//! The writer's side of a table, whatever the family: all prefixes, and the cells that readers
//! look at.

use crate::family::Family;
use crate::grace::Grace;
use crate::multibit::Multibit;
use crate::reader::Reader;
use crate::{FibError, HugePages, NextHopId};
use prefix_trie::PrefixMap;

/// The writer's side of a table: see [`crate::Fib4`] and [`crate::Fib6`].
#[derive(Debug)]
pub struct Fib<F: Family> {
    /// All prefixes: what an address falls back to when one is removed.
    routes: PrefixMap<F::Net, NextHopId>,
    table: Multibit<F::Cell>,
}

impl<F: Family> Fib<F> {
    /// An empty table whose readers are registered with `grace`, of the family's usual bound.
    pub fn new(grace: &Grace) -> Self {
        Self::with_groups(grace, F::DEFAULT_GROUPS)
    }

    /// An empty table of at most `groups` groups of 256 entries, in which prefixes of more than
    /// 24 bits end, and no more than entries can number. A group that readers may still be
    /// looking at counts.
    pub fn with_groups(grace: &Grace, groups: usize) -> Self {
        let table = Multibit::new(grace, groups.min(F::MAX_GROUPS));
        Self { routes: PrefixMap::new(), table }
    }

    /// A reader; the worker that uses it must hold a slot of the same `grace`.
    pub fn reader(&self) -> Reader<F> {
        Reader::new(self.table.tables())
    }

    /// Adds or replaces a prefix; gives back what it led to before.
    ///
    /// # Errors
    /// When the id is out of range or the bounded memory is used up; the table is then as it was.
    pub fn insert(
        &mut self,
        prefix: F::Net,
        next_hop: NextHopId,
    ) -> Result<Option<NextHopId>, FibError> {
        if next_hop == NextHopId::NONE || next_hop > NextHopId::MAX {
            return Err(FibError::NextHopOutOfRange(next_hop.0));
        }
        let prefix = F::truncated(prefix);
        let before = self.routes.insert(prefix, next_hop);
        match before {
            Some(before) if before == next_hop => {}
            Some(_) => self.table.replace(F::prefix(prefix), next_hop.0.into()),
            None => {
                if let Err(error) = self.table.insert(F::prefix(prefix), next_hop.0.into()) {
                    self.routes.remove(&prefix);
                    return Err(error);
                }
            }
        }
        Ok(before)
    }

    /// Removes a prefix; gives back what it led to.
    pub fn remove(&mut self, prefix: F::Net) -> Option<NextHopId> {
        let prefix = F::truncated(prefix);
        let before = self.routes.remove(&prefix)?;
        let (cover, length) = self
            .routes
            .get_lpm(&prefix)
            .map_or((NextHopId::NONE, 0), |(cover, id)| (*id, F::prefix(cover).length));
        self.table.remove(F::prefix(prefix), cover.0.into(), length);
        Some(before)
    }

    /// What exactly this prefix leads to.
    pub fn get(&self, prefix: F::Net) -> Option<NextHopId> {
        self.routes.get(&F::truncated(prefix)).copied()
    }

    /// The longest prefix that holds `address`.
    pub fn longest_match(&self, address: F::Address) -> Option<(F::Net, NextHopId)> {
        self.routes.get_lpm(&F::Net::from(address)).map(|(prefix, id)| (prefix, *id))
    }

    /// All prefixes, in the order of their addresses, shorter ones first.
    pub fn iter(&self) -> impl Iterator<Item = (F::Net, NextHopId)> {
        self.routes.iter().map(|(prefix, id)| (prefix, *id))
    }

    /// Number of prefixes.
    pub fn len(&self) -> usize {
        self.routes.len()
    }

    /// True when there is none.
    pub fn is_empty(&self) -> bool {
        self.routes.is_empty()
    }

    /// Bytes that the table occupies: what readers look at, and the writer's books.
    pub fn memory_bytes(&self) -> usize {
        self.table.memory_bytes() + self.routes.mem_size()
    }

    /// How much of what readers look at the kernel keeps in huge pages, which it is asked for;
    /// `None` where the kernel does not say. Slow: for reports.
    pub fn huge_pages(&self) -> Option<HugePages> {
        let tables = self.table.tables();
        HugePages::of(&[tables.root.range(), tables.groups.range()])
    }
}

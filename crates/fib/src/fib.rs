//! Writer of a table of either family: all prefixes, and the cells that readers use.

use crate::family::Family;
use crate::grace::Grace;
use crate::multibit::Multibit;
use crate::reader::Reader;
use crate::{FibError, HugePages, NextHopId};
use prefix_trie::PrefixMap;

/// Writer of a table; see [`crate::Fib4`] and [`crate::Fib6`].
#[derive(Debug)]
pub struct Fib<F: Family> {
    /// All prefixes; after a removal they give the covering prefix.
    routes: PrefixMap<F::Net, NextHopId>,
    table: Multibit<F::Cell>,
}

impl<F: Family> Fib<F> {
    /// Makes an empty table with the family's default size, whose readers are registered with
    /// `grace`.
    pub fn new(grace: &Grace) -> Self {
        Self::with_groups(grace, F::DEFAULT_GROUPS)
    }

    /// Makes an empty table of at most `groups` groups of 256 entries, which hold prefixes of more
    /// than 24 bits. The number is limited to what entries can name. A group that readers may still
    /// use counts as well.
    pub fn with_groups(grace: &Grace, groups: usize) -> Self {
        let table = Multibit::new(grace, groups.min(F::MAX_GROUPS));
        Self { routes: PrefixMap::new(), table }
    }

    /// Returns a reader of the table; the worker that uses it must hold a slot of the same `grace`.
    pub fn reader(&self) -> Reader<F> {
        Reader::at(self.table.tables(), F::choice().level)
    }

    /// Adds or replaces a prefix; returns its previous next hop.
    ///
    /// # Errors
    /// Fails when the id is out of range or the table is full; the table is then unchanged.
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

    /// Removes a prefix; returns its previous next hop.
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

    /// Returns the next hop of exactly this prefix.
    pub fn get(&self, prefix: F::Net) -> Option<NextHopId> {
        self.routes.get(&F::truncated(prefix)).copied()
    }

    /// Returns the longest prefix that contains `address`, and its next hop.
    pub fn longest_match(&self, address: F::Address) -> Option<(F::Net, NextHopId)> {
        self.routes.get_lpm(&F::Net::from(address)).map(|(prefix, id)| (prefix, *id))
    }

    /// Returns all prefixes in the order of their addresses; a shorter prefix precedes the ones
    /// inside it.
    pub fn iter(&self) -> impl Iterator<Item = (F::Net, NextHopId)> {
        self.routes.iter().map(|(prefix, id)| (prefix, *id))
    }

    /// Returns the number of prefixes.
    pub fn len(&self) -> usize {
        self.routes.len()
    }

    /// Returns true if there is no prefix.
    pub fn is_empty(&self) -> bool {
        self.routes.is_empty()
    }

    /// Returns the size of the table in bytes: the readers' cells and the writer's bookkeeping.
    pub fn memory_bytes(&self) -> usize {
        self.table.memory_bytes() + self.routes.mem_size()
    }

    /// Returns how much of the readers' cells is in huge pages; `None` if the kernel does not
    /// report it. Slow: for reports.
    pub fn huge_pages(&self) -> Option<HugePages> {
        let tables = self.table.tables();
        HugePages::of(&[
            tables.root.bytes.range(),
            tables.root.whole.range(),
            tables.groups.range(),
        ])
    }
}

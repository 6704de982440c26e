//! The multibit trie of both families, from the point of view of its one writer.
//!
//! The first 24 bits of an address select a cell of the root ([`crate::root`]); every further 8
//! bits select one of the 256 cells of a group. A cell holds the next hop of all addresses that
//! lead to it, or names the group that distinguishes them. A prefix is written into every cell that
//! it covers and that no longer prefix covers (controlled prefix expansion: Srinivasan and
//! Varghese, "Fast Address Lookups Using Controlled Prefix Expansion", 1999; for IPv4 this is
//! DIR-24-8: Gupta, Lin and McKeown, "Routing Lookups in Hardware at Memory Access Speeds", 1998).
//!
//! For every cell the writer also stores the length of its prefix. An update then knows which cells
//! belong to it without a search per cell.
//!
//! Readers see a cell either before or after an update. A new group is filled before the cell that
//! names it is stored, and an unlinked group stays unchanged until every reader has moved on.

use crate::FibError;
use crate::cell::Cell;
use crate::grace::Grace;
use crate::groups::Groups;
use crate::memory::Region;
use crate::root::{ROOT_BITS, ROOT_CELLS, Root};
use std::ops::Range;
use std::sync::Arc;
use wattline_memory::Supply;

/// Number of address bits that a group resolves.
const GROUP_BITS: u8 = 8;
/// Number of cells in a group.
pub(crate) const GROUP_CELLS: usize = 1 << GROUP_BITS;

/// Bytes of a small page.
const PAGE: usize = 4096;

/// The part of the table that readers use.
#[derive(Debug)]
pub struct Tables<C> {
    pub(crate) root: Root<C>,
    pub(crate) groups: Region<C>,
}

/// A prefix with its bits at the top of the word, whatever the family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prefix {
    pub(crate) bits: u128,
    pub(crate) length: u8,
}

impl Prefix {
    /// Returns the number of groups between the root and the cells of this prefix.
    fn depth(self) -> u8 {
        self.length.saturating_sub(ROOT_BITS).div_ceil(GROUP_BITS)
    }

    /// Cells of the prefix in the group (or root) at its depth.
    fn cells(self) -> Range<usize> {
        let depth = self.depth();
        let first = cell_at(self.bits, depth);
        first..first + (1 << (ROOT_BITS + depth * GROUP_BITS - self.length))
    }
}

/// Returns the cell of an address in the group (or root) at this depth.
fn cell_at(bits: u128, depth: u8) -> usize {
    if depth == 0 {
        (bits >> (128 - ROOT_BITS)) as usize
    } else {
        (bits >> (128 - ROOT_BITS - depth * GROUP_BITS)) as usize % GROUP_CELLS
    }
}

/// The writer's part of the table.
#[derive(Debug)]
pub(crate) struct Multibit<C> {
    cells: Cells<C>,
    groups: Groups,
}

/// Cells, and the length of the prefix in each (0 also for none).
#[derive(Debug)]
struct Cells<C> {
    tables: Arc<Tables<C>>,
    root_lengths: Vec<u8>,
    group_lengths: Vec<u8>,
    /// Pages of the root's whole entries that were ever written to.
    whole_pages: Vec<bool>,
}

/// The root (`None`) or a group.
type Node = Option<u32>;

impl<C: Cell> Cells<C> {
    fn read(&self, node: Node, cell: usize) -> u32 {
        match node {
            None => self.tables.root.read(cell),
            Some(group) => self.tables.groups[group as usize * GROUP_CELLS + cell].read(),
        }
    }

    /// Returns the group that a cell names; `None` if it names none.
    fn below(&self, node: Node, cell: usize) -> Option<u32> {
        let entry = self.read(node, cell);
        (entry & C::EXTENDED != 0).then_some(entry & !C::EXTENDED)
    }

    fn write(&mut self, node: Node, cell: usize, entry: u32) {
        match node {
            None => {
                if self.tables.root.write(cell, entry) {
                    self.whole_pages[cell * size_of::<C>() / PAGE] = true;
                }
            }
            Some(group) => self.tables.groups[group as usize * GROUP_CELLS + cell].write(entry),
        }
    }

    fn length(&mut self, node: Node, cell: usize) -> &mut u8 {
        match node {
            None => &mut self.root_lengths[cell],
            Some(group) => &mut self.group_lengths[group as usize * GROUP_CELLS + cell],
        }
    }

    /// Writes `entry` for a prefix of `length` into those of `cells`, and of the cells in groups
    /// below them, whose present prefix length `replaces` accepts.
    fn paint(
        &mut self,
        node: Node,
        cells: Range<usize>,
        entry: u32,
        length: u8,
        replaces: &impl Fn(u8) -> bool,
    ) {
        for cell in cells {
            if let Some(group) = self.below(node, cell) {
                self.paint(Some(group), 0..GROUP_CELLS, entry, length, replaces);
            } else if replaces(*self.length(node, cell)) {
                *self.length(node, cell) = length;
                self.write(node, cell, entry);
            }
        }
    }
}

impl<C: Cell> Multibit<C> {
    /// Makes an empty table of at most `groups` groups.
    pub(crate) fn new(grace: &Grace, groups: usize) -> Self {
        let tables = Tables {
            root: Root::new(),
            groups: Region::zeroed(groups * GROUP_CELLS, Supply::AsTouched),
        };
        Self {
            cells: Cells {
                tables: Arc::new(tables),
                root_lengths: vec![0; ROOT_CELLS],
                group_lengths: Vec::new(),
                whole_pages: vec![false; ROOT_CELLS * size_of::<C>() / PAGE],
            },
            groups: Groups::new(grace, groups),
        }
    }

    pub(crate) fn tables(&self) -> Arc<Tables<C>> {
        self.cells.tables.clone()
    }

    /// Changes the next hop of a prefix that is in the table.
    pub(crate) fn replace(&mut self, prefix: Prefix, entry: u32) {
        let (node, _) = self.descend(prefix);
        self.cells.paint(node, prefix.cells(), entry, prefix.length, &|l| l == prefix.length);
    }

    /// Adds a prefix that is not in the table.
    pub(crate) fn insert(&mut self, prefix: Prefix, entry: u32) -> Result<(), FibError> {
        let (node, depth) = self.descend(prefix);
        let missing = prefix.depth() - depth;
        let taken = self.groups.take(missing.into())?;
        let own = |length| length <= prefix.length;
        let Some(&top) = taken.first() else {
            self.cells.paint(node, prefix.cells(), entry, prefix.length, &own);
            if let Some(group) = node {
                self.groups.gained(group);
            }
            return Ok(());
        };

        // The new groups start with the entry of the cell above them.
        let link = cell_at(prefix.bits, depth);
        let above = self.cells.read(node, link);
        let above_length = *self.cells.length(node, link);
        let touched = self.groups.touched() * GROUP_CELLS;
        if self.cells.group_lengths.len() < touched {
            self.cells.group_lengths.resize(touched, 0);
        }
        for (below, &group) in taken.iter().enumerate() {
            for cell in 0..GROUP_CELLS {
                self.cells.write(Some(group), cell, above);
                *self.cells.length(Some(group), cell) = above_length;
            }
            if let Some(&next) = taken.get(below + 1) {
                let cell = cell_at(prefix.bits, depth + 1 + below as u8);
                self.cells.write(Some(group), cell, C::EXTENDED | next);
            }
            self.groups.gained(group);
        }
        let bottom = taken.last().copied();
        self.cells.paint(bottom, prefix.cells(), entry, prefix.length, &own);

        // The groups are complete, so readers may enter.
        self.cells.write(node, link, C::EXTENDED | top);
        if let Some(group) = node {
            self.groups.gained(group);
        }
        Ok(())
    }

    /// Removes a prefix that is in the table. Its cells get the entry of the longest prefix that
    /// covers it.
    pub(crate) fn remove(&mut self, prefix: Prefix, cover_entry: u32, cover_length: u8) {
        let (mut node, mut depth) = self.descend(prefix);
        self.cells.paint(node, prefix.cells(), cover_entry, cover_length, &|l| l == prefix.length);

        // A group without prefixes of its own and without groups below has the same entry in all
        // cells, so one cell above can replace it.
        while let Some(group) = node
            && self.groups.lost(group)
        {
            let entry = self.cells.read(node, 0);
            let length = *self.cells.length(node, 0);
            depth -= 1;
            node = self.node_at(prefix.bits, depth);
            let link = cell_at(prefix.bits, depth);
            *self.cells.length(node, link) = length;
            self.cells.write(node, link, entry);
            self.groups.retire(group);
        }
    }

    /// Returns the size in bytes of cells, prefix lengths and the bookkeeping of groups.
    pub(crate) fn memory_bytes(&self) -> usize {
        let whole_pages = self.cells.whole_pages.iter().filter(|touched| **touched).count();
        ROOT_CELLS
            + whole_pages * PAGE
            + self.groups.touched() * GROUP_CELLS * size_of::<C>()
            + self.cells.whole_pages.len()
            + self.cells.root_lengths.len()
            + self.cells.group_lengths.capacity()
            + self.groups.memory_bytes()
    }

    /// Returns the deepest existing node on the path to the cells of `prefix`, and its depth.
    fn descend(&self, prefix: Prefix) -> (Node, u8) {
        let mut node = None;
        for depth in 0..prefix.depth() {
            match self.cells.below(node, cell_at(prefix.bits, depth)) {
                Some(group) => node = Some(group),
                None => return (node, depth),
            }
        }
        (node, prefix.depth())
    }

    /// Returns the node at `depth` on the path to an address; it must exist.
    fn node_at(&self, bits: u128, depth: u8) -> Node {
        (0..depth).fold(None, |node, depth| self.cells.below(node, cell_at(bits, depth)))
    }
}

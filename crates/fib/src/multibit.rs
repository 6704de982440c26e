//! The multibit trie behind both families, as its one writer sees it.
//!
//! The first 24 bits of an address pick a cell of the root; every further 8 bits pick one of
//! the 256 cells of a group. A cell holds the next hop of all addresses that lead to it, or
//! names the group that tells them apart. A prefix is written into every cell that it covers
//! and no longer prefix does (controlled prefix expansion: Srinivasan and Varghese, "Fast
//! Address Lookups Using Controlled Prefix Expansion", 1999; for IPv4 this is DIR-24-8: Gupta,
//! Lin and McKeown, "Routing Lookups in Hardware at Memory Access Speeds", 1998).
//!
//! Beside the cells, the writer keeps the length of the prefix that each came from: with it
//! an update knows which cells are its own without asking a trie for each of them.
//!
//! Readers see a cell before or after an update, nothing else: a new group is filled before
//! the cell that names it is stored, and a group that was unlinked is left as it is until
//! every reader has moved on.

use crate::FibError;
use crate::cell::Cell;
use crate::grace::Grace;
use crate::groups::Groups;
use crate::memory::Region;
use std::ops::Range;
use std::sync::Arc;

/// Bits of an address that the root resolves.
pub(crate) const ROOT_BITS: u8 = 24;
/// Cells of the root.
pub(crate) const ROOT_CELLS: usize = 1 << ROOT_BITS;
/// Bits of an address that a group resolves.
const GROUP_BITS: u8 = 8;
/// Cells of a group.
pub(crate) const GROUP_CELLS: usize = 1 << GROUP_BITS;

/// What readers see.
#[derive(Debug)]
pub struct Tables<C> {
    pub(crate) root: Region<C>,
    pub(crate) groups: Region<C>,
}

/// A prefix, its bits at the top of the word whatever the family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prefix {
    pub(crate) bits: u128,
    pub(crate) length: u8,
}

impl Prefix {
    /// How many groups lie between the root and the cells of this prefix.
    fn depth(self) -> u8 {
        self.length.saturating_sub(ROOT_BITS).div_ceil(GROUP_BITS)
    }

    /// Its cells, in the group (or root) at its depth.
    fn cells(self) -> Range<usize> {
        let depth = self.depth();
        let first = cell_at(self.bits, depth);
        first..first + (1 << (ROOT_BITS + depth * GROUP_BITS - self.length))
    }
}

/// The cell of an address, in the group (or root) at this depth.
fn cell_at(bits: u128, depth: u8) -> usize {
    if depth == 0 {
        (bits >> (128 - ROOT_BITS)) as usize
    } else {
        (bits >> (128 - ROOT_BITS - depth * GROUP_BITS)) as usize % GROUP_CELLS
    }
}

/// The writer's side.
#[derive(Debug)]
pub(crate) struct Multibit<C> {
    cells: Cells<C>,
    groups: Groups,
}

/// Cells, and for each the length of the prefix that it was written for (0 also for none).
#[derive(Debug)]
struct Cells<C> {
    tables: Arc<Tables<C>>,
    root_lengths: Vec<u8>,
    group_lengths: Vec<u8>,
}

/// The root, or a group.
type Node = Option<u32>;

impl<C: Cell> Cells<C> {
    fn read(&self, node: Node, cell: usize) -> u32 {
        match node {
            None => self.tables.root[cell].read(),
            Some(group) => self.tables.groups[group as usize * GROUP_CELLS + cell].read(),
        }
    }

    /// The group that a cell names, if it names one.
    fn below(&self, node: Node, cell: usize) -> Option<u32> {
        let entry = self.read(node, cell);
        (entry & C::EXTENDED != 0).then_some(entry & !C::EXTENDED)
    }

    fn write(&self, node: Node, cell: usize, entry: u32) {
        match node {
            None => self.tables.root[cell].write(entry),
            Some(group) => self.tables.groups[group as usize * GROUP_CELLS + cell].write(entry),
        }
    }

    fn length(&mut self, node: Node, cell: usize) -> &mut u8 {
        match node {
            None => &mut self.root_lengths[cell],
            Some(group) => &mut self.group_lengths[group as usize * GROUP_CELLS + cell],
        }
    }

    /// Writes `entry` for a prefix of `length` into those of `cells`, and of the groups below,
    /// whose present prefix has a length that `replaces` accepts.
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
    /// An empty table of at most `groups` groups.
    pub(crate) fn new(grace: &Grace, groups: usize) -> Self {
        let tables = Tables {
            root: Region::zeroed(ROOT_CELLS),
            groups: Region::zeroed(groups * GROUP_CELLS),
        };
        Self {
            cells: Cells {
                tables: Arc::new(tables),
                root_lengths: vec![0; ROOT_CELLS],
                group_lengths: Vec::new(),
            },
            groups: Groups::new(grace, groups),
        }
    }

    pub(crate) fn tables(&self) -> Arc<Tables<C>> {
        self.cells.tables.clone()
    }

    /// Changes what a prefix that the table holds leads to.
    pub(crate) fn replace(&mut self, prefix: Prefix, entry: u32) {
        let (node, _) = self.descend(prefix);
        self.cells.paint(node, prefix.cells(), entry, prefix.length, &|l| l == prefix.length);
    }

    /// Adds a prefix that the table does not hold.
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

        // The chain of new groups says at first what the cell above it says.
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

        // Complete: readers may come.
        self.cells.write(node, link, C::EXTENDED | top);
        if let Some(group) = node {
            self.groups.gained(group);
        }
        Ok(())
    }

    /// Removes a prefix that the table holds; its cells lead where the longest prefix that
    /// covers it leads.
    pub(crate) fn remove(&mut self, prefix: Prefix, cover_entry: u32, cover_length: u8) {
        let (mut node, mut depth) = self.descend(prefix);
        self.cells.paint(node, prefix.cells(), cover_entry, cover_length, &|l| l == prefix.length);

        // A group without a prefix of its own and without groups below says the same in all
        // its cells: one cell above can say it.
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

    /// Bytes of cells, of their lengths and of the account of groups.
    pub(crate) fn memory_bytes(&self) -> usize {
        let cells = ROOT_CELLS + self.groups.touched() * GROUP_CELLS;
        cells * size_of::<C>()
            + self.cells.root_lengths.len()
            + self.cells.group_lengths.capacity()
            + self.groups.memory_bytes()
    }

    /// The deepest node that exists on the way to the cells of `prefix`, and its depth.
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

    /// The node at `depth` on the way to an address; it must exist.
    fn node_at(&self, bits: u128, depth: u8) -> Node {
        (0..depth).fold(None, |node, depth| self.cells.below(node, cell_at(bits, depth)))
    }
}

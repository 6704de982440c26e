//! Placement of pages in memory.

use super::cache::Line;
use super::data::Data;
use super::prefetch::PAGE_LINES;

/// Places pages in memory in the order of their first use. Otherwise all kinds of data, and the
/// buffers of all cores, would begin in the same sets of a cache.
#[derive(Debug)]
pub(super) struct Places {
    /// Place of each page of all kinds of data; 0 for a page that is not placed yet. Only the parts
    /// that are used take memory.
    pages: Vec<u32>,
    /// Kind of data in each placed page; page 0 is unused.
    kinds: Vec<Data>,
}

impl Places {
    pub fn new() -> Self {
        let pages = Data::User.line(u32::MAX >> 8) / PAGE_LINES + 1;
        Self { pages: vec![0; pages as usize], kinds: vec![Data::Descriptor] }
    }

    #[inline]
    pub fn locate(&mut self, line: Line) -> Line {
        let page = (line / PAGE_LINES) as usize;
        let mut place = self.pages[page];
        if place == 0 {
            place = self.kinds.len() as u32;
            self.pages[page] = place;
            self.kinds.push(Data::from_page(line));
        }
        place * PAGE_LINES + line % PAGE_LINES
    }

    #[inline]
    pub fn kind(&self, placed: Line) -> Data {
        let page = (placed / PAGE_LINES) as usize;
        self.kinds.get(page).copied().unwrap_or(Data::User).within(placed)
    }
}

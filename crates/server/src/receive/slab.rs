//! The slab allocator, as far as it determines the next object.
//!
//! It follows J. Bonwick, The slab allocator (USENIX 1994), in the form of Linux 2.6.21
//! (`mm/slab.c`). Freed objects go onto a stack of the processor. When the stack is full, its
//! oldest half returns to the slabs (pages). When it is empty, it is filled from partly used slabs
//! before wholly free ones. Objects are therefore reused soon, but not in the order of their
//! addresses.

use std::collections::VecDeque;

/// An allocator of objects of one size, `per_slab` of them in a page.
#[derive(Debug, Clone)]
pub struct Slab {
    per_slab: u32,
    /// Stack of the processor, latest object last.
    stack: VecDeque<u32>,
    limit: usize,
    /// Free objects of each slab.
    free: Vec<Vec<u32>>,
    /// Slabs with both free and used objects; the front one is used first.
    partial: VecDeque<u32>,
    /// Slabs without used objects.
    empty: Vec<u32>,
}

impl Slab {
    /// An allocator without slabs. `limit` is the size of the processor's stack, which `mm/slab.c`
    /// derives from the size of the object: 120 up to 256 B, 54 up to 1 kB, 24 up to a page.
    pub fn new(per_slab: u32, limit: usize) -> Self {
        Self {
            per_slab,
            stack: VecDeque::with_capacity(limit),
            limit,
            free: Vec::new(),
            partial: VecDeque::new(),
            empty: Vec::new(),
        }
    }

    /// Takes an object; makes a new slab if none is free.
    pub fn take(&mut self) -> u32 {
        if self.stack.is_empty() {
            self.refill();
        }
        self.stack.pop_back().unwrap_or_default()
    }

    /// Frees an object; calls `flushed` for those that the stack returns to their slabs.
    pub fn give(&mut self, object: u32, mut flushed: impl FnMut(u32)) {
        if self.stack.len() == self.limit {
            for _ in 0..self.limit.div_ceil(2) {
                if let Some(oldest) = self.stack.pop_front() {
                    flushed(oldest);
                    self.return_to_slab(oldest);
                }
            }
        }
        self.stack.push_back(object);
    }

    /// Page of an object.
    pub fn page(&self, object: u32) -> u32 {
        object / self.per_slab
    }

    /// Number of pages so far.
    #[cfg(test)]
    pub fn pages(&self) -> usize {
        self.free.len()
    }

    fn refill(&mut self) {
        for _ in 0..self.limit.div_ceil(2) {
            let Some(slab) = self.partial.front().copied().or_else(|| {
                let slab = self.empty.pop().unwrap_or_else(|| self.grow());
                self.partial.push_front(slab);
                Some(slab)
            }) else {
                return;
            };
            let free = &mut self.free[slab as usize];
            if let Some(object) = free.pop() {
                self.stack.push_back(object);
            }
            if free.is_empty() {
                self.partial.pop_front();
            }
        }
    }

    fn grow(&mut self) -> u32 {
        let slab = self.free.len() as u32;
        // The lowest address is taken first.
        self.free.push((slab * self.per_slab..(slab + 1) * self.per_slab).rev().collect());
        slab
    }

    fn return_to_slab(&mut self, object: u32) {
        let slab = self.page(object);
        let free = &mut self.free[slab as usize];
        free.push(object);
        match free.len() {
            count if count == self.per_slab as usize => {
                self.partial.retain(|known| *known != slab);
                self.empty.push(slab);
            }
            1 => self.partial.push_back(slab),
            _ => {
                // A slab that got an object back goes to the end of the list.
                self.partial.retain(|known| *known != slab);
                self.partial.push_back(slab);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    #[test]
    fn what_was_freed_last_is_taken_first() {
        let mut slab = Slab::new(2, 24);
        let (a, b) = (slab.take(), slab.take());
        slab.give(a, |_| ());
        slab.give(b, |_| ());
        assert_eq!((slab.take(), slab.take()), (b, a));
    }

    proptest! {
        /// No object is given out twice, and pages are made only when no object is free.
        #[test]
        fn objects_are_out_once(steps in prop::collection::vec(any::<(bool, u16)>(), 1..2000)) {
            let mut slab = Slab::new(4, 8);
            let (mut out, mut most) = (Vec::new(), 0);
            for (take, which) in steps {
                if take || out.is_empty() {
                    out.push(slab.take());
                } else {
                    let object = out.swap_remove(usize::from(which) % out.len());
                    slab.give(object, |_| ());
                }
                most = most.max(out.len());
                prop_assert_eq!(out.iter().collect::<HashSet<_>>().len(), out.len());
            }
            // The stack holds back at most its limit.
            prop_assert!(slab.pages() <= (most + 8).div_ceil(4) + 1);
        }
    }
}

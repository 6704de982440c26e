//! The slab allocator, as far as it decides which object comes next.
//!
//! J. Bonwick, The slab allocator (USENIX 1994), in the form that Linux 2.6.21 gave it
//! (`mm/slab.c`): freed objects go onto a stack of the processor; when it is full, its oldest
//! half is given back to the slabs (pages) that they came from; when it is empty, it is filled
//! from slabs that are in use in part, before whole free ones. So objects are used again soon,
//! but not in the order of their addresses.

use std::collections::VecDeque;

/// An allocator of objects of one size, `per_slab` of them in a page.
#[derive(Debug, Clone)]
pub struct Slab {
    per_slab: u32,
    /// The processor's stack, the latest last.
    stack: VecDeque<u32>,
    limit: usize,
    /// Free objects of each slab.
    free: Vec<Vec<u32>>,
    /// Slabs with free objects and used ones, from which is taken in front.
    partial: VecDeque<u32>,
    /// Slabs without used objects.
    empty: Vec<u32>,
}

impl Slab {
    /// Without any slab; `limit` is the size of the processor's stack, which `mm/slab.c` chooses
    /// by the size of the object: 120 up to 256 B, 54 up to 1 kB, 24 up to a page.
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

    /// An object; a new slab is made where none is free.
    pub fn take(&mut self) -> u32 {
        if self.stack.is_empty() {
            self.refill();
        }
        self.stack.pop_back().unwrap_or_default()
    }

    /// Gives an object back; `flushed` is told of those that the stack gives back to their slabs.
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

    /// The page that an object lies in.
    pub fn page(&self, object: u32) -> u32 {
        object / self.per_slab
    }

    /// Pages so far.
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
        /// No object is out twice, and pages are made only when all that there is is out.
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

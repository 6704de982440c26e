//! The slab allocator, as far as it determines the next object.
//!
//! This follows J. Bonwick, The slab allocator (USENIX 1994), in the form of Linux 2.6.21
//! (`mm/slab.c`). Freed objects go onto a stack of the processor. When the stack is full, its
//! oldest half goes to an array shared by all processors if it has room, and otherwise back to the
//! slabs (pages). An empty stack is filled from the end of the shared array, otherwise from partly
//! used slabs before free ones. Objects are therefore reused soon, but not in the order of their
//! addresses.

use std::collections::VecDeque;

/// An allocator of objects of one size, `per_slab` of them in a page.
#[derive(Debug, Clone)]
pub struct Slab {
    per_slab: u32,
    /// Stack of each processor, latest object last.
    stacks: Vec<VecDeque<u32>>,
    limit: usize,
    /// The shared array, followed by its capacity in objects.
    shared: Vec<u32>,
    shared_limit: usize,
    /// Free objects of each slab.
    free: Vec<Vec<u32>>,
    /// Slabs with both free and used objects; the front one is used first.
    partial: VecDeque<u32>,
    /// Slabs without used objects.
    empty: Vec<u32>,
}

impl Slab {
    /// Creates an allocator without slabs. `limit` is the size of a processor's stack, which
    /// `mm/slab.c` derives from the size of the object: 120 up to 256 B, 54 up to 1 kB, 24 up to a
    /// page. The shared array holds `batches` halves of a stack: 8 up to a page.
    pub fn new(per_slab: u32, limit: usize, batches: usize, processors: usize) -> Self {
        let shared_limit = batches * limit.div_ceil(2);
        Self {
            per_slab,
            stacks: vec![VecDeque::with_capacity(limit); processors],
            limit,
            shared: Vec::with_capacity(shared_limit),
            shared_limit,
            free: Vec::new(),
            partial: VecDeque::new(),
            empty: Vec::new(),
        }
    }

    /// Takes an object, from a new slab if none is free. Calls `from` for each slab from which the
    /// stack is filled.
    pub fn take(&mut self, processor: usize, from: impl FnMut(u32)) -> u32 {
        if self.stacks[processor].is_empty() {
            self.refill(processor, from);
        }
        self.stacks[processor].pop_back().unwrap_or_default()
    }

    /// Frees an object. Calls `back` with the slab of each object that returns to its slab.
    pub fn give(&mut self, processor: usize, object: u32, mut back: impl FnMut(u32)) {
        if self.stacks[processor].len() == self.limit {
            let room = self.shared_limit - self.shared.len();
            let batch = self.limit.div_ceil(2);
            let moved = if room > 0 { batch.min(room) } else { batch };
            for _ in 0..moved {
                let Some(oldest) = self.stacks[processor].pop_front() else { break };
                if room > 0 {
                    self.shared.push(oldest);
                } else {
                    back(self.page(oldest));
                    self.return_to_slab(oldest);
                }
            }
        }
        self.stacks[processor].push_back(object);
    }

    /// Returns the page of an object.
    pub fn page(&self, object: u32) -> u32 {
        object / self.per_slab
    }

    /// Returns the number of pages so far.
    #[cfg(test)]
    pub fn pages(&self) -> usize {
        self.free.len()
    }

    fn refill(&mut self, processor: usize, mut from: impl FnMut(u32)) {
        let batch = self.limit.div_ceil(2);
        if !self.shared.is_empty() {
            let kept = self.shared.len().saturating_sub(batch);
            self.stacks[processor].extend(self.shared.drain(kept..));
            return;
        }
        let mut last = None;
        for _ in 0..batch {
            let Some(slab) = self.partial.front().copied().or_else(|| {
                let slab = self.empty.pop().unwrap_or_else(|| self.grow());
                self.partial.push_front(slab);
                Some(slab)
            }) else {
                return;
            };
            if last != Some(slab) {
                from(slab);
                last = Some(slab);
            }
            let free = &mut self.free[slab as usize];
            if let Some(object) = free.pop() {
                self.stacks[processor].push_back(object);
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
                // A slab goes to the end of the list when an object returns to it.
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
    fn last_freed_object_is_taken_first() {
        let mut slab = Slab::new(2, 24, 8, 1);
        let (a, b) = (slab.take(0, |_| ()), slab.take(0, |_| ()));
        slab.give(0, a, |_| ());
        slab.give(0, b, |_| ());
        assert_eq!((slab.take(0, |_| ()), slab.take(0, |_| ())), (b, a));
    }

    #[test]
    fn oldest_half_of_a_full_stack_is_shared_or_returns_to_its_slabs() {
        let mut slab = Slab::new(2, 4, 1, 2);
        let objects: Vec<u32> = (0..9).map(|_| slab.take(0, |_| ())).collect();
        let mut back = Vec::new();
        // Nine objects were taken in pairs, so one is still on the stack.
        for object in &objects[..4] {
            slab.give(0, *object, |page| back.push(page));
        }
        assert!(back.is_empty(), "two objects went into the shared array: {back:?}");
        let other = slab.take(1, |_| panic!("the other processor takes from the shared array"));
        assert!(objects[..2].contains(&other) || other == 9, "{other}");
        slab.give(1, other, |_| ());
        for object in &objects[4..] {
            slab.give(0, *object, |page| back.push(page));
        }
        assert!(!back.is_empty());
    }

    proptest! {
        /// No object is handed out twice, and pages are created only if no object is free.
        #[test]
        fn objects_are_out_once(
            steps in prop::collection::vec(any::<(bool, bool, u16)>(), 1..2000)
        ) {
            let mut slab = Slab::new(4, 8, 2, 2);
            let (mut out, mut most) = (Vec::new(), 0);
            for (take, second, which) in steps {
                let processor = usize::from(second);
                if take || out.is_empty() {
                    out.push(slab.take(processor, |_| ()));
                } else {
                    let object = out.swap_remove(usize::from(which) % out.len());
                    slab.give(processor, object, |_| ());
                }
                most = most.max(out.len());
                prop_assert_eq!(out.iter().collect::<HashSet<_>>().len(), out.len());
            }
            // The stacks hold back at most their limits; the shared array is used first.
            prop_assert!(slab.pages() <= (most + 2 * 8 + 8).div_ceil(4) + 1);
        }
    }
}

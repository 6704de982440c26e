//! Allocation of a table's groups, and the time of their reuse.

use crate::FibError;
use crate::grace::{Epoch, Grace};
use std::collections::VecDeque;

/// The writer's bookkeeping of a table's groups.
#[derive(Debug)]
pub(crate) struct Groups {
    grace: Grace,
    limit: usize,
    /// Contents of each group ever used: number of prefixes that end in it, and of groups below it.
    population: Vec<u16>,
    free: Vec<u32>,
    /// Unlinked groups that readers may still use, oldest first.
    waiting: VecDeque<(Epoch, u32)>,
}

impl Groups {
    pub(crate) fn new(grace: &Grace, limit: usize) -> Self {
        Self {
            grace: grace.clone(),
            limit,
            population: Vec::new(),
            free: Vec::new(),
            waiting: VecDeque::new(),
        }
    }

    /// Takes `count` groups; if there are not as many, it takes none.
    pub(crate) fn take(&mut self, count: usize) -> Result<Vec<u32>, FibError> {
        // Prefers groups that were used before, so that the table stays small.
        while self.free.len() < count
            && let Some(&(epoch, group)) = self.waiting.front()
            && self.grace.passed(epoch)
        {
            self.waiting.pop_front();
            self.free.push(group);
        }
        let used_again = count.min(self.free.len());
        let fresh = count - used_again;
        if self.population.len() + fresh > self.limit {
            return Err(FibError::Full(self.limit));
        }
        let mut taken = self.free.split_off(self.free.len() - used_again);
        for _ in 0..fresh {
            taken.push(self.population.len() as u32);
            self.population.push(0);
        }
        Ok(taken)
    }

    /// Frees a group that no cell names any more.
    pub(crate) fn retire(&mut self, group: u32) {
        self.waiting.push_back((self.grace.retire(), group));
    }

    /// Counts one more prefix or group in `group`.
    pub(crate) fn gained(&mut self, group: u32) {
        self.population[group as usize] += 1;
    }

    /// Counts one prefix or group less in `group`; true if it is now empty.
    pub(crate) fn lost(&mut self, group: u32) -> bool {
        let population = &mut self.population[group as usize];
        *population -= 1;
        *population == 0
    }

    /// Returns the number of groups that were ever used, which is the memory that the table has
    /// touched.
    pub(crate) fn touched(&self) -> usize {
        self.population.len()
    }

    /// Returns the size of the bookkeeping in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.population.capacity() * size_of::<u16>()
            + self.free.capacity() * size_of::<u32>()
            + self.waiting.capacity() * size_of::<(Epoch, u32)>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_used_again_only_after_its_readers_moved_on() {
        let grace = Grace::new();
        let reader = grace.register();
        let mut groups = Groups::new(&grace, 2);
        assert_eq!(groups.take(1), Ok(vec![0]));
        groups.retire(0);
        assert_eq!(groups.take(1), Ok(vec![1]), "the reader may still be inside group 0");
        assert_eq!(groups.take(1), Err(FibError::Full(2)));
        reader.quiescent();
        assert_eq!(groups.take(1), Ok(vec![0]));
    }

    #[test]
    fn takes_all_or_nothing() {
        let grace = Grace::new();
        let mut groups = Groups::new(&grace, 3);
        assert_eq!(groups.take(4), Err(FibError::Full(3)));
        assert_eq!(groups.take(3), Ok(vec![0, 1, 2]));
        groups.retire(1);
        assert_eq!(groups.take(2), Err(FibError::Full(3)));
        assert_eq!(groups.take(1), Ok(vec![1]), "groups found by a refused request are kept");
    }

    #[test]
    fn group_counts_its_prefixes_and_groups() {
        let mut groups = Groups::new(&Grace::new(), 1);
        groups.take(1).unwrap();
        groups.gained(0);
        groups.gained(0);
        assert!(!groups.lost(0));
        assert!(groups.lost(0));
    }
}

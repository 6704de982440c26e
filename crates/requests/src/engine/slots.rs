//! The places for requests: each open connection has as many as it may have requests under way.

use crate::clock::Nanos;
use std::collections::VecDeque;

/// A place for one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Slot {
    /// Number of its connection.
    pub connection: u32,
    /// Generation of the connection that it belongs to.
    pub generation: u32,
    /// Since when it is free.
    pub freed: Nanos,
}

/// The free places, the one that has been free for longest first: so all connections are used.
#[derive(Debug, Default)]
pub(super) struct Slots {
    free: VecDeque<Slot>,
}

impl Slots {
    /// Adds a place that has become free.
    pub fn push(&mut self, slot: Slot) {
        self.free.push_back(slot);
    }

    /// Takes the first place whose connection still lives, by the present generation of each.
    pub fn pop(&mut self, generation: impl Fn(u32) -> u32) -> Option<Slot> {
        loop {
            let slot = self.free.pop_front()?;
            if slot.generation == generation(slot.connection) {
                return Some(slot);
            }
        }
    }

    /// Whether there may be a free place.
    pub fn is_empty(&self) -> bool {
        self.free.is_empty()
    }

    /// Forgets the places of closed connections when there are more than `limit` in all.
    pub fn trim(&mut self, limit: usize, generation: impl Fn(u32) -> u32) {
        if self.free.len() > limit {
            self.free.retain(|slot| slot.generation == generation(slot.connection));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_taken_in_turn_and_only_of_connections_that_live() {
        let slot = |connection, generation| Slot { connection, generation, freed: 0 };
        let mut slots = Slots::default();
        for slot in [slot(0, 0), slot(1, 0), slot(0, 1), slot(2, 0)] {
            slots.push(slot);
        }
        let generation = |connection| u32::from(connection == 0);
        assert_eq!(slots.pop(generation), Some(slot(1, 0)));
        slots.push(slot(0, 0));
        slots.trim(2, generation);
        assert_eq!(slots.free.len(), 2);
        assert_eq!(slots.pop(generation), Some(slot(0, 1)));
        assert_eq!(slots.pop(generation), Some(slot(2, 0)));
        assert_eq!(slots.pop(generation), None);
        assert!(slots.is_empty());
    }
}

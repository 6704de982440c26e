//! Slots for requests: each open connection has as many as it may have requests outstanding.

use crate::clock::Nanos;
use std::collections::VecDeque;

/// Slot for one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Slot {
    /// Number of the connection.
    pub connection: u32,
    /// Generation of the connection that the slot belongs to.
    pub generation: u32,
    /// Time at which the slot became free.
    pub freed: Nanos,
}

/// Free slots, the longest free first, so that all connections are used.
#[derive(Debug, Default)]
pub(super) struct Slots {
    free: VecDeque<Slot>,
}

impl Slots {
    /// Adds a slot that has become free.
    pub fn push(&mut self, slot: Slot) {
        self.free.push_back(slot);
    }

    /// Takes the first slot whose connection is still open; `generation` returns the present
    /// generation of a connection.
    pub fn pop(&mut self, generation: impl Fn(u32) -> u32) -> Option<Slot> {
        loop {
            let slot = self.free.pop_front()?;
            if slot.generation == generation(slot.connection) {
                return Some(slot);
            }
        }
    }

    /// Returns true if no slot is free.
    pub fn is_empty(&self) -> bool {
        self.free.is_empty()
    }

    /// Removes the slots of closed connections if there are more than `limit` slots.
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
    fn slots_of_open_connections_are_taken_in_turn() {
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

//! State of a queue's interface, as seen from the data path.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// The kernel's last answer to a queue's system calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum QueueState {
    /// The queue works.
    Up = 0,
    /// The interface is administratively down (ENETDOWN); the queue works again once it is up.
    Down = 1,
    /// The interface has vanished (ENXIO, ENODEV) or the socket failed: the queue will never work
    /// again and must be replaced.
    Gone = 2,
}

/// A handle on a queue's state: the worker writes, others read.
#[derive(Debug, Clone, Default)]
pub struct QueueStatus(Arc<AtomicU8>);

impl QueueStatus {
    /// Returns the state that the worker last saw.
    pub fn state(&self) -> QueueState {
        match self.0.load(Ordering::Relaxed) {
            0 => QueueState::Up,
            1 => QueueState::Down,
            _ => QueueState::Gone,
        }
    }

    /// Returns its name for users.
    pub fn name(&self) -> &'static str {
        match self.state() {
            QueueState::Up => "up",
            QueueState::Down => "down",
            QueueState::Gone => "gone",
        }
    }

    /// Returns true if the queue must be replaced.
    pub fn failed(&self) -> bool {
        self.state() == QueueState::Gone
    }

    pub(super) fn set(&self, state: QueueState) {
        // A queue that is gone remains gone.
        if self.state() != QueueState::Gone {
            self.0.store(state as u8, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queue_recovers_from_down_but_not_from_gone() {
        let status = QueueStatus::default();
        let reader = status.clone();
        status.set(QueueState::Down);
        assert_eq!(reader.state(), QueueState::Down);
        status.set(QueueState::Up);
        assert_eq!(reader.state(), QueueState::Up);
        status.set(QueueState::Gone);
        status.set(QueueState::Up);
        assert!(reader.failed());
    }
}

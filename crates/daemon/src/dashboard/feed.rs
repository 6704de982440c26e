//! Frames from one writer to a few readers. The writer never waits for a reader.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Maximum number of readers.
const READERS: usize = 16;
/// Number of frames that a reader may be behind.
const BEHIND: usize = 4;
/// Points that a new reader gets: ten minutes.
const KEPT: usize = 600;

/// Frames for the readers of a page: the last one, recent points, and the readers.
#[derive(Default)]
pub struct Feed(Mutex<State>);

#[derive(Default)]
struct State {
    points: VecDeque<String>,
    last: Option<Arc<str>>,
    readers: Vec<SyncSender<Arc<str>>>,
}

impl Feed {
    /// Sends a frame to all readers, and keeps the point for later ones. Readers that are too far
    /// behind or gone are dropped.
    pub fn push(&self, point: Option<String>, whole: Arc<str>) {
        let mut state = self.state();
        if let Some(point) = point {
            if state.points.len() == KEPT {
                state.points.pop_front();
            }
            state.points.push_back(point);
        }
        state.readers.retain(|reader| reader.try_send(Arc::clone(&whole)).is_ok());
        state.last = Some(whole);
    }

    /// Adds a reader. Returns the recent points, as an array in JSON, and the receiver of frames,
    /// which starts with the last one. If there are too many readers, the oldest is dropped:
    /// staying must not keep others out, and a page reconnects.
    pub fn join(&self) -> (String, Receiver<Arc<str>>) {
        let mut state = self.state();
        if state.readers.len() >= READERS {
            state.readers.remove(0);
        }
        let (sender, receiver) = sync_channel(BEHIND);
        if let Some(last) = &state.last {
            // A new channel has room.
            let _ = sender.try_send(Arc::clone(last));
        }
        state.readers.push(sender);
        let points: Vec<&str> = state.points.iter().map(String::as_str).collect();
        (format!("[{}]", points.join(",")), receiver)
    }

    /// Returns the last frame.
    pub fn last(&self) -> Option<Arc<str>> {
        self.state().last.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_reader_gets_recent_points_and_later_frames() {
        let feed = Feed::default();
        feed.push(Some("1".to_owned()), "one".into());
        feed.push(None, "two".into());
        let (history, frames) = feed.join();
        assert_eq!(history, "[1]");
        feed.push(Some("3".to_owned()), "three".into());
        assert_eq!(frames.recv().as_deref(), Ok("two"));
        assert_eq!(frames.recv().as_deref(), Ok("three"));
        assert_eq!(feed.last().as_deref(), Some("three"));
        for number in 0..2 * KEPT {
            feed.push(Some(number.to_string()), "x".into());
        }
        let (history, _) = feed.join();
        let kept: Vec<u64> = serde_json::from_str(&history).unwrap();
        assert_eq!((kept.len(), kept[0]), (KEPT, KEPT as u64), "the newest are kept");
    }

    #[test]
    fn slow_readers_and_vanished_ones_make_room() {
        let feed = Feed::default();
        let slow: Vec<_> = (0..READERS - 1).map(|_| feed.join().1).collect();
        let gone = feed.join().1;
        drop(gone);
        feed.push(None, "x".into());
        let kept = feed.join().1;
        for _ in 0..=BEHIND {
            feed.push(None, "y".into());
            // This reader keeps up.
            while kept.try_recv().is_ok() {}
        }
        for reader in &slow {
            assert_eq!(reader.iter().count(), BEHIND, "it was dropped");
        }
        feed.push(None, "z".into());
        assert_eq!(kept.try_recv().as_deref(), Ok("z"));
        let all: Vec<_> = (0..READERS).map(|_| feed.join().1).collect();
        feed.push(None, "a".into());
        assert_eq!(kept.try_recv().ok(), None, "it was the oldest of too many");
        assert!(all.iter().all(|reader| reader.iter().take(2).count() == 2));
    }
}

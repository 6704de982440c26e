//! Number of chunks that a queue lends the kernel for future frames.
//!
//! A full ring covers times in which the worker does not receive: a burst, or a turn of another
//! thread. At other times it is harmful. The chunks are used in rotation, and a few thousand of
//! them no longer fit in the processor's cache when they are used again. If frames arrive faster
//! than they are forwarded, a full ring only delays them.
//!
//! So under load the level halves while a queue shows no need for it, and doubles at once when the
//! queue does:
//! - *need*: more than half of the level is waiting, although the ring had been emptied before;
//! - *no need*: for a whole window a quarter of the level was never exceeded, or the ring was never
//!   emptied, so that the backlog is a standing queue.
//!
//! With few frames, their processor time does not matter, and the whole ring is lent: it lasts for
//! the second in which a busy machine may not run the worker.

/// Receptions with frames in a window: some tenths of a second under load.
const WINDOW: u32 = 1 << 13;
/// Receptions with frames after which the load is checked.
const GLANCE: u32 = 1 << 8;
/// Average number of waiting frames at a reception under load.
const CROWD: u32 = 16;
/// The level of one queue.
#[derive(Debug, Clone, Copy)]
pub(super) struct FillLevel {
    ring: u32,
    level: u32,
    /// Most frames that waited in this window.
    peak: u32,
    /// Sum of the waiting frames since the last load check.
    crowd: u32,
    /// True if the ring was found empty in this window.
    emptied: bool,
    receptions: u32,
}

impl FillLevel {
    /// Number of free slots of the fill ring from which topping it up is worth a write to shared
    /// memory.
    pub(super) const BATCH: u32 = 64;

    /// Lowest level: two round trips of the largest receive burst of a driver (256 frames), half a
    /// millisecond at a million frames per second.
    pub(super) const LEAST: u32 = 512;

    /// Begins with the whole ring of this many slots.
    pub(super) fn new(ring: u32) -> Self {
        Self { ring, level: ring, peak: 0, crowd: 0, emptied: false, receptions: 0 }
    }

    /// Returns the number of chunks to lend, including those with waiting frames.
    #[inline]
    pub(super) fn chunks(&self) -> u32 {
        self.level
    }

    /// Notes the number of waiting frames at a reception.
    #[inline]
    pub(super) fn note(&mut self, waiting: u32) {
        if waiting == 0 {
            self.emptied = true;
            return;
        }
        self.peak = self.peak.max(waiting);
        self.receptions += 1;
        self.crowd = self.crowd.saturating_add(waiting);
        if self.receptions.is_multiple_of(GLANCE) {
            if self.crowd < GLANCE * CROWD {
                self.begin_window(self.ring);
                return;
            }
            self.crowd = 0;
        }
        if self.emptied && waiting > self.level / 2 && self.level < self.ring {
            self.begin_window((2 * self.level).min(self.ring));
        } else if self.receptions >= WINDOW {
            let needed = self.emptied && self.peak > self.level / 4;
            let lower = (self.level / 2).max(Self::LEAST.min(self.ring));
            self.begin_window(if needed { self.level } else { lower });
        }
    }

    fn begin_window(&mut self, level: u32) {
        *self = Self { level, ..Self::new(self.ring) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RING: u32 = 2048;
    const LEAST: u32 = FillLevel::LEAST;

    /// Runs a window with these numbers of waiting frames, repeated.
    fn window(level: &mut FillLevel, waiting: &[u32]) {
        for _ in 0..WINDOW {
            waiting.iter().for_each(|frames| level.note(*frames));
        }
    }

    #[test]
    fn level_begins_with_the_whole_ring_and_falls_to_the_least_with_few_waiting_frames() {
        let mut level = FillLevel::new(RING);
        assert_eq!(level.chunks(), RING);
        window(&mut level, &[0, 64]);
        assert_eq!(level.chunks(), RING / 2);
        for _ in 0..5 {
            window(&mut level, &[0, 64]);
        }
        assert_eq!(level.chunks(), LEAST);
    }

    #[test]
    fn standing_queue_of_any_length_lowers_the_level() {
        let mut level = FillLevel::new(RING);
        for _ in 0..5 {
            let all = level.chunks();
            window(&mut level, &[all - 64, all]);
        }
        assert_eq!(level.chunks(), LEAST);
    }

    #[test]
    fn burst_raises_the_level_at_once_and_repeated_bursts_keep_it() {
        let mut level = FillLevel::new(RING);
        for _ in 0..5 {
            window(&mut level, &[0, 64]);
        }
        level.note(0);
        level.note(LEAST / 2 + 1);
        assert_eq!(level.chunks(), 2 * LEAST);
        level.note(0);
        level.note(LEAST + 1);
        assert_eq!(level.chunks(), RING);
        for _ in 0..5 {
            window(&mut level, &[0, 700]);
        }
        assert_eq!(level.chunks(), RING);
    }

    #[test]
    fn whole_ring_is_lent_with_few_frames() {
        let mut level = FillLevel::new(RING);
        for _ in 0..5 {
            window(&mut level, &[0, 64]);
        }
        assert_eq!(level.chunks(), LEAST);
        for _ in 0..2 * GLANCE {
            level.note(0);
            level.note(1);
        }
        assert_eq!(level.chunks(), RING);
        window(&mut level, &[0, CROWD - 1]);
        assert_eq!(level.chunks(), RING);
    }

    #[test]
    fn level_is_unchanged_without_frames() {
        let mut level = FillLevel::new(RING);
        window(&mut level, &[0, 0]);
        assert_eq!(level.chunks(), RING);
    }

    #[test]
    fn small_ring_is_always_lent_as_a_whole() {
        let mut level = FillLevel::new(64);
        window(&mut level, &[0, 1]);
        assert_eq!(level.chunks(), 64);
        window(&mut level, &[0, 64]);
        assert_eq!(level.chunks(), 64);
    }
}

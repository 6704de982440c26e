//! Number of chunks that a queue lends the kernel for frames to come.
//!
//! A full ring is there for the time in which the worker does not come: for a burst, or for a
//! turn of another thread. The rest of the time it does harm. The chunks go round, so the
//! more there are the longer each is away, and a few thousand of them are no longer in the
//! processor's cache when they are used again. And where frames come faster than they are
//! forwarded, a ring that is always full only delays them.
//!
//! So under load the level halves while a queue shows no need for it, and doubles at once when it
//! does:
//! - *need*: more than half of the level waits, though the ring had been emptied before;
//! - *no need*: for a whole window a quarter of the level was never passed, or the ring was
//!   never emptied, so that what waits is a standing queue, as long as it is let.
//!
//! Where few frames come, their processor time does not matter, and the whole ring is lent: it
//! lasts for the second in which a crowded machine may not run the worker.

/// Receptions with frames in a window: some tenths of a second under load, none without.
const WINDOW: u32 = 1 << 13;
/// Receptions with frames after which it is asked whether there is load at all.
const GLANCE: u32 = 1 << 8;
/// Frames that wait at a reception under load, on average.
const CROWD: u32 = 16;
/// The level of one queue.
#[derive(Debug, Clone, Copy)]
pub(super) struct FillLevel {
    ring: u32,
    level: u32,
    /// Most frames that waited in this window.
    peak: u32,
    /// Sum of the frames that waited since the last look.
    crowd: u32,
    /// The ring was found empty in this window.
    emptied: bool,
    receptions: u32,
}

impl FillLevel {
    /// Free slots of the fill ring that make topping it up worth a write to shared memory.
    pub(super) const BATCH: u32 = 64;

    /// The level does not fall below: two round trips of the largest receive burst of a driver
    /// (256 frames), half a millisecond at a million frames per second.
    pub(super) const LEAST: u32 = 512;

    /// Begins with all of a ring of so many slots.
    pub(super) fn new(ring: u32) -> Self {
        Self { ring, level: ring, peak: 0, crowd: 0, emptied: false, receptions: 0 }
    }

    /// Chunks to be lent, those in which frames wait included.
    #[inline]
    pub(super) fn chunks(&self) -> u32 {
        self.level
    }

    /// Notes how many frames waited at a reception.
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

    /// A window in which the waiting frames come and go as given.
    fn window(level: &mut FillLevel, waiting: &[u32]) {
        for _ in 0..WINDOW {
            waiting.iter().for_each(|frames| level.note(*frames));
        }
    }

    #[test]
    fn it_begins_with_all_and_falls_to_the_least_where_little_waits() {
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
    fn a_standing_queue_lowers_it_however_long() {
        let mut level = FillLevel::new(RING);
        for _ in 0..5 {
            let all = level.chunks();
            window(&mut level, &[all - 64, all]);
        }
        assert_eq!(level.chunks(), LEAST);
    }

    #[test]
    fn a_burst_raises_it_at_once_and_repeated_bursts_keep_it() {
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
    fn few_frames_make_it_lend_the_whole_ring() {
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
    fn nothing_changes_while_nothing_comes() {
        let mut level = FillLevel::new(RING);
        window(&mut level, &[0, 0]);
        assert_eq!(level.chunks(), RING);
    }

    #[test]
    fn a_small_ring_is_always_lent_whole() {
        let mut level = FillLevel::new(64);
        window(&mut level, &[0, 1]);
        assert_eq!(level.chunks(), 64);
        window(&mut level, &[0, 64]);
        assert_eq!(level.chunks(), 64);
    }
}

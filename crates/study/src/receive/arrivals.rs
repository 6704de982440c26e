//! Cache lines in flight from memory.

use super::cache::Line;

/// Cycles from memory: half of the copy's cycles divided by its misses (section 3.3.2).
pub(super) const MEMORY_CYCLES: u64 = 270;
/// Cycles between two accesses: the copy's cycles without memory stalls, divided by its accesses
/// (section 3.3.2).
pub(super) const ACCESS_CYCLES: u64 = 19;

/// Number of tracked lines; far more than can be in flight at once.
const SLOTS: usize = 256;

/// The clock of the cores, and arrival times of requested lines. Cores take turns in the
/// simulation, so all share one clock.
#[derive(Debug)]
pub(super) struct Arrivals {
    pub clock: u64,
    latest: u64,
    lines: [(Line, u64); SLOTS],
}

impl Arrivals {
    pub fn new() -> Self {
        Self { clock: 0, latest: 0, lines: [(Line::MAX, 0); SLOTS] }
    }

    /// Records the request of a line at a time.
    #[inline]
    pub fn request(&mut self, line: Line, at: u64) {
        let arrival = at + MEMORY_CYCLES;
        self.latest = self.latest.max(arrival);
        self.lines[line as usize % SLOTS] = (line, arrival);
    }

    /// Returns the cycles until a line in flight arrives; 0 for any other line.
    #[inline]
    pub fn left(&self, line: Line) -> u64 {
        if self.clock >= self.latest {
            return 0;
        }
        let (known, arrival) = self.lines[line as usize % SLOTS];
        if known == line { arrival.saturating_sub(self.clock) } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_is_in_flight_until_it_arrives() {
        let mut arrivals = Arrivals::new();
        arrivals.request(7, 100);
        arrivals.clock = 110;
        assert_eq!((arrivals.left(8), arrivals.left(7)), (0, MEMORY_CYCLES - 10));
        arrivals.clock = 100 + MEMORY_CYCLES;
        assert_eq!(arrivals.left(7), 0);
    }
}

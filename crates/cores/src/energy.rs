//! Times at which any core is awake, for the power of the chips' shared part.

/// Collects the spans in which cores are awake, and measures the time in which any core is.
#[derive(Debug)]
pub struct AwakeLog {
    /// Time since which each core has been awake; `None` for a core that is asleep.
    since: Vec<Option<u64>>,
    closed: Vec<(u64, u64)>,
    /// Time up to which the log has been measured, in picoseconds.
    from: u64,
}

impl AwakeLog {
    /// A log with all cores asleep.
    pub fn new(cores: usize) -> Self {
        Self { since: vec![None; cores], closed: Vec::new(), from: 0 }
    }

    /// Records that a core wakes at `at`.
    #[inline]
    pub fn awake(&mut self, core: usize, at: u64) {
        self.since[core] = Some(at);
    }

    /// Records that a core falls asleep at `at`.
    #[inline]
    pub fn asleep(&mut self, core: usize, at: u64) {
        if let Some(since) = self.since[core].take() {
            self.closed.push((since.max(self.from), at));
        }
    }

    /// Moves the spans of one core over from another log, as far as they are new. All spans of that
    /// core must come this way, in order of time.
    pub fn take_from(&mut self, core: usize, other: &mut Self) {
        for (start, end) in other.closed.drain(..) {
            if self.since[core].is_none() {
                self.awake(core, start);
            }
            self.asleep(core, end);
        }
        if self.since[core].is_none() {
            self.since[core] = other.since[core];
        }
    }

    /// Time in picoseconds between the last call and `until` in which any core was awake.
    pub fn measure(&mut self, until: u64) -> u64 {
        let from = std::mem::replace(&mut self.from, until);
        if self.since.iter().flatten().any(|&since| since <= from) {
            self.keep_after(until);
            return until - from;
        }
        self.closed.extend(self.since.iter().flatten().map(|&since| (since, u64::MAX)));
        // Each core closed its spans in order, so a sort that merges runs is nearly linear.
        self.closed.sort();
        let mut any = 0;
        let mut reached = from;
        for &(start, end) in &self.closed {
            let (start, end) = (start.max(reached), end.min(until));
            if end > start {
                any += end - start;
                reached = end;
            }
        }
        self.closed.retain(|&(_, end)| end != u64::MAX);
        self.keep_after(until);
        any
    }

    /// Keeps the parts beyond `until`: a core may have run ahead of the others by a batch.
    fn keep_after(&mut self, until: u64) {
        self.closed.retain(|&(_, end)| end > until);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn overlaps_count_once() {
        let mut log = AwakeLog::new(3);
        log.awake(0, 10);
        log.awake(1, 15);
        log.asleep(0, 20);
        log.asleep(1, 30);
        log.awake(2, 40);
        assert_eq!(log.measure(50), 30);
        assert_eq!(log.measure(60), 10, "one core was awake all along");
        log.asleep(2, 61);
        assert_eq!(log.measure(100), 1);
        assert_eq!(log.measure(200), 0);
    }

    #[test]
    fn logs_of_cores_add_up() {
        let mut whole = AwakeLog::new(2);
        let mut own = [AwakeLog::new(2), AwakeLog::new(2)];
        own[0].awake(0, 10);
        own[0].asleep(0, 20);
        own[0].awake(0, 30);
        own[1].awake(1, 15);
        own[1].asleep(1, 25);
        own.iter_mut().enumerate().for_each(|(core, log)| whole.take_from(core, log));
        assert_eq!(whole.measure(35), 20, "10 to 25 and 30 to 35");
        own[0].asleep(0, 45);
        own[0].awake(0, 47);
        own.iter_mut().enumerate().for_each(|(core, log)| whole.take_from(core, log));
        assert_eq!(whole.measure(50), 13, "35 to 45 and 47 to 50");
    }

    proptest! {
        #[test]
        fn equals_a_count_moment_by_moment(
            spans in prop::collection::vec((0usize..3, 1u64..20, 1u64..20), 0..60),
            cuts in prop::collection::btree_set(1u64..400, 0..10),
        ) {
            // The spans of each core follow each other.
            let mut at = [0u64; 3];
            let mut events = Vec::new();
            let mut awake = vec![false; 2_000];
            for (core, gap, length) in spans {
                let start = at[core] + gap;
                at[core] = start + length;
                events.push((start, core, true));
                events.push((at[core], core, false));
                awake[start as usize..at[core] as usize].fill(true);
            }
            events.sort();
            let mut log = AwakeLog::new(3);
            let mut pending = events.into_iter().peekable();
            let mut from = 0;
            for cut in cuts.into_iter().chain([1_999]) {
                while let Some((time, core, up)) = pending.next_if(|event| event.0 <= cut) {
                    if up { log.awake(core, time) } else { log.asleep(core, time) }
                }
                let expected = awake[from..cut as usize].iter().filter(|&&any| any).count();
                prop_assert_eq!(log.measure(cut), expected as u64);
                from = cut as usize;
            }
        }
    }
}

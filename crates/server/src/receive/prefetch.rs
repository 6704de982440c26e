//! A hardware prefetcher that follows streams of lines.

use super::cache::Line;

/// Lines per 4 kB page; no stream crosses its page.
pub const PAGE_LINES: u32 = 64;

/// Number of streams and their distance.
///
/// The default follows Intel's IA-32 Architectures Optimization Reference Manual (248966-013,
/// chapter
/// 6): two successive misses in a page start a stream, which is kept 256 bytes ahead; there is one
/// stream per 4 kB page, in either direction; the Pentium M and its successors follow 16 streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Streams {
    /// Number of pages watched at once; 0 for a processor without the prefetcher.
    pub pages: usize,
    /// Number of lines that a stream stays ahead.
    pub ahead: u32,
}

impl Default for Streams {
    fn default() -> Self {
        Self { pages: 16, ahead: 4 }
    }
}

impl Streams {
    /// No prefetcher.
    pub const OFF: Self = Self { pages: 0, ahead: 0 };
}

#[derive(Debug, Clone, Copy, Default)]
struct Stream {
    page: u32,
    last: Line,
    /// Direction of the stream; 0 until two neighbouring lines have missed in succession.
    step: i8,
    /// Time of the latest access; 0 for none.
    used: u64,
}

/// The prefetcher of one last-level cache.
#[derive(Debug, Clone)]
pub struct Prefetcher {
    shape: Streams,
    /// By page: 0 without a stream, otherwise its index and 1. As in a cache, nothing is searched.
    pages: Vec<u32>,
    streams: Vec<Stream>,
    clock: u64,
}

impl Prefetcher {
    /// A prefetcher without any stream.
    pub fn new(shape: Streams) -> Self {
        Self { shape, pages: Vec::new(), streams: vec![Stream::default(); shape.pages], clock: 0 }
    }

    /// Observes a demand access to the last-level cache. Returns the lines to bring in: first and
    /// last, in the direction of the stream.
    #[inline]
    pub fn observe(&mut self, line: Line, missed: bool) -> Option<(Line, Line)> {
        if self.shape.pages == 0 {
            return None;
        }
        self.clock += 1;
        let page = line / PAGE_LINES;
        let at = self.pages.get(page as usize).copied().unwrap_or_default();
        if at == 0 {
            if missed {
                self.start(page, line);
            }
            return None;
        }
        let stream = &mut self.streams[at as usize - 1];
        stream.used = self.clock;
        let moved = i64::from(line) - i64::from(stream.last);
        if stream.step == 0 {
            if missed {
                stream.step = if moved.abs() == 1 { moved as i8 } else { 0 };
                stream.last = line;
            }
        } else {
            let forward = moved * i64::from(stream.step);
            if (0..=i64::from(self.shape.ahead)).contains(&forward) {
                stream.last = line;
            } else if missed {
                stream.step = 0;
                stream.last = line;
            } else {
                return None;
            }
        }
        let step = i64::from(stream.step);
        if step == 0 {
            return None;
        }
        let (low, high) = (page * PAGE_LINES, page * PAGE_LINES + PAGE_LINES - 1);
        let within = |line: i64| line.clamp(i64::from(low), i64::from(high)) as Line;
        // At a hit one more line is enough, since those in between were requested before.
        let next_in_turn = !missed && moved == step;
        let first =
            i64::from(line) + if next_in_turn { step * i64::from(self.shape.ahead) } else { step };
        if first < i64::from(low) || first > i64::from(high) {
            return None;
        }
        Some((first as Line, within(i64::from(line) + step * i64::from(self.shape.ahead))))
    }

    /// Follows a page instead of the one not seen for longest.
    fn start(&mut self, page: u32, line: Line) {
        let oldest = self.streams.iter_mut().enumerate().min_by_key(|(_, stream)| stream.used);
        let Some((at, stream)) = oldest else { return };
        if let (true, Some(state)) = (stream.used > 0, self.pages.get_mut(stream.page as usize)) {
            *state = 0;
        }
        *stream = Stream { page, last: line, step: 0, used: self.clock };
        if self.pages.len() <= page as usize {
            self.pages.resize((page as usize + 1).next_power_of_two(), 0);
        }
        self.pages[page as usize] = at as u32 + 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn two_neighbours_start_a_stream_in_their_direction() {
        let mut up = Prefetcher::new(Streams::default());
        assert_eq!(up.observe(100, true), None);
        assert_eq!(up.observe(101, true), Some((102, 105)));
        assert_eq!(up.observe(102, false), Some((106, 106)));
        // If a line was evicted meanwhile, all of them are requested again.
        assert_eq!(up.observe(103, true), Some((104, 107)));
        let mut down = Prefetcher::new(Streams::default());
        assert_eq!(down.observe(100, true), None);
        assert_eq!(down.observe(99, true), Some((98, 95)));
    }

    #[test]
    fn a_stream_stays_in_its_page_and_hits_start_none() {
        let mut one = Prefetcher::new(Streams::default());
        one.observe(61, true);
        assert_eq!(one.observe(62, true), Some((63, 63)));
        assert_eq!(one.observe(63, false), None);
        let mut hits = Prefetcher::new(Streams::default());
        hits.observe(10, false);
        assert_eq!(hits.observe(11, false), None);
        let mut far = Prefetcher::new(Streams::default());
        far.observe(10, true);
        assert_eq!(far.observe(20, true), None);
        let mut off = Prefetcher::new(Streams::OFF);
        off.observe(10, true);
        assert_eq!(off.observe(11, true), None);
    }

    #[test]
    fn the_page_not_seen_for_longest_is_forgotten() {
        let mut two = Prefetcher::new(Streams { pages: 2, ahead: 4 });
        for page in [0, 1, 2] {
            two.observe(page * PAGE_LINES, true);
        }
        assert_eq!(two.observe(1, true), None);
        assert_eq!(two.observe(2 * PAGE_LINES + 1, true), Some((130, 133)));
    }

    proptest! {
        /// Compared with a plain list of the pages that have streams, the latest last.
        #[test]
        fn it_follows_the_pages_that_a_list_follows(
            most in 1_usize..6,
            steps in prop::collection::vec((0_u32..10, 0_u32..64), 1..400)
        ) {
            let shape = Streams { pages: most, ahead: 4 };
            let (mut tested, mut followed) = (Prefetcher::new(shape), Vec::<u32>::new());
            for (page, line) in steps {
                tested.observe(page * PAGE_LINES + line, true);
                if let Some(at) = followed.iter().position(|known| *known == page) {
                    followed.remove(at);
                } else if followed.len() == most {
                    followed.remove(0);
                }
                followed.push(page);
                for page in 0..10 {
                    let state = tested.pages.get(page as usize).copied().unwrap_or_default();
                    prop_assert_eq!(state > 0, followed.contains(&page));
                    prop_assert!(state == 0 || tested.streams[state as usize - 1].page == page);
                }
            }
        }
    }
}

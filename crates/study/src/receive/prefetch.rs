//! A hardware prefetcher that follows streams of lines.

use super::cache::Line;

/// Lines per 4 kB page; no stream crosses its page.
pub const PAGE_LINES: u32 = 64;

/// Number of streams and their distance.
///
/// The default follows Intel's Optimization Reference Manual (248966) on the data prefetch logic of
/// the Core microarchitecture: it follows requests of level 1, starts at the second of two
/// neighbouring lines, makes up to two requests each time, and runs up to 8 lines ahead. It has 12
/// entries for rising and 4 for falling addresses, one per 4 kB page; here, any 16.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Streams {
    /// Number of pages watched at once; 0 for a processor without the prefetcher.
    pub pages: usize,
    /// Number of lines that a stream runs ahead.
    pub ahead: u32,
    /// Most lines requested at an access.
    pub at_once: u32,
}

impl Default for Streams {
    fn default() -> Self {
        Self { pages: 16, ahead: 8, at_once: 2 }
    }
}

impl Streams {
    /// No prefetcher.
    pub const OFF: Self = Self { pages: 0, ahead: 0, at_once: 0 };
}

#[derive(Debug, Clone, Copy, Default)]
struct Stream {
    page: u32,
    last: Line,
    /// Furthest requested line.
    front: Line,
    /// Direction of the stream; 0 until two neighbouring lines were accessed in succession.
    step: i8,
    /// Time of the latest access; 0 for none.
    used: u64,
}

/// The prefetcher of one core into the last-level cache.
#[derive(Debug, Clone)]
pub struct Prefetcher {
    shape: Streams,
    /// Stream by page: 0 without one, otherwise its index plus 1. As in the cache, nothing is
    /// searched.
    pages: Vec<u8>,
    streams: Vec<Stream>,
    clock: u64,
}

impl Prefetcher {
    /// Creates a prefetcher without any stream.
    pub fn new(shape: Streams) -> Self {
        let pages = shape.pages.min(usize::from(u8::MAX));
        Self { shape, pages: Vec::new(), streams: vec![Stream::default(); pages], clock: 0 }
    }

    /// Observes an access to the last-level cache. Returns the first and last line to load, in the
    /// direction of the stream.
    #[inline]
    pub fn observe(&mut self, line: Line) -> Option<(Line, Line)> {
        if self.streams.is_empty() {
            return None;
        }
        self.clock += 1;
        let page = line / PAGE_LINES;
        let at = self.pages.get(page as usize).copied().unwrap_or_default();
        if at == 0 {
            self.start(page, line);
            return None;
        }
        let ahead = i64::from(self.shape.ahead);
        let stream = &mut self.streams[usize::from(at) - 1];
        stream.used = self.clock;
        let moved = i64::from(line) - i64::from(stream.last);
        stream.last = line;
        let forward = moved * i64::from(stream.step);
        if stream.step == 0 || !(0..=ahead).contains(&forward) {
            // The access leaves the followed stream and may start a new one.
            stream.step = if moved.abs() == 1 { moved as i8 } else { 0 };
            stream.front = line;
        }
        let step = i64::from(stream.step);
        if step == 0 {
            return None;
        }
        // Counted in the direction of the stream from the accessed line.
        let reached = ((i64::from(stream.front) - i64::from(line)) * step).max(0);
        let within = i64::from(line % PAGE_LINES);
        let room = if step > 0 { i64::from(PAGE_LINES) - 1 - within } else { within };
        let last = (reached + i64::from(self.shape.at_once)).min(ahead).min(room);
        if last <= reached {
            return None;
        }
        let place = |distance: i64| (i64::from(line) + step * distance) as Line;
        stream.front = place(last);
        Some((place(reached + 1), stream.front))
    }

    /// Follows a page instead of the least recently accessed one.
    fn start(&mut self, page: u32, line: Line) {
        let oldest = self.streams.iter_mut().enumerate().min_by_key(|(_, stream)| stream.used);
        let Some((at, stream)) = oldest else { return };
        if let (true, Some(state)) = (stream.used > 0, self.pages.get_mut(stream.page as usize)) {
            *state = 0;
        }
        *stream = Stream { page, last: line, front: line, step: 0, used: self.clock };
        if self.pages.len() <= page as usize {
            self.pages.resize((page as usize + 1).next_power_of_two(), 0);
        }
        self.pages[page as usize] = at as u8 + 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn two_neighbours_start_a_stream_in_their_direction() {
        let mut up = Prefetcher::new(Streams::default());
        assert_eq!(up.observe(100), None);
        assert_eq!(up.observe(101), Some((102, 103)));
        assert_eq!(up.observe(102), Some((104, 105)));
        assert_eq!(up.observe(103), Some((106, 107)));
        let mut down = Prefetcher::new(Streams::default());
        assert_eq!(down.observe(100), None);
        assert_eq!(down.observe(99), Some((98, 97)));
    }

    #[test]
    fn stream_runs_ahead_only_up_to_its_limit() {
        let mut up = Prefetcher::new(Streams::default());
        let lines: Vec<_> = (0..12).filter_map(|line| up.observe(line)).collect();
        assert!(lines.iter().enumerate().all(|(at, (_, last))| *last <= at as Line + 1 + 8));
        assert_eq!(lines.last(), Some(&(19, 19)), "then one line for each that is used");
        // Each line once.
        assert!(lines.windows(2).all(|pair| pair[1].0 == pair[0].1 + 1));
    }

    #[test]
    fn stream_stays_in_its_page_and_needs_neighbours() {
        let mut one = Prefetcher::new(Streams::default());
        one.observe(61);
        assert_eq!(one.observe(62), Some((63, 63)));
        assert_eq!(one.observe(63), None);
        let mut far = Prefetcher::new(Streams::default());
        far.observe(10);
        assert_eq!(far.observe(20), None);
        assert_eq!(far.observe(21), Some((22, 23)));
        let mut off = Prefetcher::new(Streams::OFF);
        off.observe(10);
        assert_eq!(off.observe(11), None);
    }

    #[test]
    fn least_recently_accessed_page_is_forgotten() {
        let mut two = Prefetcher::new(Streams { pages: 2, ahead: 4, at_once: 4 });
        for page in [0, 1, 2] {
            two.observe(page * PAGE_LINES);
        }
        assert_eq!(two.observe(1), None);
        assert_eq!(two.observe(2 * PAGE_LINES + 1), Some((130, 133)));
    }

    proptest! {
        /// Compares with a plain list of the pages with streams, the latest last.
        #[test]
        fn followed_pages_equal_those_of_a_list(
            most in 1_usize..6,
            steps in prop::collection::vec((0_u32..10, 0_u32..64), 1..400)
        ) {
            let shape = Streams { pages: most, ..Streams::default() };
            let (mut tested, mut followed) = (Prefetcher::new(shape), Vec::<u32>::new());
            for (page, line) in steps {
                let line = page * PAGE_LINES + line;
                if let Some((first, last)) = tested.observe(line) {
                    prop_assert!(first != line && last / PAGE_LINES == page);
                    prop_assert!(first.abs_diff(last) < shape.at_once);
                    prop_assert!(last.abs_diff(line) <= shape.ahead);
                }
                if let Some(at) = followed.iter().position(|known| *known == page) {
                    followed.remove(at);
                } else if followed.len() == most {
                    followed.remove(0);
                }
                followed.push(page);
                for page in 0..10 {
                    let state = tested.pages.get(page as usize).copied().unwrap_or_default();
                    prop_assert_eq!(state > 0, followed.contains(&page));
                    prop_assert!(
                        state == 0 || tested.streams[usize::from(state) - 1].page == page
                    );
                }
            }
        }
    }
}

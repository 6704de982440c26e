//! Notices that the machine does not take the frequencies that it is asked for.

use wattline_units::{Span, Time};

/// A frequency that is refused for so long is not to be had. A write that fails now and then is tried
/// again and succeeds within a millisecond or two.
const REFUSED: Span = Span::from_millis(5);
/// After so long without another refusal, the refused one is not wanted any more.
const FORGOTTEN: Span = Span::from_millis(1);
/// After so long it is asked for again.
const AGAIN: Span = Span::from_millis(1_000);

/// Lowest and highest frequency that the machine takes, as indices.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    fastest: usize,
    refused: Option<Refused>,
    lowest: Option<(usize, Time)>,
    highest: Option<(usize, Time)>,
}

/// Another frequency holds than the one asked for.
#[derive(Debug, Clone, Copy)]
struct Refused {
    since: Time,
    /// When this was last seen.
    last: Time,
    held: usize,
    /// Whether the one that holds is faster.
    faster: bool,
}

impl Limits {
    pub fn new(fastest: usize) -> Self {
        Self { fastest, refused: None, lowest: None, highest: None }
    }

    /// Takes the frequency that was asked for and the one that holds.
    pub fn look(&mut self, now: Time, asked: usize, held: usize) {
        self.lowest = self.lowest.filter(|(_, until)| now < *until);
        self.highest = self.highest.filter(|(_, until)| now < *until);
        // A policy that takes what holds for now, and asks again, has been granted nothing.
        self.refused =
            self.refused.filter(|seen| seen.held == held && now.since(seen.last) < FORGOTTEN);
        if asked == held {
            return;
        }
        let faster = held > asked;
        let since =
            self.refused.filter(|seen| seen.faster == faster).map_or(now, |seen| seen.since);
        self.refused = Some(Refused { since, last: now, held, faster });
        if now.since(since) >= REFUSED {
            let limit = Some((held, now + AGAIN));
            if faster { self.lowest = limit } else { self.highest = limit }
        }
    }

    /// The lowest and the highest.
    pub fn usable(&self) -> (usize, usize) {
        let highest = self.highest.map_or(self.fastest, |(index, _)| index);
        (self.lowest.map_or(0, |(index, _)| index).min(highest), highest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_refused_for_long_is_left_out_for_a_second() {
        let at = |micros: u64| Time::ZERO + Span::from_micros(micros);
        let mut limits = Limits::new(13);
        // One write fails and is repeated.
        limits.look(at(0), 3, 13);
        limits.look(at(200), 3, 13);
        limits.look(at(400), 3, 3);
        (0..24).for_each(|look| limits.look(at(1_000 + 200 * look), 3, 13));
        assert_eq!(limits.usable(), (0, 13));
        (24..27).for_each(|look| limits.look(at(1_000 + 200 * look), 3, 13));
        assert_eq!(limits.usable(), (13, 13), "it cannot be slower");
        limits.look(at(900_000), 13, 13);
        assert_eq!(limits.usable(), (13, 13));
        limits.look(at(1_100_000), 13, 13);
        assert_eq!(limits.usable(), (0, 13), "it is tried again");
        (0..27).for_each(|look| limits.look(at(2_000_000 + 200 * look), 9, 4));
        assert_eq!(limits.usable(), (0, 4), "it cannot be faster");
    }

    /// Every other time the policy takes what holds.
    #[test]
    fn a_wish_that_is_given_up_and_asked_for_again_was_refused_all_the_time() {
        let at = |micros: u64| Time::ZERO + Span::from_micros(micros);
        let mut limits = Limits::new(13);
        for look in 0..60 {
            limits.look(at(100 * look), if look % 2 == 0 { 3 } else { 13 }, 13);
        }
        assert_eq!(limits.usable(), (13, 13));
        // It was granted in between, or not wanted for long.
        for (again, held) in [(100, 3), (2_000, 13)] {
            let mut limits = Limits::new(13);
            for look in 0..60 {
                limits.look(at(2 * again * look), 3, 13);
                limits.look(at(2 * again * look + again), held, held);
            }
            assert_eq!(limits.usable(), (0, 13), "{again}");
        }
    }
}

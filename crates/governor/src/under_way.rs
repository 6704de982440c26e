//! A change that takes the hardware time.

use wattline_units::{Span, Time};

/// A setting that takes effect some time after its request, such as a core's frequency. A change
/// under way is completed, followed by the last value requested meanwhile. Requests more frequent
/// than changes thus still succeed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UnderWay {
    change: Option<(Time, usize)>,
    next: Option<usize>,
}

impl UnderWay {
    /// Requests a value at a time, with a duration `takes` of at least a picosecond.
    pub fn ask(&mut self, now: Time, takes: Span, value: usize) {
        match self.change {
            Some(_) => self.next = Some(value),
            None => self.change = Some((now + takes.max(Span::from_picos(1)), value)),
        }
    }

    /// Returns the time at which the change under way takes effect.
    pub fn due(&self) -> Option<Time> {
        self.change.map(|(due, _)| due)
    }

    /// Returns the value in effect from [`Self::due`] on, once that time has come. If another was
    /// requested meanwhile, its change begins.
    pub fn take(&mut self, now: Time, takes: Span) -> Option<usize> {
        let (due, value) = self.change.filter(|(due, _)| *due <= now)?;
        self.change = None;
        if let Some(next) = self.next.take().filter(|next| *next != value) {
            self.ask(due, takes, next);
        }
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: u64) -> Time {
        Time::ZERO + Span::from_micros(micros)
    }

    #[test]
    fn change_is_completed_and_the_last_request_follows() {
        let takes = Span::from_micros(10);
        let mut frequency = UnderWay::default();
        frequency.ask(at(0), takes, 5);
        // Three times within the change: it is not deferred.
        for (micros, value) in [(3, 6), (6, 7), (9, 8)] {
            frequency.ask(at(micros), takes, value);
            assert_eq!(frequency.due(), Some(at(10)));
            assert_eq!(frequency.take(at(micros), takes), None);
        }
        assert_eq!(frequency.take(at(10), takes), Some(5));
        assert_eq!(frequency.due(), Some(at(20)));
        assert_eq!(frequency.take(at(20), takes), Some(8));
        assert_eq!((frequency.due(), frequency.take(at(99), takes)), (None, None));
        // Back to the value under way: no change follows.
        frequency.ask(at(100), takes, 1);
        frequency.ask(at(101), takes, 2);
        frequency.ask(at(102), takes, 1);
        assert_eq!(frequency.take(at(110), takes), Some(1));
        assert_eq!(frequency.due(), None);
    }
}

//! Duration for which an adaptive worker polls before it blocks.
//!
//! Polling saves the cost of blocking and waking if the next frame is near, and is wasted if it is
//! not. The duration adapts to the arrivals, like the halt polling of guests
//! (Documentation/virt/guest-halt-polling.rst): it halves when a frame came later than the longest
//! allowed duration, and doubles when a frame came within that duration after the worker blocked.

use wattline_units::Span;

/// Shortest duration; below it the worker does not poll, and growth starts from it.
const LEAST: Span = Span::from_micros(1);

/// Present duration of polling.
#[derive(Debug, Clone, Copy)]
pub struct Spin {
    window: Span,
}

impl Default for Spin {
    /// Starts with the longest duration allowed.
    fn default() -> Self {
        Self { window: Span::FOREVER }
    }
}

impl Spin {
    /// Returns true if a worker that has been idle for `idle` should block; `longest` limits the
    /// polling.
    pub fn is_over(self, idle: Span, longest: Span) -> bool {
        idle >= self.window.min(longest)
    }

    /// Adapts after a frame that came `gap` after the previous one and woke a blocked worker.
    pub fn woken_after(&mut self, gap: Span, longest: Span) {
        let window = self.window.min(longest);
        self.window = if gap <= longest {
            (window.max(LEAST / 2) * 2).min(longest)
        } else if window <= LEAST {
            Span::ZERO
        } else {
            window / 2
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONGEST: Span = Span::from_micros(20);

    fn window(spin: Spin) -> Span {
        (0..=20_000)
            .map(Span::from_nanos)
            .find(|idle| spin.is_over(*idle, LONGEST))
            .expect("it ends after the longest time at the latest")
    }

    #[test]
    fn polling_ends_if_it_never_helps_and_returns_if_it_would() {
        let mut spin = Spin::default();
        assert_eq!(window(spin), LONGEST);
        for microseconds in [10, 5] {
            spin.woken_after(Span::from_micros(50), LONGEST);
            assert_eq!(window(spin), Span::from_micros(microseconds));
        }
        for _ in 0..4 {
            spin.woken_after(Span::from_millis(50), LONGEST);
        }
        assert_eq!(window(spin), Span::ZERO);
        for microseconds in [1, 2, 4, 8, 16, 20, 20] {
            spin.woken_after(Span::from_micros(20), LONGEST);
            assert_eq!(window(spin), Span::from_micros(microseconds));
        }
    }

    #[test]
    fn a_new_limit_counts_at_once() {
        let mut spin = Spin::default();
        spin.woken_after(Span::from_micros(1), Span::from_millis(1));
        assert_eq!(window(spin), LONGEST);
        spin.woken_after(Span::from_micros(1), Span::ZERO);
        assert!(spin.is_over(Span::ZERO, LONGEST));
    }
}

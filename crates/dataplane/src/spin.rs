//! How long an adaptive worker looks in vain before it blocks.
//!
//! Looking saves the price of blocking and being woken where the next frame is near, and is wasted
//! where it is not. So the time follows what came of it, as guests of hypervisors do it
//! (Documentation/virt/guest-halt-polling.rst): it halves when a frame came later than the longest
//! time allowed would have caught, and doubles when one came within it after all.

use wattline_units::Span;

/// Below this looking is left out altogether, and from this it grows.
const LEAST: Span = Span::from_micros(1);

/// The time that is looked for now.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Spin {
    window: Span,
}

impl Spin {
    /// As long as is allowed, at first.
    pub fn new() -> Self {
        Self { window: Span::FOREVER }
    }

    /// Whether a worker without work for so long should block; `longest` is what is allowed.
    pub fn is_over(self, idle: Span, longest: Span) -> bool {
        idle >= self.window.min(longest)
    }

    /// A frame came `gap` after the one before, and the worker had blocked in between.
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
    fn looking_ends_where_it_never_helps_and_comes_back_where_it_would() {
        let mut spin = Spin::new();
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
        let mut spin = Spin::new();
        spin.woken_after(Span::from_micros(1), Span::from_millis(1));
        assert_eq!(window(spin), LONGEST);
        spin.woken_after(Span::from_micros(1), Span::ZERO);
        assert!(spin.is_over(Span::ZERO, LONGEST));
    }
}

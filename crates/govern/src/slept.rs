//! Time that the machine has slept: the lead of the boot-time clock over the monotonic one, which
//! stops while the system is suspended (clock_gettime(2)).

use std::time::Duration;

/// The two clocks are read one after the other; a suspend takes longer than that.
const SHORTEST: Duration = Duration::from_millis(500);

/// Time asleep since boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slept(Duration);

impl Slept {
    /// Returns the time asleep up to now.
    pub fn until_now() -> Self {
        use rustix::time::{ClockId, clock_gettime};
        let [boot, awake] = [ClockId::Boottime, ClockId::Monotonic].map(|clock| {
            let now = clock_gettime(clock);
            let nanos = u32::try_from(now.tv_nsec).unwrap_or(0);
            Duration::new(u64::try_from(now.tv_sec).unwrap_or(0), nanos)
        });
        Self(boot.saturating_sub(awake))
    }

    /// Returns the time slept since `before`; none if it did not sleep.
    pub fn since(self, before: Self) -> Option<Duration> {
        self.0.checked_sub(before.0).filter(|slept| *slept >= SHORTEST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suspend_is_detected_by_two_readings_of_two_clocks() {
        let at = |millis| Slept(Duration::from_millis(millis));
        assert_eq!(at(70_000).since(at(30_000)), Some(Duration::from_secs(40)));
        assert_eq!(at(30_001).since(at(30_000)), None, "between two readings");
        assert_eq!(at(30_000).since(at(30_001)), None);
        // Nothing here suspends the test machine.
        let before = Slept::until_now();
        assert_eq!(Slept::until_now().since(before), None);
    }
}

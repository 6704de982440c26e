//! Model time, which passes slower than real time.

use std::sync::OnceLock;
use std::time::{Duration, Instant};
use wattline_units::Time;

/// Clock of an emulated machine: at a dilation of 500, a second of the model lasts 500 seconds.
/// Monotonic; it shows zero until it is started.
#[derive(Debug)]
pub struct ModelClock {
    origin: OnceLock<Instant>,
    dilation: u32,
}

impl ModelClock {
    /// Creates a stopped clock; `dilation` is at least 1.
    pub fn new(dilation: u32) -> Self {
        Self { origin: OnceLock::new(), dilation: dilation.max(1) }
    }

    /// Returns the dilation factor.
    pub fn dilation(&self) -> u32 {
        self.dilation
    }

    /// Starts the clock, if it is not running.
    pub fn start(&self) {
        let _ = self.origin.set(Instant::now());
    }

    /// Returns the present model time.
    pub fn now(&self) -> Time {
        let Some(origin) = self.origin.get() else { return Time::ZERO };
        let picos = origin.elapsed().as_nanos() * 1_000 / u128::from(self.dilation);
        Time::from_picos(u64::try_from(picos).unwrap_or(u64::MAX))
    }

    /// Returns the real time since the start.
    pub fn real(&self) -> Duration {
        self.origin.get().map_or(Duration::ZERO, Instant::elapsed)
    }

    /// Returns the real time until the clock shows `at`, if it runs; zero if it already does.
    pub fn until(&self, at: Time) -> Duration {
        self.lasting(at).saturating_sub(self.real())
    }

    /// Returns the real time since the clock showed `at`; zero before.
    pub fn since(&self, at: Time) -> Duration {
        self.real().saturating_sub(self.lasting(at))
    }

    /// Returns the real time from zero to `at`, rounded up, so that a thread that waits for it does
    /// not wake early.
    pub fn lasting(&self, at: Time) -> Duration {
        let nanos = u128::from(at.as_picos()) * u128::from(self.dilation);
        Duration::from_nanos(u64::try_from(nanos.div_ceil(1_000)).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattline_units::Span;

    #[test]
    fn model_time_lasts_longer() {
        let clock = ModelClock::new(500);
        let wake_up = Time::ZERO + Span::from_nanos(1_900);
        assert_eq!(clock.lasting(wake_up), Duration::from_micros(950));
        assert_eq!((clock.now(), clock.until(wake_up)), (Time::ZERO, clock.lasting(wake_up)));
        clock.start();
        std::thread::sleep(clock.until(wake_up));
        assert!(clock.now() >= wake_up);
        assert_eq!(clock.until(wake_up), Duration::ZERO);
        assert!(clock.since(wake_up) < clock.real());
        assert!(clock.until(Time::NEVER) > Duration::from_secs(3600));
    }
}

//! The clock of the generator: nanoseconds that only grow.

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds on a clock; the holder defines the zero.
pub type Nanos = u64;

/// Nanoseconds in a second.
pub(crate) const SECOND: Nanos = 1_000_000_000;

/// Returns the time of `CLOCK_MONOTONIC`, which all threads share. Costs no system call (vDSO) if
/// the time-stamp counter is the clock source.
pub fn now() -> Nanos {
    read(ClockId::Monotonic)
}

/// Returns the processor time that the calling thread has used.
pub fn thread_cpu_time() -> Nanos {
    read(ClockId::ThreadCPUTime)
}

fn read(clock: ClockId) -> Nanos {
    let time = clock_gettime(clock);
    // Both clocks count up from zero: neither field is negative.
    time.tv_sec.unsigned_abs() * SECOND + time.tv_nsec.unsigned_abs()
}

/// Converts nanoseconds to seconds, for people and JSON.
pub(crate) fn seconds(nanos: Nanos) -> f64 {
    nanos as f64 / SECOND as f64
}

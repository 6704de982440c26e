//! The clock of all latency figures; both ends are on one machine.

use rustix::time::{ClockId, clock_gettime};

/// Returns nanoseconds on `CLOCK_MONOTONIC`, which are comparable between threads and processes of
/// one machine.
pub fn monotonic_nanos() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    // Monotonic time counts from boot: never negative.
    now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
}

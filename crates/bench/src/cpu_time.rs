//! CPU time of the calling thread.

use rustix::time::{ClockId, clock_gettime};

/// CPU time of this thread in seconds; time of other threads on its core does not count.
pub fn thread_cpu_seconds() -> f64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    now.tv_sec as f64 + now.tv_nsec as f64 * 1e-9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn does_not_pass_while_asleep() {
        let (cpu, wall) = (thread_cpu_seconds(), std::time::Instant::now());
        std::thread::sleep(std::time::Duration::from_millis(50));
        let slept = wall.elapsed().as_secs_f64();
        assert!(thread_cpu_seconds() - cpu < slept, "sleeping is not running");
    }
}

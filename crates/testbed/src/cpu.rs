//! Processor time of an experiment, of the whole machine, and of one thread.
//!
//! Packets are handled in the context of any running thread (softirq), so the time of one process
//! says little. Busy time is taken from `/proc/stat`: the time of every processor that was neither
//! idle, nor waiting for a disc, nor stolen by the host.

use crate::Error;
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;
use std::ops::Sub;

/// Length of a tick of `/proc/stat` in seconds: `USER_HZ` is 100 on all architectures of Linux that
/// Rust supports.
const TICK_SECONDS: f64 = 0.01;

/// Returns the processor time of the calling thread in seconds, without the time of other threads
/// on its processor.
pub fn thread_cpu_seconds() -> f64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    now.tv_sec as f64 + now.tv_nsec as f64 * 1e-9
}

/// Processor time in seconds, summed over all processors.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct CpuTime {
    /// Time in programs, niced ones included.
    pub user_seconds: f64,
    /// Time in the kernel on behalf of programs and of its own threads.
    pub system_seconds: f64,
    /// Time in interrupts and softirqs, in which the kernel receives and forwards.
    pub interrupt_seconds: f64,
}

impl CpuTime {
    /// Reads the times since the machine started.
    ///
    /// # Errors
    /// Fails when `/proc/stat` cannot be read.
    pub fn now() -> Result<Self, Error> {
        let text = std::fs::read_to_string("/proc/stat")
            .map_err(|source| Error::io("reading /proc/stat", source))?;
        parse(&text).ok_or_else(|| Error::Data {
            path: "/proc/stat".into(),
            reason: "the first line is not `cpu` and eight numbers (proc(5))".into(),
        })
    }

    /// Returns the sum.
    pub fn busy_seconds(self) -> f64 {
        self.user_seconds + self.system_seconds + self.interrupt_seconds
    }
}

impl Sub for CpuTime {
    type Output = Self;
    fn sub(self, earlier: Self) -> Self {
        Self {
            user_seconds: self.user_seconds - earlier.user_seconds,
            system_seconds: self.system_seconds - earlier.system_seconds,
            interrupt_seconds: self.interrupt_seconds - earlier.interrupt_seconds,
        }
    }
}

/// Parses the first line: `cpu user nice system idle iowait irq softirq steal …`, in ticks
/// (proc(5)).
fn parse(stat: &str) -> Option<CpuTime> {
    let line = stat.lines().next()?.strip_prefix("cpu ")?;
    let ticks =
        line.split_whitespace().map(|word| word.parse().ok()).collect::<Option<Vec<u64>>>()?;
    let [user, nice, system, _idle, _iowait, irq, softirq, ..] = ticks[..] else {
        return None;
    };
    let seconds = |ticks: u64| ticks as f64 * TICK_SECONDS;
    Some(CpuTime {
        user_seconds: seconds(user + nice),
        system_seconds: seconds(system),
        interrupt_seconds: seconds(irq + softirq),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_waiting_and_stolen_time_are_not_busy() {
        let time = parse("cpu  100 10 200 9000 50 3 7 400 0 0\ncpu0 1 2 3\n").unwrap();
        assert_eq!(
            time,
            CpuTime { user_seconds: 1.1, system_seconds: 2.0, interrupt_seconds: 0.1 }
        );
        assert!((time.busy_seconds() - 3.2).abs() < 1e-9);
    }

    #[test]
    fn other_texts_are_refused() {
        for text in ["", "cpu  1 2 3", "cpu  1 2 x 4 5 6 7", "intr 1 2 3 4 5 6 7 8"] {
            assert_eq!(parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn work_is_counted() {
        let before = CpuTime::now().unwrap();
        let mut sum = 0_u64;
        // Long enough for the tick counters.
        while (CpuTime::now().unwrap() - before).busy_seconds() <= 0.0 {
            sum = (0..1_000_000_u64).fold(sum, |sum, step| sum.wrapping_mul(31).wrapping_add(step));
        }
        assert!(sum != 1);
    }

    #[test]
    fn sleep_is_not_processor_time() {
        let (cpu, wall) = (thread_cpu_seconds(), std::time::Instant::now());
        std::thread::sleep(std::time::Duration::from_millis(50));
        let slept = wall.elapsed().as_secs_f64();
        assert!(thread_cpu_seconds() - cpu < slept, "sleeping is not running");
    }
}

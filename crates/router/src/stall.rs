//! Detection of threads that the kernel stalls: ready to run without a processor, or in an
//! uninterruptible wait. Such a thread does not hang, and continues by itself.
//!
//! Both can take seconds on a busy machine. The scheduler occasionally leaves a thread waiting that
//! long (Linux 6.18, two endless loops on two processors), kernel threads too. Closing an AF_XDP
//! socket waits for these (`synchronize_net`).

use std::time::{Duration, Instant};

/// Shortest time between two readings: far longer than the kernel takes to account processor time
/// to a running thread (a tick, 10 ms at most).
const WINDOW: Duration = Duration::from_millis(30);

/// One thread of this process, as the kernel's scheduler sees it.
#[derive(Debug)]
pub(super) struct Stall {
    thread: i32,
    used: Option<u64>,
    looked: Instant,
}

impl Stall {
    /// Creates it from the thread's number, in a process whose `/proc` can be read.
    pub fn new(thread: i32) -> Self {
        let mut it = Self { thread, used: None, looked: Instant::now() };
        it.used = it.processor_time();
        it
    }

    /// Returns the time since the last result if the kernel has stalled the thread, otherwise zero;
    /// `None` if that was too short a time ago.
    pub fn stalled(&mut self) -> Option<Duration> {
        let since = self.looked.elapsed();
        if since < WINDOW {
            return None;
        }
        let used = self.processor_time();
        let stalled = match self.state() {
            Some('R') => used.is_some() && used == self.used,
            state => state == Some('D'),
        };
        (self.used, self.looked) = (used, Instant::now());
        Some(if stalled { since } else { Duration::ZERO })
    }

    /// Returns the nanoseconds on a processor (`/proc/PID/task/TID/schedstat`, first field).
    fn processor_time(&self) -> Option<u64> {
        self.read("schedstat")?.split_ascii_whitespace().next()?.parse().ok()
    }

    /// Returns `R` if it runs or could run, `D` in an uninterruptible wait, `S` in any other (`man
    /// 5 proc_pid_stat`, the field after the name).
    fn state(&self) -> Option<char> {
        self.read("stat")?.rsplit_once(") ")?.1.chars().next()
    }

    fn read(&self, file: &str) -> Option<String> {
        std::fs::read_to_string(format!("/proc/self/task/{}/{file}", self.thread)).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::thread::{CpuSet, gettid, sched_setaffinity};
    use std::process::Command;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc::{Receiver, channel};
    use std::thread::JoinHandle;

    /// Starts a thread that runs, or blocks, until the flag is set or the sender is dropped.
    fn thread(work: impl FnOnce() + Send + 'static) -> (i32, JoinHandle<()>) {
        let (send, its_number) = channel();
        let thread = std::thread::spawn(move || {
            send.send(gettid().as_raw_nonzero().get()).unwrap();
            work();
        });
        (its_number.recv().unwrap(), thread)
    }

    fn spin(until: &AtomicBool) {
        while !until.load(Ordering::Relaxed) {
            std::hint::spin_loop();
        }
    }

    #[test]
    fn blocked_thread_is_not_stalled() {
        let (end, until): (_, Receiver<()>) = channel();
        let (number, thread) = thread(move || assert!(until.recv().is_err()));
        std::thread::sleep(WINDOW);
        let mut stall = Stall::new(number);
        assert_eq!(stall.stalled(), None, "too early");
        std::thread::sleep(WINDOW);
        assert_eq!((stall.stalled(), stall.state()), (Some(Duration::ZERO), Some('S')));
        drop(end);
        thread.join().unwrap();
        assert_eq!(Stall::new(number).processor_time(), None, "it is gone");
    }

    #[test]
    fn thread_is_stalled_while_another_has_its_processor() {
        let end = Arc::new(AtomicBool::new(false));
        let first = |until: Arc<AtomicBool>| {
            move || {
                let mut processor = CpuSet::new();
                processor.set(0);
                sched_setaffinity(None, &processor).unwrap();
                spin(&until);
            }
        };
        let (low, one) = thread(first(end.clone()));
        let (high, other) = thread(first(end.clone()));
        let precede = ["--fifo", "--pid", "1", &high.to_string()].map(str::to_owned);
        let preceded = Command::new("chrt").args(precede).status().is_ok_and(|it| it.success());
        if preceded {
            let mut stall = Stall::new(low);
            // The kernel reserves a twentieth of each second for ordinary threads.
            let mut stalled = Duration::ZERO;
            for _ in 0..20 {
                std::thread::sleep(WINDOW);
                stalled += stall.stalled().unwrap();
            }
            end.store(true, Ordering::Relaxed);
            assert!(stalled >= WINDOW * 10, "{stalled:?}");
        } else {
            wattline_needs::rights("root and chrt");
            end.store(true, Ordering::Relaxed);
        }
        one.join().unwrap();
        other.join().unwrap();
    }
}

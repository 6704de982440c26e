//! Threads of this machine: owner, processor, and time used.

use rustix::process::{Pid, setpriority_process};
use rustix::thread::{CpuSet, sched_setaffinity};
use std::process::Command;
use std::time::Duration;
use wattline_testbed::Error;
use wattline_testbed::command;
use wattline_testbed::command::LIMIT;

/// Error message if [`Thread::cpu_time`] is zero for threads that forwarded.
pub const UNCHARGED: &str = "the kernel charges no processor time to threads that forward \
                             (/proc/PID/schedstat): it was built without CONFIG_SCHED_INFO";

/// Priority of a thread where several threads of the benchmark share a processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Level {
    /// Threads that make frames: the generator, and the kernel thread that receives for a
    /// candidate.
    Source = 1,
    /// Threads that consume frames: the candidate's own. They go before the threads that make
    /// their frames; otherwise frames would be made only to be dropped.
    Drain = 2,
    /// The kernel thread of the sink, the last one on the path of a frame.
    Sink = 3,
    /// The thread that reads the figures; it would otherwise wait for all others.
    Observer = 4,
}

/// A thread, identified by its Linux thread number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Thread(i32);

impl Thread {
    /// Returns the calling thread.
    pub fn current() -> Self {
        Self(rustix::thread::gettid().as_raw_nonzero().get())
    }

    /// Returns the kernel thread that receives for an interface with threaded NAPI; the interface's
    /// name must be unique on the machine.
    pub fn napi(interface: &str) -> Result<Self, Error> {
        let prefix = format!("napi/{interface}-");
        let is_it = |pid: i32| {
            let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            // The kernel truncates thread names in some places, but not here.
            name.starts_with(&prefix)
        };
        numbers("/proc")?.into_iter().find(|pid| is_it(*pid)).map(Self).ok_or_else(|| Error::Data {
            path: "/proc".into(),
            reason: format!("has no thread {prefix}*: this kernel has no threaded NAPI"),
        })
    }

    /// Returns the main thread of a child process.
    pub fn main_of(child: &std::process::Child) -> Self {
        // Linux numbers processes below 2^22.
        Self(child.id() as i32)
    }

    /// Returns the thread's number.
    pub fn number(self) -> u32 {
        // The kernel's numbers are positive.
        self.0.unsigned_abs()
    }

    /// Returns all threads of a process.
    pub fn process_threads(pid: u32) -> Result<Vec<Self>, Error> {
        Ok(numbers(&format!("/proc/{pid}/task"))?.into_iter().map(Self).collect())
    }

    /// Restricts the thread to one processor.
    pub fn pin(self, processor: usize) -> Result<(), Error> {
        let mut set = CpuSet::new();
        set.set(processor);
        sched_setaffinity(Pid::from_raw(self.0), &set).map_err(|errno| {
            Error::io(format!("pinning thread {} to processor {processor}", self.0), errno)
        })
    }

    /// Runs the thread whenever it has work and no thread of a higher level has (`SCHED_FIFO`).
    /// Other programs then get only the twentieth of the processor that the kernel reserves for
    /// ordinary threads, whatever their priority and session. Does nothing in unit tests, which do
    /// not judge speed and run concurrently with other tests.
    pub fn precede(self, level: Level) -> Result<(), Error> {
        if cfg!(test) {
            return Ok(());
        }
        let (number, level) = (self.0.to_string(), (level as u8).to_string());
        let mut chrt = Command::new("chrt");
        command::run(chrt.args(["--fifo", "--pid", &level, &number]), LIMIT).map(drop)
    }

    /// Gives the thread the highest priority of ordinary threads: a competing program of the same
    /// session and control group gets about a hundredth of the processor. A program of another
    /// session may get half if the kernel first divides time among sessions (sched(7), autogroups).
    pub fn hurry(self) -> Result<(), Error> {
        setpriority_process(Pid::from_raw(self.0), -20)
            .map_err(|errno| Error::io(format!("raising the priority of thread {}", self.0), errno))
    }

    /// Returns the thread to ordinary scheduling.
    pub fn follow(self) -> Result<(), Error> {
        let mut chrt = Command::new("chrt");
        command::run(chrt.args(["--other", "--pid", "0", &self.0.to_string()]), LIMIT).map(drop)
    }

    /// Returns the processor time that the scheduler has charged to the thread; zero once it has
    /// ended.
    pub fn cpu_time(self) -> Duration {
        let text = std::fs::read_to_string(format!("/proc/{0}/task/{0}/schedstat", self.0))
            .or_else(|_| std::fs::read_to_string(format!("/proc/{}/schedstat", self.0)));
        let nanos = text.ok().and_then(|text| text.split_whitespace().next()?.parse().ok());
        Duration::from_nanos(nanos.unwrap_or(0))
    }
}

fn numbers(folder: &str) -> Result<Vec<i32>, Error> {
    let entries = std::fs::read_dir(folder).map_err(|source| Error::io(folder, source))?;
    Ok(entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thread_is_charged_for_its_work() {
        let thread = Thread::current();
        let before = thread.cpu_time();
        let mut sum = 0_u64;
        while thread.cpu_time() == before {
            sum = (0..100_000_u64).fold(sum, |sum, step| sum.wrapping_mul(31).wrapping_add(step));
        }
        assert!(sum != 1);
        assert!(Thread::process_threads(std::process::id()).unwrap().contains(&thread));
    }

    #[test]
    fn unknown_interface_has_no_thread() {
        assert!(Thread::napi("no-such-interface").is_err());
    }
}

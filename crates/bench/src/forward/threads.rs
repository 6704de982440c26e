//! Threads of this machine: whose they are, where they run, what they used.

use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_setaffinity};
use std::process::Command;
use std::time::Duration;
use wattline_testbed::Error;
use wattline_testbed::command;
use wattline_testbed::command::LIMIT;

/// Who runs first where several of the benchmark's threads share a processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Level {
    /// What makes frames: the generator, and the kernel thread that receives for a contestant.
    Source = 1,
    /// What frames come to: the contestant's own threads, which go before what makes their
    /// frames; the other way round it would make what is only dropped.
    Drain = 2,
    /// The kernel thread of the sink, which comes after all others on the frames' way.
    Sink = 3,
    /// Who reads the figures, which otherwise would wait for the others.
    Observer = 4,
}

/// A thread by its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Thread(i32);

impl Thread {
    /// The calling thread.
    pub fn current() -> Self {
        Self(rustix::thread::gettid().as_raw_nonzero().get())
    }

    /// The kernel thread that receives for an interface with threaded NAPI; the interface's
    /// name must be unique on the machine.
    pub fn napi(interface: &str) -> Result<Self, Error> {
        let prefix = format!("napi/{interface}-");
        let is_it = |pid: i32| {
            let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            // The kernel cuts the names of its threads in some places, not in this one.
            name.starts_with(&prefix)
        };
        numbers("/proc")?.into_iter().find(|pid| is_it(*pid)).map(Self).ok_or_else(|| Error::Data {
            path: "/proc".into(),
            reason: format!("has no thread {prefix}*: this kernel has no threaded NAPI"),
        })
    }

    /// The main thread of a child.
    pub fn main_of(child: &std::process::Child) -> Self {
        // Linux numbers processes below 2^22.
        Self(child.id() as i32)
    }

    /// Its number.
    pub fn number(self) -> u32 {
        // The kernel's numbers are positive.
        self.0.unsigned_abs()
    }

    /// All threads of a process.
    pub fn of_process(pid: u32) -> Result<Vec<Self>, Error> {
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

    /// Lets the thread run whenever it has work and no thread of a higher level has
    /// (`SCHED_FIFO`): no other program of the machine takes its processor, whatever its
    /// priority and session, but for the twentieth that the kernel keeps for them.
    pub fn precede(self, level: Level) -> Result<(), Error> {
        let (number, level) = (self.0.to_string(), (level as u8).to_string());
        let mut chrt = Command::new("chrt");
        command::run(chrt.args(["--fifo", "--pid", &level, &number]), LIMIT).map(drop)
    }

    /// An ordinary thread again.
    pub fn follow(self) -> Result<(), Error> {
        let mut chrt = Command::new("chrt");
        command::run(chrt.args(["--other", "--pid", "0", &self.0.to_string()]), LIMIT).map(drop)
    }

    /// Processor time that the scheduler has charged it; zero once it has ended.
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
    fn a_thread_is_charged_for_its_work() {
        let thread = Thread::current();
        let before = thread.cpu_time();
        let mut sum = 0_u64;
        while thread.cpu_time() == before {
            sum = (0..100_000_u64).fold(sum, |sum, step| sum.wrapping_mul(31).wrapping_add(step));
        }
        assert!(sum != 1);
        assert!(Thread::of_process(std::process::id()).unwrap().contains(&thread));
    }

    #[test]
    fn an_unknown_interface_has_no_thread() {
        assert!(Thread::napi("no-such-interface").is_err());
    }
}

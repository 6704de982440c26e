//! The kernel's polls of receive queues (NAPI) as a policy sees them, for machines on which the
//! kernel forwards or serves: packets and streaks by queue, drops.
//!
//! | figure | from |
//! |---|---|
//! | polls, packets, full polls and streaks of an instance, by CPU | the tracepoint `napi:napi_poll` ([`wattline_xdp::polls`]) |
//! | time of a queue that a kernel thread polls | `/proc/PID/schedstat` |
//! | queue, interrupt and CPUs of an instance | the netlink family `netdev`, else names of interrupts ([`Places`]) |
//! | drops of a CPU's backlog, polls cut short | `/proc/net/softnet_stat` ([`softnet`]) |
//!
//! A poll that used up its budget left packets waiting, and a shorter one emptied the queue. So the
//! packets of a poll are the fill level that it found, up to the budget, and streaks are counted on
//! them. The backlog after a full poll is unknown; rules that need it are [`Denied`]. Drivers give
//! `work` different meanings ([`meaning`]): if a queue's own counters disagree, the counters win.
//!
//! The BPF program is in `wattline-xdp`, which has the compiler's script, the loader and the test
//! of kernels. This crate relates it to the policies, which `wattline-xdp` does not know.
#![forbid(unsafe_code)]

mod drivers;
mod observer;
mod places;
pub mod softnet;

pub use drivers::{DRIVERS, FullPoll, Work, meaning};
pub use observer::{CpuSample, Denied, Observer, QueueSample, StreakEnd, Unavailable, poll_rule};
pub use places::{Place, Places};

//! The XDP program that passes transit packets to AF_XDP sockets, or forwards them itself.
//!
//! It is attached by a BPF link that this process owns: when the process ends, for any reason, the
//! kernel detaches the program and continues to forward by itself.
//!
//! - [`XdpProgram`]: the program that `wattline-router` attaches to an interface; [`XdpForward`]:
//!   the ports between which programs forward by themselves
//! - [`Copies`]: copies of packets that programs forward, for captures and traces
//! - [`bpf`]: compiled programs, maps and links; the programs themselves are C, in `bpf/`
//! - [`measured`]: load that is generated and accounted for in the kernel
//! - [`polls`]: polls of receive queues by the kernel, and time in its soft interrupts
//! - [`steer`], [`CountingSink`], [`LiveGenerator`], [`PassAll`]: parts of test beds

pub mod bpf;
mod by_cpu;
mod copies;
mod egress;
mod error;
mod flows;
mod forward;
mod kept;
mod left;
mod load;
mod loaded;
mod local;
pub mod measured;
mod mode;
pub mod polls;
mod program;
mod station;
pub mod steer;
mod verdict;

#[cfg(test)]
mod tests;

pub use by_cpu::ForwardedByCpu;
pub use copies::{Copied, Copies, CopyReader};
pub use egress::{FORWARD_PORTS_MAX, Sent};
pub use error::XdpError;
pub use flows::FlowLookup;
pub use forward::XdpForward;
pub use kept::KeptLink;
pub use left::{LEFT_PREFIXES_MAX, Leaves, ROUTED_PREFIXES_MAX, Routed};
pub use load::{CountingSink, LiveGenerator, PassAll};
pub use mode::{XdpMode, XdpModeChoice};
pub use program::{LOCAL_ADDRESSES_MAX, LocalAddress, QUEUES_MAX, XdpProgram};
pub use verdict::{Verdict, XdpCounters};

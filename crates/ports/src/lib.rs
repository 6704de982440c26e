//! Ports: sources and destinations of frames.
//!
//! Every port is a set of [`wattline_dataplane::port::PortQueue`]s, one per worker:
//!
//! - [`afxdp`]: a network interface of this Linux machine, through AF_XDP sockets;
//! - [`memory`]: rings within the process, for tests and benchmarks;
//! - [`capture`]: files of packets;
//! - [`waiter`]: blocking wait of workers without work.
//!
//! Unsafe code lives in `afxdp::ring` (memory shared with the kernel) and `afxdp::socket` (socket
//! options that rustix lacks); the frames' memory is a [`wattline_memory::ChunkMemory`].

pub mod afxdp;
pub mod capture;
pub mod memory;
pub mod waiter;

//! Options for opening a worker's AF_XDP sockets.

use std::time::Duration;

/// Copying of frames between the driver's memory and the worker's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CopyMode {
    /// Zero-copy if the drivers of all ports of the worker support it, otherwise copy.
    #[default]
    Auto,
    /// Always copy.
    Copy,
    /// Zero-copy or an error.
    ZeroCopy,
}

/// Preferred busy polling: the worker's own system calls run the driver's receive
/// routine, in place of interrupts (Linux 5.11, `SO_PREFER_BUSY_POLL`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BusyPoll {
    /// Longest polling of one system call; `SO_BUSY_POLL`, whole microseconds.
    pub duration: Duration,
    /// Most frames of one poll; `SO_BUSY_POLL_BUDGET`, 1 to 64 without CAP_NET_ADMIN.
    pub budget: u16,
}

/// Options of a worker's AF_XDP sockets; the default suits most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Slots of each receive, transmit and fill ring: a power of two, 64 to 16 384. 2048 is two
    /// milliseconds at 1 Mpps: the time that a worker may have to wait for its processor. In copy
    /// mode fewer chunks are lent to the kernel while a queue needs fewer.
    pub ring: u32,
    /// True to lend the whole ring to the kernel all the time, also in copy mode: for a receiver
    /// that must lose nothing while it has no processor, at any cost.
    pub lend_all: bool,
    /// Copying of frames.
    pub copy: CopyMode,
    /// Bytes kept free before a received frame in addition to the 256 that the kernel always keeps;
    /// they shorten the longest frame that fits.
    pub headroom: u32,
    /// Preferred busy polling; `None` for off.
    pub busy_poll: Option<BusyPoll>,
    /// Longest wait for a queue that is in use: the kernel releases a queue shortly after its last
    /// socket was closed.
    pub patience: Duration,
    /// Number of queues that may be opened later ([`super::WorkerMemory::open`]), for which
    /// additional memory is allocated.
    pub later: usize,
    /// Largest expected MTU of these queues in bytes, limited to that of AF_XDP.
    pub later_mtu: u32,
    /// True if packets that are longer than the kernel's chunks may be left to others, on a kernel
    /// without frames in several pieces.
    pub leaves_long: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            ring: 2048,
            lend_all: false,
            copy: CopyMode::Auto,
            headroom: 0,
            busy_poll: None,
            patience: Duration::from_millis(1500),
            later: 0,
            later_mtu: 0,
            leaves_long: false,
        }
    }
}

impl Options {
    /// Fewest slots of a ring: one batch.
    pub const RING_MIN: u32 = 64;
    /// Most slots of a ring.
    pub const RING_MAX: u32 = 16_384;
}

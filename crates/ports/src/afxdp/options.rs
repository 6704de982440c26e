//! Options for opening a worker's AF_XDP sockets.

use std::time::Duration;

/// True if frames are copied between the card's memory and ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CopyMode {
    /// Zero-copy where the drivers of all ports of the worker can, else copy.
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
    /// Slots of each receive, transmit and fill ring: a power of two, 64 to 16 384. 2048 is
    /// two milliseconds at 1 Mpps: as long as a worker may have to wait for its processor. In
    /// copy mode fewer chunks are lent to the kernel while a queue shows that it needs fewer.
    pub ring: u32,
    /// Whether the whole ring is lent to the kernel all the time, also in copy mode: for a
    /// receiver that has to lose nothing while it does not get its processor, whatever that costs.
    pub lend_all: bool,
    /// True if frames are copied.
    pub copy: CopyMode,
    /// Bytes kept free before a received frame beside the 256 that the kernel always
    /// keeps; they shorten the longest frame that fits.
    pub headroom: u32,
    /// Preferred busy polling, off unless given.
    pub busy_poll: Option<BusyPoll>,
    /// Longest wait for a queue that is in use: the kernel releases a queue a little after its last
    /// socket was closed.
    pub patience: Duration,
    /// Queues that may be opened later ([`super::WorkerMemory::open`]), for which there is to be
    /// memory beside that of those that are opened at once.
    pub later: usize,
    /// The largest MTU in bytes that these are expected to have, as far as AF_XDP takes it.
    pub later_mtu: u32,
    /// True if packets that are longer than the kernel's chunks may be left to others where the
    /// kernel knows no frames in several pieces.
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
    /// Smallest ring: one batch.
    pub const RING_MIN: u32 = 64;
    /// Largest ring.
    pub const RING_MAX: u32 = 16_384;
}

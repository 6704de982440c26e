//! AF_XDP: raw frames of a network interface in memory shared with the kernel.
//!
//! A worker opens all its queues at once with [`open_worker`]: their sockets share one
//! UMEM (the [`wattline_dataplane::frame::FramePool`] that is returned beside them), so
//! that a frame received on one port is sent on another without being copied.
//! Zero-copy is used where every driver can, else copy mode; [`QueueMode`] says which.
//!
//! An XDP program on the interface (see `wattline-xdp`) must hand the frames over:
//! [`AfXdpQueue::socket`] is what goes into its map of sockets.
//!
//! Sources: Linux `Documentation/networking/af_xdp.rst` and `include/uapi/linux/if_xdp.h`.

mod address;
mod bare;
mod error;
mod fill_level;
mod layout;
mod open;
mod options;
mod queue;
mod ring;
mod socket;
mod status;

pub use address::QueueAddress;
pub use bare::BareLoop;
pub use error::OpenError;
pub use open::{OpenedWorker, WorkerMemory, largest_mtu, largest_mtu_in_one_piece, open_worker};
pub use options::{BusyPoll, CopyMode, Options};
pub use queue::{AfXdpQueue, LentChunks};
pub use socket::QueueMode;
pub use status::{QueueState, QueueStatus};

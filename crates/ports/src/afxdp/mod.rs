//! AF_XDP: raw frames of a network interface in memory shared with the kernel.
//!
//! A worker opens all its queues at once with [`open_worker`]. Their sockets share one UMEM (the
//! returned [`wattline_dataplane::frame::FramePool`]), so that a frame received on one port is sent
//! on another without being copied. Zero-copy mode is used if every driver supports it, otherwise
//! copy mode; see [`QueueMode`].
//!
//! An XDP program on the interface (see `wattline-xdp`) must pass the frames on: its map of sockets
//! has to contain [`AfXdpQueue::socket`].
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

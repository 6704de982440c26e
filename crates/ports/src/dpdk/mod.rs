//! Ports over DPDK: cards that AF_XDP does not serve, and DPDK's virtual devices, as queues of the
//! data plane ([`wattline_dataplane::port::PortQueue`]).
//!
//! [`Eal::start`] starts DPDK's environment, once in a process. [`Device::open`] sets a device up and
//! gives one [`DpdkQueue`] for each worker.
//!
//! Frames are copied between DPDK's buffers and the worker's frame memory, once each way. That memory
//! belongs to the data plane: all ports of a worker share it, so that a frame goes from any port to any
//! other, and an AF_XDP or capture port knows nothing of DPDK's buffers.
//!
//! The feature `dpdk` links libdpdk; `shim.c` makes functions of what is inline there. Without the
//! feature the same names are there, and [`Eal::start`] says how to build the program. Unsafe code
//! lives in `device`, `eal`, `queue` and `running`, and is nothing but calls of the functions in `ffi`.

/// Whether this program has it.
pub const BUILT_IN: bool = cfg!(feature = "dpdk");

#[cfg(not(feature = "dpdk"))]
mod absent;
mod arguments;
#[cfg(feature = "dpdk")]
mod device;
#[cfg(feature = "dpdk")]
mod eal;
mod error;
#[cfg(feature = "dpdk")]
mod ffi;
mod link;
mod name;
mod options;
#[cfg(feature = "dpdk")]
mod queue;
#[cfg(feature = "dpdk")]
mod running;

#[cfg(not(feature = "dpdk"))]
pub use absent::{Device, DpdkQueue, Eal};
#[cfg(feature = "dpdk")]
pub use device::Device;
#[cfg(feature = "dpdk")]
pub use eal::Eal;
pub use error::DpdkError;
pub use link::LinkState;
pub use name::DeviceText;
pub use options::DeviceOptions;
#[cfg(feature = "dpdk")]
pub use queue::DpdkQueue;

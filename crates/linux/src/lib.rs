//! Linux interfaces for state and settings: links, routes, neighbours and IPsec state over netlink,
//! sysfs, performance counters, network card settings, the TUN device, capabilities.
//!
//! Each file uses one interface of the kernel. `wattline-xdp` has the programs that run inside the
//! kernel.

pub mod card_statistics;
pub mod ethtool;
pub mod handed_over;
pub mod kernel_types;
pub mod missing;
pub mod multipath;
pub mod namespace;
pub mod napi;
pub mod netlink;
pub mod perf;
pub mod privileges;
pub mod redirects;
pub mod sysfs;
pub mod tcp_round_trips;
pub mod tun;
pub mod xdp_features;

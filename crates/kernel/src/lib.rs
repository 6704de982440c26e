//! What Linux knows: links, routes, neighbours, network card settings, and the XDP program.

pub mod bpf;
pub mod ethtool;
pub mod namespace;
pub mod napi;
mod netdev;
pub mod netlink;
pub mod perf;
pub mod steer;
pub mod sysfs;
pub mod tun;
pub mod xdp;

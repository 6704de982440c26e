//! Why the XDP program is not on an interface.

use crate::bpf::BpfError;
use crate::mode::XdpMode;
use rustix::io::Errno;

/// Why the XDP program could not be loaded or attached.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum XdpError {
    /// Privileges, kernel features or resources are missing.
    #[error(transparent)]
    Bpf(#[from] BpfError),
    /// Another XDP program is there.
    #[error(
        "interface {ifindex} has an XDP program already (another instance?): `bpftool net` shows \
         it, `ip link set dev NAME xdp off` removes one that was set by ip"
    )]
    Occupied {
        /// Index of the interface.
        ifindex: u32,
    },
    /// The interface does not exist.
    #[error("there is no interface {ifindex} in this network namespace")]
    NoInterface {
        /// Index of the interface.
        ifindex: u32,
    },
    /// The driver (and the kernel's generic hook) refused it.
    #[error("interface {ifindex} takes no XDP program: {}", describe(refusals))]
    Refused {
        /// Index of the interface.
        ifindex: u32,
        /// Which modes were tried and what the kernel answered.
        refusals: Vec<(XdpMode, Errno)>,
    },
}

fn describe(refusals: &[(XdpMode, Errno)]) -> String {
    refusals
        .iter()
        .map(|(mode, errno)| {
            let mode = match mode {
                XdpMode::Native => "native mode",
                XdpMode::Generic => "generic mode",
            };
            format!("{mode}: {errno}")
        })
        .collect::<Vec<_>>()
        .join("; ")
}

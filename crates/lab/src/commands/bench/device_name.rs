//! Names of the devices that a benchmark sets up between namespaces.

use wattline_bench::rfc2544::Device;

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub(super) enum DeviceName {
    /// The kernel's forwarding.
    Kernel,
    /// Wattline's workers on AF_XDP.
    Workers,
    /// Wattline's XDP programs.
    Xdp,
}

impl From<DeviceName> for Device {
    fn from(name: DeviceName) -> Self {
        match name {
            DeviceName::Kernel => Self::Kernel,
            DeviceName::Workers => Self::Workers,
            DeviceName::Xdp => Self::Xdp,
        }
    }
}

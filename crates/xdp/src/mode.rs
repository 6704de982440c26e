//! Modes in which an XDP program runs.

/// `XDP_FLAGS_SKB_MODE`
const FLAG_GENERIC: u32 = 1 << 1;
/// `XDP_FLAGS_DRV_MODE`
const FLAG_NATIVE: u32 = 1 << 2;

/// Mode in which the program runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum XdpMode {
    /// In the driver, before the kernel makes a packet buffer of the frame.
    Native,
    /// In the kernel's stack, for drivers without XDP; slower.
    Generic,
}

impl XdpMode {
    /// Returns its flag of `BPF_LINK_CREATE`.
    pub(crate) fn flag(self) -> u32 {
        match self {
            Self::Native => FLAG_NATIVE,
            Self::Generic => FLAG_GENERIC,
        }
    }
}

/// Requested mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum XdpModeChoice {
    /// Native if the driver supports it, otherwise generic.
    #[default]
    Auto,
    /// This mode or an error.
    Only(XdpMode),
}

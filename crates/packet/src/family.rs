//! Address families.

use crate::{ipv4, ipv6};

/// Address family: the version of IP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Family {
    /// Both.
    pub const ALL: [Self; 2] = [Self::V4, Self::V6];

    /// Returns the name in JSON and in file names.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::V4 => "ipv4",
            Self::V6 => "ipv6",
        }
    }

    /// Returns the length of the fixed header in bytes.
    #[must_use]
    pub fn header(self) -> usize {
        match self {
            Self::V4 => ipv4::HEADER,
            Self::V6 => ipv6::HEADER,
        }
    }
}

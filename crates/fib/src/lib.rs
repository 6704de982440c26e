//! Longest-prefix match for IPv4 and IPv6.
//!
//! There is one writer (the control plane) and any number of readers (the workers). A reader takes
//! no lock. Memory that a reader may still use is reused only after a grace period ([`grace`]), in
//! which every registered reader has reported that it holds no reference.
//!
//! A table maps prefixes to [`NextHopId`]s; the data plane defines the meaning of an id.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod cell;
mod family;
mod fib;
pub mod grace;
mod groups;
mod huge_pages;
mod measure;
mod memory;
mod multibit;
mod reader;
mod root;
pub mod routes_file;
mod simd_level;
mod v4;
mod v6;
#[cfg(target_arch = "x86_64")]
mod words;

pub use family::Family;
pub use fib::Fib;
pub use huge_pages::HugePages;
pub use reader::Reader;
pub use root::ROOT_BITS;
pub use simd_level::{Choice, SimdLevel};
pub use v4::{Fib4, Fib4Reader, V4};
pub use v6::{Fib6, Fib6Reader, V6};

/// Next hop of a prefix: an index into the data plane's next-hop table.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(transparent)]
pub struct NextHopId(pub u16);

impl NextHopId {
    /// No route.
    pub const NONE: Self = Self(0);
    /// The highest id that a table can hold.
    pub const MAX: Self = Self(0x7fff);
    /// The highest id that takes only a byte of the root, for prefixes of at most 24 bits.
    pub const BYTE_MAX: Self = Self(254);
}

/// Reasons why a table refused a prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FibError {
    /// The id does not fit the table's entries.
    #[error("next hop {0} is out of range: 1 to {max} is allowed", max = NextHopId::MAX.0)]
    NextHopOutOfRange(u16),
    /// The table is full; the value is its limit.
    #[error("the table is full: its {0} groups for long prefixes are all in use")]
    Full(usize),
}

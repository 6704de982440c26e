//! Longest-prefix match for IPv4 and IPv6.
//!
//! One writer (the control plane) and any number of readers (the workers). A reader
//! takes no lock; memory that it may still be looking at is reused only after a grace
//! period ([`grace`]): every registered reader has said in between that it holds nothing.
//!
//! A table maps prefixes to [`NextHopId`]s; what an id means is the business of the
//! data plane.

#[cfg(target_arch = "x86_64")]
mod avx2;
mod cell;
mod family;
mod fib;
pub mod grace;
mod groups;
mod huge_pages;
mod kernel;
mod memory;
mod multibit;
mod reader;
pub mod routes_file;
mod v4;
mod v6;

pub use family::Family;
pub use fib::Fib;
pub use huge_pages::HugePages;
pub use kernel::Kernel;
pub use reader::Reader;
pub use v4::{Fib4, Fib4Reader, V4};
pub use v6::{Fib6, Fib6Reader, V6};

/// What a prefix leads to: an index into the data plane's next-hop table.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(transparent)]
pub struct NextHopId(pub u16);

impl NextHopId {
    /// No route.
    pub const NONE: Self = Self(0);
    /// The highest id that a table can hold.
    pub const MAX: Self = Self(0x7fff);
}

/// Why a table refused a prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FibError {
    /// The id does not fit the table's entries.
    #[error("next hop {0} is out of range: 1 to {max} is allowed", max = NextHopId::MAX.0)]
    NextHopOutOfRange(u16),
    /// The bounded memory of the table is used up.
    #[error("the table is full: its {0} groups for long prefixes are all in use")]
    Full(usize),
}

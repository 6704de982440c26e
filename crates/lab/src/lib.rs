//! Experiments: machines built out of network namespaces, real traffic through them,
//! benchmarks, and the papers' figures beside ours.
//!
//! [`topology`] builds a source, a router and a sink; [`forwarder`] puts the kernel or
//! Wattline to work in the middle; [`probe`] and [`raw`] send traffic through it and
//! account for every packet; [`cpu`] says what that cost. [`demo`] joins these into the
//! demonstration. [`bench`](mod@bench) measures and compares with the peers;
//! [`reproduce`] makes the papers' figures again; [`rig`] emulates hardware.
#![forbid(unsafe_code)]

pub mod bench;
pub mod clock;
pub mod command;
pub mod cpu;
pub mod demo;
pub mod error;
pub mod forwarder;
pub mod leftovers;
pub mod namespace;
pub mod probe;
pub mod raw;
pub mod replay;
pub mod reproduce;
pub mod rig;
pub mod scale;
pub mod topology;

pub use error::Error;

//! Machines for experiments, and the traffic through them.
//!
//! [`topology`] builds a source, a router and a sink out of network namespaces, and [`forwarder`]
//! starts the kernel or Wattline as the router. [`probe`], [`replay`] and [`raw`] send traffic
//! through it and account for every packet, [`packets`] for millions of packets per second. [`cpu`]
//! measures processor time. [`rig`] emulates a machine with hardware that this one lacks.
//! [`leftovers`] removes namespaces.
#![forbid(unsafe_code)]

pub mod clock;
pub mod command;
pub mod cpu;
pub mod error;
pub mod forwarder;
pub mod leftovers;
pub mod namespace;
pub mod packets;
pub mod probe;
pub mod raw;
pub mod replay;
pub mod rig;
pub mod topology;

pub use error::Error;

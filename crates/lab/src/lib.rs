//! Experiments: benchmarks, the demonstration, and the papers' figures beside ours.
//!
//! [`demo`] is the demonstration; [`bench`](mod@bench) measures and compares with the peers;
//! [`reproduce`] makes the papers' figures again.
#![forbid(unsafe_code)]

pub mod bench;
pub mod demo;
pub mod error;
pub mod reproduce;
pub mod scale;

pub use error::Error;

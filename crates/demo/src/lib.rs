//! The demonstration, in two parts: [`day`] is a day on emulated cores under several policies, with
//! power; [`compare`] sends the same traffic through the kernel and through Wattline in real time.
//!
//! [`scale`] runs the emulated cores of the first part with its own packets; [`watch`] is the live
//! status of both parts.
#![forbid(unsafe_code)]

pub mod compare;
pub mod day;
mod error;
mod remark;
pub mod scale;
pub mod watch;

pub use error::Error;

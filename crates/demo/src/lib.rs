//! The demonstration, in two parts: [`day`], a day on emulated cores under several policies,
//! with power; and [`compare`], the same traffic by the kernel and by Wattline in real time.
//!
//! [`scale`] drives the emulated cores of the first with packets of its own.
#![forbid(unsafe_code)]

pub mod compare;
pub mod day;
mod error;
pub mod scale;

pub use error::Error;

//! Benchmarks of this machine. They are built so that a noisy machine shows: ratios within one run
//! are meaningful, absolute figures are not.
#![forbid(unsafe_code)]

#[cfg(feature = "applications")]
pub mod app;
pub mod breakdown;
pub mod calibration;
pub mod control_loop;
pub mod cpu_time;
pub mod eer;
pub mod fib;
pub mod forward;
mod harness;
pub mod machine;
pub mod memory_router;
pub mod nic;
pub mod pipeline;
pub mod prefixes;
#[cfg(feature = "applications")]
pub mod redundancy;
pub mod rfc2544;
pub mod sample;

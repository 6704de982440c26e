//! Request servers: an open-loop load generator and latency probe for memcached and HTTP.
//!
//! Every request has an intended time that a [`schedule`] fixes beforehand. Its latency counts from
//! that time, even if no connection was free then. A server that stalls is charged for all requests
//! that came due during the stall, not only for the outstanding ones (Tene's *coordinated
//! omission*).
#![forbid(unsafe_code)]

pub mod address;
pub mod clock;
pub mod engine;
pub mod http;
pub mod latency;
mod line;
pub mod memcached;
pub mod protocol;
mod random;
mod report;
pub mod schedule;
pub mod sources;
mod verdict;

pub use report::{Generator, Report};
pub use verdict::{Cause, NOTED_LATENESS, Verdict};

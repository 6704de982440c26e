//! The life of the router: configuration, routing state, workers, how to talk to it, and the
//! loop that makes its power follow its traffic.
#![forbid(unsafe_code)]

pub mod application;
pub mod config;
pub mod flow_records;
pub mod ipsec;
pub mod metrics;
pub mod notify;
mod redundancy;
pub mod router;
pub mod socket;
pub mod stats;

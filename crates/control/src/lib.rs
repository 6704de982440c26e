//! The life of the router: configuration, routing state, workers, and how to talk to it.
#![forbid(unsafe_code)]

pub mod application;
pub mod config;
pub mod flow_records;
pub mod governor;
pub mod privileges;
pub mod rib;
pub mod router;
pub mod socket;
pub mod stats;

//! The life of the router: configuration, routing state, workers, and how to talk to it.
#![forbid(unsafe_code)]

pub mod application;
pub mod config;
pub mod governor;
pub mod ipsec;
pub mod privileges;
pub mod rib;
pub mod router;
pub mod socket;
pub mod stats;

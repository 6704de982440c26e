//! Redundancy elimination in the control thread: it makes the caches, adds up counters, and
//! exchanges messages between decoders and encoders over UDP.
//!
//! - `near`, `far`: the exchange, as seen by encoder and decoder, without clock and sockets
//! - `encode`, `decode`: the applications
//!
//! Encoders and decoders are two applications, since filters and flow records come between them.

mod common;
mod decode;
mod encode;
mod far;
mod near;

#[cfg(test)]
mod hostile_tests;

use crate::section::{RedundancyRole, RedundancySections, RedundancySettings};
use wattline_router::RouterError;
use wattline_router::application::Application;
use wattline_router::config::Config;

/// Starts the applications in the configuration. Encoders are placed only before packets leave, and
/// decoders never there, so their relative order does not matter.
pub fn start(config: &Config) -> Result<Vec<Box<dyn Application>>, RouterError> {
    let mut applications: Vec<Box<dyn Application>> = Vec::new();
    let encoders = sections(config, RedundancyRole::Encode);
    if !encoders.is_empty() {
        applications.push(Box::new(encode::Encoders::new(&encoders)?));
    }
    let decoders = sections(config, RedundancyRole::Decode);
    if !decoders.is_empty() {
        applications.push(Box::new(decode::Decoders::new(&decoders)?));
    }
    Ok(applications)
}

fn sections(config: &Config, role: RedundancyRole) -> Vec<&RedundancySettings> {
    let all = config.of::<RedundancySections>().into_iter().flat_map(|sections| &sections.0);
    all.filter(|section| section.role == role).collect()
}

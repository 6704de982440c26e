//! Redundancy elimination in the control thread: it makes the caches, adds up counters, and lets
//! decoders report to encoders over UDP.
//!
//! Encoders and decoders are two applications, since flows are recorded between them.

mod decode;
mod encode;

use crate::nodes::{Family, Rules};
use crate::section::{RedundancyRole, RedundancySections, RedundancySettings};
use ipnet::IpNet;
use serde_json::{Map, Value, json};
use std::time::Duration;
use wattline_dataplane::port::PortId;
use wattline_packet::redundancy::Key;
use wattline_router::RouterError;
use wattline_router::application::Application;
use wattline_router::config::Config;

/// Both IP versions.
const FAMILIES: [Family; 2] = [Family::V4, Family::V6];
/// Interval of a decoder's reports when it misses nothing.
const HELLO: Duration = Duration::from_secs(1);
/// Time without a report after which the decoder counts as dead.
const DEAD: Duration = Duration::from_secs(5);
/// Intervals at which either side looks for work, with packets and without.
const BUSY: Duration = Duration::from_millis(10);
const IDLE: Duration = Duration::from_millis(250);

/// Starts the applications that the configuration asks for. Encoders are placed only before packets
/// leave, and decoders never there, so their relative order does not matter.
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

fn rules(settings: &RedundancySettings) -> Rules {
    let mut except = settings.except.clone();
    // Reports to an encoder, and all other packets for the decoder's router itself.
    if settings.role == RedundancyRole::Encode {
        except.extend(settings.peer.map(IpNet::from));
    }
    Rules {
        port: settings.port.map(|port| PortId(port as u16)),
        prefixes: settings.prefixes.clone(),
        except,
        protocol: settings.protocol,
        bypass_ports: settings.bypass_ports.clone(),
    }
}

fn key(settings: &RedundancySettings) -> Key {
    Key::from_secret(&settings.secret)
}

/// Sums of the counters of all workers of a section, as JSON.
fn sum(lists: impl Iterator<Item = Vec<(&'static str, u64)>>) -> Map<String, Value> {
    let mut sum: Vec<(&'static str, u64)> = Vec::new();
    for list in lists {
        match sum.is_empty() {
            true => sum = list,
            false => sum.iter_mut().zip(list).for_each(|((_, sum), (_, more))| *sum += more),
        }
    }
    sum.into_iter().map(|(name, count)| (name.to_owned(), json!(count))).collect()
}

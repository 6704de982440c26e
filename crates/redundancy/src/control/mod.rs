//! Redundancy elimination as the control thread sees it: caches are made here, counters added
//! up, and decoders report to encoders over UDP.
//!
//! Encoders and decoders are two applications, for flows are recorded between them.

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

/// Both versions of IP.
const FAMILIES: [Family; 2] = [Family::V4, Family::V6];
/// How often a decoder reports although nothing is missing.
const HELLO: Duration = Duration::from_secs(1);
/// Without a report for so long, the decoder is taken for dead.
const DEAD: Duration = Duration::from_secs(5);
/// How often either side looks for something to do while packets pass, and while none do.
const BUSY: Duration = Duration::from_millis(10);
const IDLE: Duration = Duration::from_millis(250);

/// Starts what the configuration asks for. Encoders stand only where packets leave and decoders
/// never, so their own order does not matter.
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
    // An encoder's reports, and whatever else is for the decoder's router itself.
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

/// Counters of all workers of a section, added up, as JSON.
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

//! What encoders and decoders have in common.

use crate::nodes::Rules;
use crate::section::{RedundancyRole, RedundancySettings};
use ipnet::IpNet;
use serde_json::{Map, Value, json};
use std::time::Duration;
use wattline_dataplane::port::PortId;
use wattline_packet::redundancy::Key;

/// Interval of a decoder's reports when it misses nothing.
pub(super) const HELLO: Duration = Duration::from_secs(1);
/// Time without a report after which the decoder counts as dead.
pub(super) const DEAD: Duration = Duration::from_secs(5);
/// Intervals at which either side looks for work, with packets and without.
pub(super) const BUSY: Duration = Duration::from_millis(10);
pub(super) const IDLE: Duration = Duration::from_millis(250);

pub(super) fn rules(settings: &RedundancySettings) -> Rules {
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

pub(super) fn key(settings: &RedundancySettings) -> Key {
    Key::from_secret(&settings.secret)
}

/// Sums of the counters of all workers of a section, as JSON.
pub(super) fn sum(lists: impl Iterator<Item = Vec<(&'static str, u64)>>) -> Map<String, Value> {
    let mut sum: Vec<(&'static str, u64)> = Vec::new();
    for list in lists {
        match sum.is_empty() {
            true => sum = list,
            false => sum.iter_mut().zip(list).for_each(|((_, sum), (_, more))| *sum += more),
        }
    }
    sum.into_iter().map(|(name, count)| (name.to_owned(), json!(count))).collect()
}

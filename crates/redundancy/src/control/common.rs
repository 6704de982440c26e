//! Timing, rules and keys shared by encoders and decoders.

use crate::nodes::Rules;
use crate::section::{RedundancyRole, RedundancySettings};
use ipnet::IpNet;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::time::{Duration, Instant};
use wattline_dataplane::port::PortId;
use wattline_packet::redundancy::{Key, VERSION};

/// Interval of a decoder's reports when it misses nothing.
pub(super) const HELLO: Duration = Duration::from_secs(1);
/// Time without a report after which the decoder counts as dead.
pub(super) const DEAD: Duration = Duration::from_secs(5);
/// Intervals at which either side polls for work, with packets and without. A payload can be
/// referred to after about three of them.
pub(super) const BUSY: Duration = Duration::from_millis(5);
pub(super) const IDLE: Duration = Duration::from_millis(50);
/// Largest number of messages read at once, and buffer size in bytes for one.
pub(super) const AT_ONCE: usize = 256;
pub(super) const LONGEST: usize = 2048;
/// Shortest time between two log lines about the same event that others can cause.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

pub(super) fn rules(settings: &RedundancySettings) -> Rules {
    let mut except = settings.except.clone();
    // Reports to an encoder, and other packets for the decoder's router itself.
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

/// Returns an unpredictable number other than zero.
pub(super) fn random() -> u64 {
    // Keyed by the operating system.
    RandomState::new().hash_one(std::process::id()) | 1
}

/// Rate limit of log lines about an event that others can cause.
#[derive(Default)]
pub(super) struct LogLimit(Option<Instant>);

impl LogLimit {
    /// Returns true if the event may be logged now.
    pub fn allows(&mut self, now: Instant) -> bool {
        let is_due = self.0.is_none_or(|last| now.saturating_duration_since(last) >= LOG_INTERVAL);
        if is_due {
            self.0 = Some(now);
        }
        is_due
    }
}

/// Warns about a section without a secret: its messages and packets can be forged.
pub(super) fn warn_without_secret(settings: &RedundancySettings) {
    if settings.secret.is_empty() {
        let peer = settings.peer.map(|peer| format!(" with {peer}")).unwrap_or_default();
        tracing::warn!(
            "redundancy{peer}: secret is empty, so whoever sees the packets on the way can forge \
             encoded packets and reports; set the same secret on both routers"
        );
    }
}

/// Logs at most once a minute that the other router has another version of the protocol.
pub(super) fn warn_of_version(peer: Option<IpAddr>, limit: &mut LogLimit, now: Instant) {
    if limit.allows(now) {
        let peer = peer.map(|peer| format!(" {peer}")).unwrap_or_default();
        tracing::warn!(
            "redundancy: the other router{peer} has another version of the protocol than this one \
             (version {VERSION}): nothing is encoded; run the same version of Wattline on both"
        );
    }
}

pub(super) fn key(settings: &RedundancySettings) -> Key {
    Key::from_secret(&settings.secret)
}

//! IPsec: ESP (RFC 4303) in tunnel mode, IPv4 and IPv6 inside and outside.
//!
//! There are two nodes for each IP version, and one for both. `esp4-decrypt` handles received
//! packets: it decrypts those that end here and sends the inner ones through the router again, and
//! it drops packets in clear that a policy protects. `esp4-encrypt` handles packets that are about
//! to leave, so that it sees all packets that the router forwards or generates. Protected packets
//! get their outer header and are then routed by it. `esp-guard` handles packets to the kernel,
//! which does not know the policies, so that no protected packet leaves through it.
//!
//! - [`database`]: the SAs and policies that workers use, and their publication
//! - [`association`]: keys, sequence numbers, windows and counters of one direction of a tunnel
//! - [`policy`]: selection of the tunnel for a packet
//! - [`transform`]: the cryptography, which is that of AWS-LC, or of Intel's multi-buffer library where
//!   the machine has it (`crypt`)

pub mod algorithm;
pub mod association;
pub mod crypt;
pub mod database;
mod decrypt;
mod encrypt;
mod expanded;
mod guard;
mod job;
pub mod key;
mod outer;
pub mod policy;
pub mod replay;
pub mod sequence;
mod side_by_side;
pub mod transform;

#[cfg(test)]
mod tests;

use database::Publisher;
use decrypt::EspDecrypt;
use encrypt::EspEncrypt;
use guard::EspGuard;
use wattline_dataplane::feature::{Feature, Place};

/// Returns the nodes of one worker: both directions, both IP versions, and the guard before the
/// kernel. Their ICMP errors share a limit of `icmp_rate` per second for each IP version.
pub fn features(publisher: &Publisher, icmp_rate: u32, icmp_burst: u32) -> Vec<Feature> {
    let encrypt = |ipv4| EspEncrypt::new(publisher.reader(), ipv4, icmp_rate, icmp_burst);
    vec![
        Feature {
            place: Place::Received,
            ipv4: Some(decrypt::NAME4),
            ipv6: Some(decrypt::NAME6),
            nodes: vec![
                Box::new(EspDecrypt::new(publisher.reader(), true)),
                Box::new(EspDecrypt::new(publisher.reader(), false)),
            ],
        },
        Feature {
            place: Place::Routed,
            ipv4: Some(encrypt::NAME4),
            ipv6: Some(encrypt::NAME6),
            nodes: vec![Box::new(encrypt(true)), Box::new(encrypt(false))],
        },
        Feature {
            place: Place::Punted,
            ipv4: Some(guard::NAME),
            ipv6: None,
            nodes: vec![Box::new(EspGuard::new(publisher.reader()))],
        },
    ]
}

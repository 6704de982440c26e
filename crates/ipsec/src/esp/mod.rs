//! IPsec: ESP (RFC 4303) in tunnel mode, IPv4 and IPv6 inside and outside.
//!
//! Two nodes for each IP version, and one for both. `esp4-decrypt` stands where packets are
//! received: it decrypts those that end here and sends the inner ones through the router anew, and
//! it drops what came in clear although a policy protects it. `esp4-encrypt` stands where packets
//! are about to leave, so that all are seen that the router forwards or makes: those that a policy
//! protects get their outer header, and are looked up anew by that. `esp-guard` stands before the
//! kernel, which knows nothing of the policies: nothing that they protect leaves by way of it.
//!
//! - [`database`]: what workers look things up in, and how it is published
//! - [`association`]: keys, sequence numbers, windows and counters of one direction of a tunnel
//! - [`policy`]: which packets go through which tunnel
//! - [`transform`]: the cryptography, that of AWS-LC

pub mod algorithm;
pub mod association;
pub mod database;
mod decrypt;
mod encrypt;
mod guard;
pub mod key;
mod outer;
pub mod policy;
pub mod replay;
pub mod sequence;
pub mod transform;

#[cfg(test)]
mod tests;

use database::Publisher;
use decrypt::EspDecrypt;
use encrypt::EspEncrypt;
use guard::EspGuard;
use wattline_dataplane::feature::{Feature, Place};

/// The nodes of one worker: both directions, both IP versions, and the way to the kernel. ICMP
/// errors that they send share `icmp_rate` per second, for each IP version.
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

//! Conversion of an SA of the kernel into the parameters of a tunnel here.

use super::tunnel::Terms;
use crate::esp::algorithm::Algorithm;
use crate::esp::association::Limits;
use crate::esp::key::KeyMaterial;
use crate::section::Lifetime;
use wattline_linux::netlink::xfrm::Association;
use wattline_packet::protocol;

/// Keys and numbers of the SA; `None` if it cannot be used here.
pub(super) fn terms(association: &Association) -> Option<Terms> {
    if association.protocol != protocol::ESP || !association.tunnel {
        return None;
    }
    let (algorithm, key) = match association {
        Association { aead: Some((name, 128, key)), .. } if name == "rfc4106(gcm(aes))" => {
            let algorithm = match key.0.len() {
                20 => Algorithm::Aes128Gcm,
                36 => Algorithm::Aes256Gcm,
                _ => return None,
            };
            (algorithm, key.0.to_vec())
        }
        Association {
            aead: None,
            cipher: Some((cipher, key)),
            integrity: Some((integrity, bits, second)),
            ..
        } if matches!(cipher.as_str(), "cbc(aes)" | "aes") => {
            let algorithm = match (integrity.as_str(), *bits, key.0.len()) {
                ("hmac(sha1)" | "sha1", 96, 16) => Algorithm::Aes128CbcSha1,
                ("hmac(sha1)" | "sha1", 96, 32) => Algorithm::Aes256CbcSha1,
                ("hmac(sha256)" | "sha256", 128, 16) => Algorithm::Aes128CbcSha256,
                ("hmac(sha256)" | "sha256", 128, 32) => Algorithm::Aes256CbcSha256,
                _ => return None,
            };
            (algorithm, [&key.0[..], &second.0[..]].concat())
        }
        _ => return None,
    };
    // The kernel may have used part of the SA's lifetime already.
    let current = &association.current;
    let left = |(bytes, packets): (u64, u64)| Lifetime {
        limits: Limits {
            packets: rest(packets, current.packets),
            bytes: rest(bytes, current.bytes),
        },
        // The daemon watches the time, and the kernel deletes expired SAs.
        time: None,
    };
    Some(Terms {
        name: format!("kernel-{}", association.reqid),
        spi: association.spi,
        algorithm,
        key: KeyMaterial::new(algorithm, key).ok()?,
        extended: association.extended,
        ends: (association.source, association.destination),
        udp: association.udp,
        hard: left(association.hard),
        soft: left(association.soft),
        used: association.sent.max(association.received),
    })
}

/// Returns the remainder of a limit; `u64::MAX` means no limit.
fn rest(limit: u64, used: u64) -> u64 {
    if limit == u64::MAX { limit } else { limit.saturating_sub(used) }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use wattline_linux::netlink::xfrm::{Current, Key};
    use zeroize::Zeroizing;

    pub const NEAR: [u8; 4] = [192, 0, 2, 1];
    pub const FAR: [u8; 4] = [192, 0, 2, 2];

    /// Returns a tunnel of AES-GCM between two ends.
    pub fn association(spi: u32, from: [u8; 4], to: [u8; 4]) -> Association {
        let key = Key(Zeroizing::new(spi.to_be_bytes().repeat(5)));
        Association {
            source: from.into(),
            destination: to.into(),
            spi,
            protocol: 50,
            reqid: 5,
            tunnel: true,
            extended: false,
            window: 32,
            sent: 7,
            received: 9,
            aead: Some(("rfc4106(gcm(aes))".to_owned(), 128, key)),
            cipher: None,
            integrity: None,
            udp: None,
            soft: (u64::MAX, u64::MAX),
            hard: (u64::MAX, u64::MAX),
            current: Current::default(),
            bitmap_words: None,
        }
    }

    #[test]
    fn limits_include_traffic_of_the_kernel() {
        let mut one = association(0x1001, NEAR, FAR);
        (one.hard, one.soft) = ((1000, u64::MAX), (400, 30));
        one.current = Current { bytes: 500, packets: 10, ..Current::default() };
        let terms = terms(&one).unwrap();
        assert_eq!(terms.hard.limits, Limits { bytes: 500, packets: u64::MAX });
        assert_eq!(terms.soft.limits, Limits { bytes: 0, packets: 20 });
    }
}

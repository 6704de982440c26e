//! Decoder of NETLINK_XFRM messages (include/uapi/linux/xfrm.h). Numbers are in the machine's byte
//! order, except addresses, ports and SPIs, which are in network byte order.

use super::super::frame::attributes;
use super::model::{Association, Current, Key, Policy, PolicyAction, PolicyDirection, Template};
use ipnet::IpNet;
use std::net::IpAddr;
use zeroize::Zeroizing;

const AF_INET: u16 = libc::AF_INET as u16;
const AF_INET6: u16 = libc::AF_INET6 as u16;
/// Lengths of structures, with their padding.
const USERSA_INFO: usize = 224;
const USERPOLICY_INFO: usize = 168;
const USER_TMPL: usize = 64;
const ALGORITHM_NAME: usize = 64;
/// `XFRM_STATE_ESN`
const STATE_ESN: u8 = 128;
/// `XFRM_MODE_TUNNEL`
const MODE_TUNNEL: u8 = 1;
/// `UDP_ENCAP_ESPINUDP`
const ESP_IN_UDP: u16 = 2;

// Attributes.
const XFRMA_ALG_AUTH: u16 = 1;
const XFRMA_ALG_CRYPT: u16 = 2;
const XFRMA_ENCAP: u16 = 4;
const XFRMA_TMPL: u16 = 5;
const XFRMA_REPLAY_VAL: u16 = 10;
const XFRMA_ALG_AEAD: u16 = 18;
const XFRMA_ALG_AUTH_TRUNC: u16 = 20;
/// The type of a policy; 0 for the main one.
const XFRMA_POLICY_TYPE: u16 = 16;
const XFRMA_PAD: u16 = 27;
const XFRMA_OFFLOAD_DEV: u16 = 28;
const XFRMA_MARK: u16 = 21;
const XFRMA_REPLAY_ESN_VAL: u16 = 23;
const XFRMA_IF_ID: u16 = 31;

fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    array(bytes, at).map(u16::from_ne_bytes)
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    array(bytes, at).map(u32::from_ne_bytes)
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    array(bytes, at).map(u64::from_ne_bytes)
}

/// `xfrm_address_t`: 16 bytes, of which IPv4 uses the first four.
fn address(bytes: &[u8], at: usize, family: u16) -> Option<IpAddr> {
    match family {
        AF_INET => array::<4>(bytes, at).map(IpAddr::from),
        AF_INET6 => array::<16>(bytes, at).map(IpAddr::from),
        _ => None,
    }
}

/// Returns the name and key of a `struct xfrm_algo` or one of its variants: a name, a length in
/// bits, further numbers, the key.
fn algorithm(bytes: &[u8], numbers: usize) -> Option<(String, Key)> {
    let name = bytes.get(..ALGORITHM_NAME)?.split(|byte| *byte == 0).next()?;
    let bits = u32_at(bytes, ALGORITHM_NAME)? as usize;
    let start = ALGORITHM_NAME + 4 * numbers;
    let key = bytes.get(start..start.checked_add(bits.div_ceil(8))?)?;
    Some((String::from_utf8_lossy(name).into_owned(), Key(Zeroizing::new(key.to_vec()))))
}

/// Decodes the body of an XFRM_MSG_NEWSA.
pub(super) fn association(body: &[u8]) -> Option<Association> {
    let family = u16_at(body, 212)?;
    let flags = *body.get(216)?;
    let no_limit = |limit: u64| if limit == 0 { u64::MAX } else { limit };
    let mut found = Association {
        destination: address(body, 56, family)?,
        spi: array(body, 72).map(u32::from_be_bytes)?,
        protocol: *body.get(76)?,
        source: address(body, 80, family)?,
        soft: (no_limit(u64_at(body, 96)?), no_limit(u64_at(body, 112)?)),
        hard: (no_limit(u64_at(body, 104)?), no_limit(u64_at(body, 120)?)),
        current: Current {
            bytes: u64_at(body, 160)?,
            packets: u64_at(body, 168)?,
            added: u64_at(body, 176)?,
            used: u64_at(body, 184)?,
        },
        bitmap_words: None,
        reqid: u32_at(body, 208)?,
        tunnel: *body.get(214)? == MODE_TUNNEL,
        window: u32::from(*body.get(215)?),
        extended: flags & STATE_ESN != 0,
        sent: 0,
        received: 0,
        aead: None,
        cipher: None,
        integrity: None,
        udp: None,
    };
    for (kind, content) in attributes(body.get(USERSA_INFO..)?) {
        match kind {
            XFRMA_ALG_AEAD => {
                let (name, key) = algorithm(content, 2)?;
                found.aead = Some((name, u32_at(content, ALGORITHM_NAME + 4)?, key));
            }
            XFRMA_ALG_CRYPT => found.cipher = Some(algorithm(content, 1)?),
            // The same information, less precise, if XFRMA_ALG_AUTH_TRUNC is there.
            XFRMA_ALG_AUTH if found.integrity.is_none() => {
                let (name, key) = algorithm(content, 1)?;
                found.integrity = Some((name, 96, key));
            }
            XFRMA_ALG_AUTH_TRUNC => {
                let (name, key) = algorithm(content, 2)?;
                found.integrity = Some((name, u32_at(content, ALGORITHM_NAME + 4)?, key));
            }
            XFRMA_ENCAP if u16_at(content, 0)? == ESP_IN_UDP => {
                let port = |at| array(content, at).map(u16::from_be_bytes);
                found.udp = Some((port(2)?, port(4)?));
            }
            XFRMA_REPLAY_VAL => {
                found.sent = u32_at(content, 0)?.into();
                found.received = u32_at(content, 4)?.into();
            }
            XFRMA_REPLAY_ESN_VAL => {
                let whole = |low, high| -> Option<u64> {
                    Some(u64::from(u32_at(content, high)?) << 32 | u64::from(u32_at(content, low)?))
                };
                found.sent = whole(4, 12)?;
                found.received = whole(8, 16)?;
                found.window = u32_at(content, 20)?;
                found.bitmap_words = Some(u32_at(content, 0)?);
            }
            _ => {}
        }
    }
    Some(found)
}

/// Returns true for the policy of a single socket. IKE daemons use them to send their own messages
/// in clear; they do not apply to forwarded packets.
pub(super) fn is_of_socket(policy: &[u8]) -> bool {
    // XFRM_POLICY_MAX
    policy.get(160).is_some_and(|direction| *direction >= 3)
}

/// Decodes the body of an XFRM_MSG_NEWPOLICY.
pub(super) fn policy(body: &[u8]) -> Option<Policy> {
    let family = u16_at(body, 40)?;
    let prefix = |at, length: usize| {
        IpNet::new(address(body, at, family)?, *body.get(length)?).ok().map(|net| net.trunc())
    };
    let ports = body.get(32..40)?;
    let (protocol, interface) = (*body.get(44)?, u32_at(body, 48)?);
    let mut found = Policy {
        destination: prefix(0, 42)?,
        source: prefix(16, 43)?,
        narrower: ports.iter().any(|byte| *byte != 0) || protocol != 0,
        bound: interface != 0,
        priority: u32_at(body, 152)?,
        direction: match *body.get(160)? {
            0 => PolicyDirection::In,
            1 => PolicyDirection::Out,
            2 => PolicyDirection::Forward,
            _ => return None,
        },
        action: match *body.get(161)? {
            0 => PolicyAction::Allow,
            _ => PolicyAction::Block,
        },
        templates: Vec::new(),
    };
    for (kind, content) in attributes(body.get(USERPOLICY_INFO..)?) {
        match kind {
            // Value and mask: a mask of 0 matches any packet.
            XFRMA_MARK => found.bound |= u32_at(content, 4)? != 0,
            XFRMA_IF_ID => found.bound |= u32_at(content, 0)? != 0,
            XFRMA_POLICY_TYPE => found.bound |= content.first() != Some(&0),
            XFRMA_TMPL | XFRMA_PAD | XFRMA_OFFLOAD_DEV => {}
            // Selects by more than Wattline understands, such as a security context.
            _ => found.bound = true,
        }
        if kind == XFRMA_TMPL {
            for template in content.chunks_exact(USER_TMPL) {
                let family = u16_at(template, 24)?;
                found.templates.push(Template {
                    destination: address(template, 0, family)?,
                    spi: array(template, 16).map(u32::from_be_bytes)?,
                    protocol: *template.get(20)?,
                    source: address(template, 28, family)?,
                    reqid: u32_at(template, 44)?,
                    tunnel: *template.get(48)? == MODE_TUNNEL,
                });
            }
        }
    }
    Some(found)
}

/// First byte of the owner of every policy of Wattline, and of the index of policies of earlier
/// versions, which left the owner empty.
pub(super) const OURS: u32 = 0x57;

/// Returns true if owner (the field `user`) and index are those of a policy of Wattline.
pub(super) fn are_ours(owner: u32, index: u32) -> bool {
    owner >> 24 == OURS || owner == 0 && index >> 24 == OURS
}

/// Returns true if a message shows a policy of Wattline.
pub(super) fn is_ours(body: &[u8]) -> bool {
    u32_at(body, 52).zip(u32_at(body, 156)).is_some_and(|(owner, index)| are_ours(owner, index))
}

#[cfg(test)]
mod tests {
    use super::super::super::frame::attribute_bytes as attribute;
    use super::*;
    use proptest::prelude::*;

    fn named(name: &str, numbers: &[u32], key: &[u8]) -> Vec<u8> {
        let mut bytes = name.as_bytes().to_vec();
        bytes.resize(ALGORITHM_NAME, 0);
        numbers.iter().for_each(|number| bytes.extend(number.to_ne_bytes()));
        bytes.extend(key);
        bytes
    }

    fn sa(attributes: &[Vec<u8>]) -> Vec<u8> {
        let mut body = vec![0; USERSA_INFO];
        body[56..60].copy_from_slice(&[192, 0, 2, 2]);
        body[72..76].copy_from_slice(&0xc0de_0001_u32.to_be_bytes());
        body[76] = 50;
        body[80..84].copy_from_slice(&[192, 0, 2, 1]);
        body[96..104].copy_from_slice(&500_u64.to_ne_bytes());
        body[104..112].copy_from_slice(&u64::MAX.to_ne_bytes());
        body[176..184].copy_from_slice(&1_700_000_000_u64.to_ne_bytes());
        body[120..128].copy_from_slice(&1000_u64.to_ne_bytes());
        body[208..212].copy_from_slice(&5_u32.to_ne_bytes());
        body[212..214].copy_from_slice(&AF_INET.to_ne_bytes());
        (body[214], body[215], body[216]) = (1, 32, 0x80);
        attributes.iter().for_each(|attribute| body.extend(attribute));
        body
    }

    #[test]
    fn associations_are_read_with_their_keys() {
        let mut esn = Vec::new();
        for number in [4_u32, 7, 9, 1, 2, 128, 0, 0, 0, 0] {
            esn.extend(number.to_ne_bytes());
        }
        let mut udp = vec![2, 0];
        udp.extend([0x11, 0x94, 0x7a, 0x69]);
        udp.resize(24, 0);
        let body = sa(&[
            attribute(XFRMA_ALG_AEAD, &named("rfc4106(gcm(aes))", &[160, 128], &[7; 20])),
            attribute(XFRMA_ENCAP, &udp),
            attribute(XFRMA_REPLAY_ESN_VAL, &esn),
        ]);
        let found = association(&body).unwrap();
        assert_eq!(
            (found.source, found.destination),
            ([192, 0, 2, 1].into(), [192, 0, 2, 2].into())
        );
        assert_eq!((found.spi, found.protocol, found.reqid), (0xc0de_0001, 50, 5));
        assert!(found.tunnel && found.extended);
        assert_eq!((found.sent, found.received, found.window), (1 << 32 | 7, 2 << 32 | 9, 128));
        assert_eq!(found.udp, Some((4500, 31337)));
        assert_eq!((found.hard, found.soft), ((u64::MAX, 1000), (500, u64::MAX)));
        assert_eq!((found.current.added, found.bitmap_words), (1_700_000_000, Some(4)));
        assert!(!found.is_larval() && association(&sa(&[])).unwrap().is_larval());
        let (name, bits, key) = found.aead.as_ref().unwrap();
        assert_eq!((name.as_str(), *bits, &key.0[..]), ("rfc4106(gcm(aes))", 128, &[7; 20][..]));
        assert!(!format!("{found:?}").contains("7, 7"));

        let body = sa(&[
            attribute(XFRMA_ALG_AUTH_TRUNC, &named("hmac(sha256)", &[256, 128], &[8; 32])),
            attribute(XFRMA_ALG_AUTH, &named("hmac(sha256)", &[256], &[8; 32])),
            attribute(XFRMA_ALG_CRYPT, &named("cbc(aes)", &[128], &[9; 16])),
        ]);
        let found = association(&body).unwrap();
        assert_eq!(found.integrity.unwrap().1, 128);
        assert_eq!(found.cipher.unwrap().1, Key(Zeroizing::new(vec![9; 16])));
        // A key longer than its attribute.
        let body = sa(&[attribute(XFRMA_ALG_CRYPT, &named("cbc(aes)", &[256], &[9; 16]))]);
        assert_eq!(association(&body), None);
    }

    #[test]
    fn policies_of_interfaces_marks_and_sockets_are_known() {
        let body = |direction: u8, attributes: &[Vec<u8>]| {
            let mut body = vec![0; USERPOLICY_INFO];
            body[40..42].copy_from_slice(&AF_INET.to_ne_bytes());
            body[160] = direction;
            attributes.iter().for_each(|attribute| body.extend(attribute));
            body
        };
        let mark =
            |mask: u32| attribute(XFRMA_MARK, &[7_u32.to_ne_bytes(), mask.to_ne_bytes()].concat());
        let bound = |attributes: &[Vec<u8>]| policy(&body(1, attributes)).unwrap().bound;
        assert!(!bound(&[]) && !bound(&[mark(0)]));
        assert!(bound(&[mark(0xff)]) && bound(&[attribute(XFRMA_IF_ID, &[1, 0, 0, 0])]));
        // A security context, and attributes that are newer than Wattline.
        for kind in [8, 40, 63] {
            assert!(bound(&[attribute(kind, &[0; 8])]), "attribute {kind}");
        }
        assert!(is_of_socket(&body(4, &[])) && !is_of_socket(&body(2, &[])));
        assert!(!is_of_socket(&[]));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(
            mut bytes in prop::collection::vec(any::<u8>(), 0..600),
            six: bool,
        ) {
            let _ = (association(&bytes), policy(&bytes));
            let family = if six { AF_INET6 } else { AF_INET };
            for at in [40, 212] {
                if let Some(field) = bytes.get_mut(at..at + 2) {
                    field.copy_from_slice(&family.to_ne_bytes());
                }
            }
            let _ = (association(&bytes), policy(&bytes));
        }
    }
}

//! Rules of policy routing (include/uapi/linux/fib_rules.h).

use super::super::frame::attributes;
use super::super::value::{number, text};
use super::dump::dump;
use ipnet::IpNet;
use netlink_sys::protocols::NETLINK_ROUTE;
use std::fmt::Write;
use std::io;
use std::net::IpAddr;

const RTM_GETRULE: u16 = 34;
/// Length of `struct fib_rule_hdr`.
const HEADER: usize = 12;
const FIB_RULE_INVERT: u32 = 2;
/// Flags without effect on the decision: permanent, inverted, unresolved, detached from either
/// interface.
const KNOWN_FLAGS: u32 = 0x1f;
const FR_ACT_TO_TBL: u8 = 1;
const TABLES: [(u32, &str); 3] = [(255, "local"), (254, "main"), (253, "default")];

/// A rule that is not one of every machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// True for IPv6, false for IPv4.
    pub ipv6: bool,
    /// Ingress interface to which the rule applies; `None` for all.
    pub input: Option<String>,
    /// Source and destination prefix to which the rule applies; `None` for all, and for an inverted
    /// prefix.
    pub source: Option<IpNet>,
    /// See [`Self::source`].
    pub destination: Option<IpNet>,
    /// The rule, roughly as `ip rule` prints it.
    pub text: String,
}

/// Returns the rules of both families that forwarded packets may meet.
///
/// # Errors
/// Only from the kernel.
pub(super) fn read() -> io::Result<Vec<Rule>> {
    let mut rules = Vec::new();
    for family in [libc::AF_INET as u8, libc::AF_INET6 as u8] {
        let ipv6 = family == libc::AF_INET6 as u8;
        let mut lookups = Vec::new();
        let mut body = [0; HEADER];
        body[0] = family;
        dump(NETLINK_ROUTE, RTM_GETRULE, &body, |answer| {
            // A kernel without IPv6 rules answers for all families.
            if answer.first() != Some(&family) {
                return;
            }
            let unreadable = || {
                let text = "a rule that Wattline cannot read".to_owned();
                Read::Rule(Rule { ipv6, input: None, source: None, destination: None, text })
            };
            match read_one(answer).unwrap_or_else(unreadable) {
                Read::Lookup { priority, table } => lookups.push((priority, table)),
                Read::Rule(rule) => rules.push(rule),
                Read::Elsewhere => {}
            }
        })?;
        if let Some(text) = another_order(lookups, ipv6) {
            rules.push(Rule { ipv6, input: None, source: None, destination: None, text });
        }
    }
    Ok(rules)
}

/// Describes the order in which all packets look up tables, unless it is that of every machine. A
/// family without rules has none.
fn another_order(mut lookups: Vec<(u32, u32)>, ipv6: bool) -> Option<String> {
    lookups.sort_unstable();
    let mut order: Vec<u32> = Vec::new();
    for (_, table) in &lookups {
        if !order.contains(table) {
            order.push(*table);
        }
    }
    let expected: Vec<u32> = TABLES.iter().map(|(table, _)| *table).collect();
    // IPv6 has no table default of its own.
    let usual = order == expected || ipv6 && order == expected[..2];
    let name = |table: &u32| TABLES.iter().find(|(it, _)| it == table).map_or("", |(_, it)| *it);
    let names: Vec<&str> = order.iter().map(name).collect();
    (!lookups.is_empty() && !usual).then(|| {
        format!("lookups of the tables in the order {}, not local, main, default", names.join(", "))
    })
}

enum Read {
    /// All packets look up a table that every machine has.
    Lookup {
        priority: u32,
        table: u32,
    },
    /// The rule does not affect forwarded packets, or is one of every machine.
    Elsewhere,
    Rule(Rule),
}

fn read_one(body: &[u8]) -> Option<Read> {
    let header: [u8; HEADER] = *body.first_chunk()?;
    let [family, destination_length, source_length, tos, table, _, _, action, ..] = header;
    let ipv6 = family == libc::AF_INET6 as u8;
    let flags = number(&header[8..])?;
    let mut table = u32::from(table);
    let (mut priority, mut input) = (0, None);
    let zero = |length: u8| prefix(if ipv6 { &[0; 16] } else { &[0; 4] }, length);
    let mut source = if source_length > 0 { Some(zero(source_length)?) } else { None };
    let mut destination =
        if destination_length > 0 { Some(zero(destination_length)?) } else { None };
    let mut other = String::new();
    let inverted = flags & FIB_RULE_INVERT != 0;
    // A selector that no forwarded packet meets.
    let mut is_elsewhere = false;
    if flags & !KNOWN_FLAGS != 0 {
        let _ = write!(other, " flags {:#x}", flags & !KNOWN_FLAGS);
    }
    if tos != 0 {
        let _ = write!(other, " tos {tos:#x}");
    }
    for (kind, content) in attributes(body.get(HEADER..)?) {
        match kind {
            1 => destination = Some(prefix(content, destination_length)?),
            2 => source = Some(prefix(content, source_length)?),
            3 => input = Some(text(content)),
            6 => priority = number(content)?,
            10 => drop(write!(other, " fwmark {:#x}", number(content)?)),
            12 => other += " tun_id",
            // 0xffffffff is none.
            13 | 14 if number(content)? != u32::MAX => {
                let what = if kind == 13 { "suppress_ifgroup" } else { "suppress_prefixlength" };
                let _ = write!(other, " {what} {}", number(content)?);
            }
            15 => table = number(content)?,
            16 if number(content)? != u32::MAX => {
                let _ = write!(other, " fwmask {:#x}", number(content)?);
            }
            // Forwarded packets are looked up without an egress interface; packets of a VRF are
            // recognised by their interface.
            17 => is_elsewhere = true,
            19 => is_elsewhere |= content.first() != Some(&0),
            // Forwarded packets are looked up as user 0.
            20 => {
                let (first, last) = (number(content)?, number(content.get(4..)?)?);
                is_elsewhere |= first > 0;
                let _ = write!(other, " uidrange {first}-{last}");
            }
            22 => drop(write!(other, " ipproto {}", content.first()?)),
            23 => other += " sport",
            24 => other += " dport",
            25 => drop(write!(other, " dscp {:#x}", content.first()?)),
            26 => other += " flowlabel",
            // Target of `goto`, realms, padding, the routing daemon that added it, masks of the
            // above.
            4 | 11 | 13 | 14 | 16 | 18 | 21 | 27..=30 => {}
            unknown => drop(write!(other, " attribute {unknown}")),
        }
    }
    // `iif lo` selects packets that this machine sends itself.
    is_elsewhere |= input.as_deref() == Some("lo");
    if is_elsewhere && !inverted {
        return Some(Read::Elsewhere);
    }
    let plain = source.is_none() && destination.is_none() && input.is_none();
    let plain = plain && other.is_empty() && !inverted;
    if plain && action == FR_ACT_TO_TBL && TABLES.iter().any(|(number, _)| *number == table) {
        return Some(Read::Lookup { priority, table });
    }
    let mut text = format!("{priority}:{}", if inverted { " not" } else { "" });
    let from = source.map_or_else(|| "all".to_owned(), |prefix| prefix.to_string());
    let _ = write!(text, " from {from}");
    if let Some(destination) = destination {
        let _ = write!(text, " to {destination}");
    }
    if let Some(input) = &input {
        let _ = write!(text, " iif {input}");
    }
    text += &other;
    let name = TABLES.iter().find(|(number, _)| *number == table).map(|(_, name)| *name);
    let _ = match action {
        FR_ACT_TO_TBL => match name {
            Some(name) => write!(text, " lookup {name}"),
            None => write!(text, " lookup {table}"),
        },
        2 => write!(text, " goto"),
        3 => write!(text, " nop"),
        6 => write!(text, " blackhole"),
        7 => write!(text, " unreachable"),
        8 => write!(text, " prohibit"),
        other => write!(text, " action {other}"),
    };
    // An inverted rule matches all packets that do not arrive there.
    let input = input.filter(|_| !inverted);
    let (source, destination) = (source.filter(|_| !inverted), destination.filter(|_| !inverted));
    Some(Read::Rule(Rule { ipv6, input, source, destination, text }))
}

fn prefix(content: &[u8], length: u8) -> Option<IpNet> {
    let address = match content.len() {
        4 => IpAddr::from(*content.first_chunk::<4>()?),
        16 => IpAddr::from(*content.first_chunk::<16>()?),
        _ => return None,
    };
    Some(IpNet::new(address, length).ok()?.trunc())
}

#[cfg(test)]
mod tests {
    use super::super::super::frame::attribute_bytes as attribute;
    use super::{FIB_RULE_INVERT, HEADER, Read, another_order, read_one};

    /// Reads the rule in the place of the main one, with an additional flag and attribute.
    fn read(flags: u32, more: &[u8]) -> Read {
        let mut body = [0; HEADER];
        (body[0], body[4], body[7]) = (libc::AF_INET as u8, 254, 1);
        body[8..].copy_from_slice(&flags.to_ne_bytes());
        let priority = attribute(6, &32766_u32.to_ne_bytes());
        read_one(&[&body[..], &priority, more].concat()).unwrap()
    }

    #[test]
    fn attribute_or_flag_without_a_known_meaning_makes_another_rule() {
        assert!(matches!(read(0, &[]), Read::Lookup { priority: 32766, table: 254 }));
        let unknown = [5, 7, 8, 9, 31, 32, 40, 99];
        for kind in unknown {
            let Read::Rule(rule) = read(0, &attribute(kind, &[0; 4])) else { panic!("{kind}") };
            assert!(rule.text.contains(&format!("attribute {kind}")), "{}", rule.text);
        }
        for kind in [25, 26] {
            assert!(matches!(read(0, &attribute(kind, &[8, 0, 0, 0])), Read::Rule(_)), "{kind}");
        }
        assert!(matches!(read(0x40, &[]), Read::Rule(_)));
        for kind in [11, 18, 21] {
            assert!(matches!(read(0, &attribute(kind, &[0; 4])), Read::Lookup { .. }), "{kind}");
        }
    }

    #[test]
    fn inverted_rule_that_no_forwarded_packet_meets_concerns_all_of_them() {
        let users = |first: u32| attribute(20, &[first.to_ne_bytes(), [255; 4]].concat());
        let elsewhere =
            [attribute(17, b"a\0"), attribute(19, &[1]), attribute(3, b"lo\0"), users(1)];
        for selector in elsewhere {
            assert!(matches!(read(0, &selector), Read::Elsewhere));
            let Read::Rule(rule) = read(FIB_RULE_INVERT, &selector) else { panic!() };
            assert!(rule.text.contains("not") && rule.input.is_none(), "{}", rule.text);
        }
        assert!(matches!(read(0, &users(0)), Read::Rule(_)));
    }

    #[test]
    fn unusual_order_of_tables_is_reported() {
        let usual = vec![(0, 255), (32766, 254), (32767, 253)];
        // As in some network managers.
        let moved = vec![(32766, 254), (100, 255), (32767, 253), (40000, 255)];
        for (lookups, ipv6) in [(usual.clone(), false), (moved, false), (usual[..2].to_vec(), true)]
        {
            assert_eq!(another_order(lookups, ipv6), None);
        }
        assert_eq!(another_order(Vec::new(), true), None, "a kernel without IPv6");
        for (lookups, order) in [
            (vec![(0, 255), (100, 253), (32766, 254), (32767, 253)], "local, default, main"),
            (vec![(40000, 255), (32766, 254), (32767, 253)], "main, default, local"),
            (vec![(0, 255), (32767, 253)], "local, default"),
            (vec![(0, 255), (32766, 254)], "local, main"),
        ] {
            let message = another_order(lookups, false).unwrap();
            assert!(message.contains(&format!("order {order}, not")), "{message}");
        }
    }
}

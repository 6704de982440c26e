//! Shaping and filters on interfaces (`tc`; include/uapi/linux/rtnetlink.h: struct tcmsg).

use super::super::frame::attributes;
use super::super::value::{number, text};
use super::dump::dump;
use netlink_sys::protocols::NETLINK_ROUTE;
use std::io;

const RTM_GETQDISC: u16 = 38;
const RTM_GETTFILTER: u16 = 46;
/// Length of `struct tcmsg`.
const HEADER: usize = 20;
const ROOT: u32 = 0xffff_ffff;
/// Handle of `ingress` and `clsact`, and the parents of the latter's filters.
const INGRESS: u32 = 0xffff_0000;
const CLSACT: [u32; 2] = [0xffff_fff2, 0xffff_fff3];
const TCA_KIND: u16 = 1;
const TCA_OPTIONS: u16 = 2;

/// Queueing discipline or filters of one interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Queueing {
    /// Index of the interface.
    pub link: u32,
    /// Kind of queueing.
    pub kind: QueueingKind,
}

/// Kind of queueing that transit packets meet there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QueueingKind {
    /// Filters at ingress, at egress, or of a discipline.
    Filters,
    /// A queueing discipline of this name that shapes, reorders or drops packets, with the option
    /// that has the effect, if the name alone does not imply it.
    Discipline(String),
}

/// Reads all disciplines and filters.
///
/// # Errors
/// Only from the kernel.
pub(super) fn read() -> io::Result<Vec<Queueing>> {
    let mut found = Vec::new();
    let mut with_filters: Vec<(u32, u32)> = Vec::new();
    dump(NETLINK_ROUTE, RTM_GETQDISC, &[0; HEADER], |answer| {
        let Some(Discipline { link, handle, parent, name, options }) = read_one(answer) else {
            return;
        };
        match name.as_str() {
            "clsact" => with_filters.extend(CLSACT.map(|parent| (link, parent))),
            "ingress" => with_filters.push((link, INGRESS)),
            name => match beyond_plain(name, options) {
                Some(text) => {
                    found.push(Queueing { link, kind: QueueingKind::Discipline(text) });
                }
                // A discipline without a handle has no filters, unless it is the root.
                None if handle != 0 || parent == ROOT => with_filters.push((link, handle)),
                None => {}
            },
        }
    })?;
    for (link, parent) in with_filters {
        let mut body = [0; HEADER];
        body[4..8].copy_from_slice(&link.to_ne_bytes());
        body[12..16].copy_from_slice(&parent.to_ne_bytes());
        let mut filters = 0;
        dump(NETLINK_ROUTE, RTM_GETTFILTER, &body, |_| filters += 1)?;
        let filtered = Queueing { link, kind: QueueingKind::Filters };
        if filters > 0 && !found.contains(&filtered) {
            found.push(filtered);
        }
    }
    Ok(found)
}

/// A discipline, at the root or below another.
struct Discipline<'a> {
    link: u32,
    handle: u32,
    parent: u32,
    name: String,
    options: &'a [u8],
}

fn read_one(body: &[u8]) -> Option<Discipline<'_>> {
    let at = |place: usize| number(body.get(place..)?);
    let (mut name, mut options) = (String::new(), &[][..]);
    for (kind, content) in attributes(body.get(HEADER..)?) {
        match kind {
            TCA_KIND => name = text(content),
            TCA_OPTIONS => options = content,
            _ => {}
        }
    }
    Some(Discipline { link: at(4)?, handle: at(8)?, parent: at(12)?, name, options })
}

/// A limit in bytes that any packet meets, including the kernel's overhead.
const LEAST_BYTES: u32 = 128 << 10;

/// Names a discipline that does more than queue packets in order, or fairly.
fn beyond_plain(name: &str, options: &[u8]) -> Option<String> {
    let word = |place: usize| options.get(place..).and_then(number);
    let why = match name {
        "noqueue" | "noop" | "pfifo_fast" | "mq" => None,
        "pfifo" => (word(0) == Some(0)).then(|| "limit 0".to_owned()),
        "bfifo" => {
            word(0).filter(|&bytes| bytes < LEAST_BYTES).map(|bytes| format!("limit {bytes}"))
        }
        // TC_SFQ_OPT_V1: limits of random early detection.
        "sfq" => {
            let reds = [28, 32].map(|at| word(at).unwrap_or(0));
            (reds != [0; 2]).then(|| "redflowlimit".to_owned())
        }
        "fq" => options_of(options, |kind, value| match kind {
            1 | 2 if value == 0 => Some("limit 0"),
            7 if value != u32::MAX => Some("maxrate"),
            12 if value != u32::MAX => Some("ce_threshold"),
            // Rates are those of sockets, which forwarded packets do not have; the rest is order.
            1..=18 => None,
            _ => Some("an unknown option"),
        }),
        "fq_codel" => options_of(options, |kind, value| match kind {
            2 if value == 0 => Some("limit 0"),
            9 if value < LEAST_BYTES => Some("memory_limit below a packet"),
            7 => Some("ce_threshold"),
            1..=11 => None,
            _ => Some("an unknown option"),
        }),
        _ => return Some(name.to_owned()),
    };
    why.map(|why| format!("{name} with {why}"))
}

fn options_of(options: &[u8], judge: impl Fn(u16, u32) -> Option<&'static str>) -> Option<String> {
    let judge = |(kind, content): (u16, &[u8])| judge(kind, number(content).unwrap_or(u32::MAX));
    attributes(options).find_map(judge).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::super::super::frame::attribute_bytes as attribute;
    use super::*;

    #[test]
    fn option_that_decides_about_packets_is_named() {
        let word = |kind: u16, value: u32| attribute(kind, &value.to_ne_bytes());
        let plain = [
            ("mq", vec![]),
            ("pfifo", 1000_u32.to_ne_bytes().to_vec()),
            ("bfifo", 1_500_000_u32.to_ne_bytes().to_vec()),
            ("sfq", vec![1; 20]),
            ("fq", [word(1, 10_000), word(7, u32::MAX)].concat()),
            ("fq_codel", [word(2, 10_240), word(9, 32 << 20)].concat()),
        ];
        for (name, options) in plain {
            assert_eq!(beyond_plain(name, &options), None, "{name}");
        }
        let others = [
            ("tbf", vec![], "tbf"),
            ("mqprio", vec![], "mqprio"),
            ("pfifo", vec![0; 4], "pfifo with limit 0"),
            ("bfifo", 10_u32.to_ne_bytes().to_vec(), "bfifo with limit 10"),
            ("sfq", vec![1; 40], "sfq with redflowlimit"),
            ("fq", word(7, 125_000), "fq with maxrate"),
            ("fq", word(1, 0), "fq with limit 0"),
            ("fq", word(99, 0), "fq with an unknown option"),
            ("fq_codel", word(2, 0), "fq_codel with limit 0"),
            ("fq_codel", word(9, 100), "fq_codel with memory_limit below a packet"),
            ("fq_codel", word(7, 5), "fq_codel with ce_threshold"),
            ("fq_codel", word(40, 5), "fq_codel with an unknown option"),
        ];
        for (name, options, expected) in others {
            assert_eq!(beyond_plain(name, &options).as_deref(), Some(expected));
        }
    }
}

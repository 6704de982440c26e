//! Shaping and filters on interfaces (`tc`; include/uapi/linux/rtnetlink.h: struct tcmsg).
//!
//! BPF programs that are attached by a link (tcx) are not in these lists, and so not seen.

use super::super::frame::attributes;
use super::super::value::text;
use super::dump::dump;
use netlink_sys::protocols::NETLINK_ROUTE;
use std::io;

const RTM_GETQDISC: u16 = 38;
const RTM_GETTFILTER: u16 = 46;
/// Length of `struct tcmsg`.
const HEADER: usize = 20;
const ROOT: u32 = 0xffff_ffff;
/// Handle of `ingress` and `clsact`, and where the latter has its filters.
const INGRESS: u32 = 0xffff_0000;
const CLSACT: [u32; 2] = [0xffff_fff2, 0xffff_fff3];
/// Disciplines that do no more than keep packets in order, fairly at most.
const PLAIN: [&str; 9] =
    ["noqueue", "noop", "pfifo", "bfifo", "pfifo_fast", "mq", "fq", "fq_codel", "sfq"];

/// Something on one interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Queueing {
    /// The interface's number.
    pub link: u32,
    /// Kind of queueing.
    pub kind: QueueingKind,
}

/// Kind of queueing that transit packets meet there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QueueingKind {
    /// Filters on what comes in or, with `clsact`, goes out.
    Filters,
    /// A queueing discipline of this name that shapes, orders or drops what goes out.
    Discipline(String),
}

/// All of them.
///
/// # Errors
/// Only from the kernel.
pub(super) fn read() -> io::Result<Vec<Queueing>> {
    let mut found = Vec::new();
    let mut with_filters: Vec<(u32, Vec<u32>)> = Vec::new();
    dump(NETLINK_ROUTE, RTM_GETQDISC, &[0; HEADER], |answer| {
        let Some((link, parent, name)) = read_one(answer) else { return };
        match name.as_str() {
            "clsact" => with_filters.push((link, CLSACT.to_vec())),
            "ingress" => with_filters.push((link, vec![INGRESS])),
            name if parent == ROOT && !PLAIN.contains(&name) => {
                let kind = QueueingKind::Discipline(name.to_owned());
                found.push(Queueing { link, kind });
            }
            _ => {}
        }
    })?;
    for (link, parents) in with_filters {
        let mut filters = 0;
        for parent in parents {
            let mut body = [0; HEADER];
            body[4..8].copy_from_slice(&link.to_ne_bytes());
            body[12..16].copy_from_slice(&parent.to_ne_bytes());
            dump(NETLINK_ROUTE, RTM_GETTFILTER, &body, |_| filters += 1)?;
        }
        if filters > 0 {
            found.push(Queueing { link, kind: QueueingKind::Filters });
        }
    }
    Ok(found)
}

/// The link, the parent and the name.
fn read_one(body: &[u8]) -> Option<(u32, u32, String)> {
    let at = |place: usize| Some(u32::from_ne_bytes(*body.get(place..)?.first_chunk()?));
    let name = attributes(body.get(HEADER..)?).find(|(kind, _)| *kind == 1)?.1;
    Some((at(4)?, at(12)?, text(name)))
}

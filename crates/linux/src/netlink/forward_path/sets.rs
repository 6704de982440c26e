//! Sets and maps of nftables (include/uapi/linux/netfilter/nf_tables.h) with contents that only the
//! ruleset determines: none with timeouts, counters or limits, and none to which packets add.

use super::super::frame::{attribute, attributes};
use super::super::value::{number_of_wire, text};
use super::dump::RulesetDumps;
use std::collections::HashMap;
use std::io;

/// NFNL_SUBSYS_NFTABLES with NFT_MSG_GETSET and NFT_MSG_GETSETELEM.
const GET_SET: u16 = 10 << 8 | 10;
const GET_ELEMENTS: u16 = 10 << 8 | 13;
/// Length of `struct nfgenmsg`.
const HEADER: usize = 4;

// Flags of sets. NFT_SET_ANONYMOUS and NFT_SET_CONSTANT are without meaning here.
const INTERVAL: u32 = 4;
const CONCATENATION: u32 = 0x80;
const UNDERSTOOD: u32 = 1 | 2 | INTERVAL | 8 | CONCATENATION;
/// Type of the data of a verdict map.
const VERDICT: u32 = 0xffff_ff00;
/// NFT_SET_ELEM_INTERVAL_END.
const INTERVAL_END: u32 = 1;
/// Largest set that is read: a port has no room for so many prefixes.
const MOST_ELEMENTS: usize = 4096;

/// A set by the family of its table, table and name.
pub(super) type SetName = (u8, String, String);

/// Sets that are understood.
#[derive(Default)]
pub(super) struct Sets(HashMap<SetName, Set>);

/// A set.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Set {
    /// Length of its keys in bytes; 0 if they have several fields, or cannot be addresses or
    /// interfaces.
    pub key_length: usize,
    /// Elements, if the keys have a length or it is a verdict map.
    pub elements: Vec<Element>,
}

/// Keys of a set, and the verdict for them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Element {
    pub first: u128,
    pub last: u128,
    pub verdict: Option<Verdict>,
}

/// A verdict about a packet.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Verdict {
    Accept,
    /// The next rule decides.
    Continue,
    Return,
    Drop,
    /// A chain decides. Afterwards the next rule decides if it returns.
    Jump(String),
}

impl Verdict {
    /// Reads an attribute of kind NFTA_DATA_VERDICT.
    pub fn read(data: &[u8]) -> Option<Self> {
        match attribute(data, 1).and_then(number_of_wire)?.cast_signed() {
            0 => Some(Self::Drop),
            1 => Some(Self::Accept),
            // NFT_CONTINUE, NFT_BREAK, NFT_RETURN, NFT_JUMP, NFT_GOTO.
            -1 | -2 => Some(Self::Continue),
            -5 => Some(Self::Return),
            -3 | -4 => attribute(data, 2).map(|chain| Self::Jump(text(chain))),
            _ => None,
        }
    }
}

impl Sets {
    /// Reads all sets.
    ///
    /// # Errors
    /// Only from the kernel.
    pub fn read(dumps: &mut RulesetDumps) -> io::Result<Self> {
        let mut found = Vec::new();
        dumps.dump(GET_SET, 0, &[], |answer| {
            found.extend(read_one(answer));
            true
        })?;
        let mut sets = HashMap::new();
        for (name, kind) in found {
            // A set that is gone by now counts as not understood.
            if let Ok(Some(set)) = read_elements(dumps, &name, &kind) {
                sets.insert(name, set);
            }
        }
        Ok(Self(sets))
    }

    /// Returns a set, if it is understood.
    pub fn get(&self, name: &SetName) -> Option<&Set> {
        self.0.get(name)
    }

    /// Forgets a set that packets change.
    pub fn forget(&mut self, name: &SetName) {
        self.0.remove(name);
    }
}

/// Properties of a set.
struct Kind {
    key_length: usize,
    is_interval: bool,
    has_verdicts: bool,
}

fn read_one(body: &[u8]) -> Option<(SetName, Kind)> {
    let (mut table, mut name) = (String::new(), String::new());
    let (mut flags, mut length, mut data) = (0, 0, None);
    for (kind, content) in attributes(body.get(HEADER..)?) {
        match kind {
            1 => table = text(content),
            2 => name = text(content),
            3 => flags = number_of_wire(content)?,
            5 => length = number_of_wire(content)? as usize,
            6 => data = number_of_wire(content),
            // A timeout, a type of objects, expressions for each element.
            11 | 15 | 17 | 18 => return None,
            _ => {}
        }
    }
    let is_one_field = flags & CONCATENATION == 0 && matches!(length, 4 | 16);
    let kind = Kind {
        key_length: if is_one_field { length } else { 0 },
        is_interval: flags & (INTERVAL | CONCATENATION) == INTERVAL,
        has_verdicts: data == Some(VERDICT),
    };
    (flags & !UNDERSTOOD == 0).then_some(((*body.first()?, table, name), kind))
}

fn read_elements(
    dumps: &mut RulesetDumps,
    (family, table, name): &SetName,
    kind: &Kind,
) -> io::Result<Option<Set>> {
    let mut entries = Some(Vec::new());
    if kind.key_length > 0 || kind.has_verdicts {
        dumps.dump(GET_ELEMENTS, *family, &[(1, table), (2, name)], |answer| {
            let lists = attributes(answer.get(HEADER..).unwrap_or_default());
            let elements = lists.filter(|(kind, _)| *kind == 3).flat_map(|(_, it)| attributes(it));
            let read: Option<Vec<Entry>> =
                elements.map(|(_, element)| read_element(element, kind)).collect();
            entries = entries.take().zip(read).map(|(known, more)| [known, more].concat());
            entries.as_ref().is_some_and(|known| known.len() <= MOST_ELEMENTS)
        })?;
    }
    let entries = entries.filter(|known| known.len() <= MOST_ELEMENTS);
    let set = |entries| Set { key_length: kind.key_length, elements: elements(entries, kind) };
    Ok(entries.map(set))
}

/// An element as the kernel lists it.
#[derive(Debug, Clone)]
struct Entry {
    key: u128,
    is_end: bool,
    verdict: Option<Verdict>,
}

fn read_element(element: &[u8], kind: &Kind) -> Option<Entry> {
    let (mut bytes, mut flags, mut verdict) = (None, 0, None);
    for (number, content) in attributes(element) {
        match number {
            1 => bytes = attribute(content, 1),
            2 => verdict = attribute(content, 2).and_then(Verdict::read),
            3 => flags = number_of_wire(content)?,
            // User data, padding, and the end of a range of several fields.
            6 | 8 | 10 => {}
            _ => return None,
        }
    }
    let is_end = flags == INTERVAL_END && kind.is_interval;
    // A default for all other keys (NFT_SET_ELEM_CATCHALL), or an unknown verdict.
    if flags != 0 && !is_end || kind.has_verdicts && !is_end && verdict.is_none() {
        return None;
    }
    let bytes = bytes.filter(|bytes| kind.key_length == 0 || bytes.len() == kind.key_length)?;
    Some(Entry { key: key(bytes), is_end, verdict })
}

/// Returns a key, or its last sixteen bytes, as a number.
pub(super) fn key(bytes: &[u8]) -> u128 {
    bytes.iter().fold(0, |known, byte| known << 8 | u128::from(*byte))
}

/// Makes intervals from their beginnings and ends. A key belongs to the last beginning at or below
/// it, unless an end is in between.
fn elements(mut entries: Vec<Entry>, kind: &Kind) -> Vec<Element> {
    if !kind.is_interval || kind.key_length == 0 {
        let of = |it: Entry| Element { first: it.key, last: it.key, verdict: it.verdict };
        return entries.into_iter().map(of).collect();
    }
    entries.sort_by_key(|it| (it.key, !it.is_end));
    let most = u128::MAX >> (128 - 8 * kind.key_length as u32);
    let ends = entries.iter().skip(1).map(|it| it.key.checked_sub(1)).chain([Some(most)]);
    let ends: Vec<Option<u128>> = ends.collect();
    let intervals = entries.into_iter().zip(ends).filter_map(|(entry, last)| {
        let (first, last) = (entry.key, last?);
        (!entry.is_end && first <= last).then_some(Element { first, last, verdict: entry.verdict })
    });
    intervals.collect()
}

#[cfg(test)]
mod tests {
    use super::super::super::frame::attribute_bytes as attribute;
    use super::*;
    use proptest::prelude::*;

    const ADDRESSES: Kind = Kind { key_length: 4, is_interval: true, has_verdicts: false };

    fn set(parts: &[(u16, u32)]) -> Option<(SetName, Kind)> {
        let parts: Vec<u8> =
            parts.iter().flat_map(|(kind, value)| attribute(*kind, &value.to_be_bytes())).collect();
        read_one(
            &[&[1, 0, 0, 0][..], &attribute(1, b"t\0"), &attribute(2, b"s\0"), &parts].concat(),
        )
    }

    #[test]
    fn only_sets_that_the_ruleset_alone_decides_about_are_understood() {
        let kind = |flags| set(&[(3, flags), (5, 4)]).map(|(_, kind)| kind);
        assert!(kind(1 | 2 | 4).is_some_and(|it| it.key_length == 4 && it.is_interval));
        assert!(kind(0).is_some_and(|it| !it.is_interval));
        assert!(kind(0x80).is_some_and(|it| it.key_length == 0), "several fields");
        // Timeouts, sets to which packets add, objects, expressions, and unknown flags.
        for flags in [0x10, 0x20, 0x40, 0x100, 0x200] {
            assert!(kind(flags).is_none(), "{flags:#x}");
        }
        for attribute in [11, 15, 17, 18] {
            assert!(set(&[(3, 0), (5, 4), (attribute, 0)]).is_none(), "{attribute}");
        }
    }

    #[test]
    fn intervals_end_before_the_next_beginning_or_never() {
        let entry = |(key, is_end)| Entry { key, is_end, verdict: None };
        let of = |entries: &[(u128, bool)]| -> Vec<(u128, u128)> {
            let found = elements(entries.iter().copied().map(entry).collect(), &ADDRESSES);
            found.into_iter().map(|it| (it.first, it.last)).collect()
        };
        let most = u128::from(u32::MAX);
        assert_eq!(of(&[]), []);
        assert_eq!(of(&[(20, true), (10, false), (0, true)]), [(10, 19)]);
        assert_eq!(of(&[(10, false), (20, true), (20, false)]), [(10, 19), (20, most)]);
        assert_eq!(of(&[(0, false)]), [(0, most)]);
        assert_eq!(of(&[(10, false), (20, false), (30, true)]), [(10, 19), (20, 29)]);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read(bytes in prop::collection::vec(any::<u8>(), 0..256)) {
            let _ = read_one(&bytes);
            let _ = read_element(&bytes, &ADDRESSES);
            let _ = Verdict::read(&bytes);
        }
    }
}

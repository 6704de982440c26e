//! Where the running kernel keeps the fields of its structures (BTF).
//!
//! Only what a tracing program needs to follow a pointer is read: members of named structures.
//! Source: Documentation/bpf/btf.rst.

use std::collections::HashMap;
use std::io;
use std::ops::Range;

/// What the kernel tells of its own types.
const OF_THE_KERNEL: &str = "/sys/kernel/btf/vmlinux";
const MAGIC: u16 = 0xeb9f;
/// Bytes of `struct btf_type`, before what its kind adds.
const TYPE: usize = 12;
/// Bytes of `struct btf_member`: name, type, offset.
const MEMBER: usize = 12;
const KIND_STRUCT: u32 = 4;

/// The types of a kernel.
#[derive(Debug)]
pub struct Btf {
    bytes: Vec<u8>,
    strings: Range<usize>,
    /// Structures by name: where their members are, and how many.
    structures: HashMap<Vec<u8>, (usize, usize)>,
}

impl Btf {
    /// Those of the running kernel.
    ///
    /// # Errors
    /// Where the kernel was built without (CONFIG_DEBUG_INFO_BTF), or tells what is no BTF.
    pub fn of_kernel() -> io::Result<Self> {
        let unreadable = || {
            let text = format!("{OF_THE_KERNEL} cannot be understood");
            io::Error::new(io::ErrorKind::InvalidData, text)
        };
        Self::parse(std::fs::read(OF_THE_KERNEL)?).ok_or_else(unreadable)
    }

    /// Reads the types; `None` where they do not hang together.
    fn parse(bytes: Vec<u8>) -> Option<Self> {
        // `struct btf_header`: magic, version, flags, length; offsets and lengths of the types and
        // of the strings, counted from the header's end.
        if u16::from_ne_bytes(*bytes.first_chunk()?) != MAGIC {
            return None;
        }
        let word = |at: usize| Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?));
        let header = word(4)? as usize;
        let section = |at: usize| {
            let start = header.checked_add(word(at)? as usize)?;
            let end = start.checked_add(word(at + 4)? as usize)?;
            (end <= bytes.len()).then_some(start..end)
        };
        let (types, strings) = (section(8)?, section(16)?);
        let mut structures = HashMap::new();
        let mut at = types.start;
        while at < types.end {
            let (name, info) = (word(at)?, word(at + 4)?);
            let (kind, count) = (info >> 24 & 0x1f, (info & 0xffff) as usize);
            let behind = match kind {
                // Pointer, forward declaration, names and qualifiers, function, float, tag.
                2 | 7..=12 | 16 | 18 => 0,
                // Integer, variable, tag of a declaration.
                1 | 14 | 17 => 4,
                3 => 12,
                KIND_STRUCT | 5 => count * MEMBER,
                // Enumeration, prototype.
                6 | 13 => count * 8,
                // Section, wide enumeration.
                15 | 19 => count * 12,
                _ => return None,
            };
            if kind == KIND_STRUCT
                && let Some(name) = text(&bytes, &strings, name)
                && !name.is_empty()
            {
                structures.insert(name.to_vec(), (at + TYPE, count));
            }
            at += TYPE + behind;
        }
        Some(Self { strings, structures, bytes })
    }

    /// How many bytes from the start of a structure this member is; `None` where there is no such
    /// structure or member, or it does not begin at a byte.
    pub fn offset(&self, structure: &str, member: &str) -> Option<i32> {
        let (start, count) = *self.structures.get(structure.as_bytes())?;
        let members = self.bytes.get(start..start + count * MEMBER)?;
        let found = members.as_chunks::<MEMBER>().0.iter().find(|entry| {
            let name = entry.first_chunk().map(|name| u32::from_ne_bytes(*name));
            name.and_then(|name| text(&self.bytes, &self.strings, name)) == Some(member.as_bytes())
        })?;
        // The upper eight bits are a bit field's size, where there is one.
        let bits = u32::from_ne_bytes(*found.last_chunk()?) & 0x00ff_ffff;
        bits.is_multiple_of(8).then_some(bits as i32 / 8)
    }
}

/// The string that begins at this place of the strings.
fn text<'a>(bytes: &'a [u8], strings: &Range<usize>, at: u32) -> Option<&'a [u8]> {
    let rest = bytes.get(strings.start.checked_add(at as usize)?..strings.end)?;
    rest.split(|byte| *byte == 0).next()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A structure `ab` with members `c` at bit 0 and `d` at bit 96, behind an integer.
    fn small() -> Vec<u8> {
        let words = |words: &[u32]| words.iter().flat_map(|w| w.to_ne_bytes()).collect::<Vec<_>>();
        let types = [
            words(&[0, 1 << 24, 4, 32]),
            words(&[1, 4 << 24 | 2, 16]),
            words(&[4, 1, 0, 6, 1, 96]),
        ]
        .concat();
        let mut bytes = MAGIC.to_ne_bytes().to_vec();
        bytes.extend([1, 0]);
        bytes.extend(words(&[24, 0, types.len() as u32, types.len() as u32, 8]));
        bytes.extend(types);
        bytes.extend(b"\0ab\0c\0d\0");
        bytes
    }

    #[test]
    fn members_are_found_by_name() {
        let btf = Btf::parse(small()).unwrap();
        assert_eq!(btf.offset("ab", "c"), Some(0));
        assert_eq!(btf.offset("ab", "d"), Some(12));
        assert_eq!(btf.offset("ab", "e"), None);
        assert_eq!(btf.offset("b", "c"), None);
    }

    #[test]
    fn the_running_kernel_knows_its_interfaces() {
        match Btf::of_kernel() {
            Ok(btf) => {
                assert!(btf.offset("net_device", "ifindex").is_some_and(|offset| offset > 0));
                assert_eq!(btf.offset("list_head", "next"), Some(0));
            }
            Err(error) => println!("skipped: {error}"),
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(
            at in 0..small().len(), byte: u8, cut in 0..=small().len(), other: Vec<u8>
        ) {
            let mut mutated = small();
            mutated[at] = byte;
            mutated.truncate(cut);
            for bytes in [mutated, other] {
                if let Some(btf) = Btf::parse(bytes) {
                    btf.offset("ab", "d");
                }
            }
        }
    }
}

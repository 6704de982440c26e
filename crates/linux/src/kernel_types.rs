//! Type information of the running kernel and of its modules (Documentation/bpf/btf.rst), for BPF
//! programs that call the kernel's functions or read its structures.

use std::path::Path;

/// Folder with the type information.
const FOLDER: &str = "/sys/kernel/btf";
const MAGIC: u16 = 0xeb9f;
/// Bytes of a type before the part that depends on its kind.
const TYPE_BYTES: usize = 12;
/// Bytes of a member of a structure.
const MEMBER_BYTES: usize = 12;
/// Deepest nesting of followed members without a name.
const DEEPEST: usize = 8;

// Kinds of types.
const STRUCT: u32 = 4;
const UNION: u32 = 5;
const FUNCTION: u32 = 12;

/// Types of the kernel, followed by those of one module.
#[derive(Debug, Default)]
pub struct KernelTypes {
    parts: Vec<Part>,
}

/// Types of one file.
#[derive(Debug)]
struct Part {
    types: Vec<u8>,
    texts: Vec<u8>,
    /// Place of each type.
    places: Vec<usize>,
    /// Numbers of types, and places of texts, of the parts before.
    types_before: usize,
    texts_before: usize,
}

/// A type as it is stored.
#[derive(Clone, Copy)]
struct Type<'a> {
    name: u32,
    kind: u32,
    /// True if offsets of members also hold sizes.
    has_sizes: bool,
    size: u32,
    members: &'a [u8],
}

impl KernelTypes {
    /// Reads the types of the kernel; `None` without type information, or if it is not understood.
    pub fn kernel() -> Option<Self> {
        let mut types = Self::default();
        types.add(&file("vmlinux")?)?;
        Some(types)
    }

    /// Reads the types of the kernel and of a module; also `None` if the module is not loaded.
    pub fn read(module: &str) -> Option<Self> {
        let of_module = file(module)?;
        let mut types = Self::kernel()?;
        types.add(&of_module)?;
        Some(types)
    }

    fn add(&mut self, bytes: &[u8]) -> Option<()> {
        let word = |at: usize| word(bytes, at).map(|word| word as usize);
        if bytes.first_chunk().map(|magic| u16::from_ne_bytes(*magic)) != Some(MAGIC) {
            return None;
        }
        let (length, types_at, types_length) = (word(4)?, word(8)?, word(12)?);
        let (texts_at, texts_length) = (word(16)?, word(20)?);
        let section = |at: usize, bytes_of: usize| {
            let start = length.checked_add(at)?;
            Some(bytes.get(start..start.checked_add(bytes_of)?)?.to_vec())
        };
        let (types, texts) = (section(types_at, types_length)?, section(texts_at, texts_length)?);
        let mut places = Vec::new();
        let mut place = 0;
        while place < types.len() {
            places.push(place);
            let info = self::word(&types, place + 4)?;
            place = place.checked_add(TYPE_BYTES + bytes_behind(info)?)?;
        }
        let before = self.parts.last();
        let types_before = before.map_or(0, |part| part.types_before + part.places.len());
        let texts_before = before.map_or(0, |part| part.texts_before + part.texts.len());
        self.parts.push(Part { types, texts, places, types_before, texts_before });
        Some(())
    }

    /// Returns the number of a function of the module, or of the kernel if no module was read.
    pub fn function(&self, name: &str) -> Option<u32> {
        let (part, number) = self.find(FUNCTION, name)?;
        (part + 1 == self.parts.len()).then_some(number)
    }

    /// Returns the size of a structure.
    pub fn size(&self, structure: &str) -> Option<u32> {
        let (_, number) = self.find(STRUCT, structure)?;
        Some(self.by_number(number)?.size)
    }

    /// Returns the offset in bits of a member of a structure, or of a nested member with a dot
    /// between the names. Members of members without a name count as the structure's own.
    pub fn member(&self, structure: &str, member: &str) -> Option<u32> {
        let (_, number) = self.find(STRUCT, structure)?;
        self.member_of(number, member, DEEPEST)
    }

    fn member_of(&self, number: u32, wanted: &str, deepest: usize) -> Option<u32> {
        let Type { kind, has_sizes, members, .. } = self.by_number(number)?;
        let (first, within) = wanted.split_once('.').unwrap_or((wanted, ""));
        if kind != STRUCT && kind != UNION || deepest == 0 {
            return None;
        }
        members.chunks_exact(MEMBER_BYTES).find_map(|member| {
            let (name, of, offset) = (word(member, 0)?, word(member, 4)?, word(member, 8)?);
            let offset = if has_sizes { offset & 0xff_ffff } else { offset };
            match name {
                0 => Some(offset + self.member_of(of, wanted, deepest - 1)?),
                _ if self.text(name)? != first.as_bytes() => None,
                _ if within.is_empty() => Some(offset),
                _ => Some(offset + self.member_of(of, within, deepest - 1)?),
            }
        })
    }

    /// Finds the last part with a type of this kind and name, and the number of the type.
    fn find(&self, kind: u32, name: &str) -> Option<(usize, u32)> {
        self.parts.iter().enumerate().rev().find_map(|(index, part)| {
            let is_it = |it: &Type<'_>| {
                it.kind == kind && self.text(it.name).is_some_and(|text| text == name.as_bytes())
            };
            let place = (0..part.places.len())
                .find(|place| part.get(*place).as_ref().is_some_and(is_it))?;
            // Number 0 is no type.
            Some((index, (part.types_before + place + 1) as u32))
        })
    }

    fn by_number(&self, number: u32) -> Option<Type<'_>> {
        let index = (number as usize).checked_sub(1)?;
        let part = self.parts.iter().rev().find(|part| part.types_before <= index)?;
        part.get(index - part.types_before)
    }

    fn text(&self, at: u32) -> Option<&[u8]> {
        let at = at as usize;
        let part = self.parts.iter().rev().find(|part| part.texts_before <= at)?;
        part.texts.get(at - part.texts_before..)?.split(|byte| *byte == 0).next()
    }
}

impl Part {
    fn get(&self, index: usize) -> Option<Type<'_>> {
        let place = *self.places.get(index)?;
        let (name, info) = (word(&self.types, place)?, word(&self.types, place + 4)?);
        let size = word(&self.types, place + 8)?;
        let start = place + TYPE_BYTES;
        let members = self.types.get(start..start + bytes_behind(info)?)?;
        Some(Type { name, kind: kind_of(info), has_sizes: info >> 31 != 0, size, members })
    }
}

fn file(name: &str) -> Option<Vec<u8>> {
    std::fs::read(Path::new(FOLDER).join(name)).ok()
}

fn kind_of(info: u32) -> u32 {
    info >> 24 & 0x1f
}

/// Returns the length of the data after a type; `None` for unknown kinds.
fn bytes_behind(info: u32) -> Option<usize> {
    let entries = (info & 0xffff) as usize;
    Some(match kind_of(info) {
        // Integers, variables and tags of declarations.
        1 | 14 | 17 => 4,
        // Arrays.
        3 => 12,
        STRUCT | UNION | 15 | 19 => entries * MEMBER_BYTES,
        // Enumerations and parameters of functions.
        6 | 13 => entries * 8,
        2 | 7..=12 | 16 | 18 => 0,
        _ => return None,
    })
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|word| u32::from_ne_bytes(*word))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes a file with these types and texts.
    fn file(types: &[u32], texts: &str) -> Vec<u8> {
        let length = types.len() as u32 * 4;
        let header = [u32::from(MAGIC) | 1 << 16, 24, 0, length, length, texts.len() as u32];
        let words = header.iter().chain(types);
        words.flat_map(|word| word.to_ne_bytes()).chain(texts.bytes()).collect()
    }

    fn info(kind: u32, entries: u32) -> u32 {
        kind << 24 | entries
    }

    #[test]
    fn types_of_module_follow_those_of_kernel() {
        // An integer, and a union without a name with a member `to`, whose text is at 3.
        let kernel = file(&[1, info(1, 0), 4, 32, 0, info(UNION, 1), 4, 3, 1, 0], "\0i\0to\0");
        // A structure `s` (7) with a bit field at bit 3, that union at bit 32 and again as `f` at
        // bit 64; a function `f` (9).
        let fields = info(STRUCT, 3) | 1 << 31;
        let module = [6, fields, 8, 1, 1, 2 << 24 | 3, 0, 2, 32, 8, 2, 64, 8, info(FUNCTION, 1), 0];
        let module = file(&module, "s\0f\0");
        let mut types = KernelTypes::default();
        types.add(&kernel).unwrap();
        types.add(&module).unwrap();
        assert_eq!(types.size("s"), Some(8));
        assert_eq!((types.member("s", "i"), types.member("s", "to")), (Some(3), Some(32)));
        assert_eq!((types.member("s", "from"), types.member("s", "f.to")), (None, Some(64)));
        assert_eq!(types.function("f"), Some(4));
        assert_eq!(types.function("s"), None);
    }

    #[test]
    fn file_that_is_cut_short_is_refused() {
        let whole = file(&[1, info(1, 0), 4, 32], "\0i\0");
        assert!(KernelTypes::default().add(&whole).is_some());
        for length in 0..whole.len() {
            assert!(KernelTypes::default().add(&whole[..length]).is_none(), "{length} bytes");
        }
    }

    #[test]
    fn structures_of_this_kernel_are_found() {
        let Some(types) = KernelTypes::kernel() else {
            return wattline_needs::machine("a kernel with type information");
        };
        assert!(types.size("net_device").is_some_and(|size| size > 100));
        assert!(types.member("rtable", "rt_gw4").is_some_and(|offset| offset > 0));
        assert!(types.function("vfs_read").is_some());
    }
}

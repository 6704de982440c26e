//! Compiled programs, and the insertion of maps and constants.
//!
//! An object file contains one program, the definitions of its maps, and the constants that are set
//! when it is loaded. `aya-obj` reads it and inserts numbers of maps and offsets of the kernel's
//! structures into the instructions. The caller passes maps by file descriptor, both its own and
//! those shared with other programs. Libraries that load whole programs share maps only through
//! files in the BPF file system, which would outlive the process.

use super::error::BpfError;
use super::kernel_function::KernelFunction;
use super::map::{Definition, Map, MapKind};
use super::program::{Code, Program, ProgramKind};
use aya_obj::btf::{Btf, BtfKind};
use aya_obj::generated::bpf_insn;
use aya_obj::{EbpfSectionKind, ProgramSection};
use rustix::fd::{AsFd, AsRawFd};
use rustix::io::Errno;
use std::collections::{HashMap, HashSet};
use std::fmt::Display;

/// Operation of a call, and the source register of calls of the kernel's functions.
const CALL: u8 = 0x85;
const PSEUDO_KERNEL_FUNCTION: u8 = 2;

/// Bytes of an object file, aligned so that its numbers can be read.
#[repr(align(8))]
pub(crate) struct Aligned<const N: usize>(pub(crate) [u8; N]);

/// Reads the object file of this name, which is part of this program.
macro_rules! object {
    ($name:literal) => {{
        const BYTES: &[u8] =
            include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/bpf/objects/", $name, ".bpf.o"));
        static ALIGNED: $crate::bpf::Aligned<{ BYTES.len() }> = {
            let mut aligned = $crate::bpf::Aligned([0; BYTES.len()]);
            aligned.0.copy_from_slice(BYTES);
            aligned
        };
        $crate::bpf::Object::read($name, &ALIGNED.0)
    }};
}
pub(crate) use object;

/// A program that is not loaded yet.
#[derive(Debug)]
pub struct Object {
    /// The name of its file, without the extension.
    name: &'static str,
    content: aya_obj::Object,
    /// The tracepoint whose argument types it uses.
    tracepoint: Option<&'static str>,
}

impl Object {
    /// Reads an object file, which is aligned to 8 bytes.
    ///
    /// # Errors
    /// [`BpfError::Unusable`] if it is invalid: a defect of Wattline.
    pub fn read(name: &'static str, bytes: &[u8]) -> Result<Self, BpfError> {
        let content =
            aya_obj::Object::parse(bytes).map_err(|error| unusable(name, "reading it", error))?;
        Ok(Self { name, content, tracepoint: None })
    }

    /// Sets constants of the program, by name, as bytes.
    ///
    /// # Errors
    /// [`BpfError::Unusable`] if it has no constant of this name and size.
    pub fn set(&mut self, constants: &[(&str, &[u8])]) -> Result<(), BpfError> {
        let globals = constants.iter().map(|(name, value)| (*name, (*value, true))).collect();
        let patched = self.content.patch_map_data(globals);
        patched.map_err(|error| unusable(self.name, "setting its constants", error))
    }

    /// Creates a map as defined by the program.
    ///
    /// # Errors
    /// See [`Map::create`]; [`BpfError::Unusable`] if the program has no such map.
    pub fn create(&self, map: &'static str) -> Result<Map, BpfError> {
        let wanted = self.content.maps.get(map);
        let wanted = wanted.ok_or_else(|| unusable(self.name, "creating its maps", map))?;
        self.create_as(map, wanted, wanted.max_entries())
    }

    /// Does the same with another number of entries than the program defines.
    ///
    /// # Errors
    /// As [`Self::create`]; E2BIG or ENOMEM if it is too large.
    pub fn create_with_entries(&self, map: &'static str, entries: u32) -> Result<Map, BpfError> {
        let wanted = self.content.maps.get(map);
        let wanted = wanted.ok_or_else(|| unusable(self.name, "creating its maps", map))?;
        self.create_as(map, wanted, entries)
    }

    fn create_as(&self, name: &str, wanted: &aya_obj::Map, entries: u32) -> Result<Map, BpfError> {
        let kind = MapKind::numbered(wanted.map_type())
            .ok_or_else(|| unusable(self.name, "creating its maps", wanted.map_type()))?;
        let definition = Definition {
            kind,
            key_size: wanted.key_size(),
            value_size: wanted.value_size(),
            entries,
            flags: wanted.map_flags(),
        };
        let inner = wanted.inner().map(|inner| self.create_as(name, &inner, inner.max_entries()));
        let map = Map::create_like(name, definition, inner.transpose()?.as_ref())?;
        // Variables of the program: one value, with their initial contents.
        if !wanted.data().is_empty() {
            map.set(&0_u32.to_ne_bytes(), wanted.data())?;
        }
        if wanted.section_kind() == EbpfSectionKind::Rodata {
            map.freeze()?;
        }
        Ok(map)
    }

    /// Loads the program with its constants and with these maps, which are all that it declares.
    ///
    /// # Errors
    /// Without the capabilities; when the verifier refuses it, with its messages; without type
    /// information of the kernel if the program reads the kernel's structures.
    pub fn load(self, maps: &[&Map]) -> Result<Program, BpfError> {
        self.load_calling(maps, None)
    }

    /// Does the same for a program that uses the argument types of a tracepoint.
    ///
    /// # Errors
    /// As [`Self::load`]; if there is no such tracepoint.
    pub fn load_at(mut self, tracepoint: &'static str, maps: &[&Map]) -> Result<Program, BpfError> {
        self.tracepoint = Some(tracepoint);
        self.load(maps)
    }

    /// Does the same as [`Self::load`] for a program that calls a function of the kernel: it
    /// replaces the helper of this number, which does not exist.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub(crate) fn load_calling(
        mut self,
        maps: &[&Map],
        function: Option<(i32, &KernelFunction)>,
    ) -> Result<Program, BpfError> {
        // Sections that are searched for called functions: these programs have none.
        let texts: HashSet<usize> = self.content.functions.keys().map(|(text, _)| *text).collect();
        let mut tracepoint = 0;
        if self.tracepoint.is_some() || self.content.has_btf_relocations() {
            let missing = |feature| BpfError::MissingFeature {
                action: format!("loading the program {}", self.name),
                feature,
                source: Errno::NOENT,
            };
            let types = Btf::from_sys_fs()
                .map_err(|_| missing("type information (CONFIG_DEBUG_INFO_BTF)"))?;
            if let Some(name) = self.tracepoint {
                let name = format!("btf_trace_{name}");
                let number = types.id_by_type_name_kind(&name, BtfKind::Typedef);
                tracepoint = number.map_err(|_| missing("its tracepoint"))?;
            }
            let found = self.content.relocate_btf(&types);
            found.map_err(|error| unusable(self.name, "finding the kernel's structures", error))?;
        }
        let wanted = std::mem::take(&mut self.content.maps);
        let mut own = HashMap::new();
        for (name, map) in &wanted {
            if map.section_kind() == EbpfSectionKind::Rodata {
                own.insert(name.as_str(), self.create_as(name, map, map.max_entries())?);
            }
        }
        let mut known = Vec::new();
        for (name, map) in &wanted {
            let given = maps.iter().copied().find(|map| map.name() == name);
            let given = given.or_else(|| own.get(name.as_str())).ok_or_else(|| {
                unusable(self.name, "relating it to its maps", format!("{name} is missing"))
            })?;
            known.push((name.as_str(), given.as_fd().as_raw_fd(), map));
        }
        let related = self.content.relocate_maps(known.into_iter(), &texts);
        related.map_err(|error| unusable(self.name, "relating it to its maps", error))?;
        self.program(function, tracepoint)
    }

    fn program(
        self,
        called: Option<(i32, &KernelFunction)>,
        tracepoint: u32,
    ) -> Result<Program, BpfError> {
        let unusable = |what| unusable(self.name, "loading it", what);
        let mut programs = self.content.programs.iter();
        let (name, program) = programs.next().ok_or_else(|| unusable("there is no program"))?;
        let kind = match program.section {
            ProgramSection::Xdp { frags: true, .. } => ProgramKind::Xdp,
            ProgramSection::SchedClassifier => ProgramKind::TcxEgress,
            ProgramSection::BtfTracePoint if tracepoint != 0 => ProgramKind::TypedTracepoint,
            ProgramSection::RawTracePoint | ProgramSection::BtfTracePoint => {
                ProgramKind::RawTracepoint
            }
            _ => return Err(unusable("its kind is not used here")),
        };
        let function = self.content.functions.get(&program.function_key());
        let function = function.ok_or_else(|| unusable("the program is empty"))?;
        let call = |instruction: &bpf_insn| match called {
            Some((helper, called)) if is_call_of(instruction, helper) => {
                let mut call = *instruction;
                call.set_src_reg(PSEUDO_KERNEL_FUNCTION);
                call.imm = called.number as i32;
                // The index of its module below; 0 would be the kernel itself.
                call.off = 1;
                call
            }
            _ => *instruction,
        };
        let instructions: Vec<u64> =
            function.instructions.iter().map(|instruction| encode(&call(instruction))).collect();
        let modules = called.map_or([0; 2], |(_, called)| [0, called.module.as_raw_fd()]);
        let (instructions, licence) = (&instructions[..], &*program.license);
        let modules = &modules;
        Program::load(&Code { kind, tracepoint, name, instructions, modules, licence })
    }
}

/// Returns true if an instruction calls the helper of this number.
fn is_call_of(instruction: &bpf_insn, helper: i32) -> bool {
    instruction.code == CALL && instruction.src_reg() == 0 && instruction.imm == helper
}

/// Encodes an instruction: operation (8 bits), destination and source register (4 each), offset
/// (16), immediate (32); RFC 9669, section 3.
fn encode(instruction: &bpf_insn) -> u64 {
    let registers = instruction.src_reg() << 4 | instruction.dst_reg();
    // Bit patterns, not values: signed fields are stored as they are.
    u64::from(instruction.code)
        | u64::from(registers) << 8
        | u64::from(instruction.off as u16) << 16
        | u64::from(instruction.imm as u32) << 32
}

fn unusable(name: &str, action: &str, reason: impl Display) -> BpfError {
    BpfError::Unusable {
        name: name.to_owned(),
        action: action.to_owned(),
        reason: reason.to_string(),
    }
}

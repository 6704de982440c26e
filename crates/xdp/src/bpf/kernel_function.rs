//! Functions of kernel modules that programs call (kfuncs, Linux 5.18).

use super::error::BpfError;
use super::syscall::{Attributes, Command};
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::io::Errno;
use rustix::thread::CapabilitySet;
use wattline_linux::kernel_types::KernelTypes;

/// Bytes of `struct bpf_btf_info`, and the most bytes of a module's name there.
const INFO_BYTES: usize = 32;
const NAME_BYTES: usize = 64;

/// A function of a module of the running kernel.
#[derive(Debug)]
pub(crate) struct KernelFunction {
    /// Its number among the types.
    pub(super) number: u32,
    /// The types of its module.
    pub(super) module: OwnedFd,
}

impl KernelFunction {
    /// Finds a function among `types`, the types of the kernel and of `module`.
    ///
    /// # Errors
    /// Without CAP_SYS_ADMIN, which the kernel requires to open the types of a module.
    pub(crate) fn find(
        types: &KernelTypes,
        name: &str,
        module: &str,
    ) -> Result<Self, Option<BpfError>> {
        let number = types.function(name).ok_or(None)?;
        let module = open(module)?.ok_or(None)?;
        Ok(Self { number, module })
    }
}

/// Opens the types of a module; `None` if it is not loaded.
fn open(module: &str) -> Result<Option<OwnedFd>, BpfError> {
    let failed = |errno| {
        let action = format!("opening the type information of the module {module}");
        BpfError::new(action, CapabilitySet::SYS_ADMIN, errno)
    };
    let mut number = 0;
    loop {
        let mut attributes = Attributes::new().word(0, number);
        match attributes.call(Command::TypesNext) {
            Ok(_) => number = attributes.read_word(4),
            Err(Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(failed(errno)),
        }
        let opened = Attributes::new().word(0, number).call_for_descriptor(Command::TypesOpen);
        let descriptor = match opened {
            Ok(descriptor) => descriptor,
            // They were removed meanwhile.
            Err(Errno::NOENT) => continue,
            Err(errno) => return Err(failed(errno)),
        };
        if is_of(&descriptor, module).map_err(failed)? {
            return Ok(Some(descriptor));
        }
    }
}

/// Returns true if these types are of a module of the running kernel with this name.
fn is_of(types: &OwnedFd, module: &str) -> Result<bool, Errno> {
    let mut name = [0; NAME_BYTES];
    // Data and its size, number, name and its size, and a flag for types of the kernel.
    let mut info = [0; INFO_BYTES];
    info[16..24].copy_from_slice(&(name.as_mut_ptr() as u64).to_ne_bytes());
    info[24..28].copy_from_slice(&(NAME_BYTES as u32).to_ne_bytes());
    Attributes::new()
        .word(0, types.as_raw_fd() as u32)
        .word(4, INFO_BYTES as u32)
        .output(8, &mut info)
        .call(Command::ObjectInfo)?;
    let of_kernel = info[28..] == 1_u32.to_ne_bytes();
    Ok(of_kernel && name.split(|byte| *byte == 0).next() == Some(module.as_bytes()))
}

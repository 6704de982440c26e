//! A small part of bpf(2): compiled programs, maps, links.
//!
//! Wattline's programs are written in C (`bpf/`) and compiled by `scripts/build-bpf`. The objects
//! are part of the project, so that a user's build needs no BPF compiler. All unsafe code is in
//! `syscall` and `ring`.
//!
//! Sources: bpf(2), Linux `include/uapi/linux/bpf.h`.

mod error;
mod kernel_function;
mod link;
mod map;
mod object;
mod program;
mod ring;
mod syscall;

pub use error::BpfError;
pub(crate) use kernel_function::KernelFunction;
pub use link::{Attached, Link};
pub(crate) use map::possible_cpus;
pub use map::{Map, MapKind};
pub use object::Object;
pub(crate) use object::{Aligned, object};
pub use program::{Program, ProgramKind, TestRun};
pub use ring::Ring;

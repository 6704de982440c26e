//! A small part of bpf(2): programs written in Rust, maps, links.
//!
//! Wattline's programs are a few dozen instructions. They are assembled here at run time,
//! so that a user's build needs no BPF compiler and no object file lies in the project.
//! All unsafe code is in `syscall`.
//!
//! Sources: bpf(2), Linux `include/uapi/linux/bpf.h`, RFC 9669 (instruction set).

mod assembler;
mod btf;
mod error;
mod map;
mod program;
mod syscall;

pub use assembler::{Assembler, Condition, Label, Register, Size, helper};
pub use btf::Btf;
pub use error::BpfError;
pub use map::{Map, MapKind};
pub use program::{Link, Program, ProgramKind, TestRun};

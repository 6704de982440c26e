//! What interfaces refuse of the frames that the XDP program sends.
//!
//! The program's word is final when it redirects a frame; whether the interface takes it is seen
//! later, in the driver, where only the kernel's tracepoints tell of a loss. Two programs on them
//! count what concerns our ports, and close a port whose interface refuses frames altogether.
//!
//! A driver that reports an error has sent nothing and would send nothing of the next batch either:
//! its interface is down, has no queue for such frames, or a veth's far end runs no NAPI. A driver
//! that takes a part of a batch only has a full ring, which may have room for the next one: that
//! is counted, and whether it ever ends is for the control thread to judge.

use super::Ports;
use crate::bpf::Condition::{Equal, NotEqual};
use crate::bpf::Register::{R0, R1, R2, R3, R6, R7, R8, R10};
use crate::bpf::Size::{Double, Word};
use crate::bpf::{Assembler, BpfError, Btf, Label, Link, Program, ProgramKind, helper};
use rustix::fd::AsFd;
use rustix::io::Errno;
use std::os::unix::fs::MetadataExt;

/// A device's number or slot, as key on the stack.
const KEY: i16 = -8;
/// What was read from the kernel.
const READ: i16 = -16;
const SLOT: i16 = -24;
/// The error number that a driver reported, without its sign.
const ERROR: i16 = -32;

/// Where the kernel keeps what tells interfaces apart.
struct Offsets {
    ifindex: i32,
    /// The pointer to the namespace.
    namespace: i32,
    /// The namespace's number, from the namespace on.
    number: i32,
}

impl Offsets {
    fn read() -> Option<Self> {
        let btf = Btf::of_kernel().ok()?;
        Some(Self {
            ifindex: btf.offset("net_device", "ifindex")?,
            // `possible_net_t`, which has the pointer alone.
            namespace: btf.offset("net_device", "nd_net")?,
            number: btf.offset("net", "ns")? + btf.offset("ns_common", "inum")?,
        })
    }
}

/// Begins to count, into `ports.refused`, and to close, until the links are dropped.
pub(super) fn count(ports: &Ports) -> Result<[Link; 2], BpfError> {
    let missing = || BpfError::MissingFeature {
        action: "counting what interfaces refuse".to_owned(),
        feature: "type information (CONFIG_DEBUG_INFO_BTF)",
        source: Errno::NOENT,
    };
    let offsets = Offsets::read().ok_or_else(missing)?;
    // Of this thread, which is the one that attaches programs to interfaces.
    let namespace = std::fs::metadata("/proc/thread-self/ns/net").map_err(|error| {
        let source = Errno::from_io_error(&error).unwrap_or(Errno::IO);
        BpfError::System { action: "asking for the network namespace".to_owned(), source }
    })?;
    // Namespaces have numbers of 32 bits.
    let transmission = not_transmitted(ports, &offsets, namespace.ino() as u32);
    let redirection = not_redirected(ports, ports.devices.id()?);
    let attach = |name, code: Vec<u64>, tracepoint| {
        Program::load(ProgramKind::RawTracepoint, name, &code)?.attach_tracepoint(tracepoint)
    };
    Ok([
        attach("wl_transmit", transmission, c"xdp_devmap_xmit")?,
        attach("wl_redirect", redirection, c"xdp_redirect_err")?,
    ])
}

/// `xdp_devmap_xmit(from_dev, to_dev, sent, drops, err)`: a batch was handed to a driver.
fn not_transmitted(ports: &Ports, offsets: &Offsets, namespace: u32) -> Vec<u64> {
    const FROM: i16 = 0;
    const TO: i16 = 8;
    const DROPS: i16 = 24;
    const ERR: i16 = 32;
    let mut a = Assembler::new();
    let end = a.label();
    a.copy(R6, R1);
    a.load(Double, R7, R6, DROPS);
    // An `int`, never negative.
    a.and(R7, 0x7fff_ffff);
    a.jump_if(R7, Equal, 0, end);
    a.load(Double, R8, R6, TO);
    read(&mut a, 8, offsets.namespace, end);
    a.load(Double, R8, R10, READ);
    read(&mut a, 4, offsets.number, end);
    a.load(Word, R2, R10, READ);
    a.set_64(R3, namespace.into());
    a.jump_if_register(R2, NotEqual, R3, end);
    // From a port of ours to a port of ours.
    for device in [FROM, TO] {
        a.load(Double, R8, R6, device);
        read(&mut a, 4, offsets.ifindex, end);
        a.load(Word, R2, R10, READ);
        a.store(Word, R10, KEY, R2);
        lookup(&mut a, &ports.members, KEY);
        a.jump_if(R0, Equal, 0, end);
        a.load(Word, R2, R0, 0);
        a.store(Word, R10, SLOT, R2);
    }
    add(&mut a, ports, end);
    error(&mut a, ERR);
    a.load(Word, R2, R10, ERROR);
    // A full ring.
    a.jump_if(R2, Equal, 0, end);
    close(&mut a, ports, end);
    finish(a, end)
}

/// `xdp_redirect_err(dev, xdp, tgt, err, map_type, map_id, index)`: a frame could not even be
/// queued for the interface. It takes none from us for now: no more are sent there.
fn not_redirected(ports: &Ports, devices: u32) -> Vec<u64> {
    const ERR: i16 = 24;
    const MAP_ID: i16 = 40;
    const INDEX: i16 = 48;
    let mut a = Assembler::new();
    let end = a.label();
    a.copy(R6, R1);
    a.load(Double, R2, R6, MAP_ID);
    a.set_64(R3, devices.into());
    a.jump_if_register(R2, NotEqual, R3, end);
    a.load(Double, R2, R6, INDEX);
    a.store(Word, R10, KEY, R2);
    lookup(&mut a, &ports.members, KEY);
    a.jump_if(R0, Equal, 0, end);
    a.load(Word, R2, R0, 0);
    a.store(Word, R10, SLOT, R2);
    a.set(R7, 1);
    add(&mut a, ports, end);
    error(&mut a, ERR);
    close(&mut a, ports, end);
    finish(a, end)
}

/// Notes at `ERROR` what the kernel reports in this argument: a negative `int`, which has come
/// without its sign's upper half, or zero.
fn error(a: &mut Assembler, argument: i16) {
    a.load(Double, R3, R6, argument);
    a.set(R2, 0);
    a.subtract_register(R2, R3);
    a.store(Word, R10, ERROR, R2);
}

/// Lets no program send to the interface at `KEY` any more, and says why.
fn close(a: &mut Assembler, ports: &Ports, end: Label) {
    // First: whoever finds it closed can ask for the cause.
    lookup(a, &ports.causes, SLOT);
    a.jump_if(R0, Equal, 0, end);
    a.load(Word, R2, R10, ERROR);
    a.store(Word, R0, 0, R2);
    a.map(R1, ports.outs.as_fd());
    a.copy(R2, R10);
    a.add(R2, i32::from(KEY));
    a.call(helper::MAP_DELETE);
}

/// Reads `size` bytes of the kernel at `R8 + offset` to `READ`.
fn read(a: &mut Assembler, size: i32, offset: i32, end: Label) {
    a.copy(R1, R10);
    a.add(R1, i32::from(READ));
    a.set(R2, size);
    a.copy(R3, R8);
    a.add(R3, offset);
    a.call(helper::PROBE_READ_KERNEL);
    a.jump_if(R0, NotEqual, 0, end);
}

fn lookup(a: &mut Assembler, map: &crate::bpf::Map, key: i16) {
    super::super::code::lookup_at(a, map, key);
}

/// Counts `R7` frames for the port at `SLOT`.
fn add(a: &mut Assembler, ports: &Ports, end: Label) {
    lookup(a, &ports.refused, SLOT);
    a.jump_if(R0, Equal, 0, end);
    a.load(Double, R2, R0, 0);
    a.add_register(R2, R7);
    a.store(Double, R0, 0, R2);
}

fn finish(mut a: Assembler, end: Label) -> Vec<u64> {
    a.place(end);
    a.set(R0, 0);
    a.exit();
    a.finish()
}

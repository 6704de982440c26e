//! BPF programs that netlink does not show: at interfaces (tcx, netkit) and at the hooks of netfilter
//! (include/uapi/linux/bpf.h). The kernel announces none of them.

use crate::kernel_types::KernelTypes;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::{Mutex, PoisonError};

const PROG_LOAD: libc::c_int = 5;
const PROG_QUERY: libc::c_int = 16;
const LINK_CREATE: libc::c_int = 28;
const ITER_CREATE: libc::c_int = 33;
/// Attach types at an interface.
const AT_INTERFACES: [(u32, &str); 4] =
    [(46, "tcx at ingress"), (47, "tcx at egress"), (54, "netkit, primary"), (55, "netkit, peer")];
const LINK_TYPE_NETFILTER: i32 = 10;
const PROG_TYPE_TRACING: u32 = 26;
const TRACE_ITER: u32 = 28;
// Functions for programs.
const PROBE_READ_KERNEL: i32 = 113;
const SEQ_WRITE: i32 = 127;
/// Bytes for each link.
const RECORD: usize = 16;
const EXIT: u64 = instruction(0x95, 0, 0, 0, 0);

/// Encodes a `struct bpf_insn` of a code, two registers, an offset and a number.
const fn instruction(code: u8, to: u8, from: u8, offset: i16, number: i32) -> u64 {
    let [a, b, c, d] = number.to_ne_bytes();
    let [low, high] = offset.to_ne_bytes();
    u64::from_ne_bytes([code, from << 4 | to, low, high, a, b, c, d])
}

/// A BPF program at an interface, or at a hook of netfilter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttachedProgram {
    /// The interface; `None` for one of netfilter.
    pub link: Option<u32>,
    /// The hook, for the user.
    pub hook: String,
}

/// `union bpf_attr`, the part that these commands use.
#[derive(Default)]
#[repr(C, align(8))]
struct Arguments([u32; 32]);

impl Arguments {
    /// Sets a pointer; its target must outlive the arguments.
    fn point(&mut self, at: usize, address: u64) {
        for (half, to) in address.to_ne_bytes().chunks_exact(4).zip(&mut self.0[at..]) {
            *to = half.first_chunk().copied().map_or(0, u32::from_ne_bytes);
        }
    }
}

fn call(command: libc::c_int, arguments: &mut Arguments) -> io::Result<i32> {
    let place: *mut Arguments = arguments;
    // SAFETY: the kernel reads and writes at most the given length of `arguments`, which is live
    // and exclusive. The pointers in it are 0, or to a live buffer of the length next to them.
    #[allow(unsafe_code)]
    let result =
        unsafe { libc::syscall(libc::SYS_bpf, command, place, size_of::<Arguments>() as u32) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as i32) }
}

/// Lists programs at interfaces.
///
/// # Errors
/// Without CAP_NET_ADMIN.
pub(super) fn at_interfaces(links: &[u32]) -> io::Result<Vec<AttachedProgram>> {
    let mut found = Vec::new();
    for link in links {
        for (kind, hook) in AT_INTERFACES {
            let mut query = Arguments::default();
            (query.0[0], query.0[1]) = (*link, kind);
            let count = match call(PROG_QUERY, &mut query).map_err(|it| it.raw_os_error()) {
                Ok(_) => query.0[6],
                // No program, no such interface, or an attach type that the kernel or the interface
                // does not have.
                Err(Some(libc::ENOENT | libc::ENODEV | libc::EINVAL | libc::ENXIO)) => 0,
                Err(Some(libc::EOPNOTSUPP | libc::ENOSYS)) => 0,
                // The other end of a netkit pair: only the primary end shows its programs.
                Err(Some(libc::EACCES)) => 1,
                Err(code) => return Err(io::Error::from_raw_os_error(code.unwrap_or(libc::EIO))),
            };
            if count > 0 {
                found.push(AttachedProgram { link: Some(*link), hook: hook.to_owned() });
            }
        }
    }
    Ok(found)
}

/// Performs a command that returns a descriptor.
fn open(command: libc::c_int, arguments: &mut Arguments) -> io::Result<OwnedFd> {
    let descriptor = call(command, arguments)?;
    // SAFETY: these commands return a new descriptor with no other owner.
    #[allow(unsafe_code)]
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// Lists programs of netfilter in this thread's network namespace.
///
/// # Errors
/// Without CAP_BPF and CAP_PERFMON, or type information of the kernel.
pub(super) fn netfilter() -> io::Result<Vec<AttachedProgram>> {
    static ITERATOR: Mutex<Option<OwnedFd>> = Mutex::new(None);
    let mut iterator = ITERATOR.lock().unwrap_or_else(PoisonError::into_inner);
    if iterator.is_none() {
        let types = KernelTypes::kernel();
        let types = types.ok_or_else(|| io::Error::other("the kernel has no type information"))?;
        let Some(place) = types.member("bpf_nf_link", "hook_ops") else {
            // Before Linux 6.4 there were none.
            return Ok(Vec::new());
        };
        *iterator = Some(make_iterator(&types, place / 8)?);
    }
    let Some(iterator) = iterator.as_ref() else { return Ok(Vec::new()) };
    let own = crate::namespace::own_number()?;
    let mut create = Arguments::default();
    create.0[0] = iterator.as_raw_fd() as u32;
    let mut links = Vec::new();
    File::from(open(ITER_CREATE, &mut create)?).read_to_end(&mut links)?;
    let mut found = Vec::new();
    for link in links.chunks_exact(RECORD) {
        let word = |at: usize| link[at..].first_chunk().map_or(0, |it| u32::from_ne_bytes(*it));
        // Hooks 1 and 3 are for packets to and from this machine.
        let hook = match word(4) {
            0 => "prerouting",
            1 | 3 => continue,
            2 => "forward",
            4 => "postrouting",
            _ => "an unknown hook",
        };
        let family = match word(0) {
            2 => "IPv4",
            10 => "IPv6",
            _ => "another family",
        };
        let hook = format!("netfilter at {hook} of {family}");
        let program = AttachedProgram { link: None, hook };
        if u64::from(word(8)) == own && !found.contains(&program) {
            found.push(program);
        }
    }
    Ok(found)
}

/// Attaches a program to the kernel's iterator of BPF links. Its reader gets family, hook and
/// network namespace of each link of netfilter, 4 bytes each, then 4 unused bytes.
/// `LINK_GET_NEXT_ID` would need CAP_SYS_ADMIN, which a router gives up, and does not report
/// namespaces.
fn make_iterator(types: &KernelTypes, hook: u32) -> io::Result<OwnedFd> {
    let place = |structure: &str, member: &str| {
        let bits = types.member(structure, member);
        bits.map(|bits| (bits / 8) as i32)
            .ok_or_else(|| io::Error::other(format!("the kernel's {structure} has no {member}")))
    };
    let kind = place("bpf_link", "type")?;
    let (namespace, number) = (place("bpf_nf_link", "net")?, place("ns_common", "inum")?);
    let number = place("net", "ns")? + number;
    let hook = hook as i32;
    let family = hook + place("nf_hook_ops", "pf")?;
    let hook = hook + place("nf_hook_ops", "hooknum")?;
    // Copies bytes from a register and an offset to a place below the top of the stack.
    let copy = |to: i32, length: i32, from: u8, offset: i32| {
        [
            instruction(0xbf, 1, 10, 0, 0),
            instruction(0x07, 1, 0, 0, to),
            instruction(0xb7, 2, 0, 0, length),
            instruction(0xbf, 3, from, 0, 0),
            instruction(0x07, 3, 0, 0, offset),
            instruction(0x85, 0, 0, 0, PROBE_READ_KERNEL),
        ]
    };
    let record = -(RECORD as i32);
    let work: Vec<u64> = [
        // Zeros: the family has one byte.
        vec![instruction(0x7a, 10, 0, -16, 0), instruction(0x7a, 10, 0, -8, 0)],
        copy(record, 1, 6, family).to_vec(),
        copy(record + 4, 4, 6, hook).to_vec(),
        copy(record - 8, 8, 6, namespace).to_vec(),
        vec![instruction(0x79, 8, 10, -24, 0)],
        copy(record + 8, 4, 8, number).to_vec(),
        vec![
            // The sequence file of the reader.
            instruction(0x79, 1, 7, 0, 0),
            instruction(0xbf, 2, 10, 0, 0),
            instruction(0x07, 2, 0, 0, record),
            instruction(0xb7, 3, 0, 0, RECORD as i32),
            instruction(0x85, 0, 0, 0, SEQ_WRITE),
        ],
    ]
    .concat();
    let skip = work.len() as i16;
    let mut program = vec![
        instruction(0x79, 7, 1, 0, 0),
        // The link; null at the end.
        instruction(0x79, 6, 1, 8, 0),
        instruction(0x15, 6, 0, skip + 2, 0),
        instruction(0x61, 2, 6, kind as i16, 0),
        instruction(0x55, 2, 0, skip, LINK_TYPE_NETFILTER),
    ];
    program.extend(work);
    program.extend([instruction(0xb7, 0, 0, 0, 0), EXIT]);
    let iterator = types.function("bpf_iter_bpf_link");
    let iterator = iterator.ok_or_else(|| io::Error::other("the kernel lists no BPF links"))?;
    let program = load((PROG_TYPE_TRACING, TRACE_ITER, iterator), &program)?;
    let mut attach = Arguments::default();
    (attach.0[0], attach.0[2]) = (program.as_raw_fd() as u32, TRACE_ITER);
    open(LINK_CREATE, &mut attach)
}

/// Loads a program of a type, for an attach type and a function of the kernel (or 0).
fn load((kind, attach, function): (u32, u32, u32), program: &[u64]) -> io::Result<OwnedFd> {
    let mut load = Arguments::default();
    (load.0[0], load.0[1]) = (kind, program.len() as u32);
    load.point(2, program.as_ptr() as u64);
    load.point(4, c"GPL".as_ptr() as u64);
    (load.0[17], load.0[27]) = (attach, function);
    open(PROG_LOAD, &mut load)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::namespace::Namespace;

    /// Returns the link of a program that accepts all packets (of tcx: passes them on).
    fn attach(kind: u32, how: u32, target: u32, place: [u32; 3]) -> io::Result<OwnedFd> {
        // `r0 = NF_ACCEPT; exit`.
        let program = load((kind, how, 0), &[instruction(0xb7, 0, 0, 0, 1), EXIT])?;
        let mut attach = Arguments::default();
        (attach.0[0], attach.0[1], attach.0[2]) = (program.as_raw_fd() as u32, target, how);
        attach.0[4..7].copy_from_slice(&place);
        open(LINK_CREATE, &mut attach)
    }

    #[test]
    fn program_at_an_interface_is_found_in_its_direction() {
        let made = Namespace::for_test(&[]).map_err(wattline_needs::rights);
        let Ok(namespace) = made else { return };
        let found = || {
            let found = at_interfaces(&[1]).unwrap();
            found.into_iter().map(|it| it.hook).collect::<Vec<_>>()
        };
        let tried = namespace.enter(|| {
            assert_eq!(found(), [""; 0]);
            for (how, hook) in &AT_INTERFACES[..2] {
                let link = attach(3, *how, 1, [0; 3])?;
                assert_eq!(found(), [*hook]);
                drop(link);
                assert_eq!(found(), [""; 0]);
            }
            Ok::<_, io::Error>(())
        });
        if let Err(error) = tried.unwrap() {
            wattline_needs::machine(format_args!("no tcx ({error})"));
        }
    }

    #[test]
    fn program_of_netfilter_is_found_only_in_its_namespace() {
        let made = Namespace::for_test(&[]).and_then(|one| Ok((one, Namespace::for_test(&[])?)));
        let Ok((one, other)) = made.map_err(wattline_needs::rights) else { return };
        let attached = || attach(32, 45, 0, [2, 2, -77_i32 as u32]);
        let link = match one.enter(attached).unwrap() {
            Ok(link) => link,
            Err(error) => {
                return wattline_needs::machine(format_args!(
                    "no BPF programs of netfilter ({error})"
                ));
            }
        };
        let found = one.enter(netfilter).unwrap().unwrap();
        let hook = "netfilter at forward of IPv4".to_owned();
        assert_eq!(found, [AttachedProgram { link: None, hook }]);
        let dropped = one.enter(|| {
            crate::privileges::drop_unneeded()?;
            netfilter()
        });
        assert_eq!(dropped.unwrap().unwrap(), found, "as a router that has given up capabilities");
        assert_eq!(other.enter(netfilter).unwrap().unwrap(), []);
        drop(link);
        assert_eq!(one.enter(netfilter).unwrap().unwrap(), []);
    }
}

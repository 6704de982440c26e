//! BPF programs that netlink does not show: at interfaces (tcx, netkit) and at the hooks of netfilter
//! (include/uapi/linux/bpf.h). The kernel announces none of them.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

const PROG_LOAD: libc::c_int = 5;
const PROG_QUERY: libc::c_int = 16;
const LINK_CREATE: libc::c_int = 28;
const OBJ_GET_INFO_BY_FD: libc::c_int = 15;
const LINK_GET_FD_BY_ID: libc::c_int = 30;
const LINK_GET_NEXT_ID: libc::c_int = 31;
/// Attach types at an interface.
const AT_INTERFACES: [(u32, &str); 4] =
    [(46, "tcx at ingress"), (47, "tcx at egress"), (54, "netkit, primary"), (55, "netkit, peer")];
const LINK_TYPE_NETFILTER: u32 = 10;
const PROG_TYPE_NETFILTER: u32 = 32;
const ATTACH_NETFILTER: u32 = 45;
/// `r0 = NF_ACCEPT; exit`.
const ACCEPT: [u64; 2] = [instruction(0xb7, 1), instruction(0x95, 0)];
/// Links of the machine that are looked at.
const MOST_LINKS: u32 = 1 << 16;

/// Encodes a `struct bpf_insn` of a code and a number.
const fn instruction(code: u8, number: i32) -> u64 {
    let [a, b, c, d] = number.to_ne_bytes();
    u64::from_ne_bytes([code, 0, 0, 0, a, b, c, d])
}

/// A BPF program at an interface, or at a hook of netfilter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttachedProgram {
    /// The interface; `None` for one of netfilter.
    pub link: Option<u32>,
    /// The hook, for the user.
    pub hook: String,
}

/// `union bpf_attr`, as far as these commands use it.
#[derive(Default)]
#[repr(C, align(8))]
struct Arguments([u32; 32]);

impl Arguments {
    /// Sets a pointer, which must be to something that lives as long.
    fn point(&mut self, at: usize, address: u64) {
        for (half, to) in address.to_ne_bytes().chunks_exact(4).zip(&mut self.0[at..]) {
            *to = half.first_chunk().copied().map_or(0, u32::from_ne_bytes);
        }
    }
}

fn call(command: libc::c_int, arguments: &mut Arguments) -> io::Result<i32> {
    let place: *mut Arguments = arguments;
    // SAFETY: the kernel reads and writes at most the given length of `arguments`, which is live and
    // exclusive. The pointers in it are 0, or to a live buffer of the length beside them.
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
                // No program, no such interface, no such kind in this kernel or for this interface.
                Err(Some(libc::ENOENT | libc::ENODEV | libc::EINVAL | libc::ENXIO)) => 0,
                Err(Some(libc::EOPNOTSUPP | libc::ENOSYS)) => 0,
                // The other end of a netkit pair, which alone shows its programs.
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

/// Performs a command that makes a descriptor.
fn open(command: libc::c_int, arguments: &mut Arguments) -> io::Result<OwnedFd> {
    let descriptor = call(command, arguments)?;
    // SAFETY: these commands return a new descriptor that nobody else knows.
    #[allow(unsafe_code)]
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// Lists programs of netfilter in this thread's network namespace.
///
/// # Errors
/// Without CAP_SYS_ADMIN, or if there are too many links.
pub(super) fn netfilter() -> io::Result<Vec<AttachedProgram>> {
    let (mut found, mut id) = (Vec::new(), 0);
    for _ in 0..MOST_LINKS {
        let mut next = Arguments::default();
        next.0[0] = id;
        match call(LINK_GET_NEXT_ID, &mut next).map_err(|error| error.raw_os_error()) {
            Ok(_) => id = next.0[1],
            // No more, or a kernel without links.
            Err(Some(libc::ENOENT | libc::EINVAL | libc::ENOSYS)) => return Ok(found),
            Err(code) => return Err(io::Error::from_raw_os_error(code.unwrap_or(libc::EIO))),
        }
        // It may be gone.
        let Ok(Some(program)) = netfilter_link(id) else { continue };
        if !found.contains(&program) {
            found.push(program);
        }
    }
    Err(io::Error::other(format!("there are more than {MOST_LINKS} BPF links")))
}

/// Reads one link, if it is of netfilter and where forwarded packets pass.
fn netfilter_link(id: u32) -> io::Result<Option<AttachedProgram>> {
    let mut which = Arguments::default();
    which.0[0] = id;
    let descriptor = open(LINK_GET_FD_BY_ID, &mut which)?;
    // `struct bpf_link_info`: type, id, program, padding; then family, hook, priority, flags.
    let mut info = [0_u32; 16];
    let mut ask = Arguments::default();
    ask.0[0] = descriptor.as_raw_fd() as u32;
    ask.0[1] = size_of_val(&info) as u32;
    ask.point(2, info.as_mut_ptr() as u64);
    call(OBJ_GET_INFO_BY_FD, &mut ask)?;
    let [kind, _, _, _, family, hook, priority, ..] = info;
    // Hooks 1 and 3 are for packets to and from this machine.
    if kind != LINK_TYPE_NETFILTER
        || matches!(hook, 1 | 3)
        || is_elsewhere([family, hook, priority])
    {
        return Ok(None);
    }
    let family = match family {
        2 => "IPv4",
        10 => "IPv6",
        _ => "another family",
    };
    let hook = match hook {
        0 => "prerouting",
        2 => "forward",
        4 => "postrouting",
        _ => "an unknown hook",
    };
    let hook = format!("netfilter at {hook} of {family}");
    Ok(Some(AttachedProgram { link: None, hook }))
}

/// Returns true if a program with this family, hook and priority is in another network namespace. A link
/// does not tell its own, but the kernel refuses a second program with one priority: a program that
/// accepts all packets is attached for a moment.
fn is_elsewhere(place: [u32; 3]) -> bool {
    let license = *b"GPL\0";
    let mut load = Arguments::default();
    (load.0[0], load.0[1]) = (PROG_TYPE_NETFILTER, ACCEPT.len() as u32);
    load.point(2, ACCEPT.as_ptr() as u64);
    load.point(4, license.as_ptr() as u64);
    load.0[17] = ATTACH_NETFILTER;
    let Ok(program) = open(PROG_LOAD, &mut load) else { return false };
    let mut attach = Arguments::default();
    (attach.0[0], attach.0[2]) = (program.as_raw_fd() as u32, ATTACH_NETFILTER);
    attach.0[4..7].copy_from_slice(&place);
    open(LINK_CREATE, &mut attach).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::namespace::Namespace;

    /// Returns the link of a program that accepts all packets (of tcx: passes them on).
    fn attach(kind: u32, how: u32, target: u32, place: [u32; 3]) -> io::Result<OwnedFd> {
        let mut load = Arguments::default();
        (load.0[0], load.0[1], load.0[17]) = (kind, 2, how);
        load.point(2, ACCEPT.as_ptr() as u64);
        load.point(4, c"GPL".as_ptr() as u64);
        let program = open(PROG_LOAD, &mut load)?;
        let mut attach = Arguments::default();
        (attach.0[0], attach.0[1], attach.0[2]) = (program.as_raw_fd() as u32, target, how);
        attach.0[4..7].copy_from_slice(&place);
        open(LINK_CREATE, &mut attach)
    }

    #[test]
    fn program_at_an_interface_is_found_in_its_direction() {
        let name = format!("wl-tcx-{}", std::process::id());
        let namespace = match Namespace::create(&name) {
            Ok(namespace) => namespace,
            Err(error) => return wattline_needs::rights(&error),
        };
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
    fn program_of_netfilter_is_found_in_its_namespace_alone() {
        let name = |it: &str| format!("wl-nf{it}-{}", std::process::id());
        let (one, other) = match (Namespace::create(name("a")), Namespace::create(name("b"))) {
            (Ok(one), Ok(other)) => (one, other),
            (Err(error), _) | (_, Err(error)) => return wattline_needs::rights(&error),
        };
        let attached = || attach(PROG_TYPE_NETFILTER, ATTACH_NETFILTER, 0, [2, 2, -77_i32 as u32]);
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
        assert_eq!(other.enter(netfilter).unwrap().unwrap(), []);
        drop(link);
        assert_eq!(one.enter(netfilter).unwrap().unwrap(), []);
    }
}

//! Tables of the old iptables, which nftables does not show
//! (include/uapi/linux/netfilter_ipv4/ip_tables.h).
//!
//! The kernel says how many entries a table has, of which those that every table has are taken off.
//! A table without rules of its own whose policy is to drop is not seen.

use std::io;
use std::os::fd::AsRawFd;

/// `IPT_SO_GET_INFO` and `IP6T_SO_GET_INFO`.
const GET_INFO: libc::c_int = 64;
const SOL_IP: libc::c_int = 0;
const SOL_IPV6: libc::c_int = 41;

/// A table that has rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LegacyTable {
    /// The program that shows it.
    pub program: &'static str,
    /// Its name.
    pub name: String,
    /// Number of its rules, user-defined chains counted as two.
    pub rules: u32,
}

/// `struct ipt_getinfo`, the same for IPv6.
#[repr(C)]
#[derive(Default)]
struct Info {
    name: [u8; 32],
    valid_hooks: u32,
    hook_entry: [u32; 5],
    underflow: [u32; 5],
    entries: u32,
    size: u32,
}

/// All of them.
///
/// # Errors
/// When the kernel has tables and does not show them.
pub(super) fn read() -> io::Result<Vec<LegacyTable>> {
    let mut found = Vec::new();
    for (program, list, domain, level) in [
        ("iptables-legacy", "ip_tables_names", rustix::net::AddressFamily::INET, SOL_IP),
        ("ip6tables-legacy", "ip6_tables_names", rustix::net::AddressFamily::INET6, SOL_IPV6),
    ] {
        // Asking for a table makes it: only those that are there.
        let path = format!("/proc/thread-self/net/{list}");
        let names = std::fs::read_to_string(path).unwrap_or_default();
        for name in names.lines().filter(|name| !name.is_empty()) {
            let info = info(name, domain, level)?;
            // A policy for each hook, and the end.
            let rules = info.entries.saturating_sub(info.valid_hooks.count_ones() + 1);
            if rules > 0 {
                found.push(LegacyTable { program, name: name.to_owned(), rules });
            }
        }
    }
    Ok(found)
}

fn info(name: &str, domain: rustix::net::AddressFamily, level: libc::c_int) -> io::Result<Info> {
    let kind = rustix::net::SocketType::RAW;
    let protocol = rustix::net::Protocol::from_raw(255_u32.try_into().map_err(io::Error::other)?);
    let socket = rustix::net::socket(domain, kind, Some(protocol))?;
    let mut info = Info::default();
    for (to, from) in info.name.iter_mut().take(31).zip(name.bytes()) {
        *to = from;
    }
    let mut length = size_of::<Info>() as libc::socklen_t;
    let place = std::ptr::from_mut(&mut info).cast();
    // SAFETY: the kernel reads the name from and writes at most `length` bytes to `info`, which is
    // live, exclusive and as long, and of whose integers every value is valid.
    #[allow(unsafe_code)]
    let result =
        unsafe { libc::getsockopt(socket.as_raw_fd(), level, GET_INFO, place, &mut length) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(info) }
}

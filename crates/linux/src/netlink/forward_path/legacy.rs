//! Tables of the old iptables, which nftables does not show
//! (include/uapi/linux/netfilter_ipv4/ip_tables.h).
//!
//! The kernel reports the number of entries of a table. Every table has a policy for each hook,
//! which is read, and an end; these are subtracted. Tables of arptables and ebtables are for ARP
//! frames and members of bridges, which the kernel receives in any case.

use std::io;
use std::os::fd::AsRawFd;

/// `IPT_SO_GET_INFO`, `IPT_SO_GET_ENTRIES` and their IPv6 counterparts.
const GET_INFO: libc::c_int = 64;
const GET_ENTRIES: libc::c_int = 65;
const SOL_IP: libc::c_int = 0;
const SOL_IPV6: libc::c_int = 41;

/// Hooks that transit packets pass, by their numbers (include/uapi/linux/netfilter.h).
const HOOKS: [(usize, &str); 3] = [(0, "PREROUTING"), (2, "FORWARD"), (4, "POSTROUTING")];
/// Length of `struct ipt_get_entries` before the entries, and of `struct xt_entry_target`.
const ENTRIES: usize = 40;
const TARGET: usize = 32;
/// -NF_ACCEPT - 1, the verdict of a policy that lets packets pass.
const ACCEPT: i32 = -2;
/// Longest table whose policies are read.
const MOST_BYTES: u32 = 64 << 20;

/// A table that has rules, or drops packets without a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LegacyTable {
    /// Program that lists it.
    pub program: &'static str,
    /// Name.
    pub name: String,
    /// Number of its rules; a user-defined chain counts as two.
    pub rules: u32,
    /// Chain whose policy is not to accept.
    pub drops: Option<&'static str>,
}

/// Fields of `struct ipt_getinfo`, the same for IPv6.
struct Info {
    valid_hooks: u32,
    underflow: [u32; 5],
    entries: u32,
    size: u32,
}

/// Length of `struct ipt_getinfo`.
const INFO: usize = 84;

/// Reads all tables.
///
/// # Errors
/// When the kernel has tables that cannot be read.
pub(super) fn read() -> io::Result<Vec<LegacyTable>> {
    let mut found = Vec::new();
    for (program, list, domain, level, entry) in [
        ("iptables-legacy", "ip_tables_names", rustix::net::AddressFamily::INET, SOL_IP, 112),
        ("ip6tables-legacy", "ip6_tables_names", rustix::net::AddressFamily::INET6, SOL_IPV6, 168),
    ] {
        // Asking for a table would create it: read only the existing ones.
        let path = format!("/proc/thread-self/net/{list}");
        let names = std::fs::read_to_string(path).unwrap_or_default();
        for name in names.lines().filter(|name| !name.is_empty()) {
            let (info, entries) = table(name, domain, level)?;
            // A policy for each hook, and the end.
            let rules = info.entries.saturating_sub(info.valid_hooks.count_ones() + 1);
            let passes = |hook: usize| {
                let at = ENTRIES + info.underflow[hook] as usize + entry + TARGET;
                let verdict = entries.get(at..).and_then(|rest| rest.first_chunk().copied());
                verdict.map(i32::from_ne_bytes) == Some(ACCEPT)
            };
            let mut hooks = HOOKS.iter().filter(|(hook, _)| info.valid_hooks & 1 << hook != 0);
            let drops = hooks.find(|(hook, _)| !passes(*hook)).map(|(_, chain)| *chain);
            if rules > 0 || drops.is_some() {
                found.push(LegacyTable { program, name: name.to_owned(), rules, drops });
            }
        }
    }
    Ok(found)
}

/// Reads a table's description and entries.
fn table(
    name: &str,
    domain: rustix::net::AddressFamily,
    level: libc::c_int,
) -> io::Result<(Info, Vec<u8>)> {
    let kind = rustix::net::SocketType::RAW;
    let protocol = rustix::net::Protocol::from_raw(255_u32.try_into().map_err(io::Error::other)?);
    let socket = rustix::net::socket(domain, kind, Some(protocol))?;
    let mut bytes = vec![0; INFO];
    let length = name.len().min(31);
    bytes[..length].copy_from_slice(&name.as_bytes()[..length]);
    ask(&socket, level, GET_INFO, &mut bytes)?;
    let word = |at: usize| {
        let word = bytes.get(at..).and_then(|rest| rest.first_chunk().copied());
        word.map_or(0, u32::from_ne_bytes)
    };
    let underflow = std::array::from_fn(|hook| word(56 + 4 * hook));
    let info = Info { valid_hooks: word(32), underflow, entries: word(76), size: word(80) };
    if info.size > MOST_BYTES {
        return Err(io::Error::from_raw_os_error(libc::EFBIG));
    }
    let mut entries = vec![0; ENTRIES + info.size as usize];
    entries[..length].copy_from_slice(&name.as_bytes()[..length]);
    entries[32..36].copy_from_slice(&info.size.to_ne_bytes());
    ask(&socket, level, GET_ENTRIES, &mut entries)?;
    Ok((info, entries))
}

/// Has the kernel fill `bytes`, which start with the request.
fn ask(
    socket: &impl AsRawFd,
    level: libc::c_int,
    option: libc::c_int,
    bytes: &mut [u8],
) -> io::Result<()> {
    let mut length = bytes.len() as libc::socklen_t;
    let place = bytes.as_mut_ptr().cast();
    // SAFETY: the kernel reads the question from and writes at most `length` bytes to `bytes`, which
    // are live, exclusive and as long.
    #[allow(unsafe_code)]
    let result = unsafe { libc::getsockopt(socket.as_raw_fd(), level, option, place, &mut length) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

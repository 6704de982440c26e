//! A TUN device: IP packets written to it enter the kernel's stack as if received
//! (Documentation/networking/tuntap.rst).

use std::fs::File;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::AsRawFd;
use std::path::Path;

/// `TUNSETIFF`: _IOW('T', 202, int).
const TUNSETIFF: libc::c_ulong = 0x4004_54ca;

/// File with which devices are made.
pub const DEVICE: &str = "/dev/net/tun";

/// A device that exists while its file is open.
pub struct Tun {
    /// File for packets, one per write; non-blocking.
    pub file: File,
    /// Name that the kernel assigned.
    pub name: String,
}

impl Tun {
    /// Makes a device and enables it; `%d` in the name becomes the first free number.
    ///
    /// # Errors
    /// When the kernel has no TUN driver or CAP_NET_ADMIN is missing.
    pub fn open(pattern: &str) -> io::Result<Self> {
        use std::os::unix::fs::OpenOptionsExt;
        let file = File::options()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC)
            .open(DEVICE)?;
        let mut request = named(pattern)?;
        request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI) as libc::c_short;
        ioctl(file.as_raw_fd(), TUNSETIFF, &mut request)?;
        let name: Vec<u8> =
            request.ifr_name.iter().map(|c| *c as u8).take_while(|c| *c != 0).collect();
        let name = String::from_utf8_lossy(&name).into_owned();
        set_up(&name)?;
        if let Err(error) = add_dummy_address(&name).and_then(|()| pass_reverse_path(&name)) {
            tracing::warn!(
                "{name}: {error}; if net.ipv4.conf.all.rp_filter is not 0, the kernel drops packets \
                 that arrive there"
            );
        }
        if let Err(error) = forward(&name) {
            tracing::warn!(
                "{name}: {error}; if net.ipv4.conf.default.forwarding is 0, the kernel drops packets \
                 that arrive there"
            );
        }
        Ok(Self { file, name })
    }
}

fn set_up(name: &str) -> io::Result<()> {
    use rustix::net::{AddressFamily, SocketType, socket};
    let socket = socket(AddressFamily::INET, SocketType::DGRAM, None)?;
    let mut request = named(name)?;
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS as libc::c_ulong, &mut request)?;
    Ok(())
}

/// Address for an interface that needs one and has none (RFC 7600, section 4.8).
const DUMMY: Ipv4Addr = Ipv4Addr::new(192, 0, 0, 8);

/// Lets packets from a device pass its reverse-path filter if the route back uses another
/// interface. Call it again from time to time: the filter's setting for all interfaces may change.
///
/// The larger of that setting and the device's own is in force, so 0 helps only if the setting for
/// all is 0, too. Otherwise 2 makes a strict filter a loose one. It lets packets pass from any
/// address that has a route, on an interface that has an address of its own
/// (net/ipv4/fib_frontend.c: __fib_validate_source()).
///
/// # Errors
/// When the setting cannot be written, or no address can be added.
pub fn pass_reverse_path(name: &str) -> io::Result<()> {
    let settings = Path::new("/proc/sys/net/ipv4/conf");
    let of_all = std::fs::read_to_string(settings.join("all/rp_filter"))?;
    let wanted = if of_all.trim() == "0" { "0" } else { "2" };
    let own = settings.join(name).join("rp_filter");
    set(&own, wanted)
}

/// Makes the kernel forward packets from a device, whatever the setting of other interfaces: they
/// arrived on a port at which it forwards. Call it again from time to time, since
/// `net.ipv4.ip_forward` sets all interfaces.
///
/// # Errors
/// When a setting cannot be written.
pub fn forward(name: &str) -> io::Result<()> {
    let settings = Path::new("/proc/sys/net");
    set(&settings.join("ipv4/conf").join(name).join("forwarding"), "1")?;
    // Since Linux 6.17. Older kernels forward IPv6 on all interfaces or on none.
    let forced = settings.join("ipv6/conf").join(name).join("force_forwarding");
    if forced.exists() { set(&forced, "1") } else { Ok(()) }
}

/// Writes a setting unless it already has the value.
fn set(path: &Path, value: &str) -> io::Result<()> {
    if std::fs::read_to_string(path)?.trim() != value {
        std::fs::write(path, value)?;
    }
    Ok(())
}

/// Gives a device an address from which nothing is sent (its scope is this host).
fn add_dummy_address(name: &str) -> io::Result<()> {
    let link = crate::namespace::interface_index(name).map_err(io::Error::other)?;
    crate::netlink::add_host_address(link, DUMMY)
}

pub(crate) fn named(name: &str) -> io::Result<libc::ifreq> {
    // SAFETY: all fields of `ifreq` are integers and unions of them, for which zero is valid.
    #[allow(unsafe_code)]
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    if name.len() >= request.ifr_name.len() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "interface name too long"));
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    Ok(request)
}

pub(crate) fn ioctl(
    descriptor: libc::c_int,
    code: libc::c_ulong,
    request: &mut libc::ifreq,
) -> io::Result<()> {
    // SAFETY: the requests of this file and of `tap` read and write exactly one `ifreq`, and `request` is
    // a live, exclusive one.
    #[allow(unsafe_code)]
    let result = unsafe { libc::ioctl(descriptor, code as _, std::ptr::from_mut(request)) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::namespace::Namespace;
    use std::io::Write;

    /// Returns an IPv4 packet without payload.
    fn packet(source: [u8; 4], destination: [u8; 4]) -> Vec<u8> {
        let mut bytes = vec![0x45, 0, 0, 20, 0, 0, 0, 0, 64, 253, 0, 0];
        bytes.extend(source);
        bytes.extend(destination);
        let sum: u32 =
            bytes.chunks(2).map(|it| u32::from(u16::from_be_bytes([it[0], it[1]]))).sum();
        let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
        bytes[10..12].copy_from_slice(&sum.to_be_bytes());
        bytes
    }

    /// Holds with any reverse-path filter of all interfaces, at the start and later.
    #[test]
    fn written_packets_are_forwarded_under_every_reverse_path_filter() {
        let made = Namespace::for_test(&[]).map_err(wattline_needs::rights);
        let Ok(namespace) = made else { return };
        namespace.ip("link add wl0 type veth peer name wl2").unwrap();
        namespace.ip("link add wl1 type veth peer name wl3").unwrap();
        namespace.ip("addr add 192.0.2.1/24 dev wl0").unwrap();
        namespace.ip("addr add 198.51.100.1/24 dev wl1").unwrap();
        for link in ["wl0", "wl1", "wl2", "wl3"] {
            namespace.ip(&format!("link set {link} up")).unwrap();
        }
        namespace.ip("neigh add 198.51.100.2 lladdr 02:00:00:00:00:09 dev wl1").unwrap();
        for link in ["wl0", "wl1"] {
            namespace.sysctl(&format!("net.ipv4.conf.{link}.forwarding"), "1").unwrap();
        }
        namespace
            .enter(|| {
                let sent = || -> u64 {
                    let path = "/proc/thread-self/net/dev";
                    let text = std::fs::read_to_string(path).unwrap();
                    let line = text.lines().find(|it| it.trim().starts_with("wl1:")).unwrap();
                    line.split_whitespace().nth(10).unwrap().parse().unwrap()
                };
                let set = |value: &str| {
                    for of in ["all", "default"] {
                        let path = format!("/proc/sys/net/ipv4/conf/{of}/rp_filter");
                        std::fs::write(path, value).unwrap();
                    }
                };
                let check = |tun: &Tun, what: &str| {
                    let before = sent();
                    (&tun.file).write_all(&packet([192, 0, 2, 9], [198, 51, 100, 2])).unwrap();
                    wattline_needs::until(&format!("rp_filter {what}: passed"), || {
                        sent() != before
                    });
                };
                for value in ["0", "1", "2"] {
                    set(value);
                    let tun = match Tun::open("wltest%d") {
                        Ok(tun) => tun,
                        Err(error) => return wattline_needs::machine(&error),
                    };
                    check(&tun, value);
                    for later in ["1", "2", "0"] {
                        set(later);
                        pass_reverse_path(&tun.name).unwrap();
                        check(&tun, &format!("{value}, then {later}"));
                    }
                }
            })
            .unwrap();
    }
}

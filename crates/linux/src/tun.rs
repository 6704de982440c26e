//! A TUN device: IP packets written to it enter the kernel's stack as if received
//! (Documentation/networking/tuntap.rst).

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// `TUNSETIFF`: _IOW('T', 202, int).
const TUNSETIFF: libc::c_ulong = 0x4004_54ca;

/// A device that exists as long as its file is open.
pub struct Tun {
    /// What packets are written to, one per write. Does not block.
    pub file: File,
    /// The name that the kernel gave it.
    pub name: String,
}

impl Tun {
    /// Makes a device and sets it up; `%d` in the name becomes the first free number.
    ///
    /// # Errors
    /// Where the kernel has no TUN driver or CAP_NET_ADMIN is missing.
    pub fn open(pattern: &str) -> io::Result<Self> {
        use std::os::unix::fs::OpenOptionsExt;
        let file = File::options()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC)
            .open("/dev/net/tun")?;
        let mut request = named(pattern)?;
        request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI) as libc::c_short;
        ioctl(file.as_raw_fd(), TUNSETIFF, &mut request)?;
        let name: Vec<u8> =
            request.ifr_name.iter().map(|c| *c as u8).take_while(|c| *c != 0).collect();
        let name = String::from_utf8_lossy(&name).into_owned();
        set_up(&name)?;
        Ok(Self { file, name })
    }
}

fn set_up(name: &str) -> io::Result<()> {
    use rustix::net::{AddressFamily, SocketType, socket};
    let socket = socket(AddressFamily::INET, SocketType::DGRAM, None)?;
    let mut request = named(name)?;
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS as libc::c_ulong, &mut request)?;
    // Packets come in here whose way back is by another interface: no reverse-path check.
    // Where the sysctl cannot be written, the setting for all interfaces decides.
    let _ = std::fs::write(format!("/proc/sys/net/ipv4/conf/{name}/rp_filter"), "0");
    Ok(())
}

fn named(name: &str) -> io::Result<libc::ifreq> {
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

fn ioctl(
    descriptor: libc::c_int,
    code: libc::c_ulong,
    request: &mut libc::ifreq,
) -> io::Result<()> {
    // SAFETY: both requests of this file read and write exactly one `ifreq`, and `request` is
    // a live, exclusive one.
    #[allow(unsafe_code)]
    let result = unsafe { libc::ioctl(descriptor, code as _, std::ptr::from_mut(request)) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

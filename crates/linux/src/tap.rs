//! A TAP device: Ethernet frames written to it enter the kernel as if received, and what the kernel
//! sends there can be read (Documentation/networking/tuntap.rst).

use crate::tun::{TUNSETIFF, ioctl, named};
use rustix::net::{AddressFamily, SocketType, socket};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;

/// `TUNSETCARRIER`: _IOW('T', 226, int).
const TUNSETCARRIER: libc::c_ulong = 0x4004_54e2;

/// Attaches to a persistent device (`ip tuntap add dev NAME mode tap`) and gives it an Ethernet address.
/// One frame is read or written at a time, neither blocks. The device has a carrier as long as the file
/// is open.
///
/// # Errors
/// Where there is no such device, it is another kind of interface, somebody else is attached, or
/// CAP_NET_ADMIN is missing.
pub fn attach(name: &str, mac: [u8; 6]) -> io::Result<File> {
    // The kernel would make one that goes with the file, without addresses.
    crate::namespace::interface_index(name).map_err(io::Error::other)?;
    let file = File::options()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC)
        .open("/dev/net/tun")?;
    let mut request = named(name)?;
    request.ifr_ifru.ifru_flags = (libc::IFF_TAP | libc::IFF_NO_PI) as libc::c_short;
    ioctl(file.as_raw_fd(), TUNSETIFF, &mut request)?;
    let socket = socket(AddressFamily::INET, SocketType::DGRAM, None)?;
    let mut request = named(name)?;
    let mut address = libc::sockaddr { sa_family: libc::ARPHRD_ETHER, sa_data: Default::default() };
    for (to, from) in address.sa_data.iter_mut().zip(mac) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_hwaddr = address;
    ioctl(socket.as_raw_fd(), libc::SIOCSIFHWADDR as libc::c_ulong, &mut request)?;
    Ok(file)
}

/// Takes the device's carrier away or gives it back, as a cable that is unplugged does. It has one after
/// [`attach`].
///
/// # Errors
/// When the kernel refuses.
pub fn set_carrier(tap: &File, carrier: bool) -> io::Result<()> {
    let value = libc::c_int::from(carrier);
    // SAFETY: the request reads one `int`, and `value` is a live one.
    #[allow(unsafe_code)]
    let result =
        unsafe { libc::ioctl(tap.as_raw_fd(), TUNSETCARRIER as _, std::ptr::from_ref(&value)) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::namespace::Namespace;
    use std::io::{Read, Write};
    use std::time::{Duration, Instant};

    const MAC: [u8; 6] = [2, 0, 0, 0, 0, 7];

    /// Who has 192.0.2.1, asks 192.0.2.2.
    fn request() -> Vec<u8> {
        let mut frame = vec![0xff; 6];
        frame.extend([2, 0, 0, 0, 0, 9, 8, 6, 0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 9]);
        frame.extend([192, 0, 2, 2, 0, 0, 0, 0, 0, 0, 192, 0, 2, 1]);
        frame
    }

    #[test]
    fn the_kernel_answers_by_it_with_the_address_that_it_was_given() {
        let namespace = match Namespace::create(format!("wl-tap-{}", std::process::id())) {
            Ok(namespace) => namespace,
            Err(error) => return wattline_needs::rights(&error),
        };
        if let Err(error) = namespace.ip("tuntap add dev wl0 mode tap") {
            return wattline_needs::machine(&error);
        }
        namespace.ip("link add wl1 type veth peer name wl2").unwrap();
        namespace.ip("addr add 192.0.2.1/24 dev wl0").unwrap();
        namespace.ip("link set wl0 up").unwrap();
        namespace
            .enter(|| {
                assert!(attach("wl9", MAC).is_err(), "there is none, and none is made");
                assert!(crate::namespace::interface_index("wl9").is_err());
                assert!(attach("wl1", MAC).is_err(), "it is no TAP device");
                let mut tap = attach("wl0", MAC).unwrap();
                assert!(attach("wl0", MAC).is_err(), "somebody is attached");
                // Again and again, as whoever asks does: the kernel drops what comes before the device
                // runs.
                let end = Instant::now() + Duration::from_secs(60);
                let mut asks = Instant::now();
                let mut frame = [0; 2048];
                // Among what the kernel says of its own accord.
                loop {
                    assert!(Instant::now() < end, "no answer");
                    if asks <= Instant::now() {
                        tap.write_all(&request()).unwrap();
                        asks = Instant::now() + Duration::from_millis(100);
                    }
                    match tap.read(&mut frame) {
                        Ok(_) if frame[12..14] == [8, 6] && frame[21] == 2 => break,
                        Ok(_) => {}
                        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                            std::thread::sleep(Duration::from_millis(1));
                        }
                        Err(error) => panic!("{error}"),
                    }
                }
                assert_eq!((&frame[6..12], &frame[22..28]), (&MAC[..], &MAC[..]));
                for carrier in [false, true] {
                    set_carrier(&tap, carrier).unwrap();
                    let ip =
                        std::process::Command::new("ip").args(["link", "show", "wl0"]).output();
                    let said = String::from_utf8(ip.unwrap().stdout).unwrap();
                    assert_eq!(said.contains("LOWER_UP"), carrier, "{said}");
                }
            })
            .unwrap();
    }
}

//! A TUN device, by which punted packets enter the kernel.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::sync::Arc;
use wattline_dataplane::drop_reason::DropReason;
use wattline_dataplane::frame::{Frame, FramePool};
use wattline_dataplane::punt::PuntSink;
use wattline_linux::tun::{DEVICE, Tun};

const ETHERNET_HEADER: usize = 14;
const VLAN_TAG: usize = 4;

/// The device; it goes away with the last sink.
pub(super) struct Tunnel {
    file: Arc<File>,
    /// The device's name.
    pub name: String,
}

impl Tunnel {
    /// Creates the device; `None` if that is impossible. Packets that workers would punt are then
    /// dropped.
    pub fn open() -> Option<Self> {
        match Tun::open("wattline%d") {
            Ok(tun) => {
                tracing::info!("packets for the kernel go through {}", tun.name);
                Some(Self { file: Arc::new(tun.file), name: tun.name })
            }
            Err(error) => {
                tracing::warn!("{}", advice(&error));
                None
            }
        }
    }

    /// Returns a worker's end.
    pub fn sink(&self) -> TunnelSink {
        TunnelSink { file: self.file.clone() }
    }
}

/// Describes the lack of a device, and the remedy.
fn advice(error: &std::io::Error) -> String {
    let remedy = match error.kind() {
        ErrorKind::NotFound => {
            "load the module with `modprobe tun`; a container gets the file by `--device /dev/net/tun`"
        }
        ErrorKind::PermissionDenied => {
            "allow it to this process: `--device /dev/net/tun` of a container, DeviceAllow= of a unit, \
             CAP_NET_ADMIN"
        }
        _ => "see that the kernel has the driver tun",
    };
    format!(
        "{DEVICE}: {error}: workers cannot return taken packets to the kernel, and drop them as \
         {}; {remedy}, and restart",
        DropReason::PuntUnavailable.name()
    )
}

/// Writes punted packets to the device, one system call per packet, since they are rare.
pub(super) struct TunnelSink {
    file: Arc<File>,
}

impl PuntSink for TunnelSink {
    fn punt(&mut self, pool: &mut FramePool, frame: &Frame) -> Result<(), DropReason> {
        let packet = ip_packet(pool.frame_bytes(frame)).ok_or(DropReason::PuntRefused)?;
        write(&self.file, packet)?;
        pool.free(frame.offset);
        Ok(())
    }
}

/// Writes a packet to the device, which counts later losses (`ip -s link`).
fn write(mut device: &File, packet: &[u8]) -> Result<(), DropReason> {
    match device.write(packet) {
        Ok(length) if length == packet.len() => Ok(()),
        Ok(_) => Err(DropReason::PuntRefused),
        Err(error) => Err(match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::OutOfMemory => DropReason::PuntQueueFull,
            _ => DropReason::PuntRefused,
        }),
    }
}

/// Returns the IP packet of a frame, with or without a VLAN tag. Other protocols do not get here:
/// the XDP program leaves them to the kernel.
fn ip_packet(frame: &[u8]) -> Option<&[u8]> {
    let ether_type = |at: usize| Some(u16::from_be_bytes(*frame.get(at..)?.first_chunk()?));
    let (kind, start) = match ether_type(12)? {
        0x8100 | 0x88a8 => (ether_type(12 + VLAN_TAG)?, ETHERNET_HEADER + VLAN_TAG),
        kind => (kind, ETHERNET_HEADER),
    };
    matches!(kind, 0x0800 | 0x86dd).then(|| &frame[start..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_device_is_distinguished_from_a_full_one() {
        use std::os::fd::OwnedFd;
        let (reader, writer) = std::io::pipe().unwrap();
        let device = File::from(OwnedFd::from(writer));
        rustix::io::ioctl_fionbio(&device, true).unwrap();
        let mut result = Ok(());
        let written = (0..1000).take_while(|_| {
            result = write(&device, &[0; 4096]);
            result.is_ok()
        });
        assert!(written.count() > 0);
        assert_eq!(result, Err(DropReason::PuntQueueFull));
        drop(reader);
        assert_eq!(write(&device, &[0; 4096]), Err(DropReason::PuntRefused));
    }

    #[test]
    fn missing_device_is_named_with_the_remedy() {
        for kind in [ErrorKind::NotFound, ErrorKind::PermissionDenied] {
            let advice = advice(&kind.into());
            for part in ["/dev/net/tun: ", "--device /dev/net/tun", "punt-unavailable"] {
                assert!(advice.contains(part), "{part} in: {advice}");
            }
        }
    }

    #[test]
    fn packet_begins_behind_the_headers() {
        let mut frame = vec![0; 14];
        frame[12..14].copy_from_slice(&[0x08, 0x00]);
        frame.push(0x45);
        assert_eq!(ip_packet(&frame), Some(&[0x45][..]));
        frame[12..14].copy_from_slice(&[0x81, 0x00]);
        frame[14..].copy_from_slice(&[0]);
        frame.extend([7, 0x86, 0xdd, 0x60]);
        assert_eq!(ip_packet(&frame), Some(&[0x60][..]));
        assert_eq!(ip_packet(&[0; 60]), None);
        assert_eq!(ip_packet(&[]), None);
    }
}

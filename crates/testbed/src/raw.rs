//! Raw frames: a packet socket (packet(7)) on one interface of a namespace.

use crate::Error;
use crate::clock::monotonic_nanos;
use crate::namespace::Namespace;
use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, LinkAddr, MsgFlags, SockFlag, SockProtocol, SockType, bind, recvfrom, send,
    socket,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt::set_socket_recv_buffer_size_force;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;

/// Room for a burst until it is read: all captures of a run fit.
const RECEIVE_BUFFER: usize = 64 << 20;
/// Packet type of an outgoing frame (packet(7)).
const PACKET_OUTGOING: u8 = 4;
/// Longest frame that is received completely.
pub const FRAME_MAX: usize = 9_216;

/// An open packet socket, which sends and receives complete Ethernet frames.
#[derive(Debug)]
pub struct RawSocket {
    socket: OwnedFd,
}

/// A received frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Received {
    /// Time of arrival on [`crate::clock`].
    pub nanos: u64,
    /// Bytes from the Ethernet header on.
    pub frame: Vec<u8>,
}

impl RawSocket {
    /// Opens a socket on `interface` of `namespace`.
    ///
    /// # Errors
    /// Fails without `CAP_NET_RAW`, or if there is no such interface.
    pub fn open(namespace: &Namespace, interface: &str) -> Result<Self, Error> {
        namespace.enter(|| Self::open_here(interface))?
    }

    fn open_here(interface: &str) -> Result<Self, Error> {
        let failed = |action: &str, errno: Errno| Error::io(format!("{action} {interface}"), errno);
        let address = link_address(interface)?;
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let socket = socket(AddressFamily::Packet, SockType::Raw, flags, SockProtocol::EthAll)
            .map_err(|errno| failed("opening a packet socket for", errno))?;
        set_socket_recv_buffer_size_force(&socket, RECEIVE_BUFFER)
            .map_err(|source| Error::io("enlarging a receive buffer", source))?;
        bind(socket.as_raw_fd(), &address)
            .map_err(|errno| failed("binding a packet socket to", errno))?;
        Ok(Self { socket })
    }

    /// Sends a frame, waiting while the interface's queue is full. Returns false if the interface
    /// refuses it as too long.
    ///
    /// # Errors
    /// Fails when the interface is down or gone.
    pub fn send(&self, frame: &[u8]) -> Result<bool, Error> {
        loop {
            match send(self.socket.as_raw_fd(), frame, MsgFlags::empty()) {
                Ok(_) => return Ok(true),
                Err(Errno::EMSGSIZE) => return Ok(false),
                Err(Errno::EAGAIN | Errno::ENOBUFS | Errno::EINTR) => std::thread::yield_now(),
                Err(errno) => return Err(Error::io("sending a frame", errno)),
            }
        }
    }

    /// Receives a frame within `milliseconds`; skips frames sent by this machine.
    pub fn receive(&self, buffer: &mut [u8], milliseconds: u32) -> Option<usize> {
        let wait = Timespec { tv_sec: 0, tv_nsec: i64::from(milliseconds) * 1_000_000 };
        loop {
            match recvfrom::<LinkAddr>(self.socket.as_raw_fd(), buffer) {
                Ok((_, Some(from))) if from.pkttype() == PACKET_OUTGOING => {}
                Ok((length, _)) => return Some(length),
                Err(_) => {
                    let mut descriptors = [PollFd::new(&self.socket, PollFlags::IN)];
                    if poll(&mut descriptors, Some(&wait)).ok()? == 0 {
                        return None;
                    }
                }
            }
        }
    }
}

/// Returns the address that binds a packet socket to an interface of the present namespace.
pub(crate) fn link_address(interface: &str) -> Result<LinkAddr, Error> {
    let all = nix::ifaddrs::getifaddrs().map_err(|errno| Error::io("listing interfaces", errno))?;
    all.filter(|entry| entry.interface_name == interface)
        .find_map(|entry| entry.address?.as_link_addr().copied())
        .ok_or_else(|| Error::io(format!("looking for interface {interface}"), Errno::ENODEV))
}

/// Records all frames that arrive at an interface, on a separate thread.
#[derive(Debug)]
pub struct Sniffer {
    stop: Arc<AtomicBool>,
    count: Arc<AtomicUsize>,
    thread: JoinHandle<Vec<Received>>,
}

impl Sniffer {
    /// Begins to record frames that satisfy `wanted`.
    ///
    /// # Errors
    /// Fails as [`RawSocket::open`].
    pub fn start(
        namespace: &Namespace,
        interface: &str,
        wanted: impl Fn(&[u8]) -> bool + Send + 'static,
    ) -> Result<Self, Error> {
        let socket = RawSocket::open(namespace, interface)?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopping = Arc::clone(&stop);
        let count = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&count);
        let thread = std::thread::spawn(move || {
            let mut buffer = vec![0; FRAME_MAX];
            let mut received = Vec::new();
            loop {
                // Loaded before receiving, so that frames that arrived before the stop are still
                // recorded.
                let last = stopping.load(Ordering::Acquire);
                match socket.receive(&mut buffer, 20) {
                    Some(length) if wanted(&buffer[..length]) => {
                        let frame = buffer[..length].to_vec();
                        received.push(Received { nanos: monotonic_nanos(), frame });
                        counted.store(received.len(), Ordering::Release);
                    }
                    Some(_) => {}
                    None if last => return received,
                    None => {}
                }
            }
        });
        Ok(Self { stop, count, thread })
    }

    /// Returns the number of frames so far.
    pub fn count(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    /// Stops and returns the frames in order.
    pub fn finish(self) -> Vec<Received> {
        self.stop.store(true, Ordering::Release);
        self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::leftovers::can_build_namespaces;
    use crate::topology::{LEFT, Options, SINK, SOURCE, Topology};

    #[test]
    fn frame_passes_the_kernel_router() {
        if !can_build_namespaces("frame_passes_the_kernel_router") {
            return;
        }
        let topology =
            Topology::build(Options { static_neighbours: true, ..Options::default() }).unwrap();
        let sniffer = Sniffer::start(&topology.sink, SINK.interface, |frame| {
            frame.ends_with(b"across the router")
        })
        .unwrap();
        let socket = RawSocket::open(&topology.source, SOURCE.interface).unwrap();
        let payload = b"across the router";
        let mut frame = Vec::new();
        frame.extend(LEFT.mac);
        frame.extend(SOURCE.mac);
        frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, payload.len() as u8, 253, 64]);
        frame.extend(SOURCE.v6.octets());
        frame.extend(SINK.v6.octets());
        frame.extend(payload);
        assert!(socket.send(&frame).unwrap());
        assert!(!socket.send(&[0; 4000]).unwrap(), "longer than the MTU");
        let received = sniffer.finish();
        assert_eq!(received.len(), 1);
        assert_eq!(received[0].frame[..6], SINK.mac);
        assert_eq!(received[0].frame[21], 63, "hop limit");
    }
}

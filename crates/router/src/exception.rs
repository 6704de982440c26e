//! The kernel's part of a port that no kernel driver serves: ARP, neighbour discovery, routing protocols,
//! packets to and from this machine. A TAP device stands for the port in the kernel; what workers leave to
//! the kernel is written there ([`KernelSink`]), and what the kernel sends there leaves by the port
//! ([`WithKernel`]).

use super::tun::{TunnelSink, write};
use std::fs::File;
use std::io::Read;
use std::sync::Arc;
use wattline_dataplane::drop_reason::DropReason;
use wattline_dataplane::frame::{Frame, FramePool};
use wattline_dataplane::port::{PortCounters, PortId, PortQueue};
use wattline_dataplane::punt::PuntSink;

/// The device is asked for frames once in so many rounds: every 20 to 50 µs by a worker without work,
/// about every millisecond by a busy one.
const ROUNDS: u32 = 256;
/// Most frames that are taken then: what the kernel sends must not hold up what is forwarded.
const MOST: usize = 32;
/// The shortest frame that can be one.
const ETHERNET_HEADER: usize = 14;

/// A TAP device that stands for a port.
#[derive(Debug, Clone)]
pub(super) struct Tap {
    pub file: Arc<File>,
    /// Its Ethernet address, and the port's.
    pub mac: [u8; 6],
}

/// A queue of a port that also sends what the kernel sends to the port's TAP device.
pub(super) struct WithKernel<Q> {
    queue: Q,
    tap: Tap,
    rounds: u32,
}

impl<Q: PortQueue> WithKernel<Q> {
    pub fn new(queue: Q, tap: Tap) -> Self {
        Self { queue, tap, rounds: 0 }
    }

    #[cold]
    fn send_from_kernel(&mut self, pool: &mut FramePool) {
        for _ in 0..MOST {
            let Some(chunk) = pool.take_chunk() else { break };
            let offset = chunk + pool.headroom();
            let room = (pool.chunk_size() - pool.headroom()).min(u32::from(u16::MAX)) as u16;
            let to = pool.frame_bytes(&Frame { offset, length: room, port_in: PortId(0) });
            // Longer frames are cut; the TAP device's MTU keeps the kernel from sending any.
            let read = (&*self.tap.file).read(to);
            let frame = match read {
                Ok(length) if length >= ETHERNET_HEADER => {
                    Frame { offset, length: length as u16, port_in: PortId(0) }
                }
                // Nothing is there, or the device is gone.
                _ => {
                    pool.free(chunk);
                    break;
                }
            };
            if self.queue.transmit(pool, &[frame]) == 0 {
                pool.free(chunk);
                break;
            }
        }
        self.queue.flush(pool);
    }
}

impl<Q: PortQueue> PortQueue for WithKernel<Q> {
    fn receive(&mut self, pool: &mut FramePool, frames: &mut [Frame]) -> usize {
        self.queue.receive(pool, frames)
    }

    fn transmit(&mut self, pool: &mut FramePool, frames: &[Frame]) -> usize {
        self.queue.transmit(pool, frames)
    }

    fn refuses(&self) -> DropReason {
        self.queue.refuses()
    }

    fn flush(&mut self, pool: &mut FramePool) {
        self.queue.flush(pool);
    }

    fn recycle(&mut self, pool: &mut FramePool) {
        self.queue.recycle(pool);
        self.rounds += 1;
        if self.rounds >= ROUNDS {
            self.rounds = 0;
            self.send_from_kernel(pool);
        }
    }

    fn pending(&mut self) -> usize {
        self.queue.pending()
    }

    fn unsent(&mut self) -> usize {
        self.queue.unsent()
    }

    fn counters(&self) -> PortCounters {
        self.queue.counters()
    }
}

/// Writes punted frames to the TAP device of the port that they came in at; a system call per frame, as
/// with the tunnel. What the router has unpacked itself (IPsec) has no Ethernet header of that port any
/// more and goes through the tunnel, as everything of ports without a TAP device.
pub(super) struct KernelSink {
    /// By port.
    taps: Vec<Option<Tap>>,
    tunnel: Option<TunnelSink>,
}

impl KernelSink {
    pub fn new(taps: Vec<Option<Tap>>, tunnel: Option<TunnelSink>) -> Self {
        Self { taps, tunnel }
    }
}

impl PuntSink for KernelSink {
    fn punt(&mut self, pool: &mut FramePool, frame: &Frame) -> Result<(), DropReason> {
        let tap = self.taps.get(usize::from(frame.port_in.0)).and_then(Option::as_ref);
        let bytes = pool.frame_bytes(frame);
        let for_tap =
            |tap: &&Tap| bytes.starts_with(&tap.mac) || bytes.first().is_some_and(is_group);
        let Some(tap) = tap.filter(for_tap) else {
            let tunnel = self.tunnel.as_mut().ok_or(DropReason::PuntUnavailable)?;
            return tunnel.punt(pool, frame);
        };
        write(&tap.file, bytes)?;
        pool.free(frame.offset);
        Ok(())
    }
}

/// Whether this is the first byte of an Ethernet group address.
fn is_group(first: &u8) -> bool {
    first & 1 != 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixDatagram;
    use wattline_ports::memory::wire;

    const MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];

    fn pool() -> FramePool {
        FramePool::zeroed(64, 2048, 256)
    }

    /// A TAP device, and the kernel's end of it.
    fn tap() -> (Tap, UnixDatagram) {
        let (near, far) = UnixDatagram::pair().unwrap();
        near.set_nonblocking(true).unwrap();
        far.set_nonblocking(true).unwrap();
        (Tap { file: Arc::new(File::from(OwnedFd::from(near))), mac: MAC }, far)
    }

    fn put(pool: &mut FramePool, port: u16, bytes: &[u8]) -> Frame {
        let offset = pool.take_chunk().unwrap() + pool.headroom();
        let frame = Frame { offset, length: bytes.len() as u16, port_in: PortId(port) };
        pool.frame_bytes(&frame).copy_from_slice(bytes);
        frame
    }

    #[test]
    fn frames_of_the_kernel_leave_by_the_port_some_at_a_time() {
        let (tap, kernel) = tap();
        let (mut far, near) = wire(128, 2048);
        let mut queue = WithKernel::new(near.into_queue(PortId(0)), tap);
        let mut pool = pool();
        for number in 0..40 {
            kernel.send(&[number; 60]).unwrap();
        }
        for _ in 0..ROUNDS {
            assert_eq!(far.receive(), None);
            queue.recycle(&mut pool);
        }
        let sent = |far: &mut wattline_ports::memory::WireEnd| {
            std::iter::from_fn(|| far.receive()).collect::<Vec<_>>()
        };
        let first = sent(&mut far);
        assert_eq!(first.len(), MOST);
        assert_eq!((&first[0], &first[31]), (&vec![0; 60], &vec![31; 60]));
        (0..ROUNDS).for_each(|_| queue.recycle(&mut pool));
        assert_eq!(sent(&mut far).len(), 8);
        assert_eq!(pool.free_chunks(), 64);
    }

    #[test]
    fn a_full_port_or_a_device_that_is_gone_costs_no_chunk() {
        let (tap, kernel) = tap();
        let (_far, near) = wire(1, 2048);
        let mut queue = WithKernel::new(near.into_queue(PortId(0)), tap);
        let mut pool = pool();
        (0..5).for_each(|_| assert_eq!(kernel.send(&[1; 60]).unwrap(), 60));
        queue.send_from_kernel(&mut pool);
        assert_eq!((pool.free_chunks(), queue.counters().transmitted_packets), (64, 1));
        drop(kernel);
        (0..5).for_each(|_| queue.send_from_kernel(&mut pool));
        assert_eq!(pool.free_chunks(), 64);
    }

    #[test]
    fn punted_frames_reach_the_kernel_as_they_came_at_the_port_where_they_came() {
        let (left, left_kernel) = tap();
        let (right, right_kernel) = tap();
        let mut sink = KernelSink::new(vec![Some(left), None, Some(right)], None);
        let mut pool = pool();
        let ours = [&MAC[..], &[9; 54]].concat();
        let broadcast = [0xff; 60];
        let unpacked = [0; 60];
        for (port, bytes) in [(0, &ours[..]), (2, &broadcast)] {
            let frame = put(&mut pool, port, bytes);
            assert_eq!(sink.punt(&mut pool, &frame), Ok(()));
        }
        // Without a tunnel, nothing takes these.
        for (port, bytes) in [(2, &unpacked[..]), (1, &ours)] {
            let frame = put(&mut pool, port, bytes);
            assert_eq!(sink.punt(&mut pool, &frame), Err(DropReason::PuntUnavailable));
            pool.free(frame.offset);
        }
        assert_eq!(pool.free_chunks(), 64);
        let got = |kernel: &UnixDatagram| {
            let mut buffer = [0; 2048];
            let next = || kernel.recv(&mut buffer).ok().map(|length| buffer[..length].to_vec());
            std::iter::from_fn(next).collect::<Vec<_>>()
        };
        assert_eq!(got(&left_kernel), [ours]);
        assert_eq!(got(&right_kernel), [broadcast]);
    }
}

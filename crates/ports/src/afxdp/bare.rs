//! A minimal loop that forwards over AF_XDP, as a yardstick: the rest of a worker's time is the
//! data plane's.

use super::address::QueueAddress;
use super::error::OpenError;
use super::fill_level::FillLevel;
use super::layout::Layout;
use super::open::map_memory;
use super::options::{CopyMode, Options};
use super::socket::Socket;
use rustix::fd::{AsFd, BorrowedFd};
use rustix::io::Errno;
use rustix::net::xdp::XdpDesc;
use std::sync::Arc;
use wattline_memory::{ChunkMemory, Pages};

/// Takes frames from one queue, writes MAC addresses and sends them on another, in copy mode.
///
/// It opens its sockets like a worker, with the same rings and kicks, and lends the kernel as few
/// chunks as a queue under load. It makes no look-ups, trusts every descriptor, counts nothing, and
/// serves only one direction.
pub struct BareLoop {
    from: Socket,
    to: Socket,
    memory: ChunkMemory,
    _region: Arc<Pages>,
    /// Addresses of chunks that no ring holds.
    free: Vec<u64>,
    /// Destination, then source.
    macs: [u8; 12],
}

impl BareLoop {
    /// Opens both queues over one memory.
    ///
    /// # Errors
    /// See [`OpenError`]; nothing stays open then.
    pub fn open(
        from: &QueueAddress,
        to: &QueueAddress,
        options: &Options,
        macs: [u8; 12],
    ) -> Result<Self, OpenError> {
        let layout = Layout::new(from.mtu.max(to.mtu), options.headroom);
        let (memory, region) = map_memory(2, options, layout)?;
        let open = |address, sharing| {
            Socket::open(address, &region, layout, options, CopyMode::Copy, sharing)
        };
        let from = open(from, None)?;
        let to = open(to, Some(from.as_fd()))?;
        let chunk = layout.chunk() as usize;
        let free = (0..memory.length()).step_by(chunk).map(|address| address as u64).collect();
        let mut opened = Self { from, to, memory, _region: region, free, macs };
        opened.fill_up();
        Ok(opened)
    }

    /// Returns the receiving socket, for the map of the interface's XDP program.
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.from.as_fd()
    }

    /// Forwards up to `batch` frames, frees sent chunks, and returns the number of frames.
    pub fn step(&mut self, batch: usize) -> usize {
        let mut count = 0;
        while count < batch {
            let Some(XdpDesc { addr, len, options }) = self.from.receive.pop() else { break };
            if let Some(header) = self.memory.array_mut::<12>(addr as usize) {
                *header = self.macs;
            }
            if !self.to.transmit.push(XdpDesc { addr, len, options }) {
                self.free.push(addr);
            }
            count += 1;
        }
        if count > 0 {
            self.from.receive.release();
            self.to.transmit.publish();
        }
        self.kick();
        while let Some(address) = self.to.completion.pop() {
            self.free.push(address);
        }
        self.to.completion.release();
        self.fill_up();
        count
    }

    /// Returns true while frames wait to be received or sent.
    pub fn is_pending(&mut self) -> bool {
        self.from.receive.available() + self.to.transmit.waiting() > 0
    }

    fn kick(&mut self) {
        let mut waiting = self.to.transmit.waiting();
        while waiting > 0 && self.to.transmit.needs_wakeup() {
            let again = matches!(self.to.kick_transmit(), Err(Errno::AGAIN | Errno::INTR));
            let left = self.to.transmit.waiting();
            if !again || left >= waiting {
                break;
            }
            waiting = left;
        }
    }

    fn fill_up(&mut self) {
        let free = self.from.fill.free();
        let lent = self.from.fill.size() - free + self.from.receive.available();
        let free = free.min(FillLevel::LEAST.saturating_sub(lent));
        if free < FillLevel::BATCH {
            return;
        }
        for _ in 0..free {
            let Some(address) = self.free.pop() else { break };
            self.from.fill.push(address);
        }
        self.from.fill.publish();
        if self.from.fill.needs_wakeup() {
            // On an error, the kernel takes the chunks with the next frame.
            let _ = self.from.kick_receive();
        }
    }
}

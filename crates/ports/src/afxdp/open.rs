//! Opening all queues of a worker over one shared frame memory.

use super::address::QueueAddress;
use super::error::OpenError;
use super::layout::{KERNEL_HEADROOM, LINK_OVERHEAD, Layout};
use super::options::{CopyMode, Options};
use super::queue::AfXdpQueue;
use super::socket::Socket;
use rustix::fd::BorrowedFd;
use rustix::io::Errno;
use std::sync::Arc;
use std::time::Duration;
use wattline_dataplane::frame::{BATCH_MAX, ChunkMemory, FramePool};
use wattline_memory::Pages;

/// A worker's AF_XDP queues and memory.
pub struct OpenedWorker {
    /// The memory that all the queues share.
    pub pool: FramePool,
    /// The queues, in the requested order.
    pub queues: Vec<AfXdpQueue>,
    /// The memory for queues that are opened later.
    pub memory: WorkerMemory,
}

/// The frame memory of a worker, for queues that are opened when an interface has returned.
pub struct WorkerMemory {
    region: Arc<Pages>,
    layout: Layout,
    options: Options,
}

impl OpenedWorker {
    /// Returns the length in bytes of the longest IP packet that the queues receive, in a frame
    /// with a VLAN tag. The kernel drops longer ones.
    pub fn longest_packet(&self) -> u16 {
        let room = self.pool.chunk_size().saturating_sub(self.pool.headroom() + LINK_OVERHEAD);
        room.try_into().unwrap_or(u16::MAX)
    }
}

impl WorkerMemory {
    /// Opens another queue, which lends the kernel nothing before its worker first receives.
    ///
    /// `sharing` are sockets of the same worker: the first one that the kernel accepts as the owner
    /// of the memory is used. If it accepts none (their interfaces are gone, too, or their copy
    /// mode differs), the memory is registered again, which counts against the limit of locked
    /// memory a second time.
    ///
    /// # Errors
    /// See [`OpenError`]; does not wait for a queue that is in use.
    pub fn open(
        &self,
        address: &QueueAddress,
        sharing: &[BorrowedFd<'_>],
    ) -> Result<AfXdpQueue, OpenError> {
        let open = |copy, sharing| {
            let Self { region, layout, options } = self;
            let options = Options { patience: Duration::ZERO, ..*options };
            Socket::open(address, region, *layout, &options, copy, sharing)
        };
        let copy = wanted(self.options.copy, std::slice::from_ref(address));
        let shared = sharing.iter().find_map(|owner| open(copy, Some(*owner)).ok());
        let socket = match shared.map_or_else(|| open(copy, None), Ok) {
            Err(OpenError::NoZeroCopy { .. }) if copy == CopyMode::Auto => {
                open(CopyMode::Copy, None)?
            }
            socket => socket?,
        };
        Ok(AfXdpQueue::new(address.port, socket, &self.region, self.layout, self.options.lend_all))
    }
}

/// Opens the queues of one worker: one socket each, one UMEM for all. Without addresses, only the
/// memory is allocated, for the queues of [`Options::later`].
///
/// The chunk is the smallest that holds the frames of every interface. If that is more than a page,
/// frames are received and sent in several pieces, which requires Linux 6.6; on an older kernel,
/// only packets in one piece are taken, if [`Options::leaves_long`] allows that. The pool has
/// enough chunks for all rings of all queues to be full at once, so that no fill ring starves
/// because another port is congested. With [`CopyMode::Auto`] all sockets are zero-copy if every
/// driver supports it, otherwise all copy: a shared UMEM allows no mix.
///
/// # Errors
/// See [`OpenError`]; nothing stays open then.
pub fn open_worker(
    addresses: &[QueueAddress],
    options: &Options,
) -> Result<OpenedWorker, OpenError> {
    if addresses.is_empty() && options.later == 0 {
        return Err(OpenError::NoQueues);
    }
    let ring_allowed = Options::RING_MIN..=Options::RING_MAX;
    if !options.ring.is_power_of_two() || !ring_allowed.contains(&options.ring) {
        return Err(OpenError::RingSize(options.ring));
    }
    let copy = wanted(options.copy, addresses);
    let open = |layout| match open_all(addresses, options, layout, copy) {
        // One of several drivers lacks zero-copy, so all copy.
        Err(OpenError::NoZeroCopy { .. }) if copy == CopyMode::Auto => {
            open_all(addresses, options, layout, CopyMode::Copy)
        }
        result => result,
    };
    // Without a socket it is unknown if this kernel supports frames in several pieces.
    let largest = if addresses.is_empty() { Layout::PAGE } else { Layout::LARGEST };
    let layout = layout_for(addresses, options.later_mtu, largest, options.headroom)?;
    match open(layout) {
        // Before Linux 6.6 the kernel returns this error also for frames in several pieces.
        Err(OpenError::NoSuchQueue { .. }) if layout.pieces > 1 => {
            let opened = open(Layout::PAGE)?;
            if !options.leaves_long {
                layout_for(addresses, 0, Layout::PAGE, options.headroom)?;
            }
            Ok(opened)
        }
        result => result,
    }
}

/// Returns the mode for these queues, which share one memory: all copy if one of them has to.
fn wanted(copy: CopyMode, addresses: &[QueueAddress]) -> CopyMode {
    if addresses.iter().any(|address| address.copies) { CopyMode::Copy } else { copy }
}

/// Returns the largest MTU in bytes that AF_XDP supports with this much extra headroom.
pub fn largest_mtu(headroom: u32) -> u32 {
    Layout::LARGEST.largest_mtu(headroom)
}

/// Returns the same for frames in one piece of memory.
pub fn largest_mtu_in_one_piece(headroom: u32) -> u32 {
    Layout::PAGE.largest_mtu(headroom)
}

/// Returns the layout for these queues and for later ones, which must not exceed `largest`.
fn layout_for(
    addresses: &[QueueAddress],
    later_mtu: u32,
    largest: Layout,
    headroom: u32,
) -> Result<Layout, OpenError> {
    let limit = largest.largest_mtu(headroom);
    if let Some(address) = addresses.iter().find(|address| address.mtu > limit) {
        let interface = address.interface.clone();
        return Err(OpenError::MtuTooLarge { interface, mtu: address.mtu, limit });
    }
    let mtus = addresses.iter().map(|address| address.mtu);
    let mtu = mtus.chain([later_mtu.min(limit)]).max().unwrap_or(0);
    Ok(Layout::new(mtu, headroom))
}

/// Maps memory with which all rings of this many queues can be full at once, with some batches in
/// processing.
pub(super) fn map_memory(
    queues: usize,
    options: &Options,
    layout: Layout,
) -> Result<(ChunkMemory, Arc<Pages>), OpenError> {
    // Fill, receive and transmit ring of each queue.
    let chunks = queues * 3 * options.ring as usize + 8 * BATCH_MAX;
    let bytes = chunks * layout.chunk() as usize;
    let (memory, region) = ChunkMemory::map(bytes, layout.chunk() as usize)
        .map_err(|source| OpenError::Memory { action: "allocating the frame memory", source })?;
    if u32::try_from(region.length()).is_err() {
        // More than 1000 queues of the largest rings: a frame's offset has 32 bits.
        return Err(OpenError::Memory {
            action: "dividing more than 4 GiB of frame memory",
            source: Errno::OVERFLOW,
        });
    }
    Ok((memory, region))
}

fn open_all(
    addresses: &[QueueAddress],
    options: &Options,
    layout: Layout,
    copy: CopyMode,
) -> Result<OpenedWorker, OpenError> {
    let (memory, region) = map_memory(addresses.len() + options.later, options, layout)?;
    let mut pool = FramePool::new(memory, KERNEL_HEADROOM + options.headroom);
    let mut queues: Vec<AfXdpQueue> = Vec::with_capacity(addresses.len());
    for address in addresses {
        let sharing = queues.first().map(AfXdpQueue::socket);
        let socket = Socket::open(address, &region, layout, options, copy, sharing)?;
        queues.push(AfXdpQueue::new(address.port, socket, &region, layout, options.lend_all));
    }
    for queue in &mut queues {
        queue.fill_up(&mut pool);
    }
    let memory = WorkerMemory { region, layout, options: *options };
    Ok(OpenedWorker { pool, queues, memory })
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattline_dataplane::port::PortId;

    fn address(mtu: u32) -> QueueAddress {
        QueueAddress {
            port: PortId(0),
            interface: "x0".into(),
            ifindex: 1,
            queue: 0,
            mtu,
            copies: false,
        }
    }

    #[test]
    fn chunk_fits_every_port() {
        let of = |mtus: &[u32]| {
            let addresses: Vec<QueueAddress> = mtus.iter().map(|mtu| address(*mtu)).collect();
            layout_for(&addresses, 0, Layout::LARGEST, 0).unwrap().chunk()
        };
        assert_eq!(of(&[1500]), 2048);
        assert_eq!(of(&[1500, 3822]), 4096);
        assert_eq!(of(&[9000, 1500]), 16_384);
        let later = |mtu, largest| layout_for(&[address(1500)], mtu, largest, 0).unwrap().chunk();
        assert_eq!(later(9000, Layout::LARGEST), 16_384);
        assert_eq!((later(9000, Layout::PAGE), later(100_000, Layout::LARGEST)), (4096, 16_384));
    }

    #[test]
    fn mtu_beyond_all_chunks_is_refused_with_the_limit() {
        let addresses = [address(1500), address(16_111)];
        let text = layout_for(&addresses, 0, Layout::LARGEST, 0).unwrap_err().to_string();
        assert!(text.contains("16111") && text.contains("16110") && text.contains("x0"), "{text}");
        let text = layout_for(&[address(9000)], 0, Layout::PAGE, 0).unwrap_err().to_string();
        assert!(text.contains("9000") && text.contains("3822"), "{text}");
        assert_eq!((largest_mtu(0), largest_mtu_in_one_piece(0)), (16_110, 3822));
    }

    #[test]
    fn wrong_ring_sizes_are_refused() {
        for ring in [0, 63, 100, 32_768] {
            let result = open_worker(&[address(1500)], &Options { ring, ..Options::default() });
            assert!(matches!(result, Err(OpenError::RingSize(wrong)) if wrong == ring));
        }
        assert!(matches!(open_worker(&[], &Options::default()), Err(OpenError::NoQueues)));
    }
}

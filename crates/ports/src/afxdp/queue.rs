//! An AF_XDP socket as a port queue.

use super::fill_level::FillLevel;
use super::layout::Layout;
use super::socket::{QueueMode, Socket};
use super::status::{QueueState, QueueStatus};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use rustix::io::Errno;
use rustix::net::xdp::{XdpDesc, XdpDescOptions};
use std::sync::Arc;
use std::time::Duration;
use wattline_dataplane::drop_reason::DropReason;
use wattline_dataplane::frame::{Frame, FramePool};
use wattline_dataplane::port::{PortCounters, PortId, PortQueue};
use wattline_memory::{ChunkSet, Pages};

/// Rounds after which a queue that is idle, or whose interface is down, asks the kernel for its
/// state: a busy worker's round takes about a microsecond.
const PROBE_ROUNDS: u32 = 1 << 16;
/// Weight of a round that may end in sleep: without frames it takes a tenth of a second.
const SLEEPY_ROUNDS: u32 = 1 << 12;

/// Ample time for a card to release the chunks of a closed queue: drivers stop and start the queue
/// for that, in some milliseconds.
const CARD_SETTLES: Duration = Duration::from_secs(2);

/// Rounds after which the kernel is asked for its statistics.
const STATISTICS_ROUNDS: u32 = 128;
/// Weight of a round that may end in sleep: without frames, the kernel is asked about once a
/// second.
const SLEEPY_STATISTICS_ROUNDS: u32 = 12;

/// One queue of one interface.
pub struct AfXdpQueue {
    port: PortId,
    /// Dropped before `_region`, so that the kernel releases the memory first.
    socket: Socket,
    _region: Arc<Pages>,
    /// Size of the frame memory in bytes; only whole chunks count.
    limit: u64,
    layout: Layout,
    /// `None` with zero-copy: the card then takes chunks out of the fill ring to hold them itself.
    level: Option<FillLevel>,
    /// The chunks that the kernel has: added when they enter a fill or transmit ring, removed when
    /// they leave a receive or completion ring. So the chunks of a socket whose interface is gone
    /// are known even if a driver keeps some outside of all rings, and a descriptor for a chunk
    /// that was not lent, or for the same chunk twice, returns nothing.
    lent: ChunkSet,
    status: QueueStatus,
    /// Rounds since the kernel last answered.
    rounds: u32,
    /// Rounds since the kernel was asked for its statistics.
    uncounted_rounds: u32,
    /// Sent descriptors that are not completed yet.
    under_way: usize,
    /// Received part of a frame whose last descriptor has not arrived.
    partial: Partial,
    /// Own counts; `receive_invalid` without the kernel's part.
    counters: PortCounters,
    /// The kernel's part at the last query.
    kernel: Losses,
}

/// A frame whose descriptors have arrived in part.
#[derive(Debug, Clone, Copy)]
enum Partial {
    /// The next descriptor begins a frame.
    None,
    /// The part so far, in the chunk of the first descriptor.
    Frame(Frame),
    /// It cannot be received: the rest is freed as it arrives.
    Unfit,
}

/// The chunks that the kernel had of a closed queue.
pub struct LentChunks {
    lent: ChunkSet,
    layout: Layout,
    zero_copy: bool,
}

impl LentChunks {
    /// Returns the time after which the chunks of a closed queue are no longer written. With
    /// copies, the kernel writes only for a bound socket. A card writes until its driver has taken
    /// its ring back, which the kernel does in a work queue (xp_put_pool()).
    pub fn settled_after(&self) -> Duration {
        if self.zero_copy { CARD_SETTLES } else { Duration::ZERO }
    }

    /// Returns the chunks to the worker's pool.
    pub fn give_back(mut self, pool: &mut FramePool) {
        let mut last = None;
        self.lent.drain(|address| {
            let start = self.layout.start(address);
            // All pieces of a frame are in the set, in order.
            if last.replace(start) != Some(start) {
                // Frame memory has at most 4 GiB.
                pool.free(start as u32);
            }
        });
    }
}

/// Frames lost in the kernel since the socket was opened.
#[derive(Debug, Clone, Copy, Default)]
struct Losses {
    receive_ring_full: u64,
    fill_ring_empty: u64,
    invalid: u64,
}

impl AfXdpQueue {
    pub(super) fn new(
        port: PortId,
        socket: Socket,
        region: &Arc<Pages>,
        layout: Layout,
        lend_all: bool,
    ) -> Self {
        let length = region.length() as u64;
        let adapts = !socket.mode.zero_copy && !lend_all;
        let level = adapts.then(|| FillLevel::new(socket.fill.size()));
        let limit = length - length % u64::from(layout.chunk());
        Self {
            port,
            socket,
            _region: Arc::clone(region),
            limit,
            layout,
            level,
            lent: ChunkSet::none(limit, layout.kernel),
            status: QueueStatus::default(),
            rounds: 0,
            uncounted_rounds: 0,
            under_way: 0,
            partial: Partial::None,
            counters: PortCounters::default(),
            kernel: Losses::default(),
        }
    }

    /// Returns the socket, for the XDP program's map at this queue's number.
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Returns the mode in which it was opened.
    pub fn mode(&self) -> QueueMode {
        self.socket.mode
    }

    /// Closes the socket. Returns the chunks that the kernel has, which the worker may use again
    /// after [`LentChunks::settled_after`]. Frames that are still being sent may arrive damaged at
    /// the other end of the link.
    pub fn close(mut self) -> LentChunks {
        self.status.set(QueueState::Gone);
        if let Partial::Frame(frame) = self.partial {
            self.lent.insert(u64::from(frame.offset));
        }
        let zero_copy = self.socket.mode.zero_copy;
        // Unbound when its last descriptor is closed (xsk_release()), or earlier, with its
        // interface (xsk_notifier()).
        drop(self.socket);
        LentChunks { lent: self.lent, layout: self.layout, zero_copy }
    }

    /// Returns a handle by which other threads see if the interface still exists.
    pub fn status(&self) -> QueueStatus {
        self.status.clone()
    }

    /// Fills the fill ring up to its level, as far as the pool has chunks.
    pub(super) fn fill_up(&mut self, pool: &mut FramePool) {
        let mut free = self.socket.fill.free();
        if let Some(level) = &self.level {
            let lent = self.socket.fill.size() - free + self.socket.receive.available();
            free = free.min(level.chunks().saturating_sub(lent));
        }
        if free < FillLevel::BATCH {
            return;
        }
        for _ in 0..free {
            let Some(offset) = pool.take_chunk() else { break };
            // There is room: it was checked, and only this worker fills the ring.
            self.socket.fill.push(u64::from(offset));
            self.lent.insert(u64::from(offset));
        }
        self.socket.fill.publish();
        if self.socket.fill.needs_wakeup() {
            let answer = self.socket.kick_receive();
            self.note(answer);
        }
    }

    /// Takes one descriptor of the receive ring. Returns its frame if it can be trusted.
    fn accept(&mut self, pool: &mut FramePool, descriptor: XdpDesc) -> Option<Frame> {
        let continued = descriptor.options.contains(XdpDescOptions::XDP_PKT_CONTD);
        let place = place_of(&descriptor, self.limit, self.layout.kernel);
        // A chunk that was not lent is neither received nor freed.
        let ours = self.lent.remove(descriptor.addr);
        let part = place.filter(|_| ours);
        let begun = std::mem::replace(&mut self.partial, Partial::None);
        let frame = match (begun, part) {
            (Partial::None, Some((offset, length))) => {
                Some(Frame { offset, length, port_in: self.port })
            }
            (Partial::Frame(frame), Some(part)) => self.join(pool, frame, part),
            (Partial::Frame(frame), None) => {
                pool.free(frame.offset);
                None
            }
            (Partial::None, None) | (Partial::Unfit, _) => None,
        };
        let is_new = matches!((begun, frame), (Partial::None, Some(_)));
        if ours && !is_new {
            pool.free(descriptor.addr as u32);
        }
        if continued {
            self.partial = frame.map_or(Partial::Unfit, Partial::Frame);
            return None;
        }
        // A frame in pieces counts once, at its last piece.
        if frame.is_none() {
            self.counters.receive_invalid += 1;
        }
        frame
    }

    /// Appends the next part of a frame. If the worker's chunk has no room for it, the chunk is
    /// freed.
    fn join(&self, pool: &mut FramePool, frame: Frame, part: (u32, u16)) -> Option<Frame> {
        let (from, more) = (part.0 as usize, usize::from(part.1));
        let end = frame.offset as usize + usize::from(frame.length);
        let chunk = self.layout.chunk() as usize;
        let room = chunk - frame.offset as usize % chunk - usize::from(frame.length);
        let length = frame.length.checked_add(part.1).filter(|_| more <= room);
        let Some(length) = length else {
            pool.free(frame.offset);
            return None;
        };
        // The two chunks are separate; otherwise the descriptor is wrong.
        let Some((part, rest)) = pool.memory().pair(from..from + more, end..end + more) else {
            pool.free(frame.offset);
            return None;
        };
        rest.copy_from_slice(part);
        Some(Frame { length, ..frame })
    }

    /// Returns true if the kernel has a piece of the worker's chunk that contains this address.
    #[inline]
    fn has_piece_of(&self, address: u64) -> bool {
        let Layout { pieces, kernel } = self.layout;
        let start = self.layout.start(address);
        pieces > 1 && (0..pieces).any(|piece| self.lent.contains(start + u64::from(piece * kernel)))
    }

    /// Returns the chunks of sent frames to the pool.
    fn complete(&mut self, pool: &mut FramePool) {
        let mut any = false;
        while let Some(address) = self.socket.completion.pop() {
            any = true;
            self.under_way = self.under_way.saturating_sub(1);
            // The last piece of a frame frees the chunk.
            if self.lent.remove(address) && !self.has_piece_of(address) {
                pool.free(address as u32);
            }
        }
        if any {
            self.socket.completion.release();
        }
    }

    /// Kicks until the transmit ring is empty or the kernel makes no progress: in copy mode it
    /// sends at most 32 frames at a time (EAGAIN) unless it accepted the higher limit.
    fn kick(&mut self, pool: &mut FramePool) {
        let mut waiting = self.socket.transmit.waiting();
        while waiting > 0 && self.socket.transmit.needs_wakeup() {
            let answer = self.socket.kick_transmit();
            self.note(answer);
            let left = self.socket.transmit.waiting();
            let again = matches!(answer, Err(Errno::AGAIN | Errno::INTR));
            if !again || left >= waiting {
                break;
            }
            waiting = left;
            // So that a full completion ring does not block the kernel.
            self.complete(pool);
        }
    }

    fn ask_for_losses(&mut self) {
        if let Ok(kernel) = self.socket.statistics() {
            self.kernel = Losses {
                receive_ring_full: kernel.rx_ring_full.unwrap_or(0),
                fill_ring_empty: kernel.rx_fill_ring_empty_descs.unwrap_or(0),
                // Dropped for another reason than a full ring: the frame is longer than a chunk.
                invalid: kernel.rx_dropped + kernel.rx_invalid_descs,
            };
        }
    }

    /// Derives the state of the interface from an answer of the kernel.
    fn note(&mut self, answer: Result<(), Errno>) {
        self.rounds = 0;
        self.status.set(match answer {
            Err(Errno::NETDOWN) => QueueState::Down,
            Err(Errno::NXIO | Errno::NODEV | Errno::BADF | Errno::NOTCONN) => QueueState::Gone,
            // Busy, out of buffers, interrupted: tried again in the next round.
            _ => QueueState::Up,
        });
    }

    /// Returns true if the kernel may be called in a round without new frames: always, unless the
    /// interface is down or gone, which must not cost a system call per round.
    fn may_call(&mut self) -> bool {
        match self.status.state() {
            QueueState::Up => true,
            QueueState::Down => self.rounds >= PROBE_ROUNDS,
            QueueState::Gone => false,
        }
    }
}

/// Returns offset and length of a descriptor's frame, if it is not empty and lies within one chunk
/// of the memory's first `limit` bytes.
fn place_of(descriptor: &XdpDesc, limit: u64, chunk: u32) -> Option<(u32, u16)> {
    let (address, length) = (descriptor.addr, u64::from(descriptor.len));
    let in_chunk = address % u64::from(chunk) + length <= u64::from(chunk);
    if address >= limit || length == 0 || !in_chunk {
        return None;
    }
    Some((u32::try_from(address).ok()?, u16::try_from(length).ok()?))
}

impl PortQueue for AfXdpQueue {
    fn receive(&mut self, pool: &mut FramePool, frames: &mut [Frame]) -> usize {
        let mut count = 0;
        let mut taken = 0;
        let waiting = self.socket.receive.available();
        self.counters.waiting = u64::from(waiting);
        if let Some(level) = &mut self.level {
            level.note(waiting);
        }
        while taken < frames.len() {
            let Some(descriptor) = self.socket.receive.pop() else { break };
            taken += 1;
            if let Some(frame) = self.accept(pool, descriptor) {
                frames[count] = frame;
                count += 1;
                self.counters.received_bytes += u64::from(frame.length);
            }
        }
        if taken == 0 {
            self.rounds = self.rounds.saturating_add(1);
            let probe = self.rounds >= PROBE_ROUNDS;
            if (self.socket.mode.busy_poll || probe) && self.may_call() {
                let answer = self.socket.kick_receive();
                self.note(answer);
            }
            return 0;
        }
        self.socket.receive.release();
        self.counters.received_packets += count as u64;
        let memory = &*pool.memory();
        for frame in &frames[..count] {
            memory.prefetch(frame.offset as usize);
        }
        count
    }

    fn transmit(&mut self, _pool: &mut FramePool, frames: &[Frame]) -> usize {
        if self.status.state() == QueueState::Gone {
            return 0;
        }
        let mut count = 0;
        for frame in frames {
            let parts = self.layout.count(frame.offset, frame.length);
            // Either the whole frame or nothing.
            if parts > 1 && self.socket.transmit.free() < parts {
                break;
            }
            let mut pushed = 0;
            for (addr, len, continued) in self.layout.parts(frame.offset, frame.length) {
                let options = match continued {
                    true => XdpDescOptions::XDP_PKT_CONTD,
                    false => XdpDescOptions::empty(),
                };
                if !self.socket.transmit.push(XdpDesc { addr, len, options }) {
                    break;
                }
                self.lent.insert(addr);
                pushed += 1;
            }
            if pushed == 0 {
                break;
            }
            count += 1;
            self.under_way += pushed;
            self.counters.transmitted_bytes += u64::from(frame.length);
        }
        self.counters.transmitted_packets += count as u64;
        count
    }

    fn flush(&mut self, pool: &mut FramePool) {
        self.socket.transmit.publish();
        // Also while the interface is down: one call per batch, as always, and the first batch
        // after it has come up is sent with the rest in the ring.
        if self.status.state() != QueueState::Gone {
            self.kick(pool);
        }
    }

    fn recycle(&mut self, pool: &mut FramePool) {
        // Frames that a kick could not send.
        if self.socket.transmit.waiting() > 0 && self.may_call() {
            self.kick(pool);
        }
        self.complete(pool);
        if self.status.state() == QueueState::Gone {
            return;
        }
        self.fill_up(pool);
        self.uncounted_rounds += 1;
        if self.uncounted_rounds >= STATISTICS_ROUNDS {
            self.uncounted_rounds = 0;
            self.ask_for_losses();
        }
    }

    fn pending(&mut self) -> usize {
        self.rounds = self.rounds.saturating_add(SLEEPY_ROUNDS);
        self.uncounted_rounds += SLEEPY_STATISTICS_ROUNDS;
        let received = self.socket.receive.available();
        // Frames that a kick could not send would wait while the worker sleeps, so they count as
        // pending work, unless the interface is down, possibly forever.
        let unsent = match self.status.state() {
            QueueState::Up => self.socket.transmit.waiting(),
            QueueState::Down | QueueState::Gone => 0,
        };
        (received + unsent) as usize
    }

    fn refuses(&self) -> DropReason {
        match self.status.state() {
            QueueState::Gone => DropReason::PortGone,
            QueueState::Up | QueueState::Down => DropReason::TransmitRingFull,
        }
    }

    /// In copy mode the kernel has its own copy of a frame once it has taken it out of the ring. A
    /// card with zero copy gives up the ring with all unsent frames.
    fn unsent(&mut self) -> usize {
        match self.status.state() {
            QueueState::Up if self.socket.mode.zero_copy => self.under_way,
            QueueState::Up => self.socket.transmit.waiting() as usize,
            QueueState::Down | QueueState::Gone => 0,
        }
    }

    fn descriptor(&self) -> Option<RawFd> {
        Some(self.socket.as_fd().as_raw_fd())
    }

    /// Returns the counts; the kernel's are at most 128 rounds old.
    fn counters(&self) -> PortCounters {
        PortCounters {
            receive_ring_full: self.kernel.receive_ring_full,
            fill_ring_empty: self.kernel.fill_ring_empty,
            receive_invalid: self.counters.receive_invalid + self.kernel.invalid,
            ..self.counters
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHUNK: u32 = 2048;
    const LIMIT: u64 = 4 * CHUNK as u64;

    fn place(addr: u64, len: u32) -> Option<(u32, u16)> {
        let options = XdpDescOptions::empty();
        place_of(&XdpDesc { addr, len, options }, LIMIT, CHUNK)
    }

    #[test]
    fn frames_within_one_chunk_are_taken() {
        assert_eq!(place(256, 60), Some((256, 60)));
        assert_eq!(place(0, CHUNK), Some((0, 2048)));
        assert_eq!(place(LIMIT - 1, 1), Some((LIMIT as u32 - 1, 1)));
    }

    #[test]
    fn descriptors_outside_the_memory_or_across_chunks_are_not_trusted() {
        assert_eq!(place(LIMIT, 60), None);
        assert_eq!(place(u64::MAX, 60), None);
        assert_eq!(place(u64::MAX - 30, u32::MAX), None);
        assert_eq!(place(256, CHUNK - 255), None);
        assert_eq!(place(0, u32::MAX), None);
        assert_eq!(place(256, 0), None);
    }
}

//! A receive and a transmit queue of a device as a port queue.

use super::ffi::{self, Mbuf};
use super::running::{Pool, Running};
use std::sync::Arc;
use wattline_dataplane::frame::{BATCH_MAX, Frame, FramePool};
use wattline_dataplane::port::{PortCounters, PortId, PortQueue};

/// The device is asked for its losses once in so many rounds: on a card that reads registers.
const LOSSES_ROUNDS: u32 = 1 << 14;
/// Ethernet header and tag before an IP packet.
const HEADERS: u16 = 18;

/// One queue pair of a device, for one worker.
///
/// It can only be polled: there is nothing to block on, so it never tells a worker that it may.
#[derive(Debug)]
pub struct DpdkQueue {
    port: PortId,
    device: Arc<Running>,
    queue: u16,
    pool: Pool,
    /// Frames that were received and have not been given to the worker: drivers with vector
    /// instructions return nothing where they are asked for fewer than a few.
    received: Buffers,
    sending: Buffers,
    /// Longest frame that is sent.
    longest: u16,
    counters: PortCounters,
    /// The device's part when last asked, for the first queue: it counts for all.
    losses: ffi::Losses,
    rounds: u32,
}

/// Buffers of which those from `next` to `end` are ours.
#[derive(Debug)]
struct Buffers {
    all: [*mut Mbuf; BATCH_MAX],
    next: usize,
    end: usize,
}

// SAFETY: the buffers are this value's alone, and DPDK binds none to a thread.
#[allow(unsafe_code)]
unsafe impl Send for Buffers {}

impl Buffers {
    const NONE: Self = Self { all: [std::ptr::null_mut(); BATCH_MAX], next: 0, end: 0 };

    fn count(&self) -> usize {
        self.end - self.next
    }

    /// Frees the first `count` of ours.
    fn free(&mut self, count: usize) {
        let these = &mut self.all[self.next..self.end][..count];
        // SAFETY: these buffers are ours, and are not any more.
        #[allow(unsafe_code)]
        unsafe {
            ffi::wl_free(these.as_mut_ptr(), these.len() as u32);
        }
        self.next += count;
    }
}

impl DpdkQueue {
    pub(crate) fn new(
        port: PortId,
        queue: u16,
        pool: Pool,
        device: Arc<Running>,
        mtu: u16,
    ) -> Self {
        Self {
            port,
            device,
            queue,
            pool,
            received: Buffers::NONE,
            sending: Buffers::NONE,
            longest: mtu.saturating_add(HEADERS),
            counters: PortCounters::default(),
            losses: ffi::Losses::default(),
            rounds: 0,
        }
    }

    fn poll(&mut self) {
        let Buffers { all, next, end } = &mut self.received;
        // SAFETY: the device runs, this queue of it is ours alone, and there is room for as many
        // buffers as are asked for, of which none is in use.
        #[allow(unsafe_code)]
        let count = unsafe {
            ffi::wl_receive(self.device.port, self.queue, all.as_mut_ptr(), BATCH_MAX as u16)
        };
        (*next, *end) = (0, usize::from(count).min(BATCH_MAX));
        self.counters.waiting = u64::from(count);
    }

    /// Sends up to a batch of frames; returns how many of the first ones were accepted.
    fn send(&mut self, pool: &mut FramePool, frames: &[Frame]) -> usize {
        // The tables keep to the MTU, so a longer one is a defect elsewhere; it is dropped there.
        let fits = frames.iter().take_while(|frame| frame.length <= self.longest).count();
        let frames = &frames[..fits];
        if frames.is_empty() {
            return 0;
        }
        let count = frames.len();
        // SAFETY: the pool lives as long as the device, and there is room for `count` buffers.
        #[allow(unsafe_code)]
        let taken =
            unsafe { ffi::wl_take(self.pool.0, self.sending.all.as_mut_ptr(), count as u32) };
        if taken < 0 {
            return 0;
        }
        (self.sending.next, self.sending.end) = (0, count);
        let mut copied = 0;
        for (buffer, frame) in self.sending.all.iter().zip(frames) {
            let bytes = pool.frame_bytes(frame);
            // SAFETY: the buffer is ours and empty, and `bytes` has as many bytes as are said.
            #[allow(unsafe_code)]
            let result = unsafe { ffi::wl_copy_in(*buffer, bytes.as_ptr(), frame.length) };
            if result < 0 {
                break;
            }
            copied += 1;
        }
        let all = self.sending.all.as_mut_ptr();
        // SAFETY: the device runs, this queue of it is ours alone, and the first `copied` buffers are
        // ours; those that it says it has sent are its own afterwards.
        #[allow(unsafe_code)]
        let sent = unsafe { ffi::wl_send(self.device.port, self.queue, all, copied as u16) };
        let sent = usize::from(sent).min(copied);
        self.sending.next = sent;
        self.sending.free(count - sent);
        for frame in &frames[..sent] {
            pool.free(frame.offset);
            self.counters.transmitted_bytes += u64::from(frame.length);
        }
        self.counters.transmitted_packets += sent as u64;
        sent
    }
}

impl Drop for DpdkQueue {
    fn drop(&mut self) {
        self.received.free(self.received.count());
    }
}

impl PortQueue for DpdkQueue {
    fn receive(&mut self, pool: &mut FramePool, frames: &mut [Frame]) -> usize {
        if self.received.count() == 0 {
            self.poll();
        }
        let room = (pool.chunk_size() - pool.headroom()).min(u32::from(u16::MAX));
        let headroom = pool.headroom();
        let (mut count, mut done) = (0, 0);
        for buffer in &self.received.all[self.received.next..self.received.end] {
            if count == frames.len() {
                break;
            }
            // SAFETY: the buffer is ours.
            #[allow(unsafe_code)]
            let length = unsafe { ffi::wl_length(*buffer) };
            if length == 0 || length > room {
                self.counters.receive_invalid += 1;
                done += 1;
                continue;
            }
            // Without a chunk the frame stays; it is not lost.
            let Some(chunk) = pool.take_chunk() else { break };
            let offset = chunk + headroom;
            let frame = Frame { offset, length: length as u16, port_in: self.port };
            let to = pool.frame_bytes(&frame);
            // SAFETY: the buffer is ours and has a frame of `length` bytes, and `to` has room for it.
            #[allow(unsafe_code)]
            unsafe {
                ffi::wl_copy_out(*buffer, to.as_mut_ptr(), length);
            }
            frames[count] = frame;
            self.counters.received_bytes += u64::from(frame.length);
            count += 1;
            done += 1;
        }
        self.received.free(done);
        self.counters.received_packets += count as u64;
        count
    }

    fn transmit(&mut self, pool: &mut FramePool, frames: &[Frame]) -> usize {
        let mut accepted = 0;
        for batch in frames.chunks(BATCH_MAX) {
            let sent = self.send(pool, batch);
            accepted += sent;
            if sent < batch.len() {
                break;
            }
        }
        accepted
    }

    /// Nothing: DPDK sends what it is given.
    fn flush(&mut self, _: &mut FramePool) {}

    fn recycle(&mut self, _: &mut FramePool) {
        if self.queue != 0 {
            return;
        }
        self.rounds += 1;
        if self.rounds >= LOSSES_ROUNDS {
            self.rounds = 0;
            // SAFETY: the device runs, and only its first queue asks; a structure of our own comes out.
            #[allow(unsafe_code)]
            unsafe {
                ffi::wl_losses(self.device.port, &mut self.losses);
            }
        }
    }

    /// Never zero: nothing wakes a worker that blocks.
    fn pending(&mut self) -> usize {
        self.received.count().max(1)
    }

    fn counters(&self) -> PortCounters {
        PortCounters {
            receive_ring_full: self.losses.missed,
            fill_ring_empty: self.losses.without_buffer,
            receive_invalid: self.counters.receive_invalid + self.losses.damaged,
            ..self.counters
        }
    }
}

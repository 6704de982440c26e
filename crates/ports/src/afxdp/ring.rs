//! Rings shared by user space and kernel: one side writes, the other reads.
//!
//! A ring is an array of slots, a power of two, and two free-running 32-bit indices: the producer's
//! (slots written so far) and the consumer's (slots read so far). Both wrap around, so only their
//! difference counts. Each index is written by one side only.
//!
//! Ordering (`Documentation/networking/af_xdp.rst`, `net/xdp/xsk_queue.h`):
//! - a producer writes slots, then stores its index with *release*; the consumer loads it
//!   with *acquire* and so sees the slots written;
//! - a consumer reads slots, then stores its index with *release*; the producer loads it
//!   with *acquire* and so never overwrites a slot that is still being read.
//!
//! Each side keeps a copy of the other's index and reads it again only when the copy indicates
//! "full" or "empty": the shared cache line moves once per batch, not per frame.

#![allow(unsafe_code)]

use rustix::fd::BorrowedFd;
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::net::xdp::{XdpRingFlags, XdpRingOffset};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

/// A ring's mapping, unmapped on drop. A remaining mapping keeps the socket bound.
struct Mapping<T> {
    start: NonNull<u8>,
    length: usize,
    producer: NonNull<AtomicU32>,
    consumer: NonNull<AtomicU32>,
    flags: Option<NonNull<AtomicU32>>,
    slots: NonNull<T>,
    /// Number of slots, a power of two.
    size: u32,
}

// SAFETY: a mapping is plain shared memory that is valid in every thread, and a ring is
// used by one thread at a time since all its methods take `&mut self`.
unsafe impl<T: Send> Send for Mapping<T> {}

impl<T> Drop for Mapping<T> {
    fn drop(&mut self) {
        // SAFETY: `start` and `length` are what mmap returned, and the pointers into the
        // mapping go with it. An error would mean that it is not mapped: nothing to undo.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.length) };
    }
}

impl<T: Copy> Mapping<T> {
    /// Maps the ring of `size` slots that the kernel offers at `page_offset` of `socket`.
    fn new(
        socket: BorrowedFd<'_>,
        page_offset: u64,
        offsets: &XdpRingOffset,
        size: u32,
    ) -> Result<Self, Errno> {
        assert!(size.is_power_of_two());
        let length = offsets.desc as usize + size as usize * size_of::<T>();
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::SHARED | MapFlags::POPULATE;
        // SAFETY: a new mapping at an address of the kernel's choice touches no other memory.
        let start =
            unsafe { mmap(std::ptr::null_mut(), length, protection, flags, socket, page_offset) }?;
        let start = NonNull::new(start.cast::<u8>()).ok_or(Errno::NOMEM)?;
        // SAFETY: the kernel placed indices and slots, aligned, at these offsets within
        // the `length` bytes just mapped (XDP_MMAP_OFFSETS).
        unsafe {
            Ok(Self {
                start,
                length,
                producer: start.add(offsets.producer as usize).cast(),
                consumer: start.add(offsets.consumer as usize).cast(),
                flags: offsets.flags.map(|offset| start.add(offset as usize).cast()),
                slots: start.add(offsets.desc as usize).cast(),
                size,
            })
        }
    }

    fn producer(&self) -> &AtomicU32 {
        // SAFETY: lies in the mapping, which lives as long as `self`; the kernel, too, accesses it
        // only atomically.
        unsafe { self.producer.as_ref() }
    }

    fn consumer(&self) -> &AtomicU32 {
        // SAFETY: as for `producer`.
        unsafe { self.consumer.as_ref() }
    }

    /// Returns the slot of a free-running index.
    fn slot(&self, index: u32) -> *mut T {
        // SAFETY: masked by `size - 1`, the slot lies within the mapping.
        unsafe { self.slots.as_ptr().add((index & (self.size - 1)) as usize) }
    }

    fn needs_wakeup(&self) -> bool {
        self.flags.is_some_and(|flags| {
            // SAFETY: as for `producer`.
            let flags = unsafe { flags.as_ref() }.load(Ordering::Relaxed);
            flags & XdpRingFlags::XDP_RING_NEED_WAKEUP.bits() != 0
        })
    }
}

/// A ring that the worker fills and the kernel empties (fill and transmit ring).
pub(super) struct Producer<T> {
    ring: Mapping<T>,
    /// Own index: slots written so far, published or not.
    written: u32,
    /// The kernel's index as last read.
    read: u32,
}

impl<T: Copy> Producer<T> {
    pub(super) fn map(
        socket: BorrowedFd<'_>,
        page_offset: u64,
        offsets: &XdpRingOffset,
        size: u32,
    ) -> Result<Self, Errno> {
        Ok(Self { ring: Mapping::new(socket, page_offset, offsets, size)?, written: 0, read: 0 })
    }

    /// Returns the number of slots.
    pub(super) fn size(&self) -> u32 {
        self.ring.size
    }

    /// Returns the number of slots that the kernel has not taken yet, from its present index.
    #[inline]
    pub(super) fn waiting(&mut self) -> u32 {
        self.read = self.ring.consumer().load(Ordering::Acquire);
        self.written.wrapping_sub(self.read)
    }

    /// Returns the number of free slots, from the kernel's present index.
    #[inline]
    pub(super) fn free(&mut self) -> u32 {
        self.ring.size - self.waiting()
    }

    /// Writes the next slot; returns false if the ring is full. [`Self::publish`] makes it visible.
    #[inline]
    pub(super) fn push(&mut self, value: T) -> bool {
        if self.written.wrapping_sub(self.read) == self.ring.size && self.free() == 0 {
            return false;
        }
        // SAFETY: the slot is in the mapping, and the kernel does not read it: the kernel has read
        // all slots up to `read`, so there is a free slot, and `written` is not published yet.
        unsafe { self.ring.slot(self.written).write(value) };
        self.written = self.written.wrapping_add(1);
        true
    }

    /// Makes all pushed slots visible to the kernel.
    #[inline]
    pub(super) fn publish(&mut self) {
        self.ring.producer().store(self.written, Ordering::Release);
    }

    /// Returns true if the kernel needs a system call to continue with this ring.
    #[inline]
    pub(super) fn needs_wakeup(&self) -> bool {
        self.ring.needs_wakeup()
    }
}

/// A ring that the kernel fills and the worker empties (receive and completion ring).
pub(super) struct Consumer<T> {
    ring: Mapping<T>,
    /// Own index: slots read so far, released or not.
    read: u32,
    /// The kernel's index as last read.
    written: u32,
}

impl<T: Copy> Consumer<T> {
    pub(super) fn map(
        socket: BorrowedFd<'_>,
        page_offset: u64,
        offsets: &XdpRingOffset,
        size: u32,
    ) -> Result<Self, Errno> {
        Ok(Self { ring: Mapping::new(socket, page_offset, offsets, size)?, read: 0, written: 0 })
    }

    /// Returns the number of waiting slots, from the kernel's present index.
    #[inline]
    pub(super) fn available(&mut self) -> u32 {
        self.written = self.ring.producer().load(Ordering::Acquire);
        self.written.wrapping_sub(self.read)
    }

    /// Reads the next slot; [`Self::release`] returns the slots to the kernel.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<T> {
        if self.written == self.read && self.available() == 0 {
            return None;
        }
        // SAFETY: the slot is in the mapping, and the kernel has written it: the kernel's index,
        // loaded with acquire, is past it. The own index is not, so the kernel does not overwrite
        // it.
        let value = unsafe { self.ring.slot(self.read).read() };
        self.read = self.read.wrapping_add(1);
        Some(value)
    }

    /// Returns the popped slots to the kernel.
    #[inline]
    pub(super) fn release(&mut self) {
        self.ring.consumer().store(self.read, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fd::AsFd;
    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

    const SIZE: u32 = 4;
    const OFFSETS: XdpRingOffset =
        XdpRingOffset { producer: 0, consumer: 64, desc: 128, flags: Some(192) };

    /// Returns the two sides of one ring, over an ordinary file in memory in place of a socket.
    fn pair() -> (Producer<u64>, Consumer<u64>) {
        let file = memfd_create("ring", MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&file, 4096).unwrap();
        (
            Producer::map(file.as_fd(), 0, &OFFSETS, SIZE).unwrap(),
            Consumer::map(file.as_fd(), 0, &OFFSETS, SIZE).unwrap(),
        )
    }

    #[test]
    fn nothing_is_seen_before_it_is_published() {
        let (mut producer, mut consumer) = pair();
        assert!(producer.push(7));
        assert_eq!(consumer.pop(), None);
        producer.publish();
        assert_eq!(consumer.available(), 1);
        assert_eq!(consumer.pop(), Some(7));
        assert_eq!(consumer.pop(), None);
    }

    #[test]
    fn full_ring_takes_nothing_until_slots_are_released() {
        let (mut producer, mut consumer) = pair();
        assert!((0..u64::from(SIZE)).all(|value| producer.push(value)));
        assert!(!producer.push(99));
        producer.publish();
        assert_eq!(producer.free(), 0);
        assert_eq!(consumer.pop(), Some(0));
        assert!(!producer.push(99), "popped but not released");
        consumer.release();
        assert!(producer.push(4));
        assert_eq!(producer.waiting(), SIZE);
    }

    #[test]
    fn indices_wrap_around() {
        let (mut producer, mut consumer) = pair();
        // As after 2^32 - 2 frames.
        let start = u32::MAX - 1;
        producer.ring.producer().store(start, Ordering::Relaxed);
        producer.ring.consumer().store(start, Ordering::Relaxed);
        (producer.written, producer.read) = (start, start);
        (consumer.written, consumer.read) = (start, start);
        for round in 0..3_u64 {
            for value in 0..u64::from(SIZE) {
                assert!(producer.push(round * 10 + value));
            }
            assert!(!producer.push(0));
            producer.publish();
            for value in 0..u64::from(SIZE) {
                assert_eq!(consumer.pop(), Some(round * 10 + value));
            }
            assert_eq!(consumer.pop(), None);
            consumer.release();
        }
    }

    #[test]
    fn two_threads_pass_every_value_in_order() {
        const COUNT: u64 = 20_000;
        let (mut producer, mut consumer) = pair();
        let sender = std::thread::spawn(move || {
            for value in 0..COUNT {
                while !producer.push(value) {
                    std::thread::yield_now();
                }
                producer.publish();
            }
        });
        for expected in 0..COUNT {
            let value = loop {
                match consumer.pop() {
                    Some(value) => break value,
                    None => std::thread::yield_now(),
                }
            };
            assert_eq!(value, expected);
            consumer.release();
        }
        sender.join().unwrap();
    }
}

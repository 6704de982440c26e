//! Packets that are processed side by side.

use super::key::{Key, Mode};
use super::library::BLOCK;
use std::marker::PhantomData;
use std::ops::Range;
use std::ptr::NonNull;

/// Largest number of packets in a batch.
pub const MOST: usize = 64;

/// Length of the longest tag in bytes.
pub const TAG: usize = 16;

/// One packet.
#[derive(Clone, Copy)]
pub(super) struct Job<'p> {
    pub start: NonNull<u8>,
    /// Length from `start`.
    pub bytes: usize,
    pub key: Option<&'p Key>,
    pub cipher: (usize, usize),
    pub hashed: usize,
    pub tag: [u8; TAG],
}

/// Packets to encrypt and hash, or to hash. It borrows them, so that no two share bytes.
pub struct Batch<'p> {
    mode: Mode,
    jobs: [Job<'p>; MOST],
    count: usize,
    packets: PhantomData<&'p mut [u8]>,
}

impl<'p> Batch<'p> {
    /// Makes an empty batch for keys of this mode.
    #[inline]
    pub fn new(mode: Mode) -> Self {
        let none = Job {
            start: NonNull::dangling(),
            bytes: 0,
            key: None,
            cipher: (0, 0),
            hashed: 0,
            tag: [0; TAG],
        };
        Self { mode, jobs: [none; MOST], count: 0, packets: PhantomData }
    }

    /// Adds a packet. Its bytes `cipher` are encrypted, then its first `hashed` bytes are hashed.
    /// Returns false if the batch is full, a range reaches beyond the packet, `cipher` is no whole
    /// number of blocks, or the key is of another mode or not for CBC.
    #[inline]
    #[must_use]
    pub fn push(
        &mut self,
        key: &'p Key,
        packet: &'p mut [u8],
        cipher: Range<usize>,
        hashed: usize,
    ) -> bool {
        // The library counts the bytes of its lanes with 16 bits.
        let most = packet.len().min(u16::MAX.into());
        let Some(bytes) = cipher.end.checked_sub(cipher.start) else { return false };
        let is_within = cipher.end <= most && (1..=most).contains(&hashed);
        let fits = key.mode() == self.mode && matches!(self.mode, Mode::Cbc(..));
        if !(is_within && fits && bytes.is_multiple_of(BLOCK)) {
            return false;
        }
        let Some(job) = self.jobs.get_mut(self.count) else { return false };
        *job = Job {
            start: NonNull::from(packet).cast(),
            bytes: most,
            key: Some(key),
            cipher: (cipher.start, bytes),
            hashed,
            tag: [0; TAG],
        };
        self.count += 1;
        true
    }

    /// Returns the number of packets.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Returns true if the batch is empty.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns true if each packet has something to encrypt.
    pub(crate) fn is_to_be_encrypted(&self) -> bool {
        self.jobs[..self.count].iter().all(|job| job.cipher.1 > 0)
    }

    pub(super) fn mode(&self) -> Mode {
        self.mode
    }

    pub(super) fn jobs(&mut self) -> &mut [Job<'p>] {
        &mut self.jobs[..self.count]
    }

    /// Returns the packets in the order in which they were added, each with its tag (12 bytes for
    /// HMAC-SHA1).
    #[inline]
    pub fn packets(&mut self) -> impl Iterator<Item = (&mut [u8], &[u8; TAG])> {
        self.jobs[..self.count].iter().map(|job| {
            // SAFETY: pointer and length are those of a slice that was borrowed for as long as `self`
            // lives; no other job has it, and `self` is borrowed while the new one lives.
            #[allow(unsafe_code)]
            let packet = unsafe { std::slice::from_raw_parts_mut(job.start.as_ptr(), job.bytes) };
            (packet, &job.tag)
        })
    }
}

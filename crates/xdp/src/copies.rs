//! Copies of the packets that XDP programs forward (`bpf/copies.h`).

use crate::bpf::{BpfError, Map, Ring, object};
use crate::verdict::Verdict;
use std::sync::atomic::{AtomicBool, Ordering};

/// Bytes of a copy before the frame, as in `bpf/copies.h`.
const FIXED: usize = 56 + HEAD;
/// Most bytes of the headers as sent.
const HEAD: usize = 64;
/// Bytes of the ring between programs and reader, which exists while captures or traces run.
const RING: u32 = 8 << 20;
/// Most copies that are read at once.
const AT_ONCE: usize = 4096;
const AF_INET: u32 = 2;
const AF_INET6: u32 = 10;

/// The maps for copies of packets, shared by all programs of a router.
#[derive(Debug)]
pub struct Copies {
    pub(crate) copying: Map,
    pub(crate) rings: Map,
    pub(crate) uncopied: Map,
    /// True if the kernel's verifier refuses programs that copy.
    refused: AtomicBool,
}

impl Copies {
    /// Creates the maps; nothing is copied yet.
    ///
    /// # Errors
    /// Without CAP_BPF.
    pub fn new() -> Result<Self, BpfError> {
        let object = object!("forward")?;
        Ok(Self {
            copying: object.create(".data.copying")?,
            rings: object.create("wl_copy_rings")?,
            uncopied: object.create("wl_uncopied")?,
            refused: AtomicBool::new(false),
        })
    }

    /// Returns true if the kernel's verifier refuses programs that copy. They then forward without
    /// copies.
    pub fn is_refused(&self) -> bool {
        self.refused.load(Ordering::Relaxed)
    }

    pub(crate) fn refuse(&self) {
        self.refused.store(true, Ordering::Relaxed);
    }

    /// Returns all maps.
    pub(crate) fn all(&self) -> [&Map; 3] {
        let Self { copying, rings, uncopied, .. } = self;
        [copying, rings, uncopied]
    }

    /// Has programs copy the frames that they forward, up to `snap` bytes each, and returns the
    /// reader.
    ///
    /// # Errors
    /// Without memory for the ring.
    pub fn begin(&self, snap: u32) -> Result<CopyReader, BpfError> {
        let ring = Ring::new("wl_copies", RING)?;
        self.rings.set(&0_u32.to_ne_bytes(), &ring.descriptor_number().to_ne_bytes())?;
        self.set_snap(snap)?;
        Ok(CopyReader { ring })
    }

    /// Changes the number of bytes of each frame that are copied.
    ///
    /// # Errors
    /// Only from the kernel.
    pub fn set_snap(&self, snap: u32) -> Result<(), BpfError> {
        self.copying.set(&0_u32.to_ne_bytes(), &snap.to_ne_bytes())
    }

    /// Ends copying.
    ///
    /// # Errors
    /// Only from the kernel.
    pub fn end(&self) -> Result<(), BpfError> {
        self.set_snap(0)?;
        self.rings.remove(&0_u32.to_ne_bytes()).map(|_| ())
    }

    /// Returns the number of packets for whose copy the ring had no room, since the start.
    ///
    /// # Errors
    /// Only from the kernel.
    pub fn uncopied(&self) -> Result<u64, BpfError> {
        let values = self.uncopied.get(&0_u32.to_ne_bytes())?.unwrap_or_default();
        let (per_cpu, _) = values.as_chunks::<8>();
        Ok(per_cpu.iter().map(|value| u64::from_ne_bytes(*value)).sum())
    }
}

/// A packet that a program forwarded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Copied<'a> {
    /// Time at which it was received, in nanoseconds of the monotonic clock.
    pub nanos: u64,
    /// Slot of the port that received it.
    pub slot_in: u32,
    /// Slot of the port that sends it.
    pub slot_out: u32,
    /// Decision: [`Verdict::Forwarded`] or [`Verdict::NoEgressPort`].
    pub verdict: Verdict,
    /// Length of the frame as received.
    pub received_length: u32,
    /// Length of the frame as sent; 0 if it was not.
    pub sent_length: u32,
    /// Address of the next hop: 4 or 16 bytes.
    pub next_hop: &'a [u8],
    /// The frame as received, up to the limit.
    pub received: &'a [u8],
    head: &'a [u8],
}

impl<'a> Copied<'a> {
    fn parse(record: &'a [u8]) -> Option<Self> {
        let (fixed, frame) = record.split_first_chunk::<FIXED>()?;
        let word =
            |at: usize| fixed[at..].first_chunk().map_or(0, |bytes| u32::from_ne_bytes(*bytes));
        let verdict = word(16);
        let next_hop = &fixed[36..52];
        Some(Self {
            nanos: fixed.first_chunk().map_or(0, |bytes| u64::from_ne_bytes(*bytes)),
            slot_in: word(8),
            slot_out: word(12),
            verdict: Verdict::ALL.into_iter().find(|it| *it as u32 == verdict)?,
            received_length: word(20),
            sent_length: word(24),
            next_hop: match word(32) {
                AF_INET => &next_hop[..4],
                AF_INET6 => next_hop,
                _ => &[],
            },
            received: frame.get(..word(28) as usize)?,
            head: &fixed[56..],
        })
    }

    /// Writes the frame as it was sent into `buffer`, up to the limit of the copy. Programs change
    /// only headers, and cut off padding.
    pub fn sent_into(&self, buffer: &mut Vec<u8>) {
        buffer.clear();
        let length = self.received.len().min(self.sent_length as usize);
        let head = self.head.len().min(length);
        buffer.extend_from_slice(&self.head[..head]);
        buffer.extend_from_slice(&self.received[head..length]);
    }
}

/// Reads copies.
#[derive(Debug)]
pub struct CopyReader {
    ring: Ring,
}

impl CopyReader {
    /// Passes the available copies to `with`, in the order of reception, and returns their number.
    pub fn read(&mut self, mut with: impl FnMut(&Copied<'_>)) -> usize {
        self.ring.read(AT_ONCE, |record| {
            if let Some(copied) = Copied::parse(record) {
                with(&copied);
            }
        })
    }
}

//! Copies of packets that XDP programs forward, while a capture or trace runs.
//!
//! Programs write them into a ring. One thread reads it, and has taps of captures and traces like a
//! worker. The control thread starts and ends it.

use super::watchers::WorkerTaps;
use rustix::time::{ClockId, clock_gettime};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use wattline_dataplane::drop_reason::DropReason;
use wattline_dataplane::tap::copies::{CopyTaps, End, Forwarded};
use wattline_dataplane::tap::slots::TapSlots;
use wattline_units::Time;
use wattline_xdp::bpf::BpfError;
use wattline_xdp::{Copied, Copies, CopyReader, FORWARD_PORTS_MAX};

/// Pause of the reader when there is nothing to read.
const REST: Duration = Duration::from_millis(2);
/// Fewest bytes of a frame that are copied: filters read the headers.
const HEADERS: u16 = 512;

/// Maps of the copies, and their reader while it runs.
pub(crate) struct Copying {
    /// Maps of all programs; `None` without the capabilities.
    pub copies: Option<Arc<Copies>>,
    reader: Option<Reader>,
}

impl Copying {
    /// Creates the state without a reader.
    pub(crate) fn new(copies: Option<Arc<Copies>>) -> Self {
        Self { copies, reader: None }
    }

    /// Starts or ends copying, as needed by the present captures and traces: up to `snap` bytes of
    /// each frame. In traces, the reader's node number follows those of the `nodes` nodes.
    ///
    /// # Errors
    /// When memory for the ring or a thread to read it is lacking.
    pub(crate) fn update(&mut self, snap: Option<u16>, nodes: usize) -> Result<(), BpfError> {
        let Some(copies) = &self.copies else { return Ok(()) };
        let wanted = snap.map(|snap| snap.max(HEADERS));
        match (wanted, &mut self.reader) {
            (None, Some(_)) => {
                self.reader = None;
                copies.end()
            }
            (Some(snap), None) => {
                self.reader = Some(Reader::begin(copies, snap, nodes)?);
                Ok(())
            }
            (Some(snap), Some(reader)) if snap != reader.snap => {
                reader.snap = snap;
                copies.set_snap(snap.into())
            }
            _ => Ok(()),
        }
    }

    /// Returns the taps of the reader, while it runs.
    pub(crate) fn worker(&self) -> Option<WorkerTaps> {
        let reader = self.reader.as_ref()?;
        Some(WorkerTaps { slots: reader.slots.clone(), waker: None, chunks: 1 })
    }
}

/// The reader of copies; its thread ends when this is dropped.
struct Reader {
    slots: TapSlots,
    snap: u16,
    stops: Arc<AtomicBool>,
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.stops.store(true, Ordering::Relaxed);
    }
}

impl Reader {
    fn begin(copies: &Copies, snap: u16, nodes: usize) -> Result<Self, BpfError> {
        let mut reader = copies.begin(snap.into())?;
        let mut taps = CopyTaps::new(nodes);
        let (slots, stops) = (taps.slots(), Arc::new(AtomicBool::new(false)));
        let stopping = Arc::clone(&stops);
        let name = "wattline-copies".to_owned();
        let thread = std::thread::Builder::new().name(name).spawn(move || {
            let began = nanos(ClockId::Monotonic);
            let mut sent = Vec::new();
            while !stopping.load(Ordering::Relaxed) {
                if !read(&mut reader, &mut taps, began, &mut sent) {
                    taps.update();
                    std::thread::sleep(REST);
                }
            }
        });
        if let Err(error) = thread {
            copies.end()?;
            return Err(BpfError::System {
                action: "starting the reader of copies".to_owned(),
                source: rustix::io::Errno::from_io_error(&error)
                    .unwrap_or(rustix::io::Errno::AGAIN),
            });
        }
        Ok(Self { slots, snap, stops })
    }
}

/// Passes on the available copies; returns false if there are none.
fn read(reader: &mut CopyReader, taps: &mut CopyTaps, began: u64, sent: &mut Vec<u8>) -> bool {
    let wall = nanos(ClockId::Realtime);
    // The system's clock may be set meanwhile.
    let since_boot = nanos(ClockId::Monotonic);
    let mut latest = began;
    let count = reader.read(|copied| {
        // A new tap sees all later packets.
        taps.update();
        latest = latest.max(copied.nanos);
        copied.sent_into(sent);
        taps.forwarded(&Forwarded {
            // Processors do not write copies in the order of their reception: time must not go
            // back.
            now: Time::from_picos((latest - began).saturating_mul(1000)),
            wall_nanos: wall.saturating_sub(since_boot.saturating_sub(copied.nanos)),
            received: End {
                port: port(copied.slot_in),
                length: copied.received_length as usize,
                bytes: copied.received,
            },
            sent: outcome(copied, sent),
            next_hop: copied.next_hop,
        });
    });
    if count > 0 {
        taps.end_round(wall);
    }
    count > 0
}

fn outcome<'a>(copied: &Copied<'_>, sent: &'a [u8]) -> Result<End<'a>, u8> {
    match copied.sent_length {
        0 => Err(DropReason::PortGone as u8),
        length => Ok(End { port: port(copied.slot_out), length: length as usize, bytes: sent }),
    }
}

/// Returns the port of a slot.
fn port(slot: u32) -> u16 {
    if slot < FORWARD_PORTS_MAX { slot as u16 } else { u16::MAX }
}

fn nanos(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    seconds * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or_default()
}

//! Sender of one stream by live frames: the kernel creates the packets at the times that this
//! thread determines.

use super::flows::Flow;
use super::role::Counter;
use super::schedule::{Evenly, Schedule};
use super::sender::{CATCH_UP_NANOS, CATCH_UP_PACKETS, LAST_CHANCE_NANOS, Sent};
use super::sizes::{FCS, Sizes};
use super::stamp::Stamp;
use crate::Error;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use wattline_linux::namespace::enter_thread;
use wattline_linux::xdp_features::{Transmits, XdpFeatures};
use wattline_xdp::bpf::BpfError;
use wattline_xdp::measured::{FlowHeaders, MeasuredLoad, MeasuredSender, Segment};

/// Length of the parts of a load that count as evenly spaced.
const PART_NANOS: u64 = 1 << 40;
/// Largest number of parts of a load: bursts, or steps of a day.
const PARTS_MAX: usize = 1 << 20;

/// An interface for sending live frames.
#[derive(Clone)]
pub(super) struct LiveEnd {
    pub ifindex: u32,
    /// Namespace of the interface; `None` for that of the process.
    pub namespace: Option<String>,
    /// Number of concurrent streams.
    pub streams: u32,
    /// Socket in the interface's namespace that queries its features.
    pub features: Arc<Mutex<XdpFeatures>>,
}

/// Sender of one stream in one trial.
pub(super) struct LiveSender {
    end: LiveEnd,
    stream: u8,
    program: Arc<MeasuredSender>,
    schedule: Schedule,
}

/// Monitors a sender from another thread, since the sending thread is in the kernel until the end.
pub(super) struct LiveWatch {
    program: Arc<MeasuredSender>,
    end: LiveEnd,
}

impl LiveWatch {
    /// Returns the number of packets sent so far. Ends the sending with `stop`, or if the interface
    /// is gone: the kernel accepts frames for a missing interface without an error.
    pub fn poll(&self, stop: bool) -> u64 {
        let mut features = self.end.features.lock().unwrap_or_else(PoisonError::into_inner);
        let transmits = features.transmits(self.end.ifindex).unwrap_or(Transmits::Nothing);
        if stop || transmits == Transmits::Nothing {
            // If this fails, the load ends by itself.
            let _ = self.program.stop();
        }
        self.program.total().map_or(0, |total| total.sent)
    }
}

/// Opens the interface, in this thread's namespace `namespace`, to send live frames; the error is
/// the reason why it cannot.
pub(super) fn open_live(
    ifindex: u32,
    namespace: Option<String>,
    streams: u32,
) -> Result<LiveEnd, String> {
    let mut features =
        XdpFeatures::open().map_err(|error| format!("its XDP features are unknown: {error}"))?;
    match features.transmits(ifindex) {
        Ok(Transmits::Whole | Transmits::InFragments) => {}
        Ok(Transmits::Nothing) => {
            return Err("it takes no frames from XDP programs (the peer of a veth has to run an \
                        XDP program or GRO)"
                .to_owned());
        }
        Err(error) => return Err(format!("its XDP features are unknown: {error}")),
    }
    let nothing = MeasuredLoad::nothing(ifindex);
    let tried = MeasuredSender::new(&nothing).and_then(|sender| sender.send());
    tried.map_err(|error| error.to_string())?;
    Ok(LiveEnd { ifindex, namespace, streams, features: Arc::new(Mutex::new(features)) })
}

/// Loads the program of a stream, with its flows and lengths.
pub(super) fn load(
    ifindex: u32,
    (run, stream): (u8, u8),
    flows: &[Flow],
    sizes: &Sizes,
    schedule: &Schedule,
) -> Result<MeasuredSender, Error> {
    let headers: Vec<FlowHeaders> = flows.iter().map(Flow::headers).collect();
    let lengths: Vec<u32> =
        (0..sizes.period() as u64).map(|index| u32::from(sizes.at(index) - FCS)).collect();
    let stamp = Stamp { run, stream, sequence: 0, nanos: 0 }.emit();
    let grace = if schedule.is_flat_out() { 0 } else { LAST_CHANCE_NANOS };
    let load = MeasuredLoad {
        ifindex,
        ipv6: flows.first().is_some_and(Flow::is_ipv6),
        flows: &headers,
        lengths: &lengths,
        stamp: stamp.first_chunk().map_or(0, |first| u32::from_be_bytes(*first)),
        segments: &segments(schedule)?,
        // The kernel's preparation time is not a shortfall.
        start_nanos: None,
        lasts_nanos: schedule.duration_nanos().saturating_add(grace),
    };
    MeasuredSender::new(&load).map_err(refused)
}

impl LiveSender {
    /// Creates a sender; its load begins with [`Self::run`].
    pub fn new(
        end: &LiveEnd,
        (run, stream): (u8, u8),
        flows: &[Flow],
        sizes: &Sizes,
        schedule: Schedule,
    ) -> Result<Self, Error> {
        let program = load(end.ifindex, (run, stream), flows, sizes, &schedule)?;
        Ok(Self { end: end.clone(), stream, program: Arc::new(program), schedule })
    }

    /// Returns a monitor for this sender.
    pub fn watch(&self) -> LiveWatch {
        LiveWatch { program: Arc::clone(&self.program), end: self.end.clone() }
    }

    /// Sends the load from the calling thread, which stays in the interface's namespace, and
    /// returns what was actually sent.
    pub fn run(self, counter: &Counter, stop: &AtomicBool) -> Result<Sent, Error> {
        if let Some(namespace) = &self.end.namespace {
            enter_thread(namespace)?;
        }
        self.stay_on_one_processor();
        let mut before = None;
        let total = loop {
            let total = self.program.send().map_err(refused)?;
            counter.sent.store(total.sent, Ordering::Relaxed);
            let done = total.sent + total.left_out;
            let stopped = stop.load(Ordering::Relaxed);
            // The load is over, or nothing more can be sent.
            if stopped || done >= self.schedule.packets() || before.replace(total) == Some(total) {
                break total;
            }
        };
        let planned = match self.schedule.packets() {
            u64::MAX => total.sent,
            // Packets that were not due yet are not a shortfall.
            _ if stop.load(Ordering::Relaxed) => total.sent + total.left_out,
            planned => planned,
        };
        Ok(Sent {
            packets: total.sent,
            bytes: total.bytes,
            unsent: planned.saturating_sub(total.sent),
            start_nanos: total.start_nanos,
            nanos: total.last_nanos.saturating_sub(total.start_nanos),
            batch_max: total.sent.min(1),
            stall_nanos: total.stall_nanos,
        })
    }

    /// Pins the stream to a processor. The processor determines the queue of a packet, so a stream
    /// that migrates reorders its flows. Streams are spread over the allowed processors.
    fn stay_on_one_processor(&self) {
        if self.end.streams < 2 {
            return;
        }
        let Ok(allowed) = sched_getaffinity(None) else { return };
        let processors: Vec<usize> =
            (0..CpuSet::MAX_CPU).filter(|processor| allowed.is_set(*processor)).collect();
        if let Some(processor) = processors.iter().cycle().nth(self.stream.into()) {
            let mut one = CpuSet::new();
            one.set(*processor);
            // Without this, flows may be reordered, which the account shows.
            let _ = sched_setaffinity(None, &one);
        }
    }
}

/// Splits a schedule into evenly spaced parts.
fn segments(schedule: &Schedule) -> Result<Vec<Segment>, Error> {
    let mut segments = Vec::new();
    let mut packet = 0;
    while packet < schedule.packets() {
        if segments.len() == PARTS_MAX {
            return Err(Error::Data {
                path: "offered load".into(),
                reason: format!(
                    "more than {PARTS_MAX} bursts or steps of a day cannot be sent by live frames: \
                     shorten the load, or send by sockets"
                ),
            });
        }
        let next = schedule.segment(packet, PART_NANOS);
        // `as` saturates. A burst at full speed is late when the next one is due.
        let patience_nanos = match schedule.packets_of_instant_burst() {
            _ if schedule.is_flat_out() => u64::MAX,
            Some(burst) => schedule.due_at(burst).max(CATCH_UP_NANOS),
            None => CATCH_UP_NANOS.max((CATCH_UP_PACKETS as f64 * next.gap_nanos) as u64),
        };
        let Evenly { first_nanos, gap_nanos, packets } = next;
        segments.push(Segment { first_nanos, gap_nanos, patience_nanos, packets });
        packet = packet.saturating_add(packets);
    }
    Ok(segments)
}

pub(super) fn refused(error: BpfError) -> Error {
    Error::io("sending live frames", std::io::Error::other(error.to_string()))
}

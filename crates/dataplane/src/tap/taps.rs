//! The taps of one worker.

use super::forwarded::End;
use super::slots::{SLOTS, TapSlots, WorkerSlots};
use super::tap::{Moment, Role, Tap};
use crate::edge::Edge;
use crate::frame::{ChunkMemory, Frame};
use crate::packet::Packet;
use std::time::{SystemTime, UNIX_EPOCH};
use wattline_units::Time;

/// See the module.
pub(crate) struct Taps {
    /// True if there is a tap; read once per batch.
    on: bool,
    worker_slots: WorkerSlots,
    slots: TapSlots,
    taps: [Option<Box<Tap>>; SLOTS],
    moment: Moment,
    chunk_size: u32,
    /// Last run of a node after which the packet in a chunk was still in the graph.
    alive: Vec<u32>,
    run: u32,
    /// Chunk, drop reason and rule of the followed packets in the batch, before a node runs.
    batch: Vec<(u32, u8, u16)>,
}

impl Taps {
    /// Makes an empty set, for a worker with this memory.
    pub fn new(chunks: u32, chunk_size: u32) -> Self {
        let slots = TapSlots::default();
        Self {
            on: false,
            worker_slots: slots.worker_side(),
            slots,
            taps: Default::default(),
            moment: Moment::default(),
            chunk_size: chunk_size.max(1),
            alive: vec![0; chunks as usize],
            run: 0,
            batch: Vec::with_capacity(chunks as usize),
        }
    }

    /// Returns the slots in which the control thread leaves taps.
    pub fn slots(&self) -> TapSlots {
        self.slots.clone()
    }

    /// Returns true if there is a tap.
    #[inline]
    pub fn are_on(&self) -> bool {
        self.on
    }

    /// Takes taps that are in the slots; for the beginning of an iteration.
    #[inline]
    pub fn update(&mut self) {
        if self.worker_slots.have_changed() {
            self.change();
        }
    }

    #[cold]
    fn change(&mut self) {
        self.worker_slots.update(&mut self.taps);
        self.on = self.taps.iter().any(Option::is_some);
    }

    /// Notes the time; the system's clock is read without a system call.
    pub fn note_time(&mut self, now: Time) {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.moment = Moment { now, wall_nanos: since.as_nanos() as u64 };
    }

    /// Records that a port received frames.
    pub fn received(&mut self, frames: &[Frame], memory: &ChunkMemory) {
        for frame in frames {
            let (chunk, bytes) = (self.chunk(frame), bytes(frame, memory));
            for tap in self.taps.iter_mut().flatten() {
                tap.received(self.moment, chunk, frame, bytes);
            }
        }
    }

    /// Records that a node sends packets from outside its batch.
    pub fn spawned(&mut self, node: usize, packets: &[(Edge, Packet)], memory: &ChunkMemory) {
        for (_, packet) in packets {
            let (chunk, bytes) = (self.chunk(&packet.frame), bytes(&packet.frame, memory));
            for tap in self.taps.iter_mut().flatten() {
                tap.spawned(self.moment, node as u8, chunk, &packet.frame, bytes);
            }
        }
    }

    /// Records that a node is about to process packets.
    pub fn visits(&mut self, node: usize, packets: &[Packet]) {
        self.batch.clear();
        for packet in packets {
            let chunk = self.chunk(&packet.frame);
            let mut followed = false;
            for tap in self.taps.iter_mut().flatten() {
                followed |= tap.visits(self.moment, node as u8, chunk, packet);
            }
            if followed && self.batch.len() < self.batch.capacity() {
                self.batch.push((chunk as u32, packet.reason as u8, packet.port_out.0));
            }
        }
    }

    /// Records the fates of packets that the node processed; `waiting` are all packets in the graph
    /// now.
    pub fn settle<'a>(
        &mut self,
        node: usize,
        role: Role,
        waiting: impl Iterator<Item = &'a Packet>,
    ) {
        if self.batch.is_empty() {
            return;
        }
        self.run = self.run.wrapping_add(1);
        for packet in waiting {
            let chunk = self.chunk(&packet.frame);
            if let Some(alive) = self.alive.get_mut(chunk) {
                *alive = self.run;
            }
        }
        let Self { batch, alive, taps, moment, run, .. } = self;
        for (chunk, reason, rule) in batch.iter() {
            let chunk = *chunk as usize;
            if alive.get(chunk) == Some(run) {
                continue;
            }
            for tap in taps.iter_mut().flatten() {
                tap.kept(*moment, node as u8, role, chunk, (*reason, *rule));
            }
        }
    }

    /// Records that frames are about to be put into the transmit ring of a port.
    pub fn sending(&mut self, port: usize, frames: &[Frame], memory: &ChunkMemory) {
        for frame in frames {
            let (chunk, bytes) = (self.chunk(frame), bytes(frame, memory));
            for tap in self.taps.iter_mut().flatten() {
                tap.sending(self.moment, chunk, End::whole(port as u16, bytes));
            }
        }
    }

    /// Records that the ring took the first `taken` frames, and refused the rest for a reason.
    pub fn sent(&mut self, port: usize, frames: &[Frame], taken: usize, reason: u8) {
        for (place, frame) in frames.iter().enumerate() {
            let chunk = self.chunk(frame);
            let refused = (place >= taken).then_some(reason);
            for tap in self.taps.iter_mut().flatten() {
                tap.sent(self.moment, port as u16, chunk, refused);
            }
        }
    }

    /// Ends the iteration.
    pub fn end_round(&mut self) {
        for tap in self.taps.iter_mut().flatten() {
            tap.end_round(self.moment);
        }
    }

    fn chunk(&self, frame: &Frame) -> usize {
        (frame.offset / self.chunk_size) as usize
    }
}

fn bytes<'a>(frame: &Frame, memory: &'a ChunkMemory) -> &'a [u8] {
    let start = frame.offset as usize;
    memory.get(start..start + usize::from(frame.length)).unwrap_or_default()
}

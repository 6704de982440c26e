//! The frames of one port at one core. The core's [`Ring`] holds a descriptor of each frame and
//! decides when it is served; the frames themselves wait here until the graph takes them.

use super::order::{Order, Place};
use std::collections::{HashSet, VecDeque};
use std::time::Instant;
use wattline_cores::Ring;
use wattline_dataplane::frame::{Frame, FramePool};
use wattline_traffic::Packet;
use wattline_units::Time;

/// The frames of one port that one core has received and not yet sent through the graph.
#[derive(Default)]
pub(super) struct FrameQueue {
    port: usize,
    /// Frames that the core has not served.
    frames: VecDeque<Waiting>,
    /// Number of the last frame, from 1, as the ring counts them.
    last: u64,
    last_at: Time,
    /// Numbers of frames that found the ring full.
    dropped: VecDeque<u64>,
    /// Packets taken from the ring.
    served: u64,
    /// Served frames that wait for earlier frames of the same table entry at another core.
    held: VecDeque<(Instant, Place, Frame)>,
    ready: VecDeque<Frame>,
    /// Places of frames that are about to leave, or have just been dropped.
    leaving: Vec<Place>,
}

struct Waiting {
    number: u64,
    /// `None` if indirection tables are never rewritten.
    place: Option<Place>,
    frame: Frame,
}

impl FrameQueue {
    pub fn new(port: usize) -> Self {
        Self { port, ..Self::default() }
    }

    /// Puts a frame that arrived at `at` into the queue and its descriptor into the core's ring.
    /// Returns the arrival time that the ring uses: times in a ring never go back.
    pub fn enqueue(
        &mut self,
        ring: &mut Ring,
        frame: Frame,
        at: Time,
        place: Option<Place>,
    ) -> Time {
        let at = at.max(self.last_at);
        self.last_at = at;
        self.last += 1;
        self.frames.push_back(Waiting { number: self.last, place, frame });
        ring.push(Packet {
            picos: at.as_picos(),
            flow: 0,
            length: frame.length.saturating_add(super::FCS_BYTES),
            port: self.port as u8,
        });
        at
    }

    /// Marks the frames that the core has served as ready, except those held back for order, and
    /// frees the frames that found the ring full. Returns true if any frame is ready.
    pub fn serve(&mut self, ring: &mut Ring, order: Option<&Order>, pool: &mut FramePool) -> bool {
        let Self { frames, dropped, served, held, ready, leaving, .. } = self;
        let may_leave = |place| order.is_none_or(|order| order.may_leave(place));
        // In order of arrival. Another core may release an entry while this loop runs; `waits`
        // keeps a later frame of that entry from overtaking an earlier one that was just found
        // waiting.
        let mut waits: HashSet<u32> = HashSet::new();
        held.retain(|(since, place, frame)| {
            let leaves = !waits.contains(&place.entry()) && may_leave(*place);
            if leaves {
                if let Some(order) = order {
                    order.held(since.elapsed());
                }
                leaving.push(*place);
                ready.push_back(*frame);
            } else {
                waits.insert(place.entry());
            }
            !leaves
        });
        dropped.extend(ring.take_dropped());
        let taken = ring.taken();
        while let Some(&Waiting { number, place, frame }) = frames.front() {
            if dropped.front() == Some(&number) {
                dropped.pop_front();
                pool.free(frame.offset);
                leaving.extend(place);
            } else if *served == taken {
                break;
            } else {
                *served += 1;
                match place {
                    Some(place) if waits.contains(&place.entry()) || !may_leave(place) => {
                        waits.insert(place.entry());
                        held.push_back((Instant::now(), place, frame));
                    }
                    _ => {
                        leaving.extend(place);
                        ready.push_back(frame);
                    }
                }
            }
            frames.pop_front();
        }
        !ready.is_empty()
    }

    /// Moves ready frames to `frames` and returns their number.
    pub fn take_ready(&mut self, frames: &mut [Frame]) -> usize {
        let count = self.ready.len().min(frames.len());
        frames.iter_mut().zip(self.ready.drain(..count)).for_each(|(to, from)| *to = from);
        count
    }

    /// Reports to `order` that the ready frames have left. Calls `wake` for each core that may have
    /// waited for them.
    pub fn report_departures(&mut self, order: &Order, wake: impl FnMut(usize)) {
        self.leaving.drain(..).filter_map(|place| order.left(place)).for_each(wake);
    }

    pub fn is_empty(&self) -> bool {
        self.frames.is_empty() && self.held.is_empty() && self.ready.is_empty()
    }

    /// Frees all frames without sending them.
    pub fn free(&mut self, pool: &mut FramePool) {
        for Waiting { place, frame, .. } in self.frames.drain(..) {
            self.leaving.extend(place);
            pool.free(frame.offset);
        }
        for (_, place, frame) in self.held.drain(..) {
            self.leaving.push(place);
            pool.free(frame.offset);
        }
        self.ready.drain(..).for_each(|frame| pool.free(frame.offset));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OTHER: usize = 1;

    /// Returns the queue of core 0 with four frames, of the entries 7, 8, 7 and 8. The ring has
    /// served three. An earlier frame of entry 7 is still at another core.
    fn served(order: &Order) -> (FrameQueue, Ring, Place) {
        let handover = order.counted().unwrap();
        handover.steer(0, 7, OTHER);
        let other = Place::Counted(handover.take_hash(0, 7, OTHER).unwrap());
        let (mut queue, mut ring) = (FrameQueue::new(0), Ring::new(Some(8)));
        for number in 1..=4u32 {
            let frame = Frame { offset: number * 512, length: 60, ..Frame::default() };
            let entry = 7 + (number - 1) % 2;
            handover.steer(0, entry, 0);
            let place = handover.take_hash(0, entry, 0).map(Place::Counted);
            queue.enqueue(&mut ring, frame, Time::from_picos(number.into()), place);
        }
        ring.admit(9);
        (0..3).for_each(|_| assert!(ring.take().length > 0));
        (queue, ring, other)
    }

    fn offsets(queue: &mut FrameQueue) -> Vec<u32> {
        let mut frames = [Frame::default(); 8];
        let count = queue.take_ready(&mut frames);
        frames[..count].iter().map(|frame| frame.offset / 512).collect()
    }

    #[test]
    fn moved_entry_waits_and_others_continue() {
        let order = Order::counting(1, 128);
        let (mut queue, mut ring, other) = served(&order);
        let mut pool = FramePool::zeroed(8, 512, 64);
        assert!(queue.serve(&mut ring, Some(&order), &mut pool));
        assert_eq!(offsets(&mut queue), [2]);
        assert!(!queue.serve(&mut ring, Some(&order), &mut pool) && !queue.is_empty());
        assert_eq!(order.left(other), Some(0));
        ring.take();
        assert!(queue.serve(&mut ring, Some(&order), &mut pool));
        assert_eq!(offsets(&mut queue), [1, 3, 4]);
        assert_eq!(order.holds(1).held_packets, 2);
        assert!(queue.is_empty());
    }

    #[test]
    fn frames_that_are_freed_or_dropped_hold_no_frame_back() {
        let order = Order::counting(1, 128);
        let (mut queue, _, other) = served(&order);
        let mut pool = FramePool::zeroed(8, 512, 64);
        order.left(other);
        let handover = order.counted().unwrap();
        handover.steer(0, 8, OTHER);
        let next = Place::Counted(handover.take_hash(0, 8, OTHER).unwrap());
        assert!(!order.may_leave(next));
        (0..4).for_each(|_| assert!(pool.take_chunk().is_some()));
        queue.free(&mut pool);
        let mut woken = Vec::new();
        queue.report_departures(&order, |core| woken.push(core));
        assert!(order.may_leave(next));
        assert_eq!(woken, [OTHER]);
    }
}

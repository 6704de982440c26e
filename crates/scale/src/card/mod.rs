//! A network card in memory: links, receive-side scaling with an indirection table, a queue for
//! each port and core, time stamps.
//!
//! Frames are put on the wire a little ahead of time, each with the model time of its arrival,
//! which receivers respect. So a generator that is late by less than its lead does no harm, and a
//! rewritten table applies from that very moment: later arrivals are spread anew, earlier ones stay
//! in their queues.

mod queue;

pub use queue::CardQueue;

use super::order::Order;
use super::rss;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use wattline_cores::Link;
use wattline_dataplane::port::PortId;
use wattline_packet::toeplitz::Toeplitz;
use wattline_policy::{CoreSet, IndirectionTable, MAX_CORES};
use wattline_ports::waiter::Waker;
use wattline_server::Nic;
use wattline_units::Time;

/// The frame check sequence, which is included in lengths of the model but absent from frames in
/// memory.
pub const FCS_BYTES: u16 = 4;

/// Receiver of the frames that a card sends.
pub trait FarEnd: Send {
    /// Called when a frame has left the card through a port.
    fn receive(&mut self, port: PortId, frame: &[u8]);
}

/// All ports of a card, each with a queue for every core.
pub struct Card {
    wires: Mutex<Wires>,
    far_end: Mutex<Box<dyn FarEnd>>,
    toeplitz: Toeplitz,
    order: Arc<Order>,
    /// Wakes a core when a frame is steered to its empty queue.
    wakers: OnceLock<Vec<Waker>>,
}

struct Wires {
    links: Vec<Link>,
    tables: Vec<IndirectionTable>,
    /// Frames sent by each entry of the tables, port after port.
    sent: Vec<u64>,
    /// Queues by port, then by core.
    queues: Vec<Vec<VecDeque<Arriving>>>,
    /// Buffers for reuse.
    spare: Vec<Vec<u8>>,
    beyond_link: u64,
}

/// A frame on its way to a core, or waiting there.
struct Arriving {
    at: Time,
    hash: u32,
    bytes: Vec<u8>,
}

impl Card {
    /// Creates a card of this model with so many ports; its tables send to the active ones of so
    /// many cores.
    pub fn new(
        model: &Nic,
        ports: usize,
        cores: usize,
        active: CoreSet,
        far_end: Box<dyn FarEnd>,
    ) -> Arc<Self> {
        let queues = || (0..cores).map(|_| VecDeque::new()).collect();
        Arc::new(Self {
            wires: Mutex::new(Wires {
                links: vec![Link::new(model); ports],
                sent: vec![0; ports * model.redirect_table_entries],
                tables: IndirectionTable::for_ports(ports, model.redirect_table_entries, active),
                queues: (0..ports).map(|_| queues()).collect(),
                spare: Vec::new(),
                beyond_link: 0,
            }),
            far_end: Mutex::new(far_end),
            toeplitz: Toeplitz::default(),
            order: Arc::new(Order::counting(ports, model.redirect_table_entries)),
            wakers: OnceLock::new(),
        })
    }

    /// Sets the wakers of the cores, by core, which arriving frames trigger; once.
    pub fn connect(&self, wakers: Vec<Waker>) {
        let _ = self.wakers.set(wakers);
    }

    /// Returns the queue of a port and core, for its worker.
    pub fn queue(self: &Arc<Self>, port: PortId, core: usize) -> CardQueue {
        CardQueue::new(Arc::clone(self), port, core)
    }

    /// Returns the mechanism that keeps flows in order while table entries move.
    pub fn order(&self) -> Arc<Order> {
        Arc::clone(&self.order)
    }

    /// Sends a frame (without FCS) into a port at a model time, which must not be before that of
    /// the previous frame on that port. Returns false if the link has no capacity left, or there is
    /// no such port.
    pub fn send(&self, port: PortId, time: Time, frame: &[u8]) -> bool {
        let hash = rss::hash(&self.toeplitz, frame);
        let number = usize::from(port.0);
        let length = u16::try_from(frame.len()).unwrap_or(u16::MAX).saturating_add(FCS_BYTES);
        let mut wires = self.wires();
        let Wires { links, tables, sent, queues, spare, beyond_link } = &mut *wires;
        let (Some(link), Some(table)) = (links.get_mut(number), tables.get(number)) else {
            return false;
        };
        let Some(at) = link.carry(time.as_picos(), length) else {
            *beyond_link += 1;
            return false;
        };
        if let Some(sent) = sent.get_mut(entry(table, number, hash)) {
            *sent += 1;
        }
        let core = table.core(hash);
        let Some(queue) = queues.get_mut(number).and_then(|queues| queues.get_mut(core)) else {
            return false;
        };
        let first = queue.is_empty();
        if let Some(handover) = self.order.counted() {
            handover.steer(number, hash, core);
        }
        let mut bytes = spare.pop().unwrap_or_default();
        bytes.clear();
        bytes.extend_from_slice(frame);
        queue.push_back(Arriving { at: Time::from_picos(at), hash, bytes });
        drop(wires);
        if first && let Some(waker) = self.wakers.get().and_then(|wakers| wakers.get(core)) {
            waker.wake();
        }
        true
    }

    /// Rewrites all tables for these cores, by their weights. Arrivals after `now` follow them,
    /// except frames already taken by a core whose thread is ahead of the deciding one. Returns the
    /// number of moved entries.
    pub fn redirect(&self, now: Time, active: CoreSet, weights: &[u8]) -> u64 {
        let mut wires = self.wires();
        let Wires { tables, queues, .. } = &mut *wires;
        let Some(handover) = self.order.counted() else { return 0 };
        let mut held = [0; MAX_CORES];
        let mut moved = 0;
        for (port, (table, queues)) in tables.iter_mut().zip(queues).enumerate() {
            let changed = table.spread_weighted(active, weights, &mut held);
            moved += changed as u64;
            if changed == 0 {
                continue;
            }
            let mut ahead: Vec<Arriving> = Vec::new();
            for queue in queues.iter_mut() {
                let stay = queue.partition_point(|frame| frame.at <= now);
                ahead.extend(queue.drain(stay..));
            }
            ahead.iter().for_each(|frame| handover.take_back(port, frame.hash));
            // Frames of one link never arrive at the same time.
            ahead.sort_by_key(|frame| frame.at);
            for frame in ahead {
                let core = table.core(frame.hash);
                if let Some(queue) = queues.get_mut(core) {
                    handover.steer(port, frame.hash, core);
                    queue.push_back(frame);
                }
            }
        }
        moved
    }

    /// Returns the frames that arrived by each entry of the tables up to `now`, port after port.
    pub fn entries(&self, now: Time, counts: &mut Vec<u64>) {
        let wires = self.wires();
        counts.clone_from(&wires.sent);
        for (port, (table, queues)) in wires.tables.iter().zip(&wires.queues).enumerate() {
            // Frames on the wire ahead of time have not arrived.
            for frame in queues.iter().flat_map(|queue| queue.iter().rev()) {
                if frame.at > now
                    && let Some(count) = counts.get_mut(entry(table, port, frame.hash))
                {
                    *count = count.saturating_sub(1);
                }
            }
        }
    }

    /// Returns the indirection table of each port.
    pub fn tables(&self) -> Vec<IndirectionTable> {
        self.wires().tables.clone()
    }

    /// Returns the number of frames that did not fit on their link, and were never offered.
    pub fn beyond_link(&self) -> u64 {
        self.wires().beyond_link
    }

    /// Returns the number of frames in all queues, including those still on the wire.
    pub fn waiting(&self) -> usize {
        self.wires().queues.iter().flatten().map(VecDeque::len).sum()
    }

    fn wires(&self) -> MutexGuard<'_, Wires> {
        // No holder leaves the state inconsistent.
        self.wires.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the number of a hash's entry among those of all ports.
fn entry(table: &IndirectionTable, port: usize, hash: u32) -> usize {
    let size = table.entries().len();
    port * size + (hash as usize & (size - 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattline_dataplane::frame::{Frame, FramePool};
    use wattline_dataplane::port::PortQueue;
    use wattline_server::ServerFile;

    type Sent = Arc<Mutex<Vec<(PortId, Vec<u8>)>>>;

    struct Kept(Sent);
    impl FarEnd for Kept {
        fn receive(&mut self, port: PortId, frame: &[u8]) {
            self.0.lock().unwrap().push((port, frame.to_vec()));
        }
    }

    fn card() -> (Arc<Card>, Sent) {
        let kept = Sent::default();
        let server = ServerFile::load("westmere-2010").unwrap();
        let nic = &server.model().unwrap().nic;
        let far_end = Box::new(Kept(Arc::clone(&kept)));
        (Card::new(nic, 2, 3, CoreSet::only(0), far_end), kept)
    }

    /// Returns a frame of its own flow: the hash of other protocols is zero, so the frame is IPv6.
    fn frame(flow: u8) -> Vec<u8> {
        let mut frame = vec![0; 60];
        frame[12..14].copy_from_slice(&[0x86, 0xdd]);
        frame[14] = 0x60;
        frame[19] = 6;
        frame[20] = 59;
        frame[14 + 8 + 15] = flow;
        frame
    }

    fn micros(at: u64) -> Time {
        Time::from_picos(at * 1_000_000)
    }

    #[test]
    fn rewritten_table_applies_from_its_moment_on() {
        let (card, _) = card();
        for at in 1..=100u8 {
            assert!(card.send(PortId(0), micros(at.into()), &frame(at)));
        }
        let mut queues: Vec<CardQueue> = (0..3).map(|core| card.queue(PortId(0), core)).collect();
        assert_eq!(queues[0].pending(), 100);
        let moved = card.redirect(micros(40), CoreSet::first(2), &[1; 3]);
        assert_eq!(moved, 128, "half of the table of each of two ports");
        assert_eq!(queues[0].pending() + queues[1].pending(), 100);
        assert!(queues[0].pending() > 40 && queues[1].next_arrival() > Some(micros(40)));
        card.redirect(micros(50), CoreSet::only(2), &[]);
        assert!(queues[2].next_arrival() > Some(micros(50)));
        assert_eq!(card.waiting(), 100);
        assert!(card.tables().iter().all(|table| table.entries().iter().all(|core| *core == 2)));
    }

    #[test]
    fn shares_follow_weights_and_arrivals_are_counted_by_entry() {
        let (card, _) = card();
        card.redirect(micros(0), CoreSet::first(2), &[3, 1, 1]);
        let of =
            |core| card.tables()[0].entries().iter().filter(|&&c| usize::from(c) == core).count();
        assert_eq!((of(0), of(1), of(2)), (96, 32, 0));
        for at in 1..=100u8 {
            card.send(PortId(1), micros(at.into()), &frame(at));
        }
        let mut counts = Vec::new();
        card.entries(micros(40), &mut counts);
        assert_eq!(counts.len(), 256, "of two ports");
        assert_eq!((counts[..128].iter().sum::<u64>(), counts[128..].iter().sum::<u64>()), (0, 40));
        card.entries(micros(1_000), &mut counts);
        assert_eq!(counts.iter().sum::<u64>(), 100);
    }

    #[test]
    fn frames_arrive_in_order_and_are_sent() {
        let (card, kept) = card();
        let mut pool = FramePool::zeroed(4, 512, 64);
        assert!(card.send(PortId(1), micros(1), &frame(1)));
        // Sent at the same time: the link carries one after the other.
        assert!(card.send(PortId(1), micros(1), &frame(2)));
        assert!(!card.send(PortId(7), micros(1), &frame(2)), "no such port");
        assert!(card.send(PortId(1), micros(2), &[0; 600]), "longer than a chunk");
        let mut queue = card.queue(PortId(1), 0);
        assert_eq!(queue.next_arrival(), Some(micros(1)));
        let mut frames = [Frame::default(); 4];
        assert_eq!(queue.receive(&mut pool, &mut frames[..1]), 1);
        assert!(queue.next_arrival() > Some(micros(1)));
        assert_eq!(queue.receive(&mut pool, &mut frames[1..]), 1);
        assert_eq!(queue.counters().receive_invalid, 1);
        assert_eq!(queue.transmit(&mut pool, &frames[..2]), 2);
        assert_eq!(pool.free_chunks(), 4);
        assert_eq!(*kept.lock().unwrap(), [(PortId(1), frame(1)), (PortId(1), frame(2))]);
    }
}

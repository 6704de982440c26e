//! Packets that a source hands over in groups: trains, back to back on their link.

use super::{Content, Links, Source};
use crate::capture::CaptureError;
use crate::packet::{Block, Packet};
use crate::random::Random;
use std::collections::VecDeque;
use wattline_units::Time;

/// Lengths and flows of trains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TrainShape {
    /// Mean number of packets per train, at least 1.
    pub mean: u32,
    /// Distribution of the lengths.
    pub lengths: TrainLengths,
    /// Flows of the packets in a train.
    pub flows: TrainFlows,
}

/// Distribution of train lengths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrainLengths {
    /// All trains have the same length: a source that sends whole batches.
    Fixed,
    /// Geometrically distributed: after each packet the train ends with the same probability.
    Geometric,
}

/// Flows of the packets in a train.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrainFlows {
    /// Each packet is of any flow of the port, according to the popularity: a batch of packets from
    /// many senders.
    Several,
    /// All packets are of one flow: one write of one sender.
    One,
}

impl TrainShape {
    /// Trains of a single packet.
    pub const NONE: Self =
        Self { mean: 1, lengths: TrainLengths::Fixed, flows: TrainFlows::Several };

    fn draw(&self, random: &mut Random) -> u32 {
        match self.lengths {
            _ if self.mean <= 1 => 1,
            TrainLengths::Fixed => self.mean,
            TrainLengths::Geometric => {
                let goes_on = 1.0 - 1.0 / f64::from(self.mean);
                // Uses 1 - [0, 1), so that the logarithm is finite; the cast saturates.
                1 + ((1.0 - random.unit()).ln() / goes_on.ln()) as u32
            }
        }
    }
}

/// Makes each packet of a source the head of a train, whose other packets follow back to back on
/// its port. A train waits until the one before it on its port has passed.
pub struct Trains {
    heads: Box<dyn Source>,
    block: Block,
    next_head: usize,
    shape: TrainShape,
    links: Links,
    content: Content,
    random: Random,
    ports: Vec<Port>,
}

#[derive(Debug, Default)]
struct Port {
    /// Time at which the link becomes free, in picoseconds.
    free: u64,
    trains: VecDeque<Train>,
    /// The packet that comes next.
    next: Option<Packet>,
    /// Packets of this port that were drawn while looking for another port's.
    drawn: VecDeque<Packet>,
}

#[derive(Debug)]
struct Train {
    head: Packet,
    begun: bool,
    /// Number of packets that are not prepared yet.
    left: u32,
}

/// Largest number of packets in [`Port::drawn`].
const MOST_KEPT: usize = 64;
/// Largest number of draws for a port's packet; after that it gets the flow of the train's head.
const MOST_DRAWS: usize = 10_000;

impl Trains {
    /// Makes the source. `heads` gives the first packet of each train, so its rate is the packet
    /// rate divided by the mean length of a train. `content` gives the other packets.
    pub fn new(
        heads: Box<dyn Source>,
        shape: TrainShape,
        links: Links,
        content: &Content,
        seed: u64,
    ) -> Self {
        let mut random = Random::new(seed, 0x7a1);
        let own = Random::new(random.bits(), 1);
        let content = Content { random: own, ..content.clone() };
        let ports = (0..links.ports.max(1)).map(|_| Port::default()).collect();
        Self { heads, block: Block::new(), next_head: 0, shape, links, content, random, ports }
    }

    /// Adds the next train if it may begin by `time`, or if no other packet is due; returns whether
    /// it did.
    fn join(&mut self, time: Option<Time>) -> Result<bool, CaptureError> {
        if self.next_head == self.block.len() {
            self.heads.next_block(&mut self.block)?;
            self.next_head = 0;
        }
        let Some(&head) = self.block.get(self.next_head) else { return Ok(false) };
        if time.is_some_and(|time| time < head.time()) {
            return Ok(false);
        }
        self.next_head += 1;
        let number = usize::from(head.port) % self.ports.len();
        let left = self.shape.draw(&mut self.random);
        let port = &mut self.ports[number];
        port.trains.push_back(Train { head, begun: false, left });
        if port.next.is_none() {
            self.prepare(number);
        }
        Ok(true)
    }

    /// Prepares the next packet of a port, if there is one.
    fn prepare(&mut self, number: usize) {
        let port = &mut self.ports[number];
        let Some(train) = port.trains.front_mut() else {
            port.next = None;
            return;
        };
        let head = train.head;
        let is_head = !std::mem::replace(&mut train.begun, true);
        train.left -= 1;
        if train.left == 0 {
            port.trains.pop_front();
        }
        let packet = if is_head { head } else { self.follower(number, head) };
        let port = &mut self.ports[number];
        let busy = self.links.picos(packet.length).round() as u64;
        let time = head.picos.max(port.free.saturating_add(busy));
        port.free = time;
        port.next = Some(Packet { picos: time, port: head.port, ..packet });
    }

    /// A packet that is not the head of its train.
    fn follower(&mut self, number: usize, head: Packet) -> Packet {
        let Self { content, ports, shape, .. } = self;
        if shape.flows == TrainFlows::One {
            return Packet { flow: head.flow, ..content.packet(0.0) };
        }
        if let Some(packet) = ports[number].drawn.pop_front() {
            return packet;
        }
        // Packets drawn for other ports meanwhile are kept for them, so that flows keep their
        // popularity.
        for _ in 0..MOST_DRAWS {
            let packet = content.packet(0.0);
            let of = usize::from(packet.port) % ports.len();
            if of == number {
                return packet;
            }
            if ports[of].drawn.len() < MOST_KEPT {
                ports[of].drawn.push_back(packet);
            }
        }
        head
    }

    /// The port with the next packet, and its time.
    fn soonest(&self) -> Option<(Time, usize)> {
        let times = self.ports.iter().enumerate();
        times.filter_map(|(number, port)| Some((port.next?.time(), number))).min()
    }
}

impl Source for Trains {
    fn next_block(&mut self, out: &mut Block) -> Result<(), CaptureError> {
        out.clear();
        while !out.is_full() {
            let soonest = self.soonest();
            if self.join(soonest.map(|(time, _)| time))? {
                continue;
            }
            let Some((_, number)) = soonest else { break };
            if let Some(packet) = self.ports[number].next {
                out.push(packet);
            }
            self.prepare(number);
        }
        Ok(())
    }
}

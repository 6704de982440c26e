//! A queue of an interface with its packet memory. Each thread of the generator has one queue.

use crate::Error;
use crate::raw::link_address;
use std::sync::Arc;
use std::time::Duration;
use wattline_dataplane::frame::FramePool;
use wattline_dataplane::port::{PortId, PortQueue, Waiter};
use wattline_linux::namespace::interface_index;
use wattline_ports::afxdp::{Options, QueueAddress, open_worker};
use wattline_ports::waiter::PollWaiter;
use wattline_xdp::{XdpModeChoice, XdpProgram};

/// Slots of each ring of a queue that only sends.
const SENDING_RING: u32 = 4096;
/// Slots of each ring of a queue that receives: 16 ms at 1 Mpps. On a machine with other work, a
/// receiver may be off its processor for several milliseconds.
const RECEIVING_RING: u32 = 16_384;
/// Slots of each ring if more than [`MANY`] queues receive: each slot takes six kilobytes of
/// memory.
const CROWDED_RING: u32 = 4096;
const MANY: u32 = 4;
/// Length of the longest packet that is sent, in bytes.
const MTU: u32 = 1500;

/// An open queue with its packet memory.
pub(super) struct OpenedQueue {
    pub pool: FramePool,
    pub queue: Box<dyn PortQueue>,
    waiter: Box<dyn Waiter>,
    /// Directs received frames to the sockets while it exists; shared by all queues of an
    /// interface.
    _program: Option<Arc<XdpProgram>>,
}

/// Properties of an interface, as the generator found them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InterfaceFacts {
    /// Name of the interface.
    pub name: String,
    /// Ethernet address of the interface.
    pub mac: [u8; 6],
    /// Number of queues in use.
    pub queues: u32,
    /// True if frames are sent and received without being copied.
    pub zero_copy: bool,
    /// Slots of each ring of a queue; 0 without sockets.
    pub ring: u32,
}

impl OpenedQueue {
    #[cfg(test)]
    pub fn in_memory(queue: impl PortQueue + 'static) -> Self {
        struct Nap;
        impl Waiter for Nap {
            fn wait(&mut self, _timeout: Duration) {
                std::thread::yield_now();
            }
        }
        let pool = FramePool::zeroed(4096, 2048, 256);
        Self { pool, queue: Box::new(queue), waiter: Box::new(Nap), _program: None }
    }

    /// Sleeps until a frame arrives, at most `timeout`.
    pub fn wait(&mut self, timeout: Duration) {
        if self.queue.pending() == 0 {
            self.waiter.wait(timeout);
        }
    }

    /// Updates the queue's counters of frames that the kernel lost. `recycle` reads them from the
    /// kernel only once in many calls, hence the loop.
    pub fn refresh(&mut self) {
        for _ in 0..=128 {
            self.queue.recycle(&mut self.pool);
        }
    }

    /// Frames that arrived and found no room in the rings here: not a loss of the device under
    /// test.
    pub fn overflow(&self) -> u64 {
        let counters = self.queue.counters();
        counters.receive_ring_full + counters.fill_ring_empty
    }
}

/// Opens the first `queues` queues of an interface in the namespace of the calling thread.
/// With `receives`, an XDP program directs arriving frames to them.
pub(super) fn open(
    interface: &str,
    queues: u32,
    receives: bool,
) -> Result<(Vec<OpenedQueue>, InterfaceFacts), Error> {
    let failed = |error: &dyn std::fmt::Display| {
        Error::io(
            format!("opening {interface} for the generator"),
            std::io::Error::other(error.to_string()),
        )
    };
    let ifindex = interface_index(interface)?;
    let found = facts_of(interface, queues)?;
    let mac = found.mac;
    let program = match receives {
        true => {
            let program = XdpProgram::load(ifindex, mac, XdpModeChoice::Auto);
            Some(Arc::new(program.map_err(|error| failed(&error))?))
        }
        false => None,
    };
    // All chunks stay in the fill ring. A router's queue keeps fewer there under load, so that
    // frames stay in the cache; with so few, a receiver that is off its processor for a millisecond
    // would lose frames.
    let options = Options { ring: ring(queues, receives), lend_all: true, ..Options::default() };
    let mut list = Vec::new();
    let mut zero_copy = true;
    for queue in 0..queues {
        let address = QueueAddress {
            port: PortId::default(),
            interface: interface.to_owned(),
            ifindex,
            queue,
            mtu: MTU,
            copies: false,
        };
        let mut opened = open_worker(&[address], &options).map_err(|error| failed(&error))?;
        // One queue was requested.
        let Some(opened_queue) = opened.queues.pop() else { continue };
        if let Some(program) = &program {
            program.set_socket(queue, opened_queue.socket()).map_err(|error| failed(&error))?;
        }
        zero_copy &= opened_queue.mode().zero_copy;
        let waiter = PollWaiter::new([opened_queue.socket()])
            .map_err(|errno| Error::io("preparing to wait for frames", errno))?;
        list.push(OpenedQueue {
            pool: opened.pool,
            queue: Box::new(opened_queue),
            waiter: Box::new(waiter),
            _program: program.clone(),
        });
    }
    Ok((list, InterfaceFacts { zero_copy, ring: options.ring, ..found }))
}

/// Properties of an interface in the namespace of the calling thread; opens no rings.
pub(super) fn facts_of(interface: &str, queues: u32) -> Result<InterfaceFacts, Error> {
    // `/sys` shows the namespace that it was mounted in, not this thread's.
    let mac = link_address(interface)?.addr().ok_or_else(|| Error::Data {
        path: interface.into(),
        reason: "has no Ethernet address".into(),
    })?;
    Ok(InterfaceFacts { name: interface.to_owned(), mac, queues, zero_copy: false, ring: 0 })
}

/// Slots of each ring of a queue, for an interface with `queues` queues.
fn ring(queues: u32, receives: bool) -> u32 {
    match receives {
        false => SENDING_RING,
        true if queues > MANY => CROWDED_RING,
        true => RECEIVING_RING,
    }
}

/// Parses an Ethernet address: six hexadecimal bytes separated by colons or hyphens.
pub fn parse_mac(text: &str) -> Option<[u8; 6]> {
    let mut mac = [0; 6];
    let mut parts = text.split([':', '-']);
    for byte in &mut mac {
        let part = parts.next().filter(|part| part.len() <= 2)?;
        *byte = u8::from_str_radix(part, 16).ok()?;
    }
    parts.next().is_none().then_some(mac)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ethernet_addresses_are_read() {
        assert_eq!(parse_mac("02:57:0:00:ff:0A"), Some([2, 0x57, 0, 0, 255, 10]));
        for wrong in
            ["", "02:57:00:00:ff", "02:57:00:00:ff:0a:1", "02:57:00:00:ff:0g", "0257:0:0:0:0:0"]
        {
            assert_eq!(parse_mac(wrong), None, "{wrong}");
        }
    }
}

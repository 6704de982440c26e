//! From the link to the rings: pacing and the redirect table.

use crate::cores::Core;
use crate::reorder::Watch;
use wattline_policy::{CoreSet, MAX_CORES, RedirectTable};
use wattline_server::{ETHERNET_OVERHEAD_BYTES, Nic as NicModel};
use wattline_traffic::Packet;
use wattline_units::Time;

/// Longest time that the sender's side of a link holds packets back; what would come later
/// is not sent: the link carries no more.
const LONGEST_HOLD: u64 = 1_000_000_000;

/// Fixed point with 16 bits after the point, in picoseconds per byte on the link.
const POINT: u32 = 16;

/// A link, on which frames follow each other no faster than it carries them.
#[derive(Debug, Clone)]
pub struct Link {
    /// When it is free again.
    free: u64,
    picos_per_byte: u64,
}

impl Link {
    /// A link of a card.
    pub fn new(model: &NicModel) -> Self {
        let picos_per_byte = 8e12 / model.link.0 * f64::from(1u32 << POINT);
        Self { free: 0, picos_per_byte: picos_per_byte as u64 }
    }

    /// When a packet of so many bytes that is sent at `time` has arrived, in picoseconds;
    /// `None` when the link carries no more.
    #[inline]
    pub fn carry(&mut self, time: u64, bytes: u16) -> Option<u64> {
        // Times beyond any run are the largest there is.
        let arrival = time.max(self.free.saturating_add(self.busy(bytes)));
        if arrival - time > LONGEST_HOLD {
            return None;
        }
        self.free = arrival;
        Some(arrival)
    }

    /// How long a packet of so many bytes occupies it, in picoseconds.
    #[inline]
    pub(crate) fn busy(&self, bytes: u16) -> u64 {
        let bytes = u64::from(bytes) + u64::from(ETHERNET_OVERHEAD_BYTES);
        (bytes * self.picos_per_byte) >> POINT
    }
}

/// The network cards: all ports, each with its redirect table.
#[derive(Debug)]
pub(crate) struct Nic {
    tables: Vec<RedirectTable>,
    links: Vec<Link>,
    /// The packets of the present block, as their links deliver them.
    ahead: Vec<Packet>,
    /// Packets that did not fit on their link.
    pub beyond_link: u64,
}

impl Nic {
    pub fn new(model: &NicModel, active: CoreSet) -> Self {
        Self {
            tables: vec![RedirectTable::new(model.redirect_table_entries, active); model.ports],
            links: vec![Link::new(model); model.ports],
            ahead: Vec::new(),
            beyond_link: 0,
        }
    }

    /// Leads a block of packets to the rings; all cores have come to `now`. Where traffic
    /// is described for more ports than the server has, its ports share them.
    pub fn lead(&mut self, now: u64, block: &[Packet], cores: &mut [Core]) {
        let ports = self.links.len();
        cores.iter_mut().flat_map(|core| &mut core.rings).for_each(|ring| ring.compact());
        self.ahead.retain(|packet| packet.time.as_picos() > now);
        for packet in block {
            let port = usize::from(packet.port);
            let port = if port < ports { port } else { port % ports };
            let Some(arrival) = self.links[port].carry(packet.time.as_picos(), packet.length)
            else {
                self.beyond_link += 1;
                continue;
            };
            let time = Time::from_picos(arrival);
            let packet = Packet { time, port: port as u8, ..*packet };
            self.ahead.push(packet);
            cores[self.tables[port].core(packet.flow)].rings[port].lead(packet);
        }
    }

    /// Rewrites the redirect tables for these cores: what arrives after `now` follows it.
    /// Watches the entries that have just left a core which still has packets of them, and
    /// returns how many moved.
    pub fn redirect(
        &mut self,
        now: u64,
        active: CoreSet,
        cores: &mut [Core],
        watch: &mut Watch,
    ) -> usize {
        let mut held = [0; MAX_CORES];
        let moved =
            self.tables.iter_mut().map(|table| table.spread_beside(active, &mut held)).sum();
        if moved == 0 {
            return 0;
        }
        let mask = |table: &RedirectTable| table.entries().len() as u32 - 1;
        for core in cores.iter_mut() {
            if let Some((port, flow, done)) = core.in_service(now)
                && self.tables[port].core(flow) != core.number
            {
                watch.begin_in_service(port as u8, flow, done, mask(&self.tables[port]), now);
            }
            for (ring, table) in core.rings.iter_mut().zip(&self.tables) {
                ring.admit(now);
                ring.take_back_after(now);
                for packet in ring.waiting().filter(|p| table.core(p.flow) != core.number) {
                    let arrival = packet.time.as_picos();
                    watch.begin(packet.port, packet.flow, arrival, mask(table), now);
                }
            }
        }
        for packet in self.ahead.iter().filter(|packet| packet.time.as_picos() > now) {
            let port = usize::from(packet.port);
            cores[self.tables[port].core(packet.flow)].rings[port].lead(*packet);
        }
        moved
    }
}

//! From the link to the rings: the redirect table.

use wattline_cores::{Core, Link, Ring, Watch};
use wattline_policy::{CoreSet, MAX_CORES, OperatingPoint, RedirectTable};
use wattline_server::Nic as NicModel;
use wattline_traffic::Packet;

#[derive(Debug, Clone)]
struct Port {
    link: Link,
    table: RedirectTable,
}

impl Port {
    /// Number of the entry that leads a flow, counted over all ports, of which this is `port`.
    #[inline]
    fn entry(&self, port: usize, flow: u32) -> usize {
        let size = self.table.entries().len();
        port * size + (flow as usize & (size - 1))
    }
}

/// The network cards: all ports, each with its redirect table.
#[derive(Debug)]
pub(crate) struct Nic {
    ports: Vec<Port>,
    /// Packets led by each entry of the tables, port after port; empty where nobody asks.
    led: Vec<u64>,
    /// Those of them that have arrived.
    arrivals: Vec<u64>,
    /// Packets that did not fit on their link.
    pub beyond_link: u64,
}

impl Nic {
    /// With tables for these active cores; `count_entries` has the packets of each entry counted.
    pub fn new(model: &NicModel, active: CoreSet, count_entries: bool) -> Self {
        let entries = model.redirect_table_entries;
        let table = RedirectTable::new(entries, active);
        Self {
            ports: vec![Port { link: Link::new(model), table }; model.ports],
            led: vec![0; if count_entries { model.ports * entries } else { 0 }],
            arrivals: Vec::new(),
            beyond_link: 0,
        }
    }

    /// Packets that have arrived by each entry, port after port; empty where nobody asked. The
    /// cores have admitted what has arrived.
    pub fn arrivals(&mut self, cores: &[Core]) -> &[u64] {
        self.arrivals.clone_from(&self.led);
        if !self.led.is_empty() {
            for (port, ring) in cores.iter().flat_map(|core| core.rings.iter().enumerate()) {
                for packet in ring.ahead() {
                    self.arrivals[self.ports[port].entry(port, packet.flow)] -= 1;
                }
            }
        }
        &self.arrivals
    }

    /// Leads a block of packets to the rings. Where traffic is described for more ports than
    /// the server has, its ports share them.
    pub fn lead(&mut self, block: &[Packet], cores: &mut [Core]) {
        let count = self.ports.len();
        // By core, then by port: at hand without asking each packet's core for its rings.
        let mut rings: Vec<&mut Ring> = cores.iter_mut().flat_map(|core| &mut core.rings).collect();
        rings.iter_mut().for_each(|ring| ring.compact());
        for packet in block {
            let port = usize::from(packet.port);
            let port = if port < count { port } else { port % count };
            let entry = self.ports[port].entry(port, packet.flow);
            let Port { link, table } = &mut self.ports[port];
            match link.carry(packet.picos, packet.length) {
                Some(picos) => {
                    if let Some(led) = self.led.get_mut(entry) {
                        *led += 1;
                    }
                    rings[table.core(packet.flow) * count + port].lead(Packet { picos, ..*packet });
                }
                None => self.beyond_link += 1,
            }
        }
    }

    /// Rewrites the redirect tables for these cores: what arrives after `now` follows it.
    /// Watches the entries that have just left a core which still has packets of them, and
    /// returns how many moved.
    pub fn redirect(
        &mut self,
        now: u64,
        point: &OperatingPoint,
        cores: &mut [Core],
        watch: &mut Watch,
    ) -> usize {
        let mut held = [0; MAX_CORES];
        let tables = self.ports.iter_mut().map(|port| &mut port.table);
        let moved = tables
            .map(|table| table.spread_weighted(point.active, &point.weights, &mut held))
            .sum();
        if moved == 0 {
            return 0;
        }
        let mask = |table: &RedirectTable| table.entries().len() as u32 - 1;
        let mut ahead = Vec::new();
        for core in cores.iter_mut() {
            if let Some((port, flow, done)) = core.in_service(now)
                && let Port { table, .. } = &self.ports[port]
                && table.core(flow) != core.number
            {
                watch.begin_in_service(port as u8, flow, done, mask(table), now);
            }
            for (port, (ring, Port { table, .. })) in
                core.rings.iter_mut().zip(&self.ports).enumerate()
            {
                ring.admit(now);
                ahead.extend(ring.take_back_after(now).map(|packet| (port, packet)));
                for packet in ring.waiting().iter().filter(|p| table.core(p.flow) != core.number) {
                    let arrival = packet.picos;
                    watch.begin(port as u8, packet.flow, arrival, mask(table), now);
                }
            }
        }
        // On one port packets arrive one after the other.
        ahead.sort_by_key(|(_, packet): &(usize, Packet)| packet.picos);
        for (port, packet) in ahead {
            cores[self.ports[port].table.core(packet.flow)].rings[port].lead(packet);
        }
        moved
    }
}

//! From the link to the rings through the indirection table.

use wattline_cores::{Core, Link, Ring, Watch};
use wattline_policy::{CoreSet, IndirectionTable, MAX_CORES, OperatingPoint};
use wattline_server::Nic as NicModel;
use wattline_traffic::Packet;

#[derive(Debug, Clone)]
struct Port {
    link: Link,
    table: IndirectionTable,
}

/// Returns the number of a flow's entry in the table of `port`, counted over the tables of all
/// ports.
#[inline]
fn entry(table: &IndirectionTable, port: usize, flow: u32) -> usize {
    let size = table.entries().len();
    port * size + (flow as usize & (size - 1))
}

/// The network cards: all ports, each with its indirection table.
#[derive(Debug)]
pub(crate) struct Nic {
    ports: Vec<Port>,
    /// Packets directed by each table entry, port after port; empty unless requested.
    led: Vec<u64>,
    /// Number of these packets that have arrived.
    arrivals: Vec<u64>,
    /// Number of packets beyond the capacity of their link.
    pub beyond_link: u64,
}

impl Nic {
    /// Creates tables for these active cores; `count_entries` enables counts per table entry.
    pub fn new(model: &NicModel, active: CoreSet, count_entries: bool) -> Self {
        let entries = model.redirect_table_entries;
        let tables = IndirectionTable::for_ports(model.ports, entries, active);
        let port = |table| Port { link: Link::new(model), table };
        Self {
            ports: tables.into_iter().map(port).collect(),
            led: vec![0; if count_entries { model.ports * entries } else { 0 }],
            arrivals: Vec::new(),
            beyond_link: 0,
        }
    }

    /// Returns the packets that have arrived per table entry, port after port; empty unless
    /// requested. The cores must have admitted all arrivals.
    pub fn arrivals(&mut self, cores: &[Core]) -> &[u64] {
        self.arrivals.clone_from(&self.led);
        if !self.led.is_empty() {
            for (port, ring) in cores.iter().flat_map(|core| core.rings.iter().enumerate()) {
                for packet in ring.ahead() {
                    self.arrivals[entry(&self.ports[port].table, port, packet.flow)] -= 1;
                }
            }
        }
        &self.arrivals
    }

    /// Directs a block of packets to the rings. If the traffic has more ports than the server, the
    /// server's ports share them.
    pub fn steer(&mut self, block: &[Packet], cores: &mut [Core]) {
        if self.led.is_empty() {
            self.steer_block::<false>(block, cores);
        } else {
            self.steer_block::<true>(block, cores);
        }
    }

    /// Does the work of [`Self::steer`], with or without counts by table entry.
    fn steer_block<const COUNT: bool>(&mut self, block: &[Packet], cores: &mut [Core]) {
        let count = self.ports.len();
        // Rings by core, then by port: found without a search per packet.
        let mut rings: Vec<&mut Ring> = cores.iter_mut().flat_map(|core| &mut core.rings).collect();
        rings.iter_mut().for_each(|ring| ring.compact());
        for packet in block {
            let port = usize::from(packet.port);
            let port = if port < count { port } else { port % count };
            let Port { link, table } = &mut self.ports[port];
            match link.carry(packet.picos, packet.length) {
                Some(picos) => {
                    if COUNT {
                        self.led[entry(table, port, packet.flow)] += 1;
                    }
                    rings[table.core(packet.flow) * count + port].push(Packet { picos, ..*packet });
                }
                None => self.beyond_link += 1,
            }
        }
    }

    /// Rewrites the indirection tables for these cores; packets that arrive after `now` follow
    /// them. Watches the entries whose old core still has packets of them, and returns how many
    /// entries moved.
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
        let mask = |table: &IndirectionTable| table.entries().len() as u32 - 1;
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
        // Packets arrive one after the other on one port.
        ahead.sort_by_key(|(_, packet): &(usize, Packet)| packet.picos);
        for (port, packet) in ahead {
            cores[self.ports[port].table.core(packet.flow)].rings[port].push(packet);
        }
        moved
    }
}

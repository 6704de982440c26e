//! Packets that programs leave to the kernel at their own interface, before a worker sees them.
//! Their routes lead out of no port, are understood only by the kernel, or lead back to the ingress
//! interface, so that the kernel sends a redirect. The programs also learn the addresses for which
//! the kernel answers neighbour discovery.
//!
//! Guarded ports are left out: the kernel would forward their packets unchecked. Workers judge
//! these packets and give them to the kernel through the TUN device.

use super::programs::Programs;
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::time::{Duration, Instant};
use wattline_dataplane::port::PortId;
use wattline_linux::netlink::proxied_addresses;
use wattline_linux::redirects::sends_redirects;
use wattline_rib::{Egress, Rib};
use wattline_xdp::{ROUTED_PREFIXES_MAX, Routed};

/// Largest number of prefixes whose egress interfaces are collected. Beyond it, no redirects are
/// sent if workers forward.
const MOST: usize = ROUTED_PREFIXES_MAX as usize;
/// Interval at which settings for redirects and neighbour proxies are read, since the kernel does
/// not announce their changes.
const READ_EVERY: Duration = Duration::from_secs(5);
/// Interval of checks for unfinished checksums.
const CHECK_EVERY: Duration = Duration::from_secs(1);
/// Least time between two collections.
const COLLECT_EVERY: Duration = Duration::from_millis(50);
/// The time between two collections is this many times the time that one takes.
const SHARE: u32 = 20;

/// Follower of the routes that concern the programs.
#[derive(Debug)]
pub(super) struct KernelRoutes {
    changed: bool,
    next: Instant,
    next_read: Instant,
    next_check: Instant,
    /// VLANs of ports by which the kernel sends IPv4 redirects.
    redirects: Vec<(PortId, u16)>,
}

impl KernelRoutes {
    /// Creates a follower whose first collection is due.
    pub fn new(now: Instant) -> Self {
        Self { changed: true, next: now, next_read: now, next_check: now, redirects: Vec::new() }
    }

    /// Notes that routes or ports have changed.
    pub fn routes_changed(&mut self) {
        self.changed = true;
    }

    /// Returns the time of the next collection or reading.
    pub fn deadline(&self) -> Instant {
        if self.changed { self.next.min(self.next_read) } else { self.next_read }
    }

    /// Updates the programs, if routes have changed and it is time.
    pub fn update(&mut self, programs: &mut Programs, rib: &Rib) {
        let now = Instant::now();
        if now >= self.next_check {
            self.next_check = now + CHECK_EVERY;
            programs.warn_of_unfinished();
        }
        if now >= self.next_read || self.changed {
            self.next_read = now + READ_EVERY;
            programs.set_proxied(proxied(rib), rib);
            let redirects = redirecting(rib);
            self.changed |= redirects != self.redirects;
            self.redirects = redirects;
        }
        if !self.changed || now < self.next {
            return;
        }
        self.changed = false;
        let egresses = rib.egresses(MOST);
        for port in programs.ports() {
            let redirects = |port, vlan| self.redirects.contains(&(port, vlan));
            let has_vlans =
                rib.link_of(port).is_some_and(|it| rib.vlans_of(it.index).next().is_some());
            // Programs that forward know the egress interface of an untagged packet.
            let by_routes = has_vlans || !programs.does_forward(port);
            let routes = routes_at(port, &egresses, &|ipv6, vlan| {
                by_routes && (ipv6 || redirects(port, vlan))
            });
            programs.set_routes(port, routes, redirects(port, 0));
        }
        self.next = now + COLLECT_EVERY.max(now.elapsed() * SHARE);
    }
}

/// Returns the addresses for which the kernel answers neighbour discovery at ports.
fn proxied(rib: &Rib) -> Vec<(PortId, IpAddr)> {
    let found = proxied_addresses().unwrap_or_else(|error| {
        tracing::debug!("neighbour proxies: {error}");
        Vec::new()
    });
    let at_port = |(link, address): (u32, Ipv6Addr)| match rib.interface(link) {
        Some((port, 0)) => Some((port, IpAddr::V6(address))),
        _ => None,
    };
    found.into_iter().filter_map(at_port).collect()
}

/// Returns the interfaces of ports by which the kernel may send IPv4 redirects.
fn redirecting(rib: &Rib) -> Vec<(PortId, u16)> {
    let mut found = Vec::new();
    for (port, _) in rib.port_links() {
        let interfaces = rib.interfaces_of(port).into_iter();
        let redirecting = interfaces.filter(|(_, name)| sends_redirects(name));
        found.extend(redirecting.filter_map(|(index, _)| rib.interface(index)));
    }
    found.sort_unstable();
    found
}

/// Returns the smallest set of routes that selects the packets which a port leaves to the kernel,
/// or the whole family if there are too many. `redirects` returns true if senders of a VLAN of the
/// port may be redirected, in IPv6 or IPv4.
fn routes_at(
    port: PortId,
    egresses: &BTreeMap<IpNet, Egress>,
    redirects: &dyn Fn(bool, u16) -> bool,
) -> BTreeMap<IpNet, Routed> {
    let mut routes = BTreeMap::new();
    // Prefixes around the present one: each precedes the prefixes inside.
    let mut around: Vec<(IpNet, Routed)> = Vec::new();
    for (prefix, egress) in egresses {
        let ipv6 = prefix.addr().is_ipv6();
        let is_back = |it: &&(PortId, u16)| it.0 == port && redirects(ipv6, it.1);
        let routed = match egress {
            Egress::Kernel => Routed::Kernel,
            Egress::Ports(interfaces) => interfaces
                .iter()
                .find(is_back)
                .map_or(Routed::FastPath, |(_, vlan)| Routed::SameInterface(*vlan)),
        };
        while around.pop_if(|(outer, _)| !outer.contains(prefix)).is_some() {}
        let inherited = around.last().map_or(Routed::FastPath, |(_, routed)| *routed);
        if routed != inherited {
            routes.insert(*prefix, routed);
        }
        around.push((*prefix, routed));
    }
    for whole in [IpNet::V4(Ipv4Net::default()), IpNet::V6(Ipv6Net::default())] {
        let is_of_family = |it: &IpNet| it.addr().is_ipv4() == whole.addr().is_ipv4();
        if routes.keys().filter(|it| is_of_family(it)).count() > MOST {
            routes.retain(|it, _| !is_of_family(it));
            routes.insert(whole, Routed::Kernel);
        }
    }
    routes
}

#[cfg(test)]
mod tests {
    use super::*;

    const PORT: PortId = PortId(0);

    fn routes(egresses: &[(&str, Egress)]) -> Vec<(String, Routed)> {
        let egresses = egresses.iter().map(|(prefix, it)| (prefix.parse().unwrap(), it.clone()));
        let redirects = |_, vlan| vlan != 9;
        let found = routes_at(PORT, &egresses.collect(), &redirects);
        found.into_iter().map(|(prefix, routed)| (prefix.to_string(), routed)).collect()
    }

    #[test]
    fn only_routes_that_differ_from_those_around_them_are_kept() {
        let out_of = |port, vlan| Egress::Ports(vec![(PortId(port), vlan)]);
        let found = routes(&[
            ("0.0.0.0/0", Egress::Kernel),
            ("10.0.0.0/8", out_of(1, 0)),
            ("10.1.0.0/16", out_of(2, 0)),
            ("10.2.0.0/16", out_of(0, 0)),
            ("10.2.3.0/24", out_of(0, 7)),
            ("10.3.0.0/16", out_of(0, 9)),
            ("11.0.0.0/8", Egress::Kernel),
            ("12.0.0.0/8", Egress::Ports(Vec::new())),
            ("2001:db8::/32", out_of(1, 0)),
        ]);
        let expected = [
            ("0.0.0.0/0", Routed::Kernel),
            ("10.0.0.0/8", Routed::FastPath),
            ("10.2.0.0/16", Routed::SameInterface(0)),
            ("10.2.3.0/24", Routed::SameInterface(7)),
            ("12.0.0.0/8", Routed::FastPath),
        ];
        assert_eq!(found, expected.map(|(prefix, routed)| (prefix.to_owned(), routed)));
    }

    #[test]
    fn family_with_too_many_routes_is_left_as_a_whole() {
        let prefix = |number: u32| IpNet::from(std::net::IpAddr::from((number << 8).to_be_bytes()));
        let mut egresses: BTreeMap<_, _> =
            (0..=ROUTED_PREFIXES_MAX).map(|number| (prefix(number), Egress::Kernel)).collect();
        egresses.insert("2001:db8::/32".parse().unwrap(), Egress::Kernel);
        let found = routes_at(PORT, &egresses, &|_, _| true);
        let expected =
            ["0.0.0.0/0", "2001:db8::/32"].map(|it| (it.parse().unwrap(), Routed::Kernel));
        assert_eq!(found, BTreeMap::from(expected));
    }
}

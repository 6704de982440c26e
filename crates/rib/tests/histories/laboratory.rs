//! A namespace in which commands change the kernel's routes, and a comparison of its decisions with
//! those of the tables that Wattline derives from them.

use super::generator::LINKS;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::net::IpAddr;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use wattline_dataplane::next_hop::NextHop;
use wattline_dataplane::port::PortId;
use wattline_dataplane::routes::Routes;
use wattline_fib::NextHopId;
use wattline_linux::namespace::interface_index;
use wattline_linux::netlink::{ChangeFeed, Decision, DecisionQuery, forward_path};
use wattline_rib::{PortSpec, Rib, Source, Treatment, route_errors};

/// Names of the ports; `pd` is none.
pub const PORTS: [&str; 4] = ["pin", "pa", "pb", "pc"];

/// Time in which the tables have to agree with the kernel after a change. Routes that vanish
/// without a notification are found by a new dump.
const PATIENCE: Duration = Duration::from_secs(3);

/// Sums over all comparisons.
#[derive(Debug, Default, Clone, Copy)]
pub struct Counts {
    pub steps: u64,
    pub refused: u64,
    pub decisions: u64,
    /// Decisions that the tables make themselves, instead of leaving packets to the kernel.
    pub own: u64,
}

/// Plays commands in a new namespace; returns the first difference, as the number of the step and
/// a description.
pub fn play(steps: &[String], counts: &mut Counts) -> Option<(usize, String)> {
    let namespace = super::namespace()?;
    namespace.enter(|| Laboratory::new().play(steps, counts)).unwrap()
}

struct Laboratory {
    feed: ChangeFeed,
    rib: Rib,
    routes: Routes,
    query: DecisionQuery,
    /// Numbers of the links that are ports.
    links: BTreeMap<u16, u32>,
    ingress: u32,
    macs: BTreeMap<[u8; 6], IpAddr>,
    probes: Vec<IpAddr>,
}

impl Laboratory {
    /// Builds the links; called inside the namespace.
    fn new() -> Self {
        for (key, value) in [
            ("ipv4/ip_forward", "1"),
            ("ipv4/conf/all/rp_filter", "0"),
            ("ipv4/conf/default/rp_filter", "0"),
            ("ipv6/conf/all/forwarding", "1"),
            ("ipv6/conf/default/forwarding", "1"),
            ("ipv6/conf/default/accept_dad", "0"),
            ("ipv6/conf/all/accept_dad", "0"),
            ("ipv6/conf/default/router_solicitations", "0"),
        ] {
            std::fs::write(format!("/proc/sys/net/{key}"), value).unwrap();
        }
        let mut setup = String::new();
        for port in PORTS.into_iter().chain(["pd"]) {
            setup += &format!("link add {port} type veth peer name {port}1\nlink set {port}1 up\n");
        }
        setup += "addr add 172.16.0.1/24 dev pin\naddr add 2001:db8:ffff::1/64 dev pin\nlink set pin up\n";
        for (link, number) in LINKS {
            setup += &format!("link set {link} up\n");
            setup += &super::generator::addresses(link, number).join("\n");
            setup += "\n";
        }
        let mut macs = BTreeMap::new();
        for (link, number) in LINKS {
            for host in [2, 3] {
                for address in super::generator::neighbours(number, host) {
                    let mac = [2, u8::from(address.is_ipv6()), 0, 0, number, host];
                    let text = mac.map(|byte| format!("{byte:02x}")).join(":");
                    setup += &format!(
                        "neigh replace {address} dev {link} lladdr {text} nud permanent\n"
                    );
                    macs.insert(mac, address);
                }
            }
        }
        assert!(batch(&setup, Stdio::inherit()), "the links cannot be made");
        let number = |name: &str| interface_index(name).unwrap();
        let links = (0..).zip(PORTS).map(|(port, name)| (port, number(name))).collect();
        let spec = |name: &str| PortSpec {
            link: name.to_owned(),
            largest_mtu: 9000,
            ..PortSpec::default()
        };
        Self {
            feed: ChangeFeed::new().unwrap(),
            rib: Rib::new(PORTS.map(spec).to_vec()),
            routes: Routes::new(Vec::new()),
            query: DecisionQuery::new().unwrap(),
            ingress: number("pin"),
            links,
            macs,
            probes: super::generator::probes(),
        }
    }

    fn play(mut self, steps: &[String], counts: &mut Counts) -> Option<(usize, String)> {
        if let Some(difference) = self.settle(counts) {
            return Some((0, difference));
        }
        for (number, step) in steps.iter().enumerate() {
            counts.steps += 1;
            counts.refused += u64::from(!command(step));
            if let Some(difference) = self.settle(counts) {
                return Some((number, difference));
            }
        }
        None
    }

    /// Follows the kernel until the tables agree with it; returns the remaining difference, if any.
    fn settle(&mut self, counts: &mut Counts) -> Option<String> {
        let until = Instant::now() + PATIENCE;
        loop {
            let rib = &mut self.rib;
            while self
                .feed
                .poll(Instant::now(), &mut |event| rib.apply(Source::Kernel, event))
                .unwrap()
            {}
            if rib.take_missed_change() {
                self.feed.request_dump(Instant::now());
                continue;
            }
            self.rib.commit(&mut self.routes).unwrap();
            let difference = self.difference(counts)?;
            if Instant::now() > until {
                return Some(difference);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn difference(&mut self, counts: &mut Counts) -> Option<String> {
        let settings = forward_path::read().settings;
        let off =
            [false, true].map(|ipv6| settings.for_link(self.ingress, ipv6).off_because.is_some());
        for address in self.probes.clone() {
            counts.decisions += 1;
            // Only for IPv4 does the kernel's lookup respect whether it forwards.
            if off[usize::from(address.is_ipv6())] {
                let source = IpAddr::from([172, 16, 0, 2]);
                let forwards = address.is_ipv4()
                    && matches!(
                        self.query.ask(source, address, self.ingress).unwrap(),
                        Decision::Forward { .. }
                    );
                if forwards {
                    return Some(format!("{address}: the kernel forwards, though that is off"));
                }
                continue;
            }
            let treatment = self.treatment(address);
            let (_, derived) = self.rib.treatment(address, &self.routes);
            if derived != treatment {
                return Some(format!("{address}: tables {treatment:?}, derived {derived:?}"));
            }
            if treatment == Treatment::Kernel {
                continue;
            }
            counts.own += 1;
            let mut unseen = match &treatment {
                Treatment::Forward(ways) => ways.clone(),
                _ => BTreeSet::new(),
            };
            // The kernel chooses among several next hops by a hash of source and destination.
            for host in 2..=254_u8 {
                let source = match address {
                    IpAddr::V4(_) => IpAddr::from([172, 16, 0, host]),
                    IpAddr::V6(_) => {
                        IpAddr::from([0x2001, 0xdb8, 0xffff, 0, 0, 0, 0, u16::from(host)])
                    }
                };
                let kernel = self.query.ask(source, address, self.ingress).unwrap();
                if let Decision::Forward { link, gateway } = kernel {
                    unseen.remove(&(link, gateway.unwrap_or(address)));
                }
                if !treatment.allows(kernel, address) {
                    return Some(format!("{address}: kernel {kernel:?}, Wattline {treatment:?}"));
                }
                if unseen.is_empty() {
                    break;
                }
            }
            if !unseen.is_empty() {
                return Some(format!(
                    "{address}: the kernel never uses {unseen:?} of {treatment:?}"
                ));
            }
        }
        None
    }

    fn treatment(&self, address: IpAddr) -> Treatment {
        let Some((_, id)) = self.routes.longest_match(address) else {
            return Treatment::Refused(route_errors::NO_ROUTE);
        };
        let mut ways = BTreeSet::new();
        match self.next_hop(id) {
            NextHop::Group(members) => {
                for (member, _) in members {
                    match self.way(self.next_hop(*member), address) {
                        Some(way) => drop(ways.insert(way)),
                        None => return Treatment::Kernel,
                    }
                }
            }
            NextHop::None => return Treatment::Refused(route_errors::NO_ROUTE),
            NextHop::Unreachable => return Treatment::Refused(route_errors::UNREACHABLE),
            NextHop::Prohibit => return Treatment::Refused(route_errors::PROHIBITED),
            NextHop::Blackhole => return Treatment::Refused(route_errors::BLACKHOLE),
            one => match self.way(one, address) {
                Some(way) => drop(ways.insert(way)),
                None => return Treatment::Kernel,
            },
        }
        Treatment::Forward(ways)
    }

    fn next_hop(&self, id: NextHopId) -> &NextHop {
        self.routes.next_hop(id).unwrap_or(&NextHop::None)
    }

    fn way(&self, next_hop: &NextHop, address: IpAddr) -> Option<(u32, IpAddr)> {
        let link = |port: PortId| self.links[&port.0];
        match next_hop {
            NextHop::Forward(to) => {
                let unknown = || panic!("{to:?} for {address}: no such neighbour");
                let neighbour = self.macs.get(&to.destination_mac).copied();
                Some((link(to.port), neighbour.unwrap_or_else(unknown)))
            }
            NextHop::Resolve { port, gateway, .. } => {
                Some((link(*port), gateway.unwrap_or(address)))
            }
            _ => None,
        }
    }
}

/// Runs one command in this thread's namespace: arguments of `ip`, or `sysctl KEY=VALUE`. Returns
/// false if it is refused.
fn command(step: &str) -> bool {
    match step.strip_prefix("sysctl ") {
        Some(setting) => {
            let (key, value) = setting.split_once('=').unwrap();
            std::fs::write(format!("/proc/sys/net/{key}"), value).is_ok()
        }
        None => batch(step, Stdio::null()),
    }
}

fn batch(lines: &str, errors: Stdio) -> bool {
    // The family is an option of the program, not of a line.
    let (family, lines) = match lines.strip_prefix("-6 ") {
        Some(lines) => (Some("-6"), lines),
        None => (None, lines),
    };
    let mut ip = Command::new("ip");
    ip.args(family);
    let mut ip = ip
        .args(["-force", "-batch", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(errors)
        .spawn()
        .unwrap();
    ip.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    ip.wait().unwrap().success()
}

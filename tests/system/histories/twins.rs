//! A router with Wattline and its twin with the kernel alone, in which the same commands run.
//!
//! ```text
//!   far ends ══ router: Wattline      ports pin, pa, pb, pc; pd is none
//!   far ends ══ twin: the kernel
//! ```

use super::generator::{self, LINKS};
use super::wires::{Output, Probe, Wires, error_of, mac_of};
use crate::harness::binary;
use ipnet::IpNet;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::net::IpAddr;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use wattline_testbed::command;
use wattline_testbed::forwarder::{Totals, Wattline};
use wattline_testbed::namespace::Namespace;
use wattline_testbed::topology::mac_text;

const LIMIT: Duration = Duration::from_secs(60);
/// Time in which both have to agree after a change.
const PATIENCE: Duration = Duration::from_secs(8);
/// Pause before probes are sent again, within the limits of ICMP errors.
const PAUSE: Duration = Duration::from_millis(150);
/// Time in which a probe comes out, on a busy machine.
const TRANSIT: Duration = Duration::from_millis(300);
/// Time after which no frame is expected any more if both have sent the same.
const QUIET: Duration = Duration::from_millis(10);
/// Time after which both count as silent.
const SILENT: Duration = Duration::from_millis(60);
/// Packet sources to find all next hops of a destination.
const SOURCES: usize = 60;
/// The same for a destination that is answered by an error: few enough for the router's limit of 50
/// errors at a time.
const SOURCES_OF_ERRORS: usize = 5;
/// Destinations whose next hops are found together: a ring holds the burst.
const TOGETHER: usize = 8;
/// Payloads of a probe: one that passes everywhere, and one that meets every lower MTU.
const LENGTHS: [usize; 2] = [32, 1420];
/// Ports, and a link that is none; probes arrive by the first port.
const PORTS: [&str; 5] = ["pin", "pa", "pb", "pc", "pd"];

/// Networks of the senders, unless a step `from NETWORK NETWORK` names others.
const SENDERS: [&str; 2] = ["172.17.0.0/16", "2001:db8:fffe::/64"];

/// Addresses of the ingress port, and the way back to these senders.
const SOURCE_ROUTES: &str = "addr add 172.16.0.1/24 dev pin\naddr add 2001:db8:ffff::1/64 dev pin\n\
    route add 172.17.0.0/16 via 172.16.0.2 dev pin\n\
    route add 2001:db8:fffe::/64 via 2001:db8:ffff::2 dev pin\n";

/// Kernel parameters of a router, so that nothing disturbs the comparison: no filter by source, no
/// duplicate-address detection, no limit on ICMP errors.
const SETTINGS: &[(&str, &str)] = &[
    ("ipv4/conf/all/rp_filter", "0"),
    ("ipv4/conf/default/rp_filter", "0"),
    ("ipv4/conf/all/send_redirects", "0"),
    ("ipv4/icmp_ratelimit", "0"),
    ("ipv4/icmp_msgs_per_sec", "1000000"),
    ("ipv4/icmp_msgs_burst", "1000000"),
    ("ipv6/icmp/ratelimit", "0"),
    ("ipv6/conf/all/accept_dad", "0"),
    ("ipv6/conf/default/accept_dad", "0"),
    ("ipv6/conf/all/accept_ra", "0"),
    ("ipv6/conf/default/accept_ra", "0"),
    ("ipv6/conf/default/router_solicitations", "0"),
];
/// Settings that histories change, with their initial values.
const CHANGED: &[(&str, &str)] = &[
    ("ipv4/ip_forward", "1"),
    ("ipv4/conf/all/forwarding", "1"),
    ("ipv6/conf/all/forwarding", "1"),
    ("ipv4/conf/all/ignore_routes_with_linkdown", "0"),
    ("ipv6/conf/all/ignore_routes_with_linkdown", "0"),
    ("ipv6/conf/all/force_forwarding", "0"),
];
/// The same for each link.
const CHANGED_OF_LINK: &[(&str, &str, &str)] = &[
    ("ipv4", "forwarding", "1"),
    ("ipv6", "forwarding", "1"),
    ("ipv6", "force_forwarding", "0"),
    ("ipv6", "disable_ipv6", "0"),
    ("ipv4", "ignore_routes_with_linkdown", "0"),
    ("ipv6", "ignore_routes_with_linkdown", "0"),
];

/// Sums over all comparisons.
#[derive(Debug, Default, Clone, Copy)]
pub struct Counts {
    pub steps: u64,
    pub refused: u64,
    pub probes: u64,
    /// Frames that were compared.
    pub packets: u64,
    /// Probes whose output differed from the kernel's: by another next hop of several, or before
    /// Wattline had followed a change.
    pub unlike: u64,
    /// Histories that ended early: only one of both kernels accepted a command.
    pub diverged: u64,
}

struct Side {
    router: Namespace,
    wires: Wires,
}

/// Both routers.
pub struct Twins {
    // First: it is stopped before its namespace goes.
    wattline: Wattline,
    sides: [Side; 2],
    destinations: Vec<IpAddr>,
    senders: [IpNet; 2],
    round: u32,
    next_number: u32,
}

impl Twins {
    /// Builds both and starts Wattline, whose XDP programs forward if `by_xdp`.
    pub fn start(by_xdp: bool) -> Self {
        let sides = ["router", "twin"].map(Side::build);
        let configuration = |socket: &Path| {
            let forward = if by_xdp { "on" } else { "off" };
            let mut text = format!(
                "[router]\nworkers = 1\nmode = \"adaptive\"\nxdp_forward = \"{forward}\"\naudit = 0\n\
                 socket = \"{}\"\n",
                socket.display()
            );
            for port in &PORTS[..4] {
                let _ = write!(text, "[[port]]\nname = \"{port}\"\ninterface = \"{port}\"\n");
            }
            text
        };
        let wattline = Wattline::start_in(&sides[0].router, binary(), configuration)
            .unwrap_or_else(|error| panic!("{error}"));
        let destinations = generator::probes();
        let senders = SENDERS.map(|network| network.parse().unwrap());
        Self { wattline, sides, destinations, senders, round: 0, next_number: 0 }
    }

    /// Plays commands from the initial state; returns the first difference, as the number of the
    /// step and a description.
    pub fn play(&mut self, steps: &[String], counts: &mut Counts) -> Option<(usize, String)> {
        self.sides.iter().for_each(Side::reset);
        self.senders = SENDERS.map(|network| network.parse().unwrap());
        let difference = self.settle(counts);
        assert_eq!(difference, None, "before the first step: {}", self.wattline.log());
        for (number, step) in steps.iter().enumerate() {
            counts.steps += 1;
            if let Some(networks) = step.strip_prefix("from ") {
                let mut networks = networks.split(' ').map(|network| network.parse().unwrap());
                self.senders = std::array::from_fn(|_| networks.next().unwrap());
                // Errors to the senders before have used up some of the limits.
                std::thread::sleep(PAUSE);
                if let Some(difference) = self.settle(counts) {
                    return Some((number, difference));
                }
                continue;
            }
            let [ours, kernel] = self.sides.each_ref().map(|side| side.command(step));
            counts.refused += u64::from(!kernel);
            if ours != kernel {
                counts.diverged += 1;
                return None;
            }
            if let Some(difference) = self.settle(counts) {
                return Some((number, difference));
            }
        }
        None
    }

    /// Stops Wattline and returns its counters.
    pub fn stop(self) -> Totals {
        self.wattline.stop().unwrap_or_else(|error| panic!("{error}"))
    }

    /// Sends probes until both outputs are the same; returns the difference that remains.
    fn settle(&mut self, counts: &mut Counts) -> Option<String> {
        let until = Instant::now() + PATIENCE;
        loop {
            let difference = self.difference(counts)?;
            if Instant::now() > until {
                return Some(difference);
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Sends a probe to each address, and more where the next hops differ: workers choose one of several by
    /// a hash of their own.
    fn difference(&mut self, counts: &mut Counts) -> Option<String> {
        self.round += 1;
        let long = |place: usize| (place + self.round as usize).is_multiple_of(8);
        let probes: Vec<(IpAddr, usize)> = (0..)
            .zip(&self.destinations)
            .map(|(place, address)| (*address, LENGTHS[usize::from(long(place))]))
            .collect();
        let [ours, kernel] = self.cross(&probes, counts);
        let differs = |place: &usize| ours[*place] != kernel[*place];
        let (errors, others): (Vec<usize>, Vec<usize>) = (0..probes.len())
            .filter(differs)
            .partition(|place| is_error(&ours[*place]) || is_error(&kernel[*place]));
        counts.unlike += (errors.len() + others.len()) as u64;
        for (places, sources, pause) in
            [(others, SOURCES, Duration::ZERO), (errors, SOURCES_OF_ERRORS, PAUSE)]
        {
            for places in places.chunks(TOGETHER) {
                std::thread::sleep(pause);
                let several = |place: &usize| std::iter::repeat_n(probes[*place], sources);
                let probes: Vec<_> = places.iter().flat_map(several).collect();
                let outputs = self.cross(&probes, counts);
                let [ours, kernel] = outputs.each_ref().map(|of| of.chunks(sources));
                for ((probes, ours), kernel) in probes.chunks(sources).zip(ours).zip(kernel) {
                    if let Some(difference) = compare_ways(ours, kernel) {
                        let (destination, length) = probes[0];
                        return Some(format!("{destination}, {length} bytes: {difference}"));
                    }
                }
            }
        }
        None
    }

    /// Returns a probe from one of up to 65,536 senders: Linux sends few errors to each.
    fn probe(&self, number: u32, destination: IpAddr, length: usize) -> Probe {
        let senders = self.senders[usize::from(destination.is_ipv6())];
        let bits = u32::from(senders.max_prefix_len() - senders.prefix_len()).min(16);
        let host = number & ((1 << bits) - 1);
        let source = match senders.network() {
            IpAddr::V4(first) => IpAddr::from((u32::from(first) | host).to_be_bytes()),
            IpAddr::V6(first) => IpAddr::from((u128::from(first) | u128::from(host)).to_be_bytes()),
        };
        Probe { source, destination, length }
    }

    /// Sends the same probes to both, each from another source, and returns the resulting frames.
    fn cross(&mut self, probes: &[(IpAddr, usize)], counts: &mut Counts) -> [Vec<Vec<Output>>; 2] {
        let first = self.next_number;
        self.next_number = first.wrapping_add(probes.len() as u32);
        counts.probes += probes.len() as u64;
        let numbered = (first..).zip(probes);
        let probes: Vec<Probe> =
            numbered.map(|(number, (to, length))| self.probe(number, *to, *length)).collect();
        for side in &self.sides {
            side.wires.send(&probes, first, mac("pin", 1));
        }
        let began = Instant::now();
        let numbers = |of: &[Vec<Output>]| of.iter().map(Vec::len).collect::<Vec<_>>();
        let mut before = Vec::new();
        loop {
            std::thread::sleep(QUIET);
            let outputs = self.sides.each_ref().map(|side| side.wires.outputs(first, probes.len()));
            let now = outputs.each_ref().map(|of| numbers(of)).to_vec();
            let empty = now[1].iter().sum::<usize>() == 0;
            let settled = now[0] == now[1] && now == before && (!empty || began.elapsed() > SILENT);
            if settled || began.elapsed() > TRANSIT {
                counts.packets += outputs[0].iter().map(|of| of.len() as u64).sum::<u64>();
                return outputs;
            }
            before = now;
        }
    }
}

impl Side {
    fn build(role: &str) -> Self {
        let [router, outside] = [role, "outside"].map(|it| Namespace::create(it).unwrap());
        router.sysctl(SETTINGS).unwrap();
        let off = [("ipv6/conf/all/disable_ipv6", "1"), ("ipv6/conf/default/disable_ipv6", "1")];
        outside.sysctl(&off).unwrap();
        for link in PORTS {
            let far = format!("{link}1");
            let lines = format!(
                "link add {link} address {} type veth peer name {far} address {} netns {}",
                mac_text(mac(link, 1)),
                mac_text(mac(link, 2)),
                outside.name()
            );
            router.ip(&lines).unwrap();
            // As `topology::connect`; but a far end takes frames of XDP programs.
            for (namespace, end, gro) in [(&router, link, "off"), (&outside, &far, "on")] {
                let features = ["-K", end, "tx", "off", "rx", "off", "sg", "off", "gro", gro];
                namespace.run("ethtool", &features, LIMIT).unwrap();
            }
            router.ip(&format!("link set {link} up")).unwrap();
            outside.ip(&format!("link set {far} up")).unwrap();
        }
        let side = Self { wires: Wires::start(outside, &PORTS), router };
        side.reset();
        side
    }

    /// Brings back the state before a history.
    fn reset(&self) {
        for link in PORTS {
            batch(&self.wires.namespace, &format!("link set {link}1 up"));
        }
        batch(
            &self.router,
            "route flush table main\nroute flush table default\nroute flush table 77\n\
             route flush table local exact 0.0.0.0/0\nroute flush table local root 10.64.0.0/16\n\
             route flush table local exact 192.0.3.0/25\nnexthop flush",
        );
        batch(
            &self.router,
            "-6 route flush table main\nroute flush table default\nroute flush table 77\n\
             route flush table local exact ::/0\nroute flush table local root 2001:db8:64::/48\n\
             route flush table local exact 2001:db8:3::/66",
        );
        let of_link = |link: &str| {
            let setting = |(family, name, value): &(&str, &str, &'static str)| {
                (format!("{family}/conf/{link}/{name}"), *value)
            };
            CHANGED_OF_LINK.iter().map(setting).collect::<Vec<_>>()
        };
        let settings: Vec<(String, &str)> = PORTS.into_iter().flat_map(of_link).collect();
        let all = CHANGED.iter().copied();
        for setting in all.chain(settings.iter().map(|(key, value)| (key.as_str(), *value))) {
            // A setting may be newer than the kernel.
            let _ = self.router.sysctl(&[setting]);
        }
        let mut lines = String::new();
        for link in PORTS {
            let _ = writeln!(
                lines,
                "addr flush dev {link}\nlink set {link} down mtu 1500\nlink set {link} up"
            );
        }
        lines += SOURCE_ROUTES;
        for (link, number) in LINKS {
            lines += &generator::addresses(link, number).join("\n");
            for host in [2, 3] {
                for address in generator::neighbours(number, host) {
                    let mac = mac_text(mac_of(address));
                    let _ = write!(
                        lines,
                        "\nneigh replace {address} dev {link} lladdr {mac} nud permanent"
                    );
                }
            }
            lines += "\n";
        }
        batch(&self.router, &lines);
    }

    /// Runs one command: arguments of `ip`, or `sysctl KEY=VALUE`. False if it is refused.
    fn command(&self, step: &str) -> bool {
        if let Some(setting) = step.strip_prefix("sysctl ") {
            return self.router.sysctl(&[setting.split_once('=').unwrap()]).is_ok();
        }
        let is_far = |word: &str| word.strip_suffix('1').is_some_and(|link| PORTS.contains(&link));
        let link = step.strip_prefix("link set ").and_then(|rest| rest.split(' ').next());
        let far = link.is_some_and(is_far);
        batch(if far { &self.wires.namespace } else { &self.router }, step)
    }
}

/// Runs lines of `ip` in a namespace, all of them. False if one is refused.
fn batch(namespace: &Namespace, lines: &str) -> bool {
    // The family is an option of the program, not of a line.
    let (family, lines) = match lines.strip_prefix("-6 ") {
        Some(lines) => (Some("-6"), lines),
        None => (None, lines),
    };
    let mut ip = Command::new("ip");
    ip.args(family).args(["-n", namespace.name(), "-force", "-batch", "-"]);
    command::run_to_end(&mut ip, LIMIT, &format!("{lines}\n")).unwrap().status.success()
}

/// Returns the Ethernet address of a router's end of a link, or of the far one.
fn mac(link: &str, end: u8) -> [u8; 6] {
    let number = PORTS.iter().position(|it| *it == link).unwrap() as u8;
    [0x02, 0x57, 0, 1, number, end]
}

/// Compares the paths that packets from many sources to one destination take.
fn compare_ways(ours: &[Vec<Output>], kernel: &[Vec<Output>]) -> Option<String> {
    // So many errors at a time may exceed the router's own limit.
    let limited = kernel.iter().any(|it| is_error(it));
    let counts = |of: &&Vec<Output>| !limited || !of.is_empty();
    let ways =
        |of: &[Vec<Output>]| of.iter().filter(counts).map(|it| way(it)).collect::<BTreeSet<_>>();
    let [our_ways, kernel_ways] = [ways(ours), ways(kernel)];
    if our_ways != kernel_ways {
        return Some(format!("kernel {kernel_ways:?}, Wattline {our_ways:?}"));
    }
    // On the same path all bytes are the same; on another, all but the Ethernet addresses.
    let packet = |of: &[Output]| of.first().map(|it| it.frame[12..].to_vec());
    let differ = ours.iter().zip(kernel).find(|(ours, kernel)| {
        if way(ours) == way(kernel) {
            return ours != kernel;
        }
        !is_error(ours) && !is_error(kernel) && packet(ours) != packet(kernel)
    })?;
    Some(format!("kernel {:02x?}, Wattline {:02x?}", differ.1, differ.0))
}

fn is_error(of: &[Output]) -> bool {
    of.iter().any(|it| error_of(&it.frame).is_some())
}

/// Returns the egress links and receivers of a probe's frames, or the errors.
fn way(of: &[Output]) -> Vec<(&'static str, String)> {
    let to = |it: &Output| match error_of(&it.frame) {
        Some([kind, code]) => format!("ICMP {kind}/{code}"),
        None => mac_text(it.frame[..6].try_into().unwrap()),
    };
    of.iter().map(|it| (it.link, to(it))).collect()
}

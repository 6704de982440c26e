//! Comparison of a decision of the workers' tables with the kernel's.

use ipnet::IpNet;
use rand::rngs::Xoshiro256PlusPlus;
use rand::{Rng as _, RngExt as _, SeedableRng as _};
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use wattline_dataplane::port::PortId;
use wattline_dataplane::routes::Routes;
use wattline_linux::netlink::{Decision, DecisionQuery};
use wattline_rib::{Rib, Treatment, route_errors};

/// A packet about which the kernel is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Question {
    pub source: IpAddr,
    pub destination: IpAddr,
    pub port: PortId,
    pub ingress: u32,
}

/// Both answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Difference {
    pub prefix: IpNet,
    pub ours: Treatment,
    pub kernel: Decision,
}

/// Result of a comparison.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    Agrees,
    /// The tables leave the packet to the kernel.
    LeftToKernel,
    /// The kernel need not decide as the tables do, for this reason.
    NotComparable(&'static str),
    Differs(Difference),
}

/// The routing state and its tables, and a check that packets as in a question are forwarded by
/// them.
#[derive(Clone, Copy)]
pub(super) struct State<'a> {
    pub rib: &'a Rib,
    pub routes: &'a Routes,
    pub is_ours: &'a dyn Fn(&Question) -> bool,
}

/// Asks the kernel, about packets at random.
pub(super) struct Comparison {
    query: DecisionQuery,
    random: Xoshiro256PlusPlus,
}

impl Comparison {
    /// Opens a socket to the kernel.
    ///
    /// # Errors
    /// When the kernel refuses it.
    pub fn new(seed: u64) -> io::Result<Self> {
        let random = Xoshiro256PlusPlus::seed_from_u64(seed);
        Ok(Self { query: DecisionQuery::new()?, random })
    }

    /// Draws a number below a bound.
    pub fn below(&mut self, bound: usize) -> usize {
        self.random.random_range(0..bound)
    }

    /// Draws an address within a prefix.
    pub fn address_in(&mut self, prefix: IpNet) -> IpAddr {
        let (first, last) = (number(prefix.network()), number(prefix.broadcast()));
        let wide = u128::from(self.random.next_u64()) << 64 | u128::from(self.random.next_u64());
        address(first + wide % (last - first).saturating_add(1).max(1), prefix.addr().is_ipv4())
    }

    /// Compares both decisions about a packet to an address. Starts with a random ingress port, and
    /// takes the first port and source for which the decisions can be compared. With `thorough`,
    /// sources are also chosen from routes over the port.
    ///
    /// # Errors
    /// When no port allows a comparison, with each port's reason.
    pub fn about(
        &mut self,
        state: &State<'_>,
        ports: &[(PortId, u32)],
        destination: IpAddr,
        thorough: bool,
    ) -> Result<(Question, Outcome), String> {
        if !is_forwarded(destination) {
            return Err("the address is never forwarded".to_owned());
        }
        let mut reasons = BTreeMap::new();
        let first = self.below(ports.len().max(1));
        for place in 0..ports.len() {
            let (port, ingress) = ports[(first + place) % ports.len()];
            for origin in [Origin::Network, Origin::Anywhere, Origin::Route] {
                let ipv6 = destination.is_ipv6();
                let source = match origin {
                    Origin::Route if !thorough => None,
                    _ => self.source(state.rib, ingress, ipv6, origin),
                };
                let Some(source) = source else { continue };
                let question = Question { source, destination, port, ingress };
                match self.compare(state, &question) {
                    Outcome::NotComparable(why) => drop(reasons.insert(ingress, why)),
                    outcome => return Ok((question, outcome)),
                }
            }
        }
        let name = |link: &u32| state.rib.link_name(*link).unwrap_or("-").to_owned();
        let of_each: Vec<String> =
            reasons.iter().map(|(link, why)| format!("{}: {why}", name(link))).collect();
        Err(match of_each.is_empty() {
            true => "each port is down or left to the kernel (`wattline show ports`)".to_owned(),
            false => of_each.join("; "),
        })
    }

    /// Compares both decisions about a packet.
    pub fn compare(&mut self, state: &State<'_>, question: &Question) -> Outcome {
        let Question { source, destination, ingress, .. } = *question;
        let State { rib, routes, is_ours } = state;
        let (prefix, ours) = rib.treatment(destination, routes);
        if ours == Treatment::Kernel {
            return Outcome::LeftToKernel;
        }
        if rib.is_static(destination) {
            return Outcome::NotComparable("a route of the configuration may decide");
        }
        if !is_ours(question) {
            return Outcome::NotComparable("left to the kernel");
        }
        let no_answer = Outcome::NotComparable("the kernel does not answer");
        let kernel = match self.query.ask(source, destination, ingress) {
            Ok(Decision::Refused(SOURCE_REFUSED)) => {
                return Outcome::NotComparable("the kernel refuses the source");
            }
            Ok(BLACKHOLE)
                if !ours.allows(BLACKHOLE, destination) && !self.has_blackhole(destination) =>
            {
                return Outcome::NotComparable("the kernel refuses the source");
            }
            Ok(kernel) => kernel,
            // The link is gone.
            Err(_) => return no_answer,
        };
        let Ok(route) = self.query.route(source, destination, ingress) else { return no_answer };
        let is_used = |(link, to): &(u32, IpAddr)| {
            let Some(route) = route.as_ref().filter(|route| route.hops.len() > 1) else {
                return true;
            };
            route
                .hops
                .iter()
                .any(|(of, gateway)| (*of, gateway.unwrap_or(destination)) == (*link, *to))
        };
        let all_used = match &ours {
            Treatment::Forward(ways) if ways.len() > 1 => ways.iter().all(is_used),
            _ => true,
        };
        if ours.allows(kernel, destination) && all_used {
            return Outcome::Agrees;
        }
        if kernel == NO_ROUTE
            && prefix.is_some_and(|it| it.addr().is_ipv6() && rib.names_object(it))
        {
            return Outcome::NotComparable("the kernel does not report a next-hop object");
        }
        let longest = prefix.into_iter().chain(route.map(|route| route.prefix));
        let prefix = longest.max_by_key(IpNet::prefix_len).unwrap_or_else(|| destination.into());
        Outcome::Differs(Difference { prefix, ours, kernel })
    }

    /// Returns true if a route refuses the address, rather than a check of source addresses: this
    /// machine's own packets pass no such check.
    fn has_blackhole(&mut self, destination: IpAddr) -> bool {
        let any = match destination {
            IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        };
        self.query.ask(any, destination, 0).is_ok_and(|decision| decision == BLACKHOLE)
    }

    /// Draws the source of a packet that is received on a link.
    fn source(&mut self, rib: &Rib, link: u32, ipv6: bool, origin: Origin) -> Option<IpAddr> {
        let networks: Vec<IpNet> = match origin {
            Origin::Network => rib.networks_of(link).collect(),
            Origin::Anywhere => ANYWHERE.iter().filter_map(|it| it.parse().ok()).collect(),
            Origin::Route => rib.some_prefix_over(link, ipv6).into_iter().collect(),
        };
        let draws = networks.iter().filter(|it| it.addr().is_ipv6() == ipv6);
        draws.filter_map(|network| self.host(rib, *network)).next()
    }

    /// Draws the address of a host in a network, other than this machine's own addresses.
    fn host(&mut self, rib: &Rib, network: IpNet) -> Option<IpAddr> {
        let (first, last) = (number(network.network()), number(network.broadcast()));
        // The first and last address of a larger network belong to no host.
        let end = u128::from(last - first > 1);
        let hosts = (last - first).saturating_sub(2 * end).saturating_add(1).min(250);
        let start = u128::from(self.random.next_u64()) % hosts;
        let drawn = (0..hosts).map(|step| first + end + (start + step) % hosts);
        drawn
            .map(|number| address(number, network.addr().is_ipv4()))
            .find(|host| is_forwarded(*host) && !rib.own_networks().any(|own| own.addr() == *host))
    }
}

/// Choice of a packet's source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// A host in a network of the ingress link, which no check of sources refuses.
    Network,
    /// Any address, which no check refuses while `rp_filter` is off or its route leads back.
    Anywhere,
    /// A host that is reached over the link, for a link without such a network.
    Route,
}

/// Networks of hosts that send tests (RFC 2544, RFC 5180).
const ANYWHERE: [&str; 2] = ["198.18.0.0/15", "2001:2::/48"];

/// Lists the addresses at both ends of a prefix, and the adjacent ones outside.
pub(super) fn ends(prefix: IpNet) -> [IpAddr; 4] {
    let (first, last) = (number(prefix.network()), number(prefix.broadcast()));
    let ipv4 = prefix.addr().is_ipv4();
    let all = if ipv4 { u128::from(u32::MAX) } else { u128::MAX };
    let after = last.saturating_add(1).min(all);
    [first, last, first.saturating_sub(1), after].map(|number| address(number, ipv4))
}

/// Returns true if packets to an address are forwarded along routes, by the tables and by the
/// kernel.
fn is_forwarded(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => {
            let first = address.octets()[0];
            (1..224).contains(&first) && !address.is_loopback() && !address.is_link_local()
        }
        IpAddr::V6(address) => matches!(address.octets()[0], 0x20..=0x3f | 0xfc..=0xfd),
    }
}

/// EINVAL: a blackhole, or a source that the kernel considers impossible.
const BLACKHOLE: Decision = Decision::Refused(22);
/// ENETUNREACH: no route. Linux also answers so for IPv6 routes by a next-hop object, which it does
/// forward by, if the object's cache entry on the asking CPU was made for a route that is gone
/// (`rt6_info.from`).
const NO_ROUTE: Decision = Decision::Refused(route_errors::NO_ROUTE);
/// EXDEV: the reverse-path filter refuses the source.
const SOURCE_REFUSED: i32 = 18;

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(u32::from(address)),
        IpAddr::V6(address) => u128::from(address),
    }
}

fn address(number: u128, ipv4: bool) -> IpAddr {
    if ipv4 { IpAddr::V4((number as u32).into()) } else { IpAddr::V6(number.into()) }
}

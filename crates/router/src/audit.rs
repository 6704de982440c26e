//! Audit: compares decisions of the workers' tables with those of the kernel, for addresses at random.
//!
//! A difference counts only if it lasts: the kernel tells of its changes after it has made them. Each
//! [`Audit::run`] asks the kernel after all its notifications were read. A difference is asked for
//! again until it was the same [`CHECKS`] times while no prefix that contains the address changed;
//! everything that the kernel had to tell when it was first asked has been read by then.

use ipnet::IpNet;
use rand::rngs::Xoshiro256PlusPlus;
use rand::{Rng as _, RngExt as _, SeedableRng as _};
use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::time::{Duration, Instant};
use wattline_dataplane::port::PortId;
use wattline_dataplane::routes::Routes;
use wattline_linux::netlink::{Decision, DecisionQuery};
use wattline_rib::{Rib, Treatment};

/// The sample of a period is taken at once, so that the control thread wakes up no more often.
const PERIOD: Duration = Duration::from_secs(1);
/// Times that a difference has to be seen, and the time between them.
const CHECKS: u32 = 5;
const BETWEEN_CHECKS: Duration = Duration::from_millis(250);
/// Time until it is tried again while the kernel's notifications are being read.
const POSTPONED: Duration = Duration::from_millis(50);
/// Differences that are followed at once.
const MOST_SUSPECTS: usize = 16;
/// Prefixes that are drawn from a table at once.
const DRAWN: usize = 4096;
/// Times that a prefix has to agree before it is taken back, with a period between them.
const AGREEMENTS: u32 = 2;

/// A packet that the kernel is asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Question {
    pub source: IpAddr,
    pub destination: IpAddr,
    pub port: PortId,
    ingress: u32,
}

/// Both answers.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Difference {
    prefix: IpNet,
    ours: Treatment,
    kernel: Decision,
}

struct Suspect {
    question: Question,
    difference: Difference,
    seen: u32,
    touched: u64,
    next: Instant,
}

/// A prefix that is left to the kernel.
struct Finding {
    question: Question,
    agreements: u32,
}

/// The audit of a router.
pub(super) struct Audit {
    query: DecisionQuery,
    /// Addresses of a period.
    rate: u32,
    next: Instant,
    random: Xoshiro256PlusPlus,
    drawn: Vec<IpNet>,
    recent: Vec<IpNet>,
    suspects: Vec<Suspect>,
    findings: BTreeMap<IpNet, Finding>,
    /// Addresses compared, and differences that lasted.
    pub checked: u64,
    pub mismatches: u64,
}

impl Audit {
    /// Begins an audit of `rate` addresses a second.
    ///
    /// # Errors
    /// When the kernel refuses a socket.
    pub fn new(rate: u32, seed: u64, now: Instant) -> io::Result<Self> {
        Ok(Self {
            query: DecisionQuery::new()?,
            rate,
            next: now + PERIOD,
            random: Xoshiro256PlusPlus::seed_from_u64(seed),
            drawn: Vec::new(),
            recent: Vec::new(),
            suspects: Vec::new(),
            findings: BTreeMap::new(),
            checked: 0,
            mismatches: 0,
        })
    }

    /// Returns the time of the next [`Self::run`].
    pub fn deadline(&self) -> Instant {
        self.suspects.iter().map(|suspect| suspect.next).fold(self.next, Instant::min)
    }

    /// Puts off what is due while the kernel's notifications are being read.
    pub fn postpone(&mut self, now: Instant) {
        let next = now + POSTPONED;
        self.next = self.next.max(next);
        self.suspects.iter_mut().for_each(|suspect| suspect.next = suspect.next.max(next));
    }

    /// Lists the prefixes that are left to the kernel.
    pub fn left(&self) -> impl Iterator<Item = IpNet> {
        self.findings.keys().copied()
    }

    /// Compares what is due. To be called when all notifications of the kernel were read and
    /// committed; `is_ours` says whether packets as in a question are forwarded by the tables. Returns
    /// true if the kernel's tables have to be read again.
    pub fn run(
        &mut self,
        rib: &mut Rib,
        routes: &Routes,
        is_ours: &dyn Fn(&Question) -> bool,
        now: Instant,
    ) -> bool {
        let mut found = false;
        for mut suspect in std::mem::take(&mut self.suspects) {
            if suspect.next > now {
                self.suspects.push(suspect);
                continue;
            }
            let touched = rib.touched(suspect.question.destination);
            let Some(difference) = self.difference(rib, routes, is_ours, &suspect.question) else {
                continue;
            };
            if self.findings.contains_key(&difference.prefix) {
                continue;
            }
            if difference == suspect.difference && touched == suspect.touched {
                suspect.seen += 1;
            } else {
                (suspect.seen, suspect.touched, suspect.difference) = (1, touched, difference);
            }
            if suspect.seen >= CHECKS {
                self.report(rib, &suspect);
                found = true;
            } else {
                suspect.next = now + BETWEEN_CHECKS;
                self.suspects.push(suspect);
            }
        }
        if now >= self.next {
            self.next = now + PERIOD;
            self.take_back(rib, routes, is_ours);
            self.sample(rib, routes, is_ours, now);
        }
        let watched = self.suspects.iter().map(|suspect| suspect.question.destination).collect();
        rib.watch(&watched);
        found
    }

    fn report(&mut self, rib: &mut Rib, suspect: &Suspect) {
        let Suspect { question, difference: Difference { prefix, ours, kernel }, .. } = suspect;
        self.mismatches += 1;
        tracing::error!(
            "audit: a packet from {} to {} that comes in by {}: the kernel decides {kernel:?}, Wattline \
             {ours:?}; packets to {prefix} are left to the kernel, and its tables are read again",
            question.source,
            question.destination,
            rib.link_name(question.ingress).unwrap_or_default(),
        );
        rib.leave(*prefix);
        self.findings.insert(*prefix, Finding { question: *question, agreements: 0 });
    }

    /// Takes prefixes back about which both agree again.
    fn take_back(&mut self, rib: &mut Rib, routes: &Routes, is_ours: &dyn Fn(&Question) -> bool) {
        for (prefix, mut finding) in std::mem::take(&mut self.findings) {
            let differs = self.difference(rib, routes, is_ours, &finding.question).is_some();
            finding.agreements = if differs { 0 } else { finding.agreements + 1 };
            if finding.agreements < AGREEMENTS {
                self.findings.insert(prefix, finding);
                continue;
            }
            tracing::info!("audit: the kernel and Wattline agree about {prefix} again");
            rib.take_back(prefix);
        }
    }

    fn sample(
        &mut self,
        rib: &mut Rib,
        routes: &Routes,
        is_ours: &dyn Fn(&Question) -> bool,
        now: Instant,
    ) {
        let recent = rib.take_recent();
        if !recent.is_empty() {
            self.recent = recent;
        }
        if self.drawn.is_empty() {
            self.drawn = rib.some_prefixes(rib.prefixes().div_ceil(DRAWN));
        }
        let ports: Vec<(PortId, u32)> = rib
            .port_links()
            .filter(|(_, link)| link.running)
            .map(|(port, it)| (port, it.index))
            .collect();
        if ports.is_empty() {
            return;
        }
        for turn in 0..self.rate {
            let chosen = self.random.next_u64() as usize;
            // Half of them are prefixes that have changed.
            let from =
                if turn % 2 == 0 && !self.recent.is_empty() { &self.recent } else { &self.drawn };
            if from.is_empty() {
                return;
            }
            let prefix = from[chosen % from.len()];
            let destination = self.address_at(prefix);
            if !is_forwarded(destination) {
                continue;
            }
            let (port, ingress) = ports[self.below(ports.len())];
            let Some(source) = self.source(rib, ingress, destination.is_ipv6()) else { continue };
            let question = Question { source, destination, port, ingress };
            self.checked += 1;
            let known = self.suspects.iter().any(|it| it.question.destination == destination);
            if known || self.suspects.len() >= MOST_SUSPECTS {
                continue;
            }
            if let Some(difference) = self.difference(rib, routes, is_ours, &question) {
                let next = now + BETWEEN_CHECKS;
                // It is watched from now on: what has been committed is in the answer.
                let suspect = Suspect { question, difference, seen: 0, touched: u64::MAX, next };
                self.suspects.push(suspect);
            }
        }
        if self.below(DRAWN) < self.rate as usize {
            self.drawn.clear();
        }
    }

    /// Asks about a packet; `None` if both agree, or need not.
    fn difference(
        &mut self,
        rib: &Rib,
        routes: &Routes,
        is_ours: &dyn Fn(&Question) -> bool,
        question: &Question,
    ) -> Option<Difference> {
        let Question { source, destination, ingress, .. } = *question;
        let (prefix, ours) = rib.treatment(destination, routes);
        if ours == Treatment::Kernel || rib.is_static(destination) || !is_ours(question) {
            return None;
        }
        let kernel = self.query.ask(source, destination, ingress).ok()?;
        // The source is refused, or the link is gone.
        if kernel == Decision::Refused(SOURCE_REFUSED) {
            return None;
        }
        let route = self.query.route(source, destination, ingress).ok()?;
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
            return None;
        }
        let longest = prefix.into_iter().chain(route.map(|route| route.prefix));
        let prefix = longest.max_by_key(IpNet::prefix_len).unwrap_or_else(|| destination.into());
        Some(Difference { prefix, ours, kernel })
    }

    /// Draws an address within a prefix or right beside it.
    fn address_at(&mut self, prefix: IpNet) -> IpAddr {
        let (first, last) = (number(prefix.network()), number(prefix.broadcast()));
        let all = if prefix.addr().is_ipv4() { u128::from(u32::MAX) } else { u128::MAX };
        let chosen = match self.below(6) {
            0 => first,
            1 => last,
            2 => first.saturating_sub(1),
            3 => last.saturating_add(1).min(all),
            _ => {
                let wide =
                    u128::from(self.random.next_u64()) << 64 | u128::from(self.random.next_u64());
                first + wide % (last - first).saturating_add(1).max(1)
            }
        };
        address(chosen, prefix.addr().is_ipv4())
    }

    /// Draws the address of a host on a link, which no check of sources refuses.
    fn source(&mut self, rib: &Rib, link: u32, ipv6: bool) -> Option<IpAddr> {
        let network = rib
            .networks_of(link)
            .find(|it| it.addr().is_ipv6() == ipv6 && it.prefix_len() < it.max_prefix_len() - 1)?;
        let (first, last) = (number(network.network()), number(network.broadcast()));
        let hosts = (last - first - 1).min(250);
        let source = address(first + 1 + u128::from(self.random.next_u64()) % hosts, !ipv6);
        (!rib.own_networks().any(|own| own.addr() == source)).then_some(source)
    }

    fn below(&mut self, bound: usize) -> usize {
        self.random.random_range(0..bound)
    }
}

/// Returns true if packets to an address are forwarded where a route says so, whoever forwards.
fn is_forwarded(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => {
            let first = address.octets()[0];
            (1..224).contains(&first) && !address.is_loopback() && !address.is_link_local()
        }
        IpAddr::V6(address) => matches!(address.octets()[0], 0x20..=0x3f | 0xfc..=0xfd),
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;
    use wattline_linux::namespace::{Namespace, interface_index};
    use wattline_linux::netlink::{ChangeFeed, Event, Hop, Route, RouteKind};
    use wattline_rib::{PortSpec, Source};

    /// A router of two ports in a namespace.
    struct Laboratory {
        feed: ChangeFeed,
        rib: Rib,
        routes: Routes,
        audit: Audit,
        now: Instant,
    }

    fn in_namespace(name: &str, test: impl FnOnce(&mut Laboratory) + Send) {
        let namespace = match Namespace::create(format!("wl-{name}-{}", std::process::id())) {
            Ok(namespace) => namespace,
            Err(error) => return wattline_needs::rights(&error),
        };
        namespace
            .enter(|| {
                std::fs::write("/proc/sys/net/ipv4/ip_forward", "1").unwrap();
                for port in ["pa", "pb"] {
                    ip(&format!("link add {port} type veth peer name {port}1"));
                    ip(&format!("link set {port}1 up"));
                    ip(&format!("link set {port} up"));
                }
                ip("addr add 192.0.2.1/24 dev pa");
                ip("addr add 198.51.100.1/24 dev pb");
                ip("route add 10.1.0.0/16 via 198.51.100.2");
                let spec = |name: &str| PortSpec {
                    link: name.to_owned(),
                    largest_mtu: 9000,
                    promiscuous: false,
                };
                let now = Instant::now();
                let mut laboratory = Laboratory {
                    feed: ChangeFeed::new().unwrap(),
                    rib: Rib::new(["pa", "pb"].map(spec).to_vec()),
                    routes: Routes::new(Vec::new()),
                    audit: Audit::new(10, 7, now).unwrap(),
                    now,
                };
                test(&mut laboratory);
            })
            .unwrap();
    }

    fn ip(arguments: &str) {
        let status = Command::new("ip").args(arguments.split_whitespace()).status().unwrap();
        assert!(status.success(), "ip {arguments}");
    }

    impl Laboratory {
        /// Follows the kernel and audits as the control thread does, a second of the audit's time; true
        /// if tables are to be read again.
        fn second(&mut self) -> bool {
            let mut again = false;
            for _ in 0..4 {
                self.now += BETWEEN_CHECKS;
                let Self { feed, rib, routes, audit, now } = self;
                let more = feed.poll(Instant::now(), &mut |event| rib.apply(Source::Kernel, event));
                if rib.take_missed_change() {
                    feed.request_dump(Instant::now());
                }
                let is_current = !more.unwrap() && feed.is_complete();
                rib.commit(routes).unwrap();
                if is_current {
                    again |= audit.run(rib, routes, &|_| true, *now);
                }
            }
            again
        }

        fn plant(&mut self, event: Event) {
            self.rib.apply(Source::Kernel, event);
        }
    }

    /// Settles what the kernel has told.
    fn begin(laboratory: &mut Laboratory) {
        let end = Instant::now() + Duration::from_secs(20);
        while laboratory.audit.checked == 0 {
            assert!(Instant::now() < end, "nothing is audited");
            laboratory.second();
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    #[test]
    fn planted_mismatch_is_left_to_the_kernel_until_the_tables_agree() {
        in_namespace("plant", |laboratory| {
            begin(laboratory);
            let destination: IpAddr = [10, 1, 2, 3].into();
            let prefix: IpNet = "10.1.0.0/16".parse().unwrap();
            let link = interface_index("pb").unwrap();
            let gateway = |host| Some(IpAddr::from([198, 51, 100, host]));
            let hop = Hop { link, gateway: gateway(9), weight: 1, mtu: None, dead: false };
            let wrong = Route::new(prefix, 0, RouteKind::Unicast, vec![hop]);
            let placement = wattline_linux::netlink::Placement::Replace;
            laboratory.plant(Event::Route { route: wrong, placement });
            let mut seconds = 0;
            while !laboratory.second() {
                seconds += 1;
                assert!(seconds < 600, "never found");
            }
            println!("found after {seconds} s of the audit's time");
            let Laboratory { audit, rib, routes, .. } = laboratory;
            assert_eq!(audit.mismatches, 1);
            assert_eq!(audit.left().collect::<Vec<_>>(), [prefix]);
            rib.commit(routes).unwrap();
            let id = routes.longest_match(destination).unwrap().1;
            use wattline_dataplane::next_hop::NextHop;
            assert_eq!(routes.next_hop(id), Some(&NextHop::Punt), "at once");
            let Treatment::Forward(ways) = rib.treatment(destination, routes).1 else { panic!() };
            assert_eq!(ways.first().map(|way| Some(way.1)), Some(gateway(9)), "as before");

            laboratory.feed.request_dump(Instant::now());
            while laboratory.audit.left().next().is_some() {
                seconds += 1;
                assert!(seconds < 600, "never taken back");
                laboratory.second();
            }
            laboratory.second();
            let Laboratory { audit, rib, routes, .. } = laboratory;
            let Treatment::Forward(ways) = rib.treatment(destination, routes).1 else { panic!() };
            assert_eq!(ways.first().map(|way| Some(way.1)), Some(gateway(2)));
            let id = routes.longest_match(destination).unwrap().1;
            assert_ne!(routes.next_hop(id), Some(&NextHop::Punt));
            assert_eq!(audit.mismatches, 1);
        });
    }

    #[test]
    fn flood_of_changes_raises_no_alarm() {
        in_namespace("flood", |laboratory| {
            begin(laboratory);
            let seconds: u64 =
                std::env::var("WATTLINE_SECONDS").ok().and_then(|it| it.parse().ok()).unwrap_or(3);
            let mut lines = String::new();
            for number in 0..50_000_u32 {
                let (net, host) = (number % 200, 2 + number % 7);
                lines += ["route replace 10.1.", "route replace 10.2."][(number % 2) as usize];
                lines += &match number % 5 {
                    0 => format!("{net}.0/24 via 198.51.100.{host}\n"),
                    1 => format!("{net}.0/25 via 192.0.2.{host}\n"),
                    2 => format!(
                        "{net}.0/24 nexthop via 192.0.2.{host} nexthop via 198.51.100.{host}\n"
                    ),
                    3 => format!("{net}.128/25 via 192.0.2.{host}\nroute flush 10.1.{net}.0/24\n"),
                    _ => format!("{net}.0/24 via 198.51.100.{host}\nroute del 10.1.{net}.0/24\n"),
                };
            }
            let mut ip = Command::new("ip")
                .args(["-force", "-batch", "-"])
                .stdin(std::process::Stdio::piped())
                .stdout(std::process::Stdio::null())
                .stderr(std::process::Stdio::null())
                .spawn()
                .unwrap();
            let mut input = ip.stdin.take().unwrap();
            let writer = std::thread::spawn(move || {
                use std::io::Write;
                while input.write_all(lines.as_bytes()).is_ok() {}
            });
            let end = Instant::now() + Duration::from_secs(seconds);
            while Instant::now() < end {
                laboratory.second();
                std::thread::sleep(Duration::from_millis(1));
            }
            ip.kill().unwrap();
            ip.wait().unwrap();
            writer.join().unwrap();
            let Audit { checked, mismatches, .. } = laboratory.audit;
            println!("{checked} addresses compared beside {} prefixes", laboratory.rib.prefixes());
            assert_eq!(mismatches, 0);
            assert!(checked > 0);
        });
    }
}

//! Audit: compares decisions of the workers' tables with those of the kernel, for random addresses,
//! and on demand for the addresses of one or all prefixes.
//!
//! A difference counts only if it lasts: the kernel announces its changes after it has made them.
//! Each [`Audit::run`] asks the kernel after all its notifications were read. The question is
//! repeated until the difference was the same [`CHECKS`] times while no prefix that contains the
//! address changed. All notifications that were pending at the first question have been read by
//! then.

mod comparison;
mod on_demand;

pub(crate) use comparison::Question;
pub(crate) use on_demand::Awaited;

use super::kernel::KernelSide;
use super::takeover::ForwardPathMonitor;
use comparison::{Comparison, Difference, Outcome, State, ends};
use ipnet::IpNet;
use on_demand::OnDemand;
use std::collections::BTreeMap;
use std::io;
use std::time::{Duration, Instant};
use wattline_daemon::socket::{Answer, Reply};
use wattline_dataplane::port::PortId;
use wattline_dataplane::routes::Routes;
use wattline_rib::Rib;
use wattline_status::Empty;

/// Time between two samples, each taken as a whole so that the control thread wakes up only once.
const PERIOD: Duration = Duration::from_secs(1);
/// Number of times that a difference has to be seen, and the time between them.
const CHECKS: u32 = 5;
const BETWEEN_CHECKS: Duration = Duration::from_millis(250);
/// Time until the next try while the kernel's notifications are being read.
const POSTPONED: Duration = Duration::from_millis(50);
/// Most differences that are followed at a time.
const MOST_SUSPECTS: usize = 16;
/// The same while an audit on demand runs: 2,000 prefixes that differ take ten seconds.
const MOST_ON_DEMAND: usize = 256;
/// Prefixes that are drawn from a table at once.
const DRAWN: usize = 4096;
/// Number of times that both have to agree about a prefix before it is taken back, with a period
/// between them.
const AGREEMENTS: u32 = 2;
/// Time for an audit on demand, and the pause after it, in which the control thread does other
/// work.
const SLICE: Duration = Duration::from_millis(10);
const PAUSE: Duration = Duration::from_millis(10);

struct Suspect {
    question: Question,
    difference: Difference,
    seen: u32,
    touched: u64,
    next: Instant,
    /// True if an audit on demand waits for it.
    on_demand: bool,
}

/// A prefix that is left to the kernel.
struct Finding {
    question: Question,
    agreements: u32,
}

/// The audit of a router.
pub(super) struct Audit {
    comparison: Comparison,
    /// Addresses of a period; 0 if addresses are compared only on demand.
    rate: u32,
    next: Instant,
    drawn: Vec<IpNet>,
    recent: Vec<IpNet>,
    suspects: Vec<Suspect>,
    findings: BTreeMap<IpNet, Finding>,
    on_demand: Option<OnDemand>,
    next_slice: Instant,
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
            comparison: Comparison::new(seed)?,
            rate,
            next: now + PERIOD,
            drawn: Vec::new(),
            recent: Vec::new(),
            suspects: Vec::new(),
            findings: BTreeMap::new(),
            on_demand: None,
            next_slice: now,
            checked: 0,
            mismatches: 0,
        })
    }

    /// Returns the time of the next [`Self::run`].
    pub fn deadline(&self) -> Instant {
        let slice = self.on_demand.iter().filter(|it| !it.is_empty()).map(|_| self.next_slice);
        self.suspects.iter().map(|it| it.next).chain(slice).fold(self.next, Instant::min)
    }

    /// Postpones comparisons while the kernel's notifications are being read.
    fn postpone(&mut self, now: Instant) {
        let next = now + POSTPONED;
        self.next = self.next.max(next);
        self.next_slice = self.next_slice.max(next);
        self.suspects.iter_mut().for_each(|suspect| suspect.next = suspect.next.max(next));
    }

    /// Lists the prefixes that are left to the kernel.
    pub fn left(&self) -> impl Iterator<Item = IpNet> {
        self.findings.keys().copied()
    }

    /// Begins to compare all prefixes, or those within one, in slices; `None` while another audit
    /// on demand runs.
    fn demand(&mut self, rib: &Rib, within: Option<IpNet>) -> Option<Awaited> {
        if self.on_demand.as_ref().is_some_and(OnDemand::is_wanted) {
            return None;
        }
        self.suspects.iter_mut().for_each(|suspect| suspect.on_demand = false);
        let (audit, awaited) = OnDemand::new(rib, within);
        self.on_demand = Some(audit);
        Some(awaited)
    }

    /// Runs the comparisons that are due, once all notifications of the kernel were read and
    /// committed, for ports that are served and not left to the kernel. Returns true if it may have
    /// changed the tables.
    pub fn poll(
        &mut self,
        (rib, routes): (&mut Rib, &Routes),
        monitor: Option<&ForwardPathMonitor>,
        kernel: &mut KernelSide,
        is_served: &dyn Fn(PortId) -> bool,
    ) -> bool {
        let now = Instant::now();
        if now < self.deadline() {
            return false;
        }
        if !kernel.is_current() || rib.has_changes() {
            self.postpone(now);
            return false;
        }
        let is_ours = |question: &Question| {
            let is_left = monitor.is_some_and(|monitor| {
                let mut prefixes = monitor.left_prefixes(question.port).into_iter().flatten();
                monitor.left(question.port).is_some()
                    || prefixes.any(|it| {
                        it.contains(&question.source) || it.contains(&question.destination)
                    })
            });
            is_served(question.port) && !is_left
        };
        if self.run(rib, routes, &is_ours, now) {
            kernel.request_dump(now);
        }
        true
    }

    /// Runs the comparisons that are due, once all notifications of the kernel were read and
    /// committed. `is_ours` returns true if packets as in a question are forwarded by the tables.
    /// Returns true if the kernel's tables have to be read again.
    fn run(
        &mut self,
        rib: &mut Rib,
        routes: &Routes,
        is_ours: &dyn Fn(&Question) -> bool,
        now: Instant,
    ) -> bool {
        let found = self.follow_suspects(rib, routes, is_ours, now);
        if now >= self.next {
            self.next = now + PERIOD;
            let recent = rib.take_recent();
            if !recent.is_empty() {
                self.recent = recent;
            }
            let state = State { rib, routes, is_ours };
            let agreeing = self.agreeing(&state);
            self.sample(&state, now);
            for prefix in agreeing {
                tracing::info!("audit: the kernel and Wattline agree about {prefix} again");
                rib.take_back(prefix);
            }
        }
        if now >= self.next_slice {
            self.next_slice = now + PAUSE;
            self.answer_demand(&State { rib, routes, is_ours }, now);
        }
        let watched = self.suspects.iter().map(|suspect| suspect.question.destination).collect();
        rib.watch(&watched);
        found
    }

    /// Compares suspects again; returns true if a difference lasts.
    fn follow_suspects(
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
            let state = State { rib, routes, is_ours };
            let Outcome::Differs(difference) = self.comparison.compare(&state, &suspect.question)
            else {
                continue;
            };
            let is_left = self.findings.contains_key(&difference.prefix);
            if !is_left && difference == suspect.difference && touched == suspect.touched {
                suspect.seen += 1;
            } else {
                (suspect.seen, suspect.touched, suspect.difference) = (1, touched, difference);
            }
            let lasts = suspect.seen >= CHECKS;
            if (is_left || lasts)
                && let Some(audit) = &mut self.on_demand
            {
                audit.add(rib, &suspect.question, &suspect.difference);
            }
            if lasts {
                self.report(rib, &suspect);
                found = true;
            } else if !is_left {
                suspect.next = now + BETWEEN_CHECKS;
                self.suspects.push(suspect);
            }
        }
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

    /// Removes findings about which both agree again, and returns their prefixes.
    fn agreeing(&mut self, state: &State<'_>) -> Vec<IpNet> {
        let mut agreeing = Vec::new();
        for (prefix, finding) in &mut self.findings {
            let outcome = self.comparison.compare(state, &finding.question);
            let differs = matches!(outcome, Outcome::Differs(_));
            finding.agreements = if differs { 0 } else { finding.agreements + 1 };
            if finding.agreements >= AGREEMENTS {
                agreeing.push(*prefix);
            }
        }
        self.findings.retain(|prefix, _| !agreeing.contains(prefix));
        agreeing
    }

    fn sample(&mut self, state: &State<'_>, now: Instant) {
        if self.rate == 0 {
            return;
        }
        if self.drawn.is_empty() {
            self.drawn = state.rib.some_prefixes(state.rib.prefixes().div_ceil(DRAWN));
        }
        let ports = ports(state.rib);
        for turn in 0..self.rate {
            // Half of them are prefixes that have changed.
            let from =
                if turn % 2 == 0 && !self.recent.is_empty() { &self.recent } else { &self.drawn };
            if from.is_empty() {
                return;
            }
            let prefix = from[self.comparison.below(from.len())];
            let destination = match self.comparison.below(6) {
                place @ 0..4 => ends(prefix)[place],
                _ => self.comparison.address_in(prefix),
            };
            let found = self.comparison.about(state, &ports, destination, false);
            let Ok((question, outcome)) = found else { continue };
            self.checked += 1;
            let known = self.suspects.iter().any(|it| it.question.destination == destination);
            if known || self.suspects.len() >= MOST_SUSPECTS {
                continue;
            }
            if let Outcome::Differs(difference) = outcome
                && !self.findings.contains_key(&difference.prefix)
            {
                self.suspect(question, difference, false, now);
            }
        }
        if self.comparison.below(DRAWN) < self.rate as usize {
            self.drawn.clear();
        }
    }

    fn suspect(
        &mut self,
        question: Question,
        difference: Difference,
        on_demand: bool,
        now: Instant,
    ) {
        let next = now + BETWEEN_CHECKS;
        // Watched from now on: the answer includes all changes committed so far.
        let (seen, touched) = (0, u64::MAX);
        self.suspects.push(Suspect { question, difference, seen, touched, next, on_demand });
    }

    /// Continues an audit on demand, and ends it when it is complete.
    fn answer_demand(&mut self, state: &State<'_>, now: Instant) {
        let Some(mut audit) = self.on_demand.take().filter(OnDemand::is_wanted) else { return };
        let ports = ports(state.rib);
        let began = Instant::now();
        while self.suspects.len() < MOST_ON_DEMAND && began.elapsed() < SLICE {
            let comparison = &mut self.comparison;
            let Some(address) = audit.next(|prefix| comparison.address_in(prefix)) else { break };
            match comparison.about(state, &ports, address, true) {
                Err(why) => audit.count_not_compared(why),
                Ok((_, Outcome::NotComparable(why))) => audit.count_not_compared(why.to_owned()),
                Ok((_, Outcome::LeftToKernel)) => audit.count_left(),
                Ok((_, Outcome::Agrees)) => audit.count_compared(),
                Ok((question, Outcome::Differs(difference))) => {
                    audit.count_compared();
                    if self.findings.contains_key(&difference.prefix) {
                        audit.add(state.rib, &question, &difference);
                    } else {
                        self.suspect(question, difference, true, now);
                    }
                }
            }
        }
        if audit.is_empty() && !self.suspects.iter().any(|suspect| suspect.on_demand) {
            audit.finish();
        } else {
            self.on_demand = Some(audit);
        }
    }
}

/// Compares all decisions with the kernel's, or only those about addresses within a prefix.
pub(super) fn on_demand(audit: Option<&mut Audit>, rib: &Rib, within: Option<IpNet>) -> Reply {
    let refused = |why: &str| Reply::Answer(Answer::Error(why.to_owned()));
    let Some(audit) = audit else {
        return refused("it takes no routes from a kernel: there is nothing to compare");
    };
    let Some(awaited) = audit.demand(rib, within) else {
        return refused("another audit on demand runs: wait for its end");
    };
    match serde_json::to_value(Empty::default()) {
        Ok(begun) => Reply::Stream(begun, Box::new(move |out| awaited.send(out))),
        Err(error) => refused(&error.to_string()),
    }
}

/// Lists the ports that packets can come in by, with their links.
fn ports(rib: &Rib) -> Vec<(PortId, u32)> {
    let running = rib.port_links().filter(|(_, link)| link.running);
    running.map(|(port, link)| (port, link.index)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::IpAddr;
    use std::process::Command;
    use wattline_linux::namespace::{Namespace, interface_index};
    use wattline_linux::netlink::{ChangeFeed, Event, Hop, Route, RouteKind};
    use wattline_rib::{PortSpec, Source, Treatment};

    /// A router of two ports in a namespace.
    struct Laboratory {
        feed: ChangeFeed,
        rib: Rib,
        routes: Routes,
        audit: Audit,
        now: Instant,
    }

    fn in_namespace(test: impl FnOnce(&mut Laboratory) + Send) {
        let made = Namespace::for_test(&[]).map_err(wattline_needs::rights);
        let Ok(namespace) = made else { return };
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
                    ..PortSpec::default()
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
        /// Follows the kernel and audits as the control thread does, for a second of the audit's
        /// time; returns true if tables are to be read again.
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

    /// Reads all notifications of the kernel.
    fn begin(laboratory: &mut Laboratory) {
        wattline_needs::until("something is audited", || {
            laboratory.second();
            laboratory.audit.checked > 0
        });
    }

    #[test]
    fn planted_mismatch_is_left_to_the_kernel_until_the_tables_agree() {
        in_namespace(|laboratory| {
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
            // The kernel answers in real time: on a busy machine, after many seconds of the audit's
            // time.
            wattline_needs::until("it is taken back", || {
                laboratory.second();
                laboratory.audit.left().next().is_none()
            });
            laboratory.second();
            let Laboratory { audit, rib, routes, .. } = laboratory;
            let Treatment::Forward(ways) = rib.treatment(destination, routes).1 else { panic!() };
            assert_eq!(ways.first().map(|way| Some(way.1)), Some(gateway(2)));
            let id = routes.longest_match(destination).unwrap().1;
            assert_ne!(routes.next_hop(id), Some(&NextHop::Punt));
            assert_eq!(audit.mismatches, 1);
        });
    }

    /// Regardless of its ports' addresses and of the ingress port.
    #[test]
    fn every_address_is_compared_if_the_kernel_answers() {
        in_namespace(|laboratory| {
            std::fs::write("/proc/sys/net/ipv6/conf/all/forwarding", "1").unwrap();
            for line in [
                "addr del 192.0.2.1/24 dev pa",
                "addr del 198.51.100.1/24 dev pb",
                "addr add 192.0.2.1/30 dev pa",
                "addr add 198.51.100.0/31 dev pb",
                "route replace 10.1.0.0/16 via 198.51.100.1",
                "-6 route add 2001:db8:7::/64 via fe80::2 dev pb",
            ] {
                ip(line);
            }
            begin(laboratory);
            let compared = |laboratory: &mut Laboratory, address: &str| {
                let within = Some(address.parse().unwrap());
                let awaited = laboratory.audit.demand(&laboratory.rib, within).unwrap();
                let reports = (0..1000).find_map(|_| {
                    laboratory.second();
                    std::thread::sleep(Duration::from_millis(5));
                    awaited.report()
                });
                let report = reports.expect("no report");
                assert_eq!((report.total, report.left_to_kernel), (0, 0), "{address}");
                (report.compared, report.not_compared)
            };
            let addresses =
                ["10.1.2.3/32", "10.200.0.1/32", "2001:db8:7::9/128", "2001:db8:9::9/128"];
            for address in addresses.iter().cycle().take(40) {
                assert_eq!(compared(laboratory, address), (1, BTreeMap::new()), "{address}");
            }
            // No route leads to the senders: only hosts reached over the port pass the check.
            ip("addr flush dev pa");
            ip("route add 10.9.0.0/24 dev pa");
            for port in ["pa", "pb"] {
                std::fs::write(format!("/proc/sys/net/ipv4/conf/{port}/rp_filter"), "1").unwrap();
            }
            for _ in 0..10 {
                assert_eq!(compared(laboratory, "10.1.2.3/32"), (1, BTreeMap::new()));
            }
            let Laboratory { audit, rib, routes, .. } = &mut *laboratory;
            let state = State { rib, routes, is_ours: &|_| false };
            let why = audit.comparison.about(&state, &ports(rib), [10, 1, 2, 3].into(), true);
            let left = "pa: left to the kernel; pb: left to the kernel";
            assert_eq!(why, Err(left.to_owned()));
            ip("link set pa down");
            ip("link set pb down");
            let (_, why) = compared(laboratory, "10.1.2.3/32");
            assert!(why.keys().next().unwrap().starts_with("each port is down or left"), "{why:?}");
        });
    }

    /// The kernel has the same error for a blackhole and for a source that cannot come from
    /// outside.
    #[test]
    fn source_that_the_kernel_refuses_says_nothing_of_a_route() {
        in_namespace(|laboratory| {
            begin(laboratory);
            ip("route add blackhole 10.2.0.0/16");
            let Laboratory { audit, rib, routes, .. } = laboratory;
            let state = State { rib, routes, is_ours: &|_| true };
            let port = PortId(0);
            let ingress = interface_index("pa").unwrap();
            let mut outcome = |source: [u8; 4], destination: [u8; 4]| {
                let (source, destination) = (source.into(), destination.into());
                let question = Question { source, destination, port, ingress };
                audit.comparison.compare(&state, &question)
            };
            let (own, host) = ([192, 0, 2, 1], [192, 0, 2, 7]);
            let refused = outcome(own, [10, 1, 2, 3]);
            assert_eq!(refused, Outcome::NotComparable("the kernel refuses the source"));
            assert_eq!(outcome(host, [10, 1, 2, 3]), Outcome::Agrees);
            // The tables lack it so far.
            let missed = outcome(host, [10, 2, 2, 3]);
            assert!(matches!(missed, Outcome::Differs(_)), "{missed:?}");
        });
    }

    /// As of Linux 6.18.
    #[test]
    fn unannounced_next_hop_object_raises_no_alarm() {
        in_namespace(|laboratory| {
            std::fs::write("/proc/sys/net/ipv6/conf/all/forwarding", "1").unwrap();
            ip("-6 addr add 2001:db8:a::1/64 dev pa nodad");
            ip("-6 addr add 2001:db8:b::1/64 dev pb nodad");
            ip("nexthop add id 3 via 2001:db8:b::2 dev pb");
            ip("-6 route add 2001:db8:1::/64 nhid 3");
            ip("-6 route add 2001:db8:2::/64 nhid 3");
            // The first query creates the object's cache entry on this CPU.
            crate::cpu::pin(0, 0);
            ip("-6 route get 2001:db8:1::1 from 2001:db8:a::7 iif pa");
            begin(laboratory);
            let question = |destination: &str| Question {
                source: "2001:db8:a::7".parse().unwrap(),
                destination: destination.parse().unwrap(),
                port: PortId(0),
                ingress: interface_index("pa").unwrap(),
            };
            let compare = |laboratory: &mut Laboratory, destination: &str| {
                let Laboratory { audit, rib, routes, .. } = laboratory;
                let state = State { rib, routes, is_ours: &|_| true };
                audit.comparison.compare(&state, &question(destination))
            };
            assert_eq!(compare(laboratory, "2001:db8:1::1"), Outcome::Agrees);
            ip("-6 route del 2001:db8:1::/64");
            let gone = laboratory.audit.checked;
            while laboratory.audit.checked < gone + 10 {
                laboratory.second();
            }
            let outcome = compare(laboratory, "2001:db8:2::1");
            assert!(!matches!(outcome, Outcome::Differs(_)), "{outcome:?}");
            // A route that is really gone is noticed.
            ip("-6 route add 2001:db8:3::/64 via 2001:db8:b::2");
            while laboratory.routes.longest_match("2001:db8:3::1".parse().unwrap()).is_none() {
                laboratory.second();
            }
            ip("-6 route del 2001:db8:3::/64");
            let missed = compare(laboratory, "2001:db8:3::1");
            assert!(matches!(missed, Outcome::Differs(_)), "{missed:?}");
        });
    }

    #[test]
    fn audit_on_demand_reports_both_answers() {
        in_namespace(|laboratory| {
            begin(laboratory);
            laboratory.audit.rate = 0;
            let prefix: IpNet = "10.1.0.0/16".parse().unwrap();
            let report = |laboratory: &mut Laboratory, within: &str| {
                let Laboratory { audit, rib, .. } = laboratory;
                let awaited = audit.demand(rib, within.parse().ok()).unwrap();
                assert!(audit.demand(rib, None).is_none(), "one at a time");
                (0..60).find_map(|_| {
                    laboratory.second();
                    awaited.report()
                })
            };
            let intact = report(laboratory, "all").unwrap();
            assert!(intact.compared > 5 && intact.total == 0, "{intact:?}");
            let link = interface_index("pb").unwrap();
            let gateway = Some(IpAddr::from([198, 51, 100, 9]));
            let hop = Hop { link, gateway, weight: 1, mtu: None, dead: false };
            let route = Route::new(prefix, 0, RouteKind::Unicast, vec![hop]);
            let placement = wattline_linux::netlink::Placement::Replace;
            laboratory.plant(Event::Route { route, placement });
            let outside = report(laboratory, "198.51.100.0/24").unwrap();
            assert!(outside.compared > 0 && outside.total == 0, "{outside:?}");
            let found = report(laboratory, "10.1.7.0/24").unwrap();
            assert_eq!(found.total, 1, "{found:?}");
            let difference = &found.differences[0];
            assert_eq!(difference.prefix, "10.1.0.0/16");
            assert_eq!(difference.kernel.next_hops[0].address, IpAddr::from([198, 51, 100, 2]));
            assert_eq!(difference.wattline.next_hops[0].address, IpAddr::from([198, 51, 100, 9]));
            assert_eq!(laboratory.audit.left().collect::<Vec<_>>(), [prefix]);
            let again = report(laboratory, "10.1.0.0/16").unwrap();
            assert_eq!(again.total, 1, "as long as they differ: {again:?}");
        });
    }

    #[test]
    fn flood_of_changes_raises_no_alarm() {
        in_namespace(|laboratory| {
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
            println!("{checked} addresses compared with {} prefixes", laboratory.rib.prefixes());
            assert_eq!(mismatches, 0);
            assert!(checked > 0);
        });
    }
}

//! The kernel's network state, followed in separate namespaces. Needs root, and reports if it is
//! missing.

use ipnet::IpNet;
use std::collections::{HashMap, HashSet};
use std::io::Write;
use std::net::IpAddr;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use wattline_linux::namespace::Namespace;
use wattline_linux::netlink::forward_path::{
    self, Chain, Concern, InterfaceMatch, MasterKind, QueueingKind, Watch,
};
use wattline_linux::netlink::{ChangeFeed, Event, Hop, Link, Requester, Route, RouteKind};

const PATIENCE: Duration = Duration::from_secs(20);

/// A network namespace.
struct Space(Namespace);

impl Space {
    fn new() -> Option<Self> {
        Namespace::for_test(&[]).map_err(wattline_needs::rights).ok().map(Self)
    }

    fn ip(&self, arguments: &str) {
        self.0.ip(arguments).unwrap();
    }

    /// Runs `ip -batch` on lines.
    fn batch(&self, lines: &str) {
        let mut ip = Command::new("ip")
            .args(["-n", self.0.name(), "-batch", "-"])
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        ip.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
        assert!(ip.wait().unwrap().success());
    }

    /// Runs a program that may be unable to do it; returns false, and prints a line, if so.
    fn can(&self, program: &str, arguments: &str) -> bool {
        let arguments: Vec<&str> = arguments.split_whitespace().collect();
        let done = self.0.run(program, &arguments);
        done.inspect_err(|error| eprintln!("left out: {error}")).is_ok()
    }

    fn enter<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        self.0.enter(work).unwrap()
    }
}

/// State according to the events.
struct Mirror {
    feed: ChangeFeed,
    links: HashMap<u32, Link>,
    routes: HashMap<(ipnet::IpNet, u32), Route>,
    neighbours: HashMap<IpAddr, [u8; 6]>,
    unseen_neighbours: HashSet<IpAddr>,
    neighbour_dumps: u32,
    unseen: HashSet<(ipnet::IpNet, u32)>,
}

impl Mirror {
    fn new(buffer: usize) -> Self {
        Self {
            feed: ChangeFeed::with_buffer(buffer).unwrap(),
            links: HashMap::new(),
            routes: HashMap::new(),
            neighbours: HashMap::new(),
            unseen_neighbours: HashSet::new(),
            neighbour_dumps: 0,
            unseen: HashSet::new(),
        }
    }

    fn poll(&mut self) {
        let Self { feed, links, routes, neighbours, unseen, unseen_neighbours, neighbour_dumps } =
            self;
        let more = feed.poll(Instant::now(), &mut |event| match event {
            Event::DumpBegin => *unseen = routes.keys().copied().collect(),
            Event::DumpEnd => unseen.drain().for_each(|key| drop(routes.remove(&key))),
            Event::Link(link) => drop(links.insert(link.index, link)),
            Event::LinkGone(index) => drop(links.remove(&index)),
            Event::LinkParameters { .. } => {}
            Event::Route { route, .. } => {
                unseen.remove(&(route.prefix, route.metric));
                routes.insert((route.prefix, route.metric), route);
            }
            Event::RouteGone(route) => drop(routes.remove(&(route.prefix, route.metric))),
            Event::NeighbourDumpBegin => {
                *neighbour_dumps += 1;
                *unseen_neighbours = neighbours.keys().copied().collect();
            }
            Event::NeighbourDumpEnd => {
                neighbours.retain(|key, _| !unseen_neighbours.contains(key));
            }
            Event::Neighbour(neighbour) => {
                unseen_neighbours.remove(&neighbour.address);
                match neighbour.mac {
                    Some(mac) => neighbours.insert(neighbour.address, mac),
                    None => neighbours.remove(&neighbour.address),
                };
            }
            Event::NeighbourGone { address, .. } => drop(neighbours.remove(&address)),
            Event::Nexthop { id, kind, hops } => {
                for route in routes.values_mut().filter(|it| it.nexthop == Some(id)) {
                    (route.kind, route.hops) = (kind, hops.clone());
                }
            }
            Event::NexthopGone(id) => routes.retain(|_, route| route.nexthop != Some(id)),
            Event::Address(_) | Event::AddressGone(_) => {}
        });
        if !more.unwrap() {
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Polls until `met` holds and no dump is under way: in the middle of a dump it may hold before
    /// the dump is counted.
    #[track_caller]
    fn until(&mut self, what: &str, met: impl Fn(&Self) -> bool) {
        let end = Instant::now() + PATIENCE;
        while self.feed.is_dumping() || !met(self) {
            assert!(Instant::now() < end, "never: {what}; routes {:?}", self.routes.len());
            self.poll();
        }
    }

    fn route(&self, prefix: &str) -> Option<&Route> {
        let prefix: ipnet::IpNet = prefix.parse().unwrap();
        self.routes.values().find(|route| route.prefix == prefix)
    }

    fn link(&self, name: &str) -> u32 {
        self.links.values().find(|link| link.name == name).unwrap().index
    }
}

fn pair() -> Option<(Space, Space)> {
    let (near, far) = (Space::new()?, Space::new()?);
    near.ip(&format!("link add name a type veth peer name b netns {}", far.0.name()));
    for (namespace, link, host) in [(&near, "a", 1), (&far, "b", 2)] {
        namespace.ip(&format!("addr add 192.0.2.{host}/24 dev {link}"));
        namespace.ip(&format!("addr add 2001:db8::{host}/64 dev {link} nodad"));
        namespace.ip(&format!("link set dev {link} up"));
    }
    Some((near, far))
}

/// A dump does not show that a link was removed and another created with the same index, so waiting
/// notifications are read before the dump.
#[test]
fn recreated_link_with_the_same_number_is_noticed_while_a_dump_is_due() {
    let Some(namespace) = Space::new() else { return };
    namespace.batch("link add v0 index 77 type veth peer name v1\nlink set v0 up\n");
    namespace.enter(|| {
        let mut mirror = Mirror::new(1 << 20);
        mirror.until("the link", |mirror| mirror.links.contains_key(&77));
        // Its routes may have gone silently: a dump is due.
        namespace.ip("link set v0 down");
        mirror.until("down", |mirror| mirror.links.get(&77).is_some_and(|link| !link.enabled));
        let dumps = mirror.feed.dumps();
        std::thread::sleep(mirror.feed.deadline().unwrap() - Instant::now());
        namespace.batch("link del v0\nlink add v0 index 77 type veth peer name v1\n");
        let mut events = Vec::new();
        let end = Instant::now() + PATIENCE;
        while mirror.feed.is_dumping() || mirror.feed.dumps() == dumps {
            assert!(Instant::now() < end, "no dump; {events:?}");
            let each = &mut |event| match event {
                Event::LinkGone(77) => events.push("gone"),
                Event::Link(link) if link.index == 77 => events.push("there"),
                _ => {}
            };
            mirror.feed.poll(Instant::now(), each).unwrap();
        }
        assert!(events.contains(&"gone") && events.last() == Some(&"there"), "{events:?}");
    });
}

#[test]
fn routes_of_every_kind_are_dumped_and_followed() {
    let Some((near, _far)) = pair() else { return };
    near.ip("route add 10.0.0.0/8 via 192.0.2.2");
    near.enter(|| {
        let mut mirror = Mirror::new(1 << 20);
        mirror.until("the dump", |mirror| mirror.route("10.0.0.0/8").is_some());
        let link = mirror.link("a");
        let hop = |host: u8| Hop {
            link,
            gateway: Some(format!("192.0.2.{host}").parse().unwrap()),
            weight: 1,
            mtu: None,
            dead: false,
        };
        assert_eq!(mirror.route("10.0.0.0/8").unwrap().hops, [hop(2)]);
        let connected = mirror.route("192.0.2.0/24").unwrap();
        assert_eq!(
            connected.hops,
            [Hop { link, gateway: None, weight: 1, mtu: None, dead: false }]
        );

        near.ip("route add 10.1.0.0/16 nexthop via 192.0.2.2 nexthop via 192.0.2.3 weight 3");
        near.ip("route add blackhole 10.2.0.0/16");
        near.ip("route add unreachable 10.3.0.0/16 metric 7");
        near.ip("route add prohibit 2001:db8:3::/48");
        near.ip("nexthop add id 5 via 192.0.2.4 dev a");
        near.ip("route add 10.5.0.0/16 nhid 5");
        near.ip("route add default via 192.0.2.9");
        near.ip("route add 10.6.0.0/16 via inet6 2001:db8::2 dev a");
        near.ip("-6 route add 2001:db8:5::/48 nexthop via 2001:db8::2 nexthop via 2001:db8::3");
        near.ip("route add 10.7.0.0/16 via 192.0.2.2 table 100");
        near.ip("route add 10.9.0.0/16 via 192.0.2.2 mtu 1300");
        near.ip("route add 10.10.0.0/16 mtu lock 1200 nexthop via 192.0.2.2 nexthop via 192.0.2.3");
        near.ip("-6 route add 2001:db8:9::/48 via 2001:db8::2 mtu 1400");
        near.ip("route add 10.8.0.0/16 dev a");
        mirror.until("the last route", |mirror| mirror.route("10.8.0.0/16").is_some());
        let three = Hop { weight: 3, ..hop(3) };
        assert_eq!(mirror.route("10.1.0.0/16").unwrap().hops, [hop(2), three]);
        assert_eq!(mirror.route("10.2.0.0/16").unwrap().kind, RouteKind::Blackhole);
        assert_eq!(mirror.route("10.3.0.0/16").unwrap().kind, RouteKind::Unreachable);
        assert_eq!(mirror.route("10.3.0.0/16").unwrap().metric, 7);
        assert_eq!(mirror.route("2001:db8:3::/48").unwrap().kind, RouteKind::Prohibit);
        assert_eq!(mirror.route("10.5.0.0/16").unwrap().hops, [hop(4)], "nexthop object");
        assert_eq!(mirror.route("0.0.0.0/0").unwrap().hops, [hop(9)]);
        let six: IpAddr = "2001:db8::2".parse().unwrap();
        assert_eq!(mirror.route("10.6.0.0/16").unwrap().hops[0].gateway, Some(six));
        assert_eq!(mirror.route("2001:db8:5::/48").unwrap().hops.len(), 2);
        assert_eq!(mirror.route("10.7.0.0/16"), None, "another table");
        let mtus = |prefix| -> Vec<_> {
            mirror.route(prefix).unwrap().hops.iter().map(|hop| hop.mtu).collect()
        };
        assert_eq!(mtus("10.9.0.0/16"), [Some(1300)]);
        assert_eq!(mtus("10.10.0.0/16"), [Some(1200), Some(1200)]);
        assert_eq!(mtus("2001:db8:9::/48"), [Some(1400)]);

        near.ip("nexthop replace id 5 via 192.0.2.5 dev a");
        mirror.until("the changed nexthop object", |mirror| {
            mirror.route("10.5.0.0/16").unwrap().hops == [hop(5)]
        });
        near.ip("route del 10.2.0.0/16");
        mirror.until("the withdrawal", |mirror| mirror.route("10.2.0.0/16").is_none());
        assert_eq!(mirror.feed.unreadable(), 0);
    });
}

/// The kernel announces only the change of the object, not that its routes have changed or gone.
#[test]
fn routes_follow_the_next_hops_that_they_name() {
    let Some((near, _far)) = pair() else { return };
    near.ip("link set dev lo up");
    for compatible in [true, false] {
        near.enter(|| {
            let key = "/proc/sys/net/ipv4/nexthop_compat_mode";
            std::fs::write(key, if compatible { "1" } else { "0" }).unwrap();
        });
        near.batch(
            "nexthop add id 2 via 192.0.2.2 dev a\nnexthop add id 3 via 192.0.2.3 dev a\n\
             nexthop add id 6 via 2001:db8::2 dev a\nnexthop add id 7 via 2001:db8::3 dev a\n\
             nexthop add id 10 group 2/3\nnexthop add id 11 group 6/7\n\
             nexthop add id 12 blackhole\n\
             route add 10.1.0.0/16 nhid 10\nroute add 10.2.0.0/16 nhid 3\n\
             route add 10.3.0.0/16 nhid 12\n\
             route add 2001:db8:1::/48 nhid 11\nroute add 2001:db8:2::/48 nhid 7\n",
        );
        near.enter(|| {
            let mut mirror = Mirror::new(1 << 20);
            mirror.until("the dump", |mirror| mirror.route("2001:db8:2::/48").is_some());
            let ways = |mirror: &Mirror, prefix| mirror.route(prefix).map_or(0, |it| it.hops.len());
            let prefixes = ["10.1.0.0/16", "10.2.0.0/16", "2001:db8:1::/48", "2001:db8:2::/48"];
            assert_eq!(prefixes.map(|prefix| ways(&mirror, prefix)), [2, 1, 2, 1], "{compatible}");
            assert_eq!(mirror.route("10.3.0.0/16").unwrap().kind, RouteKind::Blackhole);
            let dumps = mirror.feed.dumps();
            // Groups keep one next hop; routes by the object alone are gone.
            near.ip("nexthop del id 3");
            near.ip("nexthop del id 7");
            mirror.until("the deletion of members", |mirror| {
                prefixes.map(|prefix| ways(mirror, prefix)) == [1, 0, 1, 0]
            });
            // A changed member changes its groups.
            near.ip("nexthop replace id 2 via 192.0.2.9 dev a");
            let moved = Some(IpAddr::from([192, 0, 2, 9]));
            mirror.until("the change of a member", |mirror| {
                mirror.route("10.1.0.0/16").is_some_and(|it| it.hops[0].gateway == moved)
            });
            near.ip("route add 10.4.0.0/16 nhid 10");
            mirror.until("a new route", |mirror| ways(mirror, "10.4.0.0/16") == 1);
            assert_eq!(mirror.route("10.4.0.0/16").unwrap().hops[0].gateway, moved);
            near.ip("nexthop del id 10");
            near.ip("nexthop del id 12");
            mirror.until("the deletion of a group and of a blackhole", |mirror| {
                ["10.1.0.0/16", "10.3.0.0/16", "10.4.0.0/16"]
                    .iter()
                    .all(|it| mirror.route(it).is_none())
            });
            assert_eq!(mirror.feed.dumps(), dumps, "no dump was needed");
            assert_eq!(mirror.feed.unreadable(), 0);
        });
        near.ip("nexthop flush");
    }
}

#[test]
fn routes_that_vanish_silently_with_the_carrier_are_noticed() {
    let Some((near, far)) = pair() else { return };
    near.ip("nexthop add id 2 via 192.0.2.2 dev a");
    near.ip("route add 10.0.0.0/8 nhid 2");
    near.enter(|| {
        let mut mirror = Mirror::new(1 << 20);
        mirror.until("the dump", |mirror| mirror.route("10.0.0.0/8").is_some());
        far.ip("link set dev b down");
        mirror.until("it gone", |mirror| mirror.route("10.0.0.0/8").is_none());
    });
}

#[test]
fn routes_that_vanish_silently_with_their_link_are_noticed() {
    let Some((near, _far)) = pair() else { return };
    near.ip("route add 10.0.0.0/8 via 192.0.2.2");
    near.enter(|| {
        let mut mirror = Mirror::new(1 << 20);
        mirror.until("the dump", |mirror| mirror.route("10.0.0.0/8").is_some());
        near.ip("link set dev a down");
        mirror.until("both gone", |mirror| {
            mirror.route("10.0.0.0/8").is_none() && mirror.route("192.0.2.0/24").is_none()
        });
        near.ip("link set dev a up");
        mirror.until("the connected one back", |mirror| mirror.route("192.0.2.0/24").is_some());
    });
}

#[test]
fn the_kernel_resolves_a_neighbour_when_asked() {
    let Some((near, _far)) = pair() else { return };
    near.enter(|| {
        let mut mirror = Mirror::new(1 << 20);
        mirror.until("the dump", |mirror| mirror.route("192.0.2.0/24").is_some());
        let link = mirror.link("a");
        let mut requester = Requester::new().unwrap();
        for address in ["192.0.2.2", "2001:db8::2"] {
            let address: IpAddr = address.parse().unwrap();
            assert!(!mirror.neighbours.contains_key(&address));
            // The kernel asks three times, within three seconds: a link without carrier yet loses
            // all.
            let end = Instant::now() + PATIENCE;
            while !mirror.neighbours.contains_key(&address) {
                assert!(Instant::now() < end, "{address} never answered");
                assert!(requester.use_neighbours(&[(link, address)]).unwrap().is_empty());
                mirror.poll();
            }
            requester.forget_neighbours(&[(link, address)]).unwrap();
            mirror.until("the loss", |mirror| !mirror.neighbours.contains_key(&address));
        }
    });
}

#[test]
fn an_overrun_of_the_notifications_loses_nothing() {
    const ROUTES: u32 = 20_000;
    let Some((near, _far)) = pair() else { return };
    near.enter(|| {
        // Room for a few dozen notifications.
        let mut mirror = Mirror::new(32 << 10);
        mirror.until("the dump", |mirror| mirror.route("192.0.2.0/24").is_some());
        let line = |verb: &str, number: u32| {
            format!("route {verb} 10.{}.{}.0/24 via 192.0.2.2\n", number / 256, number % 256)
        };
        near.batch(&(0..ROUTES).map(|number| line("add", number)).collect::<String>());
        mirror.until("all routes", |mirror| mirror.routes.len() > ROUTES as usize);
        let dumps = mirror.feed.dumps();
        assert!(dumps > 1, "nothing was overrun");
        near.batch(&(0..ROUTES / 2).map(|number| line("del", number)).collect::<String>());
        near.ip("route add 10.0.7.0/24 via 192.0.2.3");
        mirror.until("the withdrawal", |mirror| {
            mirror.routes.len() < ROUTES as usize / 2 + 20 && mirror.route("10.0.7.0/24").is_some()
        });
        assert!(mirror.feed.dumps() > dumps, "nothing was overrun");
    });
}

/// Lost notifications of neighbours do not cause a dump of routes, and dumps of neighbours are a
/// second apart. Other changes are reported meanwhile.
#[test]
fn overrun_by_neighbours_is_repaired_without_a_dump_of_routes() {
    let Some((near, _far)) = pair() else { return };
    near.enter(|| {
        // Room for a few dozen notifications.
        let mut mirror = Mirror::new(32 << 10);
        mirror.until("the dump", |mirror| mirror.route("192.0.2.0/24").is_some());
        let begun = Instant::now();
        let lines = |verb: &str, mac: &str| {
            let line = |host: u32| format!("neighbour {verb} 192.0.2.{host} {mac} dev a\n");
            (10..200).map(line).collect::<String>()
        };
        let mac = "lladdr 02:00:00:00:00:07 nud permanent";
        for round in 0..5 {
            near.batch(&lines("replace", mac));
            near.batch(&lines("del", ""));
            near.ip(&format!("route add 10.0.{round}.0/24 via 192.0.2.2"));
            let prefix = format!("10.0.{round}.0/24");
            while mirror.route(&prefix).is_none() {
                assert!(begun.elapsed() < PATIENCE);
                mirror.poll();
            }
        }
        near.batch(&lines("replace", mac));
        mirror.until("all neighbours", |mirror| {
            (10..200).all(|host| mirror.neighbours.contains_key(&[192, 0, 2, host].into()))
        });
        near.batch(&lines("del", ""));
        mirror.until("none", |mirror| {
            (10..200).all(|host| !mirror.neighbours.contains_key(&[192, 0, 2, host].into()))
        });
        let most = 1 + begun.elapsed().as_secs() as u32;
        assert!((1..=most).contains(&mirror.neighbour_dumps), "{}", mirror.neighbour_dumps);
        assert_eq!(mirror.feed.dumps(), 1, "routes were dumped again");
    });
}

/// Followers of a long table return to their other work while it is read.
#[test]
fn long_dump_is_taken_in_pieces() {
    const ROUTES: u32 = 40_000;
    let Some((near, _far)) = pair() else { return };
    near.enter(|| {
        let line = |number: u32| {
            format!("route add 10.{}.{}.0/24 via 192.0.2.2\n", number / 256, number % 256)
        };
        near.batch(&(0..ROUTES).map(line).collect::<String>());
        let mut feed = ChangeFeed::new().unwrap();
        let (mut events, mut pieces, mut ends) = (0, Vec::new(), 0);
        while feed.is_dumping() {
            feed.poll(Instant::now(), &mut |event| {
                events += usize::from(matches!(event, Event::Route { .. }));
                ends += usize::from(matches!(event, Event::DumpEnd));
            })
            .unwrap();
            pieces.push(std::mem::take(&mut events));
            // The caller need not wait for a descriptor to become readable.
            assert!(!feed.is_dumping() || feed.deadline().is_some());
        }
        assert_eq!((ends, feed.dumps()), (1, 1));
        let all: usize = pieces.iter().sum();
        assert!(all >= ROUTES as usize, "{all} routes");
        let longest = pieces.iter().max().copied().unwrap_or(0);
        assert!(pieces.len() > 2 && longest < all / 2, "{pieces:?}");
    });
}

/// Chain c of table inet t, with one rule at a time.
fn rules_concern_the_packets_that_they_can_match(run: &dyn Fn(&str, &str) -> bool) {
    let name = |name: &str| Some(vec![InterfaceMatch::Name(name.to_owned())]);
    let net = |text: &str| Some(text.split(' ').map(|it| it.parse::<IpNet>().unwrap()).collect());
    let any = Concern::default;
    let from = |text: &str| Concern { source: net(text), ..any() };
    let to = |text: &str| Concern { destination: net(text), ..any() };
    let input = |of: InterfaceMatch| Concern { input: Some(vec![of]), ..any() };
    let up = || Some(vec![Concern { input: name("up"), ..any() }]);
    for line in [
        "set inet t s { type ipv4_addr ; elements = { 10.0.0.1, 10.0.0.2 } ; }",
        "set inet t none { type ipv4_addr ; }",
        "set inet t nets { type ipv4_addr ; flags interval ; elements = { 10.0.0.0/8, 224.0.0.0/3 } ; }",
        "set inet t nets6 { type ipv6_addr ; flags interval ; elements = { ::/1, fc00::/7 } ; }",
        "set inet t aging { type ipv4_addr ; flags timeout ; elements = { 10.0.0.1 } ; }",
        "set inet t limited { type ipv4_addr ; flags dynamic ; }",
        "set inet t filled { type ipv4_addr ; }",
        "set inet t counting { type ipv4_addr ; counter ; elements = { 10.0.0.1 } ; }",
        "set inet t ports { type inet_service ; }",
        "map inet t verdicts { type ipv4_addr : verdict ; elements = { 10.0.0.1 : drop } ; }",
        "chain inet t stateless",
        "rule inet t stateless ip daddr 198.51.100.0/24 drop",
        "chain inet t stateful",
        "rule inet t stateful ct state new drop",
        // Packets add to this set.
        "chain inet t fills",
        "rule inet t fills add @filled { ip saddr }",
    ] {
        run("nft", &format!("add {line}"));
    }
    let mut judged = 0;
    for (rule, concerns) in [
        ("iifname \"up\" drop", up()),
        ("iifname \"u*\" drop", Some(vec![input(InterfaceMatch::Beginning("u".to_owned()))])),
        ("iif lo counter", Some(vec![input(InterfaceMatch::Index(1))])),
        ("iif { lo } drop", Some(vec![input(InterfaceMatch::Index(1))])),
        ("iifname { \"up\" } drop", up()),
        ("iifname != { \"up\", \"down\" } drop", Some(vec![any()])),
        ("oifname \"up\" reject", Some(vec![Concern { output: name("up"), ..any() }])),
        ("ip saddr 10.0.0.0/8 drop", Some(vec![from("10.0.0.0/8")])),
        ("ip saddr 172.16.0.0/12 log", Some(vec![from("172.16.0.0/12")])),
        ("ip daddr 192.0.2.1 drop", Some(vec![to("192.0.2.1/32")])),
        (
            "ip saddr 192.0.2.1 ip daddr 192.0.2.2 drop",
            Some(vec![Concern { source: net("192.0.2.1/32"), ..to("192.0.2.2/32") }]),
        ),
        ("ip6 saddr 2001:db8::/33 drop", Some(vec![from("2001:db8::/33")])),
        ("ip6 daddr 2001:db8::7 drop", Some(vec![to("2001:db8::7/128")])),
        ("ip saddr != 10.0.0.0/8 drop", Some(vec![any()])),
        ("ip saddr 10.0.0.1-10.0.0.3 drop", Some(vec![from("10.0.0.1/32 10.0.0.2/31")])),
        ("ip saddr != 10.0.0.1-10.0.0.9 drop", Some(vec![any()])),
        ("ip saddr @none drop", Some(vec![])),
        ("ip saddr != @none drop", Some(vec![any()])),
        ("ip saddr @nets drop", Some(vec![from("10.0.0.0/8 224.0.0.0/3")])),
        ("ip6 daddr @nets6 counter", Some(vec![to("::/1 fc00::/7")])),
        (
            "ip daddr { 10.9.0.0/16, 10.8.0.0-10.8.1.255 } drop",
            Some(vec![to("10.8.0.0/23 10.9.0.0/16")]),
        ),
        ("ip saddr != @nets drop", Some(vec![any()])),
        ("ip saddr & 255.255.0.0 @s drop", Some(vec![any()])),
        ("ip saddr . ip daddr { 10.0.0.1 . 10.0.0.2 } drop", Some(vec![any()])),
        ("ip saddr @filled drop", Some(vec![any()])),
        ("ip saddr @aging drop", Some(vec![any()])),
        ("ip saddr @limited drop", Some(vec![any()])),
        ("ip saddr @counting drop", Some(vec![any()])),
        ("ip saddr & 255.0.255.0 == 10.0.1.0 drop", Some(vec![any()])),
        ("tcp dport 23 drop", Some(vec![any()])),
        ("tcp dport 22 accept", Some(vec![])),
        ("tcp dport { 22, 80 } accept", Some(vec![])),
        ("meta mark set 7", Some(vec![any()])),
        ("meta mark set ip saddr map { 10.0.0.1 : 7 }", Some(vec![from("10.0.0.1/32")])),
        ("ip saddr 10.0.0.0/8 jump stateless", Some(vec![from("10.0.0.0/8")])),
        ("ip saddr 10.0.0.0/8 goto stateless", Some(vec![from("10.0.0.0/8")])),
        // An action before a comparison also affects the packets that the comparison excludes.
        ("log ip saddr 10.0.0.0/8 drop", Some(vec![any()])),
        ("counter iifname \"up\" drop", Some(vec![any()])),
        ("counter ip saddr @nets drop", Some(vec![any()])),
        ("limit rate over 9/second ip saddr 10.0.0.0/8 drop", Some(vec![any()])),
        ("meta mark set 7 ip daddr 10.0.0.0/8 drop", Some(vec![any()])),
        ("tcp dport @ports accept", Some(vec![])),
        ("tcp dport @ports iifname \"up\" drop", up()),
        ("iifname vmap { \"up\" : drop, \"a\" : accept }", up()),
        ("ip saddr vmap @verdicts", Some(vec![from("10.0.0.1/32")])),
        (
            "ip saddr vmap { 10.0.0.0/8 : jump stateless, 11.0.0.0/8 : return }",
            Some(vec![from("10.0.0.0/8")]),
        ),
        ("tcp dport vmap { 22 : accept, 23 : drop }", Some(vec![any()])),
        ("tcp dport vmap { 22 : accept, 23 : continue }", Some(vec![])),
        ("ip saddr . tcp dport vmap { 10.0.0.1 . 22 : drop }", Some(vec![any()])),
        // The kernel does not recognise a connection of which it sees only one direction.
        ("ip saddr 10.0.0.0/8 jump stateful", None),
        ("ip saddr vmap { 10.0.0.0/8 : goto stateful }", None),
        ("iifname \"up\" ct state established accept", None),
        ("ct state vmap { established : accept }", None),
        ("ip saddr 10.0.0.0/8 notrack", None),
        ("ip saddr 10.0.0.0/8 queue", None),
        ("tcp flags syn tcp option maxseg size set 1300", Some(vec![any()])),
        ("tcp flags syn tcp option maxseg size set rt mtu", Some(vec![any()])),
        ("tcp flags syn tcp option maxseg size 1300 drop", Some(vec![any()])),
    ] {
        // The kernel or the program may not support the rule.
        if !run("nft", &format!("add rule inet t c {rule}")) {
            continue;
        }
        judged += 1;
        let chain = forward_path::read().chains.remove(0);
        assert_eq!(concerns_of(&chain), concerns, "{rule}");
        assert_eq!(chain.sets_mss, rule.contains("size set"), "{rule}");
        run("nft", "flush chain inet t c");
    }
    assert!(judged > 30, "{judged}");
    run("nft", "add rule inet t c ip saddr 10.0.0.0/8 drop");
    run("nft", "add rule inet t c iifname up tcp dport 23 drop");
    let both = vec![from("10.0.0.0/8"), Concern { input: name("up"), ..any() }];
    assert_eq!(concerns_of(&forward_path::read().chains[0]), Some(both));
    run("nft", "flush chain inet t c");
    run("nft", "chain inet t c { policy drop ; }");
    for (rule, accepted) in [
        ("accept", vec![any()]),
        ("iifname \"up\" accept", up().unwrap()),
        ("iifname vmap { \"up\" : accept, \"a\" : drop }", up().unwrap()),
        ("meta nfproto ipv6 accept", vec![from("::/0")]),
        ("ip daddr 10.0.0.0/8 accept", vec![to("10.0.0.0/8")]),
        ("ip saddr @nets accept", vec![from("10.0.0.0/8 224.0.0.0/3")]),
        ("ip saddr 0.0.0.0-255.255.255.255 accept", vec![from("0.0.0.0/0")]),
        ("ip6 saddr ::-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff accept", vec![from("::/0")]),
        // Other packets may meet such a condition, too, or lack the compared field.
        ("ip saddr 10.0.0.0/8 ip saddr 11.0.0.0/8 accept", vec![]),
        ("iifname != \"up\" accept", vec![]),
        ("ip saddr != @nets accept", vec![]),
        ("ip saddr @none accept", vec![]),
        ("ip saddr @aging accept", vec![]),
        ("ip saddr @filled accept", vec![]),
        ("meta l4proto tcp accept", vec![]),
        ("tcp dport 22 accept", vec![]),
        ("iifname \"up\" iifname \"a\" accept", vec![]),
        ("ip daddr 10.0.0.0/8 counter accept", vec![]),
        ("ip daddr 10.0.0.0/8 jump stateless", vec![]),
        ("fib daddr type local accept", vec![]),
        ("ip saddr . ip daddr { 10.0.0.1 . 10.0.0.2 } accept", vec![]),
    ] {
        if run("nft", &format!("add rule inet t c {rule}")) {
            assert_eq!(forward_path::read().chains[0].accepted, accepted, "{rule}");
            run("nft", "flush chain inet t c");
        }
    }
    // The policy decides about packets that return.
    run("nft", "add rule inet t c ip saddr 10.0.0.0/8 return");
    run("nft", "add rule inet t c accept");
    assert_eq!(forward_path::read().chains[0].accepted, []);
    run("nft", "flush chain inet t c");
}

/// Returns the packets of the effects of a chain, if it is understood.
fn concerns_of(chain: &Chain) -> Option<Vec<Concern>> {
    let effects = chain.effects.as_ref().ok()?;
    Some(effects.iter().map(|effect| effect.concern.clone()).collect())
}

/// Finds the features that forwarders in the kernel's place bypass.
#[test]
fn features_that_affect_kernel_forwarding_are_found() {
    let Some((near, _far)) = pair() else { return };
    let run = |program: &str, arguments: &str| near.can(program, arguments);
    near.enter(|| {
        let mut watch = Watch::new();
        let settings = forward_path::read().settings;
        let bare = forward_path::ForwardPath { settings, ..Default::default() };
        assert_eq!(forward_path::read(), bare, "a namespace without anything");
        let link = wattline_linux::namespace::interface_index("a").unwrap();
        watch.has_changed();
        let changed = |watch: &mut Watch| {
            wattline_needs::until("no notification", || watch.has_changed());
        };

        // Rules that concern no forwarded packet are not listed.
        near.ip("rule add from all oif a lookup 100 pref 50");
        near.ip("rule add iif lo lookup 100 pref 51");
        near.ip("rule add uidrange 1-2 lookup 100 pref 52");
        assert_eq!(forward_path::read(), bare);
        for (rule, text) in [
            ("uidrange 0-2 lookup 100", "53: from all uidrange 0-2 lookup 100"),
            ("not oif a lookup 100", "53: not from all lookup 100"),
            ("not iif lo lookup 100", "53: not from all iif lo lookup 100"),
        ] {
            near.ip(&format!("rule add {rule} pref 53"));
            let rules = forward_path::read().rules;
            assert!(rules.len() == 1 && rules[0].text == text, "{rules:?}");
            assert_eq!(rules[0].input, None);
            near.ip("rule del pref 53");
        }
        near.ip("rule add from 10.9.0.0/16 prohibit pref 60");
        changed(&mut watch);
        near.ip("rule add iif a lookup 100 pref 61");
        near.ip("-6 rule add not fwmark 0x7 lookup 100 pref 62");
        let rules = forward_path::read().rules;
        let texts: Vec<&str> = rules.iter().map(|rule| rule.text.as_str()).collect();
        assert_eq!(
            texts,
            [
                "60: from 10.9.0.0/16 prohibit",
                "61: from all iif a lookup 100",
                "62: not from all fwmark 0x7 lookup 100"
            ]
        );
        assert_eq!(rules[1].input.as_deref(), Some("a"));
        assert_eq!(rules[0].source, Some("10.9.0.0/16".parse().unwrap()));
        assert_eq!((rules[1].source, rules[2].source), (None, None), "all, and all but some");
        assert!(rules[2].ipv6);
        ["rule del pref 60", "rule del pref 61", "-6 rule del pref 62"]
            .into_iter()
            .for_each(|rule| near.ip(rule));
        near.ip("rule del pref 32766");
        assert!(forward_path::read().rules[0].text.contains("order local, default, not"));
        near.ip("rule add lookup main pref 32766");

        if run("nft", "add table inet t") {
            run("nft", "add chain inet t c { type filter hook forward priority 0 ; }");
            run(
                "nft",
                "add chain inet t own { type filter hook input priority 0 ; policy drop ; }",
            );
            run("nft", "add chain inet t other");
            run("nft", "add rule inet t other counter");
            assert_eq!(forward_path::read(), bare, "no rule for transit packets");
            run("nft", "add rule inet t c jump other");
            changed(&mut watch);
            let chains = forward_path::read().chains;
            assert_eq!(chains.len(), 1, "{chains:?}");
            let chain = &chains[0];
            assert_eq!(
                (chain.family, chain.table.as_str(), chain.name.as_str()),
                ("inet", "t", "c")
            );
            assert_eq!((chain.hook, chain.rules, chain.drops), ("forward", 1, false));
            run("nft", "flush chain inet t c");
            run("nft", "chain inet t c { policy drop ; }");
            assert!(forward_path::read().chains[0].drops);
            run("nft", "chain inet t c { policy accept ; }");
            rules_concern_the_packets_that_they_can_match(&run);
            run("nft", "delete table inet t");
            run("nft", "add table netdev d");
            run("nft", "add chain netdev d i { type filter hook ingress device a priority 0 ; }");
            run("nft", "add rule netdev d i counter");
            let chains = forward_path::read().chains;
            assert_eq!(
                (chains[0].hook, chains[0].devices.as_slice()),
                ("ingress", &["a".to_owned()][..])
            );
            run("nft", "delete table netdev d");
        }
        if run("iptables-legacy", "-A FORWARD -s 10.9.0.0/16 -j DROP") {
            let legacy = forward_path::read().legacy;
            assert_eq!(legacy.len(), 1, "{legacy:?}");
            assert_eq!((legacy[0].name.as_str(), legacy[0].rules), ("filter", 1));
            run("iptables-legacy", "-F");
            assert_eq!(forward_path::read(), bare, "a table without rules");
            run("iptables-legacy", "-P INPUT DROP");
            assert_eq!(forward_path::read(), bare, "for packets to this machine");
            run("iptables-legacy", "-P FORWARD DROP");
            assert_eq!(forward_path::read().legacy[0].drops, Some("FORWARD"));
            run("iptables-legacy", "-P FORWARD ACCEPT");
            if run("ip6tables-legacy", "-t mangle -P PREROUTING DROP") {
                assert_eq!(forward_path::read().legacy[0].drops, Some("PREROUTING"));
                run("ip6tables-legacy", "-t mangle -P PREROUTING ACCEPT");
            }
        }
        run("tc", "qdisc add dev a clsact");
        assert_eq!(forward_path::read(), bare, "no filter");
        watch.has_changed();
        // Any of these, whichever the kernel has.
        let filters = ["matchall action drop", "matchall", "protocol ip u32 match u32 0 0", "fw"];
        let mut filters = filters.iter().map(|it| format!("filter add dev a ingress prio 1 {it}"));
        let filtered = filters.any(|filter| run("tc", &filter));
        if filtered {
            changed(&mut watch);
        }
        run("tc", "qdisc add dev a root tbf rate 1mbit burst 10k latency 50ms");
        let mut kinds: Vec<_> = forward_path::read().queueing;
        assert!(kinds.iter().all(|it| it.link == link), "{kinds:?}");
        kinds.sort_by_key(|it| it.kind == QueueingKind::Filters);
        let kinds: Vec<_> = kinds.into_iter().map(|it| it.kind).collect();
        assert_eq!(kinds[0], QueueingKind::Discipline("tbf".to_owned()));
        assert_eq!(kinds.get(1).is_some(), filtered, "{kinds:?}");
        run("tc", "qdisc del dev a root");
        run("tc", "qdisc del dev a clsact");

        near.ip("link add name br0 type bridge");
        near.ip("link set dev a master br0");
        let masters = forward_path::read().masters;
        let address = matches!(masters[0].kind, MasterKind::Bridge(address) if address != [0; 6]);
        assert_eq!((masters[0].link, address), (link, true), "{masters:?}");
        assert_eq!(masters[0].name, "br0");
        near.ip("link set dev a nomaster");
        near.ip("link del br0");

        near.ip("xfrm policy add src 10.1.0.0/16 dst 10.2.0.0/16 dir out action block");
        near.ip("xfrm policy add src 10.2.0.0/16 dst 10.1.0.0/16 dir in action block");
        assert_eq!(forward_path::read().ipsec_policies.len(), 1);
        near.ip("xfrm policy flush");
        assert_eq!(forward_path::read(), bare);
        for direction in ["fwd", "out"] {
            watch.has_changed();
            if run("ip", &format!("xfrm policy setdefault {direction} block")) {
                changed(&mut watch);
                assert_eq!(forward_path::read().ipsec_blocks, [direction]);
                run("ip", &format!("xfrm policy setdefault {direction} accept"));
            }
        }
        assert_eq!(forward_path::read(), bare);

        // A namespace begins without forwarding.
        let of = |ipv6: bool| forward_path::read().settings.for_link(link, ipv6);
        let mut set = |path: &str, value: &str| {
            watch.has_changed();
            std::fs::write(format!("/proc/sys/net/{path}"), value).unwrap();
            changed(&mut watch);
        };
        let off =
            [Some("net.ipv4.conf.%.forwarding = 0"), Some("net.ipv6.conf.all.forwarding = 0")];
        for (family, ipv6) in [("ipv4", false), ("ipv6", true)] {
            let path = format!("{family}/conf/all/forwarding");
            for (value, off_because) in [("1", None), ("0", off[usize::from(ipv6)]), ("1", None)] {
                set(&path, value);
                assert_eq!(of(ipv6).off_because, off_because);
            }
        }
        set("ipv4/conf/a/forwarding", "0");
        assert_eq!((of(false).off_because, of(true).off_because), (off[0], None));
        set("ipv6/conf/a/forwarding", "0");
        assert_eq!(of(true).off_because, None, "the kernel forwards all the same");
    });
}

#[test]
fn disciplines_are_found_at_any_depth() {
    let Some((near, _far)) = pair() else { return };
    near.ip("link add q numtxqueues 2 numrxqueues 2 type veth peer name r");
    near.ip("link set q up");
    let run = |arguments: &str| near.can("tc", arguments);
    near.enter(|| {
        let link = wattline_linux::namespace::interface_index("q").unwrap();
        let kinds = || {
            let found = forward_path::read().queueing.into_iter().filter(|it| it.link == link);
            found.map(|it| it.kind).collect::<Vec<_>>()
        };
        let named = |name: &str| QueueingKind::Discipline(name.to_owned());
        assert!(run("qdisc replace dev q root handle 1: mq"));
        assert_eq!(kinds(), [], "its children are plain");
        for (discipline, name) in [
            ("tbf rate 1mbit burst 10k latency 50ms", "tbf"),
            ("netem loss 1%", "netem"),
            ("cake", "cake"),
            ("pfifo limit 0", "pfifo with limit 0"),
            ("fq maxrate 1mbit", "fq with maxrate"),
        ] {
            if run(&format!("qdisc replace dev q parent 1:2 {discipline}")) {
                assert_eq!(kinds(), [named(name)], "{discipline}");
                assert!(run("qdisc del dev q parent 1:2"));
            }
        }
        for discipline in ["fq_codel", "sfq"] {
            if !run(&format!("qdisc replace dev q parent 1:1 handle 2: {discipline}")) {
                continue;
            }
            assert_eq!(kinds(), []);
            let filter = "filter add dev q parent 2: prio 1";
            if ["matchall", "protocol ip u32 match u32 0 0 flowid 2:1", "fw"]
                .iter()
                .any(|it| run(&format!("{filter} {it}")))
            {
                assert_eq!(kinds(), [QueueingKind::Filters], "{discipline}");
            }
            run("qdisc del dev q parent 1:1");
        }
    });
}

#[test]
fn disabled_ipv6_and_reverse_path_filters_are_settings_of_links() {
    let Some((near, _far)) = pair() else { return };
    near.enter(|| {
        let link = wattline_linux::namespace::interface_index("a").unwrap();
        let of = |ipv6: bool| forward_path::read().settings.for_link(link, ipv6);
        let set = |path: &str, value: &str| {
            std::fs::write(format!("/proc/sys/net/{path}"), value).unwrap();
        };
        set("ipv6/conf/all/forwarding", "1");
        set("ipv6/conf/a/disable_ipv6", "1");
        assert_eq!(of(true).off_because, Some("net.ipv6.conf.%.disable_ipv6 = 1"));
        for (all, own, filter) in [(0, 0, 0), (1, 0, 1), (1, 2, 2), (0, 2, 2)] {
            set("ipv4/conf/all/rp_filter", &all.to_string());
            set("ipv4/conf/a/rp_filter", &own.to_string());
            assert_eq!(of(false).reverse_path, filter);
        }
    });
}

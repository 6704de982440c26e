//! Random sequences of commands that change routes, next hops, addresses, links, neighbours and
//! kernel parameters.

use std::net::IpAddr;

/// All links that routes lead to, with the third byte of their IPv4 and IPv6 networks.
pub const LINKS: [(&str, u8); 4] = [("pa", 1), ("pb", 2), ("pc", 3), ("pd", 9)];

/// Prefixes of routes, and a host of one of them.
const V4: [&str; 6] =
    ["0.0.0.0/0", "10.64.0.0/16", "10.64.1.0/24", "10.64.1.128/25", "10.64.1.7/32", "192.0.3.0/25"];
const V6: [&str; 6] = [
    "::/0",
    "2001:db8:64::/48",
    "2001:db8:64:1::/64",
    "2001:db8:64:1:8000::/65",
    "2001:db8:64:1::7/128",
    "2001:db8:3::/66",
];

/// A source of random numbers (splitmix64).
pub struct Random(pub u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % bound as u64) as usize
    }

    fn one_in(&mut self, bound: usize) -> bool {
        self.below(bound) == 0
    }

    fn pick<'a, T: ?Sized>(&mut self, of: &[&'a T]) -> &'a T {
        of[self.below(of.len())]
    }
}

/// Returns the addresses of a neighbour on a link.
pub fn neighbours(number: u8, host: u8) -> [IpAddr; 2] {
    let (third, last) = (u16::from(number), u16::from(host));
    [IpAddr::from([192, 0, number, host]), IpAddr::from([0x2001, 0xdb8, third, 0, 0, 0, 0, last])]
}

/// Commands that give a link its own addresses.
pub fn addresses(link: &str, number: u8) -> [String; 2] {
    let [v4, v6] = neighbours(number, 1);
    [format!("addr add {v4}/24 dev {link}"), format!("addr add {v6}/64 dev {link}")]
}

/// Returns the addresses at the ends of all prefixes and next to them, and hosts of connected
/// networks.
pub fn probes() -> Vec<IpAddr> {
    let texts = [
        "10.63.255.255",
        "10.64.0.0",
        "10.64.0.255",
        "10.64.1.0",
        "10.64.1.6",
        "10.64.1.7",
        "10.64.1.8",
        "10.64.1.127",
        "10.64.1.128",
        "10.64.1.255",
        "10.64.2.0",
        "10.65.0.0",
        "192.0.3.77",
        "192.0.3.128",
        "198.18.0.1",
        "2001:db8:64::",
        "2001:db8:64:1::",
        "2001:db8:64:1::6",
        "2001:db8:64:1::7",
        "2001:db8:64:1::8",
        "2001:db8:64:1:7fff::1",
        "2001:db8:64:1:8000::",
        "2001:db8:64:1:ffff::1",
        "2001:db8:64:2::",
        "2001:db8:63:ffff::1",
        "2001:db8:65::",
        "2001:db8:3::4000:0:0:1",
        "2001:db8:3::77",
        "2001:db9::1",
    ];
    let mut probes: Vec<IpAddr> = texts.iter().map(|text| text.parse().unwrap()).collect();
    for (_, number) in LINKS {
        for host in [0, 1, 2, 3, 77, 255] {
            probes.extend(neighbours(number, host));
        }
    }
    probes
}

/// Returns a history of `length` commands.
pub fn history(random: &mut Random, length: usize) -> Vec<String> {
    (0..length).map(|_| step(random)).collect()
}

fn step(random: &mut Random) -> String {
    match random.below(20) {
        0..=11 => route(random),
        12..=13 => nexthop(random),
        14 => address(random),
        15..=16 => link(random),
        17 => neighbour(random),
        18 => sysctl(random),
        _ => "rule add pref 5 lookup main\nrule del pref 5".to_owned(),
    }
}

fn route(random: &mut Random) -> String {
    let v6 = random.one_in(2);
    let family = if v6 { "-6 " } else { "" };
    let prefix = random.pick(if v6 { &V6 } else { &V4 });
    let mut metric = ["", "", " metric 10", " metric 20"][random.below(4)].to_owned();
    // Few places are used, so most deletions meet a route.
    if random.one_in(4) {
        let narrower = match random.below(6) {
            0 => format!(" {}", hop(random, v6, false)),
            1 => format!(" dev {}", LINKS[random.below(LINKS.len())].0),
            2 => " proto bgp".to_owned(),
            3 => " table local".to_owned(),
            _ => String::new(),
        };
        if random.one_in(12) {
            return format!("{family}route flush root {prefix}");
        }
        return format!("route del {prefix}{metric}{narrower}").replacen(
            "route",
            &format!("{family}route"),
            1,
        );
    }
    if random.one_in(6) {
        metric += [" proto bgp", " proto static", " realm 5", " src "][random.below(3)];
    }
    if random.one_in(6) {
        metric += &format!(" mtu {}", [1300, 1400][random.below(2)]);
    }
    let verb = random.pick(&["add", "append", "append", "prepend", "replace", "change"]);
    let target = match random.below(16) {
        0 => return format!("{family}route {verb} blackhole {prefix}{metric}"),
        1 => return format!("{family}route {verb} unreachable {prefix}{metric}"),
        2 => return format!("{family}route {verb} prohibit {prefix}{metric}"),
        3 => return format!("{family}route {verb} throw {prefix}{metric}"),
        4 => {
            let table = random.pick(&["", " table main"]);
            return format!("{family}route {verb} local {prefix}{metric} dev lo{table}");
        }
        5 => {
            let table = random.pick(&[" table local", " table default", " table 77"]);
            let hop = hop(random, v6, false);
            return format!("{family}route {verb} {prefix}{metric} {hop}{table}");
        }
        6 if !v6 => {
            let hop = hop(random, v6, false);
            return format!("route {verb} {prefix}{metric} tos 0x10 {hop}");
        }
        6 => {
            let hop = hop(random, v6, false);
            let extra = random.pick(&["pref high", "pref low", "from 2001:db8:ffff::/64"]);
            return format!("-6 route {verb} {prefix}{metric} {extra} {hop}");
        }
        7..=8 => format!("nhid {}", [1, 2, 3, 11, 12, 13, 20, 21][random.below(8)]),
        9..=12 => {
            let members = 2 + random.below(2);
            let member = |random: &mut Random| {
                let hop = hop(random, v6, true);
                format!(" nexthop {hop} weight {}", [1, 2, 5][random.below(3)])
            };
            (0..members).map(|_| member(random)).collect::<String>().trim_start().to_owned()
        }
        _ => hop(random, v6, false),
    };
    format!("{family}route {verb} {prefix}{metric} {target}")
}

/// Returns a next hop: mostly by a gateway.
fn hop(random: &mut Random, v6: bool, member: bool) -> String {
    let (link, number) = LINKS[random.below(LINKS.len())];
    if random.one_in(if member { 12 } else { 6 }) {
        return format!("dev {link}");
    }
    let host = 2 + random.below(2) as u8;
    let gateway = neighbours(number, host)[usize::from(v6)];
    format!("via {gateway} dev {link}")
}

fn nexthop(random: &mut Random) -> String {
    let verb = random.pick(&["add", "replace", "replace"]);
    match random.below(7) {
        6 => format!(
            "nexthop {verb} id {} type resilient buckets 8",
            random.pick(&["20 group 1/2", "20 group 2/3", "21 group 11/12"])
        ),
        0 => format!("nexthop del id {}", [1, 2, 3, 11, 12, 13, 20, 21][random.below(8)]),
        1 => format!(
            "nexthop {verb} id 20 group {}",
            random.pick(&["1/2", "1,2/2,3", "1/2/3", "2/3"])
        ),
        2 => {
            format!("nexthop {verb} id 21 group {}", random.pick(&["11/12", "11,2/12,3", "12/13"]))
        }
        3 => format!("nexthop {verb} id 1 blackhole"),
        other => {
            let v6 = other == 4;
            let first = if v6 { 11 } else { 1 };
            let family = if v6 { "-6 " } else { "" };
            let id = first + random.below(3);
            format!("{family}nexthop {verb} id {id} {}", hop(random, v6, true))
        }
    }
}

fn address(random: &mut Random) -> String {
    let (link, number) = LINKS[random.below(LINKS.len())];
    let second = [
        "192.0.3.1/25",
        "10.64.1.1/24",
        "10.64.1.200/32",
        "2001:db8:64:1::1/64",
        "2001:db8:3::1/66",
    ];
    match random.below(8) {
        6 => format!("addr add 10.64.1.9 peer 10.64.2.9/32 dev {link}"),
        7 => {
            let address = random.pick(&["10.64.1.2/24", "2001:db8:64:1::2/64"]);
            format!("addr add {address} dev {link} noprefixroute")
        }
        0 => format!("addr flush dev {link}"),
        1 => format!("addr del {} dev {link}", random.pick(&second)),
        2 => format!("addr add {} dev {link}", random.pick(&second)),
        3 => addresses(link, number)[random.below(2)].replacen("add ", "del ", 1),
        _ => addresses(link, number)[random.below(2)].clone(),
    }
}

fn link(random: &mut Random) -> String {
    let (name, number) = LINKS[random.below(LINKS.len())];
    let restored = addresses(name, number).join("\n");
    match random.below(7) {
        6 => format!("link set {name} mtu {}", [1280, 1400, 1500][random.below(3)]),
        0 => format!("link set {name} down"),
        1 => format!("link set {name} up"),
        2 => format!("link set {name} up\n{restored}"),
        3 => format!("link set {name} down\nlink set {name} up\n{restored}"),
        other => {
            let peer = random.pick(&["pa1", "pb1", "pc1"]);
            format!("link set {peer} {}", if other == 4 { "down" } else { "up" })
        }
    }
}

fn neighbour(random: &mut Random) -> String {
    let (link, number) = LINKS[random.below(LINKS.len())];
    let host = 2 + random.below(2) as u8;
    let address = neighbours(number, host)[random.below(2)];
    if random.one_in(2) {
        return format!("neigh del {address} dev {link}");
    }
    let family = u8::from(address.is_ipv6());
    format!(
        "neigh replace {address} dev {link} lladdr 02:{family:02x}:00:00:{number:02x}:{host:02x} nud permanent"
    )
}

fn sysctl(random: &mut Random) -> String {
    let (link, _) = LINKS[random.below(LINKS.len())];
    let value = random.below(2);
    // Mostly on: otherwise there is little to compare.
    let mostly_on = usize::from(!random.one_in(4));
    match random.below(12) {
        2 => format!("sysctl ipv4/conf/all/forwarding={mostly_on}"),
        3 => format!("sysctl ipv4/conf/pin/forwarding={mostly_on}"),
        4 => format!("sysctl ipv4/ip_forward={mostly_on}"),
        5 => format!("sysctl ipv6/conf/all/forwarding={mostly_on}"),
        6 => format!("sysctl ipv6/conf/{}/forwarding={value}", random.pick(&["pin", "pa", "pb"])),
        7 => format!("sysctl ipv6/conf/{}/force_forwarding={value}", random.pick(&["pin", "all"])),
        8 => format!("sysctl ipv4/conf/{link}/forwarding={value}"),
        9 => {
            let family = random.pick(&["ipv4", "ipv6"]);
            format!("sysctl {family}/conf/all/ignore_routes_with_linkdown={value}")
        }
        0 => format!("sysctl ipv6/conf/{link}/disable_ipv6={value}"),
        1 => format!("sysctl ipv6/conf/{link}/ignore_routes_with_linkdown={value}"),
        _ => format!("sysctl ipv4/conf/{link}/ignore_routes_with_linkdown={value}"),
    }
}

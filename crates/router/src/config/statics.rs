//! The `[[route]]` and `[[neighbour]]` sections.

use super::mac::{is_unicast, parse_mac};
use super::settings::{
    NeighbourSettings, PortSettings, RouteSettings, RouteTarget, Via, port_named, port_of,
};
use super::words::{parse_kind, parse_via};
use ipnet::IpNet;
use std::collections::HashSet;
use std::net::IpAddr;
use toml::de::DeValue;
use wattline_daemon::settings::{At, Key, Reader, Section, Table, each, required};

/// A route.
const ROUTE: Section = Section::Named("[[route]]");
/// A neighbour.
const NEIGHBOUR: Section = Section::Named("[[neighbour]]");

/// Keys of the sections, in the order of the reference.
#[rustfmt::skip]
pub(super) const KEYS: &[Key] = &[
    Key::new(ROUTE, "prefix", None, "\"0.0.0.0/0\"", "an IPv4 or IPv6 prefix without host bits, such as \"198.51.100.0/24\"",
        "Destinations. Required."),
    Key::new(ROUTE, "via", None, "[\"198.51.100.2\", \"198.51.100.3\"]", "an address of the prefix's family, ADDRESS%PORT, or a list of 1 to 64 of them",
        "The neighbour, or several of which each flow uses one."),
    Key::new(ROUTE, "port", None, "\"b\"", "the name of a port",
        "The port of the neighbours in `via` (default: the port whose `addresses` in this file hold them; the\ninterfaces' own are not known when the file is read).\nWithout `via` the destinations are on the port's link themselves."),
    Key::new(ROUTE, "kind", None, "\"blackhole\"", "\"blackhole\", \"unreachable\" or \"prohibit\"",
        "Instead of `via` and `port`: discard, silently or with the ICMP error of that name."),
    Key::new(NEIGHBOUR, "address", None, "\"198.51.100.2\"", "a unicast IPv4 or IPv6 address",
        "The neighbour's address. Required."),
    Key::new(NEIGHBOUR, "mac", None, "\"02:00:00:00:00:02\"", "a unicast Ethernet address such as \"02:00:00:00:00:02\"",
        "The neighbour's Ethernet address. Required."),
    Key::new(NEIGHBOUR, "port", None, "\"b\"", "the name of a port",
        "The port it is on (default: the port whose prefix holds the address)."),
];

/// Reads all routes.
pub(super) fn read_routes(
    reader: &mut Reader,
    root: &Table,
    ports: &[PortSettings],
) -> Vec<RouteSettings> {
    let mut known = HashSet::new();
    each(reader, root, ROUTE, "route")
        .iter()
        .filter_map(|table| read_route(reader, table, ports, &mut known))
        .collect()
}

/// Reads all neighbours.
pub(super) fn read_neighbours(
    reader: &mut Reader,
    root: &Table,
    ports: &[PortSettings],
) -> Vec<NeighbourSettings> {
    let mut known = HashSet::new();
    each(reader, root, NEIGHBOUR, "neighbour")
        .iter()
        .filter_map(|table| read_neighbour(reader, table, ports, &mut known))
        .collect()
}

fn read_route(
    reader: &mut Reader,
    table: &Table,
    ports: &[PortSettings],
    known_prefixes: &mut HashSet<IpNet>,
) -> Option<RouteSettings> {
    reader.refuse_unknown(table);
    let exact = |text: &str| text.parse::<IpNet>().ok().filter(|net| net.addr() == net.network());
    let prefix = required(reader, table, "prefix", exact);
    if let Some(prefix) = prefix.as_ref().filter(|prefix| !known_prefixes.insert(prefix.value)) {
        let message =
            "has a route already: for several neighbours, list them in its via".to_owned();
        reader.problem(ROUTE, "prefix", &prefix.span, message);
    }
    let port = read_port_name(reader, table, ports);
    let via = reader.list(table, "via", true, |value| value.as_str().and_then(parse_via));
    let kind = reader.parsed(table, "kind", parse_kind);
    if table.has("kind") {
        if table.has("via") || table.has("port") {
            let message = "kind stands alone: leave out via and port".to_owned();
            reader.problem_in(table, "kind", message);
        }
        return Some(RouteSettings { prefix: prefix?.value, target: kind?.value });
    }
    if !table.has("via") {
        if !table.has("port") {
            let message = "needs via, port or kind".to_owned();
            reader.problem_in(table, "", message);
        }
        return Some(RouteSettings { prefix: prefix?.value, target: RouteTarget::OnLink(port?) });
    }
    let via = via?;
    if via.value.is_empty() || via.value.len() > 64 {
        reader.not_allowed(ROUTE, "via", &via.span);
    }
    let mut gateways = Vec::with_capacity(via.value.len());
    for At { value: (gateway, own_port), span } in via.value {
        let of_family = |prefix: &At<IpNet>| gateway.is_ipv4() == prefix.value.addr().is_ipv4();
        if !prefix.as_ref().is_none_or(of_family) {
            let message = "is of the other family than the prefix".to_owned();
            reader.problem(ROUTE, "via", &span, message);
            continue;
        }
        if ports.iter().any(|port| port.addresses.iter().any(|net| net.addr() == gateway)) {
            let message = "is this router's own address: name a neighbour's".to_owned();
            reader.problem(ROUTE, "via", &span, message);
            continue;
        }
        let named = own_port.map(|name| port_named(ports, &name));
        match named.unwrap_or_else(|| port.or_else(|| port_of(ports, gateway))) {
            Some(port) => gateways.push(Via { gateway, port }),
            None if named.is_some() => reader.problem(ROUTE, "via", &span, known(ports)),
            None if table.has("port") => {}
            None => {
                let message = "is in no port's addresses: say which port with `port`".to_owned();
                reader.problem(ROUTE, "via", &span, message);
            }
        }
    }
    Some(RouteSettings { prefix: prefix?.value, target: RouteTarget::Via(gateways) })
}

fn read_neighbour(
    reader: &mut Reader,
    table: &Table,
    ports: &[PortSettings],
    known_neighbours: &mut HashSet<(IpAddr, usize)>,
) -> Option<NeighbourSettings> {
    reader.refuse_unknown(table);
    let unicast = |text: &str| {
        let address: IpAddr = text.parse().ok()?;
        (!address.is_multicast() && !address.is_unspecified()).then_some(address)
    };
    let address = required(reader, table, "address", unicast);
    let mac = required(reader, table, "mac", |text| parse_mac(text).filter(|mac| is_unicast(*mac)));
    let named = read_port_name(reader, table, ports);
    let address = address?;
    let port = named.or_else(|| port_of(ports, address.value));
    if port.is_none() && !table.has("port") {
        let message = "is in no port's addresses: say which port with `port`".to_owned();
        reader.problem(NEIGHBOUR, "address", &address.span, message);
    }
    if port.is_some_and(|port| !known_neighbours.insert((address.value, port))) {
        let message = "is given twice: a neighbour has one Ethernet address".to_owned();
        reader.problem(NEIGHBOUR, "address", &address.span, message);
    }
    Some(NeighbourSettings { address: address.value, mac: mac?.value, port: port? })
}

/// Returns the port that the key `port` names.
pub fn read_port_name(reader: &mut Reader, table: &Table, ports: &[PortSettings]) -> Option<usize> {
    let name = reader.string(table, "port")?;
    let port = port_named(ports, &name.value);
    if port.is_none() {
        reader.problem(table.section, "port", &name.span, known(ports));
    }
    port
}

/// Returns the indices of the ports that are listed under `key`, each with its place in the file.
/// Unknown names are reported and left out.
pub fn read_port_names(
    reader: &mut Reader,
    table: &Table,
    key: &'static str,
    ports: &[PortSettings],
) -> Vec<At<usize>> {
    let text = |value: &DeValue| value.as_str().map(str::to_owned);
    let names = reader.list(table, key, false, text).map_or_else(Vec::new, |names| names.value);
    let mut found = Vec::new();
    for name in names {
        match port_named(ports, &name.value) {
            Some(port) => found.push(At { value: port, span: name.span }),
            None => reader.problem(table.section, key, &name.span, known(ports)),
        }
    }
    found
}

/// Returns the message for a port that does not exist.
fn known(ports: &[PortSettings]) -> String {
    /// Most names that a message lists; there may be a message for each line of the file.
    const MOST_NAMES: usize = 32;
    // Missing and duplicate names are reported elsewhere.
    let mut names: Vec<&str> = Vec::new();
    for name in ports.iter().map(|port| port.name.as_str()).filter(|name| !name.is_empty()) {
        if names.len() > MOST_NAMES {
            break;
        }
        if !names.contains(&name) {
            names.push(name);
        }
    }
    match names.len() {
        0 => "is not a port: there is none; name one in [[port]]".to_owned(),
        1..=MOST_NAMES => format!("is not a port: the ports are {}", names.join(", ")),
        _ => format!("is none of the {} ports", ports.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Config;
    use std::fmt::Write as _;
    use std::time::{Duration, Instant};

    /// Checks that compared each table with all others took minutes for this many tables.
    #[test]
    fn time_to_check_grows_with_the_length_of_the_file() {
        let mut right = String::new();
        for port in 0..20_000 {
            let (high, low) = (port >> 8, port & 255);
            let _ = writeln!(right, "[[port]]\nname = \"p{port}\"\ninterface = \"e{port}\"");
            let _ = writeln!(right, "addresses = [\"10.{high}.{low}.1/24\"]");
        }
        let mut wrong = right.replace("interface =", "interfase =");
        for route in 0..20_000 {
            let (high, low) = (route >> 8, route & 255);
            let _ =
                writeln!(wrong, "[[route]]\nprefix = \"11.{high}.{low}.0/24\"\nport = \"none\"");
        }
        let same = "[[port]]\nname = \"a\"\ninterface = \"e\"\n".repeat(100_000);
        let unknown: String = (0..100_000).map(|key| format!("k{key} = 1\n")).collect();
        let begun = Instant::now();
        assert!(Config::parse(&right, "right").is_ok());
        for text in [&wrong, &same, &unknown] {
            let problems = Config::parse(text, "wrong").unwrap_err();
            assert!(problems.list.len() >= 40_000, "{}", problems.list.len());
            let last = problems.list.last().unwrap().line;
            assert!(last <= text.lines().count() && last + 5 > text.lines().count(), "{last}");
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
    }
}

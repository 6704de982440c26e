//! The `[[port]]` sections.

use super::mac::{is_unicast, parse_mac};
use super::settings::{PortKind, PortSettings};
use super::words::{parse_clamp, parse_steer};
use ipnet::IpNet;
use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Component, PathBuf};
use toml::de::DeValue;
use wattline_daemon::settings::{
    At, Key, Reader, Section, Table, each, parse_any_interface, parse_name, required,
};
use wattline_linux::netlink::interface_name;

/// The section.
pub(super) const SECTION: Section = Section::Named("[[port]]");
/// The value of `capture`.
pub(super) const CAPTURE: Section = Section::Named("[[port]] capture");

/// Keys of the section, in the order of the reference.
#[rustfmt::skip]
pub(super) const KEYS: &[Key] = &[
    Key::new(SECTION, "name", None, "\"a\"", "a name of letters, digits, '-', '_' and '.', unique among the ports",
        "The port's name in this file and in all output. Required."),
    Key::new(SECTION, "interface", None, "\"eth0\"", "the name of an interface, or an alternative one, 1 to 127 bytes without '/' or space",
        "The Linux interface whose traffic is taken over, through AF_XDP; it may be a bond, not a member of one."),
    Key::new(SECTION, "capture", None, "{ read = \"in.pcap\", write = \"out.pcap\", paced = false }", "a table with read, write or both, paced and original_length",
        "Instead of an interface: capture files (pcap or pcapng). The run ends when all are read."),
    Key::new(CAPTURE, "read", None, "\"in.pcap\"", "the path of a file, relative to this one",
        "The frames that the port receives."),
    Key::new(CAPTURE, "write", None, "\"out.pcap\"", "the path of a file, relative to this one",
        "The frames that the port sends. An existing file is replaced."),
    Key::new(CAPTURE, "paced", Some("false"), "true", "true or false",
        "Whether frames arrive at the times of their timestamps, or as fast as they can be forwarded."),
    Key::new(CAPTURE, "original_length", Some("false"), "true", "true or false",
        "Whether packets that a snap length cut are padded with zeros to their original length. Without this they\narrive as captured, and most are dropped as \"bad-length\"."),
    Key::new(SECTION, "mac", None, "\"02:00:00:00:00:01\"", "a unicast Ethernet address such as \"02:00:00:00:00:01\"",
        "The Ethernet address of a port without an interface; default 02:00:00:00 and the port's number from 1.\nAn interface has its own."),
    Key::new(SECTION, "addresses", Some("[]"), "[\"192.0.2.1/24\", \"2001:db8::1/64\"]", "a list of addresses with prefix lengths, such as \"192.0.2.1/24\"",
        "The port's own addresses; their prefixes are on its link. With kernel_routes the interface's own are added."),
    Key::whole(SECTION, "mtu", None, "1500", 68..=9000,
        "Largest IP packet in bytes. Default: 1500 without an interface; the interface's own, which it may only lower."),
    Key::new(SECTION, "promiscuous", Some("false"), "true", "true or false",
        "Route frames to all Ethernet addresses."),
    Key::new(SECTION, "clamp_mss", None, "\"mtu\"", "\"mtu\", or a number from 88 to 65495",
        "Largest segments, in bytes, of TCP connections through the port, in both directions: a SYN that announces more is\nchanged. \"mtu\": what fits the MTU of port and route. SYNs that are left to the kernel are unchanged."),
    Key::new(SECTION, "steer", None, "\"sender/uplink\"", "INTERFACE or NAMESPACE/INTERFACE, the sender's end of a veth pair",
        "On platform \"scale\": the sender's end of the veth pair whose near end is `interface`, with as many\ntransmit queues as there are workers. An indirection table put there spreads packets over the queues, and the\ngovernor rewrites it so that cores come and go. Without it on any port all cores stay active."),
];

/// MTU of a port without an interface.
const DEFAULT_MTU: u16 = 1500;
/// Smallest MTU of an IPv6 link.
const IPV6_MTU: u16 = 1280;

/// Values that only one port may have.
#[derive(Default)]
struct Taken {
    names: HashSet<String>,
    interfaces: HashSet<String>,
    addresses: HashSet<IpAddr>,
    read: HashSet<PathBuf>,
    written: HashSet<PathBuf>,
}

/// Reads all of them.
pub(super) fn read(reader: &mut Reader, root: &Table) -> Vec<PortSettings> {
    let tables = each(reader, root, SECTION, "port");
    if tables.is_empty() && !root.has("port") {
        let message = "a router needs at least one [[port]]".to_owned();
        reader.problem_in(root, "port", message);
    }
    let mut taken = Taken::default();
    let mut ports = Vec::new();
    for table in &tables {
        reader.refuse_unknown(table);
        let name = required(reader, table, "name", parse_name);
        if let Some(name) = name.as_ref().filter(|name| !taken.names.insert(name.value.clone())) {
            let message = "another port has this name already".to_owned();
            reader.problem(SECTION, "name", &name.span, message);
        }
        let kind = read_port_kind(reader, table, &mut taken);
        let mac =
            reader.parsed(table, "mac", |text| parse_mac(text).filter(|mac| is_unicast(*mac)));
        let is_interface = kind.as_ref().is_some_and(|kind| kind.taken_over().is_some());
        if let (Some(mac), true) = (&mac, is_interface) {
            let message = "an interface has its own: leave this out".to_owned();
            reader.problem(SECTION, "mac", &mac.span, message);
        }
        let mtu = reader.number(table, "mtu").map(|mtu| mtu.value as u16);
        let addresses = read_addresses(reader, table, mtu, &mut taken);
        ports.push(PortSettings {
            // A port with a wrong name still counts, so that references to it are not reported too.
            name: name.map_or_else(String::new, |name| name.value),
            kind: kind.unwrap_or(PortKind::Interface(String::new())),
            mac: mac.map(|mac| mac.value),
            addresses,
            mtu: mtu.or((!is_interface).then_some(DEFAULT_MTU)),
            promiscuous: reader.flag(table, "promiscuous"),
            clamp_mss: reader.value(table, "clamp_mss", parse_clamp).map(|clamp| clamp.value),
            steer: reader.parsed(table, "steer", parse_steer).map(|steer| steer.value),
        });
    }
    ports
}

/// Gives each port the place of the `present` port of the same name. Other ports get vacant places
/// or places behind all.
pub(super) fn place(ports: Vec<PortSettings>, present: &[PortSettings]) -> Vec<PortSettings> {
    let mut placed: Vec<PortSettings> = present.iter().map(|_| PortSettings::vacant()).collect();
    let mut new = Vec::new();
    let mut known = HashMap::new();
    for (place, port) in present.iter().enumerate().filter(|(_, port)| !port.is_vacant()) {
        known.entry(port.name.as_str()).or_insert(place);
    }
    for port in ports {
        // If two ports have the same name, which is a mistake, the second gets a new place.
        let place = known.get(port.name.as_str()).copied();
        match place.filter(|place| placed[*place].is_vacant()) {
            Some(place) => placed[place] = port,
            None => new.push(port),
        }
    }
    let vacant = (0..present.len()).filter(|place| present[*place].is_vacant());
    let mut vacant = vacant.collect::<Vec<_>>().into_iter();
    for port in new {
        match vacant.next() {
            Some(place) => placed[place] = port,
            None => placed.push(port),
        }
    }
    placed
}

fn read_port_kind(reader: &mut Reader, table: &Table, taken: &mut Taken) -> Option<PortKind> {
    let is_interface = table.has("interface");
    if is_interface == table.has("capture") {
        let message = "needs either interface or capture".to_owned();
        reader.problem_in(table, "", message);
        return None;
    }
    if is_interface {
        return Some(PortKind::Interface(read_interface(reader, table, taken)?));
    }
    let (key, value) = table.table.iter().find(|(key, _)| key.get_ref() == "capture")?;
    let DeValue::Table(inner) = value.get_ref() else {
        reader.not_allowed(SECTION, "capture", &value.span());
        return None;
    };
    let capture = Table { section: CAPTURE, table: inner, span: key.span() };
    reader.refuse_unknown(&capture);
    if !capture.has("read") && !capture.has("write") {
        reader.not_allowed(SECTION, "capture", &value.span());
    }
    Some(PortKind::Capture {
        read: read_path(reader, &capture, "read", taken),
        write: read_path(reader, &capture, "write", taken),
        paced: reader.flag(&capture, "paced"),
        original_length: reader.flag(&capture, "original_length"),
    })
}

fn read_interface(reader: &mut Reader, table: &Table, taken: &mut Taken) -> Option<String> {
    let mut interface = reader.parsed(table, "interface", parse_any_interface)?;
    // An interface that does not exist (yet) keeps the configured name.
    if let Ok(name) = interface_name(&interface.value) {
        interface.value = name;
    }
    if !taken.interfaces.insert(interface.value.clone()) {
        let message = "another port has this interface already".to_owned();
        reader.problem(SECTION, "interface", &interface.span, message);
    }
    Some(interface.value)
}

/// Reads the path of a capture. A written file may not be used by another port: neither would
/// survive.
fn read_path(
    reader: &mut Reader,
    capture: &Table,
    key: &str,
    taken: &mut Taken,
) -> Option<PathBuf> {
    let path = |text: &str| (!text.is_empty()).then(|| PathBuf::from(text));
    let path = reader.parsed(capture, key, path)?;
    // So that "./in.pcap" is "in.pcap".
    let plain: PathBuf = path.value.components().filter(|it| *it != Component::CurDir).collect();
    let message = if taken.written.contains(&plain) {
        Some("is written already: give each its own file")
    } else if key == "write" && taken.read.contains(&plain) {
        Some("is read already, and would be overwritten: name another file")
    } else {
        None
    };
    if let Some(message) = message {
        reader.problem(CAPTURE, key, &path.span, message.to_owned());
    }
    let list = if key == "write" { &mut taken.written } else { &mut taken.read };
    list.insert(plain);
    Some(path.value)
}

/// Reads the port's own addresses.
fn read_addresses(
    reader: &mut Reader,
    table: &Table,
    mtu: Option<u16>,
    taken: &mut Taken,
) -> Vec<IpNet> {
    let address = |value: &DeValue| value.as_str().and_then(|text| text.parse().ok());
    let list = reader.list::<IpNet>(table, "addresses", false, address);
    let mut addresses = Vec::new();
    for At { value, span } in list.into_iter().flat_map(|list| list.value) {
        let message = if !is_of_a_host(value.addr()) {
            "must be the address of a host: neither multicast, loopback nor unspecified".to_owned()
        } else if !taken.addresses.insert(value.addr()) {
            "is given twice: an address is on one port".to_owned()
        } else if value.addr().is_ipv6() && mtu.is_some_and(|mtu| mtu < IPV6_MTU) {
            format!("needs an mtu of at least {IPV6_MTU} (RFC 8200 section 5)")
        } else {
            addresses.push(value);
            continue;
        };
        reader.problem(SECTION, "addresses", &span, message);
    }
    addresses
}

fn is_of_a_host(address: IpAddr) -> bool {
    let broadcast = address == IpAddr::V4(Ipv4Addr::BROADCAST);
    !(address.is_multicast() || address.is_loopback() || address.is_unspecified() || broadcast)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(name: &str) -> PortSettings {
        let kind = PortKind::Interface(name.to_owned());
        PortSettings { name: name.to_owned(), kind, ..PortSettings::vacant() }
    }

    fn names(ports: &[PortSettings]) -> Vec<&str> {
        ports.iter().map(|port| port.name.as_str()).collect()
    }

    #[test]
    fn port_keeps_its_place_and_a_new_port_takes_a_place_that_was_vacant_before() {
        let of = |names: &[&str]| names.iter().map(|name| port(name)).collect::<Vec<_>>();
        assert_eq!(names(&place(of(&["a", "b"]), &[])), ["a", "b"]);
        let present = place(of(&["c", "b", "n"]), &of(&["a", "b", "c"]));
        assert_eq!(names(&present), ["", "b", "c", "n"]);
        assert!(present[0].is_vacant());
        let next = place(of(&["x", "y", "b", "n"]), &present);
        assert_eq!(names(&next), ["x", "b", "", "n", "y"]);
        assert_eq!(names(&place(of(&["b", "b"]), &present)), ["b", "b", "", ""]);
    }
}

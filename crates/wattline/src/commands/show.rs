//! `wattline show`: state of a running router.

use super::ask::{Daemon, print_json};
use super::stats;
use super::top::bits;
use crate::exit::ExitError;
use crate::output;
use ipnet::IpNet;
use std::io::{self, BufWriter, Write};
use std::net::IpAddr;
use wattline_daemon::socket::{Request, Topic};
use wattline_report::columns::Columns;
use wattline_status::applications::{AclRule, AclTable, SaTable, Unmatched};
use wattline_status::{
    ConfigSetting, ConfigTable, Document, FibEntry, Flow, FlowTable, NeighbourEntry,
    NeighbourTable, NextHopView, PortState, PortTable, RouteEntry, RouteTable, VersionEntry,
};

/// Subject, and the number of entries.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    subject: Subject,
    #[command(flatten)]
    daemon: Daemon,
    /// Most entries to show.
    #[arg(long, value_name = "N", default_value_t = 1000, global = true)]
    most: u32,
}

/// Subjects to show.
#[derive(Debug, Clone, Copy, clap::Subcommand)]
enum Subject {
    /// Ports: interface, addresses, state, and how they forward, with the reason.
    Ports,
    /// Routes; the selected ones are marked with *.
    Routes(Within),
    /// Neighbours.
    #[command(alias = "neighbors")]
    Neighbours(Within),
    /// Forwarding of packets to an address, and the routes that contain it.
    Fib {
        /// The address.
        address: IpAddr,
    },
    /// The latest flow records, newest first (needs [flow_records]).
    Flows(Within),
    /// Security associations (needs [ipsec]).
    Sas,
    /// Rules of access lists, with the packets that they matched (needs [[acl]]).
    Acl,
    /// Build, configuration file and kernel of the daemon; also of a governor.
    Version,
    /// Configuration in force, with defaults, and the keys of the file that wait for a restart;
    /// also of a governor.
    Config,
}

/// Restriction to a prefix.
#[derive(Debug, Clone, Copy, clap::Args)]
struct Within {
    /// Only entries within this prefix; for an address, the routes that contain it.
    #[arg(value_name = "PREFIX", value_parser = prefix)]
    within: Option<IpNet>,
}

/// Parses a prefix; an address is a prefix of itself alone.
pub fn prefix(text: &str) -> Result<IpNet, String> {
    let address = || text.parse::<IpAddr>().map(IpNet::from);
    text.parse::<IpNet>().map(|net| net.trunc()).or_else(|_| address()).map_err(|_| {
        "must be a prefix or an address such as 198.51.100.0/24 or 2001:db8::1".to_owned()
    })
}

/// Runs the command.
pub fn run(args: &Args, json: bool) -> Result<(), ExitError> {
    let (topic, within) = match args.subject {
        Subject::Ports => (Topic::Ports, None),
        Subject::Routes(Within { within }) => (Topic::Routes, within),
        Subject::Neighbours(Within { within }) => (Topic::Neighbours, within),
        Subject::Fib { address } => (Topic::Fib, Some(address.into())),
        Subject::Flows(Within { within }) => (Topic::Flows, within),
        Subject::Sas => (Topic::Sas, None),
        Subject::Acl => (Topic::Acl, None),
        Subject::Version => (Topic::Version, None),
        Subject::Config => (Topic::Config, None),
    };
    let request = Request::Show { topic, within, most: args.most };
    let (daemon, mut out) = (&args.daemon, BufWriter::new(output::stdout()));
    let out = &mut out;
    match topic {
        Topic::Ports => shown(&daemon.ask(request)?, json, out, ports),
        Topic::Routes => shown(&daemon.ask(request)?, json, out, route_table),
        Topic::Neighbours => shown(&daemon.ask(request)?, json, out, neighbours),
        Topic::Fib => shown(&daemon.ask(request)?, json, out, fib),
        Topic::Flows => shown(&daemon.ask(request)?, json, out, flows),
        Topic::Sas => shown(&daemon.ask(request)?, json, out, sas),
        Topic::Acl => shown(&daemon.ask(request)?, json, out, acl),
        Topic::Version => shown(&daemon.ask(request)?, json, out, version),
        Topic::Config => shown(&daemon.ask(request)?, json, out, config),
    }?;
    Ok(out.flush()?)
}

/// Prints a document, as JSON or by `print`.
fn shown<T: Document, W: Write>(
    document: &T,
    json: bool,
    out: &mut W,
    print: fn(&T, &mut W) -> io::Result<()>,
) -> io::Result<()> {
    if json { print_json(out, document) } else { print(document, out) }
}

fn route_table(answer: &RouteTable, out: &mut impl Write) -> io::Result<()> {
    routes(&answer.routes, out)?;
    rest(answer.routes.iter().map(|it| &it.prefix), answer.total, "prefixes", out)
}

fn neighbours(answer: &NeighbourTable, out: &mut impl Write) -> io::Result<()> {
    let line = |it: &NeighbourEntry| {
        vec![
            it.address.to_string(),
            text(&it.interface),
            text(&it.port),
            text(&it.mac),
            it.state.clone(),
            it.source.clone(),
        ]
    };
    let head = ["address", "interface", "port", "ethernet", "state", "from"];
    table(&head, answer.neighbours.iter().map(line), out)?;
    rest(answer.neighbours.iter().map(|it| &it.address), answer.total, "neighbours", out)
}

fn fib(answer: &FibEntry, out: &mut impl Write) -> io::Result<()> {
    let FibEntry { address, prefix, next_hop, .. } = answer;
    let because = answer.because.as_ref().map_or_else(String::new, |why| format!(" ({why})"));
    match prefix {
        Some(prefix) => writeln!(out, "{address} by {prefix}: {}{because}", describe(next_hop))?,
        None => writeln!(out, "{address}: {}{because}", describe(next_hop))?,
    }
    for member in &next_hop.members {
        writeln!(out, "  {} places: {}", member.places, describe(&member.next_hop))?;
    }
    for it in &answer.exceptions {
        writeln!(out, "  except for packets from {}: {}", it.port, it.why)?;
    }
    for policy in &answer.policies {
        writeln!(out, "  by IPsec: {policy}")?;
    }
    if prefix.is_none() {
        return Ok(());
    }
    writeln!(out)?;
    routes(&answer.routes, out)
}

fn flows(answer: &FlowTable, out: &mut impl Write) -> io::Result<()> {
    let line = |it: &Flow| {
        vec![
            format!("{} {}", it.source, it.source_port),
            format!("{} {}", it.destination, it.destination_port),
            it.protocol.to_string(),
            text(&it.port_in),
            text(&it.port_out),
            it.packets.to_string(),
            it.bytes.to_string(),
        ]
    };
    let head = ["source", "destination", "protocol", "in", "out", "packets", "bytes"];
    table(&head, answer.flows.iter().map(line), out)?;
    writeln!(out, "{} flows have no record yet", answer.flows_without_a_record_yet)
}

fn sas(answer: &SaTable, out: &mut impl Write) -> io::Result<()> {
    stats::print_ipsec(&answer.ipsec, out)
}

fn ports(answer: &PortTable, out: &mut impl Write) -> io::Result<()> {
    for port in &answer.ports {
        writeln!(out, "{}: {}", port.name, port.state.map_or(NONE, PortState::name))?;
        let vlans: Vec<String> = port.vlans.iter().map(u16::to_string).collect();
        for (key, value) in [
            ("interface", text(&port.interface)),
            ("ethernet", port.mac.clone()),
            ("mtu", text(&port.mtu)),
            ("addresses", port.addresses.join(", ")),
            ("vlans", vlans.join(", ")),
            ("how", port.mode.clone()),
            ("why", text(&port.reason)),
            ("checks", port.checks.join(", ")),
            ("by workers", text(&port.by_workers_because)),
            ("in now", bits(port.received_bits_per_second)),
            ("out now", bits(port.transmitted_bits_per_second)),
        ] {
            if !value.is_empty() && value != NONE {
                writeln!(out, "  {key:<12} {value}")?;
            }
        }
    }
    stats::print_needs_restart(&answer.needs_restart, out)
}

fn acl(AclTable { acl, .. }: &AclTable, out: &mut impl Write) -> io::Result<()> {
    let all = |values: &[String]| {
        if values.is_empty() { "all".to_owned() } else { values.join(",") }
    };
    let line = |it: &AclRule| {
        let protocols: Vec<String> = it.protocol.iter().copied().map(protocol).collect();
        vec![
            it.name.clone(),
            all(&it.on),
            it.action.clone(),
            all(&protocols),
            all(&it.source),
            all(&it.source_ports),
            all(&it.destination),
            all(&it.destination_ports),
            it.packets.to_string(),
            it.bytes.to_string(),
        ]
    };
    let head =
        ["rule", "on", "action", "protocol", "from", "ports", "to", "ports", "packets", "bytes"];
    table(&head, acl.rules.iter().map(line), out)?;
    rest(acl.rules.iter().map(|it| &it.name), acl.total, "rules", out)?;
    for Unmatched { port, packets, .. } in &acl.unmatched {
        writeln!(out, "port {port}: {packets} packets matched no rule and were dropped")?;
    }
    Ok(())
}

fn version(answer: &VersionEntry, out: &mut impl Write) -> io::Result<()> {
    let file = if answer.file.is_empty() { NONE } else { &answer.file };
    writeln!(out, "wattline {}", answer.build)?;
    writeln!(out, "  {:<12} {file}", "configuration")?;
    writeln!(out, "  {:<12} {}", "process", answer.process)?;
    writeln!(out, "  {:<12} {:.0} s", "running for", answer.uptime_seconds)?;
    writeln!(out, "  {:<12} Linux {}", "kernel", answer.kernel)?;
    stats::print_needs_restart(&answer.needs_restart, out)
}

fn config(answer: &ConfigTable, out: &mut impl Write) -> io::Result<()> {
    let file = if answer.file.is_empty() { "no file" } else { &answer.file };
    writeln!(out, "# in force, from {file}")?;
    settings(&answer.settings, "", out)?;
    if !answer.waiting.is_empty() {
        writeln!(out, "\n# in the file, and not in force before a restart")?;
        settings(&answer.waiting, "# ", out)?;
    }
    if !answer.needs_restart.is_empty() {
        writeln!(out, "\n# not in force before a restart: {}", answer.needs_restart.join(", "))?;
    }
    Ok(())
}

/// Prints settings as TOML, each line behind `begin`.
fn settings(settings: &[ConfigSetting], begin: &str, out: &mut impl Write) -> io::Result<()> {
    let mut section = (String::new(), 0);
    for it in settings {
        if section != (it.section.clone(), it.place) {
            section = (it.section.clone(), it.place);
            writeln!(out, "\n{begin}{}", it.section)?;
        }
        let default = if it.is_default { "  # default" } else { "" };
        writeln!(out, "{begin}{} = {}{default}", it.key, it.value)?;
    }
    Ok(())
}

/// Returns a protocol as `[[acl]]` names it; its number if it has no name there.
fn protocol(number: u8) -> String {
    #[cfg(feature = "filter")]
    let name = wattline_filter::acl::protocol_name(number);
    #[cfg(not(feature = "filter"))]
    let name = None::<&str>;
    name.map_or_else(|| number.to_string(), str::to_owned)
}

fn routes(routes: &[RouteEntry], out: &mut impl Write) -> io::Result<()> {
    let line = |it: &RouteEntry| {
        let ways = it.via.iter().map(|hop| {
            let gateway = hop.gateway.map(|it| format!("{it} ")).unwrap_or_default();
            let weight = match hop.weight {
                weight @ 2.. => format!(" weight {weight}"),
                _ => String::new(),
            };
            let mtu = hop.mtu.map(|mtu| format!(" mtu {mtu}")).unwrap_or_default();
            format!("{gateway}dev {}{weight}{mtu}", text(&hop.interface))
        });
        let ways = ways.collect::<Vec<_>>().join(", ");
        let to = if it.kind == "unicast" { ways } else { it.kind.clone() };
        let mark = if it.in_use { "*" } else { "" };
        vec![
            mark.to_owned(),
            it.prefix.clone(),
            to,
            it.metric.to_string(),
            text(&it.nexthop),
            it.source.clone(),
        ]
    };
    table(&["", "prefix", "to", "metric", "nhid", "from"], routes.iter().map(line), out)
}

/// Describes a next hop in words.
fn describe(next_hop: &NextHopView) -> String {
    let mut words = next_hop.action.clone();
    for (word, value) in [
        ("port", next_hop.port.clone()),
        ("to", next_hop.to.clone()),
        ("gateway", next_hop.gateway.map(|it| it.to_string())),
        ("vlan", next_hop.vlan.map(|it| it.to_string())),
        ("mtu", next_hop.mtu.map(|it| it.to_string())),
    ] {
        if let Some(value) = value {
            words += &format!(", {word} {value}");
        }
    }
    words
}

/// Prints the number of entries that were not shown.
fn rest<T: PartialEq>(
    shown: impl Iterator<Item = T>,
    total: usize,
    what: &str,
    out: &mut impl Write,
) -> io::Result<()> {
    let mut keys: Vec<T> = shown.collect();
    keys.dedup();
    if total > keys.len() {
        writeln!(out, "{} of {total} {what}: name a PREFIX or --most N", keys.len())?;
    }
    Ok(())
}

/// Stands for an absent value.
const NONE: &str = "-";

fn text(value: &Option<impl ToString>) -> String {
    value.as_ref().map_or_else(|| NONE.to_owned(), ToString::to_string)
}

fn table(
    head: &[&str],
    lines: impl Iterator<Item = Vec<String>>,
    out: &mut impl Write,
) -> io::Result<()> {
    write!(out, "{}", Columns::of(head.iter().copied(), head.len(), lines))
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattline_status::applications::AclStats;
    use wattline_status::{Contract, Exception, GroupMember, RouteHop};

    fn printed<T>(answer: &T, print: fn(&T, &mut Vec<u8>) -> io::Result<()>) -> String {
        let mut out = Vec::new();
        print(answer, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    fn answer(address: &str, prefix: Option<&str>, next_hop: NextHopView) -> FibEntry {
        FibEntry {
            contract: Contract::default(),
            address: address.parse().unwrap(),
            prefix: prefix.map(str::to_owned),
            next_hop,
            because: None,
            policies: Vec::new(),
            routes: Vec::new(),
            exceptions: Vec::new(),
        }
    }

    fn action(action: &str) -> NextHopView {
        NextHopView { action: action.to_owned(), ..NextHopView::default() }
    }

    #[test]
    fn routes_are_a_table_that_counts_omitted_entries() {
        let hop = RouteHop {
            gateway: Some("192.0.2.2".parse().unwrap()),
            interface: Some("eth0".to_owned()),
            weight: 3,
            mtu: Some(1300),
            ..RouteHop::default()
        };
        let route = RouteEntry {
            prefix: "10.0.0.0/8".to_owned(),
            kind: "unicast".to_owned(),
            via: vec![hop],
            metric: 5,
            source: "kernel".to_owned(),
            in_use: true,
            ..RouteEntry::default()
        };
        let routes = RouteTable { routes: vec![route], total: 7, ..RouteTable::default() };
        let text = printed(&routes, route_table);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[0].split_whitespace().collect::<Vec<_>>(),
            ["prefix", "to", "metric", "nhid", "from"]
        );
        assert!(
            lines[1].starts_with("*  10.0.0.0/8  192.0.2.2 dev eth0 weight 3 mtu 1300"),
            "{text}"
        );
        assert_eq!(lines[2], "1 of 7 prefixes: name a PREFIX or --most N");
    }

    #[test]
    fn path_to_an_address_is_described() {
        let member = |places| GroupMember { places, next_hop: action("discard") };
        let next_hop =
            NextHopView { members: vec![member(1), member(3)], ..action("one of several by flow") };
        let (port, why) = ("a".to_owned(), "the port is left: a rule".to_owned());
        let mut answer = answer("10.1.1.1", Some("10.0.0.0/8"), next_hop);
        answer.exceptions = vec![Exception { port, why }];
        let text = printed(&answer, fib);
        assert!(text.starts_with("10.1.1.1 by 10.0.0.0/8: one of several by flow\n"), "{text}");
        assert!(text.contains("  3 places: discard\n"), "{text}");
        assert!(text.contains("except for packets from a: the port is left: a rule\n"), "{text}");
    }

    #[test]
    fn address_without_a_route_takes_one_line() {
        let answer = answer("198.51.100.7", None, action("no route"));
        assert_eq!(printed(&answer, fib), "198.51.100.7: no route\n");
    }

    #[test]
    fn reason_and_policies_of_an_address_are_shown() {
        let mut answer = answer("224.0.0.5", None, action("leave to the kernel"));
        answer.because = Some("multicast address".to_owned());
        answer.policies = vec!["packets from 10.1.0.0/16 to 224.0.0.0/4 are dropped".to_owned()];
        let text = printed(&answer, fib);
        assert!(text.starts_with("224.0.0.5: leave to the kernel (multicast address)\n"), "{text}");
        assert!(text.contains("  by IPsec: packets from 10.1.0.0/16"), "{text}");
    }

    #[test]
    fn configuration_is_shown_as_toml_with_pending_settings() {
        let setting = |section: &str, place, key: &str, value: &str, is_default| ConfigSetting {
            section: section.to_owned(),
            place,
            key: key.to_owned(),
            value: value.to_owned(),
            is_default,
        };
        let answer = ConfigTable {
            file: "r.toml".to_owned(),
            settings: vec![
                setting("", 0, "routes_file", "\"x\"", false),
                setting("[[port]]", 0, "name", "\"a\"", false),
                setting("[[port]]", 1, "name", "\"b\"", false),
                setting("[router]", 0, "workers", "1", true),
            ],
            waiting: vec![setting("[router]", 0, "workers", "2", false)],
            needs_restart: vec!["[router] workers".to_owned()],
            ..ConfigTable::default()
        };
        let expected = "# in force, from r.toml\nroutes_file = \"x\"\n\n[[port]]\nname = \"a\"\n\n[[port]]\n\
                        name = \"b\"\n\n[router]\nworkers = 1  # default\n\n\
                        # in the file, and not in force before a restart\n\n# [router]\n# workers = 2\n\n\
                        # not in force before a restart: [router] workers\n";
        assert_eq!(printed(&answer, config), expected);
    }

    #[test]
    fn rules_are_shown_with_matched_and_unmatched_packets() {
        let list = |values: &[&str]| values.iter().map(|it| (*it).to_owned()).collect();
        let rule = AclRule {
            name: "web".to_owned(),
            on: list(&["b"]),
            action: "permit".to_owned(),
            source: list(&["10.0.0.0/8"]),
            protocol: vec![6, 200],
            destination_ports: list(&["80", "8000-8080"]),
            packets: 7,
            bytes: 500,
            ..AclRule::default()
        };
        let unmatched = Unmatched { port: "b".to_owned(), packets: 3, bytes: 180 };
        let counters = AclStats { rules: vec![rule], total: 1, unmatched: vec![unmatched] };
        let answer = AclTable { acl: counters, ..AclTable::default() };
        let text = printed(&answer, acl);
        let lines: Vec<Vec<&str>> =
            text.lines().map(|it| it.split_whitespace().collect()).collect();
        let tcp = if cfg!(feature = "filter") { "tcp" } else { "6" };
        let cells = format!("web b permit {tcp},200 10.0.0.0/8 all all 80,8000-8080 7 500");
        assert_eq!(lines[1], cells.split(' ').collect::<Vec<_>>());
        assert_eq!(lines[2].join(" "), "port b: 3 packets matched no rule and were dropped");
    }

    #[test]
    fn an_address_or_a_prefix_is_taken() {
        assert_eq!(prefix("10.1.2.3").unwrap().to_string(), "10.1.2.3/32");
        assert_eq!(prefix("10.1.2.3/8").unwrap().to_string(), "10.0.0.0/8");
        assert!(prefix("ten").unwrap_err().contains("must be"));
    }
}

//! `wattline show`: what a running router knows.

use super::ask::Which;
use super::stats;
use crate::exit::ExitError;
use crate::output;
use ipnet::IpNet;
use serde_json::Value;
use std::io::{self, BufWriter, Write};
use std::net::IpAddr;
use wattline_daemon::socket::{Request, Topic};

/// Of what.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    what: What,
    #[command(flatten)]
    which: Which,
    /// Most entries to show.
    #[arg(long, value_name = "N", default_value_t = 1000, global = true)]
    most: u32,
}

/// What can be looked at.
#[derive(Debug, Clone, Copy, clap::Subcommand)]
enum What {
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
}

/// Which part of it.
#[derive(Debug, Clone, Copy, clap::Args)]
struct Within {
    /// Only what lies within this prefix; of routes for an address, those that hold it.
    #[arg(value_name = "PREFIX", value_parser = prefix)]
    within: Option<IpNet>,
}

/// An address is the prefix of itself alone.
fn prefix(text: &str) -> Result<IpNet, String> {
    let address = || text.parse::<IpAddr>().map(IpNet::from);
    text.parse::<IpNet>().map(|net| net.trunc()).or_else(|_| address()).map_err(|_| {
        "must be a prefix or an address such as 198.51.100.0/24 or 2001:db8::1".to_owned()
    })
}

/// Runs the command.
pub fn run(args: &Args, json: bool) -> Result<(), ExitError> {
    let (topic, within) = match args.what {
        What::Ports => (Topic::Ports, None),
        What::Routes(Within { within }) => (Topic::Routes, within),
        What::Neighbours(Within { within }) => (Topic::Neighbours, within),
        What::Fib { address } => (Topic::Fib, Some(address.into())),
        What::Flows(Within { within }) => (Topic::Flows, within),
        What::Sas => (Topic::Sas, None),
        What::Acl => (Topic::Acl, None),
    };
    let answer = args.which.ask(Request::Show { topic, within, most: args.most })?;
    let mut out = BufWriter::new(output::stdout());
    if json {
        writeln!(out, "{answer:#}")?;
    } else {
        print(topic, &answer, &mut out)?;
    }
    Ok(out.flush()?)
}

fn print(topic: Topic, answer: &Value, out: &mut impl Write) -> io::Result<()> {
    match topic {
        Topic::Ports => ports(answer, out),
        Topic::Routes => {
            routes(&answer["routes"], out)?;
            rest(&answer["routes"], |it| &it["prefix"], &answer["total"], "prefixes", out)
        }
        Topic::Neighbours => {
            let line = |it: &Value| {
                vec![
                    text(&it["address"]),
                    text(&it["interface"]),
                    text(&it["port"]),
                    text(&it["mac"]),
                    text(&it["state"]),
                    text(&it["source"]),
                ]
            };
            let head = ["address", "interface", "port", "ethernet", "state", "from"];
            table(&head, list(&answer["neighbours"]).map(line), out)?;
            rest(&answer["neighbours"], |it| &it["address"], &answer["total"], "neighbours", out)
        }
        Topic::Fib => {
            let (address, meaning) = (text(&answer["address"]), way(&answer["next_hop"]));
            let has_route = !answer["prefix"].is_null();
            match has_route {
                true => writeln!(out, "{address} by {}: {meaning}", text(&answer["prefix"]))?,
                false => writeln!(out, "{address}: {meaning}")?,
            }
            for member in list(&answer["next_hop"]["members"]) {
                let (places, meaning) = (text(&member["places"]), way(&member["next_hop"]));
                writeln!(out, "  {places} places: {meaning}")?;
            }
            for it in list(&answer["exceptions"]) {
                let (port, why) = (text(&it["port"]), text(&it["why"]));
                writeln!(out, "  not so for what comes in by {port}: {why}")?;
            }
            if !has_route {
                return Ok(());
            }
            writeln!(out)?;
            routes(&answer["routes"], out)
        }
        Topic::Flows => {
            let line = |it: &Value| {
                let end = |address: &str, port: &str| {
                    format!("{} {}", text(&it[address]), text(&it[port]))
                };
                vec![
                    end("source", "source_port"),
                    end("destination", "destination_port"),
                    text(&it["protocol"]),
                    text(&it["in"]),
                    text(&it["out"]),
                    text(&it["packets"]),
                    text(&it["bytes"]),
                ]
            };
            let head = ["source", "destination", "protocol", "in", "out", "packets", "bytes"];
            table(&head, list(&answer["flows"]).map(line), out)?;
            let live = text(&answer["flows_without_a_record_yet"]);
            writeln!(out, "{live} flows have no record yet")
        }
        Topic::Sas => super::stats::tree(answer, 0, out),
        Topic::Acl => acl(answer, out),
    }
}

fn ports(answer: &Value, out: &mut impl Write) -> io::Result<()> {
    for port in list(&answer["ports"]) {
        writeln!(out, "{}: {}", text(&port["name"]), text(&port["state"]))?;
        for (key, said) in [
            ("interface", text(&port["interface"])),
            ("ethernet", text(&port["mac"])),
            ("mtu", text(&port["mtu"])),
            ("addresses", list(&port["addresses"]).map(text).collect::<Vec<_>>().join(", ")),
            ("vlans", list(&port["vlans"]).map(text).collect::<Vec<_>>().join(", ")),
            ("how", text(&port["mode"])),
            ("why", text(&port["reason"])),
            ("checks", list(&port["checks"]).map(text).collect::<Vec<_>>().join(", ")),
            ("by workers", text(&port["by_workers_because"])),
        ] {
            if !said.is_empty() && said != NONE {
                writeln!(out, "  {key:<12} {said}")?;
            }
        }
    }
    stats::print_needs_restart(answer, out)
}

fn acl(answer: &Value, out: &mut impl Write) -> io::Result<()> {
    let of = |it: &Value, key: &str| {
        let said = list(&it[key]).map(text).collect::<Vec<_>>().join(",");
        if said.is_empty() { "all".to_owned() } else { said }
    };
    let line = |it: &Value| {
        let protocols: Vec<String> = list(&it["protocol"]).map(protocol).collect();
        vec![
            text(&it["name"]),
            of(it, "on"),
            text(&it["action"]),
            if protocols.is_empty() { "all".to_owned() } else { protocols.join(",") },
            of(it, "source"),
            of(it, "source_ports"),
            of(it, "destination"),
            of(it, "destination_ports"),
            text(&it["packets"]),
            text(&it["bytes"]),
        ]
    };
    let head =
        ["rule", "on", "action", "protocol", "from", "ports", "to", "ports", "packets", "bytes"];
    table(&head, list(&answer["rules"]).map(line), out)?;
    rest(&answer["rules"], |it| &it["name"], &answer["total"], "rules", out)?;
    for port in list(&answer["unmatched"]) {
        let (name, packets) = (text(&port["port"]), text(&port["packets"]));
        writeln!(out, "port {name}: {packets} packets matched no rule and were dropped")?;
    }
    Ok(())
}

/// A protocol as `[[acl]]` names it; its number where it has no name there.
fn protocol(value: &Value) -> String {
    let name = value.as_u64().and_then(|number| u8::try_from(number).ok());
    #[cfg(feature = "filter")]
    let name = name.and_then(wattline_filter::acl::protocol_name);
    #[cfg(not(feature = "filter"))]
    let name = name.and_then(|_: u8| None::<&str>);
    name.map_or_else(|| text(value), str::to_owned)
}

fn routes(routes: &Value, out: &mut impl Write) -> io::Result<()> {
    let line = |it: &Value| {
        let ways = list(&it["via"]).map(|hop| {
            let gateway = match &hop["gateway"] {
                Value::Null => String::new(),
                gateway => format!("{} ", text(gateway)),
            };
            let weight = match hop["weight"].as_u64() {
                Some(weight @ 2..) => format!(" weight {weight}"),
                _ => String::new(),
            };
            let mtu = match &hop["mtu"] {
                Value::Null => String::new(),
                mtu => format!(" mtu {mtu}"),
            };
            format!("{gateway}dev {}{weight}{mtu}", text(&hop["interface"]))
        });
        let ways = ways.collect::<Vec<_>>().join(", ");
        let to = if it["kind"] == "unicast" { ways } else { text(&it["kind"]) };
        let mark = if it["in_use"] == true { "*" } else { "" };
        vec![
            mark.to_owned(),
            text(&it["prefix"]),
            to,
            text(&it["metric"]),
            text(&it["nexthop"]),
            text(&it["source"]),
        ]
    };
    table(&["", "prefix", "to", "metric", "nhid", "from"], list(routes).map(line), out)
}

/// A next hop in words.
fn way(next_hop: &Value) -> String {
    let mut said = text(&next_hop["action"]);
    for (key, word) in
        [("port", "port"), ("to", "to"), ("gateway", "gateway"), ("vlan", "vlan"), ("mtu", "mtu")]
    {
        if !next_hop[key].is_null() {
            said += &format!(", {word} {}", text(&next_hop[key]));
        }
    }
    said
}

/// Says how much there is beside what was shown.
fn rest(
    shown: &Value,
    key: impl Fn(&Value) -> &Value,
    total: &Value,
    what: &str,
    out: &mut impl Write,
) -> io::Result<()> {
    let mut keys: Vec<String> = list(shown).map(|it| text(key(it))).collect();
    keys.dedup();
    match total.as_u64() {
        Some(total) if total > keys.len() as u64 => {
            writeln!(out, "{} of {total} {what}: name a PREFIX or --most N", keys.len())
        }
        _ => Ok(()),
    }
}

/// Stands for what is not there.
const NONE: &str = "-";

fn text(value: &Value) -> String {
    match value {
        Value::Null => NONE.to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// Columns as wide as what is in them.
fn table(
    head: &[&str],
    lines: impl Iterator<Item = Vec<String>>,
    out: &mut impl Write,
) -> io::Result<()> {
    let mut rows = vec![head.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>()];
    rows.extend(lines);
    let width =
        |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    for row in &rows {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        writeln!(out, "{}", cells.collect::<Vec<_>>().join("  ").trim_end())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn printed(topic: Topic, answer: &Value) -> String {
        let mut out = Vec::new();
        print(topic, answer, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn routes_are_a_table_that_says_what_it_leaves_out() {
        let hop = json!({"gateway": "192.0.2.2", "interface": "eth0", "weight": 3, "mtu": 1300});
        let route = json!({"prefix": "10.0.0.0/8", "kind": "unicast", "via": [hop], "metric": 5,
            "nexthop": null, "source": "kernel", "in_use": true});
        let text = printed(Topic::Routes, &json!({"routes": [route], "total": 7}));
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
    fn the_way_to_an_address_is_said_in_words() {
        let member = |places: u32| json!({"places": places, "next_hop": {"action": "discard"}});
        let next_hop =
            json!({"action": "one of several by flow", "members": [member(1), member(3)]});
        let left = json!({"port": "a", "why": "the port is left: a rule"});
        let answer = json!({"address": "10.1.1.1", "prefix": "10.0.0.0/8", "next_hop": next_hop,
            "exceptions": [left]});
        let text = printed(Topic::Fib, &answer);
        assert!(text.starts_with("10.1.1.1 by 10.0.0.0/8: one of several by flow\n"), "{text}");
        assert!(text.contains("  3 places: discard\n"), "{text}");
        assert!(text.contains("for what comes in by a: the port is left: a rule\n"), "{text}");
    }

    #[test]
    fn an_address_without_a_route_is_told_in_one_line() {
        let next_hop = json!({"action": "no route"});
        let answer = json!({"address": "198.51.100.7", "prefix": null, "next_hop": next_hop,
            "routes": []});
        assert_eq!(printed(Topic::Fib, &answer), "198.51.100.7: no route\n");
    }

    #[test]
    fn rules_are_shown_with_what_they_matched_and_what_none_did() {
        let rule = json!({"name": "web", "on": ["b"], "action": "permit", "source": ["10.0.0.0/8"],
            "destination": [], "protocol": [6, 200], "source_ports": [],
            "destination_ports": ["80", "8000-8080"], "packets": 7, "bytes": 500});
        let unmatched = json!({"port": "b", "packets": 3, "bytes": 180});
        let answer = json!({"rules": [rule], "total": 1, "unmatched": [unmatched]});
        let text = printed(Topic::Acl, &answer);
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

//! Reads the protected traffic of a configuration that is not valid: a mistake in one place must not
//! let packets leave in clear that another place protects.
//!
//! A policy with a mistake still blocks. An unreadable prefix stands for all addresses.

use super::protected::{Protected, Rule, all_addresses};
use crate::section::{IPSEC, POLICY, SECTIONS, TUNNEL};
use ipnet::IpNet;
use std::net::IpAddr;
use wattline_daemon::settings::{Reader, Schema, Section, Table, each, single, single_or_empty};

/// Key of the problems of a text that is no TOML.
const SYNTAX: &str = "syntax";
/// Lines that are left out one after the other until the rest can be read.
const MOST_WRONG_LINES: usize = 32;

/// The readable part of a configuration.
#[derive(Debug, Default, PartialEq)]
pub struct Partial {
    /// The traffic to be blocked.
    pub protected: Protected,
    /// False if the file says that the kernel may forward it while no router runs.
    pub when_stopped: bool,
    /// True if all ports are captures.
    pub captures_only: bool,
    /// Number of policies without a readable prefix.
    pub unreadable: usize,
}

impl Partial {
    /// Reads as much as is possible. A line that is no TOML can hide those that follow it, so the text
    /// is read again without such lines.
    pub fn read(text: &str) -> Self {
        let (mut partial, mut wrong) = Self::read_once(text);
        let mut lines: Vec<&str> = text.lines().collect();
        for _ in 0..MOST_WRONG_LINES {
            let Some(line) = wrong.and_then(|number| lines.get_mut(number.saturating_sub(1)))
            else {
                break;
            };
            // The parser may also name the line after the wrong one.
            *line = "";
            let next = Self::read_once(&lines.join("\n"));
            partial.protected = partial.protected.and(&next.0.protected);
            wrong = next.1;
        }
        partial
    }

    /// Reads a text, and returns the first line that is no TOML.
    fn read_once(text: &str) -> (Self, Option<usize>) {
        let schema = Schema {
            sections: SECTIONS.names.to_vec(),
            keys: SECTIONS.keys.iter().collect(),
            ..Schema::default()
        };
        // Its problems are those of the whole file, which is reported elsewhere.
        let mut reader = Reader::new(text, schema);
        let partial = reader.document(|reader, root| {
            let mut partial = Self::default();
            let general = single_or_empty(reader, root, IPSEC, "ipsec");
            partial.when_stopped = reader.flag(&general, "block_when_stopped");
            let ports = all(reader, root, Section::Named("[[port]]"), "port");
            let is_capture = |port: &Table| port.has("capture") && !port.has("interface");
            partial.captures_only = !ports.is_empty() && ports.iter().all(is_capture);
            for table in all(reader, root, TUNNEL, "ipsec_tunnel") {
                let mut end = |key| text_of(reader, &table, key)?.parse::<IpAddr>().ok();
                if let (Some(local), Some(remote)) = (end("local"), end("remote"))
                    && local.is_ipv4() == remote.is_ipv4()
                {
                    partial.protected.ends.push((local, remote));
                }
            }
            for table in all(reader, root, POLICY, "ipsec_policy") {
                match rule(reader, &table) {
                    Some(rule) => partial.protected.rules.push(rule),
                    None => partial.unreadable += 1,
                }
            }
            partial
        });
        let syntax = reader.has_syntax_error().then(|| reader.problems.iter());
        let first = syntax.and_then(|mut it| it.find(|problem| problem.key == SYNTAX));
        (partial, first.map(|problem| problem.line))
    }
}

fn rule(reader: &mut Reader, table: &Table) -> Option<Rule> {
    let mut prefix = |key| {
        let text = text_of(reader, table, key)?;
        let net = text.parse::<IpNet>().or_else(|_| text.parse::<IpAddr>().map(IpNet::from));
        net.ok().map(|net| net.trunc())
    };
    let (source, destination) = (prefix("source"), prefix("destination"));
    let known = source.or(destination)?;
    let all = all_addresses(known.addr().is_ipv4());
    let of_family =
        |net: Option<IpNet>| net.filter(|net| net.addr().is_ipv4() == all.addr().is_ipv4());
    let passes = text_of(reader, table, "action").as_deref() == Some("bypass")
        && !table.has("tunnel")
        && source.is_some()
        && of_family(destination).is_some();
    let (source, destination) = (source.unwrap_or(all), of_family(destination).unwrap_or(all));
    Some(Rule { source, destination, passes })
}

fn text_of(reader: &mut Reader, table: &Table, key: &str) -> Option<String> {
    table.has(key).then(|| reader.string(table, key))?.map(|text| text.value)
}

/// Sections of a name, even if written as one that cannot be repeated.
fn all<'a, 't>(
    reader: &mut Reader,
    root: &Table<'a, 't>,
    section: Section,
    name: &str,
) -> Vec<Table<'a, 't>> {
    let tables = each(reader, root, section, name);
    if tables.is_empty() {
        single(reader, root, section, name).into_iter().collect()
    } else {
        tables
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "[router]\nworkers = \"many\"\n[[port]]\nname = \"a\"\ninterface = \"eth0\"\n\
        [ipsec]\nblock_when_stopped = true\n\
        [[ipsec_tunnel]]\nname = \"t\"\nlocal = \"192.0.2.1\"\nremote = \"192.0.2.2\"\n\
        [[ipsec_policy]]\nsource = \"10.1.0.0/16\"\ndestination = \"10.2.0.0/16\"\ntunnel = \"t\"\n";

    /// Returns the blocked prefixes of the text with one change.
    fn blocked(from: &str, to: &str) -> Vec<String> {
        assert!(TEXT.contains(from), "{from}");
        let partial = Partial::read(&TEXT.replacen(from, to, 1));
        assert!(partial.when_stopped && !partial.captures_only);
        let prefixes = partial.protected.prefixes();
        prefixes.map(|(source, destination)| format!("{source} {destination}")).collect()
    }

    #[test]
    fn mistakes_elsewhere_do_not_hide_a_policy() {
        let whole = ["10.1.0.0/16 10.2.0.0/16"];
        for (from, to) in [
            ("many", "few"),
            ("[router]", "routes_file = 3\nrubbish = {}\n[router]"),
            ("tunnel = \"t\"", "tunnel = \"other\""),
            ("tunnel = \"t\"", ""),
            ("tunnel = \"t\"", "action = \"bypas\""),
            ("tunnel = \"t\"", "action = \"bypass\"\ntunnel = \"t\""),
            ("10.1.0.0/16", "10.1.0.7/16"),
            ("[[ipsec_policy]]", "[ipsec_policy]"),
            ("[[ipsec_tunnel]]", "[[ipsec_tunnl]]"),
            ("block_when_stopped = true", "block_when_stopped = \"no\""),
            // Lines that are no TOML.
            ("workers = \"many\"", "workers = = 3"),
            ("interface = \"eth0\"", "interface = \"eth0"),
            ("remote = \"192.0.2.2\"", "remote 192.0.2.2"),
        ] {
            assert_eq!(blocked(from, to), whole, "{to}");
        }
    }

    #[test]
    fn unreadable_prefix_stands_for_all_addresses() {
        assert_eq!(blocked("\"10.1.0.0/16\"", "\"lan\""), ["0.0.0.0/0 10.2.0.0/16"]);
        assert_eq!(blocked("source = \"10.1.0.0/16\"\n", ""), ["0.0.0.0/0 10.2.0.0/16"]);
        assert_eq!(blocked("\"10.2.0.0/16\"", "7"), ["10.1.0.0/16 0.0.0.0/0"]);
        assert_eq!(blocked("\"10.2.0.0/16\"", "\"2001:db8::/32\""), ["10.1.0.0/16 0.0.0.0/0"]);
        let neither = TEXT.replace("10.1.0.0/16", "x").replace("10.2.0.0/16", "y");
        assert_eq!(Partial::read(&neither).unreadable, 1);
        let bypass = TEXT.replace("tunnel = \"t\"", "action = \"bypass\"");
        assert_eq!(Partial::read(&bypass).protected.prefixes().count(), 0);
    }

    #[test]
    fn any_text_is_read() {
        bolero::check!().with_type::<(Vec<u8>, Vec<(u16, u8)>)>().for_each(|(bytes, changes)| {
            let mut changed = TEXT.as_bytes().to_vec();
            for (at, byte) in changes {
                let at = usize::from(*at) % changed.len();
                changed[at] = *byte;
            }
            for bytes in [bytes, &changed] {
                let _ =
                    Partial::read(&String::from_utf8_lossy(bytes)).protected.blocks(None, false);
            }
        });
    }
}

//! The `[[acl]]` sections of the configuration.

use super::compiled::MOST_RULES;
use super::rule::{Action, Rule};
use super::subject;
use ipnet::IpNet;
use std::collections::HashSet;
use std::ops::RangeInclusive;
use std::sync::Arc;
use toml::de::DeValue;
use wattline_daemon::settings::{Key, Reader, Section, Table, each, parse_name, required, whole};
use wattline_packet::protocol as number;
use wattline_router::config::{ApplicationSection, PortSettings, Settings, read_port_names};

/// Name of the section.
const SECTION: Section = Section::Named("[[acl]]");

/// Generic routing encapsulation, in IANA's list of protocol numbers.
const GRE: u8 = 47;

/// Keys of the section, in the order of the reference.
#[rustfmt::skip]
const KEYS: &[Key] = &[
    Key::new(SECTION, "name", None, "\"no-telnet\"", "a name of letters, digits, \"-\", \"_\" and \".\" that no other rule has",
        "Name of the rule in counters (default: its number in the file, as `rule-3`)."),
    Key::new(SECTION, "on", Some("[]"), "[\"uplink\"]", "a list of names of ports",
        "Ports to whose received packets the rule applies; empty: all. The rules of a port are compared in the order\nof the file, and the first match decides. A port with rules drops packets that none matches."),
    Key::new(SECTION, "action", None, "\"deny\"", "\"permit\" or \"deny\"",
        "Fate of the packets. Required."),
    Key::new(SECTION, "source", Some("[]"), "[\"10.0.0.0/8\", \"2001:db8::/32\"]", "a prefix without host bits such as \"10.0.0.0/8\", or a list of them",
        "Source addresses; empty: all of both versions of IP."),
    Key::new(SECTION, "destination", Some("[]"), "\"198.51.100.0/24\"", "a prefix without host bits such as \"10.0.0.0/8\", or a list of them",
        "Destination addresses, likewise."),
    Key::new(SECTION, "protocol", Some("[]"), "[\"tcp\", \"udp\"]", "\"tcp\", \"udp\", \"sctp\", \"icmp\", \"icmpv6\", \"gre\", \"esp\", \"ah\", a number of 0 to 255, or a list of them",
        "Protocols; empty: all. In IPv6, the protocol after extension headers."),
    Key::new(SECTION, "source_ports", Some("[]"), "\"1024-65535\"", "a number of 0 to 65535, a range such as \"1024-65535\", or a list of them",
        "Source ports; empty: all. Only if `protocol` names nothing but tcp, udp and sctp."),
    Key::new(SECTION, "destination_ports", Some("[]"), "[22, \"8000-8080\"]", "a number of 0 to 65535, a range such as \"1024-65535\", or a list of them",
        "Destination ports, likewise. Later fragments carry no ports: rules that permit certain ports permit them by\ntheir other fields, and rules that deny certain ports leave them to the next rule."),
];

/// The access lists of a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AclSettings {
    /// The rules, in the order of the file; at least one.
    pub rules: Vec<Rule>,
    /// Indices of the ports that have rules.
    pub ports: Vec<usize>,
}

impl Settings for AclSettings {
    fn heading(&self) -> &'static str {
        SECTION.heading()
    }

    fn ports(&self) -> Option<&[usize]> {
        Some(&self.ports)
    }
}

/// The sections.
pub static ACL_SECTIONS: ApplicationSection =
    ApplicationSection { names: &["acl"], keys: KEYS, read: Ok(read_section) };

fn read_section(
    reader: &mut Reader,
    root: &Table,
    ports: &[PortSettings],
) -> Option<Arc<dyn Settings>> {
    let tables = each(reader, root, SECTION, "acl");
    if let Some(over) = tables.get(MOST_RULES) {
        let message = format!("is one rule too many: at most {MOST_RULES} are allowed");
        reader.problem_in(over, "", message);
    }
    let mut names = HashSet::new();
    let rules: Vec<Rule> = (1..)
        .zip(&tables)
        .filter_map(|(place, table)| read_rule(reader, table, ports, place, &mut names))
        .collect();
    let held = |port: &usize| rules.iter().any(|rule| rule.holds_on(*port));
    let ports = (0..ports.len()).filter(held).collect();
    (!rules.is_empty()).then(|| Arc::new(AclSettings { rules, ports }) as Arc<dyn Settings>)
}

fn read_rule(
    reader: &mut Reader,
    table: &Table,
    ports: &[PortSettings],
    place: usize,
    names: &mut HashSet<String>,
) -> Option<Rule> {
    reader.refuse_unknown(table);
    let name = reader.parsed(table, "name", parse_name);
    let span = name.as_ref().map_or(table.span.clone(), |name| name.span.clone());
    let name = name.map_or_else(|| format!("rule-{place}"), |name| name.value);
    if !names.insert(name.clone()) {
        reader.problem(SECTION, "name", &span, "is the name of another rule".to_owned());
    }
    let on = read_port_names(reader, table, "on", ports);
    let on = on.iter().map(|port| port.value).collect();
    let action = required(reader, table, "action", |text| match text {
        "permit" => Some(Action::Permit),
        "deny" => Some(Action::Deny),
        _ => None,
    });
    let sources = prefixes(reader, table, "source");
    let destinations = prefixes(reader, table, "destination");
    refuse_two_families(reader, table, &sources, &destinations);
    let protocols = reader.list(table, "protocol", true, protocol);
    let protocols: Vec<u8> = protocols.iter().flat_map(|it| &it.value).map(|it| it.value).collect();
    let source_ports = port_ranges(reader, table, "source_ports");
    let destination_ports = port_ranges(reader, table, "destination_ports");
    let have_ports = !protocols.is_empty() && protocols.iter().all(|it| subject::has_ports(*it));
    for (key, ranges) in
        [("source_ports", &source_ports), ("destination_ports", &destination_ports)]
    {
        if !ranges.is_empty() && !have_ports {
            let message = "needs protocol = \"tcp\", \"udp\" or \"sctp\", or a list of these: no \
                           other has ports"
                .to_owned();
            reader.problem_in(table, key, message);
        }
    }
    let action = action?.value;
    Some(Rule {
        name,
        on,
        action,
        sources,
        destinations,
        protocols,
        source_ports,
        destination_ports,
    })
}

fn prefixes(reader: &mut Reader, table: &Table, key: &str) -> Vec<IpNet> {
    let exact = |value: &DeValue| {
        let net = value.as_str()?.parse::<IpNet>().ok()?;
        (net.addr() == net.network()).then_some(net)
    };
    let listed = reader.list(table, key, true, exact);
    listed.map_or_else(Vec::new, |it| it.value.into_iter().map(|net| net.value).collect())
}

/// A rule with addresses of different versions of IP matches nothing.
fn refuse_two_families(
    reader: &mut Reader,
    table: &Table,
    sources: &[IpNet],
    destinations: &[IpNet],
) {
    let has = |nets: &[IpNet], four: bool| {
        nets.is_empty() || nets.iter().any(|net| net.addr().is_ipv4() == four)
    };
    if ![true, false].iter().any(|four| has(sources, *four) && has(destinations, *four)) {
        let message = "and source are of different versions of IP: the rule would match no packet";
        reader.problem_in(table, "destination", message.to_owned());
    }
}

fn protocol(value: &DeValue) -> Option<u8> {
    match value.as_str() {
        None => u8::try_from(whole(value)?).ok(),
        Some(name) => PROTOCOLS.iter().find(|(known, _)| *known == name).map(|(_, it)| *it),
    }
}

/// Protocols that have a name in the configuration.
const PROTOCOLS: [(&str, u8); 8] = [
    ("tcp", number::TCP),
    ("udp", number::UDP),
    ("sctp", number::SCTP),
    ("icmp", number::ICMP),
    ("icmpv6", number::ICMP6),
    ("gre", GRE),
    ("esp", number::ESP),
    ("ah", number::AUTHENTICATION),
];

/// Returns the name of a protocol in `[[acl]] protocol`, if it has one; all can be given by number.
pub fn protocol_name(number: u8) -> Option<&'static str> {
    PROTOCOLS.iter().find(|(_, known)| *known == number).map(|(name, _)| *name)
}

fn port_ranges(reader: &mut Reader, table: &Table, key: &str) -> Vec<RangeInclusive<u16>> {
    let listed = reader.list(table, key, true, port_range);
    listed.map_or_else(Vec::new, |it| it.value.into_iter().map(|range| range.value).collect())
}

fn port_range(value: &DeValue) -> Option<RangeInclusive<u16>> {
    let Some(text) = value.as_str() else {
        let port = u16::try_from(whole(value)?).ok()?;
        return Some(port..=port);
    };
    let (low, high) = text.split_once('-').unwrap_or((text, text));
    // No sign, which the standard library would accept.
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let (low, high) =
        (digits(low).then(|| low.parse().ok())??, digits(high).then(|| high.parse().ok())??);
    (low <= high).then_some(low..=high)
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattline_router::config::Config;

    const PORTS: &str = "[[port]]\nname = \"a\"\ninterface = \"eth0\"\n[[port]]\nname = \"b\"\n\
                         interface = \"eth1\"\n";
    const RULE: &str = "[[acl]]\nname = \"web\"\non = [\"b\"]\naction = \"permit\"\n\
        source = [\"10.0.0.0/8\", \"2001:db8::/32\"]\ndestination = \"198.51.100.0/24\"\n\
        protocol = [\"tcp\", 17]\nsource_ports = \"1024-65535\"\ndestination_ports = [80, \"8000-8080\"]\n";

    fn parse(text: &str) -> Result<Config, String> {
        let text = format!("{PORTS}{text}");
        Config::parse_with(&text, "test", &[&ACL_SECTIONS]).map_err(|problems| problems.to_string())
    }

    #[test]
    fn every_key_is_read() {
        let config = parse(&format!("{RULE}[[acl]]\naction = \"deny\"\non = [\"b\"]\n")).unwrap();
        let settings = config.of::<AclSettings>().unwrap();
        let net = |text: &str| text.parse::<IpNet>().unwrap();
        assert_eq!(
            settings.rules[0],
            Rule {
                name: "web".to_owned(),
                on: vec![1],
                action: Action::Permit,
                sources: vec![net("10.0.0.0/8"), net("2001:db8::/32")],
                destinations: vec![net("198.51.100.0/24")],
                protocols: vec![6, 17],
                source_ports: vec![1024..=65_535],
                destination_ports: vec![80..=80, 8000..=8080],
            }
        );
        assert_eq!(
            (settings.rules[1].name.as_str(), settings.rules[1].action),
            ("rule-2", Action::Deny)
        );
        assert_eq!(settings.ports, [1]);
    }

    #[test]
    fn only_the_packets_of_ports_with_rules_have_to_pass_workers() {
        let config = parse(RULE).unwrap();
        assert_eq!(config.obstacles_to_xdp_forwarding(), [""; 0]);
        assert_eq!(config.sections_for_workers(0), [""; 0]);
        assert_eq!(config.sections_for_workers(1), ["[[acl]]"]);
        let all = parse("[[acl]]\naction = \"permit\"\n").unwrap();
        assert_eq!(all.sections_for_workers(0), ["[[acl]]"]);
    }

    #[test]
    fn all_mistakes_are_reported_with_allowed_values() {
        for (from, to, reported) in [
            ("\"permit\"", "\"allow\"", "must be \"permit\" or \"deny\""),
            ("action = \"permit\"\n", "", "action: is missing"),
            ("[\"b\"]", "[\"c\"]", "the ports are a, b"),
            ("10.0.0.0/8", "10.0.0.1/8", "must be a prefix without host bits"),
            ("\"198.51.100.0/24\"", "\"2001:db8::/33\"", ""),
            ("17]", "256]", "a number of 0 to 255"),
            ("\"tcp\"", "\"tpc\"", "must be \"tcp\""),
            ("17]", "\"icmp\"]", "no other has ports"),
            ("1024-65535", "1024-65536", "a range such as"),
            ("1024-65535", "2-1", "a range such as"),
            ("1024-65535", "+2-9", "a range such as"),
            ("[80,", "[-80,", "a number of 0 to 65535"),
            ("name = \"web\"", "nam = \"web\"", "did you mean \"name\""),
        ] {
            assert!(RULE.contains(from), "{from}");
            let result = parse(&RULE.replacen(from, to, 1));
            match reported {
                "" => assert!(result.is_ok(), "{result:?}"),
                reported => {
                    assert!(
                        result.as_ref().is_err_and(|it| it.contains(reported)),
                        "{to}: {result:?}"
                    )
                }
            }
        }
        let twice = parse(&format!("{RULE}{RULE}")).unwrap_err();
        assert!(twice.contains("is the name of another rule"), "{twice}");
        let families =
            "[[acl]]\naction = \"deny\"\nsource = \"::/0\"\ndestination = \"0.0.0.0/0\"\n";
        assert!(parse(families).unwrap_err().contains("different versions of IP"));
        let many = "[[acl]]\naction = \"deny\"\n".repeat(MOST_RULES + 1);
        assert!(parse(&many).unwrap_err().contains("at most 4096 are allowed"));
    }
}

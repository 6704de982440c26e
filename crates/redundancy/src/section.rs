//! The `[[redundancy]]` sections of the configuration.

use crate::nodes::select::Selection;
use ipnet::IpNet;
use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::Arc;
use toml::de::DeValue;
use wattline_daemon::settings::{Key, Reader, Section, Table, defaulted, each, required, whole};
use wattline_router::config::{ApplicationSection, PortSettings, Settings, read_port_name};
use wattline_units::parse_bytes;

/// Name of the section, which occurs once per encoder or decoder.
const SECTION: Section = Section::Named("[[redundancy]]");

/// Keys of the section, in the order of the reference.
#[rustfmt::skip]
const KEYS: &[Key] = &[
    Key::new(SECTION, "role", None, "\"encode\"", "\"encode\" or \"decode\"",
        "Role of this router: the encoder removes content that took the same path before, the decoder restores it.\nRequired."),
    Key::new(SECTION, "port", None, "\"b\"", "the name of a port",
        "The port towards the other router. Needed, or `prefixes`, or both."),
    Key::new(SECTION, "prefixes", None, "[\"198.51.100.0/24\"]", "a list of IPv4 or IPv6 prefixes",
        "Only packets to these destinations, which must be behind the decoder. Default: all. The same on both sides."),
    Key::new(SECTION, "except", Some("[]"), "[\"198.51.100.1/32\"]", "a list of IPv4 or IPv6 prefixes",
        "Destinations that do not pass the decoder, such as its own addresses. Those of the port's link and `peer` are excluded anyway.\nThe same on both sides."),
    Key::new(SECTION, "peer", None, "\"192.0.2.2\"", "a unicast IPv4 or IPv6 address",
        "The other router: the encoder accepts reports only from it, the decoder sends them to it. Required with `feedback`."),
    Key::new(SECTION, "feedback", Some("true"), "false", "true or false",
        "The decoder reports that it is alive and which packets it has; the encoder refers to no others, and without reports for 5 s\nsends all packets unencoded. false: no reports, and the encoder always encodes (captures; paths without loss and without\nother senders, whose packets fill the cache). The same on both sides."),
    Key::whole(SECTION, "feedback_port", Some("4253"), "4253", 1..=65535,
        "The encoder's UDP port for reports."),
    Key::whole(SECTION, "stream", Some("0"), "1", 0..=255,
        "The encoder's number, if several send to one decoder. The same on both sides."),
    Key::new(SECTION, "cache", Some("\"64MiB\""), "\"1GiB\"", "a size from \"1MiB\" to \"16GiB\"",
        "Size of the packet cache, shared by all workers. Indexes take another sixteenth; the encoder's take another half at\nperiod 32, and packets that the decoder has not confirmed yet take a quarter there. If the two sides differ, the smaller size counts."),
    Key::new(SECTION, "selection", Some("\"samplebyte\""), "\"maxp\"", "\"modp\", \"maxp\" or \"samplebyte\"",
        "Method by which the encoder selects windows to remember."),
    Key::whole(SECTION, "period", Some("32"), "64", 8..=128,
        "The encoder remembers about one window in this many bytes."),
    Key::whole(SECTION, "protocol", Some("253"), "254", 143..=254,
        "IP protocol number of encoded packets (253 and 254 are for experiments, RFC 3692). The same on both sides."),
    Key::new(SECTION, "secret", Some("\"\""), "\"correct horse\"", "a text of at most 64 bytes",
        "Known to both routers only: packets and reports of others are then rejected. The same on both sides.\nEmpty: a warning at the start, since anyone who sees the packets can forge encoded packets and reports.").secret(),
    Key::new(SECTION, "bypass_ports", Some("[22, 443, 853, 989, 990, 993, 995, 1194, 4500, 51820]"), "[443]", "a list of port numbers from 0 to 65535",
        "TCP and UDP ports whose payload is encrypted: not remembered, not encoded. The same on both sides.\nDefault: SSH, HTTPS and QUIC, DNS, FTP, IMAP and POP over TLS, IPsec in UDP, OpenVPN, WireGuard."),
    Key::new(SECTION, "bypass_entropy", Some("true"), "false", "true or false",
        "The encoder skips flows that look encrypted and gained nothing in 32 packets, except for one packet in 16."),
];

/// All sections of a configuration; at least one.
#[derive(Debug, Clone, PartialEq)]
pub struct RedundancySections(pub Vec<RedundancySettings>);

impl Settings for RedundancySections {
    fn heading(&self) -> &'static str {
        SECTION.heading()
    }
}

/// The sections.
pub static REDUNDANCY: ApplicationSection =
    ApplicationSection { names: &["redundancy"], keys: KEYS, read: Ok(read_section) };

fn read_section(
    reader: &mut Reader,
    root: &Table,
    ports: &[PortSettings],
) -> Option<Arc<dyn Settings>> {
    let sections = RedundancySections(read(reader, root, ports));
    if sections.0.is_empty() { None } else { Some(Arc::new(sections)) }
}

/// Settings of a `[[redundancy]]` section.
#[derive(Debug, Clone, PartialEq)]
pub struct RedundancySettings {
    /// Role of this router: encoder or decoder.
    pub role: RedundancyRole,
    /// Port towards the other router (index into the ports).
    pub port: Option<usize>,
    /// Destinations behind the decoder; empty for all.
    pub prefixes: Vec<IpNet>,
    /// Destinations that do not pass the decoder.
    pub except: Vec<IpNet>,
    /// Address of the other router; present unless `feedback` is false.
    pub peer: Option<IpAddr>,
    /// True if the decoder reports to the encoder.
    pub feedback: bool,
    /// UDP port of the encoder for the reports.
    pub feedback_port: u16,
    /// Number of the encoder, for a decoder that serves several.
    pub stream: u8,
    /// Size of the cache in bytes.
    pub cache_bytes: usize,
    /// Method of selecting windows.
    pub selection: Selection,
    /// Mean distance in bytes between selected windows.
    pub period: usize,
    /// IP protocol number of encoded packets.
    pub protocol: u8,
    /// Secret that the two routers share.
    pub secret: String,
    /// TCP and UDP ports with encrypted payload.
    pub bypass_ports: Vec<u16>,
    /// True if flows that look encrypted and gain nothing are given up.
    pub bypass_entropy: bool,
}

/// Role of a router.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RedundancyRole {
    /// Encoder: replaces content that was sent before.
    Encode,
    /// Decoder: restores the content.
    Decode,
}

const SMALLEST_CACHE: u64 = 1 << 20;
/// Largest cache in bytes: positions in the index have 34 bits of words, which is ample.
const LARGEST_CACHE: u64 = 16 << 30;

fn read(reader: &mut Reader, root: &Table, ports: &[PortSettings]) -> Vec<RedundancySettings> {
    let mut seen = HashSet::new();
    let tables = each(reader, root, SECTION, "redundancy");
    let mut list = Vec::new();
    for table in &tables {
        let Some(settings) = read_one(reader, table, ports) else { continue };
        if !seen.insert((settings.role, settings.peer, settings.stream)) {
            let message = "another section has this role, peer and stream already".to_owned();
            reader.problem_in(table, "stream", message);
        }
        list.push(settings);
    }
    list
}

fn read_one(
    reader: &mut Reader,
    table: &Table,
    ports: &[PortSettings],
) -> Option<RedundancySettings> {
    reader.refuse_unknown(table);
    let role = required(reader, table, "role", parse_role);
    let port = read_port_name(reader, table, ports);
    let nets = |reader: &mut Reader, key| {
        let net = |value: &DeValue| value.as_str().and_then(|text| text.parse::<IpNet>().ok());
        let list = reader.list(table, key, false, net);
        list.map(|list| list.value.into_iter().map(|net| net.value).collect::<Vec<_>>())
            .unwrap_or_default()
    };
    let (prefixes, except) = (nets(reader, "prefixes"), nets(reader, "except"));
    if !table.has("port") && !table.has("prefixes") {
        let message = "needs port, prefixes or both".to_owned();
        reader.problem_in(table, "", message);
    }
    let unicast = |text: &str| {
        let address: IpAddr = text.parse().ok()?;
        (!address.is_multicast() && !address.is_unspecified()).then_some(address)
    };
    let peer = reader.parsed(table, "peer", unicast).map(|peer| peer.value);
    let feedback = reader.flag(table, "feedback");
    if feedback && !table.has("peer") {
        let message = "is missing: the other router's address, unless feedback = false".to_owned();
        reader.problem_in(table, "peer", message);
    }
    let mut number = |key| defaulted(reader.number(table, key));
    let feedback_port = number("feedback_port") as u16;
    let stream = number("stream") as u8;
    let period = number("period") as usize;
    let protocol = number("protocol") as u8;
    let cache = defaulted(reader.parsed(table, "cache", parse_cache));
    let selection = defaulted(reader.parsed(table, "selection", parse_selection));
    let short = |text: &str| (text.len() <= 64).then(|| text.to_owned());
    let secret = defaulted(reader.parsed(table, "secret", short));
    let port_number = |value: &DeValue| whole(value).and_then(|port| u16::try_from(port).ok());
    let bypass_ports = reader.list(table, "bypass_ports", false, port_number);
    let bypass_entropy = reader.flag(table, "bypass_entropy");
    Some(RedundancySettings {
        role: role?.value,
        port,
        prefixes,
        except,
        peer,
        feedback,
        feedback_port,
        stream,
        cache_bytes: usize::try_from(cache).ok()?,
        selection,
        period,
        protocol,
        secret,
        bypass_ports: bypass_ports?.value.into_iter().map(|port| port.value).collect(),
        bypass_entropy,
    })
}

fn parse_role(text: &str) -> Option<RedundancyRole> {
    match text {
        "encode" => Some(RedundancyRole::Encode),
        "decode" => Some(RedundancyRole::Decode),
        _ => None,
    }
}

fn parse_selection(text: &str) -> Option<Selection> {
    Selection::ALL.into_iter().find(|selection| selection.name() == text)
}

/// Parses the size of a cache; returns bytes.
fn parse_cache(text: &str) -> Option<u64> {
    parse_bytes(text).filter(|size| (SMALLEST_CACHE..=LARGEST_CACHE).contains(size))
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattline_router::config::Config;

    fn parse(section: &str) -> Result<Vec<RedundancySettings>, String> {
        let text = format!(
            "[[port]]\nname = \"a\"\ncapture = {{ read = \"x\" }}\n[[redundancy]]\n{section}"
        );
        let config = Config::parse_with(&text, "test", &[&REDUNDANCY]);
        let config = config.map_err(|problems| problems.to_string())?;
        Ok(config.of::<RedundancySections>().unwrap().0.clone())
    }

    #[test]
    fn caches_have_a_size_within_limits() {
        assert_eq!(parse_cache("64MiB"), Some(64 << 20));
        assert_eq!(parse_cache("2 GiB"), Some(2 << 30));
        assert_eq!(parse_cache("1024KiB"), Some(1 << 20));
        for bad in ["", "MiB", "64", "64MB", "+64MiB", "1023KiB", "17GiB", "99999999999999GiB", "é"]
        {
            assert_eq!(parse_cache(bad), None, "{bad}");
        }
    }

    #[test]
    fn short_section_has_defaults_and_long_one_sets_all() {
        let short = &parse("role = \"encode\"\nport = \"a\"\npeer = \"192.0.2.2\"").unwrap()[0];
        assert_eq!((short.role, short.port), (RedundancyRole::Encode, Some(0)));
        assert_eq!((short.cache_bytes, short.period, short.protocol), (64 << 20, 32, 253));
        assert_eq!(short.selection, Selection::SampleByte);
        assert!(short.feedback && short.bypass_entropy && short.bypass_ports.contains(&443));
        let long = &parse(
            "role = \"decode\"\nprefixes = [\"10.0.0.0/8\"]\nexcept = [\"10.0.0.1/32\"]\n\
             feedback = false\nfeedback_port = 9\nstream = 7\ncache = \"1GiB\"\n\
             selection = \"maxp\"\nperiod = 64\nprotocol = 254\nsecret = \"s\"\n\
             bypass_ports = [1]\nbypass_entropy = false",
        )
        .unwrap()[0];
        assert_eq!((long.stream, long.cache_bytes, long.period), (7, 1 << 30, 64));
        assert_eq!((long.protocol, long.secret.as_str()), (254, "s"));
        assert_eq!((long.bypass_ports.as_slice(), long.feedback_port), (&[1][..], 9));
        assert_eq!(long.selection, Selection::Maxp);
    }

    #[test]
    fn all_mistakes_are_reported_at_once() {
        let message = parse(
            "role = \"both\"\ncache = \"64MB\"\nperiod = 7\nprotocol = 6\nselection = \"rabin\"\n\
             bypass_ports = [70000]\nchache = 1",
        )
        .unwrap_err();
        for part in [
            "role = \"both\"",
            "cache = \"64MB\"",
            "period = 7",
            "protocol = 6",
            "selection",
            "70000",
            "did you mean \"cache\"",
            "peer: is missing",
            "needs port, prefixes or both",
        ] {
            assert!(message.contains(part), "{part} in {message}");
        }
        let twice = "role = \"encode\"\nport = \"a\"\npeer = \"192.0.2.2\"\n";
        let message = parse(&format!("{twice}[[redundancy]]\n{twice}")).unwrap_err();
        assert!(message.contains("another section has this role"), "{message}");
    }
}

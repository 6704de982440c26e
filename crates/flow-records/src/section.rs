//! The `[flow_records]` section of the configuration.

use crate::nodes::Sampling;
use std::collections::HashSet;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use toml::de::DeValue;
use wattline_daemon::settings::{Key, Reader, Section, Table, defaulted, single};
use wattline_dataplane::feature::Place;
use wattline_router::config::{ApplicationSection, PortSettings, Settings, read_port_names};

/// Name of the section.
const SECTION: Section = Section::Named("[flow_records]");

/// Keys of the section, in the order of the reference.
#[rustfmt::skip]
const KEYS: &[Key] = &[
    Key::new(SECTION, "collectors", None, "[\"ipfix://192.0.2.9:4739\", \"netflow9://[2001:db8::9]:2055\"]", "a list of 1 to 16 of ipfix://ADDRESS:PORT, ipfix+tcp://ADDRESS:PORT and netflow9://ADDRESS:PORT, without repetition",
        "Record passing flows, and send records to all of these: IPFIX over UDP or TCP, NetFlow version 9 over UDP. Required."),
    Key::new(SECTION, "source", None, "\"192.0.2.1\"", "an IPv4 or IPv6 address of this machine; no group",
        "Source address of messages to collectors of its family, which identifies the router. Default: by the\nroute to each."),
    Key::new(SECTION, "ports", Some("[]"), "[\"a\"]", "a list of names of ports",
        "Only flows that arrive on these ports; empty: on all."),
    Key::new(SECTION, "observe", Some("\"routed\""), "\"received\"", "\"routed\" or \"received\"",
        "Observed packets: those with a route onwards, or all valid ones, including packets to the router itself\nand packets without a route, but without the egress interface."),
    Key::duration(SECTION, "active_timeout", Some("\"60s\""), "\"30min\"", ("1s", "24h", "60s"),
        "Time between two records of an active flow."),
    Key::duration(SECTION, "idle_timeout", Some("\"15s\""), "\"30s\"", ("1s", "1h", "15s"),
        "A flow ends after this time without a packet."),
    Key::whole(SECTION, "flows", Some("65536"), "1048576", 1024..=16777216,
        "Largest number of flows, for each worker and each of IPv4 and IPv6; rounded up to a power of two.\nOne takes 68 bytes (IPv4) or 132 (IPv6). Beyond it, the flows idle longest are recorded early."),
    Key::whole(SECTION, "sampling", Some("1"), "100", 1..=65535,
        "Observe one packet in this many. Collectors get the factor, and multiply."),
    Key::new(SECTION, "sampling_mode", Some("\"deterministic\""), "\"random\"", "\"deterministic\" or \"random\"",
        "Observed packet of each group: the last, or a random one."),
    Key::whole(SECTION, "observation_domain", Some("1"), "7", 0..=u32::MAX,
        "The number of this router's records at the collector (source id of NetFlow version 9)."),
    Key::duration(SECTION, "template_interval", Some("\"60s\""), "\"10min\"", ("1s", "1h", "60s"),
        "Time until templates and options are sent again."),
    Key::whole(SECTION, "message_bytes", Some("1400"), "8900", 512..=65000,
        "Longest message; over UDP it should fit the path's MTU less 28 bytes (IPv4) or 48 (IPv6)."),
];

/// Largest number of collectors.
const MOST_COLLECTORS: usize = 16;

/// Settings of flow records and their collectors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlowRecordsSettings {
    /// Collectors; at least one.
    pub collectors: Vec<CollectorAddress>,
    /// Source address of messages to collectors of its family; chosen by the kernel if absent.
    pub source: Option<IpAddr>,
    /// Indices of the recorded ports; empty for all.
    pub ports: Vec<usize>,
    /// Place in the graph at which packets are seen.
    pub place: Place,
    /// Interval between the records of a long flow (active timeout).
    pub active: Duration,
    /// Time without a packet after which a flow has ended (idle timeout).
    pub idle: Duration,
    /// Capacity of each worker's tables in flows, for each IP version.
    pub flows: usize,
    /// Sampling interval: one packet in this many is counted.
    pub sampling_interval: u32,
    /// Choice of the sampled packet within an interval.
    pub sampling: Sampling,
    /// Observation domain: the number of this router at the collectors.
    pub domain: u32,
    /// Interval at which templates are sent again.
    pub template_interval: Duration,
    /// Length of the longest message in bytes.
    pub message_bytes: usize,
}

/// A collector: address, format and transport.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CollectorAddress {
    /// Format and transport of the records.
    pub transport: Transport,
    /// IP address and port of the collector.
    pub address: SocketAddr,
}

/// Format and transport of records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Transport {
    /// IPFIX over UDP.
    IpfixUdp,
    /// IPFIX over TCP.
    IpfixTcp,
    /// NetFlow version 9, over UDP.
    Netflow9,
}

impl fmt::Display for CollectorAddress {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = match self.transport {
            Transport::IpfixUdp => "ipfix",
            Transport::IpfixTcp => "ipfix+tcp",
            Transport::Netflow9 => "netflow9",
        };
        write!(out, "{scheme}://{}", self.address)
    }
}

fn parse_collector(text: &str) -> Option<CollectorAddress> {
    let (scheme, rest) = text.split_once("://")?;
    let transport = match scheme {
        "ipfix" => Transport::IpfixUdp,
        "ipfix+tcp" => Transport::IpfixTcp,
        "netflow9" => Transport::Netflow9,
        _ => return None,
    };
    let address: SocketAddr = rest.parse().ok()?;
    let usable = address.port() != 0 && !address.ip().is_unspecified();
    usable.then_some(CollectorAddress { transport, address })
}

fn parse_source(text: &str) -> Option<IpAddr> {
    text.parse().ok().filter(|it: &IpAddr| !it.is_unspecified() && !it.is_multicast())
}

impl Settings for FlowRecordsSettings {
    fn heading(&self) -> &'static str {
        SECTION.heading()
    }
}

/// The section.
pub static FLOW_RECORDS: ApplicationSection =
    ApplicationSection { names: &["flow_records"], keys: KEYS, read: Ok(read_section) };

fn read_section(
    reader: &mut Reader,
    root: &Table,
    ports: &[PortSettings],
) -> Option<Arc<dyn Settings>> {
    let table = single(reader, root, SECTION, "flow_records")?;
    Some(Arc::new(read(reader, &table, ports)?))
}

/// Reads the section; `None` if collectors are missing or none is valid.
fn read(reader: &mut Reader, table: &Table, ports: &[PortSettings]) -> Option<FlowRecordsSettings> {
    reader.refuse_unknown(table);
    let place = |text: &str| match text {
        "routed" => Some(Place::Routed),
        "received" => Some(Place::Received),
        _ => None,
    };
    let sampling = |text: &str| match text {
        "deterministic" => Some(Sampling::Deterministic),
        "random" => Some(Sampling::Random),
        _ => None,
    };
    let number = |reader: &mut Reader, key| defaulted(reader.number(table, key));
    let duration = |reader: &mut Reader, key| defaulted(reader.duration(table, key));
    let mut settings = FlowRecordsSettings {
        collectors: Vec::new(),
        source: reader.parsed(table, "source", parse_source).map(|source| source.value),
        ports: Vec::new(),
        place: defaulted(reader.parsed(table, "observe", place)),
        active: duration(reader, "active_timeout"),
        idle: duration(reader, "idle_timeout"),
        flows: number(reader, "flows") as usize,
        sampling_interval: number(reader, "sampling"),
        sampling: defaulted(reader.parsed(table, "sampling_mode", sampling)),
        domain: number(reader, "observation_domain"),
        template_interval: duration(reader, "template_interval"),
        message_bytes: number(reader, "message_bytes") as usize,
    };
    let listed = read_port_names(reader, table, "ports", ports);
    settings.ports = listed.iter().map(|port| port.value).collect();
    if !table.has("collectors") {
        let allowed = reader.allowed(SECTION, "collectors");
        reader.problem_in(table, "collectors", format!("is missing; it must be {allowed}"));
    }
    let collector = |value: &DeValue| value.as_str().and_then(parse_collector);
    let problems = reader.problems.len();
    let collectors = reader.list(table, "collectors", false, collector)?;
    settings.collectors = collectors.value.iter().map(|collector| collector.value).collect();
    let count = settings.collectors.len();
    let distinct: HashSet<_> = settings.collectors.iter().collect();
    if count > MOST_COLLECTORS || distinct.len() != count {
        reader.not_allowed(SECTION, "collectors", &collectors.span);
    }
    if count == 0 && reader.problems.len() == problems {
        reader.not_allowed(SECTION, "collectors", &collectors.span);
    }
    (count > 0).then_some(settings)
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattline_router::config::Config;

    const PORT: &str = "[[port]]\nname = \"a\"\ncapture = { read = \"x\" }\n[flow_records]\n";

    fn parse(text: &str) -> Result<FlowRecordsSettings, String> {
        let text = format!("{PORT}{text}");
        let config = Config::parse_with(&text, "test", &[&FLOW_RECORDS]);
        let config = config.map_err(|problems| problems.to_string())?;
        Ok(config.of::<FlowRecordsSettings>().unwrap().clone())
    }

    #[test]
    fn every_key_is_read() {
        let settings = parse(
            "collectors = [\"ipfix://192.0.2.9:4739\", \"ipfix+tcp://[2001:db8::9]:4739\", \
             \"netflow9://192.0.2.9:2055\"]\nports = [\"a\"]\nobserve = \"received\"\n\
             active_timeout = \"30min\"\nidle_timeout = \"1s\"\nflows = 1024\nsampling = 100\n\
             sampling_mode = \"random\"\nobservation_domain = 4294967295\n\
             template_interval = \"5s\"\nmessage_bytes = 9000\n",
        )
        .unwrap();
        let names: Vec<String> = settings.collectors.iter().map(ToString::to_string).collect();
        let expected = [
            "ipfix://192.0.2.9:4739",
            "ipfix+tcp://[2001:db8::9]:4739",
            "netflow9://192.0.2.9:2055",
        ];
        assert_eq!(names, expected);
        assert_eq!((settings.ports, settings.place), (vec![0], Place::Received));
        assert_eq!(
            (settings.active, settings.idle),
            (Duration::from_secs(1800), Duration::from_secs(1))
        );
        assert_eq!((settings.flows, settings.sampling_interval), (1024, 100));
        assert_eq!((settings.sampling, settings.domain), (Sampling::Random, u32::MAX));
        assert_eq!(settings.template_interval, Duration::from_secs(5));
        assert_eq!(settings.message_bytes, 9000);
    }

    #[test]
    fn recorded_packets_must_pass_workers() {
        let text = "[[port]]\nname = \"a\"\ninterface = \"eth0\"\n[flow_records]\n\
                    collectors = [\"netflow9://192.0.2.9:2055\"]\n";
        let config = Config::parse_with(text, "test", &[&FLOW_RECORDS]).unwrap();
        assert_eq!(config.obstacles_to_xdp_forwarding(), ["[flow_records]"]);
    }

    #[test]
    fn all_mistakes_are_reported_at_once() {
        let text = parse(
            "collectors = [\"udp://192.0.2.9:1\", \"ipfix://name:4739\", \"ipfix://192.0.2.9:0\"]\n\
             ports = [\"b\"]\nobserve = \"sent\"\nidle_timeout = \"2h\"\nflows = 1\nsampling = 0\n\
             colectors = []\n",
        )
        .unwrap_err();
        assert_eq!(text.lines().count(), 9, "{text}");
        assert!(text.contains("did you mean \"collectors\"?"), "{text}");
        assert!(parse("").unwrap_err().contains("collectors: is missing"));
        assert!(parse("collectors = []").unwrap_err().contains("1 to 16"));
        let twice = "collectors = [\"ipfix://192.0.2.9:1\", \"ipfix://192.0.2.9:1\"]";
        assert!(parse(twice).unwrap_err().contains("without repetition"));
    }
}

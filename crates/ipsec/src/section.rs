//! The sections of IPsec: `[ipsec]`, `[[ipsec_tunnel]]` and `[[ipsec_policy]]`.

use crate::esp::algorithm::Algorithm;
use crate::esp::association::{DontFragment, Dscp, Limits};
use crate::esp::key::KeyMaterial;
use ipnet::IpNet;
use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use wattline_daemon::settings::{
    Key, Reader, Section, Table, defaulted, each, parse_duration, parse_name, required,
    single_or_empty,
};
use wattline_packet::esp::SPI_MIN;
use wattline_router::config::{ApplicationSection, PortSettings, Settings};
use wattline_units::parse_count;

/// Name of the general section.
pub(crate) const IPSEC: Section = Section::Named("[ipsec]");
/// Name of the section of a tunnel.
pub(crate) const TUNNEL: Section = Section::Named("[[ipsec_tunnel]]");
/// Name of the section of a policy.
pub(crate) const POLICY: Section = Section::Named("[[ipsec_policy]]");

/// Keys of the sections, in the order of the reference.
#[rustfmt::skip]
const KEYS: &[Key] = &[
    Key::new(IPSEC, "state", Some("\"/var/lib/wattline/ipsec\""), "\"state\"", "the path of a directory, relative to this file",
        "Directory that keeps the use of keys over restarts, so that no nonce is ever used twice with a key. Keys without a\nrecord are refused until `wattline new-keys` declares them. Created with mode 0700 if missing."),
    Key::new(IPSEC, "kernel", Some("false"), "true", "true or false",
        "Use the kernel's associations and policies (XFRM), which an IKE daemon such as strongSwan makes."),
    Key::new(IPSEC, "block_when_stopped", Some("true"), "false", "true or false",
        "While no router runs, the kernel blocks packets that the policies of this file protect: before the start, when a start\nfails, and after the end. `wattline stop --open` ends this once. With false, the kernel forwards them in clear except after a crash."),
    Key::new(TUNNEL, "name", None, "\"branch\"", "a name of letters, digits, '-', '_' and '.', unique among the tunnels",
        "The tunnel's name in this file and in all output. Required."),
    Key::new(TUNNEL, "local", None, "\"198.51.100.1\"", "a unicast IPv4 or IPv6 address",
        "The near end of the tunnel: an address of this machine. Required."),
    Key::new(TUNNEL, "remote", None, "\"203.0.113.1\"", "a unicast IPv4 or IPv6 address",
        "The far end. Required."),
    Key::new(TUNNEL, "algorithm", Some("\"aes128-gcm\""), "\"aes256-cbc-sha256\"", "\"aes128-gcm\", \"aes256-gcm\", \"aes128-cbc-sha1\", \"aes256-cbc-sha1\", \"aes128-cbc-sha256\" or \"aes256-cbc-sha256\"",
        "Encryption and authentication of packets."),
    Key::whole(TUNNEL, "spi_in", None, "0x1001", SPI_MIN..=u32::MAX,
        "The security parameter index of received packets. Required."),
    Key::whole(TUNNEL, "spi_out", None, "0x1002", SPI_MIN..=u32::MAX,
        "The security parameter index of sent packets. Required."),
    Key::new(TUNNEL, "key_in_file", None, "\"branch-in.key\"", "the path of a file, relative to this one",
        "A file with the key of received packets, in hexadecimal digits: the key of the cipher, followed by\nthe salt of GCM (4 bytes) or by the key of the HMAC (20 bytes for SHA1, 32 for SHA256). Its mode must be 0600 or 0400."),
    Key::new(TUNNEL, "key_out_file", None, "\"branch-out.key\"", "the path of a file, relative to this one",
        "The same for sent packets. The two keys must differ."),
    Key::new(TUNNEL, "key_in", None, "\"00112233445566778899aabbccddeeff01020304\"", "hexadecimal digits",
        "Instead of key_in_file: the key itself. For tests only: everyone who can read this file can decrypt all packets.").secret(),
    Key::new(TUNNEL, "key_out", None, "\"ffeeddccbbaa9988776655443322110004030201\"", "hexadecimal digits",
        "Instead of key_out_file: the key itself.").secret(),
    Key::new(TUNNEL, "extended_sequence", Some("true"), "false", "true or false",
        "Sequence numbers of 64 bits (ESN). Both ends must agree. With 32 bits a key ends after 2^32 packets."),
    Key::whole(TUNNEL, "replay_window", Some("1024"), "4096", 32..=65536,
        "Sequence numbers by which a packet may be late. At least 64 for each worker of the sender."),
    Key::new(TUNNEL, "udp_encapsulation", Some("false"), "true", "true or false",
        "Packets travel in UDP, from port 4500 (RFC 3948), for a NAT on the path. Both ends must agree."),
    Key::whole(TUNNEL, "udp_port", Some("4500"), "31337", 1..=65535,
        "The UDP port of the far end, as seen from here."),
    Key::whole(TUNNEL, "mtu", None, "1400", 576..=65535,
        "The longest outer packet in bytes, if the path has a smaller MTU than the port. Default: the MTU of the route."),
    Key::new(TUNNEL, "dscp", Some("\"copy\""), "\"46\"", "\"copy\" or a number from \"0\" to \"63\"",
        "The DSCP of outer packets: that of the inner one, or always the same."),
    Key::new(TUNNEL, "dont_fragment", Some("\"copy\""), "\"set\"", "\"copy\", \"set\" or \"clear\"",
        "\"Don't fragment\" flag of outer IPv4 packets: copied from the inner one, always set, or never."),
    Key::new(TUNNEL, "soft_time", None, "\"20h\"", "a duration from \"1s\", such as \"8h\"",
        "Warn once the keys have been used for this time."),
    Key::new(TUNNEL, "soft_packets", None, "\"3G\"", "a whole number, with k, M, G or T, such as \"500M\"",
        "Warn after this many packets in one direction."),
    Key::new(TUNNEL, "soft_bytes", None, "\"900G\"", "a whole number, with k, M, G or T, such as \"500M\"",
        "Warn after this many bytes in one direction."),
    Key::new(TUNNEL, "hard_time", None, "\"24h\"", "a duration from \"1s\", such as \"8h\"",
        "Use the keys no longer than this."),
    Key::new(TUNNEL, "hard_packets", None, "\"4G\"", "a whole number, with k, M, G or T, such as \"500M\"",
        "Use the key of a direction for no more packets, to the batch."),
    Key::new(TUNNEL, "hard_bytes", None, "\"1T\"", "a whole number, with k, M, G or T, such as \"500M\"",
        "Use the key of a direction for no more bytes, to the batch."),
    Key::new(POLICY, "source", None, "\"10.1.0.0/16\"", "an IPv4 or IPv6 prefix without host bits, such as \"10.1.0.0/16\"",
        "Source prefix of sent packets, and destination prefix of received ones. Required."),
    Key::new(POLICY, "destination", None, "\"10.2.0.0/16\"", "a prefix of the same family as source",
        "Destination prefix of sent packets, and source prefix of received ones. Required."),
    Key::new(POLICY, "action", Some("\"protect\""), "\"discard\"", "\"protect\", \"bypass\" or \"discard\"",
        "Send through a tunnel only, in clear, or drop. The first match decides; packets without a match pass."),
    Key::new(POLICY, "tunnel", None, "\"branch\"", "the name of a tunnel",
        "The tunnel of protected packets."),
];

/// IPsec settings of the configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct IpsecSettings {
    /// File of the configuration; empty if it was not read from a file.
    pub file: PathBuf,
    /// Directory that keeps the use of keys over restarts.
    pub state: PathBuf,
    /// True if the kernel's SAs and policies are used.
    pub kernel: bool,
    /// True if the kernel blocks protected packets while no router runs.
    pub block_when_stopped: bool,
    /// Tunnels with keys from the configuration.
    pub tunnels: Vec<TunnelSettings>,
    /// Policies in the order in which they apply.
    pub policies: Vec<PolicySettings>,
}

/// A `[[ipsec_tunnel]]` section.
#[derive(Debug, Clone, PartialEq)]
pub struct TunnelSettings {
    /// Name of the tunnel.
    pub name: String,
    /// Address of the end here.
    pub local: IpAddr,
    /// Address of the far end, of the same IP version.
    pub remote: IpAddr,
    /// Algorithm that protects the packets.
    pub algorithm: Algorithm,
    /// SPI of received packets.
    pub spi_in: u32,
    /// SPI of sent packets.
    pub spi_out: u32,
    /// Key for received packets.
    pub key_in: KeySource,
    /// Key for sent packets.
    pub key_out: KeySource,
    /// True if sequence numbers have 64 bits.
    pub extended: bool,
    /// Size of the anti-replay window in packets.
    pub window: u32,
    /// The peer's UDP port if packets are encapsulated in UDP.
    pub udp: Option<u16>,
    /// Length of the longest outer packet in bytes.
    pub mtu: u16,
    /// DSCP of outer packets.
    pub dscp: Dscp,
    /// "Don't fragment" flag of outer packets.
    pub dont_fragment: DontFragment,
    /// Lifetime after which a warning asks for new keys.
    pub soft: Lifetime,
    /// Lifetime after which the keys are no longer used.
    pub hard: Lifetime,
}

/// Lifetime of keys, counted for each direction.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Lifetime {
    /// Limit of use.
    pub limits: Limits,
    /// Limit of time; `None` for no limit.
    pub time: Option<Duration>,
}

/// Location of a key.
#[derive(Debug, Clone, PartialEq)]
pub enum KeySource {
    /// A separate file.
    File(PathBuf),
    /// The configuration itself.
    Inline(KeyMaterial),
}

/// An `[[ipsec_policy]]` section.
#[derive(Debug, Clone, PartialEq)]
pub struct PolicySettings {
    /// Source prefix of packets that are sent.
    pub source: IpNet,
    /// Destination prefix, of the same IP version.
    pub destination: IpNet,
    /// Treatment of these packets.
    pub action: PolicyAction,
}

/// Treatment of packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PolicyAction {
    /// They go through the tunnel with this index.
    Protect(usize),
    /// They pass unchanged.
    Bypass,
    /// They are dropped.
    Discard,
}

impl Settings for IpsecSettings {
    fn heading(&self) -> &'static str {
        IPSEC.heading()
    }

    fn resolve_paths(&mut self, file: &Path) {
        file.clone_into(&mut self.file);
        let directory = file.parent().unwrap_or(Path::new(""));
        let resolve = |path: &mut PathBuf| *path = directory.join(&*path);
        resolve(&mut self.state);
        let keys = self.tunnels.iter_mut().flat_map(|it| [&mut it.key_in, &mut it.key_out]);
        for key in keys {
            if let KeySource::File(path) = key {
                resolve(path);
            }
        }
    }
}

/// The sections.
pub static SECTIONS: ApplicationSection = ApplicationSection {
    names: &["ipsec", "ipsec_tunnel", "ipsec_policy"],
    keys: KEYS,
    read: Ok(read_section),
};

fn read_section(
    reader: &mut Reader,
    root: &Table,
    _ports: &[PortSettings],
) -> Option<Arc<dyn Settings>> {
    Some(Arc::new(read(reader, root)?))
}

/// Reads all sections; `None` if there is none.
fn read(reader: &mut Reader, root: &Table) -> Option<IpsecSettings> {
    if !["ipsec", "ipsec_tunnel", "ipsec_policy"].iter().any(|name| root.has(name)) {
        return None;
    }
    let table = single_or_empty(reader, root, IPSEC, "ipsec");
    reader.refuse_unknown(&table);
    let mut settings = IpsecSettings {
        file: PathBuf::new(),
        state: defaulted(reader.parsed(&table, "state", path)),
        kernel: reader.flag(&table, "kernel"),
        block_when_stopped: reader.flag(&table, "block_when_stopped"),
        tunnels: Vec::new(),
        policies: Vec::new(),
    };
    let tables = each(reader, root, TUNNEL, "ipsec_tunnel");
    // Includes the names of invalid tunnels, so that policies that name them are not reported as
    // well.
    let names: Vec<Option<String>> = tables
        .iter()
        .map(|table| Some(required(reader, table, "name", parse_name)?.value))
        .collect();
    let mut places = vec![None; tables.len()];
    let mut by_name: HashMap<&str, usize> = HashMap::new();
    for (place, table) in tables.iter().enumerate() {
        if let Some(name) = &names[place]
            && *by_name.entry(name).or_insert(place) != place
        {
            reader.problem_in(table, "name", format!("another tunnel is named {name} already"));
        }
        let name = names[place].clone();
        if let Some(tunnel) = name.and_then(|name| read_tunnel(reader, table, name)) {
            places[place] = Some(settings.tunnels.len());
            settings.tunnels.push(tunnel);
        }
    }
    let mut taken = HashSet::new();
    for (table, number) in tables.iter().zip(&places).filter_map(|(it, at)| Some((it, (*at)?))) {
        let tunnel = &settings.tunnels[number];
        if !taken.insert((tunnel.spi_in, tunnel.local)) {
            let message = "another tunnel to this address has the same one".to_owned();
            reader.problem_in(table, "spi_in", message);
        }
    }
    for table in each(reader, root, POLICY, "ipsec_policy") {
        settings.policies.extend(read_policy(reader, &table, &by_name, &places));
    }
    Some(settings)
}

fn path(text: &str) -> Option<PathBuf> {
    (!text.is_empty()).then(|| PathBuf::from(text))
}

fn read_tunnel(reader: &mut Reader, table: &Table, name: String) -> Option<TunnelSettings> {
    reader.refuse_unknown(table);
    let unicast = |text: &str| {
        let address: IpAddr = text.parse().ok()?;
        (!address.is_multicast() && !address.is_unspecified()).then_some(address)
    };
    let local = required(reader, table, "local", unicast);
    let remote = required(reader, table, "remote", unicast);
    if let (Some(local), Some(remote)) = (&local, &remote)
        && (local.value.is_ipv4() != remote.value.is_ipv4() || local.value == remote.value)
    {
        let message = "must be another address of the family of local".to_owned();
        reader.problem(TUNNEL, "remote", &remote.span, message);
    }
    let algorithm = defaulted(reader.parsed(table, "algorithm", Algorithm::named));
    let mut spi = |key| {
        if !table.has(key) {
            let allowed = reader.allowed(TUNNEL, key);
            reader.problem_in(table, key, format!("is missing; it must be {allowed}"));
        }
        reader.number(table, key).map(|spi| spi.value)
    };
    let (spi_in, spi_out) = (spi("spi_in"), spi("spi_out"));
    let key_in = read_key(reader, table, algorithm, "key_in", "key_in_file");
    let key_out = read_key(reader, table, algorithm, "key_out", "key_out_file");
    let window = defaulted(reader.number(table, "replay_window"));
    let port = defaulted(reader.number(table, "udp_port")) as u16;
    let udp = reader.flag(table, "udp_encapsulation");
    let mtu = reader.number(table, "mtu").map_or(u16::MAX, |mtu| mtu.value as u16);
    let dscp = reader.parsed(table, "dscp", |text| match text {
        "copy" => Some(Dscp::Copy),
        number => Some(Dscp::Set(number.parse().ok().filter(|dscp| *dscp < 64)?)),
    });
    let dont_fragment = reader.parsed(table, "dont_fragment", |text| match text {
        "copy" => Some(DontFragment::Copy),
        "set" => Some(DontFragment::Set),
        "clear" => Some(DontFragment::Clear),
        _ => None,
    });
    let soft = read_lifetime(reader, table, "soft_time", "soft_packets", "soft_bytes");
    let hard = read_lifetime(reader, table, "hard_time", "hard_packets", "hard_bytes");
    Some(TunnelSettings {
        name,
        local: local?.value,
        remote: remote?.value,
        algorithm,
        spi_in: spi_in?,
        spi_out: spi_out?,
        key_in: key_in?,
        key_out: key_out?,
        extended: reader.flag(table, "extended_sequence"),
        window,
        udp: udp.then_some(port),
        mtu,
        dscp: defaulted(dscp),
        dont_fragment: defaulted(dont_fragment),
        soft,
        hard,
    })
}

fn read_key(
    reader: &mut Reader,
    table: &Table,
    algorithm: Algorithm,
    inline: &str,
    file: &str,
) -> Option<KeySource> {
    if table.has(inline) == table.has(file) {
        let message = format!("needs either {file} or {inline}");
        reader.problem_in(table, "", message);
        return None;
    }
    if table.has(file) {
        return Some(KeySource::File(reader.parsed(table, file, path)?.value));
    }
    let text = reader.secret(table, inline)?;
    match KeyMaterial::from_hex(algorithm, &text) {
        Ok(key) => Some(KeySource::Inline(key)),
        Err(error) => {
            reader.problem_in(table, inline, error.to_string());
            None
        }
    }
}

fn read_lifetime(
    reader: &mut Reader,
    table: &Table,
    time: &str,
    packets: &str,
    bytes: &str,
) -> Lifetime {
    let second = Duration::from_secs(1);
    let duration = |text: &str| parse_duration(text).filter(|time| *time >= second);
    let time = reader.parsed(table, time, duration).map(|time| time.value);
    let amount = |text: &str| parse_count(text).filter(|amount| *amount > 0);
    let mut limit = |key| reader.parsed(table, key, amount).map_or(u64::MAX, |it| it.value);
    Lifetime { limits: Limits { packets: limit(packets), bytes: limit(bytes) }, time }
}

/// Names that a message lists; there may be a message for each line of the file.
const MOST_NAMES: usize = 32;

fn read_policy(
    reader: &mut Reader,
    table: &Table,
    names: &HashMap<&str, usize>,
    places: &[Option<usize>],
) -> Option<PolicySettings> {
    reader.refuse_unknown(table);
    let exact = |text: &str| text.parse::<IpNet>().ok().filter(|net| net.addr() == net.network());
    let source = required(reader, table, "source", exact);
    let destination = required(reader, table, "destination", exact);
    if let (Some(source), Some(destination)) = (&source, &destination)
        && source.value.addr().is_ipv4() != destination.value.addr().is_ipv4()
    {
        let message = "is of the other family than source".to_owned();
        reader.problem(POLICY, "destination", &destination.span, message);
    }
    let known =
        |text: &str| matches!(text, "protect" | "bypass" | "discard").then(|| text.to_owned());
    let action = defaulted(reader.parsed(table, "action", known));
    let action = match (action.as_str(), table.has("tunnel")) {
        ("protect", true) => {
            let name = reader.string(table, "tunnel")?;
            let Some(place) = names.get(name.value.as_str()).copied() else {
                let message = match names.len() {
                    0 => "is not a tunnel: there is none; add an [[ipsec_tunnel]]".to_owned(),
                    1..=MOST_NAMES => {
                        let mut known: Vec<&str> = names.keys().copied().collect();
                        known.sort_unstable_by_key(|name| names[name]);
                        format!("is not a tunnel: the tunnels are {}", known.join(", "))
                    }
                    many => format!("is none of the {many} tunnels"),
                };
                reader.problem(POLICY, "tunnel", &name.span, message);
                return None;
            };
            // An invalid name has been reported already.
            PolicyAction::Protect(places[place]?)
        }
        ("protect", false) => {
            reader.problem_in(table, "", "needs tunnel, or another action".to_owned());
            return None;
        }
        (_, true) => {
            let message = "stands only where the action is \"protect\"".to_owned();
            reader.problem_in(table, "tunnel", message);
            return None;
        }
        ("bypass", false) => PolicyAction::Bypass,
        _ => PolicyAction::Discard,
    };
    Some(PolicySettings { source: source?.value, destination: destination?.value, action })
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattline_daemon::settings::Problems;
    use wattline_router::config::Config;

    const TEXT: &str = "[[port]]\nname = \"a\"\ncapture = { read = \"x\" }\n\
        [[ipsec_tunnel]]\nname = \"t\"\nlocal = \"192.0.2.1\"\nremote = \"192.0.2.2\"\n\
        spi_in = 0x1001\nspi_out = 4098\nkey_in_file = \"in.key\"\n\
        key_out = \"00112233445566778899aabbccddeeff01020304\"\nhard_bytes = \"2G\"\n\
        [[ipsec_policy]]\nsource = \"10.1.0.0/16\"\ndestination = \"10.2.0.0/16\"\ntunnel = \"t\"\n";

    fn parse(text: &str) -> Result<Config, Problems> {
        Config::parse_with(text, "test", &[&SECTIONS])
    }

    fn errors(from: &str, to: &str) -> String {
        assert!(TEXT.contains(from), "{from}");
        parse(&TEXT.replace(from, to)).unwrap_err().to_string()
    }

    #[test]
    fn a_tunnel_and_its_policy_are_read() {
        let config = parse(TEXT).unwrap();
        let ipsec = config.of::<IpsecSettings>().unwrap();
        let tunnel = &ipsec.tunnels[0];
        assert_eq!((tunnel.spi_in, tunnel.spi_out), (0x1001, 0x1002));
        assert_eq!(tunnel.key_in, KeySource::File("in.key".into()));
        assert_eq!(tunnel.hard.limits.bytes, 2_000_000_000);
        assert_eq!((tunnel.window, tunnel.extended, tunnel.udp), (1024, true, None));
        assert_eq!(ipsec.policies[0].action, PolicyAction::Protect(0));
        let without = TEXT.split("[[ipsec").next().unwrap();
        assert_eq!(parse(without).unwrap().of::<IpsecSettings>(), None);
    }

    #[test]
    fn mistakes_are_reported_without_keys() {
        for (from, to, reported) in [
            ("spi_in = 0x1001", "spi_in = 255", "from 256"),
            ("spi_out = 4098\n", "", "spi_out: is missing"),
            ("\"192.0.2.2\"", "\"2001:db8::1\"", "family of local"),
            ("key_in_file = \"in.key\"\n", "", "needs either key_in_file or key_in"),
            ("tunnel = \"t\"", "tunnel = \"u\"", "the tunnels are t"),
            ("name = \"t\"\n", "", "there is none; add an [[ipsec_tunnel]]"),
            ("tunnel = \"t\"", "action = \"discard\"\ntunnel = \"t\"", "\"protect\""),
            ("\"2G\"", "\"2X\"", "hard_bytes"),
            ("aabbccddeeff01020304", "aabb", "has 12"),
            ("aabbccddeeff01020304\"", "aabbccddeeff0102030g\"", "hexadecimal"),
            ("\"00112233445566778899aabbccddeeff01020304\"", "0x112233445566778", "key_out"),
            ("aabbccddeeff01020304\"", "aabbccddeeff01020304", "syntax"),
        ] {
            let text = errors(from, to);
            assert!(text.contains(reported), "{reported}: {text}");
            assert!(!text.contains("112233"), "{text}");
        }
        // Reported at the section that repeats the name, even if that section is invalid otherwise.
        let (ports, tunnel) = TEXT.split_once("[[ipsec_tunnel]]").unwrap();
        let tunnel = tunnel.split("[[ipsec_policy]]").next().unwrap();
        let sections = [
            tunnel.replace("spi_in = 0x1001", "spi_in = 1"),
            tunnel.replace("\"t\"", "\"u\""),
            tunnel.replace("\"t\"", "\"v\""),
        ];
        let text = sections.map(|section| format!("[[ipsec_tunnel]]{section}")).concat();
        let text = parse(&format!("{ports}{text}")).unwrap_err().to_string();
        assert!(text.contains("test:22: [[ipsec_tunnel]] spi_in: another tunnel"), "{text}");
        let config = parse(TEXT).unwrap();
        assert!(!format!("{config:?}").to_lowercase().contains("aabbcc"));
    }
}

//! The list of configuration keys, and what is printed from it.

use super::section::Sections;
use std::fmt::{self, Write};
use std::ops::RangeInclusive;

/// Where in the file a key stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Section {
    /// Before the first section.
    Top,
    /// `[router]`.
    Router,
    /// `[log]`.
    Log,
    /// `[metrics]`.
    Metrics,
    /// `[power]`.
    Power,
    /// `[dpdk]`.
    Dpdk,
    /// `[[port]]`, once per port.
    Port,
    /// The value of `capture` in a `[[port]]`.
    Capture,
    /// `[[route]]`, once per route.
    Route,
    /// `[[neighbour]]`, once per neighbour.
    Neighbour,
    /// A section of an application, by how it is written in the file: `[ipsec]`, or with two
    /// brackets where it may be repeated.
    Application(&'static str),
}

impl Section {
    /// How it is written in the file.
    pub fn heading(self) -> &'static str {
        match self {
            Self::Top => "top level",
            Self::Router => "[router]",
            Self::Log => "[log]",
            Self::Metrics => "[metrics]",
            Self::Power => "[power]",
            Self::Dpdk => "[dpdk]",
            Self::Port => "[[port]]",
            Self::Capture => "[[port]] capture",
            Self::Route => "[[route]]",
            Self::Neighbour => "[[neighbour]]",
            Self::Application(heading) => heading,
        }
    }
}

/// One key.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    /// Where it stands.
    pub section: Section,
    /// Its name.
    pub name: &'static str,
    /// Its default as TOML; `None` when it has none (see `doc`).
    pub default: Option<&'static str>,
    /// An example value as TOML, for keys without a default.
    pub example: &'static str,
    /// What is allowed.
    pub allowed: Allowed,
    /// What it does.
    pub doc: &'static str,
}

impl Key {
    /// A key whose allowed values are told in words, in the order of the fields.
    pub const fn new(
        section: Section,
        name: &'static str,
        default: Option<&'static str>,
        example: &'static str,
        allowed: &'static str,
        doc: &'static str,
    ) -> Self {
        Self { section, name, default, example, allowed: Allowed::Words(allowed), doc }
    }

    /// A whole number in a range, which [`super::read::Reader::number`] checks.
    pub const fn whole(
        section: Section,
        name: &'static str,
        default: Option<&'static str>,
        example: &'static str,
        range: RangeInclusive<u32>,
        doc: &'static str,
    ) -> Self {
        let allowed = Allowed::Whole(*range.start(), *range.end());
        Self { section, name, default, example, allowed, doc }
    }

    /// A duration in a range (shortest, longest, an example for messages), which
    /// [`super::read::Reader::duration`] checks.
    pub const fn duration(
        section: Section,
        name: &'static str,
        default: Option<&'static str>,
        example: &'static str,
        (shortest, longest, such_as): (&'static str, &'static str, &'static str),
        doc: &'static str,
    ) -> Self {
        let allowed = Allowed::Duration { shortest, longest, such_as };
        Self { section, name, default, example, allowed, doc }
    }
}

/// What a key allows. Its text stands in error messages after "must be", in the reference and in
/// `wattline config`; values are checked against the same range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Allowed {
    /// In words; the code that reads the key checks it.
    Words(&'static str),
    /// A whole number from the first to the second.
    Whole(u32, u32),
    /// A duration.
    Duration {
        /// The shortest, as a configuration has it.
        shortest: &'static str,
        /// The longest.
        longest: &'static str,
        /// An example for messages.
        such_as: &'static str,
    },
}

impl fmt::Display for Allowed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Words(words) => f.write_str(words),
            Self::Whole(low, high) => write!(f, "a whole number from {low} to {high}"),
            Self::Duration { shortest, longest, such_as } => {
                write!(f, "a duration from \"{shortest}\" to \"{longest}\", such as \"{such_as}\"")
            }
        }
    }
}

impl serde::Serialize for Allowed {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Every key of the router itself, in the order of the reference.
#[rustfmt::skip]
pub const KEYS: &[Key] = &[
    Key::new(Section::Top, "routes_file", None, "\"routes.txt\"", "the path of a file, relative to this one",
        "More static routes: one prefix per line, followed by the address of the neighbour or by\nblackhole, unreachable or prohibit; # begins a comment. This key may be in any section."),
    Key::whole(Section::Router, "workers", Some("1"), "2", 1..=64,
        "Worker threads. Worker q serves queue q of every port; queues beyond the workers are spread over them.\nWorkers beyond the queues of the port with the fewest are not started; the log and `stats` say so."),
    Key::new(Section::Router, "mode", Some("\"adaptive\""), "\"poll\"", "\"poll\", \"interrupt\" or \"adaptive\"",
        "What a worker does when its queues are empty. poll: it polls them all the time. interrupt: it blocks at once.\nadaptive: it polls for the time `idle` and then blocks."),
    Key::whole(Section::Router, "batch", Some("64"), "32", 1..=64,
        "Most frames that a worker takes from a queue at once."),
    Key::new(Section::Router, "cpus", Some("[]"), "[2, 3]", "a list of CPU numbers from 0 to 1023, one per worker, without repetition",
        "The CPU that each worker is pinned to, on whose NUMA node its packet memory lies; empty: not pinned."),
    Key::new(Section::Router, "busy_poll", Some("false"), "true", "true or false",
        "Ask the kernel for preferred busy polling on AF_XDP sockets (Documentation/networking/napi.rst). It has no effect on queues\nthat defer no interrupts, which `stats` says; [power] platform \"host\" defers them while workers poll."),
    Key::new(Section::Router, "xdp_forward", Some("\"auto\""), "\"off\"", "\"auto\", \"on\" or \"off\"",
        "Whether XDP programs forward packets that need nothing but the kernel's routes; workers get the rest.\nauto: they do so if AF_XDP copies frames, no worker polls, no policy decides at batches of packets, and\nno application, route or port setting of this file needs to see the packets."),
    Key::new(Section::Router, "takeover", Some("\"narrow\""), "\"strict\"", "\"strict\", \"narrow\" or \"force\"",
        "What to do with ports whose packets the kernel would filter, translate, shape, or route by rules or a VRF.\nstrict: the router does not start, and names each reason. narrow: the kernel forwards for these ports, or\nfor all ports if the affected ones are not known. force: Wattline forwards anyway. The router checks this\nat the start and while it runs; while it runs, strict does the same as narrow."),
    Key::whole(Section::Router, "flow_seed", None, "42", 0..=u32::MAX,
        "Seed of the hash by which workers choose one of several next hops for a flow. Routers in a row need\ndifferent seeds, or the later ones use only one of their links.\nDefault: random at each start; 0 if all ports are captures."),
    Key::new(Section::Router, "kernel_routes", None, "true", "true or false",
        "Follow the kernel's routes (main table), neighbours and addresses.\nDefault: true when a port has an interface."),
    Key::duration(Section::Router, "idle", Some("\"20us\""), "\"1ms\"", ("1us", "1s", "50us"),
        "Longest time that an adaptive worker polls empty queues before it blocks. If frames arrive further\napart than this, it polls for a shorter time or not at all."),
    Key::duration(Section::Router, "drain", Some("\"500ms\""), "\"2s\"", ("0s", "60s", "500ms"),
        "How long workers may continue to forward queued packets after the router was told to stop."),
    Key::whole(Section::Router, "frames", Some("4096"), "16384", 1024..=32768,
        "Chunks of packet memory per worker, where all ports are captures or over DPDK. AF_XDP sizes its own."),
    Key::whole(Section::Router, "spare_ports", Some("2"), "8", 0..=64,
        "How many ports `wattline reload` can add to those at the start. Memory for their packets is taken at the\nstart: 13 MB per port and worker, 25 MB where an MTU is above 1774, 100 MB at an MTU of 9000, and as much again for\neach further queue of the interface. A port that is removed leaves its memory to the next one. None is taken on\n[power] platform \"scale\", whose ports are fixed."),
    Key::new(Section::Router, "socket", None, "\"/run/wattline/edge.sock\"", "the path of a Unix socket, at most 100 bytes",
        "The control socket. Default: named after this file and the process, in $XDG_RUNTIME_DIR/wattline,\nelse /run/wattline for root, else the directory for temporary files."),
    Key::new(Section::Log, "level", Some("\"info\""), "\"debug\"", "\"error\", \"warn\", \"info\", \"debug\" or \"trace\"",
        "How much is logged to standard error."),
    Key::new(Section::Metrics, "listen", None, "\"127.0.0.1:9417\"", "an address and TCP port such as \"127.0.0.1:9417\" or \"[::1]:9417\"",
        "Where GET /metrics is answered over HTTP, in the text format of Prometheus; nowhere by default.\nAnyone who reaches it may read it."),
    Key::new(Section::Power, "platform", Some("\"none\""), "\"scale\"", "\"none\", \"scale\" or \"host\"",
        "What the governor controls. scale: workers that behave like the cores of a server model, slowed down;\npower is emulated. host: the knobs of this machine. none: no governor."),
    Key::new(Section::Power, "policy", Some("\"powersave\""), "\"powersave:c_up=2,batch=16\"", "a policy, NAME or NAME:key=value,key=value (`wattline policies` lists them)",
        "The governor."),
    Key::new(Section::Power, "server", Some("\"westmere-2010\""), "\"server.toml\"", "the name of a shipped server model (`wattline servers` lists them) or the path of a file",
        "The server model: of the emulated server, or of this machine for policies that reckon with one."),
    Key::new(Section::Power, "application", Some("\"ipv4\""), "\"ipsec\"", "\"ipv4\", \"netflow\", \"ipsec\" or \"re\"",
        "What the model is said to do with each packet."),
    Key::whole(Section::Power, "scale", Some("500"), "100", 1..=1000000,
        "How many times as long everything lasts on platform scale."),
    Key::whole(Section::Power, "seed", Some("1"), "2", 0..=u32::MAX,
        "Seed of policies and service times that draw random numbers."),
    Key::duration(Section::Power, "sample", Some("\"1ms\""), "\"500us\"", ("100us", "1s", "1ms"),
        "On host: how often the queues are read for a policy that decides at batches."),
    Key::new(Section::Power, "on_exit", Some("\"restore\""), "\"performance\"", "\"restore\", \"keep\" or \"performance\"",
        "On host: the state of the machine after the end, also when the router is killed. restore: as before.\nkeep: as it is. performance: as before, but with the CPUs at their fastest. `wattline restore` undoes the last two."),
    Key::new(Section::Power, "uncore", Some("false"), "true", "true or false",
        "On host: whether the upper limit of the uncore's frequency (caches, mesh, memory controllers)\ngoes with the fastest core. It holds for all cores of a processor, those without workers too."),
    Key::new(Section::Dpdk, "arguments", Some("[]"), "[\"--no-huge\", \"-m\", \"256\"]", "a list of arguments of DPDK's environment (EAL)",
        "What DPDK is started with, where a port has `dpdk`. Its devices, `--no-pci` where none is a card,\n`--lcores`, `--file-prefix`, `--no-shconf`, `--huge-unlink` and `--no-telemetry` are added unless they are given.\nWithout huge pages it needs `--no-huge` and `-m` MEGABYTES."),
    Key::new(Section::Port, "name", None, "\"a\"", "a name of letters, digits, '-', '_' and '.', unique among the ports",
        "The port's name in this file and in all output. Required."),
    Key::new(Section::Port, "interface", None, "\"eth0\"", "the name of an interface, 1 to 15 bytes without '/' or space",
        "The Linux interface whose traffic is taken over, through AF_XDP; it may be a bond, not a member of one.\nBeside `dpdk`: the TAP device by which the kernel has its part of the port."),
    Key::new(Section::Port, "dpdk", None, "\"0000:03:00.0\"", "the PCI address of a card, or a virtual device of DPDK such as \"net_af_packet0,iface=veth1\"; both may have parameters behind commas",
        "Instead of AF_XDP: a device of DPDK, in a program built with the feature `dpdk`. Needs mode = \"poll\".\nWith `interface`, a TAP device, the kernel's addresses, neighbours and routes hold; without it only those of this file."),
    Key::new(Section::Port, "capture", None, "{ read = \"in.pcap\", write = \"out.pcap\", paced = false }", "a table with read, write or both, paced and original_length",
        "Instead of an interface: capture files (pcap or pcapng). The run ends when all are read."),
    Key::new(Section::Capture, "read", None, "\"in.pcap\"", "the path of a file, relative to this one",
        "The frames that the port receives."),
    Key::new(Section::Capture, "write", None, "\"out.pcap\"", "the path of a file, relative to this one",
        "Where the frames are written that the port sends. A file that exists is replaced."),
    Key::new(Section::Capture, "paced", Some("false"), "true", "true or false",
        "Whether frames arrive at the times of their timestamps, or as fast as they can be forwarded."),
    Key::new(Section::Capture, "original_length", Some("false"), "true", "true or false",
        "Whether packets that a snap length cut are padded with zeros to their original length. Without this they\narrive as captured, and most are dropped as \"bad-length\"."),
    Key::new(Section::Port, "mac", None, "\"02:00:00:00:00:01\"", "a unicast Ethernet address such as \"02:00:00:00:00:01\"",
        "The Ethernet address of a port without an interface; default 02:00:00:00 and the port's number from 1.\nAn interface has its own."),
    Key::new(Section::Port, "addresses", Some("[]"), "[\"192.0.2.1/24\", \"2001:db8::1/64\"]", "a list of addresses with prefix lengths, such as \"192.0.2.1/24\"",
        "The port's own addresses; their prefixes are on its link. With kernel_routes the interface's own are added."),
    Key::whole(Section::Port, "mtu", None, "1500", 68..=9000,
        "Largest IP packet in bytes. Default: 1500 without an interface; the interface's own, which it may only lower."),
    Key::new(Section::Port, "promiscuous", Some("false"), "true", "true or false",
        "Route frames whatever Ethernet address they are sent to."),
    Key::new(Section::Port, "steer", None, "\"sender/uplink\"", "INTERFACE or NAMESPACE/INTERFACE, the sender's end of a veth pair",
        "On platform \"scale\": the sender's end of the veth pair whose near end is `interface`, with as many\ntransmit queues as there are workers. An indirection table put there spreads packets over the queues, and the\ngovernor rewrites it so that cores come and go. Without it on any port all cores stay active."),
    Key::new(Section::Route, "prefix", None, "\"0.0.0.0/0\"", "an IPv4 or IPv6 prefix without host bits, such as \"198.51.100.0/24\"",
        "Destinations. Required."),
    Key::new(Section::Route, "via", None, "[\"198.51.100.2\", \"198.51.100.3\"]", "an address of the prefix's family, ADDRESS%PORT, or a list of 1 to 64 of them",
        "The neighbour, or several of which each flow uses one."),
    Key::new(Section::Route, "port", None, "\"b\"", "the name of a port",
        "The port of the neighbours in `via` (default: the port whose `addresses` in this file hold them; the\ninterfaces' own are not known when the file is read).\nWithout `via` the destinations are on the port's link themselves."),
    Key::new(Section::Route, "kind", None, "\"blackhole\"", "\"blackhole\", \"unreachable\" or \"prohibit\"",
        "Instead of `via` and `port`: discard, silently or with the ICMP error of that name."),
    Key::new(Section::Neighbour, "address", None, "\"198.51.100.2\"", "a unicast IPv4 or IPv6 address",
        "The neighbour's address. Required."),
    Key::new(Section::Neighbour, "mac", None, "\"02:00:00:00:00:02\"", "a unicast Ethernet address such as \"02:00:00:00:00:02\"",
        "The neighbour's Ethernet address. Required."),
    Key::new(Section::Neighbour, "port", None, "\"b\"", "the name of a port",
        "The port it is on (default: the port whose prefix holds the address)."),
];

/// Every key of the router and of these applications, in the order of the reference.
pub fn all(sections: Sections<'_>) -> impl Iterator<Item = &'static Key> {
    KEYS.iter().chain(sections.iter().flat_map(|section| section.keys()))
}

/// The key of this name in a section.
pub(super) fn find(section: Section, name: &str, sections: Sections<'_>) -> Option<&'static Key> {
    all(sections).find(|key| key.section == section && key.name == name)
}

/// Every key with its default and what it does, as a configuration file. Keys without a
/// default and sections that may be repeated are commented out.
pub fn as_toml(sections: Sections<'_>) -> String {
    // Others may be repeated, or are not there unless they are wanted.
    let always = |section| {
        matches!(
            section,
            Section::Top
                | Section::Router
                | Section::Log
                | Section::Metrics
                | Section::Power
                | Section::Dpdk
        )
    };
    toml(all(sections).filter(|key| key.section != Section::Capture), always)
}

/// Some keys in the same form; sections that are not `always` there are commented out.
pub fn toml<'a>(
    keys: impl IntoIterator<Item = &'a Key>,
    always: impl Fn(Section) -> bool,
) -> String {
    let mut text = String::from(
        "# Every key of a Wattline configuration with its default.\n\
         # Commented lines are examples of keys that have no fixed default.\n",
    );
    let mut current = Section::Top;
    for key in keys {
        let optional = !always(key.section);
        if key.section != current {
            let comment = if optional { "# " } else { "" };
            let _ = writeln!(text, "\n{comment}{}", key.section.heading());
            current = key.section;
        }
        text.push('\n');
        for line in key.doc.lines() {
            let _ = writeln!(text, "# {line}");
        }
        let _ = writeln!(text, "# Allowed: {}.", key.allowed);
        let _ = match key.default {
            Some(default) if !optional => writeln!(text, "{} = {default}", key.name),
            Some(default) => writeln!(text, "# {} = {default}", key.name),
            None => writeln!(text, "# {} = {}", key.name, key.example),
        };
    }
    text
}

/// The same list as the body of a reference page, in Markdown.
pub fn as_markdown(sections: Sections<'_>) -> String {
    markdown(all(sections))
}

/// Some keys as the body of a reference page.
pub fn markdown<'a>(keys: impl IntoIterator<Item = &'a Key>) -> String {
    let mut text = String::new();
    let mut current = None;
    for key in keys {
        if current != Some(key.section) {
            let _ = write!(
                text,
                "\n### {}\n\n| key | default | allowed | meaning |\n|---|---|---|---|\n",
                key.section.heading()
            );
            current = Some(key.section);
        }
        let default = key.default.map_or("none".to_owned(), |default| format!("`{default}`"));
        let doc = key.doc.replace('\n', " ");
        let _ = writeln!(
            text,
            "| `{}` | {default} | {}, e.g. `{}` | {doc} |",
            key.name, key.allowed, key.example
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, Problems};

    #[test]
    fn the_printed_defaults_are_a_configuration_that_lacks_only_ports() {
        let problems = Config::parse(&as_toml(&[]), "defaults.toml").unwrap_err();
        assert_eq!(problems.list.len(), 1, "{problems}");
        assert!(problems.list[0].message.contains("[[port]]"), "{problems}");
    }

    /// A configuration with this line in the right section.
    fn with(key: &Key, value: &str) -> Result<Config, Problems> {
        let port = "name = \"a\"\ninterface = \"x\"\n";
        let (name, heading) = (key.name, key.section.heading());
        let text = match key.section {
            Section::Port => format!("[[port]]\n{port}{name} = {value}\n"),
            _ => format!("[[port]]\n{port}{heading}\n{name} = {value}\n"),
        };
        Config::parse(&text, "x")
    }

    /// The text and the check of a range are one, and no default is outside of its own.
    #[test]
    fn ranges_hold_to_their_ends_and_not_beyond() {
        let mut checked = 0;
        for key in KEYS {
            let (good, bad) = match key.allowed {
                Allowed::Words(_) => continue,
                Allowed::Whole(low, high) => (
                    [low.to_string(), high.to_string()],
                    [(i64::from(low) - 1).to_string(), (u64::from(high) + 1).to_string()],
                ),
                Allowed::Duration { shortest, longest, .. } => (
                    [format!("\"{shortest}\""), format!("\"{longest}\"")],
                    ["\"-1s\"".to_owned(), format!("\"{}\"", longest.replace('s', ".001s"))],
                ),
            };
            for value in good.iter().map(String::as_str).chain(key.default) {
                assert!(with(key, value).is_ok(), "{} = {value}: {:?}", key.name, with(key, value));
            }
            for value in &bad {
                let problems = with(key, value).unwrap_err().to_string();
                let must = format!("must be {}", key.allowed);
                assert!(problems.contains(&must), "{} = {value}: {problems}", key.name);
            }
            checked += 1;
        }
        assert!(checked > 8, "{checked}");
    }

    #[test]
    fn every_printed_example_is_accepted() {
        // Uncommenting everything contradicts itself (interface and capture), so only that
        // examples are TOML is checked here; their meaning is in the parser's tests.
        for key in KEYS {
            let text = format!("{} = {}", key.name, key.example);
            assert!(text.parse::<toml::Table>().is_ok(), "{text}");
        }
    }
}

//! The list of configuration keys, and what is printed from it.

use super::section::Sections;
use std::fmt::Write;

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
    /// What is allowed, as it stands in error messages after "must be".
    pub allowed: &'static str,
    /// What it does.
    pub doc: &'static str,
}

impl Key {
    /// One key, in the order of the fields.
    pub const fn new(
        section: Section,
        name: &'static str,
        default: Option<&'static str>,
        example: &'static str,
        allowed: &'static str,
        doc: &'static str,
    ) -> Self {
        Self { section, name, default, example, allowed, doc }
    }
}

/// Every key of the router itself, in the order of the reference.
#[rustfmt::skip]
pub const KEYS: &[Key] = &[
    Key::new(Section::Top, "routes_file", None, "\"routes.txt\"", "the path of a file, relative to this one",
        "More static routes: a prefix per line, followed by the address of the neighbour or by\nblackhole, unreachable or prohibit; # begins a comment. Taken in any section."),
    Key::new(Section::Router, "workers", Some("1"), "2", "a whole number from 1 to 64",
        "Worker threads. Worker q serves queue q of every port; queues beyond the workers are spread over them."),
    Key::new(Section::Router, "mode", Some("\"adaptive\""), "\"poll\"", "\"poll\", \"interrupt\" or \"adaptive\"",
        "What a worker does without work: poll asks its queues again and again, interrupt blocks at once,\nadaptive polls for the time `idle` and then blocks."),
    Key::new(Section::Router, "batch", Some("64"), "32", "a whole number from 1 to 64",
        "Most frames that a worker takes from a queue at once."),
    Key::new(Section::Router, "cpus", Some("[]"), "[2, 3]", "a list of CPU numbers from 0 to 1023, one per worker, without repetition",
        "The CPU that each worker is pinned to; empty: not pinned."),
    Key::new(Section::Router, "busy_poll", Some("false"), "true", "true or false",
        "Ask the kernel for preferred busy polling on AF_XDP sockets (Documentation/networking/napi.rst)."),
    Key::new(Section::Router, "xdp_forward", Some("\"auto\""), "\"off\"", "\"auto\", \"on\" or \"off\"",
        "Whether the XDP programs forward by themselves, by the kernel's routes, what needs nothing else;\nworkers get the rest. auto: where AF_XDP copies frames, no worker polls, no policy decides at\nbatches of packets, and neither an application nor a route or port setting of this file has a say."),
    Key::new(Section::Router, "takeover", Some("\"narrow\""), "\"strict\"", "\"strict\", \"narrow\" or \"force\"",
        "What becomes of ports whose packets the kernel would filter, translate, shape, or route by rules or a VRF.\nstrict: the router does not start, and names each reason. narrow: they are left to the kernel, all of\nthem where it cannot be told which. force: they are forwarded all the same. It is looked for at the start\nand while the router runs, when strict does what narrow does."),
    Key::new(Section::Router, "flow_seed", None, "42", "a whole number from 0 to 4294967295",
        "What decides, with a flow's addresses and ports, which of several next hops workers send it to.\nRouters in a row need different ones, or the later use one of their links.\nDefault: another at each start; 0 where all ports are captures."),
    Key::new(Section::Router, "kernel_routes", None, "true", "true or false",
        "Follow the kernel's routes (main table), neighbours and addresses.\nDefault: true when a port has an interface."),
    Key::new(Section::Router, "idle", Some("\"20us\""), "\"1ms\"", "a duration from \"1us\" to \"1s\", such as \"50us\"",
        "How long an adaptive worker polls in vain at most before it blocks; less, down to nothing, where frames\ncome further apart than this."),
    Key::new(Section::Router, "drain", Some("\"500ms\""), "\"2s\"", "a duration from \"0s\" to \"60s\", such as \"500ms\"",
        "How long workers may go on forwarding what is queued after the router was told to stop."),
    Key::new(Section::Router, "frames", Some("4096"), "16384", "a whole number from 1024 to 32768",
        "Chunks of packet memory per worker, where all ports are captures. AF_XDP sizes its own."),
    Key::new(Section::Router, "socket", None, "\"/run/wattline/edge.sock\"", "the path of a Unix socket, at most 100 bytes",
        "The control socket. Default: named after this file and the process, in $XDG_RUNTIME_DIR/wattline,\nelse /run/wattline for root, else the directory for temporary files."),
    Key::new(Section::Log, "level", Some("\"info\""), "\"debug\"", "\"error\", \"warn\", \"info\", \"debug\" or \"trace\"",
        "How much is logged to standard error."),
    Key::new(Section::Metrics, "listen", None, "\"127.0.0.1:9417\"", "an address and TCP port such as \"127.0.0.1:9417\" or \"[::1]:9417\"",
        "Where GET /metrics is answered over HTTP, in the text format of Prometheus; nowhere by default.\nAnyone who reaches it may read it."),
    Key::new(Section::Power, "platform", Some("\"none\""), "\"scale\"", "\"none\", \"scale\" or \"host\"",
        "What a governor drives. scale: workers behave like the cores of a server model, slowed down;\npower is emulated. host: the knobs of this machine. none: nothing is governed."),
    Key::new(Section::Power, "policy", Some("\"powersave\""), "\"powersave:c_up=2,batch=16\"", "a policy, NAME or NAME:key=value,key=value (`wattline policies` lists them)",
        "The governor."),
    Key::new(Section::Power, "server", Some("\"westmere-2010\""), "\"server.toml\"", "the name of a shipped server model (`wattline servers` lists them) or the path of a file",
        "The server model: of the emulated server, or of this machine for policies that reckon with one."),
    Key::new(Section::Power, "application", Some("\"ipv4\""), "\"ipsec\"", "\"ipv4\", \"netflow\", \"ipsec\" or \"re\"",
        "What the model is said to do with each packet."),
    Key::new(Section::Power, "scale", Some("500"), "100", "a whole number from 1 to 1000000",
        "How many times as long everything lasts on platform scale."),
    Key::new(Section::Power, "seed", Some("1"), "2", "a whole number from 0 to 4294967295",
        "Seed of policies and service times that draw random numbers."),
    Key::new(Section::Power, "sample", Some("\"1ms\""), "\"500us\"", "a duration from \"100us\" to \"1s\", such as \"1ms\"",
        "On host: how often queues are looked at for a policy that wants to be asked at each batch."),
    Key::new(Section::Power, "on_exit", Some("\"restore\""), "\"performance\"", "\"restore\", \"keep\" or \"performance\"",
        "On host: how the machine is left, also when the router is killed: as it was found, as it is,\nor as it was found but with the CPUs at their fastest. `wattline restore` undoes the last two."),
    Key::new(Section::Power, "uncore", Some("false"), "true", "true or false",
        "On host: whether the upper limit of the uncore's frequency (caches, mesh, memory controllers)\ngoes with the fastest core. It holds for all cores of a processor, those without workers too."),
    Key::new(Section::Port, "name", None, "\"a\"", "a name of letters, digits, '-', '_' and '.', unique among the ports",
        "The port's name in this file and in all output. Required."),
    Key::new(Section::Port, "interface", None, "\"eth0\"", "the name of an interface, 1 to 15 bytes without '/' or space",
        "The Linux interface whose traffic is taken over, through AF_XDP."),
    Key::new(Section::Port, "capture", None, "{ read = \"in.pcap\", write = \"out.pcap\", paced = false }", "a table with read, write or both, paced and original_length",
        "Instead of an interface: capture files (pcap or pcapng). The run ends when all are read."),
    Key::new(Section::Capture, "read", None, "\"in.pcap\"", "the path of a file, relative to this one",
        "The frames that the port receives."),
    Key::new(Section::Capture, "write", None, "\"out.pcap\"", "the path of a file, relative to this one",
        "Where the frames are written that the port sends."),
    Key::new(Section::Capture, "paced", Some("false"), "true", "true or false",
        "Whether frames arrive at the times of their timestamps, or as fast as they can be forwarded."),
    Key::new(Section::Capture, "original_length", Some("false"), "true", "true or false",
        "Whether packets that a snap length cut are filled up with zeros to the length that they had; else they\narrive as they were captured, and most are dropped as \"bad-length\"."),
    Key::new(Section::Port, "mac", None, "\"02:00:00:00:00:01\"", "a unicast Ethernet address such as \"02:00:00:00:00:01\"",
        "The Ethernet address of a capture port; default 02:00:00:00 and the port's number from 1.\nAn interface has its own."),
    Key::new(Section::Port, "addresses", Some("[]"), "[\"192.0.2.1/24\", \"2001:db8::1/64\"]", "a list of addresses with prefix lengths, such as \"192.0.2.1/24\"",
        "The port's own addresses; their prefixes are on its link. With kernel_routes the interface's own are added."),
    Key::new(Section::Port, "mtu", None, "1500", "a whole number from 68 to 9000",
        "Largest IP packet in bytes. Default: 1500 for captures; the interface's own, which it may only lower."),
    Key::new(Section::Port, "promiscuous", Some("false"), "true", "true or false",
        "Route frames whatever Ethernet address they are sent to."),
    Key::new(Section::Port, "steer", None, "\"sender/uplink\"", "INTERFACE or NAMESPACE/INTERFACE, the sender's end of a veth pair",
        "On platform \"scale\": the sender's end of the veth pair whose near end is `interface`, with as many\ntransmit queues as there are workers. A redirect table put there spreads packets over the queues, and the\ngovernor rewrites it so that cores come and go. Without it on any port all cores stay active."),
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

/// What is allowed for a key.
pub(super) fn allowed(section: Section, name: &str, sections: Sections<'_>) -> &'static str {
    all(sections)
        .find(|key| key.section == section && key.name == name)
        .map_or("a known key", |key| key.allowed)
}

/// Every key with its default and what it does, as a configuration file. Keys without a
/// default and sections that may be repeated are commented out.
pub fn as_toml(sections: Sections<'_>) -> String {
    // Others may be repeated, or are not there unless they are wanted.
    let always = |section| {
        matches!(
            section,
            Section::Top | Section::Router | Section::Log | Section::Metrics | Section::Power
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
    use crate::config::Config;

    #[test]
    fn the_printed_defaults_are_a_configuration_that_lacks_only_ports() {
        let problems = Config::parse(&as_toml(&[]), "defaults.toml").unwrap_err();
        assert_eq!(problems.list.len(), 1, "{problems}");
        assert!(problems.list[0].message.contains("[[port]]"), "{problems}");
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

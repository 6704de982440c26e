//! The `[router]` section.

use std::collections::HashSet;
use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;
use toml::de::DeValue;
use wattline_daemon::settings::{Key, Reader, Section, Table, defaulted, parse_socket_path, whole};

/// The section.
pub(super) const SECTION: Section = Section::Named("[router]");

/// Keys of the section, in the order of the reference.
#[rustfmt::skip]
pub(super) const KEYS: &[Key] = &[
    Key::whole(SECTION, "workers", Some("1"), "2", 1..=64,
        "Worker threads. Worker q serves queue q of every port; queues beyond the workers are spread over them.\nWorkers beyond the queues of the port with the fewest are not started; the log and `stats` say so."),
    Key::new(SECTION, "mode", Some("\"adaptive\""), "\"poll\"", "\"poll\", \"interrupt\" or \"adaptive\"",
        "Behaviour of a worker whose queues are empty. poll: it polls them all the time. interrupt: it blocks at once.\nadaptive: it polls for the time `idle` and then blocks."),
    Key::whole(SECTION, "batch", Some("64"), "32", 1..=64,
        "Most frames that a worker takes from a queue at once."),
    Key::new(SECTION, "cpus", Some("[]"), "[2, 3]", "a list of CPU numbers from 0 to 1023, one per worker, without repetition",
        "The CPU that each worker is pinned to, on whose NUMA node its packet memory lies; empty: not pinned.\nA CPU that is off-line or outside of the cgroup's cpuset is refused at the start."),
    Key::new(SECTION, "busy_poll", Some("false"), "true", "true or false",
        "Ask the kernel for preferred busy polling on AF_XDP sockets (Documentation/networking/napi.rst). It has no effect on queues\nthat defer no interrupts, which `stats` says; [power] platform \"host\" defers them while workers poll."),
    Key::new(SECTION, "xdp_forward", Some("\"auto\""), "\"off\"", "\"auto\", \"on\" or \"off\"",
        "Whether XDP programs forward packets that need nothing but the kernel's routes; workers get the rest.\nauto: they do so if AF_XDP copies frames, no worker polls, no policy needs data that only workers see, and\nno application, route or port setting of this file needs to see the packets. on: flows of a flowtable, too, which saves\ninstructions where they come by cards and costs some where they come by virtual interfaces."),
    Key::new(SECTION, "trust_drivers", Some("[]"), "[\"ice\"]", "a list of names of drivers",
        "Drivers that are trusted in spite of reports that their zero copy hangs or their links drop; `plan` names them."),
    Key::new(SECTION, "takeover", Some("\"narrow\""), "\"strict\"", "\"strict\", \"narrow\" or \"force\"",
        "Treatment of ports whose packets the kernel would filter, translate, shape, or route by rules or a VRF.\nstrict: the router does not start, and names each reason. narrow: the kernel forwards for these ports, or\nfor all ports if the affected ones are not known. force: Wattline forwards anyway. The router checks this\nat the start and while it runs; while it runs, strict does the same as narrow."),
    Key::whole(SECTION, "flow_seed", None, "42", 0..=u32::MAX,
        "Seed of the hash by which workers choose one of several next hops for a flow while\nnet.ipv4.fib_multipath_hash_seed is 0. Routers in a row need different seeds, or later ones use one link.\nDefault: random at each start; 0 if all ports are captures."),
    Key::new(SECTION, "kernel_routes", None, "true", "true or false",
        "Follow the kernel's routes (main table), neighbours and addresses.\nDefault: true when a port has an interface."),
    Key::whole(SECTION, "audit", Some("10"), "100", 0..=1000,
        "Addresses per second for which the router asks the kernel for its decision and compares it with its own.\nPackets to a prefix about which they differ are left to the kernel. 0: none."),
    Key::duration(SECTION, "idle", Some("\"20us\""), "\"1ms\"", ("1us", "1s", "50us"),
        "Longest time that an adaptive worker polls empty queues before it blocks. If frames arrive further\napart than this, it polls for a shorter time or not at all."),
    Key::duration(SECTION, "drain", Some("\"500ms\""), "\"2s\"", ("0s", "60s", "500ms"),
        "Longest time for workers to forward queued packets when the router stops."),
    Key::whole(SECTION, "frames", Some("4096"), "16384", 1024..=32768,
        "Chunks of packet memory per worker, where all ports are captures. AF_XDP sizes its own."),
    Key::whole(SECTION, "spare_ports", Some("2"), "8", 0..=64,
        "Number of ports that `wattline reload` can add to those at the start. Memory for their packets is taken at the\nstart: 13 MB per port and worker, 25 MB where an MTU is above 1774, 100 MB at an MTU of 9000, and as much again for\neach further queue of the interface. A port that is removed leaves its memory to the next one. None is taken on\n[power] platform \"scale\", whose ports are fixed."),
    Key::new(SECTION, "socket", None, "\"/run/wattline/edge.sock\"", "the path of a Unix socket, at most 100 bytes",
        "The control socket. Default: named after this file and the process, in $XDG_RUNTIME_DIR/wattline,\nelse /run/wattline for root, else the directory for temporary files."),
];

/// The `[router]` section.
#[derive(Debug, Clone, PartialEq)]
pub struct RouterSettings {
    /// Number of worker threads.
    pub workers: u16,
    /// Behaviour of workers without work.
    pub mode: Mode,
    /// Most frames that a worker takes from a queue at once.
    pub batch: u16,
    /// The CPU of each worker; empty when they are not pinned.
    pub cpus: Vec<u16>,
    /// True if sockets ask for preferred busy polling.
    pub busy_poll: bool,
    /// True if XDP programs forward packets that need no worker.
    pub xdp_forward: XdpForwarding,
    /// Drivers whose zero-copy mode is used despite reports of defects.
    pub trust_drivers: Vec<String>,
    /// Treatment of ports whose packets the kernel would do more with than route them.
    pub takeover: Takeover,
    /// Seed that spreads flows over several next hops; random if missing.
    pub flow_seed: Option<u32>,
    /// True if the kernel's routes, neighbours and addresses are followed.
    pub kernel_routes: bool,
    /// Number of addresses per second for which decisions are compared with the kernel's.
    pub audit: u32,
    /// Time for which an adaptive worker polls empty queues before it blocks.
    pub idle: Duration,
    /// Time for which workers may forward queued packets when the router stops.
    pub drain: Duration,
    /// Chunks of packet memory per worker, if no port is served by AF_XDP.
    pub frames: u32,
    /// Number of additional ports for which there is memory.
    pub spare_ports: u16,
    /// Path of the control socket; `None` for the default directory.
    pub socket: Option<PathBuf>,
}

/// Behaviour of workers without work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Polls its queues continuously.
    Poll,
    /// Blocks until frames arrive.
    Interrupt,
    /// Polls while there is work, blocks when there has been none for a while.
    Adaptive,
}

/// Forwarding by XDP programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum XdpForwarding {
    /// If frames would be copied to workers, and no worker has to see them.
    Auto,
    /// Required: otherwise the router does not start.
    On,
    /// Never.
    Off,
}

/// Treatment of ports whose packets the kernel would filter, translate, shape, or route by rules.
pub use wattline_status::TakeoverChoice as Takeover;

/// Reads the section: the settings, and the location of `xdp_forward` if it is "on". The kernel is
/// followed by default if a port has an interface.
pub(super) fn read(
    reader: &mut Reader,
    table: &Table,
    has_interface: bool,
) -> (RouterSettings, Option<Range<usize>>) {
    reader.refuse_unknown(table);
    let known = reader.problems.len();
    let workers = defaulted(reader.number(table, "workers")) as u16;
    let counts = reader.problems.len() == known;
    let xdp_forward = reader.parsed(table, "xdp_forward", parse_xdp_forward);
    let asked_for = xdp_forward.as_ref().filter(|choice| choice.value == XdpForwarding::On);
    let asked_for = asked_for.map(|choice| choice.span.clone());
    let mut settings = RouterSettings {
        workers,
        mode: defaulted(reader.parsed(table, "mode", parse_mode)),
        batch: defaulted(reader.number(table, "batch")) as u16,
        cpus: Vec::new(),
        busy_poll: reader.flag(table, "busy_poll"),
        xdp_forward: defaulted(xdp_forward),
        trust_drivers: Vec::new(),
        takeover: defaulted(reader.parsed(table, "takeover", parse_takeover)),
        flow_seed: reader.number(table, "flow_seed").map(|seed| seed.value),
        kernel_routes: reader.boolean(table, "kernel_routes").unwrap_or(has_interface),
        audit: defaulted(reader.number(table, "audit")),
        idle: defaulted(reader.duration(table, "idle")),
        drain: defaulted(reader.duration(table, "drain")),
        frames: defaulted(reader.number(table, "frames")),
        spare_ports: defaulted(reader.number(table, "spare_ports")) as u16,
        socket: reader.parsed(table, "socket", parse_socket_path).map(|path| path.value),
    };
    let name = |value: &DeValue| value.as_str().map(str::to_owned).filter(|name| !name.is_empty());
    if let Some(drivers) = reader.list(table, "trust_drivers", false, name) {
        settings.trust_drivers = drivers.value.into_iter().map(|name| name.value).collect();
    }
    let cpu = |value: &DeValue| whole(value).filter(|cpu| *cpu < 1024).map(|cpu| cpu as u16);
    let known = reader.problems.len();
    if let Some(cpus) = reader.list(table, "cpus", false, cpu) {
        settings.cpus = cpus.value.iter().map(|cpu| cpu.value).collect();
        // An invalid number of workers is already reported. Any number of CPUs may be right then.
        let wrong = misplaced(&settings.cpus, counts.then_some(workers));
        if let Some(wrong) = wrong.filter(|_| reader.problems.len() == known) {
            reader.problem(SECTION, "cpus", &cpus.span, wrong);
        }
    }
    (settings, asked_for)
}

fn parse_mode(text: &str) -> Option<Mode> {
    match text {
        "poll" => Some(Mode::Poll),
        "interrupt" => Some(Mode::Interrupt),
        "adaptive" => Some(Mode::Adaptive),
        _ => None,
    }
}

fn parse_xdp_forward(text: &str) -> Option<XdpForwarding> {
    match text {
        "auto" => Some(XdpForwarding::Auto),
        "on" => Some(XdpForwarding::On),
        "off" => Some(XdpForwarding::Off),
        _ => None,
    }
}

fn parse_takeover(text: &str) -> Option<Takeover> {
    match text {
        "strict" => Some(Takeover::Strict),
        "narrow" => Some(Takeover::Narrow),
        "force" => Some(Takeover::Force),
        _ => None,
    }
}

/// Lists faults of a list of CPUs that do not depend on the machine. `workers` is the number of
/// workers, if known. An empty list has no faults.
fn misplaced(cpus: &[u16], workers: Option<u16>) -> Option<String> {
    let mut wrong = Vec::new();
    let count = cpus.len();
    if let Some(workers) = workers.filter(|it| count > 0 && count != usize::from(*it)) {
        let s = if count == 1 { "" } else { "s" };
        wrong.push(format!(
            "has {count} CPU{s} for [router] workers = {workers}: one for each worker, or workers = \
             {count}"
        ));
    }
    let mut seen = HashSet::new();
    let mut twice: Vec<u16> = cpus.iter().copied().filter(|cpu| !seen.insert(*cpu)).collect();
    twice.dedup();
    wrong.extend(
        twice
            .iter()
            .map(|cpu| format!("CPU {cpu} is listed twice: each worker needs one of its own")),
    );
    (!wrong.is_empty()).then(|| wrong.join("; "))
}

//! Opening of the ports, and assignment of queues to workers.

use super::bundle::Bundle;
use super::channels;
use super::cpu::on_cpu_of;
use super::error::RouterError;
use super::slot::{Handover, Slot};
use crate::config::{Config, PortKind, PortSettings};
use crate::drivers;
use std::collections::{BTreeMap, HashSet};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use wattline_dataplane::frame::FramePool;
use wattline_dataplane::port::{PortId, PortQueue};
use wattline_linux::netlink::Link;
use wattline_linux::sysfs::Tree;
use wattline_linux::xdp_features::XdpFeatures;
use wattline_ports::afxdp::{
    AfXdpQueue, BusyPoll, Options, QueueAddress, QueueMode, QueueStatus, WorkerMemory, largest_mtu,
    largest_mtu_in_one_piece, open_worker,
};
use wattline_ports::capture::{CaptureOptions, CaptureQueue, CaptureStatus};
use wattline_rib::Rib;
use wattline_traffic::capture::CaptureError;

/// Chunk size if all ports are captures: room for the longest frame that a capture can hold, as
/// offloads create them. The graph then drops it, with a reason.
const CAPTURE_CHUNK: u32 = 66 * 1024;
const CAPTURE_HEADROOM: u32 = 256;
/// Assumed MTU in bytes of a missing interface.
const ETHERNET_MTU: u32 = 1500;
/// Preferred busy polling as suggested by the kernel's documentation
/// (Documentation/networking/napi.rst).
const BUSY_POLL: BusyPoll = BusyPoll { duration: Duration::from_micros(20), budget: 64 };

/// Queues and memory of one worker.
pub(super) struct WorkerQueues {
    pub pool: FramePool,
    /// One per port, and one for each port that may be added.
    pub ports: Vec<Box<dyn PortQueue>>,
    /// Number of ports at the start.
    pub served: usize,
    /// Descriptors that become readable when frames arrive, by port.
    pub descriptors: Vec<(PortId, OwnedFd)>,
    /// True if some are captures, which the worker may have to wait for.
    pub has_captures: bool,
}

/// Handles of a worker's interfaces that the control thread keeps to open them again.
pub(super) struct WorkerInterfaces {
    pub memory: WorkerMemory,
    /// Handover of new queues to the worker, by port; also for ports that may be added.
    pub handovers: Vec<(PortId, Arc<Handover<AfXdpQueue>>)>,
    /// The queues for which there is memory.
    pub room: usize,
    /// Length in bytes of the longest IP packet that they take.
    pub longest_packet: u16,
    /// Its sockets by port and queue. One of them owns the memory of later sockets.
    pub sockets: Vec<(PortId, u32, OwnedFd)>,
}

/// Open sockets of a port.
#[derive(Default)]
pub(super) struct Sockets {
    /// The queues by worker, until the workers get them.
    pub queues: Vec<Vec<AfXdpQueue>>,
    /// Receive queues with their sockets, for the program.
    pub sockets: Vec<(u32, OwnedFd)>,
    /// States of the queues, which the workers write.
    pub statuses: Vec<QueueStatus>,
    pub mode: Option<QueueMode>,
}

impl Sockets {
    /// Adds the socket of a receive queue.
    ///
    /// # Errors
    /// When the process has no more descriptors.
    pub fn add(&mut self, number: u32, queue: &AfXdpQueue) -> Result<(), RouterError> {
        self.sockets.push((number, duplicate(queue.socket())?));
        self.statuses.push(queue.status());
        self.mode = Some(queue.mode());
        Ok(())
    }
}

/// All queues of all ports, opened.
pub(super) struct Opened {
    pub workers: Vec<WorkerQueues>,
    /// One for each worker, if there are interfaces.
    pub interfaces: Vec<WorkerInterfaces>,
    /// The sockets of interfaces. The workers have their queues.
    pub sockets: BTreeMap<PortId, Sockets>,
    /// The length in bytes of the longest IP packet that they take.
    pub longest_packet: u16,
    pub captures: Vec<CaptureStatus>,
    /// Ports whose queues could not be opened, and why.
    pub failed: BTreeMap<PortId, String>,
}

/// A port whose interface could not be opened at the start.
#[derive(Debug, Clone)]
pub(super) struct Unopened {
    pub port: PortId,
    pub why: Unserved,
    /// Its link, if it exists.
    pub link: Option<Link>,
    /// The queues for which to allocate memory, and the MTU in bytes of their frames.
    pub queues: u32,
    pub mtu: u32,
}

/// Reason why no worker serves a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Unserved {
    /// The interface does not exist, or cannot be used yet, so there is nothing to try.
    Absent(String),
    /// Opening the interface failed.
    Failed(String),
    /// The kernel would do more with the packets than route them, so the port is left to it.
    Left(String),
}

impl Unopened {
    /// Creates the port of an interface whose opening failed.
    pub fn failed(interface: &Interface, config: &Config, why: String) -> Self {
        let Interface { port, link, queues } = interface.clone();
        let mtu = wanted_mtu(config, port, Some(&link));
        Self { port, why: Unserved::Failed(why), link: Some(link), queues, mtu }
    }

    /// Returns the number of its queues that a worker is to serve.
    fn share(&self, worker: usize, workers: usize) -> usize {
        (self.queues as usize).saturating_sub(worker).div_ceil(workers)
    }
}

/// Returns the present interfaces of ports, and the ports whose interface cannot be used yet.
///
/// # Errors
/// With all interfaces that can never be ports.
pub(super) fn interfaces(
    config: &Config,
    rib: &Rib,
) -> Result<(Vec<Interface>, Vec<Unopened>), RouterError> {
    let (mut fit, mut unusable, mut wrong) = (Vec::new(), Vec::new(), Vec::new());
    for (port, settings) in (0..).map(PortId).zip(&config.ports) {
        let Some(name) = settings.kind.taken_over() else { continue };
        let link = rib.link_of(port);
        let why = match link.map(|link| (link, interface(port, link, config))) {
            None => Unserved::Absent(no_interface(name)),
            Some((_, Ok(interface))) => {
                fit.push(interface);
                continue;
            }
            Some((link, Err(problem))) if link.mac.is_none() => {
                let name = &settings.name;
                wrong.push(format!("[[port]] {name}: interface = \"{}\": {problem}", link.name));
                continue;
            }
            Some((link, Err(_))) if !link.enabled => Unserved::Absent(is_down(name)),
            Some((_, Err(problem))) => Unserved::Failed(problem),
        };
        unusable.push((port, why, link));
    }
    if !wrong.is_empty() {
        return Err(RouterError::Unfit(wrong.join("\n")));
    }
    let expected = expected_queues(config, &fit);
    let unopened = unusable.into_iter().map(|(port, why, link)| {
        let counted = link.and_then(|link| receive_queues(&link.name).ok());
        let queues = counted.filter(|queues| *queues > 0).unwrap_or(expected);
        let mtu = wanted_mtu(config, port, link);
        Unopened { port, why, link: link.cloned(), queues, mtu }
    });
    Ok((fit, unopened.collect()))
}

/// Returns the number of queues for which to allocate memory if an interface is missing: that of
/// the largest other interface, or without others one per processor, as most cards have.
fn expected_queues(config: &Config, others: &[Interface]) -> u32 {
    let processors = || std::thread::available_parallelism().map_or(1, |it| it.get() as u32);
    let queues = others.iter().map(|it| it.queues).max().unwrap_or_else(processors);
    queues.max(config.router.workers.into())
}

/// Returns the MTU in bytes for which to allocate memory, for a port whose interface is `link` or
/// is missing.
fn wanted_mtu(config: &Config, port: PortId, link: Option<&Link>) -> u32 {
    let wanted = config.ports[usize::from(port.0)].mtu.map(u32::from);
    // The program leaves longer packets to the kernel, or drops them if it is guarded. If an
    // application has to see all packets, as few as possible should be longer.
    let largest = match link {
        Some(link) if config.applications.is_empty() => largest(link),
        _ => largest_mtu(Options::default().headroom),
    };
    let present = link.map(|link| link.mtu);
    present.into_iter().chain(wanted).min().unwrap_or(ETHERNET_MTU).min(largest)
}

/// Returns the message that no interface has this name.
pub(super) fn no_interface(name: &str) -> String {
    format!("there is no interface {name}")
}

/// Returns the message that the interface of this name is down.
pub(super) fn is_down(name: &str) -> String {
    format!("the interface {name} is there and down, and is served once it is up")
}

/// An interface to open.
#[derive(Debug, Clone)]
pub(super) struct Interface {
    pub port: PortId,
    pub link: Link,
    /// Its receive queues.
    pub queues: u32,
}

/// Returns a link as the interface of a port, or why it cannot be one.
pub(super) fn interface(port: PortId, link: &Link, config: &Config) -> Result<Interface, String> {
    let name = &link.name;
    if link.mac.is_none() {
        return Err(format!("{name} is not an Ethernet interface"));
    }
    if !link.enabled {
        return Err(format!("{name} is down: `ip link set dev {name} up` before it is taken over"));
    }
    let queues = receive_queues(name)
        .map_err(|error| format!("the queues of {name} cannot be counted: {error}"))?;
    let workers = u32::from(config.router.workers);
    if queues < workers {
        return Err(too_few_queues(name, queues, workers));
    }
    Ok(Interface { port, link: link.clone(), queues })
}

fn too_few_queues(name: &str, queues: u32, workers: u32) -> String {
    format!(
        "[router] workers = {workers}: {name} has {queues} queue(s), and each worker needs one of \
         every port: at most {queues} worker(s), or {}",
        channels::remedy(name, workers)
    )
}

/// Returns the number of receive queues of an interface, according to sysfs.
pub(super) fn receive_queues(name: &str) -> io::Result<u32> {
    let directory = Path::new("/sys/class/net").join(name).join("queues");
    let mut count = 0;
    for entry in std::fs::read_dir(directory)? {
        count += u32::from(entry?.file_name().as_encoded_bytes().starts_with(b"rx-"));
    }
    Ok(count)
}

/// Opens all ports that can be opened. Allocates memory for the queues of the other ports, too,
/// which are opened later.
///
/// # Errors
/// When something fails that more than one port needs.
pub(super) fn open(
    config: &Config,
    interfaces: &[Interface],
    unopened: &[Unopened],
) -> Result<Opened, RouterError> {
    let mut failed = BTreeMap::new();
    let (mut interfaces, mut unopened) = (interfaces.to_vec(), unopened.to_vec());
    loop {
        let error = match open_all(config, &interfaces, &unopened) {
            Err(RouterError::Socket(error)) => error,
            other => return Ok(Opened { failed, ..other? }),
        };
        let of = error.interface();
        let of = of.and_then(|name| interfaces.iter().position(|it| it.link.name == name));
        let Some(place) = of else { return Err(error.into()) };
        let interface = interfaces.remove(place);
        unopened.push(Unopened::failed(&interface, config, error.to_string()));
        failed.insert(interface.port, error.to_string());
    }
}

/// Opens the queues of these interfaces. Worker q serves the queues q, q + workers, q + 2 workers …
/// of each interface, so that all are served. Captures have one queue, which the first worker
/// serves.
fn open_all(
    config: &Config,
    interfaces: &[Interface],
    unopened: &[Unopened],
) -> Result<Opened, RouterError> {
    let workers = usize::from(config.router.workers);
    let spare = config.spare_ports();
    check_spread(config)?;
    check_captures(config)?;
    let mut opened = Opened {
        workers: Vec::with_capacity(workers),
        interfaces: Vec::new(),
        sockets: BTreeMap::new(),
        longest_packet: u16::MAX,
        captures: Vec::new(),
        failed: BTreeMap::new(),
    };
    let mut bad_captures = Vec::new();
    for worker in 0..workers {
        let mut places = Places {
            ports: (0..config.ports.len() + spare).map(|_| None).collect(),
            descriptors: Vec::new(),
        };
        let pool = if interfaces.is_empty() && unopened.is_empty() {
            capture_pool(config, worker)
        } else {
            open_sockets(config, (interfaces, unopened), worker, &mut opened, &mut places)?
        };
        if worker == 0 {
            bad_captures = open_captures(config, &mut opened.captures, &mut places)?;
        }
        let Places { ports, descriptors } = places;
        // A capture that another worker reads.
        let none = || -> Box<dyn PortQueue> { Box::new(Bundle::<CaptureQueue>::new(Vec::new())) };
        let ports = ports.into_iter().map(|port| port.unwrap_or_else(none)).collect();
        let has_captures = worker == 0 && has_captures(config);
        let served = config.ports.len();
        opened.workers.push(WorkerQueues { pool, ports, served, descriptors, has_captures });
    }
    if bad_captures.is_empty() { Ok(opened) } else { Err(RouterError::Captures(bad_captures)) }
}

/// A worker's queues, by port, and their descriptors, while they are being opened.
struct Places {
    ports: Vec<Option<Box<dyn PortQueue>>>,
    descriptors: Vec<(PortId, OwnedFd)>,
}

/// Returns the memory of a worker if all ports are captures, which the first worker reads.
fn capture_pool(config: &Config, worker: usize) -> FramePool {
    let chunks = if worker == 0 { config.router.frames } else { 1 };
    FramePool::zeroed(chunks, CAPTURE_CHUNK, CAPTURE_HEADROOM)
}

/// Opens a worker's sockets, with memory for the sockets of missing ports.
fn open_sockets(
    config: &Config,
    (interfaces, unopened): (&[Interface], &[Unopened]),
    worker: usize,
    opened: &mut Opened,
    places: &mut Places,
) -> Result<FramePool, RouterError> {
    let (workers, spare) = (usize::from(config.router.workers), config.spare_ports());
    let addresses = addresses(config, interfaces, worker);
    let busy_poll = config.router.busy_poll.then_some(BUSY_POLL);
    let shares = unopened.iter().map(|it| it.share(worker, workers));
    let later = shares.sum::<usize>() + spare;
    let later_mtu = unopened.iter().map(|it| it.mtu).max().unwrap_or(0);
    let leaves_long = config.applications.is_empty();
    let options = Options { busy_poll, later, later_mtu, leaves_long, ..Options::default() };
    let cpu = config.router.cpus.get(worker).copied();
    let worker = on_cpu_of(worker, cpu, || open_worker(&addresses, &options))?;
    let longest_packet = worker.longest_packet();
    opened.longest_packet = opened.longest_packet.min(longest_packet);
    let room = addresses.len() + later;
    let ports = interfaces.iter().map(|it| it.port);
    let ports = ports.chain(unopened.iter().map(|it| it.port));
    let spare_ports = (config.ports.len()..).take(spare).map(|it| PortId(it as u16));
    let mut queues: BTreeMap<PortId, Vec<AfXdpQueue>> =
        ports.chain(spare_ports).map(|port| (port, Vec::new())).collect();
    let mut sockets = Vec::new();
    for (queue, address) in worker.queues.into_iter().zip(&addresses) {
        let port = address.port;
        opened.sockets.entry(port).or_default().add(address.queue, &queue)?;
        places.descriptors.push((port, duplicate(queue.socket())?));
        sockets.push((port, address.queue, duplicate(queue.socket())?));
        queues.entry(port).or_default().push(queue);
    }
    let mut handovers = Vec::new();
    for (port, queues) in queues {
        let slot = Slot::new(queues);
        handovers.push((port, slot.handover()));
        places.ports[usize::from(port.0)] = Some(Box::new(slot));
    }
    let memory = worker.memory;
    let of_worker = WorkerInterfaces { memory, handovers, sockets, room, longest_packet };
    opened.interfaces.push(of_worker);
    Ok(worker.pool)
}

/// Opens the captures that are ports. Returns the errors of all bad captures.
fn open_captures(
    config: &Config,
    captures: &mut Vec<CaptureStatus>,
    places: &mut Places,
) -> Result<Vec<CaptureError>, RouterError> {
    let mut bad = Vec::new();
    for (place, port) in config.ports.iter().enumerate() {
        let PortKind::Capture { read, write, paced, original_length } = &port.kind else {
            continue;
        };
        let options = CaptureOptions {
            read: read.clone(),
            write: write.clone(),
            paced: *paced,
            original_length: *original_length,
            mac: config.port_mac(place),
        };
        let queue = match CaptureQueue::open(PortId(place as u16), &options) {
            Ok(queue) => queue,
            Err(error) => {
                bad.push(error);
                continue;
            }
        };
        captures.push(queue.status());
        if let Some(timer) = queue.timer() {
            places.descriptors.push((PortId(place as u16), duplicate(timer)?));
        }
        places.ports[place] = Some(Box::new(queue));
    }
    Ok(bad)
}

/// Returns the queues of these interfaces that a worker serves.
pub(super) fn addresses(
    config: &Config,
    interfaces: &[Interface],
    worker: usize,
) -> Vec<QueueAddress> {
    let workers = u32::from(config.router.workers);
    let of = |interface: &Interface| {
        let Interface { port, link, queues } = interface;
        let mtu = wanted_mtu(config, *port, Some(link));
        let trusted = &config.router.trust_drivers;
        let copies = drivers::refusal(&Tree::live(), &link.name, trusted).is_some();
        let address = |queue| QueueAddress {
            port: *port,
            interface: link.name.clone(),
            ifindex: link.index,
            queue,
            mtu,
            copies,
        };
        (0..*queues)
            .filter(|queue| queue % workers == worker as u32)
            .map(address)
            .collect::<Vec<_>>()
    };
    interfaces.iter().flat_map(of).collect()
}

/// Returns the largest MTU whose frames fit into chunks. A card with zero copy, but without frames
/// in several pieces, keeps zero copy.
fn largest(link: &Link) -> u32 {
    let headroom = Options::default().headroom;
    let in_one_piece = XdpFeatures::open().and_then(|mut it| it.zero_copy_in_one_piece(link.index));
    match in_one_piece {
        Ok(true) => largest_mtu_in_one_piece(headroom),
        Ok(false) | Err(_) => largest_mtu(headroom),
    }
}

fn has_captures(config: &Config) -> bool {
    config.ports.iter().any(|port| matches!(port.kind, PortKind::Capture { .. }))
}

/// Checks that each worker has a queue of every port, since it sends on its own queues only.
fn check_spread(config: &Config) -> Result<(), RouterError> {
    let workers = config.router.workers;
    if workers > 1 && has_captures(config) && !config.captures_only() {
        return Err(RouterError::Unfit(format!(
            "[router] workers = {workers}: with other ports, captures have only one queue, and \
             each worker needs one of every port: at most 1 worker"
        )));
    }
    Ok(())
}

/// Checks that no written capture is the same file as another capture, also under another name (the
/// configuration has compared the names).
fn check_captures(config: &Config) -> Result<(), RouterError> {
    let identity = |path: &PathBuf| {
        let found = std::fs::metadata(path).ok().filter(|found| found.is_file())?;
        Some((found.dev(), found.ino()))
    };
    let captures = |port: &'_ PortSettings| match &port.kind {
        PortKind::Capture { read, write, .. } => (read.clone(), write.clone()),
        PortKind::Interface(_) | PortKind::Vacant => (None, None),
    };
    let (read, written): (Vec<_>, Vec<_>) = config.ports.iter().map(captures).unzip();
    let mut seen: HashSet<(u64, u64)> = read.iter().flatten().filter_map(identity).collect();
    let mut wrong = Vec::new();
    for path in written.iter().flatten() {
        if identity(path).is_some_and(|file| !seen.insert(file)) {
            wrong.push(format!(
                "[[port]] capture write = {path:?}: is the same file as another capture: it would \
                 be overwritten; name another file"
            ));
        }
    }
    if wrong.is_empty() { Ok(()) } else { Err(RouterError::Unfit(wrong.join("\n"))) }
}

/// Describes the mode of a port's queues.
pub(super) fn describe(mode: QueueMode) -> String {
    let copy = if mode.zero_copy { "zero-copy" } else { "copy" };
    let polling = if mode.busy_poll { ", busy polling" } else { "" };
    format!("af_xdp, {copy}{polling}")
}

pub(super) fn duplicate(descriptor: std::os::fd::BorrowedFd<'_>) -> Result<OwnedFd, RouterError> {
    descriptor
        .try_clone_to_owned()
        .map_err(|source| RouterError::system("duplicating a socket's descriptor", source))
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattline_linux::namespace::{Namespace, interface_index};

    const PORTS: &str = "[[port]]\nname = \"a\"\ninterface = \"v0\"\n[[port]]\nname = \"lag\"\ninterface = \"x0\"\n";

    fn interface(port: u16, name: &str, index: u32) -> Interface {
        let link = Link {
            index,
            name: name.to_owned(),
            mac: Some([2, 0, 0, 0, 0, 1]),
            mtu: 1500,
            enabled: true,
            running: true,
            vlan: None,
            is_virtual: false,
            aggregation: None,
            left_because: None,
        };
        Interface { port: PortId(port), link, queues: 1 }
    }

    #[test]
    fn port_that_cannot_be_opened_does_not_prevent_others() {
        let made = Namespace::for_test(&["link add v0 type veth peer name v1", "link set v0 up"]);
        let Ok(namespace) = made.map_err(wattline_needs::rights) else { return };
        let tried = namespace.enter(|| {
            let config = Config::parse(PORTS, "test").unwrap();
            let index = interface_index("v0").unwrap();
            // Sockets of a missing interface cannot be opened.
            let interfaces = [interface(0, "v0", index), interface(1, "x0", index + 1000)];
            let open = |interfaces: &[Interface], unopened: &[Unopened]| {
                open(&config, interfaces, unopened)
            };
            if let Err(error) = open(&interfaces[..1], &[]) {
                return wattline_needs::rights(&error);
            }
            let absent = Unopened {
                why: Unserved::Absent(no_interface("x0")),
                link: None,
                ..Unopened::failed(&interfaces[1], &config, String::new())
            };
            for (fit, unopened, served, failed) in [
                (&interfaces[..], &[][..], &[PortId(0)][..], true),
                (&interfaces[1..], &[], &[], true),
                (&interfaces[..1], std::slice::from_ref(&absent), &[PortId(0)], false),
                (&[], std::slice::from_ref(&absent), &[], false),
            ] {
                let opened = open(fit, unopened).unwrap();
                let ports: Vec<PortId> = opened.sockets.keys().copied().collect();
                assert_eq!(ports, served);
                let why = opened.failed.get(&PortId(1));
                assert_eq!(why.is_some_and(|why| why.contains("x0")), failed, "{why:?}");
                let of_worker = &opened.interfaces[0];
                let places = fit.len() + unopened.len() + config.spare_ports();
                assert_eq!(of_worker.handovers.len(), places, "it can come later");
                assert_eq!(of_worker.room, places);
                assert_eq!(opened.longest_packet, of_worker.longest_packet);
            }
        });
        tried.unwrap();
    }

    #[test]
    fn memory_is_expected_for_as_many_queues_as_others_have() {
        let config = Config::parse(PORTS, "test").unwrap();
        let large = Interface { queues: 3, ..interface(0, "v0", 1) };
        assert_eq!(expected_queues(&config, &[interface(1, "x0", 2), large]), 3);
        assert!(expected_queues(&config, &[]) >= 1);
        let workers = PORTS.to_owned() + "[router]\nworkers = 7\n";
        let config = Config::parse(&workers, "test").unwrap();
        assert_eq!(expected_queues(&config, &[interface(0, "v0", 1)]), 7);
        let absent = Unopened::failed(&interface(0, "v0", 1), &config, String::new());
        let absent = Unopened { queues: 7, ..absent };
        let shares: Vec<usize> = (0..3).map(|worker| absent.share(worker, 3)).collect();
        assert_eq!(shares, [3, 2, 2]);
    }
}

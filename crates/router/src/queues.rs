//! Opening the ports: which queue is served by which worker.

use super::bundle::Bundle;
use super::channels;
use super::cpu::on_cpu_of;
use super::dpdk::Devices;
use super::error::RouterError;
use super::slot::{Handover, Slot};
use crate::config::{Config, PortKind, PortSettings};
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
use wattline_linux::xdp_features::XdpFeatures;
use wattline_ports::afxdp::{
    AfXdpQueue, BusyPoll, Options, QueueAddress, QueueMode, QueueStatus, WorkerMemory, largest_mtu,
    largest_mtu_in_one_piece, open_worker,
};
use wattline_ports::capture::{CaptureOptions, CaptureQueue, CaptureStatus};

/// Chunks where all ports are captures: room for the longest frame that a capture can hold, as
/// offloads make them, so that it is the graph that drops it, with a reason.
const CAPTURE_CHUNK: u32 = 66 * 1024;
const CAPTURE_HEADROOM: u32 = 256;
/// Preferred busy polling as the kernel's documentation suggests it
/// (Documentation/networking/napi.rst).
const BUSY_POLL: BusyPoll = BusyPoll { duration: Duration::from_micros(20), budget: 64 };

/// What one worker works on.
pub(super) struct WorkerQueues {
    pub pool: FramePool,
    /// One per port, and one for each that may be added.
    pub ports: Vec<Box<dyn PortQueue>>,
    /// How many of them are there at the start.
    pub served: usize,
    /// What becomes readable when frames arrive, by port.
    pub descriptors: Vec<(PortId, OwnedFd)>,
    /// Whether some are captures, which it may have to wait for.
    pub has_captures: bool,
}

/// What the control thread keeps of a worker's interfaces, to open them again.
pub(super) struct WorkerInterfaces {
    pub memory: WorkerMemory,
    /// The way of new queues to the worker, by port; also of ports that may be added.
    pub handovers: Vec<(PortId, Arc<Handover<AfXdpQueue>>)>,
    /// The queues for which there is memory.
    pub room: usize,
    /// The length in bytes of the longest IP packet that they take.
    pub longest_packet: u16,
    /// Its sockets by port and queue, of which one owns the memory for those that are opened later.
    pub sockets: Vec<(PortId, u32, OwnedFd)>,
}

/// All queues of all ports, opened.
pub(super) struct Opened {
    pub workers: Vec<WorkerQueues>,
    /// One for each worker, where there are interfaces.
    pub interfaces: Vec<WorkerInterfaces>,
    /// The sockets of interfaces: port, queue, socket.
    pub sockets: Vec<(PortId, u32, OwnedFd)>,
    /// The length in bytes of the longest IP packet that they take.
    pub longest_packet: u16,
    pub captures: Vec<CaptureStatus>,
    /// Whether the interfaces of queues are still there.
    pub states: Vec<(PortId, QueueStatus)>,
    /// Whether frames of some interface reach workers without a copy.
    pub zero_copy: bool,
    /// How each port runs, for the status.
    pub modes: Vec<String>,
    /// Ports without queues so far, and why.
    pub failed: BTreeMap<PortId, String>,
}

/// An interface that is to be opened.
#[derive(Debug, Clone)]
pub(super) struct Interface {
    pub port: PortId,
    pub link: Link,
    /// Its receive queues.
    pub queues: u32,
}

/// A link as the interface of a port, or why it cannot be one.
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

/// The number of receive queues of an interface, as sysfs has it.
pub(super) fn receive_queues(name: &str) -> io::Result<u32> {
    let directory = Path::new("/sys/class/net").join(name).join("queues");
    let mut count = 0;
    for entry in std::fs::read_dir(directory)? {
        count += u32::from(entry?.file_name().as_encoded_bytes().starts_with(b"rx-"));
    }
    Ok(count)
}

/// Opens everything but the queues of ports that have `failed`. A port of `may_fail` is one of those
/// where its own queues cannot be opened; there is memory for them, to open them later. The devices
/// give theirs away.
pub(super) fn open(
    config: &Config,
    interfaces: &[Interface],
    mut failed: BTreeMap<PortId, String>,
    may_fail: &HashSet<PortId>,
    devices: &mut Devices,
) -> Result<Opened, RouterError> {
    loop {
        let error = match open_but(config, interfaces, &failed, devices) {
            Err(RouterError::Socket(error)) => error,
            other => return Ok(Opened { failed, ..other? }),
        };
        let of =
            error.interface().and_then(|name| interfaces.iter().find(|it| it.link.name == name));
        // Where none is left, there is nothing to be served.
        let others = interfaces.len() > failed.len() + 1;
        match of
            .filter(|it| others && !failed.contains_key(&it.port) && may_fail.contains(&it.port))
        {
            Some(of) => failed.insert(of.port, error.to_string()),
            None => return Err(error.into()),
        };
    }
}

/// Opens the queues of all ports that have not `failed`. Worker q serves the queues q, q + workers,
/// q + 2 workers … of each interface, so that none is unserved; a device of DPDK has a queue for each;
/// captures have one queue, which the first serves.
fn open_but(
    config: &Config,
    interfaces: &[Interface],
    failed: &BTreeMap<PortId, String>,
    devices: &mut Devices,
) -> Result<Opened, RouterError> {
    let workers = usize::from(config.router.workers);
    let spare = config.spare_ports();
    check_spread(config)?;
    check_captures(config)?;
    let mut opened = Opened {
        workers: Vec::with_capacity(workers),
        interfaces: Vec::new(),
        sockets: Vec::new(),
        longest_packet: u16::MAX,
        captures: Vec::new(),
        states: Vec::new(),
        zero_copy: false,
        modes: (0..config.ports.len() as u16)
            .map(|port| devices.mode(PortId(port)).unwrap_or_else(|| "capture".to_owned()))
            .collect(),
        failed: BTreeMap::new(),
    };
    let mut bad_captures = Vec::new();
    for worker in 0..workers {
        let mut ports: Vec<Option<Box<dyn PortQueue>>> =
            (0..config.ports.len() + spare).map(|_| None).collect();
        let mut descriptors = Vec::new();
        let all = addresses(config, interfaces, worker);
        let (later, addresses): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|address| failed.contains_key(&address.port));
        let pool = if addresses.is_empty() {
            // Only the first worker has captures to read.
            let has_work = worker == 0 || !devices.is_empty();
            let chunks = if has_work { config.router.frames } else { 1 };
            let (chunk, headroom) = match has_captures(config) {
                true => (CAPTURE_CHUNK, CAPTURE_HEADROOM),
                false => devices.chunk(),
            };
            FramePool::zeroed(chunks, chunk, headroom)
        } else {
            let busy_poll = config.router.busy_poll.then_some(BUSY_POLL);
            let later = later.len() + spare;
            let leaves_long = config.applications.is_empty();
            let options = Options { busy_poll, later, leaves_long, ..Options::default() };
            let cpu = config.router.cpus.get(worker).copied();
            let worker = on_cpu_of(worker, cpu, || open_worker(&addresses, &options))?;
            let longest_packet = worker.longest_packet();
            opened.longest_packet = opened.longest_packet.min(longest_packet);
            let room = addresses.len() + later;
            let places = interfaces.iter().map(|it| it.port);
            let spare_places = (config.ports.len()..).take(spare).map(|it| PortId(it as u16));
            let mut queues: BTreeMap<PortId, Vec<AfXdpQueue>> =
                places.chain(spare_places).map(|port| (port, Vec::new())).collect();
            let mut sockets = Vec::new();
            for (queue, address) in worker.queues.into_iter().zip(&addresses) {
                let port = address.port;
                let copy = queue.mode();
                opened.modes[usize::from(port.0)] = describe(copy);
                opened.zero_copy |= copy.zero_copy;
                opened.sockets.push((port, address.queue, duplicate(queue.socket())?));
                opened.states.push((port, queue.status()));
                descriptors.push((port, duplicate(queue.socket())?));
                sockets.push((port, address.queue, duplicate(queue.socket())?));
                queues.entry(port).or_default().push(queue);
            }
            let mut handovers = Vec::new();
            for (port, queues) in queues {
                let slot = Slot::new(queues);
                handovers.push((port, slot.handover()));
                ports[usize::from(port.0)] = Some(Box::new(slot));
            }
            let memory = worker.memory;
            let of_worker = WorkerInterfaces { memory, handovers, sockets, room, longest_packet };
            opened.interfaces.push(of_worker);
            worker.pool
        };
        if worker == 0 {
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
                        bad_captures.push(error);
                        continue;
                    }
                };
                opened.captures.push(queue.status());
                if let Some(timer) = queue.timer() {
                    descriptors.push((PortId(place as u16), duplicate(timer)?));
                }
                ports[place] = Some(Box::new(queue));
            }
        }
        for (place, queue) in ports.iter_mut().enumerate() {
            if let Some(of_device) = devices.take_queue(PortId(place as u16), worker) {
                *queue = Some(of_device);
            }
        }
        // A capture of another worker.
        let none = || -> Box<dyn PortQueue> { Box::new(Bundle::<CaptureQueue>::new(Vec::new())) };
        let ports = ports.into_iter().map(|port| port.unwrap_or_else(none)).collect();
        let has_captures = worker == 0 && has_captures(config);
        let served = config.ports.len();
        opened.workers.push(WorkerQueues { pool, ports, served, descriptors, has_captures });
    }
    if bad_captures.is_empty() { Ok(opened) } else { Err(RouterError::Captures(bad_captures)) }
}

/// Which queues of these interfaces a worker serves.
pub(super) fn addresses(
    config: &Config,
    interfaces: &[Interface],
    worker: usize,
) -> Vec<QueueAddress> {
    let workers = u32::from(config.router.workers);
    let of = |interface: &Interface| {
        let Interface { port, link, queues } = interface;
        let wanted = config.ports[usize::from(port.0)].mtu.map_or(u32::MAX, u32::from);
        let mtu = link.mtu.min(wanted);
        // The program leaves longer packets to the kernel, unless an application has to see all.
        let mtu = if config.applications.is_empty() { mtu.min(largest(link)) } else { mtu };
        let address = |queue| QueueAddress {
            port: *port,
            interface: link.name.clone(),
            ifindex: link.index,
            queue,
            mtu,
        };
        (0..*queues)
            .filter(|queue| queue % workers == worker as u32)
            .map(address)
            .collect::<Vec<_>>()
    };
    interfaces.iter().flat_map(of).collect()
}

/// The largest MTU for whose frames there are chunks. A card that reads and writes our memory by itself,
/// but no frames in several pieces, goes on doing so.
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

/// A worker sends on the ports of its own queues only, so it needs one of every port.
fn check_spread(config: &Config) -> Result<(), RouterError> {
    let workers = u32::from(config.router.workers);
    let mut wrong = Vec::new();
    let all_are_captures = config.captures_only();
    if workers > 1 && has_captures(config) && !all_are_captures {
        wrong.push(format!(
            "[router] workers = {workers}: beside other ports, captures have only one queue, and \
             each worker needs one of every port: at most 1 worker"
        ));
    }
    if wrong.is_empty() { Ok(()) } else { Err(RouterError::Unfit(wrong.join("\n"))) }
}

/// No capture may be written over one that is read, by whatever name (the configuration has
/// compared the names).
fn check_captures(config: &Config) -> Result<(), RouterError> {
    let identity = |path: &PathBuf| {
        let found = std::fs::metadata(path).ok().filter(|found| found.is_file())?;
        Some((found.dev(), found.ino()))
    };
    let captures = |port: &'_ PortSettings| match &port.kind {
        PortKind::Capture { read, write, .. } => (read.clone(), write.clone()),
        PortKind::Interface(_) | PortKind::Dpdk { .. } | PortKind::Vacant => (None, None),
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

/// How a port runs, for people.
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
    use wattline_linux::namespace::{Namespace, NamespaceError, interface_index};

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
            aggregation: None,
        };
        Interface { port: PortId(port), link, queues: 1 }
    }

    #[test]
    fn a_port_that_may_fail_keeps_no_other_from_being_opened() {
        let made = || {
            let namespace = Namespace::create(format!("wl-queues-{}", std::process::id()))?;
            namespace.ip("link add v0 type veth peer name v1")?;
            namespace.ip("link set v0 up")?;
            Ok::<_, NamespaceError>(namespace)
        };
        let namespace = match made() {
            Ok(namespace) => namespace,
            Err(error) => return wattline_needs::rights(&error),
        };
        let tried = namespace.enter(|| {
            let config = Config::parse(PORTS, "test").unwrap();
            let index = interface_index("v0").unwrap();
            // Sockets of an interface that is not there cannot be opened.
            let interfaces = [interface(0, "v0", index), interface(1, "x0", index + 1000)];
            let open = |interfaces: &[Interface], may_fail: &[u16]| {
                let may_fail = may_fail.iter().map(|port| PortId(*port)).collect();
                open(&config, interfaces, BTreeMap::new(), &may_fail, &mut Devices::default())
            };
            if let Err(error) = open(&interfaces[..1], &[]) {
                return wattline_needs::rights(&error);
            }
            assert!(open(&interfaces, &[]).is_err());
            assert!(open(&interfaces, &[0]).is_err(), "it is not that one");
            assert!(open(&interfaces[1..], &[1]).is_err(), "there would be none");
            let opened = open(&interfaces, &[1]).unwrap();
            let ports: Vec<PortId> = opened.sockets.iter().map(|(port, ..)| *port).collect();
            assert_eq!(ports, [PortId(0)]);
            assert!(opened.failed[&PortId(1)].contains("x0"), "{:?}", opened.failed);
            let handovers = &opened.interfaces[0].handovers;
            assert_eq!(handovers.len(), 2 + config.spare_ports(), "it can come later");
        });
        tried.unwrap();
    }
}

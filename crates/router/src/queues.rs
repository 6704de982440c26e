//! Opening the ports: which queue is served by which worker.

use super::bundle::Bundle;
use super::error::RouterError;
use crate::config::{Config, PortKind, PortSettings};
use std::collections::HashSet;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use wattline_dataplane::frame::FramePool;
use wattline_dataplane::port::{PortId, PortQueue};
use wattline_linux::netlink::Link;
use wattline_ports::afxdp::{BusyPoll, Options, QueueAddress, QueueStatus, open_worker};
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
    /// One per port.
    pub ports: Vec<Box<dyn PortQueue>>,
    /// What becomes readable when frames arrive.
    pub descriptors: Vec<OwnedFd>,
}

/// All queues of all ports, opened.
pub(super) struct Opened {
    pub workers: Vec<WorkerQueues>,
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
}

/// An interface that is to be opened.
pub(super) struct Interface {
    pub port: PortId,
    pub link: Link,
    /// Its receive queues.
    pub queues: u32,
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

/// Opens everything. Worker q serves the queues q, q + workers, q + 2 workers … of each
/// interface, so that none is unserved; captures have one queue, which the first serves.
pub(super) fn open(config: &Config, interfaces: &[Interface]) -> Result<Opened, RouterError> {
    let workers = usize::from(config.router.workers);
    check_spread(config, interfaces)?;
    check_captures(config)?;
    let mut opened = Opened {
        workers: Vec::with_capacity(workers),
        sockets: Vec::new(),
        longest_packet: u16::MAX,
        captures: Vec::new(),
        states: Vec::new(),
        zero_copy: false,
        modes: vec!["capture".to_owned(); config.ports.len()],
    };
    let mut bad_captures = Vec::new();
    for worker in 0..workers {
        let mut bundles: Vec<Vec<Box<dyn PortQueue>>> =
            config.ports.iter().map(|_| Vec::new()).collect();
        let mut descriptors = Vec::new();
        let addresses = addresses(config, interfaces, worker);
        let pool = if addresses.is_empty() {
            // Only the first worker has captures to read.
            let chunks = if worker == 0 { config.router.frames } else { 1 };
            let memory = vec![0; chunks as usize * CAPTURE_CHUNK as usize];
            FramePool::new(Box::new(memory), CAPTURE_CHUNK, CAPTURE_HEADROOM)
        } else {
            let busy_poll = config.router.busy_poll.then_some(BUSY_POLL);
            let options = Options { busy_poll, ..Options::default() };
            let worker = open_worker(&addresses, &options)?;
            opened.longest_packet = opened.longest_packet.min(worker.longest_packet());
            for (queue, address) in worker.queues.into_iter().zip(&addresses) {
                let port = usize::from(address.port.0);
                let copy = queue.mode();
                opened.modes[port] = format!("af_xdp, {}", describe(copy));
                opened.zero_copy |= copy.zero_copy;
                opened.sockets.push((address.port, address.queue, duplicate(queue.socket())?));
                opened.states.push((address.port, queue.status()));
                descriptors.push(duplicate(queue.socket())?);
                bundles[port].push(Box::new(queue));
            }
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
                    descriptors.push(duplicate(timer)?);
                }
                bundles[place].push(Box::new(queue));
            }
        }
        let ports = bundles.into_iter().map(into_one).collect();
        opened.workers.push(WorkerQueues { pool, ports, descriptors });
    }
    if bad_captures.is_empty() { Ok(opened) } else { Err(RouterError::Captures(bad_captures)) }
}

/// A bundle costs a call more, so a single queue stands for itself.
fn into_one(mut queues: Vec<Box<dyn PortQueue>>) -> Box<dyn PortQueue> {
    if queues.len() == 1 { queues.swap_remove(0) } else { Box::new(Bundle::new(queues)) }
}

fn addresses(config: &Config, interfaces: &[Interface], worker: usize) -> Vec<QueueAddress> {
    let workers = u32::from(config.router.workers);
    let of = |interface: &Interface| {
        let Interface { port, link, queues } = interface;
        let address = |queue| QueueAddress {
            port: *port,
            interface: link.name.clone(),
            ifindex: link.index,
            queue,
            mtu: config.ports[usize::from(port.0)]
                .mtu
                .map_or(link.mtu, |mtu| link.mtu.min(mtu.into())),
        };
        (0..*queues)
            .filter(|queue| queue % workers == worker as u32)
            .map(address)
            .collect::<Vec<_>>()
    };
    interfaces.iter().flat_map(of).collect()
}

/// A worker sends on the ports of its own queues only, so it needs one of every port.
fn check_spread(config: &Config, interfaces: &[Interface]) -> Result<(), RouterError> {
    let workers = u32::from(config.router.workers);
    let mut wrong = Vec::new();
    for interface in interfaces.iter().filter(|interface| interface.queues < workers) {
        let name = &interface.link.name;
        wrong.push(format!(
            "[router] workers = {workers}: {name} has {} queue(s), and each worker needs one of \
             every port: at most {} worker(s), or `ethtool -L {name} combined {workers}`",
            interface.queues, interface.queues
        ));
    }
    if workers > 1 && !interfaces.is_empty() && interfaces.len() < config.ports.len() {
        wrong.push(format!(
            "[router] workers = {workers}: beside interfaces, captures have only one queue, and \
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
        PortKind::Interface(_) => (None, None),
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

fn describe(mode: wattline_ports::afxdp::QueueMode) -> String {
    let copy = if mode.zero_copy { "zero-copy" } else { "copy" };
    let polling = if mode.busy_poll { ", busy polling" } else { "" };
    format!("{copy}{polling}")
}

fn duplicate(descriptor: std::os::fd::BorrowedFd<'_>) -> Result<OwnedFd, RouterError> {
    descriptor
        .try_clone_to_owned()
        .map_err(|source| RouterError::system("duplicating a socket's descriptor", source))
}

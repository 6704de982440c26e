//! The device under test, and the generator on both sides of it.

use crate::forward::candidate::Router;
use crate::forward::setup::{LEFT_MAC, SOURCE_MAC, Setup};
use crate::forward::threads::{Level, Thread};
use crate::forward::{Arrangement, Load as Offer, Placement, Sink};
use serde::Serialize;
use std::net::IpAddr;
use wattline_dataplane::worker::Mode;
use wattline_testbed::Error;
use wattline_testbed::packets::limits::{self, Limits};
use wattline_testbed::packets::{Addresses, End, Load, Role, Tester, Ways, anywhere, plain_link};

/// Processor of the generator; the device has the other one.
const OUTSIDE: usize = 0;

/// What is measured.
#[derive(Debug, Clone, PartialEq)]
pub enum Device {
    /// The kernel, in the context of its receiving thread.
    Kernel,
    /// Wattline's graph over AF_XDP, with one adaptive worker.
    Workers,
    /// Wattline's XDP programs, with a worker for the rest.
    Xdp,
    /// Whatever stands between two interfaces of this machine.
    Ports(Ports),
}

/// Two interfaces of this machine, with a device between them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ports {
    /// The interface that sends, as `[NAMESPACE/]INTERFACE`.
    pub from: String,
    /// The interface that receives, likewise; none for the same one.
    pub to: Option<String>,
    /// Queues of each that are used.
    pub queues: u32,
    /// The device's Ethernet address; none where both interfaces are on one link.
    pub mac: Option<[u8; 6]>,
    /// Source address of the packets.
    pub source: IpAddr,
    /// The first destination address.
    pub destination: IpAddr,
    /// How many addresses from there on.
    pub destinations: u32,
}

impl Device {
    /// Its name in reports.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::Workers => "workers",
            Self::Xdp => "xdp",
            Self::Ports(_) => "ports",
        }
    }

    /// In words.
    pub fn words(&self) -> String {
        match self {
            Self::Kernel => "the kernel's forwarding, over veth".into(),
            Self::Workers => "Wattline, one adaptive worker on AF_XDP, over veth".into(),
            Self::Xdp => "Wattline's XDP programs, over veth".into(),
            Self::Ports(ports) => format!(
                "what stands between {} and {}",
                ports.from,
                ports.to.as_deref().unwrap_or(&ports.from)
            ),
        }
    }
}

/// A device at work, with the generator's interfaces open.
pub(super) struct Bed {
    pub tester: Tester,
    pub addresses: Addresses,
    pub conditions: Conditions,
    in_namespaces: bool,
    // Stopped in this order.
    _router: Option<Router>,
    _setup: Option<Setup>,
}

/// How it was set up.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Conditions {
    /// The device: `kernel`, `workers`, `xdp` or `ports`.
    pub device: &'static str,
    /// In words.
    pub device_words: String,
    /// The links.
    pub links: String,
    /// Which processors do what.
    pub placement: String,
    /// Whether frames are sent and received without copies.
    pub zero_copy: bool,
    /// How frames are sent and received.
    pub ways: String,
    /// Queues on each side.
    pub queues: u32,
}

impl Bed {
    pub fn build(device: &Device) -> Result<Self, Error> {
        let Device::Ports(ports) = device else { return Self::in_namespaces(device) };
        let to = ports.to.as_deref().map(End::from);
        let tester =
            Tester::open(End::from(ports.from.as_str()), to, ports.queues, Ways::default())?;
        let addresses = Addresses {
            destination_mac: ports.mac.unwrap_or(tester.to.mac),
            source: ports.source,
            destination: ports.destination,
            destinations: ports.destinations,
            ..plain_link(&tester.from, &tester.to)
        };
        let conditions = Conditions {
            device: device.name(),
            device_words: device.words(),
            links: format!("{} to {}", tester.from.name, tester.to.name),
            placement: "wherever the scheduler puts threads".into(),
            zero_copy: tester.from.zero_copy && tester.to.zero_copy,
            ways: tester.ways.words(),
            queues: ports.queues,
        };
        let (_router, _setup) = (None, None);
        Ok(Self { tester, addresses, conditions, in_namespaces: false, _router, _setup })
    }

    fn in_namespaces(device: &Device) -> Result<Self, Error> {
        if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
            return Err(Error::Router {
                what: "measurement needs two processors".into(),
                log: "one for the generator, one for the device".into(),
            });
        }
        let arrangement =
            Arrangement { placement: Placement::Shared, sink: Sink::Remote, load: Offer::Paced };
        let setup = Setup::build(arrangement)?;
        let router = match device {
            Device::Kernel | Device::Ports(_) => None,
            Device::Workers => Some(Router::start(&setup, Mode::Adaptive, false)?),
            Device::Xdp => Some(Router::start(&setup, Mode::Adaptive, true)?),
        };
        if !matches!(device, Device::Workers) {
            // It forwards itself, before whom nothing has to run.
            Thread::napi(&setup.left)?.precede(Level::Drain)?;
        }
        let from = End { namespace: Some(setup.source().name()), interface: setup.uplink() };
        let to = End { namespace: Some(setup.sink().name()), interface: &setup.terminal };
        let tester = Tester::open(from, Some(to), 1, Ways::default())?;
        let addresses = Addresses {
            source_mac: SOURCE_MAC,
            destination_mac: LEFT_MAC,
            source: [10, 1, 0, 2].into(),
            destination: [10, 9, 0, 5].into(),
            destinations: 64,
        };
        let conditions = Conditions {
            device: device.name(),
            device_words: device.words(),
            links: "veth pairs between namespaces of one machine".into(),
            placement: "the generator has processor 0, sending and receiving; the device has \
                        processor 1, its receiving kernel threads included; all under SCHED_FIFO"
                .into(),
            zero_copy: tester.from.zero_copy && tester.to.zero_copy,
            ways: tester.ways.words(),
            queues: 1,
        };
        let (_router, _setup) = (router, Some(setup));
        Ok(Self { tester, addresses, conditions, in_namespaces: true, _router, _setup })
    }

    /// Where the generator's threads run.
    pub fn placement(&self) -> fn(Role) -> Result<(), Error> {
        if self.in_namespaces { beside_the_device } else { anywhere }
    }

    /// What the generator can do without the device. Where the device stands between given ports
    /// the link is a veth pair made for it, which no card is.
    pub fn limits(&self, load: &Load) -> Result<Limits, Error> {
        if !self.in_namespaces {
            return limits::of_veth(
                load,
                self.conditions.queues,
                Ways::default(),
                &self.placement(),
            );
        }
        let link = Setup::link()?;
        let from = End { namespace: Some(link.source().name()), interface: link.uplink() };
        let to = End { namespace: Some(link.sink().name()), interface: &link.terminal };
        let mut tester = Tester::open(from, Some(to), 1, Ways::default())?;
        let addresses = plain_link(&tester.from, &tester.to);
        let words = "a veth pair set up as those of the device".to_owned();
        limits::measure(&mut tester, &addresses, load, &self.placement(), words)
    }
}

/// All of the generator on its processor; what receives goes before what sends.
fn beside_the_device(role: Role) -> Result<(), Error> {
    let thread = Thread::current();
    thread.pin(OUTSIDE)?;
    thread.precede(match role {
        Role::Sends(_) => Level::Source,
        Role::Receives(_) => Level::Drain,
    })
}

//! The devices of ports over DPDK, and the TAP devices that stand for them in the kernel.

use super::error::RouterError;
use super::exception::{Tap, WithKernel};
use super::link_state::LinkState;
use crate::config::{Config, PortKind};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};
use wattline_dataplane::port::{PortId, PortQueue};
use wattline_linux::tap;
use wattline_ports::dpdk::{
    BUILT_IN, Device, DeviceOptions, DeviceText, DpdkError, DpdkQueue, Eal,
};

/// Chunks where no port needs others: the longest frame of nearly all networks behind the headroom.
const CHUNK: u32 = 2048;
/// Room for what nodes put before a packet.
const HEADROOM: u32 = 256;
/// Time between two looks at the devices' links.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Ethernet header and tag.
const HEADERS: u32 = 18;

/// All of them; none in most routers.
#[derive(Default)]
pub(super) struct Devices {
    ports: BTreeMap<PortId, Opened>,
    /// When links are asked for next.
    due: Option<Instant>,
}

struct Opened {
    device: Device,
    /// For workers that have not taken theirs.
    queues: VecDeque<DpdkQueue>,
    tap: Option<Tap>,
    /// Whether the TAP device has a carrier.
    carrier: bool,
}

/// Refuses ports over DPDK where the program has none.
pub(super) fn check(config: &Config) -> Result<(), RouterError> {
    let ports = config.ports.iter().filter(|port| port.kind.is_dpdk());
    let names: Vec<&str> = ports.map(|port| port.name.as_str()).collect();
    if BUILT_IN || names.is_empty() {
        return Ok(());
    }
    Err(RouterError::Dpdk { port: names.join(", "), error: DpdkError::NotBuilt })
}

/// Configuration of a device.
struct Wanted<'a> {
    port: PortId,
    name: &'a str,
    device: &'a DeviceText,
    interface: Option<&'a str>,
}

impl Devices {
    /// Starts DPDK, where a port needs it, opens the devices and attaches to the TAP devices.
    pub fn open(config: &Config) -> Result<Self, RouterError> {
        let wanted: Vec<_> = (0..).zip(&config.ports).filter_map(wanted).collect();
        if wanted.is_empty() {
            return Ok(Self::default());
        }
        let devices: Vec<DeviceText> = wanted.iter().map(|it| it.device.clone()).collect();
        let failed = |port: &str| {
            let port = port.to_owned();
            move |error| RouterError::Dpdk { port, error }
        };
        // Before the environment, of which one start is all.
        let mut mtus = Vec::new();
        for it in &wanted {
            mtus.push(it.mtu(config)?);
        }
        let names: Vec<&str> = wanted.iter().map(|it| it.name).collect();
        let eal =
            Eal::start(&config.dpdk_arguments, &devices).map_err(failed(&names.join(", ")))?;
        let mut ports = BTreeMap::new();
        for (it, mtu) in wanted.iter().zip(mtus) {
            let settings = &config.ports[usize::from(it.port.0)];
            let options = DeviceOptions {
                queues: config.router.workers,
                mtu,
                // Without an interface the port's address is the configuration's, not the device's.
                promiscuous: settings.promiscuous || it.interface.is_none(),
            };
            let (device, queues) =
                Device::open(&eal, it.device, it.port, options).map_err(failed(it.name))?;
            let tap = it.interface.map(|name| attach(it.name, name, device.mac())).transpose()?;
            ports.insert(it.port, Opened { device, queues: queues.into(), tap, carrier: true });
        }
        Ok(Self { ports, due: None })
    }

    pub fn is_empty(&self) -> bool {
        self.ports.is_empty()
    }

    /// Whether the kernel has a part of some.
    pub fn have_taps(&self) -> bool {
        self.ports.values().any(|it| it.tap.is_some())
    }

    /// The TAP device of each port.
    pub fn taps(&self, ports: usize) -> Vec<Option<Tap>> {
        (0..ports as u16).map(|port| self.ports.get(&PortId(port))?.tap.clone()).collect()
    }

    /// A queue of a port for the next worker. The first one's sends what the kernel sends.
    pub fn take_queue(&mut self, port: PortId, worker: usize) -> Option<Box<dyn PortQueue>> {
        let opened = self.ports.get_mut(&port)?;
        let queue = opened.queues.pop_front()?;
        Some(match &opened.tap {
            Some(tap) if worker == 0 => Box::new(WithKernel::new(queue, tap.clone())),
            _ => Box::new(queue),
        })
    }

    /// Size and headroom of the chunks that the longest frame needs.
    pub fn chunk(&self) -> (u32, u32) {
        let longest = self.ports.values().map(|it| u32::from(it.device.mtu())).max().unwrap_or(0);
        let needed = HEADROOM + HEADERS + longest;
        (needed.next_power_of_two().max(CHUNK), HEADROOM)
    }

    /// Gives TAP devices the carrier of their ports, so that routing protocols see a cable that is
    /// unplugged; looks once a second.
    pub fn look(&mut self, now: Instant) {
        if self.due.is_some_and(|due| now < due) {
            return;
        }
        self.due = Some(now + LOOK_EVERY);
        for opened in self.ports.values_mut() {
            let (Some(tap), Some(link)) = (&opened.tap, opened.device.link()) else { continue };
            if link.up == opened.carrier {
                continue;
            }
            opened.carrier = link.up;
            if let Err(error) = tap::set_carrier(&tap.file, link.up) {
                tracing::warn!("the kernel does not learn that {link} holds: {error}");
            }
        }
    }

    /// Describes how a port runs.
    pub fn mode(&self, port: PortId) -> Option<String> {
        Some(format!("dpdk, {}", self.ports.get(&port)?.device.driver()))
    }

    /// The state of its link, and what is to be said of it.
    pub fn state(&self, port: PortId) -> Option<(&'static str, Option<String>)> {
        let link = self.ports.get(&port)?.device.link()?;
        let state = if link.up { LinkState::Up } else { LinkState::NoCarrier };
        Some((state.name(), (!link.up).then(|| link.to_string())))
    }
}

fn wanted((place, port): (u16, &crate::config::PortSettings)) -> Option<Wanted<'_>> {
    let PortKind::Dpdk { device, interface } = &port.kind else { return None };
    let interface = interface.as_deref();
    Some(Wanted { port: PortId(place), name: &port.name, device, interface })
}

impl Wanted<'_> {
    /// The MTU that the device gets: what its interface has, or less where the configuration says so.
    fn mtu(&self, config: &Config) -> Result<Option<u16>, RouterError> {
        let wanted = config.ports[usize::from(self.port.0)].mtu;
        let Some(name) = self.interface else { return Ok(wanted) };
        let text = std::fs::read_to_string(format!("/sys/class/net/{name}/mtu"));
        let text = text.map_err(|error| no_tap(self.name, name, &error.to_string()))?;
        let of_interface = text.trim().parse().unwrap_or(u16::MAX);
        Ok(Some(wanted.map_or(of_interface, |wanted| wanted.min(of_interface))))
    }
}

fn attach(port: &str, name: &str, mac: [u8; 6]) -> Result<Tap, RouterError> {
    let file = tap::attach(name, mac).map_err(|error| no_tap(port, name, &error.to_string()))?;
    Ok(Tap { file: Arc::new(file), mac })
}

fn no_tap(port: &str, name: &str, why: &str) -> RouterError {
    RouterError::Unfit(format!(
        "[[port]] {port}: interface = \"{name}\": {why}; beside `dpdk` it must be a TAP device that nobody \
         else uses: `ip tuntap add dev {name} mode tap`, with the addresses of the port, and up"
    ))
}

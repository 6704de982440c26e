//! Whether transit packets are forwarded by the XDP programs, and out of which ports.
//!
//! The programs forward by the kernel's own tables, so they may only where those are all there is
//! to know ([`Config::obstacles_to_xdp_forwarding`]).

use super::error::RouterError;
use crate::config::{Config, PortKind, XdpForwarding};
use std::time::{Duration, Instant};
use wattline_dataplane::port::PortId;
use wattline_kernel::xdp::{XdpFeatures, XdpForward};

/// How often it is asked which interfaces take frames. One that ceases to is closed by the first
/// frame that it refuses.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The ways out of the XDP programs.
pub(super) struct Forwarding {
    forward: XdpForward,
    features: XdpFeatures,
    ports: Vec<WayOut>,
    /// Why nothing may be forwarded now.
    obstacles: Vec<&'static str>,
    /// Whether some route has an MTU of its own when last looked.
    route_mtus: bool,
    next_look: Instant,
}

struct WayOut {
    port: PortId,
    ifindex: u32,
    name: String,
    is_open: bool,
}

/// What stands against it in the configuration, and in what was found when sockets were opened:
/// without copies workers are the cheaper way.
pub(super) fn obstacles(config: &Config, zero_copy: bool) -> Vec<&'static str> {
    let mut obstacles = config.obstacles_to_xdp_forwarding();
    if zero_copy && config.router.xdp_forward == XdpForwarding::Auto {
        obstacles.push("frames reach workers without a copy");
    }
    obstacles
}

/// Prepares what the configuration asks for; `None` where workers are to forward everything.
///
/// # Errors
/// When it is asked for and cannot be.
pub(super) fn prepare(config: &Config) -> Result<Option<Forwarding>, RouterError> {
    let choice = config.router.xdp_forward;
    let has_interfaces =
        config.ports.iter().any(|port| matches!(port.kind, PortKind::Interface(_)));
    if choice == XdpForwarding::Off || !has_interfaces {
        return Ok(None);
    }
    let obstacles = config.obstacles_to_xdp_forwarding();
    if !obstacles.is_empty() {
        tracing::info!("workers forward all packets: {}", obstacles.join(", "));
        return Ok(None);
    }
    match Forwarding::open() {
        Ok(forwarding) => Ok(Some(forwarding)),
        Err(error) if choice == XdpForwarding::On => Err(error),
        Err(error) => {
            tracing::info!("workers forward all packets: {error}");
            Ok(None)
        }
    }
}

impl Forwarding {
    fn open() -> Result<Self, RouterError> {
        let failed = |source| RouterError::system("asking what interfaces can do with XDP", source);
        Ok(Self {
            features: XdpFeatures::open().map_err(failed)?,
            forward: XdpForward::new()?,
            ports: Vec::new(),
            obstacles: Vec::new(),
            route_mtus: false,
            next_look: Instant::now(),
        })
    }

    /// What programs are loaded with.
    pub fn forward(&self) -> &XdpForward {
        &self.forward
    }

    /// A port's counters are at the slot of its own number.
    pub fn slot(port: PortId) -> u32 {
        port.0.into()
    }

    /// Adds a port, to which nothing is forwarded yet.
    pub fn add(&mut self, port: PortId, ifindex: u32, name: &str) {
        self.ports.push(WayOut { port, ifindex, name: name.to_owned(), is_open: false });
    }

    /// Says what stands against it from now on.
    pub fn set_obstacles(&mut self, obstacles: Vec<&'static str>) {
        if self.obstacles != obstacles {
            self.obstacles = obstacles;
            self.next_look = Instant::now();
        }
    }

    /// Opens the ways out that can be, and closes the others. `route_mtus`: whether a route has an
    /// MTU of its own, which the kernel's look-up for XDP heeds only where it is locked.
    pub fn look(&mut self, route_mtus: bool, now: Instant) {
        if now < self.next_look && route_mtus == self.route_mtus {
            return;
        }
        self.next_look = now + LOOK_EVERY;
        self.route_mtus = route_mtus;
        let obstacle = match self.obstacles.first() {
            Some(_) => Some(self.obstacles.join(", ")),
            None if route_mtus => Some("a route has an MTU of its own".to_owned()),
            None => None,
        };
        for way in &mut self.ports {
            let transmits = || match self.features.transmits(way.ifindex) {
                Ok(true) => None,
                Ok(false) => Some("its driver takes no XDP frames now".to_owned()),
                Err(error) => Some(error.to_string()),
            };
            let obstacle = obstacle.clone().or_else(transmits);
            let result = match &obstacle {
                None => match self.forward.is_open(way.ifindex) {
                    Ok(true) => Ok(()),
                    _ => self.forward.open(way.ifindex, Self::slot(way.port)),
                },
                Some(_) => self.forward.close(way.ifindex),
            };
            let name = &way.name;
            if let Err(error) = result {
                tracing::error!("[[port]] {name}: {error}");
            }
            match &obstacle {
                None if !way.is_open => tracing::info!("port {name}: sent to by XDP programs"),
                Some(why) if way.is_open => {
                    tracing::info!("port {name}: sent to by workers: {why}");
                }
                Some(why) => tracing::debug!("port {name}: sent to by workers: {why}"),
                None => {}
            }
            way.is_open = obstacle.is_none();
        }
    }

    /// Whether packets out of a port are forwarded by XDP programs.
    pub fn is_open(&self, port: PortId) -> bool {
        self.ports.iter().any(|way| way.port == port && way.is_open)
    }
}

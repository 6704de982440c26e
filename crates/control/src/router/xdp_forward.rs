//! Whether transit packets are forwarded by the XDP programs, and out of which ports.
//!
//! The programs forward by the kernel's own tables. So they may only where those are all there is
//! to know: routes that the configuration adds, and packets that an application or a governor has
//! to see, need the workers.

use super::error::RouterError;
use crate::config::{Config, Mode, PortKind, PowerPlatform, RouteSettings, XdpForwarding};
use std::time::{Duration, Instant};
use wattline_dataplane::port::PortId;
use wattline_kernel::xdp::{FORWARD_PORTS_MAX, XdpFeatures, XdpForward};

/// How often it is asked which interfaces take frames. One that ceases to is closed by the first
/// frame that it refuses.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The ways out of the XDP programs.
pub(super) struct Forwarding {
    forward: XdpForward,
    features: XdpFeatures,
    ports: Vec<WayOut>,
    /// Why nothing may be forwarded now.
    obstacles: Vec<String>,
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

/// What of a configuration the kernel's tables do not know, or needs a worker.
pub(super) fn obstacles(config: &Config, extra: &[RouteSettings]) -> Vec<String> {
    let settings = &config.router;
    let ports = &config.ports;
    // Whoever asks for the worker to poll wants it to forward.
    let polls = settings.mode == Mode::Poll && settings.xdp_forward == XdpForwarding::Auto;
    let own = |is_set: fn(&crate::config::PortSettings) -> bool| ports.iter().any(is_set);
    let found = [
        ("[router] mode = \"poll\"", polls),
        ("[router] kernel_routes = false", !settings.kernel_routes),
        ("[[port]] capture", own(|port| matches!(port.kind, PortKind::Capture { .. }))),
        ("[[port]] addresses", own(|port| !port.addresses.is_empty())),
        ("[[port]] mtu", own(|port| port.mtu.is_some())),
        ("[[port]] promiscuous", own(|port| port.promiscuous)),
        ("[[route]]", !config.routes.is_empty()),
        ("routes_file", !extra.is_empty()),
        ("[[neighbour]]", !config.neighbours.is_empty()),
        ("[power] platform", config.power.platform != PowerPlatform::None),
        ("[flow_records]", config.flow_records.is_some()),
        ("[[redundancy]]", !config.redundancy.is_empty()),
        ("[ipsec]", config.ipsec.is_some()),
        ("more than 256 ports", ports.len() > FORWARD_PORTS_MAX as usize),
    ];
    found.into_iter().filter(|(_, is)| *is).map(|(what, _)| what.to_owned()).collect()
}

/// The same, and what was found when sockets were opened: without copies workers are the cheaper
/// way.
pub(super) fn obstacles_here(
    config: &Config,
    extra: &[RouteSettings],
    zero_copy: bool,
) -> Vec<String> {
    let mut obstacles = obstacles(config, extra);
    if zero_copy && config.router.xdp_forward == XdpForwarding::Auto {
        obstacles.push("frames reach workers without a copy".to_owned());
    }
    obstacles
}

/// Prepares what the configuration asks for; `None` where workers are to forward everything.
///
/// # Errors
/// When it is asked for and cannot be.
pub(super) fn prepare(
    config: &Config,
    extra: &[RouteSettings],
) -> Result<Option<Forwarding>, RouterError> {
    let choice = config.router.xdp_forward;
    let has_interfaces =
        config.ports.iter().any(|port| matches!(port.kind, PortKind::Interface(_)));
    if choice == XdpForwarding::Off || !has_interfaces {
        return Ok(None);
    }
    let obstacles = obstacles(config, extra);
    if !obstacles.is_empty() {
        let obstacles = obstacles.join(", ");
        if choice == XdpForwarding::On {
            return Err(RouterError::Unfit(format!(
                "[router] xdp_forward = \"on\" cannot be with {obstacles}: XDP programs forward by \
                 the kernel's tables alone, and no worker sees the packets"
            )));
        }
        tracing::info!("workers forward all packets: {obstacles}");
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
    pub fn set_obstacles(&mut self, obstacles: Vec<String>) {
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

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: &str = "[router]\n[[port]]\nname = \"a\"\ninterface = \"eth0\"\n";

    fn found(text: &str) -> Vec<String> {
        obstacles(&Config::parse(text, "test").unwrap(), &[])
    }

    #[test]
    fn what_workers_have_to_see_stands_against_it() {
        assert_eq!(found(PLAIN), Vec::<String>::new());
        for (more, obstacle) in [
            ("mode = \"poll\"", "[router] mode = \"poll\""),
            ("kernel_routes = false", "[router] kernel_routes = false"),
            ("[power]\nplatform = \"host\"", "[power] platform"),
            ("[flow_records]\ncollectors = [\"netflow9://192.0.2.9:2055\"]", "[flow_records]"),
        ] {
            let text = PLAIN.replacen("[router]\n", &format!("[router]\n{more}\n"), 1);
            assert_eq!(found(&text), [obstacle]);
        }
        for (more, obstacle) in [
            ("mtu = 1400", "[[port]] mtu"),
            ("promiscuous = true", "[[port]] promiscuous"),
            ("addresses = [\"192.0.2.1/24\"]", "[[port]] addresses"),
            ("[[port]]\nname = \"b\"\ncapture = { read = \"x.pcap\" }", "[[port]] capture"),
            (
                "[[neighbour]]\naddress = \"192.0.2.2\"\nmac = \"02:00:00:00:00:02\"\nport = \"a\"",
                "[[neighbour]]",
            ),
            ("[[route]]\nprefix = \"10.0.0.0/8\"\nvia = \"192.0.2.2\"\nport = \"a\"", "[[route]]"),
        ] {
            assert_eq!(found(&format!("{PLAIN}{more}\n")), [obstacle]);
        }
    }

    #[test]
    fn who_asks_for_it_in_vain_is_told_why() {
        let on = PLAIN.replacen("[router]\n", "[router]\nxdp_forward = \"on\"\n", 1);
        let polling = on.replacen("[router]\n", "[router]\nmode = \"poll\"\n", 1);
        assert_eq!(found(&polling), Vec::<String>::new(), "as it was asked for");
        let config = Config::parse(&format!("{on}mtu = 1400\n"), "test").unwrap();
        let Err(RouterError::Unfit(text)) = prepare(&config, &[]) else { panic!("not refused") };
        assert!(text.contains("xdp_forward = \"on\"") && text.contains("[[port]] mtu"), "{text}");
    }
}

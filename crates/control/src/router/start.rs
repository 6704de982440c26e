//! Starting a router: everything is opened and checked before the first packet is taken over.

use super::error::RouterError;
use super::fallback;
use super::inbox::{Bell, Message};
use super::kernel::KernelSide;
use super::queues::{self, Interface, Opened};
use super::tun::Tunnel;
use super::workers::{Equipment, Workers, waiter_of};
use super::{Router, power, statics, xdp_forward};
use crate::application::{self, Application};
use crate::config::{Config, LogLevel, PortKind, routes_file};
use crate::flow_records::FlowRecords;
use crate::ipsec::Ipsec;
use crate::privileges;
use crate::redundancy;
use crate::rib::{Rib, Source};
use crate::socket::{self, Answer, Request};
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::mpsc::sync_channel;
use std::time::Instant;
use wattline_dataplane::port::PortId;
use wattline_dataplane::punt::{Discard, PuntSink};
use wattline_dataplane::routes::Routes;
use wattline_kernel::netlink::Link;
use wattline_ports::waiter::{PollWaiter, Waker};

/// Requests for neighbours that may wait; a worker repeats what does not fit.
const NEIGHBOUR_REQUESTS: usize = 256;

impl Router {
    /// Reads a configuration and starts what it says. `set_log_level` is called at once and
    /// whenever the level changes.
    ///
    /// # Errors
    /// When anything is wrong; nothing is attached or changed then.
    pub fn start(
        config_path: &Path,
        set_log_level: Box<dyn Fn(LogLevel)>,
    ) -> Result<Self, RouterError> {
        let config = Config::load(config_path)?;
        let extra_routes = match &config.routes_file {
            Some(path) => routes_file::load(path, &config)?,
            None => Vec::new(),
        };
        let plan = power::Plan::read(&config.power)?;
        set_log_level(config.log_level);
        let has_interfaces = config.ports.iter().any(|port| interface_of(port).is_some());
        if has_interfaces {
            let missing = privileges::missing();
            if !missing.is_empty() {
                return Err(RouterError::Capabilities(missing));
            }
        }
        let socket_path =
            config.router.socket.clone().unwrap_or_else(|| socket::default_path(config_path));
        let server = socket::Server::bind(&socket_path).map_err(|error| {
            RouterError::system("making the control socket", std::io::Error::other(error))
        })?;

        let mut rib = Rib::new(statics::port_specs(&config));
        let mut routes = Routes::new(rib.port_configs());
        routes.set_flow_seed(flow_seed(&config, has_interfaces));
        let mut kernel = match has_interfaces || config.router.kernel_routes {
            true => {
                let forwarding = xdp_forward::prepare(&config)?;
                Some(KernelSide::new(config.router.kernel_routes, forwarding)?)
            }
            false => None,
        };
        if let Some(kernel) = &mut kernel {
            kernel.follow(&mut rib, Instant::now())?;
        }
        let interfaces = interfaces(&config, &rib)?;
        let numbers = interfaces.iter().map(|it| (it.link.name.clone(), it.link.index)).collect();
        let port_links = statics::port_links(&config, &numbers);
        for event in statics::events(&config, &extra_routes, &port_links) {
            rib.apply(Source::Static, event);
        }
        rib.commit(&mut routes).map_err(refused)?;

        let mut applications = applications(&config)?;
        // The program first: it refuses a second instance before that touches a queue.
        let mut attached = HashMap::new();
        if let Some(kernel) = &mut kernel {
            for Interface { port, link, .. } in &interfaces {
                let name = &config.ports[usize::from(port.0)].name;
                attached.insert(*port, kernel.attach(*port, name, link)?);
            }
            kernel.end_tunnels(applications.iter().flat_map(|it| it.tunnel_ends()).collect());
            kernel.tell_programs(&rib);
        }
        let opened = queues::open(&config, &interfaces)?;
        let Opened { workers: queues, sockets, longest_packet, captures, states, .. } = opened;
        let mut modes = opened.modes;
        for (port, mode) in attached {
            modes[usize::from(port.0)] += &format!(", {mode}");
        }
        let steerings = power::steer(&config)?;
        let tunnel = if has_interfaces { Tunnel::open() } else { None };

        // An overrun leaves its socket in error until it is read.
        let waiter = PollWaiter::new(kernel.iter().map(KernelSide::descriptor))
            .map_err(|errno| RouterError::system("making a wake-up", errno))?
            .keeping_broken();
        let (bell, inbox) = Bell::new(waiter.waker());
        // Before any thread is started, which would keep what this one gives up.
        if has_interfaces && let Err(error) = privileges::drop_unneeded() {
            tracing::debug!("capabilities are kept: {error}");
        }
        let signals = watch_signals(&bell)?;
        let (neighbours, requests) = sync_channel(NEIGHBOUR_REQUESTS);
        bell.pass_on(requests);
        let mut workers = Workers::new();
        let waiters = queues.iter().map(waiter_of).collect::<Result<Vec<_>, _>>()?;
        let bells: Vec<Waker> = waiters.iter().map(PollWaiter::waker).collect();
        let (mut power, pacers) = match plan {
            Some(plan) => {
                let (power, pacers) = power::open(plan, config.ports.len(), &bells, steerings)?;
                (Some(power), pacers)
            }
            None => (None, Vec::new()),
        };
        let mut pacers = pacers.into_iter();
        for (worker, (queues, waiter)) in (0..).zip(queues.into_iter().zip(waiters)) {
            let punt: Box<dyn PuntSink> = match &tunnel {
                Some(tunnel) => Box::new(tunnel.sink()),
                None => Box::new(Discard),
            };
            let features = application::features(&mut applications, worker);
            let neighbours = neighbours.clone();
            let (routes, pacer) = (routes.reader(), pacers.next());
            let equipment = Equipment { routes, punt, neighbours, features, waiter, pacer };
            workers.start(queues, equipment, &config.router, bell.clone())?;
        }
        workers.configure(&config.router);
        if let Some(power) = &mut power {
            power.start(&config, &interfaces, &workers)?;
        }
        if has_interfaces {
            fallback::warn();
        }
        // Only now is traffic taken over: there are tables, and workers to use them.
        if let Some(kernel) = &mut kernel {
            kernel.hand_over(sockets, longest_packet)?;
            let obstacles = xdp_forward::obstacles(&config, opened.zero_copy);
            kernel.set_obstacles_of_forwarding(obstacles);
            kernel.look_at_ways_out(&rib, Instant::now());
        }
        let listener = server
            .listener()
            .map_err(|source| RouterError::system("serving the control socket", source))?;
        bell.answer(listener);
        if let Some(address) = config.metrics {
            serve_metrics(address, &bell)?;
        }
        for (port, mode) in config.ports.iter().zip(&modes) {
            tracing::info!("port {}: {mode}", port.name);
        }
        Ok(Self {
            config,
            config_path: config_path.to_owned(),
            extra_routes,
            port_links,
            set_log_level,
            started: Instant::now(),
            routes,
            rib,
            workers,
            applications,
            kernel,
            zero_copy: opened.zero_copy,
            power,
            captures,
            modes,
            states,
            refused: 0,
            waiter,
            inbox,
            bell,
            signals: Some(signals),
            socket: server,
            stopping: false,
        })
    }
}

/// What the configuration asks for beside plain forwarding, in the order that
/// [`crate::application`] explains.
fn applications(config: &Config) -> Result<Vec<Box<dyn Application>>, RouterError> {
    let mut applications: Vec<Box<dyn Application>> = Vec::new();
    if let Some(ipsec) = config.ipsec.as_ref().map(Ipsec::new).transpose()?.flatten() {
        applications.push(Box::new(ipsec));
    }
    // Packets that leave pass these the other way round: recorded, encoded, encrypted. Encoders
    // stand there only and decoders never, so their own order does not matter.
    applications.extend(redundancy::encoders(config)?);
    applications.extend(redundancy::decoders(config)?);
    if let Some(settings) = &config.flow_records {
        applications.push(Box::new(FlowRecords::start(settings, config)?));
    }
    Ok(applications)
}

fn interface_of(port: &crate::config::PortSettings) -> Option<&str> {
    match &port.kind {
        PortKind::Interface(name) => Some(name),
        PortKind::Capture { .. } => None,
    }
}

/// The interfaces that are ports, as they are now; all that are unfit are named.
fn interfaces(config: &Config, rib: &Rib) -> Result<Vec<Interface>, RouterError> {
    let links: HashMap<PortId, &Link> = rib.port_links().collect();
    let mut found = Vec::new();
    let mut wrong = Vec::new();
    for (place, settings) in config.ports.iter().enumerate() {
        let Some(name) = interface_of(settings) else { continue };
        let port = PortId(place as u16);
        let problem = match links.get(&port) {
            None => "there is no such interface (`ip link` shows those that exist)".to_owned(),
            Some(link) if link.mac.is_none() => "is no Ethernet interface".to_owned(),
            Some(link) if !link.enabled => {
                format!("is down: `ip link set dev {name} up` before it is taken over")
            }
            Some(link) => match queues::receive_queues(name) {
                Ok(queues) => {
                    found.push(Interface { port, link: (*link).clone(), queues });
                    continue;
                }
                Err(error) => format!("its queues cannot be counted: {error}"),
            },
        };
        wrong.push(format!("[[port]] {}: interface = \"{name}\": {problem}", settings.name));
    }
    if wrong.is_empty() { Ok(found) } else { Err(RouterError::Unfit(wrong.join("\n"))) }
}

/// What this router's choice between several next hops is drawn from. Routers in a row that choose
/// alike would use one of several links; what is made of captures is the same in every run.
fn flow_seed(config: &Config, has_interfaces: bool) -> u64 {
    match config.router.flow_seed {
        Some(seed) => seed.into(),
        // Keyed at random for each.
        None if has_interfaces => RandomState::new().hash_one(std::process::id()),
        None => 0,
    }
}

fn refused(errors: Vec<wattline_dataplane::routes::RouteError>) -> RouterError {
    let lines: Vec<String> = errors.iter().take(20).map(ToString::to_string).collect();
    RouterError::Unfit(lines.join("\n"))
}

/// Serves the metrics endpoint.
fn serve_metrics(address: SocketAddr, bell: &Bell) -> Result<(), RouterError> {
    let bell = bell.clone();
    let metrics = move || match bell.ask(Request::Metrics)? {
        Answer::Ok(serde_json::Value::String(text)) => Some(text),
        _ => None,
    };
    let failed = format!("[metrics] listen = \"{address}\": listening there");
    let bound = crate::metrics::http::serve(address, metrics)
        .map_err(|source| RouterError::system(failed, source))?;
    tracing::info!("metrics at http://{bound}/metrics");
    Ok(())
}

fn watch_signals(bell: &Bell) -> Result<signal_hook::iterator::Handle, RouterError> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    let mut signals = signal_hook::iterator::Signals::new([SIGHUP, SIGINT, SIGTERM])
        .map_err(|source| RouterError::system("watching for signals", source))?;
    let handle = signals.handle();
    let bell = bell.clone();
    std::thread::spawn(move || {
        for signal in signals.forever() {
            bell.ring(Message::Signal(signal));
        }
    });
    Ok(handle)
}

//! Starting a router: everything is opened and checked before the first packet is taken over.

use super::attachments::{Attachments, Surroundings, left_prefixes};
use super::audit::Audit;
use super::busy_poll::why_in_vain;
use super::cpu;
use super::dpdk::{self, Devices};
use super::error::RouterError;
use super::exception::KernelSink;
use super::fallback;
use super::governing;
use super::inbox::{InboxSender, Message};
use super::kernel::KernelSide;
use super::platform::{Plan, Platforms};
use super::power::{self, Power, check_steered};
use super::queues::{self, Interface, Opened, Unopened};
use super::rates::RecentRates;
use super::succession::Inherited;
use super::surplus::Surplus;
use super::takeover::{self, Lookout};
use super::tun::Tunnel;
use super::unpuntable::Unpuntable;
use super::watch::watchers::Watchers;
use super::workers::{Equipment, Workers, waiter_of};
use super::{Router, statics, xdp_forward};
use crate::application::{self, Applications};
use crate::config::{Config, Takeover, routes_file};
use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::mpsc::sync_channel;
use std::time::Instant;
use wattline_daemon::running::Identity;
use wattline_daemon::socket::{self, Answer, Reply, Request};
use wattline_dataplane::port::PortId;
use wattline_dataplane::punt::{Discard, PuntSink, Unavailable};
use wattline_dataplane::routes::Routes;
use wattline_linux::privileges;
use wattline_ports::waiter::{PollWaiter, Waker};
use wattline_rib::{Rib, Source};
use wattline_settings::LogLevel;
use wattline_settings::running::Running;
use wattline_xdp::XdpError;

/// Requests for neighbours that may wait; a worker repeats what does not fit.
const NEIGHBOUR_REQUESTS: usize = 4096;

/// A program's router extensions.
#[derive(Clone, Copy)]
pub struct Extensions {
    /// Applications beside plain forwarding.
    pub applications: Applications,
    /// Platforms of its governor.
    pub platforms: Platforms,
}

impl Router {
    /// Checks what [`Router::start`] would refuse on any machine and [`Config::load`] does not see.
    ///
    /// # Errors
    /// As the start.
    pub fn check(config: &Config) -> Result<(), RouterError> {
        if let Some(path) = &config.routes_file {
            routes_file::load(path, config)?;
        }
        power::check(config)?;
        check_steered(config)?;
        dpdk::check(config)
    }

    /// Reads a configuration and starts what it says, with what the program adds to a router.
    /// `set_log_level` is called at once and whenever the level changes.
    ///
    /// # Errors
    /// When anything is wrong; nothing is attached or changed then.
    pub fn start(
        config_path: &Path,
        extensions: Extensions,
        set_log_level: Box<dyn Fn(LogLevel)>,
    ) -> Result<Self, RouterError> {
        let sections = application::sections(extensions.applications);
        let mut config = Config::load(config_path, &sections)?;
        let extra_routes = match &config.routes_file {
            Some(path) => routes_file::load(path, &config)?,
            None => Vec::new(),
        };
        let plan = Plan::read(&config)?;
        set_log_level(config.log_level);
        let has_interfaces = config.ports.iter().any(|port| port.kind.taken_over().is_some());
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

        let surplus = Surplus::take_from(&mut config);
        if let Some(surplus) = &surplus {
            tracing::warn!("{}", surplus.because);
        }
        // Of the workers that are left: nobody needs the CPUs of others.
        if let Some(unusable) = cpu::unusable(&config) {
            return Err(RouterError::Unfit(unusable));
        }
        // Before the kernel's state is read: TAP devices get their address and carrier.
        let mut devices = Devices::open(&config)?;
        let mut rib = Rib::new(statics::port_specs(&config));
        let mut routes = Routes::new(rib.port_configs());
        routes.set_flow_seed(flow_seed(&config, has_interfaces));
        let mut kernel = match has_interfaces || devices.have_taps() || config.router.kernel_routes
        {
            true => {
                let forwarding = xdp_forward::prepare(&config)?;
                Some(KernelSide::new(config.router.kernel_routes, forwarding)?)
            }
            false => None,
        };
        if let Some(kernel) = &mut kernel {
            // Nothing is forwarded before all is known.
            loop {
                kernel.follow(&mut rib, Instant::now())?;
                if !kernel.is_reading() {
                    break;
                }
            }
        }
        let (mut interfaces, mut unopened) = queues::interfaces(&config, &rib)?;
        let links = interfaces.iter().map(|it| &it.link);
        let links = links.chain(unopened.iter().filter_map(|it| it.link.as_ref()));
        let numbers = links.map(|link| (link.name.clone(), link.index));
        let numbers = numbers.chain(taps(&config, &rib)?).collect();
        let mut port_links = statics::port_links(&config, &numbers);
        for event in statics::events(&config, &extra_routes, &port_links) {
            rib.apply(Source::Static, event);
        }
        for port in unopened.iter().map(|it| it.port) {
            // Else the next link of its name would be the port before it is attached.
            rib.serve(port, None);
        }
        rib.commit(&mut routes).map_err(refused)?;

        let mut applications = application::start(extensions.applications, &config)?;
        let guards = applications.iter().any(|it| it.guards());
        let ports = || (0..config.ports.len() as u16).map(PortId);
        let judged = |port: &PortId| applications.iter().any(|it| it.judges(*port));
        let judges =
            ports().filter(judged).map(|port| (port, what_judges(&config, port))).collect();
        let checks = ports()
            .filter_map(|port| {
                Some((port, applications.iter().filter_map(|it| it.checks_sources(port)).max()?))
            })
            .collect();
        let guarded = || ports().filter(|port| guards || judged(port));
        if devices.have_taps() {
            look_once(&config, &rib, guards, &checks)?;
        }
        let mut lookout = has_interfaces.then(|| Lookout::new(guards, checks, guarded().collect()));
        if let Some(lookout) = &mut lookout {
            lookout.look_first(&config, &rib, Instant::now());
            if let Some(refusal) = lookout.refusal(&config) {
                return Err(RouterError::Obstructed(refusal));
            }
            let left = ports().filter(judged).filter_map(|port| Some((port, lookout.left(port)?)));
            let left: Vec<String> = left
                .map(|(port, why)| {
                    let name = &config.ports[usize::from(port.0)].name;
                    takeover::judged_and_left(name, &what_judges(&config, port), why)
                })
                .collect();
            if !left.is_empty() {
                return Err(RouterError::Obstructed(left.join("\n")));
            }
            lookout.tell_first(&config);
        }
        let tunnel = (has_interfaces || devices.have_taps()).then(Tunnel::open).flatten();
        // The program first: it finds another instance before that one's queues are touched.
        let mut attached = HashMap::new();
        if let Some(kernel) = &mut kernel {
            kernel.inherited = Inherited::take();
            kernel.guard(guarded().collect());
            for port in ports() {
                let why = config.why_by_workers(usize::from(port.0));
                if !why.is_empty() {
                    kernel.leave_to_workers(port, why.join(", "));
                }
            }
            for interface in std::mem::take(&mut interfaces) {
                let Interface { port, link, .. } = &interface;
                let name = &config.ports[usize::from(port.0)].name;
                match kernel.attach(*port, name, link) {
                    Ok(mode) => {
                        attached.insert(*port, mode);
                        interfaces.push(interface);
                    }
                    // The process or the kernel lacks something, for every port.
                    Err(error @ XdpError::Bpf(_)) => {
                        return Err(RouterError::Xdp { port: name.clone(), error });
                    }
                    Err(error) => {
                        unopened.push(Unopened::failed(&interface, &config, error.to_string()));
                    }
                }
            }
            kernel.inherited.give_up_rest();
            kernel.leave_prefixes(|port| lookout.as_ref()?.left_prefixes(port));
            kernel.end_tunnels(applications.iter().flat_map(|it| it.tunnel_ends()).collect());
            kernel.tell_programs(&rib);
            if has_interfaces || devices.have_taps() {
                let tun = tunnel.as_ref().map(|tunnel| &*tunnel.name);
                applications.iter_mut().for_each(|it| it.take_over(&rib, tun));
            }
        }
        let opened = queues::open(&config, &interfaces, &unopened, &mut devices)?;
        let Opened { workers: queues, sockets, longest_packet, captures, states, .. } = opened;
        for interface in std::mem::take(&mut interfaces) {
            match opened.failed.get(&interface.port) {
                None => interfaces.push(interface),
                Some(why) => {
                    attached.remove(&interface.port);
                    unopened.push(Unopened::failed(&interface, &config, why.clone()));
                }
            }
        }
        let has_program = |port| kernel.as_ref().is_some_and(|kernel| kernel.has_program(port));
        let mut attachments = Attachments::new(
            &config,
            &interfaces,
            &unopened,
            opened.interfaces,
            &states,
            &judges,
            &has_program,
        );
        let mut modes = opened.modes;
        for (port, mode) in attached {
            modes[usize::from(port.0)] += &format!(", {mode}");
        }
        for Interface { port, link, queues } in &interfaces {
            if config.polls_unaided()
                && let Some(why) = why_in_vain(&link.name, *queues)
            {
                modes[usize::from(port.0)] += &format!(", {why}");
            }
        }
        for port in unopened.iter().map(|it| it.port) {
            modes[usize::from(port.0)] = "not attached".to_owned();
            rib.serve(port, None);
            kernel.as_mut().map_or(Ok(()), |kernel| kernel.detach_port(port))?;
        }
        check_steered(&config)?;
        let platforms = extensions.platforms;
        let mut power = plan.map(|plan| Power::open(plan, &config, platforms)).transpose()?;
        let mut unpuntable = (has_interfaces && tunnel.is_none()).then(Unpuntable::default);
        unpuntable.iter_mut().for_each(Unpuntable::routes_changed);

        // An overrun leaves its socket in error until it is read.
        let watched = lookout.iter().flat_map(|it| it.watch().descriptors());
        let waiter = PollWaiter::new(kernel.iter().map(KernelSide::descriptor).chain(watched))
            .map_err(|errno| RouterError::system("making a wake-up", errno))?
            .keeping_broken();
        let (inbox_sender, inbox) = InboxSender::new(waiter.waker());
        // Before any thread is started, which would keep what this one gives up.
        if has_interfaces {
            allow_locked_memory();
        }
        if (has_interfaces || !devices.is_empty())
            && let Err(error) = privileges::drop_unneeded()
        {
            tracing::warn!("cannot drop capabilities that are no longer needed: {error}");
        }
        let signals = watch_signals(&inbox_sender)?;
        let (neighbours, requests) = sync_channel(NEIGHBOUR_REQUESTS);
        inbox_sender.pass_on(requests);
        let mut workers = Workers::new();
        let waiters = queues.iter().map(waiter_of).collect::<Result<Vec<_>, _>>()?;
        let bells: Vec<Waker> = waiters.iter().map(PollWaiter::waker).collect();
        let loops = power.as_mut().map(|power| power.equip(&bells)).transpose()?;
        let mut loops = loops.unwrap_or_default().into_iter();
        for (worker, (queues, waiter)) in (0..).zip(queues.into_iter().zip(waiters)) {
            let tunnel = tunnel.as_ref().map(Tunnel::sink);
            let punt: Box<dyn PuntSink> = match tunnel {
                tunnel if devices.have_taps() => {
                    Box::new(KernelSink::new(devices.taps(config.ports.len()), tunnel))
                }
                Some(tunnel) => Box::new(tunnel),
                None if has_interfaces => Box::new(Unavailable),
                None => Box::new(Discard),
            };
            let features = application::features(&mut applications, worker);
            let neighbours = neighbours.clone();
            let (routes, run) = (routes.reader(), loops.next());
            let equipment = Equipment { routes, punt, neighbours, features, waiter, run };
            workers.start(queues, equipment, &config.router, inbox_sender.clone())?;
        }
        workers.configure(&config.router);
        if let Some(power) = &mut power {
            let forwarded = governing::forwarded(&config, kernel.as_ref(), opened.zero_copy);
            let queues = attachments.queues(&config);
            if unopened.is_empty() || !power.follows_ports() {
                power.start(&config, queues, &workers, forwarded)?;
            } else {
                // It may be fit for the ports only when all are there.
                power.resume(&config, queues, &workers, forwarded);
                if !power.governs() {
                    workers.set_active(workers.count());
                    workers.configure(&config.router);
                }
            }
        }
        // Else what the kernel does not forward is not forwarded here, either, and named by port.
        if has_interfaces && !config.router.kernel_routes {
            fallback::warn();
        }
        // Only now is traffic taken over: there are tables, and workers to use them.
        if let Some(kernel) = &mut kernel {
            let left = |port| Some(lookout.as_ref()?.left(port)?.to_owned());
            let mut around = Surroundings {
                config: &config,
                kernel,
                rib: &mut rib,
                workers: &workers,
                left: &left,
                left_prefixes: &|port| left_prefixes(lookout.as_ref(), port),
            };
            let changes = attachments.look(&mut around, Instant::now());
            for (port, link) in changes.links {
                port_links[usize::from(port.0)] = link;
            }
            for event in statics::events(&config, &extra_routes, &port_links) {
                rib.apply(Source::Static, event);
            }
            rib.commit(&mut routes).map_err(refused)?;
            if let Some(unpuntable) = &mut unpuntable
                && let Some(prefixes) = unpuntable.collect(&rib, Instant::now())
            {
                kernel.set_unpuntable(prefixes);
                kernel.leave_prefixes(|port| lookout.as_ref()?.left_prefixes(port));
            }
            let sockets = sockets.into_iter().filter(|(port, ..)| left(*port).is_none()).collect();
            kernel.hand_over(sockets, longest_packet)?;
            kernel.warn_of_mtus(&rib);
            let obstacles = xdp_forward::obstacles(&config, opened.zero_copy);
            kernel.set_obstacles_of_forwarding(obstacles);
            kernel.update_egress_ports(&rib, Instant::now());
        }
        let pending = server
            .listener()
            .and_then(|listener| inbox_sender.answer(listener))
            .map_err(|source| RouterError::system("serving the control socket", source))?;
        if let Some(address) = config.metrics {
            serve_metrics(address, &inbox_sender)?;
        }
        for (port, mode) in config.ports.iter().zip(&modes) {
            tracing::info!("port {}: {mode}", port.name);
        }
        let identity = Identity {
            file: config_path.display().to_string(),
            running: Running::new(&config.text),
        };
        let follows = kernel.is_some() && config.router.kernel_routes;
        let audit = follows
            .then(|| Audit::new(config.router.audit, std::process::id().into(), Instant::now()))
            .transpose()
            .map_err(|source| RouterError::system("opening a netlink socket", source))?;
        Ok(Self {
            config,
            identity,
            config_path: config_path.to_owned(),
            sections,
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
            attachments,
            surplus,
            devices,
            lookout,
            audit,
            tun: tunnel.map(|tunnel| tunnel.name),
            unpuntable,
            refused: 0,
            waiter,
            inbox,
            pending,
            inbox_sender,
            signals: Some(signals),
            socket: server,
            stopping: false,
            needs_restart: Vec::new(),
            cleared: None,
            rates: RecentRates::new(Instant::now()),
            watchers: Watchers::default(),
        })
    }
}

/// The sections by which packets of a port are judged.
fn what_judges(config: &Config, port: PortId) -> String {
    config.why_by_workers(usize::from(port.0)).join(", ")
}

/// Packet memory is locked again when sockets are opened after all of a worker's have gone, as when
/// all ports were left to the kernel for a while. CAP_IPC_LOCK, which passes the limit by, is given up
/// by then.
fn allow_locked_memory() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let unlimited = Rlimit { current: None, maximum: None };
    if setrlimit(Resource::Memlock, unlimited).is_err() {
        // Without CAP_SYS_RESOURCE, as far as the administrator allows.
        let Rlimit { maximum, .. } = getrlimit(Resource::Memlock);
        let _ = setrlimit(Resource::Memlock, Rlimit { current: maximum, maximum });
    }
}

/// The TAP devices that stand for ports, with the numbers of their links; all that are unfit are named.
fn taps(config: &Config, rib: &Rib) -> Result<Vec<(String, u32)>, RouterError> {
    let mut fit = Vec::new();
    let mut wrong = Vec::new();
    for (port, settings) in (0..).map(PortId).zip(&config.ports) {
        let Some(name) = settings.kind.in_kernel().filter(|_| settings.kind.is_dpdk()) else {
            continue;
        };
        match rib.link_of(port) {
            Some(link) if link.enabled => fit.push((name.to_owned(), link.index)),
            _ => wrong.push(format!(
                "[[port]] {}: interface = \"{name}\": it is down: `ip link set dev {name} up`",
                settings.name
            )),
        }
    }
    if wrong.is_empty() { Ok(fit) } else { Err(RouterError::Unfit(wrong.join("\n"))) }
}

/// A port over DPDK cannot be left to the kernel: where the kernel would do more than to route, the router
/// does not start, unless it is told to forward all the same.
fn look_once(
    config: &Config,
    rib: &Rib,
    guards: bool,
    checks: &BTreeMap<PortId, application::SourceCheck>,
) -> Result<(), RouterError> {
    let reasons = takeover::weighty_reasons(config, rib, guards, checks);
    if reasons.is_empty() {
        return Ok(());
    }
    if config.router.takeover == Takeover::Force {
        for reason in reasons {
            tracing::warn!("{reason}: Wattline forwards packets without it");
        }
        return Ok(());
    }
    Err(RouterError::Obstructed(format!(
        "packets that are forwarded here would pass by what the kernel does:\n{}\nports over DPDK cannot be \
         left to the kernel: remove that, or say [router] takeover = \"force\" to forward all the same",
        reasons.join("\n")
    )))
}

/// Returns the seed of the choice between several next hops. Routers in a row that choose
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
fn serve_metrics(address: SocketAddr, inbox_sender: &InboxSender) -> Result<(), RouterError> {
    let inbox_sender = inbox_sender.clone();
    let metrics = move || match inbox_sender.ask(Request::Metrics)? {
        Reply::Answer(Answer::Ok(serde_json::Value::String(text))) => Some(text),
        _ => None,
    };
    let failed = format!("[metrics] listen = \"{address}\": listening there");
    let bound = wattline_daemon::metrics::http::serve(address, metrics)
        .map_err(|source| RouterError::system(failed, source))?;
    tracing::info!("metrics at http://{bound}/metrics");
    Ok(())
}

fn watch_signals(inbox_sender: &InboxSender) -> Result<signal_hook::iterator::Handle, RouterError> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    let mut signals = signal_hook::iterator::Signals::new([SIGHUP, SIGINT, SIGTERM])
        .map_err(|source| RouterError::system("watching for signals", source))?;
    let handle = signals.handle();
    let inbox_sender = inbox_sender.clone();
    std::thread::spawn(move || {
        for signal in signals.forever() {
            inbox_sender.send(Message::Signal(signal));
        }
    });
    Ok(handle)
}

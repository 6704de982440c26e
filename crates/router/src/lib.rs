//! The router from start to end.
//!
//! There are one control thread ([`Router::run`]) and the workers. The control thread follows the
//! kernel, writes the tables, answers the socket and waits for signals; it sleeps while there is
//! nothing to do.
//!
//! If the process ends, the machine continues to forward: the XDP programs are attached by links
//! that the kernel removes with the process. On SIGTERM, SIGINT or a request they are first
//! replaced by programs that pass everything to the kernel. The workers then forward the queued
//! packets before they end ([`succession`]).
//!
//! This crate contains the router's configuration, ports, workers, control socket and statistics.
//! Applications and the governor's platforms are not part of it: the program (`wattline run`)
//! passes both in ([`Extensions`]).
#![forbid(unsafe_code)]
#![warn(clippy::too_many_lines)]
// A daemon writes to its log: printing blocks on a stalled reader and panics without one.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

pub mod application;
mod audit;
mod bundle;
mod busy_poll;
mod by_workers;
mod channels;
mod cleared;
pub mod config;
mod configured;
mod control;
mod cpu;
pub mod drivers;
mod error;
mod fallback;
mod governing;
mod inbox;
mod kernel;
mod kernel_routes;
pub mod metrics;
mod neighbour_requests;
pub mod platform;
mod port;
mod power;
mod programs;
mod pulse;
mod queue_watch;
mod queues;
mod rates;
mod reload;
mod show;
mod slot;
mod stall;
mod start;
mod statics;
pub mod stats;
mod succession;
mod surplus;
mod takeover;
mod taps;
mod tun;
mod view;
mod watch;
mod workers;
mod xdp_counts;
mod xdp_forward;

pub use error::{Remedy, RouterError};
pub use start::{Extensions, plan_ports};

use crate::application::Application;
use crate::stats::{PortState, Stats};
use audit::Audit;
use cleared::Cleared;
use configured::Configured;
use control::Control;
use inbox::Message;
use kernel::KernelSide;
use kernel_routes::KernelRoutes;
use port::Port;
use port::actuator::Actuator;
use port::ports::Ports;
use pulse::Change;
use rates::RecentRates;
use std::time::{Duration, Instant};
use surplus::Surplus;
use takeover::ForwardPathMonitor;
use taps::watchers::{self, Watchers};
use wattline_daemon::notify::Notifier;
use wattline_daemon::reload::Report;
use wattline_daemon::socket::{Answer, Reply, Request};
use wattline_dataplane::port::{PortId, Waiter};
use wattline_dataplane::routes::Routes;
use wattline_governor::lease::Asked;
use wattline_rib::Rib;
use wattline_status::{ActiveWorkers, Contract, Empty, ReloadReport};
use workers::Workers;

/// The control thread wakes up at least this often.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);

/// A router that has been started.
pub struct Router {
    configured: Configured,
    control: Control,
    rib: Rib,
    routes: Routes,
    /// Updates that the tables refused.
    refused: u64,
    ports: Ports,
    kernel: Option<KernelSide>,
    /// Monitor of the kernel's other treatments of packets, if there are interfaces.
    monitor: Option<ForwardPathMonitor>,
    /// Comparison of decisions with the kernel's.
    audit: Option<Audit>,
    /// The device by which packets enter the kernel.
    tun: Option<String>,
    /// Routes by which programs leave packets to the kernel, if there are interfaces.
    kernel_routes: Option<KernelRoutes>,
    workers: Workers,
    /// Workers that were not started.
    surplus: Option<Surplus>,
    applications: Vec<Box<dyn Application>>,
    power: Option<power::Power>,
    /// Captures and traces.
    watchers: Watchers,
    stopping: bool,
    started: Instant,
    /// Bits per second of ports.
    rates: RecentRates,
    /// Counters when they were last cleared.
    cleared: Option<Cleared>,
}

impl Router {
    /// Runs until all captures are read, a signal or a request over the socket ends it, or a worker
    /// or the governor panics. Returns the final account, and the error if there was one. A bad
    /// capture was forwarded up to its first error.
    pub fn run(mut self) -> (Stats, Result<(), RouterError>) {
        let mut notifier = Notifier::from_environment();
        if let Some(kernel) = &mut self.kernel {
            kernel.programs.inherited.settle(&notifier);
        }
        let mut reported = String::new();
        self.ports.notify_manager(&notifier, &mut reported);
        notifier.ready();
        let longest = notifier.patience().map_or(LONGEST_SLEEP, |most| most.min(LONGEST_SLEEP));
        let mut failure = None;
        while !self.stopping && !self.workers.have_ended() && failure.is_none() {
            let now = Instant::now();
            notifier.alive(now);
            let due = self.prepare(now).map(|at| at.saturating_duration_since(now));
            self.control.waiter.wait(due.map_or(longest, |sleep| sleep.min(longest)));
            self.poll();
            while let Ok(message) = self.control.inbox.try_recv() {
                self.handle(message, &notifier);
            }
            self.commit();
            self.compare_decisions();
            if let (Some(routes), Some(kernel)) = (&mut self.kernel_routes, &mut self.kernel) {
                routes.update(&mut kernel.programs, &self.rib);
            }
            self.ports.notify_manager(&notifier, &mut reported);
            failure = self
                .workers
                .failure()
                .or_else(|| self.power.as_ref().and_then(power::Power::failure));
        }
        notifier.stopping();
        self.end(&notifier, failure)
    }

    /// Has each part do its due work. Returns the time of the next work.
    fn prepare(&mut self, now: Instant) -> Option<Instant> {
        let Self { applications, rib, routes, kernel, ports, power, .. } = self;
        if let Some(power) = power {
            power.tick(now);
        }
        let due = applications.iter_mut().map(|application| {
            application.follow_routes(rib, routes);
            application.tick(now)
        });
        let deadlines = kernel.iter().map(|kernel| kernel.deadline()).chain(due);
        let deadlines = deadlines.chain(ports.deadline(now));
        let deadlines = deadlines.chain(self.monitor.iter().map(ForwardPathMonitor::deadline));
        let deadlines = deadlines.chain(power.as_ref().and_then(|power| power.due()));
        let deadlines = deadlines.chain(self.audit.iter().map(Audit::deadline));
        deadlines.chain(self.kernel_routes.iter().map(KernelRoutes::deadline)).min()
    }

    /// Follows all changes outside of the router.
    fn poll(&mut self) {
        if let Some(kernel) = &mut self.kernel {
            kernel.catch_up(&mut self.rib, &self.control.inbox_sender);
        }
        self.check_forward_path();
        self.poll_interfaces();
        let changes = self.workers.poll(Instant::now());
        if let Some((ports, actuator)) = self.actuator() {
            for (worker, change) in changes {
                actuator.serve_by(ports, worker, change == Change::GoesOn);
            }
        }
        self.poll_governor(Instant::now());
        let now = Instant::now();
        if self.rates.is_due(now) {
            let stats = self.stats();
            self.rates.note(&stats, now);
        }
        if let Some(kernel) = &mut self.kernel {
            let ends = self.applications.iter().flat_map(|it| it.tunnel_ends()).collect();
            kernel.programs.end_tunnels(ends, &self.rib);
        }
    }

    fn compare_decisions(&mut self) {
        let Self { audit: Some(audit), kernel: Some(kernel), rib, routes, monitor, ports, .. } =
            self
        else {
            return;
        };
        let is_served =
            |port: PortId| ports.state(port).is_some_and(|(state, _)| state == PortState::Up);
        if audit.poll((rib, routes), monitor.as_ref(), kernel, &is_served) {
            self.commit();
        }
    }

    /// Returns a query for statistics, for any thread. It returns `None` while the router is not
    /// running.
    pub fn statistics(
        &self,
    ) -> impl Fn() -> Option<wattline_status::Stats> + Send + Sync + 'static {
        let inbox_sender = self.control.inbox_sender.clone();
        move || match inbox_sender.ask(Request::Stats)? {
            Reply::Answer(Answer::Ok(stats)) => wattline_status::read(stats).ok(),
            Reply::Answer(Answer::Error(_)) | Reply::Stream(..) => None,
        }
    }

    fn end(
        mut self,
        notifier: &Notifier,
        failure: Option<RouterError>,
    ) -> (Stats, Result<(), RouterError>) {
        self.control.signals.close();
        let given_back = self.power.as_mut().map_or(Ok(()), |power| power.give_back());
        self.applications.iter_mut().for_each(|it| it.release());
        let kept = self.kernel.as_mut().map(|kernel| kernel.programs.retreat()).unwrap_or_default();
        if let Some(power) = &self.power {
            power.finish();
        }
        let ending = self.workers.drain(self.configured.config.router.drain);
        for application in &mut self.applications {
            application.follow_routes(&self.rib, &self.routes);
            application.finish(!ending.left_behind);
        }
        succession::leave(kept, notifier);
        let stats = self.stats();
        let errors: Vec<_> =
            self.ports.captures.iter().flat_map(|capture| capture.take_errors()).collect();
        let read = if errors.is_empty() { Ok(()) } else { Err(RouterError::Captures(errors)) };
        let hung = ending.hangs.map(|worker| RouterError::Hung { worker });
        let worked = failure.or_else(|| self.workers.failure()).or(hung).map_or(Ok(()), Err);
        drop(self.control.inbox);
        self.control.pending.wait();
        // An unrestored machine matters more than a worker, and a worker more than a capture.
        (stats, given_back.and(worked).and(read))
    }

    /// Checks the kernel's other treatments of packets. [`Self::poll_interfaces`] acts on the
    /// result.
    fn check_forward_path(&mut self) {
        let Some(monitor) = &mut self.monitor else { return };
        let now = Instant::now();
        if now >= monitor.deadline()
            && let Some(tun) = &self.tun
            && let Err(error) = wattline_linux::tun::pass_reverse_path(tun)
                .and_then(|()| wattline_linux::tun::forward(tun))
        {
            tracing::debug!("{tun}: {error}");
        }
        if !monitor.poll(&self.configured.config, &self.rib, now) {
            return;
        }
        if let Some(kernel) = &mut self.kernel {
            kernel.programs.leave_prefixes(|port| monitor.left_prefixes(port));
        }
        for Port { id, name, life, .. } in &self.ports.list {
            if let (Some(what), Some(_)) = (life.guard.judges(), monitor.left(*id)) {
                tracing::error!(
                    "port {name}: {what} would not hold if the kernel forwarded the packets of this \
                     port: packets for others are dropped until the reason above is gone; \
                     [router] takeover = \"force\" forwards them anyway"
                );
            }
        }
    }

    /// Returns the ports, and the system that they act on; nothing if no interfaces are known.
    fn actuator(&mut self) -> Option<(&mut Vec<Port>, Actuator<'_>)> {
        let Self { configured, kernel, rib, workers, ports, monitor, .. } = self;
        let actuator = Actuator {
            config: &configured.config,
            programs: &mut kernel.as_mut()?.programs,
            rib,
            workers,
            interfaces: &mut ports.interfaces,
            monitor: monitor.as_ref(),
        };
        Some((&mut ports.list, actuator))
    }

    /// Gives up interfaces that are gone and serves new ones in their place.
    fn poll_interfaces(&mut self) {
        let Some((ports, mut actuator)) = self.actuator() else { return };
        let links = actuator.poll(ports, Instant::now());
        if !links.is_empty() {
            for (port, link) in links {
                self.ports.links[usize::from(port.0)] = link;
            }
            self.configured.apply_statics(&mut self.rib, &self.ports.links);
        }
        self.update_egress_ports();
    }

    /// Brings the tables up to date, and lets XDP programs forward by them.
    fn update_egress_ports(&mut self) {
        self.commit();
        let Some(kernel) = &mut self.kernel else { return };
        let config = &self.configured.config;
        if let Some(monitor) = &self.monitor {
            let targets = self.ports.flow_targets(config, monitor);
            kernel.programs.flows.poll(&targets, &self.rib, Instant::now());
        }
        let obstacles = xdp_forward::obstacles(config, self.ports.zero_copy());
        kernel.programs.egress.set_obstacles(obstacles);
        // After the obstacles, whose changes make the check due.
        kernel.programs.update_egress_ports(&self.rib, Instant::now());
        let (snap, nodes) = (self.watchers.snap(), self.workers.nodes().len());
        if let Err(error) = kernel.programs.copying.update(snap, nodes) {
            tracing::error!("copies of packets that XDP programs forward: {error}");
        }
    }

    /// Brings the workers' tables and the XDP programs up to date.
    fn commit(&mut self) {
        if !self.rib.has_changes() {
            return;
        }
        self.kernel_routes.iter_mut().for_each(KernelRoutes::routes_changed);
        let port_changes = self.rib.port_changes();
        if let Err(errors) = self.rib.commit(&mut self.routes) {
            self.refused += errors.len() as u64;
            // One line for all of them: a full table refuses thousands.
            if let Some(first) = errors.first() {
                let count = errors.len();
                tracing::warn!("the forwarding tables refused {count} changes; the first: {first}");
            }
        }
        if self.rib.port_changes() != port_changes
            && let Some(kernel) = &mut self.kernel
        {
            kernel.programs.publish_addresses(&self.rib);
        }
        // Sleeping workers may hold packets for a neighbour that is known now.
        self.workers.wake();
        // There may be more than one poll reads.
        if self.kernel.is_some() {
            self.control.inbox_sender.wake();
        }
    }

    fn handle(&mut self, message: Message, notifier: &Notifier) {
        match message {
            Message::Neighbours(batch, _handled) => {
                if let Some(kernel) = &mut self.kernel {
                    kernel.resolve(&self.rib, &batch);
                }
            }
            // The sender of a signal gets no answer: the outcome is in the log.
            Message::Signal(signal_hook::consts::SIGHUP) => drop(self.read_again(notifier)),
            Message::Signal(_) => self.stopping = true,
            Message::WorkerEnded => {}
            Message::Request(request, answer) => {
                // The client may have disconnected.
                let reply = match request {
                    Request::Capture(look) => self.watch(watchers::Kind::Capture, &look),
                    Request::Trace(look) => self.watch(watchers::Kind::Trace, &look),
                    Request::Reload => Reply::Answer(match self.read_again(notifier) {
                        Ok(report) => Answer::document(&ReloadReport::from(&report)),
                        Err(error) => Answer::Error(error.to_string()),
                    }),
                    Request::Audit { within } => {
                        audit::on_demand(self.audit.as_mut(), &self.rib, within)
                    }
                    request => Reply::Answer(self.answer(request)),
                };
                let _ = answer.send(reply);
            }
        }
    }

    /// Reads the configuration again, and reports the outcome to the log and to the service
    /// manager.
    fn read_again(&mut self, notifier: &Notifier) -> Result<Report, RouterError> {
        notifier.reloading();
        let outcome = self.reload();
        match &outcome {
            Ok(report) => {
                self.configured.needs_restart.clone_from(&report.needs_restart);
                report.log();
                notifier.reloaded(&format!("configuration read again: {report}"));
            }
            Err(error) => {
                tracing::error!("the configuration stays as it was:\n{error}");
                notifier.reloaded(&format!("the configuration stays as it was: {error}"));
            }
        }
        outcome
    }

    fn answer(&mut self, request: Request) -> Answer {
        match request {
            Request::Stats => {
                let stats = Box::new(self.shown_stats());
                Answer::document(&wattline_status::Stats::Router(stats))
            }
            Request::Metrics => {
                let (stats, workers) = (self.stats(), self.snapshots());
                Answer::Ok(crate::metrics::render(&stats, &workers, &self.applications).into())
            }
            Request::Graph => Answer::document(&self.graph()),
            Request::Show { topic, within, most } => self.show(topic, within, most as usize),
            Request::Active { workers } => {
                let count = self.workers.count();
                if self.power.as_ref().is_some_and(power::Power::governs) {
                    return Answer::Error(
                        "a governor decides which workers are active: [power] platform".to_owned(),
                    );
                }
                if workers == 0 || workers > count {
                    return Answer::Error(format!("there are 1 to {count} workers, not {workers}"));
                }
                self.workers.set_active(workers);
                let contract = Contract::default();
                Answer::document(&ActiveWorkers { contract, active_workers: workers })
            }
            Request::Hold { owner, cores, kilohertz, seconds } => {
                self.lease(&Asked::hold(owner, cores, kilohertz, seconds))
            }
            Request::Release { owner } => self.lease(&Asked::Release(owner)),
            Request::ClearCounters => {
                self.cleared = Some(Cleared::now(self.stats()));
                Answer::document(&Empty::default())
            }
            // Answered by `handle`.
            Request::Capture(_) | Request::Trace(_) | Request::Audit { .. } | Request::Reload => {
                Answer::Error("not here".to_owned())
            }
            Request::Stop => {
                self.stopping = true;
                Answer::document(&Empty::default())
            }
            Request::StopAndOpen => {
                self.applications.iter_mut().for_each(|it| it.open_at_end());
                self.stopping = true;
                Answer::document(&Empty::default())
            }
        }
    }

    fn lease(&self, asked: &Asked) -> Answer {
        match self.power.as_ref().filter(|power| power.governs()) {
            Some(power) => power.lease(asked),
            None => Answer::Error("nothing is governed: set platform in [power]".to_owned()),
        }
    }

    /// Returns the socket's path.
    pub fn socket_path(&self) -> &std::path::Path {
        self.control.socket.path()
    }
}

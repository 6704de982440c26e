//! The router from start to end.
//!
//! One control thread, which [`Router::run`] is, and the workers. The control thread follows the
//! kernel, writes the tables, answers the socket and waits for signals; it sleeps
//! while there is nothing to do.
//!
//! Whatever happens to the process, the machine forwards on: the XDP programs are attached by
//! links that the kernel cuts when the process ends. On SIGTERM, SIGINT or a request they are
//! replaced first by such as pass everything, so that what arrives from then on takes the kernel's
//! way, and the workers forward what is queued before they end ([`succession`]).
//!
//! This crate is the life of a router: its configuration, ports, workers, the control socket and
//! the statistics. Applications on the packets' way and what a governor drives are not part of it:
//! the program (`wattline run`) hands both over ([`Extensions`]).
#![forbid(unsafe_code)]
#![warn(clippy::too_many_lines)]
// A daemon writes to its log: these wait for a reader that stalls, and panic where it is gone.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

pub mod application;
mod attachments;
mod audit;
mod bundle;
mod busy_poll;
mod by_workers;
mod channels;
mod cleared;
pub mod config;
mod cpu;
mod dpdk;
mod error;
mod exception;
mod fallback;
mod governing;
mod inbox;
mod kernel;
mod link_state;
pub mod metrics;
mod neighbour_requests;
pub mod platform;
mod port_changes;
mod power;
mod pulse;
mod queues;
mod rates;
mod recent;
mod reload;
mod show;
mod slot;
mod stall;
mod start;
mod statics;
pub mod stats;
mod stretches;
mod succession;
mod surplus;
mod takeover;
mod tun;
mod unpuntable;
mod watch;
mod workers;
mod xdp_counts;
mod xdp_forward;

pub use error::{Remedy, RouterError};
pub use start::Extensions;

use crate::application::Application;
use crate::config::{ApplicationSection, Config, PortSettings, RouteSettings};
use crate::stats::{NotStarted, Prefixes, Stats, TakeoverStats, WorkerStats};
use attachments::{Attachments, Surroundings};
use audit::{Audit, Question};
use cleared::Cleared;
use dpdk::Devices;
use inbox::{InboxSender, Message};
use ipnet::IpNet;
use kernel::KernelSide;
use pulse::Change;
use rates::RecentRates;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};
use surplus::Surplus;
use takeover::Lookout;
use unpuntable::Unpuntable;
use watch::watchers::{self, Watchers};
use wattline_daemon::notify::Notifier;
use wattline_daemon::reload::Report;
use wattline_daemon::running::Identity;
use wattline_daemon::settings::LogLevel;
use wattline_daemon::socket::{Answer, Pending, Reply, Request, Server};
use wattline_dataplane::counters::Snapshot;
use wattline_dataplane::port::{PortId, Waiter};
use wattline_dataplane::routes::Routes;
use wattline_ports::capture::CaptureStatus;
use wattline_ports::waiter::PollWaiter;
use wattline_rib::{Rib, Source};
use wattline_status::{ActiveWorkers, Contract, Empty, Graph, ReloadReport};
use workers::Workers;

/// The kernel is followed for no longer before other work gets its turn.
const FOLLOWING: Duration = Duration::from_millis(20);

/// The control thread looks around this often, whatever happens.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);

/// A router that has been started.
pub struct Router {
    config: Config,
    config_path: PathBuf,
    /// The sections that may stand in it beside the router's own.
    sections: Vec<&'static dyn ApplicationSection>,
    /// Routes from the file that the configuration names.
    extra_routes: Vec<RouteSettings>,
    port_links: statics::PortLinks,
    set_log_level: Box<dyn Fn(LogLevel)>,
    started: Instant,
    routes: Routes,
    rib: Rib,
    workers: Workers,
    applications: Vec<Box<dyn Application>>,
    kernel: Option<KernelSide>,
    /// Whether frames of some interface reach workers without a copy.
    zero_copy: bool,
    power: Option<power::Power>,
    captures: Vec<CaptureStatus>,
    modes: Vec<String>,
    attachments: Attachments,
    /// Workers that were not started.
    surplus: Option<Surplus>,
    /// Those of ports over DPDK.
    devices: Devices,
    /// The kernel's work beside routing, where there are interfaces.
    lookout: Option<Lookout>,
    /// The comparison of decisions with the kernel's.
    audit: Option<Audit>,
    /// The device by which packets enter the kernel.
    tun: Option<String>,
    /// Handling of packets for the kernel where there is no such device.
    unpuntable: Option<Unpuntable>,
    /// Updates that the tables refused.
    refused: u64,
    waiter: PollWaiter,
    inbox: Receiver<Message>,
    /// Answers that are not sent yet.
    pending: Pending,
    inbox_sender: InboxSender,
    signals: Option<signal_hook::iterator::Handle>,
    socket: Server,
    stopping: bool,
    /// Parts of the configuration, as last read, that are not in force before a restart.
    needs_restart: Vec<&'static str>,
    /// Its configuration as people see it.
    identity: Identity,
    /// Bits per second of ports.
    rates: RecentRates,
    /// Since when counters are shown.
    cleared: Option<Cleared>,
    /// Captures and traces.
    watchers: Watchers,
}

impl Router {
    /// Runs until all captures are read, a signal says stop, someone asks for it over the socket,
    /// or a worker or the governor panics. Gives the final account, and what went wrong meanwhile: a
    /// capture that turned out to be bad was forwarded up to there.
    pub fn run(mut self) -> (Stats, Result<(), RouterError>) {
        let mut notifier = Notifier::from_environment();
        if let Some(kernel) = &mut self.kernel {
            kernel.inherited.settle(&notifier);
        }
        let mut told = String::new();
        self.tell_manager(&notifier, &mut told);
        notifier.ready();
        let longest = notifier.patience().map_or(LONGEST_SLEEP, |most| most.min(LONGEST_SLEEP));
        let mut failure = None;
        while !self.stopping && !self.workers.have_ended() && failure.is_none() {
            let now = Instant::now();
            notifier.alive(now);
            let Self {
                applications,
                rib,
                routes,
                kernel,
                attachments,
                power,
                lookout,
                unpuntable,
                audit,
                ..
            } = &mut self;
            if let Some(power) = power {
                power.tick(now);
            }
            let due = applications.iter_mut().map(|application| {
                application.look_at_routes(rib, routes);
                application.tick(now)
            });
            let deadlines = kernel.iter().map(|kernel| kernel.deadline()).chain(due);
            let deadlines = deadlines.chain(attachments.deadline(now));
            let deadlines = deadlines.chain(lookout.iter().map(Lookout::deadline));
            let deadlines = deadlines.chain(power.as_ref().and_then(|power| power.due()));
            let deadlines = deadlines.chain(audit.iter().map(Audit::deadline));
            let deadlines = deadlines.chain(unpuntable.iter().filter_map(|it| it.deadline(now)));
            let sleep = deadlines.map(|at| at.saturating_duration_since(now)).min();
            self.waiter.wait(sleep.map_or(longest, |sleep| sleep.min(longest)));
            self.follow_kernel();
            self.look_out();
            self.look_at_interfaces();
            self.look_at_workers();
            self.look_at_governor(Instant::now());
            self.look_at_rates(Instant::now());
            self.devices.look(Instant::now());
            self.end_tunnels();
            while let Ok(message) = self.inbox.try_recv() {
                self.handle(message, &notifier);
            }
            self.commit();
            self.compare_decisions();
            self.leave_unpuntable();
            self.tell_manager(&notifier, &mut told);
            failure = self.failure();
        }
        notifier.stopping();
        self.end(&notifier, failure)
    }

    /// Reports the ports that are not served to the service manager, when they change.
    fn tell_manager(&self, notifier: &Notifier, told: &mut String) {
        let status = self.attachments.summary();
        if status != *told {
            notifier.status(&status);
            *told = status;
        }
    }

    /// Finds a fatal error.
    fn failure(&self) -> Option<RouterError> {
        self.workers.failure().or_else(|| self.power.as_ref()?.failure())
    }

    /// Returns a query for statistics, for any thread; nothing is answered while the router is not
    /// running.
    pub fn statistics(
        &self,
    ) -> impl Fn() -> Option<wattline_status::Stats> + Send + Sync + 'static {
        let inbox_sender = self.inbox_sender.clone();
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
        if let Some(signals) = &self.signals {
            signals.close();
        }
        let given_back = self.power.as_mut().map_or(Ok(()), |power| power.give_back());
        let kept = self.kernel.as_mut().map(KernelSide::retreat).unwrap_or_default();
        if let Some(power) = &self.power {
            power.finish();
        }
        let ending = self.workers.drain(self.config.router.drain);
        for application in &mut self.applications {
            application.look_at_routes(&self.rib, &self.routes);
            application.finish(!ending.left_behind);
        }
        succession::leave(kept, notifier);
        let stats = self.stats();
        let errors: Vec<_> =
            self.captures.iter().flat_map(|capture| capture.take_errors()).collect();
        let read = if errors.is_empty() { Ok(()) } else { Err(RouterError::Captures(errors)) };
        let hung = ending.hangs.map(|worker| RouterError::Hung { worker });
        let worked = failure.or_else(|| self.workers.failure()).or(hung).map_or(Ok(()), Err);
        drop(self.inbox);
        self.pending.wait();
        // A machine that is left changed matters more than a worker, and that more than a capture.
        (stats, given_back.and(worked).and(read))
    }

    fn follow_kernel(&mut self) {
        let Self { kernel: Some(kernel), rib, inbox_sender, .. } = self else { return };
        let now = Instant::now();
        loop {
            match kernel.follow(rib, now) {
                // What has come so far goes to the workers before more is taken.
                Ok(more) => {
                    if !more || rib.has_changes() {
                        break;
                    }
                    // A table is read again, for instance, in which nothing is new.
                    if now.elapsed() > FOLLOWING {
                        inbox_sender.wake();
                        break;
                    }
                }
                Err(error) => {
                    tracing::error!("{error}; the router continues with the routes that it knows");
                    break;
                }
            }
        }
        kernel.care(rib, now);
    }

    /// Looks what the kernel does beside routing; [`Self::look_at_interfaces`] does what follows.
    fn look_out(&mut self) {
        let Some(lookout) = &mut self.lookout else { return };
        let now = Instant::now();
        if now >= lookout.deadline()
            && let Some(tun) = &self.tun
            && let Err(error) = wattline_linux::tun::pass_reverse_path(tun)
                .and_then(|()| wattline_linux::tun::forward(tun))
        {
            tracing::debug!("{tun}: {error}");
        }
        if !lookout.look(&self.config, &self.rib, now) {
            return;
        }
        if let Some(kernel) = &mut self.kernel {
            kernel.leave_prefixes(|port| lookout.left_prefixes(port));
        }
        for (number, settings) in (0..).zip(&self.config.ports) {
            let judged = self.applications.iter().any(|it| it.judges(PortId(number)));
            if judged && lookout.left(PortId(number)).is_some() {
                let what = self.config.why_by_workers(usize::from(number)).join(", ");
                let name = &settings.name;
                tracing::error!(
                    "port {name}: {what} would not hold if the kernel forwarded the packets of this \
                     port: what comes in for others is dropped until the reason above is gone, or \
                     [router] takeover = \"force\" says that it is to be passed by"
                );
            }
        }
    }

    /// Gives up interfaces that are gone and serves those that have come in their place.
    fn look_at_interfaces(&mut self) {
        let Self { config, kernel: Some(kernel), rib, workers, attachments, lookout, .. } = self
        else {
            return;
        };
        let now = Instant::now();
        let left = |port| Some(lookout.as_ref()?.left(port)?.to_owned());
        let left_prefixes = |port| attachments::left_prefixes(lookout.as_ref(), port);
        let left_prefixes = &left_prefixes;
        let mut around = Surroundings { config, kernel, rib, workers, left: &left, left_prefixes };
        let changes = attachments.look(&mut around, now);
        self.zero_copy |= changes.zero_copy;
        for (port, mode) in changes.modes {
            self.modes[usize::from(port.0)] = mode;
        }
        if !changes.links.is_empty() {
            for (port, link) in changes.links {
                self.port_links[usize::from(port.0)] = link;
            }
            self.apply_statics();
        }
        self.update_egress_ports();
    }

    /// Lets XDP programs forward what they may.
    fn update_egress_ports(&mut self) {
        let Some(kernel) = &mut self.kernel else { return };
        let mut obstacles = xdp_forward::obstacles(&self.config, self.zero_copy);
        obstacles.extend(self.watchers.divert().then_some(watchers::OBSTACLE));
        kernel.set_obstacles_of_forwarding(obstacles);
        kernel.update_egress_ports(&self.rib, Instant::now());
    }

    /// Leaves packets for hanging workers to the kernel.
    fn look_at_workers(&mut self) {
        for (worker, change) in self.workers.look(Instant::now()) {
            if let Some(kernel) = &mut self.kernel {
                self.attachments.serve_by(worker, change == Change::GoesOn, kernel);
            }
        }
    }

    /// Has routes, addresses and neighbours of the configuration as they are now.
    fn apply_statics(&mut self) {
        for event in statics::events(&self.config, &self.extra_routes, &self.port_links) {
            self.rib.apply(Source::Static, event);
        }
    }

    /// Tells the XDP programs at which addresses tunnels end, should that have changed.
    fn end_tunnels(&mut self) {
        let Self { kernel: Some(kernel), applications, rib, .. } = self else { return };
        if kernel.end_tunnels(applications.iter().flat_map(|it| it.tunnel_ends()).collect()) {
            kernel.tell_programs(rib);
        }
    }

    /// Leaves to the kernel what no worker could give to it, where there is no TUN device.
    fn leave_unpuntable(&mut self) {
        let Self { unpuntable: Some(unpuntable), kernel: Some(kernel), rib, lookout, .. } = self
        else {
            return;
        };
        if let Some(prefixes) = unpuntable.collect(rib, Instant::now()) {
            kernel.set_unpuntable(prefixes);
            kernel.leave_prefixes(|port| lookout.as_ref()?.left_prefixes(port));
        }
    }

    /// Compares some decisions with the kernel's.
    fn compare_decisions(&mut self) {
        let Self {
            audit: Some(audit),
            kernel: Some(kernel),
            rib,
            routes,
            lookout,
            attachments,
            ..
        } = self
        else {
            return;
        };
        let now = Instant::now();
        if now < audit.deadline() {
            return;
        }
        if !kernel.is_current() || rib.has_changes() {
            return audit.postpone(now);
        }
        let is_ours = |question: &Question| {
            let is_left = lookout.as_ref().is_some_and(|lookout| {
                let mut prefixes = lookout.left_prefixes(question.port).into_iter().flatten();
                lookout.left(question.port).is_some()
                    || prefixes.any(|it| {
                        it.contains(&question.source) || it.contains(&question.destination)
                    })
            });
            attachments.state(question.port).is_some_and(|(state, _)| state == "up") && !is_left
        };
        if audit.run(rib, routes, &is_ours, now) {
            kernel.request_dump(now);
        }
        self.commit();
    }

    /// Compares all decisions with the kernel's, or those about addresses within a prefix.
    fn audit_on_demand(&mut self, within: Option<IpNet>) -> Reply {
        let refused = |why: &str| Reply::Answer(Answer::Error(why.to_owned()));
        let Self { audit: Some(audit), rib, .. } = self else {
            return refused("it takes no routes from a kernel: there is nothing to compare");
        };
        let Some(awaited) = audit.demand(rib, within) else {
            return refused("another audit on demand runs: wait for its end");
        };
        match serde_json::to_value(Empty::default()) {
            Ok(begun) => Reply::Stream(begun, Box::new(move |out| awaited.send(out))),
            Err(error) => refused(&error.to_string()),
        }
    }

    /// Brings the workers' tables and the XDP programs up to date.
    fn commit(&mut self) {
        if !self.rib.has_changes() {
            return;
        }
        self.unpuntable.iter_mut().for_each(Unpuntable::routes_changed);
        let ports_changed = self.rib.ports_changed();
        if let Err(errors) = self.rib.commit(&mut self.routes) {
            self.refused += errors.len() as u64;
            // One line, however many there are: a table that is full refuses thousands.
            if let Some(first) = errors.first() {
                let count = errors.len();
                tracing::warn!("the forwarding tables refused {count} changes; the first: {first}");
            }
        }
        if ports_changed && let Some(kernel) = &mut self.kernel {
            kernel.tell_programs(&self.rib);
        }
        // Workers that sleep may hold packets for a neighbour that is known now.
        self.workers.wake();
        // There may be more than one poll takes.
        if self.kernel.is_some() {
            self.inbox_sender.wake();
        }
    }

    fn handle(&mut self, message: Message, notifier: &Notifier) {
        match message {
            Message::Neighbours(batch, _handled) => {
                if let Some(kernel) = &mut self.kernel {
                    kernel.resolve(&self.rib, &batch);
                }
            }
            // Whoever sent it sees the outcome in the log alone.
            Message::Signal(signal_hook::consts::SIGHUP) => drop(self.read_again(notifier)),
            Message::Signal(_) => self.stopping = true,
            Message::WorkerEnded => {}
            Message::Request(request, answer) => {
                // Whoever asked may have gone.
                let reply = match request {
                    Request::Capture(look) => self.watch(watchers::Kind::Capture, &look),
                    Request::Trace(look) => self.watch(watchers::Kind::Trace, &look),
                    Request::Reload => Reply::Answer(match self.read_again(notifier) {
                        Ok(report) => Answer::document(&ReloadReport::from(&report)),
                        Err(error) => Answer::Error(error.to_string()),
                    }),
                    Request::Audit { within } => self.audit_on_demand(within),
                    request => Reply::Answer(self.answer(request)),
                };
                let _ = answer.send(reply);
            }
        }
    }

    /// Reads the configuration again, and says in the log and to the service manager what came of it.
    fn read_again(&mut self, notifier: &Notifier) -> Result<Report, RouterError> {
        notifier.reloading();
        let outcome = self.reload();
        match &outcome {
            Ok(report) => {
                self.needs_restart.clone_from(&report.needs_restart);
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
            Request::Stats => Answer::document(&self.told_stats()),
            Request::Metrics => {
                let (stats, workers) = (self.stats(), self.snapshots());
                Answer::Ok(crate::metrics::of_router(&stats, &workers, &self.applications).into())
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

    /// Everything that is counted, now.
    fn stats(&self) -> Stats {
        let snapshots = self.snapshots();
        let mut sum = Snapshot::default();
        snapshots.iter().for_each(|(snapshot, _)| sum.merge(snapshot));
        let names: Vec<String> = self.of_ports(|_, port| port.name.clone());
        let mut stats = stats::of_sum(&sum, &names);
        stats.uptime_seconds = self.started.elapsed().as_secs_f64();
        stats.log_lines_lost = wattline_daemon::logging::lines_lost();
        stats.needs_restart = owned(&self.needs_restart);
        let (ipv4, ipv6) = self.routes.len();
        stats.routes = Prefixes { ipv4, ipv6 };
        stats.workers = snapshots
            .iter()
            .enumerate()
            .map(|(number, (snapshot, active))| WorkerStats {
                hangs: self.workers.hangs(number),
                ..stats::of_worker(snapshot, *active)
            })
            .collect();
        stats.workers_not_started = self
            .surplus
            .as_ref()
            .map(|surplus| NotStarted { count: surplus.count(), because: surplus.because.clone() });
        self.tell_ports(&mut stats);
        if let Some(kernel) = &self.kernel
            && kernel.can_forward()
        {
            let traffic = kernel.xdp_traffic(self.config.ports.len());
            let traffic = self.of_ports(|number, _| traffic[usize::from(number.0)]);
            stats::add_xdp(&mut stats, traffic, kernel.departed());
        }
        stats.takeover = self.lookout.as_ref().map(|lookout| TakeoverStats {
            choice: self.config.router.takeover,
            passed_by: lookout.passed_by(&self.config),
        });
        if let Some(kernel) = &self.kernel {
            let verdicts = kernel.all_verdicts();
            stats.xdp_passed = verdicts.passed();
            stats.xdp_dropped = verdicts.dropped();
        }
        self.rates.add_to(&mut stats, Instant::now());
        stats.losses = (self.applications.iter())
            .flat_map(|application| application.losses())
            .map(|(kind, count)| (kind.to_owned(), count))
            .collect();
        self.applications.iter().for_each(|application| application.stats(&mut stats.applications));
        stats.power = self.power.as_ref().map(|power| power.stats());
        stats.kernel = self.kernel.as_ref().map(|kernel| {
            let mut stats = kernel.stats();
            stats.refused_updates = self.refused;
            if let Some(audit) = &self.audit {
                stats.audited_addresses = audit.checked;
                stats.audit_mismatches = audit.mismatches;
                stats.audit_left_prefixes = audit.left().count() as u64;
            }
            stats.neighbour_requests_dropped += sum.neighbour_requests_lost;
            stats
        });
        stats
    }

    /// Adds state and mode of each port.
    fn tell_ports(&self, stats: &mut Stats) {
        for ((number, _), port) in self.config.present_ports().zip(&mut stats.ports) {
            port.mode.clone_from(&self.modes[usize::from(number.0)]);
            if let Some((state, reason)) = self.attachments.state(number) {
                (port.state, port.reason) = (
                    Some(state.to_owned()),
                    reason.or_else(|| self.left_alone(usize::from(number.0))),
                );
                match state {
                    "left" => port.mode = "kernel".to_owned(),
                    "blocked" => port.mode = "blocked".to_owned(),
                    "absent" | "failed" => port.mode = "not attached".to_owned(),
                    _ => {}
                }
            }
            if let Some(state) = self.devices.state(number) {
                (port.state, port.reason) = (Some(state.0.to_owned()), state.1);
            }
            if let Some(kernel) = &self.kernel {
                port.verdicts = kernel.verdicts(number);
                if kernel.forwards_to(number) {
                    port.mode += ", xdp forward";
                }
                // The kernel forwards what comes in at others, if anybody does.
                let state = port.state.as_deref();
                let is_served = !matches!(state, Some("left" | "blocked" | "absent" | "failed"));
                let why = kernel.why_not_forwarded_to(number).filter(|_| is_served);
                port.xdp_closed_because = why.map(str::to_owned);
            }
        }
    }

    /// Takes a sample of the bytes of ports from time to time.
    fn look_at_rates(&mut self, now: Instant) {
        if self.rates.is_due(now) {
            let stats = self.stats();
            self.rates.note(&stats, now);
        }
    }

    /// Something of each port that there is.
    fn of_ports<T>(&self, each: impl Fn(PortId, &PortSettings) -> T) -> Vec<T> {
        self.config.present_ports().map(|(number, port)| each(number, port)).collect()
    }

    /// Returns each worker's counts for present ports, and whether it is active.
    fn snapshots(&self) -> Vec<(Snapshot, bool)> {
        let mut snapshots = self.workers.snapshots();
        for (snapshot, _) in &mut snapshots {
            let counted = |number: PortId| snapshot.ports.get(usize::from(number.0)).copied();
            snapshot.ports = self.of_ports(|number, _| counted(number).unwrap_or_default());
        }
        snapshots
    }

    /// Describes the packets of a port that are left to the kernel, if any.
    pub(crate) fn left_alone(&self, port: usize) -> Option<String> {
        let port = PortId(port as u16);
        let unpuntable = self.kernel.as_ref().and_then(|kernel| kernel.unpuntable(port));
        let left = self.lookout.as_ref().and_then(|lookout| lookout.left_prefixes(port));
        let prefixes: BTreeSet<_> = left.into_iter().chain(unpuntable).flatten().collect();
        let why = match unpuntable {
            Some(_) => ", as workers could not give them to it without /dev/net/tun",
            None => "",
        };
        // Those of whole families are named with their reason.
        let families: Vec<&str> =
            self.lookout.iter().flat_map(|lookout| lookout.left_families(port)).collect();
        let is_part = |prefix: &&&IpNet| families.is_empty() || prefix.prefix_len() > 0;
        let prefixes: Vec<_> = prefixes.iter().filter(is_part).collect();
        let some: Vec<String> = prefixes.iter().take(5).map(ToString::to_string).collect();
        let more = match prefixes.len().saturating_sub(some.len()) {
            0 => String::new(),
            more => format!(" and {more} more prefixes"),
        };
        let guarded = self.lookout.as_ref().is_some_and(|lookout| lookout.is_guarded(port));
        let some = (!some.is_empty()).then(|| match guarded {
            false => {
                format!("the kernel forwards packets from and to {}{more}{why}", some.join(", "))
            }
            true => format!(
                "packets from and to {}{more} are dropped: {}",
                some.join(", "),
                takeover::UNJUDGED
            ),
        });
        let audited: Vec<String> =
            self.audit.iter().flat_map(Audit::left).map(|prefix| prefix.to_string()).collect();
        let audited = (!audited.is_empty()).then(|| {
            format!("the kernel decides otherwise than Wattline about {}", audited.join(", "))
        });
        let all: Vec<String> =
            families.into_iter().map(str::to_owned).chain(some).chain(audited).collect();
        (!all.is_empty()).then(|| all.join("; "))
    }

    /// Returns counts since they were cleared.
    fn shown_stats(&self) -> Stats {
        let stats = self.stats();
        match &self.cleared {
            Some(cleared) => cleared.since(stats),
            None => stats,
        }
    }

    /// The same as a document.
    fn told_stats(&self) -> wattline_status::Stats {
        wattline_status::Stats::Router(Box::new(self.shown_stats()))
    }

    fn graph(&self) -> Graph {
        let stats = self.shown_stats();
        let edges = self.workers.edges().iter();
        Graph {
            nodes: stats.nodes,
            edges: edges.map(|(from, to)| [(*from).to_owned(), (*to).to_owned()]).collect(),
            dropped: stats.dropped,
            xdp_forwarded: stats.xdp_forwarded,
            ports: stats.ports.into_iter().map(|port| port.name).collect(),
            ..Graph::default()
        }
    }

    /// Returns the socket's path.
    pub fn socket_path(&self) -> &std::path::Path {
        self.socket.path()
    }
}

fn owned(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

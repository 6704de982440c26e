//! Ports of a router, while it runs.
//!
//! An interface can disappear: deleted, moved to another namespace, its card unplugged. Its sockets
//! and its program are then lost, even if another interface appears with the same name or number.
//! So a port is served by *one* interface. When that is gone, routes over its name lead to the
//! kernel ([`wattline_rib::Rib::serve`]). [`Actuator::poll`] detects changes and reports them to
//! the ports.

use super::actuator::{ASK_WORKERS, Actuator, EMPTYING, Failure};
use super::machine::{Event, State};
use super::{Port, TRY_AGAIN};
use crate::channels;
use crate::config::{Config, PortSettings, XdpForwarding};
use crate::queues::{self, Interface, Unserved, WorkerInterfaces};
use crate::statics::PortLinks;
use crate::stats::PortState;
use crate::takeover::ForwardPathMonitor;
use crate::xdp_forward::flows::FlowTarget;
use std::time::{Duration, Instant};
use wattline_daemon::notify::Notifier;
use wattline_dataplane::port::PortId;
use wattline_linux::netlink::Link;
use wattline_ports::capture::CaptureStatus;
use wattline_xdp::XdpProgram;

/// Time between two checks of a served interface's program and queues: the kernel sends no event
/// when they change, and drivers may give new queues no program (veth does not).
const CHECK_INTERFACE: Duration = Duration::from_secs(1);
/// Log text for a port that was attached before.
pub(crate) const AGAIN: &str = "attached again to";
/// Usual time for workers to release queues that are about to be opened again.
const LET_GO: Duration = Duration::from_millis(50);
/// Longest wait for workers that take or give up queues, beyond the time for emptying them. They
/// take milliseconds, unless one hangs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(1);
/// Longest wait for queues that this router has not used: another program, perhaps an earlier
/// instance, may be about to end.
const OTHERS: Duration = Duration::from_secs(2);
/// Time between two checks of workers that take or give up queues.
const CHECK_EVERY: Duration = Duration::from_millis(1);

/// The ports by kind: interfaces and captures.
#[derive(Default)]
pub(crate) struct Ports {
    /// All ports with an interface.
    pub list: Vec<Port>,
    pub interfaces: Vec<WorkerInterfaces>,
    pub captures: Vec<CaptureStatus>,
    /// Link numbers for static routes, by place.
    pub links: PortLinks,
    /// Interfaces of removed ports by index, and the times until which their queues may be in use
    /// by this router's former sockets.
    pub released: Vec<(u32, Instant)>,
}

impl Ports {
    /// Returns a port with an interface.
    pub fn get(&self, port: PortId) -> Option<&Port> {
        self.list.iter().find(|it| it.id == port)
    }

    /// Returns the state of a port, and the reason for it; `None` if it has no interface.
    pub fn state(&self, port: PortId) -> Option<(PortState, Option<String>)> {
        Some(self.get(port)?.describe())
    }

    /// Describes the mode in which the frames of a port are received.
    pub fn mode(&self, port: PortId) -> &str {
        self.get(port).map_or("capture", Port::mode)
    }

    /// Returns true if frames of some interface reach workers without a copy.
    pub fn zero_copy(&self) -> bool {
        self.list.iter().any(|port| port.zero_copy)
    }

    /// Returns the time until which to wait for the queues of an interface that is added.
    pub fn patience(&self, interface: u32) -> Instant {
        let own = self.released.iter().filter(|(ifindex, _)| *ifindex == interface);
        own.map(|(_, until)| *until).fold(Instant::now() + OTHERS, Instant::max)
    }

    /// Returns why there is no room for an interface as a port, if so; `others` are added with it.
    pub fn lacks_room(
        &self,
        interface: &Interface,
        others: &[Interface],
        config: &Config,
    ) -> Option<String> {
        let Interface { port, link, queues } = interface;
        if self.get(*port).is_some() {
            return Some("a worker has not given up the port before it yet: try again".to_owned());
        }
        let there = self.list.iter().map(|it| it.queues);
        let taken: Vec<u32> = there.chain(others.iter().map(|it| it.queues)).collect();
        let count = self.interfaces.len();
        for (number, worker) in self.interfaces.iter().enumerate() {
            // Worker q serves the queues q, q + workers, q + 2 workers …
            let share = |queues: &u32| (*queues as usize).saturating_sub(number).div_ceil(count);
            let used: usize = taken.iter().map(share).sum();
            let has_place = worker.handovers.iter().any(|(of, _)| of == port);
            if !has_place || used + share(queues) > worker.room {
                return Some(format!(
                    "there is no room for it: the router was started with memory for \
                     [router] spare_ports = {} more ports of one queue for each worker, and {} has \
                     {queues} queue(s) for {count} worker(s); remove another port first, or restart \
                     with more",
                    config.spare_ports(),
                    link.name
                ));
            }
            let addresses = queues::addresses(config, std::slice::from_ref(interface), number);
            let mtu = addresses.iter().map(|address| address.mtu).max().unwrap_or(0);
            let longest = worker.longest_packet;
            if mtu > u32::from(longest) {
                return Some(format!(
                    "its MTU is {mtu}, and the memory of this router takes packets of at most \
                     {longest} bytes: `ip link set {} mtu {longest}`, mtu = {longest} in its \
                     [[port]], or restart",
                    link.name
                ));
            }
        }
        None
    }

    /// Reports the ports that are not served to the service manager, when they change.
    pub fn notify_manager(&self, notifier: &Notifier, reported: &mut String) {
        let status = self.summary();
        if status != *reported {
            notifier.status(&status);
            *reported = status;
        }
    }

    /// Describes in one line which interfaces are served; empty if no port has one.
    fn summary(&self) -> String {
        let all = self.list.iter().filter(|it| it.life.state != State::Removed).count();
        if all == 0 {
            return String::new();
        }
        let others =
            self.list.iter().filter(|it| !matches!(it.life.state, State::Up(_) | State::Removed));
        let others: Vec<String> =
            others.map(|it| format!("{} ({})", it.name, it.describe().0.name())).collect();
        match others.len() {
            0 => format!("ports: all of {all} attached"),
            count => format!("ports: {} of {all} attached; not {}", all - count, others.join(", ")),
        }
    }

    /// Returns the number of receive queues of each port that are or were last served; 1 for ports
    /// without an interface, 0 for places of removed ports.
    pub fn queues(&self, config: &Config) -> Vec<u32> {
        let of = |place: u16| {
            let known = self.get(PortId(place)).map(|it| it.queues_served);
            known.unwrap_or(u32::from(!config.ports[usize::from(place)].is_vacant()))
        };
        (0..config.ports.len() as u16).map(of).collect()
    }

    /// Returns the time by which [`Actuator::poll`] has to be called.
    pub fn deadline(&self, now: Instant) -> Option<Instant> {
        let due = |port: &Port| match &port.life.state {
            State::Up(_) => Some(port.next_check),
            State::Without(Unserved::Failed(_)) => Some(port.next_try),
            State::Without(Unserved::Left(_)) | State::Open | State::Removed => None,
            State::Without(Unserved::Absent(_)) => port.seen.as_ref().map(|_| port.next_try),
            State::Offered | State::Listed | State::Emptying { .. } => Some(now + ASK_WORKERS),
        };
        self.list.iter().filter_map(due).min()
    }

    /// Lists ports that are left to the kernel and at which XDP programs may forward the flows of a
    /// flowtable. There are none unless the configuration demands programs: for packets in socket
    /// buffers the kernel's own path takes fewer instructions.
    pub fn flow_targets<'a>(
        &self,
        config: &'a Config,
        monitor: &'a ForwardPathMonitor,
    ) -> Vec<FlowTarget<'a>> {
        if config.router.xdp_forward != XdpForwarding::On
            || !config.obstacles_to_xdp_forwarding().is_empty()
        {
            return Vec::new();
        }
        let of = |(port, settings): (PortId, &'a PortSettings)| {
            let flowtable = monitor.flows(port)?.as_ref().ok()?;
            let (state, _) = self.state(port)?;
            let free = config.sections_for_workers(usize::from(port.0)).is_empty();
            let is_target = free && state == PortState::Left;
            is_target.then_some(FlowTarget { port, name: &settings.name, flowtable })
        };
        config.present_ports().filter_map(of).collect()
    }
}

/// Repeats a check of workers until it returns true. Returns false if that takes longer than
/// `most`.
pub(crate) fn await_workers(most: Duration, mut check: impl FnMut() -> bool) -> bool {
    let begun = Instant::now();
    while !check() {
        if begun.elapsed() > most {
            return false;
        }
        std::thread::sleep(CHECK_EVERY);
    }
    true
}

fn removed(ports: &mut [Port]) -> impl Iterator<Item = &mut Port> {
    ports.iter_mut().filter(|it| it.life.state == State::Removed)
}

impl Actuator<'_> {
    /// Stops serving interfaces that are gone, and begins to serve new ones. Returns ports whose
    /// interface has changed, with the link index that static routes have to use.
    pub fn poll(&mut self, ports: &mut Vec<Port>, now: Instant) -> Vec<(PortId, u32)> {
        let mut links = Vec::new();
        for port in &mut *ports {
            self.poll_emptying(port, now);
            port.note_link(self.rib);
            if let Some(why) = port.is_lost(self.rib) {
                self.lose(port, why, now);
                // Routes must not keep the number, which another interface may get.
                links.push((port.id, 0));
            }
            self.check_interface(port, now);
            let left = self.monitor.and_then(|it| it.left(port.id));
            let event = left.map_or(Event::Release, |why| Event::Leave(why.to_owned()));
            if left.is_none() && matches!(port.life.state.reason(), Some(Unserved::Left(_))) {
                (port.seen, port.next_try) = (None, now);
            }
            self.report(port, event);
            if matches!(port.life.state, State::Without(Unserved::Absent(_) | Unserved::Failed(_)))
            {
                links.extend(self.find_interface(port, now));
            }
            if port.life.state.reason().is_some() {
                self.hold(port, now);
            }
            self.finish(port);
        }
        self.drop_removed(ports);
        links
    }

    /// Returns true if all workers have taken the last offer for a port. Closes the queues that
    /// they give back.
    fn is_taken(&self, port: PortId) -> bool {
        self.interfaces.iter().fold(true, |all, worker| worker.is_taken(port) & all)
    }

    fn poll_emptying(&mut self, port: &mut Port, now: Instant) {
        match port.life.state {
            State::Emptying { is_asked: false, .. } => self.report(port, Event::Empty),
            State::Emptying { is_asked: true, .. }
                if self.is_taken(port.id) || now >= port.emptied_by =>
            {
                self.report(port, Event::GiveUp);
            }
            _ => {}
        }
    }

    /// Gives up an interface that is gone.
    fn lose(&mut self, port: &mut Port, why: String, now: Instant) {
        let (name, interface) = (&port.name, &port.interface);
        tracing::warn!(
            "port {name}: {why}; the port is attached as soon as there is an interface {interface}, \
             and the kernel forwards packets routed over it until then"
        );
        (port.renamed, port.link) = (None, None);
        (port.seen, port.next_try) = (None, now);
        self.report(port, Event::Lose(Unserved::Absent(why)));
    }

    /// Attaches the program and the queues again if the program is no longer attached or the
    /// interface's queues have changed: frames would bypass the program, and thus access lists.
    fn check_interface(&mut self, port: &mut Port, now: Instant) {
        if !matches!(port.life.state, State::Up(_)) || now < port.next_check {
            return;
        }
        port.next_check = now + CHECK_INTERFACE;
        let link = self.rib.link_of(port.id).filter(|it| it.index == port.ifindex);
        let Some(link) = link.cloned() else { return };
        // The kernel sends no event when another process detaches the link of a program
        // (BPF_LINK_DETACH).
        if self.programs.xdp(port.id).and_then(XdpProgram::interface) != Some(link.index) {
            let why = "another program has detached its XDP program".to_owned();
            tracing::warn!("port {}: {why}; it is attached again", port.name);
            (port.seen, port.next_try) = (None, now);
            return self.report(port, Event::Lose(Unserved::Failed(why)));
        }
        // An interface that is being removed may have no queues left.
        let Ok(queues @ 1..) = queues::receive_queues(&link.name) else { return };
        if queues == port.queues_served {
            return;
        }
        tracing::warn!(
            "port {}: {} has {queues} receive queue(s) now instead of {}; it is attached again",
            port.name,
            link.name,
            port.queues_served
        );
        // Its workers have to release the queues first.
        (port.seen, port.next_try) = (Some(link), now + LET_GO);
        self.report(port, Event::Recount);
        port.queues_served = queues;
    }

    /// Takes over the interface that has the port's name now, if possible. Returns the index for
    /// static routes if another link has the name.
    fn find_interface(&mut self, port: &mut Port, now: Instant) -> Option<(PortId, u32)> {
        let link = self.rib.link_named_as(port.id).cloned();
        let number = |link: &Option<Link>| link.as_ref().map(|link| link.index);
        let other =
            (number(&port.seen) != number(&link)).then(|| (port.id, number(&link).unwrap_or(0)));
        if port.seen == link && (link.is_none() || now < port.next_try) {
            return other;
        }
        (port.seen, port.next_try) = (link.clone(), now + TRY_AGAIN);
        let before = port.life.state.reason().cloned();
        match self.fit_interface(port, link) {
            Err(why) => self.report(port, Event::Missing(why)),
            // A failure is kept in the state.
            Ok(interface) => drop(self.apply(port, Event::Return, Some(&interface))),
        }
        if let Some(Unserved::Failed(reason)) = port.life.state.reason()
            && before.as_ref() != port.life.state.reason()
        {
            port.log_failed(reason);
        }
        other
    }

    /// Returns the interface of a port, or why it cannot be served.
    fn fit_interface(&self, port: &Port, link: Option<Link>) -> Result<Interface, Unserved> {
        let interface = &port.interface;
        let link = match link {
            None => return Err(Unserved::Absent(queues::no_interface(interface))),
            Some(link) if !link.enabled => {
                return Err(Unserved::Absent(queues::is_down(interface)));
            }
            Some(link) => link,
        };
        let found = queues::interface(port.id, &link, self.config).map_err(Unserved::Failed)?;
        if found.queues > port.queues {
            return Err(Unserved::Failed(format!(
                "{0} has {1} queues, and the memory that was made for it at the start is for {2}: {3}, \
                 or restart",
                link.name,
                found.queues,
                port.queues,
                channels::remedy(&link.name, port.queues)
            )));
        }
        if port.is_bond.is_some_and(|was_bond| link.is_bond() != was_bond) {
            let (now, then) = if link.is_bond() { ("a", "no") } else { ("no", "a") };
            return Err(Unserved::Failed(format!(
                "{} is {now} bond, and was {then} bond before, for which its program was loaded: \
                 restart",
                link.name
            )));
        }
        Ok(found)
    }

    /// Blocks a port whose packets are judged and that is not up, also if its interface returns
    /// while the port is left to the kernel.
    fn hold(&mut self, port: &mut Port, now: Instant) {
        let Some(judges) = port.life.guard.judges().map(str::to_owned) else { return };
        if port.unblocked.as_ref().is_some_and(|(_, next_try)| now < *next_try) {
            return;
        }
        let attached = self.programs.xdp(port.id).and_then(XdpProgram::interface);
        let link = self.rib.link_named_as(port.id).cloned();
        let index = link.as_ref().map(|link| link.index);
        let to = link.map(|link| Interface { port: port.id, link, queues: 0 });
        let done: Result<(), Failure> = match (&to, attached) {
            // Moved to another namespace, where it is not a port.
            (None, Some(_)) => self.apply(port, Event::Vanish, None),
            (None, None) => Ok(()),
            (Some(_), _) => {
                let attached = attached == index || port.life.state.has_interface();
                self.apply(port, Event::Hold { attached }, to.as_ref())
            }
        };
        let before = port.unblocked.take();
        let Err(error) = done else { return };
        let error = error.to_string();
        if before.is_none_or(|(before, _)| before != error) {
            tracing::error!(
                "port {}: cannot be blocked: {error}; the kernel forwards received packets without \
                 {judges}",
                port.name
            );
        }
        port.unblocked = Some((error, now + TRY_AGAIN));
    }

    /// Blocks ports whose packets are judged and that no worker serves yet, once the configuration
    /// is in force.
    pub fn enforce(&mut self, ports: &mut [Port]) {
        for port in ports.iter_mut().filter(|it| it.life.state.is_waiting()) {
            self.hold(port, Instant::now());
        }
    }

    /// Lets traffic in once all workers have taken their queues.
    fn finish(&mut self, port: &mut Port) {
        // Called in any state: it also closes queues that workers have given back.
        if !self.is_taken(port.id) || !port.life.state.is_waiting() {
            return;
        }
        // The workers' tables are published after this poll. Until then they lack the port's MAC
        // address, and frames would be dropped.
        self.report(port, Event::Taken);
        if let State::Up(_) = port.life.state {
            if let Some(words) = port.attached_words.replace(AGAIN) {
                tracing::info!(
                    "port {}: {words} interface {} (index {}), {}",
                    port.name,
                    port.interface,
                    port.ifindex,
                    port.mode
                );
            }
            port.note_link(self.rib);
        }
    }

    /// Reports the success of a start or reload to the open ports.
    pub fn begin(&mut self, ports: &mut [Port]) {
        for port in ports.iter_mut().filter(|it| it.life.state == State::Open) {
            self.report(port, Event::Begin);
        }
    }

    /// Waits until workers have given up the removed ports.
    pub fn await_removed(&mut self, ports: &mut Vec<Port>) {
        let begun = Instant::now();
        let mut is_patient = true;
        let workers = self.workers;
        let done = await_workers(EMPTYING + PATIENCE, || {
            if is_patient && begun.elapsed() > EMPTYING {
                is_patient = false;
                removed(ports).for_each(|port| self.report(port, Event::Hurry));
            }
            workers.wake();
            removed(ports).all(|port| self.is_taken(port.id) && workers.have_forgotten(port.id))
        });
        if !done {
            tracing::error!(
                "a worker does not give up the queues of a port that was removed; they are closed once \
                 it does"
            );
        }
        for port in removed(ports) {
            self.report(port, Event::GiveUp);
            tracing::info!(
                "port {}: removed; the kernel forwards packets received there",
                port.name
            );
        }
        self.drop_removed(ports);
    }

    /// Drops removed ports whose queues workers have given up.
    fn drop_removed(&self, ports: &mut Vec<Port>) {
        ports.retain(|port| port.life.state != State::Removed || !self.is_taken(port.id));
    }
}

//! Attachments of interfaces to ports, while the router runs.
//!
//! An interface can go: deleted, moved to another namespace, its card unplugged. Its sockets and
//! its program go with it for good, even if another interface comes with the same name or number.
//! So a port is served by *one* interface. When that is gone, routes over its name lead to the
//! kernel ([`wattline_rib::Rib::serve`]). A new interface is taken over as at the start: the
//! program first, then the sockets, which the workers take ([`super::slot`]), and last the way from
//! the program to the sockets.

use super::busy_poll::why_in_vain;
use super::channels;
use super::flows::FlowTarget;
use super::link_state::LinkState;
use super::port::guard::{Change, Guard, Passage};
use super::programs::{Program, Programs, Target};
use super::queues::{self, Interface, Unopened, Why, WorkerInterfaces, describe, duplicate};
use super::takeover::Lookout;
use super::workers::Workers;
use crate::RouterError;
use crate::config::{Config, PortSettings, XdpForwarding};
use ipnet::IpNet;
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};
use wattline_daemon::notify::Notifier;
use wattline_dataplane::port::PortId;
use wattline_linux::netlink::Link;
use wattline_ports::afxdp::{AfXdpQueue, OpenError, QueueStatus};
use wattline_rib::Rib;
use wattline_xdp::XdpError;

/// Time between two tries to take over an interface: an obstacle, such as another program, goes
/// without an event.
const TRY_AGAIN: Duration = Duration::from_secs(1);
/// Time between two counts of a served interface's queues: the kernel sends no event when they
/// change, and drivers may give new ones no program (veth does not).
const COUNT_QUEUES: Duration = Duration::from_secs(1);
/// The log's words for a port that was attached before.
const AGAIN: &str = "attached again to";
/// Usual time for workers to let go of queues that are about to be opened again.
const LET_GO: Duration = Duration::from_millis(50);
/// Time between two checks whether workers, which were woken, have taken queues.
const ASK_WORKERS: Duration = Duration::from_millis(2);

/// Longest time for workers to empty the queues of a port that is left to the kernel, or removed.
pub(super) const EMPTYING: Duration = Duration::from_millis(500);

/// Longest wait for queues that were in use by this router: the kernel lets go of them in a work
/// queue (xp_put_pool()), soon after their last socket was closed; on a machine without a processor
/// to spare that has taken more than two seconds. It is below the service watchdog's timeout.
const RELEASE: Duration = Duration::from_secs(6);
/// Longest wait for queues that this router has not used: another program, perhaps an earlier
/// instance, may be about to end.
const OTHERS: Duration = Duration::from_secs(2);

/// All ports with an interface.
#[derive(Default)]
pub(super) struct Attachments {
    ports: Vec<Attachment>,
    workers: Vec<WorkerInterfaces>,
    /// Ports that were removed, and the number of their queues, which workers have not given up
    /// yet.
    leaving: Vec<(PortId, u32)>,
    /// Interfaces by index whose queues this router closed with their port, and until when they may
    /// be in use by its own former sockets.
    released: Vec<(u32, Instant)>,
}

/// A port that is added: its program is attached and its sockets are open, and no worker has them.
pub(super) struct OpenPort {
    port: PortId,
    queues: OpenQueues,
}

/// The queues of an interface, opened for the workers.
struct OpenQueues {
    ifindex: u32,
    /// By worker.
    queues: Vec<Vec<AfXdpQueue>>,
    /// For the program.
    sockets: Vec<(u32, OwnedFd)>,
    /// Mode of the queues, and the program.
    mode: String,
}

impl OpenPort {
    /// Whether its frames reach workers without a copy.
    pub fn zero_copy(&self) -> bool {
        self.queues.queues.iter().flatten().any(|queue| queue.mode().zero_copy)
    }
}

struct Attachment {
    port: PortId,
    /// Name of the port, and of its interface.
    name: String,
    interface: String,
    /// The queues for which there is memory.
    queues: u32,
    /// Queues that are served, or were last; 0 before the first time.
    queues_served: u32,
    /// When they are counted next.
    next_count: Instant,
    /// Whether its XDP program is the one for bonds, once it has a program.
    is_bond: Option<bool>,
    /// The log's words for the next time that it is attached.
    attached_words: &'static str,
    state: State,
    /// Its queues that workers still empty: it has no interface after that.
    emptying: Option<Emptying>,
    /// Whether its frames reach workers without a copy.
    zero_copy: bool,
    /// State of its queues, shared with the workers.
    statuses: Vec<QueueStatus>,
    /// Until when its queues may be in use by its own former sockets: by then the kernel has let go
    /// of them.
    released_by: Instant,
    /// Present name of its interface, if it is not the configured one.
    renamed: Option<String>,
    /// Whether packets can go through its interface, while it is served and the kernel knows it.
    link: Option<LinkState>,
    /// Guard of its frames, also while the port is not served.
    guard: Guard,
    /// Reason why it could not be blocked, and the time of the next try.
    unblocked: Option<(String, Instant)>,
}

/// Workers empty the queues of a port at which no more frames arrive.
struct Emptying {
    /// When they are no longer waited for.
    until: Instant,
    /// Whether they give the queues up: not before their tables, which are published after a look,
    /// lead elsewhere.
    is_asked: bool,
}

enum State {
    /// The port is served by this interface.
    Attached { ifindex: u32 },
    /// Workers have not yet taken over all queues, or their tables lack the port (`is_served`). After
    /// that, the XDP program gets the sockets.
    HandedOver { ifindex: u32, mode: String, sockets: Vec<(u32, OwnedFd)>, is_served: bool },
    /// The port has no interface.
    Without {
        why: Why,
        /// The link at the last try, to notice changes.
        seen: Option<Link>,
        next_try: Instant,
    },
}

/// Changes that a check of the interfaces has found.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Changes {
    /// New interfaces of ports, with the link index that static routes have to use.
    pub links: Vec<(PortId, u32)>,
    /// Modes of ports that are served again.
    pub modes: Vec<(PortId, String)>,
    /// Whether frames of one of them reach workers without a copy.
    pub zero_copy: bool,
}

/// Parts of the router that are needed to attach and detach an interface.
pub(super) struct Surroundings<'a> {
    pub config: &'a Config,
    pub programs: &'a mut Programs,
    pub rib: &'a mut Rib,
    pub workers: &'a Workers,
    /// Returns why a port has to be left to the kernel, if it has to.
    pub left: &'a dyn Fn(PortId) -> Option<String>,
    /// Returns the prefixes whose packets a port leaves to the kernel.
    pub left_prefixes: &'a dyn Fn(PortId) -> BTreeSet<IpNet>,
}

impl Attachments {
    /// The attachments when the router starts, of `interfaces` that are open, and of ports that could
    /// not be opened. `with_program` are those of the latter that have a program all the same.
    pub fn new(
        config: &Config,
        interfaces: &[Interface],
        unopened: &[Unopened],
        workers: Vec<WorkerInterfaces>,
        statuses: &[(PortId, QueueStatus)],
        guards: &BTreeMap<PortId, Guard>,
        with_program: &dyn Fn(PortId) -> bool,
    ) -> Self {
        let vacant = |port: PortId| {
            let settings = &config.ports[usize::from(port.0)];
            Attachment {
                port,
                name: settings.name.clone(),
                interface: settings.kind.taken_over().unwrap_or_default().to_owned(),
                queues: 0,
                queues_served: 0,
                next_count: Instant::now(),
                is_bond: None,
                attached_words: "attached to",
                state: State::without(Why::Absent(String::new()), None, Instant::now()),
                emptying: None,
                zero_copy: false,
                statuses: Vec::new(),
                released_by: Instant::now(),
                renamed: None,
                link: None,
                guard: guards.get(&port).cloned().unwrap_or_default(),
                unblocked: None,
            }
        };
        let open = |Interface { port, link, queues }: &Interface| Attachment {
            queues: *queues,
            queues_served: *queues,
            is_bond: Some(link.is_bond()),
            attached_words: AGAIN,
            state: State::Attached { ifindex: link.index },
            statuses: (statuses.iter())
                .filter(|(of, _)| of == port)
                .map(|(_, status)| status.clone())
                .collect(),
            link: Some(LinkState::from_link(link)),
            ..vacant(*port)
        };
        let not_open = |it: &Unopened| {
            let bond = it.link.as_ref().map(Link::is_bond);
            let first_try = match it.why {
                Why::Failed(_) => Instant::now() + TRY_AGAIN,
                Why::Absent(_) | Why::Left(_) => Instant::now(),
            };
            Attachment {
                queues: it.queues,
                is_bond: bond.filter(|_| with_program(it.port)),
                state: State::without(it.why.clone(), it.link.clone(), first_try),
                ..vacant(it.port)
            }
        };
        let ports = interfaces.iter().map(open).chain(unopened.iter().map(not_open));
        let ports: Vec<Attachment> = ports.collect();
        for port in ports.iter().filter(|it| it.link.is_some_and(|link| link != LinkState::Up)) {
            port.tell();
        }
        for port in ports.iter().filter(|it| it.ifindex().is_none()) {
            port.tell_unopened();
        }
        Self { ports, workers, leaving: Vec::new(), released: Vec::new() }
    }

    /// Returns why there is no room for an interface as a port, if so; `others` are added with it.
    pub fn lacks_room(
        &self,
        interface: &Interface,
        others: &[Interface],
        config: &Config,
    ) -> Option<String> {
        let Interface { port, link, queues } = interface;
        if self.leaving.iter().any(|(of, _)| of == port) {
            return Some("a worker has not given up the port before it yet: try again".to_owned());
        }
        let there = self.ports.iter().map(|it| it.queues).chain(self.leaving.iter().map(|it| it.1));
        let others = others.iter().map(|it| it.queues);
        let taken: Vec<u32> = there.chain(others).collect();
        let count = self.workers.len();
        for (number, worker) in self.workers.iter().enumerate() {
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

    /// Opens the sockets of a port that is added, whose `program` is attached, and whose frames
    /// pass `guard`. [`Self::begin`] or [`Self::forget`] has to follow.
    ///
    /// # Errors
    /// Why not; nothing stays open then.
    pub fn open(
        &mut self,
        interface: &Interface,
        config: &Config,
        program: &str,
        guard: Guard,
    ) -> Result<OpenPort, String> {
        let Interface { port, link, queues } = interface;
        let now = Instant::now();
        self.released.retain(|(_, until)| *until > now);
        let own = self.released.iter().filter(|(ifindex, _)| *ifindex == link.index);
        let patience = own.map(|(_, until)| *until - now).max().unwrap_or_default().max(OTHERS);
        let opened = open_queues(interface, config, program, &mut self.workers, patience);
        let opened = opened.map_err(|error| {
            self.close_sockets(*port);
            error.to_string()
        })?;
        self.ports.push(Attachment {
            port: *port,
            name: config.ports[usize::from(port.0)].name.clone(),
            interface: link.name.clone(),
            queues: *queues,
            queues_served: *queues,
            next_count: Instant::now(),
            is_bond: Some(link.is_bond()),
            attached_words: "added on",
            state: State::without(
                Why::Absent("it is about to be taken over".to_owned()),
                Some(link.clone()),
                Instant::now(),
            ),
            emptying: None,
            zero_copy: false,
            statuses: Vec::new(),
            released_by: Instant::now(),
            renamed: None,
            link: None,
            guard,
            unblocked: None,
        });
        Ok(OpenPort { port: *port, queues: opened })
    }

    /// Offers the queues of a port that is added to the workers; [`Self::look`] does the rest.
    pub fn begin(&mut self, port: OpenPort, workers: &Workers) {
        if let Some(attachment) = self.ports.iter_mut().find(|it| it.port == port.port) {
            attachment.hand_over(port.queues, &self.workers, workers);
        }
    }

    /// Forgets a port that is not added after all.
    pub fn forget(&mut self, port: PortId) {
        self.ports.retain(|it| it.port != port);
        self.close_sockets(port);
    }

    fn close_sockets(&mut self, port: PortId) {
        for worker in &mut self.workers {
            worker.sockets.retain(|(of, ..)| *of != port);
        }
    }

    /// Takes a port from the workers that is removed, once they have emptied its queues; its
    /// program is detached already.
    pub fn remove(&mut self, port: PortId, workers: &Workers) {
        let attachment = self.ports.iter().find(|it| it.port == port);
        let queues = attachment.map_or(0, |it| it.queues);
        let ifindex = attachment.and_then(Attachment::ifindex);
        self.released.extend(ifindex.map(|ifindex| (ifindex, Instant::now() + RELEASE)));
        self.forget(port);
        self.leaving.push((port, queues));
        for (number, worker) in self.workers.iter().enumerate() {
            worker.take_away(port, true);
            workers.watch(number, port, Vec::new());
        }
    }

    /// Takes removed ports from workers as they are, with what still waits in their queues.
    pub fn hurry(&self) {
        for (port, _) in &self.leaving {
            self.workers.iter().for_each(|worker| worker.take_away(*port, false));
        }
    }

    /// Whether workers have given up all ports that were removed.
    pub fn have_left(&mut self) -> bool {
        let Self { leaving, workers, .. } = self;
        let is_taken = |port: PortId| workers.iter().fold(true, |all, it| it.is_taken(port) & all);
        leaving.retain(|(port, _)| !is_taken(*port));
        leaving.is_empty()
    }

    /// Whether workers are yet to take queues that were offered to them.
    pub fn are_waiting(&self) -> bool {
        self.ports.iter().any(|it| matches!(it.state, State::HandedOver { .. }))
    }

    /// The state of a port's interface, and what is to be said of it; nothing where the port has
    /// none.
    pub fn state(&self, port: PortId) -> Option<(&'static str, Option<String>)> {
        let attachment = self.ports.iter().find(|it| it.port == port)?;
        Some(attachment.describe())
    }

    /// Reports the ports that are not served to the service manager, when they change.
    pub fn tell_manager(&self, notifier: &Notifier, told: &mut String) {
        let status = self.summary();
        if status != *told {
            notifier.status(&status);
            *told = status;
        }
    }

    /// One line about which interfaces are served; empty if no port has one.
    fn summary(&self) -> String {
        let all = self.ports.len();
        if all == 0 {
            return String::new();
        }
        let state = |it: &Attachment| match it.state {
            State::Attached { .. } => None,
            _ => Some(format!("{} ({})", it.name, it.describe().0)),
        };
        let others: Vec<String> = self.ports.iter().filter_map(state).collect();
        match others.len() {
            0 => format!("ports: all of {all} attached"),
            count => format!("ports: {} of {all} attached; not {}", all - count, others.join(", ")),
        }
    }

    /// Lists the ports that differ from the configuration, a sentence each. A missing cable is not
    /// a configuration error.
    pub fn complaints(&self) -> impl Iterator<Item = String> {
        self.ports.iter().filter_map(|attachment| {
            let (state, reason) = match attachment.state {
                State::Attached { .. } => ("up", attachment.renamed()),
                _ => attachment.describe(),
            };
            Some(format!("{}: {state}: {}", attachment.name, reason?))
        })
    }

    /// The receive queues that are served of each port, or were when it last was; 1 for ports without an
    /// interface, 0 in the place of one that was removed.
    pub fn queues(&self, config: &Config) -> Vec<u32> {
        let of = |place: u16| {
            let port = PortId(place);
            let known = self.ports.iter().find(|it| it.port == port).map(|it| it.queues_served);
            known.unwrap_or(u32::from(!config.ports[usize::from(place)].is_vacant()))
        };
        (0..config.ports.len() as u16).map(of).collect()
    }

    /// When [`Self::look`] wants to be called at the latest.
    pub fn deadline(&self, now: Instant) -> Option<Instant> {
        let due = |attachment: &Attachment| match &attachment.state {
            State::Attached { .. } => Some(attachment.next_count),
            State::HandedOver { .. } => Some(now + ASK_WORKERS),
            State::Without { why: Why::Failed(_), next_try, .. } => Some(*next_try),
            State::Without { why: Why::Left(_), .. } => None,
            State::Without { seen, next_try, .. } => seen.as_ref().map(|_| *next_try),
        };
        let empties = self.ports.iter().any(|it| it.emptying.is_some());
        let ask = empties.then_some(now + ASK_WORKERS);
        self.ports.iter().filter_map(due).chain(ask).min()
    }

    /// Leaves what arrives at the queues of a worker to the kernel, or gives it to the worker
    /// again.
    pub fn serve_by(&self, worker: usize, does_serve: bool, programs: &mut Programs) {
        let sockets = self.workers.get(worker).map_or(&[][..], |worker| &worker.sockets);
        for (port, queue, socket) in sockets {
            let of = self.ports.iter().find(|it| it.port == *port);
            // Others get their sockets when all workers have taken them.
            let Some(Attachment { state: State::Attached { .. }, name, .. }) = of else { continue };
            let Some(program) = programs.program_mut(*port) else { continue };
            let done = program.set_socket(*queue, does_serve.then(|| socket.as_fd()));
            if let Err(error) = done {
                tracing::error!("port {name}: {error}");
            }
        }
    }

    /// Ceases to serve interfaces that are gone, and begins to serve those that have come.
    pub fn look(&mut self, around: &mut Surroundings<'_>, now: Instant) -> Changes {
        // What workers give back of ports that are gone, or never came, is closed here, too.
        self.have_left();
        let Self { ports, workers, .. } = self;
        let mut changes = Changes::default();
        for attachment in ports {
            attachment.finish_emptying(workers, around, now);
            attachment.note_link(around.rib);
            if let Some(why) = attachment.is_lost(around.rib) {
                attachment.lose(why, workers, around, now);
                // No route may name the number, which another interface may get.
                changes.links.push((attachment.port, 0));
            }
            attachment.count_queues(workers, around, now);
            attachment.leave_or_not((around.left)(attachment.port), workers, around, now);
            let is_left = matches!(&attachment.state, State::Without { why: Why::Left(_), .. });
            let is_without = matches!(attachment.state, State::Without { .. });
            if is_without && !is_left && attachment.emptying.is_none() {
                attachment.look_for_another(workers, around, &mut changes, now);
            }
            attachment.keep_blocked(around, now);
            attachment.finish(workers, around, &mut changes, now);
        }
        changes
    }
}

impl State {
    fn without(why: Why, seen: Option<Link>, next_try: Instant) -> Self {
        Self::Without { why, seen, next_try }
    }
}

impl Attachment {
    fn ifindex(&self) -> Option<u32> {
        match self.state {
            State::Attached { ifindex } | State::HandedOver { ifindex, .. } => Some(ifindex),
            State::Without { .. } => None,
        }
    }

    /// Returns a remark if the interface has another name now.
    fn renamed(&self) -> Option<String> {
        let now = self.renamed.as_ref()?;
        let before = &self.interface;
        Some(format!(
            "its interface is called {now} now, and is still served; after a restart it would be the \
             one that is called {before} then"
        ))
    }

    fn describe(&self) -> (&'static str, Option<String>) {
        match &self.state {
            State::Attached { .. } => {
                let now = self.renamed.as_ref().unwrap_or(&self.interface);
                let reason = self.link.and_then(|link| link.reason(now));
                let reasons: Vec<String> = reason.into_iter().chain(self.renamed()).collect();
                let reason = (!reasons.is_empty()).then(|| reasons.join("; "));
                // The worst of its queues; they see that an interface is up again when they use it.
                let worst = self.statuses.iter().max_by_key(|it| it.state() as u8);
                match (self.link, worst) {
                    (Some(link), worst) if worst.is_none_or(|it| !it.failed()) => {
                        (link.name(), reason)
                    }
                    (_, worst) => (worst.map_or("up", QueueStatus::name), reason),
                }
            }
            State::HandedOver { .. } => ("attaching", Some("workers take its queues".to_owned())),
            State::Without { why: Why::Absent(why), .. } => ("absent", Some(why.clone())),
            State::Without { why: Why::Failed(why), .. } => {
                let judged = self.guard.judges().map(|what| match &self.unblocked {
                    None => {
                        format!("; what comes in for others is dropped, as {what} would not hold")
                    }
                    Some((error, _)) => format!(
                        "; the kernel forwards what comes in without {what}, as the port cannot be \
                         blocked: {error}"
                    ),
                });
                ("failed", Some(format!("{why}{}", judged.unwrap_or_default())))
            }
            State::Without { why: Why::Left(why), .. } => match self.guard.judges() {
                None => ("left", Some(why.clone())),
                Some(what) => (
                    "blocked",
                    Some(format!(
                        "what comes in for others is dropped, as {what} would not hold if the \
                         kernel forwarded it: {why}"
                    )),
                ),
            },
        }
    }

    /// Notes what the interface that is served is called now, and whether packets can go through it.
    fn note_link(&mut self, rib: &Rib) {
        let link = match self.state {
            State::Attached { ifindex } => rib.link_of(self.port).filter(|it| it.index == ifindex),
            _ => None,
        };
        let now = link.map(|link| &link.name).filter(|name| **name != self.interface).cloned();
        let state = link.map(LinkState::from_link);
        if now == self.renamed && state == self.link {
            return;
        }
        let tells = match (self.link, state) {
            (Some(_), Some(_)) => true,
            // It has just been attached.
            (None, Some(state)) => state != LinkState::Up || now != self.renamed,
            (_, None) => now != self.renamed,
        };
        (self.renamed, self.link) = (now, state);
        if tells {
            self.tell();
        }
    }

    fn tell(&self) {
        let name = &self.name;
        match self.describe() {
            (state, Some(reason)) => tracing::warn!("port {name}: {state}: {reason}"),
            (state, None) => tracing::info!("port {name}: {state}"),
        }
    }

    /// Logs why the port is not served from the start on.
    fn tell_unopened(&self) {
        let (name, interface) = (&self.name, &self.interface);
        match &self.state {
            State::Without { why: Why::Absent(why), .. } => tracing::warn!(
                "port {name}: {why}; the port is attached as soon as {interface} is there and up, and \
                 the kernel forwards what is routed over it until then"
            ),
            State::Without { why: Why::Failed(why), .. } => self.tell_failed(why),
            _ => {}
        }
    }

    fn tell_failed(&self, reason: &str) {
        tracing::warn!(
            "port {}: cannot be attached: {reason}; the kernel forwards what is routed over it, and \
             the router tries again once a second",
            self.name
        );
    }

    /// Returns why the served interface is of no more use, if so.
    fn is_lost(&self, rib: &Rib) -> Option<String> {
        let ifindex = self.ifindex()?;
        let interface = &self.interface;
        let is_there = match self.state {
            State::Attached { .. } => rib.link_of(self.port).is_some_and(|it| it.index == ifindex),
            _ => rib.has_link(ifindex),
        };
        if !is_there {
            return Some(format!("its interface {interface} is gone"));
        }
        // The number may have gone to another interface before anyone looked.
        let failed = self.statuses.iter().any(QueueStatus::failed);
        failed.then(|| format!("its interface {interface} is gone: its sockets are cut off"))
    }

    /// Attaches the program and the queues anew where the interface has others than those that are
    /// served: frames of a new queue may meet no program, and so no access list.
    fn count_queues(
        &mut self,
        workers: &mut [WorkerInterfaces],
        around: &mut Surroundings<'_>,
        now: Instant,
    ) {
        let State::Attached { ifindex } = self.state else { return };
        if now < self.next_count {
            return;
        }
        self.next_count = now + COUNT_QUEUES;
        let link = around.rib.link_of(self.port).filter(|it| it.index == ifindex).cloned();
        let Some(link) = link else { return };
        // One that is about to go has none left to count.
        let Ok(queues @ 1..) = queues::receive_queues(&link.name) else { return };
        if queues == self.queues_served {
            return;
        }
        tracing::warn!(
            "port {}: {} has {queues} receive queue(s) now instead of {}; it is attached again",
            self.name,
            link.name,
            self.queues_served
        );
        let why = Why::Absent("the number of its queues has changed".to_owned());
        if let Err(error) = around.programs.of(self.port).map_or(Ok(()), Program::cover_queues) {
            tracing::error!("port {}: {error}", self.name);
        }
        // Its workers have to let go of the queues first.
        self.retire(State::without(why, Some(link), now + LET_GO), workers, around, now);
        self.queues_served = queues;
    }

    /// Gives up what is left of an interface that is gone.
    fn lose(
        &mut self,
        why: String,
        workers: &mut [WorkerInterfaces],
        around: &mut Surroundings<'_>,
        now: Instant,
    ) {
        let (name, interface) = (&self.name, &self.interface);
        tracing::warn!(
            "port {name}: {why}; the port is attached as soon as there is an interface {interface}, \
             and the kernel forwards what is routed over it until then"
        );
        (self.renamed, self.link) = (None, None);
        self.state = State::without(Why::Absent(why), None, now);
        self.withdraw(workers, around);
    }

    /// Leaves the port to the kernel, or serves it again once that is over.
    fn leave_or_not(
        &mut self,
        left: Option<String>,
        workers: &mut [WorkerInterfaces],
        around: &mut Surroundings<'_>,
        now: Instant,
    ) {
        match (&mut self.state, left) {
            (State::Without { why: Why::Left(known), .. }, Some(why)) => *known = why,
            (State::Without { why: why @ Why::Left(_), seen, next_try }, None) => {
                *why = Why::Absent("it is about to be taken over again".to_owned());
                (*seen, *next_try) = (None, now);
            }
            // What is not there is not taken over.
            (State::Without { why, .. }, Some(left)) => *why = Why::Left(left),
            (State::Attached { .. } | State::HandedOver { .. }, Some(left)) => {
                self.retire(State::without(Why::Left(left), None, now), workers, around, now);
            }
            (_, None) => {}
        }
    }

    /// Sees to it that a port whose packets are judged has a program that leaves none to the
    /// kernel, also where its interface comes back while the port is left.
    fn keep_blocked(&mut self, around: &mut Surroundings<'_>, now: Instant) {
        if self.guard.passage(self.ifindex().is_some()) != Passage::Blocked {
            self.unblocked = None;
            return;
        }
        if self.unblocked.as_ref().is_some_and(|(_, next_try)| now < *next_try) {
            return;
        }
        let attached = around.programs.of(self.port).and_then(Program::interface);
        let done = match around.rib.link_named_as(self.port).cloned() {
            Some(link) if attached == Some(link.index) => Ok(()),
            Some(link) => {
                let left = (around.left_prefixes)(self.port);
                let to = Target { name: &self.name, link: &link, left: &left };
                let held = Change::Hold;
                let blocked = around.programs.attach_again(self.port, held, &to, around.rib);
                if blocked.is_ok() {
                    self.is_bond = Some(link.is_bond());
                }
                blocked.map(drop).map_err(|it| it.to_string())
            }
            // Moved to another namespace, where it is nobody's port.
            None if attached.is_some() => {
                around.programs.detach_port(self.port).map_err(|it| it.to_string())
            }
            None => Ok(()),
        };
        let before = self.unblocked.take();
        let Err(error) = done else { return };
        if before.is_none_or(|(before, _)| before != error) {
            tracing::error!(
                "port {}: cannot be blocked: {error}; the kernel forwards what comes in without {}",
                self.name,
                self.guard.judges().unwrap_or_default()
            );
        }
        self.unblocked = Some((error, now + TRY_AGAIN));
    }

    /// Takes the port back so that no frame is lost: first its program goes, then workers forward what
    /// waits in its queues while none of them sends to it.
    fn retire(
        &mut self,
        to: State,
        workers: &mut [WorkerInterfaces],
        around: &mut Surroundings<'_>,
        now: Instant,
    ) {
        let before = std::mem::replace(&mut self.state, to);
        if !matches!(before, State::Attached { .. }) {
            return self.withdraw(workers, around);
        }
        self.detach(around);
        around.rib.retire(self.port);
        self.emptying = Some(Emptying { until: now + EMPTYING, is_asked: false });
    }

    fn finish_emptying(
        &mut self,
        workers: &mut [WorkerInterfaces],
        around: &mut Surroundings<'_>,
        now: Instant,
    ) {
        let Some(emptying) = &mut self.emptying else { return };
        if !std::mem::replace(&mut emptying.is_asked, true) {
            workers.iter().for_each(|worker| worker.empty(self.port));
            around.workers.wake();
            return;
        }
        let is_taken =
            workers.iter().map(|worker| worker.is_taken(self.port)).fold(true, |a, b| a & b);
        if is_taken || now >= emptying.until {
            self.give_up(workers, around);
        }
    }

    /// Takes the port back from program, routes and workers.
    fn withdraw(&mut self, workers: &mut [WorkerInterfaces], around: &mut Surroundings<'_>) {
        self.detach(around);
        self.give_up(workers, around);
    }

    fn detach(&self, around: &mut Surroundings<'_>) {
        if let Err(error) = around.programs.change(self.port, Change::Leave, &[]) {
            tracing::error!("port {}: {error}", self.name);
        }
    }

    fn give_up(&mut self, workers: &mut [WorkerInterfaces], around: &mut Surroundings<'_>) {
        self.emptying = None;
        around.rib.serve(self.port, None);
        if !self.statuses.is_empty() {
            self.released_by = Instant::now() + RELEASE;
        }
        self.statuses.clear();
        for (number, worker) in workers.iter_mut().enumerate() {
            worker.sockets.retain(|(port, ..)| *port != self.port);
            worker.offer(self.port, Vec::new());
            around.workers.watch(number, self.port, Vec::new());
        }
    }

    /// Takes over the interface that has the port's name now, if there is one that can be.
    fn look_for_another(
        &mut self,
        workers: &mut [WorkerInterfaces],
        around: &mut Surroundings<'_>,
        changes: &mut Changes,
        now: Instant,
    ) {
        let State::Without { why, seen, next_try } = &mut self.state else { return };
        let link = around.rib.link_named_as(self.port).cloned();
        let same_as_before = *seen == link;
        let number = |link: &Option<Link>| link.as_ref().map(|link| link.index);
        if number(seen) != number(&link) {
            changes.links.push((self.port, number(&link).unwrap_or(0)));
        }
        if same_as_before && (link.is_none() || now < *next_try) {
            return;
        }
        (*seen, *next_try) = (link.clone(), now + TRY_AGAIN);
        let interface = &self.interface;
        let usable = match link {
            None => Err(queues::no_interface(interface)),
            Some(link) if !link.enabled => Err(queues::is_down(interface)),
            Some(link) => Ok(link),
        };
        let link = match usable {
            Ok(link) => link,
            Err(reason) => {
                *why = Why::Absent(reason);
                return;
            }
        };
        let Err(new) = self.attach(&link, workers, around) else { return };
        self.withdraw(workers, around);
        let State::Without { why, .. } = &self.state else { return };
        if let Why::Failed(reason) = &new
            && !matches!(why, Why::Failed(before) if before == reason)
        {
            self.tell_failed(reason);
        }
        if let State::Without { why, .. } = &mut self.state {
            *why = new;
        }
    }

    /// The program, then the sockets, which are offered to the workers.
    fn attach(
        &mut self,
        link: &Link,
        workers: &mut [WorkerInterfaces],
        around: &mut Surroundings<'_>,
    ) -> Result<(), Why> {
        let failed = |error: &dyn std::fmt::Display| Why::Failed(error.to_string());
        let found = queues::interface(self.port, link, around.config).map_err(Why::Failed)?;
        if found.queues > self.queues {
            return Err(Why::Failed(format!(
                "{0} has {1} queues, and the memory that was made for it at the start is for {2}: {3}, \
                 or restart",
                link.name,
                found.queues,
                self.queues,
                channels::remedy(&link.name, self.queues)
            )));
        }
        if self.is_bond.is_some_and(|was_bond| link.is_bond() != was_bond) {
            let (now, then) = if link.is_bond() { ("a", "no") } else { ("no", "a") };
            return Err(Why::Failed(format!(
                "{} is {now} bond, and was {then} bond before, for which its program was loaded: \
                 restart",
                link.name
            )));
        }
        let left = (around.left_prefixes)(self.port);
        let to = Target { name: &self.name, link, left: &left };
        let program = around.programs.attach_again(self.port, Change::Return, &to, around.rib);
        let program = program.map_err(|error| match error {
            // It goes while it is looked at.
            XdpError::NoInterface { .. } => Why::Absent(format!("{} is gone", link.name)),
            error => failed(&error),
        })?;
        self.is_bond = Some(link.is_bond());
        // The wait is here, and not between tries, for which the program would come and go each time.
        let patience = self.released_by.saturating_duration_since(Instant::now());
        let opened = open_queues(&found, around.config, &program, workers, patience);
        let opened = opened.map_err(|error| failed(&error))?;
        self.hand_over(opened, workers, around.workers);
        Ok(())
    }

    /// Offers queues to the workers. Nothing can fail here: no worker gets queues that are then
    /// taken back.
    fn hand_over(&mut self, opened: OpenQueues, workers: &[WorkerInterfaces], threads: &Workers) {
        let OpenQueues { ifindex, queues, sockets, mode } = opened;
        self.zero_copy = queues.iter().flatten().any(|queue| queue.mode().zero_copy);
        self.statuses = queues.iter().flatten().map(AfXdpQueue::status).collect();
        self.queues_served = self.statuses.len() as u32;
        for (number, (worker, queues)) in workers.iter().zip(queues).enumerate() {
            let watched = queues.iter().filter_map(|queue| duplicate(queue.socket()).ok());
            let watched: Vec<OwnedFd> = watched.collect();
            worker.offer(self.port, queues);
            threads.watch(number, self.port, watched);
        }
        self.state = State::HandedOver { ifindex, mode, sockets, is_served: false };
    }

    /// Lets traffic come once all workers have taken what they were offered.
    fn finish(
        &mut self,
        workers: &mut [WorkerInterfaces],
        around: &mut Surroundings<'_>,
        changes: &mut Changes,
        now: Instant,
    ) {
        // Also where nothing is waited for: what they give back is closed here.
        let taken =
            workers.iter().map(|worker| worker.is_taken(self.port)).fold(true, |a, b| a & b);
        let State::HandedOver { ifindex, mode, sockets, is_served } = &mut self.state else {
            return;
        };
        if !taken {
            return;
        }
        // The workers' tables are published after this look. Until then they lack the port's MAC address,
        // and frames would be dropped.
        if !std::mem::replace(is_served, true) {
            around.rib.serve(self.port, Some(*ifindex));
            return;
        }
        let (ifindex, mode) = (*ifindex, std::mem::take(mode));
        let done = around.programs.change(self.port, Change::Serve, sockets);
        match done {
            Ok(()) => {
                let how = std::mem::replace(&mut self.attached_words, AGAIN);
                tracing::info!(
                    "port {}: {how} interface {} (index {ifindex}), {mode}",
                    self.name,
                    self.interface
                );
                changes.zero_copy |= self.zero_copy;
                changes.modes.push((self.port, mode));
                self.state = State::Attached { ifindex };
                self.note_link(around.rib);
            }
            Err(error) => {
                tracing::error!("port {}: {error}", self.name);
                let why = Why::Failed(error.to_string());
                self.state = State::without(why, None, now + TRY_AGAIN);
                self.withdraw(workers, around);
            }
        }
    }
}

/// Ports that are left to the kernel and at which XDP programs may forward the flows of a flowtable: only where
/// the configuration demands programs, since the kernel itself was faster in the emulated machine.
pub(super) fn flow_targets<'a>(
    config: &'a Config,
    lookout: &'a Lookout,
    attachments: &Attachments,
) -> Vec<FlowTarget<'a>> {
    if config.router.xdp_forward != XdpForwarding::On
        || !config.obstacles_to_xdp_forwarding().is_empty()
    {
        return Vec::new();
    }
    let of = |(port, settings): (PortId, &'a PortSettings)| {
        let flowtable = lookout.flows(port)?.as_ref().ok()?;
        let (state, _) = attachments.state(port)?;
        let free = config.why_by_workers(usize::from(port.0)).is_empty();
        (free && state == "left").then_some(FlowTarget { port, name: &settings.name, flowtable })
    };
    config.present_ports().filter_map(of).collect()
}

/// The prefixes whose packets a port leaves to the kernel.
pub(super) fn left_prefixes(lookout: Option<&Lookout>, port: PortId) -> BTreeSet<IpNet> {
    lookout.and_then(|lookout| lookout.left_prefixes(port)).cloned().unwrap_or_default()
}

/// Opens the queues of an interface for all workers. Queues that are in use are waited for,
/// `patience` in all.
fn open_queues(
    interface: &Interface,
    config: &Config,
    program: &str,
    workers: &mut [WorkerInterfaces],
    patience: Duration,
) -> Result<OpenQueues, RouterError> {
    let until = Instant::now() + patience;
    let mut mode = String::new();
    let mut sockets = Vec::new();
    let mut opened = Vec::new();
    for (number, worker) in workers.iter_mut().enumerate() {
        let mut queues = Vec::new();
        for address in queues::addresses(config, std::slice::from_ref(interface), number) {
            let owners: Vec<BorrowedFd<'_>> =
                worker.sockets.iter().map(|(.., socket)| socket.as_fd()).collect();
            let queue = loop {
                match worker.memory.open(&address, &owners) {
                    Err(OpenError::InUse { .. }) if Instant::now() < until => {
                        std::thread::sleep(ASK_WORKERS);
                    }
                    opened => break opened?,
                }
            };
            sockets.push((address.queue, duplicate(queue.socket())?));
            worker.sockets.push((interface.port, address.queue, duplicate(queue.socket())?));
            mode = format!("{}, {program}", describe(queue.mode()));
            queues.push(queue);
        }
        opened.push(queues);
    }
    let link = &interface.link;
    let polls = config.polls_unaided().then(|| why_in_vain(&link.name, interface.queues));
    mode.extend(polls.flatten().map(|why| format!(", {why}")));
    Ok(OpenQueues { ifindex: link.index, queues: opened, sockets, mode })
}

impl WorkerInterfaces {
    fn take_away(&self, port: PortId, drains: bool) {
        if let Some((_, handover)) = self.handovers.iter().find(|(of, _)| *of == port) {
            handover.take_away(drains);
        }
    }

    fn empty(&self, port: PortId) {
        if let Some((_, handover)) = self.handovers.iter().find(|(of, _)| *of == port) {
            handover.empty();
        }
    }

    fn offer(&self, port: PortId, queues: Vec<AfXdpQueue>) {
        if let Some((_, handover)) = self.handovers.iter().find(|(of, _)| *of == port) {
            handover.offer(queues);
        }
    }

    fn is_taken(&self, port: PortId) -> bool {
        let handover = self.handovers.iter().find(|(of, _)| *of == port);
        handover.is_none_or(|(_, handover)| handover.is_taken())
    }
}

//! Actions of ports on the system: the only code that attaches programs, opens sockets after the
//! start, hands queues to workers and directs the tables to a port.

use super::action::Action;
use super::machine::{Event, State, next};
use super::{Port, TRY_AGAIN};
use crate::RouterError;
use crate::busy_poll::obstacle_to_busy_polling;
use crate::config::Config;
use crate::programs::{Programs, Target};
use crate::queues::{self, Interface, Sockets, Unserved, WorkerInterfaces, describe, duplicate};
use crate::slot::Handover;
use crate::takeover::ForwardPathMonitor;
use crate::workers::Workers;
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use std::collections::{BTreeSet, VecDeque};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};
use wattline_dataplane::port::PortId;
use wattline_ports::afxdp::{AfXdpQueue, OpenError};
use wattline_rib::Rib;
use wattline_xdp::bpf::BpfError;
use wattline_xdp::{XdpError, XdpProgram};

/// Time between two checks whether workers, which were woken, have taken queues.
pub(crate) const ASK_WORKERS: Duration = Duration::from_millis(2);
/// Longest time for workers to empty the queues of a port that is left to the kernel, or removed.
pub(crate) const EMPTYING: Duration = Duration::from_millis(500);
/// Longest wait for queues that were in use by this router: the kernel releases them in a work
/// queue (xp_put_pool()), soon after their last socket was closed. On a fully loaded machine that
/// has taken more than two seconds. The wait is below the service watchdog's timeout.
pub(crate) const RELEASE: Duration = Duration::from_secs(6);

/// Reason why an action has failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The XDP program or a map refused.
    #[error(transparent)]
    Program(#[from] XdpError),
    /// A socket could not be opened.
    #[error(transparent)]
    Socket(#[from] RouterError),
}

impl From<BpfError> for Failure {
    fn from(error: BpfError) -> Self {
        Self::Program(error.into())
    }
}

impl Failure {
    fn reason(&self, interface: &str) -> Unserved {
        match self {
            // It was removed meanwhile.
            Self::Program(XdpError::NoInterface { .. }) => {
                Unserved::Absent(format!("{interface} is gone"))
            }
            error => Unserved::Failed(error.to_string()),
        }
    }
}

/// The system, as far as ports act on it.
pub(crate) struct Actuator<'a> {
    pub config: &'a Config,
    pub programs: &'a mut Programs,
    pub rib: &'a mut Rib,
    pub workers: &'a Workers,
    /// The workers' interfaces; empty before they are opened.
    pub interfaces: &'a mut [WorkerInterfaces],
    pub monitor: Option<&'a ForwardPathMonitor>,
}

impl Actuator<'_> {
    /// Reports an event to a port, and takes the actions that follow. `to` is the interface that
    /// the port gets, if it gets one.
    ///
    /// # Errors
    /// The first failure; the port is in the resulting state.
    pub fn apply(
        &mut self,
        port: &mut Port,
        event: Event,
        to: Option<&Interface>,
    ) -> Result<(), Failure> {
        let mut actions = VecDeque::from(next(&mut port.life, event));
        let mut outcome = Ok(());
        while let Some(action) = actions.pop_front() {
            let Err(failure) = self.act(port, action, to) else { continue };
            let why = failure.reason(&port.interface);
            let instead = next(&mut port.life, Event::Failed(action, why));
            if !instead.is_empty() {
                (port.seen, port.next_try) =
                    (to.map(|it| it.link.clone()), Instant::now() + TRY_AGAIN);
                actions = instead.into();
            }
            match outcome {
                Ok(()) => outcome = Err(failure),
                Err(_) => tracing::error!("port {}: {failure}", port.name),
            }
        }
        outcome
    }

    /// Reports an event whose failures are only logged.
    pub fn report(&mut self, port: &mut Port, event: Event) {
        if let Err(error) = self.apply(port, event, None) {
            tracing::error!("port {}: {error}", port.name);
        }
    }

    fn act(
        &mut self,
        port: &mut Port,
        action: Action,
        to: Option<&Interface>,
    ) -> Result<(), Failure> {
        let id = port.id;
        match action {
            Action::Attach { blocked } => self.attach(port, to, blocked)?,
            Action::OpenSockets => self.open_sockets(port, to)?,
            Action::Guard => self.on_program(id, |it| it.set_guarded(true))?,
            Action::Cover => self.on_program(id, XdpProgram::cover_queues)?,
            Action::SetSockets => self.on_program(id, |it| {
                let mut sockets = port.sockets.sockets.iter();
                sockets.try_for_each(|(queue, socket)| it.set_socket(*queue, socket.as_fd()))
            })?,
            Action::ClearSockets => self.on_program(id, XdpProgram::clear_sockets)?,
            Action::Detach => self.programs.detach(id),
            Action::OpenEgress => {
                if let Some(egress) = self.programs.egress.forwarding_mut() {
                    egress.add(id, port.ifindex, &port.name)?;
                }
            }
            Action::CloseEgress => {
                let egress = self.programs.egress.forwarding_mut();
                egress.map_or(Ok(()), |it| it.remove(id))?;
            }
            Action::Unload => self.programs.remove_port(id)?,
            Action::List => self.rib.serve(id, Some(port.ifindex)),
            Action::Unlist => self.rib.serve(id, None),
            Action::Forget => self.rib.set_port(id, None),
            Action::Retire => {
                self.rib.retire(id);
                port.emptied_by = Instant::now() + EMPTYING;
            }
            Action::Offer => self.offer(port),
            Action::Empty => {
                let handovers = self.interfaces.iter().filter_map(|worker| worker.handover(id));
                handovers.for_each(Handover::empty);
                self.workers.wake();
            }
            Action::Close => self.close(port),
            Action::TakeAway { drains } => {
                port.release();
                port.queues_served = 0;
                for (number, worker) in self.interfaces.iter_mut().enumerate() {
                    worker.sockets.retain(|(of, ..)| *of != id);
                    worker.handover(id).iter().for_each(|it| it.take_away(drains));
                    self.workers.watch(number, id, Vec::new());
                }
            }
        }
        Ok(())
    }

    fn on_program(
        &self,
        port: PortId,
        action: impl FnOnce(&XdpProgram) -> Result<(), BpfError>,
    ) -> Result<(), BpfError> {
        self.programs.xdp(port).map_or(Ok(()), action)
    }

    fn attach(
        &mut self,
        port: &mut Port,
        to: Option<&Interface>,
        blocked: bool,
    ) -> Result<(), XdpError> {
        let Some(Interface { link, .. }) = to else { return Ok(()) };
        let left = self.left_prefixes(port);
        let to = Target {
            name: &port.name,
            link,
            left: &left,
            by_workers: &port.by_workers,
            is_guarded: port.life.guard.is_guarded(),
        };
        port.mode = self.programs.attach(port.id, &to, self.rib, blocked)?;
        (port.ifindex, port.is_bond) = (link.index, Some(link.is_bond()));
        Ok(())
    }

    /// Returns the prefixes whose packets a port leaves to the kernel: from the first frame on all,
    /// if a new port is left as a whole.
    fn left_prefixes(&self, port: &Port) -> BTreeSet<IpNet> {
        let Some(monitor) = self.monitor else { return BTreeSet::new() };
        if port.life.state == State::Open && monitor.left(port.id).is_some() {
            return [Ipv4Net::default().into(), Ipv6Net::default().into()].into();
        }
        monitor.left_prefixes(port.id).cloned().unwrap_or_default()
    }

    /// Opens the sockets of a port. Waits here for queues that are in use: waiting between tries
    /// would attach and detach the program each time.
    fn open_sockets(&mut self, port: &mut Port, to: Option<&Interface>) -> Result<(), RouterError> {
        let Some(interface) = to else { return Ok(()) };
        let sockets = open_queues(interface, self.config, self.interfaces, port.released_by)?;
        port.take_sockets(sockets, interface, self.config);
        Ok(())
    }

    /// Offers queues to the workers. Nothing can fail here: no worker gets queues that are then
    /// taken back.
    fn offer(&mut self, port: &mut Port) {
        let queues = std::mem::take(&mut port.sockets.queues);
        for (number, (worker, queues)) in self.interfaces.iter().zip(queues).enumerate() {
            let watched = queues.iter().filter_map(|queue| duplicate(queue.socket()).ok());
            let watched: Vec<OwnedFd> = watched.collect();
            if let Some(handover) = worker.handover(port.id) {
                handover.offer(queues);
            }
            self.workers.watch(number, port.id, watched);
        }
    }

    fn close(&mut self, port: &mut Port) {
        let were_offered = port.sockets.queues.is_empty();
        port.release();
        for (number, worker) in self.interfaces.iter_mut().enumerate() {
            worker.sockets.retain(|(of, ..)| *of != port.id);
            if were_offered {
                worker.handover(port.id).iter().for_each(|it| it.offer(Vec::new()));
                self.workers.watch(number, port.id, Vec::new());
            }
        }
    }

    /// Leaves the frames of a worker's queues to the kernel, or gives them to the worker again.
    pub fn serve_by(&self, ports: &[Port], worker: usize, does_serve: bool) {
        let sockets = self.interfaces.get(worker).map_or(&[][..], |worker| &worker.sockets);
        for (port, queue, socket) in sockets {
            // Other ports get their sockets when all workers have taken their queues.
            let is_up = |it: &&Port| it.id == *port && matches!(it.life.state, State::Up(_));
            let Some(Port { name, .. }) = ports.iter().find(is_up) else { continue };
            let done = self.on_program(*port, |it| match does_serve {
                true => it.set_socket(*queue, socket.as_fd()),
                false => it.clear_socket(*queue),
            });
            if let Err(error) = done {
                tracing::error!("port {name}: {error}");
            }
        }
    }
}

impl Port {
    /// Takes over open sockets, whose queues the workers have or will be offered.
    pub fn take_sockets(&mut self, sockets: Sockets, interface: &Interface, config: &Config) {
        let Interface { link, queues, .. } = interface;
        let program = std::mem::take(&mut self.mode);
        self.mode = format!("{}, {program}", sockets.mode.map(describe).unwrap_or_default());
        let polls = config.polls_unaided().then(|| obstacle_to_busy_polling(&link.name, *queues));
        self.mode.extend(polls.flatten().map(|why| format!(", {why}")));
        self.zero_copy = sockets.mode.is_some_and(|mode| mode.zero_copy);
        self.queues_served = sockets.statuses.len() as u32;
        self.sockets = sockets;
    }

    /// Drops the sockets. The kernel releases their queues a while later.
    fn release(&mut self) {
        if !std::mem::take(&mut self.sockets).statuses.is_empty() {
            self.released_by = Instant::now() + RELEASE;
        }
    }
}

/// Opens the queues of an interface for all workers. Waits for queues that are in use until
/// `patience`.
fn open_queues(
    interface: &Interface,
    config: &Config,
    workers: &mut [WorkerInterfaces],
    patience: Instant,
) -> Result<Sockets, RouterError> {
    let mut sockets = Sockets::default();
    for (number, worker) in workers.iter_mut().enumerate() {
        let mut queues = Vec::new();
        for address in queues::addresses(config, std::slice::from_ref(interface), number) {
            let owners: Vec<BorrowedFd<'_>> =
                worker.sockets.iter().map(|(.., socket)| socket.as_fd()).collect();
            let queue = loop {
                match worker.memory.open(&address, &owners) {
                    Err(OpenError::InUse { .. }) if Instant::now() < patience => {
                        std::thread::sleep(ASK_WORKERS);
                    }
                    opened => break opened?,
                }
            };
            sockets.add(address.queue, &queue)?;
            worker.sockets.push((interface.port, address.queue, duplicate(queue.socket())?));
            queues.push(queue);
        }
        sockets.queues.push(queues);
    }
    Ok(sockets)
}

impl WorkerInterfaces {
    fn handover(&self, port: PortId) -> Option<&Handover<AfXdpQueue>> {
        self.handovers.iter().find(|(of, _)| *of == port).map(|(_, handover)| &**handover)
    }

    /// Returns true if the worker has taken the last offer for a port. Closes the queues that it
    /// has given back.
    pub fn is_taken(&self, port: PortId) -> bool {
        self.handover(port).is_none_or(Handover::is_taken)
    }
}

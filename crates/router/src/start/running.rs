//! Fifth phase: workers and governor run, and traffic is taken over.

use super::super::attachments::{Surroundings, left_prefixes};
use super::super::error::RouterError;
use super::super::exception::KernelSink;
use super::super::governing;
use super::super::inbox::{InboxSender, Message};
use super::super::kernel::KernelSide;
use super::super::power::Power;
use super::super::tun::Tunnel;
use super::super::unpuntable::Unpuntable;
use super::super::workers::{Equipment, Workers, waiter_of};
use super::super::{fallback, xdp_forward};
use super::judged::Judged;
use super::known::Known;
use super::opened::Opened;
use super::settled::Settled;
use crate::application;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Instant;
use wattline_dataplane::punt::{Discard, PuntSink, Unavailable};
use wattline_linux::privileges;
use wattline_ports::waiter::{PollWaiter, Waker};

/// Requests for neighbours that may wait; a worker repeats what does not fit.
const NEIGHBOUR_REQUESTS: usize = 4096;

/// The control thread's ways to be told something.
pub(super) struct Control {
    pub waiter: PollWaiter,
    pub inbox: Receiver<Message>,
    pub inbox_sender: InboxSender,
    pub signals: signal_hook::iterator::Handle,
}

impl Control {
    /// Opens them, and gives up the capabilities that are not needed any more: before any thread is
    /// started, which would keep them.
    ///
    /// # Errors
    /// When the process has no more descriptors or threads.
    pub fn open(settled: &Settled, known: &Known, judged: &Judged) -> Result<Self, RouterError> {
        // An overrun leaves its socket in error until it is read.
        let watched = judged.lookout.iter().flat_map(|it| it.watch().descriptors());
        let descriptors = known.kernel.iter().map(KernelSide::descriptor).chain(watched);
        let waiter = PollWaiter::new(descriptors)
            .map_err(|errno| RouterError::system("making a wake-up", errno))?
            .keeping_broken();
        let (inbox_sender, inbox) = InboxSender::new(waiter.waker());
        if settled.has_interfaces {
            allow_locked_memory();
        }
        if (settled.has_interfaces || !known.devices.is_empty())
            && let Err(error) = privileges::drop_unneeded()
        {
            tracing::warn!("cannot drop capabilities that are no longer needed: {error}");
        }
        let signals = watch_signals(&inbox_sender)?;
        Ok(Self { waiter, inbox, inbox_sender, signals })
    }
}

/// Starts the workers, and the governor once they run.
///
/// # Errors
/// When a thread cannot be started, or the governor cannot govern.
pub(super) fn start_workers(
    settled: &Settled,
    known: &mut Known,
    judged: &mut Judged,
    opened: &mut Opened,
    (power, control): (&mut Option<Power>, &Control),
) -> Result<Workers, RouterError> {
    let config = &settled.config;
    let (neighbours, requests) = sync_channel(NEIGHBOUR_REQUESTS);
    control.inbox_sender.pass_on(requests);
    let mut workers = Workers::new();
    let queues = std::mem::take(&mut opened.queues);
    let waiters = queues.iter().map(waiter_of).collect::<Result<Vec<_>, _>>()?;
    let bells: Vec<Waker> = waiters.iter().map(PollWaiter::waker).collect();
    let loops = power.as_mut().map(|power| power.equip(&bells)).transpose()?;
    let mut loops = loops.unwrap_or_default().into_iter();
    for (worker, (queues, waiter)) in (0..).zip(queues.into_iter().zip(waiters)) {
        let tunnel = opened.tunnel.as_ref().map(Tunnel::sink);
        let punt: Box<dyn PuntSink> = match tunnel {
            tunnel if known.devices.have_taps() => {
                Box::new(KernelSink::new(known.devices.taps(config.ports.len()), tunnel))
            }
            Some(tunnel) => Box::new(tunnel),
            None if settled.has_interfaces => Box::new(Unavailable),
            None => Box::new(Discard),
        };
        let features = application::features(&mut judged.applications, worker);
        let neighbours = neighbours.clone();
        let (routes, run) = (known.routes.reader(), loops.next());
        let equipment = Equipment { routes, punt, neighbours, features, waiter, run };
        workers.start(queues, equipment, &config.router, control.inbox_sender.clone())?;
    }
    workers.configure(&config.router);
    let Some(power) = power else { return Ok(workers) };
    let forwarded = governing::forwarded(config, known.kernel.as_ref(), opened.zero_copy);
    let queues = opened.attachments.queues(config);
    if known.unopened.is_empty() || !power.follows_ports() {
        power.start(config, queues, &workers, forwarded)?;
        return Ok(workers);
    }
    // It may be fit for the ports only when all are there.
    power.resume(config, queues, &workers, forwarded);
    if !power.governs() {
        workers.set_active(workers.count());
        workers.configure(&config.router);
    }
    Ok(workers)
}

/// Takes the traffic over: there are tables now, and workers to use them. Returns the handling of
/// packets for the kernel where no device leads there.
///
/// # Errors
/// When the programs or the tables refuse it.
pub(super) fn take_over(
    settled: &Settled,
    known: &mut Known,
    judged: &Judged,
    opened: &mut Opened,
    workers: &Workers,
) -> Result<Option<Unpuntable>, RouterError> {
    let config = &settled.config;
    let mut unpuntable =
        (settled.has_interfaces && opened.tunnel.is_none()).then(Unpuntable::default);
    unpuntable.iter_mut().for_each(Unpuntable::routes_changed);
    // Else what the kernel does not forward is not forwarded here, either, and named by port.
    if settled.has_interfaces && !config.router.kernel_routes {
        fallback::warn();
    }
    let Some(mut kernel) = known.kernel.take() else { return Ok(unpuntable) };
    let mut around = Surroundings {
        config,
        kernel: &mut kernel,
        rib: &mut known.rib,
        workers,
        left: &|port| Some(judged.left(port)?.to_owned()),
        left_prefixes: &|port| left_prefixes(judged.lookout.as_ref(), port),
    };
    let changes = opened.attachments.look(&mut around, Instant::now());
    for (port, link) in changes.links {
        known.port_links[usize::from(port.0)] = link;
    }
    known.apply_statics(config, &settled.extra_routes);
    known.commit()?;
    if let Some(unpuntable) = &mut unpuntable
        && let Some(prefixes) = unpuntable.collect(&known.rib, Instant::now())
    {
        kernel.set_unpuntable(prefixes);
        kernel.leave_prefixes(|port| judged.lookout.as_ref()?.left_prefixes(port));
    }
    let sockets = std::mem::take(&mut opened.sockets).into_iter();
    let sockets = sockets.filter(|(port, ..)| judged.left(*port).is_none()).collect();
    kernel.hand_over(sockets, opened.longest_packet)?;
    kernel.warn_of_mtus(&known.rib);
    kernel.set_obstacles_of_forwarding(xdp_forward::obstacles(config, opened.zero_copy));
    kernel.update_egress_ports(&known.rib, Instant::now());
    known.kernel = Some(kernel);
    Ok(unpuntable)
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

//! Fifth phase: workers and governor run, and traffic is taken over.

use super::super::attachments::{Surroundings, left_prefixes};
use super::super::error::RouterError;
use super::super::governing;
use super::super::inbox::InboxSender;
use super::super::kernel_routes::KernelRoutes;
use super::super::power::Power;
use super::super::tun::Tunnel;
use super::super::workers::{Equipment, Workers, waiter_of};
use super::super::{fallback, xdp_forward};
use super::judged::Judged;
use super::known::Known;
use super::opened::Opened;
use super::settled::Settled;
use crate::application;
use std::sync::mpsc::sync_channel;
use std::time::Instant;
use wattline_dataplane::nodes::ClampMss;
use wattline_dataplane::punt::{Discard, PuntSink, Unavailable};
use wattline_ports::waiter::{PollWaiter, Waker};

/// Requests for neighbours that may wait; a worker repeats what does not fit.
const NEIGHBOUR_REQUESTS: usize = 4096;

/// Starts the workers, and the governor once they run.
///
/// # Errors
/// When a thread cannot be started, or the governor cannot govern.
pub(super) fn start_workers(
    settled: &Settled,
    known: &mut Known,
    judged: &mut Judged,
    opened: &mut Opened,
    (power, inbox_sender): (&mut Option<Power>, &InboxSender),
) -> Result<Workers, RouterError> {
    let config = &settled.config;
    let (neighbours, requests) = sync_channel(NEIGHBOUR_REQUESTS);
    inbox_sender.pass_on(requests);
    let mut workers = Workers::new();
    let queues = std::mem::take(&mut opened.queues);
    let waiters = queues.iter().map(waiter_of).collect::<Result<Vec<_>, _>>()?;
    let bells: Vec<Waker> = waiters.iter().map(PollWaiter::waker).collect();
    let loops = power.as_mut().map(|power| power.equip(&bells)).transpose()?;
    let mut loops = loops.unwrap_or_default().into_iter();
    for (worker, (queues, waiter)) in (0..).zip(queues.into_iter().zip(waiters)) {
        let tunnel = opened.tunnel.as_ref().map(Tunnel::sink);
        let punt: Box<dyn PuntSink> = match tunnel {
            Some(tunnel) => Box::new(tunnel),
            None if settled.has_interfaces => Box::new(Unavailable),
            None => Box::new(Discard),
        };
        let mut features = application::features(&mut judged.applications, worker);
        if config.clamps_mss() {
            // Before all that hides a packet's headers.
            features.insert(0, ClampMss::feature());
        }
        let neighbours = neighbours.clone();
        let (routes, run) = (known.routes.reader(), loops.next());
        let equipment = Equipment { routes, punt, neighbours, features, waiter, run };
        workers.start(queues, equipment, &config.router, inbox_sender.clone())?;
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

/// Takes the traffic over: there are tables now, and workers to use them. Returns the follower of routes by
/// which programs leave packets to the kernel, if ports are interfaces.
///
/// # Errors
/// When the programs or the tables refuse it.
pub(super) fn take_over(
    settled: &Settled,
    known: &mut Known,
    judged: &Judged,
    opened: &mut Opened,
    workers: &Workers,
) -> Result<Option<KernelRoutes>, RouterError> {
    let config = &settled.config;
    let mut routes = settled.has_interfaces.then(|| KernelRoutes::new(Instant::now()));
    // Else what the kernel does not forward is not forwarded here, either, and named by port.
    if settled.has_interfaces && !config.router.kernel_routes {
        fallback::warn();
    }
    let Some(mut kernel) = known.kernel.take() else { return Ok(routes) };
    let mut around = Surroundings {
        config,
        programs: &mut kernel.programs,
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
    if let Some(routes) = &mut routes {
        routes.update(&mut kernel.programs, &known.rib);
    }
    let programs = &mut kernel.programs;
    let sockets = std::mem::take(&mut opened.sockets).into_iter();
    let sockets = sockets.filter(|(port, ..)| judged.left(*port).is_none()).collect();
    programs.hand_over(sockets, opened.longest_packet)?;
    programs.warn_of_mtus(&known.rib);
    programs.egress.set_obstacles(xdp_forward::obstacles(config, opened.zero_copy));
    programs.update_egress_ports(&known.rib, Instant::now());
    known.kernel = Some(kernel);
    Ok(routes)
}

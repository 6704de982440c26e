//! Fifth phase: workers and governor run, and traffic is taken over.

use super::super::error::RouterError;
use super::super::inbox::InboxSender;
use super::super::kernel::{KernelSide, forwarded};
use super::super::kernel_routes::KernelRoutes;
use super::super::port::ports::{PATIENCE, Ports, await_workers};
use super::super::power::Power;
use super::super::tun::Tunnel;
use super::super::workers::{Equipment, Workers, waiter_of};
use super::super::{fallback, statics, xdp_forward};
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

/// Most waiting requests for neighbours; a worker repeats requests that do not fit.
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
    let mut workers = Workers::default();
    let queues = std::mem::take(&mut opened.queues);
    let waiters = queues.iter().map(waiter_of).collect::<Result<Vec<_>, _>>()?;
    let wakers: Vec<Waker> = waiters.iter().map(PollWaiter::waker).collect();
    let loops = power.as_mut().map(|power| power.equip(&wakers)).transpose()?;
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
            // Before all features that hide a packet's headers.
            features.insert(0, ClampMss::feature());
        }
        let neighbours = neighbours.clone();
        let (routes, run) = (known.routes.reader(), loops.next());
        let equipment = Equipment { routes, punt, neighbours, features, waiter, run };
        workers.start(queues, equipment, &config.router, inbox_sender.clone())?;
    }
    workers.configure(&config.router);
    let Some(power) = power else { return Ok(workers) };
    let forwarded = forwarded(config, known.kernel.as_ref(), opened.ports.zero_copy());
    let queues = opened.ports.queues(config);
    if known.unopened.is_empty() || !power.follows_ports() {
        power.start(config, queues, &workers, forwarded)?;
        return Ok(workers);
    }
    // It may work only once all ports exist.
    power.resume(config, queues, &workers, forwarded);
    if !power.governs() {
        workers.set_active(workers.count());
        workers.configure(&config.router);
    }
    Ok(workers)
}

/// Takes the traffic over, now that tables and workers exist. Returns the follower of routes by
/// which programs leave packets to the kernel, if ports are interfaces.
///
/// # Errors
/// When the programs or the tables refuse.
pub(super) fn take_over(
    settled: &Settled,
    known: &mut Known,
    judged: &Judged,
    opened: &mut Opened,
    workers: &Workers,
) -> Result<Option<KernelRoutes>, RouterError> {
    let config = &settled.config;
    let mut routes = settled.has_interfaces.then(|| KernelRoutes::new(Instant::now()));
    // Not needed with the kernel's routes: packets that the kernel does not forward are then
    // reported by port, and not forwarded here either.
    if settled.has_interfaces && !config.router.kernel_routes {
        fallback::warn();
    }
    let Some(kernel) = &mut known.kernel else { return Ok(routes) };
    kernel.programs.set_longest(opened.longest_packet)?;
    let Ports { list, interfaces, links, .. } = &mut opened.ports;
    let monitor = judged.monitor.as_ref();
    let mut committed = Ok(());
    await_workers(PATIENCE, || {
        if let Some(mut actuator) = known.actuator(config, monitor, workers, interfaces) {
            for (port, link) in actuator.poll(list, Instant::now()) {
                links[usize::from(port.0)] = link;
            }
            actuator.begin(list);
        }
        statics::apply(&mut known.rib, config, &settled.extra_routes, links);
        committed = known.commit();
        workers.wake();
        committed.is_err() || !list.iter().any(|port| port.life.state.is_waiting())
    });
    committed?;
    if let Some(mut actuator) = known.actuator(config, monitor, workers, interfaces) {
        actuator.enforce(list);
    }
    let Some(KernelSide { programs, .. }) = &mut known.kernel else { return Ok(routes) };
    if let Some(routes) = &mut routes {
        routes.update(programs, &known.rib);
    }
    programs.warn_of_mtus(&known.rib);
    programs.egress.set_obstacles(xdp_forward::obstacles(config, opened.ports.zero_copy()));
    programs.update_egress_ports(&known.rib, Instant::now());
    Ok(routes)
}

//! The router under test: cards in memory, workers, routes, the emulated server.

use super::feed::FeedResult;
use super::frames::{behind, port_mac, station_mac};
use super::listener::Listener;
use super::outcome::{Delivery, Outcome};
use crate::error::Error;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use wattline_cores::platform_of;
use wattline_dataplane::counters::{Snapshot, WorkerCounters};
use wattline_dataplane::forwarding::PortConfig;
use wattline_dataplane::frame::FramePool;
use wattline_dataplane::next_hop::{Adjacency, NextHop};
use wattline_dataplane::nodes::RouterParts;
use wattline_dataplane::port::{PortId, PortQueue};
use wattline_dataplane::punt::Discard;
use wattline_dataplane::routes::Routes;
use wattline_dataplane::worker::{Command, Control, Worker, WorkerParts};
use wattline_policy::CoreSet;
use wattline_ports::waiter::{PollWaiter, Waker};
use wattline_scale::card::Card;
use wattline_scale::{Record, Redirect, Scale, Setting};

/// Bytes per chunk; enough for the longest Ethernet frame.
const CHUNK: u32 = 2_048;
const HEADROOM: u32 = 128;
/// Chunks in addition to full rings: a batch, and dropped frames that are not freed yet.
const SPARE_CHUNKS: u32 = 256;
/// Chunks per port if rings are unbounded.
const UNBOUND_RING: u32 = 2_048;
/// Longest real time for workers to forward the remaining frames.
const DRAIN: Duration = Duration::from_secs(20);

/// A router whose clock stands still until [`Router::start`].
pub(super) struct Router {
    scale: Scale,
    policy: &'static str,
    card: Arc<Card>,
    listener: Listener,
    workers: Vec<Thread>,
    _routes: Routes,
}

struct Thread {
    control: Arc<Control>,
    counters: Arc<WorkerCounters>,
    waker: Waker,
    handle: Option<JoinHandle<()>>,
}

impl Router {
    pub fn new(setting: &Setting) -> Result<Self, Error> {
        let nic = &setting.server.nic;
        let (ports, cores) = (nic.ports, platform_of(&setting.server).cores);
        let listener = Listener::default();
        let all = CoreSet::first(cores);
        let card = Card::new(nic, ports, cores, all, Box::new(listener.clone()));
        let waiters = (0..cores)
            .map(|_| {
                PollWaiter::new([])
                    .map_err(|errno| wattline_testbed::Error::io("making a wake-up", errno))
            })
            .collect::<Result<Vec<_>, _>>()?;
        let wakers: Vec<Waker> = waiters.iter().map(PollWaiter::waker).collect();
        card.connect(wakers.clone());
        let redirect: Box<dyn Redirect> = Box::new(Arc::clone(&card));
        let (scale, pacers) = Scale::new(setting, ports, wakers.clone(), Some(redirect))?;
        let policy = setting.policy.policy.name;
        let routes = routes(ports)?;
        let ring = nic.rx_ring.map_or(UNBOUND_RING, |ring| ring.min(1 << 14) as u32);
        let chunks = ports as u32 * ring * 2 + SPARE_CHUNKS;
        let mut router = Self {
            scale,
            policy,
            card,
            listener,
            workers: Vec::new(),
            _routes: Routes::new(vec![]),
        };
        for (core, ((pacer, mut waiter), waker)) in
            pacers.into_iter().zip(waiters).zip(wakers).enumerate()
        {
            let queue = |port| -> Box<dyn PortQueue> {
                Box::new(router.card.queue(PortId(port as u16), core))
            };
            let (neighbours, _) = sync_channel(1);
            let parts = WorkerParts {
                ports: (0..ports).map(queue).collect(),
                pool: FramePool::zeroed(chunks, CHUNK, HEADROOM),
                routes: routes.reader(),
                router: RouterParts {
                    punt: Box::new(Discard),
                    neighbours,
                    icmp_rate: 100,
                    icmp_burst: 10,
                },
            };
            let mut worker = Worker::new(parts).map_err(|errors| failed(format!("{errors:?}")))?;
            let (control, counters) = (worker.control(), worker.counters());
            let handle = std::thread::Builder::new()
                .name(format!("core-{core}"))
                .spawn(move || pacer.run(&mut worker, &mut waiter))
                .map_err(|source| {
                    wattline_testbed::Error::io(format!("starting core {core}"), source)
                })?;
            router.workers.push(Thread { control, counters, waker, handle: Some(handle) });
        }
        router._routes = routes;
        Ok(router)
    }

    pub fn card(&self) -> Arc<Card> {
        Arc::clone(&self.card)
    }

    pub fn scale(&self) -> &Scale {
        &self.scale
    }

    /// Starts the clock.
    pub fn start(&mut self) -> Result<(), Error> {
        Ok(self.scale.start()?)
    }

    /// Waits until workers have forwarded the remaining frames, and sums up the results.
    pub fn finish(mut self, record: Record, fed: FeedResult) -> Result<Outcome, Error> {
        let now = self.scale.clock().now();
        self.command(Command::Drain);
        let deadline = Instant::now() + DRAIN;
        let running = |thread: &Thread| thread.handle.as_ref().is_some_and(|h| !h.is_finished());
        // The drops of the rings can only be read while workers answer.
        while self.card.waiting() > 0 && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
        while self.workers.iter().any(running) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
        self.stop();
        let dropped_packets = self.scale.look(|governor| governor.totals(now).machine.dropped);
        let mut workers = Snapshot::default();
        self.workers.iter().for_each(|thread| workers.merge(&thread.counters.snapshot()));
        let knobs = self.scale.look(|governor| governor.ledger().entries().cloned().collect());
        let delivery = Delivery {
            sent_packets: fed.packets,
            beyond_link_packets: self.card.beyond_link(),
            dropped_packets,
            heard: self.listener.heard(),
        };
        let holds = self.scale.holds();
        let scale = self.scale.clock().dilation();
        let feed_lateness_max_seconds = fed.latest.as_secs_f64();
        let policy = self.policy;
        Ok(Outcome {
            policy,
            scale,
            record,
            delivery,
            holds,
            feed_lateness_max_seconds,
            knobs,
            workers,
        })
    }

    fn command(&self, command: Command) {
        for thread in &self.workers {
            thread.control.command(command);
            thread.waker.wake();
        }
    }

    fn stop(&mut self) {
        self.command(Command::Stop);
        for thread in &mut self.workers {
            if let Some(handle) = thread.handle.take()
                && let Err(panic) = handle.join()
            {
                std::panic::resume_unwind(panic);
            }
        }
    }
}

impl Drop for Router {
    fn drop(&mut self) {
        self.command(Command::Stop);
        for handle in self.workers.iter_mut().filter_map(|thread| thread.handle.take()) {
            // A panic there has been reported by its thread.
            let _ = handle.join();
        }
    }
}

fn failed(what: String) -> Error {
    wattline_testbed::Error::Router { what, log: String::new() }.into()
}

/// Returns routes to the prefixes behind each port.
fn routes(ports: usize) -> Result<Routes, Error> {
    let config = |port| PortConfig { mac: port_mac(port), ..PortConfig::default() };
    let mut routes = Routes::new((0..ports).map(config).collect());
    for port in 0..ports {
        let next_hop = NextHop::Forward(Adjacency {
            port: PortId(port as u16),
            mtu: 1500,
            link_mtu: 1500,
            destination_mac: station_mac(port),
            source_mac: port_mac(port),
            vlan: None,
            gateway: None,
            source: None,
        });
        let prefix = ipnet::IpNet::new_assert(behind(port).into(), 24);
        routes.route(prefix, &next_hop).map_err(|error| failed(error.to_string()))?;
    }
    routes.publish().map_err(|errors| failed(format!("{errors:?}")))?;
    Ok(routes)
}

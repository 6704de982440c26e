//! The candidates: the kernel, xdp-forward, Wattline's data plane, the bare loop, and DPDK's l3fwd.

use super::arrangement::INSIDE;
use super::bare::Bare;
use super::l3fwd::L3fwd;
use super::round::Round;
use super::setup::{LEFT_MAC, RIGHT_MAC, SINK_MAC, Setup, addresses, kernel};
use super::threads::{Level, Thread};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{channel, sync_channel};
use std::time::{Duration, Instant};
use wattline_dataplane::next_hop::{Adjacency, NextHop};
use wattline_dataplane::nodes::RouterParts;
use wattline_dataplane::port::{PortId, PortQueue};
use wattline_dataplane::punt::Discard;
use wattline_dataplane::routes::Routes;
use wattline_dataplane::worker::{Command, Control, Mode, Worker, WorkerParts};
use wattline_linux::namespace::enter_thread;
use wattline_ports::afxdp::{AfXdpQueue, Options, open_worker};
use wattline_ports::waiter::PollWaiter;
use wattline_testbed::Error;
use wattline_testbed::command::{self, LIMIT};
use wattline_xdp::{Copies, XdpForward, XdpModeChoice, XdpProgram};

/// Longest wait for the first frame at the sink.
const PATIENCE: Duration = Duration::from_secs(20);
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// A program under measurement.
#[derive(Debug, Clone)]
pub enum Candidate {
    /// The kernel, which forwards in the context of its receiving thread.
    Kernel,
    /// The complete router graph of `wattline-dataplane` over AF_XDP, with one worker.
    Wattline(Mode),
    /// The same graph with forwarding in its XDP program, in the context of the kernel's receiving
    /// thread. The worker handles only exceptions and otherwise sleeps.
    WattlineXdp,
    /// Minimal forwarding over AF_XDP: the cost of copy mode alone.
    BareLoop {
        /// True to poll always, false to block as [`Mode::Adaptive`] does.
        polls: bool,
    },
    /// xdp-tools' xdp-forward at this path, which forwards by the kernel's routes in its receiving
    /// thread.
    XdpForward(PathBuf),
    /// The l3fwd program at this path, over DPDK's AF_XDP driver.
    L3fwd(PathBuf),
}

impl Candidate {
    pub fn name(&self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::Wattline(Mode::Poll) => "wattline_poll",
            Self::Wattline(Mode::Interrupt) => "wattline_interrupt",
            Self::Wattline(Mode::Adaptive) => "wattline_adaptive",
            Self::Wattline(Mode::Pause) => "wattline_pause",
            Self::Wattline(Mode::Nap) => "wattline_nap",
            Self::WattlineXdp => "wattline_xdp_forward",
            Self::BareLoop { polls: false } => "bare_loop_adaptive",
            Self::BareLoop { polls: true } => "bare_loop_poll",
            Self::XdpForward(_) => "xdp_forward",
            Self::L3fwd(_) => "l3fwd_af_xdp",
        }
    }

    /// Returns true if the candidate forwards in its own threads, not in the kernel's receiving
    /// thread.
    pub fn has_threads(&self) -> bool {
        !matches!(self, Self::Kernel | Self::WattlineXdp | Self::XdpForward(_))
    }

    /// Runs and measures one round.
    pub fn measure(&self, setup: &Setup, duration: Duration) -> Result<Round, Error> {
        match self {
            Self::Kernel => {
                Thread::napi(&setup.left)?.precede(Level::Drain)?;
                observe(setup, duration, || Ok(Vec::new()))
            }
            Self::Wattline(mode) => by_wattline(setup, duration, *mode, false),
            Self::WattlineXdp => {
                Thread::napi(&setup.left)?.precede(Level::Drain)?;
                by_wattline(setup, duration, Mode::Adaptive, true)
            }
            Self::BareLoop { polls } => {
                let bare = Bare::start(setup, *polls)?;
                observe(setup, duration, || Ok(vec![bare.thread()]))
            }
            Self::XdpForward(program) => {
                Thread::napi(&setup.left)?.precede(Level::Drain)?;
                let mut load = setup.router.command(&program.to_string_lossy());
                // libxdp's dispatcher needs a BPF file system, which some machines lack.
                load.env("LIBXDP_SKIP_DISPATCHER", "1").args(["load", &setup.left, &setup.right]);
                command::run(&mut load, LIMIT)?;
                observe(setup, duration, || Ok(Vec::new()))
            }
            Self::L3fwd(program) => {
                let process = L3fwd::start(setup, program)?;
                observe(setup, duration, || process.threads())
            }
        }
    }
}

fn by_wattline(
    setup: &Setup,
    duration: Duration,
    mode: Mode,
    xdp_forward: bool,
) -> Result<Round, Error> {
    let router = Router::start(setup, mode, xdp_forward)?;
    let thread = router.thread;
    observe(setup, duration, move || Ok(vec![thread]))
}

/// Offers load, waits until frames reach the sink, and measures.
fn observe(
    setup: &Setup,
    duration: Duration,
    own_threads: impl FnOnce() -> Result<Vec<Thread>, Error>,
) -> Result<Round, Error> {
    let receiving = [Thread::napi(&setup.left)?, Thread::napi(&setup.right)?];
    let sink = [Thread::napi(&setup.terminal)?];
    setup.under_load(|generator, count| {
        let deadline = Instant::now() + PATIENCE;
        while count()?.forwarded == 0 {
            if Instant::now() > deadline {
                return Err(kernel("no frame came through"));
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        let own = own_threads()?;
        let groups: [&[Thread]; 4] = [&[generator], &receiving, &own, &sink];
        let used = || groups.map(|threads| threads.iter().map(|t| t.cpu_time()).sum::<Duration>());
        std::thread::sleep(duration / 5);
        let before = (Instant::now(), count()?, used());
        std::thread::sleep(duration);
        let after = (Instant::now(), count()?, used());
        // A polling candidate would keep the kernel's own threads from taking the topology down.
        own.iter().try_for_each(|thread| thread.follow())?;
        let seconds = (after.0 - before.0).as_secs_f64();
        let forwarded = (after.1.forwarded - before.1.forwarded) as f64;
        let mut used = after
            .2
            .iter()
            .zip(before.2)
            .map(|(after, before)| after.saturating_sub(before).as_secs_f64() / forwarded);
        let mut next = || used.next().unwrap_or(0.0);
        let (generator, receive, own, sink) = (next(), next(), next(), next());
        Ok(Round {
            offered_rate_pps: (after.1.offered - before.1.offered) as f64 / seconds,
            rate_pps: forwarded / seconds,
            cpu_seconds_per_packet: receive + own,
            receive_thread_seconds_per_packet: receive,
            own_threads_seconds_per_packet: own,
            generator_seconds_per_packet: generator,
            sink_thread_seconds_per_packet: sink,
        })
    })
}

/// Wattline's data plane on its own thread; ended when dropped.
pub struct Router {
    control: Arc<Control>,
    thread: Thread,
    worker: Option<std::thread::JoinHandle<()>>,
    _programs: Programs,
}

impl Router {
    pub fn start(setup: &Setup, mode: Mode, xdp_forward: bool) -> Result<Self, Error> {
        let namespace = setup.router.name().to_owned();
        let (left, right) = (setup.left.clone(), setup.right.clone());
        let (report, reported) = channel();
        let worker = std::thread::spawn(move || {
            match prepare(&namespace, [&left, &right], xdp_forward) {
                Ok((mut worker, mut waiter, programs)) => {
                    worker.control().set_mode(mode);
                    let started = (worker.control(), Thread::current(), programs);
                    if report.send(Ok(started)).is_ok() {
                        worker.run(&mut waiter);
                    }
                }
                // The receiver is gone if the starting thread has failed.
                Err(error) => drop(report.send(Err(error))),
            }
        });
        let started = reported.recv().map_err(|_| kernel("the worker ended at its start"))?;
        let (control, thread, programs) = started?;
        Ok(Self { control, thread, worker: Some(worker), _programs: programs })
    }

    /// Returns the worker's thread.
    pub fn thread(&self) -> Thread {
        self.thread
    }
}

impl Drop for Router {
    fn drop(&mut self) {
        self.control.command(Command::Stop);
        if let Some(worker) = self.worker.take() {
            let _ = worker.join();
        }
    }
}

/// The XDP programs, which must stay attached for frames to be handed over.
type Programs = (Vec<XdpProgram>, Option<XdpForward>);
type Prepared = (Worker, PollWaiter, Programs);

fn prepare(namespace: &str, interfaces: [&str; 2], xdp_forward: bool) -> Result<Prepared, Error> {
    enter_thread(namespace)?;
    Thread::current().pin(INSIDE)?;
    Thread::current().precede(Level::Drain)?;
    let addresses = addresses(interfaces)?;
    let opened = open_worker(&addresses, &Options::default()).map_err(kernel)?;
    let forward = xdp_forward.then(|| XdpForward::new(&Copies::new()?.into()));
    let forward = forward.transpose().map_err(kernel)?;
    let mut programs = Vec::new();
    for ((address, queue), mac) in addresses.iter().zip(&opened.queues).zip([LEFT_MAC, RIGHT_MAC]) {
        let program = XdpProgram::load_forwarding(
            address.ifindex,
            mac,
            XdpModeChoice::Auto,
            forward.as_ref(),
        )
        .map_err(kernel)?;
        program.set_socket(0, queue.socket()).map_err(kernel)?;
        if let Some(forward) = &forward {
            forward.add(address.ifindex, address.port.0.into()).map_err(kernel)?;
            forward.open(address.ifindex, true).map_err(kernel)?;
        }
        programs.push(program);
    }
    let waiter = PollWaiter::new(opened.queues.iter().map(AfXdpQueue::socket)).map_err(kernel)?;

    let configs = [LEFT_MAC, RIGHT_MAC]
        .map(|mac| wattline_dataplane::forwarding::PortConfig { mac, ..Default::default() });
    let mut routes = Routes::new(configs.into());
    let sink = NextHop::Forward(Adjacency {
        port: PortId(1),
        mtu: 1500,
        link_mtu: 1500,
        destination_mac: SINK_MAC,
        source_mac: RIGHT_MAC,
        vlan: None,
        gateway: None,
        source: None,
    });
    let prefix = ipnet::IpNet::new_assert([10, 9, 0, 0].into(), 24);
    routes.route(prefix, &sink).map_err(kernel)?;
    routes.publish().map_err(|errors| kernel(format!("{errors:?}")))?;
    let (neighbours, _requests) = sync_channel(16);
    let worker = Worker::new(WorkerParts {
        ports: opened
            .queues
            .into_iter()
            .map(|queue| Box::new(queue) as Box<dyn PortQueue>)
            .collect(),
        pool: opened.pool,
        routes: routes.reader(),
        router: RouterParts { punt: Box::new(Discard), neighbours, icmp_rate: 10, icmp_burst: 10 },
    })
    .map_err(|errors| kernel(format!("{errors:?}")))?;
    Ok((worker, waiter, (programs, forward)))
}

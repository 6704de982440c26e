//! Worker threads.

use super::error::RouterError;
use super::inbox::{Bell, Message};
use super::platform::{WorkerHandle, WorkerLoop};
use super::queues::WorkerQueues;
use crate::config::{Mode, RouterSettings};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use wattline_dataplane::counters::{Snapshot, WorkerCounters};
use wattline_dataplane::feature::Feature;
use wattline_dataplane::forwarding::RouteReader;
use wattline_dataplane::nodes::{NeighbourRequest, RouterParts};
use wattline_dataplane::port::PortId;
use wattline_dataplane::punt::PuntSink;
use wattline_dataplane::worker::{Command, Control, Mode as WorkerMode, Worker, WorkerParts};
use wattline_linux::privileges;
use wattline_ports::waiter::{PollWaiter, Waker};

/// ICMP errors per second and worker; Linux's own limits are of this order
/// (icmp_msgs_per_sec = 1000).
const ICMP_RATE: u32 = 1000;
const ICMP_BURST: u32 = 50;
/// How often the end of threads is looked for.
const LOOK: Duration = Duration::from_millis(2);
/// A worker that was told to end comes to it within so long, unless it reads a pipe that gives
/// nothing.
const LAST_PATIENCE: Duration = Duration::from_secs(3);

struct Thread {
    control: Arc<Control>,
    counters: Arc<WorkerCounters>,
    waker: Waker,
    handle: Option<JoinHandle<()>>,
}

/// All workers; they end with the value.
pub(super) struct Workers {
    threads: Vec<Thread>,
    /// The nodes' edges, the same in every worker.
    edges: Vec<(&'static str, &'static str)>,
}

/// What a worker gets beside its queues.
pub(super) struct Equipment {
    pub routes: RouteReader,
    pub punt: Box<dyn PuntSink>,
    pub neighbours: SyncSender<NeighbourRequest>,
    /// Applications on the packets' way.
    pub features: Vec<Feature>,
    /// What it blocks on ([`waiter_of`]).
    pub waiter: PollWaiter,
    /// What it runs in place of its own loop.
    pub run: Option<WorkerLoop>,
}

/// What the worker of these queues blocks on.
pub(super) fn waiter_of(queues: &WorkerQueues) -> Result<PollWaiter, RouterError> {
    PollWaiter::of_ports(queues.descriptors.iter().map(|(port, it)| (port.0, it.as_fd())))
        .map_err(|errno| RouterError::system("making the wake-up of a worker", errno))
}

impl Workers {
    pub fn new() -> Self {
        Self { threads: Vec::new(), edges: Vec::new() }
    }

    /// Starts one more.
    pub fn start(
        &mut self,
        queues: WorkerQueues,
        equipment: Equipment,
        settings: &RouterSettings,
        bell: Bell,
    ) -> Result<(), RouterError> {
        let number = self.threads.len();
        let failed = |what: &str| format!("{what} worker {number}");
        let Equipment { routes, punt, neighbours, features, mut waiter, run } = equipment;
        let waker = waiter.waker();
        let router = RouterParts { punt, neighbours, icmp_rate: ICMP_RATE, icmp_burst: ICMP_BURST };
        let parts = WorkerParts { ports: queues.ports, pool: queues.pool, routes, router };
        let mut worker = Worker::with_features(parts, features).map_err(|errors| {
            let text = errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
            RouterError::system(failed("building the graph of"), std::io::Error::other(text))
        })?;
        let (control, counters) = (worker.control(), worker.counters());
        self.edges = worker.graph().edges();
        let cpu = settings.cpus.get(number).copied();
        let handle = std::thread::Builder::new()
            .name(format!("worker-{number}"))
            .spawn(move || {
                if let Some(cpu) = cpu {
                    pin(number, cpu);
                }
                // It works on open sockets and memory only.
                if let Err(error) = privileges::drop_all() {
                    tracing::debug!("worker {number} keeps its capabilities: {error}");
                }
                match run {
                    Some(run) => run(&mut worker, &mut waiter),
                    None => worker.run(&mut waiter),
                }
                // Its ports are closed before it is said to have ended.
                drop(worker);
                bell.ring(Message::WorkerEnded);
            })
            .map_err(|source| RouterError::system(failed("starting"), source))?;
        self.threads.push(Thread { control, counters, waker, handle: Some(handle) });
        Ok(())
    }

    /// Sets what can be changed while they run.
    pub fn configure(&self, settings: &RouterSettings) {
        for thread in &self.threads {
            thread.control.set_mode(match settings.mode {
                Mode::Poll => WorkerMode::Poll,
                Mode::Interrupt => WorkerMode::Interrupt,
                Mode::Adaptive => WorkerMode::Adaptive,
            });
            thread.control.set_batch(usize::from(settings.batch));
            thread.control.set_spin(settings.idle.as_micros().try_into().unwrap_or(u32::MAX));
            thread.waker.wake();
        }
    }

    /// Has a worker watch these descriptors in place of those that it had of a port, and wakes it.
    pub fn watch(&self, worker: usize, port: PortId, descriptors: Vec<OwnedFd>) {
        if let Some(thread) = self.threads.get(worker) {
            thread.waker.watch(port.0, descriptors);
        }
    }

    /// Wakes them all, for something that was published.
    pub fn wake(&self) {
        self.threads.iter().for_each(|thread| thread.waker.wake());
    }

    /// Number of workers.
    pub fn count(&self) -> u16 {
        self.threads.len() as u16
    }

    /// Serves with the first `active` workers and parks the rest; those block, and still
    /// forward what arrives.
    pub fn set_active(&mut self, active: u16) {
        for (number, thread) in self.threads.iter().enumerate() {
            let command = if number < usize::from(active) { Command::Run } else { Command::Park };
            thread.control.command(command);
            thread.waker.wake();
        }
    }

    /// True once all threads have ended by themselves.
    pub fn have_ended(&self) -> bool {
        self.threads.iter().all(|thread| thread.handle.as_ref().is_none_or(JoinHandle::is_finished))
    }

    /// Lets them forward what is queued, for so long at most, and ends them. False where some are
    /// left behind.
    pub fn drain(&mut self, patience: Duration) -> bool {
        self.command(Command::Drain);
        self.await_end(patience);
        self.stop()
    }

    fn await_end(&self, patience: Duration) {
        let end = Instant::now() + patience;
        while !self.have_ended() && Instant::now() < end {
            std::thread::sleep(LOOK);
        }
    }

    fn stop(&mut self) -> bool {
        let mut all = true;
        self.command(Command::Stop);
        self.await_end(LAST_PATIENCE);
        for (number, thread) in self.threads.iter_mut().enumerate() {
            let Some(handle) = thread.handle.take() else { continue };
            if !handle.is_finished() {
                // It ends with the process, which must not wait for whoever writes the pipe.
                tracing::error!("worker {number} waits for a capture to go on, and is left behind");
                all = false;
            } else if handle.join().is_err() {
                tracing::error!("worker {number} has panicked: this is a defect");
            }
        }
        all
    }

    fn command(&self, command: Command) {
        for thread in &self.threads {
            thread.control.command(command);
            thread.waker.wake();
        }
    }

    /// The counters of each, and whether it is active.
    pub fn snapshots(&self) -> Vec<(Snapshot, bool)> {
        let active = |thread: &Thread| thread.control.current_command() != Command::Park;
        let threads = self.threads.iter();
        threads.map(|thread| (thread.counters.snapshot(), active(thread))).collect()
    }

    /// What a governor watches and commands them by.
    pub fn handles(&self) -> Vec<WorkerHandle> {
        let handle = |thread: &Thread| WorkerHandle {
            control: thread.control.clone(),
            counters: thread.counters.clone(),
            waker: thread.waker.clone(),
        };
        self.threads.iter().map(handle).collect()
    }

    /// Which node leads to which.
    pub fn edges(&self) -> &[(&'static str, &'static str)] {
        &self.edges
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.stop();
    }
}

fn pin(worker: usize, cpu: u16) {
    let mut cpus = rustix::thread::CpuSet::new();
    cpus.set(usize::from(cpu));
    if let Err(error) = rustix::thread::sched_setaffinity(None, &cpus) {
        tracing::warn!("worker {worker} cannot be pinned to CPU {cpu}: {error}");
    }
}

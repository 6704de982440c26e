//! Worker threads.

use super::cpu::pin;
use super::error::RouterError;
use super::inbox::{InboxSender, Message};
use super::platform::{WorkerHandle, WorkerLoop};
use super::pulse::{Change, Pulse};
use super::queue_watch::{QueueWatch, WorkerEstimator};
use super::queues::WorkerQueues;
use super::stall::Stall;
use super::taps::watchers::WorkerTaps;
use crate::config::{Mode, RouterSettings};
use std::any::Any;
use std::os::fd::{AsFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use wattline_dataplane::counters::{Snapshot, WorkerCounters};
use wattline_dataplane::feature::Feature;
use wattline_dataplane::forwarding::RouteReader;
use wattline_dataplane::nodes::{NeighbourRequest, RouterParts};
use wattline_dataplane::port::{PortCounters, PortId};
use wattline_dataplane::punt::PuntSink;
use wattline_dataplane::tap::slots::TapSlots;
use wattline_dataplane::worker::{Command, Control, Mode as WorkerMode, Worker, WorkerParts};
use wattline_linux::privileges;
use wattline_ports::waiter::{PollWaiter, Waker};

/// ICMP errors per second and worker; Linux's own limits are of this order
/// (icmp_msgs_per_sec = 1000).
const ICMP_RATE: u32 = 1000;
const ICMP_BURST: u32 = 50;
/// Time between two checks whether threads have ended.
const CHECK_EVERY: Duration = Duration::from_millis(2);
/// Longest time for a worker to end after the command, unless it waits for a pipe.
const LAST_PATIENCE: Duration = Duration::from_secs(3);
/// Longest time that is not counted because the kernel stalls a worker: well below the time that a
/// service manager gives a service to end (systemd: 90 s).
const MOST_STALLED: Duration = Duration::from_secs(20);

struct Thread {
    control: Arc<Control>,
    counters: Arc<WorkerCounters>,
    queue_watch: Arc<QueueWatch>,
    waker: Waker,
    handle: Option<JoinHandle<()>>,
    pulse: Pulse,
    /// Access for captures and traces, and the number of chunks of its memory.
    taps: (TapSlots, u32),
    /// True if it may wait for the other end of a pipe.
    has_captures: bool,
    /// Message of its panic.
    panic: Arc<OnceLock<String>>,
    /// The kernel's number of the thread, once it runs.
    number: Arc<OnceLock<i32>>,
}

impl Thread {
    fn has_ended(&self) -> bool {
        self.handle.as_ref().is_none_or(JoinHandle::is_finished)
    }
}

/// All workers; they end when this is dropped.
#[derive(Default)]
pub(super) struct Workers {
    threads: Vec<Thread>,
    /// The nodes' edges, the same in every worker.
    edges: Vec<(&'static str, &'static str)>,
    /// The nodes by number, the same in every worker.
    nodes: Vec<&'static str>,
}

/// End of the workers.
#[derive(Debug, Default)]
pub(super) struct Ending {
    /// True if some did not end, and live as long as the process.
    pub left_behind: bool,
    /// The first of them that has no capture to wait for.
    pub hangs: Option<usize>,
}

/// Equipment of a worker in addition to its queues.
pub(super) struct Equipment {
    pub routes: RouteReader,
    pub punt: Box<dyn PuntSink>,
    pub neighbours: SyncSender<NeighbourRequest>,
    /// Nodes of applications.
    pub features: Vec<Feature>,
    /// Waiter that it blocks on ([`waiter_of`]).
    pub waiter: PollWaiter,
    /// Replacement of its own loop, if any.
    pub run: Option<WorkerLoop>,
}

/// Creates the waiter on which the worker of these queues blocks.
pub(super) fn waiter_of(queues: &WorkerQueues) -> Result<PollWaiter, RouterError> {
    PollWaiter::for_ports(queues.descriptors.iter().map(|(port, it)| (port.0, it.as_fd())))
        .map_err(|errno| RouterError::system("making the wake-up of a worker", errno))
}

impl Workers {
    /// Starts another worker.
    pub fn start(
        &mut self,
        queues: WorkerQueues,
        equipment: Equipment,
        settings: &RouterSettings,
        inbox_sender: InboxSender,
    ) -> Result<(), RouterError> {
        let number = self.threads.len();
        let failed = |what: &str| format!("{what} worker {number}");
        let has_captures = queues.has_captures;
        let Equipment { routes, punt, neighbours, features, mut waiter, run } = equipment;
        let waker = waiter.waker();
        let router = RouterParts { punt, neighbours, icmp_rate: ICMP_RATE, icmp_burst: ICMP_BURST };
        let (served, ports) = (queues.served, queues.ports.len());
        let parts = WorkerParts { ports: queues.ports, pool: queues.pool, routes, router };
        let mut worker = Worker::with_features(parts, features).map_err(|errors| {
            let text = errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
            RouterError::system(failed("building the graph of"), std::io::Error::other(text))
        })?;
        let (control, counters) = (worker.control(), worker.counters());
        control.set_ports(served);
        let queue_watch = Arc::<QueueWatch>::default();
        let estimator = WorkerEstimator::new(Arc::clone(&queue_watch), ports);
        worker.set_batch_watch(Box::new(estimator));
        self.edges = worker.graph().edges();
        self.nodes = worker.graph().names();
        let taps = (worker.tap_slots(), worker.pool().chunks());
        let cpu = settings.cpus.get(number).copied();
        let panic = Arc::new(OnceLock::new());
        let last_words = panic.clone();
        let own_number = Arc::new(OnceLock::new());
        let its_number = own_number.clone();
        let work = move || {
            let _ = its_number.set(rustix::thread::gettid().as_raw_nonzero().get());
            if let Some(cpu) = cpu {
                pin(number, cpu);
            }
            // It needs only open sockets and memory.
            if let Err(error) = privileges::drop_all() {
                tracing::warn!("worker {number}: cannot drop its capabilities: {error}");
            }
            match run {
                Some(run) => run(&mut worker, &mut waiter),
                None => worker.run(&mut waiter),
            }
            // Its ports are closed before its end is reported.
            drop(worker);
        };
        let handle = std::thread::Builder::new()
            .name(format!("worker-{number}"))
            .spawn(move || {
                // Its data is dropped with it, so no other thread sees it in a broken state.
                if let Err(panic) = catch_unwind(AssertUnwindSafe(work)) {
                    let _ = last_words.set(panic_message(&*panic));
                }
                inbox_sender.send(Message::WorkerEnded);
            })
            .map_err(|source| RouterError::system(failed("starting"), source))?;
        let (handle, pulse) = (Some(handle), Pulse::new());
        let thread = Thread {
            control,
            counters,
            queue_watch,
            waker,
            handle,
            pulse,
            taps,
            has_captures,
            panic,
            number: own_number,
        };
        self.threads.push(thread);
        Ok(())
    }

    /// Returns the error of the first worker that has panicked: the router cannot continue without
    /// it.
    pub fn failure(&self) -> Option<RouterError> {
        let mut threads = self.threads.iter().enumerate();
        threads.find_map(|(worker, thread)| {
            let message = thread.panic.get()?.clone();
            Some(RouterError::Panicked { worker, message })
        })
    }

    /// Returns workers whose state has changed. Call this at least once a second.
    pub fn poll(&mut self, now: Instant) -> Vec<(usize, Change)> {
        let mut changes = Vec::new();
        for (number, thread) in self.threads.iter_mut().enumerate() {
            let ended = thread.has_ended();
            let totals = &thread.counters.totals;
            let rounds = [&totals.useful_iterations, &totals.empty_iterations, &totals.sleeps];
            let rounds = rounds.iter().fold(0_u64, |sum, count| sum.wrapping_add(count.get()));
            let change = if ended { None } else { thread.pulse.check(rounds, now) };
            match change {
                // The other end of a pipe may pause, and often.
                Some(change) if thread.has_captures => {
                    tracing::debug!("worker {number}, which may wait for a capture: {change:?}");
                }
                Some(Change::Hangs) => tracing::error!(
                    "worker {number} hangs, or gets no processor: it has made no round for \
                     seconds; the kernel forwards what arrives at its queues until it continues"
                ),
                Some(Change::GoesOn) => tracing::warn!("worker {number} continues"),
                None => {}
            }
            changes.extend(change.map(|change| (number, change)));
        }
        changes
    }

    /// Applies the settings that can be changed while workers run.
    pub fn configure(&self, settings: &RouterSettings) {
        self.set_batch(settings);
        for thread in &self.threads {
            thread.control.set_mode(match settings.mode {
                Mode::Poll => WorkerMode::Poll,
                Mode::Interrupt => WorkerMode::Interrupt,
                Mode::Adaptive => WorkerMode::Adaptive,
            });
            thread.control.set_spin(settings.idle.as_micros().try_into().unwrap_or(u32::MAX));
            thread.waker.wake();
        }
    }

    /// Applies only the batch size.
    pub fn set_batch(&self, settings: &RouterSettings) {
        for thread in &self.threads {
            thread.control.set_batch(usize::from(settings.batch));
        }
    }

    /// Replaces the descriptors of a port that a worker watches, and wakes it.
    pub fn watch(&self, worker: usize, port: PortId, descriptors: Vec<OwnedFd>) {
        if let Some(thread) = self.threads.get(worker) {
            thread.waker.watch(port.0, descriptors);
        }
    }

    /// Sets the number of places for ports that all workers serve.
    pub fn serve_ports(&self, ports: usize) {
        self.threads.iter().for_each(|thread| thread.control.set_ports(ports));
        self.wake();
    }

    /// Returns true if no worker has counts of a port: it is new, or was removed and forgotten.
    pub fn have_forgotten(&self, port: PortId) -> bool {
        let counted = |thread: &Thread| {
            let ports = thread.counters.snapshot().ports;
            ports.get(usize::from(port.0)).is_some_and(|counts| {
                // `waiting` is a level that only the next batch updates, so it may be stale here.
                PortCounters { waiting: 0, ..*counts } != PortCounters::default()
            })
        };
        !self.threads.iter().any(counted)
    }

    /// Wakes all workers, so that they see published changes.
    pub fn wake(&self) {
        self.threads.iter().for_each(|thread| thread.waker.wake());
    }

    /// Returns the number of workers.
    pub fn count(&self) -> u16 {
        self.threads.len() as u16
    }

    /// Has the first `active` workers serve and parks the rest. Parked workers block, and still
    /// forward arriving packets.
    pub fn set_active(&mut self, active: u16) {
        for (number, thread) in self.threads.iter().enumerate() {
            let command = if number < usize::from(active) { Command::Run } else { Command::Park };
            thread.control.command(command);
            thread.waker.wake();
        }
    }

    /// Returns true once all threads have ended by themselves.
    pub fn have_ended(&self) -> bool {
        self.threads.iter().all(Thread::has_ended)
    }

    /// Lets workers forward their queued packets, for at most `patience`, and ends them.
    pub fn drain(&mut self, patience: Duration) -> Ending {
        self.command(Command::Drain);
        self.await_end(patience);
        self.stop()
    }

    /// Waits for all to end, for at most `patience`. Time in which the kernel stalls one of them
    /// does not count, up to [`MOST_STALLED`].
    fn await_end(&self, patience: Duration) {
        let running = self.threads.iter().filter(|thread| !thread.has_ended());
        let mut stalls: Vec<_> =
            running.filter_map(|thread| thread.number.get().copied()).map(Stall::new).collect();
        let begun = Instant::now();
        let mut stalled = Duration::ZERO;
        while !self.have_ended() && begun.elapsed() < patience + stalled.min(MOST_STALLED) {
            std::thread::sleep(CHECK_EVERY);
            stalled += stalls.iter_mut().filter_map(Stall::stalled).max().unwrap_or_default();
        }
    }

    fn stop(&mut self) -> Ending {
        let mut ending = Ending::default();
        self.command(Command::Stop);
        self.await_end(LAST_PATIENCE);
        for (number, thread) in self.threads.iter_mut().enumerate() {
            let Some(handle) = thread.handle.take() else { continue };
            if handle.is_finished() {
                // The message of a panic is kept ([`Self::failure`]).
                let _ = handle.join();
                continue;
            }
            // It ends with the process, which must not wait for the other end of a pipe.
            ending.left_behind = true;
            if thread.has_captures {
                tracing::error!(
                    "worker {number} still waits for a capture file; the router ends without it"
                );
            } else {
                tracing::error!(
                    "worker {number} hangs; the router ends without it, and its frames are lost"
                );
                ending.hangs.get_or_insert(number);
            }
        }
        ending
    }

    fn command(&self, command: Command) {
        for thread in &self.threads {
            thread.control.command(command);
            thread.waker.wake();
        }
    }

    /// Returns the counters of each worker, and true if it is active.
    pub fn snapshots(&self) -> Vec<(Snapshot, bool)> {
        let active = |thread: &Thread| thread.control.current_command() != Command::Park;
        let threads = self.threads.iter();
        threads.map(|thread| (thread.counters.snapshot(), active(thread))).collect()
    }

    /// Returns true if a worker makes no rounds, and has no capture to wait for.
    pub fn hangs(&self, worker: usize) -> bool {
        let thread = self.threads.get(worker);
        thread.is_some_and(|thread| thread.pulse.hangs() && !thread.has_captures)
    }

    /// Returns handles by which a governor watches and commands the workers.
    pub fn handles(&self) -> Vec<WorkerHandle> {
        let handle = |thread: &Thread| WorkerHandle {
            control: thread.control.clone(),
            counters: thread.counters.clone(),
            queue_watch: thread.queue_watch.clone(),
            waker: thread.waker.clone(),
        };
        self.threads.iter().map(handle).collect()
    }

    /// Returns the taps of each worker, for captures and traces.
    pub fn worker_taps(&self) -> Vec<WorkerTaps> {
        let worker = |thread: &Thread| {
            let (slots, chunks) = thread.taps.clone();
            WorkerTaps { slots, waker: Some(thread.waker.clone()), chunks }
        };
        self.threads.iter().map(worker).collect()
    }

    /// Returns the names of the nodes, by their number.
    pub fn nodes(&self) -> &[&'static str] {
        &self.nodes
    }

    /// Returns the edges between nodes.
    pub fn edges(&self) -> &[(&'static str, &'static str)] {
        &self.edges
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Returns the message of a panic.
fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("no message").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use wattline_dataplane::frame::{Frame, FramePool};
    use wattline_dataplane::port::{PortCounters, PortQueue};
    use wattline_dataplane::punt::Discard;
    use wattline_dataplane::routes::Routes;

    /// A port at which a worker panics, or hangs until the other end is dropped.
    enum Bad {
        Panics,
        Hangs(std::sync::mpsc::Receiver<()>),
    }

    impl PortQueue for Bad {
        fn receive(&mut self, _: &mut FramePool, _: &mut [Frame]) -> usize {
            match self {
                Self::Panics => panic!("nobody expected {}", "this"),
                Self::Hangs(end) => end.recv().map_or(0, |()| 0),
            }
        }
        fn transmit(&mut self, _: &mut FramePool, _: &[Frame]) -> usize {
            0
        }
        fn flush(&mut self, _: &mut FramePool) {}
        fn recycle(&mut self, _: &mut FramePool) {}
        fn pending(&mut self) -> usize {
            0
        }
        fn counters(&self) -> PortCounters {
            PortCounters::default()
        }
    }

    fn start(bad: Bad) -> (Workers, std::sync::mpsc::Receiver<Message>) {
        let pool = FramePool::zeroed(8, 2048, 256);
        let queues = WorkerQueues {
            pool,
            ports: vec![Box::new(bad)],
            served: 1,
            descriptors: Vec::new(),
            has_captures: false,
        };
        let equipment = Equipment {
            routes: Routes::new(Vec::new()).reader(),
            punt: Box::new(Discard),
            neighbours: std::sync::mpsc::sync_channel(1).0,
            features: Vec::new(),
            waiter: waiter_of(&queues).unwrap(),
            run: None,
        };
        let text = "[[port]]\nname = \"a\"\ncapture = { read = \"x\" }\n";
        let config = Config::parse(text, "test").unwrap();
        let (inbox_sender, inbox) = InboxSender::new(PollWaiter::new([]).unwrap().waker());
        let mut workers = Workers::default();
        workers.start(queues, equipment, &config.router, inbox_sender).unwrap();
        (workers, inbox)
    }

    #[test]
    fn panic_is_reported_and_kept() {
        let (mut workers, inbox) = start(Bad::Panics);
        assert!(matches!(inbox.recv().unwrap(), Message::WorkerEnded));
        let error = workers.failure().expect("it has panicked").to_string();
        assert!(error.contains("worker 0") && error.contains("nobody expected this"), "{error}");
        let ending = workers.drain(Duration::ZERO);
        assert!(!ending.left_behind && ending.hangs.is_none());
    }

    #[test]
    fn hanging_worker_is_reported_and_left_behind_at_the_end() {
        let (end, other_end) = std::sync::mpsc::channel();
        let (mut workers, _inbox) = start(Bad::Hangs(other_end));
        let now = Instant::now();
        let second = |number| now + Duration::from_secs(number);
        let changes: Vec<_> = (0..4).flat_map(|number| workers.poll(second(number))).collect();
        assert_eq!(changes, [(0, Change::Hangs)]);
        assert!(workers.hangs(0) && workers.failure().is_none());
        // It makes a round and hangs again.
        end.send(()).unwrap();
        while workers.snapshots()[0].0.empty_iterations == 0 {
            std::thread::sleep(CHECK_EVERY);
        }
        assert_eq!(workers.poll(second(5)), [(0, Change::GoesOn)]);
        let ending = workers.drain(Duration::ZERO);
        assert_eq!((ending.left_behind, ending.hangs), (true, Some(0)));
        drop(end);
    }
}

//! The worker loop: receive, graph, transmit.
//!
//! A worker owns one queue of every port. [`Worker::step`] is one iteration at a given time.
//! [`Worker::run`] repeats it until told to end, and decides when to block. A worker that blocks
//! misses no wake-up: it asks every port for pending frames *after* it has refilled the fill rings,
//! and it then blocks on a level-triggered condition ([`Waiter`]).

use crate::batch_watch::BatchWatch;
use crate::counters::WorkerCounters;
use crate::feature::{Feature, Plan};
use crate::forwarding::RouteReader;
use crate::frame::{BATCH_MAX, Frame, FramePool};
use crate::graph::{Context, Graph, GraphError};
use crate::nodes::{RouterParts, router};
use crate::port::{PortQueue, Waiter};
use crate::spin::Spin;
use crate::tap::slots::TapSlots;
use quanta::Clock;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;
use wattline_units::{Span, Time};

/// Longest interval between two ticks of the nodes.
const TICK: Span = Span::from_millis(1);
/// Longest time that a worker blocks, so that it notices commands and timeouts.
const LONGEST_SLEEP: Duration = Duration::from_millis(100);
/// Longest time that a worker blocks while it holds packets for a neighbour.
const SLEEP_WHILE_HOLDING: Duration = Duration::from_millis(1);
/// Number of processor pauses between two polls in [`Mode::Pause`]. Intel's optimization manual
/// states 43 cycles each up to Broadwell and 140 from Skylake on, so a poll comes a few hundred
/// cycles late.
const PAUSES: u32 = 4;
/// Number of iterations without a frame after which a draining worker ends.
const DRAINED: u32 = 3;

/// Command for a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Command {
    /// Forward; idle as the mode says.
    Run = 0,
    /// Block whenever there is no frame, whatever the mode, because no traffic is directed to this
    /// worker. Frames that arrive nevertheless are forwarded.
    Park = 1,
    /// Forward the frames that are there, then end once they are sent.
    Drain = 2,
    /// End after the current iteration.
    Stop = 3,
}

/// Behaviour of a worker when there are no frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Mode {
    /// Poll again at once, always.
    Poll = 0,
    /// Block at once.
    Interrupt = 1,
    /// Poll for a while, then block. The duration adapts to the arrivals and is at most that of
    /// [`Control::set_spin`].
    Adaptive = 2,
    /// Poll again after some pauses of the processor.
    Pause = 3,
    /// Sleep for the time of [`Control::set_nap`], regardless of arriving frames, then poll again.
    Nap = 4,
}

/// Control of a worker by other threads. Changes take effect at its next iteration. To reach a
/// blocked worker, the owner of its [`Waiter`]'s wake-up has to trigger it.
#[derive(Debug)]
pub struct Control {
    command: AtomicU8,
    mode: AtomicU8,
    batch: AtomicU32,
    spin_micros: AtomicU32,
    nap_nanos: AtomicU32,
    ports: AtomicUsize,
}

impl Default for Control {
    fn default() -> Self {
        Self {
            command: AtomicU8::new(Command::Run as u8),
            mode: AtomicU8::new(Mode::Adaptive as u8),
            batch: AtomicU32::new(BATCH_MAX as u32),
            spin_micros: AtomicU32::new(20),
            nap_nanos: AtomicU32::new(0),
            ports: AtomicUsize::new(usize::MAX),
        }
    }
}

impl Control {
    /// Gives a command.
    pub fn command(&self, command: Command) {
        self.command.store(command as u8, Ordering::Release);
    }
    /// Sets the mode.
    pub fn set_mode(&self, mode: Mode) {
        self.mode.store(mode as u8, Ordering::Relaxed);
    }
    /// Sets the largest batch, clamped to 1..=[`BATCH_MAX`].
    pub fn set_batch(&self, batch: usize) {
        self.batch.store(batch.clamp(1, BATCH_MAX) as u32, Ordering::Relaxed);
    }
    /// Sets the longest time in microseconds that an adaptive worker polls before it blocks.
    pub fn set_spin(&self, micros: u32) {
        self.spin_micros.store(micros, Ordering::Relaxed);
    }
    /// Sets the time that a worker sleeps in [`Mode::Nap`], limited to 100 ms so that it notices
    /// commands.
    pub fn set_nap(&self, time: Duration) {
        let nanos = time.min(LONGEST_SLEEP).as_nanos();
        self.nap_nanos.store(u32::try_from(nanos).unwrap_or(u32::MAX), Ordering::Relaxed);
    }
    /// Sets how many ports the worker serves, counted from the first. The others are reserved for
    /// ports that are added later, and cost nothing until then. The default is all.
    pub fn set_ports(&self, ports: usize) {
        self.ports.store(ports, Ordering::Release);
    }
    /// Returns the command in force.
    pub fn current_command(&self) -> Command {
        match self.command.load(Ordering::Acquire) {
            0 => Command::Run,
            1 => Command::Park,
            2 => Command::Drain,
            _ => Command::Stop,
        }
    }
    fn mode(&self) -> Mode {
        match self.mode.load(Ordering::Relaxed) {
            0 => Mode::Poll,
            1 => Mode::Interrupt,
            3 => Mode::Pause,
            4 => Mode::Nap,
            _ => Mode::Adaptive,
        }
    }
}

/// Parts of a worker.
pub struct WorkerParts {
    /// One queue of every port, in the order of port numbers.
    pub ports: Vec<Box<dyn PortQueue>>,
    /// Frame memory, shared with the ports.
    pub pool: FramePool,
    /// Reader of the published tables ([`crate::routes::Routes::reader`]).
    pub routes: RouteReader,
    /// Resources of the nodes.
    pub router: RouterParts,
}

/// A worker: ports, frames and a graph, used by one thread.
pub struct Worker {
    ports: Vec<Box<dyn PortQueue>>,
    graph: Graph,
    context: Context,
    control: Arc<Control>,
    clock: Clock,
    next_tick: Time,
    generation: u64,
    batch_watch: Option<Box<dyn BatchWatch>>,
}

impl Worker {
    /// Makes a worker with the nodes of an IP router.
    ///
    /// # Errors
    /// Fails when the nodes form no graph, which would be a defect of this crate.
    pub fn new(parts: WorkerParts) -> Result<Self, Vec<GraphError>> {
        Self::with_features(parts, Vec::new())
    }

    /// Makes a worker with the nodes of an IP router and of applications.
    ///
    /// # Errors
    /// Fails when the nodes of an application do not fit the router's.
    pub fn with_features(
        parts: WorkerParts,
        features: Vec<Feature>,
    ) -> Result<Self, Vec<GraphError>> {
        let plan = Plan::new(router(parts.router)).with(features);
        let graph = Graph::new(plan, parts.pool.chunks())?;
        let counters = Arc::new(WorkerCounters::new(graph.names(), parts.ports.len()));
        Ok(Self {
            context: Context::new(parts.pool, parts.routes, counters, parts.ports.len()),
            ports: parts.ports,
            graph,
            control: Arc::default(),
            clock: Clock::new(),
            next_tick: Time::ZERO,
            generation: 0,
            batch_watch: None,
        })
    }

    /// Returns the counters of the worker, which any thread may read at any time.
    pub fn counters(&self) -> Arc<WorkerCounters> {
        self.context.counters.clone()
    }

    /// Returns the control of the worker, for other threads.
    pub fn control(&self) -> Arc<Control> {
        self.control.clone()
    }

    /// Sets the observer of all further batches.
    pub fn set_batch_watch(&mut self, watch: Box<dyn BatchWatch>) {
        self.batch_watch = Some(watch);
    }

    /// Returns the slots in which other threads leave captures and traces for the worker.
    pub fn tap_slots(&self) -> TapSlots {
        self.context.taps.slots()
    }

    /// Returns the graph of the worker, for inspection.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// Returns the frame memory, between iterations; for benchmarks that write frames in place.
    pub fn pool(&mut self) -> &mut FramePool {
        &mut self.context.pool
    }

    /// Returns ports and frame memory, between iterations; for callers of [`Self::step_with`] that
    /// inspect the ports first.
    pub fn ports(&mut self) -> (&mut [Box<dyn PortQueue>], &mut FramePool) {
        let served = self.served();
        (&mut self.ports[..served], &mut self.context.pool)
    }

    /// Returns the number of ports that are served ([`Control::set_ports`]).
    fn served(&self) -> usize {
        self.control.ports.load(Ordering::Acquire).min(self.ports.len())
    }

    /// Returns the number of chunks that are neither in a ring nor held.
    pub fn free_chunks(&self) -> usize {
        self.context.pool.free_chunks()
    }

    /// Returns true once no port can ever receive a frame again.
    pub fn is_exhausted(&self) -> bool {
        self.ports[..self.served()].iter().all(|port| port.exhausted())
    }

    fn unsent(&mut self) -> usize {
        let served = self.served();
        self.ports[..served].iter_mut().map(|port| port.unsent()).sum()
    }

    /// Runs one iteration: receives at most one batch from every port, forwards and transmits it.
    /// Returns the number of received frames.
    pub fn step(&mut self, now: Time) -> usize {
        let batch = self.control.batch.load(Ordering::Relaxed) as usize;
        self.step_with(now, |_, port, pool, frames| port.receive(pool, &mut frames[..batch]))
    }

    /// Runs one iteration in which the caller chooses the frames. `take` is called for each port in
    /// turn with its number, puts at most one batch into the frames that it gets, and returns their
    /// number.
    pub fn step_with(
        &mut self,
        now: Time,
        mut take: impl FnMut(usize, &mut dyn PortQueue, &mut FramePool, &mut [Frame]) -> usize,
    ) -> usize {
        let began = self.clock.raw();
        let served = self.served();
        self.context.routes.slot.quiescent();
        self.context.now = now;
        self.context.taps.update();
        let mut frames = [Frame::default(); BATCH_MAX];
        let mut received = 0;
        for (number, port) in self.ports[..served].iter_mut().enumerate() {
            let count = take(number, &mut **port, &mut self.context.pool, &mut frames);
            if count > 0 {
                if let Some(watch) = &mut self.batch_watch {
                    watch.batch(now, number, &**port, count);
                }
                received += count;
                self.context.counters.totals.received.add(count as u64);
                if self.context.taps.are_on() {
                    let Context { taps, pool, .. } = &mut self.context;
                    taps.note_time(now);
                    taps.received(&frames[..count], pool.memory());
                }
                self.graph.enter(&frames[..count]);
                self.graph.run(&mut self.context);
            }
        }
        if received == 0
            && let Some(watch) = &mut self.batch_watch
        {
            watch.empty_pass(now);
        }
        let ticked = self.tick(now);
        self.transmit();
        if self.context.taps.are_on() {
            self.context.taps.end_round();
        }
        for port in &mut self.ports[..served] {
            port.recycle(&mut self.context.pool);
        }
        if received > 0 || ticked {
            self.publish_ports(received > 0);
        }
        self.account(received, began);
        received
    }

    /// Runs the tick of the nodes; false if it is not due yet.
    fn tick(&mut self, now: Time) -> bool {
        let generation = self.context.routes.generation();
        if now < self.next_tick && generation == self.generation {
            return false;
        }
        self.generation = generation;
        self.next_tick = now + TICK;
        if self.context.taps.are_on() {
            self.context.taps.note_time(now);
        }
        self.graph.tick(&mut self.context);
        self.graph.run(&mut self.context);
        true
    }

    fn transmit(&mut self) {
        let Context { transmit, pool, counters, taps, .. } = &mut self.context;
        for (number, (queue, port)) in transmit.iter_mut().zip(&mut self.ports).enumerate() {
            if queue.is_empty() {
                continue;
            }
            let watched = taps.are_on();
            if watched {
                // Before they are sent: afterwards their chunks belong to the port.
                taps.sending(number, queue, pool.memory());
            }
            let taken = port.transmit(pool, queue).min(queue.len());
            if watched {
                taps.sent(number, queue, taken, port.refuses() as u8);
            }
            port.flush(pool);
            counters.totals.forwarded.add(taken as u64);
            let rest = &queue[taken..];
            if !rest.is_empty() {
                counters.dropped(port.refuses(), rest.len() as u64);
                for frame in rest {
                    pool.free(frame.offset);
                }
            }
            queue.clear();
        }
    }

    fn account(&mut self, received: usize, began: u64) {
        let totals = &self.context.counters.totals;
        let cycles = self.clock.raw().wrapping_sub(began);
        if received > 0 {
            totals.useful_iterations.add(1);
            totals.useful_cycles.add(cycles);
        } else {
            totals.empty_iterations.add(1);
            totals.empty_cycles.add(cycles);
        }
    }

    /// Publishes the counters of the ports and the pool, even without a batch: held packets may have
    /// left, and a port that only loses frames yields no batch. The backlog is reported only with a
    /// batch.
    fn publish_ports(&self, batch: bool) {
        self.context.counters.totals.frees_refused.set(self.context.pool.refused());
        for (number, port) in self.ports[..self.served()].iter().enumerate() {
            let (totals, counters) = (self.context.counters.port(number), port.counters());
            totals.set(&counters);
            if batch {
                totals.set_waiting(counters.waiting);
            }
        }
    }

    /// Repeats [`Self::step`] until told to end or until no port can receive a frame again; then
    /// frees all held packets. `waiter` blocks the worker when its mode says so.
    pub fn run(&mut self, waiter: &mut dyn Waiter) {
        let start = self.clock.now();
        let mut empty = 0u32;
        let mut last_work = Time::ZERO;
        let mut spin = Spin::default();
        let mut blocked = false;
        loop {
            let now = Time::ZERO + Span::from(self.clock.now().duration_since(start));
            let received = self.step(now);
            let longest = self.longest_spin();
            if received > 0 {
                if std::mem::take(&mut blocked) {
                    spin.woken_after(now.since(last_work), longest);
                }
                empty = 0;
                last_work = now;
            } else {
                empty = empty.saturating_add(1);
            }
            let command = self.control.current_command();
            let drained = empty >= DRAINED
                && (command == Command::Drain && self.unsent() == 0 || self.is_exhausted());
            if command == Command::Stop || drained {
                break;
            }
            let is_over = spin.is_over(now.since(last_work), longest);
            if received == 0 && command != Command::Drain {
                if self.may_block(command, is_over) {
                    blocked = self.block(waiter);
                } else {
                    self.pause(waiter);
                }
            }
        }
        self.shut_down();
    }

    fn longest_spin(&self) -> Span {
        Span::from_micros(u64::from(self.control.spin_micros.load(Ordering::Relaxed)))
    }

    fn may_block(&self, command: Command, has_spun: bool) -> bool {
        match self.control.mode() {
            _ if command == Command::Park => true,
            Mode::Poll | Mode::Pause | Mode::Nap => false,
            Mode::Interrupt => true,
            Mode::Adaptive => has_spun,
        }
    }

    /// Waits between two polls, if the mode has a time for it.
    fn pause(&mut self, waiter: &mut dyn Waiter) {
        match self.control.mode() {
            Mode::Poll | Mode::Interrupt | Mode::Adaptive => {}
            Mode::Pause => (0..PAUSES).for_each(|_| std::hint::spin_loop()),
            Mode::Nap => {
                let nanos = self.control.nap_nanos.load(Ordering::Relaxed);
                self.rest(|longest| {
                    waiter.nap(Duration::from_nanos(u64::from(nanos)).min(longest));
                });
            }
        }
    }

    /// Blocks unless a port has pending frames; true if it blocked.
    fn block(&mut self, waiter: &mut dyn Waiter) -> bool {
        // `step` has just refilled the fill rings, so a frame that arrives from now on makes a
        // descriptor readable, and a frame that arrived before is pending.
        let served = self.served();
        if self.ports[..served].iter_mut().any(|port| port.pending() > 0) {
            return false;
        }
        self.sleep(waiter, LONGEST_SLEEP);
        true
    }

    /// Blocks for at most `longest`, or less while packets are held for a neighbour. The control
    /// plane does not wait for a blocked worker.
    pub fn sleep(&mut self, waiter: &mut dyn Waiter, longest: Duration) {
        self.rest(|most| waiter.wait(longest.min(most)));
    }

    /// Calls `sleep` with its longest duration. Meanwhile the worker holds no reference to routes.
    fn rest(&mut self, sleep: impl FnOnce(Duration)) {
        let totals = &self.context.counters.totals;
        totals.sleeps.add(1);
        let holding = totals.held.get() > 0;
        self.context.routes.slot.offline();
        let began = self.clock.raw();
        sleep(if holding { SLEEP_WHILE_HOLDING } else { Duration::MAX });
        let slept = self.clock.raw().wrapping_sub(began);
        self.context.counters.totals.sleeping_cycles.add(slept);
        self.context.routes.slot.online();
    }

    /// Frees all packets that nodes hold; they count as dropped (`shutdown`).
    pub fn shut_down(&mut self) {
        self.graph.shut_down(&mut self.context);
        self.publish_ports(true);
    }
}

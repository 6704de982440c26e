//! The platform `scale`: real packets through the real data plane, whose workers behave like the
//! cores of a server model, slowed down so that this machine can emulate them all.
//!
//! At a dilation of 500 every time of the model lasts 500 times as long and every rate is 500 times
//! lower. All figures are in model time. Power is that of the model for the states that the cores
//! really passed through: emulated, never measured.
//!
//! - [`clock`]: model time; [`pacer`]: a worker as a core of the model;
//! - [`card`]: a card in memory with an indirection table, for routers without interfaces;
//! - [`steered`]: the tables of virtual cards, for routers with interfaces;
//! - `order`: flows stay in order when tables are rewritten;
//! - `machine`: turns steps of a governor into orders to cores; `mailbox`: delivers them;
//!   `disturbance`: lag of threads behind the model;
//! - `energy_account`: energy from states.
//!
//! A policy is called in the thread of the core that met the event it asked for, under a lock,
//! since that core continues only with the answer; a separate thread handles timers.
//! `docs/explanation/closed-loop.md` lists what is emulated and what is not.
//!
//! Used by `wattline run` on platform `scale` and by the demonstration.
#![forbid(unsafe_code)]

pub mod card;
pub mod clock;
mod disturbance;
mod emulation;
mod energy_account;
mod error;
mod frame_queue;
mod handover;
mod machine;
mod mailbox;
mod order;
pub mod pacer;
mod record;
mod redirect;
pub mod rss;
pub mod steered;
mod transit;

pub use card::FCS_BYTES;
pub use disturbance::Disturbance;
pub use emulation::Emulation;
pub use error::ScaleError;
pub use machine::ScaleMachine;
pub use order::{Holds, Order};
pub use record::Record;
pub use redirect::Redirect;

use clock::ModelClock;
use energy_account::EnergyAccount;
use mailbox::{Mailbox, Order as CoreOrder};
use pacer::Pacer;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use wattline_cores::{CoreMake, ModelError, Sink, platform_part};
use wattline_dataplane::port::Waiter;
use wattline_governor::Governor;
use wattline_governor::account::{LoopTotals, MachineTotals, Totals};
use wattline_governor::lease::Asked;
use wattline_policy::Latency;
use wattline_policy::{BuildContext, OperatingPoint, Platform, Policy, PolicySpec, Trigger, build};
use wattline_ports::waiter::{PollWaiter, Waker};
use wattline_server::{Application, ServerModel};
use wattline_status::HeldPoint;
use wattline_units::Time;

/// Longest sleep of the timer thread.
const LONGEST_WAIT: Duration = Duration::from_millis(100);
/// Time within which cores must report, or the run is aborted.
const PATIENCE: Duration = Duration::from_secs(20);

/// Setting of an emulation.
#[derive(Debug, Clone)]
pub struct Setting {
    /// The server.
    pub server: ServerModel,
    /// Application that processes each packet in the model.
    pub application: Application,
    /// The governor.
    pub policy: PolicySpec,
    /// Mean length of a packet in bytes, for policies that use the model.
    pub mean_bytes: u32,
    /// Dilation factor, at least 1.
    pub dilation: u32,
    /// Seed of policy and service times.
    pub seed: u64,
}

/// The emulation and its governor.
struct Shared {
    emulation: Arc<Emulation>,
    governor: Mutex<Governor<ScaleMachine>>,
    /// Wakes the timer thread, which waits for `timer_due`.
    timer: Waker,
    timer_due: AtomicU64,
    stopping: AtomicBool,
}

impl Deref for Shared {
    type Target = Emulation;
    fn deref(&self) -> &Emulation {
        &self.emulation
    }
}

impl Shared {
    fn governor(&self) -> MutexGuard<'_, Governor<ScaleMachine>> {
        self.governor.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls the policy, from the thread of a core or of timers.
    fn trigger(&self, at: Time, trigger: Trigger, from: Option<usize>) {
        let mut governor = self.governor();
        if !governor.trigger(at, trigger) {
            return;
        }
        self.publish_triggers(&governor, from);
    }

    /// Performs a deferred rewrite of tables, now that the previous one is over.
    fn resume(&self) {
        self.governor().machine().resume();
    }

    /// Publishes the events for the policy's next call to the cores and the timer thread.
    fn publish_triggers(&self, governor: &Governor<ScaleMachine>, from: Option<usize>) {
        let ask = governor.ask();
        for (core, mailbox) in self.mailboxes.iter().enumerate() {
            if mailbox.watch(core, &ask) && from != Some(core) {
                mailbox.wake();
            }
        }
        let due = ask.at.as_picos();
        let before = self.timer_due.swap(due, Ordering::AcqRel);
        if due < before {
            self.timer.wake();
        }
    }

    /// Calls the policy whenever its time has come, until the emulation ends.
    fn keep_time(&self, waiter: &mut PollWaiter) {
        while !self.stopping.load(Ordering::Acquire) {
            let due = Time::from_picos(self.timer_due.load(Ordering::Acquire));
            let wait = self.clock.until(due).min(LONGEST_WAIT);
            if wait.is_zero() {
                self.trigger(due, Trigger::Timer, None);
            } else {
                waiter.wait(wait);
            }
        }
    }
}

/// An emulated server with its governor; the threads that run the [`Pacer`]s are its workers.
pub struct Scale {
    shared: Arc<Shared>,
    /// Lock for closing an account; holds the number of the last one.
    closing: Mutex<u64>,
    timer: Option<JoinHandle<()>>,
    timer_waiter: Option<PollWaiter>,
}

impl Scale {
    /// Creates a stopped emulation, and a pacer for each waker, which wakes the thread that runs
    /// the pacer. Without a writer of indirection tables, all cores stay active.
    ///
    /// # Errors
    /// Fails if the policy cannot be built for the server or the setting contradicts itself.
    pub fn new(
        setting: &Setting,
        ports: usize,
        wakers: Vec<Waker>,
        redirect: Option<Box<dyn Redirect>>,
    ) -> Result<(Self, Vec<Pacer>), ScaleError> {
        Self::new_with(setting, ports, wakers, redirect, |context| {
            Ok(build(&setting.policy, context).map_err(ModelError::from)?)
        })
    }

    /// Like [`Self::new`], with the caller's policy instead of the setting's; it need not be in the
    /// registry.
    ///
    /// # Errors
    /// As [`Self::new`], and those of `make_policy`.
    pub fn new_with(
        setting: &Setting,
        ports: usize,
        wakers: Vec<Waker>,
        redirect: Option<Box<dyn Redirect>>,
        make_policy: impl FnOnce(&BuildContext<'_>) -> Result<Box<dyn Policy>, ScaleError>,
    ) -> Result<(Self, Vec<Pacer>), ScaleError> {
        let server = setting.server.clone();
        let platform = platform_part(&server, ports, wakers.len());
        platform.check().map_err(ModelError::from)?;
        if platform.cores != wakers.len() {
            let (most, workers) = (platform.cores, wakers.len());
            return Err(ScaleError::Workers { server: server.name, most, workers });
        }
        let make = CoreMake::new(&setting.server, setting.application, setting.seed)?;
        let point = OperatingPoint::full(&platform);
        let by_active = |frequency| (1..=platform.cores).map(move |n| (frequency, n));
        let costs = (0..platform.frequencies.len())
            .map(|frequency| by_active(frequency).map(|(f, n)| make.costs(f, n)).collect())
            .collect();
        let cores = (0..platform.cores)
            .map(|core| {
                let sink = Sink::new(platform.cores, server.nic.pass_through.as_picos());
                Ok((make.core(core, &point, &platform), sink))
            })
            .collect::<Result<Vec<_>, ScaleError>>()?;
        let emulation = Arc::new(Emulation {
            clock: ModelClock::new(setting.dilation),
            costs,
            transition: server.processor.frequency_transition,
            mailboxes: wakers.into_iter().map(|waker| Mailbox::new(waker, ports)).collect(),
            energy_account: Mutex::new(EnergyAccount::new(platform.cores, platform.fastest())),
            reported: Condvar::new(),
            order: redirect.as_ref().map(|redirect| redirect.order()),
            platform,
            server,
        });
        let machine = ScaleMachine::new(Arc::clone(&emulation), redirect);
        let server = &setting.server;
        let packet = server.packet_cost(setting.application, setting.mean_bytes);
        let context = BuildContext {
            platform: wattline_governor::machine::Machine::platform(&machine),
            server: Some(server),
            packet: packet.map(|cost| (cost, setting.mean_bytes)),
            seed: setting.seed,
        };
        let policy = make_policy(&context)?;
        let looks = policy.looks_at();
        let waiter = PollWaiter::new([]).map_err(|errno| ScaleError::System(errno.into()))?;
        let shared = Arc::new(Shared {
            emulation,
            governor: Mutex::new(Governor::new(machine, policy)),
            timer: waiter.waker(),
            timer_due: AtomicU64::new(u64::MAX),
            stopping: AtomicBool::new(false),
        });
        let pacers = cores
            .into_iter()
            .map(|(core, mut sink)| {
                sink.asked = looks.latency.then(|| Latency::with_bound(looks.late_after));
                Pacer::new(Arc::clone(&shared), core, sink)
            })
            .collect();
        let closing = Mutex::new(0);
        Ok((Self { shared, closing, timer: None, timer_waiter: Some(waiter) }, pacers))
    }

    /// Asks for the first operating point and starts time.
    ///
    /// # Errors
    /// Fails if no thread can be started.
    pub fn start(&mut self) -> Result<(), ScaleError> {
        let Some(mut waiter) = self.timer_waiter.take() else { return Ok(()) };
        {
            let mut governor = self.shared.governor();
            governor.start(Time::ZERO);
            self.shared.publish_triggers(&governor, None);
        }
        let shared = Arc::clone(&self.shared);
        let thread = std::thread::Builder::new().name("governor".to_owned());
        let timer =
            thread.spawn(move || shared.keep_time(&mut waiter)).map_err(ScaleError::System)?;
        self.timer = Some(timer);
        self.shared.clock.start();
        self.shared.mailboxes.iter().for_each(Mailbox::wake);
        Ok(())
    }

    /// Returns true if the timer thread has panicked: the policy is no longer called.
    pub fn has_failed(&self) -> bool {
        self.timer.as_ref().is_some_and(JoinHandle::is_finished)
    }

    /// Returns the clock of the model.
    pub fn clock(&self) -> &ModelClock {
        &self.shared.emulation.clock
    }

    /// Returns the description of the machine for the policy.
    pub fn platform(&self) -> Platform {
        self.shared.governor().platform().clone()
    }

    /// Waits until a model time and returns all counts up to then, with the latencies since the
    /// last call. Call it ahead of that time: a later call yields slightly late figures.
    ///
    /// # Errors
    /// Fails if a worker does not answer: it has ended, or the machine is overloaded.
    pub fn totals_at(&self, at: Time) -> Result<(Totals, Option<Latency>), ScaleError> {
        self.close(at, PATIENCE)
    }

    /// Returns all counts up to now, and the latencies since the last call. A concurrent
    /// [`Self::record`] misses those.
    ///
    /// # Errors
    /// Fails if a worker does not answer within `patience`.
    pub fn totals_now(&self, patience: Duration) -> Result<(Totals, Option<Latency>), ScaleError> {
        self.close(self.shared.clock.now(), patience)
    }

    fn close(&self, at: Time, patience: Duration) -> Result<(Totals, Option<Latency>), ScaleError> {
        let shared = &self.shared;
        if at == Time::ZERO {
            let energy = shared.initial_energy();
            let machine = MachineTotals { energy, ..MachineTotals::default() };
            return Ok((Totals { at, own: LoopTotals::default(), machine }, None));
        }
        let mut number = self.closing.lock().unwrap_or_else(PoisonError::into_inner);
        *number += 1;
        let at = at.max(shared.clock.now());
        for mailbox in &shared.mailboxes {
            mailbox.give(at, CoreOrder::Report { number: *number });
            mailbox.wake();
        }
        while !shared.clock.until(at).is_zero() {
            std::thread::sleep(shared.clock.until(at).min(LONGEST_WAIT));
        }
        let (own, entries_moved) = {
            let mut governor = shared.governor();
            let moved = wattline_governor::machine::Machine::entries_moved(governor.machine());
            (governor.loop_totals(at), moved)
        };
        let began = Instant::now();
        let mut energy_account = shared.energy_account();
        while !energy_account.complete(*number) {
            if began.elapsed() > patience {
                return Err(ScaleError::Silent);
            }
            // The reports of ended workers are taken here; a worker may end at any time.
            for (core, mailbox) in shared.mailboxes.iter().enumerate() {
                if !energy_account.has(core, *number)
                    && let Some(report) = mailbox.report_retired(at, *number)
                {
                    energy_account.take(report);
                }
            }
            let wait = LONGEST_WAIT.min(patience);
            let woken =
                shared.reported.wait_timeout_while(energy_account, wait, |energy_account| {
                    !energy_account.complete(*number)
                });
            energy_account = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
        let (mut machine, latency) = energy_account.close(at.as_picos(), &shared.server);
        machine.entries_moved = entries_moved;
        Ok((Totals { at, own, machine }, latency))
    }

    /// Gives access to the governor: the state of the cores, and the outcome of the steps that led
    /// there.
    pub fn look<R>(&self, look: impl FnOnce(&mut Governor<ScaleMachine>) -> R) -> R {
        look(&mut self.shared.governor())
    }

    /// Makes a client hold an operating point, or ends that. A lease is in real time.
    ///
    /// # Errors
    /// As [`Governor::lease`].
    pub fn lease(&self, asked: &Asked) -> Result<Option<HeldPoint>, String> {
        let (now, dilation) = (self.clock().now(), self.clock().dilation());
        let mut governor = self.shared.governor();
        let held = governor.lease(now, &asked.slowed(dilation))?;
        self.shared.publish_triggers(&governor, None);
        Ok(held)
    }

    /// Returns the counts of the loop so far.
    pub fn loop_totals(&self) -> LoopTotals {
        let now = self.shared.clock.now();
        self.shared.governor().loop_totals(now)
    }

    /// Returns the frames held back so far to keep flows in order; nothing if no table is written.
    pub fn holds(&self) -> Holds {
        let order = self.shared.emulation.order.as_ref();
        order.map_or(Holds::default(), |order| order.holds(self.clock().dilation()))
    }

    /// Returns the lag of threads behind the model so far.
    pub fn disturbance(&self) -> Disturbance {
        disturbance::sum_of(self.shared.mailboxes.iter().map(|mailbox| &mailbox.lateness))
    }
}

impl Drop for Scale {
    fn drop(&mut self) {
        self.shared.stopping.store(true, Ordering::Release);
        self.shared.timer.wake();
        if let Some(timer) = self.timer.take()
            && timer.join().is_err()
        {
            tracing::error!("the governor has panicked, which is a defect of Wattline");
        }
    }
}

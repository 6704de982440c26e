//! The platform `host`: this Linux machine's own knobs.
//!
//! The cores of a policy are the router's workers and the CPUs that they are pinned to. Its queues
//! are the cards' queues, merged by the worker that serves them. Every write goes through one
//! journaled session ([`wattline_knobs`]), so exit, signal, crash and reboot all lead back. Changes
//! by others and vanished hardware are reported, and the loop goes on
//! (docs/explanation/closed-loop-host.md).
//!
//! [`HostOptions`] list the CPUs, queues and interfaces that may be touched; a program that governs
//! a machine makes them from its own configuration. [`take_over`] and [`give_back`] begin and end
//! the governing of a machine; [`plan`] lists the writes without making them.
#![forbid(unsafe_code)]
// A daemon writes to its log: printing blocks on a stalled reader and panics without one.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

mod access;
mod affinity;
mod beside_xdp;
mod core_time;
mod energy;
mod envelope;
mod frequency;
mod freshness;
mod given_back;
mod hardware;
mod idle;
mod kernel_stack;
mod kernel_time;
mod layout;
mod moderation;
mod notices;
mod options;
mod pace;
mod plan;
mod polling;
mod redirect;
mod scope;
mod senses;
mod status;
mod steered;
mod survey;
mod take_over;
mod uncore;
mod watch;
mod watchdog;
mod workers;
mod writes;

pub use beside_xdp::{BesideXdp, Forwarded};
pub use envelope::Preference;
pub use given_back::is_given_back;
pub use kernel_stack::KernelStack;
pub use kernel_stack::polls::Polls;
pub use kernel_time::KernelShare;
pub use layout::{Layout, Port};
pub use options::HostOptions;
pub use plan::{Course, LaterWrite, PlanError, PowerPlan, plan, plan_with};
pub use scope::Scope;
pub use status::{Status, Stuck};
pub use take_over::{
    Ending, OWN_PROGRAM, Supervision, TakeOverError, ThisMachine, give_back, hand_back, take_over,
    take_over_by,
};
pub use watchdog::{COMMAND as GUARD_COMMAND, Watchdog, guard, outlive};
pub use workers::{NoWorkers, Streak, Work, Workers};
pub use writes::Kept;

use core_time::Core;
use energy::{EnergyMeter, MeanPower};
use freshness::Freshness;
use notices::Notices;
use polling::Polling;
use senses::Senses;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::Thread;
use std::time::Instant;
use survey::Survey;
use watch::Watch;
use wattline_governor::energy::Energy;
use wattline_governor::latency::LatencyFeed;
use wattline_governor::machine::{Machine, Notice, Taken, View};
use wattline_governor::pace::Pace;
use wattline_governor::step::{self, Step};
use wattline_knobs::{Change, Knobs};
use wattline_linux::sysfs::Tree;
use wattline_policy::{
    AskAgain, CoreSet, OperatingPoint, Platform, PlatformError, Sees, Timing, Wait,
};
use wattline_units::{Span, Time};
use writes::{Ceiling, Writes};

/// Number of troubles kept for statistics; all are logged.
const MOST_TROUBLES: usize = 100;

/// This machine.
pub struct Host<K> {
    tree: Tree,
    layout: Layout,
    platform: Platform,
    survey: Survey,
    polling: Polling,
    writes: Writes<K>,
    workers: Box<dyn Workers>,
    notices: Notices,
    active: CoreSet,
    /// Weights of cores in the indirection tables, from the next rewriting on.
    weights: Vec<u8>,
    began: Instant,
    /// By number of the core.
    cores: Vec<Core>,
    /// By number of the queue.
    queues: Vec<Freshness>,
    /// By number of the queue: backlog at the last look.
    waiting: Vec<u32>,
    /// Sum of the backlogs of queues that lost entries, over all changes of indirection tables.
    waited_at_moves: u64,
    looked: Time,
    meter: EnergyMeter,
    power: MeanPower,
    senses: Senses,
    latency: Option<Box<dyn LatencyFeed>>,
    watch: Watch,
    status: Arc<Mutex<Status>>,
    /// Number of kept values that were logged.
    kept_logged: usize,
}

impl<K: Knobs> Host<K> {
    /// Surveys the machine; writes nothing yet.
    ///
    /// # Errors
    /// When there is no worker, or more than a policy can handle.
    pub fn new(
        options: HostOptions,
        knobs: K,
        mut workers: Box<dyn Workers>,
    ) -> Result<Self, PlatformError> {
        let mut survey = Survey::find(&options, &knobs);
        let HostOptions { tree, layout, ring_size, busy_poll, sample, meters, scope, .. } = options;
        let ceiling = if options.may_raise { Ceiling::None } else { Ceiling::Found };
        let polling = Polling::find(&knobs, &layout, busy_poll, &mut survey.notes);
        let mut platform = survey.platform(&layout, ring_size, sample, scope);
        if scope.every_packet {
            platform.can.waits = workers.waits();
            platform.batch_max = workers.batch_max();
        }
        if platform.can.set_cores {
            workers.steer(survey.tables.steered());
        }
        if workers.count_streaks() {
            platform.can.asks.streaks = Timing::Exact;
        }
        platform.check()?;
        let senses = Senses::find(&tree, &layout, &platform.idle_states);
        let meter = if meters { EnergyMeter::start(&tree) } else { EnergyMeter::default() };
        platform.can.sees = Sees {
            power: meters && meter.is_there(),
            residency: senses.residency(),
            frequency: senses.frequency(),
            softirq: senses.softirq(),
            bytes: workers.count_bytes(),
            ..Sees::NOTHING
        };
        survey.notes.extend(workers.missing().filter(|_| platform.can.set_cores));
        let missing = survey.notes.clone();
        Ok(Self {
            watch: Watch::new(&tree, &knobs, &layout, scope.workers),
            active: CoreSet::first(platform.cores),
            notices: Notices::new(platform.cores),
            weights: vec![1; platform.cores],
            cores: vec![Core::default(); platform.cores],
            queues: vec![Freshness::default(); platform.queues.len()],
            waiting: vec![0; platform.queues.len()],
            waited_at_moves: 0,
            looked: Time::ZERO,
            meter,
            power: MeanPower::default(),
            senses,
            latency: None,
            kept_logged: 0,
            began: Instant::now(),
            status: Arc::new(Mutex::new(Status { missing, ..Status::default() })),
            writes: Writes::new(knobs, ceiling),
            tree,
            layout,
            platform,
            survey,
            polling,
            workers,
        })
    }

    /// Shows this latency to policies. To be called before a policy is made for the platform, which
    /// promises latency from then on.
    pub fn attach_latency(&mut self, feed: Box<dyn LatencyFeed>) {
        let sees = &mut self.platform.can.sees;
        (sees.latency, sees.late) = (true, feed.counts_late());
        self.latency = Some(feed);
    }

    /// Returns the status that is shared with other threads; updated about once a second.
    pub fn status(&self) -> Arc<Mutex<Status>> {
        self.status.clone()
    }

    /// Returns the knobs and drops the rest.
    pub fn into_knobs(self) -> K {
        self.writes.knobs
    }

    /// Returns the knobs.
    pub fn knobs(&self) -> &K {
        &self.writes.knobs
    }

    /// Brings the machine to an operating point from any state: settings by others may not be among
    /// a policy's choices. Failures are reported, and `point` is updated to the actual state, as
    /// far as it can be read.
    fn establish(&mut self, point: &mut OperatingPoint) {
        for step in step::establish(&self.platform, point) {
            let step = match self.settled(step) {
                ControlFlow::Continue(step) => step,
                ControlFlow::Break(held) => {
                    held.set(point);
                    continue;
                }
            };
            if matches!(step, Step::Frequency { .. }) {
                step.set(point);
            }
            match self.take(&step) {
                Taken::Done => continue,
                other => tracing::warn!("governor: {step:?} at the start: {other:?}"),
            }
            if let Some(held) = self.held(&step) {
                held.set(point);
            }
        }
    }

    /// Continues with the step to take in place of `step` at the start. Breaks with the machine's
    /// state if nothing is to be written: hardware and kernel then keep their preference.
    fn settled(&mut self, step: Step) -> ControlFlow<Step, Step> {
        if !self.survey.frequencies.preferences {
            return ControlFlow::Continue(step);
        }
        let Step::Frequency { core, .. } = step else {
            let held = matches!(step, Step::IdleLimit { .. }).then(|| self.held(&step)).flatten();
            return held.map_or(ControlFlow::Continue(step), ControlFlow::Break);
        };
        let Some(Step::Frequency { index, .. }) = self.held(&step) else {
            let index = Preference::BalancePerformance.index();
            return ControlFlow::Continue(Step::Frequency { core, index });
        };
        self.survey.frequencies.adopt(core, index);
        ControlFlow::Break(Step::Frequency { core, index })
    }

    fn settle(&mut self, core: usize) -> Taken {
        let cores = CoreSet::only(core);
        if !self.platform.can.set_frequency {
            return Taken::Done;
        }
        self.survey.frequencies.settle(cores, self.active, &mut self.writes)
    }

    fn wake(&mut self, core: usize) -> Taken {
        self.active.insert(core);
        // First the speed requested while it was parked.
        let taken = self.settle(core);
        self.workers.wake(core);
        taken
    }

    fn park(&mut self, core: usize) -> Taken {
        self.workers.park(core);
        self.active.remove(core);
        self.settle(core)
    }

    fn wait(&mut self, core: usize, wait: Wait) -> Taken {
        if let Err(why) = self.workers.set_wait(core, wait) {
            return Taken::Failed { why };
        }
        if let Some(core) = self.cores.get_mut(core) {
            core.wait = wait;
        }
        self.polling.set(core, wait, &mut self.writes)
    }

    fn redirect(&mut self, active: CoreSet) -> Taken {
        let Self { layout, survey, writes, platform, weights, .. } = self;
        let taken = survey.tables.send_to((active, weights), layout, writes);
        let lost = |port: usize, core: usize| survey.tables.lost_entries.contains(&(port, core));
        let queues = platform.queues.iter().zip(&self.waiting);
        let waited = queues.filter(|(queue, _)| lost(queue.port, queue.core));
        self.waited_at_moves += waited.map(|(_, fill)| u64::from(*fill)).sum::<u64>();
        taken
    }

    /// Sets again the values that another program or a restarted driver has put back; returns them
    /// in words.
    fn set_again(&mut self) -> Vec<String> {
        let say = |change: Change, taken: Taken| {
            let Change { setting, value, why } = change;
            match taken {
                Taken::Done | Taken::Slow { .. } => {
                    format!(
                        "{setting}: {why}, by another program or its driver; set to {value:?} again"
                    )
                }
                Taken::Altered { found } => {
                    format!("{setting}: {why}; asked for {value:?} again, it shows {found:?}")
                }
                Taken::Foreign { found } => {
                    format!(
                        "{setting}: {why}, then set to {found:?} by another program; it is left"
                    )
                }
                Taken::Failed { why: error } => {
                    format!("{setting}: {why}, and cannot be set to {value:?} again: {error}")
                }
            }
        };
        let changes = self.writes.knobs.put_back().into_iter();
        changes
            .map(|change| {
                let taken = self.writes.make(std::slice::from_ref(&change));
                say(change, taken)
            })
            .collect()
    }

    /// Reports the knobs that turned out not to be settable, and stops offering them.
    fn leave_out(&mut self) {
        let moderation = &mut self.survey.moderation;
        if moderation.refused.is_empty() {
            return;
        }
        self.platform.can.set_moderation &= moderation.can_set;
        let mut status = self.status.lock().unwrap_or_else(PoisonError::into_inner);
        for note in moderation.refused.drain(..) {
            tracing::warn!("governor: {note}");
            status.missing.push(note);
        }
    }

    /// Returns values that were kept because the requested ones would let the machine draw more
    /// power.
    pub fn kept(&self) -> impl Iterator<Item = &Kept> {
        self.writes.kept.iter()
    }

    fn publish(&mut self) {
        for kept in self.writes.kept.iter().skip(self.kept_logged) {
            tracing::info!("governor: {kept}");
        }
        self.kept_logged = self.writes.kept.len();
        let kernel = self.watch.kernel(&self.tree, &self.layout.cpus);
        let stuck = self.writes.knobs.stuck();
        let mut others = self.meter.troubles();
        others.extend(self.set_again());
        others.extend(self.survey.moderation.fix_again(&mut self.writes));
        let watched = (&self.writes.knobs, &self.layout);
        let troubles = self.watch.troubles(&self.tree, watched, &stuck, others);
        let mut status = self.status.lock().unwrap_or_else(PoisonError::into_inner);
        status.kernel = kernel;
        status.sensors = self.meter.sensors();
        status.waited_at_moves_packets = self.waited_at_moves;
        let stuck = stuck.into_iter().map(|(setting, since)| {
            let setting = setting.to_string();
            Stuck { setting, stuck_seconds: since.as_secs_f64() }
        });
        status.stuck = stuck.collect();
        for trouble in troubles {
            tracing::warn!("governor: {trouble}");
            status.troubles.push(trouble);
        }
        // Troubles that come and go all day must not fill the memory: keep the latest.
        let surplus = status.troubles.len().saturating_sub(MOST_TROUBLES);
        status.troubles.drain(..surplus);
        for ((knob, outcome), count) in &self.writes.counts {
            let outcomes = status.writes.entry((*knob).to_owned()).or_default();
            outcomes.insert((*outcome).to_owned(), *count);
        }
    }
}

impl<K: Knobs> Machine for Host<K> {
    fn platform(&self) -> &Platform {
        &self.platform
    }

    fn now(&self) -> Time {
        Time::ZERO + Span::from(self.began.elapsed())
    }

    /// Brings the machine to the operating point from which policies start.
    fn present(&mut self) -> OperatingPoint {
        self.survey.affinity.set(&mut self.writes);
        let mut point = OperatingPoint::full(&self.platform);
        self.establish(&mut point);
        point
    }

    fn energy(&mut self, _now: Time) -> Energy {
        self.meter.energy()
    }

    fn pace(&self) -> Pace {
        pace::pace(&self.tree)
    }

    fn writes(&self, step: &Step) -> u32 {
        pace::writes(step, self.survey.tables.count())
    }

    fn entries_moved(&self) -> u64 {
        self.survey.tables.moved
    }

    fn observe(&mut self, now: Time, view: &mut View) {
        self.workers.look(now);
        view.queues.clear();
        let known = self.queues.iter_mut().zip(&mut self.waiting);
        for (queue, (fresh, waiting)) in self.platform.queues.iter().zip(known) {
            let seen = fresh.show(now, self.workers.queue(queue.core, queue.port));
            *waiting = seen.fill;
            view.queues.push(seen);
        }
        let passed = now.since(self.looked);
        self.looked = now;
        view.cores.clear();
        for (number, core) in self.cores.iter_mut().enumerate() {
            let worked = core.account(self.workers.work(number), passed);
            let resting = !self.active.contains(number) && !worked;
            core.seen.idle_state = resting.then(|| self.platform.deepest());
            view.cores.push(core.seen);
        }
        let looks = view.looks;
        if looks.counters {
            self.senses.show(now, &mut view.cores);
        }
        view.latency = self.latency.as_mut().and_then(|feed| {
            feed.take_in(now);
            if looks.latency { feed.view(now, looks.late_after) } else { None }
        });
        // A meter found too late to be promised still gives energy.
        let seen = looks.power && self.platform.can.sees.power;
        view.power = if seen { self.power.look(&self.meter.energy()) } else { None };
        view.entries.clear();
        if self.watch.is_due(now) {
            self.publish();
        }
    }

    fn watch(&mut self, ask: &AskAgain) {
        self.notices.watch(ask.on_streak, &mut *self.workers);
    }

    fn wake_at_events(&mut self, thread: Thread) {
        self.workers.wake_at_streaks(&thread);
    }

    fn notice(&mut self, now: Time) -> Notice {
        self.notices.next(now, &self.platform, &mut *self.workers)
    }

    fn held(&mut self, step: &Step) -> Option<Step> {
        self.survey.held(step, &self.layout, &self.writes.knobs)
    }

    fn tables_differ(&self) -> bool {
        self.survey.tables.differ()
    }

    fn take(&mut self, step: &Step) -> Taken {
        let Self { layout, survey, writes, active, .. } = self;
        if let Some(taken) = survey.take(step, (layout, *active), writes) {
            self.leave_out();
            return taken;
        }
        match *step {
            Step::Weight { core, weight } => {
                self.weights.get_mut(core).into_iter().for_each(|old| *old = weight);
                Taken::Done
            }
            Step::Redirect { active } => self.redirect(active),
            Step::Wait { core, wait } => self.wait(core, wait),
            Step::Wake { core } => self.wake(core),
            Step::Park { core } => self.park(core),
            Step::Batch { packets } => {
                self.workers.set_batch(packets);
                Taken::Done
            }
            _ => Taken::Failed { why: format!("no knob of this machine takes {step:?}") },
        }
    }
}

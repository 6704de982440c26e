//! Streaks of the kernel's polls, by a BPF program.

use crate::layout::Layout;
use rustix::event::{EventfdFlags, epoll, eventfd};
use rustix::fd::{AsFd, OwnedFd};
use std::thread::Thread;
use wattline_linux::sysfs::Tree;
use wattline_napi::{Observer, Places, Unavailable};
use wattline_policy::{CoreSet, MAX_CORES, Streaks};
use wattline_units::{Span, Time};

/// Time between two searches for renumbered instances, as after an interface went down and up.
const PLACES: Span = Span::from_millis(4_000);

/// End of a streak of batches at the queues of a port that a worker serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Streak {
    /// Number of the port.
    pub port: usize,
    /// True if it was above the upper level.
    pub above: bool,
}

/// The kernel's polls. Observing them adds a little cost to each, so it starts on request.
pub struct Polls {
    tree: Tree,
    layout: Layout,
    state: State,
    looked: Time,
    /// Interfaces spread by RPS: the CPUs' backlogs are their queues.
    steered: Vec<String>,
    /// Thread to wake at ends of streaks.
    waking: Option<Thread>,
}

#[expect(clippy::large_enum_variant, reason = "there is one of it")]
enum State {
    /// This machine is not observed.
    Never,
    Unavailable(Unavailable),
    Possible,
    Observed(Observed),
}

impl Polls {
    /// Makes the polls of a machine that is not observed.
    pub(crate) fn new(tree: &Tree, layout: Layout) -> Self {
        let (state, looked, steered, waking) = (State::Never, Time::ZERO, Vec::new(), None);
        Self { tree: tree.clone(), layout, state, looked, steered, waking }
    }

    /// Allows observation, if the kernel does, as soon as a policy asks for streaks.
    pub(crate) fn allow(&mut self) {
        // Only a check: nothing stays attached.
        self.state = match Observer::begin(Time::ZERO) {
            Ok(_) => State::Possible,
            Err(why) => State::Unavailable(why),
        };
    }

    pub(crate) fn are_counted(&self) -> bool {
        matches!(self.state, State::Possible | State::Observed(_))
    }

    /// Returns the reason if they cannot be observed.
    pub(crate) fn missing(&self) -> Option<String> {
        if let State::Unavailable(why) = &self.state { Some(why.to_string()) } else { None }
    }

    pub(crate) fn look(&mut self, now: Time) {
        self.looked = now;
        if let Some(observed) = self.observed() {
            observed.look(now);
        }
    }

    pub(crate) fn observed(&mut self) -> Option<&mut Observed> {
        if let State::Observed(observed) = &mut self.state { Some(observed) } else { None }
    }

    /// Returns the observed polls; starts observing at the first call.
    fn observe(&mut self) -> Option<&mut Observed> {
        if matches!(self.state, State::Possible) {
            self.state = match Observed::begin(self) {
                Ok(mut observed) => {
                    self.waking.iter().for_each(|thread| observed.wake(thread));
                    State::Observed(observed)
                }
                Err(why) => {
                    tracing::warn!("governor: {why}");
                    State::Unavailable(why)
                }
            };
        }
        self.observed()
    }

    /// Treats the backlogs of the CPUs as the queues of these interfaces.
    pub(crate) fn steer(&mut self, interfaces: Vec<String>) {
        self.steered = interfaces;
    }

    /// Makes a core count streaks; `None` stops it.
    pub(crate) fn watch(&mut self, core: usize, streaks: Option<Streaks>) {
        let observed = if streaks.is_some() { self.observe() } else { self.observed() };
        if let Some(observed) = observed {
            observed.watch(core, streaks);
        }
    }

    /// Makes the end of a streak wake a thread.
    pub(crate) fn wake(&mut self, thread: &Thread) {
        self.waking = Some(thread.clone());
        if let Some(observed) = self.observed() {
            observed.wake(thread);
        }
    }
}

/// The observed polls of the CPUs of a layout. If there are more CPUs than cores, the cores have
/// them in turn.
pub(crate) struct Observed {
    observer: Observer,
    tree: Tree,
    layout: Layout,
    /// Interfaces spread by RPS: the CPUs' backlogs are their queues.
    steered: Vec<String>,
    places: Places,
    found: Option<Time>,
    /// The rule in force.
    streaks: Streaks,
    since: Time,
    /// By core: the unanswered streak.
    ends: Vec<Option<Streak>>,
    now: Time,
    waker: Option<Waker>,
}

impl Observed {
    /// Starts counting.
    fn begin(polls: &Polls) -> Result<Self, Unavailable> {
        let Polls { tree, layout, looked: now, steered, .. } = polls;
        let now = *now;
        let cores = layout.workers;
        let mut observed = Self {
            observer: Observer::begin(now)?,
            tree: tree.clone(),
            layout: layout.clone(),
            steered: steered.clone(),
            places: Places::default(),
            found: None,
            streaks: Streaks::NEVER,
            since: Time::ZERO,
            ends: vec![None; cores],
            now,
            waker: None,
        };
        observed.look(now);
        Ok(observed)
    }

    /// Updates the places of instances.
    fn look(&mut self, now: Time) {
        self.now = now;
        self.observer.set_clock(now);
        if self.found.is_none_or(|found| now.since(found) >= PLACES) {
            self.found = Some(now);
            self.find();
        }
    }

    fn find(&mut self) {
        let ports = self.layout.ports.iter().filter_map(|port| port.interface.as_ref());
        let own = ports.filter(|interface| !self.steered.contains(interface));
        let interfaces: Vec<&str> = own.map(String::as_str).collect();
        let polled = self.observer.instances().unwrap_or_default();
        let places = Places::find(&self.tree, &interfaces, &polled);
        let places = if self.steered.is_empty() { places } else { places.and_backlogs() };
        if places != self.places {
            self.places = places;
            self.count(self.streaks);
        }
    }

    fn watch(&mut self, core: usize, streaks: Option<Streaks>) {
        let own = self.streaks;
        let without = || Streaks { cores: own.cores.without(CoreSet::only(core)), ..own };
        let wanted = streaks.unwrap_or_else(without);
        if wanted != own {
            self.count(wanted);
        }
    }

    fn count(&mut self, streaks: Streaks) {
        self.streaks = streaks;
        self.since = self.now;
        let Layout { cpus, workers, .. } = &self.layout;
        let all = 0..cpus.len().min(MAX_CORES);
        let cores = all.filter(|at| streaks.cores.contains(at % (*workers).max(1))).collect();
        let streaks = Streaks { cores, ..streaks };
        if let Err(why) = self.observer.set_streaks(self.now, &streaks, cpus, &self.places) {
            tracing::warn!("governor: streaks of the kernel's polls are not counted: {why}");
        }
        // Unread ends of the previous rule would keep the ring from waking any thread.
        self.observer.streaks(|_| ());
        self.ends.fill(None);
    }

    fn gather(&mut self) {
        let Self { observer, ends, layout, places, .. } = self;
        observer.streaks(|end| {
            let Some(at) = layout.cpus.iter().position(|cpu| *cpu == end.cpu) else { return };
            let interface = places.place(end.napi).map(|place| place.interface.as_str());
            let mut ports = layout.ports.iter();
            let port = ports.position(|port| port.interface.as_deref() == interface).unwrap_or(0);
            if let Some(last) = ends.get_mut(at % layout.workers.max(1)) {
                *last = Some(Streak { port, above: end.above });
            }
        });
    }

    pub(crate) fn streak(&mut self, now: Time, core: usize) -> Option<Streak> {
        self.now = now;
        self.gather();
        self.ends.get(core).copied().flatten()
    }

    /// Drops the counts of a core up to the moment when the policy's answer was carried out.
    pub(crate) fn answer(&mut self, core: usize) {
        self.gather();
        self.ends.get_mut(core).into_iter().for_each(|end| *end = None);
    }

    pub(crate) fn silent_for(&self, core: usize) -> Span {
        let cpus = self.layout.cpus.iter().skip(core).step_by(self.layout.workers.max(1));
        let seen = self.observer.cpus().unwrap_or_default();
        let last = cpus.filter_map(|cpu| seen.get(*cpu as usize)?.last).max();
        self.now.since(last.unwrap_or(Time::ZERO).max(self.since))
    }

    fn wake(&mut self, thread: &Thread) {
        match Waker::start(&self.observer, thread.clone()) {
            Ok(waker) => self.waker = Some(waker),
            Err(error) => tracing::warn!("governor: the ends of streaks wake no thread: {error}"),
        }
    }
}

/// A waiting thread that wakes another at the ends of streaks, until dropped.
struct Waker {
    end: OwnedFd,
}

impl Waker {
    fn start(observer: &Observer, thread: Thread) -> std::io::Result<Self> {
        let end = eventfd(0, EventfdFlags::CLOEXEC)?;
        let (ring, ended) = (observer.as_fd().try_clone_to_owned()?, end.try_clone()?);
        let events = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        // Edge-triggered: the woken thread reads the ring.
        let edge = epoll::EventFlags::IN | epoll::EventFlags::ET;
        epoll::add(&events, &ring, epoll::EventData::new_u64(0), edge)?;
        epoll::add(&events, &ended, epoll::EventData::new_u64(1), epoll::EventFlags::IN)?;
        std::thread::Builder::new().name("streaks".into()).spawn(move || {
            let _held = (ring, ended);
            let mut seen = Vec::with_capacity(2);
            loop {
                seen.clear();
                match epoll::wait(&events, rustix::buffer::spare_capacity(&mut seen), None) {
                    Ok(_) | Err(rustix::io::Errno::INTR) => {}
                    Err(_) => return,
                }
                if seen.iter().any(|event| event.data.u64() == 1) {
                    return;
                }
                thread.unpark();
            }
        })?;
        Ok(Self { end })
    }
}

impl Drop for Waker {
    fn drop(&mut self) {
        // The counter has room for this.
        let _ = rustix::io::write(&self.end, &1_u64.to_ne_bytes());
    }
}

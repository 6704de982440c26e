//! Streaks of the kernel's polls, and time in soft interrupts, by BPF programs.

use crate::layout::Layout;
use crate::workers::Streak;
use rustix::event::{EventfdFlags, epoll, eventfd};
use rustix::fd::{AsFd, OwnedFd};
use std::thread::Thread;
use wattline_linux::sysfs::Tree;
use wattline_napi::{Observer, Places, Unavailable};
use wattline_policy::{CoreSet, Streaks};
use wattline_units::{Span, Time};

/// Time between two looks for instances that have been numbered anew, as when an interface went
/// down and up.
const PLACES: Span = Span::from_millis(4_000);

/// The polls of the CPUs of a layout.
pub(super) struct Polls {
    observer: Observer,
    tree: Tree,
    layout: Layout,
    /// Interfaces whose packets RPS spreads, so that the backlogs of the CPUs are their queues.
    steered: Vec<String>,
    places: Places,
    found: Option<Time>,
    /// The rule in force.
    streaks: Streaks,
    since: Time,
    /// By core: the streak that is not answered yet.
    ends: Vec<Option<Streak>>,
    softirq: Vec<Span>,
    now: Time,
    waker: Option<Waker>,
}

impl Polls {
    /// Begins to count; `now` is the time of the last look.
    pub fn observe(tree: &Tree, layout: &Layout, now: Time) -> Result<Self, Unavailable> {
        let cores = layout.workers;
        let mut polls = Self {
            observer: Observer::begin(now)?,
            tree: tree.clone(),
            layout: layout.clone(),
            steered: Vec::new(),
            places: Places::default(),
            found: None,
            streaks: Streaks::NEVER,
            since: Time::ZERO,
            ends: vec![None; cores],
            softirq: vec![Span::ZERO; cores],
            now,
            waker: None,
        };
        polls.look(now);
        Ok(polls)
    }

    /// Finds out whether polls can be observed here; nothing remains attached.
    pub fn probe() -> Result<(), Unavailable> {
        Observer::begin(Time::ZERO).map(drop)
    }

    /// Brings times and places up to date.
    pub fn look(&mut self, now: Time) {
        self.now = now;
        if self.found.is_none() {
            // The clock of the policies starts after the observer.
            self.observer.set_clock(now);
        }
        if self.found.is_none_or(|found| now.since(found) >= PLACES) {
            self.found = Some(now);
            self.find();
        }
        if let Ok(cpus) = self.observer.cpus() {
            for (softirq, cpu) in self.softirq.iter_mut().zip(&self.layout.cpus) {
                if let Some(cpu) = cpus.get(*cpu as usize) {
                    *softirq = cpu.useful + cpu.empty;
                }
            }
        }
    }

    /// The backlogs of the CPUs are the queues of these interfaces.
    pub fn steer(&mut self, interfaces: Vec<String>) {
        self.steered = interfaces;
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

    pub fn softirq(&self, core: usize) -> Option<Span> {
        self.softirq.get(core).copied()
    }

    /// Has a core count streaks, or no longer.
    pub fn watch(&mut self, core: usize, streaks: Option<Streaks>) {
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
        let cpus = &self.layout.cpus;
        if let Err(why) = self.observer.set_streaks(self.now, &streaks, cpus, &self.places) {
            tracing::warn!("governor: streaks of the kernel's polls are not counted: {why}");
        }
        // Unread ends of the rule before would keep the ring from waking anybody.
        self.observer.streaks(|_| ());
        self.ends.fill(None);
    }

    fn gather(&mut self) {
        let Self { observer, ends, layout, places, .. } = self;
        observer.streaks(|end| {
            let Some(core) = layout.cpus.iter().position(|cpu| *cpu == end.cpu) else { return };
            let interface = places.place(end.napi).map(|place| place.interface.as_str());
            let mut ports = layout.ports.iter();
            let port = ports.position(|port| port.interface.as_deref() == interface).unwrap_or(0);
            if let Some(last) = ends.get_mut(core) {
                *last = Some(Streak { port, above: end.above });
            }
        });
    }

    pub fn streak(&mut self, now: Time, core: usize) -> Option<Streak> {
        self.now = now;
        self.gather();
        self.ends.get(core).copied().flatten()
    }

    /// Drops what a core counted until the policy's answer was carried out.
    pub fn answer(&mut self, core: usize) {
        self.gather();
        self.ends.get_mut(core).into_iter().for_each(|end| *end = None);
    }

    pub fn silent_for(&self, core: usize) -> Span {
        let cpu = self.layout.cpus.get(core).map(|cpu| *cpu as usize);
        let cores = self.observer.cpus().unwrap_or_default();
        let last = cpu.and_then(|cpu| cores.get(cpu)?.last).unwrap_or(Time::ZERO);
        self.now.since(last.max(self.since))
    }

    /// Has the end of a streak wake a thread.
    pub fn wake(&mut self, thread: &Thread) {
        match Waker::start(&self.observer, thread.clone()) {
            Ok(waker) => self.waker = Some(waker),
            Err(error) => tracing::warn!("governor: the ends of streaks wake nobody: {error}"),
        }
    }
}

/// A thread that waits for the ends of streaks, until dropped.
struct Waker {
    end: OwnedFd,
}

impl Waker {
    fn start(observer: &Observer, thread: Thread) -> std::io::Result<Self> {
        let end = eventfd(0, EventfdFlags::CLOEXEC)?;
        let (ring, ended) = (observer.as_fd().try_clone_to_owned()?, end.try_clone()?);
        let events = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        // An edge for each wake-up: the ring is read by the thread that is woken.
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

//! The emulated server as seen by a governor: turns steps into orders to cores.

use super::mailbox::Order;
use super::{Emulation, Redirect};
use std::sync::Arc;
use wattline_governor::energy::Energy;
use wattline_governor::machine::{Machine, Taken, View};
use wattline_governor::step::Step;
use wattline_policy::Latency;
use wattline_policy::{OperatingPoint, Platform, Sees};
use wattline_units::{Span, Time};

/// The cores of a server model, emulated by worker threads.
///
/// Steps are collected and given to the cores when all have been taken. Each core that changes then
/// gets at most two orders, for the model time of the decision: one with its frequency, and one
/// with its settings. Only an indirection table is rewritten at once.
pub struct ScaleMachine {
    emulation: Arc<Emulation>,
    redirect: Option<Box<dyn Redirect>>,
    platform: Platform,
    /// State that the cores have been given.
    given: OperatingPoint,
    /// State after the collected steps.
    point: OperatingPoint,
    /// Time of the last observation.
    now: Time,
    /// Duration of a change of frequency.
    transition: Span,
    entries_moved: u64,
    /// Latencies since the policy's last observation.
    latency: Option<Latency>,
}

impl ScaleMachine {
    pub(super) fn new(emulation: Arc<Emulation>, redirect: Option<Box<dyn Redirect>>) -> Self {
        let mut platform = emulation.platform.clone();
        platform.can.set_cores = redirect.is_some();
        platform.can.set_weights = redirect.is_some();
        let counts = redirect.as_ref().is_some_and(|redirect| redirect.counts_entries());
        // Energy is added up when an account is closed, not at every decision.
        let seen = platform.can.sees;
        platform.can.sees = Sees { power: false, entries: counts, offered: false, ..seen };
        let point = OperatingPoint::full(&platform);
        Self {
            transition: emulation.transition,
            emulation,
            redirect,
            platform,
            given: point.clone(),
            point,
            now: Time::ZERO,
            entries_moved: 0,
            latency: None,
        }
    }

    /// Performs a deferred rewrite of the indirection tables, and wakes the cores that others wait
    /// for.
    pub(super) fn resume(&mut self) {
        match self.redirect.as_mut().map(|redirect| redirect.resume()) {
            Some(Ok(moved)) => self.entries_moved += moved,
            Some(Err(why)) => tracing::warn!("cannot write an indirection table: {why}"),
            None => {}
        }
        self.wake_awaited();
    }

    /// Wakes the cores that others wait for.
    fn wake_awaited(&self) {
        let Some(order) = &self.emulation.order else { return };
        let mailboxes = self.emulation.mailboxes.iter().enumerate();
        mailboxes.filter(|(core, _)| order.awaits(*core)).for_each(|(_, mailbox)| mailbox.wake());
    }

    fn give_settings(&self, active_cores_changed: bool) {
        let cores = self.platform.cores;
        let ports = self.platform.queues.len() / cores;
        for (core, mailbox) in self.emulation.mailboxes.iter().enumerate() {
            let queues = (0..ports).map(|port| port * cores + core);
            let moderation = |point: &OperatingPoint| {
                queues.clone().map(|queue| point.moderation[queue].as_picos()).collect::<Vec<_>>()
            };
            let active = self.point.active.contains(core);
            let same = !active_cores_changed
                && self.given.cores[core] == self.point.cores[core]
                && self.given.active.contains(core) == active
                && self.given.batch == self.point.batch
                && moderation(&self.given) == moderation(&self.point);
            if same {
                continue;
            }
            let order = Order::Set {
                setting: self.point.cores[core],
                active,
                batch: self.point.batch,
                moderation: moderation(&self.point),
                active_cores: self.point.active.len(),
            };
            mailbox.give(self.now, order);
            mailbox.wake();
        }
    }
}

impl Machine for ScaleMachine {
    fn platform(&self) -> &Platform {
        &self.platform
    }

    fn now(&self) -> Time {
        self.emulation.clock.now()
    }

    fn observe(&mut self, now: Time, view: &mut View) {
        self.now = now;
        let cores = self.platform.cores;
        for (core, mailbox) in self.emulation.mailboxes.iter().enumerate() {
            let seen = mailbox.seen();
            view.cores[core] = seen.view_at(now);
            for (port, queue) in seen.queues.iter().enumerate() {
                view.queues[port * cores + core] = *queue;
            }
        }
        view.latency = None;
        if view.looks.latency {
            let sum = self.latency.get_or_insert_with(Latency::new);
            self.emulation.mailboxes.iter().for_each(|mailbox| mailbox.take_latency(sum));
            view.latency = Some(sum.take_view());
        }
        match &mut self.redirect {
            Some(redirect) if view.looks.entries => redirect.entries(now, &mut view.entries),
            _ => view.entries.clear(),
        }
    }

    fn take(&mut self, step: &Step) -> Taken {
        match *step {
            Step::Redirect { active } => {
                let Some(redirect) = &mut self.redirect else {
                    let why = "no indirection table can be written here".to_owned();
                    return Taken::Failed { why };
                };
                match redirect.redirect(self.now, active, &self.point.weights) {
                    Ok(moved) => self.entries_moved += moved,
                    Err(why) => return Taken::Failed { why },
                }
                self.wake_awaited();
                self.point.active = active;
            }
            // Other steps only change the point: the cores get their orders when steps settle.
            _ => step.set(&mut self.point),
        }
        Taken::Done
    }

    fn settle(&mut self) {
        let active_cores_changed = self.given.active.len() != self.point.active.len();
        let before: Vec<usize> = self.given.frequencies(&self.platform).collect();
        let after: Vec<usize> = self.point.frequencies(&self.platform).collect();
        let active_changed = self.given.active != self.point.active;
        if before != after {
            // The first point applies from the start.
            let wait = if self.now == Time::ZERO { Span::ZERO } else { self.transition };
            let due = self.now.as_picos() + wait.as_picos().max(1);
            let changes = before.iter().zip(&after).zip(&self.emulation.mailboxes);
            for ((_, index), mailbox) in changes.filter(|((old, new), _)| old != new) {
                mailbox.give(self.now, Order::Frequency { takes: wait, index: *index });
            }
            self.emulation.will_run_at(due, &after);
        }
        if active_changed {
            self.emulation.is_active_at(self.now.as_picos(), self.point.active);
        }
        self.give_settings(active_cores_changed);
        if before != after {
            self.emulation.mailboxes.iter().for_each(|mailbox| mailbox.wake());
        }
        self.given.copy_from(&self.point);
    }

    fn energy(&mut self, _: Time) -> Energy {
        self.emulation.last_energy()
    }

    fn entries_moved(&self) -> u64 {
        self.entries_moved
    }
}

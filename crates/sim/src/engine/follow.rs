//! Applies the settings of the knobs to the simulated server.

use super::Engine;
use wattline_cores::Costs;
use wattline_governor::under_way::UnderWay;
use wattline_units::{Span, Time};

impl Engine<'_> {
    /// Moves towards the operating point that the policy wants, as far as the server can.
    pub(super) fn apply(&mut self) {
        self.control.act(Time::from_picos(self.now), &mut self.knobs);
        self.follow_knobs();
    }

    /// Applies frequency changes and postponed steps that are due.
    pub(super) fn come_due(&mut self) {
        if self.now >= self.frequency_due {
            self.take_frequencies();
        }
        let now = Time::from_picos(self.now);
        if now >= self.control.due() {
            self.catch_up(self.control.ask_again().watched());
            self.control.carry_on(now, &mut self.knobs);
            self.follow_knobs();
        }
        self.look_ahead();
    }

    /// Applies the settings of the knobs to the cores.
    fn follow_knobs(&mut self) {
        self.book_point();
        let Self { platform, knobs, point, totals, .. } = self;
        let set = &knobs.point;
        let cores_change = set.active != point.active || set.weights != point.weights;
        totals.core_changes += u64::from(cores_change);
        let takes = platform.frequency_transition;
        let now = Time::from_picos(self.now);
        let mut frequencies_change = false;
        let frequencies = set.frequencies(platform).zip(point.frequencies(platform));
        for ((new, old), under_way) in frequencies.zip(&mut self.frequencies) {
            if new != old {
                under_way.ask(now, takes, new);
                frequencies_change = true;
            }
        }
        totals.frequency_changes += u64::from(frequencies_change);
        self.point.copy_from(&self.knobs.point);
        if cores_change {
            let Self { nic, cores, sink, now, point, .. } = self;
            let moved = nic.redirect(*now, point, cores, &mut sink.watch);
            self.totals.entries_moved += moved as u64;
            self.take_costs();
        }
        let count = self.cores.len();
        for core in &mut self.cores {
            let number = core.number;
            let moderation = &self.point.moderation;
            let periods = (0..core.rings.len()).map(|port| moderation[port * count + number]);
            core.set(
                self.now,
                self.point.cores[number],
                self.point.active.contains(number),
                self.point.batch,
                periods.map(Span::as_picos),
                &mut self.sink,
            );
        }
        self.look_ahead();
    }

    /// Applies the frequency changes that are due.
    fn take_frequencies(&mut self) {
        self.book_point();
        let (now, takes) = (Time::from_picos(self.now), self.platform.frequency_transition);
        for (core, under_way) in self.cores.iter_mut().zip(&mut self.frequencies) {
            core.book(self.now, &mut self.sink);
            if let Some(frequency) = under_way.take(now, takes) {
                core.costs.frequency = frequency;
            }
        }
        self.take_costs();
    }

    /// Determines the next time at which something is due.
    pub(super) fn look_ahead(&mut self) {
        let first = self.frequencies.iter().filter_map(UnderWay::due).min();
        self.frequency_due = first.map_or(u64::MAX, Time::as_picos);
        self.due = self.frequency_due.min(self.control.due().as_picos());
    }

    /// Computes the costs of the cores again after a change of frequency or number of active cores.
    pub(super) fn take_costs(&mut self) {
        let mut last: Option<Costs> = None;
        for core in &mut self.cores {
            let frequency = core.costs.frequency;
            let costs = match last.take().filter(|last| last.frequency == frequency) {
                Some(costs) => costs,
                None => self.make.costs(frequency, self.point.active.len()),
            };
            last = Some(costs.clone());
            core.set_costs(costs);
        }
    }
}

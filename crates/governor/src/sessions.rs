//! Sums over several governors of one machine: each starts at 0 while cores may count on, and the
//! sums must never fall. Energy drawn between two governors is not metered.

use super::account::Totals;
use super::energy::Energy;
use super::ledger::{Entry, sums_of};
use std::time::Instant;
use wattline_status::{Details, HostStatus};
use wattline_units::Span;

/// Sums over all governors.
#[derive(Debug, Default)]
pub(super) struct GovernorSessions {
    /// Totals of ended governors.
    before: Option<Totals>,
    /// Totals that the present governor found at its start.
    begun: Option<Totals>,
    /// The last sum.
    last: Option<Totals>,
    /// Time at which the last governor ended; `None` while one is active.
    ended: Option<Instant>,
    /// The last figure of energy in the present session.
    known: Option<Known>,
    knobs: Counted<Vec<Entry>>,
    /// `None` if the platform has no such counter.
    waited: Counted<Option<u64>>,
}

/// Sums over ended governors, without and with the present one.
#[derive(Debug, Default)]
struct Counted<T> {
    before: T,
    sum: T,
}

/// A figure of energy, summed over the sessions.
#[derive(Debug)]
struct Known {
    energy: Energy,
    /// Unmetered time before the present session's first figure.
    lead: Span,
    /// Time since the last reading of its meters, at this figure.
    unread: Span,
    asked: Instant,
}

impl GovernorSessions {
    /// Returns all totals, from the counts of the present governor by `at`.
    pub fn sum(&mut self, now: Totals, at: Instant) -> Totals {
        if self.begun.is_none() {
            self.before = self.without_governor(at);
            self.ended = None;
        }
        let begun = self.begun.get_or_insert_with(|| now.clone());
        let lasts = now.at.since(begun.at);
        let energy = now.machine.energy.clone();
        let mut sum = match &self.before {
            None => now,
            Some(before) => before.and(begun, &now),
        };
        let follows = self.before.as_ref().is_some_and(|it| it.machine.energy.whole.is_some());
        let to = &mut sum.machine.energy;
        if energy.whole.is_some() {
            // Meters are read periodically: a part of the uncovered time is still to be read.
            let unknown = energy.metered.map_or(Span::ZERO, |it| lasts - it - energy.unmetered);
            let lead = self.known.as_ref().map_or(unknown, |known| known.lead.min(unknown));
            if follows {
                to.unmetered += lead;
            }
            let (energy, unread) = (to.clone(), unknown - lead);
            self.known = Some(Known { energy, lead, unread, asked: at });
        } else if self.known.is_some() {
            // Its meters have failed: the earlier governors' energy is not the whole.
            *to = Energy::default();
        } else if follows {
            to.unmetered += lasts;
        }
        self.last = Some(sum.clone());
        sum
    }

    /// Returns the outcomes of all steps, by knob.
    pub fn sum_knobs(&mut self, now: &[Entry]) -> Vec<Entry> {
        self.knobs.sum = sums_of(&self.knobs.before, now);
        self.knobs.sum.clone()
    }

    /// Returns the platform-specific figures, with a summed counter.
    pub fn sum_details(&mut self, mut now: Details) -> Details {
        if let Some(host) = &mut now.host {
            host.waited_at_moves_packets += self.waited.before.unwrap_or(0);
            self.waited.sum = Some(host.waited_at_moves_packets);
        }
        now
    }

    /// Returns the part that remains while no governor is active: the counter.
    pub fn details_without_governor(&self) -> Details {
        let host = |waited_at_moves_packets| HostStatus {
            waited_at_moves_packets,
            ..HostStatus::default()
        };
        Details { host: self.waited.before.map(host), ..Details::default() }
    }

    /// Ends the present governor; its last sums are kept.
    pub fn end(&mut self, at: Instant) {
        if self.begun.take().is_none() {
            return;
        }
        self.ended = Some(at);
        self.before.clone_from(&self.last);
        if let (Some(before), Some(known)) = (&mut self.before, self.known.take()) {
            let since = Span::from(at.saturating_duration_since(known.asked));
            let unmetered = known.energy.unmetered + known.unread + since;
            before.machine.energy = Energy { unmetered, ..known.energy };
        }
        self.knobs.before.clone_from(&self.knobs.sum);
        self.waited.before = self.waited.sum;
    }

    /// Returns the sums while no governor is active, by `at`: only the unmetered time grows.
    pub fn without_governor(&self, at: Instant) -> Option<Totals> {
        let mut sum = self.before.clone()?;
        let energy = &mut sum.machine.energy;
        if let Some(ended) = self.ended.filter(|_| energy.whole.is_some()) {
            energy.unmetered += Span::from(at.saturating_duration_since(ended));
        }
        Some(sum)
    }

    /// Returns the last sums, if the governor does not answer or there is none.
    pub fn last(&self, at: Instant) -> Option<Totals> {
        if self.ended.is_some() { self.without_governor(at) } else { self.last.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account::{LoopTotals, MachineTotals};
    use crate::ledger::Knob;
    use std::time::Duration;
    use wattline_units::{Joules, Provenance, Time};

    fn totals(seconds: u64, offered: u64, joules: Option<f64>) -> Totals {
        let energy = joules.map(|it| Energy::new(Joules(it), [], Provenance::EMULATED));
        let energy = energy.unwrap_or_default();
        let own = LoopTotals { decisions: seconds, ..LoopTotals::default() };
        let machine = MachineTotals { offered, energy, ..MachineTotals::default() };
        Totals { at: Time::ZERO + Span::from_millis(1000 * seconds), own, machine }
    }

    #[test]
    fn sums_go_on_if_a_governor_starts_at_zero_and_workers_do_not() {
        let (mut sessions, at) = (GovernorSessions::default(), Instant::now());
        let sum = |sessions: &mut GovernorSessions, now| sessions.sum(now, at);
        let them = &mut sessions;
        assert_eq!(sum(them, totals(0, 100, Some(0.0))), totals(0, 100, Some(0.0)));
        assert_eq!(sum(them, totals(5, 300, Some(50.0))), totals(5, 300, Some(50.0)));
        them.end(at);
        // A port was removed, and its packets with it.
        assert_eq!(sum(them, totals(0, 200, Some(0.0))), totals(5, 300, Some(50.0)));
        assert_eq!(sum(them, totals(2, 210, Some(20.0))), totals(7, 310, Some(70.0)));
        them.end(at);
        // A governor that ended before any query changes nothing.
        them.end(at);
        assert_eq!(sum(them, totals(1, 210, None)).machine.energy.whole, Some(Joules(70.0)));
        assert_eq!(sum(them, totals(2, 211, Some(1.0))).machine.energy.whole, Some(Joules(71.0)));
    }

    /// Returns totals with this energy and metered time, after the unmetered first `lead` seconds
    /// of the session.
    fn metered(seconds: f64, metered: f64, unmetered: f64) -> Totals {
        let mut totals = totals(0, 0, Some(100.0 * metered));
        totals.at = Time::ZERO + Span::from_seconds(seconds);
        totals.machine.energy.metered = Some(Span::from_seconds(metered));
        totals.machine.energy.unmetered = Span::from_seconds(unmetered);
        totals
    }

    #[track_caller]
    fn has(totals: &Totals, joules: f64, unmetered: f64) {
        let energy = &totals.machine.energy;
        assert!((energy.whole.unwrap().0 - joules).abs() < 1e-6, "{energy:?}");
        assert!((energy.unmetered.as_seconds() - unmetered).abs() < 1e-6, "{energy:?}");
    }

    #[test]
    fn unmetered_time_between_two_governors_is_reported() {
        let (mut sessions, start) = (GovernorSessions::default(), Instant::now());
        let at = |seconds: f64| start + Duration::from_secs_f64(seconds);
        sessions.sum(totals(0, 0, None), at(0.0));
        // Before the first figure nothing is missing. A meter did not answer for a second.
        has(&sessions.sum(metered(5.0, 3.0, 1.0), at(5.0)), 300.0, 1.0);
        has(&sessions.sum(metered(6.0, 4.75, 1.0), at(6.0)), 475.0, 1.0);
        // Energy drawn in the last quarter of a second, and in another one without a query, is not
        // in the sum.
        let known = sessions.sum(metered(7.0, 5.5, 1.0), at(7.0));
        has(&known, 550.0, 1.0);
        sessions.end(at(7.25));
        has(&sessions.last(at(7.25)).unwrap(), 550.0, 1.5);
        has(&sessions.last(at(10.25)).unwrap(), 550.0, 4.5);
        // The next governor begins ten seconds later, and its meters give the first figure after
        // another second.
        has(&sessions.sum(totals(0, 0, None), at(17.25)), 550.0, 11.5);
        has(&sessions.sum(totals(1, 0, None), at(18.25)), 550.0, 12.5);
        has(&sessions.sum(metered(2.25, 1.0, 0.0), at(19.5)), 650.0, 12.75);
        has(&sessions.sum(metered(3.0, 2.0, 0.0), at(20.25)), 750.0, 12.5);
        // Failed meters do not reduce the reported energy.
        assert_eq!(sessions.sum(totals(8, 0, None), at(25.25)).machine.energy.whole, None);
        sessions.end(at(25.25));
        has(&sessions.last(at(25.25)).unwrap(), 750.0, 17.5);
        has(&sessions.sum(metered(0.0, 0.0, 0.0), at(25.25)), 750.0, 17.5);
    }

    /// A figure that was never known misses nothing.
    #[test]
    fn without_meters_no_time_is_unmetered() {
        let (mut sessions, start) = (GovernorSessions::default(), Instant::now());
        sessions.sum(totals(5, 1, None), start);
        sessions.end(start);
        let later = start + Duration::from_secs(9);
        assert_eq!(sessions.last(later).unwrap().machine.energy, Energy::default());
        assert_eq!(sessions.sum(totals(2, 1, None), later).machine.energy, Energy::default());
    }

    #[test]
    fn counters_by_knob_and_of_the_platform_go_on() {
        let entry = |steps| Entry {
            knob: Knob::Wait,
            steps,
            altered: 0,
            foreign: 0,
            failed: 0,
            last_problem: None,
            effective: true,
        };
        let host = |packets: u64| {
            let missing = vec!["x".to_owned()];
            let status =
                HostStatus { waited_at_moves_packets: packets, missing, ..HostStatus::default() };
            Details { host: Some(status), ..Details::default() }
        };
        let (mut sessions, at) = (GovernorSessions::default(), Instant::now());
        sessions.sum(totals(1, 1, None), at);
        assert_eq!(sessions.sum_knobs(&[entry(3)]), [entry(3)]);
        assert_eq!(sessions.sum_details(host(7)), host(7));
        sessions.end(at);
        let left = HostStatus { waited_at_moves_packets: 7, ..HostStatus::default() };
        assert_eq!(sessions.details_without_governor().host, Some(left));
        sessions.sum(totals(0, 1, None), at);
        assert_eq!(sessions.sum_knobs(&[]), [entry(3)], "it has done nothing yet");
        assert_eq!(sessions.sum_knobs(&[entry(2)]), [entry(5)]);
        assert_eq!(sessions.sum_details(host(1)), host(8));
        // A platform without this counter shows none.
        assert_eq!(sessions.sum_details(Details::default()), Details::default());
    }
}

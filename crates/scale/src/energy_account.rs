//! Energy from the states that the cores really passed through.

use super::mailbox::Report;
use wattline_cores::{AwakeLog, power_terms};
use wattline_governor::account::MachineTotals;
use wattline_governor::energy::Energy;
use wattline_policy::CoreSet;
use wattline_policy::Latency;
use wattline_server::ServerModel;
use wattline_units::{BitsPerSecond, Joules, Provenance, Span, Watts};

/// Change of the power of the parts that all cores share.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Change {
    /// Frequencies, by core, as indices.
    Frequencies(Vec<usize>),
    /// The set of active cores.
    Active(Box<CoreSet>),
}

/// Collects the cores' reports and computes energy from them.
#[derive(Debug)]
pub(super) struct EnergyAccount {
    /// Reports by core; all of the same moment once complete.
    reports: Vec<Option<Report>>,
    /// Changes in the future or not yet booked, by time.
    changes: Vec<(u64, Change)>,
    awake: AwakeLog,
    frequencies: Vec<usize>,
    active: CoreSet,
    /// Energy of the shared parts up to `booked`.
    uncore_joules: f64,
    booked: u64,
    energy: Energy,
}

impl EnergyAccount {
    /// Creates an account of so many cores, all active at the frequency of this index.
    pub fn new(cores: usize, frequency: usize) -> Self {
        let nothing = Energy::new(Joules::ZERO, [], Provenance::EMULATED);
        Self {
            reports: (0..cores).map(|_| None).collect(),
            changes: Vec::new(),
            awake: AwakeLog::new(cores),
            frequencies: vec![frequency; cores],
            active: CoreSet::first(cores),
            uncore_joules: 0.0,
            booked: 0,
            energy: nothing,
        }
    }

    /// Notes a change at a time. New frequencies replace those that had not taken effect.
    pub fn change(&mut self, at: u64, now: u64, change: Change) {
        if matches!(change, Change::Frequencies(_)) {
            let due = |(at, old): &(u64, Change)| *at <= now || matches!(old, Change::Active(_));
            self.changes.retain(due);
        }
        self.changes.push((at, change));
    }

    /// Takes a report. Returns true once all cores have sent the report of that number.
    pub fn take(&mut self, report: Report) -> bool {
        let number = report.number;
        if let Some(place) = self.reports.get_mut(report.core) {
            *place = Some(report);
        }
        self.complete(number)
    }

    /// Returns true if all cores have sent the report of this number.
    pub fn complete(&self, number: u64) -> bool {
        self.reports.iter().all(|report| report.as_ref().is_some_and(|r| r.number == number))
    }

    /// Returns true if a core has sent the report of this number.
    pub fn has(&self, core: usize, number: u64) -> bool {
        self.reports.get(core).and_then(Option::as_ref).is_some_and(|r| r.number == number)
    }

    /// Returns the energy up to the last close.
    pub fn energy(&self) -> &Energy {
        &self.energy
    }

    /// Adds up the reports of the time `at`, in picoseconds.
    pub fn close(&mut self, at: u64, server: &ServerModel) -> (MachineTotals, Option<Latency>) {
        let mut totals = MachineTotals::default();
        let (mut spent, mut bytes, mut latency) = (Vec::new(), 0, None::<Latency>);
        for report in self.reports.iter_mut().filter_map(Option::take) {
            let mut awake = report.awake;
            self.awake.take_from(report.core, &mut awake);
            totals.offered += report.arrivals;
            totals.dropped += report.drops;
            totals.forwarded += report.counts.packets;
            totals.sleeps += report.counts.sleeps;
            totals.useful += Span::from_picos(report.spent.totals.useful);
            totals.empty += Span::from_picos(report.spent.totals.empty);
            totals.asleep += Span::from_picos(report.spent.totals.idle);
            bytes += report.counts.bytes;
            spent.push(report.spent);
            match &mut latency {
                Some(sum) => sum.add(&report.latency),
                None => latency = Some(report.latency),
            }
        }
        self.book(at, server);
        let seconds = at as f64 * 1e-12;
        if seconds > 0.0 {
            let bits = BitsPerSecond(bytes as f64 * 8.0 / seconds);
            let uncore = Watts(self.uncore_joules / seconds);
            let terms = power_terms(&spent, seconds, server, uncore, bits);
            let joules = |power: Watts| Joules(power.0 * seconds);
            let parts = server.power.breakdown(&terms).parts();
            let parts = parts.map(|(component, power)| (component.name(), joules(power)));
            self.energy = Energy::new(joules(terms.total()), parts, Provenance::EMULATED);
        }
        totals.energy = self.energy.clone();
        (totals, latency)
    }

    /// Books the energy of the shared parts up to `at`, through all changes on the way.
    fn book(&mut self, at: u64, server: &ServerModel) {
        self.changes.sort_by_key(|(at, _)| *at);
        let due = self.changes.partition_point(|(time, _)| *time <= at);
        for (time, change) in self.changes.drain(..due).collect::<Vec<_>>() {
            self.book_to(time, server);
            match change {
                Change::Frequencies(frequencies) => self.frequencies = frequencies,
                Change::Active(active) => self.active = *active,
            }
        }
        self.book_to(at, server);
    }

    fn book_to(&mut self, at: u64, server: &ServerModel) {
        if at <= self.booked {
            return;
        }
        self.booked = at;
        let any = Span::from_picos(self.awake.measure(at));
        let fastest = self.active.iter().filter_map(|core| self.frequencies.get(core)).max();
        let frequency = fastest.and_then(|&index| server.processor.frequencies.get(index));
        if let Some(&frequency) = frequency {
            self.uncore_joules += (server.power.uncore(frequency) * any).0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattline_cores::{Counts, Spent};
    use wattline_server::ServerFile;

    const MICRO: u64 = 1_000_000;

    fn report(core: usize, useful: u64, at: u64, spans: &[(u64, u64)]) -> Report {
        let mut spent = Spent::new(14, 3);
        (spent.useful[0], spent.totals.useful) = (useful, useful);
        (spent.idle[2], spent.totals.idle) = (at - useful, at - useful);
        let mut awake = AwakeLog::new(2);
        for &(from, to) in spans {
            awake.awake(core, from);
            awake.asleep(core, to);
        }
        let mut counts = Counts::default();
        (counts.packets, counts.bytes) = (1, 64);
        let latency = Latency::new();
        Report { core, number: 1, spent, counts, arrivals: 1, drops: 0, latency, awake }
    }

    #[test]
    fn shared_part_draws_while_any_core_is_awake() {
        let file = ServerFile::load("westmere-2010").unwrap();
        let server = file.model().unwrap();
        let mut energy_account = EnergyAccount::new(2, 0);
        energy_account.change(60 * MICRO, 10 * MICRO, Change::Frequencies(vec![5, 5]));
        // Replaced before it took effect.
        energy_account.change(50 * MICRO, 20 * MICRO, Change::Frequencies(vec![13, 13]));
        assert!(!energy_account.take(report(0, 40 * MICRO, 100 * MICRO, &[(0, 40 * MICRO)])));
        assert!(energy_account.take(report(
            1,
            40 * MICRO,
            100 * MICRO,
            &[(30 * MICRO, 70 * MICRO)]
        )));
        let (totals, _) = energy_account.close(100 * MICRO, server);
        assert_eq!((totals.offered, totals.forwarded), (2, 2));
        let power = |index: usize| server.power.uncore(server.processor.frequencies[index]).0;
        let expected = (power(0) * 50.0 + power(13) * 20.0) * 1e-6;
        assert!((energy_account.uncore_joules / expected - 1.0).abs() < 1e-9);
        // The parts add up to the whole, and only the base draws all of the time.
        let energy = totals.energy;
        assert!(energy.rest().unwrap().0.abs() < 1e-12);
        assert!(energy.whole.unwrap().0 > server.power.base.total().0 * 100e-6);
        assert_eq!(energy.source, wattline_units::Source::Emulated);
    }
}

//! Counts made while a policy is in charge, and intervals of them.

use super::energy::Energy;
use super::machine::View;
use serde::Serialize;
use std::collections::BTreeMap;
use wattline_policy::{OperatingPoint, Platform};
use wattline_units::{Accuracy, Source, Span, Time};

/// Counts of the loop since it began.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LoopTotals {
    /// Number of calls of the policy.
    pub decisions: u64,
    /// Changes of the set of active cores.
    pub core_changes: u64,
    /// Changes of frequencies.
    pub frequency_changes: u64,
    /// Steps taken.
    pub steps: u64,
    /// Steps that the machine altered.
    pub altered: u64,
    /// Steps that failed, or were skipped because another program holds the knob.
    pub failed: u64,
    /// Time of the integrals. It may end after the machine's counters: a decision between the two
    /// has its own time.
    pub booked: Span,
    /// Integral of the number of active cores, in core seconds.
    pub active_core_seconds: f64,
    /// Integral of the frequencies of active cores, in cycles.
    pub active_core_cycles: f64,
}

impl LoopTotals {
    /// Books a span under one operating point.
    pub(super) fn book(&mut self, span: Span, capacity: Capacity) {
        let seconds = span.as_seconds();
        self.booked += span;
        self.active_core_seconds += seconds * capacity.cores;
        self.active_core_cycles += seconds * capacity.hertz;
    }
}

/// Capacity of an operating point: summed up once per point, not at each decision.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Capacity {
    /// Number of active cores.
    cores: f64,
    /// Sum of their frequencies.
    hertz: f64,
}

impl Capacity {
    pub fn at(platform: &Platform, point: &OperatingPoint) -> Self {
        let frequencies = point.frequencies(platform).enumerate();
        let active = frequencies.filter(|(core, _)| point.active.contains(*core));
        let hertz = active.filter_map(|(_, index)| Some(platform.frequencies.get(index)?.0)).sum();
        Self { cores: point.active.len() as f64, hertz }
    }
}

/// Counts of the machine since the run began.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MachineTotals {
    /// Packets that arrived, dropped ones included.
    pub offered: u64,
    /// Packets that were served.
    pub forwarded: u64,
    /// Packets that found their ring full.
    pub dropped: u64,
    /// Time that all cores together spent on packets.
    pub useful: Span,
    /// Time awake without work.
    pub empty: Span,
    /// Time asleep.
    pub asleep: Span,
    /// Number of times that cores fell asleep.
    pub sleeps: u64,
    /// Entries of indirection tables that were moved.
    pub entries_moved: u64,
    /// Energy drawn.
    pub energy: Energy,
}

impl MachineTotals {
    /// Creates the totals from a view.
    pub fn from_view(view: &View, energy: Energy, entries_moved: u64) -> Self {
        let mut totals = Self { energy, entries_moved, ..Self::default() };
        for queue in &view.queues {
            totals.offered += queue.arrivals;
            totals.dropped += queue.drops;
        }
        for core in &view.cores {
            totals.forwarded += core.packets;
            totals.useful += core.useful;
            totals.empty += core.empty;
            totals.asleep += core.asleep;
            totals.sleeps += core.sleeps;
        }
        totals
    }
}

/// All counts up to a point of time.
#[derive(Debug, Clone, PartialEq)]
pub struct Totals {
    /// On the machine's clock.
    pub at: Time,
    /// By the loop.
    pub own: LoopTotals,
    /// By the machine.
    pub machine: MachineTotals,
}

impl Totals {
    /// Returns the sum of these totals and those of another governor of the same machine since it
    /// began with `begun`: the machine's counters did not start with that governor.
    pub fn and(&self, begun: &Self, now: &Self) -> Self {
        let (own, new, old) = (&self.own, &now.own, &begun.own);
        let (machine, counted, found) = (&self.machine, &now.machine, &begun.machine);
        let count = |sum: u64, now: u64, begun: u64| sum + now.saturating_sub(begun);
        let own_count = |of: fn(&LoopTotals) -> u64| count(of(own), of(new), of(old));
        let own_sum = |of: fn(&LoopTotals) -> f64| of(own) + of(new) - of(old);
        let counted_of = |of: fn(&MachineTotals) -> u64| count(of(machine), of(counted), of(found));
        let span = |of: fn(&MachineTotals) -> Span| of(machine) + (of(counted) - of(found));
        Self {
            at: self.at + now.at.since(begun.at),
            own: LoopTotals {
                decisions: own_count(|it| it.decisions),
                core_changes: own_count(|it| it.core_changes),
                frequency_changes: own_count(|it| it.frequency_changes),
                steps: own_count(|it| it.steps),
                altered: own_count(|it| it.altered),
                failed: own_count(|it| it.failed),
                booked: own.booked + (new.booked - old.booked),
                active_core_seconds: own_sum(|it| it.active_core_seconds),
                active_core_cycles: own_sum(|it| it.active_core_cycles),
            },
            machine: MachineTotals {
                offered: counted_of(|it| it.offered),
                forwarded: counted_of(|it| it.forwarded),
                dropped: counted_of(|it| it.dropped),
                useful: span(|it| it.useful),
                empty: span(|it| it.empty),
                asleep: span(|it| it.asleep),
                sleeps: counted_of(|it| it.sleeps),
                entries_moved: counted_of(|it| it.entries_moved),
                energy: machine.energy.and(&counted.energy),
            },
        }
    }
}

/// Latency within an interval, in seconds of the machine's clock.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct LatencySummary {
    /// Mean.
    pub latency_mean_seconds: f64,
    /// Median.
    pub latency_p50_seconds: f64,
    /// 95th percentile.
    pub latency_p95_seconds: f64,
    /// 99th percentile.
    pub latency_p99_seconds: f64,
    /// Longest.
    pub latency_max_seconds: f64,
}

impl From<LatencySummary> for wattline_status::Latency {
    fn from(summary: LatencySummary) -> Self {
        Self {
            latency_mean_seconds: Some(summary.latency_mean_seconds),
            latency_p50_seconds: Some(summary.latency_p50_seconds),
            latency_p95_seconds: Some(summary.latency_p95_seconds),
            latency_p99_seconds: Some(summary.latency_p99_seconds),
            latency_max_seconds: Some(summary.latency_max_seconds),
        }
    }
}

impl LatencySummary {
    /// Summarises recorded latencies in seconds; `quantile` takes the fraction of packets. `None`
    /// without packets.
    pub fn new(
        mean: Option<f64>,
        quantile: impl Fn(f64) -> Option<f64>,
        max: Option<f64>,
    ) -> Option<Self> {
        Some(Self {
            latency_mean_seconds: mean?,
            latency_p50_seconds: quantile(0.5)?,
            latency_p95_seconds: quantile(0.95)?,
            latency_p99_seconds: quantile(0.99)?,
            latency_max_seconds: max?,
        })
    }
}

/// Figures between two points of time. Times are by the machine's clock: model time on an emulated
/// one.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Interval {
    /// Start of the interval, in seconds since the run began.
    pub from_seconds: f64,
    /// Its length.
    pub duration_seconds: f64,
    /// Packets that arrived, dropped ones included.
    pub offered_packets: u64,
    /// Packets that were served.
    pub forwarded_packets: u64,
    /// Packets that found their ring full.
    pub dropped_packets: u64,
    /// Offered packets per second.
    pub offered_rate_pps: f64,
    /// Forwarded packets per second.
    pub forwarded_rate_pps: f64,
    /// Mean power, where known.
    pub power_watts: Option<f64>,
    /// Mean power by component; the difference to `power_watts` is `power_rest_watts`.
    pub power_by_component_watts: BTreeMap<&'static str, f64>,
    /// Power that no component accounts for.
    pub power_rest_watts: Option<f64>,
    /// Energy, where known.
    pub energy_joules: Option<f64>,
    /// Energy of the machine per forwarded packet.
    pub energy_per_packet_joules: Option<f64>,
    /// Source of power and energy.
    pub source: Source,
    /// Accuracy of power and energy.
    pub accuracy: Accuracy,
    /// Mean number of active cores.
    pub cores_active_mean: f64,
    /// Mean frequency of active cores.
    pub frequency_mean_hertz: f64,
    /// Time that all cores together spent on packets.
    pub useful_core_seconds: f64,
    /// Time awake without work.
    pub empty_core_seconds: f64,
    /// Time asleep.
    pub asleep_core_seconds: f64,
    /// Number of times that cores fell asleep.
    pub sleeps: u64,
    /// Changes of the operating point: `core_changes` and `frequency_changes`.
    pub transitions: u64,
    /// Changes of the set of active cores.
    pub core_changes: u64,
    /// Changes of frequencies.
    pub frequency_changes: u64,
    /// Entries of indirection tables that were moved.
    pub entries_moved: u64,
    /// Number of calls of the policy.
    pub decisions: u64,
    /// Steps that the machine altered.
    pub steps_altered: u64,
    /// Steps that failed, or were skipped because another program holds the knob.
    pub steps_failed: u64,
    /// Latency, if it is measured and packets were forwarded.
    #[serde(flatten)]
    pub latency: Option<LatencySummary>,
}

impl Interval {
    /// Returns the figures between two points of time of one run. A counter that went back, which
    /// should not happen, counts as unchanged.
    pub fn between(start: &Totals, end: &Totals) -> Self {
        let seconds = end.at.since(start.at).as_seconds();
        // Without any time, rates and power are zero.
        let per_second = |amount: f64| if seconds > 0.0 { amount / seconds } else { 0.0 };
        let (own, before) = (&end.own, &start.own);
        let (machine, earlier) = (&end.machine, &start.machine);
        let energy = machine.energy.since(&earlier.energy);
        let metered = energy.metered.map_or(seconds, Span::as_seconds);
        let mean_power = |joules: f64| (metered > 0.0).then(|| joules / metered);
        let offered = machine.offered.saturating_sub(earlier.offered);
        let forwarded = machine.forwarded.saturating_sub(earlier.forwarded);
        let active = own.active_core_seconds - before.active_core_seconds;
        let booked = (own.booked - before.booked).as_seconds();
        let cycles = own.active_core_cycles - before.active_core_cycles;
        let core_changes = own.core_changes.saturating_sub(before.core_changes);
        let frequency_changes = own.frequency_changes.saturating_sub(before.frequency_changes);
        let core_seconds =
            |of: fn(&MachineTotals) -> Span| (of(machine) - of(earlier)).as_seconds();
        let parts = energy.parts.iter();
        Self {
            from_seconds: start.at.as_seconds(),
            duration_seconds: seconds,
            offered_packets: offered,
            forwarded_packets: forwarded,
            dropped_packets: machine.dropped.saturating_sub(earlier.dropped),
            offered_rate_pps: per_second(offered as f64),
            forwarded_rate_pps: per_second(forwarded as f64),
            power_watts: energy.whole.and_then(|whole| mean_power(whole.0)),
            power_by_component_watts: parts
                .filter_map(|(name, part)| Some((*name, mean_power(part.0)?)))
                .collect(),
            power_rest_watts: energy.rest().and_then(|rest| mean_power(rest.0)),
            energy_joules: energy.whole.map(|whole| whole.0),
            energy_per_packet_joules: energy
                .whole
                .filter(|_| forwarded > 0)
                .map(|whole| whole.0 / forwarded as f64),
            source: energy.source,
            accuracy: energy.accuracy,
            cores_active_mean: if booked > 0.0 { active / booked } else { 0.0 },
            frequency_mean_hertz: if active > 0.0 { cycles / active } else { 0.0 },
            useful_core_seconds: core_seconds(|totals| totals.useful),
            empty_core_seconds: core_seconds(|totals| totals.empty),
            asleep_core_seconds: core_seconds(|totals| totals.asleep),
            sleeps: machine.sleeps.saturating_sub(earlier.sleeps),
            transitions: core_changes + frequency_changes,
            core_changes,
            frequency_changes,
            entries_moved: machine.entries_moved.saturating_sub(earlier.entries_moved),
            decisions: own.decisions.saturating_sub(before.decisions),
            steps_altered: own.altered.saturating_sub(before.altered),
            steps_failed: own.failed.saturating_sub(before.failed),
            latency: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattline_units::{Joules, Provenance};

    fn totals(at_seconds: u64, joules: f64, packets: u64) -> Totals {
        let parts = [("cpu-cores", Joules(joules * 0.5)), ("nic", Joules(joules * 0.25))];
        let energy = Energy::new(Joules(joules), parts, Provenance::EMULATED);
        let (offered, forwarded) = (packets + 1, packets);
        let machine = MachineTotals { offered, forwarded, energy, ..MachineTotals::default() };
        let at = Span::from_millis(at_seconds * 1_000);
        let mut own = LoopTotals { decisions: packets, ..LoopTotals::default() };
        own.book(at, Capacity { cores: 3.0, hertz: 6e9 });
        Totals { at: Time::ZERO + at, own, machine }
    }

    #[test]
    fn an_interval_is_the_difference_of_two_totals() {
        let interval = Interval::between(&totals(1, 100.0, 10), &totals(3, 300.0, 50));
        assert_eq!((interval.from_seconds, interval.duration_seconds), (1.0, 2.0));
        assert_eq!((interval.forwarded_packets, interval.forwarded_rate_pps), (40, 20.0));
        assert_eq!((interval.power_watts, interval.power_rest_watts), (Some(100.0), Some(25.0)));
        assert_eq!(interval.energy_per_packet_joules, Some(5.0));
        assert_eq!((interval.cores_active_mean, interval.frequency_mean_hertz), (3.0, 2e9));
        let parts: f64 = interval.power_by_component_watts.values().sum();
        assert_eq!(parts + interval.power_rest_watts.unwrap(), interval.power_watts.unwrap());
    }

    /// On a busy machine decisions come between the end of an interval and its closing.
    #[test]
    fn active_cores_are_a_mean_over_the_booked_time() {
        let (start, mut end) = (totals(1, 100.0, 10), totals(3, 300.0, 50));
        end.own.book(Span::from_millis(1_000), Capacity { cores: 3.0, hertz: 6e9 });
        let interval = Interval::between(&start, &end);
        assert_eq!((interval.cores_active_mean, interval.frequency_mean_hertz), (3.0, 2e9));
    }

    /// A meter read four times a second was last read before the end of the interval.
    #[test]
    fn mean_power_covers_the_metered_time() {
        let metered = |at, joules, seconds| {
            let mut totals = totals(at, joules, 1);
            totals.machine.energy.metered = Some(Span::from_seconds(seconds));
            totals
        };
        // 128 W all the time; the meter has not yet read 0.25 s of the second interval.
        let (before, after) = (metered(1, 128.0, 1.0), metered(2, 224.0, 1.75));
        let interval = Interval::between(&before, &after);
        assert_eq!((interval.power_watts, interval.energy_joules), (Some(128.0), Some(96.0)));
        let parts: f64 = interval.power_by_component_watts.values().sum();
        assert_eq!(parts + interval.power_rest_watts.unwrap(), 128.0);
        // No reading in between: the power is unknown, which is not 0 W.
        assert_eq!(Interval::between(&after, &metered(3, 224.0, 1.75)).power_watts, None);
    }

    #[test]
    fn no_time_and_decreasing_counters_do_no_harm() {
        let interval = Interval::between(&totals(3, 300.0, 50), &totals(3, 300.0, 50));
        assert_eq!((interval.power_watts, interval.offered_rate_pps), (None, 0.0));
        let back = Interval::between(&totals(3, 300.0, 50), &totals(4, 300.0, 10));
        assert_eq!((back.offered_packets, back.decisions), (0, 0));
    }
}

//! Results of a simulation.

use crate::profile::Profile;
use crate::totals::Totals;
use schemars::JsonSchema;
use serde::Serialize;
use wattline_cores::{Counts, Spent, StateSpan, power_terms};
use wattline_governor::decisions::Decision;
use wattline_governor::ledger::Entry;
use wattline_policy::Latency;
use wattline_policy::Platform;
use wattline_server::{PartPower, PowerBreakdown, ServerModel};
use wattline_units::{Accuracy, BitsPerSecond, Provenance, Source, Watts};

/// Time of one core in each state, as fractions of the time; they add up to 1.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct CoreResidency {
    /// Number of the core.
    pub core: usize,
    /// Fraction awake with work.
    pub useful: f64,
    /// Fraction awake and polling empty queues.
    pub empty: f64,
    /// Fraction in each idle state, lightest first.
    pub idle: Vec<f64>,
    /// Share of each frequency in the time awake, slowest first.
    pub frequencies: Vec<f64>,
}

/// Residencies of all cores, with the names of the states.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Residency {
    /// Names of the idle states, lightest first.
    pub idle_states: Vec<String>,
    /// Frequencies in Hz, slowest first.
    pub frequencies_hertz: Vec<f64>,
    /// Residencies by number of the core.
    pub cores: Vec<CoreResidency>,
}

/// Results over a span of simulated time. Latencies are absent if no packet was forwarded.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Report {
    /// Start of the span, in simulated seconds since the run began.
    pub from_seconds: f64,
    /// Length of the span in seconds.
    pub duration_seconds: f64,
    /// Packets that arrived at a ring, dropped ones included.
    pub offered_packets: u64,
    /// Packets that were forwarded.
    pub forwarded_packets: u64,
    /// Packets dropped because their receive or transmit ring was full.
    pub dropped_packets: u64,
    /// Part of `dropped_packets`: transmit ring full; zero unless output links are modelled.
    pub dropped_at_output_packets: u64,
    /// Packets that a later one of their flow overtook.
    pub reordered_packets: u64,
    /// Packets that a later one of their flow would have overtaken if none had been held back.
    pub reordered_unless_held_packets: u64,
    /// Packets that were held back because their entry of the indirection table had moved while its
    /// old core still had earlier packets.
    pub held_packets: u64,
    /// Longest time for which a packet was held back, since the start of the run.
    pub hold_max_seconds: f64,
    /// Packets of the source beyond the capacity of the links; they are not offered.
    pub beyond_link_packets: u64,
    /// Packets inside the server at the start of the span.
    pub waiting_at_start_packets: u64,
    /// Packets inside at the end of the span: offered + start = forwarded + dropped + end.
    pub waiting_at_end_packets: u64,
    /// Mean number of packets inside, computed without their latencies (Little's law).
    pub packets_inside_mean: f64,
    /// Offered packets per second.
    pub offered_rate_pps: f64,
    /// Forwarded packets per second.
    pub forwarded_rate_pps: f64,
    /// Forwarded bits per second of frames, without preamble and gap.
    pub forwarded_rate_bits_per_second: f64,
    /// Forwarded packets above a latency bound; absent if no bound was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub late_packets: Option<u64>,
    /// The same above further bounds ([`crate::Setting::late_after`]); not printed.
    #[serde(skip)]
    pub late_packets_further: Vec<u64>,
    /// Shortest latency.
    pub latency_min_seconds: Option<f64>,
    /// Mean latency.
    pub latency_mean_seconds: Option<f64>,
    /// Median latency.
    pub latency_p50_seconds: Option<f64>,
    /// 95th percentile of the latency.
    pub latency_p95_seconds: Option<f64>,
    /// 99th percentile of the latency.
    pub latency_p99_seconds: Option<f64>,
    /// 99.9th percentile of the latency.
    pub latency_p999_seconds: Option<f64>,
    /// Longest latency.
    pub latency_max_seconds: Option<f64>,
    /// Distribution of the latency: shares of the packets with the seconds that they do not exceed.
    /// Present for a whole run only.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub latency_curve: Vec<(f64, f64)>,
    /// Mean power of the server.
    pub power_watts: f64,
    /// Energy of the server.
    pub energy_joules: f64,
    /// Mean power by component; the parts add up to `power_watts`.
    pub power_by_component_watts: PowerBreakdown,
    /// Mean power by the source of its figures; the parts add up to `power_watts`.
    #[serde(skip)]
    pub power_by_source: Vec<PartPower>,
    /// Energy of the server per forwarded packet.
    pub energy_per_packet_joules: Option<f64>,
    /// Origin of the power and energy figures.
    pub source: Source,
    /// Accuracy of the power and energy figures.
    pub accuracy: Accuracy,
    /// Mean number of active cores.
    pub cores_active_mean: f64,
    /// Mean frequency of the active cores.
    pub frequency_mean_hertz: f64,
    /// Changes of the operating point: sum of `core_changes` and `frequency_changes`.
    pub transitions: u64,
    /// Changes of the set of active cores.
    pub core_changes: u64,
    /// Changes of frequency.
    pub frequency_changes: u64,
    /// Entries of the indirection table that were moved.
    pub redirect_entries_moved: u64,
    /// Number of times that the policy was asked.
    pub decisions: u64,
    /// Interrupts per forwarded packet.
    pub interrupts_per_packet: Option<f64>,
    /// Polls per forwarded packet, empty ones included.
    pub polls_per_packet: Option<f64>,
    /// Overloads: times that a core's ring came to hold more than a batch.
    pub overloads: u64,
    /// Mean time from an overload until the core had caught up: the reaction to a rising load.
    pub reaction_mean_seconds: Option<f64>,
    /// Longest such time since the start of the run.
    pub reaction_max_seconds: Option<f64>,
    /// Fraction of time in which any core was awake.
    pub any_core_awake: f64,
    /// Residency per state and core.
    pub residency: Residency,
    /// Results by interval; empty unless requested.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub intervals: Vec<Report>,
    /// Real time of the simulation; zero for an interval.
    pub wall_seconds: f64,
    /// Packets simulated per second of real time, including those of the warm-up.
    pub simulated_packets_per_second: f64,
    /// Outcomes of the steps since the run began, by knob; empty if the knobs are ideal.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub knobs: Vec<Entry>,
    /// The last changes that the policy requested, with their reasons, the oldest first.
    #[serde(skip)]
    pub last_changes: Vec<Decision>,
    /// Real time by part of the simulator, if requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<Profile>,
    /// States of all cores; empty unless requested.
    #[serde(skip)]
    pub states: Vec<StateSpan>,
}

impl Report {
    /// Shares of the packets at which the distribution of the latency is reported.
    const SHARES: [f64; 13] =
        [0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 0.9999, 0.999_99, 1.0];

    /// Adds the distribution of the latency.
    pub(crate) fn take_curve(&mut self, latency: &Latency) {
        let at = |share: f64| Some((share, latency.quantile(share)?));
        self.latency_curve = Self::SHARES.into_iter().filter_map(at).collect();
    }

    /// Returns the results between two moments.
    pub(crate) fn between(
        start: &Totals,
        end: &Totals,
        latency: &Latency,
        server: &ServerModel,
        platform: &Platform,
    ) -> Self {
        let seconds = (end.at - start.at) as f64 / 1e12;
        let spent: Vec<Spent> =
            end.spent.iter().zip(&start.spent).map(|(end, start)| end.since(start)).collect();
        let sum = |of: fn(&Counts) -> u64| {
            let total = |totals: &Totals| totals.cores.iter().map(of).sum::<u64>();
            total(end) - total(start)
        };
        let forwarded = end.forwarded - start.forwarded;
        let bytes = end.forwarded_bytes - start.forwarded_bytes;
        let bits = BitsPerSecond(bytes as f64 * 8.0 / seconds);
        let dropped_at_output = end.output_drops - start.output_drops;
        let uncore = Watts((end.uncore_joules - start.uncore_joules) / seconds);
        let terms = power_terms(&spent, seconds, server, uncore, bits);
        let power = terms.total().0;
        let per_packet = |quantity: f64| (forwarded > 0).then(|| quantity / forwarded as f64);
        let open = (end.open_overload > 0) as u64;
        let overloads = sum(|core| core.overloads) + open;
        let overload = sum(|core| core.overload_picos) + end.open_overload;
        let longest = end.cores.iter().map(|core| core.overload_longest).max().unwrap_or(0);
        let active_seconds = (end.active_picos - start.active_picos) as f64 * 1e-12;
        let core_changes = end.core_changes - start.core_changes;
        let frequency_changes = end.frequency_changes - start.frequency_changes;
        let Provenance { source, accuracy } = Provenance::MODELLED;
        Self {
            from_seconds: start.at as f64 / 1e12,
            duration_seconds: seconds,
            offered_packets: end.arrivals - start.arrivals,
            forwarded_packets: forwarded,
            dropped_packets: end.drops - start.drops + dropped_at_output,
            dropped_at_output_packets: dropped_at_output,
            reordered_packets: end.order.reordered - start.order.reordered,
            reordered_unless_held_packets: end.order.overtaken - start.order.overtaken,
            held_packets: end.order.held - start.order.held,
            hold_max_seconds: end.order.hold_longest as f64 * 1e-12,
            beyond_link_packets: end.beyond_link - start.beyond_link,
            waiting_at_start_packets: start.waiting,
            waiting_at_end_packets: end.waiting,
            packets_inside_mean: end.packets_inside_since(start),
            offered_rate_pps: (end.arrivals - start.arrivals) as f64 / seconds,
            forwarded_rate_pps: forwarded as f64 / seconds,
            forwarded_rate_bits_per_second: bits.0,
            late_packets: None,
            late_packets_further: Vec::new(),
            latency_min_seconds: latency.min(),
            latency_mean_seconds: latency.mean(),
            latency_p50_seconds: latency.quantile(0.5),
            latency_p95_seconds: latency.quantile(0.95),
            latency_p99_seconds: latency.quantile(0.99),
            latency_p999_seconds: latency.quantile(0.999),
            latency_max_seconds: latency.max(),
            latency_curve: Vec::new(),
            power_watts: power,
            energy_joules: power * seconds,
            power_by_component_watts: server.power.breakdown(&terms),
            power_by_source: server
                .power_by_source(&terms, received(&spent, forwarded, seconds, server)),
            energy_per_packet_joules: per_packet(power * seconds),
            source,
            accuracy,
            cores_active_mean: active_seconds / seconds,
            frequency_mean_hertz: (end.cycles - start.cycles) / active_seconds,
            transitions: core_changes + frequency_changes,
            core_changes,
            frequency_changes,
            redirect_entries_moved: end.entries_moved - start.entries_moved,
            decisions: end.decisions - start.decisions,
            interrupts_per_packet: per_packet(sum(|core| core.interrupts) as f64),
            polls_per_packet: per_packet(sum(|core| core.polls) as f64),
            overloads,
            reaction_mean_seconds: (overloads > 0)
                .then(|| overload as f64 * 1e-12 / overloads as f64),
            reaction_max_seconds: (overloads > 0)
                .then(|| longest.max(end.open_overload) as f64 * 1e-12),
            any_core_awake: (end.any_awake - start.any_awake) as f64 * 1e-12 / seconds,
            residency: residency(&spent, end.at - start.at, platform),
            intervals: Vec::new(),
            wall_seconds: 0.0,
            simulated_packets_per_second: 0.0,
            knobs: Vec::new(),
            last_changes: Vec::new(),
            profile: None,
            states: Vec::new(),
        }
    }
}

/// Returns the mean power of cores in the named receive path, by its share of their clock cycles
/// with packets.
fn received(spent: &[Spent], packets: u64, seconds: f64, server: &ServerModel) -> Watts {
    let (mut cycles, mut joules) = (0.0, 0.0);
    for (frequency, core) in
        spent.iter().flat_map(|core| server.processor.frequencies.iter().zip(&core.useful))
    {
        let seconds = *core as f64 * 1e-12;
        cycles += frequency.0 * seconds;
        joules += server.awake_core_power(*frequency).0 * seconds;
    }
    let share = server.receive_cycles() * packets as f64 / cycles;
    if share > 0.0 { Watts(joules * share.min(1.0) / seconds) } else { Watts::ZERO }
}

fn residency(spent: &[Spent], picos: u64, platform: &Platform) -> Residency {
    let of_time = |picos_in: u64| picos_in as f64 / picos as f64;
    let cores = spent.iter().enumerate().map(|(core, spent)| {
        let awake = spent.totals.useful + spent.totals.empty;
        let at = spent.useful.iter().zip(&spent.empty).map(|(useful, empty)| useful + empty);
        CoreResidency {
            core,
            useful: of_time(spent.totals.useful),
            empty: of_time(spent.totals.empty),
            idle: spent.idle.iter().map(|&picos| of_time(picos)).collect(),
            frequencies: at.map(|picos| picos as f64 / awake.max(1) as f64).collect(),
        }
    });
    Residency {
        idle_states: platform.idle_states.iter().map(|state| state.name.clone()).collect(),
        frequencies_hertz: platform.frequencies.iter().map(|frequency| frequency.0).collect(),
        cores: cores.collect(),
    }
}

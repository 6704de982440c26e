//! Cheapest operating point that carries a rate: the future work of Bolla et al.
//!
//! A server has at most a few hundred operating points (cores times frequencies), so the search
//! tries all of them.

pub mod trace;

use serde::Serialize;
use thiserror::Error;
use trace::Interval;
use wattline_server::bolla::BollaModel;
use wattline_server::{PacketCost, ServerModel};
use wattline_units::{Hertz, Joules, PacketsPerSecond, Span, Watts};

/// A model with operating points to choose from.
pub trait OperatingPoints {
    /// Returns the largest number of cores that can forward.
    fn cores(&self) -> usize;
    /// Returns the frequencies, ascending.
    fn frequencies(&self) -> Vec<Hertz>;
    /// Returns the highest rate of `cores` cores at the frequency with this index.
    fn capacity(&self, cores: usize, frequency: usize) -> PacketsPerSecond;
    /// Returns the power of these cores when they forward `rate`.
    fn power(&self, cores: usize, frequency: usize, rate: PacketsPerSecond) -> Watts;
    /// Returns the mean latency at the offered `rate`; `None` if the rate is not below the
    /// capacity, or if the model has no latencies.
    fn latency(&self, cores: usize, frequency: usize, rate: PacketsPerSecond) -> Option<Span>;
    /// Returns true if the model has latencies.
    fn has_latency(&self) -> bool;
}

/// A server model under packets of one kind; its active cores nap between packets.
#[derive(Debug, Clone, Copy)]
pub struct LoadedServer<'m> {
    /// The server.
    pub model: &'m ServerModel,
    /// Cost of each packet, from [`ServerModel::packet_cost`].
    pub cost: PacketCost,
    /// Length of a frame in bytes.
    pub frame_bytes: u32,
}

impl OperatingPoints for LoadedServer<'_> {
    fn cores(&self) -> usize {
        // A core without a queue stays parked.
        self.model.processor.cores().min(self.model.nic.queues_per_port)
    }
    fn frequencies(&self) -> Vec<Hertz> {
        self.model.processor.frequencies.clone()
    }
    fn capacity(&self, cores: usize, frequency: usize) -> PacketsPerSecond {
        let frequency = self.model.processor.frequencies[frequency];
        let capacity = self.model.core_capacity(self.cost, cores, frequency);
        PacketsPerSecond(capacity.0.min(self.model.link_capacity(self.frame_bytes).0))
    }
    fn power(&self, cores: usize, frequency: usize, rate: PacketsPerSecond) -> Watts {
        let point = self.model.napi_point(cores, self.model.processor.frequencies[frequency]);
        self.model.power_terms(self.cost, self.frame_bytes, &point, rate).total()
    }
    fn latency(&self, cores: usize, frequency: usize, rate: PacketsPerSecond) -> Option<Span> {
        let point = self.model.napi_point(cores, self.model.processor.frequencies[frequency]);
        self.model.mean_latency(self.cost, &point, rate).map(|latency| latency.total())
    }
    fn has_latency(&self) -> bool {
        true
    }
}

impl OperatingPoints for BollaModel {
    fn cores(&self) -> usize {
        self.gamma.len()
    }
    fn frequencies(&self) -> Vec<Hertz> {
        self.frequencies.iter().map(|point| point.frequency).collect()
    }
    fn capacity(&self, cores: usize, frequency: usize) -> PacketsPerSecond {
        self.even_capacity(cores, frequency)
    }
    fn power(&self, cores: usize, frequency: usize, rate: PacketsPerSecond) -> Watts {
        self.even_power(cores, frequency, rate)
    }
    fn latency(&self, _: usize, _: usize, _: PacketsPerSecond) -> Option<Span> {
        None
    }
    fn has_latency(&self) -> bool {
        false
    }
}

/// An operating point and its properties at the requested rate.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Choice {
    /// Number of forwarding cores.
    pub cores: usize,
    /// Frequency of the cores.
    pub frequency: Hertz,
    /// Power at the rate.
    pub power: Watts,
    /// Highest rate of the operating point.
    pub capacity: PacketsPerSecond,
    /// Mean latency at the rate; `None` without latencies, or if the rate is not below capacity.
    pub latency: Option<Span>,
}

/// Reasons for the lack of an operating point.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum Infeasible {
    /// The rate exceeds the server's highest capacity.
    #[error("{:.4} Mpps are more than the server forwards at most, {:.4} Mpps", target.mpps(), most.mpps())]
    TooFast {
        /// Requested rate.
        target: PacketsPerSecond,
        /// Highest capacity.
        most: PacketsPerSecond,
    },
    /// The rate can be carried, but not within the latency.
    #[error(
        "no operating point carries {:.4} Mpps within {:.2} us; the lowest mean latency is {:.2} us",
        target.mpps(), bound.as_seconds() * 1e6, least.as_seconds() * 1e6
    )]
    TooSlow {
        /// Requested rate.
        target: PacketsPerSecond,
        /// Requested bound on the latency.
        bound: Span,
        /// Lowest latency at that rate.
        least: Span,
    },
    /// A latency was requested, but the model has none.
    #[error(
        "this model has no latencies: leave out the latency bound, or name a full server model"
    )]
    LatencyUnknown,
}

/// Finds the cheapest operating point that carries `target`, within a mean latency if one is given.
/// Among points of equal power it returns the one with fewer cores, then with the lower frequency.
pub fn cheapest(
    server: &impl OperatingPoints,
    target: PacketsPerSecond,
    latency_bound: Option<Span>,
) -> Result<Choice, Infeasible> {
    if latency_bound.is_some() && !server.has_latency() {
        return Err(Infeasible::LatencyUnknown);
    }
    let all = choices(server, target);
    let most = all.iter().map(|choice| choice.capacity.0).fold(0.0, f64::max);
    let able = || all.iter().filter(|choice| choice.capacity >= target);
    if able().next().is_none() {
        return Err(Infeasible::TooFast { target, most: PacketsPerSecond(most) });
    }
    let within = able().filter(|choice| match (latency_bound, choice.latency) {
        (None, _) => true,
        (Some(bound), Some(latency)) => latency <= bound,
        (Some(_), None) => false,
    });
    let best = within.min_by(|a, b| a.power.0.total_cmp(&b.power.0)).copied();
    best.ok_or_else(|| match latency_bound {
        Some(bound) => Infeasible::TooSlow {
            target,
            bound,
            // At capacity the queue grows without bound, so there may be no point with a latency.
            least: able()
                .filter_map(|choice| choice.latency)
                .min()
                .unwrap_or(Span::from_picos(u64::MAX)),
        },
        None => Infeasible::TooFast { target, most: PacketsPerSecond(most) },
    })
}

/// Returns all operating points at a rate, fewer cores and lower frequencies first.
pub fn choices(server: &impl OperatingPoints, rate: PacketsPerSecond) -> Vec<Choice> {
    let frequencies = server.frequencies();
    let point = |cores: usize, index: usize| Choice {
        cores,
        frequency: frequencies[index],
        power: server.power(cores, index, rate),
        capacity: server.capacity(cores, index),
        latency: server.latency(cores, index, rate),
    };
    let frequencies = 0..frequencies.len();
    (1..=server.cores())
        .flat_map(|cores| frequencies.clone().map(move |index| (cores, index)))
        .map(|(cores, index)| point(cores, index))
        .collect()
}

/// Best operating points over a trace.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TraceChoices {
    /// One operating point per interval.
    pub choices: Vec<Choice>,
    /// Energy over the whole trace.
    pub energy: Joules,
    /// Energy over the whole trace with all cores at the highest frequency.
    pub energy_at_maximum: Joules,
    /// Duration of the trace.
    pub length: Span,
    /// Number of changes of the operating point.
    pub changes: usize,
}

/// Finds the cheapest operating point for each interval of a trace; changes are free and instant.
/// The error lists every interval that cannot be carried, with its line.
pub fn over_trace(
    server: &impl OperatingPoints,
    trace: &[Interval],
    latency_bound: Option<Span>,
) -> Result<TraceChoices, Vec<(usize, Infeasible)>> {
    let mut choices: Vec<Choice> = Vec::with_capacity(trace.len());
    let mut impossible = Vec::new();
    for interval in trace {
        match cheapest(server, interval.rate, latency_bound) {
            Ok(choice) => choices.push(choice),
            Err(why) => impossible.push((interval.line, why)),
        }
    }
    if !impossible.is_empty() {
        return Err(impossible);
    }
    let fastest = server.frequencies().len().saturating_sub(1);
    let mut result = TraceChoices {
        energy: Joules::ZERO,
        energy_at_maximum: Joules::ZERO,
        length: Span::ZERO,
        changes: 0,
        choices,
    };
    for (interval, choice) in trace.iter().zip(&result.choices) {
        result.energy += choice.power * interval.length;
        let maximum = server.power(server.cores(), fastest, interval.rate);
        result.energy_at_maximum += maximum * interval.length;
        result.length += interval.length;
    }
    let point = |choice: &Choice| (choice.cores, choice.frequency);
    result.changes =
        result.choices.windows(2).filter(|pair| point(&pair[0]) != point(&pair[1])).count();
    Ok(result)
}

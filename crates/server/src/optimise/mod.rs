//! The cheapest operating point that carries a rate: the future work of Bolla et al.
//!
//! A server has at most a few hundred operating points (cores times frequencies), so all of
//! them are tried; nothing cleverer could be cheaper or right more often.

pub mod trace;

use crate::bolla::BollaModel;
use crate::model::{PacketCost, ServerModel};
use serde::Serialize;
use thiserror::Error;
use trace::Interval;
use wattline_units::{Hertz, Joules, PacketsPerSecond, Span, Watts};

/// Something with operating points to choose from.
pub trait OperatingPoints {
    /// The most cores that can forward.
    fn cores(&self) -> usize;
    /// The frequencies, ascending.
    fn frequencies(&self) -> Vec<Hertz>;
    /// The most that `cores` cores forward at the frequency of that index.
    fn capacity(&self, cores: usize, frequency: usize) -> PacketsPerSecond;
    /// Power when they forward `rate`.
    fn power(&self, cores: usize, frequency: usize, rate: PacketsPerSecond) -> Watts;
    /// Mean latency when `rate` is offered; `None` where the rate is not below capacity or
    /// the model does not know.
    fn latency(&self, cores: usize, frequency: usize, rate: PacketsPerSecond) -> Option<Span>;
    /// Whether the model knows latencies at all.
    fn knows_latency(&self) -> bool;
}

/// A server model under packets of one kind, its active cores napping between packets.
#[derive(Debug, Clone, Copy)]
pub struct LoadedServer<'m> {
    /// The server.
    pub model: &'m ServerModel,
    /// What each packet costs, from [`ServerModel::packet_cost`].
    pub cost: PacketCost,
    /// Length of a frame in bytes.
    pub frame_bytes: u32,
}

impl OperatingPoints for LoadedServer<'_> {
    fn cores(&self) -> usize {
        self.model.processor.cores()
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
    fn knows_latency(&self) -> bool {
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
    fn knows_latency(&self) -> bool {
        false
    }
}

/// An operating point with what it does under the asked rate.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Choice {
    /// Number of forwarding cores.
    pub cores: usize,
    /// Their frequency.
    pub frequency: Hertz,
    /// Power under the rate.
    pub power: Watts,
    /// The most that it could forward.
    pub capacity: PacketsPerSecond,
    /// Mean latency under the rate, where the model knows it and the rate is below capacity.
    pub latency: Option<Span>,
}

/// Why no operating point will do.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum Infeasible {
    /// More than the server forwards at its best.
    #[error("{:.4} Mpps are more than the server forwards at most, {:.4} Mpps", target.mpps(), most.mpps())]
    TooFast {
        /// The asked rate.
        target: PacketsPerSecond,
        /// The largest capacity.
        most: PacketsPerSecond,
    },
    /// The rate can be carried, but not within the latency.
    #[error(
        "no operating point carries {:.4} Mpps within {:.2} us; the lowest mean latency is {:.2} us",
        target.mpps(), bound.as_seconds() * 1e6, least.as_seconds() * 1e6
    )]
    TooSlow {
        /// The asked rate.
        target: PacketsPerSecond,
        /// The asked latency.
        bound: Span,
        /// The lowest latency at that rate.
        least: Span,
    },
    /// A latency was asked of a model that has none.
    #[error("this model has no latencies: leave the latency bound out or name a full server model")]
    LatencyUnknown,
}

/// The cheapest operating point that carries `target`, within a mean latency if one is given.
/// Of equally cheap ones, the one with fewer cores, then the slower.
pub fn cheapest(
    server: &impl OperatingPoints,
    target: PacketsPerSecond,
    latency_bound: Option<Span>,
) -> Result<Choice, Infeasible> {
    if latency_bound.is_some() && !server.knows_latency() {
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
            // At capacity itself the queue has no end, and no point may be below it.
            least: able()
                .filter_map(|choice| choice.latency)
                .min()
                .unwrap_or(Span::from_picos(u64::MAX)),
        },
        None => Infeasible::TooFast { target, most: PacketsPerSecond(most) },
    })
}

/// Every operating point, fewer cores and lower frequencies first, under a rate.
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

/// The best operating points over a trace.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TraceChoices {
    /// One per interval.
    pub choices: Vec<Choice>,
    /// Energy over the whole trace.
    pub energy: Joules,
    /// Energy with all cores at the highest frequency throughout.
    pub energy_at_maximum: Joules,
    /// Length of the trace.
    pub length: Span,
    /// How often the operating point changes.
    pub changes: usize,
}

/// The cheapest operating point for each interval of a trace; changing it is free and takes
/// no time. Otherwise every interval that cannot be carried, with its line.
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

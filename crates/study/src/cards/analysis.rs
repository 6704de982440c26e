//! Comparisons of cards: by medium, by offload, by ports, and 1G with 10G.

use serde::Serialize;
use std::cmp::Ordering;
use wattline_server::components::{Medium, NicCard};
use wattline_units::{BitsPerSecond, Watts};

/// Idle power of the cards of one medium.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MediumPower {
    /// Medium of the links.
    pub medium: Medium,
    /// Number of cards.
    pub cards: usize,
    /// Lowest idle power among them.
    #[serde(rename = "least_idle_watts")]
    pub least: Watts,
    /// Highest idle power among them.
    #[serde(rename = "most_idle_watts")]
    pub most: Watts,
}

/// Returns the cards with at least 10 Gbit/s per link.
pub fn ten_gigabit(cards: &[NicCard]) -> Vec<&NicCard> {
    cards.iter().filter(|card| card.link.0 >= 10e9).collect()
}

/// Returns the cards with less than 10 Gbit/s per link.
pub fn one_gigabit(cards: &[NicCard]) -> Vec<&NicCard> {
    cards.iter().filter(|card| card.link.0 < 10e9).collect()
}

/// Returns the idle power by medium, lowest first; skips cards with an unknown medium or power.
pub fn by_medium(cards: &[&NicCard]) -> Vec<MediumPower> {
    let mut all: Vec<MediumPower> = [Medium::Cx4, Medium::Fibre, Medium::BaseT]
        .into_iter()
        .filter_map(|medium| {
            let of_it = cards.iter().filter(|card| card.medium == Some(medium));
            let idle: Vec<f64> = of_it.filter_map(|card| card.idle()).map(|w| w.0).collect();
            let (least, most) = bounds(&idle)?;
            Some(MediumPower { medium, cards: idle.len(), least: Watts(least), most: Watts(most) })
        })
        .collect();
    all.sort_by(|a, b| a.least.0.total_cmp(&b.least.0));
    all
}

/// Idle power of an offload engine, compared with cards without one.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OffloadPower {
    /// Name of the offload card.
    pub name: String,
    /// Ratio of its idle power to the highest of the other cards.
    pub over_next: f64,
    /// Its idle power minus the mean of the other cards.
    #[serde(rename = "above_mean_watts")]
    pub above_mean: Watts,
    /// Share of `above_mean` that its 12 V rail accounts for, 0 to 1.
    #[serde(rename = "share_of_12v_rail_ratio")]
    pub share_of_12v: f64,
}

/// Compares each offload card with known rails to the CX4 and fibre cards without offload.
pub fn offload(cards: &[&NicCard]) -> Vec<OffloadPower> {
    let rails = |card: &NicCard| Some((card.idle()?.0, card.idle_12v?.0));
    let plain: Vec<(f64, f64)> = cards
        .iter()
        .filter(|card| card.offload == Some(false) && card.medium != Some(Medium::BaseT))
        .filter_map(|card| rails(card))
        .collect();
    let Some((_, most)) = bounds(&plain.iter().map(|(idle, _)| *idle).collect::<Vec<_>>()) else {
        return Vec::new();
    };
    let count = plain.len() as f64;
    let mean_idle = plain.iter().map(|(idle, _)| idle).sum::<f64>() / count;
    let mean_12v = plain.iter().map(|(_, high)| high).sum::<f64>() / count;
    cards
        .iter()
        .filter(|card| card.offload == Some(true))
        .filter_map(|card| {
            let (idle, high) = rails(card)?;
            Some(OffloadPower {
                name: card.name.clone(),
                over_next: idle / most,
                above_mean: Watts(idle - mean_idle),
                share_of_12v: (high - mean_12v) / (idle - mean_idle),
            })
        })
        .collect()
}

/// Throughput and power of a card per port.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PortUse {
    /// Name of the card.
    pub name: String,
    /// Number of ports.
    pub ports: usize,
    /// Line rate of all ports, both directions.
    #[serde(rename = "theoretical_bits_per_second")]
    pub theoretical: BitsPerSecond,
    /// Ratio of throughput to `theoretical`, 0 to 1.
    #[serde(rename = "throughput_ratio")]
    pub share: f64,
    /// Active power per port.
    #[serde(rename = "active_watts_per_port")]
    pub watts_per_port: Watts,
}

/// Returns throughput and power per port, for cards with a known number of ports and load.
pub fn ports(cards: &[&NicCard]) -> Vec<PortUse> {
    let of = |card: &&NicCard| {
        let ports = card.ports?;
        let theoretical = card.link * (2 * ports) as f64;
        Some(PortUse {
            name: card.name.clone(),
            ports,
            theoretical,
            share: card.throughput? / theoretical,
            watts_per_port: card.active? / ports as f64,
        })
    };
    cards.iter().filter_map(of).collect()
}

/// Sorts cards by a metric, best first; skips cards without it.
pub fn ranked<'c>(
    cards: &[&'c NicCard],
    metric: impl Fn(&NicCard) -> Option<f64>,
) -> Vec<(&'c NicCard, f64)> {
    let mut all: Vec<(&NicCard, f64)> =
        cards.iter().filter_map(|card| Some((*card, metric(card)?))).collect();
    all.sort_by(|a, b| b.1.total_cmp(&a.1));
    all
}

/// Returns Spearman's rank correlation of pairs; `None` for fewer than three pairs, or if one side
/// is constant.
pub fn rank_correlation(pairs: &[(f64, f64)]) -> Option<f64> {
    if pairs.len() < 3 {
        return None;
    }
    let x = ranks(&pairs.iter().map(|pair| pair.0).collect::<Vec<_>>());
    let y = ranks(&pairs.iter().map(|pair| pair.1).collect::<Vec<_>>());
    let mean = (pairs.len() as f64 + 1.0) / 2.0;
    let product = |a: &[f64], b: &[f64]| -> f64 {
        a.iter().zip(b).map(|(a, b)| (a - mean) * (b - mean)).sum()
    };
    let scale = (product(&x, &x) * product(&y, &y)).sqrt();
    (scale > 0.0).then(|| product(&x, &y) / scale)
}

/// Returns ranks from 1; ties share their mean.
fn ranks(values: &[f64]) -> Vec<f64> {
    let rank = |value: &f64| {
        let (mut below, mut equal) = (0, 0);
        for other in values {
            match other.total_cmp(value) {
                Ordering::Less => below += 1,
                Ordering::Equal => equal += 1,
                Ordering::Greater => {}
            }
        }
        f64::from(below) + (f64::from(equal) + 1.0) / 2.0
    };
    values.iter().map(rank).collect()
}

/// Returns the lowest and highest value; `None` for an empty slice.
pub fn bounds(values: &[f64]) -> Option<(f64, f64)> {
    let first = *values.first()?;
    Some(values.iter().fold((first, first), |(low, high), v| (low.min(*v), high.max(*v))))
}

/// Finds the highest power in watts per percent of a processor at which `order` still holds for the
/// server's performance per watt, with `idle` watts, by bisection below `most`. Returns `None` if
/// it does not hold at 0, or still holds at `most`.
pub fn order_limit(
    cards: &[&NicCard],
    idle: Watts,
    most: Watts,
    order: impl Fn(&[(&NicCard, f64)]) -> bool,
) -> Option<Watts> {
    let holds = |per_percent: f64| {
        order(&ranked(cards, |card| card.server_gigabits_per_watt(idle, Watts(per_percent))))
    };
    let (mut low, mut high) = (0.0, most.0);
    if !holds(low) || holds(high) {
        return None;
    }
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if holds(middle) { low = middle } else { high = middle }
    }
    Some(Watts(low))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rank_correlation_is_none_for_few_or_constant_values() {
        let up = [(1.0, 10.0), (2.0, 11.0), (3.0, 50.0)];
        assert_eq!(rank_correlation(&up), Some(1.0));
        let down = up.map(|(x, y)| (x, -y));
        assert_eq!(rank_correlation(&down), Some(-1.0));
        assert_eq!(rank_correlation(&[(1.0, 2.0), (2.0, 2.0), (3.0, 2.0)]), None);
        assert_eq!(rank_correlation(&up[..2]), None);
        assert_eq!(ranks(&[5.0, 1.0, 5.0]), [2.5, 1.0, 2.5]);
    }
}

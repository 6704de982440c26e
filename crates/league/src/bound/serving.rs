//! Least cost of serving packets: the lower hull over cores and frequencies.

use crate::case::Case;
use crate::error::LeagueError;
use crate::hull::lower_hull;

/// Corners of the lower convex hull of packets per second and watts above the base, over all
/// numbers of serving cores and frequencies; rates rise, and rate zero is excluded.
///
/// Per-core frequencies gain nothing: rate and power of such a mixture are averages of points with
/// equal frequencies, since the shared part follows the fastest core and is linear in its
/// frequency.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Serving {
    points: Vec<(f64, f64)>,
}

/// A piece of a convex cost: a number of packets, and joules per packet.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Piece {
    pub slope: f64,
    pub width: f64,
}

impl Serving {
    /// Computes the hull for the shortest frames, which cost least.
    pub fn of(case: &Case<'_>, shortest: u32) -> Result<Self, LeagueError> {
        let (server, cost) = (case.server, case.cost(shortest)?);
        let mut points = Vec::new();
        for cores in 1..=case.cores() {
            for &frequency in &server.processor.frequencies {
                let rate = cores as f64 / server.service_seconds(cost, frequency, cores);
                let awake = server.awake_core_power(frequency).0 * cores as f64;
                points.push((rate, awake + server.power.uncore(frequency).0));
            }
        }
        points.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
        Ok(Self { points })
    }

    /// Returns the cost of a slot in which a gap costs `gap` watts: joules without a packet, and
    /// the pieces for its packets.
    pub fn slot(&self, seconds: f64, gap: f64) -> (f64, Vec<Piece>) {
        // Polling through the gap costs at most the power of the cheapest point.
        let least = self.points.iter().map(|point| point.1).fold(gap, f64::min);
        let hull = lower_hull(std::iter::once((0.0, least)).chain(self.points.iter().copied()));
        let pieces = hull.windows(2).map(|pair| Piece {
            slope: (pair[1].1 - pair[0].1) / (pair[1].0 - pair[0].0),
            width: (pair[1].0 - pair[0].0) * seconds,
        });
        (least * seconds, pieces.collect())
    }

    /// Returns the highest rate in packets per second.
    pub fn most_rate(&self) -> f64 {
        self.points.iter().map(|point| point.0).fold(0.0, f64::max)
    }

    /// Returns the highest cost of a packet: the scale of prices.
    pub fn most_joules_per_packet(&self) -> f64 {
        let (_, pieces) = self.slot(1.0, 0.0);
        pieces.last().map_or(1e-6, |piece| piece.slope.max(1e-9))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hull_lies_below_all_points_and_is_convex() {
        let serving = Serving { points: vec![(1.0, 3.0), (2.0, 4.0), (3.0, 9.0), (4.0, 9.5)] };
        let (zero, pieces) = serving.slot(1.0, 1.0);
        assert_eq!(zero, 1.0);
        assert!(pieces.windows(2).all(|pair| pair[0].slope <= pair[1].slope), "{pieces:?}");
        let at = |rate: f64| {
            let mut left = rate;
            pieces.iter().fold(zero, |sum, piece| {
                let part = left.min(piece.width);
                left -= part;
                sum + part * piece.slope
            })
        };
        for (rate, watts) in serving.points {
            assert!(at(rate) <= watts + 1e-12, "{rate} {watts}");
        }
        assert!((at(2.0) - 4.0).abs() < 1e-12 && (at(4.0) - 9.5).abs() < 1e-12);
    }

    #[test]
    fn gap_costs_no_more_than_a_polling_core() {
        let serving = Serving { points: vec![(1.0, 3.0), (2.0, 4.0)] };
        let (zero, pieces) = serving.slot(1.0, 10.0);
        assert_eq!(zero, 3.0);
        assert!(pieces.iter().all(|piece| piece.slope >= 0.0));
    }
}
